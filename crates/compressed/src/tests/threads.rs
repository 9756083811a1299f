//! Several threads: no reader ever finds a version that was gone before it began to look.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{World, hash, settings};
use crate::{Reader, Record, Settings, Writer, Zone};
use codec::record::Fields;
use memory::Epochs;

const KEYS: usize = 1500;
const STEPS: u64 = 60_000;

/// The state of a key, under the lock that stands for that of its index table.
struct Key {
    name: Vec<u8>,
    /// The version that is in the zone, or 0; written under the lock.
    present: Mutex<u64>,
    /// Versions up to this one are gone, and their removers have been told so.
    gone: AtomicU64,
    versions: AtomicU64,
}

struct Arena {
    zone: Zone,
    epochs: Arc<Epochs>,
    keys: Vec<Key>,
    stop: AtomicBool,
    now: u32,
}

fn value(key: &[u8], version: u64) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    let length =
        30 + (version % 7 * 40) as usize + if version.is_multiple_of(50) { 3000 } else { 0 };
    while value.len() < length {
        value.extend_from_slice(key);
    }
    value
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

impl Arena {
    /// Stores the next version of a key as a demotion does: the older one is gone first.
    fn store(&self, key: &Key, writer: &mut Writer<'_>, reader: &mut Reader) {
        let version = key.versions.fetch_add(1, Ordering::Relaxed) + 1;
        self.remove(key, reader);
        let value = value(&key.name, version);
        let record = Record { key: &key.name, value: &value, fields: Fields::default() };
        let confirm = |_: &memory::Guard<'_>, newcomer: crate::Newcomer<'_, '_>| {
            let mut present = key.present.lock().expect("no panic");
            // A later version that came first, or a removal meanwhile, makes this one obsolete.
            if *present == 0 && version > key.gone.load(Ordering::Relaxed) {
                *present = version;
                newcomer.reveal();
            }
        };
        let _ = self.zone.insert(hash(&key.name), &record, self.now, writer, confirm);
    }

    fn remove(&self, key: &Key, reader: &mut Reader) {
        let guard = self.epochs.pin();
        let mut present = key.present.lock().expect("no panic");
        let mut remove = || self.zone.remove(&guard, hash(&key.name), &key.name, reader);
        assert!(remove().is_none() || *present != 0);
        assert!(remove().is_none());
        if *present != 0 {
            key.gone.store(*present, Ordering::Release);
            *present = 0;
        }
    }

    fn promote(&self, key: &Key, reader: &mut Reader) {
        let guard = self.epochs.pin();
        let Some(hit) =
            self.zone.find(&guard, hash(&key.name), &key.name, self.now, self.now, reader)
        else {
            return;
        };
        let mut present = key.present.lock().expect("no panic");
        if self.zone.remove_hit(&hit) {
            let version = u64::from_le_bytes(*reader.value().first_chunk().expect("a version"));
            assert_eq!(version, *present);
            key.gone.store(version, Ordering::Release);
            *present = 0;
        }
    }

    fn find(&self, key: &Key, reader: &mut Reader) -> bool {
        let gone = key.gone.load(Ordering::Acquire);
        let guard = self.epochs.pin();
        let found = self.zone.find(&guard, hash(&key.name), &key.name, self.now, self.now, reader);
        if found.is_some() {
            let version = u64::from_le_bytes(*reader.value().first_chunk().expect("a version"));
            assert!(version > gone, "version {version} of what was gone up to {gone}");
            assert!(reader.value() == value(&key.name, version));
        }
        found.is_some()
    }

    fn change(&self, mut random: u64) {
        let (mut writer, mut reader) = (Writer::new(&self.zone), Reader::new());
        for step in 0..STEPS {
            let key = &self.keys[next(&mut random) as usize % KEYS];
            match next(&mut random) % 200 {
                0..110 => self.store(key, &mut writer, &mut reader),
                110..150 => self.remove(key, &mut reader),
                150..190 => self.promote(key, &mut reader),
                190..192 => {
                    self.zone.evict(100, self.now, &mut writer);
                }
                _ => {
                    self.zone.train();
                    self.zone.maintain(self.now, &mut writer);
                }
            }
            if step % 5000 == 0 {
                self.zone.set_budget_slabs(3 + next(&mut random) as usize % 4);
            }
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    fn look(&self, mut random: u64) -> usize {
        let mut reader = Reader::new();
        let mut hits = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let key = &self.keys[next(&mut random) as usize % KEYS];
            hits += usize::from(self.find(key, &mut reader));
        }
        assert_eq!(reader.counts().damaged, 0);
        hits
    }
}

/// Returns how many blocks have moved up meanwhile.
fn run(seed: u64, settings: Settings) -> u64 {
    println!("seed {seed}");
    let World { zone, epochs, now, .. } = World::new(settings);
    let key = |number| Key {
        name: format!("key:{number:06}").into_bytes(),
        present: Mutex::new(0),
        gone: AtomicU64::new(0),
        versions: AtomicU64::new(0),
    };
    let keys = (0..KEYS).map(key).collect();
    let arena = Arena { zone, epochs, keys, stop: AtomicBool::new(false), now };
    let hits: usize = std::thread::scope(|scope| {
        let arena = &arena;
        (1..=2).for_each(|thread| {
            scope.spawn(move || arena.change(seed << 8 | thread));
        });
        let readers: Vec<_> =
            (3..=4).map(|thread| scope.spawn(move || arena.look(seed << 8 | thread))).collect();
        readers.into_iter().map(|reader| reader.join().expect("it found what is true")).sum()
    });
    let stats = arena.zone.stats();
    println!("{hits} hits, {stats:?}");
    assert!(hits > 1000 && stats.merges > 0 && stats.splits > 0 && stats.damaged == 0);
    assert!(stats.inserted_short > 1000 && stats.inserted > stats.inserted_short + 1000);
    let moved_up = arena.zone.counters.moved_up.load(Ordering::Relaxed);
    let World { reader, writer, .. } = World::small(1);
    let world = World { zone: arena.zone, epochs: arena.epochs, reader, writer, now };
    world.check();
    moved_up
}

#[test]
fn no_reader_finds_a_version_removed_before_it_looked() {
    let small = Settings { method: codec::Method::Lz4, block_bytes: 1 << 10, ..settings(4) };
    assert!(run(1, small) + run(2, settings(4)) > 0);
}
