//! Density under a typical cache's load: a zipfian choice among several times as many keys as fit,
//! values of real data, and a set after every miss.
//!
//! ```text
//!   seed -> ranks by Zipf's law -> keys --get, on a miss set--> server, in batches
//!                                   \-> value: the record with the key's number, or made
//! ```
//!
//! Every server gets the same requests in the same memory, and begins empty. At the end its own
//! count of items is divided by the kernel's count of resident memory, as in the other experiment;
//! here the result depends on the server's policy and compression. Nothing is timed. Requests are
//! made batch by batch, so that memory does not limit their number.

use clap::Args;

use super::{GIB, QUICK_POPULAR_MEMORY_MB, popular_report};
use crate::failure::{Failure, Outcome};
use crate::load::{self, Senders, pace};
use crate::machine::{self, Machine};
use crate::random::Random;
use crate::report;
use crate::report::model::Document;
use crate::server::Server;
use crate::server::held::Held;
use crate::server::recipe::{Kind, ServerOptions};
use crate::subject::send::Pace;
use crate::subject::{Subject, SubjectOptions, key_space};
use crate::trace::Operation;
use crate::values::{KEY_BYTES_MAX, KEY_BYTES_MIN, VALUE_BYTES_MAX, ValueChoice};
use crate::workload::popularity::Choice;
use crate::workload::skew;

/// Connections, and requests in flight on each where there is no rate.
pub const CONNECTIONS: usize = 50;
pub const DEPTH: usize = 16;
/// The most requests made and sent at a time: 48 MiB.
const BATCH_REQUESTS_MAX: u64 = 1 << 20;
/// The default number of requests per key: enough to fill memory even with values that compress
/// well.
const REQUESTS_PER_KEY: u64 = 4;
/// The most requests with `--quick`.
const QUICK_REQUESTS: u64 = 500_000;
/// Misses are counted in the last of this many equal parts.
const PARTS: u64 = 5;
/// The seed of the first round; each further round uses the next one.
const SEED: u64 = 1;

/// A load instead of one size of items.
#[derive(Debug, Args)]
pub struct PopularOptions {
    /// Instead of items of one size: a zipfian load over several times as many keys as fit, with
    /// values from FILE or records:FILE (their lengths too), made:RATIO, made:incompressible or
    /// random; several, each in turn.
    #[arg(long, value_name = "CHOICE", value_delimiter = ',', conflicts_with = "sizes")]
    pub values: Vec<ValueChoice>,
    /// With --values: the exponent of Zipf's law (0 to 10).
    #[arg(long, value_name = "SKEW", default_value_t = 0.99, value_parser = skew,
        requires = "values")]
    pub zipf: f64,
    /// With --values: bytes of all keys and values, in multiples of the memory limit (above 0, at
    /// most 1000).
    #[arg(long, value_name = "TIMES", default_value_t = 10.0, value_parser = key_space,
        requires = "values")]
    key_space: f64,
    /// With --values: requests to each server [default: 4 for each key].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
        requires = "values")]
    requests: Option<u64>,
    /// With --values: requests per second [default: as fast as the server answers].
    #[arg(long, value_parser = pace::rate, requires = "values")]
    pub rate: Option<f64>,
    /// With --values: repetitions of everything, each with other requests (1 to 100).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100),
        requires = "values")]
    pub rounds: u64,
    /// With --values: bytes of a value that is not a record.
    #[arg(long, value_name = "BYTES", default_value_t = 300, requires = "values",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BYTES_MAX)))]
    made_bytes: u32,
    /// With --values: bytes of every key (14 to 250).
    #[arg(long, value_name = "BYTES", default_value_t = 24, requires = "values",
        value_parser = clap::value_parser!(u16)
            .range(i64::from(KEY_BYTES_MIN)..=i64::from(KEY_BYTES_MAX)))]
    pub key_bytes: u16,
}

/// Values and their load.
pub struct Load {
    /// The values, and their keys.
    pub subject: Subject,
    /// Number of requests.
    pub requests: u64,
}

/// One server after one round.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The values' name.
    pub values: String,
    /// The server's name.
    pub server: String,
    /// Its command line.
    pub command: String,
    /// The round, from 0.
    pub round: u64,
    /// Its items at the end, by its own count.
    pub items: u64,
    /// Its evictions, by its own count.
    pub evictions: u64,
    /// Its resident memory, by the kernel's count.
    pub resident_bytes: u64,
    /// Gets of the last fifth.
    pub gets: u64,
    /// Those without a value.
    pub misses: u64,
}

impl Sample {
    /// Returns items per GiB of resident memory.
    pub fn items_per_gib(&self) -> f64 {
        self.items as f64 / self.resident_bytes as f64 * GIB
    }
}

/// Runs the experiment.
pub fn run(
    options: &PopularOptions,
    kinds: &[Kind],
    servers: &ServerOptions,
    memory_mb: u64,
    quick: bool,
) -> Outcome<Document> {
    let memory_mb = memory_mb.min(if quick { QUICK_POPULAR_MEMORY_MB } else { u64::MAX });
    let recipes = servers.recipes(kinds)?;
    let loads = Load::all(options, memory_mb, quick)?;
    let machine = Machine::describe().with_sides(&servers.server_cores, &[servers.client_core]);
    machine::pin(servers.client_core)?;
    let sent: u64 = loads.iter().map(|load| load.requests).sum();
    let progress = report::progress(sent * options.rounds * recipes.len() as u64);
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for load in &loads {
            for place in 0..recipes.len() {
                let recipe = &recipes[(place + round as usize) % recipes.len()];
                progress.set_message(format!("{} {}", recipe.name, load.subject.name));
                let server = Server::start(recipe, memory_mb, &servers.server_cores)?;
                let sample =
                    load.measure(options, &server, round, |requests| progress.inc(requests));
                samples.push(sample.map_err(|failure| server.explain(failure))?);
            }
        }
    }
    progress.finish_and_clear();
    Ok(popular_report::document(machine, options, memory_mb, &loads, &recipes, &samples))
}

/// Requests that are sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    requests: u64,
    /// Whether they are in the last part, whose misses are counted.
    is_counted: bool,
}

/// Returns `requests` requests in batches, none of which crosses the border of the last part: a
/// batch that began before it would be counted as a whole or not at all.
fn batches(requests: u64) -> impl Iterator<Item = Batch> {
    let part = requests.div_ceil(PARTS);
    let batch = part.div_ceil(part.div_ceil(BATCH_REQUESTS_MAX).max(1)).max(1);
    let of = move |requests: u64, is_counted| {
        let starts = (0..requests).step_by(batch as usize);
        starts.map(move |start| Batch { requests: batch.min(requests - start), is_counted })
    };
    of(requests - part, false).chain(of(part, true))
}

impl Load {
    /// Returns a load of each kind of values.
    fn all(options: &PopularOptions, memory_mb: u64, quick: bool) -> Outcome<Vec<Load>> {
        let subjects = SubjectOptions {
            values: options.values.clone(),
            made_bytes: options.made_bytes,
            key_bytes: options.key_bytes,
            seed: SEED,
        };
        let subjects = subjects.subjects(options.key_space * (memory_mb << 20) as f64)?;
        let most = if quick { QUICK_REQUESTS } else { u64::MAX };
        let load = |subject: Subject| {
            let requests = options.requests.unwrap_or(u64::from(subject.keys) * REQUESTS_PER_KEY);
            Load { subject, requests: requests.min(most) }
        };
        Ok(subjects.into_iter().map(load).collect())
    }

    /// Sends everything to an empty server, and asks for its contents.
    fn measure(
        &self,
        options: &PopularOptions,
        server: &Server,
        round: u64,
        step: impl Fn(u64),
    ) -> Outcome<Sample> {
        let subject = &self.subject;
        let (connections, depth, per_second) = (CONNECTIONS, DEPTH, options.rate);
        let pace = Pace { connections, depth, per_second, fills_misses: true };
        let mut chooser = Choice::Zipfian.load(subject.keys.into(), options.zipf)?;
        let mut random = Random::new(SEED + round);
        let (mut gets, mut misses) = (0, 0);
        for batch in batches(self.requests) {
            // Keys are fewer than 2^31: they fit into an object's number.
            let object = |_| (Operation::Get, chooser.read(&mut random) as u32);
            let trace = subject.trace((0..batch.requests).map(object));
            let job = pace.job(server, subject, &trace);
            let senders = Senders { deal: job.deal(), ..Senders::here(CONNECTIONS) };
            let found = load::run(&job, server.address, &senders)?;
            found.all_done(&server.name)?;
            if batch.is_counted {
                gets += found.counts.gets;
                misses += found.counts.gets - found.counts.hits;
            }
            step(batch.requests);
        }
        let held = Held::of(server)?;
        let untold = || Failure::Reply(format!("{} does not tell its items", server.name));
        let counts = held.counts.ok_or_else(untold)?;
        Ok(Sample {
            values: subject.name.clone(),
            server: server.name.clone(),
            command: server.command_line.clone(),
            round,
            items: counts.items,
            evictions: counts.evictions,
            resident_bytes: held.resident_bytes,
            gets,
            misses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_REQUESTS_MAX, PARTS, batches};

    /// Regression: of 5,300,000 requests only the last 57,120 were counted, and called a fifth: the
    /// batch across the border was left out as a whole.
    #[test]
    fn exactly_the_last_fifth_is_counted() {
        for requests in [1, 4, 5, 7, 500_000, 3_000_000, 5_300_000, 10_000_000, 12_000_001] {
            let counted = batches(requests).filter(|batch| batch.is_counted);
            let counted: u64 = counted.map(|batch| batch.requests).sum();
            assert_eq!(counted, requests.div_ceil(PARTS), "of {requests}");
            assert_eq!(batches(requests).map(|batch| batch.requests).sum::<u64>(), requests);
            assert!(batches(requests).all(|it| (1..=BATCH_REQUESTS_MAX).contains(&it.requests)));
            assert!(batches(requests).is_sorted_by_key(|batch| batch.is_counted));
        }
    }
}
