//! Zipf's law over any number of ranks: rank `r`, from 1, has probability in proportion to
//! `1 / r^skew`.
//!
//! Drawn by rejection from the integral of the density (Hörmann and Derflinger,
//! "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS
//! 1996): exact, with no table, at a cost that does not depend on the number of ranks. YCSB's
//! generator approximates the same law (Gray et al., SIGMOD 1994): its first two ranks are drawn
//! exactly and the others nearly.

use crate::random::Random;

/// A prepared distribution.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    ranks: f64,
    skew: f64,
    /// The integral up to the first rank and up to the last, between which a draw falls.
    low: f64,
    high: f64,
    /// No draw this near above the middle of a rank is rejected.
    sure: f64,
}

impl Zipf {
    /// Returns the law over this many ranks.
    pub fn new(ranks: u64, skew: f64) -> Zipf {
        let ranks = ranks as f64;
        let mut zipf = Zipf { ranks, skew, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(ranks + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank, from 0.
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.unit() * (self.low - self.high);
            let place = self.inverse(area);
            let rank = place.round().clamp(1.0, self.ranks);
            if rank - place <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, place: f64) -> f64 {
        place.powf(-self.skew)
    }

    /// Returns `(place^(1 - skew) - 1) / (1 - skew)`, and its limit, the logarithm, at a skew of 1.
    fn integral(&self, place: f64) -> f64 {
        let log = place.ln();
        let exponent = (1.0 - self.skew) * log;
        if exponent.abs() < 1e-8 {
            log * (1.0 + exponent / 2.0)
        } else {
            log * exponent.exp_m1() / exponent
        }
    }

    fn inverse(&self, area: f64) -> f64 {
        let grown = ((1.0 - self.skew) * area).max(-1.0);
        let log = if grown.abs() < 1e-8 {
            area * (1.0 - grown / 2.0)
        } else {
            area * grown.ln_1p() / grown
        };
        log.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::Zipf;
    use crate::random::Random;

    fn counts(ranks: u64, skew: f64, draws: u32) -> Vec<u64> {
        let zipf = Zipf::new(ranks, skew);
        let mut random = Random::new(7);
        let mut counts = vec![0; ranks as usize];
        for _ in 0..draws {
            counts[zipf.rank(&mut random) as usize] += 1;
        }
        counts
    }

    /// Returns the maximum-likelihood exponent of these counts: the one whose mean logarithm of the
    /// rank equals theirs.
    fn likeliest(counts: &[u64]) -> f64 {
        let draws: u64 = counts.iter().sum();
        let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
        let found: f64 = counts.iter().zip(&logs).map(|(count, log)| *count as f64 * log).sum();
        let expected = |skew: f64| {
            let weights = logs.iter().map(|log| ((-skew * log).exp(), log));
            let (top, all) =
                weights.fold((0.0, 0.0), |(top, all), (w, log)| (top + w * log, all + w));
            top / all
        };
        let (mut low, mut high) = (-1.0, 5.0);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if expected(middle) > found / draws as f64 { low = middle } else { high = middle }
        }
        low
    }

    #[test]
    fn the_likeliest_exponent_is_the_one_asked_for() {
        for skew in [0.5, 0.8, 0.99, 1.0, 1.2] {
            let found = likeliest(&counts(10_000, skew, 300_000));
            assert!((found - skew).abs() < 0.01, "{found} for {skew}");
        }
        let uniform = likeliest(&counts(10_000, 0.0, 300_000));
        assert!(uniform.abs() < 0.01, "{uniform}");
    }

    #[test]
    fn counts_pass_a_chi_square_test() {
        for skew in [0.7, 0.99, 1.0, 1.5] {
            let (ranks, draws) = (100, 500_000);
            let counts = counts(ranks, skew, draws);
            let total: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-skew)).sum();
            let square: f64 = (1..=ranks)
                .zip(&counts)
                .map(|(rank, count)| {
                    let wanted = f64::from(draws) * (rank as f64).powf(-skew) / total;
                    (*count as f64 - wanted).powi(2) / wanted
                })
                .sum();
            // 99 degrees of freedom: one right generator in a thousand exceeds 148.2.
            assert!(square < 148.2, "{square} at {skew}");
        }
    }

    #[test]
    fn few_and_very_many_ranks() {
        assert_eq!(counts(1, 0.99, 100), [100]);
        assert_eq!(counts(2, 0.0, 10_000).len(), 2);
        let zipf = Zipf::new(1_000_000_000, 0.99);
        let mut random = Random::new(1);
        let ranks: Vec<u64> = (0..10_000).map(|_| zipf.rank(&mut random)).collect();
        assert!(ranks.iter().all(|rank| *rank < 1_000_000_000));
        assert!(ranks.iter().any(|rank| *rank > 100_000_000) && ranks.contains(&0));
    }
}
