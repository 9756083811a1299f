//! The pages for hot items in a slab of small pages: page colours, by the frames that the pages lie
//! in.
//!
//! A page of 4 KiB is shorter than the cache's span, so the sets that it meets follow from where in
//! the span its frame lies. That is its *colour*: the frame's number modulo the number of pages in
//! a span. In a huge page the colours come one after the other, and a column of neighbouring pages
//! has each equally often. In small pages they come in any order, so here a slab's hot column is a
//! set of pages that has each colour equally often, wherever they lie:
//!
//! ```text
//!   pages of a slab   | 3 | 0 | 1 | 1 | 2 | 0 | 3 | 2 | ...   colours
//!   pools by colour   0: 1 5   1: 2 3   2: 4 7   3: 0 6
//!   four are hot        ^        ^        ^        ^          one of each pool, the lowest
//! ```
//!
//! A slab has as many hot pages as a column has. If the cache has more colours than that, slabs
//! take turns: each has a window of colours of its own, behind that of the slab before. An empty
//! pool gives way to that of the next colour, and the colours that the slab lacks show as pages
//! that are not *right*.
//!
//! Frames may change while a process runs, and no address of the process does: a choice that was
//! right once is a guess later, and nothing but the cache's hits depends on it. The same frames
//! give the same choice, so that nothing moves for it while they stay, and pages whose frames come
//! later, in a slab that is being filled, change it only where a pool was empty.
//!
//! What differs from Cavast, whose second-hand notes have pages of one colour gathered by a module
//! of the kernel: no page moves. Composing slabs of pages by `mremap` would make a mapping of its
//! own for each page, of which a process has 65,530: not even 128 slabs of them.

use crate::geometry::CacheGeometry;
use crate::pages::{PAGE_BYTES, PageSet, SLAB_PAGES_MAX};

/// The colours of pages under a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colours {
    /// A power of two.
    count: usize,
}

/// The hot pages of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// No frame is known.
    Unknown,
    /// The column by offsets meets the cache as that of a huge page.
    InOrder,
    /// These pages are chosen.
    Coloured {
        /// The pages.
        pages: PageSet,
        /// The number of them that have the intended colour.
        right: usize,
    },
}

/// A page that might be hot, in the order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// How often its colour was taken before, in multiples of each colour's share.
    round: usize,
    /// The distance of its colour behind the first one of the slab's window.
    distance: usize,
    page: usize,
}

impl Colours {
    /// As many colours as pages make a span of the cache.
    pub fn new(geometry: &CacheGeometry) -> Self {
        Self { count: geometry.span_bytes().div_ceil(PAGE_BYTES) }
    }

    /// The number of colours.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The colour of a frame.
    pub fn of(&self, frame: u64) -> usize {
        frame as usize & (self.count - 1)
    }

    /// The hot pages of slab `slab`, whose pages have these frames, as far as they are known. Their
    /// number is that of its column by offsets, or of the known frames.
    pub fn choose(
        &self,
        slab: u32,
        column: &PageSet,
        frames: impl IntoIterator<Item = Option<u64>>,
    ) -> Choice {
        let mut pages = [(0, 0); SLAB_PAGES_MAX];
        let mut known = 0;
        for (page, frame) in frames.into_iter().enumerate() {
            if let Some(frame) = frame {
                pages[known] = (self.of(frame), page);
                known += 1;
            }
        }
        let pages = &mut pages[..known];
        pages.sort_unstable();
        let wanted = column.count();
        if pages.is_empty() {
            return Choice::Unknown;
        }
        if self.is_in_order(pages, column) {
            return Choice::InOrder;
        }
        let share = (wanted / self.count).max(1);
        let first = self.first(slab, wanted);
        let mut candidates = [Candidate { round: 0, distance: 0, page: 0 }; SLAB_PAGES_MAX];
        let mut at = 0;
        for pool in pages.chunk_by(|one, other| one.0 == other.0) {
            for (before, &(colour, page)) in pool.iter().enumerate() {
                let distance = (colour + self.count - first) & (self.count - 1);
                candidates[at] = Candidate { round: before / share, distance, page };
                at += 1;
            }
        }
        let candidates = &mut candidates[..at];
        candidates.sort_unstable();
        let chosen = &candidates[..wanted.min(at)];
        let is_right = |it: &&Candidate| it.round == 0 && it.distance < wanted;
        Choice::Coloured {
            pages: chosen.iter().map(|candidate| candidate.page).collect(),
            right: chosen.iter().filter(is_right).count(),
        }
    }

    /// The first colour of a slab's window of `wanted` colours. Each time that windows have been
    /// through all colours they begin one further on: the colour behind a window takes the place of
    /// missing ones, and should not always be the same.
    fn first(&self, slab: u32, wanted: usize) -> usize {
        let before = slab as usize * wanted;
        (before + before / self.count) & (self.count - 1)
    }

    /// Whether the column by offsets meets the cache as that of a huge page, where these pages,
    /// each with its colour and sorted by it, are known: it has each colour equally often, or if
    /// there are more of them than pages, one behind the other.
    fn is_in_order(&self, pages: &[(usize, usize)], column: &PageSet) -> bool {
        let wanted = column.count();
        let in_column = || pages.iter().filter(|(_, page)| column.has(*page));
        if in_column().count() < wanted {
            return false;
        }
        if self.count > wanted {
            let mut ahead = in_column()
                .map(|(colour, page)| (colour + self.count - page % self.count) % self.count);
            let first = ahead.next();
            return ahead.all(|it| Some(it) == first);
        }
        pages.chunk_by(|one, other| one.0 == other.0).all(|pool| {
            pool.iter().filter(|(_, page)| column.has(*page)).count() == wanted / self.count
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Columns;
    use stdx::random::Xorshift;

    const SLAB_BYTES: usize = SLAB_PAGES_MAX * PAGE_BYTES;

    /// Caches, each with its number of colours, from one to more than a slab has pages.
    fn caches() -> impl Iterator<Item = (CacheGeometry, usize)> {
        [32, 64, 128, 2048, 4096, 16_384, 32_768, 65_536].into_iter().map(|sets| {
            let cache = CacheGeometry::new(64, 16, sets, 1).expect("it is a cache");
            (cache, (sets * 64).div_ceil(PAGE_BYTES))
        })
    }

    fn column(cache: &CacheGeometry, slab: u32) -> PageSet {
        Columns::new(SLAB_BYTES, cache, 1).hot_pages(slab, SLAB_BYTES)
    }

    /// Each frame at most once, in any order; some are unknown.
    fn frames(random: &mut Xorshift, unknown: f64) -> Vec<Option<u64>> {
        let mut frame = |_| (!random.chance(unknown)).then(|| random.draw() >> 20);
        (0..SLAB_PAGES_MAX).map(&mut frame).collect()
    }

    /// The number of pages of each colour.
    fn pools(colours: &Colours, frames: &[Option<u64>], pages: Option<&PageSet>) -> Vec<usize> {
        let mut pools = vec![0; colours.count()];
        for (page, frame) in frames.iter().enumerate() {
            if let Some(frame) = frame.filter(|_| pages.is_none_or(|pages| pages.has(page))) {
                pools[frame as usize % colours.count()] += 1;
            }
        }
        pools
    }

    #[test]
    fn every_colour_of_the_window_has_its_share_as_far_as_pools_reach() {
        let mut random = Xorshift::seeded(3);
        for (cache, count) in caches() {
            let colours = Colours::new(&cache);
            assert_eq!(colours.count(), count);
            for slab in 0..60 {
                let unknown = [0.0, 0.0, 0.5, 0.97][slab as usize % 4];
                let (frames, column) = (frames(&mut random, unknown), column(&cache, slab));
                let (pages, right) = match colours.choose(slab, &column, frames.iter().copied()) {
                    Choice::Coloured { pages, right } => (pages, right),
                    Choice::InOrder => {
                        let share = column.count() / count;
                        let found = pools(&colours, &frames, Some(&column));
                        assert!(found.iter().all(|&pool| pool == share), "{count}, slab {slab}");
                        continue;
                    }
                    Choice::Unknown => unreachable!("some frame is known"),
                };
                let known = frames.iter().flatten().count();
                assert_eq!(pages.count(), known.min(column.count()));
                assert!(pages.iter().all(|page| frames[page].is_some()));
                let (there, taken) =
                    (pools(&colours, &frames, None), pools(&colours, &frames, Some(&pages)));
                let (wanted, mut all_right) = (column.count(), 0);
                for at in 0..wanted.min(count) {
                    let before = slab as usize * wanted;
                    let colour = (before + before / count + at) % count;
                    let share = (wanted / count).max(1);
                    assert!(taken[colour] >= there[colour].min(share), "{count}, slab {slab}");
                    all_right += there[colour].min(share);
                }
                assert_eq!(right, all_right, "{count} colours, slab {slab}");
            }
        }
    }

    #[test]
    fn slabs_with_full_pools_meet_every_colour_equally_often() {
        for (cache, count) in caches().filter(|&(_, count)| count <= SLAB_PAGES_MAX) {
            let (colours, mut taken) = (Colours::new(&cache), vec![0; count]);
            let mut random = Xorshift::seeded(5);
            let slabs = 16;
            for slab in 0..slabs {
                // Each colour equally often in a slab, in any order.
                let mut frames: Vec<_> = (0..SLAB_PAGES_MAX as u64).map(Some).collect();
                for at in 1..frames.len() {
                    frames.swap(at, random.draw() as usize % (at + 1));
                }
                let column = column(&cache, slab);
                let pages = match colours.choose(slab, &column, frames.iter().copied()) {
                    Choice::Coloured { pages, right } => {
                        assert_eq!(right, pages.count(), "{count} colours, slab {slab}");
                        pages
                    }
                    Choice::InOrder => column,
                    Choice::Unknown => unreachable!("all frames are known"),
                };
                let found = pools(&colours, &frames, Some(&pages));
                taken.iter_mut().zip(found).for_each(|(taken, found)| *taken += found);
            }
            let share = slabs as usize * column(&cache, 0).count() / count;
            assert!(taken.iter().all(|&taken| taken == share), "{count} colours: {taken:?}");
        }
    }

    /// Regression: windows always began at the same sixteen colours, which took the place of
    /// missing ones: slabs of random frames met the colours less evenly than without a choice.
    #[test]
    fn missing_colours_are_replaced_by_different_ones_each_time() {
        let cache = CacheGeometry::new(64, 16, 32_768, 1).expect("a span of a slab");
        let (colours, mut random) = (Colours::new(&cache), Xorshift::seeded(7));
        let (mut chosen, mut by_offsets) = (vec![0; colours.count()], vec![0; colours.count()]);
        for slab in 0..1024 {
            let (frames, column) = (frames(&mut random, 0.0), column(&cache, slab));
            let Choice::Coloured { pages, .. } =
                colours.choose(slab, &column, frames.iter().copied())
            else {
                panic!("frames are in no order");
            };
            for (sums, pages) in [(&mut chosen, pages), (&mut by_offsets, column)] {
                let found = pools(&colours, &frames, Some(&pages));
                sums.iter_mut().zip(found).for_each(|(sum, found)| *sum += found);
            }
        }
        // The sum of the squares of each colour's distance from its share of 64.
        let off = |sums: &[usize]| sums.iter().map(|sum| sum.abs_diff(64).pow(2)).sum::<usize>();
        let (chosen, by_offsets) = (off(&chosen), off(&by_offsets));
        assert!(2 * chosen < by_offsets, "{chosen} and {by_offsets}");
    }

    #[test]
    fn a_huge_page_is_in_order_and_hidden_frames_are_unknown() {
        for (cache, count) in caches() {
            let colours = Colours::new(&cache);
            for slab in 0..40 {
                let column = column(&cache, slab);
                let base = u64::from(slab) * 7 * SLAB_PAGES_MAX as u64;
                let huge = (0..SLAB_PAGES_MAX as u64).map(|page| Some(base + page));
                assert_eq!(colours.choose(slab, &column, huge), Choice::InOrder, "{count}");
                let none = [None; SLAB_PAGES_MAX];
                assert_eq!(colours.choose(slab, &column, none), Choice::Unknown);
            }
        }
    }

    #[test]
    fn a_pool_that_has_run_out_gives_way_to_the_next_colour() {
        let cache = CacheGeometry::new(64, 16, 256, 1).expect("four colours");
        let colours = Colours::new(&cache);
        let column = PageSet::from_iter(0..4);
        // No page has the third colour; pages 1 and 2 have the first.
        let frames = [3, 0, 0, 1, 1, 3].map(Some);
        let chosen = colours.choose(0, &column, frames);
        let pages = PageSet::from_iter([0, 1, 2, 3]);
        assert_eq!(chosen, Choice::Coloured { pages, right: 3 });
        // Pages of other slabs do not count, and no more are chosen than there are.
        let chosen = colours.choose(0, &column, [3, 3].map(Some));
        let pages = PageSet::from_iter([0, 1]);
        assert_eq!(chosen, Choice::Coloured { pages, right: 1 });
    }

    #[test]
    fn frames_that_come_later_do_not_change_right_pages() {
        let cache = CacheGeometry::default();
        let (colours, mut random) = (Colours::new(&cache), Xorshift::seeded(9));
        for slab in 0..50 {
            let (frames, column) = (frames(&mut random, 0.0), column(&cache, slab));
            let mut before = PageSet::default();
            for known in (32..=SLAB_PAGES_MAX).step_by(32) {
                let some = (0..SLAB_PAGES_MAX).map(|page| frames[page].filter(|_| page < known));
                let Choice::Coloured { pages, right } = colours.choose(slab, &column, some) else {
                    break;
                };
                // Each page that is right now and was there before was chosen before.
                let kept = before.iter().filter(|&page| pages.has(page)).count();
                let later = pages.iter().filter(|&page| page >= known - 32).count();
                assert_eq!(kept + later, pages.count(), "slab {slab}, {right} right");
                before = pages;
            }
        }
    }
}
