//! The amount compressed together: the gain in room and the loss in reading, for the tier, and for
//! the codec beyond the four pages of the tier's largest unit.

use codec::{Decoder, Encoder, Method};

use ::flash::Settings;

use super::client::{Client, Store};
use super::items::{device_bytes, fill_tier, objects};
use super::tier::{Tier, settings};
use crate::failure::{Failure, Outcome};
use crate::paper::data::Data;
use crate::paper::measure::cpu_seconds;
use crate::paper::{Findings, Scale, table};
use crate::random::Random;
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};
use crate::report::share;
use crate::values::ValueChoice;

/// Pages of a unit; 0: each item alone.
const PAGES: [usize; 5] = [0, 1, 2, 3, 4];
/// Objects read from a full tier.
const READS: u32 = 50_000;
/// Raw bytes that are compressed together by the codec alone.
const RAW_KIB: [usize; 6] = [4, 8, 16, 32, 64, 128];
const SAMPLE_BYTES: usize = 4 << 20;
const RATIO: f64 = 3.0;
const LEVEL: i32 = 3;
/// A unit has a fourth of a segment's raw bytes at most: with this size its own bound applies.
const SEGMENT_BYTES: usize = 256 << 10;

/// A tier with units of one size.
struct Size {
    items: usize,
    ratio: f64,
    pages_per_hit: f64,
    read_us: f64,
    store_us: f64,
}

/// Compares sizes of units.
pub fn granularity(scale: &Scale) -> Outcome<Findings> {
    let bytes = device_bytes(scale);
    let choice = scale.values.clone().unwrap_or(ValueChoice::Made(RATIO));
    let data = objects(&choice, bytes, scale.seed)?;
    let sizes: Vec<Size> =
        PAGES.iter().map(|&pages| size(pages, bytes, &data, scale.seed)).collect::<Outcome<_>>()?;
    let more = |size: &Size, than: &Size| {
        Cell::number(100.0 * (size.items as f64 / than.items as f64 - 1.0), 1)
    };
    Ok(Findings {
        beside: vec![
            more(&sizes[1], &sizes[0]),
            more(&sizes[4], &sizes[1]),
            Cell::number(sizes[1].pages_per_hit, 3),
            Cell::number(sizes[4].pages_per_hit, 3),
        ],
        text: vec![format!(
            "Values {choice}; a full tier of {:.1} MiB, of which objects are read at random. A \
             unit of the tier has 64 KiB of rows at most and is stored in four pages at most; what \
             more would gain is shown by the codec alone, without dictionaries. CPU time is of a \
             read with the copy from a device in memory, and of a store with the background's \
             work.",
            bytes as f64 / 1048576.0
        )],
        tables: vec![sizes_table(&sizes), codec_table(&data)?],
        plots: vec![plot(&sizes)],
    })
}

fn size(pages: usize, bytes: u64, data: &Data, seed: u64) -> Outcome<Size> {
    let mut settings = Settings { segment_bytes: SEGMENT_BYTES, ..settings(bytes) };
    match pages {
        0 => settings.single_rows = true,
        _ => settings.unit_pages = pages,
    }
    let mut tier = Tier::in_memory(bytes, &settings)?;
    let store_us = fill_tier(&mut tier, data)?;
    let (items, stats) = (tier.items(), tier.stats());
    // Reads of present objects: nothing is stored, and nothing moves.
    let there: Vec<u32> = data.all().filter(|&object| tier.holds(object)).collect();
    let mut random = Random::new(seed);
    let objects: Vec<u32> =
        (0..READS).map(|_| there[random.below(there.len() as u64) as usize]).collect();
    let counts = Client::new(&mut tier, data).run(objects)?;
    if counts.hits != counts.gets {
        return Err(Failure::Check("an item that is there was not found".into()));
    }
    Ok(Size {
        items,
        ratio: share(stats.raw_bytes as f64, stats.stored_bytes as f64),
        pages_per_hit: counts.pages_per_hit(),
        read_us: counts.us_per_get(),
        store_us,
    })
}

fn name(pages: usize) -> String {
    match pages {
        0 => "each item alone".into(),
        1 => "1 page".into(),
        _ => format!("{pages} pages"),
    }
}

fn sizes_table(sizes: &[Size]) -> Table {
    let rows = PAGES.iter().zip(sizes).map(|(pages, size)| {
        vec![
            Cell::text(name(*pages)),
            Cell::count(size.items as u64),
            Cell::number(size.ratio, 2),
            Cell::number(size.pages_per_hit, 3),
            Cell::number(size.read_us, 2),
            Cell::number(size.store_us, 2),
        ]
    });
    let columns =
        ["a unit", "items", "compressed, x", "pages / hit", "CPU us / read", "CPU us / store"];
    table("slimcache-granularity", &columns, rows.collect())
}

/// Compresses concatenated values, this many bytes at a time.
fn codec_table(data: &Data) -> Outcome<Table> {
    let (mut all, mut value) = (Vec::new(), Vec::new());
    for object in data.all() {
        if all.len() >= SAMPLE_BYTES {
            break;
        }
        data.write_value(object, &mut value);
        all.extend_from_slice(&value);
    }
    let mut rows = Vec::new();
    for kib in RAW_KIB {
        let (mut encoder, mut decoder) = (Encoder::new(LEVEL), Decoder::new());
        let (mut packed, mut stored, mut count) = (0, Vec::new(), 0);
        let (mut encode_s, mut decode_s) = (0.0, 0.0);
        for unit in all.chunks_exact(kib << 10) {
            let before = cpu_seconds();
            let method = encoder.encode(Method::Zstd, None, unit, &mut stored);
            let encoded = cpu_seconds();
            let mut back = vec![0; unit.len()];
            let done = decoder.decode(method, None, &stored, &mut back);
            decode_s += cpu_seconds() - encoded;
            encode_s += encoded - before;
            if done.is_err() || back != unit {
                return Err(Failure::Check("a unit did not come back as it was".into()));
            }
            (packed, count) = (packed + stored.len(), count + 1);
        }
        let each_us = |seconds: f64| Cell::number(1e6 * share(seconds, f64::from(count)), 1);
        rows.push(vec![
            Cell::count(kib as u64),
            Cell::number(share((count as usize * (kib << 10)) as f64, packed as f64), 2),
            Cell::number(share(packed as f64, f64::from(count)) / 4096.0, 2),
            each_us(encode_s),
            each_us(decode_s),
        ]);
    }
    let columns = ["raw KiB", "compressed, x", "pages stored", "CPU us to encode", "to decode"];
    Ok(table("slimcache-granularity-codec", &columns, rows))
}

fn plot(sizes: &[Size]) -> Plot {
    let series = |name: &str, figure: fn(&Size) -> f64| {
        let points =
            sizes.iter().zip(0..).map(|(size, x)| Point::exact(f64::from(x), figure(size)));
        Series { name: name.into(), points: points.collect() }
    };
    Plot {
        name: "slimcache-granularity".into(),
        title: "Room and reads by the size of units".into(),
        x: Axis::words("a unit", PAGES.map(name).to_vec()),
        y: Axis::linear("x, or pages"),
        series: vec![
            series("compressed, x", |size| size.ratio),
            series("pages for a hit", |size| size.pages_per_hit),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::{objects, size};
    use crate::values::ValueChoice;

    #[test]
    fn larger_units_hold_more_and_read_more_pages() {
        let bytes = 8 << 20;
        let data = objects(&ValueChoice::Made(3.0), bytes, 1).expect("no file is needed");
        let [alone, one, four] = [0, 1, 4].map(|pages| size(pages, bytes, &data, 1).expect("full"));
        assert!(alone.items < one.items && one.items < four.items);
        assert!(one.pages_per_hit < 1.5 && four.pages_per_hit > 2.5);
    }
}
