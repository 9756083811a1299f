//! One connection's keys, its requests for them, and the meaning of the replies.
//!
//! Keys are dealt out, key `k` to owner `k` modulo their number, so that each key's requests go
//! through one connection, in order, and each reply has one meaning. Requests in flight wait in a
//! queue; when the server dies, those still in it are open (see `history`). Where the work is that
//! of a cache's clients, a missed key is stored next.

use std::collections::{HashSet, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::content::Content;
use super::fuse::Fuse;
use super::history::{History, Verdict};
use super::reply::{self, Reply};
use super::tally::Tally;
use super::work::{Deed, Work};
use crate::failure::{Failure, Outcome};

/// The most requests in flight, and unwritten bytes of them.
const FLIGHT_MAX: usize = 64;
const OUTBOX_BYTES_MAX: usize = 64 << 10;
/// How long an owner waits that may not send anything yet.
const PACE_STEP: Duration = Duration::from_millis(1);
/// The most keys remembered of those stored last.
const LATEST_MAX: usize = 500;
/// Life of an item with a time to live, in seconds: longer than any run.
const TTL_S: u32 = 20 * 86_400;
/// Life of an item that is stored briefly, in seconds.
const BRIEF_TTL_S: u32 = 1;
/// How long such an item may be there after its answer: servers count whole seconds, and their
/// clocks are late, by more than a second on a busy machine.
const BRIEF_MAX: Duration = Duration::from_secs(BRIEF_TTL_S as u64 + 3);

/// A part of a request that waits for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Set(u32, u32),
    SetBriefly(u32, u32),
    /// A delete, or a touch that ends the item, with the last version that was sent before.
    Delete(u32, u32),
    Expire(u32, u32),
    Touch(u32),
    Look(u32),
    /// One key of a get, queued before the get's end, and the earliest time of its sending.
    Get(u32, Instant),
    EndOfGet,
}

/// How a conversation ended.
#[derive(Debug)]
pub enum Ended {
    /// Everything was sent and answered.
    Done,
    /// The connection broke.
    Cut(Failure),
}

/// The keys of one connection.
#[derive(Debug)]
pub struct Owner<'c> {
    /// Its counts so far.
    pub tally: Tally,
    /// The versions that may be read.
    pub history: History,
    content: &'c Content,
    number: u32,
    owners: u32,
    asked: VecDeque<Asked>,
    /// Missed keys, which are stored next.
    missed: Vec<u32>,
    /// Keys stored last.
    latest: VecDeque<u32>,
    /// Those that were there when they were looked at.
    seen: Vec<u32>,
    /// Those that must have been in memory when the server was ended.
    in_memory: HashSet<u32>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'c> Owner<'c> {
    /// Returns the owner of this number among `owners`, with its share of all keys.
    pub fn new(content: &'c Content, number: u32, owners: u32, keys: u32) -> Owner<'c> {
        let own_keys = (keys + owners - 1 - number) / owners;
        Owner {
            tally: Tally::default(),
            history: History::new(own_keys),
            content,
            number,
            owners,
            asked: VecDeque::new(),
            missed: Vec::new(),
            latest: VecDeque::new(),
            seen: Vec::new(),
            in_memory: HashSet::new(),
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Begins to record changed keys, because the server was ended.
    pub fn begin(&mut self) {
        self.history.begin();
        let certain = self.seen.drain(..).filter(|key| self.history.is_certain(*key));
        self.in_memory = certain.collect();
    }

    /// Returns work that only looks at the keys stored last: nearly all of those that are there are
    /// in memory.
    pub fn look_at_latest(&mut self) -> Work {
        let latest: HashSet<u32> = self.latest.drain(..).collect();
        Work::Look(latest.into_iter().collect())
    }

    /// Returns how many keys were in memory when the server was ended and were not changed since.
    pub fn in_memory(&self) -> u64 {
        self.in_memory.iter().filter(|key| !self.history.is_changed(**key)).count() as u64
    }

    /// Does a piece of work on a new connection.
    pub fn run(&mut self, mut work: Work, fuse: &Fuse<'_>) -> Outcome<Ended> {
        let mut connection = match Connection::open(fuse.server().address) {
            Ok(connection) => connection,
            Err(failure) => return Ok(Ended::Cut(failure)),
        };
        self.missed.clear();
        loop {
            let room = fuse.room();
            let requests = self.ask(&mut work, &mut connection.outbox, fuse, room);
            if self.asked.is_empty() {
                if room > 0 {
                    return Ok(Ended::Done);
                }
                thread::sleep(PACE_STEP);
                continue;
            }
            let turn = connection.turn();
            fuse.spend(requests)?;
            while let Some((reply, bytes)) = reply::first(connection.inbox.waiting())? {
                self.take(reply)?;
                connection.inbox.take(bytes);
            }
            if let Err(failure) = turn {
                self.leave_open();
                return Ok(Ended::Cut(failure));
            }
            if !work.fills_misses() {
                self.missed.clear();
            }
        }
    }

    /// Appends requests until enough are in flight, but no more than there is room for; returns
    /// their number.
    fn ask(&mut self, work: &mut Work, outbox: &mut Vec<u8>, fuse: &Fuse<'_>, room: u64) -> u64 {
        let mut requests = 0;
        while requests < room
            && self.asked.len() < FLIGHT_MAX
            && outbox.len() < OUTBOX_BYTES_MAX
            && !fuse.is_enough()
            && let Some(deed) = self.next(work)
        {
            self.write(&deed, outbox);
            requests += 1;
        }
        self.tally.requests += requests;
        requests
    }

    fn next(&mut self, work: &mut Work) -> Option<Deed> {
        let missed = self.missed.pop().map(|key| Deed::Set { key, has_ttl: false });
        missed.or_else(|| work.next(self.history.keys()))
    }

    /// Appends one request, and queues the parts that wait for its replies.
    fn write(&mut self, deed: &Deed, outbox: &mut Vec<u8>) {
        match *deed {
            Deed::Set { key, has_ttl } => {
                let version = self.push_set(key, if has_ttl { TTL_S } else { 0 }, outbox);
                self.asked.push_back(Asked::Set(key, version));
            }
            Deed::SetBriefly { key } => {
                let version = self.push_set(key, BRIEF_TTL_S, outbox);
                self.asked.push_back(Asked::SetBriefly(key, version));
            }
            Deed::Delete { key } => {
                self.push_name("delete ", key, outbox);
                self.asked.push_back(Asked::Delete(key, self.history.send_delete(key)));
            }
            Deed::Expire { key } => {
                self.push_name("touch ", key, outbox);
                outbox.extend_from_slice(b" -1");
                self.asked.push_back(Asked::Expire(key, self.history.send_delete(key)));
            }
            Deed::Touch { key } => {
                self.push_name("touch ", key, outbox);
                outbox.extend_from_slice(format!(" {TTL_S}").as_bytes());
                self.asked.push_back(Asked::Touch(key));
            }
            Deed::Look { key } => {
                self.push_name("me ", key, outbox);
                self.asked.push_back(Asked::Look(key));
            }
            Deed::Get { ref keys } => {
                outbox.extend_from_slice(b"get");
                let now = Instant::now();
                for key in keys {
                    self.push_name(" ", *key, outbox);
                    self.asked.push_back(Asked::Get(*key, now));
                }
                self.asked.push_back(Asked::EndOfGet);
            }
        }
        outbox.extend_from_slice(b"\r\n");
    }

    /// Appends a set of the key's next version, which it returns.
    fn push_set(&mut self, key: u32, ttl_s: u32, outbox: &mut Vec<u8>) -> u32 {
        let version = self.history.send(key);
        self.content.write(self.name(key), version, &mut self.value);
        let (flags, bytes) = (self.content.flags(version), self.value.len());
        self.push_name("set ", key, outbox);
        outbox.extend_from_slice(format!(" {flags} {ttl_s} {bytes}\r\n").as_bytes());
        outbox.extend_from_slice(&self.value);
        version
    }

    /// Handles one reply.
    fn take(&mut self, reply: Reply<'_>) -> Outcome<()> {
        if let Reply::Value { key, flags, value } = reply {
            return self.hit(key, flags, value);
        }
        let mut asked = self.asked.pop_front();
        while let Some(Asked::Get(key, sent)) = asked {
            self.miss(key, sent);
            asked = self.asked.pop_front();
        }
        match (asked, reply) {
            (Some(Asked::Set(key, version)), Reply::Stored) => self.stored(key, version),
            (Some(Asked::SetBriefly(key, version)), Reply::Stored) => {
                self.stored(key, version);
                self.history.ends(key, version, Instant::now() + BRIEF_MAX);
            }
            (Some(Asked::Delete(key, version)), Reply::Deleted | Reply::NotFound)
            | (Some(Asked::Expire(key, version)), Reply::Touched) => {
                self.history.deleted(key, version);
            }
            (Some(Asked::Look(key)), Reply::There) => {
                self.seen.push(key);
            }
            (Some(Asked::Touch(key)), Reply::Touched) => self.history.lasts(key),
            // A touch that finds nothing proves nothing: a miss is always right.
            (Some(Asked::Expire(..) | Asked::Touch(_)), Reply::NotFound)
            | (Some(Asked::Look(_)), Reply::NotThere)
            | (Some(Asked::EndOfGet), Reply::End) => {}
            (Some(_), Reply::Refused) => self.tally.refused += 1,
            (asked, reply) => {
                return Err(Failure::Reply(format!("{reply:?} to {asked:?}")));
            }
        }
        Ok(())
    }

    fn stored(&mut self, key: u32, version: u32) {
        self.history.stored(key, version);
        self.latest.push_back(key);
        if self.latest.len() > LATEST_MAX {
            self.latest.pop_front();
        }
    }

    /// Handles a hit. If its key is not the next one requested, it is searched among the later ones
    /// of the same get, since misses are left out.
    fn hit(&mut self, name: &[u8], flags: u32, value: &[u8]) -> Outcome<()> {
        while let Some(Asked::Get(key, sent)) = self.asked.front().copied() {
            self.asked.pop_front();
            self.content.write_key(self.name(key), &mut self.key);
            if self.key == name {
                self.check(key, sent, flags, value);
                return Ok(());
            }
            self.miss(key, sent);
        }
        let name = String::from_utf8_lossy(name);
        Err(Failure::Check(format!("a hit on a key that was not asked for: {name:?}")))
    }

    fn miss(&mut self, key: u32, sent: Instant) {
        self.tally.misses += 1;
        self.tally.ended += u64::from(self.history.is_over(key, sent));
        self.missed.push(key);
    }

    /// Compares a hit with the versions that a get sent then may read.
    fn check(&mut self, key: u32, sent: Instant, flags: u32, value: &[u8]) {
        self.tally.checked += 1;
        self.tally.first_hit.get_or_insert_with(Instant::now);
        let name = self.name(key);
        let version = match self.content.version_of(name, flags, value, &mut self.value) {
            Ok(version) => version,
            Err(fault) => {
                let known = self.history.describe(key);
                self.tally.wrong(format!("key {name}: {fault:?}; {known}"));
                return;
            }
        };
        let verdict = match self.history.has_ended(key, version, sent) {
            true => Verdict::Stale,
            false => self.history.read(key, version),
        };
        if verdict == Verdict::Right {
            let is_unchanged = !self.history.is_changed(key);
            let was_in_memory = is_unchanged && self.in_memory.contains(&key);
            self.tally.found_unchanged += u64::from(is_unchanged);
            self.tally.found_in_memory += u64::from(was_in_memory);
            return;
        }
        let known = self.history.describe(key);
        let what = format!("key {name}: version {version} is {verdict:?}; {known}");
        if verdict == Verdict::Stale { self.tally.stale(what) } else { self.tally.wrong(what) }
    }

    /// Leaves the queued requests open: the server died and may have done them or not.
    fn leave_open(&mut self) {
        for asked in self.asked.drain(..) {
            match asked {
                Asked::Set(key, version) => self.history.left_open(key, version),
                Asked::SetBriefly(key, version) => {
                    self.history.left_open(key, version);
                    self.history.ends(key, version, Instant::now() + BRIEF_MAX);
                }
                Asked::Touch(key) => self.history.lasts(key),
                _ => {}
            }
        }
    }

    /// Returns the number of a key among all.
    fn name(&self, key: u32) -> u32 {
        key * self.owners + self.number
    }

    fn push_name(&mut self, verb: &str, key: u32, outbox: &mut Vec<u8>) {
        self.content.write_key(self.name(key), &mut self.key);
        outbox.extend_from_slice(verb.as_bytes());
        outbox.extend_from_slice(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{BRIEF_MAX, Deed, LATEST_MAX, Owner, Reply, Work};
    use crate::restart::content::Content;
    use crate::values::ValueChoice;

    fn content() -> Content {
        Content::new(&ValueChoice::Made(3.0), 1).expect("no file is needed")
    }

    /// Sends a set of key 0 of the only owner, without an answer.
    fn set(owner: &mut Owner<'_>) {
        owner.write(&Deed::Set { key: 0, has_ttl: false }, &mut Vec::new());
    }

    /// Reads key 0 and finds a version.
    fn read(owner: &mut Owner<'_>, version: u32) {
        owner.write(&Deed::Get { keys: vec![0] }, &mut Vec::new());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        owner.content.write_key(0, &mut key);
        owner.content.write(0, version, &mut value);
        let hit = Reply::Value { key: &key, flags: version, value: &value };
        owner.take(hit).expect("it was asked for");
        owner.take(Reply::End).expect("it was asked for");
    }

    fn faults(owner: &Owner<'_>) -> (u64, u64) {
        (owner.tally.stale, owner.tally.wrong)
    }

    #[test]
    fn keys_are_dealt_out_without_rest() {
        let content = content();
        let owners: Vec<Owner<'_>> = (0..3).map(|at| Owner::new(&content, at, 3, 8)).collect();
        let names = owners.iter().flat_map(|it| (0..it.history.keys()).map(|key| it.name(key)));
        let mut names: Vec<u32> = names.collect();
        names.sort_unstable();
        assert_eq!(names, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn an_older_value_after_an_acknowledged_set_is_stale() {
        let content = content();
        let mut owner = Owner::new(&content, 0, 1, 1);
        (0..2).for_each(|_| set(&mut owner));
        (0..2).for_each(|_| owner.take(Reply::Stored).expect("it was asked for"));
        read(&mut owner, 2);
        assert_eq!(faults(&owner), (0, 0));
        read(&mut owner, 1);
        assert_eq!(faults(&owner), (1, 0));
        assert!(owner.tally.faults[0].contains("version 1 is Stale; stored 2"), "{owner:?}");
    }

    #[test]
    fn a_value_after_an_acknowledged_delete_or_expiry_is_stale() {
        let content = content();
        for (deed, reply) in [
            (Deed::Delete { key: 0 }, Reply::Deleted),
            (Deed::Delete { key: 0 }, Reply::NotFound),
            (Deed::Expire { key: 0 }, Reply::Touched),
        ] {
            let mut owner = Owner::new(&content, 0, 1, 1);
            set(&mut owner);
            owner.write(&deed, &mut Vec::new());
            owner.take(Reply::Stored).expect("it was asked for");
            owner.take(reply).expect("it was asked for");
            read(&mut owner, 1);
            assert_eq!(faults(&owner), (1, 0));
        }
    }

    /// Regression: no item of this command ever expired, so no found value was too old.
    #[test]
    fn a_briefly_stored_value_is_stale_after_its_end() {
        let content = content();
        for is_answered in [true, false] {
            let mut owner = Owner::new(&content, 0, 1, 1);
            owner.write(&Deed::SetBriefly { key: 0 }, &mut Vec::new());
            match is_answered {
                true => owner.take(Reply::Stored).expect("it was asked for"),
                false => owner.leave_open(),
            }
            let now = Instant::now();
            let mut value = Vec::new();
            owner.content.write(0, 1, &mut value);
            owner.check(0, now, 1, &value);
            assert_eq!(faults(&owner), (0, 0));
            owner.miss(0, now + BRIEF_MAX);
            assert_eq!(owner.tally.ended, 1, "a miss then is what was asked for");
            owner.check(0, now + BRIEF_MAX, 1, &value);
            assert_eq!(faults(&owner), (1, 0));
        }
    }

    #[test]
    fn a_touch_makes_a_value_last_that_was_stored_briefly() {
        let content = content();
        for reply in [Some(Reply::Touched), None] {
            let mut owner = Owner::new(&content, 0, 1, 1);
            owner.write(&Deed::SetBriefly { key: 0 }, &mut Vec::new());
            owner.take(Reply::Stored).expect("it was asked for");
            owner.write(&Deed::Touch { key: 0 }, &mut Vec::new());
            match reply {
                Some(reply) => owner.take(reply).expect("it was asked for"),
                None => owner.leave_open(),
            }
            let mut value = Vec::new();
            owner.content.write(0, 1, &mut value);
            owner.check(0, Instant::now() + 2 * BRIEF_MAX, 1, &value);
            assert_eq!(faults(&owner), (0, 0));
        }
    }

    #[test]
    fn recently_stored_keys_that_were_seen_count_as_in_memory() {
        let content = content();
        let mut owner = Owner::new(&content, 0, 1, 600);
        let mut fill = Work::Fill(0);
        while let Some(deed) = owner.next(&mut fill) {
            owner.write(&deed, &mut Vec::new());
            owner.take(Reply::Stored).expect("it was asked for");
        }
        let mut look = owner.look_at_latest();
        while let Some(deed) = owner.next(&mut look) {
            owner.write(&deed, &mut Vec::new());
            let is_there = deed != Deed::Look { key: 596 };
            let reply = if is_there { Reply::There } else { Reply::NotThere };
            owner.take(reply).expect("it was asked for");
        }
        owner.write(&Deed::Delete { key: 599 }, &mut Vec::new());
        owner.take(Reply::Deleted).expect("it was asked for");
        owner.write(&Deed::Set { key: 598, has_ttl: false }, &mut Vec::new());
        owner.leave_open();
        owner.begin();
        assert_eq!(owner.in_memory(), LATEST_MAX as u64 - 3);
        owner.write(&Deed::Set { key: 597, has_ttl: false }, &mut Vec::new());
        assert_eq!(owner.in_memory(), LATEST_MAX as u64 - 4);
        owner.leave_open();
        for (key, found) in [(50, 0), (300, 1), (596, 1), (597, 1)] {
            let (mut name, mut value) = (Vec::new(), Vec::new());
            owner.write(&Deed::Get { keys: vec![key] }, &mut Vec::new());
            owner.content.write_key(key, &mut name);
            owner.content.write(key, 1, &mut value);
            let hit = Reply::Value { key: &name, flags: 1, value: &value };
            owner.take(hit).expect("it was asked for");
            owner.take(Reply::End).expect("it was asked for");
            assert_eq!(owner.tally.found_in_memory, found, "{key}");
        }
        assert_eq!(faults(&owner), (0, 0));
    }

    #[test]
    fn an_unanswered_request_is_left_open() {
        let content = content();
        let mut owner = Owner::new(&content, 0, 1, 1);
        (0..3).for_each(|_| set(&mut owner));
        owner.take(Reply::Stored).expect("it was asked for");
        owner.leave_open();
        (1..=3).for_each(|version| read(&mut owner, version));
        assert_eq!(faults(&owner), (0, 0));
        read(&mut owner, 2);
        assert_eq!(faults(&owner), (1, 0));
    }

    #[test]
    fn a_refused_or_damaged_value_is_wrong() {
        let content = content();
        let mut owner = Owner::new(&content, 0, 1, 1);
        set(&mut owner);
        owner.take(Reply::Refused).expect("it was asked for");
        read(&mut owner, 1);
        assert_eq!(faults(&owner), (0, 1));
        owner.check(0, Instant::now(), 1, b"0000000000000001 and so on");
        assert_eq!(faults(&owner), (0, 2));
    }

    #[test]
    fn misses_are_left_out_of_a_reply_and_other_keys_are_refused() {
        let content = content();
        let mut owner = Owner::new(&content, 0, 1, 3);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        owner.write(&Deed::Set { key: 1, has_ttl: true }, &mut Vec::new());
        owner.take(Reply::Stored).expect("it was asked for");
        owner.write(&Deed::Get { keys: vec![0, 1, 2] }, &mut Vec::new());
        owner.content.write_key(1, &mut key);
        owner.content.write(1, 1, &mut value);
        let hit = || Reply::Value { key: &key, flags: 1, value: &value };
        owner.take(hit()).expect("it was asked for");
        assert!(owner.take(hit()).is_err(), "it comes once");
        assert_eq!((owner.tally.checked, faults(&owner)), (1, (0, 0)));
        let mut over = Work::Fill(3);
        let stored: Vec<_> = std::iter::from_fn(|| owner.next(&mut over)).collect();
        assert_eq!(stored, [2, 0].map(|key| Deed::Set { key, has_ttl: false }), "what was missed");
    }
}
