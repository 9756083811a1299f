//! Which segments were used lately, and which lie at the margins of their areas.
//!
//! The clock is the number of segments opened so far, which is also the next segment's sequence. A
//! hit leaves it in the segment's stamp, and writes only when the stamp differs: once for each
//! segment between two openings. The segment with the lowest stamp is the least recently used one.

use std::collections::VecDeque;

use stdx::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::Flash;
use crate::area::Area;
use crate::writer::ListedSegment;

/// Where a segment lay among those of its area when the window began, if at a margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Margin {
    /// Of the most recently used of the cold area.
    ColdHead = 0,
    /// Of its least recently used.
    ColdTail = 1,
    /// Of the least recently used of the hot area.
    HotTail = 2,
}

/// Margins there are.
pub(crate) const MARGINS: usize = 3;
/// At no margin.
const INSIDE: u8 = MARGINS as u8;

/// What hits leave at a segment.
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
        if usage.stamp() != clock {
            usage.stamp.store(clock, Ordering::Relaxed);
        }
        let margin = usage.margin.load(Ordering::Relaxed);
        if let Some(hits) = self.counters.margins.get(usize::from(margin)) {
            hits.add(1);
        }
    }

    /// What orders segments by their last use.
    pub(crate) fn used(&self, listed: &ListedSegment) -> (u64, u64) {
        (self.segments[listed.segment as usize].usage.stamp(), listed.entry.sequence)
    }

    /// Takes the least recently used segment off a list; the newest only if there is no other, for
    /// what is in it had no time to be read.
    pub(crate) fn take_least_used(
        &self,
        written: &mut VecDeque<ListedSegment>,
    ) -> Option<ListedSegment> {
        let older = written.len().saturating_sub(1).max(1);
        let listed = written.iter().take(older).enumerate();
        let (index, _) = listed.min_by_key(|(_, listed)| self.used(listed))?;
        written.remove(index)
    }
}
