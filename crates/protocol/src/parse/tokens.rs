//! Tokens: the words between spaces.
//!
//! Finding the next space is the inner loop of a multiget. Keys are short, so calling a general
//! search for each of them costs more than the search; here eight bytes are examined in one word.

use crate::request::KEY_BYTES_MAX;

/// The tokens of a line, one after the other.
#[derive(Debug, Clone)]
pub struct Tokens<'b> {
    rest: &'b [u8],
}

impl<'b> Tokens<'b> {
    /// The tokens of `line`, which has lost its line end.
    pub fn new(line: &'b [u8]) -> Tokens<'b> {
        Tokens { rest: line }
    }

    /// The bytes behind the tokens returned so far, with the spaces before them.
    pub fn rest(&self) -> &'b [u8] {
        self.rest
    }
}

impl<'b> Iterator for Tokens<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let rest = skip_spaces(self.rest);
        if rest.is_empty() {
            self.rest = rest;
            return None;
        }
        let (token, rest) = rest.split_at(space_index(rest));
        self.rest = rest;
        Some(token)
    }
}

/// The bytes without the spaces in front.
#[inline]
pub(crate) fn skip_spaces(mut bytes: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

/// The bytes without the spaces around.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    let mut bytes = skip_spaces(bytes);
    while let [rest @ .., b' '] = bytes {
        bytes = rest;
    }
    bytes
}

/// The position of the first space; the length if there is none.
#[inline]
pub(crate) fn space_index(bytes: &[u8]) -> usize {
    let mut index = 0;
    while let Some(chunk) = bytes[index..].first_chunk::<8>() {
        let marks = space_marks(*chunk);
        if marks != 0 {
            return index + marks.trailing_zeros() as usize / 8;
        }
        index += 8;
    }
    // The last word overlaps the one before, whose bytes are known to be no spaces.
    if let Some(chunk) = bytes.last_chunk::<8>() {
        let marks = space_marks(*chunk);
        return if marks == 0 {
            bytes.len()
        } else {
            bytes.len() - 8 + marks.trailing_zeros() as usize / 8
        };
    }
    bytes.iter().position(|&byte| byte == b' ').unwrap_or(bytes.len())
}

/// The highest bit of each byte that is a space. Bytes behind the first space may be marked wrongly
/// (a borrow runs upwards), which does not matter for finding the first.
#[inline]
fn space_marks(chunk: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let difference = u64::from_le_bytes(chunk) ^ (ONES * b' ' as u64);
    difference.wrapping_sub(ONES) & !difference & (ONES << 7)
}

/// Whether every token is short enough to be a key. Instead of looking at each token, it jumps from
/// the last space within reach to the next, so it reads a few bytes per 250.
#[inline]
pub(crate) fn all_are_keys(mut bytes: &[u8]) -> bool {
    while bytes.len() > KEY_BYTES_MAX {
        let Some(space) = memchr::memrchr(b' ', &bytes[..=KEY_BYTES_MAX]) else {
            return false;
        };
        bytes = &bytes[space + 1..];
    }
    true
}

/// Whether the last token is `noreply`.
pub(crate) fn ends_in_noreply(arguments: &[u8]) -> bool {
    if arguments.is_empty() {
        return false;
    }
    match trim(arguments).strip_suffix(b"noreply") {
        Some(before) => before.is_empty() || before.ends_with(b" "),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(line: &[u8]) -> Vec<&[u8]> {
        Tokens::new(line).collect()
    }

    #[test]
    fn spaces_separate_and_nothing_else_does() {
        assert_eq!(tokens(b""), [b""; 0]);
        assert_eq!(tokens(b"   "), [b""; 0]);
        assert_eq!(tokens(b"  a   bc  "), [&b"a"[..], b"bc"]);
        assert_eq!(tokens(b"a\tb\x00 \xff"), [&b"a\tb\x00"[..], b"\xff"]);
    }

    #[test]
    fn the_first_space_is_found_at_every_place() {
        for length in 0..40 {
            let mut bytes = vec![b'!'; length];
            assert_eq!(space_index(&bytes), length);
            for space in (0..length).rev() {
                bytes[space] = b' ';
                assert_eq!(space_index(&bytes), space, "{length}");
            }
        }
    }

    #[test]
    fn a_key_has_250_bytes_at_most() {
        for (before, after) in [("", ""), ("a ", ""), ("", " a"), ("  a ", "  b ")] {
            for length in [1, 249, 250, 251, 252, 500, 501, 502] {
                let line = format!("{before}{}{after}", "k".repeat(length));
                assert_eq!(all_are_keys(line.as_bytes()), length <= KEY_BYTES_MAX, "{length}");
            }
        }
        assert!(all_are_keys(" ".repeat(1000).as_bytes()));
    }

    #[test]
    fn noreply_is_the_last_token() {
        for (arguments, noreply) in [
            ("", false),
            ("noreply", true),
            (" k noreply  ", true),
            ("noreply k", false),
            ("knoreply", false),
            ("NOREPLY", false),
        ] {
            assert_eq!(ends_in_noreply(arguments.as_bytes()), noreply, "{arguments}");
        }
    }
}
