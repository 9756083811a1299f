//! Two areas, of which one is not compressed, compared with one: adaptive, a twentieth, and none.

use ::flash::{Costs, Partition, Settings};

use super::client::{device_bytes, load, reads};
use super::hit_ratio::POPULAR;
use super::run::Run;
use super::tier::settings;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Cell, Table};
use crate::workload::popularity::Choice;

const PERCENT: u64 = 10;
const PARTITIONS: [(&str, Partition); 3] = [
    ("adaptive", Partition::Adaptive),
    ("5 % hot", Partition::Fixed { hot_percent: 5 }),
    ("no hot area", Partition::Fixed { hot_percent: 0 }),
];

/// Measures hits, pages and CPU time by the division of the tier.
pub fn areas(scale: &Scale) -> Outcome<Findings> {
    let data = load(scale)?;
    let bytes = device_bytes(&data, PERCENT);
    let mut rows = Vec::new();
    for choice in POPULAR.into_iter().filter(|choice| *choice != Choice::Uniform) {
        let objects = reads(&choice, &data, scale.seed)?;
        for (name, partition) in PARTITIONS {
            let settings = Settings { partition, ..settings(bytes) };
            let run = Run::of(bytes, &settings, Costs::default(), &data, &objects)?;
            rows.push((choice.to_string(), name, run));
        }
    }
    // The first three are zipfian.
    let hits = |row: usize| rows[row].2.counts.hit_percent();
    Ok(Findings {
        beside: vec![
            Cell::number(rows[0].2.stats.hot_percent(), 1),
            Cell::number(hits(0) - hits(2), 2),
            Cell::number(hits(1) - hits(2), 2),
        ],
        text: vec![format!(
            "{}; flash of {PERCENT} % of that; two reads for each key, a miss is stored, counted \
             in the second half. Beside the paper: zipfian. The adaptive area goes by the costs \
             that are assumed by default: 100 us for a read of the hot area, 120 us for one of the \
             cold area, 2 ms for a miss. There is no memory above the tier that serves the hottest \
             items.",
            data.in_words()
        )],
        tables: vec![table_of(&rows)],
        plots: Vec::new(),
    })
}

fn table_of(rows: &[(String, &str, Run)]) -> Table {
    let rows = rows.iter().map(|(choice, name, Run { tier, counts, stats })| {
        let now = tier.stats();
        vec![
            Cell::text(choice.clone()),
            Cell::text(*name),
            Cell::number(counts.hit_percent(), 2),
            Cell::number(stats.hot_percent(), 1),
            Cell::count(now.hot.segments),
            Cell::count(now.segments),
            Cell::number(counts.pages_per_hit(), 3),
            Cell::number(counts.us_per_get(), 2),
            Cell::number(counts.us_per_store(), 2),
            Cell::number(stats.moved_percent(), 1),
        ]
    });
    let columns = [
        "popular keys",
        "areas",
        "hits, %",
        "of these hot, %",
        "hot segments",
        "of",
        "pages / hit",
        "CPU us / get",
        "CPU us / store",
        "moved, % of writes",
    ];
    table("slimcache-areas", &columns, rows.collect())
}
