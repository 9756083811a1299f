//! A device of which one place refuses writes for good: never an older value, and the places that
//! work serve on.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::World;
use super::cases::get;
use super::world::value;

const PAGES: usize = 600;

/// Puts so many items from a number on.
fn put(world: &World, numbers: Range<u64>) {
    for number in numbers {
        world.put(number, &value(number, number * 4, 900));
        world.maintain();
    }
}

/// The bytes of a segment's journal.
fn journal(world: &World, segment: u32) -> Range<u64> {
    let at = world.flash.geometry.journal_at(segment);
    at..at + world.flash.geometry.journal_bytes() as u64
}

/// Which items the index leads to in a segment, of those below a number.
fn items_in(world: &World, segment: u32, below: u64) -> Vec<u64> {
    let is_there = |number: &u64| {
        let place = world.index.state().place(super::hash(*number));
        let spot = place.and_then(|place| world.flash.geometry.locate(place));
        spot.is_some_and(|spot| spot.segment == segment)
    };
    (0..below).filter(is_there).collect()
}

/// Regression: with each item of such a segment that died, all that had been stored until then was
/// made void again, and the open segments were written nearly empty.
#[test]
fn a_journal_that_cannot_be_written_voids_the_device_once() {
    let world = World::new(PAGES);
    put(&world, 0..500);
    let dying = items_in(&world, 1, 500);
    assert!(dying.len() > 40, "{}", dying.len());
    world.device.make_unwritable(journal(&world, 1));
    let superblocks = || world.device.superblocks.load(Ordering::Relaxed);
    let (told, opened) = (superblocks(), world.flash.stats().opened);
    for (number, dying) in (1000..).zip(&dying) {
        world.delete(*dying);
        world.put(number, b"what comes next");
        world.maintain();
    }
    assert_eq!(superblocks() - told, 1);
    assert!(world.flash.stats().opened - opened <= 2, "{}", world.flash.stats().opened - opened);
    let came = 1000..1000 + dying.len() as u64;
    let world = world.reopened().recovered();
    // The first of them was put behind the note, into the unit that was open.
    assert!(came.clone().all(|number| get(&world, number).is_some()));
    assert!(dying.iter().all(|&number| get(&world, number).is_none()));
    // The unit that was open has some of the last ones.
    assert!((0..450).all(|number| get(&world, number).is_none()));
}

/// Regression: each segment whose journal lies on a page that is bad had all made void for itself.
#[test]
fn journals_that_cannot_be_written_side_by_side_void_the_device_once() {
    let world = World::new(PAGES);
    put(&world, 0..500);
    world.device.make_unwritable(journal(&world, 0).start..journal(&world, 3).end);
    let told = world.device.superblocks.load(Ordering::Relaxed);
    (0..200).for_each(|number| world.delete(number));
    assert_eq!(world.device.superblocks.load(Ordering::Relaxed) - told, 1);
    let world = world.killed().recovered();
    assert!((0..500).all(|number| get(&world, number).is_none()));
}

/// Regression: each key whose bit could not be written had all made void again, thousands of them
/// for one page of the changes.
#[test]
fn changes_that_cannot_be_written_void_the_device_once() {
    let world = World::new(PAGES);
    put(&world, 0..500);
    let world = world.reopened();
    let at = world.flash.geometry.changes_at();
    let bytes = world.flash.geometry.changes_bytes() as u64;
    world.device.make_unwritable(at..at + bytes);
    let told = world.device.superblocks.load(Ordering::Relaxed);
    let errors = world.flash.stats().io_errors;
    (0..100).for_each(|number| world.delete(number));
    assert_eq!(world.device.superblocks.load(Ordering::Relaxed) - told, 1);
    assert_eq!(world.flash.stats().io_errors - errors, 1);
    let world = world.recovered();
    put(&world, 1000..1100);
    assert!((0..100).all(|number| get(&world, number).is_none()), "they changed");
    assert!((100..500).any(|number| get(&world, number).is_some()), "it is used as before");
    world.device.make_unwritable(0..0);
    let world = world.reopened().recovered();
    assert!((0..500).all(|number| get(&world, number).is_none()));
    assert!((1000..1100).all(|number| get(&world, number).is_some()));
}
