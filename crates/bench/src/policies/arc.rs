//! ARC, adaptive replacement cache (Megiddo and Modha, FAST 2003): two LRU lists of items, those
//! used once lately (T1) and those used more often (T2), each with a list of ghosts of its evicted
//! items (B1, B2). A request for a ghost moves the border between T1 and T2 in its favour.
//!
//! Follows the paper's figure 4, in which the paper's numbers of pages become weights: with items
//! of weight 1 it decides the same. The border moves by the paper's step times the item's weight.
//!
//! Memory per item: two pointers and a byte for the list, and up to one ghost for each item: two
//! pointers, an 8-byte slot of a table and an 8-byte fingerprint.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 17 + 32;

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// A cache that adapts between recency and frequency.
pub struct Arc {
    capacity: u64,
    /// The target weight of T1; the paper's `p`.
    target: f64,
    lists: Lists<4>,
}

impl Arc {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Arc {
        Arc { capacity, target: 0.0, lists: Lists::new(objects) }
    }

    /// The paper's REPLACE, until `weight` fits: from T1 if it is above its target.
    fn make_room(&mut self, weight: u64, is_in_b2: bool) {
        while self.used() + weight > self.capacity {
            let t1 = self.lists.weight(T1) as f64;
            let is_t1_over = t1 > self.target || (is_in_b2 && t1 == self.target);
            let is_from_t1 = self.lists.items(T1) > 0 && is_t1_over;
            let (source, ghosts) =
                if is_from_t1 || self.lists.items(T2) == 0 { (T1, B1) } else { (T2, B2) };
            let object = self.lists.back(source).expect("what fits alone fits without the rest");
            self.lists.move_to_front(ghosts, object);
        }
    }

    /// Keeps the lists of items used once within the capacity, and all lists within twice that.
    fn forget(&mut self, weight: u64) {
        while self.lists.weight(T1) + self.lists.weight(B1) + weight > self.capacity {
            let list = if self.lists.items(B1) > 0 { B1 } else { T1 };
            self.lists.pop_back(list).expect("what fits alone fits without the rest");
        }
        while self.known() + weight > 2 * self.capacity && self.lists.items(B2) > 0 {
            self.lists.pop_back(B2);
        }
    }

    /// Returns the weight of all four lists.
    fn known(&self) -> u64 {
        [T1, T2, B1, B2].map(|list| self.lists.weight(list)).iter().sum()
    }
}

impl Policy for Arc {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = matches!(self.lists.home(visit.object), Some(T1 | T2));
        if hit {
            self.lists.move_to_front(T2, visit.object);
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        let weight = u64::from(visit.weight);
        let ghost = self.lists.home(visit.object);
        let (b1, b2) = (self.lists.weight(B1) as f64, self.lists.weight(B2) as f64);
        match ghost {
            Some(B1) => {
                let step = (b2 / b1).max(1.0) * weight as f64;
                self.target = (self.target + step).min(self.capacity as f64);
            }
            Some(B2) => {
                let step = (b1 / b2).max(1.0) * weight as f64;
                self.target = (self.target - step).max(0.0);
            }
            _ => self.forget(weight),
        }
        self.lists.remove(visit.object);
        self.make_room(weight, ghost == Some(B2));
        let list = if ghost.is_some() { T2 } else { T1 };
        self.lists.push_front(list, visit.object, visit.weight);
    }

    fn remove(&mut self, object: u32) {
        self.lists.remove(object);
    }

    fn used(&self) -> u64 {
        self.lists.weight(T1) + self.lists.weight(T2)
    }

    fn items(&self) -> u64 {
        self.lists.items(T1) + self.lists.items(T2)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, B1, B2, T1, T2};
    use crate::policies::check::hits;

    #[test]
    fn ghosts_move_the_border() {
        let mut arc = Arc::new(2, 4);
        // 0 moves to T2 by its second use; 2 evicts 1 from T1 into B1.
        assert_eq!(hits(&mut arc, &[0, 1, 0, 2]), "..h.");
        assert_eq!([0, 1, 2].map(|object| arc.lists.home(object)), [Some(T2), Some(B1), Some(T1)]);
        // The ghost 1 raises the target to 1, so T2 gives up 0; then the ghost 0 lowers it again.
        assert_eq!(hits(&mut arc, &[1]), ".");
        assert_eq!(arc.target, 1.0);
        assert_eq!([0, 1, 2].map(|object| arc.lists.home(object)), [Some(B2), Some(T2), Some(T1)]);
        assert_eq!(hits(&mut arc, &[0]), ".");
        assert_eq!(arc.target, 0.0);
        assert_eq!([0, 1, 2].map(|object| arc.lists.home(object)), [Some(T2), Some(T2), Some(B1)]);
    }
}
