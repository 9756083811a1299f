//! The options of a check: its extent and its strictness.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::share;
use crate::report::ReportOptions;
use crate::server::recipe::{LarderOptions, ServerOptions};
use crate::values::ValueChoice;

/// Bytes of keys and values in multiples of the flash, unless the number of keys is given: values
/// compress to a third, and they have to fill the flash.
const KEYS_OVER_FLASH: u64 = 4;
/// The most requests of a round are the keys divided by this.
const KEYS_PER_REQUEST: u64 = 4;

/// The options of the command.
#[derive(Debug, Args)]
pub struct RestartOptions {
    /// Number of times that the server is ended and restarted.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
    /// Memory limit in MiB.
    #[arg(short, long = "memory-mb", default_value_t = 64)]
    pub memory_mb: u64,
    /// Size of the flash tier in MiB.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub flash_mb: u64,
    /// Number of keys [default: as many as make four times the flash with their values].
    #[arg(long, value_parser = clap::value_parser!(u32).range(100..=1 << 30))]
    pub keys: Option<u32>,
    /// The content of values after their key and version: random, made:RATIO, records:FILE or FILE.
    #[arg(long, value_name = "CHOICE", default_value = "made:3")]
    pub values: ValueChoice,
    /// The most requests of a round before the server is ended; the number is drawn up to this
    /// [default: a quarter of the keys].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// The most requests a second while keys are stored and before the server is ended; 0:
    /// unlimited. At full speed most items are evicted before they reach flash.
    #[arg(long, default_value_t = 20_000)]
    pub rate: u64,
    /// Connections, each with its own keys.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub connections: u32,
    /// Seed of requests, values, and the times at which the server is ended.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder of the flash tier's file [default: the folder of temporary files].
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Keep the flash tier's file.
    #[arg(long)]
    pub keep: bool,
    /// Every this many rounds the server is asked to end by SIGTERM instead; 0: never.
    #[arg(long, default_value_t = 5)]
    pub terminate_every: u64,
    /// Every this many rounds the server is killed once more just after its restart; 0: never.
    #[arg(long, default_value_t = 7)]
    pub interrupt_every: u64,
    /// Every this many rounds everything is flushed first and half of the keys stored anew; 0:
    /// never.
    #[arg(long, default_value_t = 10)]
    pub flush_every: u64,
    /// Share of the items on flash that must be found again in each round.
    #[arg(long, default_value_t = 0.95, value_parser = share)]
    pub found_share_min: f64,
    /// Start the server without a flash tier: then nothing may be found, except by --memory-file.
    #[arg(long)]
    pub no_flash: bool,
    /// Give the server without flash a memory file: items in memory must be found after SIGTERM,
    /// and none after a kill.
    #[arg(long, requires = "no_flash")]
    pub memory_file: bool,
    #[command(flatten)]
    pub report: ReportOptions,
    #[command(flatten)]
    pub servers_options: ServerOptions<LarderOptions>,
}

impl RestartOptions {
    /// Returns the number of keys for items of this mean size.
    pub fn keys(&self, item_bytes_mean: u64) -> u32 {
        let bytes = KEYS_OVER_FLASH * (self.flash_mb << 20);
        self.keys.unwrap_or_else(|| (bytes / item_bytes_mean).clamp(100, 1 << 30) as u32)
    }

    /// Returns the requests a second, if they are limited.
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate).filter(|rate| *rate > 0)
    }

    /// Returns the most requests of a round.
    pub fn requests(&self, keys: u32) -> u64 {
        self.requests.unwrap_or_else(|| (u64::from(keys) / KEYS_PER_REQUEST).max(1))
    }
}

/// Returns whether a round is one of every `every`.
pub fn is_due(round: u64, every: u64) -> bool {
    every > 0 && round.is_multiple_of(every)
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn every_third_round_is_due_and_none_of_every_zero() {
        let due = |every| (1..=7).filter(|round| is_due(*round, every)).collect::<Vec<_>>();
        assert_eq!(due(3), [3, 6]);
        assert_eq!(due(1), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(due(0), Vec::<u64>::new());
    }
}
