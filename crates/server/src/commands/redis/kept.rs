//! Bytes that are kept for a client from one turn to the next, and count as parked output.

/// Bytes that grow by a part at a time, and the number of them that count already.
#[derive(Debug, Default)]
pub struct KeptBytes {
    /// The bytes, with little spare capacity.
    pub(super) bytes: Vec<u8>,
    counted_bytes: usize,
}

impl KeptBytes {
    /// Makes room for this many more: copies all of them a few times, at the most.
    pub(super) fn reserve(&mut self, more_bytes: usize) {
        if more_bytes > self.bytes.capacity() - self.bytes.len() {
            self.bytes.reserve_exact(more_bytes.max(self.bytes.len() / 4));
        }
    }

    /// The memory that they take, all of which counts from now on.
    pub fn count(&mut self) -> usize {
        self.counted_bytes = self.bytes.capacity();
        self.counted_bytes
    }

    /// The memory that they take and that does not count yet.
    pub(super) fn uncounted(&self) -> usize {
        self.bytes.capacity().saturating_sub(self.counted_bytes)
    }
}
