//! zExpander (Wu, Zhang, Wang, Ren, Hack and Jiang, "zExpander: a Key-Value Cache with both High
//! Performance and Fewer Misses", EuroSys 2016): the items that a compressed zone behind a hot one
//! keeps in the same memory, and the cost.
//!
//! Of the paper its abstract was at hand when this was written, and some of its summary figures
//! second-hand. The content of tables 1 and 2 and figures 5 to 16 could not be looked up, so the
//! experiments are named by what they measure. Nothing was tuned to reach the paper's figures, and
//! a column says which are reached.
//!
//! ```text
//!   data: keys and values --draw--> client: larder::Cache with one zone or both --Counts--> tables
//! ```
//!
//! The engine is crate `larder` in this process. Its hash is seeded anew in each run, so counts
//! differ a little from run to run. The paper's own two caches, memcached and a faster one, each
//! with a compressed zone and without, are here the engine with its hot zone alone, the engine with
//! both, and a model of memcached's LRU and memory.

mod adaptation;
mod client;
mod filters;
mod latency;
mod memory;
mod misses;
mod ratio;
mod splits;
mod throughput;

use super::Hears::{Rounds, Threads, Values};
use super::{Experiment, Paper, claim, data, unknown};
use crate::report::bound::Bound::{AtLeast, AtMost};

const ABSTRACT: &str = "the paper's abstract";
const QUOTED: &str = "the paper, second-hand";

/// The paper and its experiments.
pub const PAPER: Paper = Paper {
    name: "zexpander",
    citation: "zExpander (Wu and others, EuroSys 2016)",
    experiments: &[
        Experiment {
            name: "compression-ratio",
            title: "how far items compress by how many are compressed together",
            claims: &[
                unknown("ratio of items one by one: LZ4"),
                unknown("ratio of 2 KiB at a time: LZ4"),
                unknown("ratio of items one by one: zstd and a dictionary"),
                unknown("ratio of 1 KiB at a time: zstd and a dictionary"),
            ],
            hears: &[Values],
            run: ratio::compression_ratio,
        },
        Experiment {
            name: "memory",
            title: "where the memory goes, and what is kept in it",
            claims: &[
                claim("items, of memcached's at best, x: both zones, by price", "2", ABSTRACT)
                    .goal(AtLeast(2.0)),
                claim("items, of memcached's at best, x: both zones, target 0.9", "2", ABSTRACT)
                    .goal(AtLeast(2.0)),
                unknown("items, of the hot zone's alone, x: both zones, by price"),
                unknown("lost in slabs of the compressed zone, %"),
            ],
            hears: &[Values],
            run: memory::memory,
        },
        Experiment {
            name: "misses",
            title: "misses by memory, zipfian reads",
            claims: &[
                claim("fewer misses than memcached at best, %: by price", "46", ABSTRACT)
                    .goal(AtLeast(46.0)),
                claim("fewer misses than memcached at best, %: target 0.9", "46", ABSTRACT)
                    .goal(AtLeast(46.0)),
                claim("fewer misses than a faster cache's, %: by price", "36", ABSTRACT)
                    .goal(AtLeast(36.0)),
                claim("fewer misses than a faster cache's, %: target 0.9", "36", ABSTRACT)
                    .goal(AtLeast(36.0)),
            ],
            hears: &[Values],
            run: misses::misses,
        },
        Experiment {
            name: "throughput",
            title: "requests of the engine with a tenth of the reads compressed, in process",
            claims: &[
                claim(
                    "both zones over the hot one, x: all gets, one thread",
                    "0.85 to 0.90",
                    QUOTED,
                )
                .goal(AtLeast(0.9)),
                claim(
                    "both zones over the hot one, x: 95 % gets, one thread",
                    "0.85 to 0.90",
                    QUOTED,
                )
                .goal(AtLeast(0.9)),
                claim(
                    "both zones over the hot one, x: 50 % gets, one thread",
                    "0.85 to 0.90",
                    QUOTED,
                )
                .goal(AtLeast(0.9)),
                claim(
                    "both zones over the hot one, x: 95 % gets, all threads",
                    "0.85 to 0.90",
                    QUOTED,
                )
                .goal(AtLeast(0.9)),
                claim("M requests / s by YCSB, 24 threads there", "32", ABSTRACT),
                claim("both zones over the hot one over a network, x", "0.96", QUOTED),
            ],
            hears: &[Rounds, Threads, Values],
            run: throughput::throughput,
        },
        Experiment {
            name: "latency",
            title: "a read by where it is served, and a demotion",
            claims: &[
                unknown("a hit in the hot zone, median, us"),
                unknown("a hit in the compressed zone, median, us").goal(AtMost(3.0)),
                unknown("a hit in the compressed zone, 99 %, us"),
                unknown("a demotion, CPU us with all that follows from it").goal(AtMost(15.0)),
            ],
            hears: &[Values],
            run: latency::latency,
        },
        Experiment {
            name: "filters",
            title: "lookups of keys that are not there",
            claims: &[
                unknown("lookups of absent keys that decode nothing, %"),
                unknown("more requests through the filter at 75 % misses, %").goal(AtLeast(25.0)),
            ],
            hears: &[Rounds, Values],
            run: filters::filters,
        },
        Experiment {
            name: "adaptation",
            title: "the split when reads are uniform at first and zipfian then",
            claims: &[
                claim("hits served hot at the end, %: target 0.9", "90", QUOTED),
                unknown("windows after the change until within two points: target 0.9"),
                unknown("fewer misses than the hot zone alone at the end, %: by price"),
                unknown("fewer misses than the hot zone alone at the end, %: target 0.9"),
            ],
            hears: &[Values],
            run: adaptation::adaptation,
        },
        Experiment {
            name: "threshold",
            title: "a sweep of the share of hits that is to be served hot",
            claims: &[
                unknown("farthest from a target of 0.8 or more, points"),
                unknown("fewer misses with a target of 0.5 than of 0.95, %"),
                unknown("CPU us / read with a target of 0.5"),
                unknown("CPU us / read with a target of 0.95"),
            ],
            hears: &[Values],
            run: splits::threshold,
        },
        Experiment {
            name: "split-rules",
            title: "both rules of the split under several workloads",
            claims: &[
                unknown("least that misses are fewer than with the hot zone alone, %: by price"),
                unknown("least that misses are fewer than with the hot zone alone, %: target 0.9"),
            ],
            hears: &[Values],
            run: splits::split_rules,
        },
    ],
};
