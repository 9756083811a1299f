//! What the tier asks of the index.

use crate::Place;

/// The index, as the tier sees it. Most methods are called while the writer's lock is held, so they
/// may take the locks of the index, and call nothing of the tier but [`crate::Flash::forget`] and
/// [`crate::Flash::has_changed`].
///
/// Two places are the same if they differ in their accesses at most ([`Place::is_same`]). The index
/// leads to at most one item of a key, here or in another tier, apart from spare rows. A change of
/// a key, including its call of [`crate::Flash::forget`], is atomic for every other access to that
/// key.
pub trait IndexAccess {
    /// How often the item was read since it was stored, or stored again by collection; `None` if
    /// the index no longer leads to this place.
    fn accesses(&self, hash: u64, place: Place) -> Option<u8>;

    /// Whether the index leads to this place, and has the same item in memory as well: then nothing
    /// is lost with the row on flash.
    fn is_spare(&self, _hash: u64, _place: Place) -> bool {
        false
    }

    /// Leads to `to`, with its accesses, where the index led to `from`. `false` if it no longer
    /// leads there.
    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool;

    /// Removes the item from the index. `false` if it was not there any more.
    fn remove(&self, hash: u64, place: Place) -> bool;

    /// Removes an item from the index that is in memory as well. `false` if it is not, or no
    /// longer: then the row on flash may be all there is of it, and the index leads to it as
    /// before.
    fn remove_spare(&self, _hash: u64, _place: Place) -> bool {
        false
    }

    /// Removes every word that leads to a place for which `is_gone` holds, and returns their
    /// number. Looks at the whole index; called without a lock but that of the chores.
    fn remove_where(&self, is_gone: &dyn Fn(Place) -> bool) -> u64;

    /// Called between pieces of long work, without a lock that requests wait for: the
    /// implementation may yield the CPU.
    fn yield_now(&self) {}

    /// Leads to an item that was found at the start.
    fn insert(&self, hash: u64, place: Place) -> Inserted;

    /// Whether the index may lead to more items found at the start, by its limit on items. Asked
    /// before each segment; if not, those that were not found yet are void.
    fn takes_found(&self) -> bool {
        true
    }

    /// Makes room for an item that found none. Called without a lock but that of the chores.
    fn make_room(&self) {}
}

/// The outcome for an item that was found at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// The index leads to it.
    There,
    /// Its key was changed since the start, removals included ([`crate::Flash::has_changed`]), or
    /// is there already: the item is dead from now on.
    Outdated,
    /// There was no room.
    Full,
    /// No room could be made for it: the item is dead from now on.
    Unplaceable,
}
