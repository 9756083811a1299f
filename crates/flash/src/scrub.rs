//! Scrubbing: removes the items that flushes of prefixes have voided from the index, and notes that
//! they are dead, so that a flush ends without waiting until everything has been written anew.
//!
//! A *pass* goes through the segments from before the points of all present flushes, the oldest
//! first, one with each turn of the background, or as its caller has time for it
//! ([`Flash::scrub_on`]). It reads a segment's pages; for each flushed row to which the index still
//! leads, it notes the death in the journal and removes the word. Then no row with those prefixes
//! is left that is not dead on the device too, and the flushes have ended; flushes that came
//! meanwhile have the next pass.
//!
//! An open segment is looked at in a copy of its buffer when its turn comes: the items that the
//! flushes of the pass have taken were there before they returned, and so before the pass began,
//! while later units are not theirs. A death is noted in the segment's journal, which counts when
//! the segment has been written. The pass waits for a segment that waits to be written, or for
//! recovery. One that the device refuses is asked for during some seconds ([`mod@crate::refusal`]),
//! and a misread one is read once more. Then it is given up: its items leave the index, as where
//! collection cannot read it, and if it cannot be noted as free either it is distrusted. A cache
//! may lose a segment, and a pass that waited for it would keep all flushes from ending, for which
//! there is little room.

use ::io::device::Pages;
use codec::record::{Row, Rows};
use codec::{Damaged, Decoder};
use stdx::sync::lock;

use crate::chores::Chores;
use crate::list::ListedSegment;
use crate::refusal::{Refusal, Unread};
use crate::table::{self, Item};
use crate::unit::{self, Origin};
use crate::writer::{Stream, Writer};
use crate::{Flash, IndexAccess};

/// The position of the present pass; the default is none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scrub {
    /// The pass is for flushes up to this number; 0 if there is no pass.
    number: u64,
    /// It goes through the segments below this sequence,
    below: u64,
    /// and has been through those below this one.
    next: u64,
    /// The segment that it waits for, because it could not be read.
    refusal: Refusal,
}

/// The next step of a pass.
enum Step {
    /// Look at this segment.
    Segment(ListedSegment),
    /// Look at these items of an open segment, with this number and sequence, whose units have been
    /// copied.
    Open(u32, u64, Vec<Item>),
    /// Wait until a segment is written, or was recovered.
    Wait,
    /// The pass is at its end.
    End,
}

impl Flash {
    /// Makes one step of a pass, for a caller that knows how much time there is for it: from the
    /// first call on, [`Flash::maintain`] makes none. Returns whether there is another that need
    /// not wait.
    pub fn scrub_on(&self, access: &dyn IndexAccess, now: u32) -> bool {
        let mut chores = lock(&self.chores);
        chores.is_scrubbed_apart = true;
        !lock(&self.writer).is_closed && self.scrub(&mut chores, access, now)
    }

    /// Makes one step of a pass, if there is anything to scrub. Returns whether there is another
    /// that need not wait. Called with the lock of the chores held.
    pub(crate) fn scrub(&self, chores: &mut Chores, access: &dyn IndexAccess, now: u32) -> bool {
        if chores.scrub.number == 0 {
            let Some((number, below)) = self.flushed.latest() else { return false };
            chores.scrub = Scrub { number, below, ..Scrub::default() };
        }
        let Scrub { number, below, next, .. } = chores.scrub;
        if chores.pages.as_pages().is_empty() {
            chores.pages = Pages::zeroed(self.geometry.segment_pages());
        }
        // Not in the `match`: the lock would be held until the step is done.
        let step = self.scrub_step(&lock(&self.writer), next..below, &mut chores.pages);
        match step {
            Step::Wait => return false,
            Step::Segment(ListedSegment { entry, .. })
                if chores.scrub.refusal.holds(entry.sequence, now) =>
            {
                return false;
            }
            Step::Segment(listed) => match self.scrub_segment(listed, &mut chores.pages, access) {
                Ok(()) => chores.scrub.next = listed.entry.sequence + 1,
                Err(unread) => {
                    let may_come = chores.scrub.refusal.note(listed.entry.sequence, now, false);
                    let is_asked_again = may_come && matches!(unread, Unread::Refused);
                    if is_asked_again || !self.give_up(chores, access, listed) {
                        return false;
                    }
                    chores.scrub.next = listed.entry.sequence + 1;
                }
            },
            Step::Open(segment, sequence, items) => {
                let scrubbed = self.scrub_units((segment, sequence), &items, &chores.pages, access);
                scrubbed.expect("as it was put there");
                chores.scrub.next = sequence + 1;
            }
            Step::End => {
                self.end_flushes_up_to(number);
                chores.scrub = Scrub::default();
            }
        }
        chores.scrub.number != 0 || self.flushed.latest().is_some()
    }

    /// The next step for these sequences; copies the units of an open segment into `pages`.
    fn scrub_step(
        &self,
        writer: &Writer,
        sequences: std::ops::Range<u64>,
        pages: &mut Pages,
    ) -> Step {
        let oldest_of = |Stream { written, .. }: &Stream| written.from(sequences.start).copied();
        let oldest = writer.streams.iter().filter_map(oldest_of);
        let oldest = oldest.min_by_key(|listed| listed.entry.sequence);
        let is_ahead = |sequence: &u64| {
            sequences.contains(sequence)
                && oldest.is_none_or(|listed| *sequence < listed.entry.sequence)
        };
        let found = writer.found.iter().map(|found| found.entry.sequence);
        let waiting = writer.waiting.iter().map(|full| full.entry.sequence);
        if found.chain(waiting).any(|sequence| is_ahead(&sequence)) {
            return Step::Wait;
        }
        let open = writer.streams.iter().filter_map(|stream| stream.open.as_ref());
        let open = open.filter(|open| is_ahead(&open.sequence)).min_by_key(|open| open.sequence);
        if let Some(open) = open {
            pages.bytes_mut()[..open.end].copy_from_slice(&open.pages.bytes()[..open.end]);
            return Step::Open(open.segment, open.sequence, open.items.clone());
        }
        match oldest.filter(|listed| sequences.contains(&listed.entry.sequence)) {
            Some(listed) => Step::Segment(listed),
            None => Step::End,
        }
    }

    /// Removes the flushed items of a segment. An error says that not all of it could be read.
    fn scrub_segment(
        &self,
        listed: ListedSegment,
        pages: &mut Pages,
        access: &dyn IndexAccess,
    ) -> Result<(), Unread> {
        let items = match self.read_segment(listed, pages) {
            Err(Unread::Damaged) => self.read_segment(listed, pages)?,
            read => read?,
        };
        Ok(self.scrub_units((listed.segment, listed.entry.sequence), &items, pages, access)?)
    }

    /// Removes the flushed items of a segment whose items and pages have been read.
    fn scrub_units(
        &self,
        (segment, sequence): (u32, u64),
        items: &[Item],
        pages: &Pages,
        access: &dyn IndexAccess,
    ) -> Result<(), Damaged> {
        let (mut decoder, mut raw) = (Decoder::new(), Vec::new());
        for items in table::units(items) {
            let is_led_to = |item: &Item| {
                let place = self.place_of(segment, item);
                !item.is_dead && access.accesses(item.hash, place).is_some()
            };
            if !items.iter().any(is_led_to) {
                continue;
            }
            let granule = items[0].granule;
            let origin = Origin { sequence, granule };
            let unit = pages.bytes().get(self.geometry.offset_of(granule)..).ok_or(Damaged)?;
            let raw_bytes_max = self.geometry.segment_bytes;
            let dictionaries = &self.dictionaries;
            let decoded =
                unit::decode(origin, dictionaries, unit, raw_bytes_max, &mut decoder, &mut raw);
            if decoded.is_err() {
                self.counters.damaged.add(1);
            }
            let mut rows = Rows::new(if decoded.is_ok() { &raw } else { &[] });
            for item in items {
                // A damaged unit may be of the prefix, and be read soundly when the flush has
                // ended.
                let takes = |row: Row<'_>| self.flushed.takes(origin.sequence, granule, row.key);
                if rows.next_row().map_or(true, takes) {
                    self.scrub_item(segment, item, access);
                }
            }
            // Before the next unit may make it overflow.
            self.turn_into_filter(segment);
        }
        Ok(())
    }

    /// Takes an item out of the index, and notes its death before: a client that asks for the key
    /// may be told that there is none as soon as the index leads nowhere.
    fn scrub_item(&self, segment: u32, item: &Item, access: &dyn IndexAccess) {
        let place = self.place_of(segment, item);
        if item.is_dead || access.accesses(item.hash, place).is_none() {
            return;
        }
        self.journal(segment, item.granule, item.hash);
        if access.remove(item.hash, place) {
            self.counters.dropped.add(1);
            self.counters.items_gone(1);
        }
    }

    /// Reads all of a segment, and returns its items.
    fn read_segment(&self, listed: ListedSegment, pages: &mut Pages) -> Result<Vec<Item>, Unread> {
        let page = self.geometry.page_of(listed.segment);
        if self.device.read(page, pages.as_pages_mut()).is_err() {
            self.counters.io_errors.add(1);
            return Err(Unread::Refused);
        }
        let table_pages = (listed.entry.table_bytes as usize).div_ceil(::io::device::PAGE_BYTES);
        let before = self.geometry.segment_pages().checked_sub(table_pages).ok_or(Damaged)?;
        let bytes = &pages.bytes()[before * ::io::device::PAGE_BYTES..];
        Ok(table::read_items(&self.geometry, listed.entry, bytes)?)
    }
}
