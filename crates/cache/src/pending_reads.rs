//! How items on flash are read: what a request waits for, and what it does with what has arrived.
//! `flash_tier` has the protocol.

use std::cell::{OnceCell, Ref, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::flash::{Life, Look, Place, Reader, Ticket, Trace, Walked};
use ::io::device::{PAGE_BYTES, Pages, ReadMethod, ReadRing};
use hot::mark::FETCHED;
use index::Hash;
use stdx::sync::lock;

use crate::cache::Cache;
use crate::compressed_tier::{PromotedItem, Row, hot_fields};
use crate::dump::Dumped;
use crate::flash_reads::{Fetch, Held};
use crate::flash_tier::{FlashIndexAccess, FlashTier};
use crate::item::Item;
use crate::session::Session;
use crate::types::{Lookup, Refusal, row_expiry};

/// Reads that one session asks for at most: it asks for more when these have come.
const WANTED_MAX: usize = 64;

/// A read of flash that a request waits for.
#[derive(Debug, Clone, Copy)]
pub struct ReadRequest {
    page: u64,
    pages: usize,
    /// The item that the pages are for; `None` for those of a dump.
    ticket: Option<Ticket>,
}

/// A read that was done. It takes memory that others may wait for, so a thread drops it before it
/// waits for anything.
#[derive(Debug)]
pub struct ReadResult {
    wanted: ReadRequest,
    /// When it was asked for, by the monotonic clock.
    asked_us: u64,
    /// `None` if the device failed.
    pages: Option<Pages>,
    _held: Option<Held>,
}

/// A session's view of flash: empty until it looks there.
#[derive(Debug, Default)]
pub(crate) struct FlashView(OnceCell<Box<View>>);

#[derive(Default)]
struct View {
    reader: RefCell<Option<Reader>>,
    wanted: RefCell<Vec<ReadRequest>>,
    arrived: RefCell<Vec<ReadResult>>,
}

/// Where an item on flash was read.
#[derive(Debug, Clone, Copy)]
struct Source {
    place: Place,
    /// The life of the place's content when it was read.
    life: Option<Life>,
}

/// The outcome of looking for an item on flash.
enum Seen<'s> {
    /// A copy of it, and where it is.
    Here(&'s Row<'s>, Source),
    /// The place holds another key's item, or a damaged one.
    NotThis(Place),
    /// It holds the key's own item, which has expired.
    Over(Source),
    /// The device failed to read the place.
    Unreadable(Place),
    /// It has to be read first.
    Pending,
    /// The index leads to no place on flash.
    Nowhere,
}

/// Why an item on flash is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadIntent {
    /// For a client that wants it, which counts as a use of it.
    Reader,
    /// For a client that wants to know of it: it is read for that, without a trace.
    Asker,
    /// For a client that watches others: nothing is read for that.
    Watcher,
}

impl ReadIntent {
    fn trace(self) -> Trace {
        if self == Self::Reader { Trace::Leave } else { Trace::None }
    }
}

/// The fate of an item on flash that the device fails to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnReadFailure {
    /// It stays: a reader is told of a miss, and may find it when the device works again.
    Stays,
    /// It goes. A client that is told that there was nothing to change must not find it afterwards,
    /// as it was before; and one that stores something else would meet it again and again.
    Goes,
}

impl Cache {
    /// Starts the threads or the ring that read from flash, which otherwise start with the first
    /// read. Returns how they read; `None` without a flash tier, or if the system does not give
    /// what is needed. The process must not fork afterwards.
    pub fn start_flash_reads(&self) -> Option<ReadMethod> {
        self.flash.as_ref().and_then(|tier| tier.fetches.method())
    }

    /// Returns a ring through which the calling thread alone has flash read, for
    /// [`Cache::read_all_wanted`], so that its reads wake no other thread; it has to answer them.
    /// `None` where reads do not go through io_uring, or the kernel does not give such a ring
    /// (Linux before 6.0): then other threads read. The process must not fork afterwards.
    pub fn read_ring(&self) -> Option<ReadRing> {
        self.flash.as_ref().and_then(|tier| tier.fetches.ring())
    }

    /// Does the reads that a session waits for, in other threads, and hands each to `done` there,
    /// as soon as there is room for all of them.
    pub fn read_wanted(
        &self,
        wanted: Vec<ReadRequest>,
        done: impl Fn(ReadResult) + Send + Sync + 'static,
    ) {
        self.read_all_wanted([(wanted, done)], None);
    }

    /// [`Self::read_wanted`] for several sessions at once, each of which waits for room on its own.
    /// The reading threads are woken only once, or not at all where the calling thread has a
    /// `ring`: `done` is then called when it answers that, but in another thread for reads that had
    /// to wait for room.
    pub fn read_all_wanted<D>(
        &self,
        batches: impl IntoIterator<Item = (Vec<ReadRequest>, D)>,
        ring: Option<&mut ReadRing>,
    ) where
        D: Fn(ReadResult) + Send + Sync + 'static,
    {
        let asked_us = self.clock.monotonic_us();
        let Some(tier) = &self.flash else {
            for (wanted, done) in batches {
                let failed = |wanted| ReadResult { wanted, asked_us, pages: None, _held: None };
                wanted.into_iter().for_each(|wanted| done(failed(wanted)));
            }
            return;
        };
        let batch = |(wanted, done): (Vec<ReadRequest>, D)| {
            let pages: usize = wanted.iter().map(|one| one.pages).sum();
            tier.counters.reads.fetch_add(wanted.len() as u64, Ordering::Relaxed);
            tier.counters.pages_read.fetch_add(pages as u64, Ordering::Relaxed);
            let done = Arc::new(done);
            wanted.into_iter().map(|wanted| wanted.read(asked_us, Arc::clone(&done))).collect()
        };
        tier.fetches.submit(batches.into_iter().map(batch).collect(), ring);
    }

    /// [`Self::read_wanted`], waiting for the results. The caller must have no session open, and
    /// none of the results that arrived before.
    pub fn read_wanted_now(&self, wanted: Vec<ReadRequest>) -> Vec<ReadResult> {
        let (sender, receiver) = std::sync::mpsc::channel();
        // The receiver waits for all of them.
        self.read_wanted(wanted, move |arrived| _ = sender.send(arrived));
        receiver.into_iter().collect()
    }
}

impl ReadRequest {
    /// Returns the read that brings it.
    fn read(self, asked_us: u64, done: Arc<impl Fn(ReadResult) + Send + Sync + 'static>) -> Fetch {
        let done = move |pages: Option<Pages>, held: Held| {
            done(ReadResult { wanted: self, asked_us, pages, _held: Some(held) });
        };
        Fetch { page: self.page, pages: self.pages, done: Box::new(done) }
    }
}

impl Session<'_> {
    /// Returns the reads that the requests of this session wait for, as far as there may be room
    /// for them at a time; only the first while very many others wait. Do them, by
    /// [`Cache::read_wanted`], end the session, and ask again in another one to which the results
    /// are delivered.
    pub fn take_wanted(&self) -> Vec<ReadRequest> {
        let wanted = self.flash.0.get().map(|view| view.wanted.take());
        let mut wanted = wanted.unwrap_or_default();
        let Some(tier) = self.cache.flash.as_ref().filter(|_| !wanted.is_empty()) else {
            return wanted;
        };
        let bytes_max = if tier.fetches.is_crowded() { 0 } else { tier.fetches.bytes_max() };
        let mut bytes = 0;
        let fits = |wanted: &&ReadRequest| {
            bytes += wanted.pages * PAGE_BYTES;
            bytes <= bytes_max
        };
        // The first is the one that was asked for first.
        let count = wanted.iter().take_while(fits).count().max(1);
        wanted.truncate(count);
        wanted
    }

    /// Hands over the results of reads that requests waited for.
    pub fn deliver(&self, arrived: impl IntoIterator<Item = ReadResult>) {
        let mut arrived = arrived.into_iter().peekable();
        if arrived.peek().is_none() {
            return;
        }
        let mut all = self.flash.view().arrived.borrow_mut();
        let before = all.len();
        all.extend(arrived);
        // Here, where each read comes by once, however many requests look at it.
        let failed = all[before..].iter().filter(|arrived| arrived.pages.is_none()).count();
        if let Some(tier) = self.cache.flash.as_ref().filter(|_| failed > 0) {
            tier.counters.reads_failed.fetch_add(failed as u64, Ordering::Relaxed);
        }
    }

    /// Asks for the key's item to be read if it has to be. For later requests: it decodes nothing,
    /// and is no access.
    pub fn want(&self, key: &[u8], hash: Hash) {
        let Some(tier) = &self.cache.flash else { return };
        // An item whose row is spare is in the compressed zone, if not in the hot one; or the zone
        // has lost it, and it is read when a request asks for it.
        if self.cache.find(&self.guard, key, hash).is_some()
            || self.cache.has_spare(&self.guard, hash)
        {
            return;
        }
        let place = self.cache.find_on_flash(&self.guard, hash).filter(|_| tier.is_purged());
        if let Some(ticket) = place.and_then(|place| tier.flash.ticket(place, key)) {
            let view = self.flash.view();
            if view.arrived_for(&ticket).is_none() {
                view.ask_for(ticket);
            }
        }
    }

    /// Returns the key's item on flash, for a reader that did not find it in the other tiers; as
    /// [`Session::get_compressed`].
    #[inline(never)]
    pub(crate) fn get_on_flash(&self, key: &[u8], hash: Hash, elsewhere: u8) -> Lookup<'_> {
        let Some(tier) = &self.cache.flash else {
            return Lookup::Miss;
        };
        let flushes = self.cache.moment.flush.settled_count();
        match self.look_on_flash(key, hash, ReadIntent::Reader) {
            Seen::Here(row, _) if row.mark & elsewhere != 0 => {
                Lookup::Hit(Item::compressed(self.cache, row))
            }
            Seen::Here(row, source) => {
                let place = source.place;
                tier.counters.hits.fetch_add(1, Ordering::Relaxed);
                if place.accesses() > 0 && !self.cache.hot.is_memory_pressed() {
                    // An item that finds no memory stays where it is; so does one that would push
                    // out another before the background can demote that.
                    let _ = self.promote_flash_row(row, source, hash, flushes);
                } else {
                    self.cache.update_on_flash(&self.guard, hash, place, |found| {
                        (Some(found.with_accesses(found.accesses() + 1)), ())
                    });
                }
                Lookup::Hit(Item::compressed(self.cache, row))
            }
            Seen::Pending => Lookup::Pending,
            // The next look-up need not read it.
            Seen::Over(source) => {
                self.forget_over(source, hash);
                Lookup::Miss
            }
            Seen::NotThis(_) | Seen::Unreadable(_) | Seen::Nowhere => Lookup::Miss,
        }
    }

    /// Returns the key's item on flash, without counting a read.
    pub(crate) fn peek_on_flash(&self, key: &[u8], hash: Hash, looker: ReadIntent) -> Lookup<'_> {
        match self.look_on_flash(key, hash, looker) {
            Seen::Here(row, _) => Lookup::Hit(Item::compressed(self.cache, row)),
            Seen::Pending => Lookup::Pending,
            Seen::NotThis(_) | Seen::Over(_) | Seen::Unreadable(_) | Seen::Nowhere => Lookup::Miss,
        }
    }

    /// Visits the items of the next units on flash.
    pub(crate) fn dump_flash(
        &self,
        walk: &mut ::flash::Walk,
        mut visit: impl FnMut(&Item<'_>),
    ) -> Dumped {
        let Some(tier) = &self.cache.flash else { return Dumped::End };
        let view = self.flash.view();
        let mut all = view.arrived.borrow_mut();
        let own = all.iter().position(|arrived| arrived.wanted.ticket.is_none());
        let arrived = own.map(|own| all.swap_remove(own));
        drop(all);
        if arrived.as_ref().is_some_and(|arrived| arrived.pages.is_none()) {
            tier.flash.walk_past(walk);
        }
        let pages = arrived.as_ref().and_then(|arrived| arrived.pages.as_ref());
        let walked = tier.flash.walk(walk, pages, &FlashIndexAccess::new(self.cache), |record| {
            if !self.cache.is_expired(row_expiry(&record.fields)) {
                let (fields, mark) = (hot_fields(&record.fields), record.fields.mark);
                let row = Row { key: record.key, value: record.value, fields, mark };
                visit(&Item::compressed(self.cache, &row));
            }
        });
        match walked {
            Walked::More => Dumped::More,
            Walked::End => Dumped::End,
            Walked::Wait { page, pages } => {
                view.wanted.borrow_mut().push(ReadRequest { page, pages, ticket: None });
                Dumped::Pending
            }
        }
    }

    /// Promotes the key's item from flash. Returns whether there was one that could be read.
    pub(crate) fn promote_from_flash(
        &self,
        key: &[u8],
        hash: Hash,
        flushes: u64,
        unread: OnReadFailure,
    ) -> Result<bool, Refusal> {
        match self.look_on_flash(key, hash, ReadIntent::Reader) {
            Seen::Here(row, source) => match self.promote_flash_row(row, source, hash, flushes) {
                // It is in the way as well.
                Err(Refusal::TooLarge) => {
                    self.forget_read(source, hash);
                    Ok(false)
                }
                promoted => promoted.map(|()| true),
            },
            Seen::Unreadable(_) if unread == OnReadFailure::Stays => Ok(false),
            // It is in the way of requests that ask what is there.
            Seen::NotThis(place) | Seen::Unreadable(place) => {
                self.cache.update_on_flash(&self.guard, hash, place, |found| {
                    self.cache.forget_on_flash(found, hash);
                    (None, ())
                });
                Ok(false)
            }
            Seen::Over(source) => {
                self.forget_over(source, hash);
                Ok(false)
            }
            Seen::Pending => Err(Refusal::Pending),
            Seen::Nowhere => Ok(false),
        }
    }

    fn look_on_flash(&self, key: &[u8], hash: Hash, looker: ReadIntent) -> Seen<'_> {
        let Some(tier) = &self.cache.flash else {
            return Seen::Nowhere;
        };
        loop {
            let Some(place) = self.cache.find_on_flash(&self.guard, hash) else {
                return Seen::Nowhere;
            };
            // Between a flush and its purge there is nothing, though the tier may not know yet.
            let is_there = tier.is_purged();
            let seen = if is_there {
                self.read_place(tier, key, place, looker)
            } else {
                Seen::NotThis(place)
            };
            if matches!(seen, Seen::Pending) {
                return seen;
            }
            // Where the index leads by now, the item may have moved, or be another.
            if self.cache.is_on_flash(&self.guard, hash, place) {
                return seen;
            }
        }
    }

    /// Looks a key up at a place of the tier.
    fn read_place(
        &self,
        tier: &FlashTier,
        key: &[u8],
        place: Place,
        looker: ReadIntent,
    ) -> Seen<'_> {
        let view = self.flash.view();
        let mut lent = view.reader.borrow_mut();
        let reader = lent.get_or_insert_with(|| lock(&tier.readers).pop().unwrap_or_default());
        let mut look = tier.flash.look_with(place, key, reader, looker.trace());
        if let Look::Wait(ticket) = look
            && let Some(arrived) = view.arrived_for(&ticket)
            && let Some(ticket) = arrived.wanted.ticket
        {
            let Some(pages) = &arrived.pages else { return Seen::Unreadable(place) };
            look = match looker {
                ReadIntent::Reader => {
                    self.finish(tier, (pages, arrived.asked_us), &ticket, key, reader)
                }
                _ => tier.flash.finish_with(&ticket, pages, key, reader, Trace::None),
            };
        }
        let source = Source { place, life: reader.life() };
        match look {
            Look::Found(fields) if self.cache.is_expired(row_expiry(&fields)) => Seen::Over(source),
            Look::Found(fields) => {
                let rows = self.lower.rows();
                let row = rows.alloc(Row {
                    key: rows.alloc_slice_copy(key),
                    value: rows.alloc_slice_copy(reader.value()),
                    fields: hot_fields(&fields),
                    // A read is counted with its place, and not written.
                    mark: fields.mark | if place.accesses() > 0 { FETCHED } else { 0 },
                });
                Seen::Here(row, source)
            }
            Look::Absent => Seen::NotThis(place),
            Look::Wait(ticket) => {
                if looker != ReadIntent::Watcher {
                    view.ask_for(ticket);
                }
                Seen::Pending
            }
        }
    }

    /// Goes on with the pages of a read that was asked for at `asked_us`; times some reads.
    fn finish(
        &self,
        tier: &FlashTier,
        (pages, asked_us): (&Pages, u64),
        ticket: &Ticket,
        key: &[u8],
        reader: &mut Reader,
    ) -> Look {
        let reads = tier.counters.reads.load(Ordering::Relaxed);
        // By the page as well: several reads may be asked for at once.
        if !tier.read_costs.is_timed(reads.wrapping_add(ticket.page)) {
            return tier.flash.finish(ticket, pages, key, reader);
        }
        let (clock, area) = (&self.cache.clock, tier.flash.area_of(ticket));
        let wait_us = clock.monotonic_us().saturating_sub(asked_us);
        let began_us = clock.thread_cpu_us();
        let look = tier.flash.finish(ticket, pages, key, reader);
        if matches!(look, Look::Found(_)) {
            let find_us = clock.thread_cpu_us().saturating_sub(began_us);
            tier.read_costs.add(area, wait_us, find_us);
        }
        look
    }

    /// Takes an expired row out of the index, and counts it for the request. If it is spare, the
    /// item in memory had the same expiry, and was counted if it was met.
    fn forget_over(&self, source: Source, hash: Hash) {
        let is_spare = self.cache.is_spare(&self.guard, hash, source.place);
        if self.forget_read(source, hash) && !is_spare {
            self.cache.count_over();
        }
    }

    /// Takes a row that was read out of the index, if that still leads to it: it has expired, or is
    /// too large for the hot zone. Returns whether it did.
    fn forget_read(&self, source: Source, hash: Hash) -> bool {
        let cache = self.cache;
        let forgotten = cache.update_on_flash(&self.guard, hash, source.place, |found| {
            // The place may be that of another item of the key by now.
            if !self.is_current(source) {
                return (Some(found), false);
            }
            cache.forget_on_flash(found, hash);
            (None, true)
        });
        forgotten == Some(true)
    }

    /// Whether the row that was read is the one that lies there now. Under the key's lock.
    fn is_current(&self, source: Source) -> bool {
        let tier = self.cache.flash.as_deref();
        tier.zip(source.life).is_some_and(|(tier, life)| tier.flash.is_alive(life))
    }

    /// Promotes a row if the index still leads to its place, and if nothing was flushed since
    /// before it was read.
    fn promote_flash_row(
        &self,
        row: &Row<'_>,
        source: Source,
        hash: Hash,
        flushes: u64,
    ) -> Result<(), Refusal> {
        let copy =
            PromotedItem { row, hash, mark_bits: row.mark, from: Some(source.place), flushes };
        let promoted = self.enter_copy(&copy, |present| {
            let is_led_to = present.flash.is_some_and(|place| place.is_same(source.place));
            let leaves = is_led_to && self.is_current(source);
            if leaves {
                // It may not have been buried yet where it came from.
                self.forget_compressed(row.key, hash);
            }
            leaves
        })?;
        if let Some(tier) = self.cache.flash.as_ref().filter(|_| promoted) {
            tier.counters.promoted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives the reader back.
    #[inline]
    pub(crate) fn end_flash(&mut self) {
        if let Some(view) = self.flash.0.take()
            && let Some(tier) = &self.cache.flash
            && let Some(mut reader) = view.reader.take()
        {
            reader.shrink_buffers();
            lock(&tier.readers).push(reader);
        }
    }
}

impl FlashView {
    fn view(&self) -> &View {
        self.0.get_or_init(Box::default)
    }
}

impl View {
    /// Returns what has arrived of a unit: the latest, since a long one is asked for twice, the
    /// second time as a whole.
    fn arrived_for(&self, ticket: &Ticket) -> Option<Ref<'_, ReadResult>> {
        let of_unit =
            |one: &ReadResult| one.wanted.ticket.is_some_and(|its| its.is_for_unit_of(ticket));
        let latest = |arrived: &Vec<ReadResult>| arrived.iter().rposition(of_unit);
        let arrived = self.arrived.borrow();
        let at = latest(&arrived)?;
        Some(Ref::map(arrived, |arrived| &arrived[at]))
    }

    fn ask_for(&self, ticket: Ticket) {
        let mut wanted = self.wanted.borrow_mut();
        // Keys that were stored together lie together, and one read brings them all.
        let is_asked = wanted.iter().any(|one| one.ticket == Some(ticket));
        if !is_asked && wanted.len() < WANTED_MAX {
            let Ticket { page, pages, .. } = ticket;
            wanted.push(ReadRequest { page, pages, ticket: Some(ticket) });
        }
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("wanted", &self.wanted.borrow().len()).finish()
    }
}
