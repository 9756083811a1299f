//! What is read all the time stays when its slab goes to another size.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use larder::{Cache, Expiry, Policy, Stats};

const MEMORY_BYTES: usize = 8 << 20;
/// Items with values of so many bytes, so many of them.
#[derive(Debug, Clone, Copy)]
struct Sized {
    bytes: usize,
    count: u32,
}

const SMALL: Sized = Sized { bytes: 150, count: 30_000 };
/// Enough to fill the memory several times.
const LARGE: Sized = Sized { bytes: 900, count: 30_000 };
/// In three pieces.
const LONG: Sized = Sized { bytes: 20_000, count: 240 };
/// Stores from one turn of the background to the next.
const BEHIND: u32 = 256;

/// Fills the memory with items of one size, and then stores those of another, while one of every
/// `hot_every` of the first is read. Returns how many of these there are, and how many were lost.
fn course(policy: Policy, first: Sized, hot_every: usize, then: Sized) -> (usize, usize, Stats) {
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(false).policy(policy);
    let cache = builder.clock(clock).build().unwrap();
    let key = |number: u32| format!("first-{number}").into_bytes();
    let hot: Vec<_> = (0..first.count).step_by(hot_every).map(key).collect();
    let store = |key: &[u8], bytes| cache.set(key, &vec![7; bytes], Expiry::NEVER).unwrap();
    for number in 0..first.count {
        store(&key(number), first.bytes);
    }
    for number in 0..then.count {
        store(format!("then-{number}").as_bytes(), then.bytes);
        let _ = cache.get(&hot[number as usize % hot.len()]);
        if number % BEHIND == 0 {
            while cache.maintain() {}
        }
    }
    let is_right = |key: &&Vec<u8>| {
        cache.get(key).is_some_and(|value| {
            assert!(value == vec![7; first.bytes]);
            true
        })
    };
    let found = hot.iter().filter(is_right).count();
    (hot.len(), hot.len() - found, cache.stats())
}

#[test]
fn what_is_read_all_the_time_is_rescued_when_slabs_go_to_another_size() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel] {
        let (hot, lost, stats) = course(policy, SMALL, 50, LARGE);
        assert!(stats.slabs_moved > 10 && stats.rescued > 50, "{policy:?}: {stats:?}");
        // Where an order is kept, what was renewed a moment ago and not read since looks as if
        // nobody read it.
        let lost_max =
            if matches!(policy, Policy::Clock | Policy::CostClock) { 0 } else { hot / 8 };
        assert!(lost <= lost_max, "{policy:?}: {lost} of {hot} lost, {stats:?}");
    }
}

/// They went with the first slab in which one of their pieces was, or with that of their first
/// chunks, a few dozen bytes of each. Where an order is kept most of them still do: what was
/// renewed a moment ago looks as if nobody read it, and here each is a twentieth of all.
#[test]
fn what_lies_in_pieces_is_rescued_as_well() {
    for (policy, lost_max) in [(Policy::CostClock, 0), (Policy::Clock, 10)] {
        let (hot, lost, stats) = course(policy, LONG, 12, LARGE);
        assert!(stats.slabs_moved > 10 && stats.rescued > 10, "{policy:?}: {stats:?}");
        assert!(lost <= lost_max, "{policy:?}: {lost} of {hot} lost, {stats:?}");
    }
}
