//! The report of a comparison: per workload and server the spread over rounds, and the ratios that
//! Larder's targets are about.

use std::fmt;

use serde::Serialize;

use crate::compare::CompareOptions;
use crate::compare::workload::{Name, Sample};
use crate::drive::choice::Choice;
use crate::machine::Machine;
use crate::report::{self, Spread};
use crate::server::Server;
use crate::server::recipe::Kind;

/// A ratio of CPU time per key that Larder aims at.
struct Target {
    workload: Name,
    over: Kind,
    under: Kind,
    aim: Aim,
}

/// On which side of a bound a ratio should be.
#[derive(Debug, Clone, Copy)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
    /// For information.
    None,
}

/// memcached's pipelined gets are for information: Debian's version makes a system call for each
/// reply, and the target is against a later one.
const TARGETS: [Target; 6] = [
    target(Name::Multiget, Kind::Memcached, Kind::Larder, Aim::AtLeast(4.0)),
    target(Name::Multiget, Kind::Redis, Kind::Larder, Aim::AtLeast(2.5)),
    target(Name::GetPipelined, Kind::Redis, Kind::Larder, Aim::AtLeast(2.5)),
    target(Name::GetPipelined, Kind::Memcached, Kind::Larder, Aim::None),
    target(Name::Get, Kind::Larder, Kind::Null, Aim::AtMost(1.05)),
    target(Name::Set, Kind::Larder, Kind::Null, Aim::AtMost(1.05)),
];

const fn target(workload: Name, over: Kind, under: Kind, aim: Aim) -> Target {
    Target { workload, over, under, aim }
}

/// Everything that a comparison found.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    servers: Vec<String>,
    seed: u64,
    rounds: u64,
    keys: u64,
    key_bytes: u64,
    value_bytes: u64,
    choice: Choice,
    rows: Vec<Row>,
    ratios: Vec<Ratio>,
    samples: Vec<Sample>,
}

/// One workload on one server over all rounds.
#[derive(Debug, Serialize)]
struct Row {
    workload: Name,
    server: Kind,
    server_cpu: Spread,
    client_cpu: Spread,
    keys_per_second: Spread,
    server_busy: Spread,
    client_busy: Spread,
    latency_us_p50: Spread,
    latency_us_p99: Spread,
    /// Hits per key over all rounds; nothing for sets.
    hit_share: Option<f64>,
}

/// CPU time per key of one server over that of another, round by round.
#[derive(Debug, Serialize)]
struct Ratio {
    workload: Name,
    over: Kind,
    under: Kind,
    spread: Spread,
    target: Option<String>,
    met: Option<bool>,
}

impl Report {
    /// Sums up the samples of all rounds.
    pub fn new(
        machine: Machine,
        options: &CompareOptions,
        servers: &[Server],
        samples: &[Sample],
    ) -> Report {
        let items = &options.items;
        let rows = options.workloads.iter().flat_map(|workload| {
            servers.iter().filter_map(|server| Row::new(*workload, server.kind, samples))
        });
        Report {
            machine,
            servers: servers.iter().map(|server| server.command_line.clone()).collect(),
            seed: items.seed,
            rounds: options.rounds,
            keys: items.key_count,
            key_bytes: items.key_bytes,
            value_bytes: items.value_bytes,
            choice: items.choice,
            rows: rows.collect(),
            ratios: TARGETS.iter().filter_map(|target| Ratio::new(target, samples)).collect(),
            samples: samples.to_vec(),
        }
    }
}

impl Row {
    fn new(workload: Name, server: Kind, samples: &[Sample]) -> Option<Row> {
        let mine = || samples.iter().filter(|s| s.workload == workload && s.server == server);
        mine().next()?;
        let spread = |field: fn(&Sample) -> f64| Spread::of(mine().map(field));
        let (hits, keys) = mine().fold((0, 0), |(hits, keys), s| (hits + s.hits, keys + s.keys));
        let reads = !matches!(workload, Name::Set | Name::SetPipelined);
        Some(Row {
            workload,
            server,
            server_cpu: spread(|sample| sample.server_cpu),
            client_cpu: spread(|sample| sample.client_cpu),
            keys_per_second: spread(|sample| sample.keys_per_second),
            server_busy: spread(|sample| sample.server_busy),
            client_busy: spread(|sample| sample.client_busy),
            latency_us_p50: spread(|sample| sample.latency_us_p50),
            latency_us_p99: spread(|sample| sample.latency_us_p99),
            hit_share: reads.then_some(hits as f64 / keys as f64),
        })
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.workload.to_string(),
            self.server.to_string(),
            format!("{:.3}", self.server_cpu),
            format!("{:.3}", self.client_cpu.median),
            format!("{:.0}", self.keys_per_second.median / 1e3),
            format!("{:.0}", self.server_busy.median * 1e2),
            format!("{:.0}", self.client_busy.median * 1e2),
            format!("{:.0}", self.latency_us_p50.median),
            format!("{:.0}", self.latency_us_p99.median),
            self.hit_share.map_or_else(|| "-".to_owned(), |share| format!("{share:.4}")),
        ]
    }
}

impl Ratio {
    fn new(target: &Target, samples: &[Sample]) -> Option<Ratio> {
        let of = |kind| move |s: &&Sample| s.workload == target.workload && s.server == kind;
        let per_round: Vec<f64> = samples
            .iter()
            .filter(of(target.over))
            .filter_map(|over| {
                let mut under = samples.iter().filter(of(target.under));
                let under = under.find(|under| under.round == over.round)?;
                Some(over.server_cpu / under.server_cpu)
            })
            .collect();
        if per_round.is_empty() {
            return None;
        }
        let spread = Spread::of(per_round);
        let (text, met) = match target.aim {
            Aim::AtLeast(bound) => (Some(format!(">= {bound}")), Some(spread.median >= bound)),
            Aim::AtMost(bound) => (Some(format!("<= {bound}")), Some(spread.median <= bound)),
            Aim::None => (None, None),
        };
        let Target { workload, over, under, .. } = *target;
        Some(Ratio { workload, over, under, spread, target: text, met })
    }

    fn cells(&self) -> Vec<String> {
        let met = self.met.map_or("-", |met| if met { "yes" } else { "no" });
        vec![
            self.workload.to_string(),
            format!("{} / {}", self.over, self.under),
            format!("{:.2}", self.spread),
            self.target.clone().unwrap_or_else(|| "-".to_owned()),
            met.to_owned(),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.machine.lines())?;
        for server in &self.servers {
            writeln!(out, "server:  {server}")?;
        }
        let Report { seed, rounds, keys, key_bytes, value_bytes, choice, .. } = self;
        let choice = format!("{choice:?}").to_lowercase();
        writeln!(
            out,
            "{keys} keys of {key_bytes} bytes, values of {value_bytes}, {choice}, seed {seed}, \
             {rounds} rounds; medians, with (min..max)\n"
        )?;
        let header = [
            "workload",
            "server",
            "server CPU s / M keys",
            "client",
            "k keys/s",
            "server %",
            "client %",
            "p50 us",
            "p99 us",
            "hits",
        ];
        writeln!(out, "{}\n", report::table(&header, 2, self.rows.iter().map(Row::cells)))?;
        if self.ratios.is_empty() {
            return Ok(());
        }
        let header = ["workload", "CPU ratio", "median (min..max)", "target", "met"];
        write!(out, "{}", report::table(&header, 2, self.ratios.iter().map(Ratio::cells)))
    }
}
