//! Keys and values side by side, or in two rows: stored items are read back, whatever the lengths,
//! and whatever chunk an item gets for want of a better one.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use io::ManualClock;
use larder::{Attributes, Builder, Cache, ChunkLayout, Condition, Expiry, Policy, Refusal, Stored};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const LAYOUTS: [ChunkLayout; 2] = [ChunkLayout::Inline, ChunkLayout::Split];
const POLICIES: [Policy; 4] = [Policy::Clock, Policy::CostClock, Policy::GdWheel, Policy::Lru];

fn builder(layout: ChunkLayout) -> Builder {
    Cache::builder().layout(layout).clock(Arc::new(ManualClock::new(NOW)))
}

fn seed() -> u64 {
    let given = std::env::var("LARDER_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 1);
    println!("LARDER_SEED={seed}");
    seed
}

fn noise(random: &mut Xorshift, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.draw() as u8).collect()
}

/// Key and value of every length at which something changes: an item that is a chunk of the
/// smallest that are split, a key that just fits a head or does not, a value of hardly anything.
#[test]
fn every_length_is_read_back() {
    for layout in LAYOUTS {
        let cache = builder(layout).memory_bytes(64 << 20).build().unwrap();
        let mut random = Xorshift::seeded(1);
        let value = noise(&mut random, 400);
        for key_bytes in 1..=250 {
            for value_bytes in [0, 1, 2, 7, 8, 30, 63, 64, 65, 100, 127, 128, 129, 250, 400] {
                let (key, value) = (vec![b'k'; key_bytes], &value[..value_bytes]);
                let expiry = [Expiry::NEVER, Expiry::at(NOW + 100)][value_bytes % 2];
                let flags = [0, 7][key_bytes / 2 % 2];
                let attributes = Attributes { flags, expiry, ..Attributes::default() };
                let stored = cache.put(&key, value, attributes, Condition::Always);
                assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");
                let session = cache.session();
                let item = session.get(&key, cache.hash(&key)).unwrap();
                assert_eq!((item.key(), item.contiguous()), (&key[..], Some(value)));
                assert_eq!((item.flags(), item.expiry()), (flags, expiry));
            }
        }
    }
}

/// Lengths change all the time in hardly any memory, so that classes have no slab of their own and
/// take chunks of larger ones, split or whole: an item may need more of a split one.
#[test]
fn values_found_in_a_full_cache_are_those_that_were_stored() {
    let mut random = Xorshift::seeded(seed());
    for layout in LAYOUTS {
        for policy in POLICIES {
            let cache = builder(layout).memory_bytes(2 << 20).policy(policy).build().unwrap();
            let mut model = HashMap::new();
            let mut found = 0;
            for step in 0..60_000_u32 {
                let number = random.draw() % 3000;
                // The length of a key belongs to the key.
                let mut key = vec![b'k'; 8 + number as usize % 240];
                key[..8].copy_from_slice(&number.to_le_bytes());
                if random.draw().is_multiple_of(3) {
                    let Some(read) = cache.get(&key) else { continue };
                    assert!(Some(&read) == model.get(&number), "{layout:?}, {policy:?}, {number}");
                    found += 1;
                    continue;
                }
                // A few sizes are frequent for a while, others rare.
                let bytes_max = match random.draw() % 50 {
                    0 => 40_000,
                    1..=10 => 120,
                    _ => [40, 200, 700][step as usize / 5000 % 3],
                };
                let bytes = random.draw() as usize % bytes_max;
                let value = noise(&mut random, bytes);
                match cache.put(&key, &value, Attributes::default(), Condition::Always) {
                    Ok(Stored::Stored { .. }) => drop(model.insert(number, value)),
                    // A refused store leaves the earlier item.
                    Err(Refusal::NoMemory) => {}
                    other => panic!("{other:?}"),
                }
                if step % 1000 == 0 {
                    cache.maintain();
                }
            }
            let stats = cache.stats();
            assert!(found > 2000 && stats.evicted > 2000, "{layout:?}, {policy:?}: {stats:?}");
            assert!(stats.used_bytes <= 2 << 20);
        }
    }
}

/// Regression: a long value has pieces in up to three classes. In one of few chunks, which that of
/// its end may be, the newest item is soon the next to leave: it was evicted as soon as the
/// background came by, while older ones stayed.
#[test]
fn what_was_stored_a_moment_ago_is_not_the_next_to_go() {
    for (layout, policy) in LAYOUTS.iter().flat_map(|&layout| POLICIES.map(|it| (layout, it))) {
        let builder = builder(layout).memory_bytes(16 << 20).policy(policy).compress(false);
        let cache = builder.build().unwrap();
        let (mut random, value) = (Xorshift::seeded(1), vec![7; 1 << 20]);
        let mut lost = 0;
        for number in 0..1000_u32 {
            let value = &value[..500_000 + (random.draw() % 500_000) as usize];
            cache.set(&number.to_be_bytes(), value, Expiry::NEVER).unwrap();
            while cache.maintain() {}
            lost += u32::from(cache.get(&number.to_be_bytes()).is_none());
        }
        assert_eq!(lost, 0, "{layout:?}, {policy:?}: {:?}", cache.stats());
    }
}
