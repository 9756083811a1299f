//! GreedyDual with a priority queue (Young, 1994), which GD-Wheel (Li and Cox, EuroSys 2015) calls
//! GD-PQ and approximates: an item's priority is its cost plus an inflation that rises to the
//! priority of the last evicted item. A use renews the priority; the lowest leaves, of equals the
//! one renewed longest ago. With equal costs this is exactly LRU.
//!
//! Like GD-Wheel it looks at costs and not at sizes. An unknown cost counts as 1.
//!
//! With `COUNTED` the comparisons of the queue are counted, in whatever thread they are made: the
//! steps whose number grows with the items, independent of the machine.
//!
//! Memory per item: a priority of 8 bytes, a cost of 4 and a place of 4 in the heap.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 16;

thread_local! {
    /// Comparisons of all counting queues.
    static COMPARISONS: Cell<u64> = const { Cell::new(0) };
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: u64,
    renewed: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    rank: Rank,
    cost_us: u32,
    /// 0: not resident.
    weight: u32,
}

/// The place of an object in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place<const COUNTED: bool>(Rank, u32);

impl<const COUNTED: bool> Ord for Place<COUNTED> {
    fn cmp(&self, other: &Self) -> Ordering {
        if COUNTED {
            COMPARISONS.with(|count| count.set(count.get() + 1));
        }
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl<const COUNTED: bool> PartialOrd for Place<COUNTED> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A cache that evicts the item that is cheapest to make again, weighed against recency.
pub struct GdPq<const COUNTED: bool> {
    capacity: u64,
    used: u64,
    inflation: u64,
    now: u64,
    entries: Vec<Entry>,
    /// The resident objects; the first leaves next.
    order: BTreeSet<Place<COUNTED>>,
    /// The count of comparisons before this queue's first.
    counted_before: u64,
}

impl<const COUNTED: bool> GdPq<COUNTED> {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Self {
        let entries = vec![Entry::default(); objects as usize];
        GdPq {
            capacity,
            used: 0,
            inflation: 0,
            now: 0,
            entries,
            order: BTreeSet::new(),
            counted_before: COMPARISONS.get(),
        }
    }

    fn renew(&mut self, object: u32) {
        self.now += 1;
        let entry = &mut self.entries[object as usize];
        self.order.remove(&Place(entry.rank, object));
        let priority = self.inflation + u64::from(entry.cost_us.max(1));
        entry.rank = Rank { priority, renewed: self.now };
        self.order.insert(Place(entry.rank, object));
    }
}

impl<const COUNTED: bool> Policy for GdPq<COUNTED> {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = self.entries[visit.object as usize].weight > 0;
        if hit {
            self.renew(visit.object);
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        while self.used + u64::from(visit.weight) > self.capacity {
            let first = self.order.first().expect("what fits alone fits without the rest");
            let Place(Rank { priority, .. }, object) = *first;
            self.inflation = priority;
            self.remove(object);
        }
        self.used += u64::from(visit.weight);
        let entry = &mut self.entries[visit.object as usize];
        (entry.cost_us, entry.weight) = (visit.cost_us, visit.weight);
        self.renew(visit.object);
    }

    fn remove(&mut self, object: u32) {
        let entry = std::mem::take(&mut self.entries[object as usize]);
        self.used -= u64::from(entry.weight);
        self.order.remove(&Place(entry.rank, object));
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn items(&self) -> u64 {
        self.order.len() as u64
    }

    fn steps(&self) -> Option<u64> {
        COUNTED.then(|| COMPARISONS.get() - self.counted_before)
    }
}

#[cfg(test)]
mod tests {
    use super::GdPq;
    use crate::policies::{Policy, Visit};

    #[test]
    fn a_costly_item_outlives_cheap_ones_until_inflation_reaches_it() {
        let mut cache = GdPq::<false>::new(2, 9);
        let mut hit = |object: u32| {
            let cost_us = if object == 0 { 3 } else { 1 };
            cache.access(Visit { position: 0, object, weight: 1, cost_us })
        };
        // 0 has priority 3; 1 to 3 get 1, 2 and 3 as inflation rises, so that 0 is the oldest of
        // priority 3 and leaves for 4.
        assert_eq!([0, 1, 2, 3].map(&mut hit), [false; 4]);
        assert!(!hit(4));
        assert!(hit(3));
        assert!(!hit(0));
    }
}
