//! `watch`: log lines streamed to clients that asked for them.
//!
//! Each watcher has a bounded log that every worker may append to and that the watcher's own worker
//! empties into its socket. A line that does not fit is dropped and counted; when there is room
//! again the watcher is sent the number with `skipped=N`. While there is no watcher, a request
//! costs one relaxed load.
//!
//! Evictions happen inside the engine, under its locks. It notes them in an [`EvictionLog`], which
//! is passed on by the background thread, and by any thread that logs a request.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use larder::{Evicted, Expiry, Hash, Observer, Session};
use protocol::reply::dump::uri_encoded;
use stdx::sync::lock;

use crate::worker::Mailbox;

/// Reads.
pub const FETCHERS: u32 = 1;
/// Writes.
pub const MUTATIONS: u32 = 2;
/// Evictions.
pub const EVICTIONS: u32 = 4;
/// Connections that come and go.
pub const CONNEVENTS: u32 = 8;
/// Deletes.
pub const DELETIONS: u32 = 16;
/// No watcher's bit: requests are counted by the namespaces of their keys. It stands here so that
/// commands test it in the load that they do anyway.
pub const DETAIL: u32 = 0x4000_0000;
/// memcached's events by these names do not happen here; the words are accepted.
const NEVER: u32 = 0x8000_0000;

/// Most watchers at one time.
const WATCHERS_MAX: usize = 20;

/// Reads the words behind `watch`; `None` if one is unknown.
pub fn mask(arguments: &[u8]) -> Option<u32> {
    let mut mask = 0;
    for word in arguments.split(|&byte| byte == b' ').filter(|word| !word.is_empty()) {
        mask |= match word {
            b"fetchers" => FETCHERS,
            b"mutations" => MUTATIONS,
            b"evictions" => EVICTIONS,
            b"connevents" => CONNEVENTS,
            b"deletions" => DELETIONS,
            b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => NEVER,
            _ => return None,
        };
    }
    Some(if mask == 0 { FETCHERS } else { mask })
}

/// One watcher's log.
#[derive(Debug)]
pub struct Log {
    mask: u32,
    worker: usize,
    bytes_max: usize,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    skipped: u64,
}

impl Log {
    /// Moves the logged lines to the end of `out`.
    pub fn drain(&self, out: &mut Vec<u8>) {
        let mut lines = lock(&self.lines);
        out.append(&mut lines.bytes);
        if lines.skipped > 0 {
            out.extend_from_slice(format!("skipped={}\n", lines.skipped).as_bytes());
            lines.skipped = 0;
        }
    }

    /// Appends a line; true if the watcher must be woken.
    fn append(&self, line: &[u8], Counts { sent, skipped, .. }: &Counts) -> bool {
        let mut lines = lock(&self.lines);
        if lines.bytes.len() + line.len() > self.bytes_max {
            lines.skipped += 1;
            skipped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let was_empty = lines.bytes.is_empty();
        lines.bytes.extend_from_slice(line);
        sent.fetch_add(1, Ordering::Relaxed);
        was_empty
    }
}

/// All watchers.
#[derive(Debug, Default)]
pub struct Watchers {
    mask: AtomicU32,
    counts: Counts,
    logs: Mutex<Vec<Arc<Log>>>,
}

/// Lines since the start. Only shown as numbers.
#[derive(Debug, Default)]
struct Counts {
    /// Lines written; also the last one's number.
    written: AtomicU64,
    /// Lines put into a watcher's log, counted once for each watcher.
    sent: AtomicU64,
    /// Lines not put there, for want of room.
    skipped: AtomicU64,
}

/// The numbers about watchers in `stats`.
#[derive(Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Number of watchers.
    pub watchers: u64,
    /// Lines that were written for them.
    pub written: u64,
    /// Lines that went to one of them.
    pub sent: u64,
    /// Lines that one of them missed.
    pub skipped: u64,
}

impl Watchers {
    /// Whether any watcher wants any of `mask`.
    #[inline]
    pub fn want(&self, mask: u32) -> bool {
        self.mask.load(Ordering::Relaxed) & mask != 0
    }

    /// A new watcher on `worker`; `None` if there are too many.
    pub fn add(&self, mask: u32, worker: usize, bytes_max: usize) -> Option<Arc<Log>> {
        let mut logs = lock(&self.logs);
        if logs.len() >= WATCHERS_MAX {
            return None;
        }
        let log = Arc::new(Log { mask, worker, bytes_max, lines: Mutex::default() });
        logs.push(Arc::clone(&log));
        self.mask.fetch_or(mask, Ordering::Relaxed);
        Some(log)
    }

    /// Removes a watcher that has gone.
    pub fn remove(&self, log: &Arc<Log>) {
        let mut logs = lock(&self.logs);
        logs.retain(|known| !Arc::ptr_eq(known, log));
        let detail = self.mask.load(Ordering::Relaxed) & DETAIL;
        let mask = logs.iter().fold(detail, |mask, log| mask | log.mask);
        self.mask.store(mask, Ordering::Relaxed);
    }

    /// Turns counting by namespace on or off.
    pub fn set_detail(&self, is_on: bool) {
        let _logs = lock(&self.logs);
        if is_on {
            self.mask.fetch_or(DETAIL, Ordering::Relaxed);
        } else {
            self.mask.fetch_and(!DETAIL, Ordering::Relaxed);
        }
    }

    /// Counts lines for the watchers of `mask` that were lost on their way.
    fn lose(&self, mask: u32, lines: u64) {
        for log in lock(&self.logs).iter().filter(|log| log.mask & mask != 0) {
            lock(&log.lines).skipped += lines;
            self.counts.skipped.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// The number of watchers, and counts of the lines for them.
    pub fn numbers(&self) -> Numbers {
        let Counts { written, sent, skipped } = &self.counts;
        let [written, sent, skipped] =
            [written, sent, skipped].map(|count| count.load(Ordering::Relaxed));
        Numbers { watchers: lock(&self.logs).len() as u64, written, sent, skipped }
    }

    /// Logs `text` (with everything from `type=` on) for all watchers of `mask`.
    #[inline(never)]
    pub fn log(&self, mask: u32, mailboxes: &[Arc<Mailbox>], text: &str) {
        let id = self.counts.written.fetch_add(1, Ordering::Relaxed) + 1;
        let time = io::moment::unix_time();
        let line = format!("ts={}.{} gid={id} {text}\n", time.as_secs(), time.subsec_micros());
        for log in lock(&self.logs).iter().filter(|log| log.mask & mask != 0) {
            if log.append(line.as_bytes(), &self.counts) {
                mailboxes[log.worker].wake();
            }
        }
    }
}

/// Evictions that have not been passed on to watchers yet.
#[derive(Debug, Default)]
pub struct EvictionLog {
    is_watching: AtomicBool,
    waiting: Mutex<Evictions>,
}

/// Evictions since the last time.
#[derive(Debug, Default)]
struct Evictions {
    /// At most [`EVICTIONS_WAITING_MAX`].
    lines: Vec<String>,
    /// Evictions beyond that.
    lost: u64,
}

/// Lines that wait for the background thread, which comes ten times a second and whenever there is
/// pressure. Evictions beyond that are skipped.
const EVICTIONS_WAITING_MAX: usize = 4096;

impl EvictionLog {
    /// Collects evictions from now on, if any watcher wants them.
    pub fn follow(&self, watchers: &Watchers) {
        self.is_watching.store(watchers.want(EVICTIONS), Ordering::Relaxed);
    }

    /// Passes the evictions since the last time on to the watchers.
    pub fn pass_on(&self, watchers: &Watchers, mailboxes: &[Arc<Mailbox>]) {
        self.follow(watchers);
        let Evictions { lines, lost } = std::mem::take(&mut *lock(&self.waiting));
        for line in lines {
            watchers.log(EVICTIONS, mailboxes, &line);
        }
        if lost > 0 {
            watchers.lose(EVICTIONS, lost);
        }
    }

    /// Logs a request like [`Watchers::log`], behind the evictions until then. If only the
    /// background thread passed evictions on, busy workers would leave no room in a log.
    #[inline(never)]
    pub fn log_behind(
        &self,
        watchers: &Watchers,
        mailboxes: &[Arc<Mailbox>],
        mask: u32,
        text: &str,
    ) {
        if watchers.want(EVICTIONS) {
            self.pass_on(watchers, mailboxes);
        }
        watchers.log(mask, mailboxes, text);
    }
}

impl Observer for EvictionLog {
    fn is_watching(&self) -> bool {
        self.is_watching.load(Ordering::Relaxed)
    }

    fn evicted(&self, evicted: &Evicted<'_>) {
        let mut waiting = lock(&self.waiting);
        if waiting.lines.len() == EVICTIONS_WAITING_MAX {
            waiting.lost += 1;
            return;
        }
        let (key, fetch) = (key_text(evicted.key), if evicted.fetched { "yes" } else { "no" });
        let ttl =
            if evicted.expiry == Expiry::NEVER { -1 } else { i64::from(evicted.expiry.second()) };
        let (idle, class, bytes) = (evicted.idle_seconds, evicted.class, evicted.value_bytes);
        waiting.lines.push(format!(
            "type=eviction key={key} fetch={fetch} ttl={ttl} la={idle} clsid={class} size={bytes}"
        ));
    }
}

/// A key as log lines show it.
pub fn key_text(key: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    uri_encoded(&mut bytes, key);
    String::from_utf8(bytes).expect("an encoded key is ASCII")
}

/// A key as log lines show it, but unescaped where it is a word without a percent sign, so that no
/// two keys have the same text.
pub fn word_text(key: &[u8]) -> String {
    let is_other = |c: char| c.is_control() || c.is_whitespace() || c == '%';
    let text = str::from_utf8(key).ok().filter(|text| !text.contains(is_other));
    text.map_or_else(|| key_text(key), str::to_owned)
}

/// `type=item_get ...`
pub fn item_get(key: &[u8], is_hit: bool, class: u32, fd: i32, value_bytes: usize) -> String {
    let key = key_text(key);
    let status = if is_hit { "found" } else { "not_found" };
    format!("type=item_get key={key} status={status} clsid={class} cfd={fd} size={value_bytes}")
}

/// `type=item_store ...`
pub fn item_store(
    key: &[u8],
    status: &str,
    command: &str,
    ttl_s: u64,
    fd: i32,
    (class, value_bytes): (u32, usize),
) -> String {
    let mut text = format!("type=item_store key={} status={status} cmd={command}", key_text(key));
    // Writing to a String cannot fail.
    let _ = write!(text, " ttl={ttl_s} clsid={class} cfd={fd} size={value_bytes}");
    text
}

/// The size class and the value's length of the key's item, zeros if it is not there: looked up
/// beside the request, and only for watchers of mutations. Deletions are shown without: with a
/// look-up there, too, the compiler builds the ordinary `get` with about 50 instructions more.
#[cold]
#[inline(never)]
pub fn shape(session: &Session<'_>, key: &[u8], hash: Hash) -> (u32, usize) {
    session.peek(key, hash).map_or((0, 0), |item| (item.class(), item.value_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_mask() {
        assert_eq!(mask(b""), Some(FETCHERS));
        assert_eq!(mask(b"mutations  deletions"), Some(MUTATIONS | DELETIONS));
        assert_eq!(mask(b"fetchers nonsense"), None);
    }

    #[test]
    fn a_full_log_drops_and_counts() {
        let watchers = Watchers::default();
        let log = watchers.add(FETCHERS, 0, 10).expect("room for a watcher");
        assert!(watchers.want(FETCHERS | MUTATIONS) && !watchers.want(MUTATIONS));
        assert!(log.append(b"12345\n", &watchers.counts));
        assert!(!log.append(b"67890\n", &watchers.counts));
        let mut out = Vec::new();
        log.drain(&mut out);
        assert_eq!(out, b"12345\nskipped=1\n");
        let numbers = Numbers { watchers: 1, written: 0, sent: 1, skipped: 1 };
        assert_eq!(watchers.numbers(), numbers);
        watchers.remove(&log);
        assert!(!watchers.want(FETCHERS));
    }

    /// Regression: all evictions beyond the limit counted as one, and watchers did not hear of
    /// them.
    #[test]
    fn every_eviction_without_room_is_reported_as_skipped() {
        let (watchers, evictions) = (Watchers::default(), EvictionLog::default());
        let log = watchers.add(EVICTIONS, 0, 1 << 20).expect("room for a watcher");
        let other = watchers.add(FETCHERS, 0, 1 << 20).expect("room for a watcher");
        // It has been woken already.
        log.append(b"\n", &watchers.counts);
        let expiry = Expiry::NEVER;
        let (key, fetched) = (&b"k"[..], false);
        let evicted = Evicted { key, value_bytes: 1, expiry, fetched, idle_seconds: 0, class: 1 };
        (0..EVICTIONS_WAITING_MAX + 3).for_each(|_| evictions.evicted(&evicted));
        evictions.pass_on(&watchers, &[]);
        let mut out = Vec::new();
        log.drain(&mut out);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.matches("type=eviction key=k ").count(), EVICTIONS_WAITING_MAX);
        assert!(text.ends_with("size=1\nskipped=3\n"), "{}", &text[text.len() - 100..]);
        let mut out = Vec::new();
        other.drain(&mut out);
        assert!(out.is_empty());
        assert_eq!(watchers.numbers().skipped, 3);
    }

    #[test]
    fn an_eviction_is_logged_before_the_requests_after_it() {
        let (watchers, evictions) = (Watchers::default(), EvictionLog::default());
        let log = watchers.add(EVICTIONS | MUTATIONS, 0, 256).expect("room for a watcher");
        // It has been woken already.
        log.append(b"\n", &watchers.counts);
        let (key, expiry, fetched) = (&b"k"[..], Expiry::NEVER, false);
        let evicted = Evicted { key, value_bytes: 1, expiry, fetched, idle_seconds: 0, class: 1 };
        evictions.evicted(&evicted);
        (0..10).for_each(|_| evictions.log_behind(&watchers, &[], MUTATIONS, "type=item_store"));
        let mut out = Vec::new();
        log.drain(&mut out);
        let text = String::from_utf8(out).expect("text");
        let kinds: Vec<_> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
        assert_eq!(kinds[..2], ["type=eviction", "type=item_store"], "{text}");
        assert!(text.contains("skipped="), "the log was full: {text}");
    }

    #[test]
    fn there_is_a_limit_to_watchers() {
        let watchers = Watchers::default();
        for _ in 0..WATCHERS_MAX {
            watchers.add(FETCHERS, 0, 10).expect("below the limit");
        }
        assert!(watchers.add(FETCHERS, 0, 10).is_none());
    }
}
