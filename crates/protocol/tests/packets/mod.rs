//! Properties of any bytes on a binary connection: the body of the fuzz target, which a stable test
//! runs too.
//!
//! [`check`] reads a stream twice, at once and in pieces, as a connection would, and compares the
//! results.

use larder_protocol::binary::parse::{HEAD_BYTES_MAX, Parsed, parse};
use larder_protocol::binary::{BODY_BYTES_MAX, HEADER_BYTES};
use larder_protocol::request::KEY_BYTES_MAX;

/// The parser's side of a connection.
#[derive(Default)]
struct Connection {
    buffer: Vec<u8>,
    /// Bytes of values still to be skipped.
    skip_bytes: u64,
    events: Vec<String>,
    closed: bool,
}

impl Connection {
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !self.closed {
            let skipped = self.skip_bytes.min(self.buffer.len() as u64) as usize;
            self.buffer.drain(..skipped);
            self.skip_bytes -= skipped as u64;
            if self.skip_bytes > 0 || !self.step() {
                return;
            }
        }
    }

    /// Reads one request; false if there is none.
    fn step(&mut self) -> bool {
        let buffer = std::mem::take(&mut self.buffer);
        let parsed = parse(&buffer);
        let consumed = match parsed {
            Parsed::Incomplete => {
                assert!(buffer.len() < HEAD_BYTES_MAX, "no more than this is kept");
                self.buffer = buffer;
                return false;
            }
            Parsed::Request { request, consumed } => {
                assert!((HEADER_BYTES..=buffer.len().min(HEAD_BYTES_MAX)).contains(&consumed));
                let key_bytes = request.key().map_or(1, <[u8]>::len);
                assert!((1..=KEY_BYTES_MAX).contains(&key_bytes));
                let value_bytes = request.value_bytes().unwrap_or(0);
                assert!(value_bytes <= BODY_BYTES_MAX);
                self.skip_bytes = value_bytes as u64;
                // Read again without its value, as when that has arrived in full.
                assert_eq!(parse(&buffer[..consumed]), parsed);
                consumed
            }
            Parsed::Refused { swallow_bytes, .. } => {
                self.closed = swallow_bytes.is_none();
                self.skip_bytes = swallow_bytes.unwrap_or(0);
                HEADER_BYTES
            }
            Parsed::Close => {
                self.closed = true;
                0
            }
        };
        self.events.push(format!("{parsed:?}"));
        self.buffer = buffer[consumed..].to_vec();
        true
    }
}

/// Reads `stream` at once and in pieces of these lengths, over and over.
pub fn check(stream: &[u8], piece_bytes: &[usize]) {
    let mut whole = Connection::default();
    whole.feed(stream);
    let mut cut = Connection::default();
    let mut rest = stream;
    for &bytes in piece_bytes.iter().cycle() {
        if rest.is_empty() || cut.closed {
            break;
        }
        let (piece, behind) = rest.split_at(bytes.clamp(1, rest.len()));
        cut.feed(piece);
        rest = behind;
    }
    assert_eq!(cut.events, whole.events);
    assert_eq!(cut.closed, whole.closed);
}
