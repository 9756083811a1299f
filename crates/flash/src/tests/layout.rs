//! The content of a device, to the byte. A change to any of it has to raise the superblock's
//! version, or a build would take another one's device for its own.

use ::io::device::PAGE_BYTES;

use super::cases::get;
use super::world::value;
use super::{World, settings_immediate};
use crate::geometry::ENTRY_BYTES;
use crate::superblock::VERSION;
use crate::{Compression, Settings};

const PAGES: usize = 400;

/// A device with something in each of its parts but the dictionaries, written by the same calls
/// each time. Nothing in it is compressed: zstd's output is up to zstd.
fn written() -> World {
    let settings = Settings { compression: Compression::Nothing, ..settings_immediate() };
    let world = World::with(PAGES, settings);
    let put = |world: &World, numbers: std::ops::Range<u64>| {
        for number in numbers {
            world.put(number, &value(number, number * 4, 300));
            world.maintain();
        }
    };
    put(&world, 0..1500);
    (0..200).for_each(|number| world.delete(number));
    // Items that are read move to the hot area.
    (300..600).for_each(|number| assert!(get(&world, number).is_some(), "{number}"));
    put(&world, 1500..1600);
    let world = world.reopened();
    assert!(world.flash.recover(&world.index, 1000), "there are more segments than one call reads");
    // Keys that recovery has not come to.
    (200..230).for_each(|number| world.delete(number));
    assert!(world.flush_prefix(b"key-7"));
    world.flash.close(&world.index).expect("the device works");
    world
}

#[test]
fn a_device_is_written_as_this_version_has_always_written_it() {
    let world = written();
    let (bytes, geometry) = (world.device.bytes(), world.flash.geometry);
    let of = |at: u64, length: usize| codec::checksum(&bytes[at as usize..at as usize + length]);
    let segments = geometry.segments as usize;
    let at = |page: u64| page * PAGE_BYTES as u64;
    let sums = [
        of(0, PAGE_BYTES),
        of(geometry.entry_at(0), segments * ENTRY_BYTES),
        of(geometry.journal_at(0), segments * geometry.journal_bytes()),
        of(geometry.changes_at(), geometry.changes_bytes()),
        of(at(geometry.page_of(0)), segments * geometry.segment_bytes),
    ];
    let found = world.flash.stats();
    assert!(found.damaged == 0 && found.hot.segments > 0 && found.cold.segments > 4, "{found:?}");
    // The first page and the changes hold what the second process has skipped by its seed, the same
    // each time.
    let expected = [0xe3de_b930, 0x1d7b_17de, 0x6e1a_b07a, 0x2f33_126c, 0x71eb_0ad2];
    assert_eq!(sums, expected, "first page, table, journals, changes, segments");
    // Nothing else is on it.
    let known = |page: u64| {
        let parts = [
            (0, 1),
            (geometry.entry_at(0), segments * ENTRY_BYTES),
            (geometry.journal_at(0), segments * geometry.journal_bytes()),
            (geometry.changes_at(), geometry.changes_bytes()),
            (at(geometry.page_of(0)), segments * geometry.segment_bytes),
        ];
        parts.iter().any(|&(from, length)| {
            let end = (from + length as u64).div_ceil(PAGE_BYTES as u64);
            (from / PAGE_BYTES as u64..end).contains(&page)
        })
    };
    for (page, bytes) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
        assert!(known(page) || bytes.iter().all(|&byte| byte == 0), "page {page}");
    }
    assert_eq!(VERSION, 7);
}
