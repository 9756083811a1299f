//! Spare rows: the rows on flash of items that were promoted to memory.
//!
//! A row on flash takes its room until its segment is collected, whether anything leads to it or
//! not. So it is not forgotten when its item is promoted, as long as that one does not change:
//!
//! ```text
//!                        index                 memory               flash
//!   read twice        flash -> row                                   row
//!   promoted      hot -> item, spare -> row    hot item              row
//!   demoted               spare -> row         compressed copy       row
//!   leaves memory      flash -> row                                  row, not written again
//! ```
//!
//! - A word of the index leads to a spare row as to any other row, beside the word of a hot item or
//!   alone, while the item is in the compressed zone. Readers look there last, as always: the row
//!   has the same value.
//! - A change of a key takes both words in one step, and notes on the device that the row is dead
//!   before the client is answered, as for an item that is on flash only. A change in place, of an
//!   expiry, is one, too ([`Fate::Alter`](crate::places::Fate)). So a row that the index leads to,
//!   or that a restart finds, never is older than what was acknowledged.
//! - An item that leaves memory while its row is spare *rests* there: its word says so, and nothing
//!   is written. It was read since it was stored, so collection does not drop it at once.
//! - Collection drops a spare row: it would be written only to be forgotten at the next change, and
//!   its item in memory can be written when it leaves.
//! - Marks of win tokens are no part of a change. An item that has one is demoted as one without a
//!   row is, and if it is evicted, from whichever zone, its row goes with it: a reader that found
//!   the row would be told to recompute the value once more.
//!
//! It costs the word, nine bytes for each spare row. After a crash of the process, an item in
//! memory that has such a row is found again.

use std::sync::atomic::Ordering;

use hot::ItemRef;
use hot::mark::TOKENS;
use index::Hash;
use memory::{Guard, Place};

use crate::cache::Cache;

/// Whether an item has marks that its row has not, and would need. Under the lock of its index
/// table, under which they are set.
pub(crate) fn has_tokens(item: ItemRef<'_>) -> bool {
    item.mark().load(Ordering::Relaxed) & TOKENS != 0
}

impl Cache {
    /// Lets an item of the hot zone rest on flash, if its row there is spare and `is_same` says so
    /// of it under the key's lock. Returns whether it does.
    pub(crate) fn rest_hot(
        &self,
        guard: &Guard<'_>,
        (hash, hot): (Hash, Place),
        is_same: impl FnOnce(ItemRef<'_>) -> bool,
    ) -> bool {
        let agrees = |item: ItemRef<'_>| !has_tokens(item) && is_same(item);
        let rests = self.flash.is_some() && self.exchange_for_spare(guard, hash, hot, agrees);
        self.count_rested(rests)
    }

    /// [`Self::rest_hot`] for an item of the compressed zone, which the caller then buries.
    pub(crate) fn rest_row(
        &self,
        guard: &Guard<'_>,
        record: &compressed::Record<'_>,
        hash: Hash,
        is_alive: impl FnOnce() -> bool,
    ) -> bool {
        let rests = record.fields.mark & TOKENS == 0 && self.rest(guard, hash, is_alive);
        self.count_rested(rests)
    }

    /// Counts an item that rests; returns whether it does.
    pub(crate) fn count_rested(&self, rests: bool) -> bool {
        if let Some(tier) = self.flash.as_deref().filter(|_| rests) {
            tier.counters.rested.fetch_add(1, Ordering::Relaxed);
        }
        rests
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::io::ManualClock;
    use ::io::device::{FakeDevice, Faults, PAGE_BYTES};

    use stdx::random::Xorshift;

    use crate::cache::Cache;
    use crate::{Attributes, Builder, Condition, Expiry, Fetch, FlashSettings, Refusal};

    const NOW: u32 = 1_800_000_000;

    /// Returns a small cache with these items, which are in memory and on flash, and expire in a
    /// minute.
    fn with_spare_rows(builder: Builder, keys: &[&[u8]]) -> Cache {
        let device = FakeDevice::new((64 << 20) / PAGE_BYTES as u64, 1, Faults::default());
        let flash = FlashSettings { threads: 1, ..FlashSettings::new(Arc::new(device), [7; 16]) };
        let cache = builder.memory_bytes(8 << 20).flash(flash).build().expect("a small cache");
        let attributes = Attributes { expiry: Expiry::at(NOW + 60), ..Attributes::default() };
        for key in keys {
            cache.put(key, &[7; 500], attributes, Condition::Always).expect("there is room");
        }
        assert_eq!(cache.save_to_flash(|| true).left, 0);
        for key in keys {
            let up = cache
                .with_memory(|session| Ok(session.get_with_cas(key, cache.hash(key))?.is_some()));
            assert_eq!(up, Ok(true));
        }
        assert_eq!(cache.stats().flash.expect("it has a tier").spare, keys.len() as u64);
        cache
    }

    /// Whether a client that asks early is told to recompute the value.
    fn wins(cache: &Cache) -> Result<bool, Refusal> {
        let fetch = Fetch { recache_before: Some(Expiry::at(NOW + 3600)), ..Fetch::default() };
        let hash = cache.hash(b"won");
        cache.with_memory(|session| Ok(session.fetch(b"won", hash, &fetch)?.1.won))
    }

    /// As the test after this one, for an item that the compressed zone evicts: flash takes none
    /// that expires so soon.
    #[test]
    fn a_win_token_is_not_given_twice_after_an_eviction_by_the_zone() {
        let clock = Arc::new(ManualClock::new(NOW));
        let cache =
            with_spare_rows(Cache::builder().compress(true).clock(clock.clone()), &[b"won"]);
        assert_eq!((wins(&cache), wins(&cache)), (Ok(true), Ok(false)));
        clock.advance(10);
        let (mut random, hash) = (Xorshift::default(), cache.hash(b"won"));
        let is_in_memory = || cache.session().peek(b"won", hash).is_some();
        for number in 0_u32.. {
            assert!(number < 1_000_000, "it stays; {:?}", cache.stats());
            let value: Vec<u8> = (0..500).map(|_| random.draw() as u8).collect();
            let key = number.to_le_bytes();
            let put = cache.put(&key, &value, Attributes::default(), Condition::Always);
            put.expect("there is room");
            if number.is_multiple_of(100) {
                while cache.maintain() {}
                if !is_in_memory() {
                    break;
                }
            }
        }
        let stats = cache.stats();
        assert!(stats.compressed.expect("it has a zone").left > 0, "it left by another way");
        assert_eq!(stats.flash.expect("it has a tier").spare, 0);
        assert_eq!(wins(&cache), Ok(false));
    }

    /// Regression: an item that a store evicted rested on its row, which knows nothing of the
    /// token, and a second client was told to recompute the value while the first one did.
    #[test]
    fn a_win_token_is_not_given_twice_after_an_eviction_by_a_store() {
        let clock = Arc::new(ManualClock::new(NOW));
        let keys = [&b"won"[..], b"read"];
        let cache = with_spare_rows(Cache::builder().clock(clock), &keys);
        let flash = || cache.stats().flash.expect("it has a tier");
        assert_eq!((wins(&cache), wins(&cache)), (Ok(true), Ok(false)));
        for key in keys {
            let (guard, hash) = (cache.epochs.pin(), cache.hash(key));
            let found = cache.find(&guard, key, hash).expect("it has come up");
            cache.remove_found(&guard, hash, &found);
        }
        assert_eq!((flash().spare, flash().rested, flash().items), (0, 1, 1));
        assert_eq!(wins(&cache), Ok(false), "a miss, as of what has no row");
        assert!(cache.get(b"read").is_some() && cache.get(b"won").is_none());
    }
}
