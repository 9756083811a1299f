//! Chaining with locks: one lock around everything, as in memcached 1.4, or several locks for a
//! part of the table each. With [`super::Links`], each lookup also moves its item to the front of
//! the list by recency, which is why even a lookup needs the lock.

use std::sync::Mutex;

use super::chains::{Chains, Order};
use super::{Items, Key, Table, Touch, Touched, hash};

/// A table of chains for several threads.
pub struct Chaining<O> {
    items: Items,
    parts: Vec<Mutex<Chains<u32, O>>>,
}

impl<O: Order> Chaining<O> {
    /// Returns a table with room for all of `items`, under this many locks.
    pub fn new(items: Items, locks: usize) -> Self {
        let part = |_| Mutex::new(Chains::new(items.len().div_ceil(locks)));
        Chaining { parts: (0..locks).map(part).collect(), items }
    }

    #[inline]
    fn find(&self, wanted: &Key, touch: &mut impl Touch) -> Option<u32> {
        let hash = hash(wanted);
        self.part(hash).lock().expect("nobody panics").find(wanted, hash, touch).copied()
    }

    #[inline]
    fn part(&self, hash: u64) -> &Mutex<Chains<u32, O>> {
        &self.parts[(hash as u32 as usize) % self.parts.len()]
    }
}

impl<O: Order> Table for Chaining<O> {
    fn insert(&self, place: u32) -> bool {
        let key = self.items[place as usize];
        let hash = hash(&key);
        self.part(hash).lock().expect("nobody panics").insert(key, hash, place);
        true
    }

    fn find_all(&self, wanted: &[Key]) -> u64 {
        wanted.iter().filter(|key| self.find(key, &mut ()).is_some()).count() as u64
    }

    fn touched(&self, wanted: &Key) -> Option<Touched> {
        let mut touched = Touched::default();
        self.find(wanted, &mut touched);
        Some(touched)
    }

    fn bytes(&self) -> u64 {
        let part = |part: &Mutex<Chains<u32, O>>| part.lock().expect("nobody panics").bytes();
        self.parts.iter().map(part).sum::<usize>() as u64
    }
}
