//! Vacating a slab: a class that has more free chunks than it needs gives up a slab, whose live
//! items move to those chunks. Nothing is evicted for it, so this comes before any slab is
//! [drained](crate::shift), however old the items of that slab are. Chunks come free in all slabs
//! of a class where items expire or are deleted, and no slab would ever be empty. memcached's page
//! mover does the same for a class with two and a half slabs' worth of free chunks.
//!
//! The slab with the fewest items is vacated: nothing is allocated from it any more, and its items
//! move, as in [`rescue`](crate::rescue), a few at a time and without a lock in between. An item in
//! pieces moves as a whole. If the class needs its free chunks itself meanwhile, or an item cannot
//! move (a very long one in pieces, or one for which a client holds a win token), the slab stays
//! with its remaining items, and another one is tried.

use std::ops::Range;

use memory::{ClassId, Guard, Place, SlabId};
use stdx::sync::lock;

use crate::class::{ClaimedChunk, Class, Zone};
use crate::evict::GROUP;
use crate::{CacheHooks, Hot, ItemRef};

/// Chunks of items that move before the thread, a store's or the background's, looks after other
/// things.
const MOVES_MAX: usize = 2048;
/// An item in pieces moves if it has no more bytes than this: a store may be waiting while it is
/// copied, and a slab may have several.
const PIECED_BYTES_MAX: usize = 1 << 20;
/// Slabs with free chunks that are compared.
const COMPARED_MAX: usize = 1024;
/// Slabs that cannot be vacated and are therefore passed over, at most. As long as the item that
/// keeps one lives, it would be tried again and again, and slabs that can be vacated were never
/// reached.
const STUCK_MAX: usize = 16;
/// Slabs that are tried before the search gives up.
const TRIES_MAX: usize = 3;
/// Where others only want a slab, the class keeps free chunks for one in this many of a slab's, so
/// that it does not want one itself at once.
const KEPT_SHARE: usize = 2;

/// The outcome of a request for an empty slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vacated {
    /// A slab of this class is empty, once readers have left.
    Slab(ClassId),
    /// A slab is being vacated, which takes another call.
    Partly,
    /// No class has more free chunks than it needs.
    Nothing,
}

/// The slab of a class that is being vacated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vacating {
    pub(crate) slab: SlabId,
    /// The chunk that is looked at next.
    next: u32,
}

/// The outcome for the next chunks of a leaving slab.
enum Step {
    /// Items with this many chunks moved.
    Moved(usize),
    /// All chunks were looked at.
    End,
    /// There is an item that cannot move, or there is no chunk for it.
    Stuck,
    /// Nothing may move for the moment.
    NotNow,
}

/// An item that moves: from where, and to which chunk, unless it lies in pieces.
struct Move<'g> {
    item: ItemRef<'g>,
    place: Place,
    chunk: Option<ClaimedChunk>,
}

impl Hot {
    /// Vacates a slab of a class other than `except`, or continues with one. If `must` is set, the
    /// class keeps no more free chunks than its reserve.
    pub(crate) fn vacate(
        &self,
        except: Option<ClassId>,
        must: bool,
        hooks: &dyn CacheHooks,
    ) -> Vacated {
        let next = || self.vacating_class().or_else(|| self.start_vacating(except, must, hooks));
        let mut tries = std::iter::from_fn(next).take(TRIES_MAX);
        tries.find_map(|id| self.vacate_on(id, hooks)).unwrap_or(Vacated::Nothing)
    }

    /// Vacates a slab to its end. Returns whether there was one.
    pub(crate) fn vacate_whole(&self, except: Option<ClassId>, hooks: &dyn CacheHooks) -> bool {
        loop {
            match self.vacate(except, true, hooks) {
                Vacated::Slab(_) => return true,
                Vacated::Partly => {}
                Vacated::Nothing => return false,
            }
        }
    }

    /// Continues with a slab that is being vacated. Returns whether there is more to do.
    pub(crate) fn go_on_vacating(&self, hooks: &dyn CacheHooks) -> bool {
        let begun = self.vacating_class();
        begun.is_some_and(|id| self.vacate_on(id, hooks) == Some(Vacated::Partly))
    }

    fn vacating_class(&self) -> Option<ClassId> {
        let mut classes = self.classes.iter().map(|class| lock(class));
        classes.find(|class| class.vacating.is_some()).map(|class| class.id)
    }

    /// Moves the items in the next chunks of the slab of a class that is being vacated. Returns the
    /// outcome, or `None` if that slab stays.
    fn vacate_on(&self, id: ClassId, hooks: &dyn CacheHooks) -> Option<Vacated> {
        let mut moved = 0;
        while moved < MOVES_MAX {
            let Some(begun) = lock(self.class(id)).next_to_vacate() else {
                // It is empty, or another thread came to its end.
                return Some(Vacated::Slab(id));
            };
            match self.move_some(id, begun.slab, begun.next, hooks) {
                Step::Moved(chunks) => moved += chunks.max(1),
                Step::End => {
                    let mut class = lock(self.class(id));
                    if class.end_vacating(begun.slab) {
                        class.note_emptied(begun.slab);
                    }
                    return Some(Vacated::Slab(id));
                }
                step => {
                    let is_stuck = matches!(step, Step::Stuck);
                    lock(self.class(id)).stop_vacating(self.zone(), begun.slab, is_stuck);
                    return None;
                }
            }
        }
        Some(Vacated::Partly)
    }

    /// Moves the live items of a draining slab to other chunks of its class, as far as there are
    /// chunks to spare and the items can move. Returns whether all of them did.
    pub(crate) fn move_to_spare(
        &self,
        id: ClassId,
        slab_id: SlabId,
        hooks: &dyn CacheHooks,
    ) -> bool {
        let mut is_all = true;
        for begin in (0..u32::MAX).step_by(GROUP) {
            match self.move_some(id, slab_id, begin, hooks) {
                Step::Moved(_) => {}
                // Items further on may be able to.
                Step::Stuck => is_all = false,
                Step::NotNow => return false,
                Step::End => break,
            }
        }
        is_all
    }

    /// Whether a chunk of a slab is the first of its item there: a walk through the slab meets an
    /// item in pieces at several of its chunks.
    pub(crate) fn is_first_in(&self, slab_id: SlabId, item: ItemRef<'_>, place: Place) -> bool {
        let mut pieces = (0..item.layout().pieces()).map(|number| item.piece(number));
        let first = pieces.find(|&piece| self.arena.locate(piece).0 == slab_id);
        first.is_none_or(|first| first == place)
    }

    /// Lets a slab of a class stay that was vacated, if a live item in it cannot move: a value that
    /// was on its way and is stored by now.
    pub(crate) fn stop_leaving(&self, id: ClassId, slab_id: SlabId) {
        let mut class = lock(self.class(id));
        let slab = self.zone().slab(slab_id);
        if slab.belongs_to(id) && slab.is_draining() {
            class.stop_vacating(self.zone(), slab_id, true);
        }
    }

    /// Chooses the slab with the fewest bytes to move, and starts to vacate it. Returns the class
    /// that it belongs to.
    fn start_vacating(
        &self,
        except: Option<ClassId>,
        must: bool,
        hooks: &dyn CacheHooks,
    ) -> Option<ClassId> {
        if !hooks.may_move() {
            return None;
        }
        let zone = self.zone();
        let mut best: Option<(usize, ClassId, SlabId)> = None;
        for class in &self.classes {
            let mut class = lock(class);
            if Some(class.id) == except {
                continue;
            }
            if let Some((bytes, slab)) = class.emptiest_slab(zone, must)
                && best.is_none_or(|(least, ..)| bytes < least)
            {
                best = Some((bytes, class.id, slab));
            }
        }
        let (_, id, slab) = best?;
        let mut class = lock(self.class(id));
        // Another thread may have come first.
        let is_there = class.stays(zone, slab) && class.vacating.is_none();
        if is_there {
            class.start_vacating(zone, slab);
        }
        is_there.then_some(id)
    }

    /// Moves the items of the next few chunks of a leaving slab, from `begin` on. An item that
    /// cannot move keeps none of the others.
    fn move_some(&self, id: ClassId, slab_id: SlabId, begin: u32, hooks: &dyn CacheHooks) -> Step {
        let (guard, slab) = (self.epochs.pin(), self.zone().slab(slab_id));
        let mut gone = Vec::new();
        let (moves, mut is_stuck) = {
            let mut class = lock(self.class(id));
            // While the lock was released the slab may have left, and may even have come back.
            let leaves = slab.belongs_to(id) && slab.is_draining();
            let numbers = begin..slab.touched().min(begin.saturating_add(GROUP as u32));
            if !leaves || numbers.is_empty() {
                return Step::End;
            }
            // Asked under the guard: a walk that is about to begin waits for it.
            if !hooks.may_move() {
                return Step::NotNow;
            }
            self.moves_of(&guard, &mut class, slab_id, numbers, hooks, &mut gone)
        };
        for place in gone {
            // SAFETY: unlinked just now, under this guard.
            unsafe { self.retire_at_once(&guard, place) };
        }
        let (mut moved, mut chunks) = (0, 0);
        for Move { item, place, chunk } in moves {
            let copy = match chunk {
                Some(chunk) => Some(self.copy_to(chunk, item)),
                None => self.copy_of_pieces_by(item, place, Class::take_beyond_reserve).ok(),
            };
            is_stuck |= copy.is_none();
            if copy.is_some_and(|copy| self.move_item(&guard, item, place, copy, hooks)) {
                moved += 1;
                chunks += item.chunks();
            }
        }
        lock(self.class(id)).counters.rescued += moved;
        if is_stuck { Step::Stuck } else { Step::Moved(chunks) }
    }

    /// The items of some chunks of a slab that may move, and whether there is one that may not.
    /// Dead items are unlinked.
    fn moves_of<'g>(
        &self,
        guard: &'g Guard<'_>,
        class: &mut Class,
        slab_id: SlabId,
        numbers: Range<u32>,
        hooks: &dyn CacheHooks,
        gone: &mut Vec<Place>,
    ) -> (Vec<Move<'g>>, bool) {
        let zone = self.zone();
        let chunk_at = |number| zone.slab(slab_id).place(&self.arena, slab_id, number);
        let found = |number| {
            let (item, place) = self.published(guard, chunk_at(number))?;
            Some((item, place, self.is_first_in(slab_id, item, chunk_at(number))))
        };
        for (item, ..) in numbers.clone().filter_map(found) {
            hooks.prefetch(guard, item);
        }
        let (mut moves, mut is_stuck) = (Vec::with_capacity(GROUP), false);
        for (item, place, is_first) in numbers.filter_map(found) {
            // A chunk in limbo looks published, and may be reused as soon as the lock is released.
            // An item that the index points at while this guard is pinned stays until the guard is
            // dropped.
            if !is_first || !hooks.is_linked(guard, item, place) {
                continue;
            }
            if hooks.is_gone(item) {
                self.unlink(guard, class, hooks, place, gone);
                continue;
            }
            let is_chained = item.layout().is_chained();
            let may_move =
                item.may_move() && (!is_chained || item.layout().total_bytes() <= PIECED_BYTES_MAX);
            let takes = may_move && !is_chained;
            let chunk = takes.then(|| class.take_beyond_reserve(zone, item.cost())).flatten();
            // An item in pieces takes chunks of other classes as well, after this one's lock.
            if chunk.is_some() || may_move && is_chained {
                moves.push(Move { item, place, chunk });
            } else {
                is_stuck = true;
            }
        }
        (moves, is_stuck)
    }
}

impl Class {
    /// Whether the class has so many free chunks that the items of a slab find some in others and
    /// the class keeps its reserve, and more than that unless it `must` give up a slab. This holds
    /// for any slab: the more free chunks it has itself, the fewer are needed in others. If it
    /// must, the reserve is that of the other slabs: none, where its only slab is empty.
    pub(crate) fn can_spare_slab(&self, must: bool) -> bool {
        let staying = self.staying();
        let kept = if must {
            self.reserve_of(staying.saturating_sub(1))
        } else {
            self.reserve_of(staying) + self.chunks_per_slab.div_ceil(KEPT_SHARE)
        };
        self.free >= self.chunks_per_slab + kept
    }

    /// The slab with the fewest items, and their bytes, if the class can spare it.
    fn emptiest_slab(&mut self, zone: Zone<'_>, must: bool) -> Option<(usize, SlabId)> {
        if !self.can_spare_slab(must) {
            return None;
        }
        self.settle(zone);
        let with_free = self.with_free.iter().rev().take(COMPARED_MAX).copied();
        let others = with_free.filter(|slab| !self.stuck.contains(slab));
        let Some(emptiest) = others.min_by_key(|&slab| zone.slab(slab).used()) else {
            // The obstacles may have gone.
            self.stuck.clear();
            return None;
        };
        Some((zone.slab(emptiest).used() * self.format.bytes, emptiest))
    }

    fn start_vacating(&mut self, zone: Zone<'_>, slab: SlabId) {
        self.vacating = Some(Vacating { slab, next: 0 });
        self.start_draining(zone, slab);
    }

    /// Where to continue with the slab that is being vacated, for the caller alone.
    fn next_to_vacate(&mut self) -> Option<Vacating> {
        let vacating = self.vacating.as_mut()?;
        let begun = *vacating;
        vacating.next = begun.next.saturating_add(GROUP as u32);
        Some(begun)
    }

    /// Ends the vacating of this slab. Returns whether it was still the one that is being vacated.
    fn end_vacating(&mut self, slab: SlabId) -> bool {
        self.vacating.take_if(|vacating| vacating.slab == slab).is_some()
    }

    /// Lets a slab that was being vacated stay, with its remaining items, and remembers it if it
    /// `is_stuck`: if an item in it cannot move.
    fn stop_vacating(&mut self, zone: Zone<'_>, slab: SlabId, is_stuck: bool) {
        // Others may have come to its end, passing over items that one thread was about to move.
        if self.end_vacating(slab) || self.emptied.contains(&slab) {
            self.stop_draining(zone, slab);
            if !is_stuck {
                return;
            }
            if self.stuck.len() == STUCK_MAX {
                self.stuck.remove(0);
            }
            self.stuck.push(slab);
        }
    }
}

#[cfg(test)]
mod tests;
