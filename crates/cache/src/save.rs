//! Saving the items in memory to flash: what a clean stop does before it closes the tier, so that
//! the next process finds them.
//!
//! ```text
//!   hot zone, slab by slab ----> staged --> segments      the most valuable first
//!   compressed zone, leaf by leaf --^
//! ```
//!
//! Items move one at a time, each as it would otherwise ([`crate::spill`]): under its key's lock,
//! if it is unchanged since it was copied, and the index leads to its new place from then on. So
//! saving may end anywhere, and the process too: an item that was not written by then is a miss for
//! the next one.
//!
//! It ends by itself when every item was offered, or when so many segments were written that
//! collection, which takes the oldest, would come to the first of them. Where the index may lead to
//! no more items on flash, which small ones come to long before flash is full, segments are evicted
//! for their words, as long as they are older than what is saved: it was used last.
//!
//! It does not wait until all is recovered that an earlier process has left: the close that follows
//! leaves that to the next process ([`Cache::close_flash`]).
//!
//! Items of the compressed zone have no word in the index until they are on flash. The room for
//! these words comes from the hot zone, which is empty by then.

use std::ops::ControlFlow;

use ::flash::Refused;
use hot::ItemRef;
use hot::walk::Cursor;
use index::{Full, Hash};
use memory::{Guard, Place};
use stdx::sync::lock;

use crate::cache::Cache;
use crate::compressed_tier::CompressedTier;
use crate::flash_tier::{FlashIndexAccess, FlashTier};
use crate::maintain::Chores;
use crate::snapshot::Snapshot;
use crate::spill::{Spilled, Urgency};

/// Chunks of the hot zone whose items are saved under one guard.
const CHUNKS_A_STEP: usize = 4096;
/// Bytes after which `goes_on` is asked.
const LOOK_BYTES: u64 = 64 << 10;
/// Bytes that an item counts there beside its key and value, so that small ones count too.
const ITEM_BYTES: u64 = 64;
/// Attempts in a row to make room, in the index or by writing, before an item is left out.
const ROOM_ATTEMPTS: u32 = 4;

/// The outcome of saving.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// Items that moved to flash.
    pub items: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Items that were left out because they are too long for a segment.
    pub too_large: u64,
    /// Items that were left out because the index found no room for them.
    pub unindexed: u64,
    /// Items that are in memory only, including those just named and expired ones.
    pub left: u64,
    /// Why it ended.
    pub end: SaveEnd,
}

/// Why saving ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SaveEnd {
    /// Every item was offered to flash.
    #[default]
    Complete,
    /// The caller stopped it.
    Interrupted,
    /// Flash has no room for more, or the index may lead to no more items on it.
    Full,
    /// The device does not take writes.
    Failing,
}

/// Saving under way.
struct Saving<'c, F> {
    cache: &'c Cache,
    tier: &'c FlashTier,
    goes_on: F,
    saved: Saved,
    /// Bytes since `goes_on` was last asked.
    unlooked_bytes: u64,
    /// Bytes that the tier may have written in the end.
    written_bytes_max: u64,
    /// Segments that it may have collected before one more is evicted for its words.
    collected_max: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Cache {
    /// Moves the items in memory to flash, the hot zone's first, as long as there is room for them
    /// and `goes_on`, which is asked every few hundred microseconds, returns true. For a clean
    /// stop, before [`Cache::close_flash`]; does nothing without a flash tier. Items remain as they
    /// are to other threads, but a store has the whole of memory to itself and should wait.
    pub fn save_to_flash(&self, goes_on: impl FnMut() -> bool) -> Saved {
        let Some(tier) = &self.flash else { return Saved::default() };
        let mut chores = lock(&self.chores);
        self.tick();
        let mut saving = Saving {
            cache: self,
            tier,
            goes_on,
            saved: Saved::default(),
            unlooked_bytes: LOOK_BYTES,
            written_bytes_max: 0,
            collected_max: 0,
            key: Vec::new(),
            value: Vec::new(),
        };
        let ended = saving.run(&mut chores);
        if let ControlFlow::Break(end) = ended {
            saving.saved.end = end;
        }
        let stats = self.stats();
        let on_flash = stats.flash.map_or(0, |flash| flash.items);
        Saved { left: stats.items.saturating_sub(on_flash), ..saving.saved }
    }
}

/// Whether to go on.
type Flow = ControlFlow<SaveEnd>;

impl<F: FnMut() -> bool> Saving<'_, F> {
    fn run(&mut self, chores: &mut Chores) -> Flow {
        // Items that are not recovered are older than all others: where room is needed, they go
        // first.
        while !self.tier.is_purged() {
            if !(self.goes_on)() {
                return Flow::Break(SaveEnd::Interrupted);
            }
            self.cache.maintain_flash(&mut chores.purging, &mut chores.mover.turn);
        }
        // Saved items may come into the segment that is open, behind earlier ones.
        self.tier.flash.touch_open();
        let stats = self.tier.flash.stats();
        self.written_bytes_max = stats.bytes_written + self.tier.flash.turnover_bytes();
        self.collected_max = stats.collected + stats.cold.segments.saturating_sub(1);
        self.save_hot()?;
        match self.cache.compressed.as_deref() {
            Some(compressed) => self.save_compressed(compressed),
            None => Flow::Continue(()),
        }
    }

    fn save_hot(&mut self) -> Flow {
        let (cache, mut cursor, mut more) = (self.cache, Cursor::default(), true);
        while more {
            let guard = cache.epochs.pin();
            let mut met: Vec<(Hash, Place)> = Vec::new();
            // A class's lock is held there, which comes after those of the tier.
            more = cache.hot.walk(&guard, &mut cursor, CHUNKS_A_STEP, |item, place| {
                met.push((cache.hash(item.key()), place));
            });
            // An item that the index does not lead to may be overwritten by now.
            let found = met.into_iter().filter_map(|(hash, at)| cache.find_at(&guard, hash, at));
            for found in found {
                self.save_item(&guard, found.item, found.place())?;
            }
        }
        Flow::Continue(())
    }

    fn save_item(&mut self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> Flow {
        let cache = self.cache;
        if item.value_bytes() > self.tier.flash.value_bytes_max() && !cache.is_gone(item) {
            // A copy could take as much again as all of memory.
            self.saved.too_large += 1;
            return self.look(ITEM_BYTES);
        }
        let hash = cache.hash(item.key());
        let snapshot = Snapshot::of(item);
        let (mut key, mut value) = (std::mem::take(&mut self.key), std::mem::take(&mut self.value));
        cache.copy_bytes(item, &mut key, &mut value);
        let record = ::flash::Record { key: &key, value: &value, fields: snapshot.fields() };
        let flow = self.offer(&record, |record| {
            let is_same = |item: ItemRef<'_>| snapshot.is_same(cache, item);
            if cache.rest_hot(guard, (hash, place), is_same) {
                return Spilled::There;
            }
            cache.spill_hot(None, record, (hash, place), Urgency::Usual, is_same)
        });
        (self.key, self.value) = (key, value);
        self.saved.unindexed +=
            u64::from(matches!(flow, ControlFlow::Continue(Spilled::IndexFull(_))));
        flow.map_continue(|_| ())
    }

    fn save_compressed(&mut self, compressed: &CompressedTier) -> Flow {
        let cache = self.cache;
        let (mut cursor, mut reader) = (compressed::Cursor::default(), compressed::Reader::new());
        let mut attempts = 0;
        loop {
            let mut outcome = Flow::Continue(());
            let mut is_index_full = false;
            let guard = cache.epochs.pin();
            let more = compressed.zone.offer_all(&guard, &mut cursor, cache.now(), &mut reader, {
                |record, leaving| {
                    let hash: Hash = cache.hash(record.key);
                    let offered = self.offer(record, |record| {
                        if cache.rest_row(&guard, record, hash, || leaving.is_alive()) {
                            return Spilled::There;
                        }
                        cache.spill(&guard, record, hash, || leaving.is_alive())
                    });
                    match offered {
                        ControlFlow::Continue(Spilled::There) => leaving.bury(),
                        ControlFlow::Continue(Spilled::IndexFull(Full::NoMemory))
                            if attempts < ROOM_ATTEMPTS =>
                        {
                            is_index_full = true;
                            return ControlFlow::Break(());
                        }
                        ControlFlow::Continue(Spilled::IndexFull(_)) => self.saved.unindexed += 1,
                        ControlFlow::Continue(_) => {}
                        ControlFlow::Break(end) => {
                            outcome = Flow::Break(end);
                            return ControlFlow::Break(());
                        }
                    }
                    ControlFlow::Continue(())
                }
            });
            drop(guard);
            outcome?;
            attempts = if is_index_full { attempts + 1 } else { 0 };
            if is_index_full {
                self.cache.give_slabs_to_index();
            }
            if !more {
                return outcome;
            }
        }
    }

    /// Offers an item to the tier by `spill`, and counts the outcome.
    fn offer(
        &mut self,
        record: &::flash::Record<'_>,
        spill: impl Fn(&::flash::Record<'_>) -> Spilled,
    ) -> ControlFlow<SaveEnd, Spilled> {
        let bytes = (record.key.len() + record.value.len()) as u64;
        self.look(bytes + ITEM_BYTES)?;
        let mut attempts = 0;
        let spilled = loop {
            match spill(record) {
                Spilled::Refused(Refused::Busy) if attempts < ROOM_ATTEMPTS => attempts += 1,
                Spilled::ShareFull if self.frees_words() => {}
                spilled => break spilled,
            }
        };
        match spilled {
            Spilled::There => {
                self.saved.items += 1;
                self.saved.bytes += bytes;
            }
            Spilled::Gone | Spilled::Purging | Spilled::IndexFull(_) => {}
            Spilled::Refused(Refused::TooLarge) => self.saved.too_large += 1,
            Spilled::ShareFull | Spilled::Refused(Refused::Busy) => {
                return ControlFlow::Break(SaveEnd::Full);
            }
            Spilled::Refused(Refused::Failing | Refused::Closed) => {
                return ControlFlow::Break(SaveEnd::Failing);
            }
        }
        ControlFlow::Continue(spilled)
    }

    /// Evicts a segment for its words, if it is surely older than what is saved: of the cold area,
    /// where saved items go, eviction takes the least recently used, and of those used alike the
    /// oldest. So it takes each earlier segment, except the open one, before any with saved items.
    /// Other segments collected meanwhile count as if they were among these.
    fn frees_words(&self) -> bool {
        let Self { cache, tier, collected_max, .. } = *self;
        tier.flash.stats().collected < collected_max
            && tier.flash.evict(&FlashIndexAccess::new(cache))
    }

    /// Asks now and then whether to go on.
    fn look(&mut self, bytes: u64) -> Flow {
        self.unlooked_bytes += bytes;
        if self.unlooked_bytes < LOOK_BYTES {
            return Flow::Continue(());
        }
        self.unlooked_bytes = 0;
        if !(self.goes_on)() {
            return Flow::Break(SaveEnd::Interrupted);
        }
        if self.tier.flash.stats().bytes_written >= self.written_bytes_max {
            return Flow::Break(SaveEnd::Full);
        }
        Flow::Continue(())
    }
}
