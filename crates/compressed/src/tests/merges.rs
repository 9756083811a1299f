//! Leaves that take the place of a sibling of which nothing is left: their block stays as it is.
//! And split leaves: the parts of their block that can be copied are.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{World, settings};
use crate::raw::Reference;
use crate::trie::SHARD_BITS;
use crate::{Reader, Settings, Writer, Zone};
use codec::record::{Fields, Record};
use memory::Epochs;

/// Bits of a hash that choose the first leaves of a zone.
const FIRST_BITS: u32 = SHARD_BITS;
/// Rows that each half of such a leaf gets: together more than a block of [`BLOCK_BYTES`] holds,
/// and half of them less than three quarters of one.
const ROWS: u32 = 20;
const BLOCK_BYTES: usize = 4 << 10;
const ROW_BYTES: usize = 100;

/// A key whose hash says which first leaf it belongs to, and which half of that.
fn key(first: u32, side: u32, number: u32) -> [u8; 12] {
    let mut key = [0; 12];
    for (part, value) in key.as_chunks_mut().0.iter_mut().zip([first, side, number]) {
        *part = value.to_be_bytes();
    }
    key
}

fn hash(key: &[u8]) -> u64 {
    let part = |at: usize| u64::from(key[at]);
    let top = part(3) << (64 - FIRST_BITS) | part(7) << (63 - FIRST_BITS);
    // The bits below the half, and the fingerprint, differ from row to row.
    top | part(11) << 40 | part(11)
}

fn value(key: &[u8]) -> Vec<u8> {
    let noise = super::hash(key).to_be_bytes();
    key.iter().chain(&noise).copied().cycle().take(ROW_BYTES).collect()
}

/// The parts of a world that threads share.
#[derive(Clone, Copy)]
struct Shared<'w> {
    zone: &'w Zone,
    epochs: &'w Epochs,
    now: u32,
}

impl World {
    fn shared(&self) -> Shared<'_> {
        Shared { zone: &self.zone, epochs: &self.epochs, now: self.now }
    }
}

impl Shared<'_> {
    /// Stores a row of the right half as one that several sweeps spare, and one of the left half
    /// as one that the next takes.
    fn insert(&self, writer: &mut Writer<'_>, key: &[u8], value: &[u8], expiry: u32) {
        let record = Record { key, value, fields: Fields { expiry, ..Fields::default() } };
        let done = self.zone.insert(hash(key), &record, self.now, writer, |_, newcomer| {
            newcomer.was_accessed(if key[7] == 0 { 0 } else { 3 });
            newcomer.reveal();
        });
        assert_eq!(done, Ok(()));
    }

    fn finds(&self, reader: &mut Reader, key: &[u8], value: &[u8]) -> bool {
        let guard = self.epochs.pin();
        let hit = self.zone.peek(&guard, hash(key), key, self.now, reader);
        hit.is_some() && reader.value() == value
    }

    fn has(&self, reader: &mut Reader, key: &[u8]) -> bool {
        self.finds(reader, key, &value(key))
    }

    fn remove(&self, reader: &mut Reader, key: &[u8]) -> bool {
        self.zone.remove(&self.epochs.pin(), hash(key), key, reader).is_some()
    }

    fn sweep_next(&self, writer: &mut Writer<'_>) {
        self.zone.sweep_next(self.now, writer).expect("there is room");
    }

    fn block_of(&self, key: &[u8]) -> Reference {
        self.zone.trie.leaf(hash(key)).block.expect("there is a block")
    }

    fn moved_up(&self) -> u64 {
        self.zone.counters.moved_up.load(Ordering::Relaxed)
    }
}

/// A zone of which some first leaves are split in two.
fn split(firsts: u32, expiry: u32) -> World {
    let world =
        World::new(Settings { hash: Box::new(hash), block_bytes: BLOCK_BYTES, ..settings(16) });
    let mut writer = Writer::new(&world.zone);
    for first in 0..firsts {
        for number in 0..ROWS {
            for (side, expiry) in [(0, 0), (1, expiry)] {
                let key = key(first, side, number);
                world.shared().insert(&mut writer, &key, &value(&key), expiry);
            }
        }
    }
    assert_eq!(world.zone.stats().splits, u64::from(firsts));
    world
}

/// Regression: the sibling of a leaf that a sweep had emptied was decoded, and written anew without
/// a change.
#[test]
fn the_block_of_a_leaf_whose_sibling_keeps_nothing_stays_where_it_is() {
    let world = split(1, 0);
    let (mut writer, mut reader) = (Writer::new(&world.zone), Reader::new());
    let (left, right) = (key(0, 0, 0), key(0, 1, 0));
    let shared = world.shared();
    let (before, block) = (world.zone.stats(), shared.block_of(&right));
    shared.sweep_next(&mut writer);
    let stats = world.zone.stats();
    assert_eq!((stats.merges, stats.leaves), (1, before.leaves - 1));
    assert_eq!((stats.evicted, stats.items), (u64::from(ROWS), ROWS as usize));
    assert_eq!(stats.space.appended_bytes, before.space.appended_bytes, "nothing is written");
    assert_eq!([shared.block_of(&left), shared.block_of(&right)], [block; 2]);
    assert!((0..ROWS).all(|number| shared.has(&mut reader, &key(0, 1, number))));
    assert!((0..ROWS).all(|number| !shared.has(&mut reader, &key(0, 0, number))));
    world.check();
    // The leaf takes rows of both halves, and loses those that are removed.
    shared.insert(&mut writer, &left, b"new", 0);
    assert!(shared.remove(&mut reader, &right) && !shared.remove(&mut reader, &right));
    assert!(shared.finds(&mut reader, &left, b"new") && !shared.has(&mut reader, &right));
    assert_eq!(world.zone.stats().items, ROWS as usize);
    world.check();
}

#[test]
fn a_block_that_has_moved_up_is_found_by_the_cleaner_with_its_long_values() {
    let world = split(1, 0);
    let (mut writer, mut reader) = (Writer::new(&world.zone), Reader::new());
    let (shared, long) = (world.shared(), key(0, 1, ROWS));
    let noise = || (0..5000_u32).flat_map(|at| super::hash(&at.to_be_bytes()).to_be_bytes());
    let noise: Vec<u8> = noise().collect();
    shared.insert(&mut writer, &long, &noise, 0);
    shared.sweep_next(&mut writer);
    assert_eq!(shared.moved_up(), 1);
    let code_of_long = || {
        let mut code = 0;
        let guard = world.epochs.pin();
        let block = world.zone.space.ground.block(&guard, shared.block_of(&long));
        block.iter().for_each(|block| code = block.longs()[0].load());
        code
    };
    let (block, code) = (shared.block_of(&long), code_of_long());
    // The blocks behind them in their slab die.
    for first in 1..11 {
        let key = key(first, 1, 0);
        shared.insert(&mut writer, &key, &noise, 0);
        assert!(shared.remove(&mut reader, &key));
    }
    let before = world.zone.stats().space.moved_bytes;
    while world.zone.clean(world.now, &mut writer) {}
    assert!(world.zone.stats().space.moved_bytes > before);
    assert!(shared.block_of(&long) != block && code_of_long() != code, "they were moved");
    assert!(shared.finds(&mut reader, &long, &noise));
    assert!((0..ROWS).all(|number| shared.has(&mut reader, &key(0, 1, number))));
    assert_eq!(world.zone.stats().damaged, 0);
    world.check();
}

#[test]
fn expired_items_of_a_block_that_has_moved_up_are_swept_when_due() {
    let soon = 1_000_100;
    let mut world = split(1, soon);
    let mut writer = Writer::new(&world.zone);
    assert!(world.now < soon);
    world.shared().sweep_next(&mut writer);
    assert_eq!(world.shared().moved_up(), 1);
    world.check();
    world.now = soon;
    world.sweep_expired();
    let stats = world.zone.stats();
    assert_eq!((stats.expired_swept, stats.items), (ROWS.into(), 0));
    world.check();
}

/// Leaving such a block as it is would keep rows that no lookup finds.
#[test]
fn a_block_with_dead_expired_or_flushed_rows_is_rebuilt_not_moved_up() {
    let soon = 1_000_100;
    for trouble in ["dead", "expired", "flushed"] {
        let mut world = split(1, if trouble == "expired" { soon } else { 0 });
        let (mut reader, mut writer) = (Reader::new(), Writer::new(&world.zone));
        let before = world.shared().block_of(&key(0, 1, 0));
        match trouble {
            "dead" => {
                let mut dying = (0..ROWS / 2).map(|number| key(0, 1, number));
                assert!(dying.all(|key| world.shared().remove(&mut reader, &key)));
            }
            "expired" => world.now = soon,
            _ => {
                world.zone.flush();
                world.shared().insert(&mut writer, &key(0, 0, 0), b"new", 0);
            }
        }
        // One for each half, since the sweep for expired items may come first.
        (0..2).for_each(|_| world.shared().sweep_next(&mut writer));
        assert_eq!(world.shared().moved_up(), 0, "{trouble}");
        let leaf = world.zone.trie.leaf(hash(&key(0, 1, 0)));
        assert_ne!(leaf.block, Some(before), "{trouble}");
        let left = if trouble == "dead" { ROWS as usize / 2 } else { 0 };
        assert_eq!(world.zone.stats().items, left, "{trouble}");
        world.check();
    }
}

/// Regression: a split sorted rows by their hashes, so that frames of two rows were taken apart and
/// compressed anew though both rows went to one side.
#[test]
fn rows_of_a_split_leaf_stay_in_their_order_and_in_their_frames() {
    let world =
        World::new(Settings { hash: Box::new(hash), block_bytes: BLOCK_BYTES, ..settings(4) });
    let mut writer = Writer::new(&world.zone);
    // Two of them fill a frame. Their hashes go down while they come, two for each half in turn.
    let keys: Vec<_> = (0..10).map(|at| key(0, at / 2 % 2, 200 - at)).collect();
    for key in &keys {
        world.shared().insert(&mut writer, key, &value(key).repeat(4), 0);
    }
    assert_eq!(world.zone.stats().splits, 1);
    for side in [0, 1] {
        let mut rows = keys.iter().filter(|key| u32::from(key[7]) == side).enumerate();
        let guard = world.epochs.pin();
        assert!(rows.all(|(rank, key)| {
            let mut reader = Reader::new();
            let hit = world.zone.peek(&guard, hash(key), key, world.now, &mut reader);
            hit.is_some_and(|hit| hit.rank == rank)
        }));
    }
    world.check();
}

/// One thread empties the left halves, so that the blocks of the right ones move up; another
/// removes rows of those, and a third stores more of them: no mark is lost, and none is made twice.
#[test]
fn marks_made_while_blocks_move_up_are_not_lost() {
    const FIRSTS: u32 = 1 << FIRST_BITS;
    const LATE: u32 = 4;
    const ROUNDS: u32 = 10;
    for round in 0..ROUNDS {
        let world = split(FIRSTS, 0);
        let shared = world.shared();
        let dies = |number: u32| number < ROWS && number % 5 == round % 5;
        let swept = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = Writer::new(shared.zone);
                for _ in 0..2 * FIRSTS {
                    shared.sweep_next(&mut writer);
                    swept.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(|| {
                let mut reader = Reader::new();
                for first in 0..FIRSTS {
                    // Beside the sweep, which comes to two halves for each of these.
                    while swept.load(Ordering::Relaxed) < 2 * first {
                        std::thread::yield_now();
                    }
                    for key in (0..ROWS).filter(|&n| dies(n)).map(|n| key(first, 1, n)) {
                        assert!(shared.remove(&mut reader, &key), "{key:?}");
                        assert!(!shared.has(&mut reader, &key), "{key:?}");
                        assert!(!shared.remove(&mut reader, &key), "{key:?}");
                    }
                }
            });
            scope.spawn(|| {
                let mut writer = Writer::new(shared.zone);
                let firsts = (0..FIRSTS).flat_map(|first| (0..LATE).map(move |n| (first, n)));
                for key in firsts.map(|(first, number)| key(first, 1, ROWS + number)) {
                    shared.insert(&mut writer, &key, &value(&key), 0);
                }
            });
        });
        let mut reader = Reader::new();
        for (first, number) in
            (0..FIRSTS).flat_map(|first| (0..ROWS + LATE).map(move |number| (first, number)))
        {
            let is_there = shared.has(&mut reader, &key(first, 1, number));
            assert_eq!(is_there, !dies(number), "{first} {number}");
        }
        assert_eq!(shared.moved_up(), FIRSTS.into(), "{:?}", world.zone.stats());
        world.check();
    }
}
