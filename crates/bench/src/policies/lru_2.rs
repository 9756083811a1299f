//! LRU-2 (O'Neil, O'Neil and Weikum, SIGMOD 1993: LRU-K with K = 2): the victim is the item whose
//! last use but one is furthest in the past. Items used only once count as infinitely far and leave
//! first, the least recently used of them before the others.
//!
//! The zExpander paper compares with an "LRU-X" whose definition could not be established; this is
//! used in its place under its own name. The paper's correlated reference period is 0 here, and the
//! history of evicted items is bounded by weight: as much as the cache holds, the oldest dropped
//! first.
//!
//! Memory per item: two times of 4 bytes and a place of 4 in a heap, and a ghost for each item: two
//! times, an 8-byte slot of a table and two pointers.

use std::collections::BTreeSet;

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 12 + 32;

const RESIDENT: usize = 0;
const GHOSTS: usize = 1;

/// The times of an object's last two uses, counted in requests from 1; 0 is never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Uses {
    /// The last but one: first, so that it decides the order.
    previous: u64,
    last: u64,
}

/// A cache that evicts by the last use but one.
pub struct Lru2 {
    capacity: u64,
    now: u64,
    lists: Lists<2>,
    uses: Vec<Uses>,
    /// The resident objects; the first leaves next.
    order: BTreeSet<(Uses, u32)>,
}

impl Lru2 {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Lru2 {
        Lru2 {
            capacity,
            now: 0,
            lists: Lists::new(objects),
            uses: vec![Uses::default(); objects as usize],
            order: BTreeSet::new(),
        }
    }

    fn mark(&mut self, object: u32) {
        self.now += 1;
        let uses = &mut self.uses[object as usize];
        self.order.remove(&(*uses, object));
        *uses = Uses { previous: uses.last, last: self.now };
        self.order.insert((*uses, object));
    }

    fn evict(&mut self) {
        let (_, object) = self.order.pop_first().expect("what fits alone fits without the rest");
        self.lists.move_to_front(GHOSTS, object);
        while self.lists.weight(GHOSTS) > self.capacity {
            let (object, _) = self.lists.pop_back(GHOSTS).expect("ghosts that weigh something");
            self.uses[object as usize] = Uses::default();
        }
    }
}

impl Policy for Lru2 {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = self.lists.home(visit.object) == Some(RESIDENT);
        if hit {
            self.mark(visit.object);
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        while self.used() + u64::from(visit.weight) > self.capacity {
            self.evict();
        }
        self.lists.remove(visit.object);
        self.lists.push_front(RESIDENT, visit.object, visit.weight);
        self.mark(visit.object);
    }

    fn remove(&mut self, object: u32) {
        self.lists.remove(object);
        let uses = std::mem::take(&mut self.uses[object as usize]);
        self.order.remove(&(uses, object));
    }

    fn used(&self) -> u64 {
        self.lists.weight(RESIDENT)
    }

    fn items(&self) -> u64 {
        self.lists.items(RESIDENT)
    }
}

#[cfg(test)]
mod tests {
    use super::Lru2;
    use crate::policies::check::hits;

    #[test]
    fn items_used_once_leave_before_items_used_twice() {
        // 0 is the least recently used but was used twice, so 1, 2 and 3 leave before it.
        let mut cache = Lru2::new(2, 5);
        assert_eq!(hits(&mut cache, &[0, 0, 1, 2, 3, 0]), ".h...h");
    }

    #[test]
    fn the_past_of_an_evicted_item_counts() {
        // 1 comes back with its history, so that 0, whose last use but one is older, leaves for 3.
        let mut cache = Lru2::new(2, 5);
        assert_eq!(hits(&mut cache, &[0, 0, 1, 2, 1, 3, 1, 0]), ".h....h.");
    }
}
