//! The zone itself: what it is made of, and what holds between its parts.
//!
//! Invariants:
//!
//! * A leaf's slot changes only under the lock of its shard. That lock is taken before the lock of
//!   the caller's index table, never after it: [`Zone::insert`] calls `confirm` under it, and the
//!   functions that may be called under a key's lock ([`Zone::remove`], [`Zone::remove_hit`]) never
//!   wait for a shard's lock.
//! * Two live rows of one key never exist: a newcomer takes an older row's place in one step.
//! * A block of another generation than the zone's counts as empty for every thread, so that a
//!   flush is one step. No block has generation 0: the zone has it while the numbers begin anew.

use std::sync::{Arc, Mutex};

use codec::Method;
use memory::{Arena, Epochs, TableSpace};
use stdx::CachePadded;
use stdx::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use stdx::sync::lock;

use crate::block::Head;
use crate::clean::Cursor;
use crate::dictionaries::Dictionaries;
use crate::expire::Expiries;
use crate::raw::{Block, Ground};
use crate::space::Space;
use crate::stats::Counters;
use crate::trie::{Leaf, SHARDS, Trie};

/// Raw bytes of a block, unless set otherwise: smaller blocks have more metadata, larger ones make
/// more work for cleaning (decision 0009).
pub const BLOCK_BYTES: usize = 7 << 10;
/// The range of raw bytes of a block: a head and a long key must fit, and a header counts the bytes
/// of a block that is [`OVERFULL`].
pub const BLOCK_BYTES_RANGE: std::ops::RangeInclusive<usize> = 1 << 10..=16 << 10;
/// How many times as long a block may get where splitting its leaf would cost more.
pub const OVERFULL: usize = 2;
/// The longest value, as a fraction of a slab: one part in this many.
pub const VALUE_SHARE: usize = 2;
/// The longest stored value, as a fraction of a slab: cleaning moves it in one piece.
pub const STORED_SHARE: usize = 4;

/// The zone's generation while the numbers begin anew.
const GENERATION_NONE: u16 = 0;

/// How keys are hashed; the same as the caller of the zone does it.
pub type HashKey = Box<dyn Fn(&[u8]) -> u64 + Send + Sync>;

/// The settings of a zone.
pub struct Settings {
    /// The hash of a key, for where the zone has to compute it again.
    pub hash: HashKey,
    /// The number of slabs that the zone may own.
    pub budget_slabs: usize,
    /// Raw bytes of a block, in [`BLOCK_BYTES_RANGE`].
    pub block_bytes: usize,
    /// How blocks are compressed.
    pub method: Method,
    /// The level of zstd.
    pub level: i32,
    /// Whether blocks carry checksums.
    pub checksums: bool,
}

impl Settings {
    /// The usual settings.
    pub fn new(hash: HashKey, budget_slabs: usize) -> Self {
        Self {
            hash,
            budget_slabs,
            block_bytes: BLOCK_BYTES,
            method: Method::Zstd,
            level: 3,
            checksums: cfg!(debug_assertions),
        }
    }
}

/// The compressed zone.
pub struct Zone {
    pub(crate) settings: Settings,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) trie: Trie,
    pub(crate) space: Space,
    pub(crate) dictionaries: Dictionaries,
    pub(crate) shards: Box<[CachePadded<Mutex<()>>]>,
    pub(crate) generation: AtomicU16,
    /// The hash at which the sweep goes on.
    pub(crate) hand: AtomicU64,
    /// Leaves that the background has swept since a sweep last made room.
    pub(crate) fruitless: AtomicUsize,
    pub(crate) expiries: Expiries,
    pub(crate) cleaner: Mutex<Option<Cursor>>,
    pub(crate) counters: Counters,
}

impl Zone {
    /// Makes an empty zone; `None` if the table space has no room for its first table.
    pub fn new(
        arena: Arc<Arena>,
        epochs: Arc<Epochs>,
        tables: Arc<dyn TableSpace>,
        settings: Settings,
    ) -> Option<Self> {
        assert!(BLOCK_BYTES_RANGE.contains(&settings.block_bytes));
        let budget_slabs = settings.budget_slabs;
        let ground = Ground::new(arena, Arc::clone(&epochs));
        Some(Self {
            trie: Trie::new(tables)?,
            space: Space::new(ground, Arc::clone(&epochs), budget_slabs),
            dictionaries: Dictionaries::new(settings.level),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            generation: AtomicU16::new(GENERATION_NONE + 1),
            hand: AtomicU64::new(0),
            fruitless: AtomicUsize::new(0),
            expiries: Expiries::default(),
            cleaner: Mutex::default(),
            counters: Counters::new(GENERATION_NONE + 1),
            settings,
            epochs,
        })
    }

    /// Sets the number of slabs that the zone may own. Slabs beyond it go back as
    /// [`Zone::maintain`] is called.
    pub fn set_budget_slabs(&self, slabs: usize) {
        self.space.set_budget_slabs(slabs);
    }

    /// The number of slabs that the zone may own.
    pub fn budget_slabs(&self) -> usize {
        self.space.budget_slabs()
    }

    /// The number of slabs that the zone owns.
    pub fn slabs(&self) -> usize {
        self.space.owned_slabs()
    }

    /// Removes everything from the zone. The caller holds no lock of the index.
    pub fn flush(&self) {
        if self.begin_flush() {
            self.begin_anew();
        }
    }

    /// Removes everything from the zone, in one step. Returns whether the generation numbers are
    /// used up, which happens at every 65,535th flush: then nothing is let in until the caller,
    /// which may do something else first, has called [`Zone::begin_anew`].
    #[must_use]
    pub fn begin_flush(&self) -> bool {
        loop {
            let before = self.generation.load(Ordering::Relaxed);
            let next = match before {
                GENERATION_NONE => GENERATION_NONE,
                before => before.wrapping_add(1),
            };
            if before != GENERATION_NONE {
                self.counters.items.begin(before, next);
            }
            // Release: partner is the acquire in `generation`. That holds where nothing changes,
            // too: the thread that begins anew later takes it over, and hands it on to those that
            // see its number.
            let order = (Ordering::Release, Ordering::Relaxed);
            if self.generation.compare_exchange(before, next, order.0, order.1).is_ok() {
                return before != next && next == GENERATION_NONE;
            }
            // Another thread was faster.
        }
    }

    /// Empties each leaf, and lets items in again. Only for a caller to whom [`Zone::begin_flush`]
    /// returned true, and which holds no lock of the index.
    pub fn begin_anew(&self) {
        self.empty_all();
        self.counters.items.begin(GENERATION_NONE, GENERATION_NONE + 1);
        // Acquire: partner is the release in `begin_flush`, of flushes that happened meanwhile.
        // Release: partner is the acquire in `generation`.
        let before = self.generation.swap(GENERATION_NONE + 1, Ordering::AcqRel);
        debug_assert_eq!(before, GENERATION_NONE, "nobody else begins anew");
    }

    /// The generation that blocks must have; `None` while the numbers begin anew.
    #[inline]
    pub(crate) fn generation(&self) -> Option<u16> {
        // Acquire: partner is the release in `begin_flush`.
        let generation = self.generation.load(Ordering::Acquire);
        (generation != GENERATION_NONE).then_some(generation)
    }

    /// Empties every leaf.
    fn empty_all(&self) {
        let mut hash = 0;
        loop {
            let _shard = lock(self.shard(hash));
            // Pinned for each leaf anew, and for no longer: there may be millions of leaves.
            let guard = self.epochs.pin();
            let leaf = self.trie.leaf(hash);
            if leaf.block.is_some() {
                self.drop_leaf(&guard, leaf);
            }
            hash = leaf.node.next_hash();
            if hash == 0 {
                return;
            }
        }
    }

    /// Empties a leaf, with all its rows, under the lock of its shard. Returns how many items were
    /// removed.
    pub(crate) fn drop_leaf(&self, guard: &memory::Guard<'_>, leaf: Leaf) -> u64 {
        let Some(reference) = leaf.block else { return 0 };
        let block = self.space.ground.block(guard, reference);
        let alive = block.map_or(0, |block| {
            let dead = block.dead().iter().map(|word| word.close().count_ones());
            u32::from(block.head().rows).saturating_sub(dead.sum())
        });
        self.trie.replace(&[leaf], &[Leaf { block: None, ..leaf }]);
        let Some(block) = block else { return 0 };
        let generation = block.head().generation;
        self.counters.items.go(generation, alive as usize);
        let gone = if Some(generation) == self.generation() { alive } else { 0 };
        for long in block.longs() {
            self.retire_long(guard, long.load());
        }
        self.retire(&block);
        gone.into()
    }

    /// Counts a block, of rows or of a long value, that is about to be published.
    pub(crate) fn enlist(&self, head: &Head) {
        let raw_bytes = self.raw_bytes_of(head);
        raw_bytes.fetch_add(head.raw_bytes as usize, Ordering::Relaxed);
        self.counters.rows.fetch_add(head.rows.into(), Ordering::Relaxed);
    }

    fn raw_bytes_of(&self, head: &Head) -> &AtomicUsize {
        if head.long { &self.counters.long_bytes } else { &self.counters.raw_bytes }
    }

    /// Retires a block that nothing refers to any more.
    pub(crate) fn retire(&self, block: &Block<'_>) {
        let head = block.head();
        self.raw_bytes_of(head).fetch_sub(head.raw_bytes as usize, Ordering::Relaxed);
        self.counters.rows.fetch_sub(head.rows.into(), Ordering::Relaxed);
        self.dictionaries.release(block.head().dictionary);
        self.space.retire(block.reference(), block.head());
    }

    /// Retires a long block, given the code from its slot.
    pub(crate) fn retire_long(&self, guard: &memory::Guard<'_>, code: u32) {
        let reference = crate::raw::Reference::from_code(code);
        let block = reference.and_then(|reference| self.space.ground.block(guard, reference));
        if let Some(block) = block {
            self.retire(&block);
        }
    }

    #[inline]
    pub(crate) fn shard(&self, hash: u64) -> &Mutex<()> {
        &self.shards[crate::trie::shard_of(hash)]
    }

    pub(crate) fn budget_bytes(&self) -> usize {
        self.space.budget_slabs() * self.space.slab_bytes()
    }

    /// The longest value that can be taken.
    pub fn value_bytes_max(&self) -> usize {
        self.space.slab_bytes() / VALUE_SHARE
    }
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zone").field("space", &self.space.stats()).finish_non_exhaustive()
    }
}
