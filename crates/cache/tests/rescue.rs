//! Items that are read all the time stay when their slab goes to another size.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use larder::{Cache, Expiry, Policy, Quota, QuotaSize, Stats};
use stdx::random::Xorshift;

const MEMORY_BYTES: usize = 8 << 20;
/// A number of items with values of this many bytes.
#[derive(Debug, Clone, Copy)]
struct Sized {
    bytes: usize,
    count: u32,
}

const SMALL: Sized = Sized { bytes: 150, count: 30_000 };
/// Fewer than a sixth of the memory holds.
const FEW: Sized = Sized { bytes: 150, count: 5_000 };
/// Enough to fill the memory several times.
const LARGE: Sized = Sized { bytes: 900, count: 30_000 };
/// In three pieces.
const LONG: Sized = Sized { bytes: 20_000, count: 240 };
/// Stores from one turn of the background to the next.
const BEHIND: [Option<u32>; 3] = [Some(256), Some(32), None];
const SEEDS: u64 = 2;

/// A course of stores.
#[derive(Debug, Clone, Copy)]
struct Course {
    policy: Policy,
    first: Sized,
    /// One in this many of the items stored first is read.
    hot_every: usize,
    then: Sized,
    /// Stores from one turn of the background to the next, if it comes.
    behind: Option<u32>,
    /// The seed of the order in which they are read.
    seed: u64,
    /// The first have a quota, in which all of them have room.
    is_bounded: bool,
}

/// Fills the memory with items of one size, and then stores those of another, while some of the
/// first are read, one at each store. Returns how many these are, and how many were lost.
fn run(course: Course) -> (usize, usize, Stats) {
    let Course { policy, first, hot_every, then, behind, seed, is_bounded } = course;
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    let quota = Quota { prefix: (*b"first-").into(), size: QuotaSize::Share(1.0) };
    let quotas = if is_bounded { vec![quota] } else { Vec::new() };
    let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(false).policy(policy);
    let builder = builder.quotas(quotas);
    let cache = builder.clock(clock).build().unwrap();
    let key = |number: u32| format!("first-{number}").into_bytes();
    let mut numbers: Vec<u32> = (0..first.count).collect();
    let mut random = Xorshift::seeded(seed);
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, (random.draw() % (at as u64 + 1)) as usize);
    }
    let hot: Vec<_> = numbers.into_iter().step_by(hot_every).map(key).collect();
    let store = |key: &[u8], bytes| cache.set(key, &vec![7; bytes], Expiry::NEVER).unwrap();
    for number in 0..first.count {
        store(&key(number), first.bytes);
    }
    for number in 0..then.count {
        store(format!("then-{number}").as_bytes(), then.bytes);
        let _ = cache.get(&hot[number as usize % hot.len()]);
        if behind.is_some_and(|behind| number % behind == 0) {
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

/// Checks that under every policy, with and without the background, and whichever items are read,
/// no more than one in `lost_share` is lost of those that are read all the time. At least
/// `moved_min` slabs move.
fn is_kept(first: Sized, hot_every: usize, then: Sized, lost_share: usize, moved_min: u64) {
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel] {
        for behind in BEHIND {
            for seed in 1..=SEEDS {
                let is_bounded = false;
                let course = Course { policy, first, hot_every, then, behind, seed, is_bounded };
                let (hot, lost, stats) = run(course);
                assert!(lost * lost_share <= hot, "{course:?}: {lost} of {hot} lost, {stats:?}");
                let moved = stats.slabs_moved;
                assert!(moved >= moved_min, "{course:?}: {moved} slabs moved, {stats:?}");
            }
        }
    }
}

#[test]
fn items_read_all_the_time_are_rescued_when_slabs_change_size() {
    is_kept(SMALL, 50, LARGE, 100, 30);
}

/// Regression: the last slab of their size has hardly anything else. Where an order was kept they
/// came up again as soon as they had lost their marks, as if they had not been read, and all left
/// at once.
#[test]
fn items_read_all_the_time_stay_in_the_last_slab_of_their_size() {
    is_kept(SMALL, 50, Sized { count: 60_000, ..LARGE }, 100, 30);
    is_kept(SMALL, 80, LARGE, 100, 30);
}

/// Regression: where an order was kept, a slab that was to stay for the items read in it was
/// emptied of just these. All of these are read in fewer stores than the large ones stay.
#[test]
fn items_read_all_the_time_stay_with_their_slabs() {
    is_kept(FEW, 1, LARGE, 10, 0);
}

/// Regression: they left with the first slab in which one of their pieces was, or with that of
/// their first chunks, a few dozen bytes of each.
#[test]
fn an_item_in_pieces_is_rescued() {
    is_kept(LONG, 12, LARGE, 10, 30);
}

/// Regression: they were left where they were: a copy would have lacked the labels of its pieces.
#[test]
fn an_item_in_pieces_is_rescued_under_a_quota() {
    for policy in [Policy::CostClock, Policy::Lru] {
        let (first, hot_every, then, behind, seed) = (LONG, 12, LARGE, Some(256), 1);
        let is_bounded = true;
        let (hot, lost, stats) =
            run(Course { policy, first, hot_every, then, behind, seed, is_bounded });
        assert!(lost * 10 <= hot, "{policy:?}: {lost} of {hot} lost, {stats:?}");
    }
}
