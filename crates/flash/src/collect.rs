//! Collection: makes a segment free, in two stages.
//!
//! The number of free segments decides between the two ([`mod@crate::watermarks`]).
//!
//! *Recycling* takes the least recently used cold segment. The index is asked about each row of its
//! item table: a row that it still leads to and that was read since it was stored is staged again
//! in the cold area, with its accesses at 0, unless it is in memory as well; the others leave the
//! index. While the hot area is to take in segments that a step of its size has chosen
//! ([`mod@crate::window`]), one of these is taken instead when there is room, and its rows that
//! were read as often as the index can count are staged in the hot area. While the hot area has
//! more segments than it is to have, one of those is taken, and all its live rows are compressed
//! into the cold area, with their accesses at 0 again.
//!
//! The paper moves read rows to the hot area wherever collection meets them, and drops rows that
//! were not read there. But collection meets the rows that were read longest ago: they are hardly
//! ever read again, a row that is stored as it is, only to be compressed again, is written more
//! than three times instead of once, and the most read rows never come to the hot area, since their
//! segments are not collected. And that area may be small, and a stay there short: each read of an
//! item is worth one more round in the cold area, wherever it spends the time until then.
//!
//! A hot area of a fixed size has no steps. It takes in the rows that were read as often as the
//! index can count and, while it lacks segments, all rows that were read, wherever collection meets
//! them.
//!
//! *Eviction*, when hardly any segment is free, takes the least recently used cold segment and
//! moves nothing, so that stores find room: only the item table is read, to clean the index.
//!
//! An index may have no room for more items while most segments are free: where items are small.
//! Then the least recently used cold segment is *thinned out*, which is recycling for the sake of
//! the index's words: rows that were read have a word already, and move. The next segment is
//! evicted whole if more rows moved than left, so that collection writes less than it makes room
//! for, even where every row was read.
//!
//! A segment whose table entry cannot be zeroed stays as it is, and is *passed over*: its turn
//! comes again when as many have been opened as there are. If it stayed the least recently used
//! one, a page of the table that cannot be written would keep all others from being collected. But
//! the device may take no note at all, and then the order of segments is to stay as it was. What
//! decides is the next segment whose entry is zeroed, in this call or a later one: then the first
//! that was refused is asked for again, and if it is refused again the device takes notes but
//! there. Otherwise those refused behind it are as they were before. So are they all when none is
//! left that was not refused.
//!
//! A segment that the device refuses to read stays as it is, too, if the device reads no other: its
//! path may be gone for a moment. Collection waits, and after some seconds ([`mod@crate::refusal`])
//! gives the segment up, and then another one as late. If others are read and this one is refused
//! once more, it is bad, and given up at once: its items leave the index.
//!
//! In all of them, the segment's table entry is zeroed before anything moves, because an item that
//! is staged again can be forgotten without a note. A process that is killed after that must not
//! find the item in the segment it came from. The items of this one segment that are in memory only
//! are lost with it.

use ::io::device::{PAGE_BYTES, Pages};
use codec::record::{Record, Row, Rows};
use codec::{Damaged, Decoder};
use stdx::sync::lock;

use crate::area::Area;
use crate::chores::Chores;
use crate::flash::State;
use crate::geometry::Spot;
use crate::list::ListedSegment;
use crate::refusal::{Refusal, Unread};
use crate::stage::Intake;
use crate::stats::Counters;
use crate::table::{self, Item};
use crate::unit::{self, Origin};
use crate::watermarks::{FREE_PRESSED, Watermarks};
use crate::writer::Writer;
use crate::{Flash, IndexAccess, Place, Refused};

/// Segments that a call tries to collect if they cannot be noted as free: the device may take
/// seconds to refuse each.
const REFUSED_MAX: usize = 4;

/// Segments that may be passed over before one is collected: those of 32 pages of the segment
/// table.
const PASSED_MAX: usize = 4096;

/// Collection waits for any segment that can be read: no segment has this sequence.
const ANY: u64 = 0;

/// A segment that is passed over, and the stamp that it had before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    listed: ListedSegment,
    stamp: u64,
}

/// The purpose of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A free segment.
    Room,
    /// Words of the index: rows that were read move, if there is room for them.
    Words,
    /// Words, at once: nothing moves.
    WordsNow,
}

/// The choice of a segment to collect.
enum Choice {
    Nothing,
    /// A segment was free at once.
    Freed,
    Victim(Victim),
}

/// The segment that is collected.
#[derive(Clone, Copy)]
struct Victim {
    listed: ListedSegment,
    /// Flushes until it was chosen.
    flushes: u64,
    /// Rows that were read move; `false` if hardly any segment is free.
    moves: bool,
    /// Rows with at least this many accesses move to the hot area, if there is one.
    hot_accesses: Option<u8>,
    /// If it cannot be read its items are lost, though the device may read no other segment either.
    is_last_try: bool,
}

/// What came of clearing a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cleared {
    /// It is free.
    Freed,
    /// It stays: the device reads neither this one nor others.
    Unread,
    /// It stays: the device refuses the note that it is free.
    Unnoted,
}

impl Victim {
    /// The area that a row with this many accesses moves to.
    fn moves_to(&self, accesses: u8) -> Area {
        let was_cold = self.listed.entry.area == Area::Cold;
        let is_hot = was_cold && self.hot_accesses.is_some_and(|wanted| accesses >= wanted);
        if is_hot { Area::Hot } else { Area::Cold }
    }
}

impl Flash {
    pub(crate) fn wants_collection(&self, chores: &mut Chores) -> bool {
        let Watermarks { low, high } = self.watermarks;
        let free = lock(&self.writer).free_segments();
        chores.is_collecting = free < if chores.is_collecting { high } else { low };
        chores.is_collecting
    }

    /// Evicts the least recently used segment, however much room there is: for a caller whose index
    /// has none for more items. Segments not recovered yet are older, and voided first: they have
    /// no words. `false` if there is none, or the device refuses.
    pub fn evict(&self, access: &dyn IndexAccess) -> bool {
        let mut chores = lock(&self.chores);
        if lock(&self.writer).is_closed {
            return false;
        }
        self.forgo_found();
        self.collect(&mut chores, access, 0, Need::WordsNow)
    }

    /// As [`Flash::evict`], but rows that were read since they were stored are stored again; only a
    /// segment that follows one of which more rows stayed than left is evicted whole. `false` also
    /// while the device refuses writes: nothing comes in that needs words, and no row could move.
    pub fn thin_out(&self, access: &dyn IndexAccess, now: u32) -> bool {
        let mut chores = lock(&self.chores);
        if lock(&self.writer).is_closed || self.is_failing() {
            return false;
        }
        let need = if chores.evicts_next { Need::WordsNow } else { Need::Words };
        let Counters { restaged, dropped, .. } = &self.counters;
        let before = (restaged.get(), dropped.get());
        let is_collected = self.collect(&mut chores, access, now, need);
        chores.evicts_next = restaged.get() - before.0 > dropped.get() - before.1;
        is_collected
    }

    /// Collects a segment. `false` if there is none, or the device refuses.
    pub(crate) fn collect(
        &self,
        chores: &mut Chores,
        access: &dyn IndexAccess,
        now: u32,
        need: Need,
    ) -> bool {
        if need != Need::WordsNow && chores.unread.holds(ANY, now) {
            return false;
        }
        let is_last_try = chores.unread.is_over();
        for _ in 0..REFUSED_MAX {
            match self.choose_victim(need) {
                Choice::Nothing => return false,
                Choice::Freed => return true,
                Choice::Victim(victim) => {
                    let victim = Victim { is_last_try, ..victim };
                    let listed = victim.listed;
                    let (stamp, _) = self.used(&listed);
                    let cleared = self.clear(chores, access, now, victim);
                    if cleared == Cleared::Freed {
                        chores.unread = Refusal::default();
                        self.judge_passed(chores, access, now, victim);
                        return true;
                    }
                    if cleared == Cleared::Unread {
                        // `now` is unknown to those who ask for words at once.
                        if need != Need::WordsNow {
                            chores.unread.note(ANY, now, false);
                        }
                        return false;
                    }
                    if self.is_passed_over(stamp) || chores.passed.len() == PASSED_MAX {
                        // None is left that was not refused: no order is better than the old one.
                        self.restore_stamps(&std::mem::take(&mut chores.passed));
                        return false;
                    }
                    self.pass_over(listed.segment);
                    chores.passed.push(Passed { listed, stamp });
                }
            }
        }
        false
    }

    /// Decides, when a segment was collected, whether those refused before it stay passed over.
    fn judge_passed(
        &self,
        chores: &mut Chores,
        access: &dyn IndexAccess,
        now: u32,
        collected: Victim,
    ) {
        let passed = std::mem::take(&mut chores.passed);
        let Some((first, others)) = passed.split_first() else { return };
        let victim = {
            let mut writer = lock(&self.writer);
            let flushes = writer.flushes;
            let written = &mut writer.stream(first.listed.entry.area).written;
            let taken = written.take(first.listed.entry.sequence);
            taken.map(|listed| Victim { listed, flushes, ..collected })
        };
        let is_free = |victim| self.clear(chores, access, now, victim) == Cleared::Freed;
        if victim.is_none_or(is_free) {
            self.restore_stamps(others);
        }
    }

    /// Gives segments that were passed over the stamps that they had before.
    fn restore_stamps(&self, passed: &[Passed]) {
        // No other use of one of them begins meanwhile.
        let _writer = lock(&self.writer);
        for Passed { listed, stamp } in passed {
            let known = &self.segments[listed.segment as usize];
            if known.state() == State::Written(listed.entry.sequence) {
                known.usage.restore(*stamp);
            }
        }
    }

    /// Takes an unreadable segment out of use: the items that its item table names leave the index,
    /// or else all places in it. If the segment cannot be noted as free it stays, with nothing in
    /// it, neither now nor at the next start. Called with the lock of the chores held. `false` if
    /// the device takes no note at all.
    pub(crate) fn give_up(
        &self,
        chores: &mut Chores,
        access: &dyn IndexAccess,
        listed: ListedSegment,
    ) -> bool {
        let flushes = {
            let mut writer = lock(&self.writer);
            let written = &mut writer.stream(listed.entry.area).written;
            if written.take(listed.entry.sequence).is_none() {
                // A flush of everything has freed it.
                return true;
            }
            writer.flushes
        };
        let (moves, hot_accesses, is_last_try) = (false, None, true);
        let victim = Victim { listed, flushes, moves, hot_accesses, is_last_try };
        let cleared = self.clear(chores, access, 0, victim);
        if cleared == Cleared::Freed || lock(&self.writer).flushes != flushes {
            return true;
        }
        let is_told = self.distrust(listed.segment);
        if is_told {
            self.drop_unnamed(access, listed.segment);
        }
        is_told
    }

    /// Moves the rows to keep out of a segment, and frees it, unless the device refuses.
    fn clear(
        &self,
        chores: &mut Chores,
        access: &dyn IndexAccess,
        now: u32,
        mut victim: Victim,
    ) -> Cleared {
        let segment = victim.listed.segment;
        if chores.pages.as_pages().is_empty() {
            chores.pages = Pages::zeroed(self.geometry.segment_pages());
        }
        let mut read = self.read_victim(&victim, &mut chores.pages);
        if matches!(read, Err(Unread::Refused)) && !victim.is_last_try {
            if !self.reads_others(segment, now) {
                self.keep(&victim);
                return Cleared::Unread;
            }
            read = self.read_victim(&victim, &mut chores.pages);
        }
        if read.is_err() && victim.moves {
            // Nothing can be moved, but the items that the item table alone names leave the index.
            victim.moves = false;
            read = self.read_victim(&victim, &mut chores.pages);
        }
        if self.invalidate(segment).is_err() {
            self.counters.io_errors.add(1);
            self.keep(&victim);
            return Cleared::Unnoted;
        }
        match read {
            Err(_) => self.drop_unnamed(access, segment),
            Ok(items) if !victim.moves => {
                self.counters.evicted.add(1);
                for items in table::units(&items) {
                    access.yield_now();
                    for item in items.iter().filter(|item| !item.is_dead) {
                        self.drop_item(access, item.hash, self.place_of(segment, item));
                    }
                }
            }
            Ok(items) => self.sort_out(&victim, &items, &chores.pages, access, now),
        }
        self.free_segment(&mut lock(&self.writer), segment);
        self.counters.collected.add(1);
        Cleared::Freed
    }

    /// Puts a segment that was not cleared back on its list, unless it was flushed.
    fn keep(&self, victim: &Victim) {
        let mut writer = lock(&self.writer);
        if writer.flushes == victim.flushes {
            writer.stream(victim.listed.entry.area).list(victim.listed);
        } else {
            self.free_segment(&mut writer, victim.listed.segment);
        }
    }

    /// Removes all places in an unreadable segment from the index. Looks at the whole index: words
    /// that stayed would lead nowhere, and count against its limit, for good. That takes long with
    /// many items in the index, but segments that a device refuses to read are given up one by one.
    fn drop_unnamed(&self, access: &dyn IndexAccess, segment: u32) {
        let is_there = |place| self.geometry.locate(place).is_some_and(|it| it.segment == segment);
        let removed = access.remove_where(&is_there);
        self.counters.dropped.add(removed);
        self.counters.items_gone(removed as i64);
    }

    /// Reads the segment, or only its item table if nothing moves, and returns its items.
    fn read_victim(&self, victim: &Victim, pages: &mut Pages) -> Result<Vec<Item>, Unread> {
        let ListedSegment { segment, entry } = victim.listed;
        let table_pages = (entry.table_bytes as usize).div_ceil(PAGE_BYTES);
        let before = self.geometry.segment_pages() - table_pages;
        let first = if !victim.moves { before } else { 0 };
        let page = self.geometry.page_of(segment) + first as u64;
        if self.device.read(page, &mut pages.as_pages_mut()[first..]).is_err() {
            self.counters.io_errors.add(1);
            return Err(Unread::Refused);
        }
        let items = table::read_items(&self.geometry, entry, &pages.bytes()[before * PAGE_BYTES..]);
        if items.is_err() {
            self.counters.damaged.add(1);
        }
        Ok(items?)
    }

    /// Takes a segment off its list. While some were found at the start and not given to the index
    /// yet, the oldest of these is free at once, as it is older than all others: later ones come
    /// first ([`mod@crate::recover`]), and nobody has read its items since.
    fn choose_victim(&self, need: Need) -> Choice {
        let mut writer = lock(&self.writer);
        let free = writer.free_segments();
        let is_pressed = need != Need::Room || free < FREE_PRESSED;
        let sequence = |listed: Option<&ListedSegment>| listed.map(|it| it.entry.sequence);
        let written = writer.streams.iter().filter_map(|stream| sequence(stream.written.front()));
        let written = written.min();
        if let Some(found) = sequence(writer.found.front())
            && written.is_none_or(|written| found < written)
        {
            let found = writer.found.pop_front().expect("it has a front");
            self.reject(found);
            self.free_segment(&mut writer, found.segment);
            self.counters.collected.add(1);
            self.counters.forgone.add(1);
            return Choice::Freed;
        }
        let chosen = if is_pressed { None } else { self.choose_for_hot(&mut writer) };
        let is_chosen = chosen.is_some();
        let Some(listed) = chosen.or_else(|| self.choose_usual(&mut writer, is_pressed)) else {
            return Choice::Nothing;
        };
        let hot_segments = writer.segments(Area::Hot);
        let hot_accesses = writer.hot_target.accesses(hot_segments, is_chosen);
        let flushes = writer.flushes;
        let moves = !is_pressed || need == Need::Words && free >= self.watermarks.low;
        Choice::Victim(Victim { listed, flushes, moves, hot_accesses, is_last_try: false })
    }

    /// Takes a segment off its list whose rows a step of the hot area's size takes in. They take up
    /// more room there than they leave: while few segments are free, others are collected first.
    pub(crate) fn choose_for_hot(&self, writer: &mut Writer) -> Option<ListedSegment> {
        let lacks = writer.hot_target.lacks(writer.segments(Area::Hot));
        let has_room = writer.free_segments() >= self.watermarks.low;
        if lacks && has_room { self.take_chosen(writer.stream(Area::Cold)) } else { None }
    }

    /// Takes the least valuable segment off its list: of the hot area if that has more than it is
    /// to have, unless room is needed at once.
    fn choose_usual(&self, writer: &mut Writer, is_pressed: bool) -> Option<ListedSegment> {
        let is_above = writer.segments(Area::Hot) > writer.hot_target.segments() as usize;
        let first = if is_above && !is_pressed { Area::Hot } else { Area::Cold };
        let is_fixed = writer.hot_target.is_fixed();
        let take = |writer: &mut Writer, area: Area| {
            let written = &mut writer.stream(area).written;
            let is_taken_in = area == Area::Hot && !is_fixed;
            if is_taken_in { self.take_last_in(written) } else { self.take_least_used(written) }
        };
        let Some(listed) = take(writer, first) else { return take(writer, first.other()) };
        if !self.is_passed_over(self.used(&listed).0) {
            return Some(listed);
        }
        // One that cannot be collected does not keep those of the other area from it.
        let Some(other) = take(writer, first.other()) else { return Some(listed) };
        let is_better = !self.is_passed_over(self.used(&other).0);
        let (chosen, left) = if is_better { (other, listed) } else { (listed, other) };
        writer.stream(left.entry.area).list(left);
        Some(chosen)
    }

    /// Moves or removes each item of a segment.
    fn sort_out(
        &self,
        victim: &Victim,
        items: &[Item],
        pages: &Pages,
        access: &dyn IndexAccess,
        now: u32,
    ) {
        let ListedSegment { segment, entry } = victim.listed;
        let (mut decoder, mut raw, mut wanted) = (Decoder::new(), Vec::new(), Vec::new());
        for items in table::units(items) {
            access.yield_now();
            wanted.clear();
            for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_dead) {
                let place = self.place_of(segment, item);
                match access.accesses(item.hash, place) {
                    None => {}
                    Some(_) if self.drop_spare(access, item.hash, place) => {}
                    Some(accesses) if accesses > 0 || entry.area == Area::Hot => {
                        wanted.push((index, victim.moves_to(accesses)));
                    }
                    Some(_) => self.drop_item(access, item.hash, place),
                }
            }
            if wanted.is_empty() {
                continue;
            }
            let unit = pages.bytes().get(self.geometry.offset_of(items[0].granule)..);
            let origin = Origin { sequence: entry.sequence, granule: items[0].granule };
            let decoded = unit.ok_or(Damaged).and_then(|unit| {
                let raw_bytes_max = self.geometry.segment_bytes;
                let dictionaries = &self.dictionaries;
                unit::decode(origin, dictionaries, unit, raw_bytes_max, &mut decoder, &mut raw)
            });
            let rows = decoded.and_then(|head| rows(&raw, head.rows, items.len()));
            if rows.is_err() {
                self.counters.damaged.add(1);
            }
            for &(index, area) in &wanted {
                let (item, place) = (&items[index], self.place_of(segment, &items[index]));
                let row = rows.as_ref().ok().map(|rows| &rows[index]);
                let row = row.filter(|row| {
                    !row.fields.is_expired(now) && !self.is_untimed(entry.sequence, &row.fields)
                });
                if !row.is_some_and(|row| self.move_row(victim, area, item, row, access)) {
                    self.drop_item(access, item.hash, place);
                }
            }
        }
    }

    /// Stages an item again, in the area that it moves to. `false` if there is no room for it, or
    /// if it was flushed.
    fn move_row(
        &self,
        victim: &Victim,
        area: Area,
        item: &Item,
        row: &Row<'_>,
        access: &dyn IndexAccess,
    ) -> bool {
        let ListedSegment { segment, entry } = victim.listed;
        let (hash, from) = (item.hash, self.place_of(segment, item));
        let record = Record { key: row.key, value: row.value, fields: row.fields };
        for attempt in 0..2 {
            let mut writer = lock(&self.writer);
            // Moved rows may take more room than they leave, but not the last.
            if writer.flushes != victim.flushes
                || writer.free_segments() < FREE_PRESSED
                || self.flushed.takes(entry.sequence, item.granule, row.key)
            {
                return false;
            }
            match self.take_row(&mut writer, area, hash, &record, Intake::Moved, access) {
                Ok(place) if access.relocate(hash, from, place) => {
                    self.counters.restaged.add(1);
                    let is_moved = area != entry.area;
                    self.counters.areas[area.index()].moved_in.add(is_moved.into());
                    return true;
                }
                Ok(_) => {
                    writer.stream(area).unit.pop();
                    return true;
                }
                Err(Refused::Busy) if attempt == 0 => {
                    drop(writer);
                    self.write_waiting(access);
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// The place of an item of an item table.
    pub(crate) fn place_of(&self, segment: u32, item: &Item) -> Place {
        let spot = Spot { segment, granule: item.granule };
        self.geometry.sealed(spot, item.span, item.hash)
    }
}

/// The rows of a unit, if they are as many as its head and the item table say.
fn rows(raw: &[u8], expected: usize, listed: usize) -> Result<Vec<Row<'_>>, Damaged> {
    let (mut rows, mut rest) = (Vec::with_capacity(listed), Rows::new(raw));
    while !rest.is_empty() {
        let row = rest.next_row()?;
        rows.push(row);
    }
    let is_sound = rows.len() == expected && rows.len() == listed;
    if is_sound && rows.iter().all(|row| !row.long) { Ok(rows) } else { Err(Damaged) }
}
