//! A script: all requests of a workload as bytes, made before the clock runs.
//!
//! All requests of a script have the same length, so a batch of any size is a plain slice, and the
//! same script serves every pipeline depth:
//!
//! ```text
//!   bytes   | get k7 | get k3 | get k9 | get k3 | ...      request i at i * request_bytes
//!   asked   |   7    |   3    |   9    |   3    | ...      keys_per_request for each
//! ```
//!
//! A run longer than its script starts over.

use crate::drive::encode::{self, Dialect, Operation};
use crate::drive::items::{Shape, Size};

/// The most keys of a script.
pub const SCRIPT_KEYS_MAX: usize = 1_000_000;
/// The most bytes of their keys, and of their values where these are sent: scripts for several
/// workloads and two protocols are in memory, beside the servers.
pub const SCRIPT_BYTES_MAX: usize = 256 << 20;

/// Requests ready to be sent.
#[derive(Debug)]
pub struct Script {
    dialect: Dialect,
    operation: Operation,
    shape: Shape,
    keys_per_request: usize,
    request_bytes: usize,
    bytes: Vec<u8>,
    asked: Vec<u32>,
}

/// Consecutive requests of a script.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'s> {
    /// The requests as they go to the socket.
    pub bytes: &'s [u8],
    /// The items they name, in order.
    pub asked: &'s [u32],
    /// The number of replies that answer the batch.
    pub replies: u64,
}

impl Script {
    /// Encodes requests for the items `asked`, `keys_per_request` in each.
    pub fn new(
        dialect: Dialect,
        operation: Operation,
        shape: Shape,
        keys_per_request: usize,
        mut asked: Vec<u32>,
    ) -> Script {
        assert!(matches!(shape.size, Size::Fixed(_)), "requests of a script have one length");
        assert!(keys_per_request > 0 && asked.len() >= keys_per_request, "no request to encode");
        asked.truncate(asked.len() / keys_per_request * keys_per_request);
        let mut bytes = Vec::new();
        let mut request_bytes = 0;
        let (mut keys, mut value) = (Vec::new(), Vec::new());
        for group in asked.chunks_exact(keys_per_request) {
            keys.clear();
            group.iter().for_each(|index| shape.key(u64::from(*index), &mut keys));
            match operation {
                Operation::Get => {
                    encode::get(dialect, keys.chunks_exact(shape.key_bytes), &mut bytes);
                }
                Operation::Set => {
                    value.clear();
                    shape.value(u64::from(group[0]), &mut value);
                    encode::set(dialect, &keys, &value, &mut bytes);
                }
            }
            if request_bytes == 0 {
                request_bytes = bytes.len();
                bytes.reserve(request_bytes * (asked.len() / keys_per_request));
            }
        }
        assert_eq!(bytes.len(), request_bytes * (asked.len() / keys_per_request));
        Script { dialect, operation, shape, keys_per_request, request_bytes, bytes, asked }
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.asked.len() / self.keys_per_request
    }

    /// The protocol of the requests.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the operation of the requests.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The form of the items.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the number of keys in each request.
    pub fn keys_per_request(&self) -> usize {
        self.keys_per_request
    }

    /// Returns batch number `ordinal` of a run that sends `pipeline` requests at a time.
    #[inline]
    pub fn batch(&self, ordinal: u64, pipeline: usize) -> Batch<'_> {
        let pipeline = pipeline.min(self.requests());
        let batches = (self.requests() / pipeline) as u64;
        let first = (ordinal % batches) as usize * pipeline;
        let keys = pipeline * self.keys_per_request;
        let asked_at = first * self.keys_per_request;
        let per_key = self.dialect == Dialect::Resp && self.operation == Operation::Get;
        Batch {
            bytes: &self.bytes[first * self.request_bytes..(first + pipeline) * self.request_bytes],
            asked: &self.asked[asked_at..asked_at + keys],
            replies: if per_key { keys } else { pipeline } as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Script;
    use crate::drive::encode::{Dialect, Operation};
    use crate::drive::items::Shape;

    #[test]
    fn batches_walk_the_script_and_start_over() {
        let shape = Shape::fixed(10, 4);
        let script = Script::new(Dialect::Text, Operation::Get, shape, 2, vec![1, 2, 3, 4, 5]);
        assert_eq!(script.requests(), 2);
        let batch = script.batch(0, 1);
        assert_eq!(batch.bytes, b"get 0000000001 0000000002\r\n");
        assert_eq!((batch.asked, batch.replies), ([1, 2].as_slice(), 1));
        assert_eq!(script.batch(1, 1).asked, [3, 4]);
        assert_eq!(script.batch(2, 1).asked, [1, 2]);
        assert_eq!(script.batch(7, 2).asked, [1, 2, 3, 4]);
        assert_eq!(script.batch(0, 100).asked, [1, 2, 3, 4]);
    }

    #[test]
    fn resp_counts_elements_and_text_counts_replies() {
        let shape = Shape::fixed(10, 4);
        let asked = vec![1, 2, 3, 4];
        let resp = Script::new(Dialect::Resp, Operation::Get, shape, 4, asked.clone());
        assert_eq!(resp.batch(0, 1).replies, 4);
        let sets = Script::new(Dialect::Resp, Operation::Set, shape, 1, asked);
        assert_eq!(sets.batch(0, 4).replies, 4);
    }
}
