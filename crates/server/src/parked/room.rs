//! Room for output that is not there yet.

use std::time::Duration;

use ::io::moment::Stopwatch;

use super::ParkedLimit;

/// So long a connection waits for room. Then it is answered all the same, and closed if its socket
/// takes too little: who has all the room may be silent for as long as he likes.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// Room that is taken before there is anything to be kept in it. Given back when it is dropped.
#[derive(Debug)]
pub struct Room<'l> {
    limit: &'l ParkedLimit,
    bytes: usize,
    /// Whoever wants it has waited for long enough.
    is_patience_over: bool,
}

impl<'l> Room<'l> {
    /// None yet, for a connection that has waited for some since.
    pub fn new(limit: &'l ParkedLimit, waited: Option<Stopwatch>) -> Self {
        let is_patience_over = waited.is_some_and(|waited| waited.elapsed() >= ROOM_PATIENCE);
        Self { limit, bytes: 0, is_patience_over }
    }

    /// None, for one that has waited for long enough.
    #[cfg(test)]
    pub(super) fn new_after_all_patience(limit: &'l ParkedLimit) -> Self {
        Self { limit, bytes: 0, is_patience_over: true }
    }

    /// Whoever has waited begins anew, should there be too little once more.
    pub fn end_wait(&mut self) {
        self.is_patience_over = false;
    }

    /// Grows to so many bytes, if that many are there, or have been waited for in vain.
    pub fn grow(&mut self, bytes: usize) -> bool {
        self.grow_by(bytes, ParkedLimit::take_ahead) || self.is_patience_over
    }

    /// The same if they are there and nobody has to go for them.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        self.grow_by(bytes, ParkedLimit::try_take_ahead)
    }

    fn grow_by(&mut self, bytes: usize, take: impl FnOnce(&ParkedLimit, usize) -> bool) -> bool {
        let missing = bytes.saturating_sub(self.bytes);
        let is_taken = missing == 0 || take(self.limit, missing);
        self.bytes += if is_taken { missing } else { 0 };
        is_taken
    }

    /// Gives away as much of `bytes` as there is: who gets it has it taken.
    pub fn spend(&mut self, bytes: usize) -> usize {
        let spent = self.bytes.min(bytes);
        self.bytes -= spent;
        spent
    }

    /// Gives back what is left.
    #[inline]
    pub fn give_back(&mut self) {
        // Most never have any, and all workers share what counts it.
        if self.bytes > 0 {
            self.limit.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
