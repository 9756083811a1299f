//! What is read all the time stays when its slab goes to another size.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use larder::{Cache, Expiry, Policy, Stats};

const MEMORY_BYTES: usize = 8 << 20;
const SMALL_BYTES: usize = 150;
const LARGE_BYTES: usize = 900;
/// As many as fit, and every so many of them is read all the time.
const SMALL: u32 = 30_000;
const HOT_EVERY: u32 = 50;
/// Enough to fill the memory several times.
const LARGE: u32 = 30_000;
/// Stores from one turn of the background to the next.
const BEHIND: u32 = 256;

/// Fills the memory with small items, and then stores large ones, while some of the small ones are
/// read. Returns how many of these were lost.
fn course(policy: Policy) -> (usize, Stats) {
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(false).policy(policy);
    let cache = builder.clock(clock).build().unwrap();
    let small = |number: u32| format!("small-{number}").into_bytes();
    let hot: Vec<_> = (0..SMALL).step_by(HOT_EVERY as usize).map(small).collect();
    let store = |key: &[u8], bytes| cache.set(key, &vec![7; bytes], Expiry::NEVER).unwrap();
    for number in 0..SMALL {
        store(&small(number), SMALL_BYTES);
    }
    for number in 0..LARGE {
        store(format!("large-{number}").as_bytes(), LARGE_BYTES);
        let _ = cache.get(&hot[number as usize % hot.len()]);
        if number % BEHIND == 0 {
            while cache.maintain() {}
        }
    }
    (hot.iter().filter(|key| cache.get(key).is_none()).count(), cache.stats())
}

#[test]
fn what_is_read_all_the_time_is_rescued_when_slabs_go_to_another_size() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel] {
        let (lost, stats) = course(policy);
        let hot = (SMALL / HOT_EVERY) as usize;
        assert!(stats.slabs_moved > 10 && stats.rescued > 50, "{policy:?}: {stats:?}");
        // Where an order is kept, what was renewed a moment ago and not read since looks as if
        // nobody read it.
        let lost_max =
            if matches!(policy, Policy::Clock | Policy::CostClock) { 0 } else { hot / 8 };
        assert!(lost <= lost_max, "{policy:?}: {lost} of {hot} lost, {stats:?}");
    }
}
