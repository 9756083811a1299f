//! What the tests of `larder-bench` from end to end share: where the program is, and what its
//! reports say, read as its users' programs read them.
//!
//! They are a package of their own because for tests beside it cargo would build the program once
//! more, as slow as all that is built for tests. It is large, and works hard in most of them.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The program under test: what `LARDER_BENCH` names, or else the release build beside the folder
/// that this test was built into.
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

/// The rows of the table with this name, each as what its columns hold.
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
