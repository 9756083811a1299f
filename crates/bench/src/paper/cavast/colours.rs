//! Columns in slabs of small pages: by offsets, which do not determine the sets of small pages, and
//! by the colours of their frames. Beside them huge pages, and the columns of a cache whose span is
//! a slab: the first of each slab, or a different one in each slab.
//!
//! These caches have the intended spans at any scale, and so more sets and fewer ways than in the
//! other experiments.

use policy::geometry::CacheGeometry;

use super::cells::{Cells, SLAB_BYTES};
use super::memory::Pages;
use super::run::{HOTSPOT, HUGE, Load, headings, row, usual};
use super::store::Config;
use super::zones::{Placement, Zones};
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::Cell;
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

const WAYS: usize = 4;
/// The paper's span, 32 pages, and the span of a slab.
const CACHES: [(&str, usize); 2] = [("128 KiB", 2048), ("a slab", 32_768)];

const SMALL: Config = Config { pages: Pages::Small, ..HUGE };
/// With a span of a slab, the first sixteenth of the span is the first column of each slab.
const FIRST: Placement = Placement::Rows(1.0 / 16.0);
const STORES: [(&str, Config); 6] = [
    ("huge, as stored", HUGE),
    ("huge, columns", Config { placement: Placement::Columns(1), ..HUGE }),
    ("huge, first column", Config { placement: FIRST, ..HUGE }),
    ("small, as stored", SMALL),
    ("small, columns", Config { placement: Placement::Columns(1), ..SMALL }),
    ("small, coloured", Config { placement: Placement::Coloured(1), ..SMALL }),
];
/// The number of hot columns.
const COLUMNS: usize = 1;
const FIRST_COLUMNS: usize = 2;
const BY_OFFSETS: usize = 4;
const COLOURED: usize = 5;

/// Columns of huge and of small pages.
pub fn colours(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let cells = Cells::fill(HUGE.layout, &app, 0..app.count());
    let (mut rows, mut pools, mut beside, mut turns) = (vec![], vec![], vec![], vec![]);
    for (span, sets) in CACHES {
        let geometry = CacheGeometry::new(64, WAYS, sets, 1).expect("it is a cache");
        let is_slab = geometry.span_bytes() == SLAB_BYTES as usize;
        for choice in [Choice::Zipfian, HOTSPOT] {
            let load = Load { choice, geometry, ..Load::zipfian(scale, &app) };
            let found = load.run_all(STORES)?;
            let gained = |store: usize, beside: usize| {
                Cell::number(found[store].1.own_hits() - found[beside].1.own_hits(), 1)
            };
            beside.push(gained(COLOURED, BY_OFFSETS));
            if is_slab {
                turns.push(gained(COLUMNS, FIRST_COLUMNS));
            }
            let popular = load.choice.to_string();
            // With a shorter span every slab's first column is the hot one.
            let is_own = |at: usize| is_slab || at != FIRST_COLUMNS;
            let own = (0..STORES.len()).filter(|&at| is_own(at));
            rows.extend(own.map(|at| row([span, &popular, found[at].0], &found[at].1)));
        }
        for at in [COLUMNS, BY_OFFSETS, COLOURED] {
            let (name, Config { placement, pages, .. }) = STORES[at];
            let pools_of = Zones::new(placement, &cells, &geometry).pools(&geometry, pages);
            pools.push(pool_row([span, name], &pools_of));
        }
    }
    beside.extend(turns);
    let columns = ["span", "slabs", "hot pages", "of each colour", "least", "most"];
    Ok(Findings {
        beside,
        text: vec![format!(
            "{} items of sizes {} in {} slabs; caches of 512 KiB and 8 MiB with {WAYS} ways. \
             memcached's items and index. A pass comes after 1024 accesses to the slab. Frames of \
             small pages are in no order.",
            app.count(),
            app.sizes,
            cells.slabs.len()
        )],
        tables: vec![
            table("cavast-colours", &headings(&["span", "popular", "slabs"]), rows),
            table("cavast-colour-pools", &columns, pools),
        ],
        plots: Vec::new(),
    })
}

/// Describes how evenly hot pages are spread over the colours.
fn pool_row(words: [&str; 2], pools: &[u32]) -> Vec<Cell> {
    let all: u32 = pools.iter().sum();
    let [least, most] = [pools.iter().min(), pools.iter().max()].map(|pool| *pool.unwrap_or(&0));
    let mean = f64::from(all) / pools.len() as f64;
    let numbers = [f64::from(all), mean, f64::from(least), f64::from(most)];
    let numbers = numbers.into_iter().zip([0, 1, 0, 0]);
    let numbers = numbers.map(|(number, digits)| Cell::number(number, digits));
    words.into_iter().map(Cell::text).chain(numbers).collect()
}
