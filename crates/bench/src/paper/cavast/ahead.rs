//! Prefetching for groups of requests: the hits of their loads, and the cost.
//!
//! A request that reads a line prefetched one group ago hits, by a processor's count of loads,
//! although the line came from memory. The cost is the evictions caused by those lines, and of
//! those lines before their turn: both show in the total of lines from memory.

use super::memory::Kind;
use super::run::{Figures, LARDER, Load, headings, row, usual};
use super::store::Config;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

/// Requests whose memory the server prefetches together: `GROUP` of `crates/cache/src/prefetch.rs`.
pub const SERVER_GROUP: usize = 8;
/// Sizes of the group; a size of one prefetches nothing.
const GROUPS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The place of the server's size.
const SERVER: usize = 3;

/// Larder's items and index by the size of the group.
pub fn ahead(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    for choice in [Choice::Zipfian, Choice::Uniform] {
        let load = Load { choice, ..Load::zipfian(scale, &app) };
        let stores = GROUPS.map(|group| (group.to_string(), Config { group, ..LARDER }));
        let course: Vec<(String, Figures)> = load.run_all(stores)?;
        let popular = load.choice.to_string();
        rows.extend(course.iter().map(|(group, figures)| {
            let mut cells = row([&popular, group], figures);
            let ahead = figures.ahead();
            cells.extend([ahead, from_memory(figures)].map(|lines| Cell::number(lines, 2)));
            cells
        }));
        found.push((popular, course));
    }
    let [zipfian, uniform] = [0, 1].map(|at| &found[at].1);
    let more = from_memory(&zipfian[SERVER].1) / from_memory(&zipfian[0].1) - 1.0;
    let columns = [headings(&["popular", "group"]), vec!["came ahead", "from memory"]].concat();
    Ok(Findings {
        beside: vec![
            Cell::number(zipfian[SERVER].1.own_hits(), 1),
            Cell::number(uniform[SERVER].1.own_hits(), 1),
            Cell::number(100.0 * more, 2),
        ],
        text: vec![format!(
            "{}. Larder's items and index, on huge pages. Hits are of what requests read, and \
             misses what they wait for; what came ahead and those misses come from memory. The \
             cache is as much smaller than the paper's as the data are, and a group is not: at \
             scale 1 larger groups fit.",
            Load::zipfian(scale, &app).in_words()
        )],
        tables: vec![table("cavast-ahead", &columns, rows)],
        plots: vec![plot(&found)],
    })
}

/// Returns a request's lines from memory, whether it waits for them or not.
fn from_memory(figures: &Figures) -> f64 {
    figures.misses(&Kind::ALL) + figures.ahead()
}

fn plot(found: &[(String, Vec<(String, Figures)>)]) -> Plot {
    let series = found.iter().map(|(name, course)| {
        let points = GROUPS.iter().zip(course);
        let points = points.map(|(group, (_, it))| Point::exact(*group as f64, it.own_hits()));
        Series { name: name.clone(), points: points.collect() }
    });
    Plot {
        name: "cavast-ahead".into(),
        title: "Hits by how many requests are asked for together".into(),
        x: Axis::logarithmic("requests of a group"),
        y: Axis::linear("hits (%)"),
        series: series.collect(),
    }
}
