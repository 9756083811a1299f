//! Packets of replies, written behind one another into a buffer.

use super::{Echo, HEADER_BYTES, Status};

/// The first byte of a reply.
const REPLY_MAGIC: u8 = 0x81;

/// The lengths of a reply's parts.
#[derive(Debug, Clone, Copy, Default)]
struct Lengths {
    extras: u8,
    key: usize,
    value: usize,
}

/// Appends a header.
fn header(out: &mut Vec<u8>, echo: Echo, status: Status, cas: u64, lengths: Lengths) {
    let key = u16::try_from(lengths.key).expect("a key has at most 250 bytes");
    let body = usize::from(lengths.extras) + lengths.key + lengths.value;
    let body = u32::try_from(body).expect("a value is shorter than its limit of 1 GiB");
    let mut header = [0; HEADER_BYTES];
    (header[0], header[1]) = (REPLY_MAGIC, echo.opcode);
    header[2..4].copy_from_slice(&key.to_be_bytes());
    header[4] = lengths.extras;
    header[6..8].copy_from_slice(&status.code().to_be_bytes());
    header[8..12].copy_from_slice(&body.to_be_bytes());
    header[12..16].copy_from_slice(&echo.opaque.to_be_bytes());
    header[16..].copy_from_slice(&cas.to_be_bytes());
    out.extend_from_slice(&header);
}

/// A success with nothing but the CAS unique.
pub fn success(out: &mut Vec<u8>, echo: Echo, cas: u64) {
    header(out, echo, Status::Success, cas, Lengths::default());
}

/// An error with its usual words.
pub fn error(out: &mut Vec<u8>, echo: Echo, status: Status) {
    error_text(out, echo, status, status.text());
}

/// An error in other words.
pub fn error_text(out: &mut Vec<u8>, echo: Echo, status: Status, text: &str) {
    header(out, echo, status, 0, Lengths { value: text.len(), ..Lengths::default() });
    out.extend_from_slice(text.as_bytes());
}

/// A miss that repeats its key.
pub fn miss(out: &mut Vec<u8>, echo: Echo, key: &[u8]) {
    header(out, echo, Status::NotFound, 0, Lengths { key: key.len(), ..Lengths::default() });
    out.extend_from_slice(key);
}

/// The packet of a hit up to its value: `value_bytes` have to follow. The key is empty where it is
/// not repeated.
pub fn hit(out: &mut Vec<u8>, echo: Echo, cas: u64, flags: u32, key: &[u8], value_bytes: usize) {
    let lengths = Lengths { extras: 4, key: key.len(), value: value_bytes };
    header(out, echo, Status::Success, cas, lengths);
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// The result of arithmetic.
pub fn number(out: &mut Vec<u8>, echo: Echo, cas: u64, number: u64) {
    let number = number.to_be_bytes();
    header(out, echo, Status::Success, cas, Lengths { value: number.len(), ..Lengths::default() });
    out.extend_from_slice(&number);
}

/// A success with a text.
pub fn text(out: &mut Vec<u8>, echo: Echo, text: &[u8]) {
    stat(out, echo, b"", text);
}

/// One statistic; the last of them has neither name nor value.
pub fn stat(out: &mut Vec<u8>, echo: Echo, name: &[u8], value: &[u8]) {
    let lengths = Lengths { extras: 0, key: name.len(), value: value.len() };
    header(out, echo, Status::Success, 0, lengths);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}
