//! No update is lost between threads: the final values are those that increments, appends, prepends
//! and swaps have answered, in the hot zone and when items are promoted from lower tiers.
//!
//! Every change of a key has a number, its CAS unique, and numbers of one key rise in the order of
//! its changes. So all that the threads were told is sorted by number afterwards and done once more
//! on a plain value, one change after the other: an increment must have returned one more than the
//! change before it, whichever thread made that; a swap must have come behind the value whose
//! unique it compared, with nothing between; and a read must have seen the value at its number.
//!
//! Items leave the cache meanwhile: then a thread adds the key anew. A changed item was there, so
//! no thread need know when that was. A promoted item has a new number, and the same value.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so with a panic")]

use std::sync::Arc;
use std::thread;

use io::ManualClock;
use io::device::{FakeDevice, Faults, PAGE_BYTES};
use larder::{
    Arithmetic, Attributes, Cache, Condition, Counted, FlashSettings, Refusal, Session, Side,
    Store, Stored,
};

const THREADS: u64 = 4;
/// Changes that each thread tries in a round.
const CHANGES: u64 = 60_000;
/// The most rounds. One is enough, unless the background comes to run so seldom that hardly any
/// item is demoted and promoted again.
const ROUNDS_MAX: u64 = 20;
/// Promoted items from which on it means anything that no update was lost.
const CAME_UP_MIN: u64 = 200;
/// More keys than the hot zone holds.
const KEYS: u64 = 12_000;
/// Keys that the threads share for a while, and for how many changes: then they go on to others,
/// and come back when these have been demoted.
const SHARED: u64 = 4;
const SHARED_CHANGES: u64 = 20;
const FLASH_BYTES: usize = 16 << 20;
/// Bytes behind each record, which do not compress.
const FILLER_BYTES: usize = 500;
/// The most records of a value: with more, it begins anew.
const RECORDS_MAX: usize = 6;
/// The factor of a counter's first value, which is a number of its own times this.
const COUNTER_SCALE: u64 = 1000;
const NOW: u32 = 1_800_000_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Tiers {
    Hot,
    Compressed,
    Flash,
}

/// An answer that a thread got of a key.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    /// It was stored anew, with these records.
    Stored(Vec<u64>),
    /// A record came behind the others, or before them.
    Joined(Side, u64),
    /// The records took the place of the value with this unique.
    Swapped(u64, Vec<u64>),
    /// The counter has this value.
    Counted(u64),
    /// These records were read.
    Read(Vec<u64>),
}

/// A key, the number, and the answer.
type Entry = (u64, u64, Told);

struct Client<'t> {
    cache: &'t Cache,
    clock: &'t ManualClock,
    thread: u64,
    /// The number of the record that is written next: no other thread has it.
    record: u64,
    log: Vec<Entry>,
}

fn name(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

fn is_counter(key: u64) -> bool {
    key.is_multiple_of(4)
}

fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Returns a record as it stands in a value, with noise behind it.
fn bytes_of(record: u64) -> Vec<u8> {
    let mut bytes = record.to_le_bytes().to_vec();
    let words = (0..FILLER_BYTES as u64 / 8).map(|at| mixed(record ^ (at << 48)));
    bytes.extend(words.flat_map(u64::to_le_bytes));
    bytes
}

fn records_of(value: &[u8]) -> Vec<u64> {
    let records = value.chunks(bytes_of(0).len());
    let record = |bytes: &[u8]| {
        let record = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == bytes_of(record), "a record is as it was written");
        record
    };
    records.map(record).collect()
}

impl Client<'_> {
    fn run(&mut self, round: u64) {
        for number in round * CHANGES..(round + 1) * CHANGES {
            let group = number / SHARED_CHANGES * SHARED;
            let key = (group + mixed(number ^ (self.thread << 56)) % SHARED) % KEYS;
            if is_counter(key) {
                self.count(key)
            } else {
                self.change(key, number)
            }
            if number.is_multiple_of(16) {
                // The background has as much time as it wants.
                self.clock.advance_us(10_000);
                self.cache.maintain();
            }
        }
    }

    fn next_record(&mut self) -> u64 {
        self.record += THREADS;
        self.record
    }

    fn put(&self, key: u64, value: &[u8], condition: Condition) -> Option<u64> {
        match self.cache.put(&name(key), value, Attributes::default(), condition) {
            Ok(Stored::Stored { cas }) => Some(cas),
            Ok(_) | Err(Refusal::NoMemory) => None,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    fn count(&mut self, key: u64) {
        let (name, hash) = (name(key), self.cache.hash(&name(key)));
        let count = |session: &Session<'_>| session.arithmetic(&name, hash, &Arithmetic::INCREMENT);
        match self.cache.with_memory(count) {
            Ok(Counted::Value { value, cas, .. }) => {
                self.log.push((key, cas, Told::Counted(value)));
            }
            Ok(Counted::NotFound) => {
                let first = self.next_record() * COUNTER_SCALE;
                // As long as other values, so that it is demoted as they are.
                let mut text = format!("{first}");
                text.extend(std::iter::repeat_n(' ', FILLER_BYTES));
                if let Some(cas) = self.put(key, text.as_bytes(), Condition::Absent) {
                    self.log.push((key, cas, Told::Counted(first)));
                }
            }
            Err(Refusal::NoMemory) => {}
            other => panic!("{other:?}"),
        }
    }

    fn change(&mut self, key: u64, number: u64) {
        match mixed(number ^ (self.thread << 40)) % 8 {
            0..=2 => self.join(key, Side::Back),
            3 => self.join(key, Side::Front),
            _ => self.swap(key),
        }
    }

    fn join(&mut self, key: u64, side: Side) {
        let record = self.next_record();
        let (name, value) = (name(key), bytes_of(record));
        let joined = self.cache.with_memory(|session| {
            let mut draft = self.cache.reserve(&name, Attributes::default(), value.len())?;
            draft.write(&value);
            let store = Store::when(Condition::Present);
            session.concat(draft, side, store, None).map_err(|(_, refusal)| refusal)
        });
        match joined {
            Ok(Stored::Stored { cas }) => self.log.push((key, cas, Told::Joined(side, record))),
            Ok(Stored::NotStored) => self.add(key),
            Err(Refusal::NoMemory) => {}
            other => panic!("{other:?}"),
        }
    }

    fn add(&mut self, key: u64) {
        let record = self.next_record();
        if let Some(cas) = self.put(key, &bytes_of(record), Condition::Absent) {
            self.log.push((key, cas, Told::Stored(vec![record])));
        }
    }

    /// Puts another record in the place of the first, or in that of all if there are many.
    fn swap(&mut self, key: u64) {
        let (name, hash) = (name(key), self.cache.hash(&name(key)));
        let seen = self.cache.with_memory(|session| {
            let item = session.get_with_cas(&name, hash)?;
            Ok(item.map(|item| (item.cas(), item.to_vec())))
        });
        let (cas, value) = match seen {
            Ok(Some(seen)) => seen,
            Ok(None) => return self.add(key),
            Err(refusal) => return assert_eq!(refusal, Refusal::NoMemory),
        };
        let mut records = records_of(&value);
        self.log.push((key, cas, Told::Read(records.clone())));
        if records.len() > RECORDS_MAX {
            records.clear();
        }
        let kept = records.split_off(records.len().min(1));
        let records: Vec<u64> = std::iter::once(self.next_record()).chain(kept).collect();
        let value: Vec<u8> = records.iter().flat_map(|&record| bytes_of(record)).collect();
        if let Some(swapped) = self.put(key, &value, Condition::Unique(cas)) {
            self.log.push((key, swapped, Told::Swapped(cas, records)));
        }
    }
}

/// Does all of it once more, in the order of the numbers.
fn check(mut log: Vec<Entry>) {
    // A read has the number of the value that it saw: it comes behind that.
    log.sort_by_key(|(key, cas, told)| (*key, *cas, matches!(told, Told::Read(_))));
    for entries in log.chunk_by(|one, next| one.0 == next.0) {
        let key = entries[0].0;
        let (mut records, mut count, mut changed_at) = (Vec::new(), 0, 0);
        for (_, cas, told) in entries {
            let is_change = !matches!(told, Told::Read(_));
            assert!(!is_change || *cas > changed_at, "key {key}: two changes have number {cas}");
            match told {
                Told::Stored(stored) => records = stored.clone(),
                Told::Joined(Side::Back, record) => records.push(*record),
                Told::Joined(Side::Front, record) => records.insert(0, *record),
                Told::Swapped(compared, swapped) => {
                    let is_latest = *compared >= changed_at && compared < cas;
                    assert!(is_latest, "key {key}: {cas} swapped {compared} after {changed_at}");
                    records = swapped.clone();
                }
                Told::Counted(first) if first.is_multiple_of(COUNTER_SCALE) => count = *first,
                Told::Counted(value) => {
                    count += 1;
                    assert_eq!(*value, count, "key {key}: what was counted at {cas}");
                }
                Told::Read(read) => assert_eq!(*read, records, "key {key}: read at {cas}"),
            }
            if is_change {
                changed_at = *cas;
            }
        }
    }
}

/// Returns the items promoted from each tier that there is, of the one with the fewest.
fn came_up(cache: &Cache) -> u64 {
    let stats = cache.stats();
    let zone = stats.compressed.map_or(u64::MAX, |zone| zone.promoted);
    zone.min(stats.flash.map_or(u64::MAX, |flash| flash.promoted))
}

#[test]
fn no_increment_append_or_swap_is_lost_between_threads() {
    for tiers in [Tiers::Hot, Tiers::Compressed, Tiers::Flash] {
        let clock = Arc::new(ManualClock::new(NOW));
        let builder = Cache::builder().memory_bytes(8 << 20).threads(THREADS as usize);
        // A compressed zone that wants to be small lets go of most items.
        let hot_target = if tiers == Tiers::Flash { 1.0 } else { 0.1 };
        let builder = builder.hot_target(hot_target).compress(tiers != Tiers::Hot);
        let mut builder = builder.clock(clock.clone());
        if tiers == Tiers::Flash {
            let device = FakeDevice::new((FLASH_BYTES / PAGE_BYTES) as u64, 1, Faults::default());
            let flash = FlashSettings::new(Arc::new(device), [1; 16]);
            builder = builder.flash(FlashSettings { threads: 2, ..flash });
        }
        let cache = builder.build().unwrap();
        let client = |thread| {
            let (cache, clock) = (&cache, &*clock);
            Client { cache, clock, thread, record: thread, log: Vec::new() }
        };
        let mut clients: Vec<_> = (0..THREADS).map(client).collect();
        let mut rounds = 0;
        while rounds < ROUNDS_MAX && (rounds == 0 || came_up(&cache) <= CAME_UP_MIN) {
            thread::scope(|scope| {
                for client in &mut clients {
                    scope.spawn(move || client.run(rounds));
                }
            });
            rounds += 1;
        }
        let log = clients.into_iter().flat_map(|client| client.log).collect::<Vec<_>>();
        let stats = cache.stats();
        println!("{tiers:?}: {} of {} were told", log.len(), rounds * THREADS * CHANGES);
        assert!(log.len() as u64 > rounds * THREADS * CHANGES / 4, "{stats:?}");
        assert!(came_up(&cache) > CAME_UP_MIN, "too little came up to mean anything: {stats:?}");
        check(log);
    }
}

/// What the test asks of a log: that it is refused if an update was lost.
#[test]
fn a_log_in_which_something_was_lost_is_refused() {
    let stored = |cas, record| (1, cas, Told::Stored(vec![record]));
    let refused: [Vec<Entry>; 4] = [
        vec![(0, 1, Told::Counted(5000)), (0, 2, Told::Counted(5001)), (0, 3, Told::Counted(5001))],
        vec![
            stored(1, 7),
            (1, 2, Told::Joined(Side::Back, 8)),
            (1, 3, Told::Joined(Side::Back, 9)),
            (1, 3, Told::Read(vec![7, 9])),
        ],
        vec![stored(1, 7), (1, 2, Told::Swapped(1, vec![8])), (1, 3, Told::Swapped(1, vec![9]))],
        vec![stored(1, 7), (1, 4, Told::Read(vec![6]))],
    ];
    for log in refused {
        assert!(std::panic::catch_unwind(|| check(log.clone())).is_err(), "{log:?}");
    }
    let promoted = (1, 3, Told::Read(vec![7]));
    check(vec![stored(1, 7), promoted, (1, 4, Told::Swapped(3, vec![8]))]);
}
