//! The statistics that monitoring reads: every name is present, with a value of the right form, and
//! the counters count.

use super::wire::Wire;
use super::{Bench, Ended};
use crate::{Result, fail};

/// The names that `stats` must list.
const NAMES: &str = "pid uptime time version pointer_size rusage_user rusage_system \
    max_connections curr_connections total_connections rejected_connections cmd_get cmd_set \
    cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired get_flushed delete_misses \
    delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval \
    touch_hits touch_misses store_too_large store_no_memory auth_cmds auth_errors \
    bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num threads \
    conn_yields hash_power_level hash_bytes hash_is_expanding slab_reassign_running slabs_moved \
    curr_items total_items bytes evictions reclaimed expired_unfetched evicted_unfetched \
    evicted_active";

/// The names that `stats settings` must list.
const SETTINGS: &str = "maxbytes maxconns tcpport udpport inter verbosity oldest evictions \
    domain_socket umask growth_factor chunk_size num_threads stat_key_prefix detail_enabled \
    reqs_per_event cas_enabled tcp_backlog binding_protocol item_size_max";

/// The names that `stats slabs` and `stats items` must list for a class.
const SLABS: &str = "chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks \
    get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits";
const ITEMS: &str = "number age evicted evicted_time outofmemory";

/// A reply of `STAT name value` lines.
pub struct Stats(Vec<(String, String)>);

impl Stats {
    /// Asks for these statistics.
    pub fn ask(wire: &mut Wire, what: &str) -> Result<Stats> {
        let reply = wire.ask(&format!("{what}\r\n"), "END\r\n")?;
        let mut rows = Vec::new();
        for line in reply.lines().filter(|line| *line != "END") {
            let row = line.strip_prefix("STAT ").and_then(|row| row.split_once(' '));
            match row {
                // memcached leaves unset ones empty, and writes NULL in one.
                Some((name, value)) if !value.trim().is_empty() => {
                    rows.push((name.to_string(), value.trim().to_string()));
                }
                _ => return fail(format!("{what}: a line without a value: {line:?}")),
            }
        }
        Ok(Stats(rows))
    }

    fn get(&self, name: &str) -> Result<&str> {
        match self.0.iter().find(|(known, _)| known == name) {
            Some((_, value)) => Ok(value),
            None => fail(format!("{name} is missing")),
        }
    }

    /// Returns the value of this name.
    pub fn number(&self, name: &str) -> Result<u64> {
        let value = self.get(name)?;
        value.parse().map_err(|_| crate::Failure(format!("{name} is {value:?}, not a number")))
    }

    fn has_all(&self, names: &str) -> Result {
        let missing: Vec<&str> =
            names.split_whitespace().filter(|name| self.get(name).is_err()).collect();
        if missing.is_empty() { Ok(()) } else { fail(format!("missing: {}", missing.join(" "))) }
    }

    /// Fails unless each name appears in some row called `...:name`.
    fn has_in_class(&self, names: &str) -> Result {
        for name in names.split_whitespace() {
            if !self.0.iter().any(|(row, _)| row.rsplit(':').next() == Some(name)) {
                return fail(format!("no class shows {name}"));
            }
        }
        Ok(())
    }
}

fn work(wire: &mut Wire) -> Result {
    for (command, answer) in [
        ("set stat:a 0 0 1\r\n5\r\n", "STORED\r\n"),
        ("cas stat:a 0 0 1 1844674407370955161\r\n5\r\n", "EXISTS\r\n"),
        ("cas stat:none 0 0 1 1\r\n5\r\n", "NOT_FOUND\r\n"),
        ("get stat:a\r\n", "VALUE stat:a 0 1\r\n5\r\nEND\r\n"),
        ("get stat:none\r\n", "END\r\n"),
        ("incr stat:a 1\r\n", "6\r\n"),
        ("incr stat:none 1\r\n", "NOT_FOUND\r\n"),
        ("decr stat:a 1\r\n", "5\r\n"),
        ("decr stat:none 1\r\n", "NOT_FOUND\r\n"),
        ("touch stat:a 0\r\n", "TOUCHED\r\n"),
        ("touch stat:none 0\r\n", "NOT_FOUND\r\n"),
        ("mg stat:a\r\n", "HD\r\n"),
        ("delete stat:none\r\n", "NOT_FOUND\r\n"),
        ("delete stat:a\r\n", "DELETED\r\n"),
        ("set stat:b 7 0 5\r\nhello\r\n", "STORED\r\n"),
    ] {
        wire.expect(command, answer)?;
    }
    Ok(())
}

/// The least growth of each counter after `work`.
const GROWTH: &[(&str, u64)] = &[
    ("cmd_set", 4),
    ("cmd_touch", 2),
    ("get_misses", 1),
    ("delete_misses", 1),
    ("delete_hits", 1),
    ("incr_misses", 1),
    ("incr_hits", 1),
    ("decr_misses", 1),
    ("decr_hits", 1),
    ("cas_misses", 1),
    ("cas_badval", 1),
    ("touch_hits", 1),
    ("touch_misses", 1),
];

/// Counters that memcached has, too. It counts only `me` under `cmd_meta`, where the server counts
/// all meta commands, and under `get_flushed` only items that its own walk has not removed by then.
const COUNTED: &str = "cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses get_expired \
    delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits \
    cas_badval touch_hits touch_misses";

/// Requests that both servers must count alike; `$` stands for a key of their own.
const ALIKE: &[&str] = &[
    "get $\r\n",
    "set $ 0 0 1\r\n1\r\nget $ $ $x\r\ngets $\r\n",
    "set $ 0 0 1\r\n1\r\ngat 0 $\r\ngat 0 $x $\r\ngats 0 $\r\n",
    "set $ 0 -1 1\r\n1\r\nget $\r\nget $\r\n",
    "set $ 0 -1 1\r\n1\r\ndelete $\r\ndelete $\r\n",
    "set $ 0 -1 1\r\n1\r\nincr $ 1\r\ndecr $ 1\r\n",
    "set $ 0 -1 1\r\n1\r\ntouch $ 1\r\ntouch $ 1\r\n",
    "set $ 0 -1 1\r\n1\r\ngat 0 $\r\ngat 0 $\r\n",
    "set $ 0 -1 1\r\n1\r\nmg $ v\r\nmg $ v\r\n",
    "set $ 0 -1 1\r\n1\r\nmd $\r\nmd $\r\n",
    "set $ 0 -1 1\r\n1\r\nma $\r\nma $ MD\r\n",
    "set $ 0 0 1\r\n1\r\nincr $ 1\r\ndecr $ 1\r\nincr $x 1\r\ndecr $x 1\r\nincr $ x\r\n",
    "set $ 0 0 1\r\na\r\nincr $ 1\r\ndecr $ 1\r\nma $\r\n",
    "add $ 0 0 1\r\n1\r\nadd $ 0 0 1\r\n1\r\nreplace $x 0 0 1\r\n1\r\n",
    "append $ 0 0 1\r\n1\r\nset $ 0 0 1\r\n1\r\nprepend $ 0 0 1\r\n1\r\n",
    "cas $ 0 0 1 5\r\n1\r\nset $ 0 0 1\r\n1\r\ncas $ 0 0 1 18446744073709551615\r\n1\r\n",
    "mg $\r\nmg $ N30\r\nmg $ N30\r\nmg $x N30 T10\r\nmg $x T10 v\r\nmg $y T10\r\n",
    "ms $ 1\r\n1\r\nms $ 1 C1\r\n1\r\nms $x 1 C1\r\n1\r\nms $ 1 ME\r\n1\r\nms $ 1 MA\r\n1\r\n",
    "ms $ 1\r\n1\r\nmd $ C1\r\nmd $ I\r\nmd $ q\r\nmd $\r\n",
    "ms $ 1\r\n1\r\nma $ C1\r\nma $\r\nma $x\r\nma $ MD\r\nma $y N30\r\nma $z N30 MD\r\n",
    "set $ 0 0 1\r\n1\r\nme $\r\nme $x\r\ntouch $ 0\r\ntouch $x 0\r\n",
];

/// Returns the growth of each counter by these requests.
fn growth(wire: &mut Wire, requests: &str) -> Result<Vec<(&'static str, u64)>> {
    let before = Stats::ask(wire, "stats")?;
    wire.ask(&format!("{requests}mn\r\n"), "MN\r\n")?;
    let after = Stats::ask(wire, "stats")?;
    let names = COUNTED.split_whitespace();
    names.map(|name| Ok((name, after.number(name)? - before.number(name)?))).collect()
}

/// Checks that both servers count the same requests alike.
fn counted_alike(bench: &Bench) -> Result {
    let reference = bench.options.reference.start("-m 64")?;
    let subject = bench.options.server.start("-m 64")?;
    let (mut one, mut other) = (Wire::connect(reference.port)?, Wire::connect(subject.port)?);
    for (number, template) in ALIKE.iter().enumerate() {
        let requests = template.replace('$', &format!("alike:{number}:"));
        let (reference, subject) = (growth(&mut one, &requests)?, growth(&mut other, &requests)?);
        for (wanted, got) in reference.iter().zip(&subject) {
            if wanted != got {
                return fail(format!("{template:?}: memcached counts {wanted:?}, not {got:?}"));
            }
        }
    }
    Ok(())
}

/// Runs all of these checks.
pub fn check(bench: &Bench) -> Result<Ended> {
    let server = bench.options.server.start("-m 64")?;
    let mut wire = Wire::connect(server.port)?;
    let before = Stats::ask(&mut wire, "stats")?;
    before.has_all(NAMES)?;
    if bench.larder {
        // memcached shows it only where an idle timeout is set.
        before.has_all("idle_kicks")?;
    }
    for name in NAMES.split_whitespace() {
        let value = before.get(name)?;
        let right = match name {
            "version" => value.starts_with("1.6"),
            "rusage_user" | "rusage_system" => {
                value.parse::<f64>().is_ok() && value.matches('.').count() == 1
            }
            _ => value.parse::<u64>().is_ok(),
        };
        if !right {
            return fail(format!("{name} is {value:?}"));
        }
    }
    if before.number("limit_maxbytes")? != 64 << 20 {
        return fail("limit_maxbytes is not -m");
    }
    work(&mut wire)?;
    let after = Stats::ask(&mut wire, "stats")?;
    for (name, growth) in GROWTH {
        let (old, new) = (before.number(name)?, after.number(name)?);
        if new != old + growth {
            return fail(format!("{name} went from {old} to {new}, not by {growth}"));
        }
    }
    let (items, gets) = (after.number("curr_items")?, after.number("get_hits")?);
    if items != 1 || gets < 1 {
        return fail(format!("curr_items is {items} with one item, get_hits {gets}"));
    }
    Stats::ask(&mut wire, "stats settings")?.has_all(SETTINGS)?;
    let slabs = Stats::ask(&mut wire, "stats slabs")?;
    slabs.has_in_class(SLABS)?;
    slabs.has_all("active_slabs total_malloced")?;
    Stats::ask(&mut wire, "stats items")?.has_in_class(ITEMS)?;
    Stats::ask(&mut wire, "stats conns")?;
    wire.ask("stats sizes\r\n", "END\r\n")?;
    wire.expect("stats reset\r\n", "RESET\r\n")?;
    wire.expect("stats nonsense\r\n", "ERROR\r\n")?;
    let reset = Stats::ask(&mut wire, "stats")?;
    if reset.number("get_misses")? != 0 || reset.number("curr_items")? != 1 {
        return fail("stats reset must clear the counters and leave the items");
    }
    if !bench.options.reference.path.is_file() {
        return Ok(Ended::Passed(format!("{} names", before.0.len())));
    }
    counted_alike(bench)?;
    Ok(Ended::Passed(format!("{} names, {} counted alike", before.0.len(), ALIKE.len())))
}
