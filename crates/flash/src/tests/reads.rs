//! A device with places that refuse to be read: they cost what is there, nothing stale is found,
//! and nothing is given up while no place can be read.

use std::ops::Range;
use std::sync::Arc;

use ::io::device::{Device, PAGE_BYTES};
use stdx::sync::lock;

use super::cases::{get, place};
use super::world::value;
use super::{World, settings};
use crate::geometry::ENTRY_BYTES;
use crate::refusal::TRIES_MAX;
use crate::{Flash, OpenError, Settings};

/// Some three hundred segments: their table has two pages.
const PAGES: usize = 5200;
/// Segments that the first page of the table is about.
const ON_FIRST: u32 = (PAGE_BYTES / ENTRY_BYTES) as u32;
const KEYS: u64 = 4200;
const NUMBERS: Range<u64> = 0..KEYS;

/// Values of this version, of which a segment has room for fifteen.
fn value_of(number: u64, version: u64) -> Vec<u8> {
    value(number, (version * KEYS + number) * 4, 4000)
}

/// A tier with segments on both pages of the table, and for each of the two a key that it holds.
fn filled() -> (World, [Vec<u64>; 2]) {
    let world = World::new(PAGES);
    for number in NUMBERS {
        world.put(number, &value_of(number, 0));
        world.maintain();
    }
    assert_eq!(world.flash.stats().collected, 0);
    let mut held = [Vec::new(), Vec::new()];
    for number in NUMBERS {
        let spot = place(&world, number).and_then(|place| world.flash.geometry.locate(place));
        let Some(spot) = spot.filter(|spot| {
            let writer = lock(&world.flash.writer);
            let written = |stream: &crate::writer::Stream| {
                stream.written.iter().any(|listed| listed.segment == spot.segment)
            };
            writer.streams.iter().any(written)
        }) else {
            continue;
        };
        held[usize::from(spot.segment >= ON_FIRST)].push(number);
    }
    assert!(held.iter().all(|numbers| numbers.len() > 150), "{:?}", held.map(|it| it.len()));
    (world, held)
}

/// The bytes of a page of the segment table.
fn page_of_table(page: usize) -> Range<usize> {
    (1 + page) * PAGE_BYTES..(2 + page) * PAGE_BYTES
}

/// The keys of these that are found, each with the value of version 0.
fn found(world: &World, numbers: &[u64]) -> usize {
    let values = numbers.iter().filter_map(|&number| {
        let found = get(world, number);
        found.map(|found| assert_eq!(found, value_of(number, 0), "key {number} is stale"))
    });
    values.count()
}

/// Regression: no start succeeded any more, and all on the device was lost with the page.
#[test]
fn an_unreadable_page_of_the_segment_table_costs_the_segments_on_it() {
    for lost in [0, 1] {
        let (world, held) = filled();
        world.device.make_unreadable(1 + lost as u64..2 + lost as u64);
        let world = world.killed().recovered();
        let segments = world.flash.stats().segments;
        let on_page = [u64::from(ON_FIRST), segments - u64::from(ON_FIRST)];
        assert_eq!((world.flash.segments_lost(), world.flash.doubt()), (on_page[lost], None));
        assert_eq!(found(&world, &held[lost]), 0);
        assert_eq!(found(&world, &held[1 - lost]), held[1 - lost].len());
        assert_eq!(world.flash.stats().io_errors, 1);
        // Half of what was lost is deleted, or stored again, and half is not asked for.
        for &number in &held[lost] {
            match number % 4 {
                0 => world.delete(number),
                1 => {
                    world.put(number, &value_of(number, 1));
                    world.delete(number);
                }
                _ => {}
            }
            world.maintain();
        }
        // The page can be read again, but not as it was.
        world.device.make_unreadable(0..0);
        let world = world.killed().recovered();
        assert_eq!((world.flash.segments_lost(), world.flash.doubt()), (0, None));
        assert_eq!(found(&world, &held[lost]), 0);
        assert!(found(&world, &held[1 - lost]) > held[1 - lost].len() / 2);
    }
}

/// A drive that has not taken the zeros says so once. Starts that were killed while they recovered
/// have left no trace of how high their sequences were but on the lost page.
#[test]
fn what_a_lost_page_says_is_void_if_the_drive_loses_the_zeros() {
    for (before, after) in [(2, 3), (3, 2)] {
        let world = World::new(PAGES);
        let mut number = 0;
        let mut put_until = |world: &World, segments: u64| {
            while world.flash.stats().segments_written < segments {
                world.put(number, &value_of(number, 0));
                world.maintain();
                number += 1;
            }
        };
        put_until(&world, u64::from(ON_FIRST));
        let world = world.killed_drawing(1);
        assert!(world.flash.recover(&world.index, world.now));
        let world = world.killed_drawing(before);
        assert!(world.flash.recover(&world.index, world.now));
        put_until(&world, world.flash.stats().segments_written + 10);
        let of_second = page_of_table(1);
        let written = world.device.bytes()[of_second.clone()].to_vec();
        assert!(written.iter().any(|&byte| byte != 0));
        let device = Arc::clone(&world.device);
        drop(world);
        device.make_unreadable(2..3);
        device.refuse_syncs(1);
        let hash_seed = [after; 16];
        let settings = Settings { hash_seed, ..settings() };
        let open = || Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings);
        assert!(matches!(open(), Err(OpenError::Io(_))));
        device.make_unreadable(0..0);
        device.change(|bytes| bytes[of_second].copy_from_slice(&written));
        let flash = open().expect("it works again");
        assert_eq!((flash.stats().segments_found, flash.segments_lost()), (0, 0), "{after}");
    }
}

/// As when its path is gone for a moment.
#[test]
fn a_device_that_reads_nothing_beside_its_first_page_is_refused_and_left_as_it_is() {
    let (world, held) = filled();
    let device = Arc::clone(&world.device);
    let before = device.bytes();
    for unreadable in [1..PAGES as u64, 2..PAGES as u64] {
        device.make_unreadable(unreadable);
        let opened = Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings());
        assert!(matches!(opened, Err(OpenError::Io(_))));
        assert!(device.bytes() == before);
    }
    device.make_unreadable(0..0);
    let world = world.killed().recovered();
    for held in held {
        assert_eq!(found(&world, &held), held.len());
    }
}

/// It might be read at a later start, and say what has died by then.
#[test]
fn a_page_of_the_segment_table_that_can_neither_be_read_nor_zeroed_refuses_the_start() {
    let (world, held) = filled();
    let device = Arc::clone(&world.device);
    let page = 2 * PAGE_BYTES as u64;
    device.make_unreadable(2..3);
    device.make_unwritable(page..page + PAGE_BYTES as u64);
    let opened = Flash::open(Arc::clone(&device) as Arc<dyn Device>, &settings());
    assert!(matches!(opened, Err(OpenError::Io(_))));
    device.make_unwritable(0..0);
    device.make_unreadable(0..0);
    let world = world.killed().recovered();
    for held in held {
        assert_eq!(found(&world, &held), held.len(), "nothing has died meanwhile");
    }
}

/// Regression: each segment whose turn it was lost all its items, and was void on the device too,
/// at the pace at which items were stored.
#[test]
fn a_device_that_does_not_read_for_a_moment_loses_nothing_to_collection() {
    let mut world = World::new(400);
    let geometry = world.flash.geometry;
    let segments = geometry.page_of(0)..400;
    let stored = |number: u64| value(number, number * 4, 900);
    let mut number = 0;
    let mut put = |world: &World, count: u64| {
        for _ in 0..count {
            world.set(number, stored(number));
            // While nothing is collected it may be refused.
            let _ = world.demote(number);
            world.maintain();
            number += 1;
        }
        number
    };
    while world.flash.stats().collected < 5 {
        put(&world, 1);
    }
    world.device.make_unreadable(segments);
    let lost = |world: &World| {
        let stats = world.flash.stats();
        (stats.collected, stats.dropped)
    };
    let before = lost(&world);
    for _ in 0..TRIES_MAX {
        put(&world, 200);
        world.now += 1;
    }
    assert_eq!(lost(&world), before);
    // Then one is given up, and one more each time that as many seconds have passed.
    let mut given_up = Vec::new();
    for second in 0..30 {
        let before = lost(&world).0;
        put(&world, 20);
        given_up.extend((before..lost(&world).0).map(|_| second));
        world.now += 1;
    }
    let waits: Vec<u32> = given_up.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() >= 2 && waits.iter().all(|&wait| wait == TRIES_MAX), "{given_up:?}");
    world.device.make_unreadable(0..0);
    let end = put(&world, 1000);
    assert!(world.flash.stats().collected > before.0 + 15, "{:?}", world.flash.stats());
    let numbers = 0..end;
    let left = numbers.filter_map(|number| Some((number, get(&world, number)?)));
    let left = left.inspect(|(number, found)| assert_eq!(*found, stored(*number)));
    assert!(left.count() > 300);
}

/// Regression: its table entry was zeroed first, so that a single refusal lost it.
#[test]
fn a_segment_that_is_refused_once_is_collected_as_any_other() {
    let world = World::new(400);
    let stored = |number: u64| value(number, number * 4, 900);
    let mut number = 0;
    while world.flash.stats().collected < 5 {
        world.put(number, &stored(number));
        world.maintain();
        number += 1;
    }
    let read = number - 1500..number;
    let held: Vec<u64> = read.filter(|number| get(&world, *number).is_some()).collect();
    world.device.refuse_reads(1);
    while world.flash.stats().io_errors == 0 {
        world.put(number, &stored(number));
        world.maintain();
        number += 1;
    }
    assert!(world.flash.stats().restaged > 0);
    assert!(held.iter().all(|&number| get(&world, number).is_some()));
}
