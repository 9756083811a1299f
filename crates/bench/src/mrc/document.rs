//! The report of `mrc`: a table of misses and one of hits, costs where they are known, the error of
//! the sample, and the plot.

use super::sweep::Measure;
use crate::machine::Machine;
use crate::policies::kind::Kind;
use crate::policies::simulate::Tally;
use crate::policies::weight::BASE_BYTES;
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::trace::copies::Copies;
use crate::values;

const MIB: f64 = (1u64 << 20) as f64;

/// One policy at every size.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The policy's name.
    pub name: String,
    /// The policy's overhead per item, in words; `None` where sizes are objects.
    pub overhead: Option<String>,
    /// The counts at each size.
    pub tallies: Vec<Tally>,
}

impl Curve {
    /// Returns the curve of a policy.
    pub fn of(kind: Kind, measure: Measure, tallies: Vec<Tally>) -> Curve {
        let overhead = (measure == Measure::Memory).then(|| kind.overhead());
        Curve { name: kind.to_string(), overhead, tallies }
    }

    /// Returns the bound on all policies.
    pub fn bound(tallies: Vec<Tally>) -> Curve {
        Curve { name: "(bound)".into(), overhead: None, tallies }
    }
}

/// The results to report.
pub struct Findings<'a> {
    /// The replayed trace.
    pub trace: &'a Copies,
    /// The unit of sizes.
    pub measure: Measure,
    /// The bytes of the data, where sizes count memory.
    pub data_bytes: Option<u64>,
    /// The sizes.
    pub sizes: &'a [u64],
    /// The curves of all objects.
    pub full: Option<Vec<Curve>>,
    /// The rate, and the sample's estimates for all objects.
    pub sampled: Option<(f64, Vec<Curve>)>,
    /// LRU at many sizes.
    pub exact: Option<Vec<(u64, Tally)>>,
}

/// Returns `points` sizes up to `last`, at equal ratios from a thousandth of it.
pub fn spaced(last: u64, points: u16) -> Vec<u64> {
    let size = |point: u16| {
        let exponent = f64::from(point) / f64::from(points - 1) - 1.0;
        ((last as f64 * f64::powf(1000.0, exponent)).round() as u64).max(1)
    };
    let mut sizes: Vec<u64> = (0..points).map(size).collect();
    sizes.dedup();
    sizes
}

/// Writes the report.
pub fn write(machine: Machine, findings: &Findings) -> Document {
    let Findings { trace, full, sampled, exact, .. } = findings;
    let mut sections = Vec::new();
    if let Some(curves) = full {
        let title = format!("Misses of {}", trace.name());
        let names = ["miss-percent", "hit-percent", "cost-paid-percent", "misses"];
        let text = Section::new(title, words(findings.measure));
        sections.push(fill(text, names, findings, curves, exact.as_deref()));
    }
    if let Some((rate, curves)) = sampled {
        let title = format!("Misses of {}, from a sample of {rate}", trace.name());
        let text = "SHARDS: this share of the objects, chosen by hash, in caches as much smaller; \
                    misses are divided by the expected number of requests.";
        let names = ["sample-miss-percent", "sample-hit-percent", "sample-cost-percent", "sample"];
        let exact = exact.as_deref().filter(|_| full.is_none());
        let mut section = fill(Section::new(title, [text]), names, findings, curves, exact);
        if let Some(full) = full {
            section.tables.push(errors(full, curves));
        }
        sections.push(section);
    }
    let mut facts = vec![
        ("trace".to_owned(), trace.name()),
        ("requests".to_owned(), trace.len().to_string()),
        ("objects".to_owned(), trace.objects().to_string()),
    ];
    let data = findings.data_bytes.map(values::data_in_words);
    facts.extend(data.map(|words| ("data".to_owned(), words)));
    facts.extend(trace.filled_in_words());
    Document { title: format!("Miss-ratio curves of {}", trace.name()), machine, facts, sections }
}

fn words(measure: Measure) -> Vec<String> {
    let mut text = vec![
        "A read that misses is followed by a store. `belady` knows the future; no policy can have \
         fewer misses than `(bound)`."
            .to_owned(),
    ];
    if measure == Measure::Memory {
        text.push(format!(
            "Memory holds keys, values and what a cache needs for each item: {BASE_BYTES} bytes to \
             find and describe it, and what the policy keeps. memcached is one LRU list over \
             chunks of its size classes, which forgives it that classes hold on to their slabs."
        ));
    }
    text
}

/// Adds the tables and the plot, with these names.
fn fill(
    mut section: Section,
    names: [&str; 4],
    findings: &Findings,
    curves: &[Curve],
    exact: Option<&[(u64, Tally)]>,
) -> Section {
    let misses = |tally: &Tally| Some(100.0 * tally.miss_ratio());
    let hits = |tally: &Tally| Some(100.0 * (1.0 - tally.miss_ratio()));
    let cost = |tally: &Tally| tally.cost_miss_ratio().map(|ratio| 100.0 * ratio);
    section.tables.push(table(names[0], findings, curves, misses));
    section.tables.push(table(names[1], findings, curves, hits));
    if curves.iter().flat_map(|curve| &curve.tallies).any(|tally| tally.cost_us > 0) {
        section.tables.push(table(names[2], findings, curves, cost));
    }
    section.tables.extend(exact.map(|points| exact_table(findings.measure, points)));
    section.plots.push(plot(names[3], findings, curves, exact));
    section
}

/// Formats a size for a heading.
fn size_words(measure: Measure, size: u64) -> String {
    match measure {
        Measure::Objects => format!("{size} objects"),
        Measure::Memory => format!("{:.2} MiB", size as f64 / MIB),
    }
}

fn table(
    name: &str,
    findings: &Findings,
    curves: &[Curve],
    figure: impl Fn(&Tally) -> Option<f64>,
) -> Table {
    let has_overhead = findings.measure == Measure::Memory;
    let mut columns = vec![name.replace('-', " ")];
    columns.extend(has_overhead.then(|| "for each item".to_owned()));
    columns.extend(findings.sizes.iter().map(|size| size_words(findings.measure, *size)));
    let row = |curve: &Curve| {
        let mut row = vec![Cell::text(&curve.name)];
        if has_overhead {
            row.push(curve.overhead.as_ref().map_or(Cell::Nothing, Cell::text));
        }
        let figures = curve.tallies.iter().map(&figure);
        row.extend(figures.map(|figure| figure.map_or(Cell::Nothing, |f| Cell::number(f, 2))));
        row
    };
    Table { name: name.into(), columns, rows: curves.iter().map(row).collect() }
}

fn exact_table(measure: Measure, points: &[(u64, Tally)]) -> Table {
    let row = |(size, tally): &(u64, Tally)| {
        vec![Cell::text(size_words(measure, *size)), Cell::number(100.0 * tally.miss_ratio(), 2)]
    };
    Table {
        name: "lru-curve".into(),
        columns: vec!["LRU, exact".into(), "miss percent".into()],
        rows: points.iter().map(row).collect(),
    }
}

/// Returns the error of the sample, in percentage points of misses.
fn errors(full: &[Curve], sampled: &[Curve]) -> Table {
    let row = |(full, sampled): (&Curve, &Curve)| {
        let pairs = full.tallies.iter().zip(&sampled.tallies);
        let errors: Vec<f64> =
            pairs.map(|(a, b)| 100.0 * (a.miss_ratio() - b.miss_ratio()).abs()).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let most = errors.iter().copied().fold(0.0, f64::max);
        vec![Cell::text(&full.name), Cell::number(mean, 2), Cell::number(most, 2)]
    };
    Table {
        name: "sample-error".into(),
        columns: ["off by", "mean, points", "most, points"].map(String::from).to_vec(),
        rows: full.iter().zip(sampled).map(row).collect(),
    }
}

fn plot(name: &str, findings: &Findings, curves: &[Curve], exact: Option<&[(u64, Tally)]>) -> Plot {
    let (unit, label) = match findings.measure {
        Measure::Objects => (1.0, "cache, objects"),
        Measure::Memory => (MIB, "memory, MiB"),
    };
    let point =
        |size: u64, tally: &Tally| Point::exact(size as f64 / unit, 100.0 * tally.miss_ratio());
    let series = |curve: &Curve| {
        let points = findings.sizes.iter().zip(&curve.tallies);
        let points = points.map(|(size, tally)| point(*size, tally)).collect();
        Series { name: curve.name.clone(), points }
    };
    let mut series: Vec<Series> = curves.iter().map(series).collect();
    series.extend(exact.map(|points| Series {
        name: "lru, exact".into(),
        points: points.iter().map(|(size, tally)| point(*size, tally)).collect(),
    }));
    Plot {
        name: name.into(),
        title: format!("Misses of {}", findings.trace.name()),
        x: Axis::logarithmic(label),
        y: Axis::linear("misses, percent of reads"),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::spaced;

    #[test]
    fn sizes_are_spaced_by_ratio_and_end_at_the_last() {
        assert_eq!(spaced(1000, 4), [1, 10, 100, 1000]);
        assert_eq!(spaced(2, 5), [1, 2]);
    }
}
