//! What the tier asks of the index.

use crate::Place;

/// The index, as the tier sees it. Most of this is called while the writer's lock is held, so it
/// may take the locks of the index, and calls nothing of the tier but [`crate::Flash::forget`] and
/// [`crate::Flash::has_changed`].
///
/// Two places are the same if they are but for their accesses ([`Place::is_same`]). The index leads
/// to at most one item of a key, here or in another tier, but for rows that are spare. What it does
/// about a key, a call of [`crate::Flash::forget`] included, is one step for every other look at
/// that key.
pub trait IndexAccess {
    /// How often the item was read since it was stored, or stored again by collection; nothing if
    /// the index does not lead to this place any more.
    fn accesses(&self, hash: u64, place: Place) -> Option<u8>;

    /// Whether the index leads to this place, and has the same item in memory as well: then nothing
    /// is lost with what lies here.
    fn is_spare(&self, _hash: u64, _place: Place) -> bool {
        false
    }

    /// Leads to `to`, with its accesses, where the index led to `from`. `false` if it does not lead
    /// there any more.
    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool;

    /// Takes the item out of the index. `false` if it was not there any more.
    fn remove(&self, hash: u64, place: Place) -> bool;

    /// The same of an item that is in memory as well. `false` if it is not, or not any more: then
    /// what lies here may be all there is of it, and the index leads to it as before.
    fn remove_spare(&self, _hash: u64, _place: Place) -> bool {
        false
    }

    /// Takes whatever leads to a place that `is_gone` knows out of the index, and returns how many
    /// words that were. Looks at all of the index; called without a lock but that of the chores.
    fn remove_where(&self, is_gone: &dyn Fn(Place) -> bool) -> u64;

    /// Called between the pieces of work that takes long, without a lock that requests wait for:
    /// whoever does it may let others have the core.
    fn yield_now(&self) {}

    /// Leads to an item that was found at the start.
    fn insert(&self, hash: u64, place: Place) -> Inserted;

    /// Whether the index may lead to more of what was found at the start, by how many items it may
    /// lead to. Asked before each segment; if not, those that were not found yet are void.
    fn takes_found(&self) -> bool {
        true
    }

    /// Makes room for what found none. Called without a lock but that of the chores.
    fn make_room(&self) {}
}

/// What became of an item that was found at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// The index leads to it.
    There,
    /// Its key was changed since the start, removals included ([`crate::Flash::has_changed`]), or
    /// is there already: the item is dead from now on.
    Outdated,
    /// There was no room.
    Full,
    /// There is none that could be made for it: the item is dead from now on.
    Unplaceable,
}
