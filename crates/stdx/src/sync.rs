//! The atomics, locks and threads of std, or loom's when built with `--cfg loom`.
//!
//! Every crate whose concurrency is model-checked takes them from here, so that a model runs the
//! very code that the server runs.

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
/// let that thread run.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Spins this often before it starts to yield: about a microsecond.
    pub const SPINS: u32 = 6;

    /// Waits a moment, longer than the last time.
    pub fn wait(&mut self) {
        if cfg!(loom) || self.0 >= Self::SPINS {
            thread::yield_now();
        } else {
            for _ in 0..1 << self.0 {
                hint::spin_loop();
            }
            self.0 += 1;
        }
    }
}
