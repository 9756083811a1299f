//! The workers' observations of keys, evaluated: a miss-ratio curve of the present with the effect
//! of more memory, why reads miss, and which keys are requested most.
//!
//! The curve is that of one LRU cache for all. How many uncompressed bytes of items each tier has
//! room for is measured ([`Room`]), and the room that one GiB more of it would give follows from
//! that. The error, because the real cache is no LRU, because items expire, and because it has not
//! filled up yet, is shown beside it.

use ::insight::{Event, HALF_LIFE_S, Point, Top, Watcher};
use larder::{FlashStats, Stats};

use super::collect::{ItemMap, MemoryMap, Snapshot, compression};
use crate::insight::Picked;
use crate::sampling::REQUESTS_PER_SAMPLE;
use crate::server::Server;

/// Keys that are counted, by requests and by bytes: a key with more than a 256th of either is
/// found.
const TOP_KEYS: usize = 256;

/// Age in seconds at which a request counts half among keys: ten minutes, for the question is who
/// is asking now.
pub const TOP_HALF_LIFE_S: f64 = 600.0;

/// Sizes in the metrics, as parts of the present.
pub const SIZES: [(&str, f64); 7] =
    [("1/8", 0.125), ("1/4", 0.25), ("1/2", 0.5), ("1", 1.0), ("2", 2.0), ("4", 4.0), ("8", 8.0)];

/// Points of the page's curve for each doubling, from a sixteenth to eight times the present.
const POINTS_PER_DOUBLING: i32 = 4;

/// A GiB.
const MORE_BYTES: f64 = (1_u64 << 30) as f64;

/// The share of memory that items get, until this much of it is in use and it can be measured.
const ITEMS_SHARE: f64 = 0.9;

/// The factor by which the sample is narrowed beyond what would suffice, where events were lost.
const NARROWED: f64 = 0.8;

/// The smallest factor of one narrowing.
const SHARE_MIN: f64 = 0.25;

/// The least reads from which a curve is shown.
const READS_MIN: f64 = 100.0;

/// The admin thread's knowledge of keys.
pub struct Keys {
    /// The sampled keys.
    pub watcher: Watcher,
    /// The top keys by requests.
    pub by_requests: Top,
    /// The top keys by bytes sent.
    pub by_bytes: Top,
    /// Events and keys of requests that were lost.
    pub lost: [u64; 2],
    /// Seconds in which requests were drawn, fading as they do.
    drawn_s: f64,
    /// Reads and hits at the last look.
    before: [u64; 2],
    /// An empty list, to swap with lists of events.
    events: Vec<Event>,
    picked: Vec<Picked>,
}

/// The room of each tier, in bytes that items take uncompressed.
///
/// ```text
/// memory  | fixed: flash's index and buffers | items | their index and the rest | compressed |
/// twice   | fixed                            | all else grows with what is left             |
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Room {
    memory_bytes: f64,
    /// Bytes of memory that flash takes, whatever the size of memory: the index of the items on it,
    /// and its own buffers.
    fixed_bytes: f64,
    /// The room of the rest of the memory, uncompressed and in the compressed zone.
    above: f64,
    flash: f64,
    /// The room that one byte more of each tier would give; `None` without the tier.
    per_byte: [Option<f64>; 3],
}

/// The names of the tiers, as [`Outlook::more`] has them.
pub const TIERS: [&str; 3] = ["hot", "compressed", "flash"];

/// The curve and what follows from it.
#[derive(Debug)]
pub struct Outlook {
    room: Room,
    /// At the present size.
    pub present: Point,
    /// The measured miss ratio.
    pub measured: f64,
    /// Reads per second.
    pub reads_per_second: f64,
}

/// The gain per second from one GiB more of a tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct More {
    /// Keys found that are missed now.
    pub hits: f64,
    /// Seconds of the backend's work saved, as far as costs are known.
    pub saved_s: f64,
}

/// Bytes of rows in each stored byte; 1 if nothing was stored.
fn ratio((raw, stored): (u64, u64)) -> f64 {
    if stored == 0 { 1.0 } else { (raw as f64 / stored as f64).max(1.0) }
}

/// The ratio of all flash: each area counts by its segments, for bytes written there may have been
/// overwritten many times.
fn flash_ratio(tier: &FlashStats) -> f64 {
    let areas = [tier.cold, tier.hot];
    let segments: u64 = areas.iter().map(|area| area.segments).sum();
    if segments == 0 {
        return ratio((tier.raw_bytes, tier.stored_bytes));
    }
    let raw = areas.map(|area| area.segments as f64 * ratio((area.raw_bytes, area.stored_bytes)));
    raw.iter().sum::<f64>() / segments as f64
}

impl Room {
    /// The room as the server is now.
    fn of(cache: &Stats, memory: &MemoryMap) -> Self {
        let items = ItemMap::of(cache);
        // An item that is in two places has an index word for each.
        let words = items.hot + items.compressed + items.flash;
        let flash_index = cache.index_bytes as f64 * items.flash as f64 / words.max(1) as f64;
        let held = (memory.items + memory.chunks_free) as f64;
        let beside = (memory.index + memory.rest) as f64 - flash_index;
        let is_measured = (held + beside) * 4.0 > memory.free as f64 && held > 0.0;
        let share = if is_measured { held / (held + beside) } else { ITEMS_SHARE };
        let zone_ratio = compression(cache).map(ratio);
        let flash = cache.flash.map(|flash| {
            let tier = flash.tier;
            let used = tier.segments_used() * tier.segment_bytes;
            let index_per_byte = flash_index / used.max(1) as f64;
            let ratio = flash_ratio(&tier);
            let room = (tier.segments * tier.segment_bytes) as f64 * ratio;
            // Its index takes memory from items.
            (room, (ratio - index_per_byte * share).max(0.0), flash.reserved_bytes as f64)
        });
        Self {
            memory_bytes: cache.limit_bytes as f64,
            fixed_bytes: flash_index + flash.map_or(0.0, |(.., reserved)| reserved),
            above: held
                + memory.free as f64 * share
                + memory.compressed as f64 * zone_ratio.unwrap_or(1.0),
            flash: flash.map_or(0.0, |(room, ..)| room),
            per_byte: [Some(share), zone_ratio, flash.map(|(_, per_byte, _)| per_byte)],
        }
    }

    /// The room at `size` times the present memory. Flash stays as it is, as far as there is memory
    /// for its index.
    fn bytes(&self, size: f64) -> f64 {
        let (memory, fixed) = (self.memory_bytes * size, self.fixed_bytes);
        let left = (memory - fixed).max(0.0) / (self.memory_bytes - fixed).max(1.0);
        self.above * left + self.flash * (memory / fixed.max(1.0)).min(1.0)
    }
}

impl Keys {
    /// Nothing seen yet.
    pub fn new(server: &Server) -> Self {
        let watcher = Watcher::of_cache(server.options.memory_megabytes << 20);
        server.insight.sample_below(watcher.threshold());
        Self::of(watcher)
    }

    fn of(watcher: Watcher) -> Self {
        Self {
            watcher,
            by_requests: Top::new(TOP_KEYS),
            by_bytes: Top::new(TOP_KEYS),
            lost: [0; 2],
            drawn_s: 0.0,
            before: [0; 2],
            events: Vec::new(),
            picked: Vec::new(),
        }
    }

    /// Takes the workers' events, and what they have counted meanwhile.
    pub fn take(&mut self, server: &Server) {
        let Self { watcher, by_requests, by_bytes, .. } = self;
        let mut taken = 0_u64;
        let lost_now = server.insight.events.take(&mut self.events, |event| {
            taken += 1;
            watcher.observe(&event);
        });
        let picked_lost = server.insight.picked.take(&mut self.picked, |picked| {
            let weight = f64::from(REQUESTS_PER_SAMPLE) * picked.keys as f64;
            by_requests.add(&picked.key, picked.hash, weight);
            if picked.sent_bytes > 0 {
                by_bytes.add(&picked.key, picked.hash, picked.sent_bytes as f64 * weight);
            }
        });
        // Lost events count as requests that were not made.
        let lost = lost_now.count - self.lost[0];
        let share = if lost == 0 { 1.0 } else { taken as f64 / (taken + lost) as f64 };
        let sums = server.counters.sum();
        let now = [sums.cmd_get + sums.cmd_touch, sums.get_hits + sums.touch_hits];
        let [reads, hits] = [0, 1].map(|at| now[at].saturating_sub(self.before[at]) as f64 * share);
        self.watcher.count(reads, hits);
        if let Some(narrower) = narrowing(share, lost_now.is_full) {
            self.watcher.narrow(narrower);
        }
        server.insight.sample_below(self.watcher.threshold());
        (self.before, self.lost) = (now, [lost_now.count, picked_lost.count]);
    }

    /// Lets `seconds` pass.
    pub fn tick(&mut self, snapshot: &Snapshot, seconds: f64) {
        let room = Room::of(&snapshot.cache, &snapshot.memory());
        self.watcher.set_present(room.bytes(1.0));
        self.watcher.pass(seconds);
        let factor = (-seconds / TOP_HALF_LIFE_S).exp2();
        self.by_requests.fade(factor);
        self.by_bytes.fade(factor);
        self.drawn_s = self.drawn_s * factor + seconds;
    }

    /// The curve now; `None` while hardly anything was read.
    pub fn outlook(&self, snapshot: &Snapshot) -> Option<Outlook> {
        self.outlook_of(Room::of(&snapshot.cache, &snapshot.memory()))
    }

    fn outlook_of(&self, room: Room) -> Option<Outlook> {
        let curve = self.watcher.curve();
        if curve.reads() < READS_MIN {
            return None;
        }
        Some(Outlook {
            room,
            present: curve.at(room.bytes(1.0))?,
            measured: curve.measured_miss_ratio(),
            reads_per_second: curve.reads_per_second(),
        })
    }

    /// The curve at `size` times the present memory.
    pub fn at(&self, outlook: &Outlook, size: f64) -> Point {
        self.watcher.curve().at(outlook.room.bytes(size)).unwrap_or_default()
    }

    /// The page's curve: sizes as parts of the present, and the miss ratio at each.
    pub fn points(&self, outlook: &Outlook) -> Vec<(f64, Point)> {
        let steps = -4 * POINTS_PER_DOUBLING..=3 * POINTS_PER_DOUBLING;
        let size = |step: i32| (f64::from(step) / f64::from(POINTS_PER_DOUBLING)).exp2();
        steps.map(|step| (size(step), self.at(outlook, size(step)))).collect()
    }

    /// The gain from one GiB more of each tier; `None` without the tier.
    pub fn more(&self, outlook: &Outlook) -> [Option<More>; 3] {
        let Outlook { room, present, reads_per_second, .. } = outlook;
        room.per_byte.map(|per_byte| {
            let larger = self.watcher.curve().at(room.bytes(1.0) + per_byte? * MORE_BYTES)?;
            let hits = (present.miss_ratio - larger.miss_ratio).max(0.0) * reads_per_second;
            Some(More { hits, saved_s: (present.missed_s - larger.missed_s).max(0.0) })
        })
    }

    /// A key's weight as a rate per second.
    pub fn per_second(&self, weight: f64) -> f64 {
        weight / self.drawn_s.max(1.0)
    }

    /// Age in seconds at which a count of the curve weighs half.
    pub fn half_life_s() -> f64 {
        HALF_LIFE_S
    }
}

/// The factor to narrow the sample by when this share of the events has come through, and a list
/// was full or not. An event lost while this side held its list does not mean that there are too
/// many: some always are, so the sample would narrow for ever.
fn narrowing(share: f64, is_full: bool) -> Option<f64> {
    (is_full && share < 1.0).then(|| share.max(SHARE_MIN) * NARROWED)
}

#[cfg(test)]
mod tests {
    use ::insight::After;
    use larder::{CompressedStats, FlashTierStats};
    use stdx::random::Xorshift;

    use super::*;

    const GIB: f64 = (1_u64 << 30) as f64;

    /// A memory of 1000 bytes: 450 of items, 50 of free chunks, and 100 of the index of a hundred
    /// items, of which half are on flash if there is one, for which 100 are set apart.
    fn memory(flash: Option<FlashTierStats>) -> (Stats, MemoryMap) {
        let stats = Stats {
            items: 100,
            limit_bytes: 1000,
            used_bytes: 600,
            index_bytes: 100,
            flash,
            ..Stats::default()
        };
        let reserved = flash.map_or(0, |flash| flash.reserved_bytes);
        let map = MemoryMap {
            items: 450,
            chunks_free: 50,
            index: 100,
            flash: reserved,
            free: 400 - reserved,
            ..MemoryMap::default()
        };
        (stats, map)
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} {expected}");
    }

    /// Regression: the index of items on flash was taken to grow with the memory, so that a GiB
    /// more seemed to hold that much less of items.
    #[test]
    fn memory_taken_by_flash_does_not_grow_with_memory() {
        let mut tier = FlashStats {
            segments: 10,
            segments_free: 2,
            segment_bytes: 100,
            raw_bytes: 9300,
            stored_bytes: 9100,
            ..FlashStats::default()
        };
        (tier.cold.segments, tier.cold.raw_bytes, tier.cold.stored_bytes) = (6, 300, 100);
        // Written over again and again.
        (tier.hot.segments, tier.hot.raw_bytes, tier.hot.stored_bytes) = (2, 9000, 9000);
        let flash =
            FlashTierStats { tier, items: 50, reserved_bytes: 100, ..FlashTierStats::default() };
        let (cache, map) = memory(Some(flash));
        let room = Room::of(&cache, &map);
        let share = 500.0 / 550.0;
        let above = 500.0 + 300.0 * share;
        let per_byte = room.per_byte.map(|per_byte| per_byte.unwrap_or(-1.0));
        // Three areas' worth of 3 to 1 and one of 1 to 1; of each 16 bytes one goes to the index.
        near(per_byte[0], share);
        near(per_byte[1], -1.0);
        near(per_byte[2], 2.5 - share / 16.0);
        near(room.bytes(1.0), above + 2500.0);
        near(room.bytes(2.0), above * 1850.0 / 850.0 + 2500.0);
        near(room.bytes(0.5), above * 350.0 / 850.0 + 2500.0);
        near(room.bytes(0.075), 1250.0);
    }

    #[test]
    fn without_flash_all_that_memory_holds_grows_with_it() {
        let (cache, map) = memory(None);
        let room = Room::of(&cache, &map);
        let share = 500.0 / 600.0;
        assert_eq!(room.per_byte, [Some(share), None, None]);
        near(room.bytes(1.0), 500.0 + 400.0 * share);
        near(room.bytes(0.25), room.bytes(1.0) / 4.0);
        let empty = Stats { limit_bytes: 1000, ..Stats::default() };
        let map = MemoryMap { free: 1000, ..MemoryMap::default() };
        near(Room::of(&empty, &map).bytes(1.0), 900.0);
    }

    #[test]
    fn the_compressed_zone_has_room_for_more_than_it_takes() {
        let (mut cache, map) = memory(None);
        let mut below = CompressedStats::default();
        below.zone.raw_bytes = 300;
        below.zone.space.live_bytes = 100;
        cache.compressed = Some(below);
        let room = Room::of(&cache, &map);
        assert_eq!(room.per_byte[1..], [Some(3.0), None]);
    }

    /// Forty keys of a tenth of a GiB, each requested once a second in turn: a cache with room for
    /// all of them misses none.
    #[test]
    fn the_gain_of_a_tier_is_given_in_hits_and_seconds() {
        const KEYS: u64 = 40;
        let mut keys = Keys::of(Watcher::new(1000, 1.0));
        let room = Room {
            memory_bytes: 2.0 * GIB,
            fixed_bytes: 0.0,
            above: 2.0 * GIB,
            flash: 0.0,
            per_byte: [Some(0.9), Some(3.0), None],
        };
        keys.watcher.set_present(room.bytes(1.0));
        assert!(keys.outlook_of(room).is_none(), "nothing was read");
        for now_s in 1..=100 {
            for key in 0..KEYS {
                let bytes = (GIB / 10.0) as u32;
                let after = After::Item { bytes, cost_us: 1_000_000, expiry_s: 0 };
                let hash = Xorshift::seeded(key).draw();
                let read = Some(false);
                keys.watcher.observe(&Event { hash, now_s, flushes: 0, read, after });
            }
            keys.watcher.count(KEYS as f64, 0.0);
            keys.watcher.pass(1.0);
        }
        let outlook = keys.outlook_of(room).expect("much was read");
        let about = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");
        };
        about(outlook.present.miss_ratio, 1.0);
        about(outlook.measured, 1.0);
        about(outlook.reads_per_second, KEYS as f64);
        let [hot, compressed, flash] = keys.more(&outlook);
        let none = More { hits: 0.0, saved_s: 0.0 };
        assert_eq!((hot, flash), (Some(none), None), "2.9 GiB are as bad as 2");
        let compressed = compressed.expect("there is a zone");
        // All but the first of each.
        about(compressed.hits, KEYS as f64 * 0.99);
        about(compressed.saved_s, KEYS as f64 * 0.99);
        let points = keys.points(&outlook);
        let at = |size: f64| points.iter().find(|point| point.0 == size).expect("the size").1;
        about(at(1.0).miss_ratio, 1.0);
        assert!(at(4.0).miss_ratio < 0.02 && at(0.0625).miss_ratio > 0.95);
    }

    #[test]
    fn a_sample_narrows_for_full_lists_and_not_for_a_held_one() {
        assert_eq!(narrowing(0.999, false), None);
        assert_eq!(narrowing(0.5, false), None, "of two events one met the moment");
        assert_eq!(narrowing(1.0, true), None, "all found room");
        assert_eq!(narrowing(0.5, true), Some(0.4));
        assert_eq!(narrowing(0.01, true), Some(0.2));
    }
}
