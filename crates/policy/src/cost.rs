//! The cost of making an item again, in two bytes: a small floating-point number of microseconds.
//!
//! ```text
//!   15    11 10         0        exponent 0:  mantissa, exact up to 2047
//!   +-------+------------+       exponent e:  (2048 + mantissa) << (e - 1)
//!   | exp.  |  mantissa  |
//!   +-------+------------+
//! ```
//!
//! Exact up to four milliseconds and to a quarter of a thousandth beyond, up to the 71 minutes that
//! 32 bits of microseconds hold. Codes order as the costs they stand for.

const MANTISSA_BITS: u32 = 11;
const MANTISSA_END: u32 = 1 << MANTISSA_BITS;

/// A cost as it is stored with an item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(pub u16);

impl Cost {
    /// The cost is not known.
    pub const UNKNOWN: Self = Self(0);

    /// The nearest cost to `us` microseconds; 0 is unknown.
    pub fn from_us(us: u32) -> Self {
        if us < MANTISSA_END {
            return Self(us as u16);
        }
        let shift = u32::BITS - MANTISSA_BITS - 1 - us.leading_zeros();
        // Rounding may carry into the exponent, which is then the next one with a mantissa of 0.
        let half = if shift == 0 { 0 } else { 1u64 << (shift - 1) };
        let rounded = ((u64::from(us) + half) >> shift) as u32 - MANTISSA_END;
        Self((((shift + 1) << MANTISSA_BITS) + rounded) as u16)
    }

    /// The cost in microseconds.
    pub fn us(self) -> u32 {
        let (exponent, mantissa) = (u32::from(self.0) >> MANTISSA_BITS, u32::from(self.0));
        let mantissa = mantissa % MANTISSA_END;
        match exponent {
            0 => mantissa,
            _ => {
                let us = u64::from(MANTISSA_END + mantissa) << (exponent - 1);
                u32::try_from(us).unwrap_or(u32::MAX)
            }
        }
    }

    /// Whether the cost is known.
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}

/// The typical cost of an item, from the costs that it learns: about their median, so that a few
/// very costly items do not count for more than others. Each cost moves it by a small part of
/// itself towards that cost; where as many are above as below, it stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct Typical {
    /// In 256ths of a microsecond; 0 before the first.
    scaled: u64,
}

/// A cost moves the typical cost by one part in this: a hundred and some costs are enough for a
/// tenfold change, and the median of alternating costs is met to a few percent.
const TYPICAL_STEP: u64 = 64;
/// A microsecond in units of [`Typical`], so that a small typical cost moves too.
const TYPICAL_SCALE: u64 = 256;

impl Typical {
    /// Learns a cost, if it is known.
    pub fn learn(&mut self, cost: Cost) {
        let scaled = u64::from(cost.us()) * TYPICAL_SCALE;
        if !cost.is_known() {
            return;
        }
        if self.scaled == 0 {
            self.scaled = scaled;
        }
        let step = self.scaled.div_ceil(TYPICAL_STEP);
        self.scaled = scaled.clamp(self.scaled - step.min(self.scaled - 1), self.scaled + step);
    }

    /// Learns the cost of a victim, and returns the probability with which it should leave, so that
    /// an item stays as many times longer as it costs more than the typical one: 1 for all that
    /// cost less than twice that, or whose cost is unknown.
    pub fn leaves(&mut self, cost: Cost) -> f64 {
        self.learn(cost);
        let typical_us = self.us().unwrap_or(1);
        let is_costly = cost.us() / 2 >= typical_us;
        if is_costly { f64::from(typical_us) / f64::from(cost.us()) } else { 1.0 }
    }

    /// In microseconds; `None` before the first cost.
    pub fn us(self) -> Option<u32> {
        (self.scaled != 0).then(|| (self.scaled / TYPICAL_SCALE).clamp(1, u32::MAX.into()) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Typical};

    #[test]
    fn the_typical_cost_is_the_median_and_follows_changes() {
        let mut typical = Typical::default();
        typical.learn(Cost::UNKNOWN);
        assert_eq!(typical.us(), None);
        typical.learn(Cost::from_us(50));
        assert_eq!(typical.us(), Some(50));
        // A tenth is a thousand times as costly: it hardly counts.
        for at in 0..1000 {
            typical.learn(Cost::from_us(if at % 10 == 0 { 1_000_000 } else { 1000 }));
        }
        let us = typical.us().expect("costs are known");
        assert!((950..1050).contains(&us), "{us}");
        (0..1000).for_each(|_| typical.learn(Cost::from_us(1)));
        assert_eq!(typical.us(), Some(1));
        (0..10_000).for_each(|_| typical.learn(Cost::from_us(u32::MAX)));
        assert_eq!(typical.us(), Some(u32::MAX));
    }

    #[test]
    fn a_costly_item_leaves_as_many_times_more_seldom() {
        let mut typical = Typical::default();
        assert_eq!(typical.leaves(Cost::UNKNOWN), 1.0);
        (0..100).for_each(|_| typical.learn(Cost::from_us(1000)));
        let probabilities = [1, 1900, 4000].map(|us| typical.leaves(Cost::from_us(us)));
        assert_eq!(probabilities[..2], [1.0, 1.0]);
        assert!((0.24..0.26).contains(&probabilities[2]), "{probabilities:?}");
    }

    #[test]
    fn small_costs_are_exact_and_large_ones_nearly() {
        for us in 0..=4096 {
            assert_eq!(Cost::from_us(us).us(), us);
        }
        let mut us = 4096u32;
        while let Some(next) = us.checked_add(1 + us / 4001) {
            us = next;
            let off = Cost::from_us(us).us().abs_diff(us);
            assert!(off <= us / 4095, "{us}: off by {off}");
        }
        assert_eq!(Cost::from_us(u32::MAX).us(), u32::MAX);
    }

    #[test]
    fn codes_order_as_costs_and_convert_back() {
        let highest = Cost::from_us(u32::MAX).0;
        for code in 1..=highest {
            assert!(Cost(code).us() > Cost(code - 1).us(), "{code}");
            assert_eq!(Cost::from_us(Cost(code).us()), Cost(code));
        }
        assert!(!Cost::from_us(0).is_known() && Cost::from_us(1).is_known());
    }
}
