//! `larder-bench density`: how many items a server keeps in each GiB of resident memory.
//!
//! A server is filled with items of one size until it counts as full: it evicts, and 1.3 times as
//! many items were stored as it holds. Its own count of items is then divided by the kernel's count
//! of resident memory, so that nothing is left out: index, fragmentation, buffers, code. Redis is
//! filled until it refuses, since its approximate eviction says nothing about density.
//!
//! `--values` selects another experiment: the items left after a zipfian load (`popular`).

mod popular;
mod popular_report;

use std::fmt;
use std::str::FromStr;

use clap::Args;

use crate::arguments::each_once;
use crate::drive::fill::Filler;
use crate::drive::items::{KEY_BYTES_MAX, KEY_BYTES_MIN, Shape};
use crate::drive::reply::Tally;
use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::machine::{self, Machine};
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::query::{self, Counts};
use crate::server::recipe::{Kind, Recipe, ServerOptions};
use crate::server::{Server, usage};
use popular::PopularOptions;

const GIB: f64 = (1u64 << 30) as f64;
/// The ratio of stored to held items at which a server counts as full.
const STORED_OVER_HELD: f64 = 1.3;
/// The bytes of keys and values, in multiples of the memory limit, after which a server that is
/// still not full is given up: not even a server that compresses can hold this much.
const BYTES_OVER_MEMORY_MAX: u64 = 12;
/// How often the server is asked for its counts while it is filled, per memory limit.
const STEPS: u64 = 200;
/// Memory limit with `--quick`, in MiB.
const QUICK_MEMORY_MB: u64 = 64;
/// Memory limit with `--quick` under a load, in MiB: filling 64 MiB by it takes too long.
const QUICK_POPULAR_MEMORY_MB: u64 = 16;

/// Lengths of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lengths {
    key_bytes: usize,
    value_bytes: usize,
}

impl fmt::Display for Lengths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}+{}", self.key_bytes, self.value_bytes)
    }
}

impl FromStr for Lengths {
    type Err = String;

    fn from_str(text: &str) -> Result<Lengths, String> {
        let parsed = text.split_once('+').and_then(|(key, value)| {
            Some(Lengths { key_bytes: key.parse().ok()?, value_bytes: value.parse().ok()? })
        });
        let lengths = parsed.ok_or("expected KEY+VALUE in bytes, as in 16+32")?;
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&lengths.key_bytes) {
            return Err(format!("keys have {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes"));
        }
        Ok(lengths)
    }
}

/// The servers to fill, and the items.
#[derive(Debug, Args)]
pub struct DensityOptions {
    /// The servers to fill.
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = [Kind::Larder, Kind::Memcached, Kind::Redis])]
    servers: Vec<Kind>,
    /// Lengths of key and value in bytes, as KEY+VALUE.
    #[arg(long = "sizes", value_delimiter = ',', default_value = "16+32,24+100,30+270")]
    sizes: Vec<Lengths>,
    /// Memory limit of each server in MiB.
    #[arg(short, long = "memory-mb", default_value_t = 1024)]
    memory_mb: u64,
    /// A small memory limit, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    popular: PopularOptions,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    servers_options: ServerOptions,
}

/// One server full of items of one size.
#[derive(Debug, Clone)]
struct Row {
    server: String,
    command: String,
    key_bytes: usize,
    value_bytes: usize,
    stored: u64,
    items: u64,
    evictions: u64,
    rss_bytes: u64,
    items_per_gib: f64,
    /// Resident bytes per item beyond its key and value; negative where values are compressed.
    overhead_bytes: f64,
    ratio_to_memcached: Option<f64>,
}

/// Runs the command.
pub fn run(options: &DensityOptions) -> Outcome<()> {
    if options.servers.contains(&Kind::Null) {
        return Err(Failure::Usage("the null server keeps no items".into()));
    }
    let document = if options.popular.values.is_empty() {
        fill_all(options)?
    } else {
        let DensityOptions { popular, servers, servers_options, memory_mb, quick, .. } = options;
        popular::run(popular, servers, servers_options, *memory_mb, *quick)?
    };
    say::out(report::text(&document))?;
    options.report.write(&document)
}

/// Runs the experiment with items of one size.
fn fill_all(options: &DensityOptions) -> Outcome<Document> {
    each_once("--sizes", &options.sizes)?;
    let most = if options.quick { QUICK_MEMORY_MB } else { u64::MAX };
    let memory_mb = options.memory_mb.min(most);
    let recipes = options.servers_options.recipes(&options.servers)?;
    let recipes: Vec<Recipe> = recipes.into_iter().map(Recipe::refusing).collect();
    let machine = Machine::describe()
        .with_sides(&options.servers_options.server_cores, &[options.servers_options.client_core]);
    machine::pin(options.servers_options.client_core)?;
    let progress = report::progress((recipes.len() * options.sizes.len()) as u64);
    let mut rows = Vec::new();
    for lengths in &options.sizes {
        for recipe in &recipes {
            progress.set_message(format!("{} {lengths}", recipe.name));
            let server = Server::start(recipe, memory_mb, &options.servers_options.server_cores)?;
            let row = measure(&server, *lengths, memory_mb);
            rows.push(row.map_err(|failure| server.explain(failure))?);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    relate(&mut rows);
    Ok(document(machine, memory_mb, &rows))
}

fn measure(server: &Server, lengths: Lengths, memory_mb: u64) -> Outcome<Row> {
    let Lengths { key_bytes, value_bytes } = lengths;
    let shape = Shape::fixed(key_bytes, value_bytes);
    let (stored, counts) = fill(server, &shape, key_bytes + value_bytes, memory_mb << 20)?;
    let rss_bytes = usage::resident(server.pid())?.bytes;
    Ok(Row {
        server: server.name.clone(),
        command: server.command_line.clone(),
        key_bytes,
        value_bytes,
        stored,
        items: counts.items,
        evictions: counts.evictions,
        rss_bytes,
        items_per_gib: counts.items as f64 / rss_bytes as f64 * GIB,
        overhead_bytes: rss_bytes as f64 / counts.items as f64 - (key_bytes + value_bytes) as f64,
        ratio_to_memcached: None,
    })
}

/// Stores new items until the server is full; returns their number, and its counts.
fn fill(
    server: &Server,
    shape: &Shape,
    item_bytes: usize,
    memory_bytes: u64,
) -> Outcome<(u64, Counts)> {
    let dialect = server.dialect;
    let mut filler = Filler::connect(server.address, dialect)?;
    let items_in_memory = memory_bytes / item_bytes as u64;
    let step = (items_in_memory / STEPS).max(1);
    let mut next = 0;
    while next < items_in_memory * BYTES_OVER_MEMORY_MAX {
        for index in next..next + step {
            filler.store(shape, index)?;
        }
        next += step;
        let tally = filler.finish(shape)?;
        let counts = query::counts(server.address, dialect)?;
        if is_full(server.kind, &server.name, tally, counts)? {
            return Ok((tally.stored, counts));
        }
    }
    let counts = query::counts(server.address, dialect)?;
    Err(Failure::Check(format!(
        "{} is not full with {BYTES_OVER_MEMORY_MAX} times its memory stored: it has {} items and \
         evicted {}",
        server.name, counts.items, counts.evictions
    )))
}

/// Returns whether a server with these counts is full. Redis, told not to evict, shows it by
/// refusing; a server that evicts has no reason to refuse, and a refusal does not make it full.
fn is_full(kind: Kind, name: &str, tally: Tally, counts: Counts) -> Outcome<bool> {
    let refuses = match kind {
        Kind::Redis => true,
        Kind::Peer => counts.evictions == 0,
        Kind::Larder | Kind::Memcached | Kind::Null => false,
    };
    if tally.refused > 0 && !refuses {
        let refused = tally.refused;
        return Err(Failure::Reply(format!("{name} refused {refused} sets, and is to evict")));
    }
    let is_replaced = tally.stored as f64 >= STORED_OVER_HELD * counts.items as f64;
    let is_full = tally.refused > 0 || (counts.evictions > 0 && is_replaced);
    if is_full && counts.items == 0 {
        let what = "is full and holds nothing: is its memory too small for one item?";
        return Err(Failure::Check(format!("{name} {what}")));
    }
    Ok(is_full)
}

/// Compares each row with memcached's of the same size.
fn relate(rows: &mut [Row]) {
    let memcached = Kind::Memcached.to_string();
    let peers: Vec<Row> = rows.iter().filter(|row| row.server == memcached).cloned().collect();
    for row in rows {
        let peer = peers
            .iter()
            .find(|peer| (peer.key_bytes, peer.value_bytes) == (row.key_bytes, row.value_bytes));
        row.ratio_to_memcached = peer.map(|peer| row.items_per_gib / peer.items_per_gib);
    }
}

fn document(machine: Machine, memory_mb: u64, rows: &[Row]) -> Document {
    let mut facts = vec![("memory limit".to_owned(), format!("{memory_mb} MiB"))];
    facts.push(Protocol::fact(1, None));
    facts.extend(report::servers(rows.iter().map(|it| (it.server.as_str(), it.command.as_str()))));
    let text = "Filled until full for good; resident memory leaves nothing out.";
    let mut section = Section::new("Items for each GiB of resident memory", [text]);
    section.plots.push(plot(rows));
    section.tables.push(table(rows));
    Document {
        title: "How many items a server keeps".into(),
        machine,
        facts,
        sections: vec![section],
    }
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        "key+value",
        "server",
        "stored",
        "items",
        "evicted",
        "RSS MiB",
        "M items / GiB",
        "bytes beyond key and value",
        "x memcached",
    ];
    let cells = rows.iter().map(|row| {
        vec![
            Cell::Text(row.lengths()),
            Cell::text(row.server.clone()),
            Cell::count(row.stored),
            Cell::count(row.items),
            Cell::count(row.evictions),
            Cell::number(row.rss_bytes as f64 / (1 << 20) as f64, 1),
            Cell::number(row.items_per_gib / 1e6, 2),
            Cell::number(row.overhead_bytes, 1),
            row.ratio_to_memcached.map_or(Cell::Nothing, |ratio| Cell::number(ratio, 2)),
        ]
    });
    Table::new("density", &columns, cells)
}

/// Plots a group of bars for each size, with a bar for each server.
fn plot(rows: &[Row]) -> Plot {
    let mut sizes: Vec<String> = rows.iter().map(Row::lengths).collect();
    sizes.dedup();
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let size = sizes.iter().position(|size| *size == row.lengths());
        let x = size.expect("every row's size was collected") as f64;
        let point = Point::exact(x, row.items_per_gib / 1e6);
        let name = row.server.clone();
        Series::add(&mut series, &name, point);
    }
    Plot {
        name: "density".into(),
        title: "Items for each GiB of resident memory".into(),
        x: Axis::words("key + value (bytes)", sizes),
        y: Axis::linear("million items / GiB"),
        series,
    }
}

impl Row {
    fn lengths(&self) -> String {
        format!("{}+{}", self.key_bytes, self.value_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Kind, Lengths, Tally, is_full};

    /// Regression: one refusal ended the fill of any server, and its items by then were its
    /// density. Of values that are too long none was held, and there was no error.
    #[test]
    fn a_refusal_does_not_make_an_evicting_server_full() {
        let ends = |kind, refused, items, evictions| {
            let tally = Tally { stored: 130, refused, ..Tally::default() };
            is_full(kind, "one", tally, Counts { items, evictions }).ok()
        };
        assert_eq!(ends(Kind::Redis, 1, 130, 0), Some(true));
        for kind in [Kind::Larder, Kind::Memcached, Kind::Peer] {
            assert_eq!(ends(kind, 0, 100, 30), Some(true));
            assert_eq!(ends(kind, 0, 101, 30), Some(false));
            assert_eq!(ends(kind, 0, 130, 0), Some(false));
            assert_eq!(ends(kind, 1, 100, 30), None);
        }
        assert_eq!(ends(Kind::Larder, 1, 130, 0), None);
        assert_eq!(ends(Kind::Peer, 1, 130, 0), Some(true), "it may be one that never evicts");
        assert_eq!(ends(Kind::Redis, 1, 0, 0), None, "it holds nothing");
    }

    #[test]
    fn lengths_are_two_numbers_in_range() {
        assert_eq!("16+32".parse(), Ok(Lengths { key_bytes: 16, value_bytes: 32 }));
        assert!("16".parse::<Lengths>().is_err());
        assert!("9+32".parse::<Lengths>().is_err());
        assert!("251+32".parse::<Lengths>().is_err());
        assert!("16+x".parse::<Lengths>().is_err());
    }
}
