//! Saving memory as an image and restoring it: the next cache has the items of this one, with all
//! that belongs to them, and none that is expired, flushed, damaged or another's.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use io::{Clock, ManualClock};
use larder::{
    Attributes, Cache, ChunkLayout, Condition, Expiry, ImageHead, ImageSaved, IndexKind, Policy,
    Remove, Removed, Restored, Store, Stored, image_format,
};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const MIB: usize = 1 << 20;

const POLICIES: [Policy; 4] = [Policy::Clock, Policy::CostClock, Policy::GdWheel, Policy::Lru];

/// The settings of a cache.
#[derive(Debug, Clone, Copy)]
struct Shape {
    memory_bytes: usize,
    compress: bool,
    evict: bool,
    hot_target: Option<f64>,
    policy: Policy,
    index: IndexKind,
    layout: ChunkLayout,
}

impl Shape {
    fn of(memory_bytes: usize) -> Self {
        let (policy, index) = (Policy::CostClock, IndexKind::Cuckoo);
        let layout = ChunkLayout::Inline;
        Self { memory_bytes, compress: true, evict: true, hot_target: None, policy, index, layout }
    }

    fn build(self, head: Option<ImageHead>, now: u32) -> (Cache, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(now));
        let builder = Cache::builder().memory_bytes(self.memory_bytes).policy(self.policy);
        let builder = builder.index(self.index).layout(self.layout).compress(self.compress);
        let mut builder = builder.evict(self.evict).clock(clock.clone()).image(head);
        if let Some(share) = self.hot_target {
            builder = builder.hot_target(share);
        }
        (builder.build().unwrap(), clock)
    }

    /// Restores an image into a new cache, at a time.
    fn restore(self, image: &Vec<u8>, now: u32) -> (Cache, Restored) {
        self.restore_with(image, now, 2)
    }

    /// [`Self::restore`] with this many threads.
    fn restore_with(self, image: &Vec<u8>, now: u32, threads: usize) -> (Cache, Restored) {
        let head = image_format::open(image).unwrap();
        let cache = self.build(Some(head), now).0;
        let restored = cache.restore(image, &head, threads).unwrap();
        (cache, restored)
    }
}

fn save(cache: &Cache) -> (Vec<u8>, ImageSaved) {
    let (bytes, saved) = cache.save_image(Vec::new(), || true).unwrap();
    assert_eq!(bytes.len() as u64, saved.image_bytes);
    (bytes, saved)
}

fn key(number: u32) -> Vec<u8> {
    format!("item-{number}").into_bytes()
}

/// Returns a few hundred bytes that compress, other ones for each version.
fn value(number: u32, version: u32) -> Vec<u8> {
    let repeats = if number.is_multiple_of(50) { 20 } else { 1 + number as usize % 4 };
    format!(
        "{{\"id\":{number},\"version\":{version},\"title\":\"An item of the catalogue\",\
         \"price\":\"{}.{:02}\",\"currency\":\"EUR\",\"tags\":[\"new\",\"sale\",\"shop-{}\"]}}",
        number % 977,
        number % 100,
        number % 37
    )
    .repeat(repeats)
    .into_bytes()
}

/// Returns bytes that do not compress.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Xorshift::seeded(seed + 1);
    (0..bytes).map(|_| random.draw() as u8).collect()
}

fn put(cache: &Cache, key: &[u8], value: &[u8], attributes: Attributes) {
    let stored = cache.put(key, value, attributes, Condition::Always);
    assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");
}

/// Stores this many items, and reads some, until nothing more fits.
fn fill(cache: &Cache, items: u32) {
    for number in 0..items {
        put(cache, &key(number), &value(number, 1), Attributes::default());
        if number % 4 != 3 {
            cache.get(&key(number - number % 7));
            cache.get(&key(number));
        }
        if number % 64 == 0 {
            while cache.maintain() {}
        }
    }
    while cache.maintain() {}
}

/// Returns the numbers of the items that are there, without a trace.
fn present(cache: &Cache, items: u32) -> Vec<u32> {
    let there = |number: &u32| {
        let (session, key) = (cache.session(), key(*number));
        let item = session.peek(&key, cache.hash(&key));
        assert!(item.is_none_or(|item| item.to_vec() == value(*number, 1)), "{number}");
        item.is_some()
    };
    (0..items).filter(there).collect()
}

/// Stores far more than fits; saves the items that are there, and restores them into as much
/// memory.
fn all_but_one_in_100_is_back(shape: Shape, items: u32) {
    let (before, _) = shape.build(None, NOW);
    fill(&before, items);
    let kept = present(&before, items);
    let stats = before.stats();
    let below = stats.compressed.map_or(0, |it| it.zone.items);
    assert_eq!(below > 1000, shape.compress, "{below}");
    // Memory is full by far, and not for want of a few items.
    assert!(stats.evicted > u64::from(items) / 16, "{stats:?}");
    assert!(stats.used_bytes > stats.limit_bytes / 100 * 95, "{stats:?}");
    let (image, saved) = save(&before);
    assert_eq!(saved.items, kept.len() as u64);
    for threads in [1, 4] {
        let (after, restored) = shape.restore_with(&image, NOW + 1, threads);
        // What the background does before the first request.
        while after.maintain() {}
        let there = present(&after, items);
        let stats = after.stats();
        assert!(restored.is_whole);
        println!("{shape:?}, {threads}: {} of {} are back", there.len(), kept.len());
        assert!(there.len() * 100 >= kept.len() * 99, "{restored:?} {stats:?}");
        assert!(there.iter().all(|number| kept.binary_search(number).is_ok()));
        assert!(stats.used_bytes <= stats.limit_bytes, "{stats:?}");
    }
}

/// With the split that prices give, the compressed zone is small in the end, and its items fit
/// thanks to its dictionary alone.
#[test]
fn nearly_all_that_fitted_fits_again() {
    for policy in POLICIES {
        all_but_one_in_100_is_back(Shape { policy, ..Shape::of(8 * MIB) }, 150_000);
    }
}

/// With a target for the hot zone nearly all items are in the compressed one, which several threads
/// fill, each of which others wait for when it has no processor.
#[test]
fn nearly_all_that_was_compressed_fits_again() {
    for policy in [Policy::CostClock, Policy::Lru] {
        let shape = Shape { policy, hot_target: Some(0.9), ..Shape::of(16 * MIB) };
        all_but_one_in_100_is_back(shape, 380_000);
    }
}

#[test]
fn nearly_all_that_fitted_uncompressed_fits_again() {
    let shape = Shape { compress: false, ..Shape::of(32 * MIB) };
    all_but_one_in_100_is_back(shape, 120_000);
}

/// The index is made for the items of an image before any has come, and for fewer where there is
/// less memory; and it has what it needs, and no more, when all have come.
#[test]
fn an_index_begins_with_tables_for_what_comes() {
    let shape = Shape { compress: false, ..Shape::of(32 * MIB) };
    let (before, _) = shape.build(None, NOW);
    fill(&before, 60_000);
    let (image, saved) = save(&before);
    assert!(saved.items > 50_000 && saved.items == before.stats().items, "{saved:?}");
    let head = image_format::open(&image).unwrap();
    let begun = |bytes| Shape { memory_bytes: bytes, ..shape }.build(Some(head), NOW).0.stats();
    let slots = begun(32 * MIB).index_slots;
    assert!((saved.items..saved.items * 5 / 4).contains(&slots), "{slots} of {saved:?}");
    assert!(begun(8 * MIB).index_slots < saved.items / 2);
    let (after, restored) = shape.restore(&image, NOW + 1);
    while after.maintain() {}
    assert_eq!(restored.items, saved.items);
    let stats = after.stats();
    assert!(stats.index_slots * 20 < slots * 21, "{stats:?} grew from {slots}");
}

#[test]
fn with_less_memory_the_most_valuable_stay() {
    let (before, _) = Shape::of(32 * MIB).build(None, NOW);
    fill(&before, 150_000);
    // The items read last are in the hot zone, and read.
    let read: Vec<u32> = (0..2000).map(|at| 149_999 - at * 2).collect();
    for number in &read {
        put(&before, &key(*number), &value(*number, 1), Attributes::default());
        assert!(before.get(&key(*number)).is_some());
    }
    let (image, saved) = save(&before);
    // A third of it holds everything.
    let (after, restored) = Shape::of(8 * MIB).restore(&image, NOW + 1);
    let stats = after.stats();
    assert!(stats.used_bytes <= stats.limit_bytes, "{stats:?}");
    let there = read.iter().filter(|number| after.get(&key(**number)).is_some()).count();
    // Half of the items of the hot zone are as valuable by their marks.
    assert!(there * 100 >= read.len() * 90, "{there} of {}; {restored:?}", read.len());
    assert!(stats.items < saved.items, "{stats:?}");
}

/// Regression: the least valuable came first and stayed, and each of the others was tried eight
/// times: a start with `-M` and a quarter of the memory took a minute.
#[test]
fn without_eviction_the_most_valuable_items_are_restored_and_soon() {
    let shape = Shape { compress: false, ..Shape::of(32 * MIB) };
    let (before, _) = shape.build(None, NOW);
    (0..60_000).for_each(|number| put(&before, &key(number), &value(number, 1), <_>::default()));
    let read = 20_000..24_000;
    assert!(read.clone().all(|number| before.get(&key(number)).is_some()));
    put(&before, b"long", &noise(1, 900_000), Attributes::default());
    let (image, saved) = save(&before);
    for (threads, compress) in [(1, false), (4, true)] {
        let less = Shape { memory_bytes: 8 * MIB, evict: false, compress, ..shape };
        let (after, restored) = less.restore_with(&image, NOW + 1, threads);
        let stats = after.stats();
        assert!(stats.used_bytes <= stats.limit_bytes, "{stats:?}");
        assert_eq!((stats.evicted, stats.items), (0, restored.items));
        assert!(read.clone().all(|number| after.get(&key(number)).is_some()), "{restored:?}");
        assert_eq!(restored.items + restored.refused, saved.items, "{restored:?}");
        assert!(restored.refused > 20_000 && restored.is_whole, "{restored:?}");
        // Some tries for each size, and none for most items.
        assert!(stats.out_of_memory < 5000, "{stats:?}");
    }
    // As many items as there were have room again.
    let same = Shape { evict: false, ..shape };
    let (after, restored) = same.restore(&image, NOW + 1);
    assert!(restored.items * 100 >= saved.items * 99, "{restored:?} of {saved:?}");
    assert_eq!(after.stats().evicted, 0);
}

/// The state that an item is to have after the restart.
struct Wanted {
    value: Vec<u8>,
    attributes: Attributes,
    /// Its unique before the restart, if it was in the hot zone.
    cas: Option<u64>,
    is_stale: bool,
}

/// Returns a seed of this run, printed; or the one that is to be repeated.
fn seed() -> u64 {
    let given = std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    println!("LARDER_SEED={seed}");
    seed
}

/// Stores items of all kinds, and changes some of them; returns their final state.
fn store_at_random(cache: &Cache, random: &mut Xorshift) -> HashMap<Vec<u8>, Wanted> {
    let mut model: HashMap<Vec<u8>, Wanted> = HashMap::new();
    let [soon, early, later, late] =
        [5000, 4700, 1_000_000, 999_001].map(|ms| Expiry::at_ms(u64::from(NOW) * 1000 + ms));
    let expiries = [Expiry::NEVER, soon, early, later, late];
    for step in 0..60_000_u32 {
        let key = key((random.draw() % 40_000) as u32);
        let hash = cache.hash(&key);
        match random.draw() % 20 {
            0 => {
                cache.remove(&key);
                model.remove(&key);
            }
            1 => {
                let invalidate = Remove { invalidate: true, ..Remove::default() };
                let removed = cache.with_memory(|session| session.remove(&key, hash, &invalidate));
                if removed.unwrap() == Removed::Removed {
                    model.get_mut(&key).unwrap().is_stale = true;
                }
            }
            2..6 => {
                let found = cache.get(&key);
                assert!(found.is_none() || found.as_ref() == model.get(&key).map(|it| &it.value));
            }
            _ => {
                let attributes = Attributes {
                    flags: random.draw() as u32 % 3,
                    expiry: expiries[random.draw() as usize % expiries.len()],
                    base64_key: random.chance(0.1),
                    cost_us: [0, 1000, 2000][random.draw() as usize % 3],
                };
                let value = match random.draw() % 400 {
                    // In several chunks, and in several blocks of the image.
                    0 => noise(random.draw(), 20_000 + random.draw() as usize % 500_000),
                    _ => value(step, 1),
                };
                let custom = random.chance(0.05).then(|| random.draw() >> 1);
                let store = Store { condition: Condition::Always, new_cas: custom };
                let stored = cache.with_memory(|session| {
                    let mut draft = session.reserve(&key, hash, attributes, value.len())?;
                    draft.write(&value);
                    session.store(draft, store).map_err(|(_, refusal)| refusal)
                });
                assert!(matches!(stored, Ok(Stored::Stored { .. })), "{stored:?}");
                model.insert(key, Wanted { value, attributes, cas: None, is_stale: false });
            }
        }
        if step % 64 == 0 {
            while cache.maintain() {}
        }
    }
    model
}

#[test]
fn restored_items_have_all_that_belonged_to_them() {
    let seed = seed();
    let shape = Shape { hot_target: Some(0.6), ..Shape::of(16 * MIB) };
    restored_items_are_those_that_were_saved(shape, seed);
    restored_items_are_those_that_were_saved(Shape { index: IndexKind::Tree, ..shape }, seed);
    restored_items_are_those_that_were_saved(Shape { layout: ChunkLayout::Split, ..shape }, seed);
}

fn restored_items_are_those_that_were_saved(shape: Shape, seed: u64) {
    let mut random = Xorshift::seeded(seed);
    let (before, _) = shape.build(None, NOW);
    let mut model = store_at_random(&before, &mut random);
    let (mut hot, mut below) = (0, 0);
    model.retain(|key, wanted| {
        let session = before.session();
        let Some(item) = session.peek(key, before.hash(key)) else { return false };
        wanted.cas = (!item.is_compressed()).then(|| item.cas());
        *(if item.is_compressed() { &mut below } else { &mut hot }) += 1;
        true
    });
    assert!(hot > 1000 && below > 1000, "{hot} hot, {below} below");
    let newest = before.put(b"newest", b"", Attributes::default(), Condition::Always).unwrap();
    let Stored::Stored { cas: newest } = newest else { panic!("{newest:?}") };
    let (image, saved) = save(&before);
    assert_eq!(saved.items, model.len() as u64 + 1);
    let now = NOW + 5;
    let (after, restored) = shape.restore(&image, now);
    assert!(restored.is_whole && restored.lost == 0, "{restored:?}");
    let is_over = |wanted: &Wanted| wanted.attributes.expiry.is_expired(u64::from(now) * 1000);
    let over = model.values().filter(|wanted| is_over(wanted)).count();
    assert!(over > 1000);
    assert_eq!(restored.expired, over as u64);
    let mut missing = 0;
    for (key, wanted) in &model {
        let hash = after.hash(key);
        let session = after.session();
        let Some(item) = session.peek(key, hash) else {
            missing += u32::from(!is_over(wanted));
            continue;
        };
        assert!(!is_over(wanted));
        let Attributes { flags, expiry, base64_key, cost_us } = wanted.attributes;
        assert!(item.to_vec() == wanted.value, "{key:?}");
        assert_eq!((item.flags(), item.base64_key()), (flags, base64_key));
        assert_eq!(item.stale(), wanted.is_stale);
        // An invalidation may change the expiry by its own rules; it was not asked to here.
        assert_eq!(item.expiry(), expiry);
        assert!(item.cost_us().abs_diff(cost_us) <= cost_us / 1000 || cost_us == 0);
        if let Some(cas) = wanted.cas.filter(|_| !item.is_compressed()) {
            assert_eq!(item.cas(), cas);
        }
    }
    assert!(missing * 100 <= model.len() as u32, "{missing} of {}", model.len());
    let stored = after.put(b"newer", b"", Attributes::default(), Condition::Always).unwrap();
    assert!(matches!(stored, Stored::Stored { cas } if cas > newest), "{stored:?} {newest}");
}

#[test]
fn a_unique_from_before_a_crash_without_an_image_is_no_items_after_it() {
    let shape = Shape::of(16 * MIB);
    let (first, _) = shape.build(None, NOW);
    unique(&first);
    let (second, _) = shape.restore(&save(&first).0, NOW + 1);
    let before = unique(&second);
    let (third, _) = shape.build(None, NOW + 2);
    assert!(unique(&third) > before);
}

/// Regression: numbers began at the clock's second, so two processes that began in one gave the
/// same.
#[test]
fn a_process_that_begins_in_the_same_second_gives_other_uniques() {
    let clock = Arc::new(ManualClock::new(NOW));
    let begin = || {
        let builder = Cache::builder().memory_bytes(16 * MIB).clock(clock.clone());
        builder.image(None).build().unwrap()
    };
    let first = begin();
    let before = (0..1000).map(|_| unique(&first)).last();
    clock.advance_us(1000);
    assert!(Some(unique(&begin())) > before);
}

/// Returns the unique of an item that is stored now.
fn unique(cache: &Cache) -> u64 {
    let stored = cache.put(b"k", b"", Attributes::default(), Condition::Always);
    match stored.unwrap() {
        Stored::Stored { cas } => cas,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_planned_flush_still_happens() {
    let shape = Shape::of(16 * MIB);
    let (before, _) = shape.build(None, NOW);
    put(&before, b"k", b"v", Attributes::default());
    before.flush(Some(Expiry::at(NOW + 100)));
    let (image, _) = save(&before);
    let head = image_format::open(&image).unwrap();
    let (after, clock) = shape.build(Some(head), NOW + 50);
    assert_eq!(after.restore(&image, &head, 1).unwrap().items, 1);
    put(&after, b"stored later", b"v", Attributes::default());
    assert!(after.get(b"k").is_some());
    clock.advance(50);
    assert!(after.get(b"k").is_none() && after.get(b"stored later").is_none());
    // While no process served, or at a time that cannot be told.
    for now in [NOW + 100, NOW - 61] {
        let (after, restored) = shape.restore(&image, now);
        assert_eq!((restored.items, restored.expired), (0, 1));
        assert!(after.get(b"k").is_none());
    }
}

#[test]
fn items_with_an_expiry_are_lost_if_the_clock_went_backwards() {
    let shape = Shape::of(16 * MIB);
    let (before, _) = shape.build(None, NOW);
    let expires = Attributes { expiry: Expiry::at(NOW + 1000), ..Attributes::default() };
    put(&before, b"expires", b"v", expires);
    put(&before, b"stays", b"v", Attributes::default());
    let (image, _) = save(&before);
    for (now, is_there) in [(NOW, true), (NOW - 60, true), (NOW - 61, false)] {
        let (after, restored) = shape.restore(&image, now);
        assert!(after.get(b"stays").is_some());
        assert_eq!(after.get(b"expires").is_some(), is_there);
        assert_eq!((restored.expired, restored.behind_s), (u64::from(!is_there), NOW - now));
    }
}

/// Regression: all items with an expiry were gone when the clock was set by a better one that was a
/// second behind.
#[test]
fn time_stands_still_for_a_clock_that_is_a_little_behind() {
    let shape = Shape::of(16 * MIB);
    let (before, _) = shape.build(None, NOW);
    let expires = Attributes { expiry: Expiry::at(NOW + 100), ..Attributes::default() };
    put(&before, b"expires", b"v", expires);
    before.flush(Some(Expiry::at(NOW + 200)));
    let (image, _) = save(&before);
    let head = image_format::open(&image).unwrap();
    let (after, clock) = shape.build(Some(head), NOW - 40);
    assert_eq!(after.restore(&image, &head, 1).unwrap().items, 1);
    put(&after, b"stays", b"v", Attributes::default());
    // As long as was left to them, and no longer.
    for (seconds, expires, stays) in [(99, true, true), (1, false, true), (100, false, false)] {
        clock.advance(seconds);
        let there = (after.get(b"expires").is_some(), after.get(b"stays").is_some());
        assert_eq!(there, (expires, stays), "{seconds} s later");
    }
}

/// A clock with a wall clock that was set since it was made.
struct SetClock(ManualClock, i64);

impl Clock for SetClock {
    fn unix_seconds(&self) -> u32 {
        self.0.unix_seconds()
    }

    fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }

    fn wall_ms(&self) -> u64 {
        self.0.unix_ms().saturating_add_signed(self.1)
    }
}

/// Regression: a machine's clock was ahead until it was set by another one, and stored items lived
/// as much longer after the restart.
#[test]
fn times_that_were_ahead_of_the_wall_clock_come_back_right() {
    let attributes = |second| Attributes { expiry: Expiry::at(second), ..Attributes::default() };
    // Milliseconds that the wall clock was put forward, and how many seconds times are ahead then.
    for (set_ms, ahead_s) in [(-3_600_000, 3600), (-1, 1), (0, 0), (999, 0), (3_600_000, 0)] {
        let clock = Arc::new(SetClock(ManualClock::new(NOW), set_ms));
        let builder = Cache::builder().memory_bytes(16 * MIB).clock(clock).image(None);
        let before = builder.build().unwrap();
        put(&before, b"soon", b"v", attributes(NOW + 6));
        put(&before, b"later", b"v", attributes(NOW + 100));
        put(&before, b"stays", b"v", Attributes::default());
        before.flush(Some(Expiry::at(NOW + 200)));
        let (image, _) = save(&before);
        let head = image_format::open(&image).unwrap();
        let wall_at = (i64::from(NOW) + set_ms.div_euclid(1000)) as u32;
        assert_eq!((head.saved_at, head.wall_at), (NOW, Some(wall_at)));
        let now = NOW - ahead_s + 10;
        let (after, clock) = Shape::of(16 * MIB).build(Some(head), now.max(wall_at));
        let restored = after.restore(&image, &head, 1).unwrap();
        let passed = now.max(wall_at) - (NOW - ahead_s);
        let there = |key: &[u8]| after.get(key).is_some();
        assert_eq!(there(b"later"), passed < 100, "{set_ms}");
        assert!(!there(b"soon") && restored.behind_s == 0, "{set_ms}: {restored:?}");
        assert_eq!(there(b"stays"), passed < 200, "{set_ms}");
        for (second, key) in [(100, b"later"), (200, b"stays")] {
            if passed < 100 {
                clock.advance(second - 1 - (clock.unix_seconds() - (NOW - ahead_s)));
                assert!(there(key), "{set_ms}");
                clock.advance(1);
                assert!(!there(key), "{set_ms}");
            }
        }
    }
}

/// An image of the version that did not tell what the wall clock said is taken at its word.
#[test]
fn times_of_an_image_of_the_version_before_stay() {
    let shape = Shape::of(16 * MIB);
    let (before, _) = shape.build(None, NOW);
    let expires = Attributes { expiry: Expiry::at(NOW + 100), ..Attributes::default() };
    put(&before, b"expires", b"v", expires);
    let (mut image, _) = save(&before);
    let head = ImageHead { wall_at: None, ..image_format::open(&image).unwrap() };
    image.splice(..64, head.to_bytes());
    for (now, is_there) in [(NOW + 99, true), (NOW + 100, false)] {
        assert_eq!(shape.restore(&image, now).0.get(b"expires").is_some(), is_there);
    }
}

#[test]
fn expired_and_flushed_items_are_not_saved() {
    let (before, clock) = Shape::of(16 * MIB).build(None, NOW);
    let expires = Attributes { expiry: Expiry::at(NOW + 10), ..Attributes::default() };
    put(&before, b"expires", b"v", expires);
    put(&before, b"stays", b"v", Attributes::default());
    clock.advance(10);
    assert_eq!(save(&before).1.items, 1);
    before.flush(None);
    assert_eq!(save(&before).1.items, 0);
}

#[test]
fn a_limit_cuts_off_the_least_and_leaves_a_whole_image() {
    let shape = Shape { compress: false, ..Shape::of(32 * MIB) };
    let (before, _) = shape.build(None, NOW);
    (0..30_000).for_each(|number| put(&before, &key(number), &value(number, 1), <_>::default()));
    assert!((20_000..20_500).all(|number| before.get(&key(number)).is_some()));
    let mut looks = 0;
    let (bytes, saved) = before
        .save_image(Vec::new(), || {
            looks += 1;
            looks < 25
        })
        .unwrap();
    assert!(saved.is_interrupted && saved.items < before.stats().items / 4, "{saved:?}");
    let (after, restored) = shape.restore(&bytes, NOW);
    assert!(restored.is_whole && restored.items == saved.items, "{restored:?}");
    assert!((20_000..20_500).all(|number| after.get(&key(number)).is_some()));
}

/// Regression: it was asked only after items had been written: not during whole passes over the hot
/// zone for items of a rank that there were none of.
#[test]
fn saving_asks_whether_to_go_on_where_it_writes_nothing() {
    let shape = Shape { compress: false, ..Shape::of(32 * MIB) };
    let (before, _) = shape.build(None, NOW);
    (0..30_000).for_each(|number| put(&before, &key(number), &value(number, 1), <_>::default()));
    let mut looks = 0;
    let (_, saved) = before
        .save_image(Vec::new(), || {
            looks += 1;
            looks < 5
        })
        .unwrap();
    // Nothing was read, so that the first pass finds nothing.
    assert!(saved.is_interrupted && saved.items == 0, "{saved:?}");
}

#[test]
fn damaged_items_are_counted_and_not_replaced() {
    let seed = seed();
    let mut random = Xorshift::seeded(seed);
    let shape = Shape { compress: false, ..Shape::of(16 * MIB) };
    let (before, _) = shape.build(None, NOW);
    let items = 8000;
    (0..items).for_each(|number| put(&before, &key(number), &value(number, 1), <_>::default()));
    put(&before, b"long", &noise(1, 900_000), Attributes::default());
    let (image, saved) = save(&before);
    for _ in 0..50 {
        let mut bytes = image.clone();
        for _ in 0..1 + random.draw() % 3 {
            let at = random.draw() as usize % bytes.len();
            bytes[at] ^= 1 << (random.draw() % 8);
        }
        if random.chance(0.3) {
            bytes.truncate(random.draw() as usize % bytes.len());
        }
        let Ok(head) = image_format::open(&bytes) else { continue };
        let (after, _) = shape.build(Some(head), NOW);
        let restored = after.restore(&bytes, &head, 2).unwrap();
        assert!(!restored.is_whole, "{restored:?}");
        // It looks at every value that is there.
        let there = present(&after, items).len() as u64;
        let long = after.get(b"long");
        assert!(long.as_ref().is_none_or(|long| *long == noise(1, 900_000)));
        assert_eq!(restored.items, there + u64::from(long.is_some()));
        assert!(restored.items + restored.lost <= saved.items, "{restored:?}");
    }
}

#[test]
fn a_disk_that_fails_is_an_error() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (cache, _) = Shape::of(16 * MIB).build(None, NOW);
    fill(&cache, 2000);
    for room in [0, 10, 100, 1000] {
        let error = cache.save_image(Full(room), || true).err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }
}
