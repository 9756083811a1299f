//! Counters of the zone's events, and figures of its content.
//!
//! Lookups are counted in their [`crate::Reader`], which belongs to one thread. The other events,
//! counted here, are rare beside the work that they count.

use stdx::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::dictionaries::DictionaryStats;
use crate::expire::Expiries;
use crate::raw::Reference;
use crate::space::SpaceStats;
use crate::zone::Zone;

/// The counters as they are kept.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) items: ItemCount,
    pub(crate) rows: AtomicUsize,
    pub(crate) raw_bytes: AtomicUsize,
    pub(crate) long_bytes: AtomicUsize,
    pub(crate) inserted: AtomicU64,
    pub(crate) inserted_short: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) evicted_untold: AtomicU64,
    /// Without those of the sweep for expired items, so that the number found by others is not the
    /// difference of two numbers that are counted one after the other.
    pub(crate) expired_met: AtomicU64,
    pub(crate) expired_swept: AtomicU64,
    pub(crate) expiry_looks: AtomicU64,
    pub(crate) expiry_rewrites: AtomicU64,
    pub(crate) expiry_drops: AtomicU64,
    pub(crate) dropped_leaves: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) merges: AtomicU64,
    /// Of those, merges that left the block of one of the two as it was.
    pub(crate) moved_up: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

/// The number of items of the present generation. An item added to or removed from a block of
/// another generation counts for nothing, so that 0 is 0 after a flush, whichever threads were at
/// work meanwhile.
#[derive(Debug, Default)]
pub(crate) struct ItemCount {
    /// The generation above, the count below.
    packed: AtomicU64,
}

/// Bits of [`ItemCount`] that count.
const COUNT_BITS: u32 = 48;

impl ItemCount {
    pub(crate) fn new(generation: u16) -> Self {
        Self { packed: AtomicU64::new(u64::from(generation) << COUNT_BITS) }
    }

    pub(crate) fn get(&self) -> usize {
        (self.packed.load(Ordering::Relaxed) & Self::COUNT) as usize
    }

    pub(crate) fn come(&self, generation: u16) {
        self.change(generation, |count| count + 1);
    }

    pub(crate) fn go(&self, generation: u16, count: usize) {
        self.change(generation, |before| {
            debug_assert!(before >= count as u64, "an item is counted before it is found");
            before.saturating_sub(count as u64)
        });
    }

    /// Begins at 0 for the generation after `before`, unless another thread has done so.
    pub(crate) fn begin(&self, before: u16, next: u16) {
        self.swap(before, |_| u64::from(next) << COUNT_BITS);
    }

    const COUNT: u64 = (1 << COUNT_BITS) - 1;

    fn change(&self, generation: u16, count: impl Fn(u64) -> u64) {
        self.swap(generation, |packed| packed & !Self::COUNT | count(packed & Self::COUNT));
    }

    fn swap(&self, generation: u16, change: impl Fn(u64) -> u64) {
        let is_of = |packed: u64| packed >> COUNT_BITS == u64::from(generation);
        let changed = |packed| is_of(packed).then(|| change(packed));
        // If the generation is another one there is nothing to count.
        let _ = self.packed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

impl Counters {
    /// Makes the counters of a zone that begins with this generation.
    pub(crate) fn new(generation: u16) -> Self {
        Self { items: ItemCount::new(generation), ..Self::default() }
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A zone at one moment, as far as its parts can be read one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// Items that can be found.
    pub items: usize,
    /// Rows in blocks, dead ones too.
    pub rows: usize,
    /// Bytes of rows before compression, without long values.
    pub raw_bytes: usize,
    /// Bytes of long values before compression.
    pub long_bytes: usize,
    /// Leaves of the trie.
    pub leaves: usize,
    /// Bytes of the trie that the table space counts.
    pub trie_bytes: usize,
    /// Bytes of the trie on the heap.
    pub trie_heap_bytes: usize,
    /// Slabs and bytes of blocks.
    pub space: SpaceStats,
    /// Dictionaries.
    pub dictionaries: DictionaryStats,
    /// Newcomers that were published.
    pub inserted: u64,
    /// Of those, rows that were appended to a block whose other rows were copied as they were
    /// stored.
    pub inserted_short: u64,
    /// Newcomers that were refused.
    pub refused: u64,
    /// Items that were evicted to make room.
    pub evicted: u64,
    /// Of those, items that no sink was told of: there was none, or they could not be read.
    pub evicted_untold: u64,
    /// Items found expired by a sweep or rewrite.
    pub expired: u64,
    /// Of those, items removed by the sweep for expired items.
    pub expired_swept: u64,
    /// Leaves that that sweep looked at, without decoding anything.
    pub expiry_looks: u64,
    /// Of those, leaves that it rewrote.
    pub expiry_rewrites: u64,
    /// Leaves that it emptied undecoded.
    pub expiry_drops: u64,
    /// Leaves that were emptied because there was no room to rewrite or move them.
    pub dropped_leaves: u64,
    /// Leaves that were split.
    pub splits: u64,
    /// Pairs of leaves that were merged.
    pub merges: u64,
    /// Blocks that writers found damaged.
    pub damaged: u64,
}

impl ZoneStats {
    /// Bytes of items, before compression, per byte of the zone's slabs; `None` if there are too
    /// few to tell.
    pub fn density(&self) -> Option<f64> {
        let live = self.items as f64 / self.rows.max(1) as f64;
        let raw_bytes = (self.raw_bytes + self.long_bytes) as f64 * live;
        let used_slabs = self.space.slabs.saturating_sub(self.space.idle_slabs);
        (used_slabs > 1).then(|| raw_bytes / (used_slabs * self.space.slab_bytes) as f64)
    }
}

impl Zone {
    /// The zone's content and counters.
    pub fn stats(&self) -> ZoneStats {
        let counters = &self.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (trie_bytes, trie_heap_bytes) = self.trie.memory_bytes();
        let expired_swept = count(&counters.expired_swept);
        ZoneStats {
            items: counters.items.get(),
            rows: counters.rows.load(Ordering::Relaxed),
            raw_bytes: counters.raw_bytes.load(Ordering::Relaxed),
            long_bytes: counters.long_bytes.load(Ordering::Relaxed),
            leaves: self.trie.leaves(),
            trie_bytes,
            trie_heap_bytes,
            space: self.space.stats(),
            dictionaries: self.dictionaries.stats(),
            inserted: count(&counters.inserted),
            inserted_short: count(&counters.inserted_short),
            refused: count(&counters.refused),
            evicted: count(&counters.evicted),
            evicted_untold: count(&counters.evicted_untold),
            expired: count(&counters.expired_met) + expired_swept,
            expired_swept,
            expiry_looks: count(&counters.expiry_looks),
            expiry_rewrites: count(&counters.expiry_rewrites),
            expiry_drops: count(&counters.expiry_drops),
            dropped_leaves: count(&counters.dropped_leaves),
            splits: count(&counters.splits),
            merges: count(&counters.merges),
            damaged: count(&counters.damaged),
        }
    }

    /// Bytes on the heap that neither slabs nor tables count: dictionaries, samples, lists. They
    /// are to be counted against the memory limit, with those of every [`crate::Reader`] and
    /// [`crate::Writer`].
    pub fn heap_bytes(&self) -> usize {
        self.dictionaries.stats().memory_bytes + self.trie.memory_bytes().1 + Expiries::MEMORY_BYTES
    }

    /// Bytes of compressed rows and long values in the blocks that leaves refer to: for figures, as
    /// it visits every leaf.
    pub fn stored_bytes(&self) -> usize {
        let guard = self.epochs.pin();
        let ground = &self.space.ground;
        let (mut bytes, mut hash) = (0, 0);
        loop {
            let leaf = self.trie.leaf(hash);
            if let Some(block) = leaf.block.and_then(|at| ground.block(&guard, at)) {
                let longs =
                    block.longs().iter().filter_map(|slot| Reference::from_code(slot.load()));
                let longs = longs.filter_map(|at| ground.block(&guard, at));
                bytes +=
                    block.stored().len() + longs.map(|long| long.stored().len()).sum::<usize>();
            }
            hash = leaf.node.next_hash();
            if hash == 0 {
                return bytes;
            }
        }
    }
}
