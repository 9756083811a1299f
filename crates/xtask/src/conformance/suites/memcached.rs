//! memcached's own tests of its protocols and options, in Perl, each of which starts a server of
//! its own.
//!
//! They look for `memcached-debug` in their working folder, and start it through `timedrun`. Here
//! both are scripts of a few lines: one starts Larder, without the UDP port that the tests always
//! ask for; the other makes a server end with the test that started it. Every file is run or listed
//! in `conformance/suites/memcached.txt`, which lists the failing tests as well.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use super::super::{Bench, Ended};
use super::listed::{Listed, Outcome};
use super::unpacked;
use crate::command::{Run, find};
use crate::{Failure, Result, fail, sources};

const LIST: &str = "conformance/suites/memcached.txt";

/// Files that are run at a time; mostly they wait for a server to start.
const AT_A_TIME: usize = 4;

/// The time limit of a file, which takes seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// The most bytes of a name, which may hold a whole value.
const NAME_MAX: usize = 70;

/// Runs them.
pub fn own_tests(bench: &Bench) -> Result<Ended> {
    if find("perl").is_none() || !sources::has("memcached") {
        let words = "memcached's source is not there (cargo xtask install)";
        return Ok(Ended::NotRun(words.to_string()));
    }
    let listed = Listed::read(LIST)?;
    let folder = unpacked("memcached", "t", &listed)?;
    scripts(bench, &folder)?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.join("t"))? {
        let name = format!("t/{}", entry?.file_name().to_string_lossy());
        if name.ends_with(".t") && !listed.leaves_out(&name) {
            files.push(name);
        }
    }
    files.sort();
    let count = files.len();
    let outcomes = run(&folder, files)?;
    let words = listed.compare(&outcomes)?;
    Ok(Ended::Passed(format!("{words}, in {count} files")))
}

fn scripts(bench: &Bench, folder: &Path) -> Result {
    let server = std::fs::canonicalize(&bench.options.server.path)?;
    let debug = format!(
        "#!/bin/bash\nkept=()\nwhile [ $# -gt 0 ]; do\n  if [ \"$1\" = -U ]; then shift; else \
         kept+=(\"$1\"); fi\n  shift\ndone\nexec '{}' \"${{kept[@]}}\"\n",
        server.display()
    );
    let timed = "#!/bin/sh\nshift\nexec setpriv --pdeathsig KILL \"$@\"\n";
    for (name, text) in [("memcached-debug", debug.as_str()), ("timedrun", timed)] {
        let path = folder.join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Runs all files, some at a time.
fn run(folder: &Path, files: Vec<String>) -> Result<Vec<Outcome>> {
    let left = Mutex::new(files);
    let done: Mutex<Result<Vec<Outcome>>> = Mutex::new(Ok(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some(file) = left.lock().expect("nothing panics here").pop() else {
                        return;
                    };
                    let played = file_of_tests(folder, &file);
                    let mut done = done.lock().expect("nothing panics here");
                    match (&mut *done, played) {
                        (Ok(outcomes), Ok(played)) => outcomes.extend(played),
                        (_, Err(failure)) => *done = Err(failure),
                        (Err(_), Ok(_)) => {}
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(|_| Err(Failure("a file of tests was lost".to_string())))
}

fn file_of_tests(folder: &Path, file: &str) -> Result<Vec<Outcome>> {
    let run = Run::new("perl").arg(file).folder(&folder.to_string_lossy());
    let (_, text) = run.output(LIMIT)?;
    let output = folder.join(file).with_extension("output");
    std::fs::write(output, &text)?;
    match played(file, &text) {
        Some(outcomes) => Ok(outcomes),
        None => {
            let from = text.len().saturating_sub(500);
            let tail = text.get(from..).unwrap_or(&text);
            fail(format!("{file} does not say how many tests it has, or has none:\n{tail}"))
        }
    }
}

/// Returns the tests of a file, by their numbers and names, and one more: that it ran as many as it
/// announced. `None` where the file runs none.
///
/// ```text
/// 1..2
/// ok 1 - stored foo
/// not ok 2 - foo == 'fooval'
/// #   Failed test ...
/// ```
fn played(file: &str, text: &str) -> Option<Vec<Outcome>> {
    let mut planned = None;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in text.lines() {
        let test = [("ok ", true), ("not ok ", false)];
        let test = test.into_iter().find_map(|(mark, passed)| {
            let (number, name) = split_number(line.strip_prefix(mark)?)?;
            Some((number, name, passed))
        });
        if let Some((number, name, passed)) = test {
            let name: String = name.chars().take(NAME_MAX).collect();
            let name = format!("{file} {number}: {name}").trim_end().to_string();
            outcomes.push(Outcome { name, passed, words: String::new() });
        } else if let Some(plan) = line.strip_prefix("1..") {
            planned = plan.split(' ').next()?.parse::<usize>().ok();
        } else if let Some(last) = outcomes.last_mut() {
            last.words.push_str(line);
            last.words.push('\n');
        }
    }
    let planned = planned.filter(|planned| *planned > 0)?;
    let ran = outcomes.len();
    let words = format!("{ran} of {planned} tests ran");
    outcomes.push(Outcome { name: format!("{file}: all of it"), passed: ran == planned, words });
    Some(outcomes)
}

/// Splits off the number at the beginning, and the name behind ` - ` if there is one.
fn split_number(text: &str) -> Option<(usize, &str)> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, rest.strip_prefix(" - ").unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_output_is_read() {
        let text = "1..3\nlarder: a note\nok 1 - stored foo\nnot ok 2\n#   Failed\n";
        let played = played("t/a.t", text).unwrap();
        let lines: Vec<_> = played
            .iter()
            .map(|outcome| (outcome.name.as_str(), outcome.passed, outcome.words.as_str()))
            .collect();
        let wanted = [
            ("t/a.t 1: stored foo", true, ""),
            ("t/a.t 2:", false, "#   Failed\n"),
            ("t/a.t: all of it", false, "2 of 3 tests ran"),
        ];
        assert_eq!(lines, wanted);
        assert!(super::played("t/a.t", "1..0 # SKIP there is no UDP\n").is_none());
    }
}
