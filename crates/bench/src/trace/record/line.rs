//! The lines of memcached's `watch`: words of `name=value`.
//!
//! ```text
//!   ts=17000.123 gid=7 type=item_get key=a%20b status=found clsid=1 cfd=20 size=32
//!   ts=17000.456 gid=8 type=item_store key=c status=stored cmd=set ttl=60 clsid=1 cfd=20 size=9
//!   ts=17001.789 gid=9 type=deleted key=c cmd=delete clsid=1 size=9
//!   skipped=12
//! ```
//!
//! Keys are percent-encoded. A store counts as a request whether it succeeded or not. Versions of
//! memcached differ in their words; a line without a time, a type and a key is no request, and a
//! missing size is 0. `[skipped: 12]` is understood as well.

use std::str::FromStr;

use crate::trace::{Operation, Request, twitter};

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A client's request.
    Request {
        /// The key itself; it must not be written.
        key: Vec<u8>,
        /// Unix time.
        time_s: u64,
        /// The request, without object and time.
        request: Request,
    },
    /// The server dropped this many lines.
    Skipped(u64),
    /// Any other line.
    Other,
}

/// Reads a line.
pub fn parse(line: &[u8]) -> Line {
    let Ok(text) = str::from_utf8(line) else { return Line::Other };
    let old = || text.strip_prefix("[skipped: ").and_then(|rest| rest.strip_suffix(']'));
    if let Some(count) = text.strip_prefix("skipped=").or_else(old) {
        return count.parse().map_or(Line::Other, Line::Skipped);
    }
    request(text).unwrap_or(Line::Other)
}

fn request(text: &str) -> Option<Line> {
    let word = |name: &str| {
        let mut words = text.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    let operation = match word("type")? {
        "item_get" => Operation::Get,
        "item_store" => twitter::operation(word("cmd")?)?,
        "deleted" => Operation::Delete,
        _ => return None,
    };
    let key = decoded(word("key")?)?;
    let time_s = word("ts")?.split('.').next()?.parse().ok()?;
    let request = Request {
        value_bytes: number_or_0(word("size")),
        ttl_s: number_or_0(word("ttl")),
        key_bytes: u16::try_from(key.len()).ok()?,
        operation,
        ..Request::default()
    };
    Some(Line::Request { key, time_s, request })
}

/// Parses a number; negative ones, such as the TTL of an expired item, count as 0 as well.
fn number_or_0<N: FromStr + Default>(word: Option<&str>) -> N {
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut key = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            key.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
        key.push((high * 16 + low) as u8);
    }
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::{Line, parse};
    use crate::trace::{Operation, Request};

    fn request(line: &str) -> (Vec<u8>, u64, Request) {
        match parse(line.as_bytes()) {
            Line::Request { key, time_s, request } => (key, time_s, request),
            other => panic!("`{line}` is {other:?}"),
        }
    }

    #[test]
    fn lines_of_both_servers_are_understood() {
        let (key, time_s, found) = request(
            "ts=17000.123 gid=7 type=item_get key=a%20b%ff status=found clsid=1 cfd=20 size=32",
        );
        assert_eq!((key.as_slice(), time_s), (b"a b\xff".as_slice(), 17_000));
        assert_eq!((found.operation, found.value_bytes, found.key_bytes), (Operation::Get, 32, 4));
        let store = "ts=5.1 type=item_store key=c status=not_stored cmd=add ttl=60 clsid=1 size=9";
        let (_, _, found) = request(store);
        assert_eq!((found.operation, found.ttl_s, found.value_bytes), (Operation::Add, 60, 9));
        let (_, _, found) = request("ts=5.1 gid=8 type=deleted key=c cmd=md clsid=1 size=9");
        assert_eq!((found.operation, found.value_bytes), (Operation::Delete, 9));
        // Sizes may be missing, and the TTL of an expired item is negative.
        let (_, _, found) = request("ts=5.1 gid=8 type=item_get key=c status=found clsid=1");
        assert_eq!(found.value_bytes, 0);
        let (_, _, found) =
            request("ts=5.1 gid=8 type=item_store key=c status=stored cmd=set ttl=-1 clsid=1");
        assert_eq!((found.operation, found.ttl_s), (Operation::Set, 0));
    }

    #[test]
    fn skipped_lines_are_counted() {
        assert_eq!(parse(b"skipped=95780"), Line::Skipped(95_780));
        assert_eq!(parse(b"[skipped: 12]"), Line::Skipped(12));
        assert_eq!(parse(b"skipped=many"), Line::Other);
        assert_eq!(parse(b"[skipped: many]"), Line::Other);
    }

    #[test]
    fn everything_else_is_something_else() {
        for line in [
            "",
            "OK",
            "ts=1.1 gid=1 type=eviction key=a fetch=no ttl=-1 la=1 clsid=1",
            "ts=1.1 gid=1 type=item_get status=found",
            "gid=1 type=item_get key=a",
            "ts=1.1 type=item_get key=%4",
            "ts=1.1 type=item_get key=%zz",
            "ts=1.1 type=item_get key=",
            "ts=1.1 type=item_store key=a",
            "ts=1.1 type=item_store key=a cmd=mystery",
        ] {
            assert_eq!(parse(line.as_bytes()), Line::Other, "{line}");
        }
        assert_eq!(parse(&[0xff, 0xfe]), Line::Other);
    }
}
