//! The rules of style that a program can check, over every tracked file.
//!
//! `source` scans a Rust file into code and comments, `rules` checks one such file, `maps` the
//! opening of a crate, `pages` and `members` a page of text, and `workspace` what lies between
//! files. A finding is one line of text: the place, and what to do instead. Errors fail the chore,
//! warnings do not.

mod maps;
mod members;
mod pages;
mod rules;
mod source;
mod workspace;

use std::path::Path;
use std::time::Duration;

use members::Members;

use crate::Result;
use crate::command::Run;

/// What the checks found.
#[derive(Default)]
pub struct Findings {
    /// What has to change.
    pub errors: Vec<String>,
    /// What is worth a thought.
    pub warnings: Vec<String>,
    /// How many files were read.
    pub files: usize,
}

impl Findings {
    fn error(&mut self, path: &str, line: usize, message: &str) {
        self.errors.push(format!("{path}:{line}: {message}"));
    }

    fn warn(&mut self, path: &str, line: usize, message: &str) {
        self.warnings.push(format!("{path}:{line}: {message}"));
    }
}

/// Checks every file that git tracks or would track, below `root`.
pub fn repository(root: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    let (mut members, mut texts) = (Members::default(), Vec::new());
    let listed = Run::new("git ls-files --cached --others --exclude-standard")
        .capture(Duration::from_secs(30))?;
    for path in listed.lines() {
        // A path may be deleted in the work tree, and a file may hold something else than text.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        findings.files += 1;
        check(root, path, &text, &mut findings);
        if is_page(path) {
            texts.push((path, text));
        } else if path.ends_with(".rs") && path.starts_with("crates/") {
            members.collect(&source::Source::new(path, &text));
        }
    }
    for (path, text) in &texts {
        members.check(path, text, &mut findings);
    }
    Ok(findings)
}

/// Whether a file is a page about the project.
fn is_page(path: &str) -> bool {
    path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'))
}

fn check(root: &Path, path: &str, text: &str, findings: &mut Findings) {
    workspace::machine_paths(path, text, findings);
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", room, "Cargo.toml"] => workspace::arrows(room, text, findings),
        ["crates", room, "src", "lib.rs" | "main.rs"] => {
            workspace::forbids_unsafe(room, path, text, findings);
        }
        ["crates", room, "tests", file] | ["crates", room, "tests", file, "main.rs"] => {
            // A crate without the file has no such program.
            let read = |file: &str| {
                std::fs::read_to_string(root.join("crates").join(room).join(file))
                    .unwrap_or_default()
            };
            let name = file.trim_end_matches(".rs");
            workspace::is_run(path, name, &read("Cargo.toml"), &read("tests/suite.rs"), findings);
        }
        _ => {}
    }
    if is_page(path) {
        workspace::named_paths(root, path, text, findings);
        pages::lengths(path, text, findings);
    }
    if path.ends_with(".rs") && parts[0] == "crates" {
        let source = source::Source::new(path, text);
        rules::file(&source, findings);
        if let ["crates", _, "src", "lib.rs" | "main.rs"] = parts.as_slice() {
            maps::modules(&source, findings);
        }
    }
}
