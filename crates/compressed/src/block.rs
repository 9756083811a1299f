//! How a block lies in memory.
//!
//! A block of rows, aligned to 8 bytes:
//!
//! ```text
//!   0       4            6      7            8        10    12     13      14      15 16       24
//!   +-------+------------+------+------------+--------+-----+------+-------+--------+-+---------+
//!   | owner | generation | kind | dictionary | stored | raw | rows | longs | frames |0| recent  |
//!   | u32   | u16        | u8   | u8         | u16    | u16 | u8   | u8    | u8     | | 2 x u32 |
//!   +-------+------------+------+------------+--------+-----+------+-------+--------+-+---------+
//!   24
//!   +-----------+-------------+----------+-----------+---------+-----------+----------+--------+
//!   | dead      | counts of   | slots of | (summary) | (check- | finger-   | heads of | frames |
//!   | words u32 | accesses,   | longs,   | 16 bytes  | sums)   | prints    | frames,  |        |
//!   | 31 rows   | 16 in a u32 | u32 each |           | u32 a   | u8 a row  | 5 bytes  |        |
//!   | each      |             |          |           | frame   |           |          |        |
//!   +-----------+-------------+----------+-----------+---------+-----------+----------+--------+
//! ```
//!
//! Its rows are compressed in frames of a few rows each, see [`crate::frame`]. The summary says
//! when they expire, see [`crate::summary`]; where none of them does, there is none.
//!
//! A long block holds one value that is too long to lie among rows; the row keeps its key and
//! fields, and its block keeps the reference:
//!
//! ```text
//!   0       4            6      7            8        12    16
//!   +-------+------------+------+------------+--------+-----+------------+--------------+
//!   | owner | generation | kind | dictionary | stored | raw | (checksum) | stored bytes |
//!   | u32   | u16        | u8   | u8         | u32    | u32 | u32        |              |
//!   +-------+------------+------+------------+--------+-----+------------+--------------+
//!
//!   owner       the top 32 bits of the hash of one of its rows: leads the cleaner to the leaf
//!   kind        0..1 method   5 summary   6 checksum   7 long
//!   dictionary  0 none, otherwise its number, from 1 on
//!   stored      bytes of rows or value as they are stored      raw   when they are decoded
//! ```
//!
//! The fingerprints are the low byte of each row's hash, in the order of the rows. zExpander keeps
//! a Bloom filter of 16 bytes instead. A byte a row also tells which row it is, so that a lookup
//! knows the bits of a row before it decodes anything: dead rows cost nothing, and accesses are
//! counted, up to 3, in two bits a row where a second Bloom filter would err.
//!
//! A header may be damaged like anything else: [`Head::read`] trusts no length that does not fit
//! where the block lies.

use std::ops::Range;

use crate::access::ROWS_PER_ACCESS_WORD;
use crate::frame::FRAME_HEAD_BYTES;
use crate::seal::ROWS_PER_DEAD_WORD;
use crate::summary::SUMMARY_BYTES;
use codec::Method;

/// Bytes of the fixed part of a block of rows: up to the dead words.
pub(crate) const ROWS_HEAD_BYTES: usize = 24;
/// Bytes of the fixed part of a long block.
pub(crate) const LONG_HEAD_BYTES: usize = 16;
/// Where the two records of recent accesses stand.
pub(crate) const RECENT_AT: usize = 16;
/// The number of recent accesses that a block remembers.
pub(crate) const RECENTS: usize = 2;
/// The most rows that a block can hold, since its header counts them in one byte.
pub(crate) const ROWS_MAX: usize = u8::MAX as usize;
/// Blocks begin at, and are rounded up to, a multiple of this many bytes.
pub(crate) const BLOCK_ALIGN: usize = 8;

const WORD_BYTES: usize = size_of::<u32>();
const KIND_METHOD: u8 = 3;
const KIND_SUMMARY: u8 = 1 << 5;
const KIND_CHECKSUM: u8 = 1 << 6;
const KIND_LONG: u8 = 1 << 7;

const _: () = assert!(RECENT_AT + RECENTS * WORD_BYTES == ROWS_HEAD_BYTES);
const _: () = assert!(LONG_HEAD_BYTES <= ROWS_HEAD_BYTES);

/// The fixed part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) owner: u32,
    pub(crate) generation: u16,
    pub(crate) method: Method,
    pub(crate) checksum: bool,
    /// Whether it has a summary: some of its rows expire.
    pub(crate) summary: bool,
    pub(crate) long: bool,
    pub(crate) dictionary: u8,
    pub(crate) stored_bytes: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) rows: u8,
    pub(crate) longs: u8,
    pub(crate) frames: u8,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Head {
    /// Reads the fixed part; `None` if it is not valid, or says that the block is longer than
    /// `bytes_max`.
    #[inline]
    pub(crate) fn read(bytes: &[u8; LONG_HEAD_BYTES], bytes_max: usize) -> Option<Self> {
        let kind = bytes[6];
        let long = kind & KIND_LONG != 0;
        let (stored_bytes, raw_bytes) = if long {
            (u32_at(bytes, 8), u32_at(bytes, 12))
        } else {
            (u16_at(bytes, 8).into(), u16_at(bytes, 10).into())
        };
        let head = Self {
            owner: u32_at(bytes, 0),
            generation: u16_at(bytes, 4),
            method: Method::from_code(kind & KIND_METHOD)?,
            checksum: kind & KIND_CHECKSUM != 0,
            summary: kind & KIND_SUMMARY != 0,
            long,
            dictionary: bytes[7],
            stored_bytes,
            raw_bytes,
            rows: if long { 0 } else { bytes[12] },
            longs: if long { 0 } else { bytes[13] },
            frames: if long { 0 } else { bytes[14] },
        };
        (head.block_bytes() <= bytes_max).then_some(head)
    }

    /// Appends the fixed part to an image, with empty records of recent accesses.
    pub(crate) fn write(&self, image: &mut Vec<u8>) {
        let checksum = if self.checksum { KIND_CHECKSUM } else { 0 };
        let summary = if self.summary { KIND_SUMMARY } else { 0 };
        let long = if self.long { KIND_LONG } else { 0 };
        let kind = self.method.code() | summary | checksum | long;
        image.extend_from_slice(&self.owner.to_ne_bytes());
        image.extend_from_slice(&self.generation.to_ne_bytes());
        image.extend_from_slice(&[kind, self.dictionary]);
        if self.long {
            image.extend_from_slice(&self.stored_bytes.to_ne_bytes());
            image.extend_from_slice(&self.raw_bytes.to_ne_bytes());
        } else {
            let short = |bytes| u16::try_from(bytes).expect("a block of rows is short");
            image.extend_from_slice(&short(self.stored_bytes).to_ne_bytes());
            image.extend_from_slice(&short(self.raw_bytes).to_ne_bytes());
            image.extend_from_slice(&[self.rows, self.longs, self.frames, 0]);
            image.extend_from_slice(&[0; RECENTS * WORD_BYTES]);
        }
    }

    /// The number of dead words.
    #[inline]
    pub(crate) fn dead_words(&self) -> usize {
        usize::from(self.rows).div_ceil(ROWS_PER_DEAD_WORD)
    }

    /// The number of words of access counts.
    #[inline]
    pub(crate) fn access_words(&self) -> usize {
        usize::from(self.rows).div_ceil(ROWS_PER_ACCESS_WORD)
    }

    pub(crate) fn dead_at(&self) -> usize {
        ROWS_HEAD_BYTES
    }

    pub(crate) fn accesses_at(&self) -> usize {
        self.dead_at() + self.dead_words() * WORD_BYTES
    }

    pub(crate) fn longs_at(&self) -> usize {
        self.accesses_at() + self.access_words() * WORD_BYTES
    }

    /// The number of checksums: one for each frame, or one for a long value.
    #[inline]
    pub(crate) fn checksums(&self) -> usize {
        match (self.checksum, self.long) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => self.frames.into(),
        }
    }

    /// The range of the summary, empty if there is none; it begins where the words that change end.
    #[inline]
    pub(crate) fn summary(&self) -> Range<usize> {
        let start = if self.long {
            LONG_HEAD_BYTES
        } else {
            self.longs_at() + usize::from(self.longs) * WORD_BYTES
        };
        start..start + if self.summary { SUMMARY_BYTES } else { 0 }
    }

    #[inline]
    pub(crate) fn checksum_at(&self) -> usize {
        self.summary().end
    }

    #[inline]
    pub(crate) fn fingerprints(&self) -> Range<usize> {
        let start = self.checksum_at() + self.checksums() * WORD_BYTES;
        start..start + usize::from(self.rows)
    }

    /// Where the heads of the frames stand.
    #[inline]
    pub(crate) fn frame_heads(&self) -> Range<usize> {
        let start = self.fingerprints().end;
        start..start + usize::from(self.frames) * FRAME_HEAD_BYTES
    }

    #[inline]
    pub(crate) fn stored(&self) -> Range<usize> {
        let start = self.frame_heads().end;
        start..start + self.stored_bytes as usize
    }

    /// Bytes of the whole block, rounded up.
    #[inline]
    pub(crate) fn block_bytes(&self) -> usize {
        self.stored().end.next_multiple_of(BLOCK_ALIGN)
    }
}

/// The fingerprint of a hash.
#[inline]
pub(crate) fn fingerprint(hash: u64) -> u8 {
    hash as u8
}

/// The owner that a block's header records for a hash.
pub(crate) fn owner_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A hash that leads to the same leaf as the hashes of an owner's rows.
pub(crate) fn hash_of_owner(owner: u32) -> u64 {
    u64::from(owner) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(rows: u8, longs: u8) -> Head {
        Head {
            owner: 0x1234_5678,
            generation: 9,
            method: Method::Zstd,
            checksum: false,
            summary: false,
            long: false,
            dictionary: 1,
            stored_bytes: 1000,
            raw_bytes: 3000,
            rows,
            longs,
            frames: rows.div_ceil(10),
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_never_beyond_its_room() {
        let long =
            Head { long: true, frames: 0, stored_bytes: 70_000, raw_bytes: 90_000, ..head(0, 0) };
        let checked = Head { checksum: true, ..head(ROWS_MAX as u8, ROWS_MAX as u8) };
        let expiring = Head { summary: true, ..checked };
        for head in [head(1, 0), head(31, 0), head(32, 3), long, checked, expiring] {
            let mut image = Vec::new();
            head.write(&mut image);
            let fixed = image.first_chunk().expect("as long as that");
            assert_eq!(Head::read(fixed, head.block_bytes()), Some(head));
            assert_eq!(Head::read(fixed, head.block_bytes() - 1), None);
        }
    }

    #[test]
    fn a_block_of_twenty_rows_in_two_frames_has_66_bytes_of_metadata() {
        assert_eq!(head(20, 0).stored().start, 66);
        assert_eq!(Head { summary: true, ..head(20, 0) }.stored().start, 66 + SUMMARY_BYTES);
        assert_eq!((head(31, 0).dead_words(), head(32, 0).dead_words()), (1, 2));
        assert_eq!((head(16, 0).access_words(), head(17, 0).access_words()), (1, 2));
    }
}
