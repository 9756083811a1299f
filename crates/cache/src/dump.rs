//! Listing what is in the cache, a bit at a time, beside everything else.

use std::sync::atomic::Ordering;

use hot::shift::Cursor;

use crate::item::Item;
use crate::session::Session;

/// How far a listing has come. Lives across sessions.
#[derive(Debug, Clone, Copy, Default)]
pub struct DumpCursor(Cursor);

impl Session<'_> {
    /// Visits the items in the next `chunks_max` chunks of memory. Returns `false` at the end.
    /// Items stored or moved while a listing goes on may be missed or come twice.
    pub fn dump(
        &self,
        cursor: &mut DumpCursor,
        chunks_max: usize,
        mut visit: impl FnMut(&Item<'_>),
    ) -> bool {
        let cache = self.cache;
        cache.hot.walk(&self.guard, &mut cursor.0, chunks_max, |item, place| {
            let hash = cache.hash(item.key());
            if cache.is_gone(item) {
                return;
            }
            if let Some(found) = cache.confirm(&self.guard, hash, item, place) {
                visit(&Item::new(cache, found, item.mark().load(Ordering::Relaxed)));
            }
        })
    }
}
