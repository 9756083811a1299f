//! The policies by name.

use std::fmt;
use std::sync::Arc as Shared;

use clap::ValueEnum;

use super::arc::Arc;
use super::belady::Belady;
use super::clock::Clock;
use super::cost_clock::CostClock;
use super::gd_pq::GdPq;
use super::gd_wheel::GdWheel;
use super::lirs::Lirs;
use super::lru_2::Lru2;
use super::queue::Queue;
use super::s3_fifo::S3Fifo;
use super::segments::Segments;
use super::sieve::Sieve;
use super::w_tiny_lfu::WTinyLfu;
use super::weight::{BASE_BYTES, Scale};
use super::{Policy, arc, belady, clock, cost_clock, gd_pq, gd_wheel, lirs, lru_2, queue};
use super::{s3_fifo, segments, sieve, w_tiny_lfu, weight};

/// A policy to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Kind {
    /// First in, first out.
    Fifo,
    /// A second chance for used items.
    Clock,
    /// Least recently used.
    Lru,
    /// LRU with memcached's memory for each item.
    Memcached,
    /// The last use but one (LRU-K with K = 2).
    #[value(name = "lru-2")]
    Lru2,
    /// Low inter-reference recency set.
    Lirs,
    /// Adaptive replacement cache.
    Arc,
    /// GreedyDual with a priority queue: cost-aware.
    GdPq,
    /// GreedyDual with Larder's cost wheels.
    GdWheel,
    /// GreedyDual with cost wheels; a hit sets a bit, as in CLOCK.
    GdWheelLazy,
    /// CLOCK with Larder's credit for costs.
    CostClock,
    /// FIFO of segments.
    Segments,
    /// FIFO of segments that are merged.
    SegmentsMerge,
    /// A small and a main FIFO queue with ghosts (SOSP 2023).
    #[value(name = "s3-fifo")]
    S3Fifo,
    /// CLOCK that leaves survivors in place (NSDI 2024).
    Sieve,
    /// Admission by frequency, as in Caffeine.
    #[value(name = "w-tinylfu")]
    WTinyLfu,
    /// Knows the future: best possible for objects of equal weight.
    Belady,
}

/// The setting of a simulation.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The most that all items may weigh: at least 1.
    pub capacity: u64,
    /// Number of objects in the trace.
    pub objects: u32,
    /// The approximate number of items that fit.
    pub items: u64,
    /// The next read of each request's object.
    pub next_uses: Shared<[u32]>,
}

impl Kind {
    /// Returns an empty cache.
    pub fn build(self, setting: &Setting) -> Box<dyn Policy> {
        let Setting { capacity, objects, items, next_uses } = setting;
        let (capacity, objects) = (*capacity, *objects);
        match self {
            Kind::Fifo => Box::new(Queue::fifo(capacity, objects)),
            Kind::Clock => Box::new(Clock::new(capacity, objects)),
            Kind::Lru | Kind::Memcached => Box::new(Queue::lru(capacity, objects)),
            Kind::Lru2 => Box::new(Lru2::new(capacity, objects)),
            Kind::Lirs => Box::new(Lirs::new(capacity, objects)),
            Kind::Arc => Box::new(Arc::new(capacity, objects)),
            Kind::GdPq => Box::new(GdPq::<false>::new(capacity, objects)),
            Kind::GdWheel => Box::new(GdWheel::new(capacity, objects, false)),
            Kind::GdWheelLazy => Box::new(GdWheel::new(capacity, objects, true)),
            Kind::CostClock => Box::new(CostClock::new(capacity, objects)),
            Kind::Segments => Box::new(Segments::new(capacity, objects, false)),
            Kind::SegmentsMerge => Box::new(Segments::new(capacity, objects, true)),
            Kind::S3Fifo => Box::new(S3Fifo::new(capacity, objects)),
            Kind::Sieve => Box::new(Sieve::new(capacity, objects)),
            Kind::WTinyLfu => Box::new(WTinyLfu::new(capacity, objects, *items)),
            Kind::Belady => Box::new(Belady::new(capacity, objects, Shared::clone(next_uses))),
        }
    }

    /// Returns the scale of items where memory is measured.
    pub fn memory_scale(self) -> Scale {
        let own = match self {
            Kind::Memcached => return Scale::Memcached,
            Kind::Fifo => queue::FIFO_OVERHEAD_BYTES,
            Kind::Clock => clock::OVERHEAD_BYTES,
            Kind::Lru => queue::LRU_OVERHEAD_BYTES,
            Kind::Lru2 => lru_2::OVERHEAD_BYTES,
            Kind::Lirs => lirs::OVERHEAD_BYTES,
            Kind::Arc => arc::OVERHEAD_BYTES,
            Kind::GdPq => gd_pq::OVERHEAD_BYTES,
            Kind::GdWheel => gd_wheel::OVERHEAD_BYTES,
            Kind::GdWheelLazy => gd_wheel::LAZY_OVERHEAD_BYTES,
            Kind::CostClock => cost_clock::OVERHEAD_BYTES,
            Kind::Segments | Kind::SegmentsMerge => segments::OVERHEAD_BYTES,
            Kind::S3Fifo => s3_fifo::OVERHEAD_BYTES,
            Kind::Sieve => sieve::OVERHEAD_BYTES,
            Kind::WTinyLfu => w_tiny_lfu::OVERHEAD_BYTES,
            Kind::Belady => belady::OVERHEAD_BYTES,
        };
        Scale::Bytes(BASE_BYTES + own)
    }

    /// Describes the policy's overhead per item, beside key and value.
    pub fn overhead(self) -> String {
        match self.memory_scale() {
            Scale::Bytes(bytes) => format!("{bytes} bytes"),
            _ => weight::MEMCACHED_IN_WORDS.to_owned(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no policy is skipped");
        out.write_str(value.get_name())
    }
}
