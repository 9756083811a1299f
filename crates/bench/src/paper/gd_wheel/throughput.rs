//! Requests of the engine with each of its policies, in process, with one thread and with two.

use std::sync::atomic::{AtomicUsize, Ordering};

use clap::ValueEnum;
use larder::{Attributes, Cache, Condition};
use policy::gd_wheel::Link;

use crate::drive::choice::{Choice, draw};
use crate::failure::{Failure, Outcome};
use crate::paper::measure::{Together, in_rounds, maintained, ratio, together, waits};
use crate::paper::rounds::{Rounds, cpu, wall};
use crate::paper::{Findings, Scale, table};
use crate::policies::weight;
use crate::replay::EnginePolicy;
use crate::replay::engine::Engine;
use crate::report::Spread;
use crate::report::model::{Axis, Cell, Table};
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
/// Bytes that GD-Wheel keeps for each item and CLOCK does not.
const LINK_BYTES: u64 = size_of::<Link>() as u64;

type Key = [u8; 16];

/// Measures each policy with one thread and with two.
pub fn throughput(scale: &Scale) -> Outcome<Findings> {
    let keys = workloads::keys(scale);
    let sizes = SizeChoice::Fixed(VALUE_BYTES as u32);
    let mut trace = workloads::requests(keys, popularity::Choice::Zipfian, &sizes, scale.seed)?;
    workloads::price(&mut trace, &sizes, COSTS, scale.seed)?;
    let items = workloads::room(&trace, weight::Scale::Objects);
    let memory = items * ((size_of::<Key>() + VALUE_BYTES) as u64 + ENGINE_ITEM_BYTES);
    let costs = costs(&trace);
    let subjects = subjects();
    let engine = |subject: &Subject| {
        Engine::new(memory + items * subject.more_item_bytes, subject.policy.policy())
    };
    let engines: Vec<Engine> = subjects.iter().map(engine).collect::<Outcome<_>>()?;
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
        let (missed, waited) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |thread: usize| {
            let before = waits();
            missed.fetch_add(ask(cache, &asked[thread], &costs), Ordering::Relaxed);
            waited.fetch_add((waits() - before) as usize, Ordering::Relaxed);
            asked[thread].len()
        };
        let run = || together(&scale.cores, threads, work);
        let (together, background_s) = maintained(&scale.cores, cache, run)?;
        let together = together?;
        let (missed, waited) = (missed.into_inner() as f64, waited.into_inner() as f64);
        let seen = Seen {
            missed_percent: 100.0 * missed / (threads * requests) as f64,
            waits_per_thousand: 1000.0 * waited / missed,
            background_us: 1e6 * background_s / (threads * requests) as f64,
            both_us: both_us(&together, background_s, threads * requests),
        };
        Ok((together, seen))
    })?;
    if engines.iter().any(|engine| engine.cache().stats().evicted == 0) {
        return Err(Failure::Check("a cache that shall be full evicted nothing".into()));
    }
    let items: Vec<u64> = engines.iter().map(|engine| engine.cache().stats().items).collect();
    let (speeds, seen): (Vec<_>, Vec<_>) =
        found.into_iter().map(|rounds| rounds.into_iter().unzip()).unzip();
    let mut findings = findings(&subjects, &kinds, &speeds, keys, memory);
    findings.tables.push(what_was_seen(&subjects, &kinds, &seen, &items));
    Ok(findings)
}

/// An engine that takes part.
struct Subject {
    policy: EnginePolicy,
    /// Its additional memory, in bytes per item.
    more_item_bytes: u64,
    title: String,
}

/// Returns every policy, and GD-Wheel again with additional room for its links: its extra time
/// there is its own work, and the rest is due to the room its links take.
fn subjects() -> Vec<Subject> {
    let alike = EnginePolicy::value_variants().iter().map(|&policy| Subject {
        policy,
        more_item_bytes: 0,
        title: policy.title().to_owned(),
    });
    let policy = EnginePolicy::GdWheel;
    let title = format!("{}, and {LINK_BYTES} bytes an item", policy.title());
    alike.chain([Subject { policy, more_item_bytes: LINK_BYTES, title }]).collect()
}

/// Returns the cost of each object.
fn costs(trace: &Trace) -> Vec<u32> {
    let mut costs = vec![0; trace.objects as usize];
    for request in &trace.requests {
        costs[request.object as usize] = request.cost_us;
    }
    costs
}

/// Reads each key, and stores missing ones; returns their number.
fn ask(cache: &Cache, asked: &[u32], costs: &[u32]) -> usize {
    let (value, mut missed) = ([7; VALUE_BYTES], 0);
    for object in asked {
        let mut key: Key = *b"obj:############";
        key[8..].copy_from_slice(&u64::from(*object).to_le_bytes());
        let hit = cache.session().get(&key, cache.hash(&key)).is_some();
        if !hit {
            missed += 1;
            let cost_us = costs[*object as usize];
            let attributes = Attributes { cost_us, ..Attributes::default() };
            // A refusal leaves the value out, as the next read finds.
            let _ = cache.put(&key, &value, attributes, Condition::Always);
        }
    }
    missed
}

/// A round's figures besides its time.
#[derive(Debug, Clone, Copy)]
struct Seen {
    missed_percent: f64,
    /// How often a thread slept until another one had released a lock, per 1000 stores.
    waits_per_thousand: f64,
    /// CPU microseconds of the background per request.
    background_us: f64,
    /// CPU microseconds of the requesting threads and the background together, likewise.
    both_us: f64,
}

/// Returns the CPU microseconds per request, including the background's: evicting takes as much
/// time in the background as in the request.
fn both_us(together: &Together, background_s: f64, requests: usize) -> f64 {
    1.0 / together.millions_per_cpu_second + 1e6 * background_s / requests as f64
}

/// Describes misses and waits, and each engine's items at the end.
fn what_was_seen(
    subjects: &[Subject],
    kinds: &[(usize, usize)],
    seen: &[Vec<Seen>],
    items: &[u64],
) -> Table {
    let both_us = |which: usize| seen[which].iter().map(|seen| seen.both_us).collect::<Vec<_>>();
    let clock = |threads: usize| {
        let is_clock = |kind: &(usize, usize)| {
            subjects[kind.0].policy == EnginePolicy::Clock && kind.1 == threads
        };
        kinds.iter().position(is_clock).expect("the engine has this policy")
    };
    let rows = kinds.iter().enumerate().map(|(which, &(subject, threads))| {
        let seen = &seen[which];
        let spread = |value: fn(&Seen) -> f64| Cell::spread(Spread::of(seen.iter().map(value)), 2);
        vec![
            Cell::text(&subjects[subject].title),
            Cell::count(threads as u64),
            spread(|seen| seen.missed_percent),
            spread(|seen| seen.waits_per_thousand),
            Cell::count(items[subject]),
            Cell::spread(Spread::of(seen.iter().map(|seen| seen.background_us)), 3),
            // The ratio of requests in the same time of both is the inverse ratio of times.
            Cell::spread(ratio(&both_us(clock(threads)), &both_us(which)), 3),
        ]
    });
    let columns = [
        "cache",
        "threads",
        "missed %",
        "waits / 1000 stores",
        "items",
        "background, us / request",
        "with it, requests of CLOCK's, x",
    ];
    table("gd-wheel-throughput-seen", &columns, rows.collect())
}

fn findings(
    subjects: &[Subject],
    kinds: &[(usize, usize)],
    found: &[Vec<Together>],
    keys: u64,
    memory: u64,
) -> Findings {
    let names: Vec<&str> = subjects.iter().map(|subject| subject.title.as_str()).collect();
    let rounds = Rounds { name: "gd-wheel-throughput", subjects: &names, kinds, found };
    let place = |wanted: EnginePolicy, threads: usize| {
        let engine = subjects.iter().position(|subject| subject.policy == wanted);
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
             CPU second of the asking threads, which other work on the machine disturbs less; the \
             last table has the background's CPU time as well, and the ratio with it: part of an \
             eviction is its work. Informative: times of one machine."
        )],
        tables: vec![rounds.table(&columns)],
        plots: vec![rounds.plot(title, axes, wall, |threads| threads as f64)],
    }
}

#[cfg(test)]
mod tests {
    use super::{Together, both_us};

    #[test]
    fn the_backgrounds_time_is_part_of_a_request() {
        let together = Together { millions_per_second: 9.0, millions_per_cpu_second: 4.0 };
        assert_eq!(both_us(&together, 0.0, 1_000_000), 0.25);
        assert_eq!(both_us(&together, 0.5, 1_000_000), 0.75);
    }
}
