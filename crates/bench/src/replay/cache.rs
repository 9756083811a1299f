//! What is replayed into: a cache that can be asked and told, the real engine or a model of one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::load::job::Known;
use crate::policies::simulate::Simulation;
use crate::trace::Request;
use crate::values::Values;

/// One object of a request, with its bytes.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    /// Which request of the trace it is.
    pub position: u32,
    /// The request.
    pub request: &'a Request,
    /// The object's key.
    pub key: &'a [u8],
    /// The object's value, as this request has or finds it.
    pub value: &'a [u8],
    /// What of it a hit can be held to.
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
    /// As far as a trace tells what a hit has to be.
    pub fn of(known: Known, values: &'a Values) -> Self {
        match known {
            Known::Nothing => Compared::Nothing,
            Known::Content => Compared::Content(values),
            Known::Whole => Compared::Whole,
        }
    }
}

impl Item<'_> {
    /// Whether what was found is the object's value, as far as that is known: a trace may have a
    /// set of 100 bytes and a get that finds 40, since its server was told something in between
    /// that a replay is not.
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

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The value that was stored.
    Hit,
    /// Nothing.
    Miss,
    /// Another value than was stored.
    Wrong,
}

/// What a cache holds at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// How many items.
    pub items: u64,
    /// The memory that they take, with everything that belongs to them.
    pub used_bytes: u64,
    /// Keys and values alone; nothing where the cache does not know.
    pub data_bytes: Option<u64>,
}

/// Something to replay into.
pub trait Cache: Sync {
    /// Asks for an object.
    fn get(&self, item: Item) -> Found;

    /// Stores an object. Returns whether it was taken; it need not stay.
    fn set(&self, item: Item) -> bool;

    /// Removes an object.
    fn remove(&self, item: Item);

    /// What is there now.
    fn contents(&self) -> Contents;
}

/// A policy in the place of a cache. It keeps no values, so it cannot return wrong ones.
pub struct Model(Mutex<Simulation>);

impl Model {
    /// A model that begins with what the simulation holds.
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
