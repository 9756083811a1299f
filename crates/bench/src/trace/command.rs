//! `larder-bench trace`: shows statistics of trace files and converts between formats.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Trace;
use super::format::{self, Format};
use super::sample::sample;
use super::statistics::Statistics;
use crate::arguments::share;
use crate::failure::{Failure, Outcome};
use crate::say;
use crate::workload::attach;
use crate::workload::costs::Costs;
use crate::workload::requests::Requests;
use crate::workload::sizes::SizeChoice;

/// What to do with a trace.
#[derive(Debug, Args)]
pub struct TraceOptions {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write a trace, or a part of it, in another format.
    Convert(ConvertOptions),
    /// Show statistics of a trace.
    Show(ShowOptions),
}

/// The trace to read.
#[derive(Debug, Args)]
struct InputOptions {
    /// The file, compressed by zstd or not, or "make" and a workload's options in one argument.
    input: Requests,
    /// Its format [default: by its name and beginning].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Read only the first N requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Keep only this share of the objects, each with all its requests.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    sample: Option<f64>,
}

impl InputOptions {
    fn read(&self) -> Outcome<super::Trace> {
        let trace = self.input.read_first(self.limit, self.format)?;
        let Some(share) = self.sample else { return Ok(trace) };
        let part = sample(&trace, share);
        if part.requests.is_empty() {
            let what = format!("{}: none of {} objects stays", trace.name, trace.objects);
            return Err(Failure::Input(what));
        }
        Ok(part)
    }
}

#[derive(Debug, Args)]
struct ConvertOptions {
    #[command(flatten)]
    input: InputOptions,
    /// The new file; compressed if its name ends in .zst.
    output: PathBuf,
    /// The new format [default: by the name].
    #[arg(long, value_enum)]
    to: Option<Format>,
    /// Give every object a size, for formats without sizes.
    #[arg(long)]
    sizes: Option<SizeChoice>,
    /// With --sizes: bytes of every key, unless the sizes determine them.
    #[arg(long, default_value_t = 24, requires = "sizes",
        value_parser = clap::value_parser!(u16).range(1..=250))]
    key_bytes: u16,
    /// The seed of the sizes.
    #[arg(long, default_value_t = 1, requires = "sizes")]
    seed: u64,
}

#[derive(Debug, Args)]
struct ShowOptions {
    #[command(flatten)]
    input: InputOptions,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(options: &TraceOptions) -> Outcome<()> {
    match &options.action {
        Action::Convert(options) => convert(options),
        Action::Show(options) => {
            let found = Statistics::of(&options.input.read()?);
            print(&found, options.json)
        }
    }
}

/// Prints statistics for people or programs.
fn print(found: &Statistics, as_json: bool) -> Outcome<()> {
    if as_json {
        let text = serde_json::to_string_pretty(found).expect("statistics hold nothing but data");
        say::out(text)
    } else {
        say::out(found.text())
    }
}

fn convert(options: &ConvertOptions) -> Outcome<()> {
    let mut trace = options.input.read()?;
    if let Some(choice) = &options.sizes {
        let sizes = choice.load(options.key_bytes)?;
        attach(&mut trace, &sizes, &Costs::None, options.seed);
    }
    save(&trace, &options.output, options.to)
}

/// Writes a trace to a file, and reports its statistics and the fields that its format does not
/// keep.
pub fn save(trace: &Trace, output: &Path, to: Option<Format>) -> Outcome<()> {
    let format = format::write(trace, output, to)?;
    let lost = format::lost(trace, format);
    if !lost.is_empty() {
        eprintln!("the {format} format does not keep: {}", lost.join(", "));
    }
    let (requests, objects) = (trace.requests.len(), trace.objects);
    let output = output.display();
    say::out(format_args!("{output}: {requests} requests for {objects} objects as {format}"))
}
