//! The index: from the hash of a key to the location of its item, for any number of threads.
//!
//! It is MemC3's optimistic cuckoo table (Fan, Andersen, Kaminsky, NSDI 2013) or, if asked for,
//! Cavast's tree of sub-buckets (Wang et al.), cut into many small tables behind a directory, so
//! that each grows alone (Cavast's localized expansion).
//!
//! ```text
//!   hash -> directory -> table -> buckets of 64 bytes -> word -> location
//!           8 bytes for   24 to   cuckoo: one of two,     tag beside the location
//!           each prefix   46 KiB          8 words each
//!                                 tree:   a root and its
//!                                         sub-buckets, 7
//! ```
//!
//! A lookup takes no lock and writes nothing. It compares the tags of all words of a bucket at once
//! and calls the caller's `eq` for those that match. In a cuckoo table, only when nothing is found
//! does it look at a version that writers bump around every move, and perhaps looks again; in a
//! tree nothing moves. A writer takes the lock of one table.
//!
//! What holds:
//! * A key that is in the index is found by every lookup that runs meanwhile, whatever moves,
//!   grows, splits, shrinks or merges.
//! * A lookup that starts after an update has returned sees it or something later.
//! * Items and tables that a lookup may still see are not reused while it is pinned: the index
//!   ensures this for tables, the caller for items.
//!
//! What differs from the papers: a slot is one atomic word of tag and location (MemC3 has two
//! arrays and a pointer); items are immutable once published, so a hit needs no version; there are
//! thousands of writer locks instead of one; tables grow by twelfths and split without reading keys
//! (there: a fixed size, or doubled), for a cuckoo table at 9 bytes per item at most, without the
//! gaps between tables.
//! The reasons and the figures are in `docs/decisions/0001-index-tables-grow-by-twelfths.md` and
//! `docs/decisions/0017-cuckoo-beside-tree.md`.
//!
//! The rooms, in reading order: [`Location`] and `word`; `shape` (the arithmetic), `bucket`,
//! `table`; `layout` and its two implementations: `cuckoo` with `path` (search for room and moves),
//! and `tree`; `directory`; then `engine`, `find`, `update`, `purge` (many removals at once),
//! `growth` and `shrink`, which all kinds share; `index`, which chooses; and `stats`.

#[cfg(all(test, not(loom)))]
#[path = "../tests/common/mod.rs"]
mod common;

mod bucket;
mod cuckoo;
mod directory;
mod engine;
mod find;
mod growth;
mod index;
mod layout;
mod location;
mod path;
mod purge;
mod shape;
mod shrink;
mod stats;
mod table;
mod tree;
mod update;
mod word;

pub use index::{Index, IndexError, Kind, Options};
pub use location::{Hash, LOCATION_BITS, Location, PLACE_BITS};
pub use shape::REST_BITS_MAX as HASH_BITS_MIN;
pub use stats::Stats;
pub use update::{Change, Full, Pair, Room};
