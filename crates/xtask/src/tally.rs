//! Running the steps of `cargo xtask test` and counting them.
//!
//! Steps of a lane follow one another; lanes of a stage run side by side. The end of a run lists
//! the time of each step, then every check that could not run and every failure with its message,
//! since the end is the part of a long run that people keep. The very last line counts.

use std::time::{Duration, Instant};

use crate::command::Run;
use crate::{Failure, Result};

/// The most bytes of a failed step's output that are repeated at the end.
const REPEATED_MAX: usize = 4000;

/// The time after which a lane counts as hung.
const LANE_LIMIT: Duration = Duration::from_secs(3600);

/// The label of the table's sum.
const ALL: &str = "all";

/// The checks counted by a step. A step that only runs a command counts as one, a step that could
/// not run as none.
#[derive(Debug, Default, PartialEq)]
pub struct Count {
    pub passed: usize,
    pub failed: usize,
    /// Notes for the end of the run: why a check could not run, or what failed.
    pub notes: Vec<String>,
}

impl Count {
    /// A count of `passed` checks without a failure.
    pub fn passed(passed: usize) -> Count {
        Count { passed, ..Count::default() }
    }

    /// Prints, and notes for the end, that a check could not run, with the reason.
    pub fn not_run(&mut self, what_and_why: &str) {
        println!("not run: {what_and_why}");
        self.notes.push(format!("not run: {what_and_why}"));
    }

    fn failed(failure: Failure) -> Count {
        Count { failed: 1, notes: vec![failure.to_string()], ..Count::default() }
    }
}

/// Whether a step with optional requirements has run.
#[derive(Debug, PartialEq)]
pub enum Ran {
    Yes,
    /// It has not, for this reason.
    No(&'static str),
}

impl Ran {
    /// Returns its count. Prints the reason if it has not run.
    pub fn count(self) -> Count {
        let mut count = Count::default();
        match self {
            Ran::Yes => count.passed = 1,
            Ran::No(why) => count.not_run(why),
        }
        count
    }
}

/// A step's name and function.
pub type Step = (&'static str, fn() -> Result<Count>);

/// Steps that follow one another.
pub type Lane = &'static [Step];

/// Lanes that run side by side: a lane that waits for a network or has work for one core leaves
/// room for another. The first has the terminal; the output of the others is shown when all have
/// ended.
pub struct Stage {
    pub lanes: &'static [Lane],
    /// The niceness added to all lanes but the first.
    pub niceness: u32,
}

/// The steps of a run so far: the time each took, and the sum of their counts.
#[derive(Default)]
pub struct Tally {
    times: Vec<(String, Duration)>,
    all: Count,
}

impl Tally {
    /// Returns whether a step has failed.
    pub fn has_failed(&self) -> bool {
        self.all.failed > 0
    }

    fn add(&mut self, name: String, time: Duration, count: Count) {
        self.times.push((name, time));
        self.all.passed += count.passed;
        self.all.failed += count.failed;
        self.all.notes.extend(count.notes);
    }

    /// Runs steps one after the other, up to the first that fails.
    pub fn run(&mut self, steps: impl IntoIterator<Item = Step>) {
        for (name, step) in steps {
            println!("\n== {name}");
            let started = Instant::now();
            let mut count = step().unwrap_or_else(|failure| {
                println!("{failure}");
                Count::failed(failure)
            });
            for note in &mut count.notes {
                *note = format!("{name}: {}", end_of(note));
            }
            let failed = count.failed > 0;
            self.add(name.to_owned(), started.elapsed(), count);
            if failed {
                println!("\n{name} failed; the steps after it were not run");
                return;
            }
        }
    }

    /// Runs the lanes of a stage side by side.
    pub fn run_stage(&mut self, stage: &Stage) {
        let Some((first, others)) = stage.lanes.split_first() else { return };
        std::thread::scope(|scope| {
            let beside: Vec<_> = others
                .iter()
                .map(|lane| {
                    let names = lane.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
                    println!("\n({names} beside what follows)");
                    scope.spawn(move || run_apart(names, stage.niceness))
                })
                .collect();
            self.run(first.iter().copied());
            for lane in beside {
                let (names, time, text, count) = lane.join().expect("a lane does not panic");
                println!("{text}");
                self.add(names, time, count);
            }
        });
    }

    /// Prints the time of each step and the notes. The last line counts.
    pub fn finish(self, took: Duration) -> ! {
        println!("\nstep            seconds");
        for (name, time) in &self.times {
            println!("{name:<15} {:>7.1}", time.as_secs_f64());
        }
        println!("{ALL:<15} {:>7.1}\n", took.as_secs_f64());
        for note in &self.all.notes {
            println!("{note}\n");
        }
        println!("{} passed, {} failed", self.all.passed, self.all.failed);
        std::process::exit(i32::from(self.has_failed()));
    }
}

/// Runs steps in a separate program at this niceness. Returns their names, the time they took, all
/// of their output, and the counts and notes at its end.
fn run_apart(names: String, niceness: u32) -> (String, Duration, String, Count) {
    let started = Instant::now();
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let outcome = program.map_err(Failure::from).and_then(|program| {
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
    let mut count = count.unwrap_or_else(|| Count { failed: 1, ..Count::default() });
    if count.failed > 0 {
        // With the output of a program that failed.
        count.notes = vec![format!("{names}: failed beside the others:\n{}", end_of(&text))];
    }
    (names, started.elapsed(), text, count)
}

/// Parses the counts and notes at the end of a run, if `Tally::finish` wrote them.
fn counted(text: &str) -> Option<Count> {
    let (before, last) = text.trim_end().rsplit_once('\n')?;
    let (passed, failed) = last.split_once(" passed, ")?;
    let failed = failed.strip_suffix(" failed")?;
    let (_, after_table) = before.rsplit_once(&format!("\n{ALL} "))?;
    let (_, notes) = after_table.split_once('\n').unwrap_or_default();
    let notes = Some(notes.trim()).filter(|notes| !notes.is_empty()).map(str::to_owned);
    Some(Count {
        passed: passed.parse().ok()?,
        failed: failed.parse().ok()?,
        notes: notes.into_iter().collect(),
    })
}

/// Returns the last lines of a text, as many as the end repeats.
fn end_of(text: &str) -> &str {
    let from = text.len().saturating_sub(REPEATED_MAX);
    let from = (from..text.len()).find(|from| text.is_char_boundary(*from)).unwrap_or(from);
    match text.get(from..).and_then(|end| end.split_once('\n')) {
        Some((_, lines)) if from > 0 => lines,
        _ => text.get(from..).unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_last_line_that_counts_is_a_count() {
        let count = Count { failed: 1, ..Count::passed(4) };
        assert_eq!(counted("step\nall  3.0\n\n4 passed, 1 failed\n"), Some(count));
        assert_eq!(counted("step\nall  3.0\n\n4 passed, 1 failed\nkilled\n"), None);
        assert_eq!(counted("step\nall  3.0\n\ntest result: ok. 4 passed; 1 failed"), None);
        assert_eq!(counted("4 passed, 1 failed\n"), None);
        assert_eq!(counted(""), None);
    }

    /// A lane's notes are everything between its table and its last line.
    #[test]
    fn a_lanes_notes_are_repeated_at_the_end_of_the_run() {
        let text = "all of it\nstep\nall  3.0\n\nmiri: not run: none\n\ntests: one\ntwo\n\n\
                    4 passed, 1 failed\n";
        let count = counted(text).expect("it counts");
        assert_eq!(count.notes, ["miri: not run: none\n\ntests: one\ntwo"]);
        assert_eq!((count.passed, count.failed), (4, 1));
    }

    #[test]
    fn a_program_that_ends_without_counting_has_failed() {
        // The test program itself does not know these arguments, and counts nothing.
        let (names, _, text, count) = run_apart("format".to_owned(), 0);
        assert_eq!((names.as_str(), count.passed, count.failed), ("format", 0, 1), "{text}");
        assert!(count.notes.concat().starts_with("format: failed beside"), "{:?}", count.notes);
    }

    #[test]
    fn a_step_that_fails_is_the_last_and_its_words_stand_at_the_end() {
        let mut tally = Tally::default();
        let steps: [Step; 4] = [
            ("good", || Ok(Count::passed(2))),
            ("absent", || Ok(Ran::No("there is no cat").count())),
            ("bad", || crate::fail("it broke")),
            ("after", || panic!("is not run")),
        ];
        tally.run(steps);
        assert!(tally.has_failed());
        assert_eq!(tally.all.passed, 2);
        assert_eq!(tally.all.notes, ["absent: not run: there is no cat", "bad: it broke"]);
    }

    #[test]
    fn of_a_long_text_whole_lines_of_the_end_are_repeated() {
        assert_eq!(end_of("short\nand whole"), "short\nand whole");
        let long = "ä line\n".repeat(1000);
        let end = end_of(&long);
        assert!(end.len() <= REPEATED_MAX && end.len() > REPEATED_MAX - 10, "{}", end.len());
        assert!(end.starts_with("ä line\n") && long.ends_with(end));
        assert_eq!(end_of(&"é".repeat(REPEATED_MAX)).len(), REPEATED_MAX);
    }
}
