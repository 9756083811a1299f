//! Items that need not be kept: key and value of item `i` are computed from `i`.
//!
//! So a reader can check any reply without remembering the writes. Keys are a filler and ten
//! decimal digits. Values are random characters of a 64-letter printable alphabet, like a token or
//! a base64 body: a compressor gains at most a quarter on them, by packing eight bits into six, and
//! finds no repetition.

use crate::random::Random;

/// Digits of the index that end every key.
const KEY_DIGITS: usize = 10;
/// The shortest key that differs from all others.
pub const KEY_BYTES_MIN: usize = KEY_DIGITS;
/// The longest key of memcached's text protocol.
pub const KEY_BYTES_MAX: usize = 250;
/// One more than the largest index that fits into a key.
pub const INDEX_END: u64 = 10_000_000_000;

const FILLER: &[u8] = b"larder:bench:";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Six-bit letters taken from each random word.
const LETTERS_PER_WORD: usize = 10;

/// The lengths of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Every value has this many bytes.
    Fixed(usize),
    /// Logarithmically uniform between two sizes: each doubling is as frequent as the next.
    LogUniform {
        /// The smallest value.
        bytes_min: usize,
        /// The largest value.
        bytes_max: usize,
    },
}

/// The form of all items of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Length of every key.
    pub key_bytes: usize,
    /// Length of the values.
    pub size: Size,
}

impl Shape {
    /// Items whose keys and values all have the same length.
    pub fn fixed(key_bytes: usize, value_bytes: usize) -> Shape {
        assert!((KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key_bytes), "key length out of range");
        Shape { key_bytes, size: Size::Fixed(value_bytes) }
    }

    /// The length of the value of item `index`.
    pub fn value_bytes(&self, index: u64) -> usize {
        match self.size {
            Size::Fixed(bytes) => bytes,
            Size::LogUniform { bytes_min, bytes_max } => {
                let place = Random::new(!index).unit();
                let (low, high) = ((bytes_min as f64).ln(), (bytes_max as f64).ln());
                let bytes = (low + (high - low) * place).exp() as usize;
                bytes.clamp(bytes_min, bytes_max)
            }
        }
    }

    /// Appends the key of item `index`.
    pub fn key(&self, index: u64, out: &mut Vec<u8>) {
        debug_assert!(index < INDEX_END, "the index does not fit into a key");
        let filler_bytes = self.key_bytes - KEY_DIGITS;
        out.extend(FILLER.iter().cycle().take(filler_bytes));
        let mut digits = [b'0'; KEY_DIGITS];
        let mut rest = index;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&digits);
    }

    /// Appends the value of item `index`.
    pub fn value(&self, index: u64, out: &mut Vec<u8>) {
        let mut left = self.value_bytes(index);
        let mut random = Random::new(index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        while left > 0 {
            let mut word = random.word();
            let mut letters = [0; LETTERS_PER_WORD];
            for letter in &mut letters {
                *letter = ALPHABET[(word & 63) as usize];
                word >>= 6;
            }
            let take = left.min(LETTERS_PER_WORD);
            out.extend_from_slice(&letters[..take]);
            left -= take;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, Size};

    fn key_of(shape: Shape, index: u64) -> Vec<u8> {
        let mut key = Vec::new();
        shape.key(index, &mut key);
        key
    }

    #[test]
    fn keys_have_their_length_and_end_in_the_index() {
        for key_bytes in [10, 16, 24, 250] {
            let key = key_of(Shape::fixed(key_bytes, 1), 4_711);
            assert_eq!(key.len(), key_bytes);
            assert!(key.ends_with(b"0000004711"));
        }
    }

    #[test]
    fn values_are_repeatable_printable_and_differ() {
        let shape = Shape::fixed(16, 33);
        let (mut one, mut same, mut other) = (Vec::new(), Vec::new(), Vec::new());
        shape.value(5, &mut one);
        shape.value(5, &mut same);
        shape.value(6, &mut other);
        assert_eq!(one.len(), 33);
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert!(one.iter().all(u8::is_ascii_graphic));
    }

    #[test]
    fn mixed_sizes_stay_in_range_and_spread_over_it() {
        let shape =
            Shape { key_bytes: 16, size: Size::LogUniform { bytes_min: 10, bytes_max: 1000 } };
        let sizes: Vec<usize> = (0..10_000).map(|index| shape.value_bytes(index)).collect();
        assert!(sizes.iter().all(|bytes| (10..=1000).contains(bytes)));
        let below_middle = sizes.iter().filter(|bytes| **bytes < 100).count();
        assert!((4_500..5_500).contains(&below_middle), "{below_middle}");
    }
}
