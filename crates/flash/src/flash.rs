//! The tier as its caller sees it.

use std::io;

use codec::record::Record;

use crate::{Links, Place};

/// What a tier is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a segment: a power of two from 64 KiB to 8 MiB.
    pub segment_bytes: usize,
    /// The level of zstd.
    pub level: i32,
    /// The seed of the hashes, for a new device; an old one has its own ([`Flash::hash_seed`]).
    pub hash_seed: [u8; 16],
    /// What tells this boot of the machine from every other.
    pub boot_id: [u8; 16],
}

/// Why an item was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A segment has no room for it.
    TooLarge,
    /// What was taken before is not written yet: after [`Flash::maintain`] there is room again.
    Busy,
    /// The device does not take writes.
    Failing,
    /// The tier is closed.
    Closed,
}

/// The tier.
pub struct Flash {}

impl Flash {
    /// The seed of the hashes by which items are stored here.
    pub fn hash_seed(&self) -> [u8; 16] {
        todo!()
    }

    /// Takes an item into the open unit. Its place is staged: a later `stage`, or `maintain`, seals
    /// the unit and moves the item by [`Links::relocate`]. The caller leads to the place at once,
    /// or forgets it.
    pub fn stage(
        &self,
        hash: u64,
        record: &Record<'_>,
        links: &dyn Links,
    ) -> Result<Place, Refused> {
        todo!()
    }

    /// Says that the key's item at this place is no longer its value. Takes no lock, and writes at
    /// most one note: it may be called under a lock of the index.
    pub fn forget(&self, place: Place, hash: u64) {
        todo!()
    }

    /// Writes full segments, and collects when few are free. `true` if there is more to do.
    pub fn maintain(&self, links: &dyn Links, now: u32) -> bool {
        todo!()
    }

    /// Makes everything stored so far void, on the device too.
    pub fn flush(&self) {
        todo!()
    }

    /// Gives the index the items of the next few segments of those found at the start, the oldest
    /// first. `true` while there are more.
    pub fn recover(&self, links: &dyn Links, now: u32) -> bool {
        todo!()
    }

    /// Seals and writes all, and marks the device as closed cleanly. Nothing is taken after it.
    pub fn close(&self, links: &dyn Links) -> io::Result<()> {
        todo!()
    }
}
