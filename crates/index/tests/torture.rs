//! Threads that insert, remove and look up while tables grow, split, shrink, merge, move and fill.
//!
//! A set of permanent keys must be found by every lookup, and a key that was never inserted by
//! none. With a lookup that takes its first miss for final, permanent keys go missing within a
//! second; with a retired table whose lock opens again, so do the keys of the writers. A key that
//! moves without bumping the version has to move three times in one lookup to be missed, which
//! these threads do not bring about and the model in `src/find.rs` does.
#![cfg(not(loom))]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{HeapSpace, TABLE_UNITS, mix};
use larder_index::{Change, Hash, Index, Kind, Location, Options};
use memory::Epochs;

const PERMANENT: u64 = 1_500;
/// Numbers of passing keys begin here, those of keys that are never inserted at twice this.
const PASSING: u64 = 1 << 30;
const ABSENT: u64 = 1 << 31;

struct World {
    index: Index,
    epochs: Arc<Epochs>,
    space: Arc<HeapSpace>,
    done: AtomicBool,
}

impl World {
    fn new(kind: Kind, units: usize) -> Self {
        let epochs = Arc::new(Epochs::new());
        let space = Arc::new(HeapSpace::new(units));
        // Two paths make the longest walks, and so the most moves.
        let options = Options { kind, paths: 2, ..Options::default() };
        let index = Index::new(options, epochs.clone(), space.clone()).expect("there is memory");
        let world = Self { index, epochs, space, done: AtomicBool::new(false) };
        for key in 0..PERMANENT {
            assert!(world.insert(key));
        }
        world
    }

    fn insert(&self, key: u64) -> bool {
        let set = |_| (Change::Set(location(key)), ());
        let guard = self.epochs.pin();
        self.index.update(&guard, hash(key), |at| at == location(key), set).is_ok()
    }

    fn remove(&self, key: u64) -> bool {
        self.index.remove_exact(&self.epochs.pin(), hash(key), location(key))
    }

    fn contains(&self, key: u64) -> bool {
        self.index.contains_exact(&self.epochs.pin(), hash(key), location(key))
    }

    /// Looks up permanent and absent keys until the writers are done.
    fn read(&self, seed: u64) {
        let mut rounds = 0_u64;
        while !self.done.load(Ordering::Relaxed) || rounds < 2 {
            for turn in 0..PERMANENT {
                let key = mix(seed ^ rounds << 32 ^ turn) % PERMANENT;
                assert!(self.contains(key), "permanent key {key} is missing");
                assert!(!self.contains(ABSENT + key), "key {key} was never inserted");
            }
            rounds += 1;
        }
    }

    /// Replaces keys of its own, one old by one new, keeping up to `window` of them. Returns the
    /// turns of the remaining ones.
    fn churn(&self, thread: u64, window: u64, turns: u64) -> Range<u64> {
        let key = |turn: u64| passing(thread, turn);
        let mut oldest = 0;
        for turn in 0..turns {
            while !self.insert(key(turn)) || turn - oldest >= window {
                assert!(self.remove(key(oldest)), "a key of this thread is missing");
                oldest += 1;
            }
            // The newest is present, and a removed one is not.
            assert!(self.contains(key(turn)));
            assert!(oldest == 0 || !self.contains(key(oldest - 1)));
        }
        oldest..turns
    }

    /// Removes the rest of a thread's keys.
    fn clear(&self, thread: u64, mut left: Range<u64>) {
        let is_there = |turn| self.remove(passing(thread, turn));
        assert!(left.all(is_there), "a key of this thread is missing");
    }
}

/// A key that a thread inserts and removes.
fn passing(thread: u64, turn: u64) -> u64 {
    PASSING + (thread << 24) + turn
}

fn location(key: u64) -> Location {
    Location::new(2, key)
}

fn hash(key: u64) -> Hash {
    Hash(mix(key))
}

/// Two writers churn while two readers look. The keys that they leave are removed when both are
/// done: a late writer has as little room as the other had.
fn run(world: &World, write: impl Fn(u64) -> Range<u64> + Sync) {
    thread::scope(|scope| {
        let readers = [1, 2].map(|seed| scope.spawn(move || world.read(seed)));
        let writers = [0, 1].map(|thread| {
            let write = &write;
            scope.spawn(move || write(thread))
        });
        let written = writers.map(|writer| writer.join());
        world.done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("the reader found what it should");
        }
        for (thread, result) in (0..).zip(written) {
            world.clear(thread, result.expect("the writer found what it should"));
        }
    });
    assert_eq!(world.index.stats().items, PERMANENT);
}

#[test]
fn permanent_keys_are_found_in_a_table_filled_to_the_brim() {
    // One table without memory to grow: 3056 slots, always as full as they can be.
    let world = World::new(Kind::Cuckoo, TABLE_UNITS[0]);
    run(&world, |thread| world.churn(thread, 765, 400_000));
    let stats = world.index.stats();
    assert!(stats.displacements > 100_000, "{stats:?}");
}

/// A tree without memory refuses a key for which another on the same path has to be removed, so a
/// writer may have to remove all of its keys.
#[test]
fn permanent_keys_are_found_in_a_tree_without_memory() {
    for kind in [Kind::Tree, Kind::List] {
        let world = World::new(kind, TABLE_UNITS[0]);
        run(&world, |thread| {
            let refused = (0..200_000_u64).filter(|turn| {
                let key = passing(thread, *turn);
                let is_in = world.insert(key);
                assert_eq!(world.contains(key), is_in);
                assert_eq!(world.remove(key), is_in);
                !is_in
            });
            assert!(refused.count() < 100_000, "most find room");
            0..0
        });
        let stats = world.index.stats();
        assert!(stats.sub_buckets > 75 && stats.growths == 0, "{stats:?}");
    }
}

#[test]
fn permanent_keys_are_found_while_cuckoo_tables_change() {
    permanent_keys_are_found_while_tables_change(Kind::Cuckoo);
}

#[test]
fn permanent_keys_are_found_while_trees_change() {
    permanent_keys_are_found_while_tables_change(Kind::Tree);
}

#[test]
fn permanent_keys_are_found_while_lists_change() {
    permanent_keys_are_found_while_tables_change(Kind::List);
}

fn permanent_keys_are_found_while_tables_change(kind: Kind) {
    let world = World::new(kind, usize::MAX >> 1);
    run(&world, |thread| {
        for _ in 0..3 {
            world.clear(thread, world.churn(thread, 40_000, 100_000));
            if thread == 0 {
                world.space.set_moves(true);
                (0..8).for_each(|_| _ = world.index.maintain());
                world.space.set_moves(false);
                while world.index.maintain() > 0 {}
            }
        }
        0..0
    });
    while world.index.maintain() > 0 {}
    let stats = world.index.stats();
    assert!(stats.splits > 3 && stats.merges > 3 && stats.moves > 3, "{stats:?}");
    assert_eq!((stats.tables, stats.retired_bytes), (1, 0), "{stats:?}");
}
