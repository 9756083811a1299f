//! Closing: all that is staged is written, and the device says that it was closed cleanly.
//!
//! What was found at the start and is not recovered yet stays on the device as it is: on a large
//! one it would take minutes to find it all, and whoever stops the process does not wait so long.
//! The superblock goes on naming the segments, and the filter of the changes
//! ([`mod@crate::changes`]) is on the device like all other notes, which are synced before it says
//! "clean". So the next process does what it would do after a kill, in whichever boot of the
//! machine: of these segments it believes what is not among the changes. What this process has
//! stored lies above all of them.
//!
//! A device that does not sync has said that notes may be lost, whichever these are, and the kernel
//! says so once. So all that is on it is made void then, which is another note, and it has to sync
//! that.

use std::fmt;

use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::area::Area;
use crate::collect::Need;
use crate::{Flash, IndexAccess, Refused};

/// Closing gives up after so many attempts to find room for what is staged, and as many to tell the
/// device what it does not know.
pub(crate) const ATTEMPTS_MAX: usize = 4;

/// Why a device was not closed as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseError {
    /// Something could not be written: what was not yet on the device is lost.
    Incomplete,
    /// The device does not know of all that died, and takes no note of it: in the same boot the
    /// next start may find there what was deleted or replaced.
    Unsound,
}

impl fmt::Display for CloseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Incomplete => "a write failed while the flash tier was closed",
            Self::Unsound => "the device takes no note of what was deleted or replaced",
        })
    }
}

impl std::error::Error for CloseError {}

impl Flash {
    /// Seals and writes all, and marks the device as closed cleanly. What was found at the start
    /// and not given to the index yet is left to the next process. Nothing is taken or recovered
    /// after it, and nothing may be forgotten: the device would not believe the note.
    pub fn close(&self, access: &dyn IndexAccess) -> Result<(), CloseError> {
        let mut chores = lock(&self.chores);
        let errors_before = self.counters.io_errors.get();
        for attempt in 1.. {
            let sealed = {
                let mut writer = lock(&self.writer);
                let seal = |area| {
                    let sealed = self.seal(&mut writer, area, access);
                    self.freeze(&mut writer, area);
                    sealed
                };
                let [cold, hot] = Area::ALL.map(seal);
                let sealed = cold.and(hot);
                writer.is_closed = sealed.is_ok() || attempt == ATTEMPTS_MAX;
                sealed
            };
            self.write_waiting(access);
            if sealed.is_ok() || attempt == ATTEMPTS_MAX {
                break;
            }
            if sealed == Err(Refused::Busy) && lock(&self.writer).free_segments() == 0 {
                self.collect(&mut chores, access, 0, Need::Room);
            }
        }
        // Behind whoever is just syncing, who may be told of what was lost.
        let _alone = lock(&self.syncing.alone);
        if !self.sync_or_void() {
            return Err(CloseError::Unsound);
        }
        let mut superblock = lock(&self.superblock);
        superblock.clean = true;
        let is_clean = self.write_superblock(&superblock) && self.device.sync().is_ok();
        let is_complete = is_clean && self.counters.io_errors.get() == errors_before;
        if is_complete { Ok(()) } else { Err(CloseError::Incomplete) }
    }

    /// Makes sure that a crash of the machine leaves what the device was told; if it does not know
    /// all, or does not sync, that it was told that all is void. `false` if neither can be had.
    fn sync_or_void(&self) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            if self.is_unsound() {
                self.void_device();
            }
            if self.device.sync().is_err() {
                self.counters.io_errors.add(1);
                // Behind whoever is just making it void, of which it may have lost the note, too.
                let _superblock = lock(&self.superblock);
                self.unsound.store(true, Ordering::Relaxed);
            } else if !self.unsound.load(Ordering::Relaxed) {
                self.syncing.has_synced();
                return true;
            }
        }
        // What was written last may be kept all the same.
        self.void_device();
        false
    }
}
