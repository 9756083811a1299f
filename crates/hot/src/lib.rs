//! The hot zone: uncompressed items in slabs, each slab cut into the chunks of one size class.
//!
//! A store drafts an item in a chunk of its own ([`Draft`]), publishes it, and only then does the
//! index point at it; from there on key and value never change. An overwrite publishes another
//! chunk, and the old one is *retired*: it waits in limbo until no reader can see it.
//!
//! When a class runs out of chunks it takes a slab from the arena. When the arena has none, the
//! class compares the items it would evict with those that other classes keep. If they keep much
//! older items it gets one of their slabs ([`shift`]); otherwise it evicts by its hand, or by the
//! order that it keeps ([`evict`]). Its policy decides which items stay ([`Policy`]). The
//! background does the same ahead of need, so that a store rarely has to.
//!
//! The zone does not know the index. The owner of both tells it, through [`CacheHooks`], how to
//! unlink an item. Locks nest in one order: a class's lock first, then whatever `CacheHooks` takes;
//! never two classes' locks.
//!
//! The rooms, in reading order:
//!
//! ```text
//!   an item      layout, chunk, mark, item   how it lies in memory
//!                item_version                which of its states a copy was made of
//!                draft                       how it is written and published
//!   a class      slab, class                 free chunks, and chunks that wait for readers
//!                magazine, allocate          where the next chunk comes from
//!                evict, class_policy, order  which item is evicted
//!   room         vacate, shift, rescue       slabs that go to another class; items that stay
//!                expire                      the sweep for expired items
//!                demote                      moves to the tier below
//!   the whole    walk                        all items, in the order of memory
//!   on request   quota                       a limit for keys with a prefix
//!                repartition                 hot items into one column of a slab, chosen by
//!                heat, hot_pages             temperatures and by pages
//! ```

mod allocate;
mod chunk;
mod class;
mod class_policy;
mod demote;
mod draft;
pub mod evict;
pub mod expire;
pub mod heat;
mod hot_pages;
pub mod item;
mod item_version;
pub mod layout;
pub mod magazine;
pub mod mark;
mod order;
pub mod quota;
pub mod repartition;
mod rescue;
mod shift;
mod slab;
mod vacate;
pub mod walk;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use memory::{Arena, ClassId, Epochs, Guard, Place, SizeClasses};
use policy::gd_wheel::CHUNKS_MAX;
use stdx::CachePadded;
use stdx::sync::{Backoff, lock};

pub use chunk::ChunkLayout;
use chunk::{Chunk, ChunkFormat, ChunkNeed};
pub use class::ClassCounters;
use class::{Class, Zone};
use class_policy::ClassPolicy;
pub use class_policy::Policy;
pub use draft::Draft;
use heat::Heat;
pub use heat::{Repartition, RepartitionCounts};
pub use hot_pages::FrameCounts;
pub use item::ItemRef;
pub use item_version::ItemVersion;
pub use layout::{Fields, Layout};
use magazine::{Magazines, Parked};
use quota::Quotas;
use slab::Slab;

/// Arena bytes of tests, in slabs of 2 MiB. Miri lays all of it out; there slabs have 128 KiB.
#[cfg(test)]
const TEST_ARENA_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 1 << 30 };

/// Why no chunk could be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Memory was evicted, but pinned readers, perhaps the caller itself, may still see it.
    Pinned,
    /// Nothing could be evicted, or eviction is switched off.
    Nothing,
    /// The item alone would take more than its quota.
    Quota,
}

/// The outcome of unlinking an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlinked {
    /// The index did not point at its place any more.
    Not,
    /// Nothing of it is left.
    Left,
    /// A tier below had it as well and serves it from now on.
    Rests,
}

impl From<bool> for Unlinked {
    /// For an item that no other tier has.
    fn from(is_unlinked: bool) -> Self {
        if is_unlinked { Self::Left } else { Self::Not }
    }
}

/// The hot zone's view of the cache that owns it: what it has to know or have done about its items.
pub trait CacheHooks {
    /// Unix seconds.
    fn now(&self) -> u32;
    /// Whether items may be evicted while they are alive.
    fn may_evict(&self) -> bool;
    /// The number of mutations so far: the clock by which ages are compared.
    fn mutations(&self) -> u64;
    /// The number of mutations since the item's own.
    fn age(&self, item: ItemRef<'_>) -> u64;
    /// Prefetches the cache lines that `unlink` will need.
    fn prefetch(&self, guard: &Guard<'_>, item: ItemRef<'_>);
    /// Whether the item is expired or flushed, so that no reader gets it any more.
    fn is_gone(&self, item: ItemRef<'_>) -> bool;
    /// Notes that a live item was unlinked to make room. Called under the lock of a class: it must
    /// be quick, and take no lock that is held while the hot zone is called.
    fn evicted(&self, item: ItemRef<'_>, class: ClassId);
    /// Removes the item from the index if the index still points at exactly this place.
    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> Unlinked;
    /// Whether this thread offers items to a tier below before it evicts them. That takes
    /// microseconds for each, so it is for the background only.
    fn demotes(&self) -> bool {
        false
    }
    /// Whether the background would demote what this thread can only evict: then stores evict no
    /// more than they must.
    fn background_demotes(&self) -> bool {
        false
    }
    /// Whether a store may at this moment demote at once what it would evict otherwise: then it
    /// begins before the last chunk is taken.
    fn store_demotes(&self) -> bool {
        false
    }
    /// Whether a store may do so at least when no other chunk can be had.
    fn store_demotes_wanted(&self) -> bool {
        self.store_demotes()
    }
    /// Demotes an item at once, for a store: removes it from the index and retires it, if the index
    /// still points at exactly that item. Returns whether it did. That takes a microsecond or two
    /// and waits for nothing but short locks. Called without any lock.
    fn demote_for_store(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        let _ = (guard, item, place);
        false
    }
    /// Whether the index points at exactly this place.
    fn is_linked(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        let _ = (guard, item, place);
        false
    }
    /// Whether items may move from chunk to chunk. The caller is pinned.
    fn may_move(&self) -> bool {
        true
    }
    /// Points the index at a copy of the item as it is now, if the index still points at exactly
    /// this place. Returns whether it did: then the old place is the caller's. Called without any
    /// lock.
    fn relocate(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: Place,
        copy: Draft<'_>,
    ) -> bool {
        let _ = (guard, item, place, copy);
        false
    }
    /// Takes a copy of an item, to move it. Returns whether it is to be moved. Called without any
    /// lock.
    fn copy(&self, item: ItemRef<'_>, place: Place) -> bool {
        let _ = (item, place);
        false
    }
    /// Demotes the item that was copied last: removes it from the index and retires it, if the
    /// index still points at exactly that item. Returns whether it did. Called without any lock, by
    /// a thread that is not pinned.
    fn demote(&self) -> bool {
        false
    }
}

/// Bit of [`Hot::pressed`]: a class's reserve is low.
const PRESSED_CLASS: u8 = 1;
/// Bit: a quota's reserve is low; others have no shortage.
const PRESSED_QUOTA: u8 = 2;
/// Bit: stores have demoted items since the background last found all reserves in order.
const PRESSED_BEHIND: u8 = 4;

/// How often an evicting thread waits, at most, until a store has had its turn: a few microseconds,
/// or until others have had the core as well.
const WAY_WAITS_MAX: u32 = Backoff::SPINS + 2;

/// The hot zone.
pub struct Hot {
    arena: Arc<Arena>,
    epochs: Arc<Epochs>,
    sizes: SizeClasses,
    /// The first class whose chunks are split; a number that no class has, if none are.
    first_split: u8,
    /// How the largest chunks are cut.
    largest: ChunkFormat,
    classes: Box<[CachePadded<Mutex<Class>>]>,
    /// Stores that wait for the lock of a class, per class: an evicting thread makes way for them.
    stores_waiting: Box<[CachePadded<AtomicU32>]>,
    /// Mutations for which an item stays unread, per class; only where a hand measures it.
    stays: Option<Box<[AtomicU64]>>,
    slabs: Box<[Slab]>,
    /// The number of slabs, out of the given number, that classes leave in the arena: for the
    /// index, so that a full hot zone does not keep it from growing, and for a tier below.
    reserve_slabs: fn(usize) -> usize,
    /// The `PRESSED_` bits: which reserves are low, so that the background has work.
    pressed: AtomicU8,
    /// Some class had a slab to spare at the background's last round.
    may_vacate: AtomicBool,
    /// Present only if items move to their columns.
    heat: Option<Box<Heat>>,
    /// Present only if there are any.
    quotas: Option<Box<Quotas>>,
    /// Present only if several threads store.
    magazines: Option<Magazines>,
}

/// A size class as statistics show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassStats {
    /// Its number, from 1 as memcached counts.
    pub number: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: usize,
    /// Chunks in a slab.
    pub chunks_per_slab: usize,
    /// Slabs it owns.
    pub slabs: usize,
    /// Chunks that hold an item or part of one, or did until a moment ago.
    pub used_chunks: usize,
    /// Chunks that can be allocated at once.
    pub free_chunks: usize,
    /// Seconds of the hand's last full round; 0 where the class keeps an order instead.
    pub round_seconds: u32,
    /// Counts of events since the counters began.
    pub counters: ClassCounters,
}

impl Hot {
    /// An empty zone in `arena`, with chunks of these sizes in this layout and a policy for each,
    /// which counts costs in units of `cost_unit_us` microseconds if it counts them.
    /// `reserve_slabs` says how many of the arena's slabs, whose number may change, are left for
    /// others: at least one, for the index. The sizes leave a slab [`Policy::side_bits`] beside
    /// each chunk, and no more is reserved than [`Policy::memory_bytes_max`].
    pub fn new(
        arena: Arc<Arena>,
        epochs: Arc<Epochs>,
        sizes: SizeClasses,
        layout: ChunkLayout,
        policy: Policy,
        cost_unit_us: u32,
        reserve_slabs: fn(usize) -> usize,
    ) -> Self {
        assert!(reserve_slabs(arena.limit_slabs()) >= 1 && sizes.side_bits() >= policy.side_bits());
        let chunks_max = arena.reserved_slabs() * sizes.chunks_per_slab(ClassId(0));
        assert!(policy.side_bits() == 0 || chunks_max <= CHUNKS_MAX as usize);
        let format_of = |id| ChunkFormat::new(sizes.chunk_bytes(id), layout);
        let class = |id| {
            let (format, chunks) = (format_of(id), sizes.chunks_per_slab(id));
            let policy = ClassPolicy::new(policy, cost_unit_us, format.stride(), chunks);
            Class::new(id, format, chunks, policy)
        };
        let classes = sizes.iter().map(|id| CachePadded(Mutex::new(class(id)))).collect();
        let stores_waiting = sizes.iter().map(|_| CachePadded::default()).collect();
        let stays = (!policy.keeps_order())
            .then(|| sizes.iter().map(|_| AtomicU64::new(u64::MAX)).collect());
        let slabs = (0..arena.reserved_slabs()).map(|_| Slab::new()).collect();
        let whole = sizes.iter().take_while(|&id| !format_of(id).is_split).count();
        let first_split = if whole == sizes.count() { u8::MAX } else { whole as u8 };
        let largest = ChunkFormat::new(sizes.chunk_bytes_max(), layout);
        let pressed = AtomicU8::new(0);
        Self {
            arena,
            epochs,
            sizes,
            first_split,
            largest,
            classes,
            stores_waiting,
            stays,
            slabs,
            reserve_slabs,
            pressed,
            may_vacate: AtomicBool::new(false),
            heat: None,
            quotas: None,
            magazines: None,
        }
    }

    /// The size classes.
    pub fn sizes(&self) -> &SizeClasses {
        &self.sizes
    }

    /// The item at `place`.
    ///
    /// # Safety
    /// While `guard` was pinned, the index pointed at `place` with the hot tier, or the caller
    /// holds the lock that keeps it there.
    #[inline]
    pub unsafe fn item<'g>(&self, guard: &'g Guard<'_>, place: Place) -> ItemRef<'g> {
        let _ = guard;
        // SAFETY: the index points only at published items; the release that published the
        // location made the item's bytes visible to a reader that acquired it; and the pinned epoch
        // keeps the chunk from being reused.
        unsafe { ItemRef::new(&self.arena, place) }
    }

    /// The chunk at `place`. The caller owns it, or it cannot be reused meanwhile, so its slab
    /// stays as it is.
    #[inline]
    pub(crate) fn chunk(&self, place: Place) -> Chunk {
        if !self.largest.is_split {
            return Chunk::whole(self.arena.pointer(place));
        }
        self.slab_at(place).chunk(&self.arena, place)
    }

    /// The class of the smallest chunk that an item with this layout, or its first part, fits.
    pub fn class_of(&self, layout: &Layout) -> ClassId {
        self.class_for(layout.need(self.largest.is_split))
    }

    /// The class of the smallest chunk that meets the need.
    #[inline]
    pub(crate) fn class_for(&self, need: ChunkNeed) -> ClassId {
        let class = self.sizes.class_for(need.whole as usize);
        // A need for which a split chunk is larger fits no smaller class either: all that are
        // smaller are too small or whole.
        if class.0 < self.first_split { class } else { self.sizes.class_for(need.split as usize) }
    }

    /// The class that most pieces of chained values are in.
    pub(crate) fn largest_class(&self) -> ClassId {
        ClassId(self.sizes.count() as u8 - 1)
    }

    /// How the chunks of a class are cut.
    pub(crate) fn format(&self, class: ClassId) -> ChunkFormat {
        let bytes = self.sizes.chunk_bytes(class);
        ChunkFormat { bytes, is_split: class.0 >= self.first_split }
    }

    /// The bytes of value in piece `number` of a chained item.
    pub fn piece_value<'g>(&self, item: ItemRef<'g>, number: usize) -> &'g [u8] {
        item.piece_value(&self.arena, number)
    }

    /// Whether all memory is in use, so that room is made by eviction.
    pub fn is_full(&self) -> bool {
        self.arena.free_slabs() <= self.reserve_slabs()
    }

    /// Whether memory is full or one slab short of it: the index may take that one at any time.
    pub fn is_nearly_full(&self) -> bool {
        self.arena.free_slabs() <= self.reserve_slabs() + 1
    }

    /// Slabs that classes leave in the arena, whose limit may change.
    pub(crate) fn reserve_slabs(&self) -> usize {
        (self.reserve_slabs)(self.arena.limit_slabs())
    }

    /// Prefetches the first cache lines of the chunk at `place`: header, key and a short value,
    /// which the head of a split chunk lacks.
    #[inline]
    pub fn prefetch(&self, place: Place) {
        if self.largest.is_split {
            return self.slab_at(place).chunk(&self.arena, place).prefetch();
        }
        Chunk::whole(self.arena.pointer(place)).prefetch();
    }

    /// Prefetches all cache lines of the chunk at `place`, including the value; its length is known
    /// without a look at it.
    #[inline]
    pub fn prefetch_whole(&self, place: Place) {
        let slab = self.slab_at(place);
        if self.largest.is_split {
            return slab.chunk(&self.arena, place).prefetch_whole(slab.format().bytes);
        }
        Chunk::whole(self.arena.pointer(place)).prefetch_whole(slab.format().bytes);
    }

    /// The class of the chunk at `place`.
    pub fn class_at(&self, place: Place) -> ClassId {
        self.slab_at(place).class()
    }

    /// Takes an item that the index no longer points at. Its chunks are free once no reader can
    /// see them.
    ///
    /// # Safety
    /// The item at `place` was published and has just been unlinked, by the caller; it is retired
    /// once; `guard` was pinned before.
    pub unsafe fn retire_at_once(&self, guard: &Guard<'_>, place: Place) {
        // SAFETY: the caller was pinned when it unlinked the item.
        let item = unsafe { self.item(guard, place) };
        let tag = guard.tag();
        for number in 0..item.layout().pieces() {
            let piece = item.piece(number);
            // From here on no hand follows the piece to its owner.
            slab::mark(&self.arena, piece).store(0, Ordering::Relaxed);
            let mut class = lock(self.class(self.class_at(piece)));
            // In an order it would be renewed, like a draft, each time it is met.
            class.policy.leave(self.zone(), piece);
            class.retire(self.zone(), tag, piece);
        }
        lock(self.class(self.class_at(place))).retire(self.zone(), tag, place);
    }

    /// The state and the counters of every class.
    pub fn stats(&self) -> Vec<ClassStats> {
        let stats = |class: &CachePadded<Mutex<Class>>| {
            let class = lock(class);
            stats_of(&class, self.parked(class.id))
        };
        self.classes.iter().map(stats).collect()
    }

    /// Resets the counters of every class.
    pub fn reset_counters(&self) {
        for class in &self.classes {
            lock(class).reset_counters();
        }
        if let Some(heat) = &self.heat {
            heat.reset_counters();
        }
        self.reset_quota_counters();
    }

    /// Bytes of all chunks that hold something.
    pub fn used_bytes(&self) -> usize {
        let bytes = |class: &Class| used_chunks(class, self.parked(class.id)) * class.format.bytes;
        self.classes.iter().map(|class| bytes(&lock(class))).sum()
    }

    /// Whether the reserve of some class or quota is low and the background has not come since.
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed) != 0
    }

    /// Whether some class's reserve is low and the background has not come since.
    pub fn is_memory_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed) & PRESSED_CLASS != 0
    }

    /// Whether the background is behind: stores demote items themselves, since reserves are used up
    /// faster than it fills them.
    pub fn is_behind(&self) -> bool {
        self.pressed.load(Ordering::Relaxed) & PRESSED_BEHIND != 0
    }

    /// Calls for the background: the reserves named by the bits `whose` are low.
    fn press(&self, whose: u8) {
        if self.pressed.load(Ordering::Relaxed) & whose != whose {
            self.pressed.fetch_or(whose, Ordering::Relaxed);
        }
    }

    /// The number of slabs that leave their classes as soon as readers have left: a class that
    /// needs one waits for it rather than have another emptied.
    pub(crate) fn slabs_leaving(&self) -> usize {
        self.classes.iter().map(|class| lock(class).leaving(self.zone())).sum()
    }

    #[inline]
    fn slab_at(&self, place: Place) -> &Slab {
        &self.slabs[self.arena.locate(place).0.0 as usize]
    }

    fn class(&self, id: ClassId) -> &Mutex<Class> {
        &self.classes[usize::from(id.0)]
    }

    /// The lock of a class, for a store.
    #[inline]
    fn class_for_store(&self, id: ClassId) -> MutexGuard<'_, Class> {
        let class = self.class(id);
        class.try_lock().unwrap_or_else(|_| {
            let waiting = &self.stores_waiting[usize::from(id.0)];
            waiting.fetch_add(1, Ordering::Relaxed);
            let class = lock(class);
            waiting.fetch_sub(1, Ordering::Relaxed);
            class
        })
    }

    /// How many stores wait for the lock of a class.
    #[inline]
    fn waiting_for(&self, id: ClassId) -> u32 {
        self.stores_waiting[usize::from(id.0)].load(Ordering::Relaxed)
    }

    /// Lets a store that waits for the lock of a class go first. A thread that locked it again at
    /// once would have it before the store noticed that it was free. A store that evicts has its
    /// own session open and keeps its core, since no chunks come free without it.
    fn make_way(&self, id: ClassId) {
        let before = self.waiting_for(id);
        let is_pinned = !self.epochs.may_reach(self.epochs.latest_tag());
        let waits_max = if is_pinned { Backoff::SPINS } else { WAY_WAITS_MAX };
        let mut backoff = Backoff::default();
        for _ in 0..waits_max {
            let waiting = self.waiting_for(id);
            if waiting == 0 || waiting < before {
                break;
            }
            backoff.wait();
        }
    }

    fn zone(&self) -> Zone<'_> {
        let (heat, quotas) = (self.heat.as_deref(), self.quotas.as_deref());
        Zone { arena: &self.arena, epochs: &self.epochs, slabs: &self.slabs, heat, quotas }
    }
}

/// Chunks of a class that are neither free nor in limbo nor in a magazine. A chunk that goes from
/// one magazine to another while they are counted one by one may count twice.
fn used_chunks(class: &Class, parked: Parked) -> usize {
    class.chunks().saturating_sub(class.free + parked.free + parked.retired)
}

fn stats_of(class: &Class, parked: Parked) -> ClassStats {
    ClassStats {
        number: u32::from(class.id.0) + 1,
        chunk_bytes: class.format.bytes,
        chunks_per_slab: class.chunks_per_slab,
        slabs: class.slabs.len(),
        used_chunks: used_chunks(class, parked),
        free_chunks: class.free + parked.free,
        round_seconds: class.round_seconds,
        counters: class.counters,
    }
}

impl std::fmt::Debug for Hot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hot").field("arena", &self.arena).finish_non_exhaustive()
    }
}
