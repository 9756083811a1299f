//! The atomics, locks and threads of std, or loom's when built with `--cfg loom`.
//!
//! Every crate whose concurrency is model-checked takes them from here, so that a model runs the
//! very code that the server runs.

use std::time::Duration;

#[cfg(loom)]
pub use loom::{hint, sync::Arc, sync::Mutex, sync::MutexGuard, sync::atomic, thread};
#[cfg(not(loom))]
pub use std::{hint, sync::Arc, sync::Mutex, sync::MutexGuard, sync::atomic, thread};

/// Locks `mutex`. A poisoned lock means that a thread died half-way through a change: there is no
/// state to trust behind it, so the caller dies too.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a thread panicked while it held this lock")
}

/// The wait between two looks at something another thread is about to change: spin a little, then
/// let that thread run, and if it does not come to an end, sleep. It may wait for a device itself.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Spins this often before it starts to yield: about a microsecond.
    pub const SPINS: u32 = 6;
    /// Yields this often before it starts to sleep: some milliseconds, or much longer where others
    /// want the core.
    pub const YIELDS: u32 = 20_000;
    /// The length of each sleep.
    pub const SLEEP: Duration = Duration::from_micros(200);

    /// Waits a moment, longer than the last time.
    pub fn wait(&mut self) {
        if cfg!(loom) {
            return thread::yield_now();
        }
        if self.0 < Self::SPINS {
            (0..1 << self.0).for_each(|_| hint::spin_loop());
        } else if self.0 < Self::SPINS + Self::YIELDS {
            thread::yield_now();
        } else {
            return std::thread::sleep(Self::SLEEP);
        }
        self.0 += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Regression: threads that waited for a lock whose owner waited for a device kept their cores
    /// busy for as long as that took.
    #[test]
    fn whoever_has_waited_for_long_sleeps() {
        let mut backoff = Backoff::default();
        (0..Backoff::SPINS + Backoff::YIELDS).for_each(|_| backoff.wait());
        let begin = Instant::now();
        (0..10).for_each(|_| backoff.wait());
        assert!(begin.elapsed() >= 10 * Backoff::SLEEP);
    }
}
