//! CONFIG: the settings that tools read before they do anything, under Redis' names.

use protocol::resp::glob::Pattern;
use protocol::resp::reply;

use super::ranges::value_bytes_max;
use super::{Done, Ended, Subcommands, Task, help, subcommand};
use crate::output::Output;
use crate::server::Server;
use crate::stats;

/// Bytes charged for a pattern: matching goes over all bytes for each of up to 250 of its own, some
/// tens of microseconds.
const PATTERN_BYTES: usize = 64 << 10;

/// The subcommands of CONFIG.
pub(super) const CONFIG: &Subcommands =
    &[("get", 1, usize::MAX), ("resetstat", 0, 0), ("help", 0, 0)];

/// `CONFIG GET pattern ...`, `CONFIG RESETSTAT`, `CONFIG HELP`.
pub(super) fn config<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let word = task.word();
    match subcommand(task.name, word, task.words.len(), CONFIG)? {
        "get" => return get(task, out),
        "resetstat" => {
            stats::reset(task.context.server);
            reply::simple(out.bytes, "OK");
        }
        _ => help(task.name, "GET <pattern> ..., RESETSTAT. Settings change by SIGHUP.", out),
    }
    out.charge_turn();
    Ok(Done::Next)
}

/// `CONFIG GET`. Its progress is the set of settings that the patterns so far have asked for, a bit
/// each.
fn get<'s>(task: &mut Task<'_, '_, '_, 's, '_>, out: &mut Output<'_, 's>) -> Ended {
    let settings = settings(task.context.server);
    task.go_on();
    while task.words.len() > 0 {
        if task.must_pause(out) {
            return Ok(Done::Flush);
        }
        let pattern = Pattern::new(&task.word().to_ascii_lowercase());
        for (number, (name, _)) in settings.iter().enumerate() {
            task.client.progress.count |= i64::from(pattern.matches(name.as_bytes())) << number;
        }
        out.charge(PATTERN_BYTES);
        task.advance(out);
    }
    let asked = task.client.progress.count;
    reply::map(out.bytes, task.version(), asked.count_ones() as usize);
    for (number, (name, value)) in settings.iter().enumerate() {
        if asked >> number & 1 != 0 {
            reply::bulk(out.bytes, name.as_bytes());
            reply::bulk(out.bytes, value.as_bytes());
        }
    }
    out.charge_turn();
    Ok(Done::Next)
}

/// This server's settings under Redis' names.
fn settings(server: &Server) -> Vec<(&'static str, String)> {
    let options = &server.options;
    let addresses = match options.listen.is_empty() {
        true => "127.0.0.1".to_owned(),
        false => options.listen.join(" "),
    };
    vec![
        ("appendonly", "no".to_owned()),
        ("bind", addresses),
        ("databases", "1".to_owned()),
        ("io-threads", options.threads.to_string()),
        ("maxclients", server.live.connections_max().to_string()),
        ("maxmemory", server.memory_bytes().to_string()),
        ("maxmemory-policy", policy(server).to_owned()),
        ("port", options.redis_port.to_string()),
        ("proto-max-bulk-len", value_bytes_max(server).to_string()),
        ("save", String::new()),
        ("tcp-backlog", options.backlog.to_string()),
        ("timeout", server.live.idle_timeout_s().to_string()),
    ]
}

/// Redis' name for the policy nearest to this server's eviction.
pub(super) fn policy(server: &Server) -> &'static str {
    if server.options.evict { "allkeys-lru" } else { "noeviction" }
}
