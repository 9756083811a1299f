//! Tables that move out of slabs with gaps.

use super::*;

/// Tables that an index would have, each of which grows by a unit and splits in time.
struct Grown {
    arena: Arc<Arena>,
    tables: ArenaTables,
    runs: Vec<(NonNull<u8>, usize)>,
    random: u64,
}

impl Grown {
    /// Tables of 12 units grow until they have so many together, all at about the same time, in
    /// slabs of 512 KiB.
    fn of(units_max: usize) -> Self {
        let arena = Arc::new(Arena::new(0, 256 << 20, 0).expect("addresses are there"));
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

    /// Another run in the place of this one, as of a table that grew or moved.
    fn replace(&mut self, number: usize, units: usize) {
        let fresh = (self.tables.allocate(units).expect("there is memory"), units);
        let (start, units) = std::mem::replace(&mut self.runs[number], fresh);
        // SAFETY: allocated by this and never used.
        unsafe { self.tables.release(start, units) };
    }

    /// Moves what is to be moved until nothing is, with so many slabs free at any time. Returns
    /// how often that was.
    fn move_all(&mut self, free_slabs: usize) -> usize {
        let mut moves = 0;
        loop {
            let before = moves;
            for number in 0..self.runs.len() {
                let (start, units) = self.runs[number];
                let taken = self.arena.limit_slabs() - self.arena.free_slabs();
                self.arena.set_limit_slabs(taken + free_slabs);
                if self.tables.wants_moved(start, units) {
                    self.replace(number, units);
                    moves += 1;
                }
            }
            if moves == before {
                return moves;
            }
        }
    }

    /// Slabs in which so many units would lie without gaps.
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
    let moves = grown.move_all(1);
    let after = grown.tables.slabs();
    assert!(after * 100 < full * 112, "{after} slabs of {before}, {full} would do");
    assert!(moves < 2 * grown.runs.len(), "{moves} moves of {} tables", grown.runs.len());
    assert_eq!(grown.move_all(1), 0, "it comes to an end");
}

#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn nothing_moves_while_there_is_memory() {
    let mut grown = Grown::of(8_600);
    assert_eq!(grown.move_all(4), 0);
}

/// Segments of tries stay where they are, so that their slabs cannot be cleared.
#[test]
#[cfg_attr(miri, ignore = "safe code with thousands of runs")]
fn a_slab_with_what_cannot_move_is_not_cleared() {
    let mut grown = Grown::of(8_600);
    grown.arena.set_limit_slabs(grown.arena.used_slabs());
    let fixed: Vec<_> = std::iter::from_fn(|| grown.tables.allocate(1)).collect();
    assert!(fixed.len() > 1000, "{}", fixed.len());
    assert_eq!(grown.move_all(1), 0);
    // All but those of one slab in four.
    let (kept, freed): (Vec<_>, Vec<_>) =
        fixed.into_iter().partition(|start| grown.arena.slab_of(*start).0.is_multiple_of(4));
    for start in freed {
        // SAFETY: allocated above and never used.
        unsafe { grown.tables.release(start, 1) };
    }
    let before = grown.tables.slabs();
    assert!(grown.move_all(1) > 0 && grown.tables.slabs() < before);
    for start in kept {
        // SAFETY: allocated above and never used.
        unsafe { grown.tables.release(start, 1) };
    }
}
