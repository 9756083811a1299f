//! A connection's turn: read once, execute the input, write once.
//!
//! ```text
//! parked output? --yes--> write it; what is left waits for the socket, and so does all else
//!     |no
//! unread bytes + one read --> plan a batch --> execute it --> replies
//!                                ^               |
//!                                +--- more? -----+--> write --> park what is not taken
//!                                     |
//!                                     +-- enough for one turn: others come first
//! ```
//!
//! Readiness is edge-triggered. A read that returns less than there was room for has drained the
//! socket, so the next read waits for the next event, and an unpipelined request costs one
//! `epoll_wait`, one `read` and one `write`. A read that fills the buffer ends the turn all the
//! same: the connection goes to the end of its worker's queue, so that no client that never stops
//! sending can keep the others waiting for longer than a buffer's worth of requests.
//!
//! A buffer's worth of requests can be the work of a second, if each is `stats items` or adds a
//! byte to a value of a megabyte. So a turn also ends, within a batch too, when [`TURN_BYTES_MAX`]
//! of replies have been made in it; requests whose work exceeds what their replies show are charged
//! for it as if it were replies ([`Output::charge`]). Input that has been read and not been
//! executed then stays with the connection, which goes to the end of the queue.

mod behind;
mod reads;
mod values;

use std::mem;
use std::sync::atomic::Ordering;

use ::io::device::ReadRing;
use ::io::moment::Stopwatch;
use larder::{Ahead, Dumped, Hash, SESSIONS_MAX, Session};
use protocol::binary::parse::HEAD_BYTES_MAX;
use protocol::parse::LINE_BYTES_MAX;
use protocol::{Dialect, Parsed, Wire, binary, parse_as};

use crate::commands::redis::{self, Client};
use crate::commands::{self, Again, Context, Flow, Outcome};
use crate::connection::{Close, Connection, Incoming, State};
use crate::counters::Counters;
use crate::dump;
use crate::insight::Executed;
use crate::logins::Claim;
use crate::output::{self, OUTPUT_BYTES_MAX, Output, TURN_BYTES_MAX};
use crate::plan::{Action, BATCH_KEYS_MAX, End, Place, Plan, Step, recycle};
use crate::rights::Rights;
use crate::sampling::Sampling;
use crate::server::Server;
use crate::tls;
use crate::unfinished::Unfinished;
use reads::{Waiting, fetch};

/// Bytes read at once: two thousand small requests, past the point where more would save system
/// calls, and small enough to stay in the second-level cache.
pub const READ_BYTES: usize = 64 << 10;

/// The most bytes that may stand before a read in the buffer: the unread end of the last one.
pub const UNREAD_BYTES_MAX: usize = 2 * LINE_BYTES_MAX;

/// The head of a packet is kept there until it is whole.
const _: () = assert!(HEAD_BYTES_MAX < UNREAD_BYTES_MAX);

/// A value that lacks at least this many bytes is read straight into its draft.
const DIRECT_BYTES_MIN: usize = 16 << 10;

/// Bytes of a value that one turn reads.
const DIRECT_BYTES_MAX: usize = 1 << 20;

/// Replies up to this size, of connections that were read together, are written one after the other
/// when all have been executed, so that the kernel's code and the server's do not evict each other
/// from the processor's cache for each of them. Longer ones are written at once: copying them would
/// cost more than that saves.
const TOGETHER_BYTES_MAX: usize = 1 << 10;

/// A reply buffer that has grown beyond this is given back after the turn.
const REPLIES_KEPT_BYTES_MAX: usize = 2 * OUTPUT_BYTES_MAX;

/// The connection's next step after its turn.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// It waits for an event.
    Wait,
    /// It can go on at once.
    Again,
}

/// Executes the turns of a worker's connections, with the state they share.
pub struct TurnExecutor<'c, S> {
    server: &'c Server,
    counters: &'c Counters,
    worker: usize,
    buffer: Vec<u8>,
    replies: Vec<u8>,
    /// Bytes of replies made in this turn and written or parked, and the bytes charged for its
    /// work.
    turn_bytes: usize,
    steps: Vec<Step<'static>>,
    hashes: Vec<Hash>,
    kept: Kept<'c>,
    /// Reads from flash to begin, and the connections that wait for them.
    reads: Vec<Waiting>,
    /// The ring that they go through; `None` if other threads read.
    ring: Option<ReadRing>,
    /// Since when the connection that has the turn has waited for room, if it has.
    waited: Option<Stopwatch>,
    sampling: S,
}

/// A session that serves the turns of several connections that were read together. It is kept as
/// short as that of one full batch.
#[derive(Default)]
struct Kept<'c> {
    session: Option<Session<'c>>,
    is_wanted: bool,
    steps: usize,
}

impl Kept<'_> {
    /// Whether a session that has executed `steps` more may stay open for the next turn.
    fn may_keep(&mut self, steps: usize) -> bool {
        self.steps += steps;
        if self.steps >= BATCH_KEYS_MAX {
            self.steps = 0;
            return false;
        }
        self.is_wanted
    }
}

/// How far a batch was executed.
enum Ran {
    /// All of it.
    Whole,
    /// Up to this place: the socket takes no more, something has to be waited for, or the turn is
    /// over.
    Until(Place),
}

impl<'c, S: Sampling> TurnExecutor<'c, S> {
    /// The executor of one worker.
    pub fn new(server: &'c Server, worker: usize, sampling: S) -> Self {
        Self {
            server,
            counters: server.counters.of(worker),
            worker,
            buffer: vec![0; UNREAD_BYTES_MAX + READ_BYTES],
            replies: Vec::new(),
            turn_bytes: 0,
            steps: Vec::new(),
            hashes: Vec::new(),
            kept: Kept::default(),
            reads: Vec::new(),
            ring: None,
            waited: None,
            sampling,
        }
    }

    /// One turn of one connection.
    pub fn turn(&mut self, connection: &mut Connection<'c>) -> Result<After, Close> {
        let after = self.take_turn(connection);
        debug_assert!(
            after.is_err() || self.replies.is_empty(),
            "replies are written or parked within their turn"
        );
        self.forget_replies();
        after
    }

    /// From here on connections may share a session, until [`TurnExecutor::end_together`].
    pub fn begin_together(&mut self) {
        self.kept = Kept { is_wanted: true, ..Kept::default() };
    }

    /// Executes the input that has been read ahead of one connection, and leaves its replies behind
    /// those of the others in `together` if they are short. Returns the length of its replies
    /// there.
    pub fn execute_ahead(
        &mut self,
        connection: &mut Connection<'c>,
        input: &[u8],
        together: &mut Vec<u8>,
    ) -> Result<usize, Close> {
        let executed = self.execute_ahead_or_close(connection, input, together);
        self.forget_replies();
        executed
    }

    fn execute_ahead_or_close(
        &mut self,
        connection: &mut Connection<'c>,
        input: &[u8],
        together: &mut Vec<u8>,
    ) -> Result<usize, Close> {
        // Clears the value of an earlier connection.
        self.waited = None;
        let consumed = self.process(connection, input)?;
        connection.unread.extend_from_slice(&input[consumed..]);
        let bytes = self.replies.len();
        if bytes > TOGETHER_BYTES_MAX || connection.closing.is_some() {
            self.flush(connection)?;
            return Ok(0);
        }
        together.extend_from_slice(&self.replies);
        Ok(bytes)
    }

    /// Closes the shared session: no thread may hold one while blocked.
    pub fn end_together(&mut self) {
        self.kept = Kept::default();
    }

    /// Ends the turn of a connection whose input was read ahead, with the replies it still gets.
    pub fn end_ahead(
        &mut self,
        connection: &mut Connection<'c>,
        replies: &[u8],
        is_ended: bool,
    ) -> Result<After, Close> {
        let Connection { stream, parked, .. } = connection;
        output::write(replies, stream, parked, self.counters, &self.server.parked)?;
        self.settle(connection, is_ended)?;
        Ok(end_turn(connection))
    }

    fn take_turn(&mut self, connection: &mut Connection<'c>) -> Result<After, Close> {
        if mem::take(&mut connection.gives_way) {
            // Other connections came first: it was not silent.
            connection.info.active_s.store(self.server.now(), Ordering::Relaxed);
        }
        if let Some(tls) = connection.stream.tls() {
            tls.send_control()?;
        }
        if !connection.parked.is_empty() {
            let limit = &self.server.parked;
            connection.parked.flush(&mut connection.stream, self.counters, limit)?;
            if !connection.parked.is_empty() {
                // A connection that waits for its socket keeps nothing that others wait for. It
                // asks for it again.
                connection.fetched.clear();
                if let Some(client) = &mut connection.redis {
                    client.listing.take_if(|listing| listing.has_place());
                }
                return Ok(After::Wait);
            }
            // A client that took long to read has not been silent meanwhile.
            connection.info.active_s.store(self.server.now(), Ordering::Relaxed);
        }
        if let Some(close) = connection.closing {
            return Err(close);
        }
        if connection.fetching > 0 {
            return Ok(After::Wait);
        }
        self.waited = connection.short_of_room.take();
        if self.waited.is_some() {
            // It was not silent: other connections had their turns.
            connection.info.active_s.store(self.server.now(), Ordering::Relaxed);
        }
        match &mut connection.state {
            State::Dump(_) => {
                self.dump(connection);
                self.flush(connection)?;
            }
            State::Watch(log) => {
                log.drain(&mut self.replies);
                self.flush(connection)?;
                self.ignore_input(connection)?;
            }
            State::Value(incoming)
                if connection.unread.is_empty()
                    && incoming.draft.remaining() >= DIRECT_BYTES_MIN =>
            {
                self.read_value(connection)?;
            }
            _ if connection.redis.is_some() && connection.unread.len() > UNREAD_BYTES_MAX => {
                self.read_behind(connection)?;
            }
            _ => {
                let mut buffer = mem::take(&mut self.buffer);
                let read = self.read(connection, &mut buffer);
                self.buffer = buffer;
                read?;
            }
        }
        Ok(end_turn(connection))
    }

    /// Continues the connection's dump.
    fn dump(&mut self, connection: &mut Connection<'c>) {
        let State::Dump(dump) = &mut connection.state else { return };
        let fetched = connection.fetched.drain(..);
        match dump::write_some(self.server, dump, fetched, &mut self.replies) {
            (Dumped::More, _) => {}
            (Dumped::Pending, wanted) => fetch(&mut self.reads, connection, wanted),
            (Dumped::End, _) => {
                connection.state = State::Idle;
                connection.info.active_s.store(self.server.now(), Ordering::Relaxed);
                // Requests that came behind the dump wait unread, and no event will announce them.
                connection.is_readable = true;
            }
        }
    }

    /// Reads once behind the unread bytes, and executes all of it.
    fn read(&mut self, connection: &mut Connection<'c>, buffer: &mut [u8]) -> Result<(), Close> {
        let unread = mem::take(&mut connection.unread);
        let mut filled = unread.len();
        buffer[..filled].copy_from_slice(&unread);
        drop(unread);
        let mut is_ended = false;
        // More than this means whole requests that parked output kept from being executed: they
        // come first, and make room.
        let is_backlog = filled > UNREAD_BYTES_MAX;
        if !is_backlog && connection.is_readable {
            let read = connection.read(&mut buffer[filled..], self.counters)?;
            is_ended = read == Some(0);
            filled += read.unwrap_or(0);
        }
        let consumed = self.execute_read(connection, &buffer[..filled], is_ended)?;
        if is_backlog && connection.parked.is_empty() {
            // A request that waits for flash is consumed only when its read has come; and a turn
            // may have gone to input that was read before.
            if consumed == 0 && !goes_on_later(connection) {
                return Err(Close::Normal);
            }
            // The rest may be read on at once, whatever the socket says.
            connection.is_readable = true;
        }
        Ok(())
    }

    /// Executes the input; returns the number of bytes consumed.
    fn execute_read(
        &mut self,
        connection: &mut Connection<'c>,
        input: &[u8],
        is_ended: bool,
    ) -> Result<usize, Close> {
        let consumed = self.process(connection, input)?;
        if connection.parked.is_empty() {
            self.flush(connection)?;
        }
        connection.unread.extend_from_slice(&input[consumed..]);
        self.settle(connection, is_ended)?;
        Ok(consumed)
    }

    /// Updates the connection after its replies were written, parked or dropped.
    fn settle(&self, connection: &mut Connection<'c>, is_ended: bool) -> Result<(), Close> {
        // A password is checked after those of others, which may be many and from anyone.
        let is_counted =
            !connection.parked.is_empty() || matches!(connection.state, State::Login(_));
        let kept_bytes = match &mut connection.redis {
            Some(client) => client.count_kept_bytes(connection.unread.capacity()),
            None if is_counted => connection.unread.len(),
            // Less than a line; or input that waits for flash or for its turn, which is a buffer's
            // worth at the most, and no reason to close a client that pipelines.
            None => 0,
        };
        connection.parked.keep(kept_bytes, &self.server.parked)?;
        if !connection.parked.is_empty() {
            return Ok(());
        }
        if goes_on_later(connection) {
            // The end is read once more when the missing input has come, or in the next turn.
            connection.is_hung_up |= is_ended;
            connection.is_readable |= is_ended;
        } else if is_ended {
            return Err(Close::Normal);
        }
        Ok(())
    }

    /// Discards a watcher's input; only its end matters.
    fn ignore_input(&mut self, connection: &mut Connection<'c>) -> Result<(), Close> {
        connection.unread = Vec::new();
        connection.parked.keep(0, &self.server.parked)?;
        if connection.is_readable && connection.read(&mut self.buffer, self.counters)? == Some(0) {
            return Err(Close::Normal);
        }
        Ok(())
    }

    /// Executes all whole requests of `input`, and leaves the last replies to be written. Returns
    /// the number of bytes consumed.
    fn process(&mut self, connection: &mut Connection<'c>, input: &[u8]) -> Result<usize, Close> {
        let continuation = connection.continuation.take();
        let Some(wire) = wire_of(connection, input, self.server.options.protocol)? else {
            return Ok(0);
        };
        let mut plan = Plan::new(input, continuation, self.server.options.dialect(), wire);
        if let Some(client) = &mut connection.redis {
            let bytes_max = self.server.parked.command_bytes_max();
            plan.resume(mem::take(&mut client.scan), bytes_max);
        }
        let mut steps = recycle(mem::take(&mut self.steps));
        let place = self.process_plan(connection, &mut plan, &mut steps);
        if let (Ok(place), Some(client)) = (&place, &mut connection.redis) {
            client.scan = plan.scan_at(*place, &steps);
        }
        self.steps = recycle(steps);
        let place = place?;
        connection.continuation = place.continuation;
        Ok(place.offset)
    }

    /// Executes batch after batch, until the input has no more, the socket takes no more, or the
    /// turn is over.
    fn process_plan<'b>(
        &mut self,
        connection: &mut Connection<'c>,
        plan: &mut Plan<'b>,
        steps: &mut Vec<Step<'b>>,
    ) -> Result<Place, Close> {
        self.turn_bytes = 0;
        loop {
            if !connection.parked.is_empty() || connection.closing.is_some() {
                return Ok(plan.place());
            }
            self.feed(connection, plan);
            if connection.fetching > 0 || connection.short_of_room.is_some() {
                return Ok(plan.place());
            }
            if !matches!(connection.state, State::Idle) || connection.closing.is_some() {
                return Ok(plan.place());
            }
            if self.is_turn_over() {
                connection.gives_way = plan.has_more();
                return Ok(plan.place());
            }
            plan.rights = connection.rights();
            connection.parked.set_stranger(plan.rights == Rights::None);
            let end = plan.fill(&self.server.cache, steps, &mut self.hashes);
            if let Ran::Until(place) = self.run(connection, plan, steps)? {
                connection.gives_way = self.is_turn_over();
                return Ok(place);
            }
            if plan.swallow_bytes > 0 {
                connection.state = State::Swallow(mem::take(&mut plan.swallow_bytes));
            }
            if end == End::Input {
                return Ok(plan.place());
            }
        }
    }

    /// Whether the turn has made its share of output, so that other connections come first.
    fn is_turn_over(&self) -> bool {
        self.turn_bytes >= TURN_BYTES_MAX
    }

    /// Feeds the front of the input to the value, the skipping or the login that the connection is
    /// in.
    fn feed(&mut self, connection: &mut Connection<'c>, plan: &mut Plan<'_>) {
        match &mut connection.state {
            State::Swallow(_) => values::swallow(connection, plan),
            State::Value(_) => self.fill(connection, plan),
            State::Login(_) => self.log_in(connection),
            State::Certificates => self.refresh_certificates(connection),
            _ => {}
        }
    }

    /// Has the client's login checked, or answers the outcome of the check.
    #[cold]
    fn log_in(&mut self, connection: &mut Connection<'c>) {
        let State::Login(login) = mem::replace(&mut connection.state, State::Idle) else {
            return;
        };
        let Some(verdict) = connection.verdict.take() else {
            self.submit(connection, login.claim().clone());
            connection.state = State::Login(login);
            return;
        };
        login.answer(verdict, &mut self.replies);
        connection.conclude_login(verdict);
    }

    /// Submits a name and a password to be checked; the connection waits for the outcome.
    #[cold]
    fn submit(&self, connection: &mut Connection<'c>, claim: Claim) {
        connection.fetching = 1;
        connection.is_claiming = true;
        let attempt = connection.attempt(claim);
        self.server.logins.submit(self.server, attempt);
    }

    /// Reads the certificates again. Files may be slow, so no session is held meanwhile.
    #[cold]
    fn refresh_certificates(&mut self, connection: &mut Connection<'c>) {
        self.kept.session = None;
        connection.state = State::Idle;
        tls::answer_refresh(self.server, &mut self.replies);
        self.turn_bytes += TURN_BYTES_MAX;
    }

    /// Executes a batch.
    fn run<'b>(
        &mut self,
        connection: &mut Connection<'c>,
        plan: &Plan<'b>,
        steps: &mut [Step<'b>],
    ) -> Result<Ran, Close> {
        // A command changes its client directly, not through the connection.
        let mut client = connection.redis.take();
        self.sampling.batch(&self.hashes);
        let ran = self.run_for(connection, client.as_deref_mut(), plan, steps);
        connection.redis = client;
        ran
    }

    /// Executes a batch under as few sessions as the engine allows.
    fn run_for<'b>(
        &mut self,
        connection: &mut Connection<'c>,
        mut client: Option<&mut Client>,
        plan: &Plan<'b>,
        steps: &mut [Step<'b>],
    ) -> Result<Ran, Close> {
        let (mut next, mut tries) = (0, 0);
        let mut ahead = Ahead::new(&self.hashes);
        while next < steps.len() {
            let before = next;
            let session = self.kept.session.take().unwrap_or_else(|| self.server.cache.session());
            deliver(connection, &session, &mut self.sampling);
            let context = self.context(connection, tries);
            let mut out = Output::within(&mut self.replies, &self.server.parked, self.waited);
            let (mut is_over, mut waits) = (false, false);
            while !is_over && next < steps.len() && connection.closing.is_none() {
                let step = &mut steps[next];
                let begun = self.sampling.begin(step, &session, self.counters, &out);
                let client = client.as_deref_mut();
                let flow = execute((&context, &session), client, step, &mut ahead, &mut out);
                out.charge(session.take_copied_bytes());
                let run = Executed::of(step, &flow, &session, self.counters, ahead.hashes(), &out);
                self.sampling.end(begun, &run, connection.id.serial);
                let again = flow.as_ref().err().copied();
                is_over = again.is_some() || session.is_long();
                waits = again == Some(Again::Session);
                let must_flush = is_over || matches!(flow, Ok(Flow::Flush)) || out.is_full();
                if let Ok(flow) = flow {
                    out.end_wait(&mut self.waited);
                    next += usize::from(!matches!(flow, Flow::Flush));
                    follow(self.server, connection, flow, plan.wire(), step.line);
                }
                let is_last = next == steps.len() || connection.closing.is_some();
                if must_flush || (is_last && out.is_borrowing()) {
                    self.turn_bytes += out.weight();
                    let Connection { stream, parked, .. } = connection;
                    out.flush(stream, parked, self.counters, &self.server.parked)?;
                    let is_over = !parked.is_empty() || self.turn_bytes >= TURN_BYTES_MAX;
                    if is_over && again != Some(Again::Fetch) {
                        return Ok(stop_at(plan, steps, next));
                    }
                }
                match again {
                    Some(Again::Fetch) => fetch(&mut self.reads, connection, session.take_wanted()),
                    Some(Again::Room) => wait_for_room(connection, self.waited, self.counters),
                    _ => continue,
                }
                return Ok(stop_at(plan, steps, next));
            }
            if connection.closing.is_some() {
                break;
            }
            self.turn_bytes += out.charged_bytes();
            drop(out);
            if next == steps.len() && !session.is_long() && self.kept.may_keep(next) {
                self.kept.session = Some(session);
                break;
            }
            drop(session);
            if self.must_log_in(connection, client.as_deref_mut()) {
                return Ok(stop_at(plan, steps, next));
            }
            tries = if next == before { tries_of(tries, client.as_deref_mut()) } else { 0 };
            if waits {
                self.server.cache.wait_for_memory();
            }
        }
        Ok(Ran::Whole)
    }

    /// Whether a Redis client asks to log in, in which case the login is submitted.
    fn must_log_in(&self, connection: &mut Connection<'c>, client: Option<&mut Client>) -> bool {
        let claim = client.and_then(Client::claimed);
        claim.map(|claim| self.submit(connection, claim)).is_some()
    }

    /// The context of commands, one of which has been tried `tries` times in a row.
    fn context(&self, connection: &Connection<'c>, tries: u32) -> Context<'c, 'c> {
        Context {
            server: self.server,
            counters: self.counters,
            worker: self.worker,
            fd: connection.info.fd,
            is_patience_over: tries >= SESSIONS_MAX,
        }
    }

    /// Writes the replies; output that the socket does not take is parked.
    fn flush(&mut self, connection: &mut Connection<'c>) -> Result<(), Close> {
        let mut out = Output::new(&mut self.replies);
        let Connection { stream, parked, .. } = connection;
        out.flush(stream, parked, self.counters, &self.server.parked)?;
        match connection.closing {
            Some(close) if connection.parked.is_empty() => Err(close),
            _ => Ok(()),
        }
    }

    /// Ends a turn: replies that its connection will not get must not reach the next one.
    fn forget_replies(&mut self) {
        if self.replies.capacity() > REPLIES_KEPT_BYTES_MAX {
            self.replies = Vec::new();
        }
        self.replies.clear();
    }
}

/// The protocol of a connection, which its first byte tells; `None` if nothing has come. Where only
/// one protocol is spoken, a client that begins with another is refused.
fn wire_of(
    connection: &mut Connection<'_>,
    input: &[u8],
    only: Option<Wire>,
) -> Result<Option<Wire>, Close> {
    if connection.wire.is_none() {
        connection.wire = input.first().map(|&byte| Wire::of_first_byte(byte));
        if connection.wire.is_some() && only.is_some() && connection.wire != only {
            return Err(Close::Error);
        }
    }
    Ok(connection.wire)
}

/// The request whose value has arrived.
fn action_of(line: &[u8], wire: Wire, dialect: Dialect) -> Action<'_> {
    match wire {
        Wire::Text => match parse_as(line, None, dialect) {
            Parsed::Request { request, .. } => Action::Request(request),
            _ => unreachable!("the line was parsed when the value began"),
        },
        Wire::Binary => match binary::parse(line) {
            binary::Parsed::Request { request, .. } => Action::Binary(request),
            _ => unreachable!("the header was parsed when the value began"),
        },
        Wire::Redis => unreachable!("its values do not stream into drafts"),
    }
}

/// Hands the connection's reads from flash to a session.
#[inline(always)]
fn deliver<S: Sampling>(connection: &mut Connection<'_>, session: &Session<'_>, sampling: &mut S) {
    if !connection.fetched.is_empty() {
        session.deliver(connection.fetched.drain(..));
        sampling.resume(connection.id.serial);
    }
}

/// Executes a step of either kind of protocol.
#[inline(always)]
fn execute<'s, 'c>(
    (context, session): (&Context<'_, 'c>, &'s Session<'c>),
    client: Option<&mut Client>,
    step: &mut Step<'_>,
    ahead: &mut Ahead<'_>,
    out: &mut Output<'_, 's>,
) -> Outcome<'c> {
    match client {
        None => commands::execute(context, session, step, ahead, out),
        Some(client) => redis::execute(context, session, client, step, ahead, out),
    }
}

/// Makes a request wait for room for its reply, perhaps as it did before.
#[cold]
fn wait_for_room(connection: &mut Connection<'_>, waited: Option<Stopwatch>, counters: &Counters) {
    counters.output_waits.add(u64::from(waited.is_none()));
    connection.short_of_room = waited.or_else(|| Some(Stopwatch::start()));
}

/// Whether the unread input is executed later: when a delivery has come, or in the next turn.
fn goes_on_later(connection: &Connection<'_>) -> bool {
    connection.fetching > 0
        || connection.gives_way
        || connection.short_of_room.is_some()
        || matches!(connection.state, State::Dump(_))
}

/// Whether a connection whose turn is over goes on at once or waits for an event.
fn end_turn(connection: &Connection<'_>) -> After {
    connection.publish_state();
    connection.parked.set_dump(matches!(connection.state, State::Dump(..)));
    let goes_on = connection.is_readable || connection.gives_way;
    let goes_on = goes_on || matches!(connection.state, State::Dump(..));
    let goes_on = goes_on && connection.fetching == 0 && connection.short_of_room.is_none();
    if goes_on && connection.parked.is_empty() { After::Again } else { After::Wait }
}

/// Tries in a row without progress, after one more that completed no step.
fn tries_of(tries: u32, client: Option<&mut Client>) -> u32 {
    if client.is_none_or(Client::is_stuck) { tries + 1 } else { 0 }
}

/// Where to go on when a batch is left before step `next`.
fn stop_at<'b>(plan: &Plan<'b>, steps: &[Step<'b>], next: usize) -> Ran {
    match steps.get(next) {
        Some(step) => Ran::Until(plan.place_of_step(step)),
        None => Ran::Whole,
    }
}

/// Changes the connection as a command asks.
#[inline(always)]
fn follow<'c>(
    server: &'c Server,
    connection: &mut Connection<'c>,
    flow: Flow<'c>,
    wire: Wire,
    line: &[u8],
) {
    connection.state = match flow {
        Flow::Next | Flow::Flush => return,
        Flow::Close(close) => {
            connection.closing = Some(close);
            return;
        }
        Flow::Stream(draft) => {
            let owner = connection.parked.owner();
            let unfinished = Unfinished::new(server, owner, &connection.info, &draft);
            State::Value(Box::new(Incoming::new(wire, line, draft, unfinished)))
        }
        Flow::Swallow(bytes) => State::Swallow(bytes),
        Flow::Login(login) => State::Login(Box::new(login)),
        Flow::Certificates => State::Certificates,
        Flow::Watch(log) => State::Watch(log),
        Flow::Dump(dump) => State::Dump(dump),
    };
}
