//! A small cache over a fake device, whose memory is easily filled, and the items that fill it.

use std::sync::Arc;

use io::device::{FakeDevice, Faults, PAGE_BYTES};
use io::{Clock, ManualClock};
use larder::{Attributes, Cache, Condition, FlashSettings, IndexKind, Lookup, Stored};

pub const NOW: u32 = 1_800_000_000;
pub const BOOT: [u8; 16] = [7; 16];
/// Keys of the test with many restarts.
pub const KEYS: u64 = 60_000;
/// Items that are stored after an item until it is on flash.
pub const FILLERS_MAX: u32 = 1_000_000;

/// The settings of a cache.
#[derive(Clone, Copy)]
pub struct Shape {
    pub compress: bool,
    pub index: IndexKind,
    pub write_limit: Option<f64>,
}

/// With a compressed zone, and without.
pub const SHAPES: [Shape; 2] = [shape(true, IndexKind::Cuckoo), shape(false, IndexKind::Cuckoo)];
/// [`SHAPES`] over a tree.
pub const TREE_SHAPES: [Shape; 2] = [shape(true, IndexKind::Tree), shape(false, IndexKind::Tree)];

pub const fn shape(compress: bool, index: IndexKind) -> Shape {
    Shape { compress, index, write_limit: None }
}

pub struct Fixture {
    pub cache: Cache,
    pub shape: Shape,
    pub clock: Arc<ManualClock>,
    pub device: Arc<FakeDevice>,
    pub fillers: u32,
}

impl Fixture {
    pub fn new(flash_bytes: usize) -> Self {
        Self::shaped(SHAPES[0], flash_bytes)
    }

    pub fn shaped(shape: Shape, flash_bytes: usize) -> Self {
        let pages = (flash_bytes / PAGE_BYTES) as u64;
        Self::on(shape, FakeDevice::new(pages, 1, Faults::default()), BOOT)
    }

    pub fn on(shape: Shape, device: FakeDevice, boot_id: [u8; 16]) -> Self {
        Self::at(NOW, shape, device, boot_id)
    }

    pub fn at(now: u32, shape: Shape, device: FakeDevice, boot_id: [u8; 16]) -> Self {
        let (device, clock) = (Arc::new(device), Arc::new(ManualClock::new(now)));
        let flash = FlashSettings {
            threads: 1,
            write_limit: shape.write_limit,
            ..FlashSettings::new(device.clone(), boot_id)
        };
        let builder = Cache::builder().memory_bytes(8 << 20).compress(shape.compress).flash(flash);
        let cache = builder.index(shape.index).clock(clock.clone()).build().unwrap();
        Self { cache, shape, clock, device, fillers: 0 }
    }

    /// Returns another process on what this one has left, which was killed.
    pub fn killed(self) -> Self {
        self.reopened(BOOT)
    }

    pub fn reopened(self, boot_id: [u8; 16]) -> Self {
        let device = self.device.reopened(2, Faults::default());
        let now = self.clock.unix_seconds();
        drop(self.cache);
        let fixture = Self::at(now, self.shape, device, boot_id);
        fixture.maintain();
        fixture
    }

    pub fn maintain(&self) {
        while self.cache.maintain() {}
    }

    pub fn put(&self, key: &[u8], value: &[u8], when: Condition) -> Stored {
        self.cache.put(key, value, Attributes::default(), when).unwrap()
    }

    pub fn is_on_flash(&self, key: &[u8]) -> bool {
        let session = self.cache.session();
        let hash = self.cache.hash(key);
        let in_memory = session.peek(key, hash).is_some();
        !in_memory && !matches!(session.look_up(key, hash), Lookup::Miss)
    }

    /// Stores an item, reads it, so that it is worth keeping, and stores others until it has left
    /// memory. An item that gets into a compressed zone to which hardly any go stays there: then it
    /// is stored once more.
    pub fn put_on_flash(&mut self, key: &[u8], value: &[u8], attributes: Attributes) {
        for round in 0.. {
            if round % 1000 == 0 {
                self.cache.put(key, value, attributes, Condition::Always).unwrap();
                assert!(self.cache.session().get(key, self.cache.hash(key)).is_some());
            } else if self.is_on_flash(key) {
                return;
            }
            assert!(self.fillers < FILLERS_MAX, "never on flash; {:?}", self.cache.stats());
            self.fill(64);
        }
    }

    pub fn fill(&mut self, count: u32) {
        for _ in 0..count {
            self.fillers += 1;
            let key = key(self.fillers);
            self.put(&key, &value(self.fillers), Condition::Always);
            // An item that was never read is not demoted when there is no room.
            assert!(self.cache.session().get(&key, self.cache.hash(&key)).is_some());
            if self.fillers.is_multiple_of(64) {
                self.maintain();
            }
        }
    }

    /// Returns how many of the fillers are there; each has its value.
    pub fn found(&self, fillers: u32) -> u32 {
        let found = |number: &u32| {
            let there = self.cache.get(&key(*number));
            there.is_some_and(|there| {
                assert_eq!(there, value(*number));
                true
            })
        };
        (1..=fillers).filter(found).count() as u32
    }
}

/// Returns a key so long that the item is of the fillers' size: an item alone in its size class
/// stays.
pub fn long(name: &str) -> Vec<u8> {
    format!("{name:-<155}").into_bytes()
}

pub fn key(number: u32) -> Vec<u8> {
    format!("filler-{number}").into_bytes()
}

/// Returns text that repeats itself from item to item, as values of one kind do.
pub fn value(number: u32) -> Vec<u8> {
    format!(
        "{{\"id\":{number},\"title\":\"An item of the catalogue\",\"price\":\"{}.{:02}\",\
         \"currency\":\"EUR\",\"available\":{},\"tags\":[\"new\",\"sale\",\"shop-{}\"]}}",
        number % 977,
        number % 100,
        number.is_multiple_of(3),
        number % 37
    )
    .into_bytes()
}
