//! What is replayed into: a cache that can be asked and told, the real engine or a model of one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::policies::simulate::Simulation;
use crate::trace::Request;

/// One object of a request, with its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// Which request of the trace it is.
    pub position: u32,
    /// The request.
    pub request: &'a Request,
    /// The object's key.
    pub key: &'a [u8],
    /// The object's value, as this request has or finds it.
    pub value: &'a [u8],
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
