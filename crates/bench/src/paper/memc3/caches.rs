//! Whole caches, in process: their contents and hits in the same memory, and how they scale.

use std::sync::atomic::{AtomicUsize, Ordering};

use larder::{Cache, Expiry};

use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{Together, in_rounds, together};
use crate::paper::rounds::{Rounds, wall};
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell};
use crate::tables::{KEY_BYTES, Key, LruCache, VALUE_BYTES, Value, key};

/// The least memory whose figures say something about a cache of many slabs.
const MEMORY_MIB_MIN: usize = 32;
/// Keys in use for each item that the baseline holds.
const KEYS_PER_ITEM: u64 = 4;
/// Requests for each key in use; the first half only warms the cache.
const REQUESTS_PER_KEY: usize = 6;
/// Reads between two stores, of one thread: 95 % reads.
const READS_PER_STORE: usize = 19;
/// Requests of each thread and round.
const REQUESTS_MAX: usize = 2_000_000;
/// Memory per item where everything has to fit.
const AMPLE_BYTES: usize = 160;

/// Either of the caches.
enum Subject {
    Lru(LruCache),
    Larder(Box<Cache>),
}

impl Subject {
    fn larder(bytes: usize) -> Outcome<Subject> {
        let cache = Cache::builder().memory_bytes(bytes).build();
        let cache = cache.map_err(|error| Failure::Check(format!("no cache: {error}")))?;
        Ok(Subject::Larder(Box::new(cache)))
    }

    fn holds(&self) -> u64 {
        match self {
            Subject::Lru(cache) => cache.len() as u64,
            Subject::Larder(cache) => cache.stats().items,
        }
    }

    /// Reads each key; returns how many were there.
    #[inline]
    fn read(&self, keys: &[Key]) -> usize {
        match self {
            Subject::Lru(cache) => keys.iter().filter(|key| cache.get(key).is_some()).count(),
            Subject::Larder(cache) => {
                let session = cache.session();
                let is_there = |key: &&Key| {
                    let bytes = bytes(key);
                    session.get(&bytes, cache.hash(&bytes)).is_some()
                };
                keys.iter().filter(is_there).count()
            }
        }
    }

    /// Stores the key's value. A refusal leaves it out, which the next read finds.
    #[inline]
    fn store(&self, key: Key) {
        match self {
            Subject::Lru(cache) => cache.set(key, value(key)),
            Subject::Larder(cache) => {
                let _ = cache.set(&bytes(&key), &value(key), Expiry::NEVER);
            }
        }
    }
}

fn bytes(key: &Key) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[..8].copy_from_slice(&key[0].to_le_bytes());
    bytes[8..].copy_from_slice(&key[1].to_le_bytes());
    bytes
}

fn value(key: Key) -> Value {
    [key[0] as u8; VALUE_BYTES]
}

/// memcached's design and Larder in the same memory, and LRU with as many items as Larder holds.
pub fn table_3(scale: &Scale) -> Outcome<Findings> {
    let memory = (scale.items(20_000_000) * 100).max(MEMORY_MIB_MIN << 20);
    let lru = Subject::Lru(LruCache::of_bytes(memory));
    let larder = Subject::larder(memory)?;
    for number in 0..(memory / (KEY_BYTES + VALUE_BYTES)) as u64 {
        lru.store(key(number));
        larder.store(key(number));
    }
    let held = [lru.holds(), larder.holds()];
    let equal = Subject::Lru(LruCache::of_items(held[1] as usize));
    let keys = held[0] * KEYS_PER_ITEM;
    let requests = draw(Choice::Zipfian, keys, keys as usize * REQUESTS_PER_KEY, scale.seed);
    let subjects = [
        ("chaining, strict LRU", &lru, held[0], Some(memory)),
        ("larder", &larder, held[1], Some(memory)),
        ("strict LRU, as many items as larder", &equal, held[1], None),
    ];
    let item_bytes = |held: u64| memory as f64 / held as f64;
    let rows = subjects.map(|(name, cache, held, memory)| {
        let beyond = item_bytes(held) - (KEY_BYTES + VALUE_BYTES) as f64;
        vec![
            Cell::text(name),
            memory.map_or(Cell::Nothing, |bytes| Cell::count((bytes >> 20) as u64)),
            Cell::count(held),
            memory.map_or(Cell::Nothing, |_| Cell::number(beyond, 1)),
            Cell::number(hit_share(cache, &requests) * 100.0, 2),
        ]
    });
    let less = 100.0 - 100.0 * item_bytes(held[1]) / item_bytes(held[0]);
    let columns = ["cache", "memory MiB", "items", "bytes beyond key and value", "hits, %"];
    Ok(Findings {
        beside: vec![Cell::Text(format!("{less:.1} % less for an item of 48 bytes"))],
        text: vec![
            "Whether this is the paper's table 3 could not be looked up.".into(),
            format!(
                "Keys of 16 bytes and values of 32; {keys} keys in use, zipfian with skew 0.99; a \
                 miss is stored; hits are of the second half of {} requests. The baseline keeps \
                 key, value, three links as wide as pointers and heads, and nothing else that a \
                 real server keeps with an item. The last row tells the choice of victims apart \
                 from the number of items.",
                requests.len()
            ),
        ],
        tables: vec![table("memc3-caches", &columns, rows.to_vec())],
        plots: Vec::new(),
    })
}

/// Returns the share of hits in the second half of the requests; missed keys are stored.
fn hit_share(cache: &Subject, requests: &[u32]) -> f64 {
    let half = requests.len() / 2;
    let mut hits = 0;
    for (number, request) in requests.iter().enumerate() {
        let wanted = key(u64::from(*request));
        if cache.read(&[wanted]) == 0 {
            cache.store(wanted);
        } else if number >= half {
            hits += 1;
        }
    }
    f64::from(hits) / (requests.len() - half) as f64
}

/// Measures both caches under 95 % reads, with one thread and more.
pub fn figure_7(scale: &Scale) -> Outcome<Findings> {
    let count = scale.items(20_000_000);
    let subjects = [
        ("chaining, strict LRU, one lock", Subject::Lru(LruCache::of_items(count))),
        ("larder", Subject::larder((count * AMPLE_BYTES).max(MEMORY_MIB_MIN << 20))?),
    ];
    for (_, cache) in &subjects {
        (0..count as u64).for_each(|number| cache.store(key(number)));
    }
    let requests = count.min(REQUESTS_MAX);
    let drawn = |thread: usize| -> Vec<Key> {
        let seed = scale.seed + thread as u64;
        let numbers = draw(Choice::Zipfian, count as u64, requests, seed);
        numbers.into_iter().map(|number| key(u64::from(number))).collect()
    };
    let keys: Vec<Vec<Key>> = (0..scale.threads).map(drawn).collect();
    let steps: Vec<usize> = (1..=scale.threads).filter(|n| *n <= 4 || n % 2 == 0).collect();
    let kinds: Vec<(usize, usize)> =
        steps.iter().flat_map(|threads| [(0, *threads), (1, *threads)]).collect();
    let found = in_rounds(scale.rounds, kinds.len(), |which| {
        let (subject, threads) = kinds[which];
        let (name, cache) = &subjects[subject];
        let missing = AtomicUsize::new(0);
        let together = together(&scale.cores, threads, |thread| {
            missing.fetch_add(requests_of(cache, &keys[thread]), Ordering::Relaxed);
            keys[thread].len()
        })?;
        all_fit(name, missing.into_inner())?;
        Ok(together)
    })?;
    Ok(findings_7(&subjects.map(|(name, _)| name), &kinds, &found, count))
}

/// Fails if items are missing: such a cache has less to do.
fn all_fit(name: &str, missing: usize) -> Outcome<()> {
    match missing {
        0 => Ok(()),
        _ => Err(Failure::Check(format!("{name} lacks {missing} of the items that all fit"))),
    }
}

/// Makes one thread's requests; returns how many reads found nothing.
fn requests_of(cache: &Subject, keys: &[Key]) -> usize {
    let mut missing = 0;
    for batch in keys.chunks(READS_PER_STORE + 1) {
        let (last, reads) = batch.split_last().expect("a chunk is not empty");
        missing += reads.len() - cache.read(reads);
        cache.store(*last);
    }
    missing
}

fn findings_7(
    names: &[&str; 2],
    kinds: &[(usize, usize)],
    found: &[Vec<Together>],
    count: usize,
) -> Findings {
    let rounds = Rounds { name: "memc3-threads", subjects: names, kinds, found };
    let last = found.len() - 2;
    let threads = kinds[last].1;
    let over = rounds.over(last + 1, last, wall);
    let axes = (Axis::linear("threads"), Axis::linear("million requests / s"));
    let title = "Requests a second over threads, in process";
    let columns = ["cache", "threads", "M requests / s", "M requests / CPU s"];
    Findings {
        beside: vec![Cell::Text(format!("{over:.2} with {threads} threads, in process"))],
        text: vec![format!(
            "{count} items that all fit, 95 % reads and 5 % stores, zipfian; larder reads \
             {READS_PER_STORE} keys in a session. No network: larder-bench compare measures the \
             servers. The paper's machine had more cores; here there are threads up to the number \
             of cores. Informative: requests a second by the wall hang on what else the machine \
             does."
        )],
        tables: vec![rounds.table(&columns)],
        plots: vec![rounds.plot(title, axes, wall, |threads| threads as f64)],
    }
}

#[cfg(test)]
mod tests {
    use super::{LruCache, Subject, all_fit, key, requests_of};

    #[test]
    fn reads_that_find_nothing_are_counted_and_refused() {
        let keys: Vec<_> = (0..40).map(key).collect();
        let cache = Subject::Lru(LruCache::of_items(100));
        assert_eq!(requests_of(&cache, &keys), 38, "two are stored, and nothing was there");
        keys.iter().for_each(|key| cache.store(*key));
        assert_eq!(requests_of(&cache, &keys), 0);
        assert!(all_fit("it", 0).is_ok() && all_fit("it", 1).is_err());
    }
}
