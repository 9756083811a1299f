//! The rights of clients, and which of all requests are changes: the one place that says so, for
//! the three protocols.
//!
//! A client that only reads may make any request that leaves items, settings and statistics as they
//! are. Its hits count and keep items in memory like any client's. Each list is exhaustive, or
//! names the allowed requests: a new request is a change until it is listed here as none. For Redis
//! commands the flags decide that also describe them to clients.

use protocol::Request;
use protocol::binary;
use protocol::request::{Get, MetaGet};
use protocol::resp::Command;

use crate::commands::redis::Entry;
use crate::stats::Topic;

/// The rights of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rights {
    /// To log in.
    #[default]
    None,
    /// Requests that change nothing.
    Read,
    /// Everything that the server offers.
    All,
}

impl Rights {
    /// The rights of an unauthenticated client, where there are users and where there are none.
    pub fn of_strangers(has_users: bool) -> Self {
        if has_users { Self::None } else { Self::All }
    }
}

/// Whether a request of text changes anything.
pub fn is_change(request: &Request<'_>) -> bool {
    match request {
        Request::Get(Get { touch, keys: _, with_cas: _, more: _, refused: _ }) => touch.is_some(),
        Request::MetaGet(get) => is_changing_get(get),
        Request::Stats { arguments } => Topic::of_line(arguments).is_some_and(Topic::is_change),
        Request::Administration { line } => !is_dump(line),
        Request::MetaDebug { .. } | Request::MetaNoop | Request::Version | Request::Quit => false,
        Request::Store(_)
        | Request::MetaSet(_)
        | Request::MetaDelete(_)
        | Request::MetaArithmetic(_)
        | Request::Delete { .. }
        | Request::Arithmetic { .. }
        | Request::Touch { .. }
        | Request::FlushAll { .. }
        | Request::FlushPrefix { .. }
        | Request::Verbosity { .. }
        | Request::CacheMemlimit { .. }
        | Request::Shutdown { .. }
        | Request::RefreshCerts => true,
        // It takes one of few places, and memory for lines that its client may not read.
        Request::Watch { .. } => true,
    }
}

/// Whether an `mg` touches, creates, or takes the one win token that a stale item has to give.
fn is_changing_get(get: &MetaGet<'_>) -> bool {
    let MetaGet {
        touch,
        vivify,
        recache,
        key: _,
        flags: _,
        value: _,
        quiet: _,
        new_cas: _,
        known_cas: _,
    } = get;
    touch.is_some() || vivify.is_some() || recache.is_some()
}

/// `lru_crawler metadump` and `mgdump`: all else that the line may hold tunes something.
fn is_dump(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    words.next() == Some(b"lru_crawler") && matches!(words.next(), Some(b"metadump" | b"mgdump"))
}

/// Whether a request of the binary protocol changes anything.
pub fn is_binary_change(request: &binary::Request<'_>) -> bool {
    use binary::Command;
    match &request.command {
        Command::Get(get) => get.touch.is_some(),
        Command::Stat { arguments } => Topic::of_packet(arguments).is_some_and(Topic::is_change),
        Command::Noop
        | Command::Version
        | Command::Quit
        | Command::SaslList
        | Command::Sasl { .. } => false,
        Command::Store(_)
        | Command::Delete { .. }
        | Command::Arithmetic(_)
        | Command::Flush { .. }
        | Command::Verbosity { .. } => true,
    }
}

/// Redis commands that have nothing to do with items and change nothing, or nothing except the
/// state of their own client.
const WITHOUT_ITEMS: &[&str] = &[
    "auth", "client", "command", "discard", "echo", "exec", "hello", "host:", "info", "multi",
    "ping", "post", "quit", "reset", "select", "time",
];

/// The name of a Redis command if it changes anything; `None` if it does not.
pub fn redis_change(entry: &Entry, command: Command<'_>) -> Option<String> {
    if entry.flags.contains(&"readonly") || WITHOUT_ITEMS.contains(&entry.name) {
        return None;
    }
    if entry.name != "config" {
        return Some(entry.name.to_owned());
    }
    let subcommand = command.words().nth(1).unwrap_or_default().to_ascii_lowercase();
    // Unknown subcommands are answered as for any client.
    (subcommand == b"resetstat").then(|| "config|resetstat".to_owned())
}

#[cfg(test)]
mod tests {
    use protocol::{Parsed, parse};

    use super::*;
    use crate::commands::redis::TABLE;

    fn is_refused(line: &str) -> bool {
        match parse(format!("{line}\r\n").as_bytes(), None) {
            Parsed::Request { request, .. } => is_change(&request),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn requests_that_change_nothing_are_allowed() {
        for line in [
            "get a b",
            "gets a",
            "mg a",
            "mg a v t f h l q k s c Oabc C7",
            "mn",
            "me a",
            "version",
            "quit",
            "stats",
            "stats items",
            "stats settings",
            "stats detail dump",
            "stats resetx",
            "stats detail",
            "lru_crawler metadump all",
            "lru_crawler  mgdump hash",
        ] {
            assert!(!is_refused(line), "{line}");
        }
    }

    #[test]
    fn every_change_is_recognised() {
        for line in [
            "gat 0 a",
            "gats 10 a b",
            "mg a v T30",
            "mg a N30",
            "mg a R30 v",
            "set a 0 0 1",
            "cas a 0 0 1 7",
            "append a 0 0 1 noreply",
            "ms a 1",
            "md a",
            "ma a",
            "delete a",
            "incr a 1",
            "decr a 1 noreply",
            "touch a 0",
            "flush_all",
            "flush_all 10 noreply",
            "flush_prefix a:",
            "verbosity 1",
            "cache_memlimit 64",
            "shutdown",
            "watch fetchers",
            "refresh_certs",
            "stats reset",
            "stats r",
            "stats det of",
            "stats detail on",
            "stats detail off",
            "lru_crawler enable",
            "lru_crawler crawl all",
            "lru tune 1 2",
            "slabs automove 1",
            "extstore free_memchunks 1 1",
        ] {
            assert!(is_refused(line), "{line}");
        }
    }

    #[test]
    fn the_flags_of_redis_commands_decide_what_is_allowed() {
        for entry in TABLE {
            let [write, read] = ["write", "readonly"].map(|flag| entry.flags.contains(&flag));
            let is_named = WITHOUT_ITEMS.contains(&entry.name) || entry.name == "config";
            let count = usize::from(write) + usize::from(read) + usize::from(is_named);
            assert_eq!(count, 1, "{} is one of the three", entry.name);
        }
        for name in WITHOUT_ITEMS {
            assert!(TABLE.iter().any(|entry| entry.name == *name), "{name}");
        }
    }
}
