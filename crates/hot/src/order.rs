//! The order in which the chunks of a class are judged, under the policies that keep one rather
//! than go round with a hand: cost wheels (`policy::gd_wheel`), with links in the slabs.
//!
//! ```text
//!   slab   | chunk 0 | chunk 1 | ... | chunk n-1 |      | link 0 | link 1 | ... | link n-1 |
//!          0                                       rest  ^ slab_bytes - n * 12             ^ end
//!
//!   a chunk's number = number of its slab in the arena * n + its number in the slab
//! ```
//!
//! A chunk is in the order from when it is allocated until it is retired or released: so what is in
//! it is never free. The front is *popped* and judged. What is expired goes, and what was not hit
//! since it was judged last; all else is *renewed*, which is to enter it with its cost as if it
//! were stored now. A hit only sets the mark's bit, so nothing here has to be told of it.
//!
//! A draft that comes up is renewed as well: it will be newer than what is stored now. What is on
//! its way from the index to limbo may be popped once more, and stays out. Of a chained item the
//! head and the pieces come up each in their class, but only where a hand would judge the item; the
//! other pieces leave the order when they come up first, and are freed with their item.
//!
//! *Links lie behind the chunks*, not in them: a chunk has all of its bytes for the item, so that
//! layouts, classes and limits know nothing of them; five links share a cache line, and to change
//! one takes no line away from who reads the item. The size classes leave room for them
//! (`memory::class`), and for other policies there is none to leave.
//!
//! *Numbers* need no memory. They end at 2^31, which bounds the memory that such a class can have:
//! [`Replacement::memory_bytes_max`](crate::Replacement::memory_bytes_max).

#[cfg(test)]
mod hammer;

use std::ptr::NonNull;

use memory::{Arena, Place, SlabId};
use policy::cost::{Cost, Typical};
use policy::gd_wheel::{Link, LinkStore, Shape, Wheels};

use crate::class::Zone;
use crate::evict::fill;
use crate::slab;

/// Bytes that a slab keeps for each chunk.
pub(crate) const LINK_BYTES: usize = size_of::<Link>();

/// Wheels for items that all count the same: one queue for those that are there and one for those
/// that are renewed.
const EQUAL_COSTS: Shape = Shape::new(1, 1);

/// The order of one class. Behind the class's lock.
#[derive(Debug)]
pub(crate) struct Order {
    wheels: Wheels,
    /// None where all items count the same.
    costs: Option<Costs>,
    chunk_bytes: usize,
    chunks_per_slab: u32,
}

/// How costs become what wheels count in.
#[derive(Debug, Clone, Copy)]
struct Costs {
    unit_us: u32,
    /// What an item counts whose cost is unknown.
    typical: Typical,
}

// What stores and evictions call is out of line: inlined, it would cost a `set` under the other
// policies 4 % more instructions rather than 1.6.
impl Order {
    /// An empty order by costs, counted in units of so many microseconds, or by age alone.
    pub(crate) fn new(
        cost_unit_us: Option<u32>,
        chunk_bytes: usize,
        chunks_per_slab: usize,
    ) -> Self {
        let shape = if cost_unit_us.is_some() { Shape::default() } else { EQUAL_COSTS };
        Self {
            wheels: Wheels::new(shape),
            costs: cost_unit_us.map(|unit_us| Costs { unit_us, typical: Typical::default() }),
            chunk_bytes,
            chunks_per_slab: chunks_per_slab as u32,
        }
    }

    /// Prepares the links of a slab that the class has just got.
    #[cold]
    #[inline(never)]
    pub(crate) fn adopt(&self, zone: Zone<'_>, slab: SlabId) {
        let first = self.links(zone).pointer(slab, 0);
        // SAFETY: the links lie in the slab (see `pointer`), which the class owns and whose lock
        // the caller holds; no chunk of it is in the order, so nobody relies on what is there. All
        // zeros are `Link::default`.
        unsafe { first.write_bytes(0, self.chunks_per_slab as usize) };
    }

    /// Enters a chunk that was allocated for an item with this cost. An unknown cost counts as what
    /// is typical of the class: so items of unknown cost go as early as others where some costs are
    /// known, and by age alone where none is.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter(&mut self, zone: Zone<'_>, place: Place, cost: Cost) {
        let units = self.costs.as_mut().map_or(1, |costs| costs.units(cost));
        let number = self.number(zone, place);
        self.wheels.insert(&mut self.links(zone), number, units);
    }

    /// Takes out a chunk that is retired or released, if it is in the order.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave(&mut self, zone: Zone<'_>, place: Place) {
        let number = self.number(zone, place);
        self.wheels.remove(&mut self.links(zone), number);
    }

    /// Takes out the chunk that is to be judged next.
    #[cold]
    #[inline(never)]
    pub(crate) fn pop(&mut self, zone: Zone<'_>) -> Option<Place> {
        let mut links = self.links(zone);
        let number = self.wheels.pop(&mut links)?;
        // Links and items lie anywhere in memory, so each that is popped unasked for is waited for.
        if let Some(soon) = self.wheels.after_next(&links) {
            slab::prefetch_line(links.pointer_of(soon).as_ptr().cast());
            slab::prefetch_line(zone.arena.pointer(self.place(zone, soon)).as_ptr());
        }
        Some(self.place(zone, number))
    }

    /// Enters a chunk once more that was popped and stays.
    #[cold]
    #[inline(never)]
    pub(crate) fn renew(&mut self, zone: Zone<'_>, place: Place) {
        let (number, mut links) = (self.number(zone, place), self.links(zone));
        let units = u32::from(links.link(number).cost());
        self.wheels.insert(&mut links, number, units);
    }

    /// Fills in the chunks that come up next, nearly in their order; returns how many there are.
    pub(crate) fn ahead(&self, zone: Zone<'_>, ahead: &mut [Place]) -> usize {
        let links = self.links(zone);
        fill(ahead, self.wheels.ahead(&links).map(|number| self.place(zone, number)))
    }

    /// How many of the chunks that come up next are so, until the first that is not.
    pub(crate) fn count_ahead(&self, zone: Zone<'_>, is_so: impl Fn(Place) -> bool) -> usize {
        let links = self.links(zone);
        self.wheels.ahead(&links).take_while(|&number| is_so(self.place(zone, number))).count()
    }

    /// What the class's items typically cost, in microseconds, if any cost is known.
    pub(crate) fn typical_us(&self) -> Option<f64> {
        self.costs.and_then(|costs| costs.typical.us()).map(f64::from)
    }

    /// How old what is in a chunk of this age would be if it had the typical cost. Inflation rises
    /// by an item's cost while the item is in the order, so this is the same for all that go at one
    /// time.
    pub(crate) fn typical_age(&self, zone: Zone<'_>, place: Place, age: u64) -> u64 {
        let Some((costs, typical_us)) = self.costs.zip(self.typical_us()) else {
            return age;
        };
        let units = self.links(zone).link(self.number(zone, place)).cost();
        (age as f64 * typical_us / (f64::from(units) * f64::from(costs.unit_us))) as u64
    }

    /// Whether a chunk is in the order. For assertions.
    pub(crate) fn has(&self, zone: Zone<'_>, place: Place) -> bool {
        self.links(zone).link(self.number(zone, place)).is_queued()
    }

    /// Whether a chunk would stay if inflation went on by so many times what is typical.
    pub(crate) fn stays(&self, zone: Zone<'_>, place: Place, times: f64) -> bool {
        let Some((costs, typical_us)) = self.costs.zip(self.typical_us()) else {
            return false;
        };
        let left = self.wheels.left(&self.links(zone), self.number(zone, place)).unwrap_or(0);
        f64::from(left) * f64::from(costs.unit_us) > times * typical_us
    }

    /// Whether no chunk is in the order.
    pub(crate) fn is_empty(&self) -> bool {
        self.wheels.items() == 0
    }

    fn number(&self, zone: Zone<'_>, place: Place) -> u32 {
        let (slab, bytes) = zone.arena.locate(place);
        slab.0 * self.chunks_per_slab + (bytes / self.chunk_bytes) as u32
    }

    fn place(&self, zone: Zone<'_>, number: u32) -> Place {
        let slab = SlabId(number / self.chunks_per_slab);
        let in_slab = (number % self.chunks_per_slab) as usize;
        zone.arena.place(slab, in_slab * self.chunk_bytes)
    }

    fn links<'z>(&self, zone: Zone<'z>) -> Links<'z> {
        Links { arena: zone.arena, chunks_per_slab: self.chunks_per_slab }
    }
}

impl Costs {
    /// What an item with this cost counts, to the nearest unit. Wheels clamp it to their range.
    fn units(&mut self, cost: Cost) -> u32 {
        self.typical.learn(cost);
        let us = if cost.is_known() { cost.us() } else { self.typical.us().unwrap_or(0) };
        let units = (u64::from(us) + u64::from(self.unit_us / 2)) / u64::from(self.unit_us);
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

/// The links of a class where they lie. Made by [`Order`] alone and for one call, during which the
/// class's lock is held: the order is behind it.
struct Links<'z> {
    arena: &'z Arena,
    chunks_per_slab: u32,
}

impl Links<'_> {
    /// Where a link lies: aligned, since slabs are and a link's size is a multiple of 4.
    fn pointer(&self, slab: SlabId, in_slab: u32) -> NonNull<Link> {
        assert!(in_slab < self.chunks_per_slab);
        let before_end = (self.chunks_per_slab - in_slab) as usize * LINK_BYTES;
        let at = self.arena.slab_bytes() - before_end;
        // SAFETY: `at` is below the size of the slab, which starts where `slab_start` says, and the
        // zone's sizes leave room for a slab's links behind its chunks (asserted in `Hot::new`).
        unsafe { self.arena.slab_start(slab).add(at).cast() }
    }

    fn pointer_of(&self, chunk: u32) -> NonNull<Link> {
        self.pointer(SlabId(chunk / self.chunks_per_slab), chunk % self.chunks_per_slab)
    }
}

const _: () = assert!(LINK_BYTES.is_multiple_of(align_of::<Link>()));

impl LinkStore for Links<'_> {
    fn link(&self, chunk: u32) -> Link {
        // SAFETY: the chunk is one of the class's own, or in its order, and what is in the order is
        // not free, so its slab has not left the class: `Order::adopt` has prepared the link, and
        // only who holds the class's lock touches it.
        unsafe { self.pointer_of(chunk).read() }
    }

    fn set_link(&mut self, chunk: u32, link: Link) {
        // SAFETY: as above; nothing else lies behind the chunks of a slab.
        unsafe { self.pointer_of(chunk).write(link) };
    }
}
