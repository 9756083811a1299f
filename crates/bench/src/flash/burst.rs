//! `flash burst`: every key is stored once, as fast as connections take it, and then every key is
//! requested, to count those that are there. Larder and memcached with extstore run in the same
//! memory, on the same size of flash, one after the other in every round. A get checks the value as
//! well.

use std::time::Duration;

use clap::Args;

use super::beside::KINDS;
use super::tier::TierOptions;
use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::machine::{self, Machine};
use crate::report::model::{Cell, Document, Section, Table};
use crate::report::{self, ReportOptions, Spread};
use crate::say;
use crate::server::recipe::{Kind, Recipe};
use crate::subject::send::{Pace, Phase, send};
use crate::subject::{Subject, SubjectOptions, key_space};
use crate::trace::Operation;

/// Connections that request the keys, with one get in flight on each.
const READERS: usize = 8;
/// With `--quick`.
const QUICK_MEMORY_MB: u64 = 16;
const QUICK_FLASH_MB: u64 = 64;

/// The items to store, and how fast.
#[derive(Debug, Clone, Args)]
pub struct BurstOptions {
    /// The servers to compare.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Larder, Kind::Memcached])]
    pub servers: Vec<Kind>,
    #[command(flatten)]
    pub tier: TierOptions,
    #[command(flatten)]
    pub subject: SubjectOptions,
    /// Bytes of all keys and values, in multiples of the memory limit (above 0, at most 1000).
    #[arg(long, value_name = "TIMES", default_value_t = 1.5, value_parser = key_space)]
    pub key_space: f64,
    /// Connections for the stores.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub connections: u64,
    /// Sets in flight on each.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub depth: u64,
    /// Repetitions of every measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// A small tier and one round, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    pub report: ReportOptions,
}

/// One server in one round with one kind of values.
struct Sample {
    values: String,
    kind: Kind,
    command: String,
    stored: Phase,
    found: u64,
}

/// Runs the command.
pub fn run(options: &BurstOptions) -> Outcome<()> {
    let mut options = options.clone();
    if options.quick {
        options.rounds = 1;
        options.tier.memory_mb = options.tier.memory_mb.min(QUICK_MEMORY_MB);
        options.tier.flash_mb = options.tier.flash_mb.min(QUICK_FLASH_MB);
    }
    if options.servers.iter().any(|kind| !KINDS.contains(kind)) {
        return Err(Failure::Usage("only larder and memcached have a flash tier".into()));
    }
    let recipes = options.tier.servers_options.recipes_of_known(&options.servers)?;
    let data_bytes = options.key_space * (options.tier.memory_mb << 20) as f64;
    let subjects = options.subject.subjects(data_bytes)?;
    let machine = Machine::describe().with_sides(
        &options.tier.servers_options.server_cores,
        &[options.tier.servers_options.client_core],
    );
    machine::pin(options.tier.servers_options.client_core)?;
    let progress = report::progress(options.rounds * (subjects.len() * recipes.len()) as u64);
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for subject in &subjects {
            for place in 0..recipes.len() {
                let recipe = &recipes[(place + round as usize) % recipes.len()];
                progress.set_message(format!("{} {}", recipe.name, subject.name));
                samples.push(measure(&options, recipe, subject)?);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    let document = document(machine, &options, &subjects, &samples);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

fn measure(options: &BurstOptions, recipe: &Recipe, subject: &Subject) -> Outcome<Sample> {
    let tiered = options.tier.start(recipe)?;
    let all = |operation, (connections, depth)| {
        let pace = Pace { connections, depth, per_second: None, fills_misses: false };
        let (keys, mut first) = (u64::from(subject.keys), 0);
        send(&tiered.server, subject, pace, (keys, Duration::MAX), |count| {
            let objects = first..first + count as u32;
            first = objects.end;
            subject.trace(objects.map(|object| (operation, object)))
        })
    };
    let stored = all(Operation::Set, (options.connections as usize, options.depth as usize))?;
    let asked = all(Operation::Get, (READERS, 1))?;
    Ok(Sample {
        values: subject.name.clone(),
        kind: tiered.server.kind,
        command: tiered.server.command_line.clone(),
        stored,
        found: asked.found.counts.hits,
    })
}

impl Sample {
    fn sets_per_second(&self) -> f64 {
        self.stored.found.timed().others as f64 / self.stored.elapsed.as_secs_f64().max(1e-9)
    }

    fn p99_us(&self) -> f64 {
        self.stored.found.other_ns.value_at_quantile(0.99) as f64 / 1e3
    }
}

fn document(
    machine: Machine,
    options: &BurstOptions,
    subjects: &[Subject],
    samples: &[Sample],
) -> Document {
    let mut rows = Vec::new();
    for subject in subjects {
        for kind in &options.servers {
            let own = samples.iter().filter(|it| (&it.values, it.kind) == (&subject.name, *kind));
            let spread = |figure: &dyn Fn(&Sample) -> f64| Spread::of(own.clone().map(figure));
            rows.push(vec![
                Cell::text(subject.name.clone()),
                Cell::text(kind.to_string()),
                Cell::count(subject.keys.into()),
                Cell::spread(spread(&|it| it.found as f64), 0),
                Cell::spread(spread(&Sample::sets_per_second), 0),
                Cell::spread(spread(&|it| it.stored.server_cpu()), 2),
                Cell::spread(spread(&Sample::p99_us), 0),
            ]);
        }
    }
    let columns =
        ["values", "server", "keys", "found", "sets/s", "server CPU s / M sets", "p99 us"];
    let mut section = Section::new(
        "What is found",
        ["Every key is stored once, as fast as the server takes it, and asked for when the last \
          reply has come. Latency of sets has all that wait in front of them in it."],
    );
    section.tables.push(Table::new("burst", &columns, rows));
    let BurstOptions { tier, connections, depth, rounds, subject, .. } = options;
    let mut facts = vec![
        ("memory limit".to_owned(), format!("{} MiB", tier.memory_mb)),
        ("flash".to_owned(), format!("{} MiB", tier.flash_mb)),
        ("load".to_owned(), format!("{depth} sets in flight on each of {connections} connections")),
        Protocol::fact(*depth as usize, None),
        ("rounds".to_owned(), rounds.to_string()),
        ("seed".to_owned(), subject.seed.to_string()),
    ];
    for kind in &options.servers {
        let own = samples.iter().find(|sample| sample.kind == *kind);
        facts.extend(own.map(|sample| ("server".to_owned(), sample.command.clone())));
    }
    Document {
        title: "A burst of sets into a flash tier".into(),
        machine,
        facts,
        sections: vec![section],
    }
}
