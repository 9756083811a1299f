//! The reasons of misses, by what happened last to the key as far as the sample knows.

/// The reason of a miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// No store of the key is known: there was none, or it is so long ago that it was forgotten.
    Never,
    /// The stored item expired.
    Expired,
    /// It was deleted.
    Deleted,
    /// It was flushed with all else.
    Flushed,
    /// None of these: the item had to make room. It was last requested this many seconds before.
    Evicted(u32),
}

/// Bounds of the ages of evicted items, in seconds since their last request.
pub const AGE_BOUNDS_S: [u32; 5] = [10, 60, 600, 3600, 86_400];

const KINDS: usize = 5;
const AGES: usize = AGE_BOUNDS_S.len() + 1;

/// Misses by reason, scaled up from the sample.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reasons {
    whole: [f64; KINDS],
    recent: [f64; KINDS],
    /// The evicted ones, by age.
    ages: [f64; AGES],
}

impl Reason {
    /// The reasons' names, in the order of [`Reasons::whole`].
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
    /// Counts a miss that stands for `misses`.
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

    /// Misses since the start; never falls.
    pub fn whole(&self) -> [f64; KINDS] {
        self.whole
    }

    /// Recent misses: older ones have faded.
    pub fn recent(&self) -> [f64; KINDS] {
        self.recent
    }

    /// Recent misses of evicted items, by the time since their last request: below each of
    /// [`AGE_BOUNDS_S`] and not below the one before it; the last are beyond all.
    pub fn ages(&self) -> [f64; AGES] {
        self.ages
    }
}
