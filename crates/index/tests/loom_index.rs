//! Every interleaving (up to a bound of preemptions) of a reader or a writer with a writer who
//! moves words, replaces a location, or lets tables grow, split and merge.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p larder-index --release --test loom_index`
//!
//! Under loom a table has 4 to 7 buckets of two slots. Which keys lead to which event is found by
//! trying keys in a first execution without other threads.
//!
//! The models have teeth. Each of these makes one fail: a lookup that takes its first miss for
//! final; a relaxed store of a word, of a directory entry or of an opened lock; a retired table
//! whose lock opens again, or that is retired before the directory leads elsewhere; a split that
//! puts its halves under each other's prefix. That a move must bump the version takes a key that
//! moves three times during one lookup: that model is in `src/find.rs`.
#![cfg(loom)]

mod common;

use std::sync::{Arc, Mutex};

use common::{HeapSpace, mix};
use larder_index::{Change, Full, Hash, Index, Location, Options, Stats};
use loom::thread;
use memory::Epochs;

/// An index and its epochs.
struct World {
    index: Index,
    epochs: Arc<Epochs>,
}

/// Items that make the first table the smallest, or the largest, of one bucket a unit.
const SMALLEST: usize = 0;
const LARGEST: usize = 11;

impl World {
    fn new(initial_items: usize, keys: &[u64]) -> Arc<Self> {
        let epochs = Arc::new(Epochs::new());
        let options = Options { initial_items, ..Options::default() };
        let space = Arc::new(HeapSpace::new(usize::MAX >> 1));
        let index = Index::new(options, epochs.clone(), space).expect("there is memory");
        let world = Self { index, epochs };
        for &key in keys {
            assert_eq!(world.set(key, 0), None);
        }
        Arc::new(world)
    }

    fn try_set(&self, key: u64, version: u64) -> Result<Option<Location>, Full> {
        let guard = self.epochs.pin();
        let decide = |old| (Change::Set(location(key, version)), old);
        self.index.update(&guard, hash(key), is_of(key), decide)
    }

    fn set(&self, key: u64, version: u64) -> Option<Location> {
        self.try_set(key, version).expect("there is room")
    }

    fn find(&self, key: u64) -> Option<Location> {
        self.index.find(&self.epochs.pin(), hash(key), is_of(key))
    }
}

fn location(key: u64, version: u64) -> Location {
    Location::new(1, key << 4 | version)
}

/// Keys that share a hash, and so both buckets: the first two lie in the primary one.
const TWINS: [u64; 4] = [1, 2, 3, 4];

fn hash(key: u64) -> Hash {
    Hash(mix(if TWINS.contains(&key) { TWINS[0] } else { key }))
}

fn is_of(key: u64) -> impl Fn(Location) -> bool {
    move |location| location.place() >> 4 == key
}

/// A thread whose stack holds what building a table takes: loom's own are smaller.
fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    let builder = thread::Builder::new().stack_size(256 << 10);
    builder.spawn(run).expect("loom can start another thread")
}

fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    let run = Arc::new(run);
    builder.check(move || {
        let run = run.clone();
        spawn(move || run()).join().expect("the model holds");
    });
}

/// Keys of which the last one's insertion is the first to bring about `event`.
fn keys_until(initial_items: usize, event: fn(&Stats) -> bool) -> Vec<u64> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let result = found.clone();
    model(0, move || {
        let mut keys = Vec::new();
        let mut world = World::new(initial_items, &[]);
        for key in 10.. {
            keys.push(key);
            // In tables so small, a key's buckets may be hopeless long before the table is full.
            if world.try_set(key, 0).is_err() {
                keys.clear();
                world = World::new(initial_items, &[]);
                continue;
            }
            if event(&world.index.stats()) {
                break;
            }
        }
        *found.lock().expect("one thread") = keys;
    });
    let keys = result.lock().expect("one thread").clone();
    assert!(keys.len() > 2, "the event needs some keys: {keys:?}");
    keys
}

/// While `event` happens, a reader finds each of the keys that were there before, and a key that
/// is being set is found afterwards.
fn readers_always_find(initial_items: usize, preemptions: usize, event: fn(&Stats) -> bool) {
    let keys = keys_until(initial_items, event);
    let (&new, present) = keys.split_last().expect("some keys");
    for &sought in present {
        let present = present.to_vec();
        model(preemptions, move || {
            let world = World::new(initial_items, &present);
            let reader = {
                let world = world.clone();
                spawn(move || assert_eq!(world.find(sought), Some(location(sought, 0))))
            };
            assert_eq!(world.set(new, 0), None);
            reader.join().expect("the reader found its key");
            assert!(event(&world.index.stats()), "it happened in this execution too");
            assert_eq!(world.find(new), Some(location(new, 0)));
        });
    }
}

#[test]
fn a_reader_finds_a_key_that_moves() {
    readers_always_find(SMALLEST, 6, |stats| stats.displacements > 0);
}

/// A lookup that has passed a key's primary bucket misses it only if the key moves there from its
/// alternate one: so two keys are brought to lie there, and have to make room.
#[test]
fn a_reader_finds_a_key_that_moves_to_where_it_has_looked() {
    let twins = || {
        let world = World::new(SMALLEST, &[TWINS[0], TWINS[1], TWINS[2], TWINS[3]]);
        let guard = world.epochs.pin();
        assert!(world.index.remove_exact(&guard, hash(TWINS[0]), location(TWINS[0], 0)));
        drop(guard);
        world
    };
    let found = Arc::new(Mutex::new(0));
    let result = found.clone();
    model(0, move || {
        let new = (100..).find(|&key| {
            let world = twins();
            world.set(key, 0);
            world.index.stats().displacements > 0
        });
        *found.lock().expect("one thread") = new.expect("some key has to make room");
    });
    let new = *result.lock().expect("one thread");
    for sought in &TWINS[1..] {
        model(6, move || {
            let world = twins();
            let reader = {
                let world = world.clone();
                spawn(move || assert_eq!(world.find(*sought), Some(location(*sought, 0))))
            };
            assert_eq!(world.set(new, 0), None);
            reader.join().expect("the reader found its key");
            assert_eq!(world.index.stats().displacements, 1);
        });
    }
}

#[test]
fn a_reader_finds_a_key_while_its_table_grows() {
    readers_always_find(SMALLEST, 6, |stats| stats.growths > 0);
}

#[test]
fn a_reader_finds_a_key_while_its_table_splits() {
    readers_always_find(LARGEST, 5, |stats| stats.splits > 0);
}

#[test]
fn a_reader_finds_a_key_while_its_table_merges() {
    let keys = keys_until(LARGEST, |stats| stats.splits > 0);
    let kept = [keys[0], keys[1]];
    for sought in kept {
        let keys = keys.clone();
        model(3, move || {
            let world = World::new(LARGEST, &keys);
            for &key in &keys[2..] {
                let guard = world.epochs.pin();
                assert!(world.index.remove_exact(&guard, hash(key), location(key, 0)));
            }
            let reader = {
                let world = world.clone();
                spawn(move || assert_eq!(world.find(sought), Some(location(sought, 0))))
            };
            // The first round may have to make the halves smaller.
            world.index.maintain();
            world.index.maintain();
            reader.join().expect("the reader found its key");
            assert_eq!(world.index.stats().merges, 1);
        });
    }
}

#[test]
fn a_reader_sees_the_old_or_the_new_location() {
    model(6, || {
        let world = World::new(SMALLEST, &[1]);
        let reader = {
            let world = world.clone();
            spawn(move || {
                let first = world.find(1).expect("it is there throughout");
                let second = world.find(1).expect("it is there throughout");
                assert!(first.place() <= second.place(), "an older location came back");
            })
        };
        assert_eq!(world.set(1, 1), Some(location(1, 0)));
        reader.join().expect("the reader found the key twice");
        assert_eq!(world.find(1), Some(location(1, 1)));
    });
}

#[test]
fn two_writers_of_a_key_make_one_entry() {
    model(6, || {
        let world = World::new(SMALLEST, &[]);
        let other = {
            let world = world.clone();
            spawn(move || world.set(1, 1))
        };
        let mine = world.set(1, 2);
        let others = other.join().expect("the other writer is done");
        let last = match (mine, others) {
            (None, Some(before)) => {
                assert_eq!(before, location(1, 2));
                location(1, 1)
            }
            (Some(before), None) => {
                assert_eq!(before, location(1, 1));
                location(1, 2)
            }
            both => panic!("one of them came first: {both:?}"),
        };
        assert_eq!(world.find(1), Some(last));
        assert_eq!(world.index.stats().items, 1);
    });
}

#[test]
fn no_update_is_lost_in_a_table_that_is_replaced() {
    let keys = keys_until(SMALLEST, |stats| stats.growths > 0);
    model(5, move || {
        let (&new, present) = keys.split_last().expect("some keys");
        let world = World::new(SMALLEST, present);
        let other = {
            let (world, key) = (world.clone(), present[0]);
            spawn(move || world.set(key, 1))
        };
        assert_eq!(world.set(new, 0), None);
        let before = other.join().expect("the other writer is done");
        assert_eq!(before, Some(location(present[0], 0)));
        assert_eq!(world.find(present[0]), Some(location(present[0], 1)));
        assert_eq!(world.index.stats().items, keys.len() as u64);
    });
}

#[test]
fn a_removed_key_stays_absent_while_others_move() {
    let keys = keys_until(SMALLEST, |stats| stats.displacements > 0);
    model(5, move || {
        let (&new, present) = keys.split_last().expect("some keys");
        let world = World::new(SMALLEST, present);
        let absent = new + 1;
        let reader = {
            let world = world.clone();
            spawn(move || assert_eq!(world.find(absent), None))
        };
        assert_eq!(world.set(new, 0), None);
        reader.join().expect("the reader found nothing");
    });
}
