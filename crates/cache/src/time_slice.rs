//! The background yields the CPU of its own accord.
//!
//! A thread that is woken while the background runs may have to wait until the kernel's next tick,
//! some milliseconds, even if it has asked for short turns: the kernel lets the running thread
//! finish what it is entitled to, and looks at that again only when another thread is woken. So a
//! thread that answers requests on the same core would answer late, a little in a hundred times. A
//! thread that yields gives up the rest of its turn, so it should have asked for short ones
//! (`io::thread::ask_for_short_turns`).

use std::{mem, thread};

use io::Clock;

/// Microseconds that the background works before it yields the CPU.
const TURN_US: u64 = 100;

/// The turn that the background is in.
#[derive(Debug, Default)]
pub(crate) struct TimeSlice {
    began_us: u64,
    /// Microseconds it has waited for its next turn since that was last taken.
    waited_us: u64,
}

impl TimeSlice {
    /// Yields the CPU if the turn was long. Called without any lock that others could wait for, and
    /// by a thread that is not pinned.
    pub(crate) fn end_if_long(&mut self, clock: &dyn Clock) {
        let now_us = clock.monotonic_us();
        if now_us.saturating_sub(self.began_us) >= TURN_US {
            thread::yield_now();
            self.began_us = clock.monotonic_us();
            self.waited_us += self.began_us.saturating_sub(now_us);
        }
    }

    /// Returns the microseconds for which others have had the CPU since that was last taken.
    pub(crate) fn waited_us(&self) -> u64 {
        self.waited_us
    }

    /// Returns [`Self::waited_us`], and counts from 0 again.
    pub(crate) fn take_waited_us(&mut self) -> u64 {
        mem::take(&mut self.waited_us)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A clock that moves on by 40 microseconds whenever it is read.
    #[derive(Default)]
    struct Moving(AtomicU64);

    impl Clock for Moving {
        fn unix_seconds(&self) -> u32 {
            0
        }

        fn monotonic_us(&self) -> u64 {
            self.0.fetch_add(40, Ordering::Relaxed)
        }
    }

    #[test]
    fn a_turn_ends_when_it_was_long_and_another_begins_behind_the_wait() {
        let (clock, mut turn) = (Moving::default(), TimeSlice::default());
        let mut waited_us = || {
            turn.end_if_long(&clock);
            turn.take_waited_us()
        };
        // It looks at 0, 40, 80 and 120, where it yields until 160, and then at 200.
        assert_eq!([(); 5].map(|()| waited_us()), [0, 0, 0, 40, 0]);
    }
}
