//! Maintenance: tables that have become much too large give memory back, and tables move where the
//! space they lie in asks for it ([`TableSpace::wants_moved`](memory::TableSpace::wants_moved)).
//!
//! After a shift to larger values the cache holds fewer items, and the index should not keep the
//! memory it once needed. A table shrinks to the smallest size in which it is comfortable, which is
//! for a cuckoo table at most 80 % full; two smallest tables with the same prefix but for the last
//! bit merge when one table holds both. Such a table grows at 98 %, so it does not go to and fro
//! between two sizes.
//!
//! The same copying as in growth does it, so no item is read here either.

use crate::directory::{Entry, next_prefix};
use crate::engine::{Engine, View};
use crate::growth::{Fresh, GrowthCounts, comfortable_units};
use crate::layout::Layout;
use crate::location::Hash;
use crate::table::{Counts, UNITS_MIN};
use memory::Guard;
use stdx::sync::lock;

impl<L: Layout> Engine<L> {
    /// See [`Index::maintain`](crate::Index::maintain).
    pub(crate) fn maintain(&self, begin: Hash, tables_max: usize) -> (usize, Option<Hash>) {
        let mut at = Some(begin);
        for _ in 0..tables_max {
            let Some(hash) = at else { break };
            let guard = self.epochs.pin();
            self.shrink_table(&guard, hash);
            let is_moved = self.move_table(&guard, hash);
            // The table of this prefix may have just been merged with the one behind it.
            let depth = self.view(&guard, hash).entry.depth();
            at = next_prefix(hash.0, depth).map(Hash);
            if is_moved {
                // It took as long as all others, and its memory is to be had for the next.
                break;
            }
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

    /// Moves the table that holds `hash` if its space asks for that. Returns whether it did.
    fn move_table(&self, guard: &Guard<'_>, hash: Hash) -> bool {
        let view = self.view(guard, hash);
        let memory = view.entry.memory();
        self.space.wants_moved(memory.start, memory.units)
            && self.rebuild(&view, hash, memory.units, |counts| counts.moves += 1)
    }

    /// Puts a table of `units` in the place of this one. Returns whether it did.
    fn rebuild(
        &self,
        view: &View<'_, L>,
        hash: Hash,
        units: usize,
        count: impl FnOnce(&mut GrowthCounts),
    ) -> bool {
        let Some(locked) = view.table.lock() else {
            return false;
        };
        let Some(fresh) = Fresh::new(self, units, view.entry.depth()) else {
            return false;
        };
        // Items that came before the lock was taken may have filled it after all.
        let sources = [(view.table, view.shape)];
        let is_filled = fresh.fill(&sources, view.table.counts(), |_, rest| Some(rest));
        if is_filled {
            self.publish(vec![(hash, fresh)], vec![(locked, view.entry)], count);
        }
        is_filled
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
        // By rising prefix: another thread that merges waits rather than holding the other.
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
