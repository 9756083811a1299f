//! `larder-bench workload`: generates workloads, describes them, and writes them to files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::Spec;
use crate::failure::{Failure, Outcome};
use crate::report;
use crate::say;
use crate::trace::Trace;
use crate::trace::command::save;
use crate::trace::format::Format;
use crate::trace::statistics::Statistics;
use crate::values::{ValueChoice, Values};

/// Bytes of values compressed to find their ratio.
const SAMPLE_BYTES: usize = 4 << 20;
/// The unit of their compression, in bytes.
const UNIT_BYTES: usize = 64 << 10;
/// zstd's default level.
const ZSTD_LEVEL: i32 = 3;

/// What to do with a workload.
#[derive(Debug, Args)]
pub struct WorkloadOptions {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Generate a workload and describe it.
    Show(ShowOptions),
    /// Generate a workload and write it to a trace file.
    Write(WriteOptions),
}

#[derive(Debug, Args)]
struct ShowOptions {
    #[command(flatten)]
    spec: Spec,
    /// Make the values as well and report how far they compress: made:RATIO, records:FILE.
    #[arg(long)]
    values: Option<ValueChoice>,
    /// Print JSON, with the spec, instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct WriteOptions {
    #[command(flatten)]
    spec: Spec,
    /// The new file; compressed if its name ends in .zst.
    output: PathBuf,
    /// Its format [default: by the name].
    #[arg(long, value_enum)]
    to: Option<Format>,
}

/// The compression of values.
#[derive(Debug, Serialize)]
struct Compression {
    values: ValueChoice,
    /// Plain bytes per byte of zstd's output, in units of 64 KiB.
    zstd_ratio: f64,
}

/// Runs the command.
pub fn run(options: &WorkloadOptions) -> Outcome<()> {
    match &options.action {
        Action::Show(options) => show(options),
        Action::Write(options) => write(options),
    }
}

fn show(options: &ShowOptions) -> Outcome<()> {
    let spec = &options.spec;
    let trace = spec.generate()?;
    let found = Statistics::of(&trace);
    let compression = match &options.values {
        None => None,
        Some(choice) => {
            let zstd_ratio = ratio(&trace, &choice.load(spec.seed)?)?;
            Some(Compression { values: choice.clone(), zstd_ratio })
        }
    };
    if options.json {
        let report = serde_json::json!({
            "spec": spec,
            "statistics": found,
            "compression": compression,
        });
        say::out(format_args!("{report:#}"))?;
        return Ok(());
    }
    say::out(found.text())?;
    if let Some(Compression { values, zstd_ratio }) = compression {
        let rows = [vec![values.to_string(), format!("{zstd_ratio:.2}")]];
        say::out(format_args!("\n{}", report::table(&["values", "ratio of zstd"], 1, rows)))?;
    }
    Ok(())
}

fn write(options: &WriteOptions) -> Outcome<()> {
    save(&options.spec.generate()?, &options.output, options.to)
}

/// Returns the compression ratio of the first requests' values.
fn ratio(trace: &Trace, values: &Values) -> Outcome<f64> {
    let mut plain = Vec::new();
    let mut next = 0;
    for request in &trace.requests {
        // Objects are numbered in order of appearance: each is taken once.
        if request.object == next && plain.len() < SAMPLE_BYTES {
            values.append(request.object, request.value_bytes, &mut plain);
            next += 1;
        }
    }
    let mut compressed = 0;
    for unit in plain.chunks(UNIT_BYTES) {
        let packed = zstd::bulk::compress(unit, ZSTD_LEVEL);
        compressed += packed.map_err(Failure::io("compressing values"))?.len();
    }
    Ok(plain.len() as f64 / compressed.max(1) as f64)
}
