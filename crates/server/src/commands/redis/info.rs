//! INFO: statistics under the names that Redis' clients and exporters look for.

use std::cell::OnceCell;
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use io::Clock;
use larder::Stats;
use protocol::resp::reply;

use super::config::policy;
use super::{Done, Ended, Task};
use crate::output::Output;
use crate::server::Server;

/// The version of Redis whose commands these are; clients choose by it what they send.
pub const REDIS_VERSION: &str = "7.0.15";

/// A section: its name, and the function that writes it.
type Section = (&'static str, fn(&Now<'_>, &mut Lines));

const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Keyspace", keyspace),
];

/// All of them, as bits.
const ALL: i64 = (1 << SECTIONS.len()) - 1;

/// The input of sections: the server, and the cache's statistics at one moment for all that want
/// them.
struct Now<'s> {
    server: &'s Server,
    cache: OnceCell<Stats>,
}

impl Now<'_> {
    fn cache(&self) -> &Stats {
        self.cache.get_or_init(|| self.server.cache.stats())
    }
}

/// `INFO [section ...]`: its progress is the set of sections that the words so far have asked for,
/// a bit each.
pub(super) fn info<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let asks_by_name = task.words.len() > 0;
    task.go_on();
    while task.words.len() > 0 {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        task.client.progress.count |= asked_by(task.word());
        task.advance(out);
    }
    let asked = if asks_by_name { task.client.progress.count } else { ALL };
    let now = Now { server: task.context.server, cache: OnceCell::new() };
    let mut lines = Lines(String::new());
    for (number, (name, write)) in SECTIONS.into_iter().enumerate() {
        if asked >> number & 1 == 0 {
            continue;
        }
        if !lines.0.is_empty() {
            lines.0.push_str("\r\n");
        }
        lines.0.push_str("# ");
        lines.0.push_str(name);
        lines.0.push_str("\r\n");
        write(&now, &mut lines);
    }
    reply::verbatim(out.bytes, task.version(), lines.0.as_bytes());
    out.charge_turn();
    Ok(Done::Next)
}

/// The sections that a word asks for, a bit each.
fn asked_by(word: &[u8]) -> i64 {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if ["default", "all", "everything"].into_iter().any(is) {
        return ALL;
    }
    SECTIONS.iter().position(|(name, _)| is(name)).map_or(0, |number| 1 << number)
}

/// Lines of `name:value`.
struct Lines(String);

impl Lines {
    fn line(&mut self, name: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

fn server(Now { server, .. }: &Now<'_>, lines: &mut Lines) {
    let uptime_s = server.started.elapsed().as_secs();
    lines.line("redis_version", REDIS_VERSION);
    lines.line("larder_version", env!("CARGO_PKG_VERSION"));
    lines.line("redis_mode", "standalone");
    lines.line("os", std::env::consts::OS);
    lines.line("arch_bits", usize::BITS);
    lines.line("process_id", std::process::id());
    lines.line("tcp_port", server.options.redis_port);
    lines.line("server_time_usec", server.clock.unix_ms() * 1000);
    lines.line("uptime_in_seconds", uptime_s);
    lines.line("uptime_in_days", uptime_s / 86_400);
}

fn clients(Now { server, .. }: &Now<'_>, lines: &mut Lines) {
    lines.line("connected_clients", server.connections.current.load(Ordering::Relaxed));
    lines.line("maxclients", server.live.connections_max());
    lines.line("blocked_clients", 0);
}

fn memory(now: &Now<'_>, lines: &mut Lines) {
    let (server, cache) = (now.server, now.cache());
    let max_bytes = server.memory_bytes();
    lines.line("used_memory", cache.used_bytes);
    lines.line("used_memory_human", human(cache.used_bytes));
    if let Some(bytes) = ::io::process::resident_bytes() {
        lines.line("used_memory_rss", bytes);
    }
    lines.line("used_memory_dataset", cache.held_bytes());
    lines.line("maxmemory", max_bytes);
    lines.line("maxmemory_human", human(max_bytes as u64));
    lines.line("maxmemory_policy", policy(server));
    lines.line("mem_clients_normal", server.parked.bytes());
}

/// Bytes as people read them.
fn human(bytes: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

/// A client that can connect can be served: memory is restored before.
fn persistence(_: &Now<'_>, lines: &mut Lines) {
    lines.line("loading", 0);
    lines.line("rdb_bgsave_in_progress", 0);
    lines.line("aof_enabled", 0);
}

fn stats(now: &Now<'_>, lines: &mut Lines) {
    let (server, cache) = (now.server, now.cache());
    let sums = server.sums();
    lines.line("total_connections_received", server.connections.total.load(Ordering::Relaxed));
    lines.line("total_commands_processed", sums.cmd_redis);
    lines.line("total_error_replies", sums.redis_errors);
    lines.line("total_net_input_bytes", sums.bytes_read);
    lines.line("total_net_output_bytes", sums.bytes_written);
    lines.line("rejected_connections", server.connections.rejected.load(Ordering::Relaxed));
    lines.line("expired_keys", cache.expired);
    lines.line("evicted_keys", cache.evicted);
    lines.line("keyspace_hits", sums.get_hits);
    lines.line("keyspace_misses", sums.get_misses);
}

fn replication(_: &Now<'_>, lines: &mut Lines) {
    lines.line("role", "master");
    lines.line("connected_slaves", 0);
}

fn cpu(_: &Now<'_>, lines: &mut Lines) {
    let (user, system) = ::io::process::cpu_time();
    lines.line("used_cpu_sys", format_args!("{:.6}", system.as_secs_f64()));
    lines.line("used_cpu_user", format_args!("{:.6}", user.as_secs_f64()));
}

/// Keys with an expiry are not counted: the zeros are there for parsers of the whole line.
fn keyspace(now: &Now<'_>, lines: &mut Lines) {
    let keys = now.cache().items;
    if keys > 0 {
        lines.line("db0", format_args!("keys={keys},expires=0,avg_ttl=0"));
    }
}
