//! Reads asked for ahead, for later requests: only of items that only flash has, and no item is
//! looked at for it; and items that cannot be promoted are removed.

use std::sync::Arc;

use io::device::Faults;
use larder::{Attributes, Cache, Condition, FlashSettings, Lookup, Stored};

use crate::fixture::{BOOT, Fixture, SHAPES, key, long};

const FILLERS: u32 = 120_000;

/// Returns the first fillers for which `is_it` is true.
fn fillers(count: usize, is_it: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let found: Vec<u32> = (1..=FILLERS).filter(|number| is_it(&key(*number))).take(count).collect();
    assert_eq!(found.len(), count);
    found
}

fn is_pending(cache: &Cache, key: &[u8]) -> bool {
    matches!(cache.session().look_up(key, cache.hash(key)), Lookup::Pending)
}

/// Returns how many reads a session asks for when a key is wanted ahead.
fn wanted(cache: &Cache, key: &[u8]) -> usize {
    let session = cache.session();
    session.want(key, cache.hash(key));
    assert_eq!(session.lower_bytes(), 0, "nothing is copied");
    session.take_wanted().len()
}

/// Regression: items in buffers were decoded and copied, all of them into one session, and counted
/// as hits.
#[test]
fn an_item_asked_for_ahead_is_not_looked_at() {
    for shape in SHAPES {
        let mut fixture = Fixture::shaped(shape, 64 << 20);
        fixture.fill(FILLERS);
        let cache = &fixture.cache;
        let before = cache.stats().flash.unwrap();
        let asked = (1..=FILLERS).filter(|number| wanted(cache, &key(*number)) > 0).count() as u64;
        let after = cache.stats().flash.unwrap();
        assert_eq!(format!("{:?}", after.tier), format!("{:?}", before.tier));
        assert_eq!((after.hits, after.promoted), (before.hits, before.promoted));
        // All that lie there but those that are in memory yet.
        assert!(asked > after.items / 2 && asked < after.items, "{asked}: {after:?}");
    }
}

/// Regression: a look that is no use counted as one: by it segments stayed that were not read, and
/// the value of the two areas' margins was counted twice. Missing items were read for it as well.
#[test]
fn a_watcher_leaves_no_trace_and_has_nothing_read() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.fill(FILLERS);
    let cache = &fixture.cache;
    let stats = || format!("{:?}", cache.stats().flash.unwrap());
    let before = stats();
    for number in 1..=FILLERS {
        let (key, session) = (key(number), cache.session());
        // Items found in the buffers are not counted either.
        session.peek_here(&key, cache.hash(&key));
        assert_eq!(session.take_wanted().len(), 0, "filler {number}");
    }
    assert_eq!(stats(), before);
    for number in fillers(20, |key| is_pending(cache, key)) {
        let (key, session) = (key(number), cache.session());
        let hash = cache.hash(&key);
        assert!(matches!(session.peek_here(&key, hash), Lookup::Pending));
        assert!(matches!(session.peek_anywhere(&key, hash), Lookup::Pending));
        let wanted = session.take_wanted();
        drop(session);
        let arrived = cache.read_wanted_now(wanted);
        let (before, session) = (stats(), cache.session());
        session.deliver(arrived);
        assert!(matches!(session.peek_here(&key, hash), Lookup::Hit(_)), "filler {number}");
        assert!(matches!(session.peek_anywhere(&key, hash), Lookup::Hit(_)));
        assert_eq!(stats(), before);
        assert!(matches!(session.look_up(&key, hash), Lookup::Hit(_)));
        assert_ne!(stats(), before, "a reader's hit is counted");
    }
}

#[test]
fn a_result_that_has_arrived_is_not_asked_for_again() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.fill(FILLERS);
    let cache = &fixture.cache;
    for number in fillers(20, |key| is_pending(cache, key)) {
        let (key, session) = (key(number), cache.session());
        session.want(&key, cache.hash(&key));
        let wanted = session.take_wanted();
        drop(session);
        assert_eq!(wanted.len(), 1, "filler {number}");
        let arrived = cache.read_wanted_now(wanted);
        let session = cache.session();
        session.deliver(arrived);
        session.want(&key, cache.hash(&key));
        assert_eq!((session.lower_bytes(), session.take_wanted().len()), (0, 0));
        assert!(matches!(session.look_up(&key, cache.hash(&key)), Lookup::Hit(_)));
    }
}

/// Regression: it was counted again by each look at its result.
#[test]
fn a_read_that_failed_is_counted_once() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.fill(FILLERS);
    let cache = &fixture.cache;
    let wanted = |pair: &[u32]| {
        let session = cache.session();
        pair.iter().for_each(|number| session.want(&key(*number), cache.hash(&key(*number))));
        session.take_wanted()
    };
    let numbers = fillers(2000, |key| is_pending(cache, key));
    let mut pairs = numbers.windows(2).map(|pair| (pair, wanted(pair)));
    let (pair, wanted) = pairs.find(|(_, wanted)| wanted.len() == 1).expect("two of a unit");
    let failed = || cache.stats().flash.unwrap().reads_failed;
    let errors = cache.stats().flash.unwrap().io_errors();
    fixture.device.set_faults(Faults { read_error: 1.0, ..Faults::default() });
    let arrived = cache.read_wanted_now(wanted);
    let session = cache.session();
    session.deliver(arrived);
    for number in pair {
        let (key, hash) = (key(*number), cache.hash(&key(*number)));
        assert!(matches!(session.peek_anywhere(&key, hash), Lookup::Miss));
        assert!(matches!(session.look_up(&key, hash), Lookup::Miss));
        assert_eq!(failed(), 1);
    }
    let counted = cache.stats().flash.unwrap().io_errors() - errors;
    assert_eq!(counted, 1, "the alert stands on this number");
}

/// Regression: an item that was promoted and then demoted to the compressed zone has a word for its
/// row on flash as well, and was read from the device.
#[test]
fn an_item_in_the_compressed_zone_is_not_asked_for() {
    let mut fixture = Fixture::new(64 << 20);
    fixture.fill(FILLERS);
    let numbers = fillers(2000, |key| is_pending(&fixture.cache, key));
    for some in numbers.chunks(16) {
        for number in some {
            // The second read promotes it.
            (0..2).for_each(|_| assert!(fixture.cache.get(&key(*number)).is_some()));
        }
        fixture.maintain();
    }
    let mut compressed = 0;
    for _ in 0..100 {
        fixture.fill(200);
        for number in &numbers {
            let (cache, key) = (&fixture.cache, key(*number));
            let session = cache.session();
            if session.peek(&key, cache.hash(&key)).is_some() {
                // An item that is not in the hot zone is copied.
                compressed += u32::from(session.lower_bytes() > 0);
                assert_eq!(wanted(cache, &key), 0, "filler {number}");
            }
        }
    }
    assert!(compressed > 100, "{compressed} looks to mean anything");
}

/// Regression: after a restart with a lower limit of an item, such an item could be read for ever,
/// and every change of it was refused as too large, however short.
#[test]
fn an_item_too_large_for_the_hot_zone_is_removed_when_wanted() {
    let mut fixture = Fixture::new(64 << 20);
    let (large, value) = (|number: u32| long(&format!("large-{number}")), [7; 2000]);
    for number in 0..1000 {
        fixture.put(&large(number), &value, Condition::Always);
        assert!(fixture.cache.get(&large(number)).is_some(), "what was read is wanted on flash");
        fixture.maintain();
    }
    fixture.fill(FILLERS);
    fixture.cache.close_flash().unwrap();
    let device = Arc::new(fixture.device.reopened(2, Faults::default()));
    drop(fixture.cache);
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device, BOOT) };
    let builder = Cache::builder().memory_bytes(8 << 20).item_bytes_max(1024).flash(flash);
    let cache = builder.clock(fixture.clock).build().unwrap();
    while cache.maintain() {}
    let key = (0..1000).map(large).find(|key| is_pending(&cache, key)).expect("most of them");
    let (get, hash) = (|| cache.get(&key), cache.hash(&key));
    (0..3).for_each(|_| assert_eq!(get().as_deref(), Some(&value[..]), "who only reads it"));
    let put = |when| cache.put(&key, b"v", Attributes::default(), when);
    assert_eq!(put(Condition::Present), Ok(Stored::NotStored));
    assert_eq!(get(), None);
    assert!(matches!(put(Condition::Absent), Ok(Stored::Stored { .. })));
    let seen = cache.with_memory(|session| Ok(session.get_with_cas(&key, hash)?.is_some()));
    assert_eq!(seen, Ok(true));
}

#[test]
fn the_memory_for_reads_follows_the_limit() {
    let fixture = Fixture::new(64 << 20);
    let bytes_max = || fixture.cache.stats().flash.unwrap().fetch_bytes_max;
    let at_the_start = bytes_max();
    for (memory_bytes, wanted) in [(256 << 20, 8 << 20), (8 << 20, at_the_start)] {
        fixture.cache.set_memory_bytes(memory_bytes).unwrap();
        assert_eq!(bytes_max(), wanted);
    }
    assert!(at_the_start < 8 << 20);
}
