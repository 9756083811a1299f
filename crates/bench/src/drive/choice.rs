//! The choice of a run's keys: uniform or zipfian, drawn before the run from a printed seed.
//!
//! Both are drawn like a workload's (`workload::popularity`), which spreads the ranks over the key
//! space, so that popular keys are not neighbours in memory merely because they were stored one
//! after the other.

use clap::ValueEnum;
use serde::Serialize;

use crate::random::Random;
use crate::workload::popularity;

/// The skew that YCSB and the papers use.
const ZIPF_SKEW: f64 = 0.99;
/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// Every key is as likely as the next.
    Uniform,
    /// The key of rank `r` has probability proportional to `1 / r^0.99`.
    Zipfian,
}

/// Draws `draws` indices less than `keys`.
pub fn draw(choice: Choice, keys: u64, draws: usize, seed: u64) -> Vec<u32> {
    let popularity = match choice {
        Choice::Uniform => popularity::Choice::Uniform,
        Choice::Zipfian => popularity::Choice::Zipfian,
    };
    let mut chooser = popularity.load(keys, ZIPF_SKEW).expect("neither choice reads a file");
    let mut random = Random::new(seed);
    (0..draws).map(|_| chooser.read(&mut random) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::{Choice, draw};
    use crate::workload::popularity::SPREAD;

    #[test]
    fn the_same_seed_draws_the_same_keys() {
        for choice in [Choice::Uniform, Choice::Zipfian] {
            assert_eq!(draw(choice, 1000, 100, 9), draw(choice, 1000, 100, 9));
            assert_ne!(draw(choice, 1000, 100, 9), draw(choice, 1000, 100, 10));
        }
    }

    #[test]
    fn uniform_draws_reach_everything_about_equally() {
        let mut counts = [0u32; 10];
        for index in draw(Choice::Uniform, 10, 100_000, 1) {
            counts[index as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipfian_frequencies_follow_the_ranks() {
        let keys = 1000;
        let draws = 1_000_000;
        let mut counts = vec![0u32; keys as usize];
        for index in draw(Choice::Zipfian, keys, draws, 1) {
            counts[index as usize] += 1;
        }
        let total: f64 = (1..=keys).map(|rank| (rank as f64).powf(-0.99)).sum();
        for rank in [1u64, 2, 10, 100] {
            let index = ((rank - 1) * SPREAD % keys) as usize;
            let wanted = draws as f64 * (rank as f64).powf(-0.99) / total;
            let got = f64::from(counts[index]);
            assert!((got / wanted - 1.0).abs() < 0.1, "rank {rank}: {got} against {wanted}");
        }
    }
}
