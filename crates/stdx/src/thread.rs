//! Numbers of threads: which of a few copies of something a thread uses.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// This thread's number: 0 for the first that asks, and so on. Threads that begin one after the
/// other have numbers that follow one another, so that modulo a power of two they meet late.
/// Nobody gets the number of a thread that has ended.
#[inline]
pub fn thread_number() -> usize {
    NUMBER.get()
}
