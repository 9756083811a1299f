//! Keys that an attacker has chosen so that their hashes collide are keys like others: hashes have
//! a seed that nobody knows, of 128 bits from the system, another one for each cache.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Attributes, Cache, Condition, Expiry, FlashSettings, Hash, Refusal, SESSIONS_MAX, Stats, Store,
};

/// Chosen keys.
const KEYS: usize = 10_000;

/// Equal bits of their hashes for an attacker that knows the seed: in an index these decide in
/// which of some thousand parts a key lies.
const EQUAL_BITS: u32 = 10;

/// The place of these bits in a hash.
#[derive(Debug, Clone, Copy)]
enum Bits {
    Highest,
    Lowest,
}

impl Bits {
    fn of(self, hash: u64) -> usize {
        match self {
            Self::Highest => (hash >> (64 - EQUAL_BITS)) as usize,
            Self::Lowest => (hash & ((1 << EQUAL_BITS) - 1)) as usize,
        }
    }
}

/// Returns the hash of a key for an attacker that knows, or believes to know, the seed.
fn known_hash(key: &[u8]) -> u64 {
    let state = SeedableRandomState::with_seed(1, SharedSeed::global_fixed());
    let mut hasher = state.build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// Returns keys whose hashes collide by the known seed.
fn flood(bits: Bits) -> Vec<Vec<u8>> {
    let keys = (0_u64..).map(|number| format!("key-{number}").into_bytes());
    keys.filter(|key| bits.of(known_hash(key)) == 0).take(KEYS).collect()
}

fn cache() -> Cache {
    Cache::builder().memory_bytes(64 << 20).build().expect("addresses are there")
}

/// Returns how many keys have the commonest value of the bits.
fn longest(keys: &[Vec<u8>], bits: Bits, hash: impl Fn(&[u8]) -> u64) -> usize {
    let mut counts = vec![0; 1 << EQUAL_BITS];
    keys.iter().for_each(|key| counts[bits.of(hash(key))] += 1);
    counts.into_iter().max().unwrap_or_default()
}

#[test]
fn keys_that_collide_by_another_seed_lie_as_others_do() {
    let ordinary: Vec<_> = (0..KEYS).map(|number| format!("key-{number}").into_bytes()).collect();
    let filled = |keys: &[Vec<u8>]| {
        let cache = cache();
        for key in keys {
            cache.set(key, key, Expiry::NEVER).expect("there is room");
        }
        for key in keys {
            assert_eq!(cache.get(key).as_deref(), Some(&key[..]));
        }
        let stats = cache.stats();
        assert_eq!((stats.items, stats.out_of_memory), (KEYS as u64, 0));
        stats
    };
    let expected = filled(&ordinary);
    for bits in [Bits::Highest, Bits::Lowest] {
        let keys = flood(bits);
        assert_eq!(longest(&keys, bits, known_hash), KEYS, "by the known seed all are one");
        // Some 10 on average: four times as many are in none of a thousand, unless the seed is
        // known.
        let cache = cache();
        let found = longest(&keys, bits, |key| cache.hash(key).0);
        assert!(found < (4 * KEYS) >> EQUAL_BITS, "{bits:?}: {found} in one place");
        let stats = filled(&keys);
        assert!(stats.index_slots <= 2 * expected.index_slots, "{bits:?}: {stats:?}");
        let displacements_max = 2 * expected.index_displacements + KEYS as u64 / 10;
        assert!(stats.index_displacements <= displacements_max, "{bits:?}: {stats:?}");
    }
}

/// Keys that hash to 0 by the fixed seed that a foldhash shares, whatever the other one is: both
/// products of the last words and that seed are 0.
#[test]
fn no_keys_collide_by_any_seed() {
    const FIXED: [u8; 8] = 0xc0ac_29b7_c97c_50dd_u64.to_le_bytes();
    let keys: Vec<Vec<u8>> =
        (b'A'..b'A' + 50).map(|n| [&[n][..], &FIXED, &FIXED].concat()).collect();
    let shared = SharedSeed::global_fixed();
    for seed in 0..3 {
        let known = SeedableRandomState::with_seed(seed, shared);
        let hash_of = |key: &Vec<u8>| {
            let mut hasher = known.build_hasher();
            hasher.write(key);
            hasher.finish()
        };
        assert!(keys.iter().all(|key| hash_of(key) == 0), "chosen by how the hash is made");
    }
    let device = FakeDevice::new(((64 << 20) / PAGE_BYTES) as u64, 1, Faults::default());
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(Arc::new(device), [7; 16]) };
    let builder = || Cache::builder().memory_bytes(64 << 20);
    for cache in [builder(), builder().flash(flash)].map(|builder| builder.build()) {
        let cache = cache.expect("addresses are there");
        let hashes: HashSet<u64> = keys.iter().map(|key| cache.hash(key).0).collect();
        assert_eq!(hashes.len(), keys.len());
        for key in &keys {
            cache.set(key, key, Expiry::NEVER).expect("there is room");
        }
        assert!(keys.iter().all(|key| cache.get(key).as_deref() == Some(&key[..])));
        assert_eq!(cache.stats().evicted, 0);
    }
}

/// Stores a key under a hash that an attacker has found to be that of many keys, in as many
/// sessions as it takes, as the server does.
fn store_as(cache: &Cache, key: &[u8], hash: Hash) -> Result<(), Refusal> {
    for _ in 0..SESSIONS_MAX {
        match try_to_store_as(cache, key, hash) {
            Err(Refusal::SessionTooLong) => cache.wait_for_memory(),
            ended => return ended,
        }
    }
    Err(Refusal::NoMemory)
}

fn try_to_store_as(cache: &Cache, key: &[u8], hash: Hash) -> Result<(), Refusal> {
    let session = cache.session();
    let mut draft = session.reserve(key, hash, Attributes::default(), key.len())?;
    draft.write(key);
    session.store(draft, Store::when(Condition::Always)).map(|_| ()).map_err(|(_, refusal)| refusal)
}

/// No memory would part keys of one hash. Each that is refused would cost others a slab after the
/// other, as many as there are sessions in which its store is tried.
#[test]
fn nothing_goes_for_keys_of_one_hash_that_find_no_place() {
    let cache = cache();
    let value = vec![0; 4 << 10];
    let mut number = 0;
    while cache.stats().evicted == 0 {
        let key = format!("key-{number}");
        cache.set(key.as_bytes(), &value, Expiry::NEVER).expect("something goes for it");
        number += 1;
    }
    while cache.maintain() {}
    for hash in [0, 0x0123_4567_89ab_cdef].map(Hash) {
        let keys = (0_u8..).map(|number| [number; 17]);
        let refused = |key: &[u8; 17]| store_as(&cache, key, hash).is_err();
        let refused = keys.clone().position(|key| refused(&key)).expect("two buckets are all");
        assert!(refused <= 16, "{refused}");
        // Room that the first of them wanted, and a reserve that has to be filled for that.
        while cache.maintain() {}
        let before = cache.stats();
        let mut stored = 0;
        for key in keys.skip(refused).take(8) {
            match store_as(&cache, &key, hash) {
                // Its table has moved, and others found other places there.
                Ok(()) => stored += 1,
                refused => assert_eq!(refused, Err(Refusal::NoMemory)),
            }
            cache.maintain();
        }
        assert!(refused as u64 + stored <= 16, "{refused} and {stored}");
        let after = cache.stats();
        let gone = |stats: &Stats| (stats.evicted, stats.slabs_moved);
        assert_eq!(gone(&after), gone(&before));
        assert_eq!(after.items, before.items + stored);
    }
}

#[test]
fn no_two_caches_have_the_same_seed() {
    let hashes: HashSet<u64> = (0..32).map(|_| cache().hash(b"a key").0).collect();
    assert_eq!(hashes.len(), 32);
}
