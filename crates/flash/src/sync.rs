//! Syncing while the tier is in use, so that lost notes are noticed in time.
//!
//! A note counts as written when it is in the page cache, and the kernel writes it back some time
//! later. If that fails, because a volume has no room or a network no path, the kernel says so only
//! to the next caller that syncs, and once. Until then a process would go on, and after a kill the
//! next one would believe what is on the device by then: in the same boot, but without the lost
//! notes. So a thread that may wait syncs about once a minute, whenever what was reached has been
//! kept ([`mod@crate::reached`]): there is something to be synced then.
//!
//! ```text
//!   synced --keep_reached--> due --sync--> synced
//!                             |
//!                             +--fails--> lost --heal--> told --sync--> synced
//!                                          ^                |
//!                                          +-----fails------+
//! ```
//!
//! Whichever notes were lost, everything stored before is void from *lost* on, as where a device is
//! closed: the thread that is told says so on the device itself, for a process that starts after a
//! kill, and the background does so once more. Nothing new is taken until the device has synced
//! that note. Segments that were prepared for their next use are prepared again: their journals may
//! not have been emptied.

use stdx::sync::atomic::{AtomicU8, Ordering};
use stdx::sync::{Mutex, lock};

use crate::Flash;

/// The state of syncs, and a lock for the syncing thread: of two, the kernel tells one of a loss.
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
        // Release: partner is the acquire in `sync_if_due`. A change from another state has ended.
        let _ = self.state.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    /// Notes that something was written that is to be synced.
    pub(crate) fn want(&self) {
        self.changes(SYNCED, DUE);
    }

    /// Notes were lost, and the note that everything is void is not yet synced.
    pub(crate) fn has_lost(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= LOST
    }

    /// Called with the lock held, when everything was synced, including the note of a loss.
    pub(crate) fn has_synced(&self) {
        self.state.store(SYNCED, Ordering::Relaxed);
    }
}

impl Flash {
    /// Syncs the device, if that is due: about once a minute. Takes as long as the device takes, so
    /// that nothing should wait for the caller; it holds no lock meanwhile that others wait for. A
    /// failure voids everything stored before, at once, and the next [`Flash::maintain`] has that
    /// kept.
    pub fn sync_if_due(&self) {
        let Ok(_alone) = self.syncing.alone.try_lock() else { return };
        // Acquire: partner is the release in `changes`. Notes written by then are synced.
        let state = self.syncing.state.load(Ordering::Acquire);
        if state != DUE && state != TOLD {
            return;
        }
        // Before the sync, since notes written meanwhile are synced another time.
        self.syncing.changes(DUE, SYNCED);
        if self.device.sync().is_ok() {
            self.syncing.changes(TOLD, SYNCED);
        } else {
            self.counters.io_errors.add(1);
            self.syncing.state.store(LOST, Ordering::Relaxed);
            // No other thread knows. The background may be held up by the same device for long, and
            // a process that starts after a kill is told nothing.
            self.void_device();
        }
    }

    /// Voids everything stored before notes were lost. Called with the lock of the chores held: no
    /// segment is prepared meanwhile.
    pub(crate) fn tell_of_loss(&self) {
        if self.syncing.state.load(Ordering::Relaxed) != LOST {
            return;
        }
        // No segment is opened meanwhile: those opened before are void, and those opened later are
        // prepared by notes written from now on.
        let mut writer = lock(&self.writer);
        let prepared = std::mem::take(&mut writer.prepared);
        writer.free.extend(prepared);
        if self.void_device() {
            self.syncing.changes(LOST, TOLD);
        }
    }
}
