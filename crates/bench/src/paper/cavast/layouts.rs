//! The server's own separation of keys and values beside items in one piece: lookups, stores while
//! memory is full, and the number of items in the memory.

use larder::{Ahead, Cache, ChunkLayout, Expiry, Hash};

use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{in_rounds, millions_per_cpu_second, ratio};
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::Cell;

/// Items of one kind.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    key_bytes: usize,
    /// The shortest value, and the number of lengths from there on.
    value_bytes: usize,
    value_lengths: usize,
}

/// Most items of APP; small ones, which are in one piece in either layout; and larger ones.
const KINDS: [Kind; 3] = [
    Kind { name: "APP", key_bytes: 31, value_bytes: 216, value_lengths: 108 },
    Kind { name: "small", key_bytes: 20, value_bytes: 32, value_lengths: 1 },
    Kind { name: "large", key_bytes: 24, value_bytes: 1024, value_lengths: 1024 },
];
const LAYOUTS: [(&str, ChunkLayout); 2] =
    [("inline", ChunkLayout::Inline), ("split", ChunkLayout::Split)];
/// The most bytes that an item takes besides key and value.
const ITEM_BYTES: usize = 160;
/// The least memory with room for all items: each size class takes whole slabs.
const ROOM_BYTES_MIN: usize = 64 << 20;
/// The least memory that is to be full.
const FULL_BYTES_MIN: usize = 16 << 20;
/// Lookups in each round.
const LOOKUPS: usize = 1_000_000;
/// One item in this many is stored anew in each round while memory is full.
const STORED_SHARE: u64 = 4;
/// One item in this many was read before that, so that the hand passes it over once.
const READ_SHARE: usize = 2;
/// Keys in a batch of the server's.
const BATCH: usize = 128;

/// The operations on a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Present keys, one by one; their values are copied.
    Hits,
    /// Present keys, prefetched as in the server.
    HitsAhead,
    /// Absent keys.
    Misses,
    /// Stores of new keys while memory is full.
    Stores,
}

const LOOKING: [Work; 3] = [Work::Hits, Work::HitsAhead, Work::Misses];

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Hits => "hits, key by key",
            Work::HitsAhead => "hits, as the server",
            Work::Misses => "misses",
            Work::Stores => "stores, memory full",
        }
    }
}

impl Kind {
    fn bytes(&self) -> usize {
        self.key_bytes + self.value_bytes + self.value_lengths / 2
    }

    fn key(&self, number: u64) -> Vec<u8> {
        let mut key = vec![b'k'; self.key_bytes];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn value(&self, number: u64) -> Vec<u8> {
        let more = (number.wrapping_mul(0x9e37_79b9) >> 16) as usize % self.value_lengths;
        vec![number as u8; self.value_bytes + more]
    }
}

/// A cache and its items, numbered from 0.
struct Store {
    kind: Kind,
    cache: Cache,
    stored: u64,
}

impl Store {
    /// Returns a store of `count` items in `memory_bytes`.
    fn filled(kind: Kind, layout: ChunkLayout, count: u64, memory_bytes: usize) -> Outcome<Self> {
        let built = Cache::builder().memory_bytes(memory_bytes).layout(layout).build();
        let cache = built.map_err(|error| Failure::Check(error.to_string()))?;
        let mut store = Self { kind, cache, stored: 0 };
        store.store(count)?;
        Ok(store)
    }

    fn store(&mut self, count: u64) -> Outcome<()> {
        for number in self.stored..self.stored + count {
            let stored =
                self.cache.set(&self.kind.key(number), &self.kind.value(number), Expiry::NEVER);
            stored.map_err(|refusal| Failure::Check(format!("{refusal:?}")))?;
        }
        self.stored += count;
        Ok(())
    }

    /// Returns millions of lookups of these per CPU second.
    fn look_up(&self, work: Work, wanted: &[u32]) -> Outcome<f64> {
        let absent = if work == Work::Misses { self.stored } else { 0 };
        let key = |rank: u32| self.kind.key(absent + scattered(rank, self.stored));
        let keys: Vec<Vec<u8>> = wanted.iter().map(|&rank| key(rank)).collect();
        let ahead = work == Work::HitsAhead;
        let mut found = 0;
        let rate = millions_per_cpu_second(wanted.len(), || {
            found = self.found(&keys, if ahead { BATCH } else { 1 });
        });
        let expected = if work == Work::Misses { 0 } else { wanted.len() };
        if found != expected {
            return Err(Failure::Check(format!("{work:?}: {found} found, not {expected}")));
        }
        Ok(rate)
    }

    /// Copies the present ones of these, looked up in batches; returns their number.
    fn found(&self, keys: &[Vec<u8>], batch: usize) -> usize {
        let (mut found, mut copy, mut hashes) = (0, Vec::new(), Vec::<Hash>::new());
        for keys in keys.chunks(batch) {
            let session = self.cache.session();
            hashes.clear();
            hashes.extend(keys.iter().map(|key| self.cache.hash(key)));
            let mut ahead = Ahead::new(&hashes);
            for (number, key) in keys.iter().enumerate() {
                ahead.reach(&session, number, true);
                if let Some(item) = session.get(key, hashes[number]) {
                    copy.clear();
                    item.pieces().for_each(|piece| copy.extend_from_slice(piece));
                    std::hint::black_box(&copy);
                    found += 1;
                }
            }
        }
        found
    }

    /// Returns millions of new items per CPU second, after some of the newest were read.
    fn replace(&mut self, count: u64) -> Outcome<f64> {
        let newest = self.stored.saturating_sub(self.cache.stats().items);
        for number in (newest..self.stored).step_by(READ_SHARE) {
            std::hint::black_box(self.cache.get(&self.kind.key(number)));
        }
        let mut stored = Ok(());
        let rate = millions_per_cpu_second(count as usize, || stored = self.store(count));
        stored.map(|()| rate)
    }
}

/// Returns the item of this rank: popular items are scattered.
fn scattered(rank: u32, count: u64) -> u64 {
    u64::from(rank) * 0x1_0000_000f % count
}

/// Compares layouts of the server's chunks.
pub fn layouts(scale: &Scale) -> Outcome<Findings> {
    let mut found = Findings::default();
    let (mut rows, mut memory) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let count = scale.items((6 << 30) / kind.bytes() as u64) as u64;
        let room = (count as usize * (kind.bytes() + ITEM_BYTES)).max(ROOM_BYTES_MIN);
        let roomy = LAYOUTS.map(|(_, layout)| Store::filled(kind, layout, count, room));
        let [inline, split] = roomy;
        let stores = [inline?, split?];
        for (name, choice) in [("uniform", Choice::Uniform), ("zipfian", Choice::Zipfian)] {
            let wanted = draw(choice, count, LOOKUPS.min(4 * count as usize), scale.seed);
            let rates = in_rounds(scale.rounds, LOOKING.len() * LAYOUTS.len(), |at| {
                stores[at % LAYOUTS.len()].look_up(LOOKING[at / LAYOUTS.len()], &wanted)
            })?;
            for (work, rates) in LOOKING.into_iter().zip(rates.chunks(LAYOUTS.len())) {
                let times = row(&mut rows, [kind.name, name, work.name()], rates);
                if kind.name == "APP" && name == "uniform" {
                    found.beside.push(Cell::spread(times, 2));
                }
            }
        }
        drop(stores);
        full(scale, kind, count, &mut rows, &mut memory, &mut found.beside)?;
    }
    found.text.push(
        "Keys of 31 bytes and values of 216 to 323 (APP), 20 and 32 (small), 24 and 1024 to 2047 \
         (large). Lookups are of a cache that has room for all, each key once in its turn by one \
         thread, and what is found is copied. Stores are of new keys into a cache that is full, \
         of which every other item was read, by one thread that evicts for itself. Informative: \
         times of one machine; what fits is exact."
            .into(),
    );
    let columns = ["items", "keys", "what", "layout", "M / CPU s", "of inline"];
    found.tables.push(table("cavast-layouts", &columns, rows));
    let columns = ["items", "layout", "items that fit", "bytes of memory each", "more than inline"];
    found.tables.push(table("cavast-layouts-memory", &columns, memory));
    Ok(found)
}

/// Measures stores while memory is full, and the number of items that fit.
fn full(
    scale: &Scale,
    kind: Kind,
    count: u64,
    rows: &mut Vec<Vec<Cell>>,
    memory: &mut Vec<Vec<Cell>>,
    beside: &mut Vec<Cell>,
) -> Outcome<()> {
    let half = (count as usize * kind.bytes() / 2).max(FULL_BYTES_MIN);
    let filled = |(_, layout)| Store::filled(kind, layout, count, half);
    let [inline, split] = LAYOUTS.map(filled);
    let mut stores = [inline?, split?];
    let bytes = [0, 1].map(|at: usize| {
        let stats = stores[at].cache.stats();
        (stats.items, stats.limit_bytes as f64 / stats.items as f64)
    });
    for ((layout, _), (items, each)) in LAYOUTS.into_iter().zip(bytes) {
        let more = each - bytes[0].1;
        memory.push(vec![
            Cell::text(kind.name),
            Cell::text(layout),
            Cell::count(items),
            Cell::number(each, 1),
            Cell::number(more, 1),
        ]);
    }
    let rates = in_rounds(scale.rounds, LAYOUTS.len(), |at| {
        stores[at].replace((count / STORED_SHARE).max(1))
    })?;
    let times = row(rows, [kind.name, "new", Work::Stores.name()], &rates);
    if kind.name == "APP" {
        beside.push(Cell::spread(times, 2));
        beside.push(Cell::number(bytes[1].1 - bytes[0].1, 1));
    }
    Ok(())
}

/// Adds a row for each layout; returns the ratio of the last one's rates.
fn row(rows: &mut Vec<Vec<Cell>>, names: [&'static str; 3], rates: &[Vec<f64>]) -> Spread {
    for ((layout, _), rate) in LAYOUTS.into_iter().zip(rates) {
        let mut cells: Vec<Cell> = names.into_iter().chain([layout]).map(Cell::text).collect();
        cells.push(Cell::spread(Spread::of(rate.iter().copied()), 2));
        cells.push(Cell::spread(ratio(rate, &rates[0]), 2));
        rows.push(cells);
    }
    ratio(&rates[1], &rates[0])
}
