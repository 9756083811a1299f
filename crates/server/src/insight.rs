//! The workers' observations of keys, where `--admin-port` asks for them: all events of a few keys,
//! for the miss-ratio curve and the reasons of misses, and the keys of a few requests, for the most
//! requested ones. The crate `insight` evaluates them on the admin thread.
//!
//! ```text
//! worker   batch: which hashes are sampled -> request -> what is there now -> lists
//! admin    ten times a second, and at a request: takes the lists; says what is sampled
//! ```
//!
//! An event is derived from the counters' changes during a request, and from the items present
//! behind it, looked at without a trace: so all protocols are observed alike, and no command knows
//! of this. For several keys of a request that was found, the present item is taken for the one
//! that was found.
//!
//! Keys of a Redis command beyond the first 128 are not observed, and neither is a line in its
//! protocol with quotes. A value that arrives in pieces is observed when it is stored, but is not
//! among the requests by which keys are counted.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ::insight::{After, Event, Watcher, position};
use larder::{Cache, Hash, Lookup, Session};
use protocol::parse::tokens::Tokens;
use protocol::request::{Key, KeyRoom, StoreMode};
use protocol::{Request, binary};
use stdx::random::Xorshift;

use crate::commands::redis::Call;
use crate::commands::{Flow, Outcome};
use crate::counters::Counters;
use crate::output::Output;
use crate::plan::{Action, Step, key_of};
use crate::worker_lists::{List, Lists};

/// Events that a worker keeps until they are taken, which is ten times a second: at this rate they
/// cost it less than a hundredth of a core.
const EVENTS_MAX: usize = 2 << 10;

/// The least length of that list, however little memory there is: 40 KiB.
const EVENTS_MIN: usize = 1 << 10;

/// A key that is found again unchanged, after at most this many events of other keys, is not
/// reported again: it would be found in the smallest cache, as is assumed of unreported reads. So
/// one hot key does not fill the list. Where the sample has but a few hundred keys and there are
/// many workers, this many keys of each are more than the smallest sizes of the curve hold, and the
/// curve predicts too few misses there.
const RECENT: usize = 8;

/// Keys of requests that a worker keeps until they are taken: for two million requests a second.
const PICKED_MAX: usize = 1 << 10;

/// A position that no hash of a batch has.
const NONE: usize = usize::MAX;

/// A key of a request that was picked by chance: of several keys one, for all of them.
#[derive(Debug)]
pub struct Picked {
    /// Number of keys it stands for.
    pub keys: usize,
    /// The key: 250 bytes at most.
    pub key: Box<[u8]>,
    /// Its hash.
    pub hash: u64,
    /// Bytes that answered it, if it was found.
    pub sent_bytes: usize,
}

/// The observations that the workers and the admin thread share.
#[derive(Debug)]
pub struct Insight {
    /// Keys with a position below this are sampled.
    threshold: AtomicU64,
    /// Events of sampled keys.
    pub events: Lists<Event>,
    /// Keys of picked requests.
    pub picked: Lists<Picked>,
}

impl Insight {
    /// For this many workers, none if there is no admin port, and a cache with this much memory.
    pub fn new(workers: usize, memory_bytes: usize) -> Self {
        let events_max = events_max(workers, memory_bytes);
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

/// The most events in each worker's list, in a cache with this much memory. There is one more list,
/// to swap with; and a list grows by doubling, so that one with room for a power of two is no
/// longer than that.
fn events_max(workers: usize, memory_bytes: usize) -> usize {
    let bytes = Watcher::lists_bytes(memory_bytes) / (workers + 1);
    let events = (bytes / size_of::<Event>()).clamp(EVENTS_MIN, EVENTS_MAX);
    1 << events.ilog2()
}

/// A worker's observer of keys.
#[derive(Debug)]
pub struct KeyObserver<'c> {
    insight: &'c Insight,
    events: &'c List<Event>,
    picked: &'c List<Picked>,
    threshold: u64,
    /// The next sampled key of the batch.
    next: usize,
    /// Hashes of the keys reported last, with their state after it; the oldest is at `oldest`.
    recent: [(u64, After); RECENT],
    oldest: usize,
    /// Picks one of a request's keys.
    random: Xorshift,
}

/// A request before it is executed.
#[derive(Debug)]
pub struct Before<'b> {
    /// The keys of a multiget.
    pub keys: &'b [u8],
    /// The position of the first one's hash.
    pub hash_at: usize,
    /// The counters before it.
    pub counts: Counts,
    /// Bytes of output before it.
    made_bytes: usize,
}

impl<'b> Before<'b> {
    /// The request of a step; a multiget's keys are gone once it is executed.
    pub fn of(step: &Step<'b>, counters: &Counters, out: &Output<'_, '_>) -> Self {
        let keys = match &step.action {
            Action::Request(Request::Get(get)) => get.keys,
            _ => &[],
        };
        let (counts, made_bytes) = (Counts::of(counters), out.made_bytes());
        Self { keys, hash_at: step.hash_at, counts, made_bytes }
    }
}

/// The counters of everything that is done to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    gets: u64,
    touches: u64,
    hits: u64,
    deletes: u64,
    /// Stores, whatever their outcome, except those that found no room.
    stores: u64,
    /// Arithmetic, and stores that found no room, which may delete the old item.
    others: u64,
}

impl Counts {
    /// The counters now.
    pub fn of(counters: &Counters) -> Self {
        let increments = counters.incr_hits.get() + counters.incr_misses.get();
        let decrements = counters.decr_hits.get() + counters.decr_misses.get();
        let refused = counters.store_no_memory.get() + counters.store_too_large.get();
        Self {
            gets: counters.cmd_get.get(),
            touches: counters.cmd_touch.get(),
            hits: counters.get_hits.get() + counters.touch_hits.get(),
            deletes: counters.delete_hits.get() + counters.delete_misses.get(),
            stores: counters.cmd_set.get(),
            others: increments + decrements + refused,
        }
    }

    /// Whether only gets have been counted since.
    fn is_only_gets(&self, since: &Self) -> bool {
        let before = Self { gets: since.gets, hits: since.hits, ..*self };
        self.gets > since.gets && before == *since
    }
}

/// The effect of a request on its keys, as far as counters tell.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// False if nothing was counted, so that it had no effect: it was a look without a trace, was
    /// refused, or is queued for EXEC.
    is_counted: bool,
    is_read: bool,
    /// Whether the one key was found; `None` if there were several.
    is_hit: Option<bool>,
    /// It only read.
    is_only_read: bool,
    /// The meaning of an item's absence after it.
    absent: After,
    answer: Answer,
}

/// The answer to keys that were found.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// This many bytes, for the one key.
    Bytes(usize),
    /// Each of several keys with its value.
    Values,
    /// Several keys, with less than that.
    Short,
}

impl Seen {
    fn of(before: &Before<'_>, until: usize, ended: &Executed<'_>) -> Self {
        let Executed { step, counters, out, .. } = *ended;
        let (then, now) = (&before.counts, Counts::of(counters));
        let is_single = until.saturating_sub(before.hash_at) == 1 && has_one_key(&step.action);
        let is_hit = now.hits > then.hits;
        let is_over = is_hit || now.stores > then.stores && stores_anyway(step);
        Self {
            is_counted: now != *then,
            is_read: now.gets > then.gets || now.touches > then.touches,
            is_hit: is_single.then_some(is_hit),
            is_only_read: now.is_only_gets(then) && !may_change(&step.action),
            absent: match () {
                () if now.deletes > then.deletes => After::Deleted,
                () if is_single && is_over => After::Over,
                () => After::Nothing,
            },
            answer: match () {
                () if is_single => {
                    Answer::Bytes(out.made_bytes().saturating_sub(before.made_bytes))
                }
                () if answers_with_values(&step.action) => Answer::Values,
                () => Answer::Short,
            },
        }
    }
}

/// Whether a request, other than text's `get`, has but one key.
fn has_one_key(action: &Action<'_>) -> bool {
    match action {
        Action::Redis(Call::Command(command, lookup)) => {
            lookup.keys().of(*command).nth(1).is_none()
        }
        _ => true,
    }
}

/// Whether a request that counts only as a get may change the item.
fn may_change(action: &Action<'_>) -> bool {
    match action {
        Action::Request(Request::MetaGet(get)) => get.vivify.is_some(),
        _ => false,
    }
}

/// Whether a request for several keys is answered with the values of those that are found.
fn answers_with_values(action: &Action<'_>) -> bool {
    match action {
        Action::Request(Request::Get(_)) => true,
        Action::Redis(Call::Command(_, lookup)) => lookup.name() == Some("mget"),
        _ => false,
    }
}

/// Whether a store succeeds without an old item: if none is there afterwards either, the stored
/// item had expired. After other stores there may as well have been nothing to replace.
fn stores_anyway(step: &Step<'_>) -> bool {
    let is_anyway = |mode, compare_cas: Option<u64>| match mode {
        StoreMode::Add => true,
        StoreMode::Set => compare_cas.is_none(),
        _ => false,
    };
    match &step.action {
        Action::Request(Request::Store(store)) => is_anyway(store.mode, None),
        Action::Request(Request::MetaSet(set)) => is_anyway(set.mode, set.compare_cas),
        Action::Binary(request) => match &request.command {
            binary::Command::Store(store) => is_anyway(store.mode, store.compare_cas),
            _ => false,
        },
        // The options stand behind the key and the value.
        Action::Redis(Call::Command(command, lookup)) => match lookup.name() {
            Some("set") => !command.words().skip(3).any(|word| word.eq_ignore_ascii_case(b"xx")),
            Some("setex" | "psetex" | "setnx" | "getset" | "mset") => true,
            _ => false,
        },
        _ => false,
    }
}

/// A request that was executed.
#[derive(Clone, Copy)]
pub struct Executed<'a> {
    /// The step as it is now.
    pub step: &'a Step<'a>,
    /// Its outcome.
    pub outcome: &'a Outcome<'a>,
    /// Its session.
    pub session: &'a Session<'a>,
    /// The worker's counters.
    pub counters: &'a Counters,
    /// The hashes of all keys of the batch.
    pub hashes: &'a [Hash],
    /// The answers that wait to be written.
    pub out: &'a Output<'a, 'a>,
}

impl<'a> Executed<'a> {
    /// All of it.
    #[inline(always)]
    pub fn of(
        step: &'a Step<'a>,
        outcome: &'a Outcome<'a>,
        session: &'a Session<'a>,
        counters: &'a Counters,
        hashes: &'a [Hash],
        out: &'a Output<'a, 'a>,
    ) -> Self {
        Self { step, outcome, session, counters, hashes, out }
    }
}

impl<'c> KeyObserver<'c> {
    /// The observer of this worker, if there is an admin port.
    pub fn new(insight: &'c Insight, worker: usize) -> Option<Self> {
        let (events, picked) = (insight.events.of(worker)?, insight.picked.of(worker)?);
        Some(Self {
            insight,
            events,
            picked,
            threshold: 0,
            next: NONE,
            recent: [(0, After::Nothing); RECENT],
            oldest: 0,
            random: Xorshift::seeded(worker as u64 + 1),
        })
    }

    /// Called before a batch is executed.
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

    /// Whether one of the keys of a step, from the first that is not done, is sampled.
    #[inline(always)]
    pub fn is_next(&self, step: &Step<'_>) -> bool {
        self.next < step.hash_end
    }

    /// Called behind a step that has a sampled key, or was picked.
    pub fn after(&mut self, before: &Before<'_>, is_picked: bool, ended: &Executed<'_>) {
        let Executed { step, hashes, .. } = *ended;
        let is_get = matches!(step.action, Action::Request(Request::Get(_)));
        let is_over = match ended.outcome {
            Ok(Flow::Next | Flow::Close(_)) => true,
            // Answered keys of a multiget are not requested again.
            Ok(Flow::Flush) | Err(_) if is_get => true,
            // All of it is executed again.
            Ok(Flow::Flush) | Err(_) => return,
            // Not yet, or not at all.
            _ => false,
        };
        let until = until(step);
        if is_over {
            let seen = Seen::of(before, until, ended);
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

    /// Reports the outcome for those keys of a request, with hashes in `wanted`, that are sampled
    /// or picked.
    fn look_at<'b>(
        &mut self,
        keys: impl IntoIterator<Item = Key<'b>>,
        wanted: Range<usize>,
        is_picked: bool,
        seen: Seen,
        ended: &Executed<'_>,
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
        // Finding where a key begins takes longer than checking whether it is wanted.
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

    /// Reports the outcome for one key, which was picked for `stands_for` keys, or for none.
    fn tell(
        &mut self,
        (key, hash): (&[u8], Hash),
        (is_sampled, stands_for): (bool, usize),
        seen: Seen,
        session: &Session<'_>,
    ) {
        let recent = self.recent.iter().position(|(told, _)| *told == hash.0);
        let is_picked = stands_for > 0;
        if recent.is_some() && !is_picked && seen.is_only_read && seen.is_hit == Some(true) {
            return;
        }
        let found = session.peek_here(key, hash);
        let is_hit = seen.is_hit.unwrap_or(!matches!(found, Lookup::Miss));
        let read = seen.is_read.then_some(is_hit);
        let after = after(&found, seen.absent);
        let is_as_told = recent.is_some_and(|place| self.recent[place].1 == after);
        if is_sampled && seen.is_counted && !(is_as_told && read == Some(true)) {
            self.events.add(event(session, hash, read, after));
            let place = recent.unwrap_or(self.oldest);
            self.recent[place] = (hash.0, after);
            self.oldest = if recent.is_some() { self.oldest } else { (place + 1) % RECENT };
        }
        if is_picked {
            let sent_bytes = match (seen.answer, &found) {
                _ if read != Some(true) => 0,
                (Answer::Bytes(bytes), _) => bytes,
                (Answer::Values, Lookup::Hit(item)) => key.len() + item.value_bytes(),
                _ => 0,
            };
            let key = key.into();
            self.picked.add(Picked { keys: stands_for, key, hash: hash.0, sent_bytes });
        }
    }

    /// Reports the store of a value that had arrived in pieces, or its failure.
    #[cold]
    pub fn completed(&self, action: &Action<'_>, session: &Session<'_>, cache: &Cache) {
        let mut room = KeyRoom::default();
        let Some(key) = key_of_one(action) else { return };
        let key = key.bytes(&mut room);
        let hash = cache.hash(key);
        if position(hash.0) < self.insight.threshold.load(Ordering::Relaxed) {
            let found = session.peek_here(key, hash);
            self.events.add(event(session, hash, None, after(&found, After::Nothing)));
        }
    }
}

/// The position behind the hashes of a step's keys that are done.
fn until(step: &Step<'_>) -> usize {
    match &step.action {
        Action::Request(Request::Get(_)) => step.hash_at,
        _ => step.hash_end,
    }
}

fn event(session: &Session<'_>, hash: Hash, read: Option<bool>, after: After) -> Event {
    Event { hash: hash.0, now_s: session.now(), flushes: session.flushes(), read, after }
}

/// The state of a key after a request.
fn after(found: &Lookup<'_>, absent: After) -> After {
    match found {
        Lookup::Hit(item) => After::Item {
            bytes: u32::try_from(item.chunk_bytes()).unwrap_or(u32::MAX),
            cost_us: item.cost_us(),
            expiry_s: item.expiry().second(),
        },
        Lookup::Pending => After::Elsewhere,
        Lookup::Miss => absent,
    }
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

    /// Regression: a step without a key counted as the next sampled one wherever a batch had none,
    /// so that all counters were read before each `mn`.
    #[test]
    fn a_step_without_a_key_is_never_the_sampled_one() {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        let insight = Insight::new(1, 64 << 20);
        let mut lens = KeyObserver::new(&insight, 0).expect("there is one worker");
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
    /// The real size of the lists, not the one they were allowed: vectors with as many as go in,
    /// and the one that they are swapped with.
    #[test]
    fn the_lists_take_at_most_their_part_of_the_memory() {
        for (mebibytes, workers) in [(64, 1), (256, 2), (256, 4), (1024, 4), (1024, 16)] {
            let memory_bytes = mebibytes << 20;
            let events_max = events_max(workers, memory_bytes);
            let mut list = Vec::new();
            let event = |hash| {
                let after = After::Nothing;
                Event { hash, now_s: 0, flushes: 0, read: None, after }
            };
            (0..events_max as u64).for_each(|hash| list.push(event(hash)));
            let taken = list.capacity() * size_of::<Event>() * (workers + 1);
            let allowed = Watcher::lists_bytes(memory_bytes);
            let least = EVENTS_MIN * size_of::<Event>() * (workers + 1);
            assert!(taken <= allowed.max(least), "{taken} of {allowed}: {mebibytes} {workers}");
        }
    }

    /// The events of requests for one key, whose counters change as `count` does.
    fn told(input: &[u8], wire: Wire, count: impl Fn(&Counters)) -> Vec<Event> {
        let cache = Cache::builder().memory_bytes(64 << 20).build().expect("a small cache");
        cache.set(b"key", b"value", larder::Expiry::NEVER).expect("it is stored");
        let insight = Insight::new(1, 64 << 20);
        insight.sample_below(u64::MAX);
        let mut lens = KeyObserver::new(&insight, 0).expect("there is one worker");
        let (mut steps, mut hashes) = (Vec::new(), Vec::new());
        let mut plan = Plan::new(input, None, Dialect::default(), wire);
        plan.fill(&cache, &mut steps, &mut hashes);
        lens.batch(&hashes);
        let (session, counters, mut bytes) = (cache.session(), Counters::default(), Vec::new());
        let out = Output::new(&mut bytes);
        for step in &steps {
            let before = Before::of(step, &counters, &out);
            count(&counters);
            let outcome = Ok(Flow::Next);
            lens.after(
                &before,
                false,
                &Executed::of(step, &outcome, &session, &counters, &hashes, &out),
            );
        }
        let mut events = Vec::new();
        insight.events.take(&mut Vec::new(), |event| events.push(event));
        events
    }

    /// Regression: watching a cache by `TTL` or `EXISTS` made its keys look requested.
    #[test]
    fn a_look_without_a_trace_is_not_reported() {
        let ttl = b"*2\r\n$3\r\nTTL\r\n$3\r\nkey\r\n";
        assert_eq!(told(ttl, Wire::Redis, |_| ()), []);
        assert_eq!(told(b"me key\r\n", Wire::Text, |counters| counters.cmd_meta.one()), []);
        let events = told(b"incr key 1\r\n", Wire::Text, |counters| counters.incr_hits.one());
        assert_eq!((events.len(), events[0].read), (1, None));
    }

    /// Only changes of a hot key are reported.
    #[test]
    fn a_key_found_again_is_reported_only_if_it_has_changed() {
        let touched = |counters: &Counters| {
            counters.cmd_touch.one();
            counters.touch_hits.one();
        };
        let events = told(b"touch key 0\r\ntouch key 0\r\n", Wire::Text, touched);
        assert_eq!(events.len(), 1, "{events:?}");
        let stored = |counters: &Counters| counters.cmd_set.one();
        let events = told(&b"set key 0 0 1\r\nx\r\n".repeat(3), Wire::Text, stored);
        assert_eq!(events.len(), 3, "a store is no read: {events:?}");
    }
}
