//! One order, chunk by chunk: when waiting chunks are entered, and the fate of a chunk that holds
//! another item when it comes up.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, Epochs, Place, SizeClasses, SlabId};
use policy::cost::Cost;
use stdx::sync::lock;

use super::hammer::Map;
use super::{Order, WAITING_MAX};
use crate::class::Zone;
use crate::{ChunkLayout, Fields, Hot, Policy, slab};

const CHUNK_BYTES: usize = 40;
const CHUNKS: usize = WAITING_MAX + 20;
/// Miri lays out all of it.
const ARENA_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 512 << 20 };

fn popped(order: &mut Order, zone: Zone<'_>) -> Vec<Place> {
    std::iter::from_fn(|| order.pop(zone, false)).collect()
}

#[test]
fn waiting_chunks_are_entered_as_they_came_and_may_leave_before() {
    let (arena, epochs) = (Arena::new(0, ARENA_BYTES, 0).expect("addresses"), Epochs::new());
    let zone = Zone { arena: &arena, epochs: &epochs, slabs: &[], heat: None, quotas: None };
    let place = |number: usize| arena.place(SlabId(1), number * CHUNK_BYTES);
    // The costly half first: then the order is not that of entering.
    let cost = |number| Cost::from_us(if number < CHUNKS / 2 { 300 } else { 20 });
    for count in [1, WAITING_MAX - 1, WAITING_MAX, WAITING_MAX + 1, CHUNKS] {
        let mut order = Order::new(Some(1), CHUNK_BYTES, CHUNKS);
        order.adopt(zone, SlabId(1));
        for number in 0..count {
            order.enter(zone, place(number), cost(number));
        }
        assert_eq!(order.waiting.len(), (count - 1) % WAITING_MAX + 1);
        assert!(!order.is_empty() && order.has(zone, place(count - 1)));
        order.leave(zone, place(count - 1));
        assert!(!order.has(zone, place(count - 1)));
        let (costly, cheap): (Vec<usize>, Vec<usize>) =
            (0..count - 1).partition(|&number| number < CHUNKS / 2);
        let expected: Vec<Place> = cheap.into_iter().chain(costly).map(place).collect();
        assert_eq!(popped(&mut order, zone), expected, "{count} were entered");
        assert!(order.is_empty());
    }
}

#[test]
fn a_chunk_that_was_not_freed_is_ranked_by_its_present_item() {
    let (arena, epochs) = (Arena::new(0, ARENA_BYTES, 0).expect("addresses"), Epochs::new());
    let zone = Zone { arena: &arena, epochs: &epochs, slabs: &[], heat: None, quotas: None };
    let [costlier, cheaper, same, other, leaves] =
        [0, 1, 2, 3, 4].map(|number| arena.place(SlabId(1), number * CHUNK_BYTES));
    let mut order = Order::new(Some(1), CHUNK_BYTES, CHUNKS);
    order.adopt(zone, SlabId(1));
    for place in [costlier, cheaper, same, other, leaves] {
        order.enter(zone, place, Cost::from_us(100));
    }
    order.enter_waiting(zone);
    for (place, us) in [(costlier, 200), (cheaper, 20), (same, 100), (leaves, 100)] {
        order.enter(zone, place, Cost::from_us(us));
    }
    // It is in the order, and waits to be entered once more.
    order.leave(zone, leaves);
    assert!(!order.has(zone, leaves));
    let mut ahead = [Place(0); 8];
    let count = order.ahead(zone, &mut ahead);
    assert_eq!(ahead[..count], [cheaper, other]);
    assert_eq!(order.pop(zone, false), Some(cheaper));
    // A victim that stayed after all is the next once more, and is there once.
    for _ in 0..2 {
        order.set_aside(cheaper);
        slab::mark(&arena, cheaper).store(1, Relaxed);
        order.put_first(zone, SlabId(1));
        slab::mark(&arena, cheaper).store(0, Relaxed);
    }
    // A chunk that was freed, or lies in a slab that has left, is not there.
    [costlier, leaves].into_iter().for_each(|place| order.set_aside(place));
    order.put_first(zone, SlabId(2));
    order.disown(zone, SlabId(1));
    order.put_first(zone, SlabId(1));
    assert!(order.set_aside.is_empty() && !order.has(zone, leaves));
    assert_eq!(order.ahead(zone, &mut ahead), 2);
    assert_eq!(ahead[..2], [cheaper, other]);
    assert_eq!(order.pop(zone, false), Some(cheaper));
    // A chunk that comes too early is put off, or taken by a caller that takes any.
    assert_eq!(order.pop(zone, false), None);
    assert_eq!(order.pop(zone, true), Some(same));
    order.renew(zone, same);
    assert_eq!(popped(&mut order, zone), [other, costlier, same]);
}

#[test]
fn a_stored_item_tells_the_cost_that_its_draft_did_not_know() {
    for value_bytes in [100, 30_000] {
        let arena = Arc::new(Arena::new(0, 2 << 20, 8).expect("addresses are there"));
        let policy = Policy::GdWheel;
        let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, policy.side_bits());
        let layout = ChunkLayout::Inline;
        let hot = Hot::new(arena, Arc::new(Epochs::new()), sizes, layout, policy, 50, |_| 1);
        let fields = Fields { cost_reserved: true, ..Fields::default() };
        let layout = hot.layout(&fields, 3, value_bytes);
        let mut draft = hot.draft(layout, &fields, b"key", &Map::default()).expect("room");
        draft.write(&vec![7; value_bytes]);
        assert!(draft.set_cost(Cost::from_us(8000)));
        let (guard, pieces) = (hot.epochs.pin(), layout.pieces());
        let head = draft.publish(1, 0, 0);
        // SAFETY: published just now, and never unlinked.
        let item = unsafe { hot.item(&guard, head) };
        let typical_us = |place: Place| {
            let mut class = lock(hot.class(hot.class_at(place)));
            class.policy.enter_waiting(hot.zone());
            class.policy.order().expect("the policy keeps one").typical_us()
        };
        assert_eq!(typical_us(head), Some(8000.0));
        let part = Cost::from_us(8000 / pieces.max(1) as u32).us();
        assert!((0..pieces).all(|at| typical_us(item.piece(at)) == Some(part.into())));
        assert!(pieces == 0 || pieces > 2);
    }
}
