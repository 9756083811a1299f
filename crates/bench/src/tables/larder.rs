//! The real index behind the trait of the baselines, used as in the cache: pinned once for a batch
//! of lookups, and either one lookup after the other or with the whole batch's cache lines
//! prefetched.

use std::sync::Arc;

use index::{Change, Hash, Index, Kind, Location, Options, Stats};
use memory::{Arena, ArenaTables, Epochs, TableSpace};

use super::{Items, Key, Table, Touched, hash};

/// Lookups under one pin.
const BATCH: usize = 100;
/// The tier of all places here.
const TIER: u8 = 1;
/// Items for which an index starts with one table of the largest size.
const ITEMS_OF_ONE: usize = 4600;
/// A small arena, which such a table does not fill.
const ARENA_BYTES_FIXED: usize = 256 << 10;

/// The index, and the items it points to.
pub struct LarderIndex {
    index: Index,
    epochs: Arc<Epochs>,
    items: Items,
    ahead: bool,
}

impl LarderIndex {
    /// Returns an index that grows with its items; `ahead`: a batch's lines are prefetched before
    /// it is looked up.
    pub fn growing(items: Items, ahead: bool) -> LarderIndex {
        LarderIndex::of_kind(Kind::Cuckoo, items, ahead)
    }

    /// Returns a growing index of another kind.
    pub fn of_kind(kind: Kind, items: Items, ahead: bool) -> LarderIndex {
        let arena_bytes = items.len() * 32 + (64 << 20);
        let options = Options { kind, ..Options::default() };
        LarderIndex::new(items, Arc::new(tables(arena_bytes)), options, ahead)
    }

    /// Returns an index of one table, of the largest size, that cannot grow.
    pub fn fixed(items: Items, paths: usize) -> LarderIndex {
        let options = Options { initial_items: ITEMS_OF_ONE, paths, ..Options::default() };
        let space = Arc::new(tables(ARENA_BYTES_FIXED));
        let index = LarderIndex::new(items, space.clone(), options, false);
        // The rest of the arena is taken, so that there is nothing to grow into.
        while space.allocate(1).is_some() {}
        index
    }

    fn new(items: Items, space: Arc<dyn TableSpace>, options: Options, ahead: bool) -> LarderIndex {
        let epochs = Arc::new(Epochs::new());
        let index = Index::new(options, Arc::clone(&epochs), space);
        LarderIndex { index: index.expect("there is memory to start"), epochs, items, ahead }
    }

    /// Sets whether a batch's lines are prefetched before it is looked up.
    pub fn set_ahead(&mut self, ahead: bool) {
        self.ahead = ahead;
    }

    /// The index's own counters.
    pub fn stats(&self) -> Stats {
        self.index.stats()
    }

    #[inline]
    fn is(&self, location: Location, wanted: &Key) -> bool {
        self.items[location.place() as usize] == *wanted
    }

    fn find_batch(&self, wanted: &[Key]) -> u64 {
        let guard = self.epochs.pin();
        if self.ahead {
            wanted.iter().for_each(|key| self.index.prefetch(&guard, Hash(hash(key))));
        }
        let found = |key: &&Key| {
            let eq = |location| self.is(location, key);
            self.index.find(&guard, Hash(hash(key)), eq).is_some()
        };
        wanted.iter().filter(found).count() as u64
    }
}

/// Returns tables in an arena of this many bytes.
fn tables(arena_bytes: usize) -> ArenaTables {
    let arena = Arena::new(arena_bytes, arena_bytes, 1).expect("addresses cost nothing");
    ArenaTables::new(Arc::new(arena))
}

impl Table for LarderIndex {
    fn insert(&self, place: u32) -> bool {
        let key = self.items[place as usize];
        let set = |_| (Change::Set(Location::new(TIER, u64::from(place))), ());
        let guard = self.epochs.pin();
        // The key is absent, so an item with the same tag has another key.
        self.index.update(&guard, Hash(hash(&key)), |found| self.is(found, &key), set).is_ok()
    }

    fn find_all(&self, wanted: &[Key]) -> u64 {
        wanted.chunks(BATCH).map(|batch| self.find_batch(batch)).sum()
    }

    fn touched(&self, wanted: &Key) -> Option<Touched> {
        let mut touched = Touched::default();
        let guard = self.epochs.pin();
        let lines = self.index.lookup_lines(&guard, Hash(hash(wanted)), |location| {
            touched.items += 1;
            self.is(location, wanted)
        });
        touched.lines = lines as u64;
        Some(touched)
    }

    fn bytes(&self) -> u64 {
        let stats = self.index.stats();
        stats.table_bytes + stats.directory_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{LarderIndex, Options};
    use crate::tables::{Table, items};

    #[test]
    fn a_fixed_index_fills_up_without_growing() {
        let index = LarderIndex::fixed(items(0, 40_000), Options::PATHS_MAX);
        let slots = index.stats().slots;
        let count = (0..40_000).take_while(|place| index.insert(*place)).count() as u64;
        let stats = index.stats();
        assert_eq!((stats.slots, stats.growths, stats.splits), (slots, 0, 0), "{stats:?}");
        assert_eq!(stats.tables, 1);
        assert!(count > slots * 98 / 100, "{count} of {slots}");
    }
}
