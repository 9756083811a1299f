//! Requests of the engine with each of its policies, in process, with one thread and with two.

use clap::ValueEnum;
use larder::{Attributes, Cache, Condition};

use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{Together, in_rounds, maintained, together};
use crate::paper::rounds::{Rounds, cpu, wall};
use crate::paper::{Findings, Scale};
use crate::policies::weight;
use crate::replay::EnginePolicy;
use crate::replay::engine::Engine;
use crate::report::model::{Axis, Cell};
use crate::trace::Trace;
use crate::workload::popularity;
use crate::workload::sizes::SizeChoice;

use super::runs::{ENGINE_ITEM_BYTES, SUBJECT};
use super::workloads;

const COSTS: &str = "gd-1";
const VALUE_BYTES: usize = 256;
const THREADS: [usize; 2] = [1, 2];
/// Requests of each thread and round.
const REQUESTS_MAX: usize = 1_000_000;

type Key = [u8; 16];

/// Each policy with one thread and with two.
pub fn throughput(scale: &Scale) -> Outcome<Findings> {
    let keys = workloads::keys(scale);
    let sizes = SizeChoice::Fixed(VALUE_BYTES as u32);
    let mut trace = workloads::requests(keys, popularity::Choice::Zipfian, &sizes, scale.seed)?;
    workloads::price(&mut trace, &sizes, COSTS, scale.seed)?;
    let items = workloads::room(&trace, weight::Scale::Objects);
    let memory = items * ((size_of::<Key>() + VALUE_BYTES) as u64 + ENGINE_ITEM_BYTES);
    let costs = costs(&trace);
    let policies = EnginePolicy::value_variants();
    let engines = policies.iter().map(|policy| Engine::new(memory, policy.policy()));
    let engines: Vec<Engine> = engines.collect::<Outcome<_>>()?;
    let requests = (keys as usize * 10).min(REQUESTS_MAX);
    let drawn =
        |thread: u64| draw(Choice::Zipfian, costs.len() as u64, requests, scale.seed + thread);
    let asked: Vec<Vec<u32>> = (0..THREADS.len() as u64).map(drawn).collect();
    for engine in &engines {
        let cache = engine.cache();
        let fill = || asked.iter().for_each(|asked| _ = ask(cache, asked, &costs));
        maintained(&scale.cores, cache, fill)?;
    }
    let kinds: Vec<(usize, usize)> = THREADS
        .iter()
        .flat_map(|threads| (0..engines.len()).map(|engine| (engine, *threads)))
        .collect();
    let found = in_rounds(scale.rounds, kinds.len(), |which| {
        let (cache, threads) = (engines[kinds[which].0].cache(), kinds[which].1);
        let work = |thread: usize| ask(cache, &asked[thread], &costs);
        maintained(&scale.cores, cache, || together(&scale.cores, threads, work))?.0
    })?;
    if engines.iter().any(|engine| engine.cache().stats().evicted == 0) {
        return Err(Failure::Check("a cache that shall be full evicted nothing".into()));
    }
    Ok(findings(&kinds, &found, keys, memory))
}

/// What each object costs.
fn costs(trace: &Trace) -> Vec<u32> {
    let mut costs = vec![0; trace.objects as usize];
    for request in &trace.requests {
        costs[request.object as usize] = request.cost_us;
    }
    costs
}

/// Reads each key, and stores what is missing; returns how many requests that were.
fn ask(cache: &Cache, asked: &[u32], costs: &[u32]) -> usize {
    let value = [7; VALUE_BYTES];
    for object in asked {
        let mut key: Key = *b"obj:############";
        key[8..].copy_from_slice(&u64::from(*object).to_le_bytes());
        let hit = cache.session().get(&key, cache.hash(&key)).is_some();
        if !hit {
            let cost_us = costs[*object as usize];
            let attributes = Attributes { cost_us, ..Attributes::default() };
            // A refusal leaves the value out, as the next read finds.
            let _ = cache.put(&key, &value, attributes, Condition::Always);
        }
    }
    asked.len()
}

fn findings(kinds: &[(usize, usize)], found: &[Vec<Together>], keys: u64, memory: u64) -> Findings {
    let policies = EnginePolicy::value_variants();
    let names: Vec<&str> = policies.iter().map(|policy| policy.title()).collect();
    let rounds = Rounds { name: "gd-wheel-throughput", subjects: &names, kinds, found };
    let place = |wanted: EnginePolicy, threads: usize| {
        let engine = policies.iter().position(|policy| *policy == wanted);
        let wanted = (engine.expect("the engine has this policy"), threads);
        kinds.iter().position(|kind| *kind == wanted).expect("it was measured")
    };
    let over =
        |threads| rounds.over(place(SUBJECT, threads), place(EnginePolicy::Clock, threads), cpu);
    let mut beside: Vec<Cell> =
        THREADS.iter().map(|threads| Cell::spread(over(*threads), 3)).collect();
    beside.push(Cell::text("not measured in process: see larder-bench load"));
    let columns = ["cache", "threads", "M requests / s", "M requests / CPU s"];
    let axes = (Axis::linear("threads"), Axis::linear("million requests / s"));
    let title = "Requests of the engine by policy, in process";
    Findings {
        beside,
        text: vec![format!(
            "{keys} keys, values of {VALUE_BYTES} bytes, costs of {COSTS}, {memory} bytes of \
             memory, about 95 % of the reads hit and a miss is stored with its cost; a session a \
             read. A thread does the background's work, on the last core. Ratios are of requests a \
             CPU second of the asking threads, which other work on the machine disturbs less. \
             Informative: times of one machine."
        )],
        tables: vec![rounds.table(&columns)],
        plots: vec![rounds.plot(title, axes, wall, |threads| threads as f64)],
    }
}
