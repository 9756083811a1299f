//! A device in memory that fails as it is told, to test the layers above.
//!
//! Faults are drawn from a seed: the same calls in the same order, with the same seed and the same
//! faults, fail in the same way. Each fault is one that devices have:
//!
//! - a read fails, ends early, or returns a bit that was not written;
//! - a write fails, finds no room, or is torn: some of its pages are written and others not;
//! - the process is killed within a write. Then every later call fails, and [`reopened`] shows the
//!   state that the next process would find.
//!
//! A page is written whole or not at all; a note may be cut after any byte. Bytes whose write has
//! returned are kept, as a killed process leaves them: the loss of unsynced bytes in a crash of the
//! machine is not simulated.
//!
//! [`reopened`]: FakeDevice::reopened

use std::io;
use std::sync::{Mutex, MutexGuard};

use stdx::random::Xorshift;

use super::{Device, PAGE_BYTES, Page, range};

#[cfg(test)]
mod tests;

/// The probability of each fault, from 0 to 1, in each call that can have it, for notes as for
/// pages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// A read fails and fills in nothing.
    pub read_error: f64,
    /// A read fills in the beginning and says that it ended early.
    pub short_read: f64,
    /// A read succeeds with one wrong bit. The device still holds the right one.
    pub bit_flip: f64,
    /// A write fails and writes nothing.
    pub write_error: f64,
    /// A write fails after a random set of its pages, or the beginning of a note, was written.
    pub torn_write: f64,
    /// A write finds no room and writes nothing.
    pub full: f64,
}

/// The number of calls, including those that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of pages.
    pub reads: u64,
    /// Pages that these reads asked for.
    pub pages_read: u64,
    /// Writes of pages.
    pub writes: u64,
    /// Pages that these writes brought.
    pub pages_written: u64,
    /// Reads of notes.
    pub note_reads: u64,
    /// Writes of notes.
    pub note_writes: u64,
    /// Calls of sync.
    pub syncs: u64,
}

/// A device in memory.
#[derive(Debug)]
pub struct FakeDevice {
    pages: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    content: Vec<u8>,
    random: Xorshift,
    faults: Faults,
    counts: Counts,
    /// The number of the write that kills the process, counted from the next one, which is 1.
    kill_at: Option<u64>,
    is_killed: bool,
}

/// The outcome of a write.
enum Fate {
    Done,
    Refused(io::Error),
    Torn(io::Error),
}

impl FakeDevice {
    /// Makes a device of `pages` pages of zeros.
    pub fn new(pages: u64, seed: u64, faults: Faults) -> Self {
        let pages_here = usize::try_from(pages).expect("a test's device fits in memory");
        Self::with(vec![0; pages_here * PAGE_BYTES], seed, faults)
    }

    fn with(content: Vec<u8>, seed: u64, faults: Faults) -> Self {
        let pages = (content.len() / PAGE_BYTES) as u64;
        let state = State {
            content,
            random: Xorshift::seeded(seed),
            faults,
            counts: Counts::default(),
            kill_at: None,
            is_killed: false,
        };
        Self { pages, state: Mutex::new(state) }
    }

    /// The device as another process would find it now. This one does not change.
    pub fn reopened(&self, seed: u64, faults: Faults) -> Self {
        Self::with(self.state().content.clone(), seed, faults)
    }

    /// Sets the faults of later calls.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Kills the process within the write of this number, of pages or of a note; the next is 1.
    pub fn kill_at(&self, operation: u64) {
        assert!(operation > 0, "what has been written is written");
        self.state().kill_at = Some(operation);
    }

    /// Whether the process was killed.
    pub fn is_killed(&self) -> bool {
        self.state().is_killed
    }

    /// Flips the bits of `mask` in a byte that the device holds.
    pub fn flip(&self, page: u64, byte: usize, mask: u8) {
        assert!(page < self.pages && byte < PAGE_BYTES);
        self.state().content[page as usize * PAGE_BYTES + byte] ^= mask;
    }

    /// The number of calls so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the content")
    }
}

impl Device for FakeDevice {
    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: u64, target: &mut [Page]) -> io::Result<()> {
        let at = range::of_pages(self.pages, page, target.len())?;
        let mut state = self.state();
        state.counts.reads += 1;
        state.counts.pages_read += target.len() as u64;
        state.read(at as usize, bytemuck::cast_slice_mut(target))
    }

    fn write(&self, page: u64, source: &[Page]) -> io::Result<()> {
        let at = range::of_pages(self.pages, page, source.len())?;
        let mut state = self.state();
        state.counts.writes += 1;
        state.counts.pages_written += source.len() as u64;
        state.write_pages(at as usize, source)
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        range::of_note(self.pages, at, target.len())?;
        let mut state = self.state();
        state.counts.note_reads += 1;
        state.read(at as usize, target)
    }

    fn write_note(&self, at: u64, source: &[u8]) -> io::Result<()> {
        range::of_note(self.pages, at, source.len())?;
        let mut state = self.state();
        state.counts.note_writes += 1;
        state.write_bytes(at as usize, source)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.counts.syncs += 1;
        state.check_alive()
    }
}

impl State {
    fn check_alive(&self) -> io::Result<()> {
        if self.is_killed { Err(killed()) } else { Ok(()) }
    }

    /// A random number below `count`; 0 if `count` is 0.
    fn below(&mut self, count: usize) -> usize {
        (self.random.draw() % count.max(1) as u64) as usize
    }

    fn read(&mut self, at: usize, target: &mut [u8]) -> io::Result<()> {
        self.check_alive()?;
        let Faults { read_error, short_read, bit_flip, .. } = self.faults;
        if self.random.chance(read_error) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if self.random.chance(short_read) {
            let filled = self.below(target.len());
            target[..filled].copy_from_slice(&self.content[at..at + filled]);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        target.copy_from_slice(&self.content[at..at + target.len()]);
        if self.random.chance(bit_flip) && !target.is_empty() {
            let (byte, bit) = (self.below(target.len()), self.below(8));
            target[byte] ^= 1 << bit;
        }
        Ok(())
    }

    fn write_pages(&mut self, at: usize, source: &[Page]) -> io::Result<()> {
        let torn = match self.fate() {
            Fate::Refused(error) => return Err(error),
            Fate::Torn(error) => Err(error),
            Fate::Done => Ok(()),
        };
        for (index, page) in source.iter().enumerate() {
            if torn.is_ok() || self.random.chance(0.5) {
                let start = at + index * PAGE_BYTES;
                self.content[start..start + PAGE_BYTES].copy_from_slice(&page.0);
            }
        }
        torn
    }

    fn write_bytes(&mut self, at: usize, source: &[u8]) -> io::Result<()> {
        let (written, result) = match self.fate() {
            Fate::Refused(error) => (0, Err(error)),
            Fate::Torn(error) => (self.below(source.len() + 1), Err(error)),
            Fate::Done => (source.len(), Ok(())),
        };
        self.content[at..at + written].copy_from_slice(&source[..written]);
        result
    }

    fn fate(&mut self) -> Fate {
        if self.is_killed {
            return Fate::Refused(killed());
        }
        if let Some(left) = &mut self.kill_at {
            *left -= 1;
            if *left == 0 {
                self.is_killed = true;
                return Fate::Torn(killed());
            }
        }
        let Faults { write_error, torn_write, full, .. } = self.faults;
        if self.random.chance(full) {
            Fate::Refused(io::Error::from_raw_os_error(libc::ENOSPC))
        } else if self.random.chance(write_error) {
            Fate::Refused(io::Error::from_raw_os_error(libc::EIO))
        } else if self.random.chance(torn_write) {
            Fate::Torn(io::Error::from_raw_os_error(libc::EIO))
        } else {
            Fate::Done
        }
    }
}

fn killed() -> io::Error {
    io::Error::other("the process was killed")
}
