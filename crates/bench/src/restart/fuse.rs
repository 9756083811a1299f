//! What ends a server in the middle of its work: a count of requests, seeded by the caller, that
//! burns down while they are sent.
//!
//! The thread that sends the last of them ends the server itself, straight after its bytes went
//! out, so that their replies are on the way or not even thought of.
//!
//! A fuse may burn at a rate. A cache moves items down in what time is left to its background: at
//! full speed most are evicted before they come to flash.

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
    /// By SIGTERM: it may put its things in order.
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

/// A count of requests and what happens after the last.
#[derive(Debug)]
pub struct Fuse<'s> {
    server: &'s Server,
    stop: Option<Stop>,
    requests_max: u64,
    /// Requests a second at most, and since when.
    rate: Option<u64>,
    started: Instant,
    // Nothing is published through these: whoever needs more than a hint joins the threads first.
    requests: AtomicU64,
    is_burnt: AtomicBool,
    is_enough: AtomicBool,
}

impl<'s> Fuse<'s> {
    /// Ends the server after so many requests.
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

    /// Lets no more than so many requests through in a second.
    pub fn burning_at(self, rate: Option<u64>) -> Fuse<'s> {
        Fuse { rate, ..self }
    }

    /// How many requests may be sent now.
    pub fn room(&self) -> u64 {
        let Some(rate) = self.rate else {
            return u64::MAX;
        };
        let due = self.started.elapsed().as_secs_f64() * rate as f64;
        (due as u64).saturating_sub(self.requests.load(Ordering::Relaxed))
    }

    /// Where the requests go.
    pub fn server(&self) -> &'s Server {
        self.server
    }

    /// So many requests were sent.
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

    /// Whether the server was ended.
    pub fn is_burnt(&self) -> bool {
        self.is_burnt.load(Ordering::Relaxed)
    }

    /// Asks for no more requests.
    pub fn enough(&self) {
        self.is_enough.store(true, Ordering::Relaxed);
    }

    /// Whether no more requests are wanted.
    pub fn is_enough(&self) -> bool {
        self.is_enough.load(Ordering::Relaxed)
    }
}
