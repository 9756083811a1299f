//! How much of the memory the compressed zone has: events are counted, and after each window of
//! mutations `policy::split` decides.
//!
//! *Ghosts* are items that the compressed zone evicted recently. A miss of a ghost would have been
//! a hit if the zone were one step larger, so they say what such a step is worth: a miss, or a read
//! from flash if that is where the item went. They are kept in a table of fixed size: a tag of the
//! hash, whether the item is on flash, and when it was evicted, counted in evictions, in the place
//! that the hash says; a later one takes the place. Where a step holds more items than the table
//! has room for, one in a number of hashes is looked at and counts for as many.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use compressed::ZoneStats;
use policy::split::{self, HOT_SHARE_MIN, STEP_SHARE, Step, Window};

use crate::cache::Cache;
use crate::compressed_admission::GhostFilter;
use crate::compressed_tier::CompressedTier;
use crate::demote::below_spare_slabs;

/// Mutations in a window: this many, and at least one for each [`WINDOW_ITEMS`] hot items.
pub const WINDOW_MUTATIONS_MIN: u64 = 2048;
/// See [`WINDOW_MUTATIONS_MIN`].
pub const WINDOW_ITEMS: u64 = 8;
/// The least slabs of the compressed zone, which needs some to clean one into another.
pub(crate) const BUDGET_SLABS_MIN: usize = 4;
/// The least slabs that stay with the hot zone, beside those that are kept free: each size class
/// needs one, and with fewer slabs than sizes they only move from one to the next (decision 0010
/// has what that costs).
pub const HOT_SLABS_MIN: usize = 32;
/// Places for ghosts.
const GHOSTS: usize = 16 << 10;
/// The bits of a ghost that are its hash's.
const TAG: u32 = 0xfffe_0000;
/// The bit of a ghost that moved to flash.
const ON_FLASH: u32 = 1 << 16;

/// Items that were evicted recently.
pub(crate) struct Ghosts {
    /// 15 bits of the hash, [`ON_FLASH`], and 16 bits of the number of the eviction; 0: none.
    places: Box<[AtomicU32]>,
    /// Evictions so far.
    evicted: AtomicU64,
    /// Hits of ghosts, each for as many as it stands for: those that had left the cache, and those
    /// that had moved to flash.
    hits: [AtomicU64; 2],
    /// One in two to this power of the hashes is looked at.
    sampling_log2: AtomicU32,
    /// The life of a ghost, in sampled evictions.
    life: AtomicU32,
}

impl Default for Ghosts {
    fn default() -> Self {
        Self {
            places: (0..GHOSTS).map(|_| AtomicU32::new(0)).collect(),
            evicted: AtomicU64::new(0),
            hits: Default::default(),
            sampling_log2: AtomicU32::new(0),
            life: AtomicU32::new(0),
        }
    }
}

impl Ghosts {
    /// Bytes of the table.
    pub(crate) const MEMORY_BYTES: usize = GHOSTS * size_of::<AtomicU32>();

    /// Notes an eviction, and whether the item is on flash instead.
    pub(crate) fn add(&self, hash: u64, is_on_flash: bool) {
        let Some((place, tag)) = self.sampled(hash) else {
            return;
        };
        let number = self.evicted.fetch_add(1, Ordering::Relaxed) as u32;
        let on_flash = if is_on_flash { ON_FLASH } else { 0 };
        place.store(tag | on_flash | (number & 0xffff), Ordering::Relaxed);
    }

    /// Notes a miss in both zones.
    pub(crate) fn miss(&self, hash: u64) {
        let Some((place, tag)) = self.sampled(hash) else {
            return;
        };
        let ghost = place.load(Ordering::Relaxed);
        if ghost & TAG != tag {
            return;
        }
        let now = self.evicted.load(Ordering::Relaxed) as u32;
        let age = now.wrapping_sub(ghost) & 0xffff;
        if age <= self.life.load(Ordering::Relaxed) {
            let weight = 1 << self.sampling_log2.load(Ordering::Relaxed);
            self.hits[usize::from(ghost & ON_FLASH != 0)].fetch_add(weight, Ordering::Relaxed);
        }
        place.store(0, Ordering::Relaxed);
    }

    /// Returns the hits of ghosts so far, about: of those that left the cache, and of those on
    /// flash.
    fn hits_by_end(&self) -> [u64; 2] {
        [0, 1].map(|on_flash: usize| self.hits[on_flash].load(Ordering::Relaxed))
    }

    /// Returns the hits of all ghosts.
    pub(crate) fn hits(&self) -> u64 {
        self.hits_by_end().iter().sum()
    }

    /// Sets the life of a ghost, in evicted items.
    fn live_for(&self, items: u64) {
        // A quarter of the table, so that few take one another's place.
        let mut sampling_log2 = 0;
        while items >> sampling_log2 > (GHOSTS / 4) as u64 {
            sampling_log2 += 1;
        }
        self.sampling_log2.store(sampling_log2, Ordering::Relaxed);
        self.life.store((items >> sampling_log2) as u32, Ordering::Relaxed);
    }

    /// Returns the place and tag of a hash, if it is one that is looked at.
    fn sampled(&self, hash: u64) -> Option<(&AtomicU32, u32)> {
        // Mixed, because the zone and the index go by the hash's own ends. The tag has bits that
        // neither the place nor the sample has.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sampling = self.sampling_log2.load(Ordering::Relaxed);
        let is_sampled = mixed & ((1 << sampling) - 1) == 0;
        let place = &self.places[(mixed >> 40) as usize % GHOSTS];
        let tag = mixed as u32 & TAG;
        (is_sampled && tag != 0).then_some((place, tag))
    }
}

/// The state of the split. Only the background changes it.
#[derive(Debug)]
pub(crate) struct Adaptation {
    /// The compressed zone's share of the memory.
    share: f64,
    window_ends: u64,
    before: Counts,
}

impl Default for Adaptation {
    fn default() -> Self {
        let share = split::COMPRESSED_SHARE_START;
        Self { share, window_ends: 0, before: Counts::default() }
    }
}

impl Adaptation {
    /// Begins with this share, if it is one.
    pub(crate) fn with_share(share: f64) -> Self {
        Self { share: share.clamp(0.0, 1.0 - split::HOT_SHARE_MIN), ..Self::default() }
    }

    /// Returns the compressed zone's share of the memory.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }
}

/// Running counts; a window is the difference of two.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    hot_hits: u64,
    compressed_hits: u64,
    ghost_hits: [u64; 2],
    evicted: u64,
    read_us: u64,
    now_us: u64,
}

impl Cache {
    /// Moves the split if a window has ended. Returns the compressed zone's budget in slabs.
    pub(crate) fn adapt(&self, compressed: &CompressedTier, adaptation: &mut Adaptation) -> usize {
        let mutations = self.sequence.load(Ordering::Relaxed);
        let slabs = self.arena.limit_slabs();
        if mutations >= adaptation.window_ends {
            let hot_items = self.hot_items();
            let window = WINDOW_MUTATIONS_MIN.max(hot_items / WINDOW_ITEMS);
            adaptation.window_ends = mutations + window;
            let counts = self.counts(compressed);
            let zone = compressed.zone.stats();
            let is_full = compressed.zone.has_its_budget();
            let window = self.window(compressed, adaptation, counts, &zone, is_full);
            let step = compressed.rule.decide(&window);
            adaptation.before = counts;
            adaptation.share = split::after(step, adaptation.share);
            let items = zone.items as f64;
            let moved = items * STEP_SHARE / adaptation.share.max(STEP_SHARE);
            compressed.ghosts.live_for(moved as u64);
            let steps = &compressed.counters.steps[usize::from(step == Step::Grow)];
            steps.fetch_add(u64::from(step != Step::Stay), Ordering::Relaxed);
        }
        let share_slabs = (slabs as f64 * adaptation.share) as usize;
        // The zone pays with slabs, which the hot zone gets, for its heap, which lies beside the
        // limit.
        let remembered_bytes = self.remembered.as_ref().map_or(0, GhostFilter::memory_bytes);
        let heap_bytes = compressed.heap_bytes() + remembered_bytes;
        let heap_slabs = heap_bytes.div_ceil(self.arena.slab_bytes());
        // The index grows with the items on flash, and leaves the hot zone what it has to keep. By
        // bytes, since the number of slabs that hold some of them changes with each restart.
        let table_slabs = self.tables.taken_bytes().div_ceil(self.arena.slab_bytes());
        let hot_slabs_min = ((slabs as f64 * HOT_SHARE_MIN) as usize).max(HOT_SLABS_MIN);
        let hot_slabs_min = hot_slabs_min + table_slabs + below_spare_slabs(slabs);
        let slabs_max = slabs.saturating_sub(hot_slabs_min);
        share_slabs.min(slabs_max).saturating_sub(heap_slabs).max(BUDGET_SLABS_MIN)
    }

    /// Returns the number of items in the hot zone.
    pub(crate) fn hot_items(&self) -> u64 {
        self.index.stats().items.saturating_sub(self.flash_items())
    }

    fn counts(&self, compressed: &CompressedTier) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            hot_hits: read(&compressed.counters.hot_hits),
            compressed_hits: read(&compressed.counters.hits),
            ghost_hits: compressed.ghosts.hits_by_end(),
            evicted: compressed.zone.stats().evicted,
            read_us: read(&compressed.counters.read_us),
            now_us: self.clock.monotonic_us(),
        }
    }

    fn window(
        &self,
        compressed: &CompressedTier,
        adaptation: &Adaptation,
        now: Counts,
        zone: &ZoneStats,
        is_full: bool,
    ) -> Window {
        let before = &adaptation.before;
        Window {
            hot_hits: now.hot_hits - before.hot_hits,
            compressed_hits: now.compressed_hits - before.compressed_hits,
            ghost_hits: now.ghost_hits[0] - before.ghost_hits[0],
            ghosts_on_flash: now.ghost_hits[1] - before.ghost_hits[1],
            flash_us: self.flash.as_ref().map_or(0.0, |tier| tier.read_costs.read_us()),
            // Evictions while the zone does not even have its budget say nothing.
            evicted: if is_full { now.evicted - before.evicted } else { 0 },
            work_us: now.read_us - before.read_us,
            elapsed_us: now.now_us.saturating_sub(before.now_us) * compressed.serving_threads,
            hot_share: 1.0 - adaptation.share,
            hot_items: self.hot_items(),
            hot_density: self.hot_density(zone),
        }
    }

    /// Returns the hot zone's density as a share of the compressed zone's: the items' bytes in the
    /// same memory; a third, before that can be measured.
    fn hot_density(&self, zone: &ZoneStats) -> f64 {
        let slab_bytes = self.arena.slab_bytes();
        let hot_bytes = self.arena.used_slabs().saturating_sub(zone.space.slabs) * slab_bytes;
        let hot = self.hot.used_bytes() as f64 / hot_bytes.max(1) as f64;
        zone.density().map_or(1.0 / 3.0, |density| hot / density.max(hot / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ghost_is_hit_once_and_only_in_its_life() {
        let ghosts = Ghosts::default();
        ghosts.live_for(10);
        ghosts.add(1 << 20, false);
        ghosts.miss(1 << 20);
        ghosts.miss(1 << 20);
        assert_eq!(ghosts.hits_by_end(), [1, 0]);
        (0..2).for_each(|number| ghosts.add((5 + number) << 20, number == 0));
        (0..2).for_each(|number| ghosts.miss((5 + number) << 20));
        assert_eq!(ghosts.hits_by_end(), [2, 1]);
        ghosts.add(2 << 20, false);
        (0..20).for_each(|other| ghosts.add(0x77_7777 + (other << 33), false));
        ghosts.miss(2 << 20);
        assert_eq!(ghosts.hits_by_end(), [2, 1], "too old");
    }

    /// Regression: tags shared bits with places, and one of 130 others was taken for a ghost.
    #[test]
    fn a_ghost_is_hit_by_no_other_hash() {
        let ghosts = Ghosts::default();
        ghosts.live_for((GHOSTS / 4) as u64);
        let hash = |number: u64| number.wrapping_mul(0xd134_2543_de82_ef95) ^ number << 33;
        (0..1 << 16).for_each(|number| ghosts.add(hash(number), false));
        (1 << 20..(1 << 20) + 400_000).for_each(|other| ghosts.miss(hash(other)));
        // One in some 30,000 of those that find a place that is taken.
        assert!(ghosts.hits() < 50, "{}", ghosts.hits());
    }

    /// Regression: a server with more threads was over the bound sooner, though each had less to
    /// do.
    #[test]
    fn the_time_of_a_window_is_that_of_all_threads_that_serve() {
        let builder = Cache::builder().memory_bytes(64 << 20).compress(true).threads(16);
        let cache = builder.build().expect("a small cache");
        let compressed = cache.compressed.as_ref().expect("it has a zone");
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        assert_eq!(compressed.serving_threads, processors.min(16));
        let now = Counts { now_us: 1000, read_us: 10, ..Counts::default() };
        let zone = ZoneStats::default();
        let window = cache.window(compressed, &Adaptation::default(), now, &zone, false);
        assert_eq!((window.work_us, window.elapsed_us), (10, 1000 * compressed.serving_threads));
    }

    #[test]
    fn where_there_are_many_a_sample_stands_for_all() {
        let ghosts = Ghosts::default();
        ghosts.live_for(1 << 20);
        for number in 0_u64..1 << 18 {
            let hash = number.wrapping_mul(0xd134_2543_de82_ef95);
            ghosts.add(hash, number % 2 == 0);
            ghosts.miss(hash);
        }
        let hits = ghosts.hits();
        assert!((200_000..330_000).contains(&hits), "{hits}");
    }
}
