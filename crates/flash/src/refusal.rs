//! A segment that the device refuses to read, and how long it is asked for.
//!
//! A refused read says nothing of what is there: the device's path may be gone for a moment, and
//! all reads fail at once meanwhile, of the soundest segments. So a refused segment is asked for
//! again a second later, and given up only after [`TRIES_MAX`] tries.
//!
//! If the device reads other places meanwhile, the segment is more likely to be bad than the path
//! to be gone. There may be thousands of such segments, and all behind one wait: so the seconds for
//! which such ones are asked for have a bound in all, [`WAITS_MAX`].

use codec::Damaged;

/// Seconds for which a segment is asked for, with one read in each. If a path comes back later than
/// that, this has cost a segment each time, of which a device has thousands; and a page that is bad
/// for good holds up all behind it no longer.
pub(crate) const TRIES_MAX: u32 = 8;
/// Seconds for which segments are asked for while the device reads other places: enough for eight
/// segments that come back in their last second.
pub(crate) const WAITS_MAX: u32 = 60;

/// The segment that was refused last; the default is none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Refusal {
    sequence: u64,
    /// The second in which it was last asked for.
    now: u32,
    /// The tries so far.
    tries: u32,
    /// Seconds waited for this one and others while the device read other places.
    waits: u32,
}

impl Refusal {
    /// Whether to wait another second before asking for this segment again.
    pub(crate) fn holds(&self, sequence: u64, now: u32) -> bool {
        self.tries > 0 && self.sequence == sequence && self.now == now
    }

    /// Whether it was asked for long enough.
    pub(crate) fn is_over(&self) -> bool {
        self.tries >= TRIES_MAX
    }

    /// Whether the seconds are used up for which segments are waited for while others are read.
    pub(crate) fn is_spent(&self) -> bool {
        self.waits >= WAITS_MAX
    }

    /// Notes that a segment was refused, and whether the device `reads_others`. Returns whether to
    /// ask for it again in another second.
    pub(crate) fn note(&mut self, sequence: u64, now: u32, reads_others: bool) -> bool {
        let before = if self.sequence == sequence { self.tries } else { 0 };
        let is_given_up = before + 1 >= TRIES_MAX || reads_others && self.is_spent();
        let waits = self.waits + u32::from(reads_others && !is_given_up);
        *self = Self { sequence, now, tries: before + 1, waits };
        !is_given_up
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
