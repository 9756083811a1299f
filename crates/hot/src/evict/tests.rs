//! Eviction, and stores that find no free chunk, in classes with a slab that leaves them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use memory::{Arena, Epochs, SizeClasses};
use policy::cost::Cost;

use super::*;
use crate::mark::hit_mark;
use crate::order::hammer::Map;
use crate::{ChunkLayout, Fields, Policy, Shortage};

/// An index from which nothing may be evicted, in which one item is dead, with the number of items
/// that were looked at.
#[derive(Default)]
struct Kept {
    map: Map,
    gone: u32,
    looks: AtomicUsize,
}

impl CacheHooks for Kept {
    fn now(&self) -> u32 {
        self.map.now()
    }

    fn may_evict(&self) -> bool {
        false
    }

    fn mutations(&self) -> u64 {
        CacheHooks::mutations(&self.map)
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        self.map.age(item)
    }

    fn prefetch(&self, _: &Guard<'_>, _: ItemRef<'_>) {}

    fn is_gone(&self, item: ItemRef<'_>) -> bool {
        self.looks.fetch_add(1, Relaxed);
        item.key() == self.gone.to_le_bytes()
    }

    fn evicted(&self, _: ItemRef<'_>, _: ClassId) {}

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> crate::Unlinked {
        self.map.unlink(guard, item, place)
    }
}

const LAYOUT: ChunkLayout = ChunkLayout::Inline;
/// Small items: a slab holds thousands, and the more there are the longer a hand is in one slab.
const VALUE_BYTES: usize = if cfg!(miri) { 4000 } else { 30 };
/// Value bytes of items of another class.
const OTHER_BYTES: usize = 500;
/// Value bytes of an item in three pieces.
const LONG_BYTES: usize = 20_000;
const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 4 << 20 };
/// Policies with a hand, and with an order. Miri has no time for more than one zone a test.
const POLICIES: &[Policy] =
    if cfg!(miri) { &[Policy::Clock] } else { &[Policy::Clock, Policy::CostClock, Policy::Lru] };
const ALL: [Policy; 4] = [Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel];
/// Sessions in which a store is tried. A server gives up after 64.
const TRIES_MAX: usize = 8;

/// Stores an item of the usual size.
fn store(hot: &Hot, map: &Map, number: u32) -> Result<Place, Shortage> {
    map.store(hot, number, VALUE_BYTES)
}

/// The number of items in a slab.
fn in_slab(hot: &Hot, map: &Map, slab: memory::SlabId) -> usize {
    let places = lock(&map.places);
    places.values().filter(|&&place| hot.arena.locate(place).0 == slab).count()
}

/// Reads the item at a place that the map points at.
fn read(hot: &Hot, place: Place) {
    let guard = hot.epochs.pin();
    // SAFETY: the map points at it, and no thread unlinks anything.
    let mark = unsafe { hot.item(&guard, place) }.mark();
    mark.store(hit_mark(mark.load(Relaxed), 0), Relaxed);
}

/// Whether an item that the map points at was read since it was judged.
fn is_recent(hot: &Hot, place: Place) -> bool {
    let guard = hot.epochs.pin();
    // SAFETY: as above.
    unsafe { hot.item(&guard, place) }.mark().load(Relaxed) & RECENT != 0
}

/// A zone whose memory is full of items of one class, that class, and the number of items.
fn full(policy: Policy, map: &Map) -> (Hot, ClassId, u32) {
    full_of(VALUE_BYTES, policy, map)
}

/// An empty zone, and its largest class.
fn zone(policy: Policy) -> (Hot, ClassId) {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let side_bits = policy.side_bits();
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, side_bits);
    let largest = ClassId(sizes.count() as u8 - 1);
    let hot = Hot::new(arena, Arc::new(Epochs::new()), sizes, LAYOUT, policy, 50, |_| 1);
    (hot, largest)
}

/// A zone that is full of items with values of `bytes` bytes, whose first chunk is of the class.
fn full_of(bytes: usize, policy: Policy, map: &Map) -> (Hot, ClassId, u32) {
    let (hot, largest) = zone(policy);
    for number in 0.. {
        let place = map.store(&hot, number, bytes).expect("the memory is not full");
        let id = hot.class_at(place);
        let is_long = bytes > hot.sizes.chunk_bytes_max();
        let (last, chunks) = if is_long { (largest, 2) } else { (id, 1) };
        if hot.is_full() && lock(hot.class(last)).free < chunks {
            return (hot, id, number + 1);
        }
    }
    unreachable!("memory ends")
}

/// Has the slab that the hand comes to leave a class that has all of the memory, and stores one
/// more item.
fn store_while_a_slab_leaves(policy: Policy, store_demotes: bool) {
    let map = Map::with_store_demotion(store_demotes);
    let (hot, id, number) = full(policy, &map);
    {
        let mut class = lock(hot.class(id));
        let next = class.oldest_slab(hot.zone(), map.mutations.load(Relaxed));
        class.close(hot.zone(), next.expect("the class has slabs"), map.mutations.load(Relaxed));
        class.evicted_since = 0;
        assert!(class.staying() > 0, "{} slabs", class.slabs.len());
    }
    let closed = lock(hot.class(id)).closed[0];
    let before = in_slab(&hot, &map, closed);
    let tries = (1..=TRIES_MAX).find(|_| match store(&hot, &map, number) {
        Ok(_) => true,
        Err(shortage) => {
            assert_eq!(shortage, Shortage::Pinned);
            false
        }
    });
    assert!(tries.is_some(), "{policy:?}, hands down: {store_demotes}");
    assert_eq!(in_slab(&hot, &map, closed), before, "{policy:?}, hands down: {store_demotes}");
}

#[test]
fn a_store_does_not_fail_for_a_slab_that_leaves_its_class() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru] {
        for store_demotes in [false, true] {
            store_while_a_slab_leaves(policy, store_demotes);
        }
    }
}

/// Regression: each refused store looked at every chunk of its class.
#[test]
#[cfg_attr(miri, ignore = "a class of many items")]
fn a_hand_without_victims_stops_early_and_continues_next_time() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru] {
        let mut kept = Kept::default();
        let (hot, id, items) = full(policy, &kept.map);
        assert!(items as usize > 4 * STEPS_MAX);
        // The hand comes to the item that was stored last in the end.
        kept.gone = items - 1;
        let mut evicted = 0;
        for _ in 0..items as usize / STEPS_MAX + 2 {
            *kept.looks.get_mut() = 0;
            evicted += hot.evict(id, 1, &kept);
            let looks = kept.looks.load(Relaxed);
            // The victim is looked at once more.
            assert!(looks <= STEPS_MAX + 1, "{policy:?}: {looks}");
        }
        assert_eq!(evicted, 1, "{policy:?}");
    }
}

/// Regression: after `stats reset` a class with an order was taken for one that never had to evict.
#[test]
fn the_stay_of_items_survives_a_reset_of_counters() {
    let map = Map::default();
    let (hot, id, _) = full(Policy::Lru, &map);
    assert_eq!(hot.stay_mutations(id, &map), u64::MAX);
    assert_eq!(hot.evict(id, 1, &map), 1);
    let stay = hot.stay_mutations(id, &map);
    assert_ne!(stay, u64::MAX);
    hot.reset_counters();
    assert_eq!(hot.stay_mutations(id, &map), stay);
}

/// Regression: readers of lower tiers took the lock of the class, for which stores wait, to learn
/// it.
#[test]
#[cfg_attr(miri, ignore = "a class of many items")]
fn the_stay_of_items_is_read_without_the_lock_of_a_class_with_a_hand() {
    let map = Map::default();
    let (hot, id, items) = full(Policy::Clock, &map);
    assert_eq!(hot.stay_mutations(id, &map), u64::MAX);
    assert_eq!(hot.evict(id, 1, &map), 1);
    std::thread::scope(|scope| {
        let class = lock(hot.class(id));
        let (tell, told) = std::sync::mpsc::channel();
        let (hot, map) = (&hot, &map);
        scope.spawn(move || tell.send(hot.stay_mutations(id, map)));
        let stay = told.recv_timeout(Duration::from_secs(10));
        drop(class);
        assert!(stay.is_ok_and(|stay| stay <= u64::from(items)), "{stay:?}");
    });
}

/// Where unfinished values have all chunks, a hand finds nothing however often it goes round.
#[test]
fn a_hand_gives_up_after_a_round_that_is_not_choosy() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::Lru] {
        let map = Map::default();
        let (hot, id, _) = full(policy, &map);
        let class = lock(hot.class(id));
        assert!(
            RoomRequest::new(1).steps_max(&class, &map)
                <= STEPS_MAX + class.chunks() + class.slabs.len()
        );
    }
}

/// An index that moves the epoch on at each victim, if possible.
struct Watching<'h> {
    map: &'h Map,
    hot: &'h Hot,
    moves: AtomicUsize,
}

impl CacheHooks for Watching<'_> {
    fn now(&self) -> u32 {
        self.map.now()
    }

    fn may_evict(&self) -> bool {
        true
    }

    fn mutations(&self) -> u64 {
        CacheHooks::mutations(self.map)
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        self.map.age(item)
    }

    fn prefetch(&self, _: &Guard<'_>, _: ItemRef<'_>) {}

    fn is_gone(&self, _: ItemRef<'_>) -> bool {
        false
    }

    fn evicted(&self, _: ItemRef<'_>, _: ClassId) {}

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> crate::Unlinked {
        self.moves.fetch_add(usize::from(self.hot.epochs.advance()), Relaxed);
        self.map.unlink(guard, item, place)
    }
}

/// The background evicts some hundred items at a time, and stores need the chunks that it frees.
#[test]
fn an_eviction_holds_the_epoch_back_for_no_more_than_a_group() {
    const GROUPS: usize = 5;
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, _) = full(policy, &map);
        let hooks = Watching { map: &map, hot: &hot, moves: AtomicUsize::new(0) };
        assert_eq!(hot.evict(id, GROUPS * GROUP, &hooks), GROUPS * GROUP);
        let moves = hooks.moves.into_inner();
        assert!(moves >= GROUPS, "{policy:?}: the epoch moved {moves} times");
    }
}

/// Evictions in a leaving slab make no room before the slab is empty.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn a_hand_passes_over_a_slab_that_leaves_until_it_stays() {
    for policy in ALL {
        let map = Map::default();
        let (hot, id, _) = full(policy, &map);
        let next = {
            let mut class = lock(hot.class(id));
            let next = class.oldest_slab(hot.zone(), 0).expect("the class has slabs");
            class.close(hot.zone(), next, map.mutations.load(Relaxed));
            next
        };
        let before = in_slab(&hot, &map, next);
        assert!(before > 0);
        while hot.evict(id, GROUP, &map) > 0 {}
        let left = (in_slab(&hot, &map, next), lock(&map.places).len());
        assert_eq!(left, (before, before), "{policy:?}");
        {
            let mut class = lock(hot.class(id));
            class.closed.clear();
            class.stop_draining(hot.zone(), next);
        }
        while hot.evict(id, GROUP, &map) > 0 {}
        assert_eq!(lock(&map.places).len(), 0, "{policy:?}");
    }
}

/// Stores for which enough has been evicted, but which a reader keeps from it, evict no more each
/// time that they are retried.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn stores_that_wait_for_a_reader_do_not_evict_again() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, number) = full(policy, &map);
        let reader = hot.epochs.pin();
        let refused = (0..10).map(|_| {
            assert_eq!(store(&hot, &map, number), Err(Shortage::Pinned));
            lock(hot.class(id)).counters.evicted
        });
        let evicted: Vec<u64> = refused.collect();
        // Once more for all that wait, since others may take the first chunks that come free.
        assert!(evicted[0] > 0 && evicted[9] <= 2 * evicted[0], "{evicted:?}");
        drop(reader);
        assert!(hot.epochs.try_reach(hot.epochs.latest_tag()));
        assert!(store(&hot, &map, number).is_ok(), "{policy:?}");
    }
}

/// Chunks that others have unlinked always wait for readers to leave: they are no slab, and a store
/// that needs a slab does not wait for them.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn a_size_without_memory_gets_a_slab_while_others_store() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, number) = full(policy, &map);
        // The slab that is spared for the index.
        assert!(map.store(&hot, number, OTHER_BYTES).is_ok());
        let tries = (1..=TRIES_MAX).find(|_| {
            let _other = hot.epochs.pin();
            assert!(hot.evict(id, 1, &map) > 0);
            map.store(&hot, number + 1, 2 * OTHER_BYTES).is_ok()
        });
        assert!(tries.is_some(), "{policy:?}");
        let lost = lock(hot.class(id)).counters.slabs_lost;
        assert_eq!(lost, 1, "{policy:?}, {tries:?} tries: no more than it needs");
    }
}

/// All slabs of a class were closed, for others that wanted them and no longer do.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn a_class_with_nothing_but_closed_slabs_opens_one() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, number) = full(policy, &map);
        assert!(hot.arena.take(0).is_some(), "the index has the slab that is spared for it");
        {
            let mut class = lock(hot.class(id));
            let mutations = map.mutations.load(Relaxed);
            for slab in class.slabs.clone() {
                class.close(hot.zone(), slab, mutations);
            }
            class.evicted_since = 0;
            assert_eq!(class.staying(), 0);
        }
        let tries = (1..=TRIES_MAX).find(|_| store(&hot, &map, number).is_ok());
        assert!(tries.is_some(), "{policy:?}");
    }
}

/// No background runs, and a client sends its value while the slab is emptied.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn an_item_published_in_an_emptied_slab_is_evicted_like_others() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, number) = full(policy, &map);
        let (fields, key) = (Fields::default(), number.to_le_bytes());
        let layout = hot.layout(&fields, key.len(), VALUE_BYTES);
        assert!(hot.evict(id, 1, &map) > 0 && hot.epochs.try_reach(hot.epochs.latest_tag()));
        let mut draft = hot.draft(layout, &fields, &key, &map).expect("a chunk is free");
        draft.write(&[7; VALUE_BYTES]);
        hot.give_up_slabs(usize::MAX, &map);
        assert!(lock(&map.places).is_empty() && hot.slab_at(draft.place()).is_draining());
        let place = draft.publish(1, 0, 0);
        lock(&map.places).insert(key.to_vec(), place);
        assert!(hot.evict(id, 1, &map) > 0, "{policy:?}");
        assert!(lock(&map.places).is_empty());
    }
}

/// Regression: the background filled little more than half of a reserve, so that stores soon
/// evicted.
#[test]
fn a_reserve_that_is_low_is_filled_as_far_as_it_goes() {
    let map = Map::default();
    let (hot, id, _) = full(Policy::Clock, &map);
    let have = || {
        let class = lock(hot.class(id));
        (class.free + class.in_limbo(), class.reserve_target())
    };
    assert!(have().0 <= have().1 / 2);
    while hot.maintain(false, &map) {}
    let (filled, target) = have();
    assert!(filled >= target - target / 4 && filled <= target, "{filled} of {target}");
    // Then it is left alone until half of it is used.
    hot.maintain(false, &map);
    hot.sweep();
    (0..filled - target / 2 - 1).for_each(|_| _ = lock(hot.class(id)).pop(hot.zone()));
    let left = have().0;
    assert!(!hot.maintain(false, &map));
    assert_eq!(have().0, left);
}

/// Regression: in a class of few items that were all stored long after the hand came by and were
/// read since, a hand gave up after two rounds: in the first they are young, in the second they
/// lose their access bits. The store had to take a chunk of another class, or was refused.
#[test]
fn young_read_items_are_evicted_if_there_are_no_others() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, _) = full_of(4000, policy, &map);
        assert!(3 * lock(hot.class(id)).chunks() < STEPS_MAX, "it is always choosy");
        let now = map.mutations.fetch_add(1 << 20, Relaxed) + (1 << 20);
        let guard = hot.epochs.pin();
        for &place in lock(&map.places).values() {
            // SAFETY: the map points at it, and no thread unlinks anything.
            let item = unsafe { hot.item(&guard, place) };
            item.set_sequence(now as u32);
            let mark = item.mark();
            mark.store(hit_mark(mark.load(Relaxed), 0), Relaxed);
        }
        drop(guard);
        assert!(hot.evict(id, 1, &map) > 0, "{policy:?}");
    }
}

/// A store calls the background while there are free chunks, or it comes too late.
#[test]
fn the_background_is_called_before_a_store_has_to_evict() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, first) = full_of(4000, policy, &map);
        let target = lock(hot.class(id)).reserve_target();
        assert!(target > 4);
        hot.evict(id, target, &map);
        let before = map.evicted.load(Relaxed);
        hot.pressed.store(0, Relaxed);
        for number in first.. {
            if hot.is_pressed() {
                break;
            }
            let (fields, key) = (Fields::default(), number.to_le_bytes());
            let layout = hot.layout(&fields, key.len(), 4000);
            let mut draft = hot.draft(layout, &fields, &key, &map).expect("there is room");
            draft.write(&[7; 4000]);
            let sequence = map.mutations.fetch_add(1, Relaxed) + 1;
            let mut places = lock(&map.places);
            places.insert(key.to_vec(), draft.publish(sequence as u32, 0, 0));
        }
        assert_eq!(map.evicted.load(Relaxed), before, "{policy:?}");
    }
}

/// Regression: moving items take free chunks, too, and call nobody. A store that came after them
/// used up the rest, and evicted for itself.
#[test]
fn the_background_is_called_even_if_moves_took_free_chunks() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, number) = full_of(4000, policy, &map);
        let target = lock(hot.class(id)).reserve_target();
        hot.evict(id, target, &map);
        hot.sweep();
        {
            let mut class = lock(hot.class(id));
            while class.free + 1 >= class.low() {
                let _ = class.take(hot.zone(), Cost::UNKNOWN).expect("there are free chunks");
            }
            assert!(class.free > 0);
        }
        hot.pressed.store(0, Relaxed);
        map.store(&hot, number, 4000).expect("there is a free chunk");
        assert!(hot.is_memory_pressed(), "{policy:?}");
    }
}

/// Chunks at hand count as used in their slab, and are free.
#[test]
fn a_slab_whose_last_chunks_are_at_hand_is_empty() {
    let map = Map::default();
    let (hot, id, _) = full(Policy::Lru, &map);
    let slab = lock(hot.class(id)).slabs[0];
    let guard = hot.epochs.pin();
    let mut gone = Vec::new();
    lock(&map.places).retain(|_, &mut place| {
        let goes = hot.arena.locate(place).0 == slab;
        gone.extend(goes.then_some(place));
        !goes
    });
    // SAFETY: the map led to them until just now, under this guard.
    gone.iter().for_each(|&place| unsafe { hot.retire_at_once(&guard, place) });
    drop(guard);
    (0..3).for_each(|_| hot.sweep());
    let mut class = lock(hot.class(id));
    assert!(class.at_hand().any(|place| hot.arena.locate(place).0 == slab));
    assert_eq!(class.used_in(hot.zone(), slab), 0);
    assert_eq!(class.oldest_slab(hot.zone(), map.mutations.load(Relaxed)), Some(slab));
}

/// An evicting thread holds the lock of a class for a whole group of victims, and would have it
/// again before a thread that slept until it was released is awake.
#[test]
fn a_store_that_waits_for_a_class_goes_before_further_victims() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id, _) = full(policy, &map);
        let victims_of_a_group = |class: &mut Class| {
            let (mut victims, mut request) = ([Victim::NONE; GROUP], RoomRequest::new(GROUP));
            let guard = hot.epochs.pin();
            let found = hot.gather(&guard, class, &map, &mut victims, &mut request);
            victims[..found].iter().for_each(|victim| hot.put_back(class, victim.came_up));
            found
        };
        std::thread::scope(|scope| {
            let mut class = lock(hot.class(id));
            assert_eq!(victims_of_a_group(&mut class), GROUP, "{policy:?}, nobody waits");
            let store = scope.spawn(|| hot.class_for_store(id).chunks());
            while hot.waiting_for(id) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(victims_of_a_group(&mut class), VICTIMS_AT_LEAST, "{policy:?}");
            // The wait for the store has an end: the lock is held here.
            hot.make_way(id);
            assert_eq!(hot.waiting_for(id), 1);
            drop(class);
            assert!(store.join().expect("the store does not panic") > 0);
            assert_eq!(hot.waiting_for(id), 0);
        });
    }
}

/// Regression: where an order is kept, read items were evicted just as they made their slab stay.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn read_items_make_their_slab_stay_and_stay_with_it() {
    for policy in ALL {
        let map = Map::default();
        let (hot, id, number) = full(policy, &map);
        let first: Vec<Vec<u8>> = lock(&map.places).keys().cloned().collect();
        let places: Vec<Place> = lock(&map.places).values().copied().collect();
        places.into_iter().for_each(|place| read(&hot, place));
        map.mutations.fetch_add(1 << 20, Relaxed);
        // In the slab that is spared for the index.
        let other = hot.class_at(map.store(&hot, number, OTHER_BYTES).expect("a slab is left"));
        lock(hot.class(id)).stores = false;
        assert!(!hot.seek_slab(other, true, &map), "{policy:?}: nothing in the slabs is old");
        let places = lock(&map.places);
        let lost = first.iter().filter(|&key| !places.contains_key(key)).count();
        assert_eq!(lost, 0, "{policy:?}: of {}", first.len());
    }
}

/// Regression: a value in pieces lies in up to three classes, and the hands of all cleared its bit.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn a_value_in_pieces_loses_its_bit_only_in_the_class_of_its_pieces() {
    for policy in ALL {
        let map = Map::default();
        let (hot, id, items) = full_of(LONG_BYTES, policy, &map);
        let places: Vec<Place> = lock(&map.places).values().copied().collect();
        // None of the newest: these stay where there are others.
        let unread = lock(&map.places)[&(items / 2).to_le_bytes()[..]];
        places.iter().filter(|&&place| place != unread).for_each(|&place| read(&hot, place));
        // In the first round the items are young.
        let evicted = (0..2).map(|_| hot.evict(id, 1, &map)).find(|&chunks| chunks > 0);
        assert!(evicted.is_some(), "{policy:?}");
        let left: Vec<Place> = lock(&map.places).values().copied().collect();
        assert_eq!(left.len(), places.len() - 1, "{policy:?}");
        assert!(!left.contains(&unread), "{policy:?}");
        assert!(left.iter().all(|&place| is_recent(&hot, place)), "{policy:?}");
        // If they are all that there is, one is evicted all the same.
        assert!(hot.evict(id, 1, &map) > 0, "{policy:?}");
    }
}

/// Regression: the first of the items to be rescued was a long value for which there was no chunk,
/// and all others were evicted with the slab.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn an_item_without_a_chunk_does_not_keep_others_from_a_rescue() {
    for policy in ALL {
        let map = Map::default();
        let (hot, pieces) = zone(policy);
        let long = map.store(&hot, 0, LONG_BYTES).expect("there is room");
        let id = hot.class_at(long);
        let small = 1..=100;
        let store = |number| {
            // As many bytes as the first chunk of the long item has.
            let bytes = hot.sizes.chunk_bytes(id) - 16;
            let place = map.store(&hot, number, bytes).expect("there is room");
            assert_eq!(hot.class_at(place), id);
        };
        small.clone().for_each(store);
        let slab = hot.arena.locate(long).0;
        // Other slabs of the class, and a full class of the pieces.
        (1000..).map(store).find(|()| lock(hot.class(id)).slabs.len() == 2);
        while !hot.is_full() || lock(hot.class(pieces)).free >= 2 {
            let number = lock(&map.places).len() as u32 + 100_000;
            map.store(&hot, number, LONG_BYTES).expect("there is room");
        }
        let held = hot.epochs.pin();
        let places: Vec<Place> = lock(&map.places).values().copied().collect();
        let places = places.into_iter().filter(|&place| hot.arena.locate(place).0 == slab);
        places.take(101).for_each(|place| read(&hot, place));
        read(&hot, long);
        lock(hot.class(id)).start_draining(hot.zone(), slab);
        let rescues = hot.rescues(id, slab, &map);
        let read = lock(&map.places).values().filter(|&&place| is_recent(&hot, place)).count();
        hot.rescue(id, rescues, &map);
        assert_eq!(lock(hot.class(id)).counters.rescued, read as u64 - 1, "{policy:?}");
        drop(held);
    }
}

/// Regression: for the read items of a class's only slab, as many were evicted in that very slab,
/// which then stayed, at each request for it.
#[test]
#[cfg_attr(miri, ignore = "a full zone takes a minute, and the tests beside it have one")]
fn the_only_slab_of_a_class_stays_whole_while_some_of_it_is_read() {
    for policy in ALL {
        let map = Map::default();
        let (hot, _) = zone(policy);
        let places: Vec<Place> =
            (0..100).map(|number| map.store(&hot, number, OTHER_BYTES).expect("room")).collect();
        let id = hot.class_at(places[0]);
        let fill = |number| {
            while matches!(store(&hot, &map, number), Err(Shortage::Pinned)) {}
            places.iter().step_by(10).for_each(|&place| read(&hot, place));
        };
        (100..).map(fill).find(|()| hot.is_full());
        lock(hot.class(id)).stores = false;
        let first = lock(&map.places).len() as u32;
        (first..2 * first + 20_000).for_each(fill);
        let class = lock(hot.class(id));
        assert_eq!((class.slabs.len(), class.counters.evicted), (1, 0), "{policy:?}");
    }
}
