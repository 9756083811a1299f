//! Items that are hit often move to the first column of their slab, and nothing else about them
//! changes.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use io::ManualClock;
use io::frames::{Frame, FrameSource, PAGE_BYTES};
use larder::{
    Attributes, BuildError, Builder, Cache, CacheGeometry, ChunkLayout, Condition, Expiry,
    IndexKind, Limits, Policy, Repartition,
};
use stdx::random::split_mix;

const NOW: u32 = 1_800_000_000;
/// A span of 8 KiB, a sixteenth of the slabs of a small arena.
const GEOMETRY: &str = "128x16x64";

/// A small, seeded generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        split_mix(&mut self.0) % bound
    }
}

/// Returns settings with which every hit counts.
fn all_hits() -> Repartition {
    let mut repartition = Repartition::given(GEOMETRY.parse::<CacheGeometry>().unwrap());
    repartition.settings.sampling = 1;
    repartition
}

/// Returns settings with which as many items move as can.
fn most_aggressive() -> Repartition {
    let mut repartition = all_hits();
    repartition.settings.pass_hits = 1;
    repartition.settings.pass_chunks = 0;
    repartition.settings.limits = Limits { margin: 1, swaps_max: 1000 };
    repartition
}

struct Fixture {
    cache: Cache,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new(repartition: Repartition, change: impl Fn(Builder) -> Builder) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(8 << 20).repartition(repartition);
        Self { cache: change(builder).clock(clock.clone()).build().unwrap(), clock }
    }

    fn maintain(&self) {
        // As if there were time enough.
        self.clock.advance_us(1_000_000);
        while self.cache.maintain() {}
    }

    fn put(&self, key: &str, value: &[u8], attributes: Attributes) {
        self.cache.put(key.as_bytes(), value, attributes, Condition::Always).unwrap();
    }

    fn is_in_hot_column(&self, key: &str) -> bool {
        let session = self.cache.session();
        let item = session.peek(key.as_bytes(), self.cache.hash(key.as_bytes()));
        item.unwrap().is_in_hot_column()
    }
}

fn key(number: u64) -> String {
    format!("key-{number:06}")
}

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(8 + number as usize % 8)
}

/// All that a client can know of an item.
type Known = (Vec<u8>, u32, u32, u32, u64);

fn known(cache: &Cache, key: &str) -> Option<Known> {
    let session = cache.session();
    let item = session.peek(key.as_bytes(), cache.hash(key.as_bytes()))?;
    Some((item.to_vec(), item.flags(), item.expiry().second(), item.cost_us(), item.cas()))
}

#[test]
fn hot_items_move_to_the_hot_columns_unchanged() {
    const KEYS: u64 = 20_000;
    const HOT_EVERY: u64 = 100;
    for index in [IndexKind::Cuckoo, IndexKind::Tree] {
        let fixture = Fixture::new(all_hits(), |builder| builder.index(index));
        for number in 0..KEYS {
            let attributes = Attributes {
                flags: (number % 3) as u32,
                expiry: Expiry::at(if number % 4 == 0 { NOW + 1_000_000 } else { 0 }),
                cost_us: (number % 5) as u32 * 100,
                ..Attributes::default()
            };
            fixture.put(&key(number), &value(number), attributes);
        }
        let before: Vec<_> =
            (0..KEYS).map(|number| known(&fixture.cache, &key(number)).unwrap()).collect();
        let hot = || (0..KEYS).step_by(HOT_EVERY as usize);
        let placed = || hot().filter(|&number| fixture.is_in_hot_column(&key(number))).count();
        assert!(placed() < 50, "a sixteenth or so, not {}", placed());
        for _ in 0..200 {
            for number in hot().flat_map(|number| [number; 4]) {
                fixture.cache.get(key(number).as_bytes()).unwrap();
            }
            fixture.maintain();
        }
        let counts = fixture.cache.stats().repartition.unwrap().counts;
        assert!(placed() >= 190, "{} of 200 are where they belong; {counts:?}", placed());
        assert!((150..400).contains(&counts.swaps) && counts.passes > 1000, "{counts:?}");
        assert!(counts.moved_bytes > counts.swaps * 2 * 64, "{counts:?}");
        for (number, before) in (0..KEYS).zip(before) {
            assert_eq!(known(&fixture.cache, &key(number)), Some(before));
        }
        assert_eq!(fixture.cache.stats().items, KEYS);
    }
}

/// Frames in no order, always the same for a page at the same place of 2 MiB, to which the memory
/// is aligned.
#[derive(Debug)]
struct Scattered;

impl FrameSource for Scattered {
    fn is_open(&self) -> bool {
        true
    }

    fn read(&self, start: NonNull<u8>, frames: &mut [Frame]) {
        let first = start.as_ptr() as u64 % (2 << 20) / PAGE_BYTES as u64;
        for (page, frame) in (first..).zip(frames) {
            *frame = Frame::Known(Random(page).below(1 << 30));
        }
    }
}

#[test]
fn hot_items_move_to_pages_of_the_right_colours_by_known_frames() {
    const KEYS: u64 = 20_000;
    const HOT_EVERY: u64 = 100;
    // A slab of 128 KiB has 32 pages of four colours, of which four pages are for hot items.
    let mut repartition = Repartition::given("256x16x64".parse::<CacheGeometry>().unwrap());
    repartition.settings.sampling = 1;
    for layout in [ChunkLayout::Inline, ChunkLayout::Split] {
        let frames = Arc::new(Scattered);
        let fixture =
            Fixture::new(repartition, |builder| builder.layout(layout).frames(frames.clone()));
        (0..KEYS).for_each(|number| {
            fixture.put(&key(number), &value(number), Attributes::default());
        });
        let hot = || (0..KEYS).step_by(HOT_EVERY as usize);
        for _ in 0..200 {
            for number in hot().flat_map(|number| [number; 4]) {
                fixture.cache.get(key(number).as_bytes()).unwrap();
            }
            fixture.maintain();
        }
        let placed = hot().filter(|&number| fixture.is_in_hot_column(&key(number))).count();
        let found = fixture.cache.stats().repartition.unwrap();
        assert!(placed >= 190, "{placed} of 200 are where they belong; {found:?}");
        assert!(found.frames.are_told && found.frames.coloured_slabs > 5, "{found:?}");
        assert!(found.frames.right_share() > Some(0.9), "{found:?}");
        for number in 0..KEYS {
            assert_eq!(fixture.cache.get(key(number).as_bytes()), Some(value(number)));
        }
    }
}

#[test]
fn where_all_are_asked_for_equally_often_hardly_anything_moves() {
    const KEYS: u64 = 20_000;
    const READS: u64 = 2_000_000;
    let fixture = Fixture::new(all_hits(), |builder| builder);
    (0..KEYS).for_each(|number| fixture.put(&key(number), &value(number), Attributes::default()));
    let mut random = Random(11);
    for number in 0..READS {
        fixture.cache.get(key(random.below(KEYS)).as_bytes()).unwrap();
        if number % 200 == 0 {
            fixture.maintain();
        }
    }
    let counts = fixture.cache.stats().repartition.unwrap().counts;
    assert!(counts.passes > 10_000, "{counts:?}");
    assert!(counts.swaps < READS / 2000, "{counts:?}");
}

/// The model's knowledge of a key: its value, its expiry, and its unique.
type Modelled = (Vec<u8>, u32, u64);

fn random_steps(index: IndexKind, seed: u64) {
    const KEYS: u64 = 600;
    let fixture = Fixture::new(most_aggressive(), |builder| builder.evict(false).index(index));
    let (cache, mut random) = (&fixture.cache, Random(seed));
    let mut model: HashMap<u64, Modelled> = HashMap::new();
    let mut now = NOW;
    for step in 0..60_000_u64 {
        // Some keys far more often than others.
        let bound = random.below(KEYS) + 1;
        let number = random.below(bound);
        let name = key(number);
        let hash = cache.hash(name.as_bytes());
        match random.below(100) {
            0..8 => {
                let expiry =
                    if random.below(3) == 0 { now + 1 + random.below(20) as u32 } else { 0 };
                let attributes = Attributes { expiry: Expiry::at(expiry), ..Attributes::default() };
                let bytes = if random.below(50) == 0 { 200_000 } else { random.below(600) };
                let mut stored = step.to_le_bytes().to_vec();
                stored.resize(8 + bytes as usize, step as u8);
                fixture.put(&name, &stored, attributes);
                let unique = known(cache, &name).unwrap().4;
                model.insert(number, (stored, expiry, unique));
            }
            8..10 => {
                cache.remove(name.as_bytes());
                model.remove(&number);
            }
            10..13 => {
                let expiry = now + 1 + random.below(20) as u32;
                let is_there = model.get(&number).is_some_and(|it| it.1 == 0 || it.1 > now);
                let session = cache.session();
                let touched = session.touch(name.as_bytes(), hash, Expiry::at(expiry));
                assert_eq!(touched, Ok(is_there));
                if let Some(found) = model.get_mut(&number).filter(|_| is_there) {
                    found.1 = expiry;
                }
            }
            13 if random.below(200) == 0 => {
                cache.flush(None);
                model.clear();
            }
            14 if random.below(10) == 0 => {
                fixture.clock.advance(1);
                now += 1;
            }
            _ => {
                let expected = model.get(&number).filter(|it| it.1 == 0 || it.1 > now);
                let found = cache.get(name.as_bytes());
                assert_eq!(found.as_ref(), expected.map(|it| &it.0), "seed {seed}, step {step}");
                if let Some(expected) = expected {
                    let known = known(cache, &name).unwrap();
                    assert_eq!((known.2, known.4), (expected.1, expected.2), "seed {seed}");
                }
            }
        }
        if random.below(20) == 0 {
            cache.maintain();
        }
    }
    let counts = cache.stats().repartition.unwrap().counts;
    assert!(counts.swaps > 500 && counts.expired > 0, "{counts:?}");
    (0..KEYS).for_each(|number| _ = cache.remove(key(number).as_bytes()));
    (0..3).for_each(|_| fixture.maintain());
    assert_eq!(cache.stats().item_bytes, 0, "every chunk is free again");
}

#[test]
fn whatever_moves_the_cache_is_a_map() {
    for seed in 0..3 {
        random_steps(IndexKind::Cuckoo, seed);
        random_steps(IndexKind::Tree, 100 + seed);
    }
}

#[test]
fn the_limit_holds_and_slabs_leave_while_items_move() {
    for policy in [Policy::Clock, Policy::CostClock] {
        let fixture = Fixture::new(most_aggressive(), |builder| builder.policy(policy));
        let (cache, mut random) = (&fixture.cache, Random(3));
        for step in 0..300_000_u64 {
            let number = random.below(40_000);
            if step % 3 == 0 {
                let bytes = (step / 20_000 * 150 + random.below(100)) as usize;
                fixture.put(&key(number), &vec![number as u8; bytes], Attributes::default());
            } else if let Some(found) = cache.get(key(number / 10).as_bytes()) {
                assert!(found.iter().all(|&byte| byte == (number / 10) as u8));
            }
            if step % 50 == 0 {
                cache.maintain();
                let stats = cache.stats();
                assert!(stats.used_bytes <= stats.limit_bytes, "{stats:?}");
            }
        }
        let stats = cache.stats();
        let counts = stats.repartition.unwrap().counts;
        assert!(stats.evicted > 10_000 && stats.slabs_moved > 50, "{stats:?}");
        assert!(counts.swaps > 1000, "{counts:?}");
        cache.set_memory_bytes(4 << 20).unwrap();
        (0..100).for_each(|_| fixture.maintain());
        let stats = cache.stats();
        assert!(stats.used_bytes <= 4 << 20, "{stats:?}");
        cache.flush(None);
        (0..10).for_each(|_| fixture.maintain());
        assert_eq!(cache.stats().item_bytes, 0, "every chunk is free again");
    }
}

#[test]
fn an_open_session_keeps_its_items_and_loses_no_chunks() {
    let fixture = Fixture::new(most_aggressive(), |builder| builder.evict(false));
    let cache = &fixture.cache;
    (0..4000).for_each(|number| fixture.put(&key(number), &value(number), Attributes::default()));
    let used = cache.stats().item_bytes;
    let session = cache.session();
    let seen: Vec<_> = (0..4000)
        .map(|number| session.get(key(number).as_bytes(), cache.hash(key(number).as_bytes())))
        .collect();
    for round in 0..50 {
        (0..4000).step_by(70 + round).for_each(|number| {
            cache.get(key(number).as_bytes()).unwrap();
        });
        fixture.maintain();
    }
    let counts = cache.stats().repartition.unwrap().counts;
    assert!(counts.swaps == 0 && (1..100).contains(&counts.given_up), "{counts:?}");
    for (number, item) in (0..4000).zip(&seen) {
        assert_eq!(item.unwrap().to_vec(), value(number));
    }
    drop(session);
    for round in 0..50 {
        (0..4000).step_by(70 + round).for_each(|number| {
            cache.get(key(number).as_bytes()).unwrap();
        });
        fixture.maintain();
    }
    let counts = cache.stats().repartition.unwrap().counts;
    assert!(counts.swaps > 50, "{counts:?}");
    (0..3).for_each(|_| fixture.maintain());
    assert_eq!(cache.stats().item_bytes, used, "as many chunks as before");
    (0..4000).for_each(|number| assert_eq!(cache.get(key(number).as_bytes()), Some(value(number))));
}

#[test]
fn an_expired_item_is_removed_on_the_way() {
    let fixture = Fixture::new(most_aggressive(), |builder| builder.evict(false));
    let attributes = Attributes { expiry: Expiry::at(NOW + 5), ..Attributes::default() };
    (0..4000).for_each(|number| fixture.put(&key(number), &value(number), attributes));
    for number in (0..4000).step_by(7) {
        fixture.cache.get(key(number).as_bytes()).unwrap();
    }
    fixture.clock.advance(5);
    fixture.maintain();
    let stats = fixture.cache.stats();
    let counts = stats.repartition.unwrap().counts;
    assert!(counts.expired > 10 && counts.swaps == 0, "{counts:?}");
    assert_eq!(stats.items, 4000 - counts.expired);
}

#[test]
fn incompatible_settings_are_refused_and_off_costs_nothing() {
    for policy in [Policy::GdWheel, Policy::Lru] {
        let builder = Cache::builder().policy(policy).repartition(all_hits());
        assert!(matches!(builder.clone().build(), Err(BuildError::RepartitionOrder)));
        // Without eviction there is no order either.
        assert!(builder.evict(false).build().is_ok());
    }
    let chunks = |builder: Builder| {
        let cache = builder.memory_bytes(1 << 30).growth_factor(1.08).build().unwrap();
        let per_slab = |class: larder::ClassStats| (class.chunk_bytes, class.chunks_per_slab);
        cache.class_stats().into_iter().map(per_slab).collect::<Vec<_>>()
    };
    let (off, on) = (chunks(Cache::builder()), chunks(Cache::builder().repartition(all_hits())));
    for (bytes, chunks) in &on[..20] {
        // Half a byte beside each, and nothing where nothing moves.
        assert_eq!(*chunks, (1 << 24) / (8 * bytes + 4), "{bytes}");
    }
    assert!(off.iter().take(20).all(|(bytes, chunks)| *chunks == (2 << 20) / bytes));
}
