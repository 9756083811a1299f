//! LIRS, low inter-reference recency set (Jiang and Zhang, SIGMETRICS 2002): items that come back
//! after few others (LIR) hold nearly all of the cache; the others (HIR) pass through a short
//! queue, and become LIR if they come back while the stack still has them.
//!
//! ```text
//!   stack S   newest  ... LIR, HIR, ghost ...  oldest, always LIR (pruned until it is)
//!   queue Q   newest  ... HIR that are there ...  oldest, the next to leave
//! ```
//!
//! The paper sets no bound for the ghosts in the stack. Here they weigh at most twice the cache, as
//! in real implementations, and the one that was evicted first is dropped first. Numbers of blocks
//! are weights; the HIR part is 1 %, as in the paper.
//!
//! Memory per item: four pointers and a byte, and up to two ghosts for each item: four pointers and
//! an 8-byte slot of a table.

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 33 + 2 * 40;

const STACK: usize = 0;
const QUEUE: usize = 0;
const GHOSTS: usize = 1;

/// One part in this many of the cache is for HIR items.
const HIR_PART: u64 = 100;
/// The most that the ghosts may weigh, in caches.
const GHOSTS_MAX: u64 = 2;

/// A cache that favours items with a low inter-reference recency.
pub struct Lirs {
    capacity: u64,
    lir_capacity: u64,
    lir_weight: u64,
    lir_items: u64,
    is_lir: Vec<bool>,
    stack: Lists<1>,
    /// The queue of resident HIR items, and the ghosts in the order in which they were evicted.
    hir: Lists<2>,
}

impl Lirs {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> Lirs {
        Lirs {
            capacity,
            lir_capacity: capacity - (capacity / HIR_PART).max(1),
            lir_weight: 0,
            lir_items: 0,
            is_lir: vec![false; objects as usize],
            stack: Lists::new(objects),
            hir: Lists::new(objects),
        }
    }

    fn stack_top(&mut self, object: u32, weight: u32) {
        self.stack.remove(object);
        self.stack.push_front(STACK, object, weight);
    }

    /// Makes an item LIR that is neither in the queue nor among the ghosts.
    fn promote(&mut self, object: u32, weight: u32) {
        self.is_lir[object as usize] = true;
        self.lir_items += 1;
        self.lir_weight += u64::from(weight);
        self.stack_top(object, weight);
        self.prune();
        while self.lir_weight > self.lir_capacity {
            self.demote_oldest();
        }
    }

    /// Turns the LIR item at the bottom of the stack into the newest of the queue.
    fn demote_oldest(&mut self) {
        let (object, weight) = self.stack.pop_back(STACK).expect("a LIR item is at the bottom");
        self.is_lir[object as usize] = false;
        self.lir_items -= 1;
        self.lir_weight -= u64::from(weight);
        self.hir.push_front(QUEUE, object, weight);
        self.prune();
    }

    /// Drops everything below the oldest LIR item: it cannot become LIR before that leaves.
    fn prune(&mut self) {
        while let Some(object) = self.stack.back(STACK) {
            if self.is_lir[object as usize] {
                return;
            }
            self.stack.remove(object);
            if self.hir.home(object) == Some(GHOSTS) {
                self.hir.remove(object);
            }
        }
    }

    fn make_room(&mut self, weight: u64) {
        while self.used() + weight > self.capacity {
            let Some(object) = self.hir.back(QUEUE) else {
                self.demote_oldest();
                continue;
            };
            if self.stack.home(object).is_some() {
                self.hir.move_to_front(GHOSTS, object);
            } else {
                self.hir.remove(object);
            }
        }
        while self.hir.weight(GHOSTS) > GHOSTS_MAX * self.capacity {
            let (object, _) = self.hir.pop_back(GHOSTS).expect("ghosts that weigh something");
            self.stack.remove(object);
        }
    }
}

impl Policy for Lirs {
    fn read(&mut self, visit: Visit) -> bool {
        let object = visit.object;
        if self.is_lir[object as usize] {
            self.stack.move_to_front(STACK, object);
            self.prune();
            return true;
        }
        if self.hir.home(object) != Some(QUEUE) {
            return false;
        }
        let weight = self.hir.weight_of(object);
        if self.stack.home(object).is_some() {
            self.hir.remove(object);
            self.promote(object, weight);
        } else {
            self.hir.move_to_front(QUEUE, object);
            self.stack_top(object, weight);
        }
        true
    }

    fn insert(&mut self, visit: Visit) {
        let Visit { object, weight, .. } = visit;
        self.make_room(u64::from(weight));
        let was_known = self.hir.remove(object).is_some();
        if was_known || self.lir_weight + u64::from(weight) <= self.lir_capacity {
            self.promote(object, weight);
        } else {
            self.hir.push_front(QUEUE, object, weight);
            self.stack_top(object, weight);
        }
    }

    fn remove(&mut self, object: u32) {
        if std::mem::take(&mut self.is_lir[object as usize]) {
            self.lir_items -= 1;
            self.lir_weight -= u64::from(self.stack.weight_of(object));
        }
        self.stack.remove(object);
        self.hir.remove(object);
        self.prune();
    }

    fn used(&self) -> u64 {
        self.lir_weight + self.hir.weight(QUEUE)
    }

    fn items(&self) -> u64 {
        self.lir_items + self.hir.items(QUEUE)
    }
}

#[cfg(test)]
mod tests {
    use super::Lirs;
    use crate::policies::check::hits;

    #[test]
    fn an_item_that_comes_back_soon_takes_the_place_of_the_oldest_lir_item() {
        // Capacity 3: two LIR items, 0 and 1, and one HIR item, 2. Its second use makes it LIR in
        // place of 0, which passes into the queue and leaves when 3 is stored.
        let mut lirs = Lirs::new(3, 5);
        assert_eq!(hits(&mut lirs, &[0, 1, 2, 2, 3, 0, 1, 2]), "...h..hh");
    }

    #[test]
    fn a_loop_larger_than_the_cache_still_hits() {
        let mut lirs = Lirs::new(4, 5);
        let objects: Vec<u32> = (0..50).map(|step| step % 5).collect();
        let hits = hits(&mut lirs, &objects).matches('h').count();
        assert!(hits >= 25, "three of the five are LIR: {hits} hits of 45");
    }
}
