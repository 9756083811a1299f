//! A list below `conformance/suites/` of exceptions in a foreign test suite, compared with a run.
//!
//! ```text
//! because there are no sets
//! says unknown command 'sadd'
//! fails unit/type/string: MGET against non-string key
//!
//! because the time is moved by a command that only a build for debugging has
//! change t/lib/MemcachedTest.pm
//! from print $sock "debugtime $move\r\n";
//! to select undef, undef, undef, $move;
//!
//! because Larder has no slabs to move
//! not-run t/slabs_reassign.t
//!
//! because an expired item is counted until the background has removed it
//! either unit/keyspace: DBSIZE
//! ```
//!
//! Every line belongs to the reason above it. The list is checked from both sides: a failing test
//! has to be listed, and a listed test has to fail with the words of `says`; a change has to find
//! its text exactly once, and tests that are not run, or may end either way, have to exist.

use std::collections::HashMap;
use std::path::Path;

use crate::{Failure, Result, fail};

/// The bytes shown of a failed test's output.
const SHOWN_MAX: usize = 400;

/// More wrong tests than this tell nothing new.
const WRONG_MAX: usize = 40;

/// One test of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Its file and name.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// Its output about the failure.
    pub words: String,
}

/// A change to a file of the suite, without which it would not run at all.
#[derive(Debug, PartialEq)]
struct Change {
    file: String,
    from: String,
    to: String,
}

/// A list.
#[derive(Debug, Default, PartialEq)]
pub struct Listed {
    /// The tests that fail, each with what it says then.
    failing: HashMap<String, String>,
    /// Tests whose outcome depends on when the background works.
    either: Vec<String>,
    /// Files that are not run.
    not_run: Vec<String>,
    changes: Vec<Change>,
}

impl Listed {
    /// Reads a list.
    pub fn read(path: &str) -> Result<Listed> {
        parse(path, &std::fs::read_to_string(path)?)
    }

    /// Returns whether a file is listed as not run.
    pub fn leaves_out(&self, file: &str) -> bool {
        self.not_run.iter().any(|left| left == file)
    }

    /// Applies the list's changes to the files of an unpacked suite.
    pub fn change(&self, folder: &Path) -> Result {
        for change in &self.changes {
            let path = folder.join(&change.file);
            let text = std::fs::read_to_string(&path)?;
            let found = text.matches(&change.from).count();
            if found != 1 {
                let (file, from) = (&change.file, &change.from);
                return fail(format!("{file} is to be changed, and has {found} times {from:?}"));
            }
            std::fs::write(&path, text.replace(&change.from, &change.to))?;
        }
        match self.not_run.iter().find(|file| !folder.join(file).is_file()) {
            Some(file) => fail(format!("{file} is not to be run, and is not there")),
            None => Ok(()),
        }
    }

    /// Returns how many passed and how many failed as listed; fails where run and list differ.
    pub fn compare(&self, outcomes: &[Outcome]) -> Result<String> {
        let mut wrong = Vec::new();
        let mut seen = HashMap::new();
        for outcome in outcomes {
            let name = outcome.name.as_str();
            // Several tests may share a name, which has failed if one of them has.
            *seen.entry(name).or_insert(true) &= outcome.passed;
            if outcome.passed || self.either.contains(&outcome.name) {
                continue;
            }
            let words: String = outcome.words.chars().take(SHOWN_MAX).collect();
            match self.failing.get(name) {
                None => wrong.push(format!("{name}: failed: {words}")),
                Some(says) if !outcome.words.contains(says) => {
                    wrong.push(format!("{name}: failed, and did not say {says:?}: {words}"));
                }
                Some(_) => {}
            }
        }
        for name in self.failing.keys() {
            match seen.get(name.as_str()) {
                None => wrong.push(format!("{name}: listed, but there is no such test")),
                Some(true) => wrong.push(format!("{name}: listed, but does not fail any more")),
                Some(false) => {}
            }
        }
        for name in self.either.iter().filter(|name| !seen.contains_key(name.as_str())) {
            wrong.push(format!("{name}: listed, but there is no such test"));
        }
        if wrong.is_empty() {
            let sure: Vec<_> =
                outcomes.iter().filter(|outcome| !self.either.contains(&outcome.name)).collect();
            let (outcomes, either) = (sure, self.either.len());
            let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
            let passed = outcomes.len() - failed;
            let either = match either {
                0 => String::new(),
                either => format!(", {either} may end either way"),
            };
            return Ok(format!("{passed} tests, {failed} fail as listed{either}"));
        }
        let count = wrong.len();
        wrong.sort();
        wrong.truncate(WRONG_MAX);
        fail(format!("{count} not as listed\n  {}", wrong.join("\n  ")))
    }
}

fn parse(path: &str, text: &str) -> Result<Listed> {
    let mut listed = Listed::default();
    let (mut because, mut says) = ("", String::new());
    for (index, line) in text.lines().enumerate() {
        let place = |message: &str| Failure(format!("{path}:{}: {message}", index + 1));
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        if word != "because" && because.is_empty() {
            return Err(place("a line before any reason"));
        }
        let last = listed.changes.last_mut();
        match word {
            "because" => (because, says) = (rest.trim(), String::new()),
            "says" => says = rest.to_string(),
            "fails" => {
                if listed.failing.insert(rest.to_string(), says.clone()).is_some() {
                    return Err(place("listed twice"));
                }
            }
            "either" => listed.either.push(rest.to_string()),
            "not-run" => listed.not_run.push(rest.to_string()),
            "change" => {
                let (from, to) = (String::new(), String::new());
                listed.changes.push(Change { file: rest.to_string(), from, to });
            }
            "from" => last.ok_or_else(|| place("no change"))?.from = rest.to_string(),
            "to" => last.ok_or_else(|| place("no change"))?.to = rest.to_string(),
            other => return Err(place(&format!("no line starts with {other:?}"))),
        }
    }
    match listed.changes.iter().find(|change| change.from.is_empty()) {
        Some(change) => fail(format!("{path}: what is to be changed in {}?", change.file)),
        None => Ok(listed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, passed: bool) -> Outcome {
        Outcome { name: name.to_string(), passed, words: "unknown command 'x'".to_string() }
    }

    #[test]
    fn a_list_is_checked_from_both_sides() {
        let text = "because there is no x\nsays unknown command 'x'\nfails a: 1\nfails a: 2\n";
        let listed = parse("list", text).unwrap();
        let fails = |outcomes: &[Outcome]| listed.compare(outcomes).unwrap_err().0;
        let both = || [outcome("a: 1", false), outcome("a: 2", false)];
        let with = |more| both().into_iter().chain([more]).collect::<Vec<_>>();
        assert_eq!(listed.compare(&with(outcome("b", true))).unwrap(), "1 tests, 2 fail as listed");
        assert!(fails(&with(outcome("b", false))).contains("b: failed: unknown"));
        assert!(fails(&[outcome("a: 1", false)]).contains("a: 2: listed, but there is no"));
        let passes = fails(&[outcome("a: 1", false), outcome("a: 2", true)]);
        assert!(passes.contains("a: 2: listed, but does not fail"), "{passes}");
        let mut otherwise = both();
        otherwise[0].words = "a crash".to_string();
        assert!(fails(&otherwise).contains("did not say"));
    }

    #[test]
    fn a_test_that_may_end_either_way_has_to_be_there() {
        let listed = parse("list", "because of the background\neither a: 1\n").unwrap();
        for passed in [true, false] {
            let words = listed.compare(&[outcome("a: 1", passed), outcome("b", true)]).unwrap();
            assert_eq!(words, "1 tests, 0 fail as listed, 1 may end either way");
        }
        assert!(listed.compare(&[outcome("b", true)]).unwrap_err().0.contains("a: 1: listed"));
    }

    #[test]
    fn a_list_gives_reasons() {
        assert!(parse("list", "fails a\n").is_err());
        assert!(parse("list", "because b\nfails a\nfails a\n").is_err());
        assert!(parse("list", "because b\nchange file\nto x\n").is_err());
        assert!(parse("list", "because b\nfails a\nnot-run c\n").unwrap().leaves_out("c"));
    }
}
