//! The flash tier as the cache uses it: how items move down to it from the compressed zone, how
//! they are read, and how they come up again.
//!
//! ```text
//!   compressed zone --evicts--> staged --sealed--> segment buffer --written--> segment
//!          index word: flash, and a place that moves along
//! ```
//!
//! A word of the index leads to an item on flash as it does to a hot one, so the key's lock is the
//! same, that of its index table. But such a word has no key at hand, only bits of the hash: it
//! says *perhaps*. What follows:
//!
//! - In a bucket there is one word for flash with the same bits of the hash at most. An item that
//!   comes in takes the place of one that cannot be told from it, and a store, or a removal, of a
//!   key takes out whatever is perhaps the key's. So some other item is lost once in many millions.
//! - Whatever depends on what is there (an add, a touch, an increment) reads the item first, and
//!   compares its key.
//!
//! Reading takes long, and nobody waits for it: what asks for an item on flash is [pending]
//! (`Lookup::Pending`, `Refusal::Pending`), the session says what is to be read
//! ([`Session::take_wanted`]), and when that has arrived ([`Session::deliver`]) the same is asked
//! again. A hit counts only if the index still leads to the place that was read.
//!
//! A process that begins with a tier that holds items finds them one segment after the other.
//! Meanwhile keys change: their hashes are remembered in a filter, and what is found of them is
//! left alone.
//!
//! [pending]: crate::Lookup::Pending

use std::cell::{OnceCell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ::flash::{Flash, Look, Place, Reader, Refused, Ticket};
use ::io::device::{Busy, Device, Done, Pages, ReadPool};
use hot::ItemRef;
use index::Hash;
use memory::Guard;
use stdx::sync::lock;

use crate::below::{Row, hot_fields};
use crate::cache::Cache;
use crate::item::Item;
use crate::places::Fate;
use crate::session::Session;
use crate::stats::FlashTierStats;
use crate::types::{Lookup, Refusal};

/// Reads that one session asks for at most: what more it needs it asks for when these have come.
const WANTED_MAX: usize = 64;
/// Reads that wait for a thread at most, of all sessions together.
const READS_MAX: usize = 4096;
/// There is much room on flash while one segment in so many is free.
const ROOM_SHARE: u64 = 4;
/// Bits of the filter of keys that changed while the tier was searched for its items: with a
/// hundred thousand changes, one item in ten is left alone though its key did not change.
const CHANGED_BITS: usize = 1 << 20;

/// The tier and what its users share.
pub(crate) struct FlashTier {
    flash: Flash,
    device: Arc<dyn Device>,
    threads: usize,
    /// Nothing, if the system gave no threads. Started when something is first read: whoever builds
    /// a cache may still fork.
    pool: OnceLock<Option<ReadPool>>,
    /// Readers that no session has at the moment.
    readers: Mutex<Vec<Reader>>,
    /// Whether there may be items that the index does not know yet.
    recovering: AtomicBool,
    changed: Box<[AtomicU64]>,
    /// How often the tier was flushed, and after how many of these the index was rid of what led
    /// here. Until it is, nothing comes in.
    flushed: AtomicU64,
    purged: AtomicU64,
    /// A good part of the segments is free.
    has_room: AtomicBool,
    pub(crate) counters: Counters,
}

/// What happened between the tiers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Words of the index that lead here.
    pub(crate) items: AtomicU64,
    /// Reads that were served from here.
    pub(crate) hits: AtomicU64,
    /// Items that came in.
    pub(crate) spilled: AtomicU64,
    /// Items that were not taken.
    pub(crate) refused: AtomicU64,
    /// Items that went up into the hot zone.
    pub(crate) promoted: AtomicU64,
    /// Reads of the device that were asked for, and of these without an answer.
    pub(crate) reads: AtomicU64,
    pub(crate) reads_failed: AtomicU64,
}

/// Something that has to be read from flash.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    ticket: Ticket,
}

/// Something that was read from flash.
#[derive(Debug)]
pub struct Arrived {
    wanted: Wanted,
    /// Nothing, if the device failed.
    pages: Option<Pages>,
}

/// What a session knows of flash: nothing, until it looks there.
#[derive(Debug, Default)]
pub(crate) struct FlashView(OnceCell<Box<View>>);

#[derive(Default)]
struct View {
    reader: RefCell<Option<Reader>>,
    wanted: RefCell<Vec<Wanted>>,
    arrived: RefCell<Vec<Arrived>>,
}

/// Where an item on flash was read.
#[derive(Debug, Clone, Copy)]
struct Source {
    place: Place,
    /// What was read for it; nothing if it was still in a buffer.
    ticket: Option<Ticket>,
}

/// What became of a look for an item on flash.
enum Seen<'s> {
    /// A copy of it, and where it is.
    Here(&'s Row<'s>, Source),
    /// The place holds another key's item, or a damaged one, or one whose time is over.
    NotThis(Place),
    /// It has to be read first.
    Pending,
    /// The index leads to no place on flash.
    Nowhere,
}

impl FlashTier {
    /// On a device from which so many threads read.
    pub(crate) fn new(flash: Flash, device: Arc<dyn Device>, threads: usize) -> Self {
        let changed = (0..CHANGED_BITS / u64::BITS as usize).map(|_| AtomicU64::new(0)).collect();
        Self {
            flash,
            device,
            threads: threads.max(1),
            pool: OnceLock::new(),
            readers: Mutex::default(),
            recovering: AtomicBool::new(true),
            changed,
            flushed: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            has_room: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    fn pool(&self) -> Option<&ReadPool> {
        let start = || ReadPool::new(Arc::clone(&self.device), self.threads, READS_MAX).ok();
        self.pool.get_or_init(start).as_ref()
    }

    /// Makes everything here void. The background takes it out of the index.
    pub(crate) fn flush(&self) {
        self.flushed.fetch_add(1, Ordering::Relaxed);
        self.flash.flush();
    }

    fn is_purged(&self) -> bool {
        self.flushed.load(Ordering::Relaxed) == self.purged.load(Ordering::Relaxed)
    }

    pub(crate) fn flash(&self) -> &Flash {
        &self.flash
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.flash.memory_bytes() + CHANGED_BITS / 8
    }

    #[inline]
    pub(crate) fn may_be(&self, place: Place, hash: Hash) -> bool {
        self.flash.may_be(place, hash.0)
    }

    /// Takes note that the index does not lead here any more.
    pub(crate) fn forget(&self, place: Place, hash: Hash) {
        self.counters.items.fetch_sub(1, Ordering::Relaxed);
        self.flash.forget(place, hash.0);
    }

    /// Whether items are still being found.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovering.load(Ordering::Relaxed)
    }

    /// Remembers that a key changed, as long as items are being found. Under the key's lock.
    #[inline]
    pub(crate) fn note_change(&self, hash: Hash) {
        if self.is_recovering() {
            let (word, bit) = self.changed_bit(hash);
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> FlashTierStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FlashTierStats {
            tier: self.flash.stats(),
            items: read(&self.counters.items),
            memory_bytes: self.memory_bytes() as u64,
            hits: read(&self.counters.hits),
            spilled: read(&self.counters.spilled),
            refused: read(&self.counters.refused),
            promoted: read(&self.counters.promoted),
            reads: read(&self.counters.reads),
            reads_failed: read(&self.counters.reads_failed),
            recovering: self.is_recovering(),
        }
    }

    fn has_changed(&self, hash: Hash) -> bool {
        let (word, bit) = self.changed_bit(hash);
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn changed_bit(&self, hash: Hash) -> (&AtomicU64, u64) {
        let at = hash.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 40;
        let at = at % CHANGED_BITS;
        (&self.changed[at / u64::BITS as usize], 1 << (at % u64::BITS as usize))
    }
}

/// The index as the tier's own work sees it.
pub(crate) struct Links<'c>(pub(crate) &'c Cache);

impl ::flash::Links for Links<'_> {
    fn accesses(&self, hash: u64, place: Place) -> Option<u8> {
        let guard = self.0.epochs.pin();
        let found = self.0.find_on_flash(&guard, Hash(hash));
        found.filter(|found| found.is_same(place)).map(Place::accesses)
    }

    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool {
        let guard = self.0.epochs.pin();
        self.0.update_on_flash(&guard, Hash(hash), from, |_| (Some(to), ())).is_some()
    }

    fn remove(&self, hash: u64, place: Place) -> bool {
        let guard = self.0.epochs.pin();
        let removed = self.0.update_on_flash(&guard, Hash(hash), place, |_| (None, ()));
        if removed.is_some()
            && let Some(tier) = &self.0.flash
        {
            tier.counters.items.fetch_sub(1, Ordering::Relaxed);
        }
        removed.is_some()
    }

    fn insert(&self, hash: u64, place: Place) -> bool {
        let (cache, hash) = (self.0, Hash(hash));
        let Some(tier) = &cache.flash else { return false };
        let guard = cache.epochs.pin();
        let led = cache.lead_to_flash(&guard, hash, None, place, |present| {
            present.is_none() && !tier.has_changed(hash)
        });
        tier.counters.items.fetch_add(u64::from(led), Ordering::Relaxed);
        led
    }
}

impl Cache {
    /// Offers an item that leaves the compressed zone to the tier. `is_alive` is asked under the
    /// key's lock. Returns whether it is on flash from now on.
    pub(crate) fn spill(
        &self,
        guard: &Guard<'_>,
        record: &::flash::Record<'_>,
        hash: Hash,
        is_alive: impl Fn() -> bool,
    ) -> bool {
        self.stage(record, hash, |place| {
            self.lead_to_flash(guard, hash, Some(record.key), place, |_| is_alive())
        })
    }

    /// The same for an item of the hot zone; `is_same` is asked of it under the key's lock.
    pub(crate) fn spill_hot(
        &self,
        record: &::flash::Record<'_>,
        hash: Hash,
        hot: memory::Place,
        is_same: impl Fn(ItemRef<'_>) -> bool,
    ) -> bool {
        let guard = self.epochs.pin();
        self.stage(record, hash, |place| {
            self.exchange_for_flash(&guard, hash, hot, place, &is_same)
        })
    }

    /// Stages a record; `lead` leads the index to its place.
    fn stage(
        &self,
        record: &::flash::Record<'_>,
        hash: Hash,
        lead: impl Fn(Place) -> bool,
    ) -> bool {
        let Some(tier) = &self.flash else { return false };
        if record.fields.is_expired(self.now()) || !tier.is_purged() {
            return false;
        }
        let (links, counters) = (Links(self), &tier.counters);
        let counted = |place| {
            // Before the word can leave again.
            counters.items.fetch_add(1, Ordering::Relaxed);
            let led = lead(place);
            counters.items.fetch_sub(u64::from(!led), Ordering::Relaxed);
            led
        };
        let mut staged = tier.flash.stage_with(hash.0, record, &links, counted);
        if staged == Err(Refused::Busy) {
            // What is full is written here, rather than lost: a zone that shrinks lets go of much
            // at once.
            tier.flash.maintain(&links, self.now());
            staged = tier.flash.stage_with(hash.0, record, &links, counted);
        }
        let counter = if staged.is_ok() { &counters.spilled } else { &counters.refused };
        let is_there = matches!(staged, Ok(Some(_)));
        counter.fetch_add(u64::from(is_there || staged.is_err()), Ordering::Relaxed);
        is_there
    }

    /// Whether what leaves the hot zone, and does not deserve the compressed one, may move to
    /// flash: what was read, and as long as there is much room, all of it.
    pub(crate) fn flash_takes(&self, is_wanted: bool) -> bool {
        let Some(tier) = &self.flash else { return false };
        is_wanted || tier.has_room.load(Ordering::Relaxed)
    }

    /// Items on flash.
    pub(crate) fn flash_items(&self) -> u64 {
        self.flash.as_ref().map_or(0, |tier| tier.counters.items.load(Ordering::Relaxed))
    }

    /// The tier's own work. Returns whether there is more to do at once.
    pub(crate) fn maintain_flash(&self) -> bool {
        let Some(tier) = &self.flash else { return false };
        if !tier.is_purged() {
            self.purge(tier);
            return true;
        }
        let links = Links(self);
        let mut more = tier.flash.maintain(&links, self.now());
        let stats = tier.flash.stats();
        let has_room = stats.segments_free * ROOM_SHARE > stats.segments;
        tier.has_room.store(has_room, Ordering::Relaxed);
        if tier.is_recovering() {
            let goes_on = tier.flash.recover(&links, self.now());
            tier.recovering.store(goes_on, Ordering::Relaxed);
            more |= goes_on;
        }
        more
    }

    /// Takes what a flush has made void out of the index. Only the background lets anything come
    /// in, and this is the background.
    fn purge(&self, tier: &FlashTier) {
        let flushed = tier.flushed.load(Ordering::Relaxed);
        let (mut at, mut count) = (Some(Hash(0)), 0);
        while let Some(hash) = at {
            at = self.purge_flash(&self.epochs.pin(), hash, &mut count);
        }
        tier.counters.items.fetch_sub(count, Ordering::Relaxed);
        tier.purged.store(flushed, Ordering::Relaxed);
    }

    /// Reads from flash what a session waits for, in another thread, and hands it to `done` there.
    /// So many reads may wait; one too many counts as failed.
    pub fn read_wanted(&self, wanted: Wanted, done: impl FnOnce(Arrived) + Send + 'static) {
        let Some(tier) = &self.flash else {
            return done(Arrived { wanted, pages: None });
        };
        tier.counters.reads.fetch_add(1, Ordering::Relaxed);
        let Ticket { page, pages, .. } = wanted.ticket;
        let done = Box::new(move |read: std::io::Result<Pages>| {
            done(Arrived { wanted, pages: read.ok() });
        });
        let refused = match tier.pool() {
            None => Some(done as Done),
            Some(pool) => pool.submit(page, pages, done).err().map(|Busy(done)| done),
        };
        if let Some(done) = refused {
            done(Err(std::io::Error::other("nobody can read it now")));
        }
    }

    /// The same, while the caller waits. He must have no session open.
    pub fn read_wanted_now(&self, wanted: Vec<Wanted>) -> Vec<Arrived> {
        let (sender, receiver) = std::sync::mpsc::channel();
        for wanted in wanted {
            let sender = sender.clone();
            // Who receives waits for all of them.
            self.read_wanted(wanted, move |arrived| _ = sender.send(arrived));
        }
        drop(sender);
        receiver.into_iter().collect()
    }

    /// Writes all that is staged, and closes the tier cleanly: the next process finds everything.
    /// Nothing moves to flash after it.
    pub fn close_flash(&self) -> std::io::Result<()> {
        self.flash.as_ref().map_or(Ok(()), |tier| tier.flash.close(&Links(self)))
    }
}

impl Session<'_> {
    /// What the requests of this session wait for. Read it, by [`Cache::read_wanted`], end the
    /// session, and ask again in another one to which it is delivered.
    pub fn take_wanted(&self) -> Vec<Wanted> {
        self.flash.0.get().map(|view| view.wanted.take()).unwrap_or_default()
    }

    /// Hands over what was read for requests that waited.
    pub fn deliver(&self, arrived: impl IntoIterator<Item = Arrived>) {
        let mut arrived = arrived.into_iter().peekable();
        if arrived.peek().is_some() {
            self.flash.view().arrived.borrow_mut().extend(arrived);
        }
    }

    /// Asks for the key's item to be read if only that is missing. For requests that will be asked
    /// for later.
    pub fn want(&self, key: &[u8], hash: Hash) {
        if self.cache.flash.is_some() && self.find_present(key, hash).is_none() {
            let _ = self.look_on_flash(key, hash);
        }
    }

    /// The key's item on flash, for a reader whom the other tiers did not help.
    #[inline(never)]
    pub(crate) fn get_on_flash(&self, key: &[u8], hash: Hash) -> Lookup<'_> {
        let Some(tier) = &self.cache.flash else {
            return Lookup::Miss;
        };
        let flushes = self.cache.moment.flush.settled_count();
        match self.look_on_flash(key, hash) {
            Seen::Here(row, source) => {
                let place = source.place;
                tier.counters.hits.fetch_add(1, Ordering::Relaxed);
                if place.accesses() > 0 {
                    // What finds no memory stays where it is.
                    let _ = self.raise_flash_row(row, source, hash, flushes);
                } else {
                    self.cache.update_on_flash(&self.guard, hash, place, |found| {
                        (Some(found.with_accesses(found.accesses() + 1)), ())
                    });
                }
                Lookup::Hit(Item::below(self.cache, row))
            }
            Seen::Pending => Lookup::Pending,
            Seen::NotThis(_) | Seen::Nowhere => Lookup::Miss,
        }
    }

    /// Brings the key's item up from flash. Returns whether there was one.
    pub(crate) fn raise_on_flash(
        &self,
        key: &[u8],
        hash: Hash,
        flushes: u64,
    ) -> Result<bool, Refusal> {
        match self.look_on_flash(key, hash) {
            Seen::Here(row, source) => {
                self.raise_flash_row(row, source, hash, flushes)?;
                Ok(true)
            }
            // It is in the way of whoever asks what is there.
            Seen::NotThis(place) => {
                let removed = self.cache.update_on_flash(&self.guard, hash, place, |_| (None, ()));
                if removed.is_some() {
                    self.cache.forget_on_flash(place, hash);
                }
                Ok(false)
            }
            Seen::Pending => Err(Refusal::Pending),
            Seen::Nowhere => Ok(false),
        }
    }

    fn look_on_flash(&self, key: &[u8], hash: Hash) -> Seen<'_> {
        let Some(tier) = &self.cache.flash else {
            return Seen::Nowhere;
        };
        loop {
            let Some(place) = self.cache.find_on_flash(&self.guard, hash) else {
                return Seen::Nowhere;
            };
            let seen = self.read_place(tier, key, place);
            if matches!(seen, Seen::Pending) {
                return seen;
            }
            // Where the index leads by now, the item may have moved, or be another.
            if self.cache.is_on_flash(&self.guard, hash, place) {
                return seen;
            }
        }
    }

    /// What the tier has at a place.
    fn read_place(&self, tier: &FlashTier, key: &[u8], place: Place) -> Seen<'_> {
        let view = self.flash.view();
        let mut lent = view.reader.borrow_mut();
        let reader = lent.get_or_insert_with(|| lock(&tier.readers).pop().unwrap_or_default());
        let mut look = tier.flash.look(place, key, reader);
        let mut source = Source { place, ticket: None };
        if let Look::Wait(ticket) = look {
            let arrived = view.arrived.borrow();
            // The latest: a long unit is asked for twice, the second time as a whole.
            let of_unit = |one: &&Arrived| one.wanted.ticket.is_for_unit_of(&ticket);
            if let Some(Arrived { wanted, pages }) = arrived.iter().rev().find(of_unit) {
                source.ticket = Some(wanted.ticket);
                look = match pages {
                    Some(pages) => tier.flash.finish(&wanted.ticket, pages, key, reader),
                    None => {
                        tier.counters.reads_failed.fetch_add(1, Ordering::Relaxed);
                        Look::Absent
                    }
                };
            }
        }
        match look {
            Look::Found(fields) if !fields.is_expired(self.cache.now()) => {
                let rows = self.lower.rows();
                let row = rows.alloc(Row {
                    key: rows.alloc_slice_copy(key),
                    value: rows.alloc_slice_copy(reader.value()),
                    fields: hot_fields(&fields),
                    mark: fields.mark,
                });
                Seen::Here(row, source)
            }
            Look::Found(_) | Look::Absent => Seen::NotThis(place),
            Look::Wait(ticket) => {
                let mut wanted = view.wanted.borrow_mut();
                if wanted.len() < WANTED_MAX {
                    wanted.push(Wanted { ticket });
                }
                Seen::Pending
            }
        }
    }

    /// Moves a row up if the index still leads to its place, and if nothing was flushed since
    /// before it was read.
    fn raise_flash_row(
        &self,
        row: &Row<'_>,
        source: Source,
        hash: Hash,
        flushes: u64,
    ) -> Result<(), Refusal> {
        let cache = self.cache;
        let mut draft = cache.reserve_fields(row.key, hash, &row.fields, row.value.len())?;
        draft.write(row.value);
        // Taken only to be published: dropping it takes a class's lock, which comes before those
        // of the index.
        let mut pending = Some(draft.hot);
        let is_current = || {
            let tier = cache.flash.as_deref();
            tier.zip(source.ticket).is_none_or(|(tier, ticket)| tier.flash.is_current(&ticket))
        };
        let raised = cache.raise_from_flash(&self.guard, hash, source.place, || {
            let sequence = cache.next_sequence();
            // After the number was taken: a flush that is not noticed here has a higher one.
            if !cache.moment.flush.is_unchanged_since(flushes) || !is_current() {
                return Fate::Keep;
            }
            // It may not have been buried yet where it came from.
            self.forget_below(row.key, hash);
            let draft = pending.take().expect("decided once");
            Fate::Publish { draft, sequence: sequence as u32, mark_bits: row.mark }
        });
        if raised && let Some(tier) = &cache.flash {
            tier.counters.promoted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives the reader back.
    #[inline]
    pub(crate) fn end_flash(&mut self) {
        if let Some(view) = self.flash.0.take()
            && let Some(tier) = &self.cache.flash
            && let Some(reader) = view.reader.take()
        {
            lock(&tier.readers).push(reader);
        }
    }
}

impl FlashView {
    fn view(&self) -> &View {
        self.0.get_or_init(Box::default)
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("wanted", &self.wanted.borrow().len()).finish()
    }
}

impl std::fmt::Debug for FlashTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlashTier").field("counters", &self.counters).finish_non_exhaustive()
    }
}
