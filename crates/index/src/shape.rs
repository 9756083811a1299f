//! The arithmetic of one table: from hash bits to its buckets, and from a word back to hash bits.
//!
//! The index uses the upper `K` bits of a hash and no others. A table of depth `d` holds the keys
//! that share a prefix of `d` bits; the `K - d` bits after it are the *rest*, and the lowest 23 of
//! all are the tag that a word keeps.
//!
//! ```text
//!   hash   | prefix, d bits |         rest, K - d bits             | unused |
//!                                   | .......... tag, 23 bits ..... |
//!   primary bucket    b1 = rest * n >> (K - d)       n buckets, any number of them
//!   alternate bucket  b2 = (mix(tag) - b1) mod n     and so b1 = (mix(tag) - b2) mod n
//! ```
//!
//! In a tree the primary bucket is a root, and there is no alternate one: `n` is the number of
//! roots, and a word in a sub-bucket counts as lying in its root.
//!
//! A word and the bucket it lies in give back the whole rest: the side tells whether that bucket is
//! the primary one, the other is computed from the tag, and all rests that belong to one primary
//! bucket form an interval no longer than 2^23, in which exactly one ends in the tag. That is how
//! tables grow, split, shrink and merge without reading a single key. It holds as long as `2^(K -
//! d) / n <= 2^23`, which [`REST_BITS_MAX`] ensures.
//!
//! MemC3 computes `b2 = b1 xor hash(tag)`, which needs a power of two of buckets. The difference
//! modulo `n` is an involution for any `n`, so that a table may grow by a twelfth of its size.

use crate::table::UNITS_MIN;
use crate::tree::Tree;
use crate::word::{Side, TAG_BITS, TAG_MASK, Word};

/// The fewest primary buckets: the roots of the smallest tree.
const BUCKETS_MIN: usize = Tree::roots(UNITS_MIN);
/// The longest rest: the tag and one bit for each doubling up to the smallest table's buckets. A
/// lookup compares at least this many upper bits of a hash.
pub const REST_BITS_MAX: u32 = TAG_BITS + BUCKETS_MIN.ilog2();
const _: () = assert!((1_u64 << REST_BITS_MAX).div_ceil(BUCKETS_MIN as u64) <= 1 << TAG_BITS);

/// 2^64 over the golden ratio: its multiples are spread evenly (Knuth, volume 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The lowest 23 of the upper `hash_bits` bits of `hash`.
#[inline]
pub(crate) fn tag_of(hash: u64, hash_bits: u32) -> u32 {
    (hash >> (64 - hash_bits)) as u32 & TAG_MASK
}

/// The number of a table's primary buckets, and the bits of the hash that choose among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) buckets: usize,
    pub(crate) rest_bits: u32,
}

impl Shape {
    /// The bits of `hash` after the table's prefix, `hash_bits` being used in all.
    #[inline]
    pub(crate) fn rest_of(self, hash: u64, hash_bits: u32) -> u64 {
        hash >> (64 - hash_bits) & ((1 << self.rest_bits) - 1)
    }

    /// The primary bucket of a key.
    #[inline]
    pub(crate) fn primary(self, rest: u64) -> usize {
        ((rest * self.buckets as u64) >> self.rest_bits) as usize
    }

    /// The other bucket of a word that lies, or could lie, in `bucket`.
    #[inline]
    pub(crate) fn other(self, bucket: usize, tag: u32) -> usize {
        let mixed = u64::from(tag).wrapping_mul(GOLDEN) >> 32;
        let sum = ((mixed * self.buckets as u64) >> 32) as usize;
        if sum >= bucket { sum - bucket } else { sum + self.buckets - bucket }
    }

    /// The rest of the key whose word lies in `bucket`.
    pub(crate) fn rest_of_word(self, bucket: usize, word: Word) -> u64 {
        let primary = match word.side() {
            Side::Primary => bucket,
            Side::Alternate => self.other(bucket, word.tag()),
        };
        let tag = u64::from(word.tag());
        let rest = if self.rest_bits <= TAG_BITS {
            tag & ((1 << self.rest_bits) - 1)
        } else {
            let start = ((primary as u64) << self.rest_bits).div_ceil(self.buckets as u64);
            start + (tag.wrapping_sub(start) & u64::from(TAG_MASK))
        };
        debug_assert_eq!(self.primary(rest), primary, "one rest in the interval has this tag");
        rest
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Location;
    use crate::engine::DEEPER_MAX;
    use crate::table::{UNITS_MAX, UNITS_MIN, buckets_of};
    use proptest::prelude::*;

    fn check(hash: u64, start: u32, deeper: u32, units: usize) {
        let hash_bits = start + REST_BITS_MAX;
        let shape = Shape { buckets: buckets_of(units), rest_bits: REST_BITS_MAX - deeper };
        let tag = tag_of(hash, hash_bits);
        let rest = shape.rest_of(hash, hash_bits);
        let primary = shape.primary(rest);
        let alternate = shape.other(primary, tag);
        assert!(primary < shape.buckets && alternate < shape.buckets);
        assert_eq!(shape.other(alternate, tag), primary);
        let location = Location::new(1, 0);
        for (side, bucket) in [(Side::Primary, primary), (Side::Alternate, alternate)] {
            let word = Word::new(side, tag, location);
            assert_eq!(shape.rest_of_word(bucket, word), rest, "{shape:?} {side:?}");
        }
        // A table one level deeper sees the same rest without its first bit.
        let deeper_shape = Shape { rest_bits: shape.rest_bits - 1, ..shape };
        assert_eq!(
            deeper_shape.rest_of(hash, hash_bits),
            rest & ((1 << deeper_shape.rest_bits) - 1)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        #[cfg_attr(miri, ignore = "safe code with 20,000 inputs")]
        fn a_word_and_its_bucket_give_the_hash_bits_back(
            hash: u64,
            start in 0_u32..=20,
            deeper in 0..=DEEPER_MAX,
            units in UNITS_MIN..=UNITS_MAX,
        ) {
            check(hash, start, deeper, units);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "safe code with a hundred thousand inputs")]
    fn the_edges_of_every_bucket_give_the_hash_bits_back() {
        for units in UNITS_MIN..=UNITS_MAX {
            for deeper in 0..=DEEPER_MAX {
                let rest_bits = REST_BITS_MAX - deeper;
                let buckets = buckets_of(units) as u64;
                for bucket in 0..buckets {
                    let start = (bucket << rest_bits).div_ceil(buckets);
                    let end = ((bucket + 1) << rest_bits).div_ceil(buckets);
                    for rest in [start, end - 1] {
                        // A depth of zero at the start: the hash is the rest after `deeper` zeros.
                        check(rest << (64 - REST_BITS_MAX), 0, deeper, units);
                    }
                }
            }
        }
    }
}
