//! Scrubbing: takes what flushes of prefixes have made void out of the index, and notes that it is
//! dead, so that a flush is over without waiting until everything has been written anew.
//!
//! A *pass* goes through the segments of before the points of all flushes that there are when it
//! begins, from the oldest on, one with each turn of the background, or as its caller has time for
//! it ([`Flash::scrub_on`]): its pages are read, and of each row to which the index still leads,
//! and which was flushed, the word is removed and the death noted in the journal. Nothing with
//! those prefixes is left then that is not dead on the device too, and the flushes of the beginning
//! are over; those that came meanwhile have the next pass.
//!
//! An open segment is looked at in its buffer when its turn comes, of which a copy is made: what
//! the flushes of the pass have taken was there before they returned, and so before the pass began,
//! while the units that come later are not theirs. A death is noted in the segment's journal, which
//! counts when the segment has been written. A segment that waits to be written, or for recovery,
//! is waited for. One that the device refuses is asked for some seconds long
//! ([`mod@crate::refusal`]), what is misread is read once more, and then it is given up: what it
//! holds leaves the index, as where collection cannot read it, and where it cannot be noted as free
//! either it is distrusted. A cache may lose a segment, and a
//! pass that waited for it would keep all flushes from ending, for which there is little room.

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

/// Where the present pass stands; the default is none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scrub {
    /// The flushes that it is for: those up to this number; 0: there is no pass.
    number: u64,
    /// It goes through the segments below this sequence,
    below: u64,
    /// and has been through those below this one.
    next: u64,
    /// What it waits for, because it could not be read.
    refusal: Refusal,
}

/// What a pass does next.
enum Step {
    /// To look at this segment.
    Segment(ListedSegment),
    /// To look at these items of an open segment, with this number and sequence, whose units have
    /// been copied.
    Open(u32, u64, Vec<Item>),
    /// To wait until a segment is written, or was recovered.
    Wait,
    /// It is at its end.
    End,
}

impl Flash {
    /// One step of a pass, for whoever knows how much time there is for it: from the first call on,
    /// [`Flash::maintain`] makes none. Returns whether there is another that has not to wait.
    pub fn scrub_on(&self, access: &dyn IndexAccess, now: u32) -> bool {
        let mut chores = lock(&self.chores);
        chores.is_scrubbed_apart = true;
        !lock(&self.writer).is_closed && self.scrub(&mut chores, access, now)
    }

    /// One step of a pass, if there is anything to be scrubbed. Returns whether there is another
    /// that has not to wait. The lock of chores is held.
    pub(crate) fn scrub(&self, chores: &mut Chores, access: &dyn IndexAccess, now: u32) -> bool {
        if chores.scrub.number == 0 {
            let Some((number, below)) = self.flushed.latest() else { return false };
            chores.scrub = Scrub { number, below, ..Scrub::default() };
        }
        let Scrub { number, below, next, .. } = chores.scrub;
        if chores.pages.as_pages().is_empty() {
            chores.pages = Pages::zeroed(self.geometry.segment_pages());
        }
        // Not in what is matched: the lock would be held until the step is done.
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
                    let may_come = chores.scrub.refusal.note(listed.entry.sequence, now);
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

    /// What comes next of these sequences; copies the units of an open segment into `pages`.
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

    /// Removes what was flushed in a segment. An error says that not all of it could be read.
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

    /// The same where its items and pages are at hand.
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
                // What is damaged may be of the prefix, and be read soundly when the flush is over.
                let takes = |row: Row<'_>| self.flushed.takes(origin.sequence, granule, row.key);
                if rows.next_row().map_or(true, takes) {
                    self.scrub_item(segment, item, access);
                }
            }
            // Before the next unit may make it run over.
            self.turn_into_filter(segment);
        }
        Ok(())
    }

    /// Takes an item out of the index, and notes its death before: who asks for the key may be told
    /// that there is none as soon as the index leads nowhere.
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
