//! The description of an option: its names, what it takes, and how a text becomes its value.
//!
//! Arguments, environment and file are split into names and texts, each in its own way; this module
//! checks the texts and applies them, in the same way for all three.

use super::Options;

/// Largest count of `verbose` and the like.
pub const COUNT_MAX: usize = 9;

/// One option.
pub struct Declaration {
    /// Short name, a letter.
    pub short: Option<char>,
    /// Long name.
    pub long: &'static str,
    /// What it takes and what it does.
    pub kind: Kind,
    /// Value without the option.
    pub default: Option<&'static str>,
    /// Help: what the option is for, and the reason of the default.
    pub reason: &'static str,
}

/// What an option takes and what it does.
#[derive(Clone, Copy)]
pub enum Kind {
    /// No value; turns something on or off.
    Switch(fn(&mut Options)),
    /// No value; counts how often it is given.
    Count(fn(&mut Options)),
    /// A whole number within a range (both ends included); some units allow a suffix k, m or g.
    Number {
        /// Unit of the number.
        unit: &'static str,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// Applies the number, which lies within the range.
        set: fn(&mut Options, u64),
    },
    /// Text that is checked by `set`.
    Text {
        /// Placeholder of the value.
        unit: &'static str,
        /// Applies the text, or returns what is wrong with it.
        set: fn(&mut Options, &str) -> Result<(), String>,
    },
    /// Text that may be given more than once; each one is added to the previous ones.
    List {
        /// Placeholder of an entry.
        unit: &'static str,
        /// Adds the text, or returns what is wrong with it.
        set: fn(&mut Options, &str) -> Result<(), String>,
    },
    /// Another name of the option with this long name.
    Alias(&'static str),
    /// Prints something instead of serving.
    Print(fn() -> String),
    /// Does something with all options instead of serving.
    Act(Act),
    /// An option of memcached's that is not implemented yet.
    Missing {
        /// Placeholder of the value, if it takes one.
        unit: Option<&'static str>,
    },
}

/// Actions on the options instead of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Checks them.
    Check,
    /// Prints them as a file.
    PrintConfig,
}

impl Declaration {
    /// Whether the option takes a value.
    pub fn takes_value(&self) -> bool {
        match self.kind {
            Kind::Switch(_) | Kind::Count(_) | Kind::Print(_) | Kind::Act(_) => false,
            Kind::Number { .. } | Kind::Text { .. } | Kind::List { .. } | Kind::Alias(_) => true,
            Kind::Missing { unit } => unit.is_some(),
        }
    }

    /// Whether it is a setting of the server, which may be in the environment or a file. The name
    /// of the file itself is for arguments and environment only.
    pub fn is_setting(&self) -> bool {
        !matches!(self.kind, Kind::Print(_) | Kind::Act(_))
    }

    /// Returns the range of a number.
    #[cfg(test)]
    pub fn range(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Number { min, max, .. } => Some((min, max)),
            _ => None,
        }
    }

    /// Applies `value` to `options`, or returns what is wrong with it, in words that follow the
    /// option's name.
    pub fn apply(&self, options: &mut Options, value: &str) -> Result<(), String> {
        match self.kind {
            Kind::Switch(set) | Kind::Count(set) => set(options),
            Kind::Print(_) | Kind::Act(_) | Kind::Alias(_) => {}
            Kind::Number { unit, min, max, set } => match number_of(unit, value) {
                Some(number) if (min..=max).contains(&number) => set(options, number),
                _ if value.is_empty() => return Err(" needs a value".to_owned()),
                _ if min == max => {
                    return Err(format!(" takes only {min}, not {value}. {}", self.reason));
                }
                Some(number) if number.to_string() != value => {
                    let text = format!(" takes {unit} from {min} to {max}, not {value} ({number})");
                    return Err(text);
                }
                None if number(value).is_some() => {
                    let text =
                        format!(" takes {unit} from {min} to {max}, without a suffix, not {value}");
                    return Err(text);
                }
                _ => return Err(format!(" takes {unit} from {min} to {max}, not {value}")),
            },
            Kind::Text { set, .. } | Kind::List { set, .. } => {
                set(options, value).map_err(|text| format!(": {text}"))?;
            }
            Kind::Missing { .. } => return Err(" is not implemented yet".to_owned()),
        }
        Ok(())
    }
}

/// Units whose numbers may end in k, m or g, as there may be thousands of them. Seconds may not:
/// nobody needs 1024 times 1024 of them, and `5m` would be read as five minutes.
pub const SUFFIXED: [&str; 5] = ["bytes", "kilobytes", "megabytes", "connections", "requests"];

/// Parses a whole number of units. Megabytes with a suffix are bytes, which is the obvious meaning
/// of `64m` and `1g`.
fn number_of(unit: &str, text: &str) -> Option<u64> {
    match unit {
        "megabytes" => text.parse().ok().or_else(|| Some(number(text)? >> 20)),
        _ if SUFFIXED.contains(&unit) => number(text),
        _ => text.parse().ok(),
    }
}

/// Parses a whole number, optionally followed by k, m or g.
pub fn number(text: &str) -> Option<u64> {
    let last = text.chars().last()?.to_ascii_lowercase();
    let factor = match last {
        'k' => 1 << 10,
        'm' => 1 << 20,
        'g' => 1 << 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(factor)
}
