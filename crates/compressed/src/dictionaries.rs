//! The dictionaries that blocks name, and the samples the next one is trained from.
//!
//! A block names its dictionary by a number from 1 to [`DICTIONARIES_MAX`]; 0 is none. One of them
//! is the current one, which new blocks use. Blocks are rewritten all the time, so an old
//! dictionary gradually loses its blocks; when it has none, and no pinned reader can still see one,
//! it is freed.
//!
//! ```text
//!   newcomers --(every 8th)--> samples --full--> train --better by 5 %?--> current
//!       ^                                              |
//!       +------ a pause, twice as long as before if it was not better
//! ```
//!
//! Samples are made of newcomers, each taken once, up to the length of a frame, rather than of
//! whole blocks as they are written: a block is written again and again with the same rows, and a
//! dictionary trained from that would have learnt them by heart.
//!
//! Limits: a dictionary has at most one byte for each [`BUDGET_PER_BYTE`] of the zone's budget, and
//! 64 KiB at most; where that does not allow even a short one, none is trained, and no samples are
//! kept. With its digests, one of 64 KiB takes 650 KiB, and one of 16 KiB already 500 KiB
//! (`Dictionary::memory_bytes`). As a rule there are two, the current one and one that is losing
//! its blocks; at most there are [`DICTIONARIES_MAX`], where long values, which are not encoded
//! anew, keep old ones.

use std::sync::{Arc, Mutex};

use codec::{Damaged, Dictionary, Samples};
use memory::{Epochs, Guard, Tag};
use stdx::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use stdx::sync::lock;
use stdx::units::KIB;

use crate::raw::{EpochBox, Unlinked};

/// The most dictionaries at a time.
pub const DICTIONARIES_MAX: usize = 8;
/// The longest dictionary, in bytes. 64 KiB save a third over none on real data; twice that saved 2
/// % more.
const DICTIONARY_BYTES_MAX: usize = 64 * KIB;
/// The shortest dictionary, in bytes: a shorter one is not worth its digests.
const DICTIONARY_BYTES_MIN: usize = 4 * KIB;
/// Bytes of the zone's budget for each byte of a dictionary.
pub const BUDGET_PER_BYTE: usize = 512;
/// One newcomer in this many is sampled after the first training; all of them before.
const EVERY: u32 = 8;
/// After a dictionary was published, the pause is this many times as long as sampling takes...
const PAUSE_FIRST: u32 = 1;
/// ... and at most it is this many times as long: samples take memory that items could have.
const PAUSE_MAX: u32 = 1 << 9;

/// The dictionaries of a zone.
pub(crate) struct Dictionaries {
    slots: [Slot; DICTIONARIES_MAX],
    /// The number of the current one; 0 if there is none.
    current: AtomicU8,
    /// Whether the samples are full.
    due: AtomicU8,
    /// Newcomers until the next sample.
    countdown: AtomicU32,
    sampling: Mutex<Sampling>,
    training: Mutex<Training>,
    /// The number of dictionaries published so far.
    trained: AtomicUsize,
    level: i32,
}

#[derive(Default)]
struct Slot {
    dictionary: EpochBox<Dictionary>,
    /// Blocks that name it, and writers about to write one.
    users: AtomicU32,
    memory_bytes: AtomicUsize,
}

#[derive(Default)]
struct Sampling {
    samples: Samples,
    /// One newcomer in this many is sampled.
    every: u32,
    /// The next pause, as a multiple of the time that sampling took.
    pause: u32,
}

/// State of the training thread only.
#[derive(Default)]
struct Training {
    /// Slots whose last block went away, by the epoch at which that was seen.
    leaving: [Option<Tag>; DICTIONARIES_MAX],
    /// Dictionaries that may still be read, by their slots, which they keep until they are freed.
    unlinked: [Option<Unlinked<Dictionary>>; DICTIONARIES_MAX],
}

/// The dictionaries at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DictionaryStats {
    /// Dictionaries in use.
    pub dictionaries: usize,
    /// Bytes of the dictionaries, with their digests, and of the samples.
    pub memory_bytes: usize,
    /// The number that were trained and published so far.
    pub trained: usize,
}

impl Dictionaries {
    /// Makes a set without dictionaries; `level` is zstd's, for blocks that use one.
    pub(crate) fn new(level: i32) -> Self {
        Self {
            slots: std::array::from_fn(|_| Slot::default()),
            current: AtomicU8::new(0),
            due: AtomicU8::new(0),
            countdown: AtomicU32::new(1),
            sampling: Mutex::new(Sampling { every: 1, pause: PAUSE_FIRST, ..Sampling::default() }),
            training: Mutex::default(),
            trained: AtomicUsize::new(0),
            level,
        }
    }

    /// The dictionary that a block names.
    #[inline]
    pub(crate) fn get<'g>(
        &self,
        guard: &'g Guard<'_>,
        number: u8,
    ) -> Result<Option<&'g Dictionary>, Damaged> {
        let Some(index) = usize::from(number).checked_sub(1) else { return Ok(None) };
        let slot = self.slots.get(index).ok_or(Damaged)?;
        slot.dictionary.get(guard).map(Some).ok_or(Damaged)
    }

    /// The current dictionary and its number, for one block that is about to be written. The caller
    /// releases it when that block is retired, or not written.
    pub(crate) fn borrow<'g>(&self, guard: &'g Guard<'_>) -> (u8, Option<&'g Dictionary>) {
        loop {
            // Sequentially consistent, like the count below. Partners: `publish` and `retire_old`,
            // which change the current one first and count its users then. At least one side sees
            // the other.
            let number = self.current.load(Ordering::SeqCst);
            let Some(index) = usize::from(number).checked_sub(1) else { return (0, None) };
            // Partner: as above.
            self.slots[index].users.fetch_add(1, Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) == number
                && let Some(dictionary) = self.slots[index].dictionary.get(guard)
            {
                return (number, Some(dictionary));
            }
            self.release(number);
        }
    }

    /// Notes that a block that names this dictionary is gone.
    pub(crate) fn release(&self, number: u8) {
        if let Some(slot) = usize::from(number).checked_sub(1).and_then(|i| self.slots.get(i)) {
            // Release: partner is the load in `retire_old`; the block was unlinked before.
            slot.users.fetch_sub(1, Ordering::Release);
        }
    }

    /// Counts one more block that names this dictionary, while another still does.
    pub(crate) fn share(&self, number: u8) {
        if let Some(slot) = usize::from(number).checked_sub(1).and_then(|i| self.slots.get(i)) {
            slot.users.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Offers a newcomer's row as part of a sample.
    pub(crate) fn sample(&self, row: &[u8], block_bytes: usize, budget_bytes: usize) {
        // A count that loses a step to another thread only makes sampling a little more or less
        // frequent.
        let left = self.countdown.load(Ordering::Relaxed).saturating_sub(1);
        self.countdown.store(left, Ordering::Relaxed);
        if left != 0 || self.due.load(Ordering::Relaxed) != 0 {
            return;
        }
        let Some(dictionary_bytes) = dictionary_bytes(budget_bytes) else { return };
        let mut sampling = lock(&self.sampling);
        self.countdown.store(sampling.every, Ordering::Relaxed);
        if !sampling.samples.add(row, block_bytes, dictionary_bytes) {
            self.due.store(1, Ordering::Relaxed);
        }
    }

    /// Trains a dictionary if there are enough samples, publishes it if it is better than the
    /// current one, and frees dictionaries that are no longer needed. Training takes a few hundred
    /// milliseconds, during which it holds no lock that a store waits for, and pins nothing that a
    /// store waits to have freed. Returns whether anything was done.
    pub(crate) fn maintain(&self, epochs: &Arc<Epochs>, budget_bytes: usize) -> bool {
        let Ok(mut training) = self.training.try_lock() else { return false };
        self.retire_old(&mut training, epochs);
        if dictionary_bytes(budget_bytes).is_none() {
            // Samples would be of no use, and never be full.
            lock(&self.sampling).samples = Samples::default();
        }
        if self.due.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let samples = std::mem::take(&mut lock(&self.sampling).samples);
        let better = dictionary_bytes(budget_bytes).and_then(|bytes| {
            let fresh = samples.train(bytes, self.level)?;
            let current = self.current_bytes(epochs);
            let current = current.and_then(|it| Dictionary::from_bytes(&it, self.level).ok());
            samples.prefers(&fresh, current.as_ref(), self.level).then_some(fresh)
        });
        let published = better.is_some_and(|fresh| self.publish(fresh));
        let mut sampling = lock(&self.sampling);
        sampling.every = EVERY;
        sampling.pause = if published { PAUSE_FIRST } else { (sampling.pause * 2).min(PAUSE_MAX) };
        let paused = samples.rows().saturating_mul(EVERY).saturating_mul(sampling.pause);
        self.countdown.store(paused.max(1), Ordering::Relaxed);
        self.due.store(0, Ordering::Relaxed);
        true
    }

    /// The bytes of the current dictionary, if there is one.
    pub(crate) fn current_bytes(&self, epochs: &Epochs) -> Option<Vec<u8>> {
        let guard = epochs.pin();
        let current = self.get(&guard, self.current.load(Ordering::Relaxed)).ok().flatten();
        current.map(|dictionary| dictionary.bytes().to_vec())
    }

    /// Begins with a dictionary that was trained before, unless there is one by now or it is longer
    /// than one for a zone with this budget. The next `newcomers`, from which it was trained, are
    /// not sampled.
    pub(crate) fn adopt(&self, bytes: &[u8], newcomers: u64, budget_bytes: usize) -> bool {
        let _training = lock(&self.training);
        let fits = dictionary_bytes(budget_bytes).is_some_and(|max| bytes.len() <= max);
        if !fits || self.current.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let Ok(dictionary) = Dictionary::from_bytes(bytes, self.level) else { return false };
        if !self.publish(dictionary) {
            return false;
        }
        lock(&self.sampling).every = EVERY;
        let newcomers = u32::try_from(newcomers).unwrap_or(u32::MAX);
        self.countdown.store(newcomers.saturating_add(1), Ordering::Relaxed);
        true
    }

    /// Makes a dictionary the current one. The caller holds the lock of training.
    fn publish(&self, fresh: Dictionary) -> bool {
        let is_free = |slot: &Slot| slot.memory_bytes.load(Ordering::Relaxed) == 0;
        let Some(index) = self.slots.iter().position(is_free) else { return false };
        self.slots[index].memory_bytes.store(fresh.memory_bytes(), Ordering::Relaxed);
        self.slots[index].dictionary.publish(Box::new(fresh));
        self.trained.fetch_add(1, Ordering::Relaxed);
        // Partner: `borrow`.
        self.current.store(index as u8 + 1, Ordering::SeqCst);
        true
    }

    /// Frees dictionaries that no block names. A pinned reader may still look at a retired block,
    /// so a slot counts as taken until no such reader is left.
    fn retire_old(&self, training: &mut Training, epochs: &Arc<Epochs>) {
        let current = self.current.load(Ordering::Relaxed);
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(old) = training.unlinked[index].take() {
                training.unlinked[index] = old.free().err();
                if training.unlinked[index].is_none() {
                    slot.memory_bytes.store(0, Ordering::Relaxed);
                }
                continue;
            }
            // Partners: `borrow`, and the release in `release`.
            let used = slot.users.load(Ordering::SeqCst) != 0;
            let free = slot.memory_bytes.load(Ordering::Relaxed) == 0;
            if used || free || index + 1 == usize::from(current) {
                training.leaving[index] = None;
                continue;
            }
            let tag = *training.leaving[index].get_or_insert_with(|| epochs.tag());
            if epochs.try_reach(tag) {
                training.leaving[index] = None;
                training.unlinked[index] = slot.dictionary.unlink(epochs);
            }
        }
    }

    /// The dictionaries and bytes at this moment.
    pub(crate) fn stats(&self) -> DictionaryStats {
        let memory = || self.slots.iter().map(|slot| slot.memory_bytes.load(Ordering::Relaxed));
        let samples_bytes = lock(&self.sampling).samples.memory_bytes();
        DictionaryStats {
            dictionaries: memory().filter(|&bytes| bytes != 0).count(),
            memory_bytes: memory().sum::<usize>() + samples_bytes,
            trained: self.trained.load(Ordering::Relaxed),
        }
    }

    /// Bytes of samples, for a check.
    #[cfg(test)]
    pub(crate) fn samples(&self) -> usize {
        lock(&self.sampling).samples.bytes()
    }

    /// Blocks that name each dictionary, for a check.
    #[cfg(test)]
    pub(crate) fn users(&self) -> [u32; DICTIONARIES_MAX] {
        std::array::from_fn(|index| self.slots[index].users.load(Ordering::Relaxed))
    }
}

/// The longest dictionary under a budget, if one is worth having.
fn dictionary_bytes(budget_bytes: usize) -> Option<usize> {
    let bytes = budget_bytes / BUDGET_PER_BYTE;
    (bytes >= DICTIONARY_BYTES_MIN).then(|| bytes.min(DICTIONARY_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(text: u8) -> Dictionary {
        Dictionary::from_bytes(&[text; 4 << 10], 3).expect("any text is one")
    }

    /// Regression: dictionaries no longer counted, and their slots were free, as soon as they were
    /// unlinked.
    #[test]
    fn dictionaries_count_and_keep_their_slots_until_they_are_freed() {
        let epochs = Arc::new(Epochs::new());
        let dictionaries = Dictionaries::new(3);
        let one_bytes = dictionary(0).memory_bytes();
        for text in 0..3 * DICTIONARIES_MAX as u8 {
            assert!(dictionaries.publish(dictionary(text)));
            let before = dictionaries.stats();
            assert_eq!(before.memory_bytes, before.dictionaries * one_bytes);
            assert!((1..=3).contains(&before.dictionaries), "{before:?}");
            dictionaries.maintain(&epochs, 0);
            let training = lock(&dictionaries.training);
            let unlinked = training.unlinked.iter().flatten().count();
            assert_eq!(
                dictionaries.stats().dictionaries,
                1 + unlinked,
                "the current one, and those"
            );
        }
    }
}
