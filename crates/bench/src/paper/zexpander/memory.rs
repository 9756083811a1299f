//! The use of memory: with the hot zone alone, and with both zones under either rule.

use larder::{Cache, DumpCursor, Dumped, Item};

use super::client::{Client, TARGET, Zones};
use super::data::{Data, draw};
use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::policies::kind::Kind;
use crate::report::model::{Cell, Table};
use crate::workload::popularity::Choice;

/// Memory in hundredths of all keys and values.
const MEMORY_PERCENT: u64 = 25;
/// Reads for each key.
const READS_PER_KEY: usize = 3;
const SKEW: f64 = 0.99;
/// Chunks looked at in one session when items are counted.
const DUMP_CHUNKS: usize = 16 << 10;
const ZONES: [Zones; 3] = [Zones::Hot, Zones::Price, Zones::Target(TARGET)];

/// The contents of a cache, in bytes unless named otherwise.
#[derive(Debug, Clone, Copy, Default)]
struct Breakdown {
    limit: f64,
    items: f64,
    hot_items: f64,
    hot_data: f64,
    compressed_data: f64,
    chunks: f64,
    slabs_of_hot_and_tables: f64,
    index: f64,
    slabs_of_blocks: f64,
    blocks: f64,
    trie: f64,
    dictionaries: f64,
    unused: f64,
}

impl Breakdown {
    fn of(cache: &Cache) -> Breakdown {
        let mut found = Breakdown::default();
        let mut cursor = DumpCursor::default();
        let mut count = |item: &Item| {
            let bytes = (item.key().len() + item.value_bytes()) as f64;
            found.items += 1.0;
            if item.is_compressed() {
                found.compressed_data += bytes;
            } else {
                found.hot_items += 1.0;
                found.hot_data += bytes;
            }
        };
        while cache.session().dump(&mut cursor, DUMP_CHUNKS, &mut count) == Dumped::More {}
        let stats = cache.stats();
        let zone = stats.compressed.unwrap_or_default().zone;
        let slabs = zone.space.slabs * zone.space.slab_bytes;
        Breakdown {
            limit: stats.limit_bytes as f64,
            chunks: stats.item_bytes as f64,
            slabs_of_hot_and_tables: stats.used_bytes as f64 - slabs as f64,
            index: stats.index_bytes as f64,
            slabs_of_blocks: slabs as f64,
            blocks: zone.space.live_bytes as f64,
            trie: (zone.trie_bytes + zone.trie_heap_bytes) as f64,
            dictionaries: zone.dictionaries.memory_bytes as f64,
            unused: stats.limit_bytes.saturating_sub(stats.used_bytes) as f64,
            ..found
        }
    }

    fn data(&self) -> f64 {
        self.hot_data + self.compressed_data
    }

    /// Returns parts of the limit, in the order of their rows; dictionaries are outside it.
    fn parts(&self) -> [(&'static str, f64); 9] {
        let taken = self.chunks + self.index + self.trie;
        [
            ("hot: keys and values", self.hot_data),
            ("hot: headers, and what chunks are longer", self.chunks - self.hot_data),
            ("hot and tables: free chunks and ends of slabs", self.slabs_of_hot_and_tables - taken),
            ("index", self.index),
            ("compressed: blocks", self.blocks),
            ("compressed: lost in slabs", self.slabs_of_blocks - self.blocks),
            ("compressed: trie", self.trie),
            ("no slab yet", self.unused),
            ("the limit", self.limit),
        ]
    }
}

/// Measures the parts of the memory, and the items in it.
pub fn memory(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let memory = data.memory(MEMORY_PERCENT);
    let reads = data.keys as usize * READS_PER_KEY;
    let objects = draw(&Choice::Zipfian, SKEW, data.keys, reads, scale.seed)?;
    let mut found = Vec::new();
    for zones in ZONES {
        let cache = zones.cache(memory)?;
        let mut client = Client::new(&cache, &data);
        client.run(data.all())?;
        client.run(objects.iter().copied())?;
        found.push(Breakdown::of(&cache));
    }
    let memcached = memory as f64 / memcached_item_bytes(&data);
    let over =
        |zones: usize, other: usize| Cell::number(found[zones].items / found[other].items, 2);
    let beside = [1, 2].map(|zones| Cell::number(found[zones].items / memcached, 2));
    let lost = 100.0 - 100.0 * found[1].blocks / found[1].slabs_of_blocks.max(1.0);
    Ok(Findings {
        beside: [beside[0].clone(), beside[1].clone(), over(1, 0), Cell::number(lost, 1)].into(),
        text: vec![format!(
            "{}; {memory} bytes of memory, {reads} zipfian reads (skew {SKEW}) after \
             each key was read once, a miss is stored. \
             memcached is reckoned: {memcached:.0} items by the chunk and the slot that it takes \
             for one, on average. What a block holds beside compressed rows, its \
             head and fingerprints, is not told apart here: docs/decisions has it. Dictionaries \
             lie beside the slabs, which are fewer by as much.",
            data.in_words()
        )],
        tables: vec![parts(&found), kept(&found)],
        plots: Vec::new(),
    })
}

/// Returns memcached's mean bytes of an item.
fn memcached_item_bytes(data: &Data) -> f64 {
    let scale = Kind::Memcached.memory_scale();
    let all: u64 = data.all().map(|object| u64::from(scale.weigh(&data.read(object)))).sum();
    all as f64 / f64::from(data.keys)
}

fn parts(found: &[Breakdown]) -> Table {
    let parts: Vec<_> = found.iter().map(Breakdown::parts).collect();
    let rows = (0..parts[0].len()).map(|row| {
        let mib = |parts: &[(&str, f64); 9]| Cell::number(parts[row].1 / f64::from(1 << 20), 2);
        std::iter::once(Cell::text(parts[0][row].0)).chain(parts.iter().map(mib)).collect()
    });
    let names = ZONES.map(Zones::name);
    let columns: Vec<String> = std::iter::once("MiB of".into()).chain(names).collect();
    Table { name: "zexpander-memory-parts".into(), columns, rows: rows.collect() }
}

fn kept(found: &[Breakdown]) -> Table {
    let rows = ZONES.iter().zip(found).map(|(zones, found)| {
        let compressed_items = found.items - found.hot_items;
        let ratio = match found.slabs_of_blocks {
            0.0 => Cell::Nothing,
            slabs => Cell::number(found.compressed_data / slabs, 2),
        };
        vec![
            Cell::text(zones.name()),
            Cell::number(found.items, 0),
            Cell::number(compressed_items, 0),
            Cell::number(found.data() / f64::from(1 << 20), 1),
            Cell::number(found.data() / found.limit, 2),
            ratio,
            Cell::number(found.dictionaries / f64::from(1 << 20), 2),
        ]
    });
    let columns = [
        "zones",
        "items",
        "of them compressed",
        "MiB of keys and values",
        "of the limit, x",
        "of the compressed zone's slabs, x",
        "MiB of dictionaries",
    ];
    table("zexpander-memory-kept", &columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::{Breakdown, Client, Data, Zones};

    #[test]
    fn parts_add_up_to_the_limit_and_no_item_is_left_out() {
        let data = Data::of(40_000, None, 1).expect("no file is needed");
        for zones in [Zones::Hot, Zones::Price] {
            let cache = zones.cache(10 << 20).expect("enough for both zones");
            Client::new(&cache, &data).run(0..data.keys).expect("every value is right");
            let found = Breakdown::of(&cache);
            let parts = found.parts();
            let sum: f64 = parts[..8].iter().map(|part| part.1).sum();
            assert!((sum - found.limit).abs() < 1.0, "{parts:?}");
            assert!(parts.iter().all(|part| part.1 >= 0.0), "{parts:?}");
            assert_eq!(found.items, cache.stats().items as f64);
            assert_eq!(found.compressed_data > 0.0, zones == Zones::Price);
        }
    }
}
