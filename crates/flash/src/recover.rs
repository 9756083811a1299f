//! Recovery: gives the index the items found on the device at the start, while the tier is in use.
//!
//! The newest segments come first: the items that a clean stop has saved, above all those of the
//! hot zone, are there before clients have missed and stored them anew, and if there is not room
//! for everything the oldest items go. No two rows of a key are alive on the device, so that the
//! order does not affect correctness. For each segment, the item table and the journal are read,
//! and the index is given every item that is not dead. An item that it does not take is dead from
//! then on, on the device too: its key was changed since the start. An index that has no room for
//! an item is asked to make some: memory may have filled up meanwhile with clients' stores. If it
//! may not lead to more items ([`IndexAccess::takes_found`]), because a process with more memory
//! has left them, those not found by then are made void.
//!
//! Between the start and its segment's turn an item can die without a note in its journal, because
//! it is not known yet where it lies. That is why the superblock names the segments still to come
//! as *unsettled*, and why keys that change meanwhile are noted ([`mod@crate::changes`]): if this
//! process ends before, the next one takes an item of such a key for dead. A segment is settled
//! when the index has been given its items, and those it did not take are journalled, or when its
//! table entry is zeroed. Only then does the range of unsettled sequences end below it: it shrinks
//! from above, and everything stored by this process lies above it from the beginning.
//!
//! A segment that the device refuses to read is asked for during some seconds
//! ([`mod@crate::refusal`]), and so is its dictionary, without which all that name it are void.
//! Older segments wait too, because an item not found yet has to be older than those found. Where
//! the device reads other places they wait for a minute in all.

use std::collections::VecDeque;
use std::ops::Range;

use ::io::device::{PAGE_BYTES, Pages};
use codec::Damaged;
use stdx::random::mix;
use stdx::sync::lock;

use crate::dead::{self, Dead, Found};
use crate::flash::State;
use crate::list::ListedSegment;
use crate::refusal::{Refusal, Unread};
use crate::table::{self, Entry, Item};
use crate::{Flash, IndexAccess, Inserted};

/// Segments that a call reads.
const SEGMENTS_A_CALL: usize = 8;
/// Items that the index is given while the writer's lock is held.
const ITEMS_A_LOCK: usize = 256;
/// Times that a full index is asked to make room for the items of a segment, each time for one that
/// found none.
const ROOM_ATTEMPTS: usize = 16;
/// Other segments that are asked for when one is refused, at random, until one can be read.
const OTHERS_MAX: u64 = 4;

impl Flash {
    /// Gives the index the items of the next few segments of those found at the start, the newest
    /// first. `true` while there are more that need not wait for another second because the device
    /// refuses to read ([`Flash::is_recovering`] says whether there are any). Nothing is done once
    /// the tier is closed: its notes are synced then, and nothing may be added to them. Items
    /// expired by `now` are found to be so when they are read.
    pub fn recover(&self, access: &dyn IndexAccess, now: u32) -> bool {
        let mut chores = lock(&self.chores);
        if lock(&self.writer).is_closed {
            return false;
        }
        let mut waits = false;
        for _ in 0..SEGMENTS_A_CALL {
            if !access.takes_found() {
                self.forgo_found();
                break;
            }
            let (found, flushes) = {
                let mut writer = lock(&self.writer);
                let next = writer.found.back();
                waits = next.is_some_and(|found| chores.refusal.holds(found.entry.sequence, now));
                if waits {
                    break;
                }
                (writer.found.pop_back(), writer.flushes)
            };
            let Some(found) = found else { break };
            let number = found.entry.dictionary;
            if chores.lost_dictionaries[usize::from(number)] {
                self.counters.forgone.add(1);
                self.give(found, &[], &Dead::none(), flushes, access);
                continue;
            }
            let mut read = self.read_found(found);
            let is_asked_at_once = match read {
                Ok(_) => false,
                Err(Unread::Damaged) => true,
                Err(Unread::Refused) => chores.refusal.is_spent(),
            };
            if is_asked_at_once {
                // One misread does not lose a segment.
                read = self.read_found(found);
            }
            match read {
                Ok((items, dead)) => self.give(found, &items, &dead, flushes, access),
                Err(Unread::Refused) if self.may_come(&mut chores.refusal, found, now) => {
                    self.put_back(found, flushes);
                }
                Err(Unread::Refused | Unread::Damaged) => {
                    let has_dictionary = number == 0 || self.dictionaries.get(number).is_some();
                    chores.lost_dictionaries[usize::from(number)] = !has_dictionary;
                    self.counters.damaged.add(1);
                    self.give(found, &[], &Dead::none(), flushes, access);
                }
            }
        }
        let unsettled = {
            let mut writer = lock(&self.writer);
            if writer.found.is_empty() {
                // No more will be found: on a device of a TiB the list has tens of MB.
                writer.found = VecDeque::new();
            }
            let sequence = |listed: &ListedSegment| listed.entry.sequence;
            let ends = (writer.found.front().map(sequence), writer.found.back().map(sequence));
            if let (Some(first), Some(last)) = ends { first..last + 1 } else { 0..0 }
        };
        let is_more = !unsettled.is_empty();
        self.settle_all_but(unsettled);
        if !is_more {
            self.end_changes();
        }
        is_more && !waits
    }

    /// Notes that a segment was refused. Returns whether to ask for it again in another second.
    fn may_come(&self, refusal: &mut Refusal, found: ListedSegment, now: u32) -> bool {
        let ListedSegment { segment, entry } = found;
        // Most of the cold area may be lost with a dictionary, and there are few.
        let has_dictionary =
            entry.dictionary == 0 || self.dictionaries.get(entry.dictionary).is_some();
        let reads_others = has_dictionary && self.reads_others(segment, now);
        refusal.note(entry.sequence, now, reads_others)
    }

    /// Whether the device, which has just refused a segment, reads the last page of some other one.
    pub(crate) fn reads_others(&self, refused: u32, now: u32) -> bool {
        let mut page = Pages::zeroed(1);
        let first = mix(u64::from(now) << 32 | u64::from(refused));
        (0..OTHERS_MAX).any(|number| {
            let other = (mix(first ^ number) % u64::from(self.geometry.segments)) as u32;
            let last = self.geometry.page_of(other) + self.geometry.segment_pages() as u64 - 1;
            other != refused && self.device.read(last, page.as_pages_mut()).is_ok()
        })
    }

    /// Puts a segment back to be found another time, unless it was flushed.
    fn put_back(&self, found: ListedSegment, flushes: u64) {
        let mut writer = lock(&self.writer);
        if writer.flushes == flushes {
            writer.found.push_back(found);
        } else {
            self.reject(found);
            self.free_segment(&mut writer, found.segment);
        }
    }

    /// Reads a dictionary that the device refused when it was opened, without which the segments
    /// that name it are of no use. It becomes the current one if there is none yet. Called with the
    /// lock of the chores held.
    fn read_dictionary(&self, number: u8) -> Result<(), Unread> {
        if number == 0 || self.dictionaries.get(number).is_some() {
            return Ok(());
        }
        let encodes = lock(&self.writer).dictionary.is_none();
        let Ok(read) = self.dictionaries.read(&*self.device, number, encodes) else {
            self.counters.io_errors.add(1);
            return Err(Unread::Refused);
        };
        let known = read?;
        if encodes {
            lock(&self.writer).dictionary = Some(known);
        }
        Ok(())
    }

    /// The item table and the journal of a segment. A distrusted one is read as empty.
    fn read_found(&self, found: ListedSegment) -> Result<(Vec<Item>, Dead), Unread> {
        self.read_dictionary(found.entry.dictionary)?;
        let table_pages = (found.entry.table_bytes as usize).div_ceil(PAGE_BYTES);
        let before = self.geometry.segment_pages().checked_sub(table_pages).ok_or(Damaged)?;
        let mut bytes = vec![0; self.geometry.journal_bytes()];
        let mut pages = Pages::zeroed(table_pages);
        let journal_at = self.geometry.journal_at(found.segment);
        let page = self.geometry.page_of(found.segment) + before as u64;
        let read = self.device.read_note(journal_at, &mut bytes);
        if read.and_then(|()| self.device.read(page, pages.as_pages_mut())).is_err() {
            self.counters.io_errors.add(1);
            return Err(Unread::Refused);
        }
        match dead::read(&bytes, found.entry.sequence)? {
            Found::Distrusted => {
                self.counters.distrusted.add(1);
                Ok((Vec::new(), Dead::none()))
            }
            Found::Dead(dead) => {
                Ok((table::read_items(&self.geometry, found.entry, pages.bytes())?, dead))
            }
        }
    }

    /// Voids every segment found at the start and not given to the index yet, because there are no
    /// words for its items. They are older than everything else, so that one note says so on the
    /// device: entry by entry it would take long, and the journals no longer matter. Called with
    /// the lock of the chores held: no segment is being given to the index.
    pub(crate) fn forgo_found(&self) {
        let mut writer = lock(&self.writer);
        let Some(newest) = writer.found.back().map(|found| found.entry.sequence) else { return };
        let is_noted = {
            let mut superblock = lock(&self.superblock);
            let before = *superblock;
            superblock.void_below = superblock.void_below.max(newest + 1);
            (superblock.unsettled_from, superblock.unsettled_below) = (0, 0);
            let is_noted = self.write_superblock(&superblock);
            if !is_noted {
                // No segment may be taken for void without a note on the device.
                *superblock = before;
            }
            is_noted
        };
        if !is_noted {
            // As where a single one cannot be rejected: otherwise they might be back.
            self.void_device();
        }
        while let Some(found) = writer.found.pop_front() {
            self.free_segment(&mut writer, found.segment);
            self.counters.forgone.add(1);
        }
    }

    /// Says on the device that a segment that was found is not valid, before it counts as settled.
    pub(crate) fn reject(&self, found: ListedSegment) {
        if self.invalidate(found.segment).is_err() {
            self.counters.io_errors.add(1);
            self.void_with(found.entry.sequence);
        }
    }

    /// Gives the index the live items of a segment; one without items is free.
    fn give(
        &self,
        found: ListedSegment,
        items: &[Item],
        dead: &Dead,
        flushes: u64,
        access: &dyn IndexAccess,
    ) {
        let known = &self.segments[found.segment as usize];
        {
            let mut writer = lock(&self.writer);
            if items.is_empty() || writer.flushes != flushes {
                self.reject(found);
                self.free_segment(&mut writer, found.segment);
                return;
            }
            known.journal.settle();
            let Entry { sequence, area, .. } = found.entry;
            known.usage.begin(sequence);
            known.set_state(State::Written(sequence), area);
            known.journal.reopen(dead);
            writer.stream(area).list(found);
        }
        self.note_wear(found.segment);
        let alive = items.iter().filter(|item| !dead.contains(&self.geometry, item));
        let alive: Vec<Item> = alive.copied().collect();
        let (mut given, mut attempts) = (0, 0);
        while given < alive.len() {
            access.yield_now();
            let taken = {
                let writer = lock(&self.writer);
                if writer.flushes != flushes {
                    return;
                }
                let end = alive.len().min(given + ITEMS_A_LOCK);
                let taken = self.give_some(found, &alive[given..end], access);
                if taken == 0 && attempts == ROOM_ATTEMPTS {
                    // Those behind it no longer wait, until one finds room.
                    self.journal(found.segment, alive[given].granule, alive[given].hash);
                    self.counters.passed_by.add(1);
                    given += 1;
                    continue;
                }
                taken
            };
            given += taken;
            attempts = if taken > 0 { 0 } else { attempts + 1 };
            if attempts > 0 {
                access.make_room();
            }
        }
    }

    /// Gives the index items of a segment, up to the first for which it has no room; returns how
    /// many it was given. Items that it does not take are dead, on the device too.
    fn give_some(&self, found: ListedSegment, items: &[Item], access: &dyn IndexAccess) -> usize {
        for (number, item) in items.iter().enumerate() {
            let place = self.place_of(found.segment, item);
            let is_older = self.has_changed_before(item.hash, found.entry.sequence);
            let outcome =
                if is_older { Inserted::Outdated } else { access.insert(item.hash, place) };
            match outcome {
                Inserted::There => {
                    self.counters.recovered.add(1);
                    self.counters.items_came(1);
                }
                Inserted::Outdated | Inserted::Unplaceable => {
                    self.counters.passed_by.add(1);
                    self.journal(found.segment, item.granule, item.hash);
                }
                Inserted::Full => return number,
            }
        }
        items.len()
    }

    /// Notes that all segments found at the start are settled but those with these sequences.
    fn settle_all_but(&self, unsettled: Range<u64>) {
        let mut superblock = lock(&self.superblock);
        let before = *superblock;
        (superblock.unsettled_from, superblock.unsettled_below) = (unsettled.start, unsettled.end);
        // If the note fails, the previous one voids more than it has to.
        if *superblock != before && !self.write_superblock(&superblock) {
            *superblock = before;
        }
    }
}
