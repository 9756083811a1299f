//! The index: a concurrent cuckoo table from the hash of a key to the location of its item.
//!
//! It is MemC3's optimistic cuckoo table (Fan, Andersen, Kaminsky, NSDI 2013) cut into many small
//! tables behind a directory, so that each grows alone (Cavast's localized expansion).
//!
//! ```text
//!   hash -> directory -> table -> two buckets of 64 bytes -> word -> location
//!           8 bytes for   64 to     8 words each             tag beside the location
//!           each prefix   112 KiB
//! ```
//!
//! A lookup takes no lock and writes nothing. It compares the tags of 16 words and calls the
//! caller's `eq` for those that match. Only when nothing is found does it look at a version that
//! writers bump around every move, and perhaps looks again. A writer takes the lock of one table.
//!
//! What holds:
//! * A key that is in the index is found by every lookup that runs meanwhile, whatever moves,
//!   grows, splits, shrinks or merges.
//! * A lookup that starts after an update has returned sees it or something later.
//! * Items and tables a lookup may still see are not reused while it is pinned: the index sees to
//!   that for tables, the caller for items.
//!
//! What differs from the paper: a slot is one atomic word of tag and location (there: two arrays
//! and a pointer); items are immutable once published, so a hit needs no version; there are
//! thousands of writer locks instead of one; tables grow by quarters and split without reading
//! keys (there: a fixed size), at 9 bytes per item on average. The reasons and the figures are in
//! `docs/decisions/0001-index-tables-grow-by-quarters.md`.
//!
//! The rooms, in reading order: [`Location`] and `word`; `shape` (the arithmetic), `bucket`,
//! `table`, `path` (cuckoo search and moves), `directory`; then `index`, `find`, `update`,
//! `growth` and `shrink`.

mod bucket;
mod directory;
mod find;
mod growth;
mod index;
mod location;
mod path;
mod purge;
mod shape;
mod shrink;
mod stats;
mod table;
mod update;
mod word;

pub use find::Match;
pub use index::{Index, IndexError, Options};
pub use location::{Hash, LOCATION_BITS, Location, PLACE_BITS};
pub use stats::Stats;
pub use update::{Change, Full};
