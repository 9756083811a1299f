//! The cuckoo layout: a word lies in one of two buckets, and moves to the other to make room.
//!
//! ```text
//!   rest, tag -> primary bucket   | word 0 | word 1 | ... | word 7 |
//!             -> alternate bucket | word 0 | word 1 | ... | word 7 |
//! ```
//!
//! A bucket is a cache line of eight slots. All buckets are alike: each is the primary one of some
//! keys and the alternate one of others, and a word's side says which it is in. A table is filled
//! to 98 % before it grows (`docs/decisions/0001-index-tables-grow-by-twelfths.md`); above, the
//! search for a path gets long.
//!
//! A word that moves is in its new slot before it leaves the old one, but a scan may pass the new
//! slot too early and the old one too late. So writers bump a version around every move, and a
//! lookup that found nothing compares it (`find`).

use crate::bucket::WORDS;
use crate::engine::View;
use crate::find::Found;
use crate::layout::Layout;
use crate::location::Location;
use crate::path::make_room;
use crate::shape::Shape;
use crate::table::{Locked, Table, buckets_of};
use crate::word::{Side, Word, pattern};

/// Slots in a bucket: as many words as a cache line holds. A model checker gets two, since every
/// word it reads multiplies the interleavings.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { WORDS };

/// A table whose occupancy reaches this share of its slots grows. Above it the search for a path
/// gets long: see `examples/occupancy.rs`.
const GROW_AT_PERCENT: usize = 98;

/// Two buckets for each key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cuckoo {
    /// Paths that a search for room follows side by side.
    pub(crate) paths: usize,
}

impl Layout for Cuckoo {
    /// The primary bucket and the alternate one.
    type Home = [usize; 2];
    /// Side, bucket and slot.
    type Spot = (Side, usize, usize);
    type Walk = ();

    const SLOTS: usize = SLOTS;
    const GROW_RETRY: usize = 16;
    const COMFORTABLE_PERCENT: usize = 80;
    const EXPECTED_PERCENT: usize = 94;
    const WORDS_MOVE: bool = true;

    #[inline]
    fn primaries(units: usize) -> usize {
        buckets_of(units)
    }

    #[inline]
    fn home(shape: Shape, primary: usize, tag: u32) -> [usize; 2] {
        [primary, shape.other(primary, tag)]
    }

    #[inline]
    fn prefetch(view: &View<'_, Self>) {
        for bucket in view.home {
            view.table.bucket(bucket).prefetch();
        }
    }

    // Always, as [`Index::find`](crate::Index::find).
    #[inline(always)]
    fn scan(view: &View<'_, Self>, eq: &mut impl FnMut(Location) -> bool) -> Option<Found> {
        Side::BOTH.into_iter().find_map(|side| view.scan_bucket(view.home[side as usize], side, eq))
    }

    /// The line of versions is the third that a miss reads.
    fn lines(_view: &View<'_, Self>, found: Option<Found>) -> usize {
        match found.map(|found| found.side) {
            Some(Side::Primary) => 1,
            Some(Side::Alternate) => 2,
            None => 3,
        }
    }

    /// The primary bucket comes first, so that most lookups end there; if both are full, words are
    /// moved.
    #[inline]
    fn place(view: &View<'_, Self>, locked: &Locked<'_>) -> Option<(Side, usize, usize)> {
        for side in Side::BOTH {
            let bucket = view.home[side as usize];
            if let Some(slot) = locked.table.bucket(bucket).free_slot(SLOTS) {
                return Some((side, bucket, slot));
            }
        }
        let (shape, paths) = (view.shape, view.layout.paths);
        let (bucket, slot) = make_room(locked, shape, view.home, view.tag, paths)?;
        let side = Side::BOTH[usize::from(bucket != view.home[0])];
        Some((side, bucket, slot))
    }

    #[inline]
    fn insert(
        view: &View<'_, Self>,
        locked: &Locked<'_>,
        (side, bucket, slot): (Side, usize, usize),
        location: Location,
    ) {
        locked.insert(bucket, slot, Word::new(side, view.tag, location));
    }

    #[inline]
    fn rest_of_word(_walk: &(), shape: Shape, bucket: usize, word: Word) -> u64 {
        shape.rest_of_word(bucket, word)
    }

    #[inline]
    fn enter_bucket(_walk: &mut (), _table: Table<'_>, _shape: Shape, _bucket: usize) {}

    /// Both buckets hold words of keys with the same hash bits as this one's and no others: these
    /// have no other bucket either, at any size and depth. Where both are one, they may be two in a
    /// table of another size; only for bits that are all 0 they never are. Or there is no path
    /// although the table is far from full: then there is more than one such set of keys, or keys
    /// lie close together, because they came in the order of their hashes, and a table that has
    /// become so empty for their sake is not split further.
    fn is_hopeless(view: &View<'_, Self>, locked: &Locked<'_>) -> bool {
        let is_zero = view.tag == 0 && view.home == [0, 0];
        let is_same = |word: Word, side| {
            word.pattern() == pattern(side, view.tag) || is_zero && word.tag() == 0
        };
        let is_theirs = |side: Side| {
            let bucket = locked.table.bucket(view.home[side as usize]);
            (0..SLOTS).all(|slot| is_same(bucket.load(slot), side))
        };
        Side::BOTH.into_iter().all(is_theirs)
            || locked.table.count() < Self::slots(view.entry.units()) / 4
    }

    #[inline]
    fn fullness(table: Table<'_>) -> usize {
        table.count()
    }

    fn grow_at(units: usize) -> usize {
        Self::slots(units) * GROW_AT_PERCENT / 100
    }

    fn units_next(units: usize, _items: usize) -> usize {
        units + 1
    }

    fn has_room(_table: Table<'_>, _shape: Shape) -> bool {
        true
    }
}
