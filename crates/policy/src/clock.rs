//! CLOCK, as in MemC3: one bit per chunk, set by a hit and cleared by the hand, which evicts what
//! it finds without. It approximates least-recently-used with a bit in place of two list pointers
//! and without a lock on the way of a hit.
//!
//! What differs from MemC3: a new item starts without its bit, so that what is never read again
//! leaves after one round of the hand rather than two. (The hot zone sees to it that it has that
//! round: its hand passes over what was stored since it last came by.)

use crate::Verdict;

/// The mark's bit that says: hit since the hand last came by.
pub const RECENT: u8 = 1;

/// What the hand does with a chunk that it finds with this mark.
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
