//! The bytes of an item beyond its key and value: the table, and the order of recency.

use crate::failure::{Failure, Outcome};
use crate::paper::memc3::nearly_full;
use crate::paper::{Findings, Scale, table};
use crate::report::model::{Axis, Cell, Plot, Point, Series};
use crate::tables::{Chaining, Cuckoo, LarderIndex, Links, Locking, Settings, Table, items};

const TEXT: &str = "Counted from tables with this many keys, which fill the cuckoo table to 95 %. \
    Links are as wide as pointers, a place is as wide as here in all tables; chaining has between \
    0.75 and 1.5 items a head, as memcached keeps it, and larder-index stands somewhere between \
    two growths.";

/// CLOCK keeps a bit for each item.
const CLOCK_BYTES: f64 = 1.0 / 8.0;
/// Larder keeps a byte in each item, for CLOCK's bit and other marks.
const MARK_BYTES: f64 = 1.0;

/// One design.
struct Row {
    name: &'static str,
    lookup: &'static str,
    update: &'static str,
    table: f64,
    order: f64,
}

/// Compares the bytes per item of four designs.
pub fn table_1(scale: &Scale) -> Outcome<Findings> {
    let (count, buckets) = nearly_full(scale.items(20_000_000));
    let items = items(0, count);
    let settings =
        Settings { locking: Locking::Optimistic, tags: true, paths: 2, seed: scale.seed };
    let plain = Chaining::<()>::new(items.clone(), 1);
    let linked = Chaining::<Links>::new(items.clone(), 1);
    let cuckoo = Cuckoo::new(items.clone(), buckets, settings);
    let larder = LarderIndex::growing(items, false);
    let tables: [&dyn Table; 4] = [&plain, &linked, &cuckoo, &larder];
    let mut bytes = [0.0; 4];
    for (table, bytes) in tables.iter().zip(&mut bytes) {
        if !(0..count as u32).all(|place| table.insert(place)) {
            return Err(Failure::Check(format!("a table had no room for {count} keys")));
        }
        *bytes = table.bytes() as f64 / count as f64;
    }
    let [plain, linked, cuckoo, larder] = bytes;
    let links = linked - plain;
    let rows = [
        row("chaining, strict LRU", ["one lock", "one lock"], plain, links),
        row("chaining, CLOCK", ["one lock", "one lock"], plain, CLOCK_BYTES),
        row("cuckoo with tags, CLOCK", ["no lock", "one lock"], cuckoo, CLOCK_BYTES),
        row("larder-index, mark in the item", ["no lock", "a lock a table"], larder, MARK_BYTES),
    ];
    let sum = |row: &Row| row.table + row.order;
    let beside = vec![Cell::number(sum(&rows[0]), 1), Cell::number(sum(&rows[2]), 1)];
    Ok(Findings {
        beside,
        text: vec![TEXT.to_owned(), format!("{count} keys.")],
        tables: vec![table("memc3-bytes", &COLUMNS, rows.iter().map(Row::cells).collect())],
        plots: vec![plot(&rows)],
    })
}

const COLUMNS: [&str; 6] = [
    "technique",
    "a lookup takes",
    "an update takes",
    "table, bytes / item",
    "recency, bytes / item",
    "together",
];

fn row(name: &'static str, locks: [&'static str; 2], table: f64, order: f64) -> Row {
    Row { name, lookup: locks[0], update: locks[1], table, order }
}

impl Row {
    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.name),
            Cell::text(self.lookup),
            Cell::text(self.update),
            Cell::number(self.table, 2),
            Cell::number(self.order, 2),
            Cell::number(self.table + self.order, 2),
        ]
    }
}

fn plot(rows: &[Row]) -> Plot {
    let series = |name: &str, field: fn(&Row) -> f64| Series {
        name: name.to_owned(),
        points: rows
            .iter()
            .zip(0..)
            .map(|(row, x)| Point::exact(f64::from(x), field(row)))
            .collect(),
    };
    Plot {
        name: "memc3-bytes".into(),
        title: "Bytes for each item beyond key and value".into(),
        x: Axis::words("technique", rows.iter().map(|row| row.name.to_owned()).collect()),
        y: Axis::linear("bytes / item"),
        series: vec![series("table", |row| row.table), series("recency", |row| row.order)],
    }
}
