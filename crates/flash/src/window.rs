//! The windows in which hits are counted, and what follows from them for the hot area's size.
//!
//! When a window begins, the segments of each area are ordered by their last use, and those at the
//! margins are marked: a step's worth of rows at the head of the cold area, a step of segments at
//! its tail, and at that of the hot area. Of many that were used a moment ago the oldest are the
//! head: the newest hold what was stored just now, which is read less than any other. Hits in
//! marked segments are counted for their margin until the window ends. A count of each segment
//! would be lost with a segment that is collected, and a segment that is hit does not stay at its
//! tail; who is marked is settled beforehand.
//!
//! A window ends after so many hits that each margin had some, the head too, which is a part of a
//! segment where a step is one: the longer, the better the cold area compresses. It does not end
//! before a step's worth of segments was opened: until then the step before has not come true.

use std::cmp::Reverse;
use std::collections::VecDeque;

use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::Flash;
use crate::area::Area;
use crate::partition::Hits;
use crate::usage::{MARGINS, Margin};
use crate::writer::{ListedSegment, Writer};

/// Hits in a window for each segment of the device, at a ratio of one. A margin of one segment then
/// has that many, and at any ratio so has the head that one segment of hot rows takes.
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
        let wanted = self.hits_wanted(writer.streams[0].fill.ratio());
        let is_over = window.sequence == 0
            || (hits - window.hits >= wanted && sequence - window.sequence >= step.into());
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
            let (costs, hot_segments) = (writer.costs, writer.segments(Area::Hot));
            writer.hot_target.adapt(&hits, &costs, hot_segments);
        }
        let shares = self.mark_margins(&writer);
        *window = Window { hits, margins, sequence, shares };
    }

    /// Hits in a window while the cold area compresses at this ratio.
    fn hits_wanted(&self, ratio: f64) -> u64 {
        (HITS_A_SEGMENT as f64 * f64::from(self.geometry.segments) * ratio.max(1.0)) as u64
    }

    /// Marks the segments at the margins. The lock is the writer's: nothing else is listed or
    /// opened meanwhile. That takes time with the number of segments, once in a window.
    fn mark_margins(&self, writer: &Writer) -> [f64; MARGINS] {
        self.segments.iter().for_each(|segment| segment.usage.set_margin(None));
        let step = f64::from(writer.hot_target.step());
        let [cold, hot] = &writer.streams;
        // So many cold segments have a step of hot ones' rows.
        let head = step / cold.fill.ratio();
        let last_used = |listed: &_| self.used(listed);
        // Many were used a moment ago: first of these come those that have stood the test.
        let proven = |listed: &_| {
            let (stamp, sequence) = self.used(listed);
            (Reverse(stamp), sequence)
        };
        let cold_tail = self.mark_first(&cold.written, last_used, step, Margin::ColdTail);
        let cold_head = self.mark_first(&cold.written, proven, head, Margin::ColdHead);
        let hot_tail = self.mark_first(&hot.written, last_used, step, Margin::HotTail);
        [cold_head, cold_tail, hot_tail]
    }

    /// Marks as many segments as are wanted, rounded up, the first in this order, and returns which
    /// part of them is wanted.
    fn mark_first<K: Ord>(
        &self,
        written: &VecDeque<ListedSegment>,
        order: impl Fn(&ListedSegment) -> K,
        wanted: f64,
        margin: Margin,
    ) -> f64 {
        let mut listed: Vec<_> = written.iter().collect();
        listed.sort_by_cached_key(|listed| order(listed));
        let mut marked = 0;
        for listed in listed.into_iter().take(wanted.ceil() as usize) {
            self.segments[listed.segment as usize].usage.set_margin(Some(margin));
            marked += 1;
        }
        (wanted / f64::from(marked.max(1))).min(1.0)
    }
}
