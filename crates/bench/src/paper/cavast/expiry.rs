//! Items that expire, and the ways to notice it.
//!
//! An item is valid for a number of requests, drawn uniformly around a mean. A later read stores it
//! anew, in the same place. An item that is not read any more holds its memory until it is found
//! and *reclaimed*: by a walk over all items, or by the pass over the slab that moves hot and cold
//! items anyway. The time of expiry is in the header, or roughly in four bits beside the item's
//! temperature.

use super::cells::{Cells, FREE};
use super::memory::TEMPERATURE_BASE;
use crate::random::Random;

/// How expired items are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryKind {
    /// Nothing expires.
    Never,
    /// Expired items are not looked for.
    Nobody,
    /// A walk over the headers of all items, once in the time in which passes see all of them.
    Scan,
    /// The pass, which reads all headers for it.
    PassHeaders,
    /// The pass, which reads four bits of each chunk.
    PassBeside,
}

/// The mean validity in requests, for each slab of the store.
const VALID_REQUESTS: u64 = 2048;
/// Added to the seed, to give a stream of its own.
const EXPIRY_SEED: u64 = 8;
/// The four bits resolve the time to the mean divided by this.
const STEPS: u64 = 8;

/// The times at which items expire.
pub struct Expiries {
    pub kind: ExpiryKind,
    /// The request at which an item becomes invalid; 0 once it was reclaimed.
    ends: Vec<u64>,
    mean: u64,
    beside: Vec<u64>,
    random: Random,
    pub reclaimed: u64,
}

impl Expiries {
    /// Returns the expiries of items that have just been stored.
    pub fn new(kind: ExpiryKind, cells: &Cells, count: u32, seed: u64) -> Expiries {
        let mean = VALID_REQUESTS * cells.slabs.len() as u64;
        let mut random = Random::new(seed.wrapping_add(EXPIRY_SEED));
        let expires = kind != ExpiryKind::Never;
        // As if stores had been going on for long, some end soon.
        let ends = (0..if expires { count } else { 0 }).map(|_| 1 + random.below(mean * 3 / 2));
        // After the temperatures, which take half a byte of each chunk, too.
        let mut at = TEMPERATURE_BASE + cells.bytes() / 8;
        let beside = cells.slabs.iter().map(|slab| {
            let base = at;
            at += (slab.items.len() as u64).div_ceil(2);
            base
        });
        let (ends, beside) = (ends.collect(), beside.collect());
        Expiries { kind, ends, mean, beside, random, reclaimed: 0 }
    }

    /// Reads an item, and stores it anew if it has expired.
    pub fn read(&mut self, item: u32, now: u64) {
        let Some(end) = self.ends.get_mut(item as usize) else {
            return;
        };
        if *end <= now {
            *end = now + self.mean / 2 + self.random.below(self.mean);
        }
    }

    /// Returns whether an item was reclaimed.
    pub fn is_gone(&self, item: u32) -> bool {
        self.ends.get(item as usize) == Some(&0)
    }

    /// Returns whether passes reclaim.
    pub fn is_in_passes(&self) -> bool {
        matches!(self.kind, ExpiryKind::PassHeaders | ExpiryKind::PassBeside)
    }

    /// Returns the address of the four bits of a slab's chunks.
    pub fn beside(&self, slab: u32) -> u64 {
        self.beside[slab as usize]
    }

    /// Reclaims the expired items of a slab.
    pub fn reclaim(&mut self, cells: &Cells, slab: u32, now: u64) {
        for item in cells.slabs[slab as usize].items.iter().filter(|item| **item != FREE) {
            let end = &mut self.ends[*item as usize];
            // An expiry known in steps has only certainly passed when its step has ended.
            let known = match self.kind {
                ExpiryKind::PassBeside => end.next_multiple_of((self.mean / STEPS).max(1)),
                _ => *end,
            };
            if *end != 0 && known <= now {
                *end = 0;
                self.reclaimed += 1;
            }
        }
    }

    /// Returns the share of all items that have expired and hold memory.
    pub fn held_share(&self, now: u64) -> f64 {
        let held = self.ends.iter().filter(|end| **end != 0 && **end <= now).count();
        held as f64 / self.ends.len().max(1) as f64
    }
}
