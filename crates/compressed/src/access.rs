//! How often the rows of a block were accessed: two bits a row, 16 rows in a word.
//!
//! A hit adds 1, up to [`ACCESSES_MAX`]; a sweep that spares the row takes 1 away. Two hits, or a
//! hit and a sweep, that meet in one word may count as one: it is a hint.

use stdx::sync::atomic::{AtomicU32, Ordering};

/// Rows in a word.
pub(crate) const ROWS_PER_ACCESS_WORD: usize = 16;
/// The highest count of accesses.
pub(crate) const ACCESSES_MAX: u8 = 3;

const BITS: usize = 2;
/// The lower bit of each row.
const LOW_BITS: u32 = 0x5555_5555;

/// How often the row of this rank was accessed.
pub(crate) fn count(words: &[AtomicU32], rank: usize) -> u8 {
    let word = words[rank / ROWS_PER_ACCESS_WORD].load(Ordering::Relaxed);
    (word >> shift(rank)) as u8 & ACCESSES_MAX
}

/// Adds an access; returns whether there had been any.
pub(crate) fn note(words: &[AtomicU32], rank: usize) -> bool {
    let before = count(words, rank);
    if before < ACCESSES_MAX {
        set(words, rank, before + 1);
    }
    before != 0
}

/// Sets how often a row was accessed.
pub(crate) fn set(words: &[AtomicU32], rank: usize, count: u8) {
    let word = &words[rank / ROWS_PER_ACCESS_WORD];
    let before = word.load(Ordering::Relaxed);
    let others = before & !(u32::from(ACCESSES_MAX) << shift(rank));
    let after = others | u32::from(count) << shift(rank);
    // Lost if another access came in between: then that one counts.
    let _ = word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
}

/// Takes an access from each row that has any.
pub(crate) fn age(words: &[AtomicU32]) {
    for word in words {
        let before = word.load(Ordering::Relaxed);
        let (high, low) = (before >> 1 & LOW_BITS, before & LOW_BITS);
        let after = (high & low) << 1 | (high & !low);
        let _ = word.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The word with these counts.
pub(crate) fn word_of(counts: impl Iterator<Item = u8>) -> u32 {
    counts.enumerate().fold(0, |word, (rank, count)| word | u32::from(count) << shift(rank))
}

fn shift(rank: usize) -> usize {
    rank % ROWS_PER_ACCESS_WORD * BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_count_up_to_three_and_grow_old_one_by_one() {
        let words = [AtomicU32::new(word_of([0, 1, 2, 3].into_iter())), AtomicU32::new(0)];
        assert!(!note(&words, 16) && note(&words, 1) && note(&words, 3));
        set(&words, 31, 2);
        let counts = || [0, 1, 2, 3, 16, 31].map(|rank| count(&words, rank));
        assert_eq!(counts(), [0, 2, 2, 3, 1, 2]);
        age(&words);
        assert_eq!(counts(), [0, 1, 1, 2, 0, 1]);
        (0..3).for_each(|_| age(&words));
        assert_eq!(counts(), [0; 6]);
    }
}
