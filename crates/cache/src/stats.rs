//! The cache's statistics.

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
    /// Mutations: stores, and changes that gave an item a new CAS unique, including a few that came
    /// to nothing because another change was faster; flushes; and renumbered items.
    pub mutations: u64,
    /// Bytes of the chunks that hold items, which are those of the hot zone alone.
    pub item_bytes: u64,
    /// The memory limit, in bytes.
    pub limit_bytes: u64,
    /// Bytes of all slabs in use: never above the limit, except just after it was lowered.
    pub used_bytes: u64,
    /// Items evicted to make room.
    pub evicted: u64,
    /// Of `evicted`, items of the hot zone that were never read.
    pub evicted_unfetched: u64,
    /// Of `evicted`, items of the hot zone that were read since the hand last came by.
    pub evicted_recent: u64,
    /// Expired or flushed items whose memory was taken back by the hand or the sweep.
    pub expired: u64,
    /// Of `expired`, items of the hot zone that were never read.
    pub expired_unfetched: u64,
    /// Of `expired`, items found by the sweeps of the hot and of the compressed zone.
    pub swept: u64,
    /// Chunks that the hot zone's sweep looked at.
    pub swept_looks: u64,
    /// Items that had expired when a request asked for them.
    pub found_expired: u64,
    /// Items that a flush had taken when a request asked for them.
    pub found_flushed: u64,
    /// Prefixes that are being flushed in memory, and prefixes flushed on flash of which older
    /// items are still there.
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
    /// Bytes of the slabs that hold the tables of the index and of the compressed zone: what they
    /// take of the memory.
    pub table_slab_bytes: u64,
    /// Tables of the index that moved so that such a slab could be given back.
    pub index_moves: u64,
    /// Words that the index moved to make room for others.
    pub index_displacements: u64,
    /// Whether the arena is backed by huge pages, as far as the kernel has them.
    pub huge_pages: bool,
    /// Moves of items to their columns; `None` if they do not move.
    pub repartition: Option<RepartitionStats>,
    /// The measurement of costs; `None` if they are not measured.
    pub costs: Option<CostStats>,
    /// The compressed zone; `None` if there is none.
    pub compressed: Option<CompressedStats>,
    /// The flash tier; `None` if there is none.
    pub flash: Option<FlashTierStats>,
}

/// The flash tier, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlashTierStats {
    /// Counts of the tier's own work.
    pub tier: FlashStats,
    /// Items on flash that the index leads to.
    pub items: u64,
    /// Of `items`, those in memory as well.
    pub spare: u64,
    /// Items that left memory for a row that was still on flash, without being written.
    pub rested: u64,
    /// Bytes of memory that the tier takes beside the index.
    pub memory_bytes: u64,
    /// Bytes of the memory limit that are set apart for the tier, which no item can have.
    pub reserved_bytes: u64,
    /// Reads served from flash.
    pub hits: u64,
    /// Items that moved to flash.
    pub spilled: u64,
    /// Of `spilled`, items moved by stores that needed their memory.
    pub handed: u64,
    /// Items for which flash had no room.
    pub refused: u64,
    /// Items that the budget of writes kept out.
    pub over_budget: u64,
    /// Items kept out because they would have expired soon.
    pub expiring: u64,
    /// Microseconds of processor time that moving items from the hot zone took.
    pub spill_us: u64,
    /// Items that were promoted to the hot zone.
    pub promoted: u64,
    /// Reads of the device for requests.
    pub reads: u64,
    /// Bytes of `reads`: a long unit is read twice, its first page and the whole.
    pub bytes_read: u64,
    /// Of `reads`, those that failed.
    pub reads_failed: u64,
    /// Bytes that are being read, or were read for waiting requests and are not dropped yet.
    pub fetch_bytes: u64,
    /// The most that `fetch_bytes` ever was.
    pub fetch_bytes_peak: u64,
    /// The limit of `fetch_bytes`.
    pub fetch_bytes_max: u64,
    /// Batches of reads that wait for bytes to come free.
    pub fetches_waiting: u64,
    /// Seconds since the earliest operation began that the device has not answered; 0 if it has
    /// answered all.
    pub unanswered_s: u64,
    /// Whether items of an earlier process are still being found.
    pub recovering: bool,
    /// How the device is read for requests; `None` before the first read.
    pub reads_by: Option<ReadMethod>,
}

impl FlashTierStats {
    /// Returns the reads and writes of the device that failed, for requests or the tier's own.
    pub fn io_errors(&self) -> u64 {
        self.tier.io_errors + self.reads_failed
    }
}

/// The compressed zone, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompressedStats {
    /// Its contents, and counts of its own work.
    pub zone: ZoneStats,
    /// Slabs that it may have.
    pub budget_slabs: usize,
    /// Reads served from the hot zone, since there is a compressed zone.
    pub hot_hits: u64,
    /// Reads served from the compressed zone.
    pub hits: u64,
    /// Misses of items that it had evicted shortly before.
    pub ghost_hits: u64,
    /// Items that moved into it.
    pub demoted: u64,
    /// Items that moved back into the hot zone.
    pub promoted: u64,
    /// Items that had changed when they were about to move into it, and stayed in the hot zone.
    pub changed: u64,
    /// Items that it did not take.
    pub refused: u64,
    /// Items that were evicted because there was no time to move them.
    pub throttled: u64,
    /// Items that were evicted because they had never been read and the zone was full.
    pub passed_over: u64,
    /// Items that left it to make room, and moved on to flash.
    pub spilled: u64,
    /// Items that left it to make room, and left the cache.
    pub left: u64,
    /// Items that were gone when they were to leave it, since their prefix was being flushed.
    pub flushed: u64,
    /// Microseconds that moving items into it took.
    pub demote_us: u64,
    /// Microseconds that reading items in it took.
    pub read_us: u64,
    /// Look-ups in it, for reads and for stores of keys that are not in the hot zone.
    pub lookups: u64,
    /// Of `lookups`, those that found the key absent without decoding anything.
    pub filtered: u64,
    /// Times that something in it was found damaged, by readers or by writers.
    pub damaged: u64,
    /// Frames that were decoded.
    pub decoded: u64,
    /// Of `decoded`, frames decoded for keys that were not there.
    pub decoded_in_vain: u64,
    /// Times that it gave up a step of memory.
    pub shrunk: u64,
    /// Times that it got a step of memory.
    pub grown: u64,
}

impl Stats {
    /// Returns the expired or flushed items whose memory was taken back otherwise than by the
    /// sweeps. Both counters go on while they are read, so this is never below 0.
    pub fn reclaimed(&self) -> u64 {
        self.expired.saturating_sub(self.swept)
    }

    /// Returns the bytes of the memory limit that items take, in chunks and in the compressed zone.
    /// With the index, the zone's tables and free space between items this is [`Self::used_bytes`].
    pub fn held_bytes(&self) -> u64 {
        self.item_bytes + self.compressed.map_or(0, |it| it.bytes())
    }
}

impl CompressedStats {
    /// Returns the bytes of the zone's slabs: what it takes of the memory.
    pub fn bytes(&self) -> u64 {
        (self.zone.space.slabs * self.zone.space.slab_bytes) as u64
    }
}

/// Counters that are never set to 0, since they number items or belong to the compressed zone.
/// [`Cache::reset_stats`] keeps their values, to be subtracted.
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
            // Not all that the zone has evicted less what moved on: an item is on its way there for
            // a while.
            evicted: left + zone.evicted_untold,
            expired: zone.expired + flushed,
            swept: zone.expired_swept,
        }
    }

    /// Returns the difference to `before`; 0 where a counter read earlier is ahead.
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
    /// Returns the statistics of the cache as a whole.
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

    /// Returns the bytes of the memory limit that are in use. Like [`Cache::limit_bytes`], and
    /// unlike [`Cache::stats`], it does not look at the index.
    pub fn used_bytes(&self) -> usize {
        self.arena.used_slabs() * self.arena.slab_bytes()
    }

    /// Returns the bytes of the memory limit that items can take uncompressed: what the index does
    /// not have now, nor the compressed zone of its budget. Does not look at the index.
    pub fn items_bytes_max(&self) -> usize {
        let zone = self.compressed.as_ref().map(|compressed| &compressed.zone);
        let zone_slabs = zone.map_or(0, |zone| zone.slabs().min(zone.budget_slabs()));
        let others = self.tables.slabs() + zone_slabs;
        self.arena.limit_slabs().saturating_sub(others) * self.arena.slab_bytes()
    }

    /// Returns the measurement of costs. Does not look at the index.
    pub fn cost_stats(&self) -> Option<CostStats> {
        self.measure.as_deref().map(Measure::stats)
    }

    /// Returns the statistics of the flash tier. Does not look at the index.
    pub fn flash_stats(&self) -> Option<FlashTierStats> {
        self.flash.as_deref().map(|tier| tier.stats(self.tier_bytes as u64))
    }

    /// Returns the stores and other changes since the cache was made.
    fn mutations_so_far(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed) - self.first_sequence
    }

    /// Returns the statistics of every size class.
    pub fn class_stats(&self) -> Vec<ClassStats> {
        self.hot.stats()
    }

    /// Resets the counters of mutations, evictions, expiries, refusals, slab moves, moves of hot
    /// items and costs, but not those of a lower tier alone or of moves to it.
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

    /// Regression: `reclaimed` was nearly 2^64 where a sweep came in between.
    #[test]
    fn reclaimed_is_not_negative_after_a_sweep_between_two_looks() {
        let stats = Stats { expired: 5, swept: 7, ..Stats::default() };
        assert_eq!(stats.reclaimed(), 0);
        let (now, before) = (Lasting::default(), Lasting { evicted: 1, ..Lasting::default() });
        assert_eq!(now.since(before).evicted, 0);
    }

    /// Regression: evictions rose with each item that moved to flash, and fell when it was there.
    #[test]
    fn an_item_on_its_way_to_flash_is_not_evicted() {
        let mut compressed = CompressedStats { spilled: 3, left: 1, ..CompressedStats::default() };
        (compressed.zone.evicted, compressed.zone.evicted_untold) = (7, 2);
        assert_eq!(Lasting::of(0, Some(&compressed)).evicted, 3);
    }
}
