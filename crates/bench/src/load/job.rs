//! What is sent, and what is made of the replies: the same for all connections of a run.

use std::time::Duration;

use super::exchange::Protocol;
use super::schedule::{Deal, Planned};
use crate::failure::{Failure, Outcome};
use crate::trace::copies::Copies;
use crate::trace::{Operation, Request};
use crate::values::Values;

/// A server that says nothing for this long while it owes replies is given up.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What all connections of a run have in common.
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
    /// Requests per second over all connections; none: a closed loop.
    pub per_second: Option<f64>,
    /// Requests at the front of the trace that are sent and not counted.
    pub warm_up: u32,
    /// What is known of the value that a get finds.
    pub check: Check,
    /// How long a server that owes replies may say nothing.
    pub silence_max: Duration,
}

/// What the value of a hit is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Nothing: something in the trace changes values in place.
    Nothing,
    /// The object's bytes, of whatever length it was when it was stored.
    Content,
    /// The object's bytes, and its one length.
    Whole,
}

impl Check {
    /// The strictest that holds for a trace.
    pub fn of(trace: &Copies) -> Check {
        use Operation::{Append, Decrement, Increment, Prepend};
        let changes =
            |it: &Request| matches!(it.operation, Append | Prepend | Increment | Decrement);
        if trace.trace().requests.iter().any(changes) {
            return Check::Nothing;
        }
        let mut lengths = vec![None; trace.objects() as usize];
        let mut lasts = |request: Request| {
            let bytes = request.value_bytes;
            *lengths[request.object as usize].get_or_insert(bytes) == bytes
        };
        if trace.iter().all(&mut lasts) { Check::Whole } else { Check::Content }
    }
}

impl Job<'_> {
    /// How to deal the requests out: in turn where nothing hangs on the order of an object's
    /// requests, so that all connections have something to send until the end. That is so where
    /// nothing but gets is sent, or nothing but sets, and an object has one value. A schedule has
    /// no such end.
    pub fn deal(&self) -> Deal {
        let mut operations = self.trace.trace().requests.iter().map(|it| it.operation);
        let first = operations.next().filter(|it| matches!(it, Operation::Get | Operation::Set));
        let is_alike = first.is_some_and(|first| operations.all(|it| it == first));
        let is_free = is_alike && self.check == Check::Whole && self.per_second.is_none();
        if is_free { Deal::InTurn } else { Deal::ByObject }
    }

    /// Compares a hit with what was stored. `scratch` may hold anything before and after.
    pub fn check(&self, planned: &Planned, value: &[u8], scratch: &mut Vec<u8>) -> Outcome<()> {
        let Planned { object, value_bytes, .. } = *planned;
        if self.check == Check::Whole && value.len() != value_bytes as usize {
            let found = value.len();
            let what = format!("object {object} came back with {found} bytes, not {value_bytes}");
            let advice = "has the server another run's objects? `flush_all` removes them";
            return Err(Failure::Check(format!("{what}: {advice}")));
        }
        if self.check == Check::Nothing || self.values.is_value(object, value, scratch) {
            return Ok(());
        }
        Err(Failure::Check(format!("object {object} came back with another value")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Check, Job, SILENCE_MAX};
    use crate::load::exchange::Protocol;
    use crate::load::schedule::Deal;
    use crate::policies::check::reads;
    use crate::trace::copies::Copies;
    use crate::trace::{Operation, Trace};
    use crate::values::Values;

    #[test]
    fn the_check_is_as_strict_as_the_trace_allows() {
        let trace = Trace { name: "t".into(), requests: reads(&[0, 1, 0]), objects: 2 };
        let mut trace = Copies::from(trace);
        trace.originals()[1].value_bytes = 7;
        assert_eq!(Check::of(&trace), Check::Whole);
        trace.originals()[2].value_bytes = 7;
        assert_eq!(Check::of(&trace), Check::Content);
        trace.originals()[1].operation = Operation::Append;
        assert_eq!(Check::of(&trace), Check::Nothing);
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
        assert_eq!(deal(&trace, Check::Content, None), Deal::ByObject);
        assert_eq!(deal(&trace, Check::Whole, Some(1.0)), Deal::ByObject);
        trace.originals()[1].operation = Operation::Set;
        assert_eq!(deal(&trace, Check::Whole, None), Deal::ByObject);
        trace.originals().iter_mut().for_each(|it| it.operation = Operation::Set);
        assert_eq!(deal(&trace, Check::Whole, None), Deal::InTurn);
    }
}
