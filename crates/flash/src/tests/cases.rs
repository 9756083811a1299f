//! Single steps: where items are found, which are refused, and what a restart believes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::io::device::{Device, Pages};
use stdx::sync::lock;

use super::world::{key, value};
use super::{FakeIndex, MemoryDevice, World, hash, settings};
use crate::flash::State;
use crate::superblock::{SEQUENCE_MAX, SUPERBLOCK_BYTES, VERSION};
use crate::{
    Doubt, Empty, Fields, Flash, Look, OpenError, Place, Reached, Reader, Record, Refused,
    Settings, Watermarks,
};

const PAGES: usize = 400;
/// A key that no loop reaches.
const EXPIRING: u64 = 1 << 40;

pub(crate) fn place(world: &World, number: u64) -> Option<Place> {
    world.index.state().place(hash(number))
}

pub(crate) fn get(world: &World, number: u64) -> Option<Vec<u8>> {
    world.get(number, &mut Reader::new())
}

/// Looks without changing the index.
pub(crate) fn look(world: &World, number: u64, place: Place) -> (Look, Vec<u8>) {
    let mut reader = Reader::new();
    let mut look = world.flash.look(place, &key(number), &mut reader);
    while let Look::Wait(ticket) = look {
        let mut pages = Pages::zeroed(ticket.pages);
        world.device.read(ticket.page, pages.as_pages_mut()).expect("within the device");
        look = world.flash.finish(&ticket, &pages, &key(number), &mut reader);
    }
    (look, reader.value().to_vec())
}

/// Puts items until the first is on the device, and returns how many.
pub(crate) fn fill_a_segment(world: &World, length: usize) -> u64 {
    let mut number = 0;
    while world.flash.stats().bytes_written == 0 {
        world.put(number, &value(number, number * 4, length));
        world.maintain();
        number += 1;
    }
    number
}

/// Puts items until `segments` segments are on the device, and returns how many.
pub(crate) fn fill_segments(world: &World, segments: u64, length: usize) -> u64 {
    let mut number = 0;
    while world.flash.stats().segments_written < segments {
        world.put(number, &value(number, 4, length));
        world.maintain();
        number += 1;
    }
    number
}

/// Regression: storing or deleting a key from before a flush, until the index was empty, took one
/// item more from the count, which stayed too low for good.
#[test]
fn an_item_forgotten_after_a_flush_was_counted_by_it() {
    let world = World::new(PAGES);
    (0..200).for_each(|number| world.put(number, b"value"));
    let places: Vec<_> =
        (0..10).map(|number| place(&world, number).expect("it is there")).collect();
    world.flash.flush();
    (0..10).zip(places).for_each(|(number, place)| world.flash.forget(place, hash(number)));
    world.index.state().clear();
    world.flash.note_emptied();
    (0..10).for_each(|number| world.put(number, b"another"));
    assert_eq!(world.flash.stats().items, 10);
}

#[test]
fn an_item_is_found_staged_in_a_buffer_and_on_the_device() {
    let world = World::new(PAGES);
    world.put(0, b"value");
    let staged = place(&world, 0).expect("it is there");
    assert!(staged.is_staged());
    assert_eq!(get(&world, 0), Some(b"value".to_vec()));
    for number in 1.. {
        world.put(number, &value(number, number, 300));
        if !place(&world, 0).expect("it is there").is_staged() {
            break;
        }
    }
    let sealed = place(&world, 0).expect("it is there");
    assert!(matches!(look(&world, 0, sealed).0, Look::Found(_)), "in a buffer");
    assert_eq!(look(&world, 0, staged).0, Look::Absent);
    for number in 1000.. {
        world.put(number, &value(number, number, 3000));
        world.maintain();
        if world.flash.stats().segments_written == 1 {
            break;
        }
    }
    let mut reader = Reader::new();
    assert!(matches!(world.flash.look(sealed, &key(0), &mut reader), Look::Wait(_)));
    assert_eq!(get(&world, 0), Some(b"value".to_vec()));
    assert_eq!(look(&world, 1, sealed).1, value(1, 1, 300), "the neighbour in the unit");
    assert_eq!(look(&world, 7_000, sealed).0, Look::Absent, "no key of this unit");
    assert_eq!(look(&world, 0, Place(u64::MAX >> 26)).0, Look::Absent, "no place");
}

#[test]
fn an_item_of_many_pages_is_read_in_two_steps_and_a_larger_one_refused() {
    let world = World::new(PAGES);
    let record_bytes = 16 + 32 + 3 + 2 + key(0).len();
    let edge = (64 << 10) - record_bytes;
    let large = value(0, 4, edge);
    assert_eq!(large.len(), edge);
    world.put(0, &large);
    world.set(1, value(1, 4, edge + 1));
    assert_eq!(world.demote(1), Err(Refused::TooLarge));
    world.maintain();
    world.put(2, b"next");
    world.maintain();
    world.put(3, &value(3, 4, edge - 4));
    world.maintain();
    assert_eq!(place(&world, 0).expect("it is there").span(), 7);
    assert_eq!(get(&world, 0), Some(large));
    let world = world.reopened().recovered();
    assert_eq!(get(&world, 2), Some(b"next".to_vec()));
    assert_eq!(get(&world, 3), Some(value(3, 4, edge - 4)));
}

#[test]
fn a_device_of_another_version_or_shape_is_refused_and_left_as_it_is() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    let device = Arc::clone(&world.device);
    drop(world);
    let open = |settings: &Settings| {
        let before = device.bytes();
        let opened = Flash::open(Arc::clone(&device) as Arc<dyn Device>, settings);
        assert_eq!(device.bytes(), before);
        opened.err().expect("it is refused")
    };
    let segment_bytes = 128 << 10;
    let refused = open(&Settings { segment_bytes, ..settings() });
    assert!(matches!(refused, OpenError::OtherShape { segment_bytes: 65536, .. }), "{refused}");
    device.change(|bytes| bytes[8] = VERSION as u8 + 1);
    assert!(matches!(open(&settings()), OpenError::OtherVersion(found) if found == VERSION + 1));
    device.change(|bytes| bytes[0] = b'x');
    assert!(matches!(open(&settings()), OpenError::Foreign));
    let format = Flash::format(Arc::clone(&device) as Arc<dyn Device>, &settings());
    assert_eq!(format.expect("it works").stats().segments_found, 0);
    let small = Flash::open(Arc::new(MemoryDevice::new(100)), &settings()).err();
    assert!(small.is_some_and(|it| it.to_string().contains("too small")));
}

/// Regression: that kept the server from starting, each time, until the file was removed by hand.
#[test]
fn a_first_page_with_a_flipped_bit_costs_the_content_and_no_start() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    assert!(world.flush_prefix(b"key-1"));
    let mut world = world.reopened();
    assert!(world.flash.doubt().is_none() && world.flash.stats().segments_found > 0);
    world.flash.close(&world.index).expect("the device works");
    let sound = world.device.bytes();
    for bit in 12 * 8..SUPERBLOCK_BYTES * 8 {
        world.device.change(|bytes| {
            bytes.copy_from_slice(&sound);
            bytes[bit / 8] ^= 1 << (bit % 8);
        });
        world = world.killed().recovered();
        assert_eq!(world.flash.doubt(), Some(Doubt::SuperblockDamaged), "bit {bit}");
        assert_eq!((world.flash.stats().recovered, world.flash.prefixes_flushed()), (0, 0));
        assert!((0..count).all(|number| get(&world, number).is_none()));
    }
    // It serves, and the items that it has stored are found again.
    let count = fill_a_segment(&world, 500);
    let world = world.reopened().recovered();
    assert_eq!((world.flash.doubt(), world.flash.stats().recovered), (None, count));
}

/// Regression: a device that was there and held nothing was opened without a word of it.
#[test]
fn a_tier_that_begins_empty_knows_why() {
    let world = World::new(PAGES);
    world.device.change(|bytes| bytes.fill(0));
    let world = world.killed();
    assert_eq!(world.flash.empty(), Some(Empty::Blank));
    let world = world.killed();
    assert_eq!(world.flash.empty(), Some(Empty::NoItems));
    fill_a_segment(&world, 500);
    let world = world.reopened();
    assert_eq!(world.flash.empty(), None);
    world.flush();
    let world = world.reopened();
    assert_eq!(world.flash.empty(), Some(Empty::NoItems));
    let device = Arc::clone(&world.device) as Arc<dyn Device>;
    let formatted = Flash::format(device, &settings()).expect("the device works");
    assert_eq!(formatted.empty(), Some(Empty::New));
    world.device.change(|bytes| bytes[100] ^= 1);
    let world = world.killed();
    assert_eq!(world.flash.empty(), Some(Empty::Doubted(Doubt::SuperblockDamaged)));
}

/// A process that begins anew may be killed at each of its writes. The next one begins anew as
/// well, or finds the new beginning.
#[test]
fn a_start_on_a_damaged_first_page_may_be_cut_off_anywhere() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    assert!(world.flush_prefix(b"key-1"));
    let (mut world, mut finished) = (world.reopened(), 0);
    world.device.change(|bytes| bytes[SUPERBLOCK_BYTES - 9] ^= 1);
    let damaged = world.device.bytes();
    for writes in 0..4 {
        world.device.change(|bytes| bytes.copy_from_slice(&damaged));
        world.device.die_after(writes);
        let cut_off = Flash::open(Arc::clone(&world.device) as Arc<dyn Device>, &settings());
        drop(cut_off);
        world = world.killed().recovered();
        let doubt = world.flash.doubt();
        assert!(doubt.is_none_or(|doubt| doubt == Doubt::SuperblockDamaged), "{doubt:?}");
        finished += u32::from(doubt.is_none());
        assert_eq!((world.flash.stats().recovered, world.flash.prefixes_flushed()), (0, 0));
    }
    assert_eq!(finished, 1, "the superblock is the last of three");
}

/// Regression: sequences of an unknown life were given out again: bytes that a drive had kept,
/// though it had said they were overwritten, were sound there.
#[test]
fn a_new_beginning_does_not_use_earlier_sequences() {
    let next = |world: &World| world.flash.next_sequence.load(Ordering::Relaxed);
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    world.flush();
    let before = next(&world);
    // A start that stores nothing leaves an empty table of segments.
    let world = world.killed();
    world.device.change(|bytes| bytes[100] ^= 1);
    let world = world.killed();
    assert_eq!(world.flash.doubt(), Some(Doubt::SuperblockDamaged));
    assert!(next(&world) > before && next(&world) < SEQUENCE_MAX / 4);
}

/// Regression: other formats on a device need not begin with its first byte: the superblock of an
/// array's member lies at 4 KiB, a pool's label at 16 KiB, and a file system's superblock at 64
/// KiB. All of that was formatted over.
#[test]
fn a_device_blank_only_at_its_beginning_is_refused_and_unchanged() {
    const MIB: usize = 1 << 20;
    for at in [4 << 10, 16 << 10, 64 << 10, MIB - 1] {
        let device = Arc::new(MemoryDevice::new(PAGES));
        device.change(|bytes| bytes[at] = b'x');
        let before = device.bytes();
        let opened = Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings());
        assert!(matches!(opened.err(), Some(OpenError::Foreign)), "{at}");
        assert_eq!(device.bytes(), before);
    }
    let device = Arc::new(MemoryDevice::new(PAGES));
    device.change(|bytes| bytes[MIB] = b'x');
    assert!(Flash::open(device, &settings()).is_ok(), "old bytes of what was taken away");
}

/// An administrator who starts with a device of long ago can be told so.
#[test]
fn a_device_whose_content_is_believed_says_when_it_was_last_in_use() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    assert_eq!(world.flash.last_used(), None, "it was formatted");
    world.flash.keep_reached(Reached { now: 500, number: 1 }, true);
    let world = world.killed_at(900);
    assert_eq!(world.flash.last_used(), Some(500));
    let world = world.killed_at(950).recovered();
    assert_eq!(world.flash.last_used(), Some(900));
    world.flush();
    assert_eq!(world.killed_at(990).flash.last_used(), None, "nothing is left");
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    assert_eq!(world.killed_hashing(7).flash.last_used(), None);
}

#[test]
fn every_damaged_byte_of_a_segment_is_a_miss_or_changes_nothing() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 2000);
    let segment = world.flash.geometry.page_of(0) as usize * 4096;
    for at in (segment..segment + (64 << 10)).step_by(61) {
        world.device.change(|bytes| bytes[at] ^= 0x21);
        let mut damaged = 0;
        for number in 0..count {
            let Some(place) = place(&world, number) else { continue };
            match look(&world, number, place) {
                (Look::Found(_), found) => assert_eq!(found, value(number, number * 4, 2000)),
                _ => damaged += 1,
            }
        }
        assert!(damaged <= 20, "{at}: {damaged} items are one unit's");
        world.device.change(|bytes| bytes[at] ^= 0x21);
    }
    assert!(world.flash.stats().damaged > 500);
    // The end of a segment is its item table: without it nothing is recovered.
    world.device.change(|bytes| bytes[segment + (64 << 10) - 20] ^= 1);
    let world = world.killed().recovered();
    assert_eq!((world.flash.stats().recovered, world.flash.stats().damaged), (0, 1));
}

#[test]
fn a_segment_whose_journal_ran_over_is_not_believed_after_a_kill() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 1);
    assert!(count > 1000, "{count} items in the segment");
    let entries_max = 510;
    (0..entries_max).for_each(|number| world.delete(number));
    assert_eq!((world.flash.stats().journalled, world.flash.stats().distrusted), (510, 0));
    let world = world.killed().recovered();
    let recovered = world.flash.stats().recovered;
    assert!(recovered > 400 && world.index.rests() > recovered / 500, "{recovered} recovered");
    assert_eq!(get(&world, 509), None);
    world.delete(510);
    assert_eq!((world.flash.stats().journalled, world.flash.stats().distrusted), (0, 1));
    assert!(get(&world, 511).is_some(), "it is used as before");
    world.delete(511);
    assert_eq!(world.flash.stats().distrusted, 1);
    let world = world.killed().recovered();
    assert_eq!((world.flash.stats().recovered, world.flash.stats().distrusted), (0, 1));
    assert_eq!(world.flash.stats().segments_free, world.flash.stats().segments);
}

#[test]
fn collection_keeps_segments_free() {
    let world = World::new(PAGES);
    let low = world.flash.watermarks.low;
    let mut number = 0;
    while world.flash.stats().collected < 3 * world.flash.stats().segments {
        world.put(number, &value(number, number, 300));
        world.maintain();
        assert!(world.flash.stats().segments_free as usize >= low - 1);
        number += 1;
    }
    assert!(get(&world, 20).is_none() && get(&world, number - 1).is_some());
    let stats = world.flash.stats();
    assert!(stats.dropped > 1000 && stats.evicted == 0, "{stats:?}");
    assert_eq!(stats.items, world.index.state().len() as u64);
    assert_eq!((stats.restaged, stats.bytes_moved, stats.hot.segments), (0, 0, 0));
    let rests = world.index.rests();
    assert!(rests > 4 * stats.collected, "{rests} rests in {} segments", stats.collected);
}

#[test]
fn collection_goes_by_the_callers_watermarks() {
    let watermarks = Some(Watermarks { low: 3, high: 6 });
    let world = World::with(PAGES, Settings { watermarks, ..settings() });
    let (mut number, mut seen) = (0, Vec::new());
    while world.flash.stats().collected < 12 {
        world.put(number, &value(number, number, 300));
        let before = world.flash.stats();
        world.maintain();
        let after = world.flash.stats();
        if after.collected > before.collected {
            seen.push((before.segments_free, after.segments_free));
        }
        number += 1;
    }
    assert_eq!(seen, [(2, 6); 3]);
}

#[test]
fn an_expired_item_is_not_staged_again_though_it_was_read() {
    let mut world = World::new(PAGES);
    let hash = hash(EXPIRING);
    let fields = Fields { expiry: world.now + 10, ..Fields::default() };
    let record = Record { key: &key(EXPIRING), value: b"short", fields };
    let lead = |place: Place| {
        world.index.state().lead(hash, place.with_accesses(3));
        true
    };
    assert!(world.flash.stage_with(hash, &record, &world.index, lead).is_ok());
    world.now += 10;
    let mut number = 0;
    while world.flash.stats().collected < 4 {
        world.put(number, &value(number, number, 300));
        world.maintain();
        number += 1;
    }
    assert_eq!((place(&world, EXPIRING), world.flash.stats().restaged), (None, 0));
}

/// It is unknown whether such an item has expired. It is not found, and collection does not take it
/// along; an item without expiry is as it was.
#[test]
fn an_item_with_an_expiry_has_expired_for_a_clock_that_was_put_back() {
    for (clock, knows_time) in [(5000, true), (1000, true), (500, false)] {
        let mut world = World::new(PAGES);
        let hash = hash(EXPIRING);
        let fields = Fields { expiry: 100_000, ..Fields::default() };
        let record = Record { key: &key(EXPIRING), value: b"short", fields };
        let lead = |place: Place| {
            world.index.state().lead(hash, place);
            true
        };
        assert!(world.flash.stage_with(hash, &record, &world.index, lead).is_ok());
        let count = fill_a_segment(&world, 500);
        world.flash.keep_reached(Reached { now: 1000, number: 7 }, true);
        world = world.killed_at(clock).recovered();
        assert_eq!(world.flash.reached(), Reached { now: clock, number: 7 });
        let found = place(&world, EXPIRING).expect("it was recovered").with_accesses(1);
        assert_eq!(matches!(look(&world, EXPIRING, found).0, Look::Found(_)), knows_time);
        assert!((0..count / 2).all(|number| get(&world, number).is_some()));
        // The next process has a clock that is right again, and does not know more.
        world = world.killed_at(5000).recovered();
        assert_eq!(matches!(look(&world, EXPIRING, found).0, Look::Found(_)), knows_time);
        world.index.state().lead(hash, found);
        let mut number = count;
        while world.flash.stats().collected == 0 {
            world.put(number, &value(number, number * 4, 500));
            world.maintain();
            number += 1;
        }
        assert_eq!(place(&world, EXPIRING).is_some(), knows_time, "{clock}");
    }
}

/// Regression: of items read equally often, collection moves those that are only on flash. It asked
/// first and dropped later, and an item that had left memory in between was lost.
#[test]
fn a_read_item_in_memory_too_is_dropped_unless_it_leaves_just_then() {
    for leaves in [false, true] {
        drops_what_is_in_memory_as_well(leaves);
    }
}

fn drops_what_is_in_memory_as_well(leaves: bool) {
    const READ: u64 = 20;
    let world = World::new(PAGES);
    world.index.leaves.store(leaves, Ordering::Relaxed);
    for number in 0..READ {
        world.put(number, &value(number, number, 300));
        let place = place(&world, number).expect("it is there").with_accesses(1);
        let mut state = world.index.state();
        state.lead(hash(number), place);
        if number % 2 == 0 {
            state.spare.insert(hash(number));
        }
    }
    let mut number = READ;
    while world.flash.stats().restaged == 0 {
        world.put(number, &value(number, number, 300));
        world.maintain();
        number += 1;
    }
    for number in 0..READ {
        let is_dropped = number % 2 == 0 && !leaves;
        assert_eq!(place(&world, number).is_none(), is_dropped, "{number}, {leaves}");
    }
    assert_eq!(world.flash.stats().restaged, if leaves { READ } else { READ / 2 });
}

#[test]
fn when_hardly_anything_is_free_nothing_is_staged_again() {
    let world = World::new(PAGES);
    let mut number = 0;
    let refused = loop {
        world.set(number, value(number, number * 4, 1000));
        match world.demote(number) {
            Ok(_) => {}
            Err(refused) => break refused,
        }
        if let Some(place) = place(&world, number) {
            world.index.state().lead(hash(number), place.with_accesses(1));
        }
        // Writes without collecting.
        world.flash.write_waiting(&world.index);
        number += 1;
    };
    assert_eq!((refused, world.flash.stats().segments_free), (Refused::Busy, 0));
    world.flash.maintain(&world.index, world.now);
    let stats = world.flash.stats();
    assert_eq!((stats.collected, stats.restaged), (1, 0));
    world.maintain();
    assert!(world.flash.stats().restaged > 0);
    assert_eq!(world.demote(number), Ok(true));
}

#[test]
fn only_a_clean_close_outlives_the_boot() {
    let later = Settings { boot_id: [2; 16], hash_seed: [8; 16], ..settings() };
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    world.flash.close(&world.index).expect("the device works");
    assert_eq!(world.flash.stage(1, &record(), &world.index), Err(Refused::Closed));
    let device = Arc::clone(&world.device) as Arc<dyn Device>;
    let flash = Flash::open(Arc::clone(&device), &later).expect("it was closed");
    assert_eq!(flash.hash_seed(), [7; 16], "that of the device");
    let index = FakeIndex::default();
    while flash.recover(&index, 0) {}
    assert_eq!((flash.stats().recovered, flash.doubt()), (count, None));
    drop(flash);
    let flash = Flash::open(Arc::clone(&device), &settings()).expect("it is sound");
    assert_eq!(flash.doubt(), Some(Doubt::CutOff));
    assert_eq!(flash.stats().segments_found, 0);
    while flash.recover(&FakeIndex::default(), 0) {}
    assert_eq!((flash.stats().recovered, flash.stats().segments_free), (0, flash.stats().segments));
}

/// Regression: a version that hashed keys by another function neither found the earlier items nor
/// noted their deaths; the earlier version, started afterwards, found them, though they had been
/// replaced.
#[test]
fn items_stored_by_another_hash_function_are_void_and_stay_so() {
    for is_closed in [true, false] {
        let world = World::new(PAGES);
        fill_a_segment(&world, 500);
        if is_closed {
            world.flash.close(&world.index).expect("the device works");
        }
        let world = world.killed_hashing(7).recovered();
        assert_eq!((world.flash.stats().recovered, world.flash.hash_seed()), (0, [7; 16]));
        assert_eq!(world.flash.doubt(), Some(Doubt::OtherHash));
        // It can be used, and the same function finds its items again.
        fill_a_segment(&world, 400);
        let world = world.killed_hashing(7).recovered();
        assert_eq!(get(&world, 0), Some(value(0, 0, 400)));
        assert_eq!(world.flash.doubt(), None);
        let world = world.killed_hashing(0).recovered();
        assert_eq!(world.flash.stats().recovered, 0, "after it nothing of before is back");
    }
}

/// Regression: an item read from a buffer, or from the open unit, counted as the one its place
/// stood for when it was to be stored elsewhere, however much later.
#[test]
fn a_hit_in_memory_is_no_later_item_of_the_key_at_the_same_place() {
    let world = World::new(PAGES);
    let mut reader = Reader::new();
    let mut life_of = |number| {
        let place = place(&world, number).expect("it is there");
        assert!(matches!(world.flash.look(place, &key(number), &mut reader), Look::Found(_)));
        (place, reader.life().expect("it is a hit"))
    };
    world.put(0, b"before");
    let (before, life) = life_of(0);
    world.put(1, b"another");
    assert!(before.is_staged() && world.flash.is_alive(life));
    world.delete(0);
    // When the unit has long been sealed, the first number that has the place again.
    {
        let mut writer = lock(&world.flash.writer);
        let unit = &mut writer.streams[0].unit;
        unit.clear();
        unit.go_on_with(world.flash.geometry.staged_numbers());
    }
    world.put(0, b"after");
    let (after, later) = life_of(0);
    assert!(after.is_same(before));
    assert!(!world.flash.is_alive(life) && world.flash.is_alive(later));
    // In a buffer, which other items fill after a flush.
    let is_buffered = |number| {
        let spot = place(&world, number).and_then(|place| world.flash.geometry.locate(place));
        spot.is_some_and(|spot| {
            let state = world.flash.segments[spot.segment as usize].state();
            matches!(state, State::Buffered(_))
        })
    };
    let put = |number| world.put(number, &value(number, number * 4, 500));
    (2..50).for_each(put);
    assert!(is_buffered(2));
    let (_, life) = life_of(2);
    world.maintain();
    assert!(world.flash.is_alive(life));
    world.flush();
    assert!(!world.flash.is_alive(life));
    (2..4000).for_each(|number| {
        put(number);
        world.maintain();
    });
    assert!(world.flash.stats().opened > world.flash.stats().segments);
    assert!(!world.flash.is_alive(life));
}

fn record() -> Record<'static> {
    Record { key: b"key", value: b"value", fields: Fields::default() }
}

#[test]
fn nothing_from_before_a_flush_is_found_not_even_by_a_read_under_way() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    let mut reader = Reader::new();
    let first = place(&world, 0).expect("it is there");
    let Look::Wait(ticket) = world.flash.look(first, &key(0), &mut reader) else {
        panic!("it is on the device")
    };
    let mut pages = Pages::zeroed(ticket.pages);
    world.device.read(ticket.page, pages.as_pages_mut()).expect("within the device");
    assert!(world.flash.is_current(&ticket));
    let places: Vec<_> = (0..count).filter_map(|number| place(&world, number)).collect();
    world.flush();
    assert!(!world.flash.is_current(&ticket));
    assert_eq!(world.flash.finish(&ticket, &pages, &key(0), &mut reader), Look::Absent);
    for (number, place) in (0..).zip(places) {
        assert_eq!(look(&world, number, place).0, Look::Absent);
        // A late note of an item that is void.
        world.flash.forget(place, hash(number));
    }
    assert_eq!(world.flash.stats().journalled, 0);
    world.put(5, b"new");
    assert_eq!(get(&world, 5), Some(b"new".to_vec()));
    let world = world.killed().recovered();
    assert_eq!(world.flash.stats().recovered, 0);
}

/// Regression: opened segments were taken to be those written now and those that were collected, so
/// that their number fell with a flush, and rose with a start.
#[test]
fn opened_segments_count_on_through_a_flush_and_not_again_after_a_start() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    let opened = world.flash.stats().opened;
    assert!(opened > 0);
    world.flush();
    assert_eq!(world.flash.stats().opened, opened);
    let mut number = 1000;
    while world.flash.stats().segments_written == 0 {
        world.put(number, &value(number, number, 500));
        world.maintain();
        number += 1;
    }
    assert!(world.flash.stats().opened > opened);
    let world = world.killed().recovered();
    let stats = world.flash.stats();
    assert!(stats.opened == 0 && stats.segments_written > 0, "{stats:?}");
}

#[test]
fn a_read_that_began_before_its_segment_was_used_again_finds_nothing() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    let mut reader = Reader::new();
    let first = place(&world, 0).expect("it is there");
    let Look::Wait(ticket) = world.flash.look(first, &key(0), &mut reader) else {
        panic!("it is on the device")
    };
    let mut pages = Pages::zeroed(ticket.pages);
    world.device.read(ticket.page, pages.as_pages_mut()).expect("within the device");
    let mut number = 10_000;
    while place(&world, 0).is_some() || world.flash.is_current(&ticket) {
        world.put(number, &value(number, number, 1000));
        world.maintain();
        number += 1;
    }
    assert_eq!(world.flash.finish(&ticket, &pages, &key(0), &mut reader), Look::Absent);
}

#[test]
fn an_item_whose_place_the_index_was_never_led_to_is_dropped() {
    let world = World::new(PAGES);
    let staged = world.flash.stage(hash(0), &record(), &world.index).expect("there is room");
    assert!(matches!(world.flash.look(staged, b"key", &mut Reader::new()), Look::Found(_)));
    fill_a_segment(&world, 500);
    assert_eq!(world.flash.look(staged, b"key", &mut Reader::new()), Look::Absent);
    let refused = world.flash.stage_with(hash(1), &record(), &world.index, |_| false);
    assert_eq!(refused, Ok(None));
}

#[test]
fn without_maintenance_all_buffers_fill_and_then_nothing_is_taken() {
    let world = World::new(PAGES);
    let mut number = 0;
    loop {
        world.set(number, value(number, number * 4, 1000));
        match world.demote(number) {
            Ok(_) => number += 1,
            Err(refused) => break assert_eq!(refused, Refused::Busy),
        }
    }
    assert!((150..195).contains(&number), "{number}");
    (0..number).for_each(|number| assert!(get(&world, number).is_some()));
    assert!(world.flash.memory_bytes() > 4 * (64 << 10));
    world.maintain();
    assert_eq!(world.demote(number), Ok(true));
    (0..=number).for_each(|number| assert!(get(&world, number).is_some()));
}
