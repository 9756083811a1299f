//! The writer's state: for each area a stream of rows into an open unit and of units into an open
//! segment, the segments that wait to be written, and the lists of all others. One lock guards it.
//!
//! ```text
//!   cold row -> open unit --seal--> open segment --+            buffer
//!                                                  +--freeze--> waiting --write--> written
//!   hot row --> open unit --seal--> open segment --+                               of its area
//!               raw rows            buffer
//!
//!   free --open--> open, waiting, written --collect--> free
//! ```
//!
//! There are [`BUFFERS`] buffers. While none is idle, no rows are taken.

use std::collections::VecDeque;
use std::sync::Arc;

use ::io::device::{PAGE_BYTES, Pages};
use codec::Encoder;
use codec::entropy::Threshold;

use crate::Costs;
use crate::area::Area;
use crate::dictionaries::Known;
use crate::fill::Fill;
use crate::geometry::{ADDRESS_BITS_MIN, Geometry};
use crate::list::{ListedSegment, SegmentList};
use crate::partition::HotTarget;
use crate::sampling::Sampling;
use crate::table::{self, Entry, Item};
use crate::train::Trained;
use crate::unit::{self, Compression, Head};

/// Buffers of one segment each: one of each area is filled while a third is written.
pub(crate) const BUFFERS: usize = 3;

/// The state that the writer's lock guards.
pub(crate) struct Writer {
    /// The streams of the cold and of the hot area.
    pub(crate) streams: [Stream; 2],
    /// Segments waiting to be written; those of one area in the order of their sequences.
    pub(crate) waiting: VecDeque<FullSegment>,
    pub(crate) idle: Vec<Pages>,
    pub(crate) free: VecDeque<u32>,
    /// Free segments that are ready for another use, for callers that cannot wait.
    pub(crate) prepared: VecDeque<u32>,
    /// Empty segments that the device has refused while it took others ([`mod@crate::heal`]).
    pub(crate) bad: VecDeque<u32>,
    /// Empty segments of which it is not known whether they are bad.
    pub(crate) suspects: VecDeque<u32>,
    /// Segments found at the start and not yet given to the index, in the order of their sequences.
    pub(crate) found: VecDeque<ListedSegment>,
    /// Flushes of everything so far.
    pub(crate) flushes: u64,
    /// Flushes of a prefix so far.
    pub(crate) prefix_flushes: u64,
    /// Consecutive writes that failed.
    pub(crate) failures: u32,
    pub(crate) is_closed: bool,
    pub(crate) hot_target: HotTarget,
    pub(crate) costs: Costs,
    pub(crate) compression: Compression,
    /// Decides which rows are not worth compressing.
    pub(crate) threshold: Threshold,
    pub(crate) encoder: Encoder,
    pub(crate) sampling: Sampling,
    /// A dictionary better than the current one, until it is on the device.
    pub(crate) trained: Option<Trained>,
    /// The dictionary for new segments of the cold area.
    pub(crate) dictionary: Option<Arc<Known>>,
    /// Bytes of a unit on its way into the open segment.
    pub(crate) stored: Vec<u8>,
    /// A row on its way into the open unit.
    pub(crate) row: Vec<u8>,
}

impl Writer {
    pub(crate) fn stream(&mut self, area: Area) -> &mut Stream {
        &mut self.streams[area.index()]
    }

    /// Free segments, without those that the device has refused.
    pub(crate) fn free_segments(&self) -> usize {
        self.free.len() + self.prepared.len()
    }

    /// Empty segments that the device has refused, or that were set aside beside one.
    pub(crate) fn segments_aside(&self) -> usize {
        self.bad.len() + self.suspects.len()
    }

    /// Sets a segment aside that the device has refused. Nothing may lead to it any more.
    pub(crate) fn set_aside(&mut self, segment: u32) {
        let has_worked = self.failures == 0;
        let list = if has_worked { &mut self.bad } else { &mut self.suspects };
        list.push_back(segment);
        self.failures += 1;
    }

    /// The open segment with a sequence.
    pub(crate) fn open_with(&self, sequence: u64) -> Option<&OpenSegment> {
        let mut open = self.streams.iter().filter_map(|stream| stream.open.as_ref());
        open.find(|open| open.sequence == sequence)
    }

    /// Segments of an area, those in buffers too.
    pub(crate) fn segments(&self, area: Area) -> usize {
        let stream = &self.streams[area.index()];
        let waiting = self.waiting.iter().filter(|full| full.entry.area == area).count();
        stream.written.len() + waiting + usize::from(stream.open.is_some())
    }
}

/// The parts of the state that each area has.
#[derive(Debug)]
pub(crate) struct Stream {
    area: Area,
    pub(crate) unit: OpenUnit,
    pub(crate) fill: Fill,
    pub(crate) open: Option<OpenSegment>,
    pub(crate) written: SegmentList,
    /// Sequences of segments that a step takes in, oldest first. Some may have been collected.
    pub(crate) chosen: VecDeque<u64>,
}

impl Stream {
    pub(crate) fn new(area: Area, fill: Fill) -> Self {
        let (written, chosen) = (SegmentList::default(), VecDeque::new());
        Self { area, unit: OpenUnit::new(area), fill, open: None, written, chosen }
    }

    /// Bytes of rows that the open unit gathers.
    fn target_bytes(&self) -> usize {
        self.fill.raw_bytes(self.open.as_ref().map_or(0, |open| open.end))
    }

    /// Whether the unit is sealed before it takes a row of this many bytes. `is_plain`: the row is
    /// to be stored as it is.
    pub(crate) fn is_full_for(
        &self,
        row_bytes: usize,
        segment_bytes: usize,
        is_plain: bool,
    ) -> bool {
        let (rows, raw_bytes) = (self.unit.rows.len(), self.unit.raw.len() + row_bytes);
        let mut target_bytes = self.target_bytes();
        // Rows gathered for a longer unit will be compressed all the same.
        if is_plain && self.unit.raw.len() <= PAGE_BYTES {
            target_bytes = target_bytes.min(PAGE_BYTES);
        }
        let worst = unit::HEAD_BYTES + raw_bytes + table::table_bytes(1, rows + 1);
        let is_full = raw_bytes > target_bytes || rows == unit::ROWS_MAX || worst > segment_bytes;
        rows > 0 && is_full
    }

    /// Whether waiting for another row is of no use.
    pub(crate) fn is_full(&self) -> bool {
        self.unit.raw.len() >= self.target_bytes()
    }

    /// Where a unit would go in the open segment, if it has room for it.
    pub(crate) fn start_of(&self, head: &Head) -> Option<usize> {
        let open = self.open.as_ref()?;
        let starts = [self.fill.start(open.end, head.unit_bytes()), open.end];
        starts.into_iter().find(|&start| open.fits(start, head))
    }

    /// Adds a segment on the device to its area's list. It may be older than those already there.
    pub(crate) fn list(&mut self, listed: ListedSegment) {
        assert_eq!(listed.entry.area, self.area);
        self.written.insert(listed);
    }
}

/// A segment that waits to be written, or is being written.
#[derive(Debug, Clone)]
pub(crate) struct FullSegment {
    pub(crate) segment: u32,
    pub(crate) entry: Entry,
    pub(crate) pages: Arc<Pages>,
    /// Everything was flushed meanwhile.
    pub(crate) is_void: bool,
}

/// The segment that units are appended to.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: u32,
    pub(crate) sequence: u64,
    pub(crate) area: Area,
    pub(crate) pages: Pages,
    /// The end of the last unit.
    pub(crate) end: usize,
    pub(crate) units: usize,
    pub(crate) items: Vec<Item>,
    /// The dictionary of its units.
    pub(crate) dictionary: Option<Arc<Known>>,
}

impl OpenSegment {
    /// Whether a unit with this head fits in before the item table.
    fn fits(&self, start: usize, head: &Head) -> bool {
        let table_bytes = table::table_bytes(self.units + 1, self.items.len() + head.rows);
        start + head.unit_bytes() + table_bytes <= self.pages.bytes().len()
    }

    /// Writes the item table behind the units.
    pub(crate) fn freeze(mut self) -> FullSegment {
        let bytes = self.pages.bytes_mut();
        let table_at = bytes.len() - table::table_bytes(self.units, self.items.len());
        // The last unit may end within the granule in which the table begins.
        if let Some(gap) = bytes.get_mut(self.end..table_at) {
            gap.fill(0);
        }
        let table_bytes = table::write_items(&self.items, self.sequence, bytes);
        let dictionary = self.dictionary.as_ref().map_or(0, |known| known.number);
        let entry = Entry { sequence: self.sequence, table_bytes, area: self.area, dictionary };
        FullSegment { segment: self.segment, entry, pages: Arc::new(self.pages), is_void: false }
    }
}

/// A row of the open unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StagedRow {
    pub(crate) hash: u64,
    /// No other staged row has it.
    pub(crate) number: u64,
    start: usize,
    /// The accesses of its place when the unit was about to be sealed.
    pub(crate) accesses: u8,
    /// It was staged by collection, not by a caller.
    pub(crate) is_moved: bool,
}

/// The lowest bit of a row's number is its area, so that the numbers of one area cannot come round
/// to a row that has been staged in the other for long.
const NUMBER_STEP: u64 = 2;

const _: () = assert!((unit::ROWS_MAX as u64) * NUMBER_STEP < 1 << ADDRESS_BITS_MIN);

/// The unit that rows are gathered in.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    pub(crate) raw: Vec<u8>,
    pub(crate) rows: Vec<StagedRow>,
    next_number: u64,
}

impl OpenUnit {
    pub(crate) fn new(area: Area) -> Self {
        Self { raw: Vec::new(), rows: Vec::new(), next_number: area as u64 }
    }

    /// Appends a row, and returns its number.
    pub(crate) fn push(&mut self, hash: u64, row: &[u8], is_moved: bool) -> u64 {
        let number = self.next_number;
        self.next_number += NUMBER_STEP;
        self.rows.push(StagedRow { hash, number, start: self.raw.len(), accesses: 0, is_moved });
        self.raw.extend_from_slice(row);
        number
    }

    /// Takes back the last row, to which the index does not lead, and its number: otherwise, after
    /// a million rows were taken back, new rows would have the numbers of those that are there.
    pub(crate) fn pop(&mut self) {
        let row = self.rows.pop().expect("a row was pushed a moment ago");
        self.raw.truncate(row.start);
        self.next_number = row.number;
    }

    /// The number and the bytes of the row that a staged place leads to.
    pub(crate) fn row(&self, geometry: &Geometry, place: crate::Place) -> Option<(u64, &[u8])> {
        let is_it = |row: &StagedRow| geometry.staged(row.number, row.hash).is_same(place);
        let index = self.rows.iter().position(is_it)?;
        let row = &self.rows[index];
        Some((row.number, &self.raw[row.start..self.end_of(index)]))
    }

    /// Continues with this number, as after many rows.
    #[cfg(test)]
    pub(crate) fn go_on_with(&mut self, number: u64) {
        assert_eq!(number % NUMBER_STEP, self.next_number % NUMBER_STEP);
        self.next_number = number;
    }

    fn end_of(&self, index: usize) -> usize {
        self.rows.get(index + 1).map_or(self.raw.len(), |row| row.start)
    }

    /// Keeps the rows for which `accesses` returns a count, in their order.
    pub(crate) fn retain(&mut self, accesses: impl Fn(&StagedRow) -> Option<u8>) {
        let (mut kept, mut end) = (0, 0);
        for index in 0..self.rows.len() {
            let row = self.rows[index];
            let Some(accesses) = accesses(&row) else { continue };
            let range = row.start..self.end_of(index);
            let length = range.len();
            self.raw.copy_within(range, end);
            self.rows[kept] = StagedRow { start: end, accesses, ..row };
            (kept, end) = (kept + 1, end + length);
        }
        self.rows.truncate(kept);
        self.raw.truncate(end);
    }

    /// Bytes of the rows that were staged by collection.
    pub(crate) fn moved_bytes(&self) -> usize {
        let moved = self.rows.iter().enumerate().filter(|(_, row)| row.is_moved);
        moved.map(|(index, row)| self.end_of(index) - row.start).sum()
    }

    pub(crate) fn clear(&mut self) {
        self.raw.clear();
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> OpenUnit {
        let mut unit = OpenUnit::new(Area::Hot);
        for (hash, row) in [(1, &b"one"[..]), (2, b"second"), (3, b""), (4, b"four")] {
            unit.push(hash, row, hash % 2 == 0);
        }
        unit
    }

    #[test]
    fn staged_rows_are_found_by_their_places_until_they_are_dropped() {
        let geometry = Geometry::new(4096, 1 << 20).expect("large enough");
        let mut unit = unit();
        let places: Vec<_> =
            unit.rows.iter().map(|row| geometry.staged(row.number, row.hash)).collect();
        assert_eq!(unit.row(&geometry, places[1]), Some((3, &b"second"[..])));
        assert_eq!(unit.moved_bytes(), 10);
        unit.retain(|row| (row.hash != 2 && row.hash != 3).then_some(1));
        assert_eq!(unit.raw, b"onefour");
        let found: Vec<_> = places.iter().map(|&place| unit.row(&geometry, place)).collect();
        assert_eq!(found, [Some((1, &b"one"[..])), None, None, Some((7, &b"four"[..]))]);
        unit.pop();
        assert_eq!((unit.raw.as_slice(), unit.row(&geometry, places[3])), (&b"one"[..], None));
    }

    #[test]
    fn a_unit_is_full_at_its_target_and_takes_any_first_row() {
        for (area, fill) in [(Area::Cold, Fill::cold(1, false, 1 << 20)), (Area::Hot, Fill::hot())]
        {
            let mut stream = Stream::new(area, fill);
            let target = stream.target_bytes();
            assert!(!stream.is_full_for(500_000, 1 << 20, false));
            stream.unit.push(1, &[0; 100], false);
            assert!(!stream.is_full_for(target - 100, 1 << 20, false));
            assert!(stream.is_full_for(target - 99, 1 << 20, false));
            let edge = unit::HEAD_BYTES + 101 + table::table_bytes(1, 2);
            assert!(!stream.is_full_for(1, edge, false) && stream.is_full_for(1, edge - 1, false));
            assert!(!stream.is_full());
            stream.unit.push(2, &vec![0; target - 100], false);
            assert!(stream.is_full());
        }
    }

    #[test]
    fn a_number_comes_back_with_its_row_and_never_to_the_other_area() {
        let numbers = Area::ALL.map(|area| {
            let mut unit = OpenUnit::new(area);
            let first = unit.push(1, b"row", false);
            let second = unit.push(2, b"row", false);
            unit.pop();
            assert_eq!(unit.push(3, b"row", false), second);
            [first, second]
        });
        assert_eq!(numbers, [[0, 2], [1, 3]]);
    }
}
