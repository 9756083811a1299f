//! The flash tier on a file, read by each method there is: an item that left memory is found, with
//! its value, also when many threads ask at the same time and after a restart; and the method is as
//! was asked for.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use io::device::{
    Device, FakeDevice, Faults, FileDevice, PAGE_BYTES, ReadMethod, ReadPool, ReadRing,
};
use larder::{Attributes, BuildError, Builder, Cache, Condition, FlashSettings, Lookup};

const FLASH_BYTES: u64 = 64 << 20;
/// Several times what the memory holds.
const ITEMS: u32 = 100_000;
const READERS: u32 = 4;

fn settings(device: Arc<dyn Device>, method: Option<ReadMethod>) -> FlashSettings {
    FlashSettings { reads_by: method, threads: 2, ..FlashSettings::new(device, [7; 16]) }
}

fn builder(settings: FlashSettings) -> Builder {
    Cache::builder().memory_bytes(8 << 20).compress(true).flash(settings)
}

fn key(number: u32) -> Vec<u8> {
    format!("item-{number}").into_bytes()
}

/// Returns text that does not compress to nothing, and is another for each item.
fn value(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) + 1;
    let word = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        format!("{:x} ", state >> 32)
    };
    (0..20).map(word).collect::<String>().into_bytes()
}

fn fill(cache: &Cache) {
    for number in 0..ITEMS {
        cache.put(&key(number), &value(number), Attributes::default(), Condition::Always).unwrap();
        // An item that was never read is not demoted when there is no room.
        assert!(cache.session().get(&key(number), cache.hash(&key(number))).is_some());
        if number.is_multiple_of(64) {
            while cache.maintain() {}
        }
    }
}

/// Reads all items from several threads; returns how many were found. Each has its value.
fn found(cache: &Cache) -> u32 {
    let find = |number: &u32| {
        let there = cache.get(&key(*number));
        there.is_some_and(|there| {
            assert_eq!(there, value(*number));
            true
        })
    };
    let part = |reader| (0..ITEMS).skip(reader as usize).step_by(READERS as usize);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| scope.spawn(move || part(reader).filter(find).count() as u32))
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    })
}

#[test]
fn each_method_finds_items_on_flash_also_after_a_restart() {
    for method in ReadMethod::ALL {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flash");
        let open = || Arc::new(FileDevice::open(&path, FLASH_BYTES).unwrap().0);
        let device = open();
        if method == ReadMethod::IoUring
            && let Err(error) = ReadPool::try_io_uring(&*device)
        {
            println!("not run by io_uring: {error}");
            continue;
        }
        let cache = builder(settings(device, Some(method))).build().unwrap();
        assert_eq!(cache.stats().flash.unwrap().reads_by, None);
        assert_eq!(cache.start_flash_reads(), Some(method));
        fill(&cache);
        let before = found(&cache);
        let flash = cache.stats().flash.unwrap();
        assert_eq!((flash.reads_by, flash.reads_failed), (Some(method), 0));
        assert!(flash.hits > u64::from(ITEMS) / 4 && flash.reads > 0, "{flash:?}");
        assert!(u64::from(before) > flash.items, "{before} found, {flash:?}");
        cache.close_flash().unwrap();
        drop(cache);

        let cache = builder(settings(open(), Some(method))).build().unwrap();
        while cache.maintain() {}
        let kept = cache.stats().flash.unwrap().items;
        let again = u64::from(found(&cache));
        let flash = cache.stats().flash.unwrap();
        assert_eq!((flash.reads_by, flash.reads_failed), (Some(method), 0));
        assert!(again * 100 >= kept * 99 && kept > 0, "{again} found of {kept}, {flash:?}");
    }
}

#[test]
fn a_cache_that_insists_on_io_uring_is_not_built_without() {
    let pages = FLASH_BYTES / PAGE_BYTES as u64;
    let device = || Arc::new(FakeDevice::new(pages, 1, Faults::default()));
    let insists = builder(settings(device(), Some(ReadMethod::IoUring))).build();
    assert!(matches!(insists, Err(BuildError::FlashReads(_))), "{insists:?}");
    let takes_any = builder(settings(device(), None)).build().unwrap();
    assert_eq!(takes_any.start_flash_reads(), Some(ReadMethod::Threads));
    let without = Cache::builder().memory_bytes(8 << 20).build().unwrap();
    assert_eq!(without.start_flash_reads(), None);
}

/// Looks for an item on flash through a ring of this thread's own.
fn found_through(ring: &mut ReadRing, cache: &Cache, number: u32) -> Option<Vec<u8>> {
    let hash = cache.hash(&key(number));
    let mut arrived = Vec::new();
    loop {
        let wanted = {
            let session = cache.session();
            session.deliver(arrived.drain(..));
            match session.look_up(&key(number), hash) {
                Lookup::Hit(item) => return Some(item.to_vec()),
                Lookup::Miss => return None,
                Lookup::Pending => session.take_wanted(),
            }
        };
        let (sender, receiver) = channel();
        let this = thread::current().id();
        let done = move |read| {
            assert_eq!(thread::current().id(), this);
            // The receiver waits for all of them.
            let _ = sender.send(read);
        };
        let count = wanted.len();
        cache.read_all_wanted([(wanted, done)], Some(ring));
        while arrived.len() < count {
            ring.answer();
            arrived.extend(receiver.try_iter());
            thread::yield_now();
        }
    }
}

#[test]
fn a_thread_with_a_ring_of_its_own_finds_the_same_and_answers_itself() {
    let folder = tempfile::tempdir().unwrap();
    let device = Arc::new(FileDevice::open(&folder.path().join("flash"), FLASH_BYTES).unwrap().0);
    let cache = builder(settings(device, None)).build().unwrap();
    let Some(mut ring) = cache.read_ring() else {
        return println!("not run: flash is read by {:?}", cache.start_flash_reads());
    };
    fill(&cache);
    let before = cache.stats().flash.unwrap();
    let mut found = 0;
    for number in (0..ITEMS).step_by(5) {
        if let Some(there) = found_through(&mut ring, &cache, number) {
            assert_eq!(there, value(number));
            found += 1;
        }
    }
    let flash = cache.stats().flash.unwrap();
    let hits = flash.hits - before.hits;
    assert!(found > 0 && hits > u64::from(ITEMS) / 50, "{found} found, {hits} on flash");
    assert_eq!((flash.fetch_bytes, flash.reads_failed), (0, 0));
}

#[test]
fn threads_that_read_leave_nobody_a_ring() {
    let folder = tempfile::tempdir().unwrap();
    let device = Arc::new(FileDevice::open(&folder.path().join("flash"), FLASH_BYTES).unwrap().0);
    let cache = builder(settings(device, Some(ReadMethod::Threads))).build().unwrap();
    assert!(cache.read_ring().is_none());
    assert!(Cache::builder().memory_bytes(8 << 20).build().unwrap().read_ring().is_none());
}
