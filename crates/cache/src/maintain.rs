//! The background's work, which keeps it off the path of stores. A turn does these chores in order
//! ([`Cache::do_chores`]), and yields the CPU between the longer ones:
//!
//! ```text
//!   tick, flush_if_due        the clock; a planned flush that is due            flush
//!   write_full                full flash segments, for which stores may wait    spill
//!   walk                      removes flushed items, renumbers old ones         here
//!   sweep_expired             expired items, for room without an eviction       expire
//!   train_between             dictionaries, without a thread for them           train
//!   maintain_compressed       the compressed zone's budget and upkeep           demote
//!   make_room                 reserves, quotas, slabs that others need, a       here, hot
//!                             lowered limit: demotes or evicts
//!   maintain_flash            the flash tier's upkeep                           spill
//!   repartition               hot items to their columns, if no walk is on      repartition
//!   move_some, maintain_some  tables of the index                               index
//!   prepare, sweep            the arena's next slab; limbo                      memory, hot
//! ```
//!
//! The sweep comes before room is made, since then nothing else need leave if it finds plenty, and
//! the compressed zone's budget is set before the hot zone gives up slabs for it.
//!
//! Without a background, stores make room themselves, and changes renumber old items before numbers
//! come round; but flushed items keep their memory until they are evicted, and no flush ends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hot::walk::Cursor;
use hot::{CacheHooks, ItemRef};
use index::Hash;
use memory::{Guard, Place, Tag};
use stdx::sync::{Backoff, lock};

use crate::builder::{MemoryLimitError, SLABS_MIN};
use crate::cache::Cache;
use crate::demote::{Downward, Mover};
use crate::expire::HotSweep;
use crate::flush::RENUMBER_MUTATIONS;
use crate::places::{Fate, Found};
use crate::repartition::Repartitioning;
use crate::spill::Purge;
use crate::time_slice::TimeSlice;
use crate::train::Calm;

/// Chunks that the walk after a flush looks at in one turn.
const WALK_CHUNKS: usize = 16 << 10;
/// Of these, as many as are looked at while it is pinned, and while it holds the lock of a class,
/// for which stores wait: some tens of microseconds.
pub(crate) const PINNED_CHUNKS: usize = 1 << 8;
/// Tables of the index that are looked at in one turn: some microseconds' worth.
const TABLES_PER_TURN: usize = 64;
/// Slabs of the hot zone that a full index gets at once.
const INDEX_SLABS: usize = 2;
/// Slabs taken from the hot zone in one turn, for the index or for a lowered limit.
const SLABS_PER_TURN_MAX: usize = 8;
/// Mutations after which a store looks once more whether the background does its work.
const OVERDUE_LOOK_MUTATIONS: u64 = 1 << 22;
/// Times that a thread that needs memory looks whether pinned readers have left,
const WAIT_LOOKS: usize = 1000;
/// and pauses it then makes before it goes on regardless: a pinned thread may have lost its core,
/// or wait for a lock.
const WAIT_PAUSES: usize = 8;
/// The length of one of the [`WAIT_PAUSES`].
const WAIT_PAUSE: Duration = Duration::from_millis(1);

/// The state of the background's work.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    /// For items that are demoted.
    pub(crate) mover: Mover,
    walk: Option<Walk>,
    /// The purge of the index of words that lead to flash.
    pub(crate) purging: Option<Purge>,
    expiry: HotSweep,
    calm: Calm,
    repartitioning: Repartitioning,
    /// The table of the index that is looked at next, if not the first,
    table: Option<Hash>,
    /// and the one from which on a table that is to move is sought.
    moving: Option<Hash>,
    /// The era in which old items were last renumbered.
    renumbered_era: u64,
    /// Old items have not been renumbered for too long; sessions open at this time, which may move
    /// items to where a walk has been, have to end first.
    overdue: Option<Tag>,
}

impl Chores {
    /// Returns the chores of a cache of `memory_bytes` whose mutations are numbered from `sequence`
    /// on.
    pub(crate) fn filling(sequence: u64, memory_bytes: usize) -> Self {
        Self { mover: Mover::filling(memory_bytes), ..Self::beginning_at(sequence) }
    }

    fn beginning_at(sequence: u64) -> Self {
        Self { renumbered_era: sequence / RENUMBER_MUTATIONS, ..Self::default() }
    }

    /// Returns the chores of a cache whose items are those of an image.
    pub(crate) fn restoring(head: &codec::image::Head) -> Self {
        // The walk of its last era may not have come to its end.
        let renumbered = head.sequence.saturating_sub(RENUMBER_MUTATIONS);
        Self { mover: Mover::with_share(head.share()), ..Self::beginning_at(renumbered) }
    }
}

/// A walk over the whole hot zone, a part in each turn.
#[derive(Debug, Clone, Copy)]
struct Walk {
    purpose: Purpose,
    /// The next step waits until the sessions that were open at this time have ended.
    tag: Tag,
    cursor: Cursor,
    /// Where the walk over the compressed zone goes on.
    compressed: compressed::Cursor,
    /// The whole hot zone was walked, and then all that is to be walked.
    is_hot_walked: bool,
    is_walked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Removes flushed items, for the flushes up to this number.
    Flush(u64),
    /// Renumbers old items, in this era.
    Renumber(u64),
}

impl Purpose {
    /// Whether a walk that was begun for this purpose goes on though there is another by now. A
    /// flush that comes meanwhile, or an era that begins, has its own walk after it: otherwise,
    /// where they come sooner than a walk ends, no walk would ever end, and items that lie last in
    /// memory would never be renumbered.
    fn goes_on_for(self, now: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&now)
    }
}

impl Cache {
    /// Does one turn of the background's work. Returns whether there is more to do at once. Call it
    /// from one thread in a loop with [`Cache::wait_for_work`]; a second thread's call returns at
    /// once. It yields the CPU every hundred microseconds, so that requests on it need not wait.
    pub fn maintain(&self) -> bool {
        self.sync_between();
        let Ok(mut chores) = self.chores.try_lock() else {
            return false;
        };
        self.do_chores(&mut chores)
    }

    /// Does one turn of the background's work, for the thread that holds its lock.
    pub(crate) fn do_chores(&self, chores: &mut Chores) -> bool {
        self.tick();
        self.flush_if_due();
        self.write_full();
        let mut more = self.walk(chores);
        let room_comes = self.sweep_expired(&mut chores.expiry, &mut chores.mover.turn);
        more |= self.train_between(&mut chores.calm);
        chores.mover.turn.end_if_long(&*self.clock);
        if let Some(compressed) = &self.compressed {
            more |= self.maintain_compressed(compressed, &mut chores.mover);
        }
        chores.mover.turn.end_if_long(&*self.clock);
        more |= if self.compressed.is_some() || self.flash.is_some() {
            self.make_room(room_comes, &Downward::new(self, &mut chores.mover))
        } else {
            self.make_room(room_comes, self)
        };
        chores.mover.turn.end_if_long(&*self.clock);
        more |= self.maintain_flash(&mut chores.purging, &mut chores.mover.turn);
        chores.mover.turn.end_if_long(&*self.clock);
        // During a walk, items could move to where it has been.
        if chores.walk.is_none() {
            self.repartition(&mut chores.repartitioning);
        }
        if !chores.mover.is_hurried {
            // While items are restored, room to spare in tables of the index is for those to come.
            chores.moving = self.index.move_some(chores.moving.unwrap_or(Hash(0)));
            let begin = chores.table.unwrap_or(Hash(0));
            (_, chores.table) = self.index.maintain_some(begin, TABLES_PER_TURN);
        }
        self.arena.prepare();
        // Without readers the epoch moves on only when asked to.
        self.hot.sweep();
        more
    }

    /// Blocks until a request calls for the background, or `timeout` has passed.
    pub fn wait_for_work(&self, timeout: Duration) {
        let (called, condition) = &self.work;
        let waiting = lock(called);
        let (mut called, _) = condition
            .wait_timeout_while(waiting, timeout, |called| !*called)
            .expect("nothing panics while it holds this lock");
        *called = false;
    }

    /// Wakes the thread that waits in [`Cache::wait_for_work`].
    pub fn call_for_work(&self) {
        let (called, condition) = &self.work;
        let mut called = lock(called);
        if !*called {
            *called = true;
            condition.notify_one();
        }
    }

    /// Returns the memory limit, in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.arena.limit_slabs() * self.arena.slab_bytes() + self.tier_bytes
    }

    /// Returns the highest possible memory limit, in bytes: as far as there are addresses.
    pub fn memory_bytes_max(&self) -> usize {
        self.arena.reserved_slabs() * self.arena.slab_bytes() + self.tier_bytes
    }

    /// Changes the memory limit, in bytes. A lower one takes effect over the next turns of
    /// [`Cache::maintain`].
    ///
    /// # Errors
    ///
    /// The limit is above [`Cache::memory_bytes_max`].
    pub fn set_memory_bytes(&self, bytes: usize) -> Result<(), MemoryLimitError> {
        let slab_bytes = self.arena.slab_bytes();
        let slabs = (bytes.saturating_sub(self.tier_bytes) / slab_bytes).max(SLABS_MIN);
        if slabs > self.arena.reserved_slabs() {
            return Err(MemoryLimitError { bytes_max: self.memory_bytes_max() });
        }
        let before = self.arena.limit_slabs();
        self.arena.set_limit_slabs(slabs);
        if let Some(compressed) = &self.compressed {
            // Until the next turn has the budget exactly: it may be more than the limit is now.
            let budget_slabs = compressed.zone.budget_slabs();
            compressed.zone.set_budget_slabs(budget_slabs * slabs.min(before) / before);
        }
        self.resize_quotas();
        if let Some(tier) = &self.flash {
            tier.fetches.resize(bytes);
        }
        self.call_for_work();
        Ok(())
    }

    /// Waits a moment for pinned readers to leave memory that was freed, and for the flash tier to
    /// take more. The caller must have no session open.
    pub fn wait_for_memory(&self) {
        let tag = self.epochs.latest_tag();
        let mut backoff = Backoff::default();
        for look in 0..WAIT_LOOKS + WAIT_PAUSES {
            if self.epochs.try_reach(tag) {
                break;
            }
            if look < WAIT_LOOKS {
                backoff.wait();
            } else {
                io::thread::pause(WAIT_PAUSE);
            }
        }
        if let Some(tier) = &self.flash {
            tier.wait_for_room();
        }
    }

    /// Makes room for an index that cannot grow: a slab from the hot zone. Returns whether one
    /// comes once readers have left, the caller among them.
    pub(crate) fn make_room_for_index(&self) -> bool {
        self.tables.claim();
        let comes = self.hot.give_up_slabs(1, self);
        self.call_for_work();
        comes
    }

    /// Gives a full index slabs of the hot zone, and waits for readers to leave them. The caller
    /// must have no session open, and be pinned by nothing else.
    pub(crate) fn give_slabs_to_index(&self) {
        self.tables.claim();
        self.hot.give_up_slabs(INDEX_SLABS, self);
        self.wait_for_memory();
        self.hot.sweep();
    }

    /// Keeps reserves and quotas in the hot zone, and takes slabs from it when the limit was
    /// lowered, the index has none to grow into, or the compressed zone has fewer than its budget.
    /// While there are plenty of expired items, only what has to go at once goes. Returns whether
    /// there is more to do at once.
    fn make_room(&self, room_comes: bool, hooks: &dyn CacheHooks) -> bool {
        // The compressed zone gives up slabs by itself, by and by: a hot zone that gave up as many
        // at once would have none left.
        let zone = self.compressed.as_ref().map(|compressed| &compressed.zone);
        let over = zone.map_or(0, |zone| zone.slabs().saturating_sub(zone.budget_slabs()));
        let excess = self.arena.excess_slabs().saturating_sub(over);
        let starved = usize::from(self.tables.take_starved());
        if starved > 0 {
            self.tables.claim();
        }
        let wanted = excess.max(starved).max(self.slabs_wanted_by_compressed());
        let comes = self.hot.give_up_slabs(wanted.min(SLABS_PER_TURN_MAX), hooks);
        self.hot.sweep();
        // If no slab comes, the next turn would get none either.
        self.hot.maintain(room_comes, hooks)
            | self.hot.keep_quotas(hooks)
            | (comes && excess > SLABS_PER_TURN_MAX)
    }

    /// Goes on with the walk that is due. Returns whether there is more to do at once.
    fn walk(&self, chores: &mut Chores) -> bool {
        let flushed = self.moment.flush.sequence();
        let era = self.era();
        let purpose = match flushed {
            0 if era == chores.renumbered_era => {
                // A store may have ended a walk to renumber already.
                chores.walk = None;
                self.is_walked.store(false, Ordering::Relaxed);
                return false;
            }
            0 => Purpose::Renumber(era),
            _ => Purpose::Flush(flushed),
        };
        self.is_walked.store(true, Ordering::Relaxed);
        chores.overdue = None;
        let begun = chores.walk.take().filter(|walk| walk.purpose.goes_on_for(purpose));
        let mut walk = begun.unwrap_or_else(|| Walk {
            purpose,
            tag: self.epochs.tag(),
            cursor: Cursor::default(),
            compressed: compressed::Cursor::default(),
            is_hot_walked: false,
            is_walked: false,
        });
        let may_go_on = self.epochs.try_reach(walk.tag);
        if may_go_on && !walk.is_walked && !self.walk_on(&mut walk, &mut chores.mover.turn) {
            (walk.is_walked, walk.tag) = (true, self.epochs.tag());
            chores.walk = Some(walk);
            return true;
        }
        if !may_go_on || !walk.is_walked {
            chores.walk = Some(walk);
            return may_go_on;
        }
        match walk.purpose {
            Purpose::Flush(flushed) => self.moment.flush.end(flushed),
            // A store may have renumbered for a later era.
            Purpose::Renumber(era) => chores.renumbered_era = era.max(chores.renumbered_era),
        }
        self.is_walked.store(false, Ordering::Relaxed);
        // A later flush or era has its own walk, which is due now.
        self.moment.flush.sequence() != 0 || self.era() != chores.renumbered_era
    }

    /// Returns the present era; old items are renumbered once in each.
    fn era(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed) / RENUMBER_MUTATIONS
    }

    /// Goes on with a walk, over the hot zone and then, for what may have to be removed there, the
    /// compressed one. Returns whether it goes on.
    fn walk_on(&self, walk: &mut Walk, turn: &mut TimeSlice) -> bool {
        if !walk.is_hot_walked {
            walk.is_hot_walked = !self.walk_some(&mut walk.cursor, turn);
            return true;
        }
        let is_for_prefixes = matches!(walk.purpose, Purpose::Flush(_)) && self.flushes_prefixes();
        is_for_prefixes && self.walk_compressed(&mut walk.compressed, turn)
    }

    /// Removes expired and flushed items of the next part of the zone, and renumbers old ones.
    fn walk_some(&self, cursor: &mut Cursor, turn: &mut TimeSlice) -> bool {
        (0..WALK_CHUNKS / PINNED_CHUNKS).all(|_| {
            let more = self.walk_few(cursor);
            turn.end_if_long(&*self.clock);
            more
        })
    }

    /// [`Self::walk_some`] for a few chunks, for a caller that may be pinned.
    fn walk_few(&self, cursor: &mut Cursor) -> bool {
        let guard = self.epochs.pin();
        let flushes = self.moment.flush.settled_count();
        let mut met: Vec<(Hash, Place)> = Vec::new();
        // A class's lock is held there, for which stores wait: items are looked up after it has
        // opened.
        let more = self.hot.walk(&guard, cursor, PINNED_CHUNKS, |item, place| {
            if self.is_gone(item) || self.is_old(item) {
                met.push((self.hash(item.key()), place));
            }
        });
        for met in met {
            self.settle(&guard, met, flushes);
        }
        more
    }

    /// Removes an item that the walk has met at this place, or renumbers it, unless a flush has
    /// begun after `flushes`. Which of the two is decided anew: the item may have left the index
    /// before the walk met it, and its chunk may have been reused since.
    fn settle(&self, guard: &Guard<'_>, (hash, place): (Hash, Place), flushes: u64) {
        let found = self.find_at(guard, hash, place);
        // The index may not tell another item there from it.
        let is_key = |found: &Found<'_>| self.hash(found.item.key()) == hash;
        let Some(found) = found.filter(is_key) else { return };
        if self.is_gone(found.item) {
            self.remove_found(guard, hash, &found);
        } else if self.is_old(found.item) {
            self.update_found(guard, hash, &found, || {
                let sequence = self.next_sequence();
                if !self.is_gone(found.item) && self.moment.flush.is_unchanged_since(flushes) {
                    found.item.set_sequence(sequence as u32);
                }
                (Fate::Keep, ())
            });
        }
    }

    /// Whether the item's number is so old that it is to get another.
    pub(crate) fn is_old(&self, item: ItemRef<'_>) -> bool {
        self.age(item) > RENUMBER_MUTATIONS
    }

    /// Returns the number of mutations since the item's.
    pub(crate) fn age(&self, item: ItemRef<'_>) -> u64 {
        let latest = self.sequence.load(Ordering::Relaxed);
        latest.saturating_sub(self.full_sequence(item.sequence()))
    }

    /// Renumbers old items at once if the background has not done so for two eras: there may be
    /// none, and numbers must not come round.
    pub(crate) fn renumber_if_overdue(&self, sequence: u64) {
        if !sequence.is_multiple_of(OVERDUE_LOOK_MUTATIONS) {
            return;
        }
        let era = sequence / RENUMBER_MUTATIONS;
        // The thread that holds it does the work.
        let Ok(mut chores) = self.chores.try_lock() else {
            return;
        };
        if chores.renumbered_era + 2 > era {
            return;
        }
        self.is_walked.store(true, Ordering::Relaxed);
        let tag = *chores.overdue.get_or_insert_with(|| self.epochs.tag());
        // The caller is pinned, perhaps for longer than that: then it is done at the next look.
        if self.epochs.try_reach(tag) {
            let mut cursor = Cursor::default();
            while self.walk_few(&mut cursor) {}
            chores.overdue = None;
            self.is_walked.store(chores.walk.is_some(), Ordering::Relaxed);
            chores.renumbered_era = era;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::{Arc, OnceLock, Weak};

    use super::*;
    use crate::types::Expiry;

    /// A clock that looks how many items the cache has whenever it is read: between two looks the
    /// background does not yield the CPU.
    #[derive(Default)]
    struct Watching {
        cache: OnceLock<Weak<Cache>>,
        looks: AtomicU64,
        /// Items at the last look, and the most that left between two looks.
        items: AtomicU64,
        most: AtomicU64,
    }

    impl Watching {
        /// Returns a cache that goes by it.
        fn cache(self: &Arc<Self>, compress: bool) -> Arc<Cache> {
            let builder = Cache::builder().memory_bytes(16 << 20).compress(compress);
            let cache = Arc::new(builder.clock(self.clone()).build().expect("a small cache"));
            self.cache.set(Arc::downgrade(&cache)).expect("set once");
            cache
        }
    }

    impl io::Clock for Watching {
        fn unix_seconds(&self) -> u32 {
            1_800_000_000
        }

        fn monotonic_us(&self) -> u64 {
            if let Some(cache) = self.cache.get().and_then(Weak::upgrade) {
                let items = cache.stats().items;
                let before = self.items.swap(items, Ordering::Relaxed);
                self.most.fetch_max(before.saturating_sub(items), Ordering::Relaxed);
            }
            self.looks.fetch_add(1, Ordering::Relaxed)
        }
    }

    /// Regression: all flushed items were removed in one go, some milliseconds of it, turn after
    /// turn.
    #[test]
    fn the_walk_after_a_flush_yields_the_cpu_between_its_pieces() {
        let clock = Arc::new(Watching::default());
        let cache = clock.cache(false);
        for number in 0..10_000_u32 {
            cache.set(&number.to_be_bytes(), b"v", Expiry::NEVER).expect("there is room");
        }
        io::Clock::monotonic_us(&*clock);
        cache.flush(None);
        while cache.maintain() {}
        assert_eq!(cache.stats().items, 0);
        let most = clock.most.load(Ordering::Relaxed);
        assert!((1..=PINNED_CHUNKS as u64).contains(&most), "{most}");
    }

    /// Regression: as above in the compressed zone, of which each leaf takes tens of microseconds.
    #[test]
    fn the_walk_of_the_zone_yields_the_cpu_between_leaves() {
        let clock = Arc::new(Watching::default());
        let cache = clock.cache(true);
        for number in 0..40_000_u32 {
            let key = number.to_be_bytes();
            cache.set(&key, &[7; 500], Expiry::NEVER).expect("others give way");
            assert!(cache.get(&key).is_some(), "what was read is wanted below");
            while number.is_multiple_of(32) && cache.maintain() {}
        }
        let looks = || clock.looks.load(Ordering::Relaxed);
        let (mut cursor, before) = (compressed::Cursor::default(), looks());
        assert!(
            cache.walk_compressed(&mut cursor, &mut TimeSlice::default()),
            "there is more of it"
        );
        assert!(looks() - before >= 8, "{}", looks() - before);
    }

    /// Regression: each era began the walk anew, so that where one takes longer than an era none
    /// ever ended, and items that lie last in memory were never renumbered.
    #[test]
    fn a_walk_to_renumber_ends_though_it_takes_longer_than_an_era() {
        const ITEMS: u32 = 100_000;
        let builder = Cache::builder().memory_bytes(16 << 20).compress(false);
        let cache = builder.build().expect("a small cache");
        for number in 0..ITEMS {
            cache.set(&number.to_be_bytes(), b"v", Expiry::NEVER).expect("there is room");
        }
        let turns = ITEMS as usize / WALK_CHUNKS;
        assert_eq!(cache.stats().items, u64::from(ITEMS));
        // From the last item's point of view: no number is older than two and a half eras.
        cache.sequence.fetch_add(RENUMBER_MUTATIONS + 1, Ordering::Relaxed);
        for _ in 0..2 * turns {
            cache.maintain();
            cache.sequence.fetch_add(RENUMBER_MUTATIONS / turns as u64, Ordering::Relaxed);
        }
        let oldest = (0..ITEMS).map(|number| {
            let (guard, key) = (cache.epochs.pin(), number.to_be_bytes());
            let found = cache.find(&guard, &key, cache.hash(&key)).expect("it is there");
            cache.age(found.item)
        });
        let (oldest, era) = (oldest.max().unwrap_or(0), RENUMBER_MUTATIONS);
        assert!(oldest < 2 * era + era / 2, "{oldest}");
        assert!(lock(&cache.chores).renumbered_era > 0, "a walk has ended");
    }

    /// At a place that the walk has met, another item may lie before it looks there again.
    #[test]
    fn the_walk_leaves_items_alone_that_are_neither_gone_nor_old() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        cache.set(b"k", b"v", Expiry::NEVER).expect("an empty cache has room");
        let (guard, hash) = (cache.epochs.pin(), cache.hash(b"k"));
        let settle =
            |place| cache.settle(&guard, (hash, place), cache.moment.flush.settled_count());
        let found = cache.find(&guard, b"k", hash).expect("it is there");
        let number = found.item.sequence();
        settle(found.place());
        let still = cache.find(&guard, b"k", hash).expect("it is there still");
        assert_eq!((still.place(), still.item.sequence()), (found.place(), number));
        cache.sequence.fetch_add(RENUMBER_MUTATIONS + 1, Ordering::Relaxed);
        settle(found.place());
        assert!(cache.find(&guard, b"k", hash).is_some_and(|it| it.item.sequence() != number));
        cache.flush(None);
        settle(found.place());
        assert!(cache.find(&guard, b"k", hash).is_none());
    }

    #[test]
    fn a_flush_is_not_over_while_a_session_may_hold_what_it_took() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        cache.set(b"k", b"v", Expiry::NEVER).expect("an empty cache has room");
        let maintain = || while cache.maintain() {};
        let open_at_the_flush = cache.session();
        cache.flush(None);
        maintain();
        assert_eq!(cache.stats().items, 1, "the walk waits");
        assert!(!cache.may_move(), "and nothing moves past it");
        drop(open_at_the_flush);
        let key = cache.hash(b"k");
        let open_at_the_walk = cache.session();
        maintain();
        assert_eq!(cache.stats().items, 0, "walked");
        assert!(cache.moment.flush.sequence() != 0 && !cache.may_move(), "and not over");
        assert!(open_at_the_walk.get(b"k", key).is_none());
        drop(open_at_the_walk);
        maintain();
        assert!(cache.moment.flush.sequence() == 0 && cache.may_move(), "over");
    }

    /// Regression: the turn that ended the first walk returned that there was nothing more to do.
    #[test]
    fn a_flush_that_comes_while_another_is_walked_has_its_walk_at_once() {
        let cache = Cache::builder().memory_bytes(4 << 20).build().expect("a small cache");
        let maintain = || while cache.maintain() {};
        cache.set(b"k", b"v", Expiry::NEVER).expect("an empty cache has room");
        cache.flush(None);
        while cache.stats().items > 0 {
            assert!(cache.maintain());
        }
        let open_at_the_walk = cache.session();
        maintain();
        assert!(cache.moment.flush.sequence() != 0, "not over");
        cache.set(b"k", b"w", Expiry::NEVER).expect("there is room");
        cache.flush(None);
        drop(open_at_the_walk);
        maintain();
        assert_eq!((cache.stats().items, cache.moment.flush.sequence()), (0, 0));
    }
}
