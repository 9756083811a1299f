//! A client that reads, and stores missing objects; and its counts.

use ::flash::{Compression, Settings};

use super::log::FifoLog;
use super::tier::{self, Tier};
use crate::failure::{Failure, Outcome};
use crate::paper::Scale;
use crate::paper::data::{Data, draw};
use crate::paper::measure::cpu_seconds;
use crate::report::share;
use crate::workload::popularity::Choice;

/// The exponent of Zipf's law.
pub const SKEW: f64 = 0.99;
/// Keys at a scale of 1, and at least: a device of 6 % has segments enough for a tier.
const KEYS: u64 = 5_000_000;
const KEYS_MIN: usize = 20_000;
/// Reads per key. The first half only warms the cache.
const READS_PER_KEY: usize = 2;

/// A cache on flash.
pub trait Store {
    /// Returns whether the object is there; then `value` becomes its value.
    fn get(&mut self, object: u32, data: &Data, value: &mut Vec<u8>) -> Outcome<bool>;

    /// Stores an object.
    fn set(&mut self, object: u32, data: &Data, value: &[u8]) -> Outcome<()>;

    /// Returns the number of objects that are there.
    fn items(&self) -> usize;

    /// Returns the pages read from the device.
    fn pages_read(&self) -> u64;
}

/// How a cache on flash stores its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The tier, rows compressed together.
    Units,
    /// The tier, each row compressed alone.
    Alone,
    /// The tier without compression.
    Raw,
    /// The uncompressed log.
    Log,
}

impl Kept {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kept::Units => "the tier, units compressed",
            Kept::Alone => "the tier, each item compressed alone",
            Kept::Raw => "the tier without compression",
            Kept::Log => "uncompressed FIFO log",
        }
    }

    /// Returns the tier's settings; the log has none.
    pub fn settings(self, bytes: u64) -> Option<Settings> {
        let settings = tier::settings(bytes);
        match self {
            Kept::Units => Some(settings),
            Kept::Alone => Some(Settings { single_rows: true, ..settings }),
            Kept::Raw => Some(Settings { compression: Compression::Nothing, ..settings }),
            Kept::Log => None,
        }
    }

    /// Returns an empty one in memory.
    pub fn in_memory(self, bytes: u64) -> Outcome<Box<dyn Store>> {
        Ok(match self.settings(bytes) {
            Some(settings) => Box::new(Tier::in_memory(bytes, &settings)?),
            None => Box::new(FifoLog::in_memory(bytes, tier::settings(bytes).segment_bytes)),
        })
    }
}

/// A client's counts and times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub gets: u64,
    pub hits: u64,
    pub stores: u64,
    /// Pages read from the device.
    pub pages: u64,
    pub get_cpu: Sampled,
    /// Including the background's work.
    pub store_cpu: Sampled,
}

/// CPU time of calls, or of some of them: reading the clock takes as long as a short call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sampled {
    calls: u64,
    timed: u64,
    seconds: f64,
}

/// One get in this many is timed. All stores are: now and then one has much of the background's
/// work.
const TIMED_GETS: u64 = 7;

impl Sampled {
    /// Makes a call, and times one call in `timed_share`.
    pub fn take<T>(&mut self, timed_share: u64, call: impl FnOnce() -> T) -> T {
        self.calls += 1;
        if !self.calls.is_multiple_of(timed_share) {
            return call();
        }
        let before = cpu_seconds();
        let found = call();
        self.seconds += cpu_seconds() - before;
        self.timed += 1;
        found
    }

    /// Returns the CPU microseconds of a call.
    pub fn mean_us(&self) -> f64 {
        1e6 * share(self.seconds, self.timed as f64)
    }
}

impl Counts {
    /// Returns hits in percent of the gets.
    pub fn hit_percent(&self) -> f64 {
        100.0 * share(self.hits as f64, self.gets as f64)
    }

    /// Returns the pages read per hit.
    pub fn pages_per_hit(&self) -> f64 {
        share(self.pages as f64, self.hits as f64)
    }

    /// Returns the CPU microseconds of a get, hit or not.
    pub fn us_per_get(&self) -> f64 {
        self.get_cpu.mean_us()
    }

    /// Returns the CPU microseconds of a store, including the background's work.
    pub fn us_per_store(&self) -> f64 {
        self.store_cpu.mean_us()
    }
}

/// A client of one cache.
pub struct Client<'s> {
    store: &'s mut dyn Store,
    data: &'s Data,
    value: Vec<u8>,
    wanted: Vec<u8>,
}

impl<'s> Client<'s> {
    /// Returns a client of a cache that holds these data.
    pub fn new(store: &'s mut dyn Store, data: &'s Data) -> Client<'s> {
        Client { store, data, value: Vec::new(), wanted: Vec::new() }
    }

    /// Reads these objects and stores missing ones; every found value is compared.
    pub fn run(&mut self, objects: impl IntoIterator<Item = u32>) -> Outcome<Counts> {
        let (mut counts, pages) = (Counts::default(), self.store.pages_read());
        for object in objects {
            self.get(object, &mut counts)?;
        }
        Ok(Counts { pages: self.store.pages_read() - pages, ..counts })
    }

    /// Stores an object, whether present or not.
    pub fn set(&mut self, object: u32, counts: &mut Counts) -> Outcome<()> {
        self.data.write_value(object, &mut self.wanted);
        self.store_wanted(object, counts)
    }

    /// Reads an object, and stores it if it is missing.
    pub fn get(&mut self, object: u32, counts: &mut Counts) -> Outcome<()> {
        let Client { store, data, value, .. } = self;
        let is_hit = counts.get_cpu.take(TIMED_GETS, || store.get(object, data, value))?;
        counts.gets += 1;
        self.data.write_value(object, &mut self.wanted);
        if !is_hit {
            return self.store_wanted(object, counts);
        }
        counts.hits += 1;
        if self.value != self.wanted {
            return Err(Failure::Check(format!("object {object} has another value")));
        }
        Ok(())
    }

    fn store_wanted(&mut self, object: u32, counts: &mut Counts) -> Outcome<()> {
        let Client { store, data, wanted, .. } = self;
        counts.store_cpu.take(1, || store.set(object, data, wanted))?;
        counts.stores += 1;
        Ok(())
    }
}

/// Returns as many objects, with such values, as the scale says.
pub fn load(scale: &Scale) -> Outcome<Data> {
    Data::of(scale.items(KEYS).max(KEYS_MIN) as u32, scale.values.clone(), scale.seed)
}

/// Returns the reads of a run that warms a cache and then counts.
pub fn reads(choice: &Choice, data: &Data, seed: u64) -> Outcome<Vec<u32>> {
    draw(choice, SKEW, data.keys, READS_PER_KEY * data.keys as usize, seed)
}

/// Returns a share of all keys and values in bytes, as the size of a device.
pub fn device_bytes(data: &Data, percent: u64) -> u64 {
    data.bytes() * percent / 100
}

/// Returns the counts of the second half of these reads.
pub fn settled(store: &mut dyn Store, data: &Data, objects: &[u32]) -> Outcome<Counts> {
    let (warm, counted) = objects.split_at(objects.len() / 2);
    let mut client = Client::new(store, data);
    client.run(warm.iter().copied())?;
    client.run(counted.iter().copied())
}
