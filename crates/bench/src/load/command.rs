//! The command `larder-bench load`, and its report.

use std::net::SocketAddr;

use clap::Args;
use hdrhistogram::Histogram;

use crate::failure::Outcome;
use crate::load::exchange::Protocol;
use crate::load::found::Found;
use crate::load::job::Job;
use crate::load::pace::PaceOptions;
use crate::load::{Senders, run_noting as send};
use crate::machine::Machine;
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::usage::{self, CpuTime};
use crate::trace::copies::{Copies, CopyOptions};
use crate::values::{ValueOptions, Values};
use crate::workload::requests::Requests;

/// The percentiles of the table.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];
/// Each step of the latency curve halves the share of slower requests, down to one in two to the
/// power of this.
const CURVE_STEPS: u32 = 20;

/// The requests, the server, and the pace.
#[derive(Debug, Args)]
pub struct LoadOptions {
    /// The trace file, or "make" and the options of a workload in one argument.
    trace: Requests,
    /// The server's address.
    #[arg(long, default_value = "127.0.0.1:11211", value_parser = crate::arguments::address)]
    address: SocketAddr,
    /// The protocol to speak.
    #[arg(long, value_enum, default_value_t = Protocol::Text)]
    protocol: Protocol,
    /// Cores to send from, one thread pinned to each; none: one unpinned thread.
    #[arg(long, value_delimiter = ',')]
    cores: Vec<usize>,
    /// Do not store an object that a get misses.
    #[arg(long)]
    no_fill: bool,
    /// The server's process, to report its CPU time and memory.
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    pace: PaceOptions,
    #[command(flatten)]
    copies: CopyOptions,
    #[command(flatten)]
    values: ValueOptions,
    #[command(flatten)]
    report: ReportOptions,
}

/// Runs the command.
pub fn run(options: &LoadOptions) -> Outcome<()> {
    let limit = options.pace.limit.map(|limit| options.copies.limit(limit));
    let mut trace = options.copies.of(options.trace.read_first(limit, None)?)?;
    let values = Values::attach(&options.values, &mut trace, options.trace.seed())?;
    let job = Job {
        fills_misses: !options.no_fill && options.trace.fills_misses(),
        ..options.pace.job(options.protocol, &trace, &values, 0.0)
    };
    let connections = options.pace.connections as usize;
    let senders = Senders { cores: options.cores.clone(), ..Senders::here(connections) };
    let server_cpu = || options.pid.map(CpuTime::of).transpose();
    let (found, [before, after]) = send(&job, options.address, &senders, server_cpu)?;
    let mut facts = facts(options, &trace, &found);
    facts.push(("client CPU s".into(), format!("{:.3}", found.cpu_ns as f64 / 1e9)));
    if let (Some(pid), Some(before), Some(after)) = (options.pid, before, after) {
        let server_ns = after.since_ns(before)?;
        let resident = usage::resident(pid)?.bytes as f64 / f64::from(1 << 20);
        facts.push(("server CPU s".into(), format!("{:.3}", server_ns as f64 / 1e9)));
        facts.push(("server memory, MiB".into(), format!("{resident:.1}")));
    }
    let document = Document {
        title: format!("{} sent to {}", trace.name(), options.address),
        machine: Machine::describe(),
        facts,
        sections: vec![section(&found)],
    };
    say::out(report::text(&document))?;
    options.report.write(&document)
}

fn facts(options: &LoadOptions, trace: &Copies, found: &Found) -> Vec<(String, String)> {
    let seconds = found.elapsed().as_secs_f64();
    let refused = match &found.refusal {
        Some(words) => format!("{} (first: {words})", found.counts.refused),
        None => "0".to_owned(),
    };
    let share = 100.0 * found.timed_share();
    let brief = if found.is_briefly_timed() { ": less than a third" } else { "" };
    let timed = found.timed().asked();
    let timed = format!("{timed} requests in {seconds:.3} s, {share:.1} % of those counted{brief}");
    let facts = [
        ("requests of the trace", trace.len().to_string()),
        ("objects", trace.objects().to_string()),
        ("pace", options.pace.in_words()),
        ("protocol", options.protocol.in_words().to_owned()),
        ("connections", options.pace.connections.to_string()),
        ("counted requests", found.counts.asked().to_string()),
        ("timed", timed),
        ("requests/s", format!("{:.0}", found.per_second(found.timed().asked()))),
        ("hits, percent of gets", format!("{:.2}", 100.0 * found.hit_ratio())),
        ("hits compared byte by byte", found.counts.checked.to_string()),
        ("misses filled", found.counts.fills.to_string()),
        ("refused", refused),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value));
    let paced = options.pace.rate.map(|rate| paced_in_words(rate, found)).into_iter().flatten();
    facts.into_iter().chain(paced).chain(trace.filled_in_words()).collect()
}

/// Describes how well the client kept a pace.
fn paced_in_words(rate: f64, found: &Found) -> [(String, String); 2] {
    let late = [0.5, 0.99].map(|share| found.late_us(share));
    let late = format!("p50 {:.0}, p99 {:.0}; part of the latency", late[0], late[1]);
    let reached = match found.missed_rate(Some(rate)) {
        Some(reached) => {
            format!("no: {:.1} % of it; latency is that of a queue", 100.0 * reached / rate)
        }
        None => "yes".to_owned(),
    };
    [("rate reached".to_owned(), reached), ("sent late, us".to_owned(), late)]
}

fn section(found: &Found) -> Section {
    let mut section = Section::new("Latency", ["Microseconds until the last byte of the reply."]);
    let kinds = [("get", &found.get_ns), ("other", &found.other_ns)];
    let kinds: Vec<_> = kinds.into_iter().filter(|(_, histogram)| !histogram.is_empty()).collect();
    let columns = ["requests", "count"].into_iter().chain(QUANTILES.map(|(name, _)| name));
    section.tables.push(Table {
        name: "latency".into(),
        columns: columns.map(str::to_owned).collect(),
        rows: kinds.iter().map(|(name, histogram)| row(name, histogram)).collect(),
    });
    section.plots.push(Plot {
        name: "latency".into(),
        title: "How many waited longer".into(),
        x: Axis::logarithmic("one request in so many"),
        y: Axis::logarithmic("waited for so many microseconds"),
        series: kinds.iter().map(|(name, histogram)| curve(name, histogram)).collect(),
    });
    section
}

fn row(name: &str, histogram: &Histogram<u64>) -> Vec<Cell> {
    // The slowest of fewer requests than one in so many says nothing of that share.
    let is_known = |share: f64| share == 1.0 || histogram.len() as f64 * (1.0 - share) >= 0.9999;
    let quantile = |(_, share)| match is_known(share) {
        true => Cell::number(micros(histogram, share), 0),
        false => Cell::Nothing,
    };
    let words = [Cell::text(name), Cell::count(histogram.len())];
    words.into_iter().chain(QUANTILES.map(quantile)).collect()
}

fn curve(name: &str, histogram: &Histogram<u64>) -> Series {
    let steps = (1..=CURVE_STEPS).map(|step| f64::from(step).exp2());
    let known = steps.take_while(|one_in| *one_in <= histogram.len() as f64);
    let point = |one_in: f64| Point::exact(one_in, micros(histogram, 1.0 - 1.0 / one_in));
    Series { name: name.to_owned(), points: known.map(point).collect() }
}

fn micros(histogram: &Histogram<u64>, share: f64) -> f64 {
    histogram.value_at_quantile(share) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::row;
    use crate::load::found::Found;
    use crate::report::model::Cell;

    /// Regression: the greatest latency of a few requests was given as that of one in ten thousand.
    #[test]
    fn a_share_of_fewer_requests_than_it_takes_is_left_out() {
        let mut histogram = Found::new().get_ns;
        histogram.saturating_record_n(5000, 999);
        let is_left_out =
            |histogram: &_| row("get", histogram).iter().map(|it| *it == Cell::Nothing).collect();
        let found: Vec<bool> = is_left_out(&histogram);
        assert_eq!(found, [false, false, false, false, false, true, true, false]);
        histogram.saturating_record_n(5000, 1);
        let found: Vec<bool> = is_left_out(&histogram);
        assert_eq!(found, [false, false, false, false, false, false, true, false]);
    }
}
