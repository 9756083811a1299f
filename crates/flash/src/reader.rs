//! Reading an item.
//!
//! An item in memory, staged or in a buffer, is found at once, under the writer's lock. For an item
//! on the device a look returns a [`Ticket`]: the caller reads its pages, in any way it likes, and
//! then finishes. A ticket holds the sequence of its segment, and finds nothing once the segment
//! has another.

use ::io::device::Pages;
use codec::record::Fields;
use codec::{Damaged, Decoder};
use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::area::Area;
use crate::flash::State;
use crate::geometry::Spot;
use crate::place::SPAN_LONG;
use crate::unit::{self, Head, Origin};
use crate::{Flash, Place};

/// Most bytes of each buffer that a reader keeps. The pages of a longer value are allocated for
/// each read anyway, and allocating as much again for its rows is not what takes the time.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A thread's decoder and buffers. The value of the last hit lies in it.
#[derive(Default)]
pub struct Reader {
    decoder: Decoder,
    /// A unit that was in memory, as it is stored.
    stored: Vec<u8>,
    /// The rows of a unit, or one row.
    raw: Vec<u8>,
    value: std::ops::Range<usize>,
    life: Option<Life>,
}

impl Reader {
    /// No buffers yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of the last hit; empty after anything else.
    pub fn value(&self) -> &[u8] {
        &self.raw[self.value.clone()]
    }

    /// The life of the last hit; `None` after anything else.
    pub fn life(&self) -> Option<Life> {
        self.life
    }

    /// Forgets the last hit.
    fn begin(&mut self) {
        (self.value, self.life) = (0..0, None);
    }

    /// Bytes of decoder and buffers: at most a segment each of stored and raw bytes, and what the
    /// decoder needs for them.
    pub fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.stored.capacity() + self.raw.capacity()
    }

    /// Frees what a long value has taken, including the last hit: for callers that keep the reader.
    pub fn shrink_buffers(&mut self) {
        self.begin();
        for buffer in [&mut self.stored, &mut self.raw] {
            if buffer.capacity() > KEPT_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }

    /// Looks for the key among the raw rows, which are of this life.
    fn find(&mut self, key: &[u8], life: Life) -> Result<Option<Fields>, Damaged> {
        let Some((fields, value)) = unit::find(&self.raw, key)? else { return Ok(None) };
        (self.value, self.life) = (value, Some(life));
        Ok(Some(fields))
    }

    fn decode(
        &mut self,
        flash: &Flash,
        (segment, origin): (u32, Origin),
        bytes: Option<&[u8]>,
        key: &[u8],
    ) -> Result<Option<Fields>, Damaged> {
        let life = Life { segment: Some(segment), number: origin.sequence };
        let Self { decoder, stored, raw, .. } = self;
        let (bytes, raw_bytes_max) = (bytes.unwrap_or(stored), flash.geometry.segment_bytes);
        unit::decode(origin, &flash.dictionaries, bytes, raw_bytes_max, decoder, raw)?;
        self.find(key, life)
    }
}

/// The outcome of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The item; its value is [`Reader::value`].
    Found(Fields),
    /// It is not there: another key's, damaged, or gone since. If the index still leads to the very
    /// place, there is nothing to find; if it now leads elsewhere, the item is there.
    Absent,
    /// Pages have to be read first: then [`Flash::finish`].
    Wait(Ticket),
}

/// What the place of a hit stood for when it was read. The same place may later be that of another
/// item of the key: in a segment's next use, or of a row that is staged much later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The segment, unless the row was staged.
    segment: Option<u32>,
    /// The segment's sequence, or the row's number.
    number: u64,
}

/// Whether a look counts: as a use of its segment, by which unread segments are given up and the
/// areas are divided, and in the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// It does.
    Leave,
    /// It does not: the caller only inspects the item.
    None,
}

/// What was copied out of a buffer.
enum Copied {
    /// A unit, of the segment with this sequence.
    Unit(u64),
    Flushed,
}

/// The pages that a look waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The first page.
    pub page: u64,
    /// How many.
    pub pages: usize,
    pub(crate) spot: Spot,
    sequence: u64,
    /// The pages hold the unit to its end, or it is damaged.
    is_whole: bool,
}

impl Ticket {
    /// Whether both are for the same unit, of whatever length: then the pages read for one may
    /// serve the other.
    pub fn is_for_unit_of(&self, other: &Self) -> bool {
        (self.spot, self.sequence) == (other.spot, other.sequence)
    }
}

impl Flash {
    /// Looks for the item of a key at a place from the index. Takes the writer's lock only for an
    /// item that is in memory.
    pub fn look(&self, place: Place, key: &[u8], reader: &mut Reader) -> Look {
        self.look_with(place, key, reader, Trace::Leave)
    }

    /// Looks for an item as [`Flash::look`] does, with or without a trace.
    pub fn look_with(&self, place: Place, key: &[u8], reader: &mut Reader, trace: Trace) -> Look {
        reader.begin();
        if place.is_staged() {
            return self.look_staged(place, key, reader, trace);
        }
        let Some(spot) = self.geometry.locate(place) else { return self.miss(trace) };
        let segment = &self.segments[spot.segment as usize];
        if let State::Buffered(_) = segment.state()
            && let Some(copied) = self.copy_buffered(spot, key, &mut reader.stored)
        {
            let Copied::Unit(sequence) = copied else { return self.miss(trace) };
            let origin = Origin { sequence, granule: spot.granule };
            let found = reader.decode(self, (spot.segment, origin), None, key);
            return self.outcome(found, (segment.area(), Some(spot.segment)), trace);
        }
        self.ticket(place, key).map_or_else(|| self.miss(trace), Look::Wait)
    }

    /// The pages to read before a look for the item of a key at a place from the index; `None` if
    /// they are in memory, or there is nothing. Decodes nothing, and takes no lock.
    pub fn ticket(&self, place: Place, key: &[u8]) -> Option<Ticket> {
        if place.is_staged() {
            return None;
        }
        let spot = self.geometry.locate(place)?;
        let State::Written(sequence) = self.segments[spot.segment as usize].state() else {
            return None;
        };
        if self.flushed.takes(sequence, spot.granule, key) {
            return None;
        }
        let page = self.geometry.page_of(spot.segment)
            + (self.geometry.offset_of(spot.granule) / ::io::device::PAGE_BYTES) as u64;
        let is_whole = place.span() != SPAN_LONG;
        let pages = if is_whole { place.span().into() } else { 1 };
        Some(Ticket { page, pages, spot, sequence, is_whole })
    }

    /// Continues a look with the pages of its ticket. An item that is damaged, another key's, or
    /// overwritten since, is absent. A hit was the key's value when it was looked for; the caller
    /// asks the index again whether it still is ([`Flash::is_alive`]).
    pub fn finish(&self, ticket: &Ticket, pages: &Pages, key: &[u8], reader: &mut Reader) -> Look {
        self.finish_with(ticket, pages, key, reader, Trace::Leave)
    }

    /// Finishes a look as [`Flash::finish`] does, with or without a trace.
    pub fn finish_with(
        &self,
        ticket: &Ticket,
        pages: &Pages,
        key: &[u8],
        reader: &mut Reader,
        trace: Trace,
    ) -> Look {
        reader.begin();
        let Spot { segment, granule } = ticket.spot;
        // In this order: a flush is forgotten only once the segment has another sequence.
        if self.flushed.takes(ticket.sequence, granule, key) || !self.is_current(ticket) {
            return self.miss(trace);
        }
        let offset = self.geometry.offset_of(granule);
        let unit = pages.bytes().get(offset % ::io::device::PAGE_BYTES..).unwrap_or(&[]);
        if !ticket.is_whole
            && let Ok(head) = Head::read(unit)
            && offset + head.unit_bytes() <= self.geometry.segment_bytes
        {
            let pages = self.geometry.pages_of(granule, head.unit_bytes());
            return Look::Wait(Ticket { pages, is_whole: true, ..*ticket });
        }
        let origin = Origin { sequence: ticket.sequence, granule };
        let found = reader.decode(self, (segment, origin), Some(unit), key);
        if found.is_err() && !self.is_current(ticket) {
            // It was whole when it was read; its dictionary may have left with the segment.
            return self.miss(trace);
        }
        let is_timed = |fields: &Fields| !self.is_untimed(ticket.sequence, fields);
        let found = found.map(|fields| fields.filter(is_timed));
        self.outcome(found, (self.area_of(ticket), Some(segment)), trace)
    }

    /// Whether a hit's place still stands for the same item. To store the hit elsewhere, a caller
    /// asks this under the key's lock, and whether the index still leads to the very place. Takes
    /// no lock.
    pub fn is_alive(&self, life: Life) -> bool {
        let Life { segment, number } = life;
        if let Some(segment) = segment {
            return self.segments[segment as usize].state().sequence() == Some(number);
        }
        // A reader that finds a row in the index with the hit's place finds that row's number here.
        let latest = self.latest_rows[Area::from_bit(number).index()].load(Ordering::Relaxed);
        latest.saturating_sub(number) < self.geometry.staged_numbers()
    }

    /// Whether the pages of a ticket are those that lie there now.
    pub fn is_current(&self, ticket: &Ticket) -> bool {
        let state = self.segments[ticket.spot.segment as usize].state();
        state == State::Written(ticket.sequence)
    }

    /// The area that a ticket is for.
    pub fn area_of(&self, ticket: &Ticket) -> Area {
        self.segments[ticket.spot.segment as usize].area()
    }

    fn look_staged(&self, place: Place, key: &[u8], reader: &mut Reader, trace: Trace) -> Look {
        reader.raw.clear();
        let (area, number) = {
            let writer = lock(&self.writer);
            let row = |area: &Area| {
                let unit = &writer.streams[area.index()].unit;
                unit.row(&self.geometry, place).map(|(number, row)| (*area, number, row))
            };
            let Some((area, number, row)) = Area::ALL.iter().find_map(row) else {
                return self.miss(trace);
            };
            // All rows staged under a prefix whose flush has no point yet are older than it.
            if self.flushed.has_begun_for(key) {
                return self.miss(trace);
            }
            reader.raw.extend_from_slice(row);
            (area, number)
        };
        let found = reader.find(key, Life { segment: None, number });
        self.outcome(found, (area, None), trace)
    }

    /// Copies a unit out of its buffer, unless the key's item in it was flushed; `None` if the
    /// segment is no longer in a buffer.
    fn copy_buffered(&self, spot: Spot, key: &[u8], target: &mut Vec<u8>) -> Option<Copied> {
        let writer = lock(&self.writer);
        let mut open = writer.streams.iter().filter_map(|stream| stream.open.as_ref());
        let open = open.find(|open| open.segment == spot.segment);
        let open = open.map(|open| (open.sequence, &open.pages));
        let mut full = writer.waiting.iter();
        let full = full.find(|full| full.segment == spot.segment && !full.is_void);
        let (sequence, pages) = open.or(full.map(|full| (full.entry.sequence, &*full.pages)))?;
        if self.flushed.takes(sequence, spot.granule, key) {
            return Some(Copied::Flushed);
        }
        let unit = &pages.bytes()[self.geometry.offset_of(spot.granule)..];
        let unit_bytes = Head::read(unit).map_or(0, |head| head.unit_bytes());
        target.clear();
        target.extend_from_slice(unit.get(..unit_bytes).unwrap_or(&[]));
        Some(Copied::Unit(sequence))
    }

    fn miss(&self, trace: Trace) -> Look {
        if trace == Trace::Leave {
            self.counters.misses.add(1);
        }
        Look::Absent
    }

    /// The outcome of a look into an area, and into a segment unless the item lies in an open unit.
    fn outcome(
        &self,
        found: Result<Option<Fields>, Damaged>,
        (area, segment): (Area, Option<u32>),
        trace: Trace,
    ) -> Look {
        match found {
            Ok(Some(fields)) => {
                if trace == Trace::Leave {
                    self.note_hit(area, segment);
                }
                Look::Found(fields)
            }
            Ok(None) => self.miss(trace),
            Err(Damaged) => {
                if trace == Trace::Leave {
                    self.counters.damaged.add(1);
                }
                Look::Absent
            }
        }
    }
}
