//! An item as bytes in a chunk, written once and read. `layout` has the picture, and `chunk` that
//! of a chunk in two pieces.
//!
//! Key, value, flags, cost and the shape never change once the item is published. Mark, credit,
//! expiry and sequence are atomic and may: the mark by any reader, the credit by a hand under the
//! lock of the class of the chunk at which it judges the item, the other two only under the lock of
//! the item's index table.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use memory::{Arena, Place};
use policy::cost::Cost;

use crate::chunk::{Chunk, TAIL_WORD_AT, TailWord};
use crate::layout::{
    EXTRA_BASE64, EXTRA_EARLY, Fields, KEY_IS_SPLIT, LONG_CHAINED, Layout, PIECE_IS_SPLIT,
    SHAPE_COST, SHAPE_CUSTOM, SHAPE_EXPIRY, SHAPE_EXTRA, SHAPE_FLAGS, SHAPE_LONG, SHAPE_VALUE,
};
use crate::mark::TOKENS;

/// A chunk whose bytes are an item's first.
///
/// The lifetime stands for what keeps the chunk from being reused: a pinned epoch, or the draft
/// that owns it.
#[derive(Debug, Clone, Copy)]
pub struct ItemRef<'a> {
    start: NonNull<u8>,
    alive: PhantomData<&'a [u8]>,
}

impl<'a> ItemRef<'a> {
    /// Reads the chunk at `place` as an item.
    ///
    /// # Safety
    /// `place` is a chunk of a slab of the hot zone in which [`write_header`] has laid out an item,
    /// or [`write_piece`] a piece of one, visibly to this thread, and the chunk is not reused
    /// during `'a`.
    #[inline]
    pub unsafe fn new(arena: &Arena, place: Place) -> Self {
        Self { start: arena.pointer(place), alive: PhantomData }
    }

    /// A reference to the mark of the chunk, item or not.
    ///
    /// The first byte of every chunk of the hot zone is only ever accessed as this atomic while
    /// the slab belongs to a class.
    #[inline]
    pub fn mark(&self) -> &'a AtomicU8 {
        // SAFETY: the byte is the chunk's first, valid as long as the arena, which outlives `'a`,
        // and accessed only atomically (see above).
        unsafe { AtomicU8::from_ptr(self.start.as_ptr()) }
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        // SAFETY: called with 1 only: the key's length, inside every chunk, and not written while
        // `'a` lives.
        unsafe { self.start.add(at).read() }
    }

    #[inline]
    fn u32_at(&self, at: usize) -> &'a AtomicU32 {
        debug_assert!(at.is_multiple_of(4));
        // SAFETY: chunks are aligned to 8 bytes and `at` is a multiple of 4 inside the header (all
        // fields before it are 4 bytes), which the layout counted into the chunk; these fields are
        // accessed atomically once the item is published.
        unsafe { AtomicU32::from_ptr(self.start.add(at).as_ptr().cast()) }
    }

    /// Whether the chunk is a piece of a chained item rather than an item.
    pub fn is_piece(&self) -> bool {
        self.byte(1) == 0
    }

    /// How the item lies in its chunk.
    #[inline]
    pub fn layout(&self) -> Layout {
        self.parts().0
    }

    /// The layout, and the chunk's two pieces, as its header tells them.
    #[inline]
    fn parts(&self) -> (Layout, Chunk) {
        let (mut layout, chunk) = self.shape();
        if layout.has(SHAPE_LONG) {
            let long = self.u32_at(layout.long_at()).load(Ordering::Relaxed);
            layout.value_bytes = long & !LONG_CHAINED;
            if long & LONG_CHAINED != 0 {
                let field = chunk.value(&layout).cast::<u32>();
                // SAFETY: a chained item has this field where another has its value; it may be
                // unaligned.
                layout.piece_bytes = unsafe { field.read_unaligned() };
            }
        }
        (layout, chunk)
    }

    /// The layout and chunk as far as fields and key go: without the length of a long value.
    #[inline]
    fn shape(&self) -> (Layout, Chunk) {
        // SAFETY: bytes 2 and 3 of the header, aligned to 2, not written while `'a` lives.
        let shape = unsafe { self.start.add(2).cast::<u16>().read() };
        let (key_bytes, chunk) = match self.byte(1) {
            KEY_IS_SPLIT => (self.tail_word().key_bytes(), self.split_chunk()),
            bytes => (bytes, Chunk::whole(self.start)),
        };
        let layout = Layout {
            shape,
            key_bytes: u16::from(key_bytes),
            value_bytes: u32::from(shape & SHAPE_VALUE),
            piece_bytes: 0,
        };
        (layout, chunk)
    }

    /// The chunk, which is split.
    #[inline]
    fn split_chunk(&self) -> Chunk {
        // SAFETY: the writer of the item put there how far its tail is.
        Chunk::split(self.start, unsafe { self.start.add(self.tail_word().bytes()) })
    }

    /// The word at the end of a split chunk's head.
    #[inline]
    fn tail_word(&self) -> TailWord {
        // SAFETY: bytes 60 to 64 of a head, which begins at a cache line; not written while `'a`
        // lives.
        TailWord(unsafe { self.start.add(TAIL_WORD_AT).cast::<u32>().read() })
    }

    /// Whether the item's key is `key`.
    #[inline]
    pub fn has_key(&self, key: &[u8]) -> bool {
        self.key() == key
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        let (layout, chunk) = self.shape();
        // SAFETY: the layout puts the key inside the chunk, and no thread writes it during `'a`.
        unsafe { slice::from_raw_parts(chunk.key(&layout).as_ptr(), layout.key_bytes()) }
    }

    /// Client flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        let (layout, _) = self.shape();
        if layout.has(SHAPE_FLAGS) {
            self.u32_at(layout.flags_at()).load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Unix seconds at which the item expires; 0 never.
    #[inline]
    pub fn expiry(&self) -> u32 {
        let (layout, _) = self.shape();
        if layout.has(SHAPE_EXPIRY) {
            self.u32_at(layout.expiry_at()).load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Milliseconds by which the item expires before `expiry`. Never changes.
    pub fn early_ms(&self) -> u16 {
        (self.extra() & EXTRA_EARLY) as u16
    }

    /// Changes the expiry in place, to a whole second, if the item has room for one. Returns
    /// whether it has. An item that expires between two seconds keeps its expiry: readers would
    /// have to see both of its words change at once.
    ///
    /// Only under the lock of the item's index table.
    pub fn set_expiry(&self, expiry: u32) -> bool {
        let (layout, _) = self.shape();
        if self.early_ms() != 0 {
            return false;
        }
        if layout.has(SHAPE_EXPIRY) {
            self.u32_at(layout.expiry_at()).store(expiry, Ordering::Relaxed);
        }
        layout.has(SHAPE_EXPIRY) || expiry == 0
    }

    /// The word of fields that are rare: see [`Fields::extra`].
    #[inline]
    fn extra(&self) -> u32 {
        let (layout, _) = self.shape();
        if layout.has(SHAPE_EXTRA) {
            self.u32_at(layout.extra_at()).load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// The low half of the item's number in the sequence of mutations.
    #[inline]
    pub fn sequence(&self) -> u32 {
        // Acquire: partner is the release in `set_sequence`; a reader that sees a number also sees
        // that the sequence has come so far.
        self.u32_at(4).load(Ordering::Acquire)
    }

    /// Numbers the item. On a published item, only under the lock of its index table.
    pub fn set_sequence(&self, sequence: u32) {
        // Release: partner is the acquire in `sequence`.
        self.u32_at(4).store(sequence, Ordering::Release);
    }

    /// The CAS unique that a client chose for the item, if one did.
    pub fn custom_cas(&self) -> Option<u64> {
        let (layout, _) = self.shape();
        layout.has(SHAPE_CUSTOM).then(|| {
            let at = layout.custom_at();
            let half = |at| u64::from(self.u32_at(at).load(Ordering::Relaxed));
            half(at) | half(at + 4) << 32
        })
    }

    /// The cost of making the item again.
    #[inline]
    pub fn cost(&self) -> Cost {
        let (layout, _) = self.shape();
        if !layout.has(SHAPE_COST) {
            return Cost::UNKNOWN;
        }
        // SAFETY: the layout counted the field into the chunk; it may be unaligned, and no
        // thread writes it while `'a` lives.
        Cost(unsafe { self.start.add(layout.credit_at() + 1).cast::<u16>().read_unaligned() })
    }

    /// The chunks that the item takes: one, or the pieces of a chained one.
    pub(crate) fn chunks(&self) -> usize {
        self.layout().pieces().max(1)
    }

    /// The part of a chained item's cost that falls to each piece.
    pub(crate) fn cost_of_piece(&self) -> Cost {
        Cost::from_us(self.cost().us() / self.chunks() as u32)
    }

    /// The part of the item's cost that the policy has left; only for an item that has a cost.
    /// Changed under the lock of a class.
    #[inline]
    pub(crate) fn credit(&self) -> Option<&'a AtomicU8> {
        let (layout, _) = self.shape();
        // SAFETY: the layout counted the byte into the chunk, and once the item is published it is
        // accessed as this atomic only.
        layout
            .has(SHAPE_COST)
            .then(|| unsafe { AtomicU8::from_ptr(self.start.add(layout.credit_at()).as_ptr()) })
    }

    /// Whether there is a field for the item's cost, known or not.
    pub fn has_cost_field(&self) -> bool {
        self.shape().0.has(SHAPE_COST)
    }

    /// Whether no client holds a win token for it or is to get one: a mark says so, which the item
    /// could lose on its way to another chunk.
    pub(crate) fn may_move(&self) -> bool {
        self.mark().load(Ordering::Relaxed) & TOKENS == 0
    }

    /// The fields beside key and value, to store the item again with room for the same.
    pub fn fields(&self) -> Fields {
        Fields {
            flags: self.flags(),
            expiry: self.expiry(),
            early_ms: self.early_ms(),
            expiry_reserved: self.shape().0.has(SHAPE_EXPIRY),
            custom_cas: self.custom_cas(),
            base64_key: self.base64_key(),
            cost: self.cost(),
            cost_reserved: self.has_cost_field(),
        }
    }

    /// Whether the client sent the key in base64.
    pub fn base64_key(&self) -> bool {
        self.extra() & EXTRA_BASE64 != 0
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.layout().value_bytes()
    }

    /// The value, if it is not chained.
    #[inline]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        let (layout, chunk) = self.parts();
        if layout.is_chained() {
            return None;
        }
        // SAFETY: the value of an item that is not chained lies in its chunk, and no thread writes
        // it during `'a`.
        Some(unsafe { slice::from_raw_parts(chunk.value(&layout).as_ptr(), layout.value_bytes()) })
    }

    /// The place of piece `number` of a chained item.
    pub fn piece(&self, number: usize) -> Place {
        let (layout, chunk) = self.parts();
        assert!(number < layout.pieces());
        let at = layout.piece_at(number);
        // SAFETY: `number` was checked, so the place lies in the list; it may be unaligned.
        Place(unsafe { chunk.value(&layout).add(at).cast::<u64>().read_unaligned() })
    }

    /// The bytes of value in piece `number` of a chained item.
    pub fn piece_value(&self, arena: &Arena, number: usize) -> &'a [u8] {
        let bytes = self.layout().piece_value_bytes(number);
        // SAFETY: the piece was laid out before its owner was published, and lives as long.
        let piece = unsafe { Self::new(arena, self.piece(number)) };
        // SAFETY: the piece was allocated with a chunk for its header and `bytes` of value, and
        // no thread writes it during `'a`.
        unsafe { slice::from_raw_parts(piece.piece_chunk().piece_value().as_ptr(), bytes) }
    }

    /// The chunk of a piece.
    fn piece_chunk(&self) -> Chunk {
        debug_assert!(self.is_piece());
        // SAFETY: bytes 2 and 3 of a piece, aligned to 2, not written while `'a` lives.
        let shape = unsafe { self.start.add(2).cast::<u16>().read() };
        if shape == PIECE_IS_SPLIT { self.split_chunk() } else { Chunk::whole(self.start) }
    }

    /// The place of the item that a piece belongs to.
    pub fn owner(&self) -> Place {
        debug_assert!(self.is_piece());
        // SAFETY: bytes 8 to 16 of a piece, aligned to 8.
        Place(unsafe { self.start.add(8).cast::<u64>().read() })
    }

    /// The number of a piece in its item.
    pub fn piece_number(&self) -> u32 {
        debug_assert!(self.is_piece());
        self.u32_at(4).load(Ordering::Relaxed)
    }
}

/// Lays out an item's header and key: everything but the mark, which stays 0, and the value. If the
/// item has a cost, `credit` is the policy's measure of it.
///
/// # Safety
/// The caller owns the chunk, which holds `layout.need()`, and no other thread reads more of it
/// than its mark.
#[inline(always)]
pub(crate) unsafe fn write_header(
    chunk: Chunk,
    layout: Layout,
    fields: &Fields,
    credit: u8,
    key: &[u8],
) {
    assert_eq!(layout.key_bytes(), key.len());
    let start = chunk.head;
    // SAFETY: the caller owns the chunk, and the layout counted these fields into its size.
    unsafe {
        let key_bytes = layout.key_bytes as u8;
        let is_split = write_tail_word(chunk, key_bytes);
        start.add(1).write(if is_split { KEY_IS_SPLIT } else { key_bytes });
        start.add(2).cast::<u16>().write(layout.shape);
        start.add(4).cast::<u32>().write(0);
        if layout.has(SHAPE_FLAGS) {
            start.add(layout.flags_at()).cast::<u32>().write(fields.flags);
        }
        if layout.has(SHAPE_EXPIRY) {
            start.add(layout.expiry_at()).cast::<u32>().write(fields.expiry);
        }
        if layout.has(SHAPE_LONG) {
            let chained = if layout.is_chained() { LONG_CHAINED } else { 0 };
            let long = layout.value_bytes | chained;
            start.add(layout.long_at()).cast::<u32>().write(long);
        }
        if layout.has(SHAPE_EXTRA) {
            start.add(layout.extra_at()).cast::<u32>().write(fields.extra());
        }
        if layout.is_chained() {
            chunk.value(&layout).cast::<u32>().write_unaligned(layout.piece_bytes);
        }
        if let Some(custom) = fields.custom_cas {
            start.add(layout.custom_at()).cast::<u64>().write_unaligned(custom.to_le());
        }
        if layout.has(SHAPE_COST) {
            start.add(layout.credit_at()).write(credit);
            start.add(layout.credit_at() + 1).cast::<u16>().write_unaligned(fields.cost.0);
        }
        chunk.key(&layout).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
    }
}

/// Changes the cost of an unpublished item, and its credit.
///
/// # Safety
/// The caller owns the chunk at `place`, whose header was written with `layout`, which has a cost.
pub(crate) unsafe fn write_cost(
    arena: &Arena,
    place: Place,
    layout: Layout,
    credit: u8,
    cost: Cost,
) {
    assert!(layout.has(SHAPE_COST));
    let field = arena.pointer(place);
    // SAFETY: the caller owns the chunk, and the layout counted the field into its size; it may be
    // unaligned.
    unsafe {
        let field = field.add(layout.credit_at());
        field.write(credit);
        field.add(1).cast::<u16>().write_unaligned(cost.0);
    }
}

/// Lays out the header of piece `number` of an item.
///
/// # Safety
/// The caller owns the chunk, and no other thread reads more of it than its mark.
pub(crate) unsafe fn write_piece(chunk: Chunk, owner: Place, number: usize) {
    let start = chunk.head;
    // SAFETY: the caller owns the chunk, which is longer than this header, whole or split.
    unsafe {
        start.add(1).write(0);
        let is_split = write_tail_word(chunk, 0);
        start.add(2).cast::<u16>().write(if is_split { PIECE_IS_SPLIT } else { 0 });
        start.add(4).cast::<u32>().write(number as u32);
        start.add(8).cast::<u64>().write(owner.0);
    }
}

/// Writes the place of the tail at the end of a chunk's head, if the chunk is split. Returns
/// whether it is.
///
/// # Safety
/// The caller owns the chunk, and no other thread reads more of it than its mark.
#[inline]
unsafe fn write_tail_word(chunk: Chunk, key_bytes: u8) -> bool {
    let Some(bytes) = chunk.tail_bytes_away() else {
        return false;
    };
    let word = TailWord::new(bytes, key_bytes);
    // SAFETY: bytes 60 to 64 of a head, which the caller owns and which begins at a cache line.
    unsafe { chunk.head.add(TAIL_WORD_AT).cast::<u32>().write(word.0) };
    true
}

/// Enters a piece into its owner's list.
///
/// # Safety
/// The caller owns the owner's chunk, whose header was written with `layout`, and no other thread
/// reads more of it than its mark.
pub(crate) unsafe fn list_piece(chunk: Chunk, layout: Layout, number: usize, piece: Place) {
    assert!(number < layout.pieces());
    let at = layout.piece_at(number);
    // SAFETY: the caller owns the chunk, and the layout counted the list into its size.
    unsafe { chunk.value(&layout).add(at).cast::<u64>().write_unaligned(piece.0) };
}

/// The bytes of an unpublished item's value from `from` on, if it is not chained.
///
/// # Safety
/// The caller owns the item in this chunk, laid out with `layout`, and uses at most one such slice
/// at a time.
#[inline]
pub(crate) unsafe fn value_mut<'a>(chunk: Chunk, layout: Layout, from: usize) -> &'a mut [u8] {
    assert!(!layout.is_chained() && from <= layout.value_bytes());
    // SAFETY: as promised by the caller; offset and length are the layout's.
    unsafe {
        let start = chunk.value(&layout).add(from);
        slice::from_raw_parts_mut(start.as_ptr(), layout.value_bytes() - from)
    }
}

/// The contiguous bytes of an unpublished chained item's value from `from` on.
///
/// # Safety
/// As for [`value_mut`].
#[inline(never)]
pub(crate) unsafe fn chained_value_mut<'a>(
    arena: &Arena,
    chunk: Chunk,
    layout: Layout,
    from: usize,
) -> &'a mut [u8] {
    assert!(from <= layout.value_bytes());
    let (number, offset) = (from / layout.piece_bytes(), from % layout.piece_bytes());
    if number == layout.pieces() {
        return &mut [];
    }
    let item = ItemRef { start: chunk.head, alive: PhantomData };
    // SAFETY: as promised by the caller; the list leads to pieces that were laid out with the item,
    // each for that many bytes of value.
    unsafe {
        let piece = ItemRef::new(arena, item.piece(number));
        let start = piece.piece_chunk().piece_value().add(offset);
        slice::from_raw_parts_mut(start.as_ptr(), layout.piece_value_bytes(number) - offset)
    }
}

#[cfg(test)]
mod tests;
