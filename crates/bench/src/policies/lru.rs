//! LRU, least recently used: a list in order of the last use, whose end leaves.
//!
//! Memory per item: two pointers of 8 bytes.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 16;

const LIST: usize = 0;

/// A cache that evicts what was not used for the longest time.
pub struct Lru {
    capacity: u64,
    lists: Lists<1>,
}

impl Lru {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Lru {
        Lru { capacity, lists: Lists::new(objects) }
    }
}

impl Policy for Lru {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = self.lists.home(visit.object).is_some();
        if hit {
            self.lists.move_to_front(LIST, visit.object);
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        while self.lists.weight(LIST) + u64::from(visit.weight) > self.capacity {
            self.lists.pop_back(LIST).expect("what fits alone fits once the rest is gone");
        }
        self.lists.push_front(LIST, visit.object, visit.weight);
    }

    fn remove(&mut self, object: u32) {
        self.lists.remove(object);
    }

    fn used(&self) -> u64 {
        self.lists.weight(LIST)
    }

    fn items(&self) -> u64 {
        self.lists.items(LIST)
    }
}
