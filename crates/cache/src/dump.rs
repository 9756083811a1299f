//! Listing what is in the cache, a bit at a time, beside everything else.

use std::sync::atomic::Ordering;

use hot::shift::Cursor;

use crate::item::Item;
use crate::session::Session;

/// Leaves of the compressed zone that are listed in place of so many chunks of memory: about as
/// many items, which are decoded.
const CHUNKS_PER_LEAF: usize = 64;

/// How far a listing has come. Lives across sessions.
#[derive(Debug, Default)]
pub struct DumpCursor {
    stage: Stage,
    hot: Cursor,
    below: compressed::Cursor,
    flash: ::flash::Walk,
}

/// Which tier is listed: one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Hot,
    Below,
    Flash,
}

/// What a part of a listing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dumped {
    /// There may be more.
    More,
    /// Something has to be read from flash first, as for [`Lookup::Pending`](crate::Lookup).
    Pending,
    /// That was all.
    End,
}

impl Session<'_> {
    /// Visits the items in the next `chunks_max` chunks of memory, or about as many in the tiers
    /// below. Items stored or moved while a listing goes on may be missed or come twice.
    pub fn dump(
        &self,
        cursor: &mut DumpCursor,
        chunks_max: usize,
        visit: impl FnMut(&Item<'_>),
    ) -> Dumped {
        let (more, next) = match cursor.stage {
            Stage::Hot => (self.dump_hot(&mut cursor.hot, chunks_max, visit), Stage::Below),
            Stage::Below => {
                let leaves_max = (chunks_max / CHUNKS_PER_LEAF).max(1);
                (self.dump_below(&mut cursor.below, leaves_max, visit), Stage::Flash)
            }
            Stage::Flash => return self.dump_flash(&mut cursor.flash, visit),
        };
        if !more {
            cursor.stage = next;
        }
        if more || self.has_lower() { Dumped::More } else { Dumped::End }
    }

    fn dump_hot(
        &self,
        cursor: &mut Cursor,
        chunks_max: usize,
        mut visit: impl FnMut(&Item<'_>),
    ) -> bool {
        let cache = self.cache;
        cache.hot.walk(&self.guard, cursor, chunks_max, |item, place| {
            let hash = cache.hash(item.key());
            if cache.is_gone(item) {
                return;
            }
            if let Some(found) = cache.confirm(&self.guard, hash, item, place) {
                visit(&Item::hot(cache, found, item.mark().load(Ordering::Relaxed)));
            }
        })
    }
}
