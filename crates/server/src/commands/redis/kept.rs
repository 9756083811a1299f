//! Bytes that are kept for a client from one turn to the next, and count as parked output.

/// Bytes that grow by a part at a time, and how many of them count already.
#[derive(Debug, Default)]
pub struct KeptBytes {
    /// They take little more memory than they are many.
    pub(super) bytes: Vec<u8>,
    counted_bytes: usize,
}

impl KeptBytes {
    /// Makes room for so many more: a few copies of all of them, at the most.
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
