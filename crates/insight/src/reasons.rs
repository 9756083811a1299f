//! Why reads missed, by what happened last to the key as far as the sample knows.

/// Why a read missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No store of the key is known: there was none, or it is so long ago that it was forgotten.
    Never,
    /// The time of what was stored was over.
    Expired,
    /// It was deleted.
    Deleted,
    /// It was flushed with all else.
    Flushed,
    /// None of these: the item had to make room. It was last asked for so many seconds before.
    Evicted(u32),
}

/// Bounds of the ages of what was evicted, in seconds since it was last asked for.
pub const AGE_BOUNDS_S: [u32; 5] = [10, 60, 600, 3600, 86_400];

const KINDS: usize = 5;
const AGES: usize = AGE_BOUNDS_S.len() + 1;

/// Misses by reason, scaled up from the sample.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reasons {
    whole: [f64; KINDS],
    recent: [f64; KINDS],
    /// Of those evicted, by age.
    ages: [f64; AGES],
}

impl Reason {
    /// What reasons are called, in the order of [`Reasons::whole`].
    pub const NAMES: [&'static str; KINDS] = ["never", "expired", "deleted", "flushed", "evicted"];

    fn number(self) -> usize {
        match self {
            Self::Never => 0,
            Self::Expired => 1,
            Self::Deleted => 2,
            Self::Flushed => 3,
            Self::Evicted(_) => 4,
        }
    }
}

impl Reasons {
    /// A miss that stands for so many.
    pub(crate) fn add(&mut self, reason: Reason, misses: f64) {
        self.whole[reason.number()] += misses;
        self.recent[reason.number()] += misses;
        if let Reason::Evicted(age_s) = reason {
            self.ages[AGE_BOUNDS_S.partition_point(|&bound| bound <= age_s)] += misses;
        }
    }

    pub(crate) fn fade(&mut self, factor: f64) {
        self.recent.iter_mut().chain(&mut self.ages).for_each(|count| *count *= factor);
    }

    /// Since the start; never falls.
    pub fn whole(&self) -> [f64; KINDS] {
        self.whole
    }

    /// Of late: what is older has faded.
    pub fn recent(&self) -> [f64; KINDS] {
        self.recent
    }

    /// Of those evicted of late, how many were last asked for less than each of [`AGE_BOUNDS_S`]
    /// before and not less than the one before it; the last are beyond all.
    pub fn ages(&self) -> [f64; AGES] {
        self.ages
    }
}
