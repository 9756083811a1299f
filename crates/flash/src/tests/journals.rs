//! Journals of segments of small rows, which have room for only some of these: lists that become
//! filters.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cases::{fill_a_segment, get, place};
use super::world::value;
use super::{World, hash};
use crate::area::Area;
use crate::flash::State;
use crate::{Place, Refused};

const PAGES: usize = 400;
/// Entries of a list in segments as small as these.
const ENTRIES_MAX: u64 = 510;
/// A list with this many entries is worn: of 510 an eighth is left.
const WORN: u64 = ENTRIES_MAX - ENTRIES_MAX / 8;

/// A segment on the device with more rows than its journal has entries, and their number.
fn small_rows() -> (World, u64) {
    let world = World::new(PAGES);
    let end = fill_a_segment(&world, 1);
    let segment = |number| segment_of(&world, number);
    let count = (0..end).find(|&number| segment(number) != segment(0)).expect("others follow");
    assert!(count > 2 * ENTRIES_MAX, "{count} items in the segment");
    (world, count)
}

/// The number of these keys that are found.
fn found(world: &World, numbers: std::ops::Range<u64>) -> u64 {
    numbers.filter(|&number| get(world, number).is_some()).count() as u64
}

/// Regression: all live items of the segment were moved, many times as many as had died.
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
    // Items that died before, meanwhile and since stay dead, also one that dies after a kill.
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
fn dead_items_stay_dead_after_a_kill_while_a_list_becomes_a_filter() {
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

/// Regression: the next start did not believe the segment, for a read that was refused once.
#[test]
fn a_journal_that_is_refused_once_is_read_again() {
    let (world, count) = small_rows();
    (0..WORN).for_each(|number| world.delete(number));
    // The list, and then a block of the filter.
    world.device.refuse_reads(1);
    world.maintain();
    world.device.refuse_reads(1);
    world.delete(WORN);
    let stats = world.flash.stats();
    assert_eq!((stats.io_errors, stats.distrusted), (2, 0));
    let world = world.killed().recovered();
    assert_eq!((found(&world, 0..WORN + 1), world.flash.stats().distrusted), (0, 0));
    assert!(found(&world, WORN + 1..count) > (count - WORN) / 2);
}

#[test]
fn a_refused_note_takes_the_segment_with_it_whatever_its_journal_is() {
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

/// Regression: a refactoring gave entries other bits, and the next start took dead items for alive.
/// If this sum changes, filters on devices are of an earlier format, and need another mark.
#[test]
fn a_filters_bytes_are_those_for_which_its_mark_was_given() {
    let world = World::new(PAGES);
    let (flash, journal) = (&world.flash, &world.flash.segments[0].journal);
    let note = |number: u64| {
        flash.journal(0, number as u32, number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    };
    flash.segments[0].set_state(State::Buffered(9), Area::Cold);
    journal.open();
    (0..WORN).for_each(note);
    flash.turn_into_filter(0);
    // Two by their bits alone.
    (WORN..WORN + 2).for_each(note);
    journal.close();
    let at = flash.geometry.journal_at(0) as usize;
    let bytes = &world.device.bytes()[at..at + flash.geometry.journal_bytes()];
    assert_eq!(bytes[..4], [0xa5, 0xa5, 0x5a, 0x5a]);
    assert_eq!(codec::checksum(&bytes[64..]), 0x7669_c6e7);
}

/// Regression: every sixteenth segment had the same lock, and a thread that waited for it waited
/// with the lock of a table of the index.
#[test]
fn reading_a_filter_of_a_slow_device_blocks_no_other_segment() {
    let world = World::new(PAGES);
    let (flash, device) = (&world.flash, &world.device);
    let note = |segment, number: u64| flash.journal(segment, number as u32, hash(number));
    let slow = 3;
    for segment in [slow, slow + 16] {
        flash.segments[segment as usize].set_state(State::Buffered(9), Area::Cold);
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

/// Regression: the background turned a list and collected nothing, with each of its turns until no
/// list was worn. A thread that stages asks it for room only once, so meanwhile all its items were
/// lost.
#[test]
fn a_turn_makes_room_however_many_lists_are_worn() {
    let world = World::new(PAGES);
    let mut end = 0;
    while world.flash.stats().segments_written < 3 {
        world.put(end, &value(end, end * 4, 1));
        world.maintain();
        end += 1;
    }
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
        let there = (0..end).filter(|&number| segment_of(&world, number) == Some(segment));
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

/// The bits of a segment's journal that hold its notes, by their numbers on the device.
fn bits_of_notes(world: &World, segment: u32) -> Range<usize> {
    let geometry = &world.flash.geometry;
    let (at, length) = (geometry.journal_at(segment) as usize, geometry.journal_bytes());
    let bytes = world.device.bytes();
    let used = bytes[at..at + length].iter().rposition(|&byte| byte != 0).expect("there are notes");
    at * 8..(at + used + 1) * 8
}

/// Flips each of these bits, alone, while the device is closed, and checks what the next start
/// finds of the first items, which are dead. Returns how often it found others beside them.
fn flip_each(world: World, bits: impl Iterator<Item = usize>, dead: u64) -> [u32; 2] {
    let device = Arc::clone(&world.device);
    let (mut world, bytes) = (world, device.bytes());
    let (mut alive, mut damaged) = (0, 0);
    for bit in bits {
        device.change(|changed| {
            changed.copy_from_slice(&bytes);
            changed[bit / 8] ^= 1 << (bit % 8);
        });
        world = world.killed().recovered();
        assert_eq!(found(&world, 0..dead), 0, "bit {} of byte {}", bit % 8, bit / 8);
        alive += u32::from(get(&world, dead + 1).is_some());
        damaged += u32::from(world.flash.stats().damaged > 0);
    }
    [alive, damaged]
}

/// Regression: one flipped bit of an entry brought back its item, one of a mark all dead items of a
/// segment, and one of a filter some.
#[test]
fn a_flipped_bit_of_a_journal_brings_nothing_back() {
    const DEAD: u64 = 20;
    let (world, _) = small_rows();
    (0..DEAD).for_each(|number| world.delete(number));
    let world = world.reopened();
    let bits = bits_of_notes(&world, 0);
    let count = bits.len() as u32;
    assert!(count > 32 * DEAD as u32);
    let [alive, damaged] = flip_each(world, bits, DEAD);
    assert_eq!([alive, damaged], [0, count], "its segment is not believed, and nothing else");

    let (world, count) = small_rows();
    (0..WORN + 20).for_each(|number| {
        world.delete(number);
        world.maintain();
    });
    let dead = WORN + 20;
    assert!(count > dead + 1);
    let world = world.reopened();
    // Some of each block, and of the head.
    let bits = bits_of_notes(&world, 0);
    let every = bits.clone().step_by(37).chain(bits.start..bits.start + 64);
    let [alive, damaged] = flip_each(world, every, dead);
    assert!(damaged > 400 && alive < damaged / 20, "{alive} beside {damaged}");
}

/// Regression: notes are added to blocks that are read first. A misread bit was then written back,
/// and so flipped for good.
#[test]
fn bits_misread_while_a_note_is_added_are_not_kept() {
    let (world, count) = small_rows();
    (0..WORN).for_each(|number| world.delete(number));
    world.maintain();
    let at = world.flash.geometry.journal_at(0) as usize;
    let length = world.flash.geometry.journal_bytes();
    let blocks = at + 64..at + length;
    let before = world.device.bytes()[blocks.clone()].to_vec();
    // Bits misread as not set, while all later deaths are noted.
    world.device.change(|bytes| {
        for block in bytes[blocks.clone()].chunks_mut(64) {
            if let Some(byte) = block[..60].iter_mut().find(|byte| **byte != 0) {
                *byte &= *byte - 1;
            }
        }
    });
    let misread = world.device.bytes()[blocks.clone()].to_vec();
    (WORN..WORN + 40).for_each(|number| world.delete(number));
    // The next process reads the bytes that are there, or were written meanwhile, if any were.
    world.device.change(|bytes| {
        let there = bytes[blocks].chunks_mut(64);
        for (there, (misread, before)) in there.zip(misread.chunks(64).zip(before.chunks(64))) {
            if there == misread {
                there.copy_from_slice(before);
            }
        }
    });
    let damaged = world.flash.stats().damaged;
    let world = world.killed().recovered();
    assert_eq!((found(&world, 0..WORN + 40), world.flash.stats().distrusted), (0, 1));
    assert!(damaged > 0 && count > WORN + 40);
}

/// A drive that loses a write has the earlier content: a journal of an earlier life, of the same
/// segment, or nothing but zeros.
#[test]
fn a_journal_that_a_drive_has_lost_is_not_taken_for_an_empty_one() {
    for is_blank in [true, false] {
        let (world, count) = small_rows();
        let at = world.flash.geometry.journal_at(0) as usize;
        let length = world.flash.geometry.journal_bytes();
        (0..3).for_each(|number| world.delete(number));
        let before = world.device.bytes()[at..at + length].to_vec();
        // Until the segment has had another life.
        let sequence = world.flash.segments[0].state();
        let mut number = count;
        while world.flash.segments[0].state() == sequence || !is_written(&world, 0) {
            world.put(number, &value(number, number * 4, 300));
            world.maintain();
            number += 1;
        }
        let there: Vec<u64> =
            (count..number).filter(|&it| segment_of(&world, it) == Some(0)).collect();
        there.iter().take(3).for_each(|&number| world.delete(number));
        world.device.change(|bytes| match is_blank {
            true => bytes[at..at + length].fill(0),
            false => bytes[at..at + length].copy_from_slice(&before),
        });
        let world = world.reopened().recovered();
        let found = there.iter().filter(|&&number| get(&world, number).is_some());
        assert_eq!((found.count(), world.flash.stats().damaged), (0, 1), "{is_blank}");
    }
}

fn is_written(world: &World, segment: usize) -> bool {
    matches!(world.flash.segments[segment].state(), State::Written(_))
}

fn segment_of(world: &World, number: u64) -> Option<u32> {
    let spot = place(world, number).and_then(|place| world.flash.geometry.locate(place));
    spot.map(|spot| spot.segment)
}
