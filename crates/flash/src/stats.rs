//! What is on the tier and what happened there.

use crate::Flash;

/// The tier at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashStats {
    /// Items that can be found, as well as is known.
    pub items: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments of the device.
    pub segments: u64,
    /// Of those, with nothing in them.
    pub segments_free: u64,
    /// Of those, written and in use.
    pub segments_written: u64,
    /// Bytes written in segments.
    pub bytes_written: u64,
    /// Of those, bytes of items that collection stored again.
    pub bytes_moved: u64,
    /// Units that were sealed.
    pub units: u64,
    /// Bytes of rows in sealed units, before compression.
    pub raw_bytes: u64,
    /// Bytes of sealed units as they are stored.
    pub stored_bytes: u64,
    /// Looks that found their item.
    pub hits: u64,
    /// Looks that found another key, or nothing.
    pub misses: u64,
    /// Looks that found damage.
    pub damaged: u64,
    /// Reads and writes that failed.
    pub io_errors: u64,
    /// Segments that were collected.
    pub collected: u64,
    /// Items that collection stored again.
    pub restaged: u64,
    /// Items that collection took out of the index.
    pub dropped: u64,
    /// Items that were found at the start.
    pub recovered: u64,
    /// Entries of journals.
    pub journalled: u64,
    /// Segments whose journal ran over.
    pub distrusted: u64,
}

impl Flash {
    /// What is on the tier and what happened there.
    pub fn stats(&self) -> FlashStats {
        todo!()
    }

    /// Bytes on the heap: buffers, and what is kept for each segment.
    pub fn memory_bytes(&self) -> usize {
        todo!()
    }
}
