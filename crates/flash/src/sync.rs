//! Syncing while the tier is in use, so that it is known in time that the kernel has lost notes.
//!
//! A note is in the page cache when it counts as written, and the kernel writes it back some time
//! later. If that fails, for a volume without room or a network without a path, it says so to
//! nobody but whoever syncs next, and once. Until then a process would go on, and after a kill the
//! next one would believe what is on the device by then: in the same boot, but without the notes
//! that were lost. So somebody who may wait asks about once a minute, whenever what was reached has
//! been kept ([`mod@crate::reached`]): there is something to be synced then.
//!
//! ```text
//!   synced --keep_reached--> due --sync--> synced
//!                             |
//!                             +--fails--> lost --heal--> told --sync--> synced
//!                                          ^                |
//!                                          +-----fails------+
//! ```
//!
//! Whichever notes were lost, all that was stored before is void from *lost* on, as where a device
//! is closed: whoever is told says so on the device himself, for whoever comes after a kill, and
//! the background once more. Nothing new is taken until the device has synced the note that says
//! so. Segments that were ready for their next use are made so again: their journals may not have
//! been emptied.

use stdx::sync::atomic::{AtomicU8, Ordering};
use stdx::sync::{Mutex, lock};

use crate::Flash;

/// Where it stands, and a lock for who syncs: the kernel tells one of two of what was lost.
#[derive(Debug, Default)]
pub(crate) struct Syncing {
    state: AtomicU8,
    pub(crate) alone: Mutex<()>,
}

const SYNCED: u8 = 0;
const DUE: u8 = 1;
const LOST: u8 = 2;
const TOLD: u8 = 3;

impl Syncing {
    fn changes(&self, from: u8, to: u8) {
        // Release: partner is the acquire in `sync_if_due`. A change from another state is over.
        let _ = self.state.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    /// Something was written that is to be synced.
    pub(crate) fn want(&self) {
        self.changes(SYNCED, DUE);
    }

    /// Notes were lost, and that all is void is not yet on the device for good.
    pub(crate) fn has_lost(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= LOST
    }

    /// The lock is held, and all was synced, that all is void too if anything was lost.
    pub(crate) fn has_synced(&self) {
        self.state.store(SYNCED, Ordering::Relaxed);
    }
}

impl Flash {
    /// Has the device keep what it was told, if that is due: about once a minute. Takes as long as
    /// the device takes, so that nobody should wait for the caller; it holds no lock meanwhile that
    /// others wait for. What fails here makes void what was stored before, at once, and the next
    /// [`Flash::maintain`] has it kept.
    pub fn sync_if_due(&self) {
        let Ok(_alone) = self.syncing.alone.try_lock() else { return };
        // Acquire: partner is the release in `changes`. What was told by then is synced.
        let state = self.syncing.state.load(Ordering::Acquire);
        if state != DUE && state != TOLD {
            return;
        }
        // Before it, since what is written meanwhile is synced another time.
        self.syncing.changes(DUE, SYNCED);
        if self.device.sync().is_ok() {
            self.syncing.changes(TOLD, SYNCED);
        } else {
            self.counters.io_errors.add(1);
            self.syncing.state.store(LOST, Ordering::Relaxed);
            // Nobody else knows. The background may be held up by the same device for long, and
            // whoever comes after a kill is told nothing.
            self.void_device();
        }
    }

    /// Makes void what was stored before notes were lost. The lock of chores is held: nobody makes
    /// a segment ready meanwhile.
    pub(crate) fn tell_of_loss(&self) {
        if self.syncing.state.load(Ordering::Relaxed) != LOST {
            return;
        }
        // No segment is opened meanwhile: those that were are void, and those that will be are
        // ready by notes of from now on.
        let mut writer = lock(&self.writer);
        let prepared = std::mem::take(&mut writer.prepared);
        writer.free.extend(prepared);
        if self.void_device() {
            self.syncing.changes(LOST, TOLD);
        }
    }
}
