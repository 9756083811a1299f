//! Everything together, step by step: the paper's design on memcached's items, and the layout that
//! pays in this model on Larder's.
//!
//! The paper hands a request from a thread that reads its key to one that reads its value, which
//! has come into the cache by then. Here its lines are prefetched, as in the server.

use super::ahead::SERVER_GROUP;
use super::cells::Layout;
use super::expiry::ExpiryKind;
use super::lookup::IndexKind;
use super::memory::Kind;
use super::passing::{IN_AREA, ON_LINES};
use super::run::{Figures, HUGE, LARDER, Load, STOCK, headings, row, usual};
use super::store::Config;
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::Cell;
use crate::workload::sizes::SizeChoice;

const SIZES: [SizeChoice; 3] = [SizeChoice::App, SizeChoice::Sys, SizeChoice::Etc];
/// The steps shown beside the paper: its placement, one request at a time; the same with
/// prefetching; the one that misses least.
const PAPERS: usize = 4;
const AHEAD: usize = 6;
const BEST: usize = 11;

const TREE: Config = Config { index: IndexKind::Tree { load: 6.0 }, ..HUGE };
const SPLIT: Config = Config { layout: Layout { is_split: true, ..TREE.layout }, ..TREE };
const IN_COLUMNS: Config = Config { placement: Placement::Columns(1), ..SPLIT };
const EXPIRING: Config = Config { expiry: ExpiryKind::PassBeside, ..IN_COLUMNS };
/// All of the paper's parts together.
pub const ALL_OF_THE_PAPERS: Config = Config { group: SERVER_GROUP, ..EXPIRING };

/// Returns the stores, each with its addition to the one before it.
fn stores() -> [(&'static str, Config); 13] {
    let front = Config { has_front: true, ..IN_AREA };
    [
        ("stock", STOCK),
        ("+ huge pages", HUGE),
        ("+ tree", TREE),
        ("+ keys apart", SPLIT),
        ("+ columns", IN_COLUMNS),
        ("+ expiry in the passes", EXPIRING),
        ("+ asked for ahead: all of the paper's", ALL_OF_THE_PAPERS),
        ("Larder's items and index", LARDER),
        ("+ cells on lines", ON_LINES),
        ("+ area", IN_AREA),
        ("+ front index", front),
        ("+ cold items past the cache", Config { passes_cold: true, ..front }),
        ("Larder's, asked for ahead: as the server", Config { group: SERVER_GROUP, ..LARDER }),
    ]
}

/// Runs all steps for all sizes.
pub fn together(scale: &Scale) -> Outcome<Findings> {
    let (mut rows, mut beside, mut words) = (Vec::new(), Vec::new(), String::new());
    for sizes in SIZES {
        let population = usual(scale, sizes)?;
        let load = Load::zipfian(scale, &population);
        let found: Vec<(&str, Figures)> = load.run_all(stores())?;
        let (name, bound) = (population.sizes.to_string(), load.bound());
        rows.extend(found.iter().map(|(step, figures)| {
            let mut cells = row([&name, step], figures);
            cells.extend([Cell::number(figures.ahead(), 2), Cell::number(bound, 1)]);
            cells
        }));
        if population.sizes == SizeChoice::App {
            beside = compare(&found);
        }
        words.push_str(&load.in_words());
        words.push_str(". ");
    }
    let columns = [headings(&["sizes", "store"]), vec!["came ahead", "most hits, %"]].concat();
    Ok(Findings {
        beside,
        text: vec![
            words,
            "Each store adds to the one before it, but for Larder's, which begin anew. A store \
             that reads fewer lines may hit a smaller share of them and miss less: what a request \
             waits for is its misses. What came ahead are lines of a request, too, which nobody \
             waits for: they come from memory as well, and the most hits are without them. The \
             area has as large a share of the places as the cache of the data, and one access in \
             four counts there."
                .into(),
        ],
        tables: vec![table("cavast-together", &columns, rows)],
        plots: Vec::new(),
    })
}

fn compare(found: &[(&str, Figures)]) -> Vec<Cell> {
    let hits = |at: usize| found[at].1.own_hits();
    let misses = |at: usize| found[at].1.misses(&Kind::ALL);
    let fewer = |at: usize| Cell::number(100.0 * (1.0 - misses(at) / misses(0)), 1);
    vec![
        Cell::number(hits(PAPERS), 1),
        Cell::number(hits(PAPERS) - hits(0), 1),
        Cell::number(hits(AHEAD), 1),
        fewer(PAPERS),
        fewer(BEST),
    ]
}
