//! Where the index gets the memory of its tables from.

use std::ptr::NonNull;

/// The unit in which index tables are allocated: 128 to 1024 of them make a slab.
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

    /// Whether the owner of the run of `units` from `start` would do well to allocate another and
    /// release this one, because memory could then be given back. It is asked of one run after the
    /// other, again and again, by whoever has time; nobody asks for runs of one unit.
    fn wants_moved(&self, _start: NonNull<u8>, _units: usize) -> bool {
        false
    }
}
