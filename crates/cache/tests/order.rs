//! The policies that keep an order, against orders that are too simple to be wrong: GreedyDual by
//! its definition for the wheels, a list for `Lru`; and their limits.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use io::ManualClock;
use larder::{
    Attributes, BuildError, Builder, Cache, ChunkLayout, Condition, Evicted, Expiry, Observer,
    Policy,
};

const ORDERED: [Policy; 2] = [Policy::GdWheel, Policy::Lru];
/// The layouts of chunks.
const LAYOUTS: [ChunkLayout; 2] = [ChunkLayout::Inline, ChunkLayout::Split];
const UNIT_US: u32 = 50;
/// The most units that are told apart.
const UNITS_MAX: u64 = 65_535;

fn builder(policy: Policy, memory_bytes: usize) -> Builder {
    let clock = Arc::new(ManualClock::new(1_800_000_000));
    Cache::builder().memory_bytes(memory_bytes).policy(policy).clock(clock)
}

fn put(cache: &Cache, key: &[u8], value: &[u8], cost_us: u32) {
    let attributes = Attributes { cost_us, ..Attributes::default() };
    cache.put(key, value, attributes, Condition::Always).unwrap();
}

/// Keys in the order in which they were evicted.
#[derive(Default)]
struct Log(Mutex<Vec<u64>>);

impl Observer for Log {
    fn is_watching(&self) -> bool {
        true
    }

    fn evicted(&self, evicted: &Evicted<'_>) {
        let number = u64::from_le_bytes(evicted.key.try_into().unwrap());
        self.0.lock().unwrap().push(number);
    }
}

/// GreedyDual with a bit for hits, by its definition: a sorted map.
struct Model {
    policy: Policy,
    inflation: u64,
    time: u64,
    /// By priority and time: the key.
    order: BTreeMap<(u64, u64), u64>,
    /// By key: where it is in the order, its cost, and whether it was hit.
    items: HashMap<u64, ((u64, u64), u64, bool)>,
}

impl Model {
    fn new(policy: Policy) -> Self {
        let (order, items) = (BTreeMap::new(), HashMap::new());
        Self { policy, inflation: 0, time: 0, order, items }
    }

    fn insert(&mut self, key: u64, units: u64) {
        self.remove(key);
        self.time += 1;
        let at = (self.inflation + units, self.time);
        self.order.insert(at, key);
        self.items.insert(key, (at, units, false));
    }

    fn remove(&mut self, key: u64) {
        if let Some((at, ..)) = self.items.remove(&key) {
            self.order.remove(&at);
        }
    }

    fn store(&mut self, key: u64, cost_us: u32) {
        let units = (u64::from(cost_us) + u64::from(UNIT_US / 2)) / u64::from(UNIT_US);
        let is_by_cost = self.policy == Policy::GdWheel;
        self.insert(key, if is_by_cost { units.clamp(1, UNITS_MAX) } else { 1 });
    }

    fn evict(&mut self) -> u64 {
        loop {
            let (&(priority, _), &key) = self.order.first_key_value().unwrap();
            self.inflation = priority;
            let (_, units, is_hit) = self.items[&key];
            self.remove(key);
            if !is_hit {
                return key;
            }
            self.insert(key, units);
        }
    }
}

/// A sequence that only the seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767);
        (self.0 >> 33) % bound
    }
}

#[test]
fn every_victim_is_that_of_a_sorted_map() {
    for policy in ORDERED {
        let log = Arc::new(Log::default());
        let cache = builder(policy, 2 << 20).observer(log.clone()).build().unwrap();
        let mut model = Model::new(policy);
        let (mut random, mut evicted) = (Random(7), 0);
        // Least, ties after rounding, across the levels, the highest there is and beyond it.
        let costs = [1, 74, 75, 124, 125, 5_000, 12_800, 400_000, 50 * 65_535, u32::MAX];
        for _ in 0..30_000 {
            let key = random.below(3000);
            // A key that is there is read: a replaced item may take longer to leave.
            if random.below(3) == 0 || model.items.contains_key(&key) {
                let is_there = cache.get(&key.to_le_bytes()).is_some();
                let item = model.items.get_mut(&key);
                assert_eq!(is_there, item.is_some(), "{policy:?}, key {key}");
                item.into_iter().for_each(|item| item.2 = true);
                continue;
            }
            let cost_us = costs[random.below(costs.len() as u64) as usize];
            put(&cache, &key.to_le_bytes(), &[7; 2000], cost_us);
            for victim in log.0.lock().unwrap().drain(..) {
                assert_eq!(model.evict(), victim, "{policy:?}, after {evicted}");
                evicted += 1;
            }
            model.store(key, cost_us);
        }
        assert!(evicted > 5000, "{policy:?}: {evicted}");
        assert_eq!(cache.stats().items, model.items.len() as u64);
    }
}

/// An item stored in a chunk that is still in the order stays where the chunk is until that comes
/// up, and may get one unit more than its cost: in sum that must not matter. The model holds as
/// many items as the cache, and stores anew as GreedyDual does.
#[test]
fn overwrites_cost_no_more_than_with_a_sorted_map() {
    // Equal costs, a wide range, and from the least to the highest there is.
    let wide = [100, 1000, 10_000, 50_000];
    let ends = [1, 74, 5_000, u32::MAX];
    for (policy, costs) in [(Policy::Lru, [0; 4]), (Policy::GdWheel, wide), (Policy::GdWheel, ends)]
    {
        for sets_of_16 in [1, 8] {
            let (paid, modelled) = replay_overwrites(policy, costs, sets_of_16);
            let name = format!("{policy:?}, {costs:?}, {sets_of_16} sets in 16");
            println!("{name}: paid {paid} rather than {modelled}");
            assert!(paid * 100 < modelled * 101, "{name}: {paid} {modelled}");
        }
    }
}

/// Stores missed keys, and overwrites others; returns the cost of the misses, and of those of the
/// model.
fn replay_overwrites(policy: Policy, costs: [u32; 4], sets_of_16: u64) -> (u64, u64) {
    let log = Arc::new(Log::default());
    let cache = builder(policy, 4 << 20).observer(log.clone()).build().unwrap();
    let (mut model, mut random) = (Model::new(policy), Random(3));
    let (mut paid, mut modelled) = (0, 0);
    for _ in 0..120_000 {
        // Low keys are asked for most.
        let bound = 1 + random.below(8000);
        let key = random.below(bound);
        let cost_us = costs[key as usize % costs.len()];
        let weight = u64::from(cost_us).clamp(1, u64::from(UNIT_US) * UNITS_MAX);
        let is_set = random.below(16) < sets_of_16;
        if is_set || cache.get(&key.to_le_bytes()).is_none() {
            put(&cache, &key.to_le_bytes(), &[7; 2000], cost_us);
            paid += if is_set { 0 } else { weight };
        }
        let modelled_hit = model.items.get_mut(&key).filter(|_| !is_set);
        if let Some(item) = modelled_hit {
            item.2 = true;
            continue;
        }
        modelled += if is_set { 0 } else { weight };
        model.store(key, cost_us);
        while model.items.len() as u64 > cache.stats().items {
            model.evict();
        }
    }
    assert!(log.0.lock().unwrap().len() > 10_000, "{policy:?} evicts");
    (paid, modelled)
}

/// Half of the items cost 2 ms and the cost of the others is unknown: neither half may push the
/// other out.
#[test]
fn an_unknown_cost_counts_as_typical() {
    let cache = builder(Policy::GdWheel, 4 << 20).build().unwrap();
    let items = 12_000_u64;
    for key in 0..items {
        put(&cache, &key.to_le_bytes(), &[7; 1000], [2000, 0][key as usize % 2]);
    }
    let left = |begin: u64| {
        let keys = (begin..items).step_by(2);
        keys.filter(|key| cache.get(&key.to_le_bytes()).is_some()).count()
    };
    let (known, unknown) = (left(0), left(1));
    assert!(known.abs_diff(unknown) * 20 < known, "{known} known, {unknown} unknown");
}

/// Links lie behind the chunks of a slab: neither may reach into the other, whatever the size.
#[test]
fn every_byte_of_a_full_cache_is_what_was_stored() {
    for policy in ORDERED {
        for value_bytes in [0, 1, 7, 8, 9, 100, 1000, 5000, 16_300, 16_348, 16_360, 100_000] {
            for layout in LAYOUTS {
                fill_and_read_back(policy, layout, value_bytes);
            }
        }
    }
}

fn fill_and_read_back(policy: Policy, layout: ChunkLayout, value_bytes: usize) {
    let cache = builder(policy, 2 << 20).layout(layout).build().unwrap();
    let value = |key: u64| vec![(key % 251) as u8; value_bytes];
    let items = (6 << 20) / (value_bytes as u64 + 24);
    for key in 0..items {
        put(&cache, &key.to_le_bytes(), &value(key), 100 * (key % 7) as u32);
    }
    let what = format!("{policy:?}, {layout:?}, {value_bytes} bytes");
    let mut found = 0;
    for key in 0..items {
        if let Some(read) = cache.get(&key.to_le_bytes()) {
            assert!(read == value(key), "{what}, key {key}");
            found += 1;
        }
    }
    let stats = cache.stats();
    assert_eq!(found, stats.items, "{what}");
    assert!(stats.evicted > 0 && stats.used_bytes <= 2 << 20);
}

#[test]
fn values_are_chained_where_links_make_chunks_smaller() {
    for (policy, layout) in
        ORDERED.into_iter().flat_map(|policy| LAYOUTS.map(|layout| (policy, layout)))
    {
        let builder = builder(policy, 64 << 20).layout(layout);
        let cache = builder.item_bytes_max(4 << 20).build().unwrap();
        // The largest chunk is a sixteenth of 256 KiB, less 16 bytes.
        let chunk_bytes = (16 << 10) - 16;
        // Of a split chunk a head of 64 bytes has no part of the value, and otherwise a header of
        // 16.
        let edge = chunk_bytes - if layout == ChunkLayout::Split { 48 } else { 0 };
        for pieces in [1, 2, 100] {
            for bytes in pieces * edge - 60..pieces * edge + 20 {
                let value: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
                cache.set(b"large", &value, Expiry::NEVER).unwrap();
                assert!(
                    cache.get(b"large") == Some(value),
                    "{policy:?}, {layout:?}, {bytes} bytes"
                );
            }
        }
    }
}

/// Without eviction there is no order: an expired item is found wherever it is, and no memory goes
/// to links.
#[test]
fn without_eviction_an_order_is_not_kept() {
    /// Chunks in a slab that hold an item each, without links: with them it would need more.
    const SLAB_ITEMS: usize = (128 << 10) / 64;
    let items = |policy| {
        let clock = Arc::new(ManualClock::new(1_800_000_000));
        let cache = Cache::builder().memory_bytes(2 << 20).policy(policy).evict(false);
        let cache = cache.clock(clock.clone()).build().unwrap();
        let attributes = |cost_us| Attributes {
            expiry: Expiry::at(1_800_000_005),
            cost_us,
            ..Attributes::default()
        };
        let store = |key: u64, cost_us| {
            cache.put(&key.to_le_bytes(), &[7; 40], attributes(cost_us), Condition::Always)
        };
        let stored = (0..100_000).take_while(|&key| store(key, u32::MAX).is_ok()).count();
        clock.advance(5);
        assert!(store(u64::MAX, 1).is_ok(), "{policy:?}: what is expired makes room");
        stored
    };
    // How many slabs the index takes depends on the seed of its hashes.
    for policy in ORDERED.into_iter().chain([Policy::Clock]) {
        let items = items(policy);
        assert!(items.is_multiple_of(SLAB_ITEMS) && items > 10 * SLAB_ITEMS, "{policy:?}: {items}");
    }
}

#[test]
fn a_unit_of_costs_has_a_range() {
    let build = |us| builder(Policy::GdWheel, 2 << 20).cost_unit_us(us).build();
    assert!(build(1).is_ok() && build(1 << 16).is_ok());
    for us in [0, (1 << 16) + 1] {
        assert!(matches!(build(us), Err(BuildError::CostUnitUs(refused)) if refused == us));
    }
}

/// 2^31 - 1 chunks of 24 bytes and as many links: 72 GiB, less a slab. A larger smallest chunk
/// raises the limit, and other policies have none.
#[test]
fn more_memory_than_chunks_can_be_numbered_in_is_refused() {
    let limit = (72 << 30) - (2 << 20);
    for policy in ORDERED {
        let build = |bytes| builder(policy, bytes).build();
        let cache = build(limit).unwrap();
        assert!(cache.set_memory_bytes(limit + (4 << 20)).is_err(), "{policy:?}");
        let Err(BuildError::PolicyMemoryBytes { bytes, bytes_max }) = build(limit + 1) else {
            panic!("{policy:?}: a limit that nobody can number");
        };
        assert_eq!((bytes, bytes_max), (limit + 1, limit));
        assert!(builder(policy, limit + 1).chunk_bytes_min(32).build().is_ok());
    }
    assert!(builder(Policy::Clock, limit + 1).build().is_ok());
}
