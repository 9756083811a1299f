//! The processor time that the background's work may take: it is saved up at a rate, up to a bound,
//! and spent as it is used.

/// The time that may be saved up, in microseconds: a burst of stores may take this much at once.
const SAVED_US_MAX: f64 = 2e6;

/// The share of a processor that work may take on one that others wait for, too.
const BUSY_SHARE: f64 = 0.25;
/// The share on one that has nothing else to do.
const IDLE_SHARE: f64 = 0.75;
/// A processor counts as busy when work had to wait for one part in this of the time that it took.
const WAIT_SHARE: i64 = 8;
/// The window in which work is looked at, in microseconds; earlier work counts half.
const WORK_US: i64 = 1_000_000;

/// Of this many pieces of work, one is timed, and stands for all: reading the clock takes a
/// microsecond, a tenth of what a piece takes.
pub(crate) const TIMED_SHARE: u64 = 8;

/// A budget of time.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    saved_us: f64,
    refilled_us: u64,
}

impl Allowance {
    /// Returns a budget with this much saved up, in microseconds, even beyond the bound.
    pub(crate) fn of(saved_us: f64) -> Self {
        Self { saved_us, refilled_us: 0 }
    }

    /// Adds what this share of the time since the last call allows.
    pub(crate) fn refill(&mut self, now_us: u64, share: f64) {
        self.refill_to(now_us, share, SAVED_US_MAX);
    }

    /// As [`Self::refill`], with another bound on what is saved up, in microseconds.
    pub(crate) fn refill_to(&mut self, now_us: u64, share: f64, saved_us_max: f64) {
        let elapsed_us = now_us.saturating_sub(self.refilled_us);
        self.refilled_us = now_us;
        if self.saved_us < saved_us_max {
            self.saved_us = (self.saved_us + elapsed_us as f64 * share).min(saved_us_max);
        }
    }

    /// Takes the time that was used.
    pub(crate) fn spend(&mut self, us: u64) {
        self.saved_us -= us as f64;
    }

    /// Whether there is any left.
    pub(crate) fn has_any(&self) -> bool {
        self.saved_us >= 0.0
    }

    /// Whether there is so little that only items that were read deserve it.
    pub(crate) fn is_low(&self) -> bool {
        self.saved_us < SAVED_US_MAX / 2.0
    }

    /// [`Self::is_low`] for work without a cheaper substitute: an item that gets none of it is
    /// lost.
    pub(crate) fn is_nearly_spent(&self) -> bool {
        self.saved_us < SAVED_US_MAX / 32.0
    }
}

/// Chooses the pieces of work that are timed.
#[derive(Debug, Default)]
pub(crate) struct Timing {
    number: u64,
}

impl Timing {
    /// Whether the next piece is timed.
    pub(crate) fn is_due(&mut self) -> bool {
        self.number += 1;
        self.number.is_multiple_of(TIMED_SHARE)
    }
}

/// Whether a processor was free when the background had work, measured by how much longer the work
/// took than it ran. Other threads, other programs, a quota of the container and the machine's
/// other guests are all in it, and so are locks.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    worked_us: i64,
    /// May fall below 0, since either clock may be off by a microsecond.
    waited_us: i64,
}

impl Contention {
    /// Notes a piece of work: how long it ran, and how long it took.
    pub(crate) fn note(&mut self, worked_us: u64, elapsed_us: u64) {
        self.worked_us += worked_us as i64;
        self.waited_us += elapsed_us as i64 - worked_us as i64;
        if self.worked_us + self.waited_us.max(0) > WORK_US {
            self.worked_us /= 2;
            self.waited_us /= 2;
        }
    }

    /// Returns the share of a processor that work may take.
    pub(crate) fn share(&self) -> f64 {
        let is_busy = self.waited_us * WAIT_SHARE > self.worked_us;
        if is_busy { BUSY_SHARE } else { IDLE_SHARE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_saved_up_to_a_bound() {
        let mut allowance = Allowance::default();
        allowance.refill(1_000_000, 0.25);
        assert!(allowance.has_any() && allowance.is_low() && !allowance.is_nearly_spent());
        allowance.spend(200_000);
        assert!(allowance.has_any() && allowance.is_nearly_spent());
        allowance.spend(50_001);
        assert!(!allowance.has_any());
        allowance.refill(1_000_000_000, 0.25);
        assert!(allowance.has_any() && !allowance.is_low());
        allowance.spend(SAVED_US_MAX as u64 + 1);
        assert!(!allowance.has_any());
    }

    #[test]
    fn the_initial_budget_is_spent_once() {
        let mut allowance = Allowance::of(3.0 * SAVED_US_MAX);
        allowance.refill(1_000_000_000, 0.25);
        allowance.spend(3 * SAVED_US_MAX as u64);
        assert!(allowance.has_any() && allowance.is_low(), "nothing was added to so much");
        allowance.refill(2_000_000_000, 0.25);
        allowance.spend(SAVED_US_MAX as u64 + 1);
        assert!(!allowance.has_any(), "and it does not come back");
    }

    #[test]
    fn work_that_waits_for_a_processor_takes_less_of_it() {
        let mut contention = Contention::default();
        let mut work = |pieces, elapsed_us| {
            (0..pieces).for_each(|_| contention.note(20, elapsed_us));
            contention.share()
        };
        assert_eq!(work(1000, 20), IDLE_SHARE);
        assert_eq!(work(50_000, 30), BUSY_SHARE);
        assert_eq!(work(1000, 20), BUSY_SHARE, "one moment says little");
        assert_eq!(work(500_000, 21), IDLE_SHARE);
        assert_eq!(work(50_000, 19), IDLE_SHARE, "a clock may be behind the other");
    }
}
