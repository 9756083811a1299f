//! A cache as memcached 1.4 built it: chains, strict LRU in links inside the items, one lock.
//!
//! It keeps the minimum of a design of this kind: key, value, three links as wide as pointers and
//! the heads. A real server's other parts of an item (expiry, flags, sizes, reference counts, room
//! lost in size classes) are left out, which favours this baseline.

use std::sync::Mutex;

use super::chains::{Chains, Links, Node};
use super::{Key, hash};

/// Bytes of every value.
pub const VALUE_BYTES: usize = 32;
/// A value.
pub type Value = [u8; VALUE_BYTES];

/// A cache that holds a fixed number of items.
pub struct LruCache {
    capacity: usize,
    chains: Mutex<Chains<Value, Links>>,
}

impl LruCache {
    /// Returns a cache of as many items as fit into `bytes`, heads included.
    pub fn of_bytes(bytes: usize) -> LruCache {
        let node_bytes = size_of::<Node<Value, Links>>();
        let mut capacity = bytes / node_bytes;
        // There are between two and four heads for three items: a power of two.
        let heads = |capacity: usize| (capacity * 2 / 3).next_power_of_two() * size_of::<usize>();
        while capacity > 1 && capacity * node_bytes + heads(capacity) > bytes {
            capacity -= (capacity / 1000).max(1);
        }
        LruCache::of_items(capacity.max(1))
    }

    /// Returns a cache of `capacity` items.
    pub fn of_items(capacity: usize) -> LruCache {
        LruCache { capacity, chains: Mutex::new(Chains::new(capacity)) }
    }

    /// Returns the number of items in it.
    pub fn len(&self) -> usize {
        self.chains.lock().expect("nobody panics").len()
    }

    /// Returns a copy of a key's value.
    pub fn get(&self, key: &Key) -> Option<Value> {
        self.chains.lock().expect("nobody panics").find(key, hash(key), &mut ()).copied()
    }

    /// Stores a value.
    pub fn set(&self, key: Key, value: Value) {
        let hash = hash(&key);
        let mut chains = self.chains.lock().expect("nobody panics");
        if let Some(found) = chains.find(&key, hash, &mut ()) {
            *found = value;
        } else if chains.len() < self.capacity {
            chains.insert(key, hash, value);
        } else {
            chains.replace_oldest(key, hash, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LruCache;
    use crate::tables::key;

    #[test]
    fn it_holds_what_fits_and_forgets_the_oldest() {
        let cache = LruCache::of_bytes(1 << 20);
        for number in 0..100_000 {
            cache.set(key(number), [number as u8; 32]);
        }
        assert!((11_000..14_600).contains(&cache.len()), "{}", cache.len());
        assert_eq!(cache.get(&key(99_999)), Some([99_999_u64 as u8; 32]));
        assert_eq!(cache.get(&key(0)), None);
    }
}
