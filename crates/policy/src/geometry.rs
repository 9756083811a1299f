//! What the last-level cache of a processor looks like, as far as placing data by it needs to know.
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
    /// So many slices, of so many sets each; nothing if there is no such cache.
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

    /// All that the cache holds.
    pub fn bytes(&self) -> usize {
        self.slices * self.sets * self.ways * self.line_bytes
    }

    /// As many bytes one behind the other meet every set of a slice once.
    pub fn span_bytes(&self) -> usize {
        self.sets * self.line_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::CacheGeometry;

    #[test]
    fn the_papers_processor_has_a_span_of_128_kib() {
        let cache = CacheGeometry::new(64, 20, 2048, 6).expect("it is a cache");
        assert_eq!((cache.bytes(), cache.span_bytes()), (15 << 20, 128 << 10));
    }

    #[test]
    fn what_is_no_cache_is_refused() {
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
