//! The comparison by traffic: a trace or a workload sent to each server in turn.
//!
//! Every server gets the same memory limit, one thread and the same core, and starts empty in every
//! round; only one of them runs at a time. A get that misses is followed by a store at once, as by
//! a client that caches a database's results, unless the workload says otherwise. Every hit is
//! compared with the stored value, except those of objects that the trace changes in place.
//!
//! A memory limit does not mean the same to every server: memcached and Redis leave out parts of
//! their memory. So resident memory is shown beside the hits.

use clap::Args;

use super::{MIB, trace_report};
use crate::amounts::Amounts;
use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::load::found::Found;
use crate::load::job::Job;
use crate::load::pace::PaceOptions;
use crate::load::{self, Senders};
use crate::machine::{self, Machine};
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::Server;
use crate::server::held::Held;
use crate::server::recipe::{Kind, Recipe, ServerOptions};
use crate::server::usage::CpuTime;
use crate::trace::copies::{Copies, CopyOptions};
use crate::values::{self, ValueOptions, Values};
use crate::workload::requests::Requests;

/// Rounds and requests with `--quick`.
const QUICK_ROUNDS: u64 = 1;
const QUICK_REQUESTS: u64 = 200_000;

/// The default share of a trace that fills a server before requests are counted.
const WARM_UP: f64 = 0.2;

/// The traffic, the servers, and their memory.
#[derive(Debug, Args)]
pub struct TraceOptions {
    /// The trace file, or "make" and the options of a workload in one argument.
    trace: Requests,
    /// The servers to compare.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Larder, Kind::Memcached, Kind::Redis])]
    servers: Vec<Kind>,
    /// Memory limits of each server in whole MiB or percent of all keys and values: `16,64`,
    /// `1..64` (doubling), `5%` (rounded to MiB).
    #[arg(short, long, alias = "memory-mb", value_name = "SIZES", default_value = "64")]
    memory: Amounts,
    /// Repetitions of every measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// One round of few requests, as a smoke test.
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    #[command(flatten)]
    pub pace: PaceOptions,
    #[command(flatten)]
    copies: CopyOptions,
    #[command(flatten)]
    values: ValueOptions,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    servers_options: ServerOptions,
}

/// One server with one memory limit in one round.
#[derive(Debug)]
pub struct Sample {
    /// The server's name.
    pub server: String,
    /// Its command line.
    pub command_line: String,
    /// Its memory limit.
    pub memory_mb: u64,
    /// The round, from 0.
    pub round: u64,
    /// The client's results.
    pub found: Found,
    /// Its contents at the end.
    pub held: Held,
    /// CPU seconds of the server for counted requests, fills included, per million requests of the
    /// trace.
    pub server_cpu: f64,
    /// CPU seconds of the client, likewise.
    pub client_cpu: f64,
}

impl TraceOptions {
    /// Returns whether an object is stored after a miss.
    pub fn fills_misses(&self) -> bool {
        self.trace.fills_misses()
    }
}

/// Runs the command.
pub fn run(options: &TraceOptions) -> Outcome<()> {
    if options.servers.contains(&Kind::Null) {
        return Err(Failure::Usage("the null server keeps no items".into()));
    }
    let recipes = options.servers_options.recipes(&options.servers)?;
    let quick_limit = if options.quick { QUICK_REQUESTS } else { u64::MAX };
    let limit = options.pace.limit.unwrap_or(u64::MAX).min(quick_limit);
    let limit = options.copies.limit(limit);
    let mut trace = options.copies.of(options.trace.read_first(Some(limit), None)?)?;
    let values = Values::attach(&options.values, &mut trace, options.trace.seed())?;
    let data_bytes = values::data_bytes(trace.iter(), trace.objects());
    let limits_mb = limits_mb(&options.memory, data_bytes);
    machine::check_memory(limits_mb.last().map_or(0, |largest| largest.saturating_mul(1 << 20)))?;
    let samples = measure_all(options, &recipes, &limits_mb, &trace, &values)?;
    let document = trace_report::document(
        Machine::describe().with_sides(
            &options.servers_options.server_cores,
            &[options.servers_options.client_core],
        ),
        options,
        &trace,
        data_bytes,
        &samples,
    );
    say::out(report::text(&document))?;
    options.report.write(&document)
}

/// Returns memory limits in MiB, the unit of the servers' options, rising and each once.
fn limits_mb(memory: &Amounts, data_bytes: u64) -> Vec<u64> {
    let limits = memory.resolve(1 << 20, data_bytes);
    let mut limits: Vec<u64> =
        limits.iter().map(|bytes| ((*bytes as f64 / MIB).round() as u64).max(1)).collect();
    limits.dedup();
    limits
}

/// Runs all rounds, each server in turn, in an order that rotates.
fn measure_all(
    options: &TraceOptions,
    recipes: &[Recipe],
    limits_mb: &[u64],
    trace: &Copies,
    values: &Values,
) -> Outcome<Vec<Sample>> {
    let rounds = if options.quick { QUICK_ROUNDS } else { options.rounds };
    machine::pin(options.servers_options.client_core)?;
    let steps = rounds * (limits_mb.len() * recipes.len()) as u64;
    let progress = report::progress(steps);
    let mut samples = Vec::new();
    for round in 0..rounds {
        for memory_mb in limits_mb {
            for place in 0..recipes.len() {
                let recipe = &recipes[(place + round as usize) % recipes.len()];
                progress.set_message(format!("{} -m {memory_mb}", recipe.name));
                samples.push(measure(options, recipe, *memory_mb, round, trace, values)?);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(samples)
}

/// Starts a server, sends the whole trace to it, and ends it.
fn measure(
    options: &TraceOptions,
    recipe: &Recipe,
    memory_mb: u64,
    round: u64,
    trace: &Copies,
    values: &Values,
) -> Outcome<Sample> {
    let server = Server::start(recipe, memory_mb, &options.servers_options.server_cores)?;
    let depth = options.pace.depth as usize;
    let protocol = Protocol::of(server.dialect, server.has_meta, depth, options.pace.rate);
    let job = Job {
        fills_misses: options.fills_misses(),
        ..options.pace.job(protocol, trace, values, WARM_UP)
    };
    let senders = Senders::here(options.pace.connections as usize);
    let server_cpu = || CpuTime::of(server.pid());
    let (found, [before, after]) = load::run_noting(&job, server.address, &senders, server_cpu)
        .map_err(|error| server.explain(error))?;
    let client_ns = found.cpu_ns as f64;
    let server_ns = after.since_ns(before)? as f64;
    let requests = found.timed().asked().max(1) as f64;
    Ok(Sample {
        server: server.name.clone(),
        command_line: server.command_line.clone(),
        memory_mb,
        round,
        held: Held::of(&server)?,
        server_cpu: server_ns / requests / 1e3,
        client_cpu: client_ns / requests / 1e3,
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::limits_mb;

    #[test]
    fn limits_are_whole_mebibytes() {
        let limits = |text: &str, data| limits_mb(&text.parse().expect("sizes"), data);
        assert_eq!(limits("64,9", 0), [9, 64]);
        assert_eq!(limits("5%,10%,20%", 100 << 20), [5, 10, 20]);
        // 0.5, 2.25 and 2.5 MiB.
        assert_eq!(limits("1%,4.5%,5%", 50 << 20), [1, 2, 3]);
    }
}
