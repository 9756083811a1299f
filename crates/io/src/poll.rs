//! Waiting for sockets: the kernel's readiness queue, edge-triggered, and a way to wake the thread
//! that waits on it. This is mio, named here so that the crates above depend on one place.

use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use mio::unix::SourceFd;
pub use mio::{Events, Interest, Poll, Token, Waker};

/// Whether a descriptor takes bytes without waiting, or will within `patience`; or is broken, which
/// a write then reports.
pub fn is_writable(descriptor: BorrowedFd<'_>, patience: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec::try_from(patience).ok();
    let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)];
    // A descriptor that cannot be polled is tried.
    poll(&mut watched, timeout.as_ref()) != Ok(0)
}
