//! The chunks in one thread's magazines: where a slab leaves, where the class runs out, and in the
//! statistics.

mod stores;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, Epochs, SizeClasses};
use policy::cost_clock::CostClock;

use super::*;
use crate::order::hammer::Map;
use crate::{ChunkLayout, Draft, Fields, PRESSED_CLASS, Policy, Shortage};

const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 4 << 20 };
const VALUE_BYTES: usize = if cfg!(miri) { 4000 } else { 30 };
/// So that a magazine of a class with one slab may have more than a few chunks.
const SHARE: usize = if cfg!(miri) { 2 } else { 64 };
/// Threads that are started for one that has another's magazine: tests beside this one start some.
const TRIES_MAX: usize = 64;

/// A zone with one magazine for all threads, which has one in `share` of a class's chunks.
fn zone_with(policy: Policy, share: usize) -> Hot {
    zone_of(1, policy, share)
}

/// A zone with magazines for this many threads.
fn zone_of(threads: usize, policy: Policy, share: usize) -> Hot {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, policy.side_bits());
    let epochs = Arc::new(Epochs::new());
    let layout = ChunkLayout::Inline;
    Hot::new(arena, epochs, sizes, layout, policy, 50, |_| 1).with_magazines(threads, share)
}

fn draft<'h>(hot: &'h Hot, map: &Map, number: u32, bytes: usize) -> Result<Draft<'h>, Shortage> {
    let (fields, key) = (Fields::default(), number.to_le_bytes());
    let layout = hot.layout(&fields, key.len(), bytes);
    let mut draft = hot.draft(layout, &fields, &key, map)?;
    draft.write(&vec![7; bytes]);
    Ok(draft)
}

fn publish(map: &Map, number: u32, draft: Draft<'_>) -> Place {
    let sequence = map.mutations.fetch_add(1, Relaxed) + 1;
    let mut places = lock(&map.places);
    let place = draft.publish(sequence as u32, 0, 0);
    places.insert(number.to_le_bytes().to_vec(), place);
    place
}

fn store(hot: &Hot, map: &Map, number: u32) -> Place {
    publish(map, number, draft(hot, map, number, VALUE_BYTES).expect("there is room"))
}

fn remove(hot: &Hot, map: &Map, number: u32) {
    let guard = hot.epochs.pin();
    let removed = lock(&map.places).remove(&number.to_le_bytes()[..]);
    // SAFETY: the map pointed at it until just now, under this guard.
    removed.into_iter().for_each(|place| unsafe { hot.retire(&guard, place) });
}

/// Stores two items: with the first the class gets a slab, with the second the magazine chunks.
fn store_two(hot: &Hot, map: &Map) -> ClassId {
    store(hot, map, 0);
    hot.class_at(store(hot, map, 1))
}

/// The magazine's free chunks, and the number of retired and of unentered ones.
fn parked(hot: &Hot, id: ClassId) -> (Vec<Place>, usize, usize) {
    let magazine = lock(&hot.magazines.as_ref().expect("there are some").own(id).magazine);
    (magazine.free.clone(), magazine.retired.len(), magazine.unentered.len())
}

/// Regression: `stats` counted 17 items where there was one.
#[test]
fn chunks_in_magazines_do_not_count_as_items() {
    let (hot, map) = (zone_with(Policy::Clock, SHARE), Map::default());
    let id = store_two(&hot, &map);
    assert!(!parked(&hot, id).0.is_empty(), "the magazine is stocked");
    let of_class = || {
        let stats = hot.stats()[usize::from(id.0)];
        assert_eq!(hot.used_bytes(), stats.used_chunks * stats.chunk_bytes);
        (stats.used_chunks, stats.free_chunks)
    };
    let chunks = lock(hot.class(id)).chunks_per_slab;
    assert_eq!(of_class(), (2, chunks - 2));
    remove(&hot, &map, 1);
    assert_eq!((parked(&hot, id).1, of_class()), (1, (1, chunks - 2)));
}

#[test]
fn a_leaving_slab_hands_out_no_chunk_and_leaves_with_its_last() {
    for by_maintenance in [false, true] {
        let (hot, map) = (zone_with(Policy::Clock, SHARE), Map::default());
        let id = store_two(&hot, &map);
        let (free, ..) = parked(&hot, id);
        let (slab, _) = hot.arena.locate(free[0]);
        {
            // Another one that stays.
            let mut class = lock(hot.class(id));
            assert!(hot.adopt_free_slab(&mut class, &map));
            class.start_draining(hot.zone(), slab);
        }
        let place = store(&hot, &map, 2);
        assert_ne!(hot.arena.locate(place).0, slab, "nothing is allocated in a slab that leaves");
        // One more of its chunks is parked, as if a thread had retired it and then slept.
        [0, 1].into_iter().for_each(|number| remove(&hot, &map, number));
        assert!(hot.zone().slab(slab).belongs_to(id) && parked(&hot, id).1 == 2);
        if by_maintenance {
            for _ in 0..4 {
                hot.maintain(false, &map);
                hot.sweep();
            }
        } else {
            hot.sweep_draining();
        }
        assert!(!hot.zone().slab(slab).belongs_to(id), "by maintenance: {by_maintenance}");
    }
}

/// Chunks to be entered are looked at again: they may be free by then, or their slab another
/// class's.
#[test]
fn a_chunk_that_left_before_the_order_was_told_is_not_entered() {
    for comes_back in [false, true] {
        let (hot, map) = (zone_with(Policy::Lru, SHARE), Map::default());
        // Two come from the class, the next ones from the magazine.
        let id = store_two(&hot, &map);
        let place = store(&hot, &map, 2);
        let (slab, _) = hot.arena.locate(place);
        assert_eq!(parked(&hot, id).2, 1, "the order knows nothing of it");
        let unentered = |place| {
            let magazines = hot.magazines.as_ref().expect("there are some");
            lock(&magazines.own(id).magazine).unentered = vec![place];
        };
        [0, 1, 2].into_iter().for_each(|number| remove(&hot, &map, number));
        hot.collect(id);
        hot.sweep();
        let place = hot.arena.place(slab, 0);
        // The chunk that is entered too late is free.
        unentered(place);
        hot.collect(id);
        let is_in = |class: &Class| class.policy.order().expect("LRU").has(hot.zone(), place);
        assert!(!is_in(&lock(hot.class(id))), "it is free");
        {
            let mut class = lock(hot.class(id));
            class.start_draining(hot.zone(), slab);
            assert!(class.slabs.is_empty());
        }
        let other = (usize::from(id.0) + 5) % hot.sizes.count();
        let owner = if comes_back { id } else { ClassId(other as u8) };
        let mut class = lock(hot.class(owner));
        let zone = hot.zone();
        class.adopt(zone, hot.arena.take(0).expect("the slab that left"), 0);
        assert_eq!(class.slabs, [slab]);
        if !comes_back {
            // Another chunk begins at the very place: the first of the slab in every class.
            while class.pop(zone).is_some() {}
        }
        // A remainder of another class's bytes.
        slab::mark(&hot.arena, place).store(1, Relaxed);
        drop(class);
        unentered(place);
        hot.collect(id);
        let mut class = lock(hot.class(id));
        assert!(class.policy.order().expect("LRU").is_empty(), "comes back: {comes_back}");
        class.policy.enter_waiting(zone);
    }
}

/// Regression: in a slab that was to leave and stays, chunks that were never in the order were put
/// first: the newest items were the next victims, until their thread came by the class.
#[test]
fn an_unentered_chunk_does_not_come_first_in_a_slab_that_stays() {
    for policy in [Policy::Lru, Policy::GdWheel] {
        let (hot, map) = (zone_with(policy, SHARE), Map::default());
        let id = store_two(&hot, &map);
        let place = store(&hot, &map, 2);
        assert_eq!(parked(&hot, id).2, 1, "the order knows nothing of it");
        let first = *lock(&map.places).get(&0_u32.to_le_bytes()[..]).expect("it is there");
        let (slab, _) = hot.arena.locate(place);
        let ahead = |class: &mut Class| {
            class.policy.enter_waiting(hot.zone());
            let mut ahead = [Place(0); 4];
            let count = class.policy.order().expect("there is one").ahead(hot.zone(), &mut ahead);
            ahead[..count].to_vec()
        };
        // The items there come up while the slab leaves.
        let mut class = lock(hot.class(id));
        let before = ahead(&mut class);
        assert!(before.len() == 2 && before[0] == first && !before.contains(&place));
        assert!(hot.adopt_free_slab(&mut class, &map));
        class.start_draining(hot.zone(), slab);
        drop(class);
        assert_eq!(hot.evict(id, 2, &map), 0, "nothing else has room for a store");
        let mut class = lock(hot.class(id));
        assert!(ahead(&mut class).is_empty(), "{policy:?}");
        class.stop_draining(hot.zone(), slab);
        assert_eq!(ahead(&mut class), before, "{policy:?}");
        drop(class);
        hot.collect(id);
        assert_eq!(ahead(&mut lock(hot.class(id))).last(), Some(&place), "{policy:?}");
    }
}

/// A magazine takes neither more than its share nor the last free chunks of a class.
#[test]
fn a_magazine_leaves_the_class_its_share_and_its_last_chunks() {
    for share in [SHARE, 1 << 14, 1 << 20] {
        let (hot, map) = (zone_with(Policy::Clock, share), Map::default());
        let id = hot.class_at(store(&hot, &map, 0));
        for number in 1.. {
            let (free, retired, _) = parked(&hot, id);
            let class = lock(hot.class(id));
            let chunks = class.staying() * class.chunks_per_slab;
            assert!(free.len() <= chunks / share && free.len() <= CHUNKS_MAX && retired == 0);
            assert!(free.is_empty() || class.free >= class.low(), "{} free", class.free);
            if hot.is_full() && class.free == 0 {
                break;
            }
            drop(class);
            store(&hot, &map, number);
        }
    }
}

/// The costs of items stored from a magazine are learned.
#[test]
fn the_policy_learns_the_costs_stored_from_a_magazine() {
    let (hot, map) = (zone_with(Policy::CostClock, SHARE), Map::default());
    let mut learned = Vec::new();
    let mut store = |number: u32, us| {
        let (fields, key) =
            (Fields { cost: Cost::from_us(us), ..Fields::default() }, number.to_le_bytes());
        let layout = hot.layout(&fields, key.len(), VALUE_BYTES);
        let mut draft = hot.draft(layout, &fields, &key, &map).expect("there is room");
        draft.write(&[7; VALUE_BYTES]);
        let id = hot.class_at(publish(&map, number, draft));
        let magazine = lock(&hot.magazines.as_ref().expect("some").own(id).magazine);
        learned.push(magazine.credits.stored.len());
        drop(magazine);
        lock(hot.class(id)).policy.unit_us().expect("costs are known")
    };
    // The first goes to the class, and so does one in several of the others.
    let first = store(0, 5000);
    let units_us: Vec<f64> = (1..3 * CHUNKS_MAX as u32).map(|number| store(number, 50)).collect();
    let most = learned.iter().copied().max();
    let is_kept_a_while = most > Some(0) && most <= Some(CHUNKS_MAX);
    assert!(learned.contains(&0) && is_kept_a_while, "{learned:?}");
    // As if each had been learned at once, except those that wait.
    let mut policy = CostClock::default();
    policy.store(5000);
    let waiting = learned.last().copied().expect("some were stored");
    (waiting..units_us.len()).for_each(|_| _ = policy.store(50));
    assert!(units_us.last() < Some(&first), "{units_us:?}");
    assert_eq!(units_us.last().copied(), policy.unit_us(), "{waiting} wait");
}

/// A retired chunk goes to the thread's next store before anything is evicted for that store.
#[test]
fn nothing_is_evicted_where_a_magazine_has_a_retired_chunk() {
    let (hot, map) = (zone_with(Policy::Clock, SHARE), Map::default());
    let id = store_two(&hot, &map);
    let mut number = 1;
    while !hot.is_full() || lock(hot.class(id)).free > 0 || !parked(&hot, id).0.is_empty() {
        number += 1;
        store(&hot, &map, number);
    }
    assert_eq!(map.evicted.load(Relaxed), 0);
    remove(&hot, &map, 0);
    assert_eq!(parked(&hot, id).1, 1);
    store(&hot, &map, number + 1);
    assert_eq!(map.evicted.load(Relaxed), 0);
}

#[test]
fn an_idle_magazine_is_emptied_while_a_reserve_is_low() {
    let (hot, map) = (zone_with(Policy::Lru, SHARE), Map::default());
    let id = store_two(&hot, &map);
    store(&hot, &map, 2);
    remove(&hot, &map, 0);
    let (free, retired, unentered) = parked(&hot, id);
    assert!(!free.is_empty() && retired == 1 && unentered == 1);
    for second in 1..=2 {
        map.now.store(second, Relaxed);
        hot.press(PRESSED_CLASS);
        hot.maintain(false, &map);
    }
    assert_eq!(parked(&hot, id), (Vec::new(), 0, 0));
}

/// A thread that publishes others' drafts never fills its magazine, and so never empties it.
#[test]
fn a_thread_that_only_publishes_has_few_unentered_chunks() {
    let (hot, map) = (zone_with(Policy::Lru, SHARE), Map::default());
    let id = store_two(&hot, &map);
    let place = *lock(&map.places).values().next().expect("there are two");
    for second in 1..if cfg!(miri) { 30 } else { 100 } {
        hot.enter_later(place);
        map.now.store(second, Relaxed);
        hot.press(PRESSED_CLASS);
        hot.maintain(false, &map);
        assert!(parked(&hot, id).2 <= CHUNKS_MAX + 1);
    }
}

/// Regression: with one thread drafting, another publishing and no background running, the list of
/// the publisher, which never comes to the class, grew by eight bytes with each store, for ever.
#[test]
fn chunks_that_others_publish_are_entered_by_the_drafting_thread() {
    let (hot, map) = (zone_of(2, Policy::Lru, SHARE / 2), Map::default());
    let publisher = thread_number();
    let mut most = 0;
    for number in 0..if cfg!(miri) { 60 } else { 1000 } {
        // Every other thread has the magazine that this one has not.
        let is_other = || thread_number() % 2 != publisher % 2;
        let drafted = || is_other().then(|| draft(&hot, &map, number % 5, VALUE_BYTES));
        let drafted = (0..TRIES_MAX).find_map(|_| {
            std::thread::scope(|scope| scope.spawn(drafted).join().expect("it does not panic"))
        });
        let drafted = drafted.expect("a thread has it").expect("there is room");
        remove(&hot, &map, number % 5);
        let id = hot.class_at(publish(&map, number % 5, drafted));
        most = most.max(parked(&hot, id).2);
    }
    assert!((CHUNKS_MAX..=3 * CHUNKS_MAX).contains(&most), "{most} wait to be entered");
}

/// No thread is pinned, and retired chunks are free once a thread checks.
#[test]
fn a_store_without_pinned_readers_is_never_told_to_wait() {
    let (hot, map) = (zone_with(Policy::Clock, SHARE), Map::default());
    let id = hot.class_at(store(&hot, &map, 0));
    let mut last = 0;
    while !hot.is_full() || lock(hot.class(id)).free > 0 || !parked(&hot, id).0.is_empty() {
        last += 1;
        store(&hot, &map, last);
    }
    for number in 0..last {
        let first = number * 40;
        if first + 40 > last {
            break;
        }
        (first..first + 40).for_each(|number| remove(&hot, &map, number));
        for new in 0..40 {
            let made = draft(&hot, &map, last + 1 + first + new, VALUE_BYTES);
            let made = made.unwrap_or_else(|shortage| panic!("{shortage:?} in round {number}"));
            publish(&map, last + 1 + first + new, made);
        }
    }
}
