//! The time and the number of mutations that the processes of a device have reached. Neither may
//! begin lower with the next process, or expired items would be there again, and two values would
//! have one number.
//!
//! Both follow the wall clock, which may be put back while no process runs. So they are kept with
//! the superblock: when a process begins, about once a minute, and when it closes.
//!
//! If the clock is a few seconds behind what was kept, as after a correction, the caller begins at
//! the time that was kept, which stands still for that long. If it is further behind, the time that
//! has passed is unknown: items with an expiry are expired then, as in a memory file, and all items
//! are if a flush was planned.

use codec::record::Fields;
use stdx::sync::lock;

use crate::Flash;

/// Seconds between two notes of what was reached.
const KEPT_S: u32 = 60;
/// A clock that is behind by at most this many seconds makes time stand still; by more, the time is
/// unknown.
pub const STANDSTILL_MAX_S: u32 = 60;

/// The time and the number that a process has reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reached {
    /// Unix seconds.
    pub now: u32,
    /// The number of the latest mutation.
    pub number: u64,
}

impl Reached {
    /// What a process begins with whose clock says `now`; and whether the clock says how much time
    /// has passed.
    pub(crate) fn resumed(self, now: u32) -> (Self, bool) {
        let knows_time = self.now <= now.saturating_add(STANDSTILL_MAX_S);
        let now = if knows_time { self.now.max(now) } else { now };
        (Self { now, ..self }, knows_time)
    }
}

impl Flash {
    /// What was reached when it was last kept: the caller begins with at least this. The time is
    /// that of [`crate::Settings::now`], or a little later.
    pub fn reached(&self) -> Reached {
        lock(&self.superblock).reached
    }

    /// Keeps what the caller has reached, if the last time was a minute ago or it `is_needed` now:
    /// at the beginning, and before [`Flash::close`].
    pub fn keep_reached(&self, reached: Reached, is_needed: bool) {
        let mut superblock = lock(&self.superblock);
        let Reached { now, number } = superblock.reached;
        if is_needed || reached.now >= now.saturating_add(KEPT_S) {
            superblock.reached =
                Reached { now: now.max(reached.now), number: number.max(reached.number) };
            // If the note fails, the next one repeats it.
            self.write_superblock(&superblock);
            self.syncing.want();
        }
    }

    /// Whether it is unknown if an item of a segment with this sequence is expired: then it is.
    pub(crate) fn is_untimed(&self, sequence: u64, fields: &Fields) -> bool {
        fields.expiry != 0 && sequence < self.untimed_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stands_still_for_a_clock_slightly_behind_and_is_unknown_to_others() {
        let before = Reached { now: 1000, number: 7 };
        for (clock, now, knows_time) in [
            (5000, 5000, true),
            (1000, 1000, true),
            (999, 1000, true),
            (1000 - STANDSTILL_MAX_S, 1000, true),
            (1000 - STANDSTILL_MAX_S - 1, 1000 - STANDSTILL_MAX_S - 1, false),
            (0, 0, false),
            (u32::MAX, u32::MAX, true),
        ] {
            assert_eq!(before.resumed(clock), (Reached { now, number: 7 }, knows_time), "{clock}");
        }
    }
}
