//! The source of the memory for the index's tables.

use std::ops::Range;
use std::ptr::NonNull;

/// The unit in which index tables are allocated: 64 to 1024 of them make a slab.
pub const TABLE_UNIT_BYTES: usize = 2 << 10;

/// Memory for index tables, counted against the memory limit.
pub trait TableSpace: Send + Sync {
    /// `units` contiguous units, aligned to a unit, with any content; `None` when the limit leaves
    /// no room.
    fn allocate(&self, units: usize) -> Option<NonNull<u8>>;

    /// Notes that the caller needs more memory than it was given, and has no other way to get it:
    /// the owner should free some soon.
    fn starve(&self) {}

    /// Takes back what `allocate(units)` returned.
    ///
    /// # Safety
    /// `start` came from `allocate(units)` of this space, was not released since, and no thread
    /// reads or writes it any more.
    unsafe fn release(&self, start: NonNull<u8>, units: usize);

    /// The addresses of runs whose owner should allocate others and release these, because memory
    /// could then be given back. A thread with time to spare asks repeatedly, and searches its runs
    /// for one that lies there; no run of one unit does.
    fn to_clear(&self) -> Option<Range<usize>> {
        None
    }

    /// Whether the run of `units` from `start` still lies there, and there is room for another.
    fn wants_moved(&self, _start: NonNull<u8>, _units: usize) -> bool {
        false
    }

    /// Notes that the owner cannot use the room found elsewhere for the run from `start`: so there
    /// is nothing to be gained from moving its neighbours.
    fn cannot_move(&self, _start: NonNull<u8>) {}
}
