//! Free chunks of one size make room for another size before any live item is evicted.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use larder::{Attributes, Cache, Condition, Expiry, Policy, Store, Stored};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const MEMORY_BYTES: usize = 16 << 20;
/// The length of small values. They come for some seconds each, first as many as fill most of the
/// memory, then fewer.
const SMALL_BYTES: usize = 150;
const LIFE_SECONDS: u32 = 5;
const MANY_A_SECOND: u32 = 10_000;
const FEW_A_SECOND: u32 = 3_000;
/// One in this many of them lives for ever: there are some in every slab.
const KEPT_SHARE: u32 = 8;
/// The length of large values, which then come as well and live for ever, as many as fit beside the
/// others.
const LARGE_BYTES: usize = 700;
const LARGE_A_SECOND: u32 = 500;
const LARGE: u32 = 8_000;
/// Stores before the background comes.
const BEHIND: u32 = 100;

fn nothing_alive_is_lost(policy: Policy) {
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(false).policy(policy);
    let cache = builder.clock(clock.clone()).build().unwrap();
    let store = |key: String, bytes: usize, expiry: u32| {
        let attributes = Attributes { expiry: Expiry::at(expiry), ..Attributes::default() };
        cache.put(key.as_bytes(), &vec![b'v'; bytes], attributes, Condition::Always).unwrap();
    };
    let (mut small, mut large, mut second) = (0_u32, 0_u32, 0);
    let mut store_for_a_second = |small_a_second: u32, large_a_second: u32| {
        for number in 0..small_a_second {
            let is_kept = small.is_multiple_of(KEPT_SHARE);
            let expiry = if is_kept { 0 } else { NOW + second + LIFE_SECONDS };
            store(format!("small-{small}"), SMALL_BYTES, expiry);
            small += 1;
            if large_a_second > 0 && number.is_multiple_of(small_a_second / large_a_second) {
                store(format!("large-{large}"), LARGE_BYTES, 0);
                large += 1;
            }
            if number.is_multiple_of(BEHIND) {
                while cache.maintain() {}
            }
        }
        clock.advance(1);
        second += 1;
        while cache.maintain() {}
    };
    (0..2 * LIFE_SECONDS).for_each(|_| store_for_a_second(MANY_A_SECOND, 0));
    (0..2 * LIFE_SECONDS).for_each(|_| store_for_a_second(FEW_A_SECOND, 0));
    let before = cache.stats();
    (0..LARGE / LARGE_A_SECOND).for_each(|_| store_for_a_second(FEW_A_SECOND, LARGE_A_SECOND));
    let stats = cache.stats();
    assert_eq!(stats.evicted, before.evicted, "{policy:?}: {stats:?}");
    let has = |number: u32| cache.get(format!("large-{number}").as_bytes()).is_some();
    assert!((0..LARGE).all(has), "{policy:?}");
    assert!(stats.slabs_moved > 20 && stats.rescued > 1_000, "{policy:?}: {stats:?}");
}

#[test]
fn free_chunks_of_one_size_make_room_for_another() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel] {
        nothing_alive_is_lost(policy);
    }
}

/// Regression: values in pieces kept their slabs, and the free chunks there were of use to no other
/// size.
#[test]
fn free_pieces_of_long_values_make_room_for_other_sizes() {
    const LONG: u32 = 240;
    const LONG_BYTES: usize = 20_000;
    const SHORT: u32 = 5_000;
    const SHORT_BYTES: usize = 900;
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel] {
        let builder = Cache::builder().memory_bytes(8 << 20).compress(false).policy(policy);
        let cache = builder.clock(Arc::new(ManualClock::new(NOW))).build().unwrap();
        let store = |key: &str, bytes: usize| {
            let (value, attributes) = (vec![b'v'; bytes], Attributes::default());
            cache.put(key.as_bytes(), &value, attributes, Condition::Always).unwrap();
            while cache.maintain() {}
        };
        let long = |number: u32| format!("long-{number}");
        (0..LONG).for_each(|number| store(&long(number), LONG_BYTES));
        // Three of four are removed, here and there.
        let mut random = Xorshift::seeded(7);
        let (gone, kept): (Vec<u32>, Vec<u32>) =
            (0..LONG).partition(|_| !random.draw().is_multiple_of(4));
        assert!(gone.iter().all(|&number| cache.remove(long(number).as_bytes())));
        (0..SHORT).for_each(|number| store(&format!("short-{number}"), SHORT_BYTES));
        let stats = cache.stats();
        assert_eq!(stats.evicted, 0, "{policy:?}: {stats:?}");
        assert!(stats.slabs_moved > 5, "{policy:?}: {stats:?}");
        for number in kept {
            let found = cache.get(long(number).as_bytes());
            assert!(found.is_some_and(|found| found == [b'v'; LONG_BYTES]), "{policy:?}");
        }
    }
}

/// Regression: a value that was on its way while its slab was vacated, and for which there was no
/// chunk left in the others when it was stored, left with the slab: its client had been told that
/// it is there.
#[test]
fn a_value_arriving_in_a_vacated_slab_stays_without_eviction() {
    let builder = Cache::builder().memory_bytes(4 << 20).compress(false).evict(false);
    let cache = builder.clock(Arc::new(ManualClock::new(NOW))).build().unwrap();
    let key = |number: u32| format!("key-{number:06}");
    let value = [b'v'; 100];
    let put = |key: String, value: &[u8]| {
        let stored = cache.put(key.as_bytes(), value, Attributes::default(), Condition::Always);
        stored.is_ok()
    };
    let mut late = cache.reserve(b"key-late", Attributes::default(), value.len()).unwrap();
    let stored = (0..).find(|&number| !put(key(number), &value)).unwrap();
    assert!(stored > 10_000);
    let slab_items = stored / 16;
    for number in (0..slab_items).chain((slab_items..stored).step_by(2)) {
        assert!(cache.remove(key(number).as_bytes()));
    }
    assert!(put("large".to_owned(), &[b'v'; 5000]), "a slab is vacated for it");
    while cache.maintain() {}
    let mut next = stored;
    while put(key(next), &value) {
        next += 1;
    }
    late.write(&value);
    let stored_late = cache.session().store(late, Store::when(Condition::Always));
    assert!(matches!(stored_late, Ok(Stored::Stored { .. })));
    (0..4).for_each(|_| while cache.maintain() {});
    assert!(cache.get(b"key-late").is_some());
    let alive =
        |number: &u32| *number >= stored || *number >= slab_items && (number - slab_items) % 2 == 1;
    let lost =
        (0..next).filter(alive).filter(|&number| cache.get(key(number).as_bytes()).is_none());
    assert_eq!(lost.count(), 0);
}

/// Regression: the background span for as long as slabs above a lowered limit could not leave: it
/// had said that there was more to do at once, whether anything came of its turns or not.
#[test]
fn the_background_rests_while_nothing_may_leave_for_a_lower_limit() {
    let builder = Cache::builder().memory_bytes(16 << 20).compress(false).evict(false);
    let cache = builder.clock(Arc::new(ManualClock::new(NOW))).build().unwrap();
    let key = |number: u32| number.to_le_bytes();
    let set = |number: u32| cache.set(&key(number), &[b'v'; 1000], Expiry::NEVER);
    let stored = (0..).take_while(|&number| set(number).is_ok()).count() as u32;
    // The index may gather its tables in fewer slabs meanwhile.
    let item_bytes = || cache.stats().used_bytes - cache.stats().table_slab_bytes;
    let before = item_bytes();
    cache.set_memory_bytes(4 << 20).unwrap();
    let rests = || (0..1000).any(|_| !cache.maintain());
    assert!(rests(), "{:?}", cache.stats());
    assert!((0..stored).all(|number| cache.get(&key(number)).is_some()));
    assert_eq!(item_bytes(), before, "nothing could leave");

    // Slabs that can leave later do.
    assert!((0..stored).all(|number| cache.remove(&key(number))));
    while cache.stats().used_bytes > cache.stats().limit_bytes {
        assert!(rests(), "{:?}", cache.stats());
    }
}
