//! How an item lies in its chunk: which fields there are, and where each begins.
//!
//! ```text
//!   0      1       2       4      8       fields that are there only when used
//!   +------+-------+-------+------+-------+--------+------+-------+--------+------+-----+-------+
//!   | mark | key   | shape | sequ | flags | expiry | long | extra | custom | cost | key | value |
//!   | u8   | bytes | u16   | ence | u32   | u32    | u32  | u32   | u64    | 3 B  |     |       |
//!   +------+-------+-------+------+-------+--------+------+-------+--------+------+-----+-------+
//!
//!   mark   see `mark`. A mark of 0: no item
//!   shape  15 cost   14 custom cas   13 extra   12 long   11 expiry   10 flags
//!          9..0 value bytes, when not long
//!   extra  10 base64 key   9..0 milliseconds by which the item expires before its expiry
//!   cost   0 credit, which belongs to the hand   1..2 the cost of making the item again
//! ```
//!
//! Eight bytes for an item without client flags, expiry and cost; four more for each of the first
//! two and three for a cost. There are no list pointers, no pointer of the hash chain and no
//! reference count: CLOCK needs one bit, the index holds the places, and epochs keep readers safe.
//!
//! A value that does not fit the largest chunk is *chained*, which the top bit of `long` says. In
//! its place stand the bytes of it that a full piece has (u32) and then the places of its pieces, 8
//! bytes each; every piece is a chunk of its own that knows its owner:
//!
//! ```text
//!   0      1     2       4        8                16
//!   +------+-----+-------+--------+----------------+--------------------------+
//!   | mark | 0   | 0     | number | owner's place  | bytes of the value       |
//!   +------+-----+-------+--------+----------------+--------------------------+
//! ```
//!
//! That is their layout in a whole chunk. In a split one (see [`chunk`](crate::chunk)) the fields
//! are in the head, the key behind them if it fits there and otherwise in the tail, and the value
//! is in the tail, behind the key if that is there too; a piece has its bytes of the value in the
//! tail. Then the second byte of an item is 255, the third of a piece 1, and the last four of the
//! head hold the rest:
//!
//! ```text
//!   0      1       2        4                                 60      61                  64
//!   +------+-------+--------+------------+--------+-----------+-------+-------------------+
//!   | mark | 255   | shape  | sequence   | ...    | key       | key   | bytes from here   |
//!   | u8   |       | u16    | u32        |        |           | bytes | to the tail / 8   |
//!   +------+-------+--------+------------+--------+-----------+-------+-------------------+
//! ```

use memory::class::CHUNK_BYTES_MIN;
use policy::cost::Cost;
use stdx::units::GIB;

use crate::chunk::{ChunkFormat, ChunkNeed, HEAD_BYTES, TAIL_WORD_AT};

/// Bytes of an item's fixed header.
pub const HEADER_BYTES: usize = 8;
/// Bytes of a piece's header.
pub const PIECE_HEADER_BYTES: usize = 16;
/// Bytes of a cost and of the credit before it.
pub(crate) const COST_BYTES: usize = 3;
/// Bytes before the list of pieces: the bytes of value in a full piece.
pub(crate) const LIST_HEADER_BYTES: usize = 4;
/// In `long`: the value is chained.
pub(crate) const LONG_CHAINED: u32 = 1 << 31;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = GIB;

/// In place of an item's key length: its chunk is split.
pub(crate) const KEY_IS_SPLIT: u8 = u8::MAX;
/// In place of a piece's shape, which is 0 otherwise: its chunk is split.
pub(crate) const PIECE_IS_SPLIT: u16 = 1;

pub(crate) const SHAPE_VALUE: u16 = (1 << 10) - 1;
pub(crate) const SHAPE_FLAGS: u16 = 1 << 10;
pub(crate) const SHAPE_EXPIRY: u16 = 1 << 11;
pub(crate) const SHAPE_LONG: u16 = 1 << 12;
pub(crate) const SHAPE_EXTRA: u16 = 1 << 13;
pub(crate) const SHAPE_CUSTOM: u16 = 1 << 14;
pub(crate) const SHAPE_COST: u16 = 1 << 15;
/// The first of the shape's bits that say which fields there are.
const SHAPE_FIELDS_SHIFT: u32 = 10;

/// In `extra`: the milliseconds by which the item expires before `expiry`.
pub(crate) const EXTRA_EARLY: u32 = (1 << 10) - 1;
/// In `extra`: the client sent the key in base64.
pub(crate) const EXTRA_BASE64: u32 = 1 << 10;

/// Where the key begins, for every combination of the six bits that say which fields there are:
/// every access to an item needs it.
const KEY_AT: [u8; 64] = {
    let mut table = [0; 64];
    let mut fields = 0;
    while fields < table.len() {
        let shape = (fields as u16) << SHAPE_FIELDS_SHIFT;
        let short =
            (shape & (SHAPE_FLAGS | SHAPE_EXPIRY | SHAPE_LONG | SHAPE_EXTRA)).count_ones() as usize;
        let custom = (shape & SHAPE_CUSTOM != 0) as usize;
        let cost = (shape & SHAPE_COST != 0) as usize;
        table[fields] = (HEADER_BYTES + 4 * short + 8 * custom + COST_BYTES * cost) as u8;
        fields += 1;
    }
    table
};

const PLACE_BYTES: usize = size_of::<u64>();
const _: () = assert!((VALUE_BYTES_MAX as u32) < LONG_CHAINED);
const _: () = assert!(PIECE_HEADER_BYTES < CHUNK_BYTES_MIN);
// All fields of an item are in the head of a split chunk.
const _: () = assert!((KEY_AT[KEY_AT.len() - 1] as usize) < TAIL_WORD_AT);
const _: () = assert!(KEY_BYTES_MAX < KEY_IS_SPLIT as usize);

/// The fields to be stored beside key and value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// Client flags.
    pub flags: u32,
    /// Unix seconds at which the item expires; 0 never.
    pub expiry: u32,
    /// Milliseconds by which the item expires earlier, 999 at most.
    pub early_ms: u16,
    /// Reserves room for an expiry even if it is 0.
    pub expiry_reserved: bool,
    /// A CAS unique of the client's choice.
    pub custom_cas: Option<u64>,
    /// The client sent the key in base64.
    pub base64_key: bool,
    /// The cost of making the item again.
    pub cost: Cost,
    /// Reserves room for a cost even if it is unknown.
    pub cost_reserved: bool,
}

impl Fields {
    /// The fields that are rare, in one word; 0 without any of them.
    #[inline]
    pub(crate) fn extra(&self) -> u32 {
        debug_assert!(u32::from(self.early_ms) <= EXTRA_EARLY);
        u32::from(self.early_ms) | if self.base64_key { EXTRA_BASE64 } else { 0 }
    }
}

/// How an item with certain fields, key and value lies in its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(crate) shape: u16,
    pub(crate) key_bytes: u16,
    pub(crate) value_bytes: u32,
    /// Bytes of value in a full piece; 0 when the value is not chained.
    pub(crate) piece_bytes: u32,
}

impl Layout {
    /// The layout of a new item where the largest chunks have this format. Key 1 to 250 bytes,
    /// value at most 1 GiB.
    pub(crate) fn new(
        fields: &Fields,
        key_bytes: usize,
        value_bytes: usize,
        largest: ChunkFormat,
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
        if fields.extra() != 0 {
            shape |= SHAPE_EXTRA;
        }
        if fields.cost.is_known() || fields.cost_reserved {
            shape |= SHAPE_COST;
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
        if !largest.holds(layout.need_with(value_bytes, largest.is_split)) {
            layout.piece_bytes = largest.piece_bytes() as u32;
            let need = layout.need(largest.is_split);
            assert!(largest.holds(need), "the list of pieces fits a chunk");
        }
        layout
    }

    pub(crate) fn has(&self, bit: u16) -> bool {
        self.shape & bit != 0
    }

    pub(crate) fn flags_at(&self) -> usize {
        HEADER_BYTES
    }

    pub(crate) fn expiry_at(&self) -> usize {
        HEADER_BYTES + 4 * usize::from(self.has(SHAPE_FLAGS))
    }

    pub(crate) fn long_at(&self) -> usize {
        self.expiry_at() + 4 * usize::from(self.has(SHAPE_EXPIRY))
    }

    pub(crate) fn extra_at(&self) -> usize {
        self.long_at() + 4 * usize::from(self.has(SHAPE_LONG))
    }

    pub(crate) fn custom_at(&self) -> usize {
        self.extra_at() + 4 * usize::from(self.has(SHAPE_EXTRA))
    }

    /// Where the credit stands, and the cost behind it; only for an item that has a cost.
    pub(crate) fn credit_at(&self) -> usize {
        self.key_at() - COST_BYTES
    }

    #[inline]
    pub(crate) fn key_at(&self) -> usize {
        usize::from(KEY_AT[usize::from(self.shape >> SHAPE_FIELDS_SHIFT) % KEY_AT.len()])
    }

    #[inline]
    pub(crate) fn value_at(&self) -> usize {
        self.key_at() + self.key_bytes()
    }

    #[inline]
    pub(crate) fn key_bytes(&self) -> usize {
        usize::from(self.key_bytes)
    }

    /// Bytes of the value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes as usize
    }

    #[inline]
    pub(crate) fn piece_bytes(&self) -> usize {
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

    /// Where the place of piece `number` stands, counted from where the value would begin.
    pub(crate) fn piece_at(&self, number: usize) -> usize {
        debug_assert!(number < self.pieces());
        LIST_HEADER_BYTES + number * PLACE_BYTES
    }

    /// Whether the key is in the head if the chunk is split.
    #[inline]
    pub(crate) fn has_key_in_head(&self) -> bool {
        self.value_at() <= TAIL_WORD_AT
    }

    /// The need of the first chunk: all of an item that is not chained. `may_split` says whether
    /// any chunks are split, so that nothing is computed for them where none are.
    #[inline]
    pub(crate) fn need(&self, may_split: bool) -> ChunkNeed {
        let body = if self.is_chained() {
            LIST_HEADER_BYTES + self.pieces() * PLACE_BYTES
        } else {
            self.value_bytes()
        };
        self.need_with(body, may_split)
    }

    /// The need with `body` bytes in the value's place.
    #[inline]
    fn need_with(&self, body: usize, may_split: bool) -> ChunkNeed {
        let whole = (self.value_at() + body) as u32;
        if !may_split {
            return ChunkNeed { whole, split: whole };
        }
        let key = if self.has_key_in_head() { 0 } else { self.key_bytes() };
        ChunkNeed { whole, split: (HEAD_BYTES + key + body) as u32 }
    }

    /// The need of the chunk of piece `number`.
    pub(crate) fn piece_need(&self, number: usize) -> ChunkNeed {
        let bytes = self.piece_value_bytes(number);
        ChunkNeed { whole: (PIECE_HEADER_BYTES + bytes) as u32, split: (HEAD_BYTES + bytes) as u32 }
    }

    /// Bytes of header, key and value, which the item limit is compared with.
    pub fn item_bytes(&self) -> usize {
        self.value_at() + self.value_bytes()
    }

    /// Bytes of all chunks together, headers included.
    pub fn total_bytes(&self) -> usize {
        self.bytes_with(self.pieces())
    }

    /// Bytes of the first chunk and this many pieces.
    pub(crate) fn bytes_with(&self, pieces: usize) -> usize {
        let values = (pieces * self.piece_bytes()).min(self.value_bytes());
        self.need(false).whole as usize + values + pieces * PIECE_HEADER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_BYTES_MAX: usize = 128 << 10;
    const WHOLE: ChunkFormat = ChunkFormat { bytes: CHUNK_BYTES_MAX, is_split: false };
    const SPLIT: ChunkFormat = ChunkFormat { bytes: CHUNK_BYTES_MAX, is_split: true };

    #[test]
    fn a_plain_item_has_eight_bytes_beside_key_and_value() {
        let layout = Layout::new(&Fields::default(), 16, 32, WHOLE);
        assert_eq!(layout.need(false).whole, 56);
        assert_eq!(layout.total_bytes(), 56);
    }

    #[test]
    fn a_value_is_chained_exactly_when_it_no_longer_fits() {
        let fields = Fields::default();
        // 8 bytes of header, 4 of long length, 10 of key: the key fits a head.
        let header = 22;
        for (format, before_value, piece_header, pieces) in
            [(WHOLE, header, PIECE_HEADER_BYTES, 1), (SPLIT, HEAD_BYTES, HEAD_BYTES, 2)]
        {
            let layout = |value_bytes| Layout::new(&fields, 10, value_bytes, format);
            let fits = CHUNK_BYTES_MAX - before_value;
            assert_eq!(layout(fits).pieces(), 0);
            let chained = layout(fits + 1);
            let list = 4 + 8 * pieces as u32;
            let need = ChunkNeed { whole: header as u32 + list, split: HEAD_BYTES as u32 + list };
            assert_eq!((chained.pieces(), chained.need(true)), (pieces, need));
            let long = layout(3 * (CHUNK_BYTES_MAX - piece_header) + 1);
            assert_eq!(long.pieces(), 4);
            assert_eq!(long.piece_value_bytes(3), 1);
            assert!(format.holds(long.piece_need(0)) && format.holds(long.piece_need(3)));
            assert!(format.holds(layout(VALUE_BYTES_MAX).need(format.is_split)));
        }
    }

    #[test]
    fn a_key_is_in_the_head_exactly_when_it_fits() {
        let need = |fields: &Fields, key_bytes| {
            let layout = Layout::new(fields, key_bytes, 100, SPLIT);
            (layout.has_key_in_head(), layout.need(true))
        };
        let plain = Fields::default();
        assert_eq!(need(&plain, 52), (true, ChunkNeed { whole: 160, split: 164 }));
        assert_eq!(need(&plain, 53), (false, ChunkNeed { whole: 161, split: 64 + 53 + 100 }));
        let all = Fields {
            flags: 1,
            expiry: 1,
            custom_cas: Some(1),
            cost: Cost::from_us(1),
            ..Fields::default()
        };
        assert_eq!(need(&all, 33).1, ChunkNeed { whole: 160, split: 164 });
        assert_eq!(need(&all, 34).1, ChunkNeed { whole: 161, split: 64 + 34 + 100 });
        // One word for both of these.
        let all = Fields { early_ms: 999, base64_key: true, ..all };
        assert_eq!(need(&all, 29).1, ChunkNeed { whole: 160, split: 164 });
        assert_eq!(need(&all, 30).1, ChunkNeed { whole: 161, split: 64 + 30 + 100 });
    }
}
