//! CLOCK (Corbató, 1968): a ring of items with a bit each. A use sets the bit; the hand passes over
//! items with their bit set, clearing it, and evicts the first item without.
//!
//! The ring is a list whose back is under the hand: passing over an item moves it to the front,
//! which is the same as leaving it in its place and moving the hand.
//!
//! Memory per item: its place in the ring is where it lies, so 1 byte for the bit.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 1;

const RING: usize = 0;

/// A cache that gives a second chance to items used since the hand last came by.
pub struct Clock {
    capacity: u64,
    ring: Lists<1>,
    is_used: Vec<bool>,
    passes: u64,
}

impl Clock {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Clock {
        let is_used = vec![false; objects as usize];
        Clock { capacity, ring: Lists::new(objects), is_used, passes: 0 }
    }
}

impl Policy for Clock {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = self.ring.home(visit.object).is_some();
        if hit {
            self.is_used[visit.object as usize] = true;
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        while self.ring.weight(RING) + u64::from(visit.weight) > self.capacity {
            let (object, weight) =
                self.ring.pop_back(RING).expect("what fits alone fits once the rest is gone");
            self.passes += 1;
            if std::mem::take(&mut self.is_used[object as usize]) {
                self.ring.push_front(RING, object, weight);
            }
        }
        self.is_used[visit.object as usize] = false;
        self.ring.push_front(RING, visit.object, visit.weight);
    }

    fn remove(&mut self, object: u32) {
        self.ring.remove(object);
    }

    fn used(&self) -> u64 {
        self.ring.weight(RING)
    }

    fn items(&self) -> u64 {
        self.ring.items(RING)
    }

    fn steps(&self) -> Option<u64> {
        Some(self.passes)
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::policies::check::hits;

    #[test]
    fn a_used_item_survives_one_turn_of_the_hand() {
        // 0 is used, so storing 3 passes over it and evicts 1; storing 4 evicts 2; 0 is still
        // there.
        let (mut clock, objects) = (Clock::new(3, 6), [0, 1, 2, 0, 3, 4, 0, 1]);
        assert_eq!(hits(&mut clock, &objects), "...h..h.");
    }
}
