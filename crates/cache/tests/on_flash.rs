//! Items on flash: how much of them may be in memory for waiting requests, how they are looked at
//! without a trace, and how they are listed.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use io::ManualClock;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Attributes, Cache, Condition, DumpCursor, Dumped, Expiry, FlashSettings, FlashTierStats,
    Lookup, Session,
};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
/// The length of a value whose unit has many pages.
const LONG_BYTES: usize = 100_000;
/// The most rounds that a request needs.
const ROUNDS_MAX: usize = 200;

/// Returns a cache all of whose items are on flash.
fn cache(items: u32, bytes: usize) -> (Cache, Arc<ManualClock>) {
    let device = FakeDevice::new(((64 << 20) / PAGE_BYTES) as u64, 1, Faults::default());
    let flash = FlashSettings { threads: 2, ..FlashSettings::new(Arc::new(device), [7; 16]) };
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Cache::builder().memory_bytes(8 << 20).compress(true).flash(flash);
    let cache = builder.clock(clock.clone()).build().unwrap();
    for number in 0..items {
        let expiry = if number % 5 == 3 { over(number) } else { Expiry::NEVER };
        let attributes = Attributes { flags: number, expiry, ..Attributes::default() };
        cache.put(&key(number), &noise(number, bytes), attributes, Condition::Always).unwrap();
    }
    assert_eq!(cache.save_to_flash(|| true).left, 0);
    assert_eq!(flash_of(&cache).items, u64::from(items));
    (cache, clock)
}

fn flash_of(cache: &Cache) -> FlashTierStats {
    cache.stats().flash.unwrap()
}

/// Returns an expiry within the hundredth second, at its end or a little before.
fn over(number: u32) -> Expiry {
    Expiry::at_ms(u64::from(NOW) * 1000 + 100_000 - u64::from(number % 2) * 300)
}

fn key(number: u32) -> Vec<u8> {
    format!("item-{number}").into_bytes()
}

fn noise(number: u32, bytes: usize) -> Vec<u8> {
    let mut random = Xorshift::seeded(u64::from(number) + 1);
    (0..bytes).map(|_| random.draw() as u8).collect()
}

#[test]
fn reads_for_all_waiting_requests_stay_within_their_limit() {
    let (cache, _) = cache(40, LONG_BYTES);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                for number in 0..40 {
                    let number = (number * 7 + thread * 5) % 40;
                    assert!(cache.get(&key(number)).unwrap() == noise(number, LONG_BYTES));
                }
            });
        }
    });
    let flash = flash_of(&cache);
    assert_eq!((flash.fetch_bytes, flash.fetches_waiting), (0, 0));
    assert!((1..=flash.fetch_bytes_max).contains(&flash.fetch_bytes_peak), "{flash:?}");
    assert!(flash.memory_bytes > flash.fetch_bytes_peak);
}

#[test]
fn a_session_that_wants_more_than_there_may_be_gets_it_bit_by_bit() {
    let (cache, _) = cache(40, LONG_BYTES);
    let bytes_max = flash_of(&cache).fetch_bytes_max as usize;
    assert!(bytes_max < 10 * LONG_BYTES);
    let (mut arrived, mut next) = (Vec::new(), 0);
    for _ in 0..ROUNDS_MAX {
        let session = cache.session();
        session.deliver(arrived.drain(..));
        let mut is_pending = false;
        let first = next;
        for number in first..40 {
            match session.look_up(&key(number), cache.hash(&key(number))) {
                Lookup::Hit(item) if !is_pending => {
                    assert!(item.to_vec() == noise(number, LONG_BYTES));
                    next = number + 1;
                }
                Lookup::Hit(_) => {}
                Lookup::Pending => is_pending = true,
                Lookup::Miss => panic!("{number} is there"),
            }
        }
        let wanted = session.take_wanted();
        drop(session);
        if !is_pending {
            break;
        }
        arrived = cache.read_wanted_now(wanted);
        let flash = flash_of(&cache);
        assert!(!arrived.is_empty() && flash.fetch_bytes <= flash.fetch_bytes_max, "{flash:?}");
    }
    assert_eq!(next, 40);
    assert_eq!(flash_of(&cache).fetch_bytes, 0);
}

#[test]
fn a_look_without_a_trace_waits_for_flash_and_leaves_the_item_there() {
    let (cache, clock) = cache(1000, 1000);
    let peek = |number| {
        cache.with_memory(|session| {
            match session.peek_anywhere(&key(number), cache.hash(&key(number))) {
                Lookup::Hit(item) => Ok(Some((item.to_vec(), item.flags()))),
                Lookup::Miss => Ok(None),
                Lookup::Pending => Err(larder::Refusal::Pending),
            }
        })
    };
    // More often than it takes to promote an item.
    for _ in 0..3 {
        for number in (0..1000).step_by(7) {
            assert_eq!(peek(number).unwrap(), Some((noise(number, 1000), number)));
        }
    }
    let flash = flash_of(&cache);
    assert!(flash.reads > 100);
    assert_eq!((flash.hits, flash.promoted, flash.items), (0, 0, 1000));
    clock.advance(100);
    assert_eq!(peek(3).unwrap(), None, "its time is over");
    assert_eq!(peek(2000).unwrap(), None);
}

/// Regression: each get of it read it once more, until its segment was collected.
#[test]
fn an_item_expired_on_flash_is_read_once_and_then_gone() {
    let (cache, clock) = cache(1000, 1000);
    let is_on_device = |number: &u32| {
        let look =
            |key: &[u8]| matches!(cache.session().look_up(key, cache.hash(key)), Lookup::Pending);
        look(&key(*number))
    };
    let expiring: Vec<u32> = (3..1000).step_by(5).filter(is_on_device).take(3).collect();
    let [first, second, third] = expiring[..] else { panic!("many are on the device") };
    clock.advance(100);
    let before = flash_of(&cache);
    assert_eq!((before.reads, before.items), (0, 1000));
    for _ in 0..3 {
        assert_eq!(cache.get(&key(first)), None);
        let flash = flash_of(&cache);
        assert_eq!((flash.reads, flash.items), (1, 999));
        assert_eq!(cache.stats().found_expired, 1);
    }
    // The same for a request that promotes it.
    for _ in 0..3 {
        let gets = cache.with_memory(|session| {
            let found = session.get_with_cas(&key(second), cache.hash(&key(second)))?;
            Ok(found.is_some())
        });
        assert_eq!(gets, Ok(false));
        let flash = flash_of(&cache);
        assert_eq!((flash.reads, flash.items), (2, 998));
        assert_eq!(cache.stats().found_expired, 2);
    }
    // A look without a trace leaves it.
    for reads in 3..5 {
        let peeked = cache.with_memory(|session| {
            match session.peek_anywhere(&key(third), cache.hash(&key(third))) {
                Lookup::Pending => Err(larder::Refusal::Pending),
                found => Ok(matches!(found, Lookup::Hit(_))),
            }
        });
        assert_eq!(peeked, Ok(false));
        assert_eq!((flash_of(&cache).reads, flash_of(&cache).items), (reads, 998));
        assert_eq!(cache.stats().found_expired, 2);
    }
}

/// However many connections there are, their waiting reads take little memory.
#[test]
fn a_session_asks_for_one_read_at_a_time_while_thousands_wait() {
    let (cache, _) = cache(20_000, 20);
    let asked = || {
        let session = cache.session();
        for number in 0..20_000 {
            let _ = session.look_up(&key(number), cache.hash(&key(number)));
        }
        session.take_wanted()
    };
    let whole = asked().len();
    let (sender, receiver) = std::sync::mpsc::channel();
    let ask = |wanted: Vec<_>| {
        let sender = sender.clone();
        cache.read_wanted(wanted, move |arrived| sender.send(arrived).unwrap());
    };
    // A result has its bytes as long as it lies in the channel.
    let mut reads = 0;
    while asked().len() == whole {
        assert!(whole > 10 && reads < 3 * 4096, "{reads}");
        reads += whole;
        ask(asked());
    }
    let waiting = flash_of(&cache).fetches_waiting as usize * whole;
    assert!((4096..4096 + whole).contains(&waiting), "{waiting}");
    assert_eq!(asked().len(), 1);
    ask(asked());
    assert_eq!(receiver.iter().take(reads + 1).count(), reads + 1);
    assert_eq!(asked().len(), whole);
}

/// Regression: each read counted as one page.
#[test]
fn reads_of_the_device_are_counted_in_pages() {
    let (cache, _) = cache(20, LONG_BYTES);
    let reads: Vec<(u64, u64)> = (0..20)
        .map(|number| {
            let before = flash_of(&cache);
            assert!(cache.get(&key(number)).unwrap() == noise(number, LONG_BYTES));
            let after = flash_of(&cache);
            (after.reads - before.reads, after.bytes_read - before.bytes_read)
        })
        .collect();
    // The first page, which says how many there are, and all of them.
    let pages = 1 + LONG_BYTES.div_ceil(PAGE_BYTES) as u64;
    assert!(reads.iter().any(|read| read.0 == 2), "{reads:?}");
    for (count, bytes) in reads {
        assert!(bytes % PAGE_BYTES as u64 == 0);
        let is_read = count == 2 && bytes / PAGE_BYTES as u64 - pages <= 1;
        assert!(is_read || (count, bytes) == (0, 0), "{count}, {bytes}");
    }
}

/// The index leads there until the background comes to it.
#[test]
fn an_item_flushed_on_flash_is_not_found_by_a_removal() {
    let (cache, _) = cache(1000, 1000);
    assert!(cache.remove(&key(0)) && !cache.remove(&key(0)));
    cache.flush(None);
    assert!(flash_of(&cache).items > 0 && !cache.remove(&key(1)));
    while cache.maintain() {}
    assert!(flash_of(&cache).items == 0 && !cache.remove(&key(2)));
    cache.set(&key(1), b"new", Expiry::NEVER).unwrap();
    assert!(cache.remove(&key(1)));
}

/// Regression: each of them read its unit for itself.
#[test]
fn keys_of_one_unit_that_are_asked_for_together_read_it_once() {
    let (cache, _) = cache(20_000, 20);
    let look = |session: &Session<'_>, number: u32| match session
        .look_up(&key(number), cache.hash(&key(number)))
    {
        Lookup::Hit(item) => Some(item.to_vec() == noise(number, 20)),
        Lookup::Pending => None,
        Lookup::Miss => Some(false),
    };
    let session = cache.session();
    let is_on_device = |number: &u32| look(&session, *number).is_none();
    let numbers: Vec<u32> = (0..20_000).filter(is_on_device).take(1000).collect();
    drop(session);
    let session = cache.session();
    assert!(numbers.iter().all(|&number| look(&session, number).is_none()));
    let wanted = session.take_wanted();
    drop(session);
    // More than a hundred rows have room in a page.
    assert!(numbers.len() == 1000 && wanted.len() < 20, "{} reads", wanted.len());
    let arrived = cache.read_wanted_now(wanted);
    let session = cache.session();
    session.deliver(arrived);
    assert!(numbers.iter().all(|&number| look(&session, number) == Some(true)));
}

/// How often each key is listed.
type Listed = BTreeMap<Vec<u8>, u32>;

/// Lists some more, and does the reads that it waits for. `None` at the end.
fn list_some(cache: &Cache, cursor: &mut DumpCursor, seen: &mut Listed) -> Option<()> {
    let mut arrived = Vec::new();
    loop {
        let session = cache.session();
        session.deliver(arrived.drain(..));
        let dumped = session.dump(cursor, 256, |item| {
            *seen.entry(item.key().to_vec()).or_default() += 1;
        });
        let wanted = session.take_wanted();
        drop(session);
        match dumped {
            Dumped::More => return Some(()),
            Dumped::Pending => arrived = cache.read_wanted_now(wanted),
            Dumped::End => return None,
        }
    }
}

fn listed(cache: &Cache) -> Listed {
    let (mut cursor, mut seen) = (DumpCursor::default(), BTreeMap::new());
    while list_some(cache, &mut cursor, &mut seen).is_some() {}
    seen
}

/// Lists by cursors of which only their numbers are kept.
fn listed_by_numbers(cache: &Cache) -> Listed {
    let (mut number, mut seen) = (0, BTreeMap::new());
    loop {
        let mut cursor = DumpCursor::from_number(number).expect("it was given");
        let before = seen.len();
        // Until an item was listed: what it takes to know a segment's items is not in it.
        while seen.len() == before {
            if list_some(cache, &mut cursor, &mut seen).is_none() {
                return seen;
            }
        }
        assert_ne!(number, cursor.number(), "it goes on");
        number = cursor.number();
    }
}

#[test]
fn live_items_on_flash_are_listed_once() {
    let (cache, clock) = cache(3000, 1000);
    for number in 0..3000 {
        match number % 7 {
            1 => assert!(cache.remove(&key(number))),
            2 => cache.set(&key(number), b"in memory", Expiry::NEVER).unwrap(),
            _ => {}
        }
    }
    let left = |number: &u32| number % 7 != 1;
    let wanted: BTreeMap<_, _> = (0..3000).filter(left).map(|it| (key(it), 1)).collect();
    assert!(listed(&cache) == wanted);
    assert!(listed_by_numbers(&cache) == wanted);
    clock.advance(100);
    let left = |number: &u32| left(number) && (number % 5 != 3 || number % 7 == 2);
    let wanted: BTreeMap<_, _> = (0..3000).filter(left).map(|it| (key(it), 1)).collect();
    assert!(listed(&cache) == wanted);
    assert_eq!(flash_of(&cache).hits, 0);
    cache.flush(None);
    assert!(listed(&cache).is_empty());
}
