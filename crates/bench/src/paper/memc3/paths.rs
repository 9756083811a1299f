//! Insertions: the load that a table reaches, the moves and the time, by the number of paths.

use crate::failure::Outcome;
use crate::paper::measure::cpu_seconds;
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::tables::{Cuckoo, LarderIndex, Locking, Settings, Table, items};

/// Numbers of paths of both tables.
const PATHS: [usize; 4] = [1, 2, 3, 4];
/// Further ones, which the index's larger buckets allow.
const PATHS_LARDER: [usize; 6] = [1, 2, 3, 4, 8, 16];
/// Buckets of MemC3's table, of four slots each.
const BUCKETS: usize = 8192;
/// More items than either table has slots.
const ITEMS: usize = 40_000;
/// The most sets of keys of a seed: a hundred rounds of twenty.
const SETS_MAX: u64 = 2_000;
/// Steps of the load that are shown separately, in per cent of the slots.
const LOADS: [u64; 12] = [10, 30, 50, 60, 70, 80, 85, 90, 93, 95, 97, 99];

/// A table that is filled from empty until it refuses.
trait Fillable {
    fn insert(&self, place: u32) -> bool;
    /// Slots, and words moved so far.
    fn slots_and_moves(&self) -> (u64, u64);
}

impl Fillable for Cuckoo {
    fn insert(&self, place: u32) -> bool {
        Table::insert(self, place)
    }
    fn slots_and_moves(&self) -> (u64, u64) {
        (self.slots(), self.counts().1)
    }
}

impl Fillable for LarderIndex {
    fn insert(&self, place: u32) -> bool {
        Table::insert(self, place)
    }
    fn slots_and_moves(&self) -> (u64, u64) {
        let stats = self.stats();
        (stats.slots, stats.displacements)
    }
}

/// The results of filling one table.
struct Fill {
    occupancy_percent: f64,
    moves_per_insert: f64,
    millions_per_cpu_second: f64,
    /// Moves and CPU microseconds per insertion, up to each load.
    steps: Vec<Option<(f64, f64)>>,
}

fn fill(table: &impl Fillable) -> Fill {
    let (slots, _) = table.slots_and_moves();
    let (mut items, mut moves, mut steps) = (0_u64, 0, Vec::new());
    let begun = cpu_seconds();
    let mut before = begun;
    for load in LOADS {
        let (first, until) = (items, slots * load / 100);
        while items < until && table.insert(items as u32) {
            items += 1;
        }
        let (now, moved) = (cpu_seconds(), table.slots_and_moves().1);
        let inserts = (items - first) as f64;
        let step = ((moved - moves) as f64 / inserts, (now - before) * 1e6 / inserts);
        steps.push((items == until).then_some(step));
        (before, moves) = (now, moved);
        if items < until {
            steps.resize(LOADS.len(), None);
            break;
        }
    }
    while table.insert(items as u32) {
        items += 1;
    }
    let moves = table.slots_and_moves().1;
    Fill {
        occupancy_percent: items as f64 * 100.0 / slots as f64,
        moves_per_insert: moves as f64 / items as f64,
        millions_per_cpu_second: items as f64 / (cpu_seconds() - begun).max(1e-9) / 1e6,
        steps,
    }
}

/// One of the two kinds of tables with a number of paths, filled several times.
struct Filled {
    name: String,
    paths: usize,
    fills: Vec<Fill>,
}

/// Fills every kind of table `times` times, each time with other keys, all kinds in turn.
fn fill_all(times: u64, seed: u64) -> Vec<Filled> {
    let kinds = PATHS.iter().map(|paths| ("cuckoo, 4 slots", *paths));
    let kinds = kinds.chain(PATHS_LARDER.iter().map(|paths| ("larder-index, 8 slots", *paths)));
    let kinds: Vec<(&str, usize)> = kinds.collect();
    let mut filled: Vec<Filled> = kinds
        .iter()
        .map(|(name, paths)| Filled { name: (*name).into(), paths: *paths, fills: Vec::new() })
        .collect();
    for time in 0..times {
        // No two seeds share a set of keys; those of the first seed begin with the first.
        let set = seed.wrapping_sub(1).wrapping_mul(SETS_MAX).wrapping_add(1 + time);
        let items = items(set << 32, ITEMS);
        for (number, one) in filled.iter_mut().enumerate() {
            one.fills.push(if number < PATHS.len() {
                let settings =
                    Settings { locking: Locking::Optimistic, tags: true, paths: one.paths, seed };
                fill(&Cuckoo::new(items.clone(), BUCKETS, settings))
            } else {
                fill(&LarderIndex::fixed(items.clone(), one.paths))
            });
        }
    }
    filled
}

impl Filled {
    fn spread(&self, field: fn(&Fill) -> f64) -> Spread {
        Spread::of(self.fills.iter().map(field))
    }

    /// Returns the figure of an insertion on the way to a load, if every table reached it.
    fn step(&self, load: usize, field: fn((f64, f64)) -> f64) -> Option<Spread> {
        let steps: Option<Vec<f64>> =
            self.fills.iter().map(|fill| fill.steps[load].map(field)).collect();
        steps.map(Spread::of)
    }
}

/// Returns how many tables are filled for each figure: more of them at larger scales.
fn times(scale: &Scale) -> u64 {
    scale.rounds * ((scale.share * 100.0) as u64).clamp(1, 20)
}

/// Measures load, moves and speed of filling a table.
pub fn table_2(scale: &Scale) -> Outcome<Findings> {
    let times = times(scale);
    let filled = fill_all(times, scale.seed);
    let rows = filled.iter().map(|one| {
        vec![
            Cell::text(one.name.clone()),
            Cell::count(one.paths as u64),
            Cell::spread(one.spread(|fill| fill.occupancy_percent), 2),
            Cell::spread(one.spread(|fill| fill.moves_per_insert), 3),
            Cell::spread(one.spread(|fill| fill.millions_per_cpu_second), 2),
        ]
    });
    let columns = ["table", "paths", "full at, % of slots", "moves / insert", "M inserts / CPU s"];
    // By time: moves get fewer with each additional path, and the search takes longer.
    let fastest = filled[..PATHS.len()].iter().max_by(|a, b| {
        let speed = |one: &Filled| one.spread(|fill| fill.millions_per_cpu_second).median;
        speed(a).total_cmp(&speed(b))
    });
    let fastest = fastest.expect("there are numbers of paths").paths;
    let two = &filled[1];
    Ok(Findings {
        beside: vec![
            Cell::spread(two.spread(|fill| fill.occupancy_percent), 2),
            Cell::Text(format!("{fastest} of 1 to 4, by CPU time of an insertion")),
        ],
        text: vec![format!(
            "{times} tables for each row, of {} slots, and of larder-index one of its largest, \
             filled from empty until an insertion finds no room. larder-index is given no memory \
             to grow. Occupancy and moves are counts; the speed is informative, and the tables fit \
             into a CPU's cache.",
            BUCKETS * 4,
        )],
        tables: vec![table("memc3-paths", &columns, rows.collect())],
        plots: Vec::new(),
    })
}

/// Measures moves and time of an insertion by load.
pub fn figure_6(scale: &Scale) -> Outcome<Findings> {
    let times = times(scale);
    let filled = fill_all(times, scale.seed);
    let shown: Vec<&Filled> = filled.iter().filter(|one| one.paths != 8).collect();
    let columns: Vec<String> = ["table".to_owned(), "paths".to_owned()]
        .into_iter()
        .chain(LOADS.iter().map(|load| format!("to {load} %")))
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let rows = shown.iter().map(|one| {
        let steps = (0..LOADS.len()).map(|load| {
            let moves = one.step(load, |step| step.0);
            moves.map_or(Cell::Nothing, |moves| Cell::number(moves.median, 3))
        });
        [Cell::text(one.name.clone()), Cell::count(one.paths as u64)]
            .into_iter()
            .chain(steps)
            .collect()
    });
    let rate = filled[1].spread(|fill| fill.millions_per_cpu_second);
    Ok(Findings {
        beside: vec![Cell::Text(format!("{rate:.2} million a CPU second, 2 paths"))],
        text: vec![format!(
            "Words moved for each insertion while the load rises to that of the column, medians of \
             {times} tables; below, how many insertions one thread makes meanwhile, which is \
             informative. A table that was full before a load has no figure there."
        )],
        tables: vec![table("memc3-moves-by-load", &columns, rows.collect())],
        plots: vec![
            plot(&shown, "memc3-moves", "Words moved for an insertion", "moves / insert", |step| {
                step.0
            }),
            plot(
                &shown,
                "memc3-inserts",
                "Insertions of one thread",
                "million inserts / CPU second",
                |step| 1.0 / step.1,
            ),
        ],
    })
}

fn plot(
    filled: &[&Filled],
    name: &str,
    title: &str,
    label: &str,
    field: fn((f64, f64)) -> f64,
) -> Plot {
    let series = filled.iter().map(|one| Series {
        name: format!("{}, {} path{}", one.name, one.paths, if one.paths == 1 { "" } else { "s" }),
        points: (0..LOADS.len())
            .filter_map(|load| Some((load, one.step(load, field)?)))
            .map(|(load, spread)| Point::spread(LOADS[load] as f64, spread))
            .collect(),
    });
    Plot {
        name: name.into(),
        title: title.into(),
        x: Axis::linear("load (% of slots)"),
        y: if name.contains("moves") { Axis::logarithmic(label) } else { Axis::linear(label) },
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{PATHS, fill_all};

    #[test]
    fn more_paths_move_less_and_four_slots_reach_the_papers_occupancy() {
        let filled = fill_all(1, 1);
        let moves = |number: usize| filled[number].fills[0].moves_per_insert;
        assert!(moves(1) < moves(0) && moves(3) < moves(1));
        assert!(moves(PATHS.len() + 5) < moves(PATHS.len()));
        for one in &filled[..PATHS.len()] {
            let occupancy = one.fills[0].occupancy_percent;
            assert!((94.0..100.0).contains(&occupancy), "{} paths: {occupancy}", one.paths);
        }
    }
}
