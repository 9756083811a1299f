//! Keys and values for the objects of a trace, the same in every run.
//!
//! | option | length | content |
//! | --- | --- | --- |
//! | `--values FILE`, `records:FILE` | the record's | object `i` has record `i` modulo their number |
//! | `--values made:RATIO` | as the trace has it | phrases and random bytes that compress so far |
//! | neither | as the trace has it | random, from the object's number |
//! | `--value-bytes N` | N | any of these: a record is cut, or said again |
//!
//! Keys are `obj:` and the object's number with leading zeros. Values follow from the object's
//! number alone, so whoever reads one can check it. `choice` reads the option, `records`, `made` and
//! `pattern` make the three kinds of content.

mod choice;
mod made;
mod pattern;
pub mod records;

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::trace::{Request, Trace};
pub use choice::{ValueChoice, Values};

/// `obj:` and ten digits.
const KEY_BYTES_MIN: u16 = 14;
/// The longest key that memcached and Larder take.
const KEY_BYTES_MAX: u16 = 250;
/// The longest value: the item limit leaves some room for the header and the key.
pub const VALUE_BYTES_MAX: u32 = (1 << 20) - 512;
/// The seed of the values of a trace: that of a workload unless it is told another.
const SEED: u64 = 1;

/// What the keys and values of a trace shall be.
#[derive(Debug, Clone, Default, Args)]
pub struct ValueOptions {
    /// What values hold: random, made:RATIO (compresses so far), records:FILE or FILE (a stream of
    /// lengths and bytes, by object number; their lengths too) [default: random].
    #[arg(long, value_name = "CHOICE")]
    pub values: Option<ValueChoice>,
    /// Bytes of every value, instead of the trace's own or the record's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BYTES_MAX)))]
    pub value_bytes: Option<u32>,
    /// Bytes of every key, instead of the trace's own.
    #[arg(long, value_parser = clap::value_parser!(u16)
        .range(i64::from(KEY_BYTES_MIN)..=i64::from(KEY_BYTES_MAX)))]
    pub key_bytes: Option<u16>,
}

impl Values {
    /// Random values.
    #[cfg(test)]
    pub fn random() -> Values {
        ValueChoice::Random.load(SEED).expect("no file is needed")
    }

    /// Reads what there is to read, and gives every request of the trace its lengths.
    pub fn attach(options: &ValueOptions, trace: &mut Trace) -> Outcome<Values> {
        let values = options.values.clone().unwrap_or_default().load(SEED)?;
        for request in &mut trace.requests {
            let key_bytes = options.key_bytes.unwrap_or(request.key_bytes);
            request.key_bytes = key_bytes.clamp(KEY_BYTES_MIN, KEY_BYTES_MAX);
            if let Some(bytes) = options.value_bytes {
                request.value_bytes = bytes;
            } else if let Values::Records(records) = &values {
                request.value_bytes = records.of(request.object).len() as u32;
            }
        }
        if trace.requests.iter().all(|request| request.value_bytes == 0) {
            return Err(Failure::invalid(
                format!("measuring {} in memory", trace.name),
                "the trace has no sizes: give --values or --value-bytes",
            ));
        }
        Ok(values)
    }
}

/// Appends the key of a request's object.
pub fn append_key(request: &Request, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b"obj:");
    out.resize(start + usize::from(request.key_bytes), b'0');
    let mut rest = request.object;
    for digit in out[start..].iter_mut().rev().take(10) {
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

#[cfg(test)]
mod tests {
    use super::{ValueChoice, ValueOptions, Values, append_key, data_bytes};
    use crate::policies::check::reads;
    use crate::trace::Trace;
    use crate::trace::testing::Folder;

    fn trace(objects: &[u32]) -> Trace {
        Trace { name: "t".into(), requests: reads(objects), objects: 3 }
    }

    #[test]
    fn keys_are_numbers_of_the_wanted_length() {
        let mut request = reads(&[u32::MAX])[0];
        for (key_bytes, expected) in [(14, "obj:4294967295"), (17, "obj:0004294967295")] {
            request.key_bytes = key_bytes;
            let mut key = b"get ".to_vec();
            append_key(&request, &mut key);
            assert_eq!(std::str::from_utf8(&key[4..]), Ok(expected));
        }
    }

    #[test]
    fn lengths_come_from_the_options_or_the_trace() {
        let mut without = trace(&[0, 1, 0]);
        let nothing = ValueOptions::default();
        let failure = Values::attach(&nothing, &mut without).expect_err("no sizes");
        assert!(failure.to_string().contains("no sizes"), "{failure}");
        let options = ValueOptions { value_bytes: Some(30), key_bytes: Some(20), ..nothing };
        Values::attach(&options, &mut without).expect("sizes are given");
        assert_eq!(data_bytes(&without), 2 * 50);
        assert!(without.requests.iter().all(|request| request.value_bytes == 30));
    }

    #[test]
    fn records_bring_their_lengths_unless_one_is_given() {
        let folder = Folder::new();
        let path = folder.write("values", b"\x03\0\0\0one\x05\0\0\0three");
        let lengths = |value_bytes| {
            let records = Some(ValueChoice::Records(path.clone()));
            let options = ValueOptions { values: records, value_bytes, key_bytes: None };
            let mut trace = trace(&[0, 1, 2]);
            Values::attach(&options, &mut trace).expect("the file is whole");
            trace.requests.iter().map(|request| request.value_bytes).collect::<Vec<_>>()
        };
        assert_eq!(lengths(None), [3, 5, 3]);
        assert_eq!(lengths(Some(4)), [4, 4, 4]);
    }
}
