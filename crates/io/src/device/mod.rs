//! Devices that keep bytes beyond the process: pages that are read and written in place, past the
//! kernel's page cache where that is possible, and *notes*, short pieces that are written often.
//!
//! Bytes whose write has returned are found by the next process that opens the device after this
//! one was killed. After a crash of the machine only bytes written before the last [`Device::sync`]
//! are sure to be there.
//!
//! `file` is the device of production, `open` the way to open it, and `open_error` the causes that
//! prevent it; `pool` reads from a device in the background, and `watched` knows for how long a
//! device has not answered. `fake` is a device for tests, which fails as it is told. `range` checks
//! that a call stays within the device.

mod fake;
mod file;
mod open;
mod open_error;
mod page;
mod pool;
mod range;
mod watched;

pub use fake::{Counts, FakeDevice, Faults};
pub use file::FileDevice;
pub use open::Opened;
pub use open_error::OpenError;
pub use page::{PAGE_BYTES, Page, Pages};
pub use pool::{Busy, Done, ReadMethod, ReadPool, ReadRing};
pub use watched::{Unanswered, WatchedDevice};

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A file or block device, or a fake of one. Pages are numbered from 0.
pub trait Device: Debug + Send + Sync {
    /// The number of pages.
    fn pages(&self) -> u64;

    /// Fills `target` with the pages from `page` on. A read that ends early is an error.
    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()>;

    /// Writes pages from `page` on. After an error any part of them may have been written.
    fn write(&self, page: u64, source: &[Page]) -> io::Result<()>;

    /// Fills `target` with the bytes from `at` on, of pages that hold notes only.
    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()>;

    /// Writes a few bytes from `at` on, into pages that hold notes only.
    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()>;

    /// The descriptor from which a page can be read at its number times [`PAGE_BYTES`], for callers
    /// that can have the kernel read without waiting for it. `None` if only [`Device::read`] can.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Where callers that read by the descriptor note what they have under way, if it is watched.
    fn unanswered(&self) -> Option<&Arc<Unanswered>> {
        None
    }

    /// Waits until all that was written would survive a crash of the machine.
    fn sync(&self) -> io::Result<()>;
}
