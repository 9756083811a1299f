//! MemC3 (Fan, Andersen, Kaminsky, NSDI 2013): its tables and figures.
//!
//! The paper's text was not at hand when this was written. Its figures here come from its abstract,
//! from the authors' public code and notes, and from pages of this project that quote it; each
//! names its source. The content of several tables and figures could not be looked up either: those
//! carry this project's own experiment for that part of the evaluation, and say so. With the paper
//! at hand, fill in [`super::Claim::figure`].
//!
//! The paper's machine had more cores and a fast network; here the experiments run in process, with
//! as many threads as there are cores.

mod caches;
mod lookups;
mod memory;
mod mixes;
mod paths;

use super::Hears::{Rounds, Threads};
use super::{Experiment, Paper, claim, unknown};

const ABSTRACT: &str = "the paper's abstract";
const DECISION: &str = "quoted in docs/decisions/0001-index-tables-grow-by-twelfths.md";
const AUTHORS_NOTE: &str = "an author's note, da-data.blogspot.com, March 2013";

/// The paper and its experiments.
pub const PAPER: Paper = Paper {
    name: "memc3",
    citation: "MemC3 (Fan, Andersen, Kaminsky, NSDI 2013)",
    experiments: &[
        Experiment {
            name: "table-1",
            title: "bytes that each technique costs an item",
            claims: &[
                unknown("bytes of chaining and LRU for an item"),
                unknown("bytes of cuckoo and CLOCK for an item"),
            ],
            hears: &[],
            run: memory::table_1,
        },
        Experiment {
            name: "table-2",
            title: "how full a table gets, and what it costs, by the number of paths",
            claims: &[
                claim("occupancy with four slots in a bucket", "95 %", DECISION),
                claim("the best number of paths", "2", DECISION),
            ],
            hears: &[Rounds],
            run: paths::table_2,
        },
        Experiment {
            name: "table-3",
            title: "items and hits of caches in the same memory",
            claims: &[claim("memory for small items, against memcached", "30 % less", ABSTRACT)],
            hears: &[],
            run: caches::table_3,
        },
        Experiment {
            name: "figure-4",
            title: "cache lines that a lookup reads",
            claims: &[unknown("cache lines of a lookup that finds its key")],
            hears: &[],
            run: lookups::figure_4,
        },
        Experiment {
            name: "figure-5",
            title: "lookups of one thread, technique by technique",
            claims: &[unknown("lookups of MemC3's table over those of memcached's")],
            hears: &[Rounds],
            run: lookups::figure_5,
        },
        Experiment {
            name: "figure-6",
            title: "insertions by load, with one to four paths",
            claims: &[claim("updates a second of one thread", "about 2 million", AUTHORS_NOTE)],
            hears: &[Rounds],
            run: paths::figure_6,
        },
        Experiment {
            name: "figure-7",
            title: "the whole cache over threads",
            claims: &[claim(
                "requests a second over memcached's, over a network",
                "up to 3",
                ABSTRACT,
            )],
            hears: &[Rounds, Threads],
            run: caches::figure_7,
        },
        Experiment {
            name: "figure-8",
            title: "tables under lookups and insertions at once",
            claims: &[unknown("operations of MemC3's table over those of memcached's")],
            hears: &[Rounds, Threads],
            run: mixes::figure_8,
        },
    ],
};

/// Returns a number of items that fills a cuckoo table of a power of two of buckets to 95 %, and
/// that number of buckets; about `count`, and not more.
fn nearly_full(count: usize) -> (usize, usize) {
    let buckets = (count * 100 / 95 / 4).max(1024);
    let buckets = 1 << buckets.ilog2();
    (buckets * 4 * 95 / 100, buckets)
}

#[cfg(test)]
mod tests {
    use super::nearly_full;

    #[test]
    fn a_table_is_filled_to_the_papers_occupancy() {
        assert_eq!(nearly_full(1_000_000), (996_147, 1 << 18));
        assert_eq!(nearly_full(10), (3891, 1024));
    }
}
