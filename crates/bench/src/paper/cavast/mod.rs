//! Cavast.

mod inline_chains;
mod staged;

use super::Goal::AtLeast;
use super::{Experiment, Paper, unknown};

/// The paper and its experiments.
pub const PAPER: Paper = Paper {
    name: "cavast",
    citation: "Cavast (Wang, Liu and Chen, VLDB 2020)",
    experiments: &[Experiment {
        name: "staged",
        title: "lookups in stages, by window",
        claims: &[
            unknown("times as many lookups as memcached's layout, uniform").goal(AtLeast(3.0)),
            unknown("times as many lookups as memcached's layout, zipfian").goal(AtLeast(3.0)),
        ],
        run: staged::staged,
    }],
};
