//! While the compressed zone is full, expired items there make room before any live one.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use larder::{Attributes, Cache, Condition, Expiry, image_format};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const MEMORY_BYTES: usize = 24 << 20;
/// Items that live for ever and are never read again.
const KEPT: u32 = 40_000;
/// The life of all others, in seconds, less than half of that in the hot zone, and how many of them
/// are stored in a second: of the items of both kinds in the zone four fifths are alive.
const LIFE_SECONDS: u32 = 60;
const STORES_A_SECOND: u32 = 1800;
const SECONDS: u32 = 240;
/// One in this many of these is touched at this age, to live for ever.
const TOUCHED_SHARE: u32 = 900;
const TOUCHED_SECONDS: u32 = 40;
/// Stores before the background comes, and the time goes on by a part of a second.
const BEHIND: u32 = 50;

struct Fixture {
    cache: Cache,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(true);
        Self { cache: builder.clock(clock.clone()).build().unwrap(), clock }
    }

    /// Returns the cache of another process on an image of this one.
    fn restored(&self) -> Self {
        let image = self.cache.save_image(Vec::new(), || true).unwrap().0;
        let head = image_format::open(&image).unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(MEMORY_BYTES).compress(true);
        let cache = builder.clock(clock.clone()).image(Some(head)).build().unwrap();
        cache.restore(&image, &head, 2).unwrap();
        Self { cache, clock }
    }

    /// Stores an item and reads it once, so that it is worth keeping.
    fn store(&self, key: &str, number: u32, expiry: u32) {
        let attributes = Attributes { expiry: Expiry::at(expiry), ..Attributes::default() };
        self.cache.put(key.as_bytes(), &value(number), attributes, Condition::Always).unwrap();
        assert!(self.has(key));
        if number.is_multiple_of(BEHIND) {
            self.maintain();
        }
    }

    fn has(&self, key: &str) -> bool {
        let session = self.cache.session();
        session.get(key.as_bytes(), self.cache.hash(key.as_bytes())).is_some()
    }

    /// Whether an item is alive, without a trace.
    fn is_alive(&self, key: &str) -> bool {
        let session = self.cache.session();
        session.peek(key.as_bytes(), self.cache.hash(key.as_bytes())).is_some()
    }

    /// Makes an item live for ever, if it is in the compressed zone.
    fn touch(&self, key: &str) -> bool {
        let session = self.cache.session();
        let hash = self.cache.hash(key.as_bytes());
        session.peek(key.as_bytes(), hash).is_some_and(|item| item.is_compressed())
            && session.touch(key.as_bytes(), hash, Expiry::NEVER) == Ok(true)
    }

    fn maintain(&self) {
        while self.cache.maintain() {}
    }
}

/// Returns a value of which a third does not compress.
fn value(number: u32) -> Vec<u8> {
    let mut random = Xorshift::seeded(number.into());
    let noise: String = (0..6).map(|_| format!("{:016x}", random.draw())).collect();
    format!(
        "{{\"id\":{number},\"title\":\"An item of the catalogue\",\"price\":\"12.00\",\
         \"currency\":\"EUR\",\"tags\":[\"new\",\"sale\"],\"signature\":\"{noise}\"}}"
    )
    .into_bytes()
}

#[test]
fn live_items_stay_in_the_zone_while_expired_ones_can_leave() {
    let fixture = Fixture::new();
    let (mut stored, mut touched) = (0, Vec::new());
    for second in 0..SECONDS {
        if second == LIFE_SECONDS {
            for number in 0..KEPT {
                fixture.store(&format!("kept-{number}"), number, 0);
            }
        }
        for _ in 0..STORES_A_SECOND {
            fixture.store(&format!("short-{stored}"), stored, NOW + second + LIFE_SECONDS);
            stored += 1;
            if second >= 2 * LIFE_SECONDS && stored.is_multiple_of(TOUCHED_SHARE) {
                let name = format!("short-{}", stored - TOUCHED_SECONDS * STORES_A_SECOND);
                touched.extend(fixture.touch(&name).then_some(name));
            }
            if stored.is_multiple_of(BEHIND) {
                fixture.clock.advance_us(u64::from(1_000_000 * BEHIND / STORES_A_SECOND));
            }
        }
    }
    let lost = |name: &str, numbers: std::ops::Range<u32>| {
        numbers.filter(|number| !fixture.is_alive(&format!("{name}-{number}"))).count()
    };
    // Those that are alive by now were stored in the last seconds.
    let alive = stored - (LIFE_SECONDS - 1) * STORES_A_SECOND;
    let lost = (lost("kept", 0..KEPT), lost("short", alive..stored));
    let stats = fixture.cache.stats();
    assert_eq!(lost, (0, 0), "{stats:?}");
    assert!(!fixture.is_alive("short-0"));
    assert!(touched.len() > 50 && touched.iter().all(|name| fixture.is_alive(name)));
    let zone = stats.compressed.unwrap().zone;
    // Leaves looked at in vain were not decoded for that.
    assert!(zone.expired_swept > 5 * zone.expiry_rewrites && zone.expiry_rewrites > 0, "{zone:?}");
}

#[test]
fn where_nothing_expires_no_block_is_looked_at() {
    let fixture = Fixture::new();
    for number in 0..260_000 {
        fixture.store(&format!("for-ever-{number}"), number, 0);
        if number.is_multiple_of(BEHIND) {
            fixture.clock.advance(1);
        }
    }
    let zone = fixture.cache.stats().compressed.unwrap().zone;
    assert!(zone.evicted > 1000, "{zone:?}");
    assert_eq!((zone.expiry_looks, zone.expiry_rewrites, zone.expiry_drops), (0, 0, 0));
}

#[test]
fn restored_items_are_swept_as_well() {
    let before = Fixture::new();
    for number in 0..200_000 {
        let expiry = if number % 2 == 0 { NOW + 1000 } else { 0 };
        before.store(&format!("old-{number}"), number, expiry);
    }
    let fixture = before.restored();
    let kept: Vec<String> = (0..200_000).map(|number| format!("old-{number}")).collect();
    fixture.clock.advance(1000);
    fixture.maintain();
    let kept: Vec<&String> = kept.iter().filter(|name| fixture.is_alive(name)).collect();
    assert!(kept.len() > 80_000, "{}", kept.len());
    let zone_of = |fixture: &Fixture| fixture.cache.stats().compressed.unwrap().zone;
    let evicted = zone_of(&fixture).evicted;
    // The room that is left at first differs from run to run.
    let mut stored = 0;
    while zone_of(&fixture).expired_swept < 1000 && stored < 200_000 {
        fixture.store(&format!("new-{stored}"), stored, 0);
        fixture.clock.advance_us(1000);
        stored += 1;
    }
    let zone = zone_of(&fixture);
    assert_eq!(zone.evicted, evicted, "{zone:?}");
    assert!(zone.expired_swept >= 1000, "{zone:?}");
    assert!(kept.iter().all(|name| fixture.is_alive(name)));
}

/// Regression: the compressed zone's counts stayed in the totals that `stats reset` sets to 0.
#[test]
fn totals_begin_anew_with_a_compressed_zone_too() {
    let fixture = Fixture::new();
    let mut stored = 0;
    let totals = || {
        let stats = fixture.cache.stats();
        let zone = stats.compressed.unwrap().zone;
        ([stats.mutations, stats.evicted, stats.expired, stats.swept], zone)
    };
    while totals().1.evicted < 1000 || totals().1.expired < 100 {
        assert!(stored < 600_000, "{:?}", totals());
        let expiry = if stored < 100_000 { NOW + 1000 } else { 0 };
        fixture.store(&format!("item-{stored}"), stored, expiry);
        stored += 1;
        if stored == 100_000 {
            fixture.clock.advance(1000);
        }
    }
    let (before, zone) = totals();
    assert!(before.iter().all(|&total| total > 0), "{before:?}");
    let demoted = || fixture.cache.stats().compressed.unwrap().demoted;
    let moved_before = demoted();
    assert!(moved_before > 0);
    fixture.cache.reset_stats();
    let (after, zone_after) = totals();
    assert_eq!(after, [0; 4]);
    assert_eq!((zone_after.evicted, zone_after.expired), (zone.evicted, zone.expired));
    assert_eq!(demoted(), moved_before);
    fixture.store("one-more", 1, 0);
    assert!((1..10).contains(&totals().0[0]), "{:?}", totals());
}
