//! Flushing: everything stored so far, or all of it whose key has a prefix, is gone at once, and
//! its memory comes back over time.
//!
//! A flush takes a number from the sequence of mutations; items with that number or a lower one are
//! gone from then on, if their keys have its prefix ([`crate::flushed_prefixes`]). The background
//! walks the zone once and removes them, and then the flush ends. One number stands for all flushes
//! under way, the highest of theirs: an item with a higher one is younger than all of them, and
//! only the others are looked at more closely. [`crate::flush_prefix`] says what holds in the lower
//! tiers.
//!
//! # What must not slip through
//!
//! A change prepared from an item that the flush takes (an append, an increment, a `cas`) must not
//! be entered under a number above the flush's. So the count of flushes is odd while a flush takes
//! its number, and a thread that prepares a change reads an even count before it looks at the item,
//! takes its own number under the lock of the item's table, and then looks at the count again. If
//! it is the same, the flush began after that, and its number is higher.
//!
//! Every change waits for an even count, so little is done while it is odd: the number, and for
//! each lower tier one step from which on nothing is found there. Longer work comes after it, and
//! before the client, which alone waits for it, is told that the flush is done: the flash tier's
//! device is told, and for a prefix its writer waited for. A process that is killed in between
//! leaves the flushed items there to the next one, as if the flush had never been; but nothing that
//! was replaced or removed meanwhile, since that is noted on the device one by one.
//!
//! The walk begins only when every session that was open when the flush began has ended: such a
//! session may still enter an item with a lower number in memory that the walk has passed.
//!
//! And the flush ends only when every session that was open at the walk's end has ended: such a
//! session may have found an item before the walk removed it, and asks only then whether it is
//! gone.
//!
//! Items keep only the low half of their number. Another walk, every [`RENUMBER_MUTATIONS`], gives
//! items that have not changed for longer than that a new number, so the low half always suffices.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use compressed::Zone;
use stdx::sync::Backoff;

use crate::cache::Cache;
use crate::flushed_prefixes::{FlushedPrefixes, Full};
use crate::types::Expiry;

/// Mutations between two walks that renumber old items. Younger items keep their number; and none
/// gets as old as 2^32, since a store walks itself where the background is two of these late.
pub(crate) const RENUMBER_MUTATIONS: u64 = 1 << 30;

/// The flushes that are under way, and the one that is planned.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    /// The number up to which items may be gone; 0: none are.
    sequence: AtomicU64,
    /// The number up to which items are gone, whatever their keys; 0: none are.
    whole: AtomicU64,
    /// Flushes of everything that have begun.
    wholes: AtomicU64,
    /// Prefixes that are being flushed. Its lock is that of the three.
    prefixes: FlushedPrefixes,
    /// Twice the number of flushes so far; odd while one takes its number.
    count: AtomicU64,
    /// Unix seconds at which to flush; 0: nothing planned.
    planned: AtomicU32,
}

impl Flush {
    /// Returns the number up to which items may be gone; 0 if none are.
    #[inline]
    pub(crate) fn sequence(&self) -> u64 {
        // Acquire: partner is the release in `begin_whole` and `begin_prefix`.
        self.sequence.load(Ordering::Acquire)
    }

    /// Whether an item with this number, no higher than [`Self::sequence`], is gone.
    #[cold]
    pub(crate) fn takes(&self, key: &[u8], number: u64) -> bool {
        number <= self.whole.load(Ordering::Relaxed) || self.prefixes.takes(key, number)
    }

    /// Whether a prefix of the key is being flushed.
    #[inline]
    pub(crate) fn has_prefix_of(&self, key: &[u8]) -> bool {
        self.sequence() != 0 && self.prefixes.has_prefix_of(key)
    }

    /// Returns how many prefixes are being flushed.
    pub(crate) fn prefixes(&self) -> usize {
        self.prefixes.count()
    }

    /// Returns the count of flushes, once none is taking its number.
    pub(crate) fn settled_count(&self) -> u64 {
        let mut backoff = Backoff::default();
        loop {
            // Acquire: partner is the release of the even count in `begin`, before which the number
            // was stored.
            let count = self.count.load(Ordering::Acquire);
            if count.is_multiple_of(2) {
                return count;
            }
            backoff.wait();
        }
    }

    /// Returns how many flushes of everything have begun.
    pub(crate) fn wholes(&self) -> u64 {
        self.wholes.load(Ordering::Relaxed)
    }

    /// Returns the Unix seconds at which to flush; 0: nothing planned.
    pub(crate) fn planned(&self) -> u32 {
        self.planned.load(Ordering::Relaxed)
    }

    /// Plans a flush at this time; 0: none.
    pub(crate) fn plan(&self, unix_seconds: u32) {
        self.planned.store(unix_seconds, Ordering::Relaxed);
    }

    /// Whether no flush has begun since the count was `settled_count`. Asked after a number was
    /// taken.
    pub(crate) fn is_unchanged_since(&self, settled_count: u64) -> bool {
        // The partner is not here: a thread that takes a number after a flush took its own sees, by
        // the acquire of taking it, the count that the flush had raised before.
        self.count.load(Ordering::Relaxed) == settled_count
    }

    /// Whether [`Self::begin_prefix`] would find room for a prefix now.
    pub(crate) fn has_room_for(&self, prefix: &[u8]) -> bool {
        self.prefixes.change().has_room_for(prefix)
    }

    /// Flushes by `flush`, which takes a number. Every change waits for it.
    pub(crate) fn begin<R>(&self, flush: impl FnOnce() -> R) -> R {
        // One at a time: odd means that another flush is in this step.
        let mut backoff = Backoff::default();
        loop {
            let count = self.settled_count();
            let claimed =
                self.count.compare_exchange(count, count + 1, Ordering::Relaxed, Ordering::Relaxed);
            if claimed.is_ok() {
                break;
            }
            backoff.wait();
        }
        let result = flush();
        // Release: partner is the acquire in `settled_count`.
        self.count.fetch_add(1, Ordering::Release);
        result
    }

    /// Makes everything gone up to the number that `take` returns. Within [`Self::begin`].
    pub(crate) fn begin_whole(&self, take: impl FnOnce() -> u64) {
        let _changing = self.prefixes.change();
        let number = take();
        self.whole.store(number, Ordering::Relaxed);
        self.wholes.fetch_add(1, Ordering::Relaxed);
        // Release: partner is the acquire in `sequence`.
        self.sequence.store(number, Ordering::Release);
    }

    /// Makes the items with a prefix gone up to the number that `take` returns, if the table has
    /// room for the prefix. Within [`Self::begin`].
    pub(crate) fn begin_prefix(
        &self,
        prefix: &[u8],
        take: impl FnOnce() -> u64,
    ) -> Result<(), Full> {
        let mut changing = self.prefixes.change();
        if !changing.has_room_for(prefix) {
            return Err(Full);
        }
        let number = take();
        changing.add(prefix, number)?;
        changing.publish();
        // Release: partner is the acquire in `sequence`.
        self.sequence.store(number, Ordering::Release);
        Ok(())
    }

    /// Ends the flushes up to `sequence`, whose walk is done.
    pub(crate) fn end(&self, sequence: u64) {
        let mut changing = self.prefixes.change();
        changing.end(sequence);
        changing.publish();
        // A flush that began meanwhile has a higher number and stays.
        let whole = self.whole.load(Ordering::Relaxed);
        let whole = if whole <= sequence { 0 } else { whole };
        self.whole.store(whole, Ordering::Relaxed);
        // Release: partner is the acquire in `sequence`, as for any number that is not 0.
        self.sequence.store(changing.highest().max(whole), Ordering::Release);
    }
}

impl Cache {
    /// Makes everything stored before gone: now, or at a time in the future, when it will apply to
    /// everything stored before that time. A later call replaces what an earlier one planned.
    pub fn flush(&self, at: Option<Expiry>) {
        self.tick();
        match at {
            Some(expiry) if expiry != Expiry::NEVER && !self.is_expired(expiry) => {
                self.moment.flush.plan(expiry.second);
            }
            _ => {
                self.moment.flush.plan(0);
                self.flush_now();
            }
        }
        self.keep_plan();
    }

    /// Takes up the flush that an earlier process had planned: at once, if its time has passed,
    /// since then nothing on flash was stored later.
    pub(crate) fn resume_plan(&self) {
        if let Some(tier) = &self.flash {
            self.moment.flush.plan(tier.flash.planned_flush());
            self.flush_if_due();
        }
    }

    /// Keeps the plan where the next process finds it.
    fn keep_plan(&self) {
        if let Some(tier) = &self.flash {
            tier.flash.plan_flush(|| self.moment.flush.planned());
        }
    }

    /// Flushes if a planned flush is due.
    pub(crate) fn flush_if_due(&self) {
        let planned = &self.moment.flush.planned;
        let due = planned.load(Ordering::Relaxed);
        if due != 0
            && due <= self.now()
            && planned.compare_exchange(due, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.flush_now();
            // Not before: a process that is killed in between leaves the plan to the next one.
            self.keep_plan();
        }
    }

    fn flush_now(&self) {
        // The lower tiers after the number and before a settled count can be seen: a thread that
        // demotes an item to a tier that is not flushed yet sees that the item is flushed, and one
        // that promotes an item that was flushed there finds that a flush has begun. Flash after
        // the compressed zone: a row that is staged after flash was flushed is seen to be flushed
        // where it comes from.
        let (zone, tier) =
            (self.compressed.as_ref().map(|compressed| &compressed.zone), self.flash.as_ref());
        let begins_anew = self.moment.flush.begin(|| {
            self.moment.flush.begin_whole(|| self.next_sequence());
            let begins_anew = zone.is_some_and(Zone::begin_flush);
            if let Some(tier) = tier {
                tier.begin_flush();
            }
            begins_anew
        });
        // Nobody but the caller waits for the rest: nothing is found in either tier any more. Flash
        // first, for only then is all of it gone also if the process is killed.
        if let Some(tier) = tier {
            tier.end_flush();
        }
        if let Some(zone) = zone.filter(|_| begins_anew) {
            zone.begin_anew();
        }
        self.call_for_work();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock, Weak};

    use ::io::device::{Device, FakeDevice, Faults, Page};
    use std::io;

    use super::*;
    use crate::{Arithmetic, Counted, FlashSettings, Lookup};

    fn cache() -> Cache {
        Cache::builder().memory_bytes(8 << 20).build().expect("a small cache")
    }

    /// Regression: a signed comparison of the low halves took an item for younger than the flush
    /// when it was more than 2^31 mutations older.
    #[test]
    fn a_flush_takes_items_of_any_age() {
        for age in [1, 1 << 20, 1 << 31, (1 << 31) + 10, u64::from(u32::MAX) - 10] {
            let cache = cache();
            cache.set(b"k", b"v", Expiry::NEVER).expect("room");
            cache.sequence.fetch_add(age, Ordering::Relaxed);
            assert!(cache.get(b"k").is_some());
            cache.flush(None);
            assert!(cache.get(b"k").is_none(), "{age}");
            cache.set(b"k", b"w", Expiry::NEVER).expect("room");
            assert!(cache.get(b"k").is_some(), "{age}");
        }
    }

    #[test]
    fn old_items_are_renumbered_before_numbers_come_round() {
        let cache = cache();
        cache.set(b"k", b"v", Expiry::NEVER).expect("room");
        for _ in 0..20 {
            cache.sequence.fetch_add(RENUMBER_MUTATIONS / 2, Ordering::Relaxed);
            while cache.maintain() {}
            cache.maintain();
        }
        cache.flush(None);
        assert!(cache.get(b"k").is_none());
    }

    #[test]
    fn without_a_background_stores_renumber() {
        let cache = cache();
        cache.set(b"k", b"v", Expiry::NEVER).expect("room");
        for _ in 0..20 {
            let next = (cache.sequence.load(Ordering::Relaxed) | (RENUMBER_MUTATIONS - 1)) + 1;
            cache.sequence.store(next - 1, Ordering::Relaxed);
            cache.set(b"other", b"v", Expiry::NEVER).expect("room");
        }
        assert!(cache.get(b"k").is_some());
        cache.flush(None);
        assert!(cache.get(b"k").is_none());
    }

    #[test]
    fn without_a_background_changes_renumber() {
        let cache = cache();
        cache.set(b"k", b"v", Expiry::NEVER).expect("room");
        cache.set(b"count", b"1", Expiry::NEVER).expect("room");
        let hash = cache.hash(b"count");
        let number = || {
            let session = cache.session();
            session.find_present(b"k", cache.hash(b"k")).expect("it is there").item.sequence()
        };
        let before = number();
        for _ in 0..20 {
            let next = (cache.sequence.load(Ordering::Relaxed) | (RENUMBER_MUTATIONS - 1)) + 1;
            cache.sequence.store(next - 1, Ordering::Relaxed);
            let count = cache.session().arithmetic(b"count", hash, &Arithmetic::INCREMENT);
            assert!(matches!(count, Ok(Counted::Value { .. })), "{count:?}");
        }
        assert_ne!(number(), before);
    }

    /// A device that stores and reads through the cache whenever it is given a note.
    #[derive(Debug)]
    struct Nosy {
        inner: FakeDevice,
        cache: OnceLock<(Weak<Cache>, Vec<u8>)>,
        /// Of the notes since, those that nothing waited for.
        free: AtomicU64,
        notes: AtomicU64,
    }

    impl Device for Nosy {
        fn pages(&self) -> u64 {
            self.inner.pages()
        }

        fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
            self.inner.read(page, target)
        }

        fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
            self.inner.write(page, source)
        }

        fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
            self.inner.read_note(at, target)
        }

        fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
            if let Some((cache, key)) = self.cache.get()
                && let Some(cache) = cache.upgrade()
            {
                self.notes.fetch_add(1, Ordering::Relaxed);
                if cache.moment.flush.count.load(Ordering::Relaxed).is_multiple_of(2) {
                    self.free.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(cache.get(key), None, "what is flushed is found nowhere");
                    assert_eq!(cache.set(b"fresh", b"v", Expiry::NEVER), Ok(()));
                }
            }
            self.inner.write_note(at, source)
        }

        fn sync(&self) -> io::Result<()> {
            self.inner.sync()
        }
    }

    /// Regression: every store, and every read of a lower tier, waited, pinned, until the device
    /// was told.
    #[test]
    fn only_its_client_waits_for_the_device_on_a_flush() {
        flush_nosily(|cache, _| cache.flush(None));
    }

    /// Regression: as above, while the device was told of a prefix.
    #[test]
    fn only_its_client_waits_for_the_device_on_a_flush_by_prefix() {
        flush_nosily(|cache, key| {
            cache.flush_prefix(key).expect("there is room for it");
        });
    }

    /// Flushes by `flush`, which is given a key, from memory onto a device during whose writes
    /// other threads store and read.
    fn flush_nosily(flush: impl FnOnce(&Cache, &[u8])) {
        let inner = FakeDevice::new(4096, 1, Faults::default());
        let (cache, free, notes) = Default::default();
        let device = Arc::new(Nosy { inner, cache, free, notes });
        let flash = FlashSettings { threads: 1, ..FlashSettings::new(device.clone(), [7; 16]) };
        let builder = Cache::builder().memory_bytes(8 << 20).flash(flash);
        let cache = Arc::new(builder.build().expect("it fits"));
        let key = |number: u32| format!("item-{number}").into_bytes();
        for number in 0..30_000 {
            cache.set(&key(number), &[7; 500], Expiry::NEVER).expect("others give way");
            assert!(cache.get(&key(number)).is_some(), "what was read is wanted on flash");
            while number.is_multiple_of(64) && cache.maintain() {}
        }
        let is_on_flash = |key: &Vec<u8>| {
            matches!(cache.session().look_up(key, cache.hash(key)), Lookup::Pending)
        };
        let key = (0..30_000).map(key).find(is_on_flash).expect("most of them are on flash");
        device.cache.set((Arc::downgrade(&cache), key.clone())).expect("set once");
        flush(&cache, &key);
        let [notes, free] = [&device.notes, &device.free].map(|it| it.load(Ordering::Relaxed));
        assert!(notes > 0 && notes == free, "everybody waited for {} of {notes}", notes - free);
        assert_eq!((cache.get(&key), cache.get(b"fresh").as_deref()), (None, Some(&b"v"[..])));
        while cache.maintain() {}
        assert_eq!(cache.get(&key), None);
    }

    #[test]
    fn a_compressed_zone_that_begins_anew_is_empty_and_takes_items() {
        let cache = Cache::builder().memory_bytes(8 << 20).compress(true).build();
        let cache = cache.expect("a small cache");
        let key = |number: u32| format!("item-{number}").into_bytes();
        let fill = || {
            for number in 0..20_000 {
                cache.set(&key(number), &[7; 500], Expiry::NEVER).expect("others give way");
                assert!(cache.get(&key(number)).is_some());
                while number.is_multiple_of(32) && cache.maintain() {}
            }
            let is_compressed = |key: &Vec<u8>| cache.session().is_compressed(key, cache.hash(key));
            (0..20_000).map(key).filter(is_compressed).count()
        };
        assert!(fill() > 1000);
        let zone = &cache.compressed.as_ref().expect("it has one").zone;
        while !zone.begin_flush() {}
        cache.flush(None);
        assert_eq!(fill(), 0, "nothing comes in yet, and no flush waits for that");
        zone.begin_anew();
        assert!(fill() > 1000);
        (0..=u32::from(u16::MAX)).for_each(|_| cache.flush(None));
        assert!((0..20_000).all(|number| cache.get(&key(number)).is_none()));
        assert!(fill() > 1000);
    }

    #[test]
    fn a_change_prepared_before_a_flush_is_not_entered_after_it() {
        let flush = Flush::default();
        let before = flush.settled_count();
        assert!(flush.is_unchanged_since(before));
        let take = || {
            assert!(!flush.is_unchanged_since(before));
            7
        };
        flush.begin(|| {
            flush.begin_whole(take);
            assert_eq!(flush.sequence(), 7);
        });
        assert_eq!(flush.sequence(), 7);
        assert!(!flush.is_unchanged_since(before) && flush.is_unchanged_since(before + 2));
        flush.end(6);
        assert_eq!(flush.sequence(), 7);
        flush.end(7);
        assert_eq!(flush.sequence(), 0);
    }
}
