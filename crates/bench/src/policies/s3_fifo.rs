//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, SOSP 2023): three queues. New items enter a small one, a
//! tenth of the cache. At its end, an item goes to the main queue if it was used more than once
//! meanwhile, and otherwise leaves the cache, while its name stays in a ghost queue; a request for
//! a ghost enters the main queue at once. The main queue evicts like CLOCK with a counter of up to
//! 3.
//!
//! Follows the paper's algorithm 1. Its queues are counted in objects; here they are counted in
//! weight, and the ghosts may weigh as much as the main queue.
//!
//! Memory per item: a place in a ring of 8 bytes, a byte for the counter, and for its share of the
//! ghosts, at most nine tenths of a ghost per item, a fingerprint with its time of 8 bytes.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 17;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// One part in this many of the cache is the small queue.
const SMALL_PART: u64 = 10;
/// Uses at which an item of the small queue earns a place in the main queue.
const USES_FOR_MAIN: u8 = 2;
/// The maximum of the counter of uses.
const USES_MAX: u8 = 3;

/// A cache of a small and a main queue, and ghosts.
pub struct S3Fifo {
    capacity: u64,
    small_capacity: u64,
    queues: Lists<3>,
    uses: Vec<u8>,
}

impl S3Fifo {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> S3Fifo {
        let small_capacity = (capacity / SMALL_PART).max(1);
        let uses = vec![0; objects as usize];
        S3Fifo { capacity, small_capacity, queues: Lists::new(objects), uses }
    }

    fn main_capacity(&self) -> u64 {
        self.capacity - self.small_capacity
    }

    /// Makes some room, unless every item of the small queue earned a place in the main queue.
    fn evict(&mut self) {
        let is_small_full = self.queues.weight(SMALL) >= self.small_capacity;
        if is_small_full || self.queues.items(MAIN) == 0 {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        while let Some((object, weight)) = self.queues.pop_back(SMALL) {
            let uses = std::mem::take(&mut self.uses[object as usize]);
            if uses < USES_FOR_MAIN {
                self.remember(object, weight);
                return;
            }
            self.queues.push_front(MAIN, object, weight);
            if self.queues.weight(MAIN) > self.main_capacity() {
                self.evict_main();
            }
        }
    }

    fn evict_main(&mut self) {
        while let Some(object) = self.queues.back(MAIN) {
            if self.uses[object as usize] == 0 {
                self.queues.remove(object);
                return;
            }
            self.uses[object as usize] -= 1;
            self.queues.move_to_front(MAIN, object);
        }
    }

    fn remember(&mut self, object: u32, weight: u32) {
        self.queues.push_front(GHOST, object, weight);
        while self.queues.weight(GHOST) > self.main_capacity() {
            self.queues.pop_back(GHOST);
        }
    }
}

impl Policy for S3Fifo {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = matches!(self.queues.home(visit.object), Some(SMALL | MAIN));
        if hit {
            let uses = &mut self.uses[visit.object as usize];
            *uses = (*uses + 1).min(USES_MAX);
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        let is_ghost = self.queues.remove(visit.object).is_some();
        while self.used() + u64::from(visit.weight) > self.capacity {
            self.evict();
        }
        self.uses[visit.object as usize] = 0;
        self.queues.push_front(if is_ghost { MAIN } else { SMALL }, visit.object, visit.weight);
    }

    fn remove(&mut self, object: u32) {
        self.queues.remove(object);
    }

    fn used(&self) -> u64 {
        self.queues.weight(SMALL) + self.queues.weight(MAIN)
    }

    fn items(&self) -> u64 {
        self.queues.items(SMALL) + self.queues.items(MAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::S3Fifo;
    use crate::policies::check::hits;

    #[test]
    fn ghosts_enter_the_main_queue_and_twice_used_items_stay() {
        // Capacity 3: small 1, main 2. 0 is used twice and moves to main when 3 is stored, 1 leaves
        // as a ghost. When 1 comes again it enters main, and 2 leaves as a ghost for it.
        let mut cache = S3Fifo::new(3, 6);
        assert_eq!(hits(&mut cache, &[0, 1, 2, 0, 0, 3, 0, 1, 0, 1, 2]), "...hh.h.hh.");
    }

    #[test]
    fn an_item_used_once_leaves_the_small_queue() {
        let mut cache = S3Fifo::new(2, 4);
        assert_eq!(hits(&mut cache, &[0, 0, 1, 2, 0]), ".h...");
    }
}
