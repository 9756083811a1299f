//! The connection and the due time of each request.
//!
//! A connection's requests are copied out of the trace before anything is sent, so that it reads
//! them sequentially: 20 bytes for each, besides the trace's 28. Copies of a trace are made while
//! they are sent and cost no memory.
//!
//! All requests for one object and its copies go over one connection, so that they arrive in the
//! order of the trace. Then the connection of a popular key has more to send than the others, and
//! no two threads of a server meet at one key. Where that matters and order does not, requests are
//! dealt out in turn. Without a rate each connection sends as soon as replies come (a closed loop).
//! With a rate, every request has a time at which it should be sent, whatever the server does (an
//! open loop), and its latency counts from then: a server that stalls is charged for all waiting
//! requests, not only for the one that met the stall (coordinated omission).

use std::time::Duration;

use crate::trace::copies::{Copies, Rule};
use crate::trace::{Operation, Request};

/// Spreads objects over connections; any odd number with well-mixed upper bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// How requests are assigned to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deal {
    /// All requests for one object are sent by one.
    ByObject,
    /// Each request goes to the next connection, so that all send equally many.
    InTurn,
}

/// The requests of one connection.
#[derive(Debug, Clone)]
pub struct Share<'t> {
    /// In the order of the trace, and without copies.
    originals: Vec<Planned>,
    rule: &'t Rule,
}

impl Share<'_> {
    /// Returns the number of requests, of all copies together.
    pub fn len(&self) -> usize {
        self.originals.len() * self.rule.count()
    }

    /// Returns the request with this number, from 0, in the order of the trace; `None` after the
    /// last.
    pub fn request(&self, number: usize) -> Option<Planned> {
        let copies = self.rule.count();
        // Most loads have one copy: no division while the clock runs.
        let (place, copy) =
            if copies == 1 { (number, 0) } else { (number / copies, number % copies) };
        let (original, copy) = (*self.originals.get(place)?, copy as u32);
        let position = self.rule.number(original.position, copy);
        let object = self.rule.number(original.object, copy);
        let value_bytes = self.rule.value_bytes(object, original.value_bytes);
        Some(Planned { position, object, value_bytes, ..original })
    }

    /// Returns how many of the requests are before this place in the trace.
    pub fn before(&self, position: u32) -> usize {
        let (copies, place) = (self.rule.count(), position as usize);
        let last = |it: &Planned| self.rule.number(it.position, copies as u32 - 1) as usize;
        let whole = self.originals.partition_point(|it| last(it) < place);
        // Some copies of the next original may be before it.
        let rest = self
            .originals
            .get(whole)
            .map_or(0, |it| place.saturating_sub(self.rule.number(it.position, 0) as usize));
        whole * copies + rest
    }
}

/// A request of a trace that one connection sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Its place in the trace.
    pub position: u32,
    /// The object.
    pub object: u32,
    /// Bytes of its value.
    pub value_bytes: u32,
    /// Seconds that a stored object stays valid; 0: for ever.
    pub ttl_s: u32,
    /// Bytes of its key.
    pub key_bytes: u16,
    /// The operation.
    pub operation: Operation,
}

const _: () = assert!(size_of::<Planned>() == 20);

/// Splits a trace over `connections`.
pub fn split(trace: &Copies, connections: usize, deal: Deal) -> Vec<Share<'_>> {
    let mut shares = vec![Share { originals: Vec::new(), rule: trace.rule() }; connections];
    for (position, request) in trace.trace().requests.iter().enumerate() {
        let connection = match deal {
            Deal::ByObject => {
                let mixed = (u64::from(request.object).wrapping_add(1)).wrapping_mul(SPREAD) >> 32;
                ((mixed * connections as u64) >> 32) as usize
            }
            Deal::InTurn => position % connections,
        };
        let Request { object, value_bytes, ttl_s, key_bytes, operation, .. } = *request;
        let position = position as u32;
        let planned = Planned { position, object, value_bytes, ttl_s, key_bytes, operation };
        shares[connection].originals.push(planned);
    }
    shares
}

/// Returns when request `position` of an open loop is due, from the start of the run.
pub fn due(position: u32, per_second: f64) -> Duration {
    Duration::from_secs_f64(f64::from(position) / per_second)
}

#[cfg(test)]
mod tests {
    use super::{Deal, due, split};
    use crate::trace::copies::{Copies, CopyOptions};
    use crate::trace::{Operation, Request, Trace};

    fn request(object: u32) -> Request {
        Request {
            time_s: 0,
            object,
            value_bytes: 1,
            ttl_s: 0,
            cost_us: 0,
            key_bytes: 10,
            operation: Operation::Get,
        }
    }

    #[test]
    fn copies_are_sent_once_and_objects_stay_on_their_connection() {
        for copies in [1, 3] {
            let requests = (0..30_000).map(|number| request(number % 10_000)).collect();
            let trace = Trace { name: "t".into(), requests, objects: 10_000 };
            let trace = CopyOptions { copies }.of(trace).expect("few enough");
            every_request_is_sent_once(&trace, Deal::ByObject);
            every_request_is_sent_once(&trace, Deal::InTurn);
        }
    }

    fn every_request_is_sent_once(trace: &Copies, deal: Deal) {
        let requests: Vec<Request> = trace.iter().collect();
        let shares = split(trace, 7, deal);
        let mut seen = vec![false; requests.len()];
        let mut owner = vec![None; trace.objects() as usize];
        for (connection, share) in shares.iter().enumerate() {
            let planned = (0..share.len()).map(|number| share.request(number).expect("in range"));
            assert!(planned.clone().is_sorted_by_key(|planned| planned.position));
            assert!(share.request(share.len()).is_none());
            for place in [0, 1, 2, 10_000, 29_999, requests.len() as u32, u32::MAX] {
                let before = planned.clone().filter(|planned| planned.position < place).count();
                assert_eq!(share.before(place), before);
            }
            for planned in planned {
                let position = planned.position as usize;
                assert!(!std::mem::replace(&mut seen[position], true));
                assert_eq!(planned.object, requests[position].object);
                let object = planned.object as usize;
                let owner = *owner[object].get_or_insert(connection);
                assert!(deal == Deal::InTurn || owner == connection);
            }
            let even = requests.len() / shares.len();
            assert!((even / 2..even * 2).contains(&share.len()), "about even");
            assert!(deal == Deal::ByObject || share.len().abs_diff(even) <= trace.rule().count());
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn an_open_loop_is_evenly_paced() {
        assert_eq!(due(0, 1000.0).as_micros(), 0);
        assert_eq!(due(2500, 1000.0).as_micros(), 2_500_000);
    }
}
