//! What requests take, by a sample: about one in 256 is timed, where `--admin-port` asks for it.
//!
//! ```text
//! worker   begin -> execute -> end -> a list under a lock that is only tried
//! admin    once a second, and when somebody asks: takes the lists, fills histograms
//! ```
//!
//! The time is that of serving: from when the request begins to be executed, among those that came
//! with it, until its reply is ready to be written. Network, parsing and the wait behind others are
//! not in it; a read from flash is. A request that has to be executed again for another reason, or
//! whose value arrives in pieces, gives no sample.
//!
//! The distance between two samples is drawn anew each time, so that clients whose requests come
//! in a rhythm are not always caught at the same beat. A worker never waits for the list: if the
//! other side holds it, or it is full, the sample is lost and counted.
//!
//! [`Turner`](crate::turn::Turner) is compiled for each [`Sampling`], so that [`Unsampled`] leaves
//! no trace in it. What only it calls for each request or batch, and so was inlined when there was
//! one of it, says so (`inline(always)`): otherwise some ten instructions of calls come back.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use ::io::moment::Stopwatch;
use larder::Session;
use protocol::Request;
use stdx::CachePadded;
use stdx::random::Xorshift;
use stdx::sync::lock;

use crate::commands::{Again, Flow, Outcome};
use crate::counters::Counters;
use crate::plan::Action;

/// Requests for each sample, on average; a power of two.
pub const REQUESTS_PER_SAMPLE: u32 = 256;

/// Samples that a worker keeps until they are taken, which is once a second: enough for four
/// million requests a second.
const SAMPLES_MAX: usize = 16 << 10;

/// Sampled requests of a worker that wait for flash at the same time.
const WAITING_MAX: usize = 64;

/// What kind of request was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// One key was asked for.
    Get,
    /// Several keys were.
    Multiget,
    /// `set` and all else that brings a value.
    Store,
    /// `delete`.
    Delete,
    /// `touch`.
    Touch,
    /// `incr` and `decr`.
    Arithmetic,
}

/// Where the answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The key was found, uncompressed.
    Hot,
    /// It was read from the compressed zone.
    Compressed,
    /// It was read from flash.
    Flash,
    /// There is none.
    Miss,
    /// It does not matter, or differs by key.
    Any,
}

/// The kinds of requests, and where their answers may come from.
pub const SERIES: [(Command, Tier); 9] = [
    (Command::Get, Tier::Hot),
    (Command::Get, Tier::Compressed),
    (Command::Get, Tier::Flash),
    (Command::Get, Tier::Miss),
    (Command::Multiget, Tier::Any),
    (Command::Store, Tier::Any),
    (Command::Delete, Tier::Any),
    (Command::Touch, Tier::Any),
    (Command::Arithmetic, Tier::Any),
];

impl Command {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Multiget => "multiget",
            Self::Store => "store",
            Self::Delete => "delete",
            Self::Touch => "touch",
            Self::Arithmetic => "arithmetic",
        }
    }

    /// What a step is; nothing if it is not sampled.
    fn of(action: &Action<'_>) -> Option<Self> {
        let Action::Request(request) = action else { return None };
        match request {
            Request::Get(_) | Request::MetaGet(_) => Some(Self::Get),
            Request::Store(_) | Request::MetaSet(_) => Some(Self::Store),
            Request::Delete { .. } | Request::MetaDelete(_) => Some(Self::Delete),
            Request::Touch { .. } => Some(Self::Touch),
            Request::Arithmetic { .. } | Request::MetaArithmetic(_) => Some(Self::Arithmetic),
            _ => None,
        }
    }
}

impl Tier {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Compressed => "compressed",
            Self::Flash => "flash",
            Self::Miss => "miss",
            Self::Any => "any",
        }
    }
}

/// One request that was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its place in [`SERIES`].
    pub series: u8,
    /// Nanoseconds; what takes longer than four seconds counts as that.
    pub ns: u32,
}

/// A worker's samples that nobody has taken yet.
#[derive(Debug, Default)]
pub struct SampleList {
    list: Mutex<Vec<Sample>>,
    lost: AtomicU64,
}

/// The lists of all workers; none if nobody asks.
#[derive(Debug)]
pub struct Samples(Box<[CachePadded<SampleList>]>);

impl Samples {
    /// Lists for so many workers.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| CachePadded::default()).collect())
    }

    /// A worker's own, if latencies are asked for.
    pub fn of(&self, worker: usize) -> Option<&SampleList> {
        self.0.get(worker).map(|list| &**list)
    }

    /// Gives all that is there to `take`, and says how many were lost so far. Lists change places
    /// with the empty `spare`, so that nobody waits for a copy, and workers hardly ever allocate.
    pub fn take(&self, spare: &mut Vec<Sample>, mut take: impl FnMut(Sample)) -> u64 {
        let mut lost = 0;
        for samples in &self.0 {
            std::mem::swap(&mut *lock(&samples.list), spare);
            spare.drain(..).for_each(&mut take);
            lost += samples.lost.load(Ordering::Relaxed);
        }
        lost
    }
}

impl SampleList {
    fn add(&self, sample: Sample) {
        match self.list.try_lock() {
            Ok(mut list) if list.len() < SAMPLES_MAX => list.push(sample),
            _ => _ = self.lost.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// What times requests, or does not.
pub trait Sampling {
    /// What is known of a request that is being timed.
    type Begun;

    /// Before a step is executed.
    fn begin(
        &mut self,
        action: &Action<'_>,
        session: &Session<'_>,
        counters: &Counters,
    ) -> Self::Begun;

    /// After it.
    fn end(
        &mut self,
        begun: Self::Begun,
        outcome: &Outcome<'_>,
        session: &Session<'_>,
        counters: &Counters,
        serial: u64,
    );

    /// What the connection waited for has come from flash; its request is next.
    fn resume(&mut self, serial: u64);
}

/// Times nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unsampled;

impl Sampling for Unsampled {
    type Begun = ();

    #[inline(always)]
    fn begin(&mut self, _: &Action<'_>, _: &Session<'_>, _: &Counters) {}

    #[inline(always)]
    fn end(&mut self, (): (), _: &Outcome<'_>, _: &Session<'_>, _: &Counters, _: u64) {}

    #[inline(always)]
    fn resume(&mut self, _: u64) {}
}

/// Times one request in [`REQUESTS_PER_SAMPLE`].
#[derive(Debug)]
pub struct Sampler<'c> {
    samples: &'c SampleList,
    random: Xorshift,
    /// Requests until the next that is timed.
    countdown: u32,
    /// Connections whose sampled request waits for flash, by their serial number, and since when.
    waiting: VecDeque<(u64, Stopwatch)>,
    /// When the request that is next began, if it has waited for flash.
    resumed: Option<Stopwatch>,
}

/// A request that is being timed.
#[derive(Debug)]
pub struct Begun {
    command: Command,
    clock: Stopwatch,
    has_waited: bool,
    keys: u64,
    hits: u64,
    lower_bytes: usize,
}

impl<'c> Sampler<'c> {
    /// For a worker's list.
    pub fn new(samples: &'c SampleList, worker: usize) -> Self {
        let random = Xorshift::seeded(worker as u64 + 1);
        let (waiting, resumed) = (VecDeque::with_capacity(WAITING_MAX), None);
        Self { samples, random, countdown: REQUESTS_PER_SAMPLE, waiting, resumed }
    }

    #[cold]
    fn take(
        &mut self,
        action: &Action<'_>,
        session: &Session<'_>,
        counters: &Counters,
    ) -> Option<Begun> {
        let half = REQUESTS_PER_SAMPLE / 2;
        self.countdown = half + (self.random.draw() as u32) % REQUESTS_PER_SAMPLE;
        let resumed = self.resumed.take();
        Some(Begun {
            command: Command::of(action)?,
            has_waited: resumed.is_some(),
            keys: keys(counters),
            hits: hits(counters),
            lower_bytes: session.lower_bytes(),
            clock: resumed.unwrap_or_else(Stopwatch::start),
        })
    }

    #[cold]
    fn settle(
        &mut self,
        begun: &Begun,
        outcome: &Outcome<'_>,
        session: &Session<'_>,
        counters: &Counters,
        serial: u64,
    ) {
        match outcome {
            Ok(Flow::Next) => {}
            Err(Again::Fetch) => {
                if self.waiting.len() == WAITING_MAX {
                    self.waiting.pop_front();
                }
                self.waiting.push_back((serial, begun.clock));
                return;
            }
            _ => return,
        }
        let ns = begun.clock.elapsed().as_nanos();
        let is_hit = hits(counters) > begun.hits;
        let series = match begun.command {
            Command::Get if keys(counters) - begun.keys != 1 => (Command::Multiget, Tier::Any),
            Command::Get if !is_hit => (Command::Get, Tier::Miss),
            Command::Get if begun.has_waited => (Command::Get, Tier::Flash),
            Command::Get if session.lower_bytes() != begun.lower_bytes => {
                (Command::Get, Tier::Compressed)
            }
            Command::Get => (Command::Get, Tier::Hot),
            other => (other, Tier::Any),
        };
        let place = SERIES.iter().position(|known| *known == series);
        let series = place.expect("every kind of request has its series") as u8;
        self.samples.add(Sample { series, ns: u32::try_from(ns).unwrap_or(u32::MAX) });
    }
}

/// Keys that a worker was asked for.
fn keys(counters: &Counters) -> u64 {
    counters.cmd_get.get() + counters.cmd_touch.get()
}

/// Keys that it found.
fn hits(counters: &Counters) -> u64 {
    counters.get_hits.get() + counters.touch_hits.get()
}

impl Sampling for Sampler<'_> {
    type Begun = Option<Begun>;

    #[inline]
    fn begin(
        &mut self,
        action: &Action<'_>,
        session: &Session<'_>,
        counters: &Counters,
    ) -> Option<Begun> {
        self.countdown -= 1;
        if self.countdown > 0 { None } else { self.take(action, session, counters) }
    }

    #[inline]
    fn end(
        &mut self,
        begun: Option<Begun>,
        outcome: &Outcome<'_>,
        session: &Session<'_>,
        counters: &Counters,
        serial: u64,
    ) {
        if let Some(begun) = begun {
            self.settle(&begun, outcome, session, counters, serial);
        }
    }

    fn resume(&mut self, serial: u64) {
        self.resumed = None;
        if let Some(place) = self.waiting.iter().position(|(waiting, _)| *waiting == serial) {
            self.resumed = self.waiting.remove(place).map(|(_, began)| began);
            self.countdown = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_loses_samples_and_counts_them() {
        let samples = Samples::new(1);
        let list = samples.of(0).expect("there is one worker");
        for ns in 0..SAMPLES_MAX as u32 + 3 {
            list.add(Sample { series: 0, ns });
        }
        let (mut spare, mut taken) = (Vec::new(), Vec::new());
        assert_eq!(samples.take(&mut spare, |sample| taken.push(sample.ns)), 3);
        assert_eq!(taken, (0..SAMPLES_MAX as u32).collect::<Vec<_>>());
        list.add(Sample { series: 1, ns: 7 });
        let held = lock(&list.list);
        list.add(Sample { series: 1, ns: 8 });
        drop(held);
        taken.clear();
        assert_eq!(samples.take(&mut spare, |sample| taken.push(sample.ns)), 4);
        assert_eq!(taken, [7], "a worker does not wait for the list");
        assert!(Samples::new(0).of(0).is_none());
    }
}
