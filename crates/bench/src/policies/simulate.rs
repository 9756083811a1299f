//! Runs a policy over a trace the way an application uses a cache: a get that misses is followed by
//! a set of the newly made value, other writes store or remove.
//!
//! An expired item is noticed when it is requested; until then it keeps its room, as in a cache
//! without a background's help. A store of another size removes the old item first, so that the
//! policy treats it as new. An item larger than the cache is not stored.

use std::borrow::Borrow;
use std::ops::AddAssign;

use super::weight::Scale;
use super::{Policy, Visit};
use crate::trace::{Operation, Request};

/// The counts of a run of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub gets: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Microseconds to make everything that was read.
    pub cost_us: u64,
    /// Microseconds to make everything that was missed.
    pub missed_cost_us: u64,
}

impl Tally {
    /// Counts a read.
    pub fn count(&mut self, hit: bool, cost_us: u32) {
        self.gets += 1;
        self.cost_us += u64::from(cost_us);
        if !hit {
            self.misses += 1;
            self.missed_cost_us += u64::from(cost_us);
        }
    }

    /// Returns misses per read.
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.gets.max(1) as f64
    }

    /// Returns the seconds of the backend that hits saved; `None` if no cost is known.
    pub fn saved_s(&self) -> Option<f64> {
        (self.cost_us > 0).then(|| (self.cost_us - self.missed_cost_us) as f64 / 1e6)
    }

    /// Returns the share of the cost that was paid; `None` if no cost is known.
    pub fn cost_miss_ratio(&self) -> Option<f64> {
        (self.cost_us > 0).then(|| self.missed_cost_us as f64 / self.cost_us as f64)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.gets += other.gets;
        self.misses += other.misses;
        self.cost_us += other.cost_us;
        self.missed_cost_us += other.missed_cost_us;
    }
}

/// A policy with the parts unknown to it: sizes and expiry.
pub struct Simulation {
    policy: Box<dyn Policy>,
    scale: Scale,
    capacity: u64,
    /// When each object's item expires, in seconds of the trace; 0: never.
    expiries_s: Vec<u32>,
    /// The weight of each object's item when it was last stored.
    weights: Vec<u32>,
}

impl Simulation {
    /// Returns an empty cache that holds at most `capacity` on this scale.
    pub fn new(policy: Box<dyn Policy>, scale: Scale, capacity: u64, objects: u32) -> Simulation {
        let objects = objects as usize;
        let (expiries_s, weights) = (vec![0; objects], vec![0; objects]);
        Simulation { policy, scale, capacity, expiries_s, weights }
    }

    /// Returns whether a read finds its object. A miss stores nothing yet.
    pub fn get(&mut self, position: u32, request: &Request) -> bool {
        let object = request.object as usize;
        if self.expiries_s[object] != 0 && self.expiries_s[object] <= request.time_s {
            self.remove(request.object);
        }
        self.policy.read(self.visit(position, request))
    }

    /// Stores an object.
    pub fn set(&mut self, position: u32, request: &Request) {
        let visit = self.visit(position, request);
        if u64::from(visit.weight) > self.capacity {
            return self.remove(request.object);
        }
        let object = request.object as usize;
        if self.weights[object] != visit.weight {
            self.policy.remove(request.object);
            self.weights[object] = visit.weight;
        }
        let ends_s = request.time_s.saturating_add(request.ttl_s);
        self.expiries_s[object] = if request.ttl_s == 0 { 0 } else { ends_s };
        self.policy.access(visit);
    }

    /// Removes an object.
    pub fn remove(&mut self, object: u32) {
        self.expiries_s[object as usize] = 0;
        self.policy.remove(object);
    }

    /// Returns the policy's steps so far, where they are counted.
    pub fn steps(&self) -> Option<u64> {
        self.policy.steps()
    }

    /// Returns the number of items in the cache.
    pub fn items(&self) -> u64 {
        self.policy.items()
    }

    /// Returns their weight.
    pub fn used(&self) -> u64 {
        self.policy.used()
    }

    fn visit(&self, position: u32, request: &Request) -> Visit {
        let weight = self.scale.weigh(request);
        Visit { position, object: request.object, weight, cost_us: request.cost_us }
    }

    /// Runs a trace; calls `pause` now and then, to show progress.
    pub fn run(
        &mut self,
        requests: impl IntoIterator<Item: Borrow<Request>>,
        mut pause: impl FnMut(u64),
    ) -> Tally {
        const PAUSE_REQUESTS: u32 = 1 << 16;
        let (mut tally, mut position) = (Tally::default(), 0);
        for request in requests {
            self.step(position, request.borrow(), &mut tally);
            position += 1;
            if position % PAUSE_REQUESTS == 0 {
                pause(PAUSE_REQUESTS.into());
            }
        }
        pause((position % PAUSE_REQUESTS).into());
        tally
    }

    fn step(&mut self, position: u32, request: &Request, tally: &mut Tally) {
        match request.operation {
            Operation::Get => {
                let hit = self.get(position, request);
                tally.count(hit, request.cost_us);
                if !hit {
                    self.set(position, request);
                }
            }
            Operation::Delete => self.remove(request.object),
            _ => self.set(position, request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Simulation;
    use crate::policies::check::{reads, setting};
    use crate::policies::kind::Kind;
    use crate::policies::weight::Scale;
    use crate::trace::Operation;

    fn simulation(capacity: u64, scale: Scale) -> Simulation {
        Simulation::new(Kind::Lru.build(&setting(capacity, 4, &[])), scale, capacity, 4)
    }

    #[test]
    fn gets_fill_and_writes_are_not_counted() {
        let mut requests = reads(&[0, 0, 0, 0, 0]);
        requests[0].operation = Operation::Set;
        requests[2].operation = Operation::Delete;
        let tally = simulation(1, Scale::Objects).run(&requests, |_| ());
        assert_eq!((tally.gets, tally.misses), (3, 1));
    }

    #[test]
    fn an_item_expires_at_its_second() {
        let mut requests = reads(&[0, 0, 0]);
        for (request, time_s) in requests.iter_mut().zip([5, 14, 15]) {
            (request.time_s, request.ttl_s) = (time_s, 10);
        }
        assert_eq!(simulation(1, Scale::Objects).run(&requests, |_| ()).misses, 2);
    }

    #[test]
    fn a_store_of_another_size_is_weighed_anew_and_a_giant_removes() {
        let mut requests = reads(&[0, 0, 0]);
        for (request, value_bytes) in requests.iter_mut().zip([10, 60, 101]) {
            (request.operation, request.value_bytes) = (Operation::Set, value_bytes);
        }
        let mut simulation = simulation(100, Scale::Bytes(0));
        let used: Vec<u64> = requests
            .iter()
            .map(|request| {
                simulation.set(0, request);
                simulation.used()
            })
            .collect();
        assert_eq!(used, [10, 60, 0]);
    }

    #[test]
    fn costs_are_summed() {
        let mut requests = reads(&[0, 1, 0]);
        requests.iter_mut().for_each(|request| request.cost_us = 10 + request.object);
        let tally = simulation(2, Scale::Objects).run(&requests, |_| ());
        assert_eq!((tally.cost_us, tally.missed_cost_us), (31, 21));
        assert!((tally.cost_miss_ratio().expect("costs are known") - 21.0 / 31.0).abs() < 1e-9);
    }
}
