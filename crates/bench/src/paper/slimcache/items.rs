//! The number of items on the same flash, by the values and the way they are stored.
//!
//! New objects are stored until the tier was collected once over, or the log has come round: from
//! then on new items evict the first ones. Nothing is read meanwhile, so nothing moves.

use super::client::{Kept, Sampled, Store};
use super::log::FifoLog;
use super::tier::{Tier, settings};
use crate::failure::{Failure, Outcome};
use crate::paper::data::Data;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};
use crate::report::share;
use crate::tables::{self, LarderIndex};
use crate::values::ValueChoice;

/// Bytes of the device at a scale of 1, and at least.
const DEVICE_BYTES: f64 = 640.0 * 1048576.0;
const DEVICE_BYTES_MIN: u64 = 4 << 20;
/// Ratios of the made values, besides the one of the scale.
const RATIOS: [f64; 4] = [1.0, 2.0, 3.0, 4.0];
/// The ratio of the other experiments.
const RATIO: f64 = 3.0;
const KEPT: [Kept; 4] = [Kept::Units, Kept::Alone, Kept::Raw, Kept::Log];
/// There are as many objects as fill the device this many times uncompressed.
const OBJECTS_OVER_DEVICE: u64 = 24;
/// One item in this many is read back.
const READ_BACK: usize = 64;

/// The contents of a full device.
#[derive(Debug, Clone, Copy)]
struct Full {
    items: usize,
    /// The part of the device in use by written segments.
    net_percent: f64,
    /// Bytes of rows per stored byte.
    ratio: f64,
    memory_bytes: usize,
    /// CPU microseconds of a store.
    store_us: f64,
}

/// Returns the bytes of the device.
pub fn device_bytes(scale: &Scale) -> u64 {
    ((DEVICE_BYTES * scale.share) as u64).max(DEVICE_BYTES_MIN)
}

/// Measures items by values and by the way they are stored.
pub fn items(scale: &Scale) -> Outcome<Findings> {
    let bytes = device_bytes(scale);
    let named = scale.values.clone().unwrap_or(ValueChoice::Made(RATIO));
    let mut choices: Vec<ValueChoice> = RATIOS.map(ValueChoice::Made).to_vec();
    if !choices.contains(&named) {
        choices.push(named.clone());
    }
    let mut rows = Vec::new();
    let mut beside = Vec::new();
    for choice in choices {
        let data = objects(&choice, bytes, scale.seed)?;
        let full: Vec<Full> =
            KEPT.map(|kept| fill(kept, bytes, &data)).into_iter().collect::<Outcome<_>>()?;
        if choice == named {
            beside = full.clone();
        }
        rows.push((choice, full));
    }
    let log = beside[3].items as f64;
    let more = |full: &Full| Cell::number(100.0 * (full.items as f64 / log - 1.0), 1);
    let word = index_bytes(beside[0].items)?;
    Ok(Findings {
        beside: vec![more(&beside[0]), more(&beside[1]), more(&beside[2]), Cell::number(word, 2)],
        text: vec![
            format!(
                "A device of {:.1} MiB in segments of {} KiB. The figures beside the paper's are \
                 of values {named}. The log takes 8 bytes an item beside key and value. Both \
                 papers give what is best among their data sets, which are not known here.",
                bytes as f64 / 1048576.0,
                settings(bytes).segment_bytes >> 10,
            ),
            "An item's word of the index is counted from an index with as many items; it is all \
             that memory holds of an item. The column `memory` has beside it what does not grow \
             with items: three buffers of a segment, what is known of each segment, the encoder, \
             the open unit, dictionaries with their digests, and samples for the next."
                .into(),
        ],
        tables: vec![table_of(bytes, &rows)],
        plots: vec![plot(&rows)],
    })
}

/// Returns objects enough to fill a device of `bytes` bytes.
pub fn objects(choice: &ValueChoice, bytes: u64, seed: u64) -> Outcome<Data> {
    let few = Data::of(10_000, Some(choice.clone()), seed)?;
    let each = few.bytes() as f64 / f64::from(few.keys);
    let keys = (bytes * OBJECTS_OVER_DEVICE) as f64 / each;
    Data::of(keys as u32, Some(choice.clone()), seed)
}

fn fill(kept: Kept, bytes: u64, data: &Data) -> Outcome<Full> {
    let Some(settings) = kept.settings(bytes) else { return fill_log(bytes, data) };
    let mut tier = Tier::in_memory(bytes, &settings)?;
    let store_us = fill_tier(&mut tier, data)?;
    let stats = tier.stats();
    Ok(Full {
        items: tier.items(),
        net_percent: 100.0
            * share((stats.segments_written * stats.segment_bytes) as f64, bytes as f64),
        ratio: share(stats.raw_bytes as f64, stats.stored_bytes as f64),
        memory_bytes: tier.flash.memory_bytes(),
        store_us,
    })
}

/// Stores objects until as many segments were collected as there are, and returns the CPU
/// microseconds of a store.
pub fn fill_tier(tier: &mut Tier, data: &Data) -> Outcome<f64> {
    let (mut value, mut cpu) = (Vec::new(), Sampled::default());
    for object in data.all() {
        data.write_value(object, &mut value);
        cpu.take(1, || tier.set(object, data, &value))?;
        // The counters are not read after each store.
        if object % 256 == 0 && tier.stats().collected >= tier.stats().segments {
            read_back(tier, data, object)?;
            return Ok(cpu.mean_us());
        }
    }
    Err(Failure::Check(format!("{} objects do not fill the tier", data.keys)))
}

fn fill_log(bytes: u64, data: &Data) -> Outcome<Full> {
    let mut log = FifoLog::in_memory(bytes, settings(bytes).segment_bytes);
    let (mut value, mut cpu) = (Vec::new(), Sampled::default());
    // Just before its oldest segment is evicted: then it is full.
    let mut items = 0;
    for object in data.all() {
        if log.turns() == 2 {
            read_back(&mut log, data, object - 1)?;
            break;
        }
        items = log.items();
        data.write_value(object, &mut value);
        cpu.take(1, || log.set(object, data, &value))?;
    }
    let (net_percent, store_us) = (100.0, cpu.mean_us());
    Ok(Full { items, net_percent, ratio: 1.0, memory_bytes: 0, store_us })
}

/// Checks some values; the last object must be there, the first not any more.
fn read_back(store: &mut dyn Store, data: &Data, last: u32) -> Outcome<()> {
    let (mut value, mut wanted) = (Vec::new(), Vec::new());
    let mut is_there = |object: u32| {
        let is_there = store.get(object, data, &mut value)?;
        data.write_value(object, &mut wanted);
        match is_there && value != wanted {
            true => Err(Failure::Check(format!("object {object} has another value"))),
            false => Ok(is_there),
        }
    };
    for object in (0..=last).step_by(READ_BACK) {
        is_there(object)?;
    }
    if !is_there(last)? || is_there(0)? {
        return Err(Failure::Check("the last object is not there, or the first is".into()));
    }
    Ok(())
}

/// Returns the bytes of the engine's index per item, for this many items.
fn index_bytes(items: usize) -> Outcome<f64> {
    let index = LarderIndex::growing(tables::items(0, items), false);
    let is_full = !(0..items as u32).all(|place| tables::Table::insert(&index, place));
    if is_full {
        return Err(Failure::Check(format!("the index has no room for {items} items")));
    }
    Ok(tables::Table::bytes(&index) as f64 / items as f64)
}

fn table_of(bytes: u64, found: &[(ValueChoice, Vec<Full>)]) -> Table {
    let mut rows = Vec::new();
    for (choice, all) in found {
        for (kept, full) in KEPT.iter().zip(all) {
            let times = full.items as f64 / all[3].items as f64;
            rows.push(vec![
                Cell::text(choice.to_string()),
                Cell::text(kept.name()),
                Cell::count(full.items as u64),
                Cell::number(bytes as f64 / full.items as f64, 1),
                Cell::number(times, 3),
                Cell::number(100.0 * (times - 1.0), 1),
                Cell::number(full.net_percent, 1),
                Cell::number(full.ratio, 2),
                Cell::number(full.memory_bytes as f64 / 1024.0, 0),
                Cell::number(full.store_us, 2),
            ]);
        }
    }
    let columns = [
        "values",
        "kept by",
        "items",
        "flash bytes / item",
        "x the log",
        "more than the log, %",
        "flash net, %",
        "compressed, x",
        "memory, KiB",
        "CPU us / store",
    ];
    table("slimcache-items", &columns, rows)
}

fn plot(found: &[(ValueChoice, Vec<Full>)]) -> Plot {
    let words = found.iter().map(|(choice, _)| choice.to_string()).collect();
    let series = KEPT.iter().enumerate().map(|(at, kept)| {
        let points = found.iter().zip(0..).map(|((_, all), x)| {
            Point::exact(f64::from(x), all[at].items as f64 / all[3].items as f64)
        });
        Series { name: kept.name().into(), points: points.collect() }
    });
    Plot {
        name: "slimcache-items".into(),
        title: "Items beside an uncompressed log".into(),
        x: Axis::words("values", words),
        y: Axis::linear("items (x the log)"),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, fill, objects, settings};
    use crate::values::ValueChoice;

    #[test]
    fn compression_makes_room_and_without_it_nothing_is_gained() {
        let bytes = 8 << 20;
        let data = objects(&ValueChoice::Made(3.0), bytes, 1).expect("no file is needed");
        let items = |kept| fill(kept, bytes, &data).expect("it fills").items as f64;
        let [units, alone, raw, log] = [Kept::Units, Kept::Alone, Kept::Raw, Kept::Log].map(items);
        assert!(units > 1.5 * log && alone > raw && raw < log, "{units} {alone} {raw} {log}");
        assert!(raw > 0.65 * log, "{raw} {log}");
    }

    /// Without its just evicted oldest segment it would have one segment less.
    #[test]
    fn the_log_is_counted_when_it_is_full() {
        let bytes = 4 << 20;
        let data = objects(&ValueChoice::Made(3.0), bytes, 1).expect("no file is needed");
        let items = fill(Kept::Log, bytes, &data).expect("it fills").items as u64;
        let held = items * (data.bytes() / u64::from(data.keys) + 8);
        let least = bytes - settings(bytes).segment_bytes as u64;
        assert!((least + 1..=bytes).contains(&held), "{held} of {bytes}");
    }
}
