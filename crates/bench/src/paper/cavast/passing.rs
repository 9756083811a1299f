//! The layout that pays in this model: the hottest items of the whole store in an area of the
//! cache's size, a small index of that area, and reads of all other items that leave the cache as
//! it is.
//!
//! Rows are the paper's way to keep cold items out of the hot ones' sets, but give the hot ones no
//! larger a share of the sets than of the memory. Items that are not read again soon can also be
//! read as non-temporal, which evicts nothing; that takes knowing which items are hot before they
//! are read, and the area's index knows.

use super::cells::Layout;
use super::memory::Kind;
use super::population::CACHE_SHARE;
use super::run::{Figures, HOTSPOT, LARDER, Load, headings, row, usual};
use super::store::{Config, Heating};
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::Cell;
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

/// Larder's items in cells that begin on lines.
pub const ON_LINES: Config = Config { layout: Layout { alignment: 64, ..LARDER.layout }, ..LARDER };
/// The same with an area of the cache's size. If every access counted, all items that deserve the
/// area would have the highest temperature of four bits; one in four counts.
pub const IN_AREA: Config = Config {
    placement: Placement::Area { share: CACHE_SHARE },
    heating: Heating { every: 4, ..Heating::USUAL },
    ..ON_LINES
};
/// Sizes of the area in those of the cache.
const SIZES_OF_AREA: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// The area by its size, with and without reads past the cache.
pub fn passing(scale: &Scale) -> Outcome<Findings> {
    let (mut rows, mut beside, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for (sizes, choice) in [
        (SizeChoice::App, Choice::Zipfian),
        (SizeChoice::App, HOTSPOT),
        (SizeChoice::Etc, Choice::Zipfian),
    ] {
        let population = usual(scale, sizes)?;
        let load = Load { choice, ..Load::zipfian(scale, &population) };
        let found: Vec<(String, Figures)> = load.run_all(stores())?;
        let (sizes, popular) = (population.sizes.to_string(), load.choice.to_string());
        rows.extend(found.iter().map(|(name, figures)| {
            let mut cells = row([&sizes, &popular, name], figures);
            cells.push(Cell::number(load.bound(), 1));
            cells
        }));
        if beside.is_empty() {
            // The area of the cache's size is the second of four, in both lists.
            let [stored, area, passed] = [0, 2, 6].map(|at| &found[at].1);
            let hits = [stored, area, passed].map(|it| Cell::number(it.own_hits(), 1));
            let misses = passed.misses(&Kind::ALL) / stored.misses(&Kind::ALL);
            beside.extend(hits);
            beside.push(Cell::number(100.0 * (1.0 - misses), 1));
        }
        words.push(load.in_words());
    }
    let columns = [headings(&["sizes", "popular", "store"]), vec!["most hits, %"]].concat();
    Ok(Findings {
        beside,
        text: vec![
            format!("{}.", words.join(". ")),
            "Larder's items on lines and its index, on huge pages. An area is given in multiples \
             of the cache's share of the data; a small index of it is asked first. Past the \
             cache, a line takes the place in its set that is next to be replaced."
                .into(),
        ],
        tables: vec![table("cavast-passing", &columns, rows)],
        plots: Vec::new(),
    })
}

fn stores() -> Vec<(String, Config)> {
    let mut stores = vec![("as stored".to_owned(), ON_LINES)];
    for passes_cold in [false, true] {
        stores.extend(SIZES_OF_AREA.map(|size| {
            let placement = Placement::Area { share: size * CACHE_SHARE };
            let past = if passes_cold { ", cold past the cache" } else { "" };
            let config = Config { placement, has_front: true, passes_cold, ..IN_AREA };
            (format!("area x {size}{past}"), config)
        }));
    }
    stores
}
