//! The compressed zone as a tier: how items are demoted to it, read there, and promoted.
//!
//! A key is in one tier at most, as readers see it:
//!
//! - A change that enters a key into the index first marks its row in the zone dead, under the lock
//!   of its index table. So while the index has a key, none of its rows is alive, and a reader that
//!   found it there need not look further: an overwrite, an eviction, an expiry touch the hot zone
//!   only.
//! - The background demotes an item in one step under the same lock: the copy in the zone, born
//!   dead, is revealed, and the key leaves the index, if the item is still the one that was copied.
//! - A change of an item in the zone first promotes it ([`Session::promote`]), so that every
//!   command works on hot items only; the zone serves only reads.
//!
//! A reader looks into the index and then into the zone. Between the two an item may be promoted:
//! the reader finds its row dead and looks once more into the index. While the table is locked, the
//! item is in neither, so a reader that passed a dead row which may have been the key's waits for
//! the lock. (Where the block is built anew without that row in this very moment, it misses.)
//!
//! Locks nest in one order: a shard of the zone, then a table of the index. Marking a key dead
//! takes no lock, nor does a look-up, with the exception above.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bumpalo::Bump;
use compressed::{Hit, Reader, ReaderCounts, Zone};
use hot::mark::FETCHED;
use hot::{Fields, ItemRef};
use index::Hash;
use policy::cost::Cost;
use policy::split::Rule;
use stdx::sync::lock;

use crate::adapt::Ghosts;
use crate::cache::Cache;
use crate::compressed_admission::Left;
use crate::item::Item;
use crate::pending_reads::OnReadFailure;
use crate::places::{Fate, Found, Present};
use crate::session::Session;
use crate::stats::CompressedStats;
use crate::types::{Refusal, row_expiry};

/// Bytes of values from lower tiers beyond which a session had better end.
const ROWS_BYTES_MAX: usize = 1 << 20;
/// Given to the zone as the time, so that it returns expired rows too: readers compare to the ms.
const WHENEVER: u32 = 0;
/// Of this many reads of the zone, one is timed.
const TIMED_SHARE: u64 = 16;
/// Mutations in a tick, the unit of time between two reads of an item in the zone.
const TICK_MUTATIONS_LOG2: u32 = 6;

/// The compressed zone and what its readers share.
pub(crate) struct CompressedTier {
    pub(crate) zone: Zone,
    /// Readers that no session has at the moment: as many as were in use at the same time.
    readers: Mutex<Vec<Reader>>,
    pub(crate) counters: Counters,
    pub(crate) ghosts: Arc<Ghosts>,
    /// The rule that divides the memory.
    pub(crate) rule: Rule,
    /// Threads that serve at the same time, as far as there are processors for them.
    pub(crate) serving_threads: u64,
}

/// Counts of moves and reads of the tiers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Reads served from the hot zone.
    pub(crate) hot_hits: AtomicU64,
    /// Reads served from the zone.
    pub(crate) hits: AtomicU64,
    /// Items that were demoted to the zone.
    pub(crate) demoted: AtomicU64,
    /// Items that were promoted from it.
    pub(crate) promoted: AtomicU64,
    /// Items that changed while they were demoted.
    pub(crate) changed: AtomicU64,
    /// Items that the zone did not take.
    pub(crate) refused: AtomicU64,
    /// Items that left the cache for lack of time, or that a store evicted before their turn came.
    pub(crate) throttled: AtomicU64,
    /// Items that left the cache because they were not read, and not worth demoting.
    pub(crate) passed_over: AtomicU64,
    /// Items that moved on to flash to make room.
    pub(crate) spilled: AtomicU64,
    /// Items that left the cache to make room.
    pub(crate) left: AtomicU64,
    /// Items that had to leave anyway, since their prefix was being flushed.
    pub(crate) flushed: AtomicU64,
    /// Microseconds of processor time that demoting items took.
    pub(crate) demote_us: AtomicU64,
    /// Microseconds of processor time that reading items in the zone took, by a sample.
    pub(crate) read_us: AtomicU64,
    /// Look-ups in the zone.
    pub(crate) lookups: AtomicU64,
    /// Of `lookups`, those that found the key absent without decoding anything.
    pub(crate) filtered: AtomicU64,
    /// Frames that were decoded, and of these in vain.
    pub(crate) decoded: [AtomicU64; 2],
    /// Blocks, frames and long values that lookups found damaged.
    pub(crate) damaged: AtomicU64,
    /// Steps of memory that the zone lost, and that it got.
    pub(crate) steps: [AtomicU64; 2],
}

/// An item that was read in a lower tier: a copy that lives as long as its session.
#[derive(Debug)]
pub(crate) struct Row<'s> {
    pub(crate) key: &'s [u8],
    pub(crate) value: &'s [u8],
    pub(crate) fields: Fields,
    /// The bits of its mark that were demoted with it.
    pub(crate) mark: u8,
}

/// An item that is to be promoted.
pub(crate) struct PromotedItem<'r> {
    pub(crate) row: &'r Row<'r>,
    pub(crate) hash: Hash,
    /// Bits of its mark beside those of a new item.
    pub(crate) mark_bits: u8,
    /// Its place on flash, if it was read there.
    pub(crate) from: Option<::flash::Place>,
    /// The count of flushes before it was read.
    pub(crate) flushes: u64,
}

/// Whether a read counts as an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    Leave,
    None,
}

/// The outcome of reading a key in the zone.
enum Read<'s> {
    /// A copy of its item.
    Alive(&'s Row<'s>, Hit<'s>),
    /// The item has expired.
    Over(Hit<'s>),
}

/// Where an item was that a request wants in the hot zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promoted {
    /// In the compressed zone.
    Compressed,
    /// On flash.
    Flash,
    /// Another thread has promoted it, or is about to: it is worth looking once more.
    Already,
    Nowhere,
}

/// A session's means of reading lower tiers, lent by [`CompressedTier`] when it is first needed.
pub(crate) struct TierReads<'c> {
    compressed: Option<&'c CompressedTier>,
    reader: RefCell<Option<Reader>>,
    rows: Bump,
    hot_hits: Cell<u64>,
}

impl Counters {
    /// Adds the counts of a session's look-ups.
    fn add(&self, counts: ReaderCounts) {
        let add = |counter: &AtomicU64, count| _ = counter.fetch_add(count, Ordering::Relaxed);
        add(&self.lookups, counts.lookups);
        add(&self.filtered, counts.filtered);
        add(&self.decoded[0], counts.decoded);
        add(&self.decoded[1], counts.decoded_in_vain);
        add(&self.damaged, counts.damaged);
    }
}

impl CompressedTier {
    /// Returns a tier with nothing in it yet.
    pub(crate) fn new(zone: Zone, rule: Rule, threads: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            zone,
            readers: Mutex::default(),
            counters: Counters::default(),
            ghosts: Arc::default(),
            rule,
            serving_threads: threads.clamp(1, processors) as u64,
        }
    }

    /// Runs `work` with a reader that no session has.
    pub(crate) fn with_any_reader<R>(&self, work: impl FnOnce(&mut Reader) -> R) -> R {
        let mut reader = lock(&self.readers).pop().unwrap_or_default();
        let result = work(&mut reader);
        self.give_back(reader);
        result
    }

    /// Keeps a reader for the next session.
    fn give_back(&self, mut reader: Reader) {
        reader.shrink_buffers();
        lock(&self.readers).push(reader);
    }

    /// Returns the bytes on the heap that neither slabs nor tables count.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.zone.heap_bytes() + Ghosts::MEMORY_BYTES
    }

    /// Returns all counts but the hot zone's own.
    pub(crate) fn stats(&self) -> CompressedStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        // Before the zone counts them.
        let (spilled, left) = (read(&counters.spilled), read(&counters.left));
        let flushed = read(&counters.flushed);
        let zone = self.zone.stats();
        CompressedStats {
            spilled,
            left,
            flushed,
            damaged: zone.damaged + read(&counters.damaged),
            zone,
            budget_slabs: self.zone.budget_slabs(),
            hot_hits: read(&counters.hot_hits),
            hits: read(&counters.hits),
            ghost_hits: self.ghosts.hits(),
            demoted: read(&counters.demoted),
            promoted: read(&counters.promoted),
            changed: read(&counters.changed),
            refused: read(&counters.refused),
            throttled: read(&counters.throttled),
            passed_over: read(&counters.passed_over),
            demote_us: read(&counters.demote_us),
            read_us: read(&counters.read_us),
            lookups: read(&counters.lookups),
            filtered: read(&counters.filtered),
            decoded: read(&counters.decoded[0]),
            decoded_in_vain: read(&counters.decoded[1]),
            shrunk: read(&counters.steps[0]),
            grown: read(&counters.steps[1]),
        }
    }
}

impl<'c> TierReads<'c> {
    pub(crate) fn new(cache: &'c Cache) -> Self {
        Self {
            compressed: cache.compressed.as_deref(),
            reader: RefCell::default(),
            rows: Bump::new(),
            hot_hits: Cell::new(0),
        }
    }

    /// Returns the memory for copies of rows.
    pub(crate) fn rows(&self) -> &Bump {
        &self.rows
    }

    /// Counts a hit in the hot zone.
    #[inline(always)]
    pub(crate) fn count_hot(&self) {
        self.hot_hits.set(self.hot_hits.get() + 1);
    }

    /// Runs `work` with the session's reader.
    fn with_reader<R>(
        &self,
        compressed: &CompressedTier,
        work: impl FnOnce(&mut Reader) -> R,
    ) -> R {
        let mut lent = self.reader.borrow_mut();
        let reader =
            lent.get_or_insert_with(|| lock(&compressed.readers).pop().unwrap_or_default());
        work(reader)
    }
}

impl Drop for TierReads<'_> {
    fn drop(&mut self) {
        let Some(compressed) = self.compressed else {
            return;
        };
        compressed.counters.hot_hits.fetch_add(self.hot_hits.get(), Ordering::Relaxed);
        if let Some(mut reader) = self.reader.take() {
            compressed.counters.add(reader.take_counts());
            compressed.give_back(reader);
        }
    }
}

impl std::fmt::Debug for TierReads<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierReads").field("row_bytes", &self.rows.allocated_bytes()).finish()
    }
}

impl Session<'_> {
    /// Whether the session holds so much that it should end before it serves more requests.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.has_lower() && self.lower.rows.allocated_bytes() >= ROWS_BYTES_MAX
    }

    /// Returns the bytes that copies of rows take: more after a read that a lower tier served.
    pub fn lower_bytes(&self) -> usize {
        self.lower.rows.allocated_bytes() - self.lower.rows.chunk_capacity()
    }

    /// Whether there is a lower tier.
    #[inline]
    pub(crate) fn has_lower(&self) -> bool {
        self.lower.compressed.is_some() || self.cache.flash.is_some()
    }

    /// Returns the key's item for a reader that did not find it in the index. An item whose mark
    /// has a bit of `elsewhere`, which send the reader elsewhere, is not counted and stays where it
    /// is.
    #[inline(never)]
    pub(crate) fn get_compressed(&self, key: &[u8], hash: Hash, elsewhere: u8) -> Option<Item<'_>> {
        let compressed = self.lower.compressed?;
        // By the hash as well: between two hits there may be any number of misses.
        let hits = compressed.counters.hits.load(Ordering::Relaxed);
        let is_timed = hash.0.wrapping_add(hits).is_multiple_of(TIMED_SHARE);
        let began_us = if is_timed { self.cache.clock.thread_cpu_us() } else { 0 };
        let flushes = self.cache.moment.flush.settled_count();
        let Some((row, hit)) = self.seek_compressed(compressed, key, hash, Trace::Leave) else {
            let Some(found) = self.find_promoted(key, hash) else {
                self.note_miss_compressed(hash);
                return None;
            };
            return Some(Item::hot(self.cache, found, self.mark_hit(found)));
        };
        if row.mark & elsewhere != 0 {
            return Some(Item::compressed(self.cache, row));
        }
        compressed.counters.hits.fetch_add(1, Ordering::Relaxed);
        if is_timed {
            let us = self.cache.clock.thread_cpu_us().saturating_sub(began_us);
            compressed.counters.read_us.fetch_add(us * TIMED_SHARE, Ordering::Relaxed);
        }
        if self.cache.deserves_promotion(row, &hit) {
            // A row that finds no memory in the hot zone stays where it is.
            let _ = self.promote_row(compressed, hash, row, row.mark | FETCHED, &hit, flushes);
        }
        Some(Item::compressed(self.cache, row))
    }

    /// Returns the key's item, without a trace, for a reader that did not find it in the index.
    pub(crate) fn peek_compressed(&self, key: &[u8], hash: Hash) -> Option<Item<'_>> {
        let read = self.read_compressed(self.lower.compressed?, key, hash, Trace::None);
        if let Some(Read::Alive(row, _)) = read {
            return Some(Item::compressed(self.cache, row));
        }
        let found = self.find_promoted(key, hash)?;
        Some(Item::hot(self.cache, found, found.item.mark().load(Ordering::Relaxed)))
    }

    /// Returns the key's item in the hot zone, for a reader that has not found it in the zone: it
    /// may have been promoted since the index was looked at.
    fn find_promoted(&self, key: &[u8], hash: Hash) -> Option<Found<'_>> {
        let found = self.find_present(key, hash);
        if found.is_some() || !self.met_dead() {
            return found;
        }
        if self.is_hot_decided(key, hash) { self.find_present(key, hash) } else { None }
    }

    /// Whether the last look-up in the zone passed a dead row that may have been the key's.
    fn met_dead(&self) -> bool {
        self.lower.reader.borrow().as_ref().is_some_and(Reader::met_dead)
    }

    /// Whether the hot zone has the key's item once the change of the key that is under way is
    /// done. A promotion, or a replacement, lets the row die before the index leads to the new
    /// item, and holds the lock of its table meanwhile.
    fn is_hot_decided(&self, key: &[u8], hash: Hash) -> bool {
        self.cache.is_hot_decided(&self.guard, hash, |item: ItemRef<'_>| item.has_key(key))
    }

    /// Promotes the key's item if it is in a lower tier; `unread` says what becomes of one on flash
    /// that cannot be read. An item that has become too large for the hot zone is dropped: after a
    /// limit of items or of a quota was lowered, it could be read for ever, but not changed.
    pub(crate) fn promote(
        &self,
        key: &[u8],
        hash: Hash,
        unread: OnReadFailure,
    ) -> Result<Promoted, Refusal> {
        // Before the item is looked at: a flush from here on must be noticed.
        let flushes = self.cache.moment.flush.settled_count();
        if let Some(compressed) = self.lower.compressed
            && let Some((row, hit)) = self.seek_compressed(compressed, key, hash, Trace::None)
        {
            match self.promote_row(compressed, hash, row, row.mark, &hit, flushes) {
                Err(Refusal::TooLarge) => _ = self.drop_row(compressed, hash, key, &hit),
                promoted => promoted?,
            }
            return Ok(Promoted::Compressed);
        }
        if self.cache.flash.is_some() && self.promote_from_flash(key, hash, flushes, unread)? {
            return Ok(Promoted::Flash);
        }
        if !self.has_lower() {
            return Ok(Promoted::Nowhere);
        }
        if self.find_present(key, hash).is_some() {
            return Ok(Promoted::Already);
        }
        // A reader waits for a promotion under way only if it has met a sign of one, as in
        // [`Self::find_promoted`]. A request that is told that there was nothing to change must not
        // find it afterwards: it always waits, since the sign is lost where a block is built anew.
        let waits = unread == OnReadFailure::Goes || self.met_dead();
        let is_above = waits && self.is_hot_decided(key, hash);
        Ok(if is_above { Promoted::Already } else { Promoted::Nowhere })
    }

    /// Counts a read of an item that is in the hot zone now, by the tier where it was before.
    #[inline]
    pub(crate) fn count_served(&self, promoted: Option<Promoted>) {
        match (promoted, self.lower.compressed, &self.cache.flash) {
            (Some(Promoted::Compressed), Some(compressed), _) => {
                compressed.counters.hits.fetch_add(1, Ordering::Relaxed);
            }
            (Some(Promoted::Flash), _, Some(tier)) => {
                tier.counters.hits.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.lower.count_hot(),
        }
    }

    /// Notes a miss in memory, for the division of memory between the zones.
    pub(crate) fn note_miss_compressed(&self, hash: Hash) {
        if let Some(compressed) = self.lower.compressed {
            compressed.ghosts.miss(hash.0);
            self.cache.missed(hash);
        }
    }

    /// Marks the key's row in the zone dead. Only under the lock of the key's index table. Returns
    /// whether there was one that readers would have got.
    #[inline]
    pub(crate) fn forget_compressed(&self, key: &[u8], hash: Hash) -> bool {
        let Some(compressed) = self.lower.compressed else {
            return false;
        };
        let removed = |reader: &mut _| compressed.zone.remove(&self.guard, hash.0, key, reader);
        let fields = self.lower.with_reader(compressed, removed);
        fields.is_some_and(|fields| !self.cache.is_compressed_gone(key, &fields))
    }

    /// Visits the items of the zone's next leaves. Returns `false` at the end.
    pub(crate) fn dump_compressed(
        &self,
        cursor: &mut compressed::Cursor,
        leaves_max: usize,
        mut visit: impl FnMut(&Item<'_>),
    ) -> bool {
        let Some(compressed) = self.lower.compressed else {
            return false;
        };
        let now = self.cache.now();
        self.lower.with_reader(compressed, |reader| {
            compressed.zone.walk(&self.guard, cursor, leaves_max, now, reader, |record, _| {
                if self.cache.is_compressed_gone(record.key, &record.fields) {
                    return;
                }
                let fields = hot_fields(&record.fields);
                let mark = record.fields.mark;
                let row = Row { key: record.key, value: record.value, fields, mark };
                visit(&Item::compressed(self.cache, &row));
            })
        })
    }

    /// Whether the key's item is in the zone. Asked under the lock of the key's index table: a
    /// value that lies alone is not decoded for it.
    pub(crate) fn is_compressed(&self, key: &[u8], hash: Hash) -> bool {
        let Some(compressed) = self.lower.compressed else {
            return false;
        };
        let now = self.cache.now();
        self.lower.with_reader(compressed, |reader| {
            let fields = compressed.zone.fields_of(&self.guard, hash.0, key, now, reader);
            fields.is_some_and(|fields| !self.cache.is_compressed_gone(key, &fields))
        })
    }

    /// Returns the cost of the key's item in the zone. Asked as [`Self::is_compressed`].
    pub(crate) fn compressed_cost(&self, key: &[u8], hash: Hash) -> Option<Cost> {
        let compressed = self.lower.compressed?;
        let now = self.cache.now();
        let fields =
            |reader: &mut _| compressed.zone.fields_of(&self.guard, hash.0, key, now, reader);
        self.lower.with_reader(compressed, fields).map(|fields| fields.cost)
    }

    /// Returns a copy of the key's item in the zone, and its place. Counts and drops an expired
    /// one.
    fn seek_compressed(
        &self,
        compressed: &CompressedTier,
        key: &[u8],
        hash: Hash,
        trace: Trace,
    ) -> Option<(&Row<'_>, Hit<'_>)> {
        let (row, hit) = match self.read_compressed(compressed, key, hash, trace)? {
            Read::Alive(row, hit) => (row, hit),
            Read::Over(hit) => {
                if self.drop_row(compressed, hash, key, &hit) {
                    self.cache.count_over();
                }
                return None;
            }
        };
        Some((row, hit))
    }

    /// Reads a key in the zone.
    fn read_compressed(
        &self,
        compressed: &CompressedTier,
        key: &[u8],
        hash: Hash,
        trace: Trace,
    ) -> Option<Read<'_>> {
        let (cache, guard, rows) = (self.cache, &self.guard, &self.lower.rows);
        self.lower.with_reader(compressed, |reader| {
            let hit = match trace {
                Trace::Leave => compressed.zone.find(
                    guard,
                    hash.0,
                    key,
                    WHENEVER,
                    cache.tick_of_now(),
                    reader,
                )?,
                Trace::None => compressed.zone.peek(guard, hash.0, key, WHENEVER, reader)?,
            };
            if cache.is_compressed_flushed(key) {
                return None;
            }
            if cache.is_expired(row_expiry(&hit.fields)) {
                return Some(Read::Over(hit));
            }
            let row: &Row<'_> = rows.alloc(Row {
                key: rows.alloc_slice_copy(key),
                value: rows.alloc_slice_copy(reader.value()),
                fields: hot_fields(&hit.fields),
                mark: hit.fields.mark,
            });
            Some(Read::Alive(row, hit))
        })
    }

    /// Promotes a row, with these bits of its mark, if it is still alive and nothing was flushed
    /// since before it was read.
    fn promote_row(
        &self,
        compressed: &CompressedTier,
        hash: Hash,
        row: &Row<'_>,
        mark_bits: u8,
        hit: &Hit<'_>,
        flushes: u64,
    ) -> Result<(), Refusal> {
        let copy = PromotedItem { row, hash, mark_bits, from: None, flushes };
        let promoted = self.enter_copy(&copy, |_| compressed.zone.remove_hit(hit))?;
        compressed.counters.promoted.fetch_add(u64::from(promoted), Ordering::Relaxed);
        self.cache.remember(hash, Left::Otherwise);
        Ok(())
    }

    /// Drops a row that has expired, or that is too large for the hot zone: requests that want it
    /// would meet it again and again. Returns whether it was still there.
    #[cold]
    fn drop_row(&self, compressed: &CompressedTier, hash: Hash, key: &[u8], hit: &Hit<'_>) -> bool {
        let is_key = |item: ItemRef<'_>| item.has_key(key);
        self.cache.update_or_note(&self.guard, hash, is_key, |_| {
            (Fate::Keep, compressed.zone.remove_hit(hit))
        })
    }

    /// Enters a copy of an item that was read in a lower tier into the hot zone, if the key has
    /// none there, if nothing was flushed since before it was read, and if `leaves`, asked under
    /// the key's lock, takes it from where it was. Returns whether it did.
    pub(crate) fn enter_copy(
        &self,
        copy: &PromotedItem<'_>,
        leaves: impl FnOnce(Present<'_>) -> bool,
    ) -> Result<bool, Refusal> {
        let (cache, row) = (self.cache, copy.row);
        let mut draft = cache.reserve_fields(row.key, copy.hash, &row.fields, row.value.len())?;
        draft.write(row.value);
        // Taken only to be published: dropping it takes a class's lock, which comes before those of
        // the index.
        let mut pending = Some(draft.hot);
        let is_key = |item: ItemRef<'_>| item.has_key(row.key);
        let entered = cache.promote(&self.guard, copy.hash, is_key, copy.from, |present| {
            let sequence = cache.next_sequence();
            // After the number was taken: a flush that is not noticed here has a higher one.
            let goes = present.hot.is_none()
                && cache.moment.flush.is_unchanged_since(copy.flushes)
                && leaves(present);
            if !goes {
                return (Fate::Keep, false);
            }
            let draft = pending.take().expect("decided once");
            let (sequence, mark_bits) = (sequence as u32, copy.mark_bits);
            (Fate::Publish { draft, sequence, mark_bits }, true)
        });
        match entered {
            Ok(entered) => Ok(entered),
            // Where the index leads to flash there is always room: it leads there no more.
            Err(_) if copy.from.is_some() => Ok(false),
            Err(full) => Err(cache.refusal_of(full)),
        }
    }
}

impl Cache {
    /// Returns the error for a full index. If it gets room, that comes only when this session,
    /// which still sees the slab, has ended.
    fn refusal_of(&self, full: index::Full) -> Refusal {
        match full {
            index::Full::NoMemory if self.make_room_for_index() => Refusal::SessionTooLong,
            index::Full::NoMemory | index::Full::Unplaceable => Refusal::NoMemory,
        }
    }

    /// Returns the time in ticks, by which it is measured how soon an item in the zone is read
    /// again: it counts mutations, as the ages of hot items do.
    fn tick_of_now(&self) -> u32 {
        (self.sequence.load(Ordering::Relaxed) >> TICK_MUTATIONS_LOG2) as u32
    }

    /// Whether readers no longer get an item that was found in the zone.
    fn is_compressed_gone(&self, key: &[u8], fields: &compressed::Fields) -> bool {
        self.is_expired(row_expiry(fields)) || self.is_compressed_flushed(key)
    }

    /// Whether an item in the zone is read again so soon that it would still be in the hot zone if
    /// it had been promoted at its last read.
    fn deserves_promotion(&self, row: &Row<'_>, hit: &Hit<'_>) -> bool {
        let Some(ticks) = hit.reuse_ticks else {
            return false;
        };
        if self.hot.is_memory_pressed() {
            return false;
        }
        let layout = self.hot.layout(&row.fields, row.key.len(), row.value.len());
        let class = self.hot.class_of(&layout);
        u64::from(ticks) << TICK_MUTATIONS_LOG2 < self.hot.stay_mutations(class, self)
    }
}

/// Returns a row's fields as the hot zone has them.
pub(crate) fn hot_fields(fields: &compressed::Fields) -> Fields {
    Fields {
        flags: fields.flags,
        expiry: fields.expiry,
        early_ms: fields.early_ms,
        expiry_reserved: false,
        custom_cas: fields.custom_cas,
        base64_key: fields.base64_key,
        cost: fields.cost,
        cost_reserved: false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::types::{Expiry, Fetch};

    /// Returns a cache, with an item that is in the compressed zone alone.
    fn with_one_compressed(memory_bytes: usize, key: &[u8], value: &[u8]) -> Cache {
        let builder = Cache::builder().memory_bytes(memory_bytes).compress(true);
        let cache = builder.build().expect("a small cache");
        cache.maintain();
        let zone = &cache.compressed.as_ref().expect("it has a zone").zone;
        let record = compressed::Record { key, value, fields: compressed::Fields::default() };
        let (hash, writer) = (cache.hash(key).0, &mut compressed::Writer::new(zone));
        zone.insert(hash, &record, cache.now(), writer, |_, newcomer| newcomer.reveal())
            .expect("there is room");
        cache
    }

    /// Regression: a promotion lets the row die before the index leads to the new item, and a
    /// reader that came between the two missed.
    #[test]
    fn a_reader_finds_an_item_during_its_promotion() {
        type Look = fn(&Session<'_>, &[u8], Hash) -> bool;
        let looks: [Look; 5] = [
            |session, key, hash| session.get(key, hash).is_some(),
            |session, key, hash| session.peek(key, hash).is_some(),
            |session, key, hash| session.get_with_cas(key, hash).is_ok_and(|it| it.is_some()),
            |session, key, hash| {
                session.fetch(key, hash, &Fetch::default()).is_ok_and(|(it, _)| it.is_some())
            },
            |session, key, hash| {
                session.get_and_touch(key, hash, Expiry::NEVER).is_ok_and(|it| it.is_some())
            },
        ];
        for look in looks {
            let cache = with_one_compressed(64 << 20, b"k", b"v");
            let (session, hash) = (cache.session(), cache.hash(b"k"));
            let compressed = session.lower.compressed.expect("it has a zone");
            let (row, hit) =
                session.seek_compressed(compressed, b"k", hash, Trace::None).expect("it is there");
            let flushes = cache.moment.flush.settled_count();
            let copy = PromotedItem { row, hash, mark_bits: row.mark, from: None, flushes };
            let (tell, told) = mpsc::channel();
            let found = thread::scope(|scope| {
                let mut early = None;
                let leaves = |_: Present<'_>| {
                    let leaves = compressed.zone.remove_hit(&hit);
                    let cache = &cache;
                    scope.spawn(move || tell.send(look(&cache.session(), b"k", hash)));
                    // A reader that waits for this lock does not answer.
                    early = told.recv_timeout(Duration::from_millis(50)).ok();
                    leaves
                };
                assert_eq!(session.enter_copy(&copy, leaves), Ok(true));
                early.or_else(|| told.recv().ok())
            });
            assert_eq!(found, Some(true));
        }
    }

    /// Regression: each miss took its table's lock, and one of `fetch` looked twice into the zone.
    #[test]
    fn a_miss_waits_for_no_lock_and_looks_once() {
        type Look = fn(&Session<'_>, &[u8], Hash) -> bool;
        let looks: [Look; 3] = [
            |session, key, hash| session.get(key, hash).is_some(),
            |session, key, hash| session.get_with_cas(key, hash).is_ok_and(|it| it.is_some()),
            |session, key, hash| {
                session.fetch(key, hash, &Fetch::default()).is_ok_and(|(it, _)| it.is_some())
            },
        ];
        let cache = with_one_compressed(64 << 20, b"k", b"v");
        let hash = cache.hash(b"absent");
        let lookups = || cache.stats().compressed.map(|zone| zone.lookups).expect("it has a zone");
        for look in looks {
            let ((tell, told), before) = (mpsc::channel(), lookups());
            let found = thread::scope(|scope| {
                let guard = cache.epochs.pin();
                cache.update(
                    &guard,
                    hash,
                    |_| false,
                    |_| {
                        let cache = &cache;
                        scope.spawn(move || tell.send(look(&cache.session(), b"absent", hash)));
                        (Fate::Keep, told.recv_timeout(Duration::from_secs(10)))
                    },
                )
            });
            assert_eq!((found, lookups() - before), (Ok(Ok(false)), 1));
        }
    }

    /// Regression: a reader kept the memory that the longest value of its sessions had taken.
    #[test]
    fn a_reader_that_no_session_has_keeps_little() {
        let value = vec![7; 1 << 20];
        let cache = with_one_compressed(1 << 30, b"k", &value);
        assert!(cache.get(b"k") == Some(value));
        let compressed = cache.compressed.as_ref().expect("it has a zone");
        assert!(compressed.with_any_reader(|reader| reader.memory_bytes()) < 512 << 10);
    }

    #[test]
    fn damage_found_by_readers_is_counted() {
        let builder = Cache::builder().memory_bytes(64 << 20).compress(true);
        let cache = builder.build().expect("a small cache");
        let compressed = cache.compressed.as_ref().expect("it has a zone");
        compressed.counters.add(ReaderCounts { damaged: 3, ..ReaderCounts::default() });
        assert_eq!(cache.stats().compressed.map(|zone| zone.damaged), Some(3));
    }

    /// Regression: a key was reported absent, or out of memory, though a new session got memory.
    #[test]
    fn an_index_that_gets_room_later_asks_for_another_session() {
        let cache = Cache::builder().memory_bytes(8 << 20).build().expect("a small cache");
        let full = index::Full::NoMemory;
        assert_eq!(cache.refusal_of(full), Refusal::NoMemory, "there is nothing to give up");
        for number in 0..20_000_u32 {
            cache.set(&number.to_be_bytes(), &[7; 500], Expiry::NEVER).expect("others give way");
        }
        assert_eq!(cache.refusal_of(full), Refusal::SessionTooLong);
        assert_eq!(cache.refusal_of(index::Full::Unplaceable), Refusal::NoMemory);
    }
}
