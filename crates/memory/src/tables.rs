//! Memory for the index's tables: slabs of the arena, cut into units of 2 KiB.
//!
//! A table is a run of a dozen units or two, a segment of a trie one unit. Each slab has a map of
//! its 64 to 1024 units, a bit for each; a run is the first that fits, in the oldest slab that has
//! one, so that slabs empty out as tables grow away from them, and an empty slab goes back to the
//! arena.
//!
//! Tables grow at about the same time, so that the gap that one leaves is too short for the next,
//! and a fifth of the slabs would lie idle in gaps. So once memory runs short the index is asked to
//! move the tables of the slab with the fewest, which fill others without gaps until nothing would
//! be gained any more: a slab is *cleared* as a segment of a log is.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use stdx::sync::atomic::{AtomicBool, Ordering};
use stdx::sync::lock;

use crate::arena::{Arena, SLAB_BYTES_MAX, SLAB_BYTES_MIN, SlabId};
use crate::space::{TABLE_UNIT_BYTES, TableSpace};

/// Integers of a map.
const MAP_WORDS: usize = SLAB_BYTES_MAX / TABLE_UNIT_BYTES / WORD_UNITS;
/// Units in each of them, and the most that a table may have.
const WORD_UNITS: usize = u64::BITS as usize;
const _: () = assert!(SLAB_BYTES_MIN / TABLE_UNIT_BYTES >= WORD_UNITS);
/// One slab more than are needed, and one in so many, may lie idle in gaps: to clear one moves as
/// many tables as fill so many slabs at the most.
const LOOSE_SHARE: usize = 64;
/// Memory runs short when no more than one slab is free, and one in so many.
const SHORT_SHARE: usize = 64;

/// The part of the arena that the index has.
#[derive(Debug)]
pub struct ArenaTables {
    arena: Arc<Arena>,
    slabs: Mutex<TableSlabs>,
    starved: AtomicBool,
}

/// The slabs of the index, by age.
#[derive(Debug, Default)]
struct TableSlabs {
    slabs: Vec<TableSlab>,
    /// Units of all tables.
    taken_units: usize,
    /// Those where all that lies there can move.
    movable: Movable,
    /// The longest table that there ever was, in units.
    units_max: usize,
    /// The slab whose tables are being moved. It takes others only where there is no room at all.
    cleared: Option<SlabId>,
}

/// Slabs where all that lies there can move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Movable {
    slabs: usize,
    /// Units taken there.
    units: usize,
}

#[derive(Debug)]
struct TableSlab {
    slab: SlabId,
    free: FreeUnits,
    taken_units: usize,
    /// Of these, in runs of one, which do not move.
    fixed_units: usize,
    /// No run of free units is longer. It may be too high, and then a search in vain corrects it,
    /// so that the slabs that are full are passed by.
    run_max: usize,
}

/// Which units of a slab belong to no table.
#[derive(Debug, Clone, Copy)]
struct FreeUnits {
    /// Bit `i % 64` of word `i / 64`: unit `i`. Bits behind the last unit are not set.
    map: [u64; MAP_WORDS],
}

impl FreeUnits {
    /// All of a slab of so many units.
    fn all(slab_units: usize) -> Self {
        debug_assert!(slab_units.is_multiple_of(WORD_UNITS));
        let word = |at| if at < slab_units / WORD_UNITS { u64::MAX } else { 0 };
        Self { map: std::array::from_fn(word) }
    }

    /// The words from this one on that a run which begins in it may reach, as one.
    fn window(&self, word: usize) -> u128 {
        let next = self.map.get(word + 1).copied().unwrap_or(0);
        u128::from(next) << WORD_UNITS | u128::from(self.map[word])
    }

    /// Where the first run of `units` units begins.
    fn first_run(&self, units: usize) -> Option<usize> {
        (0..MAP_WORDS).find_map(|word| {
            // Bit `i` stays while the `length` units from there on are free.
            let (mut starts, mut length) = (self.window(word), 1);
            while length < units {
                let more = length.min(units - length);
                starts &= starts >> more;
                length += more;
            }
            let first = (starts as u64).trailing_zeros() as usize;
            (first < WORD_UNITS).then_some(word * WORD_UNITS + first)
        })
    }

    /// Changes whether the run that begins at `start` is free; it must have been the opposite.
    fn set(&mut self, start: usize, units: usize, is_free: bool) {
        let (word, run) = (start / WORD_UNITS, ((1_u128 << units) - 1) << (start % WORD_UNITS));
        let before = if is_free { 0 } else { run };
        assert_eq!(self.window(word) & run, before, "a table is given or taken once");
        self.map[word] ^= run as u64;
        let rest = (run >> WORD_UNITS) as u64;
        if rest != 0 {
            self.map[word + 1] ^= rest;
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.map.iter().map(|word| word.count_ones() as usize).sum()
    }
}

impl ArenaTables {
    /// No slabs yet.
    pub fn new(arena: Arc<Arena>) -> Self {
        Self { arena, slabs: Mutex::default(), starved: AtomicBool::new(false) }
    }

    /// How many slabs the index has.
    pub fn slabs(&self) -> usize {
        lock(&self.slabs).slabs.len()
    }

    /// Bytes of the tables in them.
    pub fn taken_bytes(&self) -> usize {
        lock(&self.slabs).taken_units * TABLE_UNIT_BYTES
    }

    /// Whether somebody starves since this was last asked: the index needs a slab.
    pub fn take_starved(&self) -> bool {
        self.starved.swap(false, Ordering::Relaxed)
    }

    fn slab_units(&self) -> usize {
        self.arena.slab_bytes() / TABLE_UNIT_BYTES
    }
}

impl TableSlab {
    /// One with all its units free.
    fn fresh(slab: SlabId, slab_units: usize) -> Self {
        let free = FreeUnits::all(slab_units);
        Self { slab, free, taken_units: 0, fixed_units: 0, run_max: WORD_UNITS }
    }

    /// The first run of `units`, if there is one.
    fn take(&mut self, units: usize) -> Option<usize> {
        if units > self.run_max {
            return None;
        }
        let start = self.free.first_run(units);
        match start {
            Some(start) => {
                self.free.set(start, units, false);
                self.taken_units += units;
                self.fixed_units += usize::from(units == 1);
            }
            None => self.run_max = units - 1,
        }
        start
    }

    /// Whether there is a run of `units`.
    fn has_room(&self, units: usize) -> bool {
        units <= self.run_max && self.free.first_run(units).is_some()
    }

    /// Takes back a run.
    fn give(&mut self, start: usize, units: usize) {
        self.free.set(start, units, true);
        self.taken_units -= units;
        self.fixed_units -= usize::from(units == 1);
        self.run_max = WORD_UNITS;
    }

    /// What it adds to the sum of those where all can move.
    fn movable(&self) -> Movable {
        match self.fixed_units {
            0 => Movable { slabs: 1, units: self.taken_units },
            _ => Movable::default(),
        }
    }
}

impl TableSlabs {
    /// Lets a slab give or take runs, and keeps the sums.
    fn change<T>(&mut self, number: usize, change: impl FnOnce(&mut TableSlab) -> T) -> T {
        let slab = &mut self.slabs[number];
        let (taken_units, movable) = (slab.taken_units, slab.movable());
        let changed = change(slab);
        self.taken_units = self.taken_units - taken_units + slab.taken_units;
        let now = slab.movable();
        self.movable.slabs = self.movable.slabs - movable.slabs + now.slabs;
        self.movable.units = self.movable.units - movable.units + now.units;
        changed
    }

    fn add(&mut self, slab: TableSlab) {
        self.movable.slabs += slab.movable().slabs;
        self.slabs.push(slab);
    }

    /// The number of a slab that has no tables any more is no longer valid.
    fn remove(&mut self, number: usize) -> SlabId {
        let slab = self.slabs.remove(number);
        self.movable.slabs -= slab.movable().slabs;
        self.cleared.take_if(|cleared| *cleared == slab.slab);
        slab.slab
    }

    /// A run of `units` in one of the slabs that are to be kept, or in the one that is being
    /// cleared.
    fn take(&mut self, units: usize, is_cleared: bool) -> Option<(SlabId, usize)> {
        (0..self.slabs.len()).find_map(|number| {
            let id = self.slabs[number].slab;
            let is_meant = (Some(id) == self.cleared) == is_cleared;
            let start = is_meant.then(|| self.change(number, |slab| slab.take(units)))??;
            self.units_max = self.units_max.max(units);
            Some((id, start))
        })
    }

    /// Whether there is a run of `units` in one of the slabs that are to be kept.
    fn has_room(&self, units: usize) -> bool {
        let mut kept = self.slabs.iter().filter(|slab| Some(slab.slab) != self.cleared);
        kept.any(|slab| slab.has_room(units))
    }

    /// Chooses the slab to clear: if tables that can move would fill many fewer, each until it has
    /// no room for the longest, the one with the fewest of them. The youngest, as long as it has
    /// room, is the one that is being filled.
    fn choose(&mut self, slab_units: usize) -> Option<SlabId> {
        let filled_units = (slab_units + 1).saturating_sub(self.units_max).max(1);
        let needed = self.movable.units.div_ceil(filled_units);
        let pays = self.movable.slabs > needed + 1 + needed / LOOSE_SHARE;
        let (longest, last) = (self.units_max, self.slabs.len().saturating_sub(1));
        let is_filled = |number, slab: &TableSlab| number < last || !slab.has_room(longest);
        let clears = |slab: &TableSlab| slab.fixed_units == 0;
        self.cleared = match self.cleared {
            _ if !pays => None,
            Some(id) if self.slabs.iter().any(|slab| slab.slab == id && clears(slab)) => Some(id),
            _ => {
                let filled = self.slabs.iter().enumerate().filter(|&(at, it)| is_filled(at, it));
                let slabs = filled.map(|(_, slab)| slab).filter(|slab| clears(slab));
                slabs.min_by_key(|slab| slab.taken_units).map(|slab| slab.slab)
            }
        };
        self.cleared
    }
}

impl TableSpace for ArenaTables {
    fn allocate(&self, units: usize) -> Option<NonNull<u8>> {
        assert!(units > 0 && units <= WORD_UNITS);
        let mut slabs = lock(&self.slabs);
        let mut fit = slabs.take(units, false);
        if fit.is_none() {
            if let Some(slab) = self.arena.take(0) {
                slabs.add(TableSlab::fresh(slab, self.slab_units()));
                fit = slabs.take(units, false);
            } else {
                fit = slabs.take(units, true);
            }
        }
        let (slab, start) = fit?;
        // SAFETY: the run from there on lies in the slab, whose units are all that were ever free.
        Some(unsafe { self.arena.slab_start(slab).add(start * TABLE_UNIT_BYTES) })
    }

    fn starve(&self) {
        self.starved.store(true, Ordering::Relaxed);
    }

    unsafe fn release(&self, start: NonNull<u8>, units: usize) {
        let id = self.arena.slab_of(start);
        let offset = start.as_ptr() as usize - self.arena.slab_start(id).as_ptr() as usize;
        let mut slabs = lock(&self.slabs);
        let number = slabs
            .slabs
            .iter()
            .position(|slab| slab.slab == id)
            .expect("a table lies in one of the index's slabs");
        slabs.change(number, |slab| slab.give(offset / TABLE_UNIT_BYTES, units));
        if slabs.slabs[number].taken_units == 0 {
            let id = slabs.remove(number);
            // SAFETY: the slab was taken in `allocate`, no table lies in it any more, and the
            // caller promised that nobody reads the last one.
            unsafe { self.arena.give(id) };
        }
    }

    fn wants_moved(&self, start: NonNull<u8>, units: usize) -> bool {
        let free_slabs = self.arena.free_slabs();
        if free_slabs > 1 + self.arena.limit_slabs() / SHORT_SHARE {
            return false;
        }
        let mut slabs = lock(&self.slabs);
        slabs.choose(self.slab_units()) == Some(self.arena.slab_of(start))
            && (slabs.has_room(units) || free_slabs > 0)
    }
}

#[cfg(test)]
mod moves;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs come and go beside a list that says of each unit whether it is free.
    #[test]
    #[cfg_attr(miri, ignore = "safe code with 20,000 inputs")]
    fn the_first_run_is_found_wherever_it_lies() {
        const UNITS: usize = 3 * WORD_UNITS;
        let mut free = FreeUnits::all(UNITS);
        let mut model = [true; UNITS];
        let mut taken = Vec::new();
        let mut random = 1_u64;
        let mut across_words = 0;
        for turn in 0..20_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(turn);
            let units = 1 + (random >> 33) as usize % WORD_UNITS;
            let first = free.first_run(units);
            let expected = model.windows(units).position(|run| run.iter().all(|unit| *unit));
            assert_eq!(first, expected, "of {units} units in turn {turn}");
            if let Some(start) = first {
                free.set(start, units, false);
                model[start..start + units].fill(false);
                taken.push((start, units));
                across_words += u32::from(start / WORD_UNITS != (start + units - 1) / WORD_UNITS);
            } else {
                let (start, units) = taken.swap_remove((random >> 50) as usize % taken.len());
                free.set(start, units, true);
                model[start..start + units].fill(true);
            }
            assert_eq!(free.count(), model.iter().filter(|unit| **unit).count());
        }
        assert!(across_words > 1_000, "only {across_words}");
    }

    #[test]
    fn tables_do_not_overlap_and_empty_slabs_go_back() {
        let arena = Arc::new(Arena::new(0, 2 << 20, 0).unwrap());
        let tables = ArenaTables::new(Arc::clone(&arena));
        let mut runs = Vec::new();
        for turn in 0.. {
            let units = 12 + turn % 12;
            let Some(start) = tables.allocate(units) else {
                break;
            };
            runs.push((start.as_ptr() as usize, units));
        }
        assert!(!tables.take_starved());
        tables.starve();
        assert!(tables.take_starved() && !tables.take_starved());
        let taken: usize = runs.iter().map(|(_, units)| units).sum();
        assert!(taken > 900, "only {taken} units");
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
