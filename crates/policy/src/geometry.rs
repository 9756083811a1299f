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
//!
//! Linux says how many sets there are in all slices together, and not how many slices. What is
//! assumed is as few as leave a power of two of sets in each: the true span then divides the span
//! that is assumed, and whatever has the latter still meets every set equally often.
//!
//! Nothing here reads a file: whoever may do so hands the texts in.

/// A cache: slices of sets of ways of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheGeometry {
    line_bytes: usize,
    ways: usize,
    sets: usize,
    slices: usize,
}

/// What `/sys/devices/system/cpu/cpu0/cache/index3` says, file by file.
#[derive(Debug, Clone, Copy)]
pub struct CacheFiles<'t> {
    /// `coherency_line_size`, in bytes.
    pub line_bytes: &'t str,
    /// `ways_of_associativity`.
    pub ways: &'t str,
    /// `number_of_sets`, of all slices.
    pub sets: &'t str,
}

/// Why something is no geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeometryError {
    /// There is a word that is not the number it should be.
    NoNumber,
    /// Lines, ways or sets are none, too many, or lines are no power of two.
    OutOfRange,
}

/// No cache has more ways than this.
const WAYS_MAX: usize = 64;
/// Nor more sets: 16 GiB of lines of 64 bytes with 16 ways.
const SETS_MAX: usize = 1 << 24;

impl CacheGeometry {
    /// So many slices, of so many sets each.
    pub fn new(
        line_bytes: usize,
        ways: usize,
        sets: usize,
        slices: usize,
    ) -> Result<CacheGeometry, GeometryError> {
        let is_line = line_bytes.is_power_of_two() && (16..=4096).contains(&line_bytes);
        let all_sets = sets.saturating_mul(slices);
        let is_size = sets.is_power_of_two() && (1..=SETS_MAX).contains(&all_sets);
        if is_line && is_size && (1..=WAYS_MAX).contains(&ways) {
            Ok(CacheGeometry { line_bytes, ways, sets, slices })
        } else {
            Err(GeometryError::OutOfRange)
        }
    }

    /// With so many sets in all slices together.
    pub fn of_sets(
        line_bytes: usize,
        ways: usize,
        all_sets: usize,
    ) -> Result<CacheGeometry, GeometryError> {
        if all_sets == 0 {
            return Err(GeometryError::OutOfRange);
        }
        let sets = 1 << all_sets.trailing_zeros();
        CacheGeometry::new(line_bytes, ways, sets, all_sets / sets)
    }

    /// From what Linux says.
    pub fn parse(files: &CacheFiles<'_>) -> Result<CacheGeometry, GeometryError> {
        let [line_bytes, ways, sets] = [files.line_bytes, files.ways, files.sets].map(number);
        CacheGeometry::of_sets(line_bytes?, ways?, sets?)
    }

    /// From the text by which somebody overrides it: `BYTES:WAYS:LINE`, as in `15728640:20:64`.
    pub fn parse_override(text: &str) -> Result<CacheGeometry, GeometryError> {
        let mut words = text.split(':').map(number);
        let mut next = || words.next().unwrap_or(Err(GeometryError::NoNumber));
        let (bytes, ways, line_bytes) = (next()?, next()?, next()?);
        let set_bytes = ways.checked_mul(line_bytes).unwrap_or(0);
        if set_bytes == 0 || !bytes.is_multiple_of(set_bytes) {
            return Err(GeometryError::OutOfRange);
        }
        match words.next() {
            None => CacheGeometry::of_sets(line_bytes, ways, bytes / set_bytes),
            Some(_) => Err(GeometryError::NoNumber),
        }
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

fn number(text: &str) -> Result<usize, GeometryError> {
    text.trim().parse().map_err(|_| GeometryError::NoNumber)
}

#[cfg(test)]
mod tests {
    use super::{CacheFiles, CacheGeometry, GeometryError};

    #[test]
    fn the_papers_processor_has_six_slices_or_a_multiple_of_their_span() {
        let assumed = CacheGeometry::parse_override("15728640:20:64").expect("it is a cache");
        let real = CacheGeometry::new(64, 20, 2048, 6).expect("it is a cache");
        assert_eq!(assumed.bytes(), real.bytes());
        assert_eq!((real.span_bytes(), assumed.span_bytes()), (128 << 10, 256 << 10));
    }

    #[test]
    fn what_linux_says_is_understood() {
        let files = CacheFiles { line_bytes: "64\n", ways: "16\n", sets: "32768\n" };
        let geometry = CacheGeometry::parse(&files).expect("it is a cache");
        assert_eq!((geometry.bytes(), geometry.slices()), (32 << 20, 1));
        let odd = CacheFiles { sets: "12288", ways: "20", ..files };
        let odd = CacheGeometry::parse(&odd).expect("it is a cache");
        assert_eq!((odd.sets(), odd.slices(), odd.bytes()), (4096, 3, 15 << 20));
    }

    #[test]
    fn what_is_no_cache_is_refused() {
        let files = CacheFiles { line_bytes: "64", ways: "16", sets: "many" };
        assert_eq!(CacheGeometry::parse(&files), Err(GeometryError::NoNumber));
        for text in ["", "15728640", "15728640:20", "15728640:20:64:1", "x:20:64"] {
            assert_eq!(CacheGeometry::parse_override(text), Err(GeometryError::NoNumber), "{text}");
        }
        for text in ["0:20:64", "100:20:64", "15728640:0:64", "1920:20:48", "65536:1024:64"] {
            let found = CacheGeometry::parse_override(text);
            assert_eq!(found, Err(GeometryError::OutOfRange), "{text}");
        }
    }
}
