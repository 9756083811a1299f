//! The cost of moving hot items to their columns for the cache itself, and the gain: lookups as in
//! the server, beside the background's thread, with re-partitioning and without.

use std::time::Instant;

use hdrhistogram::Histogram;
use larder::{Ahead, Cache, Expiry, Hash, Repartition, RepartitionCounts};

use super::stores::{BATCH, ITEM_BYTES, KEY_BYTES, Key, VALUE_BYTES, VALUE_LENGTHS};
use super::stores::{key, take, value};
use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{in_rounds, maintained, millions_per_cpu_second, ratio};
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::Cell;

/// Lookups in each round.
const LOOKUPS: usize = 4_000_000;
/// Rounds before the first counted one, in which hot items move to their columns.
const WARM_UP: usize = 3;
/// One looked-up key in this many is stored anew when delays are measured.
const STORED_OF: usize = 12;
/// A delay that no store may have.
const DELAY_NS: u64 = 50_000;
/// The longest time of a store; longer ones count as this.
const STORE_NS_MAX: u64 = 10_000_000_000;
/// The compared caches.
const NAMES: [&str; 2] = ["off", "on"];

/// The results of a round.
struct Round {
    millions_per_cpu_second: f64,
    /// The background's CPU time, in percent of one processor.
    background: f64,
    /// Swaps per lookup.
    swaps: f64,
    moved_bytes: f64,
}

struct Store {
    cache: Cache,
    count: u64,
}

impl Store {
    fn filled(count: u64, repartition: Option<Repartition>) -> Outcome<Self> {
        let bytes = count as usize * (KEY_BYTES + VALUE_BYTES + VALUE_LENGTHS + ITEM_BYTES);
        let mut builder = Cache::builder().memory_bytes(bytes.max(64 << 20));
        if let Some(repartition) = repartition {
            builder = builder.repartition(repartition);
        }
        let cache = builder.build().map_err(|error| Failure::Check(error.to_string()))?;
        for number in 0..count {
            let stored = cache.set(&key(number), &value(number), Expiry::NEVER);
            stored.map_err(|refusal| Failure::Check(format!("{refusal:?}")))?;
        }
        let held = cache.stats().items;
        if held != count {
            return Err(Failure::Check(format!("the cache has {held} of {count} items")));
        }
        Ok(Self { cache, count })
    }

    fn counts(&self) -> RepartitionCounts {
        self.cache.stats().repartition.map(|it| it.counts).unwrap_or_default()
    }

    /// Looks up these items beside the background.
    fn round(&self, cores: &[usize], wanted: &[u32]) -> Outcome<Round> {
        let before = self.counts();
        let (mut found, began) = (0, Instant::now());
        let work = || millions_per_cpu_second(wanted.len(), || found = self.look_up(wanted));
        let (millions_per_cpu_second, background_s) = maintained(cores, &self.cache, work)?;
        let background = 100.0 * background_s / began.elapsed().as_secs_f64();
        if found != wanted.len() {
            return Err(Failure::Check(format!("{found} of {} found", wanted.len())));
        }
        let after = self.counts();
        let each = |after: u64, before: u64| (after - before) as f64 / wanted.len() as f64;
        Ok(Round {
            millions_per_cpu_second,
            background,
            swaps: each(after.swaps, before.swaps),
            moved_bytes: each(after.moved_bytes, before.moved_bytes),
        })
    }

    /// Returns the latencies of stores beside the background, in nanoseconds of wall time, among
    /// lookups that give it something to do.
    fn stores(&self, cores: &[usize], wanted: &[u32]) -> Outcome<Histogram<u64>> {
        let mut taken = Histogram::new_with_max(STORE_NS_MAX, 3).expect("a valid range");
        let mut refused = 0;
        let work = || {
            for ranks in wanted.chunks(BATCH) {
                self.look_up(ranks);
                for &rank in ranks.iter().step_by(STORED_OF) {
                    let number = self.scattered(rank);
                    let (key, value) = (key(number), value(number));
                    let begun = Instant::now();
                    let stored = self.cache.set(&key, &value, Expiry::NEVER);
                    taken.saturating_record(begun.elapsed().as_nanos() as u64);
                    refused += u32::from(stored.is_err());
                }
            }
        };
        maintained(cores, &self.cache, work)?;
        if refused > 0 {
            return Err(Failure::Check(format!("{refused} stores were refused")));
        }
        Ok(taken)
    }

    /// Returns the key of a rank: popular keys are scattered.
    fn scattered(&self, rank: u32) -> u64 {
        u64::from(rank) * 0x1_0000_000f % self.count
    }

    fn look_up(&self, wanted: &[u32]) -> usize {
        let (mut found, mut copy) = (0, Vec::new());
        let (mut keys, mut hashes): (Vec<Key>, Vec<Hash>) = Default::default();
        for ranks in wanted.chunks(BATCH) {
            let session = self.cache.session();
            keys.clear();
            keys.extend(ranks.iter().map(|rank| key(self.scattered(*rank))));
            hashes.clear();
            hashes.extend(keys.iter().map(|key| self.cache.hash(key)));
            let mut ahead = Ahead::new(&hashes);
            for (number, key) in keys.iter().enumerate() {
                ahead.reach(&session, number, true);
                let item = session.get(key, hashes[number]);
                let value = item.as_ref().and_then(|item| item.contiguous());
                found += usize::from(take(&mut copy, value));
            }
        }
        found
    }
}

/// Measures lookups and the background's time with columns and without.
pub fn repartition(scale: &Scale) -> Outcome<Findings> {
    let count = scale.items(24_000_000) as u64;
    let repartition = Repartition::for_this_processor();
    let stores = [Store::filled(count, None)?, Store::filled(count, Some(repartition))?];
    let mut found = Findings::default();
    let (mut rows, mut delays) = (Vec::new(), Vec::new());
    for (name, choice) in [("uniform", Choice::Uniform), ("zipfian", Choice::Zipfian)] {
        let wanted = draw(choice, count, LOOKUPS.min(4 * count as usize), scale.seed);
        for store in stores.iter().flat_map(|store| [store; WARM_UP]) {
            store.round(&scale.cores, &wanted)?;
        }
        let rounds = in_rounds(scale.rounds, stores.len(), |which| {
            stores[which].round(&scale.cores, &wanted)
        })?;
        let of = |which: usize, what: fn(&Round) -> f64| -> Vec<f64> {
            rounds[which].iter().map(what).collect()
        };
        let rate = |which| of(which, |round| round.millions_per_cpu_second);
        let times = ratio(&rate(1), &rate(0));
        let background = |which| Spread::of(of(which, |round| round.background));
        found.beside.push(Cell::spread(times, 3));
        found.beside.push(Cell::spread(background(1), 2));
        rows.extend((0..NAMES.len()).map(|which| {
            vec![
                Cell::text(name),
                Cell::text(NAMES[which]),
                Cell::spread(Spread::of(rate(which)), 2),
                Cell::spread(ratio(&rate(which), &rate(0)), 3),
                Cell::spread(background(which), 2),
                Cell::spread(Spread::of(of(which, |round| round.swaps)), 6),
                Cell::spread(Spread::of(of(which, |round| round.moved_bytes)), 3),
            ]
        }));
    }
    for (name, choice) in [("uniform", Choice::Uniform), ("zipfian", Choice::Zipfian)] {
        let wanted = draw(choice, count, LOOKUPS.min(4 * count as usize), scale.seed);
        let taken = in_rounds(scale.rounds, stores.len(), |which| {
            stores[which].stores(&scale.cores, &wanted)
        })?;
        delays
            .extend((0..NAMES.len()).map(|which| delay_cells([name, NAMES[which]], &taken[which])));
    }
    found.tables.push(table("cavast-repartition-stores", &DELAYS, delays));
    let columns = [
        "lookups",
        "columns",
        "M lookups / CPU s",
        "of those without",
        "background, % of a processor",
        "swaps a lookup",
        "bytes moved a lookup",
    ];
    found.tables.push(table("cavast-repartition", &columns, rows));
    found.text.push(describe(count, &stores[1]));
    Ok(found)
}

const DELAYS: [&str; 7] =
    ["stores", "columns", "p50, us", "p99.9", "p99.99", "longest", "over 50 us, of a million"];

/// Returns a row about the latencies of stores in each round.
fn delay_cells(names: [&str; 2], rounds: &[Histogram<u64>]) -> Vec<Cell> {
    let spread = |figure: &dyn Fn(&Histogram<u64>) -> f64| {
        Spread::of(rounds.iter().map(figure).collect::<Vec<_>>())
    };
    let us = |quantile: f64| spread(&|it| it.value_at_quantile(quantile) as f64 / 1e3);
    let over = |it: &Histogram<u64>| {
        1e6 * it.count_between(DELAY_NS, STORE_NS_MAX) as f64 / it.len() as f64
    };
    let mut cells: Vec<Cell> = names.map(Cell::text).into();
    cells.extend([0.5, 0.999, 0.9999, 1.0].map(|quantile| Cell::spread(us(quantile), 1)));
    cells.push(Cell::spread(spread(&over), 1));
    cells
}

fn describe(count: u64, store: &Store) -> String {
    let geometry = store.cache.stats().repartition.map(|it| it.geometry).unwrap_or_default();
    format!(
        "{count} items with keys of {KEY_BYTES} bytes and values of {VALUE_BYTES} to {}; which are \
         popular has nothing to do with where they lie. One thread looks up keys that are there, \
         in batches of {BATCH} as the server does, and copies each value, while another, on the \
         last core, maintains the cache; {WARM_UP} rounds before the first do not count. Stores \
         are of one such key in {STORED_OF}, timed by the wall, so that whatever else the \
         machine does delays them, too. Columns are for a cache of {geometry} (slices, sets, ways, \
         bytes of a line). Informative: times of one machine.",
        VALUE_BYTES + VALUE_LENGTHS - 1
    )
}
