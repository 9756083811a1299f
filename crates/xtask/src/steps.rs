//! The stages of `cargo xtask test`, and the chores that are a few commands each.
//!
//! Stages go from quick to slow, so that a careless change fails within a minute or two. The first
//! failure ends the run. The table at the end says what each step took, and the very last line
//! counts: every client and check of the conformance suite as one, and every other step as one.

use std::time::{Duration, Instant};

use crate::command::{Run, find};
use crate::{Result, admin, beside, conformance, deploy, fail, install, own_tests, tidy as rules};

/// What a step counts. One that only runs a command counts itself, one that could not run counts
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    passed: usize,
    failed: usize,
}

type Step = (&'static str, fn() -> Result<Count>);

/// Steps that follow one another.
type Lane = &'static [Step];

/// Lanes that run beside each other, since one that waits for a network or has work for one core
/// leaves room for another. The first has the terminal; what the others print is shown when all
/// have ended.
struct Stage {
    lanes: &'static [Lane],
    /// By how much all lanes but the first are nicer to others than usual. Conformance, in which
    /// some of memcached's own tests go by the clock, leaves more than half of the machine idle,
    /// and what runs beside it takes only that.
    niceness: u32,
}

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
            &[("tests", || one(own_tests::run()))],
            // Each model has one thread, and so has the last of the release, which takes longest:
            // after the tests it would leave a core idle.
            &[
                ("dependencies", || dependencies().map(ran)),
                ("deploy", || deploy::check().map(|passed| Count { passed, failed: 0 })),
                ("loom", || loom().map(ran)),
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
                    Ok(Count { passed: report.passed(), failed: report.failed() })
                }),
                ("admin", || admin::all(None).map(|passed| Count { passed, failed: 0 })),
                ("comparison", || comparison().map(ran)),
            ],
            &[
                ("bench", || one(own_tests::bench())),
                ("papers", || one(own_tests::papers())),
                ("restarts", || one(restarts())),
                ("memory-limit", || one(memory_limit())),
                ("miri", || miri().map(ran)),
            ],
        ],
        niceness: 19,
    },
];

/// Lanes that have not ended by then hang.
const LANE_LIMIT: Duration = Duration::from_secs(3600);

/// The steps of a run so far: what each took, and the sum of what they count.
#[derive(Default)]
struct Tally {
    times: Vec<(String, Duration)>,
    all: Count,
}

impl Tally {
    fn add(&mut self, name: String, time: Duration, count: Count) {
        self.times.push((name, time));
        self.all.passed += count.passed;
        self.all.failed += count.failed;
    }

    /// Runs steps one after the other, up to the first that fails.
    fn run(&mut self, steps: impl IntoIterator<Item = Step>) {
        for (name, step) in steps {
            println!("\n== {name}");
            let started = Instant::now();
            let count = step().unwrap_or_else(|failure| {
                println!("{failure}");
                Count { passed: 0, failed: 1 }
            });
            self.add(name.to_owned(), started.elapsed(), count);
            if count.failed > 0 {
                println!("\n{name} failed; the steps after it were not run");
                return;
            }
        }
    }

    /// Prints what each step took. The summary is the last line; what failed was printed before.
    fn finish(self, took: Duration) -> ! {
        println!("\nstep            seconds");
        for (name, time) in &self.times {
            println!("{name:<15} {:>7.1}", time.as_secs_f64());
        }
        println!("{:<15} {:>7.1}\n", "all", took.as_secs_f64());
        println!("{} passed, {} failed", self.all.passed, self.all.failed);
        std::process::exit(i32::from(self.all.failed > 0));
    }
}

/// `cargo xtask test`, and with `--only` some of its steps, separated by commas.
pub fn test(arguments: &[String]) -> Result {
    let started = Instant::now();
    let mut tally = Tally::default();
    match arguments {
        [] => {
            for stage in STAGES {
                stage.run(&mut tally);
                if tally.all.failed > 0 {
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

/// Every step of every stage.
fn steps() -> impl Iterator<Item = Step> {
    STAGES.iter().flat_map(|stage| stage.lanes).copied().flatten().copied()
}

fn step_called(name: &str) -> Result<Step> {
    match steps().find(|(step, _)| *step == name) {
        Some(step) => Ok(step),
        None => fail(format!("no step of the tests is called {name:?}")),
    }
}

impl Stage {
    /// Runs the lanes beside each other.
    fn run(&self, tally: &mut Tally) {
        let Some((first, others)) = self.lanes.split_first() else { return };
        std::thread::scope(|scope| {
            let beside: Vec<_> = others
                .iter()
                .map(|lane| {
                    let names = lane.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
                    println!("\n({names} beside what follows)");
                    scope.spawn(move || run_apart(names, self.niceness))
                })
                .collect();
            tally.run(first.iter().copied());
            for lane in beside {
                let (names, time, text, count) = lane.join().expect("a lane does not panic");
                println!("{text}");
                tally.add(names, time, count);
            }
        });
    }
}

/// Runs steps in a program of their own, so much nicer to others. Returns their names, what they
/// took, all that they printed, and what its last line counts.
fn run_apart(names: String, niceness: u32) -> (String, Duration, String, Count) {
    let started = Instant::now();
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let outcome = program.map_err(crate::Failure::from).and_then(|program| {
        let run = Run::new(&format!("nice -n {niceness}")).arg(&program);
        run.arg("test").arg("--only").arg(&names).output(LANE_LIMIT)
    });
    let (text, count) = match outcome {
        Ok((succeeded, text)) => {
            let count = counted(&text).filter(|count| succeeded == (count.failed == 0));
            (text, count)
        }
        Err(failure) => (failure.to_string(), None),
    };
    let count = count.unwrap_or(Count { passed: 0, failed: 1 });
    (names, started.elapsed(), text, count)
}

/// What the last line of a run counts, if it is one that `Tally::finish` wrote.
fn counted(text: &str) -> Option<Count> {
    let (passed, failed) = text.trim_end().lines().last()?.split_once(" passed, ")?;
    let failed = failed.strip_suffix(" failed")?;
    Some(Count { passed: passed.parse().ok()?, failed: failed.parse().ok()? })
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
    Run::new("cargo test --quiet --profile loom --target-dir target/loom")
        .arg("-p")
        .arg(format!("larder-{room}"))
        .env("RUSTFLAGS", "--cfg loom")
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
    Run::new(
        "target/release/larder-bench restart --rounds 8 --interrupt-every 3 --flush-every 4 \
         --memory-mb 16 --flash-mb 64",
    )
    .run()
}

/// Short comparisons with the peers, by requests, by traffic, by threads and with flash: that they
/// run and that no reply is wrong. Their times decide nothing. False where a peer is not installed.
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
    Run::new("target/release/larder-bench scaling --quick").run()?;
    Run::new("target/release/larder-bench delayed --quick").run()?;
    Run::new("target/release/larder-bench expiring --quick").run()?;
    for work in ["beside", "burst", "density", "quiet"] {
        Run::new("target/release/larder-bench flash").arg(work).arg("--quick").run()?;
    }
    Ok(true)
}

fn release() -> Result {
    Run::new("cargo build --quiet --release -p larder-server -p larder-bench").run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_last_line_that_counts_is_a_count() {
        let count = Count { passed: 4, failed: 1 };
        assert_eq!(counted("all  3.0\n\n4 passed, 1 failed\n"), Some(count));
        assert_eq!(counted("4 passed, 1 failed\nkilled\n"), None);
        assert_eq!(counted("test result: ok. 4 passed; 1 failed"), None);
        assert_eq!(counted(""), None);
    }

    #[test]
    fn a_program_that_ends_without_counting_has_failed() {
        // The test program itself does not know these arguments, and counts nothing.
        let (names, _, text, count) = run_apart("format".to_owned(), 0);
        assert_eq!((names.as_str(), count), ("format", Count { passed: 0, failed: 1 }), "{text}");
    }

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
