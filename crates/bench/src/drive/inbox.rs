//! The received and not yet parsed bytes of one connection.
//!
//! ```text
//!   [ taken | waiting | room ]
//!     0 .. start .. end .. capacity
//! ```
//!
//! When nothing waits, which is nearly always, both marks return to the front. A reply that does
//! not fit makes the buffer grow, up to a limit above the largest item.

use std::io::{self, Read};

use crate::failure::{Failure, Outcome};

/// Small, so that the buffers of many connections stay in the CPU's caches together.
const INBOX_BYTES: usize = 16 << 10;
/// The largest unfinished piece of a reply, in bytes: an item of 1 MiB with room.
const INBOX_BYTES_MAX: usize = 4 << 20;

/// A growing receive buffer.
#[derive(Debug)]
pub struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes, and the socket is probably drained.
    Some,
    /// As many bytes as there was room for: read again.
    Full,
    /// Nothing at this moment.
    Nothing,
}

impl Inbox {
    /// An empty buffer.
    pub fn new() -> Inbox {
        Inbox { buffer: vec![0; INBOX_BYTES], start: 0, end: 0 }
    }

    /// Reads once from `stream`.
    pub fn receive(&mut self, stream: &mut impl Read) -> Outcome<Received> {
        self.make_room()?;
        match stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => Err(Failure::Closed(String::new())),
            Ok(bytes) => {
                self.end += bytes;
                let full = self.end == self.buffer.len();
                Ok(if full { Received::Full } else { Received::Some })
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Received::Full),
            Err(error) => Err(Failure::io("reading a reply")(error)),
        }
    }

    /// Returns the bytes that are not yet parsed.
    pub fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes `bytes` off the front of the waiting bytes.
    pub fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "more taken than waits");
        self.start += bytes;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    fn make_room(&mut self) -> Outcome<()> {
        if self.end < self.buffer.len() {
            return Ok(());
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else if self.buffer.len() < INBOX_BYTES_MAX {
            self.buffer.resize(self.buffer.len() * 2, 0);
        } else {
            return Err(Failure::Reply("a reply is longer than any item".into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{INBOX_BYTES, INBOX_BYTES_MAX, Inbox, Received};

    #[test]
    fn bytes_survive_moving_and_growing() {
        let sent: Vec<u8> = (0..3 * INBOX_BYTES).map(|at| at as u8).collect();
        let mut stream = sent.as_slice();
        let mut inbox = Inbox::new();
        assert_eq!(inbox.receive(&mut stream).expect("room"), Received::Full);
        inbox.take(100);
        while inbox.receive(&mut stream).is_ok() {}
        assert_eq!(inbox.waiting(), &sent[100..]);
    }

    #[test]
    fn an_endless_reply_is_refused_at_the_limit() {
        let sent = vec![0; INBOX_BYTES_MAX + 1];
        let mut stream = sent.as_slice();
        let mut inbox = Inbox::new();
        while inbox.receive(&mut stream).is_ok() {}
        assert_eq!(inbox.waiting().len(), INBOX_BYTES_MAX);
    }
}
