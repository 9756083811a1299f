//! Keys and values for the objects of a trace, the same in every run.
//!
//! | option | length | content |
//! | --- | --- | --- |
//! | `--values FILE`, `records:FILE` | the record's | the record that has the object's number |
//! | `--values made:RATIO` | as the trace has it | phrases and random bytes that compress so far |
//! | `--values made:incompressible` | as the trace has it | random bytes: `made:1` |
//! | neither | as the trace has it | random, from the object's number |
//! | `--value-bytes N` | N | any of these: a record is cut, or said again |
//!
//! Keys are `obj:` and the object's number with leading zeros. Values follow from the object's
//! number alone, so every reader can check them. `choice` reads the option; `records`, `made` and
//! `pattern` make the three kinds of content.

mod choice;
mod made;
mod pattern;
pub mod records;

use std::borrow::Borrow;

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::trace::Request;
use crate::trace::copies::Copies;
pub use choice::{ValueChoice, Values};

/// `obj:` and ten digits.
pub const KEY_BYTES_MIN: u16 = 14;
/// The longest key that memcached and Larder take.
pub const KEY_BYTES_MAX: u16 = 250;
/// The longest value: the item limit leaves some room for the header and the key.
pub const VALUE_BYTES_MAX: u32 = (1 << 20) - 512;

/// The keys and values of a trace.
#[derive(Debug, Clone, Default, Args)]
pub struct ValueOptions {
    /// The content of values: random, made:RATIO (compresses by this ratio; made:incompressible is
    /// made:1), records:FILE or FILE (a stream of lengths and bytes, by object number, with their
    /// lengths) [default: random].
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

impl ValueOptions {
    /// Returns whether any of the options is given.
    pub fn is_any_given(&self) -> bool {
        self.values.is_some() || self.value_bytes.is_some() || self.key_bytes.is_some()
    }
}

impl Values {
    /// Random values.
    #[cfg(test)]
    pub fn random() -> Values {
        ValueChoice::Random.load(1).expect("no file is needed")
    }

    /// Reads records, prepares other content from the seed, and gives every request of the trace
    /// its lengths.
    pub fn attach(options: &ValueOptions, trace: &mut Copies, seed: u64) -> Outcome<Values> {
        let values = options.values.clone().unwrap_or_default().load(seed)?;
        for request in trace.originals() {
            let key_bytes = options.key_bytes.unwrap_or(request.key_bytes);
            request.key_bytes = key_bytes.clamp(KEY_BYTES_MIN, KEY_BYTES_MAX);
            if let Some(bytes) = options.value_bytes {
                request.value_bytes = bytes;
            }
        }
        match (&values, options.value_bytes) {
            (_, Some(_)) => {}
            (Values::Records(records), None) => {
                trace.follow_records(records.lengths().collect());
            }
            (_, None) => trace.fill_in_lengths(),
        }
        if trace.iter().all(|request| request.value_bytes == 0) {
            let what = format!("{} in memory", trace.name());
            let remedy = "the trace has no sizes: give --values or --value-bytes";
            return Err(Failure::Usage(format!("measuring {what}: {remedy}")));
        }
        Ok(values)
    }
}

/// Makes `key` the key of an object, in place of the previous one.
pub fn write_key(object: u32, key_bytes: u16, key: &mut Vec<u8>) {
    let key_bytes = usize::from(key_bytes);
    if key.len() != key_bytes {
        key.clear();
        key.extend_from_slice(b"obj:");
        key.resize(key_bytes, b'0');
    }
    // Two digits at a time, which do not depend on each other: keys are made while the clock runs.
    let pairs = [100_000_000, 1_000_000, 10_000, 100, 1].map(|unit| object / unit % 100);
    let digits = key.last_chunk_mut::<10>().expect("a key has room for every number");
    for (digits, pair) in digits.chunks_exact_mut(2).zip(pairs) {
        digits[0] = b'0' + (pair / 10) as u8;
        digits[1] = b'0' + (pair % 10) as u8;
    }
}

/// Returns the bytes of the data: keys and values of all distinct objects, at their first
/// appearance.
pub fn data_bytes(requests: impl IntoIterator<Item: Borrow<Request>>, objects: u32) -> u64 {
    let mut is_seen = vec![false; objects as usize];
    let mut bytes = |request: &Request| {
        let is_first = !std::mem::replace(&mut is_seen[request.object as usize], true);
        let bytes = u64::from(request.key_bytes) + u64::from(request.value_bytes);
        if is_first { bytes } else { 0 }
    };
    requests.into_iter().map(|request| bytes(request.borrow())).sum()
}

/// Describes the bytes of the data for a report.
pub fn data_in_words(data_bytes: u64) -> String {
    let mib = data_bytes as f64 / f64::from(1 << 20);
    format!(
        "{data_bytes} bytes ({mib:.1} MiB): keys and values of all distinct objects, each as it \
         appears first; percentages of memory are of this"
    )
}

#[cfg(test)]
mod tests {
    use super::{ValueChoice, ValueOptions, Values, data_bytes, write_key};
    use crate::policies::check::reads;
    use crate::trace::Trace;
    use crate::trace::copies::Copies;
    use crate::trace::testing::Folder;
    use crate::workload::requests::Requests;

    fn trace(objects: &[u32]) -> Trace {
        Trace { name: "t".into(), requests: reads(objects), objects: 3 }
    }

    #[test]
    fn keys_are_numbers_of_the_wanted_length() {
        let mut key = Vec::new();
        for (object, key_bytes, expected) in [
            (u32::MAX, 14, "obj:4294967295"),
            (u32::MAX, 17, "obj:0004294967295"),
            (1_234_567_890, 17, "obj:0001234567890"),
            (7, 17, "obj:0000000000007"),
            (7, 14, "obj:0000000007"),
        ] {
            write_key(object, key_bytes, &mut key);
            assert_eq!(std::str::from_utf8(&key), Ok(expected));
        }
    }

    #[test]
    fn lengths_come_from_the_options_or_the_trace() {
        let mut without = Copies::from(trace(&[0, 1, 0]));
        let nothing = ValueOptions::default();
        let failure = Values::attach(&nothing, &mut without, 1).expect_err("no sizes");
        assert!(failure.to_string().contains("no sizes"), "{failure}");
        assert_eq!(failure.exit_code(), 2, "an option is missing");
        let options = ValueOptions { value_bytes: Some(30), key_bytes: Some(20), ..nothing };
        Values::attach(&options, &mut without, 1).expect("sizes are given");
        assert_eq!(data_bytes(without.iter(), 3), 2 * 50);
        assert!(without.iter().all(|request| request.value_bytes == 30));
    }

    /// Regression: values were the same whatever the workload's seed.
    #[test]
    fn values_follow_from_the_seed() {
        let value = |arguments: &str| {
            let requests: Requests = arguments.parse().expect("a workload");
            let mut trace = Copies::from(requests.read().expect("no file is needed"));
            let options = ValueOptions::default();
            let values = Values::attach(&options, &mut trace, requests.seed());
            let mut value = Vec::new();
            values.expect("it has sizes").append(0, 32, &mut value);
            value
        };
        assert_ne!(value("make --requests 1 --seed 7"), value("make --requests 1"));
        assert_eq!(value("make --requests 1 --seed 1"), value("make --requests 1"));
    }

    #[test]
    fn records_bring_their_lengths_unless_one_is_given() {
        let folder = Folder::new();
        let path = folder.write("values", b"\x03\0\0\0one\x05\0\0\0three");
        let lengths = |value_bytes| {
            let records = Some(ValueChoice::Records(path.clone()));
            let options = ValueOptions { values: records, value_bytes, key_bytes: None };
            let mut trace = Copies::from(trace(&[0, 1, 2]));
            Values::attach(&options, &mut trace, 1).expect("the file is whole");
            trace.iter().map(|request| request.value_bytes).collect::<Vec<_>>()
        };
        assert_eq!(lengths(None), [3, 5, 3]);
        assert_eq!(lengths(Some(4)), [4, 4, 4]);
    }
}
