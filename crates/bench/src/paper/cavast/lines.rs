//! Lines that a request reads, by the kind of index and its load.

use super::lookup::IndexKind;
use super::memory::Kind;
use super::run::{Figures, HUGE, Load, usual};
use super::store::Config;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::sizes::SizeChoice;

/// Items per head, or per first bucket.
const LOADS: [f64; 6] = [0.75, 1.5, 3.0, 6.0, 12.0, 24.0];
/// The places of the load at which memcached's table grows, and of that of full buckets on average.
const CHAINING_USUAL: usize = 1;
const LINKED_USUAL: usize = 3;

/// Compares indexes.
pub fn lines(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let load = Load::zipfian(scale, &app);
    let kinds: [fn(f64) -> IndexKind; 3] = [
        |load| IndexKind::Chaining { load },
        |load| IndexKind::List { load },
        |load| IndexKind::Tree { load },
    ];
    let run = |index| load.run(Config { index, ..HUGE });
    let mut found: Vec<Vec<Figures>> = Vec::new();
    for kind in kinds {
        found.push(LOADS.iter().map(|load| run(kind(*load))).collect::<Outcome<_>>()?);
    }
    let cuckoo = run(IndexKind::Cuckoo)?;
    let count = f64::from(app.count());
    let cells = |name: &str, load: Cell, it: &Figures| {
        let index = [Kind::Index];
        vec![
            Cell::text(name),
            load,
            Cell::number(it.index_bytes as f64 / count, 1),
            Cell::number(it.lines(&index), 2),
            Cell::number(it.lines(&Kind::OWN), 2),
            Cell::number(it.hits(&index), 1),
            Cell::number(it.misses(&index), 2),
            Cell::number(it.misses(&Kind::ALL), 2),
        ]
    };
    let mut rows = Vec::new();
    for (kind, figures) in kinds.iter().zip(&found) {
        let name = kind(1.0).name();
        let all = LOADS.iter().zip(figures);
        rows.extend(all.map(|(load, it)| cells(name, Cell::number(*load, 2), it)));
    }
    rows.push(cells("cuckoo", Cell::Nothing, &cuckoo));
    let all_lines = |it: &Figures| Cell::number(it.lines(&Kind::OWN), 1);
    Ok(Findings {
        beside: vec![
            all_lines(&found[0][CHAINING_USUAL]),
            all_lines(&found[1][LINKED_USUAL]),
            all_lines(&found[2][LINKED_USUAL]),
            all_lines(&cuckoo),
        ],
        text: vec![format!(
            "{}. memcached's items on huge pages. What a chain reads of other items counts as the \
             index. Beside the paper's figures stand 1.5 items for each head, where memcached's \
             table grows, and 6 for each first bucket.",
            load.in_words()
        )],
        tables: vec![table(
            "cavast-lines",
            &[
                "index",
                "items / bucket",
                "bytes an item",
                "its lines",
                "all lines",
                "its hits, %",
                "its misses",
                "all misses",
            ],
            rows,
        )],
        plots: vec![plot(&kinds, &found)],
    })
}

fn plot(kinds: &[fn(f64) -> IndexKind], found: &[Vec<Figures>]) -> Plot {
    let series = kinds.iter().zip(found).map(|(kind, figures)| {
        let points = LOADS.iter().zip(figures);
        let points = points.map(|(load, it)| Point::exact(*load, it.lines(&Kind::OWN)));
        Series { name: kind(1.0).name().into(), points: points.collect() }
    });
    Plot {
        name: "cavast-lines".into(),
        title: "Lines of a request".into(),
        x: Axis::logarithmic("items for each head or first bucket"),
        y: Axis::linear("lines"),
        series: series.collect(),
    }
}
