//! The compressed zone.

#![deny(unsafe_code)]

#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod clean;
#[cfg(not(loom))]
pub mod dictionaries;
#[cfg(not(loom))]
mod find;
#[cfg(not(loom))]
mod insert;
#[cfg(not(loom))]
mod maintain;
#[cfg(not(loom))]
mod raw;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
pub mod record;
#[cfg(not(loom))]
mod rewrite;
mod seal;
#[cfg(not(loom))]
mod space;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod sweep;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(not(loom))]
mod trie;
#[cfg(not(loom))]
pub mod zone;

#[cfg(not(loom))]
pub use {
    dictionaries::DictionaryStats,
    find::Hit,
    insert::{Newcomer, Refused},
    maintain::Cursor,
    reader::{Reader, ReaderCounts},
    record::{Fields, Record},
    rewrite::{Sink, Writer},
    space::SpaceStats,
    stats::ZoneStats,
    zone::{Settings, Zone},
};
