//! The index's inputs and outputs: the hash of a key and the location of its item.
//!
//! ```text
//!   location, 40 bits   39 38 37                                   0
//!                      | tier |               place                 |
//! ```
//!
//! The index looks into neither part. A location is never zero, because no tier is numbered zero,
//! so that a word of zero can mean an empty slot.

use std::fmt;
use std::num::NonZeroU64;

/// Bits of a location.
pub const LOCATION_BITS: u32 = 40;
/// Bits of a location for the item's place in its tier.
pub const PLACE_BITS: u32 = 38;

const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// The 64-bit hash of a key. The index uses its upper bits, so those must be well mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash(pub u64);

/// Where an item is: a tier from 1 to 3 and a place in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location(NonZeroU64);

impl Location {
    /// The location of `place` in `tier`.
    ///
    /// # Panics
    /// If `tier` is not 1, 2 or 3, or `place` has more than 38 bits.
    #[inline]
    pub const fn new(tier: u8, place: u64) -> Self {
        assert!(tier >= 1 && tier <= 3, "a tier is 1, 2 or 3");
        assert!(place <= PLACE_MASK, "a place has 38 bits");
        match NonZeroU64::new((tier as u64) << PLACE_BITS | place) {
            Some(bits) => Self(bits),
            None => panic!("the tier is not zero"),
        }
    }

    /// The location whose 40 bits are `bits`; `None` if they are zero or more than 40.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits >> LOCATION_BITS != 0 {
            return None;
        }
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// The 40 bits.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0.get()
    }

    /// The tier, from 1 to 3.
    #[inline]
    pub const fn tier(self) -> u8 {
        (self.0.get() >> PLACE_BITS) as u8
    }

    /// The place in the tier.
    #[inline]
    pub const fn place(self) -> u64 {
        self.0.get() & PLACE_MASK
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}", self.tier(), self.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_keeps_its_parts() {
        for tier in 1..=3 {
            for place in [0, 1, 12_345, PLACE_MASK] {
                let location = Location::new(tier, place);
                assert_eq!((location.tier(), location.place()), (tier, place));
                assert_eq!(Location::from_bits(location.bits()), Some(location));
            }
        }
        assert_eq!(Location::from_bits(0), None);
        assert_eq!(Location::from_bits(1 << LOCATION_BITS), None);
    }
}
