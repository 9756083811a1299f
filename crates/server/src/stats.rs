//! `stats` and its arguments, under memcached's names: dashboards and exporters read these.
//!
//! A counter of memcached without a counterpart in Larder is reported with the value that means
//! "nothing of the kind happened", so that a reader finds every name it looks for.

mod compressed;
mod costs;
mod flash;
mod general;
mod items;
mod quotas;
mod settings;
mod topic;

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::Ordering;

use protocol::reply;
use stdx::sync::lock;

use crate::live_options::is_allowed;
use crate::server::Server;

pub use settings::column_pages;
pub use topic::{Detail, Topic};

/// Answers the topic asked for, or that it is unknown.
pub fn write(server: &Server, topic: Option<Topic>, out: &mut Vec<u8>) {
    let mut stats = Stats(out);
    match topic {
        Some(Topic::General) => general::write(server, &mut stats),
        Some(Topic::Settings) => settings::write(server, &mut stats),
        Some(Topic::Items) => items::write_items(server, &mut stats),
        Some(Topic::Slabs) => items::write_slabs(server, &mut stats),
        Some(Topic::Costs) => costs::write(server, &mut stats),
        Some(Topic::Compressed) => compressed::write(server, &mut stats),
        Some(Topic::Quotas) => quotas::write(server, &mut stats),
        Some(Topic::Flash) => flash::write(server, &mut stats),
        Some(Topic::Sizes) => stats.line("sizes_status", "disabled"),
        Some(Topic::Connections) => connections(server, &mut stats),
        Some(Topic::Reset) => {
            reset(server);
            return reply::line(out, reply::RESET);
        }
        Some(Topic::Detail(detail)) => return write_detail(server, detail, out),
        Some(Topic::Cachedump) => return reply::line(out, reply::CACHEDUMP_NOT_ALLOWED),
        None => return reply::line(out, reply::ERROR),
    }
    reply::line(out, reply::END);
}

/// The lines of statistics.
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

/// Turns statistics by namespace on or off, or shows them. Their names are parts of keys.
fn write_detail(server: &Server, detail: Option<Detail>, out: &mut Vec<u8>) {
    let line = match detail {
        _ if !is_allowed(&server.live.dump_allowed) => reply::STATS_DETAIL_NOT_ALLOWED,
        Some(Detail::On | Detail::Off) => {
            server.watchers.set_detail(detail == Some(Detail::On));
            reply::OK
        }
        Some(Detail::Dump) => {
            server.namespaces.dump(out);
            reply::END
        }
        None => "CLIENT_ERROR usage: stats detail on|off|dump\r\n",
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

/// Makes counters count from here on.
pub fn reset(server: &Server) {
    *lock(&server.reset) = server.counters.sum();
    server.connections.total.store(0, Ordering::Relaxed);
    server.connections.rejected.store(0, Ordering::Relaxed);
    server.connections.rejected_by_address.store(0, Ordering::Relaxed);
    server.connections.pauses.store(0, Ordering::Relaxed);
    lock(&server.connections.paused).reset();
    server.cache.reset_stats();
    server.namespaces.reset();
}
