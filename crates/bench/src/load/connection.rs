//! One connection of a load: what it still has to send, what it waits for, and what it makes of
//! the replies.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use crate::drive::inbox::{Inbox, Received};
use crate::failure::{Failure, Outcome};
use crate::load::exchange::{self, Answer, Protocol};
use crate::load::found::Found;
use crate::load::schedule::{Share, due};
use crate::trace::{Operation, Request};
use crate::values::{Values, append_key};

/// Requests in flight on one connection of an open loop. Who falls further behind than this sends
/// later, and is charged for it all the same, since latency counts from the time that was due.
const FLIGHT_MAX: usize = 4096;

/// What all connections of a run have in common.
#[derive(Debug)]
pub struct Job<'t> {
    /// The protocol.
    pub protocol: Protocol,
    /// The trace.
    pub requests: &'t [Request],
    /// The values of its objects.
    pub values: &'t Values,
    /// Stores an object when a get misses it.
    pub fills_misses: bool,
    /// Requests in flight on each connection of a closed loop.
    pub depth: usize,
    /// Requests per second over all connections; none: a closed loop.
    pub per_second: Option<f64>,
    /// Requests at the front of the trace that are sent and not counted.
    pub warm_up: u32,
    /// Whether values of hits are known: nothing in the trace changes a value in place.
    pub checks: bool,
}

/// A request that waits for its reply.
#[derive(Debug, Clone, Copy)]
struct Flight {
    position: u32,
    operation: Operation,
    /// When it was sent, or should have been.
    since: Instant,
    is_fill: bool,
}

/// A socket and its share of the requests.
#[derive(Debug)]
pub struct Connection<'t> {
    /// The socket.
    pub stream: TcpStream,
    share: &'t Share,
    next: usize,
    flight: VecDeque<Flight>,
    inbox: Inbox,
    outbox: Vec<u8>,
    sent: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'t> Connection<'t> {
    /// A connection that has sent nothing.
    pub fn new(stream: TcpStream, share: &'t Share) -> Self {
        Self {
            stream,
            share,
            next: 0,
            flight: VecDeque::new(),
            inbox: Inbox::new(),
            outbox: Vec::new(),
            sent: 0,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Whether everything was sent and answered.
    pub fn is_done(&self) -> bool {
        self.next == self.share.requests.len() && self.flight.is_empty()
    }

    /// Whether the server owes it a reply.
    pub fn is_owed(&self) -> bool {
        !self.flight.is_empty()
    }

    /// When its next request is due, if there is one and there is room for it.
    pub fn next_due(&self, job: &Job<'_>) -> Option<Duration> {
        let position = *self.share.requests.get(self.next)?;
        match job.per_second {
            None => (self.flight.len() < job.depth).then_some(Duration::ZERO),
            Some(per_second) => (self.flight.len() < FLIGHT_MAX).then(|| due(position, per_second)),
        }
    }

    /// Sends whatever is due.
    pub fn send(&mut self, job: &Job<'t>, started: Instant, now: Instant) -> Outcome<()> {
        while let Some(due) = self.next_due(job) {
            if started + due > now {
                break;
            }
            let position = self.share.requests[self.next];
            self.next += 1;
            let operation = job.requests[position as usize].operation;
            let since = if job.per_second.is_some() { started + due } else { now };
            self.push(job, Flight { position, operation, since, is_fill: false });
        }
        self.flush()
    }

    fn push(&mut self, job: &Job<'t>, flight: Flight) {
        let request = &job.requests[flight.position as usize];
        let Self { key, value, outbox, .. } = self;
        key.clear();
        append_key(request, key);
        value.clear();
        if flight.operation != Operation::Get {
            job.values.append(request.object, request.value_bytes, value);
        }
        let key = std::str::from_utf8(key).expect("keys are letters and digits");
        exchange::request(job.protocol, flight.operation, key, value, request.ttl_s, outbox);
        self.flight.push_back(flight);
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self) -> Outcome<()> {
        while self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::io("sending requests")(error)),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads and counts what has come.
    pub fn receive(&mut self, job: &Job<'t>, found: &mut Found) -> Outcome<()> {
        while !self.flight.is_empty() {
            let received = self.inbox.receive(&mut self.stream)?;
            if received != Received::Nothing {
                self.understand(job, found)?;
            }
            if received != Received::Full {
                break;
            }
        }
        Ok(())
    }

    fn understand(&mut self, job: &Job<'t>, found: &mut Found) -> Outcome<()> {
        let now = Instant::now();
        while let Some(&flight) = self.flight.front() {
            let waiting = self.inbox.waiting();
            let Some((answer, bytes)) = exchange::reply(job.protocol, flight.operation, waiting)?
            else {
                return Ok(());
            };
            if let Answer::Hit(range) = &answer
                && job.checks
            {
                check(job, flight, &waiting[range.clone()], &mut self.value)?;
            }
            self.inbox.take(bytes);
            self.flight.pop_front();
            if flight.position >= job.warm_up {
                count(job, flight, &answer, now, found);
            }
            if answer == Answer::Miss && job.fills_misses {
                let fill =
                    Flight { operation: Operation::Set, since: now, is_fill: true, ..flight };
                self.push(job, fill);
            }
        }
        if self.inbox.waiting().is_empty() {
            Ok(())
        } else {
            Err(Failure::Reply("more replies than requests".into()))
        }
    }
}

/// Compares a hit with what was stored: a value of whatever length it had then.
fn check(job: &Job<'_>, flight: Flight, value: &[u8], scratch: &mut Vec<u8>) -> Outcome<()> {
    let request = job.requests[flight.position as usize];
    if job.values.is_value(request.object, value, scratch) {
        return Ok(());
    }
    Err(Failure::Check(format!("object {} came back with another value", request.object)))
}

fn count(job: &Job<'_>, flight: Flight, answer: &Answer, now: Instant, found: &mut Found) {
    let waited_ns = (now - flight.since).as_nanos() as u64;
    found.note(flight.since, now);
    if flight.operation == Operation::Get {
        found.get_ns.saturating_record(waited_ns);
        found.counts.gets += 1;
    } else {
        found.other_ns.saturating_record(waited_ns);
        found.counts.fills += u64::from(flight.is_fill);
        found.counts.others += u64::from(!flight.is_fill);
    }
    match answer {
        Answer::Hit(_) => {
            found.counts.hits += 1;
            found.counts.checked += u64::from(job.checks);
        }
        Answer::Refused(words) => {
            found.counts.refused += 1;
            found.refusal.get_or_insert_with(|| words.clone());
        }
        Answer::Miss | Answer::Done | Answer::NotDone => {}
    }
}
