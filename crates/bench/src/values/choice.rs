//! The content of values as the command line gives it, and prepared values.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use super::made::{self, Made};
use super::pattern::Pattern;
use super::records::Records;
use crate::failure::Outcome;

/// The word for a ratio of 1.
const INCOMPRESSIBLE: &str = "incompressible";

/// The source of values.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(into = "String")]
pub enum ValueChoice {
    /// Random bytes.
    #[default]
    Random,
    /// Made to compress by this ratio.
    Made(f64),
    /// The values of a record file.
    Records(PathBuf),
}

impl FromStr for ValueChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueChoice, String> {
        match text.split_once(':') {
            None if text == "random" => Ok(ValueChoice::Random),
            None if matches!(text, "" | "made" | "records") => {
                Err("random, made:RATIO, records:FILE or FILE".into())
            }
            Some(("made", INCOMPRESSIBLE)) => Ok(ValueChoice::Made(1.0)),
            Some(("made", ratio)) => match ratio.parse() {
                Ok(ratio) if (1.0..=made::RATIO_MAX).contains(&ratio) => {
                    Ok(ValueChoice::Made(ratio))
                }
                _ => Err(format!(
                    "a ratio lies between 1, which is {INCOMPRESSIBLE}, and {}",
                    made::RATIO_MAX
                )),
            },
            Some(("records", path)) => Ok(ValueChoice::Records(path.into())),
            _ => Ok(ValueChoice::Records(text.into())),
        }
    }
}

impl fmt::Display for ValueChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueChoice::Random => out.write_str("random"),
            ValueChoice::Made(1.0) => write!(out, "made:{INCOMPRESSIBLE}"),
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
        Ok(match self {
            ValueChoice::Random => Values::Random(Pattern::new(seed)),
            ValueChoice::Made(ratio) => Values::Made(Box::new(Made::new(*ratio, seed))),
            ValueChoice::Records(path) => Values::Records(Records::read(path)?),
        })
    }
}

/// Prepared values: the same bytes for the same object and length.
#[derive(Debug)]
pub enum Values {
    /// Random bytes.
    Random(Pattern),
    /// Phrases and random bytes.
    Made(Box<Made>),
    /// Records, by object number.
    Records(Records),
}

impl Values {
    /// Appends the value of an object at this length.
    pub fn append(&self, object: u32, value_bytes: u32, out: &mut Vec<u8>) {
        match self {
            Values::Random(pattern) => pattern.append(object, value_bytes, out),
            Values::Made(made) => made.append(object, value_bytes, out),
            Values::Records(records) => records.append(object, value_bytes, out),
        }
    }

    /// Returns whether this is an object's value at its length. `scratch` may hold anything before
    /// and after.
    pub fn is_value(&self, object: u32, value: &[u8], scratch: &mut Vec<u8>) -> bool {
        if let Values::Random(pattern) = self {
            return pattern.is_value(object, value);
        }
        scratch.clear();
        self.append(object, value.len() as u32, scratch);
        value == scratch.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::ValueChoice;
    use crate::trace::testing::Folder;

    #[test]
    fn choices_are_read_and_shown_alike() {
        for text in ["random", "made:2.5", "made:incompressible", "records:a:b"] {
            let choice: ValueChoice = text.parse().expect("it is a choice");
            assert_eq!(choice.to_string(), text);
        }
        assert_eq!("made:1".parse(), Ok(ValueChoice::Made(1.0)));
        for file in ["json.rec.zst", "./made", "a:b"] {
            assert_eq!(file.parse(), Ok(ValueChoice::Records(file.into())));
        }
    }

    #[test]
    fn an_invalid_choice_is_refused() {
        for text in ["made", "records", "", "made:0.5", "made:9", "made:x"] {
            assert!(text.parse::<ValueChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn values_of_every_kind_are_known_again() {
        let folder = Folder::new();
        let path = folder.write("values", b"\x03\0\0\0one\x05\0\0\0three");
        for choice in [ValueChoice::Random, ValueChoice::Made(2.0), ValueChoice::Records(path)] {
            let values = choice.load(1).expect("the file is whole");
            let (mut value, mut scratch) = (Vec::new(), b"anything".to_vec());
            values.append(7, 50, &mut value);
            assert!(values.is_value(7, &value, &mut scratch), "{choice}");
            assert!(!values.is_value(8, &value, &mut scratch), "{choice}");
            value[49] ^= 1;
            assert!(!values.is_value(7, &value, &mut scratch), "{choice}");
        }
    }
}
