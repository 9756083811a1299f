//! Output that sockets have not taken yet, and the limit on it for all connections together.
//!
//! ```text
//! worker 0   connection   Parked --+
//!            connection   Parked --|--+
//! worker 1   connection   Parked --|--|--+
//!                                  v  v  v
//!            ParkedLimit   list of Waiting: the bytes, and since when the socket took none
//! ```
//!
//! Where room runs out, connections whose clients take none of their replies are closed, longest
//! stalled first, whichever worker they are with: their output is dropped at once, and their worker
//! hears through its mailbox that it has to close them. Only if they do not have enough is the
//! connection refused that needs room. So no client that reads is closed in place of one that does
//! not, and the limit is exceeded at no moment.
//!
//! Nor is a client that reads closed because others do: a long value is not read, nor changed by a
//! request that is answered with it, before there is [`Room`] for all that the socket may leave of
//! it, and until there is, its connection waits.
//!
//! Input that has to wait, for that output or for the rest of a command, counts towards the limit.

mod room;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::io::moment::Stopwatch;
use ::io::net::Stream;
use stdx::sync::lock;

use crate::connection::Close;
use crate::connection_id::ConnectionId;
use crate::counters::Counters;
use crate::output::{OUTPUT_BYTES_MAX, write_some};
use crate::worker::{Delivery, Mailbox, Message};

pub use room::Room;

/// A client that has taken nothing for this long makes room for others that need it. Until then
/// others are refused, so it is short; [`TRY_AFTER`] ensures that a client that takes its replies
/// slowly is not among them.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// The same time for a client that has a dump's place, for which others can ask again without loss.
const DUMP_STALLED_AFTER: Duration = Duration::from_secs(10);

/// Delay after which a socket that has taken something is tried without an event, again and again.
/// The kernel announces room when a third of a socket's buffer is free, which with a slow client
/// may be many seconds later, and the client would look as if it took nothing.
pub const TRY_AFTER: Duration = Duration::from_millis(250);

/// The limit on output parked by all connections together, and the connections that have some.
#[derive(Debug)]
pub struct ParkedLimit {
    bytes: AtomicUsize,
    /// The limit in bytes; follows the memory limit.
    bytes_max: AtomicUsize,
    /// The limit of one item, in bytes.
    item_bytes_max: usize,
    /// All connections with parked output, by their [`Slot::number`].
    list: Mutex<List>,
    /// Where workers hear of connections that have to be closed.
    mailboxes: Vec<Arc<Mailbox>>,
    /// The clock of [`Waiting::progressed`] and [`Waiting::tried`].
    clock: Stopwatch,
}

/// The connections that have output parked.
#[derive(Debug, Default)]
struct List {
    next_number: u64,
    waiting: BTreeMap<u64, Arc<Mutex<Waiting>>>,
}

/// A connection's parked output.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    written: usize,
    /// Other counted bytes of its connection, which only its worker can give back.
    beside_bytes: usize,
    owner: ConnectionId,
    /// When the socket last took something, by [`ParkedLimit::clock`].
    progressed: Duration,
    /// When it was last tried. A client is stalled for the time from `progressed` to this: a worker
    /// that has no time makes no client look as if it did not read.
    tried: Duration,
    /// It belongs to a dump, which holds a place.
    is_dump: bool,
    /// The output is dropped, and its worker has to close the connection.
    is_ended: bool,
}

impl ParkedLimit {
    /// Bytes allowed beside a share of `-m`.
    const BYTES_BASE: usize = 16 << 20;

    /// An unauthenticated client gets nothing more once one part in this many is taken: anyone can
    /// be one, and must not have authenticated clients closed.
    const STRANGERS_PART: usize = 4;

    /// Bytes that a command may take beside the value of the largest item: names, keys, options.
    const COMMAND_BYTES_BASE: usize = 64 << 10;

    /// A limit with nothing parked.
    pub fn new(memory_bytes: usize, item_bytes_max: usize, mailboxes: &[Arc<Mailbox>]) -> Self {
        let limit = Self {
            bytes: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(0),
            item_bytes_max,
            list: Mutex::default(),
            mailboxes: mailboxes.to_vec(),
            clock: Stopwatch::start(),
        };
        limit.set_memory_bytes(memory_bytes);
        limit
    }

    /// Follows a new memory limit: 3 % of it and 16 MiB; but one reply of any size that the item
    /// limit allows must be possible, or a large item could never be read by a slow client. Output
    /// that is parked stays if it is more.
    pub fn set_memory_bytes(&self, memory_bytes: usize) {
        let share = memory_bytes / 100 * 3 + Self::BYTES_BASE;
        let bytes_max = share.max(self.item_bytes_max + OUTPUT_BYTES_MAX);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bytes parked now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that may be parked.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// The longest Redis command, which is kept until it is whole, and the most that is kept for
    /// EXEC: a quarter, so that a client that stores or asks for much at once leaves room for
    /// others, but always one value of any size that the item limit allows, with names and options.
    pub fn command_bytes_max(&self) -> usize {
        (self.bytes_max() / 4).max(self.short_command_bytes_max())
    }

    /// The longest command, except those of many keys.
    pub fn short_command_bytes_max(&self) -> usize {
        self.item_bytes_max + Self::COMMAND_BYTES_BASE
    }

    /// The most that all may keep when one client keeps `one_bytes` of input: one that keeps more
    /// than a command with the largest item has to leave half of it to others, or a few clients
    /// that send a part of a command and no more would have all of it. But one command fits, with
    /// the room behind it.
    fn kept_bytes_max(&self, one_bytes: usize) -> usize {
        let bytes_max = self.bytes_max();
        if one_bytes <= self.short_command_bytes_max() + Self::COMMAND_BYTES_BASE {
            return bytes_max;
        }
        let one_bytes_max = self.command_bytes_max() + Self::COMMAND_BYTES_BASE;
        (bytes_max / 2).max(one_bytes_max).min(bytes_max)
    }

    /// Whether this many bytes more of input, or of what was found for it, may be kept now by a
    /// client that then keeps `one_bytes`; closes stalled connections if need be.
    pub fn make_room_for_kept(&self, bytes: usize, one_bytes: usize) -> bool {
        self.make_room_up_to(bytes, self.kept_bytes_max(one_bytes))
    }

    /// Takes room, for which stalled connections may be closed unless an unauthenticated client
    /// asks.
    fn take(&self, bytes: usize, is_stranger: bool) -> bool {
        if is_stranger {
            return self.try_take(bytes, self.bytes_max() / Self::STRANGERS_PART);
        }
        self.take_up_to(bytes, self.bytes_max())
    }

    /// Takes room for input of a client that then keeps `one_bytes`.
    fn take_for_kept(&self, bytes: usize, one_bytes: usize, is_stranger: bool) -> bool {
        if is_stranger {
            return self.take(bytes, is_stranger);
        }
        self.take_up_to(bytes, self.kept_bytes_max(one_bytes))
    }

    fn take_up_to(&self, bytes: usize, bytes_max: usize) -> bool {
        self.try_take(bytes, bytes_max)
            || (self.make_room_up_to(bytes, bytes_max) && self.try_take(bytes, bytes_max))
    }

    fn try_take(&self, bytes: usize, bytes_max: usize) -> bool {
        // Not added first and taken back if it is too much: others that ask meanwhile would be
        // refused, or have connections closed, for bytes that are not kept.
        let fits = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Takes room in advance for the part of a long value that may have to be kept. The last of the
    /// room is for short replies, which are not asked for in advance. One value of any size fits.
    fn take_ahead(&self, bytes: usize) -> bool {
        self.try_take_ahead(bytes)
            || (self.make_room(bytes + OUTPUT_BYTES_MAX) && self.try_take_ahead(bytes))
    }

    /// Takes room in advance without closing any connection.
    fn try_take_ahead(&self, bytes: usize) -> bool {
        self.try_take(bytes, self.bytes_max().saturating_sub(OUTPUT_BYTES_MAX))
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether this many bytes more may be kept now; closes stalled connections if need be.
    pub fn make_room(&self, bytes: usize) -> bool {
        self.make_room_up_to(bytes, self.bytes_max())
    }

    /// Makes room so that at most `bytes_max` are kept in all.
    fn make_room_up_to(&self, bytes: usize, bytes_max: usize) -> bool {
        bytes <= bytes_max.saturating_sub(self.bytes()) || self.end_stalled(bytes, bytes_max)
    }

    /// The slots of a worker's connections that have to be tried, and whether it has any with
    /// output parked.
    pub fn to_be_tried(&self, worker: usize) -> (Vec<usize>, bool) {
        let now = self.clock.elapsed();
        let (mut due, mut has_any) = (Vec::new(), false);
        for waiting in lock(&self.list).waiting.values() {
            // If it is locked, its worker is just writing to it, or another thread looks as this
            // one does.
            let Ok(waiting) = waiting.try_lock() else {
                has_any = true;
                continue;
            };
            if waiting.owner.worker == worker {
                has_any = true;
                due.extend(waiting.is_quiet(now, TRY_AFTER).then_some(waiting.owner.slot));
            }
        }
        (due, has_any)
    }

    /// Ends the connections that have stalled for longest, until there is room for this many bytes.
    /// If they have too little together they stay: closing them would not help.
    #[cold]
    fn end_stalled(&self, bytes: usize, bytes_max: usize) -> bool {
        let missing = || (self.bytes() + bytes).saturating_sub(bytes_max);
        let list = lock(&self.list);
        let mut stalled: Vec<_> = list
            .waiting
            .values()
            .filter_map(|waiting| {
                // If it is locked, its worker is just writing to its socket.
                let locked = waiting.try_lock().ok()?;
                let counted = locked.bytes.len() + locked.beside_bytes;
                locked.is_stalled(STALLED_AFTER).then(|| (locked.progressed, counted, waiting))
            })
            .collect();
        if stalled.iter().map(|(_, counted, _)| counted).sum::<usize>() < missing() {
            return false;
        }
        stalled.sort_unstable_by_key(|(progressed, ..)| *progressed);
        // Bytes that come back once their workers have closed them. Until then there may be too
        // little.
        let mut coming_bytes = 0;
        let mut ended = Vec::new();
        for (_, _, waiting) in stalled {
            if missing() <= coming_bytes {
                break;
            }
            let Ok(mut waiting) = waiting.try_lock() else { continue };
            if waiting.is_stalled(STALLED_AFTER) {
                coming_bytes += waiting.beside_bytes;
                ended.push(waiting.owner);
                self.give_back(waiting.end());
            }
        }
        drop(list);
        ended.into_iter().for_each(|owner| self.have_closed(owner, Close::Stalled));
        missing() == 0
    }

    /// Ends the dump whose client has stalled for longest, if any has: another dump asks for its
    /// place, and gets it once the worker has closed the connection.
    #[cold]
    pub fn end_stalled_dump(&self) {
        let list = lock(&self.list);
        let dumps = list
            .waiting
            .values()
            .filter_map(|waiting| waiting.try_lock().ok().filter(|waiting| waiting.is_dump));
        let dumps: Vec<_> = dumps.collect();
        // Its place is about to be free.
        if dumps.iter().any(|waiting| waiting.is_ended) {
            return;
        }
        let stalled = dumps.into_iter().filter(|waiting| waiting.is_stalled(DUMP_STALLED_AFTER));
        let Some(mut waiting) = stalled.min_by_key(|waiting| waiting.progressed) else { return };
        let owner = waiting.owner;
        self.give_back(waiting.end());
        drop(waiting);
        drop(list);
        self.have_closed(owner, Close::StalledDump);
    }

    fn have_closed(&self, to: ConnectionId, close: Close) {
        if let Some(mailbox) = self.mailboxes.get(to.worker) {
            mailbox.deliver(Delivery { to, message: Message::Close(close) });
        }
    }
}

impl Waiting {
    /// Whether the socket took nothing for `patience` after it had last taken something.
    fn is_stalled(&self, patience: Duration) -> bool {
        !self.is_ended && self.tried.saturating_sub(self.progressed) >= patience
    }

    /// Whether the socket last took something `patience` ago or longer, as far as is known.
    fn is_quiet(&self, now: Duration, patience: Duration) -> bool {
        !self.is_ended && now.saturating_sub(self.progressed) >= patience
    }

    /// Drops the output; returns its length in bytes.
    fn end(&mut self) -> usize {
        self.is_ended = true;
        self.written = 0;
        std::mem::take(&mut self.bytes).len()
    }
}

/// A connection's output that its socket has not taken yet. Holds no memory when empty.
#[derive(Debug, Default)]
pub struct Parked {
    slot: Option<Slot>,
    owner: ConnectionId,
    /// Bytes that its stream keeps meanwhile.
    held_bytes: usize,
    /// Bytes of input that wait, for the output or for the rest of a command.
    kept_bytes: usize,
    /// Its client is unauthenticated.
    is_stranger: bool,
}

/// Parked output and its number in the list.
#[derive(Debug)]
struct Slot {
    number: u64,
    waiting: Arc<Mutex<Waiting>>,
}

impl Parked {
    /// Whether there is no output. Output dropped to make room counts until the connection closes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slot.is_none()
    }

    /// The connection that it belongs to.
    pub fn owner(&self) -> ConnectionId {
        self.owner
    }

    /// Sets the connection that it belongs to.
    pub fn set_owner(&mut self, owner: ConnectionId) {
        self.owner = owner;
    }

    /// Sets whether its client is unauthenticated, and so may have less.
    pub fn set_stranger(&mut self, is_stranger: bool) {
        self.is_stranger = is_stranger;
    }

    /// Sets whether the parked output is of a dump, which holds a place that others may want.
    pub fn set_dump(&self, is_dump: bool) {
        if let Some(slot) = &self.slot {
            lock(&slot.waiting).is_dump = is_dump;
        }
    }

    /// Whether there is output of which the socket took nothing when it was last tried, `patience`
    /// after it had last taken something.
    pub fn is_stalled(&self, patience: Duration) -> bool {
        self.slot.as_ref().is_some_and(|slot| lock(&slot.waiting).is_stalled(patience))
    }

    /// Keeps `slices`; an error of kind `OutOfMemory` says that the limit forbids it.
    pub fn park(&mut self, slices: &[&[u8]], limit: &ParkedLimit) -> io::Result<()> {
        self.park_with(slices, 0, limit)
    }

    /// [`Parked::park`] where room for `taken_bytes` of it is already taken.
    pub fn park_with(
        &mut self,
        slices: &[&[u8]],
        taken_bytes: usize,
        limit: &ParkedLimit,
    ) -> io::Result<()> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if bytes == 0 {
            return Ok(());
        }
        debug_assert!(self.is_empty(), "output would overtake parked output");
        if !limit.take(bytes - taken_bytes, self.is_stranger) {
            limit.give_back(taken_bytes);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let now = limit.clock.elapsed();
        let waiting = Arc::new(Mutex::new(Waiting {
            bytes: slices.concat(),
            written: 0,
            beside_bytes: self.held_bytes + self.kept_bytes,
            owner: self.owner,
            progressed: now,
            tried: now,
            is_dump: false,
            is_ended: false,
        }));
        let mut list = lock(&limit.list);
        let number = list.next_number;
        list.next_number += 1;
        list.waiting.insert(number, Arc::clone(&waiting));
        self.slot = Some(Slot { number, waiting });
        Ok(())
    }

    /// Counts the bytes that the stream may keep beside it.
    pub fn hold_sealed(&mut self, stream: &Stream, limit: &ParkedLimit) -> io::Result<()> {
        let bytes = stream.unsent_bytes_max();
        if bytes == 0 || self.is_empty() {
            return Ok(());
        }
        if !limit.take(bytes, self.is_stranger) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.held_bytes += bytes;
        self.tell_beside();
        Ok(())
    }

    /// Counts `bytes` of waiting input in place of those counted before. Fewer are always allowed.
    #[inline]
    pub fn keep(&mut self, bytes: usize, limit: &ParkedLimit) -> io::Result<()> {
        if bytes == self.kept_bytes { Ok(()) } else { self.change_kept(bytes, limit) }
    }

    fn change_kept(&mut self, bytes: usize, limit: &ParkedLimit) -> io::Result<()> {
        let before = self.kept_bytes;
        if bytes <= before {
            limit.give_back(before - bytes);
        } else if !limit.take_for_kept(bytes - before, bytes, self.is_stranger) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.kept_bytes = bytes;
        self.tell_beside();
        Ok(())
    }

    fn tell_beside(&self) {
        if let Some(slot) = &self.slot {
            lock(&slot.waiting).beside_bytes = self.held_bytes + self.kept_bytes;
        }
    }

    /// Writes as much as the socket takes.
    pub fn flush(
        &mut self,
        stream: &mut Stream,
        counters: &Counters,
        limit: &ParkedLimit,
    ) -> io::Result<()> {
        let Some(slot) = &self.slot else { return Ok(()) };
        let mut waiting = lock(&slot.waiting);
        if waiting.is_ended {
            return Ok(());
        }
        let written = write_some(stream, &waiting.bytes[waiting.written..])?;
        counters.add_written(written);
        waiting.written += written;
        waiting.tried = limit.clock.elapsed();
        if stream.take_progress() || written > 0 {
            waiting.progressed = waiting.tried;
        }
        let is_done = waiting.written == waiting.bytes.len();
        drop(waiting);
        if is_done {
            self.discard(limit);
        }
        Ok(())
    }

    /// Drops the output, as when the connection closes.
    pub fn discard(&mut self, limit: &ParkedLimit) {
        limit.give_back(std::mem::take(&mut self.held_bytes));
        if let Some(Slot { number, waiting }) = self.slot.take() {
            lock(&limit.list).waiting.remove(&number);
            limit.give_back(lock(&waiting).end());
        }
    }
}

#[cfg(test)]
mod tests;
