//! Which pages of each slab are for hot items, by the frames that they lie in.
//!
//! ```text
//!   a pass begins -> look: 4 KiB of the pagemap -> policy::colours -> Sight of the slab
//!   is a chunk hot? -> the pages of its Sight; none: the column by offsets
//! ```
//!
//! Frames are looked at anew with each pass over a slab, so what the kernel moved meanwhile is known
//! after as many hits as a pass needs. Between passes, and where a slab changed its class while it
//! was looked at, a choice may be wrong; then hot items lie no better than cold ones, and nothing
//! else follows from it.
//!
//! Pages are chosen one by one where chunks are short beside them. A chunk that is longer than a
//! quarter of a page often lies in pages that follow the one it begins in, whose colours nobody
//! chose, so such slabs have columns by offsets, as slabs have whose frames are not told. Of split
//! chunks the heads are placed, and the tails lie wherever they come to lie.
//!
//! Kept are 80 bytes for each slab up to the last one that a pass came to, under a lock.

use std::sync::Mutex;

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
/// Of a page a chunk takes this part at the most, if the page is chosen for itself.
const CHUNK_SHARE: usize = 4;

const _: () = assert!(PAGE_BYTES == io::frames::PAGE_BYTES);
const _: () = assert!(memory::arena::SLAB_BYTES_MAX <= SLAB_PAGES_MAX * PAGE_BYTES);
const _: () = assert!(size_of::<Sight>() <= 80);

/// What passes saw of the frames of slabs that are in the hot zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Whether the system tells frames.
    pub are_told: bool,
    /// Slabs whose column by offsets meets the cache as it should: huge pages, above all.
    pub in_order_slabs: u64,
    /// Slabs of small pages whose hot ones were chosen by colour,
    pub coloured_slabs: u64,
    /// their hot pages,
    pub coloured_pages: u64,
    /// and of these the ones that have the colour that they should.
    pub right_pages: u64,
    /// Slabs whose column goes by offsets because no frames are told, or chunks are too long.
    pub unknown_slabs: u64,
}

/// What the last pass over a slab saw of its frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sight {
    /// There was none since the slab came to its class.
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
    source: Box<dyn FrameSource>,
    /// By slab, up to the last one that a pass came to. Nothing is taken under this lock.
    sights: Mutex<Vec<Sight>>,
}

impl HotPages {
    /// Columns of slabs under a cache, and who knows frames.
    pub(crate) fn new(
        slab_bytes: usize,
        geometry: &CacheGeometry,
        source: Box<dyn FrameSource>,
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

    /// The same by offsets.
    fn column(&self, id: SlabId, slab: &Slab) -> PageSet {
        self.columns.hot_pages(id.0, reach_bytes(slab))
    }

    /// Looks which frames a slab lies in, and returns its hot pages. For one thread at a time.
    pub(crate) fn look(&self, arena: &Arena, id: SlabId, slab: &Slab) -> PageSet {
        let column = self.column(id, slab);
        let mut frames = [Frame::Refused; SLAB_PAGES_MAX];
        // A slab that changes its class right now may seem to reach beyond its end.
        let pages = reach_bytes(slab).div_ceil(PAGE_BYTES).min(self.slab_pages);
        let frames = &mut frames[..pages];
        if CHUNK_SHARE * slab.cut().stride() <= PAGE_BYTES {
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

    /// The slab leaves its class: where chunks will begin in it is open.
    pub(crate) fn forget(&self, id: SlabId) {
        if let Some(sight) = lock(&self.sights).get_mut(id.0 as usize) {
            *sight = Sight::Never;
        }
    }

    /// What passes saw.
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

/// In the slab's first so many bytes chunks begin.
fn reach_bytes(slab: &Slab) -> usize {
    slab.chunks() as usize * slab.cut().stride()
}
