//! The time: seconds and milliseconds of Unix time, by which the expiry of items is kept, and
//! microseconds, by which durations are measured; and a clock that tests move by hand.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds in a second.
const MICROSECONDS: u64 = 1_000_000;
/// Milliseconds in a second.
const MILLISECONDS: u64 = 1000;
/// Nanoseconds in a second.
const NANOSECONDS: i64 = 1_000_000_000;

/// A source of time.
pub trait Clock: Send + Sync {
    /// Seconds since 1970. Never goes backwards.
    fn unix_seconds(&self) -> u32;

    /// Milliseconds since 1970. Never goes backwards, and a second begins here no later than in
    /// [`Clock::unix_seconds`]. A clock that knows only seconds counts those.
    fn unix_ms(&self) -> u64 {
        u64::from(self.unix_seconds()) * MILLISECONDS
    }

    /// Milliseconds since 1970 by the machine's wall clock, which may have been set since the
    /// others began to count: for times that another process uses. A clock that is never set
    /// returns the same as [`Clock::unix_ms`].
    fn wall_ms(&self) -> u64 {
        self.unix_ms()
    }

    /// Microseconds since some earlier moment. Never goes backwards. A clock that knows only
    /// seconds counts those.
    fn monotonic_us(&self) -> u64 {
        u64::from(self.unix_seconds()) * MICROSECONDS
    }

    /// Microseconds for which the calling thread has run, without the time that other threads take
    /// of its processor. A clock that does not look at threads counts as if each had a processor of
    /// its own.
    fn thread_cpu_us(&self) -> u64 {
        self.monotonic_us()
    }
}

/// The machine's time: Unix time when the clock was made, and from then on the monotonic clock, so
/// that an adjusted wall clock neither expires items at once nor keeps them for ever. For seconds
/// the clock is the coarse one, which moves with the kernel's ticks: every session reads it, and
/// needs seconds only.
#[derive(Debug)]
pub struct SystemClock {
    /// The difference of Unix time and the monotonic clock: seconds, and nanoseconds of one.
    ahead: libc::timespec,
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
        let monotonic = read(libc::CLOCK_MONOTONIC);
        let unix_s = i64::try_from(unix.as_secs()).unwrap_or(i64::MAX);
        let nanoseconds = i64::from(unix.subsec_nanos()) - monotonic.tv_nsec;
        let ahead = libc::timespec {
            tv_sec: unix_s - monotonic.tv_sec - i64::from(nanoseconds < 0),
            tv_nsec: nanoseconds.rem_euclid(NANOSECONDS),
        };
        Self { ahead }
    }

    /// Unix time by one of the monotonic clocks: seconds, and nanoseconds of one.
    fn unix(&self, clock: libc::clockid_t) -> (u64, u64) {
        let monotonic = read(clock);
        let nanoseconds = monotonic.tv_nsec + self.ahead.tv_nsec;
        let carry = i64::from(nanoseconds >= NANOSECONDS);
        let seconds = monotonic.tv_sec + self.ahead.tv_sec + carry;
        (seconds.max(0) as u64, (nanoseconds - carry * NANOSECONDS) as u64)
    }
}

impl Clock for SystemClock {
    fn unix_seconds(&self) -> u32 {
        // Unsigned, 32 bits last until 2106.
        u32::try_from(self.unix(libc::CLOCK_MONOTONIC_COARSE).0).unwrap_or(u32::MAX)
    }

    fn unix_ms(&self) -> u64 {
        let (seconds, nanoseconds) = self.unix(libc::CLOCK_MONOTONIC);
        seconds * MILLISECONDS + nanoseconds / (NANOSECONDS as u64 / MILLISECONDS)
    }

    fn wall_ms(&self) -> u64 {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self) -> u64 {
        microseconds(read(libc::CLOCK_MONOTONIC))
    }

    fn thread_cpu_us(&self) -> u64 {
        microseconds(read(libc::CLOCK_THREAD_CPUTIME_ID))
    }
}

fn microseconds(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * MICROSECONDS + time.tv_nsec as u64 / 1000
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a timespec to the address that it is given, which is one.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(done, 0);
    time
}

thread_local! {
    /// Microseconds by which the calling thread has moved clocks on by hand.
    static MOVED_US: Cell<u64> = const { Cell::new(0) };
}

/// A clock that stands still until it is moved. Its two times are one. A thread has run for as long
/// as it has moved the clock itself: a move by another thread counts for that one, however their
/// runs overlap.
#[derive(Debug)]
pub struct ManualClock {
    unix_us: AtomicU64,
}

impl ManualClock {
    /// Makes a clock that stands at `unix_seconds`.
    pub fn new(unix_seconds: u32) -> Self {
        Self { unix_us: AtomicU64::new(u64::from(unix_seconds) * MICROSECONDS) }
    }

    /// Moves on by `seconds`.
    pub fn advance(&self, seconds: u32) {
        self.advance_us(u64::from(seconds) * MICROSECONDS);
    }

    /// Moves on by `us` microseconds.
    pub fn advance_us(&self, us: u64) {
        self.unix_us.fetch_add(us, Ordering::Relaxed);
        MOVED_US.set(MOVED_US.get() + us);
    }
}

impl Clock for ManualClock {
    fn unix_seconds(&self) -> u32 {
        (self.monotonic_us() / MICROSECONDS) as u32
    }

    fn unix_ms(&self) -> u64 {
        self.monotonic_us() / (MICROSECONDS / MILLISECONDS)
    }

    fn monotonic_us(&self) -> u64 {
        self.unix_us.load(Ordering::Relaxed)
    }

    fn thread_cpu_us(&self) -> u64 {
        MOVED_US.get()
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, ManualClock, SystemClock};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn seconds_and_milliseconds_are_of_one_time() {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let clock = SystemClock::new();
        let first_ms = clock.unix_ms();
        assert!(u128::from(first_ms) + 1 >= wall.as_millis(), "{first_ms}, {wall:?}");
        for _ in 0..10_000 {
            // The coarse clock is behind by one tick at most, and never ahead.
            let (second, ms) = (clock.unix_seconds(), clock.unix_ms());
            assert!(u64::from(second) * 1000 <= ms && first_ms <= ms, "{second} {ms}");
        }
    }

    #[test]
    fn a_thread_runs_for_as_long_as_it_moves_the_clock() {
        let clock = ManualClock::new(1);
        let times = || (clock.monotonic_us(), clock.thread_cpu_us());
        let (began_at_us, began_us) = times();
        clock.advance_us(5);
        std::thread::scope(|scope| _ = scope.spawn(|| clock.advance_us(300)));
        assert_eq!(times(), (began_at_us + 305, began_us + 5));
    }

    #[test]
    fn a_thread_that_sleeps_does_not_run() {
        let clock = SystemClock::new();
        let (wall_us, cpu_us) = (clock.monotonic_us(), clock.thread_cpu_us());
        std::thread::sleep(Duration::from_millis(20));
        let cpu_us = clock.thread_cpu_us() - cpu_us;
        assert!(cpu_us < clock.monotonic_us() - wall_us, "{cpu_us}");
    }
}
