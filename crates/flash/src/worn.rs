//! Lists of journals that are nearly full, which the background turns into filters before they
//! overflow ([`mod@crate::journal`]).
//!
//! Where deaths are spread evenly, the lists of all segments wear out at nearly the same time, and
//! each has an eighth of its slots left then. So the thread that takes the entry at which a list is
//! worn queues its segment, and a turn of the background takes several of them. The queue is
//! bounded: if it overflows, one walk over all segments finds the rest, a part at a time. Without a
//! queue each list that was turned took a look at all segments, from the first one on, and a turn
//! took one list: on a device of a TiB a million looks for each of a million lists.

use std::collections::VecDeque;

use stdx::sync::atomic::{AtomicBool, Ordering};
use stdx::sync::{Mutex, lock};

use crate::{Flash, IndexAccess};

/// Segments in the queue: 16 KiB of them at the most.
const QUEUE_MAX: usize = 4096;
/// Lists that become filters in one turn, each of which has the device read and write up to 32 KiB.
const LISTS_A_TURN: usize = 8;
/// Segments that a turn looks at for one that the queue had no room for: tens of microseconds.
const LOOKS_A_TURN: u32 = 1 << 14;

/// The worn lists.
#[derive(Debug, Default)]
pub(crate) struct Worn {
    /// There is work to do. A hint.
    is_any: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    segments: VecDeque<u32>,
    /// The queue has overflowed since the walk began.
    is_over: bool,
    walk: Walk,
    /// Segments looked at so far.
    #[cfg(test)]
    looks: u64,
}

/// A walk over all segments, for those that the queue had no room for.
#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    next: u32,
    left: u32,
}

impl Worn {
    fn put(&self, segment: u32) {
        let mut queue = lock(&self.queue);
        if queue.segments.len() < QUEUE_MAX {
            queue.segments.push_back(segment);
        } else {
            queue.is_over = true;
        }
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Segments looked at so far.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        lock(&self.queue).looks
    }
}

impl Flash {
    /// Tells the background that the list of a segment has become worn, if it is.
    pub(crate) fn note_wear(&self, segment: u32) {
        if self.is_worn(segment) {
            self.worn.put(segment);
        }
    }

    /// Turns some worn lists into filters; returns whether there may be more. Called with the lock
    /// of the chores held: no other list is turned meanwhile.
    pub(crate) fn turn_worn(&self, access: &dyn IndexAccess) -> bool {
        for _ in 0..LISTS_A_TURN {
            if !self.worn.is_any.load(Ordering::Relaxed) {
                return false;
            }
            let Some(segment) = self.next_worn() else { break };
            self.turn_into_filter(segment);
            access.yield_now();
        }
        self.worn.is_any.load(Ordering::Relaxed)
    }

    /// The segment of a worn list, from the queue or found by a part of the walk.
    fn next_worn(&self) -> Option<u32> {
        let mut walk = {
            let mut queue = lock(&self.worn.queue);
            while let Some(segment) = queue.segments.pop_front() {
                queue.count_looks(1);
                // It may have been turned meanwhile, or its segment collected.
                if self.is_worn(segment) {
                    return Some(segment);
                }
            }
            if std::mem::take(&mut queue.is_over) {
                queue.walk.left = self.geometry.segments;
            }
            if queue.walk.left == 0 {
                self.worn.is_any.store(false, Ordering::Relaxed);
                return None;
            }
            queue.walk
        };
        // Without the lock: a thread that queues a segment holds one of the index.
        let (mut found, mut looks) = (None, 0);
        while found.is_none() && looks < LOOKS_A_TURN.min(walk.left) {
            found = Some(walk.next).filter(|segment| self.is_worn(*segment));
            walk.next = (walk.next + 1) % self.geometry.segments;
            looks += 1;
        }
        walk.left -= looks;
        let mut queue = lock(&self.worn.queue);
        queue.count_looks(looks.into());
        queue.walk = walk;
        found
    }

    fn is_worn(&self, segment: u32) -> bool {
        self.segments[segment as usize].journal.is_worn(self.journal_entries_max())
    }
}

impl Queue {
    fn count_looks(&mut self, _count: u64) {
        #[cfg(test)]
        {
            self.looks += _count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{World, hash};

    /// Entries of a list in segments of 64 KiB at which it is worn.
    const WORN: u64 = 511 - 511 / 8;
    const PAGES: usize = 80_000;

    /// Regression: each list that was turned took a look at all segments, and a turn of its own:
    /// where many wore out at once they overflowed before their turn came.
    #[test]
    fn lists_that_wear_out_at_once_become_filters_with_few_looks_and_turns() {
        let world = World::new(PAGES);
        let flash = &world.flash;
        let segments = flash.geometry.segments;
        let worn = QUEUE_MAX as u32 + 400;
        assert!(segments > worn, "{segments} segments, more than the queue has room for");
        for segment in segments - worn..segments {
            flash.segments[segment as usize].journal.open();
            (0..WORN).for_each(|number| flash.journal(segment, number as u32, hash(number)));
        }
        let mut turns = 1;
        while flash.turn_worn(&world.index) {
            turns += 1;
        }
        assert!((0..segments).all(|segment| !flash.is_worn(segment)));
        assert!(turns < 2 * worn / LISTS_A_TURN as u32, "{turns} turns");
        let looks = flash.worn.looks();
        assert!(looks < 3 * u64::from(segments), "{looks} looks at {segments}");
        assert!(!flash.turn_worn(&world.index) && flash.worn.looks() == looks);
        // One that wears out afterwards is found as well.
        flash.segments[0].journal.open();
        (0..WORN).for_each(|number| flash.journal(0, number as u32, hash(number)));
        assert!(flash.is_worn(0));
        while flash.turn_worn(&world.index) {}
        assert!(!flash.is_worn(0) && flash.worn.looks() < looks + 10);
        assert_eq!(flash.stats().distrusted, 0);
    }
}
