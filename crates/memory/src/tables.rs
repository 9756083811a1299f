//! Memory for the index's tables: slabs of the arena, cut into units of 16 KiB.
//!
//! A table is a run of four to seven units. Each slab has a map of its 16 to 128 units as an
//! integer; a run is the first that fits, in the oldest slab that has one, so that slabs empty out
//! as tables grow away from them, and an empty slab goes back to the arena.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use stdx::sync::atomic::{AtomicBool, Ordering};
use stdx::sync::lock;

use crate::arena::{Arena, SLAB_BYTES_MAX, SlabId};
use crate::space::{TABLE_UNIT_BYTES, TableSpace};

const _: () = assert!(SLAB_BYTES_MAX / TABLE_UNIT_BYTES == u128::BITS as usize);

/// The part of the arena that the index has.
#[derive(Debug)]
pub struct ArenaTables {
    arena: Arc<Arena>,
    slabs: Mutex<Vec<TableSlab>>,
    starved: AtomicBool,
}

#[derive(Debug)]
struct TableSlab {
    slab: SlabId,
    /// Bit `i`: unit `i` belongs to a table.
    taken: u128,
}

impl ArenaTables {
    /// No slabs yet.
    pub fn new(arena: Arc<Arena>) -> Self {
        Self { arena, slabs: Mutex::default(), starved: AtomicBool::new(false) }
    }

    /// How many slabs the index has.
    pub fn slabs(&self) -> usize {
        lock(&self.slabs).len()
    }

    /// Bytes of the tables in them.
    pub fn taken_bytes(&self) -> usize {
        let units = |slab: &TableSlab| slab.taken.count_ones() as usize;
        lock(&self.slabs).iter().map(units).sum::<usize>() * TABLE_UNIT_BYTES
    }

    /// Whether an allocation has failed since this was last asked: the index needs a slab.
    pub fn take_starved(&self) -> bool {
        self.starved.swap(false, Ordering::Relaxed)
    }
}

/// The first run of `units` free units in a map of `slab_units`.
fn first_fit(taken: u128, slab_units: usize, units: usize) -> Option<u32> {
    let run = (1_u128 << units) - 1;
    (0..=(slab_units - units) as u32).find(|&at| taken & (run << at) == 0)
}

impl TableSpace for ArenaTables {
    fn allocate(&self, units: usize) -> Option<NonNull<u8>> {
        let slab_units = self.arena.slab_bytes() / TABLE_UNIT_BYTES;
        assert!(units > 0 && units < slab_units);
        let run = (1_u128 << units) - 1;
        let mut slabs = lock(&self.slabs);
        let fit = slabs.iter().position(|slab| first_fit(slab.taken, slab_units, units).is_some());
        let number = fit.or_else(|| {
            let slab = self.arena.take(0)?;
            slabs.push(TableSlab { slab, taken: 0 });
            Some(slabs.len() - 1)
        });
        let Some(number) = number else {
            self.starved.store(true, Ordering::Relaxed);
            return None;
        };
        let slab = &mut slabs[number];
        let at = first_fit(slab.taken, slab_units, units)?;
        slab.taken |= run << at;
        // SAFETY: `at + units` is at most the units of a slab, so the run lies in it.
        Some(unsafe { self.arena.slab_start(slab.slab).add(at as usize * TABLE_UNIT_BYTES) })
    }

    unsafe fn release(&self, start: NonNull<u8>, units: usize) {
        let id = self.arena.slab_of(start);
        let offset = start.as_ptr() as usize - self.arena.slab_start(id).as_ptr() as usize;
        let run = ((1_u128 << units) - 1) << (offset / TABLE_UNIT_BYTES);
        let mut slabs = lock(&self.slabs);
        let number = slabs
            .iter()
            .position(|slab| slab.slab == id)
            .expect("a table lies in one of the index's slabs");
        assert_eq!(slabs[number].taken & run, run, "a table is released once");
        slabs[number].taken &= !run;
        if slabs[number].taken == 0 {
            slabs.remove(number);
            // SAFETY: the slab was taken in `allocate`, no table lies in it any more, and the
            // caller promised that nobody reads the last one.
            unsafe { self.arena.give(id) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_do_not_overlap_and_empty_slabs_go_back() {
        let arena = Arc::new(Arena::new(0, 2 << 20, 0).unwrap());
        let tables = ArenaTables::new(Arc::clone(&arena));
        let mut runs = Vec::new();
        for turn in 0.. {
            let units = 4 + turn % 4;
            let Some(start) = tables.allocate(units) else {
                break;
            };
            runs.push((start.as_ptr() as usize, units));
        }
        assert!(tables.take_starved() && !tables.take_starved());
        let taken: usize = runs.iter().map(|(_, units)| units).sum();
        assert!(taken > 80, "only {taken} units");
        assert_eq!(tables.taken_bytes(), taken * TABLE_UNIT_BYTES);
        runs.sort_unstable();
        for pair in runs.windows(2) {
            assert!(pair[0].0 + pair[0].1 * TABLE_UNIT_BYTES <= pair[1].0);
        }
        for (start, units) in runs {
            // SAFETY: allocated above and never used.
            unsafe { tables.release(NonNull::new(start as *mut u8).unwrap(), units) };
        }
        assert_eq!((tables.slabs(), arena.free_slabs()), (0, arena.limit_slabs()));
        assert_eq!(tables.taken_bytes(), 0);
    }
}
