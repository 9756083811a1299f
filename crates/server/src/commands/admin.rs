//! Requests about the server rather than about one key.

use std::sync::atomic::Ordering;

use io::Clock;
use larder::{Expiry, FlashMisfit, MemoryLimitError, PrefixRefused};
use protocol::parse::tokens::Tokens;
use protocol::reply;
use protocol::request::{ExpiryTime, KeyRoom};
use protocol::{Refusal, Request};
use stdx::sync::lock;

use super::{Context, Flow, answer, tuning};
use crate::connection::Close;
use crate::dump::DumpFormat;
use crate::live_options::is_allowed;
use crate::output::Output;
use crate::server::Server;
use crate::stats::{self, Topic};
use crate::watch;

/// The answer to `version`: a numeric 1.6 first, because clients compare it, and then the name.
pub const VERSION: &str = concat!("1.6.45-larder-", env!("CARGO_PKG_VERSION"));

/// The least megabytes that `cache_memlimit` accepts.
const MEMORY_MEGABYTES_MIN: u64 = 8;

/// Numbers above this `cache_memlimit` takes for bytes.
const MEMORY_MEGABYTES_MAX: u64 = 1_000_000_000;

/// The answer when the limit of dumps is reached.
const BUSY_DUMPING: &str = "BUSY currently processing crawler request\r\n";

const TOO_MANY_WATCHERS: &str = "WATCHER_TOO_MANY log watcher limit reached\r\n";

/// Why the memory limit stays as it is.
#[derive(Debug, Clone, Copy)]
enum LimitRefused {
    TooSmall,
    NotBytes,
    OutOfBounds(MemoryLimitError),
    /// The index could no longer lead to all that fits on flash.
    FlashMisfit(FlashMisfit),
}

impl LimitRefused {
    /// memcached's answer.
    fn reply(self) -> &'static str {
        match self {
            Self::TooSmall => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
            Self::NotBytes => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n",
            Self::OutOfBounds(_) => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
            Self::FlashMisfit(_) => "MEMLIMIT_TOO_SMALL the flash tier needs more memory\r\n",
        }
    }

    /// The text for the log.
    fn text(self) -> String {
        match self {
            Self::TooSmall => format!("a server that serves keeps {MEMORY_MEGABYTES_MIN} or more"),
            Self::NotBytes => "it is in megabytes, not in bytes".to_owned(),
            Self::OutOfBounds(MemoryLimitError { bytes_max }) => format!(
                "it can be at most {}, which follows from what it was at the start; a restart \
                 takes more",
                bytes_max >> 20
            ),
            Self::FlashMisfit(misfit) => misfit.to_string(),
        }
    }
}

/// Executes a request without a key. `line` is the request as it was sent.
pub fn execute<'c>(
    context: &Context<'_, 'c>,
    request: &Request<'_>,
    line: &[u8],
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    match request {
        Request::MetaNoop => reply::line(out.bytes, reply::META_NOOP),
        Request::Version => {
            out.bytes.extend_from_slice(b"VERSION ");
            out.bytes.extend_from_slice(VERSION.as_bytes());
            out.bytes.extend_from_slice(b"\r\n");
        }
        Request::Verbosity { noreply } => {
            set_verbosity(context, line);
            answer(out, *noreply, reply::OK);
        }
        Request::FlushAll { delay, noreply } => flush(context, *delay, *noreply, out),
        Request::FlushPrefix { prefix, noreply } => {
            let prefix = prefix.bytes(&mut KeyRoom::default()).to_vec();
            let flushed = flush_prefix(context, &prefix);
            out.charge_turn();
            answer(out, *noreply, flushed.err().map_or(reply::OK, Unflushed::line));
        }
        Request::CacheMemlimit { megabytes, noreply } => {
            let line = set_memory_limit(context.server, *megabytes);
            out.charge_turn();
            answer(out, *noreply, line);
        }
        Request::Stats { arguments } => {
            stats::write(context.server, Topic::of_line(arguments), out.bytes);
            out.charge_turn();
        }
        Request::RefreshCerts => return Flow::Certificates,
        Request::Quit => return Flow::Close(Close::Normal),
        Request::Shutdown { graceful } => return shutdown(context, *graceful, out),
        Request::Watch { arguments } => return watch(context, arguments, out),
        Request::Administration { line } => return administration(context, line, out),
        _ => unreachable!("requests with keys are executed elsewhere"),
    }
    Flow::Next
}

/// Sets the verbosity; its level stands behind the verb.
fn set_verbosity(context: &Context<'_, '_>, line: &[u8]) {
    let level = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).nth(1);
    let level = level.and_then(|level| str::from_utf8(level.trim_ascii()).ok());
    if let Some(level) = level.and_then(|level| level.parse().ok()) {
        context.server.verbosity.store(level, Ordering::Relaxed);
    }
}

fn flush(context: &Context<'_, '_>, delay: ExpiryTime, noreply: bool, out: &mut Output<'_, '_>) {
    let line = if flush_at(context, delay, out) { reply::OK } else { reply::FLUSH_NOT_ALLOWED };
    answer(out, noreply, line);
}

/// Flushes, now or later; false if that is not allowed.
pub fn flush_at(context: &Context<'_, '_>, delay: ExpiryTime, out: &mut Output<'_, '_>) -> bool {
    let server = context.server;
    if !is_allowed(&server.live.flush_allowed) {
        return false;
    }
    context.counters.cmd_flush.one();
    let at = match delay.resolve(|| server.clock.unix_ms() / 1000) {
        protocol::Expiry::At(unix_s) => Some(Expiry::at(u32::try_from(unix_s).unwrap_or(u32::MAX))),
        protocol::Expiry::Never | protocol::Expiry::Past => None,
    };
    server.cache.flush(at);
    // A flash tier gives all of its segments back.
    out.charge_turn();
    true
}

/// Why a prefix is not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unflushed {
    /// `-F`.
    NotAllowed,
    /// No key can have such a prefix.
    Length,
    /// The limit of prefixes being flushed is reached.
    TooMany,
}

impl Unflushed {
    fn line(self) -> &'static str {
        match self {
            Self::NotAllowed => reply::FLUSH_PREFIX_NOT_ALLOWED,
            Self::Length => Refusal::BadCommandLineFormat.line(),
            Self::TooMany => reply::TOO_MANY_PREFIXES,
        }
    }
}

/// Flushes all keys with a prefix, if that is allowed.
pub fn flush_prefix(context: &Context<'_, '_>, prefix: &[u8]) -> Result<(), Unflushed> {
    let server = context.server;
    if !is_allowed(&server.live.flush_allowed) {
        return Err(Unflushed::NotAllowed);
    }
    server.cache.flush_prefix(prefix).map_err(|refused| match refused {
        PrefixRefused::Length => Unflushed::Length,
        PrefixRefused::TooMany => Unflushed::TooMany,
    })?;
    context.counters.cmd_flush_prefix.one();
    Ok(())
}

/// Changes the memory limit; returns the answer to the client.
fn set_memory_limit(server: &Server, megabytes: u64) -> &'static str {
    if !is_allowed(&server.live.memlimit_allowed) {
        return reply::CACHE_MEMLIMIT_NOT_ALLOWED;
    }
    try_limit(server, megabytes).map_or_else(LimitRefused::reply, |()| reply::OK)
}

/// Changes the memory limit while the server serves, or returns why not.
pub fn limit_memory(server: &Server, megabytes: u64) -> Result<(), String> {
    try_limit(server, megabytes).map_err(LimitRefused::text)
}

fn try_limit(server: &Server, megabytes: u64) -> Result<(), LimitRefused> {
    if megabytes < MEMORY_MEGABYTES_MIN {
        return Err(LimitRefused::TooSmall);
    }
    if megabytes > MEMORY_MEGABYTES_MAX {
        return Err(LimitRefused::NotBytes);
    }
    // A machine word has 64 bits; a limit that it does not hold would exceed every bound.
    let bytes = usize::try_from(megabytes << 20).unwrap_or(usize::MAX);
    if let Some(Err(misfit)) = server.options.flash_fit_beside(bytes as u64) {
        return Err(LimitRefused::FlashMisfit(misfit));
    }
    // Of two simultaneous changes, one must be the last in all of these places.
    let mut asked_for = lock(&server.memory_megabytes);
    server.cache.set_memory_bytes(bytes).map_err(LimitRefused::OutOfBounds)?;
    let before = std::mem::replace(&mut *asked_for, megabytes);
    // A cache keeps some slabs, and their size is that of the start.
    let limit_bytes = server.cache.limit_bytes();
    if limit_bytes > bytes && megabytes != before {
        let used = limit_bytes >> 10;
        server.log(0, &format!("a memory limit of {megabytes} MiB is too small; it is {used} KiB"));
    }
    server.memory_bytes.store(bytes.max(limit_bytes), Ordering::Relaxed);
    server.parked.set_memory_bytes(bytes.max(limit_bytes));
    Ok(())
}

/// Raises the signal that an operator would send, so that there is one way to stop.
fn shutdown<'c>(
    context: &Context<'_, 'c>,
    graceful: Option<bool>,
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    if !is_allowed(&context.server.live.shutdown_allowed) {
        reply::line(out.bytes, reply::SHUTDOWN_NOT_ENABLED);
        return Flow::Next;
    }
    let Some(graceful) = graceful else {
        reply::line(out.bytes, reply::INVALID_SHUTDOWN_MODE);
        return Flow::Next;
    };
    let signal = if graceful { signal_hook::consts::SIGUSR1 } else { signal_hook::consts::SIGINT };
    if let Err(error) = signal_hook::low_level::raise(signal) {
        context.server.log(0, &format!("cannot raise a signal: {error}"));
    }
    Flow::Close(Close::Shutdown)
}

fn watch<'c>(context: &Context<'_, 'c>, arguments: &[u8], out: &mut Output<'_, '_>) -> Flow<'c> {
    let server = context.server;
    let refusal = if !is_allowed(&server.live.watch_allowed) {
        reply::WATCH_NOT_ALLOWED
    } else if !out.is_empty() {
        reply::PIPELINED_WATCH
    } else if let Some(mask) = watch::mask(arguments) {
        let bytes_max = server.live.watcher_bytes_max.load(Ordering::Relaxed);
        match server.watchers.add(mask, context.worker, bytes_max) {
            Some(log) => {
                // Before the client is told that it watches.
                server.evictions.follow(&server.watchers);
                reply::line(out.bytes, reply::OK);
                return Flow::Watch(log);
            }
            None => TOO_MANY_WATCHERS,
        }
    } else {
        reply::ERROR
    };
    reply::line(out.bytes, refusal);
    Flow::Next
}

/// `lru_crawler`, `lru`, `slabs`, `extstore`: dumps, and tuning commands without effect.
fn administration<'c>(
    context: &Context<'_, 'c>,
    line: &[u8],
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    let words: Vec<&[u8]> = Tokens::new(line).collect();
    match words[..] {
        [b"lru_crawler", b"metadump", classes] => dump(context, DumpFormat::Metadump, classes, out),
        [b"lru_crawler", b"mgdump", classes] => dump(context, DumpFormat::Mgdump, classes, out),
        _ => {
            reply::line(out.bytes, tuning::answer(&words));
            Flow::Next
        }
    }
}

fn dump<'c>(
    context: &Context<'_, 'c>,
    format: DumpFormat,
    classes: &[u8],
    out: &mut Output<'_, '_>,
) -> Flow<'c> {
    let is_metadump = format == DumpFormat::Metadump;
    let server = context.server;
    let refusal = if !is_allowed(&server.live.dump_allowed) {
        if is_metadump { reply::METADUMP_NOT_ALLOWED } else { reply::MGDUMP_NOT_ALLOWED }
    } else if !out.is_empty() {
        if is_metadump { reply::PIPELINED_METADUMP } else { reply::PIPELINED_MGDUMP }
    } else if !matches!(classes, b"all" | b"hash") {
        "BADCLASS invalid class id\r\n"
    } else if let Some(dump) = server.dumps.begin(format) {
        reply::line(out.bytes, reply::OK);
        return Flow::Dump(Box::new(dump));
    } else {
        // The next try finds a place, if one of the other dumps' clients does not read.
        server.parked.end_stalled_dump();
        BUSY_DUMPING
    };
    reply::line(out.bytes, refusal);
    Flow::Next
}
