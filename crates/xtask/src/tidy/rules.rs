//! The checks of one source file. Each takes a scanned file and adds what it finds.
//!
//! A finding names the place and says what to do instead, because a rule without its alternative
//! only annoys.

use super::Findings;
use super::source::{Line, Source, has_word};

/// Longer functions are split.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Longer files are split.
pub const FILE_LINES_MAX: usize = 800;
/// Longer files are mentioned.
pub const FILE_LINES_WARN: usize = 400;
/// Longer lines are broken.
pub const LINE_COLUMNS_MAX: usize = 100;
/// How far above an ordering its partner may be named.
pub const PARTNER_LINES: usize = 6;

/// The rooms whose blocks of unsafe code are reviewed.
pub const UNSAFE_ROOMS: &[&str] = &["io", "memory", "index", "hot"];
/// Other files in which a decision allows unsafe code; their crates deny it elsewhere.
pub const UNSAFE_FILES: &[&str] =
    &["crates/cache/src/places.rs", "crates/compressed/src/raw.rs", "crates/stdx/src/prefetch.rs"];
const ATOMIC_ROOMS: &[&str] = &["stdx", "memory", "index", "hot", "compressed", "flash", "cache"];
/// The rooms of programs, and the one that only tests a program.
const BINARY_ROOMS: &[&str] = &["server", "bench", "bench-tests", "xtask"];
/// Those macros panic where a write fails, which no server should.
const PRINTING_ROOMS: &[&str] = &["bench", "xtask"];
const STRONG_ORDERINGS: &[&str] = &["Acquire", "Release", "AcqRel", "SeqCst"];

/// A call with the rooms that may make it, whether tests and examples may, and what to do instead.
struct Ban {
    call: &'static str,
    rooms: &'static [&'static str],
    tests: bool,
    instead: &'static str,
}

const CLOCK: &str = "take the time as an argument; the io room's clock reads it";
const OUTSIDE: &str = "only the server reads arguments, environment and files: pass the value in";
const FILES: &str = "files are read in the server, bench and io rooms: pass the bytes in";
const PRINT: &str = "return the text; only the programs print, the server by `say`";
const NO_PANIC: &str = "handle the case, or say in `expect` why it cannot happen";
const FINISH: &str = "finish it, or leave it out";
const SLEEP: &str = "wait for the event itself, or move the clock by hand";

const BANS: &[Ban] = &[
    Ban { call: "Instant::now", rooms: &["io", "bench", "xtask"], tests: true, instead: CLOCK },
    Ban { call: "SystemTime::now", rooms: &["io", "bench", "xtask"], tests: true, instead: CLOCK },
    Ban { call: "std::env", rooms: BINARY_ROOMS, tests: true, instead: OUTSIDE },
    Ban {
        call: "std::fs",
        rooms: &["server", "bench", "xtask", "io"],
        tests: true,
        instead: FILES,
    },
    Ban {
        call: "thread::sleep",
        // stdx: at the end of `Backoff`, where the owner of a lock may wait for a device.
        rooms: &["server", "bench", "xtask", "io", "stdx"],
        tests: false,
        instead: SLEEP,
    },
    Ban { call: "println!", rooms: PRINTING_ROOMS, tests: true, instead: PRINT },
    Ban { call: "print!", rooms: PRINTING_ROOMS, tests: true, instead: PRINT },
    Ban { call: "eprintln!", rooms: PRINTING_ROOMS, tests: true, instead: PRINT },
    Ban { call: "eprint!", rooms: PRINTING_ROOMS, tests: true, instead: PRINT },
    Ban { call: ".unwrap()", rooms: &[], tests: true, instead: NO_PANIC },
    Ban { call: "todo!", rooms: &[], tests: false, instead: FINISH },
    Ban { call: "unimplemented!", rooms: &[], tests: false, instead: FINISH },
    Ban { call: "dbg!", rooms: &[], tests: false, instead: "remove it" },
    Ban { call: "#[ignore", rooms: &[], tests: false, instead: "make the test fast, or delete it" },
];

/// Every check of a source file.
pub fn file(source: &Source, findings: &mut Findings) {
    opening(source, findings);
    lengths(source, findings);
    banned(source, findings);
    unsafe_code(source, findings);
    orderings(source, findings);
}

fn opening(source: &Source, findings: &mut Findings) {
    let first = source.lines.iter().find(|line| !line.text.trim().is_empty());
    if !first.is_some_and(|line| line.text.starts_with("//!")) {
        let path = &source.path;
        findings.error(path, 1, "open the file with `//!`: what it is and how it works");
    }
}

fn lengths(source: &Source, findings: &mut Findings) {
    let (path, lines) = (&source.path, source.lines.len());
    if lines > FILE_LINES_MAX {
        findings.error(path, lines, &format!("{lines} lines; split it (max {FILE_LINES_MAX})"));
    } else if lines > FILE_LINES_WARN {
        findings.warn(path, lines, &format!("{lines} lines; {FILE_LINES_WARN} read better"));
    }
    for (index, line) in source.lines.iter().enumerate() {
        let columns = line.text.chars().count();
        if columns > LINE_COLUMNS_MAX {
            let message = format!("{columns} columns; break the line at {LINE_COLUMNS_MAX}");
            findings.error(path, index + 1, &message);
        }
    }
    for function in source.functions() {
        let length = function.last - function.first + 1;
        if length > FUNCTION_LINES_MAX {
            let name = &function.name;
            let message = format!("`{name}` has {length} lines; split it (max 70)");
            findings.error(path, function.first + 1, &message);
        }
    }
}

fn banned(source: &Source, findings: &mut Findings) {
    for (index, line) in source.lines.iter().enumerate() {
        for ban in BANS {
            let excused = ban.rooms.contains(&source.room())
                || (ban.tests && (line.test || source.is_example()));
            if !excused && (has_word(&line.code, ban.call) || imports(&line.code, ban.call)) {
                let message = format!("`{}` does not belong here: {}", ban.call, ban.instead);
                findings.error(&source.path, index + 1, &message);
            }
        }
    }
}

/// Whether `code` imports `std::env` or `std::fs` from within a list.
fn imports(code: &str, call: &str) -> bool {
    match (code.split_once("use std::{"), call.strip_prefix("std::")) {
        (Some((_, list)), Some(module)) => has_word(list, module),
        _ => false,
    }
}

fn unsafe_code(source: &Source, findings: &mut Findings) {
    let path = source.path.as_str();
    if UNSAFE_ROOMS.contains(&source.room()) || UNSAFE_FILES.contains(&path) {
        return;
    }
    for (index, line) in source.lines.iter().enumerate() {
        if has_word(&line.code, "unsafe") {
            let rooms = UNSAFE_ROOMS.join(", ");
            let message = format!("unsafe code stands only in {rooms}: use what they offer");
            findings.error(&source.path, index + 1, &message);
        }
    }
}

fn orderings(source: &Source, findings: &mut Findings) {
    if !ATOMIC_ROOMS.contains(&source.room()) {
        return;
    }
    for (index, line) in source.lines.iter().enumerate() {
        let import = ["use ", "pub use ", "pub(crate) use "];
        let code = line.code.trim_start();
        if line.test || import.iter().any(|word| code.starts_with(word)) {
            continue;
        }
        let Some(order) = STRONG_ORDERINGS.iter().find(|order| has_word(code, order)) else {
            continue;
        };
        let near = &source.lines[index.saturating_sub(PARTNER_LINES)..=index];
        if !near.iter().any(names_partner) {
            let message =
                format!("`{order}` without its partner: say in a comment who pairs with it");
            findings.error(&source.path, index + 1, &message);
        }
    }
}

fn names_partner(line: &Line) -> bool {
    line.comment.to_lowercase().contains("partner")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        file(&Source::new(path, text), &mut findings);
        findings.errors
    }

    fn found(path: &str, text: &str, word: &str) -> bool {
        check(path, text).iter().any(|error| error.contains(word))
    }

    const GOOD: &str = "//! A room.\n\nfn small() {}\n";

    #[test]
    fn a_good_file_passes() {
        assert_eq!(check("crates/cache/src/a.rs", GOOD), Vec::<String>::new());
    }

    #[test]
    fn a_file_without_an_opening_is_found() {
        assert!(found("crates/cache/src/a.rs", "fn small() {}\n", "open the file"));
    }

    #[test]
    fn lengths_are_found_just_above_their_limits() {
        let function = |lines: usize| format!("//! A.\nfn f() {{\n{}}}\n", "\n".repeat(lines - 2));
        assert!(check("crates/cache/src/a.rs", &function(70)).is_empty());
        assert!(found("crates/cache/src/a.rs", &function(71), "71 lines"));
        let file = |lines: usize| format!("//! A.\n{}", "\n".repeat(lines - 1));
        assert!(check("crates/cache/src/a.rs", &file(800)).is_empty());
        assert!(found("crates/cache/src/a.rs", &file(801), "801 lines"));
        let line = |columns: usize| format!("//! A.\n//{}\n", "x".repeat(columns - 2));
        assert!(check("crates/cache/src/a.rs", &line(100)).is_empty());
        assert!(found("crates/cache/src/a.rs", &line(101), "101 columns"));
    }

    #[test]
    fn every_banned_call_is_found_outside_its_rooms() {
        for ban in BANS {
            let call = ban.call;
            let text = format!("//! A.\nfn f() {{\n    {call};\n}}\n");
            assert!(found("crates/policy/src/a.rs", &text, ban.instead), "{call}");
            for room in ban.rooms {
                assert!(!found(&format!("crates/{room}/src/a.rs"), &text, ban.instead), "{call}");
            }
            let test = format!("//! A.\n#[cfg(test)]\nmod tests {{\n    {call};\n}}\n");
            assert_eq!(found("crates/policy/src/a.rs", &test, ban.instead), !ban.tests, "{call}");
        }
        let list = "//! A.\nuse std::{cell, env};\n";
        assert!(found("crates/policy/src/a.rs", list, "std::env"));
        let quoted = "//! A.\n// dbg!(1)\nconst A: &str = \"dbg!(2)\";\n";
        assert!(check("crates/policy/src/a.rs", quoted).is_empty());
    }

    #[test]
    fn unsafe_code_is_found_outside_its_rooms() {
        let text = "//! A.\nfn f() {\n    unsafe { g() }\n}\n";
        assert!(found("crates/cache/src/a.rs", text, "unsafe code"));
        assert!(!found("crates/index/src/a.rs", text, "unsafe code"));
    }

    #[test]
    fn an_ordering_without_its_partner_is_found() {
        let bare = "//! A.\nfn f() {\n    a.load(Ordering::Acquire);\n}\n";
        let named =
            "//! A.\nfn f() {\n    // Partner: the release in g.\n    a.load(Acquire);\n}\n";
        let far = format!("//! A.\n// partner\n{}fn f() {{ a.load(SeqCst) }}\n", "\n".repeat(7));
        assert!(found("crates/index/src/a.rs", bare, "partner"));
        assert!(!found("crates/index/src/a.rs", named, "partner"));
        assert!(found("crates/index/src/a.rs", &far, "partner"));
        assert!(!found("crates/server/src/a.rs", bare, "partner"));
    }
}
