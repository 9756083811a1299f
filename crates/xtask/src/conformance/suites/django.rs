//! Django's own tests of its cache backends, run by Django's runner as its authors run them against
//! memcached and Redis. Each backend has a server of its own, since each test empties it at the
//! end, and all of them run at once: the tests mostly wait for keys to expire.
//!
//! `conformance/python/django_settings.py` defines the runner's output.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::super::server::Server;
use super::super::{Bench, Ended, redis};
use super::listed::{Listed, Outcome};
use crate::command::Run;
use crate::install::{DJANGO, VENV};
use crate::{Result, fail};

const LIST: &str = "conformance/suites/django.txt";

/// The class of a backend's tests, its name among Django's backends, and whether it uses Redis'
/// protocol.
const BACKENDS: &[(&str, &str, bool)] = &[
    ("PyMemcacheCacheTests", "memcached.PyMemcacheCache", false),
    ("PyLibMCCacheTests", "memcached.PyLibMCCache", false),
    ("RedisCacheTests", "redis.RedisCache", true),
];

const LIMIT: Duration = Duration::from_secs(120);

/// Runs them.
pub fn own_tests(bench: &Bench) -> Result<Ended> {
    if !Path::new(DJANGO).join("unpacked").is_file() {
        return Ok(Ended::NotRun("Django's tests are not there (cargo xtask install)".to_string()));
    }
    let listed = Listed::read(LIST)?;
    let start = |_| redis::start(bench, "-m 64");
    let servers = BACKENDS.iter().map(start).collect::<Result<Vec<_>>>()?;
    let played: Vec<Result<Vec<Outcome>>> = thread::scope(|scope| {
        let play = |(backend, server)| scope.spawn(move || play(backend, server));
        let playing: Vec<_> = BACKENDS.iter().zip(&servers).map(play).collect();
        playing.into_iter().map(|thread| thread.join().expect("the thread goes on")).collect()
    });
    let mut outcomes = Vec::new();
    for played in played {
        outcomes.extend(played?);
    }
    Ok(Ended::Passed(listed.compare(&outcomes)?))
}

/// Returns the outcomes of one backend's tests.
fn play(
    &(class, backend, is_redis): &(&str, &str, bool),
    (server, redis_port): &(Server, u16),
) -> Result<Vec<Outcome>> {
    let location = match is_redis {
        true => format!("redis://127.0.0.1:{redis_port}"),
        false => server.address(),
    };
    let interpreter = std::path::absolute(format!("{VENV}/bin/python"))?;
    let run = Run::new(&interpreter.to_string_lossy())
        .args("runtests.py --settings=django_settings --parallel=1 --verbosity=0")
        .arg(format!("cache.tests.{class}"))
        .env("PYTHONPATH", std::path::absolute("conformance/python")?)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LARDER_BACKEND", backend)
        .env("LARDER_LOCATION", location);
    // The runner exits with a failure wherever a test fails, listed or not.
    let (_, text) = run.folder(&format!("{DJANGO}/tests")).output(LIMIT)?;
    let outcomes = outcomes(&text);
    let count = outcomes.iter().filter(|outcome| outcome.name.starts_with(class)).count();
    // A run that broke off lacks its summary.
    if count == 0 || !text.contains("\nRan ") {
        return fail(format!("{class} did not come to its end:\n{text}"));
    }
    Ok(outcomes)
}

/// Parses lines such as `ok NAME` and `failed NAME: WORDS`.
fn outcomes(text: &str) -> Vec<Outcome> {
    let outcome = |line: &str| {
        let (name, words, passed) = match line.strip_prefix("ok ") {
            Some(name) => (name, "", true),
            None => {
                let (name, words) = line.strip_prefix("failed ")?.split_once(": ")?;
                (name, words, false)
            }
        };
        Some(Outcome { name: name.to_string(), passed, words: words.to_string() })
    };
    text.lines().filter_map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_line_by_line() {
        let text = "Testing against Django\nok A.b\nfailed A.d: Error: of a: b\n\nRan 2 tests\n";
        let read = outcomes(text);
        let read: Vec<_> = read
            .iter()
            .map(|read| (read.name.as_str(), read.passed, read.words.as_str()))
            .collect();
        assert_eq!(read, [("A.b", true, ""), ("A.d", false, "Error: of a: b")]);
    }
}
