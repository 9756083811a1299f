//! Items that expire between two seconds: to the millisecond, in every tier and after every change.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::device::{FakeDevice, Faults, PAGE_BYTES};
use io::{Clock, ManualClock};
use larder::{
    Arithmetic, Attributes, Cache, Condition, DumpCursor, Expiry, Fetch, FlashSettings, Lookup,
    Refusal, Remove, Session, Side, Store, Stored,
};

const NOW: u32 = 1_800_000_000;
const NOW_MS: u64 = NOW as u64 * 1000;
/// No item needs more others to leave the hot zone.
const FILLERS_MAX: u32 = 1_000_000;

fn hot() -> (Cache, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(NOW));
    (Cache::builder().memory_bytes(32 << 20).clock(clock.clone()).build().unwrap(), clock)
}

fn put(cache: &Cache, key: &[u8], expiry: Expiry) {
    let attributes = Attributes { flags: 3, expiry, cost_us: 1000, ..Attributes::default() };
    let stored = cache.put(key, b"5", attributes, Condition::Always).unwrap();
    assert!(matches!(stored, Stored::Stored { .. }));
}

/// Returns the expiry of the key's item, without a trace; `None` if it is not found.
fn expiry(cache: &Cache, key: &[u8]) -> Option<Expiry> {
    let peek = |session: &Session<'_>| match session.peek_anywhere(key, cache.hash(key)) {
        Lookup::Hit(item) => Ok(Some(item.expiry())),
        Lookup::Miss => Ok(None),
        Lookup::Pending => Err(Refusal::Pending),
    };
    cache.with_memory(peek).unwrap()
}

/// Moves the clock to `unix_ms`.
fn advance_to(clock: &ManualClock, unix_ms: u64) {
    clock.advance_us((unix_ms - clock.unix_ms()) * 1000);
}

#[test]
fn a_millisecond_is_kept_as_it_was_given() {
    for ms in [1, 999, 1000, 1001, NOW_MS, NOW_MS + 1, NOW_MS + 999, u64::from(u32::MAX) * 1000] {
        let expiry = Expiry::at_ms(ms);
        assert_eq!(expiry.unix_ms(), Some(ms));
        assert!(expiry.is_expired(ms) && !expiry.is_expired(ms - 1), "{ms}");
        assert_eq!(u64::from(expiry.second()), ms.div_ceil(1000));
    }
    assert_eq!(Expiry::at_ms(u64::MAX), Expiry::at(u32::MAX));
    assert!(Expiry::at_ms(0).is_expired(NOW_MS));
    assert!(Expiry::NEVER.unix_ms().is_none() && !Expiry::NEVER.is_expired(u64::MAX));
}

/// A clock whose seconds are behind its milliseconds, as the kernel's coarse clock is.
#[derive(Debug)]
struct Lagging(ManualClock);

impl Clock for Lagging {
    fn unix_seconds(&self) -> u32 {
        ((self.0.unix_ms() - 4) / 1000) as u32
    }

    fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }
}

/// Regression: an item that was given no time at all just after a second had begun (`EXPIRE key 0`)
/// stayed until the coarse clock had seen that second begin, too.
#[test]
fn an_expired_item_is_gone_while_the_coarse_clock_is_behind() {
    for after_ms in [0, 1, 3] {
        let clock = Arc::new(Lagging(ManualClock::new(NOW)));
        let cache = Cache::builder().memory_bytes(32 << 20).clock(clock.clone()).build().unwrap();
        clock.0.advance_us(after_ms * 1000);
        put(&cache, b"k", Expiry::at_ms(clock.unix_ms() + 1));
        assert!(cache.get(b"k").is_some(), "{after_ms}");
        put(&cache, b"k", Expiry::at_ms(clock.unix_ms()));
        assert!(cache.get(b"k").is_none(), "{after_ms}");
    }
}

#[test]
fn an_item_is_there_until_its_millisecond() {
    let (cache, clock) = hot();
    for (at, ms) in [1, 500, 999, 1000, 1001, 2500].into_iter().enumerate() {
        let began_ms = clock.unix_ms();
        // Wherever in a second it begins.
        let key = format!("key {at}");
        put(&cache, key.as_bytes(), Expiry::at_ms(began_ms + ms));
        advance_to(&clock, began_ms + ms - 1);
        assert!(cache.get(key.as_bytes()).is_some(), "{ms}");
        advance_to(&clock, began_ms + ms);
        assert!(cache.get(key.as_bytes()).is_none(), "{ms}");
    }
    assert_eq!((cache.stats().items, cache.stats().found_expired), (0, 6));
}

#[test]
fn a_touch_changes_every_kind_of_expiry_to_every_other() {
    let (cache, clock) = hot();
    let ms = |ms: u64| Expiry::at_ms(NOW_MS + ms);
    let kinds = [Expiry::NEVER, Expiry::at(NOW + 9), ms(9001), ms(9999), ms(12_345)];
    for before in kinds {
        for after in kinds {
            put(&cache, b"k", before);
            let hash = cache.hash(b"k");
            let cas = cache.session().get(b"k", hash).unwrap().cas();
            assert_eq!(cache.session().touch(b"k", hash, after), Ok(true));
            let session = cache.session();
            let item = session.get(b"k", hash).unwrap();
            let seen = (item.expiry(), item.flags(), item.cost_us(), item.to_vec());
            assert_eq!(seen, (after, 3, 1000, b"5".to_vec()), "{before:?}");
            assert_eq!(item.cas(), cas, "a touch is no mutation");
        }
    }
    put(&cache, b"k", ms(9001));
    clock.advance_us(500_000);
    let hash = cache.hash(b"k");
    assert_eq!(cache.session().touch(b"k", hash, ms(499)), Ok(true), "into the past");
    assert_eq!(cache.session().touch(b"k", hash, Expiry::NEVER), Ok(false));
}

#[test]
fn a_change_of_a_value_keeps_its_expiry() {
    let (cache, clock) = hot();
    let over = Expiry::at_ms(NOW_MS + 4321);
    let hash = cache.hash(b"k");
    let concat = |session: &Session<'_>| {
        let mut draft = cache.reserve(b"k", Attributes::default(), 1)?;
        draft.write(b"0");
        let store = Store::when(Condition::Present);
        session.concat(draft, Side::Back, store, None).map(drop).map_err(|(_, refusal)| refusal)
    };
    let count =
        |session: &Session<'_>| session.arithmetic(b"k", hash, &Arithmetic::INCREMENT).map(drop);
    let invalidate = |session: &Session<'_>| {
        let remove = Remove { invalidate: true, ..Remove::default() };
        session.remove(b"k", hash, &remove).map(drop)
    };
    for change in 0..3 {
        put(&cache, b"k", over);
        match change {
            0 => cache.with_memory(concat).unwrap(),
            1 => cache.with_memory(count).unwrap(),
            _ => cache.with_memory(invalidate).unwrap(),
        }
        assert_eq!(expiry(&cache, b"k"), Some(over));
    }
    let vivify = Fetch { vivify: Some(over), ..Fetch::default() };
    cache.session().fetch(b"new", cache.hash(b"new"), &vivify).unwrap();
    advance_to(&clock, NOW_MS + 4320);
    assert_eq!((expiry(&cache, b"k"), expiry(&cache, b"new")), (Some(over), Some(over)));
    advance_to(&clock, NOW_MS + 4321);
    assert_eq!((expiry(&cache, b"k"), expiry(&cache, b"new")), (None, None));
}

/// A late store that keeps the expiry of the newer item may expire a little before it, never after.
#[test]
fn a_late_store_does_not_outlive_what_it_replaces() {
    for (before, late) in [(4321, 60_000), (4321, 60_001), (4000, 60_001)] {
        let (cache, _) = hot();
        put(&cache, b"k", Expiry::NEVER);
        let old = cache.session().get(b"k", cache.hash(b"k")).unwrap().cas();
        put(&cache, b"k", Expiry::at_ms(NOW_MS + before));
        let expiry_of_late = Expiry::at_ms(NOW_MS + late);
        let attributes = Attributes { expiry: expiry_of_late, ..Attributes::default() };
        let stored = cache.put(b"k", b"late", attributes, Condition::UniqueOrStale(old)).unwrap();
        assert!(matches!(stored, Stored::Stored { .. }), "{stored:?}");
        assert_eq!(expiry(&cache, b"k"), Some(Expiry::at(NOW + 4)));
        assert_eq!(cache.get(b"k").as_deref(), Some(&b"late"[..]));
    }
}

#[test]
fn a_late_store_whose_time_was_over_long_ago_does_not_stay_for_ever() {
    let (cache, _) = hot();
    put(&cache, b"k", Expiry::NEVER);
    let unique = cache.session().get(b"k", cache.hash(b"k")).unwrap().cas();
    let attributes = Attributes { expiry: Expiry::at_ms(500), ..Attributes::default() };
    let stored = cache.put(b"k", b"late", attributes, Condition::UniqueOrStale(unique)).unwrap();
    assert!(matches!(stored, Stored::Stored { .. }), "{stored:?}");
    assert_eq!(cache.get(b"k"), None);
}

#[test]
fn an_item_in_the_compressed_zone_is_over_in_its_millisecond() {
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Cache::builder().memory_bytes(16 << 20).compress(true);
    let cache = builder.clock(clock.clone()).build().unwrap();
    let over = Expiry::at_ms(NOW_MS + 7250);
    put(&cache, b"k", over);
    assert!(cache.get(b"k").is_some());
    let is_compressed = || {
        let session = cache.session();
        session.peek(b"k", cache.hash(b"k")).is_some_and(|item| item.is_compressed())
    };
    let mut fillers = 0;
    while !is_compressed() {
        fillers += 1;
        assert!(fillers < FILLERS_MAX, "the item never went down: {:?}", cache.stats());
        let value = format!("an item of the catalogue, number {fillers}, in stock, in stock");
        cache.set(format!("filler {fillers}").as_bytes(), value.as_bytes(), Expiry::NEVER).unwrap();
        if fillers % 64 == 0 {
            while cache.maintain() {}
        }
    }
    let listed = || {
        let mut cursor = DumpCursor::default();
        let mut is_there = false;
        while cache.session().dump(&mut cursor, 100, |item| is_there |= item.key() == b"k")
            != larder::Dumped::End
        {}
        is_there
    };
    advance_to(&clock, NOW_MS + 7249);
    assert_eq!(expiry(&cache, b"k"), Some(over));
    assert!(is_compressed() && listed());
    advance_to(&clock, NOW_MS + 7250);
    assert_eq!(expiry(&cache, b"k"), None);
    assert!(!listed() && cache.get(b"k").is_none());
    let stored = cache.put(b"k", b"v", Attributes::default(), Condition::Present).unwrap();
    assert_eq!(stored, Stored::NotStored);
}

#[test]
fn an_item_on_flash_is_over_in_its_millisecond() {
    let device = FakeDevice::new(((64 << 20) / PAGE_BYTES) as u64, 1, Faults::default());
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(Arc::new(device), [7; 16]) };
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Cache::builder().memory_bytes(8 << 20).flash(flash);
    let cache = builder.clock(clock.clone()).build().unwrap();
    // An item that expires within a minute does not go there.
    let over = Expiry::at_ms(NOW_MS + 120_250);
    put(&cache, b"k", over);
    let saved = cache.save_to_flash(|| true);
    assert_eq!((saved.items, saved.left), (1, 0));
    advance_to(&clock, NOW_MS + 120_249);
    assert_eq!(expiry(&cache, b"k"), Some(over));
    advance_to(&clock, NOW_MS + 120_250);
    assert_eq!(expiry(&cache, b"k"), None);
}
