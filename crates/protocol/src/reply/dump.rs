//! Lines that describe an item for inspection of the cache: `me`, `metadump`, `mgdump`.

use super::{decimal, decimal_or_minus_one};
use crate::base64_key;
use crate::request::Key;

/// The fields of `me` and `metadump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemFacts {
    /// The expiry; `None` if there is none. `me`: seconds until then; `metadump`: Unix time.
    pub expiry: Option<u64>,
    /// The last access. `me`: seconds since then; `metadump`: Unix time.
    pub accessed: u64,
    /// The CAS unique.
    pub cas: u64,
    /// It has been fetched.
    pub fetched: bool,
    /// The number of its size class.
    pub size_class: u32,
    /// The bytes it takes, key and header included.
    pub item_bytes: u64,
    /// Client flags; `me` does not show them.
    pub client_flags: u32,
    /// Microseconds that remaking it costs. 0 is unknown and not shown: then the line is
    /// memcached's to the byte.
    pub cost_us: u32,
}

/// Appends the answer to `me`: `ME k exp= la= cas= fetch= cls= size= [cost=]\r\n`.
pub fn debug(out: &mut Vec<u8>, key: Key<'_>, facts: &ItemFacts) {
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(key.wire);
    out.push(b' ');
    item(out, facts);
    cost(out, facts);
    out.extend_from_slice(b"\r\n");
}

/// Appends a line of `metadump`: `key= exp= la= cas= fetch= cls= size= flags= [cost= ]\n`.
/// memcached writes the space before the end and the bare `\n`, and readers split there.
pub fn metadump(out: &mut Vec<u8>, key: &[u8], facts: &ItemFacts) {
    out.extend_from_slice(b"key=");
    uri_encoded(out, key);
    out.push(b' ');
    item(out, facts);
    out.extend_from_slice(b" flags=");
    decimal(out, u64::from(facts.client_flags));
    cost(out, facts);
    out.extend_from_slice(b" \n");
}

/// Appends a line of `mgdump`: the `mg` request that fetches the item. A key that cannot stand in a
/// text request goes in base64.
pub fn mgdump(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"mg ");
    if key.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
        base64_key::encode(out, key);
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b"\r\n");
}

fn item(out: &mut Vec<u8>, facts: &ItemFacts) {
    out.extend_from_slice(b"exp=");
    decimal_or_minus_one(out, facts.expiry);
    out.extend_from_slice(b" la=");
    decimal(out, facts.accessed);
    out.extend_from_slice(b" cas=");
    decimal(out, facts.cas);
    out.extend_from_slice(if facts.fetched { b" fetch=yes cls=" } else { b" fetch=no cls=" });
    decimal(out, u64::from(facts.size_class));
    out.extend_from_slice(b" size=");
    decimal(out, facts.item_bytes);
}

/// Appends the last field, if there is a cost: readers of memcached's fields by position find all
/// of their own.
fn cost(out: &mut Vec<u8>, facts: &ItemFacts) {
    if facts.cost_us > 0 {
        out.extend_from_slice(b" cost=");
        decimal(out, u64::from(facts.cost_us));
    }
}

/// Appends a key with everything but letters, digits and `-._~` as `%XX`.
pub fn uri_encoded(out: &mut Vec<u8>, key: &[u8]) {
    const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            let high = HEX_DIGITS[usize::from(byte >> 4)];
            let low = HEX_DIGITS[usize::from(byte & 15)];
            out.extend_from_slice(&[b'%', high, low]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: ItemFacts = ItemFacts {
        expiry: None,
        accessed: 1,
        cas: 3,
        fetched: true,
        size_class: 1,
        item_bytes: 62,
        client_flags: 0,
        cost_us: 0,
    };

    #[test]
    fn the_line_of_me() {
        let mut out = Vec::new();
        debug(&mut out, Key::plain(b"k"), &FACTS);
        assert_eq!(out, b"ME k exp=-1 la=1 cas=3 fetch=yes cls=1 size=62\r\n");
    }

    #[test]
    fn the_line_of_metadump() {
        let mut out = Vec::new();
        let facts = ItemFacts { expiry: Some(9), fetched: false, client_flags: 5, ..FACTS };
        metadump(&mut out, b"a-._~ /%\xff", &facts);
        assert_eq!(
            out,
            b"key=a-._~%20%2F%25%FF exp=9 la=1 cas=3 fetch=no cls=1 size=62 flags=5 \n"
        );
    }

    #[test]
    fn a_cost_is_the_last_field() {
        let mut out = Vec::new();
        let facts = ItemFacts { cost_us: u32::MAX, ..FACTS };
        debug(&mut out, Key::plain(b"k"), &facts);
        metadump(&mut out, b"k", &facts);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "ME k exp=-1 la=1 cas=3 fetch=yes cls=1 size=62 cost=4294967295\r\n\
             key=k exp=-1 la=1 cas=3 fetch=yes cls=1 size=62 flags=0 cost=4294967295 \n"
        );
    }

    #[test]
    fn the_line_of_mgdump() {
        let mut out = Vec::new();
        mgdump(&mut out, b"plain");
        mgdump(&mut out, b"a b");
        assert_eq!(out, b"mg plain\r\nmg YSBi b\r\n");
    }
}
