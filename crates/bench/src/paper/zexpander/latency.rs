//! The latency of single reads by the zone that served them, and the cost of demoting an item.

use std::time::Instant;

use hdrhistogram::Histogram;
use larder::Cache;

use super::client::{Client, HeldClock, TARGET, Zones};
use super::data::{Data, draw};
use super::misses;
use crate::failure::{Failure, Outcome};
use crate::paper::{Findings, Scale, table};
use crate::report::model::Cell;
use crate::workload::popularity::Choice;

/// Memory in hundredths of all keys and values, in which they all fit, many of them compressed.
const MEMORY_PERCENT: u64 = 70;
/// Memory in which items are demoted and evicted all the time.
const DEMOTION_PERCENT: u64 = 25;
const SKEW: f64 = 0.99;
/// Requests per key while the cache settles.
const SETTLE_PER_KEY: usize = 4;
/// Reads that are timed.
const TIMED: usize = 100_000;
/// A read of one in this many keys is of a key that was never stored.
const ABSENT_EVERY: usize = 8;
const SHARES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// The range of a histogram in nanoseconds, and its significant digits. Longer counts as longest.
const NS_RANGE: (u64, u64) = (1, 10_000_000_000);
const DIGITS: u8 = 3;

/// Where a read was served.
#[derive(Debug, Clone, Copy)]
enum Served {
    Hot = 0,
    Compressed = 1,
    Missing = 2,
}

const NAMES: [&str; 3] = ["a hit in the hot zone", "a hit in the compressed zone", "a miss"];

/// Nanoseconds of reads by the zone that served them.
type Times = [Histogram<u64>; 3];

/// Measures percentiles of reads in a cache with the hot zone alone and in one with both; CPU of
/// demotions.
pub fn latency(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let count = data.keys as usize * SETTLE_PER_KEY;
    let objects = draw(&Choice::Zipfian, SKEW, data.keys, count, scale.seed)?;
    // Popularity varies; with uniform reads most would be served compressed.
    let timed = draw(&Choice::Zipfian, SKEW, data.keys, TIMED, scale.seed + 1)?;
    let mut found = Vec::new();
    let kinds = [(Zones::Hot, 160), (Zones::Target(TARGET), MEMORY_PERCENT)];
    for (zones, percent) in kinds {
        let clock = HeldClock::new();
        let cache = zones.cache_by(data.memory(percent), &clock)?;
        Client::new(&cache, &data).settle(&objects)?;
        clock.let_go();
        found.push((zones, time(&cache, &data, &timed)));
    }
    let both = &found[1].1;
    // A percentile of nothing is 0, which meets every goal.
    served_any(both)?;
    let at = |served: Served, share| both[served as usize].value_at_percentile(share) as f64 / 1e3;
    let memory = data.memory(DEMOTION_PERCENT);
    let moved = misses::settled(Zones::Price, memory, &data, &objects)?;
    if moved.demoted == 0 {
        return Err(Failure::Check("nothing moved down, so that no demotion is measured".into()));
    }
    let demotion_us = moved.background_s * 1e6 / moved.demoted as f64;
    let rows = found.iter().flat_map(|(zones, times)| rows(*zones, times));
    Ok(Findings {
        beside: vec![
            Cell::number(at(Served::Hot, 50.0), 2),
            Cell::number(at(Served::Compressed, 50.0), 2),
            Cell::number(at(Served::Compressed, 99.0), 2),
            Cell::number(demotion_us, 1),
        ],
        text: vec![format!(
            "{}; one thread, a session a read; each read is timed by itself, so that some 50 \
             nanoseconds of reading the clock are in each figure. {TIMED} zipfian reads (skew \
             {SKEW}), of which one in {ABSENT_EVERY} is of a key that was never stored; nothing \
             is stored and no background works meanwhile. A hit that brings its item up is among \
             the compressed ones. A demotion is all CPU time of the background in {memory} bytes \
             of memory, price rule, {} items moved down in the second half of {count} reads: \
             packing, what the zone evicts and cleans for it, training of dictionaries, and \
             victims of the hand.",
            data.in_words(),
            moved.demoted
        )],
        tables: vec![table("zexpander-latency", &COLUMNS, rows.collect())],
        plots: Vec::new(),
    })
}

const COLUMNS: [&str; 7] =
    ["zones", "read", "reads", "median, us", "90 %, us", "99 %, us", "99.9 %, us"];

fn rows(zones: Zones, times: &Times) -> Vec<Vec<Cell>> {
    let row = |(name, times): (&str, &Histogram<u64>)| {
        let mut row = vec![Cell::text(zones.name()), Cell::text(name), Cell::count(times.len())];
        let us = |share: f64| match times.len() {
            0 => Cell::Nothing,
            _ => Cell::number(times.value_at_percentile(share) as f64 / 1e3, 2),
        };
        row.extend(SHARES.map(us));
        row
    };
    NAMES.into_iter().zip(times).map(row).collect()
}

/// Refuses times without percentiles that a verdict is about.
fn served_any(times: &Times) -> Outcome<()> {
    for served in [Served::Hot, Served::Compressed] {
        if times[served as usize].is_empty() {
            let what = NAMES[served as usize];
            return Err(Failure::Check(format!("no read of {TIMED} was {what}")));
        }
    }
    Ok(())
}

/// Times each read separately.
fn time(cache: &Cache, data: &Data, objects: &[u32]) -> Times {
    let mut times = [(); 3].map(|()| histogram());
    let mut key = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        let is_absent = number.is_multiple_of(ABSENT_EVERY);
        data.write_key(if is_absent { data.keys + object } else { *object }, &mut key);
        let begun = Instant::now();
        let session = cache.session();
        let found = session.get(&key, cache.hash(&key)).map(|item| item.is_compressed());
        drop(session);
        let ns = begun.elapsed().as_nanos() as u64;
        let served = match found {
            None => Served::Missing,
            Some(true) => Served::Compressed,
            Some(false) => Served::Hot,
        };
        times[served as usize].saturating_record(ns);
    }
    times
}

fn histogram() -> Histogram<u64> {
    let (low, high) = NS_RANGE;
    Histogram::new_with_bounds(low, high, DIGITS).expect("the bounds and digits are in order")
}

#[cfg(test)]
mod tests {
    use super::{ABSENT_EVERY, Client, Data, Served, Zones, histogram, served_any, time};

    #[test]
    fn long_reads_are_not_cut_to_a_histogram_that_begins_small() {
        let mut times = histogram();
        [100, 3_000, 1_000_000_000].into_iter().for_each(|ns| times.saturating_record(ns));
        assert_eq!(times.value_at_percentile(50.0) / 10, 300);
        assert!(times.max() > 999_000_000);
    }

    #[test]
    fn no_verdict_is_given_on_reads_that_there_were_none_of() {
        let mut times = [(); 3].map(|()| histogram());
        times[Served::Hot as usize].saturating_record(100);
        assert!(served_any(&times).is_err());
        times[Served::Compressed as usize].saturating_record(1_000);
        assert!(served_any(&times).is_ok());
    }

    #[test]
    fn reads_are_told_apart_by_where_they_are_served() {
        let data = Data::of(30_000, None, 1).expect("no file is needed");
        let objects: Vec<u32> = (0..8_000).collect();
        let cache = Zones::Price.cache(10 << 20).expect("enough for both zones");
        Client::new(&cache, &data).run(0..data.keys).expect("every value is right");
        let times = time(&cache, &data, &objects);
        let count = |served: Served| times[served as usize].len();
        assert_eq!(times.iter().map(|times| times.len()).sum::<u64>(), 8_000);
        assert!(count(Served::Missing) >= 8_000 / ABSENT_EVERY as u64);
        assert!(count(Served::Compressed) > 1_000, "what was stored first has sunk");
    }
}
