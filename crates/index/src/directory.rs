//! The directory: from the prefix of a hash to the table that holds its keys.
//!
//! ```text
//!   depth 3    000  001  010  011  100  101  110  111      the first three bits of a hash
//!               |    |     \   /      \   |    |  /
//!               A    B       C             D               A, B: depth 3; C: 2; D: 1
//!
//!   entry    47                       11 10   6 5    0
//!           | table's address / 2 Ki      | units | depth |
//! ```
//!
//! A table of smaller depth than the directory's stands in several entries. An entry says
//! everything a lookup needs to compute the addresses of both buckets, so the header of the table
//! is not touched on the way. Tables are aligned to 2 KiB and lie below 2^48, which leaves room
//! for units and depth in the same word.
//!
//! This is extendible hashing (Fagin et al. 1979). The directory never shrinks: it is 8 bytes for
//! each table of at least 24 KiB.

use std::ptr::NonNull;

use crate::table::{TableMemory, UNITS_MAX};
use memory::space::TABLE_UNIT_BYTES;
use stdx::sync::atomic::{AtomicU64, Ordering};

const DEPTH_BITS: u32 = 6;
const UNITS_BITS: u32 = 5;
const ADDRESS_MASK: u64 = !(TABLE_UNIT_BYTES as u64 - 1);
const _: () = assert!(1 << (DEPTH_BITS + UNITS_BITS) <= TABLE_UNIT_BYTES);
const _: () = assert!(UNITS_MAX < 1 << UNITS_BITS);

/// The first `depth` bits of `hash`.
#[inline]
fn prefix(hash: u64, depth: u32) -> usize {
    // In two steps, because a shift by 64 is no shift.
    (hash >> 1 >> (63 - depth)) as usize
}

/// A table in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    pub(crate) fn new(memory: TableMemory, depth: u32) -> Self {
        let address = memory.start.as_ptr().expose_provenance() as u64;
        assert!(address < 1 << 48, "user memory lies below 2^48");
        assert!(address & !ADDRESS_MASK == 0 && depth < 1 << DEPTH_BITS);
        Self(address | (memory.units as u64) << DEPTH_BITS | u64::from(depth))
    }

    /// The memory of the table.
    #[inline]
    pub(crate) fn memory(self) -> TableMemory {
        let address = (self.0 & ADDRESS_MASK) as usize;
        let start = NonNull::new(std::ptr::with_exposed_provenance_mut(address))
            .expect("an entry was made from a table");
        TableMemory { start, units: self.units() }
    }

    #[inline]
    pub(crate) fn units(self) -> usize {
        (self.0 >> DEPTH_BITS) as usize & ((1 << UNITS_BITS) - 1)
    }

    #[inline]
    pub(crate) fn depth(self) -> u32 {
        self.0 as u32 & ((1 << DEPTH_BITS) - 1)
    }
}

/// One entry for each prefix of `depth` bits.
#[derive(Debug)]
pub(crate) struct Directory {
    depth: u32,
    entries: Box<[AtomicU64]>,
}

impl Directory {
    /// A directory of the given tables, whose number is a power of two.
    pub(crate) fn new(entries: impl ExactSizeIterator<Item = Entry>) -> Self {
        debug_assert!(entries.len().is_power_of_two());
        Self {
            depth: entries.len().ilog2(),
            entries: entries.map(|entry| AtomicU64::new(entry.0)).collect(),
        }
    }

    /// The same tables in a directory one bit deeper.
    pub(crate) fn doubled(&self) -> Self {
        // Relaxed: entries change only under the growth lock, which the caller holds.
        let twice =
            (0..2 * self.entries.len()).map(|at| self.entries[at / 2].load(Ordering::Relaxed));
        Self::new(twice.map(Entry))
    }

    /// The table for `hash`.
    #[inline]
    pub(crate) fn entry(&self, hash: u64) -> Entry {
        // Acquire: partner is the release in `assign`.
        Entry(self.entries[prefix(hash, self.depth)].load(Ordering::Acquire))
    }

    /// Puts `entry` in all places of its prefix, which `hash` begins with. The caller holds the
    /// growth lock.
    pub(crate) fn assign(&self, hash: u64, entry: Entry) {
        let spread = self.depth - entry.depth();
        let first = prefix(hash, entry.depth()) << spread;
        for place in &self.entries[first..first + (1 << spread)] {
            // Release: partner is the acquire in `entry`, which then sees the table's content.
            place.store(entry.0, Ordering::Release);
        }
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Heap memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.entries)
    }
}

/// The hash with the lowest prefix behind that of depth `depth` which `hash` begins with; `None`
/// behind the last.
pub(crate) fn next_prefix(hash: u64, depth: u32) -> Option<u64> {
    let last = hash | u64::MAX.checked_shr(depth).unwrap_or(0);
    last.checked_add(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::table::UNITS_MIN;

    fn table(number: usize) -> TableMemory {
        let start = std::ptr::without_provenance_mut(number * TABLE_UNIT_BYTES);
        TableMemory {
            start: NonNull::new(start).expect("tables are numbered from 1"),
            units: UNITS_MIN + number % UNITS_MIN,
        }
    }

    #[test]
    fn an_entry_keeps_its_parts() {
        for number in [1, 2, 3, (1 << 37) - 1] {
            for depth in [0, 1, 63] {
                let entry = Entry::new(table(number), depth);
                assert_eq!((entry.memory(), entry.depth()), (table(number), depth));
            }
        }
    }

    #[test]
    fn doubling_keeps_every_table_and_assigning_changes_one_prefix() {
        let root = Directory::new([Entry::new(table(1), 0)].into_iter());
        assert_eq!(root.entry(u64::MAX).memory(), table(1));
        let one = root.doubled();
        one.assign(0, Entry::new(table(2), 1));
        one.assign(1 << 63, Entry::new(table(3), 1));
        let two = one.doubled();
        two.assign(0b11 << 62, Entry::new(table(4), 2));
        let found = [0, 1, 2, 3].map(|two_bits| two.entry(two_bits << 62).memory());
        assert_eq!(found, [table(2), table(2), table(3), table(4)]);
        assert_eq!((two.depth(), two.bytes()), (2, size_of::<Directory>() + 32));
    }

    #[test]
    fn prefixes_are_walked_to_the_end() {
        assert_eq!(next_prefix(0, 0), None);
        assert_eq!(next_prefix(0, 1), Some(1 << 63));
        assert_eq!(next_prefix(1 << 63, 1), None);
        assert_eq!(next_prefix(1 << 62 | 5, 2), Some(1 << 63));
    }
}
