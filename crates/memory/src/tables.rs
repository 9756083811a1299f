//! Memory for the index's tables: slabs of the arena, cut into units of 2 KiB.
//!
//! A table is a run of a dozen units or two, a segment of a trie one unit. Each slab has a map of
//! its 64 to 1024 units, a bit for each; a run is the first that fits, in the oldest slab that has
//! one, so that slabs empty out as tables grow away from them, and an empty slab goes back to the
//! arena. An index of a terabyte has tens of thousands of slabs, and all writers wait for the same
//! lock: so slabs are ordered by their longest free run, and the only search through all of them is
//! the choice of one to clear.
//!
//! Tables grow at about the same time, so that the gap that one leaves is too short for the next,
//! and a fifth of the slabs would lie idle in gaps. So once memory runs short the index is asked to
//! move the tables of the slab with the fewest, which fill others without gaps until nothing would
//! be gained any more: a slab is *cleared* like a segment of a log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use stdx::sync::atomic::{AtomicBool, Ordering};
use stdx::sync::lock;

use crate::arena::{Arena, Claim, SLAB_BYTES_MAX, SLAB_BYTES_MIN, SlabId};
use crate::space::{TABLE_UNIT_BYTES, TableSpace};

/// Integers of a map.
const MAP_WORDS: usize = SLAB_BYTES_MAX / TABLE_UNIT_BYTES / WORD_UNITS;
/// Units in each of them, and the most that a table may have.
const WORD_UNITS: usize = u64::BITS as usize;
const _: () = assert!(SLAB_BYTES_MIN / TABLE_UNIT_BYTES >= WORD_UNITS);
/// One slab more than is needed, and one in this many, may lie idle in gaps: clearing one moves at
/// most as many tables as fill this many slabs.
const LOOSE_SHARE: usize = 64;
/// Memory runs short when no more than one slab is free, and one in this many.
const SHORT_SHARE: usize = 64;

/// The part of the arena that the index has.
#[derive(Debug)]
pub struct ArenaTables {
    arena: Arc<Arena>,
    slabs: Mutex<TableSlabs>,
    starved: AtomicBool,
}

/// The age of one of the index's slabs: the higher, the younger.
type Age = u64;

/// The slabs of the index.
#[derive(Debug)]
struct TableSlabs {
    by_age: BTreeMap<Age, TableSlab>,
    ages: BTreeMap<SlabId, Age>,
    next_age: Age,
    /// The slabs to be kept, by the length of their longest run of free units.
    rooms: [BTreeSet<Age>; WORD_UNITS + 1],
    /// Units of all tables.
    taken_units: usize,
    /// The slabs in which all runs can move.
    movable: Movable,
    /// The longest table so far, in units.
    units_max: usize,
    /// The slab whose tables are being moved. It takes others only where there is no room at all.
    cleared: Option<Age>,
    /// A slab is about to be emptied for the index.
    claim: Option<Claim>,
}

/// The slabs in which all runs can move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Movable {
    slabs: usize,
    /// Units taken in them.
    units: usize,
}

#[derive(Debug)]
struct TableSlab {
    slab: SlabId,
    free: FreeUnits,
    taken_units: usize,
    /// Of these, the ones in runs of one, which do not move.
    fixed_units: usize,
    /// The longest run of free units, up to a whole word.
    run_max: usize,
    /// A table here could not be moved, so that the slab is not chosen until one is released.
    is_stuck: bool,
}

/// The units of a slab that belong to no table.
#[derive(Debug, Clone, Copy)]
struct FreeUnits {
    /// Bit `i % 64` of word `i / 64`: unit `i`. Bits behind the last unit are not set.
    map: [u64; MAP_WORDS],
}

impl FreeUnits {
    /// All units of a slab of `slab_units`.
    fn all(slab_units: usize) -> Self {
        debug_assert!(slab_units.is_multiple_of(WORD_UNITS));
        let word = |at| if at < slab_units / WORD_UNITS { u64::MAX } else { 0 };
        Self { map: std::array::from_fn(word) }
    }

    /// The word and the next as one integer: a run that begins in the word ends there.
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

    /// The length of the longest run, up to a whole word.
    fn longest_run(&self) -> usize {
        let mut longest = 0;
        for word in 0..MAP_WORDS {
            // Bit `i` stays while the `length + 1` units from there on are free.
            let (mut starts, mut length) = (self.window(word), 0);
            while starts as u64 != 0 && length < WORD_UNITS {
                length += 1;
                starts &= starts >> 1;
            }
            longest = longest.max(length);
            if longest == WORD_UNITS {
                break;
            }
        }
        longest
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
        Self { arena, slabs: Mutex::new(TableSlabs::new()), starved: AtomicBool::new(false) }
    }

    /// The number of the index's slabs.
    pub fn slabs(&self) -> usize {
        lock(&self.slabs).by_age.len()
    }

    /// Bytes of the tables in them.
    pub fn taken_bytes(&self) -> usize {
        lock(&self.slabs).taken_units * TABLE_UNIT_BYTES
    }

    /// Whether the index has starved since this was last asked: it needs a slab.
    pub fn take_starved(&self) -> bool {
        self.starved.swap(false, Ordering::Relaxed)
    }

    /// Claims the next slab that leaves, which is about to be emptied for the index: the index gets
    /// one also while a lowered limit is exceeded.
    pub fn claim(&self) {
        let mut slabs = lock(&self.slabs);
        slabs.claim = Some(self.arena.claim(slabs.claim));
    }

    fn slab_units(&self) -> usize {
        self.arena.slab_bytes() / TABLE_UNIT_BYTES
    }
}

impl TableSlab {
    /// A slab with all its units free.
    fn fresh(slab: SlabId, slab_units: usize) -> Self {
        let free = FreeUnits::all(slab_units);
        let run_max = WORD_UNITS;
        Self { slab, free, taken_units: 0, fixed_units: 0, run_max, is_stuck: false }
    }

    /// Takes the first run of `units`.
    fn take(&mut self, units: usize) -> Option<usize> {
        let start = self.free.first_run(units)?;
        self.free.set(start, units, false);
        self.taken_units += units;
        self.fixed_units += usize::from(units == 1);
        Some(start)
    }

    /// Takes back a run.
    fn give(&mut self, start: usize, units: usize) {
        self.free.set(start, units, true);
        self.taken_units -= units;
        self.fixed_units -= usize::from(units == 1);
        self.is_stuck = false;
    }

    /// Its part of the sum over slabs in which all runs can move.
    fn movable(&self) -> Movable {
        match self.fixed_units {
            0 => Movable { slabs: 1, units: self.taken_units },
            _ => Movable::default(),
        }
    }
}

impl TableSlabs {
    fn new() -> Self {
        Self {
            by_age: BTreeMap::new(),
            ages: BTreeMap::new(),
            next_age: 0,
            rooms: [const { BTreeSet::new() }; WORD_UNITS + 1],
            taken_units: 0,
            movable: Movable::default(),
            units_max: 0,
            cleared: None,
            claim: None,
        }
    }

    /// Has a slab give or take runs, and keeps the sums and its place in `rooms` up to date.
    fn change<T>(&mut self, age: Age, change: impl FnOnce(&mut TableSlab) -> T) -> T {
        let slab = self.by_age.get_mut(&age).expect("it is one of the index's slabs");
        let (taken_units, movable, run_max) = (slab.taken_units, slab.movable(), slab.run_max);
        let changed = change(slab);
        slab.run_max = slab.free.longest_run();
        self.taken_units = self.taken_units - taken_units + slab.taken_units;
        let now = slab.movable();
        self.movable.slabs = self.movable.slabs - movable.slabs + now.slabs;
        self.movable.units = self.movable.units - movable.units + now.units;
        if slab.run_max != run_max && self.cleared != Some(age) {
            self.rooms[run_max].remove(&age);
            self.rooms[slab.run_max].insert(age);
        }
        changed
    }

    fn add(&mut self, slab: TableSlab) {
        let age = self.next_age;
        self.next_age += 1;
        self.movable.slabs += slab.movable().slabs;
        self.ages.insert(slab.slab, age);
        self.rooms[slab.run_max].insert(age);
        self.by_age.insert(age, slab);
    }

    fn remove(&mut self, age: Age) -> SlabId {
        let slab = self.by_age.remove(&age).expect("it is one of the index's slabs");
        self.movable.slabs -= slab.movable().slabs;
        self.ages.remove(&slab.slab);
        if self.cleared == Some(age) {
            self.cleared = None;
        } else {
            self.rooms[slab.run_max].remove(&age);
        }
        slab.slab
    }

    /// A run of `units` in the oldest of the slabs to be kept that has one, or in the one that is
    /// being cleared.
    fn take(&mut self, units: usize, is_cleared: bool) -> Option<(SlabId, usize)> {
        let age = if is_cleared { self.cleared } else { self.oldest_with_room(units) }?;
        let start = self.change(age, |slab| slab.take(units))?;
        self.units_max = self.units_max.max(units);
        Some((self.by_age[&age].slab, start))
    }

    /// The oldest of the slabs to be kept that has a run of `units`.
    fn oldest_with_room(&self, units: usize) -> Option<Age> {
        self.rooms[units..].iter().filter_map(BTreeSet::first).min().copied()
    }

    /// Clears this slab and no other.
    fn clear(&mut self, age: Option<Age>) {
        let before = std::mem::replace(&mut self.cleared, age);
        if let Some(before) = before {
            self.rooms[self.by_age[&before].run_max].insert(before);
        }
        if let Some(age) = age {
            self.rooms[self.by_age[&age].run_max].remove(&age);
        }
    }

    /// Chooses the slab to clear: if tables that can move would fill many fewer, each until it has
    /// no room for the longest, the one with the fewest units taken. The youngest, as long as it
    /// has room, is the one that is being filled.
    fn choose(&mut self, slab_units: usize) -> Option<SlabId> {
        let filled_units = (slab_units + 1).saturating_sub(self.units_max).max(1);
        let needed = self.movable.units.div_ceil(filled_units);
        let pays = self.movable.slabs > needed + 1 + needed / LOOSE_SHARE;
        let clears = |slab: &TableSlab| slab.fixed_units == 0 && !slab.is_stuck;
        let stays = |age: Age| clears(&self.by_age[&age]);
        let chosen = match self.cleared {
            _ if !pays => None,
            Some(age) if stays(age) => Some(age),
            _ => {
                let youngest = self.by_age.last_key_value().map(|(age, _)| *age);
                let is_filled = |(age, slab): &(&Age, &TableSlab)| {
                    Some(**age) != youngest || slab.run_max < self.units_max
                };
                let slabs = self.by_age.iter().filter(is_filled).filter(|(_, slab)| clears(slab));
                slabs.min_by_key(|(_, slab)| slab.taken_units).map(|(age, _)| *age)
            }
        };
        if chosen != self.cleared {
            self.clear(chosen);
        }
        Some(self.by_age[&chosen?].slab)
    }
}

impl TableSpace for ArenaTables {
    fn allocate(&self, units: usize) -> Option<NonNull<u8>> {
        assert!(units > 0 && units <= WORD_UNITS);
        let mut slabs = lock(&self.slabs);
        let mut fit = slabs.take(units, false);
        if fit.is_none() {
            let claim = slabs.claim;
            if let Some(slab) = self.arena.take(0).or_else(|| self.arena.take_claimed(claim?)) {
                slabs.claim = None;
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
        let emptied = {
            let mut slabs = lock(&self.slabs);
            let age = slabs.ages.get(&id).copied();
            let age = age.expect("a table lies in one of the index's slabs");
            slabs.change(age, |slab| slab.give(offset / TABLE_UNIT_BYTES, units));
            (slabs.by_age[&age].taken_units == 0).then(|| {
                // A table that was too short is released before a longer one is allocated: while a
                // lowered limit is exceeded, this slab is due to the index.
                slabs.claim = Some(self.arena.claim(slabs.claim));
                slabs.remove(age)
            })
        };
        // The kernel takes its time, during which others may have tables.
        if let Some(id) = emptied {
            // SAFETY: the slab was taken in `allocate`, no table lies in it any more, and the
            // caller promised that no thread reads the last one. No other thread finds it in the
            // list.
            unsafe { self.arena.give(id) };
        }
    }

    fn to_clear(&self) -> Option<Range<usize>> {
        let is_short = self.arena.free_slabs() <= 1 + self.arena.limit_slabs() / SHORT_SHARE;
        let mut slabs = lock(&self.slabs);
        if !is_short {
            slabs.clear(None);
            return None;
        }
        let start = self.arena.slab_start(slabs.choose(self.slab_units())?).addr().get();
        Some(start..start + self.arena.slab_bytes())
    }

    fn wants_moved(&self, start: NonNull<u8>, units: usize) -> bool {
        let id = self.arena.slab_of(start);
        let slabs = lock(&self.slabs);
        let is_cleared = slabs.cleared.is_some_and(|age| slabs.by_age[&age].slab == id);
        is_cleared && (slabs.oldest_with_room(units).is_some() || self.arena.free_slabs() > 0)
    }

    fn cannot_move(&self, start: NonNull<u8>) {
        let id = self.arena.slab_of(start);
        let mut slabs = lock(&self.slabs);
        if let Some(age) = slabs.ages.get(&id).copied() {
            slabs.change(age, |slab| slab.is_stuck = true);
        }
    }
}

#[cfg(test)]
mod moves;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs come and go, compared with a list of which units are free.
    #[test]
    #[cfg_attr(miri, ignore = "safe code with 20,000 inputs")]
    fn the_first_run_is_found_anywhere() {
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
            let longest = model.split(|is_free| !is_free).map(<[bool]>::len).max();
            assert_eq!(Some(free.longest_run()), longest.map(|units| units.min(WORD_UNITS)));
        }
        assert!(across_words > 1_000, "only {across_words}");
    }

    /// Regression: what the hot zone gave up for the index while a lowered limit was exceeded went
    /// back to the system, and the index starved on until the hot zone had nothing left.
    #[test]
    fn the_index_gets_the_slab_that_was_emptied_for_it_while_a_lowered_limit_is_exceeded() {
        let arena = Arc::new(Arena::new(0, 2 << 20, 0).unwrap());
        let tables = ArenaTables::new(Arc::clone(&arena));
        let mut items: Vec<_> = std::iter::from_fn(|| arena.take(0)).collect();
        arena.set_limit_slabs(arena.limit_slabs() / 2);
        // SAFETY: the slab was taken above, and is never used.
        let mut give = || unsafe { arena.give(items.pop().unwrap()) };
        tables.claim();
        assert!(tables.allocate(WORD_UNITS).is_none());
        give();
        let short = tables.allocate(1).expect("a slab has left");
        // SAFETY: allocated above and never used.
        unsafe { tables.release(short, 1) };
        assert!(tables.allocate(WORD_UNITS).is_some(), "it is due once more");
        give();
        let left = tables.slab_units() / WORD_UNITS - 1;
        assert!((0..left).all(|_| tables.allocate(WORD_UNITS).is_some()));
        assert!(tables.allocate(1).is_none(), "one slab was claimed");
        assert_eq!(tables.slabs(), 1);
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
