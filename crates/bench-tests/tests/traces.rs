//! The simulations from end to end: LRU on published traces, where they are installed, against an
//! independent count, and bad input.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use larder_bench_tests::program;

fn bench(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().expect("the program can be run")
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the target folder can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is plain")
}

/// Writes a trace of `requests` over `objects`, in rounds.
fn trace(name: &str, requests: u32, objects: u32) -> PathBuf {
    let bytes: Vec<u8> =
        (0..requests).flat_map(|request| (request % objects).to_le_bytes()).collect();
    file(name, &zstd::encode_all(&bytes[..], 1).expect("memory is enough"))
}

/// Returns a fact of a report.
fn fact(json: &Path, name: &str) -> String {
    let report = std::fs::read_to_string(json).expect("the report was written");
    let report: serde_json::Value = serde_json::from_str(&report).expect("the report is JSON");
    let facts = report["facts"].as_array().expect("facts");
    let fact = facts.iter().find(|fact| fact[0] == name).expect("the fact is told");
    fact[1].as_str().expect("words").to_owned()
}

/// Writes records of these lengths.
fn records(name: &str, lengths: &[u32]) -> PathBuf {
    let record = |bytes: &u32| [&bytes.to_le_bytes()[..], &vec![b'x'; *bytes as usize]].concat();
    file(name, &lengths.iter().flat_map(record).collect::<Vec<u8>>())
}

/// Returns a report's table of figures, without the names of rows.
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
    // Each percentage is rounded separately.
    let is_whole = |row: &Vec<f64>| (row[1] + row[2] - 100.0).abs() < 1e-9;
    assert!(rows.iter().all(|row| row[0] == 16.0 && is_whole(row)), "{rows:?}");
}

#[test]
fn copies_are_objects_of_their_own_with_records_of_their_own() {
    let trace = trace("copied.u32.zst", 10_000, 2);
    let values = records("copied.rec", &[10, 20, 30]);
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("copies.json");
    let mrc = |options: &[&str]| {
        let always = ["mrc", text(&trace), "--policies", "lru", "--json", text(&json)];
        let output = bench(&[&always[..], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        figures(&json, 0)[0].clone()
    };
    // Copies go round together: a cache with room for all but one of them never hits.
    assert_eq!(mrc(&["--copies", "3", "--objects", "5,6"]), [100.0, 100.0 * 6.0 / 30_000.0]);
    assert_eq!((fact(&json, "requests"), fact(&json, "objects")), ("30000".into(), "6".into()));
    assert_eq!(mrc(&["--objects", "1,2"]), [100.0, 100.0 * 2.0 / 10_000.0]);
    // Keys of 14 bytes and each record twice, or the first two of them once.
    for (copies, bytes) in [("3", 6 * 14 + 120), ("1", 2 * 14 + 30)] {
        let values = ["--values", text(&values), "--memory", "50%,100%"];
        let misses = mrc(&[&["--copies", copies][..], &values].concat());
        assert_eq!(misses[0], 100.0, "half of the data's bytes is less than the loop");
        let data = fact(&json, "data");
        assert!(data.starts_with(&format!("{bytes} bytes")), "{data}");
    }
}

#[test]
fn copies_are_replayed_in_the_engine_with_every_value_compared() {
    let trace = trace("replayed.u32.zst", 5_000, 100);
    let values = records("replayed.rec", &[10, 2000, 300, 0, 77]);
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replayed.json");
    let options = ["--memory", "16", "--threads", "1,2", "--copies", "7"];
    let values = ["--values", text(&values), "--json", text(&json)];
    let output = bench(&[&["replay", text(&trace)][..], &values, &options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for row in &figures(&json, 0)[..5] {
        assert_eq!(row[3], 700.0, "each copy of each object is missed once: {row:?}");
    }
}

#[test]
fn memory_is_a_share_of_the_data_and_misses_stand_beside_memcacheds() {
    let trace = trace("shares.u32.zst", 60_000, 20_000);
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shares.json");
    let models = "memcached,arc,lirs,w-tinylfu,s3-fifo,sieve,belady";
    let options = ["--memory", "50%", "--value-bytes", "1986", "--policies", models];
    let output = bench(&[&["replay", text(&trace), "--json", text(&json)][..], &options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fact(&json, "data").starts_with("40000000 bytes (38.1 MiB): keys and values"));
    let rows = figures(&json, 0);
    assert_eq!(rows.len(), 10, "the engine, its twin, seven models and the bound");
    let memcached = &rows[2];
    for row in &rows {
        let beside = 100.0 * (row[3] / memcached[3] - 1.0);
        assert!((row[0] - 20_000_000.0 / 1048576.0).abs() < 1e-6, "{row:?}");
        assert!((row[4] - beside).abs() < 1e-6, "{row:?} beside {memcached:?}");
        assert!((row[5] - 50.0).abs() < 1e-6, "{row:?}");
    }
    // LRU never hits in a loop that does not fit; others do.
    assert_eq!((memcached[1], memcached[4]), (0.0, 0.0));
    assert!(rows[8][4] < -30.0, "what knows the future: {rows:?}");
    let without = ["--memory", "50%", "--value-bytes", "1986", "--policies", "lru"];
    let output = bench(&[&["replay", text(&trace), "--json", text(&json)][..], &without].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(figures(&json, 0)[0][4], 50.0, "nothing beside what is not there");
}

#[test]
fn an_engine_is_told_whether_it_may_compress() {
    let trace = trace("compressed.u32.zst", 3_000, 1_000);
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compressed.json");
    let replay = |list: &str| {
        let options = ["--memory", "16", "--value-bytes", "500", "--engine-compressed", list];
        bench(&[&["replay", text(&trace), "--json", text(&json)][..], &options].concat())
    };
    let output = replay("off,auto");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["| larder, compressed off ", "| larder, compressed auto "] {
        assert!(String::from_utf8_lossy(&output.stdout).contains(name), "{name}");
    }
    assert_eq!(replay("on").status.code(), Some(2));
}

#[test]
fn bad_input_is_named() {
    let good = trace("good.u32.zst", 10, 5);
    let empty = file("empty.u32.zst", &zstd::encode_all(&b""[..], 1).expect("memory is enough"));
    let bytes = std::fs::read(&good).expect("written above");
    let cut = file("cut.u32.zst", &bytes[..bytes.len() - 5]);
    let huge = ["replay", text(&good), "--value-bytes", "10", "--memory", "1000000000"];
    let cases: [(&[&str], i32, &str); 11] = [
        (&["mrc", text(&good), "--copies", "0"], 2, "0 is not in 1..=10000"),
        (&["replay", text(&good), "--copies", "10001"], 2, "10001 is not in 1..=10000"),
        (&["compare", "trace", text(&good), "--copies", "x"], 2, "invalid digit"),
        (&["compare", "trace", text(&good), "-m", "0%"], 2, "is not above zero"),
        (&["replay", text(&good), "--memory", "5%..10"], 2, "from a percentage"),
        (&["mrc", "no/such/trace"], 4, "no/such/trace"),
        (&["mrc", text(&empty)], 5, "holds no requests"),
        (&["mrc", text(&cut)], 5, "damaged or cut off"),
        (&["mrc", text(&good), "--memory", "1"], 2, "no sizes"),
        (&["replay", text(&good)], 2, "no sizes"),
        (&huge, 2, "the machine has"),
    ];
    for (arguments, code, expected) in cases {
        let output = bench(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}
