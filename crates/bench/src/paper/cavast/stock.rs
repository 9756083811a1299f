//! The hits of a stock store, by the size of the cache beside the data and by the skew of requests,
//! and the bound on any store.

use super::memory::Kind;
use super::population::CACHE_SHARE;
use super::run::{BESIDE_BYTES, Figures, Load, STOCK, headings, population, row, usual};
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::sizes::SizeChoice;

/// The cache in percent of keys and values.
const PERCENT: [f64; 5] = [100.0 * CACHE_SHARE, 0.1, 0.5, 2.0, 10.0];
/// Exponents of Zipf's law.
const SKEWS: [f64; 5] = [0.8, 0.9, 0.99, 1.1, 1.2];

/// A store, with the bound on any replacement.
struct Bounded {
    at: f64,
    figures: Figures,
    bound: f64,
}

/// Measures stock stores.
pub fn stock(scale: &Scale) -> Outcome<Findings> {
    let mut by_share = Vec::new();
    for at in PERCENT {
        let app = population(scale, SizeChoice::App, at / 100.0)?;
        let load = Load::zipfian(scale, &app);
        by_share.push(Bounded { at, figures: load.run(STOCK)?, bound: load.bound() });
    }
    let app = usual(scale, SizeChoice::App)?;
    let mut by_skew = Vec::new();
    for at in SKEWS {
        let load = Load { skew: at, ..Load::zipfian(scale, &app) };
        by_skew.push(Bounded { at, figures: load.run(STOCK)?, bound: load.bound() });
    }
    let rows = |all: &[Bounded], digits: usize| {
        let one = |it: &Bounded| {
            let mut cells = vec![Cell::number(it.at, digits)];
            cells.extend(row([], &it.figures));
            cells.push(Cell::number(it.bound, 1));
            cells
        };
        all.iter().map(one).collect()
    };
    let columns = |first| [headings(&[first]), vec!["most hits, %"]].concat();
    let words = Load::zipfian(scale, &app).in_words();
    Ok(Findings {
        beside: vec![
            Cell::number(by_share[0].figures.own_hits(), 1),
            Cell::number(by_share[0].bound, 1),
            Cell::number(100.0 * app.most_hits_in_full(BESIDE_BYTES), 1),
            Cell::number(by_share[0].figures.lines(&Kind::OWN), 1),
        ],
        text: vec![format!(
            "{words}, in the first row and the second table. The store is memcached's: headers of \
             56 bytes, chains at 1.5 items a head, small pages. Lines, hits and misses are of a \
             request; those of page tables and upkeep are in the misses and not in the hits. The \
             most hits are those of items, by whoever keeps the most popular ones in the whole \
             cache, without headers, in no more lines than their bytes fill, and knows beforehand \
             which they are."
        )],
        tables: vec![
            table("cavast-stock", &columns("cache, % of the data"), rows(&by_share, 3)),
            table("cavast-stock-skew", &columns("skew"), rows(&by_skew, 2)),
        ],
        plots: vec![plot(&by_share)],
    })
}

fn plot(all: &[Bounded]) -> Plot {
    let series = |name: &str, figure: fn(&Bounded) -> f64| Series {
        name: name.into(),
        points: all.iter().map(|it| Point::exact(it.at, figure(it))).collect(),
    };
    Plot {
        name: "cavast-stock".into(),
        title: "Hits of a stock store".into(),
        x: Axis::logarithmic("cache (% of the data)"),
        y: Axis::linear("hits (%)"),
        series: vec![series("stock", |it| it.figures.own_hits()), series("most", |it| it.bound)],
    }
}
