//! LRU at every size in one pass, by stack distances (Mattson and others, 1970): a read hits in
//! every LRU cache that is at least as large as its distance, the weight of the object itself and
//! of all other objects that were used since its last use.
//!
//! Times of last use are in a Fenwick tree (Fenwick, 1994), where sums over a stretch of time take
//! logarithmic time. It has twice as many places as there are objects: when they are used up, the
//! live ones are numbered anew, so memory depends on the objects and not on the requests.
//!
//! Exact for objects of equal weight. With different weights a real LRU evicts a little more than
//! it needs, and so may have a few more misses. Times to live are ignored: when an item is stored
//! anew depends on the size.

use std::borrow::Borrow;

use super::simulate::Tally;
use super::weight::Scale;
use crate::trace::{Operation, Request};

/// Not in the stack.
const ABSENT: u32 = u32::MAX;

/// The objects in order of their last use.
struct Stack {
    /// Sums of weights over stretches of time, in Fenwick's arrangement; place 0 is not used.
    sums: Vec<u64>,
    /// Each object's time of last use.
    times: Vec<u32>,
    weights: Vec<u32>,
    /// The object that was used at each time; it may have been used again since.
    used_at: Vec<u32>,
    now: u32,
    total: u64,
}

impl Stack {
    fn new(objects: u32) -> Stack {
        let (objects, places) = (objects as usize, objects as usize * 2 + 2);
        Stack {
            sums: vec![0; places],
            times: vec![ABSENT; objects],
            weights: vec![0; objects],
            used_at: vec![0; places],
            now: 0,
            total: 0,
        }
    }

    /// Returns the weight of the object and those above it; `None` if it is not in the stack.
    fn distance(&self, object: u32) -> Option<u64> {
        let time = self.times[object as usize];
        if time == ABSENT {
            return None;
        }
        let mut older = 0;
        let mut place = time as usize - 1;
        while place > 0 {
            older += self.sums[place];
            place &= place - 1;
        }
        Some(self.total - older)
    }

    fn remove(&mut self, object: u32) {
        let time = std::mem::replace(&mut self.times[object as usize], ABSENT);
        if time != ABSENT {
            let weight = u64::from(self.weights[object as usize]);
            self.total -= weight;
            self.change(time, |sum| *sum -= weight);
        }
    }

    /// Puts the object on top.
    fn push(&mut self, object: u32, weight: u32) {
        self.remove(object);
        if self.now as usize + 1 == self.sums.len() {
            self.renumber();
        }
        self.enter(object, weight);
    }

    fn enter(&mut self, object: u32, weight: u32) {
        self.now += 1;
        self.used_at[self.now as usize] = object;
        self.times[object as usize] = self.now;
        self.weights[object as usize] = weight;
        self.total += u64::from(weight);
        self.change(self.now, |sum| *sum += u64::from(weight));
    }

    fn change(&mut self, time: u32, change: impl Fn(&mut u64)) {
        let mut place = time as usize;
        while place < self.sums.len() {
            change(&mut self.sums[place]);
            place += place & place.wrapping_neg();
        }
    }

    fn renumber(&mut self) {
        let is_living = |time: &usize| self.times[self.used_at[*time] as usize] == *time as u32;
        let times = (1..=self.now as usize).filter(is_living);
        let living: Vec<u32> = times.map(|time| self.used_at[time]).collect();
        self.sums.fill(0);
        (self.now, self.total) = (0, 0);
        for object in living {
            self.enter(object, self.weights[object as usize]);
        }
    }
}

/// Returns the counts of LRU caches of these capacities, which must rise, over a trace.
pub fn lru_at(
    requests: impl IntoIterator<Item: Borrow<Request>>,
    objects: u32,
    scale: Scale,
    capacities: &[u64],
) -> Vec<Tally> {
    let mut stack = Stack::new(objects);
    // The change from each capacity to the next larger one, and last the reads that never hit.
    let mut reads = vec![Tally::default(); capacities.len() + 1];
    for request in requests {
        let request: &Request = request.borrow();
        let is_read = request.operation == Operation::Get;
        if is_read {
            let enough = |distance| capacities.partition_point(|capacity| *capacity < distance);
            let first = stack.distance(request.object).map_or(capacities.len(), enough);
            reads[first].count(true, request.cost_us);
        }
        match request.operation {
            Operation::Delete => stack.remove(request.object),
            _ => stack.push(request.object, scale.weigh(request)),
        }
    }
    let mut all = Tally::default();
    reads.iter().for_each(|part| all += *part);
    let mut found = Tally::default();
    let at = reads[..capacities.len()].iter().map(|part| {
        found += *part;
        let (misses, missed_cost_us) = (all.gets - found.gets, all.cost_us - found.cost_us);
        Tally { misses, missed_cost_us, ..all }
    });
    at.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::lru_at;
    use crate::policies::check::reads;
    use crate::policies::weight::Scale;

    /// LRU at one size with nothing but a vector: too slow to use, too simple to be wrong.
    fn naive_misses(objects: &[u32], capacity: usize) -> u64 {
        let mut stack: Vec<u32> = Vec::new();
        let mut misses = 0;
        for object in objects {
            match stack.iter().position(|other| other == object) {
                Some(depth) => drop(stack.remove(depth)),
                None => misses += 1,
            }
            stack.insert(0, *object);
            stack.truncate(capacity);
        }
        misses
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_lru_at_every_size(
            objects in prop::collection::vec(0u32..12, 1..300),
        ) {
            let capacities: Vec<u64> = (1..=12).collect();
            let tallies = lru_at(reads(&objects), 12, Scale::Objects, &capacities);
            for (capacity, tally) in (1..).zip(tallies) {
                prop_assert_eq!(tally.gets, objects.len() as u64);
                prop_assert_eq!(tally.misses, naive_misses(&objects, capacity));
            }
        }
    }

    #[test]
    fn a_distance_weighs_the_object_and_what_came_since() {
        let mut requests = reads(&[0, 1, 0]);
        requests.iter_mut().for_each(|request| request.value_bytes = 10 + request.object);
        let misses = |capacity| lru_at(&requests, 2, Scale::Bytes(0), &[capacity])[0].misses;
        assert_eq!([20, 21].map(misses), [3, 2]);
    }
}
