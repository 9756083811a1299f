//! Values that do not compress, among others: the saving of storing raw the units that look
//! incompressible, without trying.
//!
//! The incompressible objects are drawn, so a unit has some of both kinds unless there is only one.
//! The guess is about a unit, as it is stored; the paper's figures are not known here.

use ::flash::{Compression, Settings};

use super::client::{Sampled, Store};
use super::items::device_bytes;
use super::tier::{Tier, settings};
use crate::failure::Outcome;
use crate::paper::data::Data;
use crate::paper::measure::in_rounds;
use crate::paper::{Findings, Scale, table};
use crate::random::Random;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Plot, Point, Series, Table};
use crate::report::share;
use crate::values::ValueChoice;

/// Incompressible objects, in hundredths.
const PERCENT: [u64; 5] = [0, 25, 50, 75, 100];
const COMPRESSION: [Compression; 3] =
    [Compression::Promising, Compression::Any, Compression::Nothing];
const RATIO: f64 = 3.0;
/// The share of the device that is filled, so that nothing is collected.
const OF_DEVICE: f64 = 0.8;

/// One run.
#[derive(Debug, Clone, Copy)]
struct Stored {
    store_us: f64,
    /// Bytes of units in percent of the bytes of rows.
    percent: f64,
}

/// The runs of one share of incompressible objects.
struct Row {
    percent: u64,
    /// All rounds, by how the tier compresses.
    found: Vec<Vec<Stored>>,
}

impl Row {
    fn store_us(&self, at: usize) -> Spread {
        Spread::of(self.found[at].iter().map(|stored| stored.store_us))
    }

    /// Returns the CPU time saved by recognition, in percent, round by round.
    fn saved(&self) -> Spread {
        let pairs = self.found[0].iter().zip(&self.found[1]);
        Spread::of(pairs.map(|(guessed, tried)| 100.0 * (1.0 - guessed.store_us / tried.store_us)))
    }
}

/// Measures CPU time and stored bytes by the share of incompressible objects.
pub fn incompressible(scale: &Scale) -> Outcome<Findings> {
    let bytes = device_bytes(scale);
    let choice = scale.values.clone().unwrap_or(ValueChoice::Made(RATIO));
    let few = Data::of(10_000, Some(choice.clone()), scale.seed)?;
    let keys = (bytes as f64 * OF_DEVICE * f64::from(few.keys) / few.bytes() as f64) as u32;
    let values = [choice.clone(), ValueChoice::Made(1.0)]
        .map(|choice| Data::of(keys, Some(choice), scale.seed));
    let [good, noise] = values;
    let (good, noise) = (good?, noise?);
    let mut rows = Vec::new();
    for percent in PERCENT {
        let found = in_rounds(scale.rounds, COMPRESSION.len(), |at| {
            run(COMPRESSION[at], percent, bytes, [&good, &noise], scale.seed)
        })?;
        rows.push(Row { percent, found });
    }
    let half = &rows[2].found;
    Ok(Findings {
        beside: vec![
            Cell::spread(rows[4].saved(), 1),
            Cell::spread(rows[0].saved(), 1),
            Cell::number(100.0 * (half[0][0].percent / half[1][0].percent - 1.0), 2),
        ],
        text: vec![format!(
            "{keys} objects, values {choice} and {}, stored into an empty tier of {:.1} MiB. CPU \
             time is that of the thread for a store with the background's work, the training of \
             dictionaries too.",
            ValueChoice::Made(1.0),
            bytes as f64 / 1048576.0
        )],
        tables: vec![table_of(&rows)],
        plots: vec![plot(&rows)],
    })
}

fn run(
    compression: Compression,
    percent: u64,
    bytes: u64,
    [good, noise]: [&Data; 2],
    seed: u64,
) -> Outcome<Stored> {
    let mut tier = Tier::in_memory(bytes, &Settings { compression, ..settings(bytes) })?;
    let (mut random, mut value) = (Random::new(seed), Vec::new());
    let mut cpu = Sampled::default();
    for object in good.all() {
        let data = if random.below(100) < percent { noise } else { good };
        data.write_value(object, &mut value);
        cpu.take(1, || tier.set(object, data, &value))?;
    }
    let stats = tier.stats();
    Ok(Stored {
        store_us: cpu.mean_us(),
        percent: 100.0 * share(stats.stored_bytes as f64, stats.raw_bytes as f64),
    })
}

fn table_of(rows: &[Row]) -> Table {
    let rows = rows.iter().map(|row| {
        let mut cells = vec![Cell::count(row.percent)];
        cells.extend(row.found.iter().map(|found| Cell::number(found[0].percent, 2)));
        cells.extend((0..COMPRESSION.len()).map(|at| Cell::spread(row.store_us(at), 2)));
        cells.push(Cell::spread(row.saved(), 1));
        cells
    });
    let columns = [
        "incompressible, %",
        "stored, % of rows: recognised",
        "all tried",
        "none compressed",
        "CPU us / store: recognised",
        "all tried",
        "none compressed",
        "saved by recognition, %",
    ];
    table("slimcache-incompressible", &columns, rows.collect())
}

fn plot(rows: &[Row]) -> Plot {
    let names = ["recognised", "all tried", "none compressed"];
    let series = names.iter().enumerate().map(|(at, name)| {
        let points = rows.iter().map(|row| {
            let spread = row.store_us(at);
            let range = Some((spread.min, spread.max));
            Point { x: row.percent as f64, y: spread.median, range }
        });
        Series { name: (*name).into(), points: points.collect() }
    });
    Plot {
        name: "slimcache-incompressible".into(),
        title: "CPU time of a store by the share of values that do not compress".into(),
        x: Axis::linear("incompressible (%)"),
        y: Axis::linear("CPU us / store"),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use ::flash::Compression;

    use super::{Data, ValueChoice, run};

    #[test]
    fn incompressible_units_take_equal_bytes_whether_tried_or_not() {
        let data = [3.0, 1.0].map(|ratio| {
            Data::of(5_000, Some(ValueChoice::Made(ratio)), 1).expect("no file is needed")
        });
        let stored = |compression, percent| {
            let run = run(compression, percent, 8 << 20, [&data[0], &data[1]], 1);
            run.expect("it fits").percent
        };
        for compression in [Compression::Promising, Compression::Any] {
            let all = [0, 100].map(|percent| stored(compression, percent));
            assert!(all[0] < 50.0 && (100.0..103.0).contains(&all[1]), "{all:?}");
        }
        assert!(stored(Compression::Nothing, 0) > 100.0);
    }
}
