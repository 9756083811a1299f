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
//! one thread on the same core and the client has another.

pub mod requests;
mod requests_report;
pub mod workload;

use clap::{Args, Subcommand};

use crate::failure::Outcome;
use crate::report::model::{Cell, Table};
use crate::server::held::Held;
use requests::RequestsOptions;

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
    /// A trace or a workload into as much memory for each server: hits, items, memory, CPU time.
    Trace,
}

/// Runs the command.
pub fn run(options: &CompareOptions) -> Outcome<()> {
    match &options.work {
        None => requests::run(&options.requests),
        Some(Work::Trace) => Ok(()),
    }
}

/// What servers hold, a row for each that tells.
fn held_table<'s>(name: &str, rows: impl Iterator<Item = (&'s str, Held)>) -> Table {
    let columns = ["server", "items", "evicted", "RSS MiB", "resident bytes for each item"];
    let row = |(server, held): (&str, Held)| {
        let count = |figure: Option<u64>| figure.map_or(Cell::Nothing, Cell::count);
        vec![
            Cell::text(server),
            count(held.counts.map(|counts| counts.items)),
            count(held.counts.map(|counts| counts.evictions)),
            Cell::number(held.resident_bytes as f64 / MIB, 1),
            held.item_bytes().map_or(Cell::Nothing, |bytes| Cell::number(bytes, 1)),
        ]
    };
    Table {
        name: name.into(),
        columns: columns.map(String::from).to_vec(),
        rows: rows.map(row).collect(),
    }
}
