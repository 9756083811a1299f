//! Dictionaries: they are trained, outlast the process, and nothing is ever decoded with another
//! one.

use ::io::device::PAGE_BYTES;
use stdx::sync::lock;

use super::world::phrases;
use super::{MemoryDevice, World, hash, settings};
use crate::{Reader, Settings};

/// The slot of a dictionary has 8 pages.
const PAGES: usize = 2048;

fn text(kind: u64, number: u64) -> Vec<u8> {
    phrases(kind, number, 250)
}

/// Puts `count` items of a kind, from a number on.
fn put(world: &World, kind: u64, first: u64, count: u64) {
    for number in first..first + count {
        world.put(number, &text(kind, number));
        world.maintain();
    }
}

/// The number of these items that are found; each of them has its value.
fn found(world: &World, kind: u64, first: u64, count: u64) -> u64 {
    let mut reader = Reader::new();
    let mut is_found = |number: &u64| {
        let found = world.get(*number, &mut reader);
        assert!(found.is_none() || found == Some(text(kind, *number)), "{number}");
        found.is_some()
    };
    (first..first + count).filter(&mut is_found).count() as u64
}

fn stored_share(world: &World, work: impl FnOnce()) -> f64 {
    let before = world.flash.stats();
    work();
    let after = world.flash.stats();
    (after.stored_bytes - before.stored_bytes) as f64 / (after.raw_bytes - before.raw_bytes) as f64
}

#[test]
fn common_parts_of_rows_are_stored_once_and_survive_any_restart() {
    let world = World::new(PAGES);
    put(&world, 1, 0, 500);
    let without = stored_share(&world, || put(&world, 1, 500, 2000));
    put(&world, 1, 2500, 4000);
    let stats = world.flash.stats();
    assert_eq!((stats.dictionaries, stats.trained), (1, 1), "{stats:?}");
    let with = stored_share(&world, || put(&world, 1, 6500, 2000));
    assert!(with < 0.8 * without, "{with} and {without}");
    assert_eq!(found(&world, 1, 0, 8500), 8500);
    for restart in [World::reopened as fn(World) -> World, World::killed] {
        let world = restart(World::new(PAGES)).recovered();
        put(&world, 1, 0, 17_000);
        let on_device = (0..17_000).filter(|&number| {
            let place = world.index.state().place(hash(number));
            place.is_some_and(|place| world.flash.geometry.locate(place).is_some())
        });
        let on_device = on_device.count() as u64;
        let world = restart(world).recovered();
        // The segment that was open when the process was killed is lost.
        assert!(found(&world, 1, 0, 17_000) * 10 >= on_device * 9);
        let stats = world.flash.stats();
        assert_eq!((stats.dictionaries, stats.trained, stats.damaged), (1, 0, 0), "{stats:?}");
        let again = stored_share(&world, || put(&world, 1, 20_000, 2000));
        assert!(again < 0.8 * without, "what the device has is used: {again}");
    }
}

/// Regression: one flipped bit, even on the bus, made all segments void that named the dictionary.
#[test]
fn a_dictionary_that_is_misread_once_costs_nothing() {
    let world = World::new(PAGES);
    put(&world, 1, 0, 12_000);
    world.flash.close(&world.index).expect("it works");
    let segments = world.flash.stats().segments_written;
    world.device.misread_once(world.flash.dictionaries.page_of(1) * PAGE_BYTES as u64 + 2000);
    let stats = world.killed().recovered().flash.stats();
    assert_eq!((stats.segments_written, stats.dictionaries, stats.damaged), (segments, 1, 0));
}

/// Regression: a path that was gone for a moment, just when the dictionary was read, cost all
/// segments that name it, on the device too.
#[test]
fn a_dictionary_that_cannot_be_read_for_some_seconds_costs_nothing() {
    let world = World::new(PAGES);
    put(&world, 1, 0, 12_000);
    let page = world.flash.dictionaries.page_of(1);
    world.flash.close(&world.index).expect("it works");
    let (segments, held) = (world.flash.stats().segments_written, found(&world, 1, 0, 12_000));
    world.device.make_unreadable(page..page + 1);
    let mut world = world.killed();
    for _ in 0..7 {
        assert!(!world.flash.recover(&world.index, world.now), "it waits for another second");
        world.now += 1;
    }
    world.device.make_unreadable(0..0);
    let world = world.recovered();
    let stats = world.flash.stats();
    assert_eq!((stats.segments_written, stats.dictionaries, stats.damaged), (segments, 1, 0));
    assert_eq!(found(&world, 1, 0, 12_000), held);
    put(&world, 1, 20_000, 100);
    let writer = lock(&world.flash.writer);
    assert_eq!(writer.dictionary.as_ref().map(|known| known.number), Some(1), "it is in use again");
}

/// Regression: an unreadable slot kept the server from starting, each time.
#[test]
fn a_damaged_or_unreadable_dictionary_costs_the_segments_that_name_it() {
    let damage = |device: &MemoryDevice, page: u64| {
        device.change(|bytes| bytes[page as usize * PAGE_BYTES + 2000] ^= 1);
    };
    let refuse = |device: &MemoryDevice, page: u64| device.make_unreadable(page..page + 1);
    // Once at the start, and in each of eight seconds; then for all segments that name it.
    let harms = [(&damage as &dyn Fn(&MemoryDevice, u64), 0, 1), (&refuse, 1 + 8, 1)];
    for (harm, errors, damaged) in harms {
        let world = World::new(PAGES);
        put(&world, 1, 0, 12_000);
        assert_eq!(world.flash.stats().dictionaries, 1);
        let page = world.flash.dictionaries.page_of(1);
        world.flash.close(&world.index).expect("it works");
        harm(&world.device, page);
        let mut world = world.killed().recovered();
        for _ in 0..8 {
            world.now += 1;
            world = world.recovered();
        }
        assert!(!world.flash.is_recovering());
        let stats = world.flash.stats();
        assert_eq!((stats.dictionaries, stats.io_errors, stats.damaged), (0, errors, damaged));
        let left = found(&world, 1, 0, 12_000);
        assert!((100..6000).contains(&left), "those from before the dictionary: {left}");
        put(&world, 2, 20_000, 8000);
        assert_eq!(world.flash.stats().trained, 1, "its slot is used again");
        assert!(found(&world, 2, 20_000, 8000) > 7000);
    }
}

/// Regression: each training was for nothing, because its dictionary was always written to the same
/// slot.
#[test]
fn a_slot_that_cannot_be_written_leaves_the_next_one_to_a_dictionary() {
    let world = World::new(PAGES);
    let slots = [1, 3].map(|number| world.flash.dictionaries.page_of(number) * PAGE_BYTES as u64);
    world.device.make_unwritable(slots[0]..slots[1]);
    put(&world, 1, 0, 6500);
    let stats = world.flash.stats();
    assert_eq!((stats.dictionaries, stats.trained, stats.io_errors), (1, 1, 2), "{stats:?}");
    assert!(world.flash.dictionaries.get(3).is_some());
    let world = world.reopened().recovered();
    assert_eq!(found(&world, 1, 0, 6500), 6500);
}

#[test]
fn dictionaries_change_with_the_items_and_their_slots_are_reused() {
    let world = World::with(PAGES, Settings { dictionary_bytes: 12_000, ..settings() });
    let bound = world.flash.memory_bytes_max() - world.flash.memory_bytes();
    let dictionaries = || world.flash.dictionaries.memory_bytes();
    let (mut trained, mut peak) = (0, 0);
    for kind in 0..14 {
        let first = kind * 100_000;
        let mut count = 0;
        while world.flash.stats().trained == trained && count < 60_000 {
            put(&world, kind, first + count, 1000);
            count += 1000;
            peak = peak.max(dictionaries() + lock(&world.flash.writer).sampling.memory_bytes());
        }
        trained = world.flash.stats().trained;
        let newest = count.min(5000);
        assert!(found(&world, kind, first + count - newest, newest) * 10 > newest * 9);
        found(&world, kind, first, count);
    }
    let stats = world.flash.stats();
    assert!(stats.trained > 10 && stats.dictionaries <= 8 && stats.damaged == 0, "{stats:?}");
    assert!(peak <= bound, "{peak} bytes for dictionaries and samples, {bound} foretold");
}

#[test]
fn none_is_trained_where_none_is_wanted() {
    let world = World::with(PAGES, Settings { dictionary_bytes: 0, ..settings() });
    put(&world, 1, 0, 12_000);
    let stats = world.flash.stats();
    assert_eq!((stats.dictionaries, stats.trained), (0, 0));
}
