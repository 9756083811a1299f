//! Devices that keep bytes beyond the process: pages that are read and written where they stand,
//! past the kernel's page cache where that is possible, and *notes*, short pieces that are written
//! often.
//!
//! What a call returns as written is found by whoever opens the device after this process was
//! killed. After a crash of the machine only what was written before the last [`Device::sync`] is
//! sure to be there.
//!
//! `file` is the device of production and `open` how it comes to be, with `open_error` for what can
//! be in the way; `pool` reads from a device in the background. `fake` is a device for tests,
//! which fails as it is told. `range` checks that a call stays within the device.

mod fake;
mod file;
mod open;
mod open_error;
mod page;
mod pool;
mod range;

pub use fake::{Counts, FakeDevice, Faults};
pub use file::FileDevice;
pub use open::Opened;
pub use open_error::OpenError;
pub use page::{PAGE_BYTES, Page, Pages};
pub use pool::{Busy, Done, ReadMethod, ReadPool, ReadRing};

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

/// A file or block device, or a fake of one. Pages are numbered from 0.
pub trait Device: Debug + Send + Sync {
    /// How many pages there are.
    fn pages(&self) -> u64;

    /// Fills `target` with the pages from `page` on. A read that ends early is an error.
    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()>;

    /// Writes pages from `page` on. After an error any part of them may have been written.
    fn write(&self, page: u64, source: &[Page]) -> io::Result<()>;

    /// Fills `target` with the bytes from `at` on, of pages that only notes are written to.
    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()>;

    /// Writes a few bytes from `at` on, into pages that only notes are written to.
    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()>;

    /// What a page is read from at its place, its number times [`PAGE_BYTES`], by whoever knows
    /// how to have the kernel read without waiting for it. Nothing, if only [`Device::read`] can.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Waits until all that was written would survive a crash of the machine.
    fn sync(&self) -> io::Result<()>;
}
