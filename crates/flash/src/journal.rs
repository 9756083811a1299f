//! The journals: which items of a segment are dead.
//!
//! ```text
//!    0        4         8
//!   +--------+---------+---------+----       mark    0, or the journal has run over
//!   | mark   | entry 1 | entry 2 | ...       entry   0 where none is written yet; the top bit set,
//!   | u32    | u32     | u32     |                   then the unit's granule, then hash bits
//!   +--------+---------+---------+----
//! ```
//!
//! An entry's hash bits are of those by which the index told the item from others: an item goes in
//! the name of a key that the index took for it, and to be dead it has to be found so in its own.
//!
//! An entry is one note, written before [`crate::Flash::forget`] returns and without a lock: a
//! compare-and-swap of the segment's word takes a slot. The word also counts the notes that are
//! under way, so that a journal is made empty only when no late note can still fall into it:
//!
//! ```text
//!   word   63 distrusted   62 open   32..=61 notes under way   0..=31 slots taken
//! ```
//!
//! A segment whose journal has run over is *distrusted*: it is used as before, but what is in it
//! will not be believed at the next start. Before it comes to that the background collects it
//! ([`mod@crate::collect`]). The same goes for a segment of which an entry could not be written. If
//! even the mark cannot be written, all that is on the device is made void.

use std::collections::HashSet;

use stdx::sync::Backoff;
use stdx::sync::atomic::{AtomicU64, Ordering};

use crate::Flash;
use crate::geometry::{Geometry, JOURNAL_ENTRY_BYTES};
use crate::table::Item;

const TAKEN: u64 = u32::MAX as u64;
const UNDER_WAY_ONE: u64 = 1 << 32;
const UNDER_WAY: u64 = ((1 << 30) - 1) << 32;
const OPEN: u64 = 1 << 62;
const DISTRUSTED: u64 = 1 << 63;

const MARK: u32 = 1;
/// Of a journal that is nearly full one entry in so many is left. Earlier, more would have to move
/// that lives beside what is dead; later, the background might not come to it in time.
const WORN_SHARE: u32 = 8;

const _: () = assert!(TAKEN ^ UNDER_WAY ^ OPEN ^ DISTRUSTED == u64::MAX);

/// The word of one segment's journal. Closed, with an unknown number of slots, until it is opened.
#[derive(Debug)]
pub(crate) struct Journal(AtomicU64);

/// What there is to do for an item that has died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing: the segment is not in use, or not to be believed anyway.
    Nothing,
    /// Write the entry with this index, then [`Journal::end`].
    Entry(u32),
    /// Write the mark, then [`Journal::end`].
    Mark,
}

impl Journal {
    /// The journal of a segment of which nothing is known.
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
            let is_full = taken >= entries_max;
            let next = word + UNDER_WAY_ONE + u64::from(!is_full);
            // Acquire: partner is the release in `open`; what was in the journal is gone.
            match self.0.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if is_full => return Step::Mark,
                Ok(_) => return Step::Entry(taken + 1),
                Err(found) => word = found,
            }
        }
    }

    /// Whether it is nearly full: so little is left that the segment had better be collected.
    pub(crate) fn is_worn(&self, entries_max: u32) -> bool {
        let taken = (self.0.load(Ordering::Relaxed) & TAKEN) as u32;
        taken >= entries_max - entries_max / WORN_SHARE
    }

    fn end(&self) {
        // Release: partner is the acquire in `settle`.
        let before = self.0.fetch_sub(UNDER_WAY_ONE, Ordering::Release);
        assert!(before & UNDER_WAY != 0, "what ends has begun");
    }

    /// Takes note that the mark is written. `true` the first time.
    fn distrust(&self) -> bool {
        self.0.fetch_or(DISTRUSTED, Ordering::Relaxed) & DISTRUSTED == 0
    }

    /// Takes no more entries.
    pub(crate) fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// Waits until no note is under way to a closed journal, and returns how many slots were taken.
    pub(crate) fn settle(&self) -> u32 {
        let mut backoff = Backoff::default();
        loop {
            // Acquire: partner is the release in `end`.
            let word = self.0.load(Ordering::Acquire);
            assert!(word & OPEN == 0, "it was closed before");
            if word & UNDER_WAY == 0 {
                return (word & TAKEN) as u32;
            }
            backoff.wait();
        }
    }

    /// Takes entries again, behind so many.
    pub(crate) fn open(&self, taken: u32) {
        // Release: partner is the acquire in `begin`. Nobody else writes a closed, settled word.
        self.0.store(OPEN | u64::from(taken), Ordering::Release);
    }
}

/// What a journal says at the start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has run over.
    Distrusted,
    /// These are dead.
    Dead(Dead),
}

/// The entries of a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Dead {
    entries: HashSet<u32>,
    /// Slots up to the last one that is written.
    pub(crate) taken: u32,
}

impl Dead {
    pub(crate) fn contains(&self, geometry: &Geometry, item: &Item) -> bool {
        item.is_dead || self.entries.contains(&geometry.journal_entry(item.granule, item.hash))
    }
}

/// Reads a journal. A slot that was taken when the process died may be empty among others.
pub(crate) fn read(bytes: &[u8]) -> Found {
    let (mark, entries) = bytes.split_at(JOURNAL_ENTRY_BYTES);
    if mark.iter().any(|&byte| byte != 0) {
        return Found::Distrusted;
    }
    let mut dead = Dead::default();
    for (index, entry) in entries.chunks_exact(JOURNAL_ENTRY_BYTES).enumerate() {
        let entry = u32::from_le_bytes(entry.try_into().expect("a chunk has its length"));
        if entry != 0 {
            dead.entries.insert(entry);
            dead.taken = index as u32 + 1;
        }
    }
    Found::Dead(dead)
}

impl Flash {
    /// Takes down that an item of a segment is dead. When it returns, the note is written.
    pub(crate) fn journal(&self, segment: u32, granule: u32, hash: u64) {
        let journal = &self.segments[segment as usize].journal;
        let entries_max = self.journal_entries_max();
        match journal.begin(entries_max) {
            Step::Nothing => return,
            Step::Mark => self.mark(segment),
            Step::Entry(index) => {
                let entry = self.geometry.journal_entry(granule, hash);
                let at = u64::from(index) * JOURNAL_ENTRY_BYTES as u64;
                assert!(at < self.geometry.journal_bytes() as u64, "within the journal");
                let at = self.geometry.journal_at(segment) + at;
                match self.device.write_note(at, &entry.to_le_bytes()) {
                    Ok(()) => self.counters.journalled.add(1),
                    Err(_) => {
                        self.counters.io_errors.add(1);
                        self.mark(segment);
                    }
                }
            }
        }
        journal.end();
        self.note_wear(segment);
    }

    /// Tells the background if a journal is nearly full.
    pub(crate) fn note_wear(&self, segment: u32) {
        if self.segments[segment as usize].journal.is_worn(self.journal_entries_max()) {
            self.has_worn.store(true, Ordering::Relaxed);
        }
    }

    /// Entries for which a journal has room.
    pub(crate) fn journal_entries_max(&self) -> u32 {
        (self.geometry.journal_bytes() / JOURNAL_ENTRY_BYTES - 1) as u32
    }

    fn mark(&self, segment: u32) {
        let at = self.geometry.journal_at(segment);
        if self.device.write_note(at, &MARK.to_le_bytes()).is_err() {
            self.counters.io_errors.add(1);
            self.void_device();
        } else if self.segments[segment as usize].journal.distrust() {
            self.counters.distrusted.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_takes_as_many_entries_as_it_has_slots_and_then_the_mark() {
        let journal = Journal::new();
        assert_eq!(journal.begin(2), Step::Nothing);
        assert_eq!(journal.settle(), u32::MAX);
        journal.open(0);
        assert_eq!(journal.begin(2), Step::Entry(1));
        assert_eq!(journal.begin(2), Step::Entry(2));
        assert_eq!(journal.begin(2), Step::Mark);
        assert_eq!(journal.begin(2), Step::Mark);
        assert!(journal.distrust() && !journal.distrust());
        assert_eq!(journal.begin(2), Step::Nothing);
        (0..4).for_each(|_| journal.end());
        journal.close();
        assert_eq!(journal.settle(), 2);
    }

    #[test]
    fn nothing_is_written_to_a_closed_journal_and_it_settles_behind_what_is_under_way() {
        let journal = Journal::new();
        journal.open(5);
        assert_eq!(journal.begin(9), Step::Entry(6));
        journal.close();
        assert_eq!(journal.begin(9), Step::Nothing);
        std::thread::scope(|scope| {
            let settling = scope.spawn(|| journal.settle());
            journal.end();
            assert_eq!(settling.join().expect("it settles"), 6);
        });
    }

    #[test]
    fn a_journal_with_a_hole_is_read_to_its_last_entry() {
        let mut bytes = [0; 32];
        assert_eq!(read(&bytes), Found::Dead(Dead::default()));
        bytes[4..8].copy_from_slice(&7_u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&9_u32.to_le_bytes());
        let Found::Dead(dead) = read(&bytes) else { panic!("it has not run over") };
        assert_eq!((dead.taken, dead.entries.len()), (3, 2));
        bytes[0] = 1;
        assert_eq!(read(&bytes), Found::Distrusted);
    }
}
