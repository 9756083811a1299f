//! One connection of a load: the requests it still has to send, those in flight, and the handling
//! of replies.
//!
//! A client that costs more than the server measures itself. So requests are encoded straight into
//! the write buffer, many to a write; the clock is read once for all replies of one read; and
//! requests that were sent together and answered together are counted together.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;

use crate::drive::inbox::{Inbox, Received};
use crate::failure::{Failure, Outcome};
use crate::load::exchange::{self, Answer, Ask};
use crate::load::found::Found;
use crate::load::job::{Job, Known};
use crate::load::schedule::{Planned, Share, due};
use crate::trace::Operation;
use crate::values::write_key;

/// The most requests in flight on one connection of an open loop. A connection that falls further
/// behind sends later, and is charged for it all the same, since latency counts from the due time.
const FLIGHT_MAX: usize = 4096;
/// The most bytes quoted of an unexpected reply.
const QUOTE_BYTES: usize = 60;

/// A request that waits for its reply.
#[derive(Debug, Clone, Copy)]
struct Flight {
    /// When it was sent, or was due.
    since: Instant,
    /// Its number among the connection's requests.
    number: u32,
    operation: Operation,
    is_fill: bool,
}

/// A socket and its share of the requests.
#[derive(Debug)]
pub struct Connection<'t> {
    /// The socket.
    pub stream: TcpStream,
    share: &'t Share<'t>,
    next: usize,
    /// The first request that has to wait.
    end: usize,
    flight: VecDeque<Flight>,
    inbox: Inbox,
    outbox: Vec<u8>,
    sent: usize,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'t> Connection<'t> {
    /// Returns a connection that has sent nothing.
    pub fn new(stream: TcpStream, share: &'t Share<'t>) -> Self {
        Self {
            stream,
            share,
            next: 0,
            end: share.len(),
            flight: VecDeque::new(),
            inbox: Inbox::new(),
            outbox: Vec::new(),
            sent: 0,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Lets it send all requests before the one at this place in the trace.
    pub fn go_on_before(&mut self, position: u32) {
        self.end = self.share.before(position);
    }

    /// Returns whether everything that it may send was sent and answered.
    pub fn is_done(&self) -> bool {
        self.next >= self.end && self.flight.is_empty()
    }

    /// Returns whether the server owes it a reply.
    pub fn is_owed(&self) -> bool {
        !self.flight.is_empty()
    }

    /// Returns when its next request is due, if there is one and there is room for it.
    pub fn next_due(&self, job: &Job<'_>) -> Option<Duration> {
        if self.next >= self.end {
            return None;
        }
        let position = self.share.request(self.next)?.position;
        match job.per_second {
            None => (self.flight.len() < job.depth).then_some(Duration::ZERO),
            Some(per_second) => (self.flight.len() < FLIGHT_MAX).then(|| due(position, per_second)),
        }
    }

    /// Sends all due requests. A closed loop fills its flight up when half of it is answered:
    /// otherwise a server that writes every reply separately would get its requests one by one too,
    /// and client and server would spend their time on system calls (memcached 1.6.18 with a depth
    /// of 100: 3.4 microseconds of the client's CPU per request instead of 1.1).
    pub fn send(
        &mut self,
        job: &Job<'t>,
        found: &mut Found,
        (started, now): (Instant, Instant),
    ) -> Outcome<()> {
        if job.per_second.is_none() && self.flight.len() > job.depth / 2 {
            return self.flush();
        }
        while let Some(due) = self.next_due(job) {
            if started + due > now {
                break;
            }
            let number = self.next as u32;
            self.next += 1;
            let Planned { operation, position, .. } = self.planned(number);
            let since = if job.per_second.is_some() { started + due } else { now };
            if job.per_second.is_some() && position >= job.warm_up {
                found.late_ns.saturating_record((now - since).as_nanos() as u64);
            }
            self.push(job, Flight { since, number, operation, is_fill: false });
        }
        self.flush()
    }

    fn planned(&self, number: u32) -> Planned {
        self.share.request(number as usize).expect("what is in flight is one of the share's")
    }

    fn push(&mut self, job: &Job<'t>, flight: Flight) {
        let planned = self.planned(flight.number);
        write_key(planned.object, planned.key_bytes, &mut self.key);
        let ask = Ask {
            operation: flight.operation,
            key: &self.key,
            value_bytes: planned.value_bytes,
            ttl_s: planned.ttl_s,
        };
        exchange::request(job.protocol, ask, &mut self.outbox, |out| {
            job.values.append(planned.object, planned.value_bytes, out);
        });
        self.flight.push_back(flight);
    }

    /// Writes as much as the socket takes.
    fn flush(&mut self) -> Outcome<()> {
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

    /// Reads and counts the replies that have come.
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
        let mut together = Together { is_get: true, since: now, replies: 0 };
        while let Some(&flight) = self.flight.front() {
            let waiting = self.inbox.waiting();
            let Some((answer, bytes)) = exchange::reply(job.protocol, flight.operation, waiting)?
            else {
                together.count(now, found);
                return Ok(());
            };
            let planned = self.planned(flight.number);
            if let Answer::Hit(range) = &answer {
                job.check(&planned, &waiting[range.clone()], &mut self.value)?;
            }
            self.inbox.take(bytes);
            self.flight.pop_front();
            if planned.position >= job.warm_up {
                together.add(flight, now, found);
                let is_checked = job.check.known(planned.object) != Known::Nothing;
                count(flight, &answer, is_checked, found);
            }
            if let Answer::Refused(words) = &answer {
                found.counts.refused += 1;
                found.refusal.get_or_insert_with(|| words.clone());
            }
            if answer == Answer::Miss && job.fills_misses {
                let fill =
                    Flight { operation: Operation::Set, since: now, is_fill: true, ..flight };
                self.push(job, fill);
            }
        }
        together.count(now, found);
        let rest = self.inbox.waiting();
        if rest.is_empty() {
            return Ok(());
        }
        let front = rest[..rest.len().min(QUOTE_BYTES)].escape_ascii();
        let spoken = job.protocol.in_words();
        let more = format!("more replies than requests: `{front}`");
        Err(Failure::Reply(format!("{more}; the protocol was to be {spoken}")))
    }
}

/// Replies of one read to requests that were sent at the same time.
struct Together {
    is_get: bool,
    since: Instant,
    replies: u64,
}

impl Together {
    /// Adds one reply; first counts the earlier ones if it does not belong to them.
    fn add(&mut self, flight: Flight, now: Instant, found: &mut Found) {
        let is_get = flight.operation == Operation::Get;
        if (self.is_get, self.since) != (is_get, flight.since) {
            self.count(now, found);
            *self = Together { is_get, since: flight.since, replies: 0 };
        }
        self.replies += 1;
    }

    fn count(&self, now: Instant, found: &mut Found) {
        if self.replies > 0 {
            found.answered(self.is_get, self.since, now, self.replies);
        }
    }
}

fn count(flight: Flight, answer: &Answer, is_checked: bool, found: &mut Found) {
    if flight.operation == Operation::Get {
        found.counts.gets += 1;
    } else if flight.is_fill {
        found.counts.fills += u64::from(*answer == Answer::Done);
    } else {
        found.counts.others += 1;
    }
    if let Answer::Hit(_) = answer {
        found.counts.hits += 1;
        found.counts.checked += u64::from(is_checked);
    }
}
