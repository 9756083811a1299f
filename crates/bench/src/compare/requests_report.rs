//! The report of the comparison by requests: per workload and server the spread over rounds, the
//! ratios that Larder's targets are about, what the servers hold, and every single measurement.

use super::MIB;
use super::requests::RequestsOptions;
use super::workload::{Name, Sample};
use crate::load::exchange::Protocol;
use crate::machine::Machine;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::server::Server;
use crate::server::held::Held;
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

/// Sums up the samples of all rounds.
pub fn document(
    machine: Machine,
    options: &RequestsOptions,
    servers: &[Server],
    samples: &[Sample],
    held: &[Held],
) -> Document {
    let rows = options.workloads.iter().flat_map(|workload| {
        servers.iter().filter_map(|server| Row::new(*workload, &server.name, samples))
    });
    let rows: Vec<Row> = rows.collect();
    let ratios = TARGETS.iter().filter_map(|one| Ratio::new(one, samples));
    // What is aimed at is without TLS, most of which costs every server the same.
    let without_aim = |ratio| match options.tls {
        true => Ratio { target: None, met: None, ..ratio },
        false => ratio,
    };
    let ratios: Vec<Ratio> = ratios.map(without_aim).collect();
    let mut sections = vec![costs(&rows)];
    if !ratios.is_empty() {
        sections.push(aims(&ratios));
    }
    sections.push(holdings(servers, held));
    sections.push(rounds(options, servers, samples));
    let title = "Larder, its peers and a null server under the same client".to_owned();
    Document { title, machine, facts: facts(options, servers), sections }
}

fn facts(options: &RequestsOptions, servers: &[Server]) -> Vec<(String, String)> {
    let items = &options.items;
    let lines = servers.iter().map(|server| ("server".to_owned(), server.command_line.clone()));
    let choice = format!("{:?}", items.choice).to_lowercase();
    let keys = format!("{} of {} bytes, {choice}", items.key_count, items.key_bytes);
    let more = [
        ("keys", keys),
        ("values", format!("{} bytes", items.value_bytes)),
        ("seed", items.seed.to_string()),
        ("tls", if options.tls { "1.3, AES-256-GCM, a key of ECDSA" } else { "no" }.to_owned()),
        ("rounds", format!("{}; medians, with (min..max)", options.rounds)),
    ];
    let more = more.map(|(name, value)| (name.to_owned(), value));
    lines.chain(more).chain([Protocol::fact(1, None)]).collect()
}

fn costs(rows: &[Row]) -> Section {
    let columns = [
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
    let mut section = Section::new("What a key costs", Vec::<String>::new());
    section.tables.push(Table::new("rows", &columns, rows.iter().map(Row::cells)));
    let mut words: Vec<String> = rows.iter().map(|row| row.workload.to_string()).collect();
    words.dedup();
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let word = words.iter().position(|word| *word == row.workload.to_string());
        let x = word.expect("every row's workload was collected") as f64;
        let (name, point) = (row.server.clone(), Point::spread(x, row.server_cpu));
        Series::add(&mut series, &name, point);
    }
    section.plots.push(Plot {
        name: "server-cpu".into(),
        title: "CPU time of the server for a million keys".into(),
        x: Axis::words("workload", words),
        y: Axis::logarithmic("CPU seconds / million keys"),
        series,
    });
    section
}

fn aims(ratios: &[Ratio]) -> Section {
    let columns = ["workload", "CPU ratio", "median (min..max)", "target", "met"];
    let mut section = Section::new("Ratios within a round", Vec::<String>::new());
    section.tables.push(Table::new("ratios", &columns, ratios.iter().map(Ratio::cells)));
    section
}

/// What is resident at the end. Every key fits in, so this is what the servers took for them.
fn holdings(servers: &[Server], held: &[Held]) -> Section {
    let text = "At the end: every key of the run, in resident memory that leaves nothing out.";
    let mut section = Section::new("What the servers hold", [text]);
    let rows = servers.iter().zip(held).map(|(server, held)| (server.name.as_str(), *held));
    section.tables.push(held_table(rows));
    section
}

/// What servers hold, a row for each that tells.
fn held_table<'s>(rows: impl Iterator<Item = (&'s str, Held)>) -> Table {
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
    Table::new("held", &columns, rows.map(row))
}

/// What every round gave: whether the machine was steady, and for whoever wants to reckon anew.
fn rounds(options: &RequestsOptions, servers: &[Server], samples: &[Sample]) -> Section {
    let mut section = Section::detail("Round by round");
    section.tables.push(raw(samples));
    for workload in &options.workloads {
        let series = servers.iter().map(|server| {
            let mine =
                samples.iter().filter(|s| s.workload == *workload && s.server == server.name);
            let points = mine.map(|sample| Point::exact(sample.round as f64, sample.server_cpu));
            Series { name: server.name.clone(), points: points.collect() }
        });
        section.plots.push(Plot {
            name: format!("rounds-{workload}"),
            title: format!("CPU time of the server, {workload}"),
            x: Axis::linear("round"),
            y: Axis::linear("CPU seconds / million keys"),
            series: series.filter(|series| !series.points.is_empty()).collect(),
        });
    }
    section
}

fn raw(samples: &[Sample]) -> Table {
    let columns = [
        "workload",
        "server",
        "round",
        "keys",
        "hits",
        "server CPU s / M keys",
        "client",
        "k keys/s",
        "p50 us",
        "p99 us",
    ];
    let row = |sample: &Sample| {
        vec![
            Cell::text(sample.workload.to_string()),
            Cell::text(sample.server.clone()),
            Cell::count(sample.round),
            Cell::count(sample.keys),
            Cell::count(sample.hits),
            Cell::number(sample.server_cpu, 3),
            Cell::number(sample.client_cpu, 3),
            Cell::number(sample.keys_per_second / 1e3, 0),
            Cell::number(sample.latency_us_p50, 0),
            Cell::number(sample.latency_us_p99, 0),
        ]
    };
    Table::new("rounds", &columns, samples.iter().map(row))
}

/// One workload on one server over all rounds.
#[derive(Debug)]
struct Row {
    workload: Name,
    server: String,
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
#[derive(Debug)]
struct Ratio {
    workload: Name,
    over: Kind,
    under: Kind,
    spread: Spread,
    target: Option<String>,
    met: Option<bool>,
}

impl Row {
    fn new(workload: Name, server: &str, samples: &[Sample]) -> Option<Row> {
        let mine = || samples.iter().filter(|s| s.workload == workload && s.server == server);
        mine().next()?;
        let spread = |field: fn(&Sample) -> f64| Spread::of(mine().map(field));
        let (hits, keys) = mine().fold((0, 0), |(hits, keys), s| (hits + s.hits, keys + s.keys));
        let reads = !matches!(workload, Name::Set | Name::SetPipelined);
        Some(Row {
            workload,
            server: server.to_owned(),
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

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.workload.to_string()),
            Cell::text(self.server.clone()),
            Cell::spread(self.server_cpu, 3),
            Cell::number(self.client_cpu.median, 3),
            Cell::number(self.keys_per_second.median / 1e3, 0),
            Cell::number(self.server_busy.median * 1e2, 0),
            Cell::number(self.client_busy.median * 1e2, 0),
            Cell::number(self.latency_us_p50.median, 0),
            Cell::number(self.latency_us_p99.median, 0),
            self.hit_share.map_or(Cell::Nothing, |share| Cell::number(share, 4)),
        ]
    }
}

impl Ratio {
    fn new(target: &Target, samples: &[Sample]) -> Option<Ratio> {
        let of = |kind: Kind| {
            let name = kind.to_string();
            move |sample: &&Sample| sample.workload == target.workload && sample.server == name
        };
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

    fn cells(&self) -> Vec<Cell> {
        let met = self.met.map(|met| Cell::text(if met { "yes" } else { "no" }));
        vec![
            Cell::text(self.workload.to_string()),
            Cell::Text(format!("{} / {}", self.over, self.under)),
            Cell::spread(self.spread, 2),
            self.target.clone().map_or(Cell::Nothing, Cell::Text),
            met.unwrap_or(Cell::Nothing),
        ]
    }
}
