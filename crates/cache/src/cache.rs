//! The cache itself: its parts, and the clock, the sequence of mutations and expiry, which all
//! operations share.
//!
//! The methods of [`Cache`] stand beside their subject:
//!
//! ```text
//!   cache           builder, hash, item_bytes_max
//!   session         session
//!   simple          get, set, put, remove, with_memory: single operations with copies
//!   store           reserve, extend
//!   flush           flush
//!   flush_prefix    flush_prefix
//!   maintain        maintain, wait_for_work, call_for_work, limit_bytes, memory_bytes_max,
//!                   set_memory_bytes, wait_for_memory
//!   train           train
//!   pending_reads   start_flash_reads, read_ring, read_wanted, read_all_wanted, read_wanted_now
//!   spill           close_flash, is_flash_unsound, flash_unanswered_s, is_flash_recovering,
//!                   flash_age_s, flash_empty, flash_segments_lost
//!   stats           stats, used_bytes, items_bytes_max, cost_stats, flash_stats, class_stats,
//!                   reset_stats
//!   quotas          quota_stats, quota_of, set_quotas
//!   measure         cost_prefixes
//!   image           save_image
//!   save, restore   save_to_flash, restore
//!   inside          places (the index), hooks (for the hot zone), demote, adapt, expire,
//!                   repartition, spare_rows, snapshot, compressed_admission
//! ```

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use hot::{Hot, ItemRef};
use index::{Hash, Index};
use io::Clock;
use memory::{Arena, ArenaTables, Epochs};
use stdx::CachePadded;

use crate::builder::Builder;
use crate::compressed_admission::GhostFilter;
use crate::compressed_tier::CompressedTier;
use crate::flash_tier::FlashTier;
use crate::flush::Flush;
use crate::maintain::Chores;
use crate::measure::Measure;
use crate::quotas::Quota;
use crate::repartition::Repartition;
use crate::stats::Lasting;
use crate::train::Training;
use crate::types::{Expiry, Observer, expiry_of};

/// A cache of keys and values within a memory limit. Shared by reference between threads.
pub struct Cache {
    pub(crate) index: Index,
    pub(crate) hot: Hot,
    /// The compressed zone, if there is one.
    pub(crate) compressed: Option<Box<CompressedTier>>,
    /// The flash tier, if there is one.
    pub(crate) flash: Option<Box<FlashTier>>,
    /// Bytes of the memory limit that the flash tier has on the heap; without a compressed zone,
    /// those of `remembered` as well.
    pub(crate) tier_bytes: usize,
    /// Items that recently left the hot zone without being demoted, or were promoted, if there is a
    /// lower tier.
    pub(crate) remembered: Option<GhostFilter>,
    pub(crate) tables: Arc<ArenaTables>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hasher: foldhash::quality::SeedableRandomState,
    pub(crate) item_bytes_max: usize,
    pub(crate) may_evict: bool,
    /// Limits of namespaces, in the order of the hot zone's.
    pub(crate) quotas: Mutex<Box<[Quota]>>,
    /// Present only if items move to their columns.
    pub(crate) repartition: Option<Repartition>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) moment: CachePadded<Moment>,
    /// The sequence number before the first.
    pub(crate) first_sequence: u64,
    /// Numbers every mutation: the source of CAS uniques.
    pub(crate) sequence: CachePadded<AtomicU64>,
    /// Items that requests found gone.
    pub(crate) gone: CachePadded<Gone>,
    /// Counts at the last reset of the statistics.
    pub(crate) before: Mutex<Lasting>,
    /// Present only if costs are measured.
    pub(crate) measure: Option<Box<Measure>>,
    pub(crate) chores: Mutex<Chores>,
    /// A walk over the hot zone is under way, and a move could put an item where it has been. Set
    /// before the walk takes the tag that it waits for, so that it waits for every thread that did
    /// not see it set.
    pub(crate) is_walked: AtomicBool,
    pub(crate) work: (Mutex<bool>, Condvar),
    pub(crate) training: Training,
}

/// The state that decides whether an item is still there: read by every request, written rarely, so
/// it has a cache line of its own.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// Unix seconds; never goes backwards.
    pub(crate) now: AtomicU32,
    pub(crate) flush: Flush,
}

impl Moment {
    /// A moment no earlier than `now`.
    pub(crate) fn at(now: u32) -> Self {
        Self { now: AtomicU32::new(now), ..Self::default() }
    }
}

/// Items that requests found, but that readers no longer get.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// Expired items.
    pub(crate) expired: AtomicU64,
    /// Flushed items.
    pub(crate) flushed: AtomicU64,
}

impl Cache {
    /// Begins to build a cache.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the hash of a key. Seeded anew in every process, or, where items outlast it, by the
    /// seed that is kept with them, so that nobody can choose keys that collide.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> Hash {
        hash_with(&self.hasher, key)
    }

    /// Returns the limit of an item, key and header included, in bytes.
    pub fn item_bytes_max(&self) -> usize {
        self.item_bytes_max
    }

    /// Returns Unix seconds, as of the last look at the clock.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        self.moment.now.load(Ordering::Relaxed)
    }

    /// Looks at the clock.
    pub(crate) fn tick(&self) {
        let now = self.clock.unix_seconds();
        if now > self.now() {
            self.moment.now.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Returns the next number of the sequence.
    #[inline]
    pub(crate) fn next_sequence(&self) -> u64 {
        // Acquire and release, each other's partners: a thread that takes a later number has seen
        // what came before an earlier one was taken, in particular that a flush had begun.
        self.sequence.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether readers no longer get the item: expired or flushed.
    // Always inlined, as [`Session::look_up`](crate::Session::look_up), which asks at every hit.
    #[inline(always)]
    pub(crate) fn is_gone(&self, item: ItemRef<'_>) -> bool {
        // Most items have no expiry, which is 0, or more than two seconds left: for those this is
        // all.
        let may_be_over = item.expiry().wrapping_sub(1) <= self.now() + 1;
        (may_be_over && self.is_expired(expiry_of(item))) || self.is_flushed(item)
    }

    /// Whether this expiry has passed. The clock is read only for an item in its last two seconds:
    /// `now` is the second of the last look, and a new one may have begun since.
    pub(crate) fn is_expired(&self, expiry: Expiry) -> bool {
        let (second, now) = (expiry.second, self.now());
        second != 0
            && (second <= now || (second <= now + 2 && expiry.is_expired(self.clock.unix_ms())))
    }

    /// Counts an item that a request found gone. That is rare: the request also removes it.
    #[cold]
    pub(crate) fn count_gone(&self, item: ItemRef<'_>) {
        // The flush is asked first, as in memcached.
        if self.is_flushed(item) {
            self.gone.flushed.fetch_add(1, Ordering::Relaxed);
        } else {
            self.count_over();
        }
    }

    /// Counts an expired item that a request found, in whichever tier.
    #[cold]
    pub(crate) fn count_over(&self) {
        self.gone.expired.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    fn is_flushed(&self, item: ItemRef<'_>) -> bool {
        let flushed = self.moment.flush.sequence();
        flushed != 0 && self.is_flushed_by(item, flushed)
    }

    /// Whether a flush up to number `flushed` takes the item.
    #[inline(never)]
    fn is_flushed_by(&self, item: ItemRef<'_>, flushed: u64) -> bool {
        let number = self.full_sequence(item.sequence());
        number <= flushed && self.moment.flush.takes(item.key(), number)
    }

    /// Returns the item's CAS unique: the client's choice, or its number in the sequence of
    /// mutations.
    ///
    /// An item keeps the low 32 bits of its number. The rest follows from the sequence's present
    /// value, since the number is the last one with these low bits: an item that is left alone for
    /// long gets a new number before these could be another's (see [`crate::flush`]). Its unique
    /// changes by that, and a `cas` prepared long before fails; but no `cas` can ever succeed over
    /// an item that changed: its number and the one that the client saw both lie within the last
    /// 2^32 mutations and differ there.
    pub(crate) fn cas_of(&self, item: ItemRef<'_>) -> u64 {
        item.custom_cas().unwrap_or_else(|| self.full_sequence(item.sequence()))
    }

    pub(crate) fn full_sequence(&self, low: u32) -> u64 {
        let latest = self.sequence.load(Ordering::Relaxed);
        latest.wrapping_sub(u64::from((latest as u32).wrapping_sub(low)))
    }
}

/// Returns the hash of a key, with a cache's seeds.
#[inline]
pub(crate) fn hash_with(hasher: &foldhash::quality::SeedableRandomState, key: &[u8]) -> Hash {
    let mut hasher = hasher.build_hasher();
    hasher.write(key);
    Hash(hasher.finish())
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("arena", &self.arena).finish_non_exhaustive()
    }
}
