//! What moves within its class was stored before. What is rescued is what is dear: learned once
//! more with each slab that leaves, its cost passed for that of all that a size stores.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, ClassId, Epochs, SizeClasses};
use stdx::sync::lock;

use super::*;
use crate::mark::hit_mark;
use crate::order::hammer::Map;
use crate::rescue::RescueRoom;
use crate::{ChunkLayout, Fields, Hot, Links};

const BY_COSTS: [Replacement; 2] = [Replacement::CostClock, Replacement::GdWheel];
const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 4 << 20 };
/// Of one chunk, and in pieces.
const VALUE_BYTES: [usize; 2] = [if cfg!(miri) { 4000 } else { 30 }, 20_000];
/// One in so many items is dear.
const DEAR_EVERY: u32 = 3;
const CHEAP_US: u32 = 20;
/// One in so many of those that are cheap is still there when they move.
const CHEAP_LEFT_EVERY: u32 = 10;
const DEAR_US: u32 = 400;

fn zone(replacement: Replacement) -> Hot {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, replacement.side_bits());
    let (epochs, layout) = (Arc::new(Epochs::new()), ChunkLayout::Inline);
    Hot::new(arena, epochs, sizes, layout, replacement, 1, |_| 1)
}

fn cost_us(number: u32) -> u32 {
    if number.is_multiple_of(DEAR_EVERY) { DEAR_US } else { CHEAP_US }
}

fn store(hot: &Hot, map: &Map, number: u32, bytes: usize) -> Place {
    let fields = Fields { cost: Cost::from_us(cost_us(number)), ..Fields::default() };
    let key = number.to_le_bytes();
    let layout = hot.layout(&fields, key.len(), bytes);
    let mut draft = hot.draft(layout, &fields, &key, map).expect("the memory is not full");
    draft.write(&vec![7; bytes]);
    let place = draft.publish(map.mutations.fetch_add(1, Relaxed) as u32 + 1, 0, 0);
    lock(&map.places).insert(key.to_vec(), place);
    place
}

/// A class that is idle by now: values for about half of a slab of the largest chunks that they
/// take, of which the dear ones were read once and most of the others are gone. Returns the chunk
/// at which the first one is judged.
fn fill(hot: &Hot, map: &Map, bytes: usize) -> Place {
    let first = store(hot, map, 0, bytes);
    let (guard, place) = (hot.epochs.pin(), marked_at(hot, first));
    let chunks = lock(hot.class(hot.class_at(place))).chunks_per_slab;
    // SAFETY: stored just now, and nothing goes.
    let pieces = unsafe { hot.item(&guard, first) }.layout().pieces().max(1);
    (1..(chunks / pieces / 2) as u32).for_each(|number| _ = store(hot, map, number, bytes));
    lock(&map.places).retain(|_, &mut place| {
        // SAFETY: as above.
        let item = unsafe { hot.item(&guard, place) };
        let stays = item.cost().us() == DEAR_US || item.sequence() % CHEAP_LEFT_EVERY == 2;
        if stays {
            item.mark().store(hit_mark(item.mark().load(Relaxed), 0), Relaxed);
        } else {
            // SAFETY: the map led to it until now, under this guard.
            unsafe { hot.retire(&guard, place) };
        }
        stays
    });
    place
}

/// Where the policy judges the item that begins at a place.
fn marked_at(hot: &Hot, place: Place) -> Place {
    let guard = hot.epochs.pin();
    // SAFETY: nothing goes.
    hot.marked_place(unsafe { hot.item(&guard, place) }, place)
}

/// What each class has learned of costs.
fn units_us(hot: &Hot) -> Vec<Option<f64>> {
    let of = |id| {
        let mut class = lock(hot.class(id));
        class.keeper.enter_waiting(hot.zone());
        class.keeper.unit_us()
    };
    hot.sizes.iter().map(of).collect()
}

/// The credit of each item.
fn credits(hot: &Hot, map: &Map) -> Vec<Option<u8>> {
    let guard = hot.epochs.pin();
    let places = lock(&map.places);
    // SAFETY: the map leads to them under this guard.
    let items = places.values().map(|&place| unsafe { hot.item(&guard, place) });
    items.map(|item| item.credit().map(|credit| credit.load(Relaxed))).collect()
}

/// What the items cost that a class comes to, in the order in which it does, if it keeps one.
fn costs_in_order(hot: &Hot, map: &Map, id: ClassId) -> Vec<u32> {
    let (guard, mut class) = (hot.epochs.pin(), lock(hot.class(id)));
    let Some(order) = class.keeper.order_mut() else { return Vec::new() };
    let popped = std::iter::from_fn(|| order.pop(hot.zone(), true));
    let judged = popped.filter_map(|place| hot.judged_here(&guard, id, place));
    // What has moved away is there still, in limbo.
    let linked = judged.filter(|&(item, place)| map.is_linked(&guard, item, place));
    linked.map(|(item, _)| item.cost().us()).collect()
}

fn rescue(hot: &Hot, map: &Map, id: ClassId, slab: SlabId) {
    let rescues = hot.rescues(id, slab, map);
    lock(hot.class(id)).start_draining(hot.zone(), slab);
    assert!(hot.make_room_for_rescues(&rescues, map) == RescueRoom::There);
    hot.rescue(id, rescues, map);
}

#[test]
fn what_moves_teaches_nothing_and_keeps_its_credit_and_what_it_costs() {
    for (replacement, bytes) in BY_COSTS.into_iter().flat_map(|it| VALUE_BYTES.map(|by| (it, by))) {
        for is_rescued in [false, true] {
            let (hot, map) = (zone(replacement), Map::default());
            let place = fill(&hot, &map, bytes);
            let (slab, id) = (hot.arena.locate(place).0, hot.class_at(place));
            assert!(hot.adopt_free_slab(&mut lock(hot.class(id)), &map));
            let before = (units_us(&hot), credits(&hot, &map));
            assert!(before.0[usize::from(id.0)].is_some(), "{replacement:?}: costs are known");
            if is_rescued {
                rescue(&hot, &map, id, slab);
            } else {
                lock(hot.class(id)).start_vacating(hot.zone(), slab);
                while hot.go_on_vacating(&map) {}
            }
            let case = format!("{replacement:?}, {bytes} bytes, rescued: {is_rescued}");
            let places: Vec<Place> = lock(&map.places).values().copied().collect();
            let is_there = |&place: &Place| hot.arena.locate(marked_at(&hot, place)).0 == slab;
            assert_eq!(places.iter().filter(|&place| is_there(place)).count(), 0, "{case}");
            assert_eq!((units_us(&hot), credits(&hot, &map)), before, "{case}");
            let costs_us = costs_in_order(&hot, &map, id);
            assert!(costs_us.is_sorted(), "{case}: {costs_us:?}");
            let items = if replacement.keeps_order() { places.len() } else { 0 };
            assert_eq!(costs_us.len(), items, "{case}");
        }
    }
}
