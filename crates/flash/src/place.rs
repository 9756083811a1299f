//! The place of an item, in 38 bits: few enough to stand in a word of the index beside its tag.
//!
//! ```text
//!   37                       5 + hash bits                 5     2          0
//!   +---------------------------------+--------------------+------+----------+
//!   | granule in the device, or the   | the hash's low     | span | accesses |
//!   | number of a staged row          | bits, >= 2         | 3    | 2        |
//!   +---------------------------------+--------------------+------+----------+
//!
//!   span   0       staged: the row is in the open unit, and its unit has no granule yet
//!          1..=6   pages to read, from the one in which the unit begins
//!          7       more: the first page says how many
//! ```
//!
//! Where hash bits end and the address begins depends on the device ([`crate::geometry`]).

/// Bits of a place.
pub const PLACE_BITS: u32 = 38;
/// The highest count of accesses that a place can hold.
pub const ACCESSES_MAX: u8 = (1 << ACCESSES_BITS) - 1;

const ACCESSES_BITS: u32 = 2;
const SPAN_BITS: u32 = 3;
/// The lowest bit of the hash bits.
pub(crate) const HASH_SHIFT: u32 = ACCESSES_BITS + SPAN_BITS;
/// Bits that hash and address share.
pub(crate) const SHARED_BITS: u32 = PLACE_BITS - HASH_SHIFT;
/// The span of a unit of more pages than a span can express.
pub(crate) const SPAN_LONG: u8 = (1 << SPAN_BITS) - 1;
/// The span of a staged row.
pub(crate) const SPAN_STAGED: u8 = 0;

const _: () = assert!(SHARED_BITS == 33 && SPAN_LONG == 7 && ACCESSES_MAX == 3);

/// The place of an item. The count of accesses belongs to the cache: the tier begins it at 0, and
/// carries it along when an item is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub u64);

impl Place {
    /// Whether two places are the same but for their accesses.
    pub fn is_same(self, other: Self) -> bool {
        self.0 >> ACCESSES_BITS == other.0 >> ACCESSES_BITS
    }

    /// The count of accesses.
    pub fn accesses(self) -> u8 {
        (self.0 & u64::from(ACCESSES_MAX)) as u8
    }

    /// The same place with another count of accesses, at most [`ACCESSES_MAX`].
    pub fn with_accesses(self, accesses: u8) -> Self {
        Self(self.0 & !u64::from(ACCESSES_MAX) | u64::from(accesses.min(ACCESSES_MAX)))
    }

    /// Pages to read, or one of the special spans.
    pub(crate) fn span(self) -> u8 {
        (self.0 >> ACCESSES_BITS) as u8 & SPAN_LONG
    }

    pub(crate) fn is_staged(self) -> bool {
        self.span() == SPAN_STAGED
    }

    pub(crate) fn compose(span: u8, hash_bits: u32, hash: u64, address: u64) -> Self {
        assert!(span <= SPAN_LONG && address >> (SHARED_BITS - hash_bits) == 0, "a place has room");
        let span = u64::from(span) << ACCESSES_BITS;
        let hash = (hash & low_bits(hash_bits)) << HASH_SHIFT;
        Self(address << (HASH_SHIFT + hash_bits) | hash | span)
    }
}

/// A mask of the lowest `bits` bits.
pub(crate) const fn low_bits(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_no_part_of_what_makes_places_the_same() {
        let place = Place::compose(3, 2, 0b11, low_bits(31));
        assert_eq!(place.0 >> PLACE_BITS, 0);
        for accesses in 0..=ACCESSES_MAX {
            let other = place.with_accesses(accesses);
            assert_eq!((other.accesses(), other.span()), (accesses, 3));
            assert!(other.is_same(place) && place.is_same(other));
        }
        assert_eq!(place.with_accesses(9).accesses(), ACCESSES_MAX);
        assert!(!place.is_same(Place::compose(4, 2, 0b11, low_bits(31))));
        assert!(!place.is_same(Place::compose(3, 2, 0b10, low_bits(31))));
        assert!(!place.is_same(Place::compose(3, 2, 0b11, low_bits(30))));
        assert!(Place::compose(SPAN_STAGED, 13, 5, 1).is_staged() && !place.is_staged());
    }
}
