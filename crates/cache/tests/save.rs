//! Saving memory to flash: the next process finds the items that a clean stop leaves, with all that
//! belongs to them, and none that is older than the last version.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Attributes, Cache, Condition, Expiry, Fetch, FlashSettings, IndexKind, Remove, SaveEnd, Saved,
    Stored,
};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const BOOT: [u8; 16] = [7; 16];

struct Fixture {
    cache: Cache,
    clock: Arc<ManualClock>,
    device: Arc<FakeDevice>,
}

impl Fixture {
    fn new(flash_bytes: usize) -> Self {
        let pages = (flash_bytes / PAGE_BYTES) as u64;
        Self::on(FakeDevice::new(pages, 1, Faults::default()))
    }

    fn on(device: FakeDevice) -> Self {
        Self::indexed_by(IndexKind::Cuckoo, device)
    }

    fn indexed_by(index: IndexKind, device: FakeDevice) -> Self {
        let (device, clock) = (Arc::new(device), Arc::new(ManualClock::new(NOW)));
        let flash = FlashSettings { threads: 1, ..FlashSettings::new(device.clone(), BOOT) };
        let builder = Cache::builder().memory_bytes(8 << 20).compress(true).flash(flash);
        let builder = builder.index(index);
        Self { cache: builder.clock(clock.clone()).build().unwrap(), clock, device }
    }

    /// Returns another process on what this one has left.
    fn followed(self) -> Self {
        let after = Self::on(self.device.reopened(2, Faults::default()));
        after.maintain();
        assert!(!after.cache.stats().flash.unwrap().recovering);
        after
    }

    fn maintain(&self) {
        while self.cache.maintain() {}
    }

    fn save(&self) -> Saved {
        self.cache.save_to_flash(|| true)
    }

    fn put(&self, number: u32, version: u32) {
        let stored = self.cache.put(
            &key(number),
            &value(number, version),
            Attributes::default(),
            Condition::Always,
        );
        assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");
    }

    /// Puts items until some of them are in every tier.
    fn fill(&self, items: u32) {
        for number in 0..items {
            self.put(number, 1);
            assert!(self.cache.get(&key(number)).is_some());
            if number % 64 == 0 {
                self.maintain();
            }
        }
        self.maintain();
    }

    /// Returns how many items are there; each has the version that it should have.
    fn found(&self, items: u32, version: impl Fn(u32) -> u32) -> u64 {
        let found = |number: &u32| {
            let there = self.cache.get(&key(*number));
            let wanted = value(*number, version(*number));
            assert!(there.as_ref().is_none_or(|there| *there == wanted), "{number}: {there:?}");
            there.is_some()
        };
        (0..items).filter(found).count() as u64
    }

    fn is_there(&self, key: &[u8]) -> bool {
        self.cache.get(key).is_some()
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("item-{number}").into_bytes()
}

/// Returns a few hundred bytes that compress, other ones for each version.
fn value(number: u32, version: u32) -> Vec<u8> {
    format!(
        "{{\"id\":{number},\"version\":{version},\"title\":\"An item of the catalogue\",\
         \"price\":\"{}.{:02}\",\"currency\":\"EUR\",\"tags\":[\"new\",\"sale\",\"shop-{}\"]}}",
        number % 977,
        number % 100,
        number % 37
    )
    .into_bytes()
}

/// Returns bytes that do not compress.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Xorshift::seeded(seed + 1);
    (0..bytes).map(|_| random.draw() as u8).collect()
}

#[test]
fn items_that_fit_are_there_unchanged_after_a_clean_stop() {
    let before = Fixture::new(64 << 20);
    let attributes = |number: u32| Attributes {
        flags: number,
        expiry: if number.is_multiple_of(2) {
            Expiry::NEVER
        } else {
            Expiry::at(NOW + 100 + number)
        },
        cost_us: number * 1000,
        ..Attributes::default()
    };
    // The longest lie in several chunks.
    let bytes = |number: u32| noise(number.into(), (number * number) as usize);
    for number in 0..200 {
        let stored =
            before.cache.put(&key(number), &bytes(number), attributes(number), Condition::Always);
        assert!(matches!(stored, Ok(Stored::Stored { .. })));
    }
    let hash = before.cache.hash(&key(7));
    let invalidate = Remove { invalidate: true, ..Remove::default() };
    before.cache.session().remove(&key(7), hash, &invalidate).unwrap();
    let saved = before.save();
    let total: u64 = (0..200).map(|number| (key(number).len() + bytes(number).len()) as u64).sum();
    assert_eq!(
        (saved.items, saved.bytes, saved.left, saved.end),
        (200, total, 0, SaveEnd::Complete)
    );
    before.cache.close_flash().unwrap();
    let after = before.followed();
    for number in 0..200 {
        let (key, fetch) = (key(number), Fetch { with_history: true, ..Fetch::default() });
        let hash = after.cache.hash(&key);
        let found = after.cache.with_memory(|session| {
            let (item, tokens) = session.fetch(&key, hash, &fetch)?;
            Ok(item.map(|it| (it.to_vec(), it.flags(), it.expiry(), it.cost_us(), tokens.stale)))
        });
        let (found, flags, expiry, cost_us, is_stale) = found.unwrap().unwrap();
        assert!(found == bytes(number) && flags == number, "{number}");
        assert_eq!(expiry, attributes(number).expiry, "{number}");
        assert!(cost_us.abs_diff(number * 1000) <= number * 100, "{number}: {cost_us}");
        assert_eq!(is_stale, number == 7);
    }
}

#[test]
fn the_compressed_zone_is_saved_too() {
    let before = Fixture::new(64 << 20);
    before.fill(60_000);
    let stats = before.cache.stats();
    let (all, on_flash) = (stats.items, stats.flash.unwrap().items);
    let below = stats.compressed.unwrap().zone.items as u64;
    assert!(below > 1000 && all > on_flash + 10_000, "{stats:?}");
    let saved = before.save();
    assert_eq!((saved.end, saved.left), (SaveEnd::Complete, 0), "{saved:?}");
    assert_eq!(before.cache.stats().compressed.unwrap().zone.items, 0);
    before.cache.close_flash().unwrap();
    let after = before.followed();
    let found = after.found(60_000, |_| 1);
    // One in millions is lost to another that cannot be told from it.
    assert!(found + 2 >= all, "{found} of {all}; {saved:?}");
}

#[test]
fn expired_and_too_long_items_are_not_saved() {
    let before = Fixture::new(32 << 20);
    let cache = &before.cache;
    let expires = Attributes { expiry: Expiry::at(NOW + 10), ..Attributes::default() };
    cache.put(b"expires", b"v", expires, Condition::Always).unwrap();
    cache.put(b"long", &noise(1, 500_000), Attributes::default(), Condition::Always).unwrap();
    cache.put(b"kept", b"v", Attributes::default(), Condition::Always).unwrap();
    before.clock.advance(10);
    let saved = before.save();
    assert_eq!((saved.items, saved.too_large, saved.end), (1, 1, SaveEnd::Complete), "{saved:?}");
    cache.close_flash().unwrap();
    let after = before.followed();
    assert_eq!(after.cache.stats().items, 1);
    assert!(after.is_there(b"kept"));
    after.cache.flush(None);
    assert_eq!(after.save().items, 0, "all of it is flushed");
    after.cache.close_flash().unwrap();
    assert!(!after.followed().is_there(b"kept"));
}

#[test]
fn saving_ends_before_it_would_collect_what_it_has_saved() {
    let before = Fixture::new(5 << 20);
    for number in 0..6000 {
        let bytes = noise(number.into(), 1000);
        before.cache.put(&key(number), &bytes, Attributes::default(), Condition::Always).unwrap();
    }
    // A store may have demoted one.
    let on_flash = before.cache.stats().flash.unwrap().items;
    let saved = before.save();
    assert_eq!(saved.end, SaveEnd::Full, "{saved:?}");
    assert!(saved.bytes > 2 << 20 && saved.left > 1000, "{saved:?}");
    before.cache.close_flash().unwrap();
    let after = before.followed();
    let found = (0..6000).filter(|&number| after.is_there(&key(number))).count() as u64;
    assert_eq!(found, on_flash + saved.items, "{saved:?}");
}

/// Regression: small items run out of words of the index long before they run out of flash. Saving
/// ended with the first item beyond, though the items left out were used later than all that were
/// there.
#[test]
fn saved_items_take_the_words_of_older_ones() {
    // A tree has half as many.
    let pages = ((64 << 20) / PAGE_BYTES) as u64;
    let before = Fixture::indexed_by(IndexKind::Tree, FakeDevice::new(pages, 1, Faults::default()));
    before.fill(300_000);
    let flash = before.cache.stats().flash.unwrap();
    assert!(flash.tier.collected > 0 && flash.tier.segments_free > 100, "{flash:?}");
    let saved = before.save();
    assert_eq!((saved.end, saved.left, saved.unindexed), (SaveEnd::Complete, 0, 0), "{saved:?}");
    before.cache.close_flash().unwrap();
    let after = before.followed();
    let latest = 300_000 - saved.items as u32..300_000;
    let found = latest.clone().filter(|&number| after.is_there(&key(number))).count();
    assert!(found as u64 * 100 > saved.items * 99, "{found} of the latest; {saved:?}");
}

/// Regression: it recovered everything first, and where its time had passed by then it saved
/// nothing.
#[test]
fn memory_is_saved_before_recovery_ends_and_loses_no_items_by_that() {
    let first = Fixture::new(24 << 20);
    first.fill(20_000);
    first.save();
    first.cache.close_flash().unwrap();
    let second = Fixture::on(first.device.reopened(2, Faults::default()));
    let is_recovering = |fixture: &Fixture| fixture.cache.stats().flash.unwrap().recovering;
    assert!(is_recovering(&second));
    (0..500).for_each(|number| second.put(number, 2));
    let saved = second.save();
    assert_eq!((saved.end, saved.items, saved.left), (SaveEnd::Complete, 500, 0), "{saved:?}");
    assert!(is_recovering(&second), "nothing called for it");
    second.cache.close_flash().unwrap();
    let third = second.followed();
    let version = |number| if number < 500 { 2 } else { 1 };
    assert_eq!(third.found(500, version), 500);
    let found = third.found(20_000, version);
    assert!(found > 19_000, "{found}: a few have the bit of a key that changed");
}

/// Older versions of all items lie on flash when the newer ones are saved, some items were removed,
/// and saving, or the whole process, ends somewhere in the middle.
#[test]
fn wherever_saving_ends_no_older_value_comes_back() {
    let first = Fixture::new(24 << 20);
    first.fill(20_000);
    first.save();
    first.cache.close_flash().unwrap();
    let second = first.followed();
    assert!(second.found(20_000, |_| 1) > 19_000);
    (0..20_000).filter(|number| number % 3 == 0).for_each(|number| second.put(number, 2));
    for number in (0..20_000).filter(|number| number % 7 == 1) {
        assert!(second.cache.remove(&key(number)));
    }
    second.maintain();
    let state = second.device.reopened(3, Faults::default());
    drop(second.cache);
    for end in 0..14_u32 {
        let mut process = Fixture::on(state.reopened(end.into(), Faults::default()));
        process.maintain();
        (0..20_000).filter(|number| number % 5 == 2).for_each(|number| process.put(number, 3));
        let mut looks = 0;
        let saved = if end % 2 == 0 {
            process.device.kill_at(u64::from(1 + end));
            process.save()
        } else {
            process.cache.save_to_flash(|| {
                looks += 1;
                looks <= end / 2
            })
        };
        assert!(end % 2 == 0 || saved.end == SaveEnd::Interrupted, "{saved:?}");
        if end % 4 == 1 {
            process.cache.close_flash().unwrap();
        }
        process = process.followed();
        for number in 0..20_000 {
            let Some(found) = process.cache.get(&key(number)) else { continue };
            let version = match number {
                _ if number % 5 == 2 => 3,
                _ if number % 7 == 1 => 0,
                _ if number % 3 == 0 => 2,
                _ => 1,
            };
            assert!(found == value(number, version), "{number} after {end}, not {version}");
        }
    }
}
