//! The workloads: reads of keys of 16 bytes by YCSB's zipfian, and the thirteen configurations of
//! costs.
//!
//! ```text
//!   load: each key once  |  reads that warm  |  as many that are counted
//! ```
//!
//! YCSB's zipfian, with which the paper's experiments were run, is [`Choice::Scrambled`]: so much
//! of it is uniform that 95 % hits need room for nine tenths of the keys. The possible saving
//! depends on that: there is room for all costly items. By Zipf's law over the keys themselves
//! ([`Choice::Zipfian`]) two thirds of the keys suffice, and then some of the costly ones have to
//! leave too; the experiment `by-zipf` has that.
//!
//! Keys are loaded before anything is read, as in YCSB. Otherwise a third of LRU's misses would be
//! first reads, which no policy can save.
//!
//! Popularity does not depend on sizes and costs, so all workloads of an experiment have the same
//! requests, and LRU the same hits in each of them.

use std::sync::Arc;

use crate::failure::Outcome;
use crate::paper::Scale;
use crate::policies::kind::{Kind, Setting};
use crate::policies::simulate::Simulation;
use crate::policies::weight;
use crate::trace::{Request, Trace};
use crate::workload::popularity::{Choice, SPREAD};
use crate::workload::sizes::SizeChoice;
use crate::workload::{Spec, attach};

/// Costs with values of one size.
pub const SINGLE: [&str; 10] = [
    "gd-1",
    "gd-2",
    "gd-3",
    "own-two",
    "own-rare",
    "own-mild",
    "own-steep",
    "own-even",
    "own-inverse",
    SAME,
];
/// Equal costs, with which there is nothing to save.
pub const SAME: &str = "own-same";
/// Costs with values of many sizes.
pub const MULTIPLE: [&str; 3] = ["own-sizes-any", "own-sizes-grow", "own-sizes-shrink"];

/// Keys at a scale of 1, and at least: the engine needs some slabs to work with.
const KEYS: u64 = 2_000_000;
const KEYS_MIN: u64 = 20_000;
/// Reads per key after the load; the first half only warms the cache.
const REQUESTS_PER_KEY: u64 = 20;
/// The step through the objects while they are loaded: a prime greater than their number, so that
/// it is coprime to it, and popular objects, which have low numbers, do not come first.
const LOAD_STEP: u64 = SPREAD;
const SKEW: f64 = 0.99;
const KEY_BYTES: u16 = 16;
/// LRU's target hit ratio.
pub const LRU_HITS: f64 = 0.95;
/// Halvings of the range in the search for a room.
const HALVINGS: u32 = 12;

/// Returns the number of keys at this scale.
pub fn keys(scale: &Scale) -> u64 {
    (scale.items(KEYS) as u64).max(KEYS_MIN)
}

/// Returns requests without costs: a read of each object that is ever read, and then all others.
pub fn requests(keys: u64, choice: Choice, sizes: &SizeChoice, seed: u64) -> Outcome<Trace> {
    let spec = Spec {
        keys,
        requests: keys * REQUESTS_PER_KEY,
        choice,
        skew: SKEW,
        get_share: 1.0,
        sizes: sizes.clone(),
        key_bytes: KEY_BYTES,
        costs: "none".parse().expect("it is a choice"),
        rate: 100_000,
        ttl_s: 0,
        fill_misses: true,
        seed,
    };
    let mut trace = spec.generate()?;
    let mut bodies = vec![Request::default(); trace.objects as usize];
    for request in &trace.requests {
        bodies[request.object as usize] = Request { time_s: 0, ..*request };
    }
    let objects = u64::from(trace.objects);
    let load = (0..objects).map(|step| bodies[(step * LOAD_STEP % objects) as usize]);
    trace.requests = load.chain(trace.requests).collect();
    Ok(trace)
}

/// Gives a trace the costs of a configuration.
pub fn price(trace: &mut Trace, sizes: &SizeChoice, costs: &str, seed: u64) -> Outcome<()> {
    let costs: crate::workload::costs::CostChoice = costs.parse().expect("it is a configuration");
    attach(trace, &sizes.load(KEY_BYTES)?, &costs.costs(), seed);
    Ok(())
}

/// Returns the end of the warming.
pub fn warm(trace: &Trace) -> usize {
    let loads = trace.objects as usize;
    loads + (trace.requests.len() - loads) / 2
}

/// Returns the least room on this scale in which LRU, once warm, reaches its target.
pub fn room(trace: &Trace, scale: weight::Scale) -> u64 {
    let mut weights = vec![0; trace.objects as usize];
    for request in &trace.requests {
        weights[request.object as usize] = u64::from(scale.weigh(request));
    }
    let (mut low, mut high) = (1_u64, weights.iter().sum::<u64>().max(2));
    for _ in 0..HALVINGS {
        let middle = low.midpoint(high);
        if lru_hits(trace, scale, middle) < LRU_HITS { low = middle } else { high = middle }
    }
    high
}

fn lru_hits(trace: &Trace, scale: weight::Scale, capacity: u64) -> f64 {
    let mut simulation = model(Kind::Lru, scale, capacity, trace.objects);
    let (warm, counted) = trace.requests.split_at(warm(trace));
    simulation.run(warm, |_| ());
    1.0 - simulation.run(counted, |_| ()).miss_ratio()
}

/// Returns an empty model of a policy that does not know the future.
pub fn model(kind: Kind, scale: weight::Scale, capacity: u64, objects: u32) -> Simulation {
    let setting = Setting { capacity, objects, items: capacity, next_uses: Arc::from([]) };
    Simulation::new(kind.build(&setting), scale, capacity, objects)
}

/// Returns the bytes of a request's key and value.
pub fn data_bytes(request: &Request) -> u64 {
    u64::from(request.key_bytes) + u64::from(request.value_bytes)
}

#[cfg(test)]
mod tests {
    use super::{Choice, LRU_HITS, MULTIPLE, SAME, SINGLE, lru_hits, price, requests, room};
    use crate::policies::weight::Scale;

    #[test]
    fn lru_hits_what_it_shall_in_the_room_that_is_found() {
        let sizes = "fixed:256".parse().expect("it is a choice");
        let trace = requests(5_000, Choice::Scrambled, &sizes, 1).expect("no file is needed");
        let found = room(&trace, Scale::Objects);
        let hits = lru_hits(&trace, Scale::Objects, found);
        assert!((0.0..0.002).contains(&(hits - LRU_HITS)), "{hits} in {found}");
    }

    #[test]
    fn every_object_is_loaded_once_before_it_is_read() {
        let sizes = "fixed:256".parse().expect("it is a choice");
        let trace = requests(1_000, Choice::Scrambled, &sizes, 1).expect("no file is needed");
        let loads = trace.objects as usize;
        assert_eq!(trace.requests.len(), loads + 20_000);
        let mut loaded: Vec<u32> = trace.requests[..loads].iter().map(|one| one.object).collect();
        loaded.sort_unstable();
        assert!(loaded.into_iter().eq(0..trace.objects));
        assert_eq!(super::warm(&trace), loads + 10_000);
    }

    #[test]
    fn costs_change_and_requests_do_not() {
        let sizes = "log-uniform:64..1024".parse().expect("it is a choice");
        let plain = requests(500, Choice::Scrambled, &sizes, 1).expect("no file is needed");
        for costs in SINGLE.iter().chain(&MULTIPLE) {
            let mut trace = plain.clone();
            price(&mut trace, &sizes, costs, 1).expect("no file is needed");
            let mut seen: Vec<u32> = trace.requests.iter().map(|one| one.cost_us).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len() == 1, *costs == SAME, "{costs}");
            trace.requests.iter_mut().for_each(|request| request.cost_us = 0);
            assert_eq!(trace.requests, plain.requests, "{costs}");
        }
    }
}
