//! Checks the tables, the page generated from them, and that the deployed files query existing
//! metrics.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::*;

/// The beginning of the page about metrics.
const OPENING: &str = "\
# Metrics

The metrics at `/metrics` of the admin port, made from the tables of
`crates/server/src/admin/metrics.rs` by the test `the_page_about_metrics_is_what_the_tables_say`,
which rewrites the page if `LARDER_WRITE_DOCS` is set. Metrics of a tier that the server does not
have are left out. Counters start at 0 with the server. `stats reset` sets those of stores and
evictions with their costs, expiries, memory refusals, slab moves, moves of hot items, costs of
misses, namespaces and connections to 0 again, but not those of the compressed zone or of flash
alone.
";

/// Returns the path of a file of the repository.
fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Generates the page from the tables.
fn page() -> String {
    let mut text = OPENING.to_owned();
    let headings =
        [("memcached_", "Metrics named as in memcached_exporter"), ("larder_", "Larder's own")];
    for (beginning, heading) in headings {
        let _ = writeln!(text, "\n## {heading}\n\n| name | kind | labels | meaning |");
        let _ = writeln!(text, "| --- | --- | --- | --- |");
        for metric in all().filter(|metric| metric.name.starts_with(beginning)) {
            let Metric { name, kind, labels, help, .. } = metric;
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let (kind, labels) = (kind.name(), labels.join(", "));
            let _ = writeln!(text, "| `{name}` | {kind} | {labels} | {help} |");
        }
    }
    text
}

#[test]
fn the_page_about_metrics_is_what_the_tables_say() {
    let path = repository("docs/metrics.md");
    if std::env::var_os("LARDER_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the page is there");
    assert!(written == page(), "docs/metrics.md is old: set LARDER_WRITE_DOCS and run this again");
}

/// Counters of memcached_exporter that do not follow its naming convention.
const MISNAMED_COUNTERS: [&str; 3] = [
    "memcached_uptime_seconds",
    "memcached_slab_mem_requested_bytes",
    "memcached_extstore_bytes_used",
];

#[test]
fn every_metric_has_a_name_of_its_own_and_a_sentence() {
    let mut names = BTreeSet::new();
    for Metric { name, kind, labels, help, .. } in all() {
        assert!(names.insert(*name), "{name} is there twice");
        let is_ours = name.starts_with("larder_") || name.starts_with("memcached_");
        assert!(is_ours && name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'), "{name}");
        let is_total = name.ends_with("_total") || MISNAMED_COUNTERS.contains(name);
        assert_eq!(*kind == Kind::Counter, is_total, "{name}");
        assert!(help.ends_with('.') && !help.contains(['\\', '\n', '|']), "{name}: {help}");
        assert!(labels.iter().all(|label| *label != "le"), "{name}");
    }
    assert!(names.len() > 60, "{} metrics", names.len());
}

#[test]
fn labels_are_escaped() {
    let value = "a\\b\"c\nd".to_owned();
    assert_eq!(pairs(&["one", "two"], &[value, String::new()]), r#"one="a\\b\"c\nd",two="""#);
}

/// Returns the words of `text` that look like names of metrics.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let is_metric = |word: &&str| word.starts_with("larder_") || word.starts_with("memcached_");
    words.filter(is_metric).collect()
}

#[test]
fn deployed_files_name_existing_metrics() {
    let mut known = BTreeSet::new();
    for metric in all() {
        known.insert(metric.name.to_owned());
        if metric.kind == Kind::Histogram {
            known.extend(["bucket", "sum", "count"].map(|end| format!("{}_{end}", metric.name)));
        }
    }
    let mut asked = 0;
    for path in ["deploy/grafana/larder.json", "deploy/prometheus/alerts.yml"] {
        let text = std::fs::read_to_string(repository(path)).expect("it is there");
        for name in named(&text) {
            assert!(known.contains(name), "{path} names {name}, which there is not");
            asked += 1;
        }
    }
    assert!(asked > 25, "only {asked} metrics are asked for");
    let board = std::fs::read_to_string(repository("deploy/grafana/larder.json"));
    let board: serde_json::Value =
        serde_json::from_str(&board.expect("it is there")).expect("it is JSON");
    let panels = board["panels"].as_array().expect("it has panels");
    for target in panels
        .iter()
        .filter(|it| it["type"] != "row")
        .flat_map(|panel| panel["targets"].as_array().expect("a panel has queries"))
    {
        let query = target["expr"].as_str().expect("a query is text");
        assert!(!named(query).is_empty(), "{query} asks for nothing of ours");
    }
}
