//! A table space on the heap with a limit, which poisons released memory: a late reader finds words
//! of a tier that no test uses.

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use memory::TableSpace;
use memory::space::TABLE_UNIT_BYTES;
pub use stdx::random::mix;

/// Bytes of a unit that a table uses: few under Miri, where there must be no others, or it would
/// miss reads beyond them.
const UNIT_BYTES: usize = if cfg!(miri) { TABLE_UNIT_BYTES / 8 } else { TABLE_UNIT_BYTES };

/// The smallest table and the largest, in units.
#[allow(dead_code)]
pub const TABLE_UNITS: [usize; 2] = [12, 23];

/// One in this many tables that are asked about is to move.
const MOVED_SHARE: usize = 5;

/// Up to `limit` units of heap.
pub struct HeapSpace {
    limit: usize,
    used: AtomicUsize,
    /// The longest run, in units.
    run_max: AtomicUsize,
    words_back: AtomicUsize,
    refused: AtomicUsize,
    starved: AtomicUsize,
    asked: AtomicUsize,
    moves: AtomicBool,
}

impl HeapSpace {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            run_max: AtomicUsize::new(usize::MAX),
            words_back: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            starved: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            moves: AtomicBool::new(false),
        }
    }

    /// Whether tables are asked to move.
    #[allow(dead_code)]
    pub fn set_moves(&self, moves: bool) {
        self.moves.store(moves, Ordering::Relaxed);
    }

    /// From now on there are only gaps of this many units.
    #[allow(dead_code)]
    pub fn set_run_max(&self, units: usize) {
        self.run_max.store(units, Ordering::Relaxed);
    }

    /// How often the index has asked for more memory than there is.
    #[allow(dead_code)]
    pub fn starved(&self) -> usize {
        self.starved.load(Ordering::Relaxed)
    }

    /// The number of words in the tables that were released.
    #[allow(dead_code)]
    pub fn words_back(&self) -> usize {
        self.words_back.load(Ordering::Relaxed)
    }

    /// How often there was no memory for a table.
    #[allow(dead_code)]
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Units handed out and not given back.
    #[allow(dead_code)]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn layout(units: usize) -> Layout {
        Layout::from_size_align(units * UNIT_BYTES, TABLE_UNIT_BYTES)
            .expect("a few units are a valid size")
    }
}

impl TableSpace for HeapSpace {
    fn allocate(&self, units: usize) -> Option<NonNull<u8>> {
        if units > self.run_max.load(Ordering::Relaxed) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let used = self.used.fetch_add(units, Ordering::Relaxed);
        if used + units > self.limit {
            self.used.fetch_sub(units, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(Self::layout(units)) })?;
        // SAFETY: it was allocated with this size. Any content will do, so it is not zero.
        unsafe { start.write_bytes(0xa5, units * UNIT_BYTES) };
        Some(start)
    }

    fn starve(&self) {
        self.starved.fetch_add(1, Ordering::Relaxed);
    }

    unsafe fn release(&self, start: NonNull<u8>, units: usize) {
        self.used.fetch_sub(units, Ordering::Relaxed);
        let words = NonNull::slice_from_raw_parts(start.cast::<u64>(), units * UNIT_BYTES / 8);
        // SAFETY: no other thread has it any more, and all of it was written when it was allocated.
        let words = unsafe { words.as_ref() }.iter().filter(|&&word| word != 0).count();
        self.words_back.fetch_add(words, Ordering::Relaxed);
        // SAFETY: the caller gives back what `allocate` returned for as many units.
        unsafe {
            start.write_bytes(0xff, units * UNIT_BYTES);
            dealloc(start.as_ptr(), Self::layout(units));
        }
    }

    fn to_clear(&self) -> Option<Range<usize>> {
        self.moves.load(Ordering::Relaxed).then_some(0..usize::MAX)
    }

    /// Now and then, so that every table moves in time.
    fn wants_moved(&self, _: NonNull<u8>, _: usize) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.moves.load(Ordering::Relaxed) && asked.is_multiple_of(MOVED_SHARE)
    }
}

impl Drop for HeapSpace {
    fn drop(&mut self) {
        assert_eq!(self.used.load(Ordering::Relaxed), 0, "every table was given back");
    }
}
