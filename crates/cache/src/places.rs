//! Where the index's promise meets the hot zone's precondition: the only file of this crate with
//! `unsafe` in it.
//!
//! The index holds only places of published items, and hands them out under a pinned guard; the
//! hot zone may read exactly such places. A [`Found`] can be made only here, from what the index
//! said, so everywhere else an item that can be named can be read.

#![allow(unsafe_code)]

use hot::{Draft, ItemRef, Unlinked};
use index::{Change, Full, Hash, Location, Pair, Room};
use memory::{Guard, Place};

use crate::cache::Cache;
use crate::spare_rows::has_tokens;

// The index keeps every bit of a place.
const _: () = assert!(memory::arena::PLACE_BITS == index::PLACE_BITS);
const _: () = assert!(flash::PLACE_BITS == index::PLACE_BITS);

/// The tier of items in the hot zone, as locations carry it.
const HOT: u8 = 1;
/// The tier of items on flash.
const FLASH: u8 = 2;
/// The tier of items on flash that are in memory as well: their rows are spare (`spare_rows`).
const SPARE: u8 = 3;

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

/// A key's items in the index.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Present<'g> {
    /// Its item in the hot zone, gone or not.
    pub(crate) hot: Option<Found<'g>>,
    /// The place on flash of the key's item, alone or beside the hot one, or of an item whose hash
    /// is too much like the key's to tell it apart. An item that is published or a removal takes
    /// its place.
    pub(crate) flash: Option<flash::Place>,
}

/// The effect of a change on a key.
pub(crate) enum Fate<'c> {
    /// The key stays as it is.
    Keep,
    /// Its hot item stays where it is, and was changed there: its row on flash is older.
    Alter,
    /// The key is removed.
    Remove,
    /// This item takes the key's place.
    Publish {
        /// The new item.
        draft: Draft<'c>,
        /// Its number in the sequence of mutations.
        sequence: u32,
        /// Bits of its mark beside those of a new item.
        mark_bits: u8,
    },
}

impl Cache {
    /// Finds the key's item in the hot zone, gone or not.
    // Always inlined, as `Session::look_up`, of which it is the main part.
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

    /// Prefetches the cache lines of the item that the hash most likely leads to: all of them if it
    /// is to be read, and otherwise those of its header and key.
    #[inline]
    pub(crate) fn prefetch_candidate(&self, guard: &Guard<'_>, hash: Hash, reads: bool) {
        if let Some(location) = self.index.candidate(guard, hash, is_hot) {
            if reads {
                self.hot.prefetch_whole(place_of(location));
            } else {
                self.hot.prefetch(place_of(location));
            }
        }
    }

    /// Returns the place on flash where the key's item may be.
    pub(crate) fn find_on_flash(&self, guard: &Guard<'_>, hash: Hash) -> Option<flash::Place> {
        self.index.find(guard, hash, self.companion(hash)?).map(flash_place)
    }

    /// Whether the index still leads to this place on flash.
    pub(crate) fn is_on_flash(&self, guard: &Guard<'_>, hash: Hash, place: flash::Place) -> bool {
        self.index.find(guard, hash, |found| is_at(found, place)).is_some()
    }

    /// Whether the index leads to a spare row on flash of the key's item, or of one that it cannot
    /// tell from it.
    pub(crate) fn has_spare(&self, guard: &Guard<'_>, hash: Hash) -> bool {
        let Some(may_be) = self.companion(hash) else { return false };
        let is_it = |location| is_spare(location) && may_be(location);
        self.index.find(guard, hash, is_it).is_some()
    }

    /// Whether the index leads to this place on flash, as a spare row.
    pub(crate) fn is_spare(&self, guard: &Guard<'_>, hash: Hash, place: flash::Place) -> bool {
        let is_it = |location| is_spare(location) && is_at(location, place);
        self.index.find(guard, hash, is_it).is_some()
    }

    /// Takes a spare row on flash out of the index, under the lock of its index table. Returns
    /// whether it did.
    pub(crate) fn remove_spare(&self, guard: &Guard<'_>, hash: Hash, place: flash::Place) -> bool {
        let is_it = |location| is_spare(location) && is_at(location, place);
        let remove = |found| (self.count_spare(Some(found), Change::Remove), ());
        self.index.update_present(guard, hash, is_it, remove).is_some()
    }

    /// Decides whether a place on flash is to become another one, or none, under the lock of its
    /// index table. `None` if the index does not lead there any more.
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
            let same_tier = |to: flash::Place| Change::Set(Location::new(found.tier(), to.0));
            let change = to.map_or(Change::Remove, same_tier);
            (self.count_spare(Some(found), change), result)
        })
    }

    /// Makes a spare row on flash the only copy of its item, if `agrees` says so under the lock of
    /// its index table. Returns whether it did.
    pub(crate) fn rest(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        agrees: impl FnOnce() -> bool,
    ) -> bool {
        let Some(may_be) = self.companion(hash) else { return false };
        let is_it = |location| is_spare(location) && may_be(location);
        let rested = self.index.update_present(guard, hash, is_it, |found| {
            let change = if agrees() { only_on_flash(found) } else { Change::Keep };
            (self.count_spare(Some(found), change), change != Change::Keep)
        });
        rested == Some(true)
    }

    /// Forgets a spare row on flash, if `agrees` says so under the lock of its index table.
    pub(crate) fn forget_spare(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        agrees: impl FnOnce() -> bool,
    ) {
        let Some(may_be) = self.companion(hash) else { return };
        let is_it = |location| is_spare(location) && may_be(location);
        self.index.update_present(guard, hash, is_it, |found| {
            if !agrees() {
                return (Change::Keep, ());
            }
            self.forget_on_flash(flash_place(found), hash);
            (self.count_spare(Some(found), Change::Remove), ())
        });
    }

    /// As [`Self::rest`] for an item that is to leave the hot zone, whose memory is handed back.
    pub(crate) fn exchange_for_spare(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        hot: Place,
        agrees: impl FnOnce(ItemRef<'_>) -> bool,
    ) -> bool {
        let exchanged = self.update_at(guard, hash, hot, |item, companion| {
            match companion.filter(|found| is_spare(*found)) {
                Some(found) if agrees(item) => (Change::Remove, only_on_flash(found)),
                _ => (Change::Keep, Change::Keep),
            }
        });
        if exchanged {
            self.retire_at_once(guard, location_of(hot));
        }
        exchanged
    }

    /// Takes the item of the hot zone at this place out of the index. If it has a spare row on
    /// flash, that leaves with it if the item is gone or has marks that the row has not, and
    /// otherwise becomes its only copy.
    pub(crate) fn unlink_at(&self, guard: &Guard<'_>, hash: Hash, hot: Place) -> Unlinked {
        let mut rests = false;
        let is_unlinked = self.update_at(guard, hash, hot, |item, companion| {
            let change = match companion.filter(|found| is_spare(*found)) {
                Some(_) if self.is_gone(item) || has_tokens(item) => Change::Remove,
                Some(found) => {
                    rests = true;
                    only_on_flash(found)
                }
                None => Change::Keep,
            };
            (Change::Remove, change)
        });
        if self.count_rested(rests) { Unlinked::Rests } else { is_unlinked.into() }
    }

    /// Decides about the item of the hot zone at this place, and about its row on flash, under the
    /// lock of its index table. Returns whether the index no longer leads there. No change is
    /// noted: while items of an earlier process are still being found, an item that is here was
    /// stored by this process, and noted then, or was promoted from the only row of its key.
    fn update_at(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        hot: Place,
        decide: impl FnOnce(ItemRef<'_>, Option<Location>) -> (Change, Change),
    ) -> bool {
        let is_it = |location| location == location_of(hot);
        let decide = |pair: Pair| {
            let Some(own) = pair.own else { return (Change::Keep, Change::Keep, false) };
            let (change, companion_change) = decide(self.item_at(guard, own), pair.companion);
            let companion_change = self.prepare_companion(hash, pair.companion, companion_change);
            (change, companion_change, change != Change::Keep)
        };
        let companion = self.companion(hash);
        let updated = self.index.update_pair(guard, hash, is_it, companion, Room::Never, decide);
        updated.expect("no room is asked for")
    }

    /// Publishes an item of the hot zone that is promoted, as [`Self::update`] does, but leaves it
    /// its row on flash, spare from now on: the one at `from`, or one that was spare before. Only
    /// where the index has no room for both words is the row forgotten, on the device as well: then
    /// the next process does not find the item.
    pub(crate) fn promote<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        from: Option<flash::Place>,
        decide: impl FnOnce(Present<'g>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        let is_its = |found: Location| is_spare(found) || from.is_some_and(|at| is_at(found, at));
        let mut decide = Some(decide);
        let mut promote = |room| {
            self.update_in(guard, hash, &is_key, room, |pair| {
                let decide = decide.take().expect("an update decides once");
                let (fate, result) = decide(self.present(guard, pair));
                let change = self.change(fate);
                let companion_change = match pair.companion {
                    _ if change == Change::Keep => Change::Keep,
                    Some(found) if room == Room::Beside && is_its(found) => spare(found),
                    _ => Change::Remove,
                };
                (change, companion_change, result)
            })
        };
        promote(Room::Beside).or_else(|_| promote(Room::Absent))
    }

    /// Leads a key to a place on flash, under the lock of its index table, if it has no item in the
    /// hot zone and `agrees` says so there. Returns whether it did; fails if the index has no room
    /// for another key.
    pub(crate) fn lead_to_flash<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        key: Option<&[u8]>,
        place: flash::Place,
        agrees: impl FnOnce(Option<flash::Place>) -> bool,
    ) -> Result<bool, Full> {
        let is_key = |item: ItemRef<'g>| key.is_none_or(|key| item.has_key(key));
        self.update_in(guard, hash, is_key, Room::Absent, |pair| {
            if pair.own.is_some() || !agrees(pair.companion.map(flash_place)) {
                return (Change::Keep, Change::Keep, false);
            }
            (Change::Set(flash_location(place)), Change::Remove, true)
        })
    }

    /// Leads to a place on flash where the index led to an item of the hot zone, and hands that
    /// one's memory back, if `agrees` says so of it under the lock of its index table. Returns
    /// whether it did.
    pub(crate) fn exchange_for_flash(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        hot: Place,
        place: flash::Place,
        agrees: impl FnOnce(ItemRef<'_>) -> bool,
    ) -> bool {
        let exchanged = self.update_at(guard, hash, hot, |item, _| {
            if agrees(item) {
                // Two rows that cannot be told apart may not both be on flash.
                (Change::Set(flash_location(place)), Change::Remove)
            } else {
                (Change::Keep, Change::Keep)
            }
        });
        if exchanged {
            self.retire_at_once(guard, location_of(hot));
        }
        exchanged
    }

    /// Removes the places on flash of which `is_gone` is true from one table of the index, the one
    /// that holds `hash`, and adds their number to `count`. Returns a hash that the next table
    /// holds; `None` behind the last.
    pub(crate) fn purge_flash(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        is_gone: impl Fn(flash::Place) -> bool,
        count: &mut u64,
    ) -> Option<Hash> {
        self.index.remove_where(guard, hash, |location| {
            let leaves = !is_hot(location) && is_gone(flash_place(location));
            if leaves {
                *count += 1;
                self.count_spare(Some(location), Change::Remove);
            }
            leaves
        })
    }

    /// Returns a test whether a location may be the key's on flash, as far as its word tells;
    /// `None` without a flash tier.
    #[inline]
    fn companion(&self, hash: Hash) -> Option<impl Fn(Location) -> bool> {
        let tier = self.flash.as_deref()?;
        Some(move |location| !is_hot(location) && tier.may_be(flash_place(location), hash))
    }

    #[inline]
    fn present<'g>(&self, guard: &'g Guard<'_>, pair: Pair) -> Present<'g> {
        let found = |location| Found { location, item: self.item_at(guard, location) };
        Present { hot: pair.own.map(found), flash: pair.companion.map(flash_place) }
    }

    /// Decides what becomes of a key, under the lock of its index table: `decide` sees the item for
    /// which `is_key` is true, gone or not. It runs once, or not at all if the index is full.
    #[inline]
    pub(crate) fn update<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        decide: impl FnOnce(Present<'g>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        if self.flash.is_none() {
            return self.update_alone(guard, hash, is_key, decide);
        }
        self.update_in(guard, hash, is_key, Room::Absent, |pair| {
            let (fate, result) = decide(self.present(guard, pair));
            let (change, companion_change) = self.changes(fate);
            if companion_change != Change::Keep {
                self.note_change(hash);
            }
            (change, companion_change, result)
        })
    }

    /// [`Self::update`] without a flash tier, where no key has more than one word.
    #[inline]
    fn update_alone<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        decide: impl FnOnce(Present<'g>) -> (Fate<'c>, R),
    ) -> Result<R, Full> {
        // Without a tier on flash every location is that of a hot item.
        let is_own = |location| is_key(self.item_at(guard, location));
        let (result, left) = self.index.update(guard, hash, is_own, |own| {
            let (fate, result) = decide(self.present(guard, Pair { own, companion: None }));
            let change = self.change(fate);
            (change, (result, own.filter(|_| change != Change::Keep)))
        })?;
        if let Some(location) = left {
            self.retire(guard, location);
        }
        Ok(result)
    }

    /// [`Self::update`] without making room: a key that has no item gets none.
    pub(crate) fn update_or_note<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        decide: impl FnOnce(Present<'g>) -> (Fate<'c>, R),
    ) -> R {
        let updated = self.update_in(guard, hash, is_key, Room::Never, |pair| {
            self.note_change(hash);
            let (fate, result) = decide(self.present(guard, pair));
            let (change, companion_change) = self.changes(fate);
            (change, companion_change, result)
        });
        updated.expect("no room is asked for")
    }

    /// Whether the hot zone has the key's item once the change of the key that is under way, if
    /// any, is done: asked under the lock of its index table.
    pub(crate) fn is_hot_decided<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
    ) -> bool {
        let decided = self.update_in(guard, hash, is_key, Room::Never, |pair| {
            let found = self.present(guard, pair).hot;
            let is_there = found.is_some_and(|found| !self.is_gone(found.item));
            (Change::Keep, Change::Keep, is_there)
        });
        decided.expect("no room is asked for")
    }

    /// [`Cache::update`] for one particular item. `None`, and nothing decided, if it is no longer
    /// in the index.
    pub(crate) fn update_found<'c, 'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        found: &Found<'g>,
        decide: impl FnOnce() -> (Fate<'c>, R),
    ) -> Option<R> {
        let mut result = None;
        let changed = self.update_at(guard, hash, found.place(), |_, _| {
            let (fate, decided) = decide();
            result = Some(decided);
            self.changes(fate)
        });
        if changed {
            self.retire(guard, found.location);
        }
        result
    }

    /// Publishes a draft in the place of one particular item, with the number and the bits of its
    /// mark that `decide` returns under the lock of its index table. Returns it with its new place,
    /// and its CAS unique. `None`, and nothing changed, if `decide` returns none or the item is no
    /// longer in the index.
    pub(crate) fn replace_found<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        found: &Found<'_>,
        draft: Draft<'_>,
        decide: impl FnOnce() -> Option<(u64, u8)>,
    ) -> Option<(Found<'g>, u64)> {
        // Taken only to be published: dropping it takes a class's lock, which comes before those of
        // the index.
        let mut pending = Some(draft);
        let mut replaced = None;
        let changed = self.update_at(guard, hash, found.place(), |_, _| {
            let Some((sequence, mark_bits)) = decide() else {
                return (Change::Keep, Change::Keep);
            };
            let draft = pending.take().expect("an update decides once");
            let cas = draft.item().custom_cas().unwrap_or(sequence);
            let changes =
                self.changes(Fate::Publish { draft, sequence: sequence as u32, mark_bits });
            if let Change::Set(location) = changes.0 {
                replaced = Some((location, cas));
            }
            changes
        });
        if changed {
            self.retire(guard, found.location);
        }
        let (location, cas) = replaced?;
        // The index was led there just now, under this guard.
        Some((Found { location, item: self.item_at(guard, location) }, cas))
    }

    /// Decides about both words of a key, under the lock of its index table. A row on flash is let
    /// go of under that lock; the memory of a hot item after the lock has opened.
    #[inline(never)]
    fn update_in<'g, R>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        is_key: impl Fn(ItemRef<'g>) -> bool,
        room: Room,
        decide: impl FnOnce(Pair) -> (Change, Change, R),
    ) -> Result<R, Full> {
        let is_own = |location| is_hot(location) && is_key(self.item_at(guard, location));
        let companion = self.companion(hash);
        let (result, own) =
            self.index.update_pair(guard, hash, is_own, companion, room, |pair| {
                let (change, companion_change, result) = decide(pair);
                let own = pair.own.filter(|_| change != Change::Keep);
                let companion_change =
                    self.prepare_companion(hash, pair.companion, companion_change);
                (change, companion_change, (result, own))
            })?;
        if let Some(location) = own {
            self.retire(guard, location);
        }
        Ok(result)
    }

    /// Removes an item from the index and hands its memory back, if the index leads to one at this
    /// place and `agrees` says so of it under the lock of its index table. Returns whether it did.
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
            self.retire_at_once(guard, location_of(place));
        }
        unlinked == Some(true)
    }

    /// Leads to a copy of an item, if the index still leads to the one at this place, and gives the
    /// copy what the item has by then, under the lock of its index table. Returns whether it did:
    /// then the old place is the caller's to retire. The key's content does not change.
    pub(crate) fn relocate(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        place: Place,
        copy: Draft<'_>,
    ) -> bool {
        let is_it = |location| location == location_of(place);
        // If it is not published, dropped after the lock has opened.
        let mut copy = Some(copy);
        let moved = self.index.update_present(guard, hash, is_it, |location| {
            let item = self.item_at(guard, location);
            let copy = copy.take().expect("an update decides once");
            (Change::Set(location_of(copy.publish_as(item, place))), ())
        });
        moved.is_some()
    }

    /// Notes a hit that was sampled.
    pub(crate) fn heat(&self, guard: &Guard<'_>, found: &Found<'_>) {
        // SAFETY: a `Found` is made only here, of what the index said under this guard.
        unsafe { self.hot.heat(guard, found.place()) };
    }

    /// Whether the item is still where it was found.
    pub(crate) fn is_still(&self, guard: &Guard<'_>, hash: Hash, place: Place) -> bool {
        self.index.contains_exact(guard, hash, location_of(place))
    }

    /// Finds an item at a place where the hot zone's walk has met one with this hash, if the index
    /// leads there. It is that item if the lock of its class is still held, and otherwise perhaps
    /// another with the same hash, as far as the index keeps that.
    pub(crate) fn find_at<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
        place: Place,
    ) -> Option<Found<'g>> {
        let location = location_of(place);
        let is_there = self.is_still(guard, hash, place);
        is_there.then(|| Found { location, item: self.item_at(guard, location) })
    }

    /// Does what has to precede a change of a key's word on flash, and returns the change: the row
    /// that the word leads to is dead on the device before the word goes. Under the lock of its
    /// index table, so that a client that is told that the key is gone is told what outlasts a
    /// kill.
    #[inline]
    fn prepare_companion(&self, hash: Hash, word: Option<Location>, change: Change) -> Change {
        if let Some(location) = word.filter(|_| change == Change::Remove) {
            self.forget_on_flash(flash_place(location), hash);
        }
        self.count_spare(word, change)
    }

    /// Counts spare rows for a change of a word on flash, and returns the change. Under the lock of
    /// its index table.
    #[inline]
    fn count_spare(&self, word: Option<Location>, change: Change) -> Change {
        if let (Some(word), Some(tier)) = (word, &self.flash) {
            let was_spare = is_spare(word);
            let is_spare = match change {
                Change::Keep => was_spare,
                Change::Remove => false,
                Change::Set(location) => is_spare(location),
            };
            tier.count_spare(was_spare, is_spare);
        }
        change
    }

    /// Notes a change of a key: rows of it that are found on flash later are older. Under the lock
    /// of its index table.
    #[inline]
    fn note_change(&self, hash: Hash) {
        if let Some(tier) = &self.flash {
            tier.flash.note_change(hash.0);
        }
    }

    /// Tells the flash tier that an item leaves the index. Under the lock of its index table.
    pub(crate) fn forget_on_flash(&self, place: flash::Place, hash: Hash) {
        if let Some(tier) = &self.flash {
            tier.forget(place, hash);
        }
    }

    /// Returns the changes of a key's word and of its companion.
    #[inline]
    fn changes(&self, fate: Fate<'_>) -> (Change, Change) {
        match fate {
            Fate::Keep => (Change::Keep, Change::Keep),
            fate => (self.change(fate), Change::Remove),
        }
    }

    /// Returns the change of a key's word, having published its draft, if it has one.
    #[inline]
    fn change(&self, fate: Fate<'_>) -> Change {
        match fate {
            Fate::Keep | Fate::Alter => Change::Keep,
            Fate::Remove => Change::Remove,
            Fate::Publish { draft, sequence, mark_bits } => {
                Change::Set(location_of(draft.publish(sequence, mark_bits, self.now())))
            }
        }
    }

    /// Removes an item that is gone if it is still where it was found.
    pub(crate) fn remove_found(&self, guard: &Guard<'_>, hash: Hash, found: &Found<'_>) {
        if self.unlink_at(guard, hash, found.place()) != Unlinked::Not {
            self.retire(guard, found.location);
        }
    }

    #[inline]
    fn item_at<'g>(&self, guard: &'g Guard<'_>, location: Location) -> ItemRef<'g> {
        // SAFETY: the location came from the index under this guard (private to this file, called
        // on nothing else), and the index holds only places of published items.
        unsafe { self.hot.item(guard, place_of(location)) }
    }

    /// Hands an unlinked item's memory back, for a request.
    fn retire(&self, guard: &Guard<'_>, location: Location) {
        // SAFETY: called once for each location, by the update or removal that took it out of the
        // index, under the guard under which that happened.
        unsafe { self.hot.retire(guard, place_of(location)) };
    }

    /// Hands an unlinked item's memory back, for a thread that makes room, which others wait for.
    fn retire_at_once(&self, guard: &Guard<'_>, location: Location) {
        // SAFETY: as above.
        unsafe { self.hot.retire_at_once(guard, place_of(location)) };
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

/// Whether a location is this place on flash, with whatever count of accesses.
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
fn is_spare(location: Location) -> bool {
    location.tier() == SPARE
}

/// Returns the change that says of a row on flash that its item is in memory as well.
fn spare(location: Location) -> Change {
    Change::Set(Location::new(SPARE, read_place(location).0))
}

/// Returns the change that says of a row on flash that its item is nowhere else.
fn only_on_flash(location: Location) -> Change {
    Change::Set(flash_location(read_place(location)))
}

/// Returns the place of an item that was read since it was stored, so that collection does not drop
/// it at once.
fn read_place(location: Location) -> flash::Place {
    let place = flash_place(location);
    place.with_accesses(place.accesses().max(1))
}

#[inline]
fn place_of(location: Location) -> Place {
    Place(location.place())
}
