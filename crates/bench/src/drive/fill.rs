//! Storing many items, and reading some back: one blocking connection that keeps the server busy.
//!
//! Sets are gathered into chunks. While the server works on one chunk the next is made, and then
//! the replies of the first are read; so two chunks are in flight at most, whose replies fit into
//! the socket's buffers, and client and server cannot wait for each other.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::drive::encode::{self, Dialect};
use crate::drive::inbox::{Inbox, Received};
use crate::drive::items::Shape;
use crate::drive::reply::{Scanner, Tally};
use crate::failure::{Failure, Outcome};

/// The bytes at which a chunk is sent: a few hundred small items, or one large one.
const CHUNK_BYTES: usize = 64 << 10;
/// A server that is silent for this long is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A connection that stores items and counts the replies.
pub struct Filler {
    stream: TcpStream,
    dialect: Dialect,
    inbox: Inbox,
    chunk: Vec<u8>,
    chunk_requests: u64,
    in_flight: u64,
    tally: Tally,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The result of reading one item back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBack {
    /// Exactly the stored value.
    Right,
    /// No value, or an error in its place.
    Absent,
}

impl Filler {
    /// Connects.
    pub fn connect(address: SocketAddr, dialect: Dialect) -> Outcome<Filler> {
        let stream =
            TcpStream::connect(address).map_err(Failure::io(format!("connecting to {address}")))?;
        stream.set_nodelay(true).map_err(Failure::io("setting TCP_NODELAY"))?;
        let limit = Some(SILENCE_MAX);
        stream.set_read_timeout(limit).map_err(Failure::io("setting a time limit"))?;
        stream.set_write_timeout(limit).map_err(Failure::io("setting a time limit"))?;
        Ok(Filler {
            stream,
            dialect,
            inbox: Inbox::new(),
            chunk: Vec::with_capacity(2 * CHUNK_BYTES),
            chunk_requests: 0,
            in_flight: 0,
            tally: Tally::default(),
            key: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Stores item `index`, now or with a later chunk.
    pub fn store(&mut self, shape: &Shape, index: u64) -> Outcome<()> {
        self.key.clear();
        self.value.clear();
        shape.key(index, &mut self.key);
        shape.value(index, &mut self.value);
        encode::set(self.dialect, &self.key, &self.value, &mut self.chunk);
        self.chunk_requests += 1;
        if self.chunk.len() < CHUNK_BYTES { Ok(()) } else { self.send_chunk(shape) }
    }

    /// Sends the gathered sets and waits for all replies; returns the counts since connecting.
    pub fn finish(&mut self, shape: &Shape) -> Outcome<Tally> {
        self.send_chunk(shape)?;
        self.await_replies(shape, 0)?;
        Ok(self.tally)
    }

    /// Reads item `index`; a wrong value is a failed check.
    pub fn read_back(&mut self, shape: &Shape, index: u64) -> Outcome<ReadBack> {
        assert_eq!(self.in_flight + self.chunk_requests, 0, "sets are still in flight");
        let mut request = Vec::new();
        self.key.clear();
        shape.key(index, &mut self.key);
        encode::get(self.dialect, std::iter::once(self.key.as_slice()), &mut request);
        self.send(&request)?;
        let asked = [u32::try_from(index).expect("items read back have small indices")];
        let scanner = Scanner::new(self.dialect, *shape);
        loop {
            self.receive()?;
            let mut found = Tally::default();
            let mut checker = scanner.checker(&asked);
            let taken = scanner.scan(self.inbox.waiting(), &mut found, Some(&mut checker))?;
            if found.replies > 0 {
                self.inbox.take(taken);
                return Ok(if found.hits == 1 { ReadBack::Right } else { ReadBack::Absent });
            }
        }
    }

    fn send_chunk(&mut self, shape: &Shape) -> Outcome<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.send(&chunk)?;
        self.chunk = chunk;
        self.chunk.clear();
        self.in_flight += self.chunk_requests;
        let newest = std::mem::take(&mut self.chunk_requests);
        self.await_replies(shape, newest)
    }

    fn send(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.stream.write_all(bytes).map_err(Failure::io("sending requests"))
    }

    fn receive(&mut self) -> Outcome<()> {
        match self.inbox.receive(&mut self.stream)? {
            Received::Nothing => Err(Failure::Reply(format!("no reply for {SILENCE_MAX:?}"))),
            Received::Some | Received::Full => Ok(()),
        }
    }

    fn await_replies(&mut self, shape: &Shape, in_flight_max: u64) -> Outcome<()> {
        let scanner = Scanner::new(self.dialect, *shape);
        while self.in_flight > in_flight_max {
            self.receive()?;
            let mut found = Tally::default();
            let taken = scanner.scan(self.inbox.waiting(), &mut found, None)?;
            self.inbox.take(taken);
            let Some(left) = self.in_flight.checked_sub(found.replies) else {
                return Err(Failure::Reply("more replies than requests".into()));
            };
            self.in_flight = left;
            self.tally.add(found);
        }
        Ok(())
    }
}
