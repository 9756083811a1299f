//! Expiry of items: the number a client writes, converted to a point in time.

use crate::request::ExpiryTime;

/// Up to this many seconds an expiry counts from now; a larger one is Unix time.
pub const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// A point in time at which an item ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// It does not end.
    Never,
    /// It has ended already.
    Past,
    /// Unix time in seconds, later than now.
    At(u64),
}

impl ExpiryTime {
    /// The point in time that the client means. `now_unix` returns Unix time in seconds, and is
    /// called only where it matters.
    pub fn resolve(self, now_unix: impl FnOnce() -> u64) -> Expiry {
        match self.0 {
            0 => Expiry::Never,
            seconds @ 1..=RELATIVE_SECONDS_MAX => Expiry::At(now_unix() + seconds.unsigned_abs()),
            seconds if seconds < 0 || seconds.unsigned_abs() <= now_unix() => Expiry::Past,
            seconds => Expiry::At(seconds.unsigned_abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_days_divide_relative_from_absolute() {
        let now_unix = 1_800_000_000;
        for (written, meant) in [
            (0, Expiry::Never),
            (-1, Expiry::Past),
            (i64::MIN, Expiry::Past),
            (1, Expiry::At(now_unix + 1)),
            (2_592_000, Expiry::At(now_unix + 2_592_000)),
            (2_592_001, Expiry::Past),
            (1_800_000_000, Expiry::Past),
            (1_800_000_001, Expiry::At(1_800_000_001)),
            (i64::MAX, Expiry::At(i64::MAX.unsigned_abs())),
        ] {
            assert_eq!(ExpiryTime(written).resolve(|| now_unix), meant, "{written}");
        }
    }
}
