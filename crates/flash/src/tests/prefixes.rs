//! Flushes of prefixes: the items that they take and leave, and their state after a restart.

use std::sync::atomic::Ordering;

use ::io::device::PAGE_BYTES;

use super::cases::{fill_a_segment, fill_segments, get, look, place};
use super::world::{key, value};
use super::{World, hash};
use crate::Look;
use crate::flushed::FLUSHED_AT;
use crate::refusal::TRIES_MAX;

const PAGES: usize = 400;

/// Those of these items that are found.
fn found(world: &World, numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.filter(|&number| get(world, number).is_some()).collect()
}

fn has_prefix(number: u64, prefix: &str) -> bool {
    key(number).starts_with(prefix.as_bytes())
}

fn without(numbers: std::ops::Range<u64>, prefix: &str) -> Vec<u64> {
    numbers.filter(|&number| !has_prefix(number, prefix)).collect()
}

/// Lets the background work until no prefix is being flushed.
fn scrub(world: &World) {
    let mut turns = 0;
    while world.flash.prefixes_flushed() > 0 {
        assert!(turns < 100, "never over");
        world.maintain();
        turns += 1;
    }
}

#[test]
fn a_flush_takes_items_staged_in_a_buffer_and_on_the_device() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    world.put(count, b"staged");
    assert!(place(&world, count).expect("it is there").is_staged());
    let prefix = "key-1";
    assert!(found(&world, 0..count).len() as u64 == count && count > 100);
    assert!(world.flush_prefix(prefix.as_bytes()));
    assert_eq!(found(&world, 0..count + 1), without(0..count + 1, prefix));
    let stats = world.flash.stats();
    assert_eq!(stats.damaged, 0);
}

/// Regression: all callers waited until the writer's lock was free and the device had been told.
#[test]
fn from_a_flushs_first_step_nothing_with_its_prefix_is_found_or_staged() {
    const STAGED: u64 = 1_000_000;
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    world.put(STAGED, b"staged");
    assert!(place(&world, STAGED).expect("it is there").is_staged());
    // One of two clients comes a moment after the other.
    let begun = [(); 2].map(|()| world.flash.begin_flush_prefix(b"key-1"));
    let staged = place(&world, STAGED).expect("the index still leads there");
    assert_eq!(look(&world, STAGED, staged).0, Look::Absent);
    assert!(world.flash.is_flushed(staged, &key(STAGED)));
    assert_eq!(found(&world, 0..count), without(0..count, "key-1"));
    for (number, comes_in) in [(STAGED + 1, false), (2 * STAGED, true)] {
        world.set(number, b"new".to_vec());
        assert_eq!(world.demote(number), Ok(comes_in));
    }
    for begun in begun {
        world.flash.end_flush_prefix(begun, &world.index);
        assert_eq!(found(&world, 0..count), without(0..count, "key-1"));
        assert_eq!(get(&world, STAGED), None);
    }
    assert_eq!(world.demote(STAGED + 1), Ok(true));
    assert_eq!(get(&world, STAGED + 1), Some(b"new".to_vec()));
    scrub(&world);
    let world = world.reopened().recovered();
    assert_eq!(found(&world, 0..count), without(0..count, "key-1"));
    let there = found(&world, STAGED..STAGED + 2);
    assert_eq!(there, [STAGED + 1]);
}

/// Items that an earlier flush has taken stay gone, and what the background and other flushes write
/// meanwhile says nothing of a flush that has only begun.
#[test]
fn a_kill_between_the_steps_of_a_flush_leaves_the_items_it_takes_alone() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    assert!(world.flush_prefix(b"key-12"));
    let begun = world.flash.begin_flush_prefix(b"key-1");
    assert!(world.flush_prefix(b"key-3"));
    let world = world.killed().recovered();
    drop(begun);
    let found = found(&world, 0..count);
    assert!(found.iter().any(|&number| has_prefix(number, "key-1")));
    assert!(!found.iter().any(|&it| has_prefix(it, "key-12") || has_prefix(it, "key-3")));
}

/// The open segment holds both: only its earlier units are void.
#[test]
fn items_stored_after_a_flush_are_there_in_the_same_segment_too() {
    let world = World::new(PAGES);
    let mut number = 0;
    while place(&world, 0).is_none_or(|place| place.is_staged()) {
        world.put(number, &value(number, 4, 300));
        number += 1;
    }
    assert!(world.flush_prefix(b"key-"));
    assert_eq!(found(&world, 0..number), Vec::<u64>::new());
    (0..number).for_each(|number| world.put(number, &value(number, 8, 300)));
    world.put(number, b"another");
    let is_sealed = |number: &u64| !place(&world, *number).expect("it is there").is_staged();
    assert!((0..number).any(|number| is_sealed(&number)), "in the segment that was open");
    let world = world.reopened().recovered();
    for number in 0..number {
        assert_eq!(get(&world, number), Some(value(number, 8, 300)));
    }
}

/// The start that finds the list damaged believes nothing. It has to correct it, or the next one
/// finds it damaged again, and believes nothing of the items stored in between.
#[test]
fn a_damaged_list_of_prefixes_costs_items_stored_before_and_none_after() {
    let world = World::new(PAGES);
    world.put(0, b"before");
    assert!(world.flush_prefix(b"key-7"));
    world.flash.close(&world.index).expect("the device works");
    world.device.change(|bytes| bytes[FLUSHED_AT + 6] = 0);
    let world = world.killed().recovered();
    assert_eq!(get(&world, 0), None);
    world.put(1, b"after");
    let world = world.reopened().recovered();
    assert_eq!((get(&world, 0), get(&world, 1)), (None, Some(b"after".to_vec())));
}

#[test]
fn a_kill_does_not_bring_back_flushed_items() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    let before = world.flash.stats().segments_written;
    assert!(world.flush_prefix(b"key-1"));
    assert!(world.flush_prefix(b"key-22"));
    let mut world = world.killed().recovered();
    for _ in 0..2 {
        let found = found(&world, 0..count);
        assert!(found.len() as u64 > count / 4, "of {before} segments");
        assert!(!found.iter().any(|&number| has_prefix(number, "key-1")));
        assert!(!found.iter().any(|&number| has_prefix(number, "key-22")));
        // Items stored now are there.
        world.put(1, b"new");
        assert_eq!(get(&world, 1), Some(b"new".to_vec()));
        world = world.reopened().recovered();
        assert_eq!(get(&world, 1), Some(b"new".to_vec()));
        world.delete(1);
        world = world.killed().recovered();
    }
}

/// Collection used to be the one way in which an item gets a younger place without being stored.
#[test]
fn collection_does_not_carry_flushed_items() {
    let world = World::new(PAGES);
    world.stop_scrubbing();
    let count = fill_a_segment(&world, 500);
    // They were read, so they are worth moving.
    assert_eq!(found(&world, 0..count).len() as u64, count);
    assert!(world.flush_prefix(b"key-1"));
    let mut number = 10_000_000;
    while world.flash.stats().collected < 12 {
        world.put(number, &value(number, 4, 500));
        world.maintain();
        number += 1;
    }
    assert!(world.flash.stats().restaged > 0);
    let found = found(&world, 0..count);
    assert!(!found.is_empty() && !found.iter().any(|&number| has_prefix(number, "key-1")));
}

#[test]
fn a_flush_ends_when_all_earlier_segments_are_gone() {
    let mut world = World::new(180);
    fill_a_segment(&world, 500);
    assert!(world.flush_prefix(b"key-1") && world.flush_prefix(b"key-2"));
    // Collection cannot move items that it cannot read.
    world.device.refuses_reads.store(true, Ordering::Relaxed);
    world.stop_scrubbing();
    world.maintain();
    assert_eq!(world.flash.prefixes_flushed(), 2);
    let mut number = 10_000_000;
    while world.flash.prefixes_flushed() > 0 {
        assert!(number < 10_100_000, "never over");
        world.set(number, value(number, 4, 2000));
        // It may be refused until a segment is given up.
        let _ = world.demote(number);
        world.now += 1;
        world.maintain();
        number += 1;
    }
    world.device.refuses_reads.store(false, Ordering::Relaxed);
    // The page still says so, of segments that are gone.
    let world = world.killed();
    assert_eq!(world.flash.prefixes_flushed(), 2);
    let world = world.recovered();
    world.maintain();
    assert_eq!(world.flash.prefixes_flushed(), 0);
    (0..50).for_each(|number| world.put(number, b"new"));
    assert_eq!(found(&world, 0..50).len(), 50);
}

/// Regression: each flush waited for collection, which comes late or never to a tier that is not
/// full, and when some ninety were waiting all others were refused.
#[test]
fn an_unreadable_segment_is_given_up_and_keeps_no_flush_from_ending() {
    for is_item_table in [false, true] {
        let world = World::new(PAGES);
        let count = fill_segments(&world, 4, 500);
        let geometry = world.flash.geometry;
        let segment_of = |number| geometry.locate(place(&world, number)?).map(|spot| spot.segment);
        let bad = segment_of(0).expect("it came first");
        let in_it = (0..count).filter(|number| segment_of(*number) == Some(bad)).count() as u64;
        let last = geometry.segment_pages() as u64 - 1;
        let page = geometry.page_of(bad) + if is_item_table { last } else { 0 };
        world.device.make_unreadable(page..page + 1);
        assert!(world.flush_prefix(b"key-1"));
        let seconds = (0..60).take_while(|second| {
            (0..100).for_each(|_| _ = world.flash.maintain(&world.index, world.now + second));
            world.flash.prefixes_flushed() > 0
        });
        assert_eq!(seconds.count() as u32, TRIES_MAX - 1, "it is asked for once a second");
        let stats = world.flash.stats();
        assert_eq!((stats.collected, stats.segments_written), (1, 3));
        assert_eq!(stats.io_errors, u64::from(TRIES_MAX) + u64::from(is_item_table));
        assert!(stats.dropped >= in_it && in_it > 50, "{in_it} of {stats:?}");
        assert_eq!(stats.items, world.index.state().places().count() as u64);
        assert!((0..count).all(|number| segment_of(number) != Some(bad)));
        let left = found(&world, 0..count);
        assert!(left.len() > 100 && !left.iter().any(|&number| has_prefix(number, "key-1")));
        world.device.make_unreadable(0..0);
        let again = found(&world.killed().recovered(), 0..count);
        assert!(again.len() > 50 && again.iter().all(|number| left.contains(number)));
    }
}

/// Regression: the path to a device was gone for a while, in which scrubbing gave a segment up
/// after each thousand turns, which are a second where the background has much to do.
#[test]
fn scrubbing_loses_nothing_while_a_device_refuses_reads_for_seconds() {
    let world = World::new(PAGES);
    let count = fill_segments(&world, 4, 500);
    assert!(world.flush_prefix(b"key-1"));
    world.device.refuses_reads.store(true, Ordering::Relaxed);
    let turns_of = |second| {
        (0..3000).for_each(|_| _ = world.flash.maintain(&world.index, world.now + second));
    };
    (0..TRIES_MAX - 1).for_each(turns_of);
    world.device.refuses_reads.store(false, Ordering::Relaxed);
    assert!(world.flash.prefixes_flushed() > 0);
    turns_of(TRIES_MAX - 1);
    assert_eq!(world.flash.prefixes_flushed(), 0);
    assert_eq!(world.flash.stats().segments_written, 4);
    let kept = (0..count).filter(|&number| !has_prefix(number, "key-1")).count();
    assert_eq!(found(&world, 0..count).len(), kept);
}

/// Damage on the device is given up without a wait, and a misread table is not lost.
#[test]
fn a_table_misread_by_scrubbing_costs_nothing_and_a_damaged_one_no_time() {
    for is_damaged in [false, true] {
        let world = World::new(PAGES);
        let count = fill_segments(&world, 4, 500);
        let place = place(&world, 0).expect("it came first");
        let geometry = world.flash.geometry;
        let segment = geometry.locate(place).expect("sealed").segment;
        // The last byte, in the sum of the table.
        let end = geometry.page_of(segment) + geometry.segment_pages() as u64;
        let at = end * PAGE_BYTES as u64 - 1;
        match is_damaged {
            true => world.device.change(|bytes| bytes[at as usize] ^= 1),
            false => world.device.misread_once(at),
        }
        assert!(world.flush_prefix(b"key-1"));
        (0..100).for_each(|_| _ = world.flash.maintain(&world.index, world.now));
        assert_eq!(world.flash.prefixes_flushed(), 0, "it ends in the same second");
        assert_eq!(world.flash.stats().segments_written, if is_damaged { 3 } else { 4 });
        let kept = (0..count).filter(|&number| !has_prefix(number, "key-1")).count();
        assert_eq!(found(&world, 0..count).len() == kept, !is_damaged);
    }
}

/// Regression: all of the unit goes, whatever its prefix, and no counter said so.
#[test]
fn a_unit_that_scrubbing_finds_damaged_is_counted() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    assert_eq!(world.flash.stats().segments_written, 1);
    let spot = world.flash.geometry.locate(place(&world, 5).expect("it is there")).expect("sealed");
    let at = world.flash.geometry.page_of(spot.segment) as usize * PAGE_BYTES
        + world.flash.geometry.offset_of(spot.granule);
    world.device.change(|bytes| bytes[at + 50] ^= 1);
    assert!(world.flush_prefix(b"key-1"));
    scrub(&world);
    assert_eq!((world.flash.stats().damaged, place(&world, 5)), (1, None));
    assert!(found(&world, 5..6).is_empty());
}

/// Nothing is written, and the flush ends all the same.
#[test]
fn scrubbing_ends_a_flush_and_its_items_are_dead_after_a_kill_too() {
    let world = World::new(PAGES);
    let count = fill_segments(&world, 3, 500);
    assert!(world.flush_prefix(b"key-1") && world.flush_prefix(b"key-33"));
    // Meanwhile another flush, which has a pass of its own.
    world.maintain();
    assert!(world.flush_prefix(b"key-4"));
    scrub(&world);
    let is_left = |number: &u64| {
        !["key-1", "key-33", "key-4"].iter().any(|prefix| has_prefix(*number, prefix))
    };
    let left: Vec<u64> = (0..count).filter(is_left).collect();
    for number in (0..count).filter(|number| !is_left(number)) {
        assert!(place(&world, number).is_none_or(|place| place.is_staged()), "{number}");
    }
    assert_eq!(found(&world, 0..count), left);
    let world = world.killed();
    assert_eq!(world.flash.prefixes_flushed(), 0);
    let world = world.recovered();
    let found = found(&world, 0..count);
    assert!(found.len() > left.len() / 2 && found.iter().all(is_left));
    assert_eq!(world.flash.stats().damaged, 0);
}

/// Regression: each pass wrote the open segments as they were.
#[test]
fn continual_flushes_write_no_segments_that_are_not_full() {
    let world = World::new(PAGES);
    let flushed = fill_a_segment(&world, 500);
    let mut number = 1_000_000;
    for round in 0..100 {
        for _ in 0..10 {
            world.put(number, &value(number, 4, 500));
            number += 1;
        }
        assert!(world.flush_prefix(format!("key-{}", 1 + round % 9).as_bytes()));
        scrub(&world);
    }
    let stats = world.flash.stats();
    assert!(stats.bytes_written < 2 * stats.bytes_staged, "{stats:?}");
    assert!(stats.io_errors + stats.damaged + stats.distrusted == 0, "{stats:?}");
    assert_eq!(found(&world, 0..flushed), [0], "the one that no prefix fits");
}

/// The pass looks into a buffer, which is written later, and the process is killed.
#[test]
fn an_item_scrubbed_in_a_buffer_is_dead_when_that_was_written() {
    let world = World::new(PAGES);
    let mut number = 0;
    while place(&world, 0).is_none_or(|place| place.is_staged()) {
        world.put(number, &value(number, 4, 300));
        number += 1;
    }
    let before = number;
    assert!(world.flush_prefix(b"key-1"));
    scrub(&world);
    let stats = world.flash.stats();
    assert!(stats.bytes_written == 0 && stats.journalled > 0, "{stats:?}");
    // An item of the same segment that is not flushed.
    world.put(1_000_000, &value(1_000_000, 4, 300));
    while world.flash.stats().bytes_written == 0 {
        number += 1;
        world.put(number + 20_000, &value(number, 4, 300));
        world.maintain();
    }
    let world = world.killed();
    assert_eq!(world.flash.prefixes_flushed(), 0);
    let world = world.recovered();
    assert_eq!(found(&world, 0..before), without(0..before, "key-1"));
    assert_eq!(get(&world, 1_000_000), Some(value(1_000_000, 4, 300)));
}

/// A flush of everything waits for the device, a client deletes a key and is told so, and then the
/// process is killed.
#[test]
fn an_item_deleted_during_a_full_flush_stays_dead_after_a_kill() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    let number = (0..count).find(|&it| place(&world, it).is_some_and(|place| !place.is_staged()));
    let number = number.expect("some are on the device");
    let (device, before) = (&world.device, world.device.superblocks.load(Ordering::Relaxed));
    let held = device.holds_superblocks.lock().expect("nobody writes it");
    let left = std::thread::scope(|scope| {
        let flush = scope.spawn(|| world.flash.flush());
        while device.superblocks.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        world.delete(number);
        let left = device.bytes();
        drop(held);
        flush.join().expect("it ends");
        left
    });
    device.change(|bytes| bytes.copy_from_slice(&left));
    let world = world.killed().recovered();
    let found = found(&world, 0..count);
    assert!(!found.contains(&number) && found.len() > 1, "the flush was not answered: {found:?}");
}

/// While the device is read for a pass, other threads stage, and look at staged rows.
#[test]
fn scrubbing_keeps_no_other_thread_waiting_for_the_device() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    assert!(world.flush_prefix(b"key-1"));
    let (device, before) = (&world.device, world.device.reads.load(Ordering::Relaxed));
    let held = device.holds_reads.lock().expect("nobody reads");
    std::thread::scope(|scope| {
        let turns = scope.spawn(|| {
            while world.flash.prefixes_flushed() > 0 {
                world.maintain();
            }
        });
        while device.reads.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        let is_free = world.flash.writer.try_lock().is_ok();
        drop(held);
        turns.join().expect("the pass ends");
        assert!(is_free, "nobody else may stage anything");
    });
    assert!(count > 10 && world.flash.prefixes_flushed() == 0);
}

#[test]
fn a_flush_of_everything_ends_those_of_prefixes() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    assert!(world.flush_prefix(b"key-1"));
    world.flush();
    assert_eq!(world.flash.prefixes_flushed(), 0);
    world.put(1, b"new");
    assert_eq!(get(&world, 1), Some(b"new".to_vec()));
}

#[test]
fn nothing_is_believed_of_a_device_whose_flushes_are_damaged() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    assert!(world.flush_prefix(b"key-1"));
    let world = world.reopened().recovered();
    assert!(!found(&world, 0..count).is_empty());
    world.flash.close(&world.index).expect("the device works");
    world.device.change(|bytes| bytes[crate::flushed::FLUSHED_AT + 9] ^= 1);
    let world = world.killed().recovered();
    assert_eq!(found(&world, 0..count), Vec::<u64>::new());
    assert!(place(&world, 0).is_none() && hash(0) != 0);
    world.put(1, b"new");
    assert_eq!(get(&world, 1), Some(b"new".to_vec()));
}

/// Otherwise the next start might bring back flushed items.
#[test]
fn a_flush_that_the_device_does_not_take_makes_all_of_it_void() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    world.device.refuses_notes.store(true, Ordering::Relaxed);
    assert!(world.flush_prefix(b"key-1"));
    assert_eq!(found(&world, 0..count), without(0..count, "key-1"));
    world.device.refuses_notes.store(false, Ordering::Relaxed);
    world.maintain();
    let world = world.killed().recovered();
    assert!(!found(&world, 0..count).iter().any(|&number| has_prefix(number, "key-1")));
}
