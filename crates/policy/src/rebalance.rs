//! Which size class gives a slab to which: the answer to *calcification*, where slabs stay with
//! the sizes that came first and later sizes have no room.
//!
//! One list over all items would always evict what was left alone for longest, whatever its size.
//! With a hand for each class that holds if all classes evict at the same age. So a class that has
//! to make room compares what it would evict with the slab, of all other classes, that a hand left
//! alone for longest; if that is much older, the slab moves, and the class evicts nothing of its
//! own. Ages are counted in mutations of the cache: whatever else a mutation is, it is the same for
//! all classes.
//!
//! A slab's age says when the hand last came by, and not what happened to its items since. So
//! before it moves somebody looks ([`Look`]): stored anew, or read, they are not old, and the slab
//! is *spared* once, as CLOCK spares an item.

/// A slab moves only if it is this many times as old as what would be evicted otherwise: a move
/// costs the items of a slab, and ages of small classes are rough.
pub const AGE_RATIO_MIN: u64 = 2;

/// Of the chunks in a slab, one in so many may hold something young and go with the slab.
pub const YOUNG_SHARE: usize = 16;

/// Of the chunks in a slab, one in so many may hold something that was read lately.
pub const RECENT_SHARE: usize = 2;

/// Whether a slab that was left alone for `age` mutations goes rather than an item of `victim_age`.
pub fn is_much_older(age: u64, victim_age: u64) -> bool {
    age / AGE_RATIO_MIN > victim_age
}

/// Whether an item of `age` counts as young in a slab of `slab_age`: it came long after the hand.
pub fn is_young(age: u64, slab_age: u64) -> bool {
    age < slab_age / AGE_RATIO_MIN
}

/// What is in a slab that may move, or in some of its chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Chunks that were looked at, free ones included.
    pub chunks: usize,
    /// Items stored long after the hand came by.
    pub young: usize,
    /// Others, read since the hand came by.
    pub recent: usize,
}

impl Look {
    /// Whether the slab stays for another round.
    pub fn is_spared(&self) -> bool {
        self.young * YOUNG_SHARE > self.chunks
            || (self.young + self.recent) * RECENT_SHARE > self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ages_move_nothing() {
        assert!(!is_much_older(1000, 1000) && !is_much_older(1999, 1000));
        assert!(is_much_older(2002, 1000) && is_much_older(2, 0));
        assert!(!is_much_older(1, 0), "a slab that came just now stays");
    }

    #[test]
    fn a_slab_of_old_items_goes() {
        assert!(!Look { chunks: 16, young: 1, recent: 0 }.is_spared());
        assert!(!Look { chunks: 16, young: 0, recent: 8 }.is_spared());
        assert!(!Look { chunks: 16, young: 0, recent: 0 }.is_spared());
    }

    #[test]
    fn a_slab_with_what_was_stored_or_read_lately_stays() {
        assert!(Look { chunks: 16, young: 2, recent: 0 }.is_spared());
        assert!(Look { chunks: 16, young: 0, recent: 9 }.is_spared());
    }

    #[test]
    fn young_is_what_came_long_after_the_hand() {
        assert!(is_young(0, 10) && is_young(4, 10) && !is_young(5, 10));
        assert!(!is_young(0, 0));
    }
}
