//! Values that arrive over several reads: their bytes go straight to their place in memory.
//!
//! A long one gets memory piece by piece, as it comes, so a value that is announced and never sent
//! takes nothing from others. A value that runs out of memory half-way, or exceeds the limit for
//! all such values, is refused then, and the rest of it skipped.

use std::mem;

use larder::Refusal;

use super::reads::fetch;
use super::{DIRECT_BYTES_MAX, SESSIONS_MAX, TurnExecutor, action_of};
use crate::commands::{self, Again};
use crate::connection::{Close, Connection, Incoming, State, read_once};
use crate::output::Output;
use crate::plan::Plan;
use crate::sampling::Sampling;

impl<'c, S: Sampling> TurnExecutor<'c, S> {
    /// Reads straight into the draft. A read that fills it leaves the connection readable, so that
    /// another turn follows, which stores it.
    pub(super) fn read_value(&mut self, connection: &mut Connection<'c>) -> Result<(), Close> {
        let mut turn_bytes = 0;
        while connection.is_readable && turn_bytes < DIRECT_BYTES_MAX {
            let State::Value(incoming) = &mut connection.state else {
                break;
            };
            if incoming.draft.lacks_memory() {
                if self.extend(connection) {
                    continue;
                }
                // The rest, if there is one, comes by way of the buffer.
                return self.flush(connection);
            }
            let target = incoming.draft.writable();
            if target.is_empty() {
                break;
            }
            let read = read_once(&mut connection.stream, connection.is_hung_up, target)?;
            connection.is_readable = read.1;
            match read.0 {
                Some(0) => return Err(Close::Normal),
                Some(read) => {
                    incoming.draft.advance(read);
                    turn_bytes += read;
                    self.counters.bytes_read.add(read as u64);
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Feeds the front of the input to the value that the connection is in.
    pub(super) fn fill(&mut self, connection: &mut Connection<'c>, plan: &mut Plan<'_>) {
        while let State::Value(incoming) = &mut connection.state {
            plan.skip(incoming.take(plan.rest()));
            if incoming.is_complete() {
                let state = mem::replace(&mut connection.state, State::Idle);
                if let State::Value(incoming) = state {
                    self.complete(connection, *incoming);
                }
                return;
            }
            if plan.rest().is_empty() {
                return;
            }
            if !self.extend(connection) {
                return swallow(connection, plan);
            }
        }
    }

    /// Gets more memory for the value that the connection is in. Returns whether there was some: if
    /// not, the value is refused; or it is tried again, when what is missing has been read from
    /// flash.
    #[cold]
    #[inline(never)]
    fn extend(&mut self, connection: &mut Connection<'c>) -> bool {
        let State::Value(incoming) = &mut connection.state else {
            return false;
        };
        self.kept.session = None;
        let cache = &self.server.cache;
        if !incoming.unfinished.may_grow(&incoming.draft) {
            self.give_up(connection, Refusal::NoMemory);
            return false;
        }
        for _ in 0..SESSIONS_MAX {
            match cache.extend(&mut incoming.draft) {
                Ok(()) => {
                    incoming.unfinished.count(&incoming.draft);
                    return true;
                }
                Err(Refusal::SessionTooLong) => cache.wait_for_memory(),
                Err(refusal) => {
                    self.give_up(connection, refusal);
                    return false;
                }
            }
        }
        self.give_up(connection, Refusal::NoMemory);
        false
    }

    /// Refuses a value of which a part has come.
    fn give_up(&mut self, connection: &mut Connection<'c>, refusal: Refusal) {
        let state = mem::replace(&mut connection.state, State::Idle);
        let State::Value(incoming) = state else { return };
        let dialect = self.server.options.dialect();
        let hash = self.server.cache.hash(incoming.draft.key());
        for tries in 1.. {
            let context = self.context(connection, tries);
            let action = action_of(&incoming.line, incoming.wire, dialect);
            let session = self.server.cache.session();
            session.deliver(connection.fetched.drain(..));
            let mut out = Output::new(&mut self.replies);
            let said = commands::give_up(&context, &session, &action, hash, refusal, &mut out);
            drop(out);
            let wanted = session.take_wanted();
            drop(session);
            match said {
                Ok(()) => break,
                // This command reads no value, so it needs no room.
                Err(Again::Session | Again::Room) => self.server.cache.wait_for_memory(),
                Err(Again::Fetch) => {
                    connection.state = State::Value(incoming);
                    return fetch(&mut self.reads, connection, wanted);
                }
            }
        }
        connection.state = State::Swallow(incoming.missing_bytes());
    }

    /// Stores a value that has arrived in full.
    fn complete(&mut self, connection: &mut Connection<'c>, incoming: Incoming<'c>) {
        let dialect = self.server.options.dialect();
        let line = incoming.line.clone();
        let action = action_of(&line, incoming.wire, dialect);
        let Incoming { line: _, wire, mut draft, tail, tail_bytes, unfinished } = incoming;
        self.kept.session = None;
        for tries in 1.. {
            let context = self.context(connection, tries);
            let session = self.server.cache.session();
            session.deliver(connection.fetched.drain(..));
            let mut out = Output::new(&mut self.replies);
            let behind = &tail[..tail_bytes];
            let stored = commands::complete(&context, &session, &action, draft, behind, &mut out);
            self.turn_bytes += session.take_copied_bytes();
            let Err((back, again)) = stored else {
                return self.sampling.complete(&action, &session, &self.server.cache);
            };
            draft = back;
            drop(out);
            let wanted = session.take_wanted();
            drop(session);
            if again == Again::Fetch {
                let line = line.clone();
                let incoming = Incoming { line, wire, draft, tail, tail_bytes, unfinished };
                connection.state = State::Value(Box::new(incoming));
                fetch(&mut self.reads, connection, wanted);
                return;
            }
            self.server.cache.wait_for_memory();
        }
    }
}

/// Skips the bytes that have come of a refused value.
pub(super) fn swallow(connection: &mut Connection<'_>, plan: &mut Plan<'_>) {
    let State::Swallow(bytes) = &mut connection.state else { return };
    let here = usize::try_from(*bytes).unwrap_or(usize::MAX).min(plan.rest().len());
    plan.skip(here);
    *bytes -= here as u64;
    if *bytes == 0 {
        connection.state = State::Idle;
    }
}
