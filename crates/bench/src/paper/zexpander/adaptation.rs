//! How the split follows the workload: reads that are uniform at first and zipfian then.

use larder::{WINDOW_ITEMS, WINDOW_MUTATIONS_MIN};
use policy::split::STEP_SHARE;

use super::client::{Client, Counts, TARGET, Zones};
use super::data::{Data, draw};
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};
use crate::workload::popularity::Choice;

/// Memory in hundredths of all keys and values.
const MEMORY_PERCENT: u64 = 25;
/// Reads per key: uniform, and then zipfian.
const READS_PER_KEY: [usize; 2] = [3, 6];
const SKEW: f64 = 0.99;
/// Windows per key's read.
const WINDOWS_PER_READ: usize = 2;
/// The tolerated distance of the share served hot from its target, in points.
const NEAR_POINTS: f64 = 2.0;
const ZONES: [Zones; 3] = [Zones::Hot, Zones::Price, Zones::Target(TARGET)];

/// Measures windows of each cache over the change.
pub fn adaptation(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let memory = data.memory(MEMORY_PERCENT);
    let keys = data.keys as usize;
    let [even, skewed] = READS_PER_KEY.map(|reads| reads * keys);
    let mut objects = draw(&Choice::Uniform, SKEW, data.keys, even, scale.seed)?;
    objects.extend(draw(&Choice::Zipfian, SKEW, data.keys, skewed, scale.seed + 1)?);
    let window = keys / WINDOWS_PER_READ;
    let mut found: Vec<Vec<Counts>> = Vec::new();
    for zones in ZONES {
        let cache = zones.cache(memory)?;
        let mut client = Client::new(&cache, &data);
        client.run(data.all())?;
        let windows = objects.chunks(window).map(|window| client.run(window.iter().copied()));
        found.push(windows.collect::<Outcome<_>>()?);
    }
    let change = READS_PER_KEY[0] * WINDOWS_PER_READ;
    let last = |zones: usize| found[zones].last().copied().unwrap_or_default();
    let target = &found[2][change..];
    let near = target
        .iter()
        .position(is_near)
        .map_or(Cell::text("never"), |at| Cell::count(at as u64 + 1));
    Ok(Findings {
        beside: vec![
            Cell::number(last(2).hot_percent(), 1),
            near,
            Cell::number(last(1).fewer_than(last(0).misses_percent()), 1),
            Cell::number(last(2).fewer_than(last(0).misses_percent()), 1),
        ],
        text: vec![format!(
            "{}; {memory} bytes of memory; {even} uniform reads, then {skewed} zipfian ones (skew \
             {SKEW}); a miss is stored. A window is {window} reads, and the change comes before \
             window {change}. The engine looks at the split once in so many stores, as many as one \
             for each {WINDOW_ITEMS} hot items and {WINDOW_MUTATIONS_MIN} at least, and moves \
             {:.0} % of the memory. Near the target is within {NEAR_POINTS} points.",
            data.in_words(),
            100.0 * STEP_SHARE
        )],
        tables: vec![rows(&found, change)],
        plots: vec![
            plot("hot", "Hits served hot", "hits served hot (%)", &found, Counts::hot_percent),
            plot("misses", "Misses", "misses (%)", &found, Counts::misses_percent),
            plot(
                "split",
                "The compressed zone's memory",
                "share of memory (%)",
                &found,
                |counts| 100.0 * counts.compressed_share,
            ),
        ],
    })
}

fn is_near(counts: &Counts) -> bool {
    (counts.hot_percent() - 100.0 * TARGET).abs() <= NEAR_POINTS
}

fn rows(found: &[Vec<Counts>], change: usize) -> Table {
    let rows = (0..found[0].len()).map(|window| {
        let phase = if window < change { "uniform" } else { "zipfian" };
        let mut row = vec![Cell::count(window as u64), Cell::text(phase)];
        row.extend(found.iter().map(|one| Cell::number(one[window].misses_percent(), 2)));
        for one in &found[1..] {
            row.push(Cell::number(one[window].hot_percent(), 1));
            row.push(Cell::number(100.0 * one[window].compressed_share, 0));
        }
        row
    });
    let columns = [
        "window",
        "reads",
        "misses, %: hot alone",
        "price",
        "target",
        "served hot, %: price",
        "compressed zone, %: price",
        "served hot, %: target",
        "compressed zone, %: target",
    ];
    table("zexpander-adaptation", &columns, rows.collect())
}

fn plot(
    name: &str,
    title: &str,
    y: &str,
    found: &[Vec<Counts>],
    figure: impl Fn(&Counts) -> f64,
) -> Plot {
    let series = ZONES.iter().zip(found).map(|(zones, windows)| {
        let points = windows.iter().enumerate();
        let points = points.map(|(at, counts)| Point::exact(at as f64, figure(counts)));
        Series { name: zones.name(), points: points.collect() }
    });
    Plot {
        name: format!("zexpander-adaptation-{name}"),
        title: format!("{title}, reads uniform at first and zipfian then"),
        x: Axis::linear("window"),
        y: Axis::linear(y),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, is_near};

    #[test]
    fn near_is_on_both_sides_of_the_target() {
        let served = |compressed_hits| {
            is_near(&Counts { gets: 1_000, compressed_hits, ..Counts::default() })
        };
        assert!(served(100) && served(81) && served(119));
        assert!(!served(75) && !served(125));
    }
}
