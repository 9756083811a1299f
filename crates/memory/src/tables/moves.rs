//! Tables that move out of slabs with gaps.

use super::*;

/// Tables as an index has them, each of which grows by a unit and splits in time.
struct Grown {
    arena: Arc<Arena>,
    tables: ArenaTables,
    runs: Vec<(NonNull<u8>, usize)>,
    random: u64,
}

impl Grown {
    /// Tables of 12 units grow until they have this many units together, all at about the same
    /// time, in slabs of 512 KiB.
    fn of(units_max: usize) -> Self {
        Self::in_arena(256 << 20, units_max)
    }

    /// Does so in an arena of this many bytes.
    fn in_arena(bytes: usize, units_max: usize) -> Self {
        let arena = Arc::new(Arena::new(0, bytes, 0).expect("addresses are there"));
        let tables = ArenaTables::new(Arc::clone(&arena));
        let mut grown = Self { arena, tables, runs: Vec::new(), random: 1 };
        grown.add(12);
        let mut left = 1;
        while lock(&grown.tables.slabs).taken_units < units_max {
            // Not in the order in which they lie.
            if left == 0 {
                left = grown.runs.len();
            }
            let number = grown.draw() % left;
            left -= 1;
            grown.runs.swap(number, left);
            match grown.runs[left].1 {
                23 => {
                    grown.replace(left, 12);
                    grown.add(12);
                }
                units => grown.replace(left, units + 1),
            }
        }
        grown
    }

    fn draw(&mut self) -> usize {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.random >> 33) as usize
    }

    fn add(&mut self, units: usize) {
        self.runs.push((self.tables.allocate(units).expect("there is memory"), units));
    }

    /// Puts another run in the place of this one, as for a table that grew or moved.
    fn replace(&mut self, number: usize, units: usize) {
        let fresh = (self.tables.allocate(units).expect("there is memory"), units);
        let (start, units) = std::mem::replace(&mut self.runs[number], fresh);
        // SAFETY: allocated by this and never used.
        unsafe { self.tables.release(start, units) };
    }

    /// Moves runs until none is to be moved, with this many slabs free at any time, as an index
    /// does: it searches its tables for those that lie where the space says, a part in each turn,
    /// and moves one. Returns the number of moves, and of turns.
    fn move_all(&mut self, free_slabs: usize) -> (usize, usize) {
        let (mut moves, mut turns, mut idle_turns, mut at) = (0, 0, 0, 0);
        while idle_turns < 2 {
            let taken = self.arena.limit_slabs() - self.arena.free_slabs();
            self.arena.set_limit_slabs(taken + free_slabs);
            turns += 1;
            idle_turns += 1;
            let Some(addresses) = self.tables.to_clear() else {
                continue;
            };
            let begin = std::mem::take(&mut at);
            for number in begin..self.runs.len() {
                let (start, units) = self.runs[number];
                if addresses.contains(&start.addr().get()) && self.tables.wants_moved(start, units)
                {
                    self.replace(number, units);
                    (moves, idle_turns, at) = (moves + 1, 0, number + 1);
                    break;
                }
            }
        }
        (moves, turns - idle_turns)
    }

    /// Slabs that as many units would fill without gaps.
    fn slabs_full(&self) -> usize {
        let units = self.runs.iter().map(|(_, units)| units).sum::<usize>();
        units.div_ceil(self.tables.slab_units())
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        let mut ends: Vec<_> = self.runs.iter().map(|(start, units)| (*start, *units)).collect();
        ends.sort_unstable();
        for pair in ends.windows(2) {
            let end = pair[0].0.addr().get() + pair[0].1 * TABLE_UNIT_BYTES;
            assert!(end <= pair[1].0.addr().get(), "no run lies in another");
        }
        for (start, units) in self.runs.drain(..) {
            // SAFETY: allocated by this and never used.
            unsafe { self.tables.release(start, units) };
        }
        assert_eq!((self.tables.slabs(), self.tables.taken_bytes()), (0, 0));
        assert_eq!(lock(&self.tables.slabs).movable, Movable::default());
    }
}

#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn tables_move_until_few_slabs_have_gaps() {
    let mut grown = Grown::of(8_600);
    let (before, full) = (grown.tables.slabs(), grown.slabs_full());
    assert!(before * 100 > full * 118, "{before} slabs, {full} would do");
    let (moves, _) = grown.move_all(1);
    let after = grown.tables.slabs();
    assert!(after * 100 < full * 112, "{after} slabs of {before}, {full} would do");
    assert!(moves < 2 * grown.runs.len(), "{moves} moves of {} tables", grown.runs.len());
    assert_eq!(grown.move_all(1).0, 0, "it comes to an end");
}

/// Regression: one table after the other was checked for a move, 64 in a turn, and one of a
/// thousand slabs was cleared at a time: that took a whole round of turns for each of them.
#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn slabs_are_cleared_in_about_as_many_turns_as_tables_move() {
    let mut grown = Grown::in_arena(1 << 30, 360_000);
    assert!(grown.runs.len() > 15_000 && grown.tables.slabs() > 350);
    let before = grown.tables.slabs();
    let (moves, turns) = grown.move_all(1);
    let cleared = before - grown.tables.slabs();
    assert!(cleared > 15 && moves > 50 * cleared, "{cleared} slabs, {moves} tables");
    assert!(turns < moves + moves / 8, "{turns} turns for {moves} tables");
}

/// A run goes to the oldest slab that has room for it, found here by a search through all of them.
#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn a_run_lies_in_the_oldest_slab_with_room() {
    let mut grown = Grown::of(8_600);
    for turn in 0..5_000 {
        let units = 12 + grown.draw() % 12;
        let expected = {
            let slabs = lock(&grown.tables.slabs);
            let mut kept = slabs.by_age.values();
            kept.find(|slab| slab.free.first_run(units).is_some()).map(|slab| slab.slab)
        };
        grown.add(units);
        let (start, _) = grown.runs.last().expect("one was added");
        let found = grown.arena.slab_of(*start);
        assert!(expected.is_none_or(|expected| expected == found), "of {units} in turn {turn}");
        let gone = grown.draw() % grown.runs.len();
        let (start, units) = grown.runs.swap_remove(gone);
        // SAFETY: allocated by this and never used.
        unsafe { grown.tables.release(start, units) };
    }
}

/// Regression: a table that is nearly full may find no place for each of its words when it is built
/// anew. Its slab remained the one to be cleared, and no other was.
#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn a_table_that_cannot_move_keeps_only_its_own_slab() {
    let mut grown = Grown::of(8_600);
    grown.arena.set_limit_slabs(grown.arena.used_slabs() + 1);
    let before = grown.tables.slabs();
    let stuck = grown.tables.to_clear().expect("some slabs are to be cleared");
    let lies_there = |(start, _): &(NonNull<u8>, usize)| stuck.contains(&start.addr().get());
    let (run, _) = *grown.runs.iter().find(|run| lies_there(run)).expect("one lies there");
    grown.tables.cannot_move(run);
    assert_ne!(grown.tables.to_clear(), Some(stuck.clone()));
    assert!(grown.move_all(1).0 > 0 && grown.tables.slabs() < before);
    assert!(grown.runs.iter().any(lies_there));
    // Once it is released, the others can move.
    let number = grown.runs.iter().position(|(start, _)| *start == run).expect("it is there");
    let (start, units) = grown.runs.swap_remove(number);
    // SAFETY: allocated by this and never used.
    unsafe { grown.tables.release(start, units) };
    assert!(!lock(&grown.tables.slabs).by_age.values().any(|slab| slab.is_stuck));
}

/// Regression: the slab that was being cleared took no tables until memory ran short again.
#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn a_slab_is_not_cleared_any_more_once_there_is_memory() {
    let mut grown = Grown::of(8_600);
    grown.arena.set_limit_slabs(grown.arena.used_slabs() + 1);
    let addresses = grown.tables.to_clear().expect("some slabs are to be cleared");
    let lies_there = |start: &NonNull<u8>| addresses.contains(&start.addr().get());
    let mut numbers: Vec<_> = (0..grown.runs.len()).collect();
    numbers.retain(|&number| lies_there(&grown.runs[number].0));
    // Now there is much room.
    numbers[1..].iter().for_each(|&number| grown.replace(number, 12));
    assert!(numbers[1..].iter().all(|&number| !lies_there(&grown.runs[number].0)));
    grown.arena.set_limit_slabs(512);
    assert_eq!(grown.tables.to_clear(), None);
    // It is used before there is another slab.
    let (slabs, before) = (grown.tables.slabs(), grown.runs.len());
    while grown.tables.slabs() == slabs {
        grown.add(WORD_UNITS);
    }
    assert!(grown.runs[before..].iter().any(|(start, _)| lies_there(start)));
}

#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn nothing_moves_while_there_is_memory() {
    let mut grown = Grown::of(8_600);
    assert_eq!(grown.move_all(4).0, 0);
}

/// Segments of tries do not move, so that their slabs cannot be cleared.
#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn a_slab_with_runs_that_cannot_move_is_not_cleared() {
    let mut grown = Grown::of(8_600);
    grown.arena.set_limit_slabs(grown.arena.used_slabs());
    let fixed: Vec<_> = std::iter::from_fn(|| grown.tables.allocate(1)).collect();
    assert!(fixed.len() > 1000, "{}", fixed.len());
    assert_eq!(grown.move_all(1).0, 0);
    // All but those of one slab in four.
    let (kept, freed): (Vec<_>, Vec<_>) =
        fixed.into_iter().partition(|start| grown.arena.slab_of(*start).0.is_multiple_of(4));
    for start in freed {
        // SAFETY: allocated above and never used.
        unsafe { grown.tables.release(start, 1) };
    }
    let before = grown.tables.slabs();
    assert!(grown.move_all(1).0 > 0 && grown.tables.slabs() < before);
    for start in kept {
        // SAFETY: allocated above and never used.
        unsafe { grown.tables.release(start, 1) };
    }
}
