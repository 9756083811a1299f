//! The results of the suite: a table for people, JSON for programs.

use super::server::FOLDER;
use crate::{Result, fail};

/// The outcome of one part.
pub enum Outcome {
    /// It passed; the text says how much was tried.
    Passed(String),
    /// It failed; the text says how.
    Failed(String),
    /// It did not run; the text says what is missing.
    NotRun(String),
}

/// A row of the report.
pub struct Check {
    /// The part's name.
    pub name: &'static str,
    /// Its outcome.
    pub outcome: Outcome,
    /// Its time in seconds.
    pub seconds: f64,
}

impl Check {
    fn words(&self) -> (&'static str, &str) {
        match &self.outcome {
            Outcome::Passed(words) => ("passed", words),
            Outcome::Failed(words) => ("FAILED", words),
            Outcome::NotRun(words) => ("not run", words),
        }
    }

    /// Formats the row as text.
    pub fn line(&self) -> String {
        let (state, words) = self.words();
        format!("{:<16} {state:<8} {:>6.1} s  {words}", self.name, self.seconds)
    }
}

/// All rows of a run.
pub struct Report {
    /// The rows, in the order they ran.
    pub checks: Vec<Check>,
    seed: u64,
    version: String,
}

impl Report {
    /// Returns a report without rows.
    pub fn new(seed: u64, version: &str) -> Report {
        Report { checks: Vec::new(), seed, version: version.to_string() }
    }

    /// Prints a row and keeps it.
    pub fn add(&mut self, check: Check) {
        println!("{}", check.line());
        self.checks.push(check);
    }

    /// Returns how many parts passed.
    pub fn passed(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Passed(_))).count()
    }

    /// Returns how many parts failed.
    pub fn failed(&self) -> usize {
        self.that_failed().count()
    }

    /// Returns the rows of the parts that failed or could not run.
    pub fn that_did_not_pass(&self) -> Vec<String> {
        let has_passed = |check: &&Check| matches!(check.outcome, Outcome::Passed(_));
        self.checks.iter().filter(|check| !has_passed(check)).map(Check::line).collect()
    }

    fn that_failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| matches!(check.outcome, Outcome::Failed(_)))
    }

    /// Returns a failure that names the failed parts, if any.
    pub fn verdict(&self) -> Result {
        let failed: Vec<&str> = self.that_failed().map(|check| check.name).collect();
        if failed.is_empty() { Ok(()) } else { fail(failed.join(", ")) }
    }

    /// Writes `report.json`.
    pub fn write(&self) -> Result {
        let rows: Vec<String> = self
            .checks
            .iter()
            .map(|check| {
                let (state, words) = check.words();
                let (name, state, words) = (quote(check.name), quote(state), quote(words));
                let seconds = check.seconds;
                format!(
                    "{{\"name\":{name},\"outcome\":{state},\"seconds\":{seconds:.3},\
                     \"words\":{words}}}"
                )
            })
            .collect();
        let (version, seed) = (quote(&self.version), self.seed);
        let (passed, failed) = (self.passed(), self.failed());
        let text = format!(
            "{{\"server\":{version},\"seed\":{seed},\"passed\":{passed},\"failed\":{failed},\
             \"checks\":[\n{}\n]}}\n",
            rows.join(",\n")
        );
        std::fs::create_dir_all(FOLDER)?;
        std::fs::write(format!("{FOLDER}/report.json"), text)?;
        Ok(())
    }
}

/// Quotes a JSON string.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            control if control < ' ' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    #[test]
    fn quotes_what_json_needs_quoted() {
        assert_eq!(super::quote("a\"\\\n\u{1}é"), "\"a\\\"\\\\\\n\\u0001é\"");
    }
}
