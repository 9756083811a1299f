//! Administrators' requests: dumps of all keys, watching events, another memory limit.

use super::wire::Wire;
use super::{Bench, Ended};
use crate::{Result, fail};

const KEYS: usize = 30;

/// Checks that both dumps list every key once, in their formats.
fn dumps(wire: &mut Wire) -> Result {
    let text = wire.ask("lru_crawler metadump all\r\n", "END\r\n")?;
    for key in 0..KEYS {
        let start = format!("key=dump%3A{key} ");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&start)).collect();
        let [line] = lines[..] else {
            return fail(format!("metadump shows {start:?} {} times:\n{text}", lines.len()));
        };
        let fields = ["exp=", "la=", "cas=", "fetch=no", "cls=", "size="];
        if let Some(field) = fields.iter().find(|field| !line.contains(&format!(" {field}"))) {
            return fail(format!("metadump shows no {field:?}: {line:?}"));
        }
        let expiry = if key == 0 { " exp=-1 " } else { " exp=1" };
        if !line.contains(expiry) {
            return fail(format!("metadump shows no {expiry:?}: {line:?}"));
        }
    }
    Ok(())
}

/// Checks that a watching connection is shown events.
fn watch(port: u16, wire: &mut Wire, deletions: bool) -> Result {
    let mut watcher = Wire::connect(port)?;
    let kinds = if deletions { "mutations deletions" } else { "mutations" };
    watcher.expect(&format!("watch fetchers {kinds}\r\n"), "OK\r\n")?;
    watcher.received.clear();
    wire.expect("set dump:watched 0 0 1\r\n1\r\n", "STORED\r\n")?;
    wire.expect("get dump:watched\r\n", "VALUE dump:watched 0 1\r\n1\r\nEND\r\n")?;
    wire.expect("delete dump:watched\r\n", "DELETED\r\n")?;
    let words = ["type=item_store", "type=item_get", "type=deleted"];
    for word in &words[..2 + usize::from(deletions)] {
        let shown = |wire: &Wire| {
            let text = String::from_utf8_lossy(&wire.received).into_owned();
            let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            lines.any(|line| {
                line.contains(word)
                    && line.contains("key=dump%3Awatched ")
                    // Deletions are shown without the key: see the server's `watch`.
                    && (line.contains("type=deleted")
                        || line.contains(" size=1") && !line.contains(" clsid=0 "))
            })
        };
        while !shown(&watcher) {
            let from = watcher.received.len();
            if !watcher.read_until(from, b"\n")? {
                return fail(format!("the watcher was sent away before {word}"));
            }
        }
    }
    Ok(())
}

/// Runs all of these checks.
pub fn check(bench: &Bench) -> Result<Ended> {
    let server = bench.options.server.start("-m 64")?;
    let mut wire = Wire::connect(server.port)?;
    for key in 0..KEYS {
        let expiry = if key == 0 { 0 } else { 1000 };
        let command = format!("set dump:{key} 3 {expiry} 5\r\nhello\r\n");
        wire.expect(&command, "STORED\r\n")?;
    }
    dumps(&mut wire)?;
    let newer = !bench.is_debian(&server)?;
    if newer {
        let text = wire.ask("lru_crawler mgdump all\r\n", "EN\r\n")?;
        for key in 0..KEYS {
            if text.lines().filter(|line| *line == format!("mg dump:{key}")).count() != 1 {
                return fail(format!("mgdump does not show dump:{key} once:\n{text}"));
            }
        }
    }
    // Debian's memcached cannot watch deletions.
    watch(server.port, &mut wire, newer)?;
    wire.expect("cache_memlimit 128\r\n", "OK\r\n")?;
    let stats = wire.ask("stats\r\n", "END\r\n")?;
    if !stats.contains("STAT limit_maxbytes 134217728\r\n") {
        return fail("limit_maxbytes does not follow cache_memlimit");
    }
    Ok(Ended::Passed(format!("{KEYS} keys dumped, watch, cache_memlimit")))
}
