//! The order of `cargo xtask test`, and the chores that are a few commands each.
//!
//! Steps go from quick to slow, so that a careless change fails within seconds. The first failure
//! ends the run. The table at the end says what each step took, and the very last line counts:
//! every client and check of the conformance suite as one, and every other step as one.

use std::time::{Duration, Instant};

use crate::command::Run;
use crate::{Failure, Result, conformance, fail, install, tidy as rules};

/// What a step counted as passed; a step that only runs a command counts itself.
type Step = (&'static str, fn() -> Result<usize>);

const STEPS: &[Step] = &[
    ("install", || one(install::all())),
    ("format", || one(Run::new("cargo fmt --all --check").run())),
    ("clippy", || {
        one(Run::new("cargo clippy --quiet --workspace --all-targets -- -D warnings").run())
    }),
    ("tidy", || one(tidy())),
    ("tests", || {
        one(Run::new("cargo test --quiet --workspace").run())
    }),
    ("loom", || one(loom())),
    ("miri", || one(miri())),
    ("release build", || one(release())),
    ("conformance", || {
        let report = conformance::run(&conformance::Options::default())?;
        report.verdict().map(|()| report.passed())
    }),
];

/// `cargo xtask test`.
pub fn test() -> Result {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    let mut passed = 0;
    let mut broken = None;
    for (name, step) in STEPS {
        println!("\n== {name}");
        let started = Instant::now();
        let outcome = step();
        times.push((name, started.elapsed()));
        match outcome {
            Ok(count) => passed += count,
            Err(failure) => {
                broken = Some(Failure(format!("{name} failed: {failure}")));
                break;
            }
        }
    }
    println!("\nstep            seconds");
    for (name, time) in &times {
        println!("{name:<15} {:>7.1}", time.as_secs_f64());
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("{:<15} {:>7.1}", "all", total.as_secs_f64());
    if let Some(failure) = &broken {
        println!("\n{failure}");
    }
    println!("{passed} passed, {} failed", usize::from(broken.is_some()));
    // The summary is the last line, so the failure itself has already been printed above it.
    if broken.is_some() {
        std::process::exit(1);
    }
    Ok(())
}

fn one(outcome: Result) -> Result<usize> {
    outcome.map(|()| 1)
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

/// `cargo xtask loom`: every test target whose name starts with `loom_`, in its own target folder
/// because the flag rebuilds everything.
pub fn loom() -> Result {
    let mut targets = Vec::new();
    for room in ["memory", "index"] {
        let Ok(entries) = std::fs::read_dir(format!("crates/{room}/tests")) else {
            continue;
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if let Some(stem) = name
                .strip_suffix(".rs")
                .filter(|stem| stem.starts_with("loom_"))
            {
                targets.push((room, stem.to_string()));
            }
        }
    }
    targets.sort();
    if targets.is_empty() {
        println!("not run: no test target of memory or index starts with loom_");
        return Ok(());
    }
    for (room, target) in targets {
        Run::new("cargo test --quiet --release --target-dir target/loom")
            .arg("-p")
            .arg(format!("larder-{room}"))
            .arg("--test")
            .arg(target)
            .env("RUSTFLAGS", "--cfg loom")
            // The models are small; a build without link-time optimisation starts them sooner.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_PANIC", "unwind")
            .run()?;
    }
    Ok(())
}

/// `cargo xtask miri`.
pub fn miri() -> Result {
    let asked = Run::new("cargo +nightly miri --version").capture(Duration::from_secs(30));
    if asked.is_err() {
        println!("not run: the miri component is not installed");
        return Ok(());
    }
    Run::new("cargo +nightly miri test --quiet --target-dir target/miri --lib")
        .arg("-p=larder-stdx")
        .arg("-p=larder-memory")
        .arg("-p=larder-index")
        .arg("-p=larder-hot")
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        .run()
}

fn release() -> Result {
    Run::new("cargo build --quiet --release -p larder-server -p larder-bench").run()
}
