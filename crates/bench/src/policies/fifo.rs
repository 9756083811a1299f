//! FIFO, first in, first out: the oldest item leaves, used or not.
//!
//! Memory per item: its number in a ring, 8 bytes.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 8;

const LIST: usize = 0;

/// A cache that evicts what was stored first.
pub struct Fifo {
    capacity: u64,
    lists: Lists<1>,
}

impl Fifo {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Fifo {
        Fifo { capacity, lists: Lists::new(objects) }
    }
}

impl Policy for Fifo {
    fn read(&mut self, visit: Visit) -> bool {
        self.lists.home(visit.object).is_some()
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
