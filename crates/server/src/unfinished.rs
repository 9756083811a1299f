//! Values of which a part has come, and how much memory they may have together.
//!
//! Memory follows a long value as it comes, and what an unfinished value has is not evicted. So
//! clients that send the first part of values and never the rest could push out all that others
//! stored. What all of them have together is half of the memory, or what one has alone, and those
//! under a quota half of that: a value that would have more is refused. And those whose clients
//! have sent nothing for a while, or next to nothing, lose their connections then, and where
//! anybody finds no memory, so that nobody who sends is refused for long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use larder::Draft;
use stdx::sync::lock;

use crate::connection::{Close, Info};
use crate::parked::Owner;
use crate::server::Server;
use crate::worker::{Brought, Delivery, Mailbox};

/// A client that has sent nothing of its value for so many seconds makes room for others. A lost
/// segment is sent again sooner.
const STALLED_S: u32 = 10;

/// Who sends less than so many bytes a second of what its value has memory for does, too, once
/// [`STALLED_S`] are over: a byte now and then is as good as none.
const SLOW_BYTES_PER_S: usize = 16 << 10;

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

/// Who sends one, and what it has.
#[derive(Debug)]
struct Sender {
    owner: Owner,
    info: Arc<Info>,
    bytes: usize,
    /// When it last got memory, and how many bytes.
    grown: (u32, usize),
    /// The place of the quota that it counts for.
    quota: Option<usize>,
}

impl Sender {
    fn is_stalled(&self, now_s: u32) -> bool {
        let silent_s = now_s.saturating_sub(self.info.active_s.load(Ordering::Relaxed));
        let (grown_s, gained) = self.grown;
        let patience_s = STALLED_S as usize + gained / SLOW_BYTES_PER_S;
        silent_s >= STALLED_S || now_s.saturating_sub(grown_s) as usize > patience_s
    }
}

/// Of what unfinished values may have half: all memory, and the quota of a key, by its place among
/// the quotas.
#[derive(Debug, Clone, Copy)]
struct Limits {
    memory_bytes: usize,
    quota: Option<(usize, usize)>,
}

impl Limits {
    fn of(server: &Server, key: &[u8]) -> Self {
        Self { memory_bytes: server.memory_bytes(), quota: server.cache.quota_of(key) }
    }
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

    /// Whether a value of so many bytes may begin. If not, those make room for the next who have
    /// sent nothing for long.
    pub fn admits(&self, server: &Server, key: &[u8], value_bytes: usize) -> bool {
        value_bytes <= SHORT_BYTES || self.has_room(server, key, 0)
    }

    /// Whether a value that has so many bytes may get more.
    fn has_room(&self, server: &Server, key: &[u8], own_bytes: usize) -> bool {
        let Limits { memory_bytes, quota } = Limits::of(server, key);
        let fits = |bytes: usize, limit: usize| bytes < limit / 2 || bytes <= own_bytes;
        if !fits(self.bytes(), memory_bytes) {
            self.end_stalled(server.now(), None);
            return false;
        }
        let Some((index, limit)) = quota else { return true };
        if !fits(self.bytes_under(index), limit) {
            self.end_stalled(server.now(), Some(index));
            return false;
        }
        true
    }

    /// What those have that count for the quota of this place.
    fn bytes_under(&self, quota: usize) -> usize {
        let list = lock(&self.list);
        let under = list.senders.values().filter(|sender| sender.quota == Some(quota));
        under.map(|sender| sender.bytes).sum()
    }

    /// Somebody found no memory at all.
    pub fn make_room(&self, now_s: u32) {
        if self.bytes() > 0 {
            self.end_stalled(now_s, None);
        }
    }

    /// Has the connections closed whose clients have sent nothing for long, perhaps only of values
    /// that count for the quota of this place.
    #[cold]
    fn end_stalled(&self, now_s: u32, quota: Option<usize>) {
        let mut stalled = Vec::new();
        lock(&self.list).senders.retain(|_, sender| {
            let goes = (quota.is_none() || sender.quota == quota) && sender.is_stalled(now_s);
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
pub struct Unfinished<'s> {
    server: &'s Server,
    number: u64,
    bytes: usize,
}

impl<'s> Unfinished<'s> {
    /// That of a value which this connection begins to send. Out of the loop in which most values
    /// are whole.
    #[cold]
    #[inline(never)]
    pub fn new(server: &'s Server, owner: Owner, info: &Arc<Info>, draft: &Draft<'_>) -> Self {
        let quota = Limits::of(server, draft.key()).quota.map(|(index, _)| index);
        let mut list = lock(&server.unfinished.list);
        let number = list.next_number;
        list.next_number += 1;
        let (info, grown) = (Arc::clone(info), (server.now(), 0));
        list.senders.insert(number, Sender { owner, info, bytes: 0, grown, quota });
        drop(list);
        let mut unfinished = Self { server, number, bytes: 0 };
        unfinished.count(draft);
        unfinished
    }

    /// Whether it may get more memory.
    pub fn may_grow(&self, draft: &Draft<'_>) -> bool {
        let is_short = draft.value_bytes() <= SHORT_BYTES;
        is_short || self.server.unfinished.has_room(self.server, draft.key(), self.bytes)
    }

    /// Counts what it has got.
    pub fn count(&mut self, draft: &Draft<'_>) {
        let (limit, bytes) = (&self.server.unfinished, draft.held_bytes());
        let gained = bytes - std::mem::replace(&mut self.bytes, bytes);
        limit.bytes.fetch_add(gained, Ordering::Relaxed);
        if let Some(sender) = lock(&limit.list).senders.get_mut(&self.number) {
            (sender.bytes, sender.grown) = (bytes, (self.server.now(), gained));
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let limit = &self.server.unfinished;
        limit.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        lock(&limit.list).senders.remove(&self.number);
    }
}
