//! Values that need no making: every object's value is a part of one long text, chosen by the
//! object's number, so a hit can be checked without remembering what was stored.

use crate::random::Random;

/// Places at which a value can begin. More would cost memory, fewer would make values alike.
const STARTS: usize = 1 << 20;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 8 << 20;
/// Spreads neighbouring objects over the text.
const SPREAD: usize = 0x9e37_79b1;

/// The text.
#[derive(Debug)]
pub struct Values {
    text: Vec<u8>,
}

impl Values {
    /// A text for values of up to `value_bytes_max`.
    pub fn new(value_bytes_max: usize, seed: u64) -> Values {
        assert!(value_bytes_max <= VALUE_BYTES_MAX, "values are at most {VALUE_BYTES_MAX} bytes");
        let mut random = Random::new(seed);
        let words = (STARTS + value_bytes_max).div_ceil(8);
        let text = (0..words).flat_map(|_| random.word().to_le_bytes()).collect();
        Values { text }
    }

    /// The value of `object` when it has this length.
    #[inline]
    pub fn value(&self, object: u32, value_bytes: usize) -> &[u8] {
        let start = (object as usize).wrapping_mul(SPREAD) % STARTS;
        &self.text[start..start + value_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::Values;

    #[test]
    fn values_are_repeatable_and_differ() {
        let (values, same) = (Values::new(1000, 1), Values::new(1000, 1));
        assert_eq!(values.value(7, 1000), same.value(7, 1000));
        assert_ne!(values.value(7, 32), values.value(8, 32));
        assert_eq!(values.value(u32::MAX, 1000).len(), 1000);
        assert!(values.value(3, 0).is_empty());
    }
}
