//! The savings of cost-aware policies, in every configuration of costs.
//!
//! `cargo test -p larder-bench cost_check -- --nocapture` prints a table: LRU's misses, the share
//! of LRU's cost that GreedyDual saves, and the share of that saving that each other policy
//! reaches. Where all costs are the same there is nothing to save, and the table shows LRU's cost
//! as a share of the policy's.
//!
//! Items of one size count as objects. In the three configurations of several sizes they count in
//! bytes, with the same overhead for all policies.

use clap::{Args, Command, FromArgMatches};

use super::check::setting;
use super::kind::Kind;
use super::simulate::{Simulation, Tally};
use super::weight::{BASE_BYTES, Scale};
use crate::trace::Trace;
use crate::workload::Spec;

const CONFIGURATIONS: [&str; 13] = [
    "gd-1",
    "gd-2",
    "gd-3",
    "own-same",
    "own-two",
    "own-rare",
    "own-mild",
    "own-steep",
    "own-even",
    "own-inverse",
    "own-sizes-any",
    "own-sizes-grow",
    "own-sizes-shrink",
];
const OTHERS: [Kind; 4] = [Kind::GdWheel, Kind::GdWheelLazy, Kind::CostClock, Kind::Clock];
const SEEDS: u64 = 2;
/// The share of all objects that fits: LRU hits 95 %.
const ROOM: f64 = 0.73;
/// The least share of GreedyDual's saving that a policy without lists has to reach.
const SHARE_MIN: f64 = 0.95;

fn trace(costs: &str, seed: u64) -> Trace {
    let sizes = if costs.contains("sizes") { "log-uniform:64..1024" } else { "fixed:256" };
    let arguments = format!(
        "--keys 5000 --requests 400000 --key-bytes 16 --sizes {sizes} --costs {costs} --seed {seed}"
    );
    let command = Spec::augment_args(Command::new("spec").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments.split_whitespace());
    let spec = Spec::from_arg_matches(&matches.expect("the arguments are right"));
    spec.expect("they are").generate().expect("no file is needed")
}

/// Counts the second half of the requests.
fn tally(kind: Kind, trace: &Trace, scale: Scale) -> Tally {
    let mut weights = vec![0; trace.objects as usize];
    for request in &trace.requests {
        weights[request.object as usize] = u64::from(scale.weigh(request));
    }
    let capacity = (weights.iter().sum::<u64>() as f64 * ROOM) as u64;
    let policy = kind.build(&setting(capacity, trace.objects, &[]));
    let mut simulation = Simulation::new(policy, scale, capacity, trace.objects);
    let (warm, counted) = trace.requests.split_at(trace.requests.len() / 2);
    simulation.run(warm, |_| ());
    simulation.run(counted, |_| ())
}

#[test]
fn policies_without_lists_save_what_greedy_dual_saves() {
    println!("| costs | LRU misses | GreedyDual saves | {OTHERS:?} |");
    for name in CONFIGURATIONS {
        let scale = if name.contains("sizes") { Scale::Bytes(BASE_BYTES) } else { Scale::Objects };
        let mut lru = Tally::default();
        let mut best = Tally::default();
        let mut others = [Tally::default(); OTHERS.len()];
        for seed in 1..=SEEDS {
            let trace = trace(name, seed);
            lru += tally(Kind::Lru, &trace, scale);
            best += tally(Kind::GdPq, &trace, scale);
            for (sum, kind) in others.iter_mut().zip(OTHERS) {
                *sum += tally(kind, &trace, scale);
            }
        }
        let saved = |tally: &Tally| 1.0 - tally.missed_cost_us as f64 / lru.missed_cost_us as f64;
        let share = |tally: &Tally| {
            if name == "own-same" {
                (1.0 - saved(tally)).recip()
            } else {
                saved(tally) / saved(&best)
            }
        };
        let shares = others.each_ref().map(share);
        let [wheel, lazy, credit, _] = shares;
        let cells = shares.map(|share| format!("{:.1} %", 100.0 * share)).join(" | ");
        let (misses, saved) = (100.0 * lru.miss_ratio(), 100.0 * saved(&best));
        println!("| `{name}` | {misses:.1} % | {saved:.1} % | {cells} |");
        assert!((wheel - 1.0).abs() < 1e-9, "{name}: the wheels decide as the queue");
        assert!(lazy > SHARE_MIN && credit > SHARE_MIN, "{name}: {lazy} {credit}");
    }
}
