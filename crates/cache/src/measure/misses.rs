//! Recent misses: the keys that were asked for and not there, and since when.
//!
//! ```text
//!   63       44 43      36 35                        0
//!   +----------+----------+--------------------------+     one note, one word; 0 is none
//!   | tag      | cost     | time of the miss, in µs  |     8 notes to a row, a cache line
//!   +----------+----------+--------------------------+
//! ```
//!
//! A note is found by its key's hash: 13 bits of it choose the row, 20 others are the tag. Of eight
//! notes in a row one in 131,072 stores finds another key's, and then takes a cost from it that is
//! bounded like any other. The time is that of the monotonic clock modulo 19 hours. The key's
//! earlier cost, if the miss still saw that, is kept to a tenth.
//!
//! A note is one word and leads to nothing else, so relaxed loads and stores do: threads that note
//! at the same time may lose a note or leave two of one key, never a mixture. A full row loses its
//! oldest note.

use std::sync::atomic::{AtomicU64, Ordering};

use stdx::CachePadded;

/// Notes in all: 512 KiB. Within 60 s, the longest that a note is of use, they last for 1000 misses
/// a second that no store ever answers; those that are answered leave at once.
pub(crate) const NOTES: usize = 1 << 16;
const ROW_NOTES: usize = 8;
const ROWS: usize = NOTES / ROW_NOTES;

/// The age from which on a note is of no use, in microseconds: the client has given up, or had
/// nothing to store, and the next store has other reasons.
pub(crate) const NOTE_US_MAX: u64 = 60_000_000;

const TIME_BITS: u32 = 36;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const COST_BITS: u32 = 8;
const TAG_SHIFT: u32 = TIME_BITS + COST_BITS;
/// Codes of costs for each doubling.
const COST_STEPS: f32 = 8.0;

type Row = [AtomicU64; ROW_NOTES];

/// A table of notes.
#[derive(Debug)]
pub(crate) struct Misses {
    /// Two rows to a padded pair of lines.
    rows: Box<[CachePadded<[Row; 2]>]>,
}

/// The outcome of noting a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It is the key's note now.
    Fresh,
    /// It is, and another key has lost a note that was still of use.
    Displaced,
    /// The key had one already: other clients miss it, too.
    Known,
}

/// A note as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note(u64);

impl Misses {
    pub(crate) fn new() -> Self {
        Self { rows: (0..ROWS / 2).map(|_| CachePadded::default()).collect() }
    }

    /// Notes that the key with this hash was missed now, unless it was already; `is_won` overrides
    /// that: the client with a win token is the one that makes the value, from now on. `key_us` is
    /// the key's earlier cost.
    pub(crate) fn note(&self, hash: u64, now_us: u64, key_us: u32, is_won: bool) -> Noted {
        let row = self.row(hash);
        let (mut victim, mut victim_age) = (&row[0], 0);
        for place in row {
            let word = place.load(Ordering::Relaxed);
            let age = Note(word).age_us(now_us);
            if word >> TAG_SHIFT == tag(hash) {
                if !is_won && age <= NOTE_US_MAX {
                    return Noted::Known;
                }
                // A later miss cannot see what the first one saw of an expired item.
                let known_us = if key_us == 0 { Note(word).key_us() } else { key_us };
                place.store(Note::new(hash, now_us, known_us).0, Ordering::Relaxed);
                return Noted::Fresh;
            }
            let age = if word == 0 { u64::MAX } else { age };
            if age >= victim_age {
                (victim, victim_age) = (place, age);
            }
        }
        victim.store(Note::new(hash, now_us, key_us).0, Ordering::Relaxed);
        if victim_age <= NOTE_US_MAX { Noted::Displaced } else { Noted::Fresh }
    }

    /// Prefetches the row that the key's note would be in.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        stdx::prefetch::read(self.row(hash).as_ptr().cast());
    }

    /// Returns the key's note, if there is one.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Option<Note> {
        self.seek(hash).map(|(_, word)| Note(word))
    }

    /// Removes the note of the key. Of several threads that do, one is told that there was one.
    #[inline]
    pub(crate) fn take(&self, hash: u64) -> bool {
        let mut taken = false;
        while let Some((place, word)) = self.seek(hash) {
            let (before, after) = (Ordering::Relaxed, Ordering::Relaxed);
            taken |= place.compare_exchange(word, 0, before, after).is_ok();
        }
        taken
    }

    /// Returns a note of the key, and where it is. Every store comes here twice, nearly always for
    /// nothing: one comparison for each note tells whether it has another tag.
    #[inline]
    fn seek(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        let wanted = tag(hash) << TAG_SHIFT;
        let mut notes = self.row(hash).iter().map(|place| (place, place.load(Ordering::Relaxed)));
        notes.find(|(_, word)| (word ^ wanted) >> TAG_SHIFT == 0)
    }

    fn row(&self, hash: u64) -> &Row {
        let row = hash as usize % ROWS;
        &self.rows[row / 2].0[row % 2]
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        let rows = self.rows.iter().flat_map(|pair| pair.iter().flatten());
        rows.filter(|place| place.load(Ordering::Relaxed) != 0).count()
    }
}

impl Note {
    fn new(hash: u64, now_us: u64, key_us: u32) -> Self {
        let code = match key_us {
            0 => 0,
            us => (1.0 + ((us as f32).log2() * COST_STEPS).round()).min(255.0) as u64,
        };
        Self(tag(hash) << TAG_SHIFT | code << TIME_BITS | now_us & TIME_MASK)
    }

    /// Returns how long ago the miss was. A thread that read the clock before the one that missed
    /// sees a note of the future: it is as old as can be, and of no use.
    pub(crate) fn age_us(self, now_us: u64) -> u64 {
        now_us.wrapping_sub(self.0) & TIME_MASK
    }

    /// Returns the key's earlier cost; 0 if unknown.
    pub(crate) fn key_us(self) -> u32 {
        match (self.0 >> TIME_BITS) & ((1 << COST_BITS) - 1) {
            0 => 0,
            code => ((code - 1) as f32 / COST_STEPS).exp2().round() as u32,
        }
    }
}

/// Returns a tag that is not 0, which is the tag of the word that is no note.
fn tag(hash: u64) -> u64 {
    (hash >> TAG_SHIFT).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Misses, NOTE_US_MAX, NOTES, Note, Noted, ROW_NOTES, ROWS};

    /// Returns a hash in the first row.
    fn hash_of(number: u64) -> u64 {
        number << 44
    }

    #[test]
    fn a_note_is_found_once_and_the_first_miss_counts() {
        let misses = Misses::new();
        assert_eq!(misses.note(7, 1000, 0, false), Noted::Fresh);
        assert_eq!(misses.note(7, 1500, 0, false), Noted::Known);
        assert_eq!(misses.find(7).map(|note| note.age_us(1600)), Some(600));
        assert_eq!(misses.note(7, 1700, 0, true), Noted::Fresh);
        assert_eq!(misses.find(7).map(|note| note.age_us(1800)), Some(100));
        assert!(misses.take(7) && !misses.take(7));
        assert_eq!(misses.find(7), None);
    }

    #[test]
    fn an_old_note_gives_way_to_a_new_miss() {
        let misses = Misses::new();
        misses.note(7, 1, 0, false);
        assert_eq!(misses.note(7, 1 + NOTE_US_MAX, 0, false), Noted::Known);
        assert_eq!(misses.note(7, 2 + NOTE_US_MAX, 0, false), Noted::Fresh);
        assert_eq!(misses.find(7).map(|note| note.age_us(2 + NOTE_US_MAX)), Some(0));
    }

    #[test]
    fn a_full_row_loses_its_oldest_note() {
        let misses = Misses::new();
        for number in 1..=ROW_NOTES as u64 {
            assert_eq!(misses.note(hash_of(number), number, 0, false), Noted::Fresh);
        }
        assert_eq!(misses.note(hash_of(100), 100, 0, false), Noted::Displaced);
        assert_eq!(misses.find(hash_of(1)), None);
        assert!((2..=ROW_NOTES as u64).all(|number| misses.find(hash_of(number)).is_some()));
        let later = 200 + NOTE_US_MAX;
        assert_eq!(misses.note(hash_of(101), later, 0, false), Noted::Fresh, "the victim was old");
    }

    #[test]
    fn ten_times_as_many_misses_as_notes_stay_within_the_table() {
        let misses = Misses::new();
        let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let all = 10 * NOTES as u64;
        (0..all).for_each(|number| {
            misses.note(hash(number), number, 0, false);
        });
        assert_eq!(misses.count(), NOTES);
        let recent = (all - NOTES as u64 / 2..all).filter(|&at| misses.find(hash(at)).is_some());
        assert!(recent.count() > NOTES / 2 * 9 / 10);
    }

    #[test]
    fn costs_come_back_to_a_tenth_and_the_empty_word_is_no_note() {
        for us in [1, 2, 3, 10, 999, 50_000, 10_000_000] {
            let back = Note::new(u64::MAX, 5, us).key_us();
            assert!(back.abs_diff(us) <= us / 10, "{us} {back}");
        }
        assert_eq!(Note::new(0, 5, 0).key_us(), 0);
        let misses = Misses::new();
        assert_eq!(misses.find(0), None);
        misses.note(0, 0, 0, false);
        assert!(misses.find(0).is_some() && misses.take(0));
        assert_eq!(misses.find(ROWS as u64), None);
    }

    #[test]
    fn a_note_of_the_future_is_as_old_as_can_be() {
        assert!(Note::new(1, 1000, 0).age_us(999) > NOTE_US_MAX);
    }
}
