//! Protocols: bytes to requests, outcomes to bytes. memcached's text and meta commands are
//! [`Request`]s, those of its binary protocol are in [`binary`], and Redis's in [`resp`].
//!
//! The crate knows neither sockets nor the cache. [`parse()`] looks at the bytes of one connection
//! and says what stands at their front; [`reply`] writes answers behind one another into a buffer.
//! The parser does not allocate, and the writers only where the buffer has to grow.
//!
//! The rooms, in reading order: [`request`] (all that can be asked for), [`parse`](mod@parse) and
//! `refusal` (what a line is, or why it is none), [`expiry`], [`base64_key`] and [`reply`]; then
//! the other protocols, each with its own parser and writer: [`binary`] and [`resp`]; and `wire`,
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
