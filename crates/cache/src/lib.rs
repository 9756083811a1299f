//! Larder as a library: an embeddable cache that keeps more in the same memory.
//!
//! ```
//! use larder::{Cache, Expiry};
//!
//! let cache = Cache::builder().memory_bytes(16 << 20).build()?;
//! cache.set(b"greeting", b"hello", Expiry::NEVER)?;
//! assert_eq!(cache.get(b"greeting").as_deref(), Some(&b"hello"[..]));
//!
//! // A session serves a batch of requests without copying: items stay readable while it lives.
//! let session = cache.session();
//! let hash = cache.hash(b"greeting");
//! let item = session.get(b"greeting", hash).expect("stored above");
//! assert_eq!(item.contiguous(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The memory limit bounds items, index and their metadata together. Nothing runs in the
//! background unless the owner lets it: call [`Cache::maintain`] from a thread of yours, as the
//! server does, to keep evictions and slab moves off the path of stores, and [`Cache::train`] from
//! another one, if dictionaries are to be trained beside that work rather than between it.
//!
//! # How it holds together
//!
//! A key's word in the index is the truth: a store publishes a new item and swings the word, and a
//! reader who found the old word has the old value for as long as its session lives. Every change
//! of a key happens under the lock of its index table, so that changes of one key are ordered, and
//! a change that was prepared outside the lock (append, incr, touch without room for the expiry)
//! is entered only if what it was prepared from is still there, unchanged; otherwise it is prepared
//! anew. Eviction removes a word only if it still points at the very place it evicts.

#![deny(unsafe_code)]

mod adapt;
mod admit;
mod ahead;
mod allowance;
mod amend;
mod below;
mod builder;
mod demote;
mod dump;
mod entrance;
mod expire;
mod fetch;
mod fetches;
mod flash_fit;
mod flash_tier;
mod flush;
mod flush_prefix;
mod flushed_prefixes;
mod image;
mod item;
mod links;
mod maintain;
mod measure;
mod observe;
mod places;
mod quotas;
mod read_costs;
mod repartition;
mod restore;
mod save;
mod session;
mod simple;
mod snapshot;
mod spare;
mod spill;
mod stats;
mod store;
mod train;
mod turn;
mod types;
mod wanted;

pub use ::flash::{CloseError, Doubt as FlashDoubt};
pub use ::hot::quota::QUOTAS_MAX;
pub use ::policy::geometry::CacheGeometry;
pub use ahead::Ahead;
pub use builder::{BuildError, Builder, FLASH_MEMORY_BYTES_MIN, FlashSettings, MemoryLimitError};
pub use codec::image::{self as image_format, Head as ImageHead, Source as ImageSource};
pub use dump::{DumpCursor, Dumped};
pub use flash_fit::{FlashFit, FlashMisfit, Shortage, flash_shortage};
pub use flush_prefix::PrefixRefused;
pub use flushed_prefixes::{FLUSHED_PREFIXES_MAX, PREFIX_BYTES_MAX};
pub use hot::ChunkLayout;
pub use hot::magazine::PARKED_SHARE;
pub use image::ImageSaved;
pub use index::{Hash, Kind as IndexKind};
pub use item::Item;
pub use measure::{CostPrefix, CostStats};
pub use observe::{Observed, Successor};
pub use quotas::{Quota, QuotaRefused, QuotaSize, QuotaStats};
pub use repartition::{
    FrameCounts, GeometrySource, Limits, Repartition, RepartitionCounts, RepartitionStats,
};
pub use restore::Restored;
pub use save::{SaveEnd, Saved};
pub use session::Session;
pub use stats::{ClassStats, CompressedStats, FlashStats, FlashTierStats, Stats, ZoneStats};
pub use store::Draft;
pub use types::*;
pub use wanted::{Arrived, Wanted};

pub use cache::Cache;

mod cache;
