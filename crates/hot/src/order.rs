//! The order in which the chunks of a class are judged, under the policies that keep one instead of
//! a hand: cost wheels (`policy::gd_wheel`), with links in the slabs.
//!
//! ```text
//!   slab   | chunk 0 | chunk 1 | ... | chunk n-1 |      | link 0 | link 1 | ... | link n-1 |
//!          0                                       rest  ^ slab_bytes - n * 12             ^ end
//!
//!   a chunk's number = number of its slab in the arena * n + its number in the slab
//! ```
//!
//! A chunk enters the order when it is allocated, and no chunk in the order is free. The front is
//! *popped* and judged. An expired item is evicted, and one that was not hit since it was last
//! judged; all others are *renewed*, which is to enter them with their cost as if they were stored
//! now. A hit only sets the mark's bit, so the order need not be told of it.
//!
//! Entering a chunk at once would cost a store four cache lines that another thread had last: the
//! wheels', the queue's, the chunk's link and its neighbour's. So chunks *wait* in a row, and are
//! entered when the order is read, which is when a thread evicts. Inflation rises only then, and
//! they are entered as they came. By then the item is normally stored, and has its cost itself: it
//! need not be known before.
//!
//! A chunk whose item was replaced or removed stays in the order while it is in limbo, and normally
//! the next store takes it from there. If the new item's priority is not lower than the old one's,
//! nothing is moved: its link has the new priority, and when it comes up, *too early*, it is put
//! off until then (`Wheels::enter`). So an overwrite touches one link rather than those of two
//! chunks and of their neighbours. Only a chunk that is released leaves the order at once, so that
//! free chunks and slabs that leave have nothing to do with it.
//!
//! A chunk that comes up in a slab that leaves its class stays out of the order, and comes first in
//! it once the slab stays after all.
//!
//! A draft that comes up is renewed as well: it will be newer than the items stored now. A victim
//! that is spared is *put back*: it was published a moment before the index points at it. A chunk
//! in limbo or on its way there may be popped, and is put back or not: that makes no difference to
//! the thread that enters or releases it. But a piece there looks like a draft, so pieces leave
//! when they are retired. The head and the pieces of a chained item come up each in their class,
//! but only where a hand would judge the item; the other pieces leave the order when they first
//! come up, and are freed with their item.
//!
//! *Links lie behind the chunks*, not in them: a chunk has all of its bytes for the item, so that
//! layouts, classes and limits know nothing of links; five links share a cache line, and changing
//! one takes no line away from a reader of the item. The size classes leave room for them
//! (`memory::class`), and none under other policies.
//!
//! *Numbers* need no memory. They end at 2^31, which bounds the memory that such a class can have:
//! [`Policy::memory_bytes_max`](crate::Policy::memory_bytes_max).

#[cfg(test)]
mod check;
mod divisor;
#[cfg(test)]
pub(crate) mod hammer;

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use memory::arena::{ARENA_BYTES_MAX, PLACE_UNIT_BYTES};
use memory::{Arena, Place, SlabId};
use policy::cost::{Cost, Typical};
use policy::gd_wheel::{Link, LinkStore, Shape, Wheels};
use stdx::prefetch;

use crate::class::Zone;
use crate::evict::{fill, published_in};
use crate::slab;

use divisor::Divisor;

/// Bytes that a slab keeps for each chunk.
pub(crate) const LINK_BYTES: usize = size_of::<Link>();

/// Wheels for items of equal cost: a queue for the present items, one for renewed ones, and one
/// more for items that were stored again in between (`Wheels::enter`).
const EQUAL_COSTS: Shape = Shape::new(1, 2);

/// The order of one class. Behind the class's lock.
#[derive(Debug)]
pub(crate) struct Order {
    /// Chunks allocated since the order was last needed. Apart from this, which lies with the rest
    /// of the class, a store takes one cache line away from the thread that was here before.
    waiting: Vec<Entrant>,
    /// Chunks that came up in slabs that leave the class, and are out of the order.
    set_aside: Vec<Place>,
    ranks: Box<Ranks>,
}

/// The order without the waiting chunks.
#[derive(Debug)]
struct Ranks {
    wheels: Wheels,
    /// `None` where all items count the same.
    costs: Option<Costs>,
    /// Bytes from one place to the next.
    stride: Divisor,
    chunks_per_slab: Divisor,
}

/// A chunk that waits to be entered, with the cost of its item's draft in the lowest bits.
#[derive(Debug, Clone, Copy)]
struct Entrant(u64);

const _: () = assert!(ARENA_BYTES_MAX / PLACE_UNIT_BYTES <= 1 << (u64::BITS - Entrant::COST_BITS));

impl Entrant {
    const COST_BITS: u32 = u16::BITS;

    fn new(place: Place, cost: Cost) -> Self {
        Self(place.0 << Self::COST_BITS | u64::from(cost.0))
    }

    fn place(self) -> Place {
        Place(self.0 >> Self::COST_BITS)
    }

    /// The item's cost. A stored item has it itself: its draft may have known less.
    fn cost_now(self, zone: Zone<'_>) -> Cost {
        // SAFETY: the order is behind its class's lock, and the item is not looked at later.
        match unsafe { published_in(zone.arena, self.place()) } {
            Some((item, owner)) if owner == self.place() => item.cost(),
            Some((item, _)) => item.cost_of_piece(),
            None => Cost(self.0 as u16),
        }
    }
}

/// Chunks that wait, at most: more than the background evicts at a time, so that normally it
/// enters them and a store does not. Miri has no time for as many.
const WAITING_MAX: usize = if cfg!(miri) { 16 } else { 256 };
/// Chunks ahead of the entered one whose link is prefetched.
const ENTER_PREFETCH: usize = 8;

/// Chunks that come up too early that a look ahead passes over, at most.
const EARLY_LOOKS_MAX: usize = 256;

/// The conversion of costs to the units of the wheels.
#[derive(Debug, Clone, Copy)]
struct Costs {
    unit_us: u32,
    /// The cost of an item whose cost is unknown.
    typical: Typical,
}

impl Order {
    /// An empty order by costs, counted in units of `cost_unit_us` microseconds, or by age alone.
    pub(crate) fn new(cost_unit_us: Option<u32>, stride: usize, chunks_per_slab: usize) -> Self {
        let shape = if cost_unit_us.is_some() { Shape::default() } else { EQUAL_COSTS };
        let ranks = Ranks {
            wheels: Wheels::new(shape),
            costs: cost_unit_us.map(|unit_us| Costs { unit_us, typical: Typical::default() }),
            stride: Divisor::new(stride as u32),
            chunks_per_slab: Divisor::new(chunks_per_slab as u32),
        };
        Self { waiting: Vec::new(), set_aside: Vec::new(), ranks: Box::new(ranks) }
    }

    /// Prepares the links of a slab that the class has just got.
    #[cold]
    #[inline(never)]
    pub(crate) fn adopt(&self, zone: Zone<'_>, slab: SlabId) {
        let first = self.ranks.links(zone).pointer(slab, 0);
        // SAFETY: the links lie in the slab (see `pointer`), which the class owns and whose lock
        // the caller holds; no chunk of it is in the order, so its bytes are not in use. All
        // zeros are `Link::default`.
        unsafe { first.write_bytes(0, self.ranks.chunks_per_slab.get() as usize) };
    }

    /// Enters a chunk that was allocated for an item whose draft has this cost. It waits until the
    /// order is needed: inflation does not rise before, so that it gets the priority that it would
    /// get now. It may still be in the order for its previous item.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter(&mut self, zone: Zone<'_>, place: Place, cost: Cost) {
        if self.waiting.len() == WAITING_MAX {
            self.enter_waiting(zone);
        }
        self.waiting.push(Entrant::new(place, cost));
    }

    /// Enters the waiting chunks, in the order in which they came. A caller that reads the order
    /// does this first.
    #[inline]
    pub(crate) fn enter_waiting(&mut self, zone: Zone<'_>) {
        if !self.waiting.is_empty() {
            self.ranks.enter(zone, &self.waiting);
            self.waiting.clear();
        }
    }

    /// Takes out a chunk that is released, if it is in the order.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave(&mut self, zone: Zone<'_>, place: Place) {
        // Being in the order says nothing of whether it waits as well.
        self.enter_waiting(zone);
        self.ranks.leave(zone, place);
    }

    /// Takes out the first chunk. If it came up too early, at the place of its previous item, it is
    /// put off instead, unless the caller takes any.
    #[inline]
    pub(crate) fn pop(&mut self, zone: Zone<'_>, takes_early: bool) -> Option<Place> {
        self.enter_waiting(zone);
        self.ranks.pop(zone, takes_early)
    }

    /// Enters a popped chunk that stays once more.
    #[inline]
    pub(crate) fn renew(&mut self, zone: Zone<'_>, place: Place) {
        self.enter_waiting(zone);
        self.ranks.renew(zone, place);
    }

    /// Does so with a chunk that may have been entered since.
    pub(crate) fn put_back(&mut self, zone: Zone<'_>, place: Place) {
        if !self.has(zone, place) {
            self.renew(zone, place);
        }
    }

    /// Notes a chunk that came up in a slab that leaves, and is out of the order by now.
    #[cold]
    pub(crate) fn set_aside(&mut self, place: Place) {
        self.set_aside.push(place);
    }

    /// Enters the set-aside chunks of a slab that was leaving, as far as they are still there, at
    /// the front, in the order in which they came up. A published item that was never entered waits
    /// to be.
    pub(crate) fn put_first(&mut self, zone: Zone<'_>, slab: SlabId) {
        let is_there = |place: &mut Place| zone.arena.locate(*place).0 == slab;
        let came_up: Vec<Place> = self.set_aside.extract_if(.., is_there).collect();
        for place in came_up.into_iter().rev() {
            let is_published = slab::mark(zone.arena, place).load(Ordering::Relaxed) != 0;
            if is_published && !self.has(zone, place) {
                let (number, mut links) = (self.ranks.number(zone, place), self.ranks.links(zone));
                self.ranks.wheels.put_back(&mut links, number);
            }
        }
    }

    /// Forgets the set-aside chunks of a slab that has left the class.
    pub(crate) fn disown(&mut self, zone: Zone<'_>, slab: SlabId) {
        self.set_aside.retain(|&place| zone.arena.locate(place).0 != slab);
    }

    /// Fills in the chunks that come up next, nearly in their order; returns how many there are.
    pub(crate) fn ahead(&self, zone: Zone<'_>, ahead: &mut [Place]) -> usize {
        let (ranks, links) = (self.ranks(), self.ranks.links(zone));
        let due = ranks.wheels.due_ahead(&links, EARLY_LOOKS_MAX);
        fill(ahead, due.map(|number| ranks.place(zone, number)))
    }

    /// All chunks in their queues, including those that come up too early.
    #[cfg(test)]
    fn queued(&self, zone: Zone<'_>) -> Vec<Place> {
        let (ranks, links) = (self.ranks(), self.ranks.links(zone));
        ranks.wheels.ahead(&links).map(|number| ranks.place(zone, number)).collect()
    }

    /// The typical cost of the class's items, in microseconds, if any cost is known.
    pub(crate) fn typical_us(&self) -> Option<f64> {
        self.ranks().typical_us()
    }

    /// The age that the item in a chunk of this age would have if it had the typical cost.
    /// Inflation rises by an item's cost while the item is in the order, so this is the same for
    /// all that are evicted at one time.
    pub(crate) fn typical_age(&self, zone: Zone<'_>, place: Place, age: u64) -> u64 {
        let ranks = self.ranks();
        let Some((costs, typical_us)) = ranks.costs.zip(ranks.typical_us()) else {
            return age;
        };
        let units = ranks.links(zone).link(ranks.number(zone, place)).cost();
        (age as f64 * typical_us / (f64::from(units) * f64::from(costs.unit_us))) as u64
    }

    /// Whether a chunk is in the order, or waits to be.
    pub(crate) fn has(&self, zone: Zone<'_>, place: Place) -> bool {
        let waits = self.waiting.iter().any(|entrant| entrant.place() == place);
        waits || self.ranks.links(zone).link(self.ranks.number(zone, place)).is_queued()
    }

    /// Whether a chunk would stay if inflation went on by `times` times the typical cost.
    pub(crate) fn stays(&self, zone: Zone<'_>, place: Place, times: f64) -> bool {
        let ranks = self.ranks();
        let Some((costs, typical_us)) = ranks.costs.zip(ranks.typical_us()) else {
            return false;
        };
        let left = ranks.wheels.left(&ranks.links(zone), ranks.number(zone, place)).unwrap_or(0);
        f64::from(left) * f64::from(costs.unit_us) > times * typical_us
    }

    /// Whether less than half of a chunk's cost was given up since it was entered or renewed; where
    /// all costs are equal, whether the chunks of that time have not all come up since.
    pub(crate) fn was_renewed(&self, zone: Zone<'_>, place: Place) -> bool {
        let (ranks, links) = (self.ranks(), self.ranks.links(zone));
        let number = ranks.number(zone, place);
        let left = ranks.wheels.left(&links, number).unwrap_or(0);
        2 * left > u32::from(links.link(number).cost())
    }

    /// Whether no chunk is in the order, and none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranks.wheels.items() == 0 && self.waiting.is_empty()
    }

    /// The order, to be read: no chunk waits any more.
    fn ranks(&self) -> &Ranks {
        debug_assert!(self.waiting.is_empty(), "whoever asks enters what waits first");
        &self.ranks
    }
}

// Functions that stores and evictions call are out of line: inlined, they would cost a `set` under
// the other policies 4 % more instructions rather than 1.6.
impl Ranks {
    /// Enters chunks, or gives those that are in the order their new priority. An unknown cost
    /// counts as the typical one of the class: so items of unknown cost are evicted as early as
    /// others where some costs are known, and by age alone where none is.
    #[cold]
    #[inline(never)]
    fn enter(&mut self, zone: Zone<'_>, entrants: &[Entrant]) {
        let mut links = self.links(zone);
        for (at, entrant) in entrants.iter().enumerate() {
            if let Some(soon) = entrants.get(at + ENTER_PREFETCH) {
                let number = self.number(zone, soon.place());
                prefetch::read(links.pointer_of(number).as_ptr().cast());
                prefetch::read(zone.arena.pointer(soon.place()).as_ptr());
            }
            let units = self.costs.as_mut().map_or(1, |costs| costs.units(entrant.cost_now(zone)));
            let number = self.number(zone, entrant.place());
            self.wheels.enter(&mut links, number, units);
        }
    }

    fn leave(&mut self, zone: Zone<'_>, place: Place) {
        let number = self.number(zone, place);
        self.wheels.remove(&mut self.links(zone), number);
    }

    #[cold]
    #[inline(never)]
    fn pop(&mut self, zone: Zone<'_>, takes_early: bool) -> Option<Place> {
        let mut links = self.links(zone);
        let (number, left) = self.wheels.take_first(&mut links)?;
        // Links and items lie anywhere in memory: each that is popped without a prefetch stalls.
        if let Some(soon) = self.wheels.after_next(&links) {
            prefetch::read(links.pointer_of(soon).as_ptr().cast());
            prefetch::read(zone.arena.pointer(self.place(zone, soon)).as_ptr());
        }
        if left > 0 && !takes_early {
            self.wheels.put_off(&mut links, number, left);
            return None;
        }
        Some(self.place(zone, number))
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self, zone: Zone<'_>, place: Place) {
        let (number, mut links) = (self.number(zone, place), self.links(zone));
        let units = u32::from(links.link(number).cost());
        self.wheels.insert(&mut links, number, units);
    }

    fn typical_us(&self) -> Option<f64> {
        self.costs.and_then(|costs| costs.typical.us()).map(f64::from)
    }

    fn number(&self, zone: Zone<'_>, place: Place) -> u32 {
        let (slab, bytes) = zone.arena.locate(place);
        slab.0 * self.chunks_per_slab.get() + self.stride.divide(bytes as u32).0
    }

    fn place(&self, zone: Zone<'_>, number: u32) -> Place {
        let (slab, in_slab) = self.chunks_per_slab.divide(number);
        zone.arena.place(SlabId(slab), (in_slab * self.stride.get()) as usize)
    }

    fn links<'z>(&self, zone: Zone<'z>) -> LinkSlots<'z> {
        LinkSlots { arena: zone.arena, chunks_per_slab: self.chunks_per_slab }
    }
}

impl Costs {
    /// An item's cost in units, to the nearest. Wheels clamp it to their range.
    fn units(&mut self, cost: Cost) -> u32 {
        self.typical.learn(cost);
        let us = if cost.is_known() { cost.us() } else { self.typical.us().unwrap_or(0) };
        let units = (u64::from(us) + u64::from(self.unit_us / 2)) / u64::from(self.unit_us);
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

/// The links of a class where they lie. Made by [`Order`] alone and for one call, during which the
/// class's lock is held: the order is behind it.
struct LinkSlots<'z> {
    arena: &'z Arena,
    chunks_per_slab: Divisor,
}

impl LinkSlots<'_> {
    /// Where a link lies: aligned, since slabs are and a link's size is a multiple of 4.
    fn pointer(&self, slab: SlabId, in_slab: u32) -> NonNull<Link> {
        assert!(in_slab < self.chunks_per_slab.get());
        let before_end = (self.chunks_per_slab.get() - in_slab) as usize * LINK_BYTES;
        let at = self.arena.slab_bytes() - before_end;
        // SAFETY: `at` is below the size of the slab, which starts where `slab_start` says, and the
        // zone's sizes leave room for a slab's links behind its chunks (asserted in `Hot::new`).
        unsafe { self.arena.slab_start(slab).add(at).cast() }
    }

    fn pointer_of(&self, chunk: u32) -> NonNull<Link> {
        let (slab, in_slab) = self.chunks_per_slab.divide(chunk);
        self.pointer(SlabId(slab), in_slab)
    }
}

const _: () = assert!(LINK_BYTES.is_multiple_of(align_of::<Link>()));

impl LinkStore for LinkSlots<'_> {
    fn link(&self, chunk: u32) -> Link {
        // SAFETY: the chunk is one of the class's own, or in its order, and no chunk in the order
        // is free, so its slab has not left the class: `Order::adopt` has prepared the link, and
        // only a holder of the class's lock touches it.
        unsafe { self.pointer_of(chunk).read() }
    }

    fn link_mut(&mut self, chunk: u32) -> &mut Link {
        // SAFETY: as above; nothing else lies behind the chunks of a slab, and any bits are a link.
        // The reference borrows these links, which are the only ones while something changes: their
        // maker takes the order exclusively then.
        unsafe { self.pointer_of(chunk).as_mut() }
    }
}
