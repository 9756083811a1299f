//! Which segments were used lately, and which lie at the margins of their areas.
//!
//! The clock is the number of segments opened so far, which is also the next segment's sequence. A
//! hit leaves it in the segment's stamp, and writes only when the stamp is lower: once for each
//! segment between two openings. The segment with the lowest stamp is the least recently used one.

use stdx::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use stdx::sync::lock;

use crate::Flash;
use crate::area::Area;
use crate::list::{ListedSegment, Rank, SegmentList};
use crate::writer::Stream;

/// The margin at which a segment lay among those of its area when the window began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Margin {
    /// Among the most recently used of the cold area.
    ColdHead = 0,
    /// Among the least recently used of the cold area.
    ColdTail = 1,
    /// Among the least recently used of the hot area.
    HotTail = 2,
    /// Of the head when a step was made that takes it in: collected before all others. Its hits no
    /// longer say anything.
    Chosen = 3,
}

/// The number of margins.
pub(crate) const MARGINS: usize = 4;
/// At no margin.
const INSIDE: u8 = MARGINS as u8;

/// The traces of hits at a segment.
#[derive(Debug)]
pub(crate) struct Usage {
    stamp: AtomicU64,
    margin: AtomicU8,
}

impl Usage {
    pub(crate) fn new() -> Self {
        Self { stamp: AtomicU64::new(0), margin: AtomicU8::new(INSIDE) }
    }

    /// Begins with a segment's life.
    pub(crate) fn begin(&self, sequence: u64) {
        self.stamp.store(sequence, Ordering::Relaxed);
        self.set_margin(None);
    }

    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// Undoes that the segment was passed over.
    pub(crate) fn restore(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    pub(crate) fn is_at(&self, margin: Margin) -> bool {
        self.margin.load(Ordering::Relaxed) == margin as u8
    }

    pub(crate) fn set_margin(&self, margin: Option<Margin>) {
        self.margin.store(margin.map_or(INSIDE, |margin| margin as u8), Ordering::Relaxed);
    }
}

impl Flash {
    /// Counts a hit in an area, in a segment if the item lay in one.
    pub(crate) fn note_hit(&self, area: Area, segment: Option<u32>) {
        self.counters.areas[area.index()].hits.add(1);
        let Some(segment) = segment else { return };
        let usage = &self.segments[segment as usize].usage;
        let clock = self.next_sequence.load(Ordering::Relaxed);
        if usage.stamp() < clock {
            usage.stamp.store(clock, Ordering::Relaxed);
        }
        let margin = usage.margin.load(Ordering::Relaxed);
        if let Some(hits) = self.counters.margins.get(usize::from(margin)) {
            hits.add(1);
        }
    }

    /// Counts the open segment of the cold area as used at this moment: among the segments in use
    /// until now, it is evicted last, as are the segments that are opened later.
    pub fn touch_open(&self) {
        let writer = lock(&self.writer);
        let clock = self.next_sequence.load(Ordering::Relaxed);
        if let Some(open) = &writer.streams[Area::Cold.index()].open {
            self.segments[open.segment as usize].usage.stamp.store(clock, Ordering::Relaxed);
        }
    }

    /// Puts a segment that cannot be collected behind all others, until as many have been opened as
    /// there are.
    pub(crate) fn pass_over(&self, segment: u32) {
        let clock = self.next_sequence.load(Ordering::Relaxed);
        let usage = &self.segments[segment as usize].usage;
        usage.stamp.store(clock + u64::from(self.geometry.segments), Ordering::Relaxed);
    }

    /// Whether a segment is still passed over.
    pub(crate) fn is_passed_over(&self, stamp: u64) -> bool {
        stamp > self.next_sequence.load(Ordering::Relaxed)
    }

    /// The order of segments by their last use.
    pub(crate) fn used(&self, listed: &ListedSegment) -> Rank {
        (self.segments[listed.segment as usize].usage.stamp(), listed.entry.sequence)
    }

    /// The order of segments that a step took in, the least valuable first. Among those used a
    /// moment ago it is the one that came last: each step takes in the rows read most of the rest.
    pub(crate) fn taken_in(&self, listed: &ListedSegment) -> Rank {
        let (stamp, sequence) = self.used(listed);
        (stamp, u64::MAX - sequence)
    }

    /// Whether a step has chosen a segment.
    pub(crate) fn is_chosen(&self, listed: &ListedSegment) -> bool {
        self.segments[listed.segment as usize].usage.is_at(Margin::Chosen)
    }

    /// Takes the least recently used segment off a list; the newest only if there is no other,
    /// since its rows had no time to be read.
    pub(crate) fn take_least_used(&self, written: &mut SegmentList) -> Option<ListedSegment> {
        written.take_first(true, |listed| self.used(listed))
    }

    /// Takes the segment off a list that a step back gives up first.
    pub(crate) fn take_last_in(&self, written: &mut SegmentList) -> Option<ListedSegment> {
        written.take_first(false, |listed| self.taken_in(listed))
    }

    /// Whether the cold area has segments that a step has chosen.
    pub(crate) fn has_chosen(&self, cold: &Stream) -> bool {
        let mut listed = cold.chosen.iter().filter_map(|sequence| cold.written.get(*sequence));
        listed.any(|listed| self.is_chosen(listed))
    }

    /// Takes the oldest chosen segment off its list.
    pub(crate) fn take_chosen(&self, cold: &mut Stream) -> Option<ListedSegment> {
        loop {
            let sequence = cold.chosen.pop_front()?;
            if cold.written.get(sequence).is_some_and(|listed| self.is_chosen(listed)) {
                return cold.written.take(sequence);
            }
        }
    }
}
