//! A session: one batch of requests under one pinned epoch.

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

/// What the requests of one batch go through. Items it returns stay readable while it lives; their
/// memory cannot be reused meanwhile, so keep it short, and never while blocked.
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
    /// Unix seconds, as this cache's clock has them.
    pub fn now(&self) -> u32 {
        self.cache.now()
    }

    /// Milliseconds of Unix time, read from the clock: what an expiry between two seconds is
    /// compared with. [`Session::now`] is no later, also where that stands still for a clock that
    /// was put back over a restart.
    pub fn now_ms(&self) -> u64 {
        self.cache.clock.unix_ms().max(u64::from(self.now()) * 1000)
    }

    /// Counts bytes of a value that a change writes anew.
    pub(crate) fn count_copied(&self, bytes: usize) {
        self.copied_bytes.set(self.copied_bytes.get() + bytes);
    }

    /// Bytes of values that changes have written anew since this was last asked: work that neither
    /// a request nor its answer tells.
    #[inline]
    pub fn take_copied_bytes(&self) -> usize {
        self.copied_bytes.take()
    }

    /// How many flushes of everything there were so far, and have begun; modulo 2^32.
    pub fn flushes(&self) -> u32 {
        self.cache.moment.flush.wholes() as u32
    }

    /// Asks for the index lines that a request for this hash will need. Does not wait for them.
    #[inline]
    pub fn prefetch(&self, hash: Hash) {
        self.cache.index.prefetch(&self.guard, hash);
    }

    /// Asks for the item that the hash most likely leads to, with its value if that is to be read,
    /// and otherwise for what is noted of the key's miss. Does not wait for it, but for the index
    /// lines, which should have come by now.
    #[inline]
    pub fn prefetch_item(&self, hash: Hash, reads: bool) {
        if let Some(measure) = &self.cache.measure
            && !reads
        {
            measure.prefetch(hash);
        }
        self.cache.prefetch_candidate(&self.guard, hash, reads);
    }

    /// The key's item, if it is there. Leaves the mark of a hit. What is on flash and has not been
    /// delivered counts as missing: [`Session::look_up`] tells it apart.
    #[inline]
    pub fn get(&self, key: &[u8], hash: Hash) -> Option<Item<'_>> {
        match self.look_up(key, hash) {
            Lookup::Hit(item) => Some(item),
            Lookup::Miss | Lookup::Pending => None,
        }
    }

    /// The key's item, wherever it is. Leaves the mark of a hit.
    // Always: text's get is the fastest path there is, and this or what it looks with would become
    // a call when other protocols look items up, too.
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

    /// The key's item in the tiers below the hot zone, where the last one was cost `gone_us`.
    #[inline(never)]
    fn look_lower(&self, key: &[u8], hash: Hash, gone_us: u32) -> Lookup<'_> {
        if let Some(item) = self.get_compressed(key, hash, 0) {
            return Lookup::Hit(item);
        }
        let lookup = self.get_on_flash(key, hash, 0);
        if matches!(lookup, Lookup::Miss) {
            // It may have come up since the index was looked at.
            if self.cache.flash.is_some()
                && let Some(found) = self.find_present(key, hash)
            {
                return Lookup::Hit(Item::hot(self.cache, found, self.mark_hit(found)));
            }
            self.cache.note_miss(hash, gone_us);
        }
        lookup
    }

    /// As [`Self::get`], but an item whose CAS unique a client may compare later: it is in the hot
    /// zone, where it has one.
    pub fn get_with_cas(&self, key: &[u8], hash: Hash) -> Result<Option<Item<'_>>, Refusal> {
        let found = self.find_wanted(key, hash, OnReadFailure::Stays)?;
        Ok(found.map(|found| Item::hot(self.cache, found, self.mark_hit(found))))
    }

    /// The key's item, if it is in memory. Leaves no trace. For diagnosis.
    pub fn peek(&self, key: &[u8], hash: Hash) -> Option<Item<'_>> {
        let Some(found) = self.find_present(key, hash) else {
            return self.peek_compressed(key, hash);
        };
        Some(Item::hot(self.cache, found, found.item.mark().load(Ordering::Relaxed)))
    }

    /// The key's item, wherever it is. Leaves no trace, but what has to be read for it is.
    pub fn peek_anywhere(&self, key: &[u8], hash: Hash) -> Lookup<'_> {
        self.peek_for(key, hash, ReadIntent::Asker)
    }

    /// The key's item, wherever it is, but for what would have to be read from flash, which is
    /// pending and is not asked for. Leaves no trace: for whoever watches what others do.
    pub fn peek_here(&self, key: &[u8], hash: Hash) -> Lookup<'_> {
        self.peek_for(key, hash, ReadIntent::Watcher)
    }

    fn peek_for(&self, key: &[u8], hash: Hash, looker: ReadIntent) -> Lookup<'_> {
        if let Some(item) = self.peek(key, hash) {
            return Lookup::Hit(item);
        }
        match self.peek_on_flash(key, hash, looker) {
            // It may have come up since memory was looked at.
            Lookup::Miss => self.peek(key, hash).map_or(Lookup::Miss, Lookup::Hit),
            found => found,
        }
    }

    /// The key's item in the hot zone, where it is brought if it is below; for a reader who wants
    /// it: a hit counts where it was, and a miss is noted.
    pub(crate) fn find_wanted(
        &self,
        key: &[u8],
        hash: Hash,
        unread: OnReadFailure,
    ) -> Result<Option<Found<'_>>, Refusal> {
        let mut promoted = None;
        loop {
            let gone_us = match self.look(key, hash) {
                Ok(found) => {
                    self.count_served(promoted);
                    return Ok(Some(found));
                }
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

    /// The key's item in the hot zone, or else the cost of the one that was there until now, if
    /// there was one.
    // Always, as [`Self::look_up`].
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

    /// The key's item in the hot zone unless it is gone; if it is, its memory is freed on the way.
    #[inline]
    pub(crate) fn find_present(&self, key: &[u8], hash: Hash) -> Option<Found<'_>> {
        self.look(key, hash).ok()
    }

    /// Counts and frees what a request found gone.
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
