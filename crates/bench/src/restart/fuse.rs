//! Ends a server in the middle of its work: a count of requests, seeded by the caller, that burns
//! down while they are sent.
//!
//! The thread that sends the last of them ends the server itself, straight after the write, so that
//! their replies are on the way or not yet made.
//!
//! A fuse may burn at a rate. A cache demotes items in the time left to its background: at full
//! speed most are evicted before they reach flash.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::failure::Outcome;
use crate::server::Server;

/// How a server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// By SIGKILL: it can do nothing more.
    Kill,
    /// By SIGTERM: it may save its state.
    Terminate,
}

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Stop::Kill => "kill",
            Stop::Terminate => "term",
        })
    }
}

/// A count of requests and the action after the last.
#[derive(Debug)]
pub struct Fuse<'s> {
    server: &'s Server,
    stop: Option<Stop>,
    requests_max: u64,
    /// The most requests a second, since `started`.
    rate: Option<u64>,
    started: Instant,
    // Relaxed: nothing is published through these. A reader that needs more than a hint joins the
    // threads first.
    requests: AtomicU64,
    is_burnt: AtomicBool,
    is_enough: AtomicBool,
}

impl<'s> Fuse<'s> {
    /// Ends the server after `requests_max` requests.
    pub fn new(server: &'s Server, stop: Stop, requests_max: u64) -> Fuse<'s> {
        Fuse { stop: Some(stop), requests_max, ..Fuse::never(server) }
    }

    /// Never ends the server.
    pub fn never(server: &'s Server) -> Fuse<'s> {
        Fuse {
            server,
            stop: None,
            requests_max: u64::MAX,
            rate: None,
            started: Instant::now(),
            requests: AtomicU64::new(0),
            is_burnt: AtomicBool::new(false),
            is_enough: AtomicBool::new(false),
        }
    }

    /// Lets no more than `rate` requests through per second.
    pub fn burning_at(self, rate: Option<u64>) -> Fuse<'s> {
        Fuse { rate, ..self }
    }

    /// Returns how many requests may be sent now.
    pub fn room(&self) -> u64 {
        let Some(rate) = self.rate else {
            return u64::MAX;
        };
        let due = self.started.elapsed().as_secs_f64() * rate as f64;
        (due as u64).saturating_sub(self.requests.load(Ordering::Relaxed))
    }

    /// Returns the server of the requests.
    pub fn server(&self) -> &'s Server {
        self.server
    }

    /// Counts sent requests, and ends the server after the last.
    pub fn spend(&self, requests: u64) -> Outcome<()> {
        let before = self.requests.fetch_add(requests, Ordering::Relaxed);
        let is_last = before < self.requests_max && before + requests >= self.requests_max;
        let Some(stop) = self.stop.filter(|_| is_last) else {
            return Ok(());
        };
        self.is_burnt.store(true, Ordering::Relaxed);
        match stop {
            Stop::Kill => self.server.kill(),
            Stop::Terminate => self.server.ask_to_end(),
        }
    }

    /// Returns whether the server was ended.
    pub fn is_burnt(&self) -> bool {
        self.is_burnt.load(Ordering::Relaxed)
    }

    /// Asks for no more requests.
    pub fn enough(&self) {
        self.is_enough.store(true, Ordering::Relaxed);
    }

    /// Returns whether no more requests are wanted.
    pub fn is_enough(&self) -> bool {
        self.is_enough.load(Ordering::Relaxed)
    }
}
