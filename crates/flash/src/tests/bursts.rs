//! Items from callers that cannot wait: which parts they touch, and what becomes of the items.

use ::io::device::PAGE_BYTES;
use stdx::sync::lock;

use super::World;
use super::world::value;
use crate::area::Area;
use crate::stage::Intake;
use crate::writer::BUFFERS;
use crate::{Reader, Refused};

const PAGES: usize = 400;
const LENGTH: usize = 1000;

/// Stages items, which compress well, until the tier is busy. Returns the first that was not taken.
fn burst(world: &World, first: u64) -> u64 {
    for number in first.. {
        world.set(number, value(number, 1, LENGTH));
        match world.demote_at_once(number) {
            Ok(is_there) => assert!(is_there),
            Err(refused) => {
                assert_eq!(refused, Refused::Busy);
                return number;
            }
        }
    }
    unreachable!("buffers are full at some time");
}

fn ratio(world: &World) -> f64 {
    lock(&world.flash.writer).stream(Area::Cold).fill.ratio()
}

#[test]
fn a_caller_that_cannot_wait_never_touches_the_device() {
    let world = World::new(PAGES);
    let (written, segment_bytes) = (|| lock(&world.device.log).len(), 64 << 10);
    let before = written();
    let unprepared = burst(&world, 0);
    assert!((1..20).contains(&unprepared), "no segment is prepared yet: {unprepared}");
    assert!(world.flash.is_behind() && written() == before);
    world.maintain();
    assert!(!world.flash.is_behind() && written() > before);
    let before = written();
    let refused = burst(&world, unprepared);
    assert!(world.flash.is_behind() && world.flash.has_waiting() && written() == before);
    let stats = world.flash.stats();
    assert!(stats.stored_bytes as usize > (BUFFERS - 1) * segment_bytes, "{stats:?}");
    assert!(stats.stored_bytes >= stats.raw_bytes, "as it is: {stats:?}");
    world.flash.write_full(&world.index);
    assert!(!world.flash.is_behind() && !world.flash.has_waiting());
    assert_eq!(world.flash.stats().segments_written, BUFFERS as u64);
    assert_eq!(world.demote_at_once(refused), Ok(true), "there is room again");
    let mut reader = Reader::new();
    let lost = (0..=refused)
        .filter(|&number| world.get(number, &mut reader) != Some(value(number, 1, LENGTH)));
    assert_eq!(lost.collect::<Vec<_>>(), [], "each is found, the last ones staged");
}

#[test]
fn a_burst_says_nothing_of_how_well_rows_compress() {
    let world = World::new(PAGES);
    world.maintain();
    let first = 100;
    for number in 0..first {
        world.put(number, &value(number, 1, LENGTH));
    }
    let before = ratio(&world);
    assert!(before > 3.0, "{before}");
    let next = burst(&world, first);
    assert!(ratio(&world) >= before, "{} {before}", ratio(&world));
    world.maintain();
    let stored = world.flash.stats().stored_bytes;
    for number in next..next + first {
        world.put(number, &value(number, 1, LENGTH));
    }
    let stored = world.flash.stats().stored_bytes - stored;
    assert!(stored < first * LENGTH as u64 / 2, "and what comes later is compressed: {stored}");
}

#[test]
fn a_caller_that_cannot_wait_adds_to_a_longer_unit_of_others() {
    let world = World::new(PAGES);
    world.maintain();
    let stage = |number, intake| {
        world.set(number, value(number, 1, LENGTH));
        assert_eq!(world.demote_by(number, intake), Ok(true));
    };
    // Units are long where rows compress well.
    (0..100).for_each(|number| stage(number, Intake::Usual));
    let gathered = || lock(&world.flash.writer).stream(Area::Cold).unit.rows.len();
    let mut next = 100..;
    while !(5..8).contains(&gathered()) {
        stage(next.next().expect("no end"), Intake::Hurried);
    }
    let (rows, before) = (gathered(), world.flash.stats());
    stage(next.next().expect("no end"), Intake::AtOnce);
    assert_eq!(gathered(), rows + 1, "more than a page, and not sealed");
    while world.flash.stats().raw_bytes == before.raw_bytes {
        stage(next.next().expect("no end"), Intake::AtOnce);
    }
    let after = world.flash.stats();
    let (raw, stored) =
        (after.raw_bytes - before.raw_bytes, after.stored_bytes - before.stored_bytes);
    assert!(raw > 2 * PAGE_BYTES as u64 && stored * 2 < raw, "{stored} of {raw}");
}

#[test]
fn prepared_segments_are_free_ones_and_a_failing_device_gets_them_back() {
    let world = World::new(PAGES);
    let free = world.flash.stats().segments_free;
    world.maintain();
    assert_eq!(lock(&world.flash.writer).prepared.len(), BUFFERS);
    assert_eq!(world.flash.stats().segments_free, free);
    // The only free ones.
    lock(&world.flash.writer).free.clear();
    lock(&world.flash.writer).failures = crate::stage::FAILURES_MAX;
    world.set(1, value(1, 1, LENGTH));
    assert_eq!(world.demote_at_once(1), Err(Refused::Failing));
    world.maintain();
    assert_eq!(world.demote_at_once(1), Ok(true));
    assert_eq!(world.flash.stats().segments_free, BUFFERS as u64);
}
