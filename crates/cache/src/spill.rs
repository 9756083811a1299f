//! How items are demoted to flash, and the tier's upkeep: what the background does.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use ::flash::{CloseError, Empty, Place, Reached, Refused};
use hot::ItemRef;
use hot::mark::FETCHED;
use index::{Full, Hash};
use memory::Guard;
use stdx::sync::lock;

use crate::cache::Cache;
use crate::compressed_admission::Left;
use crate::flash_admission::Words;
use crate::flash_tier::{FlashIndexAccess, FlashTier};
use crate::snapshot::Snapshot;
use crate::time_slice::TimeSlice;

/// One part in this of the memory limit is what the index may take for items on flash.
pub(crate) const INDEX_SHARE: usize = 2;
/// One in this many of the words that the index may have for items on flash is kept free: small
/// items run out of words before they run out of flash, and items that come in must find some.
pub(crate) const WORDS_FREE_SHARE: usize = 32;

/// The longest value in pieces, in bytes, that is demoted for a store: the pieces, each of at most
/// a sixteenth of a slab, are put together for that, in memory of their own.
const PIECED_BYTES_MAX: usize = 256 << 10;

/// The share of the time for which scrubbing reads the device while few prefixes are flushed,
const SCRUB_SHARE: f64 = 0.125;
/// and the share when there is hardly room for another one.
const SCRUB_SHARE_MAX: f64 = 0.5;
/// The time for scrubbing that may be saved up, in microseconds: what an idle background has after
/// a pause.
const SCRUB_SAVED_US: f64 = 60_000.0;

/// Tables of the index that a purge goes through in one turn of the background: some tenths of a
/// millisecond.
const PURGE_TABLES: usize = 8;

/// How far a purge of the index has come.
#[derive(Debug)]
pub(crate) struct Purge {
    /// The count of the tier's flushes when it began: the purge is for these.
    flushed: u64,
    /// A hash that the next table holds.
    next: Hash,
}

/// How much time there is to stage an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Enough to compress well, unless the tier is [hurried](FlashTier::hurry).
    Usual,
    /// Little: stores have to demote as well.
    Behind,
    /// None: a client waits.
    Store,
}

/// The outcome of offering an item to the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spilled {
    /// It is on flash from now on.
    There,
    /// It has changed since it was offered, or has expired, or its prefix is being flushed.
    Gone,
    /// No item comes in until the index is purged of words that a flush has made void.
    Purging,
    /// The index has no room for another key, for this reason.
    IndexFull(Full),
    /// The index may lead to no more items on flash.
    ShareFull,
    /// The tier does not take it.
    Refused(Refused),
}

impl Cache {
    /// Offers an item that leaves the compressed zone to the tier. `is_alive` is asked under the
    /// key's lock, and whether its prefix is being flushed.
    pub(crate) fn spill(
        &self,
        guard: &Guard<'_>,
        record: &::flash::Record<'_>,
        hash: Hash,
        is_alive: impl Fn() -> bool,
    ) -> Spilled {
        let spilled = self.stage(Urgency::Usual, record, hash, |place| {
            self.lead_to_flash(guard, hash, Some(record.key), place, |_| {
                is_alive() && !self.is_compressed_flushed(record.key)
            })
        });
        if spilled == Spilled::Purging {
            self.count_purging();
        }
        spilled
    }

    /// Offers an item of the hot zone to the tier; `is_same` is asked of it under the key's lock.
    /// Unless it is for a store it may wait for the device, and stores wait for pinned threads
    /// then: the background is not pinned, but a thread that saves is. A store brings its guard:
    /// another pin, under the tier's lock, might wait for those of stores that wait for that lock.
    pub(crate) fn spill_hot(
        &self,
        guard: Option<&Guard<'_>>,
        record: &::flash::Record<'_>,
        (hash, hot): (Hash, memory::Place),
        urgency: Urgency,
        is_same: impl Fn(ItemRef<'_>) -> bool,
    ) -> Spilled {
        self.stage(urgency, record, hash, |place| {
            let pin;
            let guard = match guard {
                Some(guard) => guard,
                None => {
                    pin = self.epochs.pin();
                    &pin
                }
            };
            Ok(self.exchange_for_flash(guard, hash, hot, place, &is_same))
        })
    }

    /// Demotes an item of the hot zone to flash for a store that needs its memory: any while most
    /// of flash is free, and later those that are wanted. Returns whether it did.
    pub(crate) fn demote_for_store(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: memory::Place,
    ) -> bool {
        let Some(tier) = &self.flash else { return false };
        let (hash, snapshot) = (self.hash(item.key()), Snapshot::of(item));
        let is_same = |item: ItemRef<'_>| snapshot.is_same(self, item);
        if self.rest_hot(guard, (hash, place), is_same) {
            self.remember(hash, Left::Otherwise);
            return true;
        }
        let fields = snapshot.fields();
        let is_known = self.remembers(hash);
        let is_wanted = is_known || fields.mark & FETCHED != 0;
        if !is_wanted && !tier.entrance.takes_all() || !self.takes_on_flash(&fields, is_known) {
            return false;
        }
        let together;
        let value = match item.contiguous() {
            Some(value) => value,
            // Its pieces would be put together in vain.
            None if item.value_bytes() > PIECED_BYTES_MAX || !tier.takes_at_once() => return false,
            None => {
                together = self.value_of(item);
                &together
            }
        };
        let record = ::flash::Record { key: item.key(), value, fields };
        let spilled = self.spill_hot(Some(guard), &record, (hash, place), Urgency::Store, is_same);
        let is_there = spilled == Spilled::There;
        if is_there {
            self.remember(hash, Left::Otherwise);
            tier.counters.handed.fetch_add(1, Ordering::Relaxed);
        }
        is_there
    }

    /// Whether flash admits an item; `is_known` says that it is known to be wanted, otherwise only
    /// whether it was read counts.
    pub(crate) fn takes_on_flash(&self, fields: &::flash::Fields, is_known: bool) -> bool {
        let takes = |tier: &FlashTier| tier.entrance.takes(fields, is_known, self.now());
        self.flash.as_deref().is_some_and(takes)
    }

    /// Whether a segment has room for an item that the tier would admit; counts it if not. Asked
    /// before anything is copied for it: that can be as long as the item limit allows.
    pub(crate) fn fits_on_flash(&self, item: ItemRef<'_>) -> bool {
        self.flash.as_deref().is_some_and(|tier| {
            let fits = item.value_bytes() <= tier.flash.value_bytes_max();
            tier.counters.refused.fetch_add(u64::from(!fits), Ordering::Relaxed);
            fits
        })
    }

    /// Stages a record; `lead` leads the index to its place.
    fn stage(
        &self,
        urgency: Urgency,
        record: &::flash::Record<'_>,
        hash: Hash,
        lead: impl Fn(Place) -> Result<bool, Full>,
    ) -> Spilled {
        let Some(tier) = &self.flash else { return Spilled::Refused(Refused::Closed) };
        if record.fields.is_expired(self.now()) {
            return Spilled::Gone;
        }
        if !tier.is_purged() {
            return Spilled::Purging;
        }
        if self.flash_items() as usize >= self.flash_items_max() {
            tier.counters.refused.fetch_add(1, Ordering::Relaxed);
            return Spilled::ShareFull;
        }
        let (access, counters) = (FlashIndexAccess::new(self), &tier.counters);
        let full = Cell::new(None);
        let counted = |place| {
            // Before the word can leave again.
            counters.items.fetch_add(1, Ordering::Relaxed);
            // A flush since may be purged by now: an item that comes in then is never taken out.
            let led = if tier.is_purged() { lead(place) } else { Ok(false) };
            full.set(led.err());
            let led = led.unwrap_or(false);
            counters.items.fetch_sub(u64::from(!led), Ordering::Relaxed);
            led
        };
        let stage = || match urgency {
            Urgency::Usual if !tier.is_hurried() => {
                tier.flash.stage_with(hash.0, record, &access, counted)
            }
            Urgency::Usual | Urgency::Behind => {
                tier.flash.stage_hurried(hash.0, record, &access, counted)
            }
            Urgency::Store => tier.flash.stage_at_once(hash.0, record, &access, counted),
        };
        let mut staged = stage();
        if staged == Err(Refused::Busy) && urgency != Urgency::Store {
            // Full segments are written here, rather than items lost: a zone that shrinks lets go
            // of many at once.
            tier.flash.maintain(&access, self.now());
            staged = stage();
        }
        let (spilled, counter) = match staged {
            Ok(Some(_)) => (Spilled::There, &counters.spilled),
            Ok(None) => match full.get() {
                Some(full) => (Spilled::IndexFull(full), &counters.refused),
                None => return Spilled::Gone,
            },
            Err(refused) => (Spilled::Refused(refused), &counters.refused),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        spilled
    }

    /// Counts an item that leaves memory, if flash takes nothing until the index is purged. For
    /// stores, only items that are then evicted count: most are not offered.
    pub(crate) fn count_purging(&self) {
        if let Some(tier) = self.flash.as_deref().filter(|tier| !tier.is_purged()) {
            tier.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many items on flash the index may lead to.
    pub(crate) fn flash_items_max(&self) -> usize {
        self.limit_bytes() / INDEX_SHARE / self.index.kind().item_bytes()
    }

    /// Whether fewer words are free than are kept for items that come in.
    pub(crate) fn is_short_of_words(&self) -> bool {
        let Words { used, max } = self.words();
        used > max - max / WORDS_FREE_SHARE
    }

    fn words(&self) -> Words {
        Words { used: self.flash_items() as usize, max: self.flash_items_max() }
    }

    /// Whether an item that leaves the hot zone, and does not deserve the compressed one, may move
    /// to flash.
    pub(crate) fn flash_takes(&self, is_wanted: bool) -> bool {
        self.flash.as_ref().is_some_and(|tier| tier.entrance.takes_past_the_zone(is_wanted))
    }

    /// Returns the number of items on flash.
    pub(crate) fn flash_items(&self) -> u64 {
        self.flash.as_ref().map_or(0, |tier| tier.counters.items.load(Ordering::Relaxed))
    }

    /// Does the tier's own work. Returns whether there is more to do at once.
    pub(crate) fn maintain_flash(&self, purging: &mut Option<Purge>, turn: &mut TimeSlice) -> bool {
        let Some(tier) = &self.flash else { return false };
        if !tier.is_purged() {
            return self.purge(tier, purging, turn);
        }
        self.keep_reached(false);
        let access = FlashIndexAccess::with_turn(self, turn);
        let costs = self.measure.as_ref().map(|measure| measure.stats());
        let miss_us = costs.and_then(|costs| costs.mean_miss_us());
        tier.flash.set_costs(tier.read_costs.costs(miss_us.map(|us| us * 1000)));
        let mut more = tier.flash.maintain(&access, self.now());
        tier.tell_of_room();
        more |= self.scrub_flash(tier, &access);
        let stats = tier.flash.stats();
        tier.entrance.look(self.clock.monotonic_us(), &stats, self.words());
        if self.is_short_of_words() {
            more |= tier.flash.thin_out(&access, self.now());
        }
        if tier.flash.is_recovering() {
            more |= tier.flash.recover(&access, self.now());
        }
        more
    }

    /// Goes on scrubbing what flushes of prefixes have left, while its share of the time lasts.
    /// Returns whether it does, and there is more. A flush is refused where the tier has no room
    /// for its prefix, so the share is the larger, the less room there is.
    fn scrub_flash(&self, tier: &FlashTier, access: &FlashIndexAccess<'_>) -> bool {
        let Some(used) = tier.flash.prefixes_share() else { return false };
        let share = SCRUB_SHARE + (SCRUB_SHARE_MAX - SCRUB_SHARE) * used;
        let mut allowance = lock(&tier.scrubbing);
        let began_us = self.clock.monotonic_us();
        allowance.refill_to(began_us, share, SCRUB_SAVED_US);
        if !allowance.has_any() {
            return false;
        }
        let more = tier.flash.scrub_on(access, self.now());
        allowance.spend(self.clock.monotonic_us().saturating_sub(began_us));
        more && allowance.has_any()
    }

    /// Whether items that leave the hot zone move straight to flash, past the compressed zone: the
    /// background is behind, and there is room.
    pub(crate) fn is_straight_to_flash(&self) -> bool {
        self.hot.is_behind() && self.flash_takes_all()
    }

    /// Whether flash has room for all items that leave the hot zone.
    pub(crate) fn flash_takes_all(&self) -> bool {
        self.flash.as_deref().is_some_and(|tier| tier.entrance.takes_all())
    }

    /// Writes the segments that are full, and collects one if there is none to open, so that the
    /// item staged next need not wait for the device: it may have to do so while pinned. The caller
    /// is not.
    pub(crate) fn make_ready_to_stage(&self) {
        if let Some(tier) = &self.flash {
            tier.make_ready(&FlashIndexAccess::new(self), self.now());
        }
    }

    /// Writes the segments that are full, if there are any.
    pub(crate) fn write_full(&self) {
        if let Some(tier) = &self.flash {
            tier.write_full(&FlashIndexAccess::new(self));
        }
    }

    /// Whether items that the index leads to on flash may be there. Between a flush and its purge
    /// none is, since none comes in.
    pub(crate) fn is_flash_purged(&self) -> bool {
        self.flash.as_deref().is_none_or(FlashTier::is_purged)
    }

    /// Takes the words that a flush has made void out of the next tables of the index: all that
    /// lead to flash, since nothing comes in from the flush on until it is purged. However tables
    /// change meanwhile, a word stays on its side of the hash that comes next. Another flush that
    /// comes before the end has a purge of its own after this one: otherwise none would ever end
    /// where they come all the time. Returns whether there may be more to do.
    fn purge(&self, tier: &FlashTier, purging: &mut Option<Purge>, turn: &mut TimeSlice) -> bool {
        let Some(Purge { flushed, next }) = purging.take().or_else(|| self.begin_purge(tier))
        else {
            return false;
        };
        let (mut at, mut count) = (Some(next), 0);
        for _ in 0..PURGE_TABLES {
            let Some(hash) = at else { break };
            at = self.purge_flash(&self.epochs.pin(), hash, |_| true, &mut count);
            turn.end_if_long(&*self.clock);
        }
        tier.counters.items.fetch_sub(count, Ordering::Relaxed);
        if let Some(next) = at {
            *purging = Some(Purge { flushed, next });
            return true;
        }
        tier.flash.note_emptied();
        // Release: partner is the acquire in `FlashTier::is_purged`.
        tier.purged.store(flushed, Ordering::Release);
        true
    }

    /// Begins a purge for the flushes so far, if the tier is void by now.
    fn begin_purge(&self, tier: &FlashTier) -> Option<Purge> {
        let flushed = tier.flushed.load(Ordering::Relaxed);
        // A thread that finds nothing of a key writes no note: all has to be void on the device
        // before. Acquire: partner is the release in `FlashTier::end_flush`.
        if tier.voided.load(Ordering::Acquire) < flushed {
            return None;
        }
        // A thread that stages looks whether a purge is done, and a store may have looked before.
        tier.flash.wait_for_stagers();
        Some(Purge { flushed, next: Hash(0) })
    }

    /// Writes all that is staged, and closes the tier cleanly: the next process finds everything.
    /// Nothing moves to flash after it.
    ///
    /// # Errors
    ///
    /// The tier could not be written or closed.
    pub fn close_flash(&self) -> Result<(), CloseError> {
        self.tick();
        self.keep_reached(true);
        self.flash.as_ref().map_or(Ok(()), |tier| tier.flash.close(&FlashIndexAccess::new(self)))
    }

    /// Keeps the time and the last sequence number on flash, if that `is_needed` now or was not
    /// done for a minute.
    pub(crate) fn keep_reached(&self, is_needed: bool) {
        if let Some(tier) = &self.flash {
            let number = self.sequence.load(Ordering::Relaxed);
            tier.flash.keep_reached(Reached { now: self.now(), number }, is_needed);
        }
    }

    /// Whether the device of the flash tier does not know of all that was deleted or replaced,
    /// because it takes no notes. It is told again and again; if the process ends before, the next
    /// one may find such items in the same boot.
    pub fn is_flash_unsound(&self) -> bool {
        self.flash.as_ref().is_some_and(|tier| tier.flash.is_unsound())
    }

    /// Returns the seconds since the earliest operation began that the device of the flash tier has
    /// not answered; 0 if it has answered all, or there is no tier. It neither asks the device nor
    /// takes a lock, so that a device that is frozen does not hold up the caller.
    pub fn flash_unanswered_s(&self) -> u32 {
        self.flash.as_ref().map_or(0, |tier| tier.fetches.unanswered_s())
    }

    /// Whether items that an earlier process left on flash are still being found.
    pub fn is_flash_recovering(&self) -> bool {
        self.flash.as_ref().is_some_and(|tier| tier.flash.is_recovering())
    }

    /// Returns how many seconds ago the items found on flash at the start were last in use, as far
    /// as the clock is to be believed: negative if it has been put back. `None` if there were none.
    pub fn flash_age_s(&self) -> Option<i64> {
        let last_used = self.flash.as_ref().and_then(|tier| tier.flash.last_used())?;
        Some(i64::from(self.now()) - i64::from(last_used))
    }

    /// Returns why the flash tier began empty; `None` if it did not, or there is none.
    pub fn flash_empty(&self) -> Option<Empty> {
        self.flash.as_ref().and_then(|tier| tier.flash.empty())
    }

    /// Returns how many segments of the flash tier begin empty because the device could not read
    /// what was noted of them.
    pub fn flash_segments_lost(&self) -> u64 {
        self.flash.as_ref().map_or(0, |tier| tier.flash.segments_lost())
    }
}

#[cfg(test)]
mod tests;
