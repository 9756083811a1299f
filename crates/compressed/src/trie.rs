//! From a hash to its leaf: a binary trie over hashes without a walk from the root.
//!
//! ```text
//!   level 6   | .  . leaf .  .  . |     node = 1 << level | top `level` bits of the hash
//!   level 7   | .  .  .  leaf leaf|
//!   level 8   | leaf leaf .  .  . |     nodes of all levels up to 8 lie in one segment, each
//!             ...                       level below that in segments of 512 slots of its own
//! ```
//!
//! A node's slot holds the code of the leaf's block, 1 for a leaf without a block, or 0 where the
//! node is no leaf. Inner nodes do not exist: a lookup probes the slots on its hash's path, from
//! the lowest level in use upwards, and zExpander's ghost nodes are not needed either, because a
//! leaf's level follows from where it was found.
//!
//! Invariant: exactly one leaf is on the path of each hash, except for the moment in which its
//! shard restructures: then there is none. So a lookup that passes all levels without meeting a
//! leaf has been overtaken by a split or merge, and looks again; it never takes "no leaf" for "not
//! found".
//!
//! Old leaves are removed before new ones are put in, though a lookup has to wait for that moment:
//! with both in sight, a marker that looked at the parent's slot before a merge, and at the child's
//! slot after the split that followed, would mark a row in the child while later readers still find
//! the parent, where the row is alive. This way, a thread that knows that something happened in a
//! leaf also knows that any leaf that covered its hashes before is out of sight.
//!
//! A block may stay as it is while its leaf takes its parent's place, because the sibling has
//! nothing left. Such a block, too, is led to by one slot at a time. It is not sealed for that: a
//! mark by a thread that came through the child's slot is in the block that the parent's slot leads
//! to. Blocks only move up, so that no slot ever leads again to a block that it led to before.
//!
//! No leaf lies much deeper than the others ([`Trie::level_wanted_max`]): each of a few deeper ones
//! would touch a segment of its own, which for one leaf is 2 KiB.
//!
//! A segment comes from the table space, so that it counts against the memory limit, and stays
//! until the zone goes.

use std::sync::{Arc, Mutex, OnceLock};

use memory::TableSpace;
use stdx::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use stdx::sync::{Backoff, lock};

use crate::raw::{Reference, SEGMENT_SLOTS, Segment, SegmentSlot, release_segment};
use crate::seal::Slot;

/// How many top bits of the hash choose the shard: the lowest level of leaves.
pub const SHARD_BITS: u32 = 6;
/// The number of shards, each with a writer's lock.
pub const SHARDS: usize = 1 << SHARD_BITS;
/// The deepest level of leaves: it allows for more blocks than an arena of 128 GiB has.
pub const LEVEL_MAX: u32 = 28;

/// The number of levels that leaves may lie deeper than if all lay at one. Measured with values of
/// 600 bytes, when a segment was eight times as large: without this bound the trie took 47 bytes an
/// item.
const LEVELS_SPREAD: u32 = 2;

/// Levels below this number share one segment.
const LEVELS_SHARED: u32 = SEGMENT_SLOTS.ilog2();

const NO_LEAF: u32 = 0;
const EMPTY_LEAF: u32 = 1;

/// A node of the trie: its level and the top bits of the hashes below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(u32);

impl Node {
    /// The node at `level` on the path of a hash.
    #[inline]
    pub(crate) fn on_path(hash: u64, level: u32) -> Self {
        Self(1 << level | (hash >> (u64::BITS - level)) as u32)
    }

    pub(crate) fn level(self) -> u32 {
        self.0.ilog2()
    }

    /// The lowest hash below it.
    pub(crate) fn first_hash(self) -> u64 {
        u64::from(self.0) << (u64::BITS - self.level())
    }

    /// The lowest hash behind it; 0 after the last node.
    pub(crate) fn next_hash(self) -> u64 {
        self.first_hash().wrapping_add(1 << (u64::BITS - self.level()))
    }

    pub(crate) fn parent(self) -> Self {
        Self(self.0 >> 1)
    }

    pub(crate) fn sibling(self) -> Self {
        Self(self.0 ^ 1)
    }

    pub(crate) fn children(self) -> [Self; 2] {
        [Self(self.0 << 1), Self(self.0 << 1 | 1)]
    }

    /// Which of the two children a hash below this node belongs to.
    pub(crate) fn side(self, hash: u64) -> usize {
        (hash >> (u64::BITS - 1 - self.level()) & 1) as usize
    }
}

/// A leaf as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) node: Node,
    /// Its block, if it has any rows.
    pub(crate) block: Option<Reference>,
}

impl Leaf {
    /// The code that stands in its slot.
    pub(crate) fn code(&self) -> u32 {
        self.block.map_or(EMPTY_LEAF, Reference::code)
    }
}

/// The trie.
pub(crate) struct Trie {
    tables: Arc<dyn TableSpace>,
    shared: SegmentSlot,
    /// The segments of the levels above, from `LEVELS_SHARED` on.
    levels: [OnceLock<Box<[SegmentSlot]>>; (LEVEL_MAX - LEVELS_SHARED + 1) as usize],
    /// Bit `l`: there may be leaves at level `l`.
    levels_used: AtomicU32,
    /// Leaves at each level.
    counts: Mutex<[u32; LEVEL_MAX as usize + 1]>,
    leaves: AtomicUsize,
    segments: AtomicUsize,
}

impl Trie {
    /// Makes a trie of empty leaves, one per shard; `None` if there is no room.
    pub(crate) fn new(tables: Arc<dyn TableSpace>) -> Option<Self> {
        let segment = Segment::allocate(&*tables)?;
        let mut counts = [0; LEVEL_MAX as usize + 1];
        counts[SHARD_BITS as usize] = SHARDS as u32;
        let trie = Self {
            tables,
            shared: SegmentSlot::default(),
            levels: std::array::from_fn(|_| OnceLock::new()),
            levels_used: AtomicU32::new(1 << SHARD_BITS),
            counts: Mutex::new(counts),
            leaves: AtomicUsize::new(SHARDS),
            segments: AtomicUsize::new(1),
        };
        let published = trie.shared.publish(segment);
        published.expect("nobody else knows the trie yet");
        for prefix in 0..SHARDS as u32 {
            let node = Node(1 << SHARD_BITS | prefix);
            trie.slot(node).expect("its segment was just published").publish(EMPTY_LEAF);
        }
        Some(trie)
    }

    /// The leaf on the path of a hash.
    #[inline]
    pub(crate) fn leaf(&self, hash: u64) -> Leaf {
        let mut backoff = Backoff::default();
        loop {
            // Relaxed: missing a level costs one more look, as during a split.
            let mut levels = self.levels_used.load(Ordering::Relaxed);
            while levels != 0 {
                let node = Node::on_path(hash, levels.trailing_zeros());
                levels &= levels - 1;
                if let Some(leaf) = self.leaf_at(node) {
                    return leaf;
                }
            }
            backoff.wait();
        }
    }

    /// The leaf at a node, if it is one.
    #[inline]
    pub(crate) fn leaf_at(&self, node: Node) -> Option<Leaf> {
        let code = self.slot(node)?.load();
        (code != NO_LEAF).then(|| Leaf { node, block: Reference::from_code(code) })
    }

    #[inline]
    fn slot(&self, node: Node) -> Option<&Slot> {
        let level = node.level();
        if level < LEVELS_SHARED {
            return Some(&self.shared.slots()?[node.0 as usize]);
        }
        let segments = self.levels[(level - LEVELS_SHARED) as usize].get()?;
        let prefix = (node.0 ^ 1 << level) as usize;
        Some(&segments[prefix / SEGMENT_SLOTS].slots()?[prefix % SEGMENT_SLOTS])
    }

    /// Makes sure that a node has a slot. `false` if there is no room for its segment.
    pub(crate) fn ensure(&self, node: Node) -> bool {
        let level = node.level();
        if level > LEVEL_MAX {
            return false;
        }
        if self.slot(node).is_some() {
            return true;
        }
        let index = (level - LEVELS_SHARED) as usize;
        let segments = self.levels[index]
            .get_or_init(|| (0..1_usize << index).map(|_| SegmentSlot::default()).collect());
        let Some(segment) = Segment::allocate(&*self.tables) else {
            self.tables.starve();
            return false;
        };
        let prefix = (node.0 ^ 1 << level) as usize;
        match segments[prefix / SEGMENT_SLOTS].publish(segment) {
            Ok(()) => {
                self.segments.fetch_add(1, Ordering::Relaxed);
            }
            // Another shard's writer was first.
            Err(segment) => release_segment(&*self.tables, segment),
        }
        true
    }

    /// Replaces old leaves by new ones that cover the same hashes. Under the lock of their shard;
    /// the new ones' slots are ensured.
    pub(crate) fn replace(&self, old: &[Leaf], new: &[Leaf]) {
        let restructured = old.len() != 1 || new.len() != 1;
        if restructured {
            self.count(new, true);
            for leaf in old {
                self.slot(leaf.node).expect("there was a leaf").publish(NO_LEAF);
            }
        }
        for leaf in new {
            let slot = self.slot(leaf.node).expect("the slot of a new leaf is ensured");
            slot.publish(leaf.code());
        }
        if restructured {
            self.count(old, false);
            self.leaves.fetch_add(new.len(), Ordering::Relaxed);
            self.leaves.fetch_sub(old.len(), Ordering::Relaxed);
        }
    }

    fn count(&self, leaves: &[Leaf], come: bool) {
        let mut counts = lock(&self.counts);
        for leaf in leaves {
            let level = leaf.node.level();
            let count = &mut counts[level as usize];
            *count = if come { *count + 1 } else { *count - 1 };
            if come {
                self.levels_used.fetch_or(1 << level, Ordering::Relaxed);
            } else if *count == 0 {
                self.levels_used.fetch_and(!(1 << level), Ordering::Relaxed);
            }
        }
    }

    /// The number of leaves.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves.load(Ordering::Relaxed)
    }

    /// The level from which on leaves become over-full rather than being split.
    pub(crate) fn level_wanted_max(&self) -> u32 {
        (self.leaves().max(1).ilog2() + LEVELS_SPREAD).min(LEVEL_MAX)
    }

    /// Bytes of segments, which the table space counts, and of the lists of them, which it does
    /// not.
    pub(crate) fn memory_bytes(&self) -> (usize, usize) {
        let segments = self.segments.load(Ordering::Relaxed) * SEGMENT_SLOTS * size_of::<Slot>();
        let lists = self.levels.iter().filter_map(OnceLock::get);
        (segments, lists.map(|list| list.len() * size_of::<SegmentSlot>()).sum())
    }
}

impl Drop for Trie {
    fn drop(&mut self) {
        let lists = self.levels.iter_mut().filter_map(OnceLock::get_mut);
        let slots = lists.flat_map(|list| list.iter_mut()).chain([&mut self.shared]);
        for segment in slots.filter_map(SegmentSlot::remove) {
            release_segment(&*self.tables, segment);
        }
    }
}

/// The shard of a hash.
#[inline]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARD_BITS)) as usize
}
