//! Memory that requests will need, prefetched a little ahead of them and in stages: the lines of
//! the index, and a group of keys later the items that these most likely lead to, with their values
//! if they are to be read.
//!
//! ```text
//!   keys      | group    | group + 1 | group + 2 |
//!   executed     <--
//!   asked for                items       index
//! ```
//!
//! Cavast hands a batch from a thread that reads keys to one that reads values; here one thread
//! prefetches both, and goes on with what has come. There is no third stage for the values: a
//! chunk's length is known from its slab before the key has come. Larger groups ask for more than
//! the processor fetches at once, and lines that came early leave its cache before their turn:
//! `larder-bench paper cavast staged` has the figures.

use std::ops::Range;

use index::Hash;

use crate::session::Session;

/// Keys whose memory is prefetched together.
const GROUP: usize = 8;

/// The keys of a batch of requests, by their hashes, in the order of the requests.
#[derive(Debug)]
pub struct Ahead<'h> {
    hashes: &'h [Hash],
    /// The first key of the group that is prefetched next.
    next: usize,
}

impl<'h> Ahead<'h> {
    /// Prefetches nothing yet.
    pub fn new(hashes: &'h [Hash]) -> Self {
        // A single request would only wait for itself.
        let next = if hashes.len() < 2 { usize::MAX } else { 0 };
        Self { hashes, next }
    }

    /// Returns the hashes of all keys.
    pub fn hashes(&self) -> &'h [Hash] {
        self.hashes
    }

    /// Prefetches what is due before the request for key `number`; to be called before each.
    /// `reads` says whether the request reads the value, which is not fetched otherwise.
    #[inline]
    pub fn reach(&mut self, session: &Session<'_>, number: usize, reads: bool) {
        if number >= self.next {
            self.ask(session, reads);
        }
    }

    fn ask(&mut self, session: &Session<'_>, reads: bool) {
        let [index, items] = asked_for(self.next, self.hashes.len());
        self.hashes[index].iter().for_each(|&hash| session.prefetch(hash));
        self.hashes[items].iter().for_each(|&hash| session.prefetch_item(hash, reads));
        self.next += GROUP;
    }
}

/// Returns the keys whose index lines, and those whose items are prefetched when the requests come
/// to the group that begins at `group`, of `count` keys. Nothing was prefetched for the first
/// group.
fn asked_for(group: usize, count: usize) -> [Range<usize>; 2] {
    [2, 1].map(|ahead| {
        let start = if group == 0 { 0 } else { group + ahead * GROUP };
        start.min(count)..(group + (ahead + 1) * GROUP).min(count)
    })
}

#[cfg(test)]
mod tests {
    use super::{GROUP, asked_for};

    #[test]
    fn every_key_is_asked_for_once_in_each_stage_and_before_its_turn() {
        for count in [2, 7, 8, 9, 23, 24, 25, 100, 128] {
            let mut asked = [0, 0];
            for group in (0..count).step_by(GROUP) {
                for (asked, keys) in asked.iter_mut().zip(asked_for(group, count)) {
                    assert_eq!(keys.start, *asked, "{count}: {group}");
                    *asked = keys.end;
                }
                let due = (group + 2 * GROUP).min(count);
                assert!(
                    asked[1] >= due && asked[0] >= (due + GROUP).min(count),
                    "{count}: {group}"
                );
            }
            assert_eq!(asked, [count, count]);
        }
    }
}
