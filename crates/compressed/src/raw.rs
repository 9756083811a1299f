//! Where references become memory: the only file of this crate with `unsafe` in it.
//!
//! The code here rests on these invariants:
//!
//! * A [`Reference`] is made only by [`Ground::write`], for a range of a slab that the space has
//!   just reserved. It is kept only in slots of the trie, among the long blocks of a block, and by
//!   threads that hold the lock of the shard.
//! * The range is written once, before the reference is published; after that, only the atomic
//!   words of [`Block`] change.
//! * A slab becomes idle only when all its blocks have been replaced and no guard is pinned that
//!   was pinned when they were ([`Lease::idle`] asks the epochs itself); only an idle slab is
//!   written anew or goes back. So a thread that loads a reference under a guard may read the block
//!   until the guard is dropped.
//! * All guards are of the epochs that the zone asks: [`Ground::block`] sees to that, and there is
//!   no other way to a block, or from there to a dictionary.
//!   comes to a block or from there to a dictionary, sees to that.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use codec::Damaged;
use memory::space::TABLE_UNIT_BYTES;
use memory::{Arena, Epochs, Guard, Place, SlabId, TableSpace, Tag};
use stdx::prefetch;
use stdx::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use stdx::units::CACHE_LINE;

use crate::block::{BLOCK_ALIGN, Head, LONG_HEAD_BYTES, RECENT_AT, RECENTS};
use crate::frame::{Frame, Frames};
use crate::seal::{DeadWord, Slot};
use crate::summary::Summary;

/// Slots of a segment of the trie.
pub(crate) const SEGMENT_SLOTS: usize = TABLE_UNIT_BYTES / size_of::<Slot>();

/// The identity of a block: its place in units of 8 bytes, or larger ones in an arena beyond 32
/// GiB, plus 2. In a slot, 0 stands for no leaf and 1 for a leaf without a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Reference(u32);

/// The difference between a reference and the place that it stands for.
const REFERENCE_OFFSET: u64 = 2;

impl Reference {
    /// The code that stands in a slot.
    pub(crate) fn code(self) -> u32 {
        self.0
    }

    /// The reference that stands in a slot.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        (u64::from(code) >= REFERENCE_OFFSET).then_some(Self(code))
    }
}

/// The arena, as references see it.
pub(crate) struct Ground {
    arena: Arc<Arena>,
    /// The epochs that say when a slab is idle.
    epochs: Arc<Epochs>,
    /// Bytes of addresses of the arena.
    bytes: u64,
    /// The unit that a reference counts in, in bytes, as a power of two.
    unit_shift: u32,
}

impl Ground {
    /// The ground of blocks in this arena, which guards of these epochs keep in place.
    pub(crate) fn new(arena: Arc<Arena>, epochs: Arc<Epochs>) -> Self {
        let bytes = (arena.reserved_slabs() * arena.slab_bytes()) as u64;
        let mut unit_shift = BLOCK_ALIGN.trailing_zeros();
        while (bytes >> unit_shift) + REFERENCE_OFFSET > u64::from(u32::MAX) {
            unit_shift += 1;
        }
        Self { arena, epochs, bytes, unit_shift }
    }

    /// The arena.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Blocks are placed at multiples of this many bytes.
    pub(crate) fn unit_bytes(&self) -> usize {
        1 << self.unit_shift
    }

    /// The reference to the block that begins `at` bytes behind the start of `slab`.
    pub(crate) fn reference(&self, slab: SlabId, at: usize) -> Reference {
        debug_assert!(at.is_multiple_of(self.unit_bytes()));
        let offset = slab.0 as u64 * self.arena.slab_bytes() as u64 + at as u64;
        let code = (offset >> self.unit_shift) + REFERENCE_OFFSET;
        Reference(u32::try_from(code).expect("the unit was chosen so that it fits"))
    }

    /// The slab that a block lies in, and where in it.
    pub(crate) fn locate(&self, reference: Reference) -> (SlabId, usize) {
        self.arena.locate(self.place(reference).expect("a block lies there"))
    }

    /// The place of a block; `None` if it is beyond the arena's end, as it may be for a reference
    /// that was damaged where it stood.
    #[inline]
    fn place(&self, reference: Reference) -> Option<Place> {
        let offset = (u64::from(reference.0) - REFERENCE_OFFSET) << self.unit_shift;
        (offset < self.bytes).then_some(Place(offset / memory::arena::PLACE_UNIT_BYTES as u64))
    }

    /// Writes a block's image at `at` in a slab. `lease` shows that the range is the caller's.
    pub(crate) fn write(&self, lease: &mut Lease, at: usize, image: &[u8]) -> Reference {
        assert!(at + image.len() <= self.arena.slab_bytes());
        let start = self.arena.slab_start(lease.0);
        // SAFETY: the range lies in the slab. The space leases a slab once and hands out each of
        // its bytes once (`Space::append`, under its lock), so none knows a reference to it yet.
        unsafe {
            start.add(at).copy_from_nonoverlapping(NonNull::from(image).cast(), image.len());
        }
        self.reference(lease.0, at)
    }

    /// The block that a reference leads to; `None` if its header is damaged, or the reference.
    /// Everything that was reachable when `guard` was pinned may be read until it is dropped.
    #[inline]
    pub(crate) fn block<'g>(
        &self,
        guard: &'g Guard<'_>,
        reference: Reference,
    ) -> Option<Block<'g>> {
        assert!(ptr::eq(guard.epochs(), &*self.epochs), "the guard is of the zone's epochs");
        let place = self.place(reference)?;
        let (_, at) = self.arena.locate(place);
        let start = self.arena.pointer(place);
        let room = self.arena.slab_bytes().checked_sub(at + LONG_HEAD_BYTES)? + LONG_HEAD_BYTES;
        // SAFETY: `place` says that there is a slab, and `room` that this many bytes are left in
        // it. The first 16 of a block are written before it is published and never after; the
        // module's comment says why they may be read.
        let fixed = unsafe { start.cast::<[u8; LONG_HEAD_BYTES]>().as_ref() };
        let head = Head::read(fixed, room)?;
        Some(Block { start, reference, head, guard: PhantomData })
    }

    /// Prefetches the first lines of a block.
    #[inline]
    pub(crate) fn prefetch(&self, reference: Reference) {
        let Some(place) = self.place(reference) else { return };
        let start = self.arena.pointer(place).as_ptr().cast_const();
        prefetch::read(start);
        prefetch::read(start.wrapping_add(CACHE_LINE));
    }

    /// Takes a slab from the arena.
    pub(crate) fn lease(&self, reserve_slabs: usize) -> Option<Idle> {
        self.arena.take(reserve_slabs).map(Idle)
    }

    /// Gives a slab back to the arena.
    pub(crate) fn give(&self, idle: Idle) {
        // SAFETY: an idle slab is the zone's, exists once, and is not read or written: it came
        // from the arena like this, or `Lease::idle` has asked the epochs.
        unsafe { self.arena.give(idle.0) };
    }
}

/// A slab of the zone in which blocks are, or were a moment ago.
#[derive(Debug)]
pub(crate) struct Lease(SlabId);

/// A slab of the zone that no thread reads or writes.
#[derive(Debug)]
pub(crate) struct Idle(SlabId);

impl Lease {
    /// Which slab.
    pub(crate) fn slab(&self) -> SlabId {
        self.0
    }

    /// The slab as an idle one, if no thread can still see anything that was unlinked by `tag`. The
    /// caller guarantees that by then nothing referred to a block in it.
    pub(crate) fn idle(self, epochs: &Epochs, tag: Tag) -> Result<Idle, Self> {
        if epochs.try_reach(tag) { Ok(Idle(self.0)) } else { Err(self) }
    }
}

impl Idle {
    /// The slab, to be written.
    pub(crate) fn open(self) -> Lease {
        Lease(self.0)
    }
}

/// A block, readable while the guard is pinned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'g> {
    start: NonNull<u8>,
    reference: Reference,
    head: Head,
    guard: PhantomData<&'g Guard<'g>>,
}

impl<'g> Block<'g> {
    /// The reference that it is found by.
    pub(crate) fn reference(&self) -> Reference {
        self.reference
    }

    /// Its fixed part.
    #[inline]
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// The dead words.
    #[inline]
    pub(crate) fn dead(&self) -> &'g [DeadWord] {
        let (at, count) = (self.head.dead_at(), self.head.dead_words());
        // SAFETY: a dead word is an atomic word, and these are all of them (see `words`).
        unsafe { std::slice::from_raw_parts(self.words(at, count).as_ptr().cast(), count) }
    }

    /// How often the rows were accessed.
    #[inline]
    pub(crate) fn accesses(&self) -> &'g [AtomicU32] {
        self.words(self.head.accesses_at(), self.head.access_words())
    }

    /// The records of recent accesses.
    #[inline]
    pub(crate) fn recent(&self) -> &'g [AtomicU32] {
        self.words(RECENT_AT, if self.head.long { 0 } else { RECENTS })
    }

    /// The slots of the long blocks of its rows.
    #[inline]
    pub(crate) fn longs(&self) -> &'g [Slot] {
        let (at, count) = (self.head.longs_at(), usize::from(self.head.longs));
        // SAFETY: a slot is an atomic word, and these are all of them (see `words`).
        unsafe { std::slice::from_raw_parts(self.words(at, count).as_ptr().cast(), count) }
    }

    /// All bytes behind the words that change: the records, the dead words, the counts of accesses,
    /// the slots.
    pub(crate) fn unchanging(&self) -> &'g [u8] {
        self.bytes(self.head.summary().start..self.head.block_bytes())
    }

    #[inline]
    fn words(&self, at: usize, count: usize) -> &'g [AtomicU32] {
        debug_assert!(at.is_multiple_of(align_of::<AtomicU32>()));
        assert!(at + count * size_of::<AtomicU32>() <= self.head.block_bytes());
        // SAFETY: the words lie within the block, which lies within its slab (`Head::read`). They
        // are aligned, because blocks and what stands before them are. Blocks are written before
        // they are published, and their words are only ever used as atomics after that.
        unsafe { std::slice::from_raw_parts(self.start.add(at).cast().as_ptr(), count) }
    }

    /// The fingerprints, in the order of rows.
    #[inline]
    pub(crate) fn fingerprints(&self) -> &'g [u8] {
        self.bytes(self.head.fingerprints())
    }

    /// When its rows expire; nothing if none of them does.
    #[inline]
    pub(crate) fn summary(&self) -> Option<Summary> {
        self.bytes(self.head.summary()).first_chunk().map(Summary::read)
    }

    /// The checksum of a frame, by its index, or of a long value, if there is one.
    pub(crate) fn checksum(&self, index: usize) -> Option<u32> {
        let bytes = self.checksums().as_chunks().0.get(index)?;
        Some(u32::from_ne_bytes(*bytes))
    }

    /// The bytes of all checksums.
    pub(crate) fn checksums(&self) -> &'g [u8] {
        self.bytes(self.head.checksum_at()..self.head.fingerprints().start)
    }

    /// The heads of the frames, as they stand there.
    pub(crate) fn frame_heads(&self) -> &'g [u8] {
        self.bytes(self.head.frame_heads())
    }

    /// The frames.
    #[inline]
    pub(crate) fn frames(&self) -> Result<Frames<'g>, Damaged> {
        Frames::read(&self.head, self.frame_heads())
    }

    /// The frame that holds the row at a rank.
    #[inline]
    pub(crate) fn frame_of(&self, rank: usize) -> Result<Frame, Damaged> {
        self.frames()?.find(|frame| frame.ranks().contains(&rank)).ok_or(Damaged)
    }

    /// The stored bytes.
    #[inline]
    pub(crate) fn stored(&self) -> &'g [u8] {
        self.bytes(self.head.stored())
    }

    /// Bytes behind the words that change.
    #[inline]
    fn bytes(&self, range: Range<usize>) -> &'g [u8] {
        assert!(range.start >= self.head.summary().start && range.end <= self.head.block_bytes());
        // SAFETY: the range lies within the block and behind its atomic words: no one writes there
        // after the block was published.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start).as_ptr(), range.len()) }
    }

    /// Changes a stored byte as a fault of the memory would. Only where no other thread is.
    #[cfg(test)]
    pub(crate) fn damage(&self, at: usize, flip: u8) {
        let range = self.head.stored();
        assert!(at < range.len());
        // SAFETY: within the block; the tests that call this have no other thread and hold no
        // slice of the block meanwhile.
        unsafe { *self.start.add(range.start + at).as_ptr() ^= flip };
    }

    /// Damages a byte of the part that tells how long everything is.
    #[cfg(test)]
    pub(crate) fn damage_head(&self, at: usize, flip: u8) {
        assert!(at < LONG_HEAD_BYTES);
        // SAFETY: as in `damage`.
        unsafe { *self.start.add(at).as_ptr() ^= flip };
    }
}

/// A segment of the trie: 512 slots in a table unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment(NonNull<Slot>);

// SAFETY: a segment is a view of atomics that live as long as the trie.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A segment without leaves, if the table space has room.
    pub(crate) fn allocate(tables: &dyn TableSpace) -> Option<Self> {
        let start = tables.allocate(1)?;
        // SAFETY: a unit of its own, aligned to a unit. Zeros are slots without leaves.
        unsafe { start.write_bytes(0, TABLE_UNIT_BYTES) };
        Some(Self(start.cast()))
    }
}

/// The place where a segment is published.
#[derive(Debug, Default)]
pub(crate) struct SegmentSlot(AtomicPtr<Slot>);

impl SegmentSlot {
    /// The slots, if there is a segment. They last as long as the trie, which alone removes them.
    #[inline]
    pub(crate) fn slots(&self) -> Option<&[Slot; SEGMENT_SLOTS]> {
        // Acquire: partner is the release in `publish`; behind the pointer are zeros.
        let start = NonNull::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: only `Segment::allocate` makes what is published: a unit full of slots, which
        // `remove` takes back with exclusive access, when no borrow of this slot is left.
        Some(unsafe { start.cast().as_ref() })
    }

    /// Publishes a segment; gives it back if another thread was first.
    pub(crate) fn publish(&self, segment: Segment) -> Result<(), Segment> {
        // Release: partner is the acquire in `slots`.
        let order = (Ordering::Release, Ordering::Relaxed);
        let done = self.0.compare_exchange(ptr::null_mut(), segment.0.as_ptr(), order.0, order.1);
        done.map(|_| ()).map_err(|_| segment)
    }

    /// Takes the segment out.
    pub(crate) fn remove(&mut self) -> Option<Segment> {
        NonNull::new(std::mem::take(self.0.get_mut())).map(Segment)
    }
}

/// Releases a segment that is not published, or not any more.
pub(crate) fn release_segment(tables: &dyn TableSpace, segment: Segment) {
    // SAFETY: segments come from `Segment::allocate`, with one unit; `publish` and `remove` hand
    // them out when no other code can have a borrow.
    unsafe { tables.release(segment.0.cast(), 1) };
}

/// A value that readers follow under a guard, and that is freed when none of them can see it.
#[derive(Debug)]
pub(crate) struct EpochBox<T>(AtomicPtr<T>);

impl<T> Default for EpochBox<T> {
    fn default() -> Self {
        Self(AtomicPtr::default())
    }
}

impl<T> EpochBox<T> {
    /// The published value.
    #[inline]
    pub(crate) fn get<'g>(&self, _guard: &'g Guard<'_>) -> Option<&'g T> {
        // Acquire: partner is the release in `publish`; behind the pointer is the value.
        let value = NonNull::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: `publish` made the pointer of a box, and `Unlinked::free` frees it only when no
        // guard is left that was pinned when it could be found.
        Some(unsafe { value.as_ref() })
    }

    /// Publishes a value where there is none.
    pub(crate) fn publish(&self, value: Box<T>) {
        // Release: partner is the acquire in `get`.
        let before = self.0.swap(Box::into_raw(value), Ordering::Release);
        assert!(before.is_null(), "what was there has been unlinked");
    }

    /// Takes the value out of readers' sight.
    pub(crate) fn unlink(&self, epochs: &Arc<Epochs>) -> Option<Unlinked<T>> {
        // Relaxed: `tag` has the fence that an unlink needs.
        let value = NonNull::new(self.0.swap(ptr::null_mut(), Ordering::Relaxed))?;
        let tag = epochs.latest_tag().max(epochs.tag());
        Some(Unlinked { value, tag, epochs: Arc::clone(epochs) })
    }
}

impl<T> Drop for EpochBox<T> {
    fn drop(&mut self) {
        let value = *self.0.get_mut();
        if !value.is_null() {
            // SAFETY: `publish` made it of a box, and no thread can follow this slot any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

/// A value that was unlinked and may still be read.
#[derive(Debug)]
pub(crate) struct Unlinked<T> {
    value: NonNull<T>,
    tag: Tag,
    epochs: Arc<Epochs>,
}

// SAFETY: the value is only freed, by whichever thread.
unsafe impl<T: Send> Send for Unlinked<T> {}

impl<T> Unlinked<T> {
    /// Frees the value if no thread can see it; otherwise gives itself back.
    pub(crate) fn free(self) -> Result<(), Self> {
        // Dropping it frees the value.
        if self.epochs.try_reach(self.tag) { Ok(()) } else { Err(self) }
    }
}

impl<T> Drop for Unlinked<T> {
    /// Frees the value, unless a pinned guard may still see it: then it is never freed.
    fn drop(&mut self) {
        if self.epochs.try_reach(self.tag) {
            // SAFETY: it came out of a slot once, as a box, and by the epochs no thread reads it.
            drop(unsafe { Box::from_raw(self.value.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a zone that was dropped before one of its dictionaries could be freed leaked it.
    #[test]
    fn an_unlinked_value_is_freed_with_its_owner_unless_a_guard_may_see_it() {
        let epochs = Arc::new(Epochs::new());
        for is_pinned in [false, true] {
            let (place, value) = (EpochBox::default(), Arc::new(()));
            place.publish(Box::new(Arc::clone(&value)));
            let guard = is_pinned.then(|| epochs.pin());
            let unlinked = place.unlink(&epochs).expect("it was published");
            assert_eq!(Arc::strong_count(&value), 2);
            drop(unlinked);
            assert_eq!(Arc::strong_count(&value), if is_pinned { 2 } else { 1 });
            drop(guard);
        }
    }
}
