//! What the hot zone has to be told about its items: see [`hot::Links`].

use hot::{ItemRef, Links};
use memory::{Guard, Place};

use crate::cache::Cache;
use crate::places::location_of;

impl Links for Cache {
    fn now(&self) -> u32 {
        Cache::now(self)
    }

    fn may_evict(&self) -> bool {
        self.may_evict
    }

    fn prefetch(&self, guard: &Guard<'_>, item: ItemRef<'_>) {
        self.index.prefetch(guard, self.hash(item.key()));
    }

    fn is_gone(&self, item: ItemRef<'_>) -> bool {
        Cache::is_gone(self, item)
    }

    fn unlink(&self, guard: &Guard<'_>, item: ItemRef<'_>, place: Place) -> bool {
        self.index.remove_exact(guard, self.hash(item.key()), location_of(place))
    }
}
