//! One request as bytes and its reply as an answer, in each of the three protocols.
//!
//! What a trace asks for is not always what a protocol can say; the nearest request is sent:
//!
//! | operation | text | meta | Redis |
//! | --- | --- | --- | --- |
//! | get | `get` | `mg key v` | `GET` |
//! | set, cas | `set` | `ms` | `SET` |
//! | add, replace | `add`, `replace` | `ms` with `ME`, `MR` | `SET` with `NX`, `XX` |
//! | append, prepend | `append`, `prepend` | `ms` with `MA`, `MP` | `APPEND` for both |
//! | increment, decrement | `incr`, `decr` | `ma`, `ma` with `MD` | `INCRBY`, `DECRBY` |
//! | delete | `delete` | `md` | `DEL` |
//!
//! A cas is sent as a set, since a trace does not say which value the client had read.

use std::fmt;
use std::ops::Range;

use clap::ValueEnum;
use memchr::memchr;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::trace::Operation;

/// The longest line of a reply that is waited for.
const LINE_BYTES_MAX: usize = 2048;

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// memcached's classic text commands.
    Text,
    /// memcached's meta commands.
    Meta,
    /// Redis's protocol.
    Resp,
}

/// What a server said to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The object's value: this part of the reply.
    Hit(Range<usize>),
    /// There is no such object.
    Miss,
    /// It was done.
    Done,
    /// It was not, because of what was there or was not.
    NotDone,
    /// The server refused the request, with these words.
    Refused(String),
}

/// A reply and how many bytes it took.
pub type Reply = (Answer, usize);

/// Appends a request.
pub fn request(
    protocol: Protocol,
    operation: Operation,
    key: &str,
    value: &[u8],
    ttl_s: u32,
    out: &mut Vec<u8>,
) {
    match protocol {
        Protocol::Text => text_request(operation, key, value, ttl_s, out),
        Protocol::Meta => meta_request(operation, key, value, ttl_s, out),
        Protocol::Resp => resp_request(operation, key, value, ttl_s, out),
    }
}

/// The reply at the front of `bytes`, if all of it is there.
pub fn reply(protocol: Protocol, operation: Operation, bytes: &[u8]) -> Outcome<Option<Reply>> {
    let Some(end) = memchr(b'\n', bytes) else {
        if bytes.len() > LINE_BYTES_MAX {
            return Err(Failure::Reply("a line without an end".into()));
        }
        return Ok(None);
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let behind = end + 1;
    match protocol {
        Protocol::Text => text_reply(operation, bytes, line, behind),
        Protocol::Meta => meta_reply(operation, bytes, line, behind),
        Protocol::Resp => resp_reply(operation, bytes, line, behind),
    }
}

fn text_request(operation: Operation, key: &str, value: &[u8], ttl_s: u32, out: &mut Vec<u8>) {
    let verb = match operation {
        Operation::Get => return push(out, format_args!("get {key}\r\n")),
        Operation::Delete => return push(out, format_args!("delete {key}\r\n")),
        Operation::Increment => return push(out, format_args!("incr {key} 1\r\n")),
        Operation::Decrement => return push(out, format_args!("decr {key} 1\r\n")),
        Operation::Set | Operation::Cas => "set",
        Operation::Add => "add",
        Operation::Replace => "replace",
        Operation::Append => "append",
        Operation::Prepend => "prepend",
    };
    push(out, format_args!("{verb} {key} 0 {ttl_s} {}\r\n", value.len()));
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn meta_request(operation: Operation, key: &str, value: &[u8], ttl_s: u32, out: &mut Vec<u8>) {
    let mode = match operation {
        Operation::Get => return push(out, format_args!("mg {key} v\r\n")),
        Operation::Delete => return push(out, format_args!("md {key}\r\n")),
        Operation::Increment => return push(out, format_args!("ma {key}\r\n")),
        Operation::Decrement => return push(out, format_args!("ma {key} MD\r\n")),
        Operation::Set | Operation::Cas => "MS",
        Operation::Add => "ME",
        Operation::Replace => "MR",
        Operation::Append => "MA",
        Operation::Prepend => "MP",
    };
    push(out, format_args!("ms {key} {} T{ttl_s} {mode}\r\n", value.len()));
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn resp_request(operation: Operation, key: &str, value: &[u8], ttl_s: u32, out: &mut Vec<u8>) {
    let key = key.as_bytes();
    let (verb, condition): (&[u8], Option<&[u8]>) = match operation {
        Operation::Get => return words(out, &[b"GET", key]),
        Operation::Delete => return words(out, &[b"DEL", key]),
        Operation::Increment => return words(out, &[b"INCRBY", key, b"1"]),
        Operation::Decrement => return words(out, &[b"DECRBY", key, b"1"]),
        Operation::Append | Operation::Prepend => return words(out, &[b"APPEND", key, value]),
        Operation::Set | Operation::Cas => (b"SET", None),
        Operation::Add => (b"SET", Some(b"NX")),
        Operation::Replace => (b"SET", Some(b"XX")),
    };
    let seconds = ttl_s.to_string();
    let mut all: Vec<&[u8]> = vec![verb, key, value];
    if ttl_s > 0 {
        all.extend([&b"EX"[..], seconds.as_bytes()]);
    }
    all.extend(condition);
    words(out, &all);
}

fn words(out: &mut Vec<u8>, words: &[&[u8]]) {
    push(out, format_args!("*{}\r\n", words.len()));
    for word in words {
        push(out, format_args!("${}\r\n", word.len()));
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn text_reply(
    operation: Operation,
    bytes: &[u8],
    line: &[u8],
    behind: usize,
) -> Outcome<Option<Reply>> {
    let answer = match line {
        b"END" if operation == Operation::Get => Answer::Miss,
        b"STORED" | b"DELETED" => Answer::Done,
        b"NOT_STORED" | b"EXISTS" | b"NOT_FOUND" => Answer::NotDone,
        _ if line.first().is_some_and(u8::is_ascii_digit) => Answer::Done,
        _ if line.starts_with(b"VALUE ") => {
            let value_bytes = last_number(line)?;
            return Ok(value(bytes, behind, value_bytes, b"\r\nEND\r\n"));
        }
        _ => refused(line),
    };
    Ok(Some((answer, behind)))
}

fn meta_reply(
    operation: Operation,
    bytes: &[u8],
    line: &[u8],
    behind: usize,
) -> Outcome<Option<Reply>> {
    let answer = match line.get(..2) {
        Some(b"EN") if operation == Operation::Get => Answer::Miss,
        Some(b"HD") => Answer::Done,
        Some(b"NS" | b"EX" | b"NF") => Answer::NotDone,
        Some(b"VA") => {
            let value_bytes = last_number(line)?;
            return Ok(value(bytes, behind, value_bytes, b"\r\n"));
        }
        _ => refused(line),
    };
    Ok(Some((answer, behind)))
}

fn resp_reply(
    operation: Operation,
    bytes: &[u8],
    line: &[u8],
    behind: usize,
) -> Outcome<Option<Reply>> {
    let answer = match line {
        b"$-1" if operation == Operation::Get => Answer::Miss,
        b"$-1" => Answer::NotDone,
        b":0" if operation == Operation::Delete => Answer::NotDone,
        [b'+' | b':', ..] => Answer::Done,
        [b'$', digits @ ..] => {
            let value_bytes = number(digits)?;
            return Ok(value(bytes, behind, value_bytes, b"\r\n"));
        }
        _ => refused(line),
    };
    Ok(Some((answer, behind)))
}

/// A hit of `value_bytes` behind its header, if all of it and of the `tail` is there.
fn value(bytes: &[u8], behind: usize, value_bytes: usize, tail: &[u8]) -> Option<Reply> {
    let value_end = behind + value_bytes;
    let end = value_end + tail.len();
    if bytes.len() < end {
        return None;
    }
    if &bytes[value_end..end] != tail {
        let text = bytes[value_end..end].escape_ascii().to_string();
        return Some((Answer::Refused(format!("`{text}` behind a value")), end));
    }
    Some((Answer::Hit(behind..value_end), end))
}

fn refused(line: &[u8]) -> Answer {
    Answer::Refused(line.escape_ascii().to_string())
}

/// The number that ends a header of a hit, or stands behind its first word.
fn last_number(line: &[u8]) -> Outcome<usize> {
    let last = line.rsplit(|byte| *byte == b' ').next();
    number(last.unwrap_or_default())
}

fn number(digits: &[u8]) -> Outcome<usize> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| Failure::Reply(format!("`{}` is no length", digits.escape_ascii())))
}

fn push(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    use std::io::Write;
    out.write_fmt(text).expect("a vector takes every write");
}

#[cfg(test)]
mod tests {
    use super::{Answer, Protocol, reply, request};
    use crate::trace::Operation;

    const ALL: [Operation; 10] = [
        Operation::Get,
        Operation::Set,
        Operation::Add,
        Operation::Replace,
        Operation::Cas,
        Operation::Append,
        Operation::Prepend,
        Operation::Increment,
        Operation::Decrement,
        Operation::Delete,
    ];

    fn encoded(protocol: Protocol, operation: Operation) -> String {
        let mut out = Vec::new();
        request(protocol, operation, "k", b"xyz", 60, &mut out);
        out.escape_ascii().to_string()
    }

    #[test]
    fn requests_are_what_the_servers_expect() {
        assert_eq!(encoded(Protocol::Text, Operation::Get), r"get k\r\n");
        assert_eq!(encoded(Protocol::Text, Operation::Add), r"add k 0 60 3\r\nxyz\r\n");
        assert_eq!(encoded(Protocol::Meta, Operation::Get), r"mg k v\r\n");
        assert_eq!(encoded(Protocol::Meta, Operation::Set), r"ms k 3 T60 MS\r\nxyz\r\n");
        let set =
            r"*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nxyz\r\n$2\r\nEX\r\n$2\r\n60\r\n$2\r\nNX\r\n";
        assert_eq!(encoded(Protocol::Resp, Operation::Add), set);
    }

    #[test]
    fn replies_are_known_whole_and_not_before() {
        let cases = [
            (Protocol::Text, Operation::Get, &b"VALUE k 0 3\r\nxyz\r\nEND\r\n"[..], 13..16),
            (Protocol::Meta, Operation::Get, b"VA 3\r\nxyz\r\n", 6..9),
            (Protocol::Resp, Operation::Get, b"$3\r\nxyz\r\n", 4..7),
        ];
        for (protocol, operation, bytes, range) in cases {
            for cut in 0..bytes.len() {
                assert_eq!(reply(protocol, operation, &bytes[..cut]).expect("well-formed"), None);
            }
            let found = reply(protocol, operation, bytes).expect("well-formed");
            assert_eq!(found, Some((Answer::Hit(range), bytes.len())));
        }
        for (protocol, operation, bytes, answer) in [
            (Protocol::Text, Operation::Get, &b"END\r\n"[..], Answer::Miss),
            (Protocol::Text, Operation::Set, b"STORED\r\n", Answer::Done),
            (Protocol::Text, Operation::Increment, b"12\r\n", Answer::Done),
            (Protocol::Text, Operation::Delete, b"NOT_FOUND\r\n", Answer::NotDone),
            (Protocol::Meta, Operation::Get, b"EN\r\n", Answer::Miss),
            (Protocol::Meta, Operation::Add, b"NS\r\n", Answer::NotDone),
            (Protocol::Resp, Operation::Get, b"$-1\r\n", Answer::Miss),
            (Protocol::Resp, Operation::Add, b"$-1\r\n", Answer::NotDone),
            (Protocol::Resp, Operation::Delete, b":0\r\n", Answer::NotDone),
            (Protocol::Resp, Operation::Set, b"+OK\r\n", Answer::Done),
        ] {
            let found = reply(protocol, operation, bytes).expect("well-formed");
            assert_eq!(found, Some((answer, bytes.len())));
        }
    }

    #[test]
    fn errors_are_refusals_and_nonsense_is_a_failure() {
        for protocol in [Protocol::Text, Protocol::Meta, Protocol::Resp] {
            for operation in ALL {
                let line = b"SERVER_ERROR out of memory\r\n";
                let found = reply(protocol, operation, line).expect("a line");
                assert!(matches!(found, Some((Answer::Refused(_), _))), "{protocol:?}");
            }
            assert!(reply(protocol, Operation::Get, &[b'x'; 5000]).is_err());
        }
        assert!(reply(Protocol::Text, Operation::Get, b"VALUE k 0 x\r\n").is_err());
    }
}
