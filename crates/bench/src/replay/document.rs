//! The report of `replay`: one table and one plot, at equal memory.

use super::cache::{Cache, Contents};
use super::drive::Done;
use crate::machine::Machine;
use crate::policies::kind::Kind;
use crate::policies::simulate::Tally;
use crate::report::misses::{BESIDE_COLUMN, SHARE_COLUMN, beside};
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::trace::copies::Copies;
use crate::values;

const MIB: f64 = (1u64 << 20) as f64;

/// One cache at one memory limit.
#[derive(Debug, Clone)]
pub struct Row {
    /// The cache.
    pub name: String,
    /// Its memory limit.
    pub limit_bytes: u64,
    /// Threads that sent requests.
    pub threads: u8,
    /// Reads and their costs.
    pub tally: Tally,
    /// Items at the end, if any.
    pub items: Option<u64>,
    /// Memory in use per item at the end.
    pub item_bytes: Option<f64>,
    /// Memory per item beyond its key and value, where that is known.
    pub overhead_bytes: Option<f64>,
    /// Stores that were refused.
    pub refused: u64,
    /// Requests per second, all threads together.
    pub requests_per_s: Option<f64>,
}

impl Row {
    /// Returns the results of a replay.
    pub fn of(name: &str, limit_bytes: u64, threads: u8, done: &Done, cache: &dyn Cache) -> Row {
        let Contents { items, used_bytes, data_bytes } = cache.contents();
        let each = |bytes: u64| bytes as f64 / items.max(1) as f64;
        Row {
            name: name.to_owned(),
            limit_bytes,
            threads,
            tally: done.tally,
            // A cache that knows the future has evicted everything by the end.
            items: (items > 0).then_some(items),
            item_bytes: (items > 0).then(|| each(used_bytes)),
            overhead_bytes: data_bytes.map(|data| each(used_bytes) - each(data)),
            refused: done.refused,
            requests_per_s: Some(done.requests as f64 / done.seconds),
        }
    }

    /// Returns the bound on all caches.
    pub fn bound(limit_bytes: u64, tally: Tally) -> Row {
        Row {
            name: "(bound)".into(),
            limit_bytes,
            threads: 1,
            tally,
            items: None,
            item_bytes: None,
            overhead_bytes: None,
            refused: 0,
            requests_per_s: None,
        }
    }

    /// Returns the cache's name, with its threads if there are several.
    fn title(&self) -> String {
        match self.threads {
            1 => self.name.clone(),
            threads => format!("{}, {threads} threads", self.name),
        }
    }
}

/// Writes the report.
pub fn write(
    machine: Machine,
    trace: &Copies,
    data_bytes: u64,
    models: &[Kind],
    rows: &[Row],
) -> Document {
    let text = [
        "Every get that misses is followed by a set. `larder` is the engine in this process, and \
         every value that it returned was compared. The others are models: `clock, same items` is \
         CLOCK with the bytes for each item that the engine was found to have, `memcached` is LRU \
         with memcached's memory for each item (one list, no slabs that classes hold on to), \
         `belady` knows the future, and no policy can pass `(bound)`. The engine's memory is that \
         of its slabs, index included.",
        "Requests in a second say little: keys and values are made and compared in between.",
    ];
    let mut section = Section::new(format!("{} at equal memory", trace.name()), text);
    section.tables.push(table(rows, data_bytes));
    section.tables.extend((!models.is_empty()).then(|| overheads(models)));
    section.plots.push(plot(trace, rows));
    let mut facts = vec![
        ("trace".to_owned(), trace.name()),
        ("requests".to_owned(), trace.len().to_string()),
        ("objects".to_owned(), trace.objects().to_string()),
        ("data".to_owned(), values::data_in_words(data_bytes)),
    ];
    facts.extend(trace.filled_in_words());
    let sections = vec![section];
    Document { title: format!("Replay of {}", trace.name()), machine, facts, sections }
}

fn table(rows: &[Row], data_bytes: u64) -> Table {
    let columns = [
        "cache",
        "memory, MiB",
        "hits, percent",
        "misses, percent",
        "misses",
        BESIDE_COLUMN,
        SHARE_COLUMN,
        "backend seconds saved",
        "cost paid, percent",
        "items",
        "bytes for each item",
        "beyond key and value",
        "refused sets",
        "requests/s",
    ];
    let optional = |figure: Option<f64>, digits: usize| {
        figure.map_or(Cell::Nothing, |figure| Cell::number(figure, digits))
    };
    let memcached = Kind::Memcached.to_string();
    let peer = |row: &Row| {
        rows.iter().find(|peer| peer.name == memcached && peer.limit_bytes == row.limit_bytes)
    };
    let row = |row: &Row| {
        let misses = 100.0 * row.tally.miss_ratio();
        vec![
            Cell::text(row.title()),
            Cell::number(row.limit_bytes as f64 / MIB, 2),
            Cell::number(100.0 - misses, 2),
            Cell::number(misses, 2),
            Cell::count(row.tally.misses),
            beside(row.tally.miss_ratio(), peer(row).map(|peer| peer.tally.miss_ratio())),
            Cell::number(100.0 * row.limit_bytes as f64 / data_bytes as f64, 1),
            optional(row.tally.saved_s(), 1),
            optional(row.tally.cost_miss_ratio().map(|ratio| 100.0 * ratio), 2),
            row.items.map_or(Cell::Nothing, Cell::count),
            optional(row.item_bytes, 1),
            optional(row.overhead_bytes, 1),
            Cell::count(row.refused),
            optional(row.requests_per_s, 0),
        ]
    };
    Table::new("replay", &columns, rows.iter().map(row))
}

/// Returns the overhead of an item in each model.
fn overheads(models: &[Kind]) -> Table {
    let row = |kind: &Kind| vec![Cell::text(kind.to_string()), Cell::text(kind.overhead())];
    Table {
        name: "models".into(),
        columns: ["model", "for each item beyond key and value"].map(String::from).to_vec(),
        rows: models.iter().map(row).collect(),
    }
}

fn plot(trace: &Copies, rows: &[Row]) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let point = Point::exact(row.limit_bytes as f64 / MIB, 100.0 * row.tally.miss_ratio());
        Series::add(&mut series, &row.title(), point);
    }
    Plot {
        name: "replay".into(),
        title: format!("Misses of {} at equal memory", trace.name()),
        x: Axis::logarithmic("memory, MiB"),
        y: Axis::linear("misses, percent of reads"),
        series,
    }
}
