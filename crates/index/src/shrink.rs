//! Maintenance: tables that have become much too large give memory back, and tables move where the
//! space they lie in asks for it ([`TableSpace::to_clear`](memory::TableSpace::to_clear)).
//!
//! After a shift to larger values the cache holds fewer items, and the index should not keep the
//! memory it once needed. A table shrinks to the smallest size in which it is comfortable, which is
//! for a cuckoo table at most 80 % full; two smallest tables with the same prefix but for the last
//! bit merge when one table holds both. Such a table grows at 98 %, so it does not alternate
//! between two sizes.
//!
//! The tables that are to move lie together, and their hashes anywhere. The directory says where a
//! table lies, so that a few out of millions are found without reading the headers of others.
//!
//! It copies as growth does, so no item is read here either.

use crate::directory::{Entry, next_prefix};
use crate::engine::{Engine, View};
use crate::growth::{Fresh, GrowthCounts, comfortable_units};
use crate::layout::Layout;
use crate::location::Hash;
use crate::table::{Counts, UNITS_MIN};
use memory::Guard;
use stdx::sync::lock;

/// Entries of the directory that are searched in one turn, under one pin, for a table that is to
/// move: this takes about as long as its move.
const LOOKS_MAX: usize = 1 << 16;

impl<L: Layout> Engine<L> {
    /// See [`Index::maintain_some`](crate::Index::maintain_some).
    pub(crate) fn shrink_some(&self, begin: Hash, tables_max: usize) -> (usize, Option<Hash>) {
        let mut at = Some(begin);
        for _ in 0..tables_max {
            let Some(hash) = at else { break };
            let guard = self.epochs.pin();
            self.shrink_table(&guard, hash);
            // The table of this prefix may have just been merged with the next one.
            let depth = self.view(&guard, hash).entry.depth();
            at = next_prefix(hash.0, depth).map(Hash);
        }
        let newest = lock(&self.growth).newest_tag();
        if let Some(tag) = newest {
            self.epochs.try_reach(tag);
        }
        (self.release_retired(), at)
    }

    /// Makes the table that holds `hash` smaller if it is much too large.
    fn shrink_table(&self, guard: &Guard<'_>, hash: Hash) {
        let view = self.view(guard, hash);
        match comfortable_units::<L>(view.table.count()) {
            Some(units) if units < view.entry.units() => {
                self.rebuild(&view, hash, units, |counts| counts.shrinks += 1);
            }
            _ if view.entry.units() == UNITS_MIN => self.merge(guard, &view, hash),
            _ => {}
        }
    }

    /// See [`Index::move_some`](crate::Index::move_some).
    pub(crate) fn move_some(&self, begin: Hash) -> Option<Hash> {
        let addresses = self.space.to_clear()?;
        let guard = self.epochs.pin();
        let directory = self.directory(&guard);
        let mut at = begin.0;
        for _ in 0..LOOKS_MAX {
            let entry = directory.entry(at);
            let lies_there = addresses.contains(&entry.memory().start.addr().get());
            let next = next_prefix(at, entry.depth());
            if lies_there && self.move_table(&guard, Hash(at)) {
                return next.map(Hash);
            }
            at = next?;
        }
        Some(Hash(at))
    }

    /// Moves the table that holds `hash` if its space asks for that. Returns whether it did.
    fn move_table(&self, guard: &Guard<'_>, hash: Hash) -> bool {
        let view = self.view(guard, hash);
        let memory = view.entry.memory();
        if !self.space.wants_moved(memory.start, memory.units) {
            return false;
        }
        let moved = self.rebuild(&view, hash, memory.units, |counts| counts.moves += 1);
        if moved == Some(false) {
            self.space.cannot_move(memory.start);
        }
        moved == Some(true)
    }

    /// Puts a table of `units` in the place of this one. Returns whether it has room for all words
    /// of this one, or `None` if there is no memory or another thread was first.
    fn rebuild(
        &self,
        view: &View<'_, L>,
        hash: Hash,
        units: usize,
        count: impl FnOnce(&mut GrowthCounts),
    ) -> Option<bool> {
        let locked = view.table.lock()?;
        let fresh = Fresh::new(self, units, view.entry.depth())?;
        // Items inserted before the lock was taken may have filled it after all.
        let sources = [(view.table, view.shape)];
        let is_filled = fresh.fill(&sources, view.table.counts(), |_, rest| Some(rest));
        if is_filled {
            self.publish(vec![(hash, fresh)], vec![(locked, view.entry)], count);
        }
        Some(is_filled)
    }

    /// Merges the table with the one whose prefix differs from its own in the last bit.
    fn merge(&self, guard: &Guard<'_>, view: &View<'_, L>, hash: Hash) {
        let depth = view.entry.depth();
        if depth == self.depth_min() {
            return;
        }
        let last_prefix_bit = 1_u64 << (64 - depth);
        let pair = [hash.0 & !last_prefix_bit, hash.0 | last_prefix_bit];
        let views = pair.map(|hash| self.view(guard, Hash(hash)));
        let alike = |entry: Entry| (entry.depth(), entry.units()) == (depth, UNITS_MIN);
        if !views.iter().all(|view| alike(view.entry)) {
            return;
        }
        let items = views.iter().map(|view| view.table.count()).sum();
        let Some(units) = comfortable_units::<L>(items) else {
            return;
        };
        // By rising prefix: another merging thread waits rather than hold the other table.
        let [Some(lower), Some(upper)] = views.map(|view| view.table.lock()) else {
            return;
        };
        let Some(fresh) = Fresh::new(self, units, depth - 1) else {
            return;
        };
        let sources = views.map(|view| (view.table, view.shape));
        let all = views.iter().map(|view| view.table.counts());
        let counts = all.fold(Counts::default(), Counts::plus);
        let route = |upper: usize, rest| Some((upper as u64) << view.shape.rest_bits | rest);
        if fresh.fill(&sources, counts, route) {
            let closed = vec![(lower, views[0].entry), (upper, views[1].entry)];
            self.publish(vec![(hash, fresh)], closed, |counts| counts.merges += 1);
        }
    }
}
