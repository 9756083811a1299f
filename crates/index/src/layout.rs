//! What tells one kind of index from another: where in a table the words of a key may lie.
//!
//! Everything else, the directory, locks, growth, splits, limbo and statistics, is common to all
//! kinds (`engine`). The trait is private, so there are no others than [`Cuckoo`](crate::cuckoo)
//! and [`Tree`](crate::tree); the public [`Index`](crate::Index) chooses once for each call.
//!
//! What a layout has to keep:
//! * All buckets of a key follow from its *home*, and the home from the rest of its hash and its
//!   tag alone.
//! * A key that is there is found by every [`Layout::scan`] that runs meanwhile; where words move,
//!   only by one during which the version of its tag stayed even and the same.
//! * From a word and the bucket it lies in the rest of its hash comes back.

use std::fmt::Debug;

use crate::engine::View;
use crate::find::Found;
use crate::location::Location;
use crate::shape::Shape;
use crate::table::{Locked, Table, buckets_of};
use crate::word::Word;

/// How the words of a table lie.
pub(crate) trait Layout: Debug + Copy + Send + Sync + 'static {
    /// The buckets in which a key's search begins.
    type Home: Copy;
    /// Where a new word goes.
    type Spot;
    /// What a walk over all buckets in their order has to remember.
    type Walk: Default;

    /// Slots in a bucket.
    const SLOTS: usize;
    /// After the space refused to let a table grow, its fullness rises by this before the next
    /// attempt.
    const GROW_RETRY: usize;
    /// A table is not made fuller than this by choice, so that it does not grow again at once.
    const COMFORTABLE_PERCENT: usize;
    /// How full the tables are to become that are made for items of which it is known how many come
    /// and that it will be all: few of them grow then, and only little.
    const EXPECTED_PERCENT: usize;
    /// Whether a word that is there may move to another slot of the table.
    const WORDS_MOVE: bool;

    /// How many of a table's buckets are some key's first.
    fn primaries(units: usize) -> usize;

    /// The home of the keys with this primary bucket and this tag.
    fn home(shape: Shape, primary: usize, tag: u32) -> Self::Home;

    /// Asks the processor for those lines a lookup will read that are known by now.
    fn prefetch(view: &View<'_, Self>);

    /// One look at all buckets of a key.
    fn scan(view: &View<'_, Self>, eq: &mut impl FnMut(Location) -> bool) -> Option<Found>;

    /// How many lines a lookup reads that ends with `found`, the directory's left out.
    fn lines(view: &View<'_, Self>, found: Option<Found>) -> usize;

    /// A free slot for a key that is absent; `None` where there is none and none can be made.
    fn place(view: &View<'_, Self>, locked: &Locked<'_>) -> Option<Self::Spot>;

    /// Fills the slot that [`Layout::place`] has just found.
    fn insert(view: &View<'_, Self>, locked: &Locked<'_>, spot: Self::Spot, location: Location);

    /// The rest of the hash of the key whose word lies in `bucket`. A walk comes to the buckets by
    /// rising number.
    fn rest_of_word(walk: &Self::Walk, shape: Shape, bucket: usize, word: Word) -> u64;

    /// A walk comes to `bucket`.
    fn enter_bucket(walk: &mut Self::Walk, table: Table<'_>, shape: Shape, bucket: usize);

    /// Whether a key that has found no place in a table would find none in larger tables either,
    /// because it shares all hash bits with many others.
    fn is_hopeless(view: &View<'_, Self>, locked: &Locked<'_>) -> bool;

    /// What says how full a table is.
    fn fullness(table: Table<'_>) -> usize;

    /// A table as full as this grows when there is memory; without, it can become fuller.
    fn grow_at(units: usize) -> usize;

    /// The units of the table that takes the place of one without a place for another key; more
    /// than a table may have if it is to be split.
    fn units_next(units: usize, items: usize) -> usize;

    /// Whether a table that was just built has room enough to be worth it.
    fn has_room(table: Table<'_>, shape: Shape) -> bool;

    /// The slots of a table of `units`.
    fn slots(units: usize) -> usize {
        buckets_of(units) * Self::SLOTS
    }

    /// The most items that a table of `units` is made to hold by choice.
    fn comfortable_items(units: usize) -> usize {
        Self::slots(units) * Self::COMFORTABLE_PERCENT / 100
    }

    /// How many of the items that are expected a table of `units` is made for.
    fn expected_items(units: usize) -> usize {
        Self::slots(units) * Self::EXPECTED_PERCENT / 100
    }
}
