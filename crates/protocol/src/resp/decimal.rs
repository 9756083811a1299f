//! INCRBYFLOAT's sums: decimal numbers, added as people add them.
//!
//! ```text
//! "10.50"  ->  1050000000000000000      in units of 10^-17, the last place that is shown
//! "0.1"    ->    10000000000000000
//!              1060000000000000000  ->  "10.6"
//! ```
//!
//! Redis adds in the machine's longest binary numbers and shows 17 places, which for numbers of
//! many digits shows that they are binary. What has more places than 17, or is larger than 10^20,
//! is added as numbers of 64 bits here.

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
    /// Too large or too long for that.
    Binary(f64),
}

/// Reads a number: digits with a sign, a point and an exponent, or an infinity.
pub fn read(text: &[u8]) -> Option<Decimal> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    // Rust reads what the C library reads, but for hexadecimal numbers.
    let binary: f64 = text.parse().ok()?;
    if binary.is_nan() || (binary.is_infinite() && text.contains(|c: char| c.is_ascii_digit())) {
        return None;
    }
    Some(units(text).map_or(Decimal::Binary(binary), Decimal::Units))
}

/// The number in units, if it is one of them.
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
    let part = part.trim_end_matches('0');
    let mut number = 0_i128;
    for digit in whole.bytes().chain(part.bytes()) {
        let digit = digit.is_ascii_digit().then_some(i128::from(digit.wrapping_sub(b'0')))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    let shift = i64::from(PLACES) + i64::from(exponent) - part.len() as i64;
    let units = match u32::try_from(shift) {
        _ if number == 0 => 0,
        Ok(shift) => number.checked_mul(10_i128.checked_pow(shift)?)?,
        Err(_) => {
            let divisor = 10_i128.checked_pow(u32::try_from(-shift).ok()?)?;
            (number % divisor == 0).then_some(number / divisor)?
        }
    };
    (units <= UNITS_MAX).then_some(if is_negative { -units } else { units })
}

/// The sum as it is stored; none if there is no such number.
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
