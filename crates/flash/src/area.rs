//! The two areas of the tier.
//!
//! ```text
//!              stage      collected: read rows                 collected: live rows
//!                |         +-----------+        +--------------------------------------------+
//!                v         v           |        v                                            |
//!   cold   units of rows compressed together            hot   rows as they are, in units of a page
//!                |                                            ^
//!                +--------------------------------------------+
//!                 collected: read often, and chosen by a step; or promoted
//! ```
//!
//! An item in the cold area takes the least room, one in the hot area the least time: one page, and
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
    /// Both areas.
    pub const ALL: [Self; 2] = [Self::Cold, Self::Hot];

    /// The other area.
    pub const fn other(self) -> Self {
        match self {
            Self::Cold => Self::Hot,
            Self::Hot => Self::Cold,
        }
    }

    /// Its index in arrays with an element for each area.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn from_bit(bit: u64) -> Self {
        if bit & 1 == 0 { Self::Cold } else { Self::Hot }
    }
}
