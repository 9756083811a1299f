//! The geometry of a processor's last-level cache, as far as placing data by it needs.
//!
//! ```text
//!   address   ...hhhhhhhhhhhhhhhhhhhhhh ssssssssssss llllll
//!             other bits: tag, slice    set          byte of the line
//! ```
//!
//! A line lies in one of the ways of its set. Processors have slices, one for each core or two, and
//! choose among them by a hash of all bits; within a slice the set follows from the bits above the
//! line's. So addresses that lie [`CacheGeometry::span_bytes`] apart compete for the same set of
//! some slice, and as many bytes one behind the other meet every set once.
//!
//! The system tells the sets of all slices together, and not how many slices there are. The
//! assumption is [as few slices as leave a power of two of sets in
//! each](CacheGeometry::of_all_sets): where the slices are a power of two themselves they count as
//! one, and the span is longer than need be, which still meets every set equally often. A caller
//! that knows better says so.

use std::fmt;
use std::str::FromStr;

/// A cache: slices of sets of ways of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheGeometry {
    line_bytes: usize,
    ways: usize,
    sets: usize,
    slices: usize,
}

/// No cache has more ways than this.
const WAYS_MAX: usize = 64;
/// Nor more sets: 16 GiB of lines of 64 bytes with 16 ways.
const SETS_MAX: usize = 1 << 24;

impl CacheGeometry {
    /// A cache with `slices` slices of `sets` sets each; `None` if there is no such cache.
    pub fn new(
        line_bytes: usize,
        ways: usize,
        sets: usize,
        slices: usize,
    ) -> Option<CacheGeometry> {
        let is_line = line_bytes.is_power_of_two() && (16..=4096).contains(&line_bytes);
        let all_sets = sets.saturating_mul(slices);
        let is_size = sets.is_power_of_two() && (1..=SETS_MAX).contains(&all_sets);
        let is_cache = is_line && is_size && (1..=WAYS_MAX).contains(&ways);
        is_cache.then_some(CacheGeometry { line_bytes, ways, sets, slices })
    }

    /// The cache with `all_sets` sets in all slices together, which are as few as leave a power of
    /// two of sets in each; `None` if there is no such cache.
    pub fn of_all_sets(line_bytes: usize, ways: usize, all_sets: usize) -> Option<CacheGeometry> {
        let sets = 1_usize.checked_shl(all_sets.trailing_zeros())?;
        CacheGeometry::new(line_bytes, ways, sets, all_sets / sets)
    }

    /// Bytes of a line.
    pub fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Lines of a set.
    pub fn ways(&self) -> usize {
        self.ways
    }

    /// Sets of a slice.
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// Slices.
    pub fn slices(&self) -> usize {
        self.slices
    }

    /// Bytes of the whole cache.
    pub fn bytes(&self) -> usize {
        self.slices * self.sets * self.ways * self.line_bytes
    }

    /// The bytes that, one behind the other, meet every set of a slice once.
    pub fn span_bytes(&self) -> usize {
        self.sets * self.line_bytes
    }
}

/// The geometry where nothing is known: a slice of 2 MiB, as many processors have, with a span of
/// 128 KiB.
impl Default for CacheGeometry {
    fn default() -> Self {
        Self { line_bytes: 64, ways: 16, sets: 2048, slices: 1 }
    }
}

/// The format read by [`FromStr`].
impl fmt::Display for CacheGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}x{}", self.slices, self.sets, self.ways, self.line_bytes)
    }
}

/// The error of text that is no cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCache;

impl fmt::Display for NoCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not [SLICESx]SETSxWAYSxLINE, as in 6x2048x20x64: sets of a slice, a power of two; 1 \
             to {WAYS_MAX} ways; bytes of a line, a power of two from 16 to 4096"
        )
    }
}

impl std::error::Error for NoCache {}

/// `SETSxWAYSxLINE`, or with the slices before that.
impl FromStr for CacheGeometry {
    type Err = NoCache;

    fn from_str(text: &str) -> Result<Self, NoCache> {
        let numbers: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        let cache = match numbers.as_deref() {
            Ok(&[slices, sets, ways, line]) => Self::new(line, ways, sets, slices),
            Ok(&[sets, ways, line]) => Self::new(line, ways, sets, 1),
            _ => None,
        };
        cache.ok_or(NoCache)
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheGeometry, NoCache};

    #[test]
    fn text_is_a_cache_or_refused() {
        let paper = CacheGeometry::new(64, 20, 2048, 6).expect("it is a cache");
        assert_eq!("6x2048x20x64".parse(), Ok(paper));
        assert_eq!(paper.to_string().parse(), Ok(paper));
        let plain: CacheGeometry = "8192x16x64".parse().expect("it is a cache");
        assert_eq!((plain.slices(), plain.sets(), plain.ways()), (1, 8192, 16));
        for text in [
            "",
            "x",
            "2048",
            "2048x20",
            "1x6x2048x20x64",
            "2048x20x63",
            "2000x20x64",
            "2048x0x64",
            "2048x65x64",
            "-1x20x64",
            "2048x20x64 ",
            "2048X20X64",
            "99999999999999999999x1x64",
            "33554432x16x64",
        ] {
            assert_eq!(text.parse::<CacheGeometry>(), Err(NoCache), "{text}");
        }
    }

    #[test]
    fn sets_of_all_slices_are_shared_out_among_as_few_as_can_be() {
        for (all_sets, slices, sets) in
            [(12_288, 3, 4096), (16_384, 1, 16_384), (57_344, 7, 8192), (1, 1, 1)]
        {
            let cache = CacheGeometry::of_all_sets(64, 16, all_sets).expect("it is a cache");
            assert_eq!((cache.slices(), cache.sets()), (slices, sets));
            assert_eq!(cache.bytes(), all_sets * 16 * 64);
        }
        assert_eq!(CacheGeometry::of_all_sets(64, 16, 0), None);
        assert_eq!(CacheGeometry::of_all_sets(64, 0, 4096), None);
        assert_eq!(CacheGeometry::of_all_sets(0, 16, 4096), None);
    }

    #[test]
    fn the_papers_processor_has_a_span_of_128_kib() {
        let cache = CacheGeometry::new(64, 20, 2048, 6).expect("it is a cache");
        assert_eq!((cache.bytes(), cache.span_bytes()), (15 << 20, 128 << 10));
    }

    #[test]
    fn invalid_geometries_are_refused() {
        for (line, ways, sets, slices) in [
            (48, 20, 2048, 6),
            (64, 0, 2048, 6),
            (64, 1024, 1, 1),
            (64, 20, 2000, 6),
            (64, 20, 0, 6),
            (64, 20, 2048, 0),
            (64, 20, 2048, usize::MAX),
        ] {
            assert_eq!(CacheGeometry::new(line, ways, sets, slices), None);
        }
    }
}
