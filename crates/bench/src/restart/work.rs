//! The requests: keys filled in order, a mixture, every key read once, or some looked at.
//!
//! Half of a skewed mixture goes to a sixteenth of the keys: those are overwritten and deleted
//! while older versions of them lie on flash, from where an old value could come back. An even
//! mixture leaves keys alone by chance only, whether they are on flash or not.

use crate::random::Random;

/// A part of the keys ...
const HOT_ONE_IN: u64 = 16;
/// ... and the share of a skewed mixture that goes there.
const HOT_SHARE: f64 = 0.5;
/// The most keys of one get in a mixture, and the keys of one when all are read.
const GET_KEYS_MAX: u64 = 4;
const SWEEP_KEYS: usize = 16;
/// A prime greater than any number of keys, so that steps of it visit each key once.
const STRIDE: u64 = 4_294_967_311;

/// One request to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Store the next version.
    Set {
        /// The key.
        key: u32,
        /// Whether the item gets a time to live.
        has_ttl: bool,
    },
    /// Store the next version for so short a time that it soon expires.
    SetBriefly {
        /// The key.
        key: u32,
    },
    /// Delete.
    Delete {
        /// The key.
        key: u32,
    },
    /// Touch with an expiry that has passed, which deletes.
    Expire {
        /// The key.
        key: u32,
    },
    /// Touch with a time to live.
    Touch {
        /// The key.
        key: u32,
    },
    /// Read.
    Get {
        /// The keys.
        keys: Vec<u32>,
    },
    /// Ask whether the item is there, without using it.
    Look {
        /// The key.
        key: u32,
    },
}

/// How the keys of a mixture are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Some are hot.
    Skewed,
    /// All alike.
    Even,
}

/// Requests to come.
#[derive(Debug, Clone)]
pub enum Work {
    /// Store every key, from this one on.
    Fill(u32),
    /// A mixture of this many requests.
    Mixture(u64, Choice, Random),
    /// Read every key once, in another order than the fill; the number is of keys read so far.
    Sweep(u32),
    /// Look at these keys.
    Look(Vec<u32>),
}

impl Work {
    /// Returns whether missed keys are stored, as a cache's clients do.
    pub fn fills_misses(&self) -> bool {
        matches!(self, Work::Mixture(_, Choice::Skewed, _))
    }

    /// Returns the next request about one of `keys` keys.
    pub fn next(&mut self, keys: u32) -> Option<Deed> {
        match self {
            Work::Fill(next) => {
                let key = Some(*next).filter(|key| *key < keys)?;
                *next += 1;
                Some(Deed::Set { key, has_ttl: false })
            }
            Work::Mixture(left, choice, random) => {
                *left = left.checked_sub(1)?;
                Some(mixed(*choice, random, keys))
            }
            Work::Sweep(next) => {
                let has_more = *next < keys;
                let place = |at: u32| (u64::from(at) * STRIDE % u64::from(keys)) as u32;
                let read: Vec<u32> = (*next..keys).take(SWEEP_KEYS).map(place).collect();
                *next += read.len() as u32;
                Some(Deed::Get { keys: read }).filter(|_| has_more)
            }
            Work::Look(left) => left.pop().map(|key| Deed::Look { key }),
        }
    }
}

fn mixed(choice: Choice, random: &mut Random, keys: u32) -> Deed {
    let hot_share = if choice == Choice::Skewed { HOT_SHARE } else { 0.0 };
    let kind = random.below(100);
    let mut key = || {
        let is_hot = random.unit() < hot_share;
        let of = if is_hot { u64::from(keys).div_ceil(HOT_ONE_IN) } else { u64::from(keys) };
        random.below(of) as u32
    };
    match kind {
        0..44 => Deed::Set { key: key(), has_ttl: kind < 10 },
        // So few that most keys remain to be found.
        44 => Deed::SetBriefly { key: key() },
        45..52 => Deed::Delete { key: key() },
        52..55 => Deed::Expire { key: key() },
        55..60 => Deed::Touch { key: key() },
        _ => Deed::Get { keys: (0..=kind % GET_KEYS_MAX).map(|_| key()).collect() },
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Deed, Work};
    use crate::random::Random;

    const KEYS: u32 = 1000;

    fn all(mut work: Work) -> Vec<Deed> {
        std::iter::from_fn(|| work.next(KEYS)).collect()
    }

    #[test]
    fn a_fill_and_a_sweep_go_to_every_key_once() {
        let filled = all(Work::Fill(0));
        let set = |key| Deed::Set { key, has_ttl: false };
        assert!(filled.into_iter().eq((0..KEYS).map(set)));
        let read = all(Work::Sweep(0)).into_iter().flat_map(|deed| match deed {
            Deed::Get { keys } => keys,
            other => panic!("{other:?}"),
        });
        let mut read: Vec<u32> = read.collect();
        assert!(!read.is_sorted());
        read.sort_unstable();
        assert!(read.into_iter().eq(0..KEYS));
        assert_eq!(Work::Sweep(0).next(0), None);
    }

    #[test]
    fn each_key_that_is_to_be_looked_at_is_looked_at_once() {
        assert_eq!(all(Work::Look(vec![3, 7])), [7, 3].map(|key| Deed::Look { key }));
    }

    #[test]
    fn half_of_a_skewed_mixture_goes_to_the_first_sixteenth() {
        for (choice, expected) in [(Choice::Skewed, 531), (Choice::Even, 63)] {
            let mixture = all(Work::Mixture(10_000, choice, Random::new(1)));
            let sets = mixture.iter().filter_map(|deed| match deed {
                Deed::Set { key, .. } => Some(*key),
                _ => None,
            });
            let sets: Vec<u32> = sets.collect();
            let hot = sets.iter().filter(|key| **key < KEYS.div_ceil(16)).count();
            let share = 1000 * hot / sets.len();
            assert!(share.abs_diff(expected) < 30, "{choice:?}: {share} of 1000");
        }
    }

    #[test]
    fn a_mixture_has_everything_and_ends() {
        let mixture = all(Work::Mixture(1000, Choice::Skewed, Random::new(1)));
        assert_eq!(mixture.len(), 1000);
        let is_there = |wanted: fn(&Deed) -> bool| assert!(mixture.iter().any(wanted));
        is_there(|deed| matches!(deed, Deed::Set { has_ttl: true, .. }));
        is_there(|deed| matches!(deed, Deed::Set { has_ttl: false, .. }));
        is_there(|deed| matches!(deed, Deed::SetBriefly { .. }));
        is_there(|deed| matches!(deed, Deed::Delete { .. }));
        is_there(|deed| matches!(deed, Deed::Expire { .. }));
        is_there(|deed| matches!(deed, Deed::Touch { .. }));
        is_there(|deed| matches!(deed, Deed::Get { keys } if keys.len() == 1));
        is_there(|deed| matches!(deed, Deed::Get { keys } if keys.len() == 4));
    }
}
