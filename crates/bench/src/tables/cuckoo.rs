//! MemC3's cuckoo table, and the steps that lead to it from the basic one.
//!
//! ```text
//!   bucket of 32 bytes   | word | word | word | word |      word: tag, 8 bits | place + 1
//!   b1 = hash            b2 = b1 xor mix(tag)               a word of zero is an empty slot
//! ```
//!
//! A key is in one of the eight slots of its two buckets. Without tags, a lookup compares the key
//! of every item there; with them only that of items whose tag matches. Insertion into two full
//! buckets searches paths of words that could move to their other bucket, several in parallel,
//! without moving any, and then moves backwards from the free slot, so that no key is ever absent.
//! One writer works at a time. Readers take the writer's lock, two of many small locks, or none and
//! check a version that is odd while words of their stripe move.
//!
//! A place is 32 bits and the tag is in the same word (in MemC3: a byte beside a pointer), and a
//! version belongs to a pair of buckets rather than to a key, so it is known from a word alone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard};

use super::{Items, Key, Table, Touch, Touched, hash};
use crate::random::Random;
use crate::random::mix;

const SLOTS: usize = 4;
/// Stripes of locks and of versions.
const STRIPES: usize = 4096;
/// Buckets that one search visits before it gives up, as in the authors' code.
const VISITS_MAX: usize = 500;

/// How a reader synchronises with writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// Takes the one lock.
    Global,
    /// Takes the locks of its two buckets.
    Striped,
    /// Takes none, and looks again if a version has changed.
    Optimistic,
}

/// Which of MemC3's steps a table has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How a reader synchronises with writers.
    pub locking: Locking,
    /// Whether tags spare most comparisons of keys.
    pub tags: bool,
    /// Paths that an insertion searches in parallel.
    pub paths: usize,
    /// The seed for choosing the words to move.
    pub seed: u64,
}

#[derive(Default)]
#[repr(align(32))]
struct Bucket([AtomicU64; SLOTS]);

/// The writer's state.
struct Writer {
    random: Random,
    items: u64,
    moves: u64,
}

/// The two buckets of a key or a word.
#[derive(Clone, Copy)]
struct Pair {
    first: usize,
    second: usize,
    tag: u64,
}

/// A word that would move, and its place.
#[derive(Clone, Copy)]
struct Step {
    bucket: usize,
    slot: usize,
    word: u64,
}

/// A cuckoo table of a fixed size.
pub struct Cuckoo {
    items: Items,
    settings: Settings,
    buckets: Vec<Bucket>,
    versions: Vec<AtomicU32>,
    locks: Vec<Mutex<()>>,
    writer: Mutex<Writer>,
}

impl Cuckoo {
    /// Returns an empty table with this many buckets, a power of two.
    pub fn new(items: Items, buckets: usize, settings: Settings) -> Cuckoo {
        assert!(buckets.is_power_of_two(), "the other bucket is found by xor");
        let writer = Writer { random: Random::new(settings.seed), items: 0, moves: 0 };
        Cuckoo {
            items,
            settings,
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            versions: (0..STRIPES).map(|_| AtomicU32::new(0)).collect(),
            locks: (0..STRIPES).map(|_| Mutex::default()).collect(),
            writer: Mutex::new(writer),
        }
    }

    /// Returns the number of slots of the table.
    pub fn slots(&self) -> u64 {
        (self.buckets.len() * SLOTS) as u64
    }

    /// Returns the items inserted and the words moved for them.
    pub fn counts(&self) -> (u64, u64) {
        let writer = self.writer();
        (writer.items, writer.moves)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("nobody panics")
    }

    #[inline]
    fn pair(&self, hash: u64) -> Pair {
        let first = hash as usize & (self.buckets.len() - 1);
        let tag = hash >> 56;
        Pair { first, second: self.other(first, tag), tag }
    }

    #[inline]
    fn other(&self, bucket: usize, tag: u64) -> usize {
        (bucket ^ mix(tag + 1) as usize) & (self.buckets.len() - 1)
    }

    #[inline]
    fn find(&self, wanted: &Key, touch: &mut impl Touch) -> Option<u32> {
        let pair = self.pair(hash(wanted));
        match self.settings.locking {
            Locking::Global => {
                let _held = self.writer();
                self.look(wanted, pair, touch)
            }
            Locking::Striped => {
                let _held = self.lock(pair.first, pair.second);
                self.look(wanted, pair, touch)
            }
            Locking::Optimistic => loop {
                let version = &self.versions[stripe(pair.first, pair.second)];
                // Acquire: partner is the release after a move.
                let before = version.load(Ordering::Acquire);
                let found = self.look(wanted, pair, touch);
                // Acquire: the words read are not newer than the version read in the next line.
                fence(Ordering::Acquire);
                if before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before {
                    return found;
                }
                std::hint::spin_loop();
            },
        }
    }

    /// Looks at both buckets once.
    #[inline]
    fn look(&self, wanted: &Key, pair: Pair, touch: &mut impl Touch) -> Option<u32> {
        for bucket in [pair.first, pair.second] {
            touch.line();
            for slot in &self.buckets[bucket].0 {
                // Acquire: partner is the release in `store`.
                let word = slot.load(Ordering::Acquire);
                if word == 0 || (self.settings.tags && word >> 32 != pair.tag) {
                    continue;
                }
                touch.item();
                if self.items[place(word) as usize] == *wanted {
                    return Some(place(word));
                }
            }
        }
        None
    }

    /// Returns the locks of two buckets, in order.
    #[inline]
    fn lock(
        &self,
        first: usize,
        second: usize,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (low, high) = (first.min(second) % STRIPES, first.max(second) % STRIPES);
        let (low, high) = (low.min(high), low.max(high));
        let held = |stripe: usize| self.locks[stripe].lock().expect("nobody panics");
        (held(low), (low != high).then(|| held(high)))
    }

    fn free_slot(&self, bucket: usize) -> Option<usize> {
        self.buckets[bucket].0.iter().position(|slot| slot.load(Ordering::Relaxed) == 0)
    }

    fn load(&self, bucket: usize, slot: usize) -> u64 {
        self.buckets[bucket].0[slot].load(Ordering::Relaxed)
    }

    fn store(&self, bucket: usize, slot: usize, word: u64) {
        self.buckets[bucket].0[slot].store(word, Ordering::Release);
    }

    /// Returns a free slot in one of a key's buckets, made by moving words if need be.
    fn room(&self, writer: &mut Writer, pair: Pair) -> Option<(usize, usize)> {
        let mut visits = 0;
        loop {
            // Also after a path that ended early: it may have freed one of these.
            for bucket in [pair.first, pair.second] {
                if let Some(slot) = self.free_slot(bucket) {
                    return Some((bucket, slot));
                }
            }
            let (path, free) = self.search(writer, pair, &mut visits)?;
            if let Some(room) = self.execute(writer, &path, free) {
                return Some(room);
            }
        }
    }

    /// Follows the paths a step at a time, each in turn, to a bucket with a free slot.
    fn search(
        &self,
        writer: &mut Writer,
        pair: Pair,
        visits: &mut usize,
    ) -> Option<(Vec<Step>, (usize, usize))> {
        let start = |path: usize| if path.is_multiple_of(2) { pair.first } else { pair.second };
        let mut heads: Vec<usize> = (0..self.settings.paths).map(start).collect();
        let mut paths: Vec<Vec<Step>> = vec![Vec::new(); self.settings.paths];
        while *visits < VISITS_MAX {
            for (head, path) in heads.iter_mut().zip(&mut paths) {
                *visits += 1;
                let (bucket, slot) = (*head, writer.random.below(SLOTS as u64) as usize);
                let word = self.load(bucket, slot);
                path.push(Step { bucket, slot, word });
                *head = self.other_of(bucket, word);
                if let Some(free) = self.free_slot(*head) {
                    return Some((std::mem::take(path), (*head, free)));
                }
            }
        }
        None
    }

    /// Returns the other bucket of a word. Without tags, its item tells.
    fn other_of(&self, bucket: usize, word: u64) -> usize {
        if self.settings.tags {
            return self.other(bucket, word >> 32);
        }
        let pair = self.pair(hash(&self.items[place(word) as usize]));
        if pair.first == bucket { pair.second } else { pair.first }
    }

    /// Moves the words of a path, from its end to its beginning. A path that crosses itself ends
    /// early: the moved words stay where they are, and another path is searched.
    fn execute(
        &self,
        writer: &mut Writer,
        path: &[Step],
        free: (usize, usize),
    ) -> Option<(usize, usize)> {
        let mut target = free;
        for step in path.iter().rev() {
            if self.load(step.bucket, step.slot) != step.word || self.load(target.0, target.1) != 0
            {
                return None;
            }
            self.move_word(*step, target);
            writer.moves += 1;
            target = (step.bucket, step.slot);
        }
        Some(target)
    }

    fn move_word(&self, step: Step, target: (usize, usize)) {
        let locked = self.settings.locking == Locking::Striped;
        let _held = locked.then(|| self.lock(step.bucket, target.0));
        let version = &self.versions[stripe(step.bucket, target.0)];
        version.fetch_add(1, Ordering::Relaxed);
        // Release: a reader that sees a word of this move sees the odd version afterwards.
        fence(Ordering::Release);
        self.store(target.0, target.1, step.word);
        self.store(step.bucket, step.slot, 0);
        // Release: partner is the acquire in `find`.
        version.fetch_add(1, Ordering::Release);
    }
}

fn stripe(first: usize, second: usize) -> usize {
    first.min(second) % STRIPES
}

fn place(word: u64) -> u32 {
    word as u32 - 1
}

impl Table for Cuckoo {
    fn insert(&self, place: u32) -> bool {
        let pair = self.pair(hash(&self.items[place as usize]));
        let mut writer = self.writer();
        let Some((bucket, slot)) = self.room(&mut writer, pair) else {
            return false;
        };
        self.store(bucket, slot, pair.tag << 32 | u64::from(place + 1));
        writer.items += 1;
        true
    }

    fn find_all(&self, wanted: &[Key]) -> u64 {
        wanted.iter().filter(|key| self.find(key, &mut ()).is_some()).count() as u64
    }

    fn touched(&self, wanted: &Key) -> Option<Touched> {
        let mut touched = Touched::default();
        self.find(wanted, &mut touched);
        Some(touched)
    }

    fn bytes(&self) -> u64 {
        let versions = size_of_val(&self.versions[..]);
        let locks = size_of_val(&self.locks[..]);
        let readers = match self.settings.locking {
            Locking::Global => 0,
            Locking::Striped => locks,
            Locking::Optimistic => versions,
        };
        (size_of_val(&self.buckets[..]) + readers) as u64
    }
}
