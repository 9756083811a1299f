//! When dictionaries are trained, and by which thread; and when flash is synced.
//!
//! Training takes some tenths of a second of a processor. The background's thread, which demotes
//! items, cannot do that while stores come: items that it has no time for are evicted. So a thread
//! of its own calls [`Cache::train`], if there is one, as in the server, and may have the lowest
//! priority: it holds no lock meanwhile that another thread waits for. Without one the background
//! trains by itself, as soon as it is calm.
//!
//! The same thread has the flash tier's device sync its notes, about once a minute, which takes as
//! long as the device takes.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cache::Cache;

/// Microseconds without a store that had to demote an item, after which the background is calm.
const CALM_US: u64 = 1_000_000;

/// State shared by the training thread and the background.
#[derive(Debug, Default)]
pub(crate) struct Training {
    /// A thread of its own trains, and syncs.
    is_apart: AtomicBool,
    /// Dictionaries were trained: the heap has grown for a moment.
    has_trained: AtomicBool,
}

/// Since when no store has had to demote an item itself.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    handed: u64,
    since_us: u64,
}

impl Cache {
    /// Trains the dictionaries that are due, each in some tenths of a second, and syncs the device
    /// of the flash tier if that is due. From the first call on, [`Cache::maintain`] does neither:
    /// call this now and then from a thread of its own, which may have a low priority. Returns
    /// whether anything was trained.
    pub fn train(&self) -> bool {
        self.training.is_apart.store(true, Ordering::Relaxed);
        self.sync_flash();
        self.train_due()
    }

    /// The background's part: syncs the device of the flash tier if that is due and no other thread
    /// does. The caller is not pinned, and holds no lock.
    pub(crate) fn sync_between(&self) {
        if !self.training.is_apart.load(Ordering::Relaxed) {
            self.sync_flash();
        }
    }

    fn sync_flash(&self) {
        if let Some(tier) = &self.flash {
            tier.flash.sync_if_due();
        }
    }

    /// The background's part: trains, if no other thread does and there is time for it, and has the
    /// heap give back what training took. Returns whether there may be more to do at once.
    pub(crate) fn train_between(&self, calm: &mut Calm) -> bool {
        let is_apart = self.training.is_apart.load(Ordering::Relaxed);
        let trained = !is_apart && self.is_calm(calm) && self.train_due();
        if self.training.has_trained.swap(false, Ordering::Relaxed) {
            ::io::heap::trim();
        }
        trained
    }

    /// Trains the dictionaries for which there are enough samples.
    fn train_due(&self) -> bool {
        let compressed = self.compressed.as_ref().is_some_and(|compressed| compressed.zone.train());
        let flash = self.flash.as_ref().is_some_and(|tier| tier.flash.train());
        if compressed || flash {
            self.training.has_trained.store(true, Ordering::Relaxed);
        }
        compressed || flash
    }

    /// Whether there is time for work of tens of milliseconds: during a burst of stores no segment
    /// would be written meanwhile.
    fn is_calm(&self, calm: &mut Calm) -> bool {
        let Some(tier) = &self.flash else { return true };
        let handed = tier.counters.handed.load(Ordering::Relaxed);
        if handed == calm.handed {
            return handed == 0
                || self.clock.monotonic_us().saturating_sub(calm.since_us) > CALM_US;
        }
        *calm = Calm { handed, since_us: self.clock.monotonic_us() };
        false
    }
}
