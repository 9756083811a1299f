//! Everything that is told about the server, at one moment.
//!
//! A [`Collector`] lives on the admin thread. What it keeps between two moments is what cannot be
//! read at once: the latencies so far, and the history.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::io::moment::unix_time;
use larder::{ClassStats, QuotaStats, Stats};

use super::history::{History, POINT_NAMES, Point};
use super::keys::Keys;
use super::latency::Latencies;
use crate::counters::Sums;
use crate::memory_file::Found;
use crate::namespaces::Counts;
use crate::sampling::{SERIES, Sample};
use crate::server::{Phase, Server};

/// Namespaces that are told at the most: each is four lines for whoever collects them.
const NAMESPACES_SHOWN: usize = 100;

/// The server at one moment, as far as its parts can be read one after the other.
#[derive(Debug)]
pub struct Snapshot {
    /// What the workers have counted since the start, whatever `stats reset` says.
    pub sums: Sums,
    /// The cache.
    pub cache: Stats,
    /// Its size classes.
    pub classes: Vec<ClassStats>,
    /// Keys found in the hot zone; it never falls.
    pub hot_hits: u64,
    /// Processor time so far, of the program and of the kernel for it.
    pub cpu: (Duration, Duration),
    /// Bytes of memory that the kernel counts as the server's, where it tells.
    pub resident_bytes: Option<u64>,
    /// Since the start.
    pub uptime: Duration,
    /// Since the epoch.
    pub time: Duration,
    /// What the server is about.
    pub phase: Phase,
    /// Connections now, so far, and refused; how often accepting was paused; and connections that
    /// were refused because their address had enough.
    pub connections: [u64; 5],
    /// No connection is refused at the moment.
    pub is_accepting: bool,
    /// Most connections.
    pub connections_max: u64,
    /// Worker threads.
    pub threads: u64,
    /// Bytes of replies that clients have not taken.
    pub parked_bytes: u64,
    /// The limit of memory.
    pub limit_bytes: u64,
    /// What the start found in the memory file, if there is one.
    pub found: Option<Found>,
    /// Samples of latencies that were lost.
    pub samples_lost: u64,
    /// What was counted by namespaces, of the busiest ones.
    pub namespaces: Vec<(String, Counts)>,
    /// The quotas, which are a few.
    pub quotas: Vec<QuotaStats>,
}

/// Bytes of memory by what they are used for. They add up to the limit, or to what is used if that
/// is more for a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryMap {
    /// Chunks that hold items.
    pub items: u64,
    /// Chunks of size classes that hold none.
    pub chunks_free: u64,
    /// Slabs of the compressed zone.
    pub compressed: u64,
    /// Tables of the index, and the trie of the compressed zone.
    pub index: u64,
    /// What is left of slabs in use: their ends, and tables that are free.
    pub rest: u64,
    /// Slabs that nobody has.
    pub free: u64,
}

impl MemoryMap {
    /// The parts by name.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("items", self.items),
            ("chunks_free", self.chunks_free),
            ("compressed", self.compressed),
            ("index", self.index),
            ("rest", self.rest),
            ("free", self.free),
        ]
    }
}

/// Items by where they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemMap {
    /// Uncompressed.
    pub hot: u64,
    /// In the compressed zone.
    pub compressed: u64,
    /// On flash.
    pub flash: u64,
}

impl Snapshot {
    /// What memory is used for.
    pub fn memory(&self) -> MemoryMap {
        let cache = &self.cache;
        let of_classes = |chunks: fn(&ClassStats) -> usize| {
            self.classes.iter().map(|class| (chunks(class) * class.chunk_bytes) as u64).sum::<u64>()
        };
        let (items, chunks_free) =
            (of_classes(|it| it.used_chunks), of_classes(|it| it.free_chunks));
        let (mut compressed, mut index) = (0, cache.index_bytes);
        if let Some(below) = &cache.compressed {
            compressed = below.bytes();
            index += below.zone.trie_bytes as u64;
        }
        let known = items + chunks_free + compressed + index;
        MemoryMap {
            items,
            chunks_free,
            compressed,
            index,
            rest: cache.used_bytes.saturating_sub(known),
            free: cache.limit_bytes.saturating_sub(cache.used_bytes.max(known)),
        }
    }

    /// Where items are.
    pub fn items(&self) -> ItemMap {
        let compressed = self.cache.compressed.map_or(0, |below| below.zone.items as u64);
        let flash = self.cache.flash.map_or(0, |flash| flash.items);
        ItemMap { hot: self.cache.items.saturating_sub(compressed + flash), compressed, flash }
    }

    /// Bytes of rows before compression, and as they are stored.
    pub fn compression(&self) -> Option<(u64, u64)> {
        let below = self.cache.compressed?;
        let raw_bytes = below.zone.raw_bytes + below.zone.long_bytes;
        Some((raw_bytes as u64, below.zone.space.live_bytes as u64))
    }

    /// Hits of the tiers below the hot zone.
    fn lower_hits(cache: &Stats) -> [u64; 2] {
        [cache.compressed.map_or(0, |it| it.hits), cache.flash.map_or(0, |it| it.hits)]
    }

    /// Keys found uncompressed, in the compressed zone and on flash.
    pub fn hits(&self) -> [u64; 3] {
        let [compressed, flash] = Self::lower_hits(&self.cache);
        [self.hot_hits, compressed, flash]
    }

    /// Requests for keys so far: a multiget counts each of its keys.
    fn requests(&self) -> u64 {
        let sums = &self.sums;
        let deletes = sums.delete_hits + sums.delete_misses;
        let counts = sums.incr_hits + sums.incr_misses + sums.decr_hits + sums.decr_misses;
        sums.cmd_get + sums.cmd_set + sums.cmd_touch + deletes + counts
    }

    /// What rises, for the charts: [`Self::point`] shows how fast.
    fn rising(&self) -> [f64; 16] {
        let sums = &self.sums;
        let [hot, compressed, flash] = self.hits();
        let tier = self.cache.flash.unwrap_or_default().tier;
        let seconds = |us: u64| us as f64 / 1e6;
        let costs = self.cache.costs.unwrap_or_default();
        [
            self.requests() as f64,
            sums.cmd_get as f64,
            sums.cmd_set as f64,
            hot as f64,
            compressed as f64,
            flash as f64,
            (sums.get_misses + sums.touch_misses) as f64,
            self.cache.evicted as f64,
            self.cache.expired as f64,
            sums.bytes_read as f64,
            sums.bytes_written as f64,
            tier.bytes_written as f64,
            self.cache.flash.map_or(0, |it| it.reads) as f64,
            seconds(sums.cost_saved_us),
            seconds(costs.miss_cost_us),
            (self.cpu.0 + self.cpu.1).as_secs_f64(),
        ]
    }

    /// A point of the charts: what happened in a second since `before`, and what is now.
    fn point(&self, before: &Self, [p50_us, p99_us]: [f64; 2]) -> Point {
        let seconds = (self.uptime.saturating_sub(before.uptime)).as_secs_f64().max(1e-3);
        let (now, then) = (self.rising(), before.rising());
        let rates = std::iter::zip(now, then).map(|(now, then)| (now - then).max(0.0) / seconds);
        let memory = self.memory();
        let items = self.items();
        let ratio = self.compression().map_or(0.0, |(raw, live)| raw as f64 / live.max(1) as f64);
        let flash_bytes = self.cache.flash.map_or(0, |it| {
            it.tier.segments.saturating_sub(it.tier.segments_free) * it.tier.segment_bytes
        });
        let states = [
            memory.items as f64,
            memory.compressed as f64,
            memory.index as f64,
            (memory.chunks_free + memory.rest) as f64,
            items.hot as f64,
            items.compressed as f64,
            items.flash as f64,
            ratio,
            flash_bytes as f64,
            self.connections[0] as f64,
            p50_us,
            p99_us,
        ];
        let mut values = [0.0; POINT_NAMES.len()];
        for (value, found) in values.iter_mut().zip(rates.chain(states)) {
            *value = found as f32;
        }
        Point { unix_s: self.time.as_secs(), values }
    }
}

/// What the admin thread keeps.
pub struct Collector {
    /// The latencies so far.
    pub latencies: Latencies,
    /// The last day.
    pub history: History,
    /// What is known of keys.
    pub keys: Keys,
    hot_hits: u64,
    before: Option<Snapshot>,
    /// Empty, for the lists of samples to change places with.
    spare: Vec<Sample>,
}

impl Collector {
    /// With nothing seen yet.
    pub fn new(server: &Server) -> Self {
        let latencies = Latencies::new(SERIES.len());
        let mut collector = Self {
            latencies,
            history: History::default(),
            keys: Keys::new(server),
            hot_hits: 0,
            before: None,
            spare: Vec::new(),
        };
        collector.before = Some(collector.collect(server));
        collector
    }

    /// The server now.
    pub fn collect(&mut self, server: &Server) -> Snapshot {
        let samples_lost =
            server.samples.take(&mut self.spare, |sample| self.latencies.add(sample)).count;
        self.keys.take(server);
        let cache = server.cache.stats();
        // Behind the tiers' numbers, so that what they count is counted here as well.
        let sums = server.counters.sum();
        let lower: u64 = Snapshot::lower_hits(&cache).iter().sum();
        self.hot_hits = self.hot_hits.max((sums.get_hits + sums.touch_hits).saturating_sub(lower));
        let connections = &server.connections;
        Snapshot {
            sums,
            cache,
            classes: server.cache.class_stats(),
            hot_hits: self.hot_hits,
            cpu: ::io::process::cpu_time(),
            resident_bytes: ::io::process::resident_bytes(),
            uptime: server.started.elapsed(),
            time: unix_time(),
            phase: server.phase.get(),
            connections: [
                connections.current.load(Ordering::Relaxed) as u64,
                connections.total.load(Ordering::Relaxed),
                connections.rejected.load(Ordering::Relaxed),
                connections.pauses.load(Ordering::Relaxed),
                connections.rejected_by_address.load(Ordering::Relaxed),
            ],
            is_accepting: !connections.is_paused.load(Ordering::Relaxed),
            connections_max: server.live.connections_max() as u64,
            threads: server.options.threads as u64,
            parked_bytes: server.parked.bytes() as u64,
            limit_bytes: server.memory_bytes.load(Ordering::Relaxed) as u64,
            found: server
                .options
                .memory_file
                .is_some()
                .then(|| server.found.get().copied().unwrap_or_default()),
            samples_lost,
            namespaces: server.namespaces.busiest(NAMESPACES_SHOWN),
            quotas: server.cache.quota_stats(),
        }
    }

    /// A point for the history.
    pub fn tick(&mut self, server: &Server) {
        let now = self.collect(server);
        let quantiles = self.latencies.tick();
        if let Some(before) = self.before.replace(now) {
            let now = self.before.as_ref().expect("it was put there just now");
            let seconds = now.uptime.saturating_sub(before.uptime).as_secs_f64();
            self.keys.tick(now, seconds);
            self.history.add(now.point(&before, quantiles));
        }
    }
}
