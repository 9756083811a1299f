//! The request at the front of a binary connection's bytes.
//!
//! The header alone decides whether it is a request: its lengths have to fit its opcode. Only then
//! are extras and key waited for, which are short, so that a connection never has to keep more than
//! [`HEAD_BYTES_MAX`] bytes of a request that has not arrived in full. As in memcached, lengths
//! that do not fit end the connection, since any bytes could follow. A command that does not exist
//! is passed over by its length, where memcached closes the connection if there is a body.

use super::{
    Arithmetic, BODY_BYTES_MAX, Command, Echo, Get, HEADER_BYTES, MECHANISM_BYTES_MAX, Request,
    SASL_BYTES_MAX, Status, Store,
};
use crate::request::{Direction, ExpiryTime, KEY_BYTES_MAX, StoreMode};
use crate::wire::BINARY_MAGIC;

/// The longest request without its value.
pub const HEAD_BYTES_MAX: usize = HEADER_BYTES + MECHANISM_BYTES_MAX + SASL_BYTES_MAX;

/// `increment` and `decrement` with this expiry create nothing.
const CREATE_NOTHING: u32 = u32::MAX;

/// The parser's findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'b> {
    /// No complete request yet.
    Incomplete,
    /// A request.
    Request {
        /// The request.
        request: Request<'b>,
        /// Bytes of the input it took, without a value.
        consumed: usize,
    },
    /// A header that is no request.
    Refused {
        /// The fields that the reply repeats.
        echo: Echo,
        /// The reply's status.
        status: Status,
        /// Bytes that follow and must be skipped unread; `None` where the connection has to end
        /// behind the reply.
        swallow_bytes: Option<u64>,
    },
    /// Close the connection without an answer: this is another protocol.
    Close,
}

/// The fields of a header that the parser needs.
struct Header {
    echo: Echo,
    key_bytes: usize,
    extras_bytes: usize,
    body_bytes: usize,
    cas: u64,
}

impl Header {
    /// Reads the header that `input` begins with.
    fn read(input: &[u8]) -> Option<Header> {
        let header = input.first_chunk::<HEADER_BYTES>()?;
        Some(Header {
            echo: Echo { opcode: header[1], opaque: number_32(&header[12..16]) },
            key_bytes: usize::from(u16::from_be_bytes([header[2], header[3]])),
            extras_bytes: usize::from(header[4]),
            body_bytes: number_32(&header[8..12]) as usize,
            cas: number_64(&header[16..24]),
        })
    }

    /// Ends the connection behind a reply.
    fn fatal<'b>(&self, status: Status) -> Parsed<'b> {
        Parsed::Refused { echo: self.echo, status, swallow_bytes: None }
    }

    /// Passes over the body behind a reply.
    fn passed_over<'b>(&self, status: Status) -> Parsed<'b> {
        let swallow_bytes = Some(self.body_bytes as u64);
        Parsed::Refused { echo: self.echo, status, swallow_bytes }
    }

    fn compare_cas(&self) -> Option<u64> {
        (self.cas != 0).then_some(self.cas)
    }
}

/// The parts of a kind of request.
#[derive(Debug, Clone, Copy)]
struct Shape {
    extras: Extras,
    key: Part,
    value: Part,
}

/// The lengths of extras that a kind of request may have.
#[derive(Debug, Clone, Copy)]
enum Extras {
    /// This length only.
    Exactly(usize),
    /// None, or four bytes.
    PerhapsFour,
}

/// Whether a request has a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Never,
    Maybe,
    Always,
}

/// A command by its opcode.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Get { with_key: bool, with_value: bool, touches: bool },
    Store(StoreMode),
    Delete,
    Arithmetic(Direction),
    Flush,
    Noop,
    Version,
    Quit,
    Verbosity,
    Stat,
    SaslList,
    Sasl { is_first: bool },
}

/// The command and whether it is quiet.
fn verb(opcode: u8) -> Option<(Verb, bool)> {
    let get = |with_key, touches| Verb::Get { with_key, with_value: true, touches };
    Some(match opcode {
        0x00 => (get(false, false), false),
        0x09 => (get(false, false), true),
        0x0c => (get(true, false), false),
        0x0d => (get(true, false), true),
        0x1c => (Verb::Get { with_key: false, with_value: false, touches: true }, false),
        0x1d => (get(false, true), false),
        0x1e => (get(false, true), true),
        0x23 => (get(true, true), false),
        0x24 => (get(true, true), true),
        0x01 => (Verb::Store(StoreMode::Set), false),
        0x11 => (Verb::Store(StoreMode::Set), true),
        0x02 => (Verb::Store(StoreMode::Add), false),
        0x12 => (Verb::Store(StoreMode::Add), true),
        0x03 => (Verb::Store(StoreMode::Replace), false),
        0x13 => (Verb::Store(StoreMode::Replace), true),
        0x0e => (Verb::Store(StoreMode::Append), false),
        0x19 => (Verb::Store(StoreMode::Append), true),
        0x0f => (Verb::Store(StoreMode::Prepend), false),
        0x1a => (Verb::Store(StoreMode::Prepend), true),
        0x04 => (Verb::Delete, false),
        0x14 => (Verb::Delete, true),
        0x05 => (Verb::Arithmetic(Direction::Increment), false),
        0x15 => (Verb::Arithmetic(Direction::Increment), true),
        0x06 => (Verb::Arithmetic(Direction::Decrement), false),
        0x16 => (Verb::Arithmetic(Direction::Decrement), true),
        0x07 => (Verb::Quit, false),
        0x17 => (Verb::Quit, true),
        0x08 => (Verb::Flush, false),
        0x18 => (Verb::Flush, true),
        0x0a => (Verb::Noop, false),
        0x0b => (Verb::Version, false),
        0x10 => (Verb::Stat, false),
        0x1b => (Verb::Verbosity, false),
        0x20 => (Verb::SaslList, false),
        0x21 => (Verb::Sasl { is_first: true }, false),
        0x22 => (Verb::Sasl { is_first: false }, false),
        _ => return None,
    })
}

impl Verb {
    fn shape(self) -> Shape {
        let (extras, key, value) = match self {
            Verb::Get { touches: false, .. } | Verb::Delete => (0, Part::Always, Part::Never),
            Verb::Get { touches: true, .. } => (4, Part::Always, Part::Never),
            Verb::Store(StoreMode::Append | StoreMode::Prepend) => (0, Part::Always, Part::Maybe),
            Verb::Store(_) => (8, Part::Always, Part::Maybe),
            Verb::Arithmetic(_) => (20, Part::Always, Part::Never),
            Verb::Noop | Verb::Version | Verb::Quit | Verb::SaslList => {
                (0, Part::Never, Part::Never)
            }
            Verb::Verbosity => (4, Part::Never, Part::Never),
            Verb::Stat => (0, Part::Maybe, Part::Never),
            Verb::Sasl { .. } => (0, Part::Always, Part::Maybe),
            Verb::Flush => {
                let extras = Extras::PerhapsFour;
                return Shape { extras, key: Part::Never, value: Part::Never };
            }
        };
        Shape { extras: Extras::Exactly(extras), key, value }
    }
}

impl Shape {
    /// Whether a header describes such a request. `value_bytes` is the length of its body beside
    /// extras and key.
    fn fits(self, header: &Header, value_bytes: usize) -> bool {
        let extras_fit = match self.extras {
            Extras::Exactly(bytes) => header.extras_bytes == bytes,
            Extras::PerhapsFour => matches!(header.extras_bytes, 0 | 4),
        };
        extras_fit && self.key.fits(header.key_bytes) && self.value.fits(value_bytes)
    }
}

impl Part {
    fn fits(self, bytes: usize) -> bool {
        match self {
            Part::Never => bytes == 0,
            Part::Maybe => true,
            Part::Always => bytes > 0,
        }
    }
}

/// Parses the front of `input`.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    match input.first() {
        None => return Parsed::Incomplete,
        Some(&BINARY_MAGIC) => {}
        Some(_) => return Parsed::Close,
    }
    let Some(header) = Header::read(input) else {
        return Parsed::Incomplete;
    };
    let head_bytes = header.extras_bytes + header.key_bytes;
    let Some(value_bytes) = header.body_bytes.checked_sub(head_bytes) else {
        return header.fatal(Status::UnknownCommand);
    };
    if header.body_bytes > BODY_BYTES_MAX || header.key_bytes > KEY_BYTES_MAX {
        return header.fatal(Status::InvalidArguments);
    }
    let Some((verb, quiet)) = verb(header.echo.opcode) else {
        return header.passed_over(Status::UnknownCommand);
    };
    if !verb.shape().fits(&header, value_bytes) {
        return header.fatal(Status::InvalidArguments);
    }
    let is_sasl = matches!(verb, Verb::Sasl { .. });
    if is_sasl && (header.key_bytes > MECHANISM_BYTES_MAX || value_bytes > SASL_BYTES_MAX) {
        return header.passed_over(Status::InvalidArguments);
    }
    let consumed = HEADER_BYTES + if is_sasl { header.body_bytes } else { head_bytes };
    let Some(whole) = input.get(HEADER_BYTES..consumed) else {
        return Parsed::Incomplete;
    };
    let (extras, rest) = whole.split_at(header.extras_bytes);
    let (key, message) = rest.split_at(header.key_bytes);
    let command = match verb {
        Verb::Sasl { is_first } => Command::Sasl { mechanism: key, message, is_first },
        _ => command(verb, &header, extras, key, value_bytes),
    };
    Parsed::Request { request: Request { echo: header.echo, quiet, command }, consumed }
}

/// A request whose lengths fit.
fn command<'b>(
    verb: Verb,
    header: &Header,
    extras: &[u8],
    key: &'b [u8],
    value_bytes: usize,
) -> Command<'b> {
    let expiry = |bytes: &[u8]| ExpiryTime(i64::from(number_32(bytes)));
    let compare_cas = header.compare_cas();
    match verb {
        Verb::Get { with_key, with_value, touches } => {
            let touch = touches.then(|| expiry(extras));
            Command::Get(Get { key, with_key, with_value, touch })
        }
        Verb::Store(mode) => {
            let (flags, expiry) = match extras {
                [] => (0, ExpiryTime(0)),
                _ => (number_32(&extras[..4]), expiry(&extras[4..])),
            };
            Command::Store(Store { key, mode, flags, expiry, value_bytes, compare_cas })
        }
        Verb::Delete => Command::Delete { key, compare_cas },
        Verb::Arithmetic(direction) => {
            let (delta, initial) = (number_64(&extras[..8]), number_64(&extras[8..16]));
            let creates = number_32(&extras[16..]) != CREATE_NOTHING;
            let create = creates.then(|| (initial, expiry(&extras[16..])));
            Command::Arithmetic(Arithmetic { key, direction, delta, create, compare_cas })
        }
        Verb::Flush if extras.is_empty() => Command::Flush { delay: ExpiryTime(0) },
        Verb::Flush => Command::Flush { delay: expiry(extras) },
        Verb::Verbosity => Command::Verbosity { level: number_32(extras) },
        Verb::Stat => Command::Stat { arguments: key },
        Verb::Noop => Command::Noop,
        Verb::Version => Command::Version,
        Verb::Quit => Command::Quit,
        Verb::SaslList => Command::SaslList,
        Verb::Sasl { is_first } => Command::Sasl { mechanism: key, message: b"", is_first },
    }
}

/// Four bytes as a number.
fn number_32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().expect("four bytes were cut off"))
}

/// Eight bytes as a number.
fn number_64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*bytes.first_chunk().expect("eight bytes were cut off"))
}
