//! A session: one batch of requests under one pinned epoch. This file opens it and looks items up.
//!
//! The methods of [`Session`] stand beside their subject:
//!
//! ```text
//!   session           look_up, get, get_with_cas, peek, peek_anywhere, peek_here, prefetch,
//!                     prefetch_item, now, now_ms, flushes, take_copied_bytes
//!   store             reserve, begin, store, store_costed
//!   amend             concat, concat_sized, arithmetic, touch, remove
//!   meta_get          fetch, get_and_touch
//!   observe           observe, draft_over, replace, touch_observed, remove_observed
//!   pending_reads     take_wanted, deliver, want; inside, reads of the flash tier
//!   compressed_tier   is_long, lower_bytes; inside, reads of the compressed zone, and promotion
//!   dump              dump, cursor_anywhere
//! ```

use std::cell::Cell;
use std::sync::atomic::Ordering;

use hot::mark::hit_mark;
use index::Hash;
use memory::Guard;

use crate::cache::Cache;
use crate::compressed_tier::{Promoted, TierReads};
use crate::item::Item;
use crate::pending_reads::{FlashView, OnReadFailure, ReadIntent};
use crate::places::Found;
use crate::repartition::Countdown;
use crate::types::{Lookup, Refusal};

/// The handle through which the requests of one batch go. Items that it returns stay readable while
/// it lives; their memory cannot be reused meanwhile, so keep it short, and never open while
/// blocked.
#[derive(Debug)]
pub struct Session<'c> {
    pub(crate) cache: &'c Cache,
    pub(crate) guard: Guard<'c>,
    pub(crate) lower: TierReads<'c>,
    pub(crate) flash: FlashView,
    pub(crate) countdown: Countdown,
    copied_bytes: Cell<usize>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.end_flash();
    }
}

impl Cache {
    /// Opens a session.
    pub fn session(&self) -> Session<'_> {
        self.tick();
        self.flush_if_due();
        Session {
            cache: self,
            guard: self.epochs.pin(),
            lower: TierReads::new(self),
            flash: FlashView::default(),
            countdown: Countdown::new(self),
            copied_bytes: Cell::new(0),
        }
    }
}

impl Session<'_> {
    /// Returns Unix seconds, as this cache's clock has them.
    pub fn now(&self) -> u32 {
        self.cache.now()
    }

    /// Returns milliseconds of Unix time, read from the clock, to compare an expiry between two
    /// seconds with. [`Session::now`] is never later, even where the clock was put back over a
    /// restart and that value stands still.
    pub fn now_ms(&self) -> u64 {
        self.cache.clock.unix_ms().max(u64::from(self.now()) * 1000)
    }

    /// Counts bytes of a value that a change copies.
    pub(crate) fn count_copied(&self, bytes: usize) {
        self.copied_bytes.set(self.copied_bytes.get() + bytes);
    }

    /// Returns the bytes of values that changes have copied since the last call: work that neither
    /// a request nor its answer shows.
    #[inline]
    pub fn take_copied_bytes(&self) -> usize {
        self.copied_bytes.take()
    }

    /// Returns how many flushes of everything have begun so far, modulo 2^32.
    pub fn flushes(&self) -> u32 {
        self.cache.moment.flush.wholes() as u32
    }

    /// Prefetches the index lines that a request for this hash will need. Does not wait for them.
    #[inline]
    pub fn prefetch(&self, hash: Hash) {
        self.cache.index.prefetch(&self.guard, hash);
    }

    /// Prefetches the item that the hash most likely leads to, with its value if that is to be
    /// read, and otherwise the note of the key's last miss. Waits for the index lines, which should
    /// have come by now, but for nothing else.
    #[inline]
    pub fn prefetch_item(&self, hash: Hash, reads: bool) {
        if let Some(measure) = &self.cache.measure
            && !reads
        {
            measure.prefetch(hash);
        }
        self.cache.prefetch_candidate(&self.guard, hash, reads);
    }

    /// Returns the key's item, if it is there, and leaves the mark of a hit. An item on flash that
    /// has not been delivered counts as missing: [`Session::look_up`] tells the two apart.
    #[inline]
    pub fn get(&self, key: &[u8], hash: Hash) -> Option<Item<'_>> {
        match self.look_up(key, hash) {
            Lookup::Hit(item) => Some(item),
            Lookup::Miss | Lookup::Pending => None,
        }
    }

    /// Returns the key's item, in whichever tier, and leaves the mark of a hit.
    // Always inlined: text's get is the fastest path there is, and since other protocols look items
    // up, too, this or [`Self::look`] would otherwise become a call.
    #[inline(always)]
    pub fn look_up(&self, key: &[u8], hash: Hash) -> Lookup<'_> {
        let gone_us = match self.look(key, hash) {
            Ok(found) => {
                self.lower.count_hot();
                return Lookup::Hit(Item::hot(self.cache, found, self.mark_hit(found)));
            }
            Err(gone_us) => gone_us,
        };
        self.look_lower(key, hash, gone_us)
    }

    /// Returns the key's item in the tiers below the hot zone; the hot zone's last one cost
    /// `gone_us`.
    #[inline(never)]
    fn look_lower(&self, key: &[u8], hash: Hash, gone_us: u32) -> Lookup<'_> {
        if let Some(item) = self.get_compressed(key, hash, 0) {
            return Lookup::Hit(item);
        }
        let lookup = self.get_on_flash(key, hash, 0);
        if matches!(lookup, Lookup::Miss) {
            // It may have been promoted since the index was looked at.
            if self.cache.flash.is_some()
                && let Some(found) = self.find_present(key, hash)
            {
                return Lookup::Hit(Item::hot(self.cache, found, self.mark_hit(found)));
            }
            self.cache.note_miss(hash, gone_us);
        }
        lookup
    }

    /// As [`Self::get`], for an item whose CAS unique a client may compare later: it is promoted,
    /// since only items in the hot zone have one.
    ///
    /// # Errors
    ///
    /// [`Refusal::Pending`] if the item has to be read from flash first, and [`Refusal::NoMemory`]
    /// or [`Refusal::SessionTooLong`] if there is no memory to promote it.
    pub fn get_with_cas(&self, key: &[u8], hash: Hash) -> Result<Option<Item<'_>>, Refusal> {
        let found = self.find_wanted(key, hash, OnReadFailure::Stays)?;
        Ok(found.map(|(found, promoted)| {
            self.count_served(promoted);
            Item::hot(self.cache, found, self.mark_hit(found))
        }))
    }

    /// Returns the key's item, if it is in memory. Leaves no trace. For diagnosis.
    pub fn peek(&self, key: &[u8], hash: Hash) -> Option<Item<'_>> {
        let Some(found) = self.find_present(key, hash) else {
            return self.peek_compressed(key, hash);
        };
        Some(Item::hot(self.cache, found, found.item.mark().load(Ordering::Relaxed)))
    }

    /// Returns the key's item, in whichever tier. Leaves no trace, except that a row on flash is
    /// read.
    pub fn peek_anywhere(&self, key: &[u8], hash: Hash) -> Lookup<'_> {
        self.peek_for(key, hash, ReadIntent::Asker)
    }

    /// Returns the key's item, in whichever tier; one that would have to be read from flash is
    /// pending, and is not asked for. Leaves no trace: for a client that watches what others do.
    pub fn peek_here(&self, key: &[u8], hash: Hash) -> Lookup<'_> {
        self.peek_for(key, hash, ReadIntent::Watcher)
    }

    fn peek_for(&self, key: &[u8], hash: Hash, looker: ReadIntent) -> Lookup<'_> {
        if let Some(item) = self.peek(key, hash) {
            return Lookup::Hit(item);
        }
        match self.peek_on_flash(key, hash, looker) {
            // It may have been promoted since memory was looked at.
            Lookup::Miss => self.peek(key, hash).map_or(Lookup::Miss, Lookup::Hit),
            found => found,
        }
    }

    /// Returns the key's item in the hot zone, promoted if it was in a lower tier, to a reader that
    /// wants it: a hit counts in the tier where it was, and a miss is noted.
    pub(crate) fn find_wanted(
        &self,
        key: &[u8],
        hash: Hash,
        unread: OnReadFailure,
    ) -> Result<Option<(Found<'_>, Option<Promoted>)>, Refusal> {
        let mut promoted = None;
        loop {
            let gone_us = match self.look(key, hash) {
                Ok(found) => return Ok(Some((found, promoted))),
                Err(gone_us) => gone_us,
            };
            let from = self.promote(key, hash, unread)?;
            if matches!(from, Promoted::Flash | Promoted::Nowhere) {
                self.note_miss_compressed(hash);
            }
            if from == Promoted::Nowhere {
                self.cache.note_miss(hash, gone_us);
                return Ok(None);
            }
            promoted = Some(from);
        }
    }

    /// Returns the key's item in the hot zone, or else the cost of the one that was there until
    /// now; 0 if there was none.
    // Always inlined, as [`Self::look_up`].
    #[inline(always)]
    pub(crate) fn look(&self, key: &[u8], hash: Hash) -> Result<Found<'_>, u32> {
        let found = self.cache.find(&self.guard, key, hash).ok_or(0_u32)?;
        if self.cache.is_gone(found.item) {
            let cost_us = found.item.cost().us();
            self.remove_gone(hash, &found);
            return Err(cost_us);
        }
        Ok(found)
    }

    /// Returns the key's item in the hot zone unless it is gone; then its memory is freed on the
    /// way.
    #[inline]
    pub(crate) fn find_present(&self, key: &[u8], hash: Hash) -> Option<Found<'_>> {
        self.look(key, hash).ok()
    }

    /// Counts and frees an item that a request found gone.
    #[cold]
    fn remove_gone(&self, hash: Hash, found: &Found<'_>) {
        self.cache.count_gone(found.item);
        self.cache.remove_found(&self.guard, hash, found);
    }

    /// Leaves the mark of a hit, if it is not there already; returns the mark before.
    #[inline]
    pub(crate) fn mark_hit(&self, found: Found<'_>) -> u8 {
        if self.countdown.is_over() {
            self.countdown.sample(self.cache, &self.guard, &found);
        }
        let before = found.item.mark().load(Ordering::Relaxed);
        let after = hit_mark(before, self.cache.now());
        if after != before {
            // Lost to another reader or the hand: either leaves a mark as good as this one, except
            // that a win token must not be overwritten, which is why this is no plain store.
            let _ = found.item.mark().compare_exchange(
                before,
                after,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        before
    }
}
