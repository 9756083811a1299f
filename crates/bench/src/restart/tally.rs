//! The counts of all connections in one round.

use std::time::Instant;

/// The most faults that are described; all are counted.
const FAULTS_SHOWN: usize = 10;

/// Counts, and descriptions of the first faults.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Requests sent.
    pub requests: u64,
    /// Values read and compared.
    pub checked: u64,
    /// Right ones among those, of keys that were not changed since the restart.
    pub found_unchanged: u64,
    /// Those of keys that were in memory when the server was ended.
    pub found_in_memory: u64,
    /// Keys requested and not found.
    pub misses: u64,
    /// Those whose version had ended.
    pub ended: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Values older than the acknowledged version.
    pub stale: u64,
    /// Values that were never stored.
    pub wrong: u64,
    /// When the first value was read.
    pub first_hit: Option<Instant>,
    /// The first stale and wrong values.
    pub faults: Vec<String>,
}

impl Tally {
    /// Counts a stale value.
    pub fn stale(&mut self, what: String) {
        self.stale += 1;
        self.describe(what);
    }

    /// Counts a wrong value.
    pub fn wrong(&mut self, what: String) {
        self.wrong += 1;
        self.describe(what);
    }

    /// Adds the place of faults to their descriptions.
    pub fn at(mut self, place: &str) -> Tally {
        self.faults.iter_mut().for_each(|what| *what = format!("{place}: {what}"));
        self
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.checked += other.checked;
        self.found_unchanged += other.found_unchanged;
        self.found_in_memory += other.found_in_memory;
        self.misses += other.misses;
        self.ended += other.ended;
        self.refused += other.refused;
        self.stale += other.stale;
        self.wrong += other.wrong;
        self.first_hit = self.first_hit.into_iter().chain(other.first_hit).min();
        other.faults.into_iter().for_each(|what| self.describe(what));
    }

    fn describe(&mut self, what: String) {
        if self.faults.len() < FAULTS_SHOWN {
            self.faults.push(what);
        }
    }
}
