//! The tier's index: a map from hashes to places.
//!
//! The engine's index is left out so that nothing else decides which items stay: no item leaves
//! because a table of the index is full. The bytes of its words are counted by [`super::items`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ::flash::{IndexAccess, Inserted, Place};

use crate::random::Random;

/// Returns the hash of an object's key: a bijection, so no two objects share one.
pub fn hash(object: u32) -> u64 {
    Random::new(object.into()).word()
}

/// A hasher of numbers that are hashed already.
#[derive(Debug, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashes");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A place for each hash.
#[derive(Debug, Default)]
pub struct Words(RefCell<HashMap<u64, Place, BuildHasherDefault<Hashed>>>);

impl Words {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Returns the place of an item.
    pub fn get(&self, hash: u64) -> Option<Place> {
        self.0.borrow().get(&hash).copied()
    }

    /// Sets the place of an item.
    pub fn lead(&self, hash: u64, place: Place) {
        self.0.borrow_mut().insert(hash, place);
    }

    /// Removes an item, and returns its place.
    pub fn take(&self, hash: u64) -> Option<Place> {
        self.0.borrow_mut().remove(&hash)
    }

    fn find(&self, hash: u64, place: Place) -> Option<Place> {
        self.get(hash).filter(|found| found.is_same(place))
    }
}

impl IndexAccess for Words {
    fn accesses(&self, hash: u64, place: Place) -> Option<u8> {
        self.find(hash, place).map(Place::accesses)
    }

    fn relocate(&self, hash: u64, from: Place, to: Place) -> bool {
        let is_there = self.find(hash, from).is_some();
        if is_there {
            self.lead(hash, to);
        }
        is_there
    }

    fn remove(&self, hash: u64, place: Place) -> bool {
        let is_there = self.find(hash, place).is_some();
        if is_there {
            self.take(hash);
        }
        is_there
    }

    fn remove_where(&self, is_gone: &dyn Fn(Place) -> bool) -> u64 {
        let mut words = self.0.borrow_mut();
        let before = words.len();
        words.retain(|_, place| !is_gone(*place));
        (before - words.len()) as u64
    }

    fn insert(&self, hash: u64, place: Place) -> Inserted {
        if self.get(hash).is_some() {
            return Inserted::Outdated;
        }
        self.lead(hash, place);
        Inserted::There
    }
}

#[cfg(test)]
mod tests {
    use super::{IndexAccess, Inserted, Place, Words, hash};

    #[test]
    fn only_the_very_place_is_led_elsewhere_or_taken_out() {
        let (words, [one, two]) = (Words::default(), [hash(1), hash(2)]);
        let [first, second] = [Place(8 << 5), Place(9 << 5)];
        words.lead(one, first.with_accesses(2));
        assert_eq!(words.accesses(one, first), Some(2));
        assert_eq!((words.accesses(one, second), words.accesses(two, first)), (None, None));
        assert!(!words.relocate(one, second, first) && words.relocate(one, first, second));
        assert!(!words.remove(one, first));
        assert_eq!(words.insert(one, first), Inserted::Outdated);
        assert_eq!(words.insert(two, first), Inserted::There);
        assert!(words.remove(one, second) && words.len() == 1);
    }
}
