//! The replacement of tables by others: growth by a twelfth, splits, and the limbo of the old ones.
//!
//! ```text
//!   12 units -> 13 -> ... -> 23 -> two of 12, one bit deeper -> ...
//! ```
//!
//! The writer that finds its table full builds the new one while it holds the old one's lock: some
//! four thousand words are copied in a tenth of a millisecond, each to the bucket that follows from
//! the hash bits in the word and its position, and no item is read. Lookups continue in the old
//! table. Then the directory is changed, and the old table is retired and waits in *limbo* until no
//! thread that saw it is pinned. A tree whose pool of sub-buckets was used up by removed items is
//! built anew in the same size, in the same way.
//!
//! Growing by twelfths copies each item seventeen times while an index grows up, rather than once,
//! and saves more than a quarter of the memory that doubling takes on average.
//!
//! Order of locks: tables by rising prefix, then the growth lock.

use std::fmt;

use crate::directory::{Directory, Entry};
use crate::engine::{Engine, View};
use crate::layout::Layout;
use crate::location::Hash;
use crate::shape::Shape;
use crate::table::{Counts, Locked, Table, TableMemory, UNITS_MAX, UNITS_MIN};
use crate::update::Full;
use crate::word::Word;
use memory::space::TABLE_UNIT_BYTES;
use memory::{Epochs, TableSpace, Tag};
use stdx::sync::lock;

/// The state that the growth lock guards, beside the directory's content.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    limbo: Vec<Retired>,
    pub(crate) counts: GrowthCounts,
}

/// Counts of what happened to tables so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GrowthCounts {
    pub(crate) growths: u64,
    pub(crate) splits: u64,
    pub(crate) compactions: u64,
    pub(crate) shrinks: u64,
    pub(crate) merges: u64,
    pub(crate) moves: u64,
    /// Items and slots of the tables that grew or split, summed.
    pub(crate) full_items: u64,
    pub(crate) full_slots: u64,
}

/// An unlinked table or directory, and the tag of that moment.
#[derive(Debug)]
struct Retired {
    tag: Tag,
    what: Unlinked,
}

enum Unlinked {
    Table(TableMemory),
    Directory(*mut Directory),
}

// SAFETY: both pointers own what they point to, which any thread may free.
unsafe impl Send for Unlinked {}

impl fmt::Debug for Unlinked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

impl Unlinked {
    fn bytes(&self) -> usize {
        match self {
            Unlinked::Table(memory) => memory.units * TABLE_UNIT_BYTES,
            // SAFETY: it is freed only by `release`, which takes `self`.
            Unlinked::Directory(directory) => unsafe { (**directory).bytes() },
        }
    }

    /// Frees it.
    ///
    /// # Safety
    /// No thread can reach it any more.
    unsafe fn release(self, space: &dyn TableSpace) {
        match self {
            // SAFETY: as the caller says.
            Unlinked::Table(memory) => unsafe { memory.release(space) },
            // SAFETY: it came from a box in `Index::set_directory`; the rest as the caller says.
            Unlinked::Directory(directory) => drop(unsafe { Box::from_raw(directory) }),
        }
    }
}

impl Growth {
    /// Frees everything in limbo that no thread can see any more. Returns the number of bytes.
    pub(crate) fn release_safe(&mut self, epochs: &Epochs, space: &dyn TableSpace) -> usize {
        let mut released = 0;
        for retired in self.limbo.extract_if(.., |retired| epochs.is_safe(retired.tag)) {
            released += retired.what.bytes();
            // SAFETY: it was unlinked before its tag was taken, and the tag is safe.
            unsafe { retired.what.release(space) };
        }
        released
    }

    /// Frees all of limbo, when the index itself is dropped.
    pub(crate) fn release_all(&mut self, space: &dyn TableSpace) {
        for retired in self.limbo.drain(..) {
            // SAFETY: dropping the index takes the only reference to it.
            unsafe { retired.what.release(space) };
        }
    }

    /// Bytes in limbo.
    pub(crate) fn retired_bytes(&self) -> usize {
        self.limbo.iter().map(|retired| retired.what.bytes()).sum()
    }

    /// The newest tag in limbo, if anything waits there.
    pub(crate) fn newest_tag(&self) -> Option<Tag> {
        self.limbo.last().map(|retired| retired.tag)
    }

    fn retire(&mut self, epochs: &Epochs, what: Unlinked) {
        let tag = epochs.tag();
        self.limbo.push(Retired { tag, what });
    }
}

/// An empty table of `units`; `None` when the space has no room.
pub(crate) fn allocate<L: Layout>(space: &dyn TableSpace, units: usize) -> Option<TableMemory> {
    TableMemory::allocate(space, units, L::grow_at(units))
}

/// A table that is being built and that no other thread can see yet.
pub(crate) struct Fresh<'i, L: Layout> {
    index: &'i Engine<L>,
    entry: Entry,
}

impl<'i, L: Layout> Fresh<'i, L> {
    /// An empty table; `None` when there is no memory even after emptying limbo.
    pub(crate) fn new(index: &'i Engine<L>, units: usize, depth: u32) -> Option<Self> {
        let memory = allocate::<L>(&*index.space, units).or_else(|| {
            index.release_retired();
            allocate::<L>(&*index.space, units)
        })?;
        Some(Self { index, entry: Entry::new(memory, depth) })
    }

    fn table(&self) -> Table<'_> {
        // SAFETY: it is released when `self` is dropped, or later.
        unsafe { self.entry.memory().table() }
    }

    /// The table, which the directory owns from now on.
    fn publish(self) -> Entry {
        let entry = self.entry;
        std::mem::forget(self);
        entry
    }

    /// Puts the word of a key with these hash bits into the table. `false` if there is no room.
    fn insert(&self, locked: &Locked<'_>, rest: u64, word: Word) -> bool {
        let Some(location) = word.location() else {
            return true;
        };
        let (shape, tag) = (self.index.shape(self.entry), word.tag());
        let view = View {
            table: locked.table,
            entry: self.entry,
            layout: self.index.layout,
            shape,
            tag,
            home: L::home(shape, shape.primary(rest), tag),
        };
        let Some(spot) = L::place(&view, locked) else {
            return false;
        };
        L::insert(&view, locked, spot, location);
        true
    }

    /// Fills the table with those words of `sources` whose hash bits `route` maps into it. `false`
    /// if there is no room for them, or hardly any more after them.
    pub(crate) fn fill(
        &self,
        sources: &[(Table<'_>, Shape)],
        counts: Counts,
        route: impl Fn(usize, u64) -> Option<u64>,
    ) -> bool {
        let locked = self.table().lock().expect("nobody retires a fresh table");
        for (number, &(source, shape)) in sources.iter().enumerate() {
            let mut walk = L::Walk::default();
            for bucket in 0..source.buckets() {
                L::enter_bucket(&mut walk, source, shape, bucket);
                for slot in 0..L::SLOTS {
                    let word = source.bucket(bucket).load(slot);
                    if word == Word::EMPTY {
                        continue;
                    }
                    let rest = L::rest_of_word(&walk, shape, bucket, word);
                    let Some(rest) = route(number, rest) else {
                        continue;
                    };
                    if !self.insert(&locked, rest, word) {
                        return false;
                    }
                }
            }
        }
        locked.reset_counts();
        locked.inherit(counts);
        L::has_room(locked.table, self.index.shape(self.entry))
    }
}

impl<L: Layout> Drop for Fresh<'_, L> {
    fn drop(&mut self) {
        // SAFETY: it was never published.
        unsafe { self.entry.memory().release(&*self.index.space) };
    }
}

/// A part of a table: the keys whose next `bits` bits, behind the table's prefix, are `number`.
#[derive(Debug, Clone, Copy)]
struct Part {
    bits: u32,
    number: u64,
}

impl Part {
    /// The lower of this part's own two halves.
    fn lower_half(self) -> Self {
        Self { bits: self.bits + 1, number: self.number << 1 }
    }

    /// The remaining hash bits of a key in this part; `None` for a key of another part.
    fn route(self, rest: u64, rest_bits: u32) -> Option<u64> {
        let left = rest_bits - self.bits;
        (rest >> left == self.number).then_some(rest & ((1 << left) - 1))
    }

    /// A hash that begins with the prefix of the table, taken from the key hash `hash`, and the
    /// bits of this part, `depth` bits together.
    fn hash(self, hash: Hash, depth: u32) -> Hash {
        let shift = u64::BITS - depth;
        let bits = ((1 << self.bits) - 1) << shift;
        Hash(hash.0 & !bits | self.number << shift)
    }
}

/// The outcome of filling a table with a part of another.
enum Filled<'i, L: Layout> {
    Fits(Fresh<'i, L>),
    /// It does not fit into the largest table; two smaller ones may do.
    TooFull,
    /// It does not fit into the largest table for which there is memory; two smaller ones may do.
    TooShort,
    /// There is not even memory for the smallest table.
    NoMemory,
}

/// The smallest table that is comfortable with `items`, if one is.
pub(crate) fn comfortable_units<L: Layout>(items: usize) -> Option<usize> {
    (UNITS_MIN..=UNITS_MAX).find(|&units| items <= L::comfortable_items(units))
}

impl<L: Layout> Engine<L> {
    /// Replaces a full table by a larger one or by two, or by one as large that has room again.
    /// Gives the lock back when that cannot be done, with the reason.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow<'g>(
        &self,
        view: &View<'g, L>,
        locked: Locked<'g>,
        hash: Hash,
    ) -> Result<(), (Locked<'g>, Full)> {
        let (items, units) = (locked.table.count(), view.entry.units());
        let fresh = match self.roomier(view, hash, L::units_next(units, items)) {
            Ok(fresh) => fresh,
            Err(full) => {
                if full == Full::NoMemory {
                    self.space.starve();
                }
                return Err((locked, full));
            }
        };
        let fresh_units = match fresh.as_slice() {
            [(_, one)] => Some(one.entry.units()),
            _ => None,
        };
        self.publish(fresh, vec![(locked, view.entry)], |counts| {
            match fresh_units {
                Some(fresh_units) if fresh_units == units => {
                    counts.compactions += 1;
                    return;
                }
                Some(_) => counts.growths += 1,
                None => counts.splits += 1,
            }
            counts.full_items += items as u64;
            counts.full_slots += L::slots(units) as u64;
        });
        Ok(())
    }

    /// A table of `units` or more with all words of this one and room for more, or two tables; two
    /// as well if no run of memory is long enough for one.
    fn roomier(
        &self,
        view: &View<'_, L>,
        hash: Hash,
        units: usize,
    ) -> Result<Vec<(Hash, Fresh<'_, L>)>, Full> {
        let sources = [(view.table, view.shape)];
        for units in units..=UNITS_MAX {
            let Some(fresh) = Fresh::new(self, units, view.entry.depth()) else {
                return self.halves(view, hash).map_err(|_| Full::NoMemory);
            };
            if fresh.fill(&sources, view.table.counts(), |_, rest| Some(rest)) {
                return Ok(vec![(hash, fresh)]);
            }
        }
        self.halves(view, hash)
    }

    /// Two tables one bit deeper with all words of this one; more where one of them would be too
    /// full, because keys came in the order of their hashes and lie close together.
    fn halves(&self, view: &View<'_, L>, hash: Hash) -> Result<Vec<(Hash, Fresh<'_, L>)>, Full> {
        let mut parts = Vec::with_capacity(2);
        let mut counts = view.table.counts();
        self.divide(view, hash, Part { bits: 1, number: 0 }, &mut counts, &mut parts)?;
        Ok(parts)
    }

    /// Fills fresh tables with the two parts of a table that begin with this one.
    fn divide<'i>(
        &'i self,
        view: &View<'_, L>,
        hash: Hash,
        lower: Part,
        counts: &mut Counts,
        parts: &mut Vec<(Hash, Fresh<'i, L>)>,
    ) -> Result<(), Full> {
        let depth = view.entry.depth() + lower.bits;
        if depth > self.depth_max() {
            return Err(Full::Unplaceable);
        }
        // For the second part. Without memory for both, the first is not filled in vain: otherwise
        // a refused store would do so each time.
        let mut second = Some(Fresh::new(self, UNITS_MIN, depth).ok_or(Full::NoMemory)?);
        for number in [lower.number, lower.number + 1] {
            let part = Part { number, ..lower };
            if number != lower.number {
                drop(second.take());
            }
            match self.filled_with(view, part, *counts) {
                Filled::Fits(fresh) => {
                    *counts = Counts::default();
                    parts.push((part.hash(hash, depth), fresh));
                }
                Filled::TooFull => self.divide(view, hash, part.lower_half(), counts, parts)?,
                Filled::TooShort => self
                    .divide(view, hash, part.lower_half(), counts, parts)
                    .map_err(|_| Full::NoMemory)?,
                Filled::NoMemory => return Err(Full::NoMemory),
            }
        }
        Ok(())
    }

    /// The smallest fresh table that has room for this part of a table.
    fn filled_with<'i>(&'i self, view: &View<'_, L>, part: Part, counts: Counts) -> Filled<'i, L> {
        let depth = view.entry.depth() + part.bits;
        let sources = [(view.table, view.shape)];
        for units in UNITS_MIN..=UNITS_MAX {
            let Some(fresh) = Fresh::new(self, units, depth) else {
                return if units == UNITS_MIN { Filled::NoMemory } else { Filled::TooShort };
            };
            if fresh.fill(&sources, counts, |_, rest| part.route(rest, view.shape.rest_bits)) {
                return Filled::Fits(fresh);
            }
        }
        Filled::TooFull
    }

    /// Puts the `fresh` tables, each under the prefix its hash begins with, in the place of the
    /// `closed` ones, and retires those.
    pub(crate) fn publish(
        &self,
        fresh: Vec<(Hash, Fresh<'_, L>)>,
        closed: Vec<(Locked<'_>, Entry)>,
        count: impl FnOnce(&mut GrowthCounts),
    ) {
        let mut growth = lock(&self.growth);
        for (hash, fresh) in fresh {
            let entry = fresh.publish();
            while entry.depth() > self.directory_of(&growth).depth() {
                let doubled = self.directory_of(&growth).doubled();
                let old = self.set_directory(doubled);
                growth.retire(&self.epochs, Unlinked::Directory(old));
            }
            self.directory_of(&growth).assign(hash.0, entry);
        }
        for (locked, entry) in closed {
            locked.retire();
            growth.retire(&self.epochs, Unlinked::Table(entry.memory()));
        }
        count(&mut growth.counts);
        self.epochs.advance();
        growth.release_safe(&self.epochs, &*self.space);
    }

    /// Frees everything that no thread can see any more. Returns the number of bytes.
    pub(crate) fn release_retired(&self) -> usize {
        self.epochs.advance();
        // Under the lock: a thread that finds nothing in limbo has had what was there.
        lock(&self.growth).release_safe(&self.epochs, &*self.space)
    }
}
