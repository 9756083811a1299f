//! A segment that the device refuses to read, and how long it is asked for.
//!
//! A refused read says nothing of what is there: the device's path may be gone for a moment, and
//! all reads fail at once meanwhile, of the soundest segments. So a refused segment is asked for
//! again a second later, and given up only after [`TRIES_MAX`] tries.

use codec::Damaged;

/// Seconds for which a segment is asked for, with one read in each. If a path comes back later than
/// that, this has cost a segment each time, of which a device has thousands; and a page that is bad
/// for good holds up all behind it no longer.
pub(crate) const TRIES_MAX: u32 = 8;

/// The segment that was refused last; the default is none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Refusal {
    sequence: u64,
    /// The second in which it was last asked for.
    now: u32,
    /// The tries so far.
    tries: u32,
}

impl Refusal {
    /// Whether to wait another second before asking for this segment again.
    pub(crate) fn holds(&self, sequence: u64, now: u32) -> bool {
        self.tries > 0 && self.sequence == sequence && self.now == now
    }

    /// Notes that a segment was refused. Returns whether to ask for it again.
    pub(crate) fn note(&mut self, sequence: u64, now: u32) -> bool {
        let before = if self.sequence == sequence { self.tries } else { 0 };
        *self = Self { sequence, now, tries: before + 1 };
        self.tries < TRIES_MAX
    }
}

/// Why the contents of a segment are unknown.
pub(crate) enum Unread {
    /// The device refused to read it.
    Refused,
    Damaged,
}

impl From<Damaged> for Unread {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}
