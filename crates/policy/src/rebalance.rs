//! Which size class gives a slab to which: the answer to *calcification*, where slabs stay with
//! the sizes that came first and later sizes have no room.
//!
//! One list over all items would always evict the item that was left alone for longest, whatever
//! its size. With a hand for each class that holds if all classes evict at the same age. So a class
//! that has to make room compares its victims with the slab, of all other classes, that a hand left
//! alone for longest; if that is much older, the slab moves, and the class evicts nothing of its
//! own. Ages are counted in mutations of the cache: whatever else a mutation is, it is the same for
//! all classes.
//!
//! Where costs are known, an age is divided by its worth ([`Worths`]): a class whose items cost
//! more per byte keeps them for longer in that proportion. This is the cost-aware rebalancing of
//! GD-Wheel (Li and Cox, EuroSys 2015, section 5.2), which takes slabs from the class with the
//! lowest average cost per byte. Here age counts too: a class that has got slabs evicts later, so
//! the moves come to an end by themselves, where all classes give up as much cost per byte and
//! round; and no class starves, since its age grows while it waits.
//!
//! A slab's age says when the hand last came by, not what happened to its items since. So before it
//! moves its items are looked at ([`Look`]): if many were stored or read since, the slab is spared
//! for a round, as CLOCK spares an item; if a few are among the newest of all, it waits for them to
//! grow old.

/// A slab moves only if it is this many times as old as the victims otherwise: a move costs the
/// items of a slab, and ages of small classes are rough.
pub const AGE_RATIO_MIN: u64 = 2;

/// An item is among the newest if the slab's age is more than this many times its own.
pub const NEWEST_RATIO: u64 = 16;
/// One in this many items of a slab that moves may be one of the newest.
pub const NEWEST_SHARE: usize = 64;
/// One in this many chunks of a slab that moves may hold an item that was stored or read lately.
/// Sizes that are overwritten all the time have such items everywhere; were fewer allowed, they
/// would give nothing to others.
pub const LATELY_SHARE: usize = 2;

/// The highest worth of a class, and the reciprocal of the lowest: a class with the costliest items
/// keeps them at most this many times as long as one whose worth is the mean.
pub const WORTH_MAX: f64 = 16.0;

/// The worth of each class's age: the cost per byte that a round of its hand gives up, relative to
/// the other classes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Worths {
    sum: f64,
    count: u32,
}

impl Worths {
    /// Adds a class with known costs, given as the cost of a round per byte.
    pub fn add(&mut self, density: f64) {
        self.sum += density.ln();
        self.count += 1;
    }

    /// An age by which classes may be compared. A class without known costs counts as the
    /// (geometric) mean of the others.
    pub fn scaled(&self, age: u64, density: Option<f64>) -> u64 {
        let Some(density) = density.filter(|_| self.count > 0) else {
            return age;
        };
        let mean = (self.sum / f64::from(self.count)).exp();
        (age as f64 / (density / mean).clamp(1.0 / WORTH_MAX, WORTH_MAX)) as u64
    }
}

/// Whether a slab that was left alone for `age` mutations moves, rather than evict an item of
/// `victim_age`.
pub fn is_much_older(age: u64, victim_age: u64) -> bool {
    age / AGE_RATIO_MIN > victim_age
}

/// Whether an item was stored long after the hand came to its slab, `slab_age` mutations ago.
pub fn is_young(age: u64, slab_age: u64) -> bool {
    age < slab_age / AGE_RATIO_MIN
}

/// Whether a slab's items may be evicted rather than an item of `victim_age`, when nothing was
/// stored in the slab for `age` mutations.
pub fn is_settled(age: u64, victim_age: u64) -> bool {
    age >= victim_age / AGE_RATIO_MIN
}

/// The ages with which those of a slab's items are compared, in mutations.
#[derive(Debug, Clone, Copy)]
pub struct Ages {
    /// Since the hand came by.
    pub slab: u64,
    /// Age of the victims otherwise.
    pub victims: u64,
}

/// The contents of a slab that may move, or of some of its chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Chunks that were looked at, free ones included.
    pub chunks: usize,
    /// Items and drafts in them.
    pub items: usize,
    /// Items stored just now, as seen from the slab's age.
    pub newest: usize,
    /// Chunks' worth of items stored long after the hand came by, or read since, including the
    /// newest.
    pub lately: usize,
}

impl Look {
    /// Adds an item that takes `chunks` chunks' worth of memory with it, in place of the victims
    /// otherwise. An item twice as old as those was not stored lately, however long the hand has
    /// not come by.
    pub fn add(&mut self, age: u64, ages: Ages, is_recent: bool, chunks: usize) {
        let Ages { slab: slab_age, victims } = ages;
        self.items += 1;
        self.newest += usize::from(age < (slab_age / NEWEST_RATIO).min(victims));
        let is_young = is_young(age, slab_age) && age < victims.saturating_mul(AGE_RATIO_MIN);
        self.lately += if is_recent || is_young { chunks } else { 0 };
    }

    /// Adds drafts, which are newer than all items.
    pub fn add_drafts(&mut self, drafts: usize) {
        self.items += drafts;
        self.newest += drafts;
        self.lately += drafts;
    }

    /// Whether enough was stored or read lately that the slab stays for another round.
    pub fn was_used_lately(&self) -> bool {
        self.lately * LATELY_SHARE > self.chunks
    }

    /// Whether the slab has to wait until the items stored in it just now are old.
    pub fn has_newest(&self) -> bool {
        self.newest * NEWEST_SHARE > self.items
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
    fn ages_are_worth_what_they_keep() {
        let mut worths = Worths::default();
        assert_eq!(worths.scaled(1000, None), 1000);
        worths.add(1.0);
        worths.add(4.0);
        assert_eq!(worths.scaled(1000, None), 1000);
        assert_eq!((worths.scaled(1000, Some(1.0)), worths.scaled(1000, Some(4.0))), (2000, 500));
        assert_eq!((worths.scaled(1600, Some(1e9)), worths.scaled(1600, Some(1e-9))), (100, 25600));
        // A dead item stays the oldest.
        assert!(worths.scaled(u64::MAX, Some(4.0)) > u64::MAX / 4);
    }

    const AGES: Ages = Ages { slab: 1600, victims: 800 };

    fn look(chunks: usize, items: &[(u64, bool)]) -> Look {
        let mut look = Look { chunks, ..Look::default() };
        items.iter().for_each(|&(age, is_recent)| look.add(age, AGES, is_recent, 1));
        look
    }

    #[test]
    fn a_slab_of_old_items_goes() {
        for items in [&[][..], &[(1600, false); 16], &[(100, false); 8], &[(1600, true); 8]] {
            assert!(!look(16, items).was_used_lately() && !look(16, items).has_newest());
        }
    }

    #[test]
    fn a_slab_of_items_stored_or_read_lately_stays() {
        assert!(look(16, &[(100, false); 9]).was_used_lately());
        assert!(look(16, &[(1600, true); 9]).was_used_lately());
    }

    /// A chunk of 50 bytes that leads to 20,000.
    #[test]
    fn chunks_evicted_along_with_an_item_count() {
        for is_recent in [true, false] {
            let mut look = look(1000, &[(1600, false); 20]);
            look.add(1600, AGES, is_recent, 400);
            assert!(!look.was_used_lately());
            look.add(1600, AGES, is_recent, 400);
            assert_eq!(look.was_used_lately(), is_recent);
        }
    }

    #[test]
    fn the_newest_stay_until_they_are_old() {
        assert!(look(1000, &[(99, false)]).has_newest());
        let mut items = [(1600, false); 64];
        items[7] = (99, false);
        assert!(!look(64, &items).has_newest() && look(64, &items[1..]).has_newest());
        let mut drafted = look(16, &[]);
        drafted.add_drafts(1);
        assert!(drafted.has_newest());
        assert!(!is_settled(99, 200) && is_settled(100, 200));
    }

    /// Regression: items stored a while ago stayed in place of ones that are stored anew all the
    /// time.
    #[test]
    fn an_item_older_than_the_victims_is_neither_young_nor_new() {
        let ages = Ages { victims: 10, ..AGES };
        for (age, is_lately, is_newest) in [(9, true, true), (19, true, false), (20, false, false)]
        {
            let mut look = Look { chunks: 1, ..Look::default() };
            look.add(age, ages, false, 1);
            assert_eq!(
                (look.was_used_lately(), look.has_newest()),
                (is_lately, is_newest),
                "{age}"
            );
        }
    }

    #[test]
    fn an_item_stored_long_after_the_hand_came_by_is_young() {
        assert!(is_young(0, 10) && is_young(4, 10) && !is_young(5, 10));
        assert!(!is_young(0, 0));
    }
}
