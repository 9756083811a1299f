//! Reads from flash that a worker's connections wait for.
//!
//! A turn only notes the reads ([`fetch`]); the reads of all connections begin together when their
//! replies are written, and their results are delivered to the worker's mailbox.

use std::sync::Arc;

use ::io::device::ReadRing;
use larder::ReadRequest;

use super::TurnExecutor;
use crate::connection::Connection;
use crate::connection_id::ConnectionId;
use crate::sampling::Sampling;
use crate::worker::{Delivery, Message};

/// A connection that waits for flash.
pub(super) struct Waiting {
    to: ConnectionId,
    wanted: Vec<ReadRequest>,
}

impl<'c, S: Sampling> TurnExecutor<'c, S> {
    /// Begins the reads that the last turns wait for, all at once. To be called after the replies
    /// of connections that wait for nothing are written: the reading threads may share this core.
    #[inline]
    pub fn begin_reads(&mut self) {
        if !self.reads.is_empty() {
            self.begin_reads_now();
        }
    }

    /// Begins the reads before replies are written, if this thread reads through its own ring: the
    /// device then reads while they are written, and no other thread wants the core for it.
    #[inline]
    pub fn begin_own_reads(&mut self) {
        if self.ring.is_some() {
            self.begin_reads();
        }
    }

    /// From now on the calling thread, which made the ring, reads through it.
    pub fn read_through(&mut self, ring: ReadRing) {
        self.ring = Some(ring);
    }

    /// Delivers the reads that the ring has finished.
    pub fn answer_reads(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.answer();
            if ring.descriptor().is_none() {
                self.ring = None;
                self.server.log(0, "io_uring failed; flash is read by threads from now on");
            }
        }
    }

    /// Whether reads have to be begun again soon, since the kernel had no memory for all of them.
    pub fn is_behind(&mut self) -> bool {
        self.ring.as_mut().is_some_and(ReadRing::is_behind)
    }

    #[cold]
    fn begin_reads_now(&mut self) {
        let mailbox = &self.server.mailboxes[self.worker];
        let batches = self.reads.drain(..).map(|Waiting { to, wanted }| {
            let mailbox = Arc::clone(mailbox);
            let deliver = move |fetched| {
                mailbox.deliver(Delivery { to, message: Message::FlashRead(fetched) });
            };
            (wanted, deliver)
        });
        self.server.cache.read_all_wanted(batches, self.ring.as_mut());
    }
}

/// Makes a request wait for flash: [`TurnExecutor::begin_reads`] begins its read.
pub(super) fn fetch(
    reads: &mut Vec<Waiting>,
    connection: &mut Connection<'_>,
    wanted: Vec<ReadRequest>,
) {
    connection.fetching = wanted.len();
    reads.push(Waiting { to: connection.id, wanted });
}
