//! Drives a cache through a trace as an application would: a get that misses is followed by a set
//! of the value, which the application made anew; other writes store or remove.
//!
//! With several threads, each has the objects of its own remainder, so that the requests for one
//! object stay in order, and threads meet in the cache only.

use std::thread;
use std::time::Instant;

use super::cache::{Cache, Compared, Found, Item};
use crate::failure::{Failure, Outcome};
use crate::load::job::Check;
use crate::policies::simulate::Tally;
use crate::trace::copies::Copies;
use crate::trace::{Operation, Request};
use crate::values::{self, Values};

/// Receives the number of requests done since the last call.
pub type Step<'a> = dyn Fn(u64) + Sync + 'a;

/// Requests between two calls of a step.
const STEP_REQUESTS: usize = 1 << 16;

/// A trace to replay.
pub struct Replay<'a> {
    /// The requests.
    pub trace: &'a Copies,
    /// Their values.
    pub values: &'a Values,
    /// Threads that send requests.
    pub threads: u8,
}

/// The counts of a replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Reads and their costs.
    pub tally: Tally,
    /// Reads that returned another value than was stored.
    pub wrong: u64,
    /// Stores that were refused.
    pub refused: u64,
    /// All requests.
    pub requests: u64,
    /// Its duration in seconds.
    pub seconds: f64,
}

impl Done {
    /// Returns the counts, or an error if any read returned another value than was stored, so that
    /// nobody takes it for a hit.
    pub fn all_right(self) -> Outcome<Done> {
        let Done { wrong, tally, .. } = self;
        let hits = tally.gets - tally.misses;
        match wrong {
            0 => Ok(self),
            _ => Err(Failure::Check(format!(
                "{wrong} of {hits} hits returned another value than was stored"
            ))),
        }
    }
}

impl Replay<'_> {
    /// Replays the whole trace.
    pub fn run(&self, cache: &dyn Cache, step: &Step) -> Done {
        let check = &Check::of(self.trace);
        let started = Instant::now();
        let mut done = Done::default();
        thread::scope(|scope| {
            let part = |thread| scope.spawn(move || self.part(cache, check, thread, step));
            let parts: Vec<_> = (0..u32::from(self.threads)).map(part).collect();
            for part in parts {
                let part = part.join().expect("replaying does not panic");
                done.tally += part.tally;
                done.wrong += part.wrong;
                done.refused += part.refused;
            }
        });
        done.requests = self.trace.len() as u64;
        done.seconds = started.elapsed().as_secs_f64();
        done
    }

    fn part(&self, cache: &dyn Cache, check: &Check, thread: u32, step: &Step) -> Done {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut done = Done::default();
        let mut own = 0;
        for (position, request) in self.trace.iter().enumerate() {
            if request.object % u32::from(self.threads) != thread {
                continue;
            }
            values::write_key(request.object, request.key_bytes, &mut key);
            value.clear();
            self.values.append(request.object, request.value_bytes, &mut value);
            let compared = Compared::of(check.known(request.object), self.values);
            let (position, key, value) = (position as u32, &key, &value);
            let item = Item { position, request: &request, key, value, compared };
            ask(cache, item, &mut done);
            own += 1;
            if own % STEP_REQUESTS == 0 {
                step(STEP_REQUESTS as u64);
            }
        }
        step((own % STEP_REQUESTS) as u64);
        done
    }
}

fn ask(cache: &dyn Cache, item: Item, done: &mut Done) {
    let Request { operation, cost_us, .. } = *item.request;
    match operation {
        Operation::Get => {
            let found = cache.get(item);
            done.tally.count(found != Found::Miss, cost_us);
            done.wrong += u64::from(found == Found::Wrong);
            if found == Found::Miss {
                done.refused += u64::from(!cache.set(item));
            }
        }
        Operation::Delete => cache.remove(item),
        _ => done.refused += u64::from(!cache.set(item)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::Replay;
    use crate::policies::check::reads;
    use crate::replay::cache::{Cache, Contents, Found, Item};
    use crate::replay::engine::Engine;
    use crate::trace::copies::Copies;
    use crate::trace::{Operation, Trace};
    use crate::values::Values;

    fn trace(objects: &[u32]) -> Trace {
        let mut requests = reads(objects);
        for request in &mut requests {
            (request.key_bytes, request.value_bytes) = (14, 50 + request.object);
        }
        Trace { name: "t".into(), requests, objects: objects.iter().max().map_or(0, |o| o + 1) }
    }

    /// Keeps everything, and confuses values if told to.
    #[derive(Default)]
    struct Everything {
        items: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
        is_confused: bool,
    }

    impl Cache for Everything {
        fn get(&self, item: Item) -> Found {
            let items = self.items.lock().expect("nothing panics while it holds this lock");
            match items.get(item.key) {
                None => Found::Miss,
                Some(value) if item.is_answered_by(value.iter()) => Found::Hit,
                Some(_) => Found::Wrong,
            }
        }

        fn set(&self, item: Item) -> bool {
            let value = if self.is_confused { b"?" } else { item.value };
            let mut items = self.items.lock().expect("nothing panics while it holds this lock");
            items.insert(item.key.to_vec(), value.to_vec());
            true
        }

        fn remove(&self, item: Item) {
            let mut items = self.items.lock().expect("nothing panics while it holds this lock");
            items.remove(item.key);
        }

        fn contents(&self) -> Contents {
            Contents { items: 0, used_bytes: 0, data_bytes: None }
        }
    }

    #[test]
    fn gets_fill_writes_store_and_wrong_values_are_seen() {
        let mut trace = trace(&[0, 0, 1, 0, 0, 1]);
        trace.requests[2].operation = Operation::Set;
        trace.requests[3].operation = Operation::Delete;
        let copies = Copies::from(trace);
        for (is_confused, wrong) in [(false, 0), (true, 2)] {
            let cache = Everything { is_confused, ..Everything::default() };
            let replay = Replay { trace: &copies, values: &Values::random(), threads: 1 };
            let done = replay.run(&cache, &|_| ());
            assert_eq!((done.tally.gets, done.tally.misses, done.wrong), (4, 2, wrong));
            assert_eq!(done.all_right().is_err(), is_confused);
        }
    }

    /// Regression: hits after contradictions in a trace were called corrupt: a CacheBench trace has
    /// a size of 0 where a get missed, and one of Twitter's an `add` that stored nothing.
    #[test]
    fn a_trace_that_contradicts_itself_is_no_corruption() {
        let mut trace = trace(&[0, 1, 0, 0, 1]);
        trace.requests[0].operation = Operation::Set;
        trace.requests[2].value_bytes = 0;
        trace.requests[3].value_bytes = 7;
        let copies = Copies::from(trace);
        for (is_confused, wrong) in [(false, 0), (true, 3)] {
            let cache = Everything { is_confused, ..Everything::default() };
            let replay = Replay { trace: &copies, values: &Values::random(), threads: 1 };
            let done = replay.run(&cache, &|_| ());
            assert_eq!((done.tally.gets, done.tally.misses, done.wrong), (4, 1, wrong));
        }
    }

    #[test]
    fn threads_share_the_work_without_losing_any() {
        let objects: Vec<u32> = (0..20_000).map(|step| step % 1_000).collect();
        let trace = Copies::from(trace(&objects));
        for threads in [1, 3] {
            let engine = Engine::new(16 << 20, larder::Policy::Clock).expect("a small cache");
            let replay = Replay { trace: &trace, values: &Values::random(), threads };
            let done = engine.maintained(|| replay.run(&engine, &|_| ()));
            assert_eq!((done.tally.gets, done.tally.misses), (20_000, 1_000));
            assert_eq!((done.wrong, done.refused, engine.contents().items), (0, 0, 1_000));
        }
    }
}
