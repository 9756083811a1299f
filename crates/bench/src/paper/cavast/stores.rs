//! Two stores with the same items, memcached's layout and the cache, and the ways to look up in
//! them.

use larder::{Ahead, Cache, Expiry, Hash};

use super::inline_chains::InlineChains;
use crate::failure::{Failure, Outcome};

/// Bytes of a key, the length of most keys of APP.
pub const KEY_BYTES: usize = 31;
/// The least bytes of a value, and the number of lengths from there on: APP's.
pub const VALUE_BYTES: usize = 216;
pub const VALUE_LENGTHS: usize = 108;
/// The most bytes that an item takes besides key and value, in either store.
pub const ITEM_BYTES: usize = 130;
/// Keys in a batch of the server's.
pub const BATCH: usize = 128;

/// A key, identified by its first bytes.
pub type Key = [u8; KEY_BYTES];

/// Returns the key of an item.
pub fn key(number: u64) -> Key {
    let mut key = [b'k'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_le_bytes());
    // Bytes that a protocol would refuse do not matter here: the cache takes any.
    key
}

/// Returns the value of an item.
pub fn value(number: u64) -> Vec<u8> {
    let bytes = VALUE_BYTES + (number.wrapping_mul(0x9e37_79b9) >> 16) as usize % VALUE_LENGTHS;
    vec![number as u8; bytes]
}

/// Both stores, with the same items.
pub struct Stores {
    chains: InlineChains,
    cache: Cache,
    count: u64,
}

impl Stores {
    pub fn filled(count: u64) -> Outcome<Self> {
        let bytes = count as usize * (KEY_BYTES + VALUE_BYTES + VALUE_LENGTHS);
        let room = (bytes + count as usize * ITEM_BYTES).max(64 << 20);
        let built = Cache::builder().memory_bytes(room).build();
        let cache = built.map_err(|error| Failure::Check(error.to_string()))?;
        let mut chains = InlineChains::new(count as usize, bytes);
        for number in 0..count {
            let (key, value) = (key(number), value(number));
            chains.insert(&key, cache.hash(&key).0, &value);
            let stored = cache.set(&key, &value, Expiry::NEVER);
            stored.map_err(|refusal| Failure::Check(format!("{refusal:?}")))?;
        }
        let held = cache.stats().items;
        if held != count {
            return Err(Failure::Check(format!("the cache has {held} of {count} items")));
        }
        Ok(Self { chains, cache, count })
    }

    pub fn look_up_in_chains(&self, wanted: &[u32]) -> usize {
        let mut copy = Vec::new();
        let found = wanted.iter().filter(|&&number| {
            let key = key(self.scattered(number));
            let value = self.chains.get(&key, self.cache.hash(&key).0);
            take(&mut copy, value)
        });
        found.count()
    }

    pub fn look_up(&self, wanted: &[u32], window: usize, stages: usize) -> usize {
        let (mut found, mut copy) = (0, Vec::new());
        let (mut keys, mut hashes): (Vec<Key>, Vec<Hash>) = Default::default();
        for numbers in wanted.chunks(window) {
            let session = self.cache.session();
            self.hash(numbers, &mut keys, &mut hashes);
            if stages > 0 {
                hashes.iter().for_each(|&hash| session.prefetch(hash));
            }
            if stages > 1 {
                hashes.iter().for_each(|&hash| session.prefetch_item(hash, stages > 2));
            }
            for (key, &hash) in keys.iter().zip(&hashes) {
                let item = session.get(key, hash);
                let value = item.as_ref().and_then(|item| item.contiguous());
                found += usize::from(take(&mut copy, value));
            }
        }
        found
    }

    pub fn look_up_ahead(&self, wanted: &[u32]) -> usize {
        let (mut found, mut copy) = (0, Vec::new());
        let (mut keys, mut hashes): (Vec<Key>, Vec<Hash>) = Default::default();
        for numbers in wanted.chunks(BATCH) {
            let session = self.cache.session();
            self.hash(numbers, &mut keys, &mut hashes);
            let mut ahead = Ahead::new(&hashes);
            for (number, key) in keys.iter().enumerate() {
                ahead.reach(&session, number, true);
                let item = session.get(key, hashes[number]);
                let value = item.as_ref().and_then(|item| item.contiguous());
                found += usize::from(take(&mut copy, value));
            }
        }
        found
    }

    /// Returns the keys of these ranks, and their hashes.
    fn hash(&self, numbers: &[u32], keys: &mut Vec<Key>, hashes: &mut Vec<Hash>) {
        keys.clear();
        keys.extend(numbers.iter().map(|&number| key(self.scattered(number))));
        hashes.clear();
        hashes.extend(keys.iter().map(|key| self.cache.hash(key)));
    }

    /// Returns the item of this rank: popular items are scattered.
    fn scattered(&self, rank: u32) -> u64 {
        u64::from(rank) * 0x1_0000_000f % self.count
    }
}

/// Copies a found value.
pub fn take(copy: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    copy.clear();
    copy.extend_from_slice(value.unwrap_or_default());
    std::hint::black_box(&copy);
    value.is_some()
}
