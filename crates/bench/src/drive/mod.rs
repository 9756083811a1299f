//! The load generator: one thread, many connections, a closed loop.
//!
//! Each connection sends a batch in one write, counts replies until the batch is answered, and
//! sends the next. The requests were encoded before (`script`), and replies are parsed only as far
//! as counting needs (`reply`), so that one core saturates a fast server. One batch in 64 is
//! checked byte by byte. A driver keeps its connections between runs, so that the server's CPU time
//! can be read before and after a run while nothing is in flight.

pub mod choice;
pub mod command;
pub mod encode;
pub mod fill;
pub mod inbox;
pub mod items;
pub mod reply;
pub mod script;
pub mod wire;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};

use crate::failure::{Failure, Outcome};
use inbox::{Inbox, Received};
use reply::{Checker, Scanner, Tally};
use rustls::ClientConfig;
use script::Script;
use wire::Wire;

/// The most connections of one driver, far above the need of a comparison.
pub const CONNECTIONS_MAX: usize = 4096;
/// One batch in this many is checked byte by byte: too few to cost time, enough to find damage.
const CHECK_EVERY: u64 = 64;
/// A server that is silent for this long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Latencies are kept in nanoseconds to two digits; greater ones count as the greatest.
const LATENCY_DIGITS: u8 = 2;
const LATENCY_NS_MAX: u64 = 10_000_000_000;
const EVENTS_MAX: usize = 1024;

/// The results of a run, as the client sees them.
#[derive(Debug)]
pub struct Run {
    /// The replies.
    pub tally: Tally,
    /// Requests sent and answered.
    pub requests: u64,
    /// Keys named by those requests.
    pub keys: u64,
    /// The time from the first write to the last reply.
    pub elapsed: Duration,
    /// Nanoseconds from the write of a batch to its last reply.
    pub latency_ns: Histogram<u64>,
}

/// One thread's connections to one server, running one script.
pub struct Driver<'s> {
    script: &'s Script,
    scanner: Scanner,
    pipeline: usize,
    poll: Poll,
    connections: Vec<Connection<'s>>,
    /// The number of the next batch; it goes on from run to run.
    ordinal: u64,
}

struct Connection<'s> {
    stream: Wire,
    inbox: Inbox,
    /// The rest of the current batch, which the socket has not taken yet.
    unsent: &'s [u8],
    replies_left: u64,
    /// The check of the current batch, if it is one to check.
    checked: Option<Checker<'s>>,
    sent_at: Instant,
}

impl<'s> Driver<'s> {
    /// Connects, sending nothing yet.
    pub fn connect(
        address: SocketAddr,
        script: &'s Script,
        pipeline: usize,
        connections: usize,
    ) -> Outcome<Driver<'s>> {
        Self::connect_over(address, None, script, pipeline, connections)
    }

    /// Connects, over TLS if there is a configuration of it.
    pub fn connect_over(
        address: SocketAddr,
        tls: Option<&Arc<ClientConfig>>,
        script: &'s Script,
        pipeline: usize,
        connections: usize,
    ) -> Outcome<Driver<'s>> {
        assert!((1..=CONNECTIONS_MAX).contains(&connections), "connections out of range");
        let poll = Poll::new().map_err(Failure::io("making a poll"))?;
        let mut all = Vec::with_capacity(connections);
        for number in 0..connections {
            let mut stream = Wire::connect(address, tls)?;
            poll.registry()
                .register(stream.socket(), Token(number), Interest::READABLE | Interest::WRITABLE)
                .map_err(Failure::io("registering a connection"))?;
            all.push(Connection {
                stream,
                inbox: Inbox::new(),
                unsent: &[],
                replies_left: 0,
                checked: None,
                sent_at: Instant::now(),
            });
        }
        let scanner = Scanner::new(script.dialect(), script.shape());
        let pipeline = pipeline.min(script.requests());
        Ok(Driver { script, scanner, pipeline, poll, connections: all, ordinal: 0 })
    }

    /// Sends at least `requests` requests, in whole batches, and waits for all replies.
    pub fn run(&mut self, requests: u64, check: bool) -> Outcome<Run> {
        let batches = requests.div_ceil(self.pipeline as u64).max(1);
        let mut latency_ns = Histogram::new_with_max(LATENCY_NS_MAX, LATENCY_DIGITS)
            .expect("the constants are in range");
        let mut tally = Tally::default();
        let started = Instant::now();
        let last = self.ordinal + batches;
        let mut done = 0;
        for number in 0..self.connections.len() {
            self.send_next(number, last, check, started)?;
        }
        let mut events = Events::with_capacity(EVENTS_MAX);
        while done < batches {
            self.wait(&mut events)?;
            for event in &events {
                let Token(number) = event.token();
                self.connections[number].flush()?;
                if self.connections[number].receive(&self.scanner, &mut tally)? {
                    let now = Instant::now();
                    let waited = now - self.connections[number].sent_at;
                    latency_ns.saturating_record(waited.as_nanos() as u64);
                    done += 1;
                    self.send_next(number, last, check, now)?;
                }
            }
        }
        let requests = batches * self.pipeline as u64;
        let keys = requests * self.script.keys_per_request() as u64;
        Ok(Run { tally, requests, keys, elapsed: started.elapsed(), latency_ns })
    }

    /// Gives the connection its next batch, unless the run has no more.
    fn send_next(&mut self, number: usize, last: u64, check: bool, now: Instant) -> Outcome<()> {
        if self.ordinal == last {
            return Ok(());
        }
        let batch = self.script.batch(self.ordinal, self.pipeline);
        let connection = &mut self.connections[number];
        connection.unsent = batch.bytes;
        connection.replies_left = batch.replies;
        let is_checked = check && self.ordinal.is_multiple_of(CHECK_EVERY);
        connection.checked = is_checked.then(|| self.scanner.checker(batch.asked));
        connection.sent_at = now;
        self.ordinal += 1;
        connection.flush()
    }

    fn wait(&mut self, events: &mut Events) -> Outcome<()> {
        match self.poll.poll(events, Some(SILENCE_MAX)) {
            Ok(()) if events.is_empty() => {
                Err(Failure::Reply(format!("no reply for {SILENCE_MAX:?}")))
            }
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(Failure::io("waiting for replies")(error)),
        }
    }
}

impl Connection<'_> {
    /// Writes as much of the current batch as the socket takes.
    fn flush(&mut self) -> Outcome<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(self.unsent) {
                Ok(bytes) => self.unsent = &self.unsent[bytes..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::io("sending requests")(error)),
            }
        }
        Ok(())
    }

    /// Reads the bytes that have come; returns whether they completed the current batch.
    fn receive(&mut self, scanner: &Scanner, tally: &mut Tally) -> Outcome<bool> {
        if self.replies_left == 0 {
            return Ok(false);
        }
        while self.replies_left > 0 {
            let received = self.inbox.receive(&mut self.stream)?;
            if received == Received::Nothing {
                break;
            }
            self.count(scanner, tally)?;
            if received == Received::Some && self.stream.is_drained_by_short_reads() {
                break;
            }
        }
        Ok(self.replies_left == 0)
    }

    /// Counts the replies in the inbox.
    fn count(&mut self, scanner: &Scanner, tally: &mut Tally) -> Outcome<()> {
        let mut found = Tally::default();
        let taken = scanner.scan(self.inbox.waiting(), &mut found, self.checked.as_mut())?;
        if found.refused > 0 {
            let text = String::from_utf8_lossy(self.inbox.waiting()).into_owned();
            let line = text.lines().find(|line| line.contains("ERR")).unwrap_or(&text).to_owned();
            return Err(Failure::Reply(format!("the server refused a request: {line}")));
        }
        self.inbox.take(taken);
        let Some(left) = self.replies_left.checked_sub(found.replies) else {
            return Err(Failure::Reply("more replies than requests".into()));
        };
        self.replies_left = left;
        tally.add(found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::Driver;
    use super::encode::{Dialect, Operation};
    use super::items::{Shape, Size};
    use super::script::Script;

    const SHAPE: Shape = Shape { key_bytes: 12, size: Size::Fixed(50_000) };
    const MANY: usize = 100;

    /// Regression: a batch to check was kept until it had arrived whole, and one of 100 values of
    /// 50,000 bytes exceeded the limit of a reply.
    #[test]
    fn a_batch_to_check_may_be_longer_than_any_reply() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let script = Script::new(Dialect::Text, Operation::Get, SHAPE, 1, vec![7; MANY]);
        let asked_bytes = script.batch(0, MANY).bytes.len();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it is connected to");
            stream.read_exact(&mut vec![0; asked_bytes]).expect("a batch");
            let (mut key, mut reply) = (Vec::new(), b"VALUE ".to_vec());
            SHAPE.key(7, &mut key);
            reply.extend_from_slice(&key);
            reply.extend_from_slice(b" 0 50000\r\n");
            SHAPE.value(7, &mut reply);
            reply.extend_from_slice(b"\r\nEND\r\n");
            stream.write_all(&reply.repeat(MANY)).expect("it is read");
        });
        let mut driver = Driver::connect(address, &script, MANY, 1).expect("it listens");
        let run = driver.run(MANY as u64, true).expect("all is right");
        assert_eq!((run.tally.hits, run.tally.checked), (100, 100));
    }
}
