//! The windows in which hits are counted, and what follows from them for the hot area's size.
//!
//! When a window begins, the segments of each area are ordered by their last use, and those at the
//! margins are marked: segments at the head of the cold area; at its tail as many as their rows
//! would take up in addition if they were hot; and at the hot area's tail as many as they would
//! take up. Of many that were used a moment ago the oldest are the head: the newest hold rows
//! stored just now, which are read less than any other. Hits in marked segments are counted for
//! their margin until the window ends. A count per segment would be lost when a segment is
//! collected, and a segment that is hit does not stay at its tail, so the marks are set beforehand.
//!
//! When the hot area is to grow, the head is chosen to move there: the counted segments stay
//! marked, and collection takes them first. So a step gains what was counted. Otherwise the most
//! used rows would not come to the hot area, because they are never collected for want of room.
//!
//! A window ends after enough hits for each margin to have had some: the longer, the better the
//! cold area compresses. It does not end before a step's worth of segments was opened: until then
//! the step before has not taken effect.

use std::cmp::Reverse;

use stdx::sync::atomic::Ordering;
use stdx::sync::lock;

use crate::Flash;
use crate::area::Area;
use crate::list::{ListedSegment, lowest};
use crate::partition::{Hits, Seen, Step, Stride};
use crate::usage::{MARGINS, Margin};
use crate::writer::Writer;

/// Hits in a window for each segment of the device, at a ratio of one. A margin of one segment then
/// has that many, and at any ratio so have the rows that one segment of the hot area takes.
const HITS_A_SEGMENT: u64 = 16;

/// The present window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// All hits when it began.
    hits: u64,
    /// Hits at the margins when it began.
    margins: [u64; MARGINS],
    /// The next segment's sequence when it began; 0 before the first.
    sequence: u64,
    /// The stride that its margins are of.
    stride: Stride,
    /// For each margin, the wanted part of the segments that are marked.
    shares: [f64; MARGINS],
}

impl Flash {
    /// Ends the window if it is time, makes the step that pays, and begins the next window.
    pub(crate) fn repartition(&self, window: &mut Window) {
        let hits = self.counters.hits();
        let sequence = self.next_sequence.load(Ordering::Relaxed);
        let mut writer = lock(&self.writer);
        let ratio = writer.streams[0].fill.ratio();
        let is_first = window.sequence == 0;
        let is_over = hits - window.hits >= self.hits_wanted(ratio)
            && sequence - window.sequence >= window.stride.step.into();
        if writer.hot_target.is_fixed() || !(is_first || is_over) {
            return;
        }
        let margins = self.counters.margins.each_ref().map(|margin| margin.get());
        let made = if is_first { Step::Stay } else { self.adapt(window, &margins, &mut writer) };
        let stride = writer.hot_target.stride(ratio);
        let shares = self.mark_margins(&mut writer, made, &stride);
        *window = Window { hits, margins, sequence, stride, shares };
    }

    /// Makes the step that pays by the hits at the margins since the window began.
    fn adapt(&self, window: &Window, margins: &[u64; MARGINS], writer: &mut Writer) -> Step {
        let of = |margin: Margin| {
            let index = margin as usize;
            (margins[index] - window.margins[index]) as f64 * window.shares[index]
        };
        let seen = Seen {
            hits: Hits {
                cold_head: of(Margin::ColdHead),
                cold_tail: of(Margin::ColdTail),
                hot_tail: of(Margin::HotTail),
            },
            stride: window.stride,
            hot_segments: writer.segments(Area::Hot) as u32,
            has_chosen: self.has_chosen(&writer.streams[0]),
        };
        let costs = writer.costs;
        writer.hot_target.adapt(&seen, &costs)
    }

    /// Hits in a window while the cold area compresses at this ratio.
    fn hits_wanted(&self, ratio: f64) -> u64 {
        (HITS_A_SEGMENT as f64 * f64::from(self.geometry.segments) * ratio.max(1.0)) as u64
    }

    /// Marks the segments at the margins after a step. Called under the writer's lock: no other
    /// segment is listed or opened meanwhile. Takes time with the number of segments, once in a
    /// window.
    fn mark_margins(&self, writer: &mut Writer, made: Step, stride: &Stride) -> [f64; MARGINS] {
        for segment in &self.segments {
            let is_chosen = match made {
                Step::Grow => segment.usage.is_at(Margin::ColdHead),
                Step::Shrink => false,
                Step::Stay => segment.usage.is_at(Margin::Chosen),
            };
            segment.usage.set_margin(is_chosen.then_some(Margin::Chosen));
        }
        let [cold, hot] = &mut writer.streams;
        let chosen = cold.written.iter().filter(|listed| self.is_chosen(listed));
        cold.chosen = chosen.map(|listed| listed.entry.sequence).collect();
        let last_used = |listed: &_| self.used(listed);
        // Many were used a moment ago: first come those that have been there longer than a window.
        let proven = |listed: &_| {
            let (stamp, sequence) = self.used(listed);
            (self.is_passed_over(stamp), Reverse(stamp), sequence)
        };
        let taken_in = |listed: &_| self.taken_in(listed);
        let (heads, step) = (f64::from(stride.heads), f64::from(stride.step));
        // It is faster to look first at what comes first in an order.
        let (cold, hot) = (&cold.written, &hot.written);
        let cold_tail = self.mark_first(cold.iter(), last_used, stride.tail, Margin::ColdTail);
        let cold_head = self.mark_first(cold.iter().rev(), proven, heads, Margin::ColdHead);
        let hot_tail = self.mark_first(hot.iter(), taken_in, step, Margin::HotTail);
        [cold_head, cold_tail, hot_tail, 0.0]
    }

    /// Marks the wanted number of segments, rounded up: the first in this order that are not
    /// chosen. Returns which part of them is wanted.
    fn mark_first<'s, K: Ord>(
        &self,
        listed: impl Iterator<Item = &'s ListedSegment>,
        order: impl Fn(&ListedSegment) -> K,
        wanted: f64,
        margin: Margin,
    ) -> f64 {
        let listed = listed.filter(|listed| !self.is_chosen(listed));
        let ordered = listed.map(|listed| (order(listed), listed.segment));
        let marked = lowest(wanted.ceil() as usize, ordered);
        for (_, segment) in &marked {
            self.segments[*segment as usize].usage.set_margin(Some(margin));
        }
        (wanted / marked.len().max(1) as f64).min(1.0)
    }
}
