//! The data of zExpander's and SlimCache's experiments: keys of one length, and made values, or the
//! records of a file.
//!
//! Made values ([`RATIO`]) compress about as far, with a trained dictionary, as real sets of
//! records do on average: twelve of them made 3.21 times as much fit. They all have one length, so
//! that the experiment measures the zones and not how slabs move between size classes.

use crate::failure::Outcome;
use crate::paper::Scale;
use crate::random::Random;
use crate::trace::Request;
use crate::values::{self, ValueChoice, Values};
use crate::workload::popularity::Choice;

/// Keys at a scale of 1, and at least: each zone needs some slabs to work with.
const KEYS: u64 = 5_000_000;
const KEYS_MIN: usize = 32_000;
const KEY_BYTES: u16 = 16;
/// Bytes of a made value.
const VALUE_BYTES: u32 = 600;
/// The compression ratio of made values.
const RATIO: f64 = 3.0;
/// The least memory that gives both zones enough.
const MEMORY_MIN: u64 = 10 << 20;

/// Objects by number.
pub struct Data {
    /// Number of objects.
    pub keys: u32,
    choice: ValueChoice,
    values: Values,
}

impl Data {
    /// Returns as many objects, with such values, as the scale says.
    pub fn load(scale: &Scale) -> Outcome<Data> {
        let keys = scale.items(KEYS).max(KEYS_MIN) as u32;
        Data::of(keys, scale.values.clone(), scale.seed)
    }

    /// Returns this many objects.
    pub fn of(keys: u32, choice: Option<ValueChoice>, seed: u64) -> Outcome<Data> {
        let choice = choice.unwrap_or(ValueChoice::Made(RATIO));
        let values = choice.load(seed)?;
        Ok(Data { keys, choice, values })
    }

    /// Makes `key` an object's key.
    pub fn write_key(&self, object: u32, key: &mut Vec<u8>) {
        values::write_key(object, KEY_BYTES, key);
    }

    /// Makes `value` an object's value.
    pub fn write_value(&self, object: u32, value: &mut Vec<u8>) {
        value.clear();
        self.values.append(object, self.value_bytes(object), value);
    }

    /// Returns the bytes of keys and values of all objects.
    pub fn bytes(&self) -> u64 {
        (0..self.keys).map(|object| u64::from(self.value_bytes(object) + KEY_BYTES as u32)).sum()
    }

    /// Returns the number of objects after which values repeat, if they do: a file's number of
    /// records.
    pub fn distinct(&self) -> Option<u32> {
        match &self.values {
            Values::Records(records) => Some(records.lengths().count() as u32),
            _ => None,
        }
    }

    /// Returns a share of all bytes as a memory limit, or the least limit if that is more.
    pub fn memory(&self, percent: u64) -> u64 {
        (self.bytes() * percent / 100).max(MEMORY_MIN)
    }

    /// Returns every object once. The most popular one is the first; the order of the others says
    /// nothing about popularity.
    pub fn all(&self) -> std::ops::Range<u32> {
        0..self.keys
    }

    /// Returns a read of an object, for models that weigh items.
    pub fn read(&self, object: u32) -> Request {
        let value_bytes = self.value_bytes(object);
        Request { object, value_bytes, key_bytes: KEY_BYTES, ..Request::default() }
    }

    /// Describes the data for a report.
    pub fn in_words(&self) -> String {
        let (keys, bytes) = (self.keys, self.bytes());
        let mean = bytes as f64 / f64::from(keys) - f64::from(KEY_BYTES);
        let mib = bytes as f64 / f64::from(1 << 20);
        let choice = &self.choice;
        format!(
            "{keys} keys of {KEY_BYTES} bytes, values {choice} of {mean:.0}, {mib:.1} MiB in all"
        )
    }

    fn value_bytes(&self, object: u32) -> u32 {
        match &self.values {
            Values::Records(records) => records.of(object).len() as u32,
            _ => VALUE_BYTES,
        }
    }
}

/// Draws objects; a skew has no meaning where each is equally likely.
pub fn draw(choice: &Choice, skew: f64, keys: u32, count: usize, seed: u64) -> Outcome<Vec<u32>> {
    let mut chooser = choice.load(u64::from(keys), skew)?;
    let mut random = Random::new(seed);
    Ok((0..count).map(|_| chooser.read(&mut random) as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::{Data, KEY_BYTES, MEMORY_MIN, RATIO, VALUE_BYTES};

    #[test]
    fn values_compress_as_far_as_is_said() {
        let data = Data::of(2_000, None, 1).expect("no file is needed");
        let (mut value, mut all) = (Vec::new(), Vec::new());
        for object in 0..data.keys {
            data.write_value(object, &mut value);
            all.extend_from_slice(&value);
        }
        let packed = all.chunks(64 << 10).map(|unit| zstd::bulk::compress(unit, 3));
        let packed: usize = packed.map(|unit| unit.expect("it fits").len()).sum();
        let ratio = all.len() as f64 / packed as f64;
        assert!((ratio / RATIO - 1.0).abs() < 0.15, "{ratio}");
    }

    #[test]
    fn bytes_are_those_of_keys_and_values() {
        let data = Data::of(100_000, None, 1).expect("no file is needed");
        let each = u64::from(VALUE_BYTES) + u64::from(KEY_BYTES);
        assert_eq!(data.bytes(), 100_000 * each);
        assert_eq!(data.memory(50), 50_000 * each);
        assert_eq!(data.memory(1), MEMORY_MIN);
        let read = data.read(7);
        assert_eq!(u64::from(read.key_bytes) + u64::from(read.value_bytes), each);
    }
}
