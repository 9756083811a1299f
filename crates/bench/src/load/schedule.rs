//! Who sends which request, and when.
//!
//! What a connection sends is copied out of the trace before anything is sent, so that it reads its
//! requests one behind the other: 20 bytes for each, beside the trace's 28.
//!
//! All requests for one object go over one connection, so that they arrive in the order of the
//! trace. Without a rate each connection sends as soon as replies come (a closed loop). With a
//! rate, every request has a time at which it should be sent, whatever the server does (an open
//! loop), and its latency counts from then: a server that stalls is charged for all that had to
//! wait, not only for the one request that met the stall (coordinated omission).

use std::time::Duration;

use crate::trace::{Operation, Request};

/// Spreads objects over connections; any odd number with well-mixed upper bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What one connection sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// In the order of the trace.
    pub requests: Vec<Planned>,
}

/// A request of a trace that one connection sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Where it stands in the trace.
    pub position: u32,
    /// Which object.
    pub object: u32,
    /// Bytes of its value.
    pub value_bytes: u32,
    /// Seconds that what is stored stays valid; 0 for ever.
    pub ttl_s: u32,
    /// Bytes of its key.
    pub key_bytes: u16,
    /// What is done.
    pub operation: Operation,
}

const _: () = assert!(size_of::<Planned>() == 20);

/// Splits a trace over `connections`.
pub fn split(requests: &[Request], connections: usize) -> Vec<Share> {
    let mut shares = vec![Share::default(); connections];
    for (position, request) in requests.iter().enumerate() {
        let mixed = (u64::from(request.object).wrapping_add(1)).wrapping_mul(SPREAD) >> 32;
        let connection = ((mixed * connections as u64) >> 32) as usize;
        let Request { object, value_bytes, ttl_s, key_bytes, operation, .. } = *request;
        let position = position as u32;
        let planned = Planned { position, object, value_bytes, ttl_s, key_bytes, operation };
        shares[connection].requests.push(planned);
    }
    shares
}

/// When request `position` of an open loop should be sent, from the start of the run.
pub fn due(position: u32, per_second: f64) -> Duration {
    Duration::from_secs_f64(f64::from(position) / per_second)
}

#[cfg(test)]
mod tests {
    use super::{due, split};
    use crate::trace::{Operation, Request};

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
    fn every_request_is_sent_once_and_an_object_stays_on_its_connection() {
        let requests: Vec<_> = (0..30_000).map(|number| request(number % 10_000)).collect();
        let shares = split(&requests, 7);
        let mut seen = vec![false; requests.len()];
        let mut owner = vec![None; 10_000];
        for (connection, share) in shares.iter().enumerate() {
            assert!(share.requests.is_sorted_by_key(|planned| planned.position));
            for planned in &share.requests {
                let position = planned.position as usize;
                assert!(!std::mem::replace(&mut seen[position], true));
                let object = requests[position].object as usize;
                assert_eq!(planned.object as usize, object);
                assert_eq!(*owner[object].get_or_insert(connection), connection);
            }
            let even = requests.len() / shares.len();
            assert!((even / 2..even * 2).contains(&share.requests.len()), "about even");
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn an_open_loop_is_evenly_paced() {
        assert_eq!(due(0, 1000.0).as_micros(), 0);
        assert_eq!(due(2500, 1000.0).as_micros(), 2_500_000);
    }
}
