//! Redis' own tests of strings, expiry and related commands, run by Redis' runner in its mode for
//! an external server.
//!
//! All tests of a unit are run, including those of functions that Larder lacks:
//! `conformance/suites/redis.txt` lists them, and how they fail. Only tests that the runner itself
//! leaves out, by their tags, do not count: those that need DEBUG or replication, several
//! databases, or a server that the runner has started itself.

use std::time::Duration;

use super::super::{Bench, Ended, redis};
use super::listed::{Listed, Outcome};
use super::unpacked;
use crate::command::{Run, find};
use crate::{Result, fail, sources};

const LIST: &str = "conformance/suites/redis.txt";

/// The files of tests for functions that Larder has.
const UNITS: &[&str] = &[
    "unit/type/string",
    "unit/type/incr",
    "unit/expire",
    "unit/keyspace",
    "unit/scan",
    "unit/protocol",
    "unit/quit",
    "unit/other",
    "unit/introspection-2",
];

/// Room for the largest value of the tests.
const OPTIONS: &str = "-m 256 -I 8m";

const LIMIT: Duration = Duration::from_secs(240);

/// Runs them.
pub fn own_tests(bench: &Bench) -> Result<Ended> {
    if find("tclsh").is_none() || !sources::has("redis") {
        return Ok(Ended::NotRun("Redis' source is not there (cargo xtask install)".to_string()));
    }
    let listed = Listed::read(LIST)?;
    let folder = unpacked("redis", "tests", &listed)?;
    let (_server, port) = redis::start(bench, OPTIONS)?;
    // `--durable`: a failure of one test must not keep the others of its file from running.
    let run = Run::new("tclsh tests/test_helper.tcl --durable --singledb --ignore-encoding")
        .arg("--ignore-digest")
        .arg("--tags")
        .arg("-needs:debug -needs:repl")
        .arg("--host")
        .arg("127.0.0.1")
        .arg("--port")
        .arg(port.to_string());
    let run = UNITS.iter().fold(run, |run, unit| run.arg("--single").arg(unit));
    // The runner exits with a failure wherever a test fails, listed or not.
    let (_, text) = run.folder(&folder.to_string_lossy()).output(LIMIT)?;
    std::fs::write(folder.join("output"), &text)?;
    let played = played(&text);
    if let Some(unit) = UNITS.iter().find(|unit| !played.units.contains(*unit)) {
        let output = folder.join("output");
        return fail(format!("{unit} did not come to its end: {}", output.display()));
    }
    let words = listed.compare(&played.outcomes)?;
    Ok(Ended::Passed(format!("{words}, {} not for such a server", played.ignored)))
}

#[derive(Default)]
struct Played<'a> {
    outcomes: Vec<Outcome>,
    /// Units that ran to their end.
    units: Vec<&'a str>,
    /// Tests that the runner left out because of their tags.
    ignored: usize,
}

/// Parses the runner's output.
///
/// ```text
/// Testing unit/expire
/// [ok]: NAME (0 ms)
/// [err]: NAME in tests/unit/expire.tcl
/// what it was
/// [ignore]: NAME: Tag: needs:debug denied
/// [3/9 done]: unit/expire (16 seconds)
/// ```
fn played(text: &str) -> Played<'_> {
    let mut played = Played::default();
    let mut unit = "";
    let mut is_failure = false;
    // Colour codes surround words.
    for line in text.lines() {
        let plain = plain(line);
        if plain.contains("The following tests failed:") {
            break;
        }
        let (mark, rest) = match plain.split_once("]: ") {
            Some((mark, rest)) if mark.starts_with('[') => (&mark[1..], rest),
            _ => ("", plain.as_str()),
        };
        if is_failure && mark.is_empty() {
            let last = played.outcomes.last_mut().expect("a failure came before");
            last.words.push_str(rest);
            last.words.push('\n');
            continue;
        }
        is_failure = mark == "err";
        let name = match mark {
            "ok" => rest.rsplit_once(" (").map_or(rest, |(name, _)| name),
            "err" => rest.split_once(" in tests/").map_or(rest, |(name, _)| name),
            "ignore" => {
                played.ignored += 1;
                continue;
            }
            done if done.ends_with(" done") => {
                let ended = UNITS.iter().find(|unit| rest.split(' ').next() == Some(unit));
                played.units.extend(ended);
                continue;
            }
            _ => {
                let begun = rest.strip_prefix("Testing ").unwrap_or("");
                unit = UNITS.iter().find(|unit| **unit == begun).unwrap_or(&unit);
                continue;
            }
        };
        let name = format!("{unit}: {name}");
        played.outcomes.push(Outcome { name, passed: mark == "ok", words: String::new() });
    }
    played
}

/// Returns a line without colour codes.
fn plain(line: &str) -> String {
    let mut pieces = line.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or("").to_string();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_output_is_read() {
        let text = "Starting test server at port 21079\n[ready]: 323\n\
                    \u{1b}[1;37;49mTesting unit/quit\u{1b}[0m\n\
                    [\u{1b}[0;32;49mok\u{1b}[0m]: A (b) c (12 ms)\n\
                    [\u{1b}[0;31;49merr\u{1b}[0m]: D in tests/unit/quit.tcl\nERR no\nmore\n\
                    [\u{1b}[0;36;49mignore\u{1b}[0m]: E: Tag: needs:debug denied\n\
                    [1/1 \u{1b}[0;33;49mdone\u{1b}[0m]: unit/quit (0 seconds)\n\
                    !!! WARNING The following tests failed:\n\n*** [err]: D in x\n";
        let played = played(text);
        assert_eq!((played.units, played.ignored), (vec!["unit/quit"], 1));
        let [first, second] = &played.outcomes[..] else { panic!("{:?}", played.outcomes) };
        assert_eq!((first.name.as_str(), first.passed), ("unit/quit: A (b) c", true));
        assert_eq!((second.name.as_str(), second.passed), ("unit/quit: D", false));
        assert_eq!(second.words, "ERR no\nmore\n");
    }
}
