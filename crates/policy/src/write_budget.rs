//! What may be written to a device that wears out: a budget of bytes a second, saved up to a bound,
//! and who is let in at what state of it.
//!
//! While more than half of what can be saved is there, everything is let in; below that only what
//! was read, since that is read again most; and nothing while there is a debt. So where the budget
//! suffices for what was read and not for all, the savings stay about half, and the rest of the
//! budget goes to some of what was not read; where it does not suffice even for that, they stay
//! about zero.

/// Seconds of the budget that can be saved up: a burst may write so much at once.
const SAVED_SECONDS: f64 = 600.0;

/// Who is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Every item.
    All,
    /// What was read.
    Read,
    /// Nothing.
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
    /// So many bytes a second, written `burst_bytes` at a time: two of these can be saved at least.
    /// Everything is saved at first.
    pub fn new(bytes_per_second: f64, burst_bytes: u64) -> Self {
        assert!(bytes_per_second > 0.0, "a budget of nothing is no tier");
        let saved_max = (bytes_per_second * SAVED_SECONDS).max(2.0 * burst_bytes as f64);
        Self { bytes_per_second, saved_max, saved: saved_max, then: None }
    }

    /// Takes note of all bytes that were written until now, and says who is let in.
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

    /// Writes for so many seconds what is let in of two streams, bytes a second each, and returns
    /// what was written of them.
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
    fn what_is_written_in_the_long_run_is_the_budget_and_what_was_read_comes_first() {
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
    fn a_small_budget_saves_for_a_burst_and_a_debt_is_paid_before_anything_else() {
        let mut budget = WriteBudget::new(1.0, 1 << 20);
        assert_eq!(budget.look(0, 0), Admission::All);
        assert_eq!(budget.look(0, (1 << 20) + 1), Admission::Read);
        assert_eq!(budget.look(0, 3 << 20), Admission::Nobody);
        assert_eq!(budget.look((1 << 20) * SECOND, 3 << 20), Admission::Nobody);
        assert_eq!(budget.look(((1 << 20) + 1) * SECOND, 3 << 20), Admission::Read);
        // What an earlier moment says is worth nothing.
        assert_eq!(budget.look(0, 3 << 20), Admission::Read);
        assert_eq!(budget.look(u64::MAX, 3 << 20), Admission::All);
    }
}
