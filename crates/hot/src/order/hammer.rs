//! Threads that store, read, remove and drop drafts half-way, while slabs move between classes and
//! back to the arena: whatever happens, no item is in a free chunk, no chunk in an order is free,
//! and every used chunk is in the order, if there is one. The index is a map behind a lock.

mod tier;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use memory::class::CHUNK_BYTES_MIN;
use memory::{Arena, ClassId, Epochs, Guard, Place, SizeClasses};
use policy::cost::Cost;
use stdx::random::split_mix;
use stdx::sync::lock;

use crate::mark::hit_mark;
use crate::{CacheHooks, ChunkLayout, Draft, Fields, Hot, ItemRef, Policy, Shortage, slab};

use tier::Tiered;

const THREADS: u64 = if cfg!(miri) { 2 } else { 4 };
const STEPS: u64 = if cfg!(miri) { 40 } else { 400_000 };
/// The most steps, where the first ones were not enough.
const STEPS_MAX: u64 = if cfg!(miri) { STEPS } else { 20 * STEPS };
/// Items that must be offered to the tier below, where one is tested.
const OFFERED_MIN: u64 = 1000;
const KEYS: u64 = if cfg!(miri) { 30 } else { 3000 };
const MEMORY_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 6 << 20 };
/// How often a store is tried. A server gives up after 64.
const ATTEMPTS: usize = 8;
/// Drafts that a thread leaves open at a time.
const BEGUN_MAX: usize = 8;
const ITEM_BYTES_MAX: usize = 400_000;
/// One in this many chunks may be in magazines: enough that most classes have some.
const SHARE: usize = if cfg!(miri) { 2 } else { 8 };

/// The index, and the time.
#[derive(Default)]
pub(crate) struct Map {
    pub(crate) places: Mutex<BTreeMap<Vec<u8>, Place>>,
    pub(crate) mutations: AtomicU64,
    pub(crate) now: AtomicU32,
    pub(crate) evicted: AtomicU64,
    /// How often it was asked whether items may move.
    pub(crate) asked: AtomicU64,
    /// Stores demote items. There is no tier below, so the items are evicted.
    store_demotes: bool,
}

impl Map {
    /// A map for which stores demote items, or do not.
    pub(crate) fn with_store_demotion(store_demotes: bool) -> Self {
        Self { store_demotes, ..Self::default() }
    }

    /// Stores an item like a connection with an open session: no chunk that becomes free while the
    /// draft is made can be reused under it.
    pub(crate) fn store(
        &self,
        hot: &Hot,
        number: u32,
        value_bytes: usize,
    ) -> Result<Place, Shortage> {
        let (fields, key) = (Fields::default(), number.to_le_bytes());
        let layout = hot.layout(&fields, key.len(), value_bytes);
        let _session = hot.epochs.pin();
        let mut draft = hot.draft(layout, &fields, &key, self)?;
        draft.write(&vec![0xff; value_bytes]);
        let sequence = self.mutations.fetch_add(1, Relaxed) + 1;
        let mut places = lock(&self.places);
        let place = draft.publish(sequence as u32, 0, 0);
        places.insert(key.to_vec(), place);
        Ok(place)
    }
}

impl CacheHooks for Map {
    fn now(&self) -> u32 {
        self.now.load(Relaxed)
    }

    fn may_evict(&self) -> bool {
        true
    }

    fn mutations(&self) -> u64 {
        self.mutations.load(Relaxed)
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        self.mutations().saturating_sub(u64::from(item.sequence()))
    }

    fn prefetch(&self, _: &Guard<'_>, _: ItemRef<'_>) {}

    fn is_gone(&self, item: ItemRef<'_>) -> bool {
        item.expiry() != 0 && item.expiry() <= self.now()
    }

    fn evicted(&self, _: ItemRef<'_>, _: ClassId) {
        self.evicted.fetch_add(1, Relaxed);
    }

    fn store_demotes(&self) -> bool {
        self.store_demotes
    }

    fn may_move(&self) -> bool {
        self.asked.fetch_add(1, Relaxed);
        true
    }

    fn is_linked(&self, _: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        lock(&self.places).get(item.key()) == Some(&place)
    }

    fn unlink(&self, _: &Guard<'_>, item: ItemRef<'_>, place: Place) -> crate::Unlinked {
        let mut places = lock(&self.places);
        let is_there = places.get(item.key()) == Some(&place);
        if is_there {
            places.remove(item.key());
        }
        is_there.into()
    }

    fn relocate(&self, _: &Guard<'_>, item: ItemRef<'_>, place: Place, copy: Draft<'_>) -> bool {
        let mut places = lock(&self.places);
        let Some(found) = places.get_mut(item.key()).filter(|found| **found == place) else {
            // The draft takes the lock of its class when it is dropped.
            drop(places);
            return false;
        };
        *found = copy.publish_as(item, place);
        true
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        split_mix(&mut self.0) % end
    }
}

struct Client<'t> {
    hot: &'t Hot,
    map: &'t Map,
    hooks: &'t dyn CacheHooks,
    random: Random,
    /// Keys and values that clients have half sent, for many steps: they come up meanwhile.
    begun: Vec<(Draft<'t>, Vec<u8>, Vec<u8>)>,
}

impl<'t> Client<'t> {
    /// Continues beyond its steps until that is enough: on busy cores the background may have had
    /// few turns by then.
    fn run(&mut self, is_enough: impl Fn() -> bool) {
        let goes_on = |number: &u64| *number < STEPS || (*number < STEPS_MAX && !is_enough());
        (0..).take_while(goes_on).for_each(|number| self.step(number));
        self.begun.truncate(BEGUN_MAX / 2);
        while !self.begun.is_empty() {
            self.finish(0);
        }
    }

    fn step(&mut self, number: u64) {
        let key = format!("key-{}", self.random.below(KEYS)).into_bytes();
        match self.random.below(8) {
            0..=3 => self.store(&key, number),
            4 => self.remove(&key),
            _ => self.read(&key),
        }
        if number.is_multiple_of(500) {
            self.map.now.fetch_add(1, Relaxed);
        }
    }

    /// The sizes that are stored change with time, so that slabs have to move.
    fn value_bytes(&mut self, number: u64) -> usize {
        let number = if cfg!(miri) { number * 300 } else { number };
        let small = [20, 200, 1000, 3000][(number / 4000 % 4) as usize];
        let bytes = match self.random.below(300) {
            0 => self.random.below(ITEM_BYTES_MAX as u64 / 2),
            1..=20 => self.random.below(20_000),
            _ => small + self.random.below(small),
        };
        bytes as usize
    }

    fn store(&mut self, key: &[u8], number: u64) {
        let fields = Fields {
            expiry: [0, 0, self.map.now() + 2][self.random.below(3) as usize],
            cost: Cost::from_us([0, 40, 1000, 1 << 30][self.random.below(4) as usize]),
            ..Fields::default()
        };
        let value = vec![key[key.len() - 1]; self.value_bytes(number)];
        let layout = self.hot.layout(&fields, key.len(), value.len());
        let attempt = |_| {
            let draft = self.hot.draft(layout, &fields, key, self.hooks);
            draft.inspect_err(|_| self.hot.sweep()).ok()
        };
        let Some(mut draft) = (0..ATTEMPTS).find_map(attempt) else {
            return;
        };
        draft.write(&value[..value.len() / 2]);
        self.begun.push((draft, key.to_vec(), value));
        let last = self.begun.len() - 1;
        match self.random.below(6) {
            0 => drop(self.begun.pop()),
            1 if last < BEGUN_MAX => {}
            1 => {
                let at = self.random.below(last as u64) as usize;
                self.finish(at);
            }
            _ => self.finish(last),
        }
    }

    /// Publishes a draft that was begun.
    fn finish(&mut self, at: usize) {
        let (mut draft, key, value) = self.begun.swap_remove(at);
        draft.write(&value[value.len() / 2..]);
        let guard = self.hot.epochs.pin();
        let sequence = self.map.mutations.fetch_add(1, Relaxed) + 1;
        // It may come up before the map points at it.
        let place = draft.publish(sequence as u32, 0, self.map.now());
        if sequence.is_multiple_of(8) {
            thread::yield_now();
        }
        let replaced = lock(&self.map.places).insert(key, place);
        // SAFETY: the map pointed at it until just now, under this guard.
        replaced.into_iter().for_each(|place| unsafe { self.hot.retire(&guard, place) });
    }

    fn remove(&self, key: &[u8]) {
        let guard = self.hot.epochs.pin();
        let removed = lock(&self.map.places).remove(key);
        // SAFETY: as above.
        removed.into_iter().for_each(|place| unsafe { self.hot.retire(&guard, place) });
    }

    fn read(&self, key: &[u8]) {
        let guard = self.hot.epochs.pin();
        let Some(place) = lock(&self.map.places).get(key).copied() else {
            return;
        };
        // SAFETY: the map pointed at it under this guard.
        let item = unsafe { self.hot.item(&guard, place) };
        assert_eq!(item.key(), key);
        let pieces = item.layout().pieces();
        // One comparison, because Miri takes seconds to go through a long value byte by byte.
        let is_whole = |value: &[u8]| value == vec![key[key.len() - 1]; value.len()];
        match item.contiguous() {
            Some(value) => assert!(is_whole(value)),
            None => assert!((0..pieces).all(|at| is_whole(self.hot.piece_value(item, at)))),
        }
        let mark = item.mark().load(Relaxed);
        let hit = hit_mark(mark, self.map.now());
        let _ = item.mark().compare_exchange(mark, hit, Relaxed, Relaxed);
    }
}

/// Checks every class's chunks, and its order if it has one, against the free lists of its slabs.
/// Returns the number of chunks in orders, or used where there is none.
fn check(hot: &Hot, is_quiet: bool) -> usize {
    let mut all = 0;
    let guard = hot.epochs.pin();
    for class in &hot.classes {
        let mut class = lock(class);
        let zone = hot.zone();
        let at_hand: HashSet<Place> = class.at_hand().collect();
        let order = class.policy.order();
        let mut queued = 0;
        for &id in &class.slabs {
            let slab = zone.slab(id);
            let free = slab.free_chunks(zone.arena, id);
            for number in 0..class.chunks_per_slab as u32 {
                let place = slab.place(zone.arena, id, number);
                let is_used =
                    number < slab.touched() && !free.contains(&number) && !at_hand.contains(&place);
                let is_in = order.map_or(is_used, |order| order.has(zone, place));
                assert!(is_used || !is_in, "chunk {number} of {id:?} is free and in the order");
                let is_judged = is_used && hot.judged_here(&guard, class.id, place).is_some();
                let is_published = slab::mark(zone.arena, place).load(Relaxed) != 0;
                let may_be_out = !is_judged || slab.is_draining();
                assert!(!is_quiet || is_in || may_be_out, "chunk {number} of {id:?} is lost");
                assert!(!is_quiet || !is_used || is_published, "no drafts, nothing in limbo");
                let has_mark = number < slab.touched();
                assert!(is_used || !has_mark || !is_published, "chunk {number} of {id:?} is free");
                queued += usize::from(is_in);
            }
        }
        class.policy.enter_waiting(zone);
        if let Some(order) = class.policy.order() {
            let places = order.queued(zone);
            let distinct: HashSet<_> = places.iter().collect();
            assert_eq!((places.len(), distinct.len()), (queued, queued), "each is there once");
        }
        all += queued;
    }
    all
}

/// Where items begin that are in no order though their classes keep one. A chunk that comes up in a
/// draining slab leaves its order: it leaves with the slab, or comes first if the slab is opened
/// again.
fn out_of_order(hot: &Hot, map: &Map) -> Vec<Place> {
    let is_out = |&place: &Place| {
        let mut class = lock(hot.class(hot.class_at(place)));
        class.policy.enter_waiting(hot.zone());
        class.policy.order().is_some_and(|order| !order.has(hot.zone(), place))
    };
    lock(&map.places).values().copied().filter(is_out).collect()
}

/// For Miri, the few classes of which a slab has at most a hundred chunks: `check` goes through the
/// chunks of every slab.
fn few_classes(slab_bytes: usize, side_bits: usize) -> Option<SizeClasses> {
    cfg!(miri).then(|| SizeClasses::new(1200, 2.5, slab_bytes, ITEM_BYTES_MAX, side_bits))
}

/// Empties magazines and limbo.
pub(crate) fn settle(hot: &Hot) {
    hot.collect_all();
    while hot.classes.iter().any(|class| lock(class).in_limbo() > 0) {
        hot.sweep();
    }
}

/// Whether items are demoted, and by which threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    Nothing,
    ByBackground,
    ByStores,
}

fn hammer(policy: Policy, layout: ChunkLayout, below: Below, magazines: bool, seed: u64) {
    let arena = Arc::new(Arena::new(0, MEMORY_BYTES, 8).expect("addresses are there"));
    let (slabs, slab_bytes) = (arena.limit_slabs(), arena.slab_bytes());
    let side_bits = policy.side_bits();
    let sizes = few_classes(slab_bytes, side_bits).unwrap_or_else(|| {
        SizeClasses::for_slabs(CHUNK_BYTES_MIN, slabs, slab_bytes, ITEM_BYTES_MAX, side_bits)
    });
    let hot = Hot::new(arena, Arc::new(Epochs::new()), sizes, layout, policy, 50, |_| 1);
    let hot = if magazines { hot.with_magazines(THREADS as usize, SHARE) } else { hot };
    let (map, done, offered) = (Map::default(), AtomicBool::new(false), AtomicU64::new(0));
    map.now.store(1_800_000_000, Relaxed);
    thread::scope(|scope| {
        let (hot, map, done, offered) = (&hot, &map, &done, &offered);
        let tiered = move |is_background| Tiered { hot, map, is_background, offered };
        let background = scope.spawn(move || {
            let tiered = tiered(true);
            let hooks: &dyn CacheHooks = if below == Below::ByBackground { &tiered } else { map };
            for turn in 0_u64.. {
                hot.maintain(false, hooks);
                hot.sweep();
                if turn.is_multiple_of(64) {
                    hot.give_up_slabs(1, hooks);
                    check(hot, false);
                }
                if done.load(Relaxed) {
                    return;
                }
                thread::yield_now();
            }
        });
        let clients: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let random = Random(seed.wrapping_add(thread));
                    let tiered = tiered(false);
                    let hooks: &dyn CacheHooks =
                        if below == Below::ByStores { &tiered } else { map };
                    let is_enough =
                        || below == Below::Nothing || offered.load(Relaxed) > OFFERED_MIN;
                    Client { hot, map, hooks, random, begun: Vec::new() }.run(is_enough);
                })
            })
            .collect();
        let outcomes: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
        background.join().expect("the background goes on");
    });
    settle(&hot);
    check(&hot, true);
    let out = out_of_order(&hot, &map);
    assert!(out.iter().all(|&place| hot.slab_at(place).is_draining()), "{out:?} are lost");
    let moved: u64 = hot.stats().iter().map(|class| class.counters.slabs_lost).sum();
    let rescued: u64 = hot.stats().iter().map(|class| class.counters.rescued).sum();
    let evicted = map.evicted.load(Relaxed);
    let offered = offered.load(Relaxed);
    let counts = format!("{evicted} evicted, {offered} offered, {moved} slabs, {rescued} rescued");
    let is_much = evicted > 10_000 && moved > 100 && rescued > 500;
    assert!(cfg!(miri) || is_much, "{counts}");
    assert!(cfg!(miri) || below == Below::Nothing || offered > OFFERED_MIN, "{counts}");
    // Everything is evicted, the items of leaving slabs with these, and then no order has anything
    // left.
    for class in hot.sizes().iter() {
        while hot.evict(class, usize::MAX, &map) > 0 {}
    }
    assert!(lock(&map.places).values().all(|&place| hot.slab_at(place).is_draining()));
    hot.give_up_slabs(slabs, &map);
    settle(&hot);
    assert_eq!((lock(&map.places).len(), check(&hot, true)), (0, 0));
}

#[test]
fn exactly_the_used_chunks_are_in_an_order() {
    let entropy = std::collections::hash_map::RandomState::new();
    let fresh = std::hash::BuildHasher::hash_one(&entropy, 0) >> 1;
    let given = std::env::var("LARDER_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(fresh);
    let cases = [
        (Policy::GdWheel, ChunkLayout::Inline, Below::Nothing, true),
        (Policy::GdWheel, ChunkLayout::Split, Below::ByBackground, false),
        (Policy::GdWheel, ChunkLayout::Inline, Below::ByStores, true),
        (Policy::Lru, ChunkLayout::Inline, Below::ByStores, false),
        (Policy::Lru, ChunkLayout::Split, Below::ByBackground, true),
        (Policy::CostClock, ChunkLayout::Inline, Below::ByBackground, true),
        (Policy::Clock, ChunkLayout::Split, Below::Nothing, true),
    ];
    // All at once, so that threads lose their cores in the middle of their work.
    thread::scope(|scope| {
        let begin = |(policy, layout, below, magazines)| {
            let case = format!("{policy:?}, {layout:?}, {below:?}, magazines: {magazines}");
            (case, scope.spawn(move || hammer(policy, layout, below, magazines, seed)))
        };
        for (case, run) in cases.map(begin) {
            assert!(run.join().is_ok(), "{case}; LARDER_SEED={seed} repeats it");
        }
    });
}

#[test]
fn a_draft_that_came_up_is_evicted_in_turn_once_published() {
    for policy in [Policy::GdWheel, Policy::Lru] {
        let arena = Arc::new(Arena::new(0, 2 << 20, 8).expect("addresses are there"));
        let side_bits = policy.side_bits();
        let slab_bytes = arena.slab_bytes();
        let sizes = few_classes(slab_bytes, side_bits)
            .unwrap_or_else(|| SizeClasses::new(24, 1.25, slab_bytes, 10_000, side_bits));
        let layout = ChunkLayout::Inline;
        let hot = Hot::new(arena, Arc::new(Epochs::new()), sizes, layout, policy, 50, |_| 1);
        let map = Map::default();
        let (hooks, random) = (&map, Random(1));
        let mut client = Client { hot: &hot, map: &map, hooks, random, begun: Vec::new() };
        for key in 0..10 {
            let (fields, value) = (Fields::default(), vec![b'k'; 100]);
            let layout = hot.layout(&fields, 8, value.len());
            let key = [key; 7].iter().copied().chain([b'k']).collect::<Vec<u8>>();
            let mut draft = hot.draft(layout, &fields, &key, &map).expect("room");
            draft.write(&value[..value.len() / 2]);
            client.begun.push((draft, key, value));
        }
        let class = hot.class_at(client.begun[0].0.place());
        // Nothing can be evicted yet, however often it comes up.
        assert_eq!((hot.evict(class, 5, &map), check(&hot, false)), (0, 10));
        while !client.begun.is_empty() {
            client.finish(0);
        }
        assert_eq!((check(&hot, true), lock(&map.places).len()), (10, 10));
        assert_eq!((hot.evict(class, 6, &map), check(&hot, false)), (6, 4));
        assert_eq!((hot.evict(class, 6, &map), lock(&map.places).len()), (4, 0));
    }
}
