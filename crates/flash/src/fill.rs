//! How units fill the pages of a segment: how many bytes of rows a unit gathers, and where it
//! begins.
//!
//! ```text
//!   page               page               page               page
//!   |---- unit ----|xx|------ unit ------|---- unit -----|--- unit ----|x|
//!                   ^ skipped             ^ aims at the end of this page
//! ```
//!
//! A read is of whole pages, so a unit of about a page costs one page or two, by where it begins. A
//! unit aims at the end of the page in which the last one ended: its rows gather until, by the
//! ratio of the units before, they would about reach it when stored. The rest of the page is then
//! skipped if it is little, or if the unit turns out to be too long for it. The hot area knows the
//! bytes of its units beforehand, and trades bytes for pages likewise.

use ::io::device::PAGE_BYTES;

use crate::area::Area;
use crate::unit::{HEAD_BYTES, Head};

/// The rest of a page is skipped if it is no more than this and a unit is too long for it.
const SKIP_BYTES_MAX: [usize; 2] = [768, 1024];
/// A unit aims at this share of the room: how much a unit compresses varies from one to the next.
const AIM: f64 = 0.98;
/// Most raw bytes of a unit, all of which a reader decodes to find one item. Zstd gains little
/// beyond.
const RAW_BYTES_MAX: usize = 64 << 10;
/// A unit moves the average ratio by one part in this many.
const RATIO_SHARE: f64 = 16.0;
/// The ratio until one is known: a unit is stored in half its bytes.
const RATIO_START: f64 = 2.0;

/// How the units of one area follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    area: Area,
    /// Pages that a unit aims at.
    pages: usize,
    /// Each row is a unit of its own.
    is_single: bool,
    /// Raw bytes per stored byte.
    ratio: f64,
    raw_bytes_max: usize,
}

impl Fill {
    /// For the cold area: units of `pages` pages, or of a single row each.
    pub(crate) fn cold(pages: usize, is_single: bool, segment_bytes: usize) -> Self {
        // Never more than a fourth of a segment.
        let raw_bytes_max = RAW_BYTES_MAX.min(segment_bytes / 4);
        Self { area: Area::Cold, pages, is_single, ratio: RATIO_START, raw_bytes_max }
    }

    /// For the hot area: units of one page.
    pub(crate) fn hot() -> Self {
        let raw_bytes_max = PAGE_BYTES - HEAD_BYTES;
        Self { area: Area::Hot, pages: 1, is_single: false, ratio: 1.0, raw_bytes_max }
    }

    /// Raw bytes per stored byte, lately.
    pub(crate) fn ratio(&self) -> f64 {
        self.ratio
    }

    /// Bytes of rows that a unit gathers if it follows one that ends at `end`.
    pub(crate) fn raw_bytes(&self, end: usize) -> usize {
        if self.is_single {
            return 1;
        }
        let left = left_of_page(end);
        let left = if left <= self.skip_bytes_max() { PAGE_BYTES } else { left };
        let room = left + (self.pages - 1) * PAGE_BYTES - HEAD_BYTES;
        let raw_bytes = match self.area {
            Area::Cold => (room as f64 * self.ratio * AIM) as usize,
            Area::Hot => room,
        };
        raw_bytes.clamp(1, self.raw_bytes_max)
    }

    /// Where a unit of `unit_bytes` begins that follows one that ends at `end`.
    pub(crate) fn start(&self, end: usize, unit_bytes: usize) -> usize {
        let left = left_of_page(end);
        let pages = (PAGE_BYTES - left + unit_bytes).div_ceil(PAGE_BYTES);
        let is_longer = pages > unit_bytes.div_ceil(PAGE_BYTES);
        if is_longer && left <= self.skip_bytes_max() { end + left } else { end }
    }

    /// Updates the ratio from a unit of several rows that was compressed.
    pub(crate) fn learn(&mut self, head: &Head) {
        if head.rows > 1 && self.area == Area::Cold {
            let ratio = head.raw_bytes as f64 / head.stored_bytes.max(1) as f64;
            self.ratio += (ratio - self.ratio) / RATIO_SHARE;
        }
    }

    fn skip_bytes_max(&self) -> usize {
        SKIP_BYTES_MAX[self.area.index()]
    }
}

/// Bytes left of the page: from a whole page down to a granule.
fn left_of_page(end: usize) -> usize {
    PAGE_BYTES - end % PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(fill: &mut Fill, raw_bytes: usize, stored_bytes: usize, rows: usize) {
        (0..200).for_each(|_| fill.learn(&Head { stored_bytes, raw_bytes, rows }));
    }

    #[test]
    fn a_units_size_follows_the_ratio_and_the_rest_of_the_page() {
        let mut fill = Fill::cold(1, false, 1 << 20);
        learn(&mut fill, 3000, 1000, 9);
        let aimed = |room: usize| (room as f64 * fill.ratio() * AIM) as usize;
        assert_eq!(fill.raw_bytes(0), aimed(PAGE_BYTES - HEAD_BYTES));
        assert_eq!(fill.raw_bytes(PAGE_BYTES), fill.raw_bytes(0));
        assert_eq!(fill.raw_bytes(1024), aimed(3072 - HEAD_BYTES));
        // The edge of what is skipped: beyond it the next page is aimed at.
        let edge = PAGE_BYTES - SKIP_BYTES_MAX[0];
        assert_eq!(fill.raw_bytes(edge - 64), aimed(SKIP_BYTES_MAX[0] + 64 - HEAD_BYTES));
        assert_eq!(fill.raw_bytes(edge), fill.raw_bytes(0));
    }

    #[test]
    fn the_ratio_keeps_what_a_unit_gathers_within_its_bounds() {
        let mut fill = Fill::cold(1, false, 1 << 20);
        learn(&mut fill, 100_000, 1000, 9);
        assert_eq!(fill.raw_bytes(0), RAW_BYTES_MAX);
        learn(&mut fill, 1000, 1000, 1);
        assert_eq!(fill.raw_bytes(0), RAW_BYTES_MAX, "one row says nothing");
        learn(&mut fill, 1000, 1000, 2);
        assert!(fill.raw_bytes(0) < PAGE_BYTES);
        let mut small = Fill::cold(4, false, 64 << 10);
        learn(&mut small, 99_000, 1000, 9);
        assert_eq!(small.raw_bytes(0), 16 << 10, "a fourth of a segment");
    }

    #[test]
    fn units_of_several_pages_of_one_row_and_of_the_hot_area() {
        let of = |pages| Fill::cold(pages, false, 1 << 20).raw_bytes(2000);
        assert!((2..=4).all(|pages| of(pages).abs_diff(of(pages - 1) + 2 * PAGE_BYTES) < 200));
        assert_eq!(Fill::cold(1, true, 1 << 20).raw_bytes(0), 1);
        let mut hot = Fill::hot();
        learn(&mut hot, 3000, 1000, 9);
        assert_eq!(hot.raw_bytes(0), PAGE_BYTES - HEAD_BYTES);
        assert_eq!(hot.raw_bytes(2048), 2048 - HEAD_BYTES);
    }

    #[test]
    fn a_unit_skips_to_the_next_page_if_that_saves_one_and_little_is_lost() {
        for fill in [Fill::cold(1, false, 1 << 20), Fill::hot()] {
            let edge = PAGE_BYTES - fill.skip_bytes_max();
            assert_eq!(fill.start(edge, PAGE_BYTES), PAGE_BYTES);
            assert_eq!(fill.start(edge - 64, PAGE_BYTES), edge - 64, "too much is lost");
            assert_eq!(fill.start(edge, fill.skip_bytes_max()), edge, "it fits");
            assert_eq!(fill.start(edge, fill.skip_bytes_max() + 1), PAGE_BYTES);
            // One page more than it needs, or not.
            assert_eq!(fill.start(edge, 3 * PAGE_BYTES), PAGE_BYTES);
            let two = PAGE_BYTES + fill.skip_bytes_max();
            assert_eq!(fill.start(edge, two), edge);
            assert_eq!(fill.start(0, 5 * PAGE_BYTES), 0);
        }
    }
}
