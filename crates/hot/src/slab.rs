//! The state of each slab of the hot zone, and the free chunks inside it.
//!
//! ```text
//!   | chunk | chunk | chunk | chunk | chunk |  never used yet ...         |
//!     used    free -------->  free    used    ^ fresh
//!             ^ head          (end)
//! ```
//!
//! Free chunks are linked through themselves, by number, per slab rather than per class, so that a
//! slab can leave its class without a search through a list. Chunks never used yet need no link: a
//! number says where they begin. Where chunks are split (see [`chunk`](crate::chunk)), this picture
//! is of the row of heads, and the tails go with them.
//!
//! Everything here is guarded by the lock of the class that owns the slab, except where a field
//! says otherwise. The fields are relaxed atomics because the owner of a slab may change and Rust
//! cannot see that lock.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32};

use crate::chunk::{Chunk, ChunkFormat, FIRST_BYTES, HEAD_BYTES};
use memory::{Arena, ClassId, Place, SlabId};

/// In `free_head`: no free chunk.
const NONE: u32 = u32::MAX;

/// The owner of a slab, and which of its chunks are free.
#[derive(Debug)]
pub(crate) struct Slab {
    class: AtomicU8,
    /// Whether it belongs to that class now, rather than to none or to another tier.
    owned: AtomicU8,
    /// Also read without the lock, by threads that have a free chunk of the slab in a magazine.
    draining: AtomicU8,
    /// Something was published in it since it drains and has not been dealt with. Not guarded by
    /// the lock.
    has_late: AtomicU8,
    chunk_bytes: AtomicU32,
    /// Bytes from one place to the next: fewer than a chunk has if chunks are split.
    stride: AtomicU32,
    chunks: AtomicU32,
    /// How often it came to a class: what was remembered of its chunks without the lock is void
    /// once this has changed.
    life: AtomicU32,
    /// Number of the first free chunk.
    free_head: AtomicU32,
    /// Chunks from this number on were never used.
    fresh: AtomicU32,
    /// Chunks that are neither in the list nor fresh.
    used: AtomicU32,
    /// The low half of the count of mutations when the hand last came to the slab, or when it was
    /// adopted or spared.
    passed: AtomicU32,
    /// Unix seconds before which nothing in the slab expires, or hardly anything; `u32::MAX` if
    /// nothing does. The sweep forgets it before it looks, and a store notes it after publishing;
    /// an item published in between may be overlooked. Not guarded by the lock.
    first_expiry: AtomicU32,
}

impl Slab {
    /// A slab that belongs to no class.
    pub(crate) const fn new() -> Self {
        Self {
            class: AtomicU8::new(0),
            owned: AtomicU8::new(0),
            draining: AtomicU8::new(0),
            has_late: AtomicU8::new(0),
            chunk_bytes: AtomicU32::new(0),
            stride: AtomicU32::new(0),
            chunks: AtomicU32::new(0),
            life: AtomicU32::new(0),
            free_head: AtomicU32::new(NONE),
            fresh: AtomicU32::new(0),
            used: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            first_expiry: AtomicU32::new(u32::MAX),
        }
    }

    /// Gives the slab to a class at this count of mutations; all its chunks are fresh.
    pub(crate) fn adopt(&self, class: ClassId, format: ChunkFormat, chunks: usize, mutations: u64) {
        self.pass(mutations);
        self.forget_expiry();
        self.class.store(class.0, Relaxed);
        self.draining.store(0, Relaxed);
        self.has_late.store(0, Relaxed);
        self.chunk_bytes.store(format.bytes as u32, Relaxed);
        self.stride.store(format.stride() as u32, Relaxed);
        self.chunks.store(chunks as u32, Relaxed);
        self.life.store(self.life().wrapping_add(1), Relaxed);
        self.free_head.store(NONE, Relaxed);
        self.fresh.store(0, Relaxed);
        self.used.store(0, Relaxed);
        // Release: partner is the acquire in `belongs_to`, which then sees whose it is.
        self.owned.store(1, Release);
    }

    /// Takes the slab, which is empty, from its class.
    pub(crate) fn disown(&self) {
        self.owned.store(0, Relaxed);
    }

    /// Whether the slab belongs to this class, whose lock the caller holds.
    pub(crate) fn belongs_to(&self, class: ClassId) -> bool {
        // In this order: if it came to another class a moment ago, it is seen to be that one's.
        // Acquire: partner is the release in `adopt`.
        self.owned.load(Acquire) != 0 && self.class() == class
    }

    /// The number of times it has come to a class.
    pub(crate) fn life(&self) -> u32 {
        self.life.load(Relaxed)
    }

    /// Whether the slab ever belonged to the hot zone.
    pub(crate) fn was_owned(&self) -> bool {
        self.chunks.load(Relaxed) != 0
    }

    /// The class it belongs to.
    #[inline]
    pub(crate) fn class(&self) -> ClassId {
        ClassId(self.class.load(Relaxed))
    }

    /// How its chunks are cut.
    #[inline]
    pub(crate) fn format(&self) -> ChunkFormat {
        let (bytes, stride) = (self.chunk_bytes.load(Relaxed), self.stride.load(Relaxed));
        ChunkFormat { bytes: bytes as usize, is_split: stride != bytes }
    }

    /// The chunk at `place`, whose bytes may be in two pieces.
    #[inline]
    pub(crate) fn chunk(&self, arena: &Arena, place: Place) -> Chunk {
        let (head, format) = (arena.pointer(place), self.format());
        if !format.is_split {
            return Chunk::whole(head);
        }
        let at = arena.locate(place).1;
        let tails_at = self.chunks.load(Relaxed) as usize * HEAD_BYTES;
        let tail_at = tails_at + at / HEAD_BYTES * (format.bytes - HEAD_BYTES);
        // SAFETY: `place` is a chunk of this slab, so its tail is in the slab too, in the row that
        // follows all heads.
        Chunk::split(head, unsafe { head.add(tail_at - at) })
    }

    /// The number of its chunks.
    #[inline]
    pub(crate) fn chunks(&self) -> u32 {
        self.chunks.load(Relaxed)
    }

    /// Whether the slab is about to leave its class: its chunks are not allocated any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed) != 0
    }

    /// Stops the allocation of the slab's chunks.
    pub(crate) fn start_draining(&self) {
        self.draining.store(1, Relaxed);
    }

    /// Allows it again.
    pub(crate) fn stop_draining(&self) {
        self.draining.store(0, Relaxed);
    }

    /// Notes that something was just published in the slab, if it drains. The publishing thread may
    /// not see yet that it does.
    #[inline]
    pub(crate) fn note_published(&self) {
        if self.is_draining() {
            // Release: partner is the acquire in `take_late`.
            self.has_late.store(1, Release);
        }
    }

    /// Whether something was published in the slab while it drained, since this was last asked.
    pub(crate) fn take_late(&self) -> bool {
        // Acquire: partner is the release in `note_published`: what was published is seen.
        self.has_late.load(Relaxed) != 0 && self.has_late.swap(0, Acquire) != 0
    }

    /// Notes that the hand, or what stands for it, came by at this count of mutations.
    pub(crate) fn pass(&self, mutations: u64) {
        self.passed.store(mutations as u32, Relaxed);
    }

    /// The number of mutations since then. A slab that was left alone for 2^32 of them looks
    /// younger than it is, and waits a little longer for its turn.
    pub(crate) fn age(&self, mutations: u64) -> u64 {
        u64::from((mutations as u32).wrapping_sub(self.passed.load(Relaxed)))
    }

    /// Notes that something in the slab expires at this time.
    #[inline]
    pub(crate) fn note_expiry(&self, expiry: u32) {
        if expiry < self.first_expiry.load(Relaxed) {
            self.first_expiry.fetch_min(expiry, Relaxed);
        }
    }

    /// Forgets when something in the slab expires, as if nothing did.
    pub(crate) fn forget_expiry(&self) {
        self.first_expiry.store(u32::MAX, Relaxed);
    }

    /// The time before which nothing in the slab expires.
    pub(crate) fn first_expiry(&self) -> u32 {
        self.first_expiry.load(Relaxed)
    }

    /// Chunks that hold something, or held it until a moment ago, or are at hand in their class.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed) as usize
    }

    /// Chunks that could be allocated if the slab were not draining.
    pub(crate) fn free(&self) -> usize {
        (self.chunks.load(Relaxed) - self.used.load(Relaxed)) as usize
    }

    /// Chunks that were used at least once: those that a hand has to look at.
    pub(crate) fn touched(&self) -> u32 {
        self.fresh.load(Relaxed)
    }

    /// The place of chunk `number` of slab `id`, which is this one.
    pub(crate) fn place(&self, arena: &Arena, id: SlabId, number: u32) -> Place {
        arena.place(id, number as usize * self.stride.load(Relaxed) as usize)
    }

    /// The number of the chunk at a place of this slab.
    #[inline]
    pub(crate) fn number(&self, arena: &Arena, place: Place) -> u32 {
        arena.locate(place).1 as u32 / self.stride.load(Relaxed)
    }

    /// Whether a chunk begins at this place of the slab and was used at least once: only then has
    /// it a mark.
    pub(crate) fn has_used(&self, arena: &Arena, place: Place) -> bool {
        let number = self.number(arena, place);
        number < self.touched() && self.place(arena, arena.locate(place).0, number) == place
    }

    /// Takes a free chunk. Its mark is 0.
    pub(crate) fn pop(&self, arena: &Arena, id: SlabId) -> Option<Place> {
        let head = self.free_head.load(Relaxed);
        let place = if head != NONE {
            let place = self.place(arena, id, head);
            // SAFETY: the chunk is free, so it belongs to this list alone; its link is where
            // `push` left it.
            let next = unsafe { link(arena, place).read() };
            self.free_head.store(next, Relaxed);
            if next != NONE {
                // The next caller reads the link there first, and then writes an item.
                let chunk = self.chunk(arena, self.place(arena, id, next));
                chunk.prefetch_for_writing(self.format().bytes.min(FIRST_BYTES));
            }
            place
        } else {
            let fresh = self.fresh.load(Relaxed);
            if fresh == self.chunks.load(Relaxed) {
                return None;
            }
            let place = self.place(arena, id, fresh);
            mark(arena, place).store(0, Relaxed);
            self.fresh.store(fresh + 1, Relaxed);
            place
        };
        self.used.store(self.used.load(Relaxed) + 1, Relaxed);
        Some(place)
    }

    /// The numbers of the chunks in the list of free ones.
    #[cfg(test)]
    pub(crate) fn free_chunks(&self, arena: &Arena, id: SlabId) -> std::collections::HashSet<u32> {
        let head = self.free_head.load(Relaxed);
        let next = |&number: &u32| {
            // SAFETY: as in `pop`.
            let next = unsafe { link(arena, self.place(arena, id, number)).read() };
            (next != NONE).then_some(next)
        };
        std::iter::successors((head != NONE).then_some(head), next).collect()
    }

    /// Takes back a chunk that no thread can see any more.
    pub(crate) fn push(&self, arena: &Arena, place: Place) {
        mark(arena, place).store(0, Relaxed);
        let number = self.number(arena, place);
        // SAFETY: the chunk was given back, so it belongs to this list alone from here on.
        unsafe { link(arena, place).write(self.free_head.load(Relaxed)) };
        self.free_head.store(number, Relaxed);
        let used = self.used.load(Relaxed);
        debug_assert!(used > 0);
        self.used.store(used - 1, Relaxed);
    }
}

/// The mark of the chunk at `place`.
pub(crate) fn mark(arena: &Arena, place: Place) -> &AtomicU8 {
    // SAFETY: `place` is a chunk of a slab of the hot zone, whose first byte is accessed only as
    // this atomic; the arena outlives the reference.
    unsafe { AtomicU8::from_ptr(arena.pointer(place).as_ptr()) }
}

/// Where a free chunk keeps the number of the next one: behind the mark, aligned.
fn link(arena: &Arena, place: Place) -> *mut u32 {
    // SAFETY: bytes 4 to 8 of a chunk of at least 24 bytes.
    unsafe { arena.pointer(place).add(4).cast::<u32>().as_ptr() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TEST_ARENA_BYTES;
    use crate::chunk::ChunkLayout;
    use crate::layout::{Fields, Layout};
    use std::collections::HashSet;

    #[test]
    fn every_chunk_is_handed_out_once_and_comes_back() {
        let arena = Arena::new(0, TEST_ARENA_BYTES, 0).unwrap();
        let slab = Slab::new();
        for layout in [ChunkLayout::Inline, ChunkLayout::Split] {
            let bytes = if cfg!(miri) { 2_400 } else { 40_000 };
            slab.adopt(ClassId(3), ChunkFormat::new(bytes, layout), 52, 0);
            for _ in 0..3 {
                let places: Vec<_> = std::iter::from_fn(|| slab.pop(&arena, SlabId(1))).collect();
                assert_eq!(places.iter().collect::<HashSet<_>>().len(), 52);
                assert_eq!((slab.free(), slab.used(), slab.touched()), (0, 52, 52));
                for place in places {
                    assert_eq!(arena.locate(place).0, SlabId(1));
                    let behind = Place(place.0 + 1);
                    assert!(slab.has_used(&arena, place) && !slab.has_used(&arena, behind));
                    mark(&arena, place).store(1, Relaxed);
                    slab.push(&arena, place);
                    assert_eq!(mark(&arena, place).load(Relaxed), 0);
                }
                assert_eq!((slab.free(), slab.used()), (52, 0));
            }
        }
    }

    #[test]
    fn heads_and_tails_fill_a_slab_and_none_overlaps() {
        let arena = Arena::new(0, TEST_ARENA_BYTES, 0).unwrap();
        let (slab, id) = (Slab::new(), SlabId(1));
        for bytes in [136, 1_000, arena.slab_bytes() / 16] {
            let chunks = arena.slab_bytes() / bytes;
            slab.adopt(ClassId(3), ChunkFormat::new(bytes, ChunkLayout::Split), chunks, 0);
            let start = arena.slab_start(id).as_ptr() as usize;
            let mut parts = Vec::new();
            for number in 0..chunks as u32 {
                let chunk = slab.chunk(&arena, slab.place(&arena, id, number));
                let layout = Layout::new(&Fields::default(), 1, 1, slab.format());
                let (head, tail) = (chunk.head.as_ptr(), chunk.value(&layout).as_ptr());
                assert!(chunk.is_split() && (head as usize).is_multiple_of(HEAD_BYTES));
                parts.push((head as usize - start, HEAD_BYTES));
                parts.push((tail as usize - start, bytes - HEAD_BYTES));
            }
            parts.sort_unstable();
            let end = parts.iter().fold(0, |end, &(at, bytes)| {
                assert_eq!(at, end);
                at + bytes
            });
            assert!(end == chunks * bytes && end <= arena.slab_bytes());
        }
    }
}
