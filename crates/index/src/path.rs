//! Making room: the search for a cuckoo path, and its execution backwards.
//!
//! When both buckets of a key are full, some word in them moves to its other bucket, which may
//! need room made in turn. The search follows several paths side by side without moving anything,
//! until one reaches a bucket with a free slot:
//!
//! ```text
//!   b1 --slot--> bucket --slot--> bucket --slot--> free        a path of three moves
//!   b2 --slot--> bucket --slot--> bucket                       overtaken, forgotten
//!   moves:           3.               2.               1.
//! ```
//!
//! Then the words move from the far end: each into a slot that is free by then, so no key is ever
//! absent. Both steps are MemC3's. It searches outside the lock and checks the path again under it,
//! because its table has one lock; here a table holds a few thousand items and has its own lock,
//! which the search may as well hold. Each bucket is visited once per search, so a path never
//! crosses itself or another, and the search ends when every head is stuck.

use crate::cuckoo::SLOTS;
use crate::shape::Shape;
use crate::table::{Locked, UNITS_MAX, buckets_of};

/// The most paths followed side by side: one for each slot of a key's two buckets.
pub(crate) const PATHS_MAX: usize = 2 * SLOTS;

/// Buckets one search may visit; MemC3 gives up after 500 displacements. It is enough to fill a
/// table to 99.5 % (`examples/occupancy.rs`), and one in three of the largest table's buckets.
const VISITS_MAX: usize = if cfg!(loom) { 32 } else { 256 };

/// One bit for each bucket of the largest table.
struct Visited([u64; buckets_of(UNITS_MAX).div_ceil(64)]);

impl Visited {
    /// Marks `bucket`; `false` if it was marked before.
    fn insert(&mut self, bucket: usize) -> bool {
        let (word, bit) = (bucket / 64, 1 << (bucket % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }
}

/// The steps of all paths, each a bucket, the step before it, and the slot there whose word would
/// move here. An array for each, since zeros are the quickest to begin with.
struct Steps {
    buckets: [u16; VISITS_MAX],
    before: [u16; VISITS_MAX],
    slots: [u8; VISITS_MAX],
    count: usize,
}

impl Steps {
    fn push(&mut self, bucket: usize, before: usize, slot: usize) -> usize {
        let step = self.count;
        self.buckets[step] = bucket as u16;
        self.before[step] = before as u16;
        self.slots[step] = slot as u8;
        self.count += 1;
        step
    }

    fn bucket(&self, step: usize) -> usize {
        usize::from(self.buckets[step])
    }
}

/// A search under way. The first two steps are the key's own buckets.
struct Search<'l> {
    locked: &'l Locked<'l>,
    shape: Shape,
    visited: Visited,
    steps: Steps,
    /// Varies which slot of a bucket is tried first, so that paths do not all start alike.
    seed: u32,
}

/// Frees a slot in one of two full buckets by moving words, following `paths` paths side by side.
/// Returns its bucket and slot, or `None` when no path was found and nothing has moved.
#[cold]
#[inline(never)]
pub(crate) fn make_room(
    locked: &Locked<'_>,
    shape: Shape,
    buckets: [usize; 2],
    seed: u32,
    paths: usize,
) -> Option<(usize, usize)> {
    let mut search = Search {
        locked,
        shape,
        visited: Visited([0; _]),
        steps: Steps {
            buckets: [0; VISITS_MAX],
            before: [0; VISITS_MAX],
            slots: [0; VISITS_MAX],
            count: 0,
        },
        seed,
    };
    let Some(last) = search.find(buckets, paths) else {
        locked.count_failed_search();
        return None;
    };
    Some(search.execute(last))
}

impl Search<'_> {
    /// Follows the paths a step at a time, each in turn, to the first bucket with a free slot.
    fn find(&mut self, buckets: [usize; 2], paths: usize) -> Option<usize> {
        for bucket in buckets {
            self.visited.insert(bucket);
            self.steps.push(bucket, 0, 0);
        }
        let paths = paths.clamp(1, PATHS_MAX);
        if paths == PATHS_MAX {
            self.prefetch(buckets);
        }
        let mut heads: [Option<usize>; PATHS_MAX] =
            std::array::from_fn(|path| (path < paths).then_some(path % 2));
        while heads.iter().any(Option::is_some) {
            for head in &mut heads[..paths] {
                let Some(from) = *head else { continue };
                if self.steps.count == VISITS_MAX {
                    return None;
                }
                *head = self.extend(from);
                if let Some(step) = *head
                    && self.free_slot(step).is_some()
                {
                    return Some(step);
                }
            }
        }
        None
    }

    /// Prefetches all buckets that are one step away, since as many paths begin with each of them,
    /// and one after the other would be waited for.
    fn prefetch(&self, buckets: [usize; 2]) {
        for bucket in buckets {
            for slot in 0..SLOTS {
                let tag = self.locked.table.bucket(bucket).load(slot).tag();
                self.locked.table.bucket(self.shape.other(bucket, tag)).prefetch();
            }
        }
    }

    /// One step on from `from`: to a bucket no path has visited.
    fn extend(&mut self, from: usize) -> Option<usize> {
        let bucket = self.steps.bucket(from);
        self.seed = self.seed.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        let first = (self.seed >> 16) as usize;
        for turn in 0..SLOTS {
            let slot = (first + turn) % SLOTS;
            let word = self.locked.table.bucket(bucket).load(slot);
            let other = self.shape.other(bucket, word.tag());
            if self.visited.insert(other) {
                return Some(self.steps.push(other, from, slot));
            }
        }
        None
    }

    fn free_slot(&self, step: usize) -> Option<usize> {
        self.locked.table.bucket(self.steps.bucket(step)).free_slot(SLOTS)
    }

    /// Moves the words of the path that ends in step `last`, from its end to its beginning.
    fn execute(&self, last: usize) -> (usize, usize) {
        let free = self.free_slot(last).expect("the search ended at a free slot");
        let mut target = (self.steps.bucket(last), free);
        let mut at = last;
        // The first two steps are the key's own buckets: the path began there.
        while at >= 2 {
            let before = usize::from(self.steps.before[at]);
            let source = (self.steps.bucket(before), usize::from(self.steps.slots[at]));
            self.locked.move_word(source, target);
            target = source;
            at = before;
        }
        target
    }
}

const _: () =
    assert!(buckets_of(UNITS_MAX) <= u16::MAX as usize && VISITS_MAX <= u16::MAX as usize);
