//! A store that finds nothing free, in a class with a slab that leaves it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, Epochs, SizeClasses};

use super::*;
use crate::order::hammer::Map;
use crate::{ChunkLayout, Fields, Replacement};

const LAYOUT: ChunkLayout = ChunkLayout::Inline;
/// Small items: a slab holds thousands, and the more there are the longer a hand is in one slab.
const VALUE_BYTES: usize = if cfg!(miri) { 4000 } else { 30 };
const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 4 << 20 };
/// Sessions in which a store is tried. A server gives up after 64.
const TRIES_MAX: usize = 8;

/// Stores an item as a connection does that has a session open: nothing that becomes free while the
/// draft is made can be reused under it.
fn store(hot: &Hot, map: &Map, number: u32) -> Result<Place, Shortage> {
    let (fields, key) = (Fields::default(), number.to_le_bytes());
    let layout = hot.layout(&fields, key.len(), VALUE_BYTES);
    let _session = hot.epochs.pin();
    let mut draft = hot.draft(layout, &fields, &key, map)?;
    draft.write(&[7; VALUE_BYTES]);
    let sequence = map.mutations.fetch_add(1, Relaxed) + 1;
    let mut places = lock(&map.places);
    let place = draft.publish(sequence as u32, 0, 0);
    places.insert(key.to_vec(), place);
    Ok(place)
}

/// Fills the memory with one class, has the slab that the hand comes to leave it, and stores one
/// item more.
fn store_while_a_slab_leaves(replacement: Replacement, hands_down: bool) {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let side_bits = replacement.side_bits();
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, side_bits);
    let hot = Hot::new(arena, Arc::new(Epochs::new()), sizes, LAYOUT, replacement, 0, 1);
    let map = Map::handing_down(hands_down);
    let mut number = 0;
    let id = loop {
        let place = store(&hot, &map, number).expect("the memory is not full");
        number += 1;
        let id = hot.class_at(place);
        if hot.is_full() && lock(hot.class(id)).free == 0 {
            break id;
        }
    };
    {
        let mut class = lock(hot.class(id));
        let next = class.oldest_slab(hot.zone(), map.mutations.load(Relaxed));
        class.close(hot.zone(), next.expect("the class has slabs"), map.mutations.load(Relaxed));
        class.evicted_since = 0;
        assert!(class.staying() > 0, "{} slabs", class.slabs.len());
    }
    let tries = (1..=TRIES_MAX).find(|_| match store(&hot, &map, number) {
        Ok(_) => true,
        Err(shortage) => {
            assert_eq!(shortage, Shortage::Pinned);
            false
        }
    });
    assert!(tries.is_some(), "{replacement:?}, hands down: {hands_down}");
}

#[test]
fn a_store_does_not_fail_for_a_slab_that_leaves_its_class() {
    for replacement in [Replacement::Clock, Replacement::CostClock, Replacement::Lru] {
        for hands_down in [false, true] {
            store_while_a_slab_leaves(replacement, hands_down);
        }
    }
}
