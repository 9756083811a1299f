//! What workers tell of keys, made into what people can use: a miss-ratio curve of the present with
//! what more memory would bring, why reads miss, and which keys are asked for most.
//!
//! The curve is that of one LRU cache for all. How much of what an item takes uncompressed a tier
//! has room for is measured, and what one GiB more of it would hold follows from that. How far the
//! real cache is off, because it is no LRU, because items expire, and because it has not filled up
//! yet, is told beside it.

use ::insight::{Event, HALF_LIFE_S, Point, Top, Watcher};

use super::collect::Snapshot;
use crate::insight::Picked;
use crate::sampling::REQUESTS_PER_SAMPLE;
use crate::server::Server;

/// Keys that are counted, by requests and by bytes: who has more than a 256th of either is found.
const TOP_KEYS: usize = 256;

/// What was asked for so many seconds ago counts half among keys: ten minutes, for who looks wants
/// to know who is asking now.
pub const TOP_HALF_LIFE_S: f64 = 600.0;

/// Sizes that the metrics tell of, as parts of the present.
pub const SIZES: [(&str, f64); 7] =
    [("1/8", 0.125), ("1/4", 0.25), ("1/2", 0.5), ("1", 1.0), ("2", 2.0), ("4", 4.0), ("8", 8.0)];

/// Points of the page's curve for each doubling, from a sixteenth to eight times the present.
const POINTS_PER_DOUBLING: i32 = 4;

/// A GiB.
const MORE_BYTES: f64 = (1_u64 << 30) as f64;

/// The share of memory that items get, until so much of it is in use that it can be measured.
const ITEMS_SHARE: f64 = 0.9;

/// Where events were lost, the sample gets narrower than would have sufficed.
const NARROWED: f64 = 0.8;

/// But not by more than this at once.
const SHARE_MIN: f64 = 0.25;

/// Reads below which nothing is said.
const READS_MIN: f64 = 100.0;

/// What the admin thread knows of keys.
pub struct Keys {
    /// Of the sampled ones.
    pub watcher: Watcher,
    /// By requests.
    pub by_requests: Top,
    /// By bytes that were sent.
    pub by_bytes: Top,
    /// Events and keys of requests that were lost.
    pub lost: [u64; 2],
    /// Seconds in which requests were drawn, fading as they do.
    drawn_s: f64,
    /// Reads and hits until they were last looked at.
    before: [u64; 2],
    /// Empty, for lists to change places with.
    events: Vec<Event>,
    picked: Vec<Picked>,
}

/// What each tier has room for, in bytes that items take uncompressed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Room {
    hot: f64,
    compressed: f64,
    flash: f64,
    /// What one byte more of each would hold; none of a tier that there is not.
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
    /// What really misses.
    pub measured: f64,
    /// Reads in a second.
    pub reads_per_second: f64,
}

/// What one GiB more of a tier would bring in each second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct More {
    /// Keys found that are missed now.
    pub hits: f64,
    /// Seconds that the backend would be spared, as far as costs are known.
    pub saved_s: f64,
}

impl Room {
    /// As the server is now.
    fn of(snapshot: &Snapshot) -> Self {
        let memory = snapshot.memory();
        let (items, beside) = (memory.items + memory.chunks_free, memory.index + memory.rest);
        let is_measured = (items + beside) * 4 > memory.free;
        let share = if is_measured { items as f64 / (items + beside) as f64 } else { ITEMS_SHARE };
        let ratio = |(raw, stored): (u64, u64)| {
            if stored == 0 { 1.0 } else { (raw as f64 / stored as f64).max(1.0) }
        };
        let compression = snapshot.compression().map(ratio);
        let flash = snapshot.cache.flash.map(|flash| {
            (
                flash.tier.segments * flash.tier.segment_bytes,
                ratio((flash.tier.raw_bytes, flash.tier.stored_bytes)),
            )
        });
        Self {
            hot: items as f64 + memory.free as f64 * share,
            compressed: memory.compressed as f64 * compression.unwrap_or(1.0),
            flash: flash.map_or(0.0, |(bytes, ratio)| bytes as f64 * ratio),
            per_byte: [Some(share), compression, flash.map(|(_, ratio)| ratio)],
        }
    }

    /// Of so many times the present memory. Flash stays as it is.
    fn bytes(&self, size: f64) -> f64 {
        (self.hot + self.compressed) * size + self.flash
    }
}

impl Keys {
    /// Nothing seen yet.
    pub fn new(server: &Server) -> Self {
        let watcher = Watcher::of_cache(server.options.memory_megabytes << 20);
        server.insight.sample_below(watcher.threshold());
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

    /// Takes what the workers have told, and what they have counted meanwhile.
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
        // What was lost is as if nobody had asked for it.
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

    /// Seconds have passed.
    pub fn tick(&mut self, snapshot: &Snapshot, seconds: f64) {
        self.watcher.set_present(Room::of(snapshot).bytes(1.0));
        self.watcher.pass(seconds);
        let factor = (-seconds / TOP_HALF_LIFE_S).exp2();
        self.by_requests.fade(factor);
        self.by_bytes.fade(factor);
        self.drawn_s = self.drawn_s * factor + seconds;
    }

    /// What the curve says now; nothing while hardly anything was read.
    pub fn outlook(&self, snapshot: &Snapshot) -> Option<Outlook> {
        let curve = self.watcher.curve();
        if curve.reads() < READS_MIN {
            return None;
        }
        let room = Room::of(snapshot);
        Some(Outlook {
            room,
            present: curve.at(room.bytes(1.0))?,
            measured: curve.measured_miss_ratio(),
            reads_per_second: curve.reads_per_second(),
        })
    }

    /// The curve at so many times the present memory.
    pub fn at(&self, outlook: &Outlook, size: f64) -> Point {
        self.watcher.curve().at(outlook.room.bytes(size)).unwrap_or_default()
    }

    /// The page's curve: sizes as parts of the present, and what would miss there.
    pub fn points(&self, outlook: &Outlook) -> Vec<(f64, Point)> {
        let steps = -4 * POINTS_PER_DOUBLING..=3 * POINTS_PER_DOUBLING;
        let size = |step: i32| (f64::from(step) / f64::from(POINTS_PER_DOUBLING)).exp2();
        steps.map(|step| (size(step), self.at(outlook, size(step)))).collect()
    }

    /// What one GiB more of each tier would bring; none of a tier that there is not.
    pub fn more(&self, outlook: &Outlook) -> [Option<More>; 3] {
        let Outlook { room, present, reads_per_second, .. } = outlook;
        room.per_byte.map(|per_byte| {
            let larger = self.watcher.curve().at(room.bytes(1.0) + per_byte? * MORE_BYTES)?;
            let hits = (present.miss_ratio - larger.miss_ratio).max(0.0) * reads_per_second;
            Some(More { hits, saved_s: (present.missed_s - larger.missed_s).max(0.0) })
        })
    }

    /// What a key's weight comes to in a second.
    pub fn per_second(&self, weight: f64) -> f64 {
        weight / self.drawn_s.max(1.0)
    }

    /// Seconds after which what the curve counts weighs half.
    pub fn half_life_s() -> f64 {
        HALF_LIFE_S
    }
}

/// To which part of itself the sample is narrowed when this share of the events has come through,
/// and lists were full or not. An event that met the moment in which this side held its list does
/// not say that there are too many: some do at any rate, so the sample would narrow for ever.
fn narrowing(share: f64, is_full: bool) -> Option<f64> {
    (is_full && share < 1.0).then(|| share.max(SHARE_MIN) * NARROWED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_narrows_for_lists_that_were_full_and_not_for_one_that_was_held() {
        assert_eq!(narrowing(0.999, false), None);
        assert_eq!(narrowing(0.5, false), None, "of two events one met the moment");
        assert_eq!(narrowing(1.0, true), None, "all found room");
        assert_eq!(narrowing(0.5, true), Some(0.4));
        assert_eq!(narrowing(0.01, true), Some(0.2));
    }
}
