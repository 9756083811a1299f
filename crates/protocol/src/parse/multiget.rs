//! A line that has not ended: a multiget in pieces, or nothing to wait for.
//!
//! ```text
//! get a b c d ... k14         -> keys "a b c d ...", more; "k14" stays in the buffer
//! k1499 e f ... k29           -> keys "k1499 e f ...", more
//! k2999 g\r\n                 -> keys "k2999 g", the end
//! ```
//!
//! The pieces cannot be taken back. A key that is too long in a line that came in one piece is the
//! only answer to that line; in pieces, the keys before it have been answered. From there on the
//! line is skipped, and its end is answered with the error.

use super::tokens::{Tokens, all_are_keys, skip_spaces};
use super::{LINE_BYTES_MAX, Outcome, Parsed, classic};
use crate::refusal::Refusal;
use crate::request::{Get, GetContinuation, KEY_BYTES_MAX, Request};

/// The most spaces before an unfinished `get`.
const SPACES_MAX: usize = 100;

/// The parser of bytes without a line end.
#[inline(never)]
pub(super) fn unfinished(input: &[u8], continuation: Option<GetContinuation>) -> Parsed<'_> {
    if input.len() <= LINE_BYTES_MAX {
        return Parsed::Incomplete;
    }
    match continuation {
        Some(begun) => piece(input, input, begun),
        None => first(input),
    }
}

/// The last piece of a multiget.
#[inline(never)]
pub(super) fn last(line: &[u8], begun: GetContinuation) -> Outcome<'_> {
    match begun.refused {
        Some(error) => Err(error.into()),
        None => classic::multiget_end(line, begun),
    }
}

/// The first piece of a line that is longer than a line may be, unless it is a multiget.
fn first(input: &[u8]) -> Parsed<'_> {
    let mut tokens = Tokens::new(input);
    let (with_cas, touches) = match tokens.next() {
        Some(b"get") => (false, false),
        Some(b"gets") => (true, false),
        Some(b"gat") => (false, true),
        Some(b"gats") => (true, true),
        _ => return Parsed::Close,
    };
    let mut begun = GetContinuation { with_cas, touch: None, refused: None };
    let spaces = input.len() - skip_spaces(input).len();
    if spaces > SPACES_MAX || (touches && spaces > 0) {
        return Parsed::Close;
    }
    let expiry = if touches { tokens.next() } else { None };
    let keys = match classic::first_key(input, tokens.rest()) {
        // A leading space makes a line no command, however long it is.
        _ if spaces > 0 => return skipped(input, begun, Refusal::UnknownCommand),
        Err(error) => return skipped(input, begun, error),
        // Half a line end and no key, if the next byte is the other half.
        Ok(b"\r") => return Parsed::Incomplete,
        Ok(keys) => keys,
    };
    if let Some(expiry) = expiry {
        begun.touch = classic::touch_expiry(expiry);
        if begun.touch.is_none() {
            return skipped(input, begun, Refusal::InvalidExptime);
        }
    }
    piece(input, keys, begun)
}

/// The complete keys of `keys`, the end of `input`.
fn piece<'b>(input: &'b [u8], keys: &'b [u8], begun: GetContinuation) -> Parsed<'b> {
    if let Some(error) = begun.refused {
        return skipped(input, begun, error);
    }
    let complete = memchr::memrchr(b' ', keys).map_or(0, |space| space + 1);
    // The last key may be cut off between its last byte and the `\n`, with the `\r` already there.
    let (complete, rest) = keys.split_at(complete);
    if !all_are_keys(complete) || rest.len() > KEY_BYTES_MAX + 1 {
        return skipped(input, begun, Refusal::BadCommandLineFormat);
    }
    let GetContinuation { with_cas, touch, refused } = begun;
    let get = Get { keys: complete, with_cas, touch, more: true, refused };
    Parsed::Request { request: Request::Get(get), consumed: input.len() - rest.len() }
}

/// Skips the line, of which only the end counts.
fn skipped(input: &[u8], begun: GetContinuation, error: Refusal) -> Parsed<'_> {
    let GetContinuation { with_cas, touch, .. } = begun;
    let get = Get { keys: &[], with_cas, touch, more: true, refused: Some(error) };
    Parsed::Request { request: Request::Get(get), consumed: input.len() }
}
