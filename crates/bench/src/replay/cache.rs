//! The target of a replay: a cache that can be read and written, the real engine or a model of one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::load::job::Known;
use crate::policies::simulate::Simulation;
use crate::trace::Request;
use crate::values::Values;

/// One object of a request, with its bytes.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    /// The request's place in the trace.
    pub position: u32,
    /// The request.
    pub request: &'a Request,
    /// The object's key.
    pub key: &'a [u8],
    /// The value that this request stores or finds.
    pub value: &'a [u8],
    /// How a hit is checked.
    pub compared: Compared<'a>,
}

/// What the value of a hit is compared with.
#[derive(Clone, Copy)]
pub enum Compared<'a> {
    /// Nothing.
    Nothing,
    /// These values' bytes for the object, of whatever length.
    Content(&'a Values),
    /// The item's value.
    Whole,
}

impl<'a> Compared<'a> {
    /// Returns how a hit can be checked, by what the trace tells.
    pub fn of(known: Known, values: &'a Values) -> Self {
        match known {
            Known::Nothing => Compared::Nothing,
            Known::Content => Compared::Content(values),
            Known::Whole => Compared::Whole,
        }
    }
}

impl Item<'_> {
    /// Returns whether a found value is the object's, as far as that is known: a trace may have a
    /// set of 100 bytes and a get that finds 40, because of a request in between that the trace
    /// does not have.
    pub fn is_answered_by<'b>(&self, found: impl Iterator<Item = &'b u8>) -> bool {
        match self.compared {
            Compared::Nothing => true,
            Compared::Whole => found.eq(self.value),
            Compared::Content(values) => {
                let found: Vec<u8> = found.copied().collect();
                values.is_value(self.request.object, &found, &mut Vec::new())
            }
        }
    }
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The value that was stored.
    Hit,
    /// Nothing.
    Miss,
    /// Another value than was stored.
    Wrong,
}

/// The contents of a cache at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// Number of items.
    pub items: u64,
    /// Their memory, with all overhead.
    pub used_bytes: u64,
    /// Bytes of keys and values alone; `None` where the cache does not know.
    pub data_bytes: Option<u64>,
}

/// A target of a replay.
pub trait Cache: Sync {
    /// Reads an object.
    fn get(&self, item: Item) -> Found;

    /// Stores an object. Returns whether it was taken; the cache need not keep it.
    fn set(&self, item: Item) -> bool;

    /// Removes an object.
    fn remove(&self, item: Item);

    /// Returns the present contents.
    fn contents(&self) -> Contents;
}

/// A policy in place of a cache. It keeps no values, so it cannot return wrong ones.
pub struct Model(Mutex<Simulation>);

impl Model {
    /// Returns a model that begins with the contents of the simulation.
    pub fn new(simulation: Simulation) -> Model {
        Model(Mutex::new(simulation))
    }

    fn simulation(&self) -> MutexGuard<'_, Simulation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache for Model {
    fn get(&self, item: Item) -> Found {
        let hit = self.simulation().get(item.position, item.request);
        if hit { Found::Hit } else { Found::Miss }
    }

    fn set(&self, item: Item) -> bool {
        self.simulation().set(item.position, item.request);
        true
    }

    fn remove(&self, item: Item) {
        self.simulation().remove(item.request.object);
    }

    fn contents(&self) -> Contents {
        let simulation = self.simulation();
        let (items, used_bytes) = (simulation.items(), simulation.used());
        Contents { items, used_bytes, data_bytes: None }
    }
}
