//! The values that a get may return: the record of a checker that saw its server die.
//!
//! A key's values are numbered as they are sent, and each holds its number. For every key two
//! numbers are kept, and rarely a list:
//!
//! ```text
//!   versions   1   2   3   4   5   6   7   8
//!                          ^   \_______/   ^
//!                     settled    open     sent
//! ```
//!
//! - Up to `settled` the server has answered. The version of that number is there unless it was
//!   deleted; every older one is gone for good, and must never be seen again.
//! - `open` versions were sent and had no answer when the server died. Whether they arrived is
//!   unknown, so each may be found, until a later answer settles the key.
//! - A version stored for a short time has an end, by which it is gone at the latest; a get of it
//!   after that is as bad as an older version, unless a touch made it last.
//! - A miss is always right: this is a cache.
//!
//! A version that was read is settled, too: an older one may not come back after it.

use std::collections::HashMap;
use std::time::Instant;

/// One key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Past {
    settled: u32,
    sent: u32,
    /// Whether the settled version is there to be found.
    is_there: bool,
    /// Whether any request to change the key was sent since [`History::begin`].
    is_changed: bool,
}

/// The keys of one connection, by their numbers there.
#[derive(Debug)]
pub struct History {
    pasts: Vec<Past>,
    open: HashMap<u32, Vec<u32>>,
    /// Versions with an end, by key.
    ends: HashMap<u32, Vec<(u32, Instant)>>,
}

/// The judgement of a version that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be there.
    Right,
    /// A newer one, or a delete, was acknowledged.
    Stale,
    /// It was never sent, or was refused, or its answer is still to come.
    Unsent,
}

impl History {
    /// Returns the history of keys without values.
    pub fn new(keys: u32) -> History {
        let pasts = vec![Past::default(); keys as usize];
        History { pasts, open: HashMap::new(), ends: HashMap::new() }
    }

    /// The number of keys.
    pub fn keys(&self) -> u32 {
        self.pasts.len() as u32
    }

    /// Returns the version of a value that is sent now.
    pub fn send(&mut self, key: u32) -> u32 {
        let past = &mut self.pasts[key as usize];
        past.sent += 1;
        past.is_changed = true;
        past.sent
    }

    /// Returns the last version sent before a delete, which is sent now.
    pub fn send_delete(&mut self, key: u32) -> u32 {
        let past = &mut self.pasts[key as usize];
        past.is_changed = true;
        past.sent
    }

    /// Notes that the server has stored this version.
    pub fn stored(&mut self, key: u32, version: u32) {
        self.settle(key, version, true);
        self.open.remove(&key);
        self.ends.remove(&key);
    }

    /// Notes the latest end of a version; called when it was stored or left open.
    pub fn ends(&mut self, key: u32, version: u32, at: Instant) {
        self.ends.entry(key).or_default().push((version, at));
    }

    /// Notes that any version of the key may last.
    pub fn lasts(&mut self, key: u32) {
        self.ends.remove(&key);
    }

    /// Returns whether a version had ended when it was requested.
    pub fn has_ended(&self, key: u32, version: u32, asked: Instant) -> bool {
        let ends = self.ends.get(&key).map_or(&[][..], Vec::as_slice);
        ends.iter().any(|(ending, at)| *ending == version && *at < asked)
    }

    /// Returns whether all versions that the key can have had ended.
    pub fn is_over(&self, key: u32, asked: Instant) -> bool {
        let settled = self.pasts[key as usize].settled;
        !self.open.contains_key(&key) && self.has_ended(key, settled, asked)
    }

    /// Notes that the server has deleted the key's versions up to this one.
    pub fn deleted(&mut self, key: u32, version: u32) {
        self.settle(key, version, false);
        self.open.remove(&key);
        self.ends.remove(&key);
    }

    /// Notes a set whose answer the server owed when it died.
    pub fn left_open(&mut self, key: u32, version: u32) {
        self.open.entry(key).or_default().push(version);
    }

    /// Notes that the server has deleted everything.
    pub fn flushed(&mut self) {
        self.open.clear();
        self.ends.clear();
        for past in &mut self.pasts {
            *past = Past { settled: past.sent, is_there: false, is_changed: true, ..*past };
        }
    }

    /// Judges a version that was read; no older one may follow a right one.
    pub fn read(&mut self, key: u32, version: u32) -> Verdict {
        let past = self.pasts[key as usize];
        if version < past.settled || (version == past.settled && !past.is_there) {
            return Verdict::Stale;
        }
        if version == past.settled {
            return Verdict::Right;
        }
        let Some(open) = self.open.get_mut(&key).filter(|open| open.contains(&version)) else {
            return Verdict::Unsent;
        };
        open.retain(|later| *later > version);
        if open.is_empty() {
            self.open.remove(&key);
        }
        self.settle(key, version, true);
        Verdict::Right
    }

    /// Forgets which keys were changed, and counts anew. A version with an end changes by itself.
    pub fn begin(&mut self) {
        self.pasts.iter_mut().for_each(|past| past.is_changed = false);
        self.ends.keys().for_each(|key| self.pasts[*key as usize].is_changed = true);
    }

    /// Returns whether a request to change the key was sent since then.
    pub fn is_changed(&self, key: u32) -> bool {
        self.pasts[key as usize].is_changed
    }

    /// Returns whether the key certainly has the last acknowledged version, without an end, and
    /// nothing else was sent.
    pub fn is_certain(&self, key: u32) -> bool {
        let past = self.pasts[key as usize];
        let is_settled = past.is_there && past.settled == past.sent;
        is_settled && !self.open.contains_key(&key) && !self.ends.contains_key(&key)
    }

    /// Returns how many keys were changed since then.
    pub fn changed(&self) -> u64 {
        self.pasts.iter().filter(|past| past.is_changed).count() as u64
    }

    /// Describes everything known of a key.
    pub fn describe(&self, key: u32) -> String {
        let Past { settled, sent, is_there, .. } = self.pasts[key as usize];
        let fate = if is_there { "stored" } else { "deleted" };
        let open = self.open.get(&key).map_or(&[][..], Vec::as_slice);
        format!("{fate} {settled} is acknowledged, open are {open:?}, the last sent is {sent}")
    }

    fn settle(&mut self, key: u32, version: u32, is_there: bool) {
        let past = &mut self.pasts[key as usize];
        assert!(past.settled <= version && version <= past.sent, "answers come in order");
        *past = Past { settled: version, is_there, ..*past };
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{History, Verdict};

    const KEY: u32 = 1;

    /// Three versions were sent; the first two are acknowledged.
    fn history() -> History {
        let mut history = History::new(2);
        assert_eq!((0..3).map(|_| history.send(KEY)).collect::<Vec<_>>(), [1, 2, 3]);
        history.stored(KEY, 1);
        history.stored(KEY, 2);
        history
    }

    #[test]
    fn a_key_is_certain_while_its_last_version_is_acknowledged_and_there() {
        let mut history = history();
        assert!(!history.is_certain(KEY) && !history.is_certain(0));
        history.left_open(KEY, 3);
        assert!(!history.is_certain(KEY));
        let version = history.send(KEY);
        history.stored(KEY, version);
        assert!(history.is_certain(KEY));
        let version = history.send_delete(KEY);
        history.deleted(KEY, version);
        assert!(!history.is_certain(KEY));
    }

    #[test]
    fn only_the_last_acknowledged_version_may_be_read() {
        let mut history = history();
        assert_eq!(history.read(KEY, 2), Verdict::Right);
        assert_eq!(history.read(KEY, 1), Verdict::Stale);
        assert_eq!(history.read(KEY, 3), Verdict::Unsent, "its answer is still to come");
        assert_eq!(history.read(KEY, 4), Verdict::Unsent);
        assert_eq!(history.read(0, 1), Verdict::Unsent);
        assert_eq!(history.read(0, 0), Verdict::Stale);
    }

    #[test]
    fn after_a_delete_nothing_may_be_read() {
        let mut history = history();
        history.stored(KEY, 3);
        let version = history.send_delete(KEY);
        history.deleted(KEY, version);
        (0..=3).for_each(|version| assert_eq!(history.read(KEY, version), Verdict::Stale));
        let version = history.send(KEY);
        history.stored(KEY, version);
        assert_eq!(history.read(KEY, 4), Verdict::Right);
        assert_eq!(history.read(KEY, 3), Verdict::Stale);
    }

    #[test]
    fn a_delete_does_not_cover_what_was_sent_after_it() {
        let mut history = History::new(2);
        assert_eq!(history.send(KEY), 1);
        history.stored(KEY, 1);
        let delete = history.send_delete(KEY);
        assert_eq!(history.send(KEY), 2);
        history.deleted(KEY, delete);
        history.left_open(KEY, 2);
        assert_eq!(history.read(KEY, 1), Verdict::Stale);
        assert_eq!(history.read(KEY, 2), Verdict::Right);
    }

    #[test]
    fn an_open_version_may_be_found_or_not() {
        let mut history = history();
        let version = history.send(KEY);
        history.left_open(KEY, 3);
        history.left_open(KEY, version);
        assert_eq!(history.read(KEY, 1), Verdict::Stale);
        assert_eq!(history.read(KEY, 2), Verdict::Right);
        assert_eq!(history.read(KEY, 3), Verdict::Right);
        assert_eq!(history.read(KEY, 2), Verdict::Stale, "a newer one was seen");
        assert_eq!(history.read(KEY, 4), Verdict::Right);
        assert_eq!(history.read(KEY, 3), Verdict::Stale);
    }

    #[test]
    fn a_later_answer_settles_what_was_open() {
        for is_delete in [false, true] {
            let mut history = history();
            history.left_open(KEY, 3);
            if is_delete {
                let version = history.send_delete(KEY);
                history.deleted(KEY, version);
            } else {
                let version = history.send(KEY);
                history.stored(KEY, version);
                assert_eq!(history.read(KEY, 4), Verdict::Right);
            }
            assert_eq!(history.read(KEY, 3), Verdict::Stale);
            assert_eq!(history.read(KEY, 2), Verdict::Stale);
        }
    }

    #[test]
    fn a_version_has_ended_when_it_is_asked_for_after_its_end() {
        let mut history = history();
        let end = Instant::now();
        let later = end + Duration::from_nanos(1);
        history.ends(KEY, 2, end);
        assert!(!history.has_ended(KEY, 2, end) && !history.is_over(KEY, end));
        assert!(history.has_ended(KEY, 2, later) && history.is_over(KEY, later));
        assert!(!history.has_ended(KEY, 3, later) && !history.has_ended(0, 2, later));
        history.left_open(KEY, 3);
        assert!(!history.is_over(KEY, later), "another may be there");
        history.stored(KEY, 3);
        assert!(!history.has_ended(KEY, 2, later), "an older one is stale in any case");
        history.ends(KEY, 3, end);
        history.lasts(KEY);
        assert!(!history.has_ended(KEY, 3, later), "it was touched");
    }

    #[test]
    fn a_version_with_an_end_is_not_certain() {
        let mut history = history();
        history.stored(KEY, 3);
        assert!(history.is_certain(KEY));
        history.ends(KEY, 3, Instant::now());
        history.begin();
        assert!(!history.is_certain(KEY) && history.is_changed(KEY));
    }

    #[test]
    fn a_refused_version_is_never_there() {
        let mut history = history();
        let version = history.send(KEY);
        assert_eq!(history.read(KEY, 3), Verdict::Unsent);
        history.stored(KEY, version);
        assert_eq!(history.read(KEY, 3), Verdict::Stale);
    }

    #[test]
    fn a_flush_ends_everything() {
        let mut history = history();
        history.left_open(KEY, 3);
        history.flushed();
        (1..=3).for_each(|version| assert_eq!(history.read(KEY, version), Verdict::Stale));
    }

    #[test]
    fn changes_are_counted_from_the_beginning() {
        let mut history = history();
        assert_eq!((history.changed(), history.is_changed(KEY)), (1, true));
        history.begin();
        assert_eq!((history.changed(), history.is_changed(KEY)), (0, false));
        history.send_delete(0);
        assert_eq!((history.changed(), history.is_changed(0)), (1, true));
    }
}
