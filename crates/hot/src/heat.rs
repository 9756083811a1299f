//! Temperatures of the chunks, for [`repartition`](crate::repartition): four bits each, behind the
//! chunks of their slab.
//!
//! ```text
//!   slab   | chunk 0 | chunk 1 | ... | chunk n-1 |   | 0..15 | 16..31 | ... |      |
//!          0                                     rest  ^ slab_bytes - 8 * ceil(n / 16)
//!                                                        words of sixteen temperatures
//! ```
//!
//! A sampled hit makes its chunk warmer, and only the passes of the background make it colder. The
//! size classes leave room for the words (`memory::class`), so they are part of the memory limit;
//! where nothing moves there are none. A store does not touch them: an item inherits the
//! temperature of its chunk's previous item, until passes have halved it away.
//!
//! A word is read and written as an atomic by a holder of a chunk of the slab or of the lock of its
//! class. It is read and then written, not exchanged: an atomic exchange would wait for all
//! outstanding memory requests of the thread. A hit that another one overwrites is not counted;
//! only one in many is counted anyway.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use io::frames::FrameSource;
use memory::{Arena, Place, SlabId};
use policy::columns::{LIMITS, Limits, PASS_ACCESSES};
use policy::geometry::CacheGeometry;
use policy::temperatures::TemperatureWord;

use crate::hot_pages::HotPages;
use crate::slab::Slab;

/// Bits that a slab has to keep beside each chunk.
pub const HEAT_BITS: usize = 4;
/// A chunk takes at most this part of a column: larger ones have no neighbours there, and stay
/// where they are.
const CHUNK_SHARE: usize = 4;

/// How items move to their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repartition {
    /// The cache whose geometry determines the columns of a slab.
    pub geometry: CacheGeometry,
    /// About one hit in this many makes its item warmer. Such a hit takes three cache lines of its
    /// own: with 64, a twentieth of a line for each hit.
    pub sampling: u32,
    /// A slab gets a pass after this many of these hits, at least,
    pub pass_hits: u32,
    /// and at least one hit for this many of its chunks; 0 asks for none.
    pub pass_chunks: u32,
    /// How lazy a pass is. Where all items are read equally often, chance gives one in 1.6 million
    /// chunks four hits while a slab gets one for 16 chunks; two it gives to one in 500.
    pub limits: Limits,
}

impl Repartition {
    /// The usual one for a cache.
    pub const fn new(geometry: CacheGeometry) -> Self {
        let sampling = 64;
        Self {
            geometry,
            sampling,
            pass_hits: PASS_ACCESSES / sampling,
            pass_chunks: 16,
            limits: Limits { margin: 4, ..LIMITS },
        }
    }
}

/// The results of re-partitioning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepartitionCounts {
    /// Passes over a slab.
    pub passes: u64,
    /// Hot items that took the place of cold ones.
    pub swaps: u64,
    /// Bytes of keys, values and headers that were copied.
    pub moved_bytes: u64,
    /// Expired or flushed items that were removed on the way.
    pub expired: u64,
    /// Swaps that were given up: an item had changed, or was in pieces, or there was no item, or no
    /// chunk to spare, or a reader stayed too long.
    pub given_up: u64,
}

/// The results as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) passes: AtomicU64,
    pub(crate) swaps: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) given_up: AtomicU64,
}

/// Columns, temperatures, and how often slabs were hit.
#[derive(Debug)]
pub(crate) struct Heat {
    pub(crate) settings: Repartition,
    pub(crate) hot_pages: HotPages,
    /// By slab: sampled hits since its last pass.
    hits: Box<[AtomicU32]>,
    pub(crate) counters: Counters,
}

impl Counters {
    fn all(&self) -> [&AtomicU64; 5] {
        [&self.passes, &self.swaps, &self.moved_bytes, &self.expired, &self.given_up]
    }

    fn counts(&self) -> RepartitionCounts {
        let [passes, swaps, moved_bytes, expired, given_up] =
            self.all().map(|counter| counter.load(Relaxed));
        RepartitionCounts { passes, swaps, moved_bytes, expired, given_up }
    }
}

impl Heat {
    pub(crate) fn new(settings: Repartition, frames: Arc<dyn FrameSource>, arena: &Arena) -> Self {
        assert!(settings.sampling > 0 && settings.limits.margin > 0);
        Self {
            settings,
            hot_pages: HotPages::new(arena.slab_bytes(), &settings.geometry, frames),
            hits: (0..arena.reserved_slabs()).map(|_| AtomicU32::new(0)).collect(),
            counters: Counters::default(),
        }
    }

    /// Makes everything cold in a slab that has come to a class.
    pub(crate) fn adopt(&self, arena: &Arena, id: SlabId, chunks: u32) {
        (0..words(chunks)).for_each(|at| word(arena, id, chunks, at).store(0, Relaxed));
    }

    /// Forgets a slab that leaves its class: no pass is due, and its chunks will begin elsewhere.
    pub(crate) fn disown(&self, id: SlabId) {
        self.hits[id.0 as usize].store(0, Relaxed);
        self.hot_pages.forget(id);
    }

    /// Whether a slab was hit often enough for a pass.
    pub(crate) fn is_due(&self, id: SlabId, slab: &Slab) -> bool {
        let hits = self.hits[id.0 as usize].load(Relaxed);
        let Repartition { pass_hits, pass_chunks, .. } = self.settings;
        let share = || slab.chunks().checked_div(pass_chunks).unwrap_or(0);
        let is_small = CHUNK_SHARE * slab.format().bytes <= self.hot_pages.column_bytes();
        hits >= pass_hits.max(1) && hits >= share() && is_small
    }

    /// Notes that a pass over the slab begins. Under the lock of its class.
    pub(crate) fn begin_pass(&self, id: SlabId) {
        self.hits[id.0 as usize].store(0, Relaxed);
        self.counters.passes.fetch_add(1, Relaxed);
    }

    /// Appends the temperatures of some words of a slab, and halves them. Under the lock of its
    /// class.
    pub(crate) fn take(
        &self,
        arena: &Arena,
        id: SlabId,
        chunks: u32,
        at: std::ops::Range<usize>,
        taken: &mut Vec<TemperatureWord>,
    ) {
        taken.extend(at.map(|at| {
            let word = word(arena, id, chunks, at);
            let found = TemperatureWord(word.load(Relaxed));
            if found != TemperatureWord::default() {
                word.store(found.aged().0, Relaxed);
            }
            found
        }));
    }

    /// Notes that the chunk at a place was hit. The caller holds it.
    pub(crate) fn hit(&self, arena: &Arena, slab: &Slab, place: Place) {
        let (id, number) = (arena.locate(place).0, slab.number(arena, place));
        change(arena, id, slab.chunks(), number, TemperatureWord::heated);
        let hits = &self.hits[id.0 as usize];
        hits.store(hits.load(Relaxed).saturating_add(1), Relaxed);
    }

    /// Moves the temperature of an item that moved from one chunk to another of its class; the old
    /// chunk is cold. The caller holds both.
    pub(crate) fn carry(&self, arena: &Arena, slabs: &[Slab], from: Place, to: Place) {
        let chunk = |place| {
            let id = arena.locate(place).0;
            let slab = &slabs[id.0 as usize];
            (id, slab.chunks(), slab.number(arena, place))
        };
        let (id, chunks, number) = chunk(from);
        let mut temperature = 0;
        change(arena, id, chunks, number, |word, at| {
            temperature = word.get(at);
            word.with(at, 0)
        });
        let (id, chunks, number) = chunk(to);
        change(arena, id, chunks, number, |word, at| word.with(at, temperature));
    }

    pub(crate) fn counts(&self) -> RepartitionCounts {
        self.counters.counts()
    }

    pub(crate) fn reset_counters(&self) {
        self.counters.all().iter().for_each(|counter| counter.store(0, Relaxed));
    }
}

/// The words of a slab with this many chunks.
pub(crate) fn words(chunks: u32) -> usize {
    (chunks as usize).div_ceil(TemperatureWord::COUNT)
}

/// Changes the word of a chunk. Another thread's change at the same time may be lost.
fn change(
    arena: &Arena,
    id: SlabId,
    chunks: u32,
    number: u32,
    to: impl FnOnce(TemperatureWord, usize) -> TemperatureWord,
) {
    let (at, in_word) =
        (number as usize / TemperatureWord::COUNT, number as usize % TemperatureWord::COUNT);
    let word = word(arena, id, chunks, at);
    let before = word.load(Relaxed);
    let after = to(TemperatureWord(before), in_word).0;
    if after != before {
        word.store(after, Relaxed);
    }
}

/// A word of a slab with `chunks` chunks; the caller holds one of these, or the lock of their
/// class.
fn word(arena: &Arena, id: SlabId, chunks: u32, at: usize) -> &AtomicU64 {
    assert!(at < words(chunks));
    let before_end = (words(chunks) - at) * size_of::<AtomicU64>();
    // SAFETY: the word lies at the end of a slab, which is aligned to its size, behind the chunks:
    // the size classes leave `HEAT_BITS` for each (asserted in `Hot::with_repartition`), and slab
    // and chunks are multiples of 8 bytes, so that what is left is one, too. Nothing but these
    // atomics accesses it while the slab belongs to a class, which the caller keeps it in.
    unsafe {
        let start = arena.slab_start(id).add(arena.slab_bytes() - before_end);
        AtomicU64::from_ptr(start.cast().as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TEST_ARENA_BYTES;
    use crate::chunk::{ChunkFormat, ChunkLayout};
    use io::frames::Pagemap;
    use memory::class::CHUNK_BYTES_MIN;
    use memory::{ClassId, SizeClasses};

    fn heat_of(settings: Repartition, arena: &Arena) -> Heat {
        Heat::new(settings, Arc::<Pagemap>::default(), arena)
    }

    #[test]
    fn words_lie_behind_the_chunks_of_every_class_without_overlap() {
        // Miri would lay out all of it.
        let limits: &[usize] = if cfg!(miri) { &[1 << 20] } else { &[1 << 20, 1 << 30] };
        for &limit_bytes in limits {
            let arena = Arena::new(0, limit_bytes, 2).expect("a small arena");
            let slab_bytes = arena.slab_bytes();
            let sizes = SizeClasses::new(CHUNK_BYTES_MIN, 1.08, slab_bytes, 1 << 20, HEAT_BITS);
            let heat = heat_of(Repartition::new(CacheGeometry::default()), &arena);
            for class in sizes.iter() {
                let (bytes, chunks) = (sizes.chunk_bytes(class), sizes.chunks_per_slab(class));
                assert!(chunks * bytes + 8 * words(chunks as u32) <= slab_bytes, "{bytes}");
                let slab = Slab::new();
                let id = SlabId(1);
                slab.adopt(class, ChunkFormat::new(bytes, ChunkLayout::Inline), chunks, 0);
                heat.adopt(&arena, id, chunks as u32);
                let last = slab.place(&arena, id, chunks as u32 - 1);
                heat.hit(&arena, &slab, last);
                let mut taken = Vec::new();
                heat.take(&arena, id, chunks as u32, 0..words(chunks as u32), &mut taken);
                let warm: u32 = taken.iter().map(|word| word.0.count_ones()).sum();
                assert_eq!(warm, 1);
                assert_eq!(taken[(chunks - 1) / 16].get((chunks - 1) % 16), 1);
            }
        }
    }

    #[test]
    fn temperatures_go_with_their_items_and_passes_come_in_time() {
        let arena = Arena::new(0, TEST_ARENA_BYTES, 2).expect("a small arena");
        let settings = Repartition {
            pass_hits: 3,
            pass_chunks: 10,
            ..Repartition::new(CacheGeometry::default())
        };
        let heat = heat_of(settings, &arena);
        let slabs = [Slab::new(), Slab::new()];
        let id = SlabId(1);
        let slab = &slabs[1];
        let bytes = if cfg!(miri) { 1_248 } else { 20_000 };
        slab.adopt(ClassId(0), ChunkFormat::new(bytes, ChunkLayout::Inline), 104, 0);
        assert!(!heat.is_due(id, slab));
        heat.adopt(&arena, id, 104);
        let [one, other] = [0, 103].map(|number| slab.place(&arena, id, number));
        for hits in 0..11 {
            // One for ten chunks is ten.
            assert_eq!(heat.is_due(id, slab), hits >= 10);
            heat.hit(&arena, slab, one);
        }
        assert!(heat.is_due(id, slab));
        heat.carry(&arena, &slabs, one, other);
        let mut taken = Vec::new();
        heat.take(&arena, id, 104, 0..7, &mut taken);
        assert_eq!((taken[0].get(0), taken[6].get(7)), (0, 11));
        taken.clear();
        heat.take(&arena, id, 104, 6..7, &mut taken);
        assert_eq!(taken, [TemperatureWord::default().with(7, 5)], "halved");
        heat.begin_pass(id);
        assert!(!heat.is_due(id, slab));
        (0..20).for_each(|_| heat.hit(&arena, slab, one));
        assert!(heat.is_due(id, slab));
        heat.disown(id);
        assert!(!heat.is_due(id, slab));
    }
}
