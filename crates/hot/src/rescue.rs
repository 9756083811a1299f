//! Rescuing what was read lately, or is dear, from a slab that leaves its class: it moves to other
//! chunks of the class, in place of what is next to go there. What nobody would miss goes with the
//! slab. memcached calls it the same (`slab_reassign_rescues`).
//!
//! An item moves as in [`repartition`](crate::repartition): as a copy, which takes the place in the
//! index if that still leads to exactly the item. No class's lock is held meanwhile. An item in
//! pieces, of which the slab has some, moves as a whole.

use memory::{ClassId, Guard, Place, SlabId};
use stdx::sync::lock;

use crate::class::Class;
use crate::draft::Draft;
use crate::item::ItemRef;
use crate::shift::look_step;
use crate::{Hot, Links};

/// Chunks of the slab that are looked at under one lock of the class.
const LOOK_STEP: u32 = 256;
/// Items that go at once to make room for what is rescued.
const ROOM_BATCH: usize = 32;
/// Chunks of items that are rescued from one slab at the most: a store may be waiting for it.
pub(crate) const RESCUES_MAX: usize = 2048;
/// An item in pieces is rescued if it has at most one in so many of its class's chunks: others
/// would have to go for too much of it.
const PIECES_SHARE: usize = 16;

/// What came of a look for something to rescue.
enum Step {
    /// An item in so many chunks was.
    Rescued(usize),
    /// Nothing was worth it, or it changed meanwhile.
    Looked,
    /// This class has none left.
    NoChunk(ClassId),
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

    /// How many chunks are wanted for what is to be rescued from a slab, judging by some of it.
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
        let wanted = |place| {
            self.worth_rescuing(guard, class, place, links)
                .map_or(0, |(item, _)| self.chunks_for(item, place, slab_id))
        };
        (places.map(wanted).sum::<usize>() * step).min(RESCUES_MAX)
    }

    /// How many chunks of a class an item is rescued to, if it is found by this chunk of a slab of
    /// the class: as many as it has pieces, by the first of them that is there.
    fn chunks_for(&self, item: ItemRef<'_>, place: Place, slab_id: SlabId) -> usize {
        let pieces = item.layout().pieces();
        let is_here = |number: &usize| self.arena.locate(item.piece(*number)).0 == slab_id;
        match (0..pieces).find(is_here) {
            Some(first) if item.piece(first) == place => pieces,
            Some(_) => 0,
            None => 1,
        }
    }

    /// Moves what its hand would spare out of a draining slab, as far as the class has chunks for
    /// it.
    pub(crate) fn rescue(&self, id: ClassId, slab_id: SlabId, links: &dyn Links) {
        let (mut next, mut chunks, mut rescued, mut has_made_room) = (0, 0, 0, false);
        while chunks < RESCUES_MAX {
            match self.rescue_next(id, slab_id, &mut next, links) {
                Step::Rescued(moved) => {
                    (chunks, rescued, has_made_room) = (chunks + moved, rescued + 1, false);
                }
                Step::Looked => {}
                Step::NoChunk(class) if !has_made_room => {
                    has_made_room = true;
                    self.push_out(class, ROOM_BATCH, links);
                    lock(self.class(class)).sweep_limbo(self.zone());
                }
                Step::NoChunk(_) | Step::End => break,
            }
        }
        lock(self.class(id)).counters.rescued += rescued;
    }

    /// Moves the next item that is worth it, from chunk `next` of the slab on.
    fn rescue_next(&self, id: ClassId, slab_id: SlabId, next: &mut u32, links: &dyn Links) -> Step {
        let (guard, zone) = (self.epochs.pin(), self.zone());
        let slab = zone.slab(slab_id);
        let (item, place, number, chunk) = {
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
                Some((number, self.worth_rescuing(&guard, &class, place, links)?))
            });
            let Some((number, (item, place))) = found.next() else {
                return Step::Looked;
            };
            *next = number;
            let chunk = if item.layout().is_chained() {
                None
            } else {
                let Some(chunk) = class.take(zone, item.cost()) else {
                    return Step::NoChunk(id);
                };
                Some(chunk)
            };
            (item, place, number, chunk)
        };
        let copy = match chunk {
            Some(chunk) => self.copy_to(chunk, item),
            None => match self.copy_of_pieces(item, place) {
                Ok(copy) => copy,
                Err(class) => return Step::NoChunk(class),
            },
        };
        *next = number + 1;
        let chunks = item.layout().pieces().max(1);
        let is_moved = self.move_item(&guard, item, place, copy, links);
        if is_moved { Step::Rescued(chunks) } else { Step::Looked }
    }

    /// Has a copy of the item at a place, which was linked under this guard, take its place in the
    /// index. Returns whether it did; if not, the item has changed or gone, and the copy's chunks
    /// are free again.
    pub(crate) fn move_item(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: Place,
        copy: Draft<'_>,
        links: &dyn Links,
    ) -> bool {
        // On failure the chunks go back with the draft.
        if !links.relocate(guard, item, place, copy) {
            return false;
        }
        // SAFETY: the item was published there, and `relocate` has just taken the place out of the
        // index, under this guard.
        unsafe { self.retire_at_once(guard, place) };
        true
    }

    /// The item that the chunk at a place of a class, whose lock the caller holds, is or belongs
    /// to, and where it begins, if the hand would spare it.
    fn worth_rescuing<'g>(
        &self,
        guard: &'g Guard<'_>,
        class: &Class,
        place: Place,
        links: &dyn Links,
    ) -> Option<(ItemRef<'g>, Place)> {
        let (item, owner) = self.published(guard, place)?;
        let is_small = || {
            let pieces = item.layout().pieces();
            // Chunks of several classes would have to have their labels carried over.
            pieces == 0 || pieces <= class.chunks() / PIECES_SHARE && !self.has_quota(item.key())
        };
        let is_worth = class.keeper.spares(item) && item.may_move() && is_small();
        // What is in limbo looks published, and may be reused as soon as the lock is let go. What
        // the index leads to while this guard is pinned stays until it is dropped.
        let stays = is_worth && !links.is_gone(item) && links.is_linked(guard, item, owner);
        stays.then_some((item, owner))
    }
}
