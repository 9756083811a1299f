//! How much of the tier is hot: SlimCache's cost model, as decisions without side effects.
//!
//! One more step for the hot area takes in the rows at the head of the cold area, the most recently
//! used, whose hits then cost no decompression; they take up more room there, and so the cold area
//! loses its least recently used rows, whose hits become misses. One step less is the reverse at
//! the other ends. With the hits of windows at those margins ([`Hits`]):
//!
//! ```text
//!   grow     gains cold head x (cold read - hot read)   loses cold tail x (miss - cold read)
//!   shrink   gains cold tail x (miss - cold read)       loses hot tail  x (cold read - hot read)
//! ```
//!
//! A step is made when it gains more than it loses by a margin, with confidence; a step back needs
//! a larger margin than one onwards, so that the size does not oscillate. Consecutive steps in the
//! same direction double: the paper's steps have one size, and took the whole of a fast store's
//! time to reach what pays. The paper leaves out that the rows which a step takes in leave room
//! behind them in the cold area: its tail is of the difference.

use crate::ACCESSES_MAX;

/// The whole time to answer a read, in nanoseconds. Only differences matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// From the hot area.
    pub hot_read_ns: u64,
    /// From the cold area: reading and decoding.
    pub cold_read_ns: u64,
    /// From the source of the item if the tier has not got it.
    pub miss_ns: u64,
}

impl Default for Costs {
    /// A page from an SSD in 100 microseconds; decoding 16 KiB of rows in 20 more; a database that
    /// answers in 2 milliseconds.
    fn default() -> Self {
        Self { hot_read_ns: 100_000, cold_read_ns: 120_000, miss_ns: 2_000_000 }
    }
}

/// How the hot area's share of the tier is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partition {
    /// The cost model, from nothing to half of the segments.
    Adaptive,
    /// A fixed percentage of the segments. With 0 there is no hot area: rows are compressed once
    /// more where they would have moved there.
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

/// The change of the hot area's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Grow,
    Shrink,
    Stay,
}

/// How many times what it loses a step onwards has to gain.
const MARGIN_ONWARDS: f64 = 1.25;
/// And a step back.
const MARGIN_BACK: f64 = 2.0;
/// Standard deviations of the count that the gain has to reach: by chance alone one window of fifty
/// would.
const CONFIDENCE: f64 = 2.0;
/// The weight of earlier hits beside a new window's: those of eight windows at most, since
/// popularity changes.
const KEPT_EVIDENCE: f64 = 0.875;

impl Hits {
    /// The sum of these hits and those of a later window.
    fn and(&self, later: &Hits) -> Hits {
        let kept = self.scaled(KEPT_EVIDENCE);
        Hits {
            cold_head: kept.cold_head + later.cold_head,
            cold_tail: kept.cold_tail + later.cold_tail,
            hot_tail: kept.hot_tail + later.hot_tail,
        }
    }

    fn scaled(&self, by: f64) -> Hits {
        let Hits { cold_head, cold_tail, hot_tail } = self;
        Hits { cold_head: cold_head * by, cold_tail: cold_tail * by, hot_tail: hot_tail * by }
    }
}

/// A number of hits, and what each is worth.
#[derive(Debug, Clone, Copy)]
struct Worth {
    hits: f64,
    each: f64,
}

impl Worth {
    fn all(self) -> f64 {
        self.hits * self.each
    }

    /// Whether it is more than `lost`, by this margin, with confidence: hits are independent of
    /// each other, so that their counts vary by their root. One more than was seen is allowed for
    /// on the side that loses, where none may be chance.
    fn pays(self, lost: Worth, margin: f64) -> bool {
        let (gain, loss) = (self.all(), lost.all());
        let variance = gain * self.each + (lost.hits + 1.0) * lost.each * lost.each;
        gain > loss * margin && gain - loss > CONFIDENCE * variance.sqrt()
    }
}

/// The step that pays, given the last one that was made.
fn decide(hits: &Hits, costs: &Costs, last: Step) -> Step {
    let decoding = costs.cold_read_ns.saturating_sub(costs.hot_read_ns) as f64;
    let missing = costs.miss_ns.saturating_sub(costs.cold_read_ns) as f64;
    let faster = Worth { hits: hits.cold_head, each: decoding };
    let slower = Worth { hits: hits.hot_tail, each: decoding };
    let kept = Worth { hits: hits.cold_tail, each: missing };
    let margin = |back: Step| if last == back { MARGIN_BACK } else { MARGIN_ONWARDS };
    let grows = faster.pays(kept, margin(Step::Shrink));
    let shrinks = kept.pays(slower, margin(Step::Grow));
    match (grows, shrinks) {
        (true, false) => Step::Grow,
        (false, true) => Step::Shrink,
        // The hot area's tail is of no use, and the cold area's head would be.
        (true, true) if faster.all() - kept.all() >= kept.all() - slower.all() => Step::Grow,
        (true, true) => Step::Shrink,
        (false, false) => Step::Stay,
    }
}

/// The largest step is one part in this many of all segments. Hits counted at the margins of a
/// larger one say little about each of its segments: with a fourth of the tier a read took half a
/// microsecond longer where a miss takes 100 (`docs/decisions/0012-two-areas-on-flash.md`).
const STEP_SHARE: u32 = 10;

/// What a step would move, in segments.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Stride {
    /// Cold segments with as many rows as a step of hot ones.
    pub(crate) heads: u32,
    /// Hot segments.
    pub(crate) step: u32,
    /// Cold segments that a step costs beyond the heads.
    pub(crate) tail: f64,
}

/// The observations of a window.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) hits: Hits,
    /// The stride that its margins are of.
    pub(crate) stride: Stride,
    /// Segments that the hot area has.
    pub(crate) hot_segments: u32,
    /// Some cold segments that the last step chose are not collected yet.
    pub(crate) has_chosen: bool,
}

/// The size that the hot area is to have. It begins with nothing: a hot area, which costs room,
/// first has to show that it pays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HotTarget {
    segments: u32,
    /// The largest size.
    segments_max: u32,
    is_fixed: bool,
    last: Step,
    /// Cold segments whose rows the next step takes in, or gives back.
    heads: u32,
    /// The most hot segments of a step.
    step_max: u32,
    /// Hits since the last step.
    hits: Hits,
}

impl HotTarget {
    /// For a tier of `segments` segments, of which `free` are kept free.
    pub(crate) fn new(segments: u32, free: u32, partition: Partition) -> Self {
        let (percent, is_fixed): (u32, bool) = match partition {
            Partition::Adaptive => (0, false),
            Partition::Fixed { hot_percent } => (hot_percent.into(), true),
        };
        let segments_max = (segments.saturating_sub(free) / 2).max(1);
        // A share that is not 0 is a segment at least.
        let share = (u64::from(segments) * u64::from(percent)).div_ceil(100) as u32;
        let step_max = (segments / STEP_SHARE).max(1);
        let (segments, hits) = (share.min(segments_max), Hits::default());
        Self { segments, segments_max, is_fixed, last: Step::Stay, heads: 1, step_max, hits }
    }

    pub(crate) fn segments(&self) -> u32 {
        self.segments
    }

    /// Whether there is no hot area.
    pub(crate) fn is_none(&self) -> bool {
        self.segments == 0
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// The next step's stride, while the cold area compresses at this ratio.
    pub(crate) fn stride(&self, ratio: f64) -> Stride {
        let ratio = ratio.max(1.0);
        let step = (f64::from(self.heads) * ratio).ceil() as u32;
        let step = step.min(self.segments_max);
        Stride { heads: self.heads, step, tail: f64::from(step) - f64::from(step) / ratio }
    }

    /// Whether the hot area has fewer segments than it is to have.
    pub(crate) fn lacks(&self, hot_segments: usize) -> bool {
        hot_segments < self.segments as usize
    }

    /// The accesses with which a cold row becomes hot when its segment is collected, while the hot
    /// area has this many segments; `None` if no row does. An adaptive area takes in rows that were
    /// read often in a segment that a step chose, and nothing else: with all rows that were read
    /// there, as many segments served 81 % of the hits, not 85. An area of a fixed size takes every
    /// row that was read while it lacks segments, and then only rows read often.
    pub(crate) fn accesses(&self, hot_segments: usize, is_chosen: bool) -> Option<u8> {
        if !self.is_fixed {
            return is_chosen.then_some(ACCESSES_MAX);
        }
        let accesses = if self.lacks(hot_segments) { 1 } else { ACCESSES_MAX };
        (!self.is_none()).then_some(accesses)
    }

    /// Makes the step that pays, and returns it. It begins from the area's actual size, if that is
    /// less than it was to have; and does not grow again before the segments chosen last are there.
    pub(crate) fn adapt(&mut self, seen: &Seen, costs: &Costs) -> Step {
        if self.is_fixed {
            return Step::Stay;
        }
        self.hits = self.hits.and(&seen.hits);
        let segments = self.segments.min(seen.hot_segments);
        let is_coming = seen.has_chosen && segments < self.segments;
        self.segments = match decide(&self.hits, costs, self.last) {
            Step::Grow if is_coming => return Step::Stay,
            Step::Grow if segments < self.segments_max => {
                self.made(Step::Grow, seen);
                (segments + seen.stride.step).min(self.segments_max)
            }
            Step::Shrink if self.segments > 0 => {
                self.made(Step::Shrink, seen);
                segments.saturating_sub(seen.stride.step)
            }
            _ => {
                self.halve();
                return Step::Stay;
            }
        };
        self.last
    }

    /// Notes a step: the next one in its direction has twice the segments.
    fn made(&mut self, step: Step, seen: &Seen) {
        let Stride { heads, step: hot, .. } = seen.stride;
        let doubles = step == self.last && 2 * hot <= self.step_max;
        self.heads = if step != self.last {
            1
        } else if doubles {
            2 * heads
        } else {
            heads
        };
        self.last = step;
        self.hits = Hits::default();
    }

    /// If no step pays, one of half its segments may, whose margins have half of the hits.
    fn halve(&mut self) {
        let heads = (self.heads / 2).max(1);
        self.hits = self.hits.scaled(f64::from(heads) / f64::from(self.heads));
        self.heads = heads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    /// A hit in the tail is worth a hundred times one that is decoded.
    const COSTS: Costs = Costs { hot_read_ns: 100, cold_read_ns: 120, miss_ns: 2120 };
    const RATIO: f64 = 2.5;

    fn hits(cold_head: f64, cold_tail: f64, hot_tail: f64) -> Hits {
        Hits { cold_head, cold_tail, hot_tail }
    }

    fn adaptive(segments: u32) -> HotTarget {
        HotTarget::new(segments, 8, Partition::Adaptive)
    }

    impl HotTarget {
        /// A target that steps have brought to this size.
        pub(crate) fn grown_to(segments: u32, of: u32) -> Self {
            Self { segments, last: Step::Grow, ..HotTarget::new(of, 4, Partition::Adaptive) }
        }

        /// Sees a window, and returns how large the area is to be.
        fn after(&mut self, hits: Hits, hot_segments: u32, has_chosen: bool) -> u32 {
            let stride = self.stride(RATIO);
            self.adapt(&Seen { hits, stride, hot_segments, has_chosen }, &COSTS);
            self.segments
        }

        /// As [`Self::after`], if the area has the segments that it is to have.
        fn after_all(&mut self, hits: Hits) -> u32 {
            self.after(hits, self.segments, false)
        }
    }

    #[test]
    fn a_step_is_made_when_it_gains_more_than_it_loses() {
        let first = |head, tail, hot| decide(&hits(head, tail, hot), &COSTS, Step::Stay);
        assert_eq!(first(125_001.0, 1000.0, 125_000.0), Step::Grow);
        assert_eq!(first(125_000.0, 1000.0, 125_000.0), Step::Stay);
        assert_eq!(first(0.0, 1000.0, 79_999.0), Step::Shrink);
        assert_eq!(first(0.0, 1000.0, 80_000.0), Step::Stay);
        // Both would pay: the one that pays more.
        assert_eq!(first(2000.0, 10.0, 0.0), Step::Grow);
        assert_eq!(first(1999.0, 10.0, 0.0), Step::Shrink);
    }

    #[test]
    fn a_step_is_not_made_by_chance() {
        let first = |head, tail, hot| decide(&hits(head, tail, hot), &COSTS, Step::Stay);
        assert_eq!(first(0.0, 0.0, 0.0), Step::Stay);
        // None was seen in the tail, but one would outweigh a hundred in the head.
        assert_eq!(first(202.0, 0.0, 0.0), Step::Stay);
        assert_eq!(first(203.0, 0.0, 0.0), Step::Grow);
        assert_eq!(first(0.0, 4.0, 0.0), Step::Stay);
        assert_eq!(first(0.0, 5.0, 0.0), Step::Shrink);
        // By more than the margin, but two deviations of sixteen hits are half of them.
        assert_eq!(first(0.0, 16.0, 798.0), Step::Shrink);
        assert_eq!(first(0.0, 16.0, 799.0), Step::Stay);
    }

    #[test]
    fn a_step_back_needs_a_larger_margin() {
        let grows = |head| decide(&hits(head, 1000.0, head), &COSTS, Step::Shrink);
        assert_eq!((grows(200_000.0), grows(200_001.0)), (Step::Stay, Step::Grow));
        let shrinks = |hot| decide(&hits(0.0, 1000.0, hot), &COSTS, Step::Grow);
        assert_eq!((shrinks(50_000.0), shrinks(49_999.0)), (Step::Stay, Step::Shrink));
    }

    #[test]
    fn a_costly_miss_shrinks_and_a_slow_decompression_grows() {
        let mut random = Random(1);
        for _ in 0..10_000 {
            let mut draw = || 8.0 + random.below(1000) as f64;
            let hits = hits(draw(), draw(), draw());
            for last in [Step::Grow, Step::Shrink, Step::Stay] {
                let costly = Costs { miss_ns: 10_000_000, ..COSTS };
                assert_eq!(decide(&hits, &costly, last), Step::Shrink, "{hits:?}");
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
    fn evidence_gathers_over_windows_and_fades() {
        let grown = || {
            let mut target = adaptive(1000);
            assert_eq!(target.after_all(hits(1e6, 0.0, 0.0)), 3);
            target
        };
        // Three hits are not enough, and with seven eighths of three more they are.
        let mut target = grown();
        assert_eq!(target.after_all(hits(0.0, 3.0, 0.0)), 3);
        assert_eq!(target.after_all(hits(0.0, 3.0, 0.0)), 0);
        // Half a hit in each window never comes to more than four.
        let mut target = grown();
        let last = (0..1000).map(|_| target.after_all(hits(0.0, 0.5, 0.0))).last();
        assert_eq!(last, Some(3));
        // Evidence begins anew after a step: what spoke for it says nothing about the next one.
        let mut target = grown();
        assert_eq!(target.after_all(hits(0.0, 0.0, 0.0)), 3);
    }

    #[test]
    fn a_step_is_of_whole_cold_segments_and_costs_what_they_do_not_leave() {
        let mut target = adaptive(1000);
        assert_eq!(target.stride(RATIO), Stride { heads: 1, step: 3, tail: 1.8 });
        // Rows that do not compress take no more room in the hot area.
        assert_eq!(target.stride(0.9), Stride { heads: 1, step: 1, tail: 0.0 });
        target.heads = 4;
        assert_eq!(target.stride(RATIO), Stride { heads: 4, step: 10, tail: 6.0 });
        let few = HotTarget::new(8, 4, Partition::Adaptive);
        assert_eq!(few.stride(RATIO), Stride { heads: 1, step: 2, tail: 1.2 });
    }

    #[test]
    fn steps_double_and_begin_small_again() {
        let mut target = adaptive(1000);
        let (grows, shrinks) = (hits(1e6, 0.0, 1e6), hits(0.0, 1e6, 0.0));
        let steps: Vec<u32> = (0..8)
            .map(|_| {
                let before = target.segments;
                target.after_all(grows) - before
            })
            .collect();
        assert_eq!(steps, [3, 3, 5, 10, 20, 40, 80, 80], "a tenth of the tier at most");
        // The hits counted are of a large step, and the next step is small.
        assert_eq!((target.after_all(shrinks), target.heads), (161, 1));
        assert_eq!((target.after_all(shrinks), target.heads), (158, 2));
        assert_eq!((target.after_all(shrinks), target.heads), (153, 4));
        // Where none pays, the next one is half as large, with half as much evidence.
        target.hits = hits(8.0, 0.0, 8.0);
        assert_eq!((target.after_all(Hits::default()), target.heads), (153, 2));
        assert_eq!(target.hits, hits(3.5, 0.0, 3.5));
        assert_eq!((target.after_all(Hits::default()), target.heads), (153, 1));
        assert_eq!((target.after_all(Hits::default()), target.heads), (153, 1));
    }

    #[test]
    fn the_target_begins_with_nothing_and_keeps_its_bounds() {
        let start = |segments, free| HotTarget::new(segments, free, Partition::Adaptive);
        assert_eq!((start(8, 4).segments(), start(8, 4).segments_max), (0, 2));
        assert_eq!((start(1000, 16).segments(), start(1000, 16).segments_max), (0, 492));
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
                let (before, step) = (target.segments, target.stride(RATIO).step);
                target.after_all(hits(up, down, 0.0));
                assert!(target.segments() <= target.segments_max);
                assert!(target.segments().abs_diff(before) <= step);
                assert!(step <= 3.max(segments / STEP_SHARE), "{step} of {segments}");
                seen[0] |= round >= 1000 && target.is_none();
                seen[1] |= target.segments() == target.segments_max;
            }
            assert_eq!(seen, [true; 2], "{segments}");
        }
    }

    #[test]
    fn an_area_grows_when_the_chosen_items_are_there_but_shrinks_at_once() {
        let (grows, shrinks) = (hits(1e6, 0.0, 1e6), hits(0.0, 1e6, 0.0));
        let mut target = adaptive(100);
        assert_eq!(target.after(grows, 0, false), 3);
        assert_eq!(target.after(grows, 2, true), 3, "some of it is to come");
        let (mut coming, mut less) = (target, target);
        assert_eq!(target.after(grows, 3, true), 6, "there is no room for the rest of it");
        assert_eq!(less.after(grows, 2, false), 5, "there was less than was thought");
        assert_eq!(coming.after(shrinks, 0, true), 0);
    }

    #[test]
    fn an_adaptive_area_takes_in_chosen_items_and_a_fixed_one_often_read_ones() {
        let mut target = adaptive(100);
        target.after_all(hits(1e6, 0.0, 0.0));
        for hot_segments in [0, 3] {
            assert_eq!(target.accesses(hot_segments, true), Some(ACCESSES_MAX));
            assert_eq!(target.accesses(hot_segments, false), None);
        }
        assert!(target.lacks(2) && !target.lacks(3));
        let fixed = |hot_percent| HotTarget::new(100, 8, Partition::Fixed { hot_percent });
        let accesses = |hot_segments| fixed(5).accesses(hot_segments, false);
        assert_eq!((accesses(4), accesses(5)), (Some(1), Some(ACCESSES_MAX)));
        assert_eq!(fixed(0).accesses(0, false), None);
    }

    #[test]
    fn a_fixed_share_stays_and_may_be_nothing() {
        for (hot_percent, expected) in [(0, 0), (1, 1), (10, 10), (50, 46), (99, 46)] {
            let mut target = HotTarget::new(100, 8, Partition::Fixed { hot_percent });
            assert_eq!(target.after_all(hits(1e6, 0.0, 0.0)), expected);
            assert_eq!(target.is_none(), expected == 0);
        }
    }
}
