//! While memory is full, expired items make room before any live one.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use larder::{Attributes, Cache, Condition, Expiry, Policy};

const NOW: u32 = 1_800_000_000;
const MEMORY_BYTES: usize = 16 << 20;
/// Items that live for ever and are never read.
const KEPT: u32 = 20_000;
/// The life of all others, in seconds, and how many of them are stored in a second: two thirds of
/// memory would hold all that are alive.
const LIFE_SECONDS: u32 = 5;
const STORES_A_SECOND: u32 = 5000;
/// One in this many of these is touched, to live for ever.
const TOUCHED_SHARE: u32 = 5000;
const SECONDS: u32 = 60;
/// Stores before the background comes.
const BEHIND: u32 = 100;

struct Fixture {
    cache: Cache,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new(policy: Policy) -> Self {
        Self::with_eviction(policy, true)
    }

    fn with_eviction(policy: Policy, evict: bool) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(false).policy(policy);
        let builder = builder.evict(evict);
        Self { cache: builder.clock(clock.clone()).build().unwrap(), clock }
    }

    fn store(&self, key: &str, bytes: usize, expiry: u32) {
        let attributes = Attributes { expiry: Expiry::at(expiry), ..Attributes::default() };
        let value = vec![b'v'; bytes];
        self.cache.put(key.as_bytes(), &value, attributes, Condition::Always).unwrap();
    }

    fn has(&self, key: &str) -> bool {
        self.cache.get(key.as_bytes()).is_some()
    }

    fn maintain(&self) {
        while self.cache.maintain() {}
    }
}

/// Values of two size classes, and seldom one that takes several chunks.
fn bytes_of(number: u32) -> usize {
    match number % 2500 {
        0 => 600_000,
        odd if odd % 2 == 1 => 100,
        _ => 140,
    }
}

fn live_items_stay(policy: Policy) {
    let fixture = Fixture::new(policy);
    for number in 0..KEPT {
        fixture.store(&format!("kept-{number}"), 100 + 40 * (number as usize % 2), 0);
    }
    let (mut touched, mut stored) = (Vec::new(), 0);
    for second in 0..SECONDS {
        let expiry = NOW + second + LIFE_SECONDS;
        for _ in 0..STORES_A_SECOND {
            let key = format!("short-{stored}");
            fixture.store(&key, bytes_of(stored), expiry);
            if stored % TOUCHED_SHARE == 1 {
                let hash = fixture.cache.hash(key.as_bytes());
                let session = fixture.cache.session();
                assert_eq!(session.touch(key.as_bytes(), hash, Expiry::NEVER), Ok(true));
                touched.push(key);
            }
            stored += 1;
            if stored.is_multiple_of(BEHIND) {
                fixture.maintain();
            }
        }
        fixture.clock.advance(1);
        fixture.maintain();
    }
    let stats = fixture.cache.stats();
    assert!(stats.swept > u64::from(stored) / 2, "{policy:?}: {stats:?}");
    assert_eq!(stats.evicted, 0, "{policy:?}: {stats:?}");
    assert!((0..KEPT).all(|number| fixture.has(&format!("kept-{number}"))), "{policy:?}");
    assert!(touched.iter().all(|key| fixture.has(key)), "{policy:?}");
    // Those that are alive by now were stored in the last seconds.
    let alive = stored - (LIFE_SECONDS - 1) * STORES_A_SECOND;
    assert!((alive..stored).all(|number| fixture.has(&format!("short-{number}"))), "{policy:?}");
    assert!(!fixture.has("short-0"), "{policy:?}");
}

#[test]
fn what_is_alive_stays_while_what_has_expired_can_go() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::GdWheel, Policy::Lru] {
        live_items_stay(policy);
    }
}

/// The sweep has a share of a processor, which is soon used up: but it goes on all the same while
/// it finds expired items, since a live one would be evicted otherwise.
#[test]
fn live_items_stay_however_fast_stores_come() {
    const STORES: u32 = 80_000;
    for policy in [Policy::Clock, Policy::CostClock, Policy::GdWheel, Policy::Lru] {
        let fixture = Fixture::new(policy);
        for number in 0..KEPT {
            fixture.store(&format!("kept-{number}"), 100, 0);
            fixture.store(&format!("short-{number}"), 100, NOW + 1);
            fixture.store(&format!("short-too-{number}"), 100, NOW + 1);
            fixture.store(&format!("and-short-{number}"), 100, NOW + 1);
        }
        fixture.clock.advance(1);
        // The clock stands still meanwhile: no time is to be had.
        for number in 0..STORES {
            fixture.store(&format!("new-{number}"), 100, 0);
            if number.is_multiple_of(BEHIND) {
                fixture.maintain();
            }
        }
        let stats = fixture.cache.stats();
        assert_eq!(stats.evicted, 0, "{policy:?}: {stats:?}");
        assert!(stats.swept > u64::from(STORES) / 4, "{policy:?}: {stats:?}");
    }
}

/// Every other item expires, and then the memory of all of them is there for others.
#[test]
fn expired_items_make_room_where_nothing_may_be_evicted() {
    for policy in [Policy::Clock, Policy::CostClock, Policy::GdWheel, Policy::Lru] {
        let fixture = Fixture::with_eviction(policy, false);
        let put = |key: &str, expiry: u32| {
            let attributes = Attributes { expiry: Expiry::at(expiry), ..Attributes::default() };
            fixture.cache.put(key.as_bytes(), &[b'v'; 100], attributes, Condition::Always).is_ok()
        };
        let expiry = |number: u32| if number.is_multiple_of(2) { 0 } else { NOW + 5 };
        let filled = (0..).take_while(|&number| put(&format!("first-{number}"), expiry(number)));
        let filled = filled.count() as u32;
        assert!(filled > 80_000, "{policy:?}: {filled}");
        fixture.clock.advance(10);
        let stored = (0..filled / 2).filter(|number| {
            let is_stored = put(&format!("then-{number}"), 0);
            if number.is_multiple_of(BEHIND) {
                fixture.maintain();
                fixture.clock.advance(1);
            }
            is_stored
        });
        let stored = stored.count() as u32;
        assert!(
            stored > filled / 2 - filled / 50,
            "{policy:?}: {stored} of {} {:?}",
            filled / 2,
            fixture.cache.stats()
        );
        assert!((0..filled).step_by(2).all(|number| fixture.has(&format!("first-{number}"))));
    }
}

#[test]
fn where_nothing_expires_no_slab_is_looked_at() {
    let fixture = Fixture::new(Policy::Clock);
    for number in 0..300_000 {
        fixture.store(&format!("for-ever-{number}"), 100, 0);
        if number % BEHIND == 0 {
            fixture.clock.advance(1);
            fixture.maintain();
        }
    }
    let stats = fixture.cache.stats();
    assert!(stats.evicted > 100_000 && stats.swept_looks == 0, "{stats:?}");
}
