//! Random operations against a map: a lookup finds the last version, or nothing.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::{World, hash, settings};
use crate::{Record, Refused, Settings};
use codec::record::Fields;
use policy::cost::Cost;
use stdx::random::split_mix;

/// Keys that take part.
const KEYS: u64 = 4000;
/// How often the background may say that it can do no more for now, on its way to an empty zone.
const ENDS_MAX: u32 = 8;
const STEPS: usize = 60_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A value that says which key and version it is of, partly compressible.
fn value(key: u64, version: u64, random: &mut Random) -> Vec<u8> {
    let length = match random.below(100) {
        0 => random.below(100_000),
        1..4 => random.below(10_000),
        4..10 => random.below(2500),
        _ => random.below(300),
    };
    let mut value = format!("{{\"key\": {key}, \"version\": {version}, \"text\": \"").into_bytes();
    let noise = random.below(3) == 0;
    for at in 0..length {
        value.push(if noise {
            random.next() as u8
        } else {
            b"the quick brown fox, "[at as usize % 21]
        });
    }
    value
}

#[derive(Clone)]
struct Expected {
    value: Vec<u8>,
    fields: Fields,
}

struct Model {
    world: World,
    expected: HashMap<u64, Expected>,
    random: Random,
    version: u64,
    hits: usize,
}

fn name(key: u64) -> Vec<u8> {
    format!("key:{key:08}").into_bytes()
}

impl Model {
    fn step(&mut self) {
        let key = self.random.below(KEYS);
        match self.random.below(1000) {
            0..450 => self.store(key),
            450..850 => self.find(key),
            850..930 => self.remove(key),
            930..960 => self.promote(key),
            960..980 => {
                let bytes = self.random.below(200) as usize;
                self.world.evict(bytes);
            }
            980..985 => {
                self.world.maintain();
            }
            985..990 => {
                self.world.sweep_expired();
            }
            990..996 => self.world.now += self.random.below(100) as u32,
            996..999 => {
                let slabs = if self.random.below(50) == 0 { 0 } else { 2 + self.random.below(7) };
                self.world.zone.set_budget_slabs(slabs as usize);
            }
            _ => {
                if self.random.below(5) == 0 {
                    self.world.zone.flush();
                    self.expected.clear();
                }
            }
        }
    }

    fn store(&mut self, key: u64) {
        self.version += 1;
        let value = value(key, self.version, &mut self.random);
        let mut fields = Fields::default();
        if self.random.below(4) == 0 {
            fields = Fields {
                flags: self.random.next() as u32,
                expiry: self.world.now + self.random.below(500) as u32,
                custom_cas: Some(self.random.next()),
                base64_key: true,
                early_ms: self.random.below(1000) as u16,
                cost: Cost(self.random.next() as u16),
                mark: 2,
            };
        }
        self.remove(key);
        let reveal = self.random.below(10) != 0;
        let name = name(key);
        let record = Record { key: &name, value: &value, fields };
        let is_long = value.len() > self.world.zone.value_bytes_max() / 4;
        match self.world.insert_record(&record, reveal) {
            Ok(()) if reveal => {
                self.expected.insert(key, Expected { value, fields });
            }
            Ok(()) => {}
            Err(Refused::TooLarge) => assert!(is_long, "{} is not", value.len()),
            Err(Refused::NoRoom | Refused::Pinned) => {}
            Err(refused) => panic!("{refused:?}"),
        }
    }

    fn find(&mut self, key: u64) {
        let Some((value, fields)) = self.world.find(&name(key)) else { return };
        let expected = self.expected.get(&key).expect("what is found was stored");
        assert!(value == expected.value, "key {key}");
        assert_eq!(fields, expected.fields);
        assert!(!fields.is_expired(self.world.now));
        self.hits += 1;
    }

    fn remove(&mut self, key: u64) {
        let removed = self.world.remove(&name(key));
        assert!(self.expected.remove(&key).is_some() || !removed);
        assert!(!self.world.remove(&name(key)));
    }

    fn promote(&mut self, key: u64) {
        let World { zone, epochs, reader, now, .. } = &mut self.world;
        let guard = epochs.pin();
        let key_name = name(key);
        let Some(hit) = zone.peek(&guard, hash(&key_name), &key_name, *now, reader) else { return };
        assert!(zone.remove_hit(&hit) && !zone.remove_hit(&hit));
        assert!(self.expected.remove(&key).is_some());
    }
}

fn run(seed: u64, settings: Settings) {
    println!("seed {seed}");
    let world = World::new(settings);
    let mut model =
        Model { world, expected: HashMap::new(), random: Random(seed), version: 0, hits: 0 };
    for step in 0..STEPS {
        model.step();
        let stats = model.world.zone.stats();
        assert!(stats.space.slabs <= 8, "{stats:?}");
        if step % 500 == 0 {
            model.world.check();
        }
    }
    let stats = model.world.zone.stats();
    println!("{} hits, {stats:?}", model.hits);
    assert!(model.hits > STEPS / 50);
    assert!(stats.splits > 0 && stats.merges > 0 && stats.evicted > 0 && stats.expired > 0);
    assert!(model.world.zone.counters.moved_up.load(Ordering::Relaxed) > 0);
    assert!(stats.expiry_rewrites > 0 && stats.expired_swept > stats.expiry_rewrites);
    assert!(stats.space.moved_bytes > 0 && stats.damaged == 0);
    assert!(stats.inserted_short > 1000 && stats.inserted > stats.inserted_short + 1000);
    model.world.zone.set_budget_slabs(0);
    // A turn that has filled the last room ends there: the slab that it emptied is free in the
    // next.
    let mut ends = 0;
    while ends < ENDS_MAX && model.world.zone.slabs() > 0 {
        ends += u32::from(!model.world.maintain());
    }
    assert_eq!(model.world.zone.slabs(), 0, "{:?}", model.world.zone.stats());
    model.world.check();
}

#[test]
fn random_operations_find_the_last_version_or_nothing() {
    for seed in 0..4 {
        run(seed, settings(3 + seed as usize));
    }
}

#[test]
fn random_operations_without_compression_and_with_small_blocks_do_so_too() {
    run(10, Settings { method: codec::Method::Raw, block_bytes: 1 << 10, ..settings(6) });
    run(11, Settings { method: codec::Method::Lz4, block_bytes: 4 << 10, ..settings(6) });
}
