//! memcached's text and meta protocols: bytes to [`Request`]s, outcomes to bytes.
//!
//! The crate knows neither sockets nor the cache. [`parse::parse`] looks at the bytes of one
//! connection and says what stands at their front; [`reply`] writes answers behind one another
//! into a buffer. Neither allocates.

pub mod request;

pub use request::Request;
