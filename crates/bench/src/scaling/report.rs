//! The report of `scaling`: for each load, medians over rounds for each server and number of
//! threads, and every single measurement.

use super::loads::Load;
use super::{Cores, Name, Sample, ScalingOptions};
use crate::load::exchange::Protocol;
use crate::machine::Machine;
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::report::{Spread, servers};

/// One server with one number of threads over all rounds.
struct Row<'s> {
    server: &'s str,
    threads: u32,
    samples: Vec<&'s Sample>,
}

impl Row<'_> {
    fn spread(&self, field: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(|sample| field(sample)))
    }
}

/// Sums up the samples of all rounds.
pub fn document(
    machine: Machine,
    options: &ScalingOptions,
    cores: &Cores,
    threads: &[u32],
    (loads, samples): (&[String], &[Sample]),
) -> Document {
    let names = options.loads.iter().zip(loads);
    let mut sections: Vec<Section> =
        names.map(|(name, words)| section(*name, words, samples)).collect();
    sections.push(rounds(samples));
    Document {
        title: "What more threads bring".into(),
        machine,
        facts: facts(options, cores, threads, samples),
        sections,
    }
}

/// Describes a load, for the head of its table.
pub fn in_words(load: &Load, threads: &[u32]) -> String {
    let list = |counts: Vec<u32>| {
        let words: Vec<String> = counts.iter().map(u32::to_string).collect();
        words.join(", ")
    };
    let counted = list(threads.iter().map(|threads| load.counted(*threads)).collect());
    let Load { words, memory_mb, fill, .. } = load;
    let threads = list(threads.to_vec());
    format!(
        "`{words}`, `-m {memory_mb}`: {fill} requests to fill, and {counted} that count with \
         {threads} threads."
    )
}

fn facts(
    options: &ScalingOptions,
    cores: &Cores,
    threads: &[u32],
    samples: &[Sample],
) -> Vec<(String, String)> {
    let rounds = samples.iter().map(|sample| sample.round + 1).max().unwrap_or(0);
    let started = samples.iter().map(|it| (it.server.as_str(), it.command.as_str()));
    let mut facts = servers(started);
    let pace = format!(
        "closed loop, {} in flight on each of {} connections",
        options.depth, options.connections
    );
    let list = |numbers: &[usize]| {
        let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
        words.join(" ")
    };
    let mut say = |name: &str, value: String| facts.push((name.to_owned(), value));
    say("pace", pace);
    let (name, protocol) = Protocol::fact(options.depth as usize, None);
    say(&name, protocol);
    say("cores of the servers", list(&cores.server));
    say("cores of the client", list(&cores.client));
    let (most, available) = (threads.last().copied().unwrap_or(0), cores.server.len());
    if most as usize > available {
        say("note", format!("cores of the servers: {available} for up to {most} worker threads"));
    }
    say("rounds", format!("{rounds}; medians, with (min..max)"));
    facts
}

fn section(name: Name, words: &str, samples: &[Sample]) -> Section {
    let rows = rows(name, samples);
    let text = [
        words.to_owned(),
        "Requests are those of the trace: sets behind a miss have a column of their own. CPU time \
         is that of the whole server, for these, too. Latency is that of all that is answered, in \
         a queue that is always full."
            .to_owned(),
    ];
    let mut section = Section::new(name.to_string(), text);
    let columns = [
        "server",
        "threads",
        "M requests/s",
        "M fills/s",
        "server CPU us / request",
        "server's cores busy",
        "client's cores busy",
        "p50 us",
        "p99 us",
        "hits, percent",
    ];
    let cells = |row: &Row| {
        let hits: Option<Vec<f64>> = row.samples.iter().map(|sample| sample.hit_ratio).collect();
        vec![
            Cell::text(row.server),
            Cell::count(row.threads.into()),
            Cell::spread(row.spread(Sample::millions_per_second), 2),
            Cell::number(row.spread(|sample| sample.fills_per_second / 1e6).median, 3),
            Cell::spread(row.spread(|sample| sample.server_us), 3),
            Cell::number(row.spread(|sample| sample.server_busy).median, 2),
            Cell::number(row.spread(|sample| sample.client_busy).median, 2),
            Cell::spread(row.spread(|sample| sample.latency_us_p50), 0),
            Cell::spread(row.spread(|sample| sample.latency_us_p99), 0),
            hits.map_or(Cell::Nothing, |hits| Cell::number(100.0 * Spread::of(hits).median, 2)),
        ]
    };
    section.tables.push(Table::new(&name.to_string(), &columns, rows.iter().map(cells)));
    let title = |what: &str| format!("{name}: {what}");
    section.plots.push(plot(
        &rows,
        format!("{name}-throughput"),
        (title("throughput"), "million requests/s"),
        Sample::millions_per_second,
    ));
    section.plots.push(plot(
        &rows,
        format!("{name}-cpu"),
        (title("CPU time of the server"), "us / request"),
        |sample| sample.server_us,
    ));
    section
}

/// Returns rows for servers in the order of the command line, with threads rising for each.
fn rows(name: Name, samples: &[Sample]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    // The first round has the servers in that order.
    for sample in samples.iter().filter(|sample| sample.load == name) {
        let (server, threads) = (sample.server.as_str(), sample.threads);
        if let Some(row) = rows.iter_mut().find(|it| (it.server, it.threads) == (server, threads)) {
            row.samples.push(sample);
            continue;
        }
        let behind = rows.iter().rposition(|row| row.server == server).map(|place| place + 1);
        let row = Row { server, threads, samples: vec![sample] };
        rows.insert(behind.unwrap_or(rows.len()), row);
    }
    rows
}

fn plot(
    rows: &[Row],
    name: String,
    (title, label): (String, &str),
    field: impl Fn(&Sample) -> f64,
) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let point = Point::spread(row.threads.into(), row.spread(&field));
        Series::add(&mut series, row.server, point);
    }
    let (x, y) = (Axis::linear("worker threads"), Axis::linear(label));
    Plot { name, title, x, y, series }
}

fn rounds(samples: &[Sample]) -> Section {
    let mut section = Section::detail("Round by round");
    let columns = [
        "load",
        "server",
        "threads",
        "round",
        "requests",
        "M requests/s",
        "server CPU us / request",
        "p50 us",
        "p99 us",
        "items",
        "evicted",
    ];
    let cells = |sample: &Sample| {
        let (items, evicted) =
            sample.held.counts.map_or((Cell::Nothing, Cell::Nothing), |counts| {
                (Cell::count(counts.items), Cell::count(counts.evictions))
            });
        vec![
            Cell::text(sample.load.to_string()),
            Cell::text(sample.server.clone()),
            Cell::count(sample.threads.into()),
            Cell::count(sample.round),
            Cell::count(sample.requests),
            Cell::number(sample.millions_per_second(), 3),
            Cell::number(sample.server_us, 4),
            Cell::number(sample.latency_us_p50, 1),
            Cell::number(sample.latency_us_p99, 1),
            items,
            evicted,
        ]
    };
    section.tables.push(Table::new("rounds", &columns, samples.iter().map(cells)));
    section
}

impl Sample {
    fn millions_per_second(&self) -> f64 {
        self.per_second / 1e6
    }
}
