//! Reading ahead: the sockets that became ready together are read together, before anything is
//! executed, so that the memory their requests need is fetched for all at once.
//!
//! ```text
//!   events:   a      b      c                    one buffer
//!   read  -> |  a's  |  b's  |  c's  |  ...          |
//!   hash the first key of each, ask for its index lines, then for its item
//!   execute a's, b's, c's; write after each
//! ```
//!
//! A lone request has nothing to overlap its cache misses with; but a server that has anything to
//! do has several clients' requests waiting when it looks. Each connection's requests are still
//! executed in their order, and answered before the next connection's are executed.

use std::ops::Range;

use larder::Cache;

use crate::connection::{Close, Connection, State};
use crate::counters::Counters;
use crate::turn::READ_BYTES;

/// Bytes of the buffer: this many full reads, or as many small ones as there are events.
const BUFFER_READS: usize = 4;

/// The longest verb whose key is looked for; the rest are rare.
const VERB_BYTES_MAX: usize = 8;

/// What one connection has sent.
#[derive(Debug)]
pub struct Ahead {
    /// Which connection of its worker.
    pub place: usize,
    /// Where its bytes are in the buffer.
    pub bytes: Range<usize>,
    /// The client sends no more.
    pub is_ended: bool,
}

/// What has been read and not been executed, of one worker.
#[derive(Debug)]
pub struct ReadAhead {
    buffer: Vec<u8>,
    filled: usize,
    reads: Vec<Ahead>,
}

impl ReadAhead {
    /// Nothing read.
    pub fn new() -> Self {
        Self { buffer: vec![0; BUFFER_READS * READ_BYTES], filled: 0, reads: Vec::new() }
    }

    /// Whether another full read fits.
    pub fn has_room(&self) -> bool {
        self.buffer.len() - self.filled >= READ_BYTES
    }

    /// Whether this connection's next turn is nothing but a read and the execution of what it
    /// brings.
    pub fn suits(connection: &Connection<'_>) -> bool {
        matches!(connection.state, State::Idle)
            && connection.is_readable
            && connection.unread.is_empty()
            && connection.parked.is_empty()
            && connection.closing.is_none()
    }

    /// Reads once from a connection.
    pub fn read(
        &mut self,
        place: usize,
        connection: &mut Connection<'_>,
        counters: &Counters,
    ) -> Result<(), Close> {
        let target = &mut self.buffer[self.filled..self.filled + READ_BYTES];
        let Some(read) = connection.read(target)? else {
            return Ok(());
        };
        counters.bytes_read.add(read as u64);
        let bytes = self.filled..self.filled + read;
        self.filled = bytes.end;
        self.reads.push(Ahead { place, bytes, is_ended: read == 0 });
        Ok(())
    }

    /// Asks for the memory that the first request of each connection will need.
    pub fn fetch(&self, cache: &Cache) {
        if self.reads.len() < 2 {
            return;
        }
        let session = cache.session();
        let keys = self.reads.iter().filter_map(|read| first_key(&self.buffer[read.bytes.clone()]));
        let hashes: Vec<_> = keys.map(|key| cache.hash(key)).collect();
        for &hash in &hashes {
            session.prefetch(hash);
        }
        for &hash in &hashes {
            session.prefetch_item(hash);
        }
    }

    /// Gives the buffer and what is in it away, to be given back by [`ReadAhead::put_back`].
    pub fn take(&mut self) -> (Vec<u8>, Vec<Ahead>) {
        self.filled = 0;
        (std::mem::take(&mut self.buffer), std::mem::take(&mut self.reads))
    }

    /// The buffer is free again.
    pub fn put_back(&mut self, buffer: Vec<u8>, mut reads: Vec<Ahead>) {
        reads.clear();
        (self.buffer, self.reads) = (buffer, reads);
    }
}

/// What stands where most requests have their key. Only a guess: it is good for a hint.
fn first_key(input: &[u8]) -> Option<&[u8]> {
    let verb_end = input.iter().take(VERB_BYTES_MAX).position(|&byte| byte == b' ')?;
    let rest = &input[verb_end + 1..];
    let key_end = memchr::memchr3(b' ', b'\r', b'\n', rest)?;
    Some(&rest[..key_end])
}

#[cfg(test)]
mod tests {
    use super::first_key;

    #[test]
    fn the_first_key_is_found_where_there_is_one() {
        assert_eq!(first_key(b"get abc\r\nget d\r\n"), Some(&b"abc"[..]));
        assert_eq!(first_key(b"set abc 0 0 1\r\nx\r\n"), Some(&b"abc"[..]));
        assert_eq!(first_key(b"mg abc v\n"), Some(&b"abc"[..]));
        let without: [&[u8]; 4] = [b"", b"mn\r\n", b"get abc", b"verylongverb key\r\n"];
        for input in without {
            assert_eq!(first_key(input), None);
        }
    }
}
