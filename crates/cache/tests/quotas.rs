//! Quotas by namespace as users of the cache see them: the items under one never take more than it,
//! those evicted for it are under the same one, and the counts are right.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use io::ManualClock;
use io::device::{Device, FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Arithmetic, Attributes, BuildError, Builder, Cache, CacheGeometry, ChunkLayout, Condition,
    Expiry, FlashSettings, ImageSource, IndexKind, Lookup, Policy, Quota, QuotaRefused, QuotaSize,
    QuotaStats, Refusal, Repartition, Side, Store, image_format,
};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const POLICIES: [Policy; 4] = [Policy::Clock, Policy::CostClock, Policy::GdWheel, Policy::Lru];
const FORMS: [(IndexKind, ChunkLayout); 4] = [
    (IndexKind::Cuckoo, ChunkLayout::Inline),
    (IndexKind::Cuckoo, ChunkLayout::Split),
    (IndexKind::Tree, ChunkLayout::Inline),
    (IndexKind::Tree, ChunkLayout::Split),
];

fn bytes(prefix: &[u8], bytes: u64) -> Quota {
    Quota { prefix: prefix.into(), size: QuotaSize::Bytes(bytes) }
}

fn share(prefix: &[u8], share: f64) -> Quota {
    Quota { prefix: prefix.into(), size: QuotaSize::Share(share) }
}

fn builder(quotas: Vec<Quota>) -> Builder {
    let clock = Arc::new(ManualClock::new(NOW));
    Cache::builder().memory_bytes(8 << 20).clock(clock).quotas(quotas)
}

fn maintain(cache: &Cache) {
    // Some turns beyond the last that has to do something: epochs move on.
    for _ in 0..4 {
        while cache.maintain() {}
    }
}

/// Returns the statistics of the only quota.
fn the_quota(cache: &Cache) -> QuotaStats {
    let mut quotas = cache.quota_stats();
    assert_eq!(quotas.len(), 1);
    quotas.remove(0)
}

fn set(cache: &Cache, prefix: &str, number: u32, value_bytes: usize) -> Result<(), Refusal> {
    cache.set(format!("{prefix}{number:06}").as_bytes(), &vec![7; value_bytes], Expiry::NEVER)
}

/// Returns how many of the first `count` keys with a prefix are in memory.
fn present(cache: &Cache, prefix: &str, count: u32) -> usize {
    let session = cache.session();
    let is_there = |number: &u32| {
        let key = format!("{prefix}{number:06}");
        session.peek(key.as_bytes(), cache.hash(key.as_bytes())).is_some()
    };
    (0..count).filter(is_there).count()
}

/// Returns how many neighbours fill the memory, and how many of them are still there after a flood
/// beside them of ten times the memory.
fn flooded(policy: Policy, (index, layout): (IndexKind, ChunkLayout), quota: u64) -> [usize; 2] {
    let quotas = if quota > 0 { vec![bytes(b"flood:", quota)] } else { Vec::new() };
    let cache = builder(quotas).policy(policy).index(index).layout(layout).build().unwrap();
    let flood = |from: u32, count: u32| {
        for number in from..from + count {
            set(&cache, "flood:", number, 400).unwrap();
            if number % 64 == 0 {
                cache.maintain();
            }
        }
        maintain(&cache);
    };
    let neighbours = 20_000;
    for number in 0..neighbours {
        set(&cache, "other:", number, 400).unwrap();
        if number % 64 == 0 {
            cache.maintain();
        }
    }
    // The flood takes its share of a full memory, and no more from then on.
    flood(0, 5000);
    let before = present(&cache, "other:", neighbours);
    assert!(cache.stats().evicted > 1000, "memory is full");
    flood(5000, 200_000);
    // The newest of the flood is there, however much it was.
    assert_eq!(cache.get(b"flood:204999"), Some(vec![7; 400]));
    if quota > 0 {
        let quota = the_quota(&cache);
        assert!(quota.bytes <= quota.limit_bytes && quota.bytes > quota.limit_bytes * 9 / 10);
        assert!(quota.evicted > 190_000, "{quota:?}");
    }
    [before, present(&cache, "other:", neighbours)]
}

#[test]
fn a_flood_under_a_quota_leaves_other_items_where_they_are() {
    for policy in POLICIES {
        for form in FORMS {
            let [before, after] = flooded(policy, form, 1 << 20);
            println!("{policy:?} {form:?}: {before} and {after}");
            // The index takes a slab now and then, by chance.
            assert!(before > 8000 && after >= before - before / 20, "{policy:?} {form:?}");
        }
    }
}

#[test]
fn without_a_quota_the_same_flood_takes_them() {
    for policy in POLICIES {
        let [before, after] = flooded(policy, FORMS[0], 0);
        assert!(before > 8000 && after < before / 10, "{policy:?}: {before} and {after}");
    }
}

/// Items stored first leave first, but for those that were read.
#[test]
fn the_oldest_under_the_quota_leave_and_read_items_stay() {
    for policy in POLICIES {
        let cache = builder(vec![bytes(b"f:", 1 << 20)]).policy(policy).build().unwrap();
        let (all, read) = (20_000, 200);
        for number in 0..all {
            set(&cache, "f:", number, 400).unwrap();
            for key in 0..read.min(number) {
                if number % 100 == 0 {
                    assert!(cache.get(format!("f:{key:06}").as_bytes()).is_some(), "{policy:?}");
                }
            }
        }
        let newest = (all - 500..all).filter(|number| {
            let key = format!("f:{number:06}");
            cache.get(key.as_bytes()).is_some()
        });
        assert!(newest.count() > 450, "{policy:?}");
        assert_eq!(present(&cache, "f:", read), read as usize, "{policy:?}");
    }
}

#[test]
fn an_item_that_alone_is_more_than_its_quota_is_too_large() {
    for form in FORMS {
        let (index, layout) = form;
        let cache =
            builder(vec![bytes(b"f:", 100_000)]).index(index).layout(layout).build().unwrap();
        let mut largest = 0;
        for value_bytes in (1000..120_000).step_by(1000) {
            match set(&cache, "f:", 1, value_bytes) {
                Ok(()) => {
                    assert!(largest + 1000 == value_bytes || largest == 0, "{value_bytes}");
                    largest = value_bytes;
                }
                Err(refusal) => assert_eq!(refusal, Refusal::TooLarge, "{value_bytes}"),
            }
            let quota = the_quota(&cache);
            assert!(quota.bytes <= 100_000 && quota.items == 1, "{quota:?}");
        }
        assert!((80_000..100_000).contains(&largest), "{form:?}: {largest}");
        set(&cache, "other:", 1, 500_000).unwrap();
        // A chained one has its pieces counted.
        let cache = builder(vec![bytes(b"f:", 400_000)]).index(index).layout(layout);
        let cache = cache.build().unwrap();
        set(&cache, "f:", 1, 300_000).unwrap();
        let quota = the_quota(&cache);
        assert!(quota.bytes > 300_000 && quota.items == 1, "{quota:?}");
        assert_eq!(set(&cache, "f:", 2, 400_000), Err(Refusal::TooLarge));
        set(&cache, "f:", 3, 300_000).unwrap();
        assert!(cache.get(b"f:000001").is_none() && cache.get(b"f:000003").is_some());
        assert!(cache.remove(b"f:000003"));
        let quota = the_quota(&cache);
        assert_eq!((quota.bytes, quota.items), (0, 0));
    }
}

#[test]
fn an_item_is_under_the_longest_prefix_that_it_begins_with() {
    let quotas = vec![bytes(b"a", 50_000), bytes(b"a:b:", 20_000), bytes(b"a:", 30_000)];
    let cache = builder(quotas).build().unwrap();
    for number in 0..2000 {
        for prefix in ["a", "a:", "a:b", "a:b:", "a:b:c", "b", "A:"] {
            set(&cache, prefix, number, 50).unwrap();
        }
    }
    let quotas = cache.quota_stats();
    let limits: Vec<usize> = quotas.iter().map(|quota| quota.limit_bytes).collect();
    assert_eq!(limits, [50_000, 20_000, 30_000], "as they were given");
    for quota in &quotas {
        assert!(quota.bytes > quota.limit_bytes * 9 / 10, "{quota:?}");
    }
    assert_eq!(present(&cache, "b", 2000) + present(&cache, "A:", 2000), 4000);
    let bytes_of = |at: usize| cache.quota_stats()[at].bytes;
    let before = [0, 1, 2].map(bytes_of);
    while cache.remove_any(b"a:b:") {}
    let after = [0, 1, 2].map(bytes_of);
    assert_eq!(after, [before[0], 0, before[2]]);
}

/// Removes the items of a test.
trait RemoveAny {
    fn remove_any(&self, prefix: &[u8]) -> bool;
}

impl RemoveAny for Cache {
    fn remove_any(&self, prefix: &[u8]) -> bool {
        let prefix = String::from_utf8(prefix.to_vec()).unwrap();
        let removed = (0..2000).filter(|number| {
            ["", "c"]
                .iter()
                .any(|more| self.remove(format!("{prefix}{more}{number:06}").as_bytes()))
        });
        removed.count() > 0
    }
}

#[test]
fn a_draft_counts_from_the_beginning_and_gives_back_what_it_has() {
    let cache = builder(vec![bytes(b"f:", 1 << 20)]).build().unwrap();
    let reserve = |key: &[u8]| cache.reserve(key, Attributes::default(), 400_000);
    let first = reserve(b"f:1").unwrap();
    let second = reserve(b"f:2").unwrap();
    let quota = the_quota(&cache);
    assert!(quota.items == 2 && quota.bytes > 800_000, "{quota:?}");
    // There is no item that could be evicted for it.
    assert_eq!(reserve(b"f:3").err(), Some(Refusal::NoMemory));
    assert_eq!(the_quota(&cache), quota, "what it had got was given back");
    set(&cache, "other:", 1, 400_000).unwrap();
    drop(first);
    let third = reserve(b"f:3").unwrap();
    drop([second, third]);
    let quota = the_quota(&cache);
    assert_eq!((quota.bytes, quota.items), (0, 0));
}

#[test]
fn without_evictions_a_full_quota_refuses_and_only_what_is_under_it() {
    let cache = builder(vec![bytes(b"f:", 100_000)]).evict(false).build().unwrap();
    let refused = (0..1000).find(|&number| set(&cache, "f:", number, 400).is_err()).unwrap();
    assert!((180..260).contains(&refused), "{refused}");
    assert_eq!(set(&cache, "f:", refused, 400), Err(Refusal::NoMemory));
    assert_eq!(present(&cache, "f:", refused), refused as usize);
    set(&cache, "other:", 1, 400).unwrap();
    assert!(cache.remove(b"f:000000"));
    set(&cache, "f:", refused, 400).unwrap();
}

#[test]
fn a_share_follows_the_memory_limit_and_what_is_too_much_goes() {
    let cache = builder(vec![share(b"f:", 0.25)]).memory_bytes(32 << 20).build().unwrap();
    assert_eq!(the_quota(&cache).limit_bytes, 8 << 20);
    for number in 0..30_000 {
        set(&cache, "f:", number, 400).unwrap();
    }
    for number in 0..5000 {
        set(&cache, "other:", number, 400).unwrap();
    }
    assert!(the_quota(&cache).bytes > 7 << 20);
    cache.set_memory_bytes(16 << 20).unwrap();
    assert_eq!(the_quota(&cache).limit_bytes, 4 << 20);
    maintain(&cache);
    let quota = the_quota(&cache);
    assert!(quota.bytes <= 4 << 20 && quota.bytes > 3 << 20, "{quota:?}");
    assert_eq!(present(&cache, "other:", 5000), 5000);
    // A store alone, without the background, makes room down to the limit, too.
    cache.set_memory_bytes(12 << 20).unwrap();
    set(&cache, "f:", 1, 400).unwrap();
    assert!(the_quota(&cache).bytes <= 3 << 20);
    cache.set_memory_bytes(64 << 20).unwrap();
    assert_eq!(the_quota(&cache).limit_bytes, 16 << 20);
    // And so it does for another size.
    cache.set_quotas(&[bytes(b"f:", 1 << 20)]).unwrap();
    maintain(&cache);
    let quota = the_quota(&cache);
    assert!(quota.bytes <= 1 << 20 && quota.bytes > 900 << 10, "{quota:?}");
    for refused in [vec![], vec![bytes(b"g:", 1000)], vec![bytes(b"f:", 0)]] {
        cache.set_quotas(&refused).unwrap_err();
        assert_eq!(the_quota(&cache), quota);
    }
}

#[test]
fn incompatible_settings_are_refused() {
    let refused = |builder: Builder| builder.build().expect_err("refused");
    let twice = refused(builder(vec![bytes(b"a", 1000), bytes(b"a", 1000)]));
    assert!(matches!(twice, BuildError::Quota(QuotaRefused::Twice(_))), "{twice}");
    let beyond = refused(builder(vec![bytes(b"a", 1 << 30)]));
    assert!(matches!(beyond, BuildError::Quota(QuotaRefused::BeyondMemory(_))), "{beyond}");
    let geometry = CacheGeometry::new(64, 16, 128, 1).unwrap();
    let columns = builder(vec![bytes(b"a", 1000)]).repartition(Repartition::given(geometry));
    assert!(matches!(refused(columns), BuildError::RepartitionQuotas));
}

/// A cache all of whose keys are under some quota: so the quotas must count what the cache counts
/// by itself, items in the index and bytes of chunks.
struct Model {
    cache: Cache,
    clock: Arc<ManualClock>,
    random: Xorshift,
    /// The memory is little, and its limit changes.
    is_full: bool,
    is_lowered: bool,
}

const PREFIXES: [&str; 4] = ["a:", "a:b:", "c", "s/"];

impl Model {
    fn new(builder: Builder, is_full: bool, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let quotas = vec![
            bytes(b"a:", 300_000),
            bytes(b"a:b:", 40_000),
            bytes(b"c", 3 << 20),
            share(b"s/", 0.05),
        ];
        let cache = builder.quotas(quotas).clock(clock.clone()).build().unwrap();
        let mut random = Xorshift::default();
        (0..seed % 1000).for_each(|_| _ = random.draw());
        Self { cache, clock, random, is_full, is_lowered: false }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.draw() % bound
    }

    fn key(&mut self) -> Vec<u8> {
        let prefix = PREFIXES[self.below(4) as usize];
        format!("{prefix}{:04}", self.below(3000)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.below(100) {
            0 => self.below(200_000),
            1..=10 => self.below(10_000),
            _ => self.below(300),
        };
        vec![b'7'; bytes as usize]
    }

    fn attributes(&mut self) -> Attributes {
        let expiry = match self.below(4) {
            0 => Expiry::at(io::Clock::unix_seconds(&*self.clock) + self.below(5) as u32),
            _ => Expiry::NEVER,
        };
        let cost_us = [0, 100, 100_000][self.below(3) as usize];
        Attributes { expiry, cost_us, ..Attributes::default() }
    }

    fn step(&mut self) {
        let key = self.key();
        match self.below(100) {
            0..=44 => {
                let (value, attributes) = (self.value(), self.attributes());
                let conditions = [Condition::Always, Condition::Absent, Condition::Present];
                let condition = conditions[self.below(3) as usize];
                let _ = self.cache.put(&key, &value, attributes, condition);
            }
            45..=54 => drop(self.cache.get(&key)),
            55..=62 => drop(self.cache.remove(&key)),
            63..=69 => self.append(&key),
            70..=76 => self.count(&key),
            77..=82 => {
                let expiry = Expiry::at(io::Clock::unix_seconds(&*self.clock) + 3);
                let touch = |session: &larder::Session<'_>| {
                    session.touch(&key, self.cache.hash(&key), expiry)
                };
                let _ = self.cache.with_memory(touch);
            }
            83..=88 => self.compare_and_swap(&key),
            89..=94 => drop(self.cache.maintain()),
            95 => self.clock.advance_us(700_000),
            96 => drop(self.cache.reserve(&key, Attributes::default(), 5000)),
            97 if self.below(20) == 0 => {
                let prefix = [&b"a:"[..], b"a:b:0", b"c1", b"s"][self.below(4) as usize];
                let _ = self.cache.flush_prefix(prefix);
            }
            98 if self.below(100) == 0 => self.cache.flush(None),
            99 if self.is_full && self.below(50) == 0 => {
                let mebibytes = 4 + self.below(8) as usize;
                self.cache.set_memory_bytes(mebibytes << 20).unwrap();
                self.is_lowered = true;
            }
            _ => {}
        }
        if !self.is_lowered {
            for quota in self.cache.quota_stats() {
                assert!(quota.bytes <= quota.limit_bytes, "{quota:?}");
            }
        }
    }

    fn append(&mut self, key: &[u8]) {
        let side = if self.below(2) == 0 { Side::Back } else { Side::Front };
        let Ok(mut draft) = self.cache.reserve(key, Attributes::default(), 100) else { return };
        draft.write(&[b'8'; 100]);
        let store = Store::when(Condition::Present);
        let _ = self.cache.session().concat(draft, side, store, None).map_err(drop);
    }

    fn count(&mut self, key: &[u8]) {
        let arithmetic = Arithmetic {
            delta: self.below(1 << 40),
            increment: true,
            create: Some((1, Expiry::NEVER)),
            touch: None,
            compare_cas: None,
            new_cas: None,
            base64_key: false,
        };
        let hash = self.cache.hash(key);
        let _ = self.cache.with_memory(|session| session.arithmetic(key, hash, &arithmetic));
    }

    fn compare_and_swap(&mut self, key: &[u8]) {
        let (hash, value) = (self.cache.hash(key), self.value());
        let cas = self.cache.session().get(key, hash).map(|item| item.cas());
        if let Some(cas) = cas {
            let (attributes, condition) = (self.attributes(), Condition::Unique(cas));
            let _ = self.cache.put(key, &value, attributes, condition);
        }
    }

    /// Checks the counts, to the byte.
    fn check(&mut self) {
        maintain(&self.cache);
        self.is_lowered = false;
        let (stats, quotas) = (self.cache.stats(), self.cache.quota_stats());
        let items: usize = quotas.iter().map(|quota| quota.items).sum();
        let bytes: usize = quotas.iter().map(|quota| quota.bytes).sum();
        assert_eq!(items as u64, stats.items, "{quotas:?}");
        if self.is_full {
            // Free chunks of a slab that is about to leave its class count as used there.
            assert!(bytes as u64 <= stats.item_bytes, "{quotas:?}");
        } else {
            assert_eq!(bytes as u64, stats.item_bytes, "{quotas:?}");
        }
        assert!(quotas.iter().all(|quota| quota.bytes <= quota.limit_bytes), "{quotas:?}");
        assert!(stats.compressed.is_none_or(|zone| zone.zone.items == 0));
    }
}

#[test]
fn counts_are_right_whatever_is_done() {
    let entropy = std::collections::hash_map::RandomState::new();
    let seed = std::hash::BuildHasher::hash_one(&entropy, 0);
    let seed = std::env::var("LARDER_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(seed);
    println!("LARDER_SEED={seed}");
    for policy in POLICIES {
        for (index, layout) in FORMS {
            // The least memory there is, and with a compressed zone.
            for (memory, compress) in [(4 << 20, false), (64 << 20, true)] {
                let builder = Cache::builder().memory_bytes(memory).policy(policy).index(index);
                let mut model =
                    Model::new(builder.layout(layout).compress(compress), !compress, seed);
                for number in 1..=12_000 {
                    model.step();
                    if number % 3000 == 0 {
                        model.check();
                    }
                }
                let evicted: u64 = model.cache.quota_stats().iter().map(|it| it.evicted).sum();
                assert!(evicted > 100, "the quotas were full: {evicted}");
                model.cache.flush(None);
                model.check();
                let quotas = model.cache.quota_stats();
                assert!(quotas.iter().all(|it| (it.bytes, it.items) == (0, 0)), "{quotas:?}");
            }
        }
    }
}

#[test]
fn the_least_memory_there_is_keeps_a_quota() {
    for policy in POLICIES {
        for (index, layout) in FORMS {
            let builder = builder(vec![share(b"f:", 0.2), bytes(b"g:", 1000)]).memory_bytes(1);
            let cache = builder.policy(policy).index(index).layout(layout).build().unwrap();
            for number in 0..20_000 {
                for prefix in ["f:", "g:", "h:"] {
                    set(&cache, prefix, number, (number % 400) as usize).unwrap();
                }
                for quota in cache.quota_stats() {
                    assert!(quota.bytes <= quota.limit_bytes && quota.items > 0, "{quota:?}");
                }
            }
            maintain(&cache);
            let stats = cache.stats();
            assert!(stats.used_bytes <= stats.limit_bytes);
        }
    }
}

#[test]
fn threads_never_take_more_than_the_quota_together() {
    for policy in POLICIES {
        let quotas = vec![bytes(b"a:", 200_000), bytes(b"b", 2 << 20)];
        // So much memory that no slab leaves its class: its free chunks would count as used.
        let cache = builder(quotas).memory_bytes(64 << 20).policy(policy).build().unwrap();
        let done = AtomicBool::new(false);
        let refused: usize = thread::scope(|scope| {
            let clients: Vec<_> = (0..4_u32)
                .map(|client| {
                    let cache = &cache;
                    scope.spawn(move || {
                        let mut refused = 0;
                        for number in 0..30_000_u32 {
                            let mixed = number.wrapping_mul(2_654_435_761).wrapping_add(client);
                            let prefix = ["a:", "b", "b"][(mixed >> 8) as usize % 3];
                            let stored = set(cache, prefix, mixed % 5000, (mixed >> 20) as usize);
                            assert_ne!(stored, Err(Refusal::TooLarge));
                            refused += usize::from(stored.is_err());
                            if mixed % 7 == 0 {
                                cache.remove(format!("{prefix}{:06}", mixed % 4999).as_bytes());
                            }
                            if mixed % 64 == 0 {
                                cache.maintain();
                            }
                        }
                        refused
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    for quota in cache.quota_stats() {
                        assert!(quota.bytes <= quota.limit_bytes, "{quota:?}");
                    }
                    thread::yield_now();
                }
            });
            let ended: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            // Also when a client panicked: otherwise the scope would wait for the watcher for ever.
            done.store(true, SeqCst);
            ended.into_iter().map(|refused| refused.unwrap()).sum()
        });
        assert_eq!(refused, 0, "{policy:?}: there is always something to go");
        maintain(&cache);
        let (stats, quotas) = (cache.stats(), cache.quota_stats());
        let items: usize = quotas.iter().map(|quota| quota.items).sum();
        let bytes: usize = quotas.iter().map(|quota| quota.bytes).sum();
        assert_eq!((items as u64, bytes as u64), (stats.items, stats.item_bytes), "{quotas:?}");
        assert!(quotas.iter().all(|quota| quota.evicted > 1000), "{quotas:?}");
    }
}

/// In the lower tiers: none in the compressed zone, and on flash any number.
#[test]
fn an_item_under_a_quota_skips_the_zone_and_counts_when_promoted() {
    for compress in [false, true] {
        let pages = (48 << 20) / PAGE_BYTES as u64;
        let device = Arc::new(FakeDevice::new(pages, 1, Faults::default()));
        let flash = FlashSettings {
            device: device as Arc<dyn Device>,
            boot_id: [7; 16],
            is_new: true,
            reads_by: None,
            threads: 1,
            write_limit: None,
        };
        let builder = builder(vec![bytes(b"f:", 6 << 20)]).compress(compress).flash(flash);
        let cache = builder.build().unwrap();
        for number in 0..20_000 {
            set(&cache, "f:", number, 600).unwrap();
            assert!(cache.get(format!("f:{number:06}").as_bytes()).is_some());
            if number % 32 == 0 {
                maintain(&cache);
            }
        }
        maintain(&cache);
        let session = cache.session();
        let on_flash = |number: &u32| {
            let key = format!("f:{number:06}");
            match session.peek_anywhere(key.as_bytes(), cache.hash(key.as_bytes())) {
                // An item that waits for the device is still in memory.
                Lookup::Hit(item) => item.is_compressed(),
                Lookup::Pending => true,
                Lookup::Miss => false,
            }
        };
        let on_flash: Vec<u32> = (0..20_000).filter(on_flash).collect();
        drop(session);
        assert!(on_flash.len() > 1000, "{compress}: {}", on_flash.len());
        assert!(cache.stats().compressed.is_none_or(|compressed| compressed.zone.items == 0));
        for number in on_flash {
            let key = format!("f:{number:06}");
            let hash = cache.hash(key.as_bytes());
            // A touch promotes it.
            let touch = |session: &larder::Session<'_>| {
                session.touch(key.as_bytes(), hash, Expiry::at(NOW + 1000))
            };
            cache.with_memory(touch).unwrap();
            let quota = the_quota(&cache);
            assert!(quota.bytes <= quota.limit_bytes, "{quota:?}");
        }
        cache.flush(None);
        maintain(&cache);
        assert_eq!(the_quota(&cache).bytes, 0);
    }
}

/// An image in memory.
struct Bytes(Vec<u8>);

impl ImageSource for Bytes {
    fn bytes(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> std::io::Result<()> {
        let from = self.0.get(offset as usize..).unwrap_or_default();
        let bytes = from.get(..target.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(bytes);
        Ok(())
    }
}

/// An image of a cache without quotas has items of any tier.
#[test]
fn restored_items_are_under_the_quotas_of_their_new_cache() {
    let old = builder(Vec::new()).compress(true).build().unwrap();
    for number in 0..60_000 {
        set(&old, "f:", number, 200).unwrap();
        assert!(old.get(format!("f:{number:06}").as_bytes()).is_some());
        if number % 64 == 0 {
            maintain(&old);
        }
    }
    maintain(&old);
    assert!(old.stats().compressed.unwrap().zone.items > 5000);
    let (image, _) = old.save_image(Vec::new(), || true).unwrap();
    let image = Bytes(image);
    let head = image_format::open(&image).unwrap();
    let cache = builder(vec![bytes(b"f:", 1 << 20)]).compress(true).image(Some(head));
    let cache = cache.build().unwrap();
    cache.restore(&image, &head, 2).unwrap();
    let (quota, stats) = (the_quota(&cache), cache.stats());
    assert!(quota.bytes <= 1 << 20 && quota.items > 3000, "{quota:?}");
    assert_eq!((stats.items, stats.compressed.unwrap().zone.items), (quota.items as u64, 0));
}
