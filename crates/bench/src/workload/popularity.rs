//! The choice of a request's key.
//!
//! A choice draws a rank, and a bijection spreads ranks over the key space, so that popular keys
//! are no neighbours. Here are its five distributions (Cooper et al., "Benchmarking Cloud Serving
//! Systems with YCSB", SoCC 2010), and CacheBench's tables:
//!
//! | choice | the popular keys |
//! | --- | --- |
//! | `uniform` | none |
//! | `zipfian` | rank `r` in proportion to `1 / r^skew` |
//! | `scrambled` | the same law over 10^10 ranks, which a hash maps onto the keys |
//! | `hotspot-R-K` | R % of the requests go to K % of the keys, evenly within and outside |
//! | `normal` | the middle: a bell around half the keys with a standard deviation of an eighth |
//! | `latest` | the newest: `zipfian` back from the last insert; a write inserts a new key |
//! | `cachebench:FILE` | buckets of equally popular objects, from a `pop.json` |
//!
//! `scrambled` is YCSB's "zipfian", and its default. It is much less skewed than `zipfian`: with a
//! million keys each key also gets ten thousand ranks of the tail, so that four requests in ten go
//! to all keys alike. To hit 95 % LRU then needs nearly all keys.
//!
//! The deviation of the normal distribution is this tool's: the sources give none. Draws outside
//! the keys, one in 16,000, are repeated.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use super::cachebench::Popularity;
use super::zipf::Zipf;
use crate::failure::Outcome;
use crate::random::Random;

/// The step from rank to key: a prime greater than all key counts, so coprime to each of them.
pub const SPREAD: u64 = 2_654_435_761;
/// The most keys: their numbers leave room for as many inserts.
pub const KEYS_MAX: u64 = 1 << 31;
/// Ranks of `scrambled`, whatever the number of keys.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;
/// The standard deviation of `normal`, as a share of the keys.
const NORMAL_DEVIATION: f64 = 0.125;

/// How keys are chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "String")]
pub enum Choice {
    /// Every key is as likely as the next.
    Uniform,
    /// A power law.
    Zipfian,
    /// A power law over YCSB's fixed number of ranks, hashed onto the keys.
    Scrambled,
    /// Some keys share most of the requests.
    Hotspot {
        /// The hot requests, in percent.
        requests: f64,
        /// The hot keys, in percent.
        keys: f64,
    },
    /// A bell around the middle.
    Normal,
    /// A power law that follows the inserts.
    Latest,
    /// A table of CacheBench.
    Cachebench(PathBuf),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let percent = |text: &str| match text.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent),
            _ => Err(format!("`{text}` is no percentage between 0 and 100")),
        };
        match text.split_once([':', '-']) {
            None if text == "uniform" => Ok(Choice::Uniform),
            None if text == "zipfian" => Ok(Choice::Zipfian),
            None if text == "scrambled" => Ok(Choice::Scrambled),
            None if text == "normal" => Ok(Choice::Normal),
            None if text == "latest" => Ok(Choice::Latest),
            Some(("hotspot", shares)) => {
                let (requests, keys) = shares.split_once('-').ok_or("hotspot-REQUESTS-KEYS")?;
                Ok(Choice::Hotspot { requests: percent(requests)?, keys: percent(keys)? })
            }
            Some(("cachebench", path)) => Ok(Choice::Cachebench(path.into())),
            _ => {
                let choices = "uniform, zipfian, scrambled, hotspot-R-K, normal, latest";
                Err(format!("{choices} or cachebench:FILE"))
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Uniform => out.write_str("uniform"),
            Choice::Zipfian => out.write_str("zipfian"),
            Choice::Scrambled => out.write_str("scrambled"),
            Choice::Hotspot { requests, keys } => write!(out, "hotspot-{requests}-{keys}"),
            Choice::Normal => out.write_str("normal"),
            Choice::Latest => out.write_str("latest"),
            Choice::Cachebench(path) => write!(out, "cachebench:{}", path.display()),
        }
    }
}

impl From<Choice> for String {
    fn from(choice: Choice) -> String {
        choice.to_string()
    }
}

impl Choice {
    /// Prepares draws among `keys` keys; reads the file, if there is one.
    pub fn load(&self, keys: u64, skew: f64) -> Outcome<Chooser> {
        assert!((1..=KEYS_MAX).contains(&keys), "key count out of range");
        let law = match self {
            Choice::Uniform => Law::Uniform,
            Choice::Zipfian => Law::Zipfian(Zipf::new(keys, skew)),
            Choice::Scrambled => Law::Scrambled(Zipf::new(SCRAMBLED_RANKS, skew)),
            Choice::Hotspot { requests, keys: hot_keys } => Law::Hotspot {
                hot_requests: requests / 100.0,
                hot_keys: ((keys as f64 * hot_keys / 100.0).round() as u64).clamp(1, keys),
            },
            Choice::Normal => Law::Normal,
            Choice::Latest => Law::Latest { skew },
            Choice::Cachebench(path) => Law::Table(Popularity::load(path)?),
        };
        Ok(Chooser { law, keys })
    }
}

/// Draws keys.
#[derive(Debug)]
pub struct Chooser {
    law: Law,
    keys: u64,
}

#[derive(Debug)]
enum Law {
    Uniform,
    Zipfian(Zipf),
    Scrambled(Zipf),
    Hotspot { hot_requests: f64, hot_keys: u64 },
    Normal,
    Latest { skew: f64 },
    Table(Popularity),
}

impl Chooser {
    /// Returns the next key to read.
    pub fn read(&mut self, random: &mut Random) -> u64 {
        match self.law {
            Law::Latest { skew } => {
                let age = Zipf::new(self.keys, skew).rank(random);
                self.keys - 1 - age
            }
            _ => self.rank(random) * SPREAD % self.keys,
        }
    }

    /// Returns the next key to write: with `latest` a new one.
    pub fn write(&mut self, random: &mut Random) -> u64 {
        if !matches!(self.law, Law::Latest { .. }) {
            return self.read(random);
        }
        self.keys += 1;
        self.keys - 1
    }

    /// Draws the next rank, from 0.
    fn rank(&self, random: &mut Random) -> u64 {
        let keys = self.keys;
        match &self.law {
            Law::Uniform => random.below(keys),
            Law::Zipfian(zipf) => zipf.rank(random),
            Law::Scrambled(zipf) => fnv(zipf.rank(random)) % keys,
            Law::Hotspot { hot_requests, hot_keys } => {
                if random.unit() < *hot_requests || *hot_keys == keys {
                    random.below(*hot_keys)
                } else {
                    hot_keys + random.below(keys - hot_keys)
                }
            }
            Law::Normal => loop {
                let place = keys as f64 * (0.5 + NORMAL_DEVIATION * bell(random));
                if (0.0..keys as f64).contains(&place) {
                    return place as u64;
                }
            },
            Law::Latest { .. } => unreachable!("`read` draws it"),
            Law::Table(table) => table.rank(keys, random),
        }
    }
}

/// The hash of Fowler, Noll and Vo (FNV-1a, 64 bits) of a number's bytes, with which YCSB scrambles
/// ranks.
fn fnv(number: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    number.to_le_bytes().iter().fold(start, step)
}

/// A number of the standard normal distribution, by Box and Muller.
fn bell(random: &mut Random) -> f64 {
    // 1 - unit() is above 0, so its logarithm is finite.
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::{Choice, Chooser};
    use crate::random::Random;
    use std::collections::HashSet;

    fn chooser(text: &str, keys: u64) -> Chooser {
        let choice: Choice = text.parse().expect("it is a choice");
        assert_eq!(choice.to_string(), text);
        choice.load(keys, 0.99).expect("no file is needed")
    }

    fn ranks(text: &str, keys: u64, draws: usize) -> Vec<u64> {
        let chooser = chooser(text, keys);
        let mut random = Random::new(3);
        (0..draws).map(|_| chooser.rank(&mut random)).collect()
    }

    #[test]
    fn hot_keys_get_their_share_and_all_of_them_alike() {
        for (text, requests, keys) in [
            ("hotspot-80-20", 0.8, 0.2),
            ("hotspot-90-10", 0.9, 0.1),
            ("hotspot-10-90", 0.1, 0.9),
            ("hotspot-99.5-0.1", 0.995, 0.001),
        ] {
            let draws = 200_000;
            let ranks = ranks(text, 10_000, draws);
            let hot_end = (10_000.0 * keys) as u64;
            let hot: Vec<u64> = ranks.iter().filter(|rank| **rank < hot_end).copied().collect();
            let deviation = (requests * (1.0 - requests) / draws as f64).sqrt();
            let found = hot.len() as f64 / draws as f64;
            assert!((found - requests).abs() < 5.0 * deviation, "{text}: {found}");
            let lower = hot.iter().filter(|rank| **rank < hot_end / 2).count() as f64;
            assert!((lower / hot.len() as f64 - 0.5).abs() < 0.02, "{text}: even among the hot");
        }
    }

    #[test]
    fn uniform_draws_pass_a_chi_square_test() {
        let mut counts = [0u32; 100];
        ranks("uniform", 100, 500_000).iter().for_each(|rank| counts[*rank as usize] += 1);
        let square: f64 = counts.iter().map(|c| (f64::from(*c) - 5000.0).powi(2) / 5000.0).sum();
        assert!(square < 148.2, "{square}");
    }

    #[test]
    fn the_bell_has_its_mean_deviation_and_shape() {
        let ranks = ranks("normal", 8000, 200_000);
        let mean = ranks.iter().sum::<u64>() as f64 / ranks.len() as f64;
        let square = |rank: &u64| (*rank as f64 - mean).powi(2);
        let deviation = (ranks.iter().map(square).sum::<f64>() / ranks.len() as f64).sqrt();
        assert!((mean - 4000.0).abs() < 15.0, "{mean}");
        assert!((deviation - 1000.0).abs() < 10.0, "{deviation}");
        let within = ranks.iter().filter(|rank| (3000..5000).contains(*rank)).count();
        let share = within as f64 / ranks.len() as f64;
        assert!((share - 0.6827).abs() < 0.006, "one deviation holds 68.27 %: {share}");
    }

    #[test]
    fn scrambled_keys_share_the_tail_alike() {
        let keys = 100_000;
        let mut chooser = chooser("scrambled", keys);
        let mut random = Random::new(1);
        let mut counts = vec![0_u32; keys as usize];
        let draws = 2_000_000;
        (0..draws).for_each(|_| counts[chooser.read(&mut random) as usize] += 1);
        counts.sort_unstable();
        // The most popular rank has 1 / 26.469 of the draws, by the sum that YCSB states.
        let most = f64::from(*counts.last().expect("there are keys")) / f64::from(draws);
        assert!((most - 1.0 / 26.469).abs() < 0.001, "{most}");
        // By the logarithms, half of the requests are for ranks beyond the number of keys; the
        // least popular three quarters of the keys get three quarters of these, and little of the
        // other half. Of plain zipfian's requests they get an eighth.
        let tail: u32 = counts[..keys as usize * 3 / 4].iter().sum();
        let share = f64::from(tail) / f64::from(draws);
        assert!((0.37..0.45).contains(&share), "{share}");
    }

    #[test]
    fn zipfian_keys_are_spread_and_the_most_popular_is_that_of_rank_0() {
        let mut chooser = chooser("zipfian", 1000);
        let mut random = Random::new(1);
        let mut counts = vec![0u32; 1000];
        (0..100_000).for_each(|_| counts[chooser.read(&mut random) as usize] += 1);
        let mut order: Vec<usize> = (0..1000).collect();
        order.sort_by_key(|key| std::cmp::Reverse(counts[*key]));
        let spread = |rank: u64| (rank * super::SPREAD % 1000) as usize;
        assert_eq!(order[..3], [spread(0), spread(1), spread(2)]);
    }

    #[test]
    fn every_rank_has_a_key_of_its_own() {
        for keys in [1u64, 2, 1000, 65_536, 99_991] {
            let spread: HashSet<u64> = (0..keys).map(|rank| rank * super::SPREAD % keys).collect();
            assert_eq!(spread.len() as u64, keys);
        }
    }

    #[test]
    fn latest_follows_the_inserts() {
        let mut chooser = chooser("latest", 1000);
        let mut random = Random::new(1);
        for insert in 0..500 {
            assert_eq!(chooser.write(&mut random), 1000 + insert);
            assert!(chooser.read(&mut random) <= 1000 + insert);
        }
        let newest = (0..10_000).filter(|_| chooser.read(&mut random) == 1499).count();
        // 1 / H(1500, 0.99) = 12.2 %.
        assert!((1100..1350).contains(&newest), "{newest}");
    }

    #[test]
    fn an_invalid_choice_is_refused() {
        for text in ["zipf", "hotspot", "hotspot-80", "hotspot-80-0", "hotspot-100-20", "normal-3"]
        {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }
}
