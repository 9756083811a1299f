//! Redis' protocol, RESP2 and RESP3: bytes to commands, answers to bytes.
//!
//! ```text
//! input   *2\r\n$3\r\nGET\r\n$1\r\na\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$5\r\nxy
//!         |------- a command ---------||-inline-||---- not all there: stays ---------
//! ```
//!
//! [`scan()`] finds the end of the next command, and remembers how far it has come, so that the
//! bytes of a command that arrives in many pieces are scanned once. [`Command::words`] iterates
//! over its words in place; only an inline command that has quotes is rewritten
//! ([`Command::unquoted`]). The differences between the versions' answers are in [`mod@reply`].

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
