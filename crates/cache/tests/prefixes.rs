//! Flushing by prefix as users of the cache see it: items with the prefix are gone in every tier at
//! once and stay so, over restarts too, and no others are touched.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;

use io::ManualClock;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Attributes, Cache, Condition, DumpCursor, Dumped, Expiry, FLUSHED_PREFIXES_MAX, FlashSettings,
    Lookup, PREFIX_BYTES_MAX, PrefixRefused, Stored, image_format,
};
use stdx::random::Xorshift;

const NOW: u32 = 1_800_000_000;
const BOOT: [u8; 16] = [7; 16];
const FLASH_BYTES: usize = 48 << 20;
/// Items that fill all tiers.
const ITEMS: u32 = 60_000;

/// The tiers of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tiers {
    Hot,
    Compressed,
    Flash,
    /// Without a compressed zone.
    FlashAlone,
}

const ALL: [Tiers; 4] = [Tiers::Hot, Tiers::Compressed, Tiers::Flash, Tiers::FlashAlone];

struct Fixture {
    cache: Cache,
    tiers: Tiers,
    device: Arc<FakeDevice>,
}

impl Fixture {
    fn new(tiers: Tiers) -> Self {
        let pages = (FLASH_BYTES / PAGE_BYTES) as u64;
        Self::on(tiers, FakeDevice::new(pages, 1, Faults::default()))
    }

    fn on(tiers: Tiers, device: FakeDevice) -> Self {
        let device = Arc::new(device);
        let compress = matches!(tiers, Tiers::Compressed | Tiers::Flash);
        let mut builder = Cache::builder().memory_bytes(8 << 20).compress(compress);
        if matches!(tiers, Tiers::Flash | Tiers::FlashAlone) {
            let flash = FlashSettings::new(device.clone(), BOOT);
            builder = builder.flash(FlashSettings { threads: 1, ..flash });
        }
        let cache = builder.clock(Arc::new(ManualClock::new(NOW))).build().unwrap();
        Self { cache, tiers, device }
    }

    /// Returns another process on what this one has left, which was killed.
    fn followed(self) -> Self {
        let device = self.device.reopened(2, Faults::default());
        let tiers = self.tiers;
        drop(self);
        let fixture = Self::on(tiers, device);
        fixture.maintain();
        fixture
    }

    fn maintain(&self) {
        while self.cache.maintain() {}
    }

    /// Stores items, and reads them, so that they are worth keeping.
    fn fill(&self, version: u32) {
        for number in 0..ITEMS {
            self.cache.set(&key(number), &value(number, version), Expiry::NEVER).unwrap();
            assert!(self.cache.get(&key(number)).is_some());
            if number % 64 == 0 {
                self.maintain();
            }
        }
        self.maintain();
    }

    /// Returns how many of the items with either prefix are there, with this version.
    fn found(&self, version: u32) -> [usize; 2] {
        let found = |number: &u32| {
            let there = self.cache.get(&key(*number));
            let wanted = value(*number, version);
            assert!(there.as_ref().is_none_or(|there| *there == wanted), "{number}: {there:?}");
            there.is_some()
        };
        [0, 1].map(|first| (first..ITEMS).step_by(2).filter(found).count())
    }

    /// Returns the numbers of the items of the first prefix that no longer are in the hot zone.
    fn below(&self) -> Vec<u32> {
        let is_compressed = |number: &u32| {
            let (session, key) = (self.cache.session(), key(*number));
            match session.peek_anywhere(&key, self.cache.hash(&key)) {
                Lookup::Hit(item) => item.is_compressed(),
                Lookup::Pending => true,
                Lookup::Miss => false,
            }
        };
        (0..ITEMS).step_by(2).filter(is_compressed).collect()
    }

    /// Returns how many items of the first prefix a dump of everything lists.
    fn listed(&self) -> usize {
        let (mut cursor, mut listed, mut arrived) = (DumpCursor::default(), 0, Vec::new());
        loop {
            let session = self.cache.session();
            session.deliver(arrived.drain(..));
            let dumped = session.dump(&mut cursor, 256, |item| {
                listed += usize::from(item.key().starts_with(b"even:"));
            });
            let wanted = session.take_wanted();
            drop(session);
            match dumped {
                Dumped::More => {}
                Dumped::Pending => arrived = self.cache.read_wanted_now(wanted),
                Dumped::End => return listed,
            }
        }
    }
}

fn key(number: u32) -> Vec<u8> {
    let prefix = if number.is_multiple_of(2) { "even" } else { "odd" };
    format!("{prefix}:{number}").into_bytes()
}

/// Returns a value of which half does not compress.
fn value(number: u32, version: u32) -> Vec<u8> {
    let mut value = format!("{number} in version {version}, and so on, ").into_bytes();
    let mut random = Xorshift::seeded(1 + u64::from(number));
    value.extend((0..40).flat_map(|_| random.draw().to_le_bytes()));
    value.resize(600, b'.');
    value
}

#[test]
fn only_items_with_the_prefix_are_gone_in_every_tier() {
    for tiers in ALL {
        let fixture = Fixture::new(tiers);
        fixture.fill(1);
        let [even, odd] = fixture.found(1);
        assert!(even > 1000 && odd > 1000, "{tiers:?}: {even} and {odd}");
        assert_eq!(fixture.below().is_empty(), tiers == Tiers::Hot);
        assert!(fixture.listed() > 1000);
        fixture.cache.flush_prefix(b"even:").unwrap();
        assert_eq!(fixture.listed(), 0, "{tiers:?}");
        let [even, after] = fixture.found(1);
        assert_eq!(even, 0, "{tiers:?}");
        assert!(after + odd / 50 >= odd, "{tiers:?}: {after} of {odd}");
        fixture.cache.set(b"even:0", &value(0, 1), Expiry::NEVER).unwrap();
        fixture.maintain();
        assert_eq!(fixture.cache.stats().prefixes_flushing[0], 0, "the walk is over");
        assert_eq!(fixture.found(1)[0], 1, "{tiers:?}");
    }
}

#[test]
fn items_stored_after_a_flush_are_demoted_and_found() {
    for tiers in [Tiers::Compressed, Tiers::Flash, Tiers::FlashAlone] {
        let fixture = Fixture::new(tiers);
        fixture.fill(1);
        fixture.cache.flush_prefix(b"even:").unwrap();
        fixture.fill(2);
        let below = fixture.below();
        assert_eq!(fixture.cache.stats().prefixes_flushing[0], 0);
        assert!(below.len() > 100, "{tiers:?}: {}", below.len());
        for number in below {
            let there = fixture.cache.get(&key(number));
            assert!(there.is_none_or(|there| there == value(number, 2)), "{tiers:?}: {number}");
        }
        assert!(fixture.found(2)[0] > 1000);
    }
}

/// Requests that depend on the present item see that there is none, wherever it was.
#[test]
fn conditions_and_removals_do_not_see_flushed_items() {
    for tiers in ALL {
        let fixture = Fixture::new(tiers);
        fixture.fill(1);
        let numbers = match tiers {
            Tiers::Hot => (0..ITEMS).step_by(2).collect(),
            _ => fixture.below(),
        };
        let cache = &fixture.cache;
        cache.flush_prefix(b"even:").unwrap();
        let put = |number: u32, condition| {
            cache.put(&key(number), &value(number, 2), Attributes::default(), condition).unwrap()
        };
        for numbers in numbers.chunks_exact(3).take(200) {
            assert!(!cache.remove(&key(numbers[0])), "{tiers:?}");
            assert_eq!(put(numbers[1], Condition::Present), Stored::NotStored, "{tiers:?}");
            let added = put(numbers[2], Condition::Absent);
            assert!(matches!(added, Stored::Stored { .. }), "{tiers:?}");
            assert_eq!(cache.get(&key(numbers[2])), Some(value(numbers[2], 2)));
        }
    }
}

#[test]
fn flushed_items_stay_away_after_a_kill_or_a_clean_stop() {
    for tiers in [Tiers::Flash, Tiers::FlashAlone] {
        for stops in [false, true] {
            let fixture = Fixture::new(tiers);
            fixture.fill(1);
            fixture.cache.flush_prefix(b"even:").unwrap();
            fixture.cache.set(b"even:0", &value(0, 1), Expiry::NEVER).unwrap();
            if stops {
                fixture.cache.save_to_flash(|| true);
                fixture.cache.close_flash().unwrap();
            }
            let fixture = fixture.followed();
            let [even, odd] = fixture.found(1);
            assert!(odd > 1000, "{tiers:?}: {odd}");
            assert_eq!(even, usize::from(stops), "{tiers:?}: only what came later");
        }
    }
}

#[test]
fn an_image_has_no_flushed_items() {
    for tiers in [Tiers::Hot, Tiers::Compressed] {
        let before = Fixture::new(tiers);
        before.fill(1);
        before.cache.flush_prefix(b"even:").unwrap();
        before.cache.set(b"even:0", &value(0, 1), Expiry::NEVER).unwrap();
        // Before the walk has done anything.
        let (image, _) = before.cache.save_image(Vec::new(), || true).unwrap();
        let head = image_format::open(&image).unwrap();
        let compress = tiers == Tiers::Compressed;
        let builder = Cache::builder().memory_bytes(8 << 20).compress(compress).image(Some(head));
        let cache = builder.clock(Arc::new(ManualClock::new(NOW))).build().unwrap();
        cache.restore(&image, &head, 2).unwrap();
        let after = Fixture { cache, ..Fixture::new(tiers) };
        let [even, odd] = after.found(1);
        assert!(even == 1 && odd > 1000, "{tiers:?}: {even} and {odd}");
    }
}

#[test]
fn a_prefix_has_1_to_250_bytes_and_binary_ones_are_fine() {
    let cache = Cache::builder().memory_bytes(4 << 20).build().unwrap();
    let longest = vec![0xff; PREFIX_BYTES_MAX];
    for key in [&longest[..], b"\0\xff\n key", b"\0"] {
        cache.set(key, b"v", Expiry::NEVER).unwrap();
    }
    assert_eq!(cache.flush_prefix(b""), Err(PrefixRefused::Length));
    assert_eq!(cache.flush_prefix(&[0xff; PREFIX_BYTES_MAX + 1]), Err(PrefixRefused::Length));
    assert!(cache.get(&longest).is_some());
    cache.flush_prefix(&longest).unwrap();
    cache.flush_prefix(b"\0\xff").unwrap();
    assert!(cache.get(&longest).is_none() && cache.get(b"\0\xff\n key").is_none());
    assert!(cache.get(b"\0").is_some());
}

#[test]
fn a_full_table_refuses_a_prefix_until_the_background_makes_room() {
    let cache = Cache::builder().memory_bytes(4 << 20).build().unwrap();
    let prefix = |number: usize| format!("p{number:04}:").into_bytes();
    for number in 0..=FLUSHED_PREFIXES_MAX {
        cache.set(&[&prefix(number)[..], b"key"].concat(), b"v", Expiry::NEVER).unwrap();
    }
    for number in 0..FLUSHED_PREFIXES_MAX {
        cache.flush_prefix(&prefix(number)).unwrap();
    }
    assert_eq!(cache.stats().prefixes_flushing[0], FLUSHED_PREFIXES_MAX as u64);
    let last = [&prefix(FLUSHED_PREFIXES_MAX)[..], b"key"].concat();
    assert_eq!(cache.flush_prefix(&prefix(FLUSHED_PREFIXES_MAX)), Err(PrefixRefused::TooMany));
    assert!(cache.get(&last).is_some() && cache.get(b"p0000:key").is_none());
    while cache.maintain() {}
    assert_eq!(cache.stats().prefixes_flushing[0], 0);
    cache.flush_prefix(&prefix(FLUSHED_PREFIXES_MAX)).unwrap();
    assert!(cache.get(&last).is_none());
}

/// Flash has room for fewer prefixes, and keeps them for longer.
#[test]
fn a_prefix_without_room_on_flash_is_not_flushed_in_memory() {
    let fixture = Fixture::new(Tiers::FlashAlone);
    let cache = &fixture.cache;
    let mut number = 0;
    let refused = loop {
        let prefix = format!("p{number:04}:").into_bytes();
        cache.set(&prefix, b"v", Expiry::NEVER).unwrap();
        // An item on flash: otherwise the flush ends at once.
        if number == 0 {
            fixture.fill(1);
        }
        match cache.flush_prefix(&prefix) {
            Ok(()) => assert!(cache.get(&prefix).is_none()),
            Err(refused) => break (prefix, refused),
        }
        number += 1;
        assert!(number < 200, "the page never fills up");
    };
    assert_eq!(refused.1, PrefixRefused::TooMany);
    assert!(number > 80 && cache.get(&refused.0).is_some());
    assert_eq!(cache.stats().prefixes_flushing[1], number);
    let mut turns = 0;
    while cache.stats().prefixes_flushing != [0, 0] {
        cache.maintain();
        turns += 1;
        assert!(turns < 100_000, "scrubbing does not come to its end");
    }
    assert!(cache.get(&refused.0).is_some());
    cache.flush_prefix(&refused.0).unwrap();
    assert!(cache.get(&refused.0).is_none());
}

/// A flush does not wait for the walk of one before, nor does the walk begin anew for each.
#[test]
fn walks_come_to_an_end_while_prefixes_are_flushed_all_the_time() {
    let cache = Cache::builder().memory_bytes(4 << 20).build().unwrap();
    for number in 0..10 * FLUSHED_PREFIXES_MAX {
        let prefix = format!("p{number:05}:");
        cache.set(prefix.as_bytes(), b"v", Expiry::NEVER).unwrap();
        cache.flush_prefix(prefix.as_bytes()).unwrap();
        assert!(cache.get(prefix.as_bytes()).is_none());
        // One turn each: less than a walk takes.
        cache.maintain();
    }
}
