//! CLOCK that knows costs, with Larder's own decisions (`larder-policy`): items have a credit of
//! rounds of the hand, in proportion to their cost, and are judged as by CLOCK when it is used up.
//!
//! The ring is a list, as in `clock`. Costs are clamped to 65535.
//!
//! Memory per item: 1 byte for the mark and 2 for the cost.

use policy::Verdict;
use policy::clock::RECENT;
use policy::cost_clock::CostClock as Decisions;

use super::lists::Lists;
use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = 3;

const RING: usize = 0;

/// A cache that gives second chances, and more of them to costly items.
pub struct CostClock {
    capacity: u64,
    ring: Lists<1>,
    decisions: Decisions,
    marks: Vec<u8>,
    costs: Vec<u16>,
    passes: u64,
}

impl CostClock {
    /// An empty cache.
    pub fn new(capacity: u64, objects: u32) -> CostClock {
        let (marks, costs) = (vec![0; objects as usize], vec![0; objects as usize]);
        let ring = Lists::new(objects);
        CostClock { capacity, ring, decisions: Decisions::default(), marks, costs, passes: 0 }
    }
}

impl Policy for CostClock {
    fn read(&mut self, visit: Visit) -> bool {
        let hit = self.ring.home(visit.object).is_some();
        if hit {
            self.marks[visit.object as usize] |= RECENT;
        }
        hit
    }

    fn insert(&mut self, visit: Visit) {
        while self.ring.weight(RING) + u64::from(visit.weight) > self.capacity {
            let (object, weight) =
                self.ring.pop_back(RING).expect("what fits alone fits once the rest is gone");
            self.passes += 1;
            let (mark, cost) = (&mut self.marks[object as usize], self.costs[object as usize]);
            if let Verdict::Keep(spared) = self.decisions.pass(*mark, u32::from(cost)) {
                *mark = spared;
                self.ring.push_front(RING, object, weight);
            }
        }
        let cost = u16::try_from(visit.cost_us).unwrap_or(u16::MAX);
        self.costs[visit.object as usize] = cost;
        self.marks[visit.object as usize] = self.decisions.store(u32::from(cost));
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
