//! The saving by fingerprints: lookups of absent keys.
//!
//! The filter of a block cannot be switched off. So its saving is calculated from measurable parts:
//! in a zone by itself, the time to decode a frame and the share of lookups of absent keys that
//! decode one all the same; in a whole cache at a miss ratio of three quarters, the time of a
//! request. Without a filter each lookup that reaches a block for nothing would decode at least one
//! frame, and all of its frames to be certain.
//!
//! ```text
//!   present = base + decoded_present x frame        time of a lookup, frames that it decodes
//!   absent  = base + decoded_absent  x frame
//!   without a filter, a miss takes (1 - decoded_absent) x frame more, at least
//! ```

use std::sync::Arc;

use compressed::{Fields, Reader, ReaderCounts, Record, Settings, Writer, Zone};
use memory::{Arena, ArenaTables, Epochs, TableSpace};

use super::client::{Client, Zones};
use super::data::{Data, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{cpu_seconds, in_rounds};
use crate::paper::{Findings, Scale, table};
use crate::random::Random;
use crate::report::Spread;
use crate::report::model::Cell;
use crate::workload::popularity::Choice;

/// Memory of the whole cache, in hundredths of all present keys and values.
const MEMORY_PERCENT: u64 = 70;
/// One read of the whole cache in this many is of a present key.
const READS_PER_PRESENT: usize = 4;
const SKEW: f64 = 0.99;
/// Requests per key while the cache settles.
const SETTLE_PER_KEY: usize = 3;
/// Lookups of each kind and round.
const LOOKUPS: usize = 50_000;
/// Insertions between two turns of the zone's background.
const INSERTS_PER_TURN: u32 = 256;
/// Unix seconds. Nothing expires.
const NOW: u32 = 1_000_000_000;
/// The arena's bytes beyond the zone's budget: tables, and slabs in limbo.
const SPARE_BYTES: usize = 8 << 20;
/// The most addresses.
const ARENA_BYTES: usize = 1 << 36;

/// A zone by itself, full of all keys.
struct Alone {
    epochs: Arc<Epochs>,
    zone: Zone,
    reader: Reader,
}

/// The times of lookups in the zone.
#[derive(Debug, Clone, Copy)]
struct Lookups {
    us: f64,
    decoded: f64,
}

/// Measures lookups of absent keys, in the zone by itself and in a cache at three quarters misses.
pub fn filters(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let mut alone = Alone::filled(&data)?;
    let (cache, reads) = mostly_missing(&data, scale)?;
    let mut key = Vec::new();
    let found = in_rounds(scale.rounds, 3, |which| {
        let mut random = Random::new(scale.seed);
        Ok(match which {
            0 => alone.lookups(&data, &mut random, 0),
            1 => alone.lookups(&data, &mut random, data.keys),
            _ => {
                let before = cpu_seconds();
                for object in &reads {
                    data.write_key(*object, &mut key);
                    let _ = cache.session().get(&key, cache.hash(&key)).is_some();
                }
                let us = (cpu_seconds() - before) * 1e6 / reads.len() as f64;
                Lookups { us, decoded: 0.0 }
            }
        })
    })?;
    Ok(findings(&data, &found, miss_share(&cache, &data, &reads)))
}

/// Returns a settled cache, and reads of it of which most find nothing.
fn mostly_missing(data: &Data, scale: &Scale) -> Outcome<(larder::Cache, Vec<u32>)> {
    let settle = data.keys as usize * SETTLE_PER_KEY;
    let objects = draw(&Choice::Zipfian, SKEW, data.keys, settle, scale.seed)?;
    let cache = Zones::Price.cache(data.memory(MEMORY_PERCENT))?;
    Client::new(&cache, data).settle(&objects)?;
    let reads = draw(&Choice::Zipfian, SKEW, data.keys, LOOKUPS, scale.seed + 1)?;
    let absent = |(number, object): (usize, u32)| match number % READS_PER_PRESENT {
        0 => object,
        _ => data.keys + object,
    };
    Ok((cache, reads.into_iter().enumerate().map(absent).collect()))
}

/// Returns the share of these reads that find nothing.
fn miss_share(cache: &larder::Cache, data: &Data, reads: &[u32]) -> f64 {
    let mut key = Vec::new();
    let missing = reads.iter().filter(|object| {
        data.write_key(**object, &mut key);
        cache.session().peek(&key, cache.hash(&key)).is_none()
    });
    missing.count() as f64 / reads.len() as f64
}

impl Alone {
    /// Returns a zone that has room for all items.
    fn filled(data: &Data) -> Outcome<Alone> {
        let budget = data.bytes() as usize;
        let arena = Arena::new(ARENA_BYTES, budget + budget / 8 + SPARE_BYTES, 4);
        let arena = Arc::new(arena.map_err(Failure::io("reserving addresses for a zone"))?);
        let epochs = Arc::new(Epochs::new());
        let tables: Arc<dyn TableSpace> = Arc::new(ArenaTables::new(Arc::clone(&arena)));
        let mut settings = Settings::new(Box::new(hash), budget / arena.slab_bytes());
        settings.checksums = false;
        let zone = Zone::new(arena, Arc::clone(&epochs), tables, settings);
        let zone = zone.ok_or_else(|| Failure::Check("no room for a zone's table".into()))?;
        let mut writer = Writer::new(&zone);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for object in 0..data.keys {
            data.write_key(object, &mut key);
            data.write_value(object, &mut value);
            let record = Record { key: &key, value: &value, fields: Fields::default() };
            // A refused item is absent, and lookups find it so.
            let _ = zone.insert(hash(&key), &record, NOW, &mut writer, |_, new| new.reveal());
            if object.is_multiple_of(INSERTS_PER_TURN) {
                zone.train();
                zone.maintain(NOW, &mut writer);
            }
        }
        Ok(Alone { epochs, zone, reader: Reader::new() })
    }

    /// Looks up keys from this number on.
    fn lookups(&mut self, data: &Data, random: &mut Random, from: u32) -> Lookups {
        let ReaderCounts { decoded, .. } = self.reader.counts();
        let (mut key, before) = (Vec::new(), cpu_seconds());
        for _ in 0..LOOKUPS {
            data.write_key(from + random.below(u64::from(data.keys)) as u32, &mut key);
            let guard = self.epochs.pin();
            let _ = self.zone.find(&guard, hash(&key), &key, NOW, NOW, &mut self.reader);
        }
        let us = (cpu_seconds() - before) * 1e6 / LOOKUPS as f64;
        let decoded = (self.reader.counts().decoded - decoded) as f64 / LOOKUPS as f64;
        Lookups { us, decoded }
    }
}

/// FNV-1a with its ends mixed, the zone's hash.
fn hash(key: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    Random::new(key.iter().fold(0xcbf2_9ce4_8422_2325, step)).word()
}

/// Returns the gain in requests because misses decode nothing, in percent: a frame takes
/// `frame_us`, a request `request_us`, and the share `decoded` of the misses decodes one anyway.
fn saved_percent(frame_us: f64, request_us: f64, miss_share: f64, decoded: f64) -> f64 {
    100.0 * miss_share * (1.0 - decoded) * frame_us / request_us
}

fn findings(data: &Data, found: &[Vec<Lookups>], miss_share: f64) -> Findings {
    let rounds = found[0].len();
    let frame_us = |round: usize| {
        let (present, absent) = (found[0][round], found[1][round]);
        (present.us - absent.us) / (present.decoded - absent.decoded).max(1e-9)
    };
    let decoded = found[1][0].decoded;
    let saved = Spread::of(
        (0..rounds)
            .map(|round| saved_percent(frame_us(round), found[2][round].us, miss_share, decoded)),
    );
    let us = |which: usize| Cell::spread(Spread::of(found[which].iter().map(|one| one.us)), 3);
    let row = |name: &str, us: Cell, decoded: Cell| vec![Cell::text(name), us, decoded];
    let frames = |which: usize| Cell::number(found[which][0].decoded, 3);
    let frame = Spread::of((0..rounds).map(frame_us));
    let rows = vec![
        row("a lookup in the zone of a key that is there", us(0), frames(0)),
        row("a lookup in the zone of an absent key", us(1), frames(1)),
        row("decoding a frame, from both", Cell::spread(frame, 3), Cell::count(1)),
        row("a read of the whole cache", us(2), Cell::Nothing),
    ];
    Findings {
        beside: vec![Cell::number(100.0 - 100.0 * decoded, 1), Cell::spread(saved, 1)],
        text: vec![format!(
            "{}. The filter, a fingerprint of a byte for each row, cannot be switched off: the \
             saving is reckoned. All items lie in a zone by itself, looked up evenly; the whole \
             cache has {MEMORY_PERCENT} % of their bytes, both zones by price, and {:.1} % of its \
             reads find nothing. Without a filter, each of them is taken to decode one frame, the \
             least; to be sure that a key is absent, all frames of its block would have to be \
             decoded. What is saved is how many more requests a CPU second are made.",
            data.in_words(),
            100.0 * miss_share
        )],
        tables: vec![table("zexpander-filters", &["what", "CPU us", "frames decoded"], rows)],
        plots: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Alone, Data, Random, saved_percent};

    #[test]
    fn lookups_of_absent_keys_decode_little() {
        let data = Data::of(5_000, None, 1).expect("no file is needed");
        let mut alone = Alone::filled(&data).expect("there is memory for a small zone");
        let mut random = Random::new(1);
        let present = alone.lookups(&data, &mut random, 0);
        let absent = alone.lookups(&data, &mut random, data.keys);
        assert!((1.0..1.5).contains(&present.decoded), "{present:?}");
        assert!(absent.decoded < 0.5, "{absent:?}");
    }

    #[test]
    fn frames_that_misses_do_not_decode_are_saved() {
        // Three of four reads would take 2 us more; a request takes 3 us.
        assert_eq!(saved_percent(2.0, 3.0, 0.75, 0.0), 50.0);
        assert_eq!(saved_percent(2.0, 3.0, 0.75, 0.5), 25.0);
    }
}
