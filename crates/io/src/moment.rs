//! Points in time finer than the seconds that items' times have: for deadlines, uptimes and log
//! lines.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since the epoch by the machine's wall clock.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A moment from which time is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopwatch(Instant);

impl From<Instant> for Stopwatch {
    /// Counts from that instant.
    fn from(instant: Instant) -> Self {
        Self(instant)
    }
}

impl Stopwatch {
    /// Counts from now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The rest of `patience`; zero once it is used up.
    pub fn rest_of(&self, patience: Duration) -> Duration {
        patience.saturating_sub(self.elapsed())
    }
}
