//! The background is not pinned while it waits for the device of the flash tier: stores wait for
//! pinned threads. And the index leads to flash until all there is void.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use ::io::device::{Device, FakeDevice, Faults, PAGE_BYTES, Page};
use ::io::{Clock, ManualClock};
use memory::Epochs;
use stdx::random::Xorshift;

use super::*;
use crate::{Attributes, Condition, Expiry, FlashSettings};

const FLASH_BYTES: usize = 16 << 20;
const STORES_BETWEEN: u32 = 20;

/// A device that looks at each write of pages, and each sync, whether its thread is pinned.
#[derive(Debug)]
struct Watching {
    inner: FakeDevice,
    epochs: OnceLock<Arc<Epochs>>,
    unpinned: AtomicU64,
    pinned: AtomicU64,
}

impl Watching {
    fn count(&self) {
        if let Some(epochs) = self.epochs.get() {
            let may_move_on = epochs.try_reach(epochs.latest_tag());
            let count = if may_move_on { &self.unpinned } else { &self.pinned };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Device for Watching {
    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
        self.inner.read(page, target)
    }

    fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
        self.count();
        self.inner.write(page, source)
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        self.inner.read_note(at, target)
    }

    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
        self.inner.write_note(at, source)
    }

    fn sync(&self) -> io::Result<()> {
        self.count();
        self.inner.sync()
    }
}

/// Returns how many segments a cache writes, pinned and not, for this many values of this length,
/// on a device that is too small for all items that leave memory.
fn writes(compress: bool, items: u32, value_bytes: usize) -> (u64, u64) {
    let inner = FakeDevice::new((FLASH_BYTES / PAGE_BYTES) as u64, 1, Faults::default());
    let (epochs, unpinned, pinned) = Default::default();
    let device = Arc::new(Watching { inner, epochs, unpinned, pinned });
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device.clone(), [7; 16]) };
    let builder = Cache::builder().memory_bytes(16 << 20).compress(compress).flash(flash);
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let cache = builder.clock(clock.clone()).build().expect("it fits");
    device.epochs.set(cache.epochs.clone()).expect("set once");
    let mut random = Xorshift::default();
    for number in 0..items {
        let value: Vec<u8> = (0..value_bytes).map(|_| (random.draw() % 64) as u8).collect();
        let stored =
            cache.put(&number.to_be_bytes(), &value, Attributes::default(), Condition::Always);
        assert!(stored.is_ok(), "{stored:?}");
        // An item that was read is wanted on flash.
        assert!(cache.get(&number.to_be_bytes()).is_some());
        if number % STORES_BETWEEN == 0 {
            // The background has as much time as it wants.
            clock.advance_us(100_000);
            while cache.maintain() {}
        }
    }
    let stats = cache.stats();
    let flash = stats.flash.expect("there is a tier");
    assert!(flash.tier.collected > 0, "{flash:?}");
    (device.pinned.load(Ordering::Relaxed), device.unpinned.load(Ordering::Relaxed))
}

#[test]
fn a_thread_that_writes_a_segment_is_not_pinned() {
    // In the compressed zone, rows of a block, and long ones, of which one is half a block.
    for (compress, items, value_bytes) in
        [(true, 30_000, 3000), (true, 10_000, 9000), (true, 6000, 20_000), (false, 30_000, 3000)]
    {
        let (pinned, unpinned) = writes(compress, items, value_bytes);
        let all = pinned + unpinned;
        assert!(pinned == 0 && unpinned > 100, "{pinned} of {all}, {value_bytes}, {compress}");
    }
}

/// Regression: the kernel was never asked whether it had kept the notes.
#[test]
fn a_device_is_synced_about_once_a_minute_by_trainer_or_background() {
    let device = Arc::new(FakeDevice::new(4096, 1, Faults::default()));
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device.clone(), [7; 16]) };
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let builder = Cache::builder().memory_bytes(8 << 20).compress(false).flash(flash);
    let cache = builder.clock(clock.clone()).build().expect("it fits");
    let mut synced = device.counts().syncs;
    let mut syncs = |work: &dyn Fn()| {
        work();
        let before = std::mem::replace(&mut synced, device.counts().syncs);
        synced - before
    };
    let maintain = || {
        for _ in 0..10 {
            while cache.maintain() {}
        }
    };
    let train = || while cache.train() {};
    syncs(&maintain);
    for _ in 0..3 {
        clock.advance(59);
        assert_eq!(syncs(&maintain), 0);
        clock.advance(1);
        assert_eq!(syncs(&maintain), 1);
    }
    clock.advance(60);
    assert_eq!([syncs(&train), syncs(&maintain), syncs(&maintain)], [0; 3]);
    assert_eq!([syncs(&train), syncs(&train), syncs(&maintain)], [1, 0, 0]);
}

/// Returns a cache of which some items are on flash.
fn filled(clock: Arc<dyn ::io::Clock>) -> Cache {
    let device = FakeDevice::new((FLASH_BYTES / PAGE_BYTES) as u64, 1, Faults::default());
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(Arc::new(device), [7; 16]) };
    let builder = Cache::builder().memory_bytes(8 << 20).compress(false).flash(flash);
    let cache = builder.clock(clock).build().expect("it fits");
    for number in 0..10_000_u32 {
        let stored =
            cache.put(&number.to_be_bytes(), &[7; 1500], Attributes::default(), Condition::Always);
        assert!(stored.is_ok(), "{stored:?}");
        if number % STORES_BETWEEN == 0 {
            while cache.maintain() {}
        }
    }
    cache
}

/// A flush that was begun has been counted, and has yet to come to the device.
#[test]
fn the_index_leads_to_flash_until_the_device_knows_of_a_flush() {
    let cache = filled(Arc::new(ManualClock::new(1_800_000_000)));
    let before = cache.flash_items();
    let tier = cache.flash.as_deref().expect("there is a tier");
    tier.flushed.fetch_add(1, Ordering::Relaxed);
    (0..10).for_each(|_| _ = cache.maintain());
    assert!(before > 1000 && cache.flash_items() == before, "{before}, {}", cache.flash_items());
    tier.flash.flush();
    tier.voided.fetch_add(1, Ordering::Release);
    while cache.maintain() {}
    assert_eq!(cache.flash_items(), 0);
}

/// Regression: a store of a key over a word of before a flush took an item more from the tier's own
/// count.
#[test]
fn the_tier_counts_as_the_cache_does_after_a_flush() {
    let cache = filled(Arc::new(ManualClock::new(1_800_000_000)));
    assert!(cache.flash_items() > 1000);
    let put = |number: u32| {
        let stored =
            cache.put(&number.to_be_bytes(), &[8; 1500], Attributes::default(), Condition::Always);
        assert!(stored.is_ok(), "{stored:?}");
    };
    cache.flush(None);
    (0..1000).for_each(put);
    while cache.maintain() {}
    for number in 0..10_000 {
        put(number);
        while cache.maintain() {}
    }
    let stats = cache.stats().flash.expect("there is a tier");
    assert!(stats.items > 1000);
    assert_eq!((stats.items, stats.tier.items), (cache.flash_items(), cache.flash_items()));
}

/// Regression: with a large index a purge takes seconds, in which all items that left memory were
/// lost and nowhere counted.
#[test]
fn an_item_refused_until_the_index_is_purged_is_counted() {
    let cache = filled(Arc::new(ManualClock::new(1_800_000_000)));
    let refused = || cache.stats().flash.expect("there is a tier").refused;
    cache.flush(None);
    let (before, evicted) = (refused(), cache.stats().evicted);
    for number in 0..10_000_u32 {
        let key = number.to_be_bytes();
        let stored = cache.put(&key, &[7; 1500], Attributes::default(), Condition::Always);
        assert!(stored.is_ok(), "{stored:?}");
        // An item that was read is wanted on flash.
        assert!(cache.get(&key).is_some());
    }
    let evicted = cache.stats().evicted - evicted;
    assert!(evicted > 1000 && refused() - before == evicted, "{} of {evicted}", refused());
}

/// Regression: only items that stores evicted were counted, next to none in a server.
#[test]
fn an_item_of_the_background_refused_before_the_purge_is_counted() {
    let cache = filled(Arc::new(ManualClock::new(1_800_000_000)));
    let tier = cache.flash.as_deref().expect("there is a tier");
    let refused = || cache.stats().flash.expect("there is a tier").refused;
    // A flush that has yet to come to the device: until then nothing is purged.
    tier.flushed.fetch_add(1, Ordering::Relaxed);
    let (before, evicted) = (refused(), cache.stats().evicted);
    for number in 0..10_000_u32 {
        let key = number.to_be_bytes();
        let stored = cache.put(&key, &[7; 1500], Attributes::default(), Condition::Always);
        assert!(stored.is_ok(), "{stored:?}");
        // An item that was read is wanted on flash.
        assert!(cache.get(&key).is_some());
        if number % STORES_BETWEEN == 0 {
            while cache.maintain() {}
        }
    }
    let (evicted, refused) = (cache.stats().evicted - evicted, refused() - before);
    assert!(evicted > 1000 && refused == evicted, "{refused} of {evicted}");
}

/// A device that takes ten milliseconds for each segment that is read.
#[derive(Debug)]
struct Slow {
    inner: FakeDevice,
    clock: Arc<ManualClock>,
    read_us: AtomicU64,
}

impl Device for Slow {
    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
        self.clock.advance_us(10_000);
        self.read_us.fetch_add(10_000, Ordering::Relaxed);
        self.inner.read(page, target)
    }

    fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
        self.inner.write(page, source)
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        self.inner.read_note(at, target)
    }

    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
        self.inner.write_note(at, source)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

/// Returns the turns of an idle background, ten a second, after which this many prefixes are
/// scrubbed, the microseconds for which scrubbing has read meanwhile, and those that passed.
fn scrubbed(prefixes: u32) -> (u32, u64, u64) {
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let inner = FakeDevice::new(4 * (FLASH_BYTES / PAGE_BYTES) as u64, 1, Faults::default());
    let device = Arc::new(Slow { inner, clock: clock.clone(), read_us: AtomicU64::new(0) });
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device.clone(), [7; 16]) };
    let builder = Cache::builder().memory_bytes(8 << 20).compress(false).flash(flash);
    let cache = builder.clock(clock.clone()).build().expect("it fits");
    let mut random = Xorshift::default();
    for number in 0..30_000_u32 {
        let value: Vec<u8> = (0..1500).map(|_| random.draw() as u8).collect();
        let stored =
            cache.put(&number.to_be_bytes(), &value, Attributes::default(), Condition::Always);
        assert!(stored.is_ok(), "{stored:?}");
        while number % STORES_BETWEEN == 0 && cache.maintain() {}
    }
    let tier = cache.flash.as_deref().expect("there is a tier");
    let stats = tier.flash.stats();
    assert!((300..450).contains(&stats.segments_written), "{stats:?}");
    for number in 0..prefixes {
        assert!(cache.flush_prefix(format!("prefix{number:04}").as_bytes()).is_ok());
    }
    let read_us = || device.read_us.load(Ordering::Relaxed);
    let (began_us, read_before_us, mut turns) = (clock.monotonic_us(), read_us(), 0);
    while tier.flash.prefixes_flushed() > 0 {
        while cache.maintain() {}
        clock.advance_us(100_000);
        turns += 1;
    }
    (turns, read_us() - read_before_us, clock.monotonic_us() - began_us)
}

/// Regression: an idle background slept for a tenth of a second with each segment, so that a pass
/// over a large device took hours, in which the page of prefixes filled up.
#[test]
fn scrubbing_gets_more_of_the_time_as_prefixes_fill_their_page() {
    let [(few_turns, few_us, of_few_us), (many_turns, many_us, of_many_us)] = [1, 60].map(scrubbed);
    assert!(few_turns < 280 && many_turns < few_turns / 2 + 20, "{few_turns}, {many_turns}");
    assert!(few_us * 100 < of_few_us * 15, "{few_us} of {of_few_us}");
    assert!(many_us * 100 < of_many_us * 40, "{many_us} of {of_many_us}");
}

/// A clock that moves on by 40 microseconds whenever it is read.
#[derive(Default)]
struct Moving(AtomicU64);

impl ::io::Clock for Moving {
    fn unix_seconds(&self) -> u32 {
        1_800_000_000
    }

    fn monotonic_us(&self) -> u64 {
        self.0.fetch_add(40, Ordering::Relaxed)
    }
}

/// Regression: an index of half a GiB took it the better part of a tenth of a second.
#[test]
fn a_purge_of_the_index_yields_the_cpu_between_tables() {
    let cache = filled(Arc::new(Moving::default()));
    cache.flush(None);
    let (mut purging, mut turn) = (None, TimeSlice::default());
    assert!(cache.flash_items() > 1000 && cache.maintain_flash(&mut purging, &mut turn));
    assert_eq!(cache.flash_items(), 0);
    // From one look at the clock to the next.
    assert!(turn.waited_us() >= 40, "{}", turn.waited_us());
}

/// Regression: it was gone through in one turn, in which no other work of the background was done.
#[test]
fn a_large_index_is_purged_over_several_turns_before_items_come_in() {
    let cache = filled(Arc::new(ManualClock::new(1_800_000_000)));
    for number in 0..60_000_u32 {
        cache.set(&u64::from(number).to_be_bytes(), b"", Expiry::NEVER).expect("others give way");
    }
    let tables = cache.index.stats().tables as usize;
    assert!(tables > PURGE_TABLES, "{tables}");
    let tier = cache.flash.as_deref().expect("there is a tier");
    let stages = || {
        let (key, value) = (b"another", b"v");
        let record = ::flash::Record { key, value, fields: ::flash::Fields::default() };
        cache.spill(&cache.epochs.pin(), &record, cache.hash(key), || true)
    };
    cache.flush(None);
    let (mut purging, mut turn, mut turns) = (None, TimeSlice::default(), 0);
    for flushes in 1..=2 {
        // The second flush comes while the first is being purged, and has a purge of its own.
        while tier.purged.load(Ordering::Relaxed) < flushes {
            assert_eq!(stages(), Spilled::Purging);
            assert!(cache.maintain_flash(&mut purging, &mut turn));
            turns += 1;
            if turns == 1 {
                cache.flush(None);
            }
        }
        let (left, mut at) = (Cell::new(0), Some(Hash(0)));
        let goes = |_| {
            left.set(left.get() + 1);
            false
        };
        while let Some(hash) = at {
            at = cache.purge_flash(&cache.epochs.pin(), hash, goes, &mut 0);
        }
        assert_eq!((left.get(), cache.flash_items()), (0, 0), "all of the index was gone through");
    }
    assert!(tier.is_purged() && turns >= 2 * tables.div_ceil(PURGE_TABLES), "{turns}, {tables}");
    assert_eq!(stages(), Spilled::There);
}

/// Regression: the words of a segment on flash that cannot be read any more stayed for good.
#[test]
fn words_that_lead_to_some_places_leave_the_index_and_are_not_counted() {
    let cache = filled(Arc::new(ManualClock::new(1_800_000_000)));
    let (before, access) = (cache.flash_items(), FlashIndexAccess::new(&cache));
    // By a bit of the hash: half of them.
    let is_gone = |place: Place| place.0 >> 10 & 1 == 1;
    let removed = ::flash::IndexAccess::remove_where(&access, &is_gone);
    assert!(removed > before / 4 && removed < before, "{removed} of {before}");
    assert_eq!(cache.flash_items(), before - removed);
    assert_eq!(::flash::IndexAccess::remove_where(&access, &is_gone), 0);
    cache.flush(None);
    while cache.maintain() {}
    assert_eq!(cache.flash_items(), 0);
}

/// Regression: each session of those open at once kept as much memory as the longest value that it
/// had met.
#[test]
fn a_session_gives_the_memory_of_long_values_of_flash_back() {
    const LONG: usize = 400_000;
    // With segments that have room for such values.
    let device = FakeDevice::new((256 << 20) / PAGE_BYTES as u64, 1, Faults::default());
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(Arc::new(device), [7; 16]) };
    let builder = Cache::builder().memory_bytes(64 << 20).compress(false).flash(flash);
    let cache = builder.build().expect("it fits");
    let mut random = Xorshift::default();
    let value: Vec<u8> = (0..LONG).map(|_| random.draw() as u8).collect();
    let long = |number: u8| [b'l', number];
    for number in 0..200 {
        let key = long(number);
        let stored = cache.put(&key, &value, Attributes::default(), Condition::Always);
        assert!(stored.is_ok(), "{stored:?}");
        // An item that was read is wanted on flash.
        assert!(cache.get(&key).is_some());
        while cache.maintain() {}
    }
    let is_on_flash = |key: &[u8; 2]| {
        let session = cache.session();
        matches!(session.look_up(key, cache.hash(key)), crate::Lookup::Pending)
    };
    let key = (0..200).map(long).find(is_on_flash).expect("memory has no room for all");
    assert!(cache.get(&key).is_some_and(|found| *found == *value));
    let tier = cache.flash.as_deref().expect("there is a tier");
    let bytes = stdx::sync::lock(&tier.readers).iter().map(::flash::Reader::memory_bytes).max();
    assert!(bytes.is_some_and(|bytes| bytes > 0 && bytes < LONG / 2), "{bytes:?}");
}

/// A device whose syncs take seven seconds, in which it asks the cache for how long.
#[derive(Debug)]
struct Hanging {
    inner: FakeDevice,
    clock: Arc<ManualClock>,
    cache: OnceLock<Weak<Cache>>,
    seen_s: AtomicU64,
}

impl Device for Hanging {
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
        self.inner.write_note(at, source)
    }

    fn sync(&self) -> io::Result<()> {
        self.clock.advance(7);
        let seen_s =
            self.cache.get().and_then(Weak::upgrade).map_or(0, |it| it.flash_unanswered_s());
        self.seen_s.fetch_max(seen_s.into(), Ordering::Relaxed);
        self.inner.sync()
    }
}

/// Regression: a device that hung held up its threads, and nothing showed it.
#[test]
fn the_cache_knows_for_how_long_its_device_has_not_answered() {
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let inner = FakeDevice::new(4096, 1, Faults::default());
    let (cache, seen_s) = Default::default();
    let device = Arc::new(Hanging { inner, clock: clock.clone(), cache, seen_s });
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device.clone(), [7; 16]) };
    let builder = Cache::builder().memory_bytes(8 << 20).compress(false).flash(flash);
    let cache = Arc::new(builder.clock(clock.clone()).build().expect("it fits"));
    device.cache.set(Arc::downgrade(&cache)).expect("set once");
    clock.advance(60);
    (0..10).for_each(|_| while cache.maintain() {});
    assert_eq!(device.seen_s.load(Ordering::Relaxed), 7);
    assert_eq!(cache.flash_unanswered_s(), 0);
    assert_eq!(cache.stats().flash.map(|flash| flash.unanswered_s), Some(0));
}
