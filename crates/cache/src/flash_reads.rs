//! Reads from flash for requests that wait, and how many bytes of them may be in memory at a time.
//!
//! ```text
//!   batch --room?--> submitted --> is read --> ReadResult --> a session --> dropped
//!     | no               ^                                                 |
//!     +--> queue --------+------------ its bytes come free ----------------+
//! ```
//!
//! A thread that asks for reads brings a ring of its own to read through, or threads of a pool
//! read. These also do the reads that had to wait for room.
//!
//! A unit may be as long as a segment, and any number of connections may wait. So a batch of reads
//! asks for its bytes before any of them is submitted, and has them until the results are dropped
//! ([`Held`]). A batch that finds no room waits in the order of arrival, behind those that came
//! before.
//!
//! No batch waits for itself: it gets all its bytes at once or has none, sessions ask for no more
//! than there can be ([`FlashReads::bytes_max`]), and a batch that is larger all the same gets its
//! turn alone. A result is dropped with the session it is delivered to, which ends before its next
//! batch is asked for or at once after it, and a connection that waits for its socket keeps none.
//!
//! Waiting reads take memory of their own, a hundred bytes each, and a session may ask for 64. So
//! while [`READS_MAX`] wait, a session asks for a single read ([`FlashReads::is_crowded`]), and for
//! the others when it has come: beyond that number wait one of each connection, and those that the
//! workers were about to ask for when it was reached.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use ::io::device::{Device, Done, PAGE_BYTES, Pages, ReadMethod, ReadPool, ReadRing};
use stdx::sync::lock;

/// One part in this of the memory limit is what results that are not dropped yet may take, beside
/// that limit.
const MEMORY_SHARE: usize = 32;
/// At least this many segments, each of which may be one long unit.
const SEGMENTS_MIN: usize = 2;
/// Waiting reads from which on a session asks for one at a time.
const READS_MAX: usize = 4096;
/// The least number of reads that may wait for a thread of the pool.
const READS_MIN: usize = 4096;

/// The reads of one tier.
pub(crate) struct FlashReads {
    device: Arc<dyn Device>,
    /// How to read; `None` leaves it to what the kernel allows.
    method: Option<ReadMethod>,
    threads: usize,
    /// `None` if the system gave no threads, or not the ring that was asked for. Started with the
    /// first read: a process that builds a cache may still fork.
    pool: OnceLock<Option<ReadPool>>,
    /// The bytes that there may always be, whatever the memory limit.
    bytes_min: usize,
    /// Reads that the pool has to take: of as many bytes as the highest limit allows.
    reads_max: usize,
    room: Mutex<Room>,
}

#[derive(Default)]
struct Room {
    bytes_max: usize,
    used_bytes: usize,
    /// The most bytes that were ever used.
    peak_bytes: usize,
    waiting: VecDeque<Batch>,
    /// Reads of all these batches.
    waiting_reads: usize,
}

/// Reads that begin together.
struct Batch {
    bytes: usize,
    reads: Vec<Fetch>,
}

/// A read: its pages, and the receiver of the result, which is `None` if the device failed.
pub(crate) struct Fetch {
    pub(crate) page: u64,
    pub(crate) pages: usize,
    pub(crate) done: Box<dyn FnOnce(Option<Pages>, Held) + Send>,
}

/// Bytes of memory that a read has, until this is dropped.
pub(crate) struct Held {
    fetches: Arc<FlashReads>,
    bytes: usize,
}

/// Counts of the reads under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FetchCounts {
    pub(crate) used_bytes: usize,
    pub(crate) peak_bytes: usize,
    pub(crate) waiting: usize,
}

impl Room {
    /// Takes bytes, if that many are free, or if none are taken.
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.used_bytes == 0 || self.used_bytes + bytes <= self.bytes_max;
        if has_room {
            self.used_bytes += bytes;
            self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        }
        has_room
    }

    /// Takes the bytes of the batches that have waited longest, as far as there are that many.
    fn take_waiting(&mut self) -> Vec<Batch> {
        let mut ready = Vec::new();
        while let Some(first) = self.waiting.front().map(|batch| batch.bytes)
            && self.take(first)
            && let Some(batch) = self.waiting.pop_front()
        {
            self.waiting_reads -= batch.reads.len();
            ready.push(batch);
        }
        ready
    }
}

impl FlashReads {
    /// Returns the reads of a device, by `method` or by what there is, and then by this many
    /// threads. For a cache with the first memory limit, which may rise to the second.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        method: Option<ReadMethod>,
        threads: usize,
        (memory_bytes, memory_bytes_max): (usize, usize),
        segment_bytes: usize,
    ) -> Self {
        let bytes_min = SEGMENTS_MIN * segment_bytes;
        let bytes_max = (memory_bytes_max / MEMORY_SHARE).max(bytes_min);
        let fetches = Self {
            device,
            method,
            threads: threads.max(1),
            pool: OnceLock::new(),
            bytes_min,
            reads_max: (bytes_max / PAGE_BYTES).max(READS_MIN),
            room: Mutex::default(),
        };
        lock(&fetches.room).bytes_max = fetches.share_of(memory_bytes);
        fetches
    }

    /// Gives reads their share of another memory limit. Batches beyond a smaller share keep it
    /// until they are dropped.
    pub(crate) fn resize(self: &Arc<Self>, memory_bytes: usize) {
        let ready = {
            let mut room = lock(&self.room);
            room.bytes_max = self.share_of(memory_bytes);
            room.take_waiting()
        };
        self.start(ready, None);
    }

    fn share_of(&self, memory_bytes: usize) -> usize {
        (memory_bytes / MEMORY_SHARE).max(self.bytes_min)
    }

    /// Returns the most bytes that a batch should ask for.
    pub(crate) fn bytes_max(&self) -> usize {
        lock(&self.room).bytes_max
    }

    /// Whether so many reads wait that a session should ask for one only.
    pub(crate) fn is_crowded(&self) -> bool {
        lock(&self.room).waiting_reads >= READS_MAX
    }

    pub(crate) fn counts(&self) -> FetchCounts {
        let Room { used_bytes, peak_bytes, ref waiting, .. } = *lock(&self.room);
        FetchCounts { used_bytes, peak_bytes, waiting: waiting.len() }
    }

    /// Returns for how many seconds the device has left something unanswered; 0 if nothing is.
    pub(crate) fn unanswered_s(&self) -> u32 {
        self.device.unanswered().map_or(0, |unanswered| unanswered.age_s())
    }

    /// Has batches read, each at once, through the ring if there is one, or when there is room for
    /// it.
    pub(crate) fn submit(self: &Arc<Self>, batches: Vec<Vec<Fetch>>, ring: Option<&mut ReadRing>) {
        let mut ready = Vec::with_capacity(batches.len());
        {
            let mut room = lock(&self.room);
            for reads in batches {
                let bytes = reads.iter().map(|read| read.pages * PAGE_BYTES).sum();
                let batch = Batch { bytes, reads };
                if !room.waiting.is_empty() || !room.take(bytes) {
                    room.waiting_reads += batch.reads.len();
                    room.waiting.push_back(batch);
                } else {
                    ready.push(batch);
                }
            }
        }
        self.start(ready, ring);
    }

    /// Hands reads whose bytes are taken to the ring, and those that it does not take to the pool.
    fn start(self: &Arc<Self>, batches: Vec<Batch>, ring: Option<&mut ReadRing>) {
        if batches.is_empty() {
            return;
        }
        let reads = batches.into_iter().flat_map(|batch| batch.reads);
        let reads = reads.map(|Fetch { page, pages, done }| {
            let held = Held { fetches: Arc::clone(self), bytes: pages * PAGE_BYTES };
            let done: Done = Box::new(move |read| done(read.ok(), held));
            (page, pages, done)
        });
        let reads = match ring {
            Some(ring) => ring.submit_all(reads),
            None => reads.collect::<Vec<_>>(),
        };
        if reads.is_empty() {
            return;
        }
        let refused: Vec<Done> = match self.pool() {
            None => reads.into_iter().map(|(_, _, done)| done).collect(),
            Some(pool) => pool.submit_all(reads),
        };
        for done in refused {
            done(Err(io::Error::other("nobody can read it now")));
        }
    }

    /// Returns how flash is read; starts the reading if nothing was read yet. `None` if the system
    /// does not give what is needed.
    pub(crate) fn method(&self) -> Option<ReadMethod> {
        self.pool().map(ReadPool::method)
    }

    /// Returns how flash is read, if that was started.
    pub(crate) fn method_now(&self) -> Option<ReadMethod> {
        self.pool.get().and_then(Option::as_ref).map(ReadPool::method)
    }

    /// Returns a ring for the calling thread alone, if reads go through one and the kernel gives
    /// it.
    pub(crate) fn ring(&self) -> Option<ReadRing> {
        match self.method()? {
            ReadMethod::IoUring => ReadRing::new(Arc::clone(&self.device)).ok(),
            ReadMethod::Threads => None,
        }
    }

    fn pool(&self) -> Option<&ReadPool> {
        let device = Arc::clone(&self.device);
        let start = || ReadPool::new(device, self.method, self.threads, self.reads_max).ok();
        self.pool.get_or_init(start).as_ref()
    }

    fn give_back(self: &Arc<Self>, bytes: usize) {
        let ready = {
            let mut room = lock(&self.room);
            room.used_bytes -= bytes;
            room.take_waiting()
        };
        self.start(ready, None);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.fetches.give_back(self.bytes);
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("bytes", &self.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use ::io::device::{FakeDevice, Faults};

    use super::*;

    const SEGMENT_BYTES: usize = 16 * PAGE_BYTES;
    /// Two segments.
    const PAGES_MAX: usize = 32;

    fn fetches(faults: Faults) -> Arc<FlashReads> {
        let device = Arc::new(FakeDevice::new(1000, 1, faults));
        Arc::new(FlashReads::new(device, None, 2, (0, 1 << 30), SEGMENT_BYTES))
    }

    type Read = (Option<Pages>, Held);

    /// Submits a batch of reads, of these numbers of pages.
    fn submit(fetches: &Arc<FlashReads>, pages: &[usize]) -> Receiver<Read> {
        let (sender, receiver) = channel();
        let fetch = |&pages: &usize| {
            let sender = sender.clone();
            let done = Box::new(move |read, held| sender.send((read, held)).expect("a receiver"));
            Fetch { page: 0, pages, done }
        };
        fetches.submit(vec![pages.iter().map(fetch).collect()], None);
        receiver
    }

    fn counts(fetches: &FlashReads) -> (usize, usize) {
        let counts = fetches.counts();
        assert!(counts.peak_bytes >= counts.used_bytes);
        (counts.used_bytes / PAGE_BYTES, counts.waiting)
    }

    #[test]
    fn the_limit_is_a_share_of_memory_and_two_segments_at_least() {
        let device: Arc<dyn Device> = Arc::new(FakeDevice::new(1, 1, Faults::default()));
        let of = |memory_bytes| {
            let memory_bytes = (memory_bytes, memory_bytes);
            FlashReads::new(Arc::clone(&device), None, 1, memory_bytes, 1 << 20)
        };
        assert_eq!(of(0).bytes_max(), 2 << 20);
        assert_eq!(of(64 << 20).bytes_max(), 2 << 20);
        assert_eq!(of(1 << 30).bytes_max(), 32 << 20);
    }

    /// Regression: it was that of the limit at the start for ever.
    #[test]
    fn the_share_follows_the_memory_limit() {
        let fetches = fetches(Faults::default());
        let first = submit(&fetches, &[PAGES_MAX]);
        let waits = submit(&fetches, &[2 * PAGES_MAX, 1]);
        assert_eq!(counts(&fetches), (PAGES_MAX, 1));
        fetches.resize(4 * PAGES_MAX * PAGE_BYTES * MEMORY_SHARE);
        assert_eq!(fetches.bytes_max(), 4 * PAGES_MAX * PAGE_BYTES);
        assert_eq!(counts(&fetches), (3 * PAGES_MAX + 1, 0), "there is room for all of it now");
        fetches.resize(0);
        assert_eq!(fetches.bytes_max(), PAGES_MAX * PAGE_BYTES);
        drop(waits.iter().take(2).collect::<Vec<Read>>());
        let late = submit(&fetches, &[1]);
        assert_eq!(counts(&fetches), (PAGES_MAX, 1), "what was read under the old limit is there");
        drop(first.recv().expect("it was read"));
        drop(late.recv().expect("it is read now"));
        assert_eq!(counts(&fetches), (0, 0));
    }

    #[test]
    fn a_batch_without_room_waits_in_order_until_results_are_dropped() {
        let fetches = fetches(Faults::default());
        let first = submit(&fetches, &[10, 10]);
        let arrived: Vec<Read> = first.iter().take(2).collect();
        assert!(arrived.iter().all(|(pages, _)| pages.is_some()));
        assert_eq!(counts(&fetches), (20, 0));
        let large = submit(&fetches, &[15]);
        let small = submit(&fetches, &[1]);
        assert_eq!(counts(&fetches), (20, 2), "the small one does not overtake");
        let mut arrived = arrived.into_iter();
        drop(arrived.next());
        let large: Read = large.recv().expect("it is read now");
        let small: Read = small.recv().expect("and this");
        assert_eq!(counts(&fetches), (26, 0));
        drop((arrived, large, small));
        assert_eq!(counts(&fetches), (0, 0));
        assert_eq!(fetches.counts().peak_bytes, 26 * PAGE_BYTES);
    }

    #[test]
    fn the_limit_itself_is_reached_and_a_larger_batch_has_its_turn_alone() {
        let fetches = fetches(Faults::default());
        let whole = submit(&fetches, &[PAGES_MAX - 1, 1]);
        let whole: Vec<Read> = whole.iter().take(2).collect();
        assert_eq!(counts(&fetches), (PAGES_MAX, 0));
        let one = submit(&fetches, &[1]);
        let larger = submit(&fetches, &[PAGES_MAX, 1]);
        assert_eq!(counts(&fetches), (PAGES_MAX, 2));
        drop(whole);
        let one = one.recv().expect("there is room");
        assert_eq!(counts(&fetches), (1, 1));
        drop(one);
        let larger: Vec<Read> = larger.iter().take(2).collect();
        assert_eq!(counts(&fetches), (PAGES_MAX + 1, 0));
        drop(larger);
        assert_eq!(counts(&fetches), (0, 0));
    }

    #[test]
    fn it_is_crowded_while_as_many_reads_wait_as_may() {
        let fetches = fetches(Faults::default());
        let whole: Vec<Read> = submit(&fetches, &[PAGES_MAX]).iter().take(1).collect();
        assert!(!fetches.is_crowded());
        let mut batches: Vec<_> = (1..READS_MAX / 32).map(|_| submit(&fetches, &[1; 32])).collect();
        batches.push(submit(&fetches, &[1; 31]));
        assert!(!fetches.is_crowded());
        let last = submit(&fetches, &[1]);
        assert!(fetches.is_crowded());
        drop(whole);
        for batch in batches.iter().chain([&last]) {
            batch.iter().for_each(drop);
        }
        assert!(!fetches.is_crowded());
        assert_eq!((counts(&fetches), lock(&fetches.room).waiting_reads), ((0, 0), 0));
    }

    #[test]
    fn reads_that_fail_give_their_bytes_back_too() {
        let fetches = fetches(Faults { read_error: 1.0, ..Faults::default() });
        let batches: Vec<_> = (0..100).map(|_| submit(&fetches, &[PAGES_MAX, 1])).collect();
        for batch in batches {
            for (pages, held) in batch.iter().take(2) {
                assert!(pages.is_none());
                drop(held);
            }
        }
        assert_eq!(counts(&fetches), (0, 0));
    }

    #[test]
    fn many_threads_that_ask_at_once_get_their_turns_within_the_limit() {
        let fetches = fetches(Faults::default());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let fetches = &fetches;
                scope.spawn(move || {
                    for round in 0..200 {
                        let pages = [1 + (thread + round) % 16, 1 + round % 16];
                        let batch = submit(fetches, &pages);
                        assert_eq!(batch.iter().take(2).count(), 2);
                    }
                });
            }
        });
        let counts = fetches.counts();
        assert_eq!((counts.used_bytes, counts.waiting), (0, 0));
        assert!(counts.peak_bytes <= PAGES_MAX * PAGE_BYTES, "{counts:?}");
    }
}
