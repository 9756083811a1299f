//! The frames of a block: pieces of a few rows, each compressed by itself.
//!
//! ```text
//!   fingerprints of rows     | 0  1  2  3 | 4  5 | 6  7  8 |
//!   heads of frames          |  4 rows    |  2   |  3      |   6 bytes each
//!   stored bytes             | frame 0         | frame 1 | frame 2 |
//!
//!   0      1       2             4                6
//!   +------+-------+-------------+----------------+
//!   | rows | longs | raw bytes   | stored bytes   |
//!   | u8   | u8    | u16         | u16            |
//!   +------+-------+-------------+----------------+
//! ```
//!
//! With a trained dictionary the ratio hardly depends on how much is compressed at a time, but time
//! is linear in it. So a lookup decodes one frame, and an insertion encodes one.
//!
//! A frame has as many rows as fit into [`FRAME_BYTES`], and one at least; behind the last one, a
//! few newcomers may wait to join it, each as a frame alone ([`mod@crate::append`]). If compressing
//! a frame does not pay it is stored as it is: then its stored bytes are as many as its raw ones.
//! `longs` says how many of its rows are long, so that the slots of a frame's rows are known
//! without decoding those before it.
//!
//! Heads may have been damaged: [`Frames::read`] believes none of them unless all of them together
//! come to what the block's head says.

use std::ops::Range;

use codec::Damaged;

use crate::block::Head;

/// Raw bytes of a frame, unless a single row has more.
pub(crate) const FRAME_BYTES: usize = 1 << 10;
/// Bytes of a frame's head.
pub(crate) const FRAME_HEAD_BYTES: usize = 6;

/// The head of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) rows: u8,
    pub(crate) longs: u8,
    pub(crate) raw_bytes: u16,
    pub(crate) stored_bytes: u16,
}

impl FrameHead {
    fn read(bytes: &[u8; FRAME_HEAD_BYTES]) -> Self {
        let &[rows, longs, raw0, raw1, stored0, stored1] = bytes;
        let raw_bytes = u16::from_ne_bytes([raw0, raw1]);
        Self { rows, longs, raw_bytes, stored_bytes: u16::from_ne_bytes([stored0, stored1]) }
    }

    /// The head as it stands in a block.
    pub(crate) fn bytes(&self) -> [u8; FRAME_HEAD_BYTES] {
        let [raw0, raw1] = self.raw_bytes.to_ne_bytes();
        let [stored0, stored1] = self.stored_bytes.to_ne_bytes();
        [self.rows, self.longs, raw0, raw1, stored0, stored1]
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

    /// Which of the block's slots of long values are its rows'.
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

/// The frames of a block, one after the other.
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

    /// The place of the next one, or behind the last.
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
