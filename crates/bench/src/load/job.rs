//! The requests of a run and the handling of replies, the same for all connections.

use std::time::Duration;

use super::exchange::Protocol;
use super::schedule::{Deal, Planned};
use crate::failure::{Failure, Outcome};
use crate::trace::Operation;
use crate::trace::copies::Copies;
use crate::values::Values;

/// A server that is silent for this long while it owes replies is given up.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The common data of all connections of a run.
#[derive(Debug)]
pub struct Job<'t> {
    /// The protocol.
    pub protocol: Protocol,
    /// The requests.
    pub trace: &'t Copies,
    /// The values of its objects.
    pub values: &'t Values,
    /// Stores an object when a get misses it.
    pub fills_misses: bool,
    /// Requests in flight on each connection of a closed loop; at times only half as many.
    pub depth: usize,
    /// Requests per second over all connections; `None`: a closed loop.
    pub per_second: Option<f64>,
    /// Requests at the front of the trace that are not counted.
    pub warm_up: u32,
    /// How the value of a hit is checked.
    pub check: Check,
    /// How long a server that owes replies may be silent.
    pub silence_max: Duration,
}

/// How the values of hits are checked, for each object by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The bytes of every object, and its one length.
    Whole,
    /// By what is known of each object of the trace, which has this many copies.
    Each(Vec<Known>, u32),
}

/// The part of a hit's value that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nothing: something in the trace changes the value in place.
    Nothing,
    /// The object's bytes, of whatever length it was when it was stored.
    Content,
    /// The object's bytes, and its one length, which every get tells.
    Whole,
}

impl Check {
    /// Returns the strictest check that holds for a trace. An operation that neither stores nor
    /// reads a value does not count for its length: a delete has none.
    pub fn of(trace: &Copies) -> Check {
        use Operation::{Append, Decrement, Delete, Increment, Prepend};
        let objects = trace.trace().objects as usize;
        let (mut known, mut lengths) = (vec![Known::Whole; objects], vec![None; objects]);
        for request in &trace.trace().requests {
            let object = request.object as usize;
            match request.operation {
                Append | Prepend | Increment | Decrement => known[object] = Known::Nothing,
                Delete => {}
                _ => {
                    // Other copies can have other lengths only where each record has its own.
                    let copy = trace.rule().number(request.object, 0);
                    let bytes = trace.rule().value_bytes(copy, request.value_bytes);
                    let lasts = *lengths[object].get_or_insert(bytes) == bytes;
                    if !lasts && known[object] == Known::Whole {
                        known[object] = Known::Content;
                    }
                }
            }
        }
        match known.iter().all(|it| *it == Known::Whole) {
            true => Check::Whole,
            false => Check::Each(known, trace.rule().count() as u32),
        }
    }

    /// Returns what is known of an object.
    pub fn known(&self, object: u32) -> Known {
        match self {
            Check::Whole => Known::Whole,
            Check::Each(known, copies) => known[(object / copies) as usize],
        }
    }
}

impl Job<'_> {
    /// Returns how to deal the requests out: in turn where the order of an object's requests does
    /// not matter, so that all connections have something to send until the end. That is so where
    /// only gets are sent, or only sets, and an object has one value. An open loop has no such end.
    pub fn deal(&self) -> Deal {
        let mut operations = self.trace.trace().requests.iter().map(|it| it.operation);
        let first = operations.next().filter(|it| matches!(it, Operation::Get | Operation::Set));
        let is_alike = first.is_some_and(|first| operations.all(|it| it == first));
        let is_free = is_alike && self.check == Check::Whole && self.per_second.is_none();
        if is_free { Deal::InTurn } else { Deal::ByObject }
    }

    /// Compares a hit with the stored value. `scratch` may hold anything before and after.
    pub fn check(&self, planned: &Planned, value: &[u8], scratch: &mut Vec<u8>) -> Outcome<()> {
        let Planned { object, value_bytes, .. } = *planned;
        let known = self.check.known(object);
        if known == Known::Whole && value.len() != value_bytes as usize {
            let found = value.len();
            let what = format!("object {object} came back with {found} bytes, not {value_bytes}");
            let advice = "has the server another run's objects? `flush_all` removes them";
            return Err(Failure::Check(format!("{what}: {advice}")));
        }
        if known == Known::Nothing || self.values.is_value(object, value, scratch) {
            return Ok(());
        }
        Err(Failure::Check(format!("object {object} came back with another value")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Check, Job, Known, SILENCE_MAX};
    use crate::load::exchange::Protocol;
    use crate::load::schedule::Deal;
    use crate::policies::check::reads;
    use crate::trace::copies::{Copies, CopyOptions};
    use crate::trace::{Operation, Trace};
    use crate::values::Values;

    #[test]
    fn the_check_is_as_strict_as_the_trace_allows() {
        let trace = Trace { name: "t".into(), requests: reads(&[0, 1, 0]), objects: 2 };
        let mut trace = Copies::from(trace);
        trace.originals()[1].value_bytes = 7;
        assert_eq!(Check::of(&trace), Check::Whole);
        trace.originals()[2].value_bytes = 7;
        let of_two = |first| Check::Each(vec![first, Known::Whole], 1);
        assert_eq!(Check::of(&trace), of_two(Known::Content));
        trace.originals()[0].operation = Operation::Append;
        assert_eq!(Check::of(&trace), of_two(Known::Nothing), "and no other object is spared");
    }

    /// Regression: the line of a delete has a size of 0; because of one, a server passed that
    /// truncated the values of all objects.
    #[test]
    fn a_delete_says_nothing_of_lengths() {
        let trace = Trace { name: "t".into(), requests: reads(&[0, 1, 0, 1]), objects: 2 };
        let mut trace = Copies::from(trace);
        trace.originals().iter_mut().for_each(|it| it.value_bytes = 600);
        (trace.originals()[1].operation, trace.originals()[1].value_bytes) = (Operation::Delete, 0);
        assert_eq!(Check::of(&trace), Check::Whole);
    }

    #[test]
    fn copies_are_known_as_what_they_are_copies_of() {
        let mut trace = Trace { name: "t".into(), requests: reads(&[0, 1]), objects: 2 };
        trace.requests[1].operation = Operation::Increment;
        let mut trace = CopyOptions { copies: 3 }.of(trace).expect("few");
        let check = Check::of(&trace);
        assert_eq!((check.known(2), check.known(3)), (Known::Whole, Known::Nothing));
        trace.originals()[1].operation = Operation::Get;
        trace.originals()[1].object = 0;
        trace.originals()[1].value_bytes = 9;
        assert_eq!(Check::of(&trace).known(1), Known::Content);
        trace.follow_records(vec![5, 6]);
        assert_eq!(Check::of(&trace), Check::Whole, "a record has one length");
    }

    #[test]
    fn requests_are_dealt_in_turn_where_their_order_is_nothing() {
        let trace = Trace { name: "t".into(), requests: reads(&[0, 1, 0]), objects: 2 };
        let (mut trace, values) = (Copies::from(trace), Values::random());
        let deal = |trace: &Copies, check, per_second| {
            let (protocol, silence_max) = (Protocol::Text, SILENCE_MAX);
            let (values, fills_misses, depth, warm_up) = (&values, true, 1, 0);
            let job = Job {
                protocol,
                trace,
                values,
                fills_misses,
                depth,
                per_second,
                warm_up,
                check,
                silence_max,
            };
            job.deal()
        };
        assert_eq!(deal(&trace, Check::Whole, None), Deal::InTurn);
        let content = Check::Each(vec![Known::Content; 2], 1);
        assert_eq!(deal(&trace, content, None), Deal::ByObject);
        assert_eq!(deal(&trace, Check::Whole, Some(1.0)), Deal::ByObject);
        trace.originals()[1].operation = Operation::Set;
        assert_eq!(deal(&trace, Check::Whole, None), Deal::ByObject);
        trace.originals().iter_mut().for_each(|it| it.operation = Operation::Set);
        assert_eq!(deal(&trace, Check::Whole, None), Deal::InTurn);
    }
}
