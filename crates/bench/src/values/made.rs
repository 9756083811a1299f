//! Values that compress by a given ratio: phrases that occur again and again, mixed with random
//! bytes that no compressor makes smaller, in chunks of one length:
//!
//! ```text
//!   | phrase 7 | random | phrase 2 | phrase 7 | random | phrase 11 | ...
//! ```
//!
//! A phrase seen before shrinks to a few bytes, so the share of random chunks sets the ratio. It is
//! that of zstd and, nearly, of LZ4 over 64 KiB of values; smaller units see each phrase for the
//! first time more often and gain less, as with real data.

use crate::random::Random;

/// Bytes of a phrase, and of the random chunks between.
const CHUNK_BYTES: usize = 64;
/// Different phrases: 1 KiB, which a unit of a few KiB holds about once.
const PHRASES: usize = 16;
/// The compressed bytes of a phrase seen before. With values of 64 bytes at a ratio of 8, where it
/// matters most, zstd at level 3 takes 2.6 and LZ4 4.6: this lies between.
const PHRASE_COST_BYTES: f64 = 3.6;
/// The highest ratio: beyond this the phrases themselves would have to be longer.
pub const RATIO_MAX: f64 = 8.0;

/// Phrases and random bytes.
#[derive(Debug)]
pub struct Made {
    random_share: f64,
    phrases: [[u8; CHUNK_BYTES]; PHRASES],
    seed: u64,
}

impl Made {
    /// Returns values that compress by this ratio.
    pub fn new(ratio: f64, seed: u64) -> Made {
        let phrase_share = PHRASE_COST_BYTES / CHUNK_BYTES as f64;
        let mut random = Random::new(!seed);
        let mut phrases = [[0; CHUNK_BYTES]; PHRASES];
        let letters = phrases.iter_mut().flatten();
        letters.for_each(|letter| *letter = b'a' + random.below(26) as u8);
        let random_share = ((1.0 / ratio - phrase_share) / (1.0 - phrase_share)).clamp(0.0, 1.0);
        Made { random_share, phrases, seed }
    }

    /// Appends the value of an object at this length.
    pub fn append(&self, object: u32, value_bytes: u32, out: &mut Vec<u8>) {
        let stream = Random::new(self.seed).word() ^ u64::from(object);
        let mut random = Random::new(Random::new(stream).word());
        let end = out.len() + value_bytes as usize;
        while out.len() < end {
            let chunk_bytes = CHUNK_BYTES.min(end - out.len());
            if random.unit() < self.random_share {
                let words = std::array::from_fn::<_, { CHUNK_BYTES / 8 }, _>(|_| random.word());
                let bytes = words.into_iter().flat_map(u64::to_le_bytes);
                out.extend(bytes.take(chunk_bytes));
            } else {
                let phrase = random.below(PHRASES as u64) as usize;
                out.extend_from_slice(&self.phrases[phrase][..chunk_bytes]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Made;

    /// Returns the ratios of zstd at level 3 and LZ4 over values of this length in units of 64 KiB.
    fn ratios(ratio: f64, value_bytes: u32) -> (f64, f64) {
        let values = Made::new(ratio, 1);
        let mut plain = Vec::new();
        for object in 0..(1 << 20) / value_bytes {
            values.append(object, value_bytes, &mut plain);
        }
        let (mut by_zstd, mut by_lz4) = (0, 0);
        for unit in plain.chunks(64 << 10) {
            by_zstd += zstd::bulk::compress(unit, 3).expect("it fits").len();
            by_lz4 += lz4_flex::block::compress(unit).len();
        }
        (plain.len() as f64 / by_zstd as f64, plain.len() as f64 / by_lz4 as f64)
    }

    #[test]
    fn real_compressors_find_the_ratio_that_was_asked_for() {
        for value_bytes in [64, 300, 4096] {
            for ratio in [1.0, 1.5, 2.0, 3.0, 5.0, 8.0] {
                let (zstd, lz4) = ratios(ratio, value_bytes);
                let text = format!("{ratio} of {value_bytes} bytes: zstd {zstd:.2}, LZ4 {lz4:.2}");
                assert!((zstd / ratio - 1.0).abs() < 0.15, "{text}");
                assert!((lz4 / ratio - 1.0).abs() < 0.22, "{text}");
            }
        }
    }

    #[test]
    fn a_ratio_of_one_leaves_compressors_nothing() {
        let values = Made::new(1.0, 1);
        let mut plain = Vec::new();
        (0..4_000).for_each(|object| values.append(object, 250, &mut plain));
        let packed = zstd::bulk::compress(&plain, 3).expect("it fits");
        assert!(packed.len() >= plain.len(), "{} of {}", packed.len(), plain.len());
    }

    #[test]
    fn values_follow_from_the_object_and_have_their_length() {
        let values = Made::new(2.0, 1);
        let value = |object, bytes| {
            let mut out = b"before".to_vec();
            values.append(object, bytes, &mut out);
            out.split_off(6)
        };
        assert_eq!(value(7, 1000), value(7, 1000));
        assert_ne!(value(7, 1000), value(8, 1000));
        for bytes in [0, 1, 31, 32, 33, 1000] {
            assert_eq!(value(7, bytes).len(), bytes as usize);
        }
    }
}
