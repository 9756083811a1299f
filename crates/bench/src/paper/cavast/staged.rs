//! Lookups in stages: the lines of the index for a window of keys, then the items that these lead
//! to, their first lines or all of them, and then the lookups themselves.

use larder::{Ahead, Cache, Expiry, Hash};

use super::inline_chains::InlineChains;
use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::machine;
use crate::paper::measure::{in_rounds, millions_per_cpu_second, ratio};
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series};

/// Bytes of a key, as most keys of APP have.
pub(super) const KEY_BYTES: usize = 31;
/// Bytes of a value, at least, and how many lengths from there on there are: APP's.
pub(super) const VALUE_BYTES: usize = 216;
pub(super) const VALUE_LENGTHS: usize = 108;
/// What an item takes of memory beside key and value, in either store, at most.
pub(super) const ITEM_BYTES: usize = 130;
/// Lookups in each round.
const LOOKUPS: usize = 2_000_000;
/// Keys in a window.
const WINDOWS: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];
/// Keys in a batch of the server's.
pub(super) const BATCH: usize = 128;
/// How far lookups go ahead.
const STAGES: [&str; 3] = ["index", "and items", "and values"];

/// One way of looking up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// memcached's layout, key by key.
    Chaining,
    /// The cache, key by key.
    Single,
    /// The cache by windows, through so many stages.
    Staged { window: usize, stages: usize },
    /// The cache as the server asks ahead, in batches of as many keys as the server's have.
    Ahead,
}

impl Way {
    fn all() -> Vec<Self> {
        let staged = |window| (1..=STAGES.len()).map(move |stages| Self::Staged { window, stages });
        let staged = WINDOWS.into_iter().flat_map(staged);
        [Self::Chaining, Self::Single, Self::Ahead].into_iter().chain(staged).collect()
    }
}

/// A key, told by its first bytes.
pub(super) type Key = [u8; KEY_BYTES];

pub(super) fn key(number: u64) -> Key {
    let mut key = [b'k'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_le_bytes());
    // No byte that a protocol would not let pass matters here: the cache takes any.
    key
}

pub(super) fn value(number: u64) -> Vec<u8> {
    let bytes = VALUE_BYTES + (number.wrapping_mul(0x9e37_79b9) >> 16) as usize % VALUE_LENGTHS;
    vec![number as u8; bytes]
}

/// Both stores, with the same items.
struct Stores {
    chains: InlineChains,
    cache: Cache,
    count: u64,
}

impl Stores {
    fn filled(count: u64) -> Outcome<Self> {
        let bytes = count as usize * (KEY_BYTES + VALUE_BYTES + VALUE_LENGTHS);
        let room = (bytes + count as usize * ITEM_BYTES).max(64 << 20);
        let built = Cache::builder().memory_bytes(room).build();
        let cache = built.map_err(|error| Failure::Check(error.to_string()))?;
        let mut chains = InlineChains::new(count as usize, bytes);
        for number in 0..count {
            let (key, value) = (key(number), value(number));
            chains.insert(&key, cache.hash(&key).0, &value);
            let stored = cache.set(&key, &value, Expiry::NEVER);
            stored.map_err(|refusal| Failure::Check(format!("{refusal:?}")))?;
        }
        let held = cache.stats().items;
        if held != count {
            return Err(Failure::Check(format!("the cache has {held} of {count} items")));
        }
        Ok(Self { chains, cache, count })
    }

    /// Looks up so many items, and copies what is found; returns millions a CPU second.
    fn rate(&self, way: Way, wanted: &[u32]) -> Outcome<f64> {
        let mut found = 0;
        let rate = millions_per_cpu_second(wanted.len(), || {
            found = match way {
                Way::Chaining => self.look_up_in_chains(wanted),
                Way::Single => self.look_up(wanted, 1, 0),
                Way::Staged { window, stages } => self.look_up(wanted, window, stages),
                Way::Ahead => self.look_up_ahead(wanted),
            };
        });
        if found != wanted.len() {
            return Err(Failure::Check(format!("{way:?}: {found} of {} found", wanted.len())));
        }
        Ok(rate)
    }

    fn look_up_in_chains(&self, wanted: &[u32]) -> usize {
        let mut copy = Vec::new();
        let found = wanted.iter().filter(|&&number| {
            let key = key(self.scattered(number));
            let value = self.chains.get(&key, self.cache.hash(&key).0);
            take(&mut copy, value)
        });
        found.count()
    }

    fn look_up(&self, wanted: &[u32], window: usize, stages: usize) -> usize {
        let (mut found, mut copy) = (0, Vec::new());
        let (mut keys, mut hashes): (Vec<Key>, Vec<Hash>) = Default::default();
        for numbers in wanted.chunks(window) {
            let session = self.cache.session();
            self.hash(numbers, &mut keys, &mut hashes);
            if stages > 0 {
                hashes.iter().for_each(|&hash| session.prefetch(hash));
            }
            if stages > 1 {
                hashes.iter().for_each(|&hash| session.prefetch_item(hash, stages > 2));
            }
            for (key, &hash) in keys.iter().zip(&hashes) {
                let item = session.get(key, hash);
                let value = item.as_ref().and_then(|item| item.contiguous());
                found += usize::from(take(&mut copy, value));
            }
        }
        found
    }

    fn look_up_ahead(&self, wanted: &[u32]) -> usize {
        let (mut found, mut copy) = (0, Vec::new());
        let (mut keys, mut hashes): (Vec<Key>, Vec<Hash>) = Default::default();
        for numbers in wanted.chunks(BATCH) {
            let session = self.cache.session();
            self.hash(numbers, &mut keys, &mut hashes);
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

    /// The keys of these ranks, and their hashes.
    fn hash(&self, numbers: &[u32], keys: &mut Vec<Key>, hashes: &mut Vec<Hash>) {
        keys.clear();
        keys.extend(numbers.iter().map(|&number| key(self.scattered(number))));
        hashes.clear();
        hashes.extend(keys.iter().map(|key| self.cache.hash(key)));
    }

    /// The item of this rank: those that are popular lie anywhere.
    fn scattered(&self, rank: u32) -> u64 {
        u64::from(rank) * 0x1_0000_000f % self.count
    }
}

/// Copies what was found.
pub(super) fn take(copy: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    copy.clear();
    copy.extend_from_slice(value.unwrap_or_default());
    std::hint::black_box(&copy);
    value.is_some()
}

/// Lookups of one thread by window and stages, beside memcached's layout.
pub fn staged(scale: &Scale) -> Outcome<Findings> {
    let count = scale.items(24_000_000) as u64;
    let stores = Stores::filled(count)?;
    // Where a core may not be used, the thread runs wherever it can.
    let _ = machine::pin(scale.core);
    let ways = Way::all();
    let mut found = Findings::default();
    for (name, choice) in [("uniform", Choice::Uniform), ("zipfian", Choice::Zipfian)] {
        let wanted = draw(choice, count, LOOKUPS.min(4 * count as usize), scale.seed);
        let rates = in_rounds(scale.rounds, ways.len(), |way| stores.rate(ways[way], &wanted))?;
        let of = |way: Way| &rates[ways.iter().position(|one| *one == way).expect("one of all")];
        let chains = of(Way::Chaining);
        let best = ways[1..].iter().map(|&way| (way, ratio(of(way), chains)));
        let best = best.max_by(|one, other| one.1.median.total_cmp(&other.1.median));
        let (best, times) = best.expect("there are several");
        found.beside.push(Cell::spread(times, 2));
        found.text.push(format!("Best of the {name} ones: {best:?}."));
        let rows = ways.iter().map(|&way| row(way, of(way), chains)).collect();
        let columns = ["lookups", "window", "stages", "M lookups / CPU s", "of memcached's layout"];
        found.tables.push(table(&format!("cavast-staged-{name}"), &columns, rows));
        found.plots.push(plot(name, of));
    }
    found.text.insert(0, describe(count));
    Ok(found)
}

fn describe(count: u64) -> String {
    format!(
        "{count} items with keys of {KEY_BYTES} bytes and values of {VALUE_BYTES} to {}, in both \
         stores in the order of their numbers; which are popular has nothing to do with it. One \
         thread looks up keys that are there, and copies each value. memcached's layout is a chain \
         of items of header, key and value; the cache is the one that the server has. Informative: \
         times of one machine.",
        VALUE_BYTES + VALUE_LENGTHS - 1
    )
}

fn row(way: Way, rates: &[f64], chains: &[f64]) -> Vec<Cell> {
    let (name, window, stages) = match way {
        Way::Chaining => ("memcached's layout", Cell::Nothing, Cell::Nothing),
        Way::Single => ("key by key", Cell::Nothing, Cell::Nothing),
        Way::Ahead => ("as the server", Cell::count(BATCH as u64), Cell::text("and values")),
        Way::Staged { window, stages } => {
            ("staged", Cell::count(window as u64), Cell::text(STAGES[stages - 1]))
        }
    };
    vec![
        Cell::text(name),
        window,
        stages,
        Cell::spread(Spread::of(rates.iter().copied()), 2),
        Cell::spread(ratio(rates, chains), 2),
    ]
}

fn plot<'r>(name: &str, of: impl Fn(Way) -> &'r Vec<f64>) -> Plot {
    let curve = |stages: usize| {
        let point = |window: usize| {
            let rates = of(Way::Staged { window, stages }).iter().copied();
            Point::spread(window as f64, Spread::of(rates))
        };
        let points = WINDOWS.into_iter().map(point).collect();
        Series { name: STAGES[stages - 1].into(), points }
    };
    Plot {
        name: format!("cavast-staged-{name}"),
        title: format!("Lookups by window, {name}"),
        x: Axis::logarithmic("keys in a window"),
        y: Axis::linear("million lookups / CPU second"),
        series: (1..=STAGES.len()).map(curve).collect(),
    }
}
