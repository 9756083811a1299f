//! `larder-bench flash`: what a flash tier holds, what it writes, and what it costs.
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
//! `tier` starts servers with a tier, `counts` asks them and the kernel what became of what was
//! stored (a `subject`), and `page_cache` keeps the kernel from helping.

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

/// What to measure of a flash tier.
#[derive(Debug, Args)]
pub struct FlashOptions {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Larder beside memcached with extstore: items, hits, speed, memory and writes.
    Beside(beside::BesideOptions),
    /// Items that are found after a burst of sets, beside memcached with extstore.
    Burst(burst::BurstOptions),
    /// Items on flash beside those of an uncompressed log, and what collection moves.
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
