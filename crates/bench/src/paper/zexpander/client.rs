//! The engine as these experiments use it: with the hot zone alone or with both, and a client that
//! reads and stores missing objects.
//!
//! ```text
//!   Zones --cache--> larder::Cache --Client--> Counts      the background in step: misses
//!                                  --maintained--> ...     the background in a thread: time
//! ```
//!
//! Items are demoted into the compressed zone in the background only, which by the engine's clock
//! may take three quarters of a free processor, and a quarter of a contended one. A run that counts
//! misses makes requests as fast as it can, whereas a server waits for them: so its clock is held,
//! which lifts that limit, and after every few stores the background does all pending work. The
//! price rule then ignores the time of compression: misses and hits alone decide. Where requests a
//! second are measured, the clock is released. CPU time is that of the thread, with the
//! background's share reported separately.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io::{Clock, SystemClock};
use larder::{Cache, Expiry, HOT_SLABS_MIN, Policy, Stats};
use policy::split::HOT_SHARE_MIN;

use super::data::Data;
use crate::failure::{Failure, Outcome};
use crate::paper::measure::cpu_seconds;

/// The share of hits that zExpander's rule keeps in the hot zone by default.
pub const TARGET: f64 = 0.9;
/// Stores between two turns of the background, where it keeps step.
const STORES_PER_TURN: u64 = 16;
/// One request in this many is a store, while a cache settles under reads that all hit: it moves
/// memory between its zones by the events of a number of stores.
const GETS_PER_SET: usize = 20;

/// The machine's clock, which stands still until it is released.
pub struct HeldClock {
    machine: SystemClock,
    held: Moment,
    is_held: AtomicBool,
}

/// The time of a held clock. By it, threads have not run at all.
struct Moment {
    unix_seconds: u32,
    unix_ms: u64,
    wall_ms: u64,
    monotonic_us: u64,
}

impl HeldClock {
    /// Returns a clock held at the present.
    pub fn new() -> Arc<HeldClock> {
        let machine = SystemClock::new();
        let held = Moment {
            unix_seconds: machine.unix_seconds(),
            unix_ms: machine.unix_ms(),
            wall_ms: machine.wall_ms(),
            monotonic_us: machine.monotonic_us(),
        };
        Arc::new(HeldClock { machine, held, is_held: AtomicBool::new(true) })
    }

    /// Releases the clock, which continues with the machine's.
    pub fn let_go(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }

    /// Returns the held time, or the machine's.
    fn say<T>(&self, held: T, machine: impl FnOnce(&SystemClock) -> T) -> T {
        if self.is_held.load(Ordering::Relaxed) { held } else { machine(&self.machine) }
    }
}

/// Every method is forwarded: the trait's default methods would make another clock than the
/// server's, by which a thread that waits for a processor seems to run.
impl Clock for HeldClock {
    fn unix_seconds(&self) -> u32 {
        self.say(self.held.unix_seconds, Clock::unix_seconds)
    }

    fn unix_ms(&self) -> u64 {
        self.say(self.held.unix_ms, Clock::unix_ms)
    }

    fn wall_ms(&self) -> u64 {
        self.say(self.held.wall_ms, Clock::wall_ms)
    }

    fn monotonic_us(&self) -> u64 {
        self.say(self.held.monotonic_us, Clock::monotonic_us)
    }

    fn thread_cpu_us(&self) -> u64 {
        self.say(0, Clock::thread_cpu_us)
    }
}

/// The zones of a cache, and the rule by which they share the memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Zones {
    /// The hot zone alone.
    Hot,
    /// Both; the costs of hits and misses decide.
    Price,
    /// Both; this share of the hits is to be served hot.
    Target(f64),
}

impl Zones {
    /// Returns its name.
    pub fn name(self) -> String {
        match self {
            Zones::Hot => "hot zone alone".into(),
            Zones::Price => "both zones, by price".into(),
            Zones::Target(share) => format!("both zones, target {share}"),
        }
    }

    /// Returns an empty cache with this memory limit, whose clock is held for good.
    pub fn cache(self, memory: u64) -> Outcome<Cache> {
        self.cache_by(memory, &HeldClock::new())
    }

    /// Returns an empty cache with this memory limit and clock.
    pub fn cache_by(self, memory: u64, clock: &Arc<HeldClock>) -> Outcome<Cache> {
        let builder = Cache::builder().memory_bytes(memory as usize).policy(Policy::Clock);
        let builder = match self {
            Zones::Hot => builder,
            Zones::Price => builder.compress(true),
            Zones::Target(share) => builder.compress(true).hot_target(share),
        };
        let doing = || format!("building a cache of {memory} bytes");
        let cache = builder.clock(Arc::clone(clock) as Arc<dyn Clock>).build();
        let cache = cache.map_err(|error| Failure::invalid(doing(), error.to_string()))?;
        let stats = cache.stats();
        if stats.limit_bytes > memory || stats.compressed.is_some() != (self != Zones::Hot) {
            return Err(Failure::invalid(doing(), "that is too little for its zones"));
        }
        Ok(cache)
    }
}

/// A client that reads, stores missing objects, and lets the background keep step.
pub struct Client<'c> {
    cache: &'c Cache,
    data: &'c Data,
    key: Vec<u8>,
    value: Vec<u8>,
    stores: u64,
    background_s: f64,
}

impl<'c> Client<'c> {
    /// Returns a client of a cache whose clock is held.
    pub fn new(cache: &'c Cache, data: &'c Data) -> Client<'c> {
        Client { cache, data, key: Vec::new(), value: Vec::new(), stores: 0, background_s: 0.0 }
    }

    /// Reads these objects and stores missing ones; every found value is compared.
    pub fn run(&mut self, objects: impl IntoIterator<Item = u32>) -> Outcome<Counts> {
        let (before, background_s, cpu_s) = (self.cache.stats(), self.background_s, cpu_seconds());
        let (mut gets, mut misses) = (0, 0);
        for object in objects {
            gets += 1;
            misses += u64::from(!self.read(object)?);
        }
        let (all_s, background_s) = (cpu_seconds() - cpu_s, self.background_s - background_s);
        let after = self.cache.stats();
        let [below, below_before] = [&after, &before].map(|it| it.compressed.unwrap_or_default());
        let compressed_hits = below.hits - below_before.hits;
        Ok(Counts {
            gets,
            misses,
            compressed_hits,
            demoted: below.demoted - below_before.demoted,
            foreground_s: all_s - background_s,
            background_s,
            items: after.items,
            compressed_share: compressed_share(&after),
        })
    }

    /// Reads all objects, and then lets the cache settle under reads and stores of these.
    pub fn settle(&mut self, objects: &[u32]) -> Outcome<()> {
        self.run(self.data.all())?;
        for batch in objects.chunks(GETS_PER_SET) {
            let (last, reads) = batch.split_last().expect("a chunk is not empty");
            self.run(reads.iter().copied())?;
            self.write(*last);
        }
        Ok(())
    }

    fn write(&mut self, object: u32) {
        self.data.write_key(object, &mut self.key);
        self.data.write_value(object, &mut self.value);
        self.store();
    }

    /// Reads an object; returns whether it was there.
    fn read(&mut self, object: u32) -> Outcome<bool> {
        self.data.write_key(object, &mut self.key);
        self.data.write_value(object, &mut self.value);
        {
            let session = self.cache.session();
            if let Some(item) = session.get(&self.key, self.cache.hash(&self.key)) {
                let is_right = match item.contiguous() {
                    Some(value) => value == self.value,
                    None => item.to_vec() == self.value,
                };
                return match is_right {
                    true => Ok(true),
                    false => Err(Failure::Check("a hit returned another value".into())),
                };
            }
        }
        self.store();
        Ok(false)
    }

    /// Stores the object that was written last; the background keeps step.
    fn store(&mut self) {
        // A refusal leaves the value out, as the next read finds.
        let _ = self.cache.set(&self.key, &self.value, Expiry::NEVER);
        self.stores += 1;
        if self.stores.is_multiple_of(STORES_PER_TURN) {
            let before = cpu_seconds();
            while self.cache.maintain() {}
            self.background_s += cpu_seconds() - before;
        }
    }
}

/// Describes the hot zone's least share of the memory, for a report.
pub fn hot_at_least() -> String {
    let percent = 100.0 * HOT_SHARE_MIN;
    format!("{percent:.0} % of the memory and {HOT_SLABS_MIN} slabs at least")
}

/// Returns the compressed zone's share of the memory at most.
pub fn compressed_share(stats: &Stats) -> f64 {
    let below = stats.compressed.unwrap_or_default();
    let bytes = (below.budget_slabs * below.zone.space.slab_bytes) as f64;
    bytes / stats.limit_bytes as f64
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Reads.
    pub gets: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Reads that the compressed zone served.
    pub compressed_hits: u64,
    /// Items demoted.
    pub demoted: u64,
    /// CPU seconds of the requests, making and comparing values included.
    pub foreground_s: f64,
    /// CPU seconds of the background.
    pub background_s: f64,
    /// Items at the end.
    pub items: u64,
    /// The compressed zone's share of the memory at the end.
    pub compressed_share: f64,
}

impl Counts {
    /// Returns misses in percent of the reads.
    pub fn misses_percent(&self) -> f64 {
        100.0 * self.misses as f64 / self.gets.max(1) as f64
    }

    /// Returns hits served by the hot zone, in percent of the hits.
    pub fn hot_percent(&self) -> f64 {
        let hits = self.gets - self.misses;
        100.0 - 100.0 * self.compressed_hits as f64 / hits.max(1) as f64
    }

    /// Returns the CPU microseconds of a read: of the requests, and of the background.
    pub fn us_per_get(&self) -> [f64; 2] {
        [self.foreground_s, self.background_s].map(|s| s * 1e6 / self.gets.max(1) as f64)
    }

    /// Returns how many fewer misses there are than others, in percent.
    pub fn fewer_than(&self, others_percent: f64) -> f64 {
        100.0 - 100.0 * self.misses_percent() / others_percent
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Counts, HeldClock, Zones};
    use crate::paper::zexpander::data::Data;
    use io::Clock;
    use std::time::Duration;

    const MEMORY: u64 = 10 << 20;

    #[test]
    fn demoted_items_are_served_compressed() {
        let data = Data::of(30_000, None, 1).expect("no file is needed");
        let hits = |zones: Zones| {
            let cache = zones.cache(MEMORY).expect("enough for both zones");
            let mut client = Client::new(&cache, &data);
            client.run(data.all()).expect("every value is right");
            client.run(data.all()).expect("every value is right")
        };
        let (hot, both) = (hits(Zones::Hot), hits(Zones::Price));
        assert_eq!((hot.compressed_hits, hot.demoted, hot.background_s < 1.0), (0, 0, true));
        assert!(both.compressed_hits > 0 && both.demoted > 0, "{both:?}");
        assert!(both.misses * 10 < hot.misses * 7, "{both:?} beside {hot:?}");
        assert!(both.items > hot.items * 3 / 2, "{both:?} beside {hot:?}");
    }

    #[test]
    fn too_little_memory_for_both_zones_is_refused() {
        assert!(Zones::Price.cache(4 << 20).is_err());
        assert!(Zones::Hot.cache(4 << 20).is_ok());
    }

    #[test]
    fn shares_are_of_what_they_say() {
        let counts = Counts { gets: 200, misses: 100, compressed_hits: 25, ..Counts::default() };
        assert_eq!((counts.misses_percent(), counts.hot_percent()), (50.0, 75.0));
        assert_eq!(counts.fewer_than(80.0), 37.5);
        assert_eq!(Counts::default().hot_percent(), 100.0);
    }

    #[test]
    fn a_clock_moves_when_it_is_let_go() {
        let clock = HeldClock::new();
        let held_us = clock.monotonic_us();
        while clock.machine.monotonic_us() == held_us {}
        assert_eq!(clock.monotonic_us(), held_us);
        clock.let_go();
        assert!(clock.monotonic_us() > held_us);
    }

    /// Regression: by a clock without a thread's CPU time the background took its wait for a
    /// processor for work, and never noticed that others wanted the processor.
    #[test]
    fn a_thread_that_sleeps_does_not_run_by_a_clock_that_is_let_go() {
        let clock = HeldClock::new();
        assert_eq!(clock.thread_cpu_us(), 0, "nothing has run by a clock that stands");
        clock.let_go();
        let (cpu_us, wall_us) = (clock.thread_cpu_us(), clock.monotonic_us());
        std::thread::sleep(Duration::from_millis(50));
        let (cpu_us, wall_us) = (clock.thread_cpu_us() - cpu_us, clock.monotonic_us() - wall_us);
        assert!(wall_us >= 50_000 && cpu_us < wall_us / 2, "{cpu_us} us of {wall_us}");
        // The trait would count milliseconds by whole seconds.
        let machine_ms = clock.machine.unix_ms();
        assert!((machine_ms..machine_ms + 1000).contains(&clock.unix_ms()));
    }
}
