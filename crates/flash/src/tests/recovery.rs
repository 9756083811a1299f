//! A process that is killed or closed while it is still finding the items of an earlier one:
//! nothing that was changed meanwhile comes back, and all else is found by the next one.

use std::ops::Range;
use std::sync::atomic::Ordering;

use ::io::device::PAGE_BYTES;
use stdx::sync::lock;

use super::world::value;
use super::{TOLD_APART, World};
use crate::Reader;
use crate::refusal::WAITS_MAX;

/// Some sixty segments of 64 KiB.
const PAGES: usize = 1000;
const KEYS: u64 = 3000;

/// A tier that was killed with these keys on the device, a few more and a few fewer in memory.
fn killed() -> World {
    let world = World::new(PAGES);
    put(&world, 0..KEYS, 0);
    world.killed()
}

/// A value that does not compress.
fn value_of(number: u64, version: u64) -> Vec<u8> {
    value(number, (version * KEYS + number) * 4, 600)
}

/// Stores keys, and moves them to flash.
fn put(world: &World, numbers: Range<u64>, version: u64) {
    for number in numbers {
        world.put(number, &value_of(number, version));
        world.maintain();
    }
}

/// The number of keys that are found, all of them with this version's value.
fn found(world: &World, numbers: Range<u64>, version: u64) -> u64 {
    let mut reader = Reader::new();
    let is_found = |number: &u64| {
        let found = world.get(*number, &mut reader);
        let expected = value_of(*number, version);
        assert!(found.as_ref().is_none_or(|found| *found == expected), "key {number} is stale");
        found.is_some()
    };
    numbers.filter(is_found).count() as u64
}

/// Regression: the list of items found at the start kept its memory for the life of the process,
/// beside that of the lists which had taken over its content.
#[test]
fn the_list_found_at_the_start_takes_no_memory_when_the_index_has_all() {
    let world = killed();
    let before = world.flash.memory_bytes() - world.flash.changes_memory_bytes();
    let world = world.recovered();
    assert!(world.flash.stats().segments_written > 20);
    assert!(world.flash.memory_bytes() <= before, "{} bytes", world.flash.memory_bytes());
}

#[test]
fn a_kill_during_recovery_takes_only_what_was_changed_meanwhile() {
    let all = found(&killed().recovered(), 0..KEYS, 0);
    assert!(all > KEYS * 9 / 10);
    let world = killed();
    assert!(world.flash.recover(&world.index, 0), "there are more segments than one call reads");
    let known = world.flash.stats().recovered;
    assert!(known > 0 && known < all / 2);
    // Keys that recovery has not come to.
    (0..100).for_each(|number| world.delete(number));
    (100..200).for_each(|number| world.set(number, b"in memory only".to_vec()));
    let world = world.killed().recovered();
    let unchanged = found(&world, 200..KEYS, 0);
    assert!(unchanged + 250 > all && world.flash.stats().recovered < all, "{unchanged} of {all}");
    assert_eq!(found(&world, 0..200, 0), 0);
    // Items found dead are noted where they lie: none of them is there the next time, either.
    let world = world.killed().recovered();
    assert_eq!(found(&world, 200..KEYS, 0), unchanged);
    assert_eq!(found(&world, 0..200, 0), 0);
}

/// Regression: the oldest came first: items that a stop had saved, above all the hot zone, were
/// there last, and by then clients had missed them and stored them anew.
#[test]
fn the_newest_items_are_found_first_and_need_no_filter_from_then_on() {
    let world = killed();
    assert!(world.flash.recover(&world.index, 0), "there are more segments than one call reads");
    let known = world.flash.stats().recovered;
    assert!(known > 0 && known < KEYS / 2);
    // The segment that was open was lost with the process.
    assert_eq!(found(&world, KEYS - known - 200..KEYS, 0), known);
    assert_eq!(found(&world, 0..KEYS - known - 200, 0), 0);
    let superblock = *lock(&world.flash.superblock);
    let settled_from = superblock.unsettled_below;
    assert!(superblock.unsettled_from < settled_from);
    // Items stored now lie in no segment that counts as unsettled, whichever process opens the
    // device.
    put(&world, KEYS - 300..KEYS, 1);
    let world = world.killed();
    assert!(world.flash.next_sequence.load(Ordering::Relaxed) > settled_from);
    assert!(world.flash.recover(&world.index, 0));
    let stored = found(&world, KEYS - 300..KEYS, 1);
    assert!(stored > 150, "{stored}");
    assert!(found(&world.recovered(), 0..KEYS - 300, 0) > (KEYS - 300) * 9 / 10);
}

/// Regression: all reads fail at once while a path is gone, and each cost a segment, which was void
/// on the device too: of a sound device nothing was left when the path was back.
#[test]
fn a_device_that_does_not_read_for_a_moment_costs_no_item() {
    let all = found(&killed().recovered(), 0..KEYS, 0);
    let mut world = killed();
    let segments = world.flash.stats().segments_found;
    assert!(world.flash.recover(&world.index, world.now));
    world.device.refuses_reads.store(true, Ordering::Relaxed);
    for second in 1..8 {
        world.now += 1;
        // In the first the rest of what is read at once; the others of a second ask nothing.
        (0..100).for_each(|_| _ = world.flash.recover(&world.index, world.now));
        assert!(!world.flash.recover(&world.index, world.now) && world.flash.is_recovering());
        assert_eq!(world.flash.stats().io_errors, second);
    }
    world.device.refuses_reads.store(false, Ordering::Relaxed);
    world.now += 1;
    let world = world.recovered();
    assert!(!world.flash.is_recovering());
    let stats = world.flash.stats();
    assert_eq!((stats.damaged, stats.segments_written), (0, segments));
    assert_eq!(found(&world, 0..KEYS, 0), all);
    assert_eq!(found(&world.killed().recovered(), 0..KEYS, 0), all);
}

/// Regression: a damaged part of the segment table was made void without a count, and a single
/// misreading of it, of a journal, an item table or the first page made things void as well.
#[test]
fn a_single_misreading_costs_nothing_and_damage_is_counted() {
    let all = found(&killed().recovered(), 0..KEYS, 0);
    let places = |world: &World| {
        let geometry = world.flash.geometry;
        let newest = *lock(&world.flash.writer).found.back().expect("some were found");
        let end = (newest.segment + 1) as u64 * geometry.segment_bytes as u64;
        let end = geometry.page_of(0) * PAGE_BYTES as u64 + end;
        [100, 130, geometry.entry_at(newest.segment), geometry.journal_at(newest.segment), end - 1]
    };
    let count = places(&killed()).len();
    for place in 0..count {
        let world = killed();
        let at = places(&world)[place];
        // Something has to be read of the flushed prefixes.
        assert!(world.flush_prefix(b"other"));
        world.device.misread_once(at);
        let world = world.killed().recovered();
        assert_eq!((world.flash.stats().damaged, world.flash.doubt()), (0, None), "{place}");
        assert_eq!(found(&world, 0..KEYS, 0), all, "{place}");
        if place > 1 {
            world.device.change(|bytes| bytes[at as usize] ^= 1);
            let world = world.killed().recovered();
            let left = found(&world, 0..KEYS, 0);
            assert!(world.flash.stats().damaged == 1 && left < all && left + 100 > all, "{left}");
        }
    }
}

#[test]
fn a_segment_refused_for_long_is_given_up_and_later_ones_are_found() {
    let all = found(&killed().recovered(), 0..KEYS, 0);
    let mut world = killed();
    let segments = world.flash.stats().segments_found;
    let newest = lock(&world.flash.writer).found.back().expect("some were found").segment;
    let journal = world.flash.geometry.journal_at(newest) / PAGE_BYTES as u64;
    world.device.make_unreadable(journal..journal + 1);
    let mut seconds = 0;
    while world.flash.is_recovering() {
        world = world.recovered();
        world.now += 1;
        seconds += 1;
    }
    let stats = world.flash.stats();
    // The segments whose journals are on the page.
    let lost = segments - stats.segments_written;
    assert_eq!((stats.damaged, stats.io_errors), (lost, 8 * lost));
    assert!((1..segments / 2).contains(&lost) && seconds == 7 * lost + 1, "{lost}, {seconds}");
    let left = found(&world, 0..KEYS, 0);
    assert!(left < all && left >= all * (segments - lost) / segments - 60, "{left} of {all}");
}

/// Regression: each held up those behind it for eight seconds, however many there were: a start on
/// a drive with a thousand bad spots took hours, and served what it had not come to as misses.
#[test]
fn many_segments_refused_for_good_hold_a_start_up_for_a_minute_in_all() {
    let mut world = killed();
    let all = world.flash.stats().segments_found;
    // The journals of the segments that were stored first, which are found last.
    let geometry = world.flash.geometry;
    let journals = [0, 16].map(|segment| geometry.journal_at(segment) / PAGE_BYTES as u64);
    world.device.make_unreadable(journals[0]..journals[1]);
    let begun = world.now;
    while world.flash.is_recovering() {
        world = world.recovered();
        world.now += 1;
    }
    let (stats, seconds) = (world.flash.stats(), world.now - begun);
    let lost = all - stats.segments_written;
    assert_eq!((lost, stats.damaged), (16, 16));
    assert_eq!(seconds, WAITS_MAX + 1, "not {}", 7 * lost);
    assert!(found(&world, 0..KEYS, 0) > KEYS / 3);
}

/// While no place is read, the path may be gone.
#[test]
fn no_more_is_lost_in_an_outage_because_others_were_waited_for_before() {
    let mut world = killed();
    let geometry = world.flash.geometry;
    let newest: Vec<u32> =
        lock(&world.flash.writer).found.iter().rev().map(|found| found.segment).take(12).collect();
    let ends = [newest.iter().min(), newest.iter().max()].map(|it| *it.expect("some were found"));
    let pages = ends.map(|segment| geometry.page_of(segment));
    world.device.make_unreadable(pages[0]..pages[1] + geometry.segment_pages() as u64);
    while lock(&world.flash.writer).found.back().is_some_and(|it| newest.contains(&it.segment)) {
        world.flash.recover(&world.index, world.now);
        world.now += 1;
    }
    let lost = world.flash.stats().damaged;
    assert_eq!(lost, 12);
    let left = world.flash.stats().segments_found;
    assert!(left > 8, "{left}");
    world.device.make_unreadable(0..PAGES as u64);
    for _ in 0..7 {
        while world.flash.recover(&world.index, world.now) {}
        world.now += 1;
    }
    assert_eq!(world.flash.stats().segments_found, left);
    world.device.make_unreadable(0..0);
    let world = world.recovered();
    assert_eq!(world.flash.stats().damaged, lost);
}

/// Regression: a segment was written, and the process killed before that was noted. The next one
/// gave the same segment the same sequence, the drive lost its write there, and an older value of
/// each key was sound where it lay.
#[test]
fn what_a_killed_process_left_unnoted_is_not_taken_for_what_a_drive_has_lost() {
    let world = World::new(PAGES);
    let mut count = 0;
    while !world.flash.has_waiting() {
        world.put(count, &value_of(count, 0));
        count += 1;
    }
    // It is used as any other, but not found again.
    world.device.refuse_notes(1);
    world.flash.write_full(&world.index);
    assert_eq!((world.flash.stats().io_errors, world.flash.stats().segments_written), (1, 1));
    let world = world.killed().recovered();
    assert_eq!(world.flash.stats().segments_found, 0);
    world.device.loses_pages.store(true, Ordering::Relaxed);
    (0..count).for_each(|number| world.put(number, &value_of(number, 1)));
    world.flash.write_full(&world.index);
    assert_eq!((world.flash.stats().io_errors, world.flash.stats().segments_written), (0, 1));
    let in_buffers = found(&world, 0..count, 1);
    assert!(in_buffers < count / 2, "{in_buffers} of {count}");
    let world = world.killed().recovered();
    assert_eq!(found(&world, 0..count, 1), 0);
}

/// Regression: of two processes that were killed one after the other, behind one that was killed
/// while it still recovered, the second began with the sequence of the first, which nothing on the
/// device named.
#[test]
fn a_segment_left_unnoted_behind_a_recovery_is_not_taken_for_a_lost_one() {
    let world = killed();
    assert!(world.flash.recover(&world.index, 0), "there are more segments than one call reads");
    let world = world.killed_drawing(1).recovered();
    let mut end = KEYS;
    while !world.flash.has_waiting() {
        world.put(end, &value_of(end, 0));
        end += 1;
    }
    world.device.refuse_notes(1);
    world.flash.write_full(&world.index);
    let world = world.killed_drawing(2).recovered();
    world.device.loses_pages.store(true, Ordering::Relaxed);
    (KEYS..end).for_each(|number| world.put(number, &value_of(number, 1)));
    let written = world.flash.stats().segments_written;
    world.flash.write_full(&world.index);
    assert_eq!(world.flash.stats().segments_written, written + 1);
    let in_buffers = found(&world, KEYS..end, 1);
    assert!(in_buffers < (end - KEYS) / 2, "{in_buffers} of {}", end - KEYS);
}

/// Regression: a close went on until all was found. On a large device that took longer than a
/// supervisor waits; the process was killed then, and if the machine was restarted, everything was
/// void.
#[test]
fn a_close_during_recovery_leaves_the_rest_to_the_next_boot() {
    let all = found(&killed().recovered(), 0..KEYS, 0);
    let world = killed();
    assert!(world.flash.recover(&world.index, 0), "there are more segments than one call reads");
    change_both_ends(&world);
    let reads = world.device.reads.load(Ordering::Relaxed);
    let known = world.flash.stats();
    world.flash.close(&world.index).expect("the device works");
    assert_eq!(world.device.reads.load(Ordering::Relaxed), reads, "no segment is read for it");
    assert!(world.device.is_synced.load(Ordering::Relaxed));
    let before = world.device.bytes();
    assert!(!world.flash.recover(&world.index, 0), "nothing is found after it");
    assert_eq!(world.flash.stats(), known);
    assert!(world.device.bytes() == before, "nor is anything noted");
    let world = world.rebooted().recovered();
    let unchanged = found(&world, 100..KEYS - 100, 0);
    assert!(unchanged + 250 > all, "{unchanged} of {all}");
    assert_eq!(found(&world, 0..100, 0) + found(&world, KEYS - 100..KEYS, 0), 0);
}

/// A key that changed while the first process recovered, which was then closed, is dead for the
/// third, though the second knew of it by the device alone; so is a key that the second has changed
/// itself.
#[test]
fn nothing_changed_before_a_second_close_during_recovery_is_found_later() {
    let mut world = killed();
    for round in 1..=5 {
        assert!(world.flash.recover(&world.index, 0));
        let changed = (100 * (round - 1)..100 * round).chain(KEYS - 100 * round..KEYS);
        changed.for_each(|number| world.delete(number));
        world = world.rebooted();
    }
    let world = world.recovered();
    assert_eq!(found(&world, 0..500, 0) + found(&world, KEYS - 500..KEYS, 0), 0);
    let unchanged = found(&world, 500..KEYS - 500, 0);
    assert!(unchanged > (KEYS - 1000) * 9 / 10, "{unchanged}");
}

/// Removes some keys that recovery has come to and some that it has not, and stores others.
fn change_both_ends(world: &World) {
    for number in 0..50 {
        world.delete(number);
        world.delete(KEYS - 1 - number);
    }
    for number in 50..100 {
        world.set(number, b"in memory only".to_vec());
        world.set(KEYS - 1 - number, b"in memory only".to_vec());
    }
}

/// Regression: the index takes one key for another once in many millions, and removing the one
/// removes the item of the other. The note had bits by which the two differ: nothing led to the
/// item any more, so nothing noted its death when its key was stored anew, and after the next start
/// it was back.
#[test]
fn an_item_removed_for_a_key_that_cannot_be_told_apart_stays_dead() {
    let world = killed().recovered();
    for number in 0..KEYS / 4 {
        let hash = super::hash(number);
        let Some(place) = world.index.state().place(hash) else { continue };
        let other = hash ^ !TOLD_APART;
        assert!(world.flash.may_be(place, other));
        world.index.state().forget(hash);
        world.flash.forget(place, other);
    }
    let world = world.killed().recovered();
    assert_eq!(found(&world, 0..KEYS / 4, 0), 0);
    let others = found(&world, KEYS / 4..KEYS, 0);
    assert!(others > (KEYS - KEYS / 4) * 9 / 10, "{others}: those beside them are there");
}

#[test]
fn items_stored_during_recovery_are_found_by_the_next_process() {
    let world = killed();
    assert!(world.flash.recover(&world.index, 0));
    // Enough to write some segments, and of keys that recovery has not come to.
    put(&world, 0..500, 1);
    let written = world.flash.stats().bytes_written;
    assert!(written > 0 && world.flash.is_recovering());
    let world = world.killed().recovered();
    let unchanged = found(&world, 500..KEYS, 0);
    assert!(unchanged > (KEYS - 500) * 9 / 10, "{unchanged}");
    let stored = found(&world, 0..500, 1);
    assert!(stored > 300, "{stored}");
}

#[test]
fn nothing_that_changed_before_the_second_kill_is_found_after_the_third() {
    let mut world = killed();
    for round in 1..=5 {
        let changed = KEYS - 100 * round..KEYS - 100 * (round - 1);
        changed.for_each(|number| world.delete(number));
        world = world.killed();
    }
    let world = world.recovered();
    assert_eq!(found(&world, KEYS - 500..KEYS, 0), 0);
    let unchanged = found(&world, 0..KEYS - 500, 0);
    assert!(unchanged > (KEYS - 500) * 9 / 10, "{unchanged}");
}

#[test]
fn a_change_that_cannot_be_noted_voids_what_there_is() {
    let world = killed();
    world.device.refuses_notes.store(true, Ordering::Relaxed);
    world.delete(KEYS / 2);
    world.device.refuses_notes.store(false, Ordering::Relaxed);
    assert!(world.flash.stats().io_errors > 0);
    world.maintain();
    let world = world.killed().recovered();
    assert_eq!(world.flash.stats().recovered, 0);
}

/// Regression: items that clients store during recovery fill memory, and a large index needs more
/// of it than is free at once. Items that found no room were noted as dead, a segment's items in
/// one go.
#[test]
fn an_index_that_is_full_for_a_moment_costs_nothing() {
    let all = killed().recovered().flash.stats().recovered;
    let world = killed();
    {
        let mut state = world.index.state();
        (state.room, state.makes) = (Some(100), 70);
    }
    let world = world.recovered();
    assert_eq!(world.flash.stats().recovered, all);
    assert_eq!(found(&world, 0..KEYS, 0), all);
    let world = world.killed().recovered();
    assert_eq!(world.flash.stats().recovered, all, "nor at the next start");
}

#[test]
fn an_item_without_any_room_is_dead_and_one_that_found_some_is_there() {
    let world = killed();
    world.index.state().room = Some(100);
    let world = world.recovered();
    assert_eq!(world.flash.stats().recovered, 100);
    let stats = world.flash.stats();
    assert!(world.index.state().asked <= stats.segments * 16, "not for each item");
    let all = killed().recovered().flash.stats().recovered;
    assert_eq!(stats.passed_by, all - 100);
    let world = world.killed().recovered();
    assert_eq!(found(&world, 0..KEYS, 0), 100);
}

/// Regression: where a process with more memory has left more items than this one's index may lead
/// to, the index took them all the same, beyond its share of the memory, and each item that found
/// no room at all was noted as dead.
#[test]
fn items_beyond_the_index_are_void_by_one_note_and_stay_so() {
    let world = killed();
    world.index.state().found_max = Some(500);
    world.set(0, b"changes".to_vec());
    let segments = world.flash.stats().segments_found;
    let notes = |world: &World| world.device.log.lock().expect("no test has died").len();
    let before = notes(&world);
    assert!(!world.flash.recover(&world.index, 0), "eight segments have more than 500 items");
    // One that all else is void, and that nothing is unsettled.
    assert_eq!(notes(&world) - before, 1);
    let stats = world.flash.stats();
    assert!((500..700).contains(&stats.recovered), "{stats:?}");
    assert_eq!((stats.segments_found, stats.journalled, world.index.state().asked), (0, 0, 0));
    assert!(stats.forgone > 0 && stats.forgone < segments, "{stats:?}");
    assert_eq!(stats.segments_free + stats.segments_written, stats.segments);
    assert!(!world.flash.is_recovering());
    let newest = found(&world, KEYS - stats.recovered - 200..KEYS, 0);
    assert_eq!(newest, stats.recovered);
    // Items stored now are found by the next process, and no others.
    put(&world, 0..300, 1);
    let world = world.killed().recovered();
    let written = found(&world, 0..300, 1);
    assert!(written > 150, "{written}");
    assert_eq!(found(&world, 300..KEYS, 0), newest);
}

#[test]
fn items_that_cannot_be_noted_as_void_void_the_device() {
    let world = killed();
    assert!(world.flash.recover(&world.index, 0), "there are more segments than one call reads");
    world.index.state().found_max = Some(500);
    world.device.refuse_notes(1);
    assert!(!world.flash.recover(&world.index, 0));
    assert_eq!(world.killed().recovered().flash.stats().recovered, 0);
}

/// Evicting for want of words yields some, though all items not found yet are older.
#[test]
fn an_eviction_during_recovery_voids_items_not_found_and_frees_words() {
    let world = killed();
    assert!(world.flash.recover(&world.index, 0));
    let before = world.flash.stats();
    assert!(world.flash.evict(&world.index));
    let after = world.flash.stats();
    assert_eq!((after.segments_found, after.evicted), (0, 1));
    assert!(after.items < before.items && after.items > 0);
    let world = world.killed().recovered();
    assert_eq!(world.flash.stats().recovered, after.items);
}

/// Memory that other parts give up for it would be lost to them, and do nothing for it.
#[test]
fn no_room_is_made_for_items_that_no_memory_can_hold() {
    let all = killed().recovered().flash.stats().recovered;
    let world = killed();
    let hopeless = KEYS / 2..KEYS / 2 + 10;
    world.index.state().hopeless = hopeless.clone().map(super::hash).collect();
    let world = world.recovered();
    assert_eq!(world.index.state().asked, 0);
    let lost = all - world.flash.stats().recovered;
    assert!((1..=10).contains(&lost), "{lost}");
    assert_eq!(world.flash.stats().passed_by, lost);
    let world = world.killed().recovered();
    assert_eq!(found(&world, hopeless, 0), 0, "they are dead on the device");
    assert_eq!(found(&world, 0..KEYS, 0), all - lost);
}

/// Regression: that kept the server from starting, each time.
#[test]
fn unreadable_changes_count_for_all_items_not_found() {
    let world = killed();
    assert!(world.flash.recover(&world.index, 0), "there are more segments than one call reads");
    let known = world.flash.stats().recovered;
    let page = world.flash.geometry.changes_at() / PAGE_BYTES as u64;
    world.delete(0);
    world.device.make_unreadable(page..page + 1);
    let world = world.killed().recovered();
    let stats = world.flash.stats();
    assert_eq!((stats.recovered, stats.io_errors), (known, 1));
    assert_eq!(found(&world, 0..1, 0), 0);
}

/// Regression: a bit that was misread as not set brought back a key's older value. Now its block
/// counts for all keys that have their bits there, and others cost nothing.
#[test]
fn a_flipped_bit_of_the_changes_brings_nothing_back() {
    const DEAD: Range<u64> = 0..60;
    let mut world = killed();
    assert!(world.flash.recover(&world.index, 0), "there are more segments than one call reads");
    DEAD.for_each(|number| world.delete(number));
    let geometry = world.flash.geometry;
    let at = geometry.changes_at() as usize;
    let before = world.device.bytes();
    let bytes = &before[at..at + geometry.changes_bytes()];
    let is_set = |bit: &usize| bytes[bit / 8] & 1 << (bit % 8) != 0;
    let bits: Vec<usize> = (0..bytes.len() * 8).filter(is_set).collect();
    assert!(bits.len() >= DEAD.count() - 1, "{} bits", bits.len());
    let all = found(&killed().recovered(), 0..KEYS, 0);
    for bit in bits.into_iter().step_by(11) {
        world.device.change(|bytes| {
            bytes.copy_from_slice(&before);
            bytes[at + bit / 8] ^= 1 << (bit % 8);
        });
        world = world.killed().recovered();
        assert_eq!(found(&world, DEAD, 0), 0, "bit {bit}");
        assert_eq!(world.flash.stats().damaged, 1);
        let others = found(&world, DEAD.end..KEYS, 0);
        assert!(others + 250 > all, "{others} of {all}");
    }
}

/// A drive that loses a write has the earlier content: the changes of an earlier recovery, or
/// nothing at all.
#[test]
fn changes_of_an_earlier_life_are_not_taken_for_those_of_this_one() {
    for is_blank in [true, false] {
        let world = killed();
        let range = {
            let geometry = &world.flash.geometry;
            let at = geometry.changes_at() as usize;
            at..at + geometry.changes_bytes()
        };
        world.delete(KEYS - 1);
        let before = world.device.bytes()[range.clone()].to_vec();
        // Once all is found, the next process begins anew.
        let world = world.recovered().killed();
        assert!(world.flash.recover(&world.index, 0));
        let known = world.flash.stats().recovered;
        (0..50).for_each(|number| world.delete(number));
        world.device.change(|bytes| match is_blank {
            true => bytes[range].fill(0),
            false => bytes[range].copy_from_slice(&before),
        });
        let world = world.killed().recovered();
        assert_eq!(found(&world, 0..50, 0), 0);
        let stats = world.flash.stats();
        assert!(stats.damaged > 50 && stats.recovered <= known, "{stats:?}");
    }
}

#[test]
fn the_kept_changes_are_let_go_with_the_last_segment() {
    let world = killed();
    world.delete(0);
    let during = world.flash.memory_bytes();
    let world = world.recovered();
    assert!(!world.flash.is_recovering());
    let log = |world: &World| world.device.log.lock().expect("no test has died").len();
    let before = log(&world);
    (0..KEYS).for_each(|number| world.flash.note_change(super::hash(number)));
    assert_eq!(log(&world), before, "nothing is noted any more");
    assert!(world.flash.memory_bytes() < during);
    let blank = World::new(PAGES);
    assert!(!blank.flash.is_recovering(), "there is nothing to find");
}
