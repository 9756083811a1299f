//! The zone's figures for real values: how many fit, their cost beside their bytes, and how long a
//! store and a lookup take.
//!
//! ```text
//! cargo run --release -p larder-compressed --example zone_figures -- \
//!     FILE BUDGET_MIB ITEMS [BLOCK [LEVEL]]
//! ```
//!
//! FILE holds values as a zstd stream of records: length (u32, little endian) and bytes. They are
//! stored round and round, ITEMS of them, each under a new key of 16 bytes; past the end of the
//! file, values come again.

use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

use larder_compressed::{Fields, Reader, Record, Settings, Writer, Zone};
use memory::{Arena, ArenaTables, Epochs, TableSpace};
use stdx::units::{GIB, MIB};

const KEY_BYTES: usize = 16;
const NOW: u32 = 1_000_000_000;
/// The background has its turns after this many insertions ...
const TURN: u64 = 256;
/// ... each of which cleans a slab: together as much as a thread gets done beside them.
const TURNS_MAX: usize = 4;
const LOOKUPS: u64 = 300_000;

fn hash(key: &[u8]) -> u64 {
    let step = |hash: u64, chunk: &[u8]| {
        let word = u64::from_le_bytes(chunk.try_into().expect("keys have 16 bytes"));
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    let hash = key.chunks(8).fold(0x1234_5678_9abc_def0, step);
    (hash ^ hash >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Nanoseconds that this thread has run, without the time that other programs take of the
/// processor.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat");
    let text = text.expect("Linux says what a thread has run");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("it begins with a number")
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let text = format!("user:{number:011}");
    text.as_bytes().try_into().expect("5 letters and 11 digits")
}

fn values(path: &str) -> Vec<Vec<u8>> {
    let file = std::fs::File::open(path).expect("the file can be opened");
    let mut bytes = Vec::new();
    zstd::Decoder::new(file).and_then(|mut d| d.read_to_end(&mut bytes)).expect("a zstd stream");
    let (mut values, mut rest) = (Vec::new(), bytes.as_slice());
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (value, behind) = behind.split_at_checked(length).expect("the file is not cut off");
        values.push(value.to_vec());
        rest = behind;
    }
    values
}

struct Times(Vec<u32>);

impl Times {
    fn push(&mut self, started: Instant) {
        self.0.push(started.elapsed().as_nanos() as u32);
    }

    fn line(&mut self, name: &str) {
        self.0.sort_unstable();
        let at = |share: f64| f64::from(self.0[(self.0.len() as f64 * share) as usize]) / 1000.0;
        let mean =
            self.0.iter().map(|&ns| f64::from(ns)).sum::<f64>() / self.0.len() as f64 / 1000.0;
        println!("{name:24} median {:.2} us, mean {mean:.2}, 99 % {:.2}", at(0.5), at(0.99));
    }
}

fn number(arguments: &[String], at: usize) -> Option<usize> {
    arguments.get(at)?.parse().ok()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let values = values(&arguments[1]);
    let budget = number(&arguments, 2).expect("a budget") * MIB;
    let items = number(&arguments, 3).expect("a number of items") as u64;
    let arena = Arc::new(Arena::new(GIB, budget + budget / 8 + 8 * MIB, 4).expect("addresses"));
    let epochs = Arc::new(Epochs::new());
    let tables: Arc<dyn TableSpace> = Arc::new(ArenaTables::new(Arc::clone(&arena)));
    let mut settings = Settings::new(Box::new(hash), budget / arena.slab_bytes());
    settings.checksums = false;
    settings.block_bytes = number(&arguments, 4).unwrap_or(settings.block_bytes);
    settings.level = number(&arguments, 5).map_or(settings.level, |level| level as i32);
    let zone = Zone::new(arena, Arc::clone(&epochs), tables, settings).expect("room for a table");
    let (mut writer, mut reader) = (Writer::new(&zone), Reader::new());
    let mut inserts = Times(Vec::new());
    let (mut refused, mut trained_s) = (0, 0.0);
    let (before_steady, mut cpu_before) = (items / 2, 0);
    let mut early = zone.stats();
    for number in 0..items {
        if number == before_steady {
            early = zone.stats();
            (cpu_before, trained_s, refused) = (cpu_ns(), 0.0, 0);
        }
        let value = &values[number as usize % values.len()];
        let key = key(number);
        let started = Instant::now();
        let record = Record { key: &key, value, fields: Fields::default() };
        let done = zone.insert(hash(&key), &record, NOW, &mut writer, |_, n| n.reveal());
        if number >= before_steady {
            inserts.push(started);
        }
        refused += u64::from(done.is_err());
        if number % TURN == 0 {
            let started = Instant::now();
            zone.train();
            let _ = (0..TURNS_MAX).find(|_| !zone.maintain(NOW, &mut writer));
            trained_s += started.elapsed().as_secs_f64();
        }
    }
    let cpu_us = (cpu_ns() - cpu_before) as f64 / 1000.0 / (items - before_steady) as f64;
    report_memory(&zone, &epochs, &mut reader);
    let stats = zone.stats();
    let moved = stats.space.moved_bytes - early.space.moved_bytes;
    let appended = stats.space.appended_bytes - early.space.appended_bytes;
    let inserted = stats.inserted - early.inserted;
    let short = (stats.inserted_short - early.inserted_short) as f64 / inserted.max(1) as f64;
    let evicted = stats.evicted - early.evicted;
    println!("of the second half of the insertions:");
    println!("short way                {:.1} % of insertions", 100.0 * short);
    println!("refused {refused}, evicted {evicted}, background {trained_s:.2} s");
    println!("moved per byte appended  {:.2}", moved as f64 / appended.max(1) as f64);
    println!("insert                   {cpu_us:.2} us of CPU on average, with the background");
    inserts.line("insert");
    lookups(&zone, &epochs, &mut reader, items);
    println!("writer {} bytes, reader {} bytes", writer.memory_bytes(), reader.memory_bytes());
}

fn report_memory(zone: &Zone, epochs: &Epochs, reader: &mut Reader) {
    let stats = zone.stats();
    let (mut items, mut bytes) = (0, 0);
    let mut cursor = larder_compressed::Cursor::default();
    let mut more = true;
    while more {
        let guard = epochs.pin();
        more = zone.walk(&guard, &mut cursor, 64, NOW, reader, |record, _| {
            items += 1;
            bytes += record.key.len() + record.value.len();
        });
    }
    assert_eq!(items, stats.items);
    let space = stats.space;
    let slabs = space.slabs * space.slab_bytes;
    let all = slabs + stats.trie_bytes + zone.heap_bytes();
    let stored = zone.stored_bytes();
    let metadata = space.live_bytes - stored + stats.trie_bytes + stats.trie_heap_bytes;
    let lost = slabs - space.live_bytes;
    println!(
        "items                    {items}, {:.1} bytes of key and value each",
        bytes as f64 / items as f64
    );
    println!("bytes of keys and values {bytes}");
    println!(
        "slabs                    {} of {} bytes, live {}",
        space.slabs, space.slab_bytes, space.live_bytes
    );
    println!(
        "ratio                    {:.3} over slabs, {:.3} over all",
        bytes as f64 / slabs as f64,
        bytes as f64 / all as f64
    );
    println!("compressed rows alone    {:.3}", bytes as f64 / stored as f64);
    println!(
        "leaves                   {}, {:.1} rows each",
        stats.leaves,
        stats.rows as f64 / stats.leaves as f64
    );
    println!(
        "metadata per item        {:.2} bytes, of them trie {:.2}",
        metadata as f64 / items as f64,
        stats.trie_bytes as f64 / items as f64
    );
    println!(
        "lost to fragmentation    {:.2} % (idle and open {:.2} %)",
        100.0 * lost as f64 / slabs as f64,
        100.0 * (space.idle_slabs * space.slab_bytes + space.open_bytes) as f64 / slabs as f64
    );
    println!("dictionaries             {:?}", stats.dictionaries);
    println!(
        "{} splits, {} merges, {} dropped leaves",
        stats.splits, stats.merges, stats.dropped_leaves
    );
}

fn lookups(zone: &Zone, epochs: &Epochs, reader: &mut Reader, items: u64) {
    let (mut hits, mut misses) = (Times(Vec::new()), Times(Vec::new()));
    let cpu_before = cpu_ns();
    let mut random = 88_172_645_463_325_252_u64;
    for _ in 0..LOOKUPS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let key = key(random % items);
        let started = Instant::now();
        let guard = epochs.pin();
        let found = zone.find(&guard, hash(&key), &key, NOW, NOW, reader).is_some();
        if found { &mut hits } else { &mut misses }.push(started);
    }
    let cpu_us = (cpu_ns() - cpu_before) as f64 / 1000.0 / LOOKUPS as f64;
    println!("find                     {cpu_us:.2} us of CPU on average, clock reads included");
    hits.line("find, present");
    if !misses.0.is_empty() {
        misses.line("find, evicted");
    }
    let before = reader.counts();
    for number in 0..LOOKUPS {
        let key = key(items + 1 + number);
        let guard = epochs.pin();
        assert!(zone.find(&guard, hash(&key), &key, NOW, NOW, reader).is_none());
    }
    let after = reader.counts();
    let share = (after.decoded_in_vain - before.decoded_in_vain) as f64 / LOOKUPS as f64;
    println!("absent keys decoded      {:.2} %", 100.0 * share);
}
