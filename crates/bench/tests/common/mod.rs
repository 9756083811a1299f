//! What a report says, read as its users' programs read it.

use std::collections::BTreeMap;

use serde_json::Value;

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
