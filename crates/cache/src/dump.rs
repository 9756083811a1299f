//! Listing the items of the cache, a part at a time, beside everything else.

use std::sync::atomic::Ordering;

use hot::walk::Cursor;
use index::Hash;
use memory::Place;

use crate::item::Item;
use crate::maintain::PINNED_CHUNKS;
use crate::places::Found;
use crate::session::Session;

/// Leaves of the compressed zone are listed in place of this many chunks of memory each: about as
/// many items, which are decoded.
const CHUNKS_PER_LEAF: usize = 64;

/// How far a listing has come. Lives across sessions.
#[derive(Debug, Default)]
pub struct DumpCursor {
    stage: Stage,
    hot: Cursor,
    compressed: compressed::Cursor,
    flash: ::flash::Walk,
}

/// Bits of a cursor's number for the chunk within a slab: more than there ever are.
const CHUNK_BITS: u32 = 24;
/// Low bits of a cursor's number that say which tier it is in.
const STAGE_BITS: u32 = 2;
const STAGE_HOT: u64 = 1;
const STAGE_BELOW: u64 = 2;
const STAGE_FLASH: u64 = 3;
/// Bits of a cursor's number for the item within a segment: more than there ever are.
const ITEM_BITS: u32 = 24;
/// Low bits of a hash that a cursor's number does without: no leaf is that deep, and the number
/// stays exact in a client that keeps it as a binary one of 64 bits.
const HASH_BITS_LOST: u32 = 14;

impl DumpCursor {
    /// Returns a place in a listing, from its number; 0 is the beginning. `None` if no listing
    /// comes by there. On flash it has to read again what the listing that had the number knew.
    pub fn from_number(number: u64) -> Option<Self> {
        let place = number >> STAGE_BITS;
        match number & ((1 << STAGE_BITS) - 1) {
            0 if number == 0 => Some(Self::default()),
            STAGE_HOT => {
                let slab = u32::try_from(place >> CHUNK_BITS).ok()?;
                let chunk = (place & ((1 << CHUNK_BITS) - 1)) as u32;
                Some(Self { hot: Cursor::at(slab, chunk), ..Self::default() })
            }
            STAGE_BELOW if place.leading_zeros() >= HASH_BITS_LOST => {
                let compressed = compressed::Cursor::at(place << HASH_BITS_LOST);
                Some(Self { stage: Stage::Compressed, compressed, ..Self::default() })
            }
            // Open units have no places among segments.
            STAGE_FLASH if place == 0 => Some(Self { stage: Stage::Flash, ..Self::default() }),
            STAGE_FLASH => {
                let segment = u32::try_from((place >> ITEM_BITS).checked_sub(1)?).ok()?;
                let item = (place & ((1 << ITEM_BITS) - 1)) as u32;
                let flash = ::flash::Walk::at(segment, item);
                Some(Self { stage: Stage::Flash, flash, ..Self::default() })
            }
            _ => None,
        }
    }

    /// Returns its number, never 0.
    pub fn number(&self) -> u64 {
        match self.stage {
            Stage::Hot => {
                let (slab, chunk) = self.hot.place();
                let place = u64::from(slab) << CHUNK_BITS | u64::from(chunk);
                place << STAGE_BITS | STAGE_HOT
            }
            Stage::Compressed => {
                self.compressed.hash() >> HASH_BITS_LOST << STAGE_BITS | STAGE_BELOW
            }
            Stage::Flash => {
                let place = self.flash.place();
                let place = place.map_or(0, |(segment, item)| {
                    (u64::from(segment) + 1) << ITEM_BITS | u64::from(item)
                });
                place << STAGE_BITS | STAGE_FLASH
            }
        }
    }

    /// Whether the items in memory have been listed: from there on it may have to wait for flash.
    pub fn is_on_flash(&self) -> bool {
        self.stage == Stage::Flash
    }
}

/// Which tier is listed: one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Hot,
    Compressed,
    Flash,
}

/// The outcome of a part of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dumped {
    /// There may be more.
    More,
    /// Something has to be read from flash first, as for [`Lookup::Pending`](crate::Lookup).
    Pending,
    /// That was the end.
    End,
}

impl Session<'_> {
    /// Returns a place in a listing, within memory that is in use, chosen by `random`.
    pub fn cursor_anywhere(&self, random: u64) -> DumpCursor {
        let slabs = u64::from(self.cache.arena.numbers_end()).max(1);
        let slab = u32::try_from(random % slabs).unwrap_or(0);
        DumpCursor { hot: Cursor::at(slab, 0), ..DumpCursor::default() }
    }

    /// Visits the items in the next `chunks_max` chunks of memory, or about as many in lower tiers.
    /// Items stored or moved while a listing goes on may be missed or come twice.
    pub fn dump(
        &self,
        cursor: &mut DumpCursor,
        chunks_max: usize,
        visit: impl FnMut(&Item<'_>),
    ) -> Dumped {
        let (more, next) = match cursor.stage {
            Stage::Hot => (self.dump_hot(&mut cursor.hot, chunks_max, visit), Stage::Compressed),
            Stage::Compressed => {
                let leaves_max = (chunks_max / CHUNKS_PER_LEAF).max(1);
                (self.dump_compressed(&mut cursor.compressed, leaves_max, visit), Stage::Flash)
            }
            Stage::Flash => return self.dump_flash(&mut cursor.flash, visit),
        };
        if !more {
            cursor.stage = next;
        }
        if more || self.has_lower() { Dumped::More } else { Dumped::End }
    }

    fn dump_hot(
        &self,
        cursor: &mut Cursor,
        chunks_max: usize,
        mut visit: impl FnMut(&Item<'_>),
    ) -> bool {
        let (cache, mut left) = (self.cache, chunks_max);
        let mut met: Vec<(Hash, Place)> = Vec::new();
        while left > 0 {
            let step = left.min(PINNED_CHUNKS);
            // A class's lock is held there, for which stores wait: items are looked up after it has
            // opened.
            let more = cache.hot.walk(&self.guard, cursor, step, |item, place| {
                if !cache.is_gone(item) {
                    met.push((cache.hash(item.key()), place));
                }
            });
            for (hash, place) in met.drain(..) {
                // The index may not tell another item there from it.
                let found = cache.find_at(&self.guard, hash, place);
                let is_it = |found: &Found<'_>| {
                    cache.hash(found.item.key()) == hash && !cache.is_gone(found.item)
                };
                if let Some(found) = found.filter(is_it) {
                    let mark = found.item.mark().load(Ordering::Relaxed);
                    visit(&Item::hot(cache, found, mark));
                }
            }
            if !more {
                return false;
            }
            left -= step;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, Cache, Condition};

    /// Regression: it was drawn below the number of slabs, as if their numbers had no gaps: behind
    /// these nothing was ever found.
    #[test]
    fn a_listing_may_begin_in_any_slab_after_the_limit_was_lowered() {
        let cache = Cache::builder().memory_bytes(8 << 20).compress(false).build().expect("small");
        cache.set_memory_bytes(64 << 20).expect("it may grow");
        for number in 0_u32..100_000 {
            let key = number.to_le_bytes();
            let put = cache.put(&key, &[7; 500], Attributes::default(), Condition::Always);
            put.expect("there is room");
            if number % 1000 == 0 {
                while cache.maintain() {}
            }
        }
        cache.set_memory_bytes(16 << 20).expect("it may shrink");
        while cache.arena.excess_slabs() > 0 {
            cache.maintain();
        }
        let (session, mut cursor, mut last) = (cache.session(), DumpCursor::default(), 0);
        while cursor.stage == Stage::Hot {
            let slab = cursor.hot.place().0;
            session.dump(&mut cursor, 1, |_| last = slab);
        }
        assert!(last as usize > cache.arena.used_slabs(), "slab {last}");
        let begins = |random| session.cursor_anywhere(random).hot.place().0;
        assert!((0..10_000).any(|random| begins(random) == last), "slab {last}");
    }
}
