//! `larder-bench null-server`: the floor, a server that does nothing but receive and reply.
//!
//! One thread polls, reads, counts the newlines it read, and writes that many ready-made replies in
//! one write. A `get` line is answered with the very bytes of a hit, the two lines of a `set` with
//! `STORED`. Nothing is parsed beyond the first byte, nothing stored, no key looked at; so this
//! server's cost is the kernel's cost, and no server that answers each request of an unpipelined
//! connection can be cheaper.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use memchr::memchr_iter;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::drive::items::{KEY_BYTES_MAX, KEY_BYTES_MIN, Shape};
use crate::failure::{Failure, Outcome};
use crate::say;

const LISTENER: Token = Token(usize::MAX);
const EVENTS_MAX: usize = 1024;
const READ_BYTES: usize = 64 << 10;
/// Bytes of replies prepared in one piece, or one reply; more are written in several pieces. They
/// stay in a core's own cache: this server's cost is to be the kernel's.
const READY_BYTES: usize = 256 << 10;
/// The most connections at a time; a further one is closed at once.
const CONNECTIONS_MAX: usize = 4096;

/// Answers every get with the same hit and every set with STORED.
#[derive(Debug, Args)]
pub struct NullOptions {
    /// The port on loopback; 0: a free one, which is printed.
    #[arg(long)]
    port: u16,
    /// Bytes of the key in the reply.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64)
        .range(KEY_BYTES_MIN as u64..=KEY_BYTES_MAX as u64))]
    key_bytes: u64,
    /// Bytes of the value in the reply.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    value_bytes: u64,
}

/// A reply, many times over.
struct Replies {
    bytes: Vec<u8>,
    reply_bytes: usize,
    /// Newlines of one request.
    newlines: usize,
}

struct Connection {
    stream: TcpStream,
    /// Whether the requests are sets.
    sets: bool,
    /// Newlines of a request that has not arrived whole.
    newlines: usize,
    /// Whether the last read ended inside a request, so that the next does not show its kind.
    mid_request: bool,
    /// Bytes of replies that the socket has not taken yet.
    owed_bytes: usize,
}

struct NullServer {
    poll: Poll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    hit: Replies,
    stored: Replies,
    buffer: Vec<u8>,
}

/// Serves until the process is ended.
pub fn run(options: &NullOptions) -> Outcome<()> {
    let shape = Shape::fixed(options.key_bytes as usize, options.value_bytes as usize);
    let mut server = NullServer::bind(options.port, shape)?;
    let address = server.listener.local_addr().map_err(Failure::io("asking for the port"))?;
    say::out(format_args!("listening on {address}"))?;
    let mut events = Events::with_capacity(EVENTS_MAX);
    loop {
        server.turn(&mut events)?;
    }
}

impl NullServer {
    fn bind(port: u16, shape: Shape) -> Outcome<NullServer> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listening = || Failure::io(format!("listening on {address}"));
        let mut listener = TcpListener::bind(address).map_err(listening())?;
        let poll = Poll::new().map_err(listening())?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)
            .map_err(listening())?;
        let mut hit = b"VALUE ".to_vec();
        shape.key(0, &mut hit);
        hit.extend_from_slice(format!(" 0 {}\r\n", shape.value_bytes(0)).as_bytes());
        shape.value(0, &mut hit);
        hit.extend_from_slice(b"\r\nEND\r\n");
        Ok(NullServer {
            poll,
            listener,
            connections: Vec::new(),
            hit: Replies::new(&hit, 1),
            stored: Replies::new(b"STORED\r\n", 2),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Waits for events and answers all of them.
    fn turn(&mut self, events: &mut Events) -> Outcome<()> {
        match self.poll.poll(events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            polled => polled.map_err(Failure::io("polling"))?,
        }
        for event in &*events {
            match event.token() {
                LISTENER => self.accept()?,
                Token(number) => self.serve(number),
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Outcome<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Failure::io("accepting")(error)),
            };
            let free = self.connections.iter().position(Option::is_none);
            let number = free.unwrap_or(self.connections.len());
            if number == CONNECTIONS_MAX {
                continue;
            }
            stream.set_nodelay(true).map_err(Failure::io("setting TCP_NODELAY"))?;
            self.poll
                .registry()
                .register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)
                .map_err(Failure::io("registering a connection"))?;
            if number == self.connections.len() {
                self.connections.push(None);
            }
            let connection =
                Connection { stream, sets: false, newlines: 0, mid_request: false, owed_bytes: 0 };
            self.connections[number] = Some(connection);
        }
    }

    /// Answers one connection, and closes it when its client has gone.
    fn serve(&mut self, number: usize) {
        let Some(connection) = self.connections.get_mut(number).and_then(Option::as_mut) else {
            return;
        };
        if connection.turn(&mut self.buffer, &self.hit, &self.stored).is_err() {
            self.connections[number] = None;
        }
    }
}

impl Connection {
    fn turn(&mut self, buffer: &mut [u8], hit: &Replies, stored: &Replies) -> io::Result<()> {
        loop {
            let replies = if self.sets { stored } else { hit };
            if !self.pay(replies)? {
                return Ok(());
            }
            let bytes = match self.stream.read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if !self.mid_request {
                self.sets = buffer[0] == b's';
            }
            let replies = if self.sets { stored } else { hit };
            self.newlines += memchr_iter(b'\n', &buffer[..bytes]).count();
            self.owed_bytes += self.newlines / replies.newlines * replies.reply_bytes;
            self.newlines %= replies.newlines;
            self.mid_request = self.newlines > 0 || buffer[bytes - 1] != b'\n';
            // A read that did not fill the buffer has drained the socket: the next bytes make a
            // new event, and another read would only be a wasted call.
            if bytes < buffer.len() {
                self.pay(replies)?;
                return Ok(());
            }
        }
    }

    /// Writes owed replies; returns whether the socket took all of them.
    fn pay(&mut self, replies: &Replies) -> io::Result<bool> {
        while self.owed_bytes > 0 {
            // Start inside a reply if the socket took only a part of it before.
            let part = self.owed_bytes % replies.reply_bytes;
            let skip = if part == 0 { 0 } else { replies.reply_bytes - part };
            let ready = self.owed_bytes.min(replies.bytes.len() - skip);
            match self.stream.write(&replies.bytes[skip..skip + ready]) {
                Ok(bytes) => self.owed_bytes -= bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl Replies {
    fn new(reply: &[u8], newlines: usize) -> Replies {
        let bytes = reply.repeat((READY_BYTES / reply.len()).max(1));
        Replies { bytes, reply_bytes: reply.len(), newlines }
    }
}

#[cfg(test)]
mod tests {
    use super::{NullServer, READY_BYTES, Replies};
    use crate::drive::Driver;
    use crate::drive::encode::{Dialect, Operation};
    use crate::drive::items::Shape;
    use crate::drive::script::Script;
    use mio::Events;

    /// Regression: replies with values of a megabyte took four gigabytes.
    #[test]
    fn prepared_replies_are_few_where_they_are_long_and_never_none() {
        for reply_bytes in [8, 1000, READY_BYTES, 1_000_000] {
            let replies = Replies::new(&vec![0; reply_bytes], 1);
            assert!(replies.bytes.len() <= READY_BYTES.max(reply_bytes));
            assert!(replies.bytes.len() >= reply_bytes);
        }
    }

    #[test]
    fn every_request_gets_its_reply_at_any_depth() {
        let shape = Shape::fixed(24, 32);
        let mut server = NullServer::bind(0, shape).expect("a free port");
        let address = server.listener.local_addr().expect("bound");
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            let mut events = Events::with_capacity(16);
            while server.turn(&mut events).is_ok() {}
        });
        for operation in [Operation::Get, Operation::Set] {
            let asked = (0..20_000).collect();
            let script = Script::new(Dialect::Text, operation, shape, 1, asked);
            for pipeline in [1, 7, 10_000] {
                let mut driver =
                    Driver::connect(address, &script, pipeline, 3).expect("it listens");
                let run = driver.run(30_000, false).expect("it answers");
                assert_eq!(run.tally.replies, run.requests);
                assert!(run.requests >= 30_000);
                let wanted = if operation == Operation::Get { run.tally.hits } else { 0 };
                assert_eq!(run.tally.hits, wanted);
                assert_eq!(run.tally.stored, run.tally.replies - wanted);
            }
        }
    }
}
