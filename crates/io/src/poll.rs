//! Waiting for sockets: the kernel's readiness queue, edge-triggered, and a way to wake whoever
//! waits on it. This is mio, named here so that the crates above depend on one place.

pub use mio::unix::SourceFd;
pub use mio::{Events, Interest, Poll, Token, Waker};
