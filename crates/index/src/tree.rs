//! The tree layout: a bucket that is full gets sub-buckets, one for each value of two tag bits.
//!
//! It is Cavast's tree-structured index (Wang et al.), with its tables behind our directory.
//!
//! ```text
//!   bucket, 64 bytes   | word 0 | word 1 | ... | word 6 | link 0 | link 1 | link 2 | link 3 |
//!                        7 words of 8 bytes               4 links of 2 bytes: a bucket, or 0
//!
//!   table   | bucket 0 ... roots - 1          | taken sub-buckets | free ones: the pool |
//!             3/4 of all, chosen by the rest    in the order in which they were needed
//!
//!   path of a key   root --tag bits 0, 1--> sub-bucket --tag bits 2, 3--> sub-bucket --> ...
//! ```
//!
//! An item lies in the first bucket of its path that had a free slot when it was inserted. The
//! links are chosen from the low end of the tag: prefixes and roots take a hash from its upper end,
//! so splits consume those bits last. When the pool is all but empty, the table is rebuilt: a
//! quarter larger, in two halves, or in the same size if it only has many sub-buckets whose items
//! were removed, since sub-buckets are not freed one by one.
//!
//! Why a key that is present is found by every lookup that runs meanwhile, without versions:
//! * While a lookup runs in a table, the slot of a key that is present stays the same: an update
//!   stores to it, nothing moves a word, and only the removal of the key empties it. All links that
//!   lead to it were set before its insertion ended, and links never change again. So a lookup that
//!   follows the path comes to the slot, and whichever of the key's words it loads there, the tag
//!   is the key's and the item was the key's at that moment.
//! * The table itself may be replaced. The replacing thread holds its lock from before the first
//!   word is copied, and no other is let in ever after, so it stays as it was *closed*. A lookup
//!   that reads it took it from the directory, and so the directory led elsewhere only after the
//!   lookup began. A key that is present all the time was thus in this table when the lookup began,
//!   or when the table was closed if that was earlier, and is in the same slot for ever. That is
//!   why a lookup that finds nothing need not ask whether its table is retired, and why a miss
//!   reads the buckets of its path and no other line.
//! * A key that is removed and inserted again may be missed by a lookup that passed its new slot
//!   before and its old one afterwards. It was absent in between, and that is the lookup's answer.
//!
//! What differs from the paper: seven slots in a bucket rather than six, since a table has fewer
//! than 2^16 buckets and a link needs but two bytes (14 % less memory); tables of at most 46 KiB
//! grow and split one by one where the paper doubles one table; a slot is one word of 23 tag bits
//! and a place. The figures are in `docs/decisions/0017-cuckoo-beside-tree.md`.
//!
//! The *list* is the same with all links but the first left out: words that do not fit into a
//! bucket go to its only sub-bucket. The paper compares with it, and so do we.

use crate::bucket::{LINKS, WORDS};
use crate::engine::View;
use crate::find::Found;
use crate::layout::Layout;
use crate::location::Location;
use crate::shape::Shape;
use crate::table::{Locked, Table, UNITS_MAX, UNITS_MIN, buckets_of};
use crate::word::{Side, Word};

/// Slots in a bucket: the last word holds the links.
const SLOTS: usize = WORDS - 1;
/// The share of a table's buckets that are roots. With three in four the pool lasts longest among
/// the shares at which most keys are found in their root: see `examples/roots.rs`.
const ROOTS_PERCENT: usize = 75;
/// A rebuilt table has one in this many of its sub-buckets free, or it is made larger.
const FREE_SHARE: usize = 8;
/// A table grows when it has begun to use the last one in this many of its sub-buckets: without
/// memory it then takes some hundred items more, which gives the owner of the memory time to find
/// some.
const RESERVE_SHARE: usize = 16;
/// A table whose pool is used up with no more than this share of its slots in use is built anew in
/// the same size. Half of its pool is free then, which lasts until its items have changed once.
const COMPACT_PERCENT: usize = 54;
/// Bits of the tag that choose a link.
const LINK_BITS: u32 = LINKS.ilog2();

/// By how much a table grows: a quarter of the smallest. Finer steps would save less than they
/// copy, since a pool is never full.
const UNITS_STEP: usize = UNITS_MIN / 4;

const _: () = assert!(buckets_of(UNITS_MAX) <= u16::MAX as usize, "a link has 16 bits");

/// A path of buckets for each key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    /// Those bits of the tag that may choose a link.
    link_mask: u32,
}

impl Tree {
    /// Four sub-buckets for each bucket.
    pub(crate) const TREE: Tree = Tree { link_mask: LINKS as u32 - 1 };
    /// One sub-bucket for each bucket.
    pub(crate) const LIST: Tree = Tree { link_mask: 0 };

    /// Whether no bucket has more than one sub-bucket.
    pub(crate) fn is_list(self) -> bool {
        self.link_mask == 0
    }

    /// The roots of a table of `units`.
    pub(crate) const fn roots(units: usize) -> usize {
        buckets_of(units) * ROOTS_PERCENT / 100
    }
}

/// A bucket on the path of a key, and the bits of the tag that choose the next one.
#[derive(Clone, Copy)]
struct Step {
    bucket: usize,
    bits: u32,
    link_mask: u32,
}

impl Step {
    #[inline]
    fn root(view: &View<'_, Tree>) -> Self {
        Self { bucket: view.home, bits: view.tag, link_mask: view.layout.link_mask }
    }

    /// The number of the link that leads on.
    #[inline]
    fn link(self) -> usize {
        (self.bits & self.link_mask) as usize
    }

    /// The next bucket of the path, if there is one.
    #[inline]
    fn next(self, table: Table<'_>) -> Option<Self> {
        let bucket = table.bucket(self.bucket).link(self.link())?;
        Some(Self { bucket, bits: self.bits >> LINK_BITS, ..self })
    }
}

/// The place of a new word: a slot of a bucket, which is a new one if `above` names the bucket and
/// the link that is to lead to it.
pub(crate) struct Spot {
    bucket: usize,
    slot: usize,
    above: Option<Step>,
}

/// The root above each bucket of a table.
pub(crate) struct Roots([u16; buckets_of(UNITS_MAX)]);

impl Default for Roots {
    fn default() -> Self {
        Self([0; _])
    }
}

impl Layout for Tree {
    /// The root.
    type Home = usize;
    type Spot = Spot;
    type Walk = Roots;

    const SLOTS: usize = SLOTS;
    const GROW_RETRY: usize = 4;
    /// The pool is empty at 60 % (`examples/roots.rs`), and this is 80 % of that.
    const COMFORTABLE_PERCENT: usize = 48;
    const EXPECTED_PERCENT: usize = 52;
    const WORDS_MOVE: bool = false;

    #[inline]
    fn primaries(units: usize) -> usize {
        Tree::roots(units)
    }

    #[inline]
    fn home(_shape: Shape, primary: usize, _tag: u32) -> usize {
        primary
    }

    /// The root alone: the next bucket is known only once the root has arrived.
    #[inline]
    fn prefetch(view: &View<'_, Self>) {
        view.table.bucket(view.home).prefetch();
    }

    #[inline]
    fn scan(view: &View<'_, Self>, eq: &mut impl FnMut(Location) -> bool) -> Option<Found> {
        let mut step = Step::root(view);
        loop {
            let found = view.scan_bucket(step.bucket, Side::Primary, eq);
            if found.is_some() {
                return found;
            }
            step = step.next(view.table)?;
        }
    }

    fn lines(view: &View<'_, Self>, found: Option<Found>) -> usize {
        let (mut step, mut lines) = (Step::root(view), 1);
        while found.is_none_or(|found| found.bucket != step.bucket) {
            let Some(next) = step.next(view.table) else { break };
            (step, lines) = (next, lines + 1);
        }
        lines
    }

    /// The first free slot on the key's path, which a sub-bucket from the pool prolongs if need be.
    #[inline]
    fn place(view: &View<'_, Self>, locked: &Locked<'_>) -> Option<Spot> {
        let mut step = Step::root(view);
        loop {
            if let Some(slot) = locked.table.bucket(step.bucket).free_slot(SLOTS) {
                return Some(Spot { bucket: step.bucket, slot, above: None });
            }
            let Some(next) = step.next(view.table) else { break };
            step = next;
        }
        let bucket = view.shape.buckets + locked.table.sub_buckets();
        if bucket == locked.table.buckets() {
            locked.count_failed_search();
            return None;
        }
        Some(Spot { bucket, slot: 0, above: Some(step) })
    }

    #[inline]
    fn insert(view: &View<'_, Self>, locked: &Locked<'_>, spot: Spot, location: Location) {
        let word = Word::new(Side::Primary, view.tag, location);
        locked.insert(spot.bucket, spot.slot, word);
        if let Some(above) = spot.above {
            locked.link(above.bucket, above.link(), spot.bucket);
        }
    }

    #[inline]
    fn rest_of_word(walk: &Roots, shape: Shape, bucket: usize, word: Word) -> u64 {
        shape.rest_of_word(usize::from(walk.0[bucket]), word)
    }

    /// A sub-bucket has a higher number than the bucket that leads to it, because it was taken from
    /// the pool later. So its root is known when the walk comes to it.
    #[inline]
    fn enter_bucket(walk: &mut Roots, table: Table<'_>, shape: Shape, bucket: usize) {
        if bucket < shape.buckets {
            walk.0[bucket] = bucket as u16;
        }
        for link in 0..LINKS {
            if let Some(below) = table.bucket(bucket).link(link) {
                walk.0[below] = walk.0[bucket];
            }
        }
    }

    /// A table with few items may have an empty pool only because others were removed. Keys that
    /// cannot be separated show up when the table is to be split for them.
    fn is_hopeless(_view: &View<'_, Self>, _locked: &Locked<'_>) -> bool {
        false
    }

    #[inline]
    fn fullness(table: Table<'_>) -> usize {
        table.sub_buckets()
    }

    fn grow_at(units: usize) -> usize {
        let pool = buckets_of(units) - Tree::roots(units);
        pool - pool / RESERVE_SHARE + 1
    }

    fn units_next(units: usize, items: usize) -> usize {
        let is_worn = items * 100 <= Self::slots(units) * COMPACT_PERCENT;
        if is_worn { units } else { units + UNITS_STEP }
    }

    fn has_room(table: Table<'_>, shape: Shape) -> bool {
        let pool = table.buckets() - shape.buckets;
        let free = pool - table.sub_buckets();
        free > 0 && free * FREE_SHARE >= pool
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::common::{HeapSpace, mix};
    use crate::engine::Engine;
    use crate::index::Options;
    use crate::shape::REST_BITS_MAX;
    use crate::update::Change;
    use crate::{Hash, PLACE_BITS};
    use memory::Epochs;

    /// Bits of a hash after those that an index of one table uses.
    const UNUSED_BITS: u32 = u64::BITS - REST_BITS_MAX;

    fn start(layout: Tree) -> Engine<Tree> {
        let space = Arc::new(HeapSpace::new(512));
        Engine::new(layout, &Options::default(), Arc::new(Epochs::new()), space)
            .expect("there is memory")
    }

    /// A key whose tag ends in `bits`, with a number in the unused bits of its hash.
    fn hash(bits: u64, number: u64) -> Hash {
        Hash(bits << UNUSED_BITS | number)
    }

    fn location(Hash(hash): Hash) -> Location {
        Location::new(1, hash & ((1 << PLACE_BITS) - 1))
    }

    fn insert(index: &Engine<Tree>, hash: Hash) {
        let set = |_| (Change::Set(location(hash)), ());
        let guard = index.epochs.pin();
        assert_eq!(index.update(&guard, hash, |at| at == location(hash), set), Ok(()));
    }

    /// The lines of a lookup, which has to find the key or not.
    fn lines(index: &Engine<Tree>, hash: Hash, is_there: bool) -> usize {
        let guard = index.epochs.pin();
        let found = index.find(&guard, hash, |at| at == location(hash));
        assert_eq!(found, is_there.then(|| location(hash)));
        index.lookup_lines(&guard, hash, |at| at == location(hash))
    }

    #[test]
    fn each_two_bits_of_the_tag_choose_the_next_sub_bucket() {
        let index = start(Tree::TREE);
        for number in 0..2 * SLOTS as u64 {
            insert(&index, hash(0b00, number));
        }
        for bits in 1..4 {
            insert(&index, hash(bits, 0));
        }
        // The second bucket of those that end in 00 is full too: they differ in the bits before.
        insert(&index, hash(0b01_00, 0));
        let last = SLOTS as u64;
        assert_eq!(lines(&index, hash(0b00, last - 1), true), 1);
        assert_eq!(lines(&index, hash(0b00, last), true), 2);
        assert_eq!(lines(&index, hash(0b01_00, 0), true), 3);
        assert_eq!(lines(&index, hash(0b11_00, 0), false), 2);
        for bits in 1..4 {
            assert_eq!(lines(&index, hash(bits, 0), true), 2);
            assert_eq!(lines(&index, hash(bits, 1), false), 2);
        }
        assert_eq!(index.stats().sub_buckets, 5);
    }

    #[test]
    fn a_list_has_one_sub_bucket_for_all() {
        let index = start(Tree::LIST);
        for number in 0..3 * SLOTS as u64 {
            insert(&index, hash(number % 4, number));
        }
        assert_eq!(index.stats().sub_buckets, 2);
        assert_eq!(lines(&index, hash(0, 0), true), 1);
        assert_eq!(lines(&index, hash(3, 1000), false), 3);
    }

    #[test]
    fn keys_of_sub_buckets_keep_their_hash_bits_as_their_table_grows() {
        for layout in [Tree::TREE, Tree::LIST] {
            let index = start(layout);
            // Eight roots with long paths, and keys all over the table, which is small under Miri.
            let (share, sub_buckets_min) = if cfg!(miri) { (16, 12) } else { (1, 256) };
            let long = |number: u64| Hash((number % 8) << 61 | hash(number / 8, 0).0);
            let others = (0..500 / share).map(|number| Hash(mix(number)));
            let keys = (0..2000 / share).map(long).chain(others);
            keys.clone().for_each(|key| insert(&index, key));
            let stats = index.stats();
            assert!(stats.growths > 0 && stats.sub_buckets > sub_buckets_min, "{stats:?}");
            keys.for_each(|key| assert!(lines(&index, key, true) > 0));
        }
    }
}
