//! The workspace's tests: built by cargo and run here, several test programs at a time.
//!
//! Cargo runs one program after the other, but many of these mostly wait: for sockets, for clocks
//! of whole seconds, for their last threads.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use crate::command::{Run, command};
use crate::tally::Count;
use crate::{Result, beside, fail};

/// The test programs that take minutes.
const LONGEST: [&str; 5] =
    ["cache: never_stale", "cache: flash", "cache: suite", "server: suite", "cache: sizes"];

/// The crate with larder-bench's end-to-end tests. They run later, when larder-bench is built.
const BENCH: &str = "bench-tests";

/// The target among them that runs the papers' experiments.
const PAPERS: &str = "papers";

/// The variable that makes tests fail where they would otherwise pass without io_uring.
const IO_URING: &str = "TEST_IO_URING";

/// One test program, as cargo reports it.
#[derive(Debug, PartialEq)]
struct Program {
    /// The package's short name.
    room: String,
    target: String,
    executable: PathBuf,
    /// The package's folder, in which its tests run.
    folder: PathBuf,
}

impl Program {
    /// Returns the package and the target, as reports name them.
    fn name(&self) -> String {
        format!("{}: {}", self.room, self.target)
    }

    /// Returns the job to be run beside others.
    fn into_job(self) -> beside::Job {
        let run = Run::new(&self.executable.to_string_lossy()).arg("--quiet");
        let run = run.folder(&self.folder.to_string_lossy());
        beside::Job { name: self.name(), run: run.env("CARGO_MANIFEST_DIR", &self.folder) }
    }
}

/// Builds and runs all tests, then those in documentation.
pub fn run() -> Result<Count> {
    let mut count = Count::passed(1);
    let started = Instant::now();
    let mut programs = build()?;
    println!("built in {:.1} s", started.elapsed().as_secs_f64());
    programs.retain(|program| program.room != BENCH);
    // The longest first, so that none is left running alone at the end.
    programs.sort_by_key(|program| {
        let long = LONGEST.iter().position(|name| *name == program.name());
        let bytes = program.executable.metadata().map_or(0, |file| file.len());
        (long.unwrap_or(LONGEST.len()), std::cmp::Reverse(bytes))
    });
    let mut jobs: Vec<_> = programs.into_iter().map(Program::into_job).collect();
    match (std::env::var_os(IO_URING), has_io_uring()) {
        // The user has set it already.
        (Some(_), _) => {}
        (None, true) => {
            let insisting =
                |job: beside::Job| beside::Job { run: job.run.env(IO_URING, "required"), ..job };
            jobs = jobs.into_iter().map(insisting).collect();
        }
        (None, false) => {
            count.not_run(&format!(
                "io_uring, which is refused here; {IO_URING}=required asks for it"
            ));
        }
    }
    beside::run_all(jobs)?;
    Run::new("cargo test --quiet --workspace --doc").run()?;
    Ok(count)
}

/// Returns whether io_uring exists, is open to all users, and no filter of system calls, as
/// containers have, applies to this process.
fn has_io_uring() -> bool {
    let is = |path: &str, is: fn(&str) -> bool| {
        std::fs::read_to_string(path).is_ok_and(|text| text.lines().map(str::trim).any(is))
    };
    is("/proc/sys/kernel/io_uring_disabled", |line| line == "0")
        && is("/proc/self/status", |line| line == "Seccomp:\t0")
}

/// Runs larder-bench's end-to-end tests, except the papers', on the release build.
pub fn bench() -> Result {
    beside::run_all(on_release(|target| target != PAPERS)?)
}

/// Runs each paper's experiments, small and one at a time. Checks that they run, and those of their
/// findings that do not depend on their size. Their times decide nothing.
pub fn papers() -> Result {
    let jobs = on_release(|target| target == PAPERS)?.into_iter();
    let jobs = jobs.map(|job| beside::Job { run: job.run.arg("--test-threads=1"), ..job });
    beside::run_all(jobs.collect())
}

/// Returns larder-bench's end-to-end tests whose target is wanted. They are built along with all
/// others: built alone, some libraries would be compiled once more with fewer features.
fn on_release(is_wanted: fn(&str) -> bool) -> Result<Vec<beside::Job>> {
    let bench = std::path::absolute("target/release/larder-bench")?;
    let programs = build()?.into_iter();
    let wanted = programs.filter(|program| program.room == BENCH && is_wanted(&program.target));
    let on_release = |program: Program| {
        let job = program.into_job();
        beside::Job { run: job.run.env("LARDER_BENCH", &bench), ..job }
    };
    let jobs: Vec<beside::Job> = wanted.map(on_release).collect();
    if jobs.is_empty() { fail("cargo named no test program of larder-bench") } else { Ok(jobs) }
}

/// Builds every test program of the workspace.
fn build() -> Result<Vec<Program>> {
    let words = ["test", "--quiet", "--workspace", "--no-run"];
    println!("$ cargo {}", words.join(" "));
    let output = command("cargo")
        .args(words)
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return fail(format!("the tests were not built: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<Program> = text.lines().filter_map(program).collect();
    if programs.is_empty() {
        return fail("cargo named no test program");
    }
    Ok(programs)
}

/// Returns the test program described by a line of cargo's report, if it describes one.
fn program(line: &str) -> Option<Program> {
    // A binary target may have tests but be the program itself here: its profile tells.
    let (_, profile) = line.split_once(r#""profile":{"#)?;
    let (profile, _) = profile.split_once('}')?;
    if !line.contains(r#""reason":"compiler-artifact""#) || !profile.contains(r#""test":true"#) {
        return None;
    }
    let executable = PathBuf::from(value(line, "executable")?);
    let folder = Path::new(value(line, "manifest_path")?).parent()?.to_path_buf();
    let (_, target) = line.split_once(r#""target":{"#)?;
    let room = folder.file_name()?.to_string_lossy().into_owned();
    let target = value(target, "name")?.to_owned();
    Some(Program { room, target, executable, folder })
}

/// Returns the text of a name in a line of JSON; the names asked for here hold nothing escaped.
fn value<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = line.split_once(&format!(r#""{name}":""#))?;
    let (value, _) = rest.split_once('"')?;
    (!value.contains('\\')).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_told_from_other_artefacts() {
        let test = concat!(
            r#"{"reason":"compiler-artifact","#,
            r#""package_id":"path+file:///l/crates/io#larder-io@0.1.0","#,
            r#""manifest_path":"/l/crates/io/Cargo.toml","#,
            r#""target":{"kind":["test"],"name":"fault","#,
            r#""test":true},"profile":{"opt_level":"2","test":true},"features":[],"#,
            r#""executable":"/l/target/debug/deps/fault-1","fresh":true}"#,
        );
        let expected = Program {
            room: "io".to_owned(),
            target: "fault".to_owned(),
            executable: PathBuf::from("/l/target/debug/deps/fault-1"),
            folder: PathBuf::from("/l/crates/io"),
        };
        assert_eq!(program(test), Some(expected));
        let binary = r#""opt_level":"2","test":false"#;
        assert_eq!(program(&test.replace(r#""opt_level":"2","test":true"#, binary)), None);
        let library = test.replace(r#""/l/target/debug/deps/fault-1""#, "null");
        assert_eq!(program(&library), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
