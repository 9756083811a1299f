//! The request at the front of a connection's bytes.
//!
//! ```text
//! bytes -> usual: `get key` and `set key ...` as most clients write them
//!   else -> line end -> verb -> classic:  get set delete incr touch flush_all ...
//!              |                 meta:     mg ms md ma me mn
//!              +-- none within 2048 bytes -> multiget: a get line in pieces, or close
//! ```
//!
//! [`parse`] is a pure function of the bytes (and, inside a long multiget, of the continuation). It
//! parses one request, returns how many bytes that took, and keeps nothing. A payload is not looked
//! at: a storage request gives its length.
//!
//! A multiget has no longest line. When more than [`LINE_BYTES_MAX`] bytes of it are there and no
//! line end, the complete keys are handed out as a [`Get`](crate::request::Get) with `more` set, so
//! a connection never has to hold more than these bytes plus one read.

mod classic;
mod meta;
mod multiget;
mod numbers;
pub mod tokens;
mod usual;

use crate::refusal::Refusal;
use crate::request::{GetContinuation, Request};
use tokens::{Tokens, space_index};

/// The longest line that is not a multiget: its end has to come within this many buffered bytes,
/// and one that a value follows has no more of them however it comes. A connection's buffer must be
/// able to hold at least two more: the parser has to see that there is no end.
pub const LINE_BYTES_MAX: usize = 2048;

/// The shortest line, with its end: two letters and `\r\n`.
const LINE_BYTES_MIN: usize = 4;

/// The extensions to memcached that a server understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dialect {
    /// `set`, `add` and `replace` may have a cost behind the length.
    pub text_cost: bool,
}

/// The parser's findings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Parsed<'b> {
    /// No complete request yet.
    Incomplete,
    /// A request.
    Request {
        /// The request.
        request: Request<'b>,
        /// Bytes of the input it took, without a payload.
        consumed: usize,
    },
    /// A line that is no request.
    Refused {
        /// The error.
        error: Refusal,
        /// Bytes of the input it took.
        consumed: usize,
        /// Bytes that follow (a value and its `\r\n`) and must be skipped unread.
        swallow_bytes: u64,
        /// The line ended in `noreply`: do not answer.
        quiet: bool,
    },
    /// Close the connection without an answer: the peer is not a client.
    Close,
}

/// Why a line is no request, before its bytes are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// An error to be answered.
    Refused { error: Refusal, swallow_bytes: u64, quiet: bool },
    /// Not a client.
    Close,
}

impl From<Refusal> for Failure {
    /// An error that is always answered, on a line without payload.
    fn from(error: Refusal) -> Failure {
        Failure::Refused { error, swallow_bytes: 0, quiet: false }
    }
}

type Outcome<'b> = Result<Request<'b>, Failure>;

/// Parses the front of `input`, as memcached understands it. `continuation` is left by the previous
/// [`Get`](crate::request::Get) of this connection.
#[inline]
pub fn parse(input: &[u8], continuation: Option<GetContinuation>) -> Parsed<'_> {
    parse_as(input, continuation, Dialect::default())
}

/// [`parse`], as a server of this dialect understands it. The usual forms mean the same in each.
#[inline]
pub fn parse_as(
    input: &[u8],
    continuation: Option<GetContinuation>,
    dialect: Dialect,
) -> Parsed<'_> {
    if continuation.is_none()
        && let Some(found) = usual::request(input)
    {
        return found;
    }
    in_any_form(input, continuation, dialect)
}

/// The parser of every form of every request.
#[inline(never)]
fn in_any_form(
    input: &[u8],
    continuation: Option<GetContinuation>,
    dialect: Dialect,
) -> Parsed<'_> {
    let Some(newline) = memchr::memchr(b'\n', input) else {
        return multiget::unfinished(input, continuation);
    };
    let line = &input[..newline];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let consumed = newline + 1;
    let outcome = match continuation {
        None if consumed < LINE_BYTES_MIN => Err(Refusal::BadCommandLineFormat.into()),
        None => request(line, dialect),
        Some(continuation) => multiget::last(line, continuation),
    };
    match outcome {
        // It would be kept until its value is there, for as long as a client likes.
        Ok(Request::Store(_) | Request::MetaSet(_)) if line.len() > LINE_BYTES_MAX => Parsed::Close,
        Ok(request) => Parsed::Request { request, consumed },
        Err(Failure::Refused { error, swallow_bytes, quiet }) => {
            Parsed::Refused { error, consumed, swallow_bytes, quiet }
        }
        Err(Failure::Close) => Parsed::Close,
    }
}

/// Reads one whole line without its end.
#[inline]
fn request(line: &[u8], dialect: Dialect) -> Outcome<'_> {
    let (verb, arguments) = line.split_at(space_index(line));
    match verb {
        b"get" => classic::get(line, arguments, false),
        b"gets" => classic::get(line, arguments, true),
        b"set" | b"add" | b"cas" | b"append" | b"prepend" | b"replace" => {
            classic::store(verb, arguments, dialect)
        }
        b"mg" => meta::get(arguments),
        b"ms" => meta::set(arguments),
        b"md" => meta::delete(arguments),
        b"ma" => meta::arithmetic(arguments),
        b"me" => meta::debug(arguments),
        b"mn" => Ok(Request::MetaNoop),
        _ => rare(line, verb, arguments),
    }
}

/// The verbs that need not be found fast.
#[inline(never)]
fn rare<'b>(line: &'b [u8], verb: &[u8], arguments: &'b [u8]) -> Outcome<'b> {
    match verb {
        b"gat" => classic::get_and_touch(line, arguments, false),
        b"gats" => classic::get_and_touch(line, arguments, true),
        b"incr" | b"decr" => classic::arithmetic(verb, arguments),
        b"touch" => classic::touch(arguments),
        b"delete" => classic::delete(arguments),
        b"flush_all" => classic::flush_all(arguments),
        b"flush_prefix" => meta::flush_prefix(arguments),
        b"version" => Ok(Request::Version),
        b"quit" => Ok(Request::Quit),
        b"verbosity" => classic::verbosity(arguments),
        b"stats" => Ok(Request::Stats { arguments: tokens::trim(arguments) }),
        b"watch" => Ok(Request::Watch { arguments: tokens::trim(arguments) }),
        b"lru_crawler" | b"lru" | b"slabs" | b"extstore" => {
            Ok(Request::Administration { line: tokens::trim(line) })
        }
        b"cache_memlimit" => classic::cache_memlimit(arguments),
        b"shutdown" => Ok(classic::shutdown(arguments)),
        b"refresh_certs" => Ok(Request::RefreshCerts),
        _ => Err(unknown(line)),
    }
}

/// A web request, of a browser or of a server that was made to send it here, is not answered at
/// all. A last word `noreply` is respected, whatever the verb.
fn unknown(line: &[u8]) -> Failure {
    if is_of_the_web(line) {
        return Failure::Close;
    }
    Failure::Refused {
        error: Refusal::UnknownCommand,
        swallow_bytes: 0,
        quiet: tokens::ends_in_noreply(line),
    }
}

/// Whether a line without its end, which is no memcached request, begins a web request: headers
/// follow it, and then whatever a page wants to be sent.
pub fn is_of_the_web(line: &[u8]) -> bool {
    let mut tokens = Tokens::new(line);
    let first = tokens.next();
    tokens.last().is_some_and(|last| first.is_some() && last.starts_with(b"HTTP/"))
}
