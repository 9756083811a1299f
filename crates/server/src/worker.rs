//! A worker: one thread, one readiness queue, its share of the connections.
//!
//! The loop waits for events, gives every connection that has one a turn, then gives one turn to
//! each connection that could go on without an event. New connections come through the
//! [`Mailbox`], whose waker also announces log lines for watchers and the end of the server.
//!
//! A connection that waits for flash does not hold up the others: its reads begin after the replies
//! to all ready requests are written, and a turn of the loop decodes at most [`DELIVERIES_MAX`]
//! finished reads, after the ready connections. Where the kernel allows it, reads go through the
//! worker's own ring, whose descriptor it polls along with the sockets; otherwise threads read and
//! deliver into the mailbox.

mod stop;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use ::io::moment::Stopwatch;
use ::io::poll::{Events, Interest, Poll, SourceFd, Token, Waker};
use larder::ReadResult;
use stdx::sync::lock;

use crate::ahead::ReadAhead;
use crate::connection::{Arrival, Close, Connection, State};
use crate::connection_id::ConnectionId;
use crate::logins::Verdict;
use crate::parked::{ParkedLimit, TRY_AFTER};
use crate::rights::Rights;
use crate::sampling::Sampling;
use crate::server::Server;
use crate::turn::{After, TurnExecutor};
use crate::watch::{CONNEVENTS, key_text};

/// The waker's token; connections use the tokens from 0 on.
const WAKE: Token = Token(usize::MAX);

/// The ring's token: reads from flash have ended.
const RING: Token = Token(usize::MAX - 1);

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// Reads from flash that one turn of the loop takes: decoding this many takes some hundred
/// microseconds, during which requests for items in memory arrive.
const DELIVERIES_MAX: usize = 16;

/// Interval between looks for silent connections.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// Delay before reads for which the kernel had no memory are handed to it again.
const HAND_OVER_AFTER: Duration = Duration::from_millis(1);

/// Interval at which connections that wait for room are tried again: other clients free room by
/// reading, and nothing announces it.
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// Seconds a client may take for the TLS handshake.
const HANDSHAKE_PATIENCE_S: u32 = 10;

/// Seconds a client may take to log in, where there are users: enough to type a password, and short
/// enough that clients that never log in do not keep others out.
const LOGIN_PATIENCE_S: u32 = 60;

/// Something that a connection has waited for.
#[derive(Debug)]
pub struct Delivery {
    /// The connection that waited for it.
    pub to: ConnectionId,
    /// The thing that has come.
    pub message: Message,
}

/// The contents of a delivery.
#[derive(Debug)]
pub enum Message {
    /// Something was read from flash.
    FlashRead(ReadResult),
    /// The client's login was checked.
    Login(Verdict),
    /// Others needed the memory kept for it: it has to be closed.
    Close(Close),
}

/// A worker's new connections until it takes them, and deliveries for its connections. It holds at
/// most as many connections as `-c` allows, and at most as many deliveries as the connections have
/// asked for.
#[derive(Debug)]
pub struct Mailbox {
    arrivals: Mutex<Vec<Arrival>>,
    /// Deliveries that the worker has not taken yet.
    deliveries: Mutex<Vec<Delivery>>,
    /// Whether there are any deliveries, written under their lock.
    has_deliveries: AtomicBool,
    /// The worker's thread, once it runs.
    worker: OnceLock<ThreadId>,
    waker: Waker,
}

impl Mailbox {
    /// A mailbox that wakes the thread waiting on `poll`.
    pub fn new(poll: &Poll) -> io::Result<Self> {
        Ok(Self {
            arrivals: Mutex::default(),
            deliveries: Mutex::default(),
            has_deliveries: AtomicBool::new(false),
            worker: OnceLock::new(),
            waker: Waker::new(poll.registry(), WAKE)?,
        })
    }

    /// Hands a connection over.
    pub fn send(&self, arrival: Arrival) {
        lock(&self.arrivals).push(arrival);
        self.wake();
    }

    /// Hands over what a connection waits for. The worker takes all deliveries at once, at the end
    /// of each turn of its loop, so only the first wakes it; it looks before it waits, so its own
    /// deliveries never do.
    pub fn deliver(&self, delivery: Delivery) {
        let was_empty = {
            let mut deliveries = lock(&self.deliveries);
            deliveries.push(delivery);
            self.has_deliveries.store(true, Ordering::Relaxed);
            deliveries.len() == 1
        };
        if was_empty && self.worker.get() != Some(&thread::current().id()) {
            self.wake();
        }
    }

    /// Whether something was delivered. A delivery made at this very moment may be missed: it wakes
    /// the worker.
    fn has_deliveries(&self) -> bool {
        self.has_deliveries.load(Ordering::Relaxed)
    }

    /// Moves the deliveries to `taken`.
    fn take_deliveries(&self, taken: &mut VecDeque<Delivery>) {
        let mut deliveries = lock(&self.deliveries);
        taken.extend(deliveries.drain(..));
        self.has_deliveries.store(false, Ordering::Relaxed);
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.waker.wake().expect("an eventfd takes a write for as long as it is open");
    }
}

/// One worker thread's state.
pub struct Worker<'c, S> {
    server: &'c Server,
    number: usize,
    poll: Poll,
    connections: Vec<Option<Connection<'c>>>,
    vacant: Vec<usize>,
    queue: VecDeque<usize>,
    /// Connections that watch, and perhaps some that no longer do.
    watchers: Vec<usize>,
    /// Connections that wait for room for their replies, oldest first, and perhaps some that no
    /// longer do.
    short_of_room: VecDeque<usize>,
    /// Deliveries from the mailbox that are yet to be handled.
    deliveries: VecDeque<Delivery>,
    turner: TurnExecutor<'c, S>,
    ahead: ReadAhead,
    /// Number of connections so far.
    serial: u64,
    now_s: u32,
    looked_s: u32,
    /// Some of its connections have, or lately had, output parked.
    has_parked: bool,
    /// When sockets with parked output were last tried.
    tried: Stopwatch,
    /// When connections that wait for room were last tried.
    tried_room: Stopwatch,
    /// Connections that were in the TLS handshake or not logged in at the last look, and those that
    /// came or logged out since.
    unsettled: usize,
    /// Clients have to log in.
    has_users: bool,
    /// Nothing more is read.
    is_ending: bool,
}

impl<'c, S: Sampling> Worker<'c, S> {
    /// Worker `number`, on the queue that its mailbox wakes.
    pub fn new(server: &'c Server, number: usize, poll: Poll, sampling: S) -> Self {
        Self {
            server,
            number,
            poll,
            connections: Vec::new(),
            vacant: Vec::new(),
            queue: VecDeque::new(),
            watchers: Vec::new(),
            short_of_room: VecDeque::new(),
            deliveries: VecDeque::new(),
            turner: TurnExecutor::new(server, number, sampling),
            ahead: ReadAhead::new(),
            serial: 0,
            now_s: server.now(),
            looked_s: 0,
            has_parked: false,
            tried: Stopwatch::start(),
            tried_room: Stopwatch::start(),
            unsettled: 0,
            has_users: server.users.is_some(),
            is_ending: false,
        }
    }

    /// Works until the server stops.
    pub fn run(mut self) {
        // The background may share this core. If the kernel refuses, clients wait longer.
        let _ = ::io::thread::ask_for_short_turns();
        self.open_ring();
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.server.is_stopping() {
            let timeout = self.timeout();
            self.go_round(&mut events, timeout);
        }
        self.stop(&mut events);
    }

    /// How long the loop may wait for an event before something else is due.
    fn timeout(&mut self) -> Option<Duration> {
        if self.can_go_on() {
            Some(Duration::ZERO)
        } else if self.turner.is_behind() {
            Some(HAND_OVER_AFTER)
        } else if !self.short_of_room.is_empty() {
            Some(ROOM_LOOK)
        } else if self.has_parked {
            Some(TRY_AFTER)
        } else if self.server.live.idle_timeout_s() > 0 || self.unsettled > 0 {
            Some(IDLE_LOOK)
        } else {
            None
        }
    }

    /// Whether there is something to do without an event.
    fn can_go_on(&self) -> bool {
        let mailbox = &self.server.mailboxes[self.number];
        !self.queue.is_empty() || !self.deliveries.is_empty() || mailbox.has_deliveries()
    }

    /// One turn of the loop.
    fn go_round(&mut self, events: &mut Events, timeout: Option<Duration>) {
        let mailbox = &self.server.mailboxes[self.number];
        self.wait(events, timeout);
        let is_woken = self.take_events(events);
        self.turner.begin_reads();
        self.take_queue();
        if is_woken {
            self.take_arrivals();
            self.turn_watchers();
        }
        self.turner.answer_reads();
        if is_woken || mailbox.has_deliveries() {
            mailbox.take_deliveries(&mut self.deliveries);
        }
        if !self.deliveries.is_empty() {
            self.take_deliveries();
        }
        self.try_parked();
        self.try_short_of_room();
        self.turner.begin_reads();
        self.kick_idle();
    }

    /// Has reads from flash go through this thread's own ring, if the kernel allows it.
    fn open_ring(&mut self) {
        let mailbox = &self.server.mailboxes[self.number];
        mailbox.worker.set(thread::current().id()).expect("a worker runs once");
        let Some(ring) = self.server.cache.read_ring() else { return };
        let registered = ring.descriptor().map(|ring| {
            self.poll.registry().register(&mut SourceFd(&ring), RING, Interest::READABLE)
        });
        // Without a ring, other threads read.
        if let Some(Ok(())) = registered {
            self.turner.read_through(ring);
        }
    }

    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(events, timeout) {
            assert!(error.kind() == ErrorKind::Interrupted, "cannot wait for events: {error}");
        }
        self.now_s = self.server.now();
    }

    /// Gives a turn to every connection with an event; true if the waker was among them.
    fn take_events(&mut self, events: &Events) -> bool {
        let mut is_woken = false;
        for event in events {
            if event.token() == WAKE {
                is_woken = true;
                continue;
            }
            let slot = event.token().0;
            // The ring's event belongs to no connection: its reads are taken at the end of the
            // turn.
            let Some(Some(connection)) = self.connections.get_mut(slot) else {
                continue;
            };
            if event.is_readable() {
                connection.is_readable = true;
                connection.info.active_s.store(self.now_s, Ordering::Relaxed);
            }
            if event.is_read_closed() || event.is_error() {
                connection.is_readable = true;
                connection.is_hung_up = true;
            }
            if !ReadAhead::suits(connection) {
                self.turn(slot);
                continue;
            }
            let counters = self.server.counters.of(self.number);
            if let Err(close) = self.ahead.read(slot, connection, counters) {
                self.close(slot, close);
            }
            if !self.ahead.has_room() {
                self.take_ahead();
            }
        }
        self.take_ahead();
        is_woken
    }

    /// Executes the input that was read ahead.
    fn take_ahead(&mut self) {
        self.ahead.fetch(&self.server.cache);
        let mut batch = self.ahead.take();
        // Closing one may log a line for watchers, and a thread that holds a session must not wait
        // for theirs.
        let mut closed = Vec::new();
        self.turner.begin_together();
        for read in &mut batch.reads {
            if let Some(Some(connection)) = self.connections.get_mut(read.slot) {
                let input = &batch.input[read.bytes.clone()];
                match self.turner.execute_ahead(connection, input, &mut batch.replies) {
                    Ok(reply_bytes) => read.reply_bytes = reply_bytes,
                    Err(close) => closed.push((read.slot, close)),
                }
            }
        }
        self.turner.end_together();
        closed.into_iter().for_each(|(slot, close)| self.close(slot, close));
        self.turner.begin_own_reads();
        let mut replies = &batch.replies[..];
        for read in &batch.reads {
            let (own, others) = replies.split_at(read.reply_bytes);
            replies = others;
            if let Some(Some(connection)) = self.connections.get_mut(read.slot) {
                let after = self.turner.end_ahead(connection, own, read.is_ended);
                self.end_turn(read.slot, after);
            }
        }
        self.ahead.put_back(batch);
    }

    /// Gives a turn to every connection that can go on without an event.
    fn take_queue(&mut self) {
        for _ in 0..self.queue.len() {
            self.take_queued();
        }
    }

    /// Gives a turn to the first of these.
    fn take_queued(&mut self) {
        let Some(slot) = self.queue.pop_front() else { return };
        if let Some(Some(connection)) = self.connections.get_mut(slot) {
            connection.is_queued = false;
            self.turn(slot);
        }
    }

    fn turn(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else {
            return;
        };
        if self.is_ending {
            stop::prepare(connection);
        }
        let after = self.turner.turn(connection);
        self.end_turn(slot, after);
    }

    /// Acts on the outcome of a turn.
    fn end_turn(&mut self, slot: usize, after: Result<After, Close>) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else {
            return;
        };
        self.has_parked |= !connection.parked.is_empty();
        if self.has_users && connection.rights() == Rights::None {
            // A client that has logged out gets as long to log in as a new one.
            self.unsettled = self.unsettled.max(1);
        }
        if matches!(connection.state, State::Watch(_)) && !self.watchers.contains(&slot) {
            self.watchers.push(slot);
        }
        if connection.short_of_room.is_some() && !self.short_of_room.contains(&slot) {
            self.short_of_room.push_back(slot);
        }
        match after {
            Ok(After::Wait) => {
                if self.is_ending && stop::is_done(connection) {
                    self.close(slot, Close::Shutdown);
                }
            }
            Ok(After::Again) => {
                if !connection.is_queued {
                    connection.is_queued = true;
                    self.queue.push_back(slot);
                    self.server.counters.of(self.number).conn_yields.one();
                }
            }
            Err(close) => self.close(slot, close),
        }
    }

    /// Gives a turn to watchers, whose logs may have grown.
    fn turn_watchers(&mut self) {
        // Those that still watch are added again by their turns.
        for slot in mem::take(&mut self.watchers) {
            let connection = self.connections.get(slot).and_then(Option::as_ref);
            if connection.is_some_and(|it| matches!(it.state, State::Watch(_))) {
                self.turn(slot);
            }
        }
    }

    /// Hands deliveries to their connections, and lets those continue that have got all they waited
    /// for. Kept out of the loop, most of whose turns have no deliveries.
    #[cold]
    fn take_deliveries(&mut self) {
        for _ in 0..DELIVERIES_MAX.min(self.deliveries.len()) {
            let Some(Delivery { to, message }) = self.deliveries.pop_front() else {
                break;
            };
            if let Message::Login(verdict) = message {
                self.count_login(verdict);
            }
            let waiting = self.connections.get_mut(to.slot).and_then(Option::as_mut);
            let Some(connection) = waiting.filter(|waiting| waiting.id == to) else {
                continue;
            };
            match message {
                Message::FlashRead(fetched) => connection.fetched.push(fetched),
                Message::Login(verdict) => connection.judge(verdict),
                // Meanwhile the value may have come whole.
                Message::Close(Close::Unfinished { number }) if !connection.lacks_value(number) => {
                    continue;
                }
                Message::Close(close) => {
                    self.close(to.slot, close);
                    continue;
                }
            }
            connection.fetching -= 1;
            if connection.fetching == 0 {
                connection.is_claiming = false;
                // The client was not silent: it waited for the server.
                connection.info.active_s.store(self.now_s, Ordering::Relaxed);
                // The waiting requests were read before; only the end of the input is read once
                // more.
                connection.is_readable |= connection.is_hung_up;
                self.turn(to.slot);
            }
        }
    }

    fn count_login(&self, verdict: Verdict) {
        let counters = self.server.counters.of(self.number);
        counters.auth_cmds.one();
        counters.auth_errors.add(u64::from(verdict.rights().is_none()));
        counters.auth_throttled.add(u64::from(verdict == Verdict::Unchecked));
    }

    fn take_arrivals(&mut self) {
        let arrivals = mem::take(&mut *lock(&self.server.mailboxes[self.number].arrivals));
        for arrival in arrivals {
            let slot = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let rights = Rights::of_strangers(self.server.users.is_some());
            let mut connection = Connection::new(arrival, rights);
            self.serial += 1;
            connection.arrived_s = self.now_s;
            let is_settled = connection.stream.tls().is_none() && rights != Rights::None;
            self.unsettled += usize::from(!is_settled);
            connection.id = ConnectionId { worker: self.number, slot, serial: self.serial };
            connection.parked.set_owner(connection.id);
            if let Some(client) = &mut connection.redis {
                // Unique among all connections of all workers.
                client.id = self.serial * self.server.mailboxes.len() as u64 + self.number as u64;
            }
            let interest = Interest::READABLE | Interest::WRITABLE;
            let stream = &mut connection.stream;
            let registered = self.poll.registry().register(stream, Token(slot), interest);
            self.connections[slot] = Some(connection);
            match registered {
                Ok(()) => self.log_event(slot, "conn_new", ""),
                Err(error) => self.close(slot, error.into()),
            }
        }
    }

    /// Logs a connection event for watchers.
    fn log_event(&self, slot: usize, event: &str, reason: &str) {
        let Some(Some(connection)) = self.connections.get(slot) else {
            return;
        };
        if !self.server.watchers.want(CONNEVENTS) {
            return;
        }
        let (address, port, transport) = match connection.stream.peer() {
            Some(peer) => (peer.ip().to_string(), peer.port(), "tcp"),
            None => (key_text(b"unix"), 0, "local"),
        };
        let fd = connection.info.fd;
        let text = format!(
            "type={event} rip={address} rport={port} transport={transport}{reason} cfd={fd}"
        );
        self.server.watchers.log(CONNEVENTS, &self.server.mailboxes, &text);
    }

    fn close(&mut self, slot: usize, close: Close) {
        self.end_tls(slot, close);
        let reason = format!(" reason={}", close.word());
        self.log_event(slot, "conn_close", &reason);
        let Some(mut connection) = self.connections[slot].take() else {
            return;
        };
        self.vacant.push(slot);
        let counters = self.server.counters.of(self.number);
        match close {
            Close::Idle => counters.idle_kicks.one(),
            Close::Output | Close::Stalled | Close::StalledDump => {
                counters.output_kicks.one();
                let text = why_kicked(close, &self.server.parked);
                self.server.log(1, &format!("{} is closed: {text}", connection.info.address));
            }
            Close::Unfinished { .. } => {
                counters.unfinished_kicks.one();
                let address = &connection.info.address;
                let text = "it sent only a part of a value, and others need the memory";
                self.server.log(1, &format!("{address} is closed: {text}"));
            }
            Close::Login => {
                let address = &connection.info.address;
                self.server.log(1, &format!("{address} is closed: it has not logged in"));
            }
            _ => {}
        }
        connection.parked.discard(&self.server.parked);
        let _ = connection.parked.keep(0, &self.server.parked);
        if let State::Watch(log) = &connection.state {
            self.server.watchers.remove(log);
        }
        let source = connection.info.source;
        self.server.connections.forget(connection.info.fd);
        // The socket is closed before another connection is admitted in its place.
        drop(connection);
        let per_address_max = self.server.options.connections_per_address_max;
        self.server.connections.by_address.leave(source, per_address_max);
        if self.server.connections.leave() {
            self.server.wake_acceptor();
        }
    }

    /// Ends TLS when a connection ends: tells the client, and logs a failure for the operator.
    fn end_tls(&mut self, slot: usize, close: Close) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        let Some(tls) = connection.stream.tls() else { return };
        tls.say_goodbye();
        let counters = self.server.counters.of(self.number);
        counters.ssl_new_sessions.add(u64::from(tls.take_new_session() == Some(true)));
        counters.ssl_handshake_errors.add(u64::from(tls.is_shaking_hands()));
        let text = match (tls.failure(), close) {
            (Some(text), _) => text.to_owned(),
            (None, Close::Handshake) => "the handshake takes too long".to_owned(),
            (None, _) => return,
        };
        let address = &connection.info.address;
        self.server.log(1, &format!("TLS with {address} failed: {text}"));
        self.log_event(slot, "tls_error", &format!(" error={}", key_text(text.as_bytes())));
    }

    /// Tries sockets with parked output that have taken nothing for a while.
    fn try_parked(&mut self) {
        if !self.has_parked || self.tried.elapsed() < TRY_AFTER {
            return;
        }
        self.tried = Stopwatch::start();
        let (due, has_any) = self.server.parked.to_be_tried(self.number);
        self.has_parked = has_any;
        due.into_iter().for_each(|slot| self.turn(slot));
    }

    /// Lets connections that wait for room go on as long as there is some: in turn, so that one
    /// that needs much gets it, too.
    fn try_short_of_room(&mut self) {
        if self.short_of_room.is_empty() || self.tried_room.elapsed() < ROOM_LOOK {
            return;
        }
        self.tried_room = Stopwatch::start();
        for _ in 0..self.short_of_room.len() {
            let Some(&slot) = self.short_of_room.front() else { break };
            let waits = |worker: &Self| {
                let connection = worker.connections.get(slot).and_then(Option::as_ref);
                connection.and_then(|connection| connection.short_of_room)
            };
            let waited = waits(self);
            if waited.is_some() {
                self.turn(slot);
            }
            match waits(self) {
                None => _ = self.short_of_room.pop_front(),
                // One of its requests has been answered, and another waits: other connections were
                // there before that one.
                since if since != waited => self.short_of_room.rotate_left(1),
                Some(_) => break,
            }
        }
    }

    /// Closes connections that have been silent for too long, or have not asked for anything in
    /// time.
    fn kick_idle(&mut self) {
        let timeout_s = self.server.live.idle_timeout_s();
        if (timeout_s == 0 && self.unsettled == 0) || self.now_s == self.looked_s {
            return;
        }
        self.looked_s = self.now_s;
        self.kick_unsettled();
        if timeout_s == 0 {
            return;
        }
        for slot in 0..self.connections.len() {
            let Some(connection) = &self.connections[slot] else {
                continue;
            };
            let is_idle = if connection.parked.is_empty() {
                let active_s = connection.info.active_s.load(Ordering::Relaxed);
                let is_served = connection.fetching > 0
                    || connection.gives_way
                    || connection.short_of_room.is_some()
                    || matches!(connection.state, State::Watch(_) | State::Dump(..));
                !is_served && u64::from(self.now_s.saturating_sub(active_s)) > timeout_s
            } else {
                // A client that takes some of its output is slow, not silent.
                connection.parked.is_stalled(Duration::from_secs(timeout_s))
            };
            if is_idle {
                self.close(slot, Close::Idle);
            }
        }
    }

    /// Closes connections whose TLS handshake, or login, takes too long, however busy they are.
    fn kick_unsettled(&mut self) {
        self.unsettled = 0;
        for slot in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[slot] else { continue };
            let is_shaking = connection.stream.tls().is_some_and(|tls| tls.is_shaking_hands());
            let stranger_s = connection.unauthenticated.look(connection.rights(), self.now_s);
            let waited_s = self.now_s.saturating_sub(connection.arrived_s);
            // A client whose password is being checked is not late.
            let is_late = stranger_s.is_some_and(|seconds| seconds > LOGIN_PATIENCE_S);
            if is_shaking && waited_s > HANDSHAKE_PATIENCE_S {
                self.close(slot, Close::Handshake);
            } else if is_late && connection.fetching == 0 {
                self.close(slot, Close::Login);
            } else {
                self.unsettled += usize::from(is_shaking || stranger_s.is_some());
            }
        }
    }
}

/// Why a connection is closed for the memory that the server keeps, or would have to keep, for it.
fn why_kicked(close: Close, limit: &ParkedLimit) -> String {
    let (parked, max) = (limit.bytes(), limit.bytes_max());
    match close {
        Close::StalledDump => "it takes nothing of its dump, and others want to have one".into(),
        Close::Stalled => format!(
            "it takes nothing of its replies, and with those of others all connections would keep \
             more than {max} bytes, now {parked}; a larger -m allows more"
        ),
        _ => format!(
            "with its replies, or the commands that it has sent ahead, all connections would \
             keep more than {max} bytes, now {parked}; a larger -m allows more"
        ),
    }
}
