//! The frames of physical memory that hold this process's pages, as far as the kernel tells.
//!
//! ```text
//!   /proc/self/pagemap   eight bytes for each page of the address space
//!     bit 63     the page is present
//!     bits 0-54  the number of its frame; 0 for a process without CAP_SYS_ADMIN
//! ```
//!
//! The kernel may move a page to another frame at any time, so a frame number is a hint. In a
//! virtual machine the frames are those that the machine sees, and its host decides what is behind
//! them.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::OnceLock;

const PAGEMAP: &str = "/proc/self/pagemap";
/// The only size of small pages that this module knows.
pub const PAGE_BYTES: usize = 4096;
const ENTRY_BYTES: usize = 8;
/// Entries read in one call: those of a huge page.
const ENTRIES: usize = 512;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// The frame of a page, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Its number.
    Known(u64),
    /// There is one, but this process may not know its number.
    Refused,
    /// None: the page was never touched, was given back, or is in swap.
    Absent,
}

/// A source of frames.
pub trait FrameSource: fmt::Debug + Send + Sync {
    /// Whether it tells any.
    fn is_open(&self) -> bool;

    /// The frames of the pages from an address on, as many as there is room for.
    fn read(&self, start: NonNull<u8>, frames: &mut [Frame]);
}

/// The kernel. It is not asked before frames are needed: a process that is to fork or to become
/// another user does so first.
#[derive(Debug, Default)]
pub struct Pagemap {
    /// `None` where frames are refused.
    file: OnceLock<Option<File>>,
}

impl Pagemap {
    fn file(&self) -> Option<&File> {
        self.file.get_or_init(open).as_ref()
    }
}

impl FrameSource for Pagemap {
    fn is_open(&self) -> bool {
        self.file().is_some()
    }

    fn read(&self, start: NonNull<u8>, frames: &mut [Frame]) {
        match self.file() {
            Some(file) => read(file, start.as_ptr() as usize, frames),
            None => frames.fill(Frame::Refused),
        }
    }
}

/// The pagemap, if it tells the frame of a page that is there.
fn open() -> Option<File> {
    // SAFETY: sysconf only reads.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if usize::try_from(page_bytes) != Ok(PAGE_BYTES) {
        return None;
    }
    let file = File::open(PAGEMAP).ok()?;
    let page = Box::new(1_u8);
    let mut frame = [Frame::Refused];
    read(&file, std::ptr::from_ref::<u8>(&page) as usize, &mut frame);
    matches!(frame[0], Frame::Known(_)).then_some(file)
}

/// Reads the entries of pages from an address on. An entry that cannot be read counts as refused.
fn read(file: &File, address: usize, frames: &mut [Frame]) {
    let mut at = (address / PAGE_BYTES * ENTRY_BYTES) as u64;
    for frames in frames.chunks_mut(ENTRIES) {
        let mut entries = [0; ENTRIES * ENTRY_BYTES];
        let entries = &mut entries[..frames.len() * ENTRY_BYTES];
        if file.read_exact_at(entries, at).is_err() {
            frames.fill(Frame::Refused);
            continue;
        }
        at += entries.len() as u64;
        for (frame, entry) in frames.iter_mut().zip(entries.as_chunks().0) {
            *frame = Frame::of_entry(u64::from_ne_bytes(*entry));
        }
    }
}

impl Frame {
    fn of_entry(entry: u64) -> Self {
        match (entry & PRESENT != 0, entry & FRAME) {
            (false, _) => Self::Absent,
            (true, 0) => Self::Refused,
            (true, frame) => Self::Known(frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mapping;
    use crate::map::HUGE_PAGE_BYTES;

    #[test]
    fn an_entry_is_known_refused_or_absent() {
        for (entry, frame) in [
            (0, Frame::Absent),
            // In swap: the lower bits are no frame.
            (1 << 62 | 5, Frame::Absent),
            (PRESENT, Frame::Refused),
            (PRESENT | 1 << 56 | 1 << 55, Frame::Refused),
            (PRESENT | 1 << 55 | 7, Frame::Known(7)),
            (u64::MAX, Frame::Known(FRAME)),
        ] {
            assert_eq!(Frame::of_entry(entry), frame, "{entry:x}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no pagemap")]
    fn pages_that_are_touched_have_frames_of_their_own_or_all_are_refused() {
        let mapping = Mapping::reserve(2 * HUGE_PAGE_BYTES).expect("a little room");
        let pagemap = Pagemap::default();
        let mut frames = vec![Frame::Refused; 2 * HUGE_PAGE_BYTES / PAGE_BYTES];
        assert!(mapping.populate(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES / 2), "Linux 5.14 is needed");
        pagemap.read(mapping.start(), &mut frames);
        let (before, touched) = frames.split_at(ENTRIES);
        let (touched, behind) = touched.split_at(ENTRIES / 2);
        if !pagemap.is_open() {
            assert!(frames.iter().all(|&frame| frame == Frame::Refused), "{frames:?}");
            return;
        }
        assert!(before.iter().all(|&frame| frame == Frame::Absent), "{before:?}");
        // A system that gives huge pages unasked may have touched all of the second one.
        assert!(behind.iter().all(|&frame| frame != Frame::Refused), "{behind:?}");
        let known = |&frame: &Frame| match frame {
            Frame::Known(frame) => frame,
            Frame::Refused | Frame::Absent => panic!("{frame:?} of a page that was touched"),
        };
        let mut known: Vec<u64> = touched.iter().map(known).collect();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), touched.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no pagemap")]
    fn an_entry_that_cannot_be_read_is_refused() {
        let nothing = File::open("/dev/null").expect("there is one everywhere");
        let mut frames = [Frame::Absent; 3];
        read(&nothing, 1 << 20, &mut frames);
        assert_eq!(frames, [Frame::Refused; 3]);
    }
}
