//! The part of an index that differs by kind: where in a table the words of a key may lie.
//!
//! Everything else, the directory, locks, growth, splits, limbo and statistics, is common to all
//! kinds (`engine`). The trait is private, so there are no others than [`Cuckoo`](crate::cuckoo)
//! and [`Tree`](crate::tree); the public [`Index`](crate::Index) chooses once for each call.
//!
//! What a layout has to guarantee:
//! * All buckets of a key follow from its *home*, and the home from the rest of its hash and its
//!   tag alone.
//! * A key that is present is found by every [`Layout::scan`] that runs meanwhile; where words
//!   move, only by one during which the version of its tag stayed even and the same.
//! * A word and the bucket it lies in give back the rest of its key's hash.

use std::fmt::Debug;

use crate::engine::View;
use crate::find::Found;
use crate::location::Location;
use crate::shape::Shape;
use crate::table::{Locked, Table, buckets_of};
use crate::word::Word;

/// The way in which the words of a table lie.
pub(crate) trait Layout: Debug + Copy + Send + Sync + 'static {
    /// The buckets in which a key's search begins.
    type Home: Copy;
    /// Where a new word goes.
    type Spot;
    /// The state that a walk over all buckets in their order carries.
    type Walk: Default;

    /// Slots in a bucket.
    const SLOTS: usize;
    /// After the space refused to let a table grow, its fullness rises by this before the next
    /// attempt.
    const GROW_RETRY: usize;
    /// A table is not made fuller than this by choice, so that it does not grow again at once.
    const COMFORTABLE_PERCENT: usize;
    /// How full tables become that are made for a known number of items, after which no more come:
    /// few of them grow then, and only little.
    const EXPECTED_PERCENT: usize;
    /// Whether a present word may move to another slot of the table.
    const WORDS_MOVE: bool;

    /// The number of a table's buckets that are some key's first.
    fn primaries(units: usize) -> usize;

    /// The home of the keys with this primary bucket and this tag.
    fn home(shape: Shape, primary: usize, tag: u32) -> Self::Home;

    /// Prefetches the lines that a lookup will read, as far as they are known by now.
    fn prefetch(view: &View<'_, Self>);

    /// One look at all buckets of a key.
    fn scan(view: &View<'_, Self>, eq: &mut impl FnMut(Location) -> bool) -> Option<Found>;

    /// The lines that a lookup ending with `found` reads, not counting the directory's.
    fn lines(view: &View<'_, Self>, found: Option<Found>) -> usize;

    /// A free slot for a key that is absent; `None` where there is none and none can be made.
    fn place(view: &View<'_, Self>, locked: &Locked<'_>) -> Option<Self::Spot>;

    /// Fills the slot that [`Layout::place`] has just found.
    fn insert(view: &View<'_, Self>, locked: &Locked<'_>, spot: Self::Spot, location: Location);

    /// The rest of the hash of the key whose word lies in `bucket`. A walk comes to the buckets by
    /// rising number.
    fn rest_of_word(walk: &Self::Walk, shape: Shape, bucket: usize, word: Word) -> u64;

    /// Notes that a walk comes to `bucket`.
    fn enter_bucket(walk: &mut Self::Walk, table: Table<'_>, shape: Shape, bucket: usize);

    /// Whether a key that has found no place in a table would find none in larger tables either,
    /// because it shares all hash bits with many others.
    fn is_hopeless(view: &View<'_, Self>, locked: &Locked<'_>) -> bool;

    /// The measure of how full a table is.
    fn fullness(table: Table<'_>) -> usize;

    /// A table as full as this grows when there is memory; without, it can become fuller.
    fn grow_at(units: usize) -> usize;

    /// The units of the table that replaces one without a place for another key; more than a table
    /// may have if it is to be split.
    fn units_next(units: usize, items: usize) -> usize;

    /// Whether a table that was just built has enough room to be worth it.
    fn has_room(table: Table<'_>, shape: Shape) -> bool;

    /// The slots of a table of `units`.
    fn slots(units: usize) -> usize {
        buckets_of(units) * Self::SLOTS
    }

    /// The most items that a table of `units` is made to hold by choice.
    fn comfortable_items(units: usize) -> usize {
        Self::slots(units) * Self::COMFORTABLE_PERCENT / 100
    }

    /// The number of expected items that a table of `units` is made for.
    fn expected_items(units: usize) -> usize {
        Self::slots(units) * Self::EXPECTED_PERCENT / 100
    }
}
