//! The frames of a block: pieces of a few rows, each compressed by itself.
//!
//! ```text
//!   fingerprints of rows     | 0  1  2  3 | 4  5 | 6  7  8 |
//!   heads of frames          |  4 rows    |  2   |  3      |   5 bytes each
//!   stored bytes             | frame 0         | frame 1 | frame 2 |
//!
//!   bit 0      6       12          26             40
//!   +---------+-------+-----------+--------------+
//!   | rows    | longs | raw bytes | stored bytes |
//!   +---------+-------+-----------+--------------+
//! ```
//!
//! With a trained dictionary the ratio hardly depends on how much is compressed at a time, but time
//! is linear in it. So a lookup decodes one frame, and an insertion encodes one.
//!
//! A frame has as many rows as fit into [`FRAME_BYTES`] and its head can count, and one at least;
//! behind the last one, a few newcomers may wait to join it, each in a frame of its own
//! ([`mod@crate::append`]). If compressing a frame does not pay it is stored as it is: then its
//! stored bytes are as many as its raw ones. `longs` says how many of its rows are long, so that
//! the slots of a frame's rows are known without decoding those before it.
//!
//! Heads may be damaged: [`Frames::read`] trusts none of them unless their sums agree with the
//! block's head.

use std::ops::Range;

use codec::Damaged;

use crate::block::Head;
use crate::zone::BLOCK_BYTES_RANGE;

/// Raw bytes of a frame, unless a single row has more.
pub(crate) const FRAME_BYTES: usize = 1 << 10;
/// The most rows of a frame, which its head can count.
pub(crate) const FRAME_ROWS_MAX: usize = (1 << COUNT_BITS) - 1;
/// Bytes of a frame's head.
pub(crate) const FRAME_HEAD_BYTES: usize = 5;

/// Bits of the head for each count of rows...
const COUNT_BITS: u32 = 6;
/// ... and for each count of bytes.
const LENGTH_BITS: u32 = 14;

const _: () = assert!(2 * (COUNT_BITS + LENGTH_BITS) == 8 * FRAME_HEAD_BYTES as u32);
// A frame that is longer than others has one row, and anything over half a block is no row.
const _: () = assert!(FRAME_BYTES < 1 << LENGTH_BITS);
const _: () = assert!(*BLOCK_BYTES_RANGE.end() / 2 < 1 << LENGTH_BITS);

/// The head of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) rows: u8,
    pub(crate) longs: u8,
    pub(crate) raw_bytes: u16,
    pub(crate) stored_bytes: u16,
}

impl FrameHead {
    fn read(&[b0, b1, b2, b3, b4]: &[u8; FRAME_HEAD_BYTES]) -> Self {
        let word = u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0]);
        let part = |from: u32, bits: u32| word >> from & ((1 << bits) - 1);
        Self {
            rows: part(0, COUNT_BITS) as u8,
            longs: part(COUNT_BITS, COUNT_BITS) as u8,
            raw_bytes: part(2 * COUNT_BITS, LENGTH_BITS) as u16,
            stored_bytes: part(2 * COUNT_BITS + LENGTH_BITS, LENGTH_BITS) as u16,
        }
    }

    /// The head as it stands in a block.
    pub(crate) fn bytes(&self) -> [u8; FRAME_HEAD_BYTES] {
        debug_assert!(self.rows.max(self.longs) < 1 << COUNT_BITS, "{self:?}");
        debug_assert!(self.raw_bytes.max(self.stored_bytes) < 1 << LENGTH_BITS, "{self:?}");
        let word = u64::from(self.rows)
            | u64::from(self.longs) << COUNT_BITS
            | u64::from(self.raw_bytes) << (2 * COUNT_BITS)
            | u64::from(self.stored_bytes) << (2 * COUNT_BITS + LENGTH_BITS);
        let [b0, b1, b2, b3, b4, ..] = word.to_le_bytes();
        [b0, b1, b2, b3, b4]
    }
}

/// A frame, and where in the block it stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) head: FrameHead,
    /// Which of the frames.
    pub(crate) index: usize,
    /// Rows before it.
    pub(crate) first_rank: usize,
    /// Long rows before it.
    pub(crate) first_long: usize,
    /// Stored bytes before it.
    pub(crate) stored_at: usize,
}

impl Frame {
    /// The ranks of its rows.
    pub(crate) fn ranks(&self) -> Range<usize> {
        self.first_rank..self.first_rank + usize::from(self.head.rows)
    }

    /// The range of its rows' slots among the block's slots of long values.
    pub(crate) fn longs(&self) -> Range<usize> {
        self.first_long..self.first_long + usize::from(self.head.longs)
    }

    /// Where it lies among the stored bytes.
    pub(crate) fn stored(&self) -> Range<usize> {
        self.stored_at..self.stored_at + usize::from(self.head.stored_bytes)
    }

    /// The place of the frame behind it, which has no rows yet.
    pub(crate) fn following(&self) -> Self {
        Self {
            head: FrameHead::default(),
            index: self.index + 1,
            first_rank: self.ranks().end,
            first_long: self.longs().end,
            stored_at: self.stored().end,
        }
    }
}

/// Iterates over the frames of a block.
#[derive(Debug, Clone)]
pub(crate) struct Frames<'b> {
    heads: &'b [u8],
    next: Frame,
}

impl<'b> Frames<'b> {
    /// The frames with these heads, if they agree with the head of their block.
    #[inline]
    pub(crate) fn read(head: &Head, heads: &'b [u8]) -> Result<Self, Damaged> {
        let (mut rows, mut longs, mut raw, mut stored) = (0_u32, 0_u32, 0_u32, 0_u32);
        for frame in heads.as_chunks().0.iter().map(FrameHead::read) {
            rows += u32::from(frame.rows);
            longs += u32::from(frame.longs);
            raw += u32::from(frame.raw_bytes);
            stored += u32::from(frame.stored_bytes);
        }
        let counts = rows == head.rows.into() && longs == head.longs.into();
        let agree = counts && raw == head.raw_bytes && stored == head.stored_bytes;
        if agree { Ok(Self { heads, next: Frame::default() }) } else { Err(Damaged) }
    }

    /// The place of the next frame, or behind the last one.
    pub(crate) fn place(&self) -> Frame {
        self.next
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        let (bytes, rest) = self.heads.split_first_chunk()?;
        self.heads = rest;
        let frame = Frame { head: FrameHead::read(bytes), ..self.next };
        self.next = frame.following();
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::Method;

    #[test]
    fn frames_follow_each_other_and_a_changed_byte_makes_them_damaged() {
        let heads = [
            FrameHead { rows: 9, longs: 2, raw_bytes: 1000, stored_bytes: 300 },
            FrameHead { rows: 1, longs: 0, raw_bytes: 3000, stored_bytes: 3000 },
            FrameHead { rows: 2, longs: 1, raw_bytes: 50, stored_bytes: 40 },
        ];
        let head = Head {
            owner: 0,
            generation: 1,
            method: Method::Zstd,
            checksum: false,
            summary: false,
            long: false,
            dictionary: 0,
            stored_bytes: 3340,
            raw_bytes: 4050,
            rows: 12,
            longs: 3,
            frames: 3,
        };
        let mut bytes: Vec<u8> = heads.iter().flat_map(FrameHead::bytes).collect();
        let frames: Vec<_> = Frames::read(&head, &bytes).expect("they agree").collect();
        assert_eq!(frames.iter().map(|frame| frame.head).collect::<Vec<_>>(), heads);
        let last = frames[2];
        assert_eq!((last.ranks(), last.longs(), last.stored()), (10..12, 2..3, 3300..3340));
        for at in 0..bytes.len() {
            for flip in 1..=u8::MAX {
                bytes[at] ^= flip;
                assert!(Frames::read(&head, &bytes).is_err());
                bytes[at] ^= flip;
            }
        }
    }
}
