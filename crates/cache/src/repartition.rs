//! Re-partitioning as the cache has it: the hits from which the hot zone learns which items are
//! hot, and the time that the background may take to move them. `hot::repartition` has the rest.
//!
//! One hit in a number of them counts. Each thread counts its hits down, and a session takes the
//! countdown over while it lives, so that a hit that does not count touches no more than the
//! session. The distance to the next is drawn each time, so that no pattern of requests falls in
//! with it.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};

use hot::repartition::Passes;
use memory::Guard;
use policy::geometry::CacheGeometry;
use stdx::random::Xorshift;

use crate::cache::Cache;
use crate::cpu_budget::Allowance;
use crate::places::Found;

pub use hot::{FrameCounts, RepartitionCounts};
pub use policy::columns::Limits;

/// The share of one processor that passes and swaps may take.
const SHARE_MAX: f64 = 0.03;
/// The time that may be saved up: what comes in this many microseconds.
const SAVED_FOR_US: f64 = 1e6;
/// Steps of one turn: a pass each, or eight swaps. Other work waits for them.
const STEPS: usize = 64;
/// The least countdown of a cache in which nothing moves.
const OFF: u32 = 1 << 31;

thread_local! {
    /// Hits of this thread until the next one that counts.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// The source of drawn distances.
    static RANDOM: RefCell<Xorshift> =
        RefCell::new(Xorshift::seeded(RandomState::new().hash_one(0_u8)));
}

/// Where the geometry of the processor's cache comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeometrySource {
    /// The builder's caller chose it.
    Given,
    /// The system told it.
    System,
    /// The system did not tell it: it is the usual one.
    Assumed,
}

impl GeometrySource {
    /// Returns its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::System => "system",
            Self::Assumed => "assumed",
        }
    }
}

/// How items move to their columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repartition {
    /// Settings of the hot zone's part.
    pub settings: hot::Repartition,
    /// The share of one processor that it may take.
    pub share_max: f64,
    source: GeometrySource,
}

impl Repartition {
    /// Returns the settings for a processor with this cache.
    pub fn given(geometry: CacheGeometry) -> Self {
        Self::new(geometry, GeometrySource::Given)
    }

    /// Returns the settings for the processor that this runs on, as far as the system tells its
    /// cache.
    pub fn for_this_processor() -> Self {
        let told = io::processor::last_level_cache();
        let told = told.and_then(|it| CacheGeometry::of_all_sets(it.line_bytes, it.ways, it.sets));
        let source = if told.is_some() { GeometrySource::System } else { GeometrySource::Assumed };
        Self::new(told.unwrap_or_default(), source)
    }

    fn new(geometry: CacheGeometry, source: GeometrySource) -> Self {
        Self { settings: hot::Repartition::new(geometry), share_max: SHARE_MAX, source }
    }
}

/// Statistics of moving items to their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepartitionStats {
    /// The processor's cache that columns follow from.
    pub geometry: CacheGeometry,
    /// Where the geometry comes from.
    pub source: GeometrySource,
    /// Counts of what was done.
    pub counts: RepartitionCounts,
    /// Counts of the frames that slabs lie in.
    pub frames: FrameCounts,
}

/// Counts a session's hits down to the one that counts.
#[derive(Debug)]
pub(crate) struct Countdown(Cell<u32>);

impl Countdown {
    /// Takes over this thread's countdown.
    #[inline]
    pub(crate) fn new(cache: &Cache) -> Self {
        Self(Cell::new(if cache.repartition.is_some() { LEFT.get() } else { u32::MAX }))
    }

    /// Counts a hit; returns whether it is the one that counts.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.wrapping_sub(1));
        left == 0
    }

    /// Makes the item that was hit warmer.
    #[cold]
    pub(crate) fn sample(&self, cache: &Cache, guard: &Guard<'_>, found: &Found<'_>) {
        let Some(repartition) = &cache.repartition else {
            return;
        };
        cache.heat(guard, found);
        // From 0 to as far above the average.
        let values = u64::from(2 * repartition.settings.sampling - 1);
        let drawn = RANDOM.with_borrow_mut(Xorshift::draw) >> 32;
        self.0.set(((drawn * values) >> 32) as u32);
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        if self.0.get() < OFF {
            LEFT.set(self.0.get());
        }
    }
}

/// Re-partitioning under way.
#[derive(Debug, Default)]
pub(crate) struct Repartitioning {
    passes: Passes,
    allowance: Allowance,
}

impl Cache {
    /// Moves some of the hot items to their columns, while there is time and no other work presses.
    pub(crate) fn repartition(&self, state: &mut Repartitioning) {
        let Repartitioning { passes, allowance } = state;
        let Some(repartition) = self.repartition.as_ref() else {
            return;
        };
        // Flushed items are found by a walk that is about to begin.
        if self.moment.flush.sequence() != 0 {
            return;
        }
        let (now_us, share) = (self.clock.monotonic_us(), repartition.share_max);
        allowance.refill_to(now_us, share, share * SAVED_FOR_US);
        if !allowance.has_any() {
            return;
        }
        let began_us = self.clock.thread_cpu_us();
        for _ in 0..STEPS {
            if self.hot.is_pressed() || !self.hot.repartition(passes, self) {
                break;
            }
        }
        allowance.spend(self.clock.thread_cpu_us().saturating_sub(began_us));
    }

    pub(crate) fn repartition_stats(&self) -> Option<RepartitionStats> {
        let repartition = self.repartition.as_ref()?;
        let counts = self.hot.repartition_counts().unwrap_or_default();
        let Repartition { settings, source, .. } = *repartition;
        let frames = self.hot.frame_counts().unwrap_or_default();
        Some(RepartitionStats { geometry: settings.geometry, source, counts, frames })
    }
}
