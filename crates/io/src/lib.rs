//! Every system call that Larder makes, each behind a small safe type: memory mappings, the clock,
//! and (with the server) polling and sockets. What stands above can be tested with a clock of its
//! own.

pub mod clock;
pub mod map;

pub use clock::{Clock, ManualClock, SystemClock};
pub use map::Mapping;
