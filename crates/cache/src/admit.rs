//! Which items deserve to move down: a block is written anew for each, flash wears out, and of what
//! left the hot zone without ever having been read most is never asked for.
//!
//! While the compressed zone is full, an item that was not read is let go and only its hash is
//! *remembered*. If it is stored again, and that is still remembered when it leaves the hot zone
//! once more, it was wanted: it moves down, and counts as accessed there. The same holds for what
//! had come up from below. A few of those that were not read move down all the same, and of those
//! that cost much more than is typical most do, so that what is read much later has a chance.
//!
//! That is what S3-FIFO (Yang and others, SOSP 2023) does with a small queue, ghosts and a main
//! one; here the hot zone is the small queue, but what is read again soon lives there, too.

use std::sync::atomic::{AtomicU8, Ordering};

use index::Hash;
use policy::cost::{Cost, Typical};
use stdx::random::Xorshift;

use crate::cache::Cache;

/// Bytes of the memory limit for each byte of the table: with blocks that compress to a third, one
/// for each item of 600 bytes below.
const BYTES_PER_PLACE: usize = 256;
/// Of the items that were not read, so many move down.
const CHANCE: f64 = 1.0 / 16.0;

impl Cache {
    /// Remembers an item that leaves the hot zone, or comes up.
    pub(crate) fn remember(&self, hash: Hash) {
        if let Some(remembered) = &self.remembered {
            remembered.add(hash.0);
        }
    }

    /// Whether an item left the hot zone, or came up, a moment ago.
    pub(crate) fn remembers(&self, hash: Hash) -> bool {
        self.remembered.as_ref().is_some_and(|remembered| remembered.has(hash.0))
    }
}

/// Hashes of items that left a moment ago: 8 bits of each, in the place that the hash says; a later
/// one takes the place. One look in 256 is wrong, and then an item moves down that need not.
pub(crate) struct Remembered {
    places: Box<[AtomicU8]>,
}

impl Remembered {
    /// A table for so much memory.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        let places = (memory_bytes / BYTES_PER_PLACE).max(1);
        Self { places: (0..places).map(|_| AtomicU8::new(0)).collect() }
    }

    pub(crate) fn add(&self, hash: u64) {
        let (place, tag) = self.place(hash);
        place.store(tag, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, hash: u64) -> bool {
        let (place, tag) = self.place(hash);
        place.load(Ordering::Relaxed) == tag
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.places.len()
    }

    fn place(&self, hash: u64) -> (&AtomicU8, u8) {
        // Mixed, because the zone and the index go by the hash's own ends.
        let mixed = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let at = (u128::from(mixed) * self.places.len() as u128) >> u64::BITS;
        (&self.places[at as usize], (mixed as u8).max(1))
    }
}

/// Who of those that were not read moves down all the same. For one thread.
#[derive(Debug, Default)]
pub(crate) struct Lottery {
    typical: Typical,
    random: Xorshift,
}

impl Lottery {
    /// Whether an item with this cost wins.
    pub(crate) fn draw(&mut self, cost: Cost) -> bool {
        let lets_go = self.typical.leaves(cost) * (1.0 - CHANCE);
        !self.random.chance(lets_go)
    }
}

#[cfg(test)]
mod tests {
    use super::{Lottery, Remembered};
    use policy::cost::Cost;

    #[test]
    fn what_left_is_remembered_until_others_take_its_place() {
        let remembered = Remembered::new(256 << 10);
        let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..100).for_each(|number| remembered.add(hash(number)));
        let known =
            |range: std::ops::Range<u64>| range.filter(|&n| remembered.has(hash(n))).count();
        assert!(known(0..100) >= 90);
        assert!(known(1000..2000) <= 10);
        (100..20_000).for_each(|number| remembered.add(hash(number)));
        assert!(known(0..100) <= 10);
        assert_eq!(remembered.memory_bytes(), 1024);
    }

    #[test]
    fn most_dear_items_win_and_few_others() {
        let mut lottery = Lottery::default();
        let (usual, dear) = (Cost::from_us(100), Cost::from_us(10_000));
        let mut wins = [0, 0];
        for _ in 0..10_000 {
            (0..9).for_each(|_| wins[0] += usize::from(lottery.draw(usual)));
            wins[1] += usize::from(lottery.draw(dear));
        }
        assert!((5000..6300).contains(&wins[0]), "{wins:?}");
        assert!(wins[1] > 9500, "{wins:?}");
    }
}
