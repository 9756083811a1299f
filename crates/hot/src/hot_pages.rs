//! The pages of each slab that are for hot items, by the frames that they lie in.
//!
//! ```text
//!   a pass begins -> look: 4 KiB of the pagemap -> policy::colours -> Sight of the slab
//!   is a chunk hot? -> the pages of its Sight; none: the column by offsets
//! ```
//!
//! Frames are looked at anew with each pass over a slab, so the kernel's moves of pages are known
//! after as many hits as a pass needs. Between passes, and where a slab changed its class while it
//! was looked at, a choice may be wrong; then hot items lie no better than cold ones, and nothing
//! else follows from it.
//!
//! Pages are chosen one by one where chunks are short beside them. A chunk that is longer than a
//! quarter of a page often lies in pages that follow the one it begins in, whose colours were not
//! chosen, so such slabs have columns by offsets, as do slabs whose frames the system does not
//! tell. Of split chunks the heads are placed, and the tails lie wherever they come to lie.
//!
//! Each slab up to the last one that a pass came to takes 80 bytes, under a lock.

use std::sync::{Arc, Mutex};

use io::frames::{Frame, FrameSource};
use memory::{Arena, SlabId};
use policy::colours::{Choice, Colours};
use policy::columns::Columns;
use policy::geometry::CacheGeometry;
use policy::pages::{PAGE_BYTES, PageSet, SLAB_PAGES_MAX};
use stdx::sync::lock;

use crate::slab::Slab;

/// Columns that are for hot items: Cavast has one of sixteen.
const HOT_COLUMNS: usize = 1;
/// A chunk takes at most this part of a page, if the page is chosen for itself.
const CHUNK_SHARE: usize = 4;

const _: () = assert!(PAGE_BYTES == io::frames::PAGE_BYTES);
const _: () = assert!(memory::arena::SLAB_BYTES_MAX <= SLAB_PAGES_MAX * PAGE_BYTES);
const _: () = assert!(size_of::<Sight>() <= 80);

/// The frames of the hot zone's slabs, as passes saw them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Whether the system tells frames.
    pub are_told: bool,
    /// Slabs whose column by offsets meets the cache as it should: huge pages, above all.
    pub in_order_slabs: u64,
    /// Slabs of small pages whose hot ones were chosen by colour,
    pub coloured_slabs: u64,
    /// the hot pages of these,
    pub coloured_pages: u64,
    /// and those of them that have the intended colour.
    pub right_pages: u64,
    /// Slabs whose column goes by offsets because no frames are told, or chunks are too long.
    pub unknown_slabs: u64,
}

impl FrameCounts {
    /// The share of the chosen pages that have the intended colour, if any were chosen.
    pub fn right_share(&self) -> Option<f64> {
        let are_chosen = self.coloured_pages > 0;
        are_chosen.then(|| self.right_pages as f64 / self.coloured_pages as f64)
    }
}

/// The result of the last pass's look at the frames of a slab.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sight {
    /// There was no pass since the slab came to its class.
    #[default]
    Never,
    Seen(Choice),
}

/// The pages for hot items.
#[derive(Debug)]
pub(crate) struct HotPages {
    columns: Columns,
    colours: Colours,
    slab_pages: usize,
    source: Arc<dyn FrameSource>,
    /// By slab, up to the last one that a pass came to. No other lock is taken under this one.
    sights: Mutex<Vec<Sight>>,
}

impl HotPages {
    /// Columns of slabs under a cache, with a source of frames.
    pub(crate) fn new(
        slab_bytes: usize,
        geometry: &CacheGeometry,
        source: Arc<dyn FrameSource>,
    ) -> Self {
        Self {
            columns: Columns::new(slab_bytes, geometry, HOT_COLUMNS),
            colours: Colours::new(geometry),
            slab_pages: slab_bytes / PAGE_BYTES,
            source,
            sights: Mutex::default(),
        }
    }

    /// Bytes of a column.
    pub(crate) fn column_bytes(&self) -> usize {
        self.columns.column_bytes()
    }

    /// The hot pages of a slab: a chunk that begins in one of them is hot.
    pub(crate) fn of(&self, id: SlabId, slab: &Slab) -> PageSet {
        match lock(&self.sights).get(id.0 as usize) {
            Some(Sight::Seen(Choice::Coloured { pages, .. })) => *pages,
            _ => self.column(id, slab),
        }
    }

    /// The hot pages of a slab by offsets.
    fn column(&self, id: SlabId, slab: &Slab) -> PageSet {
        self.columns.hot_pages(id.0, reach_bytes(slab))
    }

    /// Looks up the frames that a slab lies in, and returns its hot pages. For one thread at a
    /// time.
    pub(crate) fn look(&self, arena: &Arena, id: SlabId, slab: &Slab) -> PageSet {
        let column = self.column(id, slab);
        let mut frames = [Frame::Refused; SLAB_PAGES_MAX];
        // A slab that changes its class right now may seem to reach beyond its end.
        let pages = reach_bytes(slab).div_ceil(PAGE_BYTES).min(self.slab_pages);
        let frames = &mut frames[..pages];
        if CHUNK_SHARE * slab.format().stride() <= PAGE_BYTES {
            self.source.read(arena.slab_start(id), frames);
        }
        let number = |frame: &Frame| match frame {
            Frame::Known(number) => Some(*number),
            Frame::Refused | Frame::Absent => None,
        };
        let choice = self.colours.choose(id.0, &column, frames.iter().map(number));
        let at = id.0 as usize;
        let mut sights = lock(&self.sights);
        if sights.len() <= at {
            sights.resize(at + 1, Sight::Never);
        }
        sights[at] = Sight::Seen(choice);
        match choice {
            Choice::Coloured { pages, .. } => pages,
            Choice::InOrder | Choice::Unknown => column,
        }
    }

    /// Forgets a slab that leaves its class: its chunks will begin elsewhere.
    pub(crate) fn forget(&self, id: SlabId) {
        if let Some(sight) = lock(&self.sights).get_mut(id.0 as usize) {
            *sight = Sight::Never;
        }
    }

    /// Counts the results of all passes.
    pub(crate) fn counts(&self) -> FrameCounts {
        let mut counts = FrameCounts { are_told: self.source.is_open(), ..FrameCounts::default() };
        for sight in lock(&self.sights).iter() {
            match sight {
                Sight::Never => {}
                Sight::Seen(Choice::InOrder) => counts.in_order_slabs += 1,
                Sight::Seen(Choice::Unknown) => counts.unknown_slabs += 1,
                Sight::Seen(Choice::Coloured { pages, right }) => {
                    counts.coloured_slabs += 1;
                    counts.coloured_pages += pages.count() as u64;
                    counts.right_pages += *right as u64;
                }
            }
        }
        counts
    }
}

/// The first bytes of a slab in which chunks begin.
fn reach_bytes(slab: &Slab) -> usize {
    slab.chunks() as usize * slab.format().stride()
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::chunk::{ChunkFormat, ChunkLayout};
    use memory::ClassId;
    use stdx::random::Xorshift;

    /// Frames as tests want them, and the number of requests for them.
    #[derive(Debug)]
    struct Told {
        frames: Mutex<Vec<Frame>>,
        asked: AtomicUsize,
    }

    impl Told {
        fn new(frames: impl IntoIterator<Item = Frame>) -> Arc<Self> {
            let frames = Mutex::new(frames.into_iter().collect());
            Arc::new(Self { frames, asked: AtomicUsize::new(0) })
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    impl FrameSource for Told {
        fn is_open(&self) -> bool {
            true
        }

        fn read(&self, _start: NonNull<u8>, frames: &mut [Frame]) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            frames.copy_from_slice(&lock(&self.frames)[..frames.len()]);
        }
    }

    fn scattered(seed: u64) -> impl Iterator<Item = Frame> {
        let mut random = Xorshift::seeded(seed);
        (0..SLAB_PAGES_MAX).map(move |_| Frame::Known(random.draw() >> 20))
    }

    fn arena() -> Arena {
        Arena::new(0, 1 << 30, 4).expect("a small arena")
    }

    fn slab(chunk_bytes: usize, chunks: usize) -> Slab {
        let slab = Slab::new();
        slab.adopt(ClassId(0), ChunkFormat::new(chunk_bytes, ChunkLayout::Inline), chunks, 0);
        slab
    }

    fn hot_pages(arena: &Arena, source: &Arc<Told>) -> HotPages {
        let source = Arc::clone(source) as Arc<dyn FrameSource>;
        HotPages::new(arena.slab_bytes(), &CacheGeometry::default(), source)
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code that maps a gigabyte")]
    fn every_hot_page_has_its_colour_once_a_pass_has_seen_the_frames() {
        let arena = arena();
        let source = Told::new(scattered(1));
        let hot = hot_pages(&arena, &source);
        let (id, slab) = (SlabId(1), slab(320, 6500));
        let column = PageSet::from_iter(0..32);
        assert_eq!(hot.of(id, &slab), column, "nobody has looked yet");
        let colours_of = |pages: PageSet| {
            let frames = lock(&source.frames);
            let colour = |page: usize| match frames[page] {
                Frame::Known(frame) => frame % 32,
                Frame::Refused | Frame::Absent => panic!("page {page} is hot without a frame"),
            };
            let mut colours: Vec<u64> = pages.iter().map(colour).collect();
            colours.sort_unstable();
            colours
        };
        let chosen = hot.look(&arena, id, &slab);
        assert!(chosen != column && colours_of(chosen).into_iter().eq(0..32));
        assert_eq!((hot.of(id, &slab), hot.look(&arena, id, &slab)), (chosen, chosen));
        *lock(&source.frames) = scattered(2).collect();
        assert_eq!(hot.of(id, &slab), chosen);
        let next = hot.look(&arena, id, &slab);
        assert!(next != chosen && colours_of(next).into_iter().eq(0..32));
        let counts = hot.counts();
        assert_eq!((counts.coloured_slabs, counts.coloured_pages), (1, 32));
        assert_eq!((counts.right_pages, counts.right_share()), (32, Some(1.0)));
        // Pages that came in the order of a huge page need no choice, and are not counted.
        *lock(&source.frames) = (0..SLAB_PAGES_MAX as u64).map(Frame::Known).collect();
        assert_eq!(hot.look(&arena, id, &slab), column);
        let in_order = FrameCounts { are_told: true, in_order_slabs: 1, ..FrameCounts::default() };
        assert_eq!(hot.counts(), in_order);
        *lock(&source.frames) = scattered(3).collect();
        assert_ne!(hot.look(&arena, id, &slab), column);
        hot.forget(id);
        assert_eq!(hot.of(id, &slab), column);
        assert_eq!(hot.counts(), FrameCounts { are_told: true, ..FrameCounts::default() });
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code that maps a gigabyte")]
    fn frames_that_are_refused_or_not_there_leave_columns_by_offsets() {
        let arena = arena();
        for frame in [Frame::Refused, Frame::Absent] {
            let source = Told::new([frame; SLAB_PAGES_MAX]);
            let hot = hot_pages(&arena, &source);
            let slab = slab(320, 6500);
            assert_eq!(hot.look(&arena, SlabId(3), &slab), PageSet::from_iter(0..32));
            assert_eq!(hot.of(SlabId(3), &slab), PageSet::from_iter(0..32));
            assert_eq!(hot.counts().unknown_slabs, 1);
            assert_eq!(hot.counts().right_share(), None);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code that maps a gigabyte")]
    fn only_pages_that_several_chunks_begin_in_are_chosen_one_by_one() {
        let arena = arena();
        let source = Told::new(scattered(4));
        let hot = hot_pages(&arena, &source);
        let longest = PAGE_BYTES / CHUNK_SHARE;
        for (bytes, asked) in [(longest, 1), (longest + 8, 1), (20_000, 1)] {
            let slab = slab(bytes, arena.slab_bytes() / bytes);
            let pages = hot.look(&arena, SlabId(0), &slab);
            assert_eq!(source.asked(), asked, "{bytes}");
            assert_eq!(pages != PageSet::from_iter(0..32), bytes == longest, "{bytes}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code that maps a gigabyte")]
    fn hot_pages_lie_where_chunks_begin() {
        let arena = arena();
        // Heads reach to the middle of the slab's page 100.
        let slab = Slab::new();
        let chunks = (100 * PAGE_BYTES + 2048) / 64;
        slab.adopt(ClassId(0), ChunkFormat::new(320, ChunkLayout::Split), chunks, 0);
        for seed in 0..20 {
            let hot = hot_pages(&arena, &Told::new(scattered(seed)));
            let pages = hot.look(&arena, SlabId(0), &slab);
            assert!(pages.count() == 32 && pages.iter().all(|page| page <= 100), "seed {seed}");
        }
    }

    /// A slab is looked at without the lock of its class, and its sizes may be those of two
    /// classes: the number of chunks of one, and the chunk length of the other.
    #[test]
    #[cfg_attr(miri, ignore = "safe code that maps a gigabyte")]
    fn a_look_at_a_slab_ends_at_its_end_even_if_its_sizes_reach_beyond() {
        let arena = arena();
        let hot = hot_pages(&arena, &Told::new(scattered(5)));
        let pages = hot.look(&arena, SlabId(0), &slab(1000, 32_768));
        assert!(pages.count() == 32 && pages.iter().all(|page| page < SLAB_PAGES_MAX));
    }
}
