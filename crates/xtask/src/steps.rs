//! The stages of `cargo xtask test`, and the chores that are a few commands each.
//!
//! Stages go from quick to slow, so that a careless change fails within a minute or two. The first
//! failure ends the run. The last line counts every client and check of the conformance suite as
//! one, and every other step as one.

use std::time::{Duration, Instant};

use crate::command::{Run, find};
use crate::tally::{Count, Ran, Stage, Step, Tally};
use crate::{Result, admin, beside, conformance, deploy, fail, install, own_tests, tidy as rules};

const STAGES: &[Stage] = &[
    Stage {
        lanes: &[
            &[
                ("format", || one(Run::new("cargo fmt --all --check").run())),
                ("clippy", || one(clippy())),
                ("tidy", || one(tidy())),
            ],
            &[("install", || one(install::all()))],
        ],
        niceness: 0,
    },
    Stage {
        lanes: &[
            &[("tests", own_tests::run)],
            // Each model has one thread, and so has the end of the release build, which takes
            // longest: run after the tests it would leave a core idle.
            &[
                ("dependencies", || dependencies().map(Ran::count)),
                ("deploy", deploy::check),
                ("loom", || loom().map(Ran::count)),
                ("release", || one(release())),
            ],
        ],
        niceness: 0,
    },
    Stage {
        lanes: &[
            &[
                ("conformance", || {
                    let report = conformance::run(&conformance::Options::default())?;
                    let (passed, failed) = (report.passed(), report.failed());
                    Ok(Count { passed, failed, notes: report.that_did_not_pass() })
                }),
                ("admin", || admin::all(None)),
                ("comparison", || comparison().map(Ran::count)),
            ],
            &[
                ("bench", || one(own_tests::bench())),
                ("papers", || one(own_tests::papers())),
                ("restarts", || one(restarts())),
                ("memory-limit", || one(memory_limit())),
                ("miri", || miri().map(Ran::count)),
            ],
        ],
        // Conformance, where some of memcached's own tests wait for the clock, leaves more than
        // half of the machine idle; the steps beside it may use only that.
        niceness: 19,
    },
];

/// `cargo xtask test`; `--only` selects some of its steps, separated by commas.
pub fn test(arguments: &[String]) -> Result {
    let started = Instant::now();
    let mut tally = Tally::default();
    match arguments {
        [] => {
            for stage in STAGES {
                tally.run_stage(stage);
                if tally.has_failed() {
                    break;
                }
            }
        }
        [only, names] if only == "--only" => {
            tally.run(names.split(',').map(step_called).collect::<Result<Vec<Step>>>()?);
        }
        _ => return fail("test takes nothing, or --only STEP,STEP"),
    }
    tally.finish(started.elapsed())
}

/// Returns every step of every stage.
fn steps() -> impl Iterator<Item = Step> {
    STAGES.iter().flat_map(|stage| stage.lanes).copied().flatten().copied()
}

fn step_called(name: &str) -> Result<Step> {
    match steps().find(|(step, _)| *step == name) {
        Some(step) => Ok(step),
        None => fail(format!("no step of the tests is called {name:?}")),
    }
}

fn one(outcome: Result) -> Result<Count> {
    outcome.map(|()| Count::passed(1))
}

fn clippy() -> Result {
    Run::new("cargo clippy --quiet --workspace --all-targets -- -D warnings").run()
}

/// `cargo xtask tidy`.
pub fn tidy() -> Result {
    let findings = rules::repository(std::path::Path::new("."))?;
    for warning in &findings.warnings {
        println!("tidy, a warning: {warning}");
    }
    for error in &findings.errors {
        println!("tidy: {error}");
    }
    match findings.errors.len() {
        0 => {
            println!("tidy: {} files are in order", findings.files);
            Ok(())
        }
        count => fail(format!("{count} things to tidy, listed above")),
    }
}

/// `cargo xtask dependencies`: checks that `deny.toml` allows all dependencies, their licences and
/// sources, and that there is one version of each crate. Advisories need a database from the
/// network.
pub fn dependencies() -> Result<Ran> {
    if !std::path::Path::new(install::CARGO_DENY).is_file() {
        return Ok(Ran::No("cargo-deny is not installed"));
    }
    let check = Run::new(install::CARGO_DENY).arg("--all-features").arg("check");
    check.arg("--hide-inclusion-graph").arg("bans").arg("licenses").arg("sources").run()?;
    Ok(Ran::Yes)
}

/// `cargo xtask loom`: runs every test target whose name starts with `loom_`, and the models that
/// need to see inside the index or the compressed zone. They have a target folder of their own
/// because the flag rebuilds everything.
pub fn loom() -> Result<Ran> {
    let mut targets = Vec::new();
    for room in ["memory", "index"] {
        let Ok(entries) = std::fs::read_dir(format!("crates/{room}/tests")) else {
            continue;
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if let Some(stem) = name.strip_suffix(".rs").filter(|stem| stem.starts_with("loom_")) {
                targets.push((room, stem.to_string()));
            }
        }
    }
    targets.sort();
    if targets.is_empty() {
        return Ok(Ran::No("no test target of memory or index starts with loom_"));
    }
    for (room, target) in targets {
        model(room).arg("--test").arg(target).run()?;
    }
    for room in ["index", "compressed"] {
        model(room).arg("--lib").arg("models").run()?;
    }
    Ok(Ran::Yes)
}

/// Returns the run of a crate's models.
fn model(room: &str) -> Run {
    Run::new("cargo test --quiet --profile loom --target-dir target/loom")
        .arg("-p")
        .arg(format!("larder-{room}"))
        .env("RUSTFLAGS", "--cfg loom")
}

/// The crates whose unsafe code works on shared memory, the slowest tests first.
const MIRI_ROOMS: [&str; 3] = ["hot", "index", "memory"];

/// The time after which a build for Miri counts as hung.
const MIRI_BUILD_LIMIT: Duration = Duration::from_secs(600);

/// `cargo xtask miri`: runs each crate by itself, because the interpreter has one thread.
pub fn miri() -> Result<Ran> {
    let asked = Run::new("cargo +nightly miri --version").capture(Duration::from_secs(30));
    if asked.is_err() {
        return Ok(Ran::No("the miri component is not installed"));
    }
    let started = Instant::now();
    let build = MIRI_ROOMS
        .iter()
        .fold(miri_run().arg("--no-run"), |run, room| run.arg(format!("-p=larder-{room}")));
    build.capture(MIRI_BUILD_LIMIT)?;
    println!("built in {:.1} s", started.elapsed().as_secs_f64());
    let jobs = MIRI_ROOMS.map(|room| beside::Job {
        name: format!("{room}, under miri"),
        run: miri_run().arg(format!("-p=larder-{room}")),
    });
    beside::run_all(jobs.into())?;
    Ok(Ran::Yes)
}

/// Returns a run of unit tests under Miri. They read the clock and the environment, and the index
/// keeps addresses as numbers; without these flags there are pages of warnings.
fn miri_run() -> Run {
    Run::new("cargo +nightly miri test --quiet --target-dir target/miri --lib")
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance")
        // Miri optimises nothing, and warns wherever it is asked to.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
}

/// Checks that resident memory stays within the limit: under every policy, without a compressed
/// zone, over a tree, and with items in two pieces.
fn memory_limit() -> Result {
    let policies =
        ["clock", "cost-clock", "gd-wheel", "lru"].map(|name| format!("--policy {name}"));
    let others = ["--compressed off", "--index tree", "--layout split"].map(str::to_owned);
    for options in policies.into_iter().chain(others) {
        Run::new("target/release/larder-bench rss --quick --larder-args").arg(options).run()?;
    }
    Ok(())
}

/// Checks that a server killed again and again finds its items on flash, and never a stale one.
fn restarts() -> Result {
    Run::new(
        "target/release/larder-bench restart --rounds 8 --interrupt-every 3 --flush-every 4 \
         --memory-mb 16 --flash-mb 64",
    )
    .run()
}

/// Runs short comparisons with the peers: by requests, by traffic, by threads and with flash. They
/// have to run, with no wrong reply; their times decide nothing.
fn comparison() -> Result<Ran> {
    for peer in ["memcached", "redis-server"] {
        if find(peer).is_none() {
            return Ok(Ran::No("memcached or redis-server is not installed"));
        }
    }
    Run::new("target/release/larder-bench compare --quick").run()?;
    Run::new("target/release/larder-bench compare trace --quick -m 16")
        .arg("make --keys 60000 --sizes etc --get-share 0.9")
        .run()?;
    Run::new("target/release/larder-bench scaling --quick").run()?;
    // Stores come in blocks of an eighth of the shortest delay, and small blocks take minutes.
    Run::new("target/release/larder-bench delayed --quick --delays 0.2,0.8,2 --rate 20000")
        .run()?;
    Run::new("target/release/larder-bench expiring --quick").run()?;
    for work in ["beside", "burst", "density", "quiet"] {
        Run::new("target/release/larder-bench flash").arg(work).arg("--quick").run()?;
    }
    Ok(Ran::Yes)
}

fn release() -> Result {
    Run::new("cargo build --quiet --release -p larder-server -p larder-bench").run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_by_its_name_alone() {
        let mut names: Vec<&str> = steps().map(|(name, _)| name).collect();
        for name in &names {
            assert_eq!(step_called(name).expect("it is listed").0, *name);
        }
        assert!(step_called("nothing").is_err());
        let listed = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), listed, "two steps have one name");
    }
}
