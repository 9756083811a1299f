//! One request as bytes and its reply as an answer, in each of the three protocols.
//!
//! A protocol does not have every operation of a trace; the nearest request is sent:
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
//! A cas is sent as a set, since a trace does not say which value the client had read. memcached's
//! protocol takes a time to live of more than 30 days for a date, which is long past: 30 days are
//! sent instead, longer than any run.

use std::ops::Range;

use clap::ValueEnum;
use memchr::memchr;
use serde::Serialize;

use crate::drive::encode::Dialect;
use crate::failure::{Failure, Outcome};
use crate::trace::Operation;

/// The longest line of a reply, in bytes.
const LINE_BYTES_MAX: usize = 2048;
/// The most digits of a length: more are beyond any item.
const LENGTH_DIGITS_MAX: usize = 10;
/// The longest time to live of memcached's protocol; anything longer is a date.
const TTL_S_MAX: u32 = 30 * 86_400;
/// Redis's command for lengthening a value: it takes no time to live.
const APPEND: &str = "APPEND";

/// The protocol for servers of other kinds than memcached, in words.
const OTHERS: &str = "Redis's, or text commands alone, to who speaks that";

/// The protocol of a connection.
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

impl Protocol {
    /// Returns the protocol for a server of this dialect, with meta commands or without, with
    /// `depth` requests in flight on a connection: meta commands where there are several, since
    /// memcached 1.6.18 answers each get of the text protocol with a system call of its own, which
    /// is no property of the load. With a rate a request is mostly alone, whatever the depth.
    pub fn of(dialect: Dialect, has_meta: bool, depth: usize, per_second: Option<f64>) -> Protocol {
        match dialect {
            Dialect::Text if has_meta && depth > 1 && per_second.is_none() => Protocol::Meta,
            Dialect::Text => Protocol::Text,
            Dialect::Resp => Protocol::Resp,
        }
    }

    /// Returns its name in reports.
    pub fn in_words(self) -> &'static str {
        match self {
            Protocol::Text => "memcached's text commands",
            Protocol::Meta => "memcached's meta commands",
            Protocol::Resp => "Redis's",
        }
    }

    /// Returns the servers' protocol as a fact of a report.
    pub fn fact(depth: usize, per_second: Option<f64>) -> (String, String) {
        let words = Protocol::of(Dialect::Text, true, depth, per_second).in_words();
        ("protocol".to_owned(), format!("{words}; {OTHERS}"))
    }

    /// Returns that fact for sets at a rate, and gets with this many in flight.
    pub fn fact_of_paced_sets(gets_depth: usize) -> (String, String) {
        let sets = Protocol::of(Dialect::Text, true, gets_depth, Some(1.0)).in_words();
        let gets = Protocol::of(Dialect::Text, true, gets_depth, None).in_words();
        ("protocol".to_owned(), format!("sets in {sets}, gets in {gets}; {OTHERS}"))
    }
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'k> {
    /// The operation.
    pub operation: Operation,
    /// The key.
    pub key: &'k [u8],
    /// Bytes of the value, if there is one.
    pub value_bytes: u32,
    /// Seconds that it stays valid; 0: for ever.
    pub ttl_s: u32,
}

/// A server's answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The object's value: this part of the reply.
    Hit(Range<usize>),
    /// There is no such object.
    Miss,
    /// The operation was done.
    Done,
    /// The operation was not done, because the object was there or was not.
    NotDone,
    /// The server refused the request, with this message.
    Refused(String),
}

/// A reply and its length in bytes.
pub type Reply = (Answer, usize);

/// Appends a request; `value` appends the value if the request has one.
pub fn request(
    protocol: Protocol,
    ask: Ask<'_>,
    out: &mut Vec<u8>,
    value: impl FnOnce(&mut Vec<u8>),
) {
    match protocol {
        Protocol::Text | Protocol::Meta => memcached(protocol, ask, out, value),
        Protocol::Resp => redis(ask, out, value),
    }
}

/// Parses the reply at the front of `bytes`, if all of it is there.
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

/// The words of an operation in each protocol.
struct Words {
    /// Whether a value goes with it.
    stores: bool,
    /// The classic verb, and the words after the key.
    text: (&'static str, &'static str),
    /// The meta command, and its last flags.
    meta: (&'static str, &'static str),
    /// Redis's command, and its last word.
    resp: (&'static str, &'static str),
}

impl Words {
    /// The only table of these words.
    fn of(operation: Operation) -> Words {
        let (stores, text, meta, resp) = match operation {
            Operation::Get => (false, ("get ", ""), ("mg ", " v"), ("GET", "")),
            Operation::Delete => (false, ("delete ", ""), ("md ", ""), ("DEL", "")),
            Operation::Increment => (false, ("incr ", " 1"), ("ma ", ""), ("INCRBY", "1")),
            Operation::Decrement => (false, ("decr ", " 1"), ("ma ", " MD"), ("DECRBY", "1")),
            Operation::Set | Operation::Cas => (true, ("set ", ""), ("ms ", " MS"), ("SET", "")),
            Operation::Add => (true, ("add ", ""), ("ms ", " ME"), ("SET", "NX")),
            Operation::Replace => (true, ("replace ", ""), ("ms ", " MR"), ("SET", "XX")),
            Operation::Append => (true, ("append ", ""), ("ms ", " MA"), (APPEND, "")),
            Operation::Prepend => (true, ("prepend ", ""), ("ms ", " MP"), (APPEND, "")),
        };
        Words { stores, text, meta, resp }
    }
}

fn memcached(
    protocol: Protocol,
    ask: Ask<'_>,
    out: &mut Vec<u8>,
    value: impl FnOnce(&mut Vec<u8>),
) {
    let words = Words::of(ask.operation);
    let (verb, rest) = if protocol == Protocol::Text { words.text } else { words.meta };
    let ttl_s = ask.ttl_s.min(TTL_S_MAX);
    out.extend_from_slice(verb.as_bytes());
    out.extend_from_slice(ask.key);
    if words.stores && protocol == Protocol::Text {
        out.extend_from_slice(b" 0 ");
        push_number(out, ttl_s);
        out.push(b' ');
        push_number(out, ask.value_bytes);
    } else if words.stores {
        out.push(b' ');
        push_number(out, ask.value_bytes);
        out.extend_from_slice(b" T");
        push_number(out, ttl_s);
    }
    out.extend_from_slice(rest.as_bytes());
    out.extend_from_slice(b"\r\n");
    if words.stores {
        value(out);
        out.extend_from_slice(b"\r\n");
    }
}

fn redis(ask: Ask<'_>, out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    let Words { stores, resp: (verb, rest), .. } = Words::of(ask.operation);
    let expires = stores && ask.ttl_s > 0 && verb != APPEND;
    let count = 2 + u32::from(stores) + 2 * u32::from(expires) + u32::from(!rest.is_empty());
    out.push(b'*');
    push_number(out, count);
    out.extend_from_slice(b"\r\n");
    push_word(out, verb.as_bytes());
    push_word(out, ask.key);
    if stores {
        push_length(out, ask.value_bytes);
        value(out);
        out.extend_from_slice(b"\r\n");
    }
    if expires {
        push_word(out, b"EX");
        push_word(out, ask.ttl_s.to_string().as_bytes());
    }
    if !rest.is_empty() {
        push_word(out, rest.as_bytes());
    }
}

fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    push_length(out, word.len() as u32);
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn push_length(out: &mut Vec<u8>, length: u32) {
    out.push(b'$');
    push_number(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal digits; the standard library's formatting is slow at that.
fn push_number(out: &mut Vec<u8>, number: u32) {
    let mut digits = [b'0'; 10];
    let (mut rest, mut start) = (number, digits.len() - 1);
    digits[start] += (rest % 10) as u8;
    while rest >= 10 {
        rest /= 10;
        start -= 1;
        digits[start] += (rest % 10) as u8;
    }
    out.extend_from_slice(&digits[start..]);
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

/// Returns a hit of `value_bytes` after its header, if all of it and of the `tail` is there.
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

/// Parses the number that ends a header of a hit, or follows its first word.
fn last_number(line: &[u8]) -> Outcome<usize> {
    let last = line.rsplit(|byte| *byte == b' ').next();
    number(last.unwrap_or_default())
}

fn number(digits: &[u8]) -> Outcome<usize> {
    let valid = (1..=LENGTH_DIGITS_MAX).contains(&digits.len());
    if !valid || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Failure::Reply(format!("`{}` is no length", digits.escape_ascii())));
    }
    Ok(digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{Answer, Ask, Protocol, push_number, reply, request};
    use crate::drive::encode::Dialect;
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
        encoded_for(protocol, operation, 60)
    }

    fn encoded_for(protocol: Protocol, operation: Operation, ttl_s: u32) -> String {
        let mut out = Vec::new();
        let ask = Ask { operation, key: b"k", value_bytes: 3, ttl_s };
        request(protocol, ask, &mut out, |out| out.extend_from_slice(b"xyz"));
        out.escape_ascii().to_string()
    }

    /// Regression: with 16 in flight memcached was charged a system call for each get of the text
    /// protocol.
    #[test]
    fn several_requests_in_flight_use_meta_commands() {
        assert_eq!(Protocol::of(Dialect::Text, true, 1, None), Protocol::Text);
        assert_eq!(Protocol::of(Dialect::Text, true, 16, None), Protocol::Meta);
        assert_eq!(Protocol::of(Dialect::Text, true, 16, Some(1000.0)), Protocol::Text);
        assert_eq!(Protocol::of(Dialect::Text, false, 16, None), Protocol::Text);
        assert_eq!(Protocol::of(Dialect::Resp, false, 16, None), Protocol::Resp);
        assert!(Protocol::fact(16, None).1.contains("meta"));
        let words = Protocol::fact_of_paced_sets(64).1;
        let both = "sets in memcached's text commands, gets in memcached's meta commands";
        assert!(words.starts_with(both), "{words}");
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

    /// Regression: 40 days were a date of 1970 for memcached and Larder, which stored expired
    /// items, and 40 days for Redis.
    #[test]
    fn a_time_to_live_of_more_than_thirty_days_is_no_date() {
        let days_30 = 2_592_000;
        for (ttl_s, sent) in [(days_30, days_30), (days_30 + 1, days_30), (u32::MAX, days_30)] {
            let text = encoded_for(Protocol::Text, Operation::Set, ttl_s);
            assert_eq!(text, format!(r"set k 0 {sent} 3\r\nxyz\r\n"));
            let meta = encoded_for(Protocol::Meta, Operation::Set, ttl_s);
            assert_eq!(meta, format!(r"ms k 3 T{sent} MS\r\nxyz\r\n"));
            let redis = encoded_for(Protocol::Resp, Operation::Set, ttl_s);
            let digits = ttl_s.to_string().len();
            assert!(redis.contains(&format!(r"EX\r\n${digits}\r\n{ttl_s}")), "{redis}");
        }
    }

    #[test]
    fn every_operation_is_said_in_every_protocol() {
        let said = [
            ("get k", "mg k v", "GET k"),
            ("set k 0 60 3", "ms k 3 T60 MS", "SET k xyz EX 60"),
            ("add k 0 60 3", "ms k 3 T60 ME", "SET k xyz EX 60 NX"),
            ("replace k 0 60 3", "ms k 3 T60 MR", "SET k xyz EX 60 XX"),
            ("set k 0 60 3", "ms k 3 T60 MS", "SET k xyz EX 60"),
            ("append k 0 60 3", "ms k 3 T60 MA", "APPEND k xyz"),
            ("prepend k 0 60 3", "ms k 3 T60 MP", "APPEND k xyz"),
            ("incr k 1", "ma k", "INCRBY k 1"),
            ("decr k 1", "ma k MD", "DECRBY k 1"),
            ("delete k", "md k", "DEL k"),
        ];
        for (operation, (text, meta, resp)) in ALL.into_iter().zip(said) {
            let value = if text.contains(" 0 60 ") { r"xyz\r\n" } else { "" };
            assert_eq!(encoded(Protocol::Text, operation), format!(r"{text}\r\n{value}"));
            assert_eq!(encoded(Protocol::Meta, operation), format!(r"{meta}\r\n{value}"));
            let words: Vec<&str> = resp.split(' ').collect();
            let word = |word: &&str| format!(r"${}\r\n{word}\r\n", word.len());
            let all: String = words.iter().map(word).collect();
            assert_eq!(encoded(Protocol::Resp, operation), format!(r"*{}\r\n{all}", words.len()));
        }
        for number in [0, 9, 10, 99, 100, 1_048_064, u32::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(std::str::from_utf8(&out), Ok(number.to_string().as_str()));
        }
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
        for length in ["x", "", "-1", "99999999999"] {
            let line = format!("VALUE k 0 {length}\r\n");
            assert!(reply(Protocol::Text, Operation::Get, line.as_bytes()).is_err(), "{length}");
        }
    }
}
