//! The index itself: its parts, how it starts and ends, and how a hash becomes a view of a table.

use std::fmt;
use std::sync::Arc;

use crate::directory::{Directory, Entry, next_prefix};
use crate::growth::Growth;
use crate::location::Hash;
use crate::path::PATHS_MAX;
use crate::shape::{REST_BITS_MAX, Shape, tag_of};
use crate::table::{Table, TableMemory, UNITS_MAX, UNITS_MIN, buckets_of, slots_of};
use memory::{Epochs, Guard, TableSpace};
use stdx::sync::atomic::{AtomicPtr, Ordering};
use stdx::sync::{Mutex, lock};

/// The deepest directory at the start: a million tables, 64 GiB, eight thousand million items.
const START_DEPTH_MAX: u32 = 20;

/// How many times the number of tables may double after the start. The rest of a hash is then 14
/// bits long, still ten times a table's buckets, so that these are used evenly.
pub(crate) const DEEPER_MAX: u32 = 18;

/// A table is not made fuller than this by choice, so that it does not grow again at once.
pub(crate) const COMFORTABLE_PERCENT: usize = 80;

/// How an index starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Items to make room for at once. The index holds more as it grows, up to 2^18 times as many
    /// tables, but keeps a hash bit less apart for each doubling: size it within a factor of a
    /// thousand of what will come.
    pub initial_items: usize,
    /// Cuckoo paths that an insertion into two full buckets searches side by side, from 1 to
    /// [`Options::PATHS_MAX`].
    pub paths: usize,
}

impl Options {
    /// The most paths: one for each slot of a key's two buckets.
    pub const PATHS_MAX: usize = PATHS_MAX;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            initial_items: 0,
            // As many as there are slots to start from: see docs/decisions/0001. With 2, as in
            // MemC3, an insertion moves twice as many words for the same occupancy.
            paths: PATHS_MAX,
        }
    }
}

/// Why an index cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexError {
    /// The table space has no room for the first tables.
    NoMemory,
    /// More items at the start than the index can ever be asked for.
    TooManyItems,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMemory => "no memory for the first tables of the index",
            Self::TooManyItems => "more items at the start than an index can hold",
        })
    }
}

impl std::error::Error for IndexError {}

/// Hash to location, for any number of threads.
pub struct Index {
    directory: AtomicPtr<Directory>,
    /// How many upper bits of a hash are used.
    hash_bits: u32,
    pub(crate) paths: usize,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) space: Arc<dyn TableSpace>,
    /// What changes when tables come and go. Taken after table locks, never before.
    pub(crate) growth: Mutex<Growth>,
}

/// A hash as one table sees it.
#[derive(Clone, Copy)]
pub(crate) struct View<'g> {
    pub(crate) table: Table<'g>,
    pub(crate) entry: Entry,
    pub(crate) shape: Shape,
    pub(crate) tag: u32,
    /// The primary bucket and the alternate one.
    pub(crate) buckets: [usize; 2],
}

impl Index {
    /// An empty index.
    pub fn new(
        options: Options,
        epochs: Arc<Epochs>,
        space: Arc<dyn TableSpace>,
    ) -> Result<Self, IndexError> {
        let (depth, units) = start_size(options.initial_items)?;
        let mut entries = Vec::with_capacity(1 << depth);
        while entries.len() < 1 << depth {
            let Some(memory) = TableMemory::allocate(&*space, units) else {
                for entry in entries {
                    let memory = Entry::memory(entry);
                    // SAFETY: allocated above and shown to nobody.
                    unsafe { memory.release(&*space) };
                }
                return Err(IndexError::NoMemory);
            };
            entries.push(Entry::new(memory, depth));
        }
        let directory = Box::new(Directory::new(entries.into_iter()));
        Ok(Self {
            directory: AtomicPtr::new(Box::into_raw(directory)),
            hash_bits: depth + REST_BITS_MAX,
            paths: options.paths.clamp(1, PATHS_MAX),
            epochs,
            space,
            growth: Mutex::new(Growth::default()),
        })
    }

    /// What `hash` leads to now.
    #[inline]
    pub(crate) fn view<'g>(&self, guard: &'g Guard<'_>, hash: Hash) -> View<'g> {
        let entry = self.directory(guard).entry(hash.0);
        // SAFETY: the entry was in the directory while the guard was pinned, so its table is not
        // released before the guard is dropped.
        let table = unsafe { entry.memory().table() };
        let shape = self.shape(entry);
        let tag = tag_of(hash.0, self.hash_bits);
        let primary = shape.primary(shape.rest_of(hash.0, self.hash_bits));
        View { table, entry, shape, tag, buckets: [primary, shape.other(primary, tag)] }
    }

    /// The directory of this moment.
    #[inline]
    pub(crate) fn directory<'g>(&self, guard: &'g Guard<'_>) -> &'g Directory {
        debug_assert!(
            std::ptr::eq(guard.epochs(), &*self.epochs),
            "the guard belongs to this index's epochs"
        );
        // Acquire: partner is the release in `set_directory`.
        let directory = self.directory.load(Ordering::Acquire);
        // SAFETY: a directory is freed only when nobody is pinned who could have loaded it.
        unsafe { &*directory }
    }

    /// The directory as the holder of the growth lock sees it: nobody else replaces it.
    pub(crate) fn directory_of(&self, _growth: &Growth) -> &Directory {
        let directory = self.directory.load(Ordering::Relaxed);
        // SAFETY: only the holder of the growth lock retires a directory, and the reference to what
        // the lock guards keeps it held.
        unsafe { &*directory }
    }

    /// Puts a new directory in place of the current one, which the caller retires. The caller
    /// holds the growth lock.
    pub(crate) fn set_directory(&self, directory: Directory) -> *mut Directory {
        let new = Box::into_raw(Box::new(directory));
        let old = self.directory.load(Ordering::Relaxed);
        // Release: partner is the acquire in `directory`.
        self.directory.store(new, Ordering::Release);
        old
    }

    /// The shape of the table in `entry`.
    #[inline]
    pub(crate) fn shape(&self, entry: Entry) -> Shape {
        Shape { buckets: buckets_of(entry.units()), rest_bits: self.hash_bits - entry.depth() }
    }

    /// The depth every table had at the start: none is ever less deep.
    pub(crate) fn depth_min(&self) -> u32 {
        self.hash_bits - REST_BITS_MAX
    }

    /// The depth at which a table cannot split any more.
    pub(crate) fn depth_max(&self) -> u32 {
        self.depth_min() + DEEPER_MAX
    }
}

/// The depth and the units of the first tables.
fn start_size(items: usize) -> Result<(u32, usize), IndexError> {
    let comfortable = |units| slots_of(units) * COMFORTABLE_PERCENT / 100;
    let mut depth = 0;
    while items.div_ceil(1 << depth) > comfortable(UNITS_MAX) {
        depth += 1;
        if depth > START_DEPTH_MAX {
            return Err(IndexError::TooManyItems);
        }
    }
    let items_per_table = items.div_ceil(1 << depth);
    let units = (UNITS_MIN..UNITS_MAX)
        .find(|&units| items_per_table <= comfortable(units))
        .unwrap_or(UNITS_MAX);
    Ok((depth, units))
}

impl Drop for Index {
    fn drop(&mut self) {
        lock(&self.growth).release_all(&*self.space);
        let raw = self.directory.load(Ordering::Relaxed);
        // SAFETY: it came from a box, and nobody else has the index any more.
        let directory = unsafe { Box::from_raw(raw) };
        let mut at = Some(0);
        while let Some(hash) = at {
            let entry = directory.entry(hash);
            // SAFETY: as above, and each table is met once.
            unsafe { entry.memory().release(&*self.space) };
            at = next_prefix(hash, entry.depth());
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("stats", &self.stats()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_index_starts_no_larger_than_it_must() {
        assert_eq!(start_size(0), Ok((0, UNITS_MIN)));
        assert_eq!(start_size(6_000), Ok((0, UNITS_MIN)));
        assert_eq!(start_size(11_000), Ok((0, UNITS_MAX)));
        assert_eq!(start_size(12_000), Ok((1, UNITS_MIN)));
        let items = (slots_of(UNITS_MAX) * COMFORTABLE_PERCENT / 100) << START_DEPTH_MAX;
        assert_eq!(start_size(items), Ok((START_DEPTH_MAX, UNITS_MAX)));
        assert_eq!(start_size(items + 1), Err(IndexError::TooManyItems));
    }
}
