//! The order of `cargo xtask test`, and the chores that are a few commands each.
//!
//! Steps go from quick to slow, so that a careless change fails within seconds. The first failure
//! ends the run. The table at the end says what each step took, and the very last line counts:
//! every client and check of the conformance suite as one, and every other step as one.

use std::time::{Duration, Instant};

use crate::command::{Run, find};
use crate::{Result, admin, beside, conformance, deploy, fail, install, own_tests, tidy as rules};

/// What a step counts. One that only runs a command counts itself, one that could not run counts
/// nothing.
#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
}

type Step = (&'static str, fn() -> Result<Count>);

const STEPS: &[Step] = &[
    ("install", || one(install::all())),
    ("format", || one(Run::new("cargo fmt --all --check").run())),
    ("clippy", || one(clippy())),
    ("tidy", || one(tidy())),
    ("dependencies", || dependencies().map(ran)),
    ("tests", || one(own_tests::run())),
    ("loom", || loom().map(ran)),
    ("miri", || miri().map(ran)),
    ("release build", || one(release())),
    ("conformance", || {
        let report = conformance::run(&conformance::Options::default())?;
        Ok(Count { passed: report.passed(), failed: report.failed() })
    }),
    ("deploy", || deploy::check().map(|passed| Count { passed, failed: 0 })),
    ("admin port", || admin::all(None).map(|passed| Count { passed, failed: 0 })),
    ("memory limit", || one(memory_limit())),
    ("restarts", || one(restarts())),
    ("comparison", || comparison().map(ran)),
    ("papers", || one(papers())),
];

/// `cargo xtask test`.
pub fn test() -> Result {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut all = Count::default();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let started = Instant::now();
        let count = step().unwrap_or_else(|failure| {
            println!("{failure}");
            Count { passed: 0, failed: 1 }
        });
        times.push((name, started.elapsed()));
        all.passed += count.passed;
        all.failed += count.failed;
        if count.failed > 0 {
            println!("\n{name} failed; the steps after it were not run");
            break;
        }
    }
    println!("\nstep            seconds");
    for (name, time) in &times {
        println!("{name:<15} {:>7.1}", time.as_secs_f64());
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("{:<15} {:>7.1}\n", "all", total.as_secs_f64());
    println!("{} passed, {} failed", all.passed, all.failed);
    // The summary is the last line; what failed has been printed above it.
    std::process::exit(i32::from(all.failed > 0));
}

fn one(outcome: Result) -> Result<Count> {
    outcome.map(|()| Count { passed: 1, failed: 0 })
}

fn ran(has_run: bool) -> Count {
    Count { passed: usize::from(has_run), failed: 0 }
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

/// `cargo xtask dependencies`: whether `deny.toml` allows what the workspace is built from, its
/// licences, its sources and one version of each crate. Advisories need a database from the
/// network. False where the tool is not installed.
pub fn dependencies() -> Result<bool> {
    if !std::path::Path::new(install::CARGO_DENY).is_file() {
        println!("not run: cargo-deny is not installed");
        return Ok(false);
    }
    let check = Run::new(install::CARGO_DENY).arg("--all-features").arg("check");
    check.arg("--hide-inclusion-graph").arg("bans").arg("licenses").arg("sources").run()?;
    Ok(true)
}

/// `cargo xtask loom`: every test target whose name starts with `loom_`, and the models that need
/// to see inside the index or the compressed zone, in a target folder of their own because the
/// flag rebuilds everything. False where there is no model.
pub fn loom() -> Result<bool> {
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
        println!("not run: no test target of memory or index starts with loom_");
        return Ok(false);
    }
    for (room, target) in targets {
        model(room).arg("--test").arg(target).run()?;
    }
    for room in ["index", "compressed"] {
        model(room).arg("--lib").arg("models").run()?;
    }
    Ok(true)
}

/// A run of a room's models.
fn model(room: &str) -> Run {
    Run::new("cargo test --quiet --release --target-dir target/loom")
        .arg("-p")
        .arg(format!("larder-{room}"))
        .env("RUSTFLAGS", "--cfg loom")
        // The models are small; a build without link-time optimisation starts them sooner.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
}

/// The rooms with unsafe code, those whose tests take longest first.
const MIRI_ROOMS: [&str; 4] = ["hot", "index", "memory", "stdx"];

/// A build for Miri that takes longer hangs.
const MIRI_BUILD_LIMIT: Duration = Duration::from_secs(600);

/// `cargo xtask miri`: each room by itself, because an interpreter has one thread. False where Miri
/// is not installed.
pub fn miri() -> Result<bool> {
    let asked = Run::new("cargo +nightly miri --version").capture(Duration::from_secs(30));
    if asked.is_err() {
        println!("not run: the miri component is not installed");
        return Ok(false);
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
    Ok(true)
}

/// Unit tests under Miri. They read the clock and the environment, and the index keeps addresses
/// as numbers; without these flags there are pages of warnings.
fn miri_run() -> Run {
    Run::new("cargo +nightly miri test --quiet --target-dir target/miri --lib")
        .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance")
        // Miri optimises nothing, and says so wherever it is asked to.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
}

/// Whether resident memory stays within the limit, under every policy, without a compressed zone,
/// over a tree, and with items in two pieces.
fn memory_limit() -> Result {
    let policies =
        ["clock", "cost-clock", "gd-wheel", "lru"].map(|name| format!("--policy {name}"));
    let others = ["--compressed off", "--index tree", "--layout split"].map(str::to_owned);
    for options in policies.into_iter().chain(others) {
        Run::new("target/release/larder-bench rss --quick --larder-args").arg(options).run()?;
    }
    Ok(())
}

/// Whether a server that is killed again and again finds what was on flash, and never what is old.
fn restarts() -> Result {
    Run::new("target/release/larder-bench restart --rounds 8 --memory-mb 16 --flash-mb 64").run()
}

/// Short comparisons with the peers, by requests, by traffic and with flash: that they run and that
/// no reply is wrong. Their times decide nothing. False where a peer is not installed.
fn comparison() -> Result<bool> {
    for peer in ["memcached", "redis-server"] {
        if find(peer).is_none() {
            println!("not run: {peer} is not installed");
            return Ok(false);
        }
    }
    Run::new("target/release/larder-bench compare --quick").run()?;
    Run::new("target/release/larder-bench compare trace --quick -m 16")
        .arg("make --keys 60000 --sizes etc --get-share 0.9")
        .run()?;
    Run::new("target/release/larder-bench delayed --quick").run()?;
    for work in ["beside", "density", "quiet"] {
        Run::new("target/release/larder-bench flash").arg(work).arg("--quick").run()?;
    }
    Ok(true)
}

/// Each paper's experiments, small: that they run. Their figures decide nothing.
fn papers() -> Result {
    for paper in ["memc3", "gd-wheel", "zexpander", "slimcache", "cavast"] {
        let run = Run::new("target/release/larder-bench paper").arg(paper);
        run.arg("all").arg("--quick").run()?;
    }
    Ok(())
}

fn release() -> Result {
    Run::new("cargo build --quiet --release -p larder-server -p larder-bench").run()
}
