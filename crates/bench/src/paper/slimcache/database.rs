//! Throughput and latency with a database behind the cache.
//!
//! ```text
//!   get --hit--> reply                        latency: the get, by the wall
//!       --miss-> database --> reply --> set   latency: get and query, by the wall, and a delay
//! ```
//!
//! The caches are on a file, past the page cache where that is possible. One client waits for each
//! reply; its throughput is calculated from the median of each step and the CPU time of the store
//! after the reply. A mean by the wall would include everything else that runs on the machine.

use std::time::Instant;

use hdrhistogram::Histogram;

use super::client::{Kept, Store, device_bytes, reads};
use super::hit_ratio::POPULAR;
use super::log::FifoLog;
use super::sqlite::Database;
use super::tier::{Tier, file, settings};
use crate::failure::{Failure, Outcome};
use crate::paper::data::Data;
use crate::paper::measure::cpu_seconds;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Cell, Table};
use crate::report::share;
use crate::server::flash_file::FlashFile;
use crate::workload::popularity::Choice;

/// Keys at a scale of 1, and at least.
const KEYS: u64 = 2_000_000;
const KEYS_MIN: usize = 16_000;
const PERCENT: u64 = 10;
/// The divisor of other experiments' reads: each waits for a device.
const READS_SHARE: usize = 2;
/// The additional time of a query to a remote database.
const DELAY_US: f64 = 1000.0;
const KEPT: [Kept; 3] = [Kept::Units, Kept::Raw, Kept::Log];

/// One cache under one load.
struct Served {
    hit_percent: f64,
    /// Medians, in microseconds.
    hit_us: f64,
    query_us: f64,
    /// CPU time of a store.
    set_us: f64,
    /// The mean that follows from the medians and the hits.
    latency_us: f64,
    p99_us: f64,
    per_second: f64,
    /// Whether its reads bypassed the page cache.
    is_direct: bool,
}

/// Compares both beside the log, by the popularity of keys.
pub fn database(scale: &Scale) -> Outcome<Findings> {
    let keys = scale.items(KEYS).max(KEYS_MIN) as u32;
    let data = Data::of(keys, scale.values.clone(), scale.seed)?;
    let database = Database::load(&data)?;
    let mut rows = Vec::new();
    for choice in POPULAR.into_iter().filter(|choice| *choice != Choice::Uniform) {
        let mut objects = reads(&choice, &data, scale.seed)?;
        objects.truncate(objects.len() / READS_SHARE);
        let served = KEPT.map(|kept| serve(kept, &data, &database, &objects));
        rows.push((choice, served.into_iter().collect::<Outcome<Vec<Served>>>()?));
    }
    let best = |figure: fn(&Served, &Served) -> f64| {
        let found = rows.iter().map(|(_, served)| figure(&served[0], &served[2]));
        Cell::number(found.fold(f64::MIN, f64::max), 1)
    };
    let by_page_cache = rows.iter().flat_map(|(_, all)| all).filter(|one| !one.is_direct).count();
    Ok(Findings {
        beside: vec![
            best(|tier, log| 100.0 * (tier.per_second / log.per_second - 1.0)),
            best(|tier, log| 100.0 * (1.0 - tier.latency_us / log.latency_us)),
        ],
        text: vec![
            format!(
                "{}; caches of {PERCENT} % of that on a file; half a read for each key warms \
                 them, another half counts. The database is SQLite {} in a file, asked by primary \
                 key; {DELAY_US} us are added to each query by reckoning, and nobody waits for \
                 them. Latency is the mean that follows from the hits and the median of each step, \
                 so that what else runs on the machine counts little; throughput is that of one \
                 client that waits for each reply. The 99 % are measured, but for what is \
                 reckoned of a query.",
                data.in_words(),
                Database::version()
            ),
            match by_page_cache {
                0 => "All caches read past the page cache.".into(),
                some => format!(
                    "{some} of the runs read through the page cache, past which there is no way in \
                     the folder for temporary files: their hits hardly touch a device."
                ),
            },
            "Times are by the wall, of this machine, its disk and what else runs on it: hits are \
             counts, the rest is not. What the papers compare with is not known here; ours is the \
             uncompressed log."
                .into(),
        ],
        tables: vec![table_of(&rows)],
        plots: Vec::new(),
    })
}

fn serve(kept: Kept, data: &Data, database: &Database, objects: &[u32]) -> Outcome<Served> {
    let (bytes, place) = (device_bytes(data, PERCENT), FlashFile::in_folder(None, false)?);
    let (device, is_direct) = file(place.path(), bytes)?;
    let mut store: Box<dyn Store> = match kept.settings(bytes) {
        Some(settings) => Box::new(Tier::on_file(device, &settings)?),
        None => Box::new(FifoLog::on(device, settings(bytes).segment_bytes)),
    };
    let (warm, counted) = objects.split_at(objects.len() / 2);
    let mut clocks = Clocks::new();
    clocks.run(&mut *store, data, database, warm)?;
    let mut clocks = Clocks::new();
    clocks.run(&mut *store, data, database, counted)?;
    Ok(Served { is_direct, ..clocks.served() })
}

/// Times of a run, in nanoseconds unless named otherwise, each step's separately.
struct Clocks {
    gets: f64,
    hits: f64,
    hit: Histogram<u64>,
    miss: Histogram<u64>,
    query: Histogram<u64>,
    /// CPU microseconds of stores: a few have much of the background's work, which no median shows.
    set_us: f64,
    latency: Histogram<u64>,
}

impl Clocks {
    fn new() -> Clocks {
        let [hit, miss, query, latency] =
            [(); 4].map(|()| Histogram::new(3).expect("three digits are few enough"));
        Clocks { gets: 0.0, hits: 0.0, hit, miss, query, set_us: 0.0, latency }
    }

    fn run(
        &mut self,
        store: &mut dyn Store,
        data: &Data,
        database: &Database,
        objects: &[u32],
    ) -> Outcome<()> {
        let (mut value, mut wanted) = (Vec::new(), Vec::new());
        for &object in objects {
            let (is_hit, mut us) = timed(|| store.get(object, data, &mut value))?;
            self.gets += 1.0;
            if is_hit {
                self.hits += 1.0;
                record(&mut self.hit, us);
            } else {
                record(&mut self.miss, us);
                let (_, query_us) = timed(|| database.read(object, &mut value))?;
                record(&mut self.query, query_us);
                let before = cpu_seconds();
                store.set(object, data, &value)?;
                self.set_us += 1e6 * (cpu_seconds() - before);
                us += query_us + DELAY_US;
            }
            record(&mut self.latency, us);
            data.write_value(object, &mut wanted);
            if value != wanted {
                return Err(Failure::Check(format!("object {object} has another value")));
            }
        }
        Ok(())
    }

    /// Calculates the figures from the median of each step.
    fn served(&self) -> Served {
        let missed = share(self.gets - self.hits, self.gets);
        let set_us = share(self.set_us, self.gets - self.hits);
        let [hit_us, miss_us, query_us] =
            [&self.hit, &self.miss, &self.query].map(|one| quantile_us(one, 0.5));
        let latency_us = (1.0 - missed) * hit_us + missed * (miss_us + query_us + DELAY_US);
        Served {
            hit_percent: 100.0 * (1.0 - missed),
            hit_us,
            query_us,
            set_us,
            latency_us,
            p99_us: quantile_us(&self.latency, 0.99),
            per_second: share(1e6, latency_us + missed * set_us),
            is_direct: false,
        }
    }
}

fn record(histogram: &mut Histogram<u64>, us: f64) {
    let ns = (us * 1000.0) as u64;
    histogram.record(ns).expect("it grows with what it records");
}

fn quantile_us(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1000.0
}

/// Returns the result of something, and its time in microseconds.
fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let begun = Instant::now();
    let done = work()?;
    Ok((done, begun.elapsed().as_secs_f64() * 1e6))
}

fn table_of(rows: &[(Choice, Vec<Served>)]) -> Table {
    let mut cells = Vec::new();
    for (choice, all) in rows {
        for (kept, served) in KEPT.iter().zip(all) {
            cells.push(vec![
                Cell::text(choice.to_string()),
                Cell::text(kept.name()),
                Cell::number(served.hit_percent, 2),
                Cell::number(served.hit_us, 1),
                Cell::number(served.query_us, 1),
                Cell::number(served.set_us, 1),
                Cell::number(served.latency_us, 0),
                Cell::number(served.p99_us, 0),
                Cell::number(served.per_second, 0),
                Cell::number(100.0 * (served.per_second / all[2].per_second - 1.0), 1),
                Cell::number(100.0 * (1.0 - served.latency_us / all[2].latency_us), 1),
            ]);
        }
    }
    let columns = [
        "popular keys",
        "kept by",
        "hits, %",
        "us / hit",
        "us / query",
        "CPU us / store",
        "latency, us",
        "99 %, us",
        "requests / s",
        "more than the log, %",
        "less latency, %",
    ];
    table("slimcache-database", &columns, cells)
}

#[cfg(test)]
mod tests {
    use super::{Clocks, DELAY_US, record};

    #[test]
    fn a_delay_is_added_to_each_miss_and_stores_come_after_the_reply() {
        let mut clocks = Clocks { gets: 10.0, hits: 8.0, ..Clocks::new() };
        // One hit that waited for something else changes nothing.
        [90.0, 100.0, 100.0, 9000.0].iter().for_each(|us| record(&mut clocks.hit, *us));
        record(&mut clocks.miss, 1.0);
        record(&mut clocks.query, 20.0);
        clocks.set_us = 100.0;
        let (served, near) = (clocks.served(), |one: f64, other: f64| (one / other - 1.0).abs());
        let latency_us = 0.8 * 100.0 + 0.2 * (21.0 + DELAY_US);
        assert!((served.hit_percent - 80.0).abs() < 1e-9);
        assert!(near(served.latency_us, latency_us) < 2e-3, "{}", served.latency_us);
        assert!(near(served.per_second, 1e6 / (latency_us + 10.0)) < 2e-3);
    }
}
