//! `larder-bench delayed`: is an item still there when it is first read?
//!
//! Every key is stored once, at a steady rate, and in the second half of the run read once, after a
//! *delay*: a number of stores later. Sessions, messages and precomputed results are used like
//! that. A list of all items keeps each for as long as any other; a policy that takes unread items
//! for worthless loses them.
//!
//! Stores come in blocks. After each block the keys whose delay has passed are read, each key for
//! one delay only. So a key is read up to half a block sooner or later than its delay says, and a
//! block is an eighth of the shortest delay at most. The time of the reads is no pause of the
//! stores: the next block catches up.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::arguments::each_once;
use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::machine::{self, Machine};
use crate::report::model::{Cell, Document, Section, Table};
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::recipe::{Kind, Recipe, ServerOptions};
use crate::server::{Server, query};
use crate::subject::send::{Pace, Schedule, send_by};
use crate::subject::{Subject, SubjectOptions};
use crate::trace::Operation;

/// The most stores in a block.
const BLOCK_MAX: u32 = 2048;
/// The least stores in a block: each is sent over connections of its own, with its reads.
const BLOCK_MIN: u32 = 32;
/// The least number of blocks in the shortest delay.
const BLOCKS_IN_DELAY: u32 = 8;
/// Bytes of all keys and values, in multiples of the memory limit.
const KEY_SPACE: f64 = 6.0;
const QUICK_MEMORY_MB: u64 = 8;
/// Gets in flight. Stores are paced by `--rate`.
const READS_DEPTH: usize = 64;

/// The stores, and the delays of their reads.
#[derive(Debug, Args)]
pub struct DelayedOptions {
    /// The servers.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Larder, Kind::Memcached])]
    servers: Vec<Kind>,
    /// Memory limit of each server in MiB.
    #[arg(short, long = "memory-mb", default_value_t = 64,
        value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory_mb: u64,
    #[command(flatten)]
    subject: SubjectOptions,
    /// Stores per second.
    #[arg(long, default_value_t = 10_000.0, value_parser = crate::load::pace::rate)]
    rate: f64,
    /// Stores until a key is read, in multiples of the number of items whose bytes, with their
    /// keys, make the memory limit.
    #[arg(long, value_delimiter = ',', default_value = "0.01,0.05,0.1,0.2,0.4,0.6,0.8,1,1.5,2")]
    delays: Vec<Delay>,
    /// A small memory limit, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    servers_options: ServerOptions,
}

/// A delay, in multiples of the items that memory has room for.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Delay(f64);

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(times) if times > 0.0 && times <= KEY_SPACE / 2.0 => Ok(Self(times)),
            _ => Err(format!("a delay is above 0 and at most {}", KEY_SPACE / 2.0)),
        }
    }
}

/// The results of one server.
struct Sample {
    server: String,
    command: String,
    items: u64,
    /// Stores per second, over the whole run.
    stores_per_second: f64,
    /// Gets and hits of each delay.
    found: Vec<[u64; 2]>,
}

/// Runs the command.
pub fn run(options: &DelayedOptions) -> Outcome<()> {
    if options.servers.contains(&Kind::Null) {
        return Err(Failure::Usage("the null server keeps no items".into()));
    }
    let memory_mb =
        if options.quick { options.memory_mb.min(QUICK_MEMORY_MB) } else { options.memory_mb };
    let memory_bytes = (memory_mb << 20) as f64;
    let mut subjects = options.subject.subjects(KEY_SPACE * memory_bytes)?;
    let (Some(subject), true) = (subjects.pop(), subjects.is_empty()) else {
        return Err(Failure::Usage("delayed takes one kind of --values".into()));
    };
    let items = memory_bytes / subject.item_bytes;
    let delays: Vec<u32> = options.delays.iter().map(|delay| (delay.0 * items) as u32).collect();
    each_once("--delays, in stores,", &delays)?;
    block_of(&delays)?;
    let recipes = options.servers_options.recipes(&options.servers)?;
    let machine = Machine::describe()
        .with_sides(&options.servers_options.server_cores, &[options.servers_options.client_core]);
    machine::pin(options.servers_options.client_core)?;
    let samples = report::measured(&recipes, |recipe| {
        measure(options, recipe, memory_mb, &subject, &delays)
    })?;
    let document = document(machine, options, memory_mb, &subject, &delays, &samples);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

fn measure(
    options: &DelayedOptions,
    recipe: &Recipe,
    memory_mb: u64,
    subject: &Subject,
    delays: &[u32],
) -> Outcome<Sample> {
    let server = Server::start(recipe, memory_mb, &options.servers_options.server_cores)?;
    let stores =
        Pace { connections: 1, depth: 1, per_second: Some(options.rate), fills_misses: false };
    let reads = Pace { per_second: None, depth: READS_DEPTH, ..stores };
    let mut found = vec![[0; 2]; delays.len()];
    let (block, mut schedule) = (block_of(delays)?, Schedule::begin());
    let mut stores_per_second = 0.0;
    for begin in (0..subject.keys).step_by(block as usize) {
        let block = begin..subject.keys.min(begin + block);
        let keys = block.clone().collect();
        ask(&mut schedule, &server, subject, stores, (Operation::Set, keys))?;
        stores_per_second = schedule.per_second();
        if begin < subject.keys / 2 {
            continue;
        }
        for (number, &delay) in delays.iter().enumerate() {
            let keys = due(&block, delay, number as u32, delays.len() as u32);
            let asked = (Operation::Get, keys);
            let [gets, hits] = ask(&mut schedule, &server, subject, reads, asked)?;
            found[number][0] += gets;
            found[number][1] += hits;
        }
    }
    let items = query::counts(server.address, server.dialect)
        .map_err(|failure| server.explain(failure))?
        .items;
    let (server, command) = (server.name.clone(), server.command_line.clone());
    Ok(Sample { server, command, items, stores_per_second, found })
}

/// Returns the number of stores in a block; refuses a delay that is too short for one.
fn block_of(delays: &[u32]) -> Outcome<u32> {
    let least = delays.iter().min().copied().unwrap_or(u32::MAX);
    if least < BLOCK_MIN * BLOCKS_IN_DELAY {
        let most = BLOCK_MIN * BLOCKS_IN_DELAY;
        let remedy = "take more memory, shorter values, or greater --delays";
        let what = format!("a delay of {least} stores is shorter than {most}: {remedy}");
        return Err(Failure::Usage(what));
    }
    Ok((least / BLOCKS_IN_DELAY).min(BLOCK_MAX))
}

/// Returns those keys stored a delay before a block that are read for this delay. They are read
/// when the block is stored: the first of them a whole block later than its turn, the last one at
/// once. To give them the delay on average, it begins in the block's middle.
fn due(block: &Range<u32>, delay: u32, number: u32, delays: u32) -> Vec<u32> {
    let delay = delay.saturating_sub(block.len() as u32 / 2);
    let stored = block.start.saturating_sub(delay)..block.end.saturating_sub(delay);
    stored.filter(|key| key % delays == number).collect()
}

/// Sends requests for these keys, paced ones by the schedule; returns gets and hits.
fn ask(
    schedule: &mut Schedule,
    server: &Server,
    subject: &Subject,
    pace: Pace,
    (what, keys): (Operation, Vec<u32>),
) -> Outcome<[u64; 2]> {
    let (mut keys, limits) = (keys.into_iter(), (u64::from(BLOCK_MAX), Duration::MAX));
    let phase = send_by(Some(schedule), server, subject, pace, limits, |count| {
        subject.trace(keys.by_ref().take(count as usize).map(|key| (what, key)))
    })?;
    Ok([phase.found.counts.gets, phase.found.counts.hits])
}

fn document(
    machine: Machine,
    options: &DelayedOptions,
    memory_mb: u64,
    subject: &Subject,
    delays: &[u32],
    samples: &[Sample],
) -> Document {
    let block = block_of(delays).expect("it was made before anything was measured");
    let mut section = Section::new(
        "Keys that were found when they were first read, percent",
        [format!(
            "{} keys, each stored once; in the second half each is read once, so many stores \
             later on average, give or take {}. Every value that was found was compared.",
            subject.keys,
            block.div_ceil(2)
        )],
    );
    let mut columns: Vec<String> = ["server", "items", "stores/s"].map(String::from).to_vec();
    columns.extend(delays.iter().map(|delay| format!("{delay} later")));
    let rows = samples.iter().map(|sample| {
        let percent = |&[gets, hits]: &[u64; 2]| match gets {
            0 => Cell::Nothing,
            _ => Cell::number(100.0 * hits as f64 / gets as f64, 1),
        };
        let mut row = vec![Cell::text(sample.server.clone()), Cell::count(sample.items)];
        row.push(Cell::number(sample.stores_per_second, 0));
        row.extend(sample.found.iter().map(percent));
        row
    });
    section.tables.push(Table { name: "delayed".into(), columns, rows: rows.collect() });
    let mut facts = vec![
        ("memory limit".to_owned(), format!("{memory_mb} MiB")),
        ("values".to_owned(), format!("{}, {:.0} bytes each", subject.name, subject.item_bytes)),
        (
            "load".to_owned(),
            format!("{} stores/s wanted, on one connection at a time", options.rate),
        ),
    ];
    facts.push(Protocol::fact_of_paced_sets(READS_DEPTH));
    facts.extend(samples.iter().map(|sample| ("server".to_owned(), sample.command.clone())));
    Document { title: "What is read long after".into(), machine, facts, sections: vec![section] }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_MAX, BLOCK_MIN, BLOCKS_IN_DELAY, Delay, block_of, due};

    /// Regression: at the defaults keys with a delay of 2071 stores were read 2072 to 4119 stores
    /// later.
    #[test]
    fn each_key_is_read_once_after_its_delay() {
        for delays in [[256, 5000, 7000], [2071, 10_356, 20_712]] {
            let (size, most) = (block_of(&delays).expect("long enough"), delays[2]);
            let half = most.div_ceil(size) * 2 * size;
            let mut read = vec![0; 2 * half as usize];
            let mut waited = [[0; 2]; 3];
            for begin in (half..2 * half).step_by(size as usize) {
                let block = begin..begin + size;
                for (number, &delay) in delays.iter().enumerate() {
                    for key in due(&block, delay, number as u32, 3) {
                        let later = block.end - key;
                        assert!(later.abs_diff(delay) <= delay / BLOCKS_IN_DELAY, "{later}");
                        read[key as usize] += 1;
                        waited[number][0] += u64::from(later);
                        waited[number][1] += 1;
                    }
                }
            }
            assert!(read.iter().all(|&times| times <= 1));
            let middle = half as usize..(2 * half - most - size) as usize;
            assert!(read[middle].iter().all(|&times| times == 1));
            for (delay, [later, keys]) in delays.into_iter().zip(waited) {
                assert!((later / keys).abs_diff(delay.into()) <= 2, "{} not {delay}", later / keys);
            }
        }
    }

    /// Regression: with a delay of one store every store had connections of its own, and a run of
    /// minutes took hours.
    #[test]
    fn a_block_is_short_beside_the_least_delay_which_is_refused_below_its_bound() {
        let block = |delays: &[u32]| block_of(delays).ok();
        assert_eq!((block(&[255, 70_000]), block(&[256, 70_000])), (None, Some(BLOCK_MIN)));
        assert_eq!(block(&[2071, 70_000]), Some(258));
        assert_eq!(block(&[1 << 20]), Some(BLOCK_MAX));
    }

    #[test]
    fn a_delay_is_a_multiple() {
        assert_eq!("0.5".parse(), Ok(Delay(0.5)));
        assert!(["0", "-1", "4", "x"].iter().all(|text| text.parse::<Delay>().is_err()));
    }
}
