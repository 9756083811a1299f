//! Costs known for only some items, and costs that change while items are in the cache.
//!
//! The stated cost then differs from the cost of a miss. An unknown cost is 0: the models of
//! GreedyDual take it for 1, so that items of unknown cost leave first, costly or not.

use crate::failure::Outcome;
use crate::paper::{Findings, Scale};
use crate::policies::weight;
use crate::random::Random;
use crate::trace::{Request, Trace};
use crate::workload::popularity::Choice;
use crate::workload::sizes::SizeChoice;

use super::costs::{Entry, engines, entries};
use super::matrix::{Column, Matrix, cell};
use super::runs::SUBJECT;
use super::workloads;

const SIZE: SizeChoice = SizeChoice::Fixed(256);
const COSTS: [&str; 2] = ["gd-1", "own-steep"];
/// Objects of a hundred whose cost is known.
const KNOWN: [u64; 6] = [100, 90, 50, 10, 1, 0];
/// The cost stated by all stores in the last rows.
const CLAIMED_US: u32 = u32::MAX;
/// The share that the claim is about.
const HALF: u64 = 50;

/// Measures by the share of known costs, and with costs drawn anew once the cache is warm.
pub fn partial_costs(scale: &Scale) -> Outcome<Findings> {
    let keys = workloads::keys(scale);
    let mut trace = workloads::requests(keys, Choice::Zipfian, &SIZE, scale.seed)?;
    let room = workloads::room(&trace, weight::Scale::Objects);
    let (entries, _) = entries(&trace, room, scale.rounds)?;
    let mut columns: Vec<Column> = entries.iter().map(Entry::column).collect();
    let mut rows = Vec::new();
    let mut add = |name: String, trace: &Trace, told: &dyn Fn(&Request) -> u32| -> Outcome<()> {
        rows.push(name);
        for (entry, column) in entries.iter().zip(&mut columns) {
            column.runs.push(entry.runs(trace, scale.rounds, told)?);
        }
        Ok(())
    };
    for costs in COSTS {
        workloads::price(&mut trace, &SIZE, costs, scale.seed)?;
        for known in KNOWN {
            let told = |request: &Request| told_us(request, known, scale.seed);
            add(format!("{costs}, {known} % known"), &trace, &told)?;
        }
        add(format!("{costs}, all claim the most"), &trace, &|_| CLAIMED_US)?;
        change(&mut trace, costs, scale.seed + 1)?;
        add(format!("{costs}, drawn anew"), &trace, &|request| request.cost_us)?;
    }
    let half = KNOWN.iter().position(|known| *known == HALF).expect("it is among them");
    let matrix = Matrix { rows, columns, left_out: None };
    let saved = |matrix: &Matrix| cell(&matrix.saved(matrix.column(SUBJECT.title()), half), 2);
    let mut beside = vec![saved(&matrix)];
    let mut tables = vec![
        matrix.table("gd-wheel-partial-saved", Matrix::saved),
        matrix.table("gd-wheel-partial-points", Matrix::points),
    ];
    let engines = matrix.among(&engines());
    beside.push(saved(&engines));
    tables.insert(1, engines.table("gd-wheel-partial-saved-of-clock", Matrix::saved));
    Ok(Findings {
        beside,
        text: vec![format!(
            "As in single-size, with {keys} keys. The first rows say of how many of a hundred \
             objects stores tell the cost; of the others nothing is known. With `all claim the \
             most` every store says {CLAIMED_US} microseconds. With `drawn anew` each object gets \
             another cost of the same configuration when the counting begins, and what is in the \
             cache keeps the one that it was stored with. All of it is paid for at the true cost. \
             The engine's figures are medians of {} runs, with (min..max); the second table has \
             them beside the engine with CLOCK in the same memory.",
            scale.rounds
        )],
        tables,
        plots: Vec::new(),
    })
}

/// Returns the cost that a store states.
fn told_us(request: &Request, known: u64, seed: u64) -> u32 {
    let word = Random::new(seed ^ u64::from(request.object)).below(100);
    if word < known { request.cost_us } else { 0 }
}

/// Gives all requests after the warming costs from another seed.
fn change(trace: &mut Trace, costs: &str, seed: u64) -> Outcome<()> {
    let mut other = trace.clone();
    workloads::price(&mut other, &SIZE, costs, seed)?;
    let warm = workloads::warm(trace);
    trace.requests.truncate(warm);
    trace.requests.extend_from_slice(&other.requests[warm..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SIZE, change, told_us};
    use crate::paper::gd_wheel::workloads::{price, requests, warm};
    use crate::workload::popularity::Choice;

    #[test]
    fn as_many_costs_are_known_as_are_to_be_and_of_the_same_objects() {
        let mut trace = requests(2_000, Choice::Zipfian, &SIZE, 1).expect("no file is needed");
        price(&mut trace, &SIZE, "gd-1", 1).expect("no file is needed");
        let mut known = vec![None; trace.objects as usize];
        for request in &trace.requests {
            let told = told_us(request, 50, 1);
            let before = known[request.object as usize].replace(told);
            assert!(before.is_none_or(|before| before == told));
            assert!(told == 0 || told == request.cost_us);
        }
        let count = known.iter().flatten().filter(|told| **told > 0).count();
        // Six standard deviations of a binomial count.
        assert!(count.abs_diff(known.len() / 2) < 140, "{count} of {}", known.len());
    }

    #[test]
    fn costs_change_when_the_counting_begins() {
        let mut trace = requests(2_000, Choice::Zipfian, &SIZE, 1).expect("no file is needed");
        price(&mut trace, &SIZE, "gd-1", 1).expect("no file is needed");
        let before = trace.clone();
        change(&mut trace, "gd-1", 2).expect("no file is needed");
        let warm = warm(&trace);
        assert_eq!(trace.requests[..warm], before.requests[..warm]);
        assert_eq!(trace.requests.len(), before.requests.len());
        assert_ne!(trace.requests[warm..], before.requests[warm..]);
    }
}
