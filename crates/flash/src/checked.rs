//! Checks that tell notes that were written here, in this life of their subject, from all others.
//!
//! Notes are written in place, a few bytes at a time, and may say "this is dead": so a note is not
//! believed if a bit of it has flipped, if it is left over from an earlier life, or if it was never
//! written. A *stamp* is a number derived from a life (a segment's sequence, for example) and a
//! position in the notes. Filters are made of *blocks*:
//!
//! ```text
//!    0                                                60        64
//!   +------------------------------------------------+---------+    check   CRC-32C of the bits,
//!   | 480 bits                                       | check   |            xor the block's stamp
//!   +------------------------------------------------+---------+
//! ```
//!
//! A block is read and written at once and crosses no page. Its check finds up to five flipped
//! bits, and all but one in 2^32 blocks of another life, or of zeros. It does not find a block of
//! the same life whose last write a drive has lost.

use codec::Damaged;
use stdx::random::mix;

/// Bytes of a block: those of a cache line.
pub(crate) const BLOCK_BYTES: usize = 64;
/// Bits that a block has room for.
pub(crate) const BLOCK_BITS: usize = BITS_BYTES * 8;

const BITS_BYTES: usize = BLOCK_BYTES - size_of::<u32>();

/// The stamp of this life at this place. Never 0, which means never written.
pub(crate) fn stamp(life: u64, place: u32) -> u32 {
    (mix(mix(life).wrapping_add(place.into())) as u32).max(1)
}

/// A part of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block([u8; BITS_BYTES]);

impl Block {
    pub(crate) const EMPTY: Self = Self([0; BITS_BYTES]);
    pub(crate) const FULL: Self = Self([u8::MAX; BITS_BYTES]);

    /// Sets a bit; returns whether it was not set.
    pub(crate) fn set(&mut self, bit: usize) -> bool {
        let is_new = !self.has(bit);
        self.0[bit / 8] |= 1 << (bit % 8);
        is_new
    }

    pub(crate) fn has(&self, bit: usize) -> bool {
        self.0[bit / 8] & 1 << (bit % 8) != 0
    }

    /// Returns this block with the bits of another added.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(bits, others)| *bits |= others);
        self
    }

    /// Encodes the block for this life, at this place.
    pub(crate) fn encode(&self, life: u64, place: u32) -> [u8; BLOCK_BYTES] {
        let mut bytes = [0; BLOCK_BYTES];
        let (bits, check) = bytes.split_at_mut(BITS_BYTES);
        bits.copy_from_slice(&self.0);
        check.copy_from_slice(&(codec::checksum(&self.0) ^ stamp(life, place)).to_le_bytes());
        bytes
    }

    /// Decodes the block in these bytes, if it was written in this life, at this place.
    pub(crate) fn decode(
        bytes: &[u8; BLOCK_BYTES],
        life: u64,
        place: u32,
    ) -> Result<Self, Damaged> {
        let (bits, _) = bytes.split_first_chunk().expect("a block is longer than its bits");
        let block = Self(*bits);
        if block.encode(life, place) == *bytes { Ok(block) } else { Err(Damaged) }
    }

    /// Returns these bytes with a right check.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn put_right(bytes: [u8; BLOCK_BYTES], life: u64, place: u32) -> [u8; BLOCK_BYTES] {
        let (bits, _) = bytes.split_first_chunk().expect("a block is longer than its bits");
        Self(*bits).encode(life, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        let mut block = Block::EMPTY;
        for bit in [0, 1, 77, 300, BLOCK_BITS - 1] {
            assert!(block.set(bit) && block.has(bit) && !block.set(bit));
        }
        block
    }

    #[test]
    fn a_block_is_read_only_as_it_was_written_in_its_life_and_place() {
        for block in [Block::EMPTY, block(), Block::FULL] {
            let bytes = block.encode(5, 9);
            assert_eq!(Block::decode(&bytes, 5, 9), Ok(block));
            assert_eq!(Block::decode(&bytes, 6, 9), Err(Damaged));
            assert_eq!(Block::decode(&bytes, 5, 8), Err(Damaged));
            for bit in 0..BLOCK_BYTES * 8 {
                for other in [bit, 7, 500] {
                    let mut changed = bytes;
                    changed[bit / 8] ^= 1 << (bit % 8);
                    if other != bit {
                        changed[other / 8] ^= 1 << (other % 8);
                    }
                    assert_eq!(Block::decode(&changed, 5, 9), Err(Damaged), "{bit}, {other}");
                }
            }
        }
        assert_eq!(Block::decode(&[0; BLOCK_BYTES], 5, 9), Err(Damaged));
    }

    #[test]
    fn two_blocks_together_have_the_bits_of_both() {
        let mut other = Block::EMPTY;
        other.set(2);
        let both = block().and(&other);
        let bits: Vec<usize> = (0..BLOCK_BITS).filter(|&bit| both.has(bit)).collect();
        assert_eq!(bits, [0, 1, 2, 77, 300, BLOCK_BITS - 1]);
        assert_eq!(block().and(&Block::FULL), Block::FULL);
    }

    /// If one of these changes, so has the device's format: then the superblock's version has to
    /// rise.
    #[test]
    fn a_stamp_is_what_it_has_always_been() {
        let stamps = [(0, 0), (1, 0), (1, 1), (1 << 59, 4095)].map(|(life, at)| stamp(life, at));
        assert_eq!(stamps, [0x4d19_7e6f, 0x7439_611e, 0x3217_ae03, 0x83bb_cae0]);
    }
}
