//! The index against a `HashMap`, from random operations, through growth, splits and merges, each
//! kind of index in turn.
//!
//! The item of key `k` lies at place `k << 4 | version`, so a location says which key it is for.
#![cfg(not(loom))]

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::{HeapSpace, TABLE_UNITS, mix};
use larder_index::{Change, Full, Hash, Index, IndexError, Kind, Location, Options, Pair, Room};
use memory::Epochs;
use proptest::prelude::*;

const KINDS: [Kind; 3] = [Kind::Cuckoo, Kind::Tree, Kind::List];

fn start(kind: Kind, units: usize) -> (Index, Arc<Epochs>, Arc<HeapSpace>) {
    start_with(Options { kind, ..Options::default() }, units)
}

fn start_with(options: Options, units: usize) -> (Index, Arc<Epochs>, Arc<HeapSpace>) {
    let epochs = Arc::new(Epochs::new());
    let space = Arc::new(HeapSpace::new(units));
    let index = Index::new(options, epochs.clone(), space.clone())
        .expect("there is room for the first table");
    (index, epochs, space)
}

fn location(key: u64, version: u64) -> Location {
    Location::new(1, key << 4 | (version & 15))
}

fn is_of(key: u64) -> impl Fn(Location) -> bool {
    move |location| location.place() >> 4 == key
}

fn set(index: &Index, epochs: &Epochs, key: u64, at: Location) -> Result<Option<Location>, Full> {
    let guard = epochs.pin();
    index.update(&guard, Hash(mix(key)), is_of(key), |old| (Change::Set(at), old))
}

fn find(index: &Index, epochs: &Epochs, key: u64) -> Option<Location> {
    index.find(&epochs.pin(), Hash(mix(key)), is_of(key))
}

/// A step of a random run, for a range of keys so that tables fill and empty.
#[derive(Debug, Clone)]
enum Step {
    Set { first: u64, count: u64, version: u64 },
    Remove { first: u64, count: u64 },
    RemoveExact { first: u64, count: u64, version: u64 },
    ReplaceExact { first: u64, count: u64, version: u64 },
    Maintain,
}

fn any_step(keys: u64) -> impl Strategy<Value = Step> {
    let stretch = (0..keys, 1..keys / 3, 0_u64..4);
    prop_oneof![
        4 => stretch.clone()
            .prop_map(|(first, count, version)| Step::Set { first, count, version }),
        2 => stretch.clone().prop_map(|(first, count, _)| Step::Remove { first, count }),
        1 => stretch.clone().prop_map(|(first, count, version)| {
            Step::RemoveExact { first, count, version }
        }),
        1 => stretch.prop_map(|(first, count, version)| {
            Step::ReplaceExact { first, count, version }
        }),
        2 => Just(Step::Maintain),
    ]
}

fn apply(index: &Index, epochs: &Epochs, model: &mut HashMap<u64, Location>, step: &Step) {
    match *step {
        Step::Set { first, count, version } => {
            for key in first..first + count {
                let at = location(key, version);
                assert_eq!(set(index, epochs, key, at), Ok(model.insert(key, at)));
            }
        }
        Step::Remove { first, count } => {
            for key in first..first + count {
                let removed =
                    index.update_present(&epochs.pin(), Hash(mix(key)), is_of(key), |old| {
                        (Change::Remove, old)
                    });
                assert_eq!(removed, model.remove(&key));
            }
        }
        Step::RemoveExact { first, count, version } => {
            for key in first..first + count {
                let (guard, hash, at) = (epochs.pin(), Hash(mix(key)), location(key, version));
                let present = model.get(&key) == Some(&at);
                assert_eq!(index.contains_exact(&guard, hash, at), present);
                assert_eq!(index.remove_exact(&guard, hash, at), present);
                if present {
                    model.remove(&key);
                }
            }
        }
        Step::ReplaceExact { first, count, version } => {
            for key in first..first + count {
                let (source, target) = (location(key, version), location(key, version + 1));
                let present = model.get(&key) == Some(&source);
                let hash = Hash(mix(key));
                assert_eq!(index.replace_exact(&epochs.pin(), hash, source, target), present);
                if present {
                    model.insert(key, target);
                }
            }
        }
        Step::Maintain => {
            index.maintain();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_cuckoo_does_what_a_map_does(steps in prop::collection::vec(any_step(60_000), 1..24)) {
        does_what_a_map_does(Kind::Cuckoo, &steps);
    }

    #[test]
    fn the_tree_does_what_a_map_does(steps in prop::collection::vec(any_step(60_000), 1..24)) {
        does_what_a_map_does(Kind::Tree, &steps);
    }

    #[test]
    fn the_list_does_what_a_map_does(steps in prop::collection::vec(any_step(60_000), 1..24)) {
        does_what_a_map_does(Kind::List, &steps);
    }
}

fn does_what_a_map_does(kind: Kind, steps: &[Step]) {
    const KEYS: u64 = 80_000;
    let (index, epochs, space) = start(kind, usize::MAX >> 1);
    let mut model = HashMap::new();
    for step in steps {
        apply(&index, &epochs, &mut model, step);
        assert_eq!(index.stats().items, model.len() as u64);
    }
    for key in 0..KEYS {
        assert_eq!(find(&index, &epochs, key), model.get(&key).copied());
    }
    index.maintain();
    let stats = index.stats();
    assert_eq!(stats.retired_bytes, 0);
    assert_eq!(stats.table_bytes as usize, space.used() * memory::space::TABLE_UNIT_BYTES);
}

/// A call moves one table and no more, wherever in the order of hashes it is.
#[test]
fn tables_move_one_at_a_time_and_keep_what_they_have() {
    for kind in KINDS {
        const KEYS: u64 = 60_000;
        let (index, epochs, space) = start(kind, usize::MAX >> 1);
        for key in 0..KEYS {
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None));
        }
        assert_eq!(index.move_some(Hash(0)), None, "nothing is to move");
        index.maintain_some(Hash(0), 1);
        let used = space.used();
        space.set_moves(true);
        let (mut calls, mut at) = (0, Some(Hash(0)));
        while let Some(begin) = at {
            let before = index.stats().moves;
            at = index.move_some(begin);
            calls += 1;
            let moved = index.stats().moves - before;
            assert!(moved == 1 || moved == 0 && at.is_none(), "{moved} in call {calls}");
        }
        let stats = index.stats();
        assert!(stats.moves > 1 && calls <= stats.moves + 1, "{calls} calls: {stats:?}");
        index.maintain_some(Hash(0), 1);
        assert_eq!((index.stats().retired_bytes, space.used()), (0, used));
        for key in 0..KEYS {
            assert_eq!(find(&index, &epochs, key), Some(location(key, 0)));
        }
    }
}

/// The least occupancy in percent at which tables of a kind grow: the average of many, and that of
/// a single one.
fn full_percent(kind: Kind) -> (u64, u64) {
    match kind {
        Kind::Cuckoo => (95, 98),
        Kind::Tree => (58, 55),
        Kind::List => (68, 65),
    }
}

#[test]
fn tables_split_while_they_fill_and_merge_when_they_empty() {
    for kind in KINDS {
        const KEYS: u64 = 300_000;
        let (index, epochs, space) = start(kind, usize::MAX >> 1);
        for key in 0..KEYS {
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None));
        }
        let full = index.stats();
        assert!(full.splits >= 31 && full.growths >= 3 * full.splits, "{full:?}");
        assert!(full.full_items * 100 >= full.full_slots * full_percent(kind).0, "{full:?}");
        assert_eq!(full.compactions, 0, "nothing was removed: {full:?}");
        for key in 0..KEYS {
            assert_eq!(find(&index, &epochs, key), Some(location(key, 0)));
            assert_eq!(find(&index, &epochs, key + KEYS), None);
        }
        for key in 1_000..KEYS {
            assert!(index.remove_exact(&epochs.pin(), Hash(mix(key)), location(key, 0)));
        }
        // Each round shrinks or merges a table once.
        while index.maintain() > 0 {}
        let empty = index.stats();
        assert_eq!((empty.items, empty.tables), (1_000, 1), "{empty:?}");
        assert_eq!(space.used(), TABLE_UNITS[0]);
        for key in 0..KEYS {
            let expected = (key < 1_000).then(|| location(key, 0));
            assert_eq!(find(&index, &epochs, key), expected);
        }
    }
}

/// Maintenance of a few tables at a time has the same result.
#[test]
fn maintenance_in_parts_looks_at_every_table() {
    for kind in KINDS {
        const KEYS: u64 = 60_000;
        let (index, epochs, space) = start(kind, usize::MAX >> 1);
        for key in 0..KEYS {
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None));
        }
        let round = || {
            let (mut calls, mut released, mut at) = (0, 0, Some(Hash(0)));
            while let Some(begin) = at {
                let (bytes, next) = index.maintain_some(begin, 3);
                (calls, released, at) = (calls + 1, released + bytes, next);
            }
            (calls, released)
        };
        let tables = index.stats().tables;
        assert!(tables > 6 && !tables.is_multiple_of(3), "{tables}");
        assert_eq!(round().0, tables.div_ceil(3));
        for key in 1_000..KEYS {
            assert!(index.remove_exact(&epochs.pin(), Hash(mix(key)), location(key, 0)));
        }
        while round().1 > 0 {}
        assert_eq!((index.stats().tables, space.used()), (1, TABLE_UNITS[0]));
        for key in 0..1_000 {
            assert_eq!(find(&index, &epochs, key), Some(location(key, 0)));
        }
    }
}

#[test]
fn without_memory_a_full_table_refuses_keys_without_deciding() {
    for kind in KINDS {
        let (index, epochs, _space) = start(kind, TABLE_UNITS[0]);
        let mut decided = 0_u64;
        let mut key = 0;
        let refused = loop {
            let result = index.update(&epochs.pin(), Hash(mix(key)), is_of(key), |old| {
                decided += 1;
                (Change::Set(location(key, 0)), old)
            });
            if let Err(full) = result {
                assert_eq!(full, Full::NoMemory);
                break key;
            }
            key += 1;
        };
        assert_eq!(decided, refused);
        let stats = index.stats();
        assert_eq!(stats.items, refused);
        assert!(stats.items * 100 >= stats.slots * full_percent(kind).1, "{stats:?}");
        // Present keys can still be changed and removed.
        assert_eq!(set(&index, &epochs, 7, location(7, 1)), Ok(Some(location(7, 0))));
        let remove = |_| (Change::Remove, ());
        let hash = Hash(mix(refused));
        assert_eq!(index.update_present(&epochs.pin(), hash, is_of(refused), remove), None);
        // Removals make room: in a cuckoo table anywhere, in a tree only on the key's own path.
        let gone = if kind == Kind::Cuckoo { 200 } else { refused };
        for key in 0..gone {
            let at = location(key, u64::from(key == 7));
            assert!(index.remove_exact(&epochs.pin(), Hash(mix(key)), at));
        }
        assert_eq!(set(&index, &epochs, refused, location(refused, 0)), Ok(None));
    }
}

/// A table that has no longer run to grow into is split into gaps that are long enough for the
/// smallest, and asks for no more memory than there is.
#[test]
fn where_there_are_only_gaps_tables_split_into_them() {
    for kind in KINDS {
        let (index, epochs, space) = start(kind, usize::MAX);
        space.set_run_max(TABLE_UNITS[0]);
        let keys = 8 * index.stats().slots;
        for key in 0..keys {
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None), "{kind:?}");
        }
        assert!((0..keys).all(|key| find(&index, &epochs, key) == Some(location(key, 0))));
        let stats = index.stats();
        assert!(stats.splits > 7 && stats.growths == 0, "{stats:?}");
        assert_eq!(space.starved(), 0);
        space.set_run_max(0);
        let refused = (keys..).find(|&key| set(&index, &epochs, key, location(key, 0)).is_err());
        assert!(refused.is_some() && space.starved() > 0);
    }
}

/// Otherwise a refused store would hold its table's lock while it looks for memory for each of the
/// parts that the table could be divided into.
#[test]
fn without_memory_a_full_table_is_not_divided_further() {
    for kind in KINDS {
        let (index, epochs, space) = start(kind, usize::MAX);
        space.set_run_max(0);
        let refused = (0..).find(|&key| set(&index, &epochs, key, location(key, 0)).is_err());
        assert!(refused.is_some() && space.starved() > 0);
        // Each time once for a larger table and once for a half, and again with the memory from
        // limbo.
        assert_eq!(space.refused(), 4 * space.starved(), "{kind:?}");
    }
}

/// Regression: it filled one half each time, and then there was no memory for the other.
#[test]
fn with_memory_for_one_half_neither_is_filled() {
    for kind in KINDS {
        // A table of 18 units, beside which 17 are free.
        let (index, epochs, space) = start(kind, 35);
        let refused = (0..).find(|&key| set(&index, &epochs, key, location(key, 0)).is_err());
        let refused = refused.expect("memory ends");
        assert_eq!(space.used(), 18, "{kind:?}");
        let before = space.words_back();
        assert_eq!(set(&index, &epochs, refused, location(refused, 0)), Err(Full::NoMemory));
        assert!(space.words_back() < before + 100, "{kind:?}: one of some thousand words");
    }
}

/// Only keys that share every hash bit with many others are refused although there is memory.
#[test]
fn keys_that_share_every_hash_bit_fill_two_buckets_and_no_more() {
    let (index, epochs, space) = start(Kind::Cuckoo, usize::MAX >> 1);
    let same = |key: u64| {
        index.update(&epochs.pin(), Hash(mix(42)), is_of(key), |_| {
            (Change::Set(location(key, 0)), ())
        })
    };
    for key in 0..16 {
        assert_eq!(same(key), Ok(()));
    }
    assert_eq!(same(16), Err(Full::Unplaceable));
    assert_eq!(space.used(), TABLE_UNITS[0], "memory would not have parted them");
    assert_eq!(space.starved(), 0);
    for key in 0..17 {
        let found = index.find(&epochs.pin(), Hash(mix(42)), is_of(key));
        assert_eq!(found, (key < 16).then(|| location(key, 0)));
    }
    assert!(index.candidate(&epochs.pin(), Hash(mix(42)), |_| true).is_some());
    assert_eq!(index.candidate(&epochs.pin(), Hash(!mix(42)), |_| true), None);
}

/// A table that is full enough to grow for the sake of others does not grow for these: otherwise it
/// would do so again and again, until it was all but empty. Keys with a hash of 0 have but one
/// bucket in any table.
#[test]
fn keys_that_share_every_hash_bit_do_not_make_a_table_grow() {
    for (bits, alike) in [(mix(42), 16), (0, 8)] {
        let (index, epochs, space) = start(Kind::Cuckoo, usize::MAX >> 1);
        let slots = index.stats().slots;
        for key in 0..slots / 2 {
            assert_eq!(set(&index, &epochs, 1_000 + key, location(1_000 + key, 0)), Ok(None));
        }
        let same = |key: u64| {
            let decide = |_| (Change::Set(location(key, 0)), ());
            index.update(&epochs.pin(), Hash(bits), is_of(key), decide)
        };
        // The other keys have moved out of their way.
        assert_eq!((0..1_000).position(|key| same(key).is_err()), Some(alike));
        assert_eq!(same(999), Err(Full::Unplaceable));
        let stats = index.stats();
        assert_eq!((stats.growths, stats.splits, space.starved()), (0, 0, 0), "{stats:?}");
        // There is room for one of them when another is removed.
        assert!(index.remove_exact(&epochs.pin(), Hash(bits), location(0, 0)));
        assert_eq!(same(999), Ok(()));
    }
}

/// More memory might have separated them.
#[test]
fn without_memory_keys_with_equal_hashes_are_refused_for_memory() {
    for kind in [Kind::Tree, Kind::List] {
        let (index, epochs, space) = start(kind, TABLE_UNITS[0]);
        let same = |key: u64| {
            let set = |_| (Change::Set(location(key, 0)), ());
            index.update(&epochs.pin(), Hash(mix(42)), |_| false, set)
        };
        let refused = (0..100_000).find_map(|key| same(key).err());
        assert_eq!(refused, Some(Full::NoMemory), "{kind:?}");
        assert!(space.starved() > 0);
    }
}

/// In a tree they make one long path, which ends with the pool of the largest table.
#[test]
fn keys_with_equal_hashes_fill_a_path_up_to_the_largest_pool() {
    for kind in [Kind::Tree, Kind::List] {
        let (index, epochs, space) = start(kind, usize::MAX >> 1);
        let hash = Hash(mix(42));
        let same = |key: u64| {
            let set = |_| (Change::Set(location(key, 0)), ());
            index.update(&epochs.pin(), hash, |_| false, set)
        };
        let refused = (0..100_000).find(|&key| same(key) == Err(Full::Unplaceable));
        let refused = refused.expect("the pool ends");
        assert_eq!(space.starved(), 0);
        index.maintain();
        assert_eq!(space.used(), TABLE_UNITS[1], "the largest table and no other");
        let lines = index.lookup_lines(&epochs.pin(), hash, |_| false) as u64;
        assert_eq!(refused, 7 * lines);
        for key in 0..refused {
            let found = index.find(&epochs.pin(), hash, is_of(key));
            assert_eq!(found, Some(location(key, 0)));
        }
        assert!(index.candidate(&epochs.pin(), hash, |_| true).is_some());
        assert_eq!(index.candidate(&epochs.pin(), Hash(!mix(42)), |_| true), None);
    }
}

/// Removed items leave empty sub-buckets. A table whose pool these have used up is built anew in
/// the same size, however often that happens.
#[test]
fn a_tree_whose_items_come_and_go_does_not_grow() {
    for kind in [Kind::Tree, Kind::List] {
        let (index, epochs, space) = start(kind, usize::MAX >> 1);
        for key in 0..1_100 {
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None));
        }
        for key in 1_100..200_000_u64 {
            let gone = key - 1_100;
            assert!(index.remove_exact(&epochs.pin(), Hash(mix(gone)), location(gone, 0)));
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None));
        }
        let stats = index.stats();
        assert!(stats.compactions > 3 && stats.growths == 0, "{stats:?}");
        for key in 0..200_000 {
            let expected = (key >= 198_900).then(|| location(key, 0));
            assert_eq!(find(&index, &epochs, key), expected);
        }
        index.maintain();
        assert_eq!(space.used(), TABLE_UNITS[0]);
    }
}

/// Tables are made for the expected items; items that do not come leave no more than the usual
/// trace.
#[test]
#[cfg_attr(miri, ignore = "tables are smaller there")]
fn an_index_that_expects_its_items_hardly_grows() {
    for kind in KINDS {
        const KEYS: u64 = 60_000;
        let options = Options { kind, expected_items: KEYS as usize, ..Options::default() };
        let (index, epochs, space) = start_with(options, usize::MAX >> 1);
        let begun = index.stats();
        for key in 0..KEYS {
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None));
        }
        let full = index.stats();
        assert!(full.growths + full.splits <= full.tables / 4, "{full:?}");
        assert!(full.table_bytes * 10 < begun.table_bytes * 11, "{full:?}");
        let (grown, epochs_too, _space) = start(kind, usize::MAX >> 1);
        for key in 0..KEYS {
            assert_eq!(set(&grown, &epochs_too, key, location(key, 0)), Ok(None));
        }
        let percent_max = if kind == Kind::Cuckoo { 108 } else { 130 };
        assert!(full.table_bytes * 100 < grown.stats().table_bytes * percent_max, "{full:?}");
        for key in 0..KEYS {
            assert_eq!(find(&index, &epochs, key), Some(location(key, 0)));
            assert!(index.remove_exact(&epochs.pin(), Hash(mix(key)), location(key, 0)));
        }
        while index.maintain() > 0 {}
        assert_eq!((index.stats().tables, space.used()), (1, TABLE_UNITS[0]));
    }
}

#[test]
fn an_index_needs_memory_to_start() {
    for kind in KINDS {
        let epochs = Arc::new(Epochs::new());
        let space = Arc::new(HeapSpace::new(TABLE_UNITS[1]));
        let options = Options { kind, initial_items: 20_000, ..Options::default() };
        let result = Index::new(options, epochs, space.clone());
        assert_eq!(result.err(), Some(IndexError::NoMemory));
        assert_eq!(space.used(), 0);
    }
}

/// Regression: items come to flash in the order of their hashes. A table whose keys all lie in one
/// of its halves could not be split once that half was as full as the whole: the index reported
/// itself full.
#[test]
fn keys_that_come_in_the_order_of_their_hashes_find_room() {
    for (kind, bytes_max) in [(Kind::Cuckoo, 16), (Kind::Tree, 24), (Kind::List, 24)] {
        let (index, epochs, space) = start(kind, 1 << 12);
        let mut keys: Vec<u64> = (0..400_000).collect();
        keys.sort_unstable_by_key(|&key| mix(key));
        for &key in &keys {
            assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None), "key {key}");
        }
        for &key in &keys {
            assert_eq!(find(&index, &epochs, key), Some(location(key, 0)));
        }
        let bytes = space.used() * memory::space::TABLE_UNIT_BYTES;
        assert!(bytes < bytes_max * keys.len(), "{kind:?}: {bytes} for {} keys", keys.len());
    }
}

/// Items that a flush makes void leave the index table by table.
#[test]
fn dismissed_words_are_removed_and_the_rest_is_found() {
    for kind in KINDS {
        let (index, epochs, _space) = start(kind, 1 << 12);
        for key in 0..50_000 {
            set(&index, &epochs, key, location(key, 0)).expect("there is room");
        }
        let (mut at, mut dismissed) = (Some(Hash(0)), 0);
        while let Some(hash) = at {
            at = index.remove_where(&epochs.pin(), hash, |location| {
                let goes = (location.place() >> 4).is_multiple_of(3);
                dismissed += u32::from(goes);
                goes
            });
        }
        assert_eq!(dismissed, 50_000_u32.div_ceil(3));
        for key in 0..50_000_u64 {
            let expected = (!key.is_multiple_of(3)).then(|| location(key, 0));
            assert_eq!(find(&index, &epochs, key), expected);
        }
        assert_eq!(index.stats().items, u64::from(50_000 - dismissed));
    }
}

/// A flush empties a tree without giving its sub-buckets back. Later keys find room.
#[test]
fn an_emptied_tree_takes_new_keys() {
    for kind in KINDS {
        let (index, epochs, _space) = start(kind, 1 << 12);
        for round in 0..4_u64 {
            for key in round * 50_000..(round + 1) * 50_000 {
                assert_eq!(set(&index, &epochs, key, location(key, 0)), Ok(None));
            }
            let mut at = Some(Hash(0));
            while let Some(hash) = at {
                at = index.remove_where(&epochs.pin(), hash, |_| true);
            }
        }
        let stats = index.stats();
        assert_eq!(stats.items, 0);
        assert!(stats.table_bytes < 50_000 * 24, "{stats:?}");
    }
}

/// A key's words in the model: its own, and its companion.
type Words = (Option<Location>, Option<Location>);

/// A random change of a key's words: the change of each, and the room that is asked for.
fn change_of_pair(key: u64, drawn: u64, (own, companion): Words) -> (Room, [Change; 2]) {
    let room = [Room::Never, Room::Absent, Room::Beside][drawn as usize % 3];
    let word = |tier: u8, drawn: u64| match drawn % 3 {
        0 => Change::Keep,
        1 => Change::Remove,
        _ => Change::Set(Location::new(tier, key << 4 | (drawn >> 8 & 15))),
    };
    let mut changes = [word(1, drawn >> 8), word(2, drawn >> 24)];
    if companion.is_none() {
        changes[1] = Change::Keep;
    }
    if own.is_none() && matches!(changes[0], Change::Set(_)) {
        match (room, companion) {
            (Room::Beside, _) | (Room::Absent, None) => {}
            (Room::Absent, Some(_)) => changes[1] = Change::Remove,
            (Room::Never, _) => changes[0] = Change::Keep,
        }
    }
    (room, changes)
}

fn after(word: Option<Location>, change: Change) -> Option<Location> {
    match change {
        Change::Keep => word,
        Change::Remove => None,
        Change::Set(location) => Some(location),
    }
}

/// Keys with companions that come and go, compared with a map, while tables grow.
#[test]
fn pairs_of_words_do_what_a_map_of_pairs_does() {
    const KEYS: u64 = 20_000;
    for kind in KINDS {
        let (index, epochs, _space) = start(kind, usize::MAX >> 1);
        let mut model: HashMap<u64, Words> = HashMap::new();
        let own = |key| move |location: Location| location.tier() == 1 && is_of(key)(location);
        let other = |key| move |location: Location| location.tier() == 2 && is_of(key)(location);
        for step in 0..12 * KEYS {
            let (key, drawn) = (mix(step) % KEYS, mix(step ^ 0x5eed));
            let hash = Hash(mix(key));
            // A companion comes as a word of its own, and is one from then on.
            let words = model.entry(key).or_default();
            if words.1.is_none() && drawn.is_multiple_of(7) {
                let at = Location::new(2, key << 4);
                let set = |_: Option<Location>| (Change::Set(at), ());
                index.update(&epochs.pin(), hash, other(key), set).expect("there is room");
                words.1 = Some(at);
            }
            let (room, changes) = change_of_pair(key, drawn, *words);
            let decide = |pair: Pair| (changes[0], changes[1], (pair.own, pair.companion));
            let (is_own, is_other) = (own(key), Some(other(key)));
            let found = index.update_pair(&epochs.pin(), hash, is_own, is_other, room, decide);
            assert_eq!(found, Ok(*words), "{kind:?}, step {step}");
            *words = (after(words.0, changes[0]), after(words.1, changes[1]));
        }
        let count = |words: &Words| usize::from(words.0.is_some()) + usize::from(words.1.is_some());
        let words: usize = model.values().map(count).sum();
        assert!(words > KEYS as usize / 2, "{words}");
        assert_eq!(index.stats().items, words as u64);
        for (key, words) in model {
            let (guard, hash) = (epochs.pin(), Hash(mix(key)));
            let found = (index.find(&guard, hash, own(key)), index.find(&guard, hash, other(key)));
            assert_eq!(found, words, "{kind:?}, key {key}");
        }
    }
}

/// To make room for a key's own word others move, and its companion does not: it is changed where
/// it was found.
#[test]
fn making_room_for_a_key_leaves_its_companion_where_it_is() {
    const ALONE: u8 = 2;
    const BESIDE: u8 = 3;
    let companion = |key: u64, tier| Location::new(tier, key << 4);
    // Tables that may not grow become so full that most insertions move something.
    let (index, epochs, _space) = start(Kind::Cuckoo, 1 << 8);
    let mut keys = Vec::new();
    for key in 0.. {
        let set = |_: Option<Location>| (Change::Set(companion(key, ALONE)), ());
        if index.update(&epochs.pin(), Hash(mix(key)), is_of(key), set).is_err() {
            break;
        }
        keys.push(key);
    }
    // Every other one leaves room for the word of another.
    let (left, gone): (Vec<u64>, Vec<u64>) = keys.iter().partition(|key| **key % 2 == 0);
    for key in gone {
        let at = companion(key, ALONE);
        assert!(index.remove_exact(&epochs.pin(), Hash(mix(key)), at));
    }
    let before = index.stats().displacements;
    let mut raised = 0;
    for &key in &left {
        let is_own = |location: Location| location.tier() == 1 && is_of(key)(location);
        let is_other = |location: Location| location.tier() > 1 && is_of(key)(location);
        let decide = |pair: Pair| {
            assert_eq!(pair, Pair { own: None, companion: Some(companion(key, ALONE)) });
            (Change::Set(location(key, 1)), Change::Set(companion(key, BESIDE)), ())
        };
        let (guard, hash) = (epochs.pin(), Hash(mix(key)));
        let room = Room::Beside;
        if index.update_pair(&guard, hash, is_own, Some(is_other), room, decide).is_err() {
            assert!(index.contains_exact(&guard, hash, companion(key, ALONE)), "and undecided");
            continue;
        }
        raised += 1;
        assert!(index.contains_exact(&guard, hash, location(key, 1)));
        assert!(index.contains_exact(&guard, hash, companion(key, BESIDE)));
        assert!(!index.contains_exact(&guard, hash, companion(key, ALONE)));
    }
    let words = left.len() + raised;
    assert_eq!(index.stats().items, words as u64);
    assert!(raised > left.len() * 9 / 10, "{raised} of {}", left.len());
    assert!(index.stats().displacements > before + 1000, "{}", index.stats().displacements);
    let still_alone =
        |key: &&u64| index.contains_exact(&epochs.pin(), Hash(mix(**key)), companion(**key, ALONE));
    assert_eq!(left.iter().filter(still_alone).count(), left.len() - raised);
}
