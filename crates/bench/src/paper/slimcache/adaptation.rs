//! How the hot area follows the store behind the cache: slow, then fast, then slow again.

use ::flash::{Costs, FlashStats, Partition, Settings};

use super::client::{Client, SKEW, device_bytes, load};
use super::run::Happened;
use super::tier::{Tier, settings};
use crate::failure::Outcome;
use crate::paper::data::{Data, draw};
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};
use crate::report::share;
use crate::workload::popularity::Choice;

const PERCENT: u64 = 10;
/// The cost of a miss in each phase. A read of the cold area takes 120 microseconds.
const MISS_US: [u64; 4] = [2_000, 200, 100, 2_000];
/// Reads per key in a phase.
const READS_PER_KEY: usize = 1;
const WINDOWS: usize = 10;
const PARTITIONS: [(&str, Partition); 3] = [
    ("adaptive", Partition::Adaptive),
    ("no hot area", Partition::Fixed { hot_percent: 0 }),
    ("half hot", Partition::Fixed { hot_percent: 50 }),
];

/// The counts of a window.
struct Window {
    miss_us: u64,
    hit_percent: f64,
    hot_percent: f64,
    /// The hot area, in percent of the segments.
    area_percent: f64,
    target_percent: f64,
    /// Calculated from the costs given to the tier.
    read_us: f64,
}

/// Measures windows of each partition over the phases.
pub fn adaptation(scale: &Scale) -> Outcome<Findings> {
    let data = load(scale)?;
    let reads = READS_PER_KEY * data.keys as usize;
    let objects = draw(&Choice::Zipfian, SKEW, data.keys, (MISS_US.len() + 1) * reads, scale.seed)?;
    let runs = PARTITIONS.iter().map(|(_, partition)| run(*partition, &data, &objects));
    let runs = runs.collect::<Outcome<Vec<Vec<Window>>>>()?;
    let adaptive = &runs[0];
    let end = |phase: usize| adaptive[(phase + 1) * WINDOWS - 1].target_percent;
    let fast = adaptive[2 * WINDOWS..3 * WINDOWS].iter();
    let near = fast.clone().position(|window| window.target_percent >= 0.9 * end(2));
    Ok(Findings {
        beside: vec![
            Cell::number(end(0), 1),
            Cell::number(end(2), 1),
            near.map_or(Cell::Nothing, |at| Cell::count(at as u64 + 1)),
        ],
        text: vec![format!(
            "{}; flash of {PERCENT} % of that; zipfian reads (skew {SKEW}), one for each key \
             before the first window and one in each phase of {WINDOWS} windows; a miss is stored. \
             The tier is told by `Flash::set_costs` what a miss costs: {} us, phase by phase; a \
             read of the hot area 100 and of the cold one 120 in all of them. The time of a read \
             is reckoned from these. Where a miss costs less than a read of the cold area, the \
             model gains by every step until half of what is not kept free is hot: it does not \
             know that no tier at all would be cheapest.",
            data.in_words(),
            MISS_US.map(|us| us.to_string()).join(", ")
        )],
        tables: vec![table_of(&runs)],
        plots: vec![plot(adaptive)],
    })
}

fn costs(miss_us: u64) -> Costs {
    Costs { miss_ns: miss_us * 1000, ..Costs::default() }
}

fn run(partition: Partition, data: &Data, objects: &[u32]) -> Outcome<Vec<Window>> {
    let bytes = device_bytes(data, PERCENT);
    let mut tier = Tier::in_memory(bytes, &Settings { partition, ..settings(bytes) })?;
    let (warm, counted) = objects.split_at(objects.len() / (MISS_US.len() + 1));
    tier.flash.set_costs(costs(MISS_US[0]));
    Client::new(&mut tier, data).run(warm.iter().copied())?;
    let phase = counted.len() / MISS_US.len();
    let mut windows = Vec::new();
    for (objects, miss_us) in counted.chunks(phase).zip(MISS_US) {
        tier.flash.set_costs(costs(miss_us));
        for window in objects.chunks(phase.div_ceil(WINDOWS)) {
            let before = Happened::so_far(&tier.stats());
            let counts = Client::new(&mut tier, data).run(window.iter().copied())?;
            let stats = tier.stats();
            let happened = Happened::so_far(&stats) - before;
            let of_segments = |part: u64| 100.0 * share(part as f64, stats.segments as f64);
            windows.push(Window {
                miss_us,
                hit_percent: counts.hit_percent(),
                hot_percent: happened.hot_percent(),
                area_percent: of_segments(stats.hot.segments),
                target_percent: of_segments(stats.hot_segments_target),
                read_us: reckoned_us(&stats, miss_us, counts.gets, &happened),
            });
        }
    }
    Ok(windows)
}

/// Returns the mean time of a read by the tier's costs.
fn reckoned_us(stats: &FlashStats, miss_us: u64, gets: u64, happened: &Happened) -> f64 {
    let costs = costs(miss_us);
    assert_eq!(stats.costs, costs, "the tier was told");
    let (hot, cold) = (happened.hot_hits, happened.hits - happened.hot_hits);
    let missed = gets - happened.hits;
    let ns = hot * costs.hot_read_ns + cold * costs.cold_read_ns + missed * costs.miss_ns;
    share(ns as f64, gets as f64) / 1000.0
}

fn table_of(runs: &[Vec<Window>]) -> Table {
    let rows = (0..runs[0].len()).map(|at| {
        let adaptive = &runs[0][at];
        let mut row = vec![
            Cell::count(at as u64),
            Cell::count(adaptive.miss_us),
            Cell::number(adaptive.target_percent, 1),
            Cell::number(adaptive.area_percent, 1),
            Cell::number(adaptive.hot_percent, 1),
        ];
        row.extend(runs.iter().map(|run| Cell::number(run[at].hit_percent, 2)));
        row.extend(runs.iter().map(|run| Cell::number(run[at].read_us, 1)));
        row
    });
    let columns = [
        "window",
        "a miss, us",
        "hot area wanted, % of segments",
        "hot area, %",
        "hits there, %",
        "hits, %: adaptive",
        "no hot area",
        "half hot",
        "reckoned us / read: adaptive",
        "no hot area",
        "half hot",
    ];
    table("slimcache-adaptation", &columns, rows.collect())
}

fn plot(windows: &[Window]) -> Plot {
    let series = |name: &str, figure: fn(&Window) -> f64| {
        let points = windows.iter().enumerate();
        let points = points.map(|(at, window)| Point::exact(at as f64, figure(window)));
        Series { name: name.into(), points: points.collect() }
    };
    Plot {
        name: "slimcache-adaptation".into(),
        title: format!("The hot area as a miss costs {MISS_US:?} us"),
        x: Axis::linear("window"),
        y: Axis::linear("%"),
        series: vec![
            series("hot area wanted, of the segments", |window| window.target_percent),
            series("hot area", |window| window.area_percent),
            series("hits in the hot area", |window| window.hot_percent),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, MISS_US, Partition, READS_PER_KEY, SKEW, WINDOWS, draw, run};
    use crate::workload::popularity::Choice;

    #[test]
    fn the_hot_area_is_larger_while_misses_are_cheap() {
        let data = Data::of(60_000, None, 1).expect("no file is needed");
        let reads = (MISS_US.len() + 1) * READS_PER_KEY * data.keys as usize;
        let objects = draw(&Choice::Zipfian, SKEW, data.keys, reads, 1).expect("no file");
        let windows = run(Partition::Adaptive, &data, &objects).expect("it works");
        assert_eq!(windows.len(), MISS_US.len() * WINDOWS);
        let end = |phase: usize| windows[(phase + 1) * WINDOWS - 1].target_percent;
        assert!(end(2) > 3.0 * end(0), "{} {}", end(2), end(0));
        assert!(end(3) < end(2), "{} {}", end(3), end(2));
    }
}
