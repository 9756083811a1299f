//! `larder-bench record`: an anonymous trace from a running server.
//!
//! The server reports its requests, line by line, to every client that sends `watch fetchers
//! mutations deletions`; `line` parses them, and they are written as a trace in Twitter's format as
//! they come. Any memcached can be recorded; older ones do not know `deletions` and are asked
//! without it.
//!
//! **What leaves the server's machine.** Keys are hashed with a secret that is drawn for each run
//! and never written, so nobody can find a key by hashing guesses, and two recordings cannot be
//! joined. Visible are each key's length, the sizes, the seconds, and which requests were for the
//! same key. A share of the keys is kept with all their requests, by the same kind of hash.
//!
//! **The cost for the server.** A line for each request, through a bounded buffer: a server that is
//! too busy drops lines. Larder reports their number in the stream; memcached does so for lines
//! that the watcher was too slow for, and counts those that its own buffers had no room for in its
//! statistics, which are read before and after. The recording ends after its seconds or its
//! requests, whichever comes first.
//!
//! memcached looks an item up before it changes or removes it and reports that as a get, so its
//! traces have one get more for each such request; Larder's do not.

mod line;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::output::Output;
use super::source::LINE_BYTES_MAX;
use super::twitter;
use crate::arguments::share;
use crate::failure::{Failure, Outcome};
use crate::say;
use crate::server::query;
use line::Line;

/// The watches to try, the most comprehensive first.
const WATCHED: [&str; 2] = ["fetchers mutations deletions", "fetchers mutations"];
/// Time for a server to accept and to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How often the clock is read while the server is silent.
const SILENCE: Duration = Duration::from_millis(100);

/// Captures an anonymous trace from a running server, by memcached's `watch`.
#[derive(Debug, Args)]
pub struct RecordOptions {
    /// The server's address.
    #[arg(long, default_value = "127.0.0.1:11211")]
    server: SocketAddr,
    /// Seconds to record.
    #[arg(long, value_name = "N", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=604_800))]
    seconds: u64,
    /// End earlier, after this many requests.
    #[arg(long, value_name = "N", default_value_t = 100_000_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Keep only this share of the keys, each with all its requests.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = share)]
    sample: f64,
    /// The new file, in Twitter's format; compressed if its name ends in .zst.
    output: PathBuf,
}

/// The results of a recording.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Recorded {
    /// Requests in the file.
    requests: u64,
    /// Requests for keys outside the sample.
    outside_sample: u64,
    /// Lines that the server dropped because they came too fast.
    skipped_by_server: u64,
    /// Lines that had no room in the server's own buffers, if it counts them.
    dropped_by_server: Option<u64>,
    /// Lines that are no request of a known kind.
    not_understood: u64,
    /// The watch that the server accepted.
    watched: String,
    /// Whether the server ended the connection before the recording was over.
    server_left: bool,
}

/// Runs the command.
pub fn run(options: &RecordOptions) -> Outcome<()> {
    let mut output = Output::create(&options.output)?;
    let dropped_before = dropped(options.server);
    let mut recorded = record(options, &mut output)?;
    output.finish()?;
    recorded.dropped_by_server = dropped(options.server)
        .zip(dropped_before)
        .map(|(after, before)| after.saturating_sub(before));
    say::out(serde_json::to_string_pretty(&recorded).expect("counts are data"))?;
    let lost = recorded.skipped_by_server + recorded.dropped_by_server.unwrap_or(0);
    if lost > 0 {
        let advice = "record in a quieter time";
        eprintln!("the server left out {lost} lines, so the trace has gaps: {advice}");
    }
    if recorded.not_understood > 0 {
        eprintln!("{} lines were of no kind known here, and left out", recorded.not_understood);
    }
    Ok(())
}

fn record(options: &RecordOptions, output: &mut Output) -> Outcome<Recorded> {
    let (mut lines, watched) = watch(options.server)?;
    let names = Names::new(options.sample);
    let mut recorded = Recorded { watched: watched.to_owned(), ..Recorded::default() };
    let mut first_time_s = None;
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let mut text = Vec::new();
    while recorded.requests < options.limit {
        let line = match lines.next(deadline)? {
            Next::Line(line) => line,
            Next::Over => break,
            Next::Left => {
                recorded.server_left = true;
                break;
            }
        };
        match line::parse(line) {
            Line::Skipped(lines) => recorded.skipped_by_server += lines,
            Line::Other => recorded.not_understood += 1,
            Line::Request { key, time_s, mut request } => {
                let Some(name) = names.of(&key) else {
                    recorded.outside_sample += 1;
                    continue;
                };
                let since = time_s.saturating_sub(*first_time_s.get_or_insert(time_s));
                request.time_s = u32::try_from(since).unwrap_or(u32::MAX);
                text.clear();
                twitter::line(&request, name.as_bytes(), &mut text);
                output.put(&text)?;
                recorded.requests += 1;
            }
        }
    }
    Ok(recorded)
}

/// Returns the lines that memcached's buffers had no room for since its start. Servers without such
/// a buffer report no number.
fn dropped(server: SocketAddr) -> Option<u64> {
    query::stats(server).ok()?.get("log_worker_dropped")?.parse().ok()
}

/// Secret names of keys, different for every run.
struct Names {
    naming: RandomState,
    sampling: RandomState,
    sample_end: u64,
}

impl Names {
    fn new(sample: f64) -> Names {
        // A share of 1 becomes the highest number, and no hash is above that.
        let sample_end = (sample * u64::MAX as f64) as u64;
        Names { naming: RandomState::new(), sampling: RandomState::new(), sample_end }
    }

    /// Returns the name of a key, if it is in the sample.
    fn of(&self, key: &[u8]) -> Option<String> {
        let is_in_sample = self.sampling.hash_one(key) <= self.sample_end;
        is_in_sample.then(|| format!("{:016x}", self.naming.hash_one(key)))
    }
}

/// Asks the server to report its requests.
fn watch(server: SocketAddr) -> Outcome<(Lines, &'static str)> {
    let mut answer = String::new();
    for watched in WATCHED {
        let connecting = || Failure::io(format!("asking {server} what it does"));
        let mut stream = TcpStream::connect_timeout(&server, ANSWER_MAX).map_err(connecting())?;
        stream.set_read_timeout(Some(SILENCE)).map_err(connecting())?;
        stream.write_all(format!("watch {watched}\r\n").as_bytes()).map_err(connecting())?;
        let mut lines = Lines { input: BufReader::new(stream), line: Vec::new(), is_whole: true };
        answer = match lines.next(Instant::now() + ANSWER_MAX)? {
            Next::Line(line) => String::from_utf8_lossy(line).into_owned(),
            Next::Over => "nothing".to_owned(),
            Next::Left => "an end of the connection".to_owned(),
        };
        if answer == "OK" {
            return Ok((lines, watched));
        }
    }
    Err(Failure::Reply(format!("{server} answers `watch {}` with {answer}", WATCHED[1])))
}

/// The lines of the stream.
struct Lines {
    input: BufReader<TcpStream>,
    line: Vec<u8>,
    /// The line was returned, so the next one begins.
    is_whole: bool,
}

enum Next<'l> {
    Line(&'l [u8]),
    Over,
    Left,
}

impl Lines {
    /// Returns the next line, unless the deadline or the end of the connection comes first.
    fn next(&mut self, deadline: Instant) -> Outcome<Next<'_>> {
        if std::mem::take(&mut self.is_whole) {
            self.line.clear();
        }
        loop {
            if Instant::now() >= deadline {
                return Ok(Next::Over);
            }
            let Some(room) = LINE_BYTES_MAX.checked_sub(self.line.len() as u64 + 1) else {
                return Err(Failure::Reply("a line of `watch` does not end".into()));
            };
            match self.input.by_ref().take(room + 1).read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => {
                    self.is_whole = true;
                    let line = self.line.trim_ascii_end();
                    return Ok(Next::Line(line));
                }
                // A read shorter than the buffer: the stream has ended.
                Ok(read) if read as u64 <= room => return Ok(Next::Left),
                Ok(_) => {}
                Err(error) if is_silence(&error) => {}
                Err(error) => return Err(Failure::io("reading what the server does")(error)),
            }
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::{Names, RecordOptions, Recorded, record};
    use crate::failure::Outcome;
    use crate::trace::format::{self, Format};
    use crate::trace::output::Output;
    use crate::trace::testing::Folder;
    use crate::trace::{Operation, Trace};
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    /// Records from a server that answers `watch` with `OK` and the script.
    fn recorded(
        folder: &Folder,
        knows: &'static str,
        script: &'static str,
        (limit, sample): (u64, f64),
    ) -> Outcome<(Recorded, Option<Trace>)> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        let serving = thread::spawn(move || {
            loop {
                let (mut stream, _) = listener.accept().expect("a watcher");
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).expect("a command");
                if line.trim_end() == format!("watch {knows}") {
                    stream.write_all(b"OK\r\n").expect("it listens");
                    // Cut in the middle, so that lines arrive in pieces.
                    let (one, two) = script.split_at(script.len() / 2);
                    stream.write_all(one.as_bytes()).expect("it listens");
                    stream.write_all(two.as_bytes()).expect("it listens");
                    return;
                }
                stream.write_all(b"ERROR\r\n").expect("it listens");
            }
        });
        let output = folder.path("trace.csv.zst");
        let options = RecordOptions { server, seconds: 5, limit, sample, output };
        let mut file = Output::create(&options.output)?;
        let found = record(&options, &mut file)?;
        file.finish()?;
        serving.join().expect("the script was sent");
        let trace = format::read(&options.output, Some(Format::Twitter), None).ok();
        Ok((found, trace))
    }

    const SCRIPT: &str = "\
        ts=1000.5 gid=1 type=item_get key=user%3A1 status=not_found clsid=0 cfd=9 size=0\n\
        ts=1000.6 gid=2 type=item_store key=user%3A1 status=stored cmd=set ttl=60 size=100\n\
        skipped=7\n\
        ts=1003.1 gid=3 type=item_get key=user%3A1 status=found clsid=2 cfd=9 size=100\n\
        ts=1003.2 gid=4 type=proxy_req elapsed=1\n\
        ts=1003.3 gid=5 type=item_get key=b status=not_found clsid=0 cfd=9 size=0\n";

    #[test]
    fn a_servers_stream_becomes_a_trace_without_its_keys() {
        let folder = Folder::new();
        let all = (u64::MAX, 1.0);
        let (found, trace) = recorded(&folder, super::WATCHED[0], SCRIPT, all).expect("it answers");
        let wanted = Recorded {
            requests: 4,
            outside_sample: 0,
            skipped_by_server: 7,
            dropped_by_server: None,
            not_understood: 1,
            watched: super::WATCHED[0].into(),
            server_left: true,
        };
        assert_eq!(found, wanted);
        let requests = trace.expect("a whole file").requests;
        let (get, set) = (Operation::Get, Operation::Set);
        let seen: Vec<_> = requests
            .iter()
            .map(|it| (it.time_s, it.object, it.operation, it.key_bytes, it.value_bytes, it.ttl_s))
            .collect();
        let user = 0;
        assert_eq!(
            seen,
            [
                (0, user, get, 6, 0, 0),
                (0, user, set, 6, 100, 60),
                (3, user, get, 6, 100, 0),
                (3, 1, get, 1, 0, 0),
            ]
        );
        let text = zstd::decode_all(
            std::fs::File::open(folder.path("trace.csv.zst")).expect("it was written"),
        );
        let text = String::from_utf8(text.expect("whole")).expect("it is text");
        assert!(!text.contains("user"), "{text}");
    }

    #[test]
    fn a_server_that_knows_no_deletions_is_asked_without() {
        let folder = Folder::new();
        let (found, trace) =
            recorded(&folder, super::WATCHED[1], SCRIPT, (2, 1.0)).expect("it answers");
        assert_eq!((found.requests, found.server_left), (2, false));
        assert_eq!(found.watched, super::WATCHED[1]);
        assert_eq!(trace.map(|trace| trace.requests.len()), Some(2));
    }

    #[test]
    fn a_server_that_refuses_leaves_no_file() {
        let folder = Folder::new();
        let failure = recorded(&folder, "nothing", "", (1, 1.0)).expect_err("it refuses");
        assert!(failure.to_string().contains("ERROR"), "{failure}");
        assert_eq!(folder.names(), Vec::<String>::new());
    }

    #[test]
    fn names_hide_keys_and_a_sample_keeps_whole_keys() {
        let (one, other) = (Names::new(1.0), Names::new(1.0));
        assert_eq!(one.of(b"a"), one.of(b"a"));
        assert_ne!(one.of(b"a"), one.of(b"b"));
        assert_ne!(one.of(b"a"), other.of(b"a"), "each run has its own secret");
        let part = Names::new(0.1);
        let keys: Vec<Vec<u8>> = (0..20_000u32).map(|key| key.to_le_bytes().to_vec()).collect();
        let kept = keys.iter().filter(|key| part.of(key).is_some()).count();
        // Seven standard deviations: the secret is not seeded.
        assert!(kept.abs_diff(2000) < 300, "{kept}");
        assert!(keys.iter().all(|key| part.of(key).is_some() == part.of(key).is_some()));
    }
}
