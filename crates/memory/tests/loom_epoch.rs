//! Every interleaving of a pinned reader with a writer that unlinks, waits for the tag and frees.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p larder-memory --release --test loom_epoch`
//!
//! The models have teeth. Each of these makes one fail: `tag.0 + 1` in `Epochs::is_safe`; leaving
//! out the fence in `pin` or in `tag`; `Guard::tag` being the guard's own epoch; `advance` not
//! looking at the slots; a relaxed `Guard::drop`; a relaxed move of the epoch; a chunk that was
//! kept aside being written whatever its tag.
#![cfg(loom)]

use larder_memory::{Epochs, Tag};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Two things a pointer can lead to, and whether each was freed. The flags are not atomic, so loom
/// also objects when a read and the freeing are not ordered at all.
struct World {
    epochs: Epochs,
    pointer: AtomicUsize,
    freed: [UnsafeCell<bool>; 2],
}

// SAFETY: that no flag is read while it is written is what the models check.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            epochs: Epochs::new(),
            pointer: AtomicUsize::new(0),
            freed: [UnsafeCell::new(false), UnsafeCell::new(false)],
        })
    }

    fn read(&self) {
        let guard = self.epochs.pin();
        let seen = self.pointer.load(Ordering::Acquire);
        // SAFETY: loom checks that no thread writes it meanwhile.
        let freed = self.freed[seen].with(|freed| unsafe { *freed });
        assert!(!freed, "a pinned reader saw freed memory");
        drop(guard);
    }

    /// Unlinks the first thing and frees it if some moves of the epoch make that safe.
    fn replace(&self) {
        self.pointer.store(1, Ordering::Release);
        let tag = self.epochs.tag();
        self.free_if_safe(tag);
    }

    /// Does so with the thread pinned while it unlinks.
    fn replace_pinned(&self) {
        let guard = self.epochs.pin();
        self.pointer.store(1, Ordering::Release);
        let tag = guard.tag();
        drop(guard);
        self.free_if_safe(tag);
    }

    fn free_if_safe(&self, tag: Tag) {
        if self.epochs.try_reach(tag) {
            // SAFETY: loom checks that no thread reads it meanwhile.
            self.freed[0].with_mut(|freed| unsafe { *freed = true });
        }
    }
}

#[test]
fn a_pinned_reader_never_sees_freed_memory() {
    loom::model(|| {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read())
        };
        world.replace();
        reader.join().expect("the reader saw no freed memory");
    });
}

#[test]
fn a_reader_sees_no_freed_memory_while_others_move_the_epoch() {
    beside_a_reader_and_a_mover(World::replace);
}

#[test]
fn a_pinned_writer_needs_no_fence_of_its_own() {
    beside_a_reader_and_a_mover(World::replace_pinned);
}

fn beside_a_reader_and_a_mover(replace: fn(&World)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read())
        };
        let mover = {
            let world = world.clone();
            thread::spawn(move || world.epochs.advance() && world.epochs.advance())
        };
        replace(&world);
        reader.join().expect("the reader saw no freed memory");
        mover.join().expect("moving the epoch does not fail");
    });
}

/// Two keys that change places by way of a third chunk: the chunk that the first leaves is kept
/// aside, and the second moves there once no thread can see its previous item.
struct Swap {
    epochs: Epochs,
    /// Where each key is found, changed under the lock.
    places: [AtomicUsize; 2],
    table: Mutex<()>,
    /// Which key lies in each chunk.
    chunks: [UnsafeCell<usize>; 3],
}

// SAFETY: that no chunk is read while it is written is what the model checks.
unsafe impl Sync for Swap {}

impl Swap {
    fn read(&self, key: usize) {
        let guard = self.epochs.pin();
        let place = self.places[key].load(Ordering::Acquire);
        // SAFETY: loom checks that no thread writes it meanwhile.
        let found = self.chunks[place].with(|chunk| unsafe { *chunk });
        assert_eq!(found, key, "a pinned reader saw another key's item");
        drop(guard);
    }

    /// Copies the key's item to a chunk that no other thread has, and points the key there if it is
    /// still at `from`. Returns the tag of the old place if it did.
    fn relocate(&self, key: usize, from: usize, to: usize) -> Option<Tag> {
        let guard = self.epochs.pin();
        // SAFETY: loom checks that no thread writes the one, nor uses the other, meanwhile.
        let item = self.chunks[from].with(|chunk| unsafe { *chunk });
        // SAFETY: as above.
        self.chunks[to].with_mut(|chunk| unsafe { *chunk = item });
        let table = self.table.lock().expect("nobody panics under it");
        if self.places[key].load(Ordering::Relaxed) != from {
            return None;
        }
        self.places[key].store(to, Ordering::Release);
        drop(table);
        Some(guard.tag())
    }
}

#[test]
fn an_item_moved_to_a_kept_chunk_is_not_read_as_the_previous_one() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let swap = Arc::new(Swap {
            epochs: Epochs::new(),
            places: [AtomicUsize::new(0), AtomicUsize::new(1)],
            table: Mutex::new(()),
            chunks: [UnsafeCell::new(0), UnsafeCell::new(1), UnsafeCell::new(usize::MAX)],
        });
        let reader = {
            let swap = swap.clone();
            thread::spawn(move || (0..2).for_each(|key| swap.read(key)))
        };
        let tag = swap.relocate(0, 0, 2).expect("nobody else changes it");
        if swap.epochs.try_reach(tag) {
            swap.relocate(1, 1, 0).expect("nobody else changes it");
        }
        reader.join().expect("the reader saw each key's own item");
        (0..2).for_each(|key| swap.read(key));
    });
}

#[test]
fn two_readers_in_turn_share_a_slot() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                world.read();
                world.read();
            })
        };
        world.replace();
        reader.join().expect("the reader saw no freed memory");
    });
}
