//! Demoting items instead of evicting them: the background's way of making room, and that of stores
//! while it is behind ([`Hot::demote_for_store`]).
//!
//! The hand chooses as for an eviction, a group at a time under the class's lock. Then the lock is
//! released, since moving an item takes microseconds, and each item is copied
//! ([`CacheHooks::copy`]) and offered to the tier below ([`CacheHooks::demote`]). That tier must
//! not wait for a reader, this thread included, so the thread is not pinned meanwhile. The place
//! may hold another item by then, or lie in the middle of one, if its slab has gone to another
//! class. The item stays in the index, where readers find it and writers may replace it; the tier
//! below takes it over only if it is still the one that was copied. A refused item is evicted,
//! unless it has changed since it was looked at: an item that was touched, read for the first time
//! or given a win token is wanted, and stays until the hand comes by again. Each step of a hand
//! counts, whatever became of the item it met, and a store for which nothing was demoted evicts
//! whatever comes: so no thread waits for items that stay.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use memory::{ClassId, Guard, Place, SlabId};
use stdx::sync::lock;

use crate::class::Class;
use crate::evict::{GROUP, RoomRequest, Victim};
use crate::{CacheHooks, Hot, ItemRef, ItemVersion, PRESSED_BEHIND, PRESSED_CLASS};

/// Chunks of one slab that a store demotes, at most.
const HANDED_MAX: usize = 2048;

/// Times that an item of a leaving slab is offered to the tier below, if it changes each time:
/// nothing of the slab can stay.
const OFFERS_MAX: usize = 2;

/// Whether an item is still this version of it, or dead, and so may leave.
fn lets_go(version: ItemVersion, item: ItemRef<'_>, hooks: &dyn CacheHooks) -> bool {
    let now = ItemVersion::of(item);
    now == version || (now.sequence == version.sequence && hooks.is_gone(item))
}

/// An item that was looked at, to be moved or evicted.
struct Copied {
    version: ItemVersion,
    chunks: usize,
    /// It was copied, to be moved.
    shall_move: bool,
}

impl Hot {
    /// Demotes or evicts items of a class until about as many chunks as are wanted are on their way
    /// to being free, which they are once no reader can see them. Returns how many chunks that is.
    pub(crate) fn demote(
        &self,
        id: ClassId,
        mut request: RoomRequest,
        hooks: &dyn CacheHooks,
    ) -> usize {
        let mut left = 0;
        while request.wanted > 0 {
            let mut victims = [Victim::NONE; GROUP];
            let found = {
                let guard = self.epochs.pin();
                let mut class = lock(self.class(id));
                if request.steps >= request.steps_max(&class, hooks) {
                    break;
                }
                self.gather(&guard, &mut class, hooks, &mut victims, &mut request)
            };
            if found == 0 {
                break;
            }
            for &Victim { place, came_up } in &victims[..found] {
                let chunks = self.demote_one(id, place, true, hooks);
                if chunks == 0 {
                    self.put_back_remembered(came_up);
                }
                left += chunks;
                request.wanted = request.wanted.saturating_sub(chunks);
            }
        }
        lock(self.class(id)).evicted_since += left;
        left
    }

    /// Demotes the published items of a draining slab of a class, as far as the tier below takes
    /// them; for a store, no more than it can wait for.
    pub(crate) fn move_slab(&self, id: ClassId, slab_id: SlabId, hooks: &dyn CacheHooks) {
        let slab = self.zone().slab(slab_id);
        let (mut next, mut moved) = (0, 0);
        while hooks.demotes() || moved < HANDED_MAX {
            let place = {
                let guard = self.epochs.pin();
                let _class = lock(self.class(id));
                // While the lock was released the slab may have left, and may even have come back.
                if !slab.belongs_to(id) || !slab.is_draining() {
                    return;
                }
                // Each item once, wherever its hand judges it: with one chunk all of it is lost.
                let first_of_item = |number| {
                    let place = slab.place(&self.arena, slab_id, number);
                    let (item, owner) = self.published(&guard, place)?;
                    self.is_first_in(slab_id, item, place).then_some((number, owner))
                };
                let Some((number, owner)) = (next..slab.touched()).find_map(first_of_item) else {
                    return;
                };
                next = number + 1;
                owner
            };
            if hooks.demotes() {
                self.offer(id, place, hooks);
            } else {
                let guard = self.epochs.pin();
                moved += self.demote_one_for_store(&guard, id, place, false, hooks);
            }
        }
    }

    /// Demotes the item at a place where one was published a moment ago, or else evicts it if
    /// `evict` is set. Returns how many chunks are on their way to being free.
    pub(crate) fn demote_one(
        &self,
        id: ClassId,
        place: Place,
        evict: bool,
        hooks: &dyn CacheHooks,
    ) -> usize {
        let Some(copied) = self.copy(place, hooks) else {
            return 0;
        };
        if copied.shall_move && hooks.demote() {
            lock(self.class(id)).counters.demoted += 1;
            return copied.chunks;
        }
        if evict { self.evict_one(&self.epochs.pin(), place, copied.version, hooks) } else { 0 }
    }

    /// Offers the item at a place of a leaving slab to the tier below; once more if it has changed
    /// while it was copied.
    fn offer(&self, id: ClassId, place: Place, hooks: &dyn CacheHooks) {
        for _ in 0..OFFERS_MAX {
            let Some(copied) = self.copy(place, hooks) else {
                return;
            };
            if copied.shall_move && hooks.demote() {
                lock(self.class(id)).counters.demoted += 1;
                return;
            }
            let guard = self.epochs.pin();
            let item = self.linked(&guard, place, hooks);
            if item.is_none_or(|item| lets_go(copied.version, item, hooks)) {
                return;
            }
        }
    }

    /// Demotes a few items of a class for a store that needs their memory, as far as the tier below
    /// takes them at once ([`CacheHooks::demote_for_store`]), and evicts the others: one handful,
    /// for part of the request or for more. Returns how many chunks are on their way to being free.
    pub(crate) fn demote_for_store(
        &self,
        id: ClassId,
        request: &mut RoomRequest,
        hooks: &dyn CacheHooks,
    ) -> usize {
        self.press(PRESSED_CLASS | PRESSED_BEHIND);
        let guard = self.epochs.pin();
        let mut victims = [Victim::NONE; GROUP];
        let found = {
            let mut class = lock(self.class(id));
            let mut handful = RoomRequest { wanted: class.handful(), ..*request };
            let found = self.gather(&guard, &mut class, hooks, &mut victims, &mut handful);
            request.steps = handful.steps;
            found
        };
        let mut left = 0;
        for &Victim { place, came_up } in &victims[..found] {
            let chunks = self.demote_one_for_store(&guard, id, place, true, hooks);
            if chunks == 0 {
                self.put_back_remembered(came_up);
            }
            left += chunks;
        }
        lock(self.class(id)).evicted_since += left;
        request.wanted = request.wanted.saturating_sub(left);
        left
    }

    /// [`Hot::put_back`] for a chunk that was met before the class's lock was released. Others may
    /// have entered it meanwhile, for another item.
    fn put_back_remembered(&self, came_up: Place) {
        if let Some(mut class) = self.class_of_remembered(came_up) {
            self.put_back(&mut class, came_up);
        }
    }

    /// As [`Hot::demote_one`], for a store, under one pin beside its session's: a thread has no
    /// more than these ([`memory::epoch::PINS_MAX`]), and the store waits for others here.
    fn demote_one_for_store(
        &self,
        guard: &Guard<'_>,
        id: ClassId,
        place: Place,
        evict: bool,
        hooks: &dyn CacheHooks,
    ) -> usize {
        let Some(item) = self.linked(guard, place, hooks) else {
            return 0;
        };
        let (version, chunks) = (ItemVersion::of(item), item.chunks());
        if !hooks.is_gone(item) && hooks.demote_for_store(guard, item, place) {
            lock(self.class(id)).counters.demoted += 1;
            return chunks;
        }
        if evict { self.evict_one(guard, place, version, hooks) } else { 0 }
    }

    /// The class of a chunk whose place was remembered without a guard, locked: not the one that a
    /// piece of the item led to. `None` if no chunk begins there any more.
    fn class_of_remembered(&self, place: Place) -> Option<MutexGuard<'_, Class>> {
        let (id, slab) = (self.class_at(place), self.slab_at(place));
        let class = lock(self.class(id));
        (slab.belongs_to(id) && slab.has_used(&self.arena, place)).then_some(class)
    }

    /// Has the item at a place copied, if there is one.
    fn copy(&self, place: Place, hooks: &dyn CacheHooks) -> Option<Copied> {
        let guard = self.epochs.pin();
        let item = self.linked(&guard, place, hooks)?;
        // Before it is copied: any change from here on is seen.
        let version = ItemVersion::of(item);
        let shall_move = !hooks.is_gone(item) && hooks.copy(item, place);
        let chunks = item.chunks();
        Some(Copied { version, chunks, shall_move })
    }

    /// The item at a place where one was published a moment ago, if it is there.
    pub(crate) fn linked<'g>(
        &self,
        guard: &'g Guard<'_>,
        place: Place,
        hooks: &dyn CacheHooks,
    ) -> Option<ItemRef<'g>> {
        let _class = self.class_of_remembered(place)?;
        let (item, owner) = self.published(guard, place)?;
        // A chunk in limbo looks published, and may be reused as soon as the lock is released. An
        // item that the index points at while this guard is pinned stays until the guard is
        // dropped.
        (owner == place && hooks.is_linked(guard, item, place)).then_some(item)
    }

    /// Evicts the item at a place, if it is still the same version.
    fn evict_one(
        &self,
        guard: &Guard<'_>,
        place: Place,
        version: ItemVersion,
        hooks: &dyn CacheHooks,
    ) -> usize {
        let mut chained = Vec::new();
        let chunks = {
            let Some(mut class) = self.class_of_remembered(place) else {
                return 0;
            };
            let Some((item, owner)) = self.published(guard, place) else {
                return 0;
            };
            if owner != place || !lets_go(version, item, hooks) {
                return 0;
            }
            self.unlink(guard, &mut class, hooks, place, &mut chained)
        };
        for place in chained {
            // SAFETY: unlinked just now, under this guard.
            unsafe { self.retire_at_once(guard, place) };
        }
        chunks
    }

    /// The mutations for which an item of a class stays unread: the time that the hand took from
    /// one visit of a slab to the next, weighted over the last three, or the age of the order's
    /// next victim, for which the class is locked. `u64::MAX` as long as nothing has to leave.
    pub fn stay_mutations(&self, id: ClassId, hooks: &dyn CacheHooks) -> u64 {
        if let Some(stays) = &self.stays {
            return stays[usize::from(id.0)].load(Ordering::Relaxed);
        }
        let guard = self.epochs.pin();
        let mut class = lock(self.class(id));
        if class.had_to_make_room() { self.victim_age(&guard, &mut class, hooks) } else { u64::MAX }
    }

    /// Notes that the hand of a class came back to a slab after this many mutations. The caller
    /// holds the lock of the class.
    pub(crate) fn note_stay(&self, id: ClassId, mutations: u64) {
        let Some(stays) = &self.stays else { return };
        let stay = &stays[usize::from(id.0)];
        let now = match stay.load(Ordering::Relaxed) {
            u64::MAX => mutations,
            before => before - before / 3 + mutations / 3,
        };
        stay.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
