//! The compression ratio of items by the number compressed together.
//!
//! Items are taken in the order of their keys' numbers, which is unrelated to their values, and as
//! many as fill a unit are joined. A dictionary is trained on other items than those it is judged
//! by: of a file with few records, one half is judged and the other trained on.

use codec::{DICTIONARY_BYTES_MAX, Decoder, Dictionary, Encoder, Method};

use super::data::Data;
use crate::failure::{Failure, Outcome};
use crate::paper::measure::cpu_seconds;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};

/// Bytes of a unit; 0: each item by itself.
const UNITS: [usize; 6] = [0, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10];
/// Bytes of compressed items, and as many again for training a dictionary.
const SAMPLE_BYTES: usize = 1 << 20;
/// Samples for a dictionary have the length that the engine compresses at a time.
const TRAINED_UNIT: usize = 1 << 10;
/// The most that the engine uses, which takes a 512th of its budget where that is less.
const DICTIONARY_BYTES: usize = 64 << 10;
const LEVEL: i32 = 3;
const _: () = assert!(DICTIONARY_BYTES <= DICTIONARY_BYTES_MAX);

const METHODS: [(&str, Method, bool); 4] = [
    ("LZ4", Method::Lz4, false),
    ("LZ4, dictionary", Method::Lz4, true),
    ("zstd", Method::Zstd, false),
    ("zstd, dictionary", Method::Zstd, true),
];

/// The results of one way of compressing.
#[derive(Debug, Clone, Copy)]
struct Made {
    ratio: f64,
    encode_us: f64,
    decode_us: f64,
}

/// Measures ratios and times by unit and method.
pub fn compression_ratio(scale: &Scale) -> Outcome<Findings> {
    let data = Data::load(scale)?;
    let (judged, others) = samples(&data)?;
    let dictionary = Dictionary::train(&units(&others, TRAINED_UNIT), DICTIONARY_BYTES, LEVEL);
    let mut rows = Vec::new();
    let mut series = METHODS.map(|(name, ..)| Series { name: name.into(), points: Vec::new() });
    let mut found = Vec::new();
    for unit in UNITS {
        let units = units(&judged, unit);
        let mean = units.iter().map(Vec::len).sum::<usize>() as f64 / units.len() as f64;
        let mut made = Vec::new();
        for (place, (_, method, wants)) in METHODS.into_iter().enumerate() {
            let made_now = match (wants, &dictionary) {
                (true, None) => None,
                (wants, dictionary) => {
                    Some(make(&units, method, dictionary.as_ref().filter(|_| wants))?)
                }
            };
            if let Some(made) = made_now {
                series[place].points.push(Point::exact(mean, made.ratio));
            }
            made.push(made_now);
        }
        rows.push(row(unit, mean, &made));
        found.push(made);
    }
    let ratio = |unit: usize, method: usize| {
        let place = UNITS.iter().position(|one| *one == unit).expect("it is one of them");
        found[place][method].map_or(Cell::Nothing, |made| Cell::number(made.ratio, 2))
    };
    Ok(Findings {
        beside: vec![ratio(0, 0), ratio(2 << 10, 0), ratio(0, 3), ratio(1 << 10, 3)],
        text: vec![format!(
            "{}. Of these, items of {} bytes in all are compressed, keys included; the dictionary, \
             of {DICTIONARY_BYTES} bytes at most, is trained from as many others. zstd at level \
             {LEVEL}. The engine compresses about 1 KiB at a time with zstd and a dictionary. \
             Times are CPU microseconds of a unit.",
            data.in_words(),
            judged.iter().map(Vec::len).sum::<usize>(),
        )],
        tables: vec![table("zexpander-ratio", &COLUMNS, rows)],
        plots: vec![Plot {
            name: "zexpander-ratio".into(),
            title: "Ratio by how much is compressed together".into(),
            x: Axis::logarithmic("bytes of a unit, on average"),
            y: Axis::linear("ratio"),
            series: series.into(),
        }],
    })
}

const COLUMNS: [&str; 10] = [
    "unit",
    "bytes of it",
    "LZ4",
    "LZ4, dictionary",
    "zstd",
    "zstd, dictionary",
    "LZ4 decode us",
    "zstd dictionary decode us",
    "LZ4 encode us",
    "zstd dictionary encode us",
];

fn row(unit: usize, mean: f64, made: &[Option<Made>]) -> Vec<Cell> {
    let number = |method: usize, figure: fn(Made) -> f64| {
        made[method].map_or(Cell::Nothing, |made| Cell::number(figure(made), 2))
    };
    let name = if unit == 0 { "an item".into() } else { format!("{unit} bytes") };
    let mut row = vec![Cell::text(name), Cell::number(mean, 0)];
    row.extend((0..METHODS.len()).map(|method| number(method, |made| made.ratio)));
    row.extend([0, 3].map(|method| number(method, |made| made.decode_us)));
    row.extend([0, 3].map(|method| number(method, |made| made.encode_us)));
    row
}

type Items = Vec<Vec<u8>>;

/// Returns items to be judged, and others to train on, of which none has the same value.
fn samples(data: &Data) -> Outcome<(Items, Items)> {
    let each = data.distinct().map_or(u32::MAX, |records| records / 2);
    if each == 0 {
        return Err(Failure::Usage("a single record cannot be judged and trained from".into()));
    }
    let (judged, next) = items(data, 0, each);
    Ok((judged, items(data, next, each).0))
}

/// Returns at most `most` items from an object on, and the object after them.
fn items(data: &Data, from: u32, most: u32) -> (Items, u32) {
    let (mut items, mut bytes, mut object) = (Vec::new(), 0, from);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    while bytes < SAMPLE_BYTES && object - from < most {
        data.write_key(object, &mut key);
        data.write_value(object, &mut value);
        let item = [key.as_slice(), &value].concat();
        bytes += item.len();
        items.push(item);
        object += 1;
    }
    (items, object)
}

/// Returns items joined until they fill a unit; the last of them may be short.
fn units(items: &[Vec<u8>], unit: usize) -> Vec<Vec<u8>> {
    let mut units: Vec<Vec<u8>> = Vec::new();
    for item in items {
        match units.last_mut().filter(|last| last.len() < unit) {
            Some(last) => last.extend_from_slice(item),
            None => units.push(item.clone()),
        }
    }
    units
}

/// Compresses all units, and decompresses them again.
fn make(units: &[Vec<u8>], method: Method, dictionary: Option<&Dictionary>) -> Outcome<Made> {
    let (mut encoder, mut decoder) = (Encoder::new(LEVEL), Decoder::new());
    let before = cpu_seconds();
    let outputs: Vec<(Method, Vec<u8>)> = units
        .iter()
        .map(|unit| {
            let mut output = Vec::new();
            (encoder.encode(method, dictionary, unit, &mut output), output)
        })
        .collect();
    let encoded = cpu_seconds();
    let mut target = Vec::new();
    for ((used, output), unit) in outputs.iter().zip(units) {
        target.resize(unit.len(), 0);
        let done = decoder.decode(*used, dictionary, output, &mut target);
        if done.is_err() || target != *unit {
            return Err(Failure::Check("a unit did not come back as it was".into()));
        }
    }
    let decoded = cpu_seconds();
    let raw: usize = units.iter().map(Vec::len).sum();
    let packed: usize = outputs.iter().map(|(_, output)| output.len()).sum();
    let each_us = |seconds: f64| seconds * 1e6 / units.len() as f64;
    Ok(Made {
        ratio: raw as f64 / packed as f64,
        encode_us: each_us(encoded - before),
        decode_us: each_us(decoded - encoded),
    })
}

#[cfg(test)]
mod tests {
    use codec::{Dictionary, Method};

    use super::{DICTIONARY_BYTES, Data, LEVEL, make, samples, units};
    use crate::trace::testing::Folder;
    use crate::values::ValueChoice;

    /// Regression: objects have the records in turn, so with a short file most of the items for
    /// training a dictionary were also those it was judged by.
    #[test]
    fn no_record_is_both_judged_and_trained_on() {
        let records: Vec<u8> = (0..5_u8).flat_map(|record| [1, 0, 0, 0, record]).collect();
        let folder = Folder::new();
        let path = folder.write("values", &records);
        let data = Data::of(1_000, Some(ValueChoice::Records(path)), 1).expect("a file");
        let (judged, others) = samples(&data).expect("there are records enough");
        let values = |items: &[Vec<u8>]| items.iter().map(|item| item[16]).collect::<Vec<u8>>();
        assert_eq!((values(&judged).len(), values(&others).len()), (2, 2));
        assert!(values(&judged).iter().all(|value| !values(&others).contains(value)));
    }

    #[test]
    fn units_hold_all_items_and_are_full() {
        let items: Vec<Vec<u8>> = (0..10_u8).map(|number| vec![number; 300]).collect();
        assert_eq!(units(&items, 0), items);
        let joined = units(&items, 1000);
        assert_eq!(joined.iter().map(Vec::len).collect::<Vec<_>>(), [1200, 1200, 600]);
        assert_eq!(joined.concat(), items.concat());
    }

    #[test]
    fn more_together_or_a_dictionary_makes_it_smaller() {
        let data = Data::of(40_000, None, 1).expect("no file is needed");
        let (judged, others) = samples(&data).expect("values never come again");
        let dictionary = Dictionary::train(&units(&others, 1024), DICTIONARY_BYTES, LEVEL);
        let dictionary = dictionary.expect("the values have phrases in common");
        let ratio = |unit, method, dictionary| {
            make(&units(&judged, unit), method, dictionary).expect("all come back").ratio
        };
        assert!(ratio(4096, Method::Lz4, None) > 1.2 * ratio(0, Method::Lz4, None));
        assert!(ratio(0, Method::Zstd, Some(&dictionary)) > 1.5 * ratio(0, Method::Zstd, None));
    }
}
