//! Answers as bytes, written behind one another into a buffer, in either version of the protocol.

use super::Refusal;
use crate::reply::decimal;

/// The version that a connection speaks: RESP2 until `HELLO 3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// RESP2.
    #[default]
    Two,
    /// RESP3.
    Three,
}

/// The limit of connections (`-c`) is reached.
pub const TOO_MANY_CLIENTS: &str = "-ERR max number of clients reached\r\n";

/// Appends `+text`.
#[inline]
pub fn simple(out: &mut Vec<u8>, text: &str) {
    line(out, b'+', text.as_bytes());
}

/// Appends `-text`, which begins with a word such as `ERR` and has no line end.
pub fn error(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'-', text);
}

/// Appends a whole number.
#[inline]
pub fn integer(out: &mut Vec<u8>, number: i64) {
    head(out, b':', number);
}

/// Appends a string.
#[inline]
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    bulk_header(out, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends the header of a string of this many bytes; the string and `\r\n` come next.
#[inline]
pub fn bulk_header(out: &mut Vec<u8>, bytes: usize) {
    count(out, b'$', bytes);
}

/// Appends the null string.
#[inline]
pub fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Two => b"$-1\r\n",
        Version::Three => b"_\r\n",
    });
}

/// Appends the header of an array of this many answers.
#[inline]
pub fn array(out: &mut Vec<u8>, answers: usize) {
    count(out, b'*', answers);
}

/// Appends the header of a set of this many answers.
pub fn set(out: &mut Vec<u8>, version: Version, answers: usize) {
    match version {
        Version::Two => array(out, answers),
        Version::Three => count(out, b'~', answers),
    }
}

/// Appends the header of a map of this many pairs.
pub fn map(out: &mut Vec<u8>, version: Version, pairs: usize) {
    match version {
        Version::Two => array(out, 2 * pairs),
        Version::Three => count(out, b'%', pairs),
    }
}

/// Appends a text of several lines for people.
pub fn verbatim(out: &mut Vec<u8>, version: Version, text: &[u8]) {
    match version {
        Version::Two => bulk(out, text),
        Version::Three => {
            count(out, b'=', text.len() + 4);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends the error for which the connection is closed.
pub fn refusal(out: &mut Vec<u8>, refusal: Refusal) {
    out.extend_from_slice(b"-ERR Protocol error: ");
    let text: &[u8] = match refusal {
        Refusal::LongCount => b"too big mbulk count string",
        Refusal::BadCount => b"invalid multibulk length",
        Refusal::LongLength => b"too big bulk count string",
        Refusal::BadLength => b"invalid bulk length",
        Refusal::StrangerCount => b"unauthenticated multibulk length",
        Refusal::StrangerLength => b"unauthenticated bulk length",
        Refusal::LongLine => b"too big inline request",
        Refusal::Quotes => b"unbalanced quotes in request",
        Refusal::NoBulk(byte) => {
            out.extend_from_slice(b"expected '$', got '");
            // A line end would cut the answer in two.
            out.push(if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
            b"'"
        }
    };
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn count(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    decimal(out, number as u64);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn head(out: &mut Vec<u8>, kind: u8, number: i64) {
    out.push(kind);
    if number < 0 {
        out.push(b'-');
    }
    decimal(out, number.unsigned_abs());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_agree_and_differ_where_they_should() {
        for (version, wanted) in [
            (Version::Two, "$-1\r\n*2\r\n*4\r\n$1\r\nx\r\n"),
            (Version::Three, "_\r\n~2\r\n%2\r\n=5\r\ntxt:x\r\n"),
        ] {
            let mut out = Vec::new();
            null(&mut out, version);
            set(&mut out, version, 2);
            map(&mut out, version, 2);
            verbatim(&mut out, version, b"x");
            assert_eq!(String::from_utf8_lossy(&out), wanted);
        }
        let mut out = Vec::new();
        simple(&mut out, "OK");
        error(&mut out, b"ERR no");
        integer(&mut out, i64::MIN);
        integer(&mut out, 7);
        bulk(&mut out, b"\r\n");
        array(&mut out, 0);
        let wanted = b"+OK\r\n-ERR no\r\n:-9223372036854775808\r\n:7\r\n$2\r\n\r\n\r\n*0\r\n";
        assert_eq!(out, wanted);
    }
}
