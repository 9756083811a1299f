//! Memory that requests will need, asked for a little ahead of them and in stages: the lines of the
//! index, then the first lines of the items that these most likely lead to, then the rest of the
//! items. Each stage reads what the one before has asked for, so it comes a group of keys later.
//!
//! ```text
//!   keys      | group | group + 1 | group + 2 |
//!   executed     <--
//!   asked for  values    items       index
//! ```
//!
//! Cavast hands a batch from a thread that reads keys to one that reads values; here one thread
//! asks for both, and goes on with what has come. Larger groups ask for more than the processor
//! fetches at once, and what came early leaves its cache before its turn: `larder-bench paper
//! cavast staged` has the figures.

use index::Hash;

use crate::session::Session;

/// Keys whose memory is asked for together.
const GROUP: usize = 8;

/// The keys of a batch of requests, by their hashes, in the order of the requests.
#[derive(Debug)]
pub struct Ahead<'h> {
    hashes: &'h [Hash],
    /// The first key of the group that is asked for next.
    next: usize,
}

impl<'h> Ahead<'h> {
    /// Asks for nothing yet.
    pub fn new(hashes: &'h [Hash]) -> Self {
        // A single request would only wait for itself.
        let next = if hashes.len() < 2 { usize::MAX } else { 0 };
        Self { hashes, next }
    }

    /// The hashes of all keys.
    pub fn hashes(&self) -> &'h [Hash] {
        self.hashes
    }

    /// To be called before the request for key `number`, and with what is to happen to it: whoever
    /// does not read values does not have them fetched.
    #[inline]
    pub fn reach(&mut self, session: &Session<'_>, number: usize, reads: bool) {
        if number >= self.next {
            self.ask(session, reads);
        }
    }

    fn ask(&mut self, session: &Session<'_>, reads: bool) {
        let group = self.next;
        let is_first = group == 0;
        let from = |ahead: usize| if is_first { 0 } else { group + ahead * GROUP };
        let keys = |from: usize, ahead: usize| {
            let end = (group + (ahead + 1) * GROUP).min(self.hashes.len());
            self.hashes.get(from..end).unwrap_or_default()
        };
        keys(from(2), 2).iter().for_each(|&hash| session.prefetch(hash));
        keys(from(1), 1).iter().for_each(|&hash| session.prefetch_item(hash));
        if reads {
            keys(from(0), 0).iter().for_each(|&hash| session.prefetch_value(hash));
        }
        self.next = group + GROUP;
    }
}
