//! The thread that accepts: it takes connections from every listener and deals them out to the
//! workers in turn.
//!
//! At the limit (`-c`) a new connection gets a line that says so and is closed; with `-o
//! no_maxconns_fast` accepting pauses instead until a connection ends, and new clients wait in the
//! kernel's backlog. A client whose address has as many connections as it may is refused in any
//! case.

use std::io::{ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::io::moment::Stopwatch;
use ::io::net::Stream;
use ::io::poll::{Events, Interest, Poll, Token};
use protocol::{Wire, reply, resp};

use crate::address::Address;
use crate::connection::{Arrival, Info};
use crate::listen::Endpoint;
use crate::server::Server;

/// The waker's token; listeners use the tokens from 0 on.
pub const WAKE: Token = Token(usize::MAX);

/// Delay after which accepting is tried again when the process has no descriptors left.
const RETRY: Duration = Duration::from_millis(10);

/// Interval between log lines about failures to accept.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Connections accepted at one listener before the others, and the end of the server, are looked
/// at.
const ACCEPTS_MAX: usize = 256;

/// The thread's state.
pub struct Acceptor<'c> {
    server: &'c Server,
    endpoints: Vec<Endpoint>,
    poll: Poll,
    next_worker: usize,
    /// When a failure to accept was last logged.
    failed: Option<Stopwatch>,
}

impl<'c> Acceptor<'c> {
    /// Accepts at `endpoints`, woken through `poll`.
    pub fn new(server: &'c Server, mut endpoints: Vec<Endpoint>, poll: Poll) -> Result<Self> {
        for (number, endpoint) in endpoints.iter_mut().enumerate() {
            poll.registry().register(&mut endpoint.listener, Token(number), Interest::READABLE)?;
        }
        Ok(Self { server, endpoints, poll, next_worker: 0, failed: None })
    }

    /// Accepts until the server stops.
    pub fn run(mut self) {
        let mut events = Events::with_capacity(64);
        let mut timeout = None;
        while !self.server.is_stopping() {
            if let Err(error) = self.poll.poll(&mut events, timeout) {
                assert!(error.kind() == ErrorKind::Interrupted, "cannot wait: {error}");
            }
            timeout = self.accept_all();
        }
    }

    /// Accepts from every listener: events are edges, and a pause may have swallowed some. Returns
    /// the delay after which the listeners have to be asked again without an event.
    fn accept_all(&mut self) -> Option<Duration> {
        let mut timeout: Option<Duration> = None;
        for number in 0..self.endpoints.len() {
            let again = self.accept_some(number);
            timeout = timeout.into_iter().chain(again).min();
        }
        timeout
    }

    /// Accepts from one listener until its backlog is empty, or others come first. Returns the
    /// delay after which it has to be asked again.
    fn accept_some(&mut self, number: usize) -> Option<Duration> {
        for _ in 0..ACCEPTS_MAX {
            if self.must_pause() {
                return None;
            }
            match self.endpoints[number].listener.accept() {
                Ok(stream) => self.admit(stream, number),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    // Accepting is tried again a hundred times a second.
                    if self.failed.is_none_or(|failed| failed.elapsed() >= SAY_AGAIN) {
                        self.failed = Some(Stopwatch::start());
                        self.server.log(0, &format!("cannot accept: {error}"));
                    }
                    return Some(RETRY);
                }
            }
        }
        Some(Duration::ZERO)
    }

    /// With `no_maxconns_fast`: whether the limit is reached. The acceptor looks again after
    /// setting the pause, so that the end of the last connection cannot slip through in between.
    fn must_pause(&self) -> bool {
        let connections = &self.server.connections;
        if self.server.options.connections_fast {
            return false;
        }
        let is_full =
            || connections.current.load(Ordering::SeqCst) >= self.server.live.connections_max();
        if !is_full() {
            connections.go_on();
            return false;
        }
        connections.pause();
        if is_full() {
            return true;
        }
        connections.go_on();
        false
    }

    /// Hands a connection to the next worker, or refuses it.
    fn admit(&mut self, mut stream: Stream, number: usize) {
        let server = self.server;
        let connections = &server.connections;
        let source = Address::of(stream.peer());
        let is_full = connections.current.load(Ordering::Relaxed) >= server.live.connections_max();
        let per_address_max = server.options.connections_per_address_max;
        if is_full || !connections.by_address.try_enter(source, per_address_max) {
            let count =
                if is_full { &connections.rejected } else { &connections.rejected_by_address };
            count.fetch_add(1, Ordering::Relaxed);
            // The socket is new, so its buffer takes the line; if not, the close tells the same,
            // and over TLS nothing else does.
            if self.endpoints[number].is_tls {
                return;
            }
            let line = match self.endpoints[number].wire {
                Some(Wire::Redis) => resp::reply::TOO_MANY_CLIENTS,
                _ => reply::TOO_MANY_CONNECTIONS,
            };
            let _ = stream.write(line.as_bytes());
            return;
        }
        let Endpoint { listener, wire, is_tls, option: _ } = &self.endpoints[number];
        let stream = match server.tls.as_ref().filter(|_| *is_tls) {
            None => stream,
            Some(tls) => match tls.wrap(stream) {
                Ok(stream) => stream,
                Err(error) => {
                    connections.by_address.leave(source, per_address_max);
                    return server.log(1, &format!("cannot start TLS: {error}"));
                }
            },
        };
        let listener = listener.name();
        let address = match stream.peer() {
            Some(peer) => format!("tcp:{peer}"),
            None => listener.clone(),
        };
        let info =
            Arc::new(Info::new(stream.as_raw_fd(), (address, source), listener, server.now()));
        connections.enter(Arc::clone(&info));
        let worker = self.next_worker;
        self.next_worker = (worker + 1) % server.mailboxes.len();
        server.mailboxes[worker].send(Arrival { stream, info, wire: *wire });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::options::Options;
    use crate::start::tests::Parts;

    /// Regression: as long as clients came faster than they were accepted, no other listener was
    /// asked, and the server did not end.
    #[test]
    fn a_flood_at_one_listener_does_not_starve_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let unix_path = Some(path.clone());
        let options = Options { unix_path, connections_max: 2 * ACCEPTS_MAX, ..Options::default() };
        let Parts { server, endpoints, accept_poll: poll, .. } = Parts::new(options);
        endpoints[0].listener.listen(2 * ACCEPTS_MAX as i32).expect("nobody else listens there");
        let mut acceptor = Acceptor::new(&server, endpoints, poll).expect("a queue");
        // By then every connected client waits in its backlog.
        let connect = |_| UnixStream::connect(&path).expect("it listens");
        let clients: Vec<_> = (0..=ACCEPTS_MAX).map(connect).collect();
        let accepted = || server.connections.total.load(Ordering::Relaxed);
        assert_eq!(acceptor.accept_all(), Some(Duration::ZERO));
        assert_eq!(accepted(), ACCEPTS_MAX as u64);
        assert_eq!(acceptor.accept_all(), None);
        assert_eq!(accepted(), clients.len() as u64);
    }
}
