//! The time, in whole seconds of Unix time, as items' expiry is kept; and a clock that tests move
//! by hand.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Something that knows the time.
pub trait Clock: Send + Sync {
    /// Seconds since 1970. Never goes backwards.
    fn unix_seconds(&self) -> u32;
}

/// The machine's time: Unix time when the clock was made, and from then on the monotonic clock, so
/// that an adjusted wall clock neither expires items at once nor keeps them for ever. The clock is
/// the coarse one, which moves with the kernel's ticks: every session reads it, and seconds are all
/// that it is asked for.
#[derive(Debug)]
pub struct SystemClock {
    started_monotonic_seconds: i64,
    started_unix_seconds: u32,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemClock {
    /// Starts at the machine's wall clock.
    pub fn new() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Unix time in 32 bits, unsigned, lasts until 2106.
        let started_unix_seconds = u32::try_from(unix.as_secs()).unwrap_or(u32::MAX);
        Self { started_monotonic_seconds: monotonic_seconds(), started_unix_seconds }
    }
}

impl Clock for SystemClock {
    fn unix_seconds(&self) -> u32 {
        let elapsed = monotonic_seconds() - self.started_monotonic_seconds;
        self.started_unix_seconds.saturating_add(u32::try_from(elapsed).unwrap_or(u32::MAX))
    }
}

fn monotonic_seconds() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a timespec to where it is told, which is one.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    debug_assert_eq!(done, 0);
    time.tv_sec
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock(AtomicU32);

impl ManualClock {
    /// Stands at `unix_seconds`.
    pub fn new(unix_seconds: u32) -> Self {
        Self(AtomicU32::new(unix_seconds))
    }

    /// Moves on by `seconds`.
    pub fn advance(&self, seconds: u32) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn unix_seconds(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
