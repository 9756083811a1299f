//! Lists that workers fill and the admin thread empties, one for each worker.
//!
//! A worker never waits: if the other side holds the list, or it is full, the entry is lost and
//! counted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use stdx::CachePadded;
use stdx::sync::lock;

/// A worker's list.
#[derive(Debug)]
pub struct List<T> {
    list: Mutex<Vec<T>>,
    length_max: usize,
    lost: AtomicU64,
}

/// The entries lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Their number so far.
    pub count: u64,
    /// Whether a list was full now. If none was, the entries lost since the last time came while
    /// the other side held their list.
    pub is_full: bool,
}

/// The lists of all workers; none if there is no admin port.
#[derive(Debug)]
pub struct Lists<T>(Box<[CachePadded<List<T>>]>);

impl<T> Lists<T> {
    /// Lists of at most this length for this many workers.
    pub fn new(workers: usize, length_max: usize) -> Self {
        let list = || List { list: Mutex::default(), length_max, lost: AtomicU64::new(0) };
        Self((0..workers).map(|_| CachePadded(list())).collect())
    }

    /// A worker's own list, if there are lists.
    pub fn of(&self, worker: usize) -> Option<&List<T>> {
        self.0.get(worker).map(|list| &**list)
    }

    /// Gives all entries to `take`, and returns the losses. Each list is swapped with the empty
    /// `spare`, so that no worker waits for a copy, and workers hardly ever allocate.
    pub fn take(&self, spare: &mut Vec<T>, mut take: impl FnMut(T)) -> Lost {
        let mut lost = Lost { count: 0, is_full: false };
        for one in &self.0 {
            std::mem::swap(&mut *lock(&one.list), spare);
            lost.is_full |= spare.len() >= one.length_max;
            spare.drain(..).for_each(&mut take);
            lost.count += one.lost.load(Ordering::Relaxed);
        }
        lost
    }
}

impl<T> List<T> {
    /// Adds an entry, or loses it.
    pub fn add(&self, one: T) {
        match self.list.try_lock() {
            Ok(mut list) if list.len() < self.length_max => list.push(one),
            _ => _ = self.lost.fetch_add(1, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_loses_new_entries_and_counts_them() {
        let lists = Lists::new(1, 100);
        let list = lists.of(0).expect("there is one worker");
        (0..103).for_each(|number| list.add(number));
        let (mut spare, mut taken) = (Vec::new(), Vec::new());
        let lost = lists.take(&mut spare, |number| taken.push(number));
        assert_eq!(lost, Lost { count: 3, is_full: true });
        assert_eq!(taken, (0..100).collect::<Vec<_>>());
        list.add(7);
        let held = lock(&list.list);
        list.add(8);
        drop(held);
        taken.clear();
        let lost = lists.take(&mut spare, |number| taken.push(number));
        assert_eq!(lost, Lost { count: 4, is_full: false });
        assert_eq!(taken, [7], "a worker does not wait for the list");
        assert!(Lists::<u32>::new(0, 1).of(0).is_none());
    }
}
