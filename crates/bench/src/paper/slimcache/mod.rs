//! SlimCache (Jia, Shao and Chen, "SlimCache: Exploiting Data Compression Opportunities in
//! Flash-based Key-value Caching", MASCOTS 2018; "SlimCache: An Efficient Data Compression Scheme
//! for Flash-based Key-value Caching", ACM Transactions on Storage 16(2), 2020): the items of a
//! compressed flash tier, the management of its two areas, and its cost.
//!
//! Of both papers the abstracts were at hand when this was written, and some figures second-hand.
//! The content of tables 1 to 7 and figures 9 to 28 could not be looked up, so the experiments are
//! named by what they measure, and cache sizes and shares of popular keys are ours. Nothing was
//! tuned to reach the papers' figures, and a column says which are reached.
//!
//! ```text
//!   data: keys and values --draw--> client --get, set--> tier  crate `flash` on memory or a file
//!                                                    --> log   uncompressed, first in, first out
//!                                   a miss --> database  SQLite, and a delay that is reckoned
//! ```
//!
//! The tier is crate `flash` by itself in this process: no server, no network, and no memory above
//! it that serves the hottest items. The index is a map ([`places`]). Counts are the same in each
//! run with one seed; CPU time, and waits for a file or the database, are not.

mod adaptation;
mod areas;
mod client;
mod database;
mod granularity;
mod hit_ratio;
mod incompressible;
mod items;
mod log;
mod places;
mod promotion;
mod run;
mod sqlite;
mod tier;
mod watermarks;
mod writes;

use super::Hears::{Rounds, Values};
use super::{Experiment, Paper, claim, unknown};
use crate::report::bound::Bound::{AtLeast, AtMost};

const ABSTRACTS: &str = "the papers' abstracts, 2018 and 2020";
const QUOTED: &str = "the paper, second-hand";

/// The papers and their experiments.
pub const PAPER: Paper = Paper {
    name: "slimcache",
    citation: "SlimCache (Jia, Shao and Chen, MASCOTS 2018, ACM TOS 2020)",
    experiments: &[
        Experiment {
            name: "items",
            title: "items in the same flash, by what the values are",
            claims: &[
                claim("more items than an uncompressed log, %", "125.9, 223.4 at best", ABSTRACTS)
                    .goal(AtLeast(120.0)),
                unknown("more items than the log, %: each compressed alone"),
                unknown("more items than the log, %: the tier without compression"),
                claim("bytes of memory an item: its word of the index", "44", QUOTED)
                    .goal(AtMost(9.0)),
            ],
            hears: &[Values],
            run: items::items,
        },
        Experiment {
            name: "granularity",
            title: "how much is compressed together",
            claims: &[
                unknown("more items with units of a page than each alone, %"),
                unknown("more items with units of four pages than of one, %"),
                unknown("pages read for a hit: units of a page"),
                unknown("pages read for a hit: units of four pages"),
            ],
            hears: &[Values],
            run: granularity::granularity,
        },
        Experiment {
            name: "hit-ratio",
            title: "hits by the size of the cache and by which keys are popular",
            claims: &[
                unknown("fewer misses than the log with a tenth of the data, %: zipfian"),
                unknown("fewer misses than the log with a tenth of the data, %: hotspot"),
                unknown("fewer misses than the log with a tenth of the data, %: normal"),
                unknown("fewer misses than the log with a tenth of the data, %: uniform"),
            ],
            hears: &[Values],
            run: hit_ratio::hit_ratio,
        },
        Experiment {
            name: "database",
            title: "throughput and latency with a database behind the cache",
            claims: &[
                claim("more throughput than the log at best, %", "255.6, 380.1", ABSTRACTS),
                claim("less latency than the log at best, %", "78.9, 80.7", ABSTRACTS),
            ],
            hears: &[Values],
            run: database::database,
        },
        Experiment {
            name: "areas",
            title: "two areas, one of them uncompressed, beside one",
            claims: &[
                unknown("hits in the hot area, %: adaptive"),
                unknown("hits gained by an adaptive hot area, points"),
                unknown("hits gained by a hot area of 5 %, points"),
            ],
            hears: &[Values],
            run: areas::areas,
        },
        Experiment {
            name: "promotion",
            title: "promotion merged with collection, and at once",
            claims: &[
                unknown("moved, % of writes: merged with collection"),
                unknown("moved, % of writes: at once"),
                unknown("hits lost by promotion at once, points"),
            ],
            hears: &[Values],
            run: promotion::promotion,
        },
        Experiment {
            name: "watermarks",
            title: "how many segments are kept free, under bursts of stores",
            claims: &[
                unknown("segments evicted for want of room, % of those collected: ours"),
                unknown("hits, %: ours"),
                unknown("most hits of the watermarks tried, %"),
            ],
            hears: &[Values],
            run: watermarks::watermarks,
        },
        Experiment {
            name: "incompressible",
            title: "values that do not compress, and what knowing them saves",
            claims: &[
                unknown("CPU time of a store saved by recognition, %: all incompressible"),
                unknown("CPU time of a store saved by recognition, %: none incompressible"),
                unknown("more bytes stored for recognition, %: half incompressible"),
            ],
            hears: &[Rounds, Values],
            run: incompressible::incompressible,
        },
        Experiment {
            name: "adaptation",
            title: "the hot area when the store behind becomes fast and slow again",
            claims: &[
                unknown("hot area at the end of a slow store's time, % of the segments"),
                unknown("hot area at the end of a fast store's time, % of the segments"),
                unknown("windows until nine tenths of that"),
            ],
            hears: &[Values],
            run: adaptation::adaptation,
        },
        Experiment {
            name: "writes",
            title: "what is written, and of that what is moved",
            claims: &[
                claim("moved, % of writes: zipfian reads, misses stored", "4.2 at most", QUOTED)
                    .goal(AtMost(4.2)),
                unknown("the same without a hot area"),
                unknown("KiB of a write"),
            ],
            hears: &[Values],
            run: writes::writes,
        },
    ],
};
