//! A walk over everything on the tier, for listings: a few units at a time, and without waiting for
//! the device.
//!
//! ```text
//!   open units -> segment 0 -> segment 1 -> ...
//!                item table, then its units, as many as lie in CHUNK_BYTES
//! ```
//!
//! Units in memory are copied under the writer's lock. For the rest a step says which pages it
//! needs ([`Walked::Wait`]), and goes on when it gets them. The index says which rows are alive
//! ([`IndexAccess::accesses`]), and which are in memory as well ([`IndexAccess::is_spare`]) and so
//! are listed there: a row counts if the index leads to it after it was read from a segment that
//! had the same sequence before and after.
//!
//! Items that are stored or moved during a walk may be missed or come twice.

use ::io::device::{PAGE_BYTES, Pages};
use codec::record::{Record, Row, Rows};
use codec::{Damaged, Decoder};
use stdx::sync::lock;

use crate::flash::State;
use crate::place::SPAN_LONG;
use crate::table::{self, Entry, Item};
use crate::unit::{self, Origin};
use crate::writer::{StagedRow, Stream};
use crate::{Flash, IndexAccess, Place};

/// Bytes of units that a step reads, unless a single unit is longer.
const CHUNK_BYTES: usize = 64 << 10;
/// Most segments and items that a step passes over if nothing is to be read.
const PASSED_MAX: usize = 1024;

/// The position of a walk. Between two steps it holds the item table of one segment.
#[derive(Default)]
pub struct Walk {
    /// The open units, which come first, were walked.
    is_begun: bool,
    segment: u32,
    /// The item of that segment to begin with, once its items are known.
    start: usize,
    current: Option<Current>,
    /// The pages that the last step has asked for: the first, and how many.
    asked: Option<(u64, usize)>,
    decoder: Decoder,
    /// The rows of a unit.
    raw: Vec<u8>,
}

/// The segment that is being walked.
struct Current {
    sequence: u64,
    /// `None` until the item table was read.
    items: Option<Vec<Item>>,
    entry: Option<Entry>,
    /// The first item of the next unit.
    next: usize,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walked {
    /// There may be more.
    More,
    /// These pages have to be read first, and given to the next step.
    Wait {
        /// The first page.
        page: u64,
        /// The number of pages.
        pages: usize,
    },
    /// The walk has ended.
    End,
}

/// Units that are read together.
struct Chunk {
    /// Their items.
    items: std::ops::Range<usize>,
    /// Their pages, counted from the segment's start.
    pages: std::ops::Range<usize>,
}

impl Walk {
    /// A walk that continues where another one had come to, by [`Walk::place`]. If the segment has
    /// been used again since, it continues somewhere in its present items.
    pub fn at(segment: u32, item: u32) -> Self {
        Self { is_begun: true, segment, start: item as usize, ..Self::default() }
    }

    /// The segment that it has come to and the first of its items that is still to come; `None`
    /// before it has begun.
    pub fn place(&self) -> Option<(u32, u32)> {
        let item = self.current.as_ref().map_or(self.start, |current| current.next);
        let item = u32::try_from(item).expect("a segment has fewer items");
        self.is_begun.then_some((self.segment, item))
    }

    /// Goes on with the next segment.
    fn pass_segment(&mut self) {
        self.segment += 1;
        (self.start, self.current) = (0, None);
    }
}

impl Current {
    /// Enters a segment with these items, and begins at this one or at the first behind it that a
    /// unit begins with: a place may be older than the segment.
    fn enter(&mut self, items: Vec<Item>, start: usize) {
        let is_inside = |at: &usize| *at > 0 && items[*at].granule == items[*at - 1].granule;
        self.next = (start..items.len()).find(|at| !is_inside(at)).unwrap_or(items.len());
        self.items = Some(items);
    }
}

impl Flash {
    /// Visits the rows of the next units to which the index leads, expired ones too. `pages` are
    /// those that the step before has asked for; without them, it asks once more.
    pub fn walk(
        &self,
        walk: &mut Walk,
        pages: Option<&Pages>,
        access: &dyn IndexAccess,
        mut visit: impl FnMut(&Record<'_>),
    ) -> Walked {
        if !walk.is_begun {
            walk.is_begun = true;
            self.walk_staged(walk, access, &mut visit);
            return Walked::More;
        }
        for _ in 0..PASSED_MAX {
            if walk.segment >= self.geometry.segments {
                return Walked::End;
            }
            if let Some(step) = self.walk_segment(walk, pages, access, &mut visit) {
                return step;
            }
            walk.pass_segment();
        }
        Walked::More
    }

    /// Passes over the pages that the last step has asked for, because they cannot be read.
    pub fn walk_past(&self, walk: &mut Walk) {
        let chunk = walk.current.as_mut().and_then(|current| {
            let end = self.chunk(current)?.items.end;
            current.next = end;
            Some(end)
        });
        if chunk.is_none() {
            walk.pass_segment();
        }
    }

    /// Visits the rows of the open units.
    fn walk_staged(
        &self,
        walk: &mut Walk,
        access: &dyn IndexAccess,
        visit: &mut impl FnMut(&Record<'_>),
    ) {
        walk.raw.clear();
        let staged: Vec<_> = {
            let writer = lock(&self.writer);
            let place = |row: &StagedRow| (row.hash, self.geometry.staged(row.number, row.hash));
            let units = writer.streams.iter().map(|stream| &stream.unit);
            units.clone().for_each(|unit| walk.raw.extend_from_slice(&unit.raw));
            units.flat_map(|unit| unit.rows.iter().map(place)).collect()
        };
        let mut rows = Rows::new(&walk.raw);
        for (hash, place) in staged {
            let row = rows.next_row().expect("as it was staged");
            if is_only_here(access, hash, place) && !self.flushed.has_begun_for(row.key) {
                visit(&record(&row));
            }
        }
    }

    /// One step in the present segment; `None` if that is at its end, or was used again.
    fn walk_segment(
        &self,
        walk: &mut Walk,
        pages: Option<&Pages>,
        access: &dyn IndexAccess,
        visit: &mut impl FnMut(&Record<'_>),
    ) -> Option<Walked> {
        let state = self.segments[walk.segment as usize].state();
        let (State::Buffered(sequence) | State::Written(sequence)) = state else { return None };
        if walk.current.as_ref().is_some_and(|current| current.sequence != sequence) {
            return None;
        }
        let Some(current) = &mut walk.current else {
            let (items, entry) = self.items_in_memory(walk.segment, sequence);
            let mut current = Current { sequence, items: None, entry, next: walk.start };
            if let Some(items) = items {
                current.enter(items, walk.start);
            }
            walk.current = Some(current);
            return Some(Walked::More);
        };
        if current.items.is_none() {
            let wanted = self.table_pages(walk.segment, current)?;
            let Some(pages) = pages.filter(|_| walk.asked == Some(wanted)) else {
                return Some(wait(&mut walk.asked, wanted));
            };
            match table::read_items(&self.geometry, current.entry?, pages.bytes()) {
                Ok(items) => current.enter(items, walk.start),
                Err(Damaged) => {
                    self.counters.damaged.add(1);
                    return None;
                }
            }
            return Some(Walked::More);
        }
        if !self.pass_dead(walk.segment, current, access) {
            return Some(Walked::More);
        }
        let chunk = self.chunk(current)?;
        let page = self.geometry.page_of(walk.segment) + chunk.pages.start as u64;
        let wanted = (page, chunk.pages.len());
        let is_buffered = matches!(state, State::Buffered(_));
        let copied = if is_buffered { self.copy_chunk(sequence, &chunk) } else { None };
        let bytes = match (&copied, pages) {
            (Some(copied), _) => copied,
            // Meanwhile the index may have left other units.
            (None, Some(pages)) if walk.asked == Some(wanted) => pages.bytes(),
            _ => return Some(wait(&mut walk.asked, wanted)),
        };
        self.walk_chunk(walk, &chunk, bytes, access, visit);
        Some(Walked::More)
    }

    /// The items of a segment that is in a buffer, or the entry of one that is written.
    fn items_in_memory(&self, segment: u32, sequence: u64) -> (Option<Vec<Item>>, Option<Entry>) {
        let writer = lock(&self.writer);
        if let Some(open) = writer.open_with(sequence) {
            return (Some(open.items.clone()), None);
        }
        if let Some(full) = writer.waiting.iter().find(|full| full.entry.sequence == sequence) {
            let items = table::read_items(&self.geometry, full.entry, full.pages.bytes());
            return (Some(items.expect("as it was written")), None);
        }
        let listed = writer.streams.iter().find_map(|Stream { written, .. }| written.get(sequence));
        (None, listed.filter(|listed| listed.segment == segment).map(|listed| listed.entry))
    }

    /// The pages of a segment's item table.
    fn table_pages(&self, segment: u32, current: &Current) -> Option<(u64, usize)> {
        let pages = (current.entry?.table_bytes as usize).div_ceil(PAGE_BYTES);
        let before = self.geometry.segment_pages().checked_sub(pages)?;
        Some((self.geometry.page_of(segment) + before as u64, pages))
    }

    /// Passes over units to whose rows the index does not lead. `false` if there were too many of
    /// them for one step.
    fn pass_dead(&self, segment: u32, current: &mut Current, access: &dyn IndexAccess) -> bool {
        let items = current.items.as_deref().unwrap_or_default();
        let mut passed = 0;
        for unit in table::units(&items[current.next..]) {
            if unit.iter().any(|item| self.is_led_to(segment, item, access)) {
                return true;
            }
            current.next += unit.len();
            passed += unit.len();
            if passed >= PASSED_MAX {
                return false;
            }
        }
        true
    }

    fn is_led_to(&self, segment: u32, item: &Item, access: &dyn IndexAccess) -> bool {
        !item.is_dead && is_only_here(access, item.hash, self.place_of(segment, item))
    }

    /// The next units; `None` behind the last.
    fn chunk(&self, current: &Current) -> Option<Chunk> {
        let items = current.items.as_deref()?;
        let first = items.get(current.next)?;
        let start_page = self.geometry.offset_of(first.granule) / PAGE_BYTES;
        let table_bytes = table::table_bytes(table::units(items).count(), items.len());
        let table_at = self.geometry.segment_bytes.checked_sub(table_bytes)?;
        let mut chunk = Chunk { items: current.next..current.next, pages: start_page..start_page };
        while let Some(unit) = items.get(chunk.items.end) {
            let is_same = |item: &&Item| item.granule == unit.granule;
            let rows = items[chunk.items.end..].iter().take_while(is_same).count();
            let next = items.get(chunk.items.end + rows);
            let end = next.map_or(table_at, |next| self.geometry.offset_of(next.granule));
            let mut end_page = end.div_ceil(PAGE_BYTES);
            if unit.span != SPAN_LONG {
                let page = self.geometry.offset_of(unit.granule) / PAGE_BYTES;
                end_page = end_page.min(page + usize::from(unit.span));
            }
            let is_first = chunk.items.is_empty();
            if !is_first && (end_page - start_page) * PAGE_BYTES > CHUNK_BYTES {
                break;
            }
            chunk.items.end += rows;
            chunk.pages.end = end_page.max(chunk.pages.end);
        }
        Some(chunk)
    }

    /// Copies units out of their buffer, if they are in one.
    fn copy_chunk(&self, sequence: u64, chunk: &Chunk) -> Option<Vec<u8>> {
        let writer = lock(&self.writer);
        let open = writer.open_with(sequence);
        let full = writer.waiting.iter().find(|full| full.entry.sequence == sequence);
        let pages = open.map(|open| &open.pages).or(full.map(|full| &*full.pages))?;
        let range = chunk.pages.start * PAGE_BYTES..chunk.pages.end * PAGE_BYTES;
        Some(pages.bytes().get(range)?.to_vec())
    }

    /// Visits the rows of units that were read.
    fn walk_chunk(
        &self,
        walk: &mut Walk,
        chunk: &Chunk,
        bytes: &[u8],
        access: &dyn IndexAccess,
        visit: &mut impl FnMut(&Record<'_>),
    ) {
        let Walk { current: Some(current), decoder, raw, segment, .. } = walk else { return };
        current.next = chunk.items.end;
        let items = current.items.as_deref().unwrap_or_default();
        for items in table::units(&items[chunk.items.clone()]) {
            let origin = Origin { sequence: current.sequence, granule: items[0].granule };
            let start = chunk.pages.start * PAGE_BYTES;
            let unit = bytes.get(self.geometry.offset_of(items[0].granule) - start..);
            let decoded = unit.ok_or(Damaged).and_then(|unit| {
                let raw_bytes_max = self.geometry.segment_bytes;
                unit::decode(origin, &self.dictionaries, unit, raw_bytes_max, decoder, raw)
            });
            let is_sound = decoded.is_ok_and(|head| head.rows == items.len());
            let mut rows = Rows::new(if is_sound { raw } else { &[] });
            for item in items {
                let Ok(row) = rows.next_row() else {
                    self.counters.damaged.add(1);
                    break;
                };
                let Origin { sequence, granule } = origin;
                // In this order: a flush is forgotten only once the segment has another sequence.
                if !self.flushed.takes(sequence, granule, row.key)
                    && !self.is_untimed(sequence, &row.fields)
                    && self.segments[*segment as usize].state().sequence() == Some(sequence)
                    && self.is_led_to(*segment, item, access)
                {
                    visit(&record(&row));
                }
            }
        }
    }
}

fn wait(asked: &mut Option<(u64, usize)>, wanted: (u64, usize)) -> Walked {
    *asked = Some(wanted);
    Walked::Wait { page: wanted.0, pages: wanted.1 }
}

/// Whether the index leads to a place and to nothing else for the same item: items that are in
/// memory as well are listed there.
fn is_only_here(access: &dyn IndexAccess, hash: u64, place: Place) -> bool {
    access.accesses(hash, place).is_some() && !access.is_spare(hash, place)
}

fn record<'r>(row: &Row<'r>) -> Record<'r> {
    Record { key: row.key, value: row.value, fields: row.fields }
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Walk").field("segment", &self.segment).finish_non_exhaustive()
    }
}
