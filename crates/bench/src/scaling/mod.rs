//! `larder-bench scaling`: the gain from more worker threads.
//!
//! ```text
//!   cores    0 1 2 3            4 5 6 7
//!            server, -t THREADS <-- requests, 100 in flight on each of 64 connections -- client
//! ```
//!
//! Hardware threads of one core are in the same half.
//!
//! For each load, each number of threads and each server in turn: the server starts empty on one
//! half of the cores, is filled, and is then sent a closed loop from the other half. A lock that
//! all threads need, or a cache line that all write, shows as CPU time per request that grows with
//! the threads, long before throughput falls; so both are shown, with latency.
//!
//! Requests are dealt out to the connections in turn, so that all of them have equally many until
//! the end, and several threads ask for one key at a time, as with clients that share a cache. They
//! are made before anything is measured.
//!
//! Several requests are in flight, so servers of memcached's protocol are asked by meta commands.

mod loads;
mod report;

use clap::Args;
use hdrhistogram::Histogram;

use crate::arguments::each_once;
use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::load::found::Found;
use crate::load::job::{Check, Job, SILENCE_MAX};
use crate::load::schedule::Deal;
use crate::load::{self, CONNECTIONS_MAX, Senders};
use crate::machine::{self, Machine};
use crate::report::{self as reports, ReportOptions};
use crate::say;
use crate::server::Server;
use crate::server::held::Held;
use crate::server::recipe::{Kind, ProgramOptions, Recipe};
use crate::server::usage::CpuTime;
use crate::trace::copies::Copies;
use loads::{Load, Name};

/// The most worker threads, and with them the most requests.
const THREADS_MAX: u32 = 64;
/// Sending threads per worker thread, where there are cores for them. A client with far more sleeps
/// between replies, and waking it costs the server time.
const SENDERS: usize = 2;
const QUICK_ROUNDS: u64 = 1;
/// The most worker threads with `--quick`.
const QUICK_THREADS_MAX: u32 = 2;

/// The servers, their threads, and their loads.
#[derive(Debug, Args)]
pub struct ScalingOptions {
    /// The servers.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Larder, Kind::Memcached])]
    servers: Vec<Kind>,
    /// Worker threads of each server: several numbers, each in turn [default: 1, 2 and on by powers
    /// of two up to half the cores].
    #[arg(long, value_delimiter = ',', num_args = 1..,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    threads: Vec<u32>,
    /// The loads.
    #[arg(long, value_enum, value_delimiter = ',', num_args = 1.., default_values_t = Name::ALL)]
    loads: Vec<Name>,
    /// Connections, over all sending threads.
    #[arg(long, default_value_t = 64,
        value_parser = clap::value_parser!(u64).range(1..=CONNECTIONS_MAX as u64))]
    connections: u64,
    /// Requests in flight on each connection, filled up when half are answered.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    depth: u64,
    /// Cores of the servers [default: the first half].
    #[arg(long, value_delimiter = ',', num_args = 1..)]
    server_cores: Vec<usize>,
    /// Cores to send from [default: all others].
    #[arg(long, value_delimiter = ',', num_args = 1..)]
    client_cores: Vec<usize>,
    /// Repetitions of every measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// One round of few requests with one thread and two, as a smoke test.
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    programs: ProgramOptions,
}

/// The cores of the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cores {
    server: Vec<usize>,
    client: Vec<usize>,
}

/// One load on one server with one number of threads in one round.
#[derive(Debug)]
struct Sample {
    load: Name,
    server: String,
    command: String,
    threads: u32,
    /// From 0.
    round: u64,
    /// Counted requests of the trace.
    requests: u64,
    per_second: f64,
    /// Sets after a miss, which are not counted among the requests.
    fills_per_second: f64,
    /// Microseconds of the server's CPU time per request, including the sets after misses.
    server_us: f64,
    /// Cores kept busy by the server, and by the client.
    server_busy: f64,
    client_busy: f64,
    latency_us_p50: f64,
    latency_us_p99: f64,
    /// Hits per get, if there were gets.
    hit_ratio: Option<f64>,
    held: Held,
}

/// Runs the command.
pub fn run(options: &ScalingOptions) -> Outcome<()> {
    each_once("--loads", &options.loads)?;
    let recipes = options.programs.recipes(&options.servers)?;
    if let Some(recipe) = recipes.iter().find(|recipe| !recipe.takes_threads()) {
        let remedy = "larder and memcached can, and a --peer with {threads} in its command";
        let name = &recipe.name;
        return Err(Failure::Usage(format!("{name} cannot be told its threads: {remedy}")));
    }
    let cores =
        Cores::of(machine::cores_by_siblings()?, &options.server_cores, &options.client_cores);
    let threads = threads(options, cores.server.len());
    let machine = Machine::describe().with_sides(&cores.server, &cores.client);
    machine::pin_to(&cores.client)?;
    let (loads, samples) = measure_all(options, &recipes, &cores, &threads)?;
    let document = report::document(machine, options, &cores, &threads, (&loads, &samples));
    say::out(reports::text(&document))?;
    options.report.write(&document)
}

/// The numbers of threads, rising and each once.
fn threads(options: &ScalingOptions, server_cores: usize) -> Vec<u32> {
    let mut threads = options.threads.clone();
    if threads.is_empty() {
        let most = (server_cores as u32).clamp(2, THREADS_MAX);
        threads = (0..).map(|power| 1 << power).take_while(|threads| *threads <= most).collect();
    }
    threads.sort_unstable();
    threads.dedup();
    if options.quick {
        let least = threads[0].max(QUICK_THREADS_MAX);
        threads.retain(|threads| *threads <= least);
    }
    threads
}

impl Cores {
    /// Splits the available cores in halves, except for a side whose cores are given.
    fn of(all: Vec<usize>, server: &[usize], client: &[usize]) -> Cores {
        let rest = |taken: &[usize]| -> Vec<usize> {
            let rest: Vec<usize> = all.iter().copied().filter(|it| !taken.contains(it)).collect();
            // If no core is left, both sides share all of them.
            if rest.is_empty() { all.clone() } else { rest }
        };
        let server = match (server.is_empty(), client.is_empty()) {
            (false, _) => server.to_vec(),
            (true, false) => rest(client),
            (true, true) => all[..all.len().div_ceil(2)].to_vec(),
        };
        let client = if client.is_empty() { rest(&server) } else { client.to_vec() };
        Cores { server, client }
    }

    /// Returns the cores that send to this many worker threads.
    fn senders(&self, threads: u32) -> Vec<usize> {
        let senders = self.client.len().min(SENDERS * threads as usize);
        self.client[..senders].to_vec()
    }
}

/// Runs all rounds of each load, with servers in an order that rotates; also returns the loads'
/// descriptions.
fn measure_all(
    options: &ScalingOptions,
    recipes: &[Recipe],
    cores: &Cores,
    threads: &[u32],
) -> Outcome<(Vec<String>, Vec<Sample>)> {
    let rounds = if options.quick { QUICK_ROUNDS } else { options.rounds };
    let steps = rounds * (options.loads.len() * threads.len() * recipes.len()) as u64;
    let progress = reports::progress(steps);
    let most = *threads.last().expect("there is a number of threads");
    let (mut loads, mut samples) = (Vec::new(), Vec::new());
    for &name in &options.loads {
        progress.set_message(format!("making {name}"));
        let load = Load::make(name, most, options.quick)?;
        loads.push(report::in_words(&load, threads));
        for round in 0..rounds {
            for &threads in threads {
                let trace = load.trace(threads);
                for place in 0..recipes.len() {
                    let recipe = &recipes[(place + round as usize) % recipes.len()];
                    progress.set_message(format!("{name}, {} -t {threads}", recipe.name));
                    let recipe = recipe.clone().with_threads(threads);
                    let server = Server::start(&recipe, load.memory_mb, &cores.server)?;
                    let senders = cores.senders(threads);
                    let sample = measure(options, &server, &load, &trace, senders)
                        .map_err(|failure| server.explain(failure))?;
                    samples.push(Sample { threads, round, ..sample });
                    progress.inc(1);
                }
            }
        }
    }
    progress.finish_and_clear();
    Ok((loads, samples))
}

/// Fills a server and sends the counted requests.
fn measure(
    options: &ScalingOptions,
    server: &Server,
    load: &Load,
    trace: &Copies,
    cores: Vec<usize>,
) -> Outcome<Sample> {
    let job = Job {
        protocol: Protocol::of(server.dialect, server.has_meta, options.depth as usize, None),
        trace,
        values: &load.values,
        fills_misses: true,
        depth: options.depth as usize,
        per_second: None,
        warm_up: load.fill,
        check: Check::Whole,
        silence_max: SILENCE_MAX,
    };
    let senders = Senders { connections: options.connections as usize, cores, deal: Deal::InTurn };
    let server_cpu = || CpuTime::of(server.pid());
    let (found, [before, after]) = load::run_noting(&job, server.address, &senders, server_cpu)?;
    let server_ns = after.since_ns(before)? as f64;
    found.all_done(&server.name)?;
    let timed = found.timed();
    let (requests, elapsed_ns) = (timed.asked(), found.elapsed().as_nanos().max(1) as f64);
    let waited_ns = all_ns(&found)?;
    let waited_us = |share| waited_ns.value_at_quantile(share) as f64 / 1e3;
    Ok(Sample {
        load: load.name,
        server: server.name.clone(),
        command: server.command_line.clone(),
        threads: 0,
        round: 0,
        requests: found.counts.asked(),
        per_second: found.per_second(requests),
        fills_per_second: found.per_second(timed.fills),
        server_us: server_ns / requests.max(1) as f64 / 1e3,
        server_busy: server_ns / elapsed_ns,
        client_busy: found.cpu_ns as f64 / elapsed_ns,
        latency_us_p50: waited_us(0.5),
        latency_us_p99: waited_us(0.99),
        hit_ratio: (found.counts.gets > 0).then(|| found.hit_ratio()),
        held: Held::of(server)?,
    })
}

/// Returns the latencies of all kinds of requests.
fn all_ns(found: &Found) -> Outcome<Histogram<u64>> {
    let mut all = found.get_ns.clone();
    let too_long = |_| Failure::Reply("latencies of gets and sets do not add up".into());
    all.add(&found.other_ns).map_err(too_long)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::Cores;

    fn cores(all: usize, server: &[usize], client: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let Cores { server, client } = Cores::of((0..all).collect(), server, client);
        (server, client)
    }

    #[test]
    fn each_side_has_a_half_unless_it_is_said() {
        assert_eq!(cores(16, &[], &[]), ((0..8).collect(), (8..16).collect()));
        assert_eq!(cores(2, &[], &[]), (vec![0], vec![1]));
        assert_eq!(cores(3, &[], &[]), (vec![0, 1], vec![2]));
        assert_eq!(cores(4, &[3], &[]), (vec![3], vec![0, 1, 2]));
        assert_eq!(cores(4, &[], &[0]), (vec![1, 2, 3], vec![0]));
        assert_eq!(cores(4, &[1], &[1]), (vec![1], vec![1]));
    }

    #[test]
    fn a_single_core_is_shared() {
        let single = Cores::of(vec![5], &[], &[]);
        assert_eq!((&single.server, &single.client), (&vec![5], &vec![5]));
    }

    #[test]
    fn more_threads_are_sent_requests_from_more_cores() {
        let cores = Cores::of((0..16).collect(), &[], &[]);
        assert_eq!([1, 2, 4, 8].map(|threads| cores.senders(threads).len()), [2, 4, 8, 8]);
    }
}
