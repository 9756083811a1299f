//! Changes to single words: each under the lock of one table.

use crate::find::{Found, Match};
use crate::index::{Index, View};
use crate::location::{Hash, Location};
use crate::path::make_room;
use crate::table::Locked;
use crate::word::{Side, Word};
use memory::Guard;

/// What is to happen to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Keep,
    /// The key is found at this location from now on.
    Set(Location),
    /// The key is absent from now on.
    Remove,
}

/// There is neither room for another key in its table nor memory to make the table grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the index has no room for another key")
    }
}

impl std::error::Error for Full {}

impl Index {
    /// Finds the key with `eq`, lets `decide` choose, and applies the choice, all under the lock
    /// of the key's table. `decide` runs exactly once, unless the key is absent and there is no
    /// room for it: then it does not run at all. Neither closure may call the index; `eq` may be
    /// called more than once for a location.
    ///
    /// `eq` says it with a `bool` or a [`Match`]: only where no location's item has the key for
    /// sure, `decide` gets one that perhaps has it.
    #[inline]
    pub fn update<M: Into<Match>, R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> M,
        decide: impl FnOnce(Option<Location>) -> (Change, R),
    ) -> Result<R, Full> {
        loop {
            let view = self.view(guard, hash);
            let Some(locked) = view.table.lock() else {
                continue;
            };
            if let Some(found) = view.scan_best(&mut eq) {
                let (change, result) = decide(Some(found.location));
                view.apply(&locked, found, change);
                return Ok(result);
            }
            let Some((locked, side, bucket, slot)) = self.room(&view, locked, hash)? else {
                continue;
            };
            let (change, result) = decide(None);
            if let Change::Set(location) = change {
                locked.insert(bucket, slot, Word::new(side, view.tag, location));
            }
            return Ok(result);
        }
    }

    /// As [`Index::update`], but for a change that only concerns a key that is present: `decide`
    /// does not run for an absent one, no room is made for it, and the index is never too full.
    #[inline]
    pub fn update_present<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> bool,
        decide: impl FnOnce(Location) -> (Change, R),
    ) -> Option<R> {
        let (view, locked) = self.locked_view(guard, hash);
        let found = view.scan(&mut eq)?;
        let (change, result) = decide(found.location);
        view.apply(&locked, found, change);
        Some(result)
    }

    /// As [`Index::update_present`], but `decide` runs for an absent key too, under the same lock;
    /// an absent key stays absent.
    pub fn update_or_note<M: Into<Match>, R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> M,
        decide: impl FnOnce(Option<Location>) -> (Change, R),
    ) -> R {
        let (view, locked) = self.locked_view(guard, hash);
        let Some(found) = view.scan_best(&mut eq) else {
            let (change, result) = decide(None);
            assert!(!matches!(change, Change::Set(_)), "an absent key stays absent");
            return result;
        };
        let (change, result) = decide(Some(found.location));
        view.apply(&locked, found, change);
        result
    }

    /// Removes the word with exactly this location, without comparing keys. Returns whether it
    /// was there.
    #[inline]
    pub fn remove_exact(&self, guard: &Guard<'_>, hash: Hash, location: Location) -> bool {
        let remove = |_| (Change::Remove, ());
        self.update_present(guard, hash, |found| found == location, remove).is_some()
    }

    /// Puts `target` where exactly `source` is, without comparing keys. Returns whether `source`
    /// was there.
    #[inline]
    pub fn replace_exact(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        source: Location,
        target: Location,
    ) -> bool {
        let replace = |_| (Change::Set(target), ());
        self.update_present(guard, hash, |found| found == source, replace).is_some()
    }

    /// The table of `hash`, locked.
    #[inline]
    pub(crate) fn locked_view<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
    ) -> (View<'g>, Locked<'g>) {
        loop {
            let view = self.view(guard, hash);
            if let Some(locked) = view.table.lock() {
                return (view, locked);
            }
        }
    }

    /// A free slot for an absent key, made by growth or by moving words if need be. `None` when
    /// the table has been replaced meanwhile.
    #[inline]
    fn room<'g>(
        &self,
        view: &View<'g>,
        locked: Locked<'g>,
        hash: Hash,
    ) -> Result<Option<(Locked<'g>, Side, usize, usize)>, Full> {
        let locked = if locked.wants_growth() {
            match self.grow(view, locked, hash) {
                Ok(_grown) => return Ok(None),
                Err(locked) => {
                    locked.postpone_growth();
                    locked
                }
            }
        } else {
            locked
        };
        if let Some((side, bucket, slot)) = view.place(&locked, self.paths) {
            return Ok(Some((locked, side, bucket, slot)));
        }
        // A table that is far from full has no path only if many keys share all hash bits, and more
        // memory would not part them; or if they lie close together, because they came in the order
        // of their hashes: then splitting does.
        if locked.table.count() < locked.table.slots() / 4 {
            return Err(Full);
        }
        match self.grow(view, locked, hash) {
            Ok(_grown) => Ok(None),
            Err(_locked) => Err(Full),
        }
    }
}

impl View<'_> {
    /// Does to the word that was found what `change` says.
    #[inline]
    fn apply(&self, locked: &Locked<'_>, found: Found, change: Change) {
        match change {
            Change::Keep => {}
            Change::Set(location) => {
                let word = Word::new(found.side, self.tag, location);
                locked.table.bucket(found.bucket).store(found.slot, word);
            }
            Change::Remove => locked.remove(found.bucket, found.slot),
        }
    }

    /// A free slot in one of the two buckets, the primary one first so that most lookups end
    /// there, or one that moving words has freed.
    #[inline]
    pub(crate) fn place(&self, locked: &Locked<'_>, paths: usize) -> Option<(Side, usize, usize)> {
        for side in Side::BOTH {
            let bucket = self.buckets[side as usize];
            if let Some(slot) = locked.table.bucket(bucket).free_slot() {
                return Some((side, bucket, slot));
            }
        }
        let (bucket, slot) = make_room(locked, self.shape, self.buckets, self.tag, paths)?;
        let side = Side::BOTH[usize::from(bucket != self.buckets[0])];
        Some((side, bucket, slot))
    }
}
