//! What an option is: its names, what it takes, and how a text becomes its value.
//!
//! Arguments, environment and file are cut into names and texts, each in its own way; here the
//! texts are checked and taken over, for all of them alike.

use super::Options;

/// The most that `verbose` and the like count to.
pub const COUNT_MAX: usize = 9;

/// One option.
pub struct Declaration {
    /// Its letter.
    pub short: Option<char>,
    /// Its long name.
    pub long: &'static str,
    /// What it takes and what it does.
    pub kind: Kind,
    /// What holds without it.
    pub default: Option<&'static str>,
    /// What it is for, and why the default is what it is.
    pub reason: &'static str,
}

/// What an option takes and what it does.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Nothing; it turns something on or off.
    Switch(fn(&mut Options)),
    /// Nothing; it counts how often it is given.
    Count(fn(&mut Options)),
    /// A whole number within a range (both ends included), where its unit allows it perhaps with a
    /// suffix k, m or g.
    Number {
        /// Of what.
        unit: &'static str,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// Takes it over; the number lies within the range.
        set: fn(&mut Options, u64),
    },
    /// Text that is checked by `set`.
    Text {
        /// What it stands for.
        unit: &'static str,
        /// Takes it over or says what is wrong with it.
        set: fn(&mut Options, &str) -> Result<(), String>,
    },
    /// Text that may be given more than once; each adds to those before.
    List {
        /// What each stands for.
        unit: &'static str,
        /// Adds it or says what is wrong with it.
        set: fn(&mut Options, &str) -> Result<(), String>,
    },
    /// Another name of the option with this long name.
    Alias(&'static str),
    /// Prints something instead of serving.
    Print(fn() -> String),
    /// Does something else with all options than serve.
    Act(Act),
    /// Known, and not there yet.
    Missing {
        /// The value's name, if it takes one.
        unit: Option<&'static str>,
    },
}

/// What can be done with options instead of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Say whether they are in order.
    Check,
    /// Print them as a file.
    PrintConfig,
}

impl Declaration {
    /// Whether a value follows.
    pub fn takes_value(&self) -> bool {
        match self.kind {
            Kind::Switch(_) | Kind::Count(_) | Kind::Print(_) | Kind::Act(_) => false,
            Kind::Number { .. } | Kind::Text { .. } | Kind::List { .. } | Kind::Alias(_) => true,
            Kind::Missing { unit } => unit.is_some(),
        }
    }

    /// Whether it says how to serve, so that it may stand in the environment or a file. The name
    /// of the file itself is for arguments and environment only.
    pub fn is_setting(&self) -> bool {
        !matches!(self.kind, Kind::Print(_) | Kind::Act(_))
    }

    /// The range of a number.
    #[cfg(test)]
    pub fn range(&self) -> Option<(u64, u64)> {
        match self.kind {
            Kind::Number { min, max, .. } => Some((min, max)),
            _ => None,
        }
    }

    /// Takes `value` over into `options`, or says what is wrong with it, in words that go behind
    /// the option's name.
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

/// Units of which there may be thousands: their numbers may end in k, m or g. Of seconds nobody
/// has 1024 times 1024, and `5m` would be five minutes to who writes it.
pub const SUFFIXED: [&str; 5] = ["bytes", "kilobytes", "megabytes", "connections", "requests"];

/// A whole number of so many units. Megabytes with a suffix are bytes, as `64m` and `1g` plainly
/// mean.
fn number_of(unit: &str, text: &str) -> Option<u64> {
    match unit {
        "megabytes" => text.parse().ok().or_else(|| Some(number(text)? >> 20)),
        _ if SUFFIXED.contains(&unit) => number(text),
        _ => text.parse().ok(),
    }
}

/// A whole number, perhaps followed by k, m or g.
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
