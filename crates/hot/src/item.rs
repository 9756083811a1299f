//! An item as bytes in a chunk: how it is written once, and read. `layout` has the picture.
//!
//! Key, value, flags, cost and the shape never change once the item is published. Mark, credit,
//! expiry and sequence are atomic and may: the mark by any reader, the credit only under the lock
//! of a class, the other two only under the lock of the item's index table.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use memory::{Arena, Place};
use policy::cost::Cost;

use crate::layout::{
    Fields, LONG_CHAINED, Layout, PIECE_HEADER_BYTES, SHAPE_BASE64, SHAPE_COST, SHAPE_CUSTOM,
    SHAPE_EXPIRY, SHAPE_FLAGS, SHAPE_LONG, SHAPE_VALUE,
};
use crate::mark::{SENT, STALE};

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
    /// `place` is a chunk of a slab of the hot zone in which [`write_head`] has laid out an item,
    /// visibly to this thread, and the chunk is not reused during `'a`.
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
        // SAFETY: bytes 2 and 3 of the header, aligned to 2, not written while `'a` lives.
        let shape = unsafe { self.start.add(2).cast::<u16>().read() };
        let mut layout = Layout {
            shape,
            key_bytes: u16::from(self.byte(1)),
            value_bytes: u32::from(shape & SHAPE_VALUE),
            piece_bytes: 0,
        };
        if layout.has(SHAPE_LONG) {
            let long = self.u32_at(layout.long_at()).load(Ordering::Relaxed);
            layout.value_bytes = long & !LONG_CHAINED;
            if long & LONG_CHAINED != 0 {
                // SAFETY: a chained item has this field where another has its value; it may be
                // unaligned.
                let field = unsafe { self.start.add(layout.value_at()).cast::<u32>() };
                // SAFETY: as above.
                layout.piece_bytes = unsafe { field.read_unaligned() };
            }
        }
        layout
    }

    /// Whether the item's key is `key`.
    #[inline]
    pub fn has_key(&self, key: &[u8]) -> bool {
        usize::from(self.byte(1)) == key.len() && self.key() == key
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        let layout = self.layout();
        // SAFETY: the layout puts the key inside the chunk, and nobody writes it during `'a`.
        unsafe {
            slice::from_raw_parts(self.start.add(layout.key_at()).as_ptr(), layout.key_bytes())
        }
    }

    /// Client flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        let layout = self.layout();
        if layout.has(SHAPE_FLAGS) {
            self.u32_at(layout.flags_at()).load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Unix seconds at which the item is over; 0 never.
    #[inline]
    pub fn expiry(&self) -> u32 {
        let layout = self.layout();
        if layout.has(SHAPE_EXPIRY) {
            self.u32_at(layout.expiry_at()).load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Changes the expiry in place if the item has room for one. Returns whether it has.
    ///
    /// Only under the lock of the item's index table.
    pub fn set_expiry(&self, expiry: u32) -> bool {
        let layout = self.layout();
        if layout.has(SHAPE_EXPIRY) {
            self.u32_at(layout.expiry_at()).store(expiry, Ordering::Relaxed);
        }
        layout.has(SHAPE_EXPIRY) || expiry == 0
    }

    /// The low half of the item's number in the sequence of mutations.
    #[inline]
    pub fn sequence(&self) -> u32 {
        // Acquire: partner is the release in `set_sequence`; a reader who sees a number also sees
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
        let layout = self.layout();
        layout.has(SHAPE_CUSTOM).then(|| {
            let at = layout.custom_at();
            let half = |at| u64::from(self.u32_at(at).load(Ordering::Relaxed));
            half(at) | half(at + 4) << 32
        })
    }

    /// What the item costs to make again.
    #[inline]
    pub fn cost(&self) -> Cost {
        let layout = self.layout();
        if !layout.has(SHAPE_COST) {
            return Cost::UNKNOWN;
        }
        // SAFETY: the layout counted the field into the chunk; it may be unaligned, and nobody
        // writes it while `'a` lives.
        Cost(unsafe { self.start.add(layout.credit_at() + 1).cast::<u16>().read_unaligned() })
    }

    /// What the policy has left of the item's cost; only of an item that has one. Changed under the
    /// lock of a class.
    #[inline]
    pub(crate) fn credit(&self) -> Option<&'a AtomicU8> {
        let layout = self.layout();
        // SAFETY: the layout counted the byte into the chunk, and once the item is published it is
        // accessed as this atomic only.
        layout
            .has(SHAPE_COST)
            .then(|| unsafe { AtomicU8::from_ptr(self.start.add(layout.credit_at()).as_ptr()) })
    }

    /// Whether there is a field for what the item costs, known or not.
    pub fn has_cost_field(&self) -> bool {
        self.layout().has(SHAPE_COST)
    }

    /// Whether no client holds a win token for it, or is to get one: that is told by a mark which
    /// the item could lose on its way to another chunk.
    pub(crate) fn may_move(&self) -> bool {
        self.mark().load(Ordering::Relaxed) & (SENT | STALE) == 0
    }

    /// What stands beside key and value, to store it again.
    pub fn fields(&self) -> Fields {
        Fields {
            flags: self.flags(),
            expiry: self.expiry(),
            expiry_reserved: false,
            custom_cas: self.custom_cas(),
            base64_key: self.base64_key(),
            cost: self.cost(),
            cost_reserved: self.has_cost_field(),
        }
    }

    /// Whether the client sent the key in base64.
    pub fn base64_key(&self) -> bool {
        self.layout().has(SHAPE_BASE64)
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.layout().value_bytes()
    }

    /// The value, if it is not chained.
    #[inline]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        let layout = self.layout();
        if layout.is_chained() {
            return None;
        }
        // SAFETY: the value of an item that is not chained lies in its chunk, and nobody writes it
        // during `'a`.
        Some(unsafe {
            slice::from_raw_parts(self.start.add(layout.value_at()).as_ptr(), layout.value_bytes())
        })
    }

    /// The place of piece `number` of a chained item.
    pub fn piece(&self, number: usize) -> Place {
        let layout = self.layout();
        assert!(number < layout.pieces());
        let at = layout.piece_at(number);
        // SAFETY: `number` was checked, so the place lies in the head; it may be unaligned.
        Place(unsafe { self.start.add(at).cast::<u64>().read_unaligned() })
    }

    /// The bytes of value in piece `number` of a chained item.
    pub fn piece_value(&self, arena: &Arena, number: usize) -> &'a [u8] {
        let bytes = self.layout().piece_value_bytes(number);
        let start = arena.pointer(self.piece(number));
        // SAFETY: the piece was allocated with a chunk for its header and `bytes` of value, lives
        // as long as its owner, and nobody writes it during `'a`.
        unsafe { slice::from_raw_parts(start.add(PIECE_HEADER_BYTES).as_ptr(), bytes) }
    }

    /// Of a piece: the place of the item it belongs to.
    pub fn owner(&self) -> Place {
        debug_assert!(self.is_piece());
        // SAFETY: bytes 8 to 16 of a piece, aligned to 8.
        Place(unsafe { self.start.add(8).cast::<u64>().read() })
    }

    /// Of a piece: its number in its item.
    pub fn piece_number(&self) -> u32 {
        debug_assert!(self.is_piece());
        self.u32_at(4).load(Ordering::Relaxed)
    }
}

/// Lays out an item's head: everything but the mark, which stays 0, and the value. If the item has
/// a cost, `credit` is what its policy made of it.
///
/// # Safety
/// The caller owns the chunk at `place`, of at least `layout.head_bytes()`, and no other thread
/// reads more of it than its mark.
pub unsafe fn write_head(
    arena: &Arena,
    place: Place,
    layout: Layout,
    fields: &Fields,
    credit: u8,
    key: &[u8],
) {
    assert_eq!(layout.key_bytes(), key.len());
    let start = arena.pointer(place);
    // SAFETY: the caller owns the chunk, and the layout counted these fields into its size.
    unsafe {
        start.add(1).write(layout.key_bytes as u8);
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
        if layout.is_chained() {
            let field = start.add(layout.value_at()).cast::<u32>();
            field.write_unaligned(layout.piece_bytes);
        }
        if let Some(custom) = fields.custom_cas {
            start.add(layout.custom_at()).cast::<u64>().write_unaligned(custom.to_le());
        }
        if layout.has(SHAPE_COST) {
            start.add(layout.credit_at()).write(credit);
            start.add(layout.credit_at() + 1).cast::<u16>().write_unaligned(fields.cost.0);
        }
        start.add(layout.key_at()).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
    }
}

/// Changes what an unpublished item costs, and its credit.
///
/// # Safety
/// The caller owns the chunk at `place`, whose head was written with `layout`, which has a cost.
pub unsafe fn write_cost(arena: &Arena, place: Place, layout: Layout, credit: u8, cost: Cost) {
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

/// Lays out a piece's header, and enters the piece into its owner's list.
///
/// # Safety
/// The caller owns both chunks; the owner's head was written with a layout of more than `number`
/// pieces; no other thread reads more of either than its mark.
pub unsafe fn write_piece(
    arena: &Arena,
    owner: Place,
    layout: Layout,
    number: usize,
    piece: Place,
) {
    assert!(number < layout.pieces());
    let (head, start) = (arena.pointer(owner), arena.pointer(piece));
    // SAFETY: the caller owns both chunks, and the layout counted the list into the head's size.
    unsafe {
        start.add(1).write(0);
        start.add(2).cast::<u16>().write(0);
        start.add(4).cast::<u32>().write(number as u32);
        start.add(8).cast::<u64>().write(owner.0);
        let at = layout.piece_at(number);
        head.add(at).cast::<u64>().write_unaligned(piece.0);
    }
}

/// The bytes of an unpublished item's value from `from` on, as far as they are contiguous.
///
/// # Safety
/// The caller owns the item at `place`, laid out with `layout`, and uses at most one such slice at
/// a time.
pub unsafe fn value_mut<'a>(
    arena: &Arena,
    place: Place,
    layout: Layout,
    from: usize,
) -> &'a mut [u8] {
    assert!(from <= layout.value_bytes());
    // SAFETY: as promised by the caller; offsets and lengths are the layout's.
    unsafe {
        if !layout.is_chained() {
            let start = arena.pointer(place).add(layout.value_at() + from);
            return slice::from_raw_parts_mut(start.as_ptr(), layout.value_bytes() - from);
        }
        let (number, offset) = (from / layout.piece_bytes(), from % layout.piece_bytes());
        if number == layout.pieces() {
            return &mut [];
        }
        let piece = ItemRef::new(arena, place).piece(number);
        let start = arena.pointer(piece).add(PIECE_HEADER_BYTES + offset);
        slice::from_raw_parts_mut(start.as_ptr(), layout.piece_value_bytes(number) - offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::KEY_BYTES_MAX;

    const CHUNK_BYTES_MAX: usize = 128 << 10;

    fn arena() -> Arena {
        Arena::new(0, 2 << 20, 1).unwrap()
    }

    #[test]
    fn every_field_is_read_back_as_it_was_written() {
        let arena = arena();
        let place = Place(0);
        for bits in 0..32_u32 {
            for value_bytes in [0, 1, 1023, 1024, 70_000] {
                let fields = Fields {
                    flags: if bits & 1 != 0 { 0xdead_beef } else { 0 },
                    expiry: if bits & 2 != 0 { 1_900_000_000 } else { 0 },
                    expiry_reserved: bits & 2 != 0,
                    custom_cas: (bits & 4 != 0).then_some(u64::MAX - 5),
                    base64_key: bits & 8 != 0,
                    cost: Cost(if bits & 16 != 0 { 0xabcd } else { 0 }),
                    cost_reserved: bits & 16 != 0,
                };
                let key = vec![b'k'; 1 + (value_bytes + bits as usize) % KEY_BYTES_MAX];
                let layout = Layout::new(&fields, key.len(), value_bytes, CHUNK_BYTES_MAX);
                // SAFETY: the arena is this test's alone, and a head of this size fits its slab.
                let item = unsafe {
                    write_head(&arena, place, layout, &fields, 9, &key);
                    value_mut(&arena, place, layout, 0).fill(7);
                    ItemRef::new(&arena, place)
                };
                assert_eq!(item.layout(), layout);
                assert_eq!((item.key(), item.flags()), (&key[..], fields.flags));
                assert_eq!((item.expiry(), item.sequence()), (fields.expiry, 0));
                assert_eq!(item.custom_cas(), fields.custom_cas);
                assert_eq!(item.base64_key(), fields.base64_key);
                assert_eq!(item.cost(), fields.cost);
                let credit = item.credit().map(|credit| credit.load(Ordering::Relaxed));
                assert_eq!(credit, (bits & 16 != 0).then_some(9));
                assert_eq!(item.contiguous(), Some(&vec![7; value_bytes][..]));
                assert!(!item.is_piece());
            }
        }
    }
}
