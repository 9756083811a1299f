//! An index of two maps: items in memory by their hash, and items on flash by those bits of it that
//! an index compares.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::TOLD_APART;
use crate::{IndexAccess, Inserted, Place};

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The values of items in memory.
    pub(crate) memory: HashMap<u64, Vec<u8>>,
    places: HashMap<u64, Place>,
    /// Hashes changed since the start.
    changed: HashSet<u64>,
    /// Items that were promoted to memory, and still have their row here.
    pub(crate) spare: HashSet<u64>,
    /// Items for which no room can be made.
    pub(crate) hopeless: HashSet<u64>,
    /// There is room for this many items, if room is limited, ...
    pub(crate) room: Option<u64>,
    /// ... and for this many more each third time that room is asked for.
    pub(crate) makes: u64,
    pub(crate) asked: u64,
    /// The index takes no more found items once it has this many.
    pub(crate) found_max: Option<usize>,
}

impl State {
    /// The place of the key's item, or of a key that cannot be told from it.
    pub(crate) fn place(&self, hash: u64) -> Option<Place> {
        self.places.get(&(hash & TOLD_APART)).copied()
    }

    /// Leads to a place; returns where it led before.
    pub(crate) fn lead(&mut self, hash: u64, place: Place) -> Option<Place> {
        self.places.insert(hash & TOLD_APART, place)
    }

    /// Leads nowhere any more; returns where it led.
    pub(crate) fn forget(&mut self, hash: u64) -> Option<Place> {
        self.places.remove(&(hash & TOLD_APART))
    }

    /// Notes a change since the start.
    pub(crate) fn note_change(&mut self, hash: u64) {
        self.changed.insert(hash & TOLD_APART);
    }

    /// All places on flash.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.places.values().copied()
    }

    /// The number of items, wherever they are.
    pub(crate) fn len(&self) -> usize {
        self.memory.len() + self.places.len()
    }

    /// Drops everything; all of it counts as changed.
    pub(crate) fn clear(&mut self) {
        self.changed.extend(self.memory.keys().map(|hash| hash & TOLD_APART));
        self.changed.extend(self.places.keys());
        self.memory.clear();
        self.places.clear();
    }

    fn leads_to(&self, hash: u64, place: Place) -> Option<Place> {
        self.place(hash).filter(|found| found.is_same(place))
    }

    /// Whether an item in memory cannot be told from it.
    fn is_in_memory(&self, hash: u64) -> bool {
        let twins = [hash, hash & TOLD_APART, hash | !TOLD_APART];
        twins.iter().any(|hash| self.memory.contains_key(hash))
    }
}

#[derive(Debug, Default)]
pub(crate) struct FakeIndex {
    state: Mutex<State>,
    rests: AtomicU64,
    /// Whether spare items leave memory at the moment when collection comes to them.
    pub(crate) leaves: AtomicBool,
}

impl FakeIndex {
    /// How often long work has yielded the core.
    pub(crate) fn rests(&self) -> u64 {
        self.rests.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has died")
    }
}

impl IndexAccess for FakeIndex {
    fn accesses(&self, hash: u64, place: Place) -> Option<u8> {
        self.state().leads_to(hash, place).map(Place::accesses)
    }

    fn is_spare(&self, hash: u64, place: Place) -> bool {
        let mut state = self.state();
        let is_spare = state.spare.contains(&hash) && state.leads_to(hash, place).is_some();
        if self.leaves.load(Ordering::Relaxed) {
            // After the answer.
            state.spare.remove(&hash);
        }
        is_spare
    }

    fn remove_spare(&self, hash: u64, place: Place) -> bool {
        let mut state = self.state();
        if self.leaves.load(Ordering::Relaxed) {
            state.spare.remove(&hash);
        }
        let is_spare = state.spare.contains(&hash) && state.leads_to(hash, place).is_some();
        if is_spare {
            state.forget(hash);
        }
        is_spare
    }

    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool {
        let mut state = self.state();
        let is_there = state.leads_to(hash, from).is_some();
        if is_there {
            state.lead(hash, to);
        }
        is_there
    }

    fn remove(&self, hash: u64, place: Place) -> bool {
        let mut state = self.state();
        let is_there = state.leads_to(hash, place).is_some();
        if is_there {
            state.forget(hash);
        }
        is_there
    }

    fn remove_where(&self, is_gone: &dyn Fn(Place) -> bool) -> u64 {
        let mut state = self.state();
        let before = state.places.len();
        state.places.retain(|_, place| !is_gone(*place));
        (before - state.places.len()) as u64
    }

    fn yield_now(&self) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }

    fn insert(&self, hash: u64, place: Place) -> Inserted {
        let mut state = self.state();
        let is_changed = state.changed.contains(&(hash & TOLD_APART));
        if is_changed || state.place(hash).is_some() || state.is_in_memory(hash) {
            return Inserted::Outdated;
        }
        if state.hopeless.contains(&hash) {
            return Inserted::Unplaceable;
        }
        if let Some(room) = &mut state.room {
            let Some(left) = room.checked_sub(1) else { return Inserted::Full };
            *room = left;
        }
        state.lead(hash, place);
        Inserted::There
    }

    fn takes_found(&self) -> bool {
        let state = self.state();
        state.found_max.is_none_or(|max| state.places.len() < max)
    }

    fn make_room(&self) {
        let mut state = self.state();
        state.asked += 1;
        let more = if state.asked.is_multiple_of(3) { state.makes } else { 0 };
        state.room = state.room.map(|room| room + more);
    }
}
