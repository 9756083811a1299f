//! Removing many words at once, by their locations.

use memory::Guard;

use crate::directory::next_prefix;
use crate::engine::Engine;
use crate::layout::Layout;
use crate::location::{Hash, Location};

impl<L: Layout> Engine<L> {
    /// See [`Index::remove_where`](crate::Index::remove_where).
    pub(crate) fn remove_where(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut dismiss: impl FnMut(Location) -> bool,
    ) -> Option<Hash> {
        let (view, locked) = self.locked_view(guard, hash);
        for bucket in 0..view.table.buckets() {
            for slot in 0..L::SLOTS {
                let location = view.table.bucket(bucket).load(slot).location();
                if location.is_some_and(&mut dismiss) {
                    locked.remove(bucket, slot);
                }
            }
        }
        next_prefix(hash.0, view.entry.depth()).map(Hash)
    }
}
