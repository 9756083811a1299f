//! Every experiment of every paper at a small scale: that it runs, and those findings that do not
//! depend on its size.
//!
//! They are meant to run one at a time: `cargo test -p larder-bench-tests --test papers --
//! --test-threads=1`.

use std::path::Path;
use std::process::Command;

use larder_bench_tests::{program, rows};
use serde_json::Value;

/// Returns the report of all experiments of a paper.
fn report(paper: &str, more: &[&str]) -> Value {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{paper}.json"));
    let output = Command::new(program())
        .args(["paper", paper, "all", "--quick"])
        .args(more)
        .arg("--json")
        .arg(&path)
        .output()
        .expect("the program can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(path).expect("it was written");
    serde_json::from_str(&text).expect("the report is JSON")
}

/// Returns the number in a cell of a table.
fn figure(report: &Value, table: &str, row: usize, column: &str) -> f64 {
    let cell = &rows(report, table)[row][column];
    let figure = cell["value"].as_f64().or(cell["spread"]["median"].as_f64());
    figure.unwrap_or_else(|| panic!("no number in row {row} of {table}: {cell}"))
}

#[test]
fn memc3() {
    let report = report("memc3", &[]);
    let bytes = |row| figure(&report, "memc3-bytes", row, "together");
    assert!(bytes(3) < 0.5 * bytes(0), "a word for an item, and pointers of chains and queues");
    // From one path to sixteen.
    let moves = |row| figure(&report, "memc3-paths", row, "moves / insert");
    assert!(moves(9) < 0.5 * moves(4), "{} beside {}", moves(9), moves(4));
    assert!(figure(&report, "memc3-paths", 9, "full at, % of slots") > 98.0);
    // Without tags a miss has to look at the keys.
    let items = |row| figure(&report, "memc3-lines", row, "miss: items");
    assert!(items(1) > 5.0 && items(2) < 0.1 && items(3) < 0.1);
    assert!(figure(&report, "memc3-threads", 1, "M requests / s") > 0.0);
    assert!(figure(&report, "memc3-mixes", 17, "M operations / s") > 0.0);
}

#[test]
fn slimcache() {
    let report = report("slimcache", &[]);
    // For each kind of values: units, single items, uncompressed, the log.
    let items = |row| figure(&report, "slimcache-items", row, "items");
    assert!(items(8) > items(9) && items(9) > items(10), "made:3");
    assert!(items(12) > items(8), "made:4 is smaller than made:3");
    // All values compress, or none.
    let column = "stored, % of rows: recognised";
    let stored = |row| figure(&report, "slimcache-incompressible", row, column);
    assert!(stored(0) < 50.0 && stored(4) > 100.0, "{} and {}", stored(0), stored(4));
    let hits = |row| figure(&report, "slimcache-hit-ratio", row, "hits, %");
    assert!(hits(9) > hits(11), "a flash of an eighth of the data: {} {}", hits(9), hits(11));
    assert!(figure(&report, "slimcache-database", 0, "requests / s") > 0.0);
    assert_eq!(rows(&report, "slimcache-adaptation").len(), 40);
    for row in rows(&report, "slimcache-writes") {
        assert_eq!(row["KiB each"]["value"], 64.0, "a write is a segment: {row:?}");
    }
}

#[test]
fn cavast() {
    let report = report("cavast", &[]);
    let bytes = |row| figure(&report, "cavast-index-bytes", row, "bytes / item, average");
    assert!(bytes(0) < bytes(1) && bytes(0) < bytes(2), "cuckoo, tree, list");
    // With six items a bucket: chains, lists, trees.
    let lines = |row| figure(&report, "cavast-lines", row, "its lines");
    assert!(lines(9) < 0.5 * lines(3) && lines(15) < 0.5 * lines(3));
    // Without valgrind there is nothing to compare it with.
    if report.to_string().contains("\"cavast-cachegrind\"") {
        for row in 0..3 {
            let differ = figure(&report, "cavast-cachegrind", row, "differ by, % of reads");
            assert!(differ.abs() < 1.0, "the model is valgrind's: {differ}");
        }
    }
    let upkeep = |row| figure(&report, "cavast-expiry", row, "upkeep, lines");
    assert!(upkeep(4) < 0.5 * upkeep(2), "passes go by four bits, not by headers");
    assert!(figure(&report, "cavast-repartition", 0, "M lookups / CPU s") > 0.0);
}

#[test]
fn gd_wheel() {
    let trace = "make --keys 20000 --requests 100000 --skew 0.9";
    let report = report("gd-wheel", &["--rounds", "2", "--trace", trace]);
    let saved = |table, row, column| figure(&report, table, row, column);
    // Ten configurations, the average and the highest.
    assert_eq!(rows(&report, "gd-wheel-single-saved").len(), 12);
    assert!(saved("gd-wheel-single-saved", 0, "gd-wheel") > 50.0);
    assert_eq!(saved("gd-wheel-single-saved", 9, "gd-wheel"), 0.0);
    assert!(saved("gd-wheel-multiple-saved", 0, "larder, cost-clock") > 20.0);
    assert_eq!(rows(&report, "gd-wheel-sizes-of-cache").len(), 18);
    assert_eq!(rows(&report, "gd-wheel-throughput").len() % 2, 0);
    assert!(saved("gd-wheel-false-costs", 0, "others' hits, %") > 50.0);
    assert!(saved("gd-wheel-partial-saved", 5, "gd-wheel").abs() < 0.01, "nothing is known");
    assert!(!rows(&report, "gd-wheel-trace").is_empty());
}

#[test]
fn zexpander() {
    let report = report("zexpander", &["--rounds", "2"]);
    // Single items, and 16 KiB of them at a time.
    let ratio = |row, method| figure(&report, "zexpander-ratio", row, method);
    assert!(ratio(5, "LZ4") > 1.5 * ratio(0, "LZ4"));
    assert!(ratio(0, "zstd, dictionary") > 1.5 * ratio(0, "zstd"));
    assert!(figure(&report, "zexpander-memory-kept", 1, "of them compressed") > 1_000.0);
    // memcached's model comes before the hot zone alone and both zones.
    let misses = |row| figure(&report, "zexpander-misses", row, "misses, %");
    assert!(misses(2) < 0.8 * misses(1), "{} beside {}", misses(2), misses(1));
    let compressed = "reads served compressed, %";
    assert!(figure(&report, "zexpander-throughput", 1, compressed) > 1.0);
    assert!(figure(&report, "zexpander-latency", 4, "median, us") > 0.0);
    assert!(figure(&report, "zexpander-filters", 1, "frames decoded") < 0.5);
    assert_eq!(rows(&report, "zexpander-adaptation").len(), 18);
    assert!(figure(&report, "zexpander-threshold", 1, "items") > 1_000.0);
    // Each workload has the hot zone alone, both rules, and memcached's model.
    assert_eq!(rows(&report, "zexpander-split-rules").len(), 16);
    assert!(figure(&report, "zexpander-split-rules", 15, "misses, %") > 1.0);
}
