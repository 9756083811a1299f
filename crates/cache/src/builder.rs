//! Building a cache: its limits, and how they become an arena, size classes and an index.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};

use compressed::{Settings, Zone};
use flash::{Flash, Reached};
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use hot::heat::HEAT_BITS;
use hot::magazine::MAGAZINE_SHARE;
use hot::quota::LABEL_BITS;
use hot::{ChunkLayout, Hot};
use index::{Index, IndexError, Kind as IndexKind, Options};
use io::device::{Device, PAGE_BYTES, ReadMethod, ReadPool, WatchedDevice};
use io::frames::{FrameSource, Pagemap};
use io::{Clock, SystemClock};
use memory::arena::{ARENA_BYTES_MAX, SLAB_BYTES_MIN};
use memory::class::CHUNK_BYTES_MIN;
use memory::{Arena, ArenaTables, Epochs, SizeClasses};
use policy::split::Rule;
use stdx::CachePadded;
use stdx::units::{GIB, KIB, MIB};

use crate::cache::{Cache, Moment, hash_with};
use crate::compressed_admission::GhostFilter;
use crate::compressed_tier::CompressedTier;
use crate::demote::reserve_slabs;
use crate::flash_admission::FlashAdmission;
use crate::flash_fit::{FlashFit, FlashMisfit, segment_bytes};
use crate::flash_reads::FlashReads;
use crate::flash_tier::FlashTier;
use crate::maintain::Chores;
use crate::measure::Measure;
use crate::quotas::{self, Quota, QuotaRefused};
use crate::repartition::Repartition;
use crate::train::Training;
use crate::types::{Observer, Policy};

/// The fewest slabs a cache can work with: one for the index, one kept free for it, and some for
/// items of different sizes. A limit below this is rounded up to it.
pub(crate) const SLABS_MIN: usize = 8;
/// How many times as large as at the start the memory limit may become online. At 52 bytes of
/// metadata for each slab that may come, that takes a 600th of the memory with slabs of 2 MiB, and
/// a fortieth with the smallest.
const GROWTH_MAX: usize = 64;
/// See [`Builder::threads`].
const THREADS: usize = 4;
/// The fewest slabs with which there is a compressed zone or a flash tier: fewer are too little to
/// divide.
const BELOW_SLABS_MIN: usize = 64;
/// The least memory for a flash tier, in bytes.
pub const FLASH_MEMORY_BYTES_MIN: usize = BELOW_SLABS_MIN * SLAB_BYTES_MIN;
/// With a compressed zone the hot zone ends up with about one slab in this many, and its size
/// classes are as fine as these allow.
const HOT_SHARE: usize = 4;
/// The range of the item limit.
const ITEM_BYTES_MAX_RANGE: std::ops::RangeInclusive<usize> = KIB..=GIB;
/// The average item, in bytes, when the index is first sized: it grows from there by itself, and
/// one that is much too large would waste memory that items could use.
const FIRST_ITEM_BYTES: usize = 16 * KIB;
/// The least bytes of an item for which the index is sized before it comes.
const EXPECTED_ITEM_BYTES: usize = 48;
/// The default unit of costs, in microseconds. A value made by a database costs 100 us to some
/// seconds: with 50 us the cheapest are two units, told from half or twice that cost, and the range
/// of 65,535 units ends at 3.3 s.
const COST_UNIT_US: u32 = 50;
/// The range of the unit of costs: with the largest, 65,535 units are the highest cost there is.
const COST_UNIT_US_RANGE: std::ops::RangeInclusive<u32> = 1..=1 << 16;

/// The settings of a cache. Every one has a default that is right for most.
#[derive(Clone)]
#[must_use]
pub struct Builder {
    memory_bytes: usize,
    address_bytes_max: usize,
    item_bytes_max: usize,
    growth_factor: Option<f64>,
    chunk_bytes_min: usize,
    evict: bool,
    policy: Policy,
    index: IndexKind,
    layout: ChunkLayout,
    measure_costs: Option<bool>,
    cost_unit_us: u32,
    compress: bool,
    split: Rule,
    clock: Option<Arc<dyn Clock>>,
    observer: Option<Arc<dyn Observer>>,
    flash: Option<FlashSettings>,
    image: Option<Option<codec::image::Head>>,
    repartition: Option<Repartition>,
    frames: Option<Arc<dyn FrameSource>>,
    quotas: Vec<Quota>,
    threads: usize,
    magazine_share: usize,
}

/// The flash tier that a cache is to have.
#[derive(Debug, Clone)]
pub struct FlashSettings {
    /// The device that its items are kept on.
    pub device: Arc<dyn Device>,
    /// Tells this boot of the machine from every other: after a crash of the machine, a tier that
    /// was not closed is not believed.
    pub boot_id: [u8; 16],
    /// Whether to begin anew, whatever the device holds.
    pub is_new: bool,
    /// How requests read from it; `None`: by io_uring where device and kernel allow it, and
    /// otherwise by threads.
    pub reads_by: Option<ReadMethod>,
    /// Threads that read, if threads do.
    pub threads: usize,
    /// Bytes a second that may be written in the long run; `None`: no limit.
    pub write_limit: Option<f64>,
}

/// The default number of threads that read from flash.
const FLASH_READ_THREADS: usize = 4;

impl FlashSettings {
    /// Returns settings for a device whose contents are taken up again, which is read as device and
    /// kernel allow, and written without a limit.
    pub fn new(device: Arc<dyn Device>, boot_id: [u8; 16]) -> Self {
        let (is_new, reads_by, write_limit) = (false, None, None);
        Self { device, boot_id, is_new, reads_by, threads: FLASH_READ_THREADS, write_limit }
    }
}

/// A dictionary for items on flash has one byte for this many of the memory: with all that goes
/// with dictionaries, that is a twentieth of it from 16 MiB on.
const DICTIONARY_SHARE: usize = 2048;

/// The seed for comparing the hash function with others. Any number would do.
const HASH_CHECK_SEED: [u64; 2] = [0x6c61_7264_6572, 1];

/// The most sequence numbers that a process may have given beyond those it has kept on flash: 16
/// million in each second of two minutes, in which it keeps them at least once.
const NUMBERS_UNKEPT: u64 = 1 << 31;

impl Default for Builder {
    fn default() -> Self {
        Self {
            memory_bytes: 64 * MIB,
            address_bytes_max: usize::MAX,
            item_bytes_max: MIB,
            growth_factor: None,
            chunk_bytes_min: CHUNK_BYTES_MIN,
            evict: true,
            policy: Policy::default(),
            index: IndexKind::default(),
            layout: ChunkLayout::default(),
            measure_costs: None,
            cost_unit_us: COST_UNIT_US,
            compress: false,
            split: Rule::default(),
            clock: None,
            observer: None,
            flash: None,
            image: None,
            repartition: None,
            frames: None,
            quotas: Vec::new(),
            threads: THREADS,
            magazine_share: MAGAZINE_SHARE,
        }
    }
}

impl Builder {
    /// Sets the memory for items, index and metadata together, in bytes; 64 MiB by default. Counted
    /// in slabs of 128 KiB to 2 MiB, and at least eight of them.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Reserves addresses for this many bytes at most, where that is more than the memory:
    /// [`Cache::set_memory_bytes`] takes no more then.
    pub fn address_bytes_max(mut self, bytes: usize) -> Self {
        self.address_bytes_max = bytes;
        self
    }

    /// Sets the largest item, key and header included, in bytes: 1 KiB to 1 GiB, by default 1 MiB.
    pub fn item_bytes_max(mut self, bytes: usize) -> Self {
        self.item_bytes_max = bytes;
        self
    }

    /// Sets the ratio between the sizes of neighbouring size classes: 1.05 to 16. By default as
    /// fine as the memory has slabs for.
    pub fn growth_factor(mut self, factor: f64) -> Self {
        self.growth_factor = Some(factor);
        self
    }

    /// Sets the smallest chunk, in bytes: 24 by default. Larger makes fewer size classes.
    pub fn chunk_bytes_min(mut self, bytes: usize) -> Self {
        self.chunk_bytes_min = bytes;
        self
    }

    /// Sets whether items may be evicted to make room for others. On by default; off, a full cache
    /// refuses to store.
    pub fn evict(mut self, evict: bool) -> Self {
        self.evict = evict;
        self
    }

    /// Sets which items are evicted to make room; by default [`Policy::CostClock`], which is
    /// [`Policy::Clock`] as long as no costs are known. Has no effect without eviction.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how items are found; by default [`IndexKind::Cuckoo`], which leaves the most memory to
    /// items. [`IndexKind::Tree`] takes 10 bytes more for each and reads fewer cache lines.
    pub fn index(mut self, kind: IndexKind) -> Self {
        self.index = kind;
        self
    }

    /// Sets where the keys and values of the hot zone lie; by default [`ChunkLayout::Inline`], side
    /// by side. [`ChunkLayout::Split`] has keys in one row and values in another: it reads fewer
    /// cache lines to make room, but a hit reads one more, and an item takes some 30 bytes more.
    pub fn layout(mut self, layout: ChunkLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets whether an item that is stored without a cost gets one by the time since its key was
    /// missed. By default only if the policy asks for costs. Takes 600 KiB beside the memory limit,
    /// some time for each miss and store, and three bytes for each item whose cost is known.
    pub fn measure_costs(mut self, measure: bool) -> Self {
        self.measure_costs = Some(measure);
        self
    }

    /// Sets the unit in which [`Policy::GdWheel`] counts costs, in microseconds: 1 to 65,536, by
    /// default 50. A cost below half of it counts as one unit, and one above 65,535 units as that
    /// many; so a larger unit tells costly items apart, and a smaller one cheap ones.
    pub fn cost_unit_us(mut self, us: u32) -> Self {
        self.cost_unit_us = us;
        self
    }

    /// Sets whether items that leave the hot zone are kept compressed in a part of the same memory,
    /// as long as they are worth it. Needs eviction, 64 slabs of memory (8 MiB), and calls of
    /// [`Cache::maintain`]; otherwise it has no effect. Off by default.
    pub fn compress(mut self, compress: bool) -> Self {
        self.compress = compress;
        self
    }

    /// Sets the share of hits, 0 to 1, that the hot zone is to serve, by which the memory is then
    /// divided. By default it is divided by what hits and misses cost.
    pub fn hot_target(mut self, share: f64) -> Self {
        self.split = Rule::Target(share);
        self
    }

    /// Sets the clock for expiry and measured costs; the machine's by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the observer of evictions; none by default.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Adds a tier on flash, for items that leave the compressed zone or, without one, the hot
    /// zone. None by default. Needs eviction, 8 MiB of memory, and calls of [`Cache::maintain`].
    pub fn flash(mut self, settings: FlashSettings) -> Self {
        self.flash = Some(settings);
        self
    }

    /// Says that items are to outlast the cache by [`Cache::save_image`], and with `head`, that
    /// they come from that image by [`Cache::restore`]. Sequence numbers go on from there, so that
    /// a CAS unique is again what it was, and that of no other item. Without an image they begin
    /// above all that earlier processes gave, as with flash.
    pub fn image(mut self, head: Option<codec::image::Head>) -> Self {
        self.image = Some(head);
        self
    }

    /// Has the background move items that are hit often to the first column of their slab, as
    /// Cavast has it. Off by default. Takes half a byte of the memory for each item, and up to 3 %
    /// of a processor; needs calls of [`Cache::maintain`], and a policy that keeps no order: not
    /// [`Policy::GdWheel`] or [`Policy::Lru`].
    pub fn repartition(mut self, repartition: Repartition) -> Self {
        self.repartition = Some(repartition);
        self
    }

    /// Sets the source of the frames that small pages lie in, by which items then move; the kernel
    /// by default, which tells them to privileged processes. It is not asked before statistics or
    /// the background's work are.
    pub fn frames(mut self, frames: Arc<dyn FrameSource>) -> Self {
        self.frames = Some(frames);
        self
    }

    /// Limits what keys with certain prefixes may take of the memory: at most
    /// [`QUOTAS_MAX`](crate::QUOTAS_MAX) quotas, none by default. An item is under the quota of the
    /// longest prefix that its key begins with. With any quota, each chunk of the memory takes a
    /// byte more, and items under one do not move to the compressed zone. Not with
    /// [`Builder::repartition`].
    pub fn quotas(mut self, quotas: Vec<Quota>) -> Self {
        self.quotas = quotas;
        self
    }

    /// Sets how many threads store at the same time, by default four: this many, up to 64, have a
    /// few free chunks for themselves, so that they seldom meet. Where reading compressed items
    /// takes more than a quarter of the time of all of them, the compressed zone gets smaller.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Lets one in this many chunks of a size class wait for the next store of one of the
    /// [`Builder::threads`], by default [`MAGAZINE_SHARE`]: a small number is for tests of small
    /// caches, in which no thread has any otherwise. At least 1.
    pub fn magazine_share(mut self, share: usize) -> Self {
        self.magazine_share = share.max(1);
        self
    }

    /// Builds the cache.
    ///
    /// # Errors
    ///
    /// A setting is out of its range, two do not go together, or memory, index or device are not to
    /// be had: see [`BuildError`].
    pub fn build(self) -> Result<Cache, BuildError> {
        let policy = if self.evict { self.policy } else { Policy::Clock };
        let bytes_max = policy.memory_bytes_max(self.chunk_bytes_min);
        self.check(policy, bytes_max)?;
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        let (tier, tier_bytes) = self.tier(&clock)?;
        let arena = Arc::new(self.arena(tier_bytes, bytes_max)?);
        let epochs = Arc::new(Epochs::new());
        let tables = Arc::new(ArenaTables::new(Arc::clone(&arena)));
        let index = self.make_index(&epochs, &tables)?;
        let slab_bytes = arena.slab_bytes();
        let has_room_below = self.evict && self.memory_bytes / slab_bytes >= BELOW_SLABS_MIN;
        let compresses = self.compress && has_room_below;
        let measures = self.measure_costs.unwrap_or(policy.goes_by_costs());
        let hot = self.hot_zone(policy, &arena, &epochs, compresses);
        let hot = self.with_quotas(hot, policy, arena.limit_slabs() * slab_bytes + tier_bytes)?;
        if tier.is_some() && !has_room_below {
            return Err(BuildError::FlashAlone);
        }
        let hasher = hasher_of(tier.as_ref());
        let zone = compresses.then(|| {
            let (arena, epochs) = (Arc::clone(&arena), Arc::clone(&epochs));
            let space = Arc::clone(&tables) as Arc<dyn memory::TableSpace>;
            let hasher = hasher.clone();
            let hash = move |key: &[u8]| hash_with(&hasher, key).0;
            Zone::new(arena, epochs, space, Settings::new(Box::new(hash), 0))
        });
        let compressed = zone.flatten();
        let compressed =
            compressed.map(|zone| Box::new(CompressedTier::new(zone, self.split, self.threads)));
        let has_tier = compressed.is_some() || tier.is_some();
        let remembered = has_tier.then(|| GhostFilter::new(self.memory_bytes));
        let reached = tier.as_ref().map(|tier| tier.flash.reached());
        let (sequence, chores) = self.beginning(reached, clock.unix_ms());
        let cache = Cache {
            index,
            hot,
            compressed,
            flash: tier.map(Box::new),
            tier_bytes,
            remembered,
            tables,
            arena,
            epochs,
            clock,
            hasher,
            item_bytes_max: self.item_bytes_max,
            may_evict: self.evict,
            quotas: Mutex::new(self.quotas.into_boxed_slice()),
            repartition: self.repartition,
            observer: self.observer,
            moment: CachePadded(Moment::at(reached.map_or(0, |reached| reached.now))),
            first_sequence: sequence,
            sequence: CachePadded(AtomicU64::new(sequence)),
            gone: CachePadded::default(),
            before: Mutex::default(),
            measure: measures.then(|| Box::new(Measure::new())),
            chores: Mutex::new(chores),
            is_walked: AtomicBool::new(false),
            work: (Mutex::new(false), Condvar::new()),
            training: Training::default(),
        };
        cache.tick();
        cache.keep_reached(true);
        cache.resume_plan();
        Ok(cache)
    }

    /// Makes the hot zone, of all of the arena or beside a compressed one.
    fn hot_zone(
        &self,
        policy: Policy,
        arena: &Arc<Arena>,
        epochs: &Arc<Epochs>,
        compresses: bool,
    ) -> Hot {
        let (slab_bytes, slabs) = (arena.slab_bytes(), arena.limit_slabs());
        let (chunk_min, item_max) = (self.chunk_bytes_min, self.item_bytes_max);
        let side = if self.repartition.is_some() { HEAT_BITS } else { policy.side_bits() };
        let side = if self.quotas.is_empty() { side } else { side + LABEL_BITS };
        let hot_slabs = if compresses { slabs / HOT_SHARE } else { slabs };
        let sizes = match self.growth_factor {
            Some(factor) => SizeClasses::new(chunk_min, factor, slab_bytes, item_max, side),
            None => SizeClasses::for_slabs(chunk_min, hot_slabs, slab_bytes, item_max, side),
        };
        let reserve_slabs = if compresses { reserve_slabs } else { |_| 1 };
        let (arena, epochs) = (Arc::clone(arena), Arc::clone(epochs));
        let (layout, unit_us) = (self.layout, self.cost_unit_us);
        let hot = Hot::new(arena, epochs, sizes, layout, policy, unit_us, reserve_slabs)
            .with_magazines(self.threads, self.magazine_share);
        match &self.repartition {
            Some(repartition) => {
                let frames = self.frames.clone().unwrap_or_else(|| Arc::<Pagemap>::default());
                hot.with_repartition(repartition.settings, frames)
            }
            None => hot,
        }
    }

    /// Gives the hot zone its quotas, in a cache with this memory limit.
    fn with_quotas(&self, hot: Hot, policy: Policy, limit_bytes: usize) -> Result<Hot, BuildError> {
        let quotas = quotas::check(&self.quotas, limit_bytes as u64).map_err(BuildError::Quota)?;
        Ok(if quotas.is_empty() { hot } else { hot.with_quotas(&quotas, policy) })
    }

    /// Makes the index, with tables for the items that an image brings.
    fn make_index(
        &self,
        epochs: &Arc<Epochs>,
        tables: &Arc<ArenaTables>,
    ) -> Result<Index, BuildError> {
        let initial_items = self.memory_bytes / FIRST_ITEM_BYTES;
        let options = Options { kind: self.index, initial_items, ..Options::default() };
        let make = |expected_items| {
            let space = Arc::clone(tables) as Arc<dyn memory::TableSpace>;
            Index::new(Options { expected_items, ..options }, Arc::clone(epochs), space)
        };
        // Without room for the expected items, it grows as far as there is.
        make(self.expected_items()).or_else(|_| make(0)).map_err(BuildError::Index)
    }

    /// Returns how many items of the hot zone an image brings.
    fn expected_items(&self) -> usize {
        let head = self.image.as_ref().and_then(Option::as_ref);
        let items = head.map_or(0, |head| head.expected_hot_items(self.memory_bytes as u64));
        usize::try_from(items).unwrap_or(usize::MAX).min(self.memory_bytes / EXPECTED_ITEM_BYTES)
    }

    /// Returns the sequence number before the first, and the state of the background's work.
    fn beginning(&self, reached: Option<Reached>, unix_ms: u64) -> (u64, Chores) {
        if let Some(Some(head)) = self.image {
            return (head.sequence, Chores::restoring(&head));
        }
        let is_new = self.image.is_none() && reached.is_none();
        let by_clock = if is_new { 0 } else { first_sequence(unix_ms) };
        let kept = reached.filter(|reached| reached.number != 0);
        let first = by_clock.max(kept.map_or(0, |kept| kept.number + NUMBERS_UNKEPT));
        (first, Chores::filling(first, self.memory_bytes))
    }

    /// Opens the flash tier, if there is to be one, and returns it with the memory that it takes:
    /// without a compressed zone, which otherwise pays for it, the ghost filter as well.
    fn tier(&self, clock: &Arc<dyn Clock>) -> Result<(Option<FlashTier>, usize), BuildError> {
        let open = |settings| open_flash(settings, self.memory_bytes, self.index, clock);
        let tier = self.flash.as_ref().map(open).transpose()?;
        let remembered_bytes =
            if self.compress { 0 } else { GhostFilter::bytes_for(self.memory_bytes) };
        let taken_bytes = |tier: &FlashTier| tier.memory_bytes_max() + remembered_bytes;
        let tier_bytes = tier.as_ref().map_or(0, taken_bytes);
        Ok((tier, tier_bytes))
    }

    /// Makes the arena, which has all of the memory but the flash tier's share on the heap.
    fn arena(&self, tier_bytes: usize, bytes_max: usize) -> Result<Arena, BuildError> {
        // Addresses take no memory: reserve what the machine has, so that the limit can grow
        // online, but the metadata of each slab costs a little.
        let machine_bytes = io::map::physical_memory_bytes().unwrap_or(0).min(bytes_max);
        let grown_bytes = self.memory_bytes.saturating_mul(GROWTH_MAX);
        let reserved_bytes = machine_bytes.min(grown_bytes).min(self.address_bytes_max);
        let arena_bytes = self.memory_bytes.saturating_sub(tier_bytes);
        Arena::new(reserved_bytes, arena_bytes, SLABS_MIN).map_err(BuildError::Reserve)
    }

    /// Checks that all settings are in their ranges; the policy can manage `bytes_max`.
    fn check(&self, policy: Policy, bytes_max: usize) -> Result<(), BuildError> {
        if !ITEM_BYTES_MAX_RANGE.contains(&self.item_bytes_max) {
            return Err(BuildError::ItemBytesMax(self.item_bytes_max));
        }
        if self.memory_bytes > ARENA_BYTES_MAX {
            return Err(BuildError::MemoryBytes(self.memory_bytes));
        }
        if !COST_UNIT_US_RANGE.contains(&self.cost_unit_us) {
            return Err(BuildError::CostUnitUs(self.cost_unit_us));
        }
        if self.repartition.is_some() && policy.keeps_order() {
            return Err(BuildError::RepartitionOrder);
        }
        if self.repartition.is_some() && !self.quotas.is_empty() {
            return Err(BuildError::RepartitionQuotas);
        }
        if self.memory_bytes > bytes_max {
            return Err(BuildError::PolicyMemoryBytes { bytes: self.memory_bytes, bytes_max });
        }
        Ok(())
    }
}

/// Opens the tier on a device, for a cache with this memory limit.
fn open_flash(
    settings: &FlashSettings,
    memory_bytes: usize,
    index: IndexKind,
    clock: &Arc<dyn Clock>,
) -> Result<FlashTier, BuildError> {
    check_reads(settings).map_err(BuildError::FlashReads)?;
    let bytes = settings.device.pages() * PAGE_BYTES as u64;
    FlashFit::new(memory_bytes as u64, bytes, index).map_err(BuildError::FlashMisfit)?;
    let segment_bytes = segment_bytes(bytes);
    let random = [(); 2].map(|()| random_seed().to_ne_bytes());
    let hash_seed = std::array::from_fn(|at| random[at / 8][at % 8]);
    let inner = flash::Settings {
        segment_bytes,
        dictionary_bytes: memory_bytes / DICTIONARY_SHARE,
        hash_check: hash_check(),
        now: clock.unix_seconds(),
        ..flash::Settings::new(hash_seed, settings.boot_id)
    };
    let watched = WatchedDevice::new(Arc::clone(&settings.device), Arc::clone(clock));
    let device: Arc<dyn Device> = Arc::new(watched);
    let open = if settings.is_new { Flash::format } else { Flash::open };
    let flash = open(Arc::clone(&device), &inner).map_err(BuildError::Flash)?;
    let entrance = FlashAdmission::new(settings.write_limit, flash.stats().segment_bytes);
    let (method, threads) = (settings.reads_by, settings.threads);
    let memory = (memory_bytes, memory_bytes.saturating_mul(GROWTH_MAX));
    let fetches = FlashReads::new(device, method, threads, memory, segment_bytes);
    Ok(FlashTier::new(flash, fetches, entrance))
}

/// Returns the first sequence number of a cache whose items a later one may find: above all that an
/// earlier process gave, unless it had more than 16 thousand mutations in each millisecond of its
/// life, or the clock was put back. So a CAS unique from before a restart is that of no item after
/// it.
fn first_sequence(unix_ms: u64) -> u64 {
    // A second has 2^24 numbers, of which its milliseconds leave some at the end.
    (unix_ms / 1000) << 24 | (unix_ms % 1000) << 14
}

/// Checks that the device can be read by the chosen method. Reading threads start later, with the
/// first read.
fn check_reads(settings: &FlashSettings) -> std::io::Result<()> {
    match settings.reads_by {
        Some(ReadMethod::IoUring) => ReadPool::try_io_uring(&*settings.device),
        Some(ReadMethod::Threads) | None => Ok(()),
    }
}

/// Returns the hasher: seeded anew for each cache, so that nobody can choose keys that collide;
/// where items outlast the process, by the seed that is kept with them. Both parts of a foldhash's
/// seed are drawn: with a known shared one, there are keys whose hash is 0 with any other part.
fn hasher_of(tier: Option<&FlashTier>) -> SeedableRandomState {
    seeded_hasher(tier.map_or_else(|| [random_seed(), random_seed()], kept_seeds))
}

fn kept_seeds(tier: &FlashTier) -> [u64; 2] {
    let seed = u128::from_le_bytes(tier.flash.hash_seed());
    [seed as u64, (seed >> 64) as u64]
}

/// Returns the hasher of a seed, the same in every process.
fn seeded_hasher([own, shared]: [u64; 2]) -> SeedableRandomState {
    // Hashers refer to it for as long as the process lives: some 50 bytes a cache.
    let shared = Box::leak(Box::new(SharedSeed::from_u64(shared)));
    SeedableRandomState::with_seed(own, shared)
}

/// Returns what [`seeded_hasher`] makes of keys of every length, by a seed that never changes.
/// Items on flash are found by their hashes, and foldhash does not promise that another version, or
/// another kind of machine, computes the same: then this differs, and the tier is not believed.
fn hash_check() -> u64 {
    let key: [u8; u8::MAX as usize] = std::array::from_fn(|at| at as u8);
    let hasher = seeded_hasher(HASH_CHECK_SEED);
    (1..=key.len())
        .fold(0_u64, |check, length| check.rotate_left(7) ^ hash_with(&hasher, &key[..length]).0)
}

/// Returns 64 bits that nobody can guess: the standard library keys its hashes by what the system
/// draws. The hasher that is used here would take addresses and the time.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u8)
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("memory_bytes", &self.memory_bytes)
            .field("item_bytes_max", &self.item_bytes_max)
            .field("evict", &self.evict)
            .finish_non_exhaustive()
    }
}

/// Why a cache could not be built.
#[derive(Debug)]
pub enum BuildError {
    /// The item limit is not between 1 KiB and 1 GiB.
    ItemBytesMax(usize),
    /// More memory than a cache can address.
    MemoryBytes(usize),
    /// More memory than the policy can number the chunks of.
    PolicyMemoryBytes {
        /// Bytes that were asked for.
        bytes: usize,
        /// Bytes that are possible with this policy and this smallest chunk.
        bytes_max: usize,
    },
    /// The unit of costs is not between 1 and 65,536 us.
    CostUnitUs(u32),
    /// The system refused the address range.
    Reserve(std::io::Error),
    /// The index found no room.
    Index(IndexError),
    /// The flash tier cannot be opened.
    Flash(flash::OpenError),
    /// The flash tier is to be read by io_uring, and the kernel, or the device, does not allow it.
    FlashReads(std::io::Error),
    /// The flash tier is too large for the memory.
    FlashMisfit(FlashMisfit),
    /// Items cannot move to their columns where the policy keeps them in an order.
    RepartitionOrder,
    /// Items do not move to their columns where chunks are labelled with quotas.
    RepartitionQuotas,
    /// The quotas fit no cache.
    Quota(QuotaRefused),
    /// A flash tier needs eviction to fill it, and 8 MiB of memory.
    FlashAlone,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ItemBytesMax(bytes) => {
                write!(f, "an item limit of {bytes} bytes is not between 1 KiB and 1 GiB")
            }
            Self::MemoryBytes(bytes) => {
                write!(f, "{bytes} bytes of memory are more than the 2 TiB a cache can address")
            }
            Self::PolicyMemoryBytes { bytes, bytes_max } => write!(
                f,
                "{bytes} bytes of memory are more than the {bytes_max} whose chunks this policy \
                 can number; a larger smallest chunk, or another policy, allows for more"
            ),
            Self::CostUnitUs(us) => {
                write!(f, "a unit of costs of {us} us is not between 1 and 65536")
            }
            Self::Reserve(error) => write!(
                f,
                "cannot reserve addresses for all of the memory limit: {error} (what limits them \
                 is `ulimit -v`, or vm.overcommit_memory=2)"
            ),
            Self::Index(error) => write!(f, "cannot start the index: {error}"),
            Self::Flash(error) => write!(f, "cannot open the flash tier: {error}"),
            Self::FlashReads(error) => {
                write!(f, "the flash tier cannot be read by io_uring: {error}")
            }
            Self::FlashMisfit(misfit) => misfit.fmt(f),
            Self::RepartitionOrder => f.write_str(
                "items cannot move to their columns under gd-wheel or lru, which keep them in an \
                 order by where they lie: take clock or cost-clock",
            ),
            Self::RepartitionQuotas => {
                f.write_str("items cannot move to their columns beside quotas: take one of the two")
            }
            Self::Quota(refused) => refused.fmt(f),
            Self::FlashAlone => f.write_str(
                "a flash tier gets what is evicted: it needs eviction, and 8 MiB of memory",
            ),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Reserve(error) => Some(error),
            Self::Index(error) => Some(error),
            Self::Flash(error) => Some(error),
            Self::FlashReads(error) => Some(error),
            _ => None,
        }
    }
}

/// Why the memory limit could not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimitError {
    /// The highest possible limit, in bytes.
    pub bytes_max: usize,
}

impl fmt::Display for MemoryLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the memory limit can be at most {} bytes", self.bytes_max)
    }
}

impl std::error::Error for MemoryLimitError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tier that another version has written is not believed where these differ: a change of
    /// these, or of foldhash, empties all of them, and should be made knowingly.
    #[test]
    fn items_that_outlast_the_process_are_hashed_as_ever() {
        assert_eq!(hash_with(&seeded_hasher([1, 2]), b"larder").0, 7_003_448_710_596_199_072);
        assert_eq!(hash_check(), 2_688_081_561_755_046_066);
    }

    /// Regression: without a compressed zone, which pays for it, the ghost filter lay beside the
    /// memory limit.
    #[test]
    fn the_ghost_filter_of_flash_alone_is_within_the_memory_limit() {
        for mib in 8..24 {
            let memory_bytes = mib << 20;
            let pages = (64 << 20) / PAGE_BYTES as u64;
            let device = ::io::device::FakeDevice::new(pages, 1, Default::default());
            let flash = FlashSettings::new(Arc::new(device), [7; 16]);
            let builder = Cache::builder().memory_bytes(memory_bytes).compress(false);
            let cache = builder.flash(flash).build().expect("a small cache");
            let tier = cache.flash.as_ref().map_or(0, |tier| tier.memory_bytes_max());
            let remembered = cache.remembered.as_ref().map_or(0, GhostFilter::memory_bytes);
            assert!(remembered > 0);
            let arena_bytes = cache.arena.limit_slabs() * cache.arena.slab_bytes();
            let bytes = arena_bytes + tier + remembered;
            assert!(bytes <= memory_bytes, "{bytes} of {memory_bytes}");
        }
    }
}
