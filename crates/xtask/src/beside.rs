//! Runs several programs side by side: one per core, up to a limit.
//!
//! A program's output is shown only when it fails; of the others, the time they took.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::command::Run;
use crate::{Result, fail};

/// A program that runs longer has hung.
const PROGRAM_LIMIT: Duration = Duration::from_secs(1200);

/// The most programs run side by side, however many cores there are: some have a thread per core,
/// and some fill hundreds of megabytes.
const BESIDE_MAX: usize = 4;

/// Number of the slowest programs named at the end.
const SLOWEST: usize = 12;

/// A program to be started, and its name in reports.
pub struct Job {
    pub name: String,
    pub run: Run,
}

/// The outcome of one program.
struct Outcome {
    name: String,
    time: Duration,
    /// Its output, if it failed.
    failure: Option<String>,
}

/// Runs all programs, in order of the list. All of them run, even if some fail.
pub fn run_all(jobs: Vec<Job>) -> Result {
    let beside = std::thread::available_parallelism().map_or(1, usize::from).min(BESIDE_MAX);
    println!("{} programs, {beside} at a time", jobs.len());
    let started = Instant::now();
    let mut outcomes = outcomes(jobs, beside);
    println!("all were run in {:.1} s", started.elapsed().as_secs_f64());
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.time));
    for outcome in outcomes.iter().take(SLOWEST) {
        println!("{:>7.1} s  {}", outcome.time.as_secs_f64(), outcome.name);
    }
    verdict(&outcomes)
}

/// Returns a failure with the output of all failed programs and, at the end, their names.
fn verdict(outcomes: &[Outcome]) -> Result {
    let (mut names, mut texts) = (Vec::new(), String::new());
    for Outcome { name, failure, .. } in outcomes {
        if let Some(text) = failure {
            texts.push_str(&format!("\n-- {name} failed\n{text}"));
            names.push(name.as_str());
        }
    }
    if names.is_empty() { Ok(()) } else { fail(format!("{texts}\nfailed in {}", names.join(", "))) }
}

/// Runs the jobs, `beside` at a time.
fn outcomes(jobs: Vec<Job>, beside: usize) -> Vec<Outcome> {
    let waiting = Mutex::new(jobs.into_iter());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..beside {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no thread panics here").next();
                    let Some(job) = next else { break };
                    let outcome = outcome(job);
                    outcomes.lock().expect("no thread panics here").push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no thread panics here")
}

fn outcome(job: Job) -> Outcome {
    let Job { name, run } = job;
    let started = Instant::now();
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
    fn a_failed_job_reports_its_output_and_the_others_still_run() {
        let jobs = ["true", "false", "true"]
            .map(|name| Job { name: name.to_owned(), run: Run::new(name) });
        let outcomes = outcomes(jobs.into(), 2);
        let failed: Vec<&str> = outcomes
            .iter()
            .filter(|outcome| outcome.failure.is_some())
            .map(|outcome| outcome.name.as_str())
            .collect();
        assert_eq!((outcomes.len(), failed), (3, vec!["false"]));
        let failure = verdict(&outcomes).expect_err("one of them failed");
        assert_eq!(failure.to_string(), "\n-- false failed\n\nfailed in false");
    }
}
