//! Listing what is in the cache, a bit at a time, beside everything else.

use std::sync::atomic::Ordering;

use hot::shift::Cursor;

use crate::item::Item;
use crate::session::Session;

/// Leaves of the compressed zone that are listed in place of so many chunks of memory: about as
/// many items, which are decoded.
const CHUNKS_PER_LEAF: usize = 64;

/// How far a listing has come. Lives across sessions.
#[derive(Debug, Clone, Copy, Default)]
pub struct DumpCursor {
    hot: Cursor,
    /// Where to go on in the compressed zone, which comes second.
    below: compressed::Cursor,
    is_below: bool,
}

impl Session<'_> {
    /// Visits the items in the next `chunks_max` chunks of memory. Returns `false` at the end.
    /// Items stored or moved while a listing goes on may be missed or come twice.
    pub fn dump(
        &self,
        cursor: &mut DumpCursor,
        chunks_max: usize,
        mut visit: impl FnMut(&Item<'_>),
    ) -> bool {
        if cursor.is_below {
            let leaves_max = (chunks_max / CHUNKS_PER_LEAF).max(1);
            return self.dump_below(&mut cursor.below, leaves_max, visit);
        }
        let cache = self.cache;
        let more = cache.hot.walk(&self.guard, &mut cursor.hot, chunks_max, |item, place| {
            let hash = cache.hash(item.key());
            if cache.is_gone(item) {
                return;
            }
            if let Some(found) = cache.confirm(&self.guard, hash, item, place) {
                visit(&Item::hot(cache, found, item.mark().load(Ordering::Relaxed)));
            }
        });
        cursor.is_below = !more;
        more || self.has_lower()
    }
}
