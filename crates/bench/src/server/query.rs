//! What a server says about itself: item counts, evictions, memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::drive::encode::Dialect;
use crate::failure::{Failure, Outcome};

const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The counts that measurements need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Items now in the cache.
    pub items: u64,
    /// Items evicted since the start.
    pub evictions: u64,
}

/// Asks a server for its counts.
pub fn counts(address: SocketAddr, dialect: Dialect) -> Outcome<Counts> {
    match dialect {
        Dialect::Text => {
            let stats = stats(address)?;
            Ok(Counts {
                items: number(&stats, "curr_items")?,
                evictions: number(&stats, "evictions")?,
            })
        }
        Dialect::Resp => {
            let size = ask(address, "DBSIZE\r\n", |line| line.starts_with(':'))?;
            let info = ask(address, "INFO stats\r\n", |line| line.starts_with("total_active"))?;
            let digits = size.trim_start_matches(':').trim();
            let items = digits.parse().map_err(|_| Failure::Reply(format!("DBSIZE: {size}")))?;
            Ok(Counts { items, evictions: number(&colon_pairs(&info), "evicted_keys")? })
        }
    }
}

/// All of memcached's `stats`.
pub fn stats(address: SocketAddr) -> Outcome<HashMap<String, String>> {
    stat_lines(address, "stats\r\n")
}

/// What `stats` and the name of a group tell.
pub fn stats_of(address: SocketAddr, group: &str) -> Outcome<HashMap<String, String>> {
    stat_lines(address, &format!("stats {group}\r\n"))
}

/// Larder's flash tier at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Items that can be found there.
    pub items: u64,
    /// Segments that are written and in use: what else is stored waits in memory.
    pub segments_written: u64,
    /// Segments that were collected, since the start.
    pub collected: u64,
    /// Whether items from before the start are still looked for.
    pub is_recovering: bool,
    /// Items from before the start that were found.
    pub recovered: u64,
    /// Reads that found damage.
    pub damaged: u64,
    /// Reads and writes that failed.
    pub io_errors: u64,
    /// Segments whose list of what was forgotten ran over.
    pub distrusted: u64,
}

/// Asks Larder for its flash tier's counts.
pub fn flash_counts(address: SocketAddr) -> Outcome<FlashCounts> {
    let stats = stats_of(address, "flash")?;
    Ok(FlashCounts {
        items: number(&stats, "items")?,
        segments_written: number(&stats, "segments_written")?,
        collected: number(&stats, "collected")?,
        is_recovering: number(&stats, "recovering")? > 0,
        recovered: number(&stats, "recovered")?,
        damaged: number(&stats, "damaged")?,
        io_errors: number(&stats, "io_errors")?,
        distrusted: number(&stats, "distrusted")?,
    })
}

/// Asks memcached's dialect for one thing that is answered in one line.
pub fn line(address: SocketAddr, question: &str) -> Outcome<String> {
    Ok(ask(address, question, |_| true)?.trim_end().to_owned())
}

fn stat_lines(address: SocketAddr, question: &str) -> Outcome<HashMap<String, String>> {
    let text = ask(address, question, |line| line == "END")?;
    let pairs = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn colon_pairs(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The whole number of this name.
pub fn number(pairs: &HashMap<String, String>, name: &str) -> Outcome<u64> {
    let value = pairs.get(name).and_then(|value| value.parse().ok());
    value.ok_or_else(|| Failure::Reply(format!("the server does not tell {name}")))
}

/// Sends one line and reads lines up to the one that is `last`.
fn ask(address: SocketAddr, question: &str, last: impl Fn(&str) -> bool) -> Outcome<String> {
    let doing = || Failure::io(format!("asking {address} for {}", question.trim_end()));
    let mut stream = TcpStream::connect(address).map_err(doing())?;
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(doing())?;
    stream.write_all(question.as_bytes()).map_err(doing())?;
    let mut reader = BufReader::new(stream).take(ANSWER_BYTES_MAX);
    let mut answer = String::new();
    loop {
        let start = answer.len();
        if reader.read_line(&mut answer).map_err(doing())? == 0 {
            return Err(Failure::Reply(format!("{:?} to {question:?}", answer)));
        }
        if last(answer[start..].trim_end()) {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, counts};
    use crate::drive::encode::Dialect;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn counts_are_read_from_stats() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the client connects");
            let mut question = [0; 7];
            stream.read_exact(&mut question).expect("the client asks");
            let answer = b"STAT pid 1\r\nSTAT curr_items 5\r\nSTAT evictions 2\r\nEND\r\n";
            stream.write_all(answer).expect("the client listens");
        });
        let found = counts(address, Dialect::Text).expect("a valid answer");
        assert_eq!(found, Counts { items: 5, evictions: 2 });
        server.join().expect("the server does not panic");
    }
}
