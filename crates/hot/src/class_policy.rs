//! Who stays in a size class: the policy, and what it has learned. Behind the class's lock.
//!
//! Whoever goes by the items asks of each: a hand, or, with policies that keep an [`Order`], what
//! takes them from its front. A hit only leaves its bit in the mark under every policy. With
//! cost-CLOCK an item that has a cost carries the rounds that are left to it in a byte of its own,
//! the credit. An item of which no cost is known has none, and is judged as by CLOCK.

use std::sync::atomic::{AtomicU8, Ordering};

use memory::arena::{ARENA_BYTES_MAX, SLAB_BYTES_MAX};
use memory::class::{CHUNK_ALIGN_BYTES, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use memory::{Place, SlabId};
use policy::Verdict;
use policy::clock::{self, RECENT};
use policy::cost::Cost;
use policy::cost_clock::{CREDIT_MAX, CostClock};
use policy::gd_wheel::CHUNKS_MAX;

use crate::ItemRef;
use crate::class::Zone;
use crate::order::{LINK_BYTES, Order};

/// A replacement policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// CLOCK: recency alone.
    Clock,
    /// CLOCK that knows what items cost to make again.
    #[default]
    CostClock,
    /// GreedyDual: what costs more to make again stays longer, in proportion to its cost, with 12
    /// bytes for each item. What was hit is renewed when it comes up instead of at the hit.
    GdWheel,
    /// A list with a second chance, with 12 bytes for each item: what was stored longest ago goes,
    /// unless it was hit since, and then it goes to the end of the list. LRU by what CLOCK knows of
    /// recency, in the order of storing rather than in that of memory: not strictly LRU, in which
    /// the list is in the order of the hits.
    Lru,
}

impl Policy {
    /// Bits that a slab has to keep beside each chunk.
    pub fn side_bits(self) -> usize {
        if self.keeps_order() { 8 * LINK_BYTES } else { 0 }
    }

    /// The most memory, in bytes, whose chunks can be numbered if the smallest has so many bytes.
    pub fn memory_bytes_max(self, chunk_bytes_min: usize) -> usize {
        if !self.keeps_order() {
            return ARENA_BYTES_MAX;
        }
        // As `SizeClasses::new` brings it into its range, for slabs of an arena that is not small.
        let chunk_bytes = chunk_bytes_min
            .clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX / 2)
            .next_multiple_of(CHUNK_ALIGN_BYTES);
        let bytes = CHUNKS_MAX as usize * (chunk_bytes + LINK_BYTES);
        ARENA_BYTES_MAX.min(bytes / SLAB_BYTES_MAX * SLAB_BYTES_MAX)
    }

    /// Whether it matters to it what items cost.
    pub fn goes_by_costs(self) -> bool {
        matches!(self, Self::CostClock | Self::GdWheel)
    }

    /// Whether it keeps the chunks of a class in an order, rather than going round with a hand.
    pub fn keeps_order(self) -> bool {
        matches!(self, Self::GdWheel | Self::Lru)
    }
}

/// The policy of one class. Its tag is a byte of its own: told by the capacity of what waits, as it
/// would be, it takes every store under the other policies more instructions.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum ClassPolicy {
    Clock,
    CostClock(CostClock),
    Order(Order),
}

/// A credit that nobody can have: the hand that comes by first charges the item.
pub(crate) const UNCHARGED: u8 = u8::MAX;
const _: () = assert!(UNCHARGED > CREDIT_MAX);

impl ClassPolicy {
    /// The policy of a class whose places are so many bytes apart, with costs in units of so many
    /// microseconds where they are counted in units.
    pub(crate) fn new(
        policy: Policy,
        cost_unit_us: u32,
        stride: usize,
        chunks_per_slab: usize,
    ) -> Self {
        let order = |unit_us| Order::new(unit_us, stride, chunks_per_slab);
        match policy {
            Policy::Clock => Self::Clock,
            Policy::CostClock => Self::CostClock(CostClock::default()),
            Policy::GdWheel => Self::Order(order(Some(cost_unit_us))),
            Policy::Lru => Self::Order(order(None)),
        }
    }

    /// The order in which chunks are judged, if there is no hand that goes round them.
    #[inline]
    pub(crate) fn order(&self) -> Option<&Order> {
        if let Self::Order(order) = self { Some(order) } else { None }
    }

    /// The same to change it.
    #[inline]
    pub(crate) fn order_mut(&mut self) -> Option<&mut Order> {
        if let Self::Order(order) = self { Some(order) } else { None }
    }

    /// Lets the policy learn what was stored out of a magazine, and the magazine give credits as
    /// the policy does now.
    #[inline]
    pub(crate) fn settle(&mut self, credits: &mut Credits) {
        if let Self::CostClock(policy) = self {
            credits.stored.drain(..).for_each(|cost_us| _ = policy.store(cost_us));
            credits.policy = Some(*policy);
        }
    }

    /// Prepares for the chunks of a slab that the class has just got.
    pub(crate) fn adopt(&mut self, zone: Zone<'_>, slab: SlabId) {
        if let Self::Order(order) = self {
            order.adopt(zone, slab);
        }
    }

    /// Takes note of an item with this cost that is about to be stored at a place; returns its
    /// credit.
    #[inline(always)]
    pub(crate) fn enter(&mut self, zone: Zone<'_>, place: Place, cost: Cost) -> u8 {
        match self {
            Self::CostClock(policy) if cost.is_known() => credit_of(policy.store(cost.us())),
            Self::Order(order) => {
                order.enter(zone, place, cost);
                0
            }
            _ => 0,
        }
    }

    /// Enters what waits for the order, if there is one. Whoever asks it something, without
    /// changing it, does this first.
    #[inline]
    pub(crate) fn enter_waiting(&mut self, zone: Zone<'_>) {
        if let Self::Order(order) = self {
            order.enter_waiting(zone);
        }
    }

    /// The chunk at a place is released, or is a piece that is retired.
    #[inline]
    pub(crate) fn leave(&mut self, zone: Zone<'_>, place: Place) {
        if let Self::Order(order) = self {
            order.leave(zone, place);
        }
    }

    /// A chunk came up in a slab that leaves, and is out of the order: it makes no room before all
    /// of the slab has gone, and is first once more if that stays.
    pub(crate) fn set_aside(&mut self, place: Place) {
        if let Self::Order(order) = self {
            order.set_aside(place);
        }
    }

    /// A chunk that was popped stays.
    pub(crate) fn renew(&mut self, zone: Zone<'_>, place: Place) {
        if let Self::Order(order) = self {
            order.renew(zone, place);
        }
    }

    /// A chunk stays that was popped, and may have been entered since.
    pub(crate) fn put_back(&mut self, zone: Zone<'_>, place: Place) {
        if let Self::Order(order) = self {
            order.put_back(zone, place);
        }
    }

    /// How many rounds over a class it takes at most until something goes that is not hit.
    pub(crate) fn rounds_max(&self) -> usize {
        match self {
            // It is young, the last credit is used up, the bit of a hit is taken and its charge is
            // used up.
            Self::CostClock(_) => 2 * usize::from(CREDIT_MAX) + 2,
            // It is young, its bit is taken, and it goes.
            Self::Clock => 3,
            // It came up early, its bit is taken, and it goes.
            Self::Order(_) => 3,
        }
    }

    /// Whether the policy lets the item go; if not, it has lost what spared it this time.
    pub(crate) fn judge(&self, item: ItemRef<'_>) -> bool {
        let mark = item.mark().load(Ordering::Relaxed);
        let recent = match (self, self.credit_in(item)) {
            (Self::CostClock(policy), Some(credit)) => {
                let mut had = credit.load(Ordering::Relaxed);
                if (1..UNCHARGED).contains(&had) {
                    // A round passes: what `pass` would say, which then asks neither for the cost
                    // nor for the mark.
                    credit.store(had - 1, Ordering::Relaxed);
                    return false;
                }
                let cost_us = item.cost().us();
                had = charged(policy, had, cost_us);
                let joined = had << 1 | (mark & RECENT);
                match policy.pass(joined, cost_us) {
                    Verdict::Evict => return true,
                    Verdict::Keep(left) => {
                        credit.store(credit_of(left), Ordering::Relaxed);
                        left & RECENT
                    }
                }
            }
            _ => match clock::pass(mark) {
                Verdict::Evict => return true,
                Verdict::Keep(left) => left & RECENT,
            },
        };
        let spared = (mark & !RECENT) | recent;
        if spared != mark {
            // Lost to a hit that came between: then the item keeps its mark, as it should.
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = item.mark().compare_exchange(mark, spared, success, failure);
        }
        false
    }

    /// An item's credit, where the policy gives any.
    #[inline]
    fn credit_in<'i>(&self, item: ItemRef<'i>) -> Option<&'i AtomicU8> {
        if let Self::CostClock(_) = self { item.credit() } else { None }
    }

    /// The cost that is given up, in microseconds, while victims grow old, if costs are known: that
    /// of a round of the hand, or in an order what is typical.
    pub(crate) fn unit_us(&self) -> Option<f64> {
        match self {
            Self::Clock => None,
            Self::CostClock(policy) => policy.unit_us(),
            Self::Order(order) => order.typical_us(),
        }
    }

    /// Whether the policy would spare the item.
    pub(crate) fn keeps(&self, item: ItemRef<'_>) -> bool {
        let is_recent = item.mark().load(Ordering::Relaxed) & RECENT != 0;
        let has_credit = match self {
            Self::Clock | Self::Order(_) => false,
            Self::CostClock(policy) => item.credit().is_some_and(|credit| {
                charged(policy, credit.load(Ordering::Relaxed), item.cost().us()) != 0
            }),
        };
        is_recent || has_credit
    }
}

/// The credits that a magazine gives: those that the policy of its class gave when it was last
/// filled, if it gives any. What the policy has not learned yet is kept for it until then.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    policy: Option<CostClock>,
    /// Costs of items, in microseconds.
    pub(crate) stored: Vec<u32>,
}

impl Credits {
    /// The credit of an item with this cost that is about to be stored.
    #[inline(always)]
    pub(crate) fn of(&mut self, cost: Cost) -> u8 {
        if cost.is_known() { self.of_known(cost.us()) } else { 0 }
    }

    fn of_known(&mut self, cost_us: u32) -> u8 {
        let Some(policy) = &self.policy else { return 0 };
        self.stored.push(cost_us);
        credit_of(policy.charge(cost_us))
    }
}

/// An item's credit, or what its cost is worth now if nobody has charged it yet.
#[inline]
fn charged(policy: &CostClock, credit: u8, cost_us: u32) -> u8 {
    if credit == UNCHARGED { credit_of(policy.charge(cost_us)) } else { credit }
}

/// The credit in a mark of cost-CLOCK, which has it above the recent bit.
fn credit_of(mark: u8) -> u8 {
    mark >> 1
}
