//! Keys and values for the objects of a trace, the same in every run.
//!
//! | source | length | content |
//! | --- | --- | --- |
//! | `--values FILE` | the record's | record number: the object's modulo how many there are |
//! | `--value-bytes N` | N | random, from the object's number |
//! | neither | as the trace has it | random, from the object's number |
//!
//! Keys are `obj:` and the object's number with leading zeros. A file of records is a zstd stream
//! in which each record is its length as a little-endian `u32`, and its bytes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::random::Random;
use crate::trace::{Request, Trace};

/// `obj:` and ten digits.
const KEY_BYTES_MIN: u16 = 14;
/// The longest key that memcached and Larder take.
const KEY_BYTES_MAX: u16 = 250;
/// The longest value: the item limit leaves some room for the header and the key.
pub const VALUE_BYTES_MAX: u32 = (1 << 20) - 512;
/// All records together are refused beyond this: they are held in memory.
const RECORDS_BYTES_MAX: u64 = 4 << 30;

/// What the keys and values of a trace shall be.
#[derive(Debug, Clone, Args)]
pub struct ValueOptions {
    /// Records to use as values (zstd stream of lengths and bytes), by object number.
    #[arg(long, value_name = "FILE", conflicts_with = "value_bytes")]
    pub values: Option<PathBuf>,
    /// Bytes of every value, for a trace that has no sizes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BYTES_MAX)))]
    pub value_bytes: Option<u32>,
    /// Bytes of every key, instead of the trace's own.
    #[arg(long, value_parser = clap::value_parser!(u16)
        .range(i64::from(KEY_BYTES_MIN)..=i64::from(KEY_BYTES_MAX)))]
    pub key_bytes: Option<u16>,
}

/// The values of all objects.
#[derive(Debug)]
pub enum Values {
    /// Records from a file, one behind the other, and where each ends.
    Records { bytes: Vec<u8>, ends: Vec<usize> },
    /// Made from the object's number, as long as the request says.
    Random,
}

impl Values {
    /// Reads what there is to read, and gives every request of the trace its lengths.
    pub fn attach(options: &ValueOptions, trace: &mut Trace) -> Outcome<Values> {
        let values = match &options.values {
            Some(path) => read(path)?,
            None => Values::Random,
        };
        for request in &mut trace.requests {
            let key_bytes = options.key_bytes.unwrap_or(request.key_bytes);
            request.key_bytes = key_bytes.clamp(KEY_BYTES_MIN, KEY_BYTES_MAX);
            if let Values::Records { .. } = &values {
                request.value_bytes = values.record(request.object).len() as u32;
            } else if let Some(bytes) = options.value_bytes {
                request.value_bytes = bytes;
            }
        }
        if trace.requests.iter().all(|request| request.value_bytes == 0) {
            return Err(invalid(
                format!("measuring {} in memory", trace.name),
                "the trace has no sizes: give --values or --value-bytes",
            ));
        }
        Ok(values)
    }

    fn record(&self, object: u32) -> &[u8] {
        match self {
            Values::Records { bytes, ends } => {
                let number = object as usize % ends.len();
                let start = number.checked_sub(1).map_or(0, |before| ends[before]);
                &bytes[start..ends[number]]
            }
            Values::Random => &[],
        }
    }

    /// Writes the value that this request's object has.
    pub fn write(&self, request: &Request, value: &mut Vec<u8>) {
        value.clear();
        match self {
            Values::Records { .. } => value.extend_from_slice(self.record(request.object)),
            Values::Random => {
                let bytes = request.value_bytes as usize;
                let mut random = Random::new(u64::from(request.object));
                while value.len() < bytes {
                    value.extend_from_slice(&random.word().to_le_bytes());
                }
                value.truncate(bytes);
            }
        }
    }
}

/// Writes the key of a request's object.
pub fn write_key(request: &Request, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(b"obj:");
    key.resize(usize::from(request.key_bytes), b'0');
    let mut rest = request.object;
    for digit in key.iter_mut().rev().take(10) {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Bytes of keys and values of all objects together, each as it appears first.
pub fn data_bytes(trace: &Trace) -> u64 {
    let mut is_seen = vec![false; trace.objects as usize];
    let first = trace
        .requests
        .iter()
        .filter(|request| !std::mem::replace(&mut is_seen[request.object as usize], true));
    first.map(|request| u64::from(request.key_bytes) + u64::from(request.value_bytes)).sum()
}

/// A failure that something read, or asked for, makes no sense.
pub fn invalid(doing: String, what: impl Into<String>) -> Failure {
    Failure::io(doing)(io::Error::new(ErrorKind::InvalidData, what.into()))
}

fn read(path: &Path) -> Outcome<Values> {
    let doing = || format!("reading {}", path.display());
    let file = File::open(path).map_err(Failure::io(doing()))?;
    let stream = zstd::Decoder::new(file).map_err(Failure::io(doing()))?;
    let mut bytes = Vec::new();
    stream.take(RECORDS_BYTES_MAX).read_to_end(&mut bytes).map_err(Failure::io(doing()))?;
    parse(&bytes).map_err(|what| invalid(doing(), what))
}

fn parse(mut rest: &[u8]) -> Result<Values, String> {
    let (mut bytes, mut ends) = (Vec::with_capacity(rest.len()), Vec::new());
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or("the last record is cut off")?;
        let length = u32::from_le_bytes(*length);
        if length > VALUE_BYTES_MAX {
            return Err(format!("record {} has {length} bytes", ends.len()));
        }
        let record = tail.get(..length as usize).ok_or("the last record is cut off")?;
        bytes.extend_from_slice(record);
        ends.push(bytes.len());
        rest = &tail[record.len()..];
    }
    if ends.is_empty() {
        return Err("there are no records".into());
    }
    Ok(Values::Records { bytes, ends })
}

#[cfg(test)]
mod tests {
    use super::{ValueOptions, Values, data_bytes, parse, write_key};
    use crate::policies::check::reads;
    use crate::trace::Trace;

    const NOTHING: ValueOptions = ValueOptions { values: None, value_bytes: None, key_bytes: None };

    fn trace(objects: &[u32]) -> Trace {
        Trace { name: "t".into(), requests: reads(objects), objects: 3 }
    }

    #[test]
    fn keys_are_numbers_of_the_wanted_length() {
        let mut request = reads(&[u32::MAX])[0];
        let mut key = Vec::new();
        for (key_bytes, expected) in [(14, "obj:4294967295"), (17, "obj:0004294967295")] {
            request.key_bytes = key_bytes;
            write_key(&request, &mut key);
            assert_eq!(std::str::from_utf8(&key), Ok(expected));
        }
    }

    #[test]
    fn records_are_values_by_number() {
        let values = parse(b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c").expect("three records");
        let mut value = Vec::new();
        for (object, expected) in [(0, "ab"), (1, ""), (2, "c"), (3, "ab"), (5, "c")] {
            values.write(&reads(&[object])[0], &mut value);
            assert_eq!(value, expected.as_bytes());
        }
    }

    #[test]
    fn bad_records_are_refused_with_a_reason() {
        let reason = |bytes: &[u8]| parse(bytes).expect_err("bad records");
        assert!(reason(b"").contains("no records"));
        assert!(reason(b"\x02\0\0").contains("cut off"));
        assert!(reason(b"\x02\0\0\0a").contains("cut off"));
        assert!(reason(b"\0\0\0\x01").contains("record 0 has 16777216 bytes"));
    }

    #[test]
    fn lengths_come_from_the_options_or_the_trace() {
        let mut without = trace(&[0, 1, 0]);
        let failure = Values::attach(&NOTHING, &mut without).expect_err("no sizes");
        assert!(failure.to_string().contains("no sizes"), "{failure}");
        let options = ValueOptions { value_bytes: Some(30), key_bytes: Some(20), ..NOTHING };
        let values = Values::attach(&options, &mut without).expect("sizes are given");
        assert_eq!(data_bytes(&without), 2 * 50);
        let (mut first, mut again) = (Vec::new(), Vec::new());
        values.write(&without.requests[0], &mut first);
        values.write(&without.requests[2], &mut again);
        assert_eq!((first.len(), &first), (30, &again));
        values.write(&without.requests[1], &mut again);
        assert_ne!(first, again);
    }
}
