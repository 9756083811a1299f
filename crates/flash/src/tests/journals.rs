//! Journals of segments of small rows, which have room for a part of these: lists that become
//! filters.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cases::{fill_a_segment, get, place};
use super::world::value;
use super::{World, hash};
use crate::{Place, Refused};

const PAGES: usize = 400;
/// Entries of a list in segments as small as these.
const ENTRIES_MAX: u64 = 511;
/// With so many a list is worn: of 511 an eighth is left.
const WORN: u64 = ENTRIES_MAX - ENTRIES_MAX / 8;

/// A segment on the device with more rows than its journal has entries, and how many it has.
fn small_rows() -> (World, u64) {
    let world = World::new(PAGES);
    let end = fill_a_segment(&world, 1);
    let segment = |number| {
        let spot = place(&world, number).and_then(|place| world.flash.geometry.locate(place));
        spot.map(|spot| spot.segment)
    };
    let count = (0..end).find(|&number| segment(number) != segment(0)).expect("others follow");
    assert!(count > 2 * ENTRIES_MAX, "{count} items in the segment");
    (world, count)
}

/// How many of the keys are found.
fn found(world: &World, numbers: std::ops::Range<u64>) -> u64 {
    numbers.filter(|&number| get(world, number).is_some()).count() as u64
}

/// All that lived in it was moved, many times what had died.
#[test]
fn a_worn_list_becomes_a_filter_and_nothing_moves() {
    let (world, count) = small_rows();
    (0..WORN - 1).for_each(|number| world.delete(number));
    world.maintain();
    (WORN - 1..WORN + 200).for_each(|number| {
        world.delete(number);
        world.maintain();
    });
    let stats = world.flash.stats();
    assert_eq!((stats.collected, stats.restaged, stats.distrusted), (0, 0, 0));
    // What died before, meanwhile and since stays dead, also what dies after a kill.
    let world = world.killed().recovered();
    let dead = WORN + 200;
    assert_eq!(found(&world, 0..dead), 0);
    let (alive, living) = (found(&world, dead..count), count - dead);
    assert!(alive * 100 >= living * 97, "{alive} of {living} are found");
    world.delete(dead);
    let world = world.killed().recovered();
    assert_eq!(found(&world, 0..dead + 1), 0);
    assert_eq!(world.flash.stats().distrusted, 0);
    // Whatever is written there next has an empty list.
    let mut number = count;
    while world.flash.stats().opened < 2 * world.flash.stats().segments {
        world.put(number, &value(number, number, 300));
        world.maintain();
        number += 1;
    }
    let alive = found(&world, count..number);
    let world = world.reopened().recovered();
    assert_eq!(found(&world, count..number), alive);
}

#[test]
fn what_has_died_stays_dead_after_a_kill_at_any_note_of_a_list_that_becomes_a_filter() {
    let mut trusted = 0;
    for notes in 1..30 {
        let (world, count) = small_rows();
        (0..WORN).for_each(|number| world.delete(number));
        world.device.die_after(notes);
        let mut dead = WORN;
        world.maintain();
        while !world.device.is_dead() {
            world.delete(dead);
            world.maintain();
            dead += u64::from(!world.device.is_dead());
        }
        let world = world.killed().recovered();
        assert_eq!(found(&world, 0..dead), 0, "after {notes} notes");
        let is_trusted = world.flash.stats().distrusted == 0;
        assert!(!is_trusted || found(&world, dead..count) > (count - dead) / 2);
        trusted += u32::from(is_trusted);
    }
    assert!((20..29).contains(&trusted), "{trusted} times");
}

#[test]
fn a_note_that_is_refused_takes_the_segment_with_it_whatever_its_journal_is() {
    for before in 0..12 {
        let (world, count) = small_rows();
        (0..WORN).for_each(|number| world.delete(number));
        if before >= 8 {
            world.maintain();
        }
        world.device.die_after(u64::MAX);
        world.device.refuse_a_note_after(before % 8);
        world.maintain();
        (WORN..WORN + 20).for_each(|number| world.delete(number));
        let world = world.killed().recovered();
        assert_eq!(found(&world, 0..WORN + 20), 0, "after {before} notes");
        assert!(count > WORN + 20);
    }
}

/// A refactoring gave entries other bits, and the next start took what was dead for alive. Where
/// this sum changes, filters on devices are of an earlier format, and need another mark.
#[test]
fn a_filter_is_on_the_device_what_it_was_when_its_mark_was_given() {
    let world = World::new(PAGES);
    let (flash, journal) = (&world.flash, &world.flash.segments[0].journal);
    let note = |number: u64| {
        flash.journal(0, number as u32, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    };
    journal.open();
    (0..WORN).for_each(note);
    flash.turn_into_filter(0);
    // Two by their bits alone.
    (WORN..WORN + 2).for_each(note);
    journal.close();
    let at = flash.geometry.journal_at(0) as usize;
    let bytes = &world.device.bytes()[at..at + flash.geometry.journal_bytes()];
    assert_eq!(bytes[..4], [3, 0, 0, 0]);
    assert_eq!(codec::checksum(&bytes[64..]), 0x8f34_8b01);
}

/// Every sixteenth segment had the same lock, and who waited for it waited with the lock of a table
/// of the index.
#[test]
fn who_reads_a_filter_of_a_slow_device_keeps_nobody_waiting_for_another() {
    let world = World::new(PAGES);
    let (flash, device) = (&world.flash, &world.device);
    let note = |segment, number: u64| flash.journal(segment, number as u32, hash(number));
    let slow = 3;
    for segment in [slow, slow + 16] {
        flash.segments[segment as usize].journal.open();
        (0..WORN).for_each(|number| note(segment, number));
        flash.turn_into_filter(segment);
    }
    let at = |segment| flash.geometry.journal_at(segment);
    *device.slow_notes.lock().expect("no test has died") = at(slow)..at(slow + 1);
    let held = device.holds_reads.lock().expect("nobody reads");
    std::thread::scope(|scope| {
        let noted = scope.spawn(|| note(slow, WORN));
        while device.slow_reads.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let is_free = flash.bits_lock(slow + 16).0.try_lock().is_ok();
        drop(held);
        noted.join().expect("it is noted");
        assert!(is_free, "a death in another segment waits");
    });
    note(slow + 16, WORN);
}

/// The background turned a list and collected nothing, with each of its turns until no list was
/// worn. Whoever wants to stage something asks it for room once, so meanwhile all of that was lost.
#[test]
fn a_turn_makes_room_however_many_lists_are_worn() {
    let world = World::new(PAGES);
    let mut end = 0;
    while world.flash.stats().segments_written < 3 {
        world.put(end, &value(end, end * 4, 1));
        world.maintain();
        end += 1;
    }
    let segment_of = |number| {
        let spot = place(&world, number).and_then(|place| world.flash.geometry.locate(place));
        spot.map(|spot| spot.segment)
    };
    let mut number = 1_000_000;
    loop {
        world.set(number, value(number, 4, 3000));
        match world.demote(number) {
            Ok(_) => number += 1,
            Err(_) if world.flash.has_waiting() => world.flash.write_full(&world.index),
            Err(refused) => break assert_eq!(refused, Refused::Busy),
        }
    }
    let mut dead = Vec::new();
    for segment in 0..3 {
        let there = (0..end).filter(|&number| segment_of(number) == Some(segment));
        dead.extend(there.take(WORN as usize));
    }
    assert_eq!(dead.len() as u64, 3 * WORN);
    dead.iter().for_each(|&number| world.delete(number));
    world.flash.maintain(&world.index, world.now);
    assert_eq!(world.demote(number), Ok(true));
    // And the lists are turned as well.
    world.maintain();
    dead.iter().for_each(|&number| world.delete(number));
    (0..end).filter(|number| number % 3 == 0).for_each(|number| world.delete(number));
    assert_eq!(world.flash.stats().distrusted, 0);
    let world = world.killed().recovered();
    assert!(dead.iter().all(|&number| get(&world, number).is_none()));
}

#[test]
fn no_death_of_many_threads_is_lost_while_a_list_becomes_a_filter() {
    const THREADS: u64 = 4;
    for _ in 0..20 {
        let (world, count) = small_rows();
        let (next, end) = (AtomicU64::new(0), count - 200);
        let places: Vec<Place> = (0..end).filter_map(|number| place(&world, number)).collect();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let number = next.fetch_add(1, Ordering::Relaxed)
                        && number < end
                    {
                        // Past the index, whose lock would let one note be written at a time.
                        world.flash.forget(places[number as usize], hash(number));
                    }
                });
            }
            while next.load(Ordering::Relaxed) < end {
                world.flash.maintain(&world.index, world.now);
            }
        });
        let world = world.killed().recovered();
        assert_eq!(found(&world, 0..end), 0);
    }
}
