//! INCRBYFLOAT's sums: decimal numbers, added as people add them.
//!
//! ```text
//! "10.50"  ->  1050000000000000000      in units of 10^-17, the last place that is shown
//! "0.1"    ->    10000000000000000
//!              1060000000000000000  ->  "10.6"
//! ```
//!
//! Redis adds in the machine's longest binary numbers and shows 17 places, which for numbers of
//! many digits shows that they are binary. A number with more than 17 places is rounded to these
//! here, and one larger than 10^20 is added as a 64-bit number.

/// Places behind the point that are kept.
const PLACES: u32 = 17;

/// The largest number that is added as a decimal one, in units: 10^37, and a sum is within 128
/// bits.
const UNITS_MAX: i128 = 10_i128.pow(20 + PLACES);

/// The longest text that is taken for a number.
const TEXT_BYTES_MAX: usize = 5 << 10;

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decimal {
    /// In units of the last place.
    Units(i128),
    /// Too large for that.
    Binary(f64),
}

/// Reads a number: digits with a sign, a point and an exponent, or an infinity.
pub fn read(text: &[u8]) -> Option<Decimal> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    // Rust reads the numbers that the C library reads, except hexadecimal ones.
    let binary: f64 = text.parse().ok()?;
    if binary.is_nan() || (binary.is_infinite() && text.contains(|c: char| c.is_ascii_digit())) {
        return None;
    }
    Some(units(text).map_or(Decimal::Binary(binary), Decimal::Units))
}

/// The number in units, to the nearest, if it is not too large for them.
fn units(text: &str) -> Option<i128> {
    let (text, exponent) = match text.split_once(['e', 'E']) {
        Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (digits, is_negative) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(part.bytes()).all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Digits down to the last place that is kept; one more says which way to round.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(PLACES);
    let mut digits = whole.bytes().chain(part.bytes()).map(|digit| i128::from(digit - b'0'));
    let mut units = 0_i128;
    for _ in 0..kept {
        let digit = digits.next();
        if digit.is_none() && units == 0 {
            break;
        }
        units = units.checked_mul(10)?.checked_add(digit.unwrap_or(0))?;
    }
    if kept >= 0 && digits.next().is_some_and(|next| next >= 5) {
        units = units.checked_add(1)?;
    }
    (units <= UNITS_MAX).then_some(if is_negative { -units } else { units })
}

/// The sum as it is stored; `None` if there is no such number.
pub fn sum(one: Decimal, other: Decimal) -> Option<String> {
    let sum = match (one, other) {
        (Decimal::Units(one), Decimal::Units(other)) => return Some(show(one + other)),
        _ => one.binary() + other.binary(),
    };
    sum.is_finite().then(|| format!("{sum}"))
}

impl Decimal {
    fn binary(self) -> f64 {
        match self {
            // Through its text, which is rounded once.
            Self::Units(units) => show(units).parse().unwrap_or(f64::NAN),
            Self::Binary(number) => number,
        }
    }
}

fn show(units: i128) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let unit = 10_u128.pow(PLACES);
    let (whole, part) = (units.unsigned_abs() / unit, units.unsigned_abs() % unit);
    if part == 0 {
        return format!("{sign}{whole}");
    }
    let part = format!("{part:017}");
    format!("{sign}{whole}.{}", part.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(one: &str, other: &str) -> Option<String> {
        sum(read(one.as_bytes())?, read(other.as_bytes())?)
    }

    #[test]
    fn sums_are_those_on_paper() {
        for (one, other, wanted) in [
            ("10.50", "0.1", Some("10.6")),
            ("5.0e3", "2.0e2", Some("5200")),
            ("0.1", "0.2", Some("0.3")),
            ("-1", "1", Some("0")),
            ("-0.25", "0", Some("-0.25")),
            ("3", "1.200", Some("4.2")),
            ("+1", ".5", Some("1.5")),
            ("1e-17", "0", Some("0.00000000000000001")),
            ("1e-18", "0", Some("0")),
            ("5e-18", "0", Some("0.00000000000000001")),
            ("-3.14159265358979323846", "0", Some("-3.14159265358979324")),
            ("100000", "3.14159265358979323846", Some("100003.14159265358979324")),
            (
                "1000000000000000",
                "0.123456789012345678",
                Some("1000000000000000.12345678901234568"),
            ),
            ("0.99999999999999999999", "0", Some("1")),
            ("0e2000000000", "1e-2000000000", Some("0")),
            ("00000000000000000000000000000000000000000000.5", "1", Some("1.5")),
            ("123456789012345678901", "0", Some("123456789012345680000")),
            // The largest number of units, 2^127 - 1, rounded up.
            ("1701411834604692317316.873037158841057275", "0", Some("1701411834604692400000")),
            ("-1701411834604692317316.873037158841057275", "0", Some("-1701411834604692400000")),
            ("1e300", "1e300", Some("2000")),
            ("inf", "1", None),
            ("1", "", None),
            ("1", " 1", None),
            ("1", "1x", None),
            ("1", "nan", None),
            ("1", "1e400", None),
            ("1.7e308", "1.7e308", None),
        ] {
            let got = add(one, other);
            match wanted {
                // Three hundred digits, of which the first is enough.
                Some("2000") => assert!(got.is_some_and(|got| got.starts_with("2000"))),
                _ => assert_eq!(got.as_deref(), wanted, "{one} {other}"),
            }
        }
    }
}
