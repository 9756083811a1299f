//! The cache as the hot zone sees it: see [`hot::CacheHooks`].

use std::sync::atomic::Ordering;

use hot::mark::{FETCHED, idle_seconds};
use hot::{CacheHooks, Draft, ItemRef, Unlinked};
use memory::{ClassId, Guard, Place};

use crate::cache::Cache;
use crate::compressed_admission::Left;
use crate::flash_tier::FlashTier;
use crate::types::{Evicted, expiry_of};

impl CacheHooks for Cache {
    fn now(&self) -> u32 {
        Cache::now(self)
    }

    fn may_evict(&self) -> bool {
        self.may_evict
    }

    fn mutations(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    fn age(&self, item: ItemRef<'_>) -> u64 {
        Cache::age(self, item)
    }

    fn prefetch(&self, guard: &Guard<'_>, item: ItemRef<'_>) {
        self.index.prefetch(guard, self.hash(item.key()));
    }

    fn is_gone(&self, item: ItemRef<'_>) -> bool {
        Cache::is_gone(self, item)
    }

    /// A store evicts items that the background did not come to, with or without a lower tier.
    fn evicted(&self, item: ItemRef<'_>, class: ClassId) {
        if let Some(compressed) = &self.compressed {
            compressed.counters.throttled.fetch_add(1, Ordering::Relaxed);
        }
        self.count_purging();
        self.remember(self.hash(item.key()), Left::Otherwise);
        self.tell_evicted(item, class);
    }

    fn background_demotes(&self) -> bool {
        self.compressed.is_some() || self.flash.is_some()
    }

    fn store_demotes(&self) -> bool {
        self.flash.as_deref().is_some_and(FlashTier::takes_all_at_once)
    }

    fn store_demotes_wanted(&self) -> bool {
        self.flash.as_deref().is_some_and(FlashTier::takes_at_once)
    }

    fn demote_for_store(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        Cache::demote_for_store(self, guard, item, place)
    }

    fn is_linked(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        self.is_still(guard, self.hash(item.key()), place)
    }

    fn may_move(&self) -> bool {
        !self.is_walked.load(Ordering::Relaxed)
    }

    fn relocate(
        &self,
        guard: &Guard<'_>,
        item: ItemRef<'_>,
        place: Place,
        copy: Draft<'_>,
    ) -> bool {
        Cache::relocate(self, guard, self.hash(item.key()), place, copy)
    }

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> Unlinked {
        let hash = self.hash(item.key());
        let unlinked = self.unlink_at(guard, hash, place);
        if unlinked == Unlinked::Rests {
            self.remember(hash, Left::Otherwise);
        }
        unlinked
    }
}

impl Cache {
    /// Tells the observer of an item that leaves the cache to make room.
    pub(crate) fn tell_evicted(&self, item: ItemRef<'_>, class: ClassId) {
        let Some(observer) = self.observer.as_deref().filter(|observer| observer.is_watching())
        else {
            return;
        };
        let mark = item.mark().load(Ordering::Relaxed);
        observer.evicted(&Evicted {
            key: item.key(),
            value_bytes: item.value_bytes(),
            expiry: expiry_of(item),
            fetched: mark & FETCHED != 0,
            idle_seconds: idle_seconds(mark, self.now()),
            class: u32::from(class.0) + 1,
        });
    }
}
