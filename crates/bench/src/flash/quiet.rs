//! `flash quiet`: the latency of gets of a hot key while others make the tier read and collect.
//!
//! One connection, the *probe*, reads a few hot keys at a steady rate. In every round it does so
//!
//! ```text
//!   server      other connections
//!   flash       idle
//!   flash       new keys stored and read, and cold keys read     -> flash reads, writes, collects
//!   memory      idle                                             no flash tier
//!   memory      the same requests over few keys                  -> the same work without flash
//! ```
//!
//! in an order that rotates. Requests of others make the probe wait on any server, so the two
//! loaded phases are compared with each other: the same rate, the same values, the same share of
//! sets. Both servers have the same memory limit and core; the idle one costs nothing.
//!
//! A full flash does not collect yet: items that the fill left in memory, and that were read there,
//! stay for long. So the load is sent to the server with a tier, unmeasured, until it collects
//! continuously.
//!
//! Probe and load are sent by one thread (`load::run_together`), which never sleeps while a request
//! is nearly due, and the servers' core is kept awake. Latency counts from the time a request was
//! due.

use std::time::Duration;

use clap::Args;

use super::counts::{self, OwnCounts};
use super::quiet_report;
use super::tier::TierOptions;
use crate::failure::{Failure, Outcome};
use crate::load;
use crate::load::found::Found;
use crate::load::pace;
use crate::machine::{self, Awake, Machine};
use crate::random::Random;
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::Server;
use crate::server::recipe::LarderOptions;
use crate::server::usage::CpuTime;
use crate::subject::send::{Pace, send};
use crate::subject::{Subject, SubjectOptions, key_space};
use crate::trace::Operation;
use crate::trace::copies::Copies;

/// Connections that fill a server.
const FILL_CONNECTIONS: usize = 8;
/// The part of the memory that the load's requests use in the server without flash.
const MEMORY_SHARE: f64 = 1.0 / 8.0;
/// Requests of a cycle of the load: one new key stored, the same read, and two cold ones read.
const ROUND: u32 = 4;
/// Requests of a part of the warm-up, per item that the memory may hold.
const WARM_UP_PART: f64 = 0.25;
/// The warm-up ends when segments were collected in this many consecutive parts,
const WARM_UP_PARTS_GOOD: u32 = 3;
/// or after this many parts in any case.
const WARM_UP_PARTS_MAX: u32 = 48;
/// With `--quick`.
const QUICK_MEMORY_MB: u64 = 16;
const QUICK_FLASH_MB: u64 = 32;
const QUICK_ROUNDS: u64 = 4;
const QUICK_SECONDS: f64 = 0.5;

/// The requests, and their rates.
#[derive(Debug, Clone, Args)]
pub struct QuietOptions {
    #[command(flatten)]
    pub tier: TierOptions<LarderOptions>,
    #[command(flatten)]
    pub subject: SubjectOptions,
    /// Bytes of all keys and values, in multiples of the flash (above 0, at most 1000).
    #[arg(long, value_name = "TIMES", default_value_t = 3.0, value_parser = key_space)]
    pub key_space: f64,
    /// Sets per second of the fill.
    #[arg(long, default_value_t = 20_000.0, value_parser = pace::rate)]
    pub fill_rate: f64,
    /// Hot keys.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub hot_keys: u32,
    /// Gets per second of the probe.
    #[arg(long, default_value_t = 2_000.0, value_parser = pace::rate)]
    pub probe_rate: f64,
    /// Requests per second of the load, a quarter of them sets.
    #[arg(long, default_value_t = 8_000.0, value_parser = pace::rate)]
    pub rate: f64,
    /// Connections of the load.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub connections: u64,
    /// Seconds of each phase.
    #[arg(long, default_value_t = 5.0, value_parser = pace::rate)]
    pub seconds: f64,
    /// Repetitions of every measurement.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// A small tier and few short rounds, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    pub report: ReportOptions,
}

/// The activity of the other connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// None, beside a full tier.
    FlashIdle,
    /// They make the tier read, write and collect.
    FlashBusy,
    /// None, without a tier.
    MemoryIdle,
    /// The same requests, which all find their keys in memory.
    MemoryBusy,
}

impl Situation {
    /// All of them, in the order of the first round.
    pub const ALL: [Situation; 4] =
        [Situation::FlashIdle, Situation::FlashBusy, Situation::MemoryIdle, Situation::MemoryBusy];

    fn is_busy(self) -> bool {
        matches!(self, Situation::FlashBusy | Situation::MemoryBusy)
    }

    fn has_flash(self) -> bool {
        matches!(self, Situation::FlashIdle | Situation::FlashBusy)
    }
}

/// One situation in one round.
#[derive(Debug)]
pub struct Sample {
    /// The activity of the others.
    pub situation: Situation,
    /// The round, from 0.
    pub round: u64,
    /// The results of the probe.
    pub probe: Found,
    /// The results of the others; `None` if they were idle.
    pub load: Option<Found>,
    /// Share of the time that the server ran.
    pub server_busy: f64,
    /// The tier before and after, if there is one.
    pub tier: Option<(OwnCounts, OwnCounts)>,
}

/// Runs the command.
pub fn run(options: &QuietOptions) -> Outcome<()> {
    let mut options = options.clone();
    if options.quick {
        options.tier.memory_mb = options.tier.memory_mb.min(QUICK_MEMORY_MB);
        options.tier.flash_mb = options.tier.flash_mb.min(QUICK_FLASH_MB);
        options.rounds = options.rounds.min(QUICK_ROUNDS);
        options.seconds = options.seconds.min(QUICK_SECONDS);
    }
    let servers = &options.tier.servers_options;
    let recipe = servers.recipe()?;
    let mut subjects = options.subject.subjects(options.key_space * options.tier.flash_bytes())?;
    let (Some(subject), true) = (subjects.pop(), subjects.is_empty()) else {
        return Err(Failure::Usage("quiet takes one kind of --values".into()));
    };
    let machine = Machine::describe().with_sides(&servers.server_cores, &[servers.client_core]);
    machine::pin(servers.client_core)?;
    let progress = report::progress(options.rounds * Situation::ALL.len() as u64);
    progress.set_message("filling");
    let tiered = options.tier.start(&recipe)?;
    let memory = Server::start(&recipe, options.tier.memory_mb, &servers.server_cores)?;
    let mut course = Course::new(&options, &subject, &tiered.server, &memory)?;
    let warm_up = course.warm_up(|what| progress.set_message(what))?;
    let awake: Outcome<Vec<Awake>> =
        servers.server_cores.iter().map(|&core| machine::keep_awake(core)).collect();
    let _awake = awake?;
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for place in 0..Situation::ALL.len() {
            let situation = Situation::ALL[(place + round as usize) % Situation::ALL.len()];
            progress.set_message(format!("{situation:?}"));
            samples.push(course.measure(situation, round)?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let commands = [&tiered.server, &memory].map(|server| server.command_line.clone());
    let document =
        quiet_report::document(machine, &options, &subject, &commands, warm_up, &samples);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

/// Both servers, filled, and the requests sent so far.
struct Course<'c> {
    options: &'c QuietOptions,
    subject: &'c Subject,
    flash: &'c Server,
    memory: &'c Server,
    /// Keys of the load in the server without flash, hot ones included.
    memory_keys: u32,
    random: Random,
    /// The last keys stored, with a tier and without.
    stored: [u32; 2],
}

/// The requests sent before any measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUp {
    /// Requests of the load.
    pub requests: u64,
    /// Segments collected during it.
    pub collected: u64,
}

impl<'c> Course<'c> {
    fn new(
        options: &'c QuietOptions,
        subject: &'c Subject,
        flash: &'c Server,
        memory: &'c Server,
    ) -> Outcome<Course<'c>> {
        let bytes = (options.tier.memory_mb << 20) as f64 * MEMORY_SHARE;
        let memory_keys = options.hot_keys + (bytes / subject.item_bytes) as u32;
        if memory_keys >= subject.keys {
            let what = format!("{} keys are no more than fit into memory", subject.keys);
            return Err(Failure::Usage(format!("{what}: more --key-space or --flash-mb")));
        }
        let (random, stored) = (Random::new(options.subject.seed), [options.hot_keys; 2]);
        let course = Course { options, subject, flash, memory, memory_keys, random, stored };
        course.fill(flash, options.hot_keys..subject.keys)?;
        course.fill(memory, options.hot_keys..memory_keys)?;
        for server in [flash, memory] {
            course.fill(server, 0..options.hot_keys)?;
        }
        Ok(course)
    }

    /// Stores keys, each once.
    fn fill(&self, server: &Server, keys: std::ops::Range<u32>) -> Outcome<()> {
        let (per_second, mut left) = (Some(self.options.fill_rate), keys);
        let pace =
            Pace { connections: FILL_CONNECTIONS, depth: 1, per_second, fills_misses: false };
        let limits = (left.len() as u64, Duration::MAX);
        send(server, self.subject, pace, limits, |count| {
            let objects = left.by_ref().take(count as usize);
            self.subject.trace(objects.map(|object| (Operation::Set, object)))
        })?;
        Ok(())
    }

    /// Sends the load, at the rate of the fill, until the tier collects continuously. Nobody reads
    /// the hot keys meanwhile, so some have left the cache: all are stored once more. And each is
    /// read at once: a full cache may soon evict unread items.
    fn warm_up(&mut self, show: impl Fn(String)) -> Outcome<WarmUp> {
        let items = (self.options.tier.memory_mb << 20) as f64 / self.subject.item_bytes;
        let part = (WARM_UP_PART * items).max(1.0) as u64;
        let pace = Pace {
            connections: self.options.connections as usize,
            depth: 1,
            per_second: Some(self.options.fill_rate),
            fills_misses: false,
        };
        let (server, subject) = (self.flash, self.subject);
        let first = counts::own(server)?.collected;
        let (mut collected, mut good, mut requests) = (first, 0, 0);
        for number in 1..=WARM_UP_PARTS_MAX {
            show(format!("warming up, {number} of at most {WARM_UP_PARTS_MAX}"));
            send(server, subject, pace, (part, Duration::MAX), |count| {
                self.loads(Situation::FlashBusy, count as u32)
            })?;
            requests += part;
            let now = counts::own(server)?.collected;
            good = if now > collected { good + 1 } else { 0 };
            collected = now;
            if good == WARM_UP_PARTS_GOOD {
                break;
            }
        }
        show("storing and reading hot keys".to_owned());
        let per_second = Some(self.options.probe_rate);
        let pace = Pace { connections: 1, depth: 1, per_second, fills_misses: false };
        let keys = 0..self.options.hot_keys;
        let mut requests_left =
            keys.flat_map(|object| [Operation::Set, Operation::Get].map(|what| (what, object)));
        let limits = (2 * u64::from(self.options.hot_keys), Duration::MAX);
        send(server, subject, pace, limits, |count| {
            subject.trace(requests_left.by_ref().take(count as usize))
        })?;
        Ok(WarmUp { requests, collected: collected - first })
    }

    fn measure(&mut self, situation: Situation, round: u64) -> Outcome<Sample> {
        let server = if situation.has_flash() { self.flash } else { self.memory };
        let probing = self.hot(self.probes());
        let loading = situation.is_busy().then(|| {
            let count = (self.options.rate * self.options.seconds).max(1.0) as u32;
            self.loads(situation, count)
        });
        let tier = || situation.has_flash().then(|| counts::own(server)).transpose();
        let pace = |per_second, connections| Pace {
            connections,
            depth: 1,
            per_second: Some(per_second),
            fills_misses: false,
        };
        let (probe, load) = (
            pace(self.options.probe_rate, 1),
            pace(self.options.rate, self.options.connections as usize),
        );
        let probe_job = probe.job(server, self.subject, &probing);
        let load_job = loading.as_ref().map(|trace| load.job(server, self.subject, trace));
        let mut jobs = vec![(&probe_job, probe.connections)];
        jobs.extend(load_job.iter().map(|job| (job, load.connections)));
        let (before, cpu_before) = (tier()?, CpuTime::of(server.pid())?);
        let found = load::run_together(&jobs, server.address);
        let found = found.map_err(|failure| server.explain(failure))?;
        found.iter().try_for_each(|it| it.all_done(&server.name))?;
        let mut found = found.into_iter();
        let server_ns = CpuTime::of(server.pid())?.since_ns(cpu_before)? as f64;
        let probe = found.next().expect("there is a result for every job");
        if probe.counts.hits < probe.counts.gets {
            let missed = probe.counts.gets - probe.counts.hits;
            return Err(Failure::Check(format!(
                "{missed} gets of hot keys found nothing ({situation:?}, round {round})"
            )));
        }
        Ok(Sample {
            situation,
            round,
            server_busy: server_ns / probe.elapsed().as_nanos().max(1) as f64,
            probe,
            load: found.next(),
            tier: before.zip(tier()?),
        })
    }

    /// Returns the probe's gets in a phase.
    fn probes(&self) -> u64 {
        (self.options.probe_rate * self.options.seconds).max(1.0) as u64
    }

    /// Returns gets of hot keys, drawn evenly.
    fn hot(&mut self, count: u64) -> Copies {
        let (random, hot_keys) = (&mut self.random, self.options.hot_keys);
        let object = |_| (Operation::Get, random.below(hot_keys.into()) as u32);
        self.subject.trace((0..count).map(object))
    }

    /// Returns the requests of the others.
    fn loads(&mut self, situation: Situation, count: u32) -> Copies {
        let hot_keys = self.options.hot_keys;
        let end = if situation.has_flash() { self.subject.keys } else { self.memory_keys };
        let stored = &mut self.stored[usize::from(!situation.has_flash())];
        let random = &mut self.random;
        let request = |number: u32| match number % ROUND {
            0 => {
                // The next of this server's keys; the first again after the last.
                *stored = if *stored + 1 < end { *stored + 1 } else { hot_keys };
                (Operation::Set, *stored)
            }
            1 => (Operation::Get, *stored),
            _ => {
                let cold = u64::from(end - hot_keys);
                (Operation::Get, hot_keys + random.below(cold) as u32)
            }
        };
        self.subject.trace((0..count).map(request))
    }
}
