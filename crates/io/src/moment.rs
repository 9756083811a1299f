//! Points in time finer than the seconds that items are kept by: for deadlines, uptimes and log
//! lines.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since the epoch by the machine's wall clock.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A moment that time is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopwatch(Instant);

impl From<Instant> for Stopwatch {
    /// Counts from then.
    fn from(instant: Instant) -> Self {
        Self(instant)
    }
}

impl Stopwatch {
    /// Counts from now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// How long ago that was.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// What is left of `patience`; nothing once it is over.
    pub fn rest_of(&self, patience: Duration) -> Duration {
        patience.saturating_sub(self.elapsed())
    }
}
