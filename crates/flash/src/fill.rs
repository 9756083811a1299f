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
//! unit aims at the end of the page that the last one left off in: its rows gather until, by the
//! ratio of the units before, they are about to reach it when they are stored. What is then left of
//! the page is skipped if it is little; and so is what the unit turns out to be too long for. The
//! hot area knows the bytes of its units beforehand, and trades bytes for pages likewise.

use ::io::device::PAGE_BYTES;

use crate::area::Area;
use crate::unit::{HEAD_BYTES, Head};

/// What is left of a page is skipped if it is no more than this and a unit is too long for it.
const SKIP_BYTES_MAX: [usize; 2] = [768, 1024];
/// A unit aims at this share of the room: how much a unit compresses varies from one to the next.
const AIM: f64 = 0.98;
/// The most raw bytes: what a reader decodes to find one item. Zstd gains little beyond.
const RAW_BYTES_MAX: usize = 64 << 10;
/// A unit moves the average ratio by one part of so many.
const RATIO_SHARE: f64 = 16.0;
/// Half of what is stored, until something is known.
const RATIO_START: f64 = 2.0;

/// How the units of one area follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    area: Area,
    /// A unit aims at so many pages.
    pages: usize,
    /// Each row is a unit.
    is_single: bool,
    /// Raw bytes for a stored one.
    ratio: f64,
    raw_bytes_max: usize,
}

impl Fill {
    /// Of the cold area: units of so many pages, or of a single row each.
    pub(crate) fn cold(pages: usize, is_single: bool, segment_bytes: usize) -> Self {
        // Never more than a fourth of a segment.
        let raw_bytes_max = RAW_BYTES_MAX.min(segment_bytes / 4);
        Self { area: Area::Cold, pages, is_single, ratio: RATIO_START, raw_bytes_max }
    }

    /// Of the hot area: units of one page.
    pub(crate) fn hot() -> Self {
        let raw_bytes_max = PAGE_BYTES - HEAD_BYTES;
        Self { area: Area::Hot, pages: 1, is_single: false, ratio: 1.0, raw_bytes_max }
    }

    /// Raw bytes for a stored one, lately.
    pub(crate) fn ratio(&self) -> f64 {
        self.ratio
    }

    /// How many bytes of rows a unit gathers that follows what ends here.
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

    /// Where a unit of so many bytes begins that follows what ends here.
    pub(crate) fn start(&self, end: usize, unit_bytes: usize) -> usize {
        let left = left_of_page(end);
        let pages = (PAGE_BYTES - left + unit_bytes).div_ceil(PAGE_BYTES);
        let is_longer = pages > unit_bytes.div_ceil(PAGE_BYTES);
        if is_longer && left <= self.skip_bytes_max() { end + left } else { end }
    }

    /// Learns from a unit of several rows that was compressed.
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

/// From a whole page down to a granule.
fn left_of_page(end: usize) -> usize {
    PAGE_BYTES - end % PAGE_BYTES
}
