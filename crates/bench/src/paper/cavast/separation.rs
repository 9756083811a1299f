//! Keys apart from values: the gain or loss of a request, by index and by sizes.

use super::cells::Layout;
use super::lookup::IndexKind;
use super::memory::Kind;
use super::run::{Figures, HUGE, Load, headings, row, usual};
use super::store::Config;
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::Cell;
use crate::workload::sizes::SizeChoice;

const SIZES: [SizeChoice; 3] = [SizeChoice::App, SizeChoice::Sys, SizeChoice::Etc];
const INDEXES: [IndexKind; 3] = [
    IndexKind::Chaining { load: 1.5 },
    IndexKind::Chaining { load: 6.0 },
    IndexKind::Tree { load: 6.0 },
];
const LAYOUTS: [(&str, Layout); 3] = [
    ("inline", Layout { header_bytes: 56, is_split: false, alignment: 1 }),
    ("split", Layout { header_bytes: 56, is_split: true, alignment: 1 }),
    ("split, on lines", Layout { header_bytes: 56, is_split: true, alignment: 64 }),
];

/// Compares layouts.
pub fn separation(scale: &Scale) -> Outcome<Findings> {
    let (mut rows, mut beside, mut words) = (Vec::new(), Vec::new(), String::new());
    for sizes in SIZES {
        let population = usual(scale, sizes)?;
        let load = Load::zipfian(scale, &population);
        for index in INDEXES {
            let stores = LAYOUTS.map(|(name, layout)| (name, Config { index, layout, ..HUGE }));
            let found: Vec<(&str, Figures)> = load.run_all(stores)?;
            let name = match index {
                IndexKind::Chaining { load } => format!("chaining, {load}"),
                _ => index.name().to_owned(),
            };
            let sizes = population.sizes.to_string();
            rows.extend(found.iter().map(|(layout, it)| row([&sizes, &name, layout], it)));
            if index == INDEXES[0] {
                let misses = |at: usize| found[at].1.misses(&Kind::ALL);
                beside.push(Cell::number(100.0 * (1.0 - misses(1) / misses(0)), 1));
            }
        }
        words.push_str(&load.in_words());
        words.push_str(". ");
    }
    Ok(Findings {
        beside,
        text: vec![
            words,
            "memcached's header on huge pages, items where they were stored. Chains are read \
             through the headers of other items, 1.5 or 6 items a head."
                .into(),
        ],
        tables: vec![table("cavast-separation", &headings(&["sizes", "index", "layout"]), rows)],
        plots: Vec::new(),
    })
}
