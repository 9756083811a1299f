//! `larder-bench flash`: a flash tier's items, writes and cost.
//!
//! ```text
//!   flash beside   `beside`: Larder and memcached with extstore, the same DRAM and the same flash:
//!                  items that are found, hits, requests a second, latency, memory, writes
//!   flash burst    `burst`: items that are found after more sets at once than memory takes
//!   flash density  `density`: items on flash beside those of an uncompressed log of its size, and
//!                  what collection moves
//!   flash quiet    `quiet`: latency of gets of hot keys while the tier reads and collects
//! ```
//!
//! `tier` starts servers with a tier; `counts` asks them and the kernel for the fate of the stored
//! items (a `subject`); `page_cache` keeps the kernel's cache from serving reads.

mod beside;
mod beside_report;
mod burst;
mod counts;
mod density;
mod density_report;
mod page_cache;
mod quiet;
mod quiet_report;
mod tier;

use clap::{Args, Subcommand};

use crate::failure::Outcome;

const MIB: f64 = (1u64 << 20) as f64;

/// The flash experiment to run.
#[derive(Debug, Args)]
pub struct FlashOptions {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Larder beside memcached with extstore: items, hits, speed, memory and writes.
    Beside(beside::BesideOptions),
    /// Items found after a burst of sets, beside memcached with extstore.
    Burst(burst::BurstOptions),
    /// Items on flash beside those of an uncompressed log, and the bytes that collection moves.
    Density(density::DensityOptions),
    /// Latency of gets of hot keys while the tier reads and collects.
    Quiet(quiet::QuietOptions),
}

/// Runs the command.
pub fn run(options: &FlashOptions) -> Outcome<()> {
    match &options.work {
        Work::Beside(options) => beside::run(options),
        Work::Burst(options) => burst::run(options),
        Work::Density(options) => density::run(options),
        Work::Quiet(options) => quiet::run(options),
    }
}
