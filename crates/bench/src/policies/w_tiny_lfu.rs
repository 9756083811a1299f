//! W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 2017), as in Caffeine: new
//! items enter a small LRU window; an item leaving the window is admitted to the main cache only if
//! a sketch has counted more uses of it lately than of the item it would evict. The main cache is a
//! segmented LRU: probation, and after another use a protected part.
//!
//! Shares as in the paper: the window is 1 % of the cache, and four fifths of the rest are
//! protected. Left out are Caffeine's adaptation of the window, its few random admissions against
//! attackers, and the sketch's doorkeeper, which Caffeine left out too. Sizes are weights; an item
//! that is larger than its opponent has to win against as many of them as must leave.
//!
//! Memory per item: two pointers, a byte for the list, and 8 bytes of sketch.

use super::lists::Lists;
use super::sketch::Sketch;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 25;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

/// One part in this many of the cache is the window.
const WINDOW_PART: u64 = 100;
/// The protected part of the main cache, in percent.
const PROTECTED_PERCENT: u64 = 80;

/// A cache that admits by frequency.
pub struct WTinyLfu {
    window_capacity: u64,
    main_capacity: u64,
    protected_capacity: u64,
    lists: Lists<3>,
    sketch: Sketch,
}

impl WTinyLfu {
    /// Returns an empty cache, which will hold about `items` items.
    pub fn new(capacity: u64, objects: u32, items: u64) -> WTinyLfu {
        let window_capacity = (capacity / WINDOW_PART).max(1);
        let main_capacity = capacity - window_capacity;
        WTinyLfu {
            window_capacity,
            main_capacity,
            protected_capacity: main_capacity * PROTECTED_PERCENT / 100,
            lists: Lists::new(objects),
            sketch: Sketch::new(items),
        }
    }

    fn main_weight(&self) -> u64 {
        self.lists.weight(PROBATION) + self.lists.weight(PROTECTED)
    }

    /// Decides whether an item leaving the window wins a place in the main cache, or leaves.
    fn settle(&mut self, candidate: u32) {
        let weight = u64::from(self.lists.weight_of(candidate));
        if weight > self.main_capacity {
            self.lists.remove(candidate);
            return;
        }
        while self.main_weight() + weight > self.main_capacity {
            let victim = self.lists.back(PROBATION).or_else(|| self.lists.back(PROTECTED));
            let wins = |victim| self.sketch.count(candidate) > self.sketch.count(victim);
            let Some(victim) = victim.filter(|victim| wins(*victim)) else {
                self.lists.remove(candidate);
                return;
            };
            self.lists.remove(victim);
        }
        self.lists.move_to_front(PROBATION, candidate);
    }

    fn protect(&mut self, object: u32) {
        self.lists.move_to_front(PROTECTED, object);
        while self.lists.weight(PROTECTED) > self.protected_capacity {
            let oldest = self.lists.back(PROTECTED).expect("what weighs something has an end");
            self.lists.move_to_front(PROBATION, oldest);
        }
    }
}

impl Policy for WTinyLfu {
    fn read(&mut self, visit: Visit) -> bool {
        let Some(home) = self.lists.home(visit.object) else { return false };
        self.sketch.add(visit.object);
        match home {
            PROBATION => self.protect(visit.object),
            _ => self.lists.move_to_front(home, visit.object),
        }
        true
    }

    fn insert(&mut self, visit: Visit) {
        self.sketch.add(visit.object);
        self.lists.push_front(WINDOW, visit.object, visit.weight);
        while self.lists.weight(WINDOW) > self.window_capacity {
            let candidate = self.lists.back(WINDOW).expect("what weighs something has an end");
            self.settle(candidate);
        }
    }

    fn remove(&mut self, object: u32) {
        self.lists.remove(object);
    }

    fn used(&self) -> u64 {
        self.lists.weight(WINDOW) + self.main_weight()
    }

    fn items(&self) -> u64 {
        [WINDOW, PROBATION, PROTECTED].map(|list| self.lists.items(list)).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::WTinyLfu;
    use crate::policies::check::hits;

    #[test]
    fn items_used_once_do_not_evict_a_popular_one() {
        // Window 1, main 3. 0, 1 and 2 are used twice; 3 to 6 come once and are not admitted.
        let mut cache = WTinyLfu::new(4, 9, 64);
        let objects = [0, 1, 2, 3, 0, 1, 2, 4, 5, 6, 0, 1, 2];
        assert_eq!(hits(&mut cache, &objects), "....hhh...hhh");
    }

    #[test]
    fn an_item_that_becomes_popular_is_admitted() {
        // Capacity 2: window 1, main 1. 1 is admitted when it leaves the window after its third
        // use, one more than 0 has.
        let mut cache = WTinyLfu::new(2, 9, 64);
        assert_eq!(hits(&mut cache, &[0, 1, 0, 2, 1, 2, 1, 2, 1, 2, 1]), "..h.....hhh");
    }
}
