//! Recently read items in slabs of many small items.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, Epochs, SizeClasses};

use super::*;
use crate::mark::hit_mark;
use crate::order::hammer::Map;
use crate::{ChunkLayout, Policy, Shortage, TEST_ARENA_BYTES};

const ALL: [Policy; 4] = [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel];
/// Slabs that the zone uses.
const SLABS: usize = 12;
/// Value bytes of the small items, which come first: a slab holds some 20,000.
const SMALL_BYTES: usize = 70;
/// One in this many of these is read all the time.
const HOT_EVERY: usize = 3;
/// Value bytes of the items that come next, and their number.
const LARGE_BYTES: usize = 900;
const LARGE: u32 = 20_000;
/// Hot items that are read at each store.
const READ: usize = 30;
/// Sessions in which a store is tried. A server gives up after 64.
const TRIES_MAX: usize = 32;

/// A zone that uses a few slabs of 2 MiB.
fn zone(policy: Policy) -> Hot {
    let arena = Arc::new(Arena::new(0, TEST_ARENA_BYTES, 8).expect("addresses are there"));
    assert_eq!(arena.slab_bytes(), memory::arena::SLAB_BYTES_MAX);
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, policy.side_bits());
    let (epochs, layout) = (Arc::new(Epochs::new()), ChunkLayout::Inline);
    Hot::new(arena, epochs, sizes, layout, policy, 50, |slabs| slabs - SLABS)
}

/// Reads an item, if it is there.
fn read(hot: &Hot, map: &Map, number: u32) -> bool {
    let guard = hot.epochs.pin();
    let place = lock(&map.places).get(&number.to_le_bytes()[..]).copied();
    // SAFETY: the map led to it under this guard.
    let item = place.map(|place| unsafe { hot.item(&guard, place) });
    item.inspect(|item| item.mark().store(hit_mark(item.mark().load(Relaxed), 0), Relaxed));
    item.is_some()
}

/// Regression: only 2048 read items were rescued from a slab, and the others were evicted with it.
#[test]
#[cfg_attr(miri, ignore = "slabs of 2 MiB")]
fn items_that_are_read_all_the_time_are_rescued_in_any_number() {
    for policy in ALL {
        let (hot, map) = (zone(policy), Map::default());
        let store = |number, bytes| map.store(&hot, number, bytes);
        let small = (0..).find(|&number| {
            store(number, SMALL_BYTES).expect("there is a slab");
            hot.arena.used_slabs() == SLABS - 1
        });
        let small = small.expect("memory ends");
        let read_now: Vec<u32> = (0..small).step_by(HOT_EVERY).collect();
        let mut next = read_now.iter().cycle();
        for number in small + 1..=small + LARGE {
            let tries = (0..TRIES_MAX).find(|_| match store(number, LARGE_BYTES) {
                Ok(_) => true,
                Err(shortage) => {
                    assert_eq!(shortage, Shortage::Pinned);
                    hot.epochs.try_reach(hot.epochs.latest_tag());
                    false
                }
            });
            assert!(tries.is_some(), "{policy:?}: store {number} is refused");
            next.by_ref().take(READ).for_each(|&number| _ = read(&hot, &map, number));
        }
        let lost = read_now.iter().filter(|&&number| !read(&hot, &map, number)).count();
        let class = lock(hot.class(hot.sizes.class_for(SMALL_BYTES + 12)));
        let counters = class.counters;
        assert!(lost * 100 <= read_now.len(), "{policy:?}: {lost} lost, {counters:?}");
        assert!(class.chunks_per_slab > 2 * HOT_EVERY * RESCUES_MAX, "{}", class.chunks_per_slab);
        assert!(counters.slabs_lost >= 2, "{policy:?}: {counters:?}");
    }
}
