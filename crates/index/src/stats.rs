//! The index's counters and sizes.
//!
//! Most are in the headers of the tables, of which a large index has hundreds of thousands. They
//! are read in parts, each under a pin of its own: memory retired meanwhile waits for one part and
//! not for all.

use crate::directory::next_prefix;
use crate::engine::Engine;
use crate::layout::Layout;
use crate::location::Hash;
use crate::table::Counts;
use memory::space::TABLE_UNIT_BYTES;
use stdx::sync::lock;

/// Counters and sizes of an index. Writers may be at work meanwhile, so the parts need not agree
/// to the last item.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys present.
    pub items: u64,
    /// Tables in the directory.
    pub tables: u64,
    /// Slots in these tables.
    pub slots: u64,
    /// Memory of these tables.
    pub table_bytes: u64,
    /// Memory of the directory.
    pub directory_bytes: u64,
    /// Memory of tables and directories that have been replaced and may still be seen.
    pub retired_bytes: u64,
    /// Buckets that full buckets of a tree led to.
    pub sub_buckets: u64,
    /// Words that insertions moved to their other bucket.
    pub displacements: u64,
    /// Keys inserted.
    pub inserts: u64,
    /// Searches for room that found none: no path of a cuckoo table, an empty pool of a tree.
    pub searches_failed: u64,
    /// Tables that grew to the next size.
    pub growths: u64,
    /// Tables that split in two.
    pub splits: u64,
    /// Tables whose sub-buckets, emptied by removals, were given back by building them anew.
    pub compactions: u64,
    /// Tables that became smaller.
    pub shrinks: u64,
    /// Pairs of tables that became one.
    pub merges: u64,
    /// Tables that moved so that memory could be given back.
    pub moves: u64,
    /// Items in tables at the moment they grew or split, summed. Divided by `full_slots` it is the
    /// occupancy at which tables grow.
    pub full_items: u64,
    /// Slots of tables at the moment they grew or split, summed.
    pub full_slots: u64,
}

/// Tables that are read under one pin: a cache line each.
const PINNED_TABLES: usize = 1 << 10;

impl<L: Layout> Engine<L> {
    /// See [`Index::stats`](crate::Index::stats).
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        let mut counts = Counts::default();
        let mut at = Some(Hash(0));
        while let Some(begin) = at {
            at = self.add_tables(begin, &mut stats, &mut counts);
        }
        stats.displacements = counts.displacements;
        stats.inserts = counts.inserts;
        stats.searches_failed = counts.searches_failed;
        let growth = lock(&self.growth);
        stats.directory_bytes = self.directory_of(&growth).bytes() as u64;
        stats.retired_bytes = growth.retired_bytes() as u64;
        stats.growths = growth.counts.growths;
        stats.splits = growth.counts.splits;
        stats.compactions = growth.counts.compactions;
        stats.shrinks = growth.counts.shrinks;
        stats.merges = growth.counts.merges;
        stats.moves = growth.counts.moves;
        stats.full_items = growth.counts.full_items;
        stats.full_slots = growth.counts.full_slots;
        stats
    }

    /// Adds up the headers of the next tables, from that of `begin` on. Returns where the next one
    /// begins, if there is another. Of two tables that merge between two parts the lower is counted
    /// twice.
    fn add_tables(&self, begin: Hash, stats: &mut Stats, counts: &mut Counts) -> Option<Hash> {
        let guard = self.epochs.pin();
        let directory = self.directory(&guard);
        let mut hash = begin.0;
        for _ in 0..PINNED_TABLES {
            let entry = directory.entry(hash);
            // SAFETY: the entry was in a directory while the guard was pinned.
            let table = unsafe { entry.memory().table() };
            stats.items += table.count() as u64;
            stats.tables += 1;
            stats.slots += L::slots(entry.units()) as u64;
            stats.sub_buckets += table.sub_buckets() as u64;
            stats.table_bytes += (entry.units() * TABLE_UNIT_BYTES) as u64;
            *counts = counts.plus(table.counts());
            hash = next_prefix(hash, entry.depth())?;
        }
        Some(Hash(hash))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cuckoo::Cuckoo;
    use crate::index::Options;
    use memory::{Arena, ArenaTables, Epochs};
    use std::sync::Arc;

    /// Regression: no retired memory was freed while all tables were added up, tens of milliseconds
    /// for a large index.
    #[test]
    #[cfg_attr(miri, ignore = "tens of megabytes")]
    fn the_epoch_moves_while_statistics_are_added_up() {
        let arena = Arena::new(0, 256 << 20, 0).expect("addresses are there");
        let space = Arc::new(ArenaTables::new(Arc::new(arena)));
        let options = Options { initial_items: 5_000_000, ..Options::default() };
        let layout = Cuckoo { paths: options.paths };
        let epochs = Arc::new(Epochs::new());
        let index = Engine::new(layout, &options, epochs.clone(), space).expect("there is room");
        let (mut stats, mut counts) = (Stats::default(), Counts::default());
        let (mut parts, mut at) = (0, Some(Hash(0)));
        while let Some(begin) = at {
            let before = epochs.tag();
            at = index.add_tables(begin, &mut stats, &mut counts);
            parts += 1;
            assert!(epochs.try_reach(before), "nobody is pinned between two parts");
        }
        assert!(parts > 1 && stats.tables as usize > PINNED_TABLES, "{parts}: {stats:?}");
        let all = index.stats();
        assert_eq!((all.tables, all.slots), (stats.tables, stats.slots));
    }
}
