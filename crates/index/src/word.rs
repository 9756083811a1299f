//! The content of one slot: a tag, a side and a location in 64 bits, or zero for an empty slot.
//!
//! ```text
//!   63   62                  40 39                                      0
//!  |side|        tag           |               location                  |
//! ```
//!
//! The side says whether the word lies in its key's primary bucket (0) or in the alternate one (1).
//! A lookup compares side and tag together: a word with the right tag on the wrong side is another
//! key's. Moving a word to its other bucket flips the side and keeps the rest.
//!
//! MemC3 keeps a tag of one byte and a pointer of eight in an array of each. One word holds both
//! here, so that a slot changes in a single store and a reader never sees half of it.

use crate::location::{LOCATION_BITS, Location};

/// Bits of the hash that a word keeps. With the 40 of a location and the side they make 64.
pub(crate) const TAG_BITS: u32 = 63 - LOCATION_BITS;
/// The bits of a tag.
pub(crate) const TAG_MASK: u32 = (1 << TAG_BITS) - 1;

const LOCATION_MASK: u64 = (1 << LOCATION_BITS) - 1;

/// Which of a key's two buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Primary = 0,
    Alternate = 1,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::Primary, Side::Alternate];

    fn other(self) -> Self {
        match self {
            Side::Primary => Side::Alternate,
            Side::Alternate => Side::Primary,
        }
    }
}

/// A slot's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    pub(crate) const EMPTY: Word = Word(0);

    #[inline]
    pub(crate) fn new(side: Side, tag: u32, location: Location) -> Self {
        Self(u64::from(pattern(side, tag)) << LOCATION_BITS | location.bits())
    }

    /// `None` for an empty slot.
    #[inline]
    pub(crate) fn location(self) -> Option<Location> {
        Location::from_bits(self.0 & LOCATION_MASK)
    }

    #[inline]
    pub(crate) fn tag(self) -> u32 {
        (self.0 >> LOCATION_BITS) as u32 & TAG_MASK
    }

    #[inline]
    pub(crate) fn side(self) -> Side {
        if self.0 >> 63 == 0 { Side::Primary } else { Side::Alternate }
    }

    /// Side and tag, to be compared with a [`pattern`].
    #[inline]
    pub(crate) fn pattern(self) -> u32 {
        (self.0 >> LOCATION_BITS) as u32
    }

    /// The same word as it lies in its other bucket.
    pub(crate) fn turned(self) -> Self {
        let location = self.location().expect("only an item's word is moved");
        Self::new(self.side().other(), self.tag(), location)
    }
}

/// The upper 24 bits of a word that is sought.
#[inline]
pub(crate) fn pattern(side: Side, tag: u32) -> u32 {
    debug_assert!(tag <= TAG_MASK, "a tag has 23 bits");
    (side as u32) << TAG_BITS | tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_parts_and_turns_only_its_side() {
        let location = Location::new(3, (1 << 38) - 1);
        for tag in [0, 1, 0x2a_aaaa, TAG_MASK] {
            for side in Side::BOTH {
                let word = Word::new(side, tag, location);
                assert_eq!((word.side(), word.tag(), word.location()), (side, tag, Some(location)));
                assert_eq!(word.pattern(), pattern(side, tag));
                assert_ne!(word.turned().side(), side);
                assert_eq!(word.turned().turned(), word);
            }
        }
        assert_eq!(Word::EMPTY.location(), None);
    }
}
