//! A bound on all policies, also with items of different sizes: the lower bound on misses by
//! Berger, Beckmann and Harchol-Balter ("Practical bounds on optimal caching with variable object
//! sizes", SIGMETRICS 2018), which they call PFOO-L.
//!
//! A hit needs its object in memory from one use to the next: its weight, for that number of
//! requests. All hits together cannot need more than the capacity over the length of the trace. The
//! bound gives it to the cheapest hits, as if memory that is free at one time could be used at
//! another.
//!
//! The needs of hits are sorted once and answer for every capacity, at 8 bytes for each request.

use std::borrow::Borrow;

use super::belady::NEVER;
use crate::trace::Request;

/// The needs of all hits.
pub struct Bound {
    /// Weight times requests, rising.
    needs: Vec<u64>,
    requests: u64,
}

impl Bound {
    /// Returns the bound for requests whose next uses are known and whose weights `weigh` returns.
    pub fn new(
        requests: impl IntoIterator<Item: Borrow<Request>>,
        next: &[u32],
        weigh: impl Fn(&Request) -> u32,
    ) -> Bound {
        let uses =
            requests.into_iter().zip(next).enumerate().filter(|(_, (_, next))| **next != NEVER);
        let mut needs: Vec<u64> = uses
            .map(|(position, (request, next))| {
                u64::from(weigh(request.borrow())) * (u64::from(*next) - position as u64)
            })
            .collect();
        needs.sort_unstable();
        Bound { needs, requests: next.len() as u64 }
    }

    /// Returns the most hits that a cache of this capacity can have.
    pub fn hits(&self, capacity: u64) -> u64 {
        let mut available = u128::from(capacity) * u128::from(self.requests);
        let is_paid = |need: &&u64| {
            let left = available.checked_sub(u128::from(**need));
            available = left.unwrap_or(0);
            left.is_some()
        };
        self.needs.iter().take_while(is_paid).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Bound;
    use crate::policies::belady::next_uses;
    use crate::policies::check::reads;

    #[test]
    fn the_cheapest_hits_come_first() {
        // Object 0 comes back after 1 and after 3 requests, object 1 after 2: needs 1, 3 and 3
        // of weight 1, and 6 requests of capacity 1 pay for two of them.
        let requests = reads(&[0, 0, 1, 2, 0, 1]);
        let bound = Bound::new(&requests, &next_uses(&requests, 3), |_| 1);
        assert_eq!(bound.needs, [1, 3, 3]);
        assert_eq!([0, 1, 2].map(|capacity| bound.hits(capacity)), [0, 2, 3]);
    }
}
