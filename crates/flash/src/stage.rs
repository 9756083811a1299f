//! Taking items in: staging, sealing units, opening segments.

use ::io::device::PAGE_BYTES;
use codec::Method;
use codec::record::{Record, write_row};
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::area::Area;
use crate::flash::State;
use crate::geometry::Spot;
use crate::table::{self, Item};
use crate::unit::{self, Coding, Head, Origin};
use crate::writer::{OpenSegment, OpenUnit, StagedRow, Stream, Writer};
use crate::{Flash, IndexAccess, Place, RECORD_KEY_BYTES_MAX};

/// After this many consecutive failed writes, nothing is taken until one succeeds.
pub(crate) const FAILURES_MAX: u32 = 4;

/// A unit of several rows is compressed in any case if it has more bytes: it was gathered to be
/// compressed, and would take many pages to read otherwise.
const PLAIN_BYTES_MAX: usize = 2 * PAGE_BYTES;

/// Why an item was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A segment has no room for it.
    TooLarge,
    /// Rows taken before are not written yet, or no segment is free: after [`Flash::maintain`]
    /// there is room again. Or a flush of the key's prefix has just begun.
    Busy,
    /// The device does not take writes.
    Failing,
    /// The tier is closed.
    Closed,
}

/// Where a row comes from, and how urgently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intake {
    /// From a caller.
    Usual,
    /// From a caller who has little time.
    Hurried,
    /// From a caller that cannot wait.
    AtOnce,
    /// From the tier itself.
    Moved,
}

impl Writer {
    /// Stores the rows of an area's open unit in that area's way, into `stored`, with the
    /// dictionary of the open segment.
    fn store_unit(&mut self, area: Area, intake: Intake) -> (Head, Method) {
        let Self { streams, stored, encoder, threshold, compression, .. } = self;
        let Stream { unit: OpenUnit { raw, rows, .. }, open, .. } = &streams[area.index()];
        let known = open.as_ref().and_then(|open| open.dictionary.as_deref());
        let is_plain =
            intake == Intake::AtOnce && (rows.len() == 1 || raw.len() <= PLAIN_BYTES_MAX);
        encoder.hurry(matches!(intake, Intake::Hurried | Intake::AtOnce));
        let method = match area {
            Area::Cold if !is_plain => compression.store(encoder, threshold, known, raw, stored),
            _ => encoder.encode(Method::Raw, None, raw, stored),
        };
        let rows = rows.len();
        (Head { stored_bytes: stored.len(), raw_bytes: raw.len(), rows }, method)
    }
}

impl Flash {
    /// Takes an item into the open unit of the cold area. Its place is staged: a later call, or
    /// [`Flash::maintain`], seals the unit and moves the item by [`IndexAccess::relocate`].
    ///
    /// A row that the index does not lead to when its unit is sealed is dropped. So if another
    /// thread may stage or maintain before the caller has led the index to the place, the item may
    /// be lost, and the place lead nowhere: [`Flash::stage_with`] has no such gap.
    pub fn stage(
        &self,
        hash: u64,
        record: &Record<'_>,
        access: &dyn IndexAccess,
    ) -> Result<Place, Refused> {
        let place = self.stage_with(hash, record, access, |_| true)?;
        place.ok_or(Refused::Busy)
    }

    /// As [`Flash::stage`], but `lead` makes the index lead to the place while no unit can be
    /// sealed. It takes locks of the index after the writer's, as [`IndexAccess`] does. If it
    /// returns `false` the item is taken back, and there is no place. Nor is there one, and `lead`
    /// is not called, while a flush of a prefix of its key has begun and has no point yet.
    pub fn stage_with(
        &self,
        hash: u64,
        record: &Record<'_>,
        access: &dyn IndexAccess,
        lead: impl FnOnce(Place) -> bool,
    ) -> Result<Option<Place>, Refused> {
        self.stage_by(Intake::Usual, hash, record, access, lead)
    }

    /// As [`Flash::stage_with`], but a unit that has to be sealed for it is compressed at a lower
    /// level, [`codec::LEVEL_HURRIED`].
    pub fn stage_hurried(
        &self,
        hash: u64,
        record: &Record<'_>,
        access: &dyn IndexAccess,
        lead: impl FnOnce(Place) -> bool,
    ) -> Result<Option<Place>, Refused> {
        self.stage_by(Intake::Hurried, hash, record, access, lead)
    }

    /// As [`Flash::stage_with`], in a microsecond or two: a unit that has to be sealed for it is
    /// stored as it is, unless other callers have gathered a longer one, and the device is not
    /// touched. The tier is busy also while no free segment is prepared, which [`Flash::maintain`]
    /// does.
    pub fn stage_at_once(
        &self,
        hash: u64,
        record: &Record<'_>,
        access: &dyn IndexAccess,
        lead: impl FnOnce(Place) -> bool,
    ) -> Result<Option<Place>, Refused> {
        self.stage_by(Intake::AtOnce, hash, record, access, lead)
    }

    /// Waits until every thread that is staging something at this moment has led the index there.
    pub fn wait_for_stagers(&self) {
        drop(lock(&self.writer));
    }

    fn stage_by(
        &self,
        intake: Intake,
        hash: u64,
        record: &Record<'_>,
        access: &dyn IndexAccess,
        lead: impl FnOnce(Place) -> bool,
    ) -> Result<Option<Place>, Refused> {
        let mut writer = lock(&self.writer);
        if self.flushed.has_begun_for(record.key) {
            // It would be dropped with the rows older than the flush.
            return Ok(None);
        }
        let place = self.take_row(&mut writer, Area::Cold, hash, record, intake, access)?;
        if !lead(place) {
            writer.stream(Area::Cold).unit.pop();
            return Ok(None);
        }
        self.counters.items_came(1);
        Ok(Some(place))
    }

    /// Appends a row to an open unit, after sealing the unit if it is full.
    pub(crate) fn take_row(
        &self,
        writer: &mut Writer,
        area: Area,
        hash: u64,
        record: &Record<'_>,
        intake: Intake,
        access: &dyn IndexAccess,
    ) -> Result<Place, Refused> {
        assert!((1..=RECORD_KEY_BYTES_MAX).contains(&record.key.len()), "keys have 1 to 255 bytes");
        if writer.is_closed {
            return Err(Refused::Closed);
        }
        if writer.failures >= FAILURES_MAX || self.is_unsound() {
            return Err(Refused::Failing);
        }
        let segment_bytes = self.geometry.segment_bytes;
        if record.value.len() > self.value_bytes_max() {
            return Err(Refused::TooLarge);
        }
        writer.row.clear();
        write_row(record, false, &mut writer.row);
        if unit::HEAD_BYTES + writer.row.len() + table::table_bytes(1, 1) > segment_bytes {
            return Err(Refused::TooLarge);
        }
        let row_bytes = writer.row.len();
        if writer.stream(area).is_full_for(row_bytes, segment_bytes, intake == Intake::AtOnce) {
            self.seal_by(intake, writer, area, access)?;
        }
        let is_moved = intake == Intake::Moved;
        let Writer { streams, sampling, row, .. } = writer;
        let stream = &mut streams[area.index()];
        if !is_moved {
            sampling.offer(row, stream.fill.raw_bytes(0), self.dictionary_bytes_max());
        }
        let number = stream.unit.push(hash, row, is_moved);
        // Before the index leads there.
        self.latest_rows[area.index()].fetch_max(number, Ordering::Relaxed);
        Ok(self.geometry.staged(number, hash))
    }

    /// Appends the open unit of an area to its open segment, and leads the index there. Without
    /// room the unit stays open.
    pub(crate) fn seal(
        &self,
        writer: &mut Writer,
        area: Area,
        access: &dyn IndexAccess,
    ) -> Result<(), Refused> {
        self.seal_by(Intake::Usual, writer, area, access)
    }

    fn seal_by(
        &self,
        intake: Intake,
        writer: &mut Writer,
        area: Area,
        access: &dyn IndexAccess,
    ) -> Result<(), Refused> {
        let stream = writer.stream(area);
        if stream.open.is_none() && !stream.unit.rows.is_empty() {
            self.open_segment(writer, area, intake)?;
        }
        // A dead row is not stored. So a unit never has two rows of one key.
        let staged = |row: &StagedRow| self.geometry.staged(row.number, row.hash);
        writer.stream(area).unit.retain(|row| access.accesses(row.hash, staged(row)));
        if writer.stream(area).unit.rows.is_empty() {
            return Ok(());
        }
        let (mut head, mut method) = writer.store_unit(area, intake);
        if writer.stream(area).start_of(&head).is_none() {
            self.freeze(writer, area);
            self.open_segment(writer, area, intake)?;
            // The new segment may have another dictionary.
            (head, method) = writer.store_unit(area, intake);
        }
        let Writer { streams, stored, .. } = writer;
        self.put_unit(&mut streams[area.index()], &head, (intake, method), stored, access);
        Ok(())
    }

    /// Appends a stored unit to the open segment of its area.
    fn put_unit(
        &self,
        stream: &mut Stream,
        head: &Head,
        (intake, method): (Intake, Method),
        stored: &[u8],
        access: &dyn IndexAccess,
    ) {
        let start = stream.start_of(head).expect("an empty segment has room for any unit");
        let Stream { unit, open, fill, .. } = stream;
        let open = open.as_mut().expect("there is room in it");
        let granule = (start / self.geometry.granule_bytes()) as u32;
        let origin = Origin { sequence: open.sequence, granule };
        let end = start + head.unit_bytes();
        let bytes = open.pages.bytes_mut();
        bytes[open.end..start].fill(0);
        let coding = Coding::new(method, open.dictionary.as_deref());
        unit::write(origin, *head, coding, stored, &mut bytes[start..]);
        let next = end.next_multiple_of(self.geometry.granule_bytes()).min(bytes.len());
        bytes[end..next].fill(0);
        let skipped_bytes = (start - open.end + next - end) as u64;
        (open.end, open.units) = (next, open.units + 1);
        let (segment, span) = (open.segment, self.geometry.span(granule, head.unit_bytes()));
        for row in &unit.rows {
            let from = self.geometry.staged(row.number, row.hash);
            let place = self.geometry.sealed(Spot { segment, granule }, span, row.hash);
            let is_dead = !access.relocate(row.hash, from, place.with_accesses(row.accesses));
            open.items.push(Item { hash: row.hash, granule, span, is_dead });
        }
        self.counters.sealed(open.area, head, unit.moved_bytes() as u64, skipped_bytes);
        if method != Method::Raw || intake != Intake::AtOnce {
            fill.learn(head);
        }
        unit.clear();
    }

    /// Makes the open segment of an area wait to be written, unless it is empty.
    pub(crate) fn freeze(&self, writer: &mut Writer, area: Area) {
        match writer.stream(area).open.take() {
            None => {}
            Some(open) if open.items.is_empty() => {
                writer.idle.push(open.pages);
                self.free_segment(writer, open.segment);
            }
            Some(open) => {
                writer.waiting.push_back(open.freeze());
                self.has_waiting.store(true, Ordering::Relaxed);
            }
        }
    }

    fn open_segment(&self, writer: &mut Writer, area: Area, intake: Intake) -> Result<(), Refused> {
        let segment = self.segment_to_open(writer, intake)?;
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let known = &self.segments[segment as usize];
        known.usage.begin(sequence);
        known.set_state(State::Buffered(sequence), area);
        known.journal.open();
        let pages = writer.idle.pop().expect("one is idle");
        let dictionary = writer.dictionary.clone().filter(|_| area == Area::Cold);
        let (end, units, items) = (0, 0, Vec::new());
        let open = OpenSegment { segment, sequence, area, pages, end, units, items, dictionary };
        writer.stream(area).open = Some(open);
        self.counters.opened.add(1);
        Ok(())
    }

    /// A free segment that is ready for another use, while there is a buffer for it.
    fn segment_to_open(&self, writer: &mut Writer, intake: Intake) -> Result<u32, Refused> {
        let prepared = if writer.idle.is_empty() { None } else { writer.prepared.pop_front() };
        if let Some(segment) = prepared {
            return Ok(segment);
        }
        if intake == Intake::AtOnce {
            self.is_behind.store(true, Ordering::Relaxed);
            return Err(Refused::Busy);
        }
        if writer.idle.is_empty() {
            return Err(Refused::Busy);
        }
        let segment = writer.free.pop_front().ok_or(Refused::Busy)?;
        if self.prepare(segment).is_err() {
            self.counters.io_errors.add(1);
            writer.set_aside(segment);
            return Err(Refused::Failing);
        }
        Ok(segment)
    }

    /// Makes a free segment ready for another use: first its validity is removed on the device,
    /// then its journal is emptied. In the other order, a process that is killed in between would
    /// leave dead items without a note that they are dead.
    pub(crate) fn prepare(&self, segment: u32) -> std::io::Result<()> {
        let taken = self.segments[segment as usize].journal.settle();
        self.invalidate(segment)?;
        let zeros = vec![0; self.journal_used_bytes(taken)];
        self.device.write_note(self.geometry.journal_at(segment), &zeros)
    }

    /// Says on the device that nothing in a segment is valid.
    pub(crate) fn invalidate(&self, segment: u32) -> std::io::Result<()> {
        let zeros = [0; crate::geometry::ENTRY_BYTES];
        self.device.write_note(self.geometry.entry_at(segment), &zeros)
    }
}
