//! The report of the comparison by requests: per workload and server the spread over rounds, the
//! ratios of Larder's targets, the servers' contents, and every single measurement.

use super::MIB;
use super::requests::RequestsOptions;
use super::workload::{Name, Sample};
use crate::drive::encode::Operation;
use crate::load::exchange::Protocol;
use crate::machine::Machine;
use crate::report::Spread;
use crate::report::bound::Bound::{self, AtLeast, AtMost};
use crate::report::bound::Verdict;
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::server::Server;
use crate::server::held::Held;
use crate::server::recipe::Kind;

/// The share of the keys that a server must have found for its CPU time to be judged.
const FOUND_SHARE_MIN: f64 = 0.999;

/// The least share of the time that one of the two sides runs where nothing else has their cores.
const BUSY_SHARE_MIN: f64 = 0.9;

/// A target ratio of CPU time per key.
struct Target {
    workload: Name,
    over: Kind,
    under: Kind,
    /// `None`: for information.
    aim: Option<Bound>,
}

/// memcached's pipelined gets are for information: Debian's version makes a system call for each
/// reply, and the target is for a later one.
const TARGETS: [Target; 6] = [
    target(Name::Multiget, Kind::Memcached, Kind::Larder, Some(AtLeast(4.0))),
    target(Name::Multiget, Kind::Redis, Kind::Larder, Some(AtLeast(2.5))),
    target(Name::GetPipelined, Kind::Redis, Kind::Larder, Some(AtLeast(2.5))),
    target(Name::GetPipelined, Kind::Memcached, Kind::Larder, None),
    target(Name::Get, Kind::Larder, Kind::Null, Some(AtMost(1.05))),
    target(Name::Set, Kind::Larder, Kind::Null, Some(AtMost(1.05))),
];

const fn target(workload: Name, over: Kind, under: Kind, aim: Option<Bound>) -> Target {
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
    let is_tested = options.are_of_targets();
    let judged = |ratio: Ratio| match (options.tls, is_tested) {
        // The targets are without TLS, most of which costs every server the same.
        (true, _) => Ratio { target: None, verdict: None, ..ratio },
        (false, false) => Ratio { verdict: ratio.verdict.map(|_| Judged::OtherOptions), ..ratio },
        (false, true) => ratio,
    };
    let ratios: Vec<Ratio> = ratios.map(judged).collect();
    let mut sections = vec![costs(&rows)];
    if !ratios.is_empty() {
        sections.push(aims(&ratios));
    }
    sections.push(holdings(options.items.key_count, servers, held));
    sections.push(rounds(options, servers, samples));
    let title = "Larder, its peers and a null server under the same client".to_owned();
    Document { title, machine, facts: facts(options, servers), sections }
}

fn facts(options: &RequestsOptions, servers: &[Server]) -> Vec<(String, String)> {
    let items = &options.items;
    let lines = servers.iter().map(|server| ("server".to_owned(), server.command_line.clone()));
    let choice = format!("{:?}", items.choice).to_lowercase();
    let draws = options.keys_pipelined.max(options.requests).min(items.draws_max(Operation::Get));
    let keys = format!(
        "{} of {} bytes, {choice}; at most {draws} draws of them are asked for, the same in every \
         round",
        items.key_count, items.key_bytes
    );
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
        "client CPU s / M keys",
        "k keys/s",
        "server %",
        "client %",
        "p50 us / write",
        "p99 us / write",
        "hits, percent",
    ];
    let text = "CPU time is that of the whole process for a million keys; the share of the time \
                that it ran shows which side held the other up. Latency is from writing a batch to \
                its last reply, and a batch has 100 keys where the workload's name says so.";
    let text = [text.to_owned()].into_iter().chain(idle_in_words(rows));
    let mut section = Section::new("What a key costs", text);
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

/// Names the first measurement in which neither side was busy.
fn idle_in_words(rows: &[Row]) -> Option<String> {
    let is_idle = |row: &&Row| row.server_busy.median.max(row.client_busy.median) < BUSY_SHARE_MIN;
    let Row { workload, server, server_busy, client_busy, .. } = rows.iter().find(is_idle)?;
    Some(format!(
        "Idle: in `{workload}` {server} ran for {:.0} % of the time and the client for {:.0} %. \
         Something else had their cores, or they waited for each other: throughput and latency \
         are of neither.",
        100.0 * server_busy.median,
        100.0 * client_busy.median
    ))
}

fn aims(ratios: &[Ratio]) -> Section {
    let columns = ["workload", "CPU ratio", "median (min..max)", "target", "met"];
    let text = "A target is met if it is in every round, and not if it is in none; else the \
                rounds do not tell. Nothing is judged where a server did not find the keys, or \
                with other keys, values, numbers or connections than by default: the targets are \
                of those.";
    let mut section = Section::new("Ratios within a round", [text]);
    section.tables.push(Table::new("ratios", &columns, ratios.iter().map(Ratio::cells)));
    section
}

/// The servers' items and resident memory at the end, per key where every key fits in.
fn holdings(keys: u64, servers: &[Server], held: &[Held]) -> Section {
    let text = held_in_words(keys, held);
    let mut section = Section::new("What the servers hold", [text]);
    let rows = servers.iter().zip(held).map(|(server, held)| (server.name.as_str(), *held));
    section.tables.push(held_table(rows));
    section
}

fn held_in_words(keys: u64, held: &[Held]) -> &'static str {
    match held.iter().filter_map(|held| held.counts).all(|counts| counts.items >= keys) {
        true => "At the end: every key of the run, in resident memory that leaves nothing out.",
        false => {
            "At the end: not every key of the run, in resident memory that leaves nothing out."
        }
    }
}

/// The contents of servers, a row for each that reports them.
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

/// The results of every round: to see whether the machine was steady, and to recalculate.
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
        "keys found",
        "server CPU s / M keys",
        "client CPU s / M keys",
        "k keys/s",
        "p50 us / write",
        "p99 us / write",
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
    /// Hits per key over all rounds; `None` for sets.
    hit_share: Option<f64>,
}

/// The ratio of two servers' CPU time per key, round by round.
#[derive(Debug)]
struct Ratio {
    workload: Name,
    over: Kind,
    under: Kind,
    spread: Spread,
    target: Option<String>,
    verdict: Option<Judged>,
}

/// The judgement of a ratio with a target.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Judged {
    By(Verdict),
    /// The target is of other options.
    OtherOptions,
    /// A server found this share of the keys, too few: the work it was spared makes its time
    /// meaningless.
    NotFound(f64),
}

impl Judged {
    fn in_words(self) -> String {
        match self {
            Judged::By(verdict) => verdict.in_words().into(),
            Judged::OtherOptions => "not tested: other options".into(),
            Judged::NotFound(share) => format!("not tested: {:.1} % found", 100.0 * share),
        }
    }
}

impl Row {
    fn new(workload: Name, server: &str, samples: &[Sample]) -> Option<Row> {
        let mine = || samples.iter().filter(|s| s.workload == workload && s.server == server);
        mine().next()?;
        let spread = |field: fn(&Sample) -> f64| Spread::of(mine().map(field));
        let (hits, keys) = mine().fold((0, 0), |(hits, keys), s| (hits + s.hits, keys + s.keys));
        let reads = workload.reads();
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
            self.hit_share.map_or(Cell::Nothing, |share| Cell::number(100.0 * share, 2)),
        ]
    }
}

/// Returns the share of requested keys that were found; sets request none.
fn found_share<'s>(workload: Name, samples: impl Iterator<Item = &'s Sample>) -> f64 {
    if !workload.reads() {
        return 1.0;
    }
    let (hits, keys) = samples.fold((0, 0), |(hits, keys), s| (hits + s.hits, keys + s.keys));
    hits as f64 / keys.max(1) as f64
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
        let Target { workload, over, under, aim } = *target;
        let found = |kind| found_share(workload, samples.iter().filter(of(kind)));
        let found = found(over).min(found(under));
        let verdict = aim.map(|aim| match found < FOUND_SHARE_MIN {
            true => Judged::NotFound(found),
            false => Judged::By(aim.verdict(spread)),
        });
        let target = aim.map(Bound::in_words);
        Some(Ratio { workload, over, under, spread, target, verdict })
    }

    fn cells(&self) -> Vec<Cell> {
        let met = self.verdict.map(|verdict| Cell::Text(verdict.in_words()));
        vec![
            Cell::text(self.workload.to_string()),
            Cell::Text(format!("{} / {}", self.over, self.under)),
            Cell::spread(self.spread, 2),
            self.target.clone().map_or(Cell::Nothing, Cell::Text),
            met.unwrap_or(Cell::Nothing),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Judged, Ratio, TARGETS, Target, Verdict, held_in_words};
    use crate::compare::workload::{Name, Sample};
    use crate::server::held::Held;
    use crate::server::query::Counts;

    fn sample(target: &Target, is_over: bool, round: u64, hits: u64, server_cpu: f64) -> Sample {
        let server = if is_over { target.over } else { target.under };
        Sample {
            workload: target.workload,
            server: server.to_string(),
            round,
            keys: 1000,
            hits,
            server_cpu,
            client_cpu: 1.0,
            keys_per_second: 1.0,
            server_busy: 1.0,
            client_busy: 1.0,
            latency_us_p50: 1.0,
            latency_us_p99: 1.0,
        }
    }

    /// Regression: a server that had lost its keys answered at less cost, and met its target by
    /// that.
    #[test]
    fn a_server_that_misses_keys_is_not_judged() {
        let target = &TARGETS[0];
        let verdict = |over_hits, under_hits| {
            let samples = [
                sample(target, true, 0, over_hits, 8.0),
                sample(target, false, 0, under_hits, 1.0),
            ];
            Ratio::new(target, &samples).and_then(|ratio| ratio.verdict)
        };
        assert_eq!(verdict(1000, 999), Some(Judged::By(Verdict::Met)));
        assert_eq!(verdict(1000, 998), Some(Judged::NotFound(0.998)));
        assert_eq!(verdict(70, 1000), Some(Judged::NotFound(0.07)));
        let set = TARGETS.iter().find(|it| it.workload == Name::Set).expect("there is one");
        let samples = [sample(set, true, 0, 0, 1.0), sample(set, false, 0, 0, 1.0)];
        let ratio = Ratio::new(set, &samples).expect("both were measured");
        assert_eq!(ratio.verdict, Some(Judged::By(Verdict::Met)), "sets find nothing");
    }

    #[test]
    fn every_key_is_held_only_if_it_is() {
        let held = |items| {
            let counts = Some(Counts { items, evictions: 0 });
            Held { counts, resident_bytes: 1 }
        };
        let null = Held { counts: None, resident_bytes: 1 };
        assert!(held_in_words(10, &[held(10), null]).contains("end: every key"));
        assert!(held_in_words(10, &[held(10), held(9)]).contains("not every key"));
    }
}
