//! An index that is a map from hashes to what the cache would have there.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::{Inserted, Links, Place};

/// Where a key's item is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    /// In memory, and this is its value.
    Hot(Vec<u8>),
    Flash(Place),
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) slots: HashMap<u64, Slot>,
    /// Changed since the start.
    pub(crate) changed: HashSet<u64>,
    /// What has come up into memory, and has its row here still.
    pub(crate) spare: HashSet<u64>,
    /// For so many items there is room, if that is limited, ...
    pub(crate) room: Option<u64>,
    /// ... and for so many more each third time that room is asked for.
    pub(crate) makes: u64,
    pub(crate) asked: u64,
}

impl State {
    pub(crate) fn place(&self, hash: u64) -> Option<Place> {
        match self.slots.get(&hash) {
            Some(Slot::Flash(place)) => Some(*place),
            _ => None,
        }
    }

    fn leads_to(&self, hash: u64, place: Place) -> Option<Place> {
        self.place(hash).filter(|found| found.is_same(place))
    }
}

#[derive(Debug, Default)]
pub(crate) struct FakeIndex {
    state: Mutex<State>,
    rests: AtomicU64,
    /// What is spare leaves memory in the moment in which collection comes to it.
    pub(crate) leaves: AtomicBool,
}

impl FakeIndex {
    /// How often long work has let others have the core.
    pub(crate) fn rests(&self) -> u64 {
        self.rests.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has died")
    }
}

impl Links for FakeIndex {
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
            state.slots.remove(&hash);
        }
        is_spare
    }

    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool {
        let mut state = self.state();
        let is_there = state.leads_to(hash, from).is_some();
        if is_there {
            state.slots.insert(hash, Slot::Flash(to));
        }
        is_there
    }

    fn remove(&self, hash: u64, place: Place) -> bool {
        let mut state = self.state();
        let is_there = state.leads_to(hash, place).is_some();
        if is_there {
            state.slots.remove(&hash);
        }
        is_there
    }

    fn rest(&self) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }

    fn insert(&self, hash: u64, place: Place) -> Inserted {
        let mut state = self.state();
        if state.changed.contains(&hash) || state.slots.contains_key(&hash) {
            return Inserted::Outdated;
        }
        if let Some(room) = &mut state.room {
            let Some(left) = room.checked_sub(1) else { return Inserted::Full };
            *room = left;
        }
        state.slots.insert(hash, Slot::Flash(place));
        Inserted::There
    }

    fn make_room(&self) {
        let mut state = self.state();
        state.asked += 1;
        let more = if state.asked.is_multiple_of(3) { state.makes } else { 0 };
        state.room = state.room.map(|room| room + more);
    }
}
