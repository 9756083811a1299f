//! `flash beside`: Larder and memcached with extstore in the same memory and on as much flash, in
//! the same file system, one after the other in every round.
//!
//! ```text
//!   fill     every key once, in order, at --fill-rate      more than fits on flash
//!   sample   some keys, drawn evenly: how many are found
//!   load     gets by Zipf's law, missed keys are stored:
//!            warm-up | closed loop | paced | both again while the page cache is dropped
//!   sample   the same keys
//! ```
//!
//! A closed loop measures how many gets a second a server answers, a paced one their latency when
//! both servers have the same load. memcached reads through the kernel's page cache and Larder past
//! it; so the load runs once normally, and once while the cached pages of the tier's file are
//! dropped all the time (`page_cache`).

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::counts::{self, Sampled, TierCounts};
use super::tier::{TierOptions, Tiered};
use super::{beside_report, page_cache};
use crate::failure::{Failure, Outcome};
use crate::load::pace;
use crate::machine::{self, Machine};
use crate::random::Random;
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::recipe::{Kind, Recipe};
use crate::subject::send::{Pace, Phase, send};
use crate::subject::{Subject, SubjectOptions, key_space};
use crate::trace::Operation;
use crate::workload::popularity::{Choice, Chooser};
use crate::workload::skew;

/// Servers with a flash tier, Larder first.
pub const KINDS: [Kind; 2] = [Kind::Larder, Kind::Memcached];
/// Connections that fill a server.
const FILL_CONNECTIONS: usize = 8;
/// The most by which a paced phase may exceed its time, as a factor, before it is cut off: a server
/// that is too slow must not hold up the run for ever.
const LATE_MAX: f64 = 3.0;
/// With `--quick`.
const QUICK_MEMORY_MB: u64 = 16;
const QUICK_FLASH_MB: u64 = 32;
const QUICK_KEY_SPACE: f64 = 2.0;
const QUICK_REQUESTS: u64 = 10_000;
const QUICK_SAMPLE: u64 = 5_000;

/// What to compare, and how long.
#[derive(Debug, Clone, Args)]
pub struct BesideOptions {
    /// The servers to compare.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Larder, Kind::Memcached])]
    pub servers: Vec<Kind>,
    #[command(flatten)]
    pub tier: TierOptions,
    #[command(flatten)]
    pub subject: SubjectOptions,
    /// Bytes of all keys and values, in multiples of the flash (above 0, at most 1000).
    #[arg(long, value_name = "TIMES", default_value_t = 3.0, value_parser = key_space)]
    pub key_space: f64,
    /// Sets per second of the fill, and requests per second of the warm-up. Faster than a server
    /// moves items to flash, it evicts them (`flash burst`).
    #[arg(long, default_value_t = 20_000.0, value_parser = pace::rate)]
    pub fill_rate: f64,
    /// Requests of the warm-up, and the most of each phase.
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: u64,
    /// The most seconds of each phase.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Requests per second of the paced phases.
    #[arg(long, default_value_t = 5_000.0, value_parser = pace::rate)]
    pub rate: f64,
    /// Connections of the load.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub connections: u64,
    /// The exponent of Zipf's law (0 to 10).
    #[arg(long, value_name = "SKEW", default_value_t = 0.99, value_parser = skew)]
    pub zipf: f64,
    /// Keys that are looked up after the fill and at the end.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: u64,
    /// The treatment of the kernel's copies of data on flash.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [PageCache::Kept, PageCache::Dropped])]
    pub page_cache: Vec<PageCache>,
    /// Repetitions of every measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// A small tier, few requests and one round, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    pub report: ReportOptions,
}

/// The treatment of the kernel's copies of data on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageCache {
    /// They stay for as long as there is memory.
    Kept,
    /// They are dropped all the time.
    Dropped,
}

impl PageCache {
    /// In the order of the load's phases.
    const IN_ORDER: [PageCache; 2] = [PageCache::Kept, PageCache::Dropped];
}

/// One server in one round with one kind of values.
#[derive(Debug)]
pub struct Sample {
    /// The values' name.
    pub values: String,
    /// The server's kind.
    pub kind: Kind,
    /// Its command line.
    pub command: String,
    /// The round, from 0.
    pub round: u64,
    /// Keys found after the fill.
    pub filled: Sampled,
    /// Keys found at the end.
    pub ended: Sampled,
    /// Bytes of keys and values sent to be stored before `tier_loaded`.
    pub stored_bytes: f64,
    /// The tier after all requests sent while no pages were dropped: dropping them means writing
    /// them first, a page for each few bytes if need be.
    pub tier_loaded: TierCounts,
    /// The tier after the fill.
    pub tier_filled: TierCounts,
    /// The tier at the end.
    pub tier: TierCounts,
    /// The load's parts.
    pub loads: Vec<Load>,
}

/// A phase of the load.
#[derive(Debug)]
pub struct Load {
    /// The treatment of the kernel's copies.
    pub page_cache: PageCache,
    /// Whether it was sent at a rate.
    pub is_paced: bool,
    /// Its results.
    pub phase: Phase,
    /// Items that the server read from flash during it.
    pub reads: u64,
}

/// Runs the command.
pub fn run(options: &BesideOptions) -> Outcome<()> {
    let mut options = options.clone();
    if options.quick {
        options.rounds = 1;
        options.tier.memory_mb = options.tier.memory_mb.min(QUICK_MEMORY_MB);
        options.tier.flash_mb = options.tier.flash_mb.min(QUICK_FLASH_MB);
        options.key_space = options.key_space.min(QUICK_KEY_SPACE);
        options.requests = options.requests.min(QUICK_REQUESTS);
        options.sample = options.sample.min(QUICK_SAMPLE);
    }
    if options.servers.iter().any(|kind| !KINDS.contains(kind)) {
        return Err(Failure::Usage("only larder and memcached have a flash tier".into()));
    }
    let servers = &options.tier.servers_options;
    let recipes = servers.recipes_of_known(&options.servers)?;
    let subjects = options.subject.subjects(options.key_space * options.tier.flash_bytes())?;
    let machine = Machine::describe().with_sides(&servers.server_cores, &[servers.client_core]);
    machine::pin(servers.client_core)?;
    let progress = report::progress(options.rounds * (subjects.len() * recipes.len()) as u64);
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for subject in &subjects {
            for place in 0..recipes.len() {
                let recipe = &recipes[(place + round as usize) % recipes.len()];
                progress.set_message(format!("{} {}", recipe.name, subject.name));
                samples.push(Course::new(&options, recipe, subject, round)?.run()?);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    let document = beside_report::document(machine, &options, &subjects, &samples);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

/// One server in the course of a round.
struct Course<'c> {
    options: &'c BesideOptions,
    subject: &'c Subject,
    round: u64,
    tiered: Tiered,
    chooser: Chooser,
    random: Random,
    /// Objects sent to be stored.
    stored: u64,
}

/// Fails if a part that everything else depends on was cut off because it took too long: objects
/// that were not stored would count as evicted.
fn all_sent(part: &str, sent: u64, wanted: u64) -> Outcome<()> {
    if sent >= wanted {
        return Ok(());
    }
    let time = format!("{LATE_MAX} times as long as it should take");
    Err(Failure::Check(format!("{part} was given up after {time}: {sent} of {wanted} requests")))
}

impl<'c> Course<'c> {
    fn new(
        options: &'c BesideOptions,
        recipe: &Recipe,
        subject: &'c Subject,
        round: u64,
    ) -> Outcome<Course<'c>> {
        let tiered = options.tier.start(recipe)?;
        let chooser = Choice::Zipfian.load(subject.keys.into(), options.zipf)?;
        let random = Random::new(options.subject.seed + round);
        Ok(Course { options, subject, round, tiered, chooser, random, stored: 0 })
    }

    fn run(mut self) -> Outcome<Sample> {
        self.fill()?;
        let tier_filled = counts::tier(&self.tiered.server, self.subject.key_bytes)?;
        let filled = self.sample()?;
        let warm_up = self.send(Some(self.options.fill_rate), u64::MAX)?;
        all_sent("the warm-up", warm_up.found.counts.gets, self.options.requests)?;
        let mut loads = Vec::new();
        let mut loaded = None;
        for page_cache in PageCache::IN_ORDER {
            if page_cache == PageCache::Dropped {
                let tier = counts::tier(&self.tiered.server, self.subject.key_bytes)?;
                loaded = Some((tier, self.stored as f64 * self.subject.item_bytes));
            }
            for is_paced in [false, true] {
                if self.options.page_cache.contains(&page_cache) {
                    loads.push(self.load(page_cache, is_paced)?);
                }
            }
        }
        let (tier_loaded, stored_bytes) = loaded.expect("dropping is one of them");
        let tier = counts::tier(&self.tiered.server, self.subject.key_bytes)?;
        Ok(Sample {
            values: self.subject.name.clone(),
            kind: self.tiered.server.kind,
            command: self.tiered.server.command_line.clone(),
            round: self.round,
            filled,
            ended: self.sample()?,
            stored_bytes,
            tier_loaded,
            tier_filled,
            tier,
            loads,
        })
    }

    /// Stores every key once.
    fn fill(&mut self) -> Outcome<()> {
        let (subject, keys) = (self.subject, u64::from(self.subject.keys));
        let pace = Pace {
            connections: FILL_CONNECTIONS,
            depth: 1,
            per_second: Some(self.options.fill_rate),
            fills_misses: false,
        };
        let longest = Duration::from_secs_f64(LATE_MAX * keys as f64 / self.options.fill_rate);
        let mut first = 0;
        let phase = send(&self.tiered.server, subject, pace, (keys, longest), |count| {
            let objects = first..first + count as u32;
            first = objects.end;
            subject.trace(objects.map(|object| (Operation::Set, object)))
        })?;
        self.stored += phase.found.counts.others;
        all_sent("the fill", phase.found.counts.others, keys)
    }

    /// Looks up keys that are drawn evenly, the same every time.
    fn sample(&mut self) -> Outcome<Sampled> {
        let (subject, asked) = (self.subject, self.options.sample);
        let mut random = Random::new(!self.options.subject.seed);
        let (per_second, connections) = (None, FILL_CONNECTIONS);
        let pace = Pace { connections, depth: 1, per_second, fills_misses: false };
        let phase = send(&self.tiered.server, subject, pace, (asked, Duration::MAX), |count| {
            let object = |_| (Operation::Get, random.below(subject.keys.into()) as u32);
            subject.trace((0..count).map(object))
        })?;
        let counts = phase.found.counts;
        Ok(Sampled { asked: counts.gets, found: counts.hits })
    }

    fn load(&mut self, page_cache: PageCache, is_paced: bool) -> Outcome<Load> {
        let rate = is_paced.then_some(self.options.rate);
        let before = counts::tier(&self.tiered.server, self.subject.key_bytes)?.reads;
        let phase = match page_cache {
            PageCache::Kept => self.send(rate, self.options.seconds),
            PageCache::Dropped => {
                let path = self.tiered.file.path().to_owned();
                page_cache::without(&path, || self.send(rate, self.options.seconds))
            }
        }?;
        let after = counts::tier(&self.tiered.server, self.subject.key_bytes)?.reads;
        Ok(Load { page_cache, is_paced, phase, reads: after - before })
    }

    /// Sends the next requests of the load.
    fn send(&mut self, per_second: Option<f64>, seconds_max: u64) -> Outcome<Phase> {
        let (subject, chooser, random) = (self.subject, &mut self.chooser, &mut self.random);
        let connections = self.options.connections as usize;
        let pace = Pace { connections, depth: 1, per_second, fills_misses: true };
        let requests = self.options.requests;
        let due = per_second.map_or(f64::MAX, |rate| LATE_MAX * requests as f64 / rate);
        let seconds = due.min(seconds_max as f64).min(1e6);
        let limits = (requests, Duration::from_secs_f64(seconds));
        let phase = send(&self.tiered.server, subject, pace, limits, |count| {
            // Keys are fewer than 2^31: they fit into an object's number.
            let object = |_| (Operation::Get, chooser.read(random) as u32);
            subject.trace((0..count).map(object))
        })?;
        self.stored += phase.found.counts.fills;
        Ok(phase)
    }
}

#[cfg(test)]
mod tests {
    use super::all_sent;

    /// Regression: a server that was too slow to be filled seemed to have evicted items.
    #[test]
    fn a_fill_that_was_cut_off_is_an_error() {
        assert!(all_sent("the fill", 100, 100).is_ok());
        let failure = all_sent("the fill", 40, 100).expect_err("some were not stored");
        assert!(failure.to_string().contains("the fill was given up after 3 times"), "{failure}");
    }
}
