//! Items that are read all the time stay, however much else is stored and read beside them, while
//! the compressed zone and flash take all the memory that they can get.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{Cache, FlashSettings, Stats};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const MEMORY_BYTES: usize = 16 << 20;
const FLASH_BYTES: usize = 128 << 20;
/// Other keys, so many that the index of those on flash takes much of the hot zone's least share.
const KEYS: u32 = 150_000;
const HOT_KEYS: u32 = 500;
/// Stores before the background comes.
const BEHIND: u32 = 32;

fn cache() -> Cache {
    let pages = (FLASH_BYTES / PAGE_BYTES) as u64;
    let device = Arc::new(FakeDevice::new(pages, 1, Faults::default()));
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device, [7; 16]) };
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(true).flash(flash);
    builder.clock(clock).build().unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("item-{number}").into_bytes()
}

/// Returns a record of one of many sizes, which compresses well.
fn value(number: u32) -> Vec<u8> {
    let mut random = Xorshift::seeded(u64::from(number) + 1);
    let words = 4 + random.draw() % 60;
    let mut value = Vec::new();
    for _ in 0..words {
        value.extend(format!("\"field\": {:3}, ", random.draw() % 300).bytes());
    }
    value
}

/// Stores others and reads hot keys in turn, and others at random. Returns the hot keys that were
/// not found, and the final statistics.
fn course() -> (Vec<u32>, Stats) {
    let cache = cache();
    let store = |number| cache.set(&key(number), &value(number), larder::Expiry::NEVER).unwrap();
    let mut random = Xorshift::seeded(1);
    let (mut stored, mut lost) = (HOT_KEYS, Vec::new());
    (0..HOT_KEYS).for_each(store);
    for request in 0..4 * KEYS {
        match request % 4 {
            0 => {
                store(stored);
                stored += 1;
            }
            1 => {
                let number = request / 4 % HOT_KEYS;
                let found = cache.get(&key(number));
                assert!(found.as_ref().is_none_or(|found| *found == value(number)));
                if found.is_none() {
                    lost.push(number);
                }
            }
            _ => {
                let number = (random.draw() % u64::from(stored)) as u32;
                let found = cache.get(&key(number));
                assert!(found.is_none_or(|found| found == value(number)));
            }
        }
        if request % (4 * BEHIND) == 0 {
            while cache.maintain() {}
        }
    }
    (lost, cache.stats())
}

#[test]
fn hot_keys_stay_and_the_index_of_flash_takes_nothing_from_them() {
    let (lost, stats) = course();
    assert_eq!(lost.len(), 0, "{:?}", &lost[..lost.len().min(20)]);
    let (flash, compressed) = (stats.flash.unwrap(), stats.compressed.unwrap());
    assert!(flash.items > u64::from(KEYS) / 3 && flash.hits > 10_000, "{flash:?}");
    // An item that moves on to flash is not evicted.
    assert!(compressed.spilled > u64::from(KEYS) / 3, "{compressed:?}");
    assert!(stats.evicted < u64::from(KEYS) / 10, "{stats:?}");
}
