//! One table: a header of two cache lines, then buckets, in 12 to 23 units of raw memory.
//!
//! ```text
//!   line 0   | lock | count | grow_at | sub_buckets | displacements | inserts | ...          |
//!   line 1   | version 0 | version 1 | ...                                   | version 15 |
//!   line 2   | bucket 0                                                                     |
//!   ...
//!   line 32 * units - 1                                                     | last bucket   |
//! ```
//!
//! Line 0 belongs to the writer that holds the lock. Line 1 is read only by lookups that found
//! nothing: each version counts the moves of its tags, and is odd during one. As in MemC3 a version
//! serves many keys, here the tags that leave the same remainder by 16; a false match costs a miss
//! one more scan.
//!
//! Invariants: a table changes only under its lock. Once *retired* it never changes again: its lock
//! stays shut, so that a waiting writer turns back to the directory, and its versions stay odd, so
//! that no lookup takes it for the last word about an absent key.
//!
//! Under loom a table is built of loom's atomics by value, with a few buckets of two slots. Under
//! Miri it fills an eighth of its memory: Miri looks at every word behind a reference to a table,
//! each time that one is passed on.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::bucket::Bucket;
use crate::word::Word;
use memory::space::{TABLE_UNIT_BYTES, TableSpace};
use stdx::sync::Backoff;
use stdx::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use stdx::units::CACHE_LINE;

/// The smallest table. Growing by a twelfth of it at a time keeps a table between 12/13 and all of
/// its capacity full (`docs/decisions/0001-index-tables-grow-by-twelfths.md`). A model checker gets
/// a smaller one, of four buckets.
pub(crate) const UNITS_MIN: usize = if cfg!(loom) { 4 } else { 12 };
/// The largest table: the next step is two of the smallest.
pub(crate) const UNITS_MAX: usize = 2 * UNITS_MIN - 1;

const HEADER_LINES: usize = if cfg!(loom) { 0 } else { 2 };
const LINES_PER_UNIT: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 1,
    (_, true) => TABLE_UNIT_BYTES / CACHE_LINE / 8,
    _ => TABLE_UNIT_BYTES / CACHE_LINE,
};

/// Version counters in a table: one cache line of them.
const VERSIONS: usize = 16;

/// The buckets of a table of `units`.
pub(crate) const fn buckets_of(units: usize) -> usize {
    units * LINES_PER_UNIT - HEADER_LINES
}

/// The states of a table's lock.
const OPEN: u32 = 0;
const HELD: u32 = 1;
const RETIRED: u32 = 2;

/// The counts of the table's writers. They pass to the table that replaces this one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) displacements: u64,
    pub(crate) inserts: u64,
    pub(crate) searches_failed: u64,
}

impl Counts {
    /// The sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            displacements: self.displacements + other.displacements,
            inserts: self.inserts + other.inserts,
            searches_failed: self.searches_failed + other.searches_failed,
        }
    }
}

#[repr(C, align(64))]
struct Header {
    lock: AtomicU32,
    count: AtomicU32,
    grow_at: AtomicU32,
    sub_buckets: AtomicU32,
    displacements: AtomicU64,
    inserts: AtomicU64,
    searches_failed: AtomicU64,
    versions: Versions,
}

#[repr(align(64))]
struct Versions([AtomicU32; VERSIONS]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() == HEADER_LINES * CACHE_LINE);
#[cfg(not(loom))]
const _: () = assert!(
    size_of::<Header>() + buckets_of(UNITS_MAX) * size_of::<Bucket>()
        == UNITS_MAX * LINES_PER_UNIT * CACHE_LINE
);
const _: () = assert!(LINES_PER_UNIT * CACHE_LINE <= TABLE_UNIT_BYTES);

impl Header {
    fn new(grow_at: u32) -> Self {
        Self {
            lock: AtomicU32::new(OPEN),
            count: AtomicU32::new(0),
            grow_at: AtomicU32::new(grow_at),
            sub_buckets: AtomicU32::new(0),
            displacements: AtomicU64::new(0),
            inserts: AtomicU64::new(0),
            searches_failed: AtomicU64::new(0),
            versions: Versions(std::array::from_fn(|_| AtomicU32::new(0))),
        }
    }
}

/// The owner's view of a table: where it starts and how big it is. It frees nothing by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableMemory {
    pub(crate) start: NonNull<u8>,
    pub(crate) units: usize,
}

/// The content of a table's memory under loom.
#[cfg(loom)]
#[repr(align(2048))]
struct TableByValue {
    header: Header,
    buckets: Vec<Bucket>,
}

impl TableMemory {
    /// An empty table of `units` that wants to grow when its fullness reaches `grow_at`; `None`
    /// when the space has no room.
    pub(crate) fn allocate(space: &dyn TableSpace, units: usize, grow_at: usize) -> Option<Self> {
        debug_assert!((UNITS_MIN..=UNITS_MAX).contains(&units));
        let grow_at = u32::try_from(grow_at).expect("few slots");
        let header = Header::new(grow_at);
        let start = Self::allocate_with(space, units, header)?;
        Some(Self { start, units })
    }

    #[cfg(not(loom))]
    fn allocate_with(space: &dyn TableSpace, units: usize, header: Header) -> Option<NonNull<u8>> {
        let start = space.allocate(units)?;
        assert!(
            start.addr().get().is_multiple_of(TABLE_UNIT_BYTES),
            "the space aligns tables to a unit"
        );
        // SAFETY: `allocate` gave this call `units` units to itself, aligned to a unit. Zeros are
        // empty buckets, and the header fits in front of them (asserted above).
        unsafe {
            start.write_bytes(0, units * LINES_PER_UNIT * CACHE_LINE);
            start.cast::<Header>().write(header);
        }
        Some(start)
    }

    #[cfg(loom)]
    fn allocate_with(space: &dyn TableSpace, units: usize, header: Header) -> Option<NonNull<u8>> {
        let memory = space.allocate(units)?;
        // SAFETY: it was allocated just now. Only the space's consent was wanted: loom's atomics
        // live in a box of their own.
        unsafe { space.release(memory, units) };
        let buckets = (0..buckets_of(units)).map(|_| Bucket::new()).collect();
        let table = Box::new(TableByValue { header, buckets });
        Some(NonNull::from(Box::leak(table)).cast())
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No thread can reach the table any more, and this is called once.
    pub(crate) unsafe fn release(self, space: &dyn TableSpace) {
        #[cfg(not(loom))]
        // SAFETY: the memory came from this space with as many units; the caller vouches for the
        // rest.
        unsafe {
            space.release(self.start, self.units);
        }
        #[cfg(loom)]
        {
            let _ = space;
            // SAFETY: `allocate_with` leaked this box; the caller vouches for the rest.
            drop(unsafe { Box::from_raw(self.start.cast::<TableByValue>().as_ptr()) });
        }
    }

    /// The table in this memory.
    ///
    /// # Safety
    /// The memory came from [`TableMemory::allocate`] and is not released during `'t`.
    #[inline]
    pub(crate) unsafe fn table<'t>(self) -> Table<'t> {
        #[cfg(not(loom))]
        // SAFETY: `allocate` put a header at the start and empty buckets behind it, as many as
        // `buckets_of` says. Everything in both is atomic, so shared references are enough. The
        // caller vouches for the lifetime.
        return unsafe {
            let buckets = self.start.byte_add(HEADER_LINES * CACHE_LINE).cast::<Bucket>();
            Table {
                header: self.start.cast::<Header>().as_ref(),
                buckets: std::slice::from_raw_parts(buckets.as_ptr(), buckets_of(self.units)),
            }
        };
        #[cfg(loom)]
        {
            // SAFETY: `allocate` leaked this box; the caller vouches for the lifetime.
            let table = unsafe { self.start.cast::<TableByValue>().as_ref() };
            Table { header: &table.header, buckets: &table.buckets }
        }
    }
}

/// A table as every thread may see it.
#[derive(Clone, Copy)]
pub(crate) struct Table<'t> {
    header: &'t Header,
    buckets: &'t [Bucket],
}

impl<'t> Table<'t> {
    /// Bucket `index`.
    #[inline]
    pub(crate) fn bucket(self, index: usize) -> &'t Bucket {
        &self.buckets[index]
    }

    /// The number of its buckets.
    pub(crate) fn buckets(self) -> usize {
        self.buckets.len()
    }

    /// The number of buckets taken from the pool, where there is one: exact under the lock, recent
    /// otherwise.
    pub(crate) fn sub_buckets(self) -> usize {
        self.header.sub_buckets.load(Ordering::Relaxed) as usize
    }

    /// The number of items: exact under the lock, recent otherwise.
    pub(crate) fn count(self) -> usize {
        self.header.count.load(Ordering::Relaxed) as usize
    }

    /// The counts of its writers.
    pub(crate) fn counts(self) -> Counts {
        Counts {
            displacements: self.header.displacements.load(Ordering::Relaxed),
            inserts: self.header.inserts.load(Ordering::Relaxed),
            searches_failed: self.header.searches_failed.load(Ordering::Relaxed),
        }
    }

    /// How often words with this tag moved; odd while one moves and once the table is retired.
    #[inline]
    pub(crate) fn version(self, tag: u32) -> u32 {
        // Acquire: partners are the releases in `move_word` and `retire`. A reader that sees a
        // version sees all moves before it, or the directory that has replaced the table. As for
        // the second look of a lookup: the loads of the scan before it are acquires themselves, so
        // it cannot be made before them.
        self.version_of(tag).load(Ordering::Acquire)
    }

    #[inline]
    fn version_of(self, tag: u32) -> &'t AtomicU32 {
        &self.header.versions.0[tag as usize % VERSIONS]
    }

    /// Takes the writer's lock. `None` when the table is retired: the directory knows another.
    #[inline]
    pub(crate) fn lock(self) -> Option<Locked<'t>> {
        let mut backoff = Backoff::default();
        loop {
            let taken = self.header.lock.compare_exchange_weak(
                OPEN,
                HELD,
                // Acquire: partner is the release in `Locked::drop`.
                Ordering::Acquire,
                // Acquire: partner is the release in `Locked::retire`, so that a writer that turns
                // back finds the new directory entry.
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => {
                    return Some(Locked { table: self, not_send: PhantomData });
                }
                Err(RETIRED) => return None,
                Err(_) => backoff.wait(),
            }
        }
    }
}

/// A table whose lock is held. Dropping it opens the lock.
pub(crate) struct Locked<'t> {
    pub(crate) table: Table<'t>,
    not_send: PhantomData<*mut ()>,
}

impl Locked<'_> {
    /// Whether it is time to grow for a table of this fullness.
    #[inline]
    pub(crate) fn wants_growth(&self, fullness: usize) -> bool {
        fullness >= self.header().grow_at.load(Ordering::Relaxed) as usize
    }

    /// Notes that growth was refused: the table is filled further, up to this fullness.
    pub(crate) fn postpone_growth(&self, fullness: usize) {
        self.header().grow_at.store(fullness as u32, Ordering::Relaxed);
    }

    /// Fills a free slot.
    #[inline]
    pub(crate) fn insert(&self, bucket: usize, slot: usize, word: Word) {
        let bucket = self.table.bucket(bucket);
        debug_assert_eq!(bucket.load(slot), Word::EMPTY);
        bucket.store(slot, word);
        let header = self.header();
        add_u32(&header.count, 1);
        add(&header.inserts, 1);
    }

    /// Empties a slot.
    #[inline]
    pub(crate) fn remove(&self, bucket: usize, slot: usize) {
        let bucket = self.table.bucket(bucket);
        debug_assert_ne!(bucket.load(slot), Word::EMPTY);
        bucket.store(slot, Word::EMPTY);
        let count = self.header().count.load(Ordering::Relaxed);
        self.header().count.store(count - 1, Ordering::Relaxed);
    }

    /// Moves a word to its other bucket: first there, then away from here, so that at every moment
    /// it is in one of them. The version tells a lookup that looked there before and here
    /// afterwards.
    pub(crate) fn move_word(&self, source: (usize, usize), target: (usize, usize)) {
        let word = self.table.bucket(source.0).load(source.1);
        let version = self.table.version_of(word.tag());
        let even = version.load(Ordering::Relaxed);
        debug_assert!(even.is_multiple_of(2), "no move is under way under the lock");
        // Relaxed: the releases of the two stores below carry it to a reader of either.
        version.store(even.wrapping_add(1), Ordering::Relaxed);
        self.table.bucket(target.0).store(target.1, word.turned());
        self.table.bucket(source.0).store(source.1, Word::EMPTY);
        // Release: partner is the acquire in `Table::version`.
        version.store(even.wrapping_add(2), Ordering::Release);
        add(&self.header().displacements, 1);
    }

    /// Takes a bucket from the pool for good, and points a link of bucket `above` at it.
    pub(crate) fn link(&self, above: usize, link: usize, bucket: usize) {
        self.table.bucket(above).set_link(link, bucket);
        add_u32(&self.header().sub_buckets, 1);
    }

    /// Counts a search that found no room.
    pub(crate) fn count_failed_search(&self) {
        add(&self.header().searches_failed, 1);
    }

    /// Takes over the counts of a table that this one replaces.
    pub(crate) fn inherit(&self, counts: Counts) {
        let header = self.header();
        add(&header.displacements, counts.displacements);
        add(&header.inserts, counts.inserts);
        add(&header.searches_failed, counts.searches_failed);
    }

    /// Resets the counts of building the table: that work was not done for a caller.
    pub(crate) fn reset_counts(&self) {
        let header = self.header();
        header.displacements.store(0, Ordering::Relaxed);
        header.inserts.store(0, Ordering::Relaxed);
        header.searches_failed.store(0, Ordering::Relaxed);
    }

    /// Closes the table for good. The directory already leads elsewhere.
    pub(crate) fn retire(self) {
        let header = self.header();
        for version in &header.versions.0 {
            let even = version.load(Ordering::Relaxed);
            // Release: partner is the acquire in `Table::version`, which then sees the directory.
            version.store(even.wrapping_add(1), Ordering::Release);
        }
        // Release: partner is the acquire of a failed attempt in `Table::lock`.
        header.lock.store(RETIRED, Ordering::Release);
        std::mem::forget(self);
    }

    #[inline]
    fn header(&self) -> &Header {
        self.table.header
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: partner is the acquire in `Table::lock`.
        self.table.header.lock.store(OPEN, Ordering::Release);
    }
}

/// Adds to a counter that only the holder of the table's lock writes: a load and a store suffice.
#[inline]
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

#[inline]
fn add_u32(counter: &AtomicU32, by: u32) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
