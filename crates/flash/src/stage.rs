//! Taking items in: staging, sealing units, opening segments.

use codec::record::{Record, write_row};
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::flash::State;
use crate::geometry::Spot;
use crate::table::{self, Item};
use crate::unit::{self, Head, Origin};
use crate::writer::{OpenSegment, Writer};
use crate::{Flash, KEY_BYTES_MAX, Links, Place};

/// After so many writes that failed one after the other, nothing is taken until one succeeds.
pub(crate) const FAILURES_MAX: u32 = 4;

/// Why an item was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A segment has no room for it.
    TooLarge,
    /// What was taken before is not written yet, or no segment is free: after [`Flash::maintain`]
    /// there is room again.
    Busy,
    /// The device does not take writes.
    Failing,
    /// The tier is closed.
    Closed,
}

impl Flash {
    /// Takes an item into the open unit. Its place is staged: a later call, or
    /// [`Flash::maintain`], seals the unit and moves the item by [`Links::relocate`].
    ///
    /// A row that the index does not lead to when its unit is sealed is dropped. So where another
    /// thread may stage or maintain before the caller has led the index to the place, the item may
    /// be lost, and the place lead nowhere: [`Flash::stage_with`] has no such gap.
    pub fn stage(
        &self,
        hash: u64,
        record: &Record<'_>,
        links: &dyn Links,
    ) -> Result<Place, Refused> {
        let place = self.stage_with(hash, record, links, |_| true)?;
        Ok(place.expect("it was led there"))
    }

    /// As [`Flash::stage`], but `lead` makes the index lead to the place while no unit can be
    /// sealed. It takes locks of the index after the writer's, as [`Links`] do. If it says `false`
    /// the item is taken back, and there is no place.
    pub fn stage_with(
        &self,
        hash: u64,
        record: &Record<'_>,
        links: &dyn Links,
        lead: impl FnOnce(Place) -> bool,
    ) -> Result<Option<Place>, Refused> {
        let mut writer = lock(&self.writer);
        let place = self.take_row(&mut writer, hash, record, false, links)?;
        if !lead(place) {
            writer.unit.pop();
            return Ok(None);
        }
        self.counters.items_came(1);
        Ok(Some(place))
    }

    /// Puts a row at the end of the open unit, after sealing what was there if it is full.
    pub(crate) fn take_row(
        &self,
        writer: &mut Writer,
        hash: u64,
        record: &Record<'_>,
        is_moved: bool,
        links: &dyn Links,
    ) -> Result<Place, Refused> {
        assert!((1..=KEY_BYTES_MAX).contains(&record.key.len()), "keys have 1 to 255 bytes");
        if writer.is_closed {
            return Err(Refused::Closed);
        }
        if writer.failures >= FAILURES_MAX || self.unsound.load(Ordering::Relaxed) {
            return Err(Refused::Failing);
        }
        let segment_bytes = self.geometry.segment_bytes;
        if record.value.len() >= segment_bytes {
            return Err(Refused::TooLarge);
        }
        writer.row.clear();
        write_row(record, false, &mut writer.row);
        if unit::HEAD_BYTES + writer.row.len() + table::table_bytes(1) > segment_bytes {
            return Err(Refused::TooLarge);
        }
        if writer.unit.is_full_for(writer.row.len(), segment_bytes) {
            self.seal(writer, links)?;
        }
        let number = writer.unit.push(hash, &writer.row, is_moved);
        Ok(self.geometry.staged(number, hash))
    }

    /// Compresses the open unit into the open segment, and leads the index there. Without room the
    /// unit stays open.
    pub(crate) fn seal(&self, writer: &mut Writer, links: &dyn Links) -> Result<(), Refused> {
        if writer.open.is_none() && !writer.unit.rows.is_empty() {
            self.open_segment(writer)?;
        }
        // A row that is dead is not stored. So a unit never has two rows of one key.
        let staged = |hash, number| self.geometry.staged(number, hash);
        writer.unit.retain(|row| links.accesses(row.hash, staged(row.hash, row.number)));
        if writer.unit.rows.is_empty() {
            return Ok(());
        }
        let raw = &writer.unit.raw;
        let method = unit::compress(&mut writer.encoder, raw, &mut writer.stored);
        let rows = writer.unit.rows.len();
        let head = Head { stored_bytes: writer.stored.len(), raw_bytes: raw.len(), rows };
        if !writer.open.as_ref().is_some_and(|open| open.fits(&head)) {
            self.freeze(writer);
            self.open_segment(writer)?;
        }
        let Writer { unit, open, stored, .. } = writer;
        let open = open.as_mut().expect("one is open");
        assert!(open.fits(&head), "an empty segment has room for any unit");
        let granule = (open.end / self.geometry.granule_bytes()) as u32;
        let origin = Origin { sequence: open.sequence, granule };
        let end = open.end + head.unit_bytes();
        let bytes = open.pages.bytes_mut();
        unit::write(origin, head, method, stored, &mut bytes[open.end..]);
        let next = end.next_multiple_of(self.geometry.granule_bytes()).min(bytes.len());
        bytes[end..next].fill(0);
        open.end = next;
        let (segment, span) = (open.segment, self.geometry.span(granule, head.unit_bytes()));
        for row in &unit.rows {
            let place = self.geometry.sealed(Spot { segment, granule }, span, row.hash);
            let to = place.with_accesses(row.accesses);
            let is_dead = !links.relocate(row.hash, staged(row.hash, row.number), to);
            open.items.push(Item { hash: row.hash, granule, span, is_dead });
        }
        let moved = unit.moved_bytes() as u64 * head.unit_bytes() as u64 / head.raw_bytes as u64;
        self.counters.sealed(&head, moved);
        unit.target.learn(&head);
        unit.clear();
        Ok(())
    }

    /// Lets the open segment wait to be written, unless there is nothing in it.
    pub(crate) fn freeze(&self, writer: &mut Writer) {
        match writer.open.take() {
            None => {}
            Some(open) if open.items.is_empty() => {
                writer.idle.push(open.pages);
                self.free_segment(writer, open.segment);
            }
            Some(open) => writer.waiting.push_back(open.freeze()),
        }
    }

    fn open_segment(&self, writer: &mut Writer) -> Result<(), Refused> {
        if writer.idle.is_empty() {
            return Err(Refused::Busy);
        }
        let segment = writer.free.pop_front().ok_or(Refused::Busy)?;
        if self.prepare(segment).is_err() {
            self.counters.io_errors.add(1);
            writer.failures += 1;
            writer.free.push_back(segment);
            return Err(Refused::Failing);
        }
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let known = &self.segments[segment as usize];
        known.set_state(State::Buffered(sequence));
        known.journal.open(0);
        let pages = writer.idle.pop().expect("one is idle");
        writer.open = Some(OpenSegment { segment, sequence, pages, end: 0, items: Vec::new() });
        Ok(())
    }

    /// Makes a free segment ready for another use: first nothing on the device says any more that
    /// it is valid, then its journal is emptied. The other way round, a process that is killed in
    /// between would leave dead items that nothing says are dead.
    fn prepare(&self, segment: u32) -> std::io::Result<()> {
        let taken = self.segments[segment as usize].journal.settle() as usize;
        self.invalidate(segment)?;
        let entry_bytes = crate::geometry::JOURNAL_ENTRY_BYTES;
        let used_bytes = taken.saturating_add(1).saturating_mul(entry_bytes);
        let zeros = vec![0; used_bytes.min(self.geometry.journal_bytes())];
        self.device.write_note(self.geometry.journal_at(segment), &zeros)
    }

    /// Says on the device that nothing in a segment is valid.
    pub(crate) fn invalidate(&self, segment: u32) -> std::io::Result<()> {
        let zeros = [0; crate::geometry::ENTRY_BYTES];
        self.device.write_note(self.geometry.entry_at(segment), &zeros)
    }
}
