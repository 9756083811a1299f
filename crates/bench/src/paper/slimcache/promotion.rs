//! When a read item moves into the hot area: when its segment is collected, or at once.

use ::flash::{Costs, Partition, Promotion, Settings};

use super::client::{device_bytes, load, reads};
use super::run::Run;
use super::tier::settings;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Cell, Table};
use crate::report::share;
use crate::workload::popularity::Choice;

const PERCENT: u64 = 10;
const VARIANTS: [(&str, Promotion, Partition); 5] = [
    ("no hot area", Promotion::Merged, Partition::Fixed { hot_percent: 0 }),
    ("merged, 10 % hot", Promotion::Merged, Partition::Fixed { hot_percent: 10 }),
    ("at once, 10 % hot", Promotion::Immediate, Partition::Fixed { hot_percent: 10 }),
    ("merged, adaptive", Promotion::Merged, Partition::Adaptive),
    ("at once, adaptive", Promotion::Immediate, Partition::Adaptive),
];

/// Compares moves, hits and CPU time of both.
pub fn promotion(scale: &Scale) -> Outcome<Findings> {
    let data = load(scale)?;
    let bytes = device_bytes(&data, PERCENT);
    let objects = reads(&Choice::Zipfian, &data, scale.seed)?;
    let mut runs = Vec::new();
    for (_, promotion, partition) in VARIANTS {
        let settings = Settings { promotion, partition, ..settings(bytes) };
        runs.push(Run::of(bytes, &settings, Costs::default(), &data, &objects)?);
    }
    let moved = |at: usize| Cell::number(runs[at].stats.moved_percent(), 1);
    let lost = runs[1].counts.hit_percent() - runs[2].counts.hit_percent();
    Ok(Findings {
        beside: vec![moved(1), moved(2), Cell::number(lost, 2)],
        text: vec![format!(
            "{}; flash of {PERCENT} % of that; two zipfian reads for each key (skew {}), a miss is \
             stored, counted in the second half. Beside the paper: a tenth of the tier hot, with \
             either promotion, so that they differ in nothing else.",
            data.in_words(),
            super::client::SKEW
        )],
        tables: vec![table_of(&runs)],
        plots: Vec::new(),
    })
}

fn table_of(runs: &[Run]) -> Table {
    let rows = VARIANTS.iter().zip(runs).map(|((name, ..), Run { tier, counts, stats })| {
        let now = tier.stats();
        vec![
            Cell::text(*name),
            Cell::number(counts.hit_percent(), 2),
            Cell::number(stats.hot_percent(), 1),
            Cell::number(100.0 * share(now.hot.segments as f64, now.segments as f64), 1),
            Cell::count(stats.promoted),
            Cell::count(stats.restaged),
            Cell::number(stats.moved_percent(), 1),
            Cell::number(stats.written as f64 / 1048576.0, 1),
            Cell::number(counts.pages_per_hit(), 3),
            Cell::number(counts.us_per_get(), 2),
        ]
    });
    let columns = [
        "promotion",
        "hits, %",
        "of these hot, %",
        "hot, % of segments",
        "promoted",
        "moved by collection",
        "moved, % of writes",
        "written, MiB",
        "pages / hit",
        "CPU us / get",
    ];
    table("slimcache-promotion", &columns, rows.collect())
}
