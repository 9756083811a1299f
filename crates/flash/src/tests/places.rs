//! A device with places that refuse writes for good: never an older value, and the places that work
//! go on serving.

use std::ops::Range;
use std::sync::atomic::Ordering;

use ::io::device::PAGE_BYTES;
use stdx::sync::lock;

use super::World;
use super::cases::get;
use super::world::value;
use crate::geometry::ENTRY_BYTES;
use crate::stage::FAILURES_MAX;
use crate::{Doubt, Refused};

const PAGES: usize = 600;

/// Puts items of these numbers.
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

/// The bytes of the pages of these segments.
fn pages(world: &World, segments: Range<u32>) -> Range<u64> {
    let geometry = world.flash.geometry;
    let [start, end] = [segments.start, segments.end].map(|segment| geometry.page_of(segment));
    start * PAGE_BYTES as u64..end * PAGE_BYTES as u64
}

/// Puts an item, which may be refused, and lets the background take a turn.
fn try_to_put(world: &World, number: u64) -> Result<bool, Refused> {
    world.set(number, value(number, number * 4, 900));
    let outcome = world.demote(number);
    world.maintain();
    outcome
}

/// Puts items for which many segments have to be collected; none is refused.
fn collect_many(world: &mut World) {
    let before = world.flash.stats();
    let mut refused = 0;
    for number in 1500..9000 {
        world.now += u32::from(number % 10 == 0);
        refused += u64::from(try_to_put(world, number).is_err());
    }
    let stats = world.flash.stats();
    assert!(stats.collected - before.collected > 60 && refused == 0, "{refused}: {stats:?}");
}

/// The items below a number to which the index leads in a segment.
fn items_in(world: &World, segment: u32, below: u64) -> Vec<u64> {
    let is_there = |number: &u64| {
        let place = world.index.state().place(super::hash(*number));
        let spot = place.and_then(|place| world.flash.geometry.locate(place));
        spot.is_some_and(|spot| spot.segment == segment)
    };
    (0..below).filter(is_there).collect()
}

/// Regression: with each item of such a segment that died, everything stored until then was made
/// void again, and the open segments were written nearly empty.
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

/// Regression: each segment whose journal lies on a bad page made everything void for itself.
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

/// Regression: each key whose bit could not be written made everything void again, thousands of
/// them for one page of the changes.
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

/// Regression: the first free segment was tried again and again, and four bad ones in a row stopped
/// the tier for good.
#[test]
fn segments_side_by_side_that_cannot_be_written_cost_what_they_were_given() {
    let mut world = World::new(PAGES);
    let segments = world.flash.geometry.segments;
    assert!(segments > 25, "{segments}");
    world.device.make_unwritable(pages(&world, 5..15));
    let mut refused = 0;
    for number in 0..4000 {
        // Ten turns a second.
        world.now += u32::from(number % 10 == 0);
        refused += u64::from(try_to_put(&world, number).is_err());
    }
    let stats = world.flash.stats();
    assert!(refused < 200, "{refused}");
    // A segment takes some 66 of these; those that were tried again were given nothing.
    assert!(stats.dropped - stats.evicted < 4000 && stats.collected > 20, "{stats:?}");
    let lost = 10 * 70;
    let written = stats.bytes_written / stats.segment_bytes;
    assert!(written * 66 + refused + lost > 3800, "{written} of {stats:?}");
    let aside = || {
        let writer = lock(&world.flash.writer);
        writer.bad.iter().chain(&writer.suspects).copied().collect::<Vec<u32>>()
    };
    assert!((5..15).all(|segment| aside().contains(&segment)), "{:?}", aside());
    assert_eq!(aside().len(), 10);
    // A place that works again is used again.
    world.device.make_unwritable(0..0);
    (4000..12_000).for_each(|number| assert_eq!(try_to_put(&world, number), Ok(true)));
    assert_eq!(aside(), []);
}

/// Little is free where a tier is full: refused segments may not count as free, or nothing would be
/// collected.
#[test]
fn a_full_tier_goes_on_without_the_segments_that_cannot_be_written() {
    let mut world = World::new(PAGES);
    put(&world, 0..4000);
    world.device.make_unwritable(pages(&world, 0..12));
    let mut latest = 0;
    for number in 4000..12_000 {
        world.now += u32::from(number % 10 == 0);
        latest += u64::from(try_to_put(&world, number).is_ok() && number >= 10_000);
    }
    assert_eq!(latest, 2000, "all bad ones are known by then");
    assert!((11_500..12_000).all(|number| get(&world, number).is_some()));
}

/// Regression: all free segments counted as bad when everything was refused for a while, so that
/// items would be collected for want of room, or thousands of segments written for nothing.
#[test]
fn a_device_that_refused_everything_has_its_free_segments_back_at_once() {
    let mut world = World::new(PAGES);
    put(&world, 0..300);
    let (free, used) = (world.flash.stats().segments_free, world.flash.stats().segments_used());
    world.device.refuses_pages.store(true, Ordering::Relaxed);
    for number in 1000..2000 {
        world.now += 1;
        let _ = try_to_put(&world, number);
    }
    assert_eq!(lock(&world.flash.writer).free_segments(), 0);
    // Regression: what was set aside counted as used, and the tier as full.
    assert_eq!(world.flash.stats().segments_used(), used);
    let written = |world: &World| world.device.log.lock().expect("no test has died").len();
    world.device.refuses_pages.store(false, Ordering::Relaxed);
    let before = written(&world);
    world.now += 1;
    world.maintain();
    let stats = world.flash.stats();
    let free_now = lock(&world.flash.writer).free_segments() as u64;
    assert_eq!((free_now, stats.segments_free, stats.collected), (free, free, 0));
    assert!(written(&world) - before < 40, "{}", written(&world) - before);
}

/// Regression: the segments that had just been set aside were tried behind all that are bad for
/// good, one a second, and nothing was taken until then.
#[test]
fn a_pause_of_a_device_with_bad_segments_ends_with_the_first_try() {
    let mut world = World::new(PAGES);
    world.device.make_unwritable(pages(&world, 5..15));
    for number in 0..1500 {
        world.now += u32::from(number % 10 == 0);
        let _ = try_to_put(&world, number);
    }
    assert_eq!(world.flash.stats().segments_refused, 10, "all bad ones are known");
    world.device.refuses_pages.store(true, Ordering::Relaxed);
    for number in 2000..3000 {
        world.now += 1;
        let _ = try_to_put(&world, number);
    }
    assert_eq!(try_to_put(&world, 3000), Err(Refused::Failing));
    world.device.refuses_pages.store(false, Ordering::Relaxed);
    world.now += 1;
    world.maintain();
    assert_eq!(try_to_put(&world, 3001), Ok(true));
}

/// Has the device refuse all pages for so many seconds. Returns those that then pass until an item
/// is taken again.
fn seconds_after_an_outage(world: &mut World, outage_s: u32, number: &mut u64) -> u32 {
    world.device.refuses_pages.store(true, Ordering::Relaxed);
    while try_to_put(world, *number) != Err(Refused::Failing) {
        *number += 1;
    }
    for _ in 0..outage_s {
        world.now += 1;
        world.maintain();
    }
    world.device.refuses_pages.store(false, Ordering::Relaxed);
    for second in 1.. {
        world.now += 1;
        world.maintain();
        *number += 1;
        if try_to_put(world, *number) == Ok(true) {
            return second;
        }
    }
    unreachable!("no outage is that long")
}

/// Regression: an outage of more seconds than there are sound segments aside had all bad ones tried
/// before these, one a second, and bad ones came back to the free ones untried.
#[test]
fn an_outage_of_any_length_ends_within_two_seconds_however_many_segments_are_bad() {
    for bad in [10, 50, 100] {
        let mut world = World::new(4000);
        let segments = world.flash.geometry.segments;
        put(&world, 0..u64::from(segments) * 66);
        world.device.make_unwritable(pages(&world, 5..5 + bad));
        let mut number = 50_000;
        while lock(&world.flash.writer).bad.len() < bad as usize && number < 110_000 {
            world.now += u32::from(number % 10 == 0);
            let _ = try_to_put(&world, number);
            number += 1;
        }
        for outage_s in [5, 25, 30, 50, 500, 1005] {
            let after = seconds_after_an_outage(&mut world, outage_s, &mut number);
            let known = world.flash.stats().segments_refused as u32;
            assert!(after <= 2, "{bad} bad, {outage_s} s: back after {after} s");
            assert!(known >= bad, "{known} of {bad} known after {outage_s} s");
            let errors = world.flash.stats().io_errors;
            for _ in 0..1000 {
                number += 1;
                assert_eq!(try_to_put(&world, number), Ok(true), "{bad} bad, {outage_s} s");
            }
            assert!(world.flash.stats().io_errors - errors < 10, "none has come back untried");
        }
    }
}

/// Regression: with half or more of the segments bad, and no other free, none of those in use was
/// ever collected.
#[test]
fn a_tier_of_which_most_is_bad_goes_on_with_the_rest_after_an_hour() {
    let mut world = World::new(PAGES);
    put(&world, 0..900);
    let segments = world.flash.geometry.segments;
    let first_free = lock(&world.flash.writer).free.front().copied().expect("most are free");
    assert!(first_free * 2 < segments, "{first_free} of {segments}");
    let first_bad = pages(&world, first_free - 3..first_free).start;
    world.device.make_unwritable(first_bad..u64::MAX);
    let mut refused_until = 0;
    for second in 0..10_000 {
        world.now += 1;
        if try_to_put(&world, 1000 + second).is_err() {
            refused_until = second;
        }
        if second == 3000 {
            assert_eq!(world.flash.stats().collected, 0, "it may be an outage");
        }
    }
    assert!((3600..4000).contains(&refused_until), "{refused_until}");
}

/// An hour without a write is not worth more than a few segments if half of all are aside.
#[test]
fn a_day_without_a_write_costs_a_tier_that_was_mostly_free_five_segments() {
    let mut world = World::new(PAGES);
    put(&world, 0..900);
    world.device.refuses_pages.store(true, Ordering::Relaxed);
    (1000..1300).for_each(|number| _ = try_to_put(&world, number));
    for _ in 0..24 * 3600 {
        world.now += 1;
        world.maintain();
    }
    let collected = world.flash.stats().collected;
    assert!((1..=5).contains(&collected), "{collected}");
}

/// Regression: with every segment set aside and nothing written, none was ever tried again.
#[test]
fn a_fresh_tier_whose_device_comes_and_goes_is_used_when_it_stays() {
    let mut world = World::new(PAGES);
    let refuse = |world: &World, does| world.device.refuses_pages.store(does, Ordering::Relaxed);
    refuse(&world, true);
    for number in 0..2000 {
        world.now += 1;
        let _ = try_to_put(&world, number);
    }
    let segments = u64::from(world.flash.geometry.segments);
    assert!(world.flash.stats().segments_refused + 2 >= segments, "{:?}", world.flash.stats());
    // One try works, and the segments that it frees are set aside again.
    refuse(&world, false);
    {
        let mut writer = lock(&world.flash.writer);
        writer.failures = 1;
        let free: Vec<u32> = writer.free.drain(..).collect();
        let prepared: Vec<u32> = writer.prepared.drain(..).collect();
        writer.suspects.extend(free.into_iter().chain(prepared));
    }
    lock(&world.flash.chores).healing.opened_next = u64::MAX;
    world.now += 1;
    world.maintain();
    assert!(world.flash.stats().segments_free > 0, "{:?}", world.flash.stats());
    assert_eq!(try_to_put(&world, 5000), Ok(true));
}

/// Regression: where pages could be written and no notes, a segment of zeros was written with every
/// fourth turn, for ever.
#[test]
fn a_segment_table_that_cannot_be_written_has_no_zeros_written() {
    let mut world = World::new(PAGES);
    put(&world, 0..500);
    let entries = u64::from(world.flash.geometry.segments) * ENTRY_BYTES as u64;
    let at = world.flash.geometry.entry_at(0);
    world.device.make_unwritable(at..at + entries);
    (500..800).for_each(|number| _ = try_to_put(&world, number));
    world.device.log.lock().expect("no test has died").clear();
    let errors = world.flash.stats().io_errors;
    for turn in 0..400 {
        world.now += u32::from(turn % 10 == 0);
        world.flash.maintain(&world.index, world.now);
    }
    let first = pages(&world, 0..1).start;
    let log = world.device.log.lock().expect("no test has died");
    assert!(log.iter().all(|at| *at < first), "no pages");
    assert!(world.flash.stats().io_errors - errors <= 45, "it is tried once a second");
}

/// Regression: segments that could not be collected stayed the least recently used ones, so that no
/// other ever was.
#[test]
fn segments_that_cannot_be_noted_as_free_keep_no_other_from_collection() {
    let mut world = World::new(PAGES);
    put(&world, 0..1500);
    let entries = world.flash.geometry.entry_at(0)..world.flash.geometry.entry_at(3);
    world.device.make_unwritable(entries);
    collect_many(&mut world);
    assert!(world.flash.evict(&world.index), "another one is");
    let words = || world.index.state().places().count();
    let before = words();
    assert!((0..20).all(|_| world.flash.evict(&world.index)), "there is always another one");
    assert!(words() < before);
    let world = world.killed().recovered();
    assert!((8500..8900).filter(|number| get(&world, *number).is_some()).count() > 300);
}

/// Regression: the first page was asked whether notes are taken at all. Where it was bad as well,
/// nothing was ever collected again.
#[test]
fn a_bad_first_page_does_not_keep_segments_from_being_collected() {
    // Of the segment table one entry, or more than a call tries.
    for entries in [1, 6] {
        let mut world = World::new(PAGES);
        put(&world, 0..1500);
        world.device.make_unwritable(0..world.flash.geometry.entry_at(entries));
        collect_many(&mut world);
    }
}

/// Regression: while no note was taken, each try to collect put the oldest segments behind all
/// later ones, which were then collected in their place for a whole round of the device.
#[test]
fn an_outage_of_notes_leaves_the_order_of_segments_as_it_was() {
    let refuse = |world: &World, does| world.device.refuses_notes.store(does, Ordering::Relaxed);
    evict_during_an_outage(refuse);
    // Regression: notes go to the page cache, which always has the first page, and those of the
    // table must often be read for it.
    evict_during_an_outage(|world: &World, does| {
        let geometry = world.flash.geometry;
        let table = geometry.entry_at(0)..geometry.journal_at(0);
        world.device.make_unwritable(if does { table } else { 0..0 });
    });
}

/// Evicts in vain while notes are refused, and finds everything that comes afterwards.
fn evict_during_an_outage(refuse: impl Fn(&World, bool)) {
    // Those refused last, before the order is as it was, are as many as it happens to be.
    for evictions in 390..400 {
        let world = World::new(PAGES);
        put(&world, 0..3000);
        refuse(&world, true);
        assert!((0..evictions).all(|_| !world.flash.evict(&world.index)));
        refuse(&world, false);
        let segments = world.flash.stats().segments_written;
        let opened = world.flash.stats().opened;
        let mut end = 3000;
        while world.flash.stats().opened < opened + segments / 2 {
            put(&world, end..end + 1);
            end += 1;
        }
        let found = (3000..end).filter(|number| get(&world, *number).is_some()).count() as u64;
        assert_eq!(found, end - 3000);
    }
}

/// Regression: both were listed, which ended the process where debugging assertions are on, and
/// left a segment nowhere where they are off.
#[test]
fn two_segments_of_one_sequence_are_both_void() {
    let world = World::new(PAGES);
    put(&world, 0..500);
    let geometry = world.flash.geometry;
    let parts = |segment: u32| {
        let entry = geometry.entry_at(segment);
        [
            entry..entry + ENTRY_BYTES as u64,
            journal(&world, segment),
            pages(&world, segment..segment + 1),
        ]
    };
    // A drive that writes to the wrong place.
    for (from, to) in parts(1).into_iter().zip(parts(2)) {
        let from = from.start as usize..from.end as usize;
        world.device.change(|bytes| bytes.copy_within(from, to.start as usize));
    }
    let held = [items_in(&world, 1, 500), items_in(&world, 2, 500)].concat();
    let segments = world.flash.stats().segments_written;
    let world = world.killed().recovered();
    let stats = world.flash.stats();
    assert_eq!((stats.segments_written, stats.damaged), (segments - 2, 2));
    assert!(held.len() > 100 && held.iter().all(|&number| get(&world, number).is_none()));
    put(&world, 1000..4000);
    assert!(world.flash.stats().collected > 0, "all are used again");
}

/// Regression: no start succeeded any more once an entry on such a page of the table was void.
#[test]
fn a_tier_opens_though_void_entries_of_its_table_cannot_be_zeroed() {
    let world = World::new(PAGES);
    put(&world, 0..500);
    world.flash.flush();
    put(&world, 1000..1200);
    world.flash.close(&world.index).expect("the device works");
    let held = (1000..1200).filter(|number| get(&world, *number).is_some()).count();
    let geometry = world.flash.geometry;
    let table = geometry.entry_at(0)..geometry.journal_at(0);
    world.device.make_unwritable(table);
    let mut world = world.killed().recovered();
    for _ in 0..2 {
        assert_eq!((world.flash.doubt(), world.flash.stats().damaged), (None, 0));
        assert!((0..500).all(|number| get(&world, number).is_none()));
        let found = (1000..1200).filter(|number| get(&world, *number).is_some()).count();
        assert!(held > 150 && found == held, "{found} of {held}");
        world = world.killed().recovered();
    }
}

/// An entry that is read as sound at some later start would bring back what has died meanwhile.
#[test]
fn damaged_entries_that_cannot_be_zeroed_make_all_void() {
    let flip = |bytes: &mut [u8], at: usize| bytes[at + 1] ^= 1;
    let double =
        |bytes: &mut [u8], at: usize| bytes.copy_within(at..at + ENTRY_BYTES, at + ENTRY_BYTES);
    let unwritable = Some(Doubt::TableUnwritable);
    // A damaged one may be anything at each start; those of one sequence are void by their number.
    let harms = [(&flip as &dyn Fn(&mut [u8], usize), unwritable), (&double, None)];
    for (damage, next_doubt) in harms {
        let world = World::new(PAGES);
        put(&world, 0..500);
        world.flash.close(&world.index).expect("the device works");
        let geometry = world.flash.geometry;
        world.device.change(|bytes| damage(bytes, geometry.entry_at(1) as usize));
        world.device.make_unwritable(geometry.entry_at(1)..geometry.entry_at(3));
        let mut world = world.killed().recovered();
        for (from, doubt) in [(2000, unwritable), (4000, next_doubt)] {
            assert_eq!(world.flash.doubt(), doubt);
            assert!((0..500).all(|number| get(&world, number).is_none()));
            put(&world, from..from + 500);
            let found = (from..from + 500).filter(|number| get(&world, *number).is_some()).count();
            assert!(found > 400, "the others are used: {found}");
            world = world.killed().recovered();
        }
        world.device.make_unwritable(0..0);
        put(&world, 5000..5500);
        let world = world.killed().recovered().killed().recovered();
        assert_eq!(world.flash.doubt(), None);
    }
}

/// Regression: a segment that could neither be read nor noted as free was read each second for
/// ever, and no flush of a prefix ended any more.
#[test]
fn a_flush_ends_though_a_segment_can_neither_be_read_nor_noted_as_free() {
    for journal_works in [true, false] {
        let mut world = World::new(PAGES);
        put(&world, 0..500);
        let held = items_in(&world, 1, 500);
        assert!(held.len() > 40);
        let geometry = world.flash.geometry;
        let bad = pages(&world, 1..2);
        world.device.make_unreadable(bad.start / PAGE_BYTES as u64..bad.end / PAGE_BYTES as u64);
        let end = if journal_works { geometry.entry_at(2) } else { journal(&world, 1).end };
        world.device.make_unwritable(geometry.entry_at(1)..end);
        assert!(world.flush_prefix(b"key-1"));
        for _ in 0..200 {
            world.now += 1;
            world.maintain();
        }
        assert!(world.flash.flushed.latest().is_none(), "it is over");
        assert!(held.iter().all(|&number| get(&world, number).is_none()));
        world.device.make_unreadable(0..0);
        world.device.make_unwritable(0..0);
        let world = world.killed().recovered();
        let flushed = |number: &u64| super::world::key(*number).starts_with(b"key-1");
        let back = (0..500).filter(flushed).filter(|number| get(&world, *number).is_some());
        assert_eq!(back.count(), 0);
    }
}

/// Regression: deaths went on while pages were refused, and lists that ran full took the whole of
/// their segments with them.
#[test]
fn worn_lists_become_filters_while_pages_are_refused() {
    let world = World::new(PAGES);
    let mut end = 0;
    while world.flash.stats().segments_written < 3 {
        world.put(end, format!("{end}").as_bytes());
        world.maintain();
        end += 1;
    }
    lock(&world.flash.writer).failures = FAILURES_MAX;
    world.device.refuses_pages.store(true, Ordering::Relaxed);
    for number in 0..end {
        world.delete(number);
        if number % 8 == 0 {
            world.maintain();
        }
    }
    assert!(world.flash.stats().is_failing && end > 5000);
    assert_eq!(world.flash.stats().distrusted, 0, "{end} have died");
}

/// Regression: rows that were read were read from the device, refused, and dropped.
#[test]
fn a_tier_that_is_failing_is_not_thinned_out() {
    let world = World::new(PAGES);
    put(&world, 0..900);
    (0..900).for_each(|number| _ = get(&world, number));
    lock(&world.flash.writer).failures = FAILURES_MAX;
    let before = world.flash.stats();
    assert!(!world.flash.thin_out(&world.index, world.now));
    lock(&world.flash.writer).failures = 0;
    assert_eq!(world.flash.stats().dropped, before.dropped);
    assert!(world.flash.thin_out(&world.index, world.now));
}

/// Regression: each turn of the background tried again, and deaths waited for each try.
#[test]
fn the_note_that_all_is_void_is_tried_once_a_second() {
    let mut world = World::new(PAGES);
    put(&world, 0..500);
    world.device.refuses_notes.store(true, Ordering::Relaxed);
    world.delete(1);
    assert!(world.flash.is_unsound());
    let errors = world.flash.stats().io_errors;
    for turn in 0..400 {
        world.now += u32::from(turn % 100 == 0);
        world.maintain();
    }
    let errors = world.flash.stats().io_errors - errors;
    assert!(errors <= 16, "{errors} in four seconds");
    world.device.refuses_notes.store(false, Ordering::Relaxed);
    world.now += 1;
    world.maintain();
    assert!(!world.flash.is_unsound());
}
