//! The flash tier as the cache uses it: how items are demoted to it from the compressed zone, read
//! there, and promoted again.
//!
//! ```text
//!   compressed zone --evicts--> staged --sealed--> segment buffer --written--> segment
//!          index word: flash, and a place that moves along
//! ```
//!
//! A word of the index leads to an item on flash as it does to a hot one, so the key's lock is the
//! same, that of its index table. But such a word has no key at hand, only bits of the hash: it
//! says *perhaps*. Therefore:
//!
//! - A word for flash may stand beside one for a hot item of the same key, or be there while the
//!   item is in the compressed zone: then the row that it leads to is spare
//!   ([`mod@crate::spare_rows`]).
//! - In a bucket there is at most one word for flash with the same bits of the hash. An item that
//!   comes in takes the place of one that cannot be told from it, and a store, or a removal, of a
//!   key takes out the word that may be the key's. So some other item is lost once in many
//!   millions, and dead on the device as well, where the note is one for all that cannot be told
//!   apart.
//! - A request that depends on the present item (an add, a touch, an increment) reads it first, and
//!   compares its key.
//!
//! Reading takes long, and no thread waits for it: a request for an item on flash is [pending]
//! (`Lookup::Pending`, `Refusal::Pending`), the session says what is to be read
//! ([`Session::take_wanted`]), and when that has arrived ([`Session::deliver`]) the request is made
//! again. A hit counts only if the index still leads to the place that was read.
//!
//! A process that begins with a tier that holds items finds them one segment after the other.
//! Meanwhile keys change: the tier notes them ([`Flash::note_change`]), and rows of them that are
//! found later are left alone.
//!
//! [pending]: crate::Lookup::Pending

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ::flash::{Flash, Inserted, Place, Reader};
use ::io::device::PAGE_BYTES;
use index::Hash;
use stdx::sync::lock;

use crate::cache::Cache;
use crate::cpu_budget::Allowance;
use crate::flash_admission::FlashAdmission;
use crate::flash_reads::FlashReads;
use crate::read_costs::ReadCosts;
use crate::stats::FlashTierStats;
use crate::time_slice::TimeSlice;

/// How long a store waits for a buffer to be written when it has to wait for memory anyway.
const PATIENCE: Duration = Duration::from_micros(250);

/// A note of an item's death must not depend on bits by which the index did not find it. Models and
/// interpreters get smaller tables, and never read a note.
const _: () = assert!(
    ::flash::INDEX_HASH_BITS <= index::HASH_BITS_MIN || cfg!(any(miri, loom)),
    "a word of the index stands for keys that have so many bits in common"
);

/// The tier and what its users share.
pub(crate) struct FlashTier {
    pub(crate) flash: Flash,
    pub(crate) fetches: Arc<FlashReads>,
    /// Readers that no session has at the moment.
    pub(crate) readers: Mutex<Vec<Reader>>,
    /// Flushes of the tier that were begun, those that were done, and those after which the index
    /// was purged of words that lead here. Until it is, no item comes in.
    pub(crate) flushed: AtomicU64,
    pub(crate) voided: AtomicU64,
    pub(crate) purged: AtomicU64,
    pub(crate) entrance: FlashAdmission,
    /// Whether items that move here are compressed at a lower level, for lack of time.
    is_hurried: AtomicBool,
    /// Notified when a segment was written.
    room: (Mutex<()>, Condvar),
    pub(crate) read_costs: ReadCosts,
    /// Time for scrubbing.
    pub(crate) scrubbing: Mutex<Allowance>,
    pub(crate) counters: Counters,
}

/// Counts of moves between the tiers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Words of the index that lead here.
    pub(crate) items: AtomicU64,
    /// Of `items`, those of rows that are spare: their items are in memory as well.
    pub(crate) spare: AtomicU64,
    /// Items that left memory for a row that was spare.
    pub(crate) rested: AtomicU64,
    /// Reads that were served from flash.
    pub(crate) hits: AtomicU64,
    /// Items that came in.
    pub(crate) spilled: AtomicU64,
    /// Of `spilled`, items moved by stores.
    pub(crate) handed: AtomicU64,
    /// Items that were not taken.
    pub(crate) refused: AtomicU64,
    /// Microseconds of processor time that moving items from the hot zone took.
    pub(crate) spill_us: AtomicU64,
    /// Items that were promoted to the hot zone.
    pub(crate) promoted: AtomicU64,
    /// Reads of the device that were asked for, their pages, and those of them that failed, each
    /// counted when it is delivered.
    pub(crate) reads: AtomicU64,
    pub(crate) pages_read: AtomicU64,
    pub(crate) reads_failed: AtomicU64,
}

impl FlashTier {
    /// Returns the tier, with its reads and its admission.
    pub(crate) fn new(flash: Flash, fetches: FlashReads, entrance: FlashAdmission) -> Self {
        Self {
            flash,
            fetches: Arc::new(fetches),
            readers: Mutex::default(),
            flushed: AtomicU64::new(0),
            voided: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            entrance,
            is_hurried: AtomicBool::new(false),
            room: (Mutex::new(()), Condvar::new()),
            read_costs: ReadCosts::default(),
            scrubbing: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// Begins a flush: from here on nothing is found here, and no item comes in. One step, which
    /// [`Self::end_flush`] has to follow before the client is told that the flush is done.
    pub(crate) fn begin_flush(&self) {
        self.flushed.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes everything here void, on the device too, which may take as long as that takes. The
    /// background purges the index.
    pub(crate) fn end_flush(&self) {
        self.flash.flush();
        // Release: partner is the acquire in `Cache::begin_purge`.
        self.voided.fetch_add(1, Ordering::Release);
    }

    /// Sets whether there is little time for items that move here.
    pub(crate) fn hurry(&self, is_hurried: bool) {
        self.is_hurried.store(is_hurried, Ordering::Relaxed);
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.is_hurried.load(Ordering::Relaxed)
    }

    /// Whether items that the index leads to may be here: between a flush and its purge none is.
    pub(crate) fn is_purged(&self) -> bool {
        // Acquire: partner is the release in `Cache::purge`. A thread that sees that a flush is
        // purged sees that all was void.
        self.flushed.load(Ordering::Relaxed) == self.purged.load(Ordering::Acquire)
    }

    /// Returns the most bytes on the heap, as far as that is known at the start.
    pub(crate) fn memory_bytes_max(&self) -> usize {
        self.flash.memory_bytes_max()
    }

    /// Returns the bytes on the heap. Bytes read for waiting requests come and go, and count with
    /// the most that they ever were.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.flash.memory_bytes() + self.fetches.counts().peak_bytes
    }

    #[inline]
    pub(crate) fn may_be(&self, place: Place, hash: Hash) -> bool {
        self.flash.may_be(place, hash.0)
    }

    /// Whether an item that leaves the hot zone may come in at once.
    pub(crate) fn takes_at_once(&self) -> bool {
        self.is_purged() && !self.flash.is_behind()
    }

    /// Whether all items that leave the hot zone may.
    pub(crate) fn takes_all_at_once(&self) -> bool {
        self.entrance.takes_all() && self.takes_at_once()
    }

    /// Waits a moment until a full segment was written, if no item may come in before.
    pub(crate) fn wait_for_room(&self) {
        if self.flash.is_behind() && self.entrance.takes_all() {
            let (lock_of_room, has_room) = &self.room;
            let waiting = lock(lock_of_room);
            let is_behind = |_: &mut ()| self.flash.is_behind();
            let waited = has_room.wait_timeout_while(waiting, PATIENCE, is_behind);
            drop(waited.expect("nothing panics while it holds this lock"));
        }
    }

    /// Writes the segments that are full, if there are any.
    pub(crate) fn write_full(&self, access: &FlashIndexAccess<'_>) {
        if self.flash.has_waiting() {
            self.flash.write_full(access);
            self.tell_of_room();
        }
    }

    /// Writes the segments that are full, and collects a segment if there is none to open.
    pub(crate) fn make_ready(&self, access: &FlashIndexAccess<'_>, now: u32) {
        self.write_full(access);
        if !self.flash.has_room_to_open() {
            self.flash.maintain(access, now);
            self.tell_of_room();
        }
    }

    /// Wakes the threads that wait for it.
    pub(crate) fn tell_of_room(&self) {
        let (lock_of_room, has_room) = &self.room;
        drop(lock(lock_of_room));
        has_room.notify_all();
    }

    /// Notes that the index is to lead here no more, before it does not.
    pub(crate) fn forget(&self, place: Place, hash: Hash) {
        self.counters.items.fetch_sub(1, Ordering::Relaxed);
        self.flash.forget(place, hash.0);
    }

    /// Counts a change of a word that leads here.
    #[inline]
    pub(crate) fn count_spare(&self, was_spare: bool, is_spare: bool) {
        match (was_spare, is_spare) {
            (false, true) => _ = self.counters.spare.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = self.counters.spare.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Returns the tier's statistics; it has `reserved_bytes` of the memory limit to itself.
    pub(crate) fn stats(&self, reserved_bytes: u64) -> FlashTierStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let fetches = self.fetches.counts();
        FlashTierStats {
            tier: self.flash.stats(),
            items: read(&self.counters.items),
            spare: read(&self.counters.spare),
            rested: read(&self.counters.rested),
            memory_bytes: self.memory_bytes() as u64,
            reserved_bytes,
            hits: read(&self.counters.hits),
            spilled: read(&self.counters.spilled),
            handed: read(&self.counters.handed),
            refused: read(&self.counters.refused),
            over_budget: read(&self.entrance.over_budget),
            expiring: read(&self.entrance.expiring),
            spill_us: read(&self.counters.spill_us),
            promoted: read(&self.counters.promoted),
            reads: read(&self.counters.reads),
            bytes_read: read(&self.counters.pages_read) * PAGE_BYTES as u64,
            reads_failed: read(&self.counters.reads_failed),
            fetch_bytes: fetches.used_bytes as u64,
            fetch_bytes_peak: fetches.peak_bytes as u64,
            fetch_bytes_max: self.fetches.bytes_max() as u64,
            fetches_waiting: fetches.waiting as u64,
            unanswered_s: self.fetches.unanswered_s().into(),
            recovering: self.flash.is_recovering(),
            reads_by: self.fetches.method_now(),
        }
    }
}

/// The index as the tier's own work sees it.
pub(crate) struct FlashIndexAccess<'c> {
    cache: &'c Cache,
    /// The background's turn, if it is the background that works.
    turn: Option<RefCell<&'c mut TimeSlice>>,
}

impl<'c> FlashIndexAccess<'c> {
    pub(crate) fn new(cache: &'c Cache) -> Self {
        Self { cache, turn: None }
    }

    /// For the background, which ends its turn between pieces of work.
    pub(crate) fn with_turn(cache: &'c Cache, turn: &'c mut TimeSlice) -> Self {
        Self { cache, turn: Some(RefCell::new(turn)) }
    }

    fn count_removed(&self, is_removed: bool) -> bool {
        if let Some(tier) = self.cache.flash.as_deref().filter(|_| is_removed) {
            tier.counters.items.fetch_sub(1, Ordering::Relaxed);
        }
        is_removed
    }
}

impl ::flash::IndexAccess for FlashIndexAccess<'_> {
    fn accesses(&self, hash: u64, place: Place) -> Option<u8> {
        let guard = self.cache.epochs.pin();
        let found = self.cache.find_on_flash(&guard, Hash(hash));
        found.filter(|found| found.is_same(place)).map(Place::accesses)
    }

    fn is_spare(&self, hash: u64, place: Place) -> bool {
        self.cache.is_spare(&self.cache.epochs.pin(), Hash(hash), place)
    }

    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool {
        let guard = self.cache.epochs.pin();
        self.cache.update_on_flash(&guard, Hash(hash), from, |_| (Some(to), ())).is_some()
    }

    fn remove(&self, hash: u64, place: Place) -> bool {
        let guard = self.cache.epochs.pin();
        let removed = self.cache.update_on_flash(&guard, Hash(hash), place, |_| (None, ()));
        self.count_removed(removed.is_some())
    }

    fn remove_spare(&self, hash: u64, place: Place) -> bool {
        let guard = self.cache.epochs.pin();
        self.count_removed(self.cache.remove_spare(&guard, Hash(hash), place))
    }

    fn remove_where(&self, is_gone: &dyn Fn(Place) -> bool) -> u64 {
        let (mut at, mut count) = (Some(Hash(0)), 0);
        while let Some(hash) = at {
            at = self.cache.purge_flash(&self.cache.epochs.pin(), hash, is_gone, &mut count);
            self.yield_now();
        }
        if let Some(tier) = self.cache.flash.as_deref() {
            tier.counters.items.fetch_sub(count, Ordering::Relaxed);
        }
        count
    }

    fn yield_now(&self) {
        if let Some(turn) = &self.turn {
            turn.borrow_mut().end_if_long(&*self.cache.clock);
        }
    }

    fn insert(&self, hash: u64, place: Place) -> Inserted {
        let (cache, hash) = (self.cache, Hash(hash));
        let Some(tier) = &cache.flash else { return Inserted::Outdated };
        let guard = cache.epochs.pin();
        // Before the word can leave again.
        tier.counters.items.fetch_add(1, Ordering::Relaxed);
        let led = cache.lead_to_flash(&guard, hash, None, place, |present| {
            present.is_none() && !tier.flash.has_changed(hash.0)
        });
        tier.counters.items.fetch_sub(u64::from(led != Ok(true)), Ordering::Relaxed);
        match led {
            Ok(true) => Inserted::There,
            Ok(false) => Inserted::Outdated,
            Err(index::Full::NoMemory) => Inserted::Full,
            Err(index::Full::Unplaceable) => Inserted::Unplaceable,
        }
    }

    fn takes_found(&self) -> bool {
        !self.cache.is_short_of_words()
    }

    fn make_room(&self) {
        self.cache.give_slabs_to_index();
    }
}

impl std::fmt::Debug for FlashTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlashTier").field("counters", &self.counters).finish_non_exhaustive()
    }
}
