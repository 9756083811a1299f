//! The zone itself: what it is made of, and what holds between its parts.
//!
//! Invariants:
//!
//! * A leaf's slot changes only under the lock of its shard. The lock is taken before that of the
//!   caller's index table, never after it: [`Zone::insert`] calls `confirm` under it, and what may
//!   be called under a key's lock ([`Zone::remove`], [`Zone::remove_hit`]) never waits for one.
//! * Two live rows of one key never exist: a newcomer takes an older row's place in one step.
//! * A block of another generation than the zone's counts as empty for everybody, so that a flush
//!   is one step. Generation 0 is no block's: it stands while the numbers begin anew.

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

/// Raw bytes of a block, unless set otherwise: less makes metadata, more makes work for cleaning
/// (decision 0009).
pub const BLOCK_BYTES: usize = 7 << 10;
/// The range of raw bytes of a block: a head and a long key must fit, and a header counts those of
/// a block that is [`OVERFULL`].
pub const BLOCK_BYTES_RANGE: std::ops::RangeInclusive<usize> = 1 << 10..=16 << 10;
/// How many times as long a block may get where dividing its leaf would be costlier.
pub const OVERFULL: usize = 2;
/// The longest value, as one part of a slab.
pub const VALUE_SHARE: usize = 2;
/// The longest stored value, as one part of a slab: what cleaning moves in one piece.
pub const STORED_SHARE: usize = 4;

/// In the zone's generation: the numbers begin anew.
const GENERATION_NONE: u16 = 0;

/// How keys are hashed: as the caller of the zone does.
pub type HashKey = Box<dyn Fn(&[u8]) -> u64 + Send + Sync>;

/// What a zone is made with.
pub struct Settings {
    /// The hash of a key, wherever the zone has to know it again.
    pub hash: HashKey,
    /// How many slabs it may own.
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
    /// Leaves that the background has swept since that last made room.
    pub(crate) fruitless: AtomicUsize,
    pub(crate) expiries: Expiries,
    pub(crate) cleaner: Mutex<Option<Cursor>>,
    pub(crate) counters: Counters,
}

impl Zone {
    /// An empty zone; `None` if the table space has no room for its first table.
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

    /// How many slabs the zone may own. What it owns beyond that goes back as
    /// [`Zone::maintain`] is called.
    pub fn set_budget_slabs(&self, slabs: usize) {
        self.space.set_budget_slabs(slabs);
    }

    /// How many slabs the zone may own.
    pub fn budget_slabs(&self) -> usize {
        self.space.budget_slabs()
    }

    /// How many slabs the zone owns.
    pub fn slabs(&self) -> usize {
        self.space.owned_slabs()
    }

    /// Makes everything in the zone gone. The caller holds no lock of the index.
    pub fn flush(&self) {
        if self.begin_flush() {
            self.begin_anew();
        }
    }

    /// Makes everything in the zone gone, in one step. Every 65,535th time the numbers of flushes
    /// have come round, which is returned: then nothing comes in until the caller, who may do
    /// something else before, has called [`Zone::begin_anew`].
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
            // Release: partner is the acquire in `generation`. So it is where nothing changes: who
            // begins anew later takes it over, and hands it on to those who see its number.
            let order = (Ordering::Release, Ordering::Relaxed);
            if self.generation.compare_exchange(before, next, order.0, order.1).is_ok() {
                return before != next && next == GENERATION_NONE;
            }
            // Another thread was faster.
        }
    }

    /// Empties each leaf, and lets items in again. Only who was told so by [`Zone::begin_flush`],
    /// and holds no lock of the index.
    pub fn begin_anew(&self) {
        self.empty_all();
        self.counters.items.begin(GENERATION_NONE, GENERATION_NONE + 1);
        // Acquire: partner is the release in `begin_flush`, of flushes that came meanwhile.
        // Release: partner is the acquire in `generation`.
        let before = self.generation.swap(GENERATION_NONE + 1, Ordering::AcqRel);
        debug_assert_eq!(before, GENERATION_NONE, "nobody else begins anew");
    }

    /// The generation that blocks must have; nothing while the numbers begin anew.
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
            // For each leaf anew, and for none that is waited for: there may be millions.
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

    /// Empties a leaf, with all its rows. Under the lock of its shard. Returns how many items went.
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

    /// Takes note of a block of rows that is about to be published, or of a long one.
    pub(crate) fn enlist(&self, head: &Head) {
        let raw_bytes = self.raw_bytes_of(head);
        raw_bytes.fetch_add(head.raw_bytes as usize, Ordering::Relaxed);
        self.counters.rows.fetch_add(head.rows.into(), Ordering::Relaxed);
    }

    fn raw_bytes_of(&self, head: &Head) -> &AtomicUsize {
        if head.long { &self.counters.long_bytes } else { &self.counters.raw_bytes }
    }

    /// Takes note that nothing refers to a block any more.
    pub(crate) fn retire(&self, block: &Block<'_>) {
        let head = block.head();
        self.raw_bytes_of(head).fetch_sub(head.raw_bytes as usize, Ordering::Relaxed);
        self.counters.rows.fetch_sub(head.rows.into(), Ordering::Relaxed);
        self.dictionaries.release(block.head().dictionary);
        self.space.retire(block.reference(), block.head());
    }

    /// The same for a long block, by what stood in its slot.
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
