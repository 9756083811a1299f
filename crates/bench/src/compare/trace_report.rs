//! The report of the comparison by traffic: medians over rounds for each server and memory limit,
//! and every single measurement.

use super::MIB;
use super::trace::{Sample, TraceOptions};
use crate::load::exchange::Protocol;
use crate::load::found::Counts;
use crate::machine::Machine;
use crate::report::misses::{BESIDE_COLUMN, SHARE_COLUMN, beside};
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::report::{Spread, servers};
use crate::server::recipe::Kind;
use crate::trace::copies::Copies;
use crate::values;

/// One server with one memory limit over all rounds.
struct Row<'s> {
    server: &'s str,
    memory_mb: u64,
    samples: Vec<&'s Sample>,
}

/// Sums up the samples of all rounds.
pub fn document(
    machine: Machine,
    options: &TraceOptions,
    trace: &Copies,
    data_bytes: u64,
    samples: &[Sample],
) -> Document {
    let rows = rows(samples);
    let said = how_it_was_done(options.fills_misses(), samples);
    Document {
        title: format!("{} sent to each server", trace.name()),
        machine,
        facts: facts(options, trace, data_bytes, samples),
        sections: vec![
            hits(&rows, data_bytes, said),
            work(&rows, options.pace.rate),
            rounds(samples),
        ],
    }
}

/// Returns rows for servers in the order of their names on the command line, and each one's limits
/// likewise.
fn rows(samples: &[Sample]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for sample in samples {
        let (server, memory_mb) = (sample.server.as_str(), sample.memory_mb);
        match rows.iter_mut().find(|row| (row.server, row.memory_mb) == (server, memory_mb)) {
            Some(row) => row.samples.push(sample),
            None => rows.push(Row { server, memory_mb, samples: vec![sample] }),
        }
    }
    rows
}

fn facts(
    options: &TraceOptions,
    trace: &Copies,
    data_bytes: u64,
    samples: &[Sample],
) -> Vec<(String, String)> {
    let rounds = samples.iter().map(|sample| sample.round + 1).max().unwrap_or(0);
    let counted = samples.first().map_or(0, |sample| sample.found.counts.gets);
    let more = [
        ("requests", trace.len().to_string()),
        ("gets that count", counted.to_string()),
        ("objects", trace.objects().to_string()),
        ("data", values::data_in_words(data_bytes)),
        ("pace", options.pace.in_words()),
        ("connections", options.pace.connections.to_string()),
        ("rounds", format!("{rounds}; medians, with (min..max)")),
    ];
    let lines = servers(samples.iter().map(|it| (it.server.as_str(), it.command_line.as_str())));
    let more = more.map(|(name, value)| (name.to_owned(), value));
    let protocol = Protocol::fact(options.pace.depth as usize, options.pace.rate);
    lines.into_iter().chain(more).chain([protocol]).chain(trace.filled_in_words()).collect()
}

/// Describes how misses were treated, and what hits were compared with.
fn how_it_was_done(fills_misses: bool, samples: &[Sample]) -> String {
    let sum = |count: fn(&Counts) -> u64| -> u64 {
        samples.iter().map(|sample| count(&sample.found.counts)).sum()
    };
    let (hits, checked) = (sum(|counts| counts.hits), sum(|counts| counts.checked));
    let misses = match fills_misses {
        true => "Every get that misses is followed by a set",
        false => "What a get misses is left as it is",
    };
    let compared = match checked {
        _ if checked == hits => "every hit was compared with what was stored".to_owned(),
        0 => "no hit was compared: the trace changes all values in place".to_owned(),
        _ => format!(
            "{checked} of {hits} hits were compared with what was stored: the trace changes the \
             other values in place"
        ),
    };
    format!("{misses}, and {compared}.")
}

fn hits(rows: &[Row], data_bytes: u64, said: String) -> Section {
    let limits = "A memory limit does not mean the same to every server: resident memory is what \
                  was really used.";
    let mut text = vec![format!("{said} {limits}")];
    text.extend(rows.iter().filter_map(Row::refusal_in_words));
    let mut section = Section::new("Hits at an equal memory limit", text);
    let columns = [
        "server",
        "limit MiB",
        "hits, percent",
        "misses, percent",
        BESIDE_COLUMN,
        SHARE_COLUMN,
        "items",
        "evicted",
        "RSS MiB",
        "resident bytes for each item",
        "refused",
    ];
    let memcached = Kind::Memcached.to_string();
    let peer = |row: &Row| {
        rows.iter().find(|peer| peer.server == memcached && peer.memory_mb == row.memory_mb)
    };
    let cells = |row: &Row| {
        let count = |field: fn(&Sample) -> Option<f64>, digits| row.optional(field, digits);
        vec![
            Cell::text(row.server),
            Cell::count(row.memory_mb),
            Cell::spread(row.spread(|sample| 100.0 * sample.found.hit_ratio()), 2),
            Cell::number(100.0 * row.miss_ratio(), 2),
            beside(row.miss_ratio(), peer(row).map(Row::miss_ratio)),
            Cell::number(100.0 * (row.memory_mb as f64 * MIB) / data_bytes as f64, 1),
            count(|sample| Some(sample.held.counts?.items as f64), 0),
            count(|sample| Some(sample.held.counts?.evictions as f64), 0),
            count(|sample| Some(sample.held.resident_bytes as f64 / MIB), 1),
            count(|sample| sample.held.item_bytes(), 1),
            Cell::count(row.refused()),
        ]
    };
    section.tables.push(Table::new("hits", &columns, rows.iter().map(cells)));
    section.plots.push(plot(rows, "misses", "misses, percent of gets", |row| {
        row.spread(|sample| 100.0 - 100.0 * sample.found.hit_ratio())
    }));
    section
}

fn work(rows: &[Row], rate: Option<f64>) -> Section {
    let text = [
        "Requests are those of the trace that count. The sets behind misses are none of them: they \
         stand in a column of their own, and the CPU time is theirs, too. Latency is that of gets. \
         All figures are of those that were timed, until the first connection was done.",
    ];
    let mut text = vec![text[0].to_owned()];
    text.extend(rows.iter().filter_map(Row::brevity_in_words));
    text.extend(rows.iter().filter_map(|row| row.lateness_in_words(rate)));
    let mut section = Section::new("What it takes", text);
    let columns = [
        "server",
        "limit MiB",
        "timed, %",
        "server CPU s / M requests",
        "client",
        "k requests/s",
        "k fills/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
    ];
    let cells = |row: &Row| {
        vec![
            Cell::text(row.server),
            Cell::count(row.memory_mb),
            Cell::number(row.spread(|sample| 100.0 * sample.found.timed_share()).median, 1),
            Cell::spread(row.spread(|sample| sample.server_cpu), 3),
            Cell::number(row.spread(|sample| sample.client_cpu).median, 3),
            Cell::spread(row.spread(Sample::thousands_per_second), 0),
            Cell::number(row.spread(Sample::thousands_filled_per_second).median, 1),
            Cell::number(row.spread(|sample| sample.waited_us(0.5)).median, 0),
            Cell::spread(row.spread(|sample| sample.waited_us(0.99)), 0),
            Cell::spread(row.spread(|sample| sample.waited_us(0.999)), 0),
        ]
    };
    section.tables.push(Table::new("work", &columns, rows.iter().map(cells)));
    section.plots.push(plot(rows, "server-cpu", "CPU seconds / million requests", |row| {
        row.spread(|sample| sample.server_cpu)
    }));
    section
}

fn rounds(samples: &[Sample]) -> Section {
    let mut section = Section::detail("Round by round");
    let columns = [
        "server",
        "limit MiB",
        "round",
        "gets",
        "hits",
        "checked",
        "fills",
        "refused",
        "requests timed",
        "server CPU s / M requests",
        "k requests/s",
        "p99 us",
    ];
    let cells = |sample: &Sample| {
        let counts = &sample.found.counts;
        vec![
            Cell::text(sample.server.clone()),
            Cell::count(sample.memory_mb),
            Cell::count(sample.round),
            Cell::count(counts.gets),
            Cell::count(counts.hits),
            Cell::count(counts.checked),
            Cell::count(counts.fills),
            Cell::count(counts.refused),
            Cell::count(sample.found.timed().asked()),
            Cell::number(sample.server_cpu, 3),
            Cell::number(sample.thousands_per_second(), 1),
            Cell::number(sample.waited_us(0.99), 0),
        ]
    };
    section.tables.push(Table::new("rounds", &columns, samples.iter().map(cells)));
    section
}

/// Plots a curve over the memory limits for each server, or bars if there is one limit.
fn plot(rows: &[Row], name: &str, label: &str, figure: impl Fn(&Row) -> Spread) -> Plot {
    let mut limits: Vec<u64> = rows.iter().map(|row| row.memory_mb).collect();
    limits.sort_unstable();
    limits.dedup();
    let is_single = limits.len() == 1;
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let x = if is_single { 0.0 } else { row.memory_mb as f64 };
        let point = Point::spread(x, figure(row));
        Series::add(&mut series, row.server, point);
    }
    let x = if is_single {
        Axis::words("memory limit", vec![format!("{} MiB", limits[0])])
    } else {
        Axis::logarithmic("memory limit, MiB")
    };
    Plot { name: name.into(), title: label.into(), x, y: Axis::linear(label), series }
}

impl Row<'_> {
    fn spread(&self, field: impl Fn(&Sample) -> f64) -> Spread {
        Spread::of(self.samples.iter().map(|sample| field(sample)))
    }

    /// Returns the median of misses per get.
    fn miss_ratio(&self) -> f64 {
        self.spread(|sample| 1.0 - sample.found.hit_ratio()).median
    }

    /// Returns the requests refused in all rounds together: one round of them is too many.
    fn refused(&self) -> u64 {
        self.samples.iter().map(|sample| sample.found.counts.refused).sum()
    }

    /// Describes the refused requests, which were not done and qualify every other figure.
    fn refusal_in_words(&self) -> Option<String> {
        let words = self.samples.iter().find_map(|sample| sample.found.refusal.as_deref())?;
        let (server, memory_mb, refused) = (self.server, self.memory_mb, self.refused());
        Some(format!(
            "Flattered: {server} with {memory_mb} MiB refused {refused} requests in all rounds, \
             the first with `{words}`. They were answered and not done."
        ))
    }

    /// Describes figures that cover little more than the beginning.
    fn brevity_in_words(&self) -> Option<String> {
        let is_brief = |sample: &&Sample| sample.found.is_briefly_timed();
        let brief = self.samples.iter().copied().find(is_brief)?;
        let (server, memory_mb, found) = (self.server, self.memory_mb, &brief.found);
        Some(format!(
            "Brief: {server} with {memory_mb} MiB was timed for {:.1} % of the requests in round \
             {}, {:.3} s, which is less than a third. One connection had much less to send than \
             the others: take fewer connections, or a --rate.",
            100.0 * found.timed_share(),
            brief.round,
            found.elapsed().as_secs_f64()
        ))
    }

    /// Describes a wanted rate that was not reached.
    fn lateness_in_words(&self, rate: Option<f64>) -> Option<String> {
        let missed =
            |sample: &&Sample| Some((sample.found.missed_rate(rate)?, sample.found.late_us(0.99)));
        let (reached, late_us) = self.samples.iter().find_map(missed)?;
        let (server, memory_mb) = (self.server, self.memory_mb);
        Some(format!(
            "Late: {server} with {memory_mb} MiB answered {reached:.0} requests a second, fewer \
             than were wanted, of which one in a hundred was sent {late_us:.0} us late or more. \
             Latency is that of a queue, and what is sent late is part of it."
        ))
    }

    /// Returns the median of a figure that not every server reports.
    fn optional(&self, field: impl Fn(&Sample) -> Option<f64>, digits: usize) -> Cell {
        let figures: Vec<f64> = self.samples.iter().filter_map(|sample| field(sample)).collect();
        match figures.is_empty() {
            true => Cell::Nothing,
            false => Cell::number(Spread::of(figures).median, digits),
        }
    }
}

impl Sample {
    fn thousands_per_second(&self) -> f64 {
        self.found.per_second(self.found.timed().asked()) / 1e3
    }

    fn thousands_filled_per_second(&self) -> f64 {
        self.found.per_second(self.found.timed().fills) / 1e3
    }

    fn waited_us(&self, share: f64) -> f64 {
        self.found.get_ns.value_at_quantile(share) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Sample, how_it_was_done, rows};
    use crate::load::found::Found;
    use crate::server::held::Held;

    /// A sample of `gets` gets, of which `fills` were missed and stored, in one second.
    fn sample(gets: u64, fills: u64) -> Sample {
        let mut found = Found::new();
        let started = Instant::now();
        found.answered(true, started, started + Duration::from_secs(1), gets);
        found.counts.gets = gets;
        found.counts.fills = fills;
        Sample {
            server: "one".into(),
            command_line: String::new(),
            memory_mb: 1,
            round: 0,
            found,
            held: Held { counts: None, resident_bytes: 0 },
            server_cpu: 0.0,
            client_cpu: 0.0,
        }
    }

    /// Regression: where one round of three had refused requests, their median was 0, and nothing
    /// was reported.
    #[test]
    fn a_refusal_in_one_round_is_reported() {
        let mut samples = [sample(100, 50), sample(100, 50), sample(100, 50)];
        assert_eq!(rows(&samples)[0].refusal_in_words(), None);
        samples[1].found.counts.refused = 7;
        samples[1].found.refusal = Some("SERVER_ERROR no room".into());
        let rows = rows(&samples);
        let words = rows[0].refusal_in_words().expect("it was refused");
        assert!(words.contains("one with 1 MiB refused 7") && words.contains("no room"), "{words}");
    }

    /// Regression: nothing was compared after an append, but the report claimed that everything
    /// was.
    #[test]
    fn the_report_states_how_hits_and_misses_were_treated() {
        let mut samples = [sample(100, 50), sample(100, 50)];
        samples.iter_mut().for_each(|it| it.found.counts.hits = 50);
        let said = how_it_was_done(true, &samples);
        assert!(said.contains("followed by a set, and no hit was compared"), "{said}");
        samples[0].found.counts.checked = 40;
        let said = how_it_was_done(false, &samples);
        assert!(said.contains("left as it is, and 40 of 100 hits were compared"), "{said}");
        samples.iter_mut().for_each(|it| it.found.counts.checked = 50);
        assert!(how_it_was_done(true, &samples).contains("every hit was compared"));
    }

    /// Regression: figures of a twentieth of the requests were shown like all others.
    #[test]
    fn a_short_timed_part_is_reported() {
        let mut samples = [sample(100, 50), sample(100, 50), sample(100, 50)];
        assert_eq!(rows(&samples)[0].brevity_in_words(), None);
        samples[1].found.stop();
        samples[1].found.counts.gets = 2000;
        let words = rows(&samples)[0].brevity_in_words().expect("it was short");
        assert!(words.contains("one with 1 MiB was timed for 5.0 %"), "{words}");
    }

    /// Regression: a server that missed more showed more requests a second, since it was sent more
    /// sets.
    #[test]
    fn misses_make_no_throughput() {
        let (better, worse) = (sample(100_000, 1000), sample(100_000, 50_000));
        assert_eq!(better.thousands_per_second(), worse.thousands_per_second());
        assert_eq!(better.thousands_per_second(), 100.0);
        assert_eq!(worse.thousands_filled_per_second(), 50.0);
    }
}
