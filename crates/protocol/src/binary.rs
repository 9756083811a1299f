//! memcached's binary protocol: headers to [`Request`]s, outcomes to packets.
//!
//! ```text
//!  0      1        2     4        5    6         8      12       16    24
//! | 0x80 | opcode | key | extras | 0 | unused  | body | opaque | CAS | extras, key, value ...
//! | 0x81 | opcode | key | extras | 0 | status  | body | opaque | CAS | extras, key, value ...
//!                  \_ lengths __/               length
//! ```
//!
//! All numbers are big-endian, and the body is extras, key and value together. A request borrows
//! from the connection's read buffer. The value of a storage request is not part of it, as in text:
//! the connection streams it. The opcode decides whether a request is quiet: then only hits or
//! errors are answered, and a `noop` behind it tells where the answers end.

pub mod parse;
pub mod reply;

pub use parse::{Parsed, parse};

use crate::request::{Direction, ExpiryTime, StoreMode};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;

/// The longest body that a header may announce; memcached's limit to `-I`.
pub const BODY_BYTES_MAX: usize = 1 << 30;

/// The longest SASL message: an identity, a user and a password, of which RFC 4616 expects no more
/// than 255 bytes each, with room to spare.
pub const SASL_BYTES_MAX: usize = 1024;

/// The longest name of a SASL mechanism.
pub const MECHANISM_BYTES_MAX: usize = 32;

/// The fields of a request that its reply repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The command, in its quiet form where it was that.
    pub opcode: u8,
    /// The client's own mark.
    pub opaque: u32,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'b> {
    /// The fields that the reply repeats.
    pub echo: Echo,
    /// A miss of a get, or the success of anything else, is not answered.
    pub quiet: bool,
    /// The command.
    pub command: Command<'b>,
}

/// The commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'b> {
    /// `get`, `getk`, `gat`, `gatk`, `touch`.
    Get(Get<'b>),
    /// `set`, `add`, `replace`, `append`, `prepend`; a value follows.
    Store(Store<'b>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'b [u8],
        /// Only the item with this CAS unique.
        compare_cas: Option<u64>,
    },
    /// `increment`, `decrement`.
    Arithmetic(Arithmetic<'b>),
    /// `flush`.
    Flush {
        /// As in text.
        delay: ExpiryTime,
    },
    /// `noop`.
    Noop,
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// `verbosity`.
    Verbosity {
        /// The new level.
        level: u32,
    },
    /// `stat`.
    Stat {
        /// The words that stand behind `stats` in text.
        arguments: &'b [u8],
    },
    /// `sasl list mechs`.
    SaslList,
    /// `sasl auth`, `sasl step`.
    Sasl {
        /// The mechanism's name.
        mechanism: &'b [u8],
        /// The message to it.
        message: &'b [u8],
        /// The first of an exchange.
        is_first: bool,
    },
}

/// `get` and its kin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'b> {
    /// The key.
    pub key: &'b [u8],
    /// The reply repeats the key.
    pub with_key: bool,
    /// The reply holds the value; `touch` has none.
    pub with_value: bool,
    /// The new expiry.
    pub touch: Option<ExpiryTime>,
}

/// `set` and its kin. The value follows, with nothing behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store<'b> {
    /// The key.
    pub key: &'b [u8],
    /// Never `Cas`; see `compare_cas`.
    pub mode: StoreMode,
    /// Client flags.
    pub flags: u32,
    /// The expiry.
    pub expiry: ExpiryTime,
    /// Length of the value.
    pub value_bytes: usize,
    /// Only over an item with this CAS unique.
    pub compare_cas: Option<u64>,
}

/// `increment`, `decrement`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic<'b> {
    /// The key.
    pub key: &'b [u8],
    /// Up or down.
    pub direction: Direction,
    /// The amount.
    pub delta: u64,
    /// A missing item is created with this value and expiry.
    pub create: Option<(u64, ExpiryTime)>,
    /// Only the item with this CAS unique.
    pub compare_cas: Option<u64>,
}

impl<'b> Request<'b> {
    /// The key of a request that has one.
    pub fn key(&self) -> Option<&'b [u8]> {
        match &self.command {
            Command::Get(get) => Some(get.key),
            Command::Store(store) => Some(store.key),
            Command::Delete { key, .. } => Some(key),
            Command::Arithmetic(arithmetic) => Some(arithmetic.key),
            _ => None,
        }
    }

    /// The length of the value that follows, if one may.
    pub fn value_bytes(&self) -> Option<usize> {
        match &self.command {
            Command::Store(store) => Some(store.value_bytes),
            _ => None,
        }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// As asked.
    Success,
    /// There is no such item.
    NotFound,
    /// There is one, or it has another CAS unique.
    Exists,
    /// The value is larger than the item limit.
    TooLarge,
    /// The request's parts do not fit its opcode.
    InvalidArguments,
    /// `append` or `prepend` found nothing.
    NotStored,
    /// `increment` or `decrement` found no number.
    NonNumeric,
    /// The client is unauthenticated, or its login failed.
    AuthFailure,
    /// The client has to send more.
    AuthContinue,
    /// The command is unknown, or not available.
    UnknownCommand,
    /// No memory for it.
    NoMemory,
}

impl Status {
    /// The code in the header.
    pub fn code(self) -> u16 {
        match self {
            Status::Success => 0x00,
            Status::NotFound => 0x01,
            Status::Exists => 0x02,
            Status::TooLarge => 0x03,
            Status::InvalidArguments => 0x04,
            Status::NotStored => 0x05,
            Status::NonNumeric => 0x06,
            Status::AuthFailure => 0x20,
            Status::AuthContinue => 0x21,
            Status::UnknownCommand => 0x81,
            Status::NoMemory => 0x82,
        }
    }

    /// The text in the body.
    pub fn text(self) -> &'static str {
        match self {
            Status::Success | Status::AuthContinue => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::InvalidArguments => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NonNumeric => "Non-numeric server-side value for incr or decr",
            Status::AuthFailure => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::NoMemory => "Out of memory",
        }
    }
}
