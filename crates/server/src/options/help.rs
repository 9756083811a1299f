//! What `--help`, `--version` and `--license` print.

use std::fmt::Write;

use super::declare::DECLARATIONS;
use super::kind::{Declaration, Kind};

/// Where the explanation of an option begins.
const REASON_COLUMN: usize = 34;

/// Lines are at most this long.
const LINE_COLUMNS: usize = 100;

/// The version, as `--version` prints it.
pub fn version() -> String {
    format!("larder {}\n", env!("CARGO_PKG_VERSION"))
}

/// The licence, in a sentence.
pub fn license() -> String {
    "Larder is licensed under the Apache License, Version 2.0.\n".to_owned()
}

/// One line or more for every option.
pub fn help() -> String {
    let mut text = version();
    text.push_str("A cache server that speaks memcached's protocols.\n\n");
    text.push_str("larder [OPTION]...             serves\n");
    text.push_str(
        "larder top [ADDRESS] [--once]  shows how a server with --admin-port is doing\n\n",
    );
    for declaration in DECLARATIONS {
        describe(&mut text, declaration);
    }
    text
}

/// The option's names on the left, its reason, range and default on the right.
fn describe(text: &mut String, declaration: &Declaration) {
    let mut names = match declaration.short {
        Some(letter) => format!("-{letter}, --{}", declaration.long),
        None => format!("    --{}", declaration.long),
    };
    let mut reason = declaration.reason.to_owned();
    match declaration.kind {
        Kind::Number { unit, min, max, .. } => {
            let _ = write!(names, " N");
            let _ = write!(reason, " In {unit}, {min} to {max}.");
        }
        Kind::Text { unit, .. } | Kind::List { unit, .. } | Kind::Missing { unit: Some(unit) } => {
            let _ = write!(names, " {unit}");
        }
        _ => {}
    }
    if let Some(default) = declaration.default {
        let _ = write!(reason, " Default {default}.");
    }
    if matches!(declaration.kind, Kind::Missing { .. }) {
        reason.push_str(" (Not there yet.)");
    }
    let mut line = format!("{names:<REASON_COLUMN$}");
    if names.len() >= REASON_COLUMN {
        line = format!("{names}\n{:REASON_COLUMN$}", "");
    }
    let mut column = REASON_COLUMN;
    for word in reason.split(' ') {
        if column + word.len() + 1 > LINE_COLUMNS {
            let _ = write!(line, "\n{:REASON_COLUMN$}", "");
            column = REASON_COLUMN;
        }
        let _ = write!(line, "{word} ");
        column += word.len() + 1;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}
