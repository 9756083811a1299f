//! Lists of sizes on the command line: `16,64,1%` or `1..64`, which doubles from 1 until 64.
//!
//! A number counts units that the option names, MiB or objects; a percentage is a share of a whole
//! that the option names too.

use std::str::FromStr;

/// The most steps of a range.
const STEPS_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Amount {
    Units(f64),
    Percent(f64),
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Amount, String> {
        let (number, of): (&str, fn(f64) -> Amount) = match text.strip_suffix('%') {
            Some(percent) => (percent, Amount::Percent),
            None => (text, Amount::Units),
        };
        let number: f64 = number.trim().parse().map_err(|_| format!("`{text}` is no number"))?;
        if !(number > 0.0 && number.is_finite()) {
            return Err(format!("`{text}` is not above zero"));
        }
        Ok(of(number))
    }
}

/// Sizes, as they were requested.
#[derive(Debug, Clone, PartialEq)]
pub struct Amounts(Vec<Amount>);

impl FromStr for Amounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Amounts, String> {
        let mut amounts = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => amounts.push(part.parse()?),
                Some((first, last)) => match (first.parse()?, last.parse()?) {
                    (Amount::Units(first), Amount::Units(last))
                    | (Amount::Percent(first), Amount::Percent(last))
                        if first > last =>
                    {
                        return Err(format!("`{part}` falls"));
                    }
                    (Amount::Units(first), Amount::Units(last)) => {
                        amounts.extend(doubling(first, last).map(Amount::Units));
                    }
                    (Amount::Percent(first), Amount::Percent(last)) => {
                        amounts.extend(doubling(first, last).map(Amount::Percent));
                    }
                    (Amount::Units(_), Amount::Percent(_)) => {
                        return Err(format!("`{part}` runs from a number to a percentage"));
                    }
                    (Amount::Percent(_), Amount::Units(_)) => {
                        return Err(format!("`{part}` runs from a percentage to a number"));
                    }
                },
            }
        }
        Ok(Amounts(amounts))
    }
}

fn doubling(first: f64, last: f64) -> impl Iterator<Item = f64> {
    let steps = (0..STEPS_MAX as i32).map(move |step| first * f64::powi(2.0, step));
    steps.take_while(move |amount| *amount < last).chain([last])
}

impl Amounts {
    /// Reads one size, for an option that takes no list.
    pub fn one(text: &str) -> Result<Amounts, String> {
        let amounts: Amounts = text.parse()?;
        if amounts.0.len() == 1 { Ok(amounts) } else { Err(format!("`{text}` is not one size")) }
    }

    /// Returns the sizes in rising order, each once and at least 1; a number counts `unit` and a
    /// percentage is of `whole`.
    pub fn resolve(&self, unit: u64, whole: u64) -> Vec<u64> {
        let size = |amount: &Amount| match amount {
            Amount::Units(number) => number * unit as f64,
            Amount::Percent(percent) => percent / 100.0 * whole as f64,
        };
        let mut sizes: Vec<u64> =
            self.0.iter().map(|amount| (size(amount).round() as u64).max(1)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::Amounts;

    fn resolve(text: &str) -> Result<Vec<u64>, String> {
        text.parse::<Amounts>().map(|amounts| amounts.resolve(10, 1000))
    }

    #[test]
    fn numbers_percentages_and_ranges() {
        assert_eq!(resolve("1,0.5,100%,0.01%"), Ok(vec![1, 5, 10, 1000]));
        assert_eq!(resolve("1..5"), Ok(vec![10, 20, 40, 50]));
        assert_eq!(resolve("1%..4%,2"), Ok(vec![10, 20, 40]));
        assert_eq!(resolve("2..2"), Ok(vec![20]));
        // Regression: these were read as `2`.
        assert!(resolve("3..2").is_err() && resolve("3%..2%").is_err());
    }

    /// Regression: of a list, the least was taken without a word.
    #[test]
    fn several_sizes_are_refused_where_one_is_wanted() {
        assert_eq!(Amounts::one("10%"), "10%".parse());
        assert!(Amounts::one("10%,50%").is_err() && Amounts::one("1..4").is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "x", "0", "-1", "1..", "1%..5", "inf", "nan"] {
            assert!(resolve(text).is_err(), "{text}");
        }
    }
}
