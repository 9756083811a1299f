//! Rescuing what was read lately, or is dear, from a slab that leaves its class: it moves to other
//! chunks of the class, in place of what is next to go there. What nobody would miss goes with the
//! slab. memcached calls it the same (`slab_reassign_rescues`).
//!
//! An item moves as in [`repartition`](crate::repartition): as a copy, which takes the place in the
//! index if that still leads to exactly the item. No class's lock is held meanwhile.

use memory::{ClassId, Guard, Place, SlabId};
use stdx::sync::lock;

use crate::class::{Class, Taken};
use crate::item::ItemRef;
use crate::shift::look_step;
use crate::{Hot, Links};

/// Chunks of the slab that are looked at under one lock of the class.
const LOOK_STEP: u32 = 256;
/// Items that go at once to make room for what is rescued.
const ROOM_BATCH: usize = 32;
/// Items that are rescued from one slab at the most: a store may be waiting for it.
pub(crate) const RESCUES_MAX: usize = 2048;

/// What came of a look for something to rescue.
enum Step {
    Rescued,
    /// Nothing was worth it, or it changed meanwhile.
    Looked,
    NoChunk,
    End,
}

/// Whether a class has chunks for what is to be rescued from a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RescueRoom {
    There,
    /// Once readers have left.
    Coming,
    /// Not as far as can be seen.
    Short,
}

impl Hot {
    /// Sees to it that the class has chunks for what is to be rescued from a slab: evicts as much
    /// elsewhere.
    pub(crate) fn make_room_for_rescues(
        &self,
        id: ClassId,
        slab_id: SlabId,
        links: &dyn Links,
    ) -> RescueRoom {
        // With what readers have yet to leave, or without.
        let missing = |with_limbo: bool| {
            let guard = self.epochs.pin();
            let (class, zone) = (lock(self.class(id)), self.zone());
            // Of the last slab nothing can be rescued.
            if !zone.slab(slab_id).belongs_to(id) || class.staying() == 0 {
                return 0;
            }
            let wanted = self.rescues_wanted(&guard, &class, slab_id, links);
            let own = if class.stays(zone, slab_id) {
                class.chunks_per_slab - class.used_in(zone, slab_id)
            } else {
                0
            };
            let missing = wanted.saturating_sub(class.free - own);
            let coming = if with_limbo { class.room_in_limbo(zone, missing) } else { 0 };
            missing - coming
        };
        let room = || match missing(false) {
            0 => RescueRoom::There,
            _ if missing(true) == 0 => RescueRoom::Coming,
            _ => RescueRoom::Short,
        };
        lock(self.class(id)).sweep_limbo(self.zone());
        let before = room();
        if before != RescueRoom::Short {
            return before;
        }
        {
            // The hand comes to other slabs first.
            let mut class = lock(self.class(id));
            if class.stays(self.zone(), slab_id) {
                class.spare(self.zone(), slab_id, links.mutations());
            }
        }
        self.push_out(id, missing(true), links);
        lock(self.class(id)).sweep_limbo(self.zone());
        room()
    }

    /// How many items are to be rescued from a slab, judging by some.
    fn rescues_wanted(
        &self,
        guard: &Guard<'_>,
        class: &Class,
        slab_id: SlabId,
        links: &dyn Links,
    ) -> usize {
        let slab = self.zone().slab(slab_id);
        let step = look_step(slab);
        let places = (0..slab.touched()).step_by(step);
        let places = places.map(|number| slab.place(&self.arena, slab_id, number));
        let worth = |&place: &Place| self.worth_rescuing(guard, class, place, links).is_some();
        (places.filter(worth).count() * step).min(RESCUES_MAX)
    }

    /// Moves what its hand would spare out of a draining slab, as far as the class has chunks for
    /// it.
    pub(crate) fn rescue(&self, id: ClassId, slab_id: SlabId, links: &dyn Links) {
        let (mut next, mut rescued, mut has_made_room) = (0, 0, false);
        while rescued < RESCUES_MAX {
            match self.rescue_next(id, slab_id, &mut next, links) {
                Step::Rescued => (rescued, has_made_room) = (rescued + 1, false),
                Step::Looked => {}
                Step::NoChunk if !has_made_room => {
                    has_made_room = true;
                    self.push_out(id, ROOM_BATCH, links);
                    lock(self.class(id)).sweep_limbo(self.zone());
                }
                Step::NoChunk | Step::End => break,
            }
        }
        lock(self.class(id)).counters.rescued += rescued as u64;
    }

    /// Moves the next item that is worth it, from chunk `next` of the slab on.
    fn rescue_next(&self, id: ClassId, slab_id: SlabId, next: &mut u32, links: &dyn Links) -> Step {
        let (guard, zone) = (self.epochs.pin(), self.zone());
        let slab = zone.slab(slab_id);
        let (item, place, chunk) = {
            let mut class = lock(self.class(id));
            // While the lock was let go the slab may have left, and may even have come back.
            let leaves = slab.belongs_to(id) && slab.is_draining();
            // Asked for under the guard: a walk that is about to begin waits for it.
            let may_move = class.staying() > 0 && links.may_move();
            if !leaves || *next >= slab.touched() || !may_move {
                return Step::End;
            }
            let numbers = *next..slab.touched().min(*next + LOOK_STEP);
            *next = numbers.end;
            let mut found = numbers.filter_map(|number| {
                let place = slab.place(&self.arena, slab_id, number);
                Some((number, place, self.worth_rescuing(&guard, &class, place, links)?))
            });
            let Some((number, place, item)) = found.next() else {
                return Step::Looked;
            };
            *next = number;
            let Some(chunk) = class.take(zone, item.cost()) else {
                return Step::NoChunk;
            };
            *next = number + 1;
            (item, place, chunk)
        };
        if self.move_item(&guard, item, place, chunk, links) { Step::Rescued } else { Step::Looked }
    }

    /// Moves the item at a place, which was linked under this guard, to a chunk that was taken for
    /// it. Returns whether it did; if not, it has changed or gone, and the chunk is free again.
    pub(crate) fn move_item(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: Place,
        chunk: Taken,
        links: &dyn Links,
    ) -> bool {
        // On failure the chunk goes back with the draft.
        if !links.relocate(guard, item, place, self.copy_to(chunk, item)) {
            return false;
        }
        // SAFETY: the item was published there, and `relocate` has just taken the place out of the
        // index, under this guard.
        unsafe { self.retire_at_once(guard, place) };
        true
    }

    /// The item at a place of a class, whose lock the caller holds, if it is whole and the hand
    /// would spare it.
    fn worth_rescuing<'g>(
        &self,
        guard: &'g Guard<'_>,
        class: &Class,
        place: Place,
        links: &dyn Links,
    ) -> Option<ItemRef<'g>> {
        let (item, owner) = self.published(guard, place)?;
        let is_whole = owner == place && !item.layout().is_chained();
        let is_worth = is_whole && class.keeper.spares(item) && item.may_move();
        // What is in limbo looks published, and may be reused as soon as the lock is let go. What
        // the index leads to while this guard is pinned stays until it is dropped.
        (is_worth && !links.is_gone(item) && links.is_linked(guard, item, place)).then_some(item)
    }
}
