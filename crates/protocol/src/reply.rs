//! Answers as bytes, written behind one another into a buffer.
//!
//! Lines that never change are constants; [`line()`] appends one. Lines with numbers have a
//! function each. Nothing goes through the formatting machinery: a `VALUE` line is written for
//! every key of a multiget.

pub mod dump;
pub mod meta;

/// Closes the values of a `get`, and of `stats` and `metadump`.
pub const END: &str = "END\r\n";
/// A storage command stored its value.
pub const STORED: &str = "STORED\r\n";
/// `add` found a value, or `replace`, `append` or `prepend` found none.
pub const NOT_STORED: &str = "NOT_STORED\r\n";
/// `cas` found another CAS unique.
pub const EXISTS: &str = "EXISTS\r\n";
/// There is no such item.
pub const NOT_FOUND: &str = "NOT_FOUND\r\n";
/// `delete` deleted.
pub const DELETED: &str = "DELETED\r\n";
/// `touch` touched.
pub const TOUCHED: &str = "TOUCHED\r\n";
/// An administrative command has been carried out.
pub const OK: &str = "OK\r\n";
/// `stats reset` has been carried out.
pub const RESET: &str = "RESET\r\n";
/// `mn`.
pub const META_NOOP: &str = "MN\r\n";
/// `mg` and `me` found nothing; closes `mgdump`.
pub const META_MISS: &str = "EN\r\n";
/// A command is unknown or malformed.
pub const ERROR: &str = "ERROR\r\n";
/// A value is not followed by `\r\n`.
pub const BAD_DATA_CHUNK: &str = "CLIENT_ERROR bad data chunk\r\n";
/// `incr`, `decr` or `ma` on a value that is no number.
pub const NON_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The payload of an authentication is not followed by `\r\n`.
pub const BAD_TERMINATION: &str = "CLIENT_ERROR bad command line termination\r\n";
/// A command before authentication.
pub const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated\r\n";
/// A wrong user or password.
pub const AUTHENTICATION_FAILURE: &str = "CLIENT_ERROR authentication failure\r\n";
/// A user and password that are far too long.
pub const AUTH_TOKEN_TOO_LONG: &str = "CLIENT_ERROR auth token too long\r\n";
/// A user without password.
pub const AUTH_TOKEN_FORMAT: &str = "CLIENT_ERROR bad authentication token format\r\n";
/// `-F`.
pub const FLUSH_NOT_ALLOWED: &str = "CLIENT_ERROR flush_all not allowed\r\n";
/// `-F`.
pub const FLUSH_PREFIX_NOT_ALLOWED: &str = "CLIENT_ERROR flush_prefix not allowed\r\n";
/// The limit of prefixes being flushed is reached.
pub const TOO_MANY_PREFIXES: &str =
    "SERVER_ERROR too many prefixes are being flushed, try again later\r\n";
/// `--disable-memlimit`.
pub const CACHE_MEMLIMIT_NOT_ALLOWED: &str = "CLIENT_ERROR cache_memlimit not allowed\r\n";
/// `-W`.
pub const WATCH_NOT_ALLOWED: &str = "CLIENT_ERROR watch commands not allowed\r\n";
/// `-X`.
pub const CACHEDUMP_NOT_ALLOWED: &str = "CLIENT_ERROR stats cachedump not allowed\r\n";
/// `-X`.
pub const STATS_DETAIL_NOT_ALLOWED: &str = "CLIENT_ERROR stats detail not allowed\r\n";
/// `-X`.
pub const METADUMP_NOT_ALLOWED: &str = "ERROR metadump not allowed\r\n";
/// `-X`.
pub const MGDUMP_NOT_ALLOWED: &str = "ERROR key dump not allowed\r\n";
/// `watch` behind other commands that have not been answered.
pub const PIPELINED_WATCH: &str = "ERROR cannot pipeline other commands before watch\r\n";
/// `metadump` behind other commands that have not been answered.
pub const PIPELINED_METADUMP: &str = "ERROR cannot pipeline other commands before metadump\r\n";
/// `mgdump` behind other commands that have not been answered.
pub const PIPELINED_MGDUMP: &str = "ERROR cannot pipeline other commands before mgdump\r\n";
/// An item is larger than `-I` allows.
pub const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";
/// There is no room for a value, even by evicting.
pub const NO_MEMORY_STORING: &str = "SERVER_ERROR out of memory storing object\r\n";
/// There is no room for a longer number.
pub const NO_MEMORY: &str = "SERVER_ERROR out of memory\r\n";
/// There is no room for an item that `ma` creates.
pub const NO_MEMORY_ITEM: &str = "SERVER_ERROR Out of memory allocating new item\r\n";
/// No `-A`.
pub const SHUTDOWN_NOT_ENABLED: &str = "SERVER_ERROR: shutdown not enabled\r\n";
/// `shutdown` in an unknown way.
pub const INVALID_SHUTDOWN_MODE: &str = "CLIENT_ERROR invalid shutdown mode\r\n";
/// The limit of connections (`-c`) is reached.
pub const TOO_MANY_CONNECTIONS: &str = "ERROR Too many open connections\r\n";

/// The longest number of 64 bits.
const DIGITS_MAX: usize = 20;

/// Appends a line.
#[inline]
pub fn line(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
}

/// Appends `VALUE key flags bytes[ cas]\r\n`; the value and `\r\n` come next.
#[inline]
pub fn value_header(
    out: &mut Vec<u8>,
    key: &[u8],
    client_flags: u32,
    value_bytes: usize,
    cas: Option<u64>,
) {
    out.reserve(b"VALUE   \r\n ".len() + key.len() + 3 * DIGITS_MAX);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    decimal(out, u64::from(client_flags));
    out.push(b' ');
    decimal(out, value_bytes as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        decimal(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a number as a line: the answer to `incr` and `decr`.
pub fn number(out: &mut Vec<u8>, number: u64) {
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number.
#[inline]
pub fn decimal(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(b'0' + number as u8);
        return;
    }
    let mut digits = [0; DIGITS_MAX];
    out.extend_from_slice(decimal_digits(number, &mut digits));
}

/// Writes a number into `digits` and returns the part that it takes.
#[inline]
pub fn decimal_digits(number: u64, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut rest = number;
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &digits[start..];
        }
    }
}

/// Appends the number, or `-1` for `None`.
fn decimal_or_minus_one(out: &mut Vec<u8>, number: Option<u64>) {
    match number {
        Some(number) => decimal(out, number),
        None => out.extend_from_slice(b"-1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_lines() {
        let mut out = Vec::new();
        value_header(&mut out, b"k", 0, 2, None);
        value_header(&mut out, b"key\xff", u32::MAX, 1_048_576, Some(u64::MAX));
        assert_eq!(
            out,
            b"VALUE k 0 2\r\nVALUE key\xff 4294967295 1048576 18446744073709551615\r\n"
        );
    }

    #[test]
    fn numbers_of_every_length() {
        let mut number = 0_u64;
        loop {
            for near in [number.saturating_sub(1), number, number.saturating_add(1)] {
                let mut out = Vec::new();
                super::number(&mut out, near);
                assert_eq!(out, format!("{near}\r\n").into_bytes());
            }
            if number == u64::MAX {
                break;
            }
            number = number.saturating_mul(10).max(1);
        }
    }

    #[test]
    fn a_missing_number_is_minus_one() {
        let mut out = Vec::new();
        decimal_or_minus_one(&mut out, None);
        decimal_or_minus_one(&mut out, Some(1));
        assert_eq!(out, b"-11");
    }
}
