//! An index that has no room for more items: which ones leave it while there is room on the device.

use super::World;
use super::areas::mark_read;
use super::cases::{fill_segments, get, place};
use super::world::value;

const PAGES: usize = 400;

/// Regression: all items of a segment left the index with the first that was not read.
#[test]
fn a_read_item_keeps_its_word_where_there_is_room_on_the_device() {
    let world = World::new(PAGES);
    let count = fill_segments(&world, 3, 300);
    let is_in_first = |&number: &u64| number < count / 6;
    let read: Vec<u64> = (0..count).step_by(5).filter(is_in_first).collect();
    read.iter().for_each(|&number| mark_read(&world, number, 1));
    assert!(world.flash.thin_out(&world.index, world.now));
    let stats = world.flash.stats();
    assert_eq!((stats.evicted, stats.restaged), (0, read.len() as u64));
    assert!(stats.dropped > stats.restaged && stats.segments_free > stats.segments / 2);
    for number in read {
        assert_eq!(place(&world, number).map(|place| place.accesses()), Some(0));
        assert_eq!(get(&world, number), Some(value(number, 4, 300)));
    }
    assert!(place(&world, 1).is_none(), "it was not read");
}

/// The bytes written are bounded by the items that leave the index.
#[test]
fn where_all_was_read_each_second_segment_is_evicted_whole() {
    let world = World::new(PAGES);
    let count = fill_segments(&world, 3, 300);
    (0..count).for_each(|number| mark_read(&world, number, 1));
    let mut seen = Vec::new();
    for _ in 0..2 {
        assert!(world.flash.thin_out(&world.index, world.now));
        let stats = world.flash.stats();
        seen.push((stats.evicted, stats.restaged > 0, stats.dropped > 0));
    }
    assert_eq!(seen, [(0, true, false), (1, true, true)]);
    let stats = world.flash.stats();
    assert!(stats.restaged < stats.dropped * 3 / 2, "{stats:?}");
}
