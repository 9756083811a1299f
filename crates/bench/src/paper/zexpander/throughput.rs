//! Requests a second: a cache whose items are all in the hot zone, beside one that serves about a
//! tenth of its reads compressed.

use larder::{Cache, Expiry};

use super::client::{Client, HeldClock, TARGET, Zones};
use super::data::{Data, draw};
use crate::failure::Outcome;
use crate::paper::measure::{Together, in_rounds, maintained, together};
use crate::paper::rounds::{Rounds, cpu, wall};
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Series};
use crate::workload::popularity::Choice;

/// Memory in hundredths of all keys and values: ample, and enough for all with about a tenth of the
/// reads compressed, if items compress to a third.
const MEMORY_PERCENT: [u64; 2] = [160, 70];
/// Gets among a hundred requests.
const MIXES: [usize; 3] = [100, 95, 50];
const SKEW: f64 = 0.99;
/// Requests per key while the caches settle.
const SETTLE_PER_KEY: usize = 6;
/// Requests of each thread and round: per key, and at most.
const REQUESTS_PER_KEY: usize = 2;
const REQUESTS_MAX: usize = 500_000;

const ZONES: [Zones; 2] = [Zones::Hot, Zones::Target(TARGET)];

/// A mix of requests, a cache and a number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kind {
    zones: usize,
    gets_percent: usize,
    threads: usize,
}

/// Where reads were served and how many items were evicted, over all rounds of a kind.
#[derive(Debug, Clone, Copy, Default)]
struct Served {
    requests: f64,
    hot: f64,
    compressed: f64,
    evicted_hot: f64,
    evicted_compressed: f64,
    background_s: f64,
}

impl Served {
    /// Returns a cache's counts since it was made.
    fn so_far(cache: &Cache) -> Served {
        let stats = cache.stats();
        let below = stats.compressed.unwrap_or_default();
        Served {
            hot: below.hot_hits as f64,
            compressed: below.hits as f64,
            evicted_hot: (stats.evicted - below.zone.evicted) as f64,
            evicted_compressed: below.zone.evicted as f64,
            ..Served::default()
        }
    }

    /// Adds the counts between two moments.
    fn add(&mut self, before: Served, after: Served) {
        self.requests += after.requests - before.requests;
        self.hot += after.hot - before.hot;
        self.compressed += after.compressed - before.compressed;
        self.evicted_hot += after.evicted_hot - before.evicted_hot;
        self.evicted_compressed += after.evicted_compressed - before.evicted_compressed;
        self.background_s += after.background_s - before.background_s;
    }
}

/// Measures both caches under each mix, with one thread and more.
pub fn throughput(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let settle = data.keys as usize * SETTLE_PER_KEY;
    let objects = draw(&Choice::Zipfian, SKEW, data.keys, settle, scale.seed)?;
    let mut caches = Vec::new();
    for (zones, percent) in ZONES.iter().zip(MEMORY_PERCENT) {
        let clock = HeldClock::new();
        let cache = zones.cache_by(data.memory(percent), &clock)?;
        Client::new(&cache, &data).settle(&objects)?;
        clock.let_go();
        caches.push(cache);
    }
    let requests = data.keys as usize * REQUESTS_PER_KEY;
    let drawn = |thread: usize| {
        let seed = scale.seed + 1 + thread as u64;
        draw(&Choice::Zipfian, SKEW, data.keys, requests.min(REQUESTS_MAX), seed)
    };
    let asked = (0..scale.threads).map(drawn).collect::<Outcome<Vec<_>>>()?;
    let kinds = kinds(scale.threads);
    let mut served = vec![Served::default(); kinds.len()];
    let found = in_rounds(scale.rounds, kinds.len(), |which| {
        let Kind { zones, gets_percent, threads } = kinds[which];
        let cache = &caches[zones];
        let before = Served::so_far(cache);
        let work = |thread: usize| ask(cache, &data, &asked[thread], gets_percent);
        let (done, background_s) =
            maintained(&scale.cores, cache, || together(&scale.cores, threads, work))?;
        let requests = (threads * asked[0].len()) as f64;
        let after = Served { requests, background_s, ..Served::so_far(cache) };
        served[which].add(before, after);
        done
    })?;
    Ok(findings(scale, &data, &kinds, &found, &served))
}

/// Returns all kinds, both caches side by side.
fn kinds(threads: usize) -> Vec<Kind> {
    let steps = (1..=threads).filter(|n| n.is_power_of_two() || *n == threads);
    let steps: Vec<usize> = steps.collect();
    let kind = |gets_percent, threads| [0, 1].map(|zones| Kind { zones, gets_percent, threads });
    MIXES
        .iter()
        .flat_map(|mix| steps.iter().flat_map(move |threads| kind(*mix, *threads)))
        .collect()
}

/// Makes one thread's requests, and stores of missing objects; returns the number of requests.
fn ask(cache: &Cache, data: &Data, objects: &[u32], gets_percent: usize) -> usize {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for (number, object) in objects.iter().enumerate() {
        data.write_key(*object, &mut key);
        // Stores are evenly spread among the gets.
        let is_get = number * gets_percent / 100 != (number + 1) * gets_percent / 100;
        if is_get && cache.session().get(&key, cache.hash(&key)).is_some() {
            continue;
        }
        data.write_value(*object, &mut value);
        // A refusal leaves the value out, as the next read finds.
        let _ = cache.set(&key, &value, Expiry::NEVER);
    }
    objects.len()
}

fn findings(
    scale: &Scale,
    data: &Data,
    kinds: &[Kind],
    found: &[Vec<Together>],
    served: &[Served],
) -> Findings {
    let over = |which: usize, rate: fn(&Together) -> f64| {
        crate::paper::measure::ratio(
            &found[which].iter().map(rate).collect::<Vec<_>>(),
            &found[which - 1].iter().map(rate).collect::<Vec<_>>(),
        )
    };
    let place = |gets_percent, threads| {
        let wanted = Kind { zones: 1, gets_percent, threads };
        kinds.iter().position(|kind| *kind == wanted).expect("it was measured")
    };
    let beside = MIXES.map(|mix| Cell::spread(over(place(mix, 1), cpu), 3));
    let last = place(MIXES[1], scale.threads);
    let together = Cell::spread(over(last, cpu), 3);
    let wall = Spread::of(found[last].iter().map(wall));
    let network = Cell::text("not measured in process: see larder-bench load");
    let [ample, tight] = MEMORY_PERCENT.map(|percent| data.memory(percent));
    let rows = (0..kinds.len()).map(|which| row(kinds[which], &found[which], served[which]));
    Findings {
        beside: beside.into_iter().chain([together, Cell::spread(wall, 2), network]).collect(),
        text: vec![format!(
            "{}; zipfian (skew {SKEW}); a session a request; a miss is stored. The hot zone alone \
             has {ample} bytes, which is ample; both zones, target {TARGET}, have {tight} and were \
             settled with as much background work as they had use for. While time is measured, a \
             thread does the background's work on the last core, of which it may take three \
             quarters, or one where others want it, as in the server. Ratios are of requests a CPU \
             second of the asking threads, within a round; the table has the background's time \
             beside them. What is evicted from the hot zone did not move down, as where a store or \
             a promotion found no free chunk. Where the share served compressed is not a tenth, \
             the ratio is not for a \
             tenth.",
            data.in_words()
        )],
        tables: vec![table("zexpander-throughput", &COLUMNS, rows.collect())],
        plots: vec![plot(kinds, found)],
    }
}

const COLUMNS: [&str; 10] = [
    "gets, %",
    "threads",
    "zones",
    "M requests / s",
    "M requests / CPU s",
    "reads served compressed, %",
    "missing, %",
    "background, us / request",
    "evicted from hot, % of requests",
    "evicted from compressed, %",
];

fn row(kind: Kind, found: &[Together], served: Served) -> Vec<Cell> {
    let spread = |rate: fn(&Together) -> f64| Cell::spread(Spread::of(found.iter().map(rate)), 2);
    let gets = served.requests * kind.gets_percent as f64 / 100.0;
    let share = |part: f64, of: f64, digits| match ZONES[kind.zones] {
        Zones::Hot => Cell::Nothing,
        _ => Cell::number(100.0 * part / of, digits),
    };
    vec![
        Cell::count(kind.gets_percent as u64),
        Cell::count(kind.threads as u64),
        Cell::text(ZONES[kind.zones].name()),
        spread(wall),
        spread(cpu),
        share(served.compressed, gets, 1),
        share(gets - served.hot - served.compressed, gets, 2),
        Cell::number(served.background_s * 1e6 / served.requests, 3),
        share(served.evicted_hot, served.requests, 2),
        share(served.evicted_compressed, served.requests, 2),
    ]
}

fn plot(kinds: &[Kind], found: &[Vec<Together>]) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for gets_percent in MIXES {
        let mine = |which: &usize| kinds[*which].gets_percent == gets_percent;
        let places: Vec<usize> = (0..kinds.len()).filter(mine).collect();
        let kinds: Vec<(usize, usize)> =
            places.iter().map(|which| (kinds[*which].zones, kinds[*which].threads)).collect();
        let found: Vec<Vec<Together>> = places.iter().map(|which| found[*which].clone()).collect();
        let names = ZONES.map(|zones| format!("{gets_percent} % gets, {}", zones.name()));
        let subjects = names.each_ref().map(String::as_str);
        let rounds = Rounds { name: "", subjects: &subjects, kinds: &kinds, found: &found };
        let axes = (Axis::linear(""), Axis::linear(""));
        series.extend(rounds.plot("", axes, wall, |threads| threads as f64).series);
    }
    Plot {
        name: "zexpander-throughput".into(),
        title: "Requests a second, in process".into(),
        x: Axis::linear("threads"),
        y: Axis::linear("million requests / s"),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, Zones, ask, kinds};

    #[test]
    fn both_caches_stand_side_by_side() {
        let kinds = kinds(3);
        assert_eq!(kinds.len(), 3 * 3 * 2);
        for pair in kinds.chunks(2) {
            assert_eq!((pair[0].zones, pair[1].zones), (0, 1));
            assert_eq!(pair[0].threads, pair[1].threads);
            assert_eq!(pair[0].gets_percent, pair[1].gets_percent);
        }
        assert_eq!(kinds.last().map(|kind| kind.threads), Some(3));
    }

    #[test]
    fn as_many_requests_are_stores_as_are_to_be() {
        let data = Data::of(1_000, None, 1).expect("no file is needed");
        let objects: Vec<u32> = (0..1_000).collect();
        for (gets_percent, stores) in [(100, 0), (95, 50), (50, 500)] {
            let cache = Zones::Hot.cache(10 << 20).expect("enough for one zone");
            ask(&cache, &data, &objects, 100);
            let before = cache.stats().mutations;
            assert_eq!(ask(&cache, &data, &objects, gets_percent), 1_000);
            assert_eq!(cache.stats().mutations - before, stores);
        }
    }
}
