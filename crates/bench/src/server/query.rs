//! A server's own statistics: item counts, evictions, memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Take, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::drive::encode::Dialect;
use crate::failure::{Failure, Outcome};

const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The longest answer, in bytes.
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
            let size = line(address, "DBSIZE\r\n")?;
            let info = bulk(address, "INFO stats\r\n")?;
            let digits = size.trim_start_matches(':').trim();
            let items = digits.parse().map_err(|_| Failure::Reply(format!("DBSIZE: {size}")))?;
            Ok(Counts { items, evictions: number(&colon_pairs(&info), "evicted_keys")? })
        }
    }
}

/// Returns all of memcached's `stats`.
pub fn stats(address: SocketAddr) -> Outcome<HashMap<String, String>> {
    stat_lines(address, "stats\r\n")
}

/// Returns the answer to `stats` with the name of a group.
pub fn stats_of(address: SocketAddr, group: &str) -> Outcome<HashMap<String, String>> {
    stat_lines(address, &format!("stats {group}\r\n"))
}

/// Larder's flash tier at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Items that can be found there.
    pub items: u64,
    /// Segments that are written and in use; all other stored items wait in memory.
    pub segments_written: u64,
    /// Segments collected since the start.
    pub collected: u64,
    /// Whether items from before the start are still searched.
    pub is_recovering: bool,
    /// Items from before the start that were found.
    pub recovered: u64,
    /// Reads that found damage.
    pub damaged: u64,
    /// Reads and writes that failed.
    pub io_errors: u64,
    /// Segments whose list of deletions overflowed.
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

/// Sends memcached's dialect a question that is answered in one line.
pub fn line(address: SocketAddr, question: &str) -> Outcome<String> {
    Ok(ask(address, question, |_| true)?.trim_end().to_owned())
}

/// Returns a server's version: `1.6.18`.
pub fn version(address: SocketAddr, dialect: Dialect) -> Outcome<String> {
    match dialect {
        Dialect::Text => {
            let said = line(address, "version\r\n")?;
            let version = said.strip_prefix("VERSION ").map(str::to_owned);
            version.ok_or_else(|| Failure::Reply(format!("version: {said}")))
        }
        Dialect::Resp => {
            let info = bulk(address, "INFO server\r\n")?;
            let mut said = colon_pairs(&info);
            // Redis' successors also report a version of Redis that they are compatible with.
            let version = ["valkey_version", "redis_version"].into_iter();
            let version = version.filter_map(|name| said.remove(name)).next();
            version.ok_or_else(|| Failure::Reply("the server does not tell redis_version".into()))
        }
    }
}

fn stat_lines(address: SocketAddr, question: &str) -> Outcome<HashMap<String, String>> {
    let is_refusal = |line: &str| line.split(' ').next().is_some_and(|it| it.ends_with("ERROR"));
    let text = ask(address, question, |line| line == "END" || is_refusal(line))?;
    if let Some(refusal) = text.lines().last().filter(|line| is_refusal(line)) {
        return Err(Failure::Reply(format!("{refusal} to {question:?}")));
    }
    let pairs = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn colon_pairs(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the whole number of this name.
pub fn number(pairs: &HashMap<String, String>, name: &str) -> Outcome<u64> {
    let value = pairs.get(name).and_then(|value| value.parse().ok());
    value.ok_or_else(|| Failure::Reply(format!("the server does not tell {name}")))
}

/// Sends one line and reads a bulk reply of Redis's protocol by its length: its last line differs
/// from version to version.
fn bulk(address: SocketAddr, question: &str) -> Outcome<String> {
    let mut reader = send(address, question)?;
    let mut head = String::new();
    if reader.read_line(&mut head).map_err(doing(address, question))? == 0 {
        return Err(Failure::Closed(format!(" without an answer to {question:?}")));
    }
    let length = head.strip_prefix('$').and_then(|length| length.trim_end().parse().ok());
    let length: u64 = length.ok_or_else(|| Failure::Reply(format!("{head:?} to {question:?}")))?;
    let mut answer = String::new();
    let mut body = reader.take(length);
    let read = body.read_to_string(&mut answer).map_err(doing(address, question))?;
    if (read as u64) < length {
        let part = format!(" after {read} of {length} bytes to {question:?}");
        return Err(Failure::Closed(part));
    }
    Ok(answer)
}

fn doing(address: SocketAddr, question: &str) -> impl FnOnce(std::io::Error) -> Failure {
    Failure::io(format!("asking {address} for {}", question.trim_end()))
}

/// Sends one line; returns the stream of the answer.
fn send(address: SocketAddr, question: &str) -> Outcome<Take<BufReader<TcpStream>>> {
    let mut stream = TcpStream::connect(address).map_err(doing(address, question))?;
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(doing(address, question))?;
    stream.write_all(question.as_bytes()).map_err(doing(address, question))?;
    Ok(BufReader::new(stream).take(ANSWER_BYTES_MAX))
}

/// Sends one line and reads lines up to the one that is `last`.
fn ask(address: SocketAddr, question: &str, last: impl Fn(&str) -> bool) -> Outcome<String> {
    let mut reader = send(address, question)?;
    let mut answer = String::new();
    loop {
        let start = answer.len();
        if reader.read_line(&mut answer).map_err(doing(address, question))? == 0 {
            return Err(Failure::Closed(format!(" after {answer:?} to {question:?}")));
        }
        if last(answer[start..].trim_end()) {
            return Ok(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, counts, version};
    use crate::drive::encode::Dialect;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::time::Instant;

    /// Returns the address of a server that gives these answers, one for each question.
    fn says(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("the client connects");
                let mut question = String::new();
                let asked = stream.try_clone().expect("a socket");
                BufReader::new(asked).read_line(&mut question).expect("the client asks");
                stream.write_all(answer.as_bytes()).expect("the client listens");
                // It keeps waiting, as a server does.
                std::mem::forget(stream);
            }
        });
        address
    }

    #[test]
    fn counts_are_read_from_stats() {
        let address = says(&["STAT pid 1\r\nSTAT curr_items 5\r\nSTAT evictions 2\r\nEND\r\n"]);
        let found = counts(address, Dialect::Text).expect("a valid answer");
        assert_eq!(found, Counts { items: 5, evictions: 2 });
    }

    /// Regression: Redis 6, Larder and others do not end with the last line of Redis 7, which was
    /// waited for until the timeout.
    #[test]
    fn counts_are_read_from_info_of_any_version() {
        let started = Instant::now();
        let address = says(&[":7\r\n", "$25\r\n# Stats\r\nevicted_keys:3\r\n\r\n"]);
        let found = counts(address, Dialect::Resp).expect("a valid answer");
        assert_eq!(found, Counts { items: 7, evictions: 3 });
        let refused = says(&["-ERR unknown command\r\n"]);
        assert!(counts(refused, Dialect::Resp).is_err());
        let refused = says(&["ERROR\r\n"]);
        let failure = counts(refused, Dialect::Text).expect_err("it was refused").to_string();
        assert!(failure.contains("ERROR to"), "{failure}");
        assert!(started.elapsed() < super::SILENCE_MAX, "nothing more would come");
    }

    #[test]
    fn versions_are_asked_for_in_both_dialects() {
        let address = says(&["VERSION 1.6.18\r\n"]);
        assert_eq!(version(address, Dialect::Text).expect("it says it"), "1.6.18");
        let address = says(&["$33\r\n# Server\r\nredis_version:7.0.15\r\n\r\n"]);
        assert_eq!(version(address, Dialect::Resp).expect("it says it"), "7.0.15");
        let address = says(&["$43\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n\r\n"]);
        assert_eq!(version(address, Dialect::Resp).expect("it says it"), "9.1.2");
        assert!(version(says(&["ERROR\r\n"]), Dialect::Text).is_err());
    }
}
