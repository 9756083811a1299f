//! Which keys a run asks for: uniform or zipfian, drawn before the run from a printed seed.
//!
//! Zipfian draws invert the exact cumulative distribution by binary search: a table of one `f64` a
//! key and twenty steps a draw, which is cheap because nothing is drawn while the clock runs. The
//! ranks are then spread over the key space by a bijection, so that popular keys are not
//! neighbours in memory merely because they were stored one after the other.

use clap::ValueEnum;
use serde::Serialize;

use crate::random::Random;

/// The skew that YCSB and the papers use.
pub const ZIPF_SKEW: f64 = 0.99;
/// Steps from rank to index: a prime above any key count in use, so coprime to all of them.
const SPREAD: u64 = 2_654_435_761;

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// Every key is as likely as the next.
    Uniform,
    /// The key of rank `r` has probability proportional to `1 / r^0.99`.
    Zipfian,
}

/// Draws `draws` indices below `keys`.
pub fn draw(choice: Choice, keys: u64, draws: usize, seed: u64) -> Vec<u32> {
    assert!(keys > 0 && keys < SPREAD.min(u64::from(u32::MAX)), "key count out of range");
    let mut random = Random::new(seed);
    match choice {
        Choice::Uniform => (0..draws).map(|_| random.below(keys) as u32).collect(),
        Choice::Zipfian => {
            let table = Zipf::new(keys, ZIPF_SKEW);
            (0..draws).map(|_| (table.rank(random.unit()) * SPREAD % keys) as u32).collect()
        }
    }
}

/// The cumulative distribution over ranks, not normalised.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(keys: u64, skew: f64) -> Zipf {
        let mut total = 0.0;
        let sums = (1..=keys).map(|rank| {
            total += (rank as f64).powf(-skew);
            total
        });
        Zipf { sums: sums.collect() }
    }

    /// The rank, from 0, at `place` in `[0, 1)` of the distribution.
    fn rank(&self, place: f64) -> u64 {
        let total = self.sums.last().copied().expect("there is at least one key");
        let rank = self.sums.partition_point(|sum| *sum <= place * total);
        rank.min(self.sums.len() - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, SPREAD, Zipf, draw};

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

    #[test]
    fn ranks_cover_both_ends() {
        let zipf = Zipf::new(50, 0.99);
        assert_eq!(zipf.rank(0.0), 0);
        assert_eq!(zipf.rank(1.0 - f64::EPSILON / 2.0), 49);
    }
}
