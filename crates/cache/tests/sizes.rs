//! Which items are kept when sizes mix and shift: memory goes where it is stored, and the items
//! stored last are there, whatever their size and under every policy.

use std::sync::Arc;

use io::ManualClock;
use larder::{Attributes, Cache, Condition, Expiry, Policy};

const MIB: usize = 1 << 20;
/// Bytes stored between two turns of the background, which in a server runs beside the stores.
const TURN_BYTES: usize = 256 << 10;
/// Bytes between two turns where the background never comes.
const NO_TURNS: usize = usize::MAX;

const POLICIES: [Policy; 4] = [Policy::Clock, Policy::CostClock, Policy::GdWheel, Policy::Lru];

fn cache(memory_bytes: usize, policy: Policy) -> Cache {
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let builder = Cache::builder().memory_bytes(memory_bytes).policy(policy).clock(clock);
    builder.build().expect("addresses are there")
}

/// Returns a length between 10 bytes and 1 MiB, each doubling as frequent as the next.
fn mixed_bytes(number: u64) -> usize {
    // SplitMix64's finish: any number gives an unrelated one.
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let share = (bits ^ (bits >> 31)) as f64 / u64::MAX as f64;
    let (low, high) = (10_f64.ln(), ((MIB - 1024) as f64).ln());
    (low + share * (high - low)).exp() as usize
}

fn key(number: u64) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

/// Stores items from `first` on until they are `bytes` together; returns the next number.
fn fill(cache: &Cache, first: u64, bytes: usize, size: impl Fn(u64) -> usize) -> u64 {
    fill_with_turns(cache, first, bytes, TURN_BYTES, size)
}

/// [`fill`] with a turn of the background after every `turn_bytes`.
fn fill_with_turns(
    cache: &Cache,
    first: u64,
    bytes: usize,
    turn_bytes: usize,
    size: impl Fn(u64) -> usize,
) -> u64 {
    let (mut number, mut stored, mut turn) = (first, 0, 0);
    let value = vec![7; MIB];
    while stored < bytes {
        let value_bytes = size(number);
        cache.set(&key(number), &value[..value_bytes], Expiry::NEVER).expect("old items make room");
        stored += 24 + value_bytes;
        number += 1;
        if stored / turn_bytes > turn {
            turn = stored / turn_bytes;
            while cache.maintain() {}
        }
    }
    number
}

/// Returns how many of the items stored last, up to `bytes` of them, there were, and how many still
/// are.
fn recent(cache: &Cache, next: u64, bytes: usize, size: impl Fn(u64) -> usize) -> (usize, usize) {
    let (mut asked, mut found, mut left) = (0, 0, bytes);
    for number in (0..next).rev() {
        let Some(rest) = left.checked_sub(24 + size(number)) else {
            break;
        };
        left = rest;
        asked += 1;
        found += usize::from(cache.get(&key(number)).is_some());
    }
    (asked, found)
}

/// Regression: a large item lies in many chunks. The hand judged it at each of them, and passed
/// over victims that it had gathered without need; so of a mix of sizes a tenth of the newest items
/// was gone.
#[test]
fn the_newest_of_mixed_sizes_are_there() {
    for policy in POLICIES {
        for memory in [64, 256] {
            let cache = cache(memory * MIB, policy);
            let mut next = 0;
            for _ in 0..4 {
                next = fill(&cache, next, memory * MIB, mixed_bytes);
                let (asked, found) = recent(&cache, next, memory * MIB / 10, mixed_bytes);
                assert!(found * 100 >= asked * 97, "{policy:?}, -m {memory}: {found} of {asked}");
            }
        }
    }
}

/// Regression: slabs that an idle class lost counted as its evictions, so that it kept a third of
/// the memory although nothing was stored in it or read from it any more.
#[test]
fn an_idle_size_gives_its_memory_up() {
    for policy in POLICIES {
        let cache = cache(64 * MIB, policy);
        let small = fill(&cache, 0, 96 * MIB, |_| 32);
        let next = fill(&cache, small, 96 * MIB, |_| 270);
        let kept = (0..small).filter(|&number| cache.get(&key(number)).is_some()).count();
        let (asked, found) = recent(&cache, next, 40 * MIB, |_| 270);
        assert!(kept * 20 < small as usize, "{policy:?}: {kept} old ones of {small}");
        assert!(found * 100 >= asked * 98, "{policy:?}: {found} of {asked}");
    }
}

/// Regression: a thousand times as many items need a larger index. A slab that was drained for it
/// could still be seen by the very session that stored, which then found no memory now and then.
#[test]
fn a_size_that_follows_a_mix_gets_the_memory() {
    for policy in POLICIES {
        let cache = cache(64 * MIB, policy);
        let large = fill(&cache, 0, 96 * MIB, |_| 4000);
        let mixed = fill(&cache, large, 96 * MIB, mixed_bytes);
        let (asked, found) = recent(&cache, mixed, 6 * MIB, mixed_bytes);
        assert!(found * 100 >= asked * 97, "{policy:?}: {found} of {asked}");
        let next = fill(&cache, mixed, 96 * MIB, |_| 32);
        let (asked, found) = recent(&cache, next, 32 * MIB, |_| 32);
        assert!(found * 100 >= asked * 98, "{policy:?}: {found} of {asked}");
    }
}

/// Regression: whether slabs moved to a size that had become frequent was left to the background,
/// which counted evictions for a while first. Until it came, such a size evicted the items that it
/// had stored a moment ago, while others kept items of long before: of the newest tenth, up to half
/// was gone.
#[test]
fn the_items_stored_last_are_there_whatever_came_before() {
    for policy in POLICIES {
        for (memory, seed) in [(16, 0), (16, 1), (32, 2), (64, 3)] {
            for turn_bytes in [NO_TURNS, TURN_BYTES] {
                let cache = cache(memory * MIB, policy);
                let bytes = memory * MIB * 3 / 2;
                let mut next = 0;
                for size in [24, 276, 4072] {
                    next = fill_with_turns(&cache, next, bytes, turn_bytes, |_| size);
                }
                let mixed = |number| mixed_bytes(number + (seed << 40));
                let (mut asked, mut found) = (0, 0);
                for _ in 0..8 {
                    next = fill_with_turns(&cache, next, memory * MIB / 5, turn_bytes, mixed);
                    let newest = recent(&cache, next, memory * MIB / 10, mixed);
                    (asked, found) = (asked + newest.0, found + newest.1);
                }
                let what =
                    format!("{policy:?}, -m {memory}, seed {seed}, a turn each {turn_bytes} bytes");
                assert!(found * 100 >= asked * 97, "{what}: {found} of {asked}");
            }
        }
    }
}

/// In a size that is overwritten all the time there is something new in every slab.
#[test]
fn a_size_that_is_overwritten_leaves_room_for_another() {
    for policy in POLICIES {
        let cache = cache(64 * MIB, policy);
        let kept = fill(&cache, 0, 60 * MIB, |_| 1000);
        let mut next = kept;
        while next < 4 * kept {
            next = fill(&cache, next, 64 << 10, |_| 270);
            for number in next..next + 64 {
                let again = mixed_bytes(number) as u64 * 7919 % kept;
                fill(&cache, again, 1, |_| 1000);
            }
        }
        let (asked, found) = recent(&cache, next, 6 * MIB, |_| 270);
        assert!(found * 100 >= asked * 97, "{policy:?}: {found} of {asked}");
    }
}

/// Regression: values that were stored a moment ago were evicted, though those that all other sizes
/// would have evicted were a hundred times as old: in the slabs of these much had been stored since
/// a hand came by.
#[test]
fn what_is_stored_anew_all_the_time_stays_beside_a_churn_of_others() {
    const ROUNDS: u64 = 20_000;
    for policy in POLICIES {
        let cache = cache(12 * MIB, policy);
        let value = vec![7; 50_000];
        let (mut gone, mut number) = (0, 1000);
        for round in 0..ROUNDS {
            // A key of few, longer each time, as if something were appended.
            let long = key(round % 5);
            gone += u64::from(round >= 5 && cache.get(&long).is_none());
            let bytes = 20_000 + round as usize % 30_000;
            cache.set(&long, &value[..bytes], Expiry::NEVER).expect("old items make room");
            for _ in 0..15 {
                number += 1;
                let key = key(1000 + mixed_bytes(number) as u64 % 30_000);
                let bytes = 7 + mixed_bytes(number + 7) % 1400;
                cache.set(&key, &value[..bytes], Expiry::NEVER).expect("old items make room");
            }
            if round % 32 == 0 {
                while cache.maintain() {}
            }
        }
        assert!(gone <= 6, "{policy:?}: {gone} of {ROUNDS}");
    }
}

/// Regression: reads, of low numbers mostly, of items of any size and a cost that has nothing to do
/// with it, 1 ms to 0.6 s. Classes that keep an order by costs have costly items in every slab;
/// each slab that moved took them along, thousands did, and the misses cost as much as without
/// knowing costs.
#[test]
fn costly_items_stay_when_sizes_mix() {
    let keys = 100_000_f64;
    let share = |number: u64| f64::from(mixed_bytes(number) as u32).log(MIB as f64);
    let lost_us = |policy| {
        let cache = cache(16 * MIB, policy);
        let (value, mut lost_us) = (vec![7; MIB], 0);
        for request in 0..600_000 {
            let number = keys.powf(share(request)) as u64;
            if cache.get(&key(number)).is_none() {
                let cost_us = (200.0 * 3000_f64.powf(share(number << 20))) as u32;
                lost_us += u64::from(cost_us);
                let attributes = Attributes { cost_us, ..Attributes::default() };
                let value_bytes = 40 + (8000.0 * share(number << 30).powi(4)) as usize;
                let value = &value[..value_bytes];
                cache.put(&key(number), value, attributes, Condition::Always).expect("room");
            }
            if request % 1000 == 0 {
                while cache.maintain() {}
            }
        }
        lost_us
    };
    let without = lost_us(Policy::Clock);
    for policy in [Policy::CostClock, Policy::GdWheel] {
        let with = lost_us(policy);
        assert!(with * 20 < without * 17, "{policy:?}: {with} us of {without}");
    }
}

/// Tables of the index grow at about the same time, each away from a gap that is too short for the
/// next. When memory is full they move together, in slabs of 512 KiB and more.
#[test]
fn the_index_leaves_little_of_its_slabs_idle() {
    let builder = Cache::builder().memory_bytes(256 * MIB).compress(false);
    let cache = builder.build().expect("addresses are there");
    let mut number = 0;
    let mut store = |items: u64| {
        for _ in 0..items {
            let stored =
                cache.put(&key(number), &[1; 24], Attributes::default(), Condition::Always);
            assert!(stored.is_ok(), "{stored:?}");
            number += 1;
            if number.is_multiple_of(256) {
                cache.maintain();
            }
        }
        cache.stats()
    };
    let filling = store(3_800_000);
    assert_eq!((filling.evicted, filling.index_moves), (0, 0), "{filling:?}");
    assert!(filling.table_slab_bytes * 100 > filling.index_bytes * 115, "{filling:?}");
    let full = store(600_000);
    assert!(full.evicted > 100_000 && full.index_moves > 0, "{full:?}");
    assert!(full.table_slab_bytes * 100 < full.index_bytes * 115, "{full:?}");
    for number in number - 1000..number {
        assert!(cache.get(&key(number)).is_some(), "{number}");
    }
}
