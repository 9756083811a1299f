//! The writes to a device that wears out: a budget of bytes a second, saved up to a bound, and the
//! items that are admitted at each state of it.
//!
//! While the savings are more than half of their bound, everything is admitted; below that only
//! read items, since these are read again most; and nothing while there is a debt. So where the
//! budget suffices for the read items and not for all, the savings stay about half, and the rest of
//! the budget goes to some of the unread ones; where it does not suffice even for the read ones,
//! the savings stay about zero.

/// Seconds of the budget that can be saved up: a burst may write this much at once.
const SAVED_SECONDS: f64 = 600.0;

/// The items that are admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Every item.
    All,
    /// Items that were read.
    Read,
    /// No item.
    Nobody,
}

/// A budget of writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteBudget {
    bytes_per_second: f64,
    saved_max: f64,
    saved: f64,
    /// The moment that is paid for, in microseconds of the caller's clock, and all bytes until
    /// then.
    then: Option<(u64, u64)>,
}

impl WriteBudget {
    /// A budget of `bytes_per_second`, written `burst_bytes` at a time: at least two of these can
    /// be saved. Everything is saved at first.
    pub fn new(bytes_per_second: f64, burst_bytes: u64) -> Self {
        assert!(bytes_per_second > 0.0, "a budget of nothing is no tier");
        let saved_max = (bytes_per_second * SAVED_SECONDS).max(2.0 * burst_bytes as f64);
        Self { bytes_per_second, saved_max, saved: saved_max, then: None }
    }

    /// Accounts for all bytes that were written until now, and returns which items are admitted.
    pub fn look(&mut self, now_us: u64, written_bytes: u64) -> Admission {
        if let Some((then_us, before)) = self.then {
            let earned = now_us.saturating_sub(then_us) as f64 / 1e6 * self.bytes_per_second;
            let spent = written_bytes.saturating_sub(before) as f64;
            self.saved = (self.saved + earned - spent).min(self.saved_max);
        }
        self.then = Some((now_us, written_bytes));
        if self.saved <= 0.0 {
            Admission::Nobody
        } else if self.saved < self.saved_max / 2.0 {
            Admission::Read
        } else {
            Admission::All
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// Writes the admitted items of two streams for some seconds, `read` and `unread` bytes a
    /// second, and returns the bytes written of each.
    fn run(budget: &mut WriteBudget, seconds: u64, read: u64, unread: u64) -> [u64; 2] {
        let (mut written, mut of_each) = (0, [0, 0]);
        for second in 0..seconds {
            let admission = budget.look(second * SECOND, written);
            if admission != Admission::Nobody {
                (written, of_each[0]) = (written + read, of_each[0] + read);
            }
            if admission == Admission::All {
                (written, of_each[1]) = (written + unread, of_each[1] + unread);
            }
        }
        of_each
    }

    #[test]
    fn the_budget_is_written_in_the_long_run_with_read_items_first() {
        for (read, unread) in [(300, 5000), (5000, 5000), (1000, 300)] {
            let mut budget = WriteBudget::new(1000.0, 1000);
            let [of_read, of_unread] = run(&mut budget, 100_000, read, unread);
            let all = (of_read + of_unread) as f64 / 100_000.0;
            assert!((990.0..=1012.0).contains(&all), "{read} {unread}: {all}");
            let wanted = (read * 100_000).min(100_000_000) as f64;
            assert!(of_read as f64 > 0.98 * wanted, "{read} {unread}: {of_read}");
        }
    }

    #[test]
    fn a_budget_that_suffices_is_not_felt() {
        let mut budget = WriteBudget::new(1000.0, 1000);
        assert_eq!(run(&mut budget, 1000, 500, 400), [500_000, 400_000]);
    }

    #[test]
    fn a_small_budget_saves_for_a_burst_and_pays_debts_first() {
        let mut budget = WriteBudget::new(1.0, 1 << 20);
        assert_eq!(budget.look(0, 0), Admission::All);
        assert_eq!(budget.look(0, (1 << 20) + 1), Admission::Read);
        assert_eq!(budget.look(0, 3 << 20), Admission::Nobody);
        assert_eq!(budget.look((1 << 20) * SECOND, 3 << 20), Admission::Nobody);
        assert_eq!(budget.look(((1 << 20) + 1) * SECOND, 3 << 20), Admission::Read);
        // An earlier moment earns nothing.
        assert_eq!(budget.look(0, 3 << 20), Admission::Read);
        assert_eq!(budget.look(u64::MAX, 3 << 20), Admission::All);
    }
}
