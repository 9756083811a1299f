//! GD-Wheel (Li and Cox, EuroSys 2015) with Larder's own wheels (`larder-policy`): the victims of
//! GD-PQ in constant time. That crate lists the differences from the paper.
//!
//! It can also note hits as CLOCK does (`gd-wheel-lazy`): a hit sets a bit and leaves the queues
//! alone, and a victim that has its bit set is renewed instead. Then hits need no lock, and with
//! equal costs this is exactly CLOCK.
//!
//! Costs are clamped to 65535. Memory per item: a link of 12 bytes, and 1 for the bit.

use policy::gd_wheel::{Link, Shape, Wheels};

use super::{Policy, Visit};

/// Bytes per item that the policy itself needs.
pub const OVERHEAD_BYTES: u32 = size_of::<Link>() as u32;
/// Bytes per item where hits set a bit.
pub const LAZY_OVERHEAD_BYTES: u32 = OVERHEAD_BYTES + 1;

/// A cache that evicts the item that is cheapest to make again, weighed against recency.
pub struct GdWheel {
    capacity: u64,
    used: u64,
    wheels: Wheels,
    links: Vec<Link>,
    /// Weights of objects; 0: not resident.
    weights: Vec<u32>,
    /// Whether each object was hit since it was last renewed; `None` if hits renew.
    recent: Option<Vec<bool>>,
    pops: u64,
}

impl GdWheel {
    /// Returns an empty cache, whose hits only set a bit if it is lazy.
    pub fn new(capacity: u64, objects: u32, is_lazy: bool) -> GdWheel {
        let objects = objects as usize;
        GdWheel {
            capacity,
            used: 0,
            wheels: Wheels::new(Shape::default()),
            links: vec![Link::default(); objects],
            weights: vec![0; objects],
            recent: is_lazy.then(|| vec![false; objects]),
            pops: 0,
        }
    }

    /// Removes the victim, once no lower one has its bit set.
    fn evict(&mut self) {
        loop {
            self.pops += 1;
            let object = self.wheels.pop(&mut self.links);
            let object = object.expect("what fits alone fits without the rest");
            let recent = self.recent.as_mut().map(|recent| &mut recent[object as usize]);
            if !recent.is_some_and(std::mem::take) {
                self.used -= u64::from(std::mem::take(&mut self.weights[object as usize]));
                return;
            }
            let cost = u32::from(self.links[object as usize].cost());
            self.wheels.insert(&mut self.links, object, cost);
        }
    }
}

impl Policy for GdWheel {
    fn read(&mut self, visit: Visit) -> bool {
        let object = visit.object as usize;
        match &mut self.recent {
            None => self.wheels.renew(&mut self.links, visit.object),
            Some(recent) => {
                recent[object] = self.weights[object] > 0;
                recent[object]
            }
        }
    }

    fn insert(&mut self, visit: Visit) {
        while self.used + u64::from(visit.weight) > self.capacity {
            self.evict();
        }
        self.used += u64::from(visit.weight);
        self.weights[visit.object as usize] = visit.weight;
        self.wheels.insert(&mut self.links, visit.object, visit.cost_us);
    }

    fn remove(&mut self, object: u32) {
        self.wheels.remove(&mut self.links, object);
        self.used -= u64::from(std::mem::take(&mut self.weights[object as usize]));
        if let Some(recent) = &mut self.recent {
            recent[object as usize] = false;
        }
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn items(&self) -> u64 {
        u64::from(self.wheels.items())
    }

    fn steps(&self) -> Option<u64> {
        Some(self.pops + self.wheels.moves())
    }
}
