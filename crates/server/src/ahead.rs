//! Reading ahead: the sockets that became ready together are read together, before anything is
//! executed, so that the memory their requests need is fetched for all at once.
//!
//! ```text
//!   events:   a      b      c                    one buffer
//!   read  -> |  a's  |  b's  |  c's  |  ...          |
//!   hash the first key of each, ask for its index lines, then for its item
//!   execute a's, b's, c's; write a's, b's, c's replies
//! ```
//!
//! A lone request has nothing to overlap its cache misses with; but a server that has anything to
//! do has several clients' requests waiting when it looks. Each connection's requests are still
//! executed in their order.

use std::ops::Range;

use larder::Cache;
use protocol::Wire;

use crate::connection::{Close, Connection, State};
use crate::counters::Counters;
use crate::turn::READ_BYTES;

/// Bytes of the buffer: this many full reads, or as many small ones as there are events.
const BUFFER_READS: usize = 4;

/// Length of the longest verb whose key is looked for; longer ones are rare.
const VERB_BYTES_MAX: usize = 8;

/// Bytes before the extras and the key of a binary request.
const BINARY_HEADER_BYTES: usize = 24;

/// The bytes that one connection has sent.
#[derive(Debug)]
pub struct Ahead {
    /// The connection's slot in the worker's table.
    pub slot: usize,
    /// Their range in the buffer.
    pub bytes: Range<usize>,
    /// The client sends no more.
    pub is_ended: bool,
    /// Length of the connection's replies.
    pub reply_bytes: usize,
}

/// The input of several connections, and the replies to it.
#[derive(Debug, Default)]
pub struct Batch {
    /// The bytes that were read.
    pub input: Vec<u8>,
    /// The part of the input that each connection sent.
    pub reads: Vec<Ahead>,
    /// Short replies, in the order of `reads`.
    pub replies: Vec<u8>,
}

/// Input of one worker's connections that has been read and not been executed.
#[derive(Debug)]
pub struct ReadAhead {
    batch: Batch,
    filled: usize,
}

impl ReadAhead {
    /// An empty buffer.
    pub fn new() -> Self {
        let input = vec![0; BUFFER_READS * READ_BYTES];
        Self { batch: Batch { input, ..Batch::default() }, filled: 0 }
    }

    /// Whether another full read fits.
    pub fn has_room(&self) -> bool {
        self.batch.input.len() - self.filled >= READ_BYTES
    }

    /// Whether this connection's next turn is nothing but a read and the execution of its bytes.
    pub fn suits(connection: &Connection<'_>) -> bool {
        matches!(connection.state, State::Idle)
            && connection.is_readable
            && connection.unread.is_empty()
            && connection.parked.is_empty()
            && connection.fetching == 0
            && connection.fetched.is_empty()
            && connection.closing.is_none()
    }

    /// Reads once from a connection.
    #[inline(always)]
    pub fn read(
        &mut self,
        slot: usize,
        connection: &mut Connection<'_>,
        counters: &Counters,
    ) -> Result<(), Close> {
        let target = &mut self.batch.input[self.filled..self.filled + READ_BYTES];
        let read = connection.read(target, counters)?;
        // Without bytes and with more to come it gets a turn all the same, and then another.
        if read.is_none() && !connection.is_readable {
            return Ok(());
        }
        let is_ended = read == Some(0);
        let read = read.unwrap_or(0);
        let bytes = self.filled..self.filled + read;
        self.filled = bytes.end;
        self.batch.reads.push(Ahead { slot, bytes, is_ended, reply_bytes: 0 });
        Ok(())
    }

    /// Asks for the memory that the first request of each connection will need.
    #[inline(always)]
    pub fn fetch(&self, cache: &Cache) {
        let Batch { input, reads, .. } = &self.batch;
        if reads.len() < 2 {
            return;
        }
        let session = cache.session();
        let keys = reads.iter().filter_map(|read| first_key(&input[read.bytes.clone()]));
        let hashes: Vec<_> = keys.map(|key| cache.hash(key)).collect();
        for &hash in &hashes {
            session.prefetch(hash);
        }
        for &hash in &hashes {
            session.prefetch_item(hash, true);
        }
    }

    /// Takes the batch out, until [`ReadAhead::put_back`].
    pub fn take(&mut self) -> Batch {
        self.filled = 0;
        std::mem::take(&mut self.batch)
    }

    /// Ends the batch; its memory is used again.
    pub fn put_back(&mut self, mut batch: Batch) {
        batch.reads.clear();
        batch.replies.clear();
        self.batch = batch;
    }
}

/// The bytes where most requests have their key. Only a guess: it is good for a hint.
fn first_key(input: &[u8]) -> Option<&[u8]> {
    let first = *input.first()?;
    if first == b'*' {
        return first_key_of_array(input);
    }
    match Wire::of_first_byte(first) {
        Wire::Text => first_key_of_text(input),
        Wire::Binary => first_key_of_binary(input),
        Wire::Redis => unreachable!("no first byte tells it"),
    }
}

/// The second word of a Redis command: `*2 $3 GET $1 a`, each on a line of its own.
fn first_key_of_array(input: &[u8]) -> Option<&[u8]> {
    let mut lines = input.splitn(6, |&byte| byte == b'\n');
    let key = lines.nth(4)?;
    lines.next()?;
    key.strip_suffix(b"\r").filter(|key| !key.is_empty())
}

fn first_key_of_text(input: &[u8]) -> Option<&[u8]> {
    let verb_end = input.iter().take(VERB_BYTES_MAX).position(|&byte| byte == b' ')?;
    let rest = &input[verb_end + 1..];
    let key_end = memchr::memchr3(b' ', b'\r', b'\n', rest)?;
    Some(&rest[..key_end])
}

/// The key of a binary request, whose header tells its place and length.
fn first_key_of_binary(input: &[u8]) -> Option<&[u8]> {
    let lengths = input.get(2..5)?;
    let key_bytes = usize::from(u16::from_be_bytes([lengths[0], lengths[1]]));
    let start = BINARY_HEADER_BYTES + usize::from(lengths[2]);
    input.get(start..start + key_bytes).filter(|key| !key.is_empty())
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
        assert_eq!(first_key(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"), Some(&b"a"[..]));
        assert_eq!(first_key(b"*2\r\n$3\r\nGET\r\n$1\r\na"), None);
        let mut binary = b"\x80\0\0\x03\x04\0\0\0".to_vec();
        binary.resize(28, 0);
        binary.extend_from_slice(b"abcd");
        assert_eq!(first_key(&binary), Some(&b"abc"[..]));
        assert_eq!(first_key(&binary[..30]), None);
    }
}
