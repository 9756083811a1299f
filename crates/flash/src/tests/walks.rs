//! Walks visit every item once, wherever it lies, and nothing that is dead.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use ::io::device::{Device, PAGE_BYTES, Pages};

use super::World;
use super::cases::fill_a_segment;
use super::world::{key, value};
use crate::{Walk, Walked};

const PAGES: usize = 400;

/// All items that a walk visits, and how often it read.
fn walked(world: &World) -> (BTreeMap<Vec<u8>, Vec<Vec<u8>>>, usize) {
    let (mut walk, mut pages, mut reads) = (Walk::default(), None, 0);
    let mut visited: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    loop {
        let step = world.flash.walk(&mut walk, pages.take().as_ref(), &world.index, |record| {
            visited.entry(record.key.to_vec()).or_default().push(record.value.to_vec());
        });
        match step {
            Walked::More => {}
            Walked::End => return (visited, reads),
            Walked::Wait { page, pages: count } => {
                assert!(count * PAGE_BYTES <= 64 << 10, "{count} pages at a time");
                let mut read = Pages::zeroed(count);
                reads += 1;
                match world.device.read(page, read.as_pages_mut()) {
                    Ok(()) => pages = Some(read),
                    Err(_) => world.flash.walk_past(&mut walk),
                }
            }
        }
    }
}

fn expected(values: impl IntoIterator<Item = (u64, Vec<u8>)>) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    values.into_iter().map(|(number, value)| (key(number), vec![value])).collect()
}

#[test]
fn every_item_comes_once_and_dead_ones_do_not() {
    for length in [30, 300, 9000, 40_000] {
        let world = World::new(PAGES);
        let mut count = 0;
        for _ in 0..3 {
            let more = world.flash.stats().bytes_written + (64 << 10);
            while world.flash.stats().bytes_written < more {
                world.put(count, &value(count, count * 4, length));
                world.maintain();
                count += 1;
            }
        }
        // Some in the open segment, and some in the open unit.
        for number in count..count + 5 {
            if length > 1000 {
                world.maintain();
            }
            world.put(number, &value(number, number * 4, length));
        }
        count += 5;
        let is_left = |number: &u64| number % 3 != 1;
        (0..count).filter(|number| number % 6 == 1).for_each(|number| world.delete(number));
        // Items that are in memory again are not on flash any more.
        (0..count).filter(|number| number % 6 == 4).for_each(|number| world.set(number, vec![1]));
        let left = (0..count).filter(is_left);
        let wanted = expected(left.map(|number| (number, value(number, number * 4, length))));
        let (visited, reads) = walked(&world);
        assert!(visited == wanted, "{length}: {} of {}", visited.len(), wanted.len());
        assert!(reads > 3 && walked(&world).0 == wanted);
        let world = world.reopened().recovered();
        // Journals that overflowed have taken their segments with them.
        let (visited, _) = walked(&world);
        assert_eq!(visited.len(), world.index.state().len());
        assert!(visited.iter().all(|(key, values)| wanted.get(key) == Some(values)), "{length}");
        assert!(length == 30 || visited == wanted, "{length}");
        world.flush();
        assert!(walked(&world).0.is_empty());
    }
}

#[test]
fn unreadable_items_are_passed_over() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 300);
    world.device.refuses_reads.store(true, Ordering::Relaxed);
    let (visited, reads) = walked(&world);
    assert!(visited.len() < count as usize && reads == 1, "the table of the only written segment");
    world.device.refuses_reads.store(false, Ordering::Relaxed);
    assert_eq!(walked(&world).0.len(), count as usize);
    // The first unit of the device is damaged, the others are there.
    let first = world.device.log.lock().expect("no test has died").iter().copied().max();
    let first = first.expect("a segment was written") as usize;
    world.device.change(|bytes| bytes[first + 100] ^= 1);
    let visited = walked(&world).0.len();
    assert!(visited < count as usize && visited > count as usize / 2, "{visited} of {count}");
    assert!(world.flash.stats().damaged > 0);
}

#[test]
fn a_segment_that_is_used_again_during_a_walk_is_left() {
    let world = World::new(PAGES);
    let count = fill_a_segment(&world, 300);
    let mut walk = Walk::default();
    let mut stale = None;
    let mut visits = 0;
    for round in 0..1000 {
        let pages = stale.take();
        let step = world.flash.walk(&mut walk, pages.as_ref(), &world.index, |record| {
            visits += 1;
            assert!(round < 5 || record.value.starts_with(b"0 at 7"));
        });
        match step {
            Walked::End => break,
            Walked::More => {}
            Walked::Wait { page, pages } => {
                let mut read = Pages::zeroed(pages);
                world.device.read(page, read.as_pages_mut()).expect("within the device");
                stale = Some(read);
                // All items there are gone before the pages are looked at.
                (0..count).for_each(|number| world.set(number, b"in memory".to_vec()));
            }
        }
    }
    let staged = count as usize - visits;
    assert!(staged > visits, "only what was staged or buffered was visited: {visits} of {count}");
}
