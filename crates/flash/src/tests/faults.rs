//! A device that refuses: never an older value, never a panic, and everything works again
//! afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::io::device::{Device, PAGE_BYTES};

use stdx::sync::lock;

use super::cases::get;
use super::world::value;
use super::{FakeIndex, Random, World, settings, settings_of};
use crate::stage::FAILURES_MAX;
use crate::{CloseError, Flash, OpenError, Reached, Reader, Refused};

const PAGES: usize = 200;

fn refuse(flag: &AtomicBool, is_refused: bool) {
    flag.store(is_refused, Ordering::Relaxed);
}

/// Puts items until `segments` segments were tried, or nothing is taken any more.
fn fill(world: &World, segments: u64) -> Option<Refused> {
    let (errors, written) = (world.flash.stats().io_errors, world.flash.stats().bytes_written);
    for number in 0.. {
        world.set(number, value(number, number * 4, 900));
        if let Err(refused) = world.demote(number) {
            return Some(refused);
        }
        world.maintain();
        let stats = world.flash.stats();
        let tried = stats.io_errors - errors + (stats.bytes_written - written) / (64 << 10);
        if tried >= segments {
            return None;
        }
    }
    None
}

#[test]
fn unwritable_items_leave_the_index_and_a_failing_device_takes_none() {
    let mut world = World::new(PAGES);
    refuse(&world.device.refuses_pages, true);
    assert_eq!(fill(&world, 1), None);
    let stats = world.flash.stats();
    let empty = stats.segments_free + stats.segments_refused;
    assert!(stats.dropped > 40 && empty + 1 >= stats.segments, "{stats:?}");
    assert_eq!(stats.segments_refused, 1);
    assert_eq!(fill(&world, 100), Some(Refused::Failing));
    assert!(world.flash.stats().io_errors >= u64::from(FAILURES_MAX));
    world.maintain();
    world.set(0, value(0, 0, 900));
    assert_eq!(world.demote(0), Err(Refused::Failing));
    refuse(&world.device.refuses_pages, false);
    world.now += 1;
    world.maintain();
    assert_eq!(fill(&world, 2), None);
    assert!(world.flash.stats().bytes_written > 0);
}

/// Regression: one page was enough to take it for a device that works, and with each turn of the
/// background it lost four segments more.
#[test]
fn a_device_that_takes_a_page_and_no_segment_is_given_nothing() {
    let mut world = World::new(PAGES);
    assert_eq!(fill(&world, 3), None);
    world.device.pages_max.store(1, Ordering::Relaxed);
    assert_eq!(fill(&world, 100), Some(Refused::Failing));
    let before = world.flash.stats();
    for number in 0..300 {
        world.now += 1;
        world.maintain();
        world.set(number, value(number, number * 4, 900));
        assert_eq!(world.demote(number), Err(Refused::Failing));
    }
    let stats = world.flash.stats();
    assert_eq!((stats.dropped, stats.collected), (before.dropped, before.collected));
    assert_eq!(stats.bytes_written, before.bytes_written);
    world.device.pages_max.store(usize::MAX, Ordering::Relaxed);
    world.now += 1;
    world.maintain();
    assert_eq!(fill(&world, 2), None);
}

/// Regression: with each turn of the background another segment was made ready for a unit, and set
/// aside when its note was refused, while those who stage items waited.
#[test]
fn a_full_unit_waits_while_a_device_takes_no_notes() {
    let mut world = World::new(PAGES);
    world.put(0, &value(0, 0, 20_000));
    refuse(&world.device.refuses_notes, true);
    (0..4).for_each(|_| world.maintain());
    let before = world.flash.stats();
    assert!(before.is_failing && before.segments_free > 2, "{before:?}");
    (0..10).for_each(|_| world.maintain());
    let stats = world.flash.stats();
    assert_eq!(
        (stats.io_errors, stats.segments_refused),
        (before.io_errors, before.segments_refused)
    );
    refuse(&world.device.refuses_notes, false);
    for _ in 0..3 {
        world.now += 1;
        world.maintain();
    }
    assert_eq!(get(&world, 0), Some(value(0, 0, 20_000)));
    assert!(world.index.state().places().all(|place| !place.is_staged()));
}

#[test]
fn a_death_without_a_note_voids_the_device() {
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    refuse(&world.device.refuses_notes, true);
    world.delete(0);
    world.set(9_999, b"value".to_vec());
    assert_eq!(world.demote(9_999), Err(Refused::Failing));
    refuse(&world.device.refuses_notes, false);
    world.maintain();
    assert_eq!(world.demote(9_999), Ok(true));
    assert!(world.get(1, &mut Reader::new()).is_some(), "it is used as before");
    let world = world.killed().recovered();
    assert_eq!(world.flash.stats().recovered, 0);
}

/// Regression: the segments that were open went on being filled: items stored when the device had
/// long been in order were not believed at the next start, and a clean stop had saved them there.
#[test]
fn items_stored_after_a_note_that_all_is_void_are_believed() {
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    let open = || lock(&world.flash.writer).streams.iter().any(|stream| stream.open.is_some());
    assert!(open());
    // The notes of its death, and that its segment is not to be believed.
    world.device.refuse_notes(2);
    world.delete(0);
    assert!(!world.flash.is_unsound(), "the next note has made all void");
    world.flash.maintain(&world.index, world.now);
    assert!(!open());
    (5_000..5_020).for_each(|number| world.put(number, b"what comes next"));
    let stats = world.flash.stats();
    assert_eq!((stats.io_errors, stats.dropped), (2, 0));
    let world = world.reopened().recovered();
    assert!((5_000..5_020).all(|number| get(&world, number).is_some()));
    assert!((0..100).all(|number| get(&world, number).is_none()));
}

/// Regression: the device was made void by the background only, some time after the flush was
/// acknowledged.
#[test]
fn a_flush_that_cannot_be_noted_voids_the_device_before_it_returns() {
    let flush_prefix = |world: &World| assert!(world.flush_prefix(b"key-1"));
    let plan = |world: &World| world.flash.plan_flush(|| 5000);
    for flush in [&flush_prefix as &dyn Fn(&World), &plan] {
        let world = World::new(PAGES);
        assert_eq!(fill(&world, 2), None);
        world.device.refuse_notes(1);
        flush(&world);
        let world = world.killed().recovered();
        assert_eq!(world.flash.stats().recovered, 0);
    }
}

#[test]
fn a_close_that_cannot_write_is_an_error_and_not_clean() {
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    world.set(5_000, b"value".to_vec());
    assert_eq!(world.demote(5_000), Ok(true));
    refuse(&world.device.refuses_pages, true);
    assert_eq!(world.flash.close(&world.index), Err(CloseError::Incomplete));
    assert_eq!(world.get(5_000, &mut Reader::new()), None);
}

/// Regression: a sync that fails has said that notes may be lost, and the next one says nothing of
/// them. The close ended with the error, and in the same boot the device was believed.
#[test]
fn a_close_that_cannot_sync_voids_the_device() {
    for refused in 1..=4 {
        let world = World::new(PAGES);
        assert_eq!(fill(&world, 2), None);
        world.device.refuse_syncs(refused);
        assert!(world.flash.close(&world.index).is_err());
        // The fourth is the last that is asked for.
        assert_eq!(world.device.is_synced.load(Ordering::Relaxed), refused < 4, "{refused}");
        let world = world.killed().recovered();
        assert_eq!(world.flash.stats().recovered, 0, "{refused}");
    }
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    assert!(world.flash.close(&world.index).is_ok());
    assert!(world.device.is_synced.load(Ordering::Relaxed));
}

/// Regression: the kernel was not asked while a process ran: it lost notes unnoticed, and after a
/// kill in the same boot items that they said were dead were there again.
#[test]
fn a_sync_that_fails_while_the_tier_is_used_voids_earlier_items() {
    for refused in [0, 1, 2, 7] {
        let world = World::new(PAGES);
        assert_eq!(fill(&world, 2), None);
        world.flash.sync_if_due();
        assert!(!world.device.is_synced.load(Ordering::Relaxed), "it is not due");
        world.device.refuse_syncs(refused);
        let keep = |now| world.flash.keep_reached(Reached { now, number: 1 }, false);
        keep(1000);
        world.flash.sync_if_due();
        assert_eq!(world.flash.is_unsound(), refused > 0);
        world.set(9_999, b"value".to_vec());
        let taken = if refused > 0 { Err(Refused::Failing) } else { Ok(true) };
        assert_eq!(world.demote(9_999), taken);
        for _ in 0..refused {
            world.maintain();
            assert!(world.flash.is_unsound(), "it is told, and may not keep it");
            world.flash.sync_if_due();
        }
        assert!(!world.flash.is_unsound());
        assert!(get(&world, 1).is_some(), "it is used as before");
        // Another minute, in which nothing is lost.
        world.maintain();
        (10_000..10_150).for_each(|number| {
            world.put(number, &value(number, number * 4, 900));
            world.maintain();
        });
        keep(1060);
        world.flash.sync_if_due();
        assert!(world.device.is_synced.load(Ordering::Relaxed));
        let world = world.killed().recovered();
        assert_eq!(get(&world, 1).is_some(), refused == 0, "{refused}");
        let stored = (10_000..10_150).filter(|number| get(&world, *number).is_some());
        assert!(stored.count() > 30, "what came since is believed");
    }
}

/// Regression: the background, which notes it on the device, was held up by it, and the process was
/// killed: in the same boot no later process was told again.
#[test]
fn a_sync_that_fails_voids_earlier_items_without_the_background() {
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    world.device.refuse_syncs(1);
    world.flash.keep_reached(Reached { now: 1000, number: 1 }, false);
    // The background waits for the device with this lock.
    let chores = lock(&world.flash.chores);
    world.flash.sync_if_due();
    assert!(world.flash.is_unsound(), "the device has yet to keep it");
    drop(chores);
    assert_eq!(world.killed().recovered().flash.stats().recovered, 0);
}

/// The note that empties its journal may be among those that were lost.
#[test]
fn a_segment_made_ready_when_notes_were_lost_is_made_ready_again() {
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    let prepared = || lock(&world.flash.writer).prepared.clone();
    assert!(!prepared().is_empty());
    world.device.refuse_syncs(1);
    world.flash.keep_reached(Reached { now: 1000, number: 1 }, false);
    world.flash.sync_if_due();
    world.device.log.lock().expect("no test has died").clear();
    world.maintain();
    let log = world.device.log.lock().expect("no test has died");
    let is_emptied = |segment: &u32| log.contains(&world.flash.geometry.journal_at(*segment));
    assert!(prepared().iter().all(is_emptied) && !prepared().is_empty());
}

/// Regression: the sync of the background was told of the failure, and the closing one was not.
#[test]
fn a_close_behind_a_sync_that_failed_voids_the_device() {
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    world.device.refuse_syncs(1);
    world.flash.keep_reached(Reached { now: 1000, number: 1 }, false);
    world.flash.sync_if_due();
    assert_eq!(world.flash.close(&world.index), Ok(()));
    assert_eq!(world.killed().recovered().flash.stats().recovered, 0);
}

/// Regression: the kernel had lost the killed process's writes, said so to the next one, which
/// ended with the error, and said nothing to the one behind that: it believed the content.
#[test]
fn a_start_that_cannot_sync_leaves_nothing_to_believe() {
    for refused in [1, 2] {
        let world = World::new(PAGES);
        assert_eq!(fill(&world, 2), None);
        let device = Arc::clone(&world.device);
        drop(world);
        device.refuse_syncs(refused);
        let open = || Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings());
        assert!(matches!(open(), Err(OpenError::Io(_))));
        assert!(device.is_synced.load(Ordering::Relaxed), "and that is there to stay");
        let flash = open().expect("it works again");
        let index = FakeIndex::default();
        while flash.recover(&index, 0) {}
        assert_eq!(flash.stats().recovered, 0, "{refused}");
    }
}

#[test]
fn a_format_that_cannot_sync_leaves_nothing_to_believe() {
    let world = World::new(PAGES);
    assert_eq!(fill(&world, 2), None);
    let before = world.device.bytes();
    let device = Arc::clone(&world.device);
    drop(world);
    device.refuse_syncs(1);
    let format = || Flash::format(Arc::clone(&device) as Arc<dyn Device>, &settings());
    assert!(matches!(format(), Err(OpenError::Io(_))));
    // The segment table as it was: the write there is lost.
    let table = PAGE_BYTES..2 * PAGE_BYTES;
    device.change(|bytes| bytes[table.clone()].copy_from_slice(&before[table.clone()]));
    let flash = Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings()).expect("it works");
    let index = FakeIndex::default();
    while flash.recover(&index, 0) {}
    assert_eq!(flash.stats().recovered, 0);
}

/// Regression: the index went on leading to all items of the segment: where a page of units could
/// not be read until collection took the item table alone, and where that was on the page for good.
#[test]
fn an_unreadable_page_costs_its_segments_items_and_no_words_of_the_index() {
    for is_item_table in [false, true] {
        let world = World::new(PAGES);
        assert_eq!(fill(&world, 2), None);
        let geometry = world.flash.geometry;
        let of_first = || {
            let state = world.index.state();
            let places = state.places().filter_map(|place| geometry.locate(place));
            places.filter(|spot| spot.segment == 0).count()
        };
        let dropped = of_first() as u64;
        assert!(dropped > 30);
        let last = geometry.segment_pages() as u64 - 1;
        let page = geometry.page_of(0) + if is_item_table { last } else { 0 };
        world.device.make_unreadable(page..page + 1);
        // The items there are read, so that they are to move.
        for number in 0..40 {
            world.get(number, &mut Reader::new());
        }
        let left = of_first() as u64;
        let items = || world.index.state().places().count() as u64;
        for number in 10_000.. {
            world.put(number, &value(number, number * 4, 900));
            world.maintain();
            if world.flash.stats().io_errors > 0 {
                break;
            }
        }
        let stats = world.flash.stats();
        // All of it is asked for twice, and then the item table alone.
        assert_eq!((stats.io_errors, of_first()), (2 + u64::from(is_item_table), 0));
        assert!(left > 30 && stats.dropped >= left, "{left} of {dropped}; {stats:?}");
        assert_eq!(stats.items, items());
    }
}

/// Nothing on the device can say so. A caller that closes it is told, and the device itself as soon
/// as it takes a note.
#[test]
fn a_device_that_takes_no_note_at_all_is_unsound_until_it_does() {
    for takes_again in [false, true] {
        let mut world = World::new(PAGES);
        assert_eq!(fill(&world, 2), None);
        refuse(&world.device.refuses_notes, true);
        world.delete(0);
        world.maintain();
        assert!(world.flash.is_unsound() && world.flash.stats().unsound);
        if takes_again {
            refuse(&world.device.refuses_notes, false);
            // It is tried once a second.
            world.now += 1;
            world.maintain();
            assert!(!world.flash.is_unsound());
            // Rows that have no unit yet go into a segment that is opened from now on.
            let staged = world.index.state().places().filter(|place| place.is_staged()).count();
            assert_eq!(world.flash.close(&world.index), Ok(()));
            let world = world.killed().recovered();
            assert_eq!((world.flash.stats().recovered, get(&world, 0)), (staged as u64, None));
        } else {
            assert_eq!(world.flash.close(&world.index), Err(CloseError::Unsound));
        }
    }
}

#[test]
fn refusals_now_and_then_never_bring_an_older_value_back() {
    let (mut errors, mut to_hot, mut to_cold) = (0, 0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut world = World::with(PAGES, settings_of(seed));
        let mut latest = std::collections::HashMap::new();
        let mut reader = Reader::new();
        for version in 0..12_000 {
            let device = &world.device;
            for flag in [&device.refuses_notes, &device.refuses_pages, &device.refuses_reads] {
                if random.below(40) == 0 {
                    refuse(flag, random.below(3) == 0);
                }
            }
            let number = random.below(400);
            match random.below(10) {
                0..4 => {
                    let length = random.below(1500) as usize;
                    let value = value(number, version, length);
                    world.set(number, value.clone());
                    latest.insert(number, value);
                    // Refused or not, it is in the index.
                    let _ = world.demote(number);
                }
                4 => {
                    world.delete(number);
                    latest.remove(&number);
                }
                5 => {
                    world.now += 1;
                    world.flash.train();
                    world.flash.maintain(&world.index, world.now);
                }
                6 if random.below(400) == 0 => {
                    let device = &world.device;
                    refuse(&device.refuses_notes, false);
                    refuse(&device.refuses_pages, false);
                    refuse(&device.refuses_reads, false);
                    // What the device refused is tried once a second.
                    world.now += 1;
                    world.maintain();
                    let stats = world.flash.stats();
                    errors += stats.io_errors;
                    to_hot += stats.hot.moved_in;
                    to_cold += stats.cold.moved_in;
                    world = world.killed();
                }
                6 if random.below(10) == 0 => {
                    world.flash.recover(&world.index, world.now);
                }
                _ => {
                    if let Some(found) = world.get(number, &mut reader) {
                        assert_eq!(Some(&found), latest.get(&number), "{number} at {version}");
                    }
                }
            }
        }
    }
    assert!(errors > 1000 && to_hot > 100 && to_cold > 0, "{errors} {to_hot} {to_cold}");
}
