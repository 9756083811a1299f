//! A segment that the device does not give, and how long it is asked for.
//!
//! A device that refuses a read says nothing of what is there: its path may be gone for a moment,
//! and all reads fail at once meanwhile, of the soundest segments. So whoever needs a segment asks
//! for it again in another second, and gives it up only after [`TRIES_MAX`] of these.

use codec::Damaged;

/// So many seconds a segment is asked for, one read in each. A path that comes back later than that
/// has cost a segment each time, of which a device has thousands; and a page that is bad for good
/// holds up all behind it no longer.
pub(crate) const TRIES_MAX: u32 = 8;

/// The segment that was refused last; the default is none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Refusal {
    sequence: u64,
    /// When it was last asked for, in seconds,
    now: u32,
    /// and how often.
    tries: u32,
}

impl Refusal {
    /// Whether this segment is not asked for again before another second.
    pub(crate) fn holds(&self, sequence: u64, now: u32) -> bool {
        self.tries > 0 && self.sequence == sequence && self.now == now
    }

    /// Takes note that a segment was refused. Returns whether it is asked for again.
    pub(crate) fn note(&mut self, sequence: u64, now: u32) -> bool {
        let before = if self.sequence == sequence { self.tries } else { 0 };
        *self = Self { sequence, now, tries: before + 1 };
        self.tries < TRIES_MAX
    }
}

/// Why nobody knows what is in a segment.
pub(crate) enum Unread {
    /// The device does not say.
    Refused,
    Damaged,
}

impl From<Damaged> for Unread {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}
