//! A trace as several disjoint copies of itself, interleaved request by request: the same reuse and
//! the same skew over a key space that is larger by the number of copies.
//!
//! ```text
//!   trace            a          b          a
//!   three copies     a0 a1 a2   b0 b1 b2   a0 a1 a2
//! ```
//!
//! Copy `k` of object `o` is object `o * copies + k`, with the key and the value of that number. So
//! objects stay numbered in order of appearance, and the copies of one object have different
//! records of a record file that is long enough. Lengths follow the records; without records every
//! copy has the object's lengths in the trace. Times to live are the trace's; a get, which has
//! none, gets that of its object's sets, since a miss is followed by a store.
//!
//! The copies are made one request at a time while they are read: only the trace itself is held.

use clap::Args;

use super::build::OBJECTS_MAX;
use super::format::REQUESTS_MAX;
use super::{Operation, Request, Trace};
use crate::failure::{Failure, Outcome};

/// The most copies: enough to make gigabytes of a trace of a few megabytes.
const COPIES_MAX: i64 = 10_000;

/// The number of copies of a trace.
#[derive(Debug, Clone, Args)]
pub struct CopyOptions {
    /// Disjoint copies of the trace, interleaved request by request: each copy of an object has a
    /// key and a value of its own (1 to 10000).
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=COPIES_MAX))]
    pub copies: u32,
}

impl CopyOptions {
    /// Returns that many copies of the trace.
    pub fn of(&self, trace: Trace) -> Outcome<Copies> {
        let mut copies = Copies::new(trace, self.copies)?;
        copies.fill_in_ttls();
        Ok(copies)
    }

    /// Returns the trace's requests that make this many of all copies.
    pub fn limit(&self, requests_max: u64) -> u64 {
        requests_max.div_ceil(u64::from(self.copies))
    }
}

/// A trace, and the rule for its copies.
#[derive(Debug)]
pub struct Copies {
    trace: Trace,
    rule: Rule,
    /// Gets of the trace that were given a length.
    filled_in: u64,
    /// Gets of the trace that were given a time to live.
    ttls_filled_in: u64,
}

/// The differences between a copy and its original.
#[derive(Debug)]
pub struct Rule {
    count: u32,
    /// The length of each record, if values are records: object `i` has that of `i` modulo their
    /// number. Empty: lengths are the trace's.
    record_bytes: Vec<u32>,
}

impl Rule {
    /// Returns the number of copies.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the number of copy `copy` of an object, or of the request at a position.
    pub fn number(&self, original: u32, copy: u32) -> u32 {
        original * self.count + copy
    }

    /// Returns the length of an object's value, which is `own` unless values are records.
    pub fn value_bytes(&self, object: u32, own: u32) -> u32 {
        match self.record_bytes.len() {
            0 => own,
            records => self.record_bytes[object as usize % records],
        }
    }
}

impl From<Trace> for Copies {
    /// The trace itself.
    fn from(trace: Trace) -> Copies {
        Copies::of_rule(trace, 1)
    }
}

impl Copies {
    fn new(trace: Trace, count: u32) -> Outcome<Copies> {
        let all = |one: u64| one.saturating_mul(u64::from(count));
        let (requests, objects) = (all(trace.requests.len() as u64), all(trace.objects.into()));
        if requests > REQUESTS_MAX || objects > u64::from(OBJECTS_MAX) {
            let most = format!("{REQUESTS_MAX} requests and {OBJECTS_MAX} objects are the most");
            let found = format!("{requests} requests for {objects} objects");
            return Err(Failure::Usage(format!("--copies {count} makes {found}: {most}")));
        }
        Ok(Copies::of_rule(trace, count))
    }

    fn of_rule(trace: Trace, count: u32) -> Copies {
        let rule = Rule { count, record_bytes: Vec::new() };
        Copies { trace, rule, filled_in: 0, ttls_filled_in: 0 }
    }

    /// Returns its name in reports.
    pub fn name(&self) -> String {
        match self.rule.count {
            1 => self.trace.name.clone(),
            count => format!("{}, {count} copies", self.trace.name),
        }
    }

    /// Returns the number of requests in all copies.
    pub fn len(&self) -> usize {
        self.trace.requests.len() * self.rule.count()
    }

    /// Returns the number of different objects in all copies.
    pub fn objects(&self) -> u32 {
        self.trace.objects * self.rule.count
    }

    /// Returns the requests of the original.
    pub fn originals(&mut self) -> &mut [Request] {
        &mut self.trace.requests
    }

    /// Returns the original trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the rule for the copies.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Gives every get without a length that of its object's next request in the trace, or else of
    /// the previous one: a get that missed has none, and the store after it would be empty and take
    /// next to no memory.
    pub fn fill_in_lengths(&mut self) {
        let mut known = vec![0; self.trace.objects as usize];
        let mut is_filled = vec![false; self.trace.requests.len()];
        let mut look = |request: &mut Request, is_filled: &mut bool| {
            let length = &mut known[request.object as usize];
            if request.operation == Operation::Get && request.value_bytes == 0 && *length > 0 {
                request.value_bytes = *length;
                *is_filled = true;
            } else if request.value_bytes > 0 {
                *length = request.value_bytes;
            }
        };
        let requests = self.trace.requests.iter_mut().zip(&mut is_filled);
        requests.rev().for_each(|(request, is_filled)| look(request, is_filled));
        let requests = self.trace.requests.iter_mut().zip(&mut is_filled);
        requests.for_each(|(request, is_filled)| look(request, is_filled));
        self.filled_in = is_filled.iter().filter(|is_filled| **is_filled).count() as u64;
    }

    /// Gives every get without a time to live that of its object's next store in the trace, or else
    /// of the previous one: otherwise the store after a miss would stay for ever.
    fn fill_in_ttls(&mut self) {
        use Operation::{Add, Cas, Get, Replace, Set};
        let mut known = vec![None; self.trace.objects as usize];
        let mut is_told = vec![false; self.trace.requests.len()];
        let mut filled_in = 0;
        let mut look = |request: &mut Request, is_told: &mut bool| {
            let ttl_s = &mut known[request.object as usize];
            match request.operation {
                Set | Add | Replace | Cas => *ttl_s = Some(request.ttl_s),
                Get if request.ttl_s == 0 && !*is_told => {
                    // For ever is an answer, too.
                    *is_told = ttl_s.is_some();
                    request.ttl_s = ttl_s.unwrap_or(0);
                    filled_in += u64::from(request.ttl_s > 0);
                }
                _ => {}
            }
        };
        let requests = self.trace.requests.iter_mut().zip(&mut is_told);
        requests.rev().for_each(|(request, is_told)| look(request, is_told));
        let requests = self.trace.requests.iter_mut().zip(&mut is_told);
        requests.for_each(|(request, is_told)| look(request, is_told));
        self.ttls_filled_in = filled_in;
    }

    /// Returns the gets that were given a length or a time to live, for a report; empty if there
    /// are none.
    pub fn filled_in_words(&self) -> Vec<(String, String)> {
        let kinds = [
            ("lengths filled in", self.filled_in, "length"),
            ("times to live filled in", self.ttls_filled_in, "time to live"),
        ];
        let told = kinds.into_iter().filter(|(_, gets, _)| *gets > 0);
        let words = |gets, what| {
            format!(
                "{gets} gets of the trace tell no {what}: they have the one that their object has \
                 next, or had last"
            )
        };
        told.map(|(name, gets, what)| (name.to_owned(), words(gets, what))).collect()
    }

    /// Gives every object the length of its record.
    pub fn follow_records(&mut self, record_bytes: Vec<u32>) {
        self.rule.record_bytes = record_bytes;
    }

    /// Returns the requests of all copies, interleaved.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Request> {
        let rule = &self.rule;
        let copies = move |original: &Request| {
            let original = *original;
            (0..rule.count).map(move |copy| {
                let object = rule.number(original.object, copy);
                let value_bytes = rule.value_bytes(object, original.value_bytes);
                Request { object, value_bytes, ..original }
            })
        };
        self.trace.requests.iter().flat_map(copies)
    }
}

#[cfg(test)]
mod tests {
    use super::{Copies, CopyOptions};
    use crate::policies::check::reads;
    use crate::trace::{Operation, Trace};

    fn trace(objects: &[u32]) -> Trace {
        Trace { name: "t".into(), requests: reads(objects), objects: 2 }
    }

    #[test]
    fn copies_are_disjoint_interleaved_and_numbered_as_they_appear() {
        let copies = Copies::new(trace(&[0, 1, 0]), 3).expect("few");
        let objects: Vec<u32> = copies.iter().map(|request| request.object).collect();
        assert_eq!(objects, [0, 1, 2, 3, 4, 5, 0, 1, 2]);
        assert_eq!((copies.len(), copies.objects()), (9, 6));
        assert_eq!(copies.name(), "t, 3 copies");
        let back: Vec<u32> = copies.iter().rev().map(|request| request.object).collect();
        assert_eq!(back, [2, 1, 0, 5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn one_copy_is_the_trace() {
        let copies = Copies::new(trace(&[0, 1, 0]), 1).expect("few");
        assert!(copies.iter().eq(trace(&[0, 1, 0]).requests));
        assert_eq!(copies.name(), "t");
    }

    #[test]
    fn copies_have_the_records_of_their_own_numbers() {
        let mut copies = Copies::new(trace(&[0, 1]), 2).expect("few");
        copies.follow_records(vec![10, 20, 30]);
        let bytes: Vec<u32> = copies.iter().map(|request| request.value_bytes).collect();
        assert_eq!(bytes, [10, 20, 30, 10]);
    }

    /// Regression: the store after such a miss was empty.
    #[test]
    fn a_missed_get_has_its_objects_next_length() {
        let mut copies = Copies::new(trace(&[0, 1, 0, 0, 1, 0]), 1).expect("few");
        assert_eq!(copies.filled_in_words(), []);
        let lengths = [0, 0, 50, 70, 0, 0];
        for (request, bytes) in copies.originals().iter_mut().zip(lengths) {
            request.value_bytes = bytes;
        }
        copies.originals()[2].operation = Operation::Set;
        copies.fill_in_lengths();
        let bytes: Vec<u32> = copies.iter().map(|request| request.value_bytes).collect();
        assert_eq!(bytes, [50, 0, 50, 70, 0, 70], "of object 1 nothing is known");
        let (_, words) = copies.filled_in_words().pop().expect("two were filled in");
        assert!(words.starts_with("2 gets"), "{words}");
    }

    /// Regression: the store after such a miss stayed for ever.
    #[test]
    fn a_get_has_its_objects_next_time_to_live() {
        let mut trace = trace(&[0, 0, 0, 0, 0, 1, 0]);
        for (place, ttl_s) in [(1, 60), (3, 0), (5, 0)] {
            (trace.requests[place].operation, trace.requests[place].ttl_s) =
                (Operation::Set, ttl_s);
        }
        trace.requests[6].ttl_s = 5;
        trace.requests.push(trace.requests[0]);
        trace.requests[4].operation = Operation::Delete;
        let copies = CopyOptions { copies: 2 }.of(trace).expect("few");
        let ttls_s: Vec<u32> = copies.iter().step_by(2).map(|request| request.ttl_s).collect();
        assert_eq!(ttls_s, [60, 60, 0, 0, 0, 0, 5, 0], "before a set for ever it is for ever");
        let (_, words) = copies.filled_in_words().pop().expect("one was filled in");
        assert!(words.starts_with("1 gets"), "{words}");
    }

    #[test]
    fn a_get_that_no_set_follows_has_the_last_time_to_live() {
        let mut trace = trace(&[0, 0, 0]);
        (trace.requests[0].operation, trace.requests[0].ttl_s) = (Operation::Set, 60);
        (trace.requests[1].operation, trace.requests[1].ttl_s) = (Operation::Add, 70);
        let copies = CopyOptions { copies: 1 }.of(trace).expect("few");
        assert_eq!(copies.iter().next_back().map(|request| request.ttl_s), Some(70));
    }

    #[test]
    fn more_requests_or_objects_than_can_be_numbered_are_refused() {
        let many = Trace { objects: 1 << 31, ..trace(&[0]) };
        assert!(Copies::new(many, 1).is_ok());
        let many = Trace { objects: 1 << 31, ..trace(&[0]) };
        let failure = Copies::new(many, 2).expect_err("2^32 objects");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().starts_with("--copies 2 makes 2 requests"), "{failure}");
    }
}
