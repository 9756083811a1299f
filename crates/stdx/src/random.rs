//! Random numbers where any spread will do. Whoever knows one knows the next.

/// Marsaglia's generator of 64 bits.
#[derive(Debug, Clone)]
pub struct Xorshift(u64);

impl Default for Xorshift {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Xorshift {
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
    use super::Xorshift;

    #[test]
    fn chances_come_true_as_often_as_they_say() {
        let mut random = Xorshift::default();
        for probability in [0.0, 0.1, 0.9, 1.0] {
            let true_times = (0..100_000).filter(|_| random.chance(probability)).count();
            let expected = 100_000.0 * probability;
            assert!((true_times as f64 - expected).abs() <= 500.0, "{true_times} of {expected}");
        }
    }
}
