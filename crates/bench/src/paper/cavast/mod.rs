//! Cavast (Wang, Liu and Chen, "Put an Elephant into a Fridge: Optimizing Cache Efficiency for
//! In-memory Key-value Stores", PVLDB 13(9), 2020): the hits of the processor's last-level cache
//! when a key-value store is laid out for it.
//!
//! Of the paper the abstract was at hand when this was written, and some figures and mechanisms
//! second-hand. The content of its figures and tables could not be looked up, so the experiments
//! are named by what they measure. Nothing was tuned to reach the paper's figures, and a column
//! says which are reached.
//!
//! ```text
//!   population: sizes, popular keys --get--> store: lookup, cells, zones, expiry
//!                                              |  addresses
//!                                              v
//!                                            memory: pages, TLB --lines--> llc
//! ```
//!
//! Except for `index`, `staged`, `throughput`, `repartition` and `layouts`, which measure the real
//! index and cache, everything is a simulation of addresses: exact, the same in each run with one
//! seed, and without any byte of a value. The placement's decisions are the real ones, crate
//! `policy`. The cache and the data shrink together with the scale, so that the cache is the
//! paper's 0.023 % of the data; a smaller scale has fewer items, and an equal share of fewer items
//! gets fewer of the requests.

mod ahead;
pub mod cachegrind;
mod cells;
mod colours;
mod expiry;
mod index;
mod inline_chains;
mod layouts;
mod lines;
mod llc;
mod lookup;
mod memory;
mod overhead;
mod passing;
mod placement;
mod population;
mod reclaiming;
mod repartition;
mod run;
mod separation;
mod staged;
mod stock;
mod store;
mod stores;
mod throughput;
mod together;
mod warm_up;
mod zones;

use super::Hears::{Rounds, Threads};
use super::{Experiment, Paper, claim, unknown};
use crate::report::bound::Bound::{AtLeast, AtMost};

const ABSTRACT: &str = "the paper's abstract";
const QUOTED: &str = "the paper, second-hand";

/// The paper and its experiments.
pub const PAPER: Paper = Paper {
    name: "cavast",
    citation: "Cavast (Wang, Liu and Chen, VLDB 2020)",
    experiments: &[
        Experiment {
            name: "stock",
            title: "a stock store by the size of the cache and by skew",
            claims: &[
                unknown("hits of a stock store, %: cache of 0.023 % of the data"),
                unknown("the most hits that any replacement could have there, %"),
                unknown("the same for the paper's 15 MiB and 64 GiB, %"),
                claim("lines of a request: chaining", "21.6", QUOTED),
            ],
            hears: &[],
            run: stock::stock,
        },
        Experiment {
            name: "placement",
            title: "hot items in rows, in columns and in an area of their own",
            claims: &[
                unknown("hits gained by rows, a sixteenth hot, points: zipfian"),
                unknown("hits gained by rows, half of them hot, points: zipfian"),
                unknown("hits gained by columns, points: zipfian"),
                unknown("hits gained by an area, points: zipfian"),
                unknown("hits gained by a perfect order, points: zipfian"),
                unknown("hits gained by columns, points: hotspot"),
                unknown("hits gained by an area, points: hotspot"),
                unknown("fewer misses with columns, upkeep included, %: zipfian"),
            ],
            hears: &[],
            run: placement::placement,
        },
        Experiment {
            name: "colours",
            title: "columns of small pages, whose frames are known or not",
            claims: &[
                unknown("hits gained by colours, points: a span of 128 KiB, zipfian"),
                unknown("hits gained by colours, points: a span of 128 KiB, hotspot"),
                unknown("hits gained by colours, points: a span of a slab, zipfian"),
                unknown("hits gained by colours, points: a span of a slab, hotspot"),
                unknown("hits gained by turns of huge pages, points: a span of a slab, zipfian"),
                unknown("hits gained by turns of huge pages, points: a span of a slab, hotspot"),
            ],
            hears: &[],
            run: colours::colours,
        },
        Experiment {
            name: "warm-up",
            title: "hits from the first request on",
            claims: &[
                unknown("million requests until hits are stable, in the paper's size: as stored"),
                unknown("the same: columns").goal(AtMost(10.0)),
                unknown("the same: area"),
                unknown("the same: all of the paper's, asked for ahead"),
            ],
            hears: &[],
            run: warm_up::warm_up,
        },
        Experiment {
            name: "separation",
            title: "keys apart from values",
            claims: &[
                unknown("fewer misses with keys apart, %: APP, chains of 1.5"),
                unknown("fewer misses with keys apart, %: SYS, chains of 1.5"),
                unknown("fewer misses with keys apart, %: ETC, chains of 1.5"),
            ],
            hears: &[],
            run: separation::separation,
        },
        Experiment {
            name: "lines",
            title: "lines that a request reads, by index",
            claims: &[
                claim("lines of a request: chaining", "21.6", QUOTED),
                // The paper counts a server, and this a store: only the order can be compared.
                claim("lines of a request: list", "11.3", QUOTED),
                claim("lines of a request: tree", "10.2", QUOTED),
                unknown("lines of a request: cuckoo"),
            ],
            hears: &[],
            run: lines::lines,
        },
        Experiment {
            name: "index",
            title: "the server's tree index, the list, and its cuckoo index",
            claims: &[
                claim("lines of a request: chaining", "21.6", QUOTED),
                claim("lines of a request: list", "11.3", QUOTED),
                claim("lines of a request: tree", "10.2", QUOTED),
                unknown("lines of a request: cuckoo"),
            ],
            hears: &[Rounds],
            run: index::index,
        },
        Experiment {
            name: "staged",
            title: "lookups in stages, by window",
            claims: &[
                unknown("times as many lookups as memcached's layout, uniform").goal(AtLeast(3.0)),
                unknown("times as many lookups as memcached's layout, zipfian").goal(AtLeast(3.0)),
            ],
            hears: &[Rounds],
            run: staged::staged,
        },
        Experiment {
            name: "throughput",
            title: "lookups with huge pages and without, with one thread and with more",
            claims: &[
                unknown("times as many lookups as memcached's layout, huge pages for both"),
                unknown("the same with small pages for both"),
                unknown("times as many lookups with huge pages as with small ones"),
            ],
            hears: &[Rounds, Threads],
            run: throughput::throughput,
        },
        Experiment {
            name: "repartition",
            title: "the cache itself with columns that items move to, and without",
            claims: &[
                unknown("times as many lookups with columns, uniform").goal(AtLeast(0.98)),
                unknown("background, % of a processor, uniform").goal(AtMost(3.0)),
                unknown("times as many lookups with columns, zipfian"),
                unknown("background, % of a processor, zipfian").goal(AtMost(3.0)),
            ],
            hears: &[Rounds],
            run: repartition::repartition,
        },
        Experiment {
            name: "layouts",
            title: "the server's keys apart from its values",
            claims: &[
                unknown("times as many hits as inline, key by key: APP, uniform"),
                unknown("times as many hits as inline, as the server: APP, uniform"),
                unknown("times as many misses as inline: APP, uniform"),
                unknown("times as many stores as inline in full memory: APP"),
                unknown("bytes of memory an item more than inline: APP"),
            ],
            hears: &[Rounds],
            run: layouts::layouts,
        },
        Experiment {
            name: "passing",
            title: "an area of the hottest items, and all others read past the cache",
            claims: &[
                unknown("hits, %: APP, zipfian, nothing placed"),
                unknown("hits, %: APP, zipfian, the area alone"),
                unknown("hits, %: APP, zipfian, cold items past the cache"),
                unknown("fewer misses of a request by it, %"),
            ],
            hears: &[],
            run: passing::passing,
        },
        Experiment {
            name: "ahead",
            title: "lines asked for ahead of the requests, by how many requests together",
            claims: &[
                unknown("hits, %: Larder's as the server asks, zipfian"),
                unknown("hits, %: Larder's as the server asks, uniform"),
                unknown("more lines from memory by it, %: zipfian"),
            ],
            hears: &[],
            run: ahead::ahead,
        },
        Experiment {
            name: "together",
            title: "everything together, step by step",
            claims: &[
                claim("hits, %: all of the paper's, at best", "82.7", ABSTRACT).goal(AtLeast(82.7)),
                claim("hits gained by it, points", "42 to 60", QUOTED).goal(AtLeast(40.0)),
                unknown("loads that find their line if it was asked for ahead, %"),
                unknown("fewer misses of a request, %: all of the paper's"),
                unknown("fewer misses of a request, %: what pays here"),
            ],
            hears: &[],
            run: together::together,
        },
        Experiment {
            name: "expiry",
            title: "expired items found by a walk, or by the passes that move items",
            claims: &[
                unknown("hits gained by looking in passes, points: headers"),
                unknown("more misses of a request: a walk"),
                unknown("more misses of a request: passes, by headers"),
                unknown("more misses of a request: passes, by four bits"),
            ],
            hears: &[],
            run: reclaiming::expiry,
        },
        Experiment {
            name: "uniform",
            title: "the worst case: nobody is hot",
            claims: &[
                unknown("hits gained by columns, points"),
                unknown("more misses of a request with columns, %"),
                unknown("more misses of a request with an area, %"),
                unknown("more misses of a request with columns as the server's, %")
                    .goal(AtMost(2.0)),
            ],
            hears: &[],
            run: overhead::uniform,
        },
        Experiment {
            name: "sampling",
            title: "temperatures of one access in so many",
            claims: &[
                unknown("misses of upkeep a request: every access"),
                unknown("misses of upkeep a request: one in 16"),
                unknown("misses of upkeep a request: every access, in headers"),
            ],
            hears: &[],
            run: overhead::sampling,
        },
        Experiment {
            name: "overhead",
            title: "swaps, bytes moved and bytes kept",
            claims: &[
                unknown("swaps a request: columns"),
                unknown("bytes moved a request: columns"),
                unknown("temperatures, % of the slabs"),
            ],
            hears: &[],
            run: overhead::overhead,
        },
        Experiment {
            name: "cachegrind",
            title: "the cache's model beside valgrind's",
            claims: &[unknown("misses differ at most by, % of the reads").goal(AtMost(0.5))],
            hears: &[],
            run: cachegrind::cachegrind,
        },
    ],
};
