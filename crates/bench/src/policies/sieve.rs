//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024): a queue in order of storing and a hand
//! that moves from the oldest to the newest, clearing the bits of used items and evicting the first
//! item without one. Unlike CLOCK it leaves survivors where they are, so that new items, which are
//! all ahead of the hand, are sieved sooner.
//!
//! Memory per item: two pointers of 8 bytes and a bit.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 17;

const QUEUE: usize = 0;

/// A cache that evicts at a hand which moves through the queue.
pub struct Sieve {
    capacity: u64,
    queue: Lists<1>,
    is_used: Vec<bool>,
    /// Where the hand looks next; `None`: the queue's back.
    hand: Option<u32>,
}

impl Sieve {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Sieve {
        let is_used = vec![false; objects as usize];
        Sieve { capacity, queue: Lists::new(objects), is_used, hand: None }
    }

    fn evict(&mut self) {
        loop {
            let object = self.hand.or_else(|| self.queue.back(QUEUE));
            let object = object.expect("what fits alone fits once the rest is gone");
            self.hand = self.queue.newer(object);
            if !std::mem::take(&mut self.is_used[object as usize]) {
                self.queue.remove(object);
                return;
            }
        }
    }
}

impl Policy for Sieve {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = self.queue.home(visit.object).is_some();
        if hit {
            self.is_used[visit.object as usize] = true;
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        while self.queue.weight(QUEUE) + u64::from(visit.weight) > self.capacity {
            self.evict();
        }
        self.is_used[visit.object as usize] = false;
        self.queue.push_front(QUEUE, visit.object, visit.weight);
    }

    fn remove(&mut self, object: u32) {
        if self.hand == Some(object) {
            self.hand = self.queue.newer(object);
        }
        self.queue.remove(object);
    }

    fn used(&self) -> u64 {
        self.queue.weight(QUEUE)
    }

    fn items(&self) -> u64 {
        self.queue.items(QUEUE)
    }
}

#[cfg(test)]
mod tests {
    use super::Sieve;
    use crate::policies::check::hits;

    #[test]
    fn survivors_stay_where_they_are() {
        // Storing 3 passes over 0 and evicts 1; the hand is then at 2, so storing 4 evicts 2 and
        // storing 5 evicts 3, the newest but one, while 0 stays behind the hand without its bit.
        let (mut sieve, objects) = (Sieve::new(3, 6), [0, 1, 2, 0, 3, 4, 5, 0, 3]);
        assert_eq!(hits(&mut sieve, &objects), "...h...h.");
    }
}
