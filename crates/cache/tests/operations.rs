//! Every operation of the cache by itself, with the clock under control.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io::ManualClock;
use larder::{
    Arithmetic, Attributes, Cache, Condition, Counted, Expiry, Fetch, Policy, Refusal, Remove,
    Removed, Side, Store, Stored,
};

const NOW: u32 = 1_800_000_000;

struct Fixture {
    cache: Cache,
    clock: Arc<ManualClock>,
}

impl Fixture {
    fn new() -> Self {
        Self::with_memory(64 << 20)
    }

    fn with_memory(bytes: usize) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        // Costs are what a test says they are.
        let builder = Cache::builder().memory_bytes(bytes).measure_costs(false);
        let cache = builder.clock(clock.clone()).build().unwrap();
        Self { cache, clock }
    }

    fn put(&self, key: &[u8], value: &[u8], condition: Condition) -> Stored {
        self.cache.put(key, value, Attributes::default(), condition).unwrap()
    }

    fn cas(&self, key: &[u8]) -> u64 {
        self.cache.session().get(key, self.cache.hash(key)).unwrap().cas()
    }

    fn concat(&self, key: &[u8], value: &[u8], side: Side) -> Stored {
        let mut draft = self.cache.reserve(key, Attributes::default(), value.len()).unwrap();
        draft.write(value);
        let store = Store::when(Condition::Present);
        self.cache
            .session()
            .concat(draft, side, store, None)
            .map_err(|(_, refusal)| refusal)
            .unwrap()
    }

    fn count(&self, key: &[u8], delta: u64, increment: bool) -> Counted {
        let arithmetic = Arithmetic { delta, increment, ..Arithmetic::INCREMENT };
        self.cache.session().arithmetic(key, self.cache.hash(key), &arithmetic).unwrap()
    }
}

#[test]
fn conditions_decide_whether_a_value_is_stored() {
    let fixture = Fixture::new();
    assert_eq!(fixture.put(b"k", b"1", Condition::Present), Stored::NotStored);
    assert!(matches!(fixture.put(b"k", b"2", Condition::Absent), Stored::Stored { .. }));
    assert_eq!(fixture.put(b"k", b"3", Condition::Absent), Stored::NotStored);
    assert!(matches!(fixture.put(b"k", b"4", Condition::Present), Stored::Stored { .. }));
    let cas = fixture.cas(b"k");
    assert_eq!(fixture.put(b"k", b"5", Condition::Unique(cas + 1)), Stored::Exists);
    assert_eq!(fixture.put(b"x", b"5", Condition::Unique(cas)), Stored::NotFound);
    let stored = fixture.put(b"k", b"6", Condition::Unique(cas));
    assert_eq!(stored, Stored::Stored { cas: fixture.cas(b"k") });
    assert_eq!(fixture.put(b"k", b"7", Condition::Unique(cas)), Stored::Exists);
    assert_eq!(fixture.cache.get(b"k").as_deref(), Some(&b"6"[..]));
}

#[test]
fn an_item_is_gone_the_second_it_expires() {
    let fixture = Fixture::new();
    fixture.cache.set(b"k", b"v", Expiry::at(NOW + 10)).unwrap();
    fixture.clock.advance(9);
    assert!(fixture.cache.get(b"k").is_some());
    fixture.clock.advance(1);
    assert!(fixture.cache.get(b"k").is_none());
    assert_eq!(fixture.cache.stats().items, 0);
    fixture.cache.set(b"k", b"v", Expiry::PAST).unwrap();
    assert!(fixture.cache.get(b"k").is_none());
}

#[test]
fn an_item_that_a_request_finds_gone_is_counted_once() {
    let fixture = Fixture::new();
    let cache = &fixture.cache;
    for key in [b"a", b"b"] {
        cache.set(key, b"v", Expiry::at(NOW + 10)).unwrap();
    }
    cache.set(b"c", b"v", Expiry::NEVER).unwrap();
    fixture.clock.advance(10);
    assert!(cache.get(b"a").is_none() && cache.get(b"a").is_none());
    for _ in 0..2 {
        let removed = cache.session().remove(b"b", cache.hash(b"b"), &Remove::default());
        assert_eq!(removed, Ok(Removed::NotFound));
    }
    assert_eq!((cache.stats().found_expired, cache.stats().found_flushed), (2, 0));
    cache.flush(None);
    assert!(cache.get(b"c").is_none() && cache.get(b"c").is_none());
    assert_eq!((cache.stats().found_expired, cache.stats().found_flushed), (2, 1));
    cache.reset_stats();
    assert_eq!((cache.stats().found_expired, cache.stats().found_flushed), (0, 0));
}

#[test]
fn a_touch_works_with_and_without_room_for_the_expiry() {
    let fixture = Fixture::new();
    let (cache, hash) = (&fixture.cache, fixture.cache.hash(b"k"));
    cache.set(b"k", b"v", Expiry::NEVER).unwrap();
    let cas = fixture.cas(b"k");
    assert_eq!(cache.session().touch(b"k", hash, Expiry::at(NOW + 5)), Ok(true));
    assert_eq!(fixture.cas(b"k"), cas, "a touch is no mutation");
    assert_eq!(cache.session().touch(b"k", hash, Expiry::at(NOW + 50)), Ok(true));
    fixture.clock.advance(6);
    assert_eq!(cache.session().get(b"k", hash).unwrap().expiry(), Expiry::at(NOW + 50));
    assert_eq!(cache.session().touch(b"k", hash, Expiry::PAST), Ok(true));
    assert_eq!(cache.session().touch(b"k", hash, Expiry::NEVER), Ok(false));
}

#[test]
fn a_touch_into_the_past_returns_the_item_for_the_last_time() {
    let fixture = Fixture::new();
    let (cache, hash) = (&fixture.cache, fixture.cache.hash(b"k"));
    for expiry in [Expiry::NEVER, Expiry::at(NOW + 9)] {
        cache.set(b"k", b"v", expiry).unwrap();
        let session = cache.session();
        let item = session.get_and_touch(b"k", hash, Expiry::PAST).unwrap().unwrap();
        assert_eq!(item.contiguous(), Some(&b"v"[..]));
        assert!(session.get_and_touch(b"k", hash, Expiry::PAST).unwrap().is_none());
        assert!(session.get(b"k", hash).is_none());
    }
}

#[test]
fn append_and_prepend_keep_flags_and_expiry() {
    let fixture = Fixture::new();
    assert_eq!(fixture.concat(b"k", b"x", Side::Back), Stored::NotStored);
    let attributes = Attributes { flags: 7, expiry: Expiry::at(NOW + 9), ..Attributes::default() };
    fixture.cache.put(b"k", b"mid", attributes, Condition::Always).unwrap();
    assert!(matches!(fixture.concat(b"k", b"-end", Side::Back), Stored::Stored { .. }));
    assert!(matches!(fixture.concat(b"k", b"start-", Side::Front), Stored::Stored { .. }));
    let session = fixture.cache.session();
    let item = session.get(b"k", fixture.cache.hash(b"k")).unwrap();
    assert_eq!(item.contiguous(), Some(&b"start-mid-end"[..]));
    assert_eq!((item.flags(), item.expiry()), (7, Expiry::at(NOW + 9)));
}

#[test]
fn arithmetic_wraps_up_stops_at_zero_and_pads() {
    let fixture = Fixture::new();
    let value = |counted| match counted {
        Counted::Value { value, .. } => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(fixture.count(b"k", 1, true), Counted::NotFound);
    fixture.put(b"k", b"10", Condition::Always);
    assert_eq!(value(fixture.count(b"k", 1, false)), 9);
    assert_eq!(fixture.cache.get(b"k").as_deref(), Some(&b"9 "[..]));
    assert_eq!(value(fixture.count(b"k", 100, false)), 0);
    assert_eq!(value(fixture.count(b"k", u64::MAX, true)), u64::MAX);
    assert_eq!(fixture.cache.get(b"k").as_deref(), Some(&b"18446744073709551615"[..]));
    assert_eq!(value(fixture.count(b"k", 2, true)), 1);
    assert_eq!(fixture.cache.get(b"k").map(|value| value.len()), Some(20));
    fixture.put(b"k", b"abc", Condition::Always);
    assert_eq!(fixture.count(b"k", 1, true), Counted::NotANumber);
}

#[test]
fn one_of_many_readers_wins_the_token() {
    let fixture = Fixture::new();
    let (cache, hash) = (&fixture.cache, fixture.cache.hash(b"k"));
    let vivify = Fetch { vivify: Some(Expiry::at(NOW + 30)), ..Fetch::default() };
    let fetch = |fetch: &Fetch| {
        let session = cache.session();
        let (item, tokens) = session.fetch(b"k", hash, fetch).unwrap();
        (item.map(|item| item.to_vec()), tokens.won, tokens.stale, tokens.sent)
    };
    assert_eq!(fetch(&Fetch::default()), (None, false, false, false));
    assert_eq!(fetch(&vivify), (Some(vec![]), true, false, false));
    assert_eq!(fetch(&vivify), (Some(vec![]), false, false, true));
    fixture.put(b"k", b"v", Condition::Always);
    assert_eq!(fetch(&vivify), (Some(b"v".to_vec()), false, false, false));
    let stale = Remove { invalidate: true, touch: Some(Expiry::at(NOW + 30)), ..Remove::default() };
    assert_eq!(cache.session().remove(b"k", hash, &stale), Ok(Removed::Removed));
    assert_eq!(fetch(&vivify), (Some(b"v".to_vec()), true, true, false));
    assert_eq!(fetch(&vivify), (Some(b"v".to_vec()), false, true, true));
    let recache = Fetch { recache_before: Some(Expiry::at(NOW + 31)), ..Fetch::default() };
    cache.set(b"k", b"w", Expiry::at(NOW + 30)).unwrap();
    assert_eq!(fetch(&recache), (Some(b"w".to_vec()), true, false, false));
    assert_eq!(fetch(&recache), (Some(b"w".to_vec()), false, false, true));
}

/// Regression: the token was given before the expiry was, for which there may be no room: then no
/// client had it, and all others were told that one recomputes the item.
#[test]
fn a_win_token_is_not_lost_with_a_touch_that_is_refused() {
    let fixture = Fixture::new();
    let (cache, hash) = (&fixture.cache, fixture.cache.hash(b"k"));
    // So long that it has no room for an expiry.
    let fits = |bytes: &usize| cache.reserve(b"k", Attributes::default(), *bytes).is_ok();
    let bytes = (0..=1 << 20).rev().find(fits).unwrap();
    fixture.put(b"k", &vec![b'v'; bytes], Condition::Always);
    let stale = Remove { invalidate: true, ..Remove::default() };
    assert_eq!(cache.session().remove(b"k", hash, &stale), Ok(Removed::Removed));
    let session = cache.session();
    let touch = Fetch { touch: Some(Expiry::at(NOW + 30)), ..Fetch::default() };
    assert_eq!(session.fetch(b"k", hash, &touch).map(|_| ()), Err(Refusal::TooLarge));
    let tokens = session.fetch(b"k", hash, &Fetch::default()).unwrap().1;
    assert!(tokens.won && tokens.stale, "{tokens:?}");
    let tokens = session.fetch(b"k", hash, &Fetch::default()).unwrap().1;
    assert!(!tokens.won && tokens.sent, "{tokens:?}");
}

#[test]
fn a_late_store_leaves_the_item_stale() {
    let fixture = Fixture::new();
    fixture.cache.set(b"k", b"new", Expiry::at(NOW + 30)).unwrap();
    let cas = fixture.cas(b"k");
    assert_eq!(fixture.put(b"k", b"x", Condition::UniqueOrStale(cas + 1)), Stored::Exists);
    let stored = fixture.put(b"k", b"late", Condition::UniqueOrStale(cas - 1));
    assert!(matches!(stored, Stored::Stored { .. }));
    let session = fixture.cache.session();
    let item = session.peek(b"k", fixture.cache.hash(b"k")).unwrap();
    assert_eq!((item.contiguous(), item.stale()), (Some(&b"late"[..]), true));
    assert_eq!(item.expiry(), Expiry::at(NOW + 30));
}

#[test]
fn a_chosen_cas_unique_is_kept_whole() {
    let fixture = Fixture::new();
    let mut draft = fixture.cache.reserve(b"k", Attributes::default(), 1).unwrap();
    draft.write(b"v");
    let store = Store { condition: Condition::Always, new_cas: Some(u64::MAX - 1) };
    let session = fixture.cache.session();
    let stored = session.store(draft, store).map_err(|(_, refusal)| refusal);
    assert_eq!(stored, Ok(Stored::Stored { cas: u64::MAX - 1 }));
    assert_eq!(fixture.cas(b"k"), u64::MAX - 1);
}

/// Regression: a client that compared 0 was taken to compare 2^64 - 1, which a client may have
/// chosen.
#[test]
fn a_store_over_an_impossible_unique_does_nothing() {
    let fixture = Fixture::new();
    assert_eq!(fixture.put(b"k", b"new", Condition::Never), Stored::NotFound);
    let mut draft = fixture.cache.reserve(b"k", Attributes::default(), 1).unwrap();
    draft.write(b"v");
    let store = Store { condition: Condition::Always, new_cas: Some(u64::MAX) };
    assert!(fixture.cache.session().store(draft, store).is_ok());
    assert_eq!(fixture.put(b"k", b"new", Condition::Never), Stored::Exists);
    assert!(fixture.cache.get(b"k").is_some_and(|value| value == b"v"));
}

#[test]
fn a_flush_takes_earlier_items_only() {
    let fixture = Fixture::new();
    let cache = &fixture.cache;
    for number in 0..1000_u32 {
        cache.set(&number.to_le_bytes(), b"old", Expiry::NEVER).unwrap();
    }
    cache.flush(None);
    assert!((0..500_u32).all(|number| cache.get(&number.to_le_bytes()).is_none()));
    cache.set(&1_u32.to_le_bytes(), b"new", Expiry::NEVER).unwrap();
    assert_eq!(fixture.count(&600_u32.to_le_bytes(), 1, true), Counted::NotFound);
    while cache.maintain() {}
    assert_eq!(cache.stats().items, 1);
    assert!(cache.get(&1_u32.to_le_bytes()).is_some());
    cache.flush(Some(Expiry::at(NOW + 2)));
    cache.set(&2_u32.to_le_bytes(), b"new", Expiry::NEVER).unwrap();
    fixture.clock.advance(1);
    assert!(cache.get(&1_u32.to_le_bytes()).is_some());
    fixture.clock.advance(1);
    assert!(cache.get(&2_u32.to_le_bytes()).is_none());
    cache.set(&2_u32.to_le_bytes(), b"newer", Expiry::NEVER).unwrap();
    assert!(cache.get(&2_u32.to_le_bytes()).is_some());
}

#[test]
fn large_values_come_back_whole() {
    let fixture = Fixture::new();
    let cache = Cache::builder()
        .memory_bytes(64 << 20)
        .item_bytes_max(16 << 20)
        .clock(fixture.clock.clone())
        .build()
        .unwrap();
    for bytes in [0, 1, 1000, 131_000, 131_072, 262_144, 1 << 20, (16 << 20) - 10_000] {
        let value: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
        cache.set(b"large", &value, Expiry::NEVER).unwrap();
        assert!(cache.get(b"large") == Some(value), "{bytes} bytes");
    }
    assert_eq!(cache.set(b"large", &vec![0; 16 << 20], Expiry::NEVER), Err(Refusal::TooLarge));
}

#[test]
fn without_eviction_a_full_cache_refuses_and_keeps() {
    let clock = Arc::new(ManualClock::new(NOW));
    let cache = Cache::builder().memory_bytes(8 << 20).evict(false).clock(clock).build().unwrap();
    let mut stored = 0_u32;
    while cache.set(&stored.to_le_bytes(), &[7; 1000], Expiry::NEVER).is_ok() {
        stored += 1;
    }
    assert!(stored > 3000, "{stored}");
    assert!((0..stored).all(|number| cache.get(&number.to_le_bytes()).is_some()));
    assert!(cache.remove(&0_u32.to_le_bytes()));
    cache.set(b"again", &[7; 1000], Expiry::NEVER).unwrap();
}

#[test]
fn a_dump_shows_every_item_once() {
    let fixture = Fixture::new();
    for number in 0..5000_u32 {
        let value = vec![1; number as usize % 3000];
        fixture.cache.set(&number.to_le_bytes(), &value, Expiry::NEVER).unwrap();
    }
    let mut seen = vec![0; 5000];
    let mut cursor = larder::DumpCursor::default();
    let mut dumped = larder::Dumped::More;
    while dumped != larder::Dumped::End {
        dumped = fixture.cache.session().dump(&mut cursor, 100, |item| {
            let number = u32::from_le_bytes(item.key().try_into().unwrap());
            seen[number as usize] += 1;
        });
    }
    assert!(seen.iter().all(|&times| times == 1));
}

#[test]
fn a_full_cache_evicts_unread_items() {
    let fixture = Fixture::with_memory(16 << 20);
    let cache = &fixture.cache;
    cache.set(b"kept", &[7; 1000], Expiry::NEVER).unwrap();
    for number in 0..100_000_u32 {
        cache.set(&number.to_le_bytes(), &[7; 1000], Expiry::NEVER).unwrap();
        if number % 1000 == 0 {
            assert!(cache.get(b"kept").is_some(), "{number}");
        }
        if number % 100 == 0 {
            cache.maintain();
        }
    }
    let stats = cache.stats();
    assert!(stats.items > 9_000, "{stats:?}");
    assert_eq!(stats.items + stats.evicted, 100_001);
    assert!(stats.used_bytes <= 16 << 20);
}

#[test]
fn a_shift_of_sizes_leaves_the_cache_able_to_store() {
    let fixture = Fixture::with_memory(64 << 20);
    let cache = &fixture.cache;
    for (round, bytes) in [30_usize, 4000, 300, 900_000, 10, 60_000].into_iter().enumerate() {
        let rounds = ((256 << 20) / (bytes + 60)) as u32;
        for number in 0..rounds {
            let key = (u64::from(number) << 8 | round as u64).to_le_bytes();
            cache.set(&key, &vec![round as u8; bytes], Expiry::NEVER).unwrap();
            if number.is_multiple_of(rounds.min(2_000) / 20) {
                cache.maintain();
            }
        }
        let recent = (16 << 20) / (bytes as u32 + 60);
        let kept = (rounds - recent.min(rounds)..rounds)
            .filter(|&number| {
                cache.get(&(u64::from(number) << 8 | round as u64).to_le_bytes()).is_some()
            })
            .count();
        assert!(kept * 20 >= recent as usize * 19, "{bytes}: {kept} of {recent}");
        assert!(cache.stats().used_bytes <= 64 << 20);
    }
}

#[test]
fn a_cost_stays_with_its_item_while_the_value_stays() {
    let fixture = Fixture::new();
    let cost_of = |fixture: &Fixture, key: &[u8]| {
        let session = fixture.cache.session();
        session.get(key, fixture.cache.hash(key)).map(|item| item.cost_us())
    };
    let costly = Attributes { cost_us: 1234, ..Attributes::default() };
    fixture.cache.put(b"k", b"17", costly, Condition::Always).unwrap();
    assert_eq!(cost_of(&fixture, b"k"), Some(1234));
    fixture.count(b"k", 5, true);
    assert_eq!(cost_of(&fixture, b"k"), Some(1234));
    assert!(matches!(fixture.concat(b"k", b"0", Side::Back), Stored::Stored { .. }));
    assert_eq!(cost_of(&fixture, b"k"), Some(1234));
    let hash = fixture.cache.hash(b"k");
    assert!(fixture.cache.session().touch(b"k", hash, Expiry::at(NOW + 60)).unwrap());
    assert_eq!(cost_of(&fixture, b"k"), Some(1234));
    // A value of its own has a cost of its own.
    fixture.put(b"k", b"new", Condition::Unique(fixture.cas(b"k")));
    assert_eq!(cost_of(&fixture, b"k"), Some(0));
}

/// A stream of items of which one in ten is costly, twice through a cache that holds half of them:
/// under CLOCK as many of the costly as of the others are left, and so under LRU; under the
/// policies that know costs nearly all.
#[test]
fn costly_items_outlive_cheap_ones() {
    let costly_left = |policy| {
        let cache = Cache::builder().memory_bytes(16 << 20).policy(policy).build().unwrap();
        let items = 60_000_u32;
        for number in (0..items).chain(0..items) {
            let cost_us = if number % 10 == 0 { 3000 } else { 100 };
            let attributes = Attributes { cost_us, ..Attributes::default() };
            let key = format!("key-{number:08}");
            if cache.get(key.as_bytes()).is_none() {
                cache.put(key.as_bytes(), &[7; 400], attributes, Condition::Always).unwrap();
            }
        }
        let is_left = |number: &u32| cache.get(format!("key-{number:08}").as_bytes()).is_some();
        let costly = (0..items).step_by(10).filter(is_left).count();
        let all = (0..items).filter(is_left).count();
        assert!(all < 42_000, "{all}");
        costly as f64 / f64::from(items / 10)
    };
    for policy in [Policy::Clock, Policy::Lru] {
        let left = costly_left(policy);
        assert!(left < 0.7, "{policy:?}: {left}");
    }
    for policy in [Policy::CostClock, Policy::GdWheel] {
        let left = costly_left(policy);
        assert!(left > 0.95, "{policy:?}: {left}");
    }
}

/// Regression: a class of few chunks, all of them costly beside what its hand has learnt: two
/// rounds of the hand found nothing that had no credit left, and the store was refused.
#[test]
fn a_store_finds_room_among_costly_items_alone() {
    for policy in [Policy::CostClock, Policy::GdWheel] {
        let cache = Cache::builder().memory_bytes(4 << 20).policy(policy).build().unwrap();
        for number in 0..2_000_u32 {
            let cost_us = if number % 100 < 3 { 1 } else { 50_000 };
            let attributes = Attributes { cost_us, ..Attributes::default() };
            let key = format!("key-{number}");
            let stored = cache.put(key.as_bytes(), &[1; 15_000], attributes, Condition::Always);
            assert!(matches!(stored, Ok(Stored::Stored { .. })), "{policy:?} {number}: {stored:?}");
            assert!(cache.get(key.as_bytes()).is_some());
        }
    }
}

/// Regression: a store that finds the memory full may see a slab that is free for a moment, since
/// the compressed zone, the index or a limit that is lowered again take it. It was refused then,
/// with everything to evict.
#[test]
fn a_store_finds_room_though_others_take_free_slabs() {
    for _ in 0..60 {
        let builder = Cache::builder().memory_bytes(16 << 20).compress(false);
        let cache = builder.build().unwrap();
        let is_over = AtomicBool::new(false);
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    cache.set_memory_bytes(15 << 20).unwrap();
                    cache.set_memory_bytes(16 << 20).unwrap();
                }
            });
            let set = |number: u32| cache.set(&number.to_le_bytes(), &[1; 8000], Expiry::NEVER);
            let refused = (0..10_000).filter(|&number| set(number).is_err()).count();
            is_over.store(true, Ordering::Relaxed);
            refused
        });
        assert_eq!(refused, 0);
    }
}

/// Regression: a store of a size that had no slab was refused while a lowered limit was exceeded,
/// and emptied a slab of others with each try: each left for good.
#[test]
fn a_size_without_slabs_gets_one_while_a_lowered_limit_is_exceeded() {
    let cache = Cache::builder().memory_bytes(64 << 20).compress(false).build().unwrap();
    let set = |number: u32, bytes| cache.set(&number.to_le_bytes(), &vec![1; bytes], Expiry::NEVER);
    let mut number = 0;
    while cache.stats().evicted == 0 {
        set(number, 500).unwrap();
        number += 1;
    }
    cache.set_memory_bytes(4 << 20).unwrap();
    let used = cache.stats().used_bytes;
    for bytes in [50, 2000, 10_000] {
        set(number, bytes).unwrap();
        number += 1;
    }
    let stats = cache.stats();
    assert!(stats.used_bytes <= used && stats.used_bytes + (8 << 20) > used, "{stats:?}");
    (0..100).for_each(|_| _ = cache.maintain());
    let stats = cache.stats();
    assert!(stats.used_bytes <= 4 << 20 && cache.get(&(number - 1).to_le_bytes()).is_some());
}
