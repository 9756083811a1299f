//! Protocols: bytes to requests, outcomes to bytes. memcached's text and meta commands are
//! [`Request`]s, those of its binary protocol are in [`binary`], and Redis' in [`resp`].
//!
//! The crate knows neither sockets nor the cache. [`parse()`] parses the request at the front of a
//! connection's bytes; [`reply`] writes answers behind one another into a buffer. The parser does
//! not allocate, and the writers only where the buffer has to grow.
//!
//! The modules, in reading order: [`request`] (all requests), [`parse`](mod@parse) and `refusal`
//! (the request of a line, or the error in it), [`expiry`], [`base64_key`] and [`reply`]; then the
//! other protocols, each with its own parser and writer: [`binary`] and [`resp`]; and `wire`,
//! which tells them apart by the first byte.

#![forbid(unsafe_code)]

pub mod base64_key;
pub mod binary;
pub mod expiry;
pub mod parse;
mod refusal;
pub mod reply;
pub mod request;
pub mod resp;
mod wire;

pub use expiry::Expiry;
pub use parse::{Dialect, Parsed, parse, parse_as};
pub use refusal::Refusal;
pub use request::Request;
pub use wire::Wire;
