//! Which items stay in a size class: the policy, and what it has learned. Behind the class's lock.
//!
//! Each item is judged when it is met: by a hand, or, with policies that keep an [`Order`], when it
//! is taken from the front. A hit only sets its bit in the mark under every policy. With cost-CLOCK
//! an item that has a cost carries its remaining rounds in a byte of its own, the credit. An item
//! of unknown cost has none, and is judged as by CLOCK.

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
    /// CLOCK that takes into account what items cost to make again.
    #[default]
    CostClock,
    /// GreedyDual: an item that costs more to make again stays longer, in proportion to its cost,
    /// with 12 bytes for each item. A hit item is renewed when it comes up instead of at the hit.
    GdWheel,
    /// A list with a second chance, with 12 bytes for each item: the item that was stored longest
    /// ago is evicted, unless it was hit since; then it moves to the end of the list. LRU by
    /// CLOCK's knowledge of recency, in the order of storing rather than of memory: not strictly
    /// LRU, whose list is in the order of the hits.
    Lru,
}

impl Policy {
    /// Bits that a slab has to keep beside each chunk.
    pub fn side_bits(self) -> usize {
        if self.keeps_order() { 8 * LINK_BYTES } else { 0 }
    }

    /// The most memory, in bytes, whose chunks can be numbered if the smallest has this many bytes.
    pub fn memory_bytes_max(self, chunk_bytes_min: usize) -> usize {
        if !self.keeps_order() {
            return ARENA_BYTES_MAX;
        }
        // As `SizeClasses::new` clamps it, for slabs of an arena that is not small.
        let chunk_bytes = chunk_bytes_min
            .clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX / 2)
            .next_multiple_of(CHUNK_ALIGN_BYTES);
        let bytes = CHUNKS_MAX as usize * (chunk_bytes + LINK_BYTES);
        ARENA_BYTES_MAX.min(bytes / SLAB_BYTES_MAX * SLAB_BYTES_MAX)
    }

    /// Whether the costs of items matter to it.
    pub fn goes_by_costs(self) -> bool {
        matches!(self, Self::CostClock | Self::GdWheel)
    }

    /// Whether it keeps the chunks of a class in an order, rather than going round with a hand.
    pub fn keeps_order(self) -> bool {
        matches!(self, Self::GdWheel | Self::Lru)
    }
}

/// The policy of one class. Its tag is a byte of its own: encoded in the capacity of the waiting
/// entrants, as it would be, it costs every store under the other policies more instructions.
#[derive(Debug)]
#[repr(u8)]
pub(crate) enum ClassPolicy {
    Clock,
    CostClock(CostClock),
    Order(Order),
}

/// A credit that no policy gives: the first hand that comes by charges the item.
pub(crate) const UNCHARGED: u8 = u8::MAX;
const _: () = assert!(UNCHARGED > CREDIT_MAX);

impl ClassPolicy {
    /// The policy of a class whose places are `stride` bytes apart, with costs in units of
    /// `cost_unit_us` microseconds where they are counted in units.
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

    /// The order, to change it.
    #[inline]
    pub(crate) fn order_mut(&mut self) -> Option<&mut Order> {
        if let Self::Order(order) = self { Some(order) } else { None }
    }

    /// Teaches the policy the costs stored out of a magazine, and lets the magazine give credits as
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

    /// Notes an item with this cost that is about to be stored at a place; returns its credit.
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

    /// Enters the waiting chunks into the order, if there is one. A caller that reads the order,
    /// without changing it, does this first.
    #[inline]
    pub(crate) fn enter_waiting(&mut self, zone: Zone<'_>) {
        if let Self::Order(order) = self {
            order.enter_waiting(zone);
        }
    }

    /// Takes out of the order a chunk that is released, or a piece that is retired.
    #[inline]
    pub(crate) fn leave(&mut self, zone: Zone<'_>, place: Place) {
        if let Self::Order(order) = self {
            order.leave(zone, place);
        }
    }

    /// Notes a chunk that came up in a leaving slab, and is out of the order: it makes no room
    /// before the slab is empty, and is first once more if the slab stays.
    pub(crate) fn set_aside(&mut self, place: Place) {
        if let Self::Order(order) = self {
            order.set_aside(place);
        }
    }

    /// Enters a popped chunk that stays.
    pub(crate) fn renew(&mut self, zone: Zone<'_>, place: Place) {
        if let Self::Order(order) = self {
            order.renew(zone, place);
        }
    }

    /// Enters a popped chunk that stays, unless it was entered since.
    pub(crate) fn put_back(&mut self, zone: Zone<'_>, place: Place) {
        if let Self::Order(order) = self {
            order.put_back(zone, place);
        }
    }

    /// The rounds over a class, at most, until some item without a hit is evicted.
    pub(crate) fn rounds_max(&self) -> usize {
        match self {
            // It is young, the last credit is used up, the bit of a hit is cleared and its charge
            // is used up.
            Self::CostClock(_) => 2 * usize::from(CREDIT_MAX) + 2,
            // It is young, its bit is cleared, and it is evicted.
            Self::Clock => 3,
            // It came up early, its bit is cleared, and it is evicted.
            Self::Order(_) => 3,
        }
    }

    /// Whether the policy lets the item go; if not, it has lost the bit or credit that spared it.
    pub(crate) fn judge(&self, item: ItemRef<'_>) -> bool {
        let mark = item.mark().load(Ordering::Relaxed);
        let recent = match (self, self.credit_in(item)) {
            (Self::CostClock(policy), Some(credit)) => {
                let mut had = credit.load(Ordering::Relaxed);
                if (1..UNCHARGED).contains(&had) {
                    // A round passes: the answer that `pass` would give, but without reading the
                    // cost or the mark.
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
    /// of a round of the hand, or the typical cost in an order.
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
/// filled, if it gives any. Costs that the policy has not learned yet are kept for it until then.
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

/// An item's credit, or the present worth of its cost if it has not been charged yet.
#[inline]
fn charged(policy: &CostClock, credit: u8, cost_us: u32) -> u8 {
    if credit == UNCHARGED { credit_of(policy.charge(cost_us)) } else { credit }
}

/// The credit in a mark of cost-CLOCK, which has it above the recent bit.
fn credit_of(mark: u8) -> u8 {
    mark >> 1
}
