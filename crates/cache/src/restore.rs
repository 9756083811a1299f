//! Reading an image back into a cache that is still empty: what a start does before it serves
//! requests ([`crate::image`] wrote it).
//!
//! Blocks are taken from the end, so that the most valuable items come last: the items evicted for
//! them were the least valuable of all. An item goes to the tier where it was. In the compressed
//! zone it is packed directly, with the same result as a demotion; if that has no room for it, it
//! goes to the hot zone, and the background's turns, taken in between, demote the items that the
//! hot zone has no room for. So the memory limit holds at every moment, as for stores. As many
//! items fit as did, because the zone begins with the dictionary and the share of the memory that
//! it had, and the index with the tables that it will need.
//!
//! Where nothing may be evicted, blocks are taken from the beginning instead: the items that come
//! first stay, and so they have to be the most valuable. When a size class has refused some items,
//! others for it are left out without a try: no item leaves meanwhile, and each try looks through
//! thousands of chunks for expired ones. 40,000 items without room took 40 seconds otherwise.
//!
//! Packing takes most of the time, and any number of threads do it. One fills the hot zone: of two,
//! one evicts while the other demotes items to make room for both, which at 32 MiB lost up to 1.5 %
//! of all items, where one thread loses 0.1 %.
//!
//! An item of the hot zone has its old number, and so its CAS unique: the sequence goes on from
//! where the image was written ([`crate::Builder::image`]), and a number is told by its low half
//! from there as ever.
//!
//! # Time
//!
//! Expiry is absolute, so time passes for items while there is no process. A process goes by the
//! wall clock as it was when that process began, so the times of another one are moved:
//!
//! - If the wall clock was put back while that one ran, its times are ahead of the clock by that
//!   much, and become that much less. If it was put forward, or the machine slept, they stay: an
//!   item with a date from a client expires at that date, and one with a time to live no later than
//!   it should.
//! - If the wall clock is behind the moment of saving by a minute at most, as after it was set by a
//!   better one, time stood still since: times become that much less.
//! - If it is behind by more, it does not tell how long that was: items with an expiry might have
//!   expired, and do not come back, and none does if a flush was planned. Flash has the same rule.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;

use codec::image::{Block, Head, Reader, Source, Table, Tier};
use codec::record::Row;
use hot::ItemRef;
use hot::layout::KEY_BYTES_MAX;
use hot::mark::{FETCHED, SENT, STALE};
use policy::clock::RECENT;
use stdx::sync::lock;

use crate::cache::Cache;
use crate::compressed_tier::{CompressedTier, hot_fields};
use crate::places::Fate;
use crate::store::Draft;
use crate::types::Refusal;

/// Bits of a mark that come back beside its stamp.
const MARK_BITS: u8 = RECENT | FETCHED | SENT | STALE;
/// Attempts to make room for one item before it is left out.
const ROOM_ATTEMPTS: u32 = 8;
/// The most turns of the background before an item, while memory is short.
const TURNS_MAX: u32 = 8;
/// Items that a size class, or the index, refuses where nothing may be evicted, before it counts as
/// full. More than one, since a class may wait for a slab that the index gives up.
const REFUSALS_MAX: u8 = 8;

/// The outcome of restoring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Items that were stored.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Items that have expired, or may have, because the clock went backwards.
    pub expired: u64,
    /// Seconds that the clock is behind the moment of saving.
    pub behind_s: u32,
    /// Whether these are so many that items with an expiry, or all, count as expired.
    pub is_untimed: bool,
    /// Items that are too long now, or for which there was no memory.
    pub refused: u64,
    /// Items that were damaged.
    pub lost: u64,
    /// Whether the image has all its blocks, and none of them is damaged.
    pub is_whole: bool,
}

/// The outcome of restoring one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// It is there, with this many bytes.
    Back(u64),
    Expired,
    Refused,
    Lost,
}

impl Restored {
    fn count(&mut self, came: Came) {
        match came {
            Came::Back(bytes) => {
                self.items += 1;
                self.bytes += bytes;
            }
            Came::Expired => self.expired += 1,
            Came::Refused => self.refused += 1,
            // Items that neither came back nor had a reason not to are computed in the end.
            Came::Lost => {}
        }
    }

    fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.expired += other.expired;
        self.refused += other.refused;
    }
}

/// How times in an image are moved.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Whether the clock says how much time has passed.
    are_known: bool,
    /// The seconds by which they are ahead.
    ahead_s: u32,
    /// The seconds by which the clock is behind the moment of saving.
    behind_s: u32,
}

impl Times {
    /// Returns the times of an image with this head, for a process whose clock says `now`.
    fn new(head: &Head, now: u32) -> Self {
        let wall_at = head.wall_at.unwrap_or(head.saved_at);
        let behind_s = wall_at.saturating_sub(now);
        let ahead_s = head.saved_at.saturating_sub(wall_at.min(now));
        Self { are_known: behind_s <= flash::STANDSTILL_MAX_S, ahead_s, behind_s }
    }

    /// Returns a time of the image, in seconds, as this process has it; 0 is none.
    fn moved(self, second: u32) -> u32 {
        if second == 0 { 0 } else { second.saturating_sub(self.ahead_s).max(1) }
    }
}

/// An image that is being read.
struct Restoring<'c> {
    cache: &'c Cache,
    source: &'c dyn Source,
    table: Table,
    /// Blocks of items that no thread has taken yet.
    left: Mutex<Range<usize>>,
    times: Times,
}

impl Cache {
    /// Stores the items of an image, with this many threads. For a start, before other threads have
    /// the cache, which was built with this head ([`crate::Builder::image`]).
    ///
    /// # Errors
    ///
    /// The source cannot be read; then nothing was stored.
    pub fn restore(
        &self,
        source: &dyn Source,
        head: &Head,
        threads: usize,
    ) -> std::io::Result<Restored> {
        self.tick();
        let table = Table::new(source, head)?;
        let is_whole = table.is_whole();
        let times = Times::new(head, self.clock.unix_seconds());
        let (items, flush_at) = (table.items(), times.moved(head.flush_at));
        let Times { behind_s, are_known, .. } = times;
        let restored = Restored { behind_s, is_untimed: !are_known, ..Restored::default() };
        if flush_at != 0 && (!times.are_known || flush_at <= self.now()) {
            return Ok(Restored { expired: items, is_whole, ..restored });
        }
        self.begin_restoring(table.dictionary(source), items);
        let left = Mutex::new(0..table.groups());
        let restoring = Restoring { cache: self, source, table, left, times };
        let mut restored = thread::scope(|scope| {
            let help = || restoring.work(false);
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(help)).collect();
            let mut restored = restored;
            restored.add(&restoring.work(true));
            for other in others {
                restored.add(&other.join().expect("a thread that restores does not panic"));
            }
            restored
        });
        lock(&self.chores).mover.is_hurried = false;
        io::heap::trim();
        // Only now, so that an item read after a flush cannot have escaped it.
        self.moment.flush.plan(flush_at);
        let came = restored.items + restored.expired + restored.refused;
        restored.lost = items.saturating_sub(came);
        restored.is_whole = is_whole && restored.lost == 0;
        Ok(restored)
    }

    /// Gives the compressed zone the dictionary and the share of the memory that it had when it
    /// held these items.
    fn begin_restoring(&self, dictionary: Option<Vec<u8>>, items: u64) {
        let mover = &mut lock(&self.chores).mover;
        if let Some(compressed) = self.compressed.as_deref() {
            if let Some(bytes) = dictionary {
                compressed.zone.adopt_dictionary(&bytes, items);
            }
            compressed.zone.set_budget_slabs(self.adapt(compressed, &mut mover.adaptation));
        }
        mover.is_hurried = true;
    }

    /// Enters a restored item into the hot zone, with this number if it had one there. Nothing is
    /// stored unless its whole value is in the draft.
    fn enter_restored(
        &self,
        draft: Draft<'_>,
        number: Option<u32>,
        mark: u8,
        full: &mut Full,
    ) -> bool {
        let hash = draft.hash;
        let key = draft.key().to_vec();
        if draft.remaining() > 0 {
            return false;
        }
        // Taken only to be published: dropping it takes a class's lock, which comes before those of
        // the index.
        let mut pending = Some(draft.hot);
        // A full table may have a neighbour that is not.
        let attempts = if self.is_full(full.index) { 1 } else { ROOM_ATTEMPTS };
        for attempt in 0..attempts {
            let guard = self.epochs.pin();
            let is_key = |item: ItemRef<'_>| item.has_key(&key);
            let entered = self.update(&guard, hash, is_key, |present| {
                if present.hot.is_some() {
                    return (Fate::Keep, false);
                }
                let sequence = number.unwrap_or_else(|| self.next_sequence() as u32);
                let draft = pending.take().expect("decided once");
                (Fate::Publish { draft, sequence, mark_bits: mark & MARK_BITS }, true)
            });
            match entered {
                Ok(is_entered) => {
                    if is_entered
                        && mark & !MARK_BITS != 0
                        && let Some(found) = self.find(&guard, &key, hash)
                    {
                        found.item.mark().store(mark, Ordering::Relaxed);
                    }
                    return is_entered;
                }
                Err(index::Full::Unplaceable) => return false,
                Err(index::Full::NoMemory) => {
                    drop(guard);
                    // Items whose room the index takes are demoted, if that suffices.
                    self.do_chores(&mut lock(&self.chores));
                    if attempt >= ROOM_ATTEMPTS / 2 {
                        self.make_room_for_index();
                    }
                    self.wait_for_memory();
                    self.hot.sweep();
                }
            }
        }
        full.index = full.index.saturating_add(1);
        false
    }

    /// Whether a class, or the index, that has refused this many items will refuse the others.
    fn is_full(&self, refusals: u8) -> bool {
        !self.may_evict && refusals >= REFUSALS_MAX
    }

    /// Reserves memory for an item that is restored.
    fn reserve_restored(&self, row: &Row<'_>, full: &mut Full) -> Option<Draft<'_>> {
        if row.value_bytes > self.item_bytes_max {
            return None;
        }
        let (hash, fields) = (self.hash(row.key), hot_fields(&row.fields));
        let layout = self.hot.layout(&fields, row.key.len(), row.value_bytes);
        let refusals = match layout.is_chained() {
            true => &mut full.pieces,
            false => &mut full.classes[usize::from(self.hot.class_of(&layout).0)],
        };
        if self.is_full(*refusals) {
            return None;
        }
        // Items that a store would evict are demoted instead.
        for _ in 0..TURNS_MAX {
            if self.compressed.is_none()
                || !self.hot.is_memory_pressed()
                || !self.do_chores(&mut lock(&self.chores))
            {
                break;
            }
        }
        for _ in 0..ROOM_ATTEMPTS {
            match self.reserve_fields(row.key, hash, &fields, row.value_bytes) {
                Ok(draft) => return Some(draft),
                Err(Refusal::TooLarge) => return None,
                Err(_) => {
                    self.maintain();
                    self.wait_for_memory();
                }
            }
        }
        *refusals = refusals.saturating_add(1);
        None
    }
}

/// Counts of refused items, by what had no room for them.
struct Full {
    classes: [u8; 1 << u8::BITS],
    /// Items of several chunks.
    pieces: u8,
    index: u8,
}

impl Restoring<'_> {
    /// Restores blocks until there are none left; the hot zone's only if it `is_first`.
    fn work(&self, is_first: bool) -> Restored {
        let mut worker = Worker {
            restoring: self,
            reader: Reader::new(),
            pieces: Reader::new(),
            full: Full { classes: [0; 1 << u8::BITS], pieces: 0, index: 0 },
            packer: self.cache.compressed.as_deref().map(|compressed| {
                (compressed, compressed::Writer::new(&compressed.zone), Vec::new())
            }),
        };
        let mut restored = Restored::default();
        // Before the first item, for the compressed zone's share. Without that zone there is
        // nowhere to demote to, and reserves for stores would only take room from restored items.
        let moves = self.cache.compressed.is_some();
        let maintain = || moves && self.cache.maintain();
        maintain();
        while let Some(group) = self.next(is_first) {
            worker.restore(group, &mut restored);
            maintain();
        }
        restored
    }

    fn next(&self, is_first: bool) -> Option<usize> {
        let mut left = lock(&self.left);
        if left.is_empty() {
            return None;
        }
        let from_the_end = self.cache.may_evict;
        let next = if from_the_end { left.end - 1 } else { left.start };
        if !is_first && self.table.group(next).0.tier() == Some(Tier::Hot) {
            return None;
        }
        *left = if from_the_end { left.start..next } else { next + 1..left.end };
        Some(next)
    }
}

/// The state of one restoring thread.
struct Worker<'r> {
    restoring: &'r Restoring<'r>,
    reader: Reader,
    pieces: Reader,
    full: Full,
    /// The compressed zone, its writer, and a buffer for a long value.
    packer: Option<(&'r CompressedTier, compressed::Writer<'static>, Vec<u8>)>,
}

impl Worker<'_> {
    /// Restores the items of a block.
    fn restore(&mut self, group: usize, restored: &mut Restored) {
        let Restoring { cache, source, table, times, .. } = self.restoring;
        let (block, pieces) = table.group(group);
        let Some(tier) = block.tier() else { return };
        let Ok(items) = self.reader.items(*source, block) else { return };
        let (pieces_reader, full) = (&mut self.pieces, &mut self.full);
        let mut to = To { cache, source: *source, pieces: pieces_reader, full };
        for (note, mut row) in items {
            row.fields.expiry = times.moved(row.fields.expiry);
            let is_expired =
                row.fields.expiry != 0 && (!times.are_known || row.fields.is_expired(cache.now()));
            let came = if !(1..=KEY_BYTES_MAX).contains(&row.key.len()) {
                Came::Lost
            } else if is_expired {
                Came::Expired
            } else {
                let packer = self.packer.as_mut().filter(|_| tier == Tier::Compressed);
                let number = (tier == Tier::Hot).then_some(note);
                match packer {
                    Some(packer) => to.compressed(packer, &row, note, pieces),
                    None => to.hot(&row, number, pieces),
                }
            };
            restored.count(came);
        }
    }
}

/// The target of restored items, and the source of the pieces of long ones.
struct To<'w> {
    cache: &'w Cache,
    source: &'w dyn Source,
    pieces: &'w mut Reader,
    full: &'w mut Full,
}

impl To<'_> {
    /// Puts an item into the hot zone.
    fn hot(&mut self, row: &Row<'_>, number: Option<u32>, pieces: &[Block]) -> Came {
        let draft = self.cache.reserve_restored(row, self.full);
        let Some(mut draft) = draft else { return Came::Refused };
        if row.long {
            for piece in pieces {
                let Ok(bytes) = self.pieces.piece(self.source, piece) else { return Came::Lost };
                draft.write(bytes);
            }
            if draft.remaining() > 0 {
                return Came::Lost;
            }
        } else {
            draft.write(row.value);
        }
        let is_there = self.cache.enter_restored(draft, number, row.fields.mark, self.full);
        if is_there { back(row) } else { Came::Refused }
    }

    /// Packs an item into the compressed zone, or puts it into the hot zone if that does not take
    /// it.
    fn compressed(
        &mut self,
        (compressed, writer, long): &mut (&CompressedTier, compressed::Writer<'static>, Vec<u8>),
        row: &Row<'_>,
        accesses: u32,
        pieces: &[Block],
    ) -> Came {
        let cache = self.cache;
        if cache.hot.has_quota(row.key) {
            return self.hot(row, None, pieces);
        }
        let mut value = row.value;
        if row.long {
            if row.value_bytes > compressed.zone.value_bytes_max() {
                return self.hot(row, None, pieces);
            }
            long.clear();
            for piece in pieces {
                let Ok(bytes) = self.pieces.piece(self.source, piece) else { return Came::Lost };
                long.extend_from_slice(bytes);
            }
            if long.len() != row.value_bytes {
                return Came::Lost;
            }
            value = long;
        }
        let hash = cache.hash(row.key);
        let record = compressed::Record { key: row.key, value, fields: row.fields };
        for _ in 0..ROOM_ATTEMPTS {
            let mut is_there = false;
            let inserted = compressed.zone.insert(hash.0, &record, cache.now(), writer, {
                // No lock of the key: no other thread has it, and an image has it once.
                |guard, newcomer| {
                    if cache.find(guard, row.key, hash).is_none() {
                        newcomer.was_accessed(accesses.min(u8::MAX.into()) as u8);
                        newcomer.reveal();
                        is_there = true;
                    }
                }
            });
            match inserted {
                Ok(()) => return if is_there { back(row) } else { Came::Refused },
                Err(compressed::Refused::Pinned) => cache.wait_for_memory(),
                Err(_) => break,
            }
        }
        self.hot(row, None, pieces)
    }
}

fn back(row: &Row<'_>) -> Came {
    Came::Back((row.key.len() + row.value_bytes) as u64)
}
