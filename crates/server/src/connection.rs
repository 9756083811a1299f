//! One client's connection: its socket and its state.
//!
//! ```text
//!            +--> Swallow (bytes of a refused value)  --+
//! Idle ------+--> Value (a draft that fills up)       --+--> Idle
//!            +--> Dump (a cursor through the cache)   --+
//!            +--> Login (a password to check)         --+
//!            +--> Certificates (files to read)        --+
//!            +--> Watch (until the client goes)
//! ```
//!
//! An idle connection owns no buffer. Input that a read leaves unparsed (less than a line, or
//! requests behind output that the socket does not take, or behind the end of a turn) is kept in
//! `unread` until the next turn; output that the socket does not take is kept in `parked`, and
//! until that is gone nothing more is read or executed. Nor is anything while a read from flash or
//! the check of a password is under way, or a long value waits for room: replies keep their order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ::io::moment::Stopwatch;
use ::io::net::Stream;
use larder::{Draft, ReadResult};
use protocol::Wire;
use protocol::request::GetContinuation;

use crate::address::Address;
use crate::commands::Login;
use crate::commands::redis::Client;
use crate::connection_id::ConnectionId;
use crate::counters::Counters;
use crate::dump::Dump;
use crate::logins::{Attempt, Claim, Verdict};
use crate::parked::Parked;
use crate::rights::Rights;
use crate::unfinished::Unfinished;
use crate::users::FAILURES_MAX;
use crate::watch::Log;

/// Facts about a connection that other threads may read (`stats conns`).
#[derive(Debug)]
pub struct Info {
    /// Its file descriptor, which is how memcached names connections.
    pub fd: i32,
    /// The client's address.
    pub address: String,
    /// Where it comes from, as limits tell clients apart.
    pub source: Address,
    /// The address of the listener that accepted it.
    pub listen_address: String,
    /// Unix seconds of the last bytes that came in, or of the last progress with what they asked
    /// for: after a turn that others had first, a wait, a part of a dump, or parked output.
    pub active_s: AtomicU32,
    state: AtomicU8,
}

impl Info {
    const STATES: [&'static str; 4] = ["conn_read", "conn_nread", "conn_watch", "conn_mwrite"];

    /// A connection that has just been accepted.
    pub fn new(
        fd: i32,
        (address, source): (String, Address),
        listen_address: String,
        now_s: u32,
    ) -> Self {
        Self {
            fd,
            address,
            source,
            listen_address,
            active_s: AtomicU32::new(now_s),
            state: AtomicU8::new(0),
        }
    }

    /// memcached's word for what the connection waits for.
    pub fn state(&self) -> &'static str {
        Self::STATES[usize::from(self.state.load(Ordering::Relaxed))]
    }
}

/// A connection that has been accepted, on its way to a worker.
#[derive(Debug)]
pub struct Arrival {
    /// Its socket.
    pub stream: Stream,
    /// Facts about it that other threads may read.
    pub info: Arc<Info>,
    /// The protocol of its listener; `None` if there are several, and the first byte decides.
    pub wire: Option<Wire>,
}

/// A value that arrives over several reads.
pub struct Incoming<'c> {
    /// The request before its value; it is parsed again when the value is complete.
    pub line: Box<[u8]>,
    /// The protocol it is in.
    pub wire: Wire,
    /// Where the value goes.
    pub draft: Draft<'c>,
    /// The end of the value in text, as far as it has come.
    pub tail: [u8; 2],
    /// Bytes of the end that have come.
    pub tail_bytes: usize,
    /// Its share of the memory for unfinished values.
    pub unfinished: Unfinished<'c>,
}

impl<'c> Incoming<'c> {
    /// A value of which nothing has arrived.
    pub fn new(wire: Wire, line: &[u8], draft: Draft<'c>, unfinished: Unfinished<'c>) -> Self {
        Self { line: line.into(), wire, draft, tail: [0; 2], tail_bytes: 0, unfinished }
    }

    /// Takes the next bytes; returns how many of them belong to the value and its end. Where the
    /// draft lacks memory it takes no more.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while self.draft.remaining() > 0 && taken < bytes.len() && !self.draft.lacks_memory() {
            taken += self.draft.write(&bytes[taken..]);
        }
        while self.draft.remaining() == 0 && !self.is_complete() && taken < bytes.len() {
            self.tail[self.tail_bytes] = bytes[taken];
            self.tail_bytes += 1;
            taken += 1;
        }
        taken
    }

    /// Bytes of the value and its end that have yet to come.
    pub fn missing_bytes(&self) -> u64 {
        (self.draft.remaining() + self.wire.tail_bytes() - self.tail_bytes) as u64
    }

    /// Whether the value and its end are here.
    pub fn is_complete(&self) -> bool {
        self.draft.remaining() == 0 && self.tail_bytes == self.wire.tail_bytes()
    }
}

/// The work that a connection is in the middle of.
pub enum State<'c> {
    /// Nothing: the next bytes are a request.
    Idle,
    /// Skips this many bytes of a refused value.
    Swallow(u64),
    /// A value fills up.
    Value(Box<Incoming<'c>>),
    /// The certificates are to be read again.
    Certificates,
    /// The client's login has to be checked.
    Login(Box<Login>),
    /// Every item is listed.
    Dump(Box<Dump<'c>>),
    /// Log lines are sent, and nothing is read.
    Watch(Arc<Log>),
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The client is done.
    Normal,
    /// The socket failed, or the client broke the protocol.
    Error,
    /// Silent for too long.
    Idle,
    /// Its replies would not fit the limit for parked output.
    Output,
    /// It took none of its replies, and others needed the room.
    Stalled,
    /// It took nothing of a dump, and others wanted its place.
    StalledDump,
    /// It sent a part of a value and no more, and others needed the memory.
    Unfinished {
        /// The value's number among all unfinished values.
        number: u64,
    },
    /// It did not complete the TLS handshake in time.
    Handshake,
    /// The client did not log in in time.
    Login,
    /// The server stops.
    Shutdown,
}

impl Close {
    /// memcached's word for the reason.
    pub fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Error
            | Self::Output
            | Self::Stalled
            | Self::StalledDump
            | Self::Unfinished { .. }
            | Self::Handshake
            | Self::Login => "error",
            Self::Idle => "idle_timeout",
            Self::Shutdown => "shutdown",
        }
    }
}

impl From<std::io::Error> for Close {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::OutOfMemory => Self::Output,
            _ => Self::Error,
        }
    }
}

/// One client's connection.
pub struct Connection<'c> {
    /// Its socket.
    pub stream: Stream,
    /// Facts about it that other threads may read.
    pub info: Arc<Info>,
    /// Its protocol; `None` until its first byte tells.
    pub wire: Option<Wire>,
    /// The rights of its client, unless [`Client::rights`] has them.
    rights: Rights,
    /// Wrong passwords that it gave, unless [`Client::failures`] counts them.
    failures: u8,
    /// More about a client that speaks the Redis protocol.
    pub redis: Option<Box<Client>>,
    /// The work it is in the middle of.
    pub state: State<'c>,
    /// The multiget whose line has not ended.
    pub continuation: Option<GetContinuation>,
    /// Bytes that have been read and not been parsed.
    pub unread: Vec<u8>,
    /// Output that the socket has not taken.
    pub parked: Parked,
    /// The socket may hold bytes: it became readable and has not been drained since.
    pub is_readable: bool,
    /// The client sends no more: a read of 0 bytes lies ahead.
    pub is_hung_up: bool,
    /// Why it ends as soon as nothing is parked.
    pub closing: Option<Close>,
    /// Its name for other threads.
    pub id: ConnectionId,
    /// Number of deliveries under way: reads from flash, and the check of a password. Until all
    /// have come, nothing is executed.
    pub fetching: usize,
    /// One of these is the check of a password.
    pub is_claiming: bool,
    /// Finished reads from flash.
    pub fetched: Vec<ReadResult>,
    /// The outcome of its login's check.
    pub verdict: Option<Verdict>,
    /// Its turn ended before all of its input was executed: it goes on without an event when others
    /// have had their turns.
    pub gives_way: bool,
    /// Since when it has waited for room for the part of a long value that its client may not take.
    /// Its worker tries again and again.
    pub short_of_room: Option<Stopwatch>,
    /// It stands in its worker's list of those that can go on without an event.
    pub is_queued: bool,
    /// When it came, in Unix seconds.
    pub arrived_s: u32,
    /// Since when the client has been unauthenticated.
    pub unauthenticated: Unauthenticated,
}

/// Since when a client has been unauthenticated, as of the last look.
#[derive(Debug, Default)]
pub struct Unauthenticated {
    since_s: Option<u32>,
}

impl Unauthenticated {
    /// Returns for how many seconds the client has been unauthenticated; `None` if it has logged
    /// in. A client that logs out starts anew.
    pub fn look(&mut self, rights: Rights, now_s: u32) -> Option<u32> {
        if rights != Rights::None {
            self.since_s = None;
            return None;
        }
        Some(now_s.saturating_sub(*self.since_s.get_or_insert(now_s)))
    }
}

impl Connection<'_> {
    /// A connection that has just come to its worker, and its client's rights for now.
    pub fn new(arrival: Arrival, rights: Rights) -> Self {
        let is_redis = arrival.wire == Some(Wire::Redis);
        Self {
            redis: is_redis.then(|| Box::new(Client::new(Arc::clone(&arrival.info), rights))),
            stream: arrival.stream,
            info: arrival.info,
            wire: arrival.wire,
            rights,
            failures: 0,
            state: State::Idle,
            continuation: None,
            unread: Vec::new(),
            parked: Parked::default(),
            is_readable: false,
            is_hung_up: false,
            closing: None,
            id: ConnectionId::default(),
            fetching: 0,
            is_claiming: false,
            fetched: Vec::new(),
            verdict: None,
            gives_way: false,
            short_of_room: None,
            is_queued: false,
            arrived_s: 0,
            unauthenticated: Unauthenticated::default(),
        }
    }

    /// Whether its client has yet to send some of the value of this number.
    pub fn lacks_value(&self, number: u64) -> bool {
        let is_it = |incoming: &Incoming<'_>| incoming.unfinished.number() == number;
        matches!(&self.state, State::Value(it) if is_it(it) && !it.is_complete())
    }

    /// Reads once into `target`: 0 bytes mean that the client sends no more, `None` that there is
    /// nothing now. Counts the bytes, and a TLS session that is complete now: both before any reply
    /// to them.
    #[inline(always)]
    pub fn read(
        &mut self,
        target: &mut [u8],
        counters: &Counters,
    ) -> std::io::Result<Option<usize>> {
        let (read, is_readable) = read_once(&mut self.stream, self.is_hung_up, target)?;
        self.is_readable = is_readable;
        counters.bytes_read.add(read.unwrap_or(0) as u64);
        if let Some(tls) = self.stream.tls()
            && tls.take_new_session() == Some(true)
        {
            counters.ssl_new_sessions.one();
        }
        Ok(read)
    }

    /// The attempt to log in by which `claim` is checked.
    pub fn attempt(&self, claim: Claim) -> Attempt {
        Attempt { from: self.id, address: self.info.source, claim }
    }

    /// Takes the outcome of its login's check.
    pub fn judge(&mut self, verdict: Verdict) {
        match &mut self.redis {
            Some(client) => client.judge(verdict),
            None => self.verdict = Some(verdict),
        }
    }

    /// The rights of its client.
    #[inline]
    pub fn rights(&self) -> Rights {
        self.redis.as_ref().map_or(self.rights, |client| client.rights)
    }

    /// Applies the outcome of a login in text or in the binary protocol: after a wrong one the
    /// client has no rights, and after too many its connection ends.
    pub fn conclude_login(&mut self, verdict: Verdict) {
        self.rights = verdict.rights().unwrap_or(Rights::None);
        self.failures += u8::from(self.rights == Rights::None);
        if self.failures >= FAILURES_MAX {
            self.closing = Some(Close::Normal);
        }
    }

    /// Publishes the state for other threads.
    pub fn publish_state(&self) {
        let state = match self.state {
            _ if !self.parked.is_empty() => 3,
            State::Idle | State::Swallow(_) | State::Certificates | State::Login(_) => 0,
            State::Value(_) => 1,
            State::Watch(_) | State::Dump(..) => 2,
        };
        self.info.state.store(state, Ordering::Relaxed);
    }
}

/// Reads once into `target`, from a client that `is_hung_up` or not: 0 bytes mean that it sends no
/// more, `None` that there is nothing now. Also returns whether there may be more, which no event
/// will announce.
#[inline(always)]
pub fn read_once(
    stream: &mut Stream,
    is_hung_up: bool,
    target: &mut [u8],
) -> std::io::Result<(Option<usize>, bool)> {
    loop {
        match stream.read(target) {
            // Less than there was room for: the socket is drained, and a new event will announce
            // the next bytes, unless the client has hung up already.
            Ok(read) => {
                let is_readable = read == target.len() || is_hung_up || stream.holds_input();
                return Ok((Some(read), is_readable));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // Over TLS the socket may have held less than a record, and the end may stand behind
            // it.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let is_tls = matches!(stream, Stream::Tls(_));
                return Ok((None, is_tls && (is_hung_up || stream.holds_input())));
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_unauthenticated_since_first_seen_so() {
        let mut unauthenticated = Unauthenticated::default();
        assert_eq!(unauthenticated.look(Rights::None, 100), Some(0));
        assert_eq!(unauthenticated.look(Rights::None, 160), Some(60));
        assert_eq!(unauthenticated.look(Rights::Read, 161), None);
        // Redis' `RESET` logs it out again.
        assert_eq!(unauthenticated.look(Rights::None, 500), Some(0));
        assert_eq!(unauthenticated.look(Rights::None, 499), Some(0), "a clock that goes back");
        assert_eq!(Unauthenticated::default().look(Rights::All, 7), None);
    }
}
