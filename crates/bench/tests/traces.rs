//! The simulations from end to end: LRU on published traces against an independent count, where the
//! traces are, and bad input.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder-bench"))
        .args(arguments)
        .output()
        .expect("the binary was built for this test")
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the target folder can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is plain")
}

/// A trace of `requests` over `objects`, which go round.
fn trace(name: &str, requests: u32, objects: u32) -> PathBuf {
    let bytes: Vec<u8> =
        (0..requests).flat_map(|request| (request % objects).to_le_bytes()).collect();
    file(name, &zstd::encode_all(&bytes[..], 1).expect("memory is enough"))
}

/// The first table's rows of figures in a report, without their names.
fn figures(json: &Path, table: usize) -> Vec<Vec<f64>> {
    let report = std::fs::read_to_string(json).expect("the report was written");
    let report: serde_json::Value = serde_json::from_str(&report).expect("the report is JSON");
    let rows = report["sections"][0]["tables"][table]["rows"].as_array().expect("rows").clone();
    let figures = |row: &serde_json::Value| {
        let cells = row.as_array().expect("cells").iter();
        cells.filter_map(|cell| cell["value"].as_f64()).collect()
    };
    rows.iter().map(figures).collect()
}

#[test]
fn lru_agrees_with_an_independent_count_on_published_traces() {
    let Some(data) = std::env::var_os("LARDER_DATA") else {
        eprintln!("not run: LARDER_DATA does not name the folder with traces/*.u32.zst");
        return;
    };
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lru.json");
    let counted = [
        ("orm-busy.u32.zst", [77.0, 84.1, 88.0, 92.1]),
        ("arc-oltp.u32.zst", [41.6, 60.1, 66.5, 72.0]),
    ];
    for (name, expected) in counted {
        let trace = Path::new(&data).join("traces").join(name);
        let options = ["--policies", "lru", "--objects", "1%,5%,10%,20%", "--json", text(&json)];
        let output = bench(&[&["mrc", text(&trace)][..], &options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for (found, expected) in figures(&json, 1)[0].iter().zip(expected) {
            assert!((found - expected).abs() < 0.051, "{name}: {found} instead of {expected}");
        }
    }
}

#[test]
fn a_loop_defeats_lru_but_not_the_optimum_and_the_exact_curve_agrees() {
    let trace = trace("loop.u32.zst", 10_000, 100);
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loop.json");
    let options = ["--policies", "lru,belady", "--objects", "50,100", "--curve", "2"];
    let output = bench(&[&["mrc", text(&trace), "--json", text(&json)][..], &options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let misses = figures(&json, 0);
    assert_eq!(misses[0], [100.0, 1.0]);
    assert!((50.0..52.0).contains(&misses[1][0]) && misses[2][0] <= misses[1][0], "{misses:?}");
    assert_eq!(figures(&json, 2), [[100.0], [1.0]]);
}

#[test]
fn a_replay_verifies_values_and_reports_every_cache() {
    let trace = trace("replay.u32.zst", 60_000, 20_000);
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay.json");
    let options = ["--memory", "16", "--value-bytes", "2000", "--threads", "1,2"];
    let output = bench(&[&["replay", text(&trace), "--json", text(&json)][..], &options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = figures(&json, 0);
    assert_eq!(rows.len(), 6, "two numbers of threads, a twin, two models and the bound");
    assert!(rows.iter().all(|row| row[0] == 16.0 && row[1] + row[2] == 100.0), "{rows:?}");
}

#[test]
fn bad_input_is_named() {
    let good = trace("good.u32.zst", 10, 5);
    let empty = file("empty.u32.zst", &zstd::encode_all(&b""[..], 1).expect("memory is enough"));
    let bytes = std::fs::read(&good).expect("written above");
    let cut = file("cut.u32.zst", &bytes[..bytes.len() - 5]);
    let huge = ["replay", text(&good), "--value-bytes", "10", "--memory", "1000000000"];
    let cases: [(&[&str], i32, &str); 6] = [
        (&["mrc", "no/such/trace"], 4, "no/such/trace"),
        (&["mrc", text(&empty)], 5, "holds no requests"),
        (&["mrc", text(&cut)], 5, "damaged or cut off"),
        (&["mrc", text(&good), "--memory", "1"], 4, "no sizes"),
        (&["replay", text(&good)], 4, "no sizes"),
        (&huge, 2, "the machine has"),
    ];
    for (arguments, code, expected) in cases {
        let output = bench(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
