//! Every limit at its edge, and what happens when memory is damaged.

use super::{World, settings};
use crate::block::ROWS_MAX;
use crate::clean::STEP_BYTES;
use crate::image::draw_moved;
use crate::maintain::TURN_LEAVES;
use crate::zone::{BLOCK_BYTES_RANGE, OVERFULL};
use crate::{Leaving, Refused, Settings, Writer};
use codec::Method;
use codec::record::{Fields, RECORD_KEY_BYTES_MAX, Record};
use memory::Guard;
use stdx::random::Xorshift;
use stdx::sync::lock;

#[test]
fn a_damaged_block_is_a_counted_miss() {
    for flip in [1, 0x80, 0xff] {
        let mut world = World::small(4);
        let keys: Vec<_> = (0..40_u8).map(|n| format!("key:{n}").into_bytes()).collect();
        for key in &keys {
            world.insert(key, b"a value that repeats, a value that repeats").expect("room");
        }
        for at in 0.. {
            let mut bytes = 0;
            world.with_block(&keys[0], |block| bytes = block.head().stored_bytes as usize);
            if at == bytes {
                break;
            }
            world.with_block(&keys[0], |block| block.damage(at, flip));
            let before = world.reader.counts().damaged;
            assert_eq!(world.find(&keys[0]), None);
            assert_eq!(world.reader.counts().damaged, before + 1);
            world.with_block(&keys[0], |block| block.damage(at, flip));
            assert!(world.find(&keys[0]).is_some());
        }
        // A removed item that could not be read is not found even if it can be read later.
        world.with_block(&keys[0], |block| block.damage(0, flip));
        assert!(!world.remove(&keys[0]));
        world.with_block(&keys[0], |block| block.damage(0, flip));
        assert_eq!(world.find(&keys[0]), None);
        // A rewrite of a damaged block starts with the newcomer alone.
        world.with_block(&keys[1], |block| block.damage(0, flip));
        world.insert(&keys[1], b"new").expect("room");
        assert!(world.find(&keys[1]).is_some_and(|(value, _)| value == b"new"));
        assert_eq!(world.zone.stats().damaged, 1);
        world.check();
    }
}

/// A long item's fields are asked for under the lock of thousands of keys.
#[test]
fn a_long_item_is_known_to_be_there_without_reading_its_value() {
    let mut world = World::small(4);
    world.insert(b"long", &[7; 60_000]).expect("room");
    let fields_of = |world: &mut World, key: &[u8]| {
        let guard = world.epochs.pin();
        world.zone.fields_of(&guard, super::hash(key), key, world.now, &mut world.reader)
    };
    assert_eq!(fields_of(&mut world, b"long"), Some(Fields::default()));
    assert_eq!(fields_of(&mut world, b"other"), None);
    assert_eq!((world.reader.long.capacity(), world.reader.value()), (0, &b""[..]));
    // A reader that cannot read it gives it up: or it would be there for some readers and not for
    // others.
    let mut code = 0;
    world.with_block(b"long", |block| code = block.longs()[0].load());
    let guard = world.epochs.pin();
    let long = crate::raw::Reference::from_code(code).expect("it is long");
    world.zone.space.ground.block(&guard, long).expect("its head is sound").damage(0, 0xff);
    drop(guard);
    assert!(fields_of(&mut world, b"long").is_some());
    assert_eq!((world.find(b"long"), world.reader.counts().damaged), (None, 1));
    assert_eq!((fields_of(&mut world, b"long"), world.zone.stats().items), (None, 0));
    world.check();
}

#[test]
fn a_block_whose_seal_is_damaged_is_given_up_and_a_copy_has_none() {
    let mut world = World::small(4);
    let keys: Vec<_> = (0..20_u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        world.insert(key, b"a value that repeats, a value that repeats").expect("room");
    }
    let before = world.zone.stats();
    let mut rows = 0;
    world.with_block(&keys[3], |block| {
        rows = usize::from(block.head().rows);
        block.dead()[0].close();
        let mut image = Vec::new();
        draw_moved(&block, &mut image);
        let dead = &image[block.head().dead_at()..][..size_of::<u32>()];
        assert_eq!(dead, block.dead()[0].bits().to_ne_bytes());
    });
    assert!(world.find(&keys[3]).is_some());
    assert!(!world.remove(&keys[3]), "it is gone, and waits for nobody");
    assert_eq!(world.find(&keys[3]), None);
    let after = world.zone.stats();
    assert_eq!((after.damaged, after.items), (before.damaged + 1, before.items - rows));
    world.insert(&keys[3], b"new").expect("room");
    assert!(world.find(&keys[3]).is_some_and(|(value, _)| value == b"new"));
    world.check();
}

/// Regression: they were not counted.
#[test]
fn expired_items_of_a_leaf_that_cannot_be_rewritten_count_as_expired() {
    let mut world = World::small(8);
    let expiry = world.now + 100;
    let number = fill_with_noise(&mut world, expiry);
    world.now += 200;
    world.zone.set_budget_slabs(1);
    while world.zone.maintain(world.now, &mut world.writer) {}
    world.check();
    let stats = world.zone.stats();
    assert!(stats.dropped_leaves > 0 && stats.expired > 100, "{stats:?}");
    assert_eq!(stats.items as u64 + stats.evicted + stats.expired, u64::from(number));
}

/// Regression: a walk over everything decoded it.
#[test]
fn a_long_value_that_is_dead_or_expired_is_not_decoded() {
    let mut world = World::small(4);
    let fields = Fields { expiry: world.now + 1, ..Fields::default() };
    let record = Record { key: b"expired", value: &[7; 60_000], fields };
    world.insert_record(&record, true).expect("room");
    world.insert(b"dead", &[7; 60_000]).expect("room");
    assert!(world.remove(b"dead"));
    let (mut reader, mut cursor) = (crate::Reader::new(), crate::Cursor::default());
    let (guard, now) = (world.epochs.pin(), world.now + 2);
    let visit = |_: &Record<'_>, _| panic!("there is nothing");
    while world.zone.walk(&guard, &mut cursor, 16, now, &mut reader, visit) {}
    assert_eq!(reader.long.capacity(), 0);
}

/// A miss takes a lock only where that may find something.
#[test]
fn a_lookup_says_whether_it_has_passed_a_dead_row_of_its_key() {
    let mut world = World::small(4);
    let look = |world: &mut World, key: &[u8]| {
        let is_there = world.find(key).is_some();
        (is_there, world.reader.met_dead())
    };
    assert_eq!(look(&mut world, b"k"), (false, false));
    world.insert(b"k", b"v").expect("room");
    assert_eq!(look(&mut world, b"k"), (true, false));
    assert_eq!(look(&mut world, b"other"), (false, false));
    assert!(world.remove(b"k"));
    assert_eq!(look(&mut world, b"k"), (false, true));
    assert_eq!(look(&mut world, b"other"), (false, false));
    world.insert(b"k", b"v").expect("room");
    assert_eq!(look(&mut world, b"k"), (true, false));
}

/// Regression: the slab with the blocks that the damaged one had referred to was walked again and
/// again, and no other was cleaned any more.
#[test]
fn a_damaged_head_costs_its_slab_and_those_of_its_long_values_alone() {
    const ROUND: u32 = 9000;
    let mut world = World::small(24);
    let mut random = Xorshift::default();
    let mut store = |world: &mut World, numbers: std::ops::Range<u32>| {
        numbers
            .filter(|number| {
                let bytes = if number % 10 == 0 { 6000 } else { 300 };
                let value: Vec<u8> = (0..bytes).map(|_| random.draw() as u8).collect();
                world.insert(&number.to_be_bytes(), &value).is_err()
            })
            .count()
    };
    assert_eq!(store(&mut world, 0..ROUND), 0);
    let newest_long = (ROUND - 10).to_be_bytes();
    world.with_block(&newest_long, |block| {
        assert!(!block.longs().is_empty());
        // No method has this number.
        block.damage_head(6, 3 ^ block.head().method.code());
    });
    let rounds = (1..5).map(|round| {
        let refused = store(&mut world, round * ROUND..(round + 1) * ROUND);
        (refused, world.zone.stats().space.moved_bytes)
    });
    let rounds: Vec<_> = rounds.collect();
    // The slab was to become the reserve, so that for a moment there is none.
    assert!(rounds[0].0 < 100, "{rounds:?}");
    assert!(rounds[1..].iter().all(|(refused, _)| *refused == 0), "{rounds:?}");
    assert!(rounds.is_sorted_by(|(_, before), (_, after)| before < after), "{rounds:?}");
}

/// Regression: a length in its head was trusted: memory for it was filled, up to 4 GiB, or another
/// value was handed on.
#[test]
fn a_long_value_of_another_length_than_its_row_says_is_damaged() {
    let mut world = World::new(Settings { checksums: false, ..settings(4) });
    world.insert(b"long", &[7; 60_000]).expect("room");
    let mut code = 0;
    world.with_block(b"long", |block| code = block.longs()[0].load());
    let long = crate::raw::Reference::from_code(code).expect("it is long");
    {
        let guard = world.epochs.pin();
        let long = world.zone.space.ground.block(&guard, long).expect("its head is sound");
        long.damage_head(15, 0x10);
    }
    let guard = world.epochs.pin();
    let mut walked = 0;
    let (mut reader, mut cursor) = (crate::Reader::new(), crate::Cursor::default());
    let all = usize::MAX;
    let zone = &world.zone;
    zone.walk(&guard, &mut cursor, all, world.now, &mut reader, |_, _| walked += 1);
    drop(guard);
    let mut offered = 0;
    let mut count = |_: &Guard<'_>, _: &Record<'_>, _: &Leaving<'_, '_>| offered += 1;
    let mut writer = Writer::new(zone).with_sink(&mut count);
    zone.evict(usize::MAX, world.now, &mut writer);
    assert!(reader.memory_bytes() < 1 << 20 && writer.memory_bytes() < 1 << 20);
    let writer = writer.without_sink();
    drop(writer);
    let stats = world.zone.stats();
    assert_eq!((walked, offered, stats.evicted, stats.evicted_untold), (0, 0, 1, 1));
}

/// Regression: a reference that is damaged in its slot was followed beyond the arena.
#[test]
fn a_long_value_whose_reference_is_damaged_is_a_counted_miss() {
    let mut world = World::small(4);
    world.insert(b"long", &[7; 60_000]).expect("room");
    world.with_block(b"long", |block| {
        let slot = &block.longs()[0];
        slot.publish(slot.load() ^ 1 << 31);
    });
    assert_eq!((world.find(b"long"), world.reader.counts().damaged), (None, 1));
    assert_eq!(world.zone.stats().items, 0, "nobody else can read it either");
    world.insert(b"long", b"new").expect("room");
    assert!(world.find(b"long").is_some());
}

/// Regression: a guard of other epochs keeps nothing in place, so memory read under it could be
/// rewritten.
#[test]
#[should_panic(expected = "the guard is of the zone's epochs")]
fn a_lookup_under_a_guard_of_other_epochs_is_a_bug_of_the_caller() {
    let mut world = World::small(4);
    world.insert(b"k", b"v").expect("room");
    let others = memory::Epochs::new();
    let (guard, hash) = (others.pin(), super::hash(b"k"));
    let _ = world.zone.find(&guard, hash, b"k", world.now, world.now, &mut world.reader);
}

#[test]
fn items_of_a_damaged_block_count_until_it_is_replaced() {
    let mut world = World::small(4);
    for number in 0..20_u32 {
        world.insert(&number.to_be_bytes(), b"value").expect("room");
    }
    let before = world.zone.stats().items;
    let key = 3_u32.to_be_bytes();
    let mut rows = 0;
    world.with_block(&key, |block| {
        block.damage(0, 0xff);
        rows = usize::from(block.head().rows);
    });
    world.insert(&key, b"new").expect("room");
    assert_eq!(world.zone.stats().items, before - rows + 1);
    world.check();
}

#[test]
fn without_checksums_damage_is_never_a_panic() {
    let mut world = World::new(Settings { checksums: false, ..settings(4) });
    let keys: Vec<_> = (0..60_u8).map(|n| format!("key:{n}").into_bytes()).collect();
    for key in &keys {
        world.insert(key, b"a value that repeats, a value that repeats").expect("room");
    }
    let mut bytes = 0;
    world.with_block(&keys[0], |block| bytes = block.head().stored_bytes as usize);
    for at in 0..bytes {
        for flip in [1, 0x10, 0xff] {
            world.with_block(&keys[0], |block| block.damage(at, flip));
            let _ = world.find(&keys[0]);
            world.with_block(&keys[0], |block| block.damage(at, flip));
        }
    }
}

#[test]
fn small_items_split_by_count() {
    let block_bytes = *BLOCK_BYTES_RANGE.end();
    let mut world = World::new(Settings { block_bytes, ..settings(6) });
    let mut number = 0_u32;
    while world.zone.stats().splits == 0 {
        world.insert(&number.to_be_bytes(), b"").expect("room");
        number += 1;
    }
    assert!(number as usize > ROWS_MAX && world.zone.stats().evicted == 0);
    world.check();
    assert!((0..number).all(|number| world.find(&number.to_be_bytes()).is_some()));
}

#[test]
fn the_largest_value_is_taken_and_one_byte_more_is_not() {
    for method in [Method::Zstd, Method::Raw] {
        let mut world = World::new(Settings { method, ..settings(6) });
        let slab_bytes = world.zone.space.slab_bytes();
        let head_bytes = crate::block::LONG_HEAD_BYTES + size_of::<u32>();
        let longest =
            if method == Method::Raw { slab_bytes / 4 - head_bytes } else { slab_bytes / 2 };
        let key = [b'k'; RECORD_KEY_BYTES_MAX];
        let fields = Fields { flags: 1, custom_cas: Some(2), mark: 2, ..Fields::default() };
        let record = Record { key: &key, value: &vec![b'v'; longest], fields };
        assert_eq!(world.insert_record(&record, true), Ok(()));
        assert_eq!(world.find(&key), Some((record.value.to_vec(), fields)));
        let record = Record { value: &vec![b'v'; longest + 1], ..record };
        assert_eq!(world.insert_record(&record, true), Err(Refused::TooLarge));
        assert_eq!(world.zone.stats().refused, 1);
        world.check();
    }
}

#[test]
fn a_value_is_long_exactly_when_it_no_longer_lies_well_among_others() {
    let mut world = World::small(4);
    let longest = world.zone.settings.block_bytes / 2 - codec::record::ROW_HEAD_BYTES_MAX - 1;
    for (value_bytes, longs) in [(longest, 0), (longest + 1, 1)] {
        world.insert(b"k", &vec![b'v'; value_bytes]).expect("room");
        world.with_block(b"k", |block| assert_eq!(usize::from(block.head().longs), longs));
        assert_eq!(world.find(b"k").map(|(value, _)| value.len()), Some(value_bytes));
    }
    world.check();
}

#[test]
fn too_many_rows_for_a_deep_leaf_evict_each_other() {
    // All keys hash alike: no level separates them.
    let hash = Box::new(|_: &[u8]| super::hash(b"k"));
    let mut world = World::new(Settings { hash, block_bytes: 3 << 10, ..settings(4) });
    let guard_hash = super::hash(b"k");
    for number in 0..1000_u32 {
        let key = number.to_be_bytes();
        let record = Record { key: &key, value: &[b'v'; 50], fields: Fields::default() };
        let done = world.zone.insert(guard_hash, &record, 1, &mut world.writer, |_, newcomer| {
            newcomer.reveal();
        });
        assert_eq!(done, Ok(()));
        let guard = world.epochs.pin();
        assert!(world.zone.find(&guard, guard_hash, &key, 1, 1, &mut world.reader).is_some());
    }
    let stats = world.zone.stats();
    assert!(stats.evicted > 800 && stats.items > 10, "{stats:?}");
    assert!(stats.raw_bytes <= OVERFULL * world.zone.settings.block_bytes);
    world.check();
}

#[test]
fn without_a_budget_everything_is_refused() {
    let mut world = World::small(0);
    assert_eq!(world.insert(b"k", b"v"), Err(Refused::NoRoom));
    world.zone.set_budget_slabs(1);
    assert_eq!(world.insert(b"k", b"v"), Err(Refused::NoRoom), "the reserve is for cleaning");
    world.zone.set_budget_slabs(2);
    assert_eq!(world.insert(b"k", b"v"), Ok(()));
    world.check();
}

/// Regression: restoring an image lost items of a zone that was not full: another thread was
/// pinned, perhaps without a processor, and the slabs that cleaning had emptied waited for it.
#[test]
fn nothing_alive_goes_while_emptied_slabs_wait_for_readers() {
    let mut world = World::small(8);
    let keys: Vec<_> = (0..500_u32).map(|number| number.to_be_bytes()).collect();
    let mut value = [0; 1000];
    let (epochs, mut version) = (std::sync::Arc::clone(&world.epochs), 0_u32);
    let mut store_all = |world: &mut World| {
        version += 1;
        keys.iter().try_for_each(|key| {
            let noise = |(at, byte): (usize, &mut u8)| {
                *byte = super::hash(&[key, &version.to_be_bytes()[..], &[at as u8]].concat()) as u8;
            };
            value.iter_mut().enumerate().for_each(noise);
            world.insert(key, &value)
        })
    };
    store_all(&mut world).expect("half of it stays free");
    let guard = epochs.pin();
    let refused = (0..100).find_map(|_| store_all(&mut world).err());
    assert_eq!(refused, Some(Refused::Pinned));
    assert_eq!(world.zone.stats().evicted, 0);
    drop(guard);
    (0..10).for_each(|_| store_all(&mut world).expect("nobody is pinned"));
    assert_eq!((world.zone.stats().evicted, world.zone.stats().items), (0, keys.len()));
    world.check();
}

/// Regression: a slab that four long values fill, but for the room of a fifth, had the fewest live
/// bytes of all: it was chosen, gained nothing, and no other was cleaned any more.
#[test]
fn a_slab_of_long_values_that_stay_keeps_no_other_from_being_cleaned() {
    let mut world = World::small(12);
    let mut random = Xorshift::default();
    let mut noise = |bytes| (0..bytes).map(|_| random.draw() as u8).collect::<Vec<u8>>();
    for long in 0..5_u8 {
        world.insert(&[long], &noise(54_000)).expect("room");
    }
    let mut refused = 0;
    for number in 0..60_000_u32 {
        let value = noise(300);
        refused += usize::from(world.insert(&number.to_be_bytes(), &value).is_err());
        if number % 100 == 0 {
            (0..5).for_each(|long: u8| assert!(world.find(&[long]).is_some(), "{number}"));
            while world.maintain() {}
        }
    }
    let stats = world.zone.stats();
    assert_eq!((stats.dropped_leaves, refused), (0, 0));
    assert!(stats.space.moved_bytes > 0, "{stats:?}");
    world.check();
}

/// Regression: `reclaim` looks for emptied slabs only when told of one, and this one was not closed
/// at that time.
#[test]
fn a_slab_that_emptied_while_it_was_open_goes_back() {
    let mut world = World::small(4);
    for number in 0..20_u8 {
        world.insert(&[b'k', number], b"value").expect("room");
    }
    world.zone.evict(usize::MAX, world.now, &mut world.writer);
    assert_eq!(world.zone.stats().space.live_bytes, 0);
    while world.maintain() {}
    assert!(world.zone.slabs() > 0);
    world.zone.set_budget_slabs(0);
    while world.maintain() {}
    assert_eq!(world.zone.slabs(), 0);
    world.check();
}

/// Stores until something has to be evicted; a sweep spares every second item, and every third has
/// the expiry. Returns the number of items.
fn fill_with_noise(world: &mut World, expiry: u32) -> u32 {
    let (mut random, mut number) = (Xorshift::default(), 0_u32);
    while world.zone.stats().evicted == 0 {
        let value: Vec<u8> = (0..300).map(|_| random.draw() as u8).collect();
        let expiry = if number.is_multiple_of(3) { expiry } else { 0 };
        let fields = Fields { expiry, ..Fields::default() };
        let record = Record { key: &number.to_be_bytes(), value: &value, fields };
        let (zone, hash) = (&world.zone, super::hash(record.key));
        zone.insert(hash, &record, world.now, &mut world.writer, |_, newcomer| {
            newcomer.was_accessed((number % 2) as u8);
            newcomer.reveal();
        })
        .expect("room");
        number += 1;
    }
    number
}

#[test]
fn items_dropped_because_a_leaf_cannot_be_rewritten_count_as_evicted() {
    let mut world = World::small(8);
    let number = fill_with_noise(&mut world, 0);
    let (evicted_before, mut offered) = (world.zone.stats().evicted, 0);
    world.zone.set_budget_slabs(1);
    let mut count = |_: &Guard<'_>, _: &Record<'_>, _: &Leaving<'_, '_>| offered += 1;
    let (mut rests, shards) = (0, &world.zone.shards);
    let mut rest = || {
        rests += 1;
        assert!(shards.iter().all(|shard| shard.try_lock().is_ok()), "no shard is locked");
    };
    let mut writer = Writer::new(&world.zone).with_sink(&mut count).with_yield(&mut rest);
    while world.zone.maintain(world.now, &mut writer) {}
    world.check();
    assert!(rests > 100, "{rests} rests");
    let stats = world.zone.stats();
    assert!(stats.dropped_leaves > 0 && stats.damaged == 0, "{stats:?}");
    assert_eq!(stats.items as u64 + stats.evicted, u64::from(number));
    assert_eq!(offered, stats.evicted - evicted_before);
}

const SHRUNK_ITEMS: u32 = 8000;

/// A zone of many leaves, whose budget is less than a third of the slabs that it has.
fn shrunk(accesses: u8) -> World {
    let mut world = World::small(16);
    let mut random = Xorshift::default();
    for number in 0..SHRUNK_ITEMS {
        let value: Vec<u8> = (0..400).map(|_| random.draw() as u8).collect();
        let fields = Fields::default();
        let record = Record { key: &number.to_be_bytes(), value: &value, fields };
        let (zone, hash) = (&world.zone, super::hash(record.key));
        zone.insert(hash, &record, world.now, &mut world.writer, |_, newcomer| {
            newcomer.was_accessed(accesses);
            newcomer.reveal();
        })
        .expect("room");
    }
    assert!(world.zone.slabs() > 12 && world.zone.stats().leaves > 4 * TURN_LEAVES);
    world.zone.set_budget_slabs(4);
    world
}

/// Regression: a turn swept four slabs of leaves, some hundred milliseconds where slabs are large,
/// while the hot zone's reserve waited for the next turn.
#[test]
fn a_turn_after_a_budget_has_shrunk_is_short_and_turns_come_to_its_end() {
    for accesses in [0, 3] {
        let world = shrunk(accesses);
        let steps = world.zone.space.slab_bytes() / STEP_BYTES;
        let (mut turns, mut is_more) = (0, true);
        while is_more {
            let mut rests = 0;
            let mut rest = || rests += 1;
            let mut forget = |_: &Guard<'_>, _: &Record<'_>, _: &Leaving<'_, '_>| ();
            let mut writer = Writer::new(&world.zone).with_sink(&mut forget).with_yield(&mut rest);
            is_more = world.zone.maintain(world.now, &mut writer);
            drop(writer);
            // One more where a slab ends within a step.
            assert!(rests <= TURN_LEAVES + steps + 1, "{rests} rests");
            turns += 1;
        }
        let stats = world.zone.stats();
        assert!(turns > 10 && stats.space.slabs <= 4 && stats.items > 500, "{turns}, {stats:?}");
        assert_eq!(stats.items as u64 + stats.evicted, SHRUNK_ITEMS.into());
        world.check();
    }
}

/// Regression: one insertion swept the whole zone to make up for a smaller budget.
#[test]
fn an_insertion_after_a_budget_shrank_evicts_a_few_times_its_need() {
    let mut world = shrunk(0);
    let most = (0..1000_u32).map(|number| {
        let before = world.zone.stats().evicted;
        let _ = world.insert(&(SHRUNK_ITEMS + number).to_be_bytes(), b"value");
        world.zone.stats().evicted - before
    });
    let most = most.max().unwrap_or(0);
    assert!((100..600).contains(&most), "{most} at once");
    while world.maintain() {}
    world.insert(b"newcomer", b"value").expect("the background has made room");
    world.check();
}

#[test]
fn the_zone_is_flushed_also_when_its_numbers_begin_anew() {
    let mut world = World::small(4);
    world.insert(b"old", b"v").expect("room");
    for _ in 0..=u32::from(u16::MAX) {
        world.zone.flush();
        assert_eq!(world.find(b"old"), None);
    }
    world.insert(b"new", b"v").expect("room");
    assert!(world.find(b"new").is_some() && world.zone.stats().items == 1);
    world.check();
}

/// Regression: it emptied each leaf under the lock of its shard first, for which all threads
/// waited.
#[test]
fn a_flush_at_which_the_numbers_begin_anew_is_one_step_as_any_other() {
    let mut world = World::small(4);
    world.insert(b"old", b"v").expect("room");
    let locked: Vec<_> = world.zone.shards.iter().map(|shard| lock(shard)).collect();
    let flushes = (1_u32..).find(|_| world.zone.begin_flush());
    assert_eq!(flushes, Some(u16::MAX.into()));
    assert!(!world.zone.begin_flush(), "one at a time begins anew");
    drop(locked);
    assert_eq!((world.find(b"old"), world.zone.stats().items), (None, 0));
    assert_eq!(world.insert(b"early", b"v"), Err(Refused::Flushing));
    world.zone.begin_anew();
    world.insert(b"new", b"v").expect("room");
    assert!(world.find(b"new").is_some() && world.zone.stats().items == 1);
    world.check();
}

/// Regression: other threads waited for free slabs until every leaf was empty.
#[test]
fn nothing_is_pinned_for_long_while_the_numbers_begin_anew() {
    let mut world = World::small(4);
    for number in 0..300_u32 {
        world.insert(&number.to_be_bytes(), b"v").expect("room");
    }
    let first = |world: &World| world.zone.trie.leaf(0).block;
    assert!(first(&world).is_some());
    while !world.zone.begin_flush() {}
    let last = lock(&world.zone.shards[world.zone.shards.len() - 1]);
    std::thread::scope(|scope| {
        scope.spawn(|| world.zone.begin_anew());
        while first(&world).is_some() {
            std::thread::yield_now();
        }
        let tag = world.epochs.tag();
        let began = std::time::Instant::now();
        while !world.epochs.try_reach(tag) {
            assert!(began.elapsed().as_secs() < 10, "it is pinned while it waits");
        }
        drop(last);
    });
    world.insert(b"new", b"v").expect("room");
    world.check();
}

/// Regression: `items` was some too many or too few until the next flush.
#[test]
fn items_that_come_or_go_during_a_flush_are_not_counted() {
    let mut world = World::small(4);
    let zone = &world.zone;
    let record = Record { key: b"late", value: b"v", fields: Fields::default() };
    zone.insert(super::hash(record.key), &record, world.now, &mut world.writer, |_, newcomer| {
        zone.flush();
        newcomer.reveal();
    })
    .expect("room");
    assert_eq!(zone.stats().items, 0, "it came too late");
    for number in 0..100_u8 {
        world.insert(&[number], b"value").expect("room");
    }
    let zone = &world.zone;
    let mut flush = |_: &Guard<'_>, _: &Record<'_>, leaving: &Leaving<'_, '_>| {
        zone.flush();
        leaving.bury();
    };
    let mut writer = Writer::new(zone).with_sink(&mut flush);
    while zone.stats().items > 0 {
        zone.sweep_next(world.now, &mut writer).expect("there is room");
    }
    drop(writer);
    for number in 0..100_u8 {
        world.insert(&[number], b"value").expect("room");
    }
    assert_eq!(world.zone.stats().items, 100);
    world.check();
}

#[test]
fn the_costlier_half_stays() {
    let mut world = World::small(4);
    for number in 0..2000_u32 {
        let cost = policy::cost::Cost::from_us(if number % 2 == 0 { 1000 } else { 1 });
        let fields = Fields { cost, ..Fields::default() };
        let key = number.to_be_bytes();
        let record = Record { key: &key, value: b"a short value", fields };
        world.insert_record(&record, true).expect("room");
    }
    while world.zone.stats().evicted < 700 {
        world.evict(1);
    }
    let kept = |world: &mut World, odd| {
        (0..2000_u32).filter(|n| n % 2 == odd && world.find(&n.to_be_bytes()).is_some()).count()
    };
    let (costly, cheap) = (kept(&mut world, 0), kept(&mut world, 1));
    assert!(costly > cheap + 500, "{costly} costly, {cheap} cheap");
}

#[test]
fn an_accessed_item_survives_a_sweep_and_its_reuse_time_is_known() {
    let mut world = World::small(4);
    for number in 0..300_u32 {
        world.insert(&number.to_be_bytes(), b"value").expect("room");
    }
    let key = 7_u32.to_be_bytes();
    let hash = super::hash(&key);
    let World { zone, epochs, reader, now, .. } = &mut world;
    let guard = epochs.pin();
    let first = zone.find(&guard, hash, &key, *now, *now, reader).expect("present");
    assert_eq!((first.was_accessed, first.reuse_ticks), (false, None));
    let peeked = zone.peek(&guard, hash, &key, *now + 5, reader).expect("present");
    assert_eq!((peeked.was_accessed, peeked.reuse_ticks), (false, None));
    let second = zone.find(&guard, hash, &key, *now + 20, *now + 20, reader).expect("present");
    assert_eq!((second.was_accessed, second.reuse_ticks), (true, Some(20)));
    drop(guard);
    for _ in 0..64 {
        world.zone.sweep_next(world.now, &mut world.writer).expect("there is room");
    }
    assert!(world.zone.stats().evicted > 100);
    assert!(world.find(&key).is_some());
}

#[test]
fn an_item_never_accessed_leaves_at_once_and_one_wanted_before_later() {
    let mut world = World::small(4);
    for number in 0..300_u32 {
        world.insert(&number.to_be_bytes(), b"value").expect("room");
    }
    let record = Record { key: b"wanted", value: b"value", fields: Fields::default() };
    let World { zone, writer, now, .. } = &mut world;
    zone.insert(super::hash(record.key), &record, *now, writer, |_, newcomer| {
        newcomer.was_accessed(2);
        newcomer.reveal();
    })
    .expect("room");
    let left = [(); 3].map(|()| {
        (0..64).for_each(|_| zone.sweep_next(*now, writer).expect("there is room"));
        zone.stats().items
    });
    assert_eq!(left, [1, 1, 0]);
}

/// The sink may have to find room for them while other threads wait.
#[test]
fn long_values_are_evicted_a_few_at_a_time_and_cost_no_row_an_access() {
    const LONG: &[u8] = &[b'v'; 8 << 10];
    let mut world = World::small(8);
    // All in one leaf.
    let keys = (0_u32..).map(u32::to_be_bytes).filter(|key| super::hash(key) >> 52 == 0);
    let keys: Vec<_> = keys.take(40).collect();
    let World { zone, writer, now, .. } = &mut world;
    for (number, key) in keys.iter().enumerate() {
        let record = Record { key, value: LONG, fields: Fields::default() };
        zone.insert(super::hash(key), &record, *now, writer, |_, newcomer| {
            newcomer.was_accessed(if number % 2 == 0 { 2 } else { 0 });
            newcomer.reveal();
        })
        .expect("room");
    }
    let mut round = |again: usize| {
        for _ in 0..zone.stats().leaves + again {
            let before = zone.stats().items;
            zone.sweep_next(*now, writer).expect("there is room");
            assert!(before - zone.stats().items <= 8, "64 KiB at a time");
        }
        zone.stats().items
    };
    assert_eq!([round(2), round(0), round(2)], [20, 20, 0]);
    world.check();
}

/// The sweep stays at a leaf until its long values have gone, and draws once for costly ones.
#[test]
fn costly_long_values_are_drawn_for_once_a_round() {
    const LONG: &[u8] = &[b'v'; 8 << 10];
    let mut world = World::small(8);
    let keys = (0_u32..).map(u32::to_be_bytes).filter(|key| super::hash(key) >> 52 == 0);
    let keys: Vec<_> = keys.take(40).collect();
    for (number, key) in keys.iter().enumerate() {
        // One in ten of the items that are ten times as costly leaves.
        let cost = policy::cost::Cost::from_us(if number % 2 == 0 { 10 } else { 100 });
        let record = Record { key, value: LONG, fields: Fields { cost, ..Fields::default() } };
        world.insert_record(&record, true).expect("room");
    }
    for _ in 0..world.zone.stats().leaves {
        world.zone.sweep_next(world.now, &mut world.writer).expect("there is room");
    }
    let left = |world: &mut World, odd: usize| {
        (odd..40).step_by(2).filter(|&at| world.find(&keys[at]).is_some()).count()
    };
    let (cheap, costly) = (left(&mut world, 0), left(&mut world, 1));
    assert!(cheap == 0 && costly > 15, "{cheap} cheap, {costly} costly");
}
