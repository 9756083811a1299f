//! The commands from end to end, with memcached in Larder's place, where the peers are installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use larder_bench_tests::{program, rows};
use serde_json::Value;

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn bench(arguments: &[&str]) -> Output {
    let client_core =
        std::thread::available_parallelism().map_or(0, |cores| cores.get().min(2) - 1).to_string();
    // It takes the available cores.
    let cores =
        if arguments[0] == "scaling" { vec![] } else { vec!["--client-core", &client_core] };
    Command::new(program()).args(arguments).args(cores).output().expect("the program can be run")
}

fn report_of(arguments: &[&str], name: &str) -> Option<Value> {
    let (Some(memcached), Some(_)) = (installed("memcached"), installed("redis-server")) else {
        eprintln!("memcached or redis-server is not installed: nothing to compare with");
        return None;
    };
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let json_text = json.to_str().expect("the target folder has a plain name");
    let memcached = memcached.to_str().expect("the binary has a plain name");
    let quick = if arguments.contains(&"restart") { &[][..] } else { &["--quick"] };
    let peer = ["--larder", memcached, "--larder-args", "-u root", "--json", json_text];
    let output = bench(&[arguments, quick, &peer].concat());
    // memcached strands memory when sizes shift, which `rss` has to find: exit code 1.
    let found =
        output.status.success() || (arguments == ["rss"] && output.status.code() == Some(1));
    assert!(found, "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&json).expect("the report was written");
    Some(serde_json::from_str(&text).expect("the report is JSON"))
}

#[test]
fn compare_measures_every_server_and_finds_every_key() {
    let Some(report) = report_of(&["compare"], "compare.json") else {
        return;
    };
    let found = rows(&report, "rows");
    assert_eq!(
        found.len(),
        19,
        "five workloads on four servers, but no multiget on the null server"
    );
    for row in found {
        let cpu = &row["server CPU s / M keys"]["spread"]["median"];
        assert!(cpu.as_f64() > Some(0.0), "{row:?}");
        let hits = &row["hits, percent"];
        assert!(hits.is_null() || hits["value"] == 100.0, "{row:?}");
    }
    let ratios = rows(&report, "ratios");
    assert_eq!(ratios.len(), 6);
    for ratio in ratios.iter().filter(|ratio| !ratio["target"].is_null()) {
        assert_eq!(ratio["met"], "not tested: other options", "{ratio:?}");
    }
}

#[test]
fn a_workload_goes_to_every_server_and_evicts() {
    let made = "make --keys 40000 --requests 200000 --sizes fixed:400 --get-share 0.9";
    let Some(report) = report_of(&["compare", "trace", made, "-m", "8"], "trace.json") else {
        return;
    };
    let found = rows(&report, "hits");
    assert_eq!(found.len(), 3);
    for row in &found {
        let median = |name: &str| row[name]["spread"]["median"].as_f64();
        assert!(median("hits, percent") > Some(40.0) && median("hits, percent") < Some(95.0));
        for name in ["items", "evicted", "resident bytes for each item"] {
            assert!(row[name]["value"].as_f64() > Some(400.0), "{name}: {row:?}");
        }
        assert_eq!(row["refused"]["value"], 0.0, "{row:?}");
    }
    // The servers get the same requests; they differ in the items they keep.
    let gets = |row: &BTreeMap<String, Value>| row["gets"]["value"].as_f64();
    let rounds = rows(&report, "rounds");
    assert!(rounds.len() == 3 && rounds.iter().all(|row| gets(row) == gets(&rounds[0])));
}

#[test]
fn copies_go_to_every_server_in_a_share_of_their_bytes() {
    let made = "make --keys 20000 --requests 100000 --sizes fixed:400";
    let options = ["--memory", "40%", "--copies", "2", "--key-bytes", "24"];
    let arguments = [&["compare", "trace", made][..], &options].concat();
    let Some(report) = report_of(&arguments, "compared-copies.json") else {
        return;
    };
    let facts = report["facts"].as_array().expect("facts");
    let fact = |name: &str| {
        let fact = facts.iter().find(|fact| fact[0] == name).expect("it is told");
        fact[1].as_str().expect("words").to_owned()
    };
    assert_eq!(fact("requests"), "200000");
    let objects: u64 = fact("objects").parse().expect("a number");
    assert!(objects > 20_000 && objects.is_multiple_of(2), "{objects}");
    assert!(fact("data").starts_with(&format!("{} bytes", objects * 424)), "{}", fact("data"));
    let limit_mb = (objects as f64 * 424.0 * 0.4 / 1048576.0).round();
    let found = rows(&report, "hits");
    let misses = |row: &BTreeMap<String, Value>| row["misses, percent"]["value"].as_f64();
    for row in &found {
        assert_eq!(row["limit MiB"]["value"].as_f64(), Some(limit_mb), "{row:?}");
        let share = row["memory, percent of the data"]["value"].as_f64().expect("a share");
        assert!((35.0..45.0).contains(&share), "{row:?}");
        let beside = row["misses beside memcached's, percent"]["value"].as_f64();
        let expected = misses(row).zip(misses(&found[1])).map(|(own, its)| own / its - 1.0);
        assert!((beside.expect("a share") - 100.0 * expected.expect("misses")).abs() < 1e-6);
    }
}

#[test]
fn scaling_sends_every_load_to_every_server_with_each_number_of_threads() {
    let arguments = ["scaling", "--loads", "get", "evict-set", "hot", "--threads", "2,1"];
    let Some(report) = report_of(&arguments, "scaling.json") else {
        return;
    };
    for (load, hits) in [("get", Some(100.0)), ("evict-set", None), ("hot", Some(100.0))] {
        let found = rows(&report, load);
        let place = |row: &BTreeMap<String, Value>| {
            (row["server"].as_str().map(str::to_owned), row["threads"]["value"].as_f64())
        };
        let places: Vec<_> = found.iter().map(place).collect();
        let wanted = [("larder", 1.0), ("larder", 2.0), ("memcached", 1.0), ("memcached", 2.0)];
        assert_eq!(places, wanted.map(|(server, threads)| (Some(server.into()), Some(threads))));
        for row in &found {
            assert_eq!(row["hits, percent"]["value"].as_f64(), hits, "{load}: {row:?}");
            for name in ["M requests/s", "server CPU us / request", "p99 us"] {
                assert!(row[name]["spread"]["median"].as_f64() > Some(0.0), "{load}: {row:?}");
            }
        }
    }
    // More threads get more requests, all servers the same; items that do not fit are evicted.
    let rounds = rows(&report, "rounds");
    let counts = |name: &str, load: &str| -> Vec<Option<f64>> {
        let rows = rounds.iter().filter(|row| row["load"] == load);
        rows.map(|row| row[name]["value"].as_f64()).collect()
    };
    let requests = counts("requests", "hot");
    assert!(requests[0] == requests[1] && requests[1] < requests[2], "{requests:?}");
    assert!(counts("evicted", "evict-set").iter().all(|evicted| *evicted > Some(0.0)));
    assert!(counts("evicted", "get").iter().all(|evicted| *evicted == Some(0.0)));
}

#[test]
fn scaling_is_refused_with_a_line_where_it_cannot_be_measured() {
    let cases: [(&[&str], &str); 3] = [
        (&["--servers", "null"], "null cannot be told its threads"),
        (&["--threads", "0"], "--threads"),
        (&["--threads", "65"], "--threads"),
    ];
    for (arguments, expected) in cases {
        let output = bench(&[&["scaling"], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn density_fills_every_server() {
    let Some(report) = report_of(&["density", "--sizes", "30+270"], "density.json") else {
        return;
    };
    for row in rows(&report, "density") {
        let per_gib = row["M items / GiB"]["value"].as_f64().expect("a number");
        assert!((1.0..3.6).contains(&per_gib), "{row:?}");
    }
}

/// Writes a file of records, each a line of words that a compressor finds again.
fn records(name: &str) -> PathBuf {
    let record = |number: u32| {
        let text = format!("{{\"number\":{number},\"colour\":\"green\",\"shape\":\"round\"}}");
        [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
    };
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let bytes: Vec<u8> = (0..500).flat_map(record).collect();
    std::fs::write(&path, bytes).expect("the target folder can be written to");
    path
}

#[test]
fn density_under_a_load_counts_what_every_server_keeps() {
    let path = records("load.rec");
    let values = format!("{},made:incompressible", path.display());
    let load = ["--zipf", "0.9", "--rounds", "2", "--key-space", "4", "--requests", "300000"];
    let arguments = [&["density", "--values", &values][..], &load].concat();
    let Some(report) = report_of(&arguments, "density-load.json") else {
        return;
    };
    let found = rows(&report, "density");
    assert_eq!(found.len(), 6, "two kinds of values on three servers");
    for row in &found {
        let value = |name: &str| row[name]["value"].as_f64().expect("a number");
        assert!(value("items") > 10_000.0, "{row:?}");
        assert!((5.0..80.0).contains(&value("misses, percent")), "{row:?}");
        let per_gib = row["M items / GiB"]["spread"]["median"].as_f64().expect("a number");
        let bytes = value("resident bytes for each item");
        assert!((per_gib * 1e6 * bytes / (1u64 << 30) as f64 - 1.0).abs() < 0.05, "{row:?}");
        if row["server"] == "memcached" {
            assert_eq!(row["x memcached"]["spread"]["median"], 1.0, "{row:?}");
        }
    }
    let bytes = |row: usize| found[row]["resident bytes for each item"]["value"].as_f64();
    assert!(bytes(1) < bytes(4), "records are shorter than values of 300 bytes");
    // Every server gets the same requests, and another round has another load.
    let rounds = rows(&report, "rounds");
    assert_eq!(rounds.len(), 12);
    assert!(rounds.iter().all(|row| row["gets"]["value"] == 60_000.0));
    assert_ne!(rounds[0]["misses"], rounds[6]["misses"]);
}

#[test]
fn a_load_for_density_is_refused_with_a_line() {
    let cases: [(&[&str], &str); 8] = [
        (&["--zipf", "0.9"], "--values"),
        (&["--values", "random", "--zipf", "11"], "an exponent is at least 0"),
        (&["--values", "random", "--key-space", "0"], "above 0 and at most 1000"),
        (&["--values", "random", "--sizes", "16+32"], "cannot be used with"),
        (&["--values", "made:9"], "1, which is incompressible, and 8"),
        (&["--values", "random", "--rate", "0"], "at least 0.001"),
        (&["--values", "random,random", "--servers", "memcached"], "names random twice"),
        (&["--values", "random", "-m", "100000000", "--servers", "memcached"], "1 to 2147483648"),
    ];
    for (arguments, expected) in cases {
        let needs_memcached = arguments.contains(&"memcached");
        if needs_memcached && installed("memcached").is_none() {
            continue;
        }
        let output = bench(&[&["density"], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn further_arguments_reach_larder_in_every_comparison() {
    let made = "make --keys 100 --requests 1000";
    let commands: [&[&str]; 3] =
        [&["density"], &["density", "--values", "random"], &["compare", "trace", made]];
    for command in commands {
        let servers = ["--quick", "--servers", "larder", "--larder", "/bin/ls"];
        let arguments = ["--larder-args", "--no-such-option -x"];
        let output = bench(&[command, &servers, &arguments].concat());
        assert_eq!(output.status.code(), Some(4));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("-t 1 --no-such-option -x` ended at once"), "{message}");
    }
}

#[test]
fn extstore_is_filled_and_goes_through_every_part_of_the_load() {
    let dir = env!("CARGO_TARGET_TMPDIR");
    let arguments = ["flash", "beside", "--servers", "memcached", "--dir", dir];
    let more = ["--fill-rate", "60000", "--flash-mb", "16", "--rate", "10000"];
    let Some(report) = report_of(&[&arguments[..], &more].concat(), "flash-beside.json") else {
        return;
    };
    let held = rows(&report, "held");
    let value = |name: &str| {
        let cell = &held[0][name];
        cell["value"].as_f64().or(cell["spread"]["median"].as_f64()).expect("a number")
    };
    assert!(held.len() == 1 && value("on flash after the fill") > 1000.0, "{held:?}");
    assert!((1000.0..value("keys")).contains(&value("found at the end")), "{held:?}");
    let chunk = value("memory bytes / item on flash");
    assert!((96.0..150.0).contains(&chunk), "a head, a key and a hash table: {chunk}");
    let loads = rows(&report, "loads");
    assert_eq!(loads.len(), 4, "closed and paced, with and without the page cache");
    for load in &loads {
        assert_eq!(load["gets"]["value"], 10_000.0, "{load:?}");
        assert!(load["flash reads"]["value"].as_f64() > Some(0.0), "{load:?}");
    }
    let writes = &rows(&report, "writes")[0];
    assert!(writes["written MiB, server"]["value"].as_f64() > Some(5.0), "{writes:?}");
    let promises = report["sections"][0]["tables"].as_array().expect("tables");
    assert!(promises.is_empty(), "there is nothing to compare with");
}

#[test]
fn a_flash_tier_that_cannot_be_measured_is_refused_with_a_line() {
    let cases: [(&[&str], &str); 3] = [
        (&["beside", "--servers", "redis"], "only larder and memcached"),
        (&["density", "--key-space", "0"], "above 0 and at most 1000"),
        (&["quiet", "--values", "made:2,made:3", "--larder", "/bin/ls"], "one kind of --values"),
    ];
    for (arguments, expected) in cases {
        let output = bench(&[&["flash"], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

/// Regression: these options changed nothing, and the report did not say so.
#[test]
fn options_that_would_change_nothing_are_refused_with_a_line() {
    let made = "make --keys 100 --requests 1000";
    let cases: [(&[&str], &str); 10] = [
        (&["mrc", made, "--values", "random"], "--memory"),
        (&["mrc", made, "--policies", "lru,lru"], "names lru twice"),
        (&["mrc-live", made, "--present", "10%,50%"], "not one size"),
        (&["trace", "convert", made, "x.csv", "--seed", "9"], "--sizes"),
        (&["load", made, "--depth", "2", "--rate", "9"], "cannot be used with"),
        (&["rss", "--quick", "-m", "64"], "cannot be used with"),
        (&["compare", "--tls", "--servers", "larder,redis"], "redis is not compared over TLS"),
        (&["compare", "--workloads", "get,set,get"], "names get twice"),
        (&["restart", "--redis", "x"], "unexpected argument"),
        (&["flash", "quiet", "--memcached-args", "x"], "unexpected argument"),
    ];
    for (arguments, expected) in cases {
        let output = Command::new(program()).args(arguments).output().expect("it can be run");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn rss_follows_every_fill() {
    let Some(report) = report_of(&["rss"], "rss.json") else {
        return;
    };
    let found = rows(&report, "rss");
    assert_eq!(found.len(), 9, "four fills of a fresh server and five of one");
    for row in found {
        assert!(row["evicted"]["value"].as_f64() > Some(0.0), "{row:?}");
        assert!(!row["recent"].as_str().expect("a share").ends_with("/0"), "{row:?}");
        assert!(row["RSS MiB"]["value"].as_f64() > Some(48.0), "{row:?}");
    }
}

#[test]
fn a_paper_is_reported_in_every_form() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("paper");
    std::fs::create_dir_all(&folder).expect("the target folder can be written to");
    let path = |name: &str| folder.join(name).to_str().expect("a plain name").to_owned();
    let output = Command::new(program())
        .args(["paper", "memc3", "table-1", "figure-6", "--quick"])
        .args(["--json", &path("json"), "--html", &path("html"), "--csv", &path("csv")])
        .output()
        .expect("the program can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("## table-1") && text.contains("not available here"), "{text}");
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("it was written");
    let report: Value = serde_json::from_str(&read("json")).expect("the report is JSON");
    assert_eq!(rows(&report, "memc3-bytes").len(), 4);
    assert_eq!(read("csv/memc3-bytes.csv").lines().count(), 5);
    assert!(read("csv/plot-memc3-moves.csv").contains("\"larder-index, 8 slots, 16 paths\",95,"));
    assert_eq!(read("html").matches("<figure>").count(), 3);
}

#[test]
fn an_experiment_of_another_paper_is_refused() {
    let output = Command::new(program())
        .args(["paper", "gd-wheel", "figure-5"])
        .output()
        .expect("the program can be run");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("gd-wheel has no experiment figure-5"), "{message}");
}

#[test]
fn an_experiment_that_no_paper_has_is_refused() {
    let output = Command::new(program())
        .args(["paper", "memc3", "figure-99"])
        .output()
        .expect("the program can be run");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("figure-99") && message.contains("figure-8"), "{message}");
}

#[test]
fn a_server_that_ends_at_once_is_quoted() {
    let output = bench(&["rss", "--quick", "--larder", "/bin/ls", "--larder-args", "--no-such"]);
    assert_eq!(output.status.code(), Some(4));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("ended at once"), "{message}");
    assert!(message.contains("ls:"), "{message}");
}

#[test]
fn a_missing_binary_is_named_and_has_its_exit_code() {
    for command in ["compare", "density", "rss"] {
        let output = bench(&[command, "--quick", "--larder", "no/such/larder"]);
        assert_eq!(output.status.code(), Some(3));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains("no/such/larder") && message.contains("cargo build"), "{message}");
    }
}

#[test]
fn a_missing_valgrind_is_named_and_has_its_exit_code() {
    let output = bench(&["instructions", "--quick", "--valgrind", "no/such/valgrind"]);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("no/such/valgrind") && message.contains("install"), "{message}");
}

#[test]
fn restart_kills_a_server_and_finds_nothing_without_flash() {
    let arguments = ["--no-flash", "--rounds", "5", "--keys", "2000", "--terminate-every", "2"];
    let more =
        ["--interrupt-every", "3", "--flush-every", "4", "--rate", "0", "--requests", "10000"];
    let Some(report) = report_of(&[&["restart"], &arguments[..], &more].concat(), "restart.json")
    else {
        return;
    };
    let found = rows(&report, "rounds");
    let ends: Vec<_> = found.iter().map(|row| row["end"].as_str().expect("a word")).collect();
    assert_eq!(ends, ["kill", "term", "kill + kill", "term", "kill"]);
    for row in found {
        assert!(row["checked"]["value"].as_f64() > Some(0.0), "{row:?}");
        for zero in ["found", "stale", "wrong"] {
            assert_eq!(row[zero]["value"], 0.0, "{row:?}");
        }
    }
}
