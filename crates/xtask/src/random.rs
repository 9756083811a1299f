//! Random numbers that a printed seed reproduces: SplitMix64.
//!
//! The generator is a counter stepped by the golden ratio and hashed; it passes the usual tests
//! and fits on a screen. Not for secrets.

use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of random numbers.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `limit`, which is at least 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True once in `odds` times.
    pub fn once_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// A number that no earlier call in this process returned.
pub fn ticket() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_brings_the_same_numbers() {
        let (mut left, mut right) = (Random::new(7), Random::new(7));
        let numbers: Vec<u64> = (0..100).map(|_| left.next()).collect();
        assert!(numbers.iter().all(|number| *number == right.next()));
        assert!((0..1000).all(|_| left.below(3) < 3));
    }
}
