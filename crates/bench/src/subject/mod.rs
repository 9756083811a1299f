//! The stored data of an experiment: values of one kind under so many keys that they do not fit.
//!
//! `send` sends requests for them, batch by batch.

pub mod send;

use clap::Args;

use crate::failure::{Failure, Outcome};
use crate::trace::copies::Copies;
use crate::trace::{Operation, Request, Trace};
use crate::values::{KEY_BYTES_MAX, KEY_BYTES_MIN, VALUE_BYTES_MAX, ValueChoice, Values};
use crate::workload::popularity::KEYS_MAX;

/// The values and keys.
#[derive(Debug, Clone, Args)]
pub struct SubjectOptions {
    /// The content of values: FILE or records:FILE (with the records' lengths), made:RATIO,
    /// made:incompressible or random; several: each in turn.
    #[arg(long, value_name = "CHOICE", value_delimiter = ',', default_value = "made:3")]
    pub values: Vec<ValueChoice>,
    /// Bytes of a value that is not a record.
    #[arg(long, value_name = "BYTES", default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BYTES_MAX)))]
    pub made_bytes: u32,
    /// Bytes of every key (14 to 250).
    #[arg(long, value_name = "BYTES", default_value_t = 24,
        value_parser = clap::value_parser!(u16)
            .range(i64::from(KEY_BYTES_MIN)..=i64::from(KEY_BYTES_MAX)))]
    pub key_bytes: u16,
    /// The seed of values and requests; each further round uses the next one.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Values of one kind, and their keys.
#[derive(Debug)]
pub struct Subject {
    /// The values' name in reports.
    pub name: String,
    /// The values.
    pub values: Values,
    /// Number of keys.
    pub keys: u32,
    /// The mean bytes of a key with its value.
    pub item_bytes: f64,
    /// Bytes of every key.
    pub key_bytes: u16,
    made_bytes: u32,
}

/// Reads a size of the key space, in multiples of the memory or the flash.
pub fn key_space(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(times) if times > 0.0 && times <= 1000.0 => Ok(times),
        _ => Err("a key space is above 0 and at most 1000 times the size".into()),
    }
}

impl SubjectOptions {
    /// Returns all kinds of values, each with as many keys as make `data_bytes` with them.
    pub fn subjects(&self, data_bytes: f64) -> Outcome<Vec<Subject>> {
        let mut subjects: Vec<Subject> = Vec::new();
        for choice in &self.values {
            let subject = Subject::load(self, choice, data_bytes)?;
            if subjects.iter().any(|other| other.name == subject.name) {
                return Err(Failure::Usage(format!("--values names {} twice", subject.name)));
            }
            subjects.push(subject);
        }
        Ok(subjects)
    }
}

impl Subject {
    fn load(options: &SubjectOptions, choice: &ValueChoice, data_bytes: f64) -> Outcome<Subject> {
        let values = choice.load(options.seed)?;
        let value_bytes = match &values {
            Values::Records(records) => {
                let all: u64 = records.lengths().map(u64::from).sum();
                all as f64 / records.lengths().count() as f64
            }
            _ => f64::from(options.made_bytes),
        };
        let item_bytes = value_bytes + f64::from(options.key_bytes);
        let keys = (data_bytes / item_bytes).round();
        if !(1.0..=KEYS_MAX as f64).contains(&keys) {
            let what = format!("{keys} keys of {item_bytes:.0} bytes with their values");
            return Err(Failure::Usage(format!("--key-space makes {what}: 1 to {KEYS_MAX}")));
        }
        let name = match choice {
            ValueChoice::Records(path) => {
                path.file_name().map_or_else(String::new, |name| name.display().to_string())
            }
            _ => choice.to_string(),
        };
        let (made_bytes, key_bytes) = (options.made_bytes, options.key_bytes);
        Ok(Subject { name, values, keys: keys as u32, item_bytes, key_bytes, made_bytes })
    }

    /// Returns requests of these kinds for these keys, in this order.
    pub fn trace(&self, requests: impl Iterator<Item = (Operation, u32)>) -> Copies {
        let request = |(operation, object)| {
            let value_bytes = match &self.values {
                Values::Records(records) => records.of(object).len() as u32,
                _ => self.made_bytes,
            };
            let key_bytes = self.key_bytes;
            Request { object, value_bytes, key_bytes, operation, ..Request::default() }
        };
        let requests = requests.map(request).collect();
        Trace { name: self.name.clone(), requests, objects: self.keys }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::{SubjectOptions, key_space};
    use crate::trace::Operation;
    use crate::trace::testing::Folder;
    use crate::values::ValueChoice;

    fn options(values: Vec<ValueChoice>) -> SubjectOptions {
        SubjectOptions { values, made_bytes: 300, key_bytes: 24, seed: 1 }
    }

    #[test]
    fn a_key_space_is_a_multiple() {
        assert_eq!((key_space("0.5"), key_space("1000")), (Ok(0.5), Ok(1000.0)));
        assert!(["0", "-1", "1001", "nan", "x"].iter().all(|text| key_space(text).is_err()));
    }

    #[test]
    fn keys_are_as_many_as_make_the_bytes_with_their_values() {
        let made = options(vec![ValueChoice::Made(3.0)]).subjects(324e3).expect("no file");
        assert_eq!((made[0].keys, made[0].item_bytes), (1000, 324.0));
        let path = Folder::new().write("values", b"\x03\0\0\0one\x05\0\0\0three");
        assert!(options(vec![ValueChoice::Records(path)]).subjects(1e3).is_err(), "it is gone");
        let folder = Folder::new();
        let path = folder.write("values", b"\x03\0\0\0one\x05\0\0\0three");
        let read = options(vec![ValueChoice::Records(path)]).subjects(280.0).expect("a file");
        assert_eq!((read[0].keys, read[0].item_bytes, read[0].name.as_str()), (10, 28.0, "values"));
        let trace = read[0].trace([(Operation::Set, 0), (Operation::Get, 3)].into_iter());
        let lengths: Vec<u32> = trace.iter().map(|request| request.value_bytes).collect();
        assert_eq!(lengths, [3, 5]);
    }

    #[test]
    fn too_many_keys_and_the_same_twice_are_refused() {
        let random = || ValueChoice::Random;
        assert!(options(vec![random()]).subjects(1e15).is_err());
        assert!(options(vec![random()]).subjects(1.0).is_err());
        let twice = options(vec![random(), random()]).subjects(1e6).expect_err("twice");
        assert!(twice.to_string().contains("random twice"), "{twice}");
    }
}
