//! CLOCK, as in MemC3: one bit per chunk, set by a hit and cleared by the hand, which evicts a
//! chunk that it finds without the bit. It approximates least-recently-used with a bit in place of
//! two list pointers and without a lock on a hit's path.
//!
//! What differs from MemC3: a new item starts without its bit, so that an item that is never read
//! leaves after one round of the hand rather than two. (The hot zone ensures that it has that
//! round: its hand passes over items stored since it last came by.)

use crate::Verdict;

/// The mark's bit for a hit since the hand last came by.
pub const RECENT: u8 = 1;

/// The hand's decision on a chunk with this mark.
pub fn pass(mark: u8) -> Verdict {
    if mark & RECENT == 0 { Verdict::Evict } else { Verdict::Keep(mark & !RECENT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_earns_one_more_round() {
        let fresh = 0b1010_0000;
        assert_eq!(pass(fresh), Verdict::Evict);
        assert_eq!(pass(fresh | RECENT), Verdict::Keep(fresh));
    }
}
