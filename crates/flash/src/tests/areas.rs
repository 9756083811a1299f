//! The two areas: how items move between them, what decides on their sizes, and what is known of
//! them after a restart.

use std::ops::Range;

use ::io::device::{Device, Pages};

use super::cases::{get, place};
use super::world::{key, phrases, value};
use super::{World, hash, settings, settings_hot, settings_immediate};
use crate::collect::Need;
use crate::list::ListedSegment;
use crate::partition::HotTarget;
use crate::usage::Margin;
use crate::writer::Stream;
use crate::{
    ACCESSES_MAX, Area, Costs, Fields, Look, Partition, Promotion, Reader, Record, Settings, Ticket,
};

const PAGES: usize = 800;

/// Marks an item as read `accesses` times, without a read.
pub(crate) fn mark_read(world: &World, number: u64, accesses: u8) {
    let place = place(world, number).expect("it is there");
    world.index.state().lead(hash(number), place.with_accesses(accesses));
}

/// The area of an item's segment; `None` if it is not in a segment.
fn area(world: &World, number: u64) -> Option<Area> {
    let spot = world.flash.geometry.locate(place(world, number)?)?;
    Some(world.flash.segments[spot.segment as usize].area())
}

/// Puts items until `segments` segments were written, and returns the number behind the last.
fn fill(world: &World, first: u64, segments: u64) -> u64 {
    let before = world.flash.stats().bytes_written;
    for number in first.. {
        if world.flash.stats().bytes_written - before >= segments * (64 << 10) {
            return number;
        }
        world.put(number, &value(number, number * 4 + 2, 400));
        world.maintain();
    }
    first
}

/// Collects until an item is in an area, in a segment.
fn collect_until(world: &World, number: u64, wanted: Area) {
    for _ in 0..100 {
        let mut writer = stdx::sync::lock(&world.flash.writer);
        for area in Area::ALL {
            let sealed = world.flash.seal(&mut writer, area, &world.index);
            sealed.expect("there is room");
        }
        drop(writer);
        if area(world, number) == Some(wanted) {
            return;
        }
        assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
        world.flash.write_waiting(&world.index);
    }
    panic!("it never came to {wanted:?}");
}

/// Regression: a stop saves into the open segment first. An older one may have been used since it
/// was opened; it went on living, while the items saved there were evicted.
#[test]
fn eviction_comes_to_a_touched_open_segment_behind_all_older_ones() {
    for (is_touched, expected) in [(false, 1), (true, 5)] {
        let world = World::new(PAGES);
        let first = fill(&world, 0, 4);
        let mut number = first;
        while area(&world, first).is_none() {
            world.put(number, &value(number, number * 4 + 2, 400));
            number += 1;
        }
        // Some older rows are in its segment, too, and are not read.
        for older in 0..first / 5 * 4 {
            assert!(get(&world, older).is_some());
        }
        if is_touched {
            world.flash.touch_open();
        }
        fill(&world, number, 3);
        let mut evictions = 0;
        while place(&world, first).is_some() {
            assert!(world.flash.evict(&world.index));
            evictions += 1;
        }
        assert_eq!(evictions, expected);
    }
}

#[test]
fn an_often_read_item_moves_to_the_hot_area_and_back_before_it_leaves() {
    let settings = Settings { partition: Partition::Fixed { hot_percent: 1 }, ..settings() };
    let world = World::with(PAGES, settings);
    let end = fill(&world, 0, 3);
    // More than the hot area is to have: two segments of it, as it is one.
    let read: Vec<u64> = (0..end - 100).step_by(2).collect();
    read.iter().for_each(|&number| mark_read(&world, number, ACCESSES_MAX));
    collect_until(&world, read[0], Area::Hot);
    let stats = world.flash.stats();
    assert!(place(&world, 1).is_none() && stats.dropped > 0, "it was not read");
    assert_eq!((stats.hot.moved_in, stats.cold.moved_in), (stats.restaged, 0));
    assert_eq!(get(&world, 0), Some(value(0, 2, 400)));
    assert_eq!(place(&world, 0).map(|place| (place.span(), place.accesses())), Some((1, 1)));
    assert!(stats.hot.stored_bytes > stats.hot.raw_bytes, "it is not compressed");
    while world.flash.stats().hot.segments < 2 {
        assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
        world.flash.write_waiting(&world.index);
    }
    let in_hot = |&number: &u64| area(&world, number) == Some(Area::Hot);
    let unread = *read.iter().skip(1).find(|number| in_hot(number)).expect("one of many");
    collect_until(&world, 0, Area::Cold);
    assert_eq!(get(&world, 0), Some(value(0, 2, 400)));
    collect_until(&world, unread, Area::Cold);
    // It was not read since it came to the hot area, nor is it now.
    while place(&world, unread).is_some() {
        assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
        world.flash.write_waiting(&world.index);
    }
    let stats = world.flash.stats();
    assert!(stats.cold.moved_in >= 1 && stats.evicted == 0, "{stats:?}");
    let between = stats.hot.moved_in + stats.cold.moved_in;
    assert_eq!(stats.restaged - between, 1, "number 0 was read once in the cold area");
}

/// Marks this segment as one that a step takes in.
fn choose(world: &World, cold: &mut Stream, listed: &ListedSegment) {
    world.flash.segments[listed.segment as usize].usage.set_margin(Some(Margin::Chosen));
    cold.chosen.push_back(listed.entry.sequence);
}

/// Makes the hot area grow by the content of the cold segments.
fn choose_all(world: &World) {
    let mut writer = stdx::sync::lock(&world.flash.writer);
    writer.hot_target = HotTarget::grown_to(20, 50);
    let listed: Vec<_> = writer.streams[0].written.iter().copied().collect();
    listed.iter().for_each(|listed| choose(world, &mut writer.streams[0], listed));
}

#[test]
fn an_item_read_now_and_then_goes_round_in_the_cold_area() {
    let world = World::new(PAGES);
    let end = fill(&world, 0, 3);
    choose_all(&world);
    for number in 0..end {
        mark_read(&world, number, (number % 4) as u8);
    }
    while world.flash.stats().collected < 3 {
        assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
        world.flash.write_waiting(&world.index);
    }
    let mut writer = stdx::sync::lock(&world.flash.writer);
    for area in Area::ALL {
        world.flash.seal(&mut writer, area, &world.index).expect("there is room");
    }
    drop(writer);
    let mut count = [0; 4];
    for number in (0..end).filter(|&number| area(&world, number).is_some()) {
        let often = number % 4 == u64::from(ACCESSES_MAX);
        let place = place(&world, number).expect("it has an area");
        if place.accesses() > 0 {
            continue; // Not collected yet.
        }
        assert_eq!(area(&world, number), Some(if often { Area::Hot } else { Area::Cold }));
        count[(number % 4) as usize] += 1;
    }
    assert!(count[1..].iter().all(|&count| count > 30), "{count:?}");
    let stats = world.flash.stats();
    assert_eq!((stats.hot.moved_in, stats.cold.moved_in), (stats.restaged / 3, 0), "{stats:?}");
}

#[test]
fn hot_items_are_found_in_a_buffer_and_on_the_device_and_after_a_kill() {
    let world = World::with(PAGES, settings_hot());
    let end = fill(&world, 0, 3);
    (0..end).for_each(|number| mark_read(&world, number, ACCESSES_MAX));
    while world.flash.stats().hot.segments < 2 {
        assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
        world.flash.write_waiting(&world.index);
    }
    let hot: Vec<u64> = (0..end).filter(|&it| area(&world, it) == Some(Area::Hot)).collect();
    assert!(hot.len() > 150, "{}", hot.len());
    let hits = world.flash.stats().hot.hits;
    hot.iter().for_each(|&it| assert_eq!(get(&world, it), Some(value(it, it * 4 + 2, 400))));
    assert_eq!(world.flash.stats().hot.hits - hits, hot.len() as u64);
    let dead = hot[0];
    world.delete(dead);
    let (before, world) = (world.flash.stats(), world.killed().recovered());
    let stats = world.flash.stats();
    assert_eq!((stats.hot.segments, before.hot.segments), (1, 2), "one was in a buffer");
    let found: Vec<u64> = (0..end).filter(|&it| area(&world, it) == Some(Area::Hot)).collect();
    assert!(found.len() > 100 && !found.contains(&dead), "{}", found.len());
    found.iter().for_each(|&it| assert_eq!(get(&world, it), Some(value(it, it * 4 + 2, 400))));
}

/// Reads a key's item from the device.
pub(crate) fn read(world: &World, number: u64) -> (Ticket, Fields, Vec<u8>) {
    let (place, mut reader) = (place(world, number).expect("it is there"), Reader::new());
    let mut look = world.flash.look(place, &key(number), &mut reader);
    let mut last = None;
    while let Look::Wait(ticket) = look {
        let mut pages = Pages::zeroed(ticket.pages);
        world.device.read(ticket.page, pages.as_pages_mut()).expect("within the device");
        (last, look) =
            (Some(ticket), world.flash.finish(&ticket, &pages, &key(number), &mut reader));
    }
    let Look::Found(fields) = look else { panic!("it is there") };
    (last.expect("it is on the device"), fields, reader.value().to_vec())
}

#[test]
fn promotion_at_once_happens_once_and_only_if_the_index_leads_there() {
    let world = World::with(PAGES, settings_immediate());
    fill(&world, 0, 2);
    let before = [0, 1, 2].map(|number| place(&world, number).expect("it is there"));
    let reads = [0, 1, 2].map(|number| read(&world, number));
    let promote = |number: u64| {
        let (ticket, fields, value) = &reads[number as usize];
        let record = Record { key: &key(number), value, fields: *fields };
        let from = before[number as usize];
        world.flash.promote(hash(number), from, ticket, &record, &world.index)
    };
    assert_eq!((promote(0), promote(0)), (Ok(true), Ok(false)));
    assert!(place(&world, 0).is_some_and(|place| place.is_staged()));
    world.set(1, b"newer".to_vec());
    assert_eq!(promote(1), Ok(false));
    assert_eq!(get(&world, 1), Some(b"newer".to_vec()));
    assert_eq!(get(&world, 0), Some(value(0, 2, 400)));
    let stats = world.flash.stats();
    assert_eq!((stats.promoted, stats.hot.moved_in, stats.restaged), (1, 1, 0));
    world.flush();
    assert_eq!(promote(2), Ok(false), "it is void");
}

#[test]
fn an_item_promoted_and_forgotten_is_not_found_after_a_kill() {
    let world = World::with(PAGES, settings_immediate());
    fill(&world, 0, 2);
    assert!(get(&world, 0).is_some() && world.flash.stats().promoted == 1);
    assert_eq!(world.flash.stats().journalled, 1, "where it was it is dead");
    world.delete(0);
    assert_eq!(world.flash.stats().journalled, 1, "a staged item needs no note");
    let world = world.killed().recovered();
    assert_eq!((get(&world, 0), get(&world, 1)), (None, Some(value(1, 6, 400))));
}

#[test]
fn merged_promotion_and_a_tier_without_hot_area_leave_items_in_place() {
    let partition = Partition::Fixed { hot_percent: 0 };
    let without = Settings { partition, promotion: Promotion::Immediate, ..settings() };
    for settings in [settings_hot(), without.clone()] {
        let world = World::with(PAGES, settings);
        fill(&world, 0, 2);
        assert!(get(&world, 0).is_some());
        assert_eq!((world.flash.stats().promoted, area(&world, 0)), (0, Some(Area::Cold)));
    }
    let world = World::with(PAGES, without);
    let end = fill(&world, 0, 3);
    (0..end).for_each(|number| mark_read(&world, number, ACCESSES_MAX));
    assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
    let stats = world.flash.stats();
    assert!(stats.restaged > 100, "{stats:?}");
    assert_eq!(
        (stats.hot_segments_target, stats.hot, stats.cold.moved_in),
        (0, Default::default(), 0)
    );
}

#[test]
fn the_segment_used_longest_ago_is_collected_first_and_the_newest_last() {
    let world = World::new(PAGES);
    fill(&world, 0, 4);
    let written = |world: &World| {
        let writer = stdx::sync::lock(&world.flash.writer);
        let segments = writer.streams[0].written.iter().map(|listed| listed.segment);
        segments.collect::<Vec<u32>>()
    };
    let before = written(&world);
    let in_first = |number: &u64| {
        let spot = place(&world, *number).and_then(|place| world.flash.geometry.locate(place));
        spot.is_some_and(|spot| spot.segment == before[0])
    };
    let number = (0..).find(in_first).expect("it has items");
    assert!(get(&world, number).is_some());
    let mut left = Vec::new();
    for _ in 0..4 {
        assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
        left.push(written(&world));
    }
    let [first, .., last] = before[..] else { panic!("there are four") };
    let expected = [vec![first, before[2], last], vec![first, last], vec![last], vec![]];
    assert_eq!(left, expected);
}

/// Units of both areas hardly ever reach into one page more than they need.
#[test]
fn units_keep_to_their_pages() {
    for (unit_pages, single_rows) in [(1, false), (3, false), (1, true)] {
        let world = World::with(PAGES, Settings { unit_pages, single_rows, ..settings() });
        let end = fill(&world, 0, 8);
        let places: Vec<_> = (0..end)
            .filter_map(|number| place(&world, number))
            .filter(|place| !place.is_staged())
            .collect();
        let pages: usize = places.iter().map(|place| usize::from(place.span())).sum();
        let mean = pages as f64 / places.len() as f64;
        assert!((mean - unit_pages as f64).abs() < 0.3, "{unit_pages}: {mean}");
        let stats = world.flash.stats();
        let rows = places.len() as u64 / stats.units.max(1);
        assert_eq!(rows <= 1, single_rows, "{rows}");
        assert!(stats.bytes_skipped * 4 < stats.stored_bytes, "{stats:?}");
        assert_eq!(stats.bytes_staged, stats.raw_bytes);
    }
}

const SLOW_TO_DECODE: Costs = Costs { hot_read_ns: 1, cold_read_ns: 1_000_001, miss_ns: 1_000_001 };
const COSTLY_TO_MISS: Costs = Costs { hot_read_ns: 100, cold_read_ns: 100, miss_ns: 1_000_000 };

const READS_A_PUT: usize = 4;

/// Keys that are put one after the other, and read at random among those put `read_back` keys ago.
struct Course {
    world: World,
    read_back: Range<u64>,
    puts: u64,
    random: super::Random,
}

impl Course {
    fn new(pages: usize, read_back: Range<u64>) -> Self {
        let world = World::with(pages, settings());
        Self { world, read_back, puts: 0, random: super::Random(3) }
    }

    fn target(&self) -> u64 {
        self.world.flash.stats().hot_segments_target
    }

    /// Puts and reads until the hot area's target is as wanted, and returns that target.
    fn adapt(
        &mut self,
        costs: Costs,
        wanted: impl Fn(u64) -> bool,
        value: impl Fn(u64) -> Vec<u8>,
    ) -> u64 {
        self.world.flash.set_costs(costs);
        let (end, mut reader) = (self.puts + 100_000, Reader::new());
        while self.puts < end && !wanted(self.target()) {
            self.put(value(self.puts));
            for _ in 0..READS_A_PUT {
                let span = self.read_back.end - self.read_back.start;
                let back = self.read_back.start + self.random.below(span);
                if self.puts >= back {
                    self.world.get(self.puts - back, &mut reader);
                }
            }
        }
        self.target()
    }

    fn put(&mut self, value: Vec<u8>) {
        self.world.put(self.puts, &value);
        while self.world.flash.maintain(&self.world.index, self.world.now) {}
        self.puts += 1;
    }
}

#[test]
fn the_hot_area_grows_with_slow_decoding_and_shrinks_with_costly_misses() {
    let halves = |number| value(number, number * 4 + 2, 400);
    let mut course = Course::new(1600, 1..4000);
    assert_eq!(course.target(), 0);
    assert!(course.adapt(SLOW_TO_DECODE, |target| target >= 20, halves) >= 20);
    course.read_back = 1..40_000;
    assert_eq!(course.adapt(COSTLY_TO_MISS, |target| target == 0, halves), 0);
    let stats = course.world.flash.stats();
    assert!(stats.hot.moved_in > 1000 && stats.cold.moved_in > 1000, "{stats:?}");
}

#[test]
fn where_a_miss_is_costly_there_is_no_hot_area() {
    let thirds = |number| phrases(number % 4, number, 600);
    let mut course = Course::new(3600, 1..60_000);
    course.world.flash.set_costs(Costs::default());
    assert_eq!(course.adapt(Costs::default(), |target| target > 0, thirds), 0);
    assert_eq!(course.world.flash.stats().hot.moved_in, 0);
    // As beside a memory that keeps recently read items.
    course.read_back = 10_000..60_000;
    assert!(course.adapt(SLOW_TO_DECODE, |target| target >= 4, thirds) >= 4);
}

#[test]
fn chosen_items_are_collected_first_if_there_is_room_and_others_stay_cold() {
    let world = World::new(PAGES);
    let end = fill(&world, 0, 4);
    (0..end).for_each(|number| mark_read(&world, number, ACCESSES_MAX));
    let choose_last = || {
        let mut writer = stdx::sync::lock(&world.flash.writer);
        let last = *writer.streams[0].written.iter().next_back().expect("four");
        choose(&world, &mut writer.streams[0], &last);
        (last.segment, world.flash.choose_for_hot(&mut writer).map(|listed| listed.segment))
    };
    assert_eq!(choose_last().1, None, "nothing is to be hot");
    stdx::sync::lock(&world.flash.writer).hot_target = HotTarget::grown_to(20, 50);
    // As many free ones as collection begins at, and one less.
    let low = world.flash.watermarks.low;
    let free = {
        let mut writer = stdx::sync::lock(&world.flash.writer);
        let spare = writer.free_segments() - (low - 1);
        writer.free.drain(..spare).collect::<Vec<u32>>()
    };
    assert_eq!(choose_last().1, None, "little is free");
    stdx::sync::lock(&world.flash.writer).free.push_back(free[0]);
    let (last, found) = choose_last();
    assert_eq!(found, Some(last));
    stdx::sync::lock(&world.flash.writer).free.extend(&free[1..]);
    assert!(world.flash.collect(&mut Default::default(), &world.index, world.now, Need::Room));
    let stats = world.flash.stats();
    assert!(stats.restaged > 0 && stats.hot.moved_in == 0, "nothing chose it: {stats:?}");
}

/// Segments of items that are read all the time are never collected for want of room. Unless a step
/// takes them in, the hot area gets the least read of all items that are read.
#[test]
fn a_step_takes_in_the_items_read_most() {
    const POPULAR: u64 = 100;
    let mut course = Course::new(1600, 1..4000);
    course.world.flash.set_costs(SLOW_TO_DECODE);
    let mut reader = Reader::new();
    let hot = |course: &Course| {
        let is_hot = |&number: &u64| area(&course.world, number) == Some(Area::Hot);
        (0..POPULAR).filter(is_hot).count() as u64
    };
    while course.puts < 50_000 && hot(&course) < POPULAR / 2 {
        course.put(value(course.puts, course.puts * 4 + 2, 400));
        for _ in 0..READS_A_PUT {
            let number = course.random.below(POPULAR);
            course.world.get(number, &mut reader);
        }
    }
    assert!(hot(&course) >= POPULAR / 2, "{} after {}", hot(&course), course.puts);
    let stats = course.world.flash.stats();
    assert!(stats.hot.moved_in < 4 * POPULAR, "little else moved there: {stats:?}");
}

#[test]
fn a_step_back_gives_up_the_least_recently_used_and_then_the_latest() {
    let world = World::new(PAGES);
    fill(&world, 0, 4);
    let mut writer = stdx::sync::lock(&world.flash.writer);
    let flash = &world.flash;
    let written = &mut writer.streams[0].written;
    let segments: Vec<u32> = written.iter().map(|listed| listed.segment).collect();
    // All but the second were used since the last one was opened.
    let used = segments.iter().enumerate().filter(|(index, _)| *index != 1);
    used.for_each(|(_, &segment)| flash.note_hit(Area::Cold, Some(segment)));
    let taken: Vec<u32> =
        std::iter::from_fn(|| flash.take_last_in(written)).map(|listed| listed.segment).collect();
    assert_eq!(taken, [1, 3, 2, 0].map(|index| segments[index]));
}
