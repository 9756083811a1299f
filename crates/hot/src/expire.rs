//! The sweep for expired items, while memory is full: they are worth more room than anything that
//! the hand could evict, and the hand comes to them only in their turn.
//!
//! A slab knows a time before which nothing in it expires, so that most slabs are passed without a
//! look at any chunk. A slab in which too little was found is left alone for a while, for twice as
//! long each time: where items live long and expire one by one, a look at all of a slab's chunks
//! for each of them is not worth it.

use memory::{Place, SlabId};
use stdx::sync::lock;

use crate::evict::HAND_PREFETCH;
use crate::slab::Slab;
use crate::{CacheHooks, Hot};

/// Chunks that are looked at under one lock of a class.
const STEP_CHUNKS: u32 = 256;
/// Slabs that one step passes by, at most.
const PASSED_MAX: usize = 4096;
/// One in this many of a slab's chunks must have been taken, or the next look waits longer.
const WORTH_SHARE: u32 = 16;
/// Seconds that a slab in which nothing was found is left alone, at first and at most.
const WAIT_SECONDS: std::ops::RangeInclusive<u32> = 1..=64;

/// The progress of the sweep, and what it knows of each slab.
#[derive(Debug, Default)]
pub struct Sweep {
    slab: u32,
    /// The next chunk; 0 before the slab was begun.
    chunk: u32,
    /// The earliest expiry that remains in the slab, as far as it was looked at.
    earliest: u32,
    /// Chunks of the slab that were taken so far.
    taken: u32,
    waits: Vec<Wait>,
    /// Totals over all slabs.
    found: Found,
}

/// The results of sweeping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Chunks that were looked at.
    pub looks: u64,
    /// Of these, those that are free now, or will be when readers have left.
    pub taken: u64,
}

impl Sweep {
    /// The results since the sweep began.
    pub fn found(&self) -> Found {
        self.found
    }
}

/// How long a slab is left alone.
#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    /// Unix seconds.
    until: u32,
    seconds: u32,
}

impl Wait {
    /// Notes a look at a slab in which `taken` of its chunks were taken.
    fn found(&mut self, taken: u32, chunks: u32, now: u32) {
        let (least, most) = WAIT_SECONDS.into_inner();
        self.seconds = if taken * WORTH_SHARE < chunks {
            (2 * self.seconds).clamp(least, most)
        } else {
            self.seconds / 2
        };
        self.until = now.saturating_add(self.seconds);
    }
}

impl Hot {
    /// Notes that something in the slab of `place` expires, after it was published or its expiry
    /// changed.
    #[inline]
    pub fn note_expiry(&self, place: Place, expiry: u32) {
        if expiry != 0 {
            self.slabs[self.arena.locate(place).0.0 as usize].note_expiry(expiry);
        }
    }

    /// The next step of the sweep: removes dead items from a part of the next slab worth it.
    /// Returns whether there are slabs left that it has not come by.
    pub fn sweep_expired(&self, sweep: &mut Sweep, hooks: &dyn CacheHooks) -> bool {
        sweep.waits.resize(self.slabs.len(), Wait::default());
        let now = hooks.now();
        for _ in 0..PASSED_MAX {
            let Some(slab) = self.slabs.get(sweep.slab as usize) else {
                sweep.slab = 0;
                return false;
            };
            let is_begun = sweep.chunk > 0;
            let is_due =
                slab.first_expiry() <= now && sweep.waits[sweep.slab as usize].until <= now;
            if is_begun || (is_due && slab.was_owned()) {
                self.sweep_step(sweep, slab, hooks);
                break;
            }
            sweep.slab += 1;
        }
        true
    }

    fn sweep_step(&self, sweep: &mut Sweep, slab: &Slab, hooks: &dyn CacheHooks) {
        let id = SlabId(sweep.slab);
        let guard = self.epochs.pin();
        let mut chained = Vec::new();
        let mut is_over = true;
        {
            // The class's lock keeps the slab from changing hands.
            let mut class = lock(self.class(slab.class()));
            let owned = slab.belongs_to(class.id);
            let touched = if owned { slab.touched() } else { 0 };
            if sweep.chunk == 0 {
                if owned {
                    // Items published from here on are noted after this. In a slab that has just
                    // come to another class some may have been.
                    slab.forget_expiry();
                }
                (sweep.earliest, sweep.taken) = (u32::MAX, 0);
            }
            let end = touched.min(sweep.chunk + STEP_CHUNKS);
            for number in sweep.chunk..end {
                if number + HAND_PREFETCH < touched {
                    let soon = slab.place(&self.arena, id, number + HAND_PREFETCH);
                    slab.chunk(&self.arena, soon).prefetch();
                }
                let place = slab.place(&self.arena, id, number);
                let Some((item, owner)) = self.judged_here(&guard, class.id, place) else {
                    continue;
                };
                if hooks.is_gone(item) {
                    let taken = self.unlink(&guard, &mut class, hooks, owner, &mut chained);
                    class.counters.swept += u64::from(taken > 0);
                    sweep.taken += taken as u32;
                    sweep.found.taken += taken as u64;
                } else if owner == place && item.expiry() != 0 {
                    sweep.earliest = sweep.earliest.min(item.expiry());
                }
            }
            let looks = u64::from(end.saturating_sub(sweep.chunk));
            class.counters.swept_looks += looks;
            sweep.found.looks += looks;
            if end < touched {
                (sweep.chunk, is_over) = (end, false);
            } else {
                slab.note_expiry(sweep.earliest);
                let wait = &mut sweep.waits[sweep.slab as usize];
                wait.found(sweep.taken, touched, hooks.now());
            }
        }
        for place in chained {
            // SAFETY: unlinked by this call, under this guard.
            unsafe { self.retire_at_once(&guard, place) };
        }
        if is_over {
            sweep.slab += 1;
            sweep.chunk = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Wait;

    #[test]
    fn a_slab_waits_longer_the_less_was_found_and_soon_less_again() {
        let mut wait = Wait::default();
        let mut seconds = |taken| {
            wait.found(taken, 1600, 1000);
            assert_eq!(wait.until, 1000 + wait.seconds);
            wait.seconds
        };
        assert_eq!([99, 99, 0, 0, 0, 0, 0, 0].map(&mut seconds), [1, 2, 4, 8, 16, 32, 64, 64]);
        assert_eq!([100, 1600, 99, 100, 100, 100].map(seconds), [32, 16, 32, 16, 8, 4]);
    }
}
