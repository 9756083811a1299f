//! The index's public interface: one of several kinds, chosen when it starts.
//!
//! Each call chooses the kind's engine once, and all code it calls is compiled for one layout.

use std::fmt;
use std::sync::Arc;

use crate::cuckoo::Cuckoo;
use crate::engine::Engine;
use crate::location::{Hash, Location};
use crate::path::PATHS_MAX;
use crate::stats::Stats;
use crate::tree::Tree;
use crate::update::{Change, Full, Pair, Room};
use memory::{Epochs, Guard, TableSpace};

/// Where in a table the words of a key may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// In one of two buckets, moving to the other to make room: the most items in the memory.
    #[default]
    Cuckoo,
    /// In a bucket or in its sub-buckets, of which a full one has up to four: the fewest cache
    /// lines for a lookup.
    Tree,
    /// In a bucket or in its only sub-bucket, and so on: for comparison.
    List,
}

impl Kind {
    /// Bytes of tables for an item while items come and go: a cuckoo index's most, and a tree's
    /// average over all numbers of items (`examples/occupancy.rs`).
    pub const fn item_bytes(self) -> usize {
        match self {
            Self::Cuckoo => 9,
            Self::Tree | Self::List => 19,
        }
    }
}

/// How an index starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The kind: where words lie.
    pub kind: Kind,
    /// Items to make room for at once. The index holds more as it grows, up to 2^18 times as many
    /// tables, but tells one hash bit less apart for each doubling: size it within a factor of a
    /// thousand of what will come.
    pub initial_items: usize,
    /// Items that are known to come, all of them soon; 0 if nothing is known. There are tables for
    /// them from the start, which thus need not grow and lie without gaps. The range in which the
    /// index can grow or shrink follows from `initial_items` alone.
    pub expected_items: usize,
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
            kind: Kind::default(),
            initial_items: 0,
            expected_items: 0,
            // One for each slot to start from: see docs/decisions/0001. With 2, as in MemC3, an
            // insertion moves twice as many words for the same occupancy.
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
pub struct Index(pub(crate) Engines);

/// An engine for each layout. The list is a tree whose buckets have one link.
pub(crate) enum Engines {
    Cuckoo(Engine<Cuckoo>),
    Tree(Engine<Tree>),
}

/// Calls the engine of an index.
macro_rules! with_engine {
    ($index:expr, $engine:ident => $call:expr) => {
        match &$index.0 {
            Engines::Cuckoo($engine) => $call,
            Engines::Tree($engine) => $call,
        }
    };
}

impl Index {
    /// An empty index.
    pub fn new(
        options: Options,
        epochs: Arc<Epochs>,
        space: Arc<dyn TableSpace>,
    ) -> Result<Self, IndexError> {
        let tree = |layout, epochs, space| Engine::new(layout, &options, epochs, space);
        Ok(Self(match options.kind {
            Kind::Cuckoo => {
                let layout = Cuckoo { paths: options.paths.clamp(1, PATHS_MAX) };
                Engines::Cuckoo(Engine::new(layout, &options, epochs, space)?)
            }
            Kind::Tree => Engines::Tree(tree(Tree::TREE, epochs, space)?),
            Kind::List => Engines::Tree(tree(Tree::LIST, epochs, space)?),
        }))
    }

    /// The kind that it was started as.
    pub fn kind(&self) -> Kind {
        match &self.0 {
            Engines::Cuckoo(_) => Kind::Cuckoo,
            Engines::Tree(engine) if engine.layout.is_list() => Kind::List,
            Engines::Tree(_) => Kind::Tree,
        }
    }

    /// Prefetches the cache lines of a lookup of `hash`, as far as they are known before any is
    /// read.
    #[inline]
    pub fn prefetch(&self, guard: &Guard<'_>, hash: Hash) {
        with_engine!(self, engine => engine.prefetch(guard, hash));
    }

    /// The first location whose tag matches and that `is_wanted`, for fetching the item ahead. It
    /// may be another key's, and `None` proves nothing.
    #[inline]
    pub fn candidate(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        is_wanted: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        with_engine!(self, engine => engine.candidate(guard, hash, is_wanted))
    }

    /// The location for which `eq` says that its item has the sought key. `eq` may be called more
    /// than once for a location, and must not call the index.
    // Always inlined: otherwise it would depend on the number of callers.
    #[inline(always)]
    pub fn find(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        eq: impl FnMut(Location) -> bool,
    ) -> Option<Location> {
        with_engine!(self, engine => engine.find(guard, hash, eq))
    }

    /// The cache lines of tables that an undisturbed lookup reads: its buckets, and the versions
    /// where a miss needs them. For measurements.
    pub fn lookup_lines(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        eq: impl FnMut(Location) -> bool,
    ) -> usize {
        with_engine!(self, engine => engine.lookup_lines(guard, hash, eq))
    }

    /// Whether this very location is in the index under `hash`.
    #[inline]
    pub fn contains_exact(&self, guard: &Guard<'_>, hash: Hash, location: Location) -> bool {
        self.find(guard, hash, |found| found == location).is_some()
    }

    /// Finds the key with `eq`, lets `decide` choose, and applies the choice, all under the lock
    /// of the key's table. `decide` runs exactly once, unless the key is absent and there is no
    /// room for it: then it does not run at all. Neither closure may call the index; `eq` may be
    /// called more than once for a location.
    #[inline]
    pub fn update<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        eq: impl FnMut(Location) -> bool,
        decide: impl FnOnce(Option<Location>) -> (Change, R),
    ) -> Result<R, Full> {
        with_engine!(self, engine => engine.update(guard, hash, eq, decide))
    }

    /// As [`Index::update`], but for a change that only concerns a key that is present: `decide`
    /// does not run for an absent one, no room is made for it, and the index is never too full.
    #[inline]
    pub fn update_present<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        eq: impl FnMut(Location) -> bool,
        decide: impl FnOnce(Location) -> (Change, R),
    ) -> Option<R> {
        with_engine!(self, engine => engine.update_present(guard, hash, eq, decide))
    }

    /// As [`Index::update`], for a key that may have a companion, whose location satisfies
    /// `is_companion` and not `eq`: `decide` says what becomes of its word, and then of the
    /// companion. Where the key has no word, `room` says for which words there has to be room
    /// before `decide` runs. `decide` must not set a word if no room was asked for; a word for
    /// which there was room only without a companion takes the companion's slot, and the companion
    /// has to be removed.
    #[inline]
    pub fn update_pair<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        eq: impl FnMut(Location) -> bool,
        is_companion: Option<impl FnMut(Location) -> bool>,
        room: Room,
        decide: impl FnOnce(Pair) -> (Change, Change, R),
    ) -> Result<R, Full> {
        with_engine!(self, engine => {
            engine.update_pair(guard, hash, eq, is_companion, room, decide)
        })
    }

    /// Removes the word with exactly this location, without comparing keys. Returns whether it
    /// was there.
    #[inline]
    pub fn remove_exact(&self, guard: &Guard<'_>, hash: Hash, location: Location) -> bool {
        let remove = |_| (Change::Remove, ());
        self.update_present(guard, hash, |found| found == location, remove).is_some()
    }

    /// Puts `target` where exactly `source` is, without comparing keys. Returns whether `source`
    /// was there.
    #[inline]
    pub fn replace_exact(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        source: Location,
        target: Location,
    ) -> bool {
        let replace = |_| (Change::Set(target), ());
        self.update_present(guard, hash, |found| found == source, replace).is_some()
    }

    /// Removes those words of one table, the one that holds `hash`, whose location `dismiss` names,
    /// under its lock. Returns a hash that the next table holds; `None` after the last. A caller
    /// that begins at 0 and continues until then has seen every word that was present when it
    /// began, except those that were replaced meanwhile. `dismiss` must not call the index.
    pub fn remove_where(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        dismiss: impl FnMut(Location) -> bool,
    ) -> Option<Hash> {
        with_engine!(self, engine => engine.remove_where(guard, hash, dismiss))
    }

    /// Shrinks and merges tables that have become too large, moves those that the table space wants
    /// moved, and frees memory that no thread can see any more. Returns the bytes that went back to
    /// the table space. To be called now and then by a thread that is not pinned.
    pub fn maintain(&self) -> usize {
        let (mut released, mut at) = (0, Some(Hash(0)));
        while let Some(begin) = at {
            let (bytes, next) = self.maintain_some(begin, usize::MAX);
            (released, at) = (released + bytes, next);
        }
        at = Some(Hash(0));
        while let Some(begin) = at {
            at = self.move_some(begin);
            released += with_engine!(self, engine => engine.release_retired());
        }
        released
    }

    /// As [`Index::maintain`], for at most `tables_max` tables, from that of `begin` on, and
    /// without moves. Returns the bytes, and where the next table begins, if this was not the last.
    pub fn maintain_some(&self, begin: Hash, tables_max: usize) -> (usize, Option<Hash>) {
        with_engine!(self, engine => engine.shrink_some(begin, tables_max))
    }

    /// Moves one table that the table space wants moved, if there is one among the next few
    /// thousand from that of `begin` on. Returns where the next one begins, if there is another. To
    /// be called by a thread that is not pinned.
    pub fn move_some(&self, begin: Hash) -> Option<Hash> {
        with_engine!(self, engine => engine.move_some(begin))
    }

    /// The state of the index, summed over its tables.
    pub fn stats(&self) -> Stats {
        with_engine!(self, engine => engine.stats())
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("stats", &self.stats()).finish()
    }
}
