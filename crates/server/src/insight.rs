//! What workers tell of the keys that clients ask for, where `--admin-port` asks for it: all that
//! happens to a few keys, for the miss-ratio curve and the reasons of misses, and the keys of a few
//! requests, for those asked for most. The crate `insight` makes sense of it on the admin thread.
//!
//! ```text
//! worker   batch: which hashes are sampled -> request -> what is there now -> lists
//! admin    ten times a second, and when somebody asks: takes the lists; says what is sampled
//! ```
//!
//! What happened follows from what was counted meanwhile, and from what is there behind it, looked
//! at without a trace: so all protocols are told alike, and no command knows of this. Of several
//! keys of a request that was found is what is there then.
//!
//! Keys of one of Redis' commands beyond the first 128 are not looked at, and neither is a line in
//! its protocol with quotes. A value that arrives in pieces is looked at when it is stored, but is
//! not among the requests by which keys are counted.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ::insight::{After, Event, Watcher, position};
use larder::{Cache, Hash, Lookup, Session};
use protocol::Request;
use protocol::parse::tokens::Tokens;
use protocol::request::{Key, KeyRoom};
use stdx::random::Xorshift;

use crate::commands::redis::Call;
use crate::commands::{Flow, Outcome};
use crate::counters::Counters;
use crate::lists::{List, Lists};
use crate::plan::{Action, Step, key_of};

/// Events that a worker keeps until they are taken, which is ten times a second: what they cost it
/// is less than a hundredth of a core then.
const EVENTS_MAX: usize = 2 << 10;

/// And at least so many, however little memory there is: 40 KiB.
const EVENTS_MIN: usize = 1 << 10;

/// A key that is found again behind no more than so many other events is not told of again: it
/// would be found in the smallest cache, which is what is assumed of reads that nobody tells of. So
/// one key that everybody asks for does not fill the list.
const RECENT: usize = 8;

/// Keys of requests that a worker keeps until they are taken: for two million requests a second.
const PICKED_MAX: usize = 1 << 10;

/// No hash of a batch.
const NONE: usize = usize::MAX;

/// A key of a request that was picked by chance: of several keys one, for all of them.
#[derive(Debug)]
pub struct Picked {
    /// How many keys it stands for.
    pub keys: usize,
    /// The key: 250 bytes at most.
    pub key: Box<[u8]>,
    /// Its hash.
    pub hash: u64,
    /// Bytes of the item that it was answered with; 0 if it was not.
    pub sent_bytes: usize,
}

/// What the workers and the admin thread share.
#[derive(Debug)]
pub struct Insight {
    /// Keys are sampled whose position is below.
    threshold: AtomicU64,
    /// What happened to them.
    pub events: Lists<Event>,
    /// Keys of requests.
    pub picked: Lists<Picked>,
}

impl Insight {
    /// For so many workers, none if nobody asks, and a cache with so much memory.
    pub fn new(workers: usize, memory_bytes: usize) -> Self {
        let bytes = Watcher::lists_bytes(memory_bytes) / workers.max(1);
        let events_max = (bytes / size_of::<Event>()).clamp(EVENTS_MIN, EVENTS_MAX);
        Self {
            threshold: AtomicU64::new(0),
            events: Lists::new(workers, events_max),
            picked: Lists::new(workers, PICKED_MAX),
        }
    }

    /// Samples the keys below this position from now on.
    pub fn sample_below(&self, threshold: u64) {
        self.threshold.store(threshold, Ordering::Relaxed);
    }
}

/// A worker's eye on keys.
#[derive(Debug)]
pub struct Lens<'c> {
    insight: &'c Insight,
    events: &'c List<Event>,
    picked: &'c List<Picked>,
    threshold: u64,
    /// The next sampled key of the batch.
    next: usize,
    /// Hashes of the keys that were told of last, the oldest of them at `oldest`.
    recent: [u64; RECENT],
    oldest: usize,
    /// Picks one of a request's keys.
    random: Xorshift,
}

/// A request before it is executed.
#[derive(Debug)]
pub struct Before<'b> {
    /// Those of a multiget.
    pub keys: &'b [u8],
    /// Where the first one's hash stands.
    pub hash_at: usize,
    /// What had been counted.
    pub counts: Counts,
}

impl<'b> Before<'b> {
    /// Of a step; a multiget's keys are gone once it is executed.
    pub fn of(step: &Step<'b>, counters: &Counters) -> Self {
        let keys = match &step.action {
            Action::Request(Request::Get(get)) => get.keys,
            _ => &[],
        };
        Self { keys, hash_at: step.hash_at, counts: Counts::of(counters) }
    }
}

/// What had been counted.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    reads: u64,
    hits: u64,
    deletes: u64,
    /// Without those that found no room.
    stores: u64,
}

impl Counts {
    /// As they are now.
    pub fn of(counters: &Counters) -> Self {
        Self {
            reads: counters.cmd_get.get() + counters.cmd_touch.get(),
            hits: counters.get_hits.get() + counters.touch_hits.get(),
            deletes: counters.delete_hits.get() + counters.delete_misses.get(),
            stores: counters
                .cmd_set
                .get()
                .wrapping_sub(counters.store_no_memory.get() + counters.store_too_large.get()),
        }
    }
}

/// What a request did to its keys, as far as counters tell.
#[derive(Debug, Clone, Copy)]
struct Seen {
    is_read: bool,
    /// Nothing if there were several keys.
    is_hit: Option<bool>,
    /// What it means if nothing is there behind it.
    absent: After,
}

impl Seen {
    fn of(before: &Before<'_>, until: usize, is_get: bool, counters: &Counters) -> Self {
        let is_single = until.saturating_sub(before.hash_at) == 1;
        if is_get && !is_single {
            return Self { is_read: true, is_hit: None, absent: After::Nothing };
        }
        let (then, now) = (&before.counts, Counts::of(counters));
        let is_hit = now.hits > then.hits;
        Self {
            is_read: now.reads > then.reads,
            is_hit: is_single.then_some(is_hit),
            absent: match () {
                () if now.deletes > then.deletes => After::Deleted,
                () if is_single && (is_hit || now.stores > then.stores) => After::Over,
                () => After::Nothing,
            },
        }
    }
}

/// A request that was executed.
#[derive(Clone, Copy)]
pub struct Ended<'a> {
    /// As it is now.
    pub step: &'a Step<'a>,
    /// What came of it.
    pub outcome: &'a Outcome<'a>,
    /// Where it was.
    pub session: &'a Session<'a>,
    /// Of the worker.
    pub counters: &'a Counters,
    /// Of all keys of the batch.
    pub hashes: &'a [Hash],
}

impl<'a> Ended<'a> {
    /// All of it.
    #[inline(always)]
    pub fn of(
        step: &'a Step<'a>,
        outcome: &'a Outcome<'a>,
        session: &'a Session<'a>,
        counters: &'a Counters,
        hashes: &'a [Hash],
    ) -> Self {
        Self { step, outcome, session, counters, hashes }
    }
}

impl<'c> Lens<'c> {
    /// Of this worker, if there is somebody who asks.
    pub fn new(insight: &'c Insight, worker: usize) -> Option<Self> {
        let (events, picked) = (insight.events.of(worker)?, insight.picked.of(worker)?);
        Some(Self {
            insight,
            events,
            picked,
            threshold: 0,
            next: NONE,
            recent: [0; RECENT],
            oldest: 0,
            random: Xorshift::seeded(worker as u64 + 1),
        })
    }

    /// Before a batch is executed.
    #[inline]
    pub fn batch(&mut self, hashes: &[Hash]) {
        self.threshold = self.insight.threshold.load(Ordering::Relaxed);
        self.seek(hashes, 0);
    }

    /// Looks for the next sampled key.
    #[inline]
    fn seek(&mut self, hashes: &[Hash], from: usize) {
        let threshold = self.threshold;
        let rest = hashes.get(from..).unwrap_or_default();
        let found = rest.iter().position(|hash| position(hash.0) < threshold);
        self.next = found.map_or(NONE, |ahead| from + ahead);
    }

    /// Whether one of the keys of a step, the first that is not done with, is sampled.
    #[inline(always)]
    pub fn is_next(&self, step: &Step<'_>) -> bool {
        self.next < step.hash_end
    }

    /// Behind a step that has a sampled key, or was picked.
    pub fn after(&mut self, before: &Before<'_>, is_picked: bool, ended: &Ended<'_>) {
        let Ended { step, hashes, .. } = *ended;
        let is_get = matches!(step.action, Action::Request(Request::Get(_)));
        let is_over = match ended.outcome {
            Ok(Flow::Next | Flow::Close(_)) => true,
            // What of a multiget was answered is not asked for again.
            Ok(Flow::Flush) | Err(_) if is_get => true,
            // All of it is executed again.
            Ok(Flow::Flush) | Err(_) => return,
            // Not yet, or not at all.
            _ => false,
        };
        let until = until(step);
        if is_over {
            let seen = Seen::of(before, until, is_get, ended.counters);
            let wanted = before.hash_at..until.min(hashes.len());
            match &step.action {
                Action::Request(Request::Get(_)) => {
                    let keys = Tokens::new(before.keys).map(Key::plain);
                    self.look_at(keys, wanted, is_picked, seen, ended);
                }
                Action::Redis(Call::Command(command, lookup)) => {
                    let keys = lookup.keys().of(*command).map(Key::plain);
                    self.look_at(keys, wanted, is_picked, seen, ended);
                }
                action => self.look_at(key_of_one(action), wanted, is_picked, seen, ended),
            }
        }
        if until > self.next {
            self.seek(hashes, until);
        }
    }

    /// Tells what became of those keys of a request that are sampled or picked, whose hashes stand
    /// in `wanted`.
    fn look_at<'b>(
        &mut self,
        keys: impl IntoIterator<Item = Key<'b>>,
        wanted: Range<usize>,
        is_picked: bool,
        seen: Seen,
        ended: &Ended<'_>,
    ) {
        let count = wanted.len();
        let picked = if is_picked && count > 0 {
            wanted.start + self.random.draw() as usize % count
        } else {
            NONE
        };
        let is_sampled = |at: usize, lens: &Self| {
            at >= lens.next && position(ended.hashes[at].0) < lens.threshold
        };
        // To find where a key begins takes longer than to see that nobody wants it.
        let is_wanted = |at: &usize| *at == picked || is_sampled(*at, self);
        let Some(last) = wanted.clone().rev().find(is_wanted) else { return };
        for (at, key) in (wanted.start..=last).zip(keys) {
            let (is_sampled, stands_for) =
                (is_sampled(at, self), if at == picked { count } else { 0 });
            if is_sampled || stands_for > 0 {
                let mut room = KeyRoom::default();
                let key = (key.bytes(&mut room), ended.hashes[at]);
                self.tell(key, (is_sampled, stands_for), seen, ended.session);
            }
        }
    }

    /// Tells what became of one key, which was picked for so many, or for none.
    fn tell(
        &mut self,
        (key, hash): (&[u8], Hash),
        (is_sampled, stands_for): (bool, usize),
        seen: Seen,
        session: &Session<'_>,
    ) {
        let is_recent = self.recent.contains(&hash.0);
        let is_picked = stands_for > 0;
        if is_recent && !is_picked && seen.is_read && seen.is_hit == Some(true) {
            return;
        }
        let found = session.peek_here(key, hash);
        let is_hit = seen.is_hit.unwrap_or(!matches!(found, Lookup::Miss));
        let read = seen.is_read.then_some(is_hit);
        if is_sampled && !(is_recent && read == Some(true)) {
            self.events.add(event(session, hash, read, &found, seen.absent));
            self.recent[self.oldest] = hash.0;
            self.oldest = (self.oldest + 1) % RECENT;
        }
        if is_picked {
            let sent_bytes = match &found {
                Lookup::Hit(item) if read == Some(true) => key.len() + item.value_bytes(),
                _ => 0,
            };
            let key = key.into();
            self.picked.add(Picked { keys: stands_for, key, hash: hash.0, sent_bytes });
        }
    }

    /// A value that had arrived in pieces was stored, or was not.
    #[cold]
    pub fn completed(&self, action: &Action<'_>, session: &Session<'_>, cache: &Cache) {
        let mut room = KeyRoom::default();
        let Some(key) = key_of_one(action) else { return };
        let key = key.bytes(&mut room);
        let hash = cache.hash(key);
        if position(hash.0) < self.insight.threshold.load(Ordering::Relaxed) {
            let found = session.peek_here(key, hash);
            self.events.add(event(session, hash, None, &found, After::Nothing));
        }
    }
}

/// Behind the hashes of a step's keys that are done with.
fn until(step: &Step<'_>) -> usize {
    match &step.action {
        Action::Request(Request::Get(_)) => step.hash_at,
        _ => step.hash_end,
    }
}

fn event(
    session: &Session<'_>,
    hash: Hash,
    read: Option<bool>,
    found: &Lookup<'_>,
    absent: After,
) -> Event {
    let after = match found {
        Lookup::Hit(item) => After::Item {
            bytes: u32::try_from(item.chunk_bytes()).unwrap_or(u32::MAX),
            cost_us: item.cost_us(),
            expiry_s: item.expiry().second(),
        },
        Lookup::Pending => After::Elsewhere,
        Lookup::Miss => absent,
    };
    Event { hash: hash.0, now_s: session.now(), flushes: session.flushes(), read, after }
}

/// The key of a request that has exactly one.
fn key_of_one<'b>(action: &Action<'b>) -> Option<Key<'b>> {
    match action {
        Action::Request(request) => key_of(request),
        Action::Binary(request) => request.key().map(Key::plain),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use larder::Cache;
    use protocol::{Dialect, Wire};

    use super::*;
    use crate::plan::Plan;

    /// A step without a key once counted as the next sampled one wherever a batch had none, so that
    /// all that was counted was noted before each `mn`.
    #[test]
    fn a_step_without_a_key_is_never_the_sampled_one() {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let insight = Insight::new(1, 64 << 20);
        let mut lens = Lens::new(&insight, 0).expect("there is one worker");
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let mut plan = Plan::new(b"mg a v\r\nmn\r\n", None, Dialect::default(), Wire::Text);
        plan.fill(&cache, &mut steps, &mut hashes);
        lens.batch(&hashes);
        assert!(steps.len() == 2 && !steps.iter().any(|step| lens.is_next(step)));
        insight.sample_below(u64::MAX);
        lens.batch(&hashes);
        assert!(lens.is_next(&steps[0]));
        // As behind the first.
        lens.seek(&hashes, 1);
        assert!(!lens.is_next(&steps[1]));
    }
}
