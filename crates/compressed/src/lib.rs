//! The compressed zone: items packed by hash into blocks that are compressed with a trained
//! dictionary, in slabs of the same arena as the hot zone's.
//!
//! ```text
//!   hash -> trie -> slot -> block: fingerprints, dead bits, counts of accesses, frames of rows
//!                             |
//!   slabs: | block | block | block ...   a log; blocks are only ever appended and moved
//! ```
//!
//! **Reading** ([`Zone::find`]) takes no lock. The trie leads to a block in a few probes; the
//! fingerprints say which rows may be the key's. Only if one of those is alive is its frame, a
//! piece of about 1 KiB, decoded and the full key compared.
//!
//! **Writing** happens under the lock of one of 64 shards: one new block, or two, replaces an old
//! one, or one replaces two. Most newcomers are appended: one frame is compressed anew, and the
//! others are copied as they are stored. Otherwise the block is decoded, rows are added and
//! removed, and dead rows are dropped on that occasion. A removal ([`Zone::remove`]) only sets a
//! bit, without a lock; [`mod@seal`] explains how that fits together with a replacement.
//!
//! This is zExpander's Z-zone with these changes: fingerprints instead of Bloom filters, zstd with
//! dictionaries instead of LZ4, a log of slabs instead of an allocator's chunks, removals that take
//! effect at once, and no ghost nodes.
//!
//! The modules, in reading order:
//!
//! ```text
//!   a block      block                      how it lies in memory
//!                frame, pack, image         rows to frames, frames to a block's bytes
//!                access, summary            how often its rows were read, when they expire
//!   the zone     zone                       the parts, and what holds between them
//!                trie, space, raw           hash to leaf; slabs as a log; the unsafe code
//!   a read       find, reader               lookups and removals; a thread's decoder and buffers
//!   a change     insert, append             a newcomer, and its short way
//!                rewrite, seal              new blocks for old, and rows that die meanwhile
//!   room         sweep, expire, clean       the coldest rows, the expired ones, slabs made free
//!   background   maintain, dictionaries     its turn; dictionaries and their samples
//!   beside it    stats                      what happened, and what is there
//! ```
//!
//! The caller's obligations:
//!
//! * A lock per key, the caller's own, orders [`Zone::remove`], [`Zone::remove_hit`] and
//!   [`Newcomer::reveal`]. It is taken inside `confirm`, thus after the shard's lock; no other call
//!   that takes a shard's lock ([`Zone::insert`], [`Zone::evict`], [`Zone::maintain`],
//!   [`Zone::sweep_expired`], [`Zone::offer_all`], [`Zone::bury_where`], [`Zone::flush`],
//!   [`Zone::begin_anew`]) may be made while it is held.
//! * A key's newcomer is revealed only while no item of that key is alive in the zone: a store
//!   removes first.
//! * Guards are short-lived. Memory that was replaced while a thread is pinned cannot be reused,
//!   and an insertion is refused with [`Refused::Pinned`] when no other memory is left.
//! * [`Zone::maintain`], which brings the zone within its budget, and [`Zone::train`], which alone
//!   trains dictionaries, are called now and then.

#![deny(unsafe_code)]

#[cfg(not(loom))]
mod access;
#[cfg(not(loom))]
mod append;
#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod clean;
#[cfg(not(loom))]
pub mod dictionaries;
#[cfg(not(loom))]
mod expire;
#[cfg(not(loom))]
mod find;
#[cfg(not(loom))]
mod frame;
#[cfg(not(loom))]
mod image;
#[cfg(not(loom))]
mod insert;
#[cfg(not(loom))]
mod maintain;
#[cfg(not(loom))]
mod pack;
#[cfg(not(loom))]
mod raw;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
mod rewrite;
mod seal;
#[cfg(not(loom))]
mod space;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod summary;
#[cfg(not(loom))]
mod sweep;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(not(loom))]
mod trie;
#[cfg(not(loom))]
pub mod zone;

#[cfg(not(loom))]
pub use codec::record::{Fields, Record};
#[cfg(not(loom))]
pub use {
    dictionaries::DictionaryStats,
    find::Hit,
    insert::{Newcomer, Refused},
    maintain::Cursor,
    reader::{Reader, ReaderCounts},
    rewrite::{Leaving, Sink, Writer, Yield},
    space::SpaceStats,
    stats::ZoneStats,
    zone::{Settings, Zone},
};
