//! What the cache can say of itself.

use std::sync::atomic::Ordering;

use ::io::device::ReadMethod;
use stdx::sync::lock;

use crate::cache::Cache;
use crate::measure::{CostStats, Measure};
use crate::repartition::RepartitionStats;

pub use ::flash::FlashStats;
pub use compressed::ZoneStats;
pub use hot::ClassStats;

/// The cache as a whole, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items in the cache.
    pub items: u64,
    /// Mutations: stores, and changes that gave an item a new CAS unique, a few that came to
    /// nothing because somebody else was faster among them; flushes; and items that were
    /// renumbered.
    pub mutations: u64,
    /// Bytes of the chunks that hold items, which is those of the hot zone alone.
    pub item_bytes: u64,
    /// The memory limit, in bytes.
    pub limit_bytes: u64,
    /// Bytes of all slabs in use: never above the limit, except just after it was lowered.
    pub used_bytes: u64,
    /// Items evicted to make room.
    pub evicted: u64,
    /// Of these, never read.
    pub evicted_unfetched: u64,
    /// Of these, read since the hand last came by.
    pub evicted_recent: u64,
    /// Expired or flushed items whose memory was taken back by the hand or the sweep.
    pub expired: u64,
    /// Of these, never read.
    pub expired_unfetched: u64,
    /// Of the expired ones, found by the sweeps for them, of the hot and the compressed zone.
    pub swept: u64,
    /// Chunks that the one of the hot zone looked at.
    pub swept_looks: u64,
    /// Items whose time was over when a request asked for them.
    pub found_expired: u64,
    /// Items that a flush had taken when a request asked for them.
    pub found_flushed: u64,
    /// Prefixes that are being flushed in memory, and of those flushed on flash such that something
    /// older is still there.
    pub prefixes_flushing: [u64; 2],
    /// Requests for memory that could not be met.
    pub out_of_memory: u64,
    /// Slabs that left a class.
    pub slabs_moved: u64,
    /// Items that stayed when their slab left.
    pub rescued: u64,
    /// Slots of the index.
    pub index_slots: u64,
    /// Bytes of the index's tables and directory.
    pub index_bytes: u64,
    /// Bytes of the slabs that its tables and those of the compressed zone lie in: what they take
    /// of the memory.
    pub table_slab_bytes: u64,
    /// Tables of the index that moved so that such a slab could be given back.
    pub index_moves: u64,
    /// Words the index has moved to make room for others.
    pub index_displacements: u64,
    /// Whether the arena is backed by huge pages, as far as the kernel has them.
    pub huge_pages: bool,
    /// How items move to their columns; `None` if they do not.
    pub repartition: Option<RepartitionStats>,
    /// How costs are measured; `None` if they are not.
    pub costs: Option<CostStats>,
    /// The compressed zone; `None` if there is none.
    pub compressed: Option<CompressedStats>,
    /// The flash tier; `None` if there is none.
    pub flash: Option<FlashTierStats>,
}

/// The flash tier, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashTierStats {
    /// What its own work came to.
    pub tier: FlashStats,
    /// Items that the index leads to.
    pub items: u64,
    /// Of these, in memory as well.
    pub spare: u64,
    /// Items that left memory for a row that was still here, without being written.
    pub rested: u64,
    /// Bytes of memory that it takes beside the index.
    pub memory_bytes: u64,
    /// Bytes of the memory limit that are set apart for it, which no item can have.
    pub reserved_bytes: u64,
    /// Reads served from it.
    pub hits: u64,
    /// Items that moved to it.
    pub spilled: u64,
    /// Of these, moved by stores that needed their memory.
    pub handed: u64,
    /// Items for which it had no room.
    pub refused: u64,
    /// Items that the budget of writes kept out.
    pub over_budget: u64,
    /// Items that would have expired soon.
    pub expiring: u64,
    /// Microseconds of processor time that moving items from the hot zone took.
    pub spill_us: u64,
    /// Items that moved up into the hot zone.
    pub promoted: u64,
    /// Reads of the device for requests.
    pub reads: u64,
    /// Bytes of these: a long unit is read twice, its first page and the whole.
    pub bytes_read: u64,
    /// Of these, failed.
    pub reads_failed: u64,
    /// Bytes that are being read, or were read for those who wait and are not dropped yet.
    pub fetch_bytes: u64,
    /// The most that these ever were.
    pub fetch_bytes_peak: u64,
    /// The most that they may be.
    pub fetch_bytes_max: u64,
    /// Batches of reads that wait for bytes to come free.
    pub fetches_waiting: u64,
    /// Whether items of an earlier process are still being found.
    pub recovering: bool,
    /// How the device is read for requests; nothing before the first is to be read.
    pub reads_by: Option<ReadMethod>,
}

/// The compressed zone, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompressedStats {
    /// What is in it, and what its own work came to.
    pub zone: ZoneStats,
    /// Slabs that it may have.
    pub budget_slabs: usize,
    /// Reads served from the hot zone, since there is a compressed one.
    pub hot_hits: u64,
    /// Reads served from it.
    pub hits: u64,
    /// Misses of items that it had evicted a moment before.
    pub ghost_hits: u64,
    /// Items that moved into it.
    pub demoted: u64,
    /// Items that moved back into the hot zone.
    pub promoted: u64,
    /// Items that had changed when they were about to move into it, and stayed.
    pub changed: u64,
    /// Items that it did not take.
    pub refused: u64,
    /// Items that were evicted because there was no time to move them.
    pub throttled: u64,
    /// Items that were evicted because they had never been read and the zone was full.
    pub passed_over: u64,
    /// Of those that left it to make room, how many moved on to flash.
    pub spilled: u64,
    /// And how many left the cache.
    pub left: u64,
    /// And how many were gone by then, since their prefix was being flushed.
    pub flushed: u64,
    /// Microseconds that moving items into it took.
    pub demote_us: u64,
    /// Microseconds that reading items in it took.
    pub read_us: u64,
    /// Looks into it, for reads and for stores of keys that are not in the hot zone.
    pub lookups: u64,
    /// Of these, without decoding anything to know that the key is not there.
    pub filtered: u64,
    /// Times that something in it was found damaged, by readers or by writers.
    pub damaged: u64,
    /// Frames that were decoded.
    pub decoded: u64,
    /// Of these, for keys that were not there.
    pub decoded_in_vain: u64,
    /// How often it gave up a step of memory.
    pub shrunk: u64,
    /// How often it got a step of memory.
    pub grown: u64,
}

impl Stats {
    /// Expired or flushed items whose memory was taken back by others than the sweeps. What both
    /// numbers are of goes on while they are read.
    pub fn reclaimed(&self) -> u64 {
        self.expired.saturating_sub(self.swept)
    }

    /// Bytes of the memory limit that are taken by items, in chunks and in the compressed zone.
    /// With what finds them and what lies free between them this is [`Self::used_bytes`].
    pub fn held_bytes(&self) -> u64 {
        self.item_bytes + self.compressed.map_or(0, |it| it.bytes())
    }
}

impl CompressedStats {
    /// Bytes of the zone's slabs: what it takes of the memory.
    pub fn bytes(&self) -> u64 {
        (self.zone.space.slabs * self.zone.space.slab_bytes) as u64
    }
}

/// What is counted and does not begin anew, since it numbers items or says what became of the
/// compressed zone. [`Cache::reset_stats`] remembers it, to be subtracted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lasting {
    mutations: u64,
    evicted: u64,
    expired: u64,
    swept: u64,
}

impl Lasting {
    fn of(mutations: u64, compressed: Option<&CompressedStats>) -> Self {
        let Some(CompressedStats { zone, left, flushed, .. }) = compressed else {
            return Self { mutations, ..Self::default() };
        };
        Self {
            mutations,
            // Not all that the zone has evicted but what moved on: that is on its way for a while.
            evicted: left + zone.evicted_untold,
            expired: zone.expired + flushed,
            swept: zone.expired_swept,
        }
    }

    /// What came since `before`. What was read earlier may be less than that, which is nothing.
    fn since(self, before: Self) -> Self {
        Self {
            mutations: self.mutations.saturating_sub(before.mutations),
            evicted: self.evicted.saturating_sub(before.evicted),
            expired: self.expired.saturating_sub(before.expired),
            swept: self.swept.saturating_sub(before.swept),
        }
    }
}

impl Cache {
    /// The cache as a whole.
    pub fn stats(&self) -> Stats {
        let index = self.index.stats();
        let mut stats = Stats {
            items: index.items,
            item_bytes: self.hot.used_bytes() as u64,
            limit_bytes: self.limit_bytes() as u64,
            used_bytes: self.used_bytes() as u64,
            found_expired: self.gone.expired.load(Ordering::Relaxed),
            found_flushed: self.gone.flushed.load(Ordering::Relaxed),
            prefixes_flushing: self.prefixes_flushing(),
            index_slots: index.slots,
            index_bytes: index.table_bytes + index.directory_bytes,
            table_slab_bytes: (self.tables.slabs() * self.arena.slab_bytes()) as u64,
            index_moves: index.moves,
            index_displacements: index.displacements,
            huge_pages: self.arena.huge_pages(),
            repartition: self.repartition_stats(),
            costs: self.cost_stats(),
            ..Stats::default()
        };
        for class in self.hot.stats() {
            stats.evicted += class.counters.evicted;
            stats.evicted_unfetched += class.counters.evicted_unfetched;
            stats.evicted_recent += class.counters.evicted_recent;
            stats.expired += class.counters.expired;
            stats.expired_unfetched += class.counters.expired_unfetched;
            stats.swept += class.counters.swept;
            stats.swept_looks += class.counters.swept_looks;
            stats.out_of_memory += class.counters.out_of_memory;
            stats.slabs_moved += class.counters.slabs_lost;
            stats.rescued += class.counters.rescued;
        }
        if let Some(compressed) = &self.compressed {
            let compressed = compressed.stats();
            stats.items += compressed.zone.items as u64;
            stats.compressed = Some(compressed);
        }
        let lasting = Lasting::of(self.mutations_so_far(), stats.compressed.as_ref());
        let lasting = lasting.since(*lock(&self.before));
        stats.mutations = lasting.mutations;
        stats.evicted += lasting.evicted;
        stats.expired += lasting.expired;
        stats.swept += lasting.swept;
        stats.flash = self.flash_stats();
        let spare = stats.flash.as_ref().map_or(0, |flash| flash.spare);
        stats.items = stats.items.saturating_sub(spare);
        stats
    }

    /// Bytes of the memory limit that are in use. Like [`Cache::limit_bytes`], and other than all
    /// of [`Cache::stats`], it is told without a look at the index.
    pub fn used_bytes(&self) -> usize {
        self.arena.used_slabs() * self.arena.slab_bytes()
    }

    /// Bytes of the memory limit that items can take as they were stored: what the index and the
    /// compressed zone do not have now. Likewise.
    pub fn items_bytes_max(&self) -> usize {
        let zone_slabs = self.compressed.as_ref().map_or(0, |compressed| compressed.zone.slabs());
        let others = self.tables.slabs() + zone_slabs;
        self.arena.limit_slabs().saturating_sub(others) * self.arena.slab_bytes()
    }

    /// What was measured of costs; likewise.
    pub fn cost_stats(&self) -> Option<CostStats> {
        self.measure.as_deref().map(Measure::stats)
    }

    /// The flash tier; likewise.
    pub fn flash_stats(&self) -> Option<FlashTierStats> {
        self.flash.as_deref().map(|tier| tier.stats(self.tier_bytes as u64))
    }

    /// Stores and other changes, since the cache was made.
    fn mutations_so_far(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed) - self.first_sequence
    }

    /// Every size class.
    pub fn class_stats(&self) -> Vec<ClassStats> {
        self.hot.stats()
    }

    /// Begins the counters of mutations, evictions, expiries, refusals, slab moves, moves of hot
    /// items and costs anew, but not those that tell of a tier below alone or of what moved there.
    pub fn reset_stats(&self) {
        let compressed = self.compressed.as_ref().map(|compressed| compressed.stats());
        *lock(&self.before) = Lasting::of(self.mutations_so_far(), compressed.as_ref());
        self.gone.expired.store(0, Ordering::Relaxed);
        self.gone.flushed.store(0, Ordering::Relaxed);
        self.hot.reset_counters();
        if let Some(measure) = &self.measure {
            measure.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `reclaimed` was nearly 2^64 where a sweep came in between.
    #[test]
    fn a_sweep_between_two_looks_makes_no_number_negative() {
        let stats = Stats { expired: 5, swept: 7, ..Stats::default() };
        assert_eq!(stats.reclaimed(), 0);
        let (now, before) = (Lasting::default(), Lasting { evicted: 1, ..Lasting::default() });
        assert_eq!(now.since(before).evicted, 0);
    }

    /// Evictions rose with each item that moved to flash, and fell when it was there.
    #[test]
    fn what_is_on_its_way_to_flash_is_not_evicted() {
        let mut compressed = CompressedStats { spilled: 3, left: 1, ..CompressedStats::default() };
        (compressed.zone.evicted, compressed.zone.evicted_untold) = (7, 2);
        assert_eq!(Lasting::of(0, Some(&compressed)).evicted, 3);
    }
}
