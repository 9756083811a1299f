//! Where the index's promise meets the hot zone's precondition: the only file of this crate with
//! `unsafe` in it.
//!
//! The index holds only places of published items, and hands them out under a pinned guard; the
//! hot zone may read exactly such places. A [`Found`] can be made only here, from what the index
//! said, so everywhere else an item that can be named can be read.

#![allow(unsafe_code)]

use hot::{Draft, ItemRef};
use index::{Change, Full, Hash, Location, Match};
use memory::{Guard, Place};

use crate::cache::Cache;
use crate::flash_tier::FlashTier;

/// The tier of items in the hot zone, as locations carry it.
const HOT: u8 = 1;
/// The tier of items on flash.
const FLASH: u8 = 2;

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

/// What the index says of a key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Present<'g> {
    /// Its item in the hot zone, gone or not.
    pub(crate) hot: Option<Found<'g>>,
    /// If it has none there: where on flash the key's item is, or one whose hash is too much like
    /// the key's to be told from it. What is published or removed takes the place of this one.
    pub(crate) flash: Option<flash::Place>,
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
    // Always, as `Session::look_up`, whose heart it is.
    #[inline(always)]
    pub(crate) fn find<'g>(
        &self,
        guard: &'g Guard<'_>,
        key: &[u8],
        hash: Hash,
    ) -> Option<Found<'g>> {
        let has_key = |location| is_hot(location) && self.item_at(guard, location).has_key(key);
        let location = self.index.find(guard, hash, has_key)?;
        Some(Found { location, item: self.item_at(guard, location) })
    }

    /// Asks for the cache lines of the item that the hash most likely leads to: all of them if it
    /// is to be read, and otherwise those that say whose it is.
    #[inline]
    pub(crate) fn prefetch_candidate(&self, guard: &Guard<'_>, hash: Hash, reads: bool) {
        if let Some(location) = self.index.candidate(guard, hash)
            && is_hot(location)
        {
            if reads {
                self.hot.prefetch_whole(place_of(location));
            } else {
                self.hot.prefetch(place_of(location));
            }
        }
    }

    /// Where on flash the key's item may be.
    pub(crate) fn find_on_flash(&self, guard: &Guard<'_>, hash: Hash) -> Option<flash::Place> {
        let tier = self.flash.as_deref()?;
        let may_be = |location| !is_hot(location) && tier.may_be(flash_place(location), hash);
        self.index.find(guard, hash, may_be).map(flash_place)
    }

    /// Whether the index still leads to this place on flash.
    pub(crate) fn is_on_flash(&self, guard: &Guard<'_>, hash: Hash, place: flash::Place) -> bool {
        self.index.find(guard, hash, |found| is_at(found, place)).is_some()
    }

    /// Decides whether a place on flash is to be another from now on, or none, under the lock of
    /// its index table. `None` if the index does not lead there any more.
    pub(crate) fn update_on_flash<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        place: flash::Place,
        decide: impl FnOnce(flash::Place) -> (Option<flash::Place>, R),
    ) -> Option<R> {
        let is_it = |found| is_at(found, place);
        self.index.update_present(guard, hash, is_it, |found| {
            let (to, result) = decide(flash_place(found));
            let change = to.map_or(Change::Remove, |to| Change::Set(flash_location(to)));
            (change, result)
        })
    }

    /// Publishes an item of the hot zone in the place of one on flash, under the lock of its index
    /// table, if `agrees` says so there. Returns whether it did.
    pub(crate) fn raise_from_flash<'c>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        place: flash::Place,
        decide: impl FnOnce() -> Fate<'c>,
    ) -> bool {
        let raised = self.index.update_present(
            guard,
            hash,
            |found| is_at(found, place),
            |_| {
                let change = self.change(decide());
                (change, change != Change::Keep)
            },
        );
        if raised == Some(true) {
            self.forget_on_flash(place, hash);
        }
        raised == Some(true)
    }

    /// Leads a key to a place on flash, under the lock of its index table, if it has no item in the
    /// hot zone and `agrees` says so there. Returns whether it did; the error, that the index has
    /// no room for another key.
    pub(crate) fn lead_to_flash<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        key: Option<&[u8]>,
        place: flash::Place,
        agrees: impl FnOnce(Option<flash::Place>) -> bool,
    ) -> Result<bool, Full> {
        let is_key = |item: ItemRef<'g>| key.is_none_or(|key| item.has_key(key));
        let rank = |location| self.rank(guard, hash, &is_key, location);
        let (led, before) = self.index.update(guard, hash, rank, |current| {
            let present = self.present(guard, current);
            let agrees = present.hot.is_none() && agrees(present.flash);
            let change = if agrees { Change::Set(flash_location(place)) } else { Change::Keep };
            (change, (agrees, present.flash))
        })?;
        if led && let Some(before) = before {
            self.forget_on_flash(before, hash);
        }
        Ok(led)
    }

    /// Leads to a place on flash where the index led to an item of the hot zone, and hands that
    /// one's memory back, if `agrees` says so of it, under the lock of its index table. Returns
    /// whether it did.
    pub(crate) fn exchange_for_flash(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        hot: Place,
        place: flash::Place,
        agrees: impl FnOnce(ItemRef<'_>) -> bool,
    ) -> bool {
        // Two that cannot be told apart may not both be on flash.
        if let Some(other) = self.find_on_flash(guard, hash)
            && self.update_on_flash(guard, hash, other, |_| (None, ())).is_some()
        {
            self.forget_on_flash(other, hash);
        }
        let is_it = |location| location == location_of(hot);
        let exchanged = self.index.update_present(guard, hash, is_it, |location| {
            let goes = agrees(self.item_at(guard, location));
            let change = if goes { Change::Set(flash_location(place)) } else { Change::Keep };
            (change, goes)
        });
        if exchanged == Some(true) {
            self.retire(guard, location_of(hot));
        }
        exchanged == Some(true)
    }

    /// Removes all places on flash from one table of the index, the one that holds `hash`, and
    /// counts them. Returns a hash that the next one holds; nothing behind the last.
    pub(crate) fn purge_flash(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        count: &mut u64,
    ) -> Option<Hash> {
        self.index.remove_where(guard, hash, |location| {
            *count += u64::from(!is_hot(location));
            !is_hot(location)
        })
    }

    /// Whether a location's item has the key: on flash, perhaps.
    #[inline]
    fn rank<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: &impl Fn(ItemRef<'g>) -> bool,
        location: Location,
    ) -> Match {
        if is_hot(location) {
            return Match::from(is_key(self.item_at(guard, location)));
        }
        self.rank_on_flash(hash, location)
    }

    #[cold]
    fn rank_on_flash(&self, hash: Hash, location: Location) -> Match {
        let may_be = |tier: &FlashTier| tier.may_be(flash_place(location), hash);
        if self.flash.as_deref().is_some_and(may_be) { Match::Perhaps } else { Match::No }
    }

    #[inline]
    fn present<'g>(&self, guard: &'g Guard<'_>, current: Option<Location>) -> Present<'g> {
        match current {
            Some(location) if is_hot(location) => {
                let item = self.item_at(guard, location);
                Present { hot: Some(Found { location, item }), flash: None }
            }
            Some(location) => Present { hot: None, flash: Some(flash_place(location)) },
            None => Present::default(),
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
        decide: impl FnOnce(Present<'g>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        let rank = |location| self.rank(guard, hash, &is_key, location);
        let (result, unlinked) = self.index.update(guard, hash, rank, |current| {
            let (fate, result) = decide(self.present(guard, current));
            let change = self.change(fate);
            let unlinked = if change == Change::Keep { None } else { current };
            if change != Change::Keep {
                self.note_change(hash);
            }
            (change, (result, unlinked))
        })?;
        if let Some(location) = unlinked {
            self.let_go(guard, hash, location);
        }
        Ok(result)
    }

    /// The same without making room: a key that has no item gets none.
    pub(crate) fn update_or_note<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        decide: impl FnOnce(Present<'g>) -> (Fate<'c>, R),
    ) -> R {
        let rank = |location| self.rank(guard, hash, &is_key, location);
        let (result, unlinked) = self.index.update_or_note(guard, hash, rank, |current| {
            self.note_change(hash);
            let (fate, result) = decide(self.present(guard, current));
            let change = self.change(fate);
            let unlinked = if change == Change::Keep { None } else { current };
            (change, (result, unlinked))
        });
        if let Some(location) = unlinked {
            self.let_go(guard, hash, location);
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

    /// Leads to a copy of an item, if the index still leads to the one at this place, and lets the
    /// copy have what the item has by then, under the lock of its index table. Returns whether it
    /// did: then the old place is the caller's to retire. The key does not change by it.
    pub(crate) fn relocate(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        place: Place,
        copy: Draft<'_>,
    ) -> bool {
        let is_it = |location| location == location_of(place);
        // Dropped after the lock has opened, if nothing becomes of it.
        let mut copy = Some(copy);
        let moved = self.index.update_present(guard, hash, is_it, |location| {
            let item = self.item_at(guard, location);
            let copy = copy.take().expect("an update decides once");
            (Change::Set(location_of(copy.publish_as(item, place))), ())
        });
        moved.is_some()
    }

    /// Takes note of a hit that was sampled.
    pub(crate) fn heat(&self, guard: &Guard<'_>, found: &Found<'_>) {
        // SAFETY: a `Found` is made only here, of what the index said under this guard.
        unsafe { self.hot.heat(guard, found.place()) };
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

    /// Hands back the memory of what has just left the index, or tells the flash tier.
    #[inline]
    fn let_go(&self, guard: &Guard<'_>, hash: Hash, location: Location) {
        if is_hot(location) {
            self.retire(guard, location);
        } else {
            self.forget_on_flash(flash_place(location), hash);
        }
    }

    /// Takes note of a change of a key: what is found of it on flash later is older. Under the lock
    /// of its index table.
    #[inline]
    fn note_change(&self, hash: Hash) {
        if let Some(tier) = &self.flash {
            tier.note_change(hash);
        }
    }

    /// Tells the flash tier that an item has left the index.
    pub(crate) fn forget_on_flash(&self, place: flash::Place, hash: Hash) {
        if let Some(tier) = &self.flash {
            tier.forget(place, hash);
        }
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
fn is_hot(location: Location) -> bool {
    location.tier() == HOT
}

/// Whether a location is this place on flash, whatever its accesses.
fn is_at(location: Location, place: flash::Place) -> bool {
    !is_hot(location) && flash_place(location).is_same(place)
}

fn flash_place(location: Location) -> flash::Place {
    flash::Place(location.place())
}

fn flash_location(place: flash::Place) -> Location {
    Location::new(FLASH, place.0)
}

#[inline]
fn place_of(location: Location) -> Place {
    Place(location.place())
}
