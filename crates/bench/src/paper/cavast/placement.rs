//! The place of hot items: as stored, in rows, in columns, in an area of their own, or in the order
//! of their popularity.

use super::memory::Kind;
use super::run::{Figures, HOTSPOT, HUGE, Load, headings, row, usual};
use super::store::Config;
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::Cell;
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

/// The area's share of all places: a few times the cache's capacity.
pub const AREA: Placement = Placement::Area { share: 0.001 };

const PLACEMENTS: [(&str, Placement); 8] = [
    ("as stored", Placement::AsStored),
    ("rows, 1/16 hot", Placement::Rows(1.0 / 16.0)),
    ("rows, half hot", Placement::Rows(0.5)),
    ("rows, 15/16 hot", Placement::Rows(15.0 / 16.0)),
    ("columns, 1 of 16 hot", Placement::Columns(1)),
    ("columns, 4 of 16 hot", Placement::Columns(4)),
    ("area of 0.1 %", AREA),
    ("by rank", Placement::ByRank),
];

/// Compares placements.
pub fn placement(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let zipfian = Load::zipfian(scale, &app);
    let words = zipfian.in_words();
    let mut all = Vec::new();
    for choice in [Choice::Zipfian, HOTSPOT] {
        let load = Load { choice, ..Load::zipfian(scale, &app) };
        let stores = PLACEMENTS.map(|(name, placement)| (name, Config { placement, ..HUGE }));
        all.push((load.choice.to_string(), load.run_all(stores)?, load.bound()));
    }
    let gained = |choice: usize, placement: usize| {
        let found: &[(&str, Figures)] = &all[choice].1;
        Cell::number(found[placement].1.own_hits() - found[0].1.own_hits(), 1)
    };
    let fewer = |placement: usize| {
        let [stored, placed] = [0, placement].map(|at| all[0].1[at].1.misses(&Kind::ALL));
        Cell::number(100.0 * (1.0 - placed / stored), 1)
    };
    let beside = vec![
        gained(0, 1),
        gained(0, 2),
        gained(0, 4),
        gained(0, 6),
        gained(0, 7),
        gained(1, 4),
        gained(1, 6),
        fewer(4),
    ];
    let rows = all.iter().flat_map(|(choice, found, bound)| {
        found.iter().map(move |(name, figures)| {
            let mut cells = row([choice.as_str(), name], figures);
            cells.push(Cell::number(*bound, 1));
            cells
        })
    });
    let columns = [headings(&["popular", "placement"]), vec!["most hits, %"]].concat();
    Ok(Findings {
        beside,
        text: vec![format!(
            "{words}. memcached's items and index on huge pages. Rows and columns are hot in each \
             slab; a pass comes after 1024 accesses to the slab. Without a sign of it, by rank, \
             all items lie in the order of their popularity: more no placement can do."
        )],
        tables: vec![table("cavast-placement", &columns, rows.collect())],
        plots: Vec::new(),
    })
}
