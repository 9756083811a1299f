//! Output that sockets have not taken yet, and how much of it all connections may have together.
//!
//! ```text
//! worker 0   connection   Parked --+
//!            connection   Parked --|--+
//! worker 1   connection   Parked --|--|--+
//!                                  v  v  v
//!            ParkedLimit   list of Waiting: the bytes, and since when the socket took none
//! ```
//!
//! Where there is no room for more, clients that take nothing of their replies make it, those first
//! that have not for longest, whichever worker they are with: their output is dropped at once, and
//! their worker hears through its mailbox that it has to close them. Only if they do not have
//! enough is the one who needs room refused. So nobody who reads is closed in place of one who does
//! not, and at no moment is there more than the limit allows.
//!
//! Nor is somebody who reads closed because others do: a long value is not read, nor changed by who
//! is to be answered with it, before there is [`Room`] for all that the socket may leave of it, and
//! until there is, its connection waits.
//!
//! Input that has to wait, for that output or for the rest of a command, counts with it.

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

/// A client that has taken nothing for so long makes room for others who need it. Until that is
/// over others are refused, so it is short; [`TRY_AFTER`] sees to it that whoever takes its replies
/// slowly is not among them.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// The same for the place of a dump, for which others can ask again and lose nothing by that.
const DUMP_STALLED_AFTER: Duration = Duration::from_secs(10);

/// So long after a socket has last taken something it is tried without an event, and again and
/// again. The kernel tells of room when a third of a socket's buffer is free, which with a slow
/// client may be many seconds from now, and it would look as if it took nothing.
pub const TRY_AFTER: Duration = Duration::from_millis(250);

/// How much output all connections together may have parked, and who has some.
#[derive(Debug)]
pub struct ParkedLimit {
    bytes: AtomicUsize,
    /// Another one where the memory limit is another one.
    bytes_max: AtomicUsize,
    /// Of one item.
    item_bytes_max: usize,
    /// All that has output parked, by their [`Slot::number`].
    list: Mutex<List>,
    /// Where workers hear of connections that have to be closed.
    mailboxes: Vec<Arc<Mailbox>>,
    /// What progress is told by.
    clock: Stopwatch,
}

/// All parked output.
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
    /// What else its connection has that counts, and that only its worker can give back.
    beside_bytes: usize,
    owner: ConnectionId,
    /// When the socket last took something, by [`ParkedLimit::clock`].
    progressed: Duration,
    /// When it was last tried. What counts is how long after `progressed` it still took nothing: a
    /// worker that has no time makes nobody look as if it did not read.
    tried: Duration,
    /// It belongs to a dump, which has a place.
    is_dump: bool,
    /// The output is dropped, and its worker has to close the connection.
    is_ended: bool,
}

impl ParkedLimit {
    /// What is allowed beside a share of `-m`.
    const BYTES_BASE: usize = 16 << 20;

    /// Whoever has not said who it is gets nothing more once one part in so many is taken: anybody
    /// can be that, and shall not have those closed who may be here.
    const STRANGERS_PART: usize = 4;

    /// What a command may take beside the value of the largest item: names, keys, options.
    const COMMAND_BYTES_BASE: usize = 64 << 10;

    /// With nothing parked.
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

    /// Goes by another memory limit: 3 % of it and 16 MiB; but one reply of any size that the item
    /// limit allows must be possible, or a large item could never be read by a slow client. What is
    /// parked stays if it is more.
    pub fn set_memory_bytes(&self, memory_bytes: usize) {
        let share = memory_bytes / 100 * 3 + Self::BYTES_BASE;
        let bytes_max = share.max(self.item_bytes_max + OUTPUT_BYTES_MAX);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bytes parked now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The most that may be.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// The longest command of Redis' protocol, which is kept until it is whole, and as much of what
    /// waits for EXEC: a quarter, so that one who stores or asks for much at once leaves room for
    /// others, but always one value of any size that the item limit allows, with names and options.
    pub fn command_bytes_max(&self) -> usize {
        (self.bytes_max() / 4).max(self.short_command_bytes_max())
    }

    /// The longest command but those of many keys.
    pub fn short_command_bytes_max(&self) -> usize {
        self.item_bytes_max + Self::COMMAND_BYTES_BASE
    }

    /// What all may keep when one keeps so many bytes of input: who keeps more than a command with
    /// the largest item has to leave half of it to others, for a few of those who send a part of a
    /// command and no more would have all of it. But one command fits, with the room behind it.
    fn kept_bytes_max(&self, one_bytes: usize) -> usize {
        let bytes_max = self.bytes_max();
        if one_bytes <= self.short_command_bytes_max() + Self::COMMAND_BYTES_BASE {
            return bytes_max;
        }
        let one_bytes_max = self.command_bytes_max() + Self::COMMAND_BYTES_BASE;
        (bytes_max / 2).max(one_bytes_max).min(bytes_max)
    }

    /// Whether so many bytes more of input, or of what was found for it, may be kept now by one who
    /// keeps `one_bytes` then, if need be because those go who take nothing.
    pub fn make_room_for_kept(&self, bytes: usize, one_bytes: usize) -> bool {
        self.make_room_up_to(bytes, self.kept_bytes_max(one_bytes))
    }

    /// Takes room, for which others may have to go unless a stranger asks.
    fn take(&self, bytes: usize, is_stranger: bool) -> bool {
        if is_stranger {
            return self.try_take(bytes, self.bytes_max() / Self::STRANGERS_PART);
        }
        self.take_up_to(bytes, self.bytes_max())
    }

    /// The same for input of one who keeps `one_bytes` then.
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
        // Not added first and taken back if it is too much: who asks meanwhile would be refused, or
        // have others closed, for what nobody has.
        let fits = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Takes room for what there may be to be kept of a long value. The last of it is for short
    /// replies, which nobody asks for before they are there. One value of any size fits.
    fn take_ahead(&self, bytes: usize) -> bool {
        self.try_take_ahead(bytes)
            || (self.make_room(bytes + OUTPUT_BYTES_MAX) && self.try_take_ahead(bytes))
    }

    /// The same where nobody has to go for it.
    fn try_take_ahead(&self, bytes: usize) -> bool {
        self.try_take(bytes, self.bytes_max().saturating_sub(OUTPUT_BYTES_MAX))
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether so many bytes more may be kept now, if need be because those go who take nothing.
    pub fn make_room(&self, bytes: usize) -> bool {
        self.make_room_up_to(bytes, self.bytes_max())
    }

    /// The same where no more than `bytes_max` may be kept in all.
    fn make_room_up_to(&self, bytes: usize, bytes_max: usize) -> bool {
        bytes <= bytes_max.saturating_sub(self.bytes()) || self.end_stalled(bytes, bytes_max)
    }

    /// Which connections of a worker have to be tried; and whether it has any with output parked.
    pub fn to_be_tried(&self, worker: usize) -> (Vec<usize>, bool) {
        let now = self.clock.elapsed();
        let (mut due, mut has_any) = (Vec::new(), false);
        for waiting in lock(&self.list).waiting.values() {
            // If it is locked, its worker is just writing to it, or somebody looks as we do.
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

    /// Ends those who have taken nothing for longest, until there is room for so many bytes. If
    /// they have too little together they stay: to close them would help nobody.
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
        // What comes back once their workers have closed them. Until then there may be too little.
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

    /// Ends the dump whose client has taken nothing for longest, if it has not for long: another
    /// one asks for its place, and gets it once the worker has closed the connection.
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
    /// Whether the socket took nothing so long after it had last taken something.
    fn is_stalled(&self, patience: Duration) -> bool {
        !self.is_ended && self.tried.saturating_sub(self.progressed) >= patience
    }

    /// Whether it last took something so long ago, for all that is known.
    fn is_quiet(&self, now: Duration, patience: Duration) -> bool {
        !self.is_ended && now.saturating_sub(self.progressed) >= patience
    }

    /// Drops the output; returns how many bytes that were.
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
    /// What its stream keeps meanwhile.
    held_bytes: usize,
    /// Bytes of input that wait, for the output or for the rest of a command.
    kept_bytes: usize,
    /// Its client has not said who it is.
    is_stranger: bool,
}

/// Parked output and its number in the list.
#[derive(Debug)]
struct Slot {
    number: u64,
    waiting: Arc<Mutex<Waiting>>,
}

impl Parked {
    /// Whether there is none. What was dropped to make room is some until the connection closes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slot.is_none()
    }

    /// Whose it is.
    pub fn owner(&self) -> ConnectionId {
        self.owner
    }

    /// Says whose it is.
    pub fn set_owner(&mut self, owner: ConnectionId) {
        self.owner = owner;
    }

    /// Whether its client has yet to say who it is, and so may have less.
    pub fn set_stranger(&mut self, is_stranger: bool) {
        self.is_stranger = is_stranger;
    }

    /// Whether what is parked is of a dump, which has a place that others may want.
    pub fn set_dump(&self, is_dump: bool) {
        if let Some(slot) = &self.slot {
            lock(&slot.waiting).is_dump = is_dump;
        }
    }

    /// Whether there is output of which the socket took nothing when it was tried last, so long
    /// after it had taken something.
    pub fn is_stalled(&self, patience: Duration) -> bool {
        self.slot.as_ref().is_some_and(|slot| lock(&slot.waiting).is_stalled(patience))
    }

    /// Keeps `slices`; an error of kind `OutOfMemory` says that the limit forbids it.
    pub fn park(&mut self, slices: &[&[u8]], limit: &ParkedLimit) -> io::Result<()> {
        self.park_with(slices, 0, limit)
    }

    /// [`Parked::park`] where room for `taken_bytes` of it is taken.
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

    /// Counts what the stream may keep beside it.
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

    /// Counts `bytes` of input that have to wait, instead of those that it had before. Fewer are
    /// always allowed.
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

    /// Writes what the socket takes.
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

    /// Forgets the output, as when the connection closes.
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
