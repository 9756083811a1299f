//! `larder-bench instructions`: instructions of the server's own code per request.
//!
//! The real server runs under valgrind's callgrind, which counts every instruction of user space
//! and none of the kernel's. Each workload runs twice in fresh servers, the second time with twice
//! the keys, and the difference is divided by the difference in keys: the costs of starting,
//! filling, connecting and stopping cancel out. The client has one connection, so that every batch
//! costs one wait, one read and one write.
//!
//! Counts of threads are kept apart. The busiest thread is the worker, whose figure hardly varies;
//! the figure of the others, above all the background's, is given beside it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::arguments::each_once;
use crate::compare::workload::{Name, Workload};
use crate::drive::Driver;
use crate::drive::command::ItemOptions;
use crate::drive::items::{KEY_BYTES_MAX, KEY_BYTES_MIN};
use crate::failure::{Failure, Outcome};
use crate::load::exchange::Protocol;
use crate::machine::{self, Machine};
use crate::report::model::{Axis, Cell, Document, Plot, Point, Section, Series, Table};
use crate::report::{self, ReportOptions, Spread};
use crate::say;
use crate::server::Server;
use crate::server::recipe::{Kind, Recipe, ServerOptions, find};
use crate::server::scratch::Scratch;

/// Fewer keys than in `compare`, because callgrind makes a server so much slower.
const KEYS_DEFAULT: u64 = 20_000;
/// Keys, in the shorter run, of workloads with few and with many keys in a write.
const KEYS_SINGLE: u64 = 10_000;
const KEYS_MANY: u64 = 100_000;
/// The divisor of these numbers with `--quick`.
const QUICK_SHARE: u64 = 5;
/// The prefix of callgrind's file names: a hyphen and the thread's number follow.
const FILE_PREFIX: &str = "out";

/// The server and workloads to count.
#[derive(Debug, Clone, Args)]
pub struct InstructionsOptions {
    /// The server to count.
    #[arg(long, value_enum, default_value_t = Kind::Larder)]
    server: Kind,
    /// The workloads to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Name::ALL)]
    workloads: Vec<Name>,
    /// Repetitions of every measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Number of different keys.
    #[arg(long = "keys", default_value_t = KEYS_DEFAULT,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    key_count: u64,
    /// Bytes of every key.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64)
        .range(KEY_BYTES_MIN as u64..=KEY_BYTES_MAX as u64))]
    key_bytes: u64,
    /// Bytes of every value.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    value_bytes: u64,
    /// Memory limit in MiB.
    #[arg(short, long = "memory-mb", default_value_t = 256)]
    memory_mb: u64,
    /// The binary of valgrind.
    #[arg(long, default_value = "valgrind")]
    valgrind: PathBuf,
    /// One round of short runs, as a smoke test.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    report: ReportOptions,
    #[command(flatten)]
    servers_options: ServerOptions,
}

/// The instructions of a server's threads in one run.
#[derive(Debug, Clone, Copy)]
struct Counts {
    worker: u64,
    others: u64,
}

#[derive(Debug)]
struct Row {
    workload: Name,
    /// Keys in the shorter run.
    keys: u64,
    /// Instructions of the worker per key.
    worker: Spread,
    /// Instructions of all other threads per key.
    others: Spread,
}

/// Runs the command.
pub fn run(options: &InstructionsOptions) -> Outcome<()> {
    each_once("--workloads", &options.workloads)?;
    let mut options = options.clone();
    let share = if options.quick { QUICK_SHARE } else { 1 };
    if options.quick {
        options.rounds = 1;
    }
    let valgrind = find(&options.valgrind).ok_or_else(|| {
        let name = options.valgrind.display();
        let remedy = "install Debian's valgrind or name it with --valgrind PATH";
        Failure::Missing(format!("valgrind ({name}): {remedy}"))
    })?;
    let recipe = options.servers_options.recipe(options.server)?;
    let machine = Machine::describe()
        .with_sides(&options.servers_options.server_cores, &[options.servers_options.client_core]);
    machine::pin(options.servers_options.client_core)?;
    let workloads: Vec<Workload> = options.workloads.iter().map(|name| name.workload()).collect();
    let progress = report::progress(workloads.len() as u64 * options.rounds);
    let (mut rows, mut commands) = (Vec::new(), Vec::new());
    for workload in workloads.iter().filter(|workload| workload.suits(options.server)) {
        let keys = if workload.is_many() { KEYS_MANY } else { KEYS_SINGLE } / share;
        let mut slopes = Vec::new();
        for _ in 0..options.rounds {
            progress.set_message(workload.name.to_string());
            let (shorter, command) = count(&options, &recipe, &valgrind, workload, keys)?;
            let (longer, _) = count(&options, &recipe, &valgrind, workload, 2 * keys)?;
            commands.push(command);
            let slope = |shorter: u64, longer: u64| (longer as f64 - shorter as f64) / keys as f64;
            slopes
                .push((slope(shorter.worker, longer.worker), slope(shorter.others, longer.others)));
            progress.inc(1);
        }
        rows.push(Row {
            workload: workload.name,
            keys,
            worker: Spread::of(slopes.iter().map(|(worker, _)| *worker)),
            others: Spread::of(slopes.iter().map(|(_, others)| *others)),
        });
    }
    progress.finish_and_clear();
    let servers = report::servers(commands.iter().map(|it| (recipe.name.as_str(), it.as_str())));
    let document = document(machine, &options, servers, &rows);
    say::out(report::text(&document))?;
    options.report.write(&document)
}

/// Runs a workload once in a fresh server under callgrind; also returns the server's command line.
fn count(
    options: &InstructionsOptions,
    recipe: &Recipe,
    valgrind: &Path,
    workload: &Workload,
    keys: u64,
) -> Outcome<(Counts, String)> {
    let folder = Scratch::folder("larder-bench-callgrind")?;
    let file = folder.path().join(FILE_PREFIX);
    let arguments = [
        "--tool=callgrind".to_owned(),
        "--separate-threads=yes".to_owned(),
        format!("--callgrind-out-file={}", file.display()),
    ];
    let recipe = recipe.clone().under(valgrind.to_owned(), arguments);
    let server = Server::start(&recipe, options.memory_mb, &options.servers_options.server_cores)?;
    let items = items(options);
    let dialect = server.dialect;
    if server.kind != Kind::Null {
        items.fill(server.address, dialect)?;
    }
    let requests = (keys / workload.keys_per_request as u64).max(1);
    let script = items.script(dialect, workload.operation, workload.keys_per_request, requests);
    let mut driver = Driver::connect(server.address, &script, workload.pipeline, 1)?;
    let run = driver.run(requests, server.kind != Kind::Null)?;
    workload.verify(&run, &server.name)?;
    drop(driver);
    let command = server.command_line.clone();
    server.stop()?;
    Ok((counts(folder.path())?, command))
}

fn items(options: &InstructionsOptions) -> ItemOptions {
    ItemOptions {
        key_count: options.key_count,
        key_bytes: options.key_bytes,
        value_bytes: options.value_bytes,
        choice: crate::drive::choice::Choice::Uniform,
        seed: 1,
    }
}

/// Sums up callgrind's files in a folder, one for each thread and an empty one.
fn counts(folder: &Path) -> Outcome<Counts> {
    let mut totals = Vec::new();
    let doing = || Failure::io(format!("reading {}", folder.display()));
    for entry in fs::read_dir(folder).map_err(doing())? {
        let text = fs::read_to_string(entry.map_err(doing())?.path()).map_err(doing())?;
        totals.extend(total(&text));
    }
    let worker = totals.iter().copied().max().ok_or_else(|| {
        Failure::Reply("callgrind counted nothing: was the server ended by force?".into())
    })?;
    Ok(Counts { worker, others: totals.iter().sum::<u64>() - worker })
}

/// Returns the instructions of one of callgrind's files.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?;
    line.split_whitespace().next()?.parse().ok()
}

fn document(
    machine: Machine,
    options: &InstructionsOptions,
    servers: Vec<(String, String)>,
    rows: &[Row],
) -> Document {
    let mut section = Section::new("Instructions of user space", Vec::<String>::new());
    let columns = ["workload", "keys", "worker's instructions / key", "other threads'"];
    let cells = rows.iter().map(|row| {
        let Row { workload, keys, worker, others } = row;
        vec![
            Cell::text(workload.to_string()),
            Cell::Text(format!("{keys} and {}", 2 * keys)),
            Cell::spread(*worker, 0),
            Cell::spread(*others, 0),
        ]
    });
    section.tables.push(Table::new("instructions", &columns, cells));
    let bars = |name: &str, field: fn(&Row) -> Spread| Series {
        name: name.to_owned(),
        points: rows
            .iter()
            .zip(0..)
            .map(|(row, x)| Point::spread(f64::from(x), field(row)))
            .collect(),
    };
    let words = rows.iter().map(|row| row.workload.to_string()).collect();
    section.plots.push(Plot {
        name: "instructions".into(),
        title: "Instructions for each key".into(),
        x: Axis::words("workload", words),
        y: Axis::linear("instructions / key"),
        series: vec![bars("worker", |row| row.worker), bars("other threads", |row| row.others)],
    });
    let protocol = vec![Protocol::fact(1, None)];
    let facts = [
        ("rounds", options.rounds.to_string()),
        ("keys", format!("{} of {} bytes", options.key_count, options.key_bytes)),
        ("values", format!("{} bytes", options.value_bytes)),
    ];
    Document {
        title: "What a request costs the server's own code".into(),
        machine,
        facts: [servers, facts.map(|(name, value)| (name.to_owned(), value)).to_vec(), protocol]
            .concat(),
        sections: vec![section],
    }
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_total_stands_at_the_end_of_a_file() {
        assert_eq!(total("events: Ir\nsummary: 7\nfn=(1) main\n0 42\n\ntotals: 42\n"), Some(42));
        assert_eq!(total(""), None);
    }
}
