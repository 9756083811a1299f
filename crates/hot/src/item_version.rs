//! Whether an item is still the one that was looked at a moment ago.

use std::sync::atomic::Ordering;

use crate::item::ItemRef;
use crate::mark::KEPT;

/// Everything that distinguishes one state of an item in its chunk from another: a published item
/// changes in no other way, and one that moves away and comes back has another number or
/// milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemVersion {
    /// Its number in the sequence of mutations.
    pub sequence: u32,
    /// The second of its expiry, which a touch changes in place.
    pub expiry: u32,
    /// Milliseconds by which it expires earlier. A touch to other milliseconds moves the item under
    /// the same number, and the next one may bring it back to where it was.
    pub early_ms: u16,
    /// The bits of its mark that are demoted with it, which hits do not change.
    pub mark: u8,
}

impl ItemVersion {
    /// The item as it is now.
    pub fn of(item: ItemRef<'_>) -> Self {
        let mark = item.mark().load(Ordering::Relaxed) & KEPT;
        let (sequence, expiry, early_ms) = (item.sequence(), item.expiry(), item.early_ms());
        Self { sequence, expiry, early_ms, mark }
    }
}
