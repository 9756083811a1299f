//! Misses by memory: both zones beside the hot zone alone and beside memcached's LRU.

use std::sync::Arc;

use super::client::{Client, Counts, TARGET, Zones, hot_at_least};
use super::data::{Data, draw};
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::policies::kind::{Kind, Setting};
use crate::policies::simulate::Simulation;
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::workload::popularity::Choice;

/// Memory in hundredths of all keys and values.
const MEMORY_PERCENT: [u64; 4] = [5, 10, 20, 40];
/// Reads per key after each was stored once; the first half only warms the cache. Otherwise most
/// misses would be first reads, which no memory saves.
const READS_PER_KEY: usize = 4;
const SKEW: f64 = 0.99;
const ZONES: [Zones; 3] = [Zones::Hot, Zones::Price, Zones::Target(TARGET)];

/// One memory limit.
struct Limit {
    memory: u64,
    memcached_percent: f64,
    found: Vec<Counts>,
}

/// Measures misses by memory.
pub fn misses(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let reads = data.keys as usize * READS_PER_KEY;
    let objects = draw(&Choice::Zipfian, SKEW, data.keys, reads, scale.seed)?;
    let mut memories = MEMORY_PERCENT.map(|percent| data.memory(percent)).to_vec();
    memories.dedup();
    let mut limits = Vec::new();
    for memory in memories {
        let found = ZONES.map(|zones| settled(zones, memory, &data, &objects));
        let found = found.into_iter().collect::<Outcome<Vec<Counts>>>()?;
        let memcached_percent = memcached(memory, &data, &objects);
        limits.push(Limit { memory, memcached_percent, found });
    }
    let best = |zones: usize, others: fn(&Limit) -> f64| {
        let fewer = limits.iter().map(|limit| limit.found[zones].fewer_than(others(limit)));
        Cell::number(fewer.fold(f64::MIN, f64::max), 1)
    };
    let memcached: fn(&Limit) -> f64 = |limit| limit.memcached_percent;
    let alone: fn(&Limit) -> f64 = |limit| limit.found[0].misses_percent();
    Ok(Findings {
        beside: vec![best(1, memcached), best(2, memcached), best(1, alone), best(2, alone)],
        text: vec![format!(
            "{}; {reads} zipfian reads (skew {SKEW}) after each key was read once, a miss is \
             stored, counted in the second half. memcached is a model: LRU over all items with its \
             bytes for each. Clients that wait for replies leave the background time; here it does \
             all its work after every few stores, so nothing is evicted for want of time, and the \
             price rule knows no bound on the time of compression. The hot zone keeps {}.",
            data.in_words(),
            hot_at_least()
        )],
        tables: vec![rows(&limits)],
        plots: vec![plot(&limits)],
    })
}

/// Returns a cache's misses of the second half of these reads, all keys having been read once.
pub fn settled(zones: Zones, memory: u64, data: &Data, objects: &[u32]) -> Outcome<Counts> {
    let cache = zones.cache(memory)?;
    let mut client = Client::new(&cache, data);
    client.run(data.all())?;
    let (warm, counted) = objects.split_at(objects.len() / 2);
    client.run(warm.iter().copied())?;
    client.run(counted.iter().copied())
}

/// Returns the misses of memcached's LRU in the second half of these reads, in percent.
pub fn memcached(memory: u64, data: &Data, objects: &[u32]) -> f64 {
    let setting =
        Setting { capacity: memory, objects: data.keys, items: memory, next_uses: Arc::from([]) };
    let kind = Kind::Memcached;
    let scale = kind.memory_scale();
    let mut simulation = Simulation::new(kind.build(&setting), scale, memory, data.keys);
    let (warm, counted) = objects.split_at(objects.len() / 2);
    simulation.run(data.all().map(|one| data.read(one)), |_| ());
    simulation.run(warm.iter().map(|one| data.read(*one)), |_| ());
    100.0 * simulation.run(counted.iter().map(|one| data.read(*one)), |_| ()).miss_ratio()
}

fn rows(limits: &[Limit]) -> crate::report::model::Table {
    let rows = limits.iter().flat_map(|limit| {
        let mib = Cell::number(limit.memory as f64 / f64::from(1 << 20), 1);
        let memcached = vec![
            mib.clone(),
            Cell::text("memcached, a model"),
            Cell::number(limit.memcached_percent, 2),
            Cell::number(0.0, 1),
        ];
        let mut rows = vec![[memcached, vec![Cell::Nothing; 5]].concat()];
        rows.extend(ZONES.iter().zip(&limit.found).map(|(zones, found)| {
            let [foreground_us, background_us] = found.us_per_get();
            vec![
                mib.clone(),
                Cell::text(zones.name()),
                Cell::number(found.misses_percent(), 2),
                Cell::number(found.fewer_than(limit.memcached_percent), 1),
                Cell::number(found.hot_percent(), 1),
                Cell::number(100.0 * found.compressed_share, 0),
                Cell::count(found.items),
                Cell::number(foreground_us, 2),
                Cell::number(background_us, 2),
            ]
        }));
        rows
    });
    let columns = [
        "memory, MiB",
        "cache",
        "misses, %",
        "fewer than memcached, %",
        "hits served hot, %",
        "compressed zone, % of memory",
        "items",
        "CPU us / read",
        "background us / read",
    ];
    table("zexpander-misses", &columns, rows.collect())
}

fn plot(limits: &[Limit]) -> Plot {
    let mib = |limit: &Limit| limit.memory as f64 / f64::from(1 << 20);
    let memcached =
        limits.iter().map(|limit| Point::exact(mib(limit), limit.memcached_percent)).collect();
    let mut series = vec![Series { name: "memcached, a model".into(), points: memcached }];
    series.extend(ZONES.iter().enumerate().map(|(place, zones)| {
        let points =
            limits.iter().map(|one| Point::exact(mib(one), one.found[place].misses_percent()));
        Series { name: zones.name(), points: points.collect() }
    }));
    Plot {
        name: "zexpander-misses".into(),
        title: "Misses by memory, zipfian reads".into(),
        x: Axis::logarithmic("memory (MiB)"),
        y: Axis::linear("misses (%)"),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Data, SKEW, Zones, draw, memcached, settled};

    #[test]
    fn both_zones_miss_less_than_one_in_the_same_memory() {
        let data = Data::of(40_000, None, 1).expect("no file is needed");
        let objects = draw(&Choice::Zipfian, SKEW, data.keys, 120_000, 1).expect("no file");
        let misses = |zones| {
            let counts = settled(zones, 10 << 20, &data, &objects).expect("every value is right");
            assert_eq!(counts.gets, 60_000, "the first half only warms");
            counts.misses_percent()
        };
        let (hot, both) = (misses(Zones::Hot), misses(Zones::Price));
        assert!(both < 0.8 * hot, "{both} beside {hot}");
        let memcached = memcached(10 << 20, &data, &objects);
        assert!(memcached > hot && memcached < 3.0 * hot, "{memcached} beside {hot}");
    }
}
