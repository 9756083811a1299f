//! The limit on wrong passwords from an address: a few at once, and then after pauses that double.
//!
//! ```text
//! wrong passwords  1 .. 9 10   11     12         13                       and so on
//!                         |-1s-|--2s--|----4s----|--------8s--------| ... |--------64s--------|
//! ```
//!
//! A password that comes during its address's pause is not checked, right or wrong, and does not
//! make the pause longer. Fifteen minutes without a wrong password end the throttling. A right one
//! takes back the failures counted for its own name, and no more: otherwise a client with a
//! password could guess those of others as fast as it likes, and give its own in between. The table
//! has a limit; where it is full, the address goes whose last wrong password is the oldest.
//!
//! Clients that share an address share its pause: any client there can keep others from logging in,
//! though not those from working that have logged in before.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::address::Address;

/// Wrong passwords in a row without consequence: those of three connections, each of which is
/// closed after three, by a user who mistypes.
const FREE_FAILURES: u32 = 9;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause: with it an address has some 1,350 guesses a day.
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// Time without a wrong password after which an address begins anew.
const MEMORY: Duration = Duration::from_secs(15 * 60);

/// Addresses that are remembered, which takes less than a megabyte.
const ADDRESSES_MAX: usize = 4096;

/// Names remembered for an address. Failures counted for others stay.
const NAMES_MAX: usize = 8;

/// The failures of addresses.
#[derive(Debug, Default)]
pub struct Throttle {
    addresses: BTreeMap<Address, Failures>,
    /// Names are remembered by their hashes, which are unpredictable from outside.
    hasher: RandomState,
}

/// The failures of one address.
#[derive(Debug)]
struct Failures {
    /// Their number, with all names.
    count: u32,
    /// Their number with some of the names, by the name's hash.
    by_name: Vec<(u64, u32)>,
    /// The time of the last, on the caller's clock.
    last: Duration,
}

impl Failures {
    /// The time after the last failure until the next password is checked.
    fn pause(&self) -> Duration {
        match self.count.checked_sub(FREE_FAILURES + 1) {
            None => Duration::ZERO,
            Some(doublings) => PAUSE_MIN.saturating_mul(1 << doublings.min(16)).min(PAUSE_MAX),
        }
    }

    fn is_forgotten(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= MEMORY
    }
    /// Adds one with this name.
    fn add(&mut self, name: u64, now: Duration) {
        self.last = now;
        self.count = self.count.saturating_add(1);
        if let Some((_, count)) = self.by_name.iter_mut().find(|(known, _)| *known == name) {
            *count = count.saturating_add(1);
        } else if self.by_name.len() < NAMES_MAX {
            self.by_name.push((name, 1));
        }
    }

    /// Takes back those with this name.
    fn forgive(&mut self, name: u64) {
        if let Some(at) = self.by_name.iter().position(|(known, _)| *known == name) {
            self.count = self.count.saturating_sub(self.by_name.swap_remove(at).1);
        }
    }
}

impl Throttle {
    /// Whether a password from there is checked now.
    pub fn is_open(&self, address: Address, now: Duration) -> bool {
        let failures = self.addresses.get(&address);
        failures.is_none_or(|failures| now.saturating_sub(failures.last) >= failures.pause())
    }

    /// Notes that a password from there, given for `name`, was checked, and right or wrong.
    pub fn note(&mut self, address: Address, name: &[u8], is_right: bool, now: Duration) {
        let name = self.hasher.hash_one(name);
        if let Some(failures) = self.addresses.get_mut(&address) {
            if is_right {
                failures.forgive(name);
            }
            if failures.is_forgotten(now) || failures.count == 0 {
                self.addresses.remove(&address);
            }
        }
        if is_right {
            return;
        }
        if !self.addresses.contains_key(&address) && self.addresses.len() == ADDRESSES_MAX {
            let oldest = self.addresses.iter().min_by_key(|(_, failures)| failures.last);
            let oldest = oldest.map(|(address, _)| *address);
            oldest.and_then(|address| self.addresses.remove(&address));
        }
        let none = || Failures { count: 0, by_name: Vec::new(), last: now };
        self.addresses.entry(address).or_insert_with(none).add(name, now);
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
            throttle.note(SOMEBODY, b"admin", false, now);
        }
        assert!(throttle.is_open(SOMEBODY, now), "the last that is free");
        for pause_s in [1, 2, 4, 8, 16, 32, 64, 64, 64] {
            throttle.note(SOMEBODY, b"admin", false, now);
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
                throttle.note(SOMEBODY, b"admin", false, now);
            }
        };
        fail(&mut throttle, at_ms(0));
        assert!(!throttle.is_open(SOMEBODY, at_ms(0)));
        throttle.note(SOMEBODY, b"admin", true, at_ms(0));
        assert!(throttle.is_open(SOMEBODY, at_ms(0)) && throttle.addresses.is_empty());
        fail(&mut throttle, at_ms(0));
        throttle.note(SOMEBODY, b"admin", false, MEMORY - at_ms(1));
        assert!(!throttle.is_open(SOMEBODY, MEMORY), "that was one more");
        throttle.note(SOMEBODY, b"admin", false, MEMORY + MEMORY);
        assert!(throttle.is_open(SOMEBODY, MEMORY + MEMORY), "and that is the first");
    }

    /// Regression: the owner of any account had as many guesses at all others as the server could
    /// check.
    #[test]
    fn a_right_password_excuses_none_of_another_name() {
        let mut throttle = Throttle::default();
        let now = at_ms(0);
        for _ in 0..FREE_FAILURES {
            throttle.note(SOMEBODY, b"admin", false, now);
            throttle.note(SOMEBODY, b"graphs", true, now);
        }
        // Its own failures are.
        throttle.note(SOMEBODY, b"graphs", false, now);
        assert!(!throttle.is_open(SOMEBODY, now));
        throttle.note(SOMEBODY, b"graphs", true, now);
        assert!(throttle.is_open(SOMEBODY, now));
        throttle.note(SOMEBODY, b"admin", false, now);
        throttle.note(SOMEBODY, b"graphs", true, now);
        assert!(!throttle.is_open(SOMEBODY, now));
        // Whatever the number of names: of those not remembered none is excused.
        let mut throttle = Throttle::default();
        for name in 0..=FREE_FAILURES as u8 {
            throttle.note(SOMEBODY, &[name], false, now);
        }
        throttle.note(SOMEBODY, &[FREE_FAILURES as u8], true, now);
        assert!(!throttle.is_open(SOMEBODY, now));
    }

    #[test]
    fn the_oldest_leaves_a_full_table() {
        let mut throttle = Throttle::default();
        let fail = |throttle: &mut Throttle, address, ms| {
            throttle.note(address, b"admin", false, at_ms(ms));
        };
        for number in 0..ADDRESSES_MAX as u32 {
            fail(&mut throttle, Address::V4(number), u64::from(number));
        }
        assert_eq!(throttle.addresses.len(), ADDRESSES_MAX);
        // One that is there already displaces none, and becomes the latest.
        fail(&mut throttle, Address::V4(0), 1 << 20);
        assert_eq!(throttle.addresses.len(), ADDRESSES_MAX);
        fail(&mut throttle, Address::Unix, 1 << 21);
        assert_eq!(throttle.addresses.len(), ADDRESSES_MAX);
        let has = |number| throttle.addresses.contains_key(&Address::V4(number));
        assert!(has(0) && !has(1) && has(2) && throttle.addresses.contains_key(&Address::Unix));
    }
}
