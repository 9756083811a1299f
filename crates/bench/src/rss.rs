//! `larder-bench rss`: does `-m` mean memory?
//!
//! A server is filled with small, medium, large and mixed items, each kind in a fresh server, and
//! then all kinds one after the other in one server, which strands memory in the wrong places.
//! Every fill stores until the server is full. Two things must hold after each:
//!
//! - Resident memory never passed the limit, `-m` plus 5 % plus 32 MiB. The kernel keeps the peak,
//!   so nothing between two samples is missed.
//! - The items stored last can be read, so the server did not stay within its limit by refusing: of
//!   the last 1000 items, or of as many as make a tenth of the memory, nearly all are there, and
//!   each is right to the last byte.

use clap::Args;

use crate::arguments::{each_once, share};
use crate::drive::fill::{Filler, ReadBack};
use crate::drive::items::{Shape, Size};
use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::machine::{self, Machine};
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::report::{self, ReportOptions};
use crate::say;
use crate::server::recipe::{Kind, Recipe, ServerOptions};
use crate::server::{Server, query, usage};

const MIB: u64 = 1 << 20;
/// Resident memory beyond `-m` that is allowed, as a share of `-m` and as a fixed part.
const BEYOND_SHARE: f64 = 0.05;
const BEYOND_BYTES: u64 = 32 * MIB;
/// A fill ends when keys and values of this many times the memory were stored ...
const FILL_OVER_MEMORY: f64 = 1.5;
/// ... or earlier, when the server evicts and this many times what it holds was stored ...
const STORED_OVER_HELD: f64 = 1.3;
/// ... but not before this much: a size that is new to a full server begins with little.
const FILL_OVER_MEMORY_MIN: f64 = 0.5;
/// How often the server is asked for its counts while it is filled, per memory limit.
const STEPS: u64 = 50;
/// The most recent items read back, and the largest share of the memory that they may be.
const RECENT_ITEMS_MAX: u64 = 1000;
const RECENT_SHARE_OF_MEMORY: f64 = 0.1;

/// memcached's default limit is 1 MiB for the whole item: this leaves room for key and header.
const MIXED: Size = Size::LogUniform { bytes_min: 10, bytes_max: (1 << 20) - 1024 };

/// The server and limits to check, and how strictly.
#[derive(Debug, Args)]
pub struct RssOptions {
    /// The server to check.
    #[arg(long, value_enum, default_value_t = Kind::Larder)]
    server: Kind,
    /// Memory limits in MiB.
    #[arg(short, long = "memory-mb", value_delimiter = ',', default_value = "64,256,1024")]
    memory_mb: Vec<u64>,
    /// Share of the most recently stored items that must be readable.
    #[arg(long, default_value_t = 0.95, value_parser = share)]
    recent_share_min: f64,
    /// Check only a limit of 64 MiB, as a smoke test.
    #[arg(long, conflicts_with = "memory_mb")]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    servers_options: ServerOptions,
}

/// A kind of items to fill a server with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// 48 bytes: a key of 16 and a value of 32.
    Small,
    /// 300 bytes: a key of 30 and a value of 270.
    Medium,
    /// 4 KiB: a key of 24 and the rest.
    Large,
    /// Values from 10 bytes to 1 MiB, logarithmically uniform, with keys of 24.
    Mixed,
}

const FRESH: [&[Fill]; 4] = [&[Fill::Small], &[Fill::Medium], &[Fill::Large], &[Fill::Mixed]];
/// Back to small at the end: memory must come back from large items, too.
const SHIFTING: &[Fill] = &[Fill::Small, Fill::Medium, Fill::Large, Fill::Mixed, Fill::Small];

/// A server after one fill.
#[derive(Debug)]
struct Row {
    server: String,
    command: String,
    memory_mb: u64,
    /// Earlier fills of the same server.
    after: Vec<Fill>,
    fill: Fill,
    rss_bytes: u64,
    rss_peak_bytes: u64,
    rss_limit_bytes: u64,
    stored: u64,
    refused: u64,
    items: u64,
    evictions: u64,
    recent_read: u64,
    recent_right: u64,
}

/// Runs the command.
pub fn run(options: &RssOptions) -> Outcome<()> {
    each_once("--memory-mb", &options.memory_mb)?;
    let recipe = options.servers_options.recipe(options.server)?;
    if matches!(options.server, Kind::Redis | Kind::Null) {
        return Err(Failure::Usage(format!("{} does not evict here", options.server)));
    }
    let machine = Machine::describe()
        .with_sides(&options.servers_options.server_cores, &[options.servers_options.client_core]);
    machine::pin(options.servers_options.client_core)?;
    let limits = if options.quick { &[64][..] } else { &options.memory_mb };
    let plans: Vec<&[Fill]> = FRESH.into_iter().chain([SHIFTING]).collect();
    let fills: usize = plans.iter().map(|plan| plan.len()).sum();
    let progress = report::progress((fills * limits.len()) as u64);
    let mut rows = Vec::new();
    for memory_mb in limits {
        for plan in &plans {
            progress.set_message(format!("-m {memory_mb} {plan:?}"));
            let cores = &options.servers_options.server_cores;
            rows.extend(run_plan(&recipe, *memory_mb, plan, cores)?);
            progress.inc(plan.len() as u64);
        }
    }
    progress.finish_and_clear();
    let document = document(machine, options, &rows);
    say::out(report::text(&document))?;
    let written = options.report.write(&document);
    judge(&rows, options.recent_share_min)?;
    written
}

/// Fills one server with one kind after the other.
fn run_plan(recipe: &Recipe, memory_mb: u64, plan: &[Fill], cores: &[usize]) -> Outcome<Vec<Row>> {
    let server = Server::start(recipe, memory_mb, cores)?;
    fill_one_by_one(&server, memory_mb, plan).map_err(|failure| server.explain(failure))
}

fn fill_one_by_one(server: &Server, memory_mb: u64, plan: &[Fill]) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    let mut next = 0;
    for (number, fill) in plan.iter().enumerate() {
        usage::reset_peak(server.pid());
        let first = next;
        let mut filler = Filler::connect(server.address, server.dialect)?;
        next = store(server, &mut filler, *fill, first, memory_mb * MIB)?;
        let tally = filler.finish(&fill.shape())?;
        let (recent_read, recent_right) =
            read_recent(&mut filler, *fill, first..next, memory_mb * MIB)?;
        let counts = query::counts(server.address, server.dialect)?;
        let resident = usage::resident(server.pid())?;
        rows.push(Row {
            server: server.name.clone(),
            command: server.command_line.clone(),
            memory_mb,
            after: plan[..number].to_vec(),
            fill: *fill,
            rss_bytes: resident.bytes,
            rss_peak_bytes: resident.peak_bytes,
            rss_limit_bytes: rss_limit_bytes(memory_mb),
            stored: tally.stored,
            refused: tally.refused,
            items: counts.items,
            evictions: counts.evictions,
            recent_read,
            recent_right,
        });
    }
    Ok(rows)
}

/// Stores items from index `first` on until the server is full of them; returns the next index.
fn store(
    server: &Server,
    filler: &mut Filler,
    fill: Fill,
    first: u64,
    memory_bytes: u64,
) -> Outcome<u64> {
    let (shape, dialect) = (fill.shape(), server.dialect);
    let evictions_before = query::counts(server.address, dialect)?.evictions;
    let bytes_max = (memory_bytes as f64 * FILL_OVER_MEMORY) as u64;
    let bytes_min = (memory_bytes as f64 * FILL_OVER_MEMORY_MIN) as u64;
    let step_bytes = memory_bytes / STEPS;
    let (mut next, mut bytes) = (first, 0);
    while bytes < bytes_max {
        let step_end = bytes + step_bytes;
        while bytes < step_end {
            filler.store(&shape, next)?;
            bytes += fill.item_bytes(next);
            next += 1;
        }
        let tally = filler.finish(&shape)?;
        let counts = query::counts(server.address, dialect)?;
        let replaced = tally.stored as f64 >= STORED_OVER_HELD * counts.items as f64;
        if counts.evictions > evictions_before && replaced && bytes >= bytes_min {
            break;
        }
    }
    Ok(next)
}

/// Reads back the most recent items, newest first; returns how many were read and how many right.
fn read_recent(
    filler: &mut Filler,
    fill: Fill,
    stored: std::ops::Range<u64>,
    memory_bytes: u64,
) -> Outcome<(u64, u64)> {
    let bytes_max = (memory_bytes as f64 * RECENT_SHARE_OF_MEMORY) as u64;
    let shape = fill.shape();
    let (mut read, mut right, mut bytes) = (0, 0, 0);
    for index in stored.rev().take(RECENT_ITEMS_MAX as usize) {
        bytes += fill.item_bytes(index);
        if bytes > bytes_max {
            break;
        }
        read += 1;
        right += u64::from(filler.read_back(&shape, index)? == ReadBack::Right);
    }
    Ok((read, right))
}

/// Fails if a limit was passed or too few recent items could be read.
fn judge(rows: &[Row], recent_share_min: f64) -> Outcome<()> {
    let mut broken = Vec::new();
    for row in rows {
        if row.rss_peak_bytes > row.rss_limit_bytes {
            let beyond = (row.rss_peak_bytes - row.rss_limit_bytes) / 1024;
            broken.push(format!("{}: {beyond} KiB beyond the limit", row.title()));
        }
        if row.recent_read == 0 {
            broken.push(format!("{}: no item is small enough to be read back", row.title()));
        }
        if (row.recent_right as f64) < recent_share_min * row.recent_read as f64 {
            let (right, read) = (row.recent_right, row.recent_read);
            broken.push(format!("{}: only {right} of the last {read} items", row.title()));
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(Failure::Check(broken.join("\n  "))) }
}

fn rss_limit_bytes(memory_mb: u64) -> u64 {
    let memory_bytes = memory_mb * MIB;
    memory_bytes + (memory_bytes as f64 * BEYOND_SHARE) as u64 + BEYOND_BYTES
}

impl Fill {
    fn shape(self) -> Shape {
        match self {
            Fill::Small => Shape::fixed(16, 32),
            Fill::Medium => Shape::fixed(30, 270),
            Fill::Large => Shape::fixed(24, 4096 - 24),
            Fill::Mixed => Shape { key_bytes: 24, size: MIXED },
        }
    }

    fn item_bytes(self, index: u64) -> u64 {
        let shape = self.shape();
        (shape.key_bytes + shape.value_bytes(index)) as u64
    }
}

impl Row {
    fn title(&self) -> String {
        let mut title = format!("-m {}, ", self.memory_mb);
        for fill in &self.after {
            title.push_str(&format!("{fill:?} > ").to_lowercase());
        }
        title + &format!("{:?}", self.fill).to_lowercase()
    }

    fn cells(&self) -> Vec<Cell> {
        let mib = |bytes: u64| Cell::number(bytes as f64 / MIB as f64, 1);
        vec![
            Cell::Text(self.title()),
            mib(self.rss_bytes),
            mib(self.rss_peak_bytes),
            mib(self.rss_limit_bytes),
            Cell::count(self.stored),
            Cell::count(self.refused),
            Cell::count(self.items),
            Cell::count(self.evictions),
            Cell::Text(format!("{}/{}", self.recent_right, self.recent_read)),
        ]
    }
}

fn document(machine: Machine, options: &RssOptions, rows: &[Row]) -> Document {
    let columns =
        ["fill", "RSS MiB", "peak", "limit", "stored", "refused", "items", "evicted", "recent"];
    let mut section = Section::new("Resident memory after each fill", Vec::<String>::new());
    section.tables.push(Table::new("rss", &columns, rows.iter().map(Row::cells)));
    section.plots.push(plot(rows));
    let protocol = vec![Protocol::fact(1, None)];
    let servers = report::servers(rows.iter().map(|it| (it.server.as_str(), it.command.as_str())));
    let recent = format!("at least {} must be readable", options.recent_share_min);
    let recent = vec![("recent".to_owned(), recent)];
    Document {
        title: "Whether -m means memory".into(),
        machine,
        facts: [servers, recent, protocol].concat(),
        sections: vec![section],
    }
}

/// Plots the peak after each fill, as a share of the limit, with a line's height of room above.
fn plot(rows: &[Row]) -> Plot {
    let share = |row: &Row| row.rss_peak_bytes as f64 / row.rss_limit_bytes as f64;
    let point = |(at, row)| Point::exact(at as f64, share(row));
    Plot {
        name: "rss".into(),
        title: "Peak of resident memory over its limit; the promise is at most 1".into(),
        x: Axis::words("fill", (1..=rows.len()).map(|number| number.to_string()).collect()),
        y: Axis::linear("peak / limit"),
        series: vec![Series {
            name: "peak".into(),
            points: rows.iter().enumerate().map(point).collect(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::{Fill, rss_limit_bytes};

    #[test]
    fn the_limit_is_what_is_promised() {
        assert_eq!(rss_limit_bytes(1000), 1082 << 20);
    }

    #[test]
    fn items_have_the_sizes_in_their_names() {
        assert_eq!(Fill::Small.item_bytes(1), 48);
        assert_eq!(Fill::Medium.item_bytes(1), 300);
        assert_eq!(Fill::Large.item_bytes(1), 4096);
        let mixed = (0..1000).map(|index| Fill::Mixed.item_bytes(index));
        assert!(mixed.max() < Some(1 << 20));
    }
}
