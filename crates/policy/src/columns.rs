//! The choice of items of a slab that change places, so that hot ones lie beside hot ones: the
//! re-partitioning of Cavast (Wang, Liu and Chen, "Put an Elephant into a Fridge", PVLDB 13(9),
//! 2020).
//!
//! A slab is cut into columns, each as long as the cache's span, so that a column meets every set
//! of the cache equally often. The first columns are for hot items, the others for cold ones
//! ([`colours`](crate::colours) says what a column is in slabs of small pages):
//!
//! ```text
//!   slab of 2 MiB   | 0 | 1 | 2 | 3 | ...                            | 15 |
//!                    hot  cold: whatever is hot here changes places
//!                     ^----'    with what is coldest in the hot columns
//! ```
//!
//! Each chunk has a *temperature* of four bits: an access makes it warmer by one up to 15, and a
//! pass over the slab halves it. A pass comes at most once in [`PASS_ACCESSES`] accesses to the
//! slab. It pairs the hottest item of the cold columns with the coldest chunk of the hot ones, the
//! second hottest with the second coldest, and so on, as long as the two differ by
//! [`Limits::margin`] or more and no more than [`Limits::swaps_max`] pairs are found. A free chunk
//! counts as the coldest.
//!
//! *Of equally cold chunks the first one from a random start on is swapped first.* Slabs lie at
//! multiples of the cache's span, so that equal offsets in all of them meet the same sets. With a
//! fixed order the hottest item of every slab goes to its first chunk, these few sets have all of
//! them, and there are more misses than if nothing had moved. So
//!
//! * no pair lies within one zone;
//! * with temperatures that do not change, a pass that was not cut short leaves nothing for the
//!   next one, and cut short, passes come to an end;
//! * where all temperatures are equal nothing moves.
//!
//! Cost: half a byte for each chunk, and for each swap the bytes of two chunks.
//!
//! *Where the span is a slab or more*, a column meets a part of the sets. If the first column of
//! every slab were the hot one, all hot items would compete for a sixteenth of the cache. So slabs
//! take turns: the hot column of each is the one behind that of the slab before.
//!
//! What differs from the paper, of which only the abstract and second-hand notes were at hand: the
//! margin, so that items of nearly the same temperature do not change places for nothing, and free
//! chunks as partners. The benefit of columns is measured by `larder-bench paper cavast`;
//! `docs/papers.md` has the results.

use crate::geometry::CacheGeometry;
use crate::pages::{PAGE_BYTES, PageSet, SLAB_PAGES_MAX};
use crate::temperatures::{TEMPERATURE_MAX, TemperatureWord};

/// Columns of a slab, at most: under a cache with a short span, columns are several spans long.
pub const COLUMNS_MAX: usize = 16;
/// Accesses to a slab from one pass to the next.
pub const PASS_ACCESSES: u32 = 1024;

/// The columns of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    column_bytes: usize,
    count: usize,
    hot: usize,
    /// Where the span is a slab or more: its number of slabs; then columns take turns.
    span_slabs: Option<usize>,
}

impl Columns {
    /// Columns for a slab under a cache, of which `hot` are for hot items. Where the cache's span
    /// is a slab or more, a column cannot meet every set, and a slab is cut into the most columns.
    pub fn new(slab_bytes: usize, geometry: &CacheGeometry, hot: usize) -> Columns {
        let span = geometry.span_bytes();
        let least = slab_bytes / COLUMNS_MAX;
        assert!(slab_bytes <= SLAB_PAGES_MAX * PAGE_BYTES && least.is_multiple_of(PAGE_BYTES));
        let column_bytes = if span >= slab_bytes { least } else { least.next_multiple_of(span) };
        let count = slab_bytes / column_bytes;
        assert!(0 < hot && hot < count, "some columns are hot and some are not");
        let span_slabs = (span >= slab_bytes).then(|| span / slab_bytes);
        Columns { column_bytes, count, hot, span_slabs }
    }

    /// Columns of a slab.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of a column.
    pub fn column_bytes(&self) -> usize {
        self.column_bytes
    }

    /// The pages of the hot columns of slab `slab`, where chunks begin in its first `reach_bytes`.
    /// A chunk is hot if it begins in one of them.
    pub fn hot_pages(&self, slab: u32, reach_bytes: usize) -> PageSet {
        let reached = reach_bytes.div_ceil(self.column_bytes).clamp(1, self.count);
        let turn = self.span_slabs.map_or(0, |slabs| slab as usize / slabs);
        let pages = self.column_bytes / PAGE_BYTES;
        let column = |at| (turn + at) % reached * pages;
        (0..self.hot).flat_map(|at| column(at)..column(at) + pages).collect()
    }
}

/// The temperatures of a slab's chunks in an array, for the model of Cavast in `bench`. The hot
/// zone has them behind the chunks of the slab, as atomics.
#[derive(Debug, Clone)]
pub struct Temperatures(Box<[TemperatureWord]>);

impl Temperatures {
    /// The temperatures of `chunks` chunks, all cold.
    pub fn new(chunks: usize) -> Temperatures {
        Temperatures(
            vec![TemperatureWord::default(); chunks.div_ceil(TemperatureWord::COUNT)].into(),
        )
    }

    /// The temperature of a chunk.
    #[inline]
    pub fn get(&self, chunk: usize) -> u8 {
        self.0[chunk / TemperatureWord::COUNT].get(chunk % TemperatureWord::COUNT)
    }

    /// Sets a chunk's temperature.
    #[inline]
    pub fn set(&mut self, chunk: usize, temperature: u8) {
        let word = &mut self.0[chunk / TemperatureWord::COUNT];
        *word = word.with(chunk % TemperatureWord::COUNT, temperature);
    }

    /// Makes a chunk warmer by one access; returns its new temperature.
    #[inline]
    pub fn heat(&mut self, chunk: usize) -> u8 {
        let (word, at) =
            (&mut self.0[chunk / TemperatureWord::COUNT], chunk % TemperatureWord::COUNT);
        *word = word.heated(at);
        word.get(at)
    }

    /// Halves all temperatures.
    pub fn age(&mut self) {
        self.0.iter_mut().for_each(|word| *word = word.aged());
    }

    /// Swaps the temperatures of two chunks that have changed places.
    pub fn swap(&mut self, one: usize, other: usize) {
        let (first, second) = (self.get(one), self.get(other));
        self.set(one, second);
        self.set(other, first);
    }
}

/// A pass's view of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Whether it is in a hot column.
    pub is_hot_zone: bool,
    /// Its item's temperature; `None` where there is no item, or an expired one.
    pub temperature: Option<u8>,
}

/// Two chunks that are to change places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// Hot, and in a cold column.
    pub warm: u32,
    /// Colder or free, and in a hot column.
    pub cold: u32,
}

/// The limits of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The least difference of temperatures in a pair; at least 1.
    pub margin: u8,
    /// The most swaps of one pass.
    pub swaps_max: usize,
}

/// A single access is no sign of anything: two are.
pub const LIMITS: Limits = Limits { margin: 2, swaps_max: 64 };

/// Chooses swaps; keeps its buffers between passes.
#[derive(Debug, Default)]
pub struct Chooser {
    /// Chunks of the cold columns that may go up, with their temperature.
    warm: Vec<(u8, u32)>,
    /// Chunks of the hot columns.
    cold: Vec<(u8, u32)>,
}

impl Chooser {
    /// The swaps of a pass over a slab, most worthwhile first. `start` is any number, at random.
    pub fn swaps(
        &mut self,
        chunks: impl IntoIterator<Item = Seen>,
        limits: Limits,
        start: u32,
    ) -> impl Iterator<Item = Swap> + '_ {
        assert!(limits.margin > 0, "a swap has to gain something");
        self.warm.clear();
        self.cold.clear();
        for (chunk, seen) in (0..).zip(chunks) {
            match (seen.is_hot_zone, seen.temperature) {
                (true, temperature) => self.cold.push((temperature.unwrap_or(0), chunk)),
                (false, Some(warmth)) if warmth >= limits.margin => self.warm.push((warmth, chunk)),
                (false, _) => {}
            }
        }
        self.warm.sort_unstable_by_key(|&(warmth, chunk)| (TEMPERATURE_MAX - warmth, chunk));
        let start = start as usize % self.cold.len().max(1);
        self.cold.rotate_left(start);
        self.cold.sort_by_key(|&(coldness, _)| coldness);
        let pairs = self.warm.iter().zip(&self.cold);
        pairs
            .take(limits.swaps_max)
            .take_while(move |(warm, cold)| warm.0 >= cold.0 + limits.margin)
            .map(|(warm, cold)| Swap { warm: warm.1, cold: cold.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::random::Xorshift;

    const CHUNKS: usize = 300;
    const HOT: usize = 20;

    fn seen(state: &[Option<u8>]) -> Vec<Seen> {
        let chunk = |(chunk, temperature): (usize, &Option<u8>)| Seen {
            is_hot_zone: chunk < HOT,
            temperature: *temperature,
        };
        state.iter().enumerate().map(chunk).collect()
    }

    /// A slab with items of any temperature, and some free chunks.
    fn slab(seed: u64) -> Vec<Option<u8>> {
        let mut random = Xorshift::seeded(seed);
        let chunk = |_| (!random.chance(0.1)).then(|| (random.draw() % 16) as u8);
        (0..CHUNKS).map(chunk).collect()
    }

    fn pass(state: &mut [Option<u8>], limits: Limits) -> usize {
        let swaps: Vec<Swap> = Chooser::default().swaps(seen(state), limits, 7).collect();
        swaps.iter().for_each(|swap| state.swap(swap.warm as usize, swap.cold as usize));
        swaps.len()
    }

    #[test]
    fn swaps_join_the_zones_and_gain_the_margin() {
        for seed in 0..200 {
            let state = slab(seed);
            let limits = Limits { margin: 1 + (seed % 4) as u8, swaps_max: 1 + seed as usize % 40 };
            let swaps: Vec<Swap> = Chooser::default().swaps(seen(&state), limits, 7).collect();
            assert!(swaps.len() <= limits.swaps_max);
            for swap in &swaps {
                let (warm, cold) = (swap.warm as usize, swap.cold as usize);
                assert!(warm >= HOT && cold < HOT, "seed {seed}: {swap:?} within a zone");
                let warmth = state[warm].expect("only items go up");
                assert!(warmth >= state[cold].unwrap_or(0) + limits.margin, "seed {seed}");
            }
            let mut chunks: Vec<u32> = swaps.iter().flat_map(|one| [one.warm, one.cold]).collect();
            chunks.sort_unstable();
            chunks.dedup();
            assert_eq!(chunks.len(), 2 * swaps.len(), "seed {seed}: a chunk moves once");
        }
    }

    #[test]
    fn passes_come_to_an_end_with_the_hottest_in_the_hot_columns() {
        for seed in 0..200 {
            let mut state = slab(seed);
            assert!(pass(&mut state, Limits { margin: 1, swaps_max: CHUNKS }) <= HOT);
            assert_eq!(pass(&mut state, Limits { margin: 1, swaps_max: CHUNKS }), 0, "seed {seed}");
            let coldest = state[..HOT].iter().map(|it| it.unwrap_or(0)).min();
            let hottest = state[HOT..].iter().map(|it| it.unwrap_or(0)).max();
            assert!(coldest >= hottest, "seed {seed}: {coldest:?} below {hottest:?}");
            let mut short = slab(seed);
            let passes =
                (0..).take_while(|_| pass(&mut short, Limits { margin: 1, swaps_max: 1 }) > 0);
            assert!(passes.count() <= HOT, "seed {seed}");
        }
    }

    #[test]
    fn of_equally_cold_chunks_the_start_is_swapped_first() {
        // Regression: the hottest items of all slabs went to their first chunks, whose sets were
        // overfull.
        let mut state = [Some(0); CHUNKS];
        (state[50], state[60]) = (Some(9), Some(8));
        let swaps: Vec<Swap> = Chooser::default().swaps(seen(&state), LIMITS, 19).collect();
        assert_eq!(swaps, [Swap { warm: 50, cold: 19 }, Swap { warm: 60, cold: 0 }]);
        let far: Vec<Swap> = Chooser::default().swaps(seen(&state), LIMITS, 45).collect();
        assert_eq!(far[0], Swap { warm: 50, cold: 5 });
    }

    #[test]
    fn equal_temperatures_move_nothing() {
        for temperature in 0..=TEMPERATURE_MAX {
            assert_eq!(
                pass(&mut [Some(temperature); CHUNKS], Limits { margin: 1, swaps_max: 9 }),
                0
            );
        }
        assert_eq!(pass(&mut [None; CHUNKS], LIMITS), 0);
    }

    #[test]
    fn temperatures_of_many_chunks_do_not_touch_each_other() {
        let (mut packed, mut naive) = (Temperatures::new(CHUNKS), [0u8; CHUNKS]);
        let mut random = Xorshift::seeded(5);
        for _ in 0..20_000 {
            let [one, other] = [0; 2].map(|_| random.draw() as usize % CHUNKS);
            match random.draw() % 100 {
                0 => {
                    packed.age();
                    naive.iter_mut().for_each(|it| *it /= 2);
                }
                1..10 => {
                    packed.swap(one, other);
                    naive.swap(one, other);
                }
                _ => {
                    naive[one] = (naive[one] + 1).min(15);
                    assert_eq!(packed.heat(one), naive[one]);
                }
            }
            assert!(packed.get(one) == naive[one] && packed.get(other) == naive[other]);
        }
    }

    #[test]
    fn columns_meet_every_set_equally_often() {
        let slab = 2 << 20;
        let columns = |line, ways, sets, slices| {
            let geometry = CacheGeometry::new(line, ways, sets, slices).expect("it is a cache");
            Columns::new(slab, &geometry, 1)
        };
        let paper = columns(64, 20, 2048, 6);
        assert_eq!((paper.count(), paper.column_bytes()), (16, 128 << 10));
        // A longer span makes fewer columns, a shorter one columns of several spans.
        assert_eq!(columns(64, 16, 8192, 1).count(), 4);
        assert_eq!(columns(64, 16, 512, 1).count(), 16);
        // A span of a slab leaves columns that are merely neighbourhoods.
        assert_eq!(columns(64, 16, 32768, 1).count(), 16);
        for slab in 0..40 {
            assert!(paper.hot_pages(slab, 2 << 20).iter().eq(0..32));
            assert!(columns(64, 16, 8192, 1).hot_pages(slab, 2 << 20).iter().eq(0..128));
        }
    }

    #[test]
    fn hot_columns_of_slabs_within_a_span_meet_every_set_together() {
        // Regression: the first column of every slab was hot, and all hot items met a sixteenth of
        // the sets.
        for (slab_bytes, sets) in
            [(2 << 20, 32_768), (2 << 20, 131_072), (256 << 10, 32_768), (128 << 10, 2048)]
        {
            let geometry = CacheGeometry::new(64, 16, sets, 1).expect("it is a cache");
            let columns = Columns::new(slab_bytes, &geometry, 1);
            let span_pages = geometry.span_bytes() / PAGE_BYTES;
            let slab_pages = slab_bytes / PAGE_BYTES;
            let mut met = vec![0; span_pages];
            // As many slabs, one behind the other, as take each column once.
            for slab in 0..span_pages / slab_pages * columns.count() {
                for page in columns.hot_pages(slab as u32, slab_bytes).iter() {
                    met[(slab * slab_pages + page) % span_pages] += 1;
                }
            }
            assert!(met.iter().all(|&met| met == 1), "{slab_bytes}, {sets}");
        }
    }

    #[test]
    fn turns_are_taken_among_the_columns_in_which_chunks_begin() {
        let geometry = CacheGeometry::new(64, 16, 32_768, 1).expect("it is a cache");
        let columns = Columns::new(2 << 20, &geometry, 1);
        for (reach_bytes, reached) in [(1, 1), (128 << 10, 1), (129 << 10, 2), (2 << 20, 16)] {
            for slab in 0..40_u32 {
                let first = slab as usize % reached * 32;
                assert!(columns.hot_pages(slab, reach_bytes).iter().eq(first..first + 32));
            }
        }
    }
}
