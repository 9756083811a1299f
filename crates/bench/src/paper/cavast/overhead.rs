//! The cost of placement: where it cannot help, by the share of counted accesses, and in work and
//! memory.

use policy::columns::{LIMITS, Limits};

use super::memory::Kind;
use super::placement::AREA;
use super::run::{Figures, HUGE, Load, headings, row, usual};
use super::store::{Config, Heating};
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

/// One access in this many counts.
const EVERY: [u64; 4] = [1, 4, 16, 64];
const COLUMNS: Config = Config { placement: Placement::Columns(1), ..HUGE };
const IN_AREA: Config = Config { placement: AREA, ..HUGE };

/// Columns as in the server: a sampled hit for each sixteenth chunk of a slab is one of 22,000
/// accesses where chunks have APP's sizes, and a moved item is four hits warmer.
const AS_SERVER: Config = Config {
    heating: Heating {
        every: 64,
        is_in_header: false,
        pass_accesses: 22_000,
        limits: Limits { margin: 4, ..LIMITS },
    },
    ..COLUMNS
};
/// Requests per item before the count and during it: passes are that rare.
const SERVER_SHARES: [f64; 2] = [4.0, 4.0];

/// Uniform requests: no item is hot.
pub fn uniform(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let load = Load { choice: Choice::Uniform, ..Load::zipfian(scale, &app) };
    let rows = Config { placement: Placement::Rows(0.5), ..HUGE };
    let stores = [("as stored", HUGE), ("rows", rows), ("columns", COLUMNS), ("area", IN_AREA)];
    let mut found: Vec<(&str, Figures)> = load.run_all(stores)?;
    found.push(("columns as the server's", load.run_for(AS_SERVER, SERVER_SHARES)?));
    let of = |at: usize| &found[at].1;
    let more = |at: usize| 100.0 * (of(at).misses(&Kind::ALL) / of(0).misses(&Kind::ALL) - 1.0);
    let cells = found.iter().map(|(name, it)| {
        let mut cells = row([*name], it);
        cells.push(Cell::number(it.each(it.swaps), 4));
        cells
    });
    Ok(Findings {
        beside: vec![
            Cell::number(of(2).own_hits() - of(0).own_hits(), 2),
            Cell::number(more(2), 1),
            Cell::number(more(3), 1),
            Cell::number(more(4), 1),
        ],
        text: vec![format!("{}.", load.in_words())],
        tables: vec![table(
            "cavast-uniform",
            &[headings(&["placement"]), vec!["swaps"]].concat(),
            cells.collect(),
        )],
        plots: Vec::new(),
    })
}

/// The effect of counting fewer accesses.
pub fn sampling(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let load = Load::zipfian(scale, &app);
    let mut stores = vec![("as stored".to_owned(), HUGE)];
    for (name, config) in [("columns", COLUMNS), ("area", IN_AREA)] {
        let heating = |every| Heating { every, ..Heating::USUAL };
        stores.extend(EVERY.map(|every| {
            (format!("{name}, 1 in {every}"), Config { heating: heating(every), ..config })
        }));
    }
    let heating = Heating { is_in_header: true, ..Heating::USUAL };
    stores.push(("columns, in headers".into(), Config { heating, ..COLUMNS }));
    let found: Vec<(String, Figures)> = load.run_all(stores)?;
    let misses = |at: usize| Cell::number(found[at].1.misses(&[Kind::Upkeep]), 2);
    let rows = found.iter().map(|(name, it)| {
        vec![
            Cell::text(name),
            Cell::number(it.own_hits(), 2),
            Cell::number(it.each(it.passes), 5),
            Cell::number(it.each(it.swaps), 4),
            Cell::number(it.lines(&[Kind::Upkeep]), 2),
            Cell::number(it.misses(&[Kind::Upkeep]), 2),
            Cell::number(it.misses(&Kind::ALL), 2),
        ]
    });
    let columns =
        ["temperatures", "hits, %", "passes", "swaps", "upkeep, lines", "its misses", "all misses"];
    Ok(Findings {
        beside: vec![misses(1), misses(3), misses(9)],
        text: vec![format!(
            "{}. memcached's items and index on huge pages; passes, swaps, lines and misses are of \
             a request. In an array a temperature takes a line of its own to be changed; in the \
             header it does not, and a pass reads all headers.",
            load.in_words()
        )],
        tables: vec![table("cavast-sampling", &columns, rows.collect())],
        plots: vec![plot(&found)],
    })
}

fn plot(found: &[(String, Figures)]) -> Plot {
    let series = [("columns", 1), ("area", 1 + EVERY.len())].map(|(name, first)| {
        let points = EVERY.iter().zip(&found[first..]);
        let points = points.map(|(every, (_, it))| Point::exact(*every as f64, it.own_hits()));
        Series { name: name.into(), points: points.collect() }
    });
    Plot {
        name: "cavast-sampling".into(),
        title: "Hits by how seldom accesses count".into(),
        x: Axis::logarithmic("one access in so many counts"),
        y: Axis::linear("hits (%)"),
        series: series.into(),
    }
}

/// Swaps, moved bytes and bytes of state.
pub fn overhead(scale: &Scale) -> Outcome<Findings> {
    let mut rows = Vec::new();
    let mut beside = Vec::new();
    for sizes in [SizeChoice::App, SizeChoice::Etc] {
        let population = usual(scale, sizes)?;
        let load = Load::zipfian(scale, &population);
        let split = super::cells::Layout { is_split: true, ..HUGE.layout };
        let stores = [
            ("as stored", HUGE),
            ("keys apart", Config { layout: split, ..HUGE }),
            ("columns", COLUMNS),
            ("area", IN_AREA),
        ];
        let found: Vec<(&str, Figures)> = load.run_all(stores)?;
        let data = |it: &Figures| it.slab_bytes as f64;
        for (at, (name, it)) in found.iter().enumerate() {
            // Three bytes lead from each key to its value.
            let offsets = if at == 1 { 3.0 * f64::from(population.count()) } else { 0.0 };
            rows.push(vec![
                Cell::text(population.sizes.to_string()),
                Cell::text(*name),
                Cell::number(it.each(it.swaps), 4),
                Cell::number(it.each(it.moved_bytes), 1),
                Cell::number(it.lines(&[Kind::Upkeep]), 2),
                Cell::number(100.0 * it.upkeep_bytes as f64 / data(it), 3),
                Cell::number(100.0 * offsets / data(it), 3),
                Cell::number(100.0 * (data(it) / data(&found[0].1) - 1.0), 1),
            ]);
        }
        if beside.is_empty() {
            let columns = &found[2].1;
            beside = vec![
                Cell::number(columns.each(columns.swaps), 4),
                Cell::number(columns.each(columns.moved_bytes), 1),
                Cell::number(100.0 * columns.upkeep_bytes as f64 / data(columns), 3),
            ];
        }
    }
    Ok(Findings {
        beside,
        text: vec![
            "memcached's items and index on huge pages, zipfian requests, after six \
             requests for each ten items. Swaps, bytes and lines are of a request; temperatures, \
             offsets and slabs are memory. With keys apart, a slab has keys of one step of 16 \
             bytes and values of one class, and slabs that are not full count."
                .into(),
        ],
        tables: vec![table(
            "cavast-overhead",
            &[
                "sizes",
                "placement",
                "swaps",
                "bytes moved",
                "upkeep, lines",
                "temperatures, % of slabs",
                "offsets, % of slabs",
                "more slabs, %",
            ],
            rows,
        )],
        plots: Vec::new(),
    })
}
