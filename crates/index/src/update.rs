//! Changes to the words of a key: each under the lock of one table.
//!
//! A key has one word. The caller may give it a second one, its *companion*, which is to be found
//! only where the first is missing; the caller's predicates on locations tell the two apart. A
//! change of a key with a companion changes both in one step, as every other update sees it. A
//! lookup may see the companion after the change and the key's word before it.

use crate::engine::{Engine, View};
use crate::find::Found;
use crate::layout::Layout;
use crate::location::{Hash, Location};
use crate::table::Locked;
use crate::word::Word;
use memory::Guard;

/// The change of a key's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The word stays.
    Keep,
    /// The key is found at this location from now on.
    Set(Location),
    /// The key is absent from now on.
    Remove,
}

/// The words of a key, as an update found them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The location in its own word.
    pub own: Option<Location>,
    /// The location in its companion.
    pub companion: Option<Location>,
}

/// The words for which an update of a key without a word makes room beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// For nothing: the key stays without a word of its own.
    Never,
    /// For a word, if the key has no companion, whose slot the word may take.
    Absent,
    /// For a word, beside the companion if there is one.
    Beside,
}

/// Why there is no room for another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// There is none in its table, nor memory to make the table grow.
    NoMemory,
    /// There is none where the key may lie, and more memory would make none: too many keys share
    /// all of its hash bits that are used, or nearly all.
    Unplaceable,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoMemory => "the index has no memory for another key",
            Self::Unplaceable => "the index has no room for another key with such a hash",
        })
    }
}

impl std::error::Error for Full {}

impl<L: Layout> Engine<L> {
    /// See [`Index::update`](crate::Index::update).
    #[inline]
    pub(crate) fn update<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        eq: impl FnMut(Location) -> bool,
        decide: impl FnOnce(Option<Location>) -> (Change, R),
    ) -> Result<R, Full> {
        let alone = None::<fn(Location) -> bool>;
        self.update_pair(guard, hash, eq, alone, Room::Absent, |pair| {
            let (change, result) = decide(pair.own);
            (change, Change::Keep, result)
        })
    }

    /// See [`Index::update_pair`](crate::Index::update_pair).
    #[inline]
    pub(crate) fn update_pair<R>(
        &self,
        guard: &Guard<'_>,
        hash: Hash,
        mut eq: impl FnMut(Location) -> bool,
        mut is_companion: Option<impl FnMut(Location) -> bool>,
        room: Room,
        decide: impl FnOnce(Pair) -> (Change, Change, R),
    ) -> Result<R, Full> {
        loop {
            let view = self.view(guard, hash);
            let Some(locked) = view.table.lock() else {
                continue;
            };
            let own = L::scan(&view, &mut eq);
            let companion = is_companion.as_mut().and_then(|is_it| L::scan(&view, is_it));
            let pair = Pair {
                own: own.map(|found| found.location),
                companion: companion.map(|found| found.location),
            };
            let has_slot = match room {
                Room::Never => true,
                Room::Absent => own.or(companion).is_some(),
                Room::Beside => own.is_some(),
            };
            if has_slot {
                let (change, companion_change, result) = decide(pair);
                view.apply_pair(&locked, (own, companion), (change, companion_change));
                return Ok(result);
            }
            let Some((locked, spot)) = self.room(&view, locked, hash)? else {
                continue;
            };
            let (change, companion_change, result) = decide(pair);
            // The companion has not moved to make room: a path begins in the key's own buckets, and
            // comes to neither of them again.
            if let Some(companion) = companion {
                view.apply(&locked, companion, companion_change);
            }
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
                Err((locked, _)) => {
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
        if L::is_hopeless(view, &locked) {
            return Err(Full::Unplaceable);
        }
        match self.grow(view, locked, hash) {
            Ok(_grown) => Ok(None),
            Err((_locked, full)) => Err(full),
        }
    }
}

impl<L: Layout> View<'_, L> {
    /// Applies the changes to both words of a key, to the companion first. A key without a word of
    /// its own gets one only in the slot of its companion.
    #[inline]
    fn apply_pair(
        &self,
        locked: &Locked<'_>,
        (own, companion): (Option<Found>, Option<Found>),
        (change, companion_change): (Change, Change),
    ) {
        match (own, companion) {
            (Some(own), None) => self.apply(locked, own, change),
            (Some(own), Some(companion)) => {
                self.apply(locked, companion, companion_change);
                self.apply(locked, own, change);
            }
            (None, Some(companion)) if matches!(change, Change::Set(_)) => {
                assert_eq!(companion_change, Change::Remove, "there is room for one of them");
                self.apply(locked, companion, change);
            }
            (None, Some(companion)) => self.apply(locked, companion, companion_change),
            (None, None) => {
                assert!(!matches!(change, Change::Set(_)), "no room was asked for");
            }
        }
    }

    /// Applies `change` to the word that was found.
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
