//! Stores without the lock of their class, and the chunks that come back to it.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use memory::{Arena, Epochs, SizeClasses};

use super::super::*;
use crate::class_policy::ClassPolicy;
use crate::evict::RoomRequest;
use crate::order::hammer::Map;
use crate::{ChunkLayout, Fields, ItemRef, Policy, Shortage};

const VALUE_BYTES: usize = if cfg!(miri) { 4000 } else { 100 };
const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 4 << 20 };
const THREADS: usize = if cfg!(miri) { 8 } else { THREADS_MAX };
const POLICIES: &[Policy] = if cfg!(miri) {
    &[Policy::Clock, Policy::GdWheel]
} else {
    &[Policy::Clock, Policy::CostClock, Policy::Lru, Policy::GdWheel]
};

fn zone(policy: Policy, threads: usize, share: usize) -> Hot {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let side_bits = policy.side_bits();
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, side_bits);
    let (epochs, layout) = (Arc::new(Epochs::new()), ChunkLayout::Inline);
    Hot::new(arena, epochs, sizes, layout, policy, 50, |_| 1).with_magazines(threads, share)
}

/// Stores an item with a cost, and retires the one that it replaces.
fn store(hot: &Hot, map: &Map, hooks: &dyn CacheHooks, number: u32) -> Result<Place, Shortage> {
    let (fields, key) =
        (Fields { cost: Cost::from_us(70), ..Fields::default() }, number.to_le_bytes());
    let layout = hot.layout(&fields, key.len(), VALUE_BYTES);
    let mut draft = hot.draft(layout, &fields, &key, hooks)?;
    draft.write(&[7; VALUE_BYTES]);
    let guard = hot.epochs.pin();
    let (place, replaced) = {
        let mut places = lock(&map.places);
        let sequence = map.mutations.fetch_add(1, Ordering::Relaxed) + 1;
        let place = draft.publish(sequence as u32, 0, 1_800_000_000);
        (place, places.insert(key.to_vec(), place))
    };
    // SAFETY: the map pointed at it until just now, under this guard.
    replaced.into_iter().for_each(|place| unsafe { hot.retire(&guard, place) });
    Ok(place)
}

/// Hooks under which full memory stays full: nothing may be evicted.
struct Kept<'m>(&'m Map);

impl CacheHooks for Kept<'_> {
    fn now(&self) -> u32 {
        self.0.now()
    }

    fn may_evict(&self) -> bool {
        false
    }

    fn mutations(&self) -> u64 {
        CacheHooks::mutations(self.0)
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        self.0.age(item)
    }

    fn prefetch(&self, _: &Guard<'_>, _: ItemRef<'_>) {}

    fn is_gone(&self, _: ItemRef<'_>) -> bool {
        false
    }

    fn evicted(&self, _: ItemRef<'_>, _: ClassId) {}

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> crate::Unlinked {
        self.0.unlink(guard, item, place)
    }
}

#[test]
fn stores_go_to_their_class_for_several_chunks_at_once() {
    for &policy in POLICIES {
        let (hot, map) = (zone(policy, 1, 1), Map::default());
        // With the first the class says how many a magazine may have; the second takes as many.
        let place = (0..2).map(|number| store(&hot, &map, &map, number)).last();
        let id = hot.class_at(place.expect("two are stored").expect("there is room"));
        std::thread::scope(|scope| {
            let (class, (end, ended)) = (lock(hot.class(id)), channel());
            let (hot, map) = (&hot, &map);
            scope.spawn(move || {
                (0..CHUNKS_MAX as u32 - 1)
                    .for_each(|number| _ = store(hot, map, map, number).expect("in a magazine"));
                end.send(()).expect("somebody waits");
            });
            let outcome = ended.recv_timeout(Duration::from_secs(60));
            drop(class);
            assert!(outcome.is_ok(), "{policy:?}: a store waits for the lock of its class");
        });
        assert_eq!(lock(&map.places).len(), CHUNKS_MAX - 1);
    }
}

/// Four threads that take two chunks each leave others in their magazines. All of them hold items
/// before one is evicted, or a store refused.
fn fill(policy: Policy, may_evict: bool) {
    let (hot, map) = (zone(policy, THREADS, 1), Map::default());
    let kept = Kept(&map);
    let hooks: &(dyn CacheHooks + Sync) = if may_evict { &map } else { &kept };
    let mut stored = 0;
    for _ in 0..4 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    store(&hot, &map, hooks, stored).expect("there is room");
                    stored += 1;
                }
            });
        });
    }
    while !hot.is_full() {
        store(&hot, &map, hooks, stored).expect("there is room");
        stored += 1;
    }
    let chunks: usize = hot.stats().iter().map(|it| it.slabs * it.chunks_per_slab).sum();
    while (stored as usize) < chunks {
        store(&hot, &map, hooks, stored).expect("there is room");
        stored += 1;
    }
    let found = lock(&map.places).len();
    assert_eq!(found, stored as usize, "{policy:?}, evicts: {may_evict}");
    assert!(may_evict || store(&hot, &map, hooks, stored).is_err());
}

#[test]
fn chunks_in_other_magazines_are_used_before_anything_is_evicted() {
    for &policy in POLICIES {
        [false, true].into_iter().for_each(|may_evict| fill(policy, may_evict));
    }
}

/// Regression: an item is published before the index points at it. A chunk that came up in between
/// was no victim, and stayed out of its order while the item lived; later the head of the item was
/// put back instead of the piece that had come up, so that the head was in the order twice.
#[test]
fn a_chunk_that_comes_up_before_it_is_indexed_stays_in_its_order() {
    let small = VALUE_BYTES;
    let chained = if cfg!(miri) { 20_000 } else { 30_000 };
    for policy in [Policy::Lru, Policy::GdWheel] {
        for (value_bytes, demotes) in [(small, true), (chained, true), (small, false)] {
            comes_up_unlinked(policy, value_bytes, demotes);
        }
    }
}

fn comes_up_unlinked(policy: Policy, value_bytes: usize, demotes: bool) {
    const ITEMS: u32 = if cfg!(miri) { 10 } else { 40 };
    let map = Map::default();
    let hot = zone(policy, 1, 1 << 20);
    let (fields, key) = (Fields::default(), u32::MAX.to_le_bytes());
    let layout = hot.layout(&fields, key.len(), value_bytes);
    let mut draft = hot.draft(layout, &fields, &key, &map).expect("there is memory");
    draft.write(&vec![7; value_bytes]);
    let place = draft.publish(1, 0, 0);
    let guard = hot.epochs.pin();
    // SAFETY: it is published, and no thread retires it.
    let item = unsafe { hot.item(&guard, place) };
    let judged = if item.layout().pieces() > 0 { item.piece(0) } else { place };
    assert_eq!(judged != place, value_bytes > hot.sizes.chunk_bytes_max());
    drop(guard);
    for number in 0..ITEMS {
        map.store(&hot, number, value_bytes).expect("there is memory");
    }
    let id = hot.class_at(judged);
    let gone = if demotes {
        hot.demote(id, RoomRequest::new(ITEMS as usize), &map)
    } else {
        hot.evict(id, 1, &map)
    };
    assert!(gone > 0);
    lock(&map.places).insert(key.to_vec(), place);
    let class = lock(hot.class(id));
    let ClassPolicy::Order(order) = &class.policy else { panic!("the policy keeps an order") };
    assert!(order.has(hot.zone(), judged), "{policy:?}, {value_bytes} bytes");
}
