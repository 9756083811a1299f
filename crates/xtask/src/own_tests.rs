//! The workspace's tests: built by cargo, and run here, several test programs at a time.
//!
//! Cargo runs one program after the other, and many of these wait more than they work: for sockets,
//! for clocks of whole seconds, for the last of their threads. As many run beside each other as
//! there are cores, up to a limit. What a program prints is shown when it fails; of the others,
//! what they took.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::command::Run;
use crate::{Result, fail};

/// A test program that runs longer has hung.
const PROGRAM_LIMIT: Duration = Duration::from_secs(1200);

/// No more than these run beside each other, however many cores there are: each has a thread for
/// each core, and some fill hundreds of megabytes.
const BESIDE_MAX: usize = 4;

/// Of the programs that took longest, this many are named at the end.
const SLOWEST: usize = 12;

/// One test program, as cargo reports it.
#[derive(Debug, PartialEq)]
struct Program {
    /// The package and the target, as people call it.
    name: String,
    executable: PathBuf,
    /// The package's folder, in which its tests run.
    folder: PathBuf,
}

/// What became of one.
struct Outcome {
    name: String,
    time: Duration,
    /// What it printed, if it failed.
    failure: Option<String>,
}

/// Builds all tests, runs them, and those in documentation after them.
pub fn run() -> Result {
    let started = Instant::now();
    let mut programs = build()?;
    let built = started.elapsed().as_secs_f64();
    // The large ones are those of the server and the bench, which take longest.
    programs.sort_by_key(|program| {
        std::cmp::Reverse(program.executable.metadata().map_or(0, |file| file.len()))
    });
    let beside = std::thread::available_parallelism().map_or(1, usize::from).min(BESIDE_MAX);
    println!("{} test programs, built in {built:.1} s, {beside} at a time", programs.len());
    let started = Instant::now();
    let mut outcomes = run_all(programs, beside);
    for outcome in &outcomes {
        if let Some(text) = &outcome.failure {
            println!("\n-- {} failed\n{text}", outcome.name);
        }
    }
    let failed: Vec<String> = outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .map(|outcome| outcome.name.clone())
        .collect();
    println!("all were run in {:.1} s; the slowest:", started.elapsed().as_secs_f64());
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.time));
    for outcome in outcomes.iter().take(SLOWEST) {
        println!("{:>7.1} s  {}", outcome.time.as_secs_f64(), outcome.name);
    }
    if !failed.is_empty() {
        return fail(format!("tests failed in {}", failed.join(", ")));
    }
    Run::new("cargo test --quiet --workspace --doc").run()
}

/// Builds every test program of the workspace.
fn build() -> Result<Vec<Program>> {
    let words = ["test", "--quiet", "--workspace", "--no-run"];
    println!("$ cargo {}", words.join(" "));
    let output = Command::new("cargo")
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

/// The test program that a line of cargo's report is about, if it is about one.
fn program(line: &str) -> Option<Program> {
    // A program's target may have tests although this is the program itself: its profile tells.
    let (_, profile) = line.split_once(r#""profile":{"#)?;
    let (profile, _) = profile.split_once('}')?;
    if !line.contains(r#""reason":"compiler-artifact""#) || !profile.contains(r#""test":true"#) {
        return None;
    }
    let executable = PathBuf::from(value(line, "executable")?);
    let folder = Path::new(value(line, "manifest_path")?).parent()?.to_path_buf();
    let (_, target) = line.split_once(r#""target":{"#)?;
    let room = folder.file_name()?.to_string_lossy().into_owned();
    let name = format!("{room}: {}", value(target, "name")?);
    Some(Program { name, executable, folder })
}

/// The text behind a name in a line of JSON; none of those asked for here hold anything escaped.
fn value<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = line.split_once(&format!(r#""{name}":""#))?;
    let (value, _) = rest.split_once('"')?;
    (!value.contains('\\')).then_some(value)
}

/// Runs them, this many beside each other.
fn run_all(programs: Vec<Program>, beside: usize) -> Vec<Outcome> {
    let waiting = Mutex::new(programs.into_iter());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..beside {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no thread panics here").next();
                    let Some(program) = next else { break };
                    let outcome = run_one(program);
                    outcomes.lock().expect("no thread panics here").push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no thread panics here")
}

fn run_one(program: Program) -> Outcome {
    let Program { name, executable, folder } = program;
    let started = Instant::now();
    let run = Run::new(&executable.to_string_lossy()).arg("--quiet");
    let run = run.folder(&folder.to_string_lossy()).env("CARGO_MANIFEST_DIR", &folder);
    let failure = match run.output(PROGRAM_LIMIT) {
        Ok((true, _)) => None,
        Ok((false, text)) => Some(text),
        Err(failure) => Some(failure.to_string()),
    };
    Outcome { name, time: started.elapsed(), failure }
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
            name: "io: fault".to_owned(),
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

    #[test]
    fn what_fails_says_what_it_printed_and_the_others_are_run() {
        let programs = ["true", "false", "true"].map(|name| Program {
            name: name.to_owned(),
            executable: PathBuf::from(name),
            folder: PathBuf::from("."),
        });
        let outcomes = run_all(programs.into(), 2);
        let failed: Vec<&str> = outcomes
            .iter()
            .filter(|outcome| outcome.failure.is_some())
            .map(|outcome| outcome.name.as_str())
            .collect();
        assert_eq!((outcomes.len(), failed), (3, vec!["false"]));
    }
}
