//! Where a chunk comes from. The ways, in the order in which they are tried:
//!
//! ```text
//!   own class       the thread's magazine, a free chunk, a slab of the arena, limbo
//!   larger class    a free chunk, where the background is about to demote
//!   own class       room that is made: another class's slab, demotion, or eviction
//!   larger class    any chunk, where the own class has few items
//!   another class   a slab of it, however new its items are
//! ```

use std::sync::MutexGuard;

use memory::ClassId;
use policy::cost::Cost;
use stdx::sync::lock;

use crate::chunk::ChunkNeed;
use crate::class::{AllocatedChunk, Class};
use crate::evict::RoomRequest;
use crate::{CacheHooks, Hot, PRESSED_CLASS, Shortage};

/// Items evicted at once when a store has to evict for itself: at most this many, and at most one
/// in [`INLINE_SHARE`] of the class's chunks.
pub(crate) const INLINE_BATCH_MAX: usize = 128;
/// See [`INLINE_BATCH_MAX`].
const INLINE_SHARE: usize = 32;
/// An item may take a chunk up to this many times its size when its own class has nothing.
const BORROW_RATIO: usize = 2;
/// How often a store makes room that other threads take before it gives up.
const ATTEMPTS_MAX: usize = 64;

/// The outcome of a request for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomMade {
    /// There is a free slab, or one is on its way.
    Slab,
    /// This many chunks are on their way to being free, at least one.
    Chunks(usize),
    /// No room could be made.
    Nothing,
}

impl Hot {
    /// A chunk for an item, or part of one, with this need and this cost.
    pub(crate) fn allocate(
        &self,
        need: ChunkNeed,
        cost: Cost,
        hooks: &dyn CacheHooks,
    ) -> Result<AllocatedChunk, Shortage> {
        let own = self.class_for(need);
        match self.allocate_in(own, need, cost, hooks) {
            Err(Shortage::Nothing) => {}
            decided => return decided,
        }
        // Sizes that are rare share the slabs of larger ones.
        if lock(self.class(own)).may_borrow() || !hooks.may_evict() {
            match self.borrow(own, need, cost, hooks) {
                Err(Shortage::Nothing) => {}
                decided => return decided,
            }
        }
        let found = self.allocate_from_another_class(own, cost, hooks);
        if found == Err(Shortage::Nothing) {
            lock(self.class(own)).counters.out_of_memory += 1;
        }
        found
    }

    /// A chunk of a larger class that has slabs.
    fn borrow(
        &self,
        own: ClassId,
        need: ChunkNeed,
        cost: Cost,
        hooks: &dyn CacheHooks,
    ) -> Result<AllocatedChunk, Shortage> {
        let bytes_max = BORROW_RATIO * self.format(own).bytes_of(need);
        for larger in self.sizes.iter().skip(usize::from(own.0) + 1) {
            if self.sizes.chunk_bytes(larger) > bytes_max {
                break;
            }
            if !self.format(larger).holds(need) || lock(self.class(larger)).slabs.is_empty() {
                continue;
            }
            match self.allocate_in(larger, need, cost, hooks) {
                Err(Shortage::Nothing) => {}
                decided => {
                    lock(self.class(own)).borrowed += usize::from(decided.is_ok());
                    return decided;
                }
            }
        }
        Err(Shortage::Nothing)
    }

    /// A free chunk of a larger class, so that nothing is evicted before the background comes.
    fn take_free_above(&self, own: ClassId, need: ChunkNeed, cost: Cost) -> Option<AllocatedChunk> {
        let bytes_max = BORROW_RATIO * self.sizes.chunk_bytes(own);
        let larger = self.sizes.iter().skip(usize::from(own.0) + 1);
        let near = larger.take_while(|&id| self.sizes.chunk_bytes(id) <= bytes_max);
        let mut roomy = near.filter(|&id| self.format(id).holds(need));
        roomy.find_map(|id| lock(self.class(id)).allocate_for(self.zone(), cost))
    }

    /// A chunk of this very class, which meets the need: free, from a new slab, or from room that
    /// is made.
    pub(crate) fn allocate_in(
        &self,
        id: ClassId,
        need: ChunkNeed,
        cost: Cost,
        hooks: &dyn CacheHooks,
    ) -> Result<AllocatedChunk, Shortage> {
        if let Some(room) = self.take_cached(id, cost) {
            return Ok(room);
        }
        let zone = self.zone();
        let (batch, collects) = {
            let mut class = self.class_for_store(id);
            self.enter_parked(&mut class);
            let free_before = class.free;
            if let Some(room) = class.allocate_for(zone, cost) {
                if class.free < free_before && class.is_low() {
                    self.refill_soon(class, hooks);
                } else {
                    self.stock(&mut class);
                }
                return Ok(room);
            }
            if self.adopt_free_slab(&mut class, hooks) {
                return class.allocate_for(zone, cost).ok_or(Shortage::Nothing);
            }
            let batch = class.chunks().div_ceil(INLINE_SHARE).min(INLINE_BATCH_MAX);
            (batch, class.is_collected_first(zone))
        };
        if collects
            && self.collect(id)
            && let Some(room) = lock(self.class(id)).allocate_for(zone, cost)
        {
            return Ok(room);
        }
        if batch == 0 {
            return Err(Shortage::Nothing);
        }
        self.press(PRESSED_CLASS);
        if hooks.background_demotes()
            && let Some(room) = self.take_free_above(id, need, cost)
        {
            return Ok(room);
        }
        self.allocate_in_the_place_of_others(id, batch, cost, hooks)
    }

    /// A chunk of the class when none is free: `batch` chunks are evicted for it at a time.
    fn allocate_in_the_place_of_others(
        &self,
        id: ClassId,
        batch: usize,
        cost: Cost,
        hooks: &dyn CacheHooks,
    ) -> Result<AllocatedChunk, Shortage> {
        let zone = self.zone();
        {
            let mut class = lock(self.class(id));
            if class.reopen(zone)
                && let Some(room) = class.allocate_for(zone, cost)
            {
                return Ok(room);
            }
            // Where enough chunks wait for readers to leave, stores that come meanwhile wait for
            // them, too, rather than each evict as many again; but each that waits adds one to what
            // is enough.
            let enough = batch + class.waiting;
            if class.room_in_limbo(zone, enough) == enough {
                class.sweep_limbo(zone);
                let room = class.allocate_for(zone, cost);
                class.waiting += usize::from(room.is_none());
                return room.ok_or(Shortage::Pinned);
            }
        }
        for _ in 0..ATTEMPTS_MAX {
            let made = self.make_room(id, batch, hooks);
            let mut class = lock(self.class(id));
            if let Some(room) = class.allocate_for(zone, cost) {
                return Ok(room);
            }
            if self.adopt_free_slab(&mut class, hooks) {
                return class.allocate_for(zone, cost).ok_or(Shortage::Nothing);
            }
            if class.room_in_limbo(zone, 1) > 0 || class.awaits.is_some() {
                return Err(Shortage::Pinned);
            }
            if made == RoomMade::Nothing {
                break;
            }
            // Another thread took it, or the tier below a free slab; or all of it was made in slabs
            // that leave the class, through which a hand may have to go before it comes to one that
            // stays.
        }
        let is_coming = lock(self.class(id)).in_limbo() > 0;
        Err(if is_coming { Shortage::Pinned } else { Shortage::Nothing })
    }

    /// Refills a class whose last free chunks are being taken: calls for the background, and helps
    /// it if it is behind.
    #[cold]
    #[inline(never)]
    fn refill_soon(&self, class: MutexGuard<'_, Class>, hooks: &dyn CacheHooks) {
        if !self.is_full() {
            return;
        }
        // Called further down as well: a moving item takes chunks and calls nobody, and a leaving
        // slab takes some of the intended reserve.
        self.press(PRESSED_CLASS);
        let (id, is_helped) = (class.id, class.is_helped());
        drop(class);
        if is_helped && hooks.store_demotes() {
            self.demote_for_store(id, &mut RoomRequest::new(1), hooks);
        }
    }

    /// Makes room in a class: by a slab of another one that keeps much older items, or else by
    /// evicting about `wanted` chunks.
    pub(crate) fn make_room(&self, id: ClassId, wanted: usize, hooks: &dyn CacheHooks) -> RoomMade {
        if self.seek_slab(id, true, hooks) {
            return RoomMade::Slab;
        }
        // Demoting one handful takes a store as long as a store should take.
        let wanted = if hooks.store_demotes_wanted() { 1 } else { wanted };
        match self.evict_or_demote(id, RoomRequest::new(wanted), hooks) {
            0 => RoomMade::Nothing,
            chunks => RoomMade::Chunks(chunks),
        }
    }
}
