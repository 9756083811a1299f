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

    /// Decides what becomes of a key, under the lock of its index table: `decide` sees the key's
    /// item, gone or not. `decide` runs once, or not at all if the index is full.
    pub(crate) fn update<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        key: &[u8],
        hash: Hash,
        decide: impl FnOnce(Option<Found<'g>>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        self.update_where(guard, hash, |item, _| item.has_key(key), decide)
    }

    /// The same for one particular item: `decide` gets `None` if it is no longer in the index.
    pub(crate) fn update_found<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        found: &Found<'g>,
        decide: impl FnOnce(Option<Found<'g>>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        self.update_where(guard, hash, |_, location| location == found.location, decide)
    }

    fn update_where<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_meant: impl Fn(ItemRef<'g>, Location) -> bool,
        decide: impl FnOnce(Option<Found<'g>>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        let now = self.now();
        let is_meant = |location| is_meant(self.item_at(guard, location), location);
        let (result, unlinked) = self.index.update(guard, hash, is_meant, |current| {
            let found =
                current.map(|location| Found { location, item: self.item_at(guard, location) });
            let (fate, result) = decide(found);
            let change = match fate {
                Fate::Keep => return (Change::Keep, (result, None)),
                Fate::Remove => Change::Remove,
                Fate::Publish { draft, sequence, mark_bits } => {
                    Change::Set(location_of(draft.publish(sequence, mark_bits, now)))
                }
            };
            (change, (result, current))
        })?;
        if let Some(location) = unlinked {
            self.retire(guard, location);
        }
        Ok(result)
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
