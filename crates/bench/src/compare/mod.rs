//! `larder-bench compare`: the same client against Larder and its peers, in turn, several times.
//!
//! ```text
//!   compare              `requests`: fixed ways of reading and writing, every key there:
//!                        what a request costs
//!   compare trace TRACE  `trace`: a trace or a workload into as much memory for each server:
//!                        how many requests hit, and what that takes
//! ```
//!
//! Peers are Debian's memcached and Redis, the null server, and any command (`--peer`). Each has
//! one thread, on the same core; the client has another.

pub mod requests;
mod requests_report;
mod trace;
mod trace_report;
pub mod workload;

use clap::{Args, Subcommand};

use crate::failure::Outcome;
use requests::RequestsOptions;
use trace::TraceOptions;

const MIB: f64 = (1u64 << 20) as f64;

/// What to compare.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CompareOptions {
    #[command(subcommand)]
    work: Option<Work>,
    #[command(flatten)]
    requests: RequestsOptions,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// A trace or a workload, with equal memory for each server: hits, items, memory, CPU time.
    Trace(TraceOptions),
}

/// Runs the command.
pub fn run(options: &CompareOptions) -> Outcome<()> {
    match &options.work {
        None => requests::run(&options.requests),
        Some(Work::Trace(options)) => trace::run(options),
    }
}
