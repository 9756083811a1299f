//! The options that may change while the server serves.
//!
//! Each is one number or switch that its readers look at when they need it, so that a change needs
//! no lock and no thread has to be told. The options of memory and logging stand beside the cache
//! in [`crate::server::Server`], as clients change them too.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::options::Options;

/// The options that may change.
#[derive(Debug)]
pub struct Live {
    /// Most connections at one time.
    pub connections_max: AtomicUsize,
    /// Seconds of silence after which a connection is closed; 0 for never.
    pub idle_timeout_s: AtomicU64,
    /// Bytes kept for a watcher that reads slowly, from the next one on.
    pub watcher_bytes_max: AtomicUsize,
    /// Seconds that a clean stop may save memory for; 0 for not at all.
    pub save_seconds: AtomicU64,
    /// `shutdown` is allowed.
    pub shutdown_allowed: AtomicBool,
    /// `flush_all` is allowed.
    pub flush_allowed: AtomicBool,
    /// Dumps are allowed.
    pub dump_allowed: AtomicBool,
    /// `watch` is allowed.
    pub watch_allowed: AtomicBool,
    /// `cache_memlimit` is allowed.
    pub memlimit_allowed: AtomicBool,
}

impl Live {
    /// The options as of the start.
    pub fn new(options: &Options) -> Self {
        Self {
            connections_max: AtomicUsize::new(options.connections_max),
            idle_timeout_s: AtomicU64::new(options.idle_timeout_s),
            watcher_bytes_max: AtomicUsize::new(options.watcher_bytes_max),
            save_seconds: AtomicU64::new(options.save_seconds),
            shutdown_allowed: AtomicBool::new(options.shutdown_allowed),
            flush_allowed: AtomicBool::new(options.flush_allowed),
            dump_allowed: AtomicBool::new(options.dump_allowed),
            watch_allowed: AtomicBool::new(options.watch_allowed),
            memlimit_allowed: AtomicBool::new(options.memlimit_allowed),
        }
    }

    /// Most connections at one time.
    pub fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Seconds of silence after which a connection is closed; 0 for never.
    pub fn idle_timeout_s(&self) -> u64 {
        self.idle_timeout_s.load(Ordering::Relaxed)
    }
}

/// Whether something is allowed now.
pub fn is_allowed(allowed: &AtomicBool) -> bool {
    allowed.load(Ordering::Relaxed)
}
