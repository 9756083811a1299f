//! The few things that std lacks: one place that decides between std's and loom's atomics
//! ([`sync`]), a wrapper that keeps a value on cache lines of its own ([`pad`]), hints to fetch
//! memory ([`prefetch`]), numbers of threads ([`thread`]), random numbers ([`random`]), and the
//! units of size ([`units`]).

#![deny(unsafe_code)]

pub mod pad;
pub mod prefetch;
pub mod random;
pub mod sync;
pub mod thread;
pub mod units;

pub use pad::CachePadded;
pub use thread::thread_number;
