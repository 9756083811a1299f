//! Where an item lies.

/// Bits of a place.
pub const PLACE_BITS: u32 = 38;
/// The highest count of accesses that a place can hold.
pub const ACCESSES_MAX: u8 = 3;

/// Where an item lies, in 38 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(pub u64);

impl Place {
    /// Whether two places are one but for their accesses.
    pub fn is_same(self, other: Self) -> bool {
        self.0 >> 2 == other.0 >> 2
    }

    /// The count of accesses, which is the cache's to write.
    pub fn accesses(self) -> u8 {
        (self.0 & u64::from(ACCESSES_MAX)) as u8
    }

    /// The same place with another count of accesses.
    pub fn with_accesses(self, accesses: u8) -> Self {
        Self(self.0 & !u64::from(ACCESSES_MAX) | u64::from(accesses.min(ACCESSES_MAX)))
    }
}
