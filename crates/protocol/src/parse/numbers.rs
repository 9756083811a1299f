//! Decimal numbers as memcached reads them: digits only. Their length is bounded here.
//!
//! Numbers of 32 bits have at most 11 characters and those of 64 bits at most 22, leading zeros
//! and the sign included. An empty token is no number. A cost, which memcached does not know, may
//! have any number of digits.

const CHARACTERS_32_MAX: usize = 11;
const CHARACTERS_64_MAX: usize = 22;

/// Digits that fit 64 bits whatever they are.
const DIGITS_SAFE_MAX: usize = 19;

/// An unsigned number of 64 bits.
#[inline]
pub(crate) fn unsigned_64(token: &[u8]) -> Option<u64> {
    if token.is_empty() || token.len() > CHARACTERS_64_MAX {
        return None;
    }
    let mut sum: u64 = 0;
    let (first, rest) = token.split_at(token.len().min(DIGITS_SAFE_MAX));
    for &byte in first {
        sum = sum * 10 + u64::from(digit(byte)?);
    }
    for &byte in rest {
        sum = sum.checked_mul(10)?.checked_add(u64::from(digit(byte)?))?;
    }
    Some(sum)
}

#[inline]
fn digit(byte: u8) -> Option<u8> {
    let digit = byte.wrapping_sub(b'0');
    (digit <= 9).then_some(digit)
}

/// An unsigned number of 32 bits.
#[inline]
pub(crate) fn unsigned_32(token: &[u8]) -> Option<u32> {
    if token.len() > CHARACTERS_32_MAX {
        return None;
    }
    u32::try_from(unsigned_64(token)?).ok()
}

/// A number of 32 bits, perhaps with a `-`.
#[inline]
pub(crate) fn signed_32(token: &[u8]) -> Option<i32> {
    if token.len() > CHARACTERS_32_MAX {
        return None;
    }
    i32::try_from(signed(token)?).ok()
}

/// The client flags of a storage command. A `+` is allowed, and a `-` before nothing but zeros; a
/// number beyond 32 bits is refused.
#[inline]
pub(crate) fn client_flags(token: &[u8]) -> Option<u32> {
    match token.split_first()? {
        (b'+', digits) => u32::try_from(unsigned_64(digits)?).ok(),
        (b'-', digits) => (unsigned_64(digits)? == 0).then_some(0),
        _ => u32::try_from(unsigned_64(token)?).ok(),
    }
}

/// The expiry of a storage command. A `+` is allowed. A number that fits 32 bits without a sign,
/// but not with one, is negative, as in memcached: libmemcached writes -1 as 4294967295. A number
/// beyond 32 bits is a time in the far future.
#[inline]
pub(crate) fn store_expiry(token: &[u8]) -> Option<i64> {
    let seconds = match token.strip_prefix(b"+") {
        Some(digits) => i64::try_from(unsigned_64(digits)?).ok()?,
        None => signed(token)?,
    };
    let bits = u32::try_from(seconds);
    Some(bits.map_or(seconds, |bits| i64::from(bits.cast_signed())))
}

/// A cost in microseconds: digits and nothing else, any number of them. A cost beyond 32 bits,
/// which is 71 minutes, counts as their maximum.
#[inline]
pub(crate) fn cost_us(token: &[u8]) -> Option<u32> {
    if token.is_empty() {
        return None;
    }
    token.iter().try_fold(0_u32, |sum, &byte| {
        Some(sum.saturating_mul(10).saturating_add(u32::from(digit(byte)?)))
    })
}

#[inline]
fn signed(token: &[u8]) -> Option<i64> {
    match token.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(unsigned_64(digits)?),
        None => i64::try_from(unsigned_64(token)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_unsigned_numbers() {
        for (token, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0000000000000000000001", Some(1)),
            ("00000000000000000000001", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(unsigned_64(token.as_bytes()), number, "{token}");
        }
        assert_eq!(unsigned_32(b"4294967295"), Some(u32::MAX));
        assert_eq!(unsigned_32(b"4294967296"), None);
        assert_eq!(unsigned_32(b"00000000001"), Some(1));
        assert_eq!(unsigned_32(b"000000000001"), None);
        assert_eq!(client_flags(b"+4294967295"), Some(u32::MAX));
        assert_eq!(client_flags(b"4294967296"), None);
        assert_eq!(client_flags(b"-1"), None);
        assert_eq!(client_flags(b"-00"), Some(0));
        assert_eq!(client_flags(b"-"), None);
        assert_eq!(client_flags(b"+-0"), None);
        assert_eq!(client_flags(b""), None);
    }

    #[test]
    fn a_cost_is_digits_and_never_too_large() {
        for (token, number) in [
            ("0", Some(0)),
            ("1500", Some(1500)),
            ("0000000000000000000000000007", Some(7)),
            ("4294967294", Some(u32::MAX - 1)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", Some(u32::MAX)),
            ("42949672950", Some(u32::MAX)),
            ("18446744073709551616", Some(u32::MAX)),
            ("99999999999999999999999999999999", Some(u32::MAX)),
            ("", None),
            ("-1", None),
            ("-", None),
            ("+1", None),
            ("1.5", None),
            ("1e3", None),
            ("0x10", None),
            ("12us", None),
            ("99999999999999999999999999999999x", None),
        ] {
            assert_eq!(cost_us(token.as_bytes()), number, "{token}");
        }
    }

    #[test]
    fn edges_of_signed_numbers() {
        for (token, number) in [
            ("-0", Some(0)),
            ("-", None),
            ("--1", None),
            ("2147483647", Some(i32::MAX)),
            ("2147483648", None),
            ("-2147483648", Some(i32::MIN)),
            ("-2147483649", None),
        ] {
            assert_eq!(signed_32(token.as_bytes()), number, "{token}");
        }
        assert_eq!(store_expiry(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(store_expiry(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(store_expiry(b"9223372036854775808"), None);
        assert_eq!(store_expiry(b"2147483647"), Some(i64::from(i32::MAX)));
        assert_eq!(store_expiry(b"2147483648"), Some(i64::from(i32::MIN)));
        assert_eq!(store_expiry(b"4294967295"), Some(-1));
        assert_eq!(store_expiry(b"+4294967295"), Some(-1));
        assert_eq!(store_expiry(b"4294967296"), Some(1 << 32));
        assert_eq!(store_expiry(b"+5"), Some(5));
        assert_eq!(store_expiry(b"+-5"), None);
        assert_eq!(store_expiry(b"-+5"), None);
    }
}
