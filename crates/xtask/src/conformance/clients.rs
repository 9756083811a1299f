//! The programs that people use with memcached, each with its own server. The programs in other
//! languages are in `conformance/`; each takes a host and a port, asserts what it reads, and ends
//! with a nonzero status when something is wrong.

use std::path::Path;
use std::time::Duration;

use super::{Bench, Ended};
use crate::command::{Run, find};
use crate::install::{GO_CLIENT, NODE, VENV};
use crate::{Result, fail};

/// The number of memccapable's tests of a protocol, the same for both.
const CAPABLE_TESTS: usize = 27;
/// Tests that memcached 1.6.45 fails as well: they want an error for a delete with superfluous
/// arguments, which it and Larder ignore.
const OUTDATED: &[&str] = &["ascii delete", "ascii delete noreply"];

const LIMIT: Duration = Duration::from_secs(120);

fn not_run(words: &str) -> Result<Ended> {
    Ok(Ended::NotRun(words.to_string()))
}

/// Returns the last line of a program's output, which summarises its run.
fn last_line(text: &str) -> Ended {
    Ended::Passed(text.trim_end().lines().next_back().unwrap_or("").to_string())
}

/// memccapable, libmemcached's own check of a server: its tests of the text protocol.
pub fn memccapable(bench: &Bench) -> Result<Ended> {
    capable(bench, "-a", OUTDATED)
}

/// memccapable's tests of the binary protocol.
pub fn memccapable_binary(bench: &Bench) -> Result<Ended> {
    capable(bench, "-b", &[])
}

fn capable(bench: &Bench, protocol: &str, outdated: &[&str]) -> Result<Ended> {
    if find("memccapable").is_none() {
        return not_run("memccapable is not installed");
    }
    let server = bench.options.server.start("-m 64")?;
    let run = Run::new("memccapable").arg(protocol).arg("-h").arg("127.0.0.1").arg("-p");
    let run = run.arg(server.port.to_string());
    let (_, text) = run.output(LIMIT)?;
    let passed = text.matches("[pass]").count();
    let failed = failed_tests(&text);
    let unmeant: Vec<&&str> = failed.iter().filter(|name| !outdated.contains(name)).collect();
    if !unmeant.is_empty() || passed + failed.len() < CAPABLE_TESTS {
        return fail(format!("{unmeant:?} failed, {passed} passed:\n{text}"));
    }
    Ok(Ended::Passed(format!("{passed} tests, {} outdated", failed.len())))
}

/// Returns the names of the tests that memccapable marks as failed. The mark may be a line below
/// the name, with the output of the check in between.
fn failed_tests(text: &str) -> Vec<&str> {
    let mut name = "";
    let mut failed = Vec::new();
    for line in text.lines() {
        if line.starts_with("ascii ") || line.starts_with("binary ") {
            name = line.split("  ").next().unwrap_or(line).trim();
        }
        if line.contains("[FAIL]") {
            failed.push(name);
        }
    }
    failed
}

/// memcached-tool, the script that Debian ships with memcached.
pub fn memcached_tool(bench: &Bench) -> Result<Ended> {
    let tool = "/usr/share/memcached/scripts/memcached-tool";
    if !Path::new(tool).is_file() || find("perl").is_none() {
        return not_run("memcached-tool is not installed");
    }
    let server = bench.options.server.start("-m 64")?;
    let mut wire = super::wire::Wire::connect(server.port)?;
    for key in 0..50 {
        wire.expect(&format!("set tool:{key} 3 0 5\r\nv{key:04}\r\n"), "STORED\r\n")?;
    }
    let run = |mode: &str| Run::new(tool).arg(server.address()).arg(mode).capture(LIMIT);
    for (mode, words) in [
        ("display", &["Item_Size", "Max_age", "Pages"][..]),
        ("stats", &["curr_items", "50", "limit_maxbytes"]),
        ("settings", &["maxbytes", "67108864", "item_size_max"]),
        ("sizes", &["Size", "Count"]),
        ("dump", &["add tool:7 3", "v0007", "add tool:49 3"]),
        ("keys", &["key=tool%3A7 ", "cls="]),
    ] {
        let text = run(mode)?;
        if let Some(word) = words.iter().find(|word| !text.contains(**word)) {
            return fail(format!("memcached-tool {mode} does not show {word:?}:\n{text}"));
        }
    }
    Ok(Ended::Passed("display, stats, settings, sizes, dump, keys".to_string()))
}

/// Options of a server that serves only the users of a file, and a name and password from it.
const GUARDED: &str = "-m 64 -S -Y conformance/users.txt";
const KNOWN: [&str; 2] = ["tester", "secret"];

fn python(bench: &Bench, script: &str) -> Result<Ended> {
    python_at(bench, script, "-m 64", &[])
}

/// Runs a Python client against a server with these options, with more arguments than its address.
fn python_at(bench: &Bench, script: &str, options: &str, more: &[&str]) -> Result<Ended> {
    let interpreter = format!("{VENV}/bin/python");
    if !Path::new(&interpreter).exists() {
        return not_run("the Python libraries are not installed (cargo xtask install)");
    }
    let server = bench.options.server.start(options)?;
    let run = Run::new(&interpreter)
        .arg(format!("conformance/python/{script}"))
        .arg("127.0.0.1")
        .arg(server.port.to_string());
    Ok(last_line(&more.iter().fold(run, Run::arg).capture(LIMIT)?))
}

/// python-binary-memcached, a Python client of the binary protocol.
pub fn bmemcached(bench: &Bench) -> Result<Ended> {
    python(bench, "binary_client.py")
}

/// python-binary-memcached with authentication.
pub fn bmemcached_sasl(bench: &Bench) -> Result<Ended> {
    if !bench.larder {
        return not_run("only Larder takes its users of SASL from -Y");
    }
    python_at(bench, "binary_client.py", GUARDED, &KNOWN)
}

/// pymemcache, a Python client of the text protocol.
pub fn pymemcache(bench: &Bench) -> Result<Ended> {
    python(bench, "text_client.py")
}

/// meta-memcache, a Python client of the meta commands.
pub fn meta_memcache(bench: &Bench) -> Result<Ended> {
    python(bench, "meta_client.py")
}

/// gomemcache, a Go client.
pub fn gomemcache(bench: &Bench) -> Result<Ended> {
    if !Path::new(GO_CLIENT).exists() {
        return not_run("the Go client is not built (cargo xtask install)");
    }
    let server = bench.options.server.start("-m 64")?;
    Ok(last_line(&Run::new(GO_CLIENT).arg(server.address()).capture(LIMIT)?))
}

/// spymemcached, a Java client, by the text protocol.
pub fn spymemcached(bench: &Bench) -> Result<Ended> {
    java(bench, "text")
}

/// spymemcached by the binary protocol.
pub fn spymemcached_binary(bench: &Bench) -> Result<Ended> {
    java(bench, "binary")
}

fn java(bench: &Bench, protocol: &str) -> Result<Ended> {
    let classes = "target/conformance/java/classes";
    if find("java").is_none() || !Path::new(classes).join("Client.class").exists() {
        return not_run("the Java client is not built (cargo xtask install)");
    }
    let server = bench.options.server.start("-m 64")?;
    let text = Run::new("java -cp")
        .arg(format!("{classes}:target/conformance/java/lib/*"))
        .arg("Client")
        .arg("127.0.0.1")
        .arg(server.port.to_string())
        .arg(protocol)
        .capture(LIMIT)?;
    Ok(last_line(&text))
}

/// memcache-client, a JavaScript client.
pub fn memcache_client(bench: &Bench) -> Result<Ended> {
    node(bench, "client.js", "-m 64", &[])
}

/// memjs, a JavaScript client of the binary protocol.
pub fn memjs(bench: &Bench) -> Result<Ended> {
    node(bench, "binary_client.js", "-m 64", &[])
}

/// memjs with authentication.
pub fn memjs_sasl(bench: &Bench) -> Result<Ended> {
    if !bench.larder {
        return not_run("only Larder takes its users of SASL from -Y");
    }
    node(bench, "binary_client.js", GUARDED, &KNOWN)
}

fn node(bench: &Bench, script: &str, options: &str, more: &[&str]) -> Result<Ended> {
    if find("node").is_none() || !Path::new(NODE).join("node_modules").exists() {
        return not_run("the JavaScript client is not installed (cargo xtask install)");
    }
    let server = bench.options.server.start(options)?;
    let run = Run::new("node")
        .arg(format!("conformance/node/{script}"))
        .arg(server.address())
        .env("NODE_PATH", Path::new(NODE).join("node_modules"));
    Ok(last_line(&more.iter().fold(run, Run::arg).capture(LIMIT)?))
}

#[cfg(test)]
mod tests {
    use super::failed_tests;

    #[test]
    fn a_mark_belongs_to_the_name_above_it() {
        let text = "ascii get           [pass]\nascii delete        \n[FAIL]\n./a.cc:1: x\n\
                    ascii set    [FAIL]\nascii stat    2 of 27 tests failed\n[pass]\n";
        assert_eq!(failed_tests(text), ["ascii delete", "ascii set"]);
    }
}
