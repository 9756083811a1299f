//! The sizes of keys and values.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use super::cachebench;
use super::distribution::{Mixture, Piece, Shape};
use super::facebook::{self, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::failure::Outcome;
use crate::values::records::Records;

/// The largest value of any workload: 1 GiB, memcached's highest limit.
const BYTES_MAX: u32 = 1 << 30;

/// The source of sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "String")]
pub enum SizeChoice {
    /// All values have this many bytes.
    Fixed(u32),
    /// Each doubling from the first to the second is as frequent as the next.
    LogUniform(u32, u32),
    /// Facebook's general pool.
    Etc,
    /// Facebook's pool of application data.
    App,
    /// Facebook's pool of server state.
    Sys,
    /// Facebook's pool of user states.
    Usr,
    /// A size table of CacheBench.
    Cachebench(PathBuf),
    /// The values of a record file.
    Records(PathBuf),
}

impl FromStr for SizeChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<SizeChoice, String> {
        let bytes = |text: &str| match text.parse::<u32>() {
            Ok(bytes) if bytes <= BYTES_MAX => Ok(bytes),
            _ => Err(format!("`{text}` is no size up to {BYTES_MAX} bytes")),
        };
        match text.split_once(':') {
            Some(("fixed", size)) => Ok(SizeChoice::Fixed(bytes(size)?)),
            Some(("log-uniform", range)) => {
                let (low, high) = range.split_once("..").ok_or("log-uniform:MIN..MAX")?;
                let (low, high) = (bytes(low)?, bytes(high)?);
                let in_order = 0 < low && low < high;
                in_order
                    .then_some(SizeChoice::LogUniform(low, high))
                    .ok_or_else(|| "the smallest size is above 0 and below the largest".to_owned())
            }
            Some(("cachebench", path)) => Ok(SizeChoice::Cachebench(path.into())),
            Some(("records", path)) => Ok(SizeChoice::Records(path.into())),
            None if text == "etc" => Ok(SizeChoice::Etc),
            None if text == "app" => Ok(SizeChoice::App),
            None if text == "sys" => Ok(SizeChoice::Sys),
            None if text == "usr" => Ok(SizeChoice::Usr),
            _ => Err("fixed:BYTES, log-uniform:MIN..MAX, etc, app, sys, usr, cachebench:FILE or \
                records:FILE"
                .into()),
        }
    }
}

impl fmt::Display for SizeChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeChoice::Fixed(bytes) => write!(out, "fixed:{bytes}"),
            SizeChoice::LogUniform(low, high) => write!(out, "log-uniform:{low}..{high}"),
            SizeChoice::Etc => out.write_str("etc"),
            SizeChoice::App => out.write_str("app"),
            SizeChoice::Sys => out.write_str("sys"),
            SizeChoice::Usr => out.write_str("usr"),
            SizeChoice::Cachebench(path) => write!(out, "cachebench:{}", path.display()),
            SizeChoice::Records(path) => write!(out, "records:{}", path.display()),
        }
    }
}

impl From<SizeChoice> for String {
    fn from(choice: SizeChoice) -> String {
        choice.to_string()
    }
}

impl SizeChoice {
    /// Prepares the sizes; reads the file, if there is one. Keys have `key_bytes` where the choice
    /// has no sizes of keys.
    pub fn load(&self, key_bytes: u16) -> Outcome<Sizes> {
        let fixed = |bytes| Mixture::new([Piece::new(1.0, Shape::Exact(f64::from(bytes)))]);
        let own_keys = || fixed(u32::from(key_bytes));
        let (keys, values) = match self {
            SizeChoice::Fixed(bytes) => (own_keys(), fixed(*bytes)),
            SizeChoice::LogUniform(low, high) => {
                let shape = Shape::LogUniform(f64::from(*low), f64::from(*high) + 1.0);
                (own_keys(), Mixture::new([Piece::new(1.0, shape)]))
            }
            SizeChoice::Etc => facebook::etc(),
            SizeChoice::App => facebook::app(),
            SizeChoice::Sys => facebook::sys(),
            SizeChoice::Usr => facebook::usr(),
            SizeChoice::Cachebench(path) => (own_keys(), cachebench::sizes(path)?),
            SizeChoice::Records(path) => {
                let lengths = Records::read(path)?.lengths().collect();
                return Ok(Sizes { keys: own_keys(), values: Values::Records(lengths) });
            }
        };
        let is_model = matches!(self, SizeChoice::Etc);
        let most = if is_model { VALUE_BYTES_MAX } else { f64::from(BYTES_MAX) };
        Ok(Sizes { keys, values: Values::Drawn(values, most) })
    }
}

/// Prepared sizes.
#[derive(Debug)]
pub struct Sizes {
    keys: Mixture,
    values: Values,
}

#[derive(Debug)]
enum Values {
    /// Drawn, up to a limit.
    Drawn(Mixture, f64),
    /// Object `i` has the length of record `i` modulo their number.
    Records(Vec<u32>),
}

impl Sizes {
    /// Returns the bytes of the key at a place in `[0, 1)`.
    pub fn key_bytes(&self, place: f64) -> u16 {
        self.keys.at(place).clamp(1.0, KEY_BYTES_MAX) as u16
    }

    /// Returns the bytes of the value of an object at this place in `[0, 1)`: a higher place never
    /// makes a drawn size smaller.
    pub fn value_bytes(&self, object: u32, place: f64) -> u32 {
        match &self.values {
            Values::Drawn(mixture, most) => mixture.at(place).clamp(0.0, *most) as u32,
            Values::Records(lengths) => lengths[object as usize % lengths.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SizeChoice;
    use crate::random::Random;

    #[test]
    fn choices_are_read_and_shown_alike() {
        for text in
            ["fixed:32", "log-uniform:10..1048576", "etc", "app", "sys", "usr", "records:a:b"]
        {
            let choice: SizeChoice = text.parse().expect("it is a choice");
            assert_eq!(choice.to_string(), text);
        }
        for text in
            ["fixed", "fixed:-1", "log-uniform:9", "log-uniform:9..8", "var", "fixed:9999999999"]
        {
            assert!(text.parse::<SizeChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn log_uniform_sizes_pass_a_kolmogorov_smirnov_test() {
        let choice = SizeChoice::LogUniform(10, 100_000);
        let sizes = choice.load(24).expect("no file is needed");
        let mut random = Random::new(4);
        let draws = 100_000;
        let mut found: Vec<u32> = (0..draws).map(|_| sizes.value_bytes(0, random.unit())).collect();
        found.sort_unstable();
        assert!(found[0] == 10 && found[draws - 1] > 99_000 && found[draws - 1] <= 100_000);
        let distance = (1..=draws).map(|rank| {
            let below = (f64::from(found[rank - 1]) / 10.0).ln() / 10_000.1f64.ln();
            (below - rank as f64 / draws as f64).abs()
        });
        // Rounding down moves the smallest sizes, by up to ln(11 / 10) / ln(10,000); one right
        // generator in a thousand exceeds 1.95 / sqrt(draws).
        let most = 1.95 / (draws as f64).sqrt() + 1.1f64.ln() / 10_000f64.ln();
        assert!(distance.fold(0.0, f64::max) < most);
    }

    #[test]
    fn keys_have_their_length_unless_the_sizes_know_better() {
        let fixed = SizeChoice::Fixed(5).load(17).expect("no file is needed");
        assert_eq!((fixed.key_bytes(0.3), fixed.value_bytes(9, 0.3)), (17, 5));
        let usr = SizeChoice::Usr.load(17).expect("no file is needed");
        assert_eq!((usr.key_bytes(0.3), usr.key_bytes(0.7), usr.value_bytes(9, 0.3)), (16, 21, 2));
    }
}
