//! Changes to single words: each under the lock of one table.

use crate::engine::{Engine, View};
use crate::find::{Found, Match};
use crate::layout::Layout;
use crate::location::{Hash, Location};
use crate::table::Locked;
use crate::word::Word;
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

impl<L: Layout> Engine<L> {
    /// See [`Index::update`](crate::Index::update).
    #[inline]
    pub(crate) fn update<M: Into<Match>, R>(
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
            let Some((locked, spot)) = self.room(&view, locked, hash)? else {
                continue;
            };
            let (change, result) = decide(None);
            if let Change::Set(location) = change {
                L::insert(&view, &locked, spot, location);
            }
            return Ok(result);
        }
    }

    /// See [`Index::update_present`](crate::Index::update_present).
    #[inline]
    pub(crate) fn update_present<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> bool,
        decide: impl FnOnce(Location) -> (Change, R),
    ) -> Option<R> {
        let (view, locked) = self.locked_view(guard, hash);
        let found = L::scan(&view, &mut eq)?;
        let (change, result) = decide(found.location);
        view.apply(&locked, found, change);
        Some(result)
    }

    /// See [`Index::update_or_note`](crate::Index::update_or_note).
    pub(crate) fn update_or_note<M: Into<Match>, R>(
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

    /// The table of `hash`, locked.
    #[inline]
    pub(crate) fn locked_view<'g>(
        &self,
        guard: &'g Guard<'_>,
        hash: Hash,
    ) -> (View<'g, L>, Locked<'g>) {
        loop {
            let view = self.view(guard, hash);
            if let Some(locked) = view.table.lock() {
                return (view, locked);
            }
        }
    }

    /// A free slot for an absent key, made by the layout or by growth if need be. `None` when the
    /// table has been replaced meanwhile.
    #[inline]
    fn room<'g>(
        &self,
        view: &View<'g, L>,
        locked: Locked<'g>,
        hash: Hash,
    ) -> Result<Option<(Locked<'g>, L::Spot)>, Full> {
        let locked = if locked.wants_growth(L::fullness(locked.table)) {
            match self.grow(view, locked, hash) {
                Ok(_grown) => return Ok(None),
                Err(locked) => {
                    locked.postpone_growth(L::fullness(locked.table) + L::GROW_RETRY);
                    locked
                }
            }
        } else {
            locked
        };
        if let Some(spot) = L::place(view, &locked) {
            return Ok(Some((locked, spot)));
        }
        if L::is_hopeless(locked.table.count(), L::slots(view.entry.units())) {
            return Err(Full);
        }
        match self.grow(view, locked, hash) {
            Ok(_grown) => Ok(None),
            Err(_locked) => Err(Full),
        }
    }
}

impl<L: Layout> View<'_, L> {
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
}
