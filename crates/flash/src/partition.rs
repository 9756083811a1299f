//! How much of the tier is hot: SlimCache's cost model, a decision without state or side effects.
//!
//! One more step of segments for the hot area lets it take in what was used last of the cold area,
//! whose hits then cost no decompression; and costs the cold area what was used least, whose hits
//! become misses. One step less is the reverse at the other ends. With the hits of one window at
//! those margins ([`Hits`]):
//!
//! ```text
//!   grow     gains cold head x (cold read - hot read)   loses cold tail x (miss - cold read)
//!   shrink   gains cold tail x (miss - cold read)       loses hot tail  x (cold read - hot read)
//! ```
//!
//! A step is made when it gains more than it loses by a margin, on the evidence of enough hits; a
//! step back needs a larger margin than one onwards, so that it does not go to and fro.

use crate::ACCESSES_MAX;

/// What it takes to answer a read, in nanoseconds, all in all. Only differences matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// From the hot area.
    pub hot_read_ns: u64,
    /// From the cold area: reading and decoding.
    pub cold_read_ns: u64,
    /// From whoever has the item if the tier has not.
    pub miss_ns: u64,
}

impl Default for Costs {
    /// A page from an SSD in 100 microseconds; decoding 16 KiB of rows in 20 more; a database that
    /// answers in 2 milliseconds.
    fn default() -> Self {
        Self { hot_read_ns: 100_000, cold_read_ns: 120_000, miss_ns: 2_000_000 }
    }
}

/// Who decides how much of the tier is hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partition {
    /// The cost model, from nothing to half of the segments.
    Adaptive,
    /// It is so many segments of a hundred. With 0 there is no hot area: what was read is
    /// compressed once more where it would have moved there.
    Fixed {
        /// From 0 to 50.
        hot_percent: u8,
    },
}

/// Hits at the margins, in one window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Hits {
    pub(crate) cold_head: f64,
    pub(crate) cold_tail: f64,
    pub(crate) hot_tail: f64,
}

/// What becomes of the hot area's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Grow,
    Shrink,
    Stay,
}

/// Fewer hits in favour of a step are no evidence.
const EVIDENCE_HITS: f64 = 8.0;
/// A step gains so much more than it loses.
const MARGIN_ONWARDS: f64 = 1.25;
/// And a step back.
const MARGIN_BACK: f64 = 2.0;

/// The step that pays, after the last one that was made.
pub(crate) fn decide(hits: &Hits, costs: &Costs, last: Step) -> Step {
    let decoding = costs.cold_read_ns.saturating_sub(costs.hot_read_ns) as f64;
    let missing = costs.miss_ns.saturating_sub(costs.cold_read_ns) as f64;
    let faster = hits.cold_head * decoding;
    let slower = hits.hot_tail * decoding;
    let kept = hits.cold_tail * missing;
    let margin = |back: Step| if last == back { MARGIN_BACK } else { MARGIN_ONWARDS };
    let grows = hits.cold_head >= EVIDENCE_HITS && faster > kept * margin(Step::Shrink);
    let shrinks = hits.cold_tail >= EVIDENCE_HITS && kept > slower * margin(Step::Grow);
    match (grows, shrinks) {
        (true, false) => Step::Grow,
        (false, true) => Step::Shrink,
        // The hot area's tail is of no use, and the cold area's head would be.
        (true, true) if faster - kept >= kept - slower => Step::Grow,
        (true, true) => Step::Shrink,
        (false, false) => Step::Stay,
    }
}

/// Of so many hundredths of the segments the hot area begins with.
const START_PERCENT: u32 = 5;
/// A step is one part of so many of the hot area.
const STEP_SHARE: u32 = 10;

/// The size that the hot area is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HotTarget {
    segments: u32,
    /// It never gets more.
    segments_max: u32,
    is_fixed: bool,
    last: Step,
}

impl HotTarget {
    /// Of so many segments, of which so many are kept free.
    pub(crate) fn new(segments: u32, free: u32, partition: Partition) -> Self {
        let (percent, is_fixed) = match partition {
            Partition::Adaptive => (START_PERCENT, false),
            Partition::Fixed { hot_percent } => (hot_percent.into(), true),
        };
        let segments_max = (segments.saturating_sub(free) / 2).max(1);
        // A share that is not 0 is a segment at least.
        let share = (u64::from(segments) * u64::from(percent)).div_ceil(100) as u32;
        let segments = share.min(segments_max);
        Self { segments, segments_max, is_fixed, last: Step::Stay }
    }

    pub(crate) fn segments(&self) -> u32 {
        self.segments
    }

    /// Nothing becomes hot.
    pub(crate) fn is_none(&self) -> bool {
        self.segments == 0
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Segments of a step.
    pub(crate) fn step(&self) -> u32 {
        (self.segments / STEP_SHARE).max(1)
    }

    /// How often a cold row was read that becomes hot when it is collected, while the hot area has
    /// so many segments; nothing if none does. An area that lacks segments takes whatever was read
    /// if it is to grow, and else waits for what is worth it.
    pub(crate) fn accesses(&self, hot_segments: usize) -> Option<u8> {
        let lacks = hot_segments < self.segments as usize;
        let fills = lacks && (self.is_fixed || self.last == Step::Grow);
        (!self.is_none()).then_some(if fills { 1 } else { ACCESSES_MAX })
    }

    /// Makes the step that pays. While an area has fewer segments than it is to have, the last step
    /// has not come true: there is no other.
    pub(crate) fn adapt(&mut self, hits: &Hits, costs: &Costs, hot_segments: usize) {
        if self.is_fixed {
            return;
        }
        let step = decide(hits, costs, self.last);
        if step == Step::Grow && hot_segments < self.segments as usize {
            return;
        }
        let segments = match step {
            Step::Grow => self.segments + self.step(),
            Step::Shrink => self.segments.saturating_sub(self.step()),
            Step::Stay => return,
        };
        self.segments = segments.min(self.segments_max);
        self.last = step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    const COSTS: Costs = Costs { hot_read_ns: 100, cold_read_ns: 120, miss_ns: 2120 };

    fn hits(cold_head: f64, cold_tail: f64, hot_tail: f64) -> Hits {
        Hits { cold_head, cold_tail, hot_tail }
    }

    #[test]
    fn a_step_is_made_when_it_gains_more_than_it_loses() {
        let first = |hits: &Hits| decide(hits, &COSTS, Step::Stay);
        // A hit in the tail is worth a hundred times one that is decoded.
        assert_eq!(first(&hits(1000.0, 7.0, 1000.0)), Step::Grow);
        assert_eq!(first(&hits(1000.0, 9.0, 1000.0)), Step::Stay);
        assert_eq!(first(&hits(1000.0, 13.0, 1000.0)), Step::Shrink);
        assert_eq!(first(&hits(0.0, 0.0, 0.0)), Step::Stay);
        assert_eq!(first(&hits(7.0, 0.0, 0.0)), Step::Stay, "no evidence");
        assert_eq!(first(&hits(8.0, 0.0, 0.0)), Step::Grow);
        // Both would pay: the one that pays more.
        assert_eq!(first(&hits(2500.0, 10.0, 0.0)), Step::Grow);
        assert_eq!(first(&hits(1500.0, 10.0, 0.0)), Step::Shrink);
    }

    #[test]
    fn a_step_back_needs_a_larger_margin() {
        let grows = hits(1300.0, 10.0, 1300.0);
        assert_eq!(decide(&grows, &COSTS, Step::Grow), Step::Grow);
        assert_eq!(decide(&grows, &COSTS, Step::Shrink), Step::Stay);
        let shrinks = hits(700.0, 10.0, 700.0);
        assert_eq!(decide(&shrinks, &COSTS, Step::Shrink), Step::Shrink);
        assert_eq!(decide(&shrinks, &COSTS, Step::Grow), Step::Stay);
    }

    #[test]
    fn a_dear_miss_shrinks_and_a_slow_decompression_grows() {
        let mut random = Random(1);
        for _ in 0..10_000 {
            let mut draw = || 8.0 + random.below(1000) as f64;
            let hits = hits(draw(), draw(), draw());
            for last in [Step::Grow, Step::Shrink, Step::Stay] {
                let dear = Costs { miss_ns: 10_000_000, ..COSTS };
                assert_eq!(decide(&hits, &dear, last), Step::Shrink, "{hits:?}");
                let slow = Costs { hot_read_ns: 100, cold_read_ns: 100_100, miss_ns: 100_101 };
                assert_eq!(decide(&hits, &slow, last), Step::Grow, "{hits:?}");
                let equal = Costs { hot_read_ns: 100, cold_read_ns: 100, miss_ns: 100 };
                assert_eq!(decide(&hits, &equal, last), Step::Stay, "{hits:?}");
                // Nothing is gained where all margins are worth the same.
                let (count, costs) = (hits.cold_head, Costs { miss_ns: 140, ..COSTS });
                assert_eq!(
                    decide(
                        &super::Hits { cold_tail: count, cold_head: count, hot_tail: count },
                        &costs,
                        last
                    ),
                    Step::Stay
                );
            }
        }
    }

    #[test]
    fn the_target_begins_small_and_keeps_its_bounds() {
        let start = |segments, free| HotTarget::new(segments, free, Partition::Adaptive);
        assert_eq!((start(8, 4).segments(), start(8, 4).segments_max), (1, 2));
        assert_eq!((start(1000, 16).segments(), start(1000, 16).segments_max), (50, 492));
        let mut random = Random(2);
        for segments in [8, 9, 30, 64, 1000] {
            let mut target = start(segments, 4);
            let mut seen = [false; 2];
            for round in 0..3000 {
                // A long way up, then a long way down, then anything.
                let (up, down) = match round / 1000 {
                    0 => (1e6, 0.0),
                    1 => (0.0, 1e6),
                    _ => (random.below(9) as f64 * 1e4, random.below(99) as f64),
                };
                let before = target;
                target.adapt(&hits(up, down, 0.0), &COSTS, usize::MAX);
                assert!(target.segments() <= target.segments_max);
                assert!(target.segments().abs_diff(before.segments()) <= before.step());
                seen[0] |= target.is_none();
                seen[1] |= target.segments() == target.segments_max;
            }
            assert_eq!(seen, [true; 2], "{segments}");
        }
    }

    #[test]
    fn an_area_that_is_not_full_does_not_grow_but_shrinks() {
        let mut target = HotTarget::new(100, 8, Partition::Adaptive);
        let (grows, shrinks) = (hits(1e6, 0.0, 0.0), hits(0.0, 1e6, 0.0));
        let mut segments_after = |hits, segments| {
            target.adapt(hits, &COSTS, segments);
            target.segments()
        };
        assert_eq!(segments_after(&grows, 4), 5);
        assert_eq!(segments_after(&grows, 5), 6);
        assert_eq!(segments_after(&shrinks, 0), 5);
    }

    #[test]
    fn only_an_area_that_grows_takes_whatever_was_read() {
        let often = Some(ACCESSES_MAX);
        let mut target = HotTarget::new(100, 8, Partition::Adaptive);
        let (grows, shrinks) = (hits(1e6, 0.0, 0.0), hits(0.0, 1e6, 0.0));
        assert_eq!((target.accesses(0), target.accesses(5)), (often, often));
        target.adapt(&grows, &COSTS, 5);
        assert_eq!((target.accesses(5), target.accesses(6)), (Some(1), often));
        for segments in (0..6).rev() {
            target.adapt(&shrinks, &COSTS, 6);
            let expected = if segments == 0 { None } else { often };
            assert_eq!((target.segments(), target.accesses(0)), (segments, expected));
        }
        let fixed = |hot_percent| HotTarget::new(100, 8, Partition::Fixed { hot_percent });
        assert_eq!((fixed(5).accesses(4), fixed(5).accesses(5)), (Some(1), often));
        assert_eq!(fixed(0).accesses(0), None);
    }

    #[test]
    fn a_fixed_share_stays_and_may_be_nothing() {
        for (hot_percent, expected) in [(0, 0), (1, 1), (10, 10), (50, 46), (99, 46)] {
            let mut target = HotTarget::new(100, 8, Partition::Fixed { hot_percent });
            target.adapt(&hits(1e6, 0.0, 0.0), &COSTS, usize::MAX);
            assert_eq!((target.segments(), target.is_none()), (expected, expected == 0));
        }
    }
}
