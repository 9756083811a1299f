//! Lookups in stages: the lines of the index for a window of keys, then the items that these lead
//! to, their first lines or all of them, and then the lookups themselves.

use super::stores::{BATCH, KEY_BYTES, Stores, VALUE_BYTES, VALUE_LENGTHS};
use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{in_rounds, millions_per_cpu_second, ratio};
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series};

/// Lookups in each round.
const LOOKUPS: usize = 2_000_000;
/// Keys in a window.
const WINDOWS: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];
/// The depth of prefetching.
const STAGES: [&str; 3] = ["index", "and items", "and values"];

/// One way of looking up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// memcached's layout, key by key.
    Chaining,
    /// The cache, key by key.
    Single,
    /// The cache by windows, through this many stages.
    Staged { window: usize, stages: usize },
    /// The cache with the server's prefetching, in batches of the server's size.
    Ahead,
}

impl Way {
    fn all() -> Vec<Self> {
        let staged = |window| (1..=STAGES.len()).map(move |stages| Self::Staged { window, stages });
        let staged = WINDOWS.into_iter().flat_map(staged);
        [Self::Chaining, Self::Single, Self::Ahead].into_iter().chain(staged).collect()
    }
}

/// Looks up these items, and copies the found ones; returns millions per CPU second.
fn rate(stores: &Stores, way: Way, wanted: &[u32]) -> Outcome<f64> {
    let mut found = 0;
    let rate = millions_per_cpu_second(wanted.len(), || {
        found = match way {
            Way::Chaining => stores.look_up_in_chains(wanted),
            Way::Single => stores.look_up(wanted, 1, 0),
            Way::Staged { window, stages } => stores.look_up(wanted, window, stages),
            Way::Ahead => stores.look_up_ahead(wanted),
        };
    });
    if found != wanted.len() {
        return Err(Failure::Check(format!("{way:?}: {found} of {} found", wanted.len())));
    }
    Ok(rate)
}

/// Compares lookups of one thread by window and stages, beside memcached's layout.
pub fn staged(scale: &Scale) -> Outcome<Findings> {
    let count = scale.items(24_000_000) as u64;
    let stores = Stores::filled(count)?;
    let ways = Way::all();
    let mut found = Findings::default();
    for (name, choice) in [("uniform", Choice::Uniform), ("zipfian", Choice::Zipfian)] {
        let wanted = draw(choice, count, LOOKUPS.min(4 * count as usize), scale.seed);
        let rates = in_rounds(scale.rounds, ways.len(), |way| rate(&stores, ways[way], &wanted))?;
        let of = |way: Way| &rates[ways.iter().position(|one| *one == way).expect("one of all")];
        let chains = of(Way::Chaining);
        let best = ways[1..].iter().map(|&way| (way, ratio(of(way), chains)));
        let best = best.max_by(|one, other| one.1.median.total_cmp(&other.1.median));
        let (best, times) = best.expect("there are several");
        found.beside.push(Cell::spread(times, 2));
        found.text.push(format!("Best of the {name} ones: {best:?}."));
        let rows = ways.iter().map(|&way| row(way, of(way), chains)).collect();
        let columns = ["lookups", "window", "stages", "M lookups / CPU s", "of memcached's layout"];
        found.tables.push(table(&format!("cavast-staged-{name}"), &columns, rows));
        found.plots.push(plot(name, of));
    }
    found.text.insert(0, describe(count));
    Ok(found)
}

fn describe(count: u64) -> String {
    format!(
        "{count} items with keys of {KEY_BYTES} bytes and values of {VALUE_BYTES} to {}, in both \
         stores in the order of their numbers; which are popular has nothing to do with it. One \
         thread looks up keys that are there, and copies each value. memcached's layout is a chain \
         of items of header, key and value; the cache is the one that the server has. Informative: \
         times of one machine.",
        VALUE_BYTES + VALUE_LENGTHS - 1
    )
}

fn row(way: Way, rates: &[f64], chains: &[f64]) -> Vec<Cell> {
    let (name, window, stages) = match way {
        Way::Chaining => ("memcached's layout", Cell::Nothing, Cell::Nothing),
        Way::Single => ("key by key", Cell::Nothing, Cell::Nothing),
        Way::Ahead => ("as the server", Cell::count(BATCH as u64), Cell::text("and values")),
        Way::Staged { window, stages } => {
            ("staged", Cell::count(window as u64), Cell::text(STAGES[stages - 1]))
        }
    };
    vec![
        Cell::text(name),
        window,
        stages,
        Cell::spread(Spread::of(rates.iter().copied()), 2),
        Cell::spread(ratio(rates, chains), 2),
    ]
}

fn plot<'r>(name: &str, of: impl Fn(Way) -> &'r Vec<f64>) -> Plot {
    let curve = |stages: usize| {
        let point = |window: usize| {
            let rates = of(Way::Staged { window, stages }).iter().copied();
            Point::spread(window as f64, Spread::of(rates))
        };
        let points = WINDOWS.into_iter().map(point).collect();
        Series { name: STAGES[stages - 1].into(), points }
    };
    Plot {
        name: format!("cavast-staged-{name}"),
        title: format!("Lookups by window, {name}"),
        x: Axis::logarithmic("keys in a window"),
        y: Axis::linear("million lookups / CPU second"),
        series: (1..=STAGES.len()).map(curve).collect(),
    }
}
