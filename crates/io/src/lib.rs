//! Every system call that Larder makes, each behind a small safe type: memory mappings and the
//! frames behind them, the heap, the clock, devices, sockets, polling, and calls that concern a
//! thread or the process as a whole. The crates above can be tested with a clock, a device and
//! frames of their own.
//!
//! ```text
//!   memory       map, frames, heap          mappings, frames of pages, the allocator
//!   time         clock, moment              Unix time for items; finer points for deadlines
//!   devices      device, regular, lock      reads and writes; opening by name; one owner
//!   network      net, tls, poll             sockets, TLS over them, readiness
//!   the machine  process, processor, thread limits and users, caches, priorities
//!                supervisor                 systemd's socket
//! ```

pub mod clock;
pub mod device;
pub mod frames;
pub mod heap;
pub mod lock;
pub mod map;
pub mod moment;
#[cfg(feature = "network")]
pub mod net;
#[cfg(feature = "network")]
pub mod poll;
pub mod process;
pub mod processor;
pub mod regular;
pub mod supervisor;
pub mod thread;
#[cfg(feature = "network")]
pub mod tls;

pub use clock::{Clock, ManualClock, SystemClock};
pub use map::Mapping;
