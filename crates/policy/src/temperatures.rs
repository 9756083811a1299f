//! Temperatures in their memory format: four bits each, sixteen to a word, so that many are read
//! and halved at once.
//!
//! ```text
//!   63       60                       7    4 3    0
//!   | chunk 15 |         ...         | chunk 1 | chunk 0 |
//! ```

/// The highest temperature of an item.
pub const TEMPERATURE_MAX: u8 = 15;

/// The temperatures of sixteen chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TemperatureWord(pub u64);

/// Bits of a temperature.
const BITS: usize = 4;
/// The lowest bit of each.
const LOWEST: u64 = 0x1111_1111_1111_1111;

impl TemperatureWord {
    /// The number of temperatures in a word.
    pub const COUNT: usize = u64::BITS as usize / BITS;

    /// One of them.
    #[inline]
    pub fn get(self, at: usize) -> u8 {
        (self.0 >> (at * BITS)) as u8 & TEMPERATURE_MAX
    }

    /// The word with another temperature at `at`.
    #[inline]
    pub fn with(self, at: usize, temperature: u8) -> Self {
        assert!(temperature <= TEMPERATURE_MAX);
        let shift = at * BITS;
        Self(self.0 & !(u64::from(TEMPERATURE_MAX) << shift) | u64::from(temperature) << shift)
    }

    /// The word with the one at `at` warmer by an access.
    #[inline]
    pub fn heated(self, at: usize) -> Self {
        self.with(at, (self.get(at) + 1).min(TEMPERATURE_MAX))
    }

    /// The word with all temperatures halved.
    #[inline]
    pub fn aged(self) -> Self {
        // Halving all at once moves a bit from one to the next, which is masked off.
        Self(self.0 >> 1 & (LOWEST * 7))
    }

    /// Whether one of them may be as warm as this: never `false` where one is.
    #[inline]
    pub fn may_reach(self, temperature: u8) -> bool {
        let highest_bit = temperature.max(1).ilog2();
        let bits = u64::from(TEMPERATURE_MAX) >> highest_bit << highest_bit;
        self.0 & (LOWEST * bits) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Xorshift;

    #[test]
    fn sixteen_temperatures_do_not_touch_each_other() {
        let (mut word, mut naive) = (TemperatureWord::default(), [0_u8; TemperatureWord::COUNT]);
        let mut random = Xorshift::seeded(5);
        for _ in 0..50_000 {
            let at = random.draw() as usize % TemperatureWord::COUNT;
            match random.draw() % 20 {
                0 => {
                    word = word.aged();
                    naive.iter_mut().for_each(|it| *it /= 2);
                }
                1 => {
                    naive[at] = (random.draw() % 16) as u8;
                    word = word.with(at, naive[at]);
                }
                _ => {
                    naive[at] = (naive[at] + 1).min(15);
                    word = word.heated(at);
                }
            }
            assert_eq!(std::array::from_fn(|at| word.get(at)), naive);
            let hottest = naive.iter().max().copied().unwrap_or(0);
            for temperature in 1..=TEMPERATURE_MAX {
                let power = 1 << temperature.ilog2();
                assert_eq!(word.may_reach(temperature), hottest >= power, "{naive:?}");
            }
        }
    }
}
