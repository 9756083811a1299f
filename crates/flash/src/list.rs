//! The segments of an area that are on the device, in the order of their sequences.
//!
//! Collection takes segments from anywhere, under the writer's lock, and there is one for each MiB
//! of a device that may have terabytes. So no operation looks at all of them for one segment. A
//! taken segment leaves a hole, and the holes are closed when they are an eighth of all. The first
//! segments of an order are found for many takes at once, the *shortlist*; an entry is valid as
//! long as its segment still has the rank it had: ranks only rise, and segments opened later rank
//! behind all that were there. A segment that comes back, because it could not be collected, waits
//! for the next shortlist.

use std::collections::{BinaryHeap, VecDeque};

use crate::dictionaries::DICTIONARIES_MAX;
use crate::table::Entry;

/// A segment on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListedSegment {
    pub(crate) segment: u32,
    pub(crate) entry: Entry,
}

/// The order of segments, the first to take with the lowest rank: a time, and a tie-breaker.
pub(crate) type Rank = (u64, u64);

/// A slot whose segment was taken. A device has fewer segments than this.
const HOLE: u32 = u32::MAX;
/// One segment of this many may be a hole.
const SEGMENTS_A_HOLE: usize = 8;
/// One segment of this many is on a shortlist, so that among a few dozen it is the first alone.
const SEGMENTS_A_CANDIDATE: usize = 64;

/// Segments in the order of their sequences.
#[derive(Debug, Default)]
pub(crate) struct SegmentList {
    /// Neither the first nor the last is a hole.
    slots: VecDeque<ListedSegment>,
    holes: usize,
    /// Ranks and sequences of the segments to be taken next, the first of them last.
    shortlist: Vec<(Rank, u64)>,
    /// Segments that name each dictionary, by its number.
    dictionaries: [u32; DICTIONARIES_MAX + 1],
    /// Segments looked at so far, to make shortlists.
    #[cfg(test)]
    pub(crate) looks: usize,
}

impl SegmentList {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.holes
    }

    /// The oldest segment.
    pub(crate) fn front(&self) -> Option<&ListedSegment> {
        self.slots.front()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &ListedSegment> {
        self.slots.iter().filter(|slot| slot.segment != HOLE)
    }

    /// The segment with this sequence, or the first after it.
    pub(crate) fn from(&self, sequence: u64) -> Option<&ListedSegment> {
        self.slots.range(self.slot_from(sequence)..).find(|slot| slot.segment != HOLE)
    }

    /// The segment with this sequence.
    pub(crate) fn get(&self, sequence: u64) -> Option<&ListedSegment> {
        self.from(sequence).filter(|listed| listed.entry.sequence == sequence)
    }

    /// For each dictionary, by its number, whether a segment names it.
    pub(crate) fn named(&self) -> [bool; DICTIONARIES_MAX + 1] {
        self.dictionaries.map(|count| count > 0)
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<ListedSegment>()
            + self.shortlist.capacity() * size_of::<(Rank, u64)>()
    }

    /// Adds a segment. It may be older than those already there.
    pub(crate) fn insert(&mut self, listed: ListedSegment) {
        *self.naming(listed) += 1;
        let at = self.slot_from(listed.entry.sequence);
        match self.slots.get_mut(at) {
            // It was taken from this slot, and comes back.
            Some(slot) if slot.entry.sequence == listed.entry.sequence => {
                debug_assert_eq!(slot.segment, HOLE);
                *slot = listed;
                self.holes -= 1;
            }
            _ => self.slots.insert(at, listed),
        }
    }

    /// Takes the segment with this sequence.
    pub(crate) fn take(&mut self, sequence: u64) -> Option<ListedSegment> {
        let at = self.slot_from(sequence);
        let slot = self.slots.get_mut(at).filter(|slot| slot.entry.sequence == sequence)?;
        let taken = *slot;
        if taken.segment == HOLE {
            return None;
        }
        slot.segment = HOLE;
        *self.naming(taken) -= 1;
        self.holes += 1;
        self.close_holes();
        Some(taken)
    }

    /// Takes the segment that comes first in an order. If ranks rise meanwhile, it is one that came
    /// first a moment ago. If the newest `waits`, it comes last, whatever its rank.
    pub(crate) fn take_first(
        &mut self,
        newest_waits: bool,
        rank: impl Fn(&ListedSegment) -> Rank,
    ) -> Option<ListedSegment> {
        let waits = |list: &Self, sequence: u64| {
            let newest = list.slots.back().map(|slot| slot.entry.sequence);
            newest_waits && list.len() > 1 && newest == Some(sequence)
        };
        while let Some((then, sequence)) = self.shortlist.pop() {
            let now = self.get(sequence).map(&rank);
            if now == Some(then) && !waits(self, sequence) {
                return self.take(sequence);
            }
        }
        let count = (self.len() / SEGMENTS_A_CANDIDATE).max(1);
        let ranked = self.iter().map(|listed| (rank(listed), listed.entry.sequence));
        let mut shortlist = lowest(count, ranked.filter(|(_, sequence)| !waits(self, *sequence)));
        #[cfg(test)]
        {
            self.looks += self.len();
        }
        shortlist.reverse();
        self.shortlist = shortlist;
        let (_, sequence) = self.shortlist.pop()?;
        self.take(sequence)
    }

    /// The count of segments that name this one's dictionary.
    fn naming(&mut self, listed: ListedSegment) -> &mut u32 {
        let count = self.dictionaries.get_mut(usize::from(listed.entry.dictionary));
        count.expect("a start has made void what names others")
    }

    /// The first slot whose segment has this sequence or a later one.
    fn slot_from(&self, sequence: u64) -> usize {
        self.slots.partition_point(|slot| slot.entry.sequence < sequence)
    }

    fn close_holes(&mut self) {
        if self.holes > self.slots.len() / SEGMENTS_A_HOLE {
            self.slots.retain(|slot| slot.segment != HOLE);
            self.holes = 0;
        }
        let is_hole = |slot: Option<&ListedSegment>| slot.is_some_and(|it| it.segment == HOLE);
        while is_hole(self.slots.front()) {
            self.slots.pop_front();
            self.holes -= 1;
        }
        while is_hole(self.slots.back()) {
            self.slots.pop_back();
            self.holes -= 1;
        }
    }
}

/// The lowest `count` of these, in order. It is faster if low ones come early.
pub(crate) fn lowest<T: Ord>(count: usize, all: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = BinaryHeap::with_capacity(count);
    for one in all {
        if kept.len() < count {
            kept.push(one);
        } else if let Some(mut highest) = kept.peek_mut()
            && one < *highest
        {
            *highest = one;
        }
    }
    kept.into_sorted_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::area::Area;
    use crate::tests::Random;

    fn listed(sequence: u64) -> ListedSegment {
        let dictionary = (sequence / 50 % 4) as u8;
        let entry = Entry { sequence, table_bytes: 1, area: Area::Cold, dictionary };
        ListedSegment { segment: sequence as u32 % 1000, entry }
    }

    /// The list beside the simplest possible one, which looks at all segments each time.
    struct Pair {
        list: SegmentList,
        simple: BTreeMap<u64, ListedSegment>,
        /// When each segment was used, by its sequence.
        used: BTreeMap<u64, u64>,
        clock: u64,
    }

    impl Pair {
        fn new() -> Self {
            let list = SegmentList::default();
            Self { list, simple: BTreeMap::new(), used: BTreeMap::new(), clock: 1 }
        }

        fn open(&mut self) {
            self.used.insert(self.clock, self.clock);
            self.insert(self.clock);
            self.clock += 1;
        }

        fn insert(&mut self, sequence: u64) {
            self.list.insert(listed(sequence));
            assert_eq!(self.simple.insert(sequence, listed(sequence)), None);
        }

        fn take(&mut self, sequence: u64) {
            assert_eq!(self.list.take(sequence), self.simple.remove(&sequence));
        }

        fn take_first(&mut self, newest_waits: bool) -> Option<u64> {
            let rank =
                |listed: &ListedSegment| (self.used[&listed.entry.sequence], listed.entry.sequence);
            let newest = self.simple.keys().next_back().copied();
            let is_out =
                |sequence: u64| newest_waits && self.simple.len() > 1 && newest == Some(sequence);
            let ranked = self.simple.values().filter(|it| !is_out(it.entry.sequence)).map(rank);
            let expected = ranked.min().map(|(_, sequence)| sequence);
            let taken = self.list.take_first(newest_waits, rank).map(|it| it.entry.sequence);
            assert_eq!(taken, expected);
            taken.map(|sequence| self.simple.remove(&sequence));
            taken
        }

        fn any(&self, random: &mut Random) -> Option<u64> {
            let at = random.below(self.simple.len().max(1) as u64) as usize;
            self.simple.keys().nth(at).copied()
        }

        fn check(&self, random: &mut Random) {
            assert!(self.list.iter().eq(self.simple.values()));
            assert_eq!(self.list.len(), self.simple.len());
            assert_eq!(self.list.front(), self.simple.values().next());
            let mut named = [false; DICTIONARIES_MAX + 1];
            let listed = self.simple.values();
            listed.for_each(|it| named[usize::from(it.entry.dictionary)] = true);
            assert_eq!(self.list.named(), named);
            let sequence = random.below(self.clock + 2);
            let from = self.simple.range(sequence..).next();
            assert_eq!(self.list.from(sequence), from.map(|(_, listed)| listed));
            assert_eq!(self.list.get(sequence), self.simple.get(&sequence));
            assert!(self.list.holes <= self.list.slots.len() / SEGMENTS_A_HOLE);
        }
    }

    #[test]
    fn a_list_is_as_the_simplest_there_is() {
        for (seed, full) in [(1, 3), (2, 40), (3, 300), (4, 2000)] {
            let (mut pair, mut random) = (Pair::new(), Random(seed));
            let mut out = Vec::new();
            for step in 0..20_000 {
                match random.below(8) {
                    0..=3 if pair.simple.len() < full => pair.open(),
                    0..=2 => _ = pair.take_first(seed % 2 == 0),
                    3 | 4 => {
                        let Some(sequence) = pair.any(&mut random) else { continue };
                        pair.used.insert(sequence, pair.clock);
                    }
                    5 if random.below(8) == 0 => {
                        let Some(sequence) = pair.any(&mut random) else { continue };
                        pair.take(sequence);
                        out.push(sequence);
                    }
                    // A segment that could not be collected comes back, or recovery has found one.
                    6 => {
                        _ = out.pop().map(|sequence| {
                            pair.used.insert(sequence, pair.clock);
                            pair.insert(sequence);
                        })
                    }
                    _ => pair.take(random.below(pair.clock)),
                }
                if step % 16 == 0 {
                    pair.check(&mut random);
                }
            }
            while pair.take_first(true).is_some() {}
            pair.check(&mut random);
        }
    }

    /// A tier of terabytes has millions of segments: looking at all of them for each that is
    /// collected would be too slow.
    #[test]
    fn for_one_segment_few_are_looked_at() {
        const SEGMENTS: u64 = 100_000;
        let (mut pair, mut random) = (Pair::new(), Random(5));
        (0..SEGMENTS).for_each(|_| pair.open());
        let rank = |used: &BTreeMap<u64, u64>, listed: &ListedSegment| {
            (used[&listed.entry.sequence], listed.entry.sequence)
        };
        const TAKEN: usize = 20_000;
        for _ in 0..TAKEN {
            // A hit in any segment for each that is written.
            let hit = random.below(pair.clock - SEGMENTS) + SEGMENTS / 2;
            pair.used.insert(hit, pair.clock);
            let used = &pair.used;
            assert!(pair.list.take_first(true, |listed| rank(used, listed)).is_some());
            pair.open();
        }
        assert!(pair.list.looks < 2 * SEGMENTS_A_CANDIDATE * TAKEN, "{}", pair.list.looks);
        assert!(pair.list.looks > 0);
    }

    #[test]
    fn the_lowest_come_in_their_order() {
        let numbers = [5, 1, 4, 1, 3, 2];
        for (count, expected) in
            [(0, &[][..]), (1, &[1]), (3, &[1, 1, 2]), (9, &[1, 1, 2, 3, 4, 5])]
        {
            assert_eq!(lowest(count, numbers.into_iter()), expected);
        }
    }
}
