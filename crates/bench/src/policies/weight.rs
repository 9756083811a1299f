//! The weight of an item: 1 where the cache is measured in objects; where it is measured in memory,
//! all bytes that a real cache would keep for it.
//!
//! Memory is charged in two parts. Every cache has to find an item and to know its lengths, expiry
//! and flags: `BASE_BYTES`. The policy's own part is in the policy's file. Both are the needs of a
//! careful implementation, not those of an existing one, so that the curves compare decisions. Two
//! exceptions model a whole system: memcached, below, and a cache whose bytes per item were
//! measured.

use crate::trace::Request;

/// Bytes of every cache for an item, besides key, value and the policy's part: a slot of 8 in a
/// table that is nearly full, lengths of 1 and 3, an expiry of 4.
pub const BASE_BYTES: u32 = 16;

/// memcached's `item`, with the CAS unique that it keeps by default.
const MEMCACHED_HEADER_BYTES: u32 = 48 + 8;
/// The NUL after memcached's key and the line end after its value.
const MEMCACHED_ENDS_BYTES: u32 = 1 + 2;
/// A pointer in memcached's table for each item; it doubles at 1.5 items for each pointer.
const MEMCACHED_SLOT_BYTES: u32 = 8;
/// memcached's smallest chunk, and the factor to the next class.
const MEMCACHED_CHUNK_BYTES_MIN: u32 = 96;
const MEMCACHED_FACTOR: f64 = 1.25;
/// Larger items are stored in several chunks of this size.
const MEMCACHED_CHUNK_BYTES_MAX: u32 = 512 << 10;
const MEMCACHED_ALIGN_BYTES: u32 = 8;

/// memcached's overhead of an item, besides key and value.
pub const MEMCACHED_IN_WORDS: &str = "59 bytes, rounded up to a chunk, and 8 in the table";

/// The measure of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Every item weighs 1.
    Objects,
    /// Key and value, and this many bytes per item.
    Bytes(u32),
    /// memcached's chunk for the item, and its slot in the table.
    Memcached,
}

impl Scale {
    /// Returns the weight of the item in a request.
    pub fn weigh(self, request: &Request) -> u32 {
        let data_bytes = u32::from(request.key_bytes).saturating_add(request.value_bytes);
        match self {
            Scale::Objects => 1,
            Scale::Bytes(overhead) => data_bytes.saturating_add(overhead).max(1),
            Scale::Memcached => {
                let own = MEMCACHED_HEADER_BYTES + MEMCACHED_ENDS_BYTES;
                memcached_chunk_bytes(data_bytes.saturating_add(own)) + MEMCACHED_SLOT_BYTES
            }
        }
    }
}

/// Returns the chunk that memcached takes for this many bytes.
fn memcached_chunk_bytes(bytes: u32) -> u32 {
    let mut chunk = MEMCACHED_CHUNK_BYTES_MIN;
    while chunk < bytes {
        let next = (f64::from(chunk) * MEMCACHED_FACTOR) as u32;
        chunk = next.next_multiple_of(MEMCACHED_ALIGN_BYTES);
        if chunk >= MEMCACHED_CHUNK_BYTES_MAX {
            return bytes.next_multiple_of(MEMCACHED_ALIGN_BYTES);
        }
    }
    chunk
}

#[cfg(test)]
mod tests {
    use super::{Scale, memcached_chunk_bytes};
    use crate::policies::check::reads;

    #[test]
    fn memcached_classes_are_those_that_it_prints() {
        // The first classes of `memcached -vv`.
        let classes = [96, 120, 152, 192, 240, 304, 384, 480, 600, 752, 944, 1184];
        for class in classes {
            assert_eq!(memcached_chunk_bytes(class), class);
            assert_eq!(memcached_chunk_bytes(class - 7), class);
        }
    }

    #[test]
    fn memcached_items_weigh_what_density_finds() {
        // `larder-bench density` finds 80, 75 and 92 bytes beyond these keys and values, of which
        // some are not for items.
        let beyond = |key_bytes: u16, value_bytes: u32| {
            let mut request = reads(&[0])[0];
            (request.key_bytes, request.value_bytes) = (key_bytes, value_bytes);
            Scale::Memcached.weigh(&request) - u32::from(key_bytes) - value_bytes
        };
        assert_eq!([beyond(16, 32), beyond(24, 100), beyond(30, 270)], [80, 76, 92]);
    }
}
