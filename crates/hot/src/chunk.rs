//! A chunk: where its bytes lie in its slab, in one piece or in two.
//!
//! ```text
//!   whole   | chunk 0         | chunk 1         |  ...  | chunk n-1       |
//!           0                 C                                           n * C
//!
//!   split   | head 0 | head 1 | ... | head n-1 | tail 0  | tail 1  | ... | tail n-1 |
//!           0        H                         n * H     n * H + T                  n * C
//! ```
//!
//! A *split* chunk of C bytes has a head of H = 64, one cache line, in the row of heads at the
//! slab's start, and a tail of T = C - H in the row of tails behind it. Both rows together are as
//! long as n whole chunks: the division itself takes no byte. A place is the address of the head,
//! so the mark, the links of free chunks and everything that finds a chunk by its number are the
//! same for both.
//!
//! It is Cavast's separation of keys and values (Wang, Liu and Chen, "Put an Elephant into a
//! Fridge", PVLDB 13(9), 2020), with an item's metadata first and its contents behind: the hand, a
//! sweep or a lookup that misses, which look at keys and marks alone, read a dense row of heads,
//! and no value takes part of their lines. What differs: there the two rows grow towards one
//! another, and here both grow upwards, since all chunks of a slab have one size and it is known
//! where the tails begin; that keeps the tails in the order of the heads, and the first at the
//! start of a line. As there, an item has three bytes that say where its tail is. The chunk's
//! number and the slab's sizes say so too, and the writer uses those; but a reader would have to
//! look them up, which is another line where there are many slabs, and would carry two addresses
//! about for every item, which cost the default layout 3 to 5 % more instructions a request.
//!
//! What it costs: those three bytes and one more ([`TailWord`]); the bytes of the head behind
//! header and key, which stay empty, or behind the header if the key does not fit there, since a
//! key and a value are one slice each ([`Layout::need`]). A small chunk would be mostly head. Up to
//! [`WHOLE_BYTES_MAX`] it is whole, as all are by default.
//!
//! [`Layout::need`]: crate::Layout::need

use std::ptr::NonNull;

use memory::arena::{PLACE_UNIT_BYTES, SLAB_BYTES_MAX};
use stdx::prefetch;
use stdx::units::CACHE_LINE;

use crate::layout::{Layout, PIECE_HEADER_BYTES};

/// Bytes of the head of a split chunk: one cache line, at which it also begins.
pub(crate) const HEAD_BYTES: usize = CACHE_LINE;
/// Bytes up to which a chunk is never split: its header, key and value take two lines at most
/// anyway.
pub(crate) const WHOLE_BYTES_MAX: usize = 2 * HEAD_BYTES;

/// Where a head has its [`TailWord`]: behind all else.
pub(crate) const TAIL_WORD_AT: usize = HEAD_BYTES - size_of::<TailWord>();

const _: () = assert!(PIECE_HEADER_BYTES <= TAIL_WORD_AT);

/// How chunks lie in their slabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChunkLayout {
    /// Header, key and value side by side.
    #[default]
    Inline,
    /// Headers and keys in one row and values in another, in all chunks but small ones.
    Split,
}

/// The size and the cut of all chunks of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkFormat {
    /// Bytes of a chunk.
    pub(crate) bytes: usize,
    pub(crate) is_split: bool,
}

impl ChunkFormat {
    /// The format of chunks of `bytes` bytes under this layout.
    pub(crate) fn new(bytes: usize, layout: ChunkLayout) -> Self {
        Self { bytes, is_split: layout == ChunkLayout::Split && bytes > WHOLE_BYTES_MAX }
    }

    /// Bytes from the place of a chunk to that of the next.
    pub(crate) fn stride(self) -> usize {
        if self.is_split { HEAD_BYTES } else { self.bytes }
    }

    /// The bytes that a chunk of this format needs.
    pub(crate) fn bytes_of(self, need: ChunkNeed) -> usize {
        if self.is_split { need.split as usize } else { need.whole as usize }
    }

    /// Whether a chunk of this format meets the need.
    pub(crate) fn holds(self, need: ChunkNeed) -> bool {
        self.bytes_of(need) <= self.bytes
    }

    /// Bytes of a chained item's value in a piece that is one of these chunks.
    pub(crate) fn piece_bytes(self) -> usize {
        self.bytes - if self.is_split { HEAD_BYTES } else { PIECE_HEADER_BYTES }
    }
}

/// The size that a chunk has to have, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkNeed {
    pub(crate) whole: u32,
    /// Never less: what does not fit a whole chunk does not fit a split one of the same size.
    pub(crate) split: u32,
}

/// The last bytes of a used split chunk's head: the length of its key in the lowest byte, and the
/// distance to the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TailWord(pub(crate) u32);

const _: () = assert!(SLAB_BYTES_MAX / PLACE_UNIT_BYTES <= 1 << (u32::BITS - u8::BITS));

impl TailWord {
    pub(crate) fn new(bytes: usize, key_bytes: u8) -> Self {
        debug_assert!(bytes.is_multiple_of(PLACE_UNIT_BYTES) && bytes < SLAB_BYTES_MAX);
        Self(((bytes / PLACE_UNIT_BYTES) as u32) << u8::BITS | u32::from(key_bytes))
    }

    #[inline]
    pub(crate) fn key_bytes(self) -> u8 {
        self.0 as u8
    }

    /// Bytes from the head to the tail.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        (self.0 >> u8::BITS) as usize * PLACE_UNIT_BYTES
    }
}

/// A chunk's address, or both of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) head: NonNull<u8>,
    tail: Option<NonNull<u8>>,
}

impl Chunk {
    /// A chunk in one piece.
    #[inline]
    pub(crate) fn whole(start: NonNull<u8>) -> Self {
        Self { head: start, tail: None }
    }

    /// A chunk in two pieces.
    #[inline]
    pub(crate) fn split(head: NonNull<u8>, tail: NonNull<u8>) -> Self {
        Self { head, tail: Some(tail) }
    }

    #[inline]
    pub(crate) fn is_split(self) -> bool {
        self.tail.is_some()
    }

    /// Bytes from the head to the tail, which lies behind it, if the chunk is split.
    pub(crate) fn tail_bytes_away(self) -> Option<usize> {
        self.tail.map(|tail| tail.as_ptr() as usize - self.head.as_ptr() as usize)
    }

    /// Where the key of an item with this layout begins.
    #[inline]
    pub(crate) fn key(self, layout: &Layout) -> NonNull<u8> {
        if let Some(tail) = self.tail
            && !layout.has_key_in_head()
        {
            return tail;
        }
        // SAFETY: the writer of the item chose a chunk, or a head, that holds header and key.
        unsafe { self.head.add(layout.key_at()) }
    }

    /// Where the value of an item with this layout begins, or a chained item's list of pieces.
    #[inline]
    pub(crate) fn value(self, layout: &Layout) -> NonNull<u8> {
        let Some(tail) = self.tail else {
            // SAFETY: the layout counted the value into the chunk, which begins here.
            return unsafe { self.head.add(layout.value_at()) };
        };
        let behind = if layout.has_key_in_head() { 0 } else { layout.key_bytes() };
        // SAFETY: the layout counted the key, if it is not in the head, and the value into the
        // tail.
        unsafe { tail.add(behind) }
    }

    /// Prefetches the first cache lines: header, key and a short value, which a head lacks.
    #[inline]
    pub(crate) fn prefetch(self) {
        let bytes = if self.is_split() { HEAD_BYTES } else { FIRST_BYTES };
        lines(self.head, bytes).for_each(prefetch::read);
    }

    /// Prefetches the cache lines of a chunk of `bytes` bytes for reading.
    #[inline]
    pub(crate) fn prefetch_whole(self, bytes: usize) {
        self.for_each_line(bytes, prefetch::read);
    }

    /// Prefetches them for writing an item. Otherwise the writes of its value wait for each line,
    /// and so does the next read of anything written before them.
    #[inline]
    pub(crate) fn prefetch_for_writing(self, bytes: usize) {
        self.for_each_line(bytes, prefetch::write);
    }

    #[inline(always)]
    fn for_each_line(self, bytes: usize, mut ask: impl FnMut(*const u8)) {
        let Some(tail) = self.tail else {
            return all_lines(self.head, bytes.min(WHOLE_PREFETCH_BYTES_MAX)).for_each(ask);
        };
        ask(self.head.as_ptr());
        all_lines(tail, (bytes - HEAD_BYTES).min(WHOLE_PREFETCH_BYTES_MAX)).for_each(ask);
    }

    /// Where a piece has its part of a value.
    #[inline]
    pub(crate) fn piece_value(self) -> NonNull<u8> {
        // SAFETY: a whole chunk of any size is longer than this header (asserted in `layout`).
        self.tail.unwrap_or_else(|| unsafe { self.head.add(PIECE_HEADER_BYTES) })
    }
}

/// Bytes of a whole chunk that hold header, key and a short value.
pub(crate) const FIRST_BYTES: usize = 2 * CACHE_LINE;
/// Bytes that are prefetched at most: a longer copy is prefetched by the processor, which sees
/// where it is going.
const WHOLE_PREFETCH_BYTES_MAX: usize = 16 * CACHE_LINE;

/// The addresses of the cache lines of `bytes` bytes, but for one if they do not begin with a line.
#[inline(always)]
fn lines(start: NonNull<u8>, bytes: usize) -> impl Iterator<Item = *const u8> {
    (0..bytes).step_by(CACHE_LINE).map(move |at| start.as_ptr().wrapping_add(at).cast_const())
}

/// The addresses of all of them, from the start of the first line.
#[inline(always)]
fn all_lines(start: NonNull<u8>, bytes: usize) -> impl Iterator<Item = *const u8> {
    let in_line = start.as_ptr().addr() % CACHE_LINE;
    let first = start.as_ptr().wrapping_sub(in_line).cast_const();
    (0..in_line + bytes).step_by(CACHE_LINE).map(move |at| first.wrapping_add(at))
}
