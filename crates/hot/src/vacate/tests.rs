//! Slabs that leave a class, and items that are published there late.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, Epochs, Place, SizeClasses};

use super::*;
use crate::order::hammer::Map;
use crate::{ChunkLayout, Draft, Fields, Policy};

/// Small items: a slab holds thousands.
const VALUE_BYTES: usize = if cfg!(miri) { 4000 } else { 30 };
const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 4 << 20 };

fn zone(policy: Policy) -> Hot {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, policy.side_bits());
    let (epochs, layout) = (Arc::new(Epochs::new()), ChunkLayout::Inline);
    Hot::new(arena, epochs, sizes, layout, policy, 0, |_| 1)
}

/// A draft of an item with this key, filled.
fn draft<'h>(hot: &'h Hot, map: &Map, key: &[u8], value_bytes: usize) -> Draft<'h> {
    let fields = Fields::default();
    let layout = hot.layout(&fields, key.len(), value_bytes);
    let mut draft = hot.draft(layout, &fields, key, map).expect("the memory is not full");
    draft.write(&vec![7; value_bytes]);
    draft
}

/// Vacates the slab that a chunk is in, when its class has another.
fn vacate_around(hot: &Hot, map: &Map, place: Place) -> SlabId {
    let (slab, id) = (hot.arena.locate(place).0, hot.class_at(place));
    {
        let mut class = lock(hot.class(id));
        assert!(hot.adopt_free_slab(&mut class, map));
        class.start_vacating(hot.zone(), slab);
    }
    while hot.go_on_vacating(map) {}
    assert!(lock(hot.class(id)).emptied.contains(&slab));
    slab
}

fn maintain(hot: &Hot, map: &Map, turns: usize) {
    (0..turns).for_each(|_| _ = hot.maintain(false, map));
}

const TURNS: usize = if cfg!(miri) { 5 } else { 100 };

/// Regression: while a client kept a value half sent, the background went through the all but empty
/// slab of its draft in each of its turns.
#[test]
fn a_slab_held_by_a_draft_is_searched_once_the_draft_is_published() {
    for policy in [Policy::CostClock, Policy::Lru] {
        let (hot, map, key) = (zone(policy), Map::default(), b"late");
        let draft = draft(&hot, &map, key, VALUE_BYTES);
        let (place, id) = (draft.place(), hot.class_at(draft.place()));
        let items = lock(hot.class(id)).chunks_per_slab as u32 / 2;
        for number in 0..items {
            map.store(&hot, number, VALUE_BYTES).expect("the memory is not full");
        }
        let slab = vacate_around(&hot, &map, place);
        maintain(&hot, &map, 3);
        let before = map.asked.load(Relaxed);
        maintain(&hot, &map, TURNS);
        assert_eq!(map.asked.load(Relaxed), before, "{policy:?}: nothing was published");
        assert!(hot.slabs[slab.0 as usize].belongs_to(id));

        lock(&map.places).insert(key.to_vec(), draft.publish(1, 0, 0));
        maintain(&hot, &map, 3);
        assert!(map.asked.load(Relaxed) > before, "{policy:?}");
        let places = lock(&map.places);
        assert!(places.len() == items as usize + 1 && places[&key[..]] != place, "{policy:?}");
        assert!(!hot.slabs[slab.0 as usize].belongs_to(id), "{policy:?}");
    }
}

/// Regression: a long value, which takes longest to arrive, was evicted just after its client had
/// been told that it was stored, if a slab with any of its chunks had been emptied meanwhile.
#[test]
fn a_long_value_arriving_in_a_leaving_slab_moves_as_a_whole() {
    const LONG_BYTES: usize = 20_000;
    for policy in [Policy::CostClock, Policy::Lru] {
        let pieces = zone(policy).layout(&Fields::default(), 4, LONG_BYTES).pieces();
        for chunk in 0..=pieces {
            let (hot, map, key) = (zone(policy), Map::default(), b"late");
            let draft = draft(&hot, &map, key, LONG_BYTES);
            let head = draft.place();
            let place = if chunk == pieces { head } else { draft.item().piece(chunk) };
            let (slab, id) = (vacate_around(&hot, &map, place), hot.class_at(place));
            lock(&map.places).insert(key.to_vec(), draft.publish(1, 0, 0));
            maintain(&hot, &map, 3);
            let places = lock(&map.places);
            let moved = places.get(&key[..]);
            assert!(moved.is_some_and(|&moved| moved != head), "{policy:?}, {chunk}");
            assert!(!hot.slabs[slab.0 as usize].belongs_to(id), "{policy:?}, {chunk}");
        }
    }
}
