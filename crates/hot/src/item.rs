//! An item as bytes: what stands in a chunk, and how it is read.
//!
//! ```text
//!   0      1       2        4            8        fields that are there only when used
//!   +------+-------+--------+------------+-------+--------+-------+---------+-----+-------+
//!   | mark | key   | shape  | sequence   | flags | expiry | long  | custom  | key | value |
//!   | u8   | bytes | u16    | u32        | u32   | u32    | u32   | cas u64 |     |       |
//!   +------+-------+--------+------------+-------+--------+-------+---------+-----+-------+
//!
//!   mark   7..4 stamp, 1 to 15: the minute of the last access, modulo 15. A mark of 0: no item
//!          3 stale   2 win token sent   1 fetched   0 recent
//!   shape  15 spare   14 custom cas   13 base64 key   12 long   11 expiry   10 flags
//!          9..0 value bytes, when not long
//! ```
//!
//! Eight bytes for an item without client flags and expiry, and each of these four more. There are
//! no list pointers, no pointer of the hash chain and no reference count: CLOCK needs one bit, the
//! index holds the places, and epochs keep readers safe.
//!
//! A value that does not fit the largest chunk is *chained*, which the top bit of `long` says. In
//! its place stand how many bytes of it a full piece has (u32) and then the places of its pieces, 8
//! bytes each; every piece is a chunk of its own that knows its owner:
//!
//! ```text
//!   0      1     2       4        8                16
//!   +------+-----+-------+--------+----------------+--------------------------+
//!   | mark | 0   | 0     | number | owner's place  | bytes of the value       |
//!   +------+-----+-------+--------+----------------+--------------------------+
//! ```
//!
//! Key, value, flags and the shape never change once the item is published. Mark, expiry and
//! sequence are atomic and may: the mark by any reader, the other two only under the lock of the
//! item's index table.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use memory::class::CHUNK_BYTES_MIN;
use memory::{Arena, Place};
use policy::clock::RECENT;
use stdx::units::GIB;

/// Bytes of an item's fixed header.
pub const HEADER_BYTES: usize = 8;
/// Bytes of a piece's header.
pub const PIECE_HEADER_BYTES: usize = 16;
/// Bytes before the list of pieces: how much of the value a full piece has.
const LIST_HEADER_BYTES: usize = 4;
/// In `long`: the value is chained.
const LONG_CHAINED: u32 = 1 << 31;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = GIB;

/// The mark's bit that says: read at least once since it was stored.
pub const FETCHED: u8 = 1 << 1;
/// The mark's bit that says: a client holds the win token.
pub const SENT: u8 = 1 << 2;
/// The mark's bit that says: invalidated, and not yet recomputed.
pub const STALE: u8 = 1 << 3;
const STAMP_SHIFT: u32 = 4;
/// Stamps are 1 to this.
const STAMPS: u32 = 15;
/// Seconds of one stamp.
const STAMP_SECONDS: u32 = 64;

const SHAPE_VALUE: u16 = (1 << 10) - 1;
const SHAPE_FLAGS: u16 = 1 << 10;
const SHAPE_EXPIRY: u16 = 1 << 11;
const SHAPE_LONG: u16 = 1 << 12;
const SHAPE_BASE64: u16 = 1 << 13;
const SHAPE_CUSTOM: u16 = 1 << 14;
/// From this bit on the shape says which fields there are.
const SHAPE_FIELDS_SHIFT: u32 = 10;

/// Where the key begins, for every combination of the five bits that say which fields there are:
/// every access to an item needs it.
const KEY_AT: [u8; 32] = {
    let mut table = [0; 32];
    let mut fields = 0;
    while fields < table.len() {
        let shape = (fields as u16) << SHAPE_FIELDS_SHIFT;
        let short = (shape & (SHAPE_FLAGS | SHAPE_EXPIRY | SHAPE_LONG)).count_ones() as usize;
        let custom = (shape & SHAPE_CUSTOM != 0) as usize;
        table[fields] = (HEADER_BYTES + 4 * short + 8 * custom) as u8;
        fields += 1;
    }
    table
};

const PLACE_BYTES: usize = size_of::<u64>();
const _: () = assert!((VALUE_BYTES_MAX as u32) < LONG_CHAINED);
const _: () = assert!(PIECE_HEADER_BYTES < CHUNK_BYTES_MIN);

/// What is to be stored beside key and value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// Client flags.
    pub flags: u32,
    /// Unix seconds at which the item is over; 0 never.
    pub expiry: u32,
    /// Make room for an expiry even if it is 0.
    pub expiry_reserved: bool,
    /// A CAS unique of the client's choice.
    pub custom_cas: Option<u64>,
    /// The client sent the key in base64.
    pub base64_key: bool,
}

/// How an item with certain fields, key and value lies in its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    shape: u16,
    key_bytes: u16,
    value_bytes: u32,
    /// Bytes of value in a full piece; 0 when the value is not chained.
    piece_bytes: u32,
}

impl Layout {
    /// The layout of a new item where chunks have at most `chunk_bytes_max`. Key 1 to 250 bytes,
    /// value at most 1 GiB.
    pub fn new(
        fields: &Fields,
        key_bytes: usize,
        value_bytes: usize,
        chunk_bytes_max: usize,
    ) -> Self {
        assert!((1..=KEY_BYTES_MAX).contains(&key_bytes) && value_bytes <= VALUE_BYTES_MAX);
        let mut shape = 0;
        if fields.flags != 0 {
            shape |= SHAPE_FLAGS;
        }
        if fields.expiry != 0 || fields.expiry_reserved {
            shape |= SHAPE_EXPIRY;
        }
        if fields.custom_cas.is_some() {
            shape |= SHAPE_CUSTOM;
        }
        if fields.base64_key {
            shape |= SHAPE_BASE64;
        }
        match u16::try_from(value_bytes) {
            Ok(short) if short <= SHAPE_VALUE => shape |= short,
            _ => shape |= SHAPE_LONG,
        }
        let mut layout = Self {
            shape,
            key_bytes: key_bytes as u16,
            value_bytes: value_bytes as u32,
            piece_bytes: 0,
        };
        if layout.value_at() + value_bytes > chunk_bytes_max {
            layout.piece_bytes = (chunk_bytes_max - PIECE_HEADER_BYTES) as u32;
            assert!(layout.head_bytes() <= chunk_bytes_max, "the list of pieces fits a chunk");
        }
        layout
    }

    fn has(&self, bit: u16) -> bool {
        self.shape & bit != 0
    }

    fn flags_at(&self) -> usize {
        HEADER_BYTES
    }

    fn expiry_at(&self) -> usize {
        HEADER_BYTES + 4 * usize::from(self.has(SHAPE_FLAGS))
    }

    fn long_at(&self) -> usize {
        self.expiry_at() + 4 * usize::from(self.has(SHAPE_EXPIRY))
    }

    fn custom_at(&self) -> usize {
        self.long_at() + 4 * usize::from(self.has(SHAPE_LONG))
    }

    #[inline]
    fn key_at(&self) -> usize {
        usize::from(KEY_AT[usize::from(self.shape >> SHAPE_FIELDS_SHIFT) % KEY_AT.len()])
    }

    #[inline]
    fn value_at(&self) -> usize {
        self.key_at() + self.key_bytes()
    }

    #[inline]
    fn key_bytes(&self) -> usize {
        usize::from(self.key_bytes)
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes as usize
    }

    #[inline]
    fn piece_bytes(&self) -> usize {
        self.piece_bytes as usize
    }

    /// Whether the value lies in pieces.
    #[inline]
    pub fn is_chained(&self) -> bool {
        self.piece_bytes != 0
    }

    /// How many pieces the value has; 0 when it is not chained.
    pub fn pieces(&self) -> usize {
        if self.is_chained() { self.value_bytes().div_ceil(self.piece_bytes()) } else { 0 }
    }

    /// Bytes of value in piece `number`.
    pub fn piece_value_bytes(&self, number: usize) -> usize {
        (self.value_bytes() - number * self.piece_bytes()).min(self.piece_bytes())
    }

    /// Where the place of piece `number` stands in the head.
    fn piece_at(&self, number: usize) -> usize {
        debug_assert!(number < self.pieces());
        self.value_at() + LIST_HEADER_BYTES + number * PLACE_BYTES
    }

    /// Bytes of the first chunk: all of an item that is not chained.
    pub fn head_bytes(&self) -> usize {
        let list = LIST_HEADER_BYTES + self.pieces() * PLACE_BYTES;
        self.value_at() + if self.is_chained() { list } else { self.value_bytes() }
    }

    /// Bytes of header, key and value: what the item limit is compared with.
    pub fn item_bytes(&self) -> usize {
        self.value_at() + self.value_bytes()
    }

    /// Bytes of all chunks together, headers included.
    pub fn total_bytes(&self) -> usize {
        let pieces = self.pieces();
        let value = if pieces > 0 { self.value_bytes() + pieces * PIECE_HEADER_BYTES } else { 0 };
        self.head_bytes() + value
    }
}

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

/// Lays out an item's head: everything but the mark, which stays 0, and the value.
///
/// # Safety
/// The caller owns the chunk at `place`, of at least `layout.head_bytes()`, and no other thread
/// reads more of it than its mark.
pub unsafe fn write_head(arena: &Arena, place: Place, layout: Layout, fields: &Fields, key: &[u8]) {
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
        start.add(layout.key_at()).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
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

/// The mark of an item that is published at `now` (Unix seconds).
pub fn fresh_mark(now: u32) -> u8 {
    stamp(now) << STAMP_SHIFT
}

/// The mark after a hit at `now`.
#[inline]
pub fn hit_mark(mark: u8, now: u32) -> u8 {
    (mark & (SENT | STALE)) | stamp(now) << STAMP_SHIFT | FETCHED | RECENT
}

/// Seconds since the last access that left a stamp: exact to a minute for a quarter of an hour,
/// and after that at least this much.
pub fn idle_seconds(mark: u8, now: u32) -> u32 {
    let (then, now_stamp) = (u32::from(mark >> STAMP_SHIFT), u32::from(stamp(now)));
    let minutes = (now_stamp + STAMPS - then) % STAMPS;
    if minutes == 0 { 0 } else { (minutes - 1) * STAMP_SECONDS + now % STAMP_SECONDS }
}

fn stamp(now: u32) -> u8 {
    (now / STAMP_SECONDS % STAMPS + 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_BYTES_MAX: usize = 128 << 10;

    fn arena() -> Arena {
        Arena::new(0, 2 << 20, 1).unwrap()
    }

    #[test]
    fn every_field_is_read_back_as_it_was_written() {
        let arena = arena();
        let place = Place(0);
        for bits in 0..16_u32 {
            for value_bytes in [0, 1, 1023, 1024, 70_000] {
                let fields = Fields {
                    flags: if bits & 1 != 0 { 0xdead_beef } else { 0 },
                    expiry: if bits & 2 != 0 { 1_900_000_000 } else { 0 },
                    expiry_reserved: bits & 2 != 0,
                    custom_cas: (bits & 4 != 0).then_some(u64::MAX - 5),
                    base64_key: bits & 8 != 0,
                };
                let key = vec![b'k'; 1 + (value_bytes + bits as usize) % KEY_BYTES_MAX];
                let layout = Layout::new(&fields, key.len(), value_bytes, CHUNK_BYTES_MAX);
                // SAFETY: the arena is this test's alone, and a head of this size fits its slab.
                let item = unsafe {
                    write_head(&arena, place, layout, &fields, &key);
                    value_mut(&arena, place, layout, 0).fill(7);
                    ItemRef::new(&arena, place)
                };
                assert_eq!(item.layout(), layout);
                assert_eq!((item.key(), item.flags()), (&key[..], fields.flags));
                assert_eq!((item.expiry(), item.sequence()), (fields.expiry, 0));
                assert_eq!(item.custom_cas(), fields.custom_cas);
                assert_eq!(item.base64_key(), fields.base64_key);
                assert_eq!(item.contiguous(), Some(&vec![7; value_bytes][..]));
                assert!(!item.is_piece());
            }
        }
    }

    #[test]
    fn a_plain_item_has_eight_bytes_beside_key_and_value() {
        let layout = Layout::new(&Fields::default(), 16, 32, CHUNK_BYTES_MAX);
        assert_eq!(layout.head_bytes(), 56);
        assert_eq!(layout.total_bytes(), 56);
    }

    #[test]
    fn a_value_is_chained_exactly_when_it_no_longer_fits() {
        let fields = Fields::default();
        let layout = |value_bytes| Layout::new(&fields, 10, value_bytes, CHUNK_BYTES_MAX);
        // 8 bytes of header, 4 of long length, 10 of key.
        let fits = CHUNK_BYTES_MAX - 22;
        assert_eq!(layout(fits).pieces(), 0);
        let chained = layout(fits + 1);
        assert_eq!((chained.pieces(), chained.head_bytes()), (1, 22 + 4 + 8));
        let long = layout(3 * (CHUNK_BYTES_MAX - PIECE_HEADER_BYTES) + 1);
        assert_eq!(long.pieces(), 4);
        assert_eq!(long.piece_value_bytes(3), 1);
        assert!(layout(VALUE_BYTES_MAX).head_bytes() <= CHUNK_BYTES_MAX);
    }

    #[test]
    fn a_mark_is_never_zero_and_tells_the_minutes() {
        for now in (0..4000).step_by(7) {
            let mark = fresh_mark(now);
            assert!(mark != 0 && mark & (RECENT | FETCHED | SENT | STALE) == 0);
            assert_eq!(idle_seconds(mark, now), 0);
            assert!(idle_seconds(mark, now + 600) <= 600);
            assert!(idle_seconds(mark, now + 600) >= 600 - STAMP_SECONDS);
        }
        let hit = hit_mark(fresh_mark(100) | SENT, 200);
        assert_eq!(hit & 15, SENT | FETCHED | RECENT);
        assert_eq!(hit_mark(hit, 200), hit);
    }
}
