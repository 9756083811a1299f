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
//! The memory limit bounds items, index and their metadata together; values read from flash for
//! waiting requests, and the compressed zone's working memory, lie beside it. Nothing runs in the
//! background unless the owner lets it: call [`Cache::maintain`] from a thread of yours, as the
//! server does, to keep evictions and slab moves off the path of stores, and [`Cache::train`] from
//! another one, if dictionaries are to be trained beside that work rather than between it.
//!
//! # How it holds together
//!
//! A key's word in the index is the truth: a store publishes a new item and swings the word, and a
//! reader that found the old word has the old value for as long as its session lives. Every change
//! of a key happens under the lock of its index table, so that changes of one key are ordered. A
//! change that was prepared outside the lock (append, incr, touch without room for the expiry) is
//! entered only if the item that it was prepared from is still there, unchanged; otherwise it is
//! prepared anew. Eviction removes a word only if it still points at the very place that is
//! evicted.
//!
//! A key's item is in one of three tiers. The hot zone (`hot`) has it uncompressed. Items that
//! leave the hot zone are packed into the compressed zone (`compressed`), and items that leave that
//! one move to the device (`flash`), if there is one. The tiers do not know each other: only this
//! crate moves an item, and where it is found in two, the upper one counts. An item in a lower tier
//! is promoted when it is read again, or when a request is to change it.
//!
//! # The rooms, in reading order
//!
//! ```text
//!   a request    types, builder, cache, session          what can be asked, and the parts
//!                prefetch                                memory asked for before it is needed
//!                store, amend, observe, meta_get         changes; meta's get
//!                item, simple                            an item as readers see it; copies of it
//!                places                                  the index and the hot zone; unsafe code
//!                hooks                                   what the hot zone asks of the cache
//!                flush, flush_prefix, flushed_prefixes   flushes of everything, and of a prefix
//!                quotas                                  limits of namespaces
//!
//!   tiers        compressed_tier, snapshot               the compressed zone: down, up, reads
//!                flash_tier, spill                       flash: the protocol, demotion
//!                pending_reads, flash_reads              flash: reads that requests wait for
//!                spare_rows                              rows on flash of items in memory
//!                compressed_admission, flash_admission   which items are demoted
//!                read_costs                              what a read from flash costs
//!                flash_fit                               whether a device fits beside the memory
//!
//!   background   maintain                                the chores, in order
//!                time_slice, cpu_budget                  how much time they may take
//!                demote, expire, repartition, adapt      demotion, sweeps, columns, the split
//!                train                                   dictionaries
//!
//!   a restart    image, restore, save                    a memory file; memory to flash
//!   beside it    measure, stats, dump                    costs, numbers, listings
//! ```

#![deny(unsafe_code)]

mod adapt;
mod amend;
mod builder;
mod compressed_admission;
mod compressed_tier;
mod cpu_budget;
mod demote;
mod dump;
mod expire;
mod flash_admission;
mod flash_fit;
mod flash_reads;
mod flash_tier;
mod flush;
mod flush_prefix;
mod flushed_prefixes;
mod hooks;
mod image;
mod item;
mod maintain;
mod measure;
mod meta_get;
mod observe;
mod pending_reads;
mod places;
mod prefetch;
mod quotas;
mod read_costs;
mod repartition;
mod restore;
mod save;
mod session;
mod simple;
mod snapshot;
mod spare_rows;
mod spill;
mod stats;
mod store;
mod time_slice;
mod train;
mod types;

pub use ::flash::{CloseError, Doubt as FlashDoubt, Empty as FlashEmpty};
pub use ::hot::quota::QUOTAS_MAX;
pub use ::policy::geometry::CacheGeometry;
pub use adapt::{HOT_SLABS_MIN, WINDOW_ITEMS, WINDOW_MUTATIONS_MIN};
pub use builder::{BuildError, Builder, FLASH_MEMORY_BYTES_MIN, FlashSettings, MemoryLimitError};
pub use codec::image::{self as image_format, Head as ImageHead, Source as ImageSource};
pub use dump::{DumpCursor, Dumped};
pub use flash_fit::{FLASH_BYTES_MAX, FlashFit, FlashMisfit, Shortage, flash_shortage};
pub use flush_prefix::PrefixRefused;
pub use flushed_prefixes::{FLUSHED_PREFIXES_MAX, PREFIX_BYTES_MAX};
pub use hot::ChunkLayout;
pub use hot::magazine::MAGAZINE_SHARE;
pub use image::ImageSaved;
pub use index::{Hash, Kind as IndexKind};
pub use item::Item;
pub use measure::{CostPrefix, CostStats};
pub use observe::{Observed, Successor};
pub use pending_reads::{ReadRequest, ReadResult};
pub use prefetch::Ahead;
pub use quotas::{Quota, QuotaRefused, QuotaSize, QuotaStats};
pub use repartition::{
    FrameCounts, GeometrySource, Limits, Repartition, RepartitionCounts, RepartitionStats,
};
pub use restore::Restored;
pub use save::{SaveEnd, Saved};
pub use session::Session;
pub use simple::SESSIONS_MAX;
pub use stats::{ClassStats, CompressedStats, FlashStats, FlashTierStats, Stats, ZoneStats};
pub use store::Draft;
pub use types::*;

pub use cache::Cache;

mod cache;
