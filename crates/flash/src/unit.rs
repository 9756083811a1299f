//! The unit: rows that are stored together, compressed or as they are ([`crate::fill`]).
//!
//! ```text
//!    0        4        8       12     14       15           16
//!   +--------+--------+-------+------+--------+------------+---------------+
//!   | sum    | stored | raw   | rows | method | dictionary | stored bytes  |
//!   | u32    | u32    | u32   | u16  | u8     | u8, 0 none |               |
//!   +--------+--------+-------+------+--------+------------+---------------+
//!
//!   sum   CRC-32C of all that follows, mixed with the segment's sequence, the unit's granule and
//!         the sum of the dictionary
//! ```
//!
//! The mix makes a unit damage wherever it is not expected: a unit of an earlier use of the segment
//! that a lost write left in place has the right CRC-32C, and an older value.

use std::ops::Range;

use codec::entropy::{self, Guess, Threshold};
use codec::record::{Fields, Rows};
use codec::{Damaged, Decoder, Encoder, Method};

use crate::dictionaries::{Dictionaries, Known};

/// Bytes before the stored ones.
pub(crate) const HEAD_BYTES: usize = 16;
/// Most rows of a unit.
pub(crate) const ROWS_MAX: usize = u16::MAX as usize;

const STORED_AT: usize = 4;
const RAW_AT: usize = 8;
const ROWS_AT: usize = 12;
const METHOD_AT: usize = 14;
const DICTIONARY_AT: usize = 15;

const _: () = assert!(HEAD_BYTES == DICTIONARY_AT + 1);

/// How a unit's rows are stored. A raw unit names no dictionary.
#[derive(Clone, Copy)]
pub(crate) struct Coding<'k> {
    method: Method,
    known: Option<&'k Known>,
}

impl<'k> Coding<'k> {
    pub(crate) fn new(method: Method, known: Option<&'k Known>) -> Self {
        Self { method, known: known.filter(|_| method != Method::Raw) }
    }
}

/// What a unit's place says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) sequence: u64,
    pub(crate) granule: u32,
}

impl Origin {
    fn mix(self) -> u32 {
        let word = self.sequence ^ u64::from(self.granule) << 32;
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }
}

/// The head of a unit, which is not to be believed before its sum was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) stored_bytes: usize,
    pub(crate) raw_bytes: usize,
    pub(crate) rows: usize,
}

impl Head {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Damaged> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk().ok_or(Damaged)?;
        let number =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let rows = u16::from_le_bytes([head[ROWS_AT], head[ROWS_AT + 1]]);
        Ok(Self {
            stored_bytes: number(STORED_AT) as usize,
            raw_bytes: number(RAW_AT) as usize,
            rows: rows.into(),
        })
    }

    /// Bytes of the unit.
    pub(crate) fn unit_bytes(&self) -> usize {
        HEAD_BYTES + self.stored_bytes
    }
}

/// Which units of the cold area are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Those that do not look incompressible ([`codec::entropy`]).
    Promising,
    /// All that get smaller by it. For comparison.
    Any,
    /// None, nor is a dictionary trained. For comparison.
    Nothing,
}

impl Compression {
    /// Stores rows in `stored`, and returns the method.
    pub(crate) fn store(
        self,
        encoder: &mut Encoder,
        threshold: &mut Threshold,
        known: Option<&Known>,
        raw: &[u8],
        stored: &mut Vec<u8>,
    ) -> Method {
        let dictionary = known.map(|known| &known.dictionary);
        match self {
            Self::Nothing => encoder.encode(Method::Raw, None, raw, stored),
            Self::Any => encoder.encode(Method::Zstd, dictionary, raw, stored),
            Self::Promising => {
                let entropy = entropy::normalised(raw);
                if threshold.guess(entropy) == Guess::Incompressible {
                    return encoder.encode(Method::Raw, None, raw, stored);
                }
                let method = encoder.encode(Method::Zstd, dictionary, raw, stored);
                threshold.learn(entropy, method != Method::Raw);
                method
            }
        }
    }

    /// Bytes of the longest dictionary, if `wanted` were asked for.
    pub(crate) fn dictionary_bytes(self, wanted: usize) -> usize {
        if self == Self::Nothing { 0 } else { wanted }
    }
}

/// Writes a unit into the first bytes of `target`.
pub(crate) fn write(
    origin: Origin,
    head: Head,
    coding: Coding<'_>,
    stored: &[u8],
    target: &mut [u8],
) {
    assert_eq!(head.stored_bytes, stored.len());
    assert!((1..=ROWS_MAX).contains(&head.rows), "a unit has rows");
    let target = &mut target[..head.unit_bytes()];
    target[STORED_AT..RAW_AT].copy_from_slice(&(head.stored_bytes as u32).to_le_bytes());
    target[RAW_AT..ROWS_AT].copy_from_slice(&(head.raw_bytes as u32).to_le_bytes());
    target[ROWS_AT..METHOD_AT].copy_from_slice(&(head.rows as u16).to_le_bytes());
    target[METHOD_AT] = coding.method.code();
    target[DICTIONARY_AT] = coding.known.map_or(0, |known| known.number);
    target[HEAD_BYTES..].copy_from_slice(stored);
    let dictionary_sum = coding.known.map_or(0, |known| known.sum);
    let sum = codec::checksum(&target[STORED_AT..]) ^ origin.mix() ^ dictionary_sum;
    target[..STORED_AT].copy_from_slice(&sum.to_le_bytes());
}

/// Corrects the sum of the unit that begins with these bytes, if they hold all of it.
#[cfg(any(test, fuzzing))]
pub(crate) fn put_right(origin: Origin, dictionaries: &Dictionaries, bytes: &mut [u8]) {
    let Ok(head) = Head::read(bytes) else { return };
    let Some(unit) = bytes.get_mut(..head.unit_bytes()) else { return };
    let known = dictionaries.get(unit[DICTIONARY_AT]);
    let dictionary_sum = known.map_or(0, |known| known.sum);
    let (sum, rest) = unit.split_at_mut(STORED_AT);
    sum.copy_from_slice(&(codec::checksum(rest) ^ origin.mix() ^ dictionary_sum).to_le_bytes());
}

/// Decodes the unit at the start of these bytes into `raw`, which gets its raw length.
pub(crate) fn decode(
    origin: Origin,
    dictionaries: &Dictionaries,
    bytes: &[u8],
    raw_bytes_max: usize,
    decoder: &mut Decoder,
    raw: &mut Vec<u8>,
) -> Result<Head, Damaged> {
    let head = Head::read(bytes)?;
    let unit = bytes.get(..head.unit_bytes()).ok_or(Damaged)?;
    let (&sum, rest) = unit.split_first_chunk().ok_or(Damaged)?;
    let known = match unit[DICTIONARY_AT] {
        0 => None,
        number => Some(dictionaries.get(number).ok_or(Damaged)?),
    };
    let dictionary_sum = known.as_ref().map_or(0, |known| known.sum);
    if codec::checksum(rest) ^ origin.mix() ^ dictionary_sum != u32::from_le_bytes(sum) {
        return Err(Damaged);
    }
    let method = Method::from_code(unit[METHOD_AT]).ok_or(Damaged)?;
    if head.raw_bytes > raw_bytes_max || head.rows == 0 {
        return Err(Damaged);
    }
    raw.resize(head.raw_bytes, 0);
    let dictionary = known.as_ref().map(|known| &known.dictionary);
    decoder.decode(method, dictionary, &unit[HEAD_BYTES..], raw)?;
    Ok(head)
}

/// The fields of a key's row, and where in the raw bytes its value lies.
pub(crate) fn find(raw: &[u8], key: &[u8]) -> Result<Option<(Fields, Range<usize>)>, Damaged> {
    let (mut rows, mut end) = (Rows::new(raw), 0);
    while !rows.is_empty() {
        let row = rows.next_row()?;
        end += row.bytes.len();
        if row.key == key {
            let value = end - row.value.len()..end;
            return if row.long { Err(Damaged) } else { Ok(Some((row.fields, value))) };
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::record::{Fields, Record, write_row};

    const ORIGIN: Origin = Origin { sequence: 3, granule: 17 };

    fn rows() -> Vec<u8> {
        let mut raw = Vec::new();
        for index in 0..40_u8 {
            let (key, value) = ([b'k', index], [b'v'; 50]);
            let record = Record { key: &key, value: &value, fields: Fields::default() };
            write_row(&record, false, &mut raw);
        }
        raw
    }

    fn unit(raw: &[u8]) -> Vec<u8> {
        let mut stored = Vec::new();
        let (mut encoder, mut threshold) = (Encoder::new(3), Threshold::default());
        let promising = Compression::Promising;
        let method = promising.store(&mut encoder, &mut threshold, None, raw, &mut stored);
        let head = Head { stored_bytes: stored.len(), raw_bytes: raw.len(), rows: 40 };
        let mut target = vec![0xee; head.unit_bytes() + 10];
        write(ORIGIN, head, Coding::new(method, None), &stored, &mut target);
        assert!(target.ends_with(&[0xee; 10]));
        target
    }

    fn decoded(origin: Origin, bytes: &[u8], raw_bytes_max: usize) -> Result<Vec<u8>, Damaged> {
        let mut raw = Vec::new();
        let none = Dictionaries::new(0, 0, 3);
        decode(origin, &none, bytes, raw_bytes_max, &mut Decoder::new(), &mut raw).map(|_| raw)
    }

    #[test]
    fn rows_come_back_from_a_unit_and_a_key_is_found_in_them() {
        let raw = rows();
        let unit = unit(&raw);
        assert!(unit.len() < raw.len() / 2);
        assert_eq!(decoded(ORIGIN, &unit, raw.len()).expect("sound"), raw);
        let (_, value) = find(&raw, &[b'k', 39]).expect("sound").expect("it is there");
        assert_eq!(raw[value], [b'v'; 50]);
        assert!(find(&raw, &[b'k', 40]).expect("sound").is_none());
    }

    #[test]
    fn an_incompressible_unit_is_stored_as_it_is() {
        let mut random = stdx::random::Xorshift::default();
        let raw: Vec<u8> = (0..999).map(|_| random.draw() as u8).collect();
        let unit = unit(&raw);
        assert_eq!(unit[HEAD_BYTES..HEAD_BYTES + raw.len()], raw);
        assert_eq!(decoded(ORIGIN, &unit, raw.len()).expect("sound"), raw);
    }

    #[test]
    fn a_unit_is_compressed_by_the_choice_and_the_guess() {
        let mut random = stdx::random::Xorshift::default();
        let noise: Vec<u8> = (0..4096).map(|_| random.draw() as u8).collect();
        // Noise repeated twice looks like noise, and compresses to half.
        let twice = noise.repeat(2);
        let stored = |compression: Compression, raw: &[u8]| {
            let (mut encoder, mut threshold) = (Encoder::new(3), Threshold::default());
            let mut stored = Vec::new();
            compression.store(&mut encoder, &mut threshold, None, raw, &mut stored)
        };
        let methods = |raw: &[u8]| {
            [Compression::Promising, Compression::Any, Compression::Nothing]
                .map(|compression| stored(compression, raw))
        };
        assert_eq!(methods(&twice), [Method::Raw, Method::Zstd, Method::Raw]);
        assert_eq!(methods(&rows()), [Method::Zstd, Method::Zstd, Method::Raw]);
        assert_eq!(methods(&noise), [Method::Raw; 3]);
    }

    #[test]
    fn every_changed_or_missing_byte_is_damage() {
        let raw = rows();
        let mut unit = unit(&raw);
        unit.truncate(unit.len() - 10);
        for at in 0..unit.len() {
            assert!(decoded(ORIGIN, &unit[..at], raw.len()).is_err(), "{at}");
            unit[at] ^= 0x40;
            assert!(decoded(ORIGIN, &unit, raw.len()).is_err(), "{at}");
            unit[at] ^= 0x40;
        }
        assert!(decoded(ORIGIN, &unit, raw.len() - 1).is_err());
    }

    #[test]
    fn a_unit_of_another_time_or_granule_is_damage() {
        let raw = rows();
        let unit = unit(&raw);
        for other in 0..1000 {
            for origin in
                [Origin { sequence: other, ..ORIGIN }, Origin { granule: other as u32, ..ORIGIN }]
            {
                assert_eq!(decoded(origin, &unit, raw.len()).is_ok(), origin == ORIGIN);
            }
        }
    }
}
