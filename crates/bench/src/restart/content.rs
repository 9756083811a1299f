//! Values that name their key and version.
//!
//! ```text
//!   | key, 8 digits | version, 8 digits | body, made from both | (hexadecimal)
//! ```
//!
//! The client flags are the version's lowest 16 bits. Most bodies have some hundred bytes, with
//! lengths log-uniform between the shortest and 4 KiB; one in [`LARGE_ONE_IN`] has up to 128 KiB
//! and spans many pages of a device. Records have their own lengths.

use crate::failure::Outcome;
use crate::random::Random;
use crate::values::{KEY_BYTES_MIN, ValueChoice, Values, write_key};

/// Digits of the key and of the version.
const DIGITS: usize = 8;
/// Bytes of both together.
const HEAD_BYTES: usize = 2 * DIGITS;
/// Bodies of usual values ...
const BODY_BYTES: (f64, f64) = (16.0, 4096.0);
/// ... and of the few large ones.
const LARGE_BODY_BYTES: (f64, f64) = (4096.0, 131_072.0);
const LARGE_ONE_IN: u64 = 256;
/// Number of items for the mean length.
const MEAN_OF: u32 = 4096;

/// Keys and values of all versions.
#[derive(Debug)]
pub struct Content {
    values: Values,
    seed: u64,
}

/// Why a value is not a version of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It begins with another key, or with none.
    OtherKey(String),
    /// Its length differs from its version's.
    Length {
        /// The version that it names.
        version: u32,
        /// The length of that version.
        expected: usize,
        /// The value's length.
        found: usize,
    },
    /// It differs from its version.
    Body {
        /// The version that it names.
        version: u32,
        /// The first wrong byte.
        at: usize,
    },
    /// It came with the flags of another version.
    Flags {
        /// The version that it names.
        version: u32,
        /// The flags it came with.
        found: u32,
    },
}

impl Content {
    /// Prepares bodies of this kind.
    pub fn new(choice: &ValueChoice, seed: u64) -> Outcome<Content> {
        Ok(Content { values: choice.load(seed)?, seed })
    }

    /// Returns the mean bytes of a key with its value.
    pub fn item_bytes_mean(&self) -> u64 {
        let bytes: usize = (0..MEAN_OF).map(|key| self.body(key, 1).1 as usize).sum();
        HEAD_BYTES as u64 + u64::from(KEY_BYTES_MIN) + bytes as u64 / u64::from(MEAN_OF)
    }

    /// Writes the name of a key to `out`, replacing its content.
    pub fn write_key(&self, key: u32, out: &mut Vec<u8>) {
        write_key(key, KEY_BYTES_MIN, out);
    }

    /// Returns the flags of a version.
    pub fn flags(&self, version: u32) -> u32 {
        version & 0xffff
    }

    /// Writes a version's value to `out`, replacing its content.
    pub fn write(&self, key: u32, version: u32, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(format!("{key:08x}{version:08x}").as_bytes());
        let (object, body_bytes) = self.body(key, version);
        self.values.append(object, body_bytes, out);
    }

    /// Returns the version of a value, if it is right to the last byte. `scratch` may hold anything
    /// before and after.
    pub fn version_of(
        &self,
        key: u32,
        flags: u32,
        value: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<u32, Fault> {
        let head = value.get(..HEAD_BYTES).and_then(|head| std::str::from_utf8(head).ok());
        let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let version = head
            .and_then(|head| head.split_at_checked(DIGITS))
            .filter(|(name, _)| number(name) == Some(key))
            .and_then(|(_, version)| number(version));
        let Some(version) = version else {
            let shown = &value[..value.len().min(HEAD_BYTES)];
            return Err(Fault::OtherKey(String::from_utf8_lossy(shown).into_owned()));
        };
        self.write(key, version, scratch);
        if value.len() != scratch.len() {
            return Err(Fault::Length { version, expected: scratch.len(), found: value.len() });
        }
        if let Some(at) = value.iter().zip(&*scratch).position(|(found, wanted)| found != wanted) {
            return Err(Fault::Body { version, at });
        }
        if flags != self.flags(version) {
            return Err(Fault::Flags { version, found: flags });
        }
        Ok(version)
    }

    /// Returns the object that a body is made from, and its length.
    fn body(&self, key: u32, version: u32) -> (u32, u32) {
        let stream = self.seed ^ (u64::from(key) << 32 | u64::from(version));
        let mut random = Random::new(Random::new(stream).word());
        let object = random.word() as u32;
        if let Values::Records(records) = &self.values {
            return (object, records.of(object).len() as u32);
        }
        let is_large = random.below(LARGE_ONE_IN) == 0;
        let (min, max) = if is_large { LARGE_BODY_BYTES } else { BODY_BYTES };
        (object, (min * (max / min).powf(random.unit())) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Fault, HEAD_BYTES};
    use crate::values::ValueChoice;

    fn content() -> Content {
        Content::new(&ValueChoice::Made(3.0), 7).expect("no file is needed")
    }

    fn value(key: u32, version: u32) -> Vec<u8> {
        let mut value = b"before".to_vec();
        content().write(key, version, &mut value);
        value
    }

    fn version_of(key: u32, flags: u32, value: &[u8]) -> Result<u32, Fault> {
        content().version_of(key, flags, value, &mut b"before".to_vec())
    }

    #[test]
    fn a_version_is_known_again() {
        for (key, version) in [(0, 1), (7, 65_536), (u32::MAX, u32::MAX)] {
            assert_eq!(version_of(key, version & 0xffff, &value(key, version)), Ok(version));
        }
    }

    #[test]
    fn any_other_byte_length_key_or_flag_is_a_fault() {
        let good = value(7, 3);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(version_of(7, 3, &bad).is_err(), "byte {at}");
        }
        let (expected, found) = (good.len(), good.len() - 1);
        assert_eq!(
            version_of(7, 3, &good[..found]),
            Err(Fault::Length { version: 3, expected, found })
        );
        assert_eq!(version_of(7, 4, &good), Err(Fault::Flags { version: 3, found: 4 }));
        assert_eq!(version_of(8, 3, &good), Err(Fault::OtherKey("0000000700000003".into())));
        assert_eq!(version_of(8, 3, b""), Err(Fault::OtherKey(String::new())));
    }

    #[test]
    fn another_versions_body_is_a_fault() {
        let (mut spliced, other) = (value(7, 3), value(7, 4));
        let bytes = spliced.len().min(other.len());
        spliced[HEAD_BYTES..bytes].copy_from_slice(&other[HEAD_BYTES..bytes]);
        assert!(matches!(version_of(7, 3, &spliced), Err(Fault::Body { version: 3, .. })));
    }

    #[test]
    fn the_mean_is_between_the_shortest_and_the_longest() {
        let mean = content().item_bytes_mean();
        assert!((500..2000).contains(&mean), "{mean}");
    }
}
