//! The bytes of values, from the object's number alone, so that a reader can check them.
//!
//! Real values come from a record file. Made ones mix phrases that occur again and again with
//! random bytes that no compressor makes smaller, in chunks of one length:
//!
//! ```text
//!   | phrase 7 | random | phrase 2 | phrase 7 | random | phrase 11 | ...
//! ```
//!
//! A phrase that was seen shrinks to a few bytes, so the share of random chunks sets the ratio. It
//! is that of zstd and, nearly, of LZ4 over 64 KiB of values; smaller units see each phrase for the
//! first time more often and gain less, as with real data.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use super::records;
use crate::failure::Outcome;
use crate::random::Random;

/// Bytes of a phrase, and of the random chunks between.
const CHUNK_BYTES: usize = 64;
/// Different phrases: 1 KiB, which a unit of a few KiB holds about once.
const PHRASES: usize = 16;
/// What a phrase that was seen costs in compressed bytes. With values of 64 bytes at a ratio of 8,
/// where it matters most, zstd at level 3 takes 2.6 and LZ4 4.6: this lies between.
const PHRASE_COST_BYTES: f64 = 3.6;
/// Beyond this the phrases themselves would have to be longer.
const RATIO_MAX: f64 = 8.0;

/// Where values come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(into = "String")]
pub enum ValueChoice {
    /// Made, so that they shrink to one in so many bytes.
    Made(f64),
    /// The values of a record file.
    Records(PathBuf),
}

impl FromStr for ValueChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueChoice, String> {
        match text.split_once(':') {
            Some(("made", ratio)) => match ratio.parse() {
                Ok(ratio) if (1.0..=RATIO_MAX).contains(&ratio) => Ok(ValueChoice::Made(ratio)),
                _ => Err(format!("a ratio lies between 1 and {RATIO_MAX}")),
            },
            Some(("records", path)) => Ok(ValueChoice::Records(path.into())),
            _ => Err("made:RATIO or records:FILE".into()),
        }
    }
}

impl fmt::Display for ValueChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueChoice::Made(ratio) => write!(out, "made:{ratio}"),
            ValueChoice::Records(path) => write!(out, "records:{}", path.display()),
        }
    }
}

impl From<ValueChoice> for String {
    fn from(choice: ValueChoice) -> String {
        choice.to_string()
    }
}

impl ValueChoice {
    /// Prepares the values; reads the file, if there is one.
    pub fn load(&self, seed: u64) -> Outcome<Values> {
        match self {
            ValueChoice::Made(ratio) => Ok(Values::Made(Box::new(Made::new(*ratio, seed)))),
            ValueChoice::Records(path) => Ok(Values::Records(records::read(path)?)),
        }
    }
}

/// Values that are ready to be asked for.
#[derive(Debug)]
pub enum Values {
    /// Phrases and random bytes.
    Made(Box<Made>),
    /// Object `i` has record `i` modulo their number.
    Records(Vec<Vec<u8>>),
}

impl Values {
    /// Appends the value of an object when it has this length. A record of another length is cut,
    /// or said again.
    pub fn value(&self, object: u32, value_bytes: u32, out: &mut Vec<u8>) {
        match self {
            Values::Made(made) => made.value(object, value_bytes, out),
            Values::Records(records) => {
                let record = &records[object as usize % records.len()];
                // An empty record said again is still empty: zeros take its place.
                let bytes = record.iter().copied();
                if record.is_empty() {
                    out.extend(std::iter::repeat_n(0, value_bytes as usize));
                } else {
                    out.extend(bytes.cycle().take(value_bytes as usize));
                }
            }
        }
    }
}

/// Phrases and random bytes.
#[derive(Debug)]
pub struct Made {
    random_share: f64,
    phrases: [[u8; CHUNK_BYTES]; PHRASES],
    seed: u64,
}

impl Made {
    fn new(ratio: f64, seed: u64) -> Made {
        let phrase_share = PHRASE_COST_BYTES / CHUNK_BYTES as f64;
        let mut random = Random::new(!seed);
        let mut phrases = [[0; CHUNK_BYTES]; PHRASES];
        let letters = phrases.iter_mut().flatten();
        letters.for_each(|letter| *letter = b'a' + random.below(26) as u8);
        let random_share = ((1.0 / ratio - phrase_share) / (1.0 - phrase_share)).clamp(0.0, 1.0);
        Made { random_share, phrases, seed }
    }

    fn value(&self, object: u32, value_bytes: u32, out: &mut Vec<u8>) {
        let stream = Random::new(self.seed).word() ^ u64::from(object);
        let mut random = Random::new(Random::new(stream).word());
        let end = out.len() + value_bytes as usize;
        while out.len() < end {
            let chunk_bytes = CHUNK_BYTES.min(end - out.len());
            if random.unit() < self.random_share {
                let words = std::array::from_fn::<_, { CHUNK_BYTES / 8 }, _>(|_| random.word());
                let bytes = words.into_iter().flat_map(u64::to_le_bytes);
                out.extend(bytes.take(chunk_bytes));
            } else {
                let phrase = random.below(PHRASES as u64) as usize;
                out.extend_from_slice(&self.phrases[phrase][..chunk_bytes]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ValueChoice;
    use crate::trace::testing::Folder;

    /// The ratios of zstd at level 3 and LZ4 over so many values in units of 64 KiB.
    fn ratios(ratio: f64, value_bytes: u32) -> (f64, f64) {
        let values = ValueChoice::Made(ratio).load(1).expect("no file is needed");
        let mut plain = Vec::new();
        for object in 0..(1 << 20) / value_bytes {
            values.value(object, value_bytes, &mut plain);
        }
        let (mut by_zstd, mut by_lz4) = (0, 0);
        for unit in plain.chunks(64 << 10) {
            by_zstd += zstd::bulk::compress(unit, 3).expect("it fits").len();
            by_lz4 += lz4_flex::block::compress(unit).len();
        }
        (plain.len() as f64 / by_zstd as f64, plain.len() as f64 / by_lz4 as f64)
    }

    #[test]
    fn real_compressors_find_the_ratio_that_was_asked_for() {
        for value_bytes in [64, 300, 4096] {
            for ratio in [1.0, 1.5, 2.0, 3.0, 5.0, 8.0] {
                let (zstd, lz4) = ratios(ratio, value_bytes);
                let text = format!("{ratio} of {value_bytes} bytes: zstd {zstd:.2}, LZ4 {lz4:.2}");
                assert!((zstd / ratio - 1.0).abs() < 0.15, "{text}");
                assert!((lz4 / ratio - 1.0).abs() < 0.22, "{text}");
            }
        }
    }

    #[test]
    fn values_follow_from_the_object_and_have_their_length() {
        let values = ValueChoice::Made(2.0).load(1).expect("no file is needed");
        let value = |object, bytes| {
            let mut out = b"before".to_vec();
            values.value(object, bytes, &mut out);
            out.split_off(6)
        };
        assert_eq!(value(7, 1000), value(7, 1000));
        assert_ne!(value(7, 1000), value(8, 1000));
        for bytes in [0, 1, 31, 32, 33, 1000] {
            assert_eq!(value(7, bytes).len(), bytes as usize);
        }
    }

    #[test]
    fn records_are_taken_by_object_and_brought_to_length() {
        let folder = Folder::new();
        let path = folder.write("values", b"\x03\0\0\0one\x05\0\0\0three\0\0\0\0");
        let values = ValueChoice::Records(path).load(1).expect("whole");
        let value = |object, bytes| {
            let mut out = Vec::new();
            values.value(object, bytes, &mut out);
            out
        };
        assert_eq!(value(0, 3), b"one");
        assert_eq!(value(4, 5), b"three");
        assert_eq!(value(3, 2), b"on");
        assert_eq!(value(3, 7), b"oneoneo");
        assert_eq!(value(2, 2), b"\0\0");
    }

    #[test]
    fn what_is_no_choice_is_refused() {
        for text in ["made", "made:0.5", "made:9", "made:x", "random"] {
            assert!(text.parse::<ValueChoice>().is_err(), "{text}");
        }
    }
}
