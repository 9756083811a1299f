//! The journals: which items of a segment are dead.
//!
//! ```text
//!    0        4        8         12
//!   +--------+--------+---------+---------+----    mark    a list's, a filter's, or distrusted
//!   | mark   | stamp  | entry 1 | entry 2 | ...    stamp   of the segment's life
//!   | u32    | u32    | u32     | u32     |        entry   0 where none is written yet; a bit
//!   +--------+--------+---------+---------+----            that checks the others, the unit's
//!                                                          granule, hash bits
//!    0        4        8         64        128
//!   +--------+--------+---------+---------+----    of a filter; which block an entry has, and
//!   | mark   | stamp  | nothing | block 1 | ...    which three bits there, follows from the
//!   +--------+--------+---------+---------+----    entry alone
//! ```
//!
//! An entry's hash bits are among those by which the index told the item from others: an item is
//! removed under a key that the index took for its own, and a later lookup by its own key has to
//! find it dead.
//!
//! A journal that is damaged, or not of this life of the segment, is not believed
//! ([`mod@crate::dead`]).
//!
//! An entry is one note, written before [`crate::Flash::forget`] returns. In a *list* it is written
//! without a lock: a compare-and-swap of the segment's word takes a slot. A segment of small rows
//! has more rows than its journal has slots. So the background turns a list that is nearly full
//! into a *filter* (Bloom's, in blocks of a cache line), whose notes read a block and write it with
//! three more bits, under a lock. It has room for all, but the next start takes some live rows for
//! dead: of 23 thousand rows of a MiB of which half have died, 3 of 1000. So a segment does not
//! begin with a filter. While a list is turned into a filter the device says that the segment is
//! not to be believed, and entries wait in memory until that has ended.
//!
//! The word also counts the notes under way, so that a journal is emptied, or converted, only when
//! no late note can still fall into it:
//!
//! ```text
//!   word   63 distrusted   62 open   61 filter   60 becomes a filter   46..=59 bits under way
//!          32..=45 entries under way   0..=31 slots taken
//! ```
//!
//! A segment whose list has overflowed, because the background did not come to it in time, is
//! *distrusted*: it is used as before, but the next start does not believe its contents. The same
//! goes for a segment of which a note could not be written. If even the mark cannot be written,
//! everything on the device is made void, once: the segment is distrusted then, and another one
//! whose mark is refused as well is void already.

use std::io;

use codec::Damaged;
use stdx::sync::Backoff;
use stdx::sync::atomic::{AtomicU64, Ordering};
use stdx::sync::{Mutex, lock};

use crate::Flash;
use crate::checked::{BLOCK_BYTES, Block, stamp};
use crate::dead::{
    self, Bits, Dead, HEAD_SLOTS, MARK_DISTRUSTED, MARK_FILTER, STAMP_SLOT, with_check,
};
use crate::geometry::JOURNAL_ENTRY_BYTES;

const TAKEN: u64 = u32::MAX as u64;
const ENTRY_ONE: u64 = 1 << 32;
/// More threads than there can be, each with one note.
const ENTRIES_UNDER_WAY: u64 = ((1 << 14) - 1) << 32;
const BIT_ONE: u64 = 1 << 46;
const BITS_UNDER_WAY: u64 = ((1 << 14) - 1) << 46;
const BECOMES_FILTER: u64 = 1 << 60;
const FILTER: u64 = 1 << 61;
const OPEN: u64 = 1 << 62;
const DISTRUSTED: u64 = 1 << 63;

const _: () = assert!(
    TAKEN ^ ENTRIES_UNDER_WAY ^ BITS_UNDER_WAY ^ BECOMES_FILTER ^ FILTER ^ OPEN ^ DISTRUSTED
        == u64::MAX
);

/// A list is *worn* when one entry in this many is left: later, the background might not come to it
/// in time.
const WORN_SHARE: u32 = 8;

/// The word of one segment's journal. Closed, with an unknown number of slots, until it is opened.
#[derive(Debug)]
pub(crate) struct Journal(AtomicU64);

/// The note to write for an item that has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// None: the segment is not in use, or not to be believed anyway.
    Nothing,
    /// Write the entry with this index, then [`Journal::end_entry`].
    Entry(u32),
    /// Write the mark, then [`Journal::end_entry`].
    Mark,
    /// Set the entry's bits, or wait until there is a filter; then [`Journal::end_bit`].
    Bit,
}

impl Journal {
    /// The journal of a segment of unknown state.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(TAKEN))
    }

    fn begin(&self, entries_max: u32) -> Step {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & OPEN == 0 || word & DISTRUSTED != 0 {
                return Step::Nothing;
            }
            let taken = (word & TAKEN) as u32;
            let (step, under_way) = match word & (FILTER | BECOMES_FILTER) {
                0 if taken < entries_max => (Step::Entry(taken + 1), ENTRY_ONE + 1),
                0 => (Step::Mark, ENTRY_ONE),
                _ => (Step::Bit, BIT_ONE),
            };
            let next = word + under_way;
            // Acquire: partner is the release in `open`; the journal has been emptied.
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return step,
                Err(found) => word = found,
            }
        }
    }

    fn end_entry(&self) {
        // Release: partner is the acquire in `settle` and in `entries_end`.
        let before = self.0.fetch_sub(ENTRY_ONE, Ordering::Release);
        assert!(before & ENTRIES_UNDER_WAY != 0, "what ends has begun");
    }

    fn end_bit(&self) {
        // Release: partner is the acquire in `settle`.
        let before = self.0.fetch_sub(BIT_ONE, Ordering::Release);
        assert!(before & BITS_UNDER_WAY != 0, "what ends has begun");
    }

    fn has(&self, bit: u64) -> bool {
        self.0.load(Ordering::Relaxed) & bit != 0
    }

    /// Whether it is a list in use that is nearly full, and should become a filter.
    pub(crate) fn is_worn(&self, entries_max: u32) -> bool {
        is_worn(self.0.load(Ordering::Relaxed), entries_max)
    }

    /// Begins to turn a worn list into a filter, which counts as a bit under way. `false` if it is
    /// not, or no longer, a worn list. As before, entries are written to the list.
    fn begin_filter(&self, entries_max: u32) -> bool {
        let begun = |word| is_worn(word, entries_max).then_some(word + BIT_ONE);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begun).is_ok()
    }

    /// From here on entries wait for the filter. The device says that the segment is not to be
    /// believed.
    fn entries_wait(&self) {
        self.0.fetch_or(BECOMES_FILTER, Ordering::Relaxed);
    }

    /// Waits until no entry is under way to a list that becomes a filter: none begins.
    fn entries_end(&self) {
        let mut backoff = Backoff::default();
        // Acquire: partner is the release in `end_entry`.
        while self.0.load(Ordering::Acquire) & ENTRIES_UNDER_WAY != 0 {
            backoff.wait();
        }
    }

    /// Makes it a filter, or else not to be believed. Called under the lock of the segment's bits.
    fn end_filter(&self, is_made: bool) {
        let end = if is_made { FILTER } else { DISTRUSTED };
        self.0.fetch_or(end, Ordering::Relaxed);
        self.0.fetch_and(!BECOMES_FILTER, Ordering::Relaxed);
    }

    /// Records that the device says that the segment is distrusted. `true` the first time.
    fn distrust(&self) -> bool {
        self.0.fetch_or(DISTRUSTED, Ordering::Relaxed) & DISTRUSTED == 0
    }

    /// Takes no more entries.
    pub(crate) fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// Waits until no note is under way to a closed journal, and returns how many slots were taken
    /// at the most.
    pub(crate) fn settle(&self) -> u32 {
        let mut backoff = Backoff::default();
        loop {
            // Acquire: partner is the release in `end_entry` and `end_bit`.
            let word = self.0.load(Ordering::Acquire);
            assert!(word & OPEN == 0, "it was closed before");
            if word & (ENTRIES_UNDER_WAY | BITS_UNDER_WAY) == 0 {
                // A filter that was not completed, because of an error, may hold anything.
                let is_list = word & (FILTER | DISTRUSTED) == 0;
                return if is_list { (word & TAKEN) as u32 } else { u32::MAX };
            }
            backoff.wait();
        }
    }

    /// Opens an empty list for entries.
    pub(crate) fn open(&self) {
        self.open_with(0);
    }

    /// Opens it for entries again, behind those that were found.
    pub(crate) fn reopen(&self, dead: &Dead) {
        self.open_with(dead.taken().map_or(FILTER, u64::from));
    }

    fn open_with(&self, bits: u64) {
        // Release: partner is the acquire in `begin`. No other thread writes a closed, settled
        // word.
        self.0.store(OPEN | bits, Ordering::Release);
    }
}

fn is_worn(word: u64, entries_max: u32) -> bool {
    let is_list_in_use = word & (OPEN | DISTRUSTED | FILTER | BECOMES_FILTER) == OPEN;
    is_list_in_use && (word & TAKEN) as u32 >= worn_from(entries_max)
}

/// The entry with which a list becomes worn.
fn worn_from(entries_max: u32) -> u32 {
    entries_max - entries_max / WORN_SHARE
}

/// Why a note was not written.
#[derive(Debug)]
enum Failed {
    Io,
    /// The block or list to add it to is damaged.
    Damaged,
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

impl From<Damaged> for Failed {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

/// Entries that wait until the list of a segment has become a filter. The lock also guards the bits
/// of all segments that share it: setting a bit reads the others of its block.
#[derive(Debug, Default)]
pub(crate) struct BitsLock(pub(crate) Mutex<Vec<u32>>);

/// Locks for the bits of all segments: 32 KiB of them at the most. A thread that sets bits may have
/// to wait until the device has read their page, while it holds the lock of a table of the index:
/// there are enough locks that another thread rarely waits for the same one.
const BITS_LOCKS_MAX: u32 = 1024;

impl BitsLock {
    /// The locks for `segments` segments.
    pub(crate) fn all(segments: u32) -> Box<[Self]> {
        (0..Self::count(segments)).map(|_| Self::default()).collect()
    }

    pub(crate) fn count(segments: u32) -> u32 {
        segments.min(BITS_LOCKS_MAX)
    }
}

impl Flash {
    /// Notes that an item of a segment is dead. When it returns, the note is written; or the device
    /// says that the segment is not to be believed, until the note is written.
    pub(crate) fn journal(&self, segment: u32, granule: u32, hash: u64) {
        let journal = &self.segments[segment as usize].journal;
        let entry = self.geometry.journal_entry(granule, hash);
        match journal.begin(self.journal_entries_max()) {
            Step::Nothing => {}
            Step::Mark => {
                self.mark(segment);
                journal.end_entry();
            }
            Step::Entry(index) => {
                self.write_entry(segment, entry, HEAD_SLOTS - 1 + index);
                journal.end_entry();
                if index == worn_from(self.journal_entries_max()) {
                    self.note_wear(segment);
                }
            }
            Step::Bit => {
                let mut waiting = lock(&self.bits_lock(segment).0);
                if journal.has(BECOMES_FILTER) {
                    waiting.push(entry);
                } else if !journal.has(DISTRUSTED) {
                    self.noted(segment, self.set_bits(segment, entry));
                }
                drop(waiting);
                journal.end_bit();
            }
        }
    }

    /// Writes an entry to a slot of a list.
    fn write_entry(&self, segment: u32, entry: u32, slot: u32) {
        // A segment that was just freed is void.
        let Some(sequence) = self.sequence_of(segment) else { return };
        let at = u64::from(slot) * JOURNAL_ENTRY_BYTES as u64;
        assert!(at < self.geometry.journal_bytes() as u64, "within the journal");
        let at = self.geometry.journal_at(segment) + at;
        let bytes = with_check(entry, sequence, slot).to_le_bytes();
        self.noted(segment, self.device.write_note(at, &bytes).map_err(Failed::from));
    }

    /// The sequence of a segment to whose journal a note is under way: it has no other until that
    /// has ended, but may be freed.
    fn sequence_of(&self, segment: u32) -> Option<u64> {
        self.segments[segment as usize].state().sequence()
    }

    /// Counts a note; a note that could not be written takes its segment with it.
    fn noted(&self, segment: u32, outcome: Result<(), Failed>) {
        match outcome {
            Ok(()) => self.counters.journalled.add(1),
            Err(failed) => {
                self.count_failed(failed);
                self.mark(segment);
            }
        }
    }

    fn count_failed(&self, failed: Failed) {
        match failed {
            Failed::Io => self.counters.io_errors.add(1),
            Failed::Damaged => self.counters.damaged.add(1),
        }
    }

    /// Sets the bits of an entry. Called with the lock of the segment's bits held.
    fn set_bits(&self, segment: u32, entry: u32) -> Result<(), Failed> {
        let Some(sequence) = self.sequence_of(segment) else { return Ok(()) };
        let bits = Bits::of(entry, self.blocks());
        let number = bits.number();
        let at = self.geometry.journal_at(segment) + u64::from(number) * BLOCK_BYTES as u64;
        let mut bytes = [0; BLOCK_BYTES];
        self.read_journal(at, &mut bytes)?;
        // With a fresh check, a misread block would be believed from then on.
        let mut block = Block::decode(&bytes, sequence, number)?;
        // An entry that is taken for dead by chance has all its bits set.
        if bits.set(&mut block) {
            self.device.write_note(at, &block.encode(sequence, number))?;
        }
        Ok(())
    }

    /// Turns the list of a segment into a filter if it is worn. Called with the lock of the chores
    /// held.
    pub(crate) fn turn_into_filter(&self, segment: u32) {
        let journal = &self.segments[segment as usize].journal;
        if !journal.begin_filter(self.journal_entries_max()) {
            return;
        }
        // Before any entry waits that a kill would lose.
        let marked = self.write_mark(segment, MARK_DISTRUSTED);
        if marked.is_err() {
            self.mark(segment);
        }
        journal.entries_wait();
        journal.entries_end();
        // One of the entries may not have been written.
        let was_trusted = !journal.has(DISTRUSTED);
        let made = marked.map_err(Failed::from).and_then(|()| self.write_filter(segment));
        let mut waiting = lock(&self.bits_lock(segment).0);
        let made = match made {
            Ok(()) if was_trusted => self.complete_filter(segment, &waiting),
            made => made,
        };
        let is_made = made.is_ok();
        if let Err(failed) = made {
            self.count_failed(failed);
            self.mark(segment);
        }
        waiting.clear();
        journal.end_filter(was_trusted && is_made);
        drop(waiting);
        journal.end_bit();
    }

    /// Writes a filter of the entries of a list in the list's place.
    fn write_filter(&self, segment: u32) -> Result<(), Failed> {
        let Some(sequence) = self.sequence_of(segment) else { return Ok(()) };
        let mut journal = vec![0; self.geometry.journal_bytes()];
        self.read_journal(self.geometry.journal_at(segment), &mut journal)?;
        let list = dead::read_list(&journal, sequence)?;
        let mut filter = vec![Block::EMPTY; self.blocks()];
        for entry in list.entries {
            let bits = Bits::of(entry, filter.len());
            bits.set(&mut filter[bits.block]);
        }
        let blocks = (1..).zip(&filter).map(|(number, block)| block.encode(sequence, number));
        let blocks: Vec<_> = blocks.collect();
        // Behind the head, so that each block has a cache line of its own.
        let at = self.geometry.journal_at(segment) + BLOCK_BYTES as u64;
        Ok(self.device.write_note(at, blocks.as_flattened())?)
    }

    /// Adds the entries that waited, and marks it as a filter, which is to be believed.
    fn complete_filter(&self, segment: u32, waiting: &[u32]) -> Result<(), Failed> {
        waiting.iter().try_for_each(|entry| self.set_bits(segment, *entry))?;
        self.write_mark(segment, MARK_FILTER)?;
        self.counters.journalled.add(waiting.len() as u64);
        Ok(())
    }

    /// Reads notes of a journal; once more if that is refused, since a refusal costs the segment.
    fn read_journal(&self, at: u64, target: &mut [u8]) -> io::Result<()> {
        self.device.read_note(at, target).or_else(|_| {
            self.counters.io_errors.add(1);
            self.device.read_note(at, target)
        })
    }

    /// Blocks of a filter.
    fn blocks(&self) -> usize {
        self.geometry.journal_bytes() / BLOCK_BYTES - 1
    }

    pub(crate) fn bits_lock(&self, segment: u32) -> &BitsLock {
        &self.bits_locks[segment as usize % self.bits_locks.len()]
    }

    /// Entries for which a list has room.
    pub(crate) fn journal_entries_max(&self) -> u32 {
        (self.geometry.journal_bytes() / JOURNAL_ENTRY_BYTES) as u32 - HEAD_SLOTS
    }

    /// Writes the life of a segment that its journal is of. Called before the segment is valid:
    /// notes written to its journal until then count from then on.
    pub(crate) fn write_stamp(&self, segment: u32, sequence: u64) -> io::Result<()> {
        let at = u64::from(STAMP_SLOT) * JOURNAL_ENTRY_BYTES as u64;
        let stamp = stamp(sequence, 0).to_le_bytes();
        self.device.write_note(self.geometry.journal_at(segment) + at, &stamp)
    }

    /// Bytes of a journal that is a list with this many slots taken.
    pub(crate) fn journal_used_bytes(&self, taken: u32) -> usize {
        let slots = (taken as usize).saturating_add(HEAD_SLOTS as usize);
        slots.saturating_mul(JOURNAL_ENTRY_BYTES).min(self.geometry.journal_bytes())
    }

    fn write_mark(&self, segment: u32, mark: u32) -> io::Result<()> {
        self.device.write_note(self.geometry.journal_at(segment), &mark.to_le_bytes())
    }

    /// Makes the next start believe nothing in a segment. `false` if the device takes no note at
    /// all.
    pub(crate) fn distrust(&self, segment: u32) -> bool {
        let journal = &self.segments[segment as usize].journal;
        match journal.begin(self.journal_entries_max()) {
            // It is free by now, or was not believed before.
            Step::Nothing => return true,
            Step::Entry(_) | Step::Mark => {
                self.mark(segment);
                journal.end_entry();
            }
            Step::Bit => {
                self.mark(segment);
                journal.end_bit();
            }
        }
        journal.has(DISTRUSTED)
    }

    /// Writes the mark that the segment is not believed.
    fn mark(&self, segment: u32) {
        // A segment that was just freed is void.
        let Some(sequence) = self.sequence_of(segment) else { return };
        let mut is_told = self.write_mark(segment, MARK_DISTRUSTED).is_ok();
        if !is_told {
            self.counters.io_errors.add(1);
            is_told = self.void_with(sequence);
        }
        if is_told && self.segments[segment as usize].journal.distrust() {
            self.counters.distrusted.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::World;
    use crate::tests::cases::{fill_a_segment, get, place};

    #[test]
    fn a_journal_takes_as_many_entries_as_it_has_slots_and_then_the_mark() {
        let journal = Journal::new();
        assert_eq!(journal.begin(2), Step::Nothing);
        assert_eq!(journal.settle(), u32::MAX);
        journal.open();
        assert_eq!(journal.begin(2), Step::Entry(1));
        assert_eq!(journal.begin(2), Step::Entry(2));
        (0..2).for_each(|_| journal.end_entry());
        journal.close();
        assert_eq!(journal.settle(), 2);
        journal.open();
        assert_eq!([journal.begin(1), journal.begin(1)], [Step::Entry(1), Step::Mark]);
        assert_eq!(journal.begin(1), Step::Mark);
        assert!(journal.distrust() && !journal.distrust());
        assert_eq!(journal.begin(1), Step::Nothing);
        (0..3).for_each(|_| journal.end_entry());
        journal.close();
        assert_eq!(journal.settle(), u32::MAX);
    }

    #[test]
    fn nothing_is_written_to_a_closed_journal_and_it_settles_behind_what_is_under_way() {
        let journal = Journal::new();
        journal.reopen(&Dead::with_taken(2));
        assert_eq!(journal.begin(9), Step::Entry(3));
        journal.close();
        assert_eq!(journal.begin(9), Step::Nothing);
        std::thread::scope(|scope| {
            let settling = scope.spawn(|| journal.settle());
            journal.end_entry();
            assert_eq!(settling.join().expect("it settles"), 3);
        });
    }

    /// Regression: entries waited for a filter whose segment the device still believed, because it
    /// had refused the mark; a kill then brought what had died back.
    #[test]
    fn no_entry_waits_where_the_mark_of_its_segment_was_refused() {
        let world = World::new(400);
        let end = fill_a_segment(&world, 1);
        let Some(place) = place(&world, 0) else { panic!("it was stored") };
        let segment = world.flash.geometry.locate(place).expect("it is stored").segment;
        let journal = &world.flash.segments[segment as usize].journal;
        let entries_max = world.flash.journal_entries_max();
        (1..end).take(entries_max as usize - 1).for_each(|number| world.delete(number));
        let head = world.flash.geometry.journal_at(segment);
        assert!(matches!(journal.begin(entries_max), Step::Entry(_)));
        world.device.make_unwritable(head..head + 4);
        let bytes = std::thread::scope(|scope| {
            let turning = scope.spawn(|| world.flash.turn_into_filter(segment));
            while !journal.has(DISTRUSTED | BECOMES_FILTER) {
                std::thread::yield_now();
            }
            world.delete(0);
            let bytes = world.device.bytes();
            journal.end_entry();
            turning.join().expect("the entry has ended");
            bytes
        });
        world.device.change(|found| found.copy_from_slice(&bytes));
        assert!(get(&world.killed().recovered(), 0).is_none());
    }

    #[test]
    fn a_list_becomes_a_filter_when_it_is_worn_behind_what_is_under_way() {
        const MAX: u32 = 16;
        let journal = Journal::new();
        assert!(!journal.is_worn(MAX) && !journal.begin_filter(MAX), "it is closed");
        journal.open();
        (1..14).for_each(|index| assert_eq!(journal.begin(MAX), Step::Entry(index)));
        assert!(!journal.begin_filter(MAX), "three of sixteen are left");
        assert_eq!(journal.begin(MAX), Step::Entry(14));
        assert!(journal.is_worn(MAX) && journal.begin_filter(MAX));
        assert_eq!(journal.begin(MAX), Step::Entry(15), "nothing waits yet");
        journal.entries_wait();
        assert!(!journal.begin_filter(MAX));
        assert_eq!(journal.begin(MAX), Step::Bit);
        (0..14).for_each(|_| journal.end_entry());
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| journal.entries_end());
            journal.end_entry();
            ending.join().expect("it ends, whatever waits to be a bit");
        });
        journal.end_filter(true);
        assert!(!journal.is_worn(MAX) && !journal.has(BECOMES_FILTER));
        assert_eq!(journal.begin(MAX), Step::Bit);
        journal.close();
        std::thread::scope(|scope| {
            let settling = scope.spawn(|| journal.settle());
            // Two notes, and the conversion itself.
            (0..3).for_each(|_| journal.end_bit());
            assert_eq!(settling.join().expect("it settles"), u32::MAX);
        });
        journal.open();
        assert_eq!(journal.begin(MAX), Step::Entry(1), "it is a list again");
    }
}
