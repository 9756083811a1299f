//! The classic text commands.
//!
//! Three kinds of error differ in the handling of the answer and of the payload:
//!
//! - a token is missing, or the length of a value is no number: answered even with `noreply`, and
//!   a payload is not skipped, as its length is unknown;
//! - any other bad token of a storage command: the payload is skipped;
//! - any other bad token: silenced by `noreply`.

use super::tokens::{Tokens, all_are_keys, ends_in_noreply, skip_spaces};
use super::{Dialect, Failure, LINE_BYTES_MAX, Outcome, numbers};
use crate::refusal::Refusal;
use crate::request::{
    Direction, ExpiryTime, Get, GetContinuation, KEY_BYTES_MAX, Key, Request, Store, StoreMode,
};

/// The longest value whose length is accepted here; whether it fits the cache is another question.
const VALUE_BYTES_MAX: i32 = i32::MAX - 2;

/// `get k+`, `gets k+`.
#[inline]
pub(super) fn get<'b>(line: &'b [u8], arguments: &'b [u8], with_cas: bool) -> Outcome<'b> {
    let keys = first_key(line, arguments)?;
    multiget_end(keys, GetContinuation { with_cas, touch: None, refused: None })
}

/// `gat exptime k+`, `gats exptime k+`.
pub(super) fn get_and_touch<'b>(
    line: &'b [u8],
    arguments: &'b [u8],
    with_cas: bool,
) -> Outcome<'b> {
    let mut tokens = Tokens::new(arguments);
    let expiry = tokens.next().ok_or(Refusal::BadCommandLineFormat)?;
    let keys = first_key(line, tokens.rest())?;
    let touch = Some(touch_expiry(expiry).ok_or(Refusal::InvalidExptime)?);
    multiget_end(keys, GetContinuation { with_cas, touch, refused: None })
}

/// The last keys of a get, or all of them.
#[inline]
pub(super) fn multiget_end(keys: &[u8], begun: GetContinuation) -> Outcome<'_> {
    if !all_are_keys(keys) {
        return Err(Refusal::BadCommandLineFormat.into());
    }
    let GetContinuation { with_cas, touch, refused } = begun;
    Ok(Request::Get(Get { keys, with_cas, touch, more: false, refused }))
}

/// `keys`, the end of `line`, without the spaces before the first key. That key has to start within
/// the bytes that are kept of a line in pieces, so a line means the same in one piece and in
/// several.
#[inline]
pub(super) fn first_key<'b>(line: &[u8], keys: &'b [u8]) -> Result<&'b [u8], Refusal> {
    let keys = skip_spaces(keys);
    if keys.is_empty() || line.len() - keys.len() > LINE_BYTES_MAX {
        return Err(Refusal::BadCommandLineFormat);
    }
    Ok(keys)
}

/// An expiry outside of storage commands: 32 bits.
pub(super) fn touch_expiry(token: &[u8]) -> Option<ExpiryTime> {
    numbers::signed_32(token).map(|seconds| ExpiryTime(i64::from(seconds)))
}

/// The length of a value, if it is one.
#[inline]
pub(super) fn value_length(token: &[u8]) -> Option<usize> {
    numbers::signed_32(token)
        .filter(|bytes| (0..=VALUE_BYTES_MAX).contains(bytes))
        .and_then(|bytes| usize::try_from(bytes).ok())
}

/// `set k flags exptime bytes [noreply]` and its kin. `cas` has its number before `noreply`, and
/// `set`, `add` and `replace` may have a cost there where the dialect knows costs.
#[inline]
pub(super) fn store<'b>(verb: &[u8], arguments: &'b [u8], dialect: Dialect) -> Outcome<'b> {
    let mut tokens = Tokens::new(arguments);
    let (Some(key), Some(flags), Some(expiry), Some(bytes)) =
        (tokens.next(), tokens.next(), tokens.next(), tokens.next())
    else {
        return Err(Refusal::BadCommandLineFormat.into());
    };
    let value_bytes = value_length(bytes).ok_or(Refusal::BadCommandLineFormat)?;
    let noreply = ends_in_noreply(tokens.rest());
    let bad = || Failure::Refused {
        error: Refusal::BadCommandLineFormat,
        swallow_bytes: value_bytes as u64 + 2,
        quiet: noreply,
    };
    if key.len() > KEY_BYTES_MAX {
        return Err(bad());
    }
    let flags = numbers::client_flags(flags).ok_or_else(bad)?;
    let expiry = ExpiryTime(numbers::store_expiry(expiry).ok_or_else(bad)?);
    let mode = match verb {
        b"set" => StoreMode::Set,
        b"add" => StoreMode::Add,
        b"replace" => StoreMode::Replace,
        b"append" => StoreMode::Append,
        b"prepend" => StoreMode::Prepend,
        _ => StoreMode::Cas(tokens.next().and_then(numbers::unsigned_64).ok_or_else(bad)?),
    };
    let takes_cost = matches!(mode, StoreMode::Set | StoreMode::Add | StoreMode::Replace);
    let cost_us = if dialect.text_cost && takes_cost {
        cost_before_noreply(tokens, noreply).ok_or_else(bad)?
    } else {
        0
    };
    let key = Key::plain(key);
    Ok(Request::Store(Store { key, mode, flags, expiry, value_bytes, cost_us, noreply }))
}

/// The cost in the next token; 0 if there is none, or only the `noreply` that ends the line.
/// Anything else has to be a number: `noreply` before another word is none.
fn cost_before_noreply(mut tokens: Tokens<'_>, noreply: bool) -> Option<u32> {
    match tokens.next() {
        None => Some(0),
        Some(_) if noreply && skip_spaces(tokens.rest()).is_empty() => Some(0),
        Some(token) => numbers::cost_us(token),
    }
}

/// A bad token in a command without payload.
fn refused(error: Refusal, noreply: bool) -> Failure {
    Failure::Refused { error, swallow_bytes: 0, quiet: noreply }
}

/// The key of a command that may have `noreply` (as its only argument too: then it is both).
fn single_key(token: &[u8], noreply: bool) -> Result<Key<'_>, Failure> {
    if token.len() > KEY_BYTES_MAX {
        return Err(refused(Refusal::BadCommandLineFormat, noreply));
    }
    Ok(Key::plain(token))
}

/// `delete k [noreply]`; further arguments are ignored.
pub(super) fn delete(arguments: &[u8]) -> Outcome<'_> {
    let noreply = ends_in_noreply(arguments);
    let key = Tokens::new(arguments).next().ok_or(Refusal::BadCommandLineFormat)?;
    Ok(Request::Delete { key: single_key(key, noreply)?, noreply })
}

/// `incr k delta [noreply]`, `decr k delta [noreply]`.
pub(super) fn arithmetic<'b>(verb: &[u8], arguments: &'b [u8]) -> Outcome<'b> {
    let noreply = ends_in_noreply(arguments);
    let mut tokens = Tokens::new(arguments);
    let (Some(key), Some(delta)) = (tokens.next(), tokens.next()) else {
        return Err(Refusal::BadCommandLineFormat.into());
    };
    let key = single_key(key, noreply)?;
    let delta =
        numbers::unsigned_64(delta).ok_or_else(|| refused(Refusal::InvalidDelta, noreply))?;
    let direction = match verb {
        b"incr" => Direction::Increment,
        _ => Direction::Decrement,
    };
    Ok(Request::Arithmetic { key, delta, direction, noreply })
}

/// `touch k exptime [noreply]`.
pub(super) fn touch(arguments: &[u8]) -> Outcome<'_> {
    let noreply = ends_in_noreply(arguments);
    let mut tokens = Tokens::new(arguments);
    let (Some(key), Some(expiry)) = (tokens.next(), tokens.next()) else {
        return Err(Refusal::BadCommandLineFormat.into());
    };
    let key = single_key(key, noreply)?;
    let expiry = touch_expiry(expiry).ok_or_else(|| refused(Refusal::InvalidExptime, noreply))?;
    Ok(Request::Touch { key, expiry, noreply })
}

/// `flush_all [delay] [noreply]`.
pub(super) fn flush_all(arguments: &[u8]) -> Outcome<'_> {
    let noreply = ends_in_noreply(arguments);
    let mut tokens = Tokens::new(arguments);
    let delay = match tokens.next() {
        None => ExpiryTime(0),
        Some(_) if noreply && skip_spaces(tokens.rest()).is_empty() => ExpiryTime(0),
        Some(delay) => {
            touch_expiry(delay).ok_or_else(|| refused(Refusal::InvalidExptime, noreply))?
        }
    };
    Ok(Request::FlushAll { delay, noreply })
}

/// `verbosity level [noreply]`.
pub(super) fn verbosity(arguments: &[u8]) -> Outcome<'_> {
    let noreply = ends_in_noreply(arguments);
    match Tokens::new(arguments).next().and_then(numbers::unsigned_32) {
        Some(_) => Ok(Request::Verbosity { noreply }),
        None => Err(refused(Refusal::BadCommandLineFormat, noreply)),
    }
}

/// `cache_memlimit megabytes [noreply]`.
pub(super) fn cache_memlimit(arguments: &[u8]) -> Outcome<'_> {
    let noreply = ends_in_noreply(arguments);
    match Tokens::new(arguments).next().and_then(numbers::unsigned_32) {
        Some(megabytes) => Ok(Request::CacheMemlimit { megabytes: u64::from(megabytes), noreply }),
        None => Err(refused(Refusal::UnknownCommand, noreply)),
    }
}

/// `shutdown [graceful]`, the word perhaps shortened.
pub(super) fn shutdown(arguments: &[u8]) -> Request<'_> {
    let mut tokens = Tokens::new(arguments);
    let graceful = match (tokens.next(), tokens.next()) {
        (None, _) => Some(false),
        (Some(mode), None) if b"graceful".starts_with(mode) => Some(true),
        _ => None,
    };
    Request::Shutdown { graceful }
}
