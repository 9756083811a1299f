//! FIFO and LRU: a list evicted from its end. Under FIFO, first in, first out, it is in the order
//! of storing; under LRU, least recently used, a use brings an item to the front.
//!
//! Memory per item: under FIFO its number in a ring, 8 bytes; under LRU two pointers of 8 bytes.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that FIFO itself needs.
pub const FIFO_OVERHEAD_BYTES: u32 = 8;
/// Bytes per item that LRU itself needs.
pub const LRU_OVERHEAD_BYTES: u32 = 16;

const LIST: usize = 0;

/// A cache that evicts the oldest or the least recently used item.
pub struct Queue {
    capacity: u64,
    lists: Lists<1>,
    /// Whether a use counts as being stored again.
    renews: bool,
}

impl Queue {
    /// Returns an empty cache that evicts the item stored first.
    pub fn fifo(capacity: u64, objects: u32) -> Queue {
        Queue { capacity, lists: Lists::new(objects), renews: false }
    }

    /// Returns an empty cache that evicts the least recently used item.
    pub fn lru(capacity: u64, objects: u32) -> Queue {
        Queue { renews: true, ..Queue::fifo(capacity, objects) }
    }
}

impl Policy for Queue {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = self.lists.home(visit.object).is_some();
        if hit && self.renews {
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
