//! Everything that the admin port shows of the server, at one moment.
//!
//! A [`Collector`] lives on the admin thread. Between two moments it keeps what cannot be read at
//! once: the latencies so far, and the history.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::io::Clock;
use ::io::moment::unix_time;
use larder::{ClassStats, QuotaStats, Stats};

use super::history::{History, POINT_NAMES, Point};
use super::keys::Keys;
use super::latency::Latencies;
use crate::counters::Sums;
use crate::memory_file::Found;
use crate::sampling::{SERIES, Sample};
use crate::server::{Phase, Server};

/// The server at one moment, as far as its parts can be read one after the other.
#[derive(Debug)]
pub struct Snapshot {
    /// The workers' counters since the start, whatever `stats reset` says.
    pub sums: Sums,
    /// Statistics of the cache.
    pub cache: Stats,
    /// Statistics of its size classes.
    pub classes: Vec<ClassStats>,
    /// Numbers computed as differences of counters; they never fall.
    pub differences: Differences,
    /// Processor time so far, of the program and of the kernel on its behalf.
    pub cpu: (Duration, Duration),
    /// Bytes of memory that the kernel accounts to the server, if known.
    pub resident_bytes: Option<u64>,
    /// Time since the start.
    pub uptime: Duration,
    /// Time since the epoch, by the machine's clock.
    pub time: Duration,
    /// Seconds since the epoch, by the server's clock: items expire by it.
    pub clock_s: u64,
    /// The server's phase.
    pub phase: Phase,
    /// Connections: open, total, and refused; pauses of accepting; and connections refused because
    /// their address had enough.
    pub connections: [u64; 5],
    /// No connection is refused at the moment.
    pub is_accepting: bool,
    /// The limit of connections.
    pub connections_max: u64,
    /// Number of worker threads.
    pub threads: u64,
    /// Bytes of replies that clients have not taken.
    pub parked_bytes: u64,
    /// Bytes of memory of values that have come in part.
    pub unfinished_bytes: u64,
    /// The limit of memory, in bytes.
    pub limit_bytes: u64,
    /// The items that the start found in the memory file, if there is one.
    pub found: Option<Found>,
    /// Samples of latencies that were lost.
    pub samples_lost: u64,
    /// The quotas, of which there are few.
    pub quotas: Vec<QuotaStats>,
}

/// Numbers computed as differences of counters. Their parts are read one after the other, and a
/// reading in between is too high or too low, so the highest that was ever read counts: Prometheus
/// takes a number that falls to mean a restart of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Differences {
    /// Keys found in the hot zone.
    pub hot_hits: u64,
    /// Stores except `cas`.
    pub sets: u64,
    /// Logins that were right.
    pub logins_right: u64,
    /// Logins that were checked and wrong.
    pub logins_wrong: u64,
}

/// Bytes of memory by use. They add up to the limit, or to the bytes in use if those are more for a
/// moment.
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
    /// The rest of slabs in use: their ends, and free tables.
    pub rest: u64,
    /// Bytes set apart for the flash tier's own buffers and lists.
    pub flash: u64,
    /// Slabs without an owner.
    pub free: u64,
}

impl Differences {
    /// Updates the numbers from present counters.
    fn and(self, sums: &Sums, cache: &Stats) -> Self {
        let lower: u64 = Snapshot::lower_hits(cache).iter().sum();
        let cas = sums.cas_hits + sums.cas_misses + sums.cas_badval;
        let most = |before: u64, all: u64, others: u64| before.max(all.saturating_sub(others));
        Self {
            hot_hits: most(self.hot_hits, sums.get_hits + sums.touch_hits, lower),
            sets: most(self.sets, sums.cmd_set, cas),
            logins_right: most(self.logins_right, sums.auth_cmds, sums.auth_errors),
            logins_wrong: most(self.logins_wrong, sums.auth_errors, sums.auth_throttled),
        }
    }
}

impl MemoryMap {
    fn of(cache: &Stats, classes: &[ClassStats]) -> Self {
        let of_classes = |chunks: fn(&ClassStats) -> usize| {
            classes.iter().map(|class| (chunks(class) * class.chunk_bytes) as u64).sum::<u64>()
        };
        let (items, chunks_free) =
            (of_classes(|it| it.used_chunks), of_classes(|it| it.free_chunks));
        let (mut compressed, mut index) = (0, cache.index_bytes);
        if let Some(below) = &cache.compressed {
            compressed = below.bytes();
            index += below.zone.trie_bytes as u64;
        }
        let known = items + chunks_free + compressed + index;
        let flash = cache.flash.map_or(0, |flash| flash.reserved_bytes);
        Self {
            items,
            chunks_free,
            compressed,
            index,
            rest: cache.used_bytes.saturating_sub(known),
            flash,
            free: cache.limit_bytes.saturating_sub(cache.used_bytes.max(known) + flash),
        }
    }

    /// The parts by name.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("items", self.items),
            ("chunks_free", self.chunks_free),
            ("compressed", self.compressed),
            ("index", self.index),
            ("rest", self.rest),
            ("flash", self.flash),
            ("free", self.free),
        ]
    }
}

/// Items by place. One that was promoted from flash, and whose row there is spare, is in two
/// places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ItemMap {
    /// Uncompressed.
    pub hot: u64,
    /// In the compressed zone.
    pub compressed: u64,
    /// On flash.
    pub flash: u64,
}

impl ItemMap {
    /// The items of the cache.
    pub fn of(cache: &Stats) -> Self {
        let compressed = cache.compressed.map_or(0, |below| below.zone.items as u64);
        let (flash, spare) = cache.flash.map_or((0, 0), |flash| (flash.items, flash.spare));
        // In the number of all items each counts once.
        let hot = (cache.items + spare).saturating_sub(compressed + flash);
        Self { hot, compressed, flash }
    }
}

/// Bytes of rows of the compressed zone before compression, and as they are stored.
pub fn compression(cache: &Stats) -> Option<(u64, u64)> {
    let below = cache.compressed?;
    let raw_bytes = below.zone.raw_bytes + below.zone.long_bytes;
    Some((raw_bytes as u64, below.zone.space.live_bytes as u64))
}

impl Snapshot {
    /// Seconds for which the device of the flash tier has left something unanswered.
    pub fn flash_unanswered_s(&self) -> u64 {
        self.cache.flash.as_ref().map_or(0, |flash| flash.unanswered_s)
    }

    /// The uses of memory.
    pub fn memory(&self) -> MemoryMap {
        MemoryMap::of(&self.cache, &self.classes)
    }

    /// The places of items.
    pub fn items(&self) -> ItemMap {
        ItemMap::of(&self.cache)
    }

    /// Bytes of rows before compression, and as they are stored.
    pub fn compression(&self) -> Option<(u64, u64)> {
        compression(&self.cache)
    }

    /// Hits of the compressed zone and of flash.
    fn lower_hits(cache: &Stats) -> [u64; 2] {
        [cache.compressed.map_or(0, |it| it.hits), cache.flash.map_or(0, |it| it.hits)]
    }

    /// Keys found uncompressed, in the compressed zone and on flash.
    pub fn hits(&self) -> [u64; 3] {
        let [compressed, flash] = Self::lower_hits(&self.cache);
        [self.differences.hot_hits, compressed, flash]
    }

    /// Keys requested so far: a multiget counts each of its keys.
    fn requests(&self) -> u64 {
        let sums = &self.sums;
        let deletes = sums.delete_hits + sums.delete_misses;
        let counts = sums.incr_hits + sums.incr_misses + sums.decr_hits + sums.decr_misses;
        sums.cmd_get + sums.cmd_set + sums.cmd_touch + deletes + counts
    }

    /// The counters whose rates the charts show ([`Self::point`]).
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

    /// A point of the charts: the rates of the second since `before`, and the present levels.
    fn point(&self, before: &Self, [p50_us, p99_us]: [f64; 2]) -> Point {
        let seconds = (self.uptime.saturating_sub(before.uptime)).as_secs_f64().max(1e-3);
        let (now, then) = (self.rising(), before.rising());
        let rates = std::iter::zip(now, then).map(|(now, then)| (now - then).max(0.0) / seconds);
        let memory = self.memory();
        let items = self.items();
        let ratio = self.compression().map_or(0.0, |(raw, live)| raw as f64 / live.max(1) as f64);
        let flash_bytes =
            self.cache.flash.map_or(0, |it| it.tier.segments_used() * it.tier.segment_bytes);
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

/// The state that the admin thread keeps.
pub struct Collector {
    /// The latencies so far.
    pub latencies: Latencies,
    /// The last day.
    pub history: History,
    /// Observations of keys.
    pub keys: Keys,
    differences: Differences,
    before: Option<Snapshot>,
    /// An empty list, to swap with lists of samples.
    spare: Vec<Sample>,
}

impl Collector {
    /// A collector that has seen nothing yet.
    pub fn new(server: &Server) -> Self {
        let latencies = Latencies::new(SERIES.len());
        let mut collector = Self {
            latencies,
            history: History::default(),
            keys: Keys::new(server),
            differences: Differences::default(),
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
        // Read after the tiers' numbers, so that hits counted there are counted here as well.
        let sums = server.counters.sum();
        self.differences = self.differences.and(&sums, &cache);
        let connections = &server.connections;
        Snapshot {
            sums,
            cache,
            classes: server.cache.class_stats(),
            differences: self.differences,
            cpu: ::io::process::cpu_time(),
            resident_bytes: ::io::process::resident_bytes(),
            uptime: server.started.elapsed(),
            time: unix_time(),
            clock_s: server.clock.unix_ms() / 1000,
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
            unfinished_bytes: server.unfinished.bytes() as u64,
            limit_bytes: server.memory_bytes() as u64,
            found: server
                .options
                .memory_file
                .is_some()
                .then(|| server.found.get().copied().unwrap_or_default()),
            samples_lost,
            quotas: server.cache.quota_stats(),
        }
    }

    /// Adds a point to the history.
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

#[cfg(test)]
mod tests {
    use larder::{CompressedStats, FlashTierStats};

    use super::*;

    /// Regression: memory that a flash tier keeps was shown as free, in a memory that was full.
    #[test]
    fn memory_kept_by_the_flash_tier_is_not_free() {
        let flash = FlashTierStats { reserved_bytes: 300, ..FlashTierStats::default() };
        let full = Stats {
            limit_bytes: 1000,
            used_bytes: 700,
            index_bytes: 50,
            flash: Some(flash),
            ..Stats::default()
        };
        let map = MemoryMap::of(&full, &[]);
        assert_eq!(map, MemoryMap { index: 50, rest: 650, flash: 300, ..MemoryMap::default() });
        assert_eq!(map.parts().map(|(_, bytes)| bytes).iter().sum::<u64>(), 1000);
        let beyond = Stats { used_bytes: 900, ..full };
        assert_eq!(MemoryMap::of(&beyond, &[]).free, 0);
    }

    /// Regression: the number fell if a worker was counting during the look before.
    #[test]
    fn a_difference_does_not_fall_when_its_parts_are_read_in_turn() {
        let (cache, none) = (Stats::default(), Differences::default());
        // A wrong login that is not counted as wrong yet.
        let before = Sums { cmd_set: 5, auth_cmds: 1, get_hits: 2, ..Sums::default() };
        let found = none.and(&before, &cache);
        assert_eq!((found.hot_hits, found.sets, found.logins_right), (2, 5, 1));
        let after = Sums { cas_hits: 1, auth_errors: 1, ..before };
        let expected = Differences { logins_wrong: 1, ..found };
        assert_eq!(found.and(&after, &cache), expected);
        let later = Sums { cmd_set: 8, auth_errors: 2, auth_cmds: 4, ..after };
        let expected = Differences { sets: 7, logins_right: 2, logins_wrong: 2, ..found };
        assert_eq!(expected, found.and(&later, &cache));
    }

    /// Regression: spare rows were subtracted from the number of hot items, which fell to 0.
    #[test]
    fn a_hot_item_counts_whether_its_row_on_flash_is_spare_or_not() {
        // Ten are hot, three of them with a spare row; of three compressed ones one has such a row;
        // and two are on flash alone.
        let flash = FlashTierStats { items: 6, spare: 4, ..FlashTierStats::default() };
        let mut compressed = CompressedStats::default();
        compressed.zone.items = 3;
        let (compressed, flash) = (Some(compressed), Some(flash));
        let cache = Stats { items: 15, compressed, flash, ..Stats::default() };
        assert_eq!(ItemMap::of(&cache), ItemMap { hot: 10, compressed: 3, flash: 6 });
    }
}
