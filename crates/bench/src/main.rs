//! Measures Larder and its peers with the same client on the same machine.
//!
//! `drive` is the load generator; `server` starts and watches the peers; `null_server` is the floor
//! to compare with; `report` turns rounds into medians and shows them as text, JSON, CSV and HTML;
//! `tables` holds the hash tables of the papers. The commands built from them are `compare` (CPU
//! time and throughput), `density` (items per byte of resident memory), `scaling` (the gain from
//! more worker threads), `delayed` and `expiring` (whether wanted items are kept), `rss` (whether
//! `-m` limits resident memory), `restart` (the items found after a server was killed), `flash`
//! (items on flash, writes and cost), `instructions` (instructions of the server's own code per
//! request) and `paper` (the experiments of published systems).
//!
//! `trace` reads, writes and captures traces, `workload` generates them, and `values` fills their
//! objects. `load` sends one to a server; without a server, `mrc` simulates the `policies` over it,
//! and `replay` runs it in the engine itself. `docs/benchmarks.md` shows their use.
//!
//! Shared by these: `arguments` and `amounts` (the command line), `machine` (cores and what the
//! figures were measured on), `background` (the engine's thread), `subject` (values of one kind
//! under many keys), `random`, `say` (standard output) and `failure` (exit codes).

#![forbid(unsafe_code)]

mod amounts;
mod arguments;
mod background;
mod compare;
mod delayed;
mod density;
mod drive;
mod expiring;
mod failure;
mod flash;
mod instructions;
mod load;
mod machine;
mod mrc;
mod null_server;
mod paper;
mod policies;
mod random;
mod replay;
mod report;
mod restart;
mod rss;
mod say;
mod scaling;
mod server;
mod subject;
mod tables;
mod trace;
mod values;
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
    Compare(Box<compare::CompareOptions>),
    /// Throughput, CPU time and latency with one worker thread and with more.
    Scaling(scaling::ScalingOptions),
    /// Items kept per GiB of resident memory.
    Density(density::DensityOptions),
    /// Whether an item is still there when it is first read, long after it was stored.
    Delayed(delayed::DelayedOptions),
    /// Whether memory freed by expired items goes to other sizes.
    Expiring(expiring::ExpiringOptions),
    /// Whether resident memory stays within -m plus 5 % plus 32 MiB, whatever is stored.
    Rss(rss::RssOptions),
    /// Whether a restart finds the items on flash, and nothing older than was acknowledged.
    Restart(Box<restart::RestartOptions>),
    /// A flash tier: beside memcached's extstore, beside an uncompressed log, and under a load.
    Flash(Box<flash::FlashOptions>),
    /// Instructions of the server's own code for each key, counted by valgrind's callgrind.
    Instructions(instructions::InstructionsOptions),
    /// A published system's experiments, with the paper's figures beside ours.
    Paper(paper::PaperOptions),
    /// Misses of every policy at a range of sizes, simulated over a trace.
    Mrc(mrc::MrcOptions),
    /// The curve that a server's admin port shows, beside that of exact LRU and Larder itself.
    MrcLive(mrc::live::LiveOptions),
    /// A trace in the engine itself, beside memcached's LRU and the optimum at equal memory.
    Replay(replay::ReplayOptions),
    /// Send a trace to a running server.
    Load(load::command::LoadOptions),
    /// Send one workload to a running server.
    Drive(drive::command::DriveOptions),
    /// Show statistics of trace files, sample them, and convert between formats.
    Trace(trace::command::TraceOptions),
    /// Generate workloads, describe them, and write them to trace files.
    Workload(workload::command::WorkloadOptions),
    /// Capture an anonymous trace from a running server.
    Record(trace::record::RecordOptions),
    /// Answer every request with the same bytes.
    NullServer(null_server::NullOptions),
    /// Read lines of a buffer: the program counted by `paper cavast cachegrind`.
    #[command(hide = true)]
    Touch(paper::cavast::cachegrind::TouchOptions),
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Err(error) = server::children::end_with_this_process() {
        eprintln!("larder-bench: no handler for interrupts: {error}");
    }
    let outcome = match &options.command {
        Command::Compare(options) => compare::run(options),
        Command::Scaling(options) => scaling::run(options),
        Command::Density(options) => density::run(options),
        Command::Delayed(options) => delayed::run(options),
        Command::Expiring(options) => expiring::run(options),
        Command::Rss(options) => rss::run(options),
        Command::Restart(options) => restart::run(options),
        Command::Flash(options) => flash::run(options),
        Command::Instructions(options) => instructions::run(options),
        Command::Paper(options) => paper::run(options),
        Command::Mrc(options) => mrc::run(options),
        Command::MrcLive(options) => mrc::live::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Load(options) => load::command::run(options),
        Command::Drive(options) => drive::command::run(options),
        Command::Trace(options) => trace::command::run(options),
        Command::Workload(options) => workload::command::run(options),
        Command::Record(options) => trace::record::run(options),
        Command::NullServer(options) => null_server::run(options),
        Command::Touch(options) => paper::cavast::cachegrind::touch(options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("larder-bench: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
