//! The parts common to all kinds of index: how they start and end, and how a hash becomes a view of
//! a table. A [`Layout`] decides where in a table a key's words lie.

use std::sync::Arc;

use crate::directory::{Directory, Entry, next_prefix};
use crate::growth::{Growth, allocate};
use crate::index::{IndexError, Options};
use crate::layout::Layout;
use crate::location::Hash;
use crate::shape::{REST_BITS_MAX, Shape, tag_of};
use crate::table::{Table, UNITS_MAX, UNITS_MIN};
use memory::{Epochs, Guard, TableSpace};
use stdx::sync::atomic::{AtomicPtr, Ordering};
use stdx::sync::{Mutex, lock};

/// The deepest directory at the start: four million tables, 180 GiB, twenty thousand million items.
const START_DEPTH_MAX: u32 = 22;

/// How many times the number of tables may double after the start. The rest of a hash is then 13
/// bits long, still ten times a table's buckets, so that these are used evenly.
pub(crate) const DEEPER_MAX: u32 = 18;

/// An index of one layout.
pub(crate) struct Engine<L> {
    directory: AtomicPtr<Directory>,
    /// The number of upper bits of a hash that are used.
    hash_bits: u32,
    pub(crate) layout: L,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) space: Arc<dyn TableSpace>,
    /// The state that changes when tables come and go. Taken after table locks, never before.
    pub(crate) growth: Mutex<Growth>,
}

/// A hash as one table sees it.
#[derive(Clone, Copy)]
pub(crate) struct View<'g, L: Layout> {
    pub(crate) table: Table<'g>,
    pub(crate) entry: Entry,
    pub(crate) layout: L,
    pub(crate) shape: Shape,
    pub(crate) tag: u32,
    /// The buckets in which the search for the key begins.
    pub(crate) home: L::Home,
}

impl<L: Layout> Engine<L> {
    /// An empty index with room for the items that the options give.
    pub(crate) fn new(
        layout: L,
        options: &Options,
        epochs: Arc<Epochs>,
        space: Arc<dyn TableSpace>,
    ) -> Result<Self, IndexError> {
        let initial = start_size(options.initial_items, L::comfortable_items)?;
        let expected = start_size(options.expected_items, L::expected_items)?;
        let (depth, units) = initial.max(expected);
        let hash_bits = initial.0 + REST_BITS_MAX;
        if depth > initial.0 + DEEPER_MAX {
            return Err(IndexError::TooManyItems);
        }
        let mut entries = Vec::with_capacity(1 << depth);
        while entries.len() < 1 << depth {
            let Some(memory) = allocate::<L>(&*space, units) else {
                for entry in entries {
                    let memory = Entry::memory(entry);
                    // SAFETY: allocated above and shared with no thread.
                    unsafe { memory.release(&*space) };
                }
                return Err(IndexError::NoMemory);
            };
            entries.push(Entry::new(memory, depth));
        }
        let directory = Box::new(Directory::new(entries.into_iter()));
        Ok(Self {
            directory: AtomicPtr::new(Box::into_raw(directory)),
            hash_bits,
            layout,
            epochs,
            space,
            growth: Mutex::new(Growth::default()),
        })
    }

    /// The view of `hash` in its present table.
    #[inline]
    pub(crate) fn view<'g>(&self, guard: &'g Guard<'_>, hash: Hash) -> View<'g, L> {
        let entry = self.directory(guard).entry(hash.0);
        // SAFETY: the entry was in the directory while the guard was pinned, so its table is not
        // released before the guard is dropped.
        let table = unsafe { entry.memory().table() };
        let shape = self.shape(entry);
        let tag = tag_of(hash.0, self.hash_bits);
        let primary = shape.primary(shape.rest_of(hash.0, self.hash_bits));
        View { table, entry, layout: self.layout, shape, tag, home: L::home(shape, primary, tag) }
    }

    /// The present directory.
    #[inline]
    pub(crate) fn directory<'g>(&self, guard: &'g Guard<'_>) -> &'g Directory {
        debug_assert!(
            std::ptr::eq(guard.epochs(), &*self.epochs),
            "the guard belongs to this index's epochs"
        );
        // Acquire: partner is the release in `set_directory`.
        let directory = self.directory.load(Ordering::Acquire);
        // SAFETY: a directory is freed only when no thread is pinned that could have loaded it.
        unsafe { &*directory }
    }

    /// The directory as the holder of the growth lock sees it: no other thread replaces it.
    pub(crate) fn directory_of<'a>(&'a self, _growth: &'a Growth) -> &'a Directory {
        let directory = self.directory.load(Ordering::Relaxed);
        // SAFETY: only the holder of the growth lock retires a directory, and the reference to what
        // the lock guards keeps it held for as long as the result lives.
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
        Shape { buckets: L::primaries(entry.units()), rest_bits: self.hash_bits - entry.depth() }
    }

    /// The depth of every table that is made for the initial items: none is ever less deep.
    pub(crate) fn depth_min(&self) -> u32 {
        self.hash_bits - REST_BITS_MAX
    }

    /// The depth at which a table cannot split any more.
    pub(crate) fn depth_max(&self) -> u32 {
        self.depth_min() + DEEPER_MAX
    }
}

/// The depth and the units of tables for `items` items, of which a table of n units takes
/// `items_of(n)`.
fn start_size(items: usize, items_of: fn(usize) -> usize) -> Result<(u32, usize), IndexError> {
    let mut depth = 0;
    while items.div_ceil(1 << depth) > items_of(UNITS_MAX) {
        depth += 1;
        if depth > START_DEPTH_MAX {
            return Err(IndexError::TooManyItems);
        }
    }
    let items_per_table = items.div_ceil(1 << depth);
    let units = (UNITS_MIN..UNITS_MAX)
        .find(|&units| items_per_table <= items_of(units))
        .unwrap_or(UNITS_MAX);
    Ok((depth, units))
}

impl<L> Drop for Engine<L> {
    fn drop(&mut self) {
        lock(&self.growth).release_all(&*self.space);
        let raw = self.directory.load(Ordering::Relaxed);
        // SAFETY: it came from a box, and no other thread has the index any more.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cuckoo::Cuckoo;
    use crate::tree::Tree;

    #[test]
    #[cfg_attr(miri, ignore = "tables are smaller there")]
    fn an_index_starts_no_larger_than_it_must() {
        check::<Cuckoo>(2_400, 4_600, 4_800);
        check::<Tree>(1_200, 2_400, 2_500);
    }

    fn check<L: Layout>(smallest: usize, largest: usize, two: usize) {
        let start = |items| start_size(items, L::comfortable_items);
        assert_eq!(start(0), Ok((0, UNITS_MIN)));
        assert_eq!(start(smallest), Ok((0, UNITS_MIN)));
        assert_eq!(start(largest), Ok((0, UNITS_MAX)));
        assert_eq!(start(two), Ok((1, UNITS_MIN)));
        let items = L::comfortable_items(UNITS_MAX) << START_DEPTH_MAX;
        assert_eq!(start(items), Ok((START_DEPTH_MAX, UNITS_MAX)));
        assert_eq!(start(items + 1), Err(IndexError::TooManyItems));
    }
}
