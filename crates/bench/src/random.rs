//! SplitMix64: the seeded generator behind every key, value and choice.
//!
//! Runs must be repeatable from a printed seed, also with a later version of this tool, so the
//! generator is written down here rather than taken from a library that may change it.

/// The golden ratio in 64 bits: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of 64-bit numbers determined by its seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A stream of its own for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number less than `end`, by multiplication: the bias is below `end / 2^64`.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.word())
    }
}

/// The finalizer: consecutive numbers become unrelated words.
#[inline]
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A word as a number in `[0, 1)`.
#[inline]
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn matches_the_published_sequence() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.word(), 6_457_827_717_110_365_317);
        assert_eq!(random.word(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn stays_in_range() {
        let mut random = Random::new(7);
        for _ in 0..10_000 {
            assert!(random.below(3) < 3);
            assert!((0.0..1.0).contains(&random.unit()));
        }
    }
}
