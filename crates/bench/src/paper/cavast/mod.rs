//! Cavast (Wang, Liu and Chen, VLDB 2020).

mod index;
mod inline_chains;
mod staged;

use super::Goal::AtLeast;
use super::{Experiment, Paper, claim, unknown};

const QUOTED: &str = "the paper, second-hand";

/// The paper and its experiments.
pub const PAPER: Paper = Paper {
    name: "cavast",
    citation: "Cavast (Wang, Liu and Chen, VLDB 2020)",
    experiments: &[
        Experiment {
            name: "index",
            title: "the tree index, the list, and the cuckoo index",
            claims: &[
                claim("lines of a request: chaining", "21.6", QUOTED),
                claim("lines of a request: list", "11.3", QUOTED),
                claim("lines of a request: tree", "10.2", QUOTED),
                unknown("lines of a request: cuckoo"),
            ],
            run: index::index,
        },
        Experiment {
            name: "staged",
            title: "lookups in stages, by window",
            claims: &[
                unknown("times as many lookups as memcached's layout, uniform").goal(AtLeast(3.0)),
                unknown("times as many lookups as memcached's layout, zipfian").goal(AtLeast(3.0)),
            ],
            run: staged::staged,
        },
    ],
};
