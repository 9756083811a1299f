//! Shared helpers of `larder-bench`'s end-to-end tests: the path of the program, and its reports,
//! read as its users' programs read them.
//!
//! They are a separate package because cargo would otherwise build the program once more for its
//! tests, as slow as all test builds. It is large, and works hard in most of them.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The program under test: the one named by `LARDER_BENCH`, or else the release build beside the
/// folder of this test's build.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("LARDER_BENCH") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("a program knows where it is");
    // It is in target/debug/deps.
    let target = test.ancestors().nth(3).unwrap_or(Path::new("."));
    let program = target.join("release/larder-bench");
    assert!(
        program.is_file(),
        "no {}: build it with `cargo build --release -p larder-server -p larder-bench`, or name \
         another in LARDER_BENCH",
        program.display()
    );
    program
}

/// Returns the rows of the table with this name, each as its columns' contents.
pub fn rows(report: &Value, name: &str) -> Vec<BTreeMap<String, Value>> {
    let sections = report["sections"].as_array().expect("sections");
    let tables = sections.iter().flat_map(|part| part["tables"].as_array().expect("tables"));
    let table = tables.into_iter().find(|table| table["name"] == name).expect("the table");
    let columns = table["columns"].as_array().expect("columns");
    let names = columns.iter().map(|column| column.as_str().expect("a name").to_owned());
    let names: Vec<String> = names.collect();
    let rows = table["rows"].as_array().expect("rows").iter();
    rows.map(|row| {
        let cells = row.as_array().expect("cells").iter().cloned();
        names.iter().cloned().zip(cells).collect()
    })
    .collect()
}
