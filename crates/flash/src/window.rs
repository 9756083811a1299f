//! The windows in which hits are counted, and what follows from them for the hot area's size.
//!
//! When a window begins, the segments of each area are ordered by their last use, and those at the
//! margins are marked: a step's worth of rows at the head of the cold area, a step of segments at
//! its tail, and at that of the hot area. Hits in marked segments are counted for their margin
//! until the window ends. A count of each segment would be lost with a segment that is collected,
//! and a segment that is hit does not stay at its tail; who is marked is settled beforehand.
//!
//! A window ends after so many hits that the margins had some, and not before a step's worth of
//! segments was opened: until then the step before has not come true.

use std::collections::VecDeque;

use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::Flash;
use crate::partition::Hits;
use crate::usage::{MARGINS, Margin};
use crate::writer::{ListedSegment, Writer};

/// Hits in a window for each segment of the device: a margin of one segment then has that many.
const HITS_A_SEGMENT: u64 = 16;

/// The window that is going on.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// All hits when it began.
    hits: u64,
    /// Hits at the margins when it began.
    margins: [u64; MARGINS],
    /// The next segment's sequence when it began; 0 before the first.
    sequence: u64,
    /// What was wanted of the margins as a part of what is marked.
    shares: [f64; MARGINS],
}

impl Flash {
    /// Ends the window if it is time, makes the step that pays, and begins the next one.
    pub(crate) fn repartition(&self, window: &mut Window) {
        let hits = self.counters.hits();
        let sequence = self.next_sequence.load(Ordering::Relaxed);
        let mut writer = lock(&self.writer);
        let step = writer.hot_target.step();
        let is_over = window.sequence == 0
            || (hits - window.hits >= HITS_A_SEGMENT * u64::from(self.geometry.segments)
                && sequence - window.sequence >= step.into());
        if writer.hot_target.is_fixed() || !is_over {
            return;
        }
        let margins = [0, 1, 2].map(|margin| self.counters.margins[margin].get());
        if window.sequence > 0 {
            let of = |margin: Margin| {
                let index = margin as usize;
                (margins[index] - window.margins[index]) as f64 * window.shares[index]
            };
            let hits = Hits {
                cold_head: of(Margin::ColdHead),
                cold_tail: of(Margin::ColdTail),
                hot_tail: of(Margin::HotTail),
            };
            let costs = writer.costs;
            writer.hot_target.adapt(&hits, &costs);
        }
        let shares = self.mark_margins(&writer);
        *window = Window { hits, margins, sequence, shares };
    }

    /// Marks the segments at the margins. The lock is the writer's: nothing else is listed or
    /// opened meanwhile. That takes time with the number of segments, once in a window.
    fn mark_margins(&self, writer: &Writer) -> [f64; MARGINS] {
        self.segments.iter().for_each(|segment| segment.usage.set_margin(None));
        let step = f64::from(writer.hot_target.step());
        let [cold, hot] = &writer.streams;
        // So many cold segments have a step of hot ones' rows.
        let head = step / cold.fill.ratio();
        let mut of_cold = self.by_use(&cold.written);
        let cold_tail = self.mark_first(of_cold.iter(), step, Margin::ColdTail);
        of_cold.reverse();
        let cold_head = self.mark_first(of_cold.iter(), head, Margin::ColdHead);
        let hot_tail = self.mark_first(self.by_use(&hot.written).iter(), step, Margin::HotTail);
        [cold_head, cold_tail, hot_tail]
    }

    /// Segments, the least recently used first.
    fn by_use(&self, written: &VecDeque<ListedSegment>) -> Vec<u32> {
        let mut listed: Vec<_> = written.iter().collect();
        listed.sort_by_cached_key(|listed| self.used(listed));
        listed.iter().map(|listed| listed.segment).collect()
    }

    /// Marks as many segments as are wanted, rounded up, and returns which part of them is wanted.
    fn mark_first<'s>(
        &self,
        segments: impl Iterator<Item = &'s u32>,
        wanted: f64,
        margin: Margin,
    ) -> f64 {
        let mut marked = 0;
        for &segment in segments.take(wanted.ceil() as usize) {
            self.segments[segment as usize].usage.set_margin(Some(margin));
            marked += 1;
        }
        (wanted / f64::from(marked.max(1))).min(1.0)
    }
}
