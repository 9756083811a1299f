//! The prefixes that are being flushed: a small table that any thread asks without a lock.
//!
//! ```text
//!   version | used | number, bytes, 32 words | number, bytes, 32 words | ...
//! ```
//!
//! It is asked only while some flush is under way, and only about keys whose item is old enough to
//! be taken by it ([`crate::flush`]), or lies in the compressed zone. There are few prefixes, so a
//! look compares the key with each of them, eight bytes at a time.
//!
//! A writer holds a lock, and writes all of it anew between an odd version and the next even one. A
//! reader reads the version, the table, and the version again, and begins anew if that has changed:
//! an answer is always that of one state of the table, however entries come, go and change places.
//! No word is ever half written, because each is an atomic of its own.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock};

use stdx::sync::{Backoff, lock};

/// Prefixes that may be under way at the same time.
pub const FLUSHED_PREFIXES_MAX: usize = 256;
/// The longest prefix: as long as the longest key.
pub const PREFIX_BYTES_MAX: usize = 250;

const WORD_BYTES: usize = size_of::<u64>();
/// Words that the longest prefix fills.
const PREFIX_WORDS: usize = PREFIX_BYTES_MAX.div_ceil(WORD_BYTES);

/// The table is full.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A prefix, and the number of its last flush.
#[derive(Debug)]
struct Entry {
    prefix: Box<[u8]>,
    number: u64,
}

/// An entry as readers see it.
#[derive(Debug)]
struct Slot {
    number: AtomicU64,
    bytes: AtomicUsize,
    /// Zeros behind the last byte.
    words: [AtomicU64; PREFIX_WORDS],
}

#[derive(Debug)]
struct Slots {
    /// Odd while the table is written.
    version: AtomicU64,
    used: AtomicUsize,
    slots: Box<[Slot]>,
}

/// The table. Its slots are made when the first prefix is flushed.
#[derive(Debug, Default)]
pub(crate) struct FlushedPrefixes {
    entries: Mutex<Vec<Entry>>,
    slots: OnceLock<Slots>,
}

/// The table while it is changed. Readers see the changes once [`Changing::publish`] returns.
pub(crate) struct Changing<'t> {
    table: &'t FlushedPrefixes,
    entries: MutexGuard<'t, Vec<Entry>>,
}

impl FlushedPrefixes {
    /// Begins a change; no other thread changes anything meanwhile.
    pub(crate) fn change(&self) -> Changing<'_> {
        Changing { table: self, entries: lock(&self.entries) }
    }

    /// Whether a flush of one of the key's prefixes takes items with this number.
    pub(crate) fn takes(&self, key: &[u8], number: u64) -> bool {
        self.slots.get().is_some_and(|slots| slots.any(key, |of_slot| number <= of_slot))
    }

    /// Whether one of the key's prefixes is being flushed.
    pub(crate) fn has_prefix_of(&self, key: &[u8]) -> bool {
        self.slots.get().is_some_and(|slots| slots.any(key, |_| true))
    }

    /// Returns how many prefixes are being flushed.
    pub(crate) fn count(&self) -> usize {
        self.slots.get().map_or(0, |slots| slots.used.load(Ordering::Relaxed))
    }
}

impl Changing<'_> {
    /// Whether a prefix still finds room.
    pub(crate) fn has_room_for(&self, prefix: &[u8]) -> bool {
        let stays = |entry: &&Entry| !entry.prefix.starts_with(prefix);
        self.entries.iter().filter(stays).count() < FLUSHED_PREFIXES_MAX
    }

    /// Adds a prefix, in the place of those that begin with it: an earlier flush of itself, and
    /// those of longer ones.
    pub(crate) fn add(&mut self, prefix: &[u8], number: u64) -> Result<(), Full> {
        assert!((1..=PREFIX_BYTES_MAX).contains(&prefix.len()), "a prefix has 1 to 250 bytes");
        if !self.has_room_for(prefix) {
            return Err(Full);
        }
        self.entries.retain(|entry| !entry.prefix.starts_with(prefix));
        self.entries.push(Entry { prefix: prefix.into(), number });
        Ok(())
    }

    /// Removes the prefixes whose last flush has this number or a lower one.
    pub(crate) fn end(&mut self, number: u64) {
        self.entries.retain(|entry| entry.number > number);
    }

    /// Returns the highest number of a flush that is under way; 0 if there is none.
    pub(crate) fn highest(&self) -> u64 {
        self.entries.iter().map(|entry| entry.number).max().unwrap_or(0)
    }

    /// Lets readers see the changes.
    pub(crate) fn publish(&self) {
        if self.entries.is_empty() && self.table.slots.get().is_none() {
            return;
        }
        self.table.slots.get_or_init(Slots::new).write(&self.entries);
    }
}

impl Slots {
    fn new() -> Self {
        let slot = || Slot {
            number: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Self {
            version: AtomicU64::new(0),
            used: AtomicUsize::new(0),
            slots: (0..FLUSHED_PREFIXES_MAX).map(|_| slot()).collect(),
        }
    }

    /// Writes the whole table. By one thread at a time.
    fn write(&self, entries: &[Entry]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // Release: partner is the acquire fence in `any`. A reader that has read anything written
        // below sees the odd version after it.
        fence(Ordering::Release);
        self.used.store(entries.len(), Ordering::Relaxed);
        for (slot, entry) in self.slots.iter().zip(entries) {
            slot.number.store(entry.number, Ordering::Relaxed);
            slot.bytes.store(entry.prefix.len(), Ordering::Relaxed);
            for (word, bytes) in slot.words.iter().zip(entry.prefix.chunks(WORD_BYTES)) {
                word.store(word_of(bytes), Ordering::Relaxed);
            }
        }
        // Release: partner is the acquire in `any`. A reader that sees this version sees the table.
        self.version.store(version + 2, Ordering::Release);
    }

    /// Whether a prefix of the key has a number for which `agrees` is true.
    fn any(&self, key: &[u8], agrees: impl Fn(u64) -> bool) -> bool {
        let mut backoff = Backoff::default();
        loop {
            // Acquire: partner is the release at the end of `write`.
            let version = self.version.load(Ordering::Acquire);
            if version.is_multiple_of(2) {
                let used = self.used.load(Ordering::Relaxed);
                let is_any = self.slots[..used].iter().any(|slot| {
                    agrees(slot.number.load(Ordering::Relaxed)) && slot.is_prefix_of(key)
                });
                // Acquire: partner is the release fence in `write`.
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return is_any;
                }
            }
            backoff.wait();
        }
    }
}

impl Slot {
    fn is_prefix_of(&self, key: &[u8]) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let Some(beginning) = key.get(..bytes) else { return false };
        let mut words = beginning.chunks(WORD_BYTES).map(word_of).zip(&self.words);
        words.all(|(of_key, word)| word.load(Ordering::Relaxed) == of_key)
    }
}

/// Returns up to eight bytes as a word, with zeros behind them.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    fn add(table: &FlushedPrefixes, prefix: &[u8], number: u64) -> Result<(), Full> {
        let mut changing = table.change();
        changing.add(prefix, number)?;
        changing.publish();
        Ok(())
    }

    #[test]
    fn a_prefix_takes_the_older_items_of_its_keys_and_no_others() {
        let table = FlushedPrefixes::default();
        assert!(!table.takes(b"user:1", 1) && !table.has_prefix_of(b"user:1"));
        let long = [b'x'; PREFIX_BYTES_MAX];
        for prefix in [&b"user:"[..], b"12345678", b"a\0", &long] {
            add(&table, prefix, 7).expect("room");
        }
        for key in [&b"user:"[..], b"user:1", b"12345678", b"123456789", b"a\0", b"a\0b", &long] {
            assert!(table.takes(key, 7) && table.takes(key, 1) && !table.takes(key, 8), "{key:?}");
            assert!(table.has_prefix_of(key));
        }
        for key in [&b"user"[..], b"User:1", b"1234567", b"12345679", b"a", b"ab", &long[1..]] {
            assert!(!table.takes(key, 7) && !table.has_prefix_of(key), "{key:?}");
        }
    }

    #[test]
    fn a_later_flush_of_a_prefix_or_a_shorter_one_takes_its_place() {
        let table = FlushedPrefixes::default();
        for (prefix, number, count) in
            [(&b"ab"[..], 1, 1), (b"ab", 2, 1), (b"abc", 3, 2), (b"abd", 4, 3), (b"ab", 5, 1)]
        {
            add(&table, prefix, number).expect("room");
            assert_eq!(table.count(), count);
        }
        assert!(table.takes(b"abc", 5) && table.takes(b"ab", 5) && !table.takes(b"abd", 6));
        add(&table, b"abc", 9).expect("room");
        assert!(table.takes(b"abc", 9) && !table.takes(b"abd", 6));
        let mut changing = table.change();
        changing.end(5);
        assert_eq!(changing.highest(), 9);
        changing.publish();
        drop(changing);
        assert!(table.takes(b"abc", 9) && !table.takes(b"abd", 1) && table.count() == 1);
    }

    #[test]
    fn the_table_is_full_at_its_limit_and_then_takes_only_what_makes_room() {
        let table = FlushedPrefixes::default();
        for number in 0..FLUSHED_PREFIXES_MAX {
            add(&table, format!("p{number:03}:").as_bytes(), 1 + number as u64).expect("room");
        }
        assert_eq!(table.count(), FLUSHED_PREFIXES_MAX);
        assert_eq!(add(&table, b"another", 1000), Err(Full));
        assert!(!table.has_prefix_of(b"another") && table.has_prefix_of(b"p000:"));
        add(&table, b"p000:", 1001).expect("it is there already");
        add(&table, b"p1", 1002).expect("a hundred make room for it");
        assert_eq!(table.count(), FLUSHED_PREFIXES_MAX - 99);
        add(&table, b"another", 1003).expect("room");
    }

    #[test]
    fn an_answer_during_a_change_of_the_table_is_of_one_state() {
        let table = FlushedPrefixes::default();
        add(&table, b"always", 10).expect("room");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let ask = || {
                let mut asked = 0_u64;
                while !done.load(Ordering::Relaxed) || asked == 0 {
                    assert!(table.takes(b"always:1", 10), "whatever place its entry has");
                    // A mixture of two prefixes that come and go.
                    assert!(!table.has_prefix_of(b"11111111222222223"));
                    asked += 1;
                }
            };
            let askers = [scope.spawn(ask), scope.spawn(ask)];
            for number in 11..20_000 {
                let prefix: &[u8] =
                    if number % 2 == 0 { b"1111111111111111" } else { b"2222222222222222" };
                let mut changing = table.change();
                changing.entries.retain(|entry| &*entry.prefix == b"always");
                changing.entries.insert(0, Entry { prefix: prefix.into(), number });
                changing.entries.rotate_left((number % 3 == 0).into());
                changing.publish();
            }
            done.store(true, Ordering::Relaxed);
            askers.into_iter().for_each(|asker| asker.join().expect("it found nothing wrong"));
        });
    }
}
