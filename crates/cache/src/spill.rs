//! How items move down to flash, and the tier's upkeep: what the background does.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use ::flash::{CloseError, Doubt, Place, Reached, Refused};
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

/// Of the memory limit, the index may take one part in so many for items on flash.
pub(crate) const INDEX_SHARE: usize = 2;
/// Of the words that the index may have for items on flash, one in so many is kept free: small
/// items run out of words before they run out of flash, and what comes must find some.
pub(crate) const WORDS_FREE_SHARE: usize = 32;

/// A longer value that lies in pieces, each of at most a sixteenth of a slab, does not move for a
/// store: they are put together for that, in memory of their own.
const PIECED_BYTES_MAX: usize = 256 << 10;

/// The share of the time for which scrubbing reads the device while few prefixes are flushed,
const SCRUB_SHARE: f64 = 0.125;
/// and when there is hardly room for another one.
const SCRUB_SHARE_MAX: f64 = 0.5;
/// Of that so much may be saved up, in microseconds: what an idle background has after a pause.
const SCRUB_SAVED_US: f64 = 60_000.0;

/// Tables of the index that a purge goes through in one turn of the background: some tenths of a
/// millisecond.
const PURGE_TABLES: usize = 8;

/// How far a purge of the index has come.
#[derive(Debug)]
pub(crate) struct Purge {
    /// How often the tier was to be flushed when it began: what it is for.
    flushed: u64,
    /// The table that comes next holds this.
    next: Hash,
}

/// How much time whoever stages an item has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Enough to compress well, unless the tier is [hurried](FlashTier::hurry).
    Usual,
    /// Little: stores have to help.
    Behind,
    /// None: a client waits.
    Store,
}

/// What became of an item that was offered to the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spilled {
    /// It is on flash from now on.
    There,
    /// It is no longer what was offered, or its time is over, or what has its prefix is being
    /// flushed.
    Gone,
    /// Nothing comes in until what a flush has made void is out of the index.
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

    /// The same for an item of the hot zone; `is_same` is asked of it under the key's lock. Unless
    /// it is for a store it may wait for the device, and stores wait for who is pinned then: the
    /// background is not, but who saves is. For a store it brings its guard: another pin, under the
    /// tier's lock, might wait for those of stores that wait for that lock.
    pub(crate) fn spill_hot(
        &self,
        guard: Option<&Guard<'_>>,
        record: &::flash::Record<'_>,
        (hash, hot): (Hash, memory::Place),
        haste: Urgency,
        is_same: impl Fn(ItemRef<'_>) -> bool,
    ) -> Spilled {
        self.stage(haste, record, hash, |place| {
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

    /// Moves an item of the hot zone to flash for a store that needs its memory: any while most of
    /// flash is free, and later those that are wanted. Returns whether it did.
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
            // In vain it would be put together for each of them.
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

    /// Whether an item is let in; it is known to be wanted, or whether it was read is all there is.
    pub(crate) fn takes_on_flash(&self, fields: &::flash::Fields, is_known: bool) -> bool {
        let takes = |tier: &FlashTier| tier.entrance.takes(fields, is_known, self.now());
        self.flash.as_deref().is_some_and(takes)
    }

    /// Whether a segment has room for an item that the tier would let in; counts it if not. Asked
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
        haste: Urgency,
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
            // A flush since may be purged by now: what comes in then is never taken out.
            let led = if tier.is_purged() { lead(place) } else { Ok(false) };
            full.set(led.err());
            let led = led.unwrap_or(false);
            counters.items.fetch_sub(u64::from(!led), Ordering::Relaxed);
            led
        };
        let stage = || match haste {
            Urgency::Usual if !tier.is_hurried() => {
                tier.flash.stage_with(hash.0, record, &access, counted)
            }
            Urgency::Usual | Urgency::Behind => {
                tier.flash.stage_hurried(hash.0, record, &access, counted)
            }
            Urgency::Store => tier.flash.stage_at_once(hash.0, record, &access, counted),
        };
        let mut staged = stage();
        if staged == Err(Refused::Busy) && haste != Urgency::Store {
            // What is full is written here, rather than lost: a zone that shrinks lets go of much
            // at once.
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

    /// Counts an item that leaves memory, if flash takes nothing until the index is purged. Of what
    /// stores need memory for these are those that are evicted: most is not offered then.
    pub(crate) fn count_purging(&self) {
        if let Some(tier) = self.flash.as_deref().filter(|tier| !tier.is_purged()) {
            tier.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Items on flash to which the index may lead.
    pub(crate) fn flash_items_max(&self) -> usize {
        self.limit_bytes() / INDEX_SHARE / self.index.kind().item_bytes()
    }

    /// Whether fewer words are free than what comes shall find.
    pub(crate) fn is_short_of_words(&self) -> bool {
        let Words { used, max } = self.words();
        used > max - max / WORDS_FREE_SHARE
    }

    fn words(&self) -> Words {
        Words { used: self.flash_items() as usize, max: self.flash_items_max() }
    }

    /// Whether what leaves the hot zone, and does not deserve the compressed one, may move to
    /// flash.
    pub(crate) fn flash_takes(&self, is_wanted: bool) -> bool {
        self.flash.as_ref().is_some_and(|tier| tier.entrance.takes_past_the_zone(is_wanted))
    }

    /// Items on flash.
    pub(crate) fn flash_items(&self) -> u64 {
        self.flash.as_ref().map_or(0, |tier| tier.counters.items.load(Ordering::Relaxed))
    }

    /// The tier's own work. Returns whether there is more to do at once.
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

    /// Goes on with what flushes of prefixes have left to be scrubbed, while its share of the time
    /// lasts. Returns whether it does, and there is more. A flush is refused where the tier has no
    /// room for its prefix, so that the share is the larger, the less room there is.
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

    /// Whether what leaves the hot zone moves to flash as it is, past the compressed zone: the
    /// background is behind, and there is room.
    pub(crate) fn is_straight_to_flash(&self) -> bool {
        self.hot.is_behind() && self.flash_takes_all()
    }

    /// Whether flash has room for all that leaves the hot zone.
    pub(crate) fn flash_takes_all(&self) -> bool {
        self.flash.as_deref().is_some_and(|tier| tier.entrance.takes_all())
    }

    /// Writes the segments that are full, and collects one if there is none to open, so that what
    /// is staged next need not wait for the device: it may have to do so while it is pinned. The
    /// caller is not.
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

    /// Whether what the index leads to on flash may be there. Between a flush and its purge nothing
    /// is, for nothing comes in.
    pub(crate) fn is_flash_purged(&self) -> bool {
        self.flash.as_deref().is_none_or(FlashTier::is_purged)
    }

    /// Takes what a flush has made void out of the next tables of the index: all that leads to
    /// flash, for nothing comes in from the flush on until it is purged. Whatever becomes of tables
    /// meanwhile, a word stays on its side of the hash that comes next. Another flush that comes
    /// before the end has a purge of its own behind this one, or none would ever be over where they
    /// come all the time. Returns whether there may be more to do.
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

    /// A purge for the flushes so far, if all that was to be is void by now.
    fn begin_purge(&self, tier: &FlashTier) -> Option<Purge> {
        let flushed = tier.flushed.load(Ordering::Relaxed);
        // Who finds nothing of a key writes no note: all has to be void on the device before.
        // Acquire: partner is the release in `FlashTier::end_flush`.
        if tier.voided.load(Ordering::Acquire) < flushed {
            return None;
        }
        // Whoever stages something looks whether this is over, and a store may have looked before.
        tier.flash.wait_for_stagers();
        Some(Purge { flushed, next: Hash(0) })
    }

    /// Writes all that is staged, and closes the tier cleanly: the next process finds everything.
    /// Nothing moves to flash after it.
    pub fn close_flash(&self) -> Result<(), CloseError> {
        self.tick();
        self.keep_reached(true);
        self.flash.as_ref().map_or(Ok(()), |tier| tier.flash.close(&FlashIndexAccess::new(self)))
    }

    /// Keeps on flash what time it is, and what numbers were given, if that `is_needed` now or was
    /// not done for a minute.
    pub(crate) fn keep_reached(&self, is_needed: bool) {
        if let Some(tier) = &self.flash {
            let number = self.sequence.load(Ordering::Relaxed);
            tier.flash.keep_reached(Reached { now: self.now(), number }, is_needed);
        }
    }

    /// Whether the device of the flash tier does not know of all that was deleted or replaced,
    /// because it takes no notes. It is told again and again; if the process ends before, the next
    /// one may find that in the same boot.
    pub fn is_flash_unsound(&self) -> bool {
        self.flash.as_ref().is_some_and(|tier| tier.flash.is_unsound())
    }

    /// Whether items are still being found that an earlier process left on flash.
    pub fn is_flash_recovering(&self) -> bool {
        self.flash.as_ref().is_some_and(|tier| tier.flash.is_recovering())
    }

    /// What was found on flash at the start was last in use so many seconds ago, as far as the
    /// clock is to be believed: less than none if it has been put back. Nothing if nothing was.
    pub fn flash_age_s(&self) -> Option<i64> {
        let last_used = self.flash.as_ref().and_then(|tier| tier.flash.last_used())?;
        Some(i64::from(self.now()) - i64::from(last_used))
    }

    /// Why the flash tier began empty although there was one; nothing otherwise.
    pub fn flash_doubt(&self) -> Option<Doubt> {
        self.flash.as_ref().and_then(|tier| tier.flash.doubt())
    }
}

#[cfg(test)]
mod tests;
