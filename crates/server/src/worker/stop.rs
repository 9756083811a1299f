//! How a worker stops: it answers what it has read, reads nothing more, and gives clients a while
//! to take their replies.
//!
//! ```text
//! turn --+--> output is parked, or a read from flash under way, or there is no room for a reply:
//!        |    waits for that, has another turn
//!        +--> others come before the rest of its requests: has another turn behind theirs
//!        +--> closed
//! ```
//!
//! Requests that stood unread behind parked output are answered, too, once that is taken. Two
//! things end where they stand: a dump, which may take minutes, and the check of a password, since
//! no thread checks any more, and a client told that its password is wrong would believe it.

use std::time::Duration;

use ::io::moment::Stopwatch;
use ::io::poll::Events;

use super::Worker;
use crate::connection::{Close, Connection, State};
use crate::sampling::Sampling;

/// How long a worker that stops waits for clients, and for flash.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

impl<S: Sampling> Worker<'_, S> {
    /// Executes everything that was read, and gives parked output a last chance.
    pub(super) fn stop(mut self, events: &mut Events) {
        let stopped = Stopwatch::start();
        self.give_last_turns(events, &stopped);
        for slot in 0..self.connections.len() {
            if self.connections[slot].is_some() {
                self.close(slot, Close::Shutdown);
            }
        }
    }

    /// Gives connections their last turns, until all are closed or the patience is over.
    pub(super) fn give_last_turns(&mut self, events: &mut Events, stopped: &Stopwatch) {
        self.is_ending = true;
        let is_over = || stopped.rest_of(STOP_PATIENCE).is_zero();
        for slot in 0..self.connections.len() {
            if is_over() {
                return;
            }
            self.turn(slot);
        }
        while self.connections.iter().any(Option::is_some) && !is_over() {
            self.turner.begin_reads();
            let timeout = match self.timeout() {
                Some(timeout) => timeout.min(stopped.rest_of(STOP_PATIENCE)),
                None => stopped.rest_of(STOP_PATIENCE),
            };
            self.wait(events, Some(timeout));
            for event in &*events {
                let slot = event.token().0;
                if let Some(Some(connection)) = self.connections.get(slot)
                    && !connection.parked.is_empty()
                {
                    self.turn(slot);
                }
            }
            for _ in 0..self.queue.len() {
                if is_over() {
                    return;
                }
                self.take_queued();
            }
            // A connection that has ended gives room back.
            self.try_short_of_room();
            self.turner.answer_reads();
            self.server.mailboxes[self.number].take_deliveries(&mut self.deliveries);
            self.take_deliveries();
        }
    }
}

/// Prepares a connection for its last turns, which read nothing.
pub(super) fn prepare(connection: &mut Connection<'_>) {
    connection.is_readable = false;
    if matches!(connection.state, State::Dump(_)) {
        connection.closing = Some(Close::Shutdown);
    }
}

/// Whether everything is done that can be done without the client, when a turn has ended and the
/// connection waits.
pub(super) fn is_done(connection: &Connection<'_>) -> bool {
    let is_answered = connection.fetching == 0 && connection.short_of_room.is_none();
    connection.parked.is_empty() && (is_answered || connection.is_claiming)
}
