//! The output of `--help`, `--version` and `--license`.

use std::fmt::Write;

use super::groups::GROUPS;
use super::kind::{Declaration, Kind};
use super::settings::find;

/// Column where the explanation of an option begins.
const REASON_COLUMN: usize = 34;

/// Maximum length of a line.
const LINE_COLUMNS: usize = 100;

/// What the program is, and how it is started.
const OPENING: &str = "\
A cache server for the memcached protocols and, with --redis-port, the Redis protocol.

larder [OPTION]...                                  run the server
larder top [ADDRESS] [--once]                       monitor a server that has an --admin-port
larder top https://ADDRESS --ca-file FILE [--once]  the same if that port uses TLS
";

/// Returns the version, as `--version` prints it.
pub fn version() -> String {
    format!("larder {}\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the licence, in a sentence.
pub fn license() -> String {
    "Larder is licensed under the Apache License, Version 2.0.\n".to_owned()
}

/// Returns the help: every option, by group.
pub fn help() -> String {
    let mut text = version();
    text.push_str(OPENING);
    for group in GROUPS {
        let _ = writeln!(text, "\n{}", group.title);
        for declaration in group.longs.iter().filter_map(|long| find(long)) {
            describe(&mut text, declaration);
        }
    }
    text
}

/// Writes the option's names on the left, and its reason, range and default on the right.
fn describe(text: &mut String, declaration: &Declaration) {
    let mut names = match declaration.short {
        Some(letter) => format!("-{letter}, --{}", declaration.long),
        None => format!("    --{}", declaration.long),
    };
    let mut reason = declaration.reason.to_owned();
    if let Some(value) = value(declaration) {
        let _ = write!(names, " {value}");
    }
    match declaration.kind {
        Kind::Number { min, max, .. } if min == max => {
            let _ = write!(reason, " Takes only {min}.");
        }
        Kind::Number { unit, min, max, .. } => {
            let _ = write!(reason, " Takes {unit} from {min} to {max}.");
        }
        _ => {}
    }
    if let Some(default) = declaration.default {
        let _ = write!(reason, " Default {default}.");
    }
    if matches!(declaration.kind, Kind::Missing { .. }) {
        reason.push_str(" (Not implemented yet.)");
    }
    let mut line = format!("{names:<REASON_COLUMN$}");
    if names.len() >= REASON_COLUMN {
        line = format!("{names}\n{:REASON_COLUMN$}", "");
    }
    let mut column = REASON_COLUMN;
    for (number, word) in reason.split(' ').enumerate() {
        if number > 0 && column + 1 + word.len() > LINE_COLUMNS {
            let _ = write!(line, "\n{:REASON_COLUMN$}", "");
            column = REASON_COLUMN;
        } else if number > 0 {
            line.push(' ');
            column += 1;
        }
        line.push_str(word);
        column += word.len();
    }
    text.push_str(&line);
    text.push('\n');
}

/// Returns the placeholder of the value, if the option takes one.
fn value(declaration: &Declaration) -> Option<&'static str> {
    match declaration.kind {
        Kind::Number { .. } => Some("N"),
        Kind::Text { unit, .. } | Kind::List { unit, .. } => Some(unit),
        Kind::Missing { unit } => unit,
        Kind::Alias(other) => find(other).and_then(value),
        Kind::Switch(_) | Kind::Count(_) | Kind::Print(_) | Kind::Act(_) => None,
    }
}
