//! The rule by which the zones share the memory: a sweep of the target, and both rules under
//! several workloads.

use super::client::{Counts, TARGET, Zones, hot_at_least};
use super::data::{Data, draw};
use super::misses::{memcached, settled};
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::popularity::Choice;

/// Memory in hundredths of all keys and values.
const MEMORY_PERCENT: u64 = 25;
/// Reads per key after each was read once; the first half only warms the cache.
const READS_PER_KEY: usize = 4;
const SKEW: f64 = 0.99;
const TARGETS: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];
/// Lower targets are not reached: even with the largest compressed zone, more hits are served hot.
const HIGH_TARGET: f64 = 0.8;
/// One read in this many is the next of a scan, in the workload that has one.
const READS_PER_SCAN: usize = 4;
const ZONES: [Zones; 3] = [Zones::Hot, Zones::Price, Zones::Target(TARGET)];

const WORKLOADS: [&str; 4] =
    ["zipfian, skew 0.8", "zipfian, skew 0.99", "uniform", "a scan mixed in"];

/// The figures of a run, and its setting.
const COLUMNS: [&str; 8] = [
    "workload",
    "zones",
    "misses, %",
    "hits served hot, %",
    "compressed zone, % of memory",
    "CPU us / read",
    "background us / read",
    "items",
];

fn row(workload: &str, zones: Zones, counts: &Counts) -> Vec<Cell> {
    let [foreground_us, background_us] = counts.us_per_get();
    vec![
        Cell::text(workload),
        Cell::text(zones.name()),
        Cell::number(counts.misses_percent(), 2),
        Cell::number(counts.hot_percent(), 1),
        Cell::number(100.0 * counts.compressed_share, 0),
        Cell::number(foreground_us, 2),
        Cell::number(background_us, 2),
        Cell::count(counts.items),
    ]
}

/// Measures misses, share served hot and CPU time by target.
pub fn threshold(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let memory = data.memory(MEMORY_PERCENT);
    let objects = workload(1, &data, scale.seed)?;
    let mut found = Vec::new();
    for target in TARGETS {
        found.push(settled(Zones::Target(target), memory, &data, &objects)?);
    }
    let alone = settled(Zones::Hot, memory, &data, &objects)?;
    let price = settled(Zones::Price, memory, &data, &objects)?;
    let mut rows = vec![row(WORKLOADS[1], Zones::Hot, &alone)];
    let targets = TARGETS.iter().zip(&found);
    rows.extend(targets.map(|(target, one)| row(WORKLOADS[1], Zones::Target(*target), one)));
    rows.push(row(WORKLOADS[1], Zones::Price, &price));
    let high = TARGETS.iter().zip(&found).filter(|(at, _)| **at >= HIGH_TARGET);
    let off = high.map(|(at, one)| (one.hot_percent() - 100.0 * at).abs());
    let cost = |at: usize| Cell::number(found[at].us_per_get().iter().sum(), 2);
    let curve = |name: &str, figure: fn(&Counts) -> f64| Series {
        name: name.into(),
        points: TARGETS.iter().zip(&found).map(|(x, one)| Point::exact(*x, figure(one))).collect(),
    };
    Ok(Findings {
        beside: vec![
            Cell::number(off.fold(0.0, f64::max), 1),
            Cell::number(found[0].fewer_than(found[TARGETS.len() - 1].misses_percent()), 1),
            cost(0),
            cost(TARGETS.len() - 1),
        ],
        text: vec![format!(
            "{} CPU time is of one run, values made and compared included. The hot zone keeps {}: \
             a target below what that serves is not reached.",
            words(&data, memory),
            hot_at_least()
        )],
        tables: vec![table("zexpander-threshold", &COLUMNS, rows)],
        plots: vec![Plot {
            name: "zexpander-threshold".into(),
            title: "Misses and hits served hot by target".into(),
            x: Axis::linear("target"),
            y: Axis::linear("%"),
            series: vec![
                curve("misses", Counts::misses_percent),
                curve("hits served hot", Counts::hot_percent),
                curve("compressed zone, of memory", |one| 100.0 * one.compressed_share),
            ],
        }],
    })
}

/// Measures both rules under each workload.
pub fn split_rules(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let memory = data.memory(MEMORY_PERCENT);
    let (mut rows, mut price, mut target) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in WORKLOADS.iter().enumerate() {
        let objects = workload(number, &data, scale.seed)?;
        let found = ZONES.map(|zones| settled(zones, memory, &data, &objects));
        let found = found.into_iter().collect::<Outcome<Vec<Counts>>>()?;
        rows.extend(ZONES.iter().zip(&found).map(|(zones, one)| row(name, *zones, one)));
        let memcached = memcached(memory, &data, &objects);
        let model =
            [Cell::text(*name), Cell::text("memcached, a model"), Cell::number(memcached, 2)];
        rows.push([model.to_vec(), vec![Cell::Nothing; COLUMNS.len() - 3]].concat());
        let alone = found[0].misses_percent();
        price.push(found[1].fewer_than(alone));
        target.push(found[2].fewer_than(alone));
    }
    let least = |fewer: &[f64]| Cell::number(fewer.iter().copied().fold(f64::MAX, f64::min), 1);
    let bars = |name: &str, fewer: &[f64]| Series {
        name: name.into(),
        points: fewer.iter().enumerate().map(|(at, y)| Point::exact(at as f64, *y)).collect(),
    };
    Ok(Findings {
        beside: vec![least(&price), least(&target)],
        text: vec![format!(
            "{} With the scan, one read in {READS_PER_SCAN} goes through all keys in turn, the \
             others are zipfian (skew {SKEW}).",
            words(&data, memory)
        )],
        tables: vec![table("zexpander-split-rules", &COLUMNS, rows)],
        plots: vec![Plot {
            name: "zexpander-split-rules".into(),
            title: "Fewer misses than with the hot zone alone, by rule".into(),
            x: Axis::words("workload", WORKLOADS.map(String::from).into()),
            y: Axis::linear("fewer misses (%)"),
            series: vec![bars("price", &price), bars("target", &target)],
        }],
    })
}

fn words(data: &Data, memory: u64) -> String {
    format!(
        "{}; {memory} bytes of memory; {READS_PER_KEY} reads for each key after each \
         was read once, a miss is stored, counted in the second half.",
        data.in_words()
    )
}

/// Returns the reads of a workload, by its number.
fn workload(number: usize, data: &Data, seed: u64) -> Outcome<Vec<u32>> {
    let count = data.keys as usize * READS_PER_KEY;
    let zipfian = |skew| draw(&Choice::Zipfian, skew, data.keys, count, seed);
    Ok(match number {
        0 => zipfian(0.8)?,
        2 => draw(&Choice::Uniform, SKEW, data.keys, count, seed)?,
        3 => scanned(zipfian(SKEW)?, data.keys),
        _ => zipfian(SKEW)?,
    })
}

/// Replaces some reads by a scan.
fn scanned(mut objects: Vec<u32>, keys: u32) -> Vec<u32> {
    for (number, object) in objects.iter_mut().step_by(READS_PER_SCAN).enumerate() {
        *object = number as u32 % keys;
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::{READS_PER_SCAN, scanned};

    #[test]
    fn a_scan_goes_round_in_a_share_of_the_reads() {
        let found = scanned(vec![99; 12], 2);
        let scan: Vec<u32> = found.iter().copied().step_by(READS_PER_SCAN).collect();
        assert_eq!(scan, [0, 1, 0]);
        assert_eq!(found.iter().filter(|object| **object == 99).count(), 9);
    }
}
