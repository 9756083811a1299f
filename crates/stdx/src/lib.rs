//! What std lacks, and nothing else: one place that decides between std's and loom's atomics
//! (`sync`), a wrapper that keeps a value on cache lines of its own (`pad`), numbers of threads
//! (`thread`), `random` numbers, and the `units` of size.

#![forbid(unsafe_code)]

pub mod pad;
pub mod random;
pub mod sync;
pub mod thread;
pub mod units;

pub use pad::CachePadded;
pub use thread::thread_number;
