//! How the background demotes items: an item that the hand lets go is copied, packed into the
//! compressed zone, and taken out of the index in one step if it is still the one that was copied.
//! `compressed_tier` has the protocol. Without a compressed zone it moves to flash, as in
//! SlimCache.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use compressed::{Leaving, Record, Refused, Writer};
use hot::mark::{FETCHED, TOKENS};
use hot::{CacheHooks, Draft, ItemRef, Unlinked};
use index::Hash;
use memory::{ClassId, Guard, Place};
use policy::cost::Cost;

use crate::adapt::{Adaptation, BUDGET_SLABS_MIN};
use crate::cache::Cache;
use crate::compressed_admission::{AdmissionSampler, Left};
use crate::compressed_tier::CompressedTier;
use crate::cpu_budget::{Allowance, Contention, TIMED_SHARE, Timing};
use crate::expire::Part;
use crate::snapshot::Snapshot;
use crate::spill::{Spilled, Urgency};
use crate::time_slice::TimeSlice;
use crate::types::{Evicted, row_expiry};

/// Microseconds for each byte of the memory that demotion may take in the beginning beyond its
/// share, so that the compressed zone is soon filled.
const FILLING_US_PER_BYTE: f64 = 0.1;
/// Accesses with which an item that is known to be wanted enters the compressed zone.
const KNOWN_ACCESSES: u8 = 2;

/// The state of the background's demotion.
#[derive(Default)]
pub(crate) struct Mover {
    /// Made when it is first needed.
    writer: Option<Writer<'static>>,
    /// The item that was copied last.
    copied: Copied,
    key: Vec<u8>,
    value: Vec<u8>,
    allowance: Allowance,
    /// The budget for items that move past the compressed zone: there a move costs a third, and an
    /// item without time even for that is lost.
    spill_allowance: Allowance,
    timing: Timing,
    contention: Contention,
    pub(crate) adaptation: Adaptation,
    expiry: Part,
    sampler: AdmissionSampler,
    /// Items are being restored: those that leave the hot zone are demoted however long it takes.
    pub(crate) is_hurried: bool,
    pub(crate) turn: TimeSlice,
}

impl Mover {
    /// Returns a mover for a compressed zone that has this share of the memory.
    pub(crate) fn with_share(share: f64) -> Self {
        Self { adaptation: Adaptation::with_share(share), ..Self::default() }
    }

    /// Returns a mover for an empty compressed zone, in a memory of `memory_bytes`.
    pub(crate) fn filling(memory_bytes: usize) -> Self {
        let filling_us = memory_bytes as f64 * FILLING_US_PER_BYTE;
        Self { allowance: Allowance::of(filling_us), ..Self::default() }
    }
}

/// An item that was copied to be moved: its place, and its state there.
#[derive(Debug, Clone, Copy)]
struct Copied {
    hash: Hash,
    /// It was wanted before it came to the hot zone.
    is_known: bool,
    /// Accesses with which it enters the compressed zone.
    accesses: u8,
    to: Destination,
    place: Place,
    snapshot: Snapshot,
}

/// The tier that an item moves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// The compressed zone, or flash if that does not take it.
    Compressed,
    Flash,
}

impl Default for Copied {
    fn default() -> Self {
        let (hash, place, snapshot) = (Hash(0), Place(0), Snapshot::default());
        let to = Destination::Compressed;
        Self { hash, is_known: false, accesses: 0, to, place, snapshot }
    }
}

impl std::fmt::Debug for Mover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mover").field("adaptation", &self.adaptation).finish_non_exhaustive()
    }
}

/// The cache as the hot zone sees it in the background, where items that leave are demoted.
pub(crate) struct Downward<'c> {
    cache: &'c Cache,
    compressed: Option<&'c CompressedTier>,
    mover: RefCell<&'c mut Mover>,
}

impl<'c> Downward<'c> {
    pub(crate) fn new(cache: &'c Cache, mover: &'c mut Mover) -> Self {
        Self { cache, compressed: cache.compressed.as_deref(), mover: RefCell::new(mover) }
    }
}

impl CacheHooks for Downward<'_> {
    fn now(&self) -> u32 {
        CacheHooks::now(self.cache)
    }

    fn may_evict(&self) -> bool {
        self.cache.may_evict()
    }

    fn mutations(&self) -> u64 {
        self.cache.mutations()
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        CacheHooks::age(self.cache, item)
    }

    fn prefetch(&self, guard: &Guard<'_>, item: ItemRef<'_>) {
        let hash = self.cache.hash(item.key());
        self.cache.index.prefetch(guard, hash);
        if let Some(compressed) = self.compressed {
            compressed.zone.prefetch(hash.0);
        }
    }

    fn is_gone(&self, item: ItemRef<'_>) -> bool {
        CacheHooks::is_gone(self.cache, item)
    }

    fn evicted(&self, item: ItemRef<'_>, class: ClassId) {
        self.cache.tell_evicted(item, class);
    }

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> Unlinked {
        self.cache.unlink(guard, item, place)
    }

    fn demotes(&self) -> bool {
        true
    }

    fn is_linked(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        self.cache.is_still(guard, self.cache.hash(item.key()), place)
    }

    fn may_move(&self) -> bool {
        CacheHooks::may_move(self.cache)
    }

    fn relocate(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: Place,
        copy: Draft<'_>,
    ) -> bool {
        CacheHooks::relocate(self.cache, guard, item, place, copy)
    }

    fn copy(&self, item: ItemRef<'_>, place: Place) -> bool {
        let mut mover = self.mover.borrow_mut();
        let mover = &mut **mover;
        let now_us = self.cache.clock.monotonic_us();
        let share = mover.contention.share();
        mover.allowance.refill(now_us, share);
        mover.spill_allowance.refill(now_us, share);
        if let Some(tier) = &self.cache.flash {
            // Items that move on from the compressed zone take of the first.
            let is_low = mover.allowance.is_low() || mover.spill_allowance.is_low();
            tier.hurry(is_low && !mover.is_hurried);
        }
        let hash = self.cache.hash(item.key());
        let was_read = item.mark().load(Ordering::Relaxed) & FETCHED != 0;
        // An item restored to the hot zone is worth more than those in lower tiers already.
        let is_known = self.cache.remembers(hash) || (mover.is_hurried && was_read);
        let is_wanted = is_known || was_read;
        let Some(to) = self.destination(mover, item, hash, is_wanted) else {
            return false;
        };
        let accesses = if is_known { KNOWN_ACCESSES } else { mover.sampler.spares().into() };
        let snapshot = Snapshot::of(item);
        mover.copied = Copied { hash, is_known, accesses, to, place, snapshot };
        self.cache.copy_bytes(item, &mut mover.key, &mut mover.value);
        true
    }

    fn demote(&self) -> bool {
        let cache = self.cache;
        let mut mover = self.mover.borrow_mut();
        let Mover {
            writer,
            key,
            value,
            copied,
            allowance,
            spill_allowance,
            timing,
            contention,
            is_hurried,
            turn,
            ..
        } = &mut **mover;
        turn.end_if_long(&*cache.clock);
        let times = || (cache.clock.thread_cpu_us(), cache.clock.monotonic_us());
        let began = timing.is_due().then(times);
        let record = Record { key, value, fields: copied.snapshot.fields() };
        let to_flash = || cache.demote_to_flash(&record, copied);
        let waited_before_us = turn.waited_us();
        let (moved, spent_us, allowance) = match (self.compressed, copied.to) {
            (Some(compressed), Destination::Compressed) => {
                let mut pause = || cache.yield_background(turn);
                let moved =
                    self.demote_to_compressed(compressed, writer, &record, copied, &mut pause);
                // An item that the zone has no room for may find it on flash.
                (
                    moved.unwrap_or_else(|_| to_flash()),
                    Some(&compressed.counters.demote_us),
                    allowance,
                )
            }
            _ => {
                let spill_us = cache.flash.as_ref().map(|tier| &tier.counters.spill_us);
                (to_flash(), spill_us, spill_allowance)
            }
        };
        if let Some((began_us, began_at_us)) = began {
            let elapsed_us = cache.clock.monotonic_us().saturating_sub(began_at_us);
            let us = cache.clock.thread_cpu_us().saturating_sub(began_us);
            // The time waited at the ends of turns is shared among all pieces.
            let elapsed_us = elapsed_us.saturating_sub(turn.waited_us() - waited_before_us);
            contention.note(us, elapsed_us + turn.take_waited_us() / TIMED_SHARE);
            if let Some(spent_us) = spent_us {
                spent_us.fetch_add(us * TIMED_SHARE, Ordering::Relaxed);
            }
            // Time that was not there is not owed.
            if !*is_hurried && allowance.has_any() {
                allowance.spend(us * TIMED_SHARE);
            }
        }
        // Stores may wait for it.
        cache.write_full();
        moved
    }
}

impl Cache {
    /// Moves the copied item to flash, or leaves it to its spare row there. Returns whether it has
    /// left the hot zone.
    fn demote_to_flash(&self, record: &Record<'_>, copied: &Copied) -> bool {
        let is_same = |item: ItemRef<'_>| copied.snapshot.is_same(self, item);
        if self.rest_hot(&self.epochs.pin(), (copied.hash, copied.place), is_same) {
            return true;
        }
        if !self.takes_on_flash(&record.fields, copied.is_known) {
            return false;
        }
        let is_straight = self.is_straight_to_flash();
        let urgency = if is_straight { Urgency::Behind } else { Urgency::Usual };
        let from = (copied.hash, copied.place);
        let spilled = self.spill_hot(None, record, from, urgency, is_same);
        if spilled == Spilled::Purging {
            self.count_purging();
        }
        spilled == Spilled::There
    }
}

impl Downward<'_> {
    /// Returns where an item that leaves the hot zone moves; `None` if it leaves the cache, and is
    /// then remembered.
    fn destination(
        &self,
        mover: &mut Mover,
        item: ItemRef<'_>,
        hash: Hash,
        is_wanted: bool,
    ) -> Option<Destination> {
        let (mut left, mut counter) = (Left::Otherwise, None);
        // While stores demote as well, compressing would cost more items than it makes room for.
        let is_straight = self.cache.is_straight_to_flash();
        if let Some(compressed) = self.compressed.filter(|_| !is_straight) {
            let bar = self.bars(compressed, mover, is_wanted, item.cost());
            let is_refused = item.value_bytes() > compressed.zone.value_bytes_max()
                || self.cache.is_compressed_flushed(item.key())
                || self.cache.hot.has_quota(item.key());
            if bar.is_none() && !is_refused {
                return Some(Destination::Compressed);
            }
            match bar {
                Some((barred, why)) => (counter, left) = (Some(barred), why),
                None => _ = compressed.counters.refused.fetch_add(1, Ordering::Relaxed),
            }
        }
        // Items that the background had no time for, stores would have to move. The last of its
        // time is for items that were read: the others may never be asked for. While most of flash
        // is free, no item has to leave for want of time.
        let time = &mover.spill_allowance;
        let has_time = self.cache.flash_takes_all()
            || (time.has_any() && (is_wanted || !time.is_nearly_spent()));
        let is_let_in = (has_time && self.cache.flash_takes(is_wanted))
            || self.cache.has_spare(&self.cache.epochs.pin(), hash);
        // An item too long for flash has no spare row either, and is counted there.
        let goes = is_let_in && self.cache.fits_on_flash(item);
        self.cache.remember(hash, if goes { Left::Otherwise } else { left });
        if let Some(counter) = counter.filter(|_| !is_let_in) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        goes.then_some(Destination::Flash)
    }

    /// Moves the copied item to the compressed zone. Returns whether it is there; `false` if it has
    /// changed.
    fn demote_to_compressed(
        &self,
        compressed: &CompressedTier,
        writer: &mut Option<Writer<'static>>,
        record: &Record<'_>,
        copied: &Copied,
        pause: compressed::Yield<'_>,
    ) -> Result<bool, Refused> {
        let cache = self.cache;
        let idle = writer.take().unwrap_or_else(|| Writer::new(&compressed.zone));
        let mut leave = cache.leave(compressed);
        let mut active = idle.with_sink(&mut leave).with_yield(pause);
        let Copied { hash, accesses, place, .. } = *copied;
        let mut moved = false;
        let mut insert = || {
            compressed.zone.insert(hash.0, record, cache.now(), &mut active, |guard, newcomer| {
                moved = cache.retire_if(guard, hash, place, |item| {
                    // An item demoted while its prefix is flushed would be taken with the others.
                    let is_same = copied.snapshot.is_same(cache, item)
                        && !cache.is_compressed_flushed(item.key());
                    if is_same {
                        newcomer.was_accessed(accesses);
                        newcomer.reveal();
                    }
                    is_same
                });
            })
        };
        let outcome = match insert() {
            Err(Refused::Pinned) => {
                cache.wait_for_memory();
                insert()
            }
            outcome => outcome,
        };
        *writer = Some(active.without_sink());
        let counters = &compressed.counters;
        let counter = match outcome {
            Ok(()) if moved => &counters.demoted,
            Ok(()) => &counters.changed,
            Err(_) => &counters.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        outcome.map(|()| moved)
    }

    /// Returns what keeps an item from being demoted, as the counter for it and what it is
    /// remembered as: there is no time; or it was never read, costs nothing special, and the zone
    /// is full; or the zone has been given up, since it holds no more than the hot zone would. A
    /// few are demoted all the same, so that it is seen when that changes.
    fn bars<'b>(
        &self,
        compressed: &'b CompressedTier,
        mover: &mut Mover,
        is_wanted: bool,
        cost: Cost,
    ) -> Option<(&'b AtomicU64, Left)> {
        let counters = &compressed.counters;
        if mover.is_hurried {
            return None;
        }
        if !mover.allowance.has_any() || (mover.allowance.is_low() && !is_wanted) {
            return Some((&counters.throttled, Left::Otherwise));
        }
        let zone = &compressed.zone;
        let (stays, left) = if zone.budget_slabs() <= BUDGET_SLABS_MIN {
            (!mover.sampler.draw_seldom(cost), Left::Otherwise)
        } else {
            (!is_wanted && zone.is_full() && !mover.sampler.draw(cost), Left::PassedOver)
        };
        stays.then_some((&counters.passed_over, left))
    }
}

/// Returns the slabs that the hot zone leaves free for the compressed zone, so that there is room
/// for items that move: one in 128, and two at least.
pub(crate) fn below_spare_slabs(slabs: usize) -> usize {
    (slabs / 128).max(2)
}

/// Returns [`below_spare_slabs`] with the one for the index.
pub(crate) fn reserve_slabs(slabs: usize) -> usize {
    1 + below_spare_slabs(slabs)
}

impl Cache {
    /// Does the zone's own work. Returns whether there is more to do at once.
    pub(crate) fn maintain_compressed(
        &self,
        compressed: &CompressedTier,
        mover: &mut Mover,
    ) -> bool {
        let mut budget_slabs = self.adapt(compressed, &mut mover.adaptation);
        if mover.is_hurried {
            // A table that grows is there twice for a moment; no items need to leave for that.
            budget_slabs = budget_slabs.max(compressed.zone.budget_slabs());
        }
        compressed.zone.set_budget_slabs(budget_slabs);
        if let Some(remembered) = &self.remembered {
            mover.sampler.learn(remembered);
        }
        let idle = mover.writer.take().unwrap_or_else(|| Writer::new(&compressed.zone));
        let mut leave = self.leave(compressed);
        let mut pause = || self.yield_background(&mut mover.turn);
        let mut active = idle.with_sink(&mut leave).with_yield(&mut pause);
        let more = compressed.zone.maintain(self.now(), &mut active);
        self.sweep_expired_compressed(compressed, &mut mover.expiry, &mut active);
        mover.writer = Some(active.without_sink());
        more
    }

    /// Runs between the pieces of the zone's work: it makes sure that the next one, which is done
    /// pinned and under a lock, need not wait for the device of the flash tier, and yields the CPU.
    fn yield_background(&self, turn: &mut TimeSlice) {
        self.make_ready_to_stage();
        turn.end_if_long(&*self.clock);
    }

    /// Returns the function for an item that leaves the compressed zone to make room: it moves to
    /// flash, or leaves the cache.
    fn leave<'c>(
        &'c self,
        compressed: &'c CompressedTier,
    ) -> impl FnMut(&Guard<'_>, &Record<'_>, &Leaving<'_, '_>) + Send + 'c {
        move |guard, record, leaving| {
            if self.leave_one(compressed, guard, record, || leaving.is_alive()) {
                leaving.bury();
            }
        }
    }

    /// Moves an item that leaves the compressed zone to flash, or else counts it as evicted.
    /// Returns whether it is on flash now.
    fn leave_one(
        &self,
        compressed: &CompressedTier,
        guard: &Guard<'_>,
        record: &Record<'_>,
        is_alive: impl Fn() -> bool,
    ) -> bool {
        let counters = &compressed.counters;
        if self.is_compressed_flushed(record.key) {
            counters.flushed.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let hash = self.hash(record.key);
        let is_there = self.rest_row(guard, record, hash, &is_alive)
            || (self.takes_on_flash(&record.fields, false)
                && self.spill(guard, record, hash, &is_alive) == Spilled::There);
        if is_there {
            compressed.ghosts.add(hash.0, true);
            counters.spilled.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        if record.fields.mark & TOKENS != 0 {
            self.forget_spare(guard, hash, &is_alive);
        }
        // It may have been promoted, replaced or removed while it was on its way to flash, for
        // which it may have had to wait.
        if !is_alive() {
            return false;
        }
        compressed.ghosts.add(hash.0, false);
        counters.left.fetch_add(1, Ordering::Relaxed);
        self.remember(hash, Left::Evicted);
        let watching = self.observer.as_deref().filter(|observer| observer.is_watching());
        if let Some(observer) = watching {
            observer.evicted(&Evicted {
                key: record.key,
                value_bytes: record.value.len(),
                expiry: row_expiry(&record.fields),
                fetched: record.fields.mark & FETCHED != 0,
                idle_seconds: 0,
                class: 0,
            });
        }
        false
    }

    /// Returns how many slabs the hot zone should give up for the compressed zone.
    pub(crate) fn slabs_wanted_by_compressed(&self) -> usize {
        let Some(compressed) = &self.compressed else {
            return 0;
        };
        let spare = reserve_slabs(self.arena.limit_slabs());
        let missing = compressed.zone.budget_slabs().saturating_sub(compressed.zone.slabs());
        missing.min(spare.saturating_sub(self.arena.free_slabs()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::io::ManualClock;
    use ::io::device::{FakeDevice, Faults, PAGE_BYTES};
    use compressed::Record;
    use stdx::random::split_mix;
    use stdx::sync::lock;

    use crate::cache::Cache;
    use crate::{Expiry, FlashSettings};

    /// Time stands still, so that spent time does not come back.
    fn with_flash(memory_bytes: usize, flash_bytes: u64, compress: bool) -> Cache {
        let device = FakeDevice::new(flash_bytes / PAGE_BYTES as u64, 1, Faults::default());
        let flash = FlashSettings { threads: 1, ..FlashSettings::new(Arc::new(device), [7; 16]) };
        let clock = Arc::new(ManualClock::new(1_800_000_000));
        let builder = Cache::builder().memory_bytes(memory_bytes).compress(compress).flash(flash);
        builder.clock(clock).build().expect("a small cache")
    }

    fn key(number: u32) -> Vec<u8> {
        format!("item-{number}").into_bytes()
    }

    #[test]
    fn the_last_of_the_background_s_time_is_for_items_that_were_read() {
        let cache = with_flash(8 << 20, 24 << 20, false);
        let store = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let mut state = number.into();
                let noise = (0..64).flat_map(|_| split_mix(&mut state).to_le_bytes());
                let value: Vec<u8> = noise.collect();
                cache.set(&key(number), &value, Expiry::NEVER).expect("it is stored");
                if number.is_multiple_of(8) {
                    assert!(cache.get(&key(number)).is_some());
                }
                if number.is_multiple_of(32) {
                    while cache.maintain() {}
                }
            }
        };
        let spilled = || cache.stats().flash.expect("it has a tier").spilled;
        store(0..40_000);
        let at_leisure = spilled();
        // More than half of flash: while most of it is free, time does not matter.
        assert!(at_leisure > 24_000, "{at_leisure}");
        // A twentieth of a second is left.
        lock(&cache.chores).mover.spill_allowance.spend(1_950_000);
        store(40_000..60_000);
        let when_short = spilled() - at_leisure;
        // One item in eight was read.
        assert!((2000..3000).contains(&when_short), "{when_short}");
        store(60_000..80_000);
        let read = |number: &u32| number.is_multiple_of(8);
        let found = (40_000..60_000).filter(read).filter(|n| cache.get(&key(*n)).is_some());
        assert!(found.count() > 2400, "of 2500 that were read");
    }

    /// Regression: all items that left the hot zone alive counted as demoted to the compressed
    /// zone, and all that found no time there as evicted.
    #[test]
    fn an_item_moved_straight_to_flash_is_neither_demoted_nor_throttled() {
        let cache = with_flash(16 << 20, 64 << 20, true);
        let store = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                cache.set(&key(number), &[7; 500], Expiry::NEVER).expect("it is stored");
                if number.is_multiple_of(32) {
                    while cache.maintain() {}
                }
            }
            let stats = cache.stats();
            let zone = stats.compressed.expect("it has a zone");
            assert_eq!(zone.demoted + zone.changed, zone.zone.inserted);
            (stats.evicted, zone, stats.flash.expect("it has a tier").spilled)
        };
        let (_, before, _) = store(0..40_000);
        assert!(before.demoted > 5000, "{before:?}");
        lock(&cache.chores).mover.allowance.spend(1_000_000_000);
        let (evicted, zone, spilled) = store(40_000..80_000);
        assert!(spilled > 5000, "{spilled}");
        assert!(zone.throttled <= evicted, "{zone:?}, {evicted} evicted");
        assert_eq!(zone.demoted, before.demoted);
    }

    /// Regression: items promoted or removed meanwhile counted as evicted, as did flushed ones.
    #[test]
    fn an_item_leaving_the_zone_counts_as_evicted_only_if_still_alive() {
        let builder = Cache::builder().memory_bytes(8 << 20).compress(true);
        let cache = builder.build().expect("a small cache");
        let compressed = cache.compressed.as_deref().expect("it has a zone");
        let leave = |key: &[u8], is_alive| {
            let record = Record { key, value: b"v", fields: compressed::Fields::default() };
            assert!(!cache.leave_one(compressed, &cache.epochs.pin(), &record, || is_alive));
            let stats = cache.stats();
            (stats.evicted, stats.expired, cache.remembers(cache.hash(key)))
        };
        assert_eq!(leave(b"gone", false), (0, 0, false));
        cache.flush_prefix(b"flu").expect("there is room for a prefix");
        assert_eq!(leave(b"flushed", true), (0, 1, false));
        assert_eq!(leave(b"evicted", true), (1, 1, true));
    }

    /// Regression: such an item was copied first, however long, and the background kept the memory.
    #[test]
    fn an_item_too_long_for_flash_is_not_copied_and_counts_as_refused() {
        const SEGMENT_BYTES: usize = 128 << 10;
        for value_bytes in [SEGMENT_BYTES - 1, 300_000] {
            let cache = with_flash(16 << 20, 64 << 20, false);
            for number in 0..200 {
                let value = vec![7; value_bytes];
                cache.set(&key(number), &value, Expiry::NEVER).expect("others give way");
                assert!(cache.get(&key(number)).is_some(), "what was read is wanted on flash");
                while cache.maintain() {}
            }
            let (evicted, flash) = (cache.stats().evicted, cache.stats().flash);
            let refused = flash.map_or(0, |it| it.refused);
            // Others leave for stores, where so long a value finds no room for itself.
            assert!(refused > 10 && refused <= evicted, "{refused} of {evicted}");
            assert_eq!(lock(&cache.chores).mover.value.capacity(), 0);
        }
    }

    /// An item only just short enough may leave no more than its own length.
    #[test]
    fn a_copy_to_be_moved_takes_no_more_memory_than_a_segment() {
        const LONG: usize = 100_000;
        let cache = with_flash(16 << 20, 64 << 20, false);
        for number in 0..400 {
            cache.set(&key(number), &[7; LONG], Expiry::NEVER).expect("others give way");
            while cache.maintain() {}
        }
        assert!(cache.stats().flash.is_some_and(|it| it.spilled > 10), "{:?}", cache.stats());
        assert_eq!(lock(&cache.chores).mover.value.capacity(), LONG);
    }

    #[test]
    fn a_new_cache_has_time_to_fill_its_zone() {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let allowance = &mut lock(&cache.chores).mover.allowance;
        allowance.refill(1_000_000_000, 0.25);
        allowance.spend(5_000_000);
        assert!(!allowance.is_low(), "{allowance:?}");
        allowance.spend(3_000_000);
        assert!(!allowance.has_any(), "{allowance:?}");
    }
}
