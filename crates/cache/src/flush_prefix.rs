//! Flushing by prefix: everything stored so far whose key begins with some bytes is gone at once.
//! One step for any number of items, in every tier, and items stored later are not touched.
//!
//! Each tier tells the items that a flush takes in its own way:
//!
//! | tier | gone is | until |
//! | --- | --- | --- |
//! | hot | an item with a lower number, under a key with the prefix | a walk has removed it |
//! | compressed | an item under a key with the prefix | a walk has marked it dead |
//! | flash | a row before a point in the log, under such a key | its segments are scrubbed |
//!
//! Hot items have numbers ([`crate::flush`]), and units on flash a place in the order of writing
//! (`flash::flushed`). Rows in the compressed zone have neither: blocks are written anew all the
//! time, and a number for each row would be bytes that compress badly. So as long as the walk for a
//! prefix is under way, no item with it is found there, whatever its age, and none with it is
//! demoted. The walk decodes each block once, a few seconds for gigabytes.
//!
//! # What must not slip through
//!
//! Hot items, and changes prepared from an item, in any tier, as with a whole flush: they are
//! numbered, and the count of flushes is odd until all tiers have the flush. In the lower tiers:
//!
//! - An item that is demoted is revealed under its key's lock, if its prefix is not being flushed.
//!   A thread that was asking that when the flush began is pinned, and the walk begins after that.
//! - An item that leaves the zone for flash is led there under the same question, within the lock
//!   of flash's writer. If the answer came before the flush, so does the item's row. It is not
//!   found from the flush's first step there on, and the second, which takes that lock, drops it.
//! - A reader asks after it has found a row, and the flush stays in the table until every session
//!   has ended that was open when the walk ended.
//!
//! The whole flush is on the device when the call returns; an image, or what is saved to flash at a
//! stop, holds no flushed item.

use std::fmt;

use crate::cache::Cache;
use crate::flash_tier::FlashIndexAccess;
use crate::flushed_prefixes::PREFIX_BYTES_MAX;
use crate::time_slice::TimeSlice;

/// Leaves of the compressed zone that the walk looks at in one turn: about a millisecond.
const WALK_LEAVES: usize = 32;
/// Of these, as many as are looked at while it is pinned.
const PINNED_LEAVES: usize = 2;

/// Why a prefix is refused. Then nothing is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixRefused {
    /// It is empty, or longer than [`PREFIX_BYTES_MAX`].
    Length,
    /// As many prefixes are being flushed as there is room for.
    TooMany,
}

impl fmt::Display for PrefixRefused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Length => "a prefix has 1 to 250 bytes",
            Self::TooMany => "too many prefixes are being flushed",
        })
    }
}

impl std::error::Error for PrefixRefused {}

impl Cache {
    /// Makes everything stored before gone whose key begins with `prefix`. Items stored later are
    /// there.
    ///
    /// # Errors
    ///
    /// Nothing is flushed, for the reason returned.
    pub fn flush_prefix(&self, prefix: &[u8]) -> Result<(), PrefixRefused> {
        if !(1..=PREFIX_BYTES_MAX).contains(&prefix.len()) {
            return Err(PrefixRefused::Length);
        }
        self.tick();
        let (flush, tier) = (&self.moment.flush, self.flash.as_deref());
        let has_room_on_flash = || tier.is_none_or(|tier| tier.flash.has_room_for_prefix(prefix));
        // Before any change has to wait, and to be prepared anew.
        if !has_room_on_flash() || !flush.has_room_for(prefix) {
            return Err(PrefixRefused::TooMany);
        }
        let begun = flush.begin(|| {
            // Another flush may have taken the room since.
            if !has_room_on_flash() {
                return Err(PrefixRefused::TooMany);
            }
            flush
                .begin_prefix(prefix, || self.next_sequence())
                .map_err(|_| PrefixRefused::TooMany)?;
            // After the number, and before a settled count can be seen, as with a whole flush.
            Ok(tier.map(|tier| tier.flash.begin_flush_prefix(prefix)))
        })?;
        // No other thread waits for the rest: nothing with the prefix is found there any more. But
        // only then is it gone also if the process is killed, and may the client know.
        if let Some((tier, begun)) = tier.zip(begun) {
            tier.flash.end_flush_prefix(begun, &FlashIndexAccess::new(self));
        }
        self.call_for_work();
        Ok(())
    }

    /// Returns how many prefixes are being flushed in memory, and on flash.
    pub(crate) fn prefixes_flushing(&self) -> [u64; 2] {
        let on_flash = self.flash.as_deref().map_or(0, |tier| tier.flash.prefixes_flushed());
        [self.moment.flush.prefixes() as u64, on_flash as u64]
    }

    /// Whether any is being flushed in memory.
    pub(crate) fn flushes_prefixes(&self) -> bool {
        self.moment.flush.prefixes() > 0
    }

    /// Whether a key's item in the compressed zone is gone because a prefix of the key is being
    /// flushed. Asked when the item has been found, or under the key's lock.
    #[inline]
    pub(crate) fn is_compressed_flushed(&self, key: &[u8]) -> bool {
        self.moment.flush.has_prefix_of(key)
    }

    /// Whether a key's item at a place on flash was flushed with a prefix of the key.
    pub(crate) fn is_flushed_on_flash(&self, place: ::flash::Place, key: &[u8]) -> bool {
        self.flash.as_deref().is_some_and(|tier| tier.flash.is_flushed(place, key))
    }

    /// Removes items flushed by prefix from the next part of the compressed zone. Returns whether
    /// there is more of it.
    pub(crate) fn walk_compressed(
        &self,
        cursor: &mut compressed::Cursor,
        turn: &mut TimeSlice,
    ) -> bool {
        let Some(compressed) = self.compressed.as_deref() else { return false };
        let takes = |key: &[u8]| self.is_compressed_flushed(key);
        (0..WALK_LEAVES / PINNED_LEAVES).all(|_| {
            let more = compressed.with_any_reader(|reader| {
                let guard = self.epochs.pin();
                compressed.zone.bury_where(&guard, cursor, PINNED_LEAVES, reader, takes)
            });
            turn.end_if_long(&*self.clock);
            more
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a thread with a change began anew each time another client's flush was refused.
    #[test]
    fn a_prefix_that_is_refused_disturbs_nobody() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        let flush = |number: u32| cache.flush_prefix(format!("{number}:").as_bytes());
        let last = (0..).find(|&number| flush(number).is_err()).expect("there is room for some");
        let before = cache.moment.flush.settled_count();
        assert_eq!(flush(last), Err(PrefixRefused::TooMany));
        assert!(cache.moment.flush.is_unchanged_since(before));
        assert_eq!(flush(last - 1), Ok(()), "in its own place");
        assert!(!cache.moment.flush.is_unchanged_since(before));
    }
}
