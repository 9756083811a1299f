//! The sampling of rows for the next dictionary, and when that is trained.
//!
//! ```text
//!   rows that come in --(every 8th)--> samples --full--> train --better by 5 %?--> current
//!        ^                                                 |
//!        +----- a pause, twice as long as before if it was not better
//! ```

use codec::Samples;

/// One row in this many is sampled when there is a dictionary; all of them before.
const EVERY: u32 = 8;
/// After a dictionary was published, the pause is this many times as long as sampling took...
const PAUSE_FIRST: u32 = 1;
/// ... and this many times at the most.
const PAUSE_MAX: u32 = 1 << 9;

/// The state of sampling. Under the writer's lock.
#[derive(Debug)]
pub(crate) struct Sampling {
    samples: Samples,
    /// Rows until the next sample.
    countdown: u32,
    every: u32,
    pause: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// There are not enough samples yet.
    Gathering,
    /// There are.
    Due,
    /// A thread is training from them.
    Taken,
}

impl Sampling {
    /// From the first row on, all of them if there is no dictionary yet.
    pub(crate) fn new(has_dictionary: bool) -> Self {
        let every = if has_dictionary { EVERY } else { 1 };
        let samples = Samples::default();
        Self { samples, countdown: 1, every, pause: PAUSE_FIRST, stage: Stage::Gathering }
    }

    /// Offers a row, as part of a sample as long as a unit's rows.
    pub(crate) fn offer(&mut self, row: &[u8], unit_bytes: usize, dictionary_bytes: usize) {
        if self.stage != Stage::Gathering || dictionary_bytes == 0 {
            return;
        }
        self.countdown -= 1;
        if self.countdown == 0 {
            self.countdown = self.every;
            if !self.samples.add(row, unit_bytes, dictionary_bytes) {
                self.stage = Stage::Due;
            }
        }
    }

    /// The samples, if there are enough. There are no others until [`Sampling::resume`].
    pub(crate) fn take(&mut self) -> Option<Samples> {
        let is_due = self.stage == Stage::Due;
        is_due.then(|| {
            self.stage = Stage::Taken;
            std::mem::take(&mut self.samples)
        })
    }

    /// Resumes sampling, after a pause. The samples had this many rows; the dictionary trained from
    /// them is published, or not.
    pub(crate) fn resume(&mut self, rows: u32, is_published: bool) {
        self.pause = if is_published { PAUSE_FIRST } else { (self.pause * 2).min(PAUSE_MAX) };
        self.countdown = rows.saturating_mul(EVERY).saturating_mul(self.pause).max(1);
        self.every = EVERY;
        self.stage = Stage::Gathering;
    }

    /// Bytes of the samples.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.samples.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DICTIONARY_BYTES: usize = 4096;

    /// Offers rows until the samples are full, and returns how many that took, and the samples.
    fn fill(sampling: &mut Sampling) -> (u32, Samples) {
        for offered in 1.. {
            sampling.offer(&[7; 100], 1000, DICTIONARY_BYTES);
            if let Some(samples) = sampling.take() {
                return (offered, samples);
            }
        }
        unreachable!("a range without end")
    }

    #[test]
    fn all_rows_are_sampled_until_there_is_a_dictionary_and_then_one_in_eight() {
        let mut sampling = Sampling::new(false);
        let (offered, samples) = fill(&mut sampling);
        assert_eq!(offered, samples.rows() + 1);
        assert!(sampling.take().is_none(), "whoever comes meanwhile trains nothing");
        assert_eq!(sampling.memory_bytes(), 0);
        sampling.resume(samples.rows(), true);
        let (offered, again) = fill(&mut sampling);
        assert_eq!(again.rows(), samples.rows());
        assert_eq!(offered, EVERY * samples.rows() + EVERY * samples.rows());
        let (offered, samples) = fill(&mut Sampling::new(true));
        assert_eq!(offered, EVERY * samples.rows() + 1);
    }

    #[test]
    fn pauses_grow_up_to_a_bound_while_nothing_better_comes() {
        let mut sampling = Sampling::new(true);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            sampling.resume(1, false);
            pauses.push(sampling.countdown / EVERY);
        }
        assert_eq!(pauses[..3], [2, 4, 8]);
        assert_eq!(pauses[11], PAUSE_MAX);
        sampling.resume(1, true);
        assert_eq!(sampling.countdown, EVERY * PAUSE_FIRST);
        sampling.resume(u32::MAX, false);
        assert_eq!(sampling.countdown, u32::MAX);
    }

    #[test]
    fn without_room_for_a_dictionary_nothing_is_sampled() {
        let mut sampling = Sampling::new(false);
        (0..10_000).for_each(|_| sampling.offer(&[7; 100], 1000, 0));
        assert_eq!(sampling.memory_bytes(), 0);
        assert!(sampling.take().is_none());
    }
}
