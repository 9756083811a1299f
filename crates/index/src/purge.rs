//! Removing many words at once, by what their locations say.

use memory::Guard;

use crate::bucket::SLOTS;
use crate::directory::next_prefix;
use crate::index::Index;
use crate::location::{Hash, Location};

impl Index {
    /// Removes those words of one table, the one that holds `hash`, whose location `dismiss` names,
    /// under its lock. Returns a hash that the table behind it holds; `None` behind the last. Who
    /// begins at 0 and goes on until then has seen every word that was there when he began, but for
    /// those that were replaced meanwhile. `dismiss` must not call the index.
    pub fn remove_where(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut dismiss: impl FnMut(Location) -> bool,
    ) -> Option<Hash> {
        let (view, locked) = self.locked_view(guard, hash);
        for bucket in 0..view.shape.buckets {
            for slot in 0..SLOTS {
                let location = view.table.bucket(bucket).load(slot).location();
                if location.is_some_and(&mut dismiss) {
                    locked.remove(bucket, slot);
                }
            }
        }
        next_prefix(hash.0, view.entry.depth()).map(Hash)
    }
}
