//! What is on the tier and what happened there.

use stdx::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use stdx::sync::lock;

use crate::Flash;
use crate::collect::watermarks;
use crate::table::Item;
use crate::unit::Head;
use crate::writer::{BUFFERS, ListedSegment, StagedRow};

/// A number that rises.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters as they are kept.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Signed, because an item may be forgotten just after a flush has set it to 0.
    items: AtomicI64,
    pub(crate) bytes_written: Count,
    bytes_moved: Count,
    units: Count,
    raw_bytes: Count,
    stored_bytes: Count,
    pub(crate) hits: Count,
    pub(crate) misses: Count,
    pub(crate) damaged: Count,
    pub(crate) io_errors: Count,
    pub(crate) collected: Count,
    pub(crate) restaged: Count,
    pub(crate) dropped: Count,
    pub(crate) recovered: Count,
    pub(crate) journalled: Count,
    pub(crate) distrusted: Count,
}

impl Counters {
    pub(crate) fn items_came(&self, count: i64) {
        self.items.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn items_gone(&self, count: i64) {
        self.items.fetch_sub(count, Ordering::Relaxed);
    }

    pub(crate) fn no_items(&self) {
        self.items.store(0, Ordering::Relaxed);
    }

    pub(crate) fn sealed(&self, head: &Head, moved_bytes: u64) {
        self.units.add(1);
        self.raw_bytes.add(head.raw_bytes as u64);
        self.stored_bytes.add(head.unit_bytes() as u64);
        self.bytes_moved.add(moved_bytes);
    }
}

/// Segments that [`Flash::turnover_bytes`] leaves out beside those in buffers and those that
/// collection keeps free: one for what is in the open unit, one for what is moved last.
const TURNOVER_SPARE: usize = 2;

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
    /// Of those, found at the start and not given to the index yet.
    pub segments_found: u64,
    /// Bytes written in segments.
    pub bytes_written: u64,
    /// Of those, stored bytes of items that collection staged again.
    pub bytes_moved: u64,
    /// Units that were sealed.
    pub units: u64,
    /// Bytes of rows in sealed units, before compression.
    pub raw_bytes: u64,
    /// Bytes of sealed units as they are stored.
    pub stored_bytes: u64,
    /// Looks that found their item.
    pub hits: u64,
    /// Looks that found another key, or that nothing is there any more.
    pub misses: u64,
    /// Units and item tables that were damaged.
    pub damaged: u64,
    /// Reads and writes that failed.
    pub io_errors: u64,
    /// Segments that were collected.
    pub collected: u64,
    /// Items that collection staged again.
    pub restaged: u64,
    /// Items that left the index to make room, or because they could not be written.
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
        let counters = &self.counters;
        let (free, written, found) = {
            let writer = lock(&self.writer);
            (writer.free.len(), writer.written.len(), writer.found.len())
        };
        FlashStats {
            items: counters.items.load(Ordering::Relaxed).max(0) as u64,
            segment_bytes: self.geometry.segment_bytes as u64,
            segments: self.geometry.segments.into(),
            segments_free: free as u64,
            segments_written: written as u64,
            segments_found: found as u64,
            bytes_written: counters.bytes_written.get(),
            bytes_moved: counters.bytes_moved.get(),
            units: counters.units.get(),
            raw_bytes: counters.raw_bytes.get(),
            stored_bytes: counters.stored_bytes.get(),
            hits: counters.hits.get(),
            misses: counters.misses.get(),
            damaged: counters.damaged.get(),
            io_errors: counters.io_errors.get(),
            collected: counters.collected.get(),
            restaged: counters.restaged.get(),
            dropped: counters.dropped.get(),
            recovered: counters.recovered.get(),
            journalled: counters.journalled.get(),
            distrusted: counters.distrusted.get(),
        }
    }

    /// Bytes of segments that can be written one after the other, however full the tier is, before
    /// collection, which takes the oldest, comes to the first of them.
    pub fn turnover_bytes(&self) -> u64 {
        let (_, free) = watermarks(self.geometry.segments);
        let spare = free + BUFFERS + TURNOVER_SPARE;
        let segments = (self.geometry.segments as usize).saturating_sub(spare);
        (segments * self.geometry.segment_bytes) as u64
    }

    /// Bytes on the heap: the buffers of segments, that of collection too, the open unit, the
    /// encoder, and what is kept for each segment.
    pub fn memory_bytes(&self) -> usize {
        let segments = std::mem::size_of_val(&*self.segments);
        let writer = lock(&self.writer);
        let buffers = writer.idle.len() + writer.waiting.len() + usize::from(writer.open.is_some());
        let items = writer.open.as_ref().map_or(0, |open| open.items.capacity());
        let lists = writer.free.capacity() * size_of::<u32>()
            + (writer.written.capacity() + writer.found.capacity()) * size_of::<ListedSegment>();
        let unit = writer.unit.raw.capacity()
            + writer.unit.rows.capacity() * size_of::<StagedRow>()
            + writer.stored.capacity()
            + writer.row.capacity();
        segments
            + (buffers + 1) * self.geometry.segment_bytes
            + items * size_of::<Item>()
            + lists
            + unit
            + writer.encoder.memory_bytes()
    }
}
