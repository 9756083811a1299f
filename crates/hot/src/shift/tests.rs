//! Slabs that are to leave while some of their items are read.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, Epochs, SizeClasses};

use super::*;
use crate::evict::RoomRequest;
use crate::mark::hit_mark;
use crate::order::hammer::{Map, settle};
use crate::{ChunkLayout, Policy};

const ALL: [Policy; 4] = [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel];
const MEMORY_BYTES: usize = 4 << 20;
/// Sessions in which a store is tried. A server gives up after 64.
const ATTEMPTS: usize = 8;
/// Values of three classes.
const BYTES: [usize; 3] = [500, 900, 1500];

fn zone(policy: Policy) -> Hot {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, policy.side_bits());
    let (epochs, layout) = (Arc::new(Epochs::new()), ChunkLayout::Inline);
    Hot::new(arena, epochs, sizes, layout, policy, 50, |_| 1)
}

/// Stores items until `used_slabs` slabs are used and their class has no free chunk. Returns the
/// class, and the places of the items.
fn fill(hot: &Hot, map: &Map, bytes: usize, used_slabs: usize) -> (ClassId, Vec<Place>) {
    let (first, mut places) = (lock(&map.places).len() as u32, Vec::new());
    for number in first.. {
        places.push(map.store(hot, number, bytes).expect("the memory is not full"));
        let id = hot.class_at(places[0]);
        if hot.arena.used_slabs() >= used_slabs && lock(hot.class(id)).free == 0 {
            return (id, places);
        }
    }
    unreachable!("memory ends")
}

/// Reads the item at a place, where there is one.
fn read(hot: &Hot, place: Place) {
    let guard = hot.epochs.pin();
    // SAFETY: the map points at it, and no thread unlinks anything.
    let mark = unsafe { hot.item(&guard, place) }.mark();
    mark.store(hit_mark(mark.load(Relaxed), 0), Relaxed);
}

/// Drains the slab that a class would miss least.
fn drain_oldest(hot: &Hot, map: &Map, id: ClassId) -> Drained {
    let offers = hot.offers(map).0;
    let offer = offers.iter().find(|offer| offer.class == id).expect("it has slabs");
    hot.drain(offer, false, map)
}

/// Regression: a wait in one class, perhaps long ago, counted in another: its slab left before the
/// chunks for its read items had come.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn each_class_waits_for_its_rescues_and_again_after_sparing_a_slab() {
    for policy in ALL {
        let (hot, map) = (zone(policy), Map::default());
        let (first, of_first) = fill(&hot, &map, BYTES[0], hot.arena.limit_slabs() / 2);
        let (second, of_second) = fill(&hot, &map, BYTES[1], hot.arena.limit_slabs() - 1);
        of_first.iter().chain(&of_second).step_by(10).for_each(|&place| read(&hot, place));
        let _reader = hot.epochs.pin();
        for round in 0..RESCUE_WAITS_MAX {
            assert_eq!(drain_oldest(&hot, &map, first), Drained::Waits, "{policy:?}, {round}");
        }
        assert_eq!(drain_oldest(&hot, &map, second), Drained::Waits, "{policy:?}");
        {
            let mut class = lock(hot.class(first));
            let mutations = map.mutations.load(Relaxed);
            let oldest = class.oldest_slab(hot.zone(), mutations).expect("it has slabs");
            class.spare(hot.zone(), oldest, mutations);
        }
        for round in 0..RESCUE_WAITS_MAX {
            assert_eq!(drain_oldest(&hot, &map, first), Drained::Waits, "{policy:?}, {round}");
        }
        assert_eq!(drain_oldest(&hot, &map, first), Drained::Leaves, "{policy:?}");
    }
}

/// Regression: it left at once, unnoticed: the class that asked evicted its own items.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn an_empty_slab_goes_to_another_class_and_nothing_with_it() {
    for policy in ALL {
        let (hot, map) = (zone(policy), Map::default());
        let (older, of_older) = fill(&hot, &map, BYTES[0], 1);
        let guard = hot.epochs.pin();
        lock(&map.places).clear();
        // SAFETY: the map pointed at them until just now, under this guard.
        of_older.into_iter().for_each(|place| unsafe { hot.retire(&guard, place) });
        drop(guard);
        settle(&hot);
        map.mutations.fetch_add(1 << 20, Relaxed);
        let (newer, of_newer) = fill(&hot, &map, BYTES[1], hot.arena.limit_slabs() - 1);
        // As if the slab had been asked for before.
        lock(hot.class(older)).stores = false;
        let number = of_newer.len() as u32 + 1;
        let tries = (1..=ATTEMPTS).find(|_| map.store(&hot, number, BYTES[1]).is_ok());
        assert!(tries.is_some(), "{policy:?}");
        let counters = |id| lock(hot.class(id)).counters;
        let counts = (counters(newer).evicted, counters(older).slabs_lost);
        assert_eq!(counts, (0, 1), "{policy:?}, {tries:?} tries");
    }
}

/// Regression: the only slab of a class stayed however empty it was, since the class would have
/// kept a reserve in it: live items were evicted in its place.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn a_request_that_must_have_a_slab_gets_even_a_young_empty_one() {
    for policy in ALL {
        let (hot, map) = (zone(policy), Map::default());
        let (of_living, _) = fill(&hot, &map, BYTES[0], hot.arena.limit_slabs() - 1);
        map.mutations.fetch_add(1 << 20, Relaxed);
        let (of_none, places) = fill(&hot, &map, BYTES[1], hot.arena.limit_slabs());
        let guard = hot.epochs.pin();
        // SAFETY: the map has pointed at them so far, and does not from now on.
        let forget = |place| unsafe {
            let item = hot.item(&guard, place);
            lock(&map.places).remove(item.key());
            hot.retire(&guard, place);
        };
        places.into_iter().for_each(forget);
        drop(guard);
        settle(&hot);
        assert!(hot.give_up_slabs(1, &map), "{policy:?}");
        let counters = |id| lock(hot.class(id)).counters;
        let counts = (counters(of_living).evicted, counters(of_none).slabs_lost);
        assert_eq!(counts, (0, 1), "{policy:?}");
    }
}

/// Regression: slab after slab was spared and lost its unread items, until one left with all of its
/// own: more than twice as many were evicted as was asked for.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn items_evicted_from_spared_slabs_make_room_for_one_to_leave() {
    for policy in ALL {
        let (hot, map) = (zone(policy), Map::default());
        let (id, places) = fill(&hot, &map, BYTES[0], hot.arena.limit_slabs() - 1);
        // 55 % of the items of each slab.
        let is_read = |&(number, _): &(usize, _)| number % 20 < 11;
        places.iter().enumerate().filter(is_read).for_each(|(_, &place)| read(&hot, place));
        map.mutations.fetch_add(1 << 20, Relaxed);
        let reserve = lock(hot.class(id)).reserve_target();
        let before = hot.evict_or_demote(id, RoomRequest::of_unread(reserve), &map);
        assert!(before >= reserve, "{policy:?}");
        settle(&hot);
        let came = (0..ATTEMPTS).any(|_| {
            let comes = hot.give_up_slabs(1, &map);
            settle(&hot);
            comes && lock(hot.class(id)).counters.slabs_lost > 0
        });
        let class = lock(hot.class(id));
        let evicted = class.counters.evicted as usize - before;
        let slab = class.chunks_per_slab;
        assert!(came && class.counters.slabs_lost == 1, "{policy:?}");
        assert!(evicted <= slab + slab / 2, "{policy:?}: {evicted} of {slab}");
    }
}

/// Regression: while readers had yet to leave the chunks for the rescue, a store took the other
/// class's slab for one that stays: it evicted its own items, which are newer.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn a_class_that_needs_a_slab_waits_for_the_rescue_from_it() {
    for policy in ALL {
        let (hot, map) = (zone(policy), Map::default());
        let (older, of_older) = fill(&hot, &map, BYTES[0], hot.arena.limit_slabs() - 2);
        of_older.iter().step_by(10).for_each(|&place| read(&hot, place));
        map.mutations.fetch_add(1 << 20, Relaxed);
        let (newer, _) = fill(&hot, &map, BYTES[1], hot.arena.limit_slabs() - 1);
        let read_keys = (0..of_older.len() as u32).step_by(10);
        let number = lock(&map.places).len() as u32;
        let tries = (1..=ATTEMPTS).find(|_| map.store(&hot, number, BYTES[1]).is_ok());
        assert!(tries.is_some(), "{policy:?}");
        let counters = |id| lock(hot.class(id)).counters;
        let counts = (counters(newer).evicted, counters(older).slabs_lost);
        assert_eq!(counts, (0, 1), "{policy:?}, {tries:?} tries");
        let places = lock(&map.places);
        let lost = read_keys.filter(|number| !places.contains_key(&number.to_le_bytes()[..]));
        assert_eq!(lost.count(), 0, "{policy:?}");
    }
}

/// Regression: a store took the room that it needed from another class, whose slab went back to the
/// system: each store made the hot zone smaller by one, although the compressed zone was about to
/// give up all that a lowered limit was exceeded by.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn a_store_costs_no_other_class_a_slab_while_a_lowered_limit_is_exceeded() {
    for policy in ALL {
        let (hot, map) = (zone(policy), Map::default());
        let limit_slabs = hot.arena.limit_slabs();
        let (older, _) = fill(&hot, &map, BYTES[0], limit_slabs / 2);
        map.mutations.fetch_add(1 << 20, Relaxed);
        let (_, of_newer) = fill(&hot, &map, BYTES[1], limit_slabs - 1);
        hot.arena.set_limit_slabs(limit_slabs / 2);
        let count = of_newer.len() as u32;
        for number in count..2 * count {
            let tries = (1..=ATTEMPTS).find(|_| {
                hot.maintain(false, &map);
                map.store(&hot, number, BYTES[1]).is_ok()
            });
            assert!(tries.is_some(), "{policy:?}");
        }
        assert_eq!(lock(hot.class(older)).counters.slabs_lost, 0, "{policy:?}");
    }
}
