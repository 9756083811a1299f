//! Times of requests, by a sample: about one in 256 is timed, where `--admin-port` asks for it.
//!
//! ```text
//! worker   begin -> execute -> end -> a list under a lock that is only tried
//! admin    once a second, and at a request: takes the lists, fills histograms
//! ```
//!
//! The time is that of serving: from when the request begins to be executed, among those that came
//! with it, until its reply is ready to be written. Network, parsing and the wait behind others are
//! not in it; a read from flash is. A request that has to be executed again for another reason, or
//! whose value arrives in pieces, gives no sample; nor does a Redis command that was refused or
//! queued for EXEC, nor EXEC itself.
//!
//! The distance between two samples is drawn anew each time, so that clients whose requests come in
//! a rhythm are not always caught at the same beat. The keys of a drawn request, which may be of a
//! kind that is not timed, are among those that [`KeyObserver`] reports, beside all events of the
//! keys that it samples. A request that waits for flash is executed twice and drawn once: if it was
//! drawn at first it is again, outside the count, and if it was not it is not counted a second
//! time.
//!
//! [`TurnExecutor`](crate::turn::TurnExecutor) is compiled for each [`Sampling`], so that
//! [`Unsampled`] leaves no trace in it. Functions that only it calls for each request or batch, and
//! so were inlined when there was one of it, are `inline(always)`: otherwise some ten instructions
//! of calls come back.

use std::collections::VecDeque;

use ::io::moment::Stopwatch;
use larder::{Cache, Hash, Session};
use protocol::parse::tokens::Tokens;
use protocol::{Request, binary};
use stdx::random::Xorshift;

use crate::commands::redis::Call;
use crate::commands::{Again, Flow};
use crate::counters::Counters;
use crate::insight::{Before, Executed, KeyObserver};
use crate::output::Output;
use crate::plan::{Action, Step};
use crate::worker_lists::List;

/// Requests for each sample, on average; a power of two.
pub const REQUESTS_PER_SAMPLE: u32 = 256;

/// Samples that a worker keeps until they are taken, which is once a second: enough for four
/// million requests a second.
pub const SAMPLES_MAX: usize = 16 << 10;

/// Drawn requests of a worker that wait for flash at the same time.
const WAITING_MAX: usize = 64;

/// The kind of a timed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A get of one key.
    Get,
    /// A get of several keys.
    Multiget,
    /// `set` and all other requests that bring a value.
    Store,
    /// `delete`.
    Delete,
    /// `touch`.
    Touch,
    /// `incr` and `decr`.
    Arithmetic,
}

/// The place that the answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The key was found, uncompressed.
    Hot,
    /// It was read from the compressed zone.
    Compressed,
    /// It was read from flash.
    Flash,
    /// There is none.
    Miss,
    /// It does not matter, or differs by key.
    Any,
}

/// The kinds of requests, and the places that their answers may come from.
pub const SERIES: [(Command, Tier); 9] = [
    (Command::Get, Tier::Hot),
    (Command::Get, Tier::Compressed),
    (Command::Get, Tier::Flash),
    (Command::Get, Tier::Miss),
    (Command::Multiget, Tier::Any),
    (Command::Store, Tier::Any),
    (Command::Delete, Tier::Any),
    (Command::Touch, Tier::Any),
    (Command::Arithmetic, Tier::Any),
];

impl Command {
    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Multiget => "multiget",
            Self::Store => "store",
            Self::Delete => "delete",
            Self::Touch => "touch",
            Self::Arithmetic => "arithmetic",
        }
    }

    /// The kind of a step; `None` if it is not sampled.
    fn of(action: &Action<'_>) -> Option<Self> {
        match action {
            Action::Request(request) => Self::of_text(request),
            Action::Binary(request) => Self::of_packet(&request.command),
            Action::Redis(Call::Command(command, lookup)) => {
                Self::of_redis(lookup.name()?, command.count())
            }
            _ => None,
        }
    }

    fn of_text(request: &Request<'_>) -> Option<Self> {
        match request {
            Request::Get(_) | Request::MetaGet(_) => Some(Self::Get),
            Request::Store(_) | Request::MetaSet(_) => Some(Self::Store),
            Request::Delete { .. } | Request::MetaDelete(_) => Some(Self::Delete),
            Request::Touch { .. } => Some(Self::Touch),
            Request::Arithmetic { .. } | Request::MetaArithmetic(_) => Some(Self::Arithmetic),
            _ => None,
        }
    }

    fn of_packet(command: &binary::Command<'_>) -> Option<Self> {
        match command {
            binary::Command::Get(get) if get.with_value => Some(Self::Get),
            binary::Command::Get(_) => Some(Self::Touch),
            binary::Command::Store(_) => Some(Self::Store),
            binary::Command::Delete { .. } => Some(Self::Delete),
            binary::Command::Arithmetic(_) => Some(Self::Arithmetic),
            _ => None,
        }
    }

    /// The kind by a command's name and its number of words, the name included.
    fn of_redis(name: &str, words: usize) -> Option<Self> {
        match name {
            "mget" if words > 2 => Some(Self::Multiget),
            "get" | "mget" | "getex" | "getdel" | "getrange" | "substr" => Some(Self::Get),
            "set" | "setex" | "psetex" | "setnx" | "getset" | "mset" | "msetnx" | "append"
            | "setrange" => Some(Self::Store),
            "del" | "unlink" => Some(Self::Delete),
            "expire" | "expireat" | "pexpire" | "pexpireat" | "persist" | "touch" => {
                Some(Self::Touch)
            }
            "incr" | "incrby" | "decr" | "decrby" | "incrbyfloat" => Some(Self::Arithmetic),
            _ => None,
        }
    }
}

impl Tier {
    /// The place's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Compressed => "compressed",
            Self::Flash => "flash",
            Self::Miss => "miss",
            Self::Any => "any",
        }
    }
}

/// One request that was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its place in [`SERIES`].
    pub series: u8,
    /// Nanoseconds; times above four seconds count as that.
    pub ns: u32,
}

/// An observer of requests, or its absence.
pub trait Sampling {
    /// The state of a request that is being observed.
    type Begun<'b>;

    /// Called before a batch of requests, whose keys have these hashes.
    fn batch(&mut self, hashes: &[Hash]);

    /// Called before a step is executed.
    fn begin<'b>(
        &mut self,
        step: &Step<'b>,
        session: &Session<'_>,
        counters: &Counters,
        out: &Output<'_, '_>,
    ) -> Self::Begun<'b>;

    /// Called after it.
    fn end(&mut self, begun: Self::Begun<'_>, ended: &Executed<'_>, serial: u64);

    /// Called when a value that had arrived in pieces was stored, or was not.
    fn complete(&mut self, action: &Action<'_>, session: &Session<'_>, cache: &Cache);

    /// Called when a connection's reads from flash have come; its request is next.
    fn resume(&mut self, serial: u64);
}

/// Observes nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unsampled;

impl Sampling for Unsampled {
    type Begun<'b> = ();

    #[inline(always)]
    fn batch(&mut self, _: &[Hash]) {}

    #[inline(always)]
    fn begin<'b>(&mut self, _: &Step<'b>, _: &Session<'_>, _: &Counters, _: &Output<'_, '_>) {}

    #[inline(always)]
    fn end(&mut self, (): (), _: &Executed<'_>, _: u64) {}

    #[inline(always)]
    fn complete(&mut self, _: &Action<'_>, _: &Session<'_>, _: &Cache) {}

    #[inline(always)]
    fn resume(&mut self, _: u64) {}
}

/// Draws one request in [`REQUESTS_PER_SAMPLE`].
#[derive(Debug)]
pub struct Sampler<'c> {
    samples: &'c List<Sample>,
    lens: KeyObserver<'c>,
    random: Xorshift,
    /// Requests until the next that is drawn.
    countdown: u32,
    /// Drawn requests that wait for flash.
    waiting: VecDeque<Waiting>,
    /// The one of them that is next, and the countdown before it.
    resumed: Option<(Waiting, u32)>,
}

/// A drawn request that waits for flash.
#[derive(Debug)]
struct Waiting {
    /// The serial number of its connection.
    serial: u64,
    /// `None` if it is not timed.
    begun: Option<Begun>,
}

/// The state of a timed request that waits.
#[derive(Debug)]
struct Begun {
    clock: Stopwatch,
    /// Keys that it has counted.
    keys: u64,
}

/// A request that is being timed.
#[derive(Debug)]
pub struct Timed {
    command: Command,
    clock: Stopwatch,
    has_waited: bool,
    /// It is text, where the number of keys shows only when they have been looked up.
    is_text: bool,
    /// The counters before, if their change shows whether it was executed.
    counted: Option<u64>,
    /// The count of keys before its first.
    keys_before: u64,
    hits: u64,
    lower_bytes: usize,
}

/// The notes before a request that is drawn, or has a sampled key.
#[derive(Debug)]
pub struct Noted<'b> {
    before: Before<'b>,
    is_drawn: bool,
    timed: Option<Timed>,
}

impl<'c> Sampler<'c> {
    /// A sampler with a worker's list, and its observer of keys.
    pub fn new(samples: &'c List<Sample>, lens: KeyObserver<'c>, worker: usize) -> Self {
        let random = Xorshift::seeded(worker as u64 + 1);
        let (waiting, resumed) = (VecDeque::with_capacity(WAITING_MAX), None);
        Self { samples, lens, random, countdown: REQUESTS_PER_SAMPLE, waiting, resumed }
    }

    /// Begins such a request.
    #[cold]
    #[inline(never)]
    fn note<'b>(
        &mut self,
        step: &Step<'b>,
        session: &Session<'_>,
        counters: &Counters,
        out: &Output<'_, '_>,
    ) -> Noted<'b> {
        let is_drawn = self.countdown == 0;
        let timed = if is_drawn { self.take(step, session, counters) } else { None };
        Noted { before: Before::of(step, counters, out), is_drawn, timed }
    }

    /// Ends it.
    #[cold]
    #[inline(never)]
    fn look(&mut self, noted: &Noted<'_>, ended: &Executed<'_>, serial: u64) {
        if noted.is_drawn && matches!(ended.outcome, Err(Again::Fetch)) {
            let keys = keys(ended.counters);
            let begun = noted.timed.as_ref();
            let begun =
                begun.map(|timed| Begun { clock: timed.clock, keys: keys - timed.keys_before });
            self.wait(Waiting { serial, begun });
        } else if let Some(timed) = &noted.timed {
            self.settle(timed, ended);
        }
        self.lens.after(&noted.before, noted.is_drawn, ended);
    }

    fn wait(&mut self, waiting: Waiting) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(waiting);
    }

    #[cold]
    fn take(
        &mut self,
        step: &Step<'_>,
        session: &Session<'_>,
        counters: &Counters,
    ) -> Option<Timed> {
        let action = &step.action;
        let begun = match self.resumed.take() {
            Some((waiting, countdown)) => {
                self.countdown = countdown;
                Some(waiting.begun?)
            }
            None => {
                let half = REQUESTS_PER_SAMPLE / 2;
                self.countdown = half + (self.random.draw() as u32) % REQUESTS_PER_SAMPLE;
                if is_rest(step) {
                    return None;
                }
                None
            }
        };
        Some(Timed {
            command: Command::of(action)?,
            has_waited: begun.is_some(),
            is_text: matches!(action, Action::Request(_)),
            counted: matches!(action, Action::Redis(_)).then(|| counted(counters)),
            keys_before: keys(counters) - begun.as_ref().map_or(0, |begun| begun.keys),
            hits: hits(counters),
            lower_bytes: session.lower_bytes(),
            clock: begun.map_or_else(Stopwatch::start, |begun| begun.clock),
        })
    }

    #[cold]
    fn settle(&mut self, timed: &Timed, ended: &Executed<'_>) {
        let Executed { step, outcome, session, counters, .. } = *ended;
        if !matches!(outcome, Ok(Flow::Next)) {
            return;
        }
        if timed.counted == Some(counted(counters)) {
            return;
        }
        let ns = timed.clock.elapsed().as_nanos();
        let is_hit = hits(counters) > timed.hits;
        let series = match timed.command {
            Command::Get
                if timed.is_text && (keys(counters) - timed.keys_before != 1 || has_more(step)) =>
            {
                (Command::Multiget, Tier::Any)
            }
            Command::Get if !is_hit => (Command::Get, Tier::Miss),
            Command::Get if timed.has_waited => (Command::Get, Tier::Flash),
            Command::Get if session.lower_bytes() != timed.lower_bytes => {
                (Command::Get, Tier::Compressed)
            }
            Command::Get => (Command::Get, Tier::Hot),
            other => (other, Tier::Any),
        };
        let place = SERIES.iter().position(|known| *known == series);
        let series = place.expect("every kind of request has its series") as u8;
        self.samples.add(Sample { series, ns: u32::try_from(ns).unwrap_or(u32::MAX) });
    }
}

/// Whether a step is the rest of a multiget of which a part has been executed.
fn is_rest(step: &Step<'_>) -> bool {
    let Action::Request(Request::Get(get)) = &step.action else { return false };
    if step.place.continuation.is_some() {
        return true;
    }
    // The name stands before the first key, as may an expiry; anything else there is keys.
    let offset = get.keys.as_ptr().addr().saturating_sub(step.line.as_ptr().addr());
    let before = step.line.get(..offset).unwrap_or_default();
    Tokens::new(before).count() > 1 + usize::from(get.touch.is_some())
}

/// Whether a step is the front of a multiget that was too long for a batch.
fn has_more(step: &Step<'_>) -> bool {
    matches!(&step.action, Action::Request(Request::Get(get)) if get.more)
}

/// Keys that a worker was asked for.
fn keys(counters: &Counters) -> u64 {
    counters.cmd_get.get() + counters.cmd_touch.get()
}

/// Keys that it found.
fn hits(counters: &Counters) -> u64 {
    counters.get_hits.get() + counters.touch_hits.get()
}

/// A count of a worker's acts on keys that rises with every command that has an effect.
fn counted(counters: &Counters) -> u64 {
    let deletes = counters.delete_hits.get() + counters.delete_misses.get();
    let increments = counters.incr_hits.get() + counters.incr_misses.get();
    let decrements = counters.decr_hits.get() + counters.decr_misses.get();
    keys(counters) + counters.cmd_set.get() + deletes + increments + decrements
}

impl Sampling for Sampler<'_> {
    type Begun<'b> = Option<Noted<'b>>;

    #[inline]
    fn batch(&mut self, hashes: &[Hash]) {
        self.lens.batch(hashes);
    }

    #[inline(always)]
    fn begin<'b>(
        &mut self,
        step: &Step<'b>,
        session: &Session<'_>,
        counters: &Counters,
        out: &Output<'_, '_>,
    ) -> Option<Noted<'b>> {
        self.countdown -= 1;
        let is_noted = self.countdown == 0 || self.lens.is_next(step);
        is_noted.then(|| self.note(step, session, counters, out))
    }

    #[inline(always)]
    fn end(&mut self, noted: Option<Noted<'_>>, ended: &Executed<'_>, serial: u64) {
        if let Some(noted) = noted {
            self.look(&noted, ended, serial);
        }
    }

    fn complete(&mut self, action: &Action<'_>, session: &Session<'_>, cache: &Cache) {
        self.lens.completed(action, session, cache);
    }

    fn resume(&mut self, serial: u64) {
        let place = self.waiting.iter().position(|waiting| waiting.serial == serial);
        let Some(waiting) = place.and_then(|place| self.waiting.remove(place)) else {
            self.countdown += 1;
            return;
        };
        self.resumed = Some((waiting, self.countdown));
        self.countdown = 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::{Dialect, Wire};

    use super::*;
    use crate::commands::Outcome;
    use crate::insight::Insight;
    use crate::plan::Plan;
    use crate::worker_lists::Lists;

    /// A worker's sampler, with the objects it observes.
    struct World {
        cache: Cache,
        insight: Insight,
        samples: Lists<Sample>,
        counters: Counters,
    }

    impl World {
        fn new() -> Self {
            Self {
                cache: Cache::builder().memory_bytes(64 << 20).build().expect("a small cache"),
                insight: Insight::new(1, 64 << 20),
                samples: Lists::new(1, SAMPLES_MAX),
                counters: Counters::default(),
            }
        }

        fn sampler(&self) -> Sampler<'_> {
            let samples = self.samples.of(0).expect("there is one worker");
            Sampler::new(
                samples,
                KeyObserver::new(&self.insight, 0).expect("there is one worker"),
                0,
            )
        }

        /// Samples the execution of the next text request, as far as this many keys.
        fn execute(
            &self,
            sampler: &mut Sampler<'_>,
            step: &mut Step<'_>,
            keys: usize,
            outcome: Outcome<'_>,
        ) {
            let (session, mut bytes) = (self.cache.session(), Vec::new());
            let (hashes, out) = ([Hash(1); 8], Output::new(&mut bytes));
            sampler.batch(&hashes);
            let begun = sampler.begin(step, &session, &self.counters, &out);
            for _ in 0..keys {
                self.counters.cmd_get.one();
                self.counters.get_hits.one();
            }
            let Action::Request(Request::Get(get)) = &mut step.action else {
                panic!("a get is asked for")
            };
            let mut rest = get.keys();
            rest.by_ref().take(keys).for_each(drop);
            get.keys = rest.rest();
            step.hash_at += keys;
            let ended = Executed::of(step, &outcome, &session, &self.counters, &hashes, &out);
            sampler.end(begun, &ended, 7);
        }

        /// The step of a request, or of the rest of one.
        fn step<'b>(&self, input: &'b [u8]) -> Step<'b> {
            let (mut steps, mut hashes) = (Vec::new(), Vec::new());
            let mut plan = Plan::new(input, None, Dialect::default(), Wire::Text);
            plan.fill(&self.cache, &mut steps, &mut hashes);
            steps[0]
        }

        /// Takes the samples by their series, and the number of keys that each picked key stands
        /// for.
        fn take(&self, series: &mut BTreeMap<u8, u64>, picked: &mut BTreeMap<Box<[u8]>, u64>) {
            self.samples.take(&mut Vec::new(), |sample| {
                *series.entry(sample.series).or_default() += 1;
            });
            self.insight.picked.take(&mut Vec::new(), |one| {
                *picked.entry(one.key).or_default() += one.keys as u64;
            });
        }
    }

    fn series_of(series: (Command, Tier)) -> u8 {
        SERIES.iter().position(|known| *known == series).expect("it is known") as u8
    }

    /// Regression: its second half was timed as a request of its own, whose pages were there at
    /// once, and its key was counted twice; and behind each the others waited longer for their
    /// turn.
    #[test]
    fn a_request_that_waits_for_flash_is_drawn_once_and_is_from_flash() {
        const ROUNDS: usize = 200_000;
        let world = World::new();
        let mut sampler = world.sampler();
        let (waits, other) = (world.step(b"get waits\r\n"), world.step(b"get other\r\n"));
        let (mut series, mut picked) = (BTreeMap::new(), BTreeMap::new());
        for round in 0..ROUNDS {
            world.execute(&mut sampler, &mut { waits }, 0, Err(Again::Fetch));
            for _ in 0..3 {
                world.execute(&mut sampler, &mut { other }, 1, Ok(Flow::Next));
            }
            sampler.resume(7);
            world.execute(&mut sampler, &mut { waits }, 1, Ok(Flow::Next));
            if round % 10_000 == 0 {
                world.take(&mut series, &mut picked);
            }
        }
        world.take(&mut series, &mut picked);
        let expected = ROUNDS as f64 / f64::from(REQUESTS_PER_SAMPLE);
        let shares = [(&b"waits"[..], 1.0), (b"other", 3.0)]
            .map(|(key, times)| picked[key] as f64 / (expected * times));
        assert!(shares.iter().all(|share| (0.9..1.1).contains(share)), "{shares:?}");
        let [flash, hot] = [Tier::Flash, Tier::Hot].map(|tier| series_of((Command::Get, tier)));
        let expected =
            BTreeMap::from([(flash, picked[&b"waits"[..]]), (hot, picked[&b"other"[..]])]);
        assert_eq!(series, expected);
    }

    /// Regression: its last key alone was reported as a `get`, with the time of all, or of that
    /// key.
    #[test]
    fn a_multiget_of_which_a_part_is_executed_again_is_no_get() {
        let world = World::new();
        let mut sampler = world.sampler();
        let (mut series, mut picked) = (BTreeMap::new(), BTreeMap::new());
        let whole = b"gat 0 a b c\r\n";
        for round in 0..60_000 {
            let mut step = world.step(whole);
            world.execute(&mut sampler, &mut step, 2, Err(Again::Fetch));
            sampler.resume(7);
            let mut rest = world.step(b"gat 0 c\r\n");
            rest.place.continuation = Some(protocol::request::GetContinuation {
                with_cas: false,
                touch: Some(protocol::request::ExpiryTime(0)),
                refused: None,
            });
            world.execute(&mut sampler, &mut rest, 1, Ok(Flow::Next));
            // The socket had to take the first two before the third could be answered.
            let mut step = world.step(whole);
            world.execute(&mut sampler, &mut step, 2, Ok(Flow::Flush));
            world.execute(&mut sampler, &mut step, 1, Ok(Flow::Next));
            // As long as a batch allowed.
            let mut front = world.step(b"get a\r\n");
            if let Action::Request(Request::Get(get)) = &mut front.action {
                get.more = true;
            }
            world.execute(&mut sampler, &mut front, 1, Ok(Flow::Next));
            if round % 10_000 == 0 {
                world.take(&mut series, &mut picked);
            }
        }
        world.take(&mut series, &mut picked);
        let multiget = series_of((Command::Multiget, Tier::Any));
        assert!(series.keys().eq([&multiget]), "{series:?}");
        // Of the first and of the last kind; of the second there is none.
        let samples = series[&multiget] as f64 * f64::from(REQUESTS_PER_SAMPLE) / 60_000.0;
        assert!((1.7..2.3).contains(&samples), "{samples}");
    }
}
