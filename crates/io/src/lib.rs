//! Every system call that Larder makes, each behind a small safe type: memory mappings and the
//! frames behind them, the heap, the clock, devices, sockets, polling and what concerns a thread or
//! the process as a whole. What stands above can be tested with a clock, a device and frames of its
//! own.

pub mod clock;
pub mod device;
pub mod frames;
pub mod heap;
pub mod lock;
pub mod map;
pub mod moment;
pub mod net;
pub mod poll;
pub mod process;
pub mod processor;
pub mod regular;
pub mod supervisor;
pub mod thread;
pub mod tls;

pub use clock::{Clock, ManualClock, SystemClock};
pub use map::Mapping;
