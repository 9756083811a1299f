//! `stats` and its arguments, under memcached's names: dashboards and exporters read these.
//!
//! What memcached counts and Larder has no counterpart for is reported with the value that means
//! "nothing of the kind happened", so that a reader finds every name it looks for.

mod compressed;
mod costs;
mod flash;
mod general;
mod items;
mod quotas;
mod settings;

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::Ordering;

use protocol::reply;
use stdx::sync::lock;

use crate::server::Server;

pub use settings::column_pages;

/// Answers `stats <arguments>`. Like memcached's, the words are recognised by their beginning.
pub fn write(server: &Server, arguments: &[u8], out: &mut Vec<u8>) {
    let mut stats = Stats(out);
    match arguments {
        b"" => general::write(server, &mut stats),
        _ if arguments.starts_with(b"settings") => settings::write(server, &mut stats),
        _ if arguments.starts_with(b"items") => items::write_items(server, &mut stats),
        _ if arguments.starts_with(b"slabs") => items::write_slabs(server, &mut stats),
        _ if arguments.starts_with(b"costs") => costs::write(server, &mut stats),
        _ if arguments.starts_with(b"compressed") => compressed::write(server, &mut stats),
        _ if arguments.starts_with(b"quotas") => quotas::write(server, &mut stats),
        _ if arguments.starts_with(b"flash") => flash::write(server, &mut stats),
        _ if arguments.starts_with(b"sizes") => stats.line("sizes_status", "disabled"),
        _ if arguments.starts_with(b"conns") => connections(server, &mut stats),
        _ if arguments.starts_with(b"reset") => {
            reset(server);
            return reply::line(out, reply::RESET);
        }
        _ if arguments.starts_with(b"detail") => return detail(server, arguments, out),
        _ if arguments.starts_with(b"cachedump") => {
            return reply::line(out, reply::CACHEDUMP_NOT_ALLOWED);
        }
        _ => return reply::line(out, reply::ERROR),
    }
    reply::line(out, reply::END);
}

/// Lines of statistics.
struct Stats<'o>(&'o mut Vec<u8>);

impl Stats<'_> {
    /// `STAT name value`.
    fn line(&mut self, name: impl Display, value: impl Display) {
        // Writing to a Vec cannot fail.
        let _ = write!(self.0, "STAT {name} {value}\r\n");
    }

    /// A line for each pair.
    fn lines(&mut self, pairs: &[(&str, u64)]) {
        for (name, value) in pairs {
            self.line(name, value);
        }
    }
}

/// Turns statistics by namespaces on or off, or shows them. Words behind that do not matter.
fn detail(server: &Server, arguments: &[u8], out: &mut Vec<u8>) {
    let mut words = arguments.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let line = match (words.next(), words.next()) {
        (Some(b"detail"), Some(word @ (b"on" | b"off"))) => {
            server.watchers.set_detail(word == b"on");
            reply::OK
        }
        (Some(b"detail"), Some(b"dump")) => {
            server.namespaces.dump(out);
            reply::END
        }
        (Some(b"detail"), _) => "CLIENT_ERROR usage: stats detail on|off|dump\r\n",
        _ => reply::ERROR,
    };
    reply::line(out, line);
}

fn connections(server: &Server, stats: &mut Stats<'_>) {
    for (number, address) in server.listening.iter().enumerate() {
        // Listeners have no descriptor here that a client could use; they are numbered.
        stats.line(format_args!("listen{number}:addr"), address);
        stats.line(format_args!("listen{number}:state"), "conn_listening");
    }
    let now_s = server.now();
    for info in lock(&server.connections.infos).values() {
        let fd = info.fd;
        let silent_s = now_s.saturating_sub(info.active_s.load(Ordering::Relaxed));
        stats.line(format_args!("{fd}:addr"), &info.address);
        stats.line(format_args!("{fd}:listen_addr"), &info.listen_address);
        stats.line(format_args!("{fd}:state"), info.state());
        stats.line(format_args!("{fd}:secs_since_last_cmd"), silent_s);
    }
}

/// Counts from here on.
pub fn reset(server: &Server) {
    *lock(&server.reset) = server.counters.sum();
    server.connections.total.store(0, Ordering::Relaxed);
    server.connections.rejected.store(0, Ordering::Relaxed);
    server.connections.rejected_by_address.store(0, Ordering::Relaxed);
    server.connections.pauses.store(0, Ordering::Relaxed);
    server.cache.reset_stats();
    server.namespaces.reset();
}
