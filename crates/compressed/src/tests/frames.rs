//! Frames and the short way: rows over many frames, the state that is carried over, and the cases
//! of the long way.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{World, hash, settings};
use crate::access;
use crate::find::is_dead;
use crate::frame::Frame;
use crate::trie::shard_of;
use crate::{Settings, Writer};
use codec::record::{Fields, Record};

/// Keys that one leaf holds until it is split.
fn neighbours(count: usize) -> Vec<Vec<u8>> {
    let keys = (0..).map(|number: u32| format!("key:{number:06}").into_bytes());
    keys.filter(|key| shard_of(hash(key)) == 0).take(count).collect()
}

/// 80 bytes or so, which differ between keys.
fn value(key: &[u8]) -> Vec<u8> {
    let name = String::from_utf8_lossy(key);
    let noise = hash(key).wrapping_mul(hash(key) | 1);
    format!("{{\"id\": \"{name}\", \"noise\": {noise:032x}, \"text\": \"the same\"}}").into_bytes()
}

/// A zone whose blocks hold four frames.
fn world(budget_slabs: usize) -> World {
    World::new(Settings { block_bytes: 4 << 10, ..settings(budget_slabs) })
}

fn filled(count: usize) -> (World, Vec<Vec<u8>>) {
    let (mut world, keys) = (world(8), neighbours(count));
    for key in &keys {
        world.insert(key, &value(key)).expect("room");
    }
    (world, keys)
}

fn frames(world: &World, key: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    world.with_block(key, |block| frames = block.frames().expect("sound").collect());
    frames
}

#[test]
fn rows_appended_over_many_frames_are_found() {
    let (mut world, keys) = filled(35);
    let rows: Vec<_> = frames(&world, &keys[0]).iter().map(|frame| frame.head.rows).collect();
    assert_eq!(rows, [10, 10, 10, 3, 1, 1]);
    assert_eq!(world.zone.stats().inserted_short, 34, "all but the first");
    world.check();
    for (rank, key) in keys.iter().enumerate() {
        assert_eq!(world.find(key).map(|(found, _)| found), Some(value(key)));
        let guard = world.epochs.pin();
        let hit = world.zone.peek(&guard, hash(key), key, world.now, &mut world.reader);
        assert_eq!(hit.map(|hit| hit.rank), Some(rank), "ranks are those of arrival");
    }
    // A lookup decodes the frames that it needs and no others.
    let before = world.reader.counts();
    assert!(world.find(&keys[34]).is_some());
    assert!(world.reader.counts().decoded - before.decoded <= 2);
}

/// Rows of 96 bytes: two of them wait, and the third joins the frame with them. When two more would
/// fill it, rows wait until one does.
#[test]
fn rows_wait_behind_a_frame_and_join_it_together() {
    let (mut world, keys) = (world(8), neighbours(11));
    let expected: [&[u8]; 11] = [
        &[1],
        &[1, 1],
        &[3],
        &[3, 1],
        &[3, 1, 1],
        &[6],
        &[6, 1],
        &[6, 1, 1],
        &[6, 1, 1, 1],
        &[10],
        &[10, 1],
    ];
    for (key, expected) in keys.iter().zip(expected) {
        world.insert(key, &value(key)).expect("room");
        let frames = frames(&world, key);
        let rows: Vec<_> = frames.iter().map(|frame| frame.head.rows).collect();
        assert_eq!(rows, expected);
        assert_eq!(frames[0].head.raw_bytes, 96 * u16::from(rows[0]));
        world.check();
    }
    assert!(keys.iter().all(|key| world.find(key).map(|(found, _)| found) == Some(value(key))));
}

/// However few bytes rows have, only three of them wait.
#[test]
fn few_short_rows_wait() {
    let (mut world, keys) = (world(8), neighbours(40));
    for (index, key) in keys.iter().enumerate() {
        world.insert(key, b"").expect("room");
        let rows: Vec<_> = frames(&world, key).iter().map(|frame| frame.head.rows).collect();
        let (alone, together) = ((index + 1) % 4, (index + 1) / 4 * 4);
        let expected = [together as u8].into_iter().filter(|&rows| rows > 0);
        assert_eq!(rows, expected.chain([1].repeat(alone)).collect::<Vec<_>>());
    }
    assert!(keys.iter().all(|key| world.find(key).is_some()));
    world.check();
}

/// A head counts the rows of a frame in six bits.
#[test]
fn a_frame_of_short_rows_is_full_when_its_head_can_count_no_more() {
    let (mut world, mut rows) = (world(8), Vec::new());
    let keys: Vec<_> =
        (0_u32..).map(u32::to_be_bytes).filter(|k| shard_of(hash(k)) == 0).take(140).collect();
    for key in &keys {
        world.insert(key, b"").expect("room");
        rows = frames(&world, key).iter().map(|frame| frame.head.rows).collect();
    }
    assert_eq!(rows, [63, 63, 12, 1, 1]);
    assert!(keys.iter().all(|key| world.find(key).is_some()));
    world.check();
}

/// Rows of a fourth of a frame and more never wait where they fit.
#[test]
fn long_rows_join_a_frame_that_they_fill() {
    let (mut world, keys) = (world(8), neighbours(6));
    for key in &keys {
        world.insert(key, &[value(key), vec![b'l'; 300]].concat()).expect("room");
    }
    let rows: Vec<_> = frames(&world, &keys[0]).iter().map(|frame| frame.head.rows).collect();
    assert_eq!(rows, [2, 2, 2]);
    world.check();
}

#[test]
fn a_row_longer_than_a_frame_is_a_frame_alone() {
    let (mut world, keys) = (world(4), neighbours(7));
    let long = vec![b'l'; 1500];
    for (index, key) in keys.iter().enumerate() {
        world.insert(key, if index == 4 { &long } else { b"short" }).expect("room");
    }
    let rows: Vec<_> = frames(&world, &keys[0]).iter().map(|frame| frame.head.rows).collect();
    assert_eq!(rows, [4, 1, 1, 1]);
    assert_eq!(world.find(&keys[4]).map(|(value, _)| value), Some(long));
    assert!(world.find(&keys[3]).is_some() && world.find(&keys[5]).is_some());
    world.check();
}

#[test]
fn rows_are_appended_up_to_the_bytes_of_a_block_and_then_it_splits() {
    let (mut world, keys) = (world(8), neighbours(100));
    let mut most = 0;
    for key in &keys {
        let before = world.zone.stats();
        world.insert(key, &value(key)).expect("room");
        let after = world.zone.stats();
        assert!(after.splits == before.splits || after.inserted_short == before.inserted_short);
        world.with_block(key, |block| most = most.max(block.head().raw_bytes as usize));
        if after.splits == 1 {
            break;
        }
    }
    // A row has some 100 bytes.
    let block_bytes = world.zone.settings.block_bytes;
    assert!((block_bytes - 120..=block_bytes).contains(&most) && world.zone.stats().splits == 1);
    world.check();
}

#[test]
fn an_append_carries_over_dead_and_accessed_bits_and_records() {
    // From 30 rows to 34: there is another word of either kind of bits.
    let (mut world, keys) = (filled(30).0, neighbours(34));
    assert!(world.find(&keys[3]).is_some() && world.find(&keys[20]).is_some());
    assert!(world.remove(&keys[5]));
    for key in &keys[30..] {
        world.insert(key, &value(key)).expect("room");
    }
    assert_eq!(world.zone.stats().inserted_short, 33);
    world.check();
    world.with_block(&keys[0], |block| {
        let dead: Vec<_> = (0..34).filter(|&rank| is_dead(&block, rank)).collect();
        let accessed: Vec<_> =
            (0..34).filter(|&rank| access::count(block.accesses(), rank) == 1).collect();
        assert_eq!((dead, accessed), (vec![5], vec![3, 20]));
    });
    for rank in [3, 20] {
        let guard = world.epochs.pin();
        let (key, now) = (&keys[rank], world.now + 7);
        let hit = world.zone.find(&guard, hash(key), key, now, now, &mut world.reader);
        let hit = hit.expect("present");
        assert_eq!((hit.rank, hit.was_accessed, hit.reuse_ticks), (rank, true, Some(7)));
    }
}

#[test]
fn an_append_carries_over_the_slots_of_long_values() {
    let (mut world, keys) = (world(8), neighbours(30));
    let value = |index: usize| vec![index as u8; if index % 4 == 1 { 5000 + index } else { 60 }];
    for (index, key) in keys.iter().enumerate() {
        world.insert(key, &value(index)).expect("room");
        for (index, key) in keys[..=index].iter().enumerate() {
            assert_eq!(world.find(key).map(|(value, _)| value), Some(value(index)));
        }
    }
    assert_eq!(world.zone.stats().inserted_short, 29);
    assert!(frames(&world, &keys[0]).len() > 1);
    world.check();
}

#[test]
fn a_newcomer_whose_key_is_there_dead_is_appended() {
    let (mut world, keys) = filled(20);
    assert!(world.remove(&keys[4]));
    world.insert(&keys[4], b"new").expect("room");
    assert_eq!((world.zone.stats().inserted_short, world.zone.stats().rows), (20, 21));
    assert_eq!(world.find(&keys[4]).map(|(value, _)| value), Some(b"new".to_vec()));
    // A newcomer that is never revealed is there, and dead, and does not hide the next one either.
    assert!(world.remove(&keys[4]) && !world.remove(&keys[4]));
    let record = Record { key: &keys[4], value: b"hidden", fields: Fields::default() };
    world.insert_record(&record, false).expect("room");
    assert_eq!(world.find(&keys[4]), None);
    world.insert(&keys[4], b"newest").expect("room");
    assert_eq!((world.zone.stats().inserted_short, world.zone.stats().rows), (22, 23));
    assert_eq!(world.find(&keys[4]).map(|(value, _)| value), Some(b"newest".to_vec()));
    world.check();
}

#[test]
fn a_newcomer_whose_key_is_there_alive_takes_its_place() {
    let (mut world, keys) = filled(20);
    world.insert(&keys[4], b"new").expect("room");
    let stats = world.zone.stats();
    assert_eq!((stats.inserted_short, stats.rows, stats.inserted), (19, 20, 21));
    assert_eq!(world.find(&keys[4]).map(|(value, _)| value), Some(b"new".to_vec()));
    assert!(world.remove(&keys[4]) && !world.remove(&keys[4]));
    world.check();
}

#[test]
fn many_dead_rows_force_the_long_way_which_drops_them() {
    let (mut world, keys) = filled(20);
    for key in &keys[..5] {
        assert!(world.remove(key));
    }
    let key = &neighbours(21)[20];
    world.insert(key, b"new").expect("room");
    assert_eq!((world.zone.stats().inserted_short, world.zone.stats().rows), (19, 16));
    assert!(world.find(key).is_some());
    world.check();
}

/// Regression: each frame was decoded, only to find that every row in it is dead.
#[test]
fn a_rewrite_drops_dead_frames_undecoded_with_their_long_values() {
    let (mut world, keys) = (world(8), neighbours(30));
    let value = |index: usize| vec![index as u8; if index % 4 == 1 { 5000 } else { 200 }];
    for (index, key) in keys.iter().enumerate().take(20) {
        world.insert(key, &value(index)).expect("room");
    }
    let dead = frames(&world, &keys[0])[0];
    let rows = dead.ranks().end;
    assert!((5..10).contains(&rows) && frames(&world, &keys[0]).len() > 2);
    assert!(keys[..rows].iter().all(|key| world.remove(key)));
    world.with_block(&keys[0], |block| block.damage(dead.stored_at, 0xff));
    let before = world.zone.stats();
    world.insert(&keys[20], b"new").expect("room");
    let stats = world.zone.stats();
    assert_eq!(stats.inserted_short, before.inserted_short, "it went the long way");
    assert_eq!((stats.damaged, stats.items, stats.rows), (0, 21 - rows, 21 - rows));
    let longs = (0..rows).filter(|index| index % 4 == 1).count();
    assert_eq!(stats.long_bytes, before.long_bytes - 5000 * longs);
    for (index, key) in keys.iter().enumerate().take(20) {
        let found = world.find(key).map(|(found, _)| found);
        assert_eq!(found, (index >= rows).then(|| value(index)), "{index}");
    }
    world.check();
}

/// Regression: where there was no room to append a row, the block was decoded and encoded as a
/// whole, at each attempt, only to find that again.
#[test]
fn without_room_to_append_a_row_no_block_is_decoded_for_it() {
    let keys: Vec<_> = (0..5000).map(|number| format!("key:{number:06}").into_bytes()).collect();
    let mut world = world(3);
    let epochs = std::sync::Arc::clone(&world.epochs);
    // Memory that was replaced while a thread is pinned is no room.
    let guard = epochs.pin();
    let (stored, newcomers) = keys.split_at(4000);
    let refused = stored.iter().filter(|key| world.insert(key, &value(key)).is_err());
    assert!(refused.count() > 100, "nothing more fits");
    let takes = |key: &&Vec<u8>| {
        let mut has_room = false;
        // The row joins frames behind the first one.
        world.with_block(key, |block| {
            has_room = block.head().raw_bytes < 3 << 10 && block.head().frames > 2;
        });
        has_room
    };
    let newcomer = newcomers.iter().find(takes).expect("a leaf is not full");
    let first_frame = frames(&world, newcomer)[0];
    world.with_block(newcomer, |block| block.damage(first_frame.stored_at, 0xff));
    assert_eq!(world.insert(newcomer, &value(newcomer)), Err(crate::Refused::Pinned));
    assert_eq!(world.zone.stats().damaged, 0, "nobody has looked at the first frame");
    world.with_block(newcomer, |block| block.damage(first_frame.stored_at, 0xff));
    drop(guard);
    while world.maintain() {}
    world.insert(newcomer, &value(newcomer)).expect("nobody is pinned");
    world.check();
}

/// Stores values under keys of other leaves until a dictionary was trained from them.
fn train(world: &mut World, value: impl Fn(&[u8]) -> Vec<u8>) {
    let before = world.zone.stats().dictionaries.trained;
    let keys = (0..).map(|number: u32| format!("{before}:{number}").into_bytes());
    for key in keys.filter(|key| shard_of(hash(key)) != 0) {
        if world.zone.stats().dictionaries.trained > before {
            return;
        }
        world.insert(&key, &value(&key)).expect("room");
        world.maintain();
    }
}

#[test]
fn another_dictionary_forces_the_long_way() {
    let (mut world, keys) = (world(12), neighbours(22));
    train(&mut world, value);
    for key in &keys[..20] {
        world.insert(key, &value(key)).expect("room");
    }
    train(&mut world, |key| {
        let noise = hash(key);
        format!("<b>{noise:x}</b><p>quite another kind of text, and of markup</p>").into_bytes()
    });
    let mut ways = Vec::new();
    for key in &keys[20..] {
        let before = world.zone.stats().inserted_short;
        world.insert(key, &value(key)).expect("room");
        let is_short = world.zone.stats().inserted_short > before;
        world.with_block(key, |block| ways.push((block.head().dictionary, is_short)));
    }
    assert_eq!(ways, [(2, false), (2, true)]);
    for key in &keys {
        assert_eq!(world.find(key).map(|(found, _)| found), Some(value(key)));
    }
    world.check();
}

#[test]
fn a_zone_that_adopts_a_dictionary_is_as_dense_from_the_first_row_on() {
    let (mut before, keys) = (world(12), neighbours(22));
    assert!(before.zone.dictionary().is_none());
    train(&mut before, value);
    let dictionary = before.zone.dictionary().expect("it was trained");
    let live_bytes = |world: &mut World| {
        let before = world.zone.stats().space.live_bytes;
        keys.iter().for_each(|key| world.insert(key, &value(key)).expect("room"));
        assert!(keys.iter().all(|key| world.find(key).map(|it| it.0) == Some(value(key))));
        world.zone.stats().space.live_bytes - before
    };
    let (mut after, mut without) = (world(12), world(12));
    assert!(after.zone.adopt_dictionary(&dictionary, 22));
    assert_eq!(after.zone.dictionary().as_ref(), Some(&dictionary));
    assert!(!after.zone.adopt_dictionary(&dictionary, 22), "it has one");
    let [before, after_bytes, without] = [&mut before, &mut after, &mut without].map(live_bytes);
    assert!(after_bytes <= before && after_bytes < without, "{before} {after_bytes} {without}");
    // The rows that it was trained from are not sampled again.
    let sampled = |world: &World| {
        let stats = world.zone.stats().dictionaries;
        stats.memory_bytes > 0 && stats.dictionaries == 1 && world.zone.dictionaries.samples() > 0
    };
    assert!(!sampled(&after));
    (0..10_u8).for_each(|key| after.insert(&[key], &value(&[key])).expect("room"));
    assert!(sampled(&after));
    after.check();
}

/// Regression: a zone for which dictionaries were given up kept its samples, up to several times
/// its own memory.
#[test]
fn a_zone_that_is_too_small_for_a_dictionary_keeps_no_samples() {
    let mut world = world(12);
    (0..10_u8).for_each(|key| world.insert(&[key], &value(&[key])).expect("room"));
    assert!(world.zone.dictionaries.samples() > 0);
    world.zone.set_budget_slabs(4);
    assert!(!world.zone.train());
    assert_eq!(world.zone.dictionaries.samples(), 0);
}

#[test]
fn a_dictionary_that_is_none_or_too_large_is_not_adopted() {
    // The magic number of a dictionary, and nothing of what has to follow.
    let mut damaged = [0; 100];
    damaged[..4].copy_from_slice(&0xec30_a437_u32.to_le_bytes());
    assert!(!world(12).zone.adopt_dictionary(&damaged, 1));
    let text: Vec<u8> = (0..64 << 10_u32).map(|at: u32| hash(&at.to_be_bytes()) as u8).collect();
    assert!(world(124).zone.adopt_dictionary(&text, 1));
    assert!(!world(12).zone.adopt_dictionary(&text, 1));
}

#[test]
fn rows_that_do_not_compress_are_appended_under_any_dictionary() {
    let settings = Settings { method: codec::Method::Raw, ..settings(4) };
    let (mut world, keys) = (World::new(settings), neighbours(20));
    for key in &keys {
        world.insert(key, &value(key)).expect("room");
    }
    assert_eq!(world.zone.stats().inserted_short, 19);
    assert!(keys.iter().all(|key| world.find(key).is_some()));
    world.check();
}

#[test]
fn a_damaged_frame_is_a_miss_of_its_rows_alone() {
    let (mut world, keys) = filled(35);
    let middle = frames(&world, &keys[0])[1];
    let damage = |world: &World| {
        world.with_block(&keys[0], |block| block.damage(middle.stored_at + 3, 0x40));
    };
    damage(&world);
    for (rank, key) in keys.iter().enumerate() {
        let before = world.reader.counts().damaged;
        let found = world.find(key).is_some();
        assert_eq!(found, !middle.ranks().contains(&rank), "{rank}");
        assert!(found || world.reader.counts().damaged == before + 1);
    }
    // A removal marks rows that it cannot read, and no others.
    let gone = middle.first_rank + 1;
    assert!(!world.remove(&keys[gone]));
    damage(&world);
    let found: Vec<_> = (0..35).filter(|&rank| world.find(&keys[rank]).is_some()).collect();
    assert!(
        !found.contains(&gone)
            && (0..35).all(|rank| middle.ranks().contains(&rank) || found.contains(&rank))
    );
    // Building the block anew gives up the rows of the damaged frame, and they no longer count.
    damage(&world);
    world.insert(&keys[0], b"new").expect("room");
    assert_eq!(world.zone.stats().damaged, 1);
    assert_eq!(world.zone.stats().items, 35 - usize::from(middle.head.rows));
    for (rank, key) in keys.iter().enumerate() {
        assert_eq!(world.find(key).is_some(), !middle.ranks().contains(&rank), "{rank}");
    }
    world.check();
}

/// A row that only waits decodes nothing; those that join the damaged frame find it.
#[test]
fn damage_in_a_frame_that_rows_join_forces_the_long_way() {
    let (mut world, keys) = filled(34);
    let open = frames(&world, &keys[0])[3];
    assert_eq!((open.head.rows, frames(&world, &keys[0]).len()), (3, 5));
    world.with_block(&keys[0], |block| block.damage(open.stored_at, 0xff));
    let newcomers = &neighbours(36)[34..];
    world.insert(&newcomers[0], &value(&newcomers[0])).expect("room");
    assert_eq!((world.zone.stats().damaged, world.zone.stats().inserted_short), (0, 34));
    world.insert(&newcomers[1], &value(&newcomers[1])).expect("room");
    let stats = world.zone.stats();
    assert_eq!((stats.damaged, stats.inserted_short), (1, 34));
    assert_eq!(stats.rows, 36 - usize::from(open.head.rows));
    assert!(newcomers.iter().all(|key| world.find(key).is_some()));
    assert!(world.find(&keys[0]).is_some() && world.find(&keys[33]).is_some());
    assert!(world.find(&keys[open.first_rank]).is_none());
    world.check();
}

/// One thread appends, and another removes the row appended a moment ago, while the next row is on
/// its way: a mark that is made between the copy and its publication must be in the copy.
#[test]
fn marks_made_during_an_append_are_not_lost() {
    const KEYS: usize = 6000;
    const REMOVED: usize = 6;
    let (world, mut keys) = (world(64), Vec::new());
    keys.extend((0..KEYS).map(|number| format!("key:{number:06}").into_bytes()));
    // The keys of one leaf come one after the other.
    keys.sort_by_key(|key| shard_of(hash(key)));
    let World { zone, epochs, now, .. } = &world;
    let stored = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Writer::new(zone);
            for (index, key) in keys.iter().enumerate() {
                let record = Record { key, value: &value(key), fields: Fields::default() };
                let done = zone.insert(hash(key), &record, *now, &mut writer, |_, n| n.reveal());
                assert_eq!(done, Ok(()));
                // Release: partner is the acquire below.
                stored.store(index + 1, Ordering::Release);
            }
        });
        scope.spawn(|| {
            let mut reader = crate::Reader::new();
            for (index, key) in keys.iter().enumerate().step_by(REMOVED) {
                // Acquire: partner is the release above.
                while stored.load(Ordering::Acquire) <= index {
                    std::thread::yield_now();
                }
                let guard = epochs.pin();
                assert!(zone.remove(&guard, hash(key), key, &mut reader).is_some());
                assert!(zone.peek(&guard, hash(key), key, *now, &mut reader).is_none());
            }
        });
    });
    let mut world = world;
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(world.find(key).is_some(), index % REMOVED != 0, "{index}");
    }
    let stats = world.zone.stats();
    assert!(stats.inserted_short as usize > KEYS / 2 && stats.evicted == 0, "{stats:?}");
    assert_eq!(stats.items, KEYS - KEYS.div_ceil(REMOVED));
    world.check();
}
