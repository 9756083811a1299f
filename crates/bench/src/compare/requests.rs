//! The comparison by requests: fixed ways of reading and writing keys that are all stored.
//!
//! All servers run at once, each with one thread on the same core; only one is measured at a time,
//! and an idle server costs nothing. The client has the other core. In every round each workload
//! goes to each server, in an order that rotates, so that a machine that grows slower in the
//! meantime does not disadvantage one server. Ratios are taken within a round.
//!
//! With `--tls` everything goes through TLS 1.3, except filling and asking for statistics.
//!
//! The figure to trust is CPU time of the server per million keys: unlike throughput it depends
//! neither on the client's speed nor on the machine's other work.

use clap::{Args, Command, FromArgMatches};

use super::requests_report;
use super::workload::{Name, Sample, Workload};
use crate::arguments::each_once;
use crate::drive::command::ItemOptions;
use crate::drive::encode::Dialect;
use crate::drive::script::Script;
use crate::failure::{Failure, Outcome};
use crate::machine::{self, Machine};
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::Server;
use crate::server::held::Held;
use crate::server::identity::Identity;
use crate::server::recipe::{Kind, Recipe, ServerOptions};

/// The servers, and those over TLS.
const SERVERS: [Kind; 4] = [Kind::Larder, Kind::Memcached, Kind::Redis, Kind::Null];
const SERVERS_TLS: [Kind; 2] = [Kind::Larder, Kind::Memcached];

/// Rounds, keys and requests with `--quick`: enough for a smoke test.
const QUICK_ROUNDS: u64 = 2;
const QUICK_KEYS: u64 = 50_000;
const QUICK_REQUESTS: u64 = 20_000;
const QUICK_PIPELINED: u64 = 200_000;

/// What to compare, and how long.
#[derive(Debug, Clone, Args)]
pub struct RequestsOptions {
    /// The servers to compare [default: larder,memcached,redis,null; over TLS the first two].
    #[arg(long, value_enum, value_delimiter = ',')]
    pub servers: Vec<Kind>,
    /// The workloads to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Name::ALL)]
    pub workloads: Vec<Name>,
    /// Repetitions of every measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// Requests of each unpipelined workload in each round.
    #[arg(long, default_value_t = 300_000)]
    pub requests: u64,
    /// Keys of each pipelined or multiget workload in each round.
    #[arg(long, default_value_t = 2_000_000)]
    pub keys_pipelined: u64,
    /// Connections of the unpipelined workloads.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub connections: u64,
    /// Connections of the pipelined and multiget workloads.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub connections_pipelined: u64,
    /// Memory limit of each server in MiB.
    #[arg(short, long = "memory-mb", default_value_t = 1024)]
    memory_mb: u64,
    /// Over TLS 1.3, all with one suite and one certificate. Larder and memcached only.
    #[arg(long)]
    pub tls: bool,
    /// Small counts, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    pub items: ItemOptions,
    #[command(flatten)]
    servers_options: ServerOptions,
}

/// Runs the command.
pub fn run(options: &RequestsOptions) -> Outcome<()> {
    each_once("--workloads", &options.workloads)?;
    let mut options = options.clone();
    if options.quick {
        options.rounds = options.rounds.min(QUICK_ROUNDS);
        options.requests = options.requests.min(QUICK_REQUESTS);
        options.keys_pipelined = options.keys_pipelined.min(QUICK_PIPELINED);
        options.items.key_count = options.items.key_count.min(QUICK_KEYS);
    }
    let machine = Machine::describe()
        .with_sides(&options.servers_options.server_cores, &[options.servers_options.client_core]);
    options.servers = servers(&options.servers, options.tls)?;
    let identity = options.tls.then(Identity::new).transpose()?;
    let servers = start_all(&options, identity.as_ref())?;
    let workloads: Vec<Workload> = options.workloads.iter().map(|name| name.workload()).collect();
    let scripts = Scripts::new(&options, &servers, &workloads);
    let samples = measure_all(&options, &servers, identity.as_ref(), &workloads, &scripts)?;
    let held: Vec<Held> = servers.iter().map(Held::of).collect::<Outcome<_>>()?;
    let document = requests_report::document(machine, &options, &servers, &samples, &held);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

impl RequestsOptions {
    /// Returns whether these options are those of the targets, which are the default ones: by the
    /// work, and with rounds enough.
    pub fn are_of_targets(&self) -> bool {
        let command = Self::augment_args(Command::new("compare").no_binary_name(true));
        let matches = command.try_get_matches_from([""; 0]).expect("no option is required");
        let default = Self::from_arg_matches(&matches).expect("the parser has checked them");
        let work = |it: &Self| {
            let connections = (it.connections, it.connections_pipelined);
            (it.items.clone(), it.requests, it.keys_pipelined, connections, it.tls)
        };
        self.rounds >= default.rounds
            && work(self) == work(&default)
            && self.servers_options.is_larder_as_it_comes()
    }
}

/// Returns the servers that are given, or else all that there are.
fn servers(given: &[Kind], tls: bool) -> Outcome<Vec<Kind>> {
    let all: &[Kind] = if tls { &SERVERS_TLS } else { &SERVERS };
    match given.iter().find(|kind| !all.contains(kind)) {
        Some(kind) => Err(Failure::Usage(format!("{kind} is not compared over TLS"))),
        None => Ok(if given.is_empty() { all } else { given }.to_vec()),
    }
}

/// Finds all binaries before the first is started, then starts and fills all.
fn start_all(options: &RequestsOptions, identity: Option<&Identity>) -> Outcome<Vec<Server>> {
    let recipes = options.servers_options.recipes(&options.servers)?;
    // All of them run at once, and only the null server keeps nothing.
    let keepers = recipes.iter().filter(|recipe| recipe.kind != Kind::Null).count() as u64;
    machine::check_memory(options.memory_mb.saturating_mul(keepers << 20))?;
    let with_shape = |recipe: Recipe| match recipe.kind {
        Kind::Null => null_recipe(recipe, &options.items),
        _ => recipe,
    };
    let recipes: Vec<Recipe> = recipes.into_iter().map(with_shape).collect();
    machine::pin(options.servers_options.client_core)?;
    let progress = report::progress(recipes.len() as u64);
    let mut servers = Vec::new();
    for recipe in &recipes {
        progress.set_message(format!("filling {}", recipe.name));
        let cores = &options.servers_options.server_cores;
        let server = match identity {
            None => Server::start(recipe, options.memory_mb, cores)?,
            Some(identity) => identity.start(recipe, options.memory_mb, cores)?,
        };
        if recipe.kind != Kind::Null {
            let filled = options.items.fill(server.address, server.dialect);
            filled.map_err(|failure| server.explain(failure))?;
        }
        servers.push(server);
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(servers)
}

fn null_recipe(recipe: Recipe, items: &ItemOptions) -> Recipe {
    let (key_bytes, value_bytes) = (items.key_bytes, items.value_bytes);
    recipe.with([format!("--key-bytes {key_bytes} --value-bytes {value_bytes}")])
}

/// One script for each dialect, operation and number of keys per request.
struct Scripts(Vec<Script>);

impl Scripts {
    fn new(options: &RequestsOptions, servers: &[Server], workloads: &[Workload]) -> Scripts {
        let mut scripts = Scripts(Vec::new());
        for dialect in [Dialect::Text, Dialect::Resp] {
            if !servers.iter().any(|server| server.dialect == dialect) {
                continue;
            }
            for workload in workloads {
                let requests = options.keys_pipelined.max(options.requests);
                if scripts.position(dialect, workload).is_none() {
                    let keys = workload.keys_per_request;
                    let operation = workload.operation;
                    scripts.0.push(options.items.script(dialect, operation, keys, requests));
                }
            }
        }
        scripts
    }

    fn position(&self, dialect: Dialect, workload: &Workload) -> Option<usize> {
        self.0.iter().position(|script| {
            script.dialect() == dialect
                && script.operation() == workload.operation
                && script.keys_per_request() == workload.keys_per_request
        })
    }

    fn get(&self, dialect: Dialect, workload: &Workload) -> &Script {
        let position = self.position(dialect, workload);
        &self.0[position.expect("there is a script for every workload and dialect")]
    }
}

/// Runs all rounds.
fn measure_all(
    options: &RequestsOptions,
    servers: &[Server],
    identity: Option<&Identity>,
    workloads: &[Workload],
    scripts: &Scripts,
) -> Outcome<Vec<Sample>> {
    let progress = report::progress(options.rounds * (workloads.len() * servers.len()) as u64);
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for workload in workloads {
            for place in 0..servers.len() {
                let server = &servers[(place + round as usize) % servers.len()];
                progress.set_message(format!("{} {}", workload.name, server.name));
                if workload.suits(server.kind) {
                    let script = scripts.get(server.dialect, workload);
                    let route = Identity::route(identity, server);
                    let sample = workload.measure(options, server, route, script, round);
                    samples.push(sample.map_err(|failure| server.explain(failure))?);
                }
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::{RequestsOptions, SERVERS, SERVERS_TLS, servers};
    use crate::server::recipe::Kind;

    /// Regression: a server that speaks no TLS was left out of the report without a word.
    #[test]
    fn a_server_without_tls_is_refused_over_tls_and_left_out_only_by_default() {
        assert_eq!(servers(&[], false).expect("all"), SERVERS);
        assert_eq!(servers(&[], true).expect("those with TLS"), SERVERS_TLS);
        assert_eq!(servers(&[Kind::Null], false).expect("one"), [Kind::Null]);
        let refused = servers(&[Kind::Larder, Kind::Redis], true).expect_err("it has no TLS");
        assert_eq!((refused.exit_code(), refused.to_string().contains("redis")), (2, true));
    }

    /// Regression: a smoke test of few keys reported that four promises were broken, which are of a
    /// million keys.
    #[test]
    fn targets_are_judged_with_the_work_that_they_are_of_and_no_other() {
        let options = |arguments: &[&str]| {
            let command = Command::new("compare").no_binary_name(true);
            let matches = RequestsOptions::augment_args(command).try_get_matches_from(arguments);
            RequestsOptions::from_arg_matches(&matches.expect("valid")).expect("valid")
        };
        assert!(options(&[]).are_of_targets());
        assert!(options(&["--rounds", "9", "--servers", "larder,null"]).are_of_targets());
        for other in ["--keys=9", "--value-bytes=9", "--choice=zipfian", "--connections=9"] {
            assert!(!options(&[other]).are_of_targets(), "{other}");
        }
        for other in ["--rounds=1", "--larder-args=-v", "--requests=9", "--tls"] {
            assert!(!options(&[other]).are_of_targets(), "{other}");
        }
    }
}
