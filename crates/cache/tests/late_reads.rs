//! Items that are stored ahead of their first read, as sessions and computed results are, are still
//! there when it comes, though they look unwanted.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use larder::{Cache, Expiry};

const NOW: u32 = 1_800_000_000;
const MEMORY_BYTES: usize = 16 << 20;
/// Stores before the background comes.
const BEHIND: u32 = 64;

fn key(number: u32) -> Vec<u8> {
    format!("result-{number}").into_bytes()
}

/// Returns a record with much in common with others, which compresses to a third.
fn value(number: u32) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9);
    let mut value = format!("{{\"id\":{number},\"computed\":[").into_bytes();
    for shift in 0..12 {
        value.extend(format!("{{\"part\":{},\"of\":1024}},", mixed >> shift & 1023).bytes());
    }
    value.extend(b"],\"complete\":true}");
    value
}

/// Returns the share, in percent, that is found of items that are read first this many capacities
/// after they were stored. A capacity is as many items as would fill memory if none was compressed.
fn found_percent(delay_capacities: f64) -> f64 {
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(true).clock(clock);
    let cache = builder.build().unwrap();
    let capacity = (MEMORY_BYTES / (key(1).len() + value(1).len())) as u32;
    let delay = (f64::from(capacity) * delay_capacities) as u32;
    let (mut reads, mut found) = (0, 0);
    for number in 0..6 * capacity {
        cache.set(&key(number), &value(number), Expiry::NEVER).unwrap();
        if number.is_multiple_of(BEHIND) {
            while cache.maintain() {}
        }
        if number >= delay {
            let read = number - delay;
            let has = cache.get(&key(read));
            assert!(has.as_ref().is_none_or(|has| *has == value(read)));
            // First there is something to learn.
            if number >= 3 * capacity {
                reads += 1;
                found += u32::from(has.is_some());
            }
        }
    }
    f64::from(found) * 100.0 / f64::from(reads)
}

#[test]
fn an_item_first_read_long_after_its_store_is_found() {
    // A list of all items has all of the first, and nothing of the second.
    let [within, beyond] = [0.4, 1.6].map(found_percent);
    assert!(within > 90.0 && beyond > 75.0, "{within:.1} % and {beyond:.1} %");
}
