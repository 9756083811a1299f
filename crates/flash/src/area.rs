//! The two areas of the tier.
//!
//! ```text
//!              stage      collected: what was read           collected: what lives
//!                |         +-----------+        +--------------------------------------------+
//!                v         v           |        v                                            |
//!   cold   units of rows compressed together            hot   rows as they are, in units of a page
//!                |                                            ^
//!                +--------------------------------------------+
//!                 collected: what was read often, where a step chose it; or promoted
//! ```
//!
//! An item in the cold area costs the least room, one in the hot area the least time: one page, and
//! nothing to decode. Each area has an open unit and an open segment of its own.

/// A part of the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Area {
    /// Rows are compressed together.
    Cold = 0,
    /// Rows are stored as they are.
    Hot = 1,
}

impl Area {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cold, Self::Hot];

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Cold => Self::Hot,
            Self::Hot => Self::Cold,
        }
    }

    /// Where it stands among things of which each area has one.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn from_bit(bit: u64) -> Self {
        if bit & 1 == 0 { Self::Cold } else { Self::Hot }
    }
}
