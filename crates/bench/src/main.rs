//! Measures Larder and its peers with the same client on the same machine.
//!
//! `drive` is the load generator, `server` starts and watches the peers, `null_server` is the
//! floor to compare with, `report` turns rounds into medians, tables and JSON. The commands that
//! put them together are `compare` (CPU time and throughput), `density` (items per byte of
//! resident memory), `rss` (whether `-m` means memory) and `instructions` (what a request costs the
//! server's own code). `trace` reads and writes traces, and captures them; `workload` makes them.
//! `docs/benchmarks.md` shows their use.

#![forbid(unsafe_code)]

mod arguments;
mod compare;
mod density;
mod drive;
mod failure;
mod instructions;
mod machine;
mod null_server;
mod random;
mod report;
mod rss;
mod server;
mod trace;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Larder and its peers with the same client on the same machine.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// CPU time and throughput of Larder, memcached, Redis and the null server, in turn.
    Compare(compare::CompareOptions),
    /// Items kept per GiB of resident memory.
    Density(density::DensityOptions),
    /// Whether resident memory stays within -m plus 5 % plus 32 MiB, whatever is stored.
    Rss(rss::RssOptions),
    /// Instructions of the server's own code for each key, counted by valgrind's callgrind.
    Instructions(instructions::InstructionsOptions),
    /// Send one workload to a running server.
    Drive(drive::command::DriveOptions),
    /// Look into trace files and turn one format into another.
    Trace(trace::command::TraceOptions),
    /// Make workloads, say what is in them, and write them to trace files.
    Workload(workload::command::WorkloadOptions),
    /// Capture an anonymous trace from a running server.
    Record(trace::record::RecordOptions),
    /// Answer every request with the same bytes.
    NullServer(null_server::NullOptions),
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Err(error) = server::children::end_with_this_process() {
        eprintln!("larder-bench: no handler for interrupts: {error}");
    }
    let outcome = match &options.command {
        Command::Compare(options) => compare::run(options),
        Command::Density(options) => density::run(options),
        Command::Rss(options) => rss::run(options),
        Command::Instructions(options) => instructions::run(options),
        Command::Drive(options) => drive::command::run(options),
        Command::Trace(options) => trace::command::run(options),
        Command::Workload(options) => workload::command::run(options),
        Command::Record(options) => trace::record::run(options),
        Command::NullServer(options) => null_server::run(options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("larder-bench: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
