//! Items that change while they are being demoted.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Arena, Epochs, SizeClasses};

use super::*;
use crate::mark::{FETCHED, SENT};
use crate::order::hammer::Map;
use crate::{ChunkLayout, Draft, Fields, Policy, Unlinked};

const ITEMS: u32 = 40;
const VALUE_BYTES: usize = if cfg!(miri) { 4000 } else { 100 };
const EXPIRY: u32 = 1000;
const POLICIES: &[Policy] =
    if cfg!(miri) { &[Policy::Clock] } else { &[Policy::Clock, Policy::Lru, Policy::GdWheel] };

type Change = fn(ItemRef<'_>);

const READ: Change = |item| _ = item.mark().fetch_or(FETCHED, Relaxed);
const WON: Change = |item| _ = item.mark().fetch_or(SENT, Relaxed);
const TOUCHED: Change = |item| assert!(item.set_expiry(item.expiry() + 1), "it has the field");

/// A tier below that takes nothing, or everything, and whose items change while they are copied,
/// for the given number of times.
struct Busy<'t> {
    hot: &'t Hot,
    map: &'t Map,
    change: Change,
    changes: Cell<usize>,
    takes: bool,
    is_background: bool,
    copied: RefCell<Option<(Vec<u8>, Place, ItemVersion)>>,
    offered: RefCell<Vec<Vec<u8>>>,
}

impl<'t> Busy<'t> {
    fn new(hot: &'t Hot, map: &'t Map, change: Change, changes: usize) -> Self {
        let (copied, offered) = (RefCell::default(), RefCell::default());
        let changes = Cell::new(changes);
        let (takes, is_background) = (false, true);
        Self { hot, map, change, changes, takes, is_background, copied, offered }
    }

    /// Takes the item if it is unchanged, and if this tier takes any.
    fn take(&self, guard: &Guard<'_>, key: &[u8], place: Place, version: ItemVersion) -> bool {
        self.offered.borrow_mut().push(key.to_vec());
        // SAFETY: nothing else retires items here, and it was published when it was copied.
        let item = unsafe { self.hot.item(guard, place) };
        if let Some(left) = self.changes.get().checked_sub(1) {
            self.changes.set(left);
            (self.change)(item);
        }
        if !self.takes || ItemVersion::of(item) != version {
            return false;
        }
        assert_eq!(lock(&self.map.places).remove(key), Some(place));
        // SAFETY: the map pointed at it until just now, under this guard.
        unsafe { self.hot.retire(guard, place) };
        true
    }
}

impl CacheHooks for Busy<'_> {
    fn now(&self) -> u32 {
        self.map.now()
    }

    fn may_evict(&self) -> bool {
        true
    }

    fn mutations(&self) -> u64 {
        self.map.mutations()
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        self.map.age(item)
    }

    fn prefetch(&self, _: &Guard<'_>, _: ItemRef<'_>) {}

    fn is_gone(&self, item: ItemRef<'_>) -> bool {
        self.map.is_gone(item)
    }

    fn evicted(&self, item: ItemRef<'_>, class: ClassId) {
        self.map.evicted(item, class);
    }

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> Unlinked {
        self.map.unlink(guard, item, place)
    }

    fn demotes(&self) -> bool {
        self.is_background
    }

    fn store_demotes(&self) -> bool {
        !self.is_background
    }

    fn demote_for_store(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        self.take(guard, item.key(), place, ItemVersion::of(item))
    }

    fn is_linked(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        self.map.is_linked(guard, item, place)
    }

    fn relocate(&self, _: &Guard<'_>, _: ItemRef<'_>, _: Place, _: Draft<'_>) -> bool {
        false
    }

    fn copy(&self, item: ItemRef<'_>, place: Place) -> bool {
        *self.copied.borrow_mut() = Some((item.key().to_vec(), place, ItemVersion::of(item)));
        true
    }

    fn demote(&self) -> bool {
        let (key, place, version) = self.copied.take().expect("an item was copied before");
        self.take(&self.hot.epochs.pin(), &key, place, version)
    }
}

/// A zone with items that may be touched in place, and their class.
fn filled(policy: Policy, map: &Map) -> (Hot, ClassId) {
    let arena = Arc::new(Arena::new(0, 1 << 20, 8).expect("addresses are there"));
    let sizes = SizeClasses::new(24, 1.25, arena.slab_bytes(), 10_000, policy.side_bits());
    let (epochs, layout) = (Arc::new(Epochs::new()), ChunkLayout::Inline);
    let hot = Hot::new(arena, epochs, sizes, layout, policy, 50, |_| 1);
    let mut last = Place(0);
    for number in 0..ITEMS {
        let (fields, key) = (Fields { expiry: EXPIRY, ..Fields::default() }, number.to_le_bytes());
        let layout = hot.layout(&fields, key.len(), VALUE_BYTES);
        let mut draft = hot.draft(layout, &fields, &key, map).expect("there is room");
        draft.write(&[7; VALUE_BYTES]);
        let sequence = map.mutations.fetch_add(1, Relaxed) + 1;
        last = draft.publish(sequence as u32, 0, 0);
        lock(&map.places).insert(key.to_vec(), last);
    }
    let id = hot.class_at(last);
    (hot, id)
}

fn has(map: &Map, key: &[u8]) -> bool {
    lock(&map.places).contains_key(key)
}

/// Regression: a client that read an item for the first time, touched it or got its win token while
/// it was copied lost it: the tier below did not take a changed item, and so it was evicted.
#[test]
fn an_item_that_changes_while_copied_stays_and_others_are_evicted() {
    const CHANGED: usize = 3;
    for &policy in POLICIES {
        for (change, is_background) in
            [(READ, true), (WON, true), (TOUCHED, true), (TOUCHED, false), (READ, false)]
        {
            let map = Map::default();
            let (hot, id) = filled(policy, &map);
            let hooks = Busy { is_background, ..Busy::new(&hot, &map, change, CHANGED) };
            let left = hot.evict_or_demote(id, RoomRequest::new(2 * CHANGED), &hooks);
            assert!(left >= CHANGED, "{policy:?}: {left}");
            let offered = hooks.offered.take();
            let (changed, refused) = offered.split_at(CHANGED);
            assert!(changed.iter().all(|key| has(&map, key)), "{policy:?}");
            assert!(!refused.is_empty() && refused.iter().all(|key| !has(&map, key)));
            assert_eq!(lock(&map.places).len(), ITEMS as usize - left, "{policy:?}");
        }
    }
}

/// A touch to other milliseconds moves an item and keeps its number, and the next one may bring it
/// back to where it was copied.
#[test]
fn an_item_with_other_milliseconds_is_another() {
    let map = Map::default();
    let (hot, _) = filled(Policy::Clock, &map);
    let guard = hot.epochs.pin();
    let version = |early_ms| {
        let fields = Fields { expiry: EXPIRY, early_ms, ..Fields::default() };
        let layout = hot.layout(&fields, 1, VALUE_BYTES);
        let mut draft = hot.draft(layout, &fields, b"k", &map).expect("there is room");
        draft.write(&[7; VALUE_BYTES]);
        // SAFETY: published just now, and no thread retires it.
        ItemVersion::of(unsafe { hot.item(&guard, draft.publish(1, 0, 0)) })
    };
    assert_eq!(version(100), version(100));
    assert_ne!(version(100), version(900));
}

#[test]
fn a_round_ends_and_a_store_gets_room_while_all_items_keep_changing() {
    for &policy in POLICIES {
        let map = Map::default();
        let (hot, id) = filled(policy, &map);
        let mut hooks = Busy::new(&hot, &map, TOUCHED, usize::MAX);
        assert_eq!(hot.demote(id, RoomRequest::new(1), &hooks), 0, "{policy:?}");
        assert!(hooks.offered.borrow().len() >= ITEMS as usize, "{policy:?}");
        assert_eq!(lock(&map.places).len(), ITEMS as usize);
        // No chunk that came up is out of its order for good.
        hooks.is_background = false;
        assert!(hot.evict_or_demote(id, RoomRequest::new(1), &hooks) > 0, "{policy:?}");
        hooks.changes.set(0);
        hooks.is_background = true;
        hot.demote(id, RoomRequest::new(ITEMS as usize), &hooks);
        assert!(lock(&map.places).is_empty(), "{policy:?}");
    }
}

/// All items that remain in a leaving slab are evicted.
#[test]
fn an_item_that_changes_in_a_leaving_slab_is_offered_again() {
    let map = Map::default();
    let (hot, id) = filled(Policy::Clock, &map);
    let hooks = Busy { takes: true, ..Busy::new(&hot, &map, TOUCHED, 1) };
    let (key, place) = {
        let places = lock(&map.places);
        let (key, &place) = places.iter().next().expect("there are items");
        (key.clone(), place)
    };
    hot.offer(id, place, &hooks);
    assert_eq!(*hooks.offered.borrow(), [key.clone(), key.clone()]);
    assert!(!has(&map, &key));
}
