//! Where the index gets the memory of its tables from.

use std::ops::Range;
use std::ptr::NonNull;

/// The unit in which index tables are allocated: 64 to 1024 of them make a slab.
pub const TABLE_UNIT_BYTES: usize = 2 << 10;

/// Memory for index tables, counted against the memory limit.
pub trait TableSpace: Send + Sync {
    /// `units` contiguous units, aligned to a unit, with any content; `None` when the limit leaves
    /// no room.
    fn allocate(&self, units: usize) -> Option<NonNull<u8>>;

    /// The caller needs more memory than it was given, and has no other way: somebody should see to
    /// it that there is some soon.
    fn starve(&self) {}

    /// Takes back what `allocate(units)` returned.
    ///
    /// # Safety
    /// `start` came from `allocate(units)` of this space, was not released since, and no thread
    /// reads or writes it any more.
    unsafe fn release(&self, start: NonNull<u8>, units: usize);

    /// The addresses of runs whose owner would do well to allocate others and release these,
    /// because memory could then be given back. Whoever has time asks again and again, and goes
    /// through what he has for one that lies there; no run of one unit does.
    fn to_clear(&self) -> Option<Range<usize>> {
        None
    }

    /// Whether the run of `units` from `start` lies there still, and another would be found for it.
    fn wants_moved(&self, _start: NonNull<u8>, _units: usize) -> bool {
        false
    }

    /// There is room for the run from `start` elsewhere, and its owner cannot use it: so there is
    /// nothing to be gained from moving its neighbours.
    fn cannot_move(&self, _start: NonNull<u8>) {}
}
