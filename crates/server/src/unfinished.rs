//! Values that have come in part, and the limit on their memory.
//!
//! A long value gets memory as it comes, and the memory of an unfinished value is not evicted. So
//! clients that send the first part of values and never the rest could push out everything that
//! others stored. Each value therefore has a claim: to the memory it has, and once a quarter of it
//! has come, to all of it. All claims together are at most half of the memory for items as they
//! were stored, or one value's claim where others claim next to nothing; under a quota, at most
//! half of the quota, too. A value that would claim more is refused; one that has claimed all is
//! not refused later, so that of many that come at once some are stored, and not the first half of
//! each.
//!
//! Where a claim is refused, and where memory runs out, connections are closed whose clients have
//! sent nothing, or next to nothing, for a while. So no client that sends is refused for long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use larder::Draft;
use stdx::sync::lock;

use crate::connection::{Close, Info};
use crate::connection_id::ConnectionId;
use crate::server::Server;
use crate::worker::{Delivery, Mailbox, Message};

/// Seconds without a byte of its value after which a client makes room for others. A lost segment
/// is sent again sooner.
const STALLED_S: u32 = 10;

/// A client that sends fewer bytes a second than this of what its value has memory for makes room,
/// too, once [`STALLED_S`] have passed: a byte now and then is as good as none.
const SLOW_BYTES_PER_S: usize = 16 << 10;

/// A value of at most this many bytes is always taken, and claims nothing: there are no more of
/// these than connections.
const SHORT_BYTES: usize = 16 << 10;

/// A value claims all of its bytes once a part of one in this many has memory: beginning many
/// values costs a client little.
const BEGUN_PART: usize = 4;

/// Where others claim at most one part in this many of the memory, a value may exceed the limit.
const LITTLE_PART: usize = 16;

/// The limit on memory for unfinished values, and the connections that send them.
#[derive(Debug)]
pub struct UnfinishedLimit {
    bytes: AtomicUsize,
    list: Mutex<List>,
    /// The second of the last look for clients that have sent next to nothing.
    looked_s: AtomicU32,
    /// Where workers hear of connections that have to be closed.
    mailboxes: Vec<Arc<Mailbox>>,
}

/// All unfinished values.
#[derive(Debug, Default)]
struct List {
    next_number: u64,
    senders: BTreeMap<u64, Sender>,
    /// Bytes that all of them claim together.
    claimed: usize,
    /// Bytes claimed under each quota, by its place.
    claimed_of: BTreeMap<usize, usize>,
}

/// A connection that sends a value, and the value's memory.
#[derive(Debug)]
struct Sender {
    owner: ConnectionId,
    info: Arc<Info>,
    /// Bytes that its value has or will have; 0 if it is short.
    claim: usize,
    /// When it last got memory, and how many bytes.
    grown: (u32, usize),
    /// The place of the quota that it counts towards.
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

/// The memory of which unfinished values may have half.
#[derive(Debug, Clone, Copy)]
struct Limits {
    items_bytes: usize,
    /// A quota's place among the others, and its bytes.
    quota: Option<(usize, usize)>,
}

impl Limits {
    fn of(server: &Server, key: &[u8]) -> Self {
        let cache = &server.cache;
        Self { items_bytes: cache.items_bytes_max(), quota: cache.quota_of(key) }
    }
}

impl List {
    /// Whether the value of this number may claim this many bytes, of the memory for items and of
    /// its quota.
    fn has_room(&self, number: u64, claim: usize, limits: Limits) -> bool {
        let own = self.senders.get(&number);
        let fits = |claimed: usize, own: usize, limit: usize| {
            let others = claimed - own;
            others <= limit / LITTLE_PART || others + claim <= limit / 2
        };
        let fits_quota = |(index, limit)| {
            let own = own.filter(|sender| sender.quota == Some(index));
            let claimed = self.claimed_of.get(&index).map_or(0, |claimed| *claimed);
            fits(claimed, own.map_or(0, |sender| sender.claim), limit)
        };
        fits(self.claimed, own.map_or(0, |sender| sender.claim), limits.items_bytes)
            && limits.quota.is_none_or(fits_quota)
    }

    /// Sets the claim of a value, if it is still in the list.
    fn claim(&mut self, number: u64, claim: usize) {
        let Some(sender) = self.senders.get_mut(&number) else { return };
        let before = std::mem::replace(&mut sender.claim, claim);
        self.claimed = self.claimed - before + claim;
        if let Some(index) = sender.quota {
            let claimed = self.claimed_of.entry(index).or_default();
            *claimed = *claimed - before + claim;
        }
    }

    /// Takes a value out, with its claim.
    fn remove(&mut self, number: u64) -> Option<Sender> {
        self.claim(number, 0);
        self.senders.remove(&number)
    }
}

impl UnfinishedLimit {
    /// A limit with no values.
    pub fn new(mailboxes: &[Arc<Mailbox>]) -> Self {
        let (bytes, list, looked_s) = (AtomicUsize::new(0), Mutex::default(), AtomicU32::new(0));
        Self { bytes, list, looked_s, mailboxes: mailboxes.to_vec() }
    }

    /// Bytes that unfinished values have now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether a value of this many bytes may begin: whether it would be accepted if all of it came
    /// now. One that is too large is for the cache to refuse.
    pub fn admits(&self, server: &Server, key: &[u8], value_bytes: usize) -> bool {
        if value_bytes <= SHORT_BYTES || value_bytes > server.cache.item_bytes_max() {
            return true;
        }
        let limits = Limits::of(server, key);
        let list = lock(&self.list);
        limits.quota.is_some_and(|(_, bytes)| value_bytes > bytes)
            || list.has_room(list.next_number, value_bytes, limits)
    }

    /// Closes connections whose clients have sent next to nothing for long, because memory ran out.
    /// Done at most once a second, which is as good as each time.
    #[cold]
    pub fn make_room(&self, now_s: u32) {
        if self.looked_s.swap(now_s, Ordering::Relaxed) == now_s {
            return;
        }
        let stalled: Vec<(u64, ConnectionId)> = {
            let mut list = lock(&self.list);
            let stalled = list.senders.iter().filter(|(_, sender)| sender.is_stalled(now_s));
            let stalled: Vec<u64> = stalled.map(|(number, _)| *number).collect();
            let owner_of = |number| Some((number, list.remove(number)?.owner));
            stalled.into_iter().filter_map(owner_of).collect()
        };
        for (number, to) in stalled {
            if let Some(mailbox) = self.mailboxes.get(to.worker) {
                let message = Message::Close(Close::Unfinished { number });
                mailbox.deliver(Delivery { to, message });
            }
        }
    }
}

/// The share of an unfinished value, until that is stored or given up.
pub struct Unfinished<'s> {
    server: &'s Server,
    number: u64,
    /// Bytes of memory that it has.
    bytes: usize,
    /// It has claimed all that it will have, or need not.
    is_sure: bool,
}

impl<'s> Unfinished<'s> {
    /// The share of a value that this connection begins to send. Kept out of the loop in which most
    /// values are whole.
    #[cold]
    #[inline(never)]
    pub fn new(
        server: &'s Server,
        owner: ConnectionId,
        info: &Arc<Info>,
        draft: &Draft<'_>,
    ) -> Self {
        let quota = server.cache.quota_of(draft.key()).map(|(index, _)| index);
        let (info, grown) = (Arc::clone(info), (server.now(), 0));
        let number = {
            let mut list = lock(&server.unfinished.list);
            let number = list.next_number;
            list.next_number += 1;
            list.senders.insert(number, Sender { owner, info, claim: 0, grown, quota });
            number
        };
        let is_sure = draft.value_bytes() <= SHORT_BYTES;
        let mut unfinished = Self { server, number, bytes: 0, is_sure };
        unfinished.count(draft);
        unfinished
    }

    /// The value's number among all unfinished values.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it may get more memory.
    pub fn may_grow(&mut self, draft: &Draft<'_>) -> bool {
        if self.is_sure {
            return true;
        }
        let (limit, limits) = (&self.server.unfinished, Limits::of(self.server, draft.key()));
        let value_bytes = draft.value_bytes();
        let claims_all = self.bytes >= value_bytes / BEGUN_PART;
        let claim = if claims_all { value_bytes } else { self.bytes };
        let mut list = lock(&limit.list);
        let has_room = list.has_room(self.number, claim, limits);
        if has_room {
            list.claim(self.number, claim);
        }
        self.is_sure = has_room && claims_all;
        has_room
    }

    /// Counts the memory that the draft has got.
    pub fn count(&mut self, draft: &Draft<'_>) {
        let (limit, bytes) = (&self.server.unfinished, draft.held_bytes());
        let gained = bytes - std::mem::replace(&mut self.bytes, bytes);
        limit.bytes.fetch_add(gained, Ordering::Relaxed);
        let mut list = lock(&limit.list);
        let Some(sender) = list.senders.get_mut(&self.number) else { return };
        sender.grown = (self.server.now(), gained);
        if draft.value_bytes() > SHORT_BYTES {
            let claim = sender.claim.max(bytes);
            list.claim(self.number, claim);
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let limit = &self.server.unfinished;
        limit.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        lock(&limit.list).remove(self.number);
    }
}
