//! How expired items are found: by a separate walk, or by the passes that come by anyway.

use super::cells::Layout;
use super::expiry::ExpiryKind;
use super::memory::Kind;
use super::run::{Figures, HUGE, Load, usual};
use super::store::Config;
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::Cell;
use crate::workload::sizes::SizeChoice;

const KINDS: [(&str, ExpiryKind); 5] = [
    ("nothing expires", ExpiryKind::Never),
    ("nobody looks", ExpiryKind::Nobody),
    ("a walk over headers", ExpiryKind::Scan),
    ("passes, by headers", ExpiryKind::PassHeaders),
    ("passes, by four bits", ExpiryKind::PassBeside),
];

/// Compares the ways to find expired items.
pub fn expiry(scale: &Scale) -> Outcome<Findings> {
    let app = usual(scale, SizeChoice::App)?;
    let load = Load::zipfian(scale, &app);
    let mut all = Vec::new();
    for is_split in [false, true] {
        let layout = Layout { is_split, ..HUGE.layout };
        let columns = Config { layout, placement: Placement::Columns(1), ..HUGE };
        let stores = KINDS.map(|(name, expiry)| (name, Config { expiry, ..columns }));
        all.push((if is_split { "split" } else { "inline" }, load.run_all(stores)?));
    }
    let rows = all.iter().flat_map(|(layout, found)| {
        found.iter().map(move |(name, it)| {
            vec![
                Cell::text(*layout),
                Cell::text(*name),
                Cell::number(it.own_hits(), 2),
                Cell::number(it.lines(&[Kind::Upkeep]), 2),
                Cell::number(it.misses(&[Kind::Upkeep]), 2),
                Cell::number(it.misses(&Kind::ALL), 2),
                Cell::number(it.each(it.reclaimed), 3),
                Cell::number(100.0 * it.held_share, 1),
            ]
        })
    });
    let columns = [
        "layout",
        "who looks",
        "hits, %",
        "upkeep, lines",
        "its misses",
        "all misses",
        "reclaimed",
        "expired and held, %",
    ];
    let found: &[(&str, Figures)] = &all[1].1;
    let more = |at: usize| found[at].1.misses(&Kind::ALL) - found[1].1.misses(&Kind::ALL);
    Ok(Findings {
        beside: vec![
            Cell::number(found[3].1.own_hits() - found[2].1.own_hits(), 2),
            Cell::number(more(2), 2),
            Cell::number(more(3), 2),
            Cell::number(more(4), 2),
        ],
        text: vec![format!(
            "{}. Columns on huge pages; items are valid for 2048 requests a slab on the average. \
             The walk sees a slab every 1024 requests, passes come after 1024 accesses to the \
             slab. Lines and misses are of a request.",
            load.in_words()
        )],
        tables: vec![table("cavast-expiry", &columns, rows.collect())],
        plots: Vec::new(),
    })
}
