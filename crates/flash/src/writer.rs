//! The writer's state: the open unit, the segments that are filled or wait to be written, and the
//! lists of all others. One lock guards it.
//!
//! ```text
//!   row -> open unit --seal--> open segment --freeze--> waiting --write--> written
//!          raw rows            buffer                   buffer             the device
//!
//!   free --open--> open, waiting, written --collect--> free
//! ```
//!
//! There are [`BUFFERS`] buffers. When both wait to be written, nothing is taken until one is.

use std::collections::VecDeque;
use std::sync::Arc;

use ::io::device::Pages;
use codec::Encoder;

use crate::geometry::Geometry;
use crate::table::{self, Entry, Item};
use crate::unit::{self, Head, Target};

/// Buffers of a segment each: one is filled while the other is written.
pub(crate) const BUFFERS: usize = 2;

/// What the writer's lock guards.
pub(crate) struct Writer {
    pub(crate) unit: OpenUnit,
    pub(crate) open: Option<OpenSegment>,
    /// In the order of their sequences.
    pub(crate) waiting: VecDeque<FullSegment>,
    pub(crate) idle: Vec<Pages>,
    pub(crate) free: VecDeque<u32>,
    /// In the order of their sequences.
    pub(crate) written: VecDeque<ListedSegment>,
    /// Found at the start and not yet given to the index, in the order of their sequences.
    pub(crate) found: VecDeque<ListedSegment>,
    /// How often all was made void.
    pub(crate) flushes: u64,
    /// Writes that failed one after the other.
    pub(crate) failures: u32,
    pub(crate) is_closed: bool,
    pub(crate) encoder: Encoder,
    /// Bytes of a unit on its way into the open segment.
    pub(crate) stored: Vec<u8>,
    /// A row on its way into the open unit.
    pub(crate) row: Vec<u8>,
}

/// A segment on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListedSegment {
    pub(crate) segment: u32,
    pub(crate) entry: Entry,
}

/// A segment that waits to be written, or is being written.
#[derive(Debug, Clone)]
pub(crate) struct FullSegment {
    pub(crate) segment: u32,
    pub(crate) entry: Entry,
    pub(crate) pages: Arc<Pages>,
    /// A flush came in between.
    pub(crate) is_void: bool,
}

/// The segment that units are put into.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: u32,
    pub(crate) sequence: u64,
    pub(crate) pages: Pages,
    /// Where the next unit begins.
    pub(crate) end: usize,
    pub(crate) items: Vec<Item>,
}

impl OpenSegment {
    /// Whether a unit of so many bytes and rows fits in before the item table.
    pub(crate) fn fits(&self, head: &Head) -> bool {
        let table_bytes = table::table_bytes(self.items.len() + head.rows);
        self.end + head.unit_bytes() + table_bytes <= self.pages.bytes().len()
    }

    /// Puts the item table behind the units.
    pub(crate) fn freeze(mut self) -> FullSegment {
        let bytes = self.pages.bytes_mut();
        let table_at = bytes.len() - table::table_bytes(self.items.len());
        // The last unit may end within the granule in which the table begins.
        if let Some(gap) = bytes.get_mut(self.end..table_at) {
            gap.fill(0);
        }
        let table_bytes = table::write_items(&self.items, self.sequence, bytes);
        let entry = Entry { sequence: self.sequence, table_bytes };
        FullSegment { segment: self.segment, entry, pages: Arc::new(self.pages), is_void: false }
    }
}

/// A row of the open unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StagedRow {
    pub(crate) hash: u64,
    /// No other row that is staged has it.
    pub(crate) number: u64,
    start: usize,
    /// As its place had when the unit was about to be sealed.
    pub(crate) accesses: u8,
    /// Collection has staged it, not a caller.
    pub(crate) is_moved: bool,
}

/// The unit that rows are gathered in.
#[derive(Debug)]
pub(crate) struct OpenUnit {
    pub(crate) raw: Vec<u8>,
    pub(crate) rows: Vec<StagedRow>,
    pub(crate) target: Target,
    next_number: u64,
}

impl OpenUnit {
    pub(crate) fn new(segment_bytes: usize) -> Self {
        let target = Target::new(segment_bytes);
        Self { raw: Vec::new(), rows: Vec::new(), target, next_number: 0 }
    }

    /// Whether it is sealed before it takes a row of so many bytes.
    pub(crate) fn is_full_for(&self, row_bytes: usize, segment_bytes: usize) -> bool {
        let raw_bytes = self.raw.len() + row_bytes;
        let worst = unit::HEAD_BYTES + raw_bytes + table::table_bytes(self.rows.len() + 1);
        let is_full = raw_bytes > self.target.bytes()
            || self.rows.len() == unit::ROWS_MAX
            || worst > segment_bytes;
        !self.rows.is_empty() && is_full
    }

    /// Whether there is no use in waiting for another row.
    pub(crate) fn is_full(&self) -> bool {
        self.raw.len() >= self.target.bytes()
    }

    /// Appends a row, and returns its number.
    pub(crate) fn push(&mut self, hash: u64, row: &[u8], is_moved: bool) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.rows.push(StagedRow { hash, number, start: self.raw.len(), accesses: 0, is_moved });
        self.raw.extend_from_slice(row);
        number
    }

    /// Takes the last row back.
    pub(crate) fn pop(&mut self) {
        let row = self.rows.pop().expect("a row was pushed a moment ago");
        self.raw.truncate(row.start);
    }

    /// The bytes of the row that a staged place leads to.
    pub(crate) fn row(&self, geometry: &Geometry, place: crate::Place) -> Option<&[u8]> {
        let is_it = |row: &StagedRow| geometry.staged(row.number, row.hash).is_same(place);
        let index = self.rows.iter().position(is_it)?;
        Some(&self.raw[self.rows[index].start..self.end_of(index)])
    }

    fn end_of(&self, index: usize) -> usize {
        self.rows.get(index + 1).map_or(self.raw.len(), |row| row.start)
    }

    /// Keeps the rows of which `accesses` knows the accesses, in their order.
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

    /// Bytes of the rows that collection has staged.
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
        let mut unit = OpenUnit::new(1 << 20);
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
        assert_eq!(unit.row(&geometry, places[1]), Some(&b"second"[..]));
        assert_eq!(unit.moved_bytes(), 10);
        unit.retain(|row| (row.hash != 2 && row.hash != 3).then_some(1));
        assert_eq!(unit.raw, b"onefour");
        let found: Vec<_> = places.iter().map(|&place| unit.row(&geometry, place)).collect();
        assert_eq!(found, [Some(&b"one"[..]), None, None, Some(&b"four"[..])]);
        unit.pop();
        assert_eq!((unit.raw.as_slice(), unit.row(&geometry, places[3])), (&b"one"[..], None));
    }

    #[test]
    fn a_unit_is_full_at_its_target_and_takes_any_first_row() {
        let mut unit = OpenUnit::new(1 << 20);
        let target = unit.target.bytes();
        assert!(!unit.is_full_for(500_000, 1 << 20));
        unit.push(1, &[0; 100], false);
        assert!(!unit.is_full_for(target - 100, 1 << 20) && unit.is_full_for(target - 99, 1 << 20));
        let edge = unit::HEAD_BYTES + 101 + table::table_bytes(2);
        assert!(!unit.is_full_for(1, edge) && unit.is_full_for(1, edge - 1));
        assert!(!unit.is_full());
        unit.push(2, &vec![0; target - 100], false);
        assert!(unit.is_full());
    }
}
