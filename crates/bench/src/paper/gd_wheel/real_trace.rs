//! A trace of real requests with costs by groups of objects, in the engine: with costs it must
//! never pay more than with CLOCK.

use clap::ValueEnum;

use crate::failure::Outcome;
use crate::paper::{Findings, Scale, table};
use crate::replay::EnginePolicy;
use crate::report::Spread;
use crate::report::model::Cell;
use crate::trace::Trace;
use crate::values;
use crate::workload::sizes::SizeChoice;

use super::runs::{Contender, Counts, SUBJECT};
use super::workloads;

/// The size of every value, whatever the trace says.
const SIZE: SizeChoice = SizeChoice::Fixed(256);
const COSTS: [&str; 2] = ["gd-1", "own-steep"];
/// Memory, in hundredths of all keys and values.
const MEMORY_PERCENT: [u64; 5] = [5, 10, 25, 50, 75];
/// The least memory that the engine works with.
const MEMORY_MIN: u64 = 4 << 20;
/// The most runs of each kind: they differ only in how keys are hashed.
const ROUNDS_MAX: u64 = 3;

/// Measures the cost with the engine's policies beside CLOCK, by memory.
pub fn trace(scale: &Scale) -> Outcome<Findings> {
    let Some(requests) = &scale.trace else {
        return Ok(Findings {
            beside: vec![Cell::Nothing],
            text: vec!["Not run: no trace was given with --trace.".into()],
            ..Findings::default()
        });
    };
    let mut trace = requests.read_filled()?;
    let rounds = scale.rounds.min(ROUNDS_MAX);
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for costs in COSTS {
        workloads::price(&mut trace, &SIZE, costs, scale.seed)?;
        for memory in memories(&trace) {
            let clock = runs(EnginePolicy::Clock, memory, &trace, rounds)?;
            for policy in EnginePolicy::value_variants() {
                let own = match policy {
                    EnginePolicy::Clock => clock.clone(),
                    _ => runs(*policy, memory, &trace, rounds)?,
                };
                let paid = paid(&own, &clock);
                if *policy == SUBJECT {
                    ratios.push(paid.median);
                }
                rows.push(row(costs, memory, *policy, &own, paid));
            }
        }
    }
    let most = ratios.into_iter().fold(0.0, f64::max);
    let columns = ["costs", "memory, MiB", "cache", "items", "hits, %", "paid of CLOCK's, x"];
    Ok(Findings {
        beside: vec![Cell::number(most, 3)],
        text: vec![format!(
            "{}: {} requests for {} objects, values of 256 bytes, costs by object, nothing left \
             out for warming. What is paid is given beside the mean of CLOCK's {rounds} runs, with \
             the range of all runs: CLOCK's own rows show the noise.",
            trace.name,
            trace.requests.len(),
            trace.objects
        )],
        tables: vec![table("gd-wheel-trace", &columns, rows)],
        plots: Vec::new(),
    })
}

/// Returns memory limits, rising, without those too small for the engine.
fn memories(trace: &Trace) -> Vec<u64> {
    let data_bytes = values::data_bytes(&trace.requests, trace.objects);
    let limits = MEMORY_PERCENT.map(|percent| (data_bytes * percent / 100).max(MEMORY_MIN));
    let mut limits = limits.to_vec();
    limits.dedup();
    limits
}

fn runs(policy: EnginePolicy, memory: u64, trace: &Trace, rounds: u64) -> Outcome<Vec<Counts>> {
    let contender = Contender::Engine(policy);
    (0..rounds).map(|_| contender.run(memory, trace, 0, |request| request.cost_us)).collect()
}

/// Returns the costs of runs as multiples of the mean of others.
fn paid(own: &[Counts], others: &[Counts]) -> Spread {
    let cost = |counts: &Counts| counts.tally.missed_cost_us as f64;
    let mean = others.iter().map(cost).sum::<f64>() / others.len() as f64;
    Spread::of(own.iter().map(|counts| cost(counts) / mean))
}

fn row(costs: &str, memory: u64, policy: EnginePolicy, own: &[Counts], paid: Spread) -> Vec<Cell> {
    vec![
        Cell::text(costs),
        Cell::number(memory as f64 / f64::from(1 << 20), 2),
        Cell::text(policy.title()),
        Cell::number(Spread::of(own.iter().map(|counts| counts.items as f64)).median, 0),
        Cell::number(Spread::of(own.iter().map(Counts::hits_percent)).median, 2),
        Cell::spread(paid, 3),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Counts, paid};

    #[test]
    fn paid_costs_are_multiples_of_the_others_mean() {
        let run = |missed_cost_us| {
            let mut counts = Counts::default();
            counts.tally.missed_cost_us = missed_cost_us;
            counts
        };
        let found = paid(&[run(10), run(30)], &[run(15), run(25)]);
        assert_eq!((found.min, found.median, found.max), (0.5, 1.0, 1.5));
    }
}
