//! CONFIG: what tools look for before they do anything, under Redis' names.

use std::sync::atomic::Ordering;

use protocol::resp::glob::Pattern;
use protocol::resp::reply;

use super::ranges::value_bytes_max;
use super::{Done, Ended, Subcommands, Task, help, subcommand};
use crate::output::Output;
use crate::server::Server;
use crate::stats;

/// Those of CONFIG.
pub(super) const CONFIG: &Subcommands =
    &[("get", 1, usize::MAX), ("resetstat", 0, 0), ("help", 0, 0)];

/// `CONFIG GET pattern ...`, `CONFIG RESETSTAT`, `CONFIG HELP`.
pub(super) fn config(task: &mut Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) -> Ended {
    let word = task.word();
    match subcommand(task.name, word, task.words.len(), CONFIG)? {
        "get" => get(task, out),
        "resetstat" => {
            stats::reset(task.context.server);
            reply::simple(out.bytes, "OK");
        }
        _ => help(task.name, "GET <pattern> ..., RESETSTAT. Settings change by SIGHUP.", out),
    }
    out.charge_turn();
    Ok(Done::Next)
}

fn get(task: &Task<'_, '_, '_, '_, '_>, out: &mut Output<'_, '_>) {
    let settings = settings(task.context.server);
    let mut is_asked = vec![false; settings.len()];
    for pattern in task.words {
        let pattern = Pattern::new(&pattern.to_ascii_lowercase());
        for (is_asked, (name, _)) in is_asked.iter_mut().zip(&settings) {
            *is_asked |= pattern.matches(name.as_bytes());
        }
    }
    let asked = is_asked.iter().filter(|&&is_asked| is_asked).count();
    reply::map(out.bytes, task.version(), asked);
    for ((name, value), _) in settings.iter().zip(is_asked).filter(|&(_, is_asked)| is_asked) {
        reply::bulk(out.bytes, name.as_bytes());
        reply::bulk(out.bytes, value.as_bytes());
    }
}

/// What this server says of itself under names of Redis'.
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
        ("maxmemory", server.memory_bytes.load(Ordering::Relaxed).to_string()),
        ("maxmemory-policy", policy(server).to_owned()),
        ("port", options.redis_port.to_string()),
        ("proto-max-bulk-len", value_bytes_max(server).to_string()),
        ("save", String::new()),
        ("tcp-backlog", options.backlog.to_string()),
        ("timeout", server.live.idle_timeout_s().to_string()),
    ]
}

/// Redis' name for what is nearest to how this server makes room.
pub(super) fn policy(server: &Server) -> &'static str {
    if server.options.evict { "allkeys-lru" } else { "noeviction" }
}
