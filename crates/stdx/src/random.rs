//! Random numbers for uses where any spread will do. Knowing one number means knowing the next.

/// The increment of SplitMix64 from one state to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that SplitMix64 makes of another: each bit of the input is mixed into the whole
/// result. Filters on flash depend on it, so it must not change.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The next number of SplitMix64, whose state may be any: for a stream that a printed seed repeats.
pub fn split_mix(state: &mut u64) -> u64 {
    let drawn = mix(*state);
    *state = state.wrapping_add(STEP);
    drawn
}

/// Marsaglia's generator of 64 bits.
#[derive(Debug, Clone)]
pub struct Xorshift(u64);

impl Default for Xorshift {
    fn default() -> Self {
        Self(STEP)
    }
}

impl Xorshift {
    /// The generator of a seed. Similar seeds have dissimilar numbers: each bit of the seed is
    /// mixed into all of them, as SplitMix64 does it.
    pub fn seeded(seed: u64) -> Self {
        let mixed = mix(seed);
        // From 0 the generator would draw nothing else; one seed is mixed to it.
        if mixed == 0 { Self::default() } else { Self(mixed) }
    }

    /// The next number; never 0.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability >= 1.0 || (self.draw() >> 11) as f64 * (-53_f64).exp2() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::{STEP, Xorshift, mix, split_mix};

    /// The first numbers of SplitMix64 from 0, and from its increment.
    #[test]
    fn mixed_numbers_are_those_of_splitmix64() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(STEP), 0x6e78_9e6a_a1b9_65f4);
        let mut state = 0;
        let drawn = [split_mix(&mut state), split_mix(&mut state)];
        assert_eq!(drawn, [mix(0), mix(STEP)]);
    }

    const DRAWS: usize = if cfg!(miri) { 1000 } else { 100_000 };

    #[test]
    fn seeds_close_together_begin_far_apart() {
        let first = |seed| Xorshift::seeded(seed).draw();
        for seed in 0..1000 {
            assert_eq!(first(seed), first(seed));
            let same_bits = (first(seed) ^ first(seed + 1)).count_zeros();
            assert!((8..=56).contains(&same_bits), "{seed}: {same_bits}");
        }
    }

    #[test]
    fn every_seed_draws() {
        for seed in [0, 1, u64::MAX, 0_u64.wrapping_sub(STEP)] {
            assert_ne!(Xorshift::seeded(seed).draw(), 0, "{seed}");
        }
    }

    #[test]
    fn chances_come_true_as_often_as_they_say() {
        let mut random = Xorshift::default();
        for probability in [0.0, 0.1, 0.9, 1.0] {
            let true_times = (0..DRAWS).filter(|_| random.chance(probability)).count();
            let expected = DRAWS as f64 * probability;
            let off = (true_times as f64 - expected).abs();
            assert!(off <= DRAWS as f64 / 200.0, "{true_times} of {expected}");
        }
    }
}
