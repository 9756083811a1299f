//! Statistics by namespace: requests by the first part of their keys, up to a delimiter, as in
//! memcached's `stats detail` and `-D`.
//!
//! ```text
//!   key "user:17" --":"--> "user" --> this worker's table: gets, hits, sets, deletes
//!                                            dump: all tables, added up
//! ```
//!
//! Each worker counts in a table of its own, behind a lock that is otherwise taken only for dumps,
//! resets and metrics, which is not every second. A worker that meets one of them waits while its
//! table is copied; the copy is added up without the lock.
//!
//! Only a name that is new to the worker is looked up among those of all workers, of which there
//! are at most [`NAMESPACES_MAX`]: keys with a delimiter near their end, and so as many names as
//! keys, fill a bounded table and are then left out.
//!
//! Whether namespaces are counted is a bit of the mask that commands check for watchers anyway
//! ([`crate::watch::DETAIL`]), so nothing is done, or looked at, where it is off.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock};

use stdx::CachePadded;
use stdx::sync::lock;

use crate::watch::key_text;

/// Names that are counted.
pub const NAMESPACES_MAX: usize = 1024;

/// The delimiter where none is chosen.
pub const DELIMITER: u8 = b':';

/// An act on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// It was requested, and found or not.
    Get {
        /// It was found.
        is_hit: bool,
    },
    /// A value was sent for it.
    Set,
    /// It was to be removed.
    Delete,
}

/// Counts of the acts on the keys of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys asked for.
    pub gets: u64,
    /// Of these, found.
    pub hits: u64,
    /// Values sent.
    pub sets: u64,
    /// Removals asked for.
    pub deletes: u64,
}

impl Counts {
    fn count(&mut self, act: Act) {
        match act {
            Act::Get { is_hit } => {
                self.gets += 1;
                self.hits += u64::from(is_hit);
            }
            Act::Set => self.sets += 1,
            Act::Delete => self.deletes += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.gets += other.gets;
        self.hits += other.hits;
        self.sets += other.sets;
        self.deletes += other.deletes;
    }
}

type Name = Box<[u8]>;

/// A worker's table.
#[derive(Debug, Default)]
struct Table {
    counts: HashMap<Name, Counts>,
    /// Acts that were not counted, because there were too many names.
    left_out: u64,
}

/// The tables of all workers.
#[derive(Debug)]
pub struct Namespaces {
    delimiter: u8,
    tables: Box<[CachePadded<Mutex<Table>>]>,
    /// The names in any of them. Locked after a table.
    names: RwLock<HashSet<Name>>,
}

/// The counts, by name in the order of bytes.
pub type Sums = BTreeMap<Name, Counts>;

impl Namespaces {
    /// For this many workers, and keys in which a namespace ends at a delimiter.
    pub fn new(workers: usize, delimiter: u8) -> Self {
        let tables = (0..workers).map(|_| CachePadded::default()).collect();
        Self { delimiter, tables, names: RwLock::default() }
    }

    /// The delimiter at which a namespace ends.
    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Counts a worker's act on a key, if the key has a namespace.
    pub fn count(&self, worker: usize, key: &[u8], act: Act) {
        let Some(name) = self.name_of(key) else { return };
        let mut table = lock(&self.tables[worker]);
        if let Some(counts) = table.counts.get_mut(name) {
            counts.count(act);
        } else if self.admits(name) {
            table.counts.entry(name.into()).or_default().count(act);
        } else {
            table.left_out += 1;
        }
    }

    /// The counts of all workers, and the number of acts left out.
    pub fn sums(&self) -> (Sums, u64) {
        let (mut sums, mut left_out) = (Sums::new(), 0);
        let mut copied = Vec::with_capacity(NAMESPACES_MAX);
        for table in &self.tables {
            {
                let table = lock(table);
                left_out += table.left_out;
                copied.extend(table.counts.iter().map(|(name, counts)| (name.clone(), *counts)));
            }
            for (name, counts) in copied.drain(..) {
                sums.entry(name).or_default().add(counts);
            }
        }
        (sums, left_out)
    }

    /// Counts from here on, and forgets the names.
    pub fn reset(&self) {
        let mut tables: Vec<_> = self.tables.iter().map(|table| lock(table)).collect();
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.clear();
        tables.iter_mut().for_each(|table| **table = Table::default());
    }

    /// The busiest namespaces, at most `count`, with their names as text.
    pub fn busiest(&self, count: usize) -> Vec<(String, Counts)> {
        let mut sums: Vec<_> = self.sums().0.into_iter().collect();
        sums.sort_by_key(|(_, counts)| Reverse(counts.gets + counts.sets + counts.deletes));
        sums.truncate(count);
        sums.into_iter().map(|(name, counts)| (key_text(&name), counts)).collect()
    }

    /// Appends the answer to `stats detail dump`.
    pub fn dump(&self, out: &mut Vec<u8>) {
        for (name, Counts { gets, hits, sets, deletes }) in self.sums().0 {
            out.extend_from_slice(b"PREFIX ");
            // Keys of the binary protocol and of Redis' may hold bytes that end a word or a line.
            if name.iter().any(|byte| matches!(byte, b' ' | b'\n')) {
                out.extend_from_slice(key_text(&name).as_bytes());
            } else {
                out.extend_from_slice(&name);
            }
            let counts = format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n");
            out.extend_from_slice(counts.as_bytes());
        }
    }

    /// The bytes before the first delimiter; as in memcached, nothing behind a zero byte counts.
    fn name_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let end = key.iter().position(|&byte| byte == self.delimiter || byte == 0)?;
        (key[end] == self.delimiter).then(|| &key[..end])
    }

    /// Whether a name is counted: it is known, or there is room for it.
    fn admits(&self, name: &[u8]) -> bool {
        {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            if names.contains(name) || names.len() >= NAMESPACES_MAX {
                return names.contains(name);
            }
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.contains(name) || (names.len() < NAMESPACES_MAX && names.insert(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(namespaces: &Namespaces) -> String {
        let mut out = Vec::new();
        namespaces.dump(&mut out);
        String::from_utf8(out).expect("names of this test are text")
    }

    #[test]
    fn keys_count_for_the_part_before_their_first_delimiter() {
        let namespaces = Namespaces::new(2, b':');
        let acts = [
            (&b"user:1"[..], Act::Set),
            (b"user:1:2", Act::Get { is_hit: true }),
            (b"user:", Act::Get { is_hit: false }),
            (b":x", Act::Delete),
            (b"user", Act::Set),
            (b"us\0er:1", Act::Set),
            (b"item/1:2", Act::Set),
        ];
        for (number, (key, act)) in acts.into_iter().enumerate() {
            namespaces.count(number % 2, key, act);
        }
        let lines = "PREFIX  get 0 hit 0 set 0 del 1\r\nPREFIX item/1 get 0 hit 0 set 1 del 0\r\n\
                     PREFIX user get 2 hit 1 set 1 del 0\r\n";
        assert_eq!(dump(&namespaces), lines);
        namespaces.reset();
        assert_eq!(dump(&namespaces), "");
        namespaces.count(0, b"user:1", Act::Delete);
        assert_eq!(dump(&namespaces), "PREFIX user get 0 hit 0 set 0 del 1\r\n");
    }

    /// Regression: a client read such a name as the end of the dump, and the rest as its next
    /// reply.
    #[test]
    fn a_name_ends_neither_its_line_nor_the_dump() {
        let namespaces = Namespaces::new(1, b':');
        for key in [&b"x\r\nEND\r\n:1"[..], b"a get 5:1", b"caf\xc3\xa9:1"] {
            namespaces.count(0, key, Act::Set);
        }
        let counts = "get 0 hit 0 set 1 del 0\r\n";
        let names = ["a%20get%205", "caf\u{e9}", "x%0D%0AEND%0D%0A"];
        assert_eq!(dump(&namespaces), names.map(|it| format!("PREFIX {it} {counts}")).concat());
    }

    #[test]
    fn the_limit_of_names_holds_for_all_workers_together() {
        let namespaces = Namespaces::new(4, b'/');
        let name = |number: usize| format!("n{number}/key").into_bytes();
        for number in 0..2 * NAMESPACES_MAX {
            namespaces.count(number % 4, &name(number), Act::Set);
        }
        let (sums, left_out) = namespaces.sums();
        assert_eq!((sums.len(), left_out), (NAMESPACES_MAX, NAMESPACES_MAX as u64));
        // Known names count with every worker.
        for worker in 0..4 {
            namespaces.count(worker, &name(0), Act::Get { is_hit: true });
        }
        let (sums, _) = namespaces.sums();
        assert_eq!(sums[&b"n0"[..]], Counts { gets: 4, hits: 4, sets: 1, deletes: 0 });
        namespaces.reset();
        namespaces.count(0, &name(2 * NAMESPACES_MAX), Act::Set);
        assert_eq!(namespaces.sums().0.len(), 1);
    }

    #[test]
    fn the_busiest_come_first_and_their_names_are_text() {
        let namespaces = Namespaces::new(1, b':');
        for (name, times) in [(&b"a:"[..], 1), (b"\xff b:", 3), (b"c:", 2)] {
            (0..times).for_each(|_| namespaces.count(0, name, Act::Delete));
        }
        let names: Vec<_> = namespaces.busiest(2).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["%FF%20b", "c"]);
    }

    #[test]
    fn no_count_of_many_workers_is_lost() {
        let namespaces = Namespaces::new(4, b':');
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let namespaces = &namespaces;
                scope.spawn(move || {
                    for number in 0..10_000 {
                        let key = format!("n{}:{number}", number % 10);
                        namespaces.count(worker, key.as_bytes(), Act::Set);
                    }
                });
            }
        });
        let (sums, left_out) = namespaces.sums();
        assert_eq!((sums.len(), left_out), (10, 0));
        assert!(sums.values().all(|counts| counts.sets == 4000));
    }
}
