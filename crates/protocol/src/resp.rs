//! Redis' protocol, RESP2 and RESP3: bytes to commands, answers to bytes.
//!
//! ```text
//! input   *2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$5\r\nxy
//!         |------- a command ---------||-inline-||---- not all there: stays ---------
//! ```
//!
//! [`scan()`] says where the next command ends, and remembers how far it has come, so that a
//! command that arrives in many pieces is looked at once. [`Command::words`] goes over its words
//! where they lie; only an inline command that has quotes is written anew ([`Command::unquoted`]).
//! How answers differ between the versions is the matter of [`mod@reply`].

pub mod decimal;
pub mod glob;
mod inline;
pub mod number;
pub mod reply;
mod scan;
mod words;

pub use reply::Version;
pub use scan::{BULK_BYTES_MAX, Refusal, Scan, Scanned, scan, scan_of_stranger};
pub use words::{Command, Rest, Words};
