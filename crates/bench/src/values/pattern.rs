//! Random values that cost about as much as copying them.
//!
//! A block of random words serves all objects; each object lays a mask of its own over it:
//!
//! ```text
//!   block         w0      w1      w2     ...  w511   (4 KiB, the same for all)
//!   object's      m       m       m      ...  m      (one word for each block of its value)
//!   value         w0^m    w1^m    w2^m   ...  w511^m, then again with the next mask
//! ```
//!
//! Masks are a bijection of the object's number, so two objects differ in every word of 8 bytes. A
//! compressor finds no repetition within a value or between two. The block stays in the nearest
//! cache; slices of a larger pool would cost a distant read for each value, and slices of a pool
//! this small would repeat one another.

use crate::random::Random;

const WORD_BYTES: usize = size_of::<u64>();
/// 4 KiB: a small part of any first-level cache.
const BLOCK_WORDS: usize = 512;
const BLOCK_BYTES: usize = BLOCK_WORDS * WORD_BYTES;

/// The block, and the seed of the masks.
#[derive(Debug)]
pub struct Pattern {
    block: Box<[u64; BLOCK_WORDS]>,
    seed: u64,
}

impl Pattern {
    /// Returns a different pattern for each seed.
    pub fn new(seed: u64) -> Pattern {
        let mut random = Random::new(seed);
        let block = Box::new(std::array::from_fn(|_| random.word()));
        Pattern { block, seed: random.word() }
    }

    /// Appends the value of an object at this length.
    pub fn append(&self, object: u32, value_bytes: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + value_bytes as usize, 0);
        let mut masks = self.masks(object);
        for block in out[start..].chunks_mut(BLOCK_BYTES) {
            let mask = masks.word();
            let (words, rest) = block.as_chunks_mut::<WORD_BYTES>();
            let last = self.block[words.len() % BLOCK_WORDS] ^ mask;
            for (bytes, word) in words.iter_mut().zip(self.block.iter()) {
                *bytes = (word ^ mask).to_le_bytes();
            }
            rest.copy_from_slice(&last.to_le_bytes()[..rest.len()]);
        }
    }

    /// Returns whether this is the value of an object, or the front of a longer one.
    pub fn is_value(&self, object: u32, value: &[u8]) -> bool {
        let mut masks = self.masks(object);
        value.chunks(BLOCK_BYTES).all(|block| {
            let mask = masks.word();
            let (words, rest) = block.as_chunks::<WORD_BYTES>();
            let last = self.block[words.len() % BLOCK_WORDS] ^ mask;
            // No early end, so that the comparison takes wide steps.
            let pairs = words.iter().zip(self.block.iter());
            let differences = pairs
                .fold(0, |found, (bytes, word)| found | (u64::from_le_bytes(*bytes) ^ word ^ mask));
            differences == 0 && rest == &last.to_le_bytes()[..rest.len()]
        })
    }

    fn masks(&self, object: u32) -> Random {
        Random::new(self.seed ^ u64::from(object))
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, Pattern};

    fn value(pattern: &Pattern, object: u32, bytes: usize) -> Vec<u8> {
        let mut out = b"before".to_vec();
        pattern.append(object, bytes as u32, &mut out);
        out.split_off(6)
    }

    #[test]
    fn a_value_is_known_again_and_any_other_byte_is_seen() {
        let pattern = Pattern::new(1);
        for bytes in [0, 1, 7, 8, 9, 100, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 9, 20_000] {
            let mut value = value(&pattern, 7, bytes);
            assert_eq!(value.len(), bytes);
            assert!(pattern.is_value(7, &value));
            for place in (0..bytes).step_by(bytes / 50 + 1).chain(bytes.checked_sub(1)) {
                value[place] ^= 1;
                assert!(!pattern.is_value(7, &value), "byte {place} of {bytes}");
                value[place] ^= 1;
            }
        }
    }

    #[test]
    fn two_objects_differ_in_every_word() {
        let pattern = Pattern::new(1);
        for (one, other) in [(0, 1), (7, 8), (0, u32::MAX)] {
            let (one, other) = (value(&pattern, one, 10_000), value(&pattern, other, 10_000));
            assert!(
                one.chunks_exact(8).zip(other.chunks_exact(8)).all(|(one, other)| one != other)
            );
        }
        let other = Pattern::new(2);
        assert!(!other.is_value(7, &value(&pattern, 7, 100)));
    }

    #[test]
    fn compressors_find_nothing() {
        let pattern = Pattern::new(1);
        let many: Vec<u8> = (0..5_000).flat_map(|object| value(&pattern, object, 100)).collect();
        for plain in [many, value(&pattern, 3, 500_000)] {
            let packed = zstd::bulk::compress(&plain, 3).expect("it fits");
            assert!(packed.len() >= plain.len(), "{} of {}", packed.len(), plain.len());
            assert!(lz4_flex::block::compress(&plain).len() >= plain.len());
        }
    }
}
