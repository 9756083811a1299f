//! `larder-bench drive`: the load generator alone, against any running server.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;

use crate::drive::choice::{Choice, draw};
use crate::drive::encode::{Dialect, Operation};
use crate::drive::fill::Filler;
use crate::drive::items::{KEY_BYTES_MAX, KEY_BYTES_MIN, Shape};
use crate::drive::script::{SCRIPT_BYTES_MAX, SCRIPT_KEYS_MAX, Script};
use crate::drive::{CONNECTIONS_MAX, Driver};
use crate::failure::{Failure, Outcome};
use crate::say;

/// The items of a run, and how it chooses among them.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ItemOptions {
    /// Number of different keys.
    #[arg(long = "keys", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub key_count: u64,
    /// Bytes of every key.
    #[arg(long, default_value_t = 24,
        value_parser = clap::value_parser!(u64).range(KEY_BYTES_MIN as u64..=KEY_BYTES_MAX as u64))]
    pub key_bytes: u64,
    /// Bytes of every value.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub value_bytes: u64,
    /// How keys are chosen.
    #[arg(long, value_enum, default_value_t = Choice::Uniform)]
    pub choice: Choice,
    /// The seed of all choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl ItemOptions {
    /// Returns the form of the items.
    pub fn shape(&self) -> Shape {
        Shape::fixed(self.key_bytes as usize, self.value_bytes as usize)
    }

    /// Returns a script for this many requests, or for as many as a script holds.
    pub fn script(
        &self,
        dialect: Dialect,
        operation: Operation,
        keys_per_request: usize,
        requests: u64,
    ) -> Script {
        let wanted = requests.saturating_mul(keys_per_request as u64);
        let draws = wanted.min(self.draws_max(operation)) as usize;
        let asked = draw(self.choice, self.key_count, draws.max(keys_per_request), self.seed);
        Script::new(dialect, operation, self.shape(), keys_per_request, asked)
    }

    /// Returns the most keys that a script draws.
    pub fn draws_max(&self, operation: Operation) -> u64 {
        let value_bytes = if operation == Operation::Set { self.value_bytes } else { 0 };
        let fitting = SCRIPT_BYTES_MAX as u64 / (self.key_bytes + value_bytes);
        fitting.min(SCRIPT_KEYS_MAX as u64)
    }

    /// Stores every key once.
    pub fn fill(&self, address: SocketAddr, dialect: Dialect) -> Outcome<()> {
        let shape = self.shape();
        let mut filler = Filler::connect(address, dialect)?;
        for index in 0..self.key_count {
            filler.store(&shape, index)?;
        }
        let tally = filler.finish(&shape)?;
        if tally.refused > 0 {
            return Err(Failure::Reply(format!("{} sets were refused", tally.refused)));
        }
        Ok(())
    }
}

/// Sends one workload to a running server and prints the results as JSON.
#[derive(Debug, Args)]
pub struct DriveOptions {
    /// The server's address.
    #[arg(long, default_value = "127.0.0.1:11211", value_parser = crate::arguments::address)]
    address: SocketAddr,
    /// The protocol to speak.
    #[arg(long, value_enum, default_value_t = Dialect::Text)]
    dialect: Dialect,
    /// The operation of each request.
    #[arg(long, value_enum, default_value_t = Operation::Get)]
    operation: Operation,
    /// Requests sent in one write before their replies are awaited.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pipeline: u64,
    /// Keys named by each get.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    keys_per_request: u64,
    /// Number of connections.
    #[arg(long, default_value_t = 50,
        value_parser = clap::value_parser!(u64).range(1..=CONNECTIONS_MAX as u64))]
    connections: u64,
    /// Requests to send, in whole batches.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Store every key before the run.
    #[arg(long)]
    fill: bool,
    #[command(flatten)]
    items: ItemOptions,
}

/// Runs the command.
pub fn run(options: &DriveOptions) -> Outcome<()> {
    let items = &options.items;
    if options.operation == Operation::Set && options.keys_per_request > 1 {
        return Err(Failure::Usage(
            "a set names one key: --keys-per-request is that of gets".into(),
        ));
    }
    if options.fill {
        items.fill(options.address, options.dialect)?;
    }
    let keys_per_request = options.keys_per_request as usize;
    let script =
        items.script(options.dialect, options.operation, keys_per_request, options.requests);
    let (pipeline, connections) = (options.pipeline as usize, options.connections as usize);
    let mut driver = Driver::connect(options.address, &script, pipeline, connections)?;
    let run = driver.run(options.requests, true)?;
    let seconds = run.elapsed.as_secs_f64();
    let found = json!({
        "requests": run.requests,
        "keys": run.keys,
        "hits": run.tally.hits,
        "stored": run.tally.stored,
        "hits_checked": run.tally.checked,
        "seconds": seconds,
        "keys_per_second": run.keys as f64 / seconds,
        "latency_us_p50": run.latency_ns.value_at_quantile(0.5) as f64 / 1e3,
        "latency_us_p99": run.latency_ns.value_at_quantile(0.99) as f64 / 1e3,
        "seed": items.seed,
    });
    say::out(format_args!("{found:#}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ItemOptions;
    use crate::drive::choice::Choice;
    use crate::drive::encode::{Dialect, Operation};
    use crate::drive::script::{SCRIPT_BYTES_MAX, SCRIPT_KEYS_MAX};

    fn items(value_bytes: u64) -> ItemOptions {
        ItemOptions { key_count: 10, key_bytes: 24, value_bytes, choice: Choice::Uniform, seed: 1 }
    }

    /// Regression: a million sets of 100 KB took 100 GB.
    #[test]
    fn a_script_of_long_values_has_fewer_requests() {
        assert_eq!(items(32).draws_max(Operation::Set), SCRIPT_KEYS_MAX as u64);
        assert_eq!(items(1_000_000).draws_max(Operation::Get), SCRIPT_KEYS_MAX as u64);
        for value_bytes in [1000, 100_000, 1_000_000] {
            let draws = items(value_bytes).draws_max(Operation::Set);
            assert!(draws >= 100 && draws * value_bytes <= SCRIPT_BYTES_MAX as u64, "{draws}");
        }
        let script = items(1_000_000).script(Dialect::Text, Operation::Set, 1, 2);
        assert_eq!(script.requests(), 2, "no more than are wanted");
    }
}
