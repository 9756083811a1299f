//! Whole numbers as Redis reads them: one way to write each.

/// The most characters of a number of 64 bits, with its sign.
const CHARACTERS_MAX: usize = 20;

/// A signed number of 64 bits: digits without leading zeros, perhaps behind a `-`.
#[inline]
pub fn integer(text: &[u8]) -> Option<i64> {
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        _ => (text, false),
    };
    match digits {
        _ if text.len() > CHARACTERS_MAX => return None,
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let number = digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    if is_negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

/// A number without a sign, such as SCAN's cursor: leading zeros do not matter.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_in_one_way() {
        let numbers: [(&[u8], Option<i64>); 17] = [
            (b"0", Some(0)),
            (b"-1", Some(-1)),
            (b"10", Some(10)),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"9223372036854775808", None),
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"-9223372036854775809", None),
            (b"18446744073709551617", None),
            (b"99999999999999999999", None),
            (b"", None),
            (b"-", None),
            (b"-0", None),
            (b"00", None),
            (b"01", None),
            (b"+1", None),
            (b" 1", None),
            (b"1 ", None),
        ];
        for (text, number) in numbers {
            assert_eq!(integer(text), number, "{}", text.escape_ascii());
        }
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!((unsigned(b""), unsigned(b"-1"), unsigned(b"007")), (None, None, Some(7)));
    }
}
