//! Where the index's promise meets the hot zone's precondition: the only file of this crate with
//! `unsafe` in it.
//!
//! The index holds only places of published items, and hands them out under a pinned guard; the
//! hot zone may read exactly such places. A [`Found`] can be made only here, from what the index
//! said, so everywhere else an item that can be named can be read.

#![allow(unsafe_code)]

use hot::{Draft, ItemRef};
use index::{Change, Full, Hash, Location};
use memory::{Guard, Place};

use crate::cache::Cache;

/// The tier of items in the hot zone, as locations carry it.
const HOT: u8 = 1;

/// An item and where the index found it, readable while the guard is pinned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'g> {
    location: Location,
    pub(crate) item: ItemRef<'g>,
}

impl Found<'_> {
    /// Where the item's first chunk is.
    pub(crate) fn place(&self) -> Place {
        place_of(self.location)
    }
}

/// What becomes of a key.
pub(crate) enum Fate<'c> {
    /// It stays as it is.
    Keep,
    /// It is no longer there.
    Remove,
    /// It is this item from now on.
    Publish {
        /// The new item.
        draft: Draft<'c>,
        /// Its number in the sequence of mutations.
        sequence: u32,
        /// Bits of its mark beside the fresh ones.
        mark_bits: u8,
    },
}

impl Cache {
    /// Where the key's item is, gone or not.
    #[inline]
    pub(crate) fn find<'g>(
        &self,
        guard: &'g Guard<'_>,
        key: &[u8],
        hash: Hash,
    ) -> Option<Found<'g>> {
        let has_key = |location| self.item_at(guard, location).has_key(key);
        let location = self.index.find(guard, hash, has_key)?;
        Some(Found { location, item: self.item_at(guard, location) })
    }

    /// Asks for the cache lines of the item that the hash most likely leads to.
    #[inline]
    pub(crate) fn prefetch_candidate(&self, guard: &Guard<'_>, hash: Hash) {
        if let Some(location) = self.index.candidate(guard, hash) {
            self.hot.prefetch(place_of(location));
        }
    }

    /// Decides what becomes of a key, under the lock of its index table: `decide` sees the item
    /// that `is_key` knows by its key, gone or not. `decide` runs once, or not at all if the index
    /// is full.
    #[inline]
    pub(crate) fn update<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        decide: impl FnOnce(Option<Found<'g>>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        let is_key = |location| is_key(self.item_at(guard, location));
        let (result, unlinked) = self.index.update(guard, hash, is_key, |current| {
            let found =
                current.map(|location| Found { location, item: self.item_at(guard, location) });
            let (fate, result) = decide(found);
            let change = self.change(fate);
            let unlinked = if change == Change::Keep { None } else { current };
            (change, (result, unlinked))
        })?;
        if let Some(location) = unlinked {
            self.retire(guard, location);
        }
        Ok(result)
    }

    /// The same without making room: a key that has no item gets none.
    pub(crate) fn update_or_note<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        decide: impl FnOnce(Option<Found<'g>>) -> (Fate<'c>, R),
    ) -> R {
        let is_key = |location| is_key(self.item_at(guard, location));
        let (result, unlinked) = self.index.update_or_note(guard, hash, is_key, |current| {
            let found =
                current.map(|location| Found { location, item: self.item_at(guard, location) });
            let (fate, result) = decide(found);
            let change = self.change(fate);
            let unlinked = if change == Change::Keep { None } else { current };
            (change, (result, unlinked))
        });
        if let Some(location) = unlinked {
            self.retire(guard, location);
        }
        result
    }

    /// The same for one particular item. `None`, and nothing decided, if it is no longer in the
    /// index.
    pub(crate) fn update_found<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        found: &Found<'g>,
        decide: impl FnOnce() -> (Fate<'c>, R),
    ) -> Option<R> {
        let is_it = |location| location == found.location;
        let (result, changed) = self.index.update_present(guard, hash, is_it, |_| {
            let (fate, result) = decide();
            let change = self.change(fate);
            (change, (result, change != Change::Keep))
        })?;
        if changed {
            self.retire(guard, found.location);
        }
        Some(result)
    }

    /// Removes an item from the index and hands its memory back, if the index leads to one at this
    /// place and `agrees` says so of it, under the lock of its index table. Returns whether it did.
    pub(crate) fn retire_if(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        place: Place,
        agrees: impl FnOnce(ItemRef<'_>) -> bool,
    ) -> bool {
        let is_it = |location| location == location_of(place);
        let unlinked = self.index.update_present(guard, hash, is_it, |location| {
            let goes = agrees(self.item_at(guard, location));
            (if goes { Change::Remove } else { Change::Keep }, goes)
        });
        if unlinked == Some(true) {
            self.retire(guard, location_of(place));
        }
        unlinked == Some(true)
    }

    /// Whether the item is still where it was found.
    pub(crate) fn is_still(&self, guard: &Guard<'_>, hash: Hash, place: Place) -> bool {
        self.index.contains_exact(guard, hash, location_of(place))
    }

    /// The item at a place where the hot zone's walk has just seen it, if the index agrees.
    pub(crate) fn confirm<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        item: ItemRef<'g>,
        place: Place,
    ) -> Option<Found<'g>> {
        self.is_still(guard, hash, place).then(|| Found { location: location_of(place), item })
    }

    /// Publishes what is to be published.
    #[inline]
    fn change(&self, fate: Fate<'_>) -> Change {
        match fate {
            Fate::Keep => Change::Keep,
            Fate::Remove => Change::Remove,
            Fate::Publish { draft, sequence, mark_bits } => {
                Change::Set(location_of(draft.publish(sequence, mark_bits, self.now())))
            }
        }
    }

    /// Removes an item if it is still where it was found.
    pub(crate) fn remove_found(&self, guard: &Guard<'_>, hash: Hash, found: &Found<'_>) {
        if self.index.remove_exact(guard, hash, found.location) {
            self.retire(guard, found.location);
        }
    }

    #[inline]
    fn item_at<'g>(&self, guard: &'g Guard<'_>, location: Location) -> ItemRef<'g> {
        // SAFETY: the location came from the index under this guard (private to this file, called
        // on nothing else), and the index holds only places of published items.
        unsafe { self.hot.item(guard, place_of(location)) }
    }

    /// Hands an unlinked item's memory back.
    fn retire(&self, guard: &Guard<'_>, location: Location) {
        // SAFETY: called once for each location, by whoever's update or removal took it out of the
        // index, under the guard under which that happened.
        unsafe { self.hot.retire(guard, place_of(location)) };
    }
}

/// The location of a hot item.
pub(crate) fn location_of(place: Place) -> Location {
    Location::new(HOT, place.0)
}

#[inline]
fn place_of(location: Location) -> Place {
    Place(location.place())
}
