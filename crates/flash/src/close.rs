//! Closing: writes everything staged, and marks the device as closed cleanly.
//!
//! Segments found at the start and not recovered yet stay on the device as they are: on a large one
//! recovery would take minutes, too long for a stop. The superblock goes on naming the segments,
//! and the filter of the changes ([`mod@crate::changes`]) is on the device like all other notes,
//! which are synced before the superblock says "clean". So the next process does what it would do
//! after a kill, in whichever boot of the machine: of these segments it believes the items that are
//! not among the changes. Everything stored by this process lies above all of them.
//!
//! A device that does not sync may have lost any of its notes, and the kernel says so once. So
//! everything on it is made void then, which is another note, and it has to sync that.

use std::fmt;

use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::area::Area;
use crate::collect::Need;
use crate::{Flash, IndexAccess, Refused};

/// Attempts of closing to find room for staged rows, and attempts to write the notes that are
/// missing on the device.
pub(crate) const ATTEMPTS_MAX: usize = 4;

/// Why a device was not closed as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseError {
    /// Something could not be written: rows not yet on the device are lost.
    Incomplete,
    /// The device does not know of all that died, and takes no note of it: in the same boot the
    /// next start may find items there that were deleted or replaced.
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
    /// Seals and writes everything, and marks the device as closed cleanly. Segments found at the
    /// start and not given to the index yet are left to the next process. Nothing is taken or
    /// recovered after it, and nothing may be forgotten: the device would not believe the note.
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
        // After a sync under way, whose thread may be told of a loss.
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

    /// Makes the notes on the device outlast a crash of the machine; if some are missing, or it
    /// does not sync, makes the note outlast it that everything is void. `false` if neither
    /// succeeds.
    fn sync_or_void(&self) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            if self.is_unsound() {
                self.void_device();
            }
            if self.device.sync().is_err() {
                self.counters.io_errors.add(1);
                // After a write under way that voids everything, a note that may have been lost,
                // too.
                let _superblock = lock(&self.superblock);
                self.unsound.store(true, Ordering::Relaxed);
            } else if !self.unsound.load(Ordering::Relaxed) {
                self.syncing.has_synced();
                return true;
            }
        }
        // The last notes may be kept all the same.
        self.void_device();
        false
    }
}
