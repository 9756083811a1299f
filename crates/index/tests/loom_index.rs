//! Every interleaving (up to a bound of preemptions) of a reader or a writer with a writer that
//! moves words, replaces a location, or lets tables grow, split and merge.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p larder-index --release --test loom_index`
//!
//! Under loom a table has 4 to 7 buckets of two slots, of which a tree has 3 to 5 as roots. The
//! keys that lead to an event are found by trying keys in a first execution without other threads.
//!
//! The models have teeth. Each of these makes one fail: a lookup that takes its first miss for
//! final; a relaxed store of a word, of a directory entry or of an opened lock; a retired table
//! whose lock opens again, or that is retired before the directory leads elsewhere; a split that
//! puts its halves under each other's prefix. That a move must bump the version takes a key that
//! moves three times during one lookup: that model is in `src/find.rs`. That nothing may move in a
//! tree is seen when a removal pulls a word up from a sub-bucket.
#![cfg(loom)]

mod common;

use std::sync::{Arc, Mutex};

use common::{HeapSpace, mix};
use larder_index::{Change, Full, Hash, Index, Kind, Location, Options, Pair, Room, Stats};
use loom::thread;
use memory::Epochs;

/// An index and its epochs.
struct World {
    index: Index,
    epochs: Arc<Epochs>,
}

/// How an index starts: its kind, and whether its first table is the largest or the smallest, of
/// one bucket a unit.
#[derive(Clone, Copy)]
struct Start {
    kind: Kind,
    largest: bool,
}

const CUCKOO: Start = Start { kind: Kind::Cuckoo, largest: false };
const CUCKOO_LARGEST: Start = Start { kind: Kind::Cuckoo, largest: true };
const TREE: Start = Start { kind: Kind::Tree, largest: false };
const TREE_LARGEST: Start = Start { kind: Kind::Tree, largest: true };
const LIST: Start = Start { kind: Kind::List, largest: false };

impl Start {
    fn options(self) -> Options {
        let initial_items = match (self.largest, self.kind) {
            (false, _) => 0,
            (true, Kind::Cuckoo) => 11,
            (true, Kind::Tree | Kind::List) => 6,
        };
        Options { kind: self.kind, initial_items, ..Options::default() }
    }
}

impl World {
    fn new(start: Start, keys: &[u64]) -> Arc<Self> {
        let epochs = Arc::new(Epochs::new());
        let options = start.options();
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

/// Keys that share a hash, and so all buckets: the first two lie in the primary one.
const TWINS: [u64; 4] = [1, 2, 3, 4];
/// Keys that share the lowest hash, and so another primary bucket.
const LOWEST: [u64; 3] = [5, 6, 7];

fn hash(key: u64) -> Hash {
    match key {
        _ if TWINS.contains(&key) => Hash(mix(TWINS[0])),
        _ if LOWEST.contains(&key) => Hash(0),
        _ => Hash(mix(key)),
    }
}

fn is_of(key: u64) -> impl Fn(Location) -> bool {
    move |location| location.place() >> 4 == key
}

/// A thread with a stack for building a table: loom's own are smaller.
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
fn keys_until(start: Start, event: fn(&Stats) -> bool) -> Vec<u64> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let result = found.clone();
    model(0, move || {
        let mut keys = Vec::new();
        let mut world = World::new(start, &[]);
        for key in 10.. {
            keys.push(key);
            // In such small tables, a key's buckets may be hopeless long before the table is full.
            if world.try_set(key, 0).is_err() {
                keys.clear();
                world = World::new(start, &[]);
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

/// While `event` happens, a reader finds each of the keys that were present before, and a key that
/// is being set is found afterwards.
fn readers_always_find(start: Start, preemptions: usize, event: fn(&Stats) -> bool) {
    let keys = keys_until(start, event);
    let (&new, present) = keys.split_last().expect("some keys");
    for &sought in present {
        let present = present.to_vec();
        model(preemptions, move || {
            let world = World::new(start, &present);
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
    readers_always_find(CUCKOO, 6, |stats| stats.displacements > 0);
}

/// A lookup that has passed a key's primary bucket misses it only if the key moves there from its
/// alternate one: so two keys are brought to lie there, and have to make room.
#[test]
fn a_reader_finds_a_key_that_moves_to_where_it_has_looked() {
    let twins = || {
        let world = World::new(CUCKOO, &[TWINS[0], TWINS[1], TWINS[2], TWINS[3]]);
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
    readers_always_find(CUCKOO, 6, |stats| stats.growths > 0);
}

#[test]
fn a_reader_finds_a_key_while_its_table_splits() {
    readers_always_find(CUCKOO_LARGEST, 5, |stats| stats.splits > 0);
}

#[test]
fn a_reader_finds_a_key_while_its_table_merges() {
    readers_find_while_tables_merge(CUCKOO_LARGEST);
}

fn readers_find_while_tables_merge(start: Start) {
    let keys = keys_until(start, |stats| stats.splits > 0);
    let kept = [keys[0], keys[1]];
    for sought in kept {
        let keys = keys.clone();
        model(3, move || {
            let world = World::new(start, &keys);
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
    readers_see_the_old_or_the_new_location(CUCKOO, &[1]);
}

/// The last of `keys` is updated.
fn readers_see_the_old_or_the_new_location(start: Start, keys: &[u64]) {
    let keys = keys.to_vec();
    let key = *keys.last().expect("a key");
    model(6, move || {
        let world = World::new(start, &keys);
        let reader = {
            let world = world.clone();
            spawn(move || {
                let first = world.find(key).expect("it is there throughout");
                let second = world.find(key).expect("it is there throughout");
                assert!(first.place() <= second.place(), "an older location came back");
            })
        };
        assert_eq!(world.set(key, 1), Some(location(key, 0)));
        reader.join().expect("the reader found the key twice");
        assert_eq!(world.find(key), Some(location(key, 1)));
    });
}

/// A companion's tier, alone and beside a word of its key's own.
const ALONE: u8 = 2;
const BESIDE: u8 = 3;

impl World {
    /// A key that has only a companion, in a table with some other keys.
    fn with_companion(start: Start, key: u64, others: &[u64]) -> Arc<Self> {
        let world = Self::new(start, others);
        let set = |_: Option<Location>| (Change::Set(companion(key, ALONE)), ());
        let guard = world.epochs.pin();
        world.index.update(&guard, hash(key), |_| false, set).expect("there is room");
        drop(guard);
        world
    }

    /// Changes both words of a key in one step.
    fn change_pair(&self, key: u64, change: Change, of_companion: Change) -> Pair {
        let guard = self.epochs.pin();
        let is_own = |location: Location| location.tier() == 1 && is_of(key)(location);
        let is_companion = |location: Location| location.tier() > 1 && is_of(key)(location);
        let decide = |pair| (change, of_companion, pair);
        let room = Room::Beside;
        let changed =
            self.index.update_pair(&guard, hash(key), is_own, Some(is_companion), room, decide);
        changed.expect("there is room")
    }

    /// The key's own word, or else its companion. Between the two looks the first may have come.
    fn read(&self, key: u64) -> Option<Location> {
        let guard = self.epochs.pin();
        let look = |wanted: fn(u8) -> bool| {
            let eq = |location: Location| wanted(location.tier()) && is_of(key)(location);
            self.index.find(&guard, hash(key), eq)
        };
        look(|tier| tier == 1).or_else(|| look(|tier| tier > 1)).or_else(|| look(|tier| tier == 1))
    }
}

fn companion(key: u64, tier: u8) -> Location {
    Location::new(tier, key << 4)
}

#[test]
fn a_reader_finds_a_key_whose_own_word_comes_and_goes() {
    for start in [CUCKOO, TREE] {
        model(3, move || {
            let world = World::with_companion(start, 1, &[8]);
            let reader = {
                let world = world.clone();
                spawn(move || assert!(world.read(1).is_some(), "it is there throughout"))
            };
            let own = Change::Set(location(1, 0));
            let came = world.change_pair(1, own, Change::Set(companion(1, BESIDE)));
            assert_eq!(came, Pair { own: None, companion: Some(companion(1, ALONE)) });
            let went = world.change_pair(1, Change::Remove, Change::Set(companion(1, ALONE)));
            let before = Pair { own: Some(location(1, 0)), companion: Some(companion(1, BESIDE)) };
            assert_eq!(went, before);
            reader.join().expect("the reader found the key");
            assert_eq!(world.read(1), Some(companion(1, ALONE)));
        });
    }
}

#[test]
fn a_reader_of_a_changed_key_never_reads_its_companion_afterwards() {
    for start in [CUCKOO, TREE] {
        model(3, move || {
            let world = World::with_companion(start, 1, &[8]);
            let reader = {
                let world = world.clone();
                spawn(move || {
                    let new = location(1, 1);
                    let first = world.read(1).expect("it is there throughout");
                    let second = world.read(1).expect("it is there throughout");
                    assert!(first != new || second == new, "an older location came back");
                })
            };
            let own = Change::Set(location(1, 0));
            world.change_pair(1, own, Change::Set(companion(1, BESIDE)));
            world.change_pair(1, Change::Set(location(1, 1)), Change::Remove);
            reader.join().expect("the reader found the key twice");
            assert_eq!(world.read(1), Some(location(1, 1)));
            assert_eq!(world.index.stats().items, 2);
        });
    }
}

#[test]
fn two_writers_of_a_key_make_one_entry() {
    model(6, || {
        let world = World::new(CUCKOO, &[]);
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
    no_update_is_lost(CUCKOO);
}

fn no_update_is_lost(start: Start) {
    let keys = keys_until(start, |stats| stats.growths > 0);
    model(5, move || {
        let (&new, present) = keys.split_last().expect("some keys");
        let world = World::new(start, present);
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
    let keys = keys_until(CUCKOO, |stats| stats.displacements > 0);
    model(5, move || {
        let (&new, present) = keys.split_last().expect("some keys");
        let world = World::new(CUCKOO, present);
        let absent = new + 1;
        let reader = {
            let world = world.clone();
            spawn(move || assert_eq!(world.find(absent), None))
        };
        assert_eq!(world.set(new, 0), None);
        reader.join().expect("the reader found nothing");
    });
}

#[test]
fn a_reader_finds_the_keys_of_a_tree_while_a_sub_bucket_is_added() {
    readers_always_find(TREE, 6, |stats| stats.sub_buckets > 0);
    readers_always_find(LIST, 6, |stats| stats.sub_buckets > 0);
}

#[test]
fn a_reader_finds_the_keys_of_a_tree_while_it_grows() {
    readers_always_find(TREE, 6, |stats| stats.growths > 0);
}

#[test]
fn a_reader_finds_the_keys_of_a_tree_while_it_splits() {
    readers_always_find(TREE_LARGEST, 5, |stats| stats.splits > 0);
}

#[test]
fn a_reader_finds_the_keys_of_trees_while_they_merge() {
    readers_find_while_tables_merge(TREE_LARGEST);
}

#[test]
fn no_update_is_lost_in_a_tree_that_is_replaced() {
    no_update_is_lost(TREE);
}

#[test]
fn a_reader_of_a_sub_bucket_sees_the_old_or_the_new_location() {
    readers_see_the_old_or_the_new_location(TREE, &TWINS[..3]);
}

#[test]
fn two_writers_of_a_key_in_a_new_sub_bucket_make_one_entry() {
    model(5, || {
        let world = World::new(TREE, &TWINS[..2]);
        let other = {
            let world = world.clone();
            spawn(move || world.set(TWINS[2], 1))
        };
        let mine = world.set(TWINS[2], 2);
        let others = other.join().expect("the other writer is done");
        assert_ne!(mine.is_some(), others.is_some(), "one of them came first");
        let last = if mine.is_none() { 1 } else { 2 };
        assert_eq!(world.find(TWINS[2]), Some(location(TWINS[2], last)));
        let stats = world.index.stats();
        assert_eq!((stats.items, stats.sub_buckets), (3, 1));
    });
}

/// The first two of these lie in the root, the third in a sub-bucket. The first is removed and set
/// again, and then the third, which comes to lie in the root.
#[test]
fn a_reader_finds_a_key_of_a_tree_while_others_go_and_come_back() {
    for sought in [TWINS[1], TWINS[2]] {
        let other = if sought == TWINS[1] { TWINS[2] } else { TWINS[1] };
        model(6, move || {
            let world = World::new(TREE, &TWINS[..3]);
            let reader = {
                let world = world.clone();
                spawn(move || {
                    assert_eq!(world.find(sought), Some(location(sought, 0)));
                    let found = world.find(other);
                    assert!(found.is_none_or(|at| at.place() >> 4 == other));
                })
            };
            for gone in [TWINS[0], other] {
                let guard = world.epochs.pin();
                assert!(world.index.remove_exact(&guard, hash(gone), location(gone, 0)));
            }
            assert_eq!(world.set(other, 1), None);
            assert_eq!(world.set(TWINS[0], 1), None);
            reader.join().expect("the reader found its key");
            for (key, version) in [(sought, 0), (other, 1), (TWINS[0], 1)] {
                assert_eq!(world.find(key), Some(location(key, version)));
            }
        });
    }
}

/// Once a reader has found a key that is being inserted, it finds it for good.
#[test]
fn a_key_that_has_come_to_a_tree_stays() {
    model(6, || {
        let world = World::new(TREE, &TWINS[..2]);
        let reader = {
            let world = world.clone();
            spawn(move || {
                let first = world.find(TWINS[2]);
                let second = world.find(TWINS[2]);
                assert!(first.is_none() || second.is_some(), "it went away again");
            })
        };
        assert_eq!(world.set(TWINS[2], 0), None);
        reader.join().expect("the reader saw it come at most once");
    });
}

/// The smallest tree has one sub-bucket, which the third twin has taken. When the other two are
/// removed, three keys of another root bring about a table of the same size.
#[test]
fn a_reader_finds_a_key_of_a_tree_that_is_built_anew() {
    model(5, || {
        let world = World::new(TREE, &TWINS[..3]);
        for key in &TWINS[..2] {
            let guard = world.epochs.pin();
            assert!(world.index.remove_exact(&guard, hash(*key), location(*key, 0)));
        }
        let reader = {
            let world = world.clone();
            spawn(move || assert_eq!(world.find(TWINS[2]), Some(location(TWINS[2], 0))))
        };
        for key in LOWEST {
            assert_eq!(world.set(key, 0), None);
        }
        reader.join().expect("the reader found its key");
        let stats = world.index.stats();
        assert_eq!((stats.compactions, stats.growths, stats.sub_buckets), (1, 0, 1));
    });
}
