//! Items that expire, and who notices.
//!
//! An item is valid for a number of requests, drawn evenly around a mean. A read that comes later
//! stores it anew, in the same place. One that is not read any more holds its memory until somebody
//! comes by and *reclaims* it: a walk over all items, or the pass over the slab that moves hot and
//! cold items anyway. The header says when an item expires; or four bits beside its temperature do,
//! roughly.

use super::cells::{Cells, FREE};
use super::memory::TEMPERATURE_BASE;
use crate::random::Random;

/// Who looks for expired items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryKind {
    /// Nothing expires.
    Never,
    /// Nobody.
    Nobody,
    /// A walk over the headers of all items, once in the time in which passes see all of them.
    Scan,
    /// The pass, which reads all headers for it.
    PassHeaders,
    /// The pass, which reads four bits of each chunk.
    PassBeside,
}

/// Requests for which an item is valid, for each slab of the store, on the average.
const VALID_REQUESTS: u64 = 2048;
/// Added to the seed, so that this is a stream of its own.
const EXPIRY_SEED: u64 = 8;
/// The four bits know the time in so many steps of the mean.
const STEPS: u64 = 8;

/// When items expire.
pub struct Expiries {
    pub kind: ExpiryKind,
    /// The request with which an item becomes invalid; 0 once it was reclaimed.
    ends: Vec<u64>,
    mean: u64,
    beside: Vec<u64>,
    random: Random,
    pub reclaimed: u64,
}

impl Expiries {
    /// Of items that have just been stored.
    pub fn new(kind: ExpiryKind, cells: &Cells, count: u32, seed: u64) -> Expiries {
        let mean = VALID_REQUESTS * cells.slabs.len() as u64;
        let mut random = Random::new(seed.wrapping_add(EXPIRY_SEED));
        let expires = kind != ExpiryKind::Never;
        // As if stores had been going on for long, some end soon.
        let ends = (0..if expires { count } else { 0 }).map(|_| 1 + random.below(mean * 3 / 2));
        // Behind the temperatures, which take half a byte of each chunk, too.
        let mut at = TEMPERATURE_BASE + cells.bytes() / 8;
        let beside = cells.slabs.iter().map(|slab| {
            let base = at;
            at += (slab.items.len() as u64).div_ceil(2);
            base
        });
        let (ends, beside) = (ends.collect(), beside.collect());
        Expiries { kind, ends, mean, beside, random, reclaimed: 0 }
    }

    /// An item is read, and stored anew if it has expired.
    pub fn read(&mut self, item: u32, now: u64) {
        let Some(end) = self.ends.get_mut(item as usize) else {
            return;
        };
        if *end <= now {
            *end = now + self.mean / 2 + self.random.below(self.mean);
        }
    }

    /// Whether an item was reclaimed.
    pub fn is_gone(&self, item: u32) -> bool {
        self.ends.get(item as usize) == Some(&0)
    }

    /// Whether passes reclaim.
    pub fn is_in_passes(&self) -> bool {
        matches!(self.kind, ExpiryKind::PassHeaders | ExpiryKind::PassBeside)
    }

    /// Where the four bits of a slab's chunks are.
    pub fn beside(&self, slab: u32) -> u64 {
        self.beside[slab as usize]
    }

    /// Takes back what has expired in a slab.
    pub fn reclaim(&mut self, cells: &Cells, slab: u32, now: u64) {
        for item in cells.slabs[slab as usize].items.iter().filter(|item| **item != FREE) {
            let end = &mut self.ends[*item as usize];
            // Who knows the time in steps cannot tell before the step has ended.
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

    /// The share of all items that have expired and hold memory.
    pub fn held_share(&self, now: u64) -> f64 {
        let held = self.ends.iter().filter(|end| **end != 0 && **end <= now).count();
        held as f64 / self.ends.len().max(1) as f64
    }
}
