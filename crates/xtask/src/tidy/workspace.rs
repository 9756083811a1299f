//! The checks that look at more than one source file: which room may depend on which, which crate
//! forbids unsafe code, whether the paths that the pages name exist, and whether a tracked file
//! gives away the machine it was written on.

use std::path::Path;

use super::Findings;
use super::rules::{UNSAFE_FILES, UNSAFE_ROOMS};

/// The arrows of the design: a room, and the rooms it may use. They all point down.
const ARROWS: &[(&str, &[&str])] = &[
    ("stdx", &[]),
    ("testing", &[]),
    ("io", &["stdx", "testing"]),
    ("codec", &["policy", "stdx"]),
    ("policy", &["stdx"]),
    ("insight", &["stdx"]),
    ("protocol", &["stdx"]),
    ("memory", &["io", "stdx"]),
    ("index", &["memory", "stdx"]),
    ("hot", &["policy", "codec", "memory", "io", "stdx"]),
    ("compressed", &["policy", "codec", "memory", "io", "stdx"]),
    ("flash", &["policy", "codec", "memory", "io", "stdx"]),
    ("cache", &["hot", "compressed", "flash", "index", "memory", "policy", "codec", "io", "stdx"]),
    ("server", &["protocol", "cache", "insight", "io", "stdx", "testing"]),
    (
        "bench",
        &[
            "cache",
            "compressed",
            "flash",
            "hot",
            "index",
            "insight",
            "memory",
            "policy",
            "codec",
            "protocol",
            "io",
            "stdx",
        ],
    ),
    ("bench-tests", &[]),
    ("xtask", &[]),
];

/// Folders whose paths the pages may name, and which must then exist.
const NAMED: &[&str] = &["crates/", "docs/", "conformance/", "deploy/", "fuzz/"];

/// The dependencies on other rooms that a manifest declares, with their line numbers.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.trim_end_matches(']').ends_with("dependencies");
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name: String =
                line.chars().take_while(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
            let room = match name.as_str() {
                "larder" => "cache",
                other => other.strip_prefix("larder-").unwrap_or(other),
            };
            if ARROWS.iter().any(|(known, _)| *known == room) {
                found.push((index + 1, room.to_string()));
            }
        }
    }
    found
}

/// Checks the arrows out of one room.
pub fn arrows(room: &str, manifest: &str, findings: &mut Findings) {
    let path = format!("crates/{room}/Cargo.toml");
    let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == room) else {
        findings.error(&path, 1, "an unknown room: give it a place among the arrows of tidy");
        return;
    };
    for (line, target) in dependencies(manifest) {
        if !allowed.contains(&target.as_str()) {
            let instead = "move the code down, or hand it in from above";
            findings.error(&path, line, &format!("{room} may not use {target}: {instead}"));
        }
    }
}

/// Checks that a crate that needs no unsafe code forbids it. One that needs it in a single file
/// denies it, which that file may undo.
pub fn forbids_unsafe(room: &str, path: &str, text: &str, findings: &mut Findings) {
    let sources = format!("crates/{room}/src/");
    let has_file = UNSAFE_FILES.iter().any(|file| file.starts_with(&sources));
    let line = if has_file { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
    if !UNSAFE_ROOMS.contains(&room) && !text.lines().any(|found| found.trim() == line) {
        findings.error(path, 1, &format!("add `{line}` below the opening comment"));
    }
}

/// Checks the paths that a page names in backticks.
pub fn named_paths(root: &Path, page: &str, text: &str, findings: &mut Findings) {
    for (index, line) in text.lines().enumerate() {
        for named in line.split('`').skip(1).step_by(2) {
            let path = named.split([':', '#']).next().unwrap_or(named);
            let path = path.trim_end_matches(['.', ',']);
            let pattern = path.contains(['*', '<', '{', ' ', '$']) || path.contains("NNNN");
            if pattern || !NAMED.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            if !root.join(path).exists() {
                findings.error(
                    page,
                    index + 1,
                    &format!("`{path}` does not exist; name what does"),
                );
            }
        }
    }
}

/// Checks that a file of tests is run, in a crate whose programs cargo does not find by itself:
/// that it is one of those listed in the manifest, or a module of the one called `suite`.
pub fn is_run(path: &str, name: &str, manifest: &str, suite: &str, findings: &mut Findings) {
    if !manifest.lines().any(|line| line == "autotests = false") {
        return;
    }
    let is_listed = manifest.lines().any(|line| line == format!("name = \"{name}\""));
    let is_module = suite.lines().any(|line| line == format!("mod {name};"));
    if !is_listed && !is_module {
        let message = format!("no test program has it: write `mod {name};` in suite.rs");
        findings.error(path, 1, &message);
    }
}

/// Checks that a tracked file names no place of one machine.
pub fn machine_paths(path: &str, text: &str, findings: &mut Findings) {
    // Written in two parts, so that this file passes its own check.
    let places = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];
    for (index, line) in text.lines().enumerate() {
        for place in places {
            let stands_first = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "._-~)}*".contains(c))
            };
            if line.match_indices(place).any(|(at, _)| stands_first(at)) {
                let message = format!("`{place}` is a place of one machine; use a relative path");
                findings.error(path, index + 1, &message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let mut findings = Findings::default();
        let manifest = "[package]\nname = \"hot\"\n[dependencies]\nmemory.workspace = true\n\
                        index = { path = \"x\" }\n[dev-dependencies]\nlarder = \"1\"\n";
        arrows("hot", manifest, &mut findings);
        assert_eq!(findings.errors.len(), 2, "{:?}", findings.errors);
        assert!(findings.errors[0].contains("hot may not use index"));
        assert!(findings.errors[1].contains("hot may not use cache"));
        arrows("attic", "", &mut findings);
        assert!(findings.errors[2].contains("unknown room"));
    }

    #[test]
    fn a_crate_that_does_not_forbid_unsafe_code_is_found() {
        let mut findings = Findings::default();
        forbids_unsafe("cache", "crates/cache/src/lib.rs", "//! A.\n", &mut findings);
        forbids_unsafe("hot", "crates/hot/src/lib.rs", "//! A.\n", &mut findings);
        let forbids = "//! A.\n#![forbid(unsafe_code)]\n";
        let denies = "//! A.\n#![deny(unsafe_code)]\n";
        forbids_unsafe("policy", "crates/policy/src/lib.rs", forbids, &mut findings);
        forbids_unsafe("cache", "crates/cache/src/lib.rs", denies, &mut findings);
        assert_eq!(findings.errors.len(), 1);
        assert!(findings.errors[0].contains("deny"));
        forbids_unsafe("policy", "crates/policy/src/lib.rs", denies, &mut findings);
        assert!(findings.errors[1].contains("forbid"));
    }

    #[test]
    fn tests_that_no_program_has_are_found() {
        let mut findings = Findings::default();
        let manifest = "autotests = false\n\n[[test]]\nname = \"long\"\n";
        for name in ["long", "short", "lost"] {
            is_run("a.rs", name, manifest, "mod short;\n", &mut findings);
            is_run("a.rs", name, "[[test]]\n", "", &mut findings);
        }
        assert_eq!(findings.errors.len(), 1, "{:?}", findings.errors);
        assert!(findings.errors[0].contains("`mod lost;`"));
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let mut findings = Findings::default();
        let root = crate::command::root();
        let text = "See `crates/xtask/src/main.rs:3`, `crates/nowhere/`, `docs/NNNN-x.md`.\n";
        named_paths(&root, "README.md", text, &mut findings);
        assert_eq!(findings.errors.len(), 1, "{:?}", findings.errors);
        assert!(findings.errors[0].contains("crates/nowhere/"));
    }

    #[test]
    fn a_place_of_one_machine_is_found() {
        let mut findings = Findings::default();
        let text = format!("cd {}me/me/x\nsee a.example/{}me/x\n", "/ho", "ho");
        machine_paths("notes.txt", &text, &mut findings);
        assert_eq!(findings.errors.len(), 1, "{:?}", findings.errors);
    }
}
