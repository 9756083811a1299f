//! GD-Wheel (Li and Cox, "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores", EuroSys
//! 2015): the savings of a policy that knows the costs of items, and its own cost.
//!
//! The paper's text was not at hand when this was written. Known are its abstract, that of the
//! master's thesis behind it (Rice University, 2014), its summary figures and three of its
//! configurations of costs second-hand (`workload::costs`). So the experiments are named by what
//! they measure rather than as figures 7 to 15 and table 4, whose contents could not be looked up;
//! the other configurations are this tool's. Nothing was tuned to reach the paper's figures, and a
//! column says which are reached.
//!
//! ```text
//!   workloads --requests--> runs: each contender over them --Counts--> matrix: saved, hits, tail
//!                           Contender: a policy's model, or the engine with a policy
//! ```
//!
//! Models decide as their papers say and keep no values. The engine is crate `larder` in this
//! process; a further policy of the engine is one line in
//! [`EnginePolicy`](crate::replay::EnginePolicy), and all experiments then include it.

mod costs;
mod falsehood;
mod matrix;
mod partial;
mod real_trace;
mod runs;
mod sizes;
mod throughput;
mod workloads;

use super::Hears::{Rounds, Trace};
use super::{Experiment, Paper, claim, unknown};
use crate::report::bound::Bound::{self, AtLeast, AtMost, Within};

const QUOTED: &str = "the paper, second-hand";
const ABSTRACT: &str = "the paper's abstract";
/// No difference, in percent of the other's: neither more nor less.
const SAME: Bound = Within(99.9, 100.1);

/// The paper and its experiments.
pub const PAPER: Paper = Paper {
    name: "gd-wheel",
    citation: "GD-Wheel (Li and Cox, EuroSys 2015)",
    experiments: &[
        Experiment {
            name: "single-size",
            title: "cost, hits and read latency with values of one size",
            claims: &[
                claim("cost saved on average, %: wheels", "74", QUOTED).goal(AtLeast(74.0)),
                claim("cost saved at best, %: wheels", "90", ABSTRACT).goal(AtLeast(90.0)),
                claim("cost saved on average of gd-1 to gd-3, %: wheels", "74", QUOTED)
                    .goal(AtLeast(74.0)),
                claim("hits beside LRU's, points at most: wheels", "0.2", QUOTED).goal(AtMost(0.2)),
                claim("99th percentile saved on average, %: wheels", "69", QUOTED)
                    .goal(AtLeast(69.0)),
                claim("equal costs, cost beside LRU's, %: wheels", "no difference", QUOTED)
                    .goal(SAME),
                claim("cost saved on average, %: engine", "74", QUOTED).goal(AtLeast(74.0)),
                claim("cost saved at best, %: engine", "90", ABSTRACT).goal(AtLeast(90.0)),
                claim("cost saved on average of gd-1 to gd-3, %: engine", "74", QUOTED)
                    .goal(AtLeast(74.0)),
                claim("hits beside LRU's, points at most: engine", "0.2", QUOTED).goal(AtMost(0.2)),
                claim("99th percentile saved on average, %: engine", "69", QUOTED)
                    .goal(AtLeast(69.0)),
                claim("equal costs, cost beside LRU's, %: engine", "no difference", QUOTED)
                    .goal(SAME),
                claim("cost saved on average, %: engine, of its CLOCK's", "74", QUOTED)
                    .goal(AtLeast(74.0)),
                claim("cost saved at best, %: engine, of its CLOCK's", "90", ABSTRACT)
                    .goal(AtLeast(90.0)),
                claim(
                    "cost saved on average of gd-1 to gd-3, %: engine, of its CLOCK's",
                    "74",
                    QUOTED,
                )
                .goal(AtLeast(74.0)),
                claim("hits beside its CLOCK's, points at most: engine", "0.2", QUOTED)
                    .goal(AtMost(0.2)),
                claim("99th percentile saved on average, %: engine, of its CLOCK's", "69", QUOTED)
                    .goal(AtLeast(69.0)),
                claim("equal costs, cost beside its CLOCK's, %: engine", "no difference", QUOTED)
                    .goal(SAME),
            ],
            hears: &[Rounds],
            run: costs::single_size,
        },
        Experiment {
            name: "by-zipf",
            title: "single-size, but by Zipf's law over the keys instead of YCSB's",
            claims: &[
                unknown("cost saved on average, %: wheels"),
                unknown("cost saved at best, %: wheels"),
                unknown("cost saved on average of gd-1 to gd-3, %: wheels"),
                unknown("hits beside LRU's, points at most: wheels"),
                unknown("99th percentile saved on average, %: wheels"),
                unknown("equal costs, cost beside LRU's, %: wheels"),
                unknown("cost saved on average, %: engine"),
                unknown("cost saved at best, %: engine"),
                unknown("cost saved on average of gd-1 to gd-3, %: engine"),
                unknown("hits beside LRU's, points at most: engine"),
                unknown("99th percentile saved on average, %: engine"),
                unknown("equal costs, cost beside LRU's, %: engine"),
                unknown("cost saved on average, %: engine, of its CLOCK's"),
                unknown("cost saved at best, %: engine, of its CLOCK's"),
                unknown("cost saved on average of gd-1 to gd-3, %: engine, of its CLOCK's"),
                unknown("hits beside its CLOCK's, points at most: engine"),
                unknown("99th percentile saved on average, %: engine, of its CLOCK's"),
                unknown("equal costs, cost beside its CLOCK's, %: engine"),
            ],
            hears: &[Rounds],
            run: costs::by_zipf,
        },
        Experiment {
            name: "multiple-sizes",
            title: "cost, hits and read latency with values of many sizes, slabs moving",
            claims: &[
                claim("cost saved on average, %: engine", "68", QUOTED).goal(AtLeast(68.0)),
                claim("cost saved at best, %: engine", "79", QUOTED).goal(AtLeast(79.0)),
                unknown("99th percentile saved on average, %: engine"),
                unknown("cost saved on average against the engine with CLOCK, %"),
            ],
            hears: &[Rounds],
            run: costs::multiple_sizes,
        },
        Experiment {
            name: "sizes-of-cache",
            title: "what an operation takes over a tenfold range of sizes",
            claims: &[
                unknown("steps of an operation with ten times the items, x: priority queue"),
                unknown("steps of an operation with ten times the items, x: wheels"),
                unknown("time of an operation with ten times the items, x: priority queue"),
                unknown("time of an operation with ten times the items, x: wheels"),
            ],
            hears: &[Rounds],
            run: sizes::sizes_of_cache,
        },
        Experiment {
            name: "throughput",
            title: "requests of the engine by policy, in process",
            claims: &[
                claim("engine over itself with CLOCK, one thread, x", "0.90", QUOTED)
                    .goal(AtLeast(0.9)),
                claim("engine over itself with CLOCK, two threads, x", "0.90", QUOTED)
                    .goal(AtLeast(0.9)),
                claim("the same over a network, x", "0.98", QUOTED),
            ],
            hears: &[Rounds],
            run: throughput::throughput,
        },
        Experiment {
            name: "false-costs",
            title: "clients that claim enormous costs, and then read no more",
            claims: &[unknown(
                "evictions, in caches full, until half of what lied is gone: engine",
            )],
            hears: &[],
            run: falsehood::false_costs,
        },
        Experiment {
            name: "partial-costs",
            title: "costs that only some items have, and costs that change",
            claims: &[
                unknown("cost saved if half of the costs are known, %: engine"),
                unknown("the same of its CLOCK's, %: engine"),
            ],
            hears: &[Rounds],
            run: partial::partial_costs,
        },
        Experiment {
            name: "trace",
            title: "a trace with costs by groups of objects, in the engine",
            claims: &[
                // Runs of CLOCK differ by this much.
                unknown("most cost beside CLOCK's, x: engine").goal(AtMost(1.02)),
            ],
            hears: &[Rounds, Trace],
            run: real_trace::trace,
        },
    ],
};
