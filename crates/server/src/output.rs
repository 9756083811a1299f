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

use ::io::moment::Stopwatch;
use ::io::net::Stream;
use larder::Item;
use std::io::{self, IoSlice};

use crate::counters::Counters;
use crate::parked::{Parked, ParkedLimit, Room};

/// Values of this size and above are written from where they lie. Below it, a copy is cheaper than
/// the gathering write's bookkeeping and the early flush that a borrowed slice forces.
const BORROWED_VALUE_BYTES_MIN: usize = 16 << 10;

/// Bytes of output that are written before more is made.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// Bytes of output, and of work charged like it, that end a connection's turn. As much as is read
/// of a value in one turn. Copying and writing this much takes a few hundred microseconds, beside
/// which the cost of coming back (two copies of at most 64 KiB of requests) is small.
pub const TURN_BYTES_MAX: usize = 1 << 20;

/// Values of this size and above are added only when there is room for what the socket may not
/// take. Where no client reads slowly the socket takes shorter ones as they are.
const ROOM_VALUE_BYTES_MIN: usize = 64 << 10;

/// Slices handed to one gathering write; the kernel takes up to 1024.
const SLICES_MAX: usize = 64;

/// The replies of one session to one connection.
pub struct Output<'o, 's> {
    /// Copied output. Reply writers append here.
    pub bytes: &'o mut Vec<u8>,
    borrowed: Vec<(usize, &'s [u8])>,
    borrowed_bytes: usize,
    /// Bytes charged for work.
    charged_bytes: usize,
    /// The room for what the socket may leave of long values, where room is required.
    room: Option<Room<'o>>,
}

impl<'o, 's> Output<'o, 's> {
    /// An output that appends to `bytes`.
    pub fn new(bytes: &'o mut Vec<u8>) -> Self {
        Self { bytes, borrowed: Vec::new(), borrowed_bytes: 0, charged_bytes: 0, room: None }
    }

    /// An output that requires room for what the socket may leave of long values; `waited` is when
    /// the connection began to wait for room.
    pub fn within(
        bytes: &'o mut Vec<u8>,
        limit: &'o ParkedLimit,
        waited: Option<Stopwatch>,
    ) -> Self {
        Self { room: Some(Room::new(limit, waited)), ..Self::new(bytes) }
    }

    /// A request was answered: the next one that finds no room has not waited yet.
    #[inline]
    pub fn end_wait(&mut self, waited: &mut Option<Stopwatch>) {
        if waited.take().is_some() {
            self.room.iter_mut().for_each(Room::end_wait);
        }
    }

    /// Whether there is room for what may have to be kept of a value of this many bytes, if it is
    /// added next. If not, its command is executed anew when other clients have taken their output.
    #[inline]
    pub fn has_room_for(&mut self, value_bytes: usize) -> bool {
        value_bytes < ROOM_VALUE_BYTES_MIN || self.find_room_for(value_bytes)
    }

    /// Whether there is room for a value of up to this many bytes without closing another
    /// connection: for a caller that would have to look up the length.
    pub fn has_room_at_once(&mut self, value_bytes_max: usize) -> bool {
        let bytes = self.made_bytes() + value_bytes_max;
        self.room.as_mut().is_none_or(|room| room.try_grow(bytes))
    }

    #[cold]
    fn find_room_for(&mut self, value_bytes: usize) -> bool {
        let bytes = self.made_bytes() + value_bytes;
        self.room.as_mut().is_none_or(|room| room.grow(bytes))
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

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.borrowed.is_empty()
    }

    /// Whether it has to be written before the session may end.
    pub fn is_borrowing(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// Counts work that the length of its reply does not tell, such as the copy of a changed value,
    /// like this many bytes of output, so that one look at the output's weight covers the work,
    /// too.
    pub fn charge(&mut self, bytes: usize) {
        self.charged_bytes += bytes;
    }

    /// Charges a whole turn: for work such as adding up the counters of all workers and size
    /// classes, or walking through memory.
    pub fn charge_turn(&mut self) {
        self.charge(TURN_BYTES_MAX);
    }

    /// Bytes charged since the last write.
    pub fn charged_bytes(&self) -> usize {
        self.charged_bytes
    }

    /// Bytes of output, copied and borrowed.
    pub fn made_bytes(&self) -> usize {
        self.bytes.len() + self.borrowed_bytes
    }

    /// Bytes of output and bytes charged for work.
    pub fn weight(&self) -> usize {
        self.made_bytes() + self.charged_bytes
    }

    /// Whether it should be written before more is added.
    pub fn is_full(&self) -> bool {
        self.weight() >= OUTPUT_BYTES_MAX
    }

    /// Writes everything; output that the socket does not take is parked.
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
        if let Some(room) = &mut self.room {
            room.give_back();
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
        let taken_bytes = rest.iter().map(|slice| slice.len()).sum();
        let taken_bytes = self.room.as_mut().map_or(0, |room| room.spend(taken_bytes));
        parked.park_with(rest, taken_bytes, limit)?;
        parked.hold_sealed(stream, limit)
    }
}

impl Counters {
    /// Counts bytes that a socket took.
    pub fn add_written(&self, bytes: usize) {
        self.bytes_written.add(bytes as u64);
    }
}

/// Writes replies; output that the socket does not take is parked.
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

/// Writes until the socket takes no more; returns the number of bytes written.
pub fn write_some(stream: &mut Stream, source: &[u8]) -> io::Result<usize> {
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
