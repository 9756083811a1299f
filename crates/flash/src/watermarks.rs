//! How many segments are kept free: the limits between which collection works.
//!
//! ```text
//!   free   0 ..... pressed ............. low .................. high
//!   free   0 ..... pressed ............. low .................. high
//!          | evict a cold one whole       | recycle one, until `high` are free

/// With fewer free segments nothing is staged again: this always leaves enough to stage something.
pub(crate) const FREE_PRESSED: usize = 2;

/// Collection begins when fewer segments are free.
const FREE_LOW: usize = 8;
/// Collection goes on until this many segments are free.
const FREE_HIGH: usize = 16;
/// With few segments, a smaller share is kept free.
const FREE_LOW_MIN: usize = 3;
const FREE_SHARE: usize = 8;

const _: () = assert!(FREE_PRESSED < FREE_LOW_MIN && FREE_LOW < FREE_HIGH);

/// The limits at which collection begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Collection begins when fewer segments are free: 3 or more.
    pub low: usize,
    /// It goes on until this many are: more than `low`, and at most half of all segments.
    pub high: usize,
}

impl Watermarks {
    /// The default watermarks for `segments` segments.
    pub fn of(segments: u32) -> Self {
        let low = (segments as usize / FREE_SHARE).clamp(FREE_LOW_MIN, FREE_LOW);
        let high = (2 * low).min(FREE_HIGH).min(segments as usize / 2).max(low + 1);
        Self { low, high }
    }

    /// Whether a tier of `segments` segments can work with these.
    pub fn fits(self, segments: u32) -> bool {
        FREE_PRESSED < self.low && self.low < self.high && self.high <= segments as usize / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_shrink_with_the_number_of_segments() {
        let of = |segments| {
            let Watermarks { low, high } = Watermarks::of(segments);
            (low, high)
        };
        assert_eq!(of(8), (3, 4));
        assert_eq!(of(32), (4, 8));
        assert_eq!(of(63), (7, 14));
        assert_eq!(of(64), (8, 16));
        assert_eq!(of(1 << 20), (8, 16));
        assert!((8..100).map(of).all(|(low, high)| FREE_PRESSED < low && low < high));
        assert!((8..100).all(|segments| Watermarks::of(segments).fits(segments)));
    }

    #[test]
    fn watermarks_of_the_callers_choice_leave_room_on_both_sides() {
        let fit = |low, high| Watermarks { low, high }.fits(32);
        assert!(fit(3, 4) && fit(3, 16) && fit(15, 16));
        assert!(!fit(2, 4) && !fit(4, 4) && !fit(3, 17));
    }
}
