//! Flushing: everything stored so far is gone at once, and its memory comes back over time.
//!
//! A flush takes a number from the sequence of mutations; items with that number or a lower one
//! are gone from then on. Items keep only the low half of their number, so the comparison holds
//! for the next 2^31 mutations. Long before that the background has walked the zone once and
//! removed every such item ([`crate::Cache::maintain`]), and the flush is over; should it ever come
//! close, stores wait for the walk.
//!
//! The walk begins when every session has ended that was open at the flush: one of them may have
//! taken its number before and publish behind the walk. And the flush is over when every session
//! has ended that was open at the walk's end: one of them may have found an item before the walk
//! removed it, and asks only then whether it is gone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::cache::Cache;
use crate::types::Expiry;

/// Mutations after a flush at which a store walks the zone itself rather than leave it to the
/// background.
pub(crate) const WALK_DUE_MUTATIONS: u64 = 1 << 30;

/// The flush that is under way, and the one that is planned.
#[derive(Debug, Default)]
pub(crate) struct Flush {
    /// Items up to this number are gone; 0: there are none.
    sequence: AtomicU64,
    /// How many flushes there were.
    count: AtomicU64,
    /// Unix seconds at which to flush; 0: nothing planned.
    planned: AtomicU32,
}

impl Flush {
    /// Whether an item with this low half of a number is gone.
    #[inline]
    pub(crate) fn covers(&self, low: u32) -> bool {
        // Acquire: partner is the release in `begin`; what was stored after the flush was over has
        // numbers above it.
        let sequence = self.sequence.load(Ordering::Acquire);
        sequence != 0 && low.wrapping_sub(sequence as u32).cast_signed() <= 0
    }

    /// The number up to which items are gone; 0 if none are.
    pub(crate) fn sequence(&self) -> u64 {
        // Acquire: partner is the release in `begin`; whoever pins an epoch after a tag taken from
        // here on gets higher numbers.
        self.sequence.load(Ordering::Acquire)
    }

    /// How many flushes there were. Something prepared from an item is entered only if this has
    /// not changed since the item was read.
    pub(crate) fn count(&self) -> u64 {
        // Acquire: partner is the release in `begin`; who sees the count sees the number.
        self.count.load(Ordering::Acquire)
    }

    fn begin(&self, sequence: u64) {
        // Release: partners are the acquires in `covers` and `count`.
        self.sequence.fetch_max(sequence, Ordering::Release);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// The walk for the flush up to `sequence` is done.
    pub(crate) fn end(&self, sequence: u64) {
        // A flush that began meanwhile has a higher number and stays. Release: partner is the
        // acquire in `covers`; who no longer sees the flush finds none of its items.
        let _ = self.sequence.compare_exchange(sequence, 0, Ordering::Release, Ordering::Relaxed);
    }
}

impl Cache {
    /// Makes everything stored before gone: now, or at a time in the future, when it will apply to
    /// everything stored before that time. A later call replaces what an earlier one planned.
    pub fn flush(&self, at: Option<Expiry>) {
        let planned = &self.moment.flush.planned;
        self.tick();
        match at {
            Some(expiry) if expiry != Expiry::NEVER && !expiry.is_over(self.now()) => {
                planned.store(expiry.0, Ordering::Relaxed);
            }
            _ => {
                planned.store(0, Ordering::Relaxed);
                self.flush_now();
            }
        }
    }

    /// Flushes if a planned flush is due.
    pub(crate) fn flush_if_due(&self) {
        let planned = &self.moment.flush.planned;
        let due = planned.load(Ordering::Relaxed);
        if due != 0
            && due <= self.now()
            && planned.compare_exchange(due, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.flush_now();
        }
    }

    fn flush_now(&self) {
        self.moment.flush.begin(self.next_sequence());
        self.call_for_work();
    }
}
