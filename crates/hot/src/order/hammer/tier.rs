//! A tier below that forgets: an item that it takes over leaves the map and is retired, as by a
//! tier that keeps it, and one item in a few is refused.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory::{ClassId, Guard, Place};
use stdx::sync::lock;

use super::Map;
use crate::{CacheHooks, Draft, Hot, ItemRef};

/// One item in this many is refused.
const REFUSED_SHARE: u64 = 4;

thread_local! {
    /// The key of the item that this thread copied last, and where it was.
    static COPIED: RefCell<Option<(Vec<u8>, Place)>> = const { RefCell::new(None) };
}

/// The map, and the tier below it.
pub(super) struct Tiered<'t> {
    pub(super) hot: &'t Hot,
    pub(super) map: &'t Map,
    /// The background demotes items, rather than stores.
    pub(super) is_background: bool,
    /// The number of items offered, of which all but one in [`REFUSED_SHARE`] were taken if they
    /// were still there.
    pub(super) offered: &'t AtomicU64,
}

impl Tiered<'_> {
    fn take_over(&self, guard: &Guard<'_>, key: &[u8], place: Place) -> bool {
        if self.offered.fetch_add(1, Relaxed).is_multiple_of(REFUSED_SHARE) {
            return false;
        }
        {
            let mut places = lock(&self.map.places);
            if places.get(key) != Some(&place) {
                return false;
            }
            places.remove(key);
        }
        // SAFETY: the map pointed at it until just now, under this guard.
        unsafe { self.hot.retire(guard, place) };
        true
    }
}

impl CacheHooks for Tiered<'_> {
    fn now(&self) -> u32 {
        self.map.now()
    }

    fn may_evict(&self) -> bool {
        self.map.may_evict()
    }

    fn mutations(&self) -> u64 {
        self.map.mutations()
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        self.map.age(item)
    }

    fn prefetch(&self, guard: &Guard<'_>, item: ItemRef<'_>) {
        self.map.prefetch(guard, item);
    }

    fn is_gone(&self, item: ItemRef<'_>) -> bool {
        self.map.is_gone(item)
    }

    fn evicted(&self, item: ItemRef<'_>, class: ClassId) {
        self.map.evicted(item, class);
    }

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> crate::Unlinked {
        self.map.unlink(guard, item, place)
    }

    fn demotes(&self) -> bool {
        self.is_background
    }

    fn store_demotes(&self) -> bool {
        !self.is_background
    }

    fn demote_for_store(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        self.take_over(guard, item.key(), place)
    }

    fn is_linked(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        self.map.is_linked(guard, item, place)
    }

    fn relocate(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: Place,
        copy: Draft<'_>,
    ) -> bool {
        self.map.relocate(guard, item, place, copy)
    }

    fn copy(&self, item: ItemRef<'_>, place: Place) -> bool {
        COPIED.set(Some((item.key().to_vec(), place)));
        true
    }

    fn demote(&self) -> bool {
        let (key, place) = COPIED.take().expect("an item was copied before");
        self.take_over(&self.hot.epochs.pin(), &key, place)
    }
}
