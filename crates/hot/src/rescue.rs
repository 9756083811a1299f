//! Rescuing the items of a leaving slab that the policy would spare, or has spared a moment ago:
//! they move to other chunks of the class, in place of unread items that are next to be evicted
//! there. The others leave with the slab. memcached calls it the same (`slab_reassign_rescues`).
//!
//! The items worth it are chosen first. Then room is made for them in all classes that they need,
//! by evicting only items that the policy does not spare: otherwise one read item would be evicted
//! for another. Where that does not suffice the slab stays for a round.
//!
//! An item moves as in [`repartition`](crate::repartition): as a copy, which takes its place in the
//! index if the index still points at exactly the item. No class's lock is held meanwhile. An item
//! in pieces, of which the slab has some, moves as a whole.

use std::sync::atomic::Ordering;

use memory::{ClassId, Guard, Place, SlabId};
use policy::rebalance::is_young;
use stdx::sync::lock;

use crate::draft::Draft;
use crate::evict::{HAND_PREFETCH, RoomRequest, is_newest};
use crate::item::ItemRef;
use crate::mark::FETCHED;
use crate::{CacheHooks, Hot};

/// Chunks of the slab that are looked at under one lock of the class.
const LOOK_STEP: u32 = 256;
/// Items evicted at once to make more room for rescued items, if others took the room made.
const ROOM_BATCH: usize = 32;
/// Chunks of items that are rescued from one slab at most, where it has fewer itself: the chunks of
/// items in pieces lie in other slabs, too.
const RESCUES_MAX: usize = 2048;
/// An item in pieces is rescued if it has at most one in this many of the chunks of their class:
/// otherwise too much would have to be evicted for it.
const PIECES_SHARE: usize = 4;

/// Whether the classes have chunks for what is to be rescued from a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RescueRoom {
    There,
    /// Once readers have left.
    Coming,
    /// Not as far as can be seen.
    Short,
}

/// The items to be rescued from a slab.
#[derive(Debug, Default)]
pub(crate) struct Rescues {
    /// Where the items begin, and their numbers in the sequence of mutations.
    items: Vec<(Place, u32)>,
    /// Some of them still have the access bit or credit that spares them.
    pub(crate) has_unjudged: bool,
    /// How many chunks they have in which classes.
    chunks: Vec<(ClassId, usize)>,
}

impl Rescues {
    fn add_chunk(&mut self, class: ClassId) {
        match self.chunks.iter_mut().find(|(id, _)| *id == class) {
            Some((_, chunks)) => *chunks += 1,
            None => self.chunks.push((class, 1)),
        }
    }

    /// Whether these are enough for a slab of `slab_chunks` chunks.
    fn is_enough(&self, slab_chunks: usize) -> bool {
        let chunks: usize = self.chunks.iter().map(|(_, chunks)| chunks).sum();
        chunks >= slab_chunks.max(RESCUES_MAX)
    }
}

impl Hot {
    /// Finds the items to be rescued from a slab of a class.
    pub(crate) fn rescues(&self, id: ClassId, slab_id: SlabId, hooks: &dyn CacheHooks) -> Rescues {
        let pieces_max = lock(self.class(self.largest_class())).chunks() / PIECES_SHARE;
        let slab_age = self.zone().slab(slab_id).age(hooks.mutations());
        let slab_chunks = lock(self.class(id)).chunks_per_slab;
        let (mut rescues, mut begin) = (Rescues::default(), 0);
        while !rescues.is_enough(slab_chunks) {
            let (guard, mut found) = (self.epochs.pin(), Vec::new());
            let end = self.find_rescues(&guard, id, slab_id, begin, hooks, &mut found);
            for (item, owner, is_spared) in found {
                let pieces = item.layout().pieces();
                let is_newest = is_newest(item, hooks);
                if pieces > pieces_max && !is_newest {
                    continue;
                }
                // Other classes judge items in pieces.
                let is_spared = match pieces {
                    0 => is_spared,
                    _ => is_newest || self.is_spared(item, owner),
                };
                if is_spared || pieces == 0 || self.was_spared(item, owner, slab_age, hooks) {
                    rescues.has_unjudged |= is_spared;
                    rescues.items.push((owner, item.sequence()));
                    rescues.add_chunk(self.class_at(owner));
                    let pieces = (0..pieces).map(|number| item.piece(number));
                    pieces.for_each(|piece| rescues.add_chunk(self.class_at(piece)));
                }
            }
            match end {
                Some(end) => begin = end,
                None => break,
            }
        }
        rescues
    }

    /// Finds the items worth it in the next chunks of a slab, and candidates among those in pieces,
    /// each at one of its chunks; and whether the policy spares them. Returns where to continue.
    fn find_rescues<'g>(
        &self,
        guard: &'g Guard<'_>,
        id: ClassId,
        slab_id: SlabId,
        begin: u32,
        hooks: &dyn CacheHooks,
        found: &mut Vec<(ItemRef<'g>, Place, bool)>,
    ) -> Option<u32> {
        let slab = self.zone().slab(slab_id);
        let mut class = lock(self.class(id));
        class.policy.enter_waiting(self.zone());
        // While the lock was released the slab may have left.
        let touched = if slab.belongs_to(id) { slab.touched() } else { 0 };
        let end = touched.min(begin + LOOK_STEP);
        for number in begin..end {
            if number + HAND_PREFETCH < touched {
                let soon = slab.place(&self.arena, slab_id, number + HAND_PREFETCH);
                slab.chunk(&self.arena, soon).prefetch();
            }
            let place = slab.place(&self.arena, slab_id, number);
            let Some((item, owner)) = self.published(guard, place) else {
                continue;
            };
            let was_read = item.mark().load(Ordering::Relaxed) & FETCHED != 0;
            let order = class.policy.order();
            // Another class may know of items in pieces.
            let was_spared = was_read
                && (item.layout().is_chained()
                    || order.is_some_and(|order| order.was_renewed(self.zone(), place)));
            // A chunk in limbo looks published, and may be reused as soon as the lock is released.
            // An item that the index points at while this guard is pinned stays until the guard is
            // dropped.
            let is_spared = class.policy.keeps(item) || is_newest(item, hooks);
            if (is_spared || was_spared)
                && item.may_move()
                && self.is_first_in(slab_id, item, place)
                && !hooks.is_gone(item)
                && hooks.is_linked(guard, item, owner)
            {
                found.push((item, owner, is_spared));
            }
        }
        (end < touched).then_some(end)
    }

    /// Whether the policy would spare an item that lies in pieces.
    fn is_spared(&self, item: ItemRef<'_>, owner: Place) -> bool {
        lock(self.class(self.class_at(owner))).policy.keeps(item)
    }

    /// Whether such an item, in a slab of this age, was read and lost the bit or credit that it
    /// had for that a moment ago, so that no reader has had the time to read it again.
    fn was_spared(
        &self,
        item: ItemRef<'_>,
        owner: Place,
        slab_age: u64,
        hooks: &dyn CacheHooks,
    ) -> bool {
        let marked = self.marked_place(item, owner);
        let slab_id = self.arena.locate(marked).0;
        let mut class = lock(self.class(self.class_at(marked)));
        class.policy.enter_waiting(self.zone());
        let is_renewed = match class.policy.order() {
            Some(order) => order.was_renewed(self.zone(), marked),
            // By the hand that came by the first of its pieces.
            None => is_young(self.zone().slab(slab_id).age(hooks.mutations()), slab_age),
        };
        is_renewed && item.mark().load(Ordering::Relaxed) & FETCHED != 0
    }

    /// Makes room in the classes for the items to be rescued from a slab, which no longer allocates
    /// chunks: evicts as many unread items elsewhere.
    pub(crate) fn make_room_for_rescues(
        &self,
        rescues: &Rescues,
        hooks: &dyn CacheHooks,
    ) -> RescueRoom {
        let sweep = || {
            rescues
                .chunks
                .iter()
                .for_each(|&(id, _)| _ = lock(self.class(id)).sweep_limbo(self.zone()));
        };
        // With the chunks that readers have yet to leave, or without.
        let missing = |(id, wanted): (ClassId, usize), with_limbo: bool| {
            let class = lock(self.class(id));
            // A class with chunks only in leaving slabs has none for a rescue.
            if class.staying() == 0 {
                return 0;
            }
            let missing = wanted.saturating_sub(class.free);
            let coming = if with_limbo { class.room_in_limbo(self.zone(), missing) } else { 0 };
            missing - coming
        };
        let room_in = |wanted| match missing(wanted, false) {
            0 => RescueRoom::There,
            _ if missing(wanted, true) == 0 => RescueRoom::Coming,
            _ => RescueRoom::Short,
        };
        let room = || rescues.chunks.iter().map(|&wanted| room_in(wanted)).max();
        sweep();
        if room() == Some(RescueRoom::Short) {
            for &wanted in &rescues.chunks {
                self.evict_or_demote(
                    wanted.0,
                    RoomRequest::of_unread(missing(wanted, true)),
                    hooks,
                );
            }
            sweep();
        }
        room().unwrap_or(RescueRoom::There)
    }

    /// Moves the items found worth it out of a draining slab of a class, as far as there are chunks
    /// for them.
    pub(crate) fn rescue(&self, id: ClassId, rescues: Rescues, hooks: &dyn CacheHooks) {
        // Classes in which others took the room, more was made, and that did not suffice.
        let (mut dry, mut rescued) = (Vec::new(), 0);
        for (place, sequence) in rescues.items {
            loop {
                match self.rescue_one(place, sequence, hooks) {
                    Ok(is_moved) => {
                        rescued += u64::from(is_moved);
                        break;
                    }
                    Err(class) if dry.contains(&class) => break,
                    Err(class) => {
                        dry.push(class);
                        self.evict_or_demote(class, RoomRequest::of_unread(ROOM_BATCH), hooks);
                        lock(self.class(class)).sweep_limbo(self.zone());
                    }
                }
            }
        }
        lock(self.class(id)).counters.rescued += rescued;
    }

    /// Moves the item of this number at a place, if it is still there. Returns whether it did, or
    /// the class that has no chunk left for it.
    fn rescue_one(
        &self,
        place: Place,
        sequence: u32,
        hooks: &dyn CacheHooks,
    ) -> Result<bool, ClassId> {
        let guard = self.epochs.pin();
        // Asked under the guard: a walk that is about to begin waits for it.
        if !hooks.may_move() {
            return Ok(false);
        }
        let item = self.linked(&guard, place, hooks);
        let is_same = |item: &ItemRef<'_>| {
            item.sequence() == sequence && item.may_move() && !hooks.is_gone(*item)
        };
        let Some(item) = item.filter(is_same) else {
            return Ok(false);
        };
        let copy = if item.layout().is_chained() {
            self.copy_of_pieces(item, place)?
        } else {
            let id = self.class_at(place);
            let chunk = lock(self.class(id)).take(self.zone(), item.cost());
            self.copy_to(chunk.ok_or(id)?, item)
        };
        Ok(self.move_item(&guard, item, place, copy, hooks))
    }

    /// Has a copy of the item at a place, which was linked under this guard, take its place in the
    /// index. Returns whether it did; if not, the item has changed or is not there, and the copy's
    /// chunks are free again.
    pub(crate) fn move_item(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: Place,
        copy: Draft<'_>,
        hooks: &dyn CacheHooks,
    ) -> bool {
        // On failure the chunks go back with the draft.
        if !hooks.relocate(guard, item, place, copy) {
            return false;
        }
        // SAFETY: the item was published there, and `relocate` has just taken the place out of the
        // index, under this guard.
        unsafe { self.retire_at_once(guard, place) };
        true
    }
}

#[cfg(test)]
mod tests;
