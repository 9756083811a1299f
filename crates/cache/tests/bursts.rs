//! More stores at once than the background follows: items that leave memory move to flash all the
//! same, as far as buffers go, and never an older value comes back.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use io::device::{FakeDevice, Faults, PAGE_BYTES};
use io::{Clock, ManualClock};
use larder::{Attributes, Cache, Condition, Expiry, FlashSettings, FlashTierStats, Stats};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const VALUE_BYTES: usize = 1000;
/// Three times the memory.
const ITEMS: u32 = 20_000;
/// Stores that come between two turns of the background: more than it keeps free chunks for, and no
/// more than two buffers hold, with the items of a slab or two that the index takes meanwhile.
const STORES_BETWEEN: u32 = 130;

fn cache(compress: bool) -> Cache {
    cache_beside(128, compress)
}

/// Returns a cache of 8 MiB beside `flash_mib` MiB of flash.
fn cache_beside(flash_mib: usize, compress: bool) -> Cache {
    cache_by(Arc::new(ManualClock::new(NOW)), flash_mib, compress)
}

/// Returns a cache of 8 MiB by this clock.
fn cache_by(clock: Arc<dyn Clock>, flash_mib: usize, compress: bool) -> Cache {
    let device = FakeDevice::new(((flash_mib << 20) / PAGE_BYTES) as u64, 1, Faults::default());
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(Arc::new(device), [7; 16]) };
    let builder = Cache::builder().memory_bytes(8 << 20).compress(compress).flash(flash);
    let cache = builder.clock(clock).build().unwrap();
    // The background has come before.
    cache.maintain();
    cache
}

fn flash_of(stats: &Stats) -> FlashTierStats {
    stats.flash.unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("item-{number}").into_bytes()
}

/// Returns a value that compresses by half.
fn value(number: u32, version: u32) -> Vec<u8> {
    value_of(VALUE_BYTES, number, version)
}

fn value_of(bytes: usize, number: u32, version: u32) -> Vec<u8> {
    let mut random = Xorshift::seeded((u64::from(number) << 32) + u64::from(version) + 1);
    (0..bytes).map(|_| b'a' + (random.draw() % 16) as u8).collect()
}

fn put(cache: &Cache, number: u32, version: u32) {
    let value = value(number, version);
    cache.put(&key(number), &value, Attributes::default(), Condition::Always).unwrap();
}

fn maintain(cache: &Cache) {
    while cache.maintain() {}
}

/// Counts the items that are there, all of which have this version's value.
fn found(cache: &Cache, items: u32, version: u32) -> u64 {
    let is_there = |&number: &u32| {
        let found = cache.get(&key(number));
        found.is_some_and(|found| {
            assert!(found == value(number, version), "{number}");
            true
        })
    };
    (0..items).filter(is_there).count() as u64
}

#[test]
fn stores_demote_to_flash_while_the_background_is_behind() {
    for compress in [true, false] {
        let cache = cache(compress);
        for number in 0..ITEMS {
            put(&cache, number, 0);
            if number % STORES_BETWEEN == 0 {
                cache.maintain();
            }
        }
        let stats = cache.stats();
        let flash = flash_of(&stats);
        assert!(flash.handed > u64::from(ITEMS) / 10, "{flash:?}");
        assert_eq!((stats.evicted, flash.refused), (0, 0), "{stats:?}");
        assert_eq!(found(&cache, ITEMS, 0), u64::from(ITEMS));
    }
}

/// The clock of a background on the slowest of processors: whatever it does takes ten milliseconds
/// of it.
#[derive(Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn unix_seconds(&self) -> u32 {
        NOW
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn thread_cpu_us(&self) -> u64 {
        self.0.fetch_add(10_000, Ordering::Relaxed)
    }
}

/// Regression: beside other programs the background had soon used up its share of the time, and
/// evicted thousands of items in a row while flash was empty: stores did not demote.
#[test]
fn what_the_background_has_no_time_for_moves_to_flash_while_most_of_that_is_free() {
    for compress in [true, false] {
        let cache = cache_by(Arc::new(Slow::default()), 128, compress);
        for number in 0..ITEMS {
            put(&cache, number, 0);
            if number % 16 == 0 {
                cache.maintain();
            }
        }
        let stats = cache.stats();
        assert_eq!(stats.evicted, 0, "{stats:?}");
        assert_eq!(found(&cache, ITEMS, 0), u64::from(ITEMS));
    }
}

/// Regression: values in pieces were evicted while flash was empty.
#[test]
fn what_lies_in_pieces_moves_to_flash_as_well() {
    for bytes in [9000, 20_000, 100_000] {
        let cache = cache(false);
        let items = (24 << 20) / bytes as u32;
        let between = (STORES_BETWEEN as usize * VALUE_BYTES / bytes).max(1) as u32;
        let value = |number| value_of(bytes, number, 0);
        for number in 0..items {
            let (key, attributes) = (key(number), Attributes::default());
            cache.put(&key, &value(number), attributes, Condition::Always).unwrap();
            if number % between == 0 {
                cache.maintain();
            }
        }
        let stats = cache.stats();
        let is_there = |&number: &u32| {
            let found = cache.get(&key(number));
            found.is_some_and(|found| {
                assert!(found == value(number), "{number} of {bytes} bytes");
                true
            })
        };
        let found = (0..items).filter(is_there).count() as u64;
        assert!(flash_of(&stats).handed > u64::from(items) / 4, "{bytes} bytes: {stats:?}");
        assert_eq!((stats.evicted, found), (0, u64::from(items)), "{bytes} bytes: {stats:?}");
    }
}

/// Regression: of values in many pieces, only those whose first piece was in a slab moved to flash
/// when that left for another size. The others were evicted with it.
#[test]
fn what_lies_in_pieces_moves_to_flash_with_a_slab_that_leaves() {
    const LONG: u32 = 60;
    const LONG_BYTES: usize = 100_000;
    let cache = cache(false);
    // Stored in turn and then replaced here and there, so that each slab has pieces of many.
    let mut random = Xorshift::seeded(7);
    let replaced = (0..4 * LONG).map(|_| (random.draw() % u64::from(LONG)) as u32);
    for number in (0..LONG).chain(replaced) {
        let value = value_of(LONG_BYTES, number, 0);
        cache.put(&key(number), &value, Attributes::default(), Condition::Always).unwrap();
        maintain(&cache);
    }
    // The background follows: a slab has more of them than all buffers.
    for number in LONG..ITEMS / 2 {
        put(&cache, number, 0);
        maintain(&cache);
    }
    let stats = cache.stats();
    assert!(stats.slabs_moved > 10, "{stats:?}");
    let is_there = |&number: &u32| {
        let found = cache.get(&key(number));
        found.is_some_and(|found| found == value_of(LONG_BYTES, number, 0))
    };
    let found = (0..LONG).filter(is_there).count() as u32;
    assert_eq!((stats.evicted, found), (0, LONG), "{stats:?}");
}

#[test]
fn without_any_background_stores_fill_the_buffers_and_then_evict() {
    let cache = cache(true);
    (0..ITEMS).for_each(|number| put(&cache, number, 0));
    let stats = cache.stats();
    let flash = flash_of(&stats);
    assert!(flash.handed == flash.spilled && flash.handed > 0, "{flash:?}");
    assert!(stats.evicted > u64::from(ITEMS) / 2 && flash.tier.bytes_written == 0, "{stats:?}");
    maintain(&cache);
    let stats = cache.stats();
    assert!(flash_of(&stats).tier.bytes_written > 0);
    assert_eq!(stats.items + stats.evicted, u64::from(ITEMS));
    assert_eq!(found(&cache, ITEMS, 0), stats.items);
}

/// Flash that is half full no longer takes in its full length all items that stores need room for,
/// but it does take those that were read.
#[test]
fn stores_demote_read_items_and_evict_others_when_flash_is_half_full() {
    const BURSTS: u32 = 40;
    /// More items than there are free chunks; one in four is read.
    const BURST: u32 = 600;
    for compress in [true, false] {
        let cache = cache_beside(32, compress);
        for number in 0..2 * ITEMS {
            put(&cache, number, 0);
            if number % 50 == 0 {
                maintain(&cache);
            }
        }
        let before = flash_of(&cache.stats());
        let (segments, free) = (before.tier.segments, before.tier.segments_free);
        assert!(free < segments / 2 && free > segments / 8, "{before:?}");
        let first = 2 * ITEMS;
        let numbers = first..first + BURSTS * BURST;
        for number in numbers.clone() {
            put(&cache, number, 0);
            if number % 4 == 0 {
                assert!(cache.get(&key(number)).is_some());
            }
            if number % BURST == 0 {
                maintain(&cache);
            }
        }
        let stats = cache.stats();
        let handed = flash_of(&stats).handed - before.handed;
        assert!(handed > 1000 && stats.evicted > 1000, "{handed} handed down, {stats:?}");
        let (read, others): (Vec<_>, Vec<_>) = numbers.partition(|number| number % 4 == 0);
        let is_lost = |&&number: &&u32| cache.get(&key(number)).is_none();
        let lost = [&read, &others].map(|keys| keys.iter().filter(is_lost).count());
        assert_eq!(lost[0], 0, "of {} that were read, and {} of the others", read.len(), lost[1]);
    }
}

#[test]
fn a_value_that_was_replaced_in_a_burst_stays_away() {
    let cache = cache(true);
    for version in 0..6 {
        // Each time more of them, and the background comes seldom, or not at all.
        for number in 0..ITEMS {
            put(&cache, number, version);
            if version % 2 == 0 && number % 1000 == 0 {
                cache.maintain();
            }
        }
        assert!(found(&cache, ITEMS, version) > 1000);
        maintain(&cache);
        assert!(found(&cache, ITEMS, version) > 1000);
    }
    assert!(flash_of(&cache.stats()).handed > 0);
}

#[test]
fn an_item_expiring_soon_is_evicted_rather_than_demoted() {
    let cache = cache(true);
    let attributes = Attributes { expiry: Expiry::at(NOW + 30), ..Attributes::default() };
    for number in 0..ITEMS {
        cache.put(&key(number), &value(number, 0), attributes, Condition::Always).unwrap();
    }
    let flash = flash_of(&cache.stats());
    assert!(flash.handed == 0 && flash.expiring > 1000, "{flash:?}");
}

#[test]
fn a_flush_among_bursts_takes_all_that_came_before() {
    let cache = cache(true);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                cache.maintain();
            }
        });
        let storing: Vec<_> = (0..3)
            .map(|thread| {
                let cache = &cache;
                scope.spawn(move || {
                    for number in 0..ITEMS {
                        put(cache, number * 3 + thread, 0);
                        if thread == 0 && number % 1000 == 999 {
                            cache.flush(None);
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = storing.into_iter().map(|thread| thread.join()).collect();
        // Also when one panicked: otherwise the scope would wait for the background for ever.
        is_over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    assert!(flash_of(&cache.stats()).handed > 0);
    cache.flush(None);
    maintain(&cache);
    let stats = cache.stats();
    assert_eq!((stats.items, flash_of(&stats).items), (0, 0));
    assert_eq!(found(&cache, 3 * ITEMS, 0), 0);
    (0..ITEMS).for_each(|number| put(&cache, number, 1));
    assert!(found(&cache, ITEMS, 1) > 1000, "and everything works on");
}
