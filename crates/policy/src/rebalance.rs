//! Which size class gives a slab to which: the answer to *calcification*, where slabs stay with
//! the sizes that came first and later sizes have no room.
//!
//! A class's *turnover* is the share of its memory that it evicted lately. With equal turnover in
//! all classes an item stays equally long whatever its size, which is what one list over all items
//! would do; so slabs move from the class with the lowest turnover to the one with the highest,
//! until they are within a factor of each other. The factor and a least amount of evidence keep
//! noise from moving slabs back and forth: each move costs the items of a slab.
//!
//! Turnover is what a class evicts to make room for its own stores. What it loses with a slab does
//! not count, unless it was being read: a class in which nothing is stored or read any more has no
//! turnover and gives up all it has, as under one list, however fast it is losing it. And only a
//! class that is evicting now asks for a slab; one that used to, has what it needs.

/// What a size class has and what became of it lately.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// Slabs it owns.
    pub slabs: usize,
    /// Slabs' worth of chunks that are free.
    pub free_slabs: f64,
    /// Slabs' worth of items that it evicted lately: an average in which the last weigh most.
    pub evicted_slabs: f64,
    /// It had to refuse an item because it owns nothing it could evict.
    pub starved: bool,
    /// It has evicted to make room since the last look. One that has not, needs nothing, however
    /// much it evicted before.
    pub evicts: bool,
    /// Something was stored in it lately.
    pub stores: bool,
}

/// Slabs move only towards a turnover this many times higher.
pub const TURNOVER_RATIO_MIN: f64 = 2.0;
/// A class has to have evicted this much of a slab before it is given another.
pub const EVIDENCE_SLABS_MIN: f64 = 0.25;

/// A class is given at most this many slabs before it has used them.
pub const AHEAD_SLABS_MAX: f64 = 8.0;

/// Gives a slab of class `from` to class `to`, both indices into what was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The class that loses a slab.
    pub from: usize,
    /// The class that may take one.
    pub to: usize,
}

/// The move that helps most, if any helps.
pub fn judge(classes: &[Pressure]) -> Option<Move> {
    let to = neediest(classes)?;
    let from = donor(classes, to)?;
    if is_last_of_active(&classes[from]) && !classes[to].starved {
        return None;
    }
    let enough = classes[to].starved
        || turnover(&classes[to]) > TURNOVER_RATIO_MIN * turnover(&classes[from]);
    enough.then_some(Move { from, to })
}

/// The class that should lose a slab when another must have one: the lowest turnover first, then
/// the most free memory, then the most slabs. Free memory does not come first: a slab that a busy
/// class was just given is free too, and shall stay where it is.
pub fn donor(classes: &[Pressure], to: usize) -> Option<usize> {
    let key = |class: &Pressure| {
        let idle_slabs = class.free_slabs.floor();
        // A class with one slab is asked last: without it, it can store nothing.
        let last = is_last_of_active(class) || (class.slabs == 1 && idle_slabs == 0.0);
        (last, turnover(class), -idle_slabs, -(class.slabs as f64))
    };
    let candidates = (0..classes.len()).filter(|&at| at != to && classes[at].slabs > 0);
    candidates.min_by(|&a, &b| {
        key(&classes[a]).partial_cmp(&key(&classes[b])).unwrap_or(std::cmp::Ordering::Equal)
    })
}

fn neediest(classes: &[Pressure]) -> Option<usize> {
    let needs = |class: &Pressure| {
        // What is given ahead of use follows the pace at which the class evicts.
        let ahead_slabs = (class.evicted_slabs / 4.0).clamp(1.0, AHEAD_SLABS_MAX);
        let evicts = class.evicts && class.evicted_slabs >= EVIDENCE_SLABS_MIN;
        class.starved || (evicts && class.free_slabs < ahead_slabs)
    };
    let candidates = (0..classes.len()).filter(|&at| needs(&classes[at]));
    candidates.max_by(|&a, &b| {
        let key = |at: usize| (classes[at].starved, turnover(&classes[at]));
        key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
    })
}

/// Whether this class's only slab holds what was stored lately. Sizes that are rare need no more
/// than that slab and evict nothing, which is no reason to take it.
fn is_last_of_active(class: &Pressure) -> bool {
    class.slabs == 1 && class.stores
}

/// Shares of the class's memory evicted lately.
fn turnover(class: &Pressure) -> f64 {
    class.evicted_slabs / class.slabs.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(slabs: usize, evicted_slabs: f64) -> Pressure {
        Pressure { slabs, evicted_slabs, evicts: true, ..Pressure::default() }
    }

    #[test]
    fn equal_turnover_moves_nothing() {
        assert_eq!(judge(&[class(10, 5.0), class(2, 1.0), class(0, 0.0)]), None);
    }

    #[test]
    fn the_idle_class_gives_to_the_busy_one() {
        let found = judge(&[class(10, 0.1), class(2, 1.0), class(5, 2.0)]);
        assert_eq!(found, Some(Move { from: 0, to: 1 }));
    }

    #[test]
    fn a_starved_class_gets_a_slab_from_whoever_misses_it_least() {
        let starved = Pressure { starved: true, ..Pressure::default() };
        let found = judge(&[class(1, 0.0), starved, class(4, 3.0)]);
        assert_eq!(found, Some(Move { from: 2, to: 1 }));
        assert_eq!(judge(&[class(1, 9.0), starved]), Some(Move { from: 0, to: 1 }));
        assert_eq!(judge(&[starved]), None);
    }

    #[test]
    fn free_memory_moves_first_among_the_idle() {
        let idle = Pressure { slabs: 3, free_slabs: 2.0, ..Pressure::default() };
        let found = judge(&[class(9, 0.0), class(2, 2.0), idle]);
        assert_eq!(found, Some(Move { from: 2, to: 1 }));
    }

    /// A class that had just been given a slab used to lose it again, because the slab was free,
    /// and slabs went to and fro while the class could store nothing.
    #[test]
    fn a_slab_that_was_just_given_stays() {
        let given = Pressure { free_slabs: 1.4, ..class(2, 7.5) };
        assert_eq!(judge(&[class(202, 45.0), given]), Some(Move { from: 0, to: 1 }));
        let enough = Pressure { free_slabs: 1.9, ..given };
        assert_eq!(judge(&[class(202, 45.0), enough]), None);
    }

    /// A class that had been busy went on taking slabs after everybody had turned to another size,
    /// and that other size was left with nothing.
    #[test]
    fn a_class_that_evicts_no_more_needs_nothing() {
        let over = Pressure { evicts: false, ..class(200, 100.0) };
        assert_eq!(judge(&[over, class(2, 0.1)]), None);
    }

    #[test]
    fn the_only_slab_of_a_rare_size_stays() {
        let rare = Pressure { slabs: 1, free_slabs: 0.9, stores: true, ..Pressure::default() };
        assert_eq!(judge(&[rare, class(20, 20.0)]), None);
        let starved = Pressure { starved: true, ..Pressure::default() };
        assert_eq!(judge(&[rare, starved]), Some(Move { from: 0, to: 1 }));
        let idle = Pressure { stores: false, ..rare };
        assert_eq!(judge(&[idle, class(20, 20.0)]), Some(Move { from: 0, to: 1 }));
    }

    #[test]
    fn little_evidence_moves_nothing() {
        assert_eq!(judge(&[class(10, 0.0), class(2, 0.2)]), None);
    }
}
