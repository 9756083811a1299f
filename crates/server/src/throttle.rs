//! How often an address may give a wrong password: a few times at once, and then after pauses that
//! double.
//!
//! ```text
//! wrong passwords  1 .. 9 10   11     12         13                       and so on
//!                         |-1s-|--2s--|----4s----|--------8s--------| ... |--------64s--------|
//! ```
//!
//! What an address says during its pause is not looked at, right or wrong, and does not make the
//! pause longer. A right password ends it all, and so do fifteen minutes without a wrong one. The
//! table has a limit; where it is full, the address goes whose last wrong password is the oldest.
//!
//! Clients that share an address share its pause: whoever can connect from there can keep others
//! from logging in, though not those from working that have logged in before.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::address::Address;

/// So many wrong passwords in a row have no consequence: those of three connections, each of which
/// is closed after three, by somebody who mistypes.
const FREE_FAILURES: u32 = 9;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause: with it an address has some 1,350 guesses a day.
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// After so long without a wrong password an address begins anew.
const MEMORY: Duration = Duration::from_secs(15 * 60);

/// So many addresses are remembered, which takes less than half a megabyte.
const ADDRESSES_MAX: usize = 4096;

/// What addresses have failed at.
#[derive(Debug, Default)]
pub struct Throttle(BTreeMap<Address, Failures>);

/// What one has.
#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    /// When the last was, on the clock of whoever asks.
    last: Duration,
}

impl Failures {
    /// How long after the last the next password is looked at.
    fn pause(self) -> Duration {
        match self.count.checked_sub(FREE_FAILURES + 1) {
            None => Duration::ZERO,
            Some(doublings) => PAUSE_MIN.saturating_mul(1 << doublings.min(16)).min(PAUSE_MAX),
        }
    }

    fn is_forgotten(self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= MEMORY
    }
}

impl Throttle {
    /// Whether a password from there is looked at now.
    pub fn is_open(&self, address: Address, now: Duration) -> bool {
        let failures = self.0.get(&address);
        failures.is_none_or(|failures| now.saturating_sub(failures.last) >= failures.pause())
    }

    /// A password from there was looked at, and right or wrong.
    pub fn note(&mut self, address: Address, is_right: bool, now: Duration) {
        if is_right {
            self.0.remove(&address);
            return;
        }
        let before = self.0.get(&address).filter(|failures| !failures.is_forgotten(now));
        let count = before.map_or(0, |failures| failures.count).saturating_add(1);
        if !self.0.contains_key(&address) && self.0.len() == ADDRESSES_MAX {
            let oldest = self.0.iter().min_by_key(|(_, failures)| failures.last);
            let oldest = oldest.map(|(address, _)| *address);
            oldest.and_then(|address| self.0.remove(&address));
        }
        self.0.insert(address, Failures { count, last: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOMEBODY: Address = Address::V4(1);

    fn at_ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn pauses_begin_after_a_few_failures_and_double() {
        let mut throttle = Throttle::default();
        let mut now = at_ms(5);
        for _ in 0..FREE_FAILURES {
            assert!(throttle.is_open(SOMEBODY, now));
            throttle.note(SOMEBODY, false, now);
        }
        assert!(throttle.is_open(SOMEBODY, now), "the last that is free");
        for pause_s in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
            throttle.note(SOMEBODY, false, now);
            now += at_ms(pause_s * 1000 - 1);
            assert!(!throttle.is_open(SOMEBODY, now), "{pause_s}");
            assert!(throttle.is_open(Address::V4(2), now), "others do not wait");
            now += at_ms(1);
            assert!(throttle.is_open(SOMEBODY, now), "{pause_s}");
        }
    }

    #[test]
    fn a_right_password_and_a_quarter_of_an_hour_begin_anew() {
        let mut throttle = Throttle::default();
        let fail = |throttle: &mut Throttle, now| {
            for _ in 0..=FREE_FAILURES {
                throttle.note(SOMEBODY, false, now);
            }
        };
        fail(&mut throttle, at_ms(0));
        assert!(!throttle.is_open(SOMEBODY, at_ms(0)));
        throttle.note(SOMEBODY, true, at_ms(0));
        assert!(throttle.is_open(SOMEBODY, at_ms(0)) && throttle.0.is_empty());
        fail(&mut throttle, at_ms(0));
        throttle.note(SOMEBODY, false, MEMORY - at_ms(1));
        assert!(!throttle.is_open(SOMEBODY, MEMORY), "that was one more");
        throttle.note(SOMEBODY, false, MEMORY + MEMORY);
        assert!(throttle.is_open(SOMEBODY, MEMORY + MEMORY), "and that is the first");
    }

    #[test]
    fn the_oldest_leaves_a_full_table() {
        let mut throttle = Throttle::default();
        for number in 0..ADDRESSES_MAX as u32 {
            throttle.note(Address::V4(number), false, at_ms(u64::from(number)));
        }
        assert_eq!(throttle.0.len(), ADDRESSES_MAX);
        // One that is there already pushes nobody out, and becomes the latest.
        throttle.note(Address::V4(0), false, at_ms(1 << 20));
        assert_eq!(throttle.0.len(), ADDRESSES_MAX);
        throttle.note(Address::Unix, false, at_ms(1 << 21));
        assert_eq!(throttle.0.len(), ADDRESSES_MAX);
        let has = |number| throttle.0.contains_key(&Address::V4(number));
        assert!(has(0) && !has(1) && has(2) && throttle.0.contains_key(&Address::Unix));
    }
}
