//! Notes of death that the device takes its time for: no client is told of a change before the
//! device knows of it, whichever client made it.
//!
//! Regression: the note was written after the key's lock had opened. So a second client could find
//! nothing of a key any more, and be told so, while the device still had its old value: a kill then
//! brought that back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use io::ManualClock;
use io::device::{Device, FakeDevice, Faults, Page};
use larder::{Attributes, Cache, Condition, Expiry, FlashSettings};

use crate::fixture::{BOOT, Fixture, NOW, SHAPES, Shape, TREE_SHAPES, long};

/// How long the second client is seen to wait. One that does not is done much sooner.
const PATIENCE: Duration = Duration::from_millis(300);

/// The second by which an expiring item has expired.
const OVER: u32 = NOW + 100;

/// A device whose next note waits until it is told to go on, when it is told to wait.
#[derive(Debug)]
struct SlowDevice {
    inner: FakeDevice,
    is_slow: AtomicBool,
    /// Notified when a note waits.
    waits: Sender<()>,
    goes_on: Mutex<Receiver<()>>,
}

impl Device for SlowDevice {
    fn pages(&self) -> u64 {
        self.inner.pages()
    }

    fn read(&self, page: u64, target: &mut [Page]) -> std::io::Result<()> {
        self.inner.read(page, target)
    }

    fn write(&self, page: u64, source: &[Page]) -> std::io::Result<()> {
        self.inner.write(page, source)
    }

    fn read_note(&self, at: u64, target: &mut [u8]) -> std::io::Result<()> {
        self.inner.read_note(at, target)
    }

    fn write_note(&self, at: u64, source: &[u8]) -> std::io::Result<()> {
        if self.is_slow.swap(false, Ordering::Relaxed) {
            self.waits.send(()).unwrap();
            self.goes_on.lock().unwrap().recv().unwrap();
        }
        self.inner.write_note(at, source)
    }

    fn sync(&self) -> std::io::Result<()> {
        self.inner.sync()
    }
}

/// The change that one client makes to the key, and the request that another makes then.
type Request = fn(&Cache, &[u8]);

fn set(cache: &Cache, key: &[u8]) {
    cache.put(key, b"after", Attributes::default(), Condition::Always).unwrap();
}

fn delete(cache: &Cache, key: &[u8]) {
    cache.remove(key);
}

/// Adds to a key whose present item is in the way, and has expired.
fn add(cache: &Cache, key: &[u8]) {
    cache.put(key, b"after", Attributes::default(), Condition::Absent).unwrap();
}

#[test]
fn nobody_is_told_of_a_change_before_the_device_knows_of_it() {
    let changes: [(&str, Request, Expiry); 3] = [
        ("set", set, Expiry::NEVER),
        ("delete", delete, Expiry::NEVER),
        ("add", add, Expiry::at(OVER)),
    ];
    for shape in [SHAPES[0], TREE_SHAPES[1]] {
        let mut came_back = changes.to_vec();
        came_back.retain(|(_, first, expiry)| comes_back(shape, *expiry, *first, delete));
        let names: Vec<&str> = came_back.into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, Vec::<&str>::new());
    }
}

/// Whether a key's old item is found after a kill, when one client's change waits for the device
/// and another client has been answered. If that one waits, too, both may end.
fn comes_back(shape: Shape, expiry: Expiry, first: Request, second: Request) -> bool {
    let mut fixture = Fixture::shaped(shape, 64 << 20);
    let key = long("k");
    fixture.put_on_flash(&key, b"before", Attributes { expiry, ..Attributes::default() });
    fixture.cache.close_flash().unwrap();
    let ((waits, has_come), (go_on, goes_on)) = (channel(), channel());
    let inner = fixture.device.reopened(3, Faults::default());
    let goes_on = Mutex::new(goes_on);
    let device = Arc::new(SlowDevice { inner, is_slow: AtomicBool::new(false), waits, goes_on });
    let now = if expiry == Expiry::NEVER { NOW } else { OVER };
    let clock = Arc::new(ManualClock::new(now));
    let flash = FlashSettings { threads: 1, ..FlashSettings::new(device.clone(), BOOT) };
    let builder = Cache::builder().memory_bytes(8 << 20).compress(shape.compress).flash(flash);
    let cache = builder.index(shape.index).clock(clock).build().unwrap();
    while cache.maintain() {}
    assert!(!cache.stats().flash.unwrap().recovering);
    let found = thread::scope(|scope| {
        let (cache, key) = (&cache, &key);
        device.is_slow.store(true, Ordering::Relaxed);
        scope.spawn(move || first(cache, key));
        has_come.recv().unwrap();
        let (answer, answered) = channel();
        scope.spawn(move || {
            second(cache, key);
            answer.send(()).unwrap();
        });
        let was_answered = answered.recv_timeout(PATIENCE).is_ok();
        if was_answered {
            let left = device.inner.reopened(4, Faults::default());
            go_on.send(()).unwrap();
            return left;
        }
        go_on.send(()).unwrap();
        answered.recv().unwrap();
        device.inner.reopened(4, Faults::default())
    });
    let after = Fixture::at(NOW, shape, found, BOOT);
    after.maintain();
    after.cache.get(&key).as_deref() == Some(b"before")
}
