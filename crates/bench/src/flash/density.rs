//! `flash density`: the items in Larder's tier beside an uncompressed log of the same size.
//!
//! ```text
//!   fill    groups of new keys, each stored and then read while it is still in memory, so that it
//!           deserves demotion, until as many segments were collected as there are
//!   load    gets by Zipf's law, missed keys are stored
//! ```
//!
//! The log is calculated, and favourably: every byte of the flash is in use, items lie close
//! together over the ends of its segments, none is dead, and an item has a head of a few bytes
//! besides key and value (`--log-head-bytes`: two lengths and a checksum take 8). Larder's items
//! are its own count divided by the same flash, including superblock, tables and free reserve.
//!
//! The bytes moved by collection depend on reads, so they are reported for the load separately.

use std::time::Duration;

use clap::Args;

use super::counts::{self, DiskWrites, OwnCounts};
use super::density_report;
use super::tier::{TierOptions, Tiered};
use crate::failure::{Failure, Outcome};
use crate::load::pace;
use crate::machine::{self, Machine};
use crate::random::Random;
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::recipe::LarderOptions;
use crate::server::usage;
use crate::subject::send::{Pace, send};
use crate::subject::{Subject, SubjectOptions, key_space};
use crate::trace::Operation;
use crate::workload::popularity::Choice;
use crate::workload::skew;

/// Connections.
const CONNECTIONS: usize = 8;
/// The bytes of a group's keys and values are the memory divided by this: they are in the hot zone
/// when they are read.
const GROUPS: f64 = 64.0;
/// The most bytes stored until the tier was collected once, in multiples of the flash.
const STORED_OVER_FLASH_MAX: f64 = 20.0;
/// With `--quick`.
const QUICK_MEMORY_MB: u64 = 16;
const QUICK_FLASH_MB: u64 = 16;
const QUICK_REQUESTS: u64 = 50_000;

/// The items to store, and the tier.
#[derive(Debug, Clone, Args)]
pub struct DensityOptions {
    #[command(flatten)]
    pub tier: TierOptions<LarderOptions>,
    #[command(flatten)]
    pub subject: SubjectOptions,
    /// Bytes of an item of the uncompressed log besides its key and value.
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    pub log_head_bytes: u64,
    /// Requests per second: at full speed most items are evicted before the background can demote
    /// them to flash.
    #[arg(long, default_value_t = 20_000.0, value_parser = pace::rate)]
    pub rate: f64,
    /// Requests of the load.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: u64,
    /// Bytes of the keys and values that the load chooses from, in multiples of the flash (above 0,
    /// at most 1000).
    #[arg(long, value_name = "TIMES", default_value_t = 4.0, value_parser = key_space)]
    pub key_space: f64,
    /// The exponent of Zipf's law (0 to 10).
    #[arg(long, value_name = "SKEW", default_value_t = 0.99, value_parser = skew)]
    pub zipf: f64,
    /// A small tier and few requests, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    pub report: ReportOptions,
}

/// The tier after a phase.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Its own counts.
    pub counts: OwnCounts,
    /// Bytes written by the server, by the kernel's count.
    pub kernel_written_bytes: u64,
    /// The disk's writes for all processes, if the disk reports them.
    pub disk: Option<DiskWrites>,
}

/// The tier with one kind of values.
#[derive(Debug)]
pub struct Sample {
    /// The values' name.
    pub values: String,
    /// The server's command line.
    pub command: String,
    /// Mean bytes of a key with its value.
    pub item_bytes: f64,
    /// At the start, after the fill, and at the end.
    pub moments: [Moment; 3],
}

/// Runs the command.
pub fn run(options: &DensityOptions) -> Outcome<()> {
    let mut options = options.clone();
    if options.quick {
        options.tier.memory_mb = options.tier.memory_mb.min(QUICK_MEMORY_MB);
        options.tier.flash_mb = options.tier.flash_mb.min(QUICK_FLASH_MB);
        options.requests = options.requests.min(QUICK_REQUESTS);
    }
    let servers = &options.tier.servers_options;
    let recipe = servers.recipe()?;
    let stored_max = STORED_OVER_FLASH_MAX * options.tier.flash_bytes();
    let subjects = options.subject.subjects(stored_max)?;
    let machine = Machine::describe().with_sides(&servers.server_cores, &[servers.client_core]);
    machine::pin(servers.client_core)?;
    let progress = report::progress(subjects.len() as u64);
    let mut samples = Vec::new();
    for subject in &subjects {
        progress.set_message(subject.name.clone());
        let tiered = options.tier.start(&recipe)?;
        samples.push(measure(&options, subject, &tiered)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let document = density_report::document(machine, &options, &samples);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

fn measure(options: &DensityOptions, subject: &Subject, tiered: &Tiered) -> Outcome<Sample> {
    let started = moment(tiered)?;
    fill(options, subject, tiered)?;
    let filled = moment(tiered)?;
    load(options, subject, tiered)?;
    Ok(Sample {
        values: subject.name.clone(),
        command: tiered.server.command_line.clone(),
        item_bytes: subject.item_bytes,
        moments: [started, filled, moment(tiered)?],
    })
}

fn moment(tiered: &Tiered) -> Outcome<Moment> {
    Ok(Moment {
        counts: counts::own(&tiered.server)?,
        kernel_written_bytes: usage::written_bytes(tiered.server.pid())?,
        disk: counts::disk_writes(tiered.file.path()),
    })
}

fn pace(options: &DensityOptions, fills_misses: bool) -> Pace {
    let per_second = Some(options.rate);
    Pace { connections: CONNECTIONS, depth: 1, per_second, fills_misses }
}

/// Stores new keys until as many segments were collected as the tier has.
fn fill(options: &DensityOptions, subject: &Subject, tiered: &Tiered) -> Outcome<()> {
    let group = (options.tier.memory_mb << 20) as f64 / GROUPS / subject.item_bytes;
    let mut requests = groups(subject.keys, (group as u32).max(1));
    loop {
        let few = (pace(options, false), (options.rate as u64 * 2, Duration::MAX));
        let phase = send(&tiered.server, subject, few.0, few.1, |count| {
            subject.trace(requests.by_ref().take(count as usize))
        })?;
        let counts = counts::own(&tiered.server)?;
        if counts.collected >= counts.segments {
            return Ok(());
        }
        if phase.found.counts.asked() == 0 {
            let values = &subject.name;
            return Err(Failure::Check(format!(
                "{values}: the tier was not collected once with {STORED_OVER_FLASH_MAX} times its \
                 bytes stored: {counts:?}"
            )));
        }
    }
}

/// Returns requests that store and then read each key once, a group at a time.
fn groups(keys: u32, group: u32) -> impl Iterator<Item = (Operation, u32)> {
    let starts = (0..keys).step_by(group as usize);
    starts.flat_map(move |start| {
        let objects = start..start.saturating_add(group).min(keys);
        let sets = objects.clone().map(|object| (Operation::Set, object));
        sets.chain(objects.map(|object| (Operation::Get, object)))
    })
}

/// Sends the load.
fn load(options: &DensityOptions, subject: &Subject, tiered: &Tiered) -> Outcome<()> {
    let keys = options.key_space * options.tier.flash_bytes() / subject.item_bytes;
    let keys = (keys.round() as u64).clamp(1, subject.keys.into());
    let mut chooser = Choice::Zipfian.load(keys, options.zipf)?;
    let mut random = Random::new(options.subject.seed);
    let limits = (options.requests, Duration::MAX);
    send(&tiered.server, subject, pace(options, true), limits, |count| {
        let object = |_| (Operation::Get, chooser.read(&mut random) as u32);
        subject.trace((0..count).map(object))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::groups;
    use crate::trace::Operation::{Get, Set};

    #[test]
    fn a_group_is_stored_and_then_read() {
        let found: Vec<_> = groups(3, 2).collect();
        assert_eq!(found, [(Set, 0), (Set, 1), (Get, 0), (Get, 1), (Set, 2), (Get, 2)]);
        assert_eq!(groups(0, 2).count(), 0);
        assert_eq!(groups(u32::MAX, u32::MAX).next(), Some((Set, 0)));
    }
}
