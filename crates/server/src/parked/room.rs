//! Room for output that is not made yet.

use std::time::Duration;

use ::io::moment::Stopwatch;

use super::ParkedLimit;

/// The longest that a connection waits for room. Then it is answered all the same, and closed if
/// its socket takes too little: the client that has all the room may be silent for as long as it
/// likes.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// Room that is taken before there is output to keep in it. Given back when it is dropped.
#[derive(Debug)]
pub struct Room<'l> {
    limit: &'l ParkedLimit,
    bytes: usize,
    /// Its connection has waited for long enough.
    is_patience_over: bool,
}

impl<'l> Room<'l> {
    /// Empty room, for a connection that has waited for some since `waited`.
    pub fn new(limit: &'l ParkedLimit, waited: Option<Stopwatch>) -> Self {
        let is_patience_over = waited.is_some_and(|waited| waited.elapsed() >= ROOM_PATIENCE);
        Self { limit, bytes: 0, is_patience_over }
    }

    /// Empty room, for a connection that has waited for long enough.
    #[cfg(test)]
    pub(super) fn new_after_all_patience(limit: &'l ParkedLimit) -> Self {
        Self { limit, bytes: 0, is_patience_over: true }
    }

    /// Ends the wait: if there is too little once more, the connection waits anew.
    pub fn end_wait(&mut self) {
        self.is_patience_over = false;
    }

    /// Grows to this many bytes, if that many are free or have been waited for in vain.
    pub fn grow(&mut self, bytes: usize) -> bool {
        self.grow_by(bytes, ParkedLimit::take_ahead) || self.is_patience_over
    }

    /// Grows to this many bytes if they are free without closing a connection.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        self.grow_by(bytes, ParkedLimit::try_take_ahead)
    }

    fn grow_by(&mut self, bytes: usize, take: impl FnOnce(&ParkedLimit, usize) -> bool) -> bool {
        let missing = bytes.saturating_sub(self.bytes);
        let is_taken = missing == 0 || take(self.limit, missing);
        self.bytes += if is_taken { missing } else { 0 };
        is_taken
    }

    /// Gives up to `bytes` of its room to the caller, which then has it taken; returns how much.
    pub fn spend(&mut self, bytes: usize) -> usize {
        let spent = self.bytes.min(bytes);
        self.bytes -= spent;
        spent
    }

    /// Gives back the rest.
    #[inline]
    pub fn give_back(&mut self) {
        // Most have none, and all workers share the counter.
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
