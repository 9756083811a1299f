//! Statistics of the tier.

use codec::Samples;
use stdx::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use stdx::sync::lock;

use crate::area::Area;
use crate::list::ListedSegment;
use crate::stage::FAILURES_MAX;
use crate::table::Item;
use crate::unit::Head;
use crate::usage::MARGINS;
use crate::writer::{BUFFERS, StagedRow, Stream, Writer};
use crate::{Costs, Flash};

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

/// The counters themselves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Signed, because an item may be forgotten after a flush has set it to 0. It is set to 0 once
    /// more when the index is empty.
    items: AtomicI64,
    pub(crate) bytes_written: Count,
    bytes_moved: Count,
    bytes_staged: Count,
    bytes_skipped: Count,
    units: Count,
    pub(crate) areas: [AreaCounters; 2],
    /// Hits at the margins of the areas.
    pub(crate) margins: [Count; MARGINS],
    pub(crate) misses: Count,
    pub(crate) damaged: Count,
    pub(crate) io_errors: Count,
    pub(crate) trained: Count,
    pub(crate) opened: Count,
    pub(crate) collected: Count,
    pub(crate) evicted: Count,
    pub(crate) restaged: Count,
    pub(crate) promoted: Count,
    pub(crate) dropped: Count,
    pub(crate) recovered: Count,
    pub(crate) passed_by: Count,
    pub(crate) forgone: Count,
    pub(crate) journalled: Count,
    pub(crate) distrusted: Count,
}

/// Counters of one area.
#[derive(Debug, Default)]
pub(crate) struct AreaCounters {
    raw_bytes: Count,
    stored_bytes: Count,
    pub(crate) hits: Count,
    /// Items that came from the other area.
    pub(crate) moved_in: Count,
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

    /// Counts a sealed unit, of whose rows `moved_bytes` were moved.
    pub(crate) fn sealed(&self, area: Area, head: &Head, moved_bytes: u64, skipped_bytes: u64) {
        let (raw_bytes, unit_bytes) = (head.raw_bytes as u64, head.unit_bytes() as u64);
        let area = &self.areas[area.index()];
        self.units.add(1);
        area.raw_bytes.add(raw_bytes);
        area.stored_bytes.add(unit_bytes);
        self.bytes_staged.add(raw_bytes - moved_bytes);
        self.bytes_moved.add(moved_bytes * unit_bytes / raw_bytes);
        self.bytes_skipped.add(skipped_bytes);
    }

    pub(crate) fn hits(&self) -> u64 {
        self.areas.iter().map(|area| area.hits.get()).sum()
    }
}

/// One area at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AreaStats {
    /// Segments, those in buffers too.
    pub segments: u64,
    /// Looks that found their item here.
    pub hits: u64,
    /// Bytes of rows in sealed units, before compression.
    pub raw_bytes: u64,
    /// Bytes of sealed units as they are stored.
    pub stored_bytes: u64,
    /// Items that came from the other area.
    pub moved_in: u64,
}

/// Segments that [`Flash::turnover_bytes`] leaves out in addition to those in buffers and those
/// that collection keeps free: one for the open unit, one for the rows moved last.
const TURNOVER_SPARE: usize = 2;

/// The tier at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashStats {
    /// Items that can be found, as far as is known.
    pub items: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Segments of the device.
    pub segments: u64,
    /// Of `segments`, free ones that can be written.
    pub segments_free: u64,
    /// Of `segments`, empty ones that the device has refused; they are tried again now and then.
    pub segments_refused: u64,
    /// Of `segments`, written ones in use.
    pub segments_written: u64,
    /// Of `segments`, found at the start and not given to the index yet.
    pub segments_found: u64,
    /// Bytes written in segments.
    pub bytes_written: u64,
    /// Of `bytes_written`, stored bytes of items that collection or promotion staged again.
    pub bytes_moved: u64,
    /// Bytes of rows that were staged by the caller, when their units were sealed.
    pub bytes_staged: u64,
    /// Bytes between units, skipped so that a unit begins at a page or a granule.
    pub bytes_skipped: u64,
    /// Units that were sealed.
    pub units: u64,
    /// Bytes of rows in sealed units, before compression.
    pub raw_bytes: u64,
    /// Bytes of sealed units as they are stored.
    pub stored_bytes: u64,
    /// Looks that found their item.
    pub hits: u64,
    /// Looks that found another key, or no item any more.
    pub misses: u64,
    /// Units, item tables, journals, entries of the segment table, dictionaries, and parts of the
    /// changes that were damaged.
    pub damaged: u64,
    /// Reads and writes that failed.
    pub io_errors: u64,
    /// Dictionaries that are in use.
    pub dictionaries: u64,
    /// Dictionaries that were trained and are, or were, in use.
    pub trained: u64,
    /// Segments that were opened for filling.
    pub opened: u64,
    /// Segments that were collected.
    pub collected: u64,
    /// Of `collected`, evicted because hardly any segment was free: nothing was staged again.
    pub evicted: u64,
    /// Items that collection staged again.
    pub restaged: u64,
    /// Items that [`Flash::promote`] staged again.
    pub promoted: u64,
    /// The cold area, whose units are compressed.
    pub cold: AreaStats,
    /// The hot area, whose rows are stored as they are.
    pub hot: AreaStats,
    /// Segments that the hot area is to have.
    pub hot_segments_target: u64,
    /// The costs of reads and misses by which the areas are divided.
    pub costs: Costs,
    /// Items that left the index to make room, or because they could not be written.
    pub dropped: u64,
    /// Items that were found at the start.
    pub recovered: u64,
    /// Items that were found at the start and not given to the index: their keys have changed
    /// since, or may have, or there was no word for them.
    pub passed_by: u64,
    /// Segments that were found at the start and left without a look at their items: there was no
    /// room for them, in the index or on the device.
    pub forgone: u64,
    /// Entries of journals.
    pub journalled: u64,
    /// Segments that the next start does not believe, or this one did not: their journals
    /// overflowed, or took no note.
    pub distrusted: u64,
    /// Whether the device does not know of all that died ([`Flash::is_unsound`]).
    pub unsound: bool,
    /// Whether nothing new is taken, because the device refuses it.
    pub is_failing: bool,
}

impl FlashStats {
    /// Segments in use: neither free, nor empty and refused by the device.
    pub fn segments_used(&self) -> u64 {
        self.segments.saturating_sub(self.segments_free + self.segments_refused)
    }
}

impl Flash {
    /// Statistics of the tier.
    pub fn stats(&self) -> FlashStats {
        let counters = &self.counters;
        let writer = lock(&self.writer);
        let refused = writer.segments_aside();
        let (free, found) = (writer.free_segments(), writer.found.len());
        let written: usize = writer.streams.iter().map(|stream| stream.written.len()).sum();
        let segments = Area::ALL.map(|area| writer.segments(area));
        let hot_segments_target = writer.hot_target.segments().into();
        let costs = writer.costs;
        let is_failing = self.is_unsound() || writer.failures >= FAILURES_MAX;
        drop(writer);
        let [cold, hot] = Area::ALL.map(|area| {
            let counters = &counters.areas[area.index()];
            AreaStats {
                segments: segments[area.index()] as u64,
                hits: counters.hits.get(),
                raw_bytes: counters.raw_bytes.get(),
                stored_bytes: counters.stored_bytes.get(),
                moved_in: counters.moved_in.get(),
            }
        });
        FlashStats {
            items: counters.items.load(Ordering::Relaxed).max(0) as u64,
            segment_bytes: self.geometry.segment_bytes as u64,
            segments: self.geometry.segments.into(),
            segments_free: free as u64,
            segments_refused: refused as u64,
            segments_written: written as u64,
            segments_found: found as u64,
            bytes_written: counters.bytes_written.get(),
            bytes_moved: counters.bytes_moved.get(),
            bytes_staged: counters.bytes_staged.get(),
            bytes_skipped: counters.bytes_skipped.get(),
            units: counters.units.get(),
            raw_bytes: cold.raw_bytes + hot.raw_bytes,
            stored_bytes: cold.stored_bytes + hot.stored_bytes,
            hits: cold.hits + hot.hits,
            misses: counters.misses.get(),
            damaged: counters.damaged.get(),
            io_errors: counters.io_errors.get(),
            dictionaries: self.dictionaries.count() as u64,
            trained: counters.trained.get(),
            opened: counters.opened.get(),
            collected: counters.collected.get(),
            evicted: counters.evicted.get(),
            restaged: counters.restaged.get(),
            promoted: counters.promoted.get(),
            cold,
            hot,
            hot_segments_target,
            costs,
            dropped: counters.dropped.get(),
            recovered: counters.recovered.get(),
            passed_by: counters.passed_by.get(),
            forgone: counters.forgone.get(),
            journalled: counters.journalled.get(),
            distrusted: counters.distrusted.get(),
            unsound: self.is_unsound(),
            is_failing,
        }
    }

    /// Bytes of segments that can be written one after the other, however full the tier is, before
    /// collection, which takes the oldest, comes to the first of them.
    pub fn turnover_bytes(&self) -> u64 {
        let spare = self.watermarks.high + BUFFERS + TURNOVER_SPARE;
        let segments = (self.geometry.segments as usize).saturating_sub(spare);
        (segments * self.geometry.segment_bytes) as u64
    }

    /// The most that [`Flash::memory_bytes`] grows to: with all dictionaries and samples. While a
    /// dictionary is trained there are two that encode, and the memory of training. It leaves out
    /// the growth of lists as a new device fills: of segments, some 50 bytes each, and of the rows
    /// of the open ones, 16 bytes each.
    pub fn memory_bytes_max(&self) -> usize {
        let bytes = self.dictionary_bytes_max();
        let now = self.dictionaries.memory_bytes();
        let dictionaries = match bytes {
            0 => now,
            _ => self.dictionaries.memory_bytes_max(bytes).max(now),
        };
        self.memory_bytes() - now + dictionaries + Samples::bytes_max(bytes)
    }

    /// Bytes on the heap: the buffers of segments, including that of collection, the open units,
    /// the encoder, the state of each segment, and the changes as long as they are kept.
    pub fn memory_bytes(&self) -> usize {
        let segments =
            std::mem::size_of_val(&*self.segments) + std::mem::size_of_val(&*self.bits_locks);
        let writer = lock(&self.writer);
        let Writer { streams, waiting, idle, free, prepared, found, encoder, .. } = &*writer;
        let Writer { bad, suspects, stored, row, .. } = &*writer;
        let lists = [free, prepared, bad, suspects].map(|list| list.capacity());
        let trained = writer.trained.as_ref().map_or(0, |it| it.dictionary.memory_bytes());
        let samples = writer.sampling.memory_bytes();
        let dictionaries = self.dictionaries.memory_bytes() + trained + samples;
        let (mut buffers, mut streams_bytes) = (idle.len() + waiting.len(), 0);
        for Stream { unit, open, written, chosen, .. } in streams {
            buffers += usize::from(open.is_some());
            let items = open.as_ref().map_or(0, |open| open.items.capacity());
            streams_bytes += items * size_of::<Item>()
                + written.memory_bytes()
                + chosen.capacity() * size_of::<u64>()
                + unit.raw.capacity()
                + unit.rows.capacity() * size_of::<StagedRow>();
        }
        segments
            + (buffers + 1) * self.geometry.segment_bytes
            + streams_bytes
            + lists.iter().sum::<usize>() * size_of::<u32>()
            + found.capacity() * size_of::<ListedSegment>()
            + stored.capacity()
            + row.capacity()
            + encoder.memory_bytes()
            + dictionaries
            + self.changes_memory_bytes()
    }
}
