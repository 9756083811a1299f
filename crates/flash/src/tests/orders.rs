//! The rules of order that keep an older value from coming back, one by one.

use ::io::device::Device;

use super::areas::read;
use super::cases::{fill_a_segment, get, place};
use super::world::{key, value};
use super::{FakeIndex, MemoryDevice, World, hash, settings_immediate};
use crate::collect::Need;
use crate::geometry::{ENTRY_BYTES, Geometry};
use crate::{Area, IndexAccess, Inserted, Place, Record};

const PAGES: usize = 400;

/// An index in which something happens just before an item is led elsewhere.
struct Watched<'w, F: Fn(u64, Place)> {
    index: &'w FakeIndex,
    before_relocate: F,
}

impl<F: Fn(u64, Place)> IndexAccess for Watched<'_, F> {
    fn accesses(&self, hash: u64, place: Place) -> Option<u8> {
        self.index.accesses(hash, place)
    }

    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool {
        (self.before_relocate)(hash, from);
        self.index.relocate(hash, from, to)
    }

    fn remove(&self, hash: u64, place: Place) -> bool {
        self.index.remove(hash, place)
    }

    fn remove_where(&self, is_gone: &dyn Fn(Place) -> bool) -> u64 {
        self.index.remove_where(is_gone)
    }

    fn insert(&self, hash: u64, place: Place) -> Inserted {
        self.index.insert(hash, place)
    }
}

fn is_valid(device: &MemoryDevice, geometry: &Geometry, segment: u32) -> bool {
    let mut entry = [0; ENTRY_BYTES];
    device.read_note(geometry.entry_at(segment), &mut entry).expect("within the device");
    entry != [0; ENTRY_BYTES]
}

#[test]
fn a_segments_table_entry_is_the_first_to_go_and_the_last_to_come() {
    let world = World::new(PAGES);
    let geometry = world.flash.geometry;
    let take_log = || std::mem::take(&mut *world.device.log.lock().expect("no test has died"));
    let (entry, journal) = (geometry.entry_at(0), geometry.journal_at(0));
    let (stamp, first) = (journal + 4, journal + 8);
    let pages = geometry.page_of(0) * 4096;
    take_log();
    let count = fill_a_segment(&world, 500);
    let of_segment = |log: &[u64]| -> Vec<u64> {
        log.iter().copied().filter(|at| [entry, journal, stamp, pages].contains(at)).collect()
    };
    assert_eq!(of_segment(&take_log()), [entry, journal, pages, stamp, entry]);
    world.delete(0);
    assert_eq!(take_log(), [first], "the first entry of the journal, at once");
    let is_first = |number: &u64| {
        let place = place(&world, *number)?;
        Some(geometry.locate(place)?.segment == 0)
    };
    let kept = (1..count).filter(|number| is_first(number) == Some(true)).count();
    for number in count.. {
        world.put(number, &value(number, 0, 1500));
        world.flash.maintain(&world.index, world.now);
        if world.flash.stats().collected > 0 {
            break;
        }
    }
    assert_eq!(of_segment(&take_log()), [entry]);
    assert_eq!(world.flash.stats().dropped, kept as u64);
}

#[test]
fn a_segment_is_not_valid_any_more_when_its_first_item_is_staged_again() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    for number in 0..count {
        let Some(place) = place(&world, number) else { continue };
        world.index.state().lead(hash(number), place.with_accesses(1));
    }
    let before_relocate = |_, from| {
        if let Some(spot) = world.flash.geometry.locate(from) {
            assert!(!is_valid(&world.device, &world.flash.geometry, spot.segment));
        }
    };
    assert!(is_valid(&world.device, &world.flash.geometry, 0));
    let access = Watched { index: &world.index, before_relocate };
    assert!(world.flash.collect(&mut Default::default(), &access, 0, Need::Room));
    assert!(world.flash.stats().restaged > 20);
}

#[test]
fn a_promoted_item_is_dead_where_it_was_before_the_index_leads_elsewhere() {
    let world = World::with(PAGES, settings_immediate());
    fill_a_segment(&world, 500);
    let (from, journal_at) = (place(&world, 0), world.flash.geometry.journal_at(0));
    let (ticket, fields, value) = read(&world, 0);
    let before_relocate = |_, _| {
        let last = world.device.log.lock().expect("no test has died").last().copied();
        assert_eq!(last, Some(journal_at + 8), "the first entry of the journal");
    };
    let access = Watched { index: &world.index, before_relocate };
    let record = Record { key: &key(0), value: &value, fields };
    let from = from.expect("it is there");
    assert_eq!(world.flash.promote(hash(0), from, &ticket, &record, &access), Ok(true));
}

#[test]
fn an_item_that_dies_while_its_unit_is_sealed_is_not_found_after_a_kill() {
    let world = World::new(PAGES);
    let victim = hash(3);
    let before_relocate = |hash, from: Place| {
        if hash == victim && from.is_staged() {
            world.delete(3);
        }
    };
    for number in 0..5 {
        world.put(number, &value(number, 0, 100));
    }
    let access = Watched { index: &world.index, before_relocate };
    let mut writer = stdx::sync::lock(&world.flash.writer);
    world.flash.seal(&mut writer, Area::Cold, &access).expect("there is room");
    drop(writer);
    let world = world.reopened().recovered();
    assert_eq!((world.flash.stats().recovered, get(&world, 3)), (4, None));
}

#[test]
fn a_key_changed_before_recovery_reached_it_is_not_believed_after_a_kill() {
    let world = World::new(PAGES);
    let mut number = 0;
    while world.flash.stats().segments_written < 12 {
        world.put(number, &value(number, 0, 1500));
        world.maintain();
        number += 1;
    }
    let last = (0..number).rev().find(|&number| {
        let spot = place(&world, number).and_then(|place| world.flash.geometry.locate(place));
        spot.is_some_and(|spot| spot.segment == 11)
    });
    let last = last.expect("something lies in the last segment");
    let world = world.killed();
    assert!(world.flash.recover(&world.index, 0), "that was not all");
    assert_eq!(get(&world, 0), None);
    world.delete(0);
    let world = world.killed().recovered();
    assert_eq!(get(&world, 0), None);
    assert!(get(&world, last).is_some(), "what it has reached is believed");
    assert!(get(&world, 1).is_some(), "and what has not changed");
}

/// Regression: a segment that was found at the start may be freed before its turn in recovery. Its
/// table entry stayed until it was opened again, while the sequences behind it were settled: after
/// a kill in between, it was believed, with items that had been replaced since.
#[test]
fn a_segment_freed_before_its_turn_is_not_believed_after_another_kill() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 500);
    let world = world.killed();
    world.set(0, b"newer".to_vec());
    assert!(world.flash.collect(&mut Default::default(), &world.index, 0, Need::Room));
    let world = world.recovered().killed().recovered();
    assert_eq!((count > 0, get(&world, 0)), (true, None));
}

#[test]
fn a_key_that_changed_before_its_turn_in_recovery_stays_changed() {
    let world = World::new(PAGES);
    fill_a_segment(&world, 500);
    let world = world.killed();
    world.set(0, b"newer".to_vec());
    // Killed before its turn: the item in memory is gone, the one on the device is older.
    let again = world.killed().recovered();
    assert_eq!((get(&again, 0), get(&again, 2)), (None, Some(value(2, 8, 500))));
    let again = again.killed();
    again.delete(1);
    let again = again.recovered().killed().recovered();
    assert_eq!((get(&again, 1), get(&again, 2)), (None, Some(value(2, 8, 500))));
    assert_eq!(again.index.insert(hash(77_777), Place(0)), Inserted::There);
}
