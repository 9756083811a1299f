//! The state that all threads of the server share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use io::device::FileDevice;
use io::moment::Stopwatch;
use io::poll::Waker;
use io::{Clock, SystemClock};
use larder::Cache;
use stdx::sync::lock;

use crate::address;
use crate::commands::redis::Listings;
use crate::connection::Info;
use crate::counters::{CounterSets, Sums};
use crate::dump::Dumps;
use crate::insight::Insight;
use crate::listen::PLAIN_PREFIX;
use crate::live_options::Live;
use crate::logins::Logins;
use crate::memory_file::Found;
use crate::namespaces::Namespaces;
use crate::options::Options;
use crate::parked::ParkedLimit;
use crate::sampling::Sample;
use crate::stdio;
use crate::tls::Tls;
use crate::unfinished::UnfinishedLimit;
use crate::users::Users;
use crate::watch::{EvictionLog, Watchers};
use crate::worker::Mailbox;
use crate::worker_lists::Lists;

/// The server: the cache and everything beside it that more than one thread uses.
pub struct Server {
    /// The cache.
    pub cache: Cache,
    /// The file or device of its flash tier.
    pub flash_file: Option<Arc<FileDevice>>,
    /// The options at the start.
    pub options: Options,
    /// Their values that may have changed since.
    pub live: Live,
    /// The workers' counters.
    pub counters: CounterSets,
    /// Connections on their way to the workers.
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Wakes the acceptor.
    pub acceptor: Waker,
    /// Connections that watch the log.
    pub watchers: Watchers,
    /// Counters by namespace, while [`crate::watch::DETAIL`] is set.
    pub namespaces: Namespaces,
    /// Evictions for them to log.
    pub evictions: Arc<EvictionLog>,
    /// The limit on parked output.
    pub parked: ParkedLimit,
    /// The limit on memory for unfinished values.
    pub unfinished: UnfinishedLimit,
    /// Everything about the connections as a whole.
    pub connections: Connections,
    /// Set when the threads have to end.
    pub stopping: AtomicBool,
    /// `verbosity`.
    pub verbosity: AtomicU32,
    /// `limit_maxbytes`, which `cache_memlimit` changes.
    pub memory_bytes: AtomicUsize,
    /// The last limit asked for, from which that is computed; locked to change both.
    pub memory_megabytes: Mutex<u64>,
    /// The sums that `stats reset` subtracts.
    pub reset: Mutex<Sums>,
    /// TLS and its certificates, where it is spoken.
    pub tls: Option<Tls>,
    /// The users, unless anyone may use the server.
    pub users: Option<Users>,
    /// The file of options, if there is one; for `stats settings`.
    pub config: Option<PathBuf>,
    /// Logins to be checked.
    pub logins: Logins,
    /// The items found in the memory file at the start, if there was one.
    pub found: OnceLock<Found>,
    /// The phase, for readiness checks.
    pub phase: PhaseCell,
    /// Scans on flash that are kept.
    pub listings: Listings,
    /// Dumps that are under way.
    pub dumps: Dumps,
    /// A sample of the times that requests took, with `--admin-port`.
    pub samples: Lists<Sample>,
    /// Observations of keys, with `--admin-port`.
    pub insight: Insight,
    /// When the server started.
    pub started: Stopwatch,
    /// All addresses that it listens at.
    pub listening: Vec<String>,
    /// The time outside of a cache session, by the cache's own clock.
    pub clock: Arc<SystemClock>,
}

impl Server {
    /// The workers' counters since the start or the last `stats reset`.
    pub fn sums(&self) -> Sums {
        self.counters.since(&self.reset)
    }

    /// The limit of all memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Unix seconds.
    pub fn now(&self) -> u32 {
        self.clock.unix_seconds()
    }

    /// Whether the threads have to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Tells every thread to end. Release pairs with the load in [`Self::is_stopping`].
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_all();
        self.logins.close();
        self.cache.call_for_work();
    }

    /// Wakes the acceptor to look whether it may go on.
    pub fn wake_acceptor(&self) {
        self.acceptor.wake().expect("an eventfd takes a write for as long as it is open");
    }

    /// Wakes every thread that waits for sockets.
    pub fn wake_all(&self) {
        self.wake_acceptor();
        for mailbox in &self.mailboxes {
            mailbox.wake();
        }
    }

    /// Writes a line to standard error if `verbosity` is at least `level`, and if there is room.
    pub fn log(&self, level: u32, text: &str) {
        if self.verbosity.load(Ordering::Relaxed) >= level {
            stdio::err_at_once(format_args!("larder: {text}"));
        }
    }
}

/// The phases of a server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has not begun to serve.
    Starting,
    /// It stores the items of the memory file.
    Restoring,
    /// It serves.
    Serving,
    /// It ends connections, and saves memory where that is asked for.
    Stopping,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Starting, Self::Restoring, Self::Serving, Self::Stopping];

    /// The phase's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Restoring => "restoring memory",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        }
    }
}

/// The phase, which one thread sets and another reads. It guards no other memory.
#[derive(Debug, Default)]
pub struct PhaseCell(AtomicU8);

impl PhaseCell {
    /// Enters a phase.
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    /// The phase now.
    pub fn get(&self) -> Phase {
        Phase::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }
}

/// The connections as a whole.
#[derive(Debug, Default)]
pub struct Connections {
    /// Open now.
    pub current: AtomicUsize,
    /// Since the start or `stats reset`.
    pub total: AtomicU64,
    /// Refused at the limit.
    pub rejected: AtomicU64,
    /// Refused at the limit of an address.
    pub rejected_by_address: AtomicU64,
    /// Open connections by address, where that is limited.
    pub by_address: address::Counts,
    /// How often accepting was paused at the limit.
    pub pauses: AtomicU64,
    /// Accepting is paused now.
    pub is_paused: AtomicBool,
    /// The time that accepting was paused.
    pub paused: Mutex<Paused>,
    /// One entry for each by its descriptor, for `stats conns`.
    pub infos: Mutex<BTreeMap<i32, Arc<Info>>>,
}

/// The time that accepting was paused.
#[derive(Debug, Default)]
pub struct Paused {
    /// Since when it is paused, if it is.
    since: Option<Stopwatch>,
    /// The time of earlier pauses.
    before: Duration,
}

impl Paused {
    /// The time of all pauses, until now.
    pub fn time(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Counts from now on.
    pub fn reset(&mut self) {
        *self = Self { since: self.since.map(|_| Stopwatch::start()), before: Duration::ZERO };
    }
}

impl Connections {
    /// Notes that accepting pauses. Called by the acceptor, as is [`Self::go_on`].
    pub fn pause(&self) {
        if !self.is_paused.swap(true, Ordering::SeqCst) {
            self.pauses.fetch_add(1, Ordering::Relaxed);
            lock(&self.paused).since = Some(Stopwatch::start());
        }
    }

    /// Notes that accepting goes on, if it was paused.
    pub fn go_on(&self) {
        if self.is_paused.swap(false, Ordering::SeqCst) {
            let mut paused = lock(&self.paused);
            *paused = Paused { since: None, before: paused.time() };
        }
    }

    /// Counts a connection in.
    pub fn enter(&self, info: Arc<Info>) {
        self.current.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        lock(&self.infos).insert(info.fd, info);
    }

    /// Called before a connection's socket is closed: its descriptor will soon be another's.
    pub fn forget(&self, fd: i32) {
        lock(&self.infos).remove(&fd);
    }

    /// Called after it was closed: counts it out; true if the acceptor waits for that.
    pub fn leave(&self) -> bool {
        // SeqCst on both pairs with the acceptor, which first sets that it pauses and then reads
        // the number again: one of the two sees the other.
        self.current.fetch_sub(1, Ordering::SeqCst);
        self.is_paused.load(Ordering::SeqCst)
    }
}

impl Server {
    /// TLS, if the admin port speaks it.
    pub fn admin_tls(&self) -> Option<&Tls> {
        self.tls.as_ref().filter(|_| !self.options.admin_listen.starts_with(PLAIN_PREFIX))
    }

    /// The CAS unique of an item as clients see it.
    pub fn shown_cas(&self, cas: u64) -> u64 {
        if self.options.cas { cas } else { 0 }
    }

    /// The first TCP port that memcached's clients find it at.
    pub fn tcp_port(&self) -> Option<u16> {
        if self.options.unix_path.is_some() {
            return None;
        }
        let address = self.listening.iter().find_map(|name| name.strip_prefix("tcp:"))?;
        address.rsplit_once(':')?.1.parse().ok()
    }
}
