//! Hash tables of published systems, behind one trait with the real index.
//!
//! ```text
//!   chains      the structure of memcached: heads, links in the items, strict LRU
//!   chaining    chains as a table, under one lock or several
//!   lru_cache   chains as a cache, under one lock
//!   cuckoo      MemC3's steps: four slots a bucket, locks or versions, with tags or without
//!   larder      larder-index, as the cache uses it
//! ```
//!
//! They are as small as they can be and still touch memory as the originals do. This crate forbids
//! unsafe code, so links are indices of a pointer's width, guarded by a bounds check that costs all
//! tables alike.

mod chaining;
mod chains;
mod cuckoo;
mod larder;
mod lru_cache;

use std::sync::Arc;

use crate::random::mix;

pub use chaining::Chaining;
pub use chains::Links;
pub use cuckoo::{Cuckoo, Locking, Settings};
pub use larder::LarderIndex;
pub use lru_cache::{LruCache, VALUE_BYTES, Value};

/// A key of 16 bytes.
pub type Key = [u64; 2];
/// Bytes of every key.
pub const KEY_BYTES: usize = size_of::<Key>();

/// The key with this number.
#[inline]
pub fn key(number: u64) -> Key {
    [number, !number]
}

/// Returns the hash of a key. The factor is even, so that the sum differs for all keys that [`key`]
/// makes: it is their number times the factor less one, which is odd.
#[inline]
pub fn hash(key: &Key) -> u64 {
    mix(key[0].wrapping_mul(0x9e37_79b9_7f4a_7c16).wrapping_add(key[1]))
}

/// The items whose places a table holds: here only their keys, made before anything is measured.
pub type Items = Arc<[Key]>;

/// Items whose keys are numbered from `first` on.
pub fn items(first: u64, count: usize) -> Items {
    (first..first + count as u64).map(key).collect()
}

/// The reads of one lookup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// Cache lines of the table.
    pub lines: u64,
    /// Items whose key was compared.
    pub items: u64,
}

/// Receives a lookup's reads; ignores them while time is measured.
trait Touch {
    fn line(&mut self);
    fn item(&mut self);
}

impl Touch for () {
    #[inline]
    fn line(&mut self) {}
    #[inline]
    fn item(&mut self) {}
}

impl Touch for Touched {
    fn line(&mut self) {
        self.lines += 1;
    }
    fn item(&mut self) {
        self.items += 1;
    }
}

/// A table from keys to places of items, for several threads.
pub trait Table: Sync {
    /// Enters the place of an item whose key is absent. False if the table is too full.
    fn insert(&self, place: u32) -> bool;

    /// Looks for each key; returns how many were found.
    fn find_all(&self, wanted: &[Key]) -> u64;

    /// Returns the reads of a lookup of this key; `None` where the table does not count them.
    fn touched(&self, wanted: &Key) -> Option<Touched>;

    /// Returns the bytes of the table, without keys.
    fn bytes(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use index::Kind;

    use super::{Chaining, Cuckoo, LarderIndex, Links, Locking, Settings, Table, hash, items, key};

    const COUNT: u32 = 20_000;

    /// Returns every kind of table with room for `COUNT` items.
    fn all() -> Vec<(String, Box<dyn Table>)> {
        let items = items(7, COUNT as usize);
        let mut tables: Vec<(String, Box<dyn Table>)> = vec![
            ("chains".into(), Box::new(Chaining::<()>::new(items.clone(), 1))),
            ("chains with LRU".into(), Box::new(Chaining::<Links>::new(items.clone(), 16))),
            ("larder".into(), Box::new(LarderIndex::growing(items.clone(), false))),
            ("larder tree".into(), Box::new(LarderIndex::of_kind(Kind::Tree, items.clone(), true))),
            (
                "larder list".into(),
                Box::new(LarderIndex::of_kind(Kind::List, items.clone(), false)),
            ),
            ("larder ahead".into(), Box::new(LarderIndex::growing(items.clone(), true))),
        ];
        for locking in [Locking::Global, Locking::Striped, Locking::Optimistic] {
            for tags in [false, true] {
                let settings = Settings { locking, tags, paths: 2, seed: 1 };
                let table = Cuckoo::new(items.clone(), 1 << 13, settings);
                tables.push((format!("{settings:?}"), Box::new(table)));
            }
        }
        tables
    }

    #[test]
    fn every_table_finds_what_was_inserted_and_nothing_else() {
        for (name, table) in all() {
            for place in 0..COUNT {
                assert!(table.insert(place), "{name}: no room for {place}");
            }
            let present: Vec<_> = (0..u64::from(COUNT)).map(|number| key(7 + number)).collect();
            assert_eq!(table.find_all(&present), u64::from(COUNT), "{name}");
            let absent: Vec<_> = (0..1000).map(|number| key(1 << 40 | number)).collect();
            assert_eq!(table.find_all(&absent), 0, "{name}");
            assert!(table.bytes() >= u64::from(COUNT) * 8, "{name}");
        }
    }

    #[test]
    fn keys_far_apart_have_hashes_of_their_own() {
        let numbers = (0..1000).flat_map(|number| [number, 1 << 32 | number, 1 << 40 | number]);
        let mut hashes: Vec<u64> = numbers.map(|number| hash(&key(number))).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 3000);
    }

    #[test]
    fn a_cuckoo_table_fills_up_and_then_refuses() {
        for tags in [false, true] {
            let settings = Settings { locking: Locking::Optimistic, tags, paths: 3, seed: 1 };
            let table = Cuckoo::new(items(0, 1 << 13), 1 << 10, settings);
            let places = 0..1_u32 << 13;
            let count = places.clone().take_while(|place| table.insert(*place)).count() as u64;
            assert!(count > table.slots() * 94 / 100 && count <= table.slots(), "{count}");
            let present: Vec<_> = (0..count).map(key).collect();
            assert_eq!(table.find_all(&present), count, "no word was lost on the way");
        }
    }

    #[test]
    fn a_key_is_found_while_others_move() {
        for (name, table) in all() {
            let half = COUNT / 2;
            assert!((0..half).all(|place| table.insert(place)), "{name}");
            let early: Vec<_> = (0..u64::from(half)).map(|number| key(7 + number)).collect();
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| (half..COUNT).all(|place| table.insert(place)));
                while !writer.is_finished() {
                    assert_eq!(table.find_all(&early), u64::from(half), "{name}");
                }
                assert!(writer.join().expect("the writer does not panic"), "{name}");
            });
        }
    }
}
