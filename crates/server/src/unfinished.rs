//! Values of which a part has come, and how much memory they may have together.
//!
//! Memory follows a long value as it comes, and what an unfinished value has is not evicted. So
//! clients that send the first part of values and never the rest could push out all that others
//! stored. What all of them have together is half of the memory, or what one has alone: a value
//! that would have more is refused. And those whose clients have sent nothing for a while lose
//! their connections then, so that nobody who sends is refused for long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use larder::Draft;
use stdx::sync::lock;

use crate::connection::{Close, Info};
use crate::parked::Owner;
use crate::worker::{Brought, Delivery, Mailbox};

/// A client that has sent nothing of its value for so many seconds makes room for others. A lost
/// segment is sent again sooner.
const STALLED_S: u32 = 10;

/// A value of no more bytes is taken in any case: there are no more of these than connections.
const SHORT_BYTES: usize = 16 << 10;

/// How much memory unfinished values may have, and whose they are.
#[derive(Debug)]
pub struct UnfinishedLimit {
    bytes: AtomicUsize,
    list: Mutex<List>,
    /// Where workers hear of connections that have to be closed.
    mailboxes: Vec<Arc<Mailbox>>,
}

/// All unfinished values.
#[derive(Debug, Default)]
struct List {
    next_number: u64,
    senders: BTreeMap<u64, Sender>,
}

/// Who sends one.
#[derive(Debug)]
struct Sender {
    owner: Owner,
    info: Arc<Info>,
}

impl UnfinishedLimit {
    /// With no value.
    pub fn new(mailboxes: &[Arc<Mailbox>]) -> Self {
        let (bytes, list) = (AtomicUsize::new(0), Mutex::default());
        Self { bytes, list, mailboxes: mailboxes.to_vec() }
    }

    /// Bytes that they have now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether a value of so many bytes may begin, with this limit of all memory. If not, those
    /// make room for the next who have sent nothing for long.
    pub fn admits(&self, value_bytes: usize, memory_bytes: usize, now_s: u32) -> bool {
        value_bytes <= SHORT_BYTES || self.has_room(0, memory_bytes, now_s)
    }

    /// Whether a value that has so many bytes may get more.
    fn has_room(&self, own_bytes: usize, memory_bytes: usize, now_s: u32) -> bool {
        let bytes = self.bytes();
        let has_room = bytes < memory_bytes / 2 || bytes <= own_bytes;
        if !has_room {
            self.end_stalled(now_s);
        }
        has_room
    }

    /// Has the connections closed whose clients have sent nothing for long.
    #[cold]
    fn end_stalled(&self, now_s: u32) {
        let is_stalled = |sender: &Sender| {
            now_s.saturating_sub(sender.info.active_s.load(Ordering::Relaxed)) >= STALLED_S
        };
        let mut stalled = Vec::new();
        lock(&self.list).senders.retain(|_, sender| {
            let goes = is_stalled(sender);
            stalled.extend(goes.then_some(sender.owner));
            !goes
        });
        for Owner { worker, place, serial } in stalled {
            if let Some(mailbox) = self.mailboxes.get(worker) {
                let brought = Brought::End(Close::Unfinished);
                mailbox.deliver(Delivery { place, serial, brought });
            }
        }
    }
}

/// The share of an unfinished value, until that is stored or given up.
#[derive(Debug)]
pub struct Unfinished<'s> {
    limit: &'s UnfinishedLimit,
    number: u64,
    bytes: usize,
}

impl<'s> Unfinished<'s> {
    /// That of a value which this connection begins to send. Out of the loop in which most values
    /// are whole.
    #[cold]
    #[inline(never)]
    pub fn new(
        limit: &'s UnfinishedLimit,
        owner: Owner,
        info: &Arc<Info>,
        draft: &Draft<'_>,
    ) -> Self {
        let mut list = lock(&limit.list);
        let number = list.next_number;
        list.next_number += 1;
        list.senders.insert(number, Sender { owner, info: Arc::clone(info) });
        drop(list);
        let mut unfinished = Self { limit, number, bytes: 0 };
        unfinished.count(draft);
        unfinished
    }

    /// Whether it may get more memory, with this limit of all.
    pub fn may_grow(&self, memory_bytes: usize, now_s: u32) -> bool {
        self.limit.has_room(self.bytes, memory_bytes, now_s)
    }

    /// Counts what it has got.
    pub fn count(&mut self, draft: &Draft<'_>) {
        let bytes = draft.held_bytes();
        self.limit.bytes.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.limit.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        lock(&self.limit.list).senders.remove(&self.number);
    }
}
