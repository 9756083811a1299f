//! The two requests that nearly all clients send nearly all of the time, in the form in which
//! they write them: `get key\r\n` and `set key flags exptime bytes[ noreply]\r\n`, with one space
//! between tokens and numbers of at most nine digits.
//!
//! One pass from left to right, without a search for the line's end before it. Any request that
//! does not look exactly like this is left to the parser of all forms, and means the same there, in
//! every dialect: the tests below compare the two. So a set with a cost is left to it, too.

use super::Parsed;
use crate::request::{ExpiryTime, Get, KEY_BYTES_MAX, Key, Request, Store, StoreMode};

/// The most digits; longer numbers are left to the other parser, which knows each field's limit.
const DIGITS_MAX: usize = 9;

/// The request at the front of `input`, if it has the usual form and is all there.
#[inline]
pub(super) fn request(input: &[u8]) -> Option<Parsed<'_>> {
    let (verb, rest) = input.split_first_chunk::<4>()?;
    // Compared as a word, which a match on the bytes is not.
    if verb == b"get " {
        get(input, rest)
    } else if verb == b"set " {
        set(input, rest)
    } else {
        None
    }
}

#[inline]
fn get<'b>(input: &'b [u8], rest: &'b [u8]) -> Option<Parsed<'b>> {
    let (key, rest) = key(rest)?;
    let rest = line_end(rest)?;
    let get = Get { keys: key, with_cas: false, touch: None, more: false, refused: None };
    Some(Parsed::Request { request: Request::Get(get), consumed: input.len() - rest.len() })
}

#[inline]
fn set<'b>(input: &'b [u8], rest: &'b [u8]) -> Option<Parsed<'b>> {
    let (key, rest) = key(rest)?;
    let (flags, rest) = number(rest)?;
    let (expiry, rest) = number(rest)?;
    let (value_bytes, rest) = number(rest)?;
    let behind = rest.split_first_chunk::<8>().filter(|(word, _)| *word == b" noreply");
    let (noreply, rest) = (behind.is_some(), behind.map_or(rest, |(_, rest)| rest));
    let rest = line_end(rest)?;
    let store = Store {
        key: Key::plain(key),
        mode: StoreMode::Set,
        flags,
        expiry: ExpiryTime(i64::from(expiry)),
        value_bytes: value_bytes as usize,
        cost_us: 0,
        noreply,
    };
    Some(Parsed::Request { request: Request::Store(store), consumed: input.len() - rest.len() })
}

/// The bytes before the first space or control character: 1 to 250.
#[inline]
fn key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    let end = loop {
        let Some(chunk) = bytes[at..].first_chunk::<8>() else {
            // The last word overlaps the one before, which had no such byte.
            let marks = end_marks(*bytes.last_chunk::<8>()?);
            if marks == 0 {
                return None;
            }
            break bytes.len() - 8 + marks.trailing_zeros() as usize / 8;
        };
        let marks = end_marks(*chunk);
        if marks != 0 {
            break at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
        if at > KEY_BYTES_MAX {
            return None;
        }
    };
    (1..=KEY_BYTES_MAX).contains(&end).then(|| bytes.split_at(end))
}

/// The highest bit of each byte up to `b' '`. Bytes behind the first such byte may be marked
/// wrongly (a borrow runs upwards), which does not matter for finding the first.
#[inline]
fn end_marks(chunk: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(chunk);
    word.wrapping_sub(ONES * (b' ' as u64 + 1)) & !word & (ONES << 7)
}

/// The input behind the line's end.
#[inline]
fn line_end(bytes: &[u8]) -> Option<&[u8]> {
    let (end, rest) = bytes.split_first_chunk::<2>()?;
    (end == b"\r\n").then_some(rest)
}

/// A space and the number behind it.
#[inline]
fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let [b' ', rest @ ..] = bytes else {
        return None;
    };
    let mut rest = rest;
    let mut sum = 0;
    let mut digits = 0;
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        if digits == DIGITS_MAX {
            return None;
        }
        sum = sum * 10 + u32::from(digit - b'0');
        digits += 1;
        rest = behind;
    }
    (digits > 0).then_some((sum, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Dialect, Parsed, in_any_form};
    use super::request;
    use crate::request::Request;

    fn agrees(input: &[u8]) -> bool {
        let found = request(input);
        if let Some(found) = found {
            for text_cost in [false, true] {
                let other = in_any_form(input, None, Dialect { text_cost });
                assert_eq!(found, other, "{}", input.escape_ascii());
            }
        }
        found.is_some()
    }

    #[test]
    fn the_usual_forms_are_known() {
        for input in [
            &b"get a\r\nget b\r\n"[..],
            b"get abcdefgh\r\n",
            b"get abcdefghijklmnopqrstuvwx\r\n",
            b"set a 0 0 1\r\nx\r\n",
            b"set abcdefghijklmnop 4294967 999999999 32\r\n",
            b"set k 1 2 3 noreply\r\n",
            b"get \x80\xff1234567\r\n",
        ] {
            assert!(agrees(input), "{}", input.escape_ascii());
        }
    }

    #[test]
    fn everything_else_is_left_to_the_other_parser() {
        for input in [
            &b"get a b\r\n"[..],
            b"get  abcdefgh\r\n",
            b"get abcdefgh\n",
            b"get abcdefgh\r",
            b"get abcdefgh",
            b"get a\x00b\r\n        ",
            b"gets abcdefgh\r\n",
            b"set a 0 0 1 \r\nx\r\n",
            b"set a 0 0 -1\r\nx\r\n",
            b"set a +0 0 1\r\nx\r\n",
            b"set a 0 0 1234567890\r\n",
            b"set a 0 0 1\nx\r\n",
            b"set a 0 0 1 noreply x\r\n",
            b"set a 0 0 1 500\r\nx\r\n",
            b"set a 0 0 1 500 noreply\r\nx\r\n",
            b"set a\r\n0 0 1\r\n",
            b"set  0 0 1\r\n",
        ] {
            assert!(request(input).is_none(), "{}", input.escape_ascii());
        }
        for length in [249, 250, 251, 300] {
            let line = format!("get {}\r\n", "k".repeat(length));
            assert_eq!(agrees(line.as_bytes()), length <= 250, "{length}");
            let line = format!("set {} 0 0 1\r\n", "k".repeat(length));
            assert_eq!(agrees(line.as_bytes()), length <= 250, "{length}");
        }
    }

    proptest! {
        /// Lines that are nearly right: a usual one with a byte changed, added or left out.
        #[test]
        fn both_parsers_agree(
            verb in "get |set ",
            key in "[!-~]{1,40}",
            numbers in "( [0-9]{1,10}){0,3}( noreply)?",
            place in 0_usize..80,
            byte in prop_oneof![Just(b' '), Just(b'\r'), Just(b'\n'), Just(b'0'), any::<u8>()],
            change in 0_u8..4,
        ) {
            let mut input = format!("{verb}{key}{numbers}\r\nvalue\r\n").into_bytes();
            let place = place % input.len();
            match change {
                0 => input[place] = byte,
                1 => input.insert(place, byte),
                2 => drop(input.remove(place)),
                _ => {}
            }
            agrees(&input);
            input.truncate(place);
            prop_assert!(request(&input).is_none() || agrees(&input));
        }
    }

    #[test]
    fn a_usual_set_has_its_fields() {
        let Some(Parsed::Request { request: Request::Store(store), consumed }) =
            request(b"set key 7 60 5 noreply\r\nvalue\r\n")
        else {
            panic!("it has the usual form");
        };
        assert_eq!((store.key.wire, store.flags, store.expiry.0), (&b"key"[..], 7, 60));
        assert_eq!((store.value_bytes, store.noreply, consumed), (5, true, 24));
    }
}
