//! Division by a number that is constant for the life of a class, by way of a product: a change of
//! the order takes several divisions, one after the other, and each would take as long as a few
//! dozen instructions.
//!
//! For `n` below 2^31 and `d` of at most 2^b, let `f` be 2^(31+b) / d rounded up. Then `n / d` is
//! `n * f >> (31 + b)`: rounding adds less than 1 to `f`, so less than `n / 2^(31+b)`, which is at
//! most `1 / d`, to the quotient, too little to reach the next whole number. With the least such b,
//! `f` is at most 2^32, and the product has 63 bits.

/// Bits of the dividend.
const BITS: u32 = 31;

/// The divisor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Divisor {
    value: u32,
    shift: u32,
    factor: u64,
}

impl Divisor {
    /// From 1 to 2^31.
    pub(super) fn new(value: u32) -> Self {
        assert!((1..=1 << BITS).contains(&value));
        let shift = BITS + value.next_power_of_two().ilog2();
        Self { value, shift, factor: (1_u64 << shift).div_ceil(u64::from(value)) }
    }

    pub(super) fn get(self) -> u32 {
        self.value
    }

    /// Quotient and remainder of a number below 2^31.
    #[inline]
    pub(super) fn divide(self, number: u32) -> (u32, u32) {
        debug_assert!(number < 1 << BITS);
        let quotient = ((u64::from(number) * self.factor) >> self.shift) as u32;
        (quotient, number - quotient * self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    #[cfg_attr(miri, ignore = "safe code that counts to millions")]
    fn products_divide_as_division_does() {
        let edges = |at: u32| at.saturating_sub(2)..=at.saturating_add(2);
        let powers: Vec<u32> = (0..=31).flat_map(|bits| edges(1 << bits)).collect();
        for &value in powers.iter().chain(&[7, 641, 1000, 2520, 29_127, 1_000_003]) {
            if !(1..=1 << 31).contains(&value) {
                continue;
            }
            let divisor = Divisor::new(value);
            let multiples = (1..=1000).filter_map(|times| value.checked_mul(times)).flat_map(edges);
            let last = ((1 << 31) - 1) / value * value;
            let numbers = multiples.chain(powers.iter().copied()).chain(edges(last));
            for number in numbers.filter(|&number| number < 1 << 31) {
                assert_eq!(divisor.divide(number), (number / value, number % value), "{value}");
            }
        }
    }
}
