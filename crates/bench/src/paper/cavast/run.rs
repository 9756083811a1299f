//! One store under one load: the cost of a request after a warm-up, and the tables of it.

use policy::geometry::CacheGeometry;

use super::cells::{Layout, item_bytes_max};
use super::expiry::ExpiryKind;
use super::lookup::IndexKind;
use super::memory::{Counts, Kind, Pages};
use super::population::{CACHE_SHARE, Population, SKEW, data_bytes, geometry};
use super::store::{Config, Heating, Store};
use super::zones::Placement;
use crate::failure::Outcome;
use crate::paper::Scale;
use crate::report::model::Cell;
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

/// Requests of the counted phase, per item.
const COUNTED_SHARE: f64 = 0.1;
/// Requests of the warm-up per item, where nothing moves, and where items move by their
/// temperature.
const WARM_SHARE: f64 = 0.1;
const WARM_MOVING_SHARE: f64 = 0.6;

/// memcached with its defaults: its header with a CAS unique, its index at the load at which it
/// grows, small pages.
pub const STOCK: Config = Config {
    index: IndexKind::Chaining { load: 1.5 },
    layout: Layout { header_bytes: 56, is_split: false, alignment: 1 },
    pages: Pages::Small,
    placement: Placement::AsStored,
    has_front: false,
    passes_cold: false,
    heating: Heating::USUAL,
    expiry: ExpiryKind::Never,
    group: 1,
};
/// The same on huge pages, without which an application does not know the sets of its memory.
pub const HUGE: Config = Config { pages: Pages::Huge, ..STOCK };
/// Larder's items and index.
pub const LARDER: Config = Config {
    index: IndexKind::Cuckoo,
    layout: Layout { header_bytes: 8, is_split: false, alignment: 1 },
    ..HUGE
};

/// The least bytes of an item besides its key and value: a word of an index.
pub const BESIDE_BYTES: u64 = 8;

/// A hot set of about twice the cache in a stock store: where density would pay most.
pub const HOTSPOT: Choice = Choice::Hotspot { requests: 90.0, keys: 0.02 };

/// Returns the items of a scale for a cache that is this share of them.
pub fn population(scale: &Scale, sizes: SizeChoice, cache_share: f64) -> Outcome<Population> {
    let bytes = data_bytes(&geometry(scale.share), cache_share);
    Population::new(sizes, bytes, item_bytes_max(), scale.seed)
}

/// Returns the items of a scale at the paper's share.
pub fn usual(scale: &Scale, sizes: SizeChoice) -> Outcome<Population> {
    population(scale, sizes, CACHE_SHARE)
}

/// The common part of compared stores.
pub struct Load<'l> {
    pub population: &'l Population,
    pub choice: Choice,
    pub skew: f64,
    pub geometry: CacheGeometry,
    pub seed: u64,
}

/// The results of the counted requests.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    pub requests: u64,
    pub counts: Counts,
    pub passes: u64,
    pub swaps: u64,
    pub moved_bytes: u64,
    pub index_bytes: u64,
    pub slab_bytes: u64,
    pub upkeep_bytes: u64,
    pub reclaimed: u64,
    pub held_share: f64,
}

impl<'l> Load<'l> {
    /// Returns zipfian requests at a scale.
    pub fn zipfian(scale: &Scale, population: &'l Population) -> Load<'l> {
        let geometry = geometry(scale.share);
        Load { population, choice: Choice::Zipfian, skew: SKEW, geometry, seed: scale.seed }
    }

    /// Warms a store up and counts.
    pub fn run(&self, config: Config) -> Outcome<Figures> {
        let warm = if config.placement.is_by_heat() || config.expiry != ExpiryKind::Never {
            WARM_MOVING_SHARE
        } else {
            WARM_SHARE
        };
        self.run_for(config, [warm, COUNTED_SHARE])
    }

    /// Warms a store up and counts, with these numbers of requests per item.
    pub fn run_for(&self, config: Config, [warm, counted]: [f64; 2]) -> Outcome<Figures> {
        let mut store = Store::new(config, self.population, &self.geometry, self.seed);
        let (law, items) = ((&self.choice, self.skew), f64::from(self.population.count()));
        let warming = self.population.requests(law, self.seed, true)?;
        store.get_all(warming.take((items * warm) as usize));
        let mut requests = self.population.requests(law, self.seed, false)?;
        Ok(count(&mut store, &mut requests, (items * counted) as usize))
    }

    /// Runs several stores, each with its name.
    pub fn run_all<T: AsRef<str>>(
        &self,
        stores: impl IntoIterator<Item = (T, Config)>,
    ) -> Outcome<Vec<(T, Figures)>> {
        stores.into_iter().map(|(name, config)| Ok((name, self.run(config)?))).collect()
    }

    /// Returns the hits, in percent, of a cache filled with the most popular items, with no byte
    /// besides key, value and eight more.
    pub fn bound(&self) -> f64 {
        let bytes = self.geometry.bytes() as u64;
        100.0 * self.population.most_hits((&self.choice, self.skew), bytes, BESIDE_BYTES)
    }

    /// Describes the amounts of data and requests.
    pub fn in_words(&self) -> String {
        let bytes = self.geometry.bytes();
        let (count, sizes) = (self.population.count(), &self.population.sizes);
        format!(
            "{count} items of sizes {sizes}, {}, and a cache of {} KiB with {} ways; a tenth as \
             many requests are counted, after as many or, where items move, six times as many",
            self.choice,
            bytes >> 10,
            self.geometry.ways()
        )
    }
}

/// Counts the next requests of a store.
pub fn count(
    store: &mut Store<'_>,
    requests: &mut impl Iterator<Item = u32>,
    many: usize,
) -> Figures {
    let (counts, work, reclaimed) = (store.memory.counts, store.work, store.expiries.reclaimed);
    store.get_all(requests.take(many));
    Figures {
        requests: many as u64,
        counts: store.memory.counts - counts,
        passes: store.work.passes - work.passes,
        swaps: store.work.swaps - work.swaps,
        moved_bytes: store.work.moved_bytes - work.moved_bytes,
        index_bytes: store.lookup.bytes(),
        slab_bytes: store.cells.bytes(),
        upkeep_bytes: store.upkeep_bytes(),
        reclaimed: store.expiries.reclaimed - reclaimed,
        held_share: store.expiries.held_share(store.now()),
    }
}

/// The columns of [`Figures::cells`].
pub const COLUMNS: [&str; 8] = [
    "lines",
    "hits, %",
    "of index",
    "of keys",
    "of values",
    "misses",
    "of page tables",
    "of upkeep",
];

impl Figures {
    /// Returns the lines of these kinds per request.
    pub fn lines(&self, kinds: &[Kind]) -> f64 {
        self.counts.fetched(kinds) as f64 / self.requests as f64
    }

    /// Returns those of them that come from memory.
    pub fn misses(&self, kinds: &[Kind]) -> f64 {
        self.counts.missed(kinds) as f64 / self.requests as f64
    }

    /// Returns the lines per request that came from memory by a prefetch.
    pub fn ahead(&self) -> f64 {
        self.counts.ahead(&Kind::ALL) as f64 / self.requests as f64
    }

    /// Returns hits in percent of the lines of these kinds.
    pub fn hits(&self, kinds: &[Kind]) -> f64 {
        100.0 * (1.0 - self.misses(kinds) / self.lines(kinds).max(f64::MIN_POSITIVE))
    }

    /// Returns hits in percent of requests' own reads.
    pub fn own_hits(&self) -> f64 {
        self.hits(&Kind::OWN)
    }

    /// Returns a count per request.
    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.requests as f64
    }

    /// Returns lines of a request and their hits, by kind; misses of a request, all and of two
    /// kinds.
    pub fn cells(&self) -> Vec<Cell> {
        let percent = |kinds: &[Kind]| Cell::number(self.hits(kinds), 1);
        let each = |kinds: &[Kind]| Cell::number(self.misses(kinds), 2);
        vec![
            Cell::number(self.lines(&Kind::OWN), 2),
            percent(&Kind::OWN),
            percent(&[Kind::Index]),
            percent(&[Kind::Key]),
            percent(&[Kind::Value]),
            each(&Kind::ALL),
            each(&[Kind::Walk]),
            each(&[Kind::Upkeep]),
        ]
    }
}

/// Returns a row: its labels, and the figures.
pub fn row<const WORDS: usize>(words: [&str; WORDS], figures: &Figures) -> Vec<Cell> {
    words.into_iter().map(Cell::text).chain(figures.cells()).collect()
}

/// Returns the headings of rows: labels, and those of the figures.
pub fn headings<'h>(words: &[&'h str]) -> Vec<&'h str> {
    words.iter().chain(&COLUMNS).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: Config, choice: Choice) -> Figures {
        let geometry = CacheGeometry::new(64, 20, 16, 1).expect("it is a cache");
        let bytes = data_bytes(&geometry, 0.002);
        let app = Population::new(SizeChoice::App, bytes, item_bytes_max(), 1).expect("no file");
        let load = Load { population: &app, choice, skew: SKEW, geometry, seed: 1 };
        load.run(config).expect("no file")
    }

    #[test]
    fn upkeep_is_what_moving_costs() {
        let still = run(HUGE, Choice::Zipfian);
        assert_eq!((still.swaps, still.lines(&[Kind::Upkeep])), (0, 0.0));
        let columns = Config { placement: Placement::Columns(1), ..HUGE };
        let moving = run(columns, Choice::Zipfian);
        assert!(moving.swaps > 0 && moving.lines(&[Kind::Upkeep]) > 1.0);
        assert!(moving.misses(&Kind::ALL) > still.misses(&Kind::ALL));
    }

    #[test]
    fn a_request_reads_an_items_lines_wherever_they_are() {
        // 309 bytes from a line on; 42 in unaligned cells of 48, and 270 from a line on.
        for (layout, least, most) in [
            (Layout { header_bytes: 8, is_split: false, alignment: 64 }, 5.2, 5.5),
            (Layout { header_bytes: 8, is_split: true, alignment: 64 }, 6.1, 6.3),
        ] {
            let figures = run(Config { layout, ..LARDER }, Choice::Uniform);
            let lines = figures.lines(&[Kind::Key, Kind::Value]);
            assert!((least..most).contains(&lines), "{layout:?}: {lines}");
            // Now and then both buckets of a key are the same one.
            assert!((1.99..=2.0).contains(&figures.lines(&[Kind::Index])));
        }
    }

    #[test]
    fn a_prefetched_line_is_there_when_read_and_comes_once() {
        let [alone, ahead] = [1, 4].map(|group| run(Config { group, ..LARDER }, Choice::Uniform));
        assert!(alone.own_hits() < 5.0 && ahead.own_hits() > 99.0, "{}", ahead.own_hits());
        assert!((alone.lines(&Kind::OWN) - ahead.lines(&Kind::OWN)).abs() < 0.01);
        let from_memory = |it: &Figures| it.misses(&Kind::ALL) + it.ahead();
        let more = from_memory(&ahead) / from_memory(&alone) - 1.0;
        assert!(more.abs() < 0.02, "{more}");
    }

    #[test]
    fn an_area_with_a_front_misses_less_if_the_cold_leave_it_alone() {
        let area = Placement::Area { share: 0.002 };
        let fronted = Config { placement: area, has_front: true, passes_cold: true, ..LARDER };
        let hotspot = Choice::Hotspot { requests: 90.0, keys: 0.15 };
        let [without, with] = [LARDER, fronted].map(|config| run(config, hotspot.clone()));
        assert!(with.lines(&[Kind::Index]) < without.lines(&[Kind::Index]));
        assert!(with.misses(&Kind::OWN) < without.misses(&Kind::OWN));
    }
}
