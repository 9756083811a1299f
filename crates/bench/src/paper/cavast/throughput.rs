//! Lookups on as much data as the scale allows, with huge pages and with small ones, by one thread
//! and by more.

use std::fs;

use super::stores::{BATCH, KEY_BYTES, Stores, VALUE_BYTES, VALUE_LENGTHS};
use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{Together, in_rounds, ratio, together};
use crate::paper::{Findings, Scale, table};
use crate::report::Spread;
use crate::report::model::Cell;

/// Lookups of each thread in each round.
const LOOKUPS: usize = 2_000_000;
/// Ways to look up.
const WAYS: [&str; 3] = ["memcached's layout", "cache, key by key", "cache, as the server"];
const CHAINS: usize = 0;
const AHEAD: usize = 2;

/// The results with one kind of pages.
struct Course {
    /// MiB of this process in huge pages, and all that are resident.
    huge_mb: u64,
    resident_mb: u64,
    /// The rounds, by threads and by way.
    found: Vec<Vec<Vec<Together>>>,
}

/// Compares lookups by pages and threads, beside memcached's layout.
pub fn throughput(scale: &Scale) -> Outcome<Findings> {
    let count = scale.items(24_000_000) as u64;
    let draws = LOOKUPS.min(4 * count as usize);
    let drawn = |thread| draw(Choice::Uniform, count, draws, scale.seed + thread as u64);
    let wanted: Vec<Vec<u32>> = (0..scale.threads).map(drawn).collect();
    let huge = with_huge_pages(true, || course(scale, count, &wanted))?;
    let small = with_huge_pages(false, || course(scale, count, &wanted))?;
    let gain = ratio(&rates(&huge.found[0][AHEAD]), &rates(&small.found[0][AHEAD]));
    let courses = [("huge", &huge), ("small", &small)];
    let rows = courses.iter().flat_map(|(pages, course)| rows(pages, course)).collect();
    let columns = [
        "pages",
        "threads",
        "lookups",
        "M lookups / s",
        "M lookups / CPU s",
        "of memcached's layout",
    ];
    Ok(Findings {
        beside: vec![
            Cell::spread(times(&huge.found[0]), 2),
            Cell::spread(times(&small.found[0]), 2),
            Cell::spread(gain, 2),
        ],
        text: vec![describe(count), describe_pages(&huge, &small)],
        tables: vec![table("cavast-throughput", &columns, rows)],
        plots: Vec::new(),
    })
}

/// Fills both stores, and looks up with 1, 2, ... threads.
fn course(scale: &Scale, count: u64, wanted: &[Vec<u32>]) -> Outcome<Course> {
    let stores = Stores::filled(count)?;
    let (huge_mb, resident_mb) = (resident_mb("AnonHugePages:"), resident_mb("Rss:"));
    let mut found = Vec::new();
    for threads in 1..=wanted.len() {
        found.push(in_rounds(scale.rounds, WAYS.len(), |way| {
            let run =
                together(&scale.cores, threads, |thread| look_up(&stores, way, &wanted[thread]))?;
            Ok(run)
        })?);
    }
    Ok(Course { huge_mb, resident_mb, found })
}

/// Looks up all of these items, which are there; returns their number.
fn look_up(stores: &Stores, way: usize, wanted: &[u32]) -> usize {
    let found = match way {
        CHAINS => stores.look_up_in_chains(wanted),
        AHEAD => stores.look_up_ahead(wanted),
        _ => stores.look_up(wanted, 1, 0),
    };
    assert_eq!(found, wanted.len(), "everything that was stored is found");
    found
}

/// Runs something while the kernel may, or may not, back this process's memory with huge pages.
fn with_huge_pages<T>(may: bool, run: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let disable = |disabled| {
        rustix::thread::disable_transparent_huge_pages(disabled)
            .map_err(|error| Failure::Check(format!("huge pages cannot be switched: {error}")))
    };
    disable(!may)?;
    let found = run();
    disable(false)?;
    found
}

/// Returns MiB of this process, by a line of the kernel's summary.
fn resident_mb(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn rates(rounds: &[Together]) -> Vec<f64> {
    rounds.iter().map(|round| round.millions_per_cpu_second).collect()
}

/// Returns the ratio of the cache's lookups to those of memcached's layout.
fn times(ways: &[Vec<Together>]) -> Spread {
    ratio(&rates(&ways[AHEAD]), &rates(&ways[CHAINS]))
}

fn rows(pages: &str, course: &Course) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (before, ways) in course.found.iter().enumerate() {
        for (name, rounds) in WAYS.iter().zip(ways) {
            let wall = rounds.iter().map(|round| round.millions_per_second);
            rows.push(vec![
                Cell::text(pages),
                Cell::count(before as u64 + 1),
                Cell::text(*name),
                Cell::spread(Spread::of(wall), 2),
                Cell::spread(Spread::of(rates(rounds).iter().copied()), 2),
                Cell::spread(ratio(&rates(rounds), &rates(&ways[CHAINS])), 2),
            ]);
        }
    }
    rows
}

fn describe(count: u64) -> String {
    format!(
        "{count} items with keys of {KEY_BYTES} bytes and values of {VALUE_BYTES} to {}, in both \
         stores in the order of their numbers, of which the threads look up any, uniformly, and \
         copy each value; as the server does: in batches of {BATCH} keys. Informative: times of \
         one machine.",
        VALUE_BYTES + VALUE_LENGTHS - 1
    )
}

fn describe_pages(huge: &Course, small: &Course) -> String {
    format!(
        "With huge pages allowed {} of {} MiB lay in such, and without {} of {}. The cache asks \
         the kernel for them; memcached's layout is in the heap, which has them only if the C \
         library asks: run this with GLIBC_TUNABLES=glibc.malloc.hugetlb=1.",
        huge.huge_mb, huge.resident_mb, small.huge_mb, small.resident_mb
    )
}
