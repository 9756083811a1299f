//! Thread numbers, which choose one of a few copies of something for a thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// This thread's number: 0 for the first that asks, and so on. Threads started one after the other
/// have consecutive numbers, so that modulo a power of two they collide late. The number of a
/// thread that has ended is not reused.
#[inline]
pub fn thread_number() -> usize {
    NUMBER.get()
}
