//! Replies on their way to a socket.
//!
//! ```text
//! bytes     VALUE a 0 3\r\nabc\r\nVALUE big 0 99999\r\n | \r\nEND\r\n
//!                                                       ^
//! borrowed                                              at this place: the value in item memory
//! ```
//!
//! Small values are copied behind their header. Large ones stay where they are: [`Output`] only
//! remembers the slice, which lives as long as the cache session, and the write gathers both. What
//! the socket does not take is copied into the connection's [`Parked`] output before the session
//! ends, so no connection can hold a session open.

use std::sync::atomic::{AtomicUsize, Ordering};

use ::io::net::Stream;
use larder::Item;
use std::io::{self, IoSlice};

use crate::counters::Counters;

/// Values from this size on are written from where they lie. Below it, a copy is cheaper than the
/// gathering write's bookkeeping and the early flush that a borrowed slice forces.
const BORROWED_VALUE_BYTES_MIN: usize = 16 << 10;

/// So much output is written before more is made.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// So much output is made in one turn of a connection, and work that counts like it: then others
/// come first. As much as is read of a value in one turn. To copy and to write that much takes a
/// few hundred microseconds, beside which what it costs to come back (two copies of at most 64 KiB
/// of requests) is little.
pub const TURN_BYTES_MAX: usize = 1 << 20;

/// Slices handed to one gathering write; the kernel takes up to 1024.
const SLICES_MAX: usize = 64;

/// The replies of one session to one connection.
pub struct Output<'o, 's> {
    /// What is written by copying. Reply writers append here.
    pub bytes: &'o mut Vec<u8>,
    borrowed: Vec<(usize, &'s [u8])>,
    borrowed_bytes: usize,
    /// What work counts like.
    charged_bytes: usize,
}

impl<'o, 's> Output<'o, 's> {
    /// Goes on behind what already stands in `bytes`.
    pub fn new(bytes: &'o mut Vec<u8>) -> Self {
        Self { bytes, borrowed: Vec::new(), borrowed_bytes: 0, charged_bytes: 0 }
    }

    /// Appends an item's value and the line end behind it.
    #[inline]
    pub fn value_line(&mut self, item: &Item<'s>) {
        self.value(item);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends an item's value.
    #[inline]
    pub fn value(&mut self, item: &Item<'s>) {
        match item.contiguous() {
            Some(value) if value.len() < BORROWED_VALUE_BYTES_MIN => {
                self.bytes.reserve(value.len() + 2);
                self.bytes.extend_from_slice(value);
            }
            _ => self.part(item, 0, item.value_bytes()),
        }
    }

    /// Appends `take` bytes of an item's value from behind the first `skip`.
    #[inline(never)]
    pub fn part(&mut self, item: &Item<'s>, skip: usize, take: usize) {
        let is_copied = take < BORROWED_VALUE_BYTES_MIN;
        for piece in item.part(skip, take) {
            if is_copied {
                self.bytes.extend_from_slice(piece);
            } else {
                self.borrowed.push((self.bytes.len(), piece));
                self.borrowed_bytes += piece.len();
            }
        }
    }

    /// Whether nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.borrowed.is_empty()
    }

    /// Whether it has to be written before the session may end.
    pub fn is_borrowing(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// Counts work that the length of its reply does not tell, such as the copy of a value that is
    /// added to, like so many bytes of output: whoever looks whether there is much to write sees
    /// that much was done, and nobody has to look for that as well.
    pub fn charge(&mut self, bytes: usize) {
        self.charged_bytes += bytes;
    }

    /// Counts work that is worth a turn: to add up what all workers and size classes count, or to
    /// walk through memory.
    pub fn charge_turn(&mut self) {
        self.charge(TURN_BYTES_MAX);
    }

    /// What has been charged since it was last written.
    pub fn charged_bytes(&self) -> usize {
        self.charged_bytes
    }

    /// Its bytes, and those that work counts like.
    pub fn weight(&self) -> usize {
        self.bytes.len() + self.borrowed_bytes + self.charged_bytes
    }

    /// Whether it should be written before more is added.
    pub fn is_full(&self) -> bool {
        self.weight() >= OUTPUT_BYTES_MAX
    }

    /// Writes everything; what the socket does not take is parked.
    pub fn flush(
        &mut self,
        stream: &mut Stream,
        parked: &mut Parked,
        counters: &Counters,
        limit: &ParkedLimit,
    ) -> io::Result<()> {
        if self.borrowed.is_empty() {
            write(self.bytes, stream, parked, counters, limit)?;
        } else {
            debug_assert!(parked.is_empty(), "output would overtake parked output");
            self.flush_gathered(stream, parked, counters, limit)?;
        }
        self.bytes.clear();
        self.borrowed.clear();
        self.borrowed_bytes = 0;
        self.charged_bytes = 0;
        Ok(())
    }

    /// Cuts the copied bytes at the places of the borrowed ones and writes all in order.
    fn flush_gathered(
        &mut self,
        stream: &mut Stream,
        parked: &mut Parked,
        counters: &Counters,
        limit: &ParkedLimit,
    ) -> io::Result<()> {
        let mut slices: Vec<&[u8]> = Vec::with_capacity(2 * self.borrowed.len() + 1);
        let mut start = 0;
        for &(place, piece) in &self.borrowed {
            slices.push(&self.bytes[start..place]);
            slices.push(piece);
            start = place;
        }
        slices.push(&self.bytes[start..]);
        slices.retain(|slice| !slice.is_empty());

        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let batch: Vec<IoSlice<'_>> =
                rest.iter().take(SLICES_MAX).map(|slice| IoSlice::new(slice)).collect();
            let mut written = match stream.write_vectored(&batch) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            counters.add_written(written);
            while !rest.is_empty() && written >= rest[0].len() {
                written -= rest[0].len();
                rest = &mut rest[1..];
            }
            if written > 0 {
                rest[0] = &rest[0][written..];
            }
        }
        parked.park(rest, limit)?;
        parked.hold_sealed(stream, limit)
    }
}

impl Counters {
    /// Counts bytes that a socket took.
    fn add_written(&self, bytes: usize) {
        self.bytes_written.add(bytes as u64);
    }
}

/// Writes replies; what the socket does not take is parked.
pub fn write(
    replies: &[u8],
    stream: &mut Stream,
    parked: &mut Parked,
    counters: &Counters,
    limit: &ParkedLimit,
) -> io::Result<()> {
    if replies.is_empty() {
        return Ok(());
    }
    debug_assert!(parked.is_empty(), "output would overtake parked output");
    let written = write_some(stream, replies)?;
    counters.add_written(written);
    if written < replies.len() {
        parked.park(&[&replies[written..]], limit)?;
        parked.hold_sealed(stream, limit)?;
    }
    Ok(())
}

/// Writes until the socket takes no more; returns how much it took.
fn write_some(stream: &mut Stream, source: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < source.len() {
        match stream.write(&source[written..]) {
            Ok(taken) => written += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// How much output all connections together may have parked.
#[derive(Debug)]
pub struct ParkedLimit {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl ParkedLimit {
    /// What is allowed beside a share of `-m`.
    const BYTES_BASE: usize = 16 << 20;

    /// Whoever has not said who it is gets nothing more once one part in so many is taken: anybody
    /// can be that, and shall not have those closed who may be here.
    const STRANGERS_PART: usize = 4;

    /// 3 % of the memory and 16 MiB; but one reply of any size that the item limit allows must be
    /// possible, or a large item could never be read by a slow client.
    pub fn new(memory_bytes: usize, item_bytes_max: usize) -> Self {
        let share = memory_bytes / 100 * 3 + Self::BYTES_BASE;
        Self { bytes: AtomicUsize::new(0), bytes_max: share.max(item_bytes_max + OUTPUT_BYTES_MAX) }
    }

    /// Bytes parked now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The most that may be.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn take(&self, bytes: usize, is_stranger: bool) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let parts = if is_stranger { Self::STRANGERS_PART } else { 1 };
        if before + bytes > self.bytes_max / parts {
            self.give_back(bytes);
            return false;
        }
        true
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A connection's output that its socket has not taken yet. Holds no memory when empty.
#[derive(Debug, Default)]
pub struct Parked {
    bytes: Vec<u8>,
    written: usize,
    /// Bytes that the stream keeps beside it.
    held_bytes: usize,
    /// Bytes of input that wait to be executed, or for the rest of their command.
    kept_bytes: usize,
    /// Its client has not said who it is.
    is_stranger: bool,
}

impl Parked {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether its client has yet to say who it is, and so may have less.
    pub fn set_stranger(&mut self, is_stranger: bool) {
        self.is_stranger = is_stranger;
    }

    /// Keeps `slices`; an error of kind `OutOfMemory` says that the limit forbids it.
    pub fn park(&mut self, slices: &[&[u8]], limit: &ParkedLimit) -> io::Result<()> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if bytes == 0 {
            return Ok(());
        }
        if !limit.take(bytes, self.is_stranger) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.reserve_exact(bytes);
        for slice in slices {
            self.bytes.extend_from_slice(slice);
        }
        Ok(())
    }

    /// Counts `bytes` that are kept for as long as the output is.
    fn hold(&mut self, bytes: usize, limit: &ParkedLimit) -> io::Result<()> {
        if !limit.take(bytes, self.is_stranger) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.held_bytes += bytes;
        Ok(())
    }

    /// Counts what the stream may keep beside it.
    fn hold_sealed(&mut self, stream: &Stream, limit: &ParkedLimit) -> io::Result<()> {
        match stream.unsent_bytes_max() {
            bytes if bytes > 0 && !self.is_empty() => self.hold(bytes, limit),
            _ => Ok(()),
        }
    }

    /// Counts `bytes` of input that is kept, instead of those that were before. Fewer are always
    /// allowed.
    #[inline]
    pub fn keep(&mut self, bytes: usize, limit: &ParkedLimit) -> io::Result<()> {
        // As after nearly every turn; nothing is written that all workers write.
        if bytes == self.kept_bytes { Ok(()) } else { self.keep_instead(bytes, limit) }
    }

    #[cold]
    #[inline(never)]
    fn keep_instead(&mut self, bytes: usize, limit: &ParkedLimit) -> io::Result<()> {
        let before = std::mem::replace(&mut self.kept_bytes, bytes);
        if bytes < before {
            limit.give_back(before - bytes);
        } else if !limit.take(bytes - before, self.is_stranger) {
            self.kept_bytes = before;
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    /// Writes what the socket takes.
    pub fn flush(
        &mut self,
        stream: &mut Stream,
        counters: &Counters,
        limit: &ParkedLimit,
    ) -> io::Result<()> {
        let written = write_some(stream, &self.bytes[self.written..])?;
        counters.add_written(written);
        self.written += written;
        if self.written == self.bytes.len() {
            self.discard(limit);
        }
        Ok(())
    }

    /// Forgets the output, as when the connection closes.
    pub fn discard(&mut self, limit: &ParkedLimit) {
        limit.give_back(self.bytes.len() + self.held_bytes);
        let Self { kept_bytes, is_stranger, .. } = *self;
        *self = Self { kept_bytes, is_stranger, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_at_its_edge() {
        let limit = ParkedLimit { bytes: AtomicUsize::new(0), bytes_max: 10 };
        let mut parked = Parked::default();
        parked.park(&[b"12345", b"67890"], &limit).expect("exactly the limit");
        let mut other = Parked::default();
        let error = other.park(&[b"x"], &limit).expect_err("one too many");
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        parked.discard(&limit);
        assert_eq!(limit.bytes(), 0);
        other.park(&[b"x"], &limit).expect("there is room again");
    }

    #[test]
    fn strangers_leave_most_of_it_to_others() {
        let limit = ParkedLimit { bytes: AtomicUsize::new(0), bytes_max: 40 };
        let (mut stranger, mut known) = (Parked::default(), Parked::default());
        stranger.set_stranger(true);
        stranger.keep(6, &limit).expect("room");
        stranger.park(&[b"1234"], &limit).expect("exactly their part");
        assert!(stranger.keep(7, &limit).is_err() && stranger.hold(1, &limit).is_err());
        known.keep(30, &limit).expect("all that is left");
        stranger.discard(&limit);
        assert!(stranger.park(&[b"1"], &limit).is_err(), "it is still one");
        stranger.set_stranger(false);
        stranger.park(&[b"1234"], &limit).expect("and now it is none");
    }

    #[test]
    fn what_is_kept_of_commands_counts_once() {
        let limit = ParkedLimit { bytes: AtomicUsize::new(0), bytes_max: 10 };
        let mut parked = Parked::default();
        parked.keep(7, &limit).expect("room");
        parked.keep(10, &limit).expect("exactly the limit");
        assert!(parked.keep(11, &limit).is_err());
        assert_eq!(limit.bytes(), 10);
        parked.keep(4, &limit).expect("fewer");
        parked.park(&[b"123456"], &limit).expect("room again");
        parked.discard(&limit);
        assert_eq!(limit.bytes(), 4, "output has gone, input has not");
        parked.keep(0, &limit).expect("fewer");
        assert_eq!(limit.bytes(), 0);
    }
}
