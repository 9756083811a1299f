//! Runs: a cache, either a policy's model or the engine, over the requests of a workload, and its
//! misses. A get that misses is followed by a set, as in `replay`.
//!
//! The engine's background keeps step with the stores. A thread would share the experiment's core,
//! and its progress at each store would be the scheduler's choice.

use crate::failure::{Failure, Outcome};
use crate::policies::kind::Kind;
use crate::policies::simulate::Tally;
use crate::policies::weight::Scale;
use crate::replay::EnginePolicy;
use crate::replay::cache::{Cache, Compared, Found, Item, Model};
use crate::replay::engine::Engine;
use crate::trace::{Operation, Request, Trace};
use crate::values::{self, ValueChoice, Values};

use super::workloads;

/// The policy of the engine's figures, where one policy stands for it.
pub const SUBJECT: EnginePolicy = EnginePolicy::CostClock;
/// The engine's approximate bytes per item besides key and value: a slot, a header, a chunk's rest.
pub const ENGINE_ITEM_BYTES: u64 = 26;
/// The seed of the values, which are only read for comparison.
const VALUE_SEED: u64 = 1;

/// A cache that takes part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Contender {
    /// A policy's model, with its scale.
    Model(Kind, Scale),
    /// The engine with a policy.
    Engine(EnginePolicy),
}

impl Contender {
    /// Returns its name.
    pub fn name(self) -> String {
        match self {
            Contender::Model(kind, _) => kind.to_string(),
            Contender::Engine(policy) => policy.title().to_owned(),
        }
    }

    /// Runs something with an empty cache of this room: on its scale for a model, bytes of memory
    /// for the engine.
    pub fn with<R>(
        self,
        room: u64,
        objects: u32,
        work: impl FnOnce(&mut Client) -> Outcome<R>,
    ) -> Outcome<R> {
        match self {
            Contender::Model(kind, scale) => {
                let model = Model::new(workloads::model(kind, scale, room, objects));
                work(&mut Client::new(&model, None))
            }
            Contender::Engine(policy) => {
                let engine = Contender::engine(policy, room)?;
                let values = ValueChoice::default().load(VALUE_SEED)?;
                engine.maintained(|| work(&mut Client::new(&engine, Some(values))))
            }
        }
    }

    /// Returns an empty engine whose background keeps step.
    fn engine(policy: EnginePolicy, memory: u64) -> Outcome<Engine> {
        Ok(Engine::new(memory, policy.policy())?.in_step())
    }

    /// Returns the number of useful runs of `rounds`: all runs of a model are the same, and the
    /// engine's hash is seeded anew in each.
    pub fn rounds(self, rounds: u64) -> u64 {
        if matches!(self, Contender::Model(..)) { 1 } else { rounds }
    }

    /// Counts its misses of the requests after the first `warm`; stores state the cost of `told`.
    pub fn run(
        self,
        room: u64,
        trace: &Trace,
        warm: usize,
        told: impl Fn(&Request) -> u32,
    ) -> Outcome<Counts> {
        self.with(room, trace.objects, |client| {
            let mut counts = Counts::default();
            for (position, request) in trace.requests.iter().enumerate() {
                let hit = client.ask(request, told(request))?;
                if let Some(hit) = hit
                    && position >= warm
                {
                    counts.count(hit, request.cost_us);
                }
            }
            counts.missed_us.sort_unstable();
            counts.items = client.cache.contents().items;
            Ok(counts)
        })
    }
}

/// A client that reads from a cache, and stores missing objects.
pub struct Client<'c> {
    /// The cache.
    pub cache: &'c dyn Cache,
    values: Option<Values>,
    key: Vec<u8>,
    value: Vec<u8>,
    position: u32,
}

impl<'c> Client<'c> {
    fn new(cache: &'c dyn Cache, values: Option<Values>) -> Client<'c> {
        Client { cache, values, key: Vec::new(), value: Vec::new(), position: 0 }
    }

    /// Makes a request; a store states the cost `told_us`. Returns whether a read hit.
    pub fn ask(&mut self, request: &Request, told_us: u32) -> Outcome<Option<bool>> {
        if let Some(values) = &self.values {
            values::write_key(request.object, request.key_bytes, &mut self.key);
            self.value.clear();
            values.append(request.object, request.value_bytes, &mut self.value);
        }
        let told = Request { cost_us: told_us, ..*request };
        let Client { cache, key, value, position, .. } = self;
        let compared = Compared::Whole;
        let item = Item { position: *position, request: &told, key, value, compared };
        *position = position.wrapping_add(1);
        match request.operation {
            Operation::Get => match cache.get(item) {
                Found::Hit => return Ok(Some(true)),
                Found::Miss => {
                    cache.set(item);
                    return Ok(Some(false));
                }
                Found::Wrong => {
                    return Err(Failure::Check("a hit returned another value".into()));
                }
            },
            Operation::Delete => cache.remove(item),
            _ => _ = cache.set(item),
        }
        Ok(None)
    }
}

/// The counts of a run.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Reads and their costs.
    pub tally: Tally,
    /// The cost of each miss, rising.
    pub missed_us: Vec<u32>,
    /// Items at the end.
    pub items: u64,
}

impl Counts {
    fn count(&mut self, hit: bool, cost_us: u32) {
        self.tally.count(hit, cost_us);
        if !hit {
            self.missed_us.push(cost_us);
        }
    }

    /// Returns hits in percent of the reads.
    pub fn hits_percent(&self) -> f64 {
        100.0 - 100.0 * self.tally.miss_ratio()
    }

    /// Returns the time that this share of the reads does not exceed, where a hit takes `hit_us`
    /// and a miss that and its cost, of which each unit is `unit_us`.
    pub fn latency_us(&self, share: f64, hit_us: f64, unit_us: f64) -> f64 {
        let gets = self.tally.gets;
        let rank = ((share * gets as f64).ceil() as u64).clamp(1, gets.max(1));
        let hits = gets - self.tally.misses;
        let missed = rank.checked_sub(hits + 1).and_then(|at| self.missed_us.get(at as usize));
        hit_us + missed.map_or(0.0, |cost| f64::from(*cost) * unit_us)
    }

    /// Returns the mean time of a read.
    pub fn latency_mean_us(&self, hit_us: f64, unit_us: f64) -> f64 {
        hit_us + self.tally.missed_cost_us as f64 * unit_us / self.tally.gets.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{Contender, Counts};
    use crate::policies::check::reads;
    use crate::policies::kind::Kind;
    use crate::policies::weight::Scale;
    use crate::replay::EnginePolicy;
    use crate::replay::cache::{Cache, Compared, Item};
    use crate::trace::Trace;

    fn counts(costs: &[u32], hits: u32) -> Counts {
        let mut counts = Counts::default();
        costs.iter().for_each(|cost| counts.count(false, *cost));
        (0..hits).for_each(|_| counts.count(true, 50));
        counts
    }

    #[test]
    fn percentiles_are_of_hits_first_and_then_of_misses_by_cost() {
        let counts = counts(&[10, 20, 30], 7);
        let latency = |share| counts.latency_us(share, 100.0, 2.0);
        assert_eq!(
            [0.01, 0.7, 0.71, 0.8, 0.9, 1.0].map(latency),
            [100.0, 100.0, 120.0, 120.0, 140.0, 160.0]
        );
        assert_eq!(counts.latency_mean_us(100.0, 2.0), 112.0);
        assert_eq!(self::counts(&[], 3).latency_us(0.99, 100.0, 2.0), 100.0);
    }

    #[test]
    fn hits_are_a_share_of_the_reads() {
        assert_eq!(counts(&[10, 15], 2).hits_percent(), 50.0);
    }

    #[test]
    fn the_engines_background_keeps_step() {
        let engine = Contender::engine(EnginePolicy::Clock, 8 << 20).expect("a small cache");
        let (request, value) = (reads(&[0])[0], [7; 256]);
        for number in 0..=16 * 4_000_u32 {
            let (key, compared) = (number.to_le_bytes(), Compared::Whole);
            let item = Item { position: 0, request: &request, key: &key, value: &value, compared };
            engine.set(item);
        }
        assert!(!engine.cache().maintain(), "nobody else works for it");
        assert_eq!(Contender::Engine(EnginePolicy::Clock).rounds(5), 5);
        assert_eq!(Contender::Model(Kind::Lru, Scale::Objects).rounds(5), 1);
    }

    #[test]
    fn a_model_and_the_engine_count_the_same_requests() {
        let objects: Vec<u32> = (0..4_000).map(|step| step * step % 500).collect();
        let mut requests = reads(&objects);
        for request in &mut requests {
            (request.key_bytes, request.value_bytes) = (16, 100);
            request.cost_us = request.object;
        }
        let trace = Trace { name: "t".into(), requests, objects: 500 };
        let all = |contender: Contender, room| {
            let counts = contender.run(room, &trace, 2_000, |request| request.cost_us);
            let counts = counts.expect("no value is wrong");
            (counts.tally, counts.missed_us)
        };
        let model = all(Contender::Model(Kind::Lru, Scale::Objects), 500);
        assert_eq!(model.0.gets, 2_000);
        assert_eq!(model, all(Contender::Engine(EnginePolicy::CostClock), 8 << 20));
    }
}
