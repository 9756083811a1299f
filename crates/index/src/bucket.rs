//! One cache line of words, and the comparison of all its tags at once.
//!
//! ```text
//!   bucket, 64 bytes   | word 0 | word 1 | word 2 | ... | word 6 | word 7                        |
//!   of a tree          | word 0 | word 1 | word 2 | ... | word 6 | link 0 | link 1 | ... | link 3|
//! ```
//!
//! A lookup fetches few such lines and nothing else of the index. The layout says how many of the
//! words are slots: all, or all but the last, which holds links to other buckets.
//!
//! On x86-64 the eight tags are compared with SSE2, which every such processor has: the upper
//! halves of eight words are gathered into two registers, masked, compared and packed into eight
//! bits. Elsewhere, and under loom and Miri, a loop does the same. AVX2 would save four
//! instructions out of fourteen and cost a test of the processor, so it is left out.
//!
//! The mask is only a filter. The caller loads the word of a set bit again as an atomic and looks
//! at its tag again, because a writer may have changed the slot in between.

use crate::word::Word;
use stdx::sync::atomic::{AtomicU64, Ordering};

/// Words in a bucket: as many as a cache line holds. A model checker gets three, of which no more
/// than two are slots, since every word it reads multiplies the interleavings.
pub(crate) const WORDS: usize = if cfg!(loom) { 3 } else { 8 };
/// Links in a word of links.
pub(crate) const LINKS: usize = (u64::BITS / LINK_BITS) as usize;
const LINK_BITS: u32 = u16::BITS;

/// A cache line of words.
#[repr(align(64))]
pub(crate) struct Bucket([AtomicU64; WORDS]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == stdx::units::CACHE_LINE);

impl Bucket {
    /// All slots empty. Only loom's tables are built by value; the others are zeroed memory.
    #[cfg(any(loom, test))]
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(Word::EMPTY.0)))
    }

    /// The word in `slot`.
    #[inline]
    pub(crate) fn load(&self, slot: usize) -> Word {
        // Acquire: partner is the release in `store`. A reader that sees a location sees the item
        // behind it, and one that sees a slot emptied by a move sees the version that the move made
        // odd.
        Word(self.0[slot].load(Ordering::Acquire))
    }

    /// Puts `word` into `slot`. The caller holds the table's lock.
    #[inline]
    pub(crate) fn store(&self, slot: usize, word: Word) {
        // Release: partner is the acquire in `load`.
        self.0[slot].store(word.0, Ordering::Release);
    }

    /// A free one of the first `slots`. The caller holds the table's lock.
    #[inline]
    pub(crate) fn free_slot(&self, slots: usize) -> Option<usize> {
        (0..slots).find(|&slot| self.0[slot].load(Ordering::Relaxed) == Word::EMPTY.0)
    }

    /// The bucket that a link leads to. No link leads to bucket 0: it is a root.
    #[inline]
    pub(crate) fn link(&self, link: usize) -> Option<usize> {
        // Acquire: partner is the release in `set_link`. A reader that sees a link sees the word
        // for which it was set.
        let links = self.0[WORDS - 1].load(Ordering::Acquire);
        let bucket = (links >> (link as u32 * LINK_BITS)) as u16;
        (bucket != 0).then_some(usize::from(bucket))
    }

    /// Points a link that led nowhere at `bucket`. The caller holds the table's lock.
    pub(crate) fn set_link(&self, link: usize, bucket: usize) {
        debug_assert!(bucket <= usize::from(u16::MAX) && self.link(link).is_none());
        let links = self.0[WORDS - 1].load(Ordering::Relaxed);
        let links = links | (bucket as u64) << (link as u32 * LINK_BITS);
        // Release: partner is the acquire in `link`.
        self.0[WORDS - 1].store(links, Ordering::Release);
    }

    /// One bit for each of the first `slots` whose side and tag are `pattern`. An empty slot counts
    /// as side and tag zero.
    #[inline]
    pub(crate) fn matches(&self, pattern: u32, slots: usize) -> u32 {
        #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
        return if slots == WORDS {
            self.matches_sse2(pattern)
        } else {
            self.matches_sse2(pattern) & ((1 << slots) - 1)
        };
        #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
        return self.matches_portable(pattern, slots);
    }

    #[cfg_attr(all(target_arch = "x86_64", not(test)), allow(dead_code))]
    #[inline]
    fn matches_portable(&self, pattern: u32, slots: usize) -> u32 {
        (0..slots).map(|slot| u32::from(self.load(slot).pattern() == pattern) << slot).sum()
    }

    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    #[inline]
    fn matches_sse2(&self, pattern: u32) -> u32 {
        use std::arch::asm;
        use std::arch::x86_64::{
            __m128i, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32,
            _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_setzero_si128,
            _mm_shuffle_ps,
        };
        // In a word's upper half, side and tag are the upper 24 bits of 32.
        const SIDE_AND_TAG: i32 = !0xff;
        // Takes the upper halves of the two words of each operand.
        const UPPER_HALVES: i32 = 0b11_01_11_01;

        let (first, second, third, fourth): (__m128i, __m128i, __m128i, __m128i);
        // SAFETY: the four loads read exactly the 64 bytes of `self`, which is aligned to 64.
        // Other threads may store to these words meanwhile, which is why they are read by an
        // instruction the compiler cannot look into rather than through a plain pointer: on x86-64
        // an aligned load of 16 bytes takes each 8-byte word whole, and loads are not reordered
        // with later loads, so the block acts as eight acquire loads. It is not marked `readonly`
        // or `nomem`, so the compiler moves no other memory access across it.
        unsafe {
            asm!(
                "movdqa {first}, [{line}]",
                "movdqa {second}, [{line} + 16]",
                "movdqa {third}, [{line} + 32]",
                "movdqa {fourth}, [{line} + 48]",
                line = in(reg) self.0.as_ptr(),
                first = out(xmm_reg) first,
                second = out(xmm_reg) second,
                third = out(xmm_reg) third,
                fourth = out(xmm_reg) fourth,
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: every x86-64 processor has SSE2, and these intrinsics touch only registers.
        unsafe {
            let upper = |low: __m128i, high: __m128i| {
                _mm_castps_si128(_mm_shuffle_ps::<UPPER_HALVES>(
                    _mm_castsi128_ps(low),
                    _mm_castsi128_ps(high),
                ))
            };
            let mask = _mm_set1_epi32(SIDE_AND_TAG);
            let sought = _mm_set1_epi32((pattern << 8).cast_signed());
            let low = _mm_cmpeq_epi32(_mm_and_si128(upper(first, second), mask), sought);
            let high = _mm_cmpeq_epi32(_mm_and_si128(upper(third, fourth), mask), sought);
            let halves = _mm_packs_epi32(low, high);
            let bytes = _mm_packs_epi16(halves, _mm_setzero_si128());
            _mm_movemask_epi8(bytes).cast_unsigned()
        }
    }

    /// Prefetches this line.
    #[inline]
    pub(crate) fn prefetch(&self) {
        stdx::prefetch::read(self.0.as_ptr().cast());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Location;
    use crate::word::{Side, TAG_MASK, pattern};
    use proptest::prelude::*;

    fn any_word() -> impl Strategy<Value = Word> {
        // Few tags, so that several slots match, and locations that reach into the upper half.
        let tags = prop_oneof![Just(0), Just(1), Just(TAG_MASK), 0..=TAG_MASK];
        let full = (any::<bool>(), tags, 1_u8..=3, 0_u64..1 << 38).prop_map(
            |(alternate, tag, tier, place)| {
                Word::new(Side::BOTH[usize::from(alternate)], tag, Location::new(tier, place))
            },
        );
        prop_oneof![Just(Word::EMPTY), full]
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "there is one comparison only")]
        fn both_comparisons_agree(words in prop::array::uniform8(any_word()), pick in 0_usize..8) {
            let bucket = Bucket::new();
            for (slot, word) in words.into_iter().enumerate() {
                bucket.store(slot, word);
            }
            for side in Side::BOTH {
                for tag in [words[pick].tag(), 0, 1, TAG_MASK] {
                    let sought = pattern(side, tag);
                    for slots in [WORDS - 1, WORDS] {
                        let expected = bucket.matches_portable(sought, slots);
                        prop_assert_eq!(bucket.matches(sought, slots), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_full_bucket_has_no_free_slot() {
        let bucket = Bucket::new();
        for slot in 0..WORDS {
            assert_eq!(bucket.free_slot(WORDS), Some(slot));
            bucket.store(slot, Word::new(Side::Primary, 7, Location::new(1, 0)));
        }
        assert_eq!(bucket.free_slot(WORDS), None);
        assert_eq!(bucket.matches(pattern(Side::Primary, 7), WORDS), 0xff);
        assert_eq!(bucket.matches(pattern(Side::Primary, 7), WORDS - 1), 0x7f);
        assert_eq!(bucket.matches(pattern(Side::Alternate, 7), WORDS), 0);
    }

    #[test]
    fn links_lie_behind_the_slots_without_overlap() {
        let bucket = Bucket::new();
        for link in (0..LINKS).rev() {
            assert_eq!(bucket.link(link), None);
            bucket.set_link(link, usize::from(u16::MAX) - link);
        }
        for link in 0..LINKS {
            assert_eq!(bucket.link(link), Some(usize::from(u16::MAX) - link));
        }
        assert_eq!(bucket.free_slot(WORDS - 1), Some(0));
    }
}
